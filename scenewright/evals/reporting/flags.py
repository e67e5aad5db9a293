"""What is wrong with a picture, as the filters of the browser know it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntFlag
from typing import Any

from scenewright.core.facts import Fact

DISPUTED = 0.9
"""Disagreement in bits from which a verdict counts as disputed: the judges' mean probability then
lies between 0.32 and 0.68."""


class Flag(IntFlag):
    """One bit for each thing that the browser filters by."""

    OBJECT = 1
    """An object is absent."""
    ATTRIBUTE = 2
    """An attribute is wrong."""
    RELATION = 4
    """A relation is wrong, though both its objects are there."""
    VOID = 8
    """A fact was not asked, because its object is absent."""
    UNSCORED = 16
    """A fact could not be judged."""
    DISPUTED = 32
    """The panel is undecided on a fact: its judges disagree, or each is unsure."""
    FAILED = 64
    """There is no picture, because drawing failed."""
    MISSING = 128
    """There is nothing: not drawn, or not judged by this panel."""
    HOLDS = 256
    """Every fact holds."""


MEANINGS: Mapping[Flag, str] = {
    Flag.OBJECT: "an object is absent",
    Flag.ATTRIBUTE: "an attribute is wrong",
    Flag.RELATION: "a relation is wrong",
    Flag.VOID: "a fact was not asked (its object is absent)",
    Flag.UNSCORED: "a fact could not be judged",
    Flag.DISPUTED: "the panel is undecided (high disagreement)",
    Flag.FAILED: "drawing failed",
    Flag.MISSING: "not drawn or not judged",
    Flag.HOLDS: "every fact holds",
}
_OF_KIND = {"object": Flag.OBJECT, "attribute": Flag.ATTRIBUTE, "relation": Flag.RELATION}


def flags_of(verdicts: Iterable[Mapping[str, Any]], failed: bool) -> Flag:
    """The flags of a picture from the rows of its verdicts by one panel."""
    if failed:
        return Flag.FAILED
    found, states = Flag(0), []
    for row in verdicts:
        state = row["state"]
        states.append(state)
        if state == "no":
            found |= _OF_KIND.get(row["kind"], Flag(0))
        elif state == "void":
            found |= Flag.VOID
        elif state == "unscored":
            found |= Flag.UNSCORED
        if (row["disagreement"] or 0.0) >= DISPUTED:
            found |= Flag.DISPUTED
    if not states:
        return Flag.MISSING
    return found | Flag.HOLDS if all(state == "yes" for state in states) else found


def label_of(fact: Fact | None, row: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """What a fact that does not hold is about, over all items: ``object: dog``,
    ``relation: left of``, ``attribute: red``; its statement where more is not known.

    ``names`` gives an object's name by its id.
    """
    kind = str(row["kind"] or "fact")
    if fact is None:
        return f"{kind}: {row['statement'] or row['fact']}"
    if kind == "object":
        return f"object: {names.get(fact.subject, fact.statement)}"
    if kind == "attribute":
        return f"attribute: {fact.value or fact.statement}"
    return f"relation: {fact.predicate or fact.statement}"
