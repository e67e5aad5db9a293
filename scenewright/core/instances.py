"""Which of several instances of a class are there, and what is missing from an image.

The facts of several instances count them, so that the verdicts say how many there are and not
which. That is decided when all is answered, so that the most facts hold.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from scenewright.core.scene import SceneGraph
from scenewright.core.verdicts import Fact, State, Verdict

_TELLS: Mapping[State, int] = {"yes": 0, "unscored": 1, "no": 2, "void": 3}
"""In which order verdicts are handed to the instances that are there, and then to the others."""
_MOST_SETS = 20_000
"""Sets of instances that are tried; of more, class after class the best alone."""


def told_by(facts: Sequence[Fact], verdicts: Mapping[str, Verdict]) -> dict[str, str]:
    """Whose verdict tells of each instance of a class: fact id → id of that fact.

    The facts of several instances of a class count them, so that the verdicts say how many there
    are, and not which. They are handed to the instances so that the most facts hold: of the sets
    of instances that may be there, the one with most relations and attributes that hold, then the
    likeliest, then the busiest. The same goes for attributes that several share. Facts that are
    not named tell of themselves; one without a verdict is left out.
    """
    facts = [fact for fact in facts if fact.id in verdicts]
    groups: dict[str, list[Fact]] = {}
    for fact in facts:
        if fact.counts:
            groups.setdefault(fact.classes[0], []).append(fact)
    if not groups:
        return {}
    classes = [sorted(group, key=lambda fact: int(fact.key or 0)) for group in groups.values()]
    name = {fact.subject: fact.classes[0] for group in classes for fact in group}
    shared: dict[tuple[str | None, ...], list[Fact]] = {}
    for fact in facts:
        if fact.kind == "attribute" and fact.subject in name:
            place = (name[fact.subject], fact.key, fact.value)
            shared.setdefault(place, []).append(fact)
    order = {fact.subject: at for group in classes for at, fact in enumerate(group)}
    for members in shared.values():
        members.sort(key=lambda fact: order[fact.subject])
    relations = [
        fact
        for fact in facts
        if fact.kind == "relation"
        and verdicts[fact.id].state == "yes"
        and (fact.subject in name or fact.target in name)
    ]

    def held(absent: frozenset[str]) -> tuple[float, float, float]:
        found = [
            verdicts[fact.id]
            for fact in relations
            if fact.subject not in absent and fact.target not in absent
        ]
        for members in shared.values():
            there = sum(fact.subject not in absent for fact in members)
            yes = sorted(
                (v for fact in members if (v := verdicts[fact.id]).state == "yes"),
                key=lambda verdict: -verdict.likelihood,
            )
            found += yes[:there]
        # Nothing that a person has said is given up for what judges say.
        said = sum(verdict.n_scored == 0 for verdict in found)
        return said, len(found), round(sum(verdict.likelihood for verdict in found), 9)

    absent = _most_held([_absences(group, verdicts) for group in classes], held)
    result: dict[str, str] = {}
    for members in [*classes, *shared.values()]:
        telling = sorted(members, key=lambda fact: _TELLS[verdicts[fact.id].state])
        there = sorted(members, key=lambda fact: fact.subject in absent)
        result |= {mine.id: by.id for mine, by in zip(there, telling, strict=True)}
    return result


def settled(facts: Sequence[Fact], verdicts: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """``verdicts`` (one a fact) with what is said to hold of an absent instance made void.

    One person is counted and two questions about persons are answered with yes: one is about the
    other person, or wrong. Settling twice changes nothing.
    """
    tells = told_by(facts, verdicts)
    if not tells:
        return dict(verdicts)
    absent = {
        fact.subject
        for fact in facts
        if fact.kind == "object"
        and fact.id in tells
        and verdicts[tells[fact.id]].state in ("no", "void")
    }
    result = dict(verdicts)
    for fact in facts:
        ends = absent.intersection((fact.subject, fact.target or fact.subject))
        told = tells.get(fact.id, fact.id)
        if fact.kind not in ("attribute", "relation") or not ends or result[told].state != "yes":
            continue
        reason = f"does not count: {', '.join(sorted(ends))} is absent, others of its class are not"
        result[told] = Verdict(fact_id=told, state="void", reason=reason)
    return result


def _absences(group: Sequence[Fact], verdicts: Mapping[str, Verdict]) -> list[frozenset[str]]:
    """Which instances of a class may be absent, the idlest first; the number is known."""
    lost = sum(verdicts[fact.id].state in ("no", "void") for fact in group)
    subjects = [fact.subject for fact in reversed(group)]
    if math.comb(len(subjects), lost) > _MOST_SETS:
        return [frozenset(subjects[:lost])]
    return [frozenset(some) for some in itertools.combinations(subjects, lost)]


def _most_held(
    classes: Sequence[Sequence[frozenset[str]]],
    held: Callable[[frozenset[str]], tuple[float, float, float]],
) -> frozenset[str]:
    """One set of each class, joined, with the most that holds; the first of equal ones."""
    if math.prod(len(sets) for sets in classes) <= _MOST_SETS:
        joined = (frozenset().union(*some) for some in itertools.product(*classes))
        return max(joined, key=held)
    chosen: frozenset[str] = frozenset()
    for sets in classes:
        chosen |= max(sets, key=lambda some: held(chosen | some))
    return chosen


def missing_graph(
    scene: SceneGraph, facts: Sequence[Fact], verdicts: Iterable[Verdict]
) -> SceneGraph:
    """``G_miss``: the part of ``scene`` that the image was not found to hold (Scene-Bench, Sec. 4).

    Holds every object that is absent or one of whose attributes was judged *no*, and
    every relation judged *no* or void, with both its ends so that it can be drawn. Of several
    instances of a class those are absent of which the least holds (:func:`told_by`).
    Unscored facts are unknown, not missing, and an object that does not look real is there all
    the same. Empty if nothing is missing.
    """
    by_id = {verdict.fact_id: verdict for verdict in verdicts}
    every = [fact for fact in facts if fact.id in by_id]
    by_id = settled(every, by_id)
    tells = told_by(every, by_id)
    objects: set[str] = set()
    relations: set[tuple[str, str, str]] = set()
    for fact in every:
        state = by_id[tells.get(fact.id, fact.id)].state
        if fact.kind == "realism" or state not in ("no", "void"):
            continue
        objects.add(fact.subject)
        if fact.kind == "relation" and fact.target is not None and fact.predicate is not None:
            objects.add(fact.target)
            relations.add((fact.subject, fact.predicate, fact.target))
    return scene.subgraph(
        objects,
        [r for r in scene.relations if (r.source, r.predicate, r.target) in relations],
    )
