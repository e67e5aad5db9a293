"""Meaning of an edit: from a person's words to the scene, the known verdicts and the kept image.

All of it is worked out from the run's events, before anything is changed: an edit that does not
fit raises :class:`EditError` and leaves no trace.

A missing graph as a person sees it, compared with the run's own: what the difference says.

A missing graph names objects for three reasons: the object is not there, one of its attributes
is wrong, or a missing relation needs it as an end. Only what differs from the run's own graph is
read as a person's word, so that the reasons of all the rest need not be guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from scenewright.core.facts import Fact, ScoreCard, State, assign_verdicts, missing_graph
from scenewright.core.questions import (
    QuestionForm,
    attribute_fact_id,
    object_fact_id,
    relation_fact_id,
)
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.graphs.errors import EditError
from scenewright.graphs.events import Corrected, Edit, Edited, Judged
from scenewright.graphs.record import LoopRecord, RequestedScene, edit_key, scene_in_round


def apply_missing_graph(
    own: SceneGraph,
    seen: SceneGraph,
    scene: SceneGraph,
    states: Mapping[str, State],
    tells: Mapping[str, str] | None = None,
) -> tuple[SceneGraph, dict[str, Corrected]]:
    """Return the scene with what ``seen`` adds to it, and what the differences say, by fact id.

    ``own`` is the run's missing graph of the picture and ``states`` the panel's verdicts behind
    it; ``tells`` are the facts that tell of single instances
    (:func:`scenewright.core.facts.assign_verdicts`). Raises ``EditError`` if ``seen`` contradicts
    ``scene`` or itself.
    """
    reader = _Reader(own, seen, scene, states, tells or {})
    reader.read()
    return reader.scene(), reader.said


class _Reader:
    def __init__(
        self,
        own: SceneGraph,
        seen: SceneGraph,
        scene: SceneGraph,
        states: Mapping[str, State],
        tells: Mapping[str, str],
    ) -> None:
        self.own = {item.id: item for item in own.objects}
        self.seen = {item.id: item for item in seen.objects}
        self.asked = {item.id: item for item in scene.objects}
        self.relations = list(scene.relations)
        self.intent = scene.intent
        self.added = [r for r in seen.relations if r not in set(own.relations)]
        self.removed = [r for r in own.relations if r not in set(seen.relations)]
        self.states = states
        self.tells = tells
        self.said: dict[str, Corrected] = {}

    def scene(self) -> SceneGraph:
        try:
            return SceneGraph(
                objects=tuple(self.asked.values()),
                relations=tuple(self.relations),
                intent=self.intent,
            )
        except ValueError as error:
            raise EditError(f"the missing graph cannot be added to the scene: {error}") from error

    def read(self) -> None:
        for item in self.seen.values():
            if item.id not in self.own:
                self._object_added(item)
            elif item.id in self.asked:
                self._object_kept(self.own[item.id], item)
        for item in self.own.values():
            if item.id not in self.seen and item.id in self.asked:
                self._same_name(item)
                self._object_removed(item)
        for relation in self.added:
            self._relation_added(relation)
        for relation in self.removed:
            if relation in self.relations:
                self._relation_removed(relation)

    def _object_added(self, item: SceneObject) -> None:
        if item.id not in self.asked:
            self.asked[item.id] = item
            self.said[self._known_fact(object_fact_id(item.id))] = "no"
            return
        self._same_name(item)
        # The end of a missing relation stands in the graph whether it is there or not.
        if not any(item.id in (relation.source, relation.target) for relation in self.added):
            self._absent(item)
        for key, value in item.attributes.items():
            if self._attribute_new(item, key, value):
                self.said[self._known_fact(attribute_fact_id(item.id, key))] = "no"

    def _known_fact(self, fact_id: str) -> str:
        return self.tells.get(fact_id, fact_id)

    def _absent(self, item: SceneObject) -> None:
        """Say that an object is not there.

        Of one of several also that nothing of it holds, since the facts only count them.
        """
        fact_id = object_fact_id(item.id)
        self.said[self._known_fact(fact_id)] = "no"
        if fact_id in self.tells:
            for relation in self.relations:
                if item.id in (relation.source, relation.target):
                    self.said[relation_fact_id(relation)] = "no"

    def _object_kept(self, own: SceneObject, item: SceneObject) -> None:
        self._same_name(item)
        for key, value in item.attributes.items():
            if own.attributes.get(key) != value:
                self._attribute_new(item, key, value)
                self.said[self._known_fact(attribute_fact_id(item.id, key))] = "no"
        for key, value in own.attributes.items():
            if key not in item.attributes and self.asked[item.id].attributes.get(key) == value:
                self._needs(f"{item.name} is {value}", item.id)
                self.said[self._known_fact(attribute_fact_id(item.id, key))] = "yes"

    def _attribute_new(self, item: SceneObject, key: str, value: str) -> bool:
        """Add an attribute to the scene; whether it was not there."""
        asked = self.asked[item.id]
        there = asked.attributes.get(key)
        if there is None:
            more = {**asked.attributes, key: value}
            self.asked[item.id] = SceneObject(id=item.id, name=asked.name, attributes=more)
        elif there != value:
            raise EditError(
                f"the missing graph wants the {key} of {item.id!r} to be {value!r}, the scene "
                f"{there!r}: give the scene anew to change what is asked"
            )
        return there is None

    def _object_removed(self, item: SceneObject) -> None:
        facts = [object_fact_id(item.id)]
        asked = self.asked[item.id].attributes
        facts += [
            attribute_fact_id(item.id, key)
            for key, value in item.attributes.items()
            if asked.get(key) == value
        ]
        # What nobody could judge was not missing, so that taking the object out says nothing.
        told = map(self._known_fact, facts)
        self.said |= {name: "yes" for name in told if self.states.get(name) in ("no", "void")}

    def _relation_added(self, relation: Relation) -> None:
        for end in (relation.source, relation.target):
            if end not in self.asked:
                raise EditError(
                    f"the missing graph adds '{relation}', but the scene has no {end!r}: give it "
                    "the object as well, or leave the relation out"
                )
            self._same_name(self.seen[end])
        if relation not in self.relations:
            self.relations.append(relation)
        self.said[relation_fact_id(relation)] = "no"

    def _relation_removed(self, relation: Relation) -> None:
        for end in (relation.source, relation.target):
            self._needs(str(relation), end)
        self.said[relation_fact_id(relation)] = "yes"

    def _needs(self, what: str, object_id: str) -> None:
        """``EditError`` if the object is still missing, so that ``what`` cannot hold."""
        fact = self._known_fact(object_fact_id(object_id))
        absent = self.states.get(fact) == "no" and object_id in self.seen
        if absent or self.said.get(fact) == "no":
            raise EditError(
                f"the missing graph says that '{what}' holds in a picture without {object_id!r}: "
                f"take {object_id!r} out of it as well, or leave both there. To ask for something "
                "else give the scene anew"
            )

    def _same_name(self, item: SceneObject) -> None:
        asked = self.asked[item.id].name
        if asked != item.name:
            raise EditError(
                f"{item.id!r} is a {item.name} in the missing graph and a {asked} in the scene: "
                "give the scene anew to change what is asked, or the object an id of its own"
            )


@dataclass(frozen=True, slots=True)
class ReviewContext:
    """View of a run for a person: its pictures, their verdicts, and the kept one."""

    scenes: tuple[RequestedScene, ...]
    """Scenes that were asked for, oldest first."""
    drawn: frozenset[int]
    """Rounds whose candidate is there."""
    cards: Mapping[int, ScoreCard]
    """The loop's card of each judged round."""
    kept: int | None
    """The round that is kept; none before the first card."""

    @classmethod
    def of(cls, record: LoopRecord) -> ReviewContext:
        """Return what ``record`` shows."""
        cards = {event.round: event.card for event in record.all(Judged) if event.role == "loop"}
        drawn = frozenset(candidate.round for candidate in record.candidates)
        return cls(tuple(record.scenes), drawn, cards, record.kept_round())


