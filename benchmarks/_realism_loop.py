"""One scene with and without realism in the loop, and the figures of many.

*Drawn*: every run begins with the same drawn picture and may draw :data:`IMAGES` in all. *Painted*:
it begins with a painting in which one object is damaged, exactly known, and may draw as many less
one. Before and after are scored by judges that the loop never saw, realism by another OLIP.
"""

from __future__ import annotations

import itertools
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image
from pydantic import BaseModel, ConfigDict

from benchmarks._miniature_scenes import LEVELS, painting_of_level
from benchmarks._report import interval
from benchmarks._rows import code_digest, fingerprint_of
from benchmarks._scene_rows import MeasuredScene
from benchmarks._shared import SharedBackend, SharedJudge
from scenewright.config.settings import Profile
from scenewright.core.facts import ScoreCard
from scenewright.core.scene import SceneGraph
from scenewright.evals.datasets.miniature_scenes import can_be_said
from scenewright.graphs.eventlog import read_events
from scenewright.graphs.events import Planned
from scenewright.miniature.damage import DamageRequest, damage, graded
from scenewright.runs.api import Budget, refine
from scenewright.runs.folder import EVENTS
from scenewright.runs.model_factory.profiles import RunModels
from scenewright.runs.records import RunResult
from scenewright.runs.scoring import score

IMAGES = 6
"""Images of a run, the first one and references included."""
REALISM = "realism"
INPAINT = "inpaint"
RUNS: Mapping[str, Mapping[str, Any]] = {
    REALISM: {"realism": True},
    INPAINT: {"realism": True, "profile": {"realism_repair": "inpaint"}},
    "resample": {"realism": True, "strategy": "resample"},
    "plain": {},
}
"""Name of a run → what it changes: the loop with realism as it is by default, which draws the
picture again; with the least real object drawn anew in its place; the control that draws again for
the sake of facts, too; the loop without realism."""
DAMAGE = 4
"""Level of the damage to shape and to texture of a painting's object: both are of grade 1 then."""


class Seen(BaseModel):
    """What the judges of the report say of one picture."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ocr: float | None
    """Realism, mean probability over its objects."""
    sgscore: float | None
    """SGScore."""
    held: tuple[str, ...]
    """Ids of the stated facts that hold."""
    objects: dict[str, float]
    """Realism of each object that could be scored, by id."""
    unreal: tuple[str, ...]
    """Ids of the objects with an aspect judged no."""

    @classmethod
    def of(cls, card: ScoreCard) -> Seen:
        """What ``card`` says."""
        objects: dict[str, list[float]] = {}
        for verdict in card.verdicts:
            if verdict.fact_id.startswith("real:") and verdict.state in ("yes", "no"):
                objects.setdefault(_object_of(verdict.fact_id), []).append(verdict.likelihood)
        unreal = {
            _object_of(v.fact_id)
            for v in card.verdicts
            if v.fact_id.startswith("real:") and v.state == "no"
        }
        return cls(
            ocr=card.ocr,
            sgscore=card.sgscore,
            held=tuple(v.fact_id for v in card.stated if v.state == "yes"),
            objects={name: sum(said) / len(said) for name, said in objects.items()},
            unreal=tuple(sorted(unreal)),
        )


class Outcome(BaseModel):
    """One run of a scene."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    after: Seen
    """The kept picture."""
    images: int
    """Images drawn."""
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
    """By run."""
    damaged: str = ""
    """Id of the object that was damaged; empty where the picture was drawn."""


def painted_scene(at: int) -> tuple[SceneGraph, Image.Image, str]:
    """Scene, painting and the damaged object of number ``at``, levels in turn; always the same."""
    level = LEVELS[at % len(LEVELS)]
    for n in itertools.count():
        painting = painting_of_level(level, f"realism/{n}", at)
        seen = graded(damage(painting, []))
        if seen.objects and can_be_said(painting.scene):
            rng = random.Random(f"realism/{at}")
            chosen = rng.choice(seen.objects).id
            wrong = [DamageRequest(chosen, kind, DAMAGE) for kind in ("shape", "texture")]
            return painting.scene, damage(painting, wrong, at).image, chosen
    raise AssertionError("there is always another painting")


def fingerprint(profile: Profile, run_models: RunModels) -> str:
    """Names all that decides a row: profile, runs, weights, prompts and code."""
    models = (
        *(
            run_models.backend,
            run_models.composer,
            *run_models.loop_judges,
            *run_models.report_judges,
        ),
        *(*run_models.realism_judges, *run_models.realism_report_judges),
    )
    return fingerprint_of(
        {
            "profile": profile.model_dump(mode="json", exclude={"about"}),
            "runs": {name: dict(changes) for name, changes in RUNS.items()},
            "images": IMAGES,
            "damage": DAMAGE,
            "models": [[model.id, model.fingerprint] for model in models],
            "code": code_digest(),
        }
    )


async def measure_drawn(
    scene: SceneGraph, at: int, profile: Profile, run_models: RunModels, **given: Any
) -> RealismRow:
    """All of :data:`RUNS` on ``scene`` from a drawn picture; ``at`` is the seed of all."""
    return await _measure(scene, at, profile, run_models, None, "", **given)


async def measure_painted(
    scene: SceneGraph, at: int, profile: Profile, run_models: RunModels, **given: Any
) -> RealismRow:
    """The same from the damaged painting of number ``at``."""
    painted, picture, damaged = painted_scene(at)
    assert painted == scene
    return await _measure(scene, at, profile, run_models, picture, damaged, **given)


