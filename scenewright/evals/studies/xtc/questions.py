"""From a scene graph to its questions, each tied to one fact (XTC-Bench, Sec. 3.2.5)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from scenewright.core.questions import (
    NO_RELATION,
    attribute_fact_id,
    object_fact_id,
    relation_fact_id,
)
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.evals.metrics.graph_matching.folding import folded
from scenewright.evals.studies.xtc.base import Question, QuestionSheet, Unasked, XtcError
from scenewright.evals.studies.xtc.categories import spoken_label
from scenewright.evals.studies.xtc.descriptions import MAX_VALUES, Namer, Unclear, tells
from scenewright.evals.studies.xtc.wording import (
    attribute_text,
    is_many,
    object_phrase,
    relation_text,
    retrieval_text,
)

QUESTIONS_VERSION = 1
"""Raised when a scene gets other questions."""
_SHOWN = 3


def questions_of(scene: SceneGraph) -> QuestionSheet:
    """All questions of ``scene`` and the facts that none can ask for.

    The value of an attribute is asked of an object named without it; an object is asked for by the
    values that fit it alone; parallel edges of an ordered pair are one question. Objects are named
    by the fewest values that single them out (:mod:`~scenewright.evals.studies.xtc.descriptions`).
    The fact that an object is there is that of its retrieval. Deterministic; ids of objects stand
    in the questions' ids and in reasons alone. Raises ``XtcError`` for a relation that says that
    there is none.
    """
    return _Asking(scene).sheet()


class _Asking:
    """The questions of one scene, while they are made."""

    def __init__(self, scene: SceneGraph) -> None:
        self._scene = scene
        self._items = {item.id: item for item in scene.objects}
        self._namer = Namer(scene)
        self._asked: list[Question] = []
        self._unasked: list[Unasked] = []

    def sheet(self) -> QuestionSheet:
        for item in self._scene.objects:
            for key in item.attributes:
                self._take([attribute_fact_id(item.id, key)], self._attribute(item, key))
        for item in self._scene.objects:
            self._take([object_fact_id(item.id)], self._retrieval(item))
        for edge in self._edges():
            self._take([relation_fact_id(relation) for relation in edge], self._relation(edge))
        return QuestionSheet(questions=tuple(self._asked), unasked=tuple(self._unasked))

    def _take(self, facts: Sequence[str], made: Question | str) -> None:
        """Keeps a question, or why there is none."""
        if isinstance(made, Question):
            self._asked.append(made)
        else:
            self._unasked.extend(Unasked(fact=fact, reason=made) for fact in facts)

    def _attribute(self, item: SceneObject, key: str) -> Question | str:
        value = item.attributes[key]
        label = spoken_label(item.name)
        if tells(label, value):
            return f"the label {label!r} says {value!r} already"
        keys = self._namer.named(item, (value,), key)
        if isinstance(keys, Unclear):
            return _why(item, keys)
        phrase = object_phrase(item, keys)
        return Question(
            id=f"attribute:{_part(item.id)}:{_part(key)}",
            kind="attribute",
            text=attribute_text(item, key, phrase),
            answer=value,
            facts=(attribute_fact_id(item.id, key),),
            subject=item.id,
            key=key,
            phrases=(phrase,),
        )

    def _retrieval(self, item: SceneObject) -> Question | str:
        if not item.attributes:
            return f"{item.id} has no attributes to ask by"
        keys = self._namer.retrieved(item)
        if isinstance(keys, Unclear):
            return _why(item, keys)
        return Question(
            id=f"retrieval:{_part(item.id)}",
            kind="retrieval",
            text=retrieval_text(item, keys),
            answer=item.name,
            facts=(object_fact_id(item.id),),
            subject=item.id,
            phrases=tuple(item.attributes[key] for key in keys),
        )

    def _edges(self) -> list[list[Relation]]:
        """Relations by ordered pair, in the order of their first ones."""
        found: dict[tuple[str, str], list[Relation]] = {}
        for relation in self._scene.relations:
            if folded(relation.predicate) == NO_RELATION:
                raise XtcError(
                    f"'{relation}' says that there is no relation, which no question can ask for: "
                    "remove it"
                )
            found.setdefault((relation.source, relation.target), []).append(relation)
        return list(found.values())

    def _relation(self, edge: Sequence[Relation]) -> Question | str:
        source, target = self._items[edge[0].source], self._items[edge[0].target]
        predicates = tuple(relation.predicate for relation in edge)
        phrases = []
        for item in (source, target):
            label = spoken_label(item.name)
            said = next((p for p in predicates if tells(label, p)), None)
            if said is not None:
                return f"the label {label!r} says {said!r} already"
            keys = self._namer.named(item, predicates)
            if isinstance(keys, Unclear):
                return _why(item, keys)
            phrases.append(object_phrase(item, keys))
        many = is_many(spoken_label(source.name))
        return Question(
            id=f"relation:{_part(source.id)}|{_part(target.id)}",
            kind="relation",
            text=relation_text(phrases[0], many, phrases[1], predicates),
            answer=" and ".join(predicates),
            facts=tuple(relation_fact_id(relation) for relation in edge),
            subject=source.id,
            target=target.id,
            predicates=predicates,
            phrases=tuple(phrases),
        )


def _why(item: SceneObject, unclear: Unclear) -> str:
    if not unclear.rivals:
        return f"no attribute of {item.id} can be asked by"
    rivals = ", ".join(unclear.rivals[:_SHOWN])
    more = len(unclear.rivals) - _SHOWN
    if more > 0:
        rivals += f" and {more} more"
    if unclear.long:
        return f"it takes more than {MAX_VALUES} attributes to tell {item.id} from {rivals}"
    return f"no attributes tell {item.id} from {rivals}"


def _part(text: str) -> str:
    """``text`` within a question's id: separators get a backslash."""
    return re.sub(r"([\\:|])", r"\\\1", text)
