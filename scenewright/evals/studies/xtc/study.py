"""Tables 2, 3 and 4 and Fig. 4 of XTC-Bench: what a model draws against what it understands.

No model of the miniature both draws and answers. Two ways of drawing and three judges that answer
make six pairs, which stand in for unified models: what a pair draws and what it understands come of
different weights. Pictures and answers that pairs share are made once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from scenewright.config.settings import Settings, find_profile
from scenewright.evals.studies.context import Context
from scenewright.evals.studies.errors import StudyError
from scenewright.evals.studies.paper import xtc_paper
from scenewright.evals.studies.setup import MINIATURE, Setup
from scenewright.evals.studies.study import Outcome, StudyDefinition, Trial, TrialCost
from scenewright.evals.studies.xtc.base import FactScore
from scenewright.evals.studies.xtc.config import ModelSpec, XtcConfig
from scenewright.evals.studies.xtc.scores import XtcScores
from scenewright.evals.studies.xtc.study_claims import claims_of
from scenewright.evals.studies.xtc.study_sheet import Sheet
from scenewright.evals.studies.xtc.study_tables import plot_of, tables_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from scenewright.evals.runner.progress import OnProgress
    from scenewright.evals.studies.xtc.results import XtcResults

MOST_SCENES = 40
"""Scenes of the miniature's study: each is drawn twice and asked about three times over."""
CONDITIONS: dict[str, str] = {"composition": "composed", "triplets": "bare triplets"}
"""Way of drawing → how models that draw so are called."""


@dataclass(frozen=True, slots=True)
class Found:
    """What an evaluation by XTC-Bench found."""

    facts: Mapping[str, tuple[FactScore, ...]]
    """Model → its facts."""
    scores: Mapping[str, XtcScores]
    """Model → its figures."""


def _lacks(setup: Setup) -> str:
    return setup.lacks_extractor or setup.lacks_understanders


def config_of(setup: Setup) -> XtcConfig:
    """The evaluation. Raises ``StudyError`` if the profile lacks an extractor or understanders."""
    if why := _lacks(setup):
        raise StudyError(why)
    most = min(setup.scenes, MOST_SCENES) if setup.synthetic else setup.scenes
    scenes = setup.model_copy(update={"n": most}).set_of_scenes()
    return XtcConfig(
        name="study-xtc",
        about=f"XTC-Bench's tables ({setup.profile})",
        dataset=scenes,
        models={
            f"{title} + {short}": ModelSpec(
                profile=setup.profile, condition=condition, understander=understander
            )
            for condition, title in CONDITIONS.items()
            for short, understander in setup.who_understands().items()
        },
        extractor=setup.graph_extractor(),
        seeds=setup.seeds[:1],
        concurrency=setup.concurrency,
    )


def wants(setup: Setup, settings: Settings) -> tuple[Trial, ...]:
    """An evaluation by XTC-Bench in place of one by metrics."""
    config = config_of(setup)
    settings = _with_steps(setup, settings)
    items = config.dataset.options.get("n") or config.dataset.limit or setup.scenes
    here = setup.synthetic and not setup.understanders
    return (
        Trial(
            "xtc",
            "XTC-Bench",
            int(items),
            "scenes",
            partial(_run, config, settings),
            None if here else partial(_price, config, settings),
        ),
    )


def _with_steps(setup: Setup, settings: Settings) -> Settings:
    """The settings with the setup's denoising steps in its profile."""
    if setup.steps is None:
        return settings
    profile = find_profile(setup.profile, settings).model_dump(mode="json", exclude_unset=True)
    own = {**settings.profiles, setup.profile: {**profile, "steps": setup.steps}}
    return settings.model_copy(update={"profiles": own})


async def _price(config: XtcConfig, settings: Settings) -> TrialCost:
    """What it costs by the questions that will be asked. Of an extractor by language models the
    calls depend on what is seen: they are not counted."""
    from scenewright.evals.runner.dataset_predicates import dataset_predicates, relates
    from scenewright.evals.studies.xtc.model_setup import XtcModelOverrides, build_xtc_models
    from scenewright.evals.studies.xtc.planning import plan_of
    from scenewright.evals.studies.xtc.running import xtc_dataset

    with TemporaryDirectory() as folder:
        found = xtc_dataset(config, Path(folder), Path())
        items = list(found)
        scenes = [item.scene for item in items if item.scene is not None]
        own = dataset_predicates(config.predicates, config.dataset, found, needed=relates)
        xtc_models = await build_xtc_models(
            config, settings, XtcModelOverrides(), Path(), scenes, own
        )
        plan = await plan_of(config, xtc_models, items, settings)
    name = str(config.extractor)
    reads = () if name.startswith(MINIATURE) else (f"the extractor {name}",)
    return TrialCost(plan.usd, (*plan.unpriced, *reads))


