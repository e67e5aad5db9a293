"""What a drawn picture's graph does not tell: parts that a model failed to read, and words that an
extractor never puts in a graph.

An extractor of few words leaves out the rest, whatever is in the picture; an answer in such words
is unknown before anything is drawn (:func:`outside_of`).

An extraction says which parts are unread (:class:`~scenewright.core.ports.vision.Unread`). An
answer that such a part could change is unknown: neither missing nor wrong. It could change

- the answer itself: the attribute of the partner, the relations between the two partners;
- the partner, where the label leaves a choice: the likeness of objects is that of their attributes
  and of their edges with the attributes at both ends (Sec. 3.2.6).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.core.closed_vocabulary import Unknown as Word
from scenewright.core.ports.vision import Extraction, GraphExtractor, Unread, vocabulary_of
from scenewright.core.scene import SceneGraph, SceneObject
from scenewright.core.vocabulary import same_key
from scenewright.evals.metrics.graph_matching.base import GraphMatch
from scenewright.evals.metrics.graph_matching.folding import folded
from scenewright.evals.studies.xtc.base import Question


class Unknown:
    """The unread parts of one picture's graph, and which answers hang on them."""

    def __init__(
        self, match: GraphMatch, reference: SceneGraph, seen: Extraction, converses: bool
    ) -> None:
        """``converses``: whether a relation seen the other way round is an answer too."""
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
            for one in self._seen.unread_attributes(partners[0]):
                if not one.words or any(same_key(str(question.key), word) for word in one.words):
                    yield one
        elif question.kind == "relation" and not right:
            yield from self._seen.unread_relations(partners[0], partners[1])
            if self._converses:
                yield from self._seen.unread_relations(partners[1], partners[0])

    def _unseen(self, label: str) -> Iterator[Unread]:
        """What keeps it unknown whether there are objects of a label."""
        for one in self._seen.unread_objects():
            if not one.words or label in map(folded, one.words):
                yield one

    def _chosen(self, label: str, question: Question) -> bool:
        """Whether another match could give objects of ``label`` other partners, or none."""
        there = sum(other == label for other in self._labels.values())
        asked = sum(folded(one.name) == label for one in self._reference.objects)
        if question.kind == "retrieval":
            # Any partner has the label that is asked for.
            return 0 < there < asked
        return there > 0 and max(there, asked) > 1

    def _unsure_labels(self) -> dict[str, Unread]:
        """Folded label → what could change the likeness of one of its objects."""
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
    value outside of them tells its object from another one of the class. ``converses``: whether a
    relation that is seen the other way round is an answer too.
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
    """The words that would tell two objects apart, if none of those that are known does; the
    attribute that is ``asked`` for tells nothing."""
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
