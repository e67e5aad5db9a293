"""Images to scene graphs by judges, in a world whose words are known.

Judges answer questions; in a closed vocabulary that is enough to describe a picture: each kind
is asked for, then how many there are of it, the attribute values of what is there, and the
relations between what was found. What the judges confirm is the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from PIL import Image

from scenewright.agents.panel.panel import Panel
from scenewright.core.facts import Fact, FactKind, Verdict
from scenewright.core.ports.judge import Judge
from scenewright.core.ports.vision import Extraction, Unread
from scenewright.core.predicate_statistics import DEFAULT, load_predicates
from scenewright.core.questions import facts_of
from scenewright.core.scene import Attributes, Relation, SceneError, SceneGraph, SceneObject
from scenewright.core.vocabulary import canonical, converse
from scenewright.tools.vision.extraction.panel_questions import ExtractionPanel
from scenewright.tools.vision.extraction.world import World

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
        open_kinds = list(self.world.kinds)
        for number in range(1, self.most + 1):
            # Whether there are at least so many of the kind.
            facts = {
                kind: _facts(
                    SceneGraph(
                        objects=tuple(
                            SceneObject(id=f"{kind}.{n}", name=kind) for n in range(1, number + 1)
                        )
                    ),
                    "object",
                )[-1]
                for kind in open_kinds
            }
            verdicts = await self._ask(image, list(facts.values()))
            if number == 1 and all(v.state == "unscored" for v in verdicts.values()):
                reason = next(iter(verdicts.values())).reason
                raise SceneError(f"no judge says what is in the image: {reason}")
            for kind, fact in facts.items():
                if verdicts[fact.id].state == "unscored":
                    unread.append(Unread("objects", _why(verdicts[fact.id]), words=(kind,)))
            open_kinds = [kind for kind, fact in facts.items() if verdicts[fact.id].state == "yes"]
            counts.update(dict.fromkeys(open_kinds, number))
            if not open_kinds:
                break
        return tuple(
            SceneObject(id=f"{kind}.{number}", name=kind)
            for kind in self.world.kinds
            for number in range(1, counts.get(kind, 0) + 1)
        )

    async def _with_attribute(
        self,
        image: Image.Image,
        objects: tuple[SceneObject, ...],
        key: str,
        unread: list[Unread],
    ) -> tuple[SceneObject, ...]:
        """Return the objects with a value of ``key`` each, where one is confirmed."""
        by_kind: dict[str, list[SceneObject]] = {}
        for item in objects:
            by_kind.setdefault(item.name, []).append(item)
        facts: dict[tuple[str, str, int], Fact] = {}
        for kind, same in by_kind.items():
            for value in self.world.attributes[key]:
                for number in range(1, len(same) + 1):
                    facts[kind, value, number] = _value_fact(same, key, value, number)
        verdicts = await self._ask(image, list(facts.values()))
        found: dict[str, str] = {}
        for kind, same in by_kind.items():
            sure = sorted(
                (
                    (-verdicts[fact.id].likelihood, number, value)
                    for (name, value, number), fact in facts.items()
                    if name == kind and verdicts[fact.id].state == "yes"
                ),
            )
            values = sorted(value for _, _, value in sure[: len(same)])
            found |= {item.id: value for item, value in zip(same, values, strict=False)}
            silent = [
                verdicts[fact.id]
                for (name, _, _), fact in facts.items()
                if name == kind and verdicts[fact.id].state == "unscored"
            ]
            unread += [
                Unread("attributes", _why(silent[0]), (item.id,), (key,))
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
        for source in objects:
            for target in objects:
                if source.id == target.id:
                    continue
                for predicate in self.world.predicates:
                    if self.world.can_hold(source.name, predicate, target.name):
                        relation = Relation(source=source.id, predicate=predicate, target=target.id)
                        scene = SceneGraph(objects=objects, relations=(relation,))
                        asked[relation] = _facts(scene, "relation", self.world.options)[0]
        verdicts = await self._ask(image, list(asked.values()))
        # Two facts of one pair may be one question: ids of relations differ, verdicts too.
        silent = {
            relation: verdicts[fact.id]
            for relation, fact in asked.items()
            if verdicts[fact.id].state == "unscored"
        }
        # What one end cannot be asked about hangs on the other end alone.
        chance = {
            relation: verdicts[fact.id].likelihood
            for relation, fact in asked.items()
            if relation not in silent
        }
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
            Unread("relations", _why(verdict), (one.source, one.target), (one.predicate,))
            for one, verdict in silent.items()
            if frozenset((one.source, one.target)) not in best
        ]
        return tuple(relation for relation in asked if relation in best.values())

    async def _ask(self, image: Image.Image, facts: Sequence[Fact]) -> dict[str, Verdict]:
        """Return the verdicts by id of the fact."""
        if not facts:
            return {}
        alone = [fact.model_copy(update={"parents": ()}) for fact in facts]
        verdicts, _ = await ExtractionPanel(self.judges, self.panel).ask(image, alone)
        return {verdict.fact_id: verdict for verdict in verdicts}


def _why(verdict: Verdict) -> str:
    return verdict.reason or "the judges gave no answer"


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
