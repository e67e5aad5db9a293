"""The port of repair strategies: what a round changes, and why.

A strategy is a small class. It looks at a :class:`RoundContext` and returns a :class:`RepairPlan`;
if the move wants a reference image, the loop draws it; then the strategy turns the move into a
:class:`GenerationOverrides`, which the loop draws, judges and compares with the best candidate so
far.

Users add their own by an entry point of the group ``scenewright.strategies``, which names a class
without arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from scenewright.core.facts import Fact, ScoreCard
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import (
    BackendFeatures,
    Emphasis,
    GenerationRequest,
    Reference,
    Start,
)
from scenewright.core.ports.composer import Composer
from scenewright.core.regions import Region
from scenewright.core.scene import SceneGraph
from scenewright.graphs.state import LoopOptions


@dataclass(frozen=True, slots=True)
class GenerationOverrides:
    """How the next candidate differs from the first one."""

    references: tuple[Reference, ...] = ()
    """Pictures that go along, as many as the backend takes."""
    start: Start | None = None
    """What it begins with in place of noise alone."""
    prompt: str | None = None
    """Another prompt than that of the whole scene."""
    emphasis: tuple[Emphasis, ...] = ()
    """Words of the prompt that weigh more."""
    seed: int | None = None
    """Another seed than the round's own."""

    @property
    def refines(self) -> bool:
        """Whether anything but the noise differs: the same noise would give another picture."""
        return bool(self.references or self.emphasis or self.start or self.prompt)


@dataclass(frozen=True, slots=True)
class Attempt:
    """What an earlier round tried and what came of it."""

    round: int
    """Its number, from 1."""
    strategy: str
    """The strategy that acted."""
    target: frozenset[str]
    """Ids of the facts that were not confirmed in the picture it began from."""
    fixed: frozenset[str]
    """Those of them that it confirmed."""
    broken: frozenset[str]
    """Facts confirmed before and not after."""
    better: bool
    """Whether its candidate became the best."""
    object: str | None = None
    """Id of the object whose realism it was to repair; none: it repaired something else."""


@dataclass(frozen=True, slots=True)
class UnrealisticObject:
    """An object of the best candidate that is there and does not look real."""

    object: str
    """Its id."""
    lacking: tuple[tuple[str, float], ...]
    """The aspects that were judged no, each with its probability."""
    realism: float
    """Mean probability over all of its aspects that were judged."""
    region: Region | None = None
    """Where the judges saw it; none if none of them tells."""
    tries: int = 0
    """Rounds that tried to repair it, since one of them gained something."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundContext:
    """All that a strategy may look at; the loop's state itself is out of its reach."""

    round: int
    """The round that begins, from 1."""
    scene: SceneGraph
    """What is asked."""
    facts: tuple[Fact, ...]
    """Its facts."""
    card: ScoreCard
    """Verdicts of the best candidate."""
    missing: SceneGraph
    """What is not confirmed there."""
    best: str
    """Content hash of the best candidate."""
    request: GenerationRequest
    """What it was drawn from."""
    prompt: str
    """The prompt of the whole scene."""
    options: LoopOptions
    """Numbers and choices of the run."""
    features: BackendFeatures
    """What the backend can do."""
    composer: Composer
    """What writes prompts and plans places."""
    images: ImageStore
    """Pictures by content hash; masks and pasted pictures are put there."""
    tried: tuple[Attempt, ...] = ()
    """Earlier rounds, oldest first."""
    unrealistic: tuple[UnrealisticObject, ...] = ()
    """Objects that do not look real, the next one to repair first; none without realism."""
    images_left: int | None = None
    """Images that the budget still allows; None: no limit."""

    @property
    def failures(self) -> int:
        """Rounds since the best candidate was found."""
        return len(self._since_best())

    def failures_of(self, strategy: str) -> int:
        """Those of them in which ``strategy`` acted."""
        return sum(attempt.strategy == strategy for attempt in self._since_best())

    def _since_best(self) -> tuple[Attempt, ...]:
        last = max((at for at, tried in enumerate(self.tried) if tried.better), default=-1)
        return self.tried[last + 1 :]


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """What a strategy will do in the round that begins."""

    strategy: str
    """Name of the strategy that acts: a router names another one than itself."""
    does: str
    """What it does, in words."""
    why: str
    """Why."""
    reference: SceneGraph | None = None
    """What a reference image (I1) is to be drawn of first; None: none is."""
    object: str | None = None
    """Id of the object whose realism it repairs."""
    region: Region | None = None
    """Where it draws that object anew; none: everywhere."""


@runtime_checkable
class RepairStrategy(Protocol):
    """Decides how a round repairs the best candidate. Keeps nothing between rounds: the same
    situation gives the same move, so that a run that was killed goes on as it would have."""

    @property
    def name(self) -> str:
        """How profiles and events call it: lower case, with hyphens."""
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
        """What the backend lacks for it, in words; None if it can do all that it is made for."""
        ...

    def plan_repair(self, round_context: RoundContext) -> RepairPlan:
        """What the round does."""
        ...

    def redraw(
        self, round_context: RoundContext, repair_plan: RepairPlan, shown: str | None
    ) -> GenerationOverrides:
        """The request's changes; ``shown`` is the content hash of the drawn reference (I1)."""
        ...
