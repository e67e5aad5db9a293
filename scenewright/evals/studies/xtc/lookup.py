"""Answers of a drawn picture's graph to questions, and what it cannot tell (Sec. 3.3.1).

The match of graphs says which drawn object is which of the reference; the question's answer is then
read from the drawn one. Nothing is judged here: that a dog is *blue* where *red* was asked for is
an answer, and that there is no dog is a missing one, with its reason.

An extractor of few words leaves out the rest, whatever is in the picture; an answer in such words
is unknown before anything is drawn (:func:`outside_of`).

An extraction says which parts are unread (:class:`~scenewright.core.ports.vision.Unread`). An
answer that such a part could change is unknown: neither missing nor wrong. It could change the
answer itself (the attribute of the partner, the relations between the two partners), or the partner
where the label leaves a choice: the likeness of objects is that of their attributes and of their
edges with the attributes at both ends (Sec. 3.2.6).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.core.closed_vocabulary import Unknown as Word
from scenewright.core.ports.vision import Extraction, GraphExtractor, Unread, vocabulary_of
from scenewright.core.scene import Relation, SceneError, SceneGraph, SceneObject
from scenewright.core.vocabulary import canonical_key, converse, entails, same_key
from scenewright.evals.metrics.graph_matching.text_similarity import GraphMatch, folded
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
    """Return the answer to ``question`` by ``seen``, which ``match`` pairs with ``reference``.

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
        raise XtcError(
            f"{question.id} is not a question of the reference graph: {error}"
        ) from error
    try:
        for end in ends:
            if end in match.mapping:
                seen.object(match.mapping[end])
    except SceneError as error:
        raise XtcError(
            f"{question.id}: the match is one of other graphs: {error}: match these two"
        ) from error


class Unknown:
    """The unread parts of one picture's graph, and which answers depend on them."""

    def __init__(
        self, match: GraphMatch, reference: SceneGraph, seen: Extraction, converses: bool
    ) -> None:
        """Read ``seen``; ``converses``: whether a converse relation is an answer too."""
        self._mapping = match.mapping
        self._reference = reference
        self._seen = seen
        self._converses = converses
        self._labels = {one.id: folded(one.name) for one in seen.scene.objects}
        self._unsure = self._unsure_labels()

    def reason(self, question: Question, right: bool = False) -> str:
        """Return why the answer to ``question`` is unknown; empty if it is known.

        ``right``: whether what was read is fully right, so that one more relation of the two
        partners, of which the best counts, could not change it.
        """
        return next((str(one) for one in self._behind(question, right)), "")

    def _behind(self, question: Question, right: bool) -> Iterator[Unread]:
        ends = [question.subject, *([] if question.target is None else [question.target])]
        for end in ends:
            label = folded(self._reference.object(end).name)
            yield from self._unseen(label)
            if label in self._unsure and self._chosen(label, question):
                yield self._unsure[label]
        partners = [self._mapping[end] for end in ends if end in self._mapping]
        if len(partners) < len(ends):
            return
        if question.kind == "attribute":
            for one in self._seen.unread_parts("attributes", partners[0]):
                if not one.words or any(same_key(str(question.key), word) for word in one.words):
                    yield one
        elif question.kind == "relation" and not right:
            yield from self._seen.unread_parts("relations", partners[0], partners[1])
            if self._converses:
                yield from self._seen.unread_parts("relations", partners[1], partners[0])

    def _unseen(self, label: str) -> Iterator[Unread]:
        """Yield the unread parts that leave open whether there are objects of a label."""
        for one in self._seen.unread_parts("objects"):
            if not one.words or label in map(folded, one.words):
                yield one

    def _chosen(self, label: str, question: Question) -> bool:
        """Return whether another match could give objects of ``label`` other partners, or none."""
        there = sum(other == label for other in self._labels.values())
        asked = sum(folded(one.name) == label for one in self._reference.objects)
        if question.kind == "retrieval":
            # Any partner has the label that is asked for.
            return 0 < there < asked
        return there > 0 and max(there, asked) > 1

    def _unsure_labels(self) -> dict[str, Unread]:
        """Return by folded label what could change the likeness of one of its objects."""
        found: dict[str, Unread] = {}
        for one in self._seen.unread:
            if one.part == "objects":
                continue
            touched = set(one.objects) if one.objects else set(self._labels)
            if one.part == "attributes":
                touched |= {
                    end
                    for relation in self._seen.scene.relations
                    if {relation.source, relation.target} & touched
                    for end in (relation.source, relation.target)
                }
            for id_ in touched & self._labels.keys():
                found.setdefault(self._labels[id_], one)
        return found


def outside_of(
    questions: Sequence[Question], scene: SceneGraph, extractor: GraphExtractor, converses: bool
) -> dict[str, str]:
    """Return id of a question → why no graph of ``extractor`` can hold its answer.

    Its classes, its value or one of its predicates are outside of the extractor's words, or only a
    value outside of them distinguishes its object from another one of the class. ``converses``:
    whether a relation that is seen the other way round is an answer too.
    """
    words = vocabulary_of(extractor)
    if words is None:
        return {}
    found: dict[str, str] = {}
    for question in questions:
        unknown = dict.fromkeys(_unknown_of(question, scene, words, converses))
        if unknown:
            found[question.id] = f"{extractor.id}: {words.reason(tuple(unknown))}"
    return found


def _unknown_of(
    question: Question, scene: SceneGraph, words: ClosedVocabulary, converses: bool
) -> Iterator[Word]:
    ends = [question.subject, *([] if question.target is None else [question.target])]
    for item in map(scene.object, ends):
        if not words.knows_class(item.name):
            yield Word("class", item.name)
        elif question.kind != "retrieval":
            # Whichever partner a retrieval finds has the label that is asked for.
            for other in scene.objects:
                if other.id != item.id and folded(other.name) == folded(item.name):
                    yield from _untold(item, other, words, question.key)
    if question.kind == "attribute":
        key = str(question.key)
        yield from words.unknown_attribute(key, scene.object(question.subject).attributes[key])
    for relation in scene.relations if question.kind == "relation" else ():
        if (relation.source, relation.target) == (question.subject, question.target):
            yield from words.unknown_relation(relation, converses)


def _untold(
    one: SceneObject, other: SceneObject, words: ClosedVocabulary, asked: str | None
) -> list[Word]:
    """Return the words that would distinguish two objects, if no known word does.

    The attribute that is ``asked`` for does not count.
    """
    lost: list[Word] = []
    for key in {**one.attributes, **other.attributes}:
        if key == asked:
            continue
        values = [a.attributes[key] for a in (one, other) if key in a.attributes]
        if len(values) == 2 and folded(values[0]) == folded(values[1]):
            continue
        unknown = [word for value in values for word in words.unknown_attribute(key, value)]
        if not unknown:
            return []
        lost += unknown
    return lost
