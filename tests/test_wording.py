"""Plain words: no private names, and texts that begin with their subject."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "scenewright"
NAMES = frozenset(
    [
        "worked_out",
        "kit",
        "_told",
        "_planned",
        "_move",
        "_situation",
        "_over",
        "waits",
        "tell_drawn",
        "_told_of",
        "retries_told",
        "paid_as",
        "Glance",
        "glance",
        "_weighed",
        "_Room",
        "_united",
        "_sure",
        "SURE",
        "_own_references",
        "where_seen",
        "settled",
        "rules_out",
        "_most_held",
        "by_label",
        "asked_by_label",
        "told_by_attributes",
        "Ballots",
        "ballots",
        "lead_of",
        "leads",
        "weighing",
        "weighed",
        "bare",
        "bare_votes",
        "_voices",
        "_of_voices",
        "check_apart",
        "apart_problem",
        "doubled",
        "_reached",
        "_Reached",
        "panel_of",
        "judge_of",
        "chat_of",
        "caller_of",
        "demand_models",
        "demand",
        "taken_in",
        "wish",
        "wishes",
        "Aside",
        "in_turn",
        "give_up",
        "order",
        "ordered",
        "Commission",
        "Order",
        "order_for",
        "heard",
        "in_words",
        "call_in",
        "bound",
        "missed",
        "begin_anew",
        "came",
        "_answered",
        "_sent",
        "_tell",
        "_pay",
        "made_here",
        "reads_whole",
        "carried_out",
        "told_of",
        "Asked",
        "Look",
        "Spent",
        "Kept",
        "Own",
        "Now",
        "Said",
        "lacking",
        "lacks",
        "held",
        "mine",
        "apart",
        "begun",
        "unread_by",
        "asked_of",
        "told",
    ]
)
"""Names that say nothing of what a thing is."""
LEFT = frozenset(
    [
        "agents/composers/editing.py:told",
        "agents/judges/decisions/reading.py:weighed",
        "agents/judges/families.py:leads",
        "agents/panel/guarantee.py:bound",
        "agents/parsers/links.py:waits",
        "agents/parsers/mentions.py:bare",
        "agents/parsers/mentions.py:told",
        "core/facts.py:held",
        "core/facts.py:wishes",
        "core/inflection.py:ordered",
        "graphs/checkpoints.py:begun",
        "graphs/director_tools.py:told",
        "graphs/reporting.py:doubled",
        "mock_providers/faults.py:told",
        "runs/readiness.py:lacking",
        "runs/record.py:settled",
        "runs/report/words.py:begun",
        "runs/report/words.py:held",
        "service/core/artifacts/stored.py:begun",
        "service/core/jobs/base.py:waits",
        "service/core/jobs/procrastinating.py:waits",
        "service/core/observing/observers.py:heard",
        "service/core/store.py:told",
        "service/mcp/replies.py:told",
        "tools/director.py:Look",
        "tools/vision/extraction/building.py:told",
        "tools/vision/extraction/judged_parser.py:SURE",
    ]
)
"""Names that are stored, sent, or left for another change: this list only becomes shorter."""
OPENINGS = re.compile(
    r"^(What|Who|Whose|Where|How|Those|Likewise|Of what|Of which|Says|Tells|Told)\b(?! is\b.*\?)"
)
"""Openings of a docstring that do not name their subject."""


@cache
def modules() -> tuple[tuple[str, ast.Module], ...]:
    """Return name and tree of every module of the rooms that are held to this."""
    return tuple(
        (str(path.relative_to(PACKAGE)), ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] not in ("evals", "miniature")
    )


def definitions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield name and line of the functions, classes, fields and constants of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        if isinstance(node, ast.ClassDef | ast.Module):
            for one in node.body:
                targets = one.targets if isinstance(one, ast.Assign) else []
                if isinstance(one, ast.AnnAssign):
                    targets = [one.target]
                for target in targets:
                    if isinstance(target, ast.Name):
                        yield target.id, one.lineno


def docstrings(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield every docstring of a module, those below fields and constants included."""
    for node in ast.walk(tree):
        for one in (
            getattr(node, "body", ()) if not isinstance(node, ast.Lambda | ast.IfExp) else ()
        ):
            if (
                isinstance(one, ast.Expr)
                and isinstance(one.value, ast.Constant)
                and isinstance(one.value.value, str)
            ):
                yield one.value.value.strip(), one.lineno


def test_definitions_have_plain_names() -> None:
    private = [
        f"{module}:{line} {name}"
        for module, tree in modules()
        for name, line in definitions(tree)
        if name in NAMES and f"{module}:{name}" not in LEFT
    ]
    assert not private, "name the thing (docs/architecture.md):\n" + "\n".join(private)


def test_the_names_that_are_left_are_there() -> None:
    found = {f"{module}:{name}" for module, tree in modules() for name, _ in definitions(tree)}
    assert found >= LEFT, "take these out of LEFT: " + ", ".join(sorted(LEFT - found))


def test_texts_begin_with_their_subject() -> None:
    riddles = [
        f"{module}:{line} {text.splitlines()[0][:90]}"
        for module, tree in modules()
        for text, line in docstrings(tree)
        if OPENINGS.match(text)
    ]
    assert not riddles, "begin with the subject, or with a verb:\n" + "\n".join(riddles)


@pytest.mark.parametrize("text", ["What draws.", "Who asks.", "Likewise.", "Those of a role."])
def test_a_riddle_is_found(text: str) -> None:
    assert OPENINGS.match(text)
    assert not OPENINGS.match(f"Return {text.lower()}")
