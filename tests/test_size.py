"""The package keeps to its budgets of code lines and helpers."""

from __future__ import annotations

import ast

from scripts import size


def test_every_room_keeps_to_its_budget() -> None:
    most, found = size.budgets(), size.sizes()
    assert set(most) == set(found), "scripts/budgets.toml: name each room once"
    over = {room: (one.lines, most[room]) for room, one in found.items() if one.lines > most[room]}
    assert not over, (
        f"rooms over their budget of code lines: {over}. Take out what is said twice, or raise the "
        "budget in scripts/budgets.toml and say why in CHANGELOG.md"
    )
    # A budget that is far above its room would let it grow back.
    loose = {room: most[room] for room, one in found.items() if one.lines < 0.97 * most[room] - 20}
    assert not loose, f"rooms far below their budget: lower {loose} in scripts/budgets.toml"


def test_code_lines_are_lines_with_code() -> None:
    source = (
        '"""Text\n\nof two."""\n\nx = (\n    1,  # one\n)\n\n\n'
        'def _f():\n    """Say."""\n    # why\n    return x\n\n\n_f()\n'
    )
    tree = ast.parse(source)
    assert size.code_lines(source, tree) == 6
    assert size.helpers(tree) == 1
    assert size.helpers(ast.parse(source + "_f()\n")) == 0
