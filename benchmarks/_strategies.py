"""What the loop is compared with, and how one scene is measured under all of it.

Every strategy draws the same scene with the same seed and composed prompt, so all but the
triplets begin with the same picture. ``composition`` and ``feedback_1`` are the kept
candidates of the first rounds of ``feedback_3``, and what two runs both need is drawn once.
Without a weight for the reference none is drawn, so ``lambda1_0`` draws half as many images as
``feedback_3`` in as many rounds; ``lambda1_0_n`` spends the rest on further rounds.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from benchmarks._scene_rows import MeasuredScene
from benchmarks._shared import SharedBackend, SharedJudge
from scenewright.config.settings import Profile
from scenewright.core.facts import Fact, Recall, ScoreCard
from scenewright.core.scene import SceneGraph
from scenewright.graphs.state import improves
from scenewright.runs.api import Budget, refine
from scenewright.runs.model_factory.profiles import RunModels
from scenewright.runs.records import RoundRecord, RunResult

FEEDBACK_ROUNDS = 3
IMAGES = 1 + 2 * FEEDBACK_ROUNDS
"""What three rounds of feedback may draw: a candidate, then each time one and its reference."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run a scene."""

    rounds: int
    """Most candidates."""
    profile: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the profile that this run changes."""
    budget: Budget = Budget()  # noqa: RUF009
    """Limits."""


RUNS: dict[str, Run] = {
    "triplets": Run(1, {"composer": "triplets"}),
    "feedback_3": Run(1 + FEEDBACK_ROUNDS, {"strategy": "feedback"}),
    "whole_3": Run(
        1 + FEEDBACK_ROUNDS,
        {"strategy": "feedback", "repair": "whole", "weight_best": 0.5, "weight_missing": 0.5},
    ),
    "lambda1_0": Run(IMAGES, {"strategy": "feedback", "weight_missing": 0.0}),
    "best_of_n": Run(IMAGES, {"strategy": "resample"}, Budget(images=IMAGES)),
}
"""The runs of a scene. All stop as soon as the loop's judges find nothing missing; none stops
out of patience."""

READINGS: dict[str, tuple[str, int]] = {
    "triplets": ("triplets", 0),
    "composition": ("feedback_3", 0),
    "feedback_1": ("feedback_3", 1),
    "feedback_3": ("feedback_3", FEEDBACK_ROUNDS),
    "whole_3": ("whole_3", FEEDBACK_ROUNDS),
    "lambda1_0": ("lambda1_0", FEEDBACK_ROUNDS),
    "lambda1_0_n": ("lambda1_0", IMAGES - 1),
    "best_of_n": ("best_of_n", IMAGES - 1),
}
"""Strategy → the run it is read from and the last round that counts."""


class Marks(BaseModel):
    """A score card without its single verdicts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    objects: Recall
    """Verdicts on objects."""
    attributes: Recall
    """Verdicts on attributes."""
    relations: Recall
    """Verdicts on relations."""
    alpha: float = Field(ge=0.0, le=1.0)
    """Weight of the objects in SGScore."""

    @classmethod
    def of(cls, card: ScoreCard) -> Marks:
        """The counts of ``card``."""
        return cls.model_validate(card.model_dump(include=set(cls.model_fields)))


class Kept(BaseModel):
    """The image that a strategy keeps."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    round: int
    """Its round."""
    images: int
    """Images drawn by then or until the run stopped, references included."""
    loop: Marks
    """Counts by the judges that chose it."""
    report: Marks
    """Counts by judges that the loop never saw."""


class SceneRow(MeasuredScene):
    """All strategies on one scene."""

    kept: dict[str, Kept]
    """By strategy."""


def overridden(profile: Profile, changes: Mapping[str, Any]) -> Profile:
    """``profile`` with some fields changed, checked as any profile is.

    Raises pydantic's ``ValidationError`` for unknown fields and wrong values.
    """
    return Profile.model_validate(profile.model_dump() | dict(changes))


def kept_until(rounds: Sequence[RoundRecord], last: int, facts: Sequence[Fact]) -> RoundRecord:
    """The candidate that the loop would keep if it ended with round ``last``.

    Raises ``ValueError`` if a round has no score card of the loop's judges.
    """
    best: tuple[RoundRecord, ScoreCard] | None = None
    for record in rounds:
        if record.round > last:
            break
        if record.loop_card is None:
            raise ValueError(f"round {record.round} was not judged: the run is not over")
        if best is None or improves(record.loop_card, best[1], facts):
            best = (record, record.loop_card)
    if best is None:
        raise ValueError("the run has no rounds")
    return best[0]


def images_until(rounds: Sequence[RoundRecord], last: int) -> int:
    """Images drawn in the rounds up to ``last``, references included."""
    drawn = [record for record in rounds if record.round <= last]
    return len(drawn) + sum(record.reference_image is not None for record in drawn)


def read(result: RunResult, last: int) -> Kept:
    """What a strategy that ends with round ``last`` keeps of a finished run."""
    record = kept_until(result.rounds, last, result.facts)
    if record.loop_card is None or record.report_card is None:
        raise ValueError("the run has no score card of report judges: give the profile some")
    return Kept(
        round=record.round,
        images=images_until(result.rounds, last),
        loop=Marks.of(record.loop_card),
        report=Marks.of(record.report_card),
    )


async def measure_scene(
    scene: SceneGraph,
    at: int,
    profile: Profile,
    run_models: RunModels,
    *,
    fingerprint: str,
    scratch: Path | None = None,
) -> SceneRow:
    """Run everything in :data:`RUNS` on ``scene`` with the models of ``run_models``.

    The seed of all runs is ``at``, their composers are those of the profile. Run folders are
    temporary, below ``scratch`` (default: the system's folder for temporary files).
    """
    begun = time.perf_counter()
    backend = SharedBackend(run_models.backend)
    judges = [SharedJudge(judge) for judge in run_models.loop_judges]
    report = [SharedJudge(judge) for judge in run_models.report_judges]
    results: dict[str, RunResult] = {}
    with tempfile.TemporaryDirectory(prefix="bench-loop-", dir=scratch) as folder:
        for name, run in RUNS.items():
            results[name] = await refine(
                scene,
                overridden(profile, run.profile),
                out=Path(folder) / name,
                rounds=run.rounds,
                patience=run.rounds,
                seed=at,
                budget=run.budget,
                backend=backend,
                judges=judges,
                report_judges=report,
            )
    return SceneRow(
        fingerprint=fingerprint,
        at=at,
        scene=scene.digest,
        level=scene.level(),
        kept={name: read(results[run], last) for name, (run, last) in READINGS.items()},
        seconds=time.perf_counter() - begun,
    )
