"""What realism in the loop gains, and whether it costs facts.

``python -m benchmarks.realism_loop [--quick]``. Held-out scenes are refined with realism (which
draws the picture again), with ``realism_repair = "inpaint"`` (which draws the least real object
anew in its place), with the control that draws the same prompt from other seeds for the sake of
facts as well, and without realism, at equal numbers of images; and the same from paintings in which
one object is damaged, exactly known: these runs may draw one image less. OcR (object-centric
realism, 0–1) by an OLIP that the loop never saw, SGScore by judges that it never saw. Rows are
stored scene by scene: the same command goes on after a kill.

``ocr.gain`` is that of the default, ``ocr.gain_RUN`` that of another run, ``ocr.gain_over_RUN`` the
paired difference; ``painted.`` stands before the figures of the damaged paintings. Realism is
compared over the scenes in which it could be scored before and after.
"""

from __future__ import annotations

import random
from argparse import Namespace
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from PIL import Image
from pydantic import BaseModel, ConfigDict

from benchmarks._harness import PROCESSES, Option, benchmark, folder, interval, work_folder
from benchmarks._loop import miniature, refined
from benchmarks._models import shared
from benchmarks._rows import MeasuredScene, SceneStudy
from benchmarks._scenes import LEVELS, held_out_scene, sayable_paintings
from scenewright.config.options import Budget
from scenewright.config.profiles import Profile
from scenewright.core.facts import ScoreCard
from scenewright.core.ports.judge import JudgeError
from scenewright.core.scene import SceneGraph
from scenewright.graphs.eventlog import read_events
from scenewright.graphs.events import Planned
from scenewright.miniature.damage import DamageRequest, damage, graded
from scenewright.runs.folder import EVENTS
from scenewright.runs.model_factory.profiles import RunModels
from scenewright.runs.result import RunResult
from scenewright.runs.scoring import score

WORK = Path("out/bench-realism-loop")
IMAGES, QUICK_IMAGES = 6, 3
"""Images of a run, the first one and references included."""
FIRST = 3000
"""Number of the first scene: no other benchmark uses these."""
REALISM, INPAINT = "realism", "inpaint"
RUNS: Mapping[str, Mapping[str, Any]] = {
    REALISM: {"realism": True},
    INPAINT: {"realism": True, "profile": {"realism_repair": "inpaint"}},
    "resample": {"realism": True, "strategy": "resample"},
    "plain": {},
}
"""Name of a run → its options."""
DAMAGE = 4
"""Level of the damage to shape and to texture of a painting's object: both are of grade 1 then."""


class Seen(BaseModel):
    """What the judges of the report say of one picture."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ocr: float | None
    """Realism, mean probability over its objects."""
    sgscore: float | None
    held: tuple[str, ...]
    """Ids of the stated facts that hold."""
    objects: dict[str, float]
    """Realism of each object that could be scored, by id."""
    unreal: tuple[str, ...]
    """Ids of the objects with an aspect judged no."""

    @classmethod
    def of(cls, card: ScoreCard) -> Seen:
        """Read ``card``."""
        scored: dict[str, list[Any]] = defaultdict(list)
        for verdict in card.verdicts:
            if verdict.fact_id.startswith("real:") and verdict.state in ("yes", "no"):
                name = verdict.fact_id.removeprefix("real:").rpartition(":")[0].replace("\\", "")
                scored[name].append(verdict)
        return cls(
            ocr=card.ocr,
            sgscore=card.sgscore,
            held=tuple(v.fact_id for v in card.stated if v.state == "yes"),
            objects={n: sum(v.likelihood for v in all_) / len(all_) for n, all_ in scored.items()},
            unreal=tuple(sorted(n for n, a in scored.items() if any(v.state == "no" for v in a))),
        )


class Outcome(BaseModel):
    """One run of a scene."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    after: Seen
    """The kept picture."""
    images: int
    kept: int
    """Round of the kept picture."""
    repaired: tuple[str, ...]
    """Objects that rounds drew anew because they did not look real, in order."""
    first: str = ""
    """The object that round 1 drew anew; empty if it repaired something else, or there was none."""


class RealismRow(MeasuredScene):
    """All runs of one scene."""

    before: Seen
    """The picture that all of them began with."""
    runs: dict[str, Outcome]
    damaged: str = ""
    """Id of the object that was damaged; empty where the picture was drawn."""


@cache
def painted_scene(at: int) -> tuple[SceneGraph, Image.Image, str]:
    """Return scene, painting and the damaged object of number ``at``, levels in turn."""
    for painting in sayable_paintings(LEVELS[at % len(LEVELS)], "realism", at):
        seen = graded(damage(painting, []))
        if seen.objects:
            chosen = random.Random(f"realism/{at}").choice(seen.objects).id
            wrong = [DamageRequest(chosen, kind, DAMAGE) for kind in ("shape", "texture")]
            return painting.scene, damage(painting, wrong, at).image, chosen
    raise AssertionError("there is always another painting")