def edited(
    edit: Edit,
    record: LoopRecord,
    form: QuestionForm,
    number: int,
    at: float,
) -> Edited:
    """Return the event ``edit:<number>`` that ``edit`` adds to the run of ``record``.

    ``form`` is the question form of the run. Raises ``EditError`` if the edit does not fit the run.
    """
    looked = ReviewContext.of(record)
    base, card = _base(edit, looked)
    asked = looked.scenes[-1].scene
    scene = edit.scene if edit.scene is not None else asked
    if not scene.intent:
        # A graph that was drawn anew says nothing of style, light and numbers: they stay.
        kept = asked.intent.of(item.id for item in scene.objects)
        scene = scene.model_copy(update={"intent": kept})
    if not scene:
        raise EditError("the scene of the edit has no objects: name at least one, or leave it out")
    before = scene_in_round(looked.scenes, base)
    said: dict[str, Corrected] = {}
    tells = assign_verdicts(before.facts, {verdict.fact_id: verdict for verdict in card.verdicts})
    if edit.missing is not None:
        own = missing_graph(before.scene, before.facts, card.verdicts)
        scene, said = apply_missing_graph(own, edit.missing, scene, _states(card), tells)
    try:
        facts = form.facts(scene)
    except ValueError as error:
        raise EditError(f"the scene of the edit cannot be asked for: {error}") from error
    _known(edit.verdicts, facts)
    new = {**said, **edit.verdicts}
    carried = _carried(record, base, before.scene, scene, facts)
    verdicts = _consistent(new, carried, facts, tells)
    corrects = bool(new) or scene != looked.scenes[-1].scene or base != looked.kept
    newest = max(looked.drawn)
    return Edited(
        key=edit_key(number),
        at=at,
        edit_key=edit.key,
        round=newest + 1 if corrects else newest,
        base=base,
        scene=scene,
        facts=facts,
        verdicts=verdicts if corrects else {},
        corrects=corrects,
        rounds=edit.rounds,
        note=edit.note,
    )


