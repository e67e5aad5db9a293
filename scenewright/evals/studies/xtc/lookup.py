"""What the graph of a drawn picture answers to a question (XTC-Bench, Sec. 3.3.1).

The match of graphs says which drawn object is which of the reference; the question's answer is
then read from the drawn one. Nothing is judged here: that a dog is *blue* where *red* was asked
for is an answer, and that there is no dog is a missing one, with its reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from scenewright.core.scene import Relation, SceneError, SceneGraph, SceneObject
from scenewright.core.vocabulary import canonical_key, converse, entails
from scenewright.evals.metrics.graph_matching.base import GraphMatch
from scenewright.evals.metrics.graph_matching.folding import folded
from scenewright.evals.studies.xtc.base import Question, XtcError

MISSING = "missing"
"""The text of an answer that the drawn graph does not give."""


@dataclass(frozen=True, slots=True)
class DrawnAnswer:
    """What the graph of the drawn picture answers to one question."""

    text: str
    """The answer; ``missing`` if there is none."""
    reason: str = ""
    """Why it is missing, or under which other name of the key it was found; else empty."""
    missing: bool = False
    """Whether there is none: generation scores 0."""
    matched: bool = True
    """Whether every object of the question has a partner in the drawn graph."""


def with_converses(scene: SceneGraph) -> SceneGraph:
    """Return ``scene`` with what its relations say the other way round.

    An extractor names each pair once, in the direction that it likes. Without this, a drawn picture
    whose graph says *boat above person* would lack how the person is to the boat. A converse that
    another relation says already is not added; the scene's own relations stay first, in their
    order.
    """
    there: dict[tuple[str, str], list[str]] = {}
    for one in scene.relations:
        there.setdefault((one.source, one.target), []).append(one.predicate)
    added = []
    for one in scene.relations:
        turned = converse(one.predicate)
        said = there.setdefault((one.target, one.source), [])
        if turned is None or any(entails(other, turned) for other in said):
            continue
        said.append(turned)
        added.append(Relation(source=one.target, predicate=turned, target=one.source))
    if not added:
        return scene
    return SceneGraph(objects=scene.objects, relations=(*scene.relations, *added))


def answer_of(
    match: GraphMatch, reference: SceneGraph, seen: SceneGraph, question: Question
) -> DrawnAnswer:
    """The answer to ``question`` by ``seen``, whose objects ``match`` pairs with ``reference``'s.

    Of an attribute: the partner's value of that key, by any of the names that matching takes for
    the same (:func:`~scenewright.core.vocabulary.same_key`) and by no other. Of a retrieval: the
    partner's label. Of a relation: all predicates from the one partner to the other, in order,
    joined by *and*. Raises ``XtcError`` if question, graphs and match do not belong together.
    """
    ends = [question.subject, *([question.target] if question.target is not None else [])]
    _check(match, reference, seen, question, ends)
    lost = [end for end in ends if end not in match.mapping]
    if lost:
        named = " and ".join(lost)
        verb = "has" if len(lost) == 1 else "have"
        return DrawnAnswer(MISSING, f"{named} {verb} no partner in the drawn graph", True, False)
    partner = seen.object(match.mapping[question.subject])
    if question.kind == "retrieval":
        return DrawnAnswer(partner.name)
    if question.kind == "attribute":
        return _attribute(partner, str(question.key))
    return _relation(match, seen, question)


def _attribute(partner: SceneObject, key: str) -> DrawnAnswer:
    wanted = canonical_key(key)
    same = [name for name in partner.attributes if canonical_key(name) == wanted]
    if not same:
        return DrawnAnswer(MISSING, f"{partner.id} in the drawn graph has no {key}", True)
    others = [name for name in same if folded(name) != folded(key)]
    read = f"{key} is read from {' and '.join(others)}" if others else ""
    return DrawnAnswer(" and ".join(partner.attributes[name] for name in same), read)


def _relation(match: GraphMatch, seen: SceneGraph, question: Question) -> DrawnAnswer:
    source, target = (match.mapping[str(end)] for end in (question.subject, question.target))
    there = [r.predicate for r in seen.relations if (r.source, r.target) == (source, target)]
    if there:
        unique = {folded(predicate): predicate for predicate in reversed(there)}
        return DrawnAnswer(" and ".join(reversed(unique.values())))
    reason = f"nothing relates {source} to {target} in the drawn graph"
    back = [str(r) for r in seen.relations if (r.source, r.target) == (target, source)]
    if back:
        reason += f", only the other way round: {', '.join(back)}"
    return DrawnAnswer(MISSING, reason, True)


def _check(
    match: GraphMatch,
    reference: SceneGraph,
    seen: SceneGraph,
    question: Question,
    ends: list[str],
) -> None:
    if question.kind == "attribute" and question.key is None:
        raise XtcError(f"{question.id} asks for an attribute and names no key: set its key")
    if question.kind == "relation" and question.target is None:
        raise XtcError(f"{question.id} asks for a relation and names no target: set its target")
    try:
        for end in ends:
            reference.object(end)
    except SceneError as error:
        raise XtcError(f"{question.id} is no question of the reference graph: {error}") from error
    try:
        for end in ends:
            if end in match.mapping:
                seen.object(match.mapping[end])
    except SceneError as error:
        raise XtcError(
            f"{question.id}: the match is one of other graphs: {error}: match these two"
        ) from error
