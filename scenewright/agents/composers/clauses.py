"""Clauses of one subject: what it does and how it is, joined as one phrase where English does so.

A deed takes its places ("sitting on a bench"), one verb is said once ("giving an apple to a
horse"), and places at one thing are joined ("on and above the hat").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scenewright.agents.composers.english import WAYS, Edge, Predicate
from scenewright.agents.parsers.tagging import PREPOSITIONS, rough

_MOST_PLACES = 2
"""Most places that are said before the verb."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A predicate with its objects."""

    kind: str
    """``verb`` (a verb of its own), ``do`` ("is holding") or ``at`` ("is near", "is wet")."""
    predicate: Predicate
    edges: list[Edge]
    """Relations with the same predicate; empty for a state."""
    more: tuple[Clause, ...] = ()
    """Further places of the same deed: "giving an apple", "to a horse"."""

    @property
    def is_place(self) -> bool:
        """Whether it may stand without "is": "in a hat", "to the left of a tree"."""
        each = any(edge.each for edge in self.edges)
        return self.kind == "at" and not each and is_place(self.predicate.words)

    @property
    def first(self) -> str:
        """Its first word."""
        return self.predicate.words.partition(" ")[0]


def is_place(words: str) -> bool:
    """Return whether words begin with a preposition: "in a hat", "in the background"."""
    first = words.partition(" ")[0]
    known = tuple(words.split()) in PREPOSITIONS and not first.endswith("ed")
    return known or rough(first) == "preposition"


def kind_of(predicate: Predicate) -> str:
    """Return ``verb`` of a verb of its own, ``do`` of what one does, else ``at``."""
    if predicate.place == "verb":
        return "verb"
    return "do" if predicate.words.partition(" ")[0].endswith("ing") else "at"


def follows_a_verb(clause: Clause, deed: Clause) -> bool:
    """Return whether "sitting" may stand before a place: "sitting on", not "sitting seen by"."""
    if clause.kind != "at" or any(edge.each for edge in clause.edges):
        return False
    plain = deed.kind == "do" and bool(clause.edges) and rough(clause.first) != "participle"
    return plain or clause.is_place


def placed_first(clauses: list[Clause]) -> tuple[list[Clause], list[Clause]]:
    """Return the places to be said before the verb, and the rest: "a man in a hat is holding …".

    Where the sentence says them behind what is done, they stay there.
    """
    deeds = [one for one in clauses if one.kind == "do"]
    if not deeds or not deeds[-1].edges:
        return [], clauses
    last = deeds[-1].edges[-1].target.place

    def is_first(clause: Clause) -> bool:
        said = clause.edges[0].target.place if clause.edges else None
        return clause.is_place and clause.first not in WAYS and (not said or said < (last or 0))

    places = [one for one in clauses if is_first(one)]
    if len(places) > _MOST_PLACES:
        return [], clauses
    return places, [one for one in clauses if one not in places]


def same_deed(clauses: Sequence[Clause]) -> list[Clause]:
    """Join what one verb says: "giving an apple" and "giving to a horse"."""
    found: list[Clause] = []
    for clause in clauses:
        told = clause.kind == "do" and clause.edges and not clause.edges[0].each
        at = next((n for n, one in enumerate(found) if told and one.kind == "do" and one.edges
                   and one.first == clause.first and not one.edges[0].each), None)  # fmt: skip
        if at is None:
            found.append(clause)
            continue
        known, after = found[at], clause
        if " " not in clause.predicate.words:
            known, after = clause, known
        rest = Predicate("be", after.predicate.words.partition(" ")[2])
        more = (Clause("at", rest, after.edges), *after.more)
        found[at] = Clause("do", known.predicate, known.edges, (*known.more, *more))
    return found


def same_target(clauses: Sequence[Clause]) -> list[Clause]:
    """Join places at one thing: "on and above the hat"."""
    found: dict[tuple[object, ...], Clause] = {}
    for at, clause in enumerate(clauses):
        single = len(clause.edges) == 1 and not clause.more and not clause.edges[0].each
        one = clause.kind != "verb" and single
        key: tuple[object, ...] = (id(clause.edges[0].target), clause.kind) if one else ("", at)
        known = found.get(key)
        if known is None:
            found[key] = clause
            continue
        words = f"{known.predicate.words.replace(' and ', ', ')} and {clause.predicate.words}"
        found[key] = Clause(clause.kind, Predicate("be", words), known.edges)
    return list(found.values())
