"""The port of repair strategies: what a round changes, and why.

A strategy is a small class. It looks at a :class:`RoundContext` and returns a :class:`RepairPlan`;
if the move wants a reference image, the loop draws it; then the strategy turns the move into a
:class:`GenerationOverrides`, which the loop draws, judges and compares with the best candidate so
far.

Users add their own by an entry point of the group ``scenewright.strategies``, which names a class
without arguments.

Where in the picture things are planned to stand, and what of it a repair may touch.

What is not confirmed, in words: for logs, for prompts, and as an instruction.

What earlier rounds tried and what came of it; which kind of failure a picture has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from scenewright.config.options import LoopOptions
from scenewright.core.answers import in_lines
from scenewright.core.english import article
from scenewright.core.facts import Fact, ScoreCard
from scenewright.core.images import ImageStore
from scenewright.core.layout import Region, mask_of
from scenewright.core.ports.backend import (
    BackendFeatures,
    GenerationRequest,
    Reference,
    Start,
)
from scenewright.core.ports.composer import Composer
from scenewright.core.referring import noun_phrase
from scenewright.core.scene import SceneGraph, SceneObject
from scenewright.graphs.events import Edited, Event, Generated, Judged, Place, Planned
from scenewright.graphs.record import improves
from scenewright.graphs.state import round_seed


@dataclass(frozen=True, slots=True)
class GenerationOverrides:
    """Differences of the next candidate from the first one."""

    references: tuple[Reference, ...] = ()
    """Pictures that go along, as many as the backend takes."""
    start: Start | None = None
    """Start in place of noise alone."""
    prompt: str | None = None
    """Another prompt than that of the whole scene."""
    seed: int | None = None
    """Another seed than the round's own."""

    @property
    def refines(self) -> bool:
        """Whether anything but the noise differs: the same noise would give another picture."""
        return bool(self.references or self.start or self.prompt)


@dataclass(frozen=True, slots=True)
class Attempt:
    """Attempt of an earlier round and its outcome."""

    round: int
    """Its number, from 1."""
    strategy: str
    """The strategy that acted."""
    target: frozenset[str]
    """Ids of the facts that were not confirmed in the picture it began from."""
    fixed: frozenset[str]
    """Facts among them that it confirmed."""
    broken: frozenset[str]
    """Facts confirmed before and not after."""
    better: bool
    """Whether its candidate became the best."""
    kind: str = ""
    """Kind of failure of the picture that it began from: :func:`kind_of_failure`."""
    pictures: float = 0.0
    """Cost in images: work of the denoiser divided by the work of one image, or the images drawn
    where a backend does not tell its work."""
    whole: bool = False
    """Whether its proposals were whole pictures."""

    @property
    def gained(self) -> int:
        """Facts that the kept picture gained by it."""
        return max(0, len(self.fixed) - len(self.broken)) if self.better else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundContext:
    """All that a strategy may look at; the loop's state itself is out of its reach."""

    round: int
    """The round that begins, from 1."""
    scene: SceneGraph
    """Scene that is asked for."""
    facts: tuple[Fact, ...]
    """Its facts."""
    card: ScoreCard
    """Verdicts of the best candidate."""
    missing: SceneGraph
    """Facts that are not confirmed there."""
    best: str
    """Content hash of the best candidate."""
    request: GenerationRequest
    """Prompt that it was drawn from."""
    prompt: str
    """The prompt of the whole scene."""
    layout: int = 0
    """Round whose seed plans the places in that prompt and in the best candidate."""
    options: LoopOptions
    """Numbers and choices of the run."""
    features: BackendFeatures
    """Abilities of the backend."""
    composer: Composer
    """Composer of prompts and planner of places."""
    images: ImageStore
    """Pictures by content hash; masks and pasted pictures are put there."""
    tried: tuple[Attempt, ...] = ()
    """Earlier rounds, oldest first."""
    images_left: int | None = None
    """Images that the budget still allows; None: no limit."""
    backend: str = ""
    """Id of the backend."""
    judges: int = 1
    """Judges of the loop that are asked about a proposal."""
    seen: Mapping[str, Region] = field(default_factory=dict)
    """Places of objects in the best candidate, by id."""


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """Plan of a strategy for the round that begins."""

    strategy: str
    """Name of the strategy that acts: a router names another one than itself."""
    does: str
    """Repair in words."""
    why: str
    """Why."""
    reference: SceneGraph | None = None
    """Graph of a reference image (I1) to be drawn first; None: none is."""
    places: tuple[Place, ...] = ()
    """Places that are repaired by proposals; empty: the round draws one picture."""
    work: tuple[float, float] | None = None
    """Full-picture steps that the proposals will take, at least and at most."""
    judge_calls: tuple[int, int] | None = None
    """Calls of judges that they will take, at least and at most."""
    layout: int | None = None
    """Round whose seed plans where things stand; None: as in the best candidate."""


