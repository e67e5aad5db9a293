"""Writes ``constraints.txt``: the exact version of everything that pyproject.toml leads to.

Run it in an environment whose versions have passed the tests (``make constraints``).
Local version parts (``+cpu``) are dropped, so that the file resolves on any index.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
HEADER = "# The versions that the tests pass with. Written by `make constraints`.\n"


def requirements(pyproject: Path) -> list[Requirement]:
    """What the project and its extras ask for, but those that `make setup` leaves out."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project.get("optional-dependencies", {})
    # inspect_ai and the documentation have environments of their own, pinned in scripts/*.txt.
    # `make setup` leaves bitsandbytes out: it has no build for every platform.
    apart = ("docs", "inspect", "quantization")
    here = [extra for name, extra in extras.items() if name not in apart]
    lines = [*project["dependencies"], *(line for extra in here for line in extra)]
    return [Requirement(line) for line in lines if not line.startswith("scenewright[")]


def closure(wanted: Iterable[Requirement]) -> dict[str, str]:
    """Name → public version of every installed distribution that ``wanted`` leads to.

    Markers are evaluated for the running interpreter. Raises ``SystemExit`` naming a
    requirement that is missing or installed in a version it does not allow.
    """
    found: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    todo = [(requirement, "") for requirement in wanted]
    while todo:
        requirement, extra = todo.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        try:
            installed = distribution(requirement.name)
        except PackageNotFoundError:
            sys.exit(f"{requirement} is not installed here: run 'make setup' and 'make ray' first")
        if not requirement.specifier.contains(installed.version, prereleases=True):
            sys.exit(
                f"{requirement} is asked for, {installed.version} is installed: run 'make setup'"
            )
        name = canonicalize_name(requirement.name)
        found[name] = installed.version.partition("+")[0]
        for part in {"", *requirement.extras}:
            if (name, part) not in seen:
                seen.add((name, part))
                todo += [(Requirement(line), part) for line in installed.requires or []]
    return found


def text(pins: dict[str, str]) -> str:
    """The file's content."""
    return HEADER + "".join(f"{name}=={version}\n" for name, version in sorted(pins.items()))


if __name__ == "__main__":
    target = ROOT / "constraints.txt"
    target.write_text(text(closure(requirements(ROOT / "pyproject.toml"))), encoding="utf-8")
    print(f"wrote {target.relative_to(ROOT)}")
