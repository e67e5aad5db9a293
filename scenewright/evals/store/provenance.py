"""Provenance of results: a digest of the code that computes them.

A result that is kept is found again only while the code behind it is the same. That is the module
that computes it and all of this package that it imports, directly or not, at the top or within a
function, with the data files beside them.
"""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from scenewright.core.version import VERSION

_PACKAGE = "scenewright"
_ROOT = Path(__file__).parents[2]
_DATA = (".toml", ".md", ".j2", ".json")
"""Endings of data files that decide results, as code does."""


@cache
def code_digest(module: str) -> str:
    """Return the SHA-256 (hex) of a module's import closure and of the package's version."""
    found = hashlib.sha256(VERSION.encode())
    for file in import_closure(module):
        name = file.relative_to(_ROOT) if file.is_relative_to(_ROOT) else Path(file.name)
        found.update(name.as_posix().encode())
        found.update(file.read_bytes())
    return found.hexdigest()


def import_closure(module: str) -> tuple[Path, ...]:
    """Return the files of ``module`` and of all of this package that it imports, sorted.

    Data files of a folder count where a module of it does; raises ``LookupError`` for a module
    without a file.
    """
    seen: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        file = _file_of(name)
        if file is None:
            if name == module:
                raise LookupError(f"the module {module} has no file")
            continue
        seen[name] = file
        waiting += _imported(file)
    folders = {file.parent for file in seen.values() if file.is_relative_to(_ROOT)}
    data = {file for folder in folders for file in folder.iterdir() if file.suffix in _DATA}
    return tuple(sorted({*seen.values(), *data}))


def _file_of(name: str) -> Path | None:
    if not name.startswith(_PACKAGE):
        spec = find_spec(name)
        return Path(spec.origin) if spec is not None and spec.origin else None
    place = _ROOT.joinpath(*name.split(".")[1:])
    return next((f for f in (place.with_suffix(".py"), place / "__init__.py") if f.is_file()), None)


@cache
def _imported(file: Path) -> tuple[str, ...]:
    """Return the names of modules of this package that a file may import."""
    found: list[str] = []
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            found += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
    return tuple(name for name in found if name.split(".")[0] == _PACKAGE)