@runtime_checkable
class RepairStrategy(Protocol):
    """Decides how a round repairs the best candidate.

    Keeps nothing between rounds: the same situation gives the same move, so that a run that was
    killed goes on as it would have.
    """

    @property
    def name(self) -> str:
        """Name in profiles and events: lower case, with hyphens."""
        ...

    @property
    def about(self) -> str:
        """One sentence for lists."""
        ...

    @property
    def stops_when_satisfied(self) -> bool:
        """Whether the loop ends early: when nothing is missing, or out of patience."""
        ...

    def unsupported_reason(self, features: BackendFeatures) -> str | None:
        """Return in words which feature the backend lacks; None if it has all that is needed."""
        ...

    def plan_repair(self, round_context: RoundContext) -> RepairPlan:
        """Return the plan of the round."""
        ...

    def redraw(
        self, round_context: RoundContext, repair_plan: RepairPlan, shown: str | None
    ) -> GenerationOverrides:
        """Return the request's changes.

        ``shown`` is the content hash of the drawn reference (I1).
        """
        ...


def planned_regions_by_object(round_context: RoundContext) -> Mapping[str, Region]:
    """Return the composer's place of each object, by id; empty where it plans none."""
    # The seed of the best candidate's prompt, which said these places.
    seed = round_seed(round_context.options.seed, round_context.layout, "candidate")
    return round_context.composer.places(round_context.scene, seed)


def regions_of(round_context: RoundContext, objects: Iterable[str]) -> list[Region] | None:
    """Return the places of these objects; None unless there are some and each has one."""
    wanted, places = list(dict.fromkeys(objects)), planned_regions_by_object(round_context)
    found = [places[key] for key in wanted if key in places]
    return found if found and len(found) == len(wanted) else None


def failed_regions(round_context: RoundContext) -> list[Region] | None:
    """Return the places of all objects of failed facts; None unless each has one."""
    return regions_of(round_context, objects_of(failed_facts(round_context)))


def planned_regions(round_context: RoundContext, graph: SceneGraph) -> list[Region] | None:
    """Return the places of all objects of ``graph``; None unless each has one."""
    return regions_of(round_context, (item.id for item in graph.objects))


def objects_of(facts: Iterable[Fact]) -> list[str]:
    """Ids of the objects that ``facts`` speak of, in order."""
    return list(dict.fromkeys(key for fact in facts for key in (fact.subject, fact.target) if key))


def mask_in(round_context: RoundContext, regions: Iterable[Region]) -> str:
    """Content hash of the mask of ``regions`` at the size of the best candidate."""
    return round_context.images.put(
        mask_of(regions, round_context.images.get(round_context.best).size)
    )


def start_within(
    round_context: RoundContext, image: str, strength: float, mask: str, instruct: bool = False
) -> Start:
    """Return the start picture of which the white of ``mask`` may change, in a crop if wanted."""
    crop = round_context.options.crop and round_context.features.crops
    return Start(image=image, strength=strength, mask=mask, instruct=instruct, crop=crop)


def absent_objects(round_context: RoundContext) -> list[str]:
    """Ids of the objects that were found absent, in order."""
    return [fact.subject for fact in failed_facts(round_context) if fact.kind == "object"]


def failed_facts(round_context: RoundContext) -> list[Fact]:
    """Return the facts of the graph that the best candidate was found not to hold.

    Those void with them left out.
    """
    states = {verdict.fact_id: verdict.state for verdict in round_context.card.verdicts}
    return [f for f in round_context.facts if f.of_graph and states.get(f.id) == "no"]


def failure_line(round_context: RoundContext, most: int = 4) -> str:
    """Return ``not confirmed: …``: the statements of what failed in one line.

    More than ``most`` are counted.
    """
    said = [line.fact.statement for line in in_lines(failed_facts(round_context))]
    more = f" and {len(said) - most} more" if len(said) > most else ""
    return f"not confirmed: {'; '.join(said[:most])}{more}"


def clauses(round_context: RoundContext) -> list[str]:
    """Return one phrase for each failed fact: ``a red ball``, ``the dog left of the ball``."""
    items = {item.id: item for item in round_context.scene.objects}
    found: list[str] = []
    for fact in failed_facts(round_context):
        subject = items[fact.subject]
        if fact.kind == "relation" and fact.target is not None:
            target = items[fact.target]
            found.append(f"{_the(subject)} {fact.predicate} {_the(target)}")
        else:
            phrase = noun_phrase(subject)
            found.append(f"{article(phrase)} {phrase}")
    return list(dict.fromkeys(found))


def instruction(round_context: RoundContext, shown: bool = False) -> str:
    """Return the order to an edit model for what failed: :func:`edit_instruction`."""
    return edit_instruction(round_context.scene, failed_facts(round_context), shown)


