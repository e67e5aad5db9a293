"""Images to scene graphs by judges, in a world whose words are known.

Judges answer questions; in a closed vocabulary that is enough to describe a picture: each kind
is asked for, then how many there are of it, the attribute values of what is there, and the
relations between what was found. What the judges confirm is the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import TypeVar

from PIL import Image

from scenewright.agents.panel.panel import Panel
from scenewright.core.facts import Fact, FactKind, Verdict
from scenewright.core.ports.judge import Judge
from scenewright.core.ports.vision import Extraction, Unread
from scenewright.core.predicate_statistics import DEFAULT, load_predicates
from scenewright.core.questions import facts_of
from scenewright.core.scene import Attributes, Relation, SceneError, SceneGraph, SceneObject
from scenewright.core.vocabulary import canonical, converse
from scenewright.tools.vision.extraction.panel_questions import ExtractionPanel, reason_of
from scenewright.tools.vision.extraction.world import World

K = TypeVar("K")
SURE = 0.5
"""A relation is kept if its probability is above this."""


@dataclass(frozen=True)
class JudgedPictureParser:
    """Reads images by asking judges for every word of a vocabulary."""

    judges: Sequence[Judge]
    """The judges; one or more."""
    world: World
    """The words of what may be in an image."""
    panel: Panel = field(default_factory=Panel)
    """Panel that makes verdicts of their answers."""
    most: int = 2
    """Most things of one kind that are told apart."""

    def __post_init__(self) -> None:
        """Check that there is somebody to ask."""
        if not self.judges:
            raise SceneError("no judges are given: an image needs at least one who looks")
        if self.most < 1:
            raise SceneError(f"most is {self.most}: it must be 1 or more")

    async def parse(self, image: Image.Image) -> SceneGraph:
        """Return the graph of :meth:`read`, in which an unanswered question is not confirmed."""
        return (await self.read(image)).scene

    async def read(self, image: Image.Image) -> Extraction:
        """Return the graph that the judges confirm in ``image``, which may be empty.

        What no judge answers is unread. Raises ``SceneError`` if no judge answers which kinds there
        are.
        """
        unread: list[Unread] = []
        objects = await self._objects(image, unread)
        for key in self.world.attributes:
            objects = await self._with_attribute(image, objects, key, unread)
        relations = await self._relations(image, objects, unread)
        return Extraction(SceneGraph(objects=objects, relations=relations), unread=tuple(unread))

    async def _objects(self, image: Image.Image, unread: list[Unread]) -> tuple[SceneObject, ...]:
        counts: dict[str, int] = {}
        open_kinds = self.world.kinds
        for number in range(1, self.most + 1):
            # Whether there are at least so many of the kind.
            facts = {
                kind: _facts(SceneGraph(objects=_alike(kind, number)), "object")[-1]
                for kind in open_kinds
            }
            verdicts = await self._ask(image, facts)
            if number == 1 and all(v.state == "unscored" for v in verdicts.values()):
                reason = verdicts[open_kinds[0]].reason
                raise SceneError(f"no judge says what is in the image: {reason}")
            unread += [
                Unread("objects", reason_of(verdict), words=(kind,))
                for kind, verdict in verdicts.items()
                if verdict.state == "unscored"
            ]
            open_kinds = tuple(kind for kind, v in verdicts.items() if v.state == "yes")
            counts |= dict.fromkeys(open_kinds, number)
        kinds = self.world.kinds
        return tuple(item for kind in kinds for item in _alike(kind, counts.get(kind, 0)))

    async def _with_attribute(
        self, image: Image.Image, objects: tuple[SceneObject, ...], key: str, unread: list[Unread]
    ) -> tuple[SceneObject, ...]:
        """Return the objects with a value of ``key`` each, where one is confirmed."""
        by_kind: dict[str, list[SceneObject]] = {}
        for item in objects:
            by_kind.setdefault(item.name, []).append(item)
        facts = {
            (kind, value, number): _value_fact(same, key, value, number)
            for kind, same in by_kind.items()
            for value in self.world.attributes[key]
            for number in range(1, len(same) + 1)
        }
        verdicts = await self._ask(image, facts)
        found: dict[str, str] = {}
        for kind, same in by_kind.items():
            own = [(value, n, v) for (name, value, n), v in verdicts.items() if name == kind]
            sure = sorted((-v.likelihood, n, value) for value, n, v in own if v.state == "yes")
            values = sorted(value for _, _, value in sure[: len(same)])
            found |= {item.id: value for item, value in zip(same, values, strict=False)}
            silent = [v for _, _, v in own if v.state == "unscored"]
            unread += [
                Unread("attributes", reason_of(silent[0]), (item.id,), (key,))
                for item in same
                if silent and item.id not in found
            ]
        return tuple(
            item.model_copy(
                update={"attributes": Attributes({**item.attributes, key: found[item.id]})}
            )
            if item.id in found
            else item
            for item in objects
        )

    async def _relations(
        self, image: Image.Image, objects: tuple[SceneObject, ...], unread: list[Unread]
    ) -> tuple[Relation, ...]:
        """Return the likeliest relation of each pair, if it is confirmed.

        Both ends say it together.
        """
        asked: dict[Relation, Fact] = {}
        for source, target in permutations(objects, 2):
            for predicate in self.world.predicates:
                if self.world.can_hold(source.name, predicate, target.name):
                    relation = Relation(source=source.id, predicate=predicate, target=target.id)
                    scene = SceneGraph(objects=objects, relations=(relation,))
                    asked[relation] = _facts(scene, "relation", self.world.options)[0]
        verdicts = await self._ask(image, asked)
        # What one end cannot be asked about hangs on the other end alone.
        chance = {one: v.likelihood for one, v in verdicts.items() if v.state != "unscored"}
        agreed = {
            relation: value if (turned := _turned(relation)) not in chance
            else (value + chance[turned]) / 2
            for relation, value in chance.items()
        }  # fmt: skip
        best: dict[frozenset[str], Relation] = {}
        for relation in sorted(agreed, key=lambda one: -agreed[one]):
            if agreed[relation] > SURE:
                best.setdefault(frozenset((relation.source, relation.target)), relation)
        unread += [
            Unread("relations", reason_of(verdict), (one.source, one.target), (one.predicate,))
            for one, verdict in verdicts.items()
            if one not in chance and frozenset((one.source, one.target)) not in best
        ]
        return tuple(relation for relation in asked if relation in best.values())

    async def _ask(self, image: Image.Image, facts: Mapping[K, Fact]) -> dict[K, Verdict]:
        alone = [fact.model_copy(update={"parents": ()}) for fact in facts.values()]
        verdicts, _ = await ExtractionPanel(self.judges, self.panel).ask(image, alone)
        return dict(zip(facts, verdicts, strict=True))


def _alike(kind: str, count: int) -> tuple[SceneObject, ...]:
    return tuple(SceneObject(id=f"{kind}.{n}", name=kind) for n in range(1, count + 1))


def _value_fact(same: Sequence[SceneObject], key: str, value: str, number: int) -> Fact:
    """Return the question whether at least ``number`` of one kind have ``value``."""
    items = tuple(
        item.model_copy(update={"attributes": Attributes({key: value})}) if at < number else item
        for at, item in enumerate(same)
    )
    found = _facts(SceneGraph(objects=items), "attribute")[-1]
    # One scene asks for one value of a thing; here every value is asked.
    return found.model_copy(update={"id": f"{found.id}={value}"})


def _facts(scene: SceneGraph, kind: FactKind, predicates: str = DEFAULT) -> list[Fact]:
    known = facts_of(scene, "grounded", predicates=load_predicates(predicates))
    return [fact for fact in known if fact.kind == kind]


def _turned(relation: Relation) -> Relation | None:
    """Return the same said from the other end; None for a predicate that has no counterpart."""
    turned = converse(relation.predicate)
    if turned is None or converse(turned) != canonical(relation.predicate):
        return None
    return Relation(source=relation.target, predicate=turned, target=relation.source)