async def _measure(
    scene: SceneGraph,
    at: int,
    profile: Profile,
    run_models: RunModels,
    start: Image.Image | None,
    damaged: str,
    *,
    fingerprint: str,
    scratch: Path | None = None,
    images: int = IMAGES,
) -> RealismRow:
    begun = time.perf_counter()
    backend = SharedBackend(run_models.backend)
    models: dict[str, Any] = {
        "judges": [SharedJudge(judge) for judge in run_models.loop_judges],
        "report_judges": [],
    }
    real = [SharedJudge(judge) for judge in run_models.realism_judges]
    report = replace(
        run_models,
        report_judges=tuple(SharedJudge(judge) for judge in run_models.report_judges),
        realism_report_judges=tuple(
            SharedJudge(judge) for judge in run_models.realism_report_judges
        ),
    )
    most = images if start is None else images - 1
    before: Seen | None = None
    found: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="bench-realism-", dir=scratch) as folder:
        for name, changes in RUNS.items():
            more = {"realism_judges": real, "realism_report_judges": []}
            own = {key: value for key, value in changes.items() if key != "profile"}
            result = await refine(
                scene,
                profile.model_copy(update=dict(changes.get("profile", {}))),
                out=Path(folder) / name,
                rounds=images,
                patience=images,
                seed=at,
                budget=Budget(images=most),
                backend=backend,
                start=start,
                **models,
                **(more if changes.get("realism") else {}),
                **own,
            )
            if before is None:
                before = await _seen(result, 0, scene, profile, report)
            found[name] = await _outcome(result, scene, profile, report)
    assert before is not None
    return RealismRow(
        fingerprint=fingerprint,
        at=at,
        scene=scene.digest,
        level=scene.level(),
        before=before,
        runs=found,
        damaged=damaged,
        seconds=time.perf_counter() - begun,
    )


async def _outcome(
    result: RunResult, scene: SceneGraph, profile: Profile, run_models: RunModels
) -> Outcome:
    assert result.best_round is not None
    plans = [e for e in read_events(result.folder / EVENTS) if isinstance(e, Planned)]
    return Outcome(
        after=await _seen(result, result.best_round, scene, profile, run_models),
        images=int(result.totals["images"]),
        kept=result.best_round,
        repaired=tuple(plan.object for plan in plans if plan.object is not None),
        first=next((plan.object or "" for plan in plans if plan.round == 1), ""),
    )


async def _seen(
    result: RunResult, round: int, scene: SceneGraph, profile: Profile, run_models: RunModels
) -> Seen:
    """A round's picture as the judges of the report see it."""
    found = await score(
        result.image_path(result.rounds[round].image),
        scene,
        profile.model_copy(update={"cascade": None, "calibration": None}),
        judges=run_models.report_judges,
        report_judges=[],
        realism=True,
        realism_judges=run_models.realism_report_judges,
        realism_report_judges=[],
    )
    return Seen.of(found.loop)


def figures_of(rows: Sequence[RealismRow], part: str = "") -> dict[str, Any]:
    """Means over scenes with their 95 % intervals; ``part`` goes before each key.

    Realism is compared over the scenes in which it could be scored before and after.
    """
    figures: dict[str, Any] = {}

    def put(key: str, values: Sequence[float]) -> None:
        if values:
            figures[f"{part}{key}"] = interval(values)

    for key in ("ocr", "sgscore"):
        put(f"{key}.before", [v for row in rows if (v := getattr(row.before, key)) is not None])
        for name in RUNS:
            pairs = [
                (old, new)
                for row in rows
                if (old := getattr(row.before, key)) is not None
                and (new := getattr(row.runs[name].after, key)) is not None
            ]
            after = f"{key}.after" if name == REALISM else f"{key}.after_{name}"
            put(after, [new for _, new in pairs])
            gain = f"{key}.gain" if name == REALISM else f"{key}.gain_{name}"
            put(gain, [new - old for old, new in pairs])
    for name in RUNS:
        if name != REALISM:
            put(
                f"ocr.gain_over_{name}",
                [
                    ours - theirs
                    for row in rows
                    if (ours := row.runs[REALISM].after.ocr) is not None
                    and (theirs := row.runs[name].after.ocr) is not None
                ],
            )
        lost = [len({*row.before.held} - {*row.runs[name].after.held}) for row in rows]
        put(f"facts_lost.{name}", [float(n) for n in lost])
        put(f"images.{name}", [float(row.runs[name].images) for row in rows])
    _of_damaged([row for row in rows if row.damaged], put)
    return figures


def _of_damaged(rows: Sequence[RealismRow], put: Callable[[str, Sequence[float]], None]) -> None:
    """What became of the objects that were damaged."""
    if not rows:
        return
    # Only where round 1 repairs realism does it look at the picture that was damaged.
    aimed = [row for row in rows if row.runs[INPAINT].first]
    put("found", [float(row.runs[INPAINT].first == row.damaged) for row in aimed])
    put("damaged.before", [v for row in rows if (v := row.before.objects.get(row.damaged))])
    for name in RUNS:
        scored = [row for row in rows if row.damaged in row.runs[name].after.objects]
        put(f"damaged.after_{name}", [row.runs[name].after.objects[row.damaged] for row in scored])
        put(
            f"damaged.looks_real_{name}",
            [float(row.damaged not in row.runs[name].after.unreal) for row in scored],
        )


def _object_of(fact_id: str) -> str:
    return fact_id.removeprefix("real:").rpartition(":")[0].replace("\\", "")