def edit_instruction(scene: SceneGraph, failed: Sequence[Fact], shown: bool = False) -> str:
    """Return the order to an edit model whose picture of ``scene`` does not hold ``failed``.

    Add what is absent, change what is there and wrong, keep the rest. ``shown``: the model sees a
    picture of what is missing as well, and each picture is named by its role.
    """
    items = {item.id: item for item in scene.objects}
    orders: list[str] = []
    absent = {fact.subject for fact in failed if fact.kind == "object"}
    for fact in failed:
        subject = items[fact.subject]
        if fact.kind == "object":
            phrase = noun_phrase(subject)
            places = [
                f"{relation.predicate} {_the(items[relation.target])}"
                for relation in scene.relations
                if relation.source == subject.id and relation.target not in absent
            ]
            added = f"the {phrase} of image 2" if shown else f"{article(phrase)} {phrase}"
            orders.append(" ".join([f"Add {added}", *places[:1]]) + ".")
        elif fact.kind == "attribute":
            orders.append(f"Make the {subject.name} {fact.value}.")
        elif fact.target is not None:
            orders.append(
                f"Change the picture so that {_the(subject)} is {fact.predicate} "
                f"{_the(items[fact.target])}."
            )
    roles = ["Image 1 is the picture to change, image 2 shows what it lacks."] if shown else []
    kept = (
        "Keep everything else of image 1 as it is." if shown else "Keep everything else as it is."
    )
    return " ".join([*roles, *dict.fromkeys(orders), kept])


def _the(item: SceneObject) -> str:
    return f"the {noun_phrase(item)}"


def attempts(
    events: Iterable[Event], facts: Sequence[Fact], before: int, steps: int = 1
) -> tuple[Attempt, ...]:
    """Return the attempts that an event log tells of, of the judged rounds below ``before``.

    Those before a person's correction are left out: they aimed at other facts or at another
    picture. ``steps`` are the denoising steps of a picture.
    """
    cards: dict[int, ScoreCard] = {}
    acting: dict[int, str] = {}
    drawn: dict[int, list[Generated]] = {}
    whole: set[int] = set()
    for event in events:
        if isinstance(event, Generated) and event.drawn and event.round < before:
            drawn.setdefault(event.round, []).append(event)
        elif isinstance(event, Judged) and event.role == "loop" and event.round < before:
            cards[event.round] = event.card
        elif isinstance(event, Planned) and event.round < before:
            acting[event.round] = event.strategy
            if event.places and not event.places[0].regions:
                whole.add(event.round)
        elif isinstance(event, Edited) and event.corrects and event.round < before:
            cards.clear()
            acting.clear()
    spent = {
        round: sum(1.0 if one.work is None else one.work / steps for one in pictures)
        for round, pictures in drawn.items()
    }
    return attempts_of(cards, acting, facts, spent, whole)


def attempts_of(
    cards: Mapping[int, ScoreCard],
    acting: Mapping[int, str],
    facts: Sequence[Fact],
    spent: Mapping[int, float] = {},
    whole: Collection[int] = (),
) -> tuple[Attempt, ...]:
    """One attempt for every round in ``cards`` but the first, oldest first.

    ``acting`` names the strategy of each round; a round that it does not name is left out.
    ``spent`` is what each round took, in pictures; proposals of the rounds ``whole`` were whole
    pictures.
    """
    found = []
    best: ScoreCard | None = None
    for round in sorted(cards):
        card = cards[round]
        better = best is None or improves(card, best, facts)
        if best is not None and round in acting:
            had, has = _confirmed(best), _confirmed(card)
            target = frozenset(fact.id for fact in facts) - had
            found.append(
                Attempt(
                    round=round,
                    strategy=acting[round],
                    target=target,
                    fixed=target & has,
                    broken=had - has,
                    better=better,
                    kind=kind_of_failure(facts, best),
                    pictures=spent.get(round, 0.0),
                    whole=round in whole,
                )
            )
        if better:
            best = card
    return tuple(found)


def _confirmed(card: ScoreCard) -> frozenset[str]:
    return frozenset(verdict.fact_id for verdict in card.verdicts if verdict.state == "yes")


HOPELESS = 0.5
"""Share of the facts that must fail for a fresh sample to be better than a repair."""
KINDS = (
    "most of it is wrong",
    "objects are absent",
    "relations are wrong",
    "only attributes are wrong",
)
"""Kinds of failure, in words."""


def kind_of_failure(facts: Sequence[Fact], card: ScoreCard) -> str:
    """Return which of :data:`KINDS` a picture with ``card`` is."""
    states = {verdict.fact_id: verdict.state for verdict in card.stated}
    wrong = sum(state in ("no", "void") for state in states.values())
    if len(states) >= 2 and wrong / len(states) > HOPELESS:
        return KINDS[0]
    kinds = {fact.kind for fact in facts if states.get(fact.id) == "no"}
    if "object" in kinds:
        return KINDS[1]
    return KINDS[2] if "relation" in kinds else KINDS[3]
