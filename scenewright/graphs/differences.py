"""A missing graph as a person sees it, compared with the run's own: what the difference says.

A missing graph names objects for three reasons: the object is not there, one of its attributes
is wrong, or a missing relation needs it as an end. Only what differs from the run's own graph is
read as a person's word, so that the reasons of all the rest need not be guessed.
"""

from __future__ import annotations

from collections.abc import Mapping

from scenewright.core.facts import State
from scenewright.core.questions import attribute_fact_id, object_fact_id, relation_fact_id
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.graphs.edits import Corrected
from scenewright.graphs.errors import EditError


def seen_differently(
    own: SceneGraph,
    seen: SceneGraph,
    scene: SceneGraph,
    states: Mapping[str, State],
    tells: Mapping[str, str] | None = None,
) -> tuple[SceneGraph, dict[str, Corrected]]:
    """The scene with what ``seen`` adds to it, and what the differences say, by fact id.

    ``own`` is the run's missing graph of the picture and ``states`` the panel's verdicts behind
    it; ``tells`` are the facts that tell of single instances
    (:func:`scenewright.core.facts.told_by`). Raises ``EditError`` if ``seen`` contradicts ``scene``
    or itself.
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
        self.added = [r for r in seen.relations if r not in set(own.relations)]
        self.removed = [r for r in own.relations if r not in set(seen.relations)]
        self.states = states
        self.tells = tells
        self.said: dict[str, Corrected] = {}

    def scene(self) -> SceneGraph:
        try:
            return SceneGraph(objects=tuple(self.asked.values()), relations=tuple(self.relations))
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
            self.said[self._told(object_fact_id(item.id))] = "no"
            return
        self._same_name(item)
        # The end of a missing relation stands in the graph whether it is there or not.
        if not any(item.id in (relation.source, relation.target) for relation in self.added):
            self._absent(item)
        for key, value in item.attributes.items():
            if self._attribute_new(item, key, value):
                self.said[self._told(attribute_fact_id(item.id, key))] = "no"

    def _told(self, fact_id: str) -> str:
        return self.tells.get(fact_id, fact_id)

    def _absent(self, item: SceneObject) -> None:
        """Say that an object is not there: of one of several also that nothing of it holds, since
        the facts only count them."""
        fact_id = object_fact_id(item.id)
        self.said[self._told(fact_id)] = "no"
        if fact_id in self.tells:
            for relation in self.relations:
                if item.id in (relation.source, relation.target):
                    self.said[relation_fact_id(relation)] = "no"

    def _object_kept(self, own: SceneObject, item: SceneObject) -> None:
        self._same_name(item)
        for key, value in item.attributes.items():
            if own.attributes.get(key) != value:
                self._attribute_new(item, key, value)
                self.said[self._told(attribute_fact_id(item.id, key))] = "no"
        for key, value in own.attributes.items():
            if key not in item.attributes and self.asked[item.id].attributes.get(key) == value:
                self._needs(f"{item.name} is {value}", item.id)
                self.said[self._told(attribute_fact_id(item.id, key))] = "yes"

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
        told = map(self._told, facts)
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
        fact = self._told(object_fact_id(object_id))
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