async def _run(
    config: XtcConfig, settings: Settings, folder: Path, told: OnProgress | None, retry: bool
) -> tuple[Found, Context]:
    from scenewright.evals.studies.xtc.running import run_xtc

    results = await run_xtc(
        config, folder, settings=settings, root=folder.parent, retry=retry, on_progress=told
    )
    facts = {model: tuple(some) for model, some in results.fact_scores().items()}
    return Found(facts, results.scores()), context_of(results)


def context_of(results: XtcResults) -> Context:
    """What a reader must know of an evaluation by XTC-Bench."""
    manifest = results.manifest
    models = manifest["models"]
    parts: list[dict[str, str]] = list(models["models"].values())
    return Context(
        set_name=manifest["dataset"]["name"],
        fingerprint=manifest["dataset"]["fingerprint"],
        items=results.table("items").num_rows,
        seeds=tuple(manifest["config"]["seeds"]),
        backends=tuple(sorted({part["backend"] for part in parts if "backend" in part})),
        models={
            "understood by": ", ".join(
                sorted({part["understander"] for part in parts if "understander" in part})
            ),
            "graphs read by": models["extractor"]["id"],
            "texts compared by": models["similarity"],
            "graded by": models["grader"]["id"],
        },
        totals={
            name: float(value)
            for name, value in manifest.get("totals", {}).items()
            if isinstance(value, int | float)
        },
    )


def outcome(setup: Setup, settings: Settings, found: tuple[Found, ...]) -> Outcome:
    """The three tables, the plot of U over G, and the text's statements."""
    (one,) = found
    sheet = Sheet(one.facts)
    return Outcome(
        tables_of(one.scores),
        claims_of(sheet),
        lambda: _plot(setup, one),
        _notes(setup, one, sheet),
        _data(one),
    )


def _plot(setup: Setup, found: Found) -> Figure:
    return plot_of(found.scores, f"Understanding over generation, {setup.profile}")


def _data(found: Found) -> dict[str, Any]:
    """Quadrants, covariances, and what was not scored, by model."""
    return {
        model: {
            "quadrants": dict(scores.overall.quadrants),
            "covariance": scores.overall.covariance.model_dump(mode="json"),
            "facts": scores.overall.facts,
            "compared": scores.overall.both,
            "absent": scores.overall.absent,
            "unscored_generation": scores.overall.unscored_generation,
            "unscored_understanding": scores.overall.unscored_understanding,
            "unasked": scores.unasked,
        }
        for model, scores in found.scores.items()
    }


def _notes(setup: Setup, found: Found, sheet: Sheet) -> tuple[str, ...]:
    notes = [
        "Rows that begin with *paper:* hold the paper's figures alone; none of its models was run "
        "here.",
        "Overall generation, CCTA and AW-CCTA are over attributes and relations, as the paper's "
        "printed figures are (docs/xtc.md); overall understanding is over all questions.",
    ]
    if setup.synthetic:
        notes += [
            "No model here both draws and answers: each is a way of drawing and a judge, whose "
            "weights have nothing in common. Models that draw alike have the same pictures, "
            "so G has two values, and rank correlations over models have ties.",
            "The extractor asks judge-a and judge-b, so models that understand by judge-a share "
            "its errors with what reads their pictures; judge-c and judge-weak share none.",
        ]
    for model, scores in found.scores.items():
        whole = scores.overall
        lost = whole.unscored_generation + whole.unscored_understanding
        if lost:
            notes.append(
                f"{model}: {whole.unscored_generation} of {whole.facts} facts unscored in "
                f"generation, {whole.unscored_understanding} in understanding, left out."
            )
    first = next(iter(found.scores.values()), None)
    if first is not None and first.overall.facts:
        notes.append(
            f"{first.overall.facts} questions over {sheet.scenes} scenes; {first.unasked} facts "
            "are in no question: nothing tells what they are about from other objects."
        )
    return tuple(notes)


STUDY = StudyDefinition(
    "xtc",
    "xtc",
    "XTC-Bench, Tables 2–4 and Fig. 4",
    "what models draw against what they understand",
    wants,
    outcome,
    paper=xtc_paper,
    unsupported_reason=_lacks,
)
