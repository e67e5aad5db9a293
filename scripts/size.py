"""Code lines and private helpers by room of the package, beside their budgets.

``python scripts/size.py`` prints a table. A code line holds code: blank lines, comments and
docstrings do not count. A helper is a private function without decorators that its file uses once.
Budgets are in ``scripts/budgets.toml``; ``tests/test_size.py`` holds the package to them.
"""

from __future__ import annotations

import ast
import io
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "scenewright"
BUDGETS = Path(__file__).with_name("budgets.toml")
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


@dataclass(slots=True)
class Size:
    """Size of a room."""

    lines: int = 0
    """Code lines."""
    functions: int = 0
    """Functions and methods."""
    helpers: int = 0
    """Private functions that their file uses once."""


def code_lines(source: str, tree: ast.Module) -> int:
    """Return the number of code lines of a module."""
    texts = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in _NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(lines - texts)


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield all functions and methods of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def helpers(tree: ast.Module) -> int:
    """Return the number of private functions without decorators that a module uses once."""
    uses: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            uses[node.id] += 1
        elif isinstance(node, ast.Attribute):
            uses[node.attr] += 1
    return sum(
        one.name.startswith("_")
        and not one.name.startswith("__")
        and not one.decorator_list
        and uses[one.name] == 1
        for one in functions(tree)
    )


def sizes() -> dict[str, Size]:
    """Return the size of each room; ``package`` is what lies in no folder."""
    found: dict[str, Size] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        room = found.setdefault(parts[0] if len(parts) > 1 else "package", Size())
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        room.lines += code_lines(source, tree)
        room.functions += sum(1 for _ in functions(tree))
        room.helpers += helpers(tree)
    return found


def budgets() -> dict[str, int]:
    """Return the most code lines of each room."""
    found: dict[str, int] = tomllib.loads(BUDGETS.read_text(encoding="utf-8"))["lines"]
    return found


def main() -> None:
    """Print the sizes beside the budgets."""
    most, found = budgets(), sizes()
    # Sizes are compared with other packages without the evaluations and the miniature.
    core = {room: size for room, size in found.items() if room not in ("evals", "miniature")}
    print(f"{'room':<16}{'lines':>8}{'budget':>8}{'functions':>11}{'helpers':>9}")
    for room, size in found.items():
        share = f"{size.helpers / max(1, size.functions):.1%}"
        print(f"{room:<16}{size.lines:>8}{most.get(room, 0):>8}{size.functions:>11}{share:>9}")
    for name, rooms in (("without both", core), ("all", found)):
        total = sum(size.lines for size in rooms.values())
        count = sum(size.functions for size in rooms.values())
        share = f"{sum(size.helpers for size in rooms.values()) / count:.1%}"
        print(f"{name:<16}{total:>8}{'':>8}{count:>11}{share:>9}")


if __name__ == "__main__":
    main()
