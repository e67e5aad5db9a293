"""Provenance of results: a digest of the code that computes them.

A result that is kept is found again only while the code behind it is the same. That is the module
that computes it and all of this package that it imports, directly or not, at the top or within a
function, with the data files beside them. Imports for type checking alone compute nothing and do
not count, and neither do lines of comments, docstrings and blank lines.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Collection, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from scenewright.core.version import VERSION

_PACKAGE = "scenewright"
_ROOT = Path(__file__).parents[3]
_DATA = (".toml", ".md", ".j2", ".json")
"""Endings of data files that decide results, as code does."""


@cache
def code_digest(module: str) -> str:
    """Return the SHA-256 (hex) of a module's import closure and of the package's version."""
    found = hashlib.sha256(VERSION.encode())
    for file in import_closure(module):
        name = file.relative_to(_ROOT) if file.is_relative_to(_ROOT) else Path(file.name)
        found.update(name.as_posix().encode())
        found.update(file_digest(file).encode())
    return found.hexdigest()


def import_closure(
    module: str, packages: Collection[str] = (_PACKAGE,), leaves: Collection[str] = ()
) -> tuple[Path, ...]:
    """Return the files of ``module`` and of all of ``packages`` that it imports, sorted.

    Data files of a folder count where a module of it does. Imports of ``leaves`` are not followed.
    Raises ``LookupError`` for a module without a file.
    """
    seen: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        file = _file_of(name, _ROOT) or (_found(name) if name == module else None)
        if file is None:
            continue
        seen[name] = file
        if name not in leaves:
            waiting += [one for one in _imported(file) if one.partition(".")[0] in packages]
    folders = {file.parent for file in seen.values() if file.is_relative_to(_ROOT)}
    data = {file for folder in folders for file in folder.iterdir() if file.suffix in _DATA}
    return tuple(sorted({*seen.values(), *data}))


@cache
def file_digest(file: Path) -> str:
    """Return the SHA-256 (hex) of a file; of Python without what computes nothing."""
    text = file.read_bytes()
    return hashlib.sha256(_code(text) if file.suffix == ".py" else text).hexdigest()


def _code(source: bytes) -> bytes:
    """Return Python source without lines of comments, strings that stand alone and blank lines.

    The text is compared and not the syntax tree, whose form is another in each version of Python.
    """
    texts: set[int] = set()
    within: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant | ast.JoinedStr):
            within.update(range(node.lineno + 1, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str):
            texts.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(source.splitlines(), 1)
    return b"\n".join(
        line
        for at, line in lines
        if at not in texts and (at in within or (line.strip() and line.lstrip()[:1] != b"#"))
    )


@cache
def _file_of(name: str, root: Path) -> Path | None:
    place = root.joinpath(*name.split("."))
    return next((f for f in (place.with_suffix(".py"), place / "__init__.py") if f.is_file()), None)


def _found(name: str) -> Path:
    """Return the file of a module of somebody else's; raises ``LookupError``."""
    spec = None if name.partition(".")[0] == _PACKAGE else find_spec(name)
    if spec is None or spec.origin is None:
        raise LookupError(f"the module {name} has no file")
    return Path(spec.origin)


@cache
def _imported(file: Path) -> tuple[str, ...]:
    """Return the names of modules that a file may import when it runs."""
    return tuple(_imports_of(ast.parse(file.read_bytes())))


def _imports_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            yield from _imports_of(ast.Module(node.orelse, []))
        elif not isinstance(node, ast.expr):
            yield from _imports_of(node)