def _base(edit: Edit, looked: ReviewContext) -> tuple[int, ScoreCard]:
    base = edit.base if edit.base is not None else looked.kept
    judged = ", ".join(str(round) for round in sorted(looked.cards))
    if base is None:
        raise EditError("no picture of the run was judged yet: let it go on, and edit it then")
    if base not in looked.drawn:
        raise EditError(f"there is no round {base} in the run: go on from one of {judged}")
    if base not in looked.cards:
        raise EditError(f"the picture of round {base} was never judged: go on from one of {judged}")
    return base, looked.cards[base]


def _states(card: ScoreCard) -> dict[str, State]:
    return {verdict.fact_id: verdict.state for verdict in card.verdicts}


def _known(verdicts: Iterable[str], facts: Sequence[Fact]) -> None:
    """``EditError`` for a verdict of what is not a fact of the scene."""
    ids = [fact.id for fact in facts]
    for name in verdicts:
        if name not in ids:
            near = get_close_matches(name, ids, n=3, cutoff=0.4) or ids[:3]
            raise EditError(
                f"{name!r} is not a fact of this scene: use an id that `scenewright show` prints, "
                f"for example {', '.join(repr(id_) for id_ in near)}"
            )


def _carried(
    record: LoopRecord,
    base: int,
    before: SceneGraph,
    scene: SceneGraph,
    facts: Sequence[Fact],
) -> dict[str, Corrected]:
    """Return earlier corrections of this picture for facts that still mean the same."""
    earlier = record.correction(base)
    if earlier is None:
        return {}
    old = {fact.id: _meaning(fact, before) for fact in earlier.facts}
    return {
        fact.id: earlier.verdicts[fact.id]
        for fact in facts
        if fact.id in earlier.verdicts and old.get(fact.id) == _meaning(fact, scene)
    }


def _meaning(fact: Fact, scene: SceneGraph) -> tuple[str | None, ...]:
    """Return the statement of a fact, independent of the rest of the scene."""
    names = {item.id: item.name for item in scene.objects}
    target = None if fact.target is None else names[fact.target]
    return (fact.kind, names.get(fact.subject), fact.key, fact.value, fact.predicate, target)


def _consistent(
    new: Mapping[str, Corrected],
    carried: Mapping[str, Corrected],
    facts: Sequence[Fact],
    tells: Mapping[str, str],
) -> dict[str, Corrected]:
    """All that a person says of the picture, in the order of the facts.

    What holds needs its parents and what ``tells`` of its own ends, which then hold as well. Of
    what is not there nothing else is said: it is void. ``EditError`` if the new words contradict
    each other.
    """
    said = {**carried, **new}
    for fact in facts:
        ends = [object_fact_id(end) for end in (fact.subject, fact.target or fact.subject)]
        for parent in [*fact.parents, *(tells[end] for end in ends if end in tells)]:
            if new.get(fact.id) == "yes" and parent != fact.id and fact.parents:
                if new.get(parent) == "no":
                    raise EditError(
                        f"{fact.id!r} cannot hold in a picture without {parent!r}: say yes to "
                        "both, or no to both"
                    )
                said[parent] = "yes"
    absent = {id_ for id_, state in said.items() if state == "no"}
    return {
        fact.id: said[fact.id]
        for fact in facts
        if fact.id in said and not absent.intersection(fact.parents)
    }