async def measure(
    scene: SceneGraph,
    at: int,
    profile: Profile,
    models: RunModels,
    scratch: Path | None,
    images: int,
    painted: bool,
) -> dict[str, Any]:
    """Make all of :data:`RUNS` on ``scene`` from a drawn picture or the damaged painting ``at``."""
    start, damaged = painted_scene(at)[1:] if painted else (None, "")
    budget = Budget(images=images - 1 if painted else images)
    report = shared(models)
    before: Seen | None = None
    found: dict[str, Outcome] = {}
    common = {"rounds": images, "budget": budget, "start": start, "report_judges": []}
    async for name, result in refined(scene, at, profile, models, RUNS, scratch, **common):
        before = before or await _seen(result, 0, scene, profile, report)
        assert result.best_round is not None
        plans = [e for e in read_events(result.folder / EVENTS) if isinstance(e, Planned)]
        found[name] = Outcome(
            after=await _seen(result, result.best_round, scene, profile, report),
            images=int(result.totals["images"]),
            kept=result.best_round,
            repaired=tuple(plan.object for plan in plans if plan.object is not None),
            first=next((plan.object or "" for plan in plans if plan.round == 1), ""),
        )
    return {"before": before, "runs": found, "damaged": damaged}


async def _seen(
    result: RunResult, round: int, scene: SceneGraph, profile: Profile, models: RunModels
) -> Seen:
    """Score a round's picture by the judges of the report."""
    found = await score(
        result.image_path(result.rounds[round].image),
        scene,
        profile.model_copy(update={"cascade": None, "calibration": None}),
        judges=models.report_judges,
        report_judges=[],
        realism=True,
        realism_judges=models.realism_report_judges,
        realism_report_judges=[],
    )
    return Seen.of(found.loop)


def figures_of(rows: Sequence[RealismRow], part: str = "") -> dict[str, Any]:
    """Return the means over scenes; ``part`` precedes each key."""
    values: dict[str, list[float]] = {}

    def put(key: str, found: Sequence[float | None]) -> None:
        values[key] = [value for value in found if value is not None]

    def gain(ours: float | None, theirs: float | None) -> float | None:
        return None if ours is None or theirs is None else ours - theirs

    for key in ("ocr", "sgscore"):
        olds = [getattr(row.before, key) for row in rows]
        put(f"{key}.before", olds)
        for name in RUNS:
            news = [getattr(row.runs[name].after, key) for row in rows]
            run = "" if name == REALISM else f"_{name}"
            pairs = list(zip(news, olds, strict=True))
            put(f"{key}.after{run}", [None if old is None else new for new, old in pairs])
            put(f"{key}.gain{run}", [gain(new, old) for new, old in pairs])
    for name in RUNS:
        done = [(row, row.runs[name], row.runs[REALISM]) for row in rows]
        if name != REALISM:
            put(f"ocr.gain_over_{name}", [gain(best.after.ocr, r.after.ocr) for _, r, best in done])
        put(f"facts_lost.{name}", [len({*w.before.held} - {*r.after.held}) for w, r, _ in done])
        put(f"images.{name}", [r.images for _, r, _ in done])
    harmed = [row for row in rows if row.damaged]
    # Only where round 1 repairs realism does it look at the picture that was damaged.
    aimed = [row for row in harmed if row.runs[INPAINT].first]
    put("found", [row.runs[INPAINT].first == row.damaged for row in aimed])
    put("damaged.before", [row.before.objects.get(row.damaged) or None for row in harmed])
    for name in RUNS:
        scored = [(r.damaged, a) for r in harmed if r.damaged in (a := r.runs[name].after).objects]
        put(f"damaged.after_{name}", [after.objects[thing] for thing, after in scored])
        put(f"damaged.looks_real_{name}", [thing not in after.unreal for thing, after in scored])
    return {f"{part}{key}": interval(found) for key, found in values.items() if found}


@benchmark(
    "2 scenes",
    clean=True,
    refused=(JudgeError,),
    scenes=Option(90, "scenes of each part", least=1),
    processes=PROCESSES,
    work=folder(f"folder of the rows (default: {WORK})"),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure both parts."""
    count = 2 if options.quick else options.scenes + -options.scenes % len(LEVELS)
    images = QUICK_IMAGES if options.quick else IMAGES
    numbers = range(FIRST, FIRST + count)
    parts = {
        "": {at: held_out_scene(LEVELS[at % len(LEVELS)], at // len(LEVELS)) for at in numbers},
        "painted.": {at: painted_scene(at)[0] for at in numbers},
    }
    figures: dict[str, Any] = {}
    profile = miniature(options.quick)
    with work_folder(options, WORK) as work:
        for part, scenes in parts.items():
            study = SceneStudy.of(
                RealismRow,
                partial(measure, images=images, painted=bool(part)),
                profile,
                realism=True,
                runs=RUNS,
                images=images,
                damage=DAMAGE,
            )
            file = work / f"{part.rstrip('.') or 'drawn'}.jsonl"
            figures |= figures_of(study.rows(scenes, file, options.processes), part)
    return count, figures


if __name__ == "__main__":
    main()
