"""Every repair strategy on the same held-out scenes at the same number of images.

``python -m benchmarks.strategies [--quick]``. Every strategy begins with the same picture and may
draw 7 images in all, references included. All but best-of-n stop as soon as the loop's judges find
nothing missing. The strategies that redraw the whole picture use the paper's weights, λ0 = λ1 =
0.5; ``feedback`` and the router are as the profile has them. The tournament draws crops of few
steps: it gets the work of 7 images in place of their number. Rows are stored scene by scene: the
same command goes on after a kill. ``--priors`` also writes what every repair paid for every kind of
failure into the router's ``priors.toml``; with ``--tuning`` from tuning scenes.

Scores are by judges that the loop never saw: ``[LEVEL.]sgscore.RUN``, ``[LEVEL.]facts.RUN``,
``images.RUN``, ``regressions.RUN`` (facts that a round loses, mean over the scenes that needed a
second round), ``work.RUN`` (full-picture steps), ``gain.router_vs_RUN`` (paired, SGScore),
``gain.facts_router_vs_RUN``,
``chosen.STRATEGY`` (share of the router's rounds) and ``helped.STRATEGY`` (share of those whose
picture became the best).
"""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks._harness import (
    PROCESSES,
    Option,
    benchmark,
    folder,
    interval,
    work_folder,
)
from benchmarks._loop import (
    WHOLE,
    Kept,
    level_parts,
    lost_a_round,
    miniature,
    read,
    refined,
    rounds_tried,
    score_figures,
    verb,
)
from benchmarks._rows import MeasuredScene, SceneStudy
from benchmarks._scenes import ALL_LEVELS, balanced_scenes
from benchmarks._templates import shown, template
from benchmarks.loop import SAVING
from scenewright.config.options import Budget
from scenewright.config.profiles import Profile
from scenewright.core.scene import SceneGraph
from scenewright.core.validation import FrozenModel
from scenewright.graphs.eventlog import read_events
from scenewright.graphs.strategies import payoff
from scenewright.graphs.strategies.base import attempts
from scenewright.graphs.strategies.payoff import priors_toml
from scenewright.graphs.strategies.registry import strategies
from scenewright.runs.folder import EVENTS
from scenewright.runs.model_factory.profiles import RunModels
from scenewright.runs.result import RunResult

WORK = Path("out/bench-strategies")
BACKEND = "diffusers:miniature"
PRIORS = Path(payoff.__file__).with_name(payoff.FILE)
STEPS = 20
"""Denoising steps of a picture."""
IMAGES = 7
"""Images of a run: three rounds of feedback with their references, and the first picture."""
RUNS: Mapping[str, Mapping[str, Any]] = {
    **{name: {"profile": {"strategy": name}} for name in strategies() if name != "compose-edit"},
    "feedback-whole": {"profile": {"strategy": "feedback", **WHOLE}},
    "tournament": {
        "profile": {"strategy": "tournament", **SAVING},
        "budget": Budget(work=IMAGES * STEPS),
    },
}
"""Name of a run → its options. ``compose-edit`` would do what ``edit`` does: the miniature takes no
instructions."""
ROUTER = "router"
TUNING = 1000
"""Scenes from this number on are for trying settings out; none of them is in a result."""


class TriedRound(FrozenModel):
    """What one round tried, gained and took."""

    kind: str
    """Kind of failure."""
    strategy: str
    """The repair that acted."""
    gained: int
    """Facts that the kept picture gained."""
    pictures: float
    """Pictures' worth of work."""


class RepairRow(MeasuredScene):
    """All strategies on one scene."""

    kept: dict[str, Kept]
    """By run: the image that is kept, and its scores."""
    regressions: dict[str, float | None]
    """By run: facts lost a round, of those confirmed in the picture that the round began from;
    None where no second round was needed."""
    rounds: dict[str, int]
    """By run: rounds after the first."""
    acting: dict[str, int]
    """Strategies that the router chose, and how often."""
    gained: dict[str, int]
    """Of those, how often the round's picture became the best."""
    work: dict[str, float]
    """By run: full-picture steps of the denoiser."""
    tried: list[TriedRound]
    """Later rounds of all runs but the router's, for its priors."""


async def measure_scene(
    scene: SceneGraph, at: int, profile: Profile, models: RunModels, scratch: Path | None = None
) -> dict[str, Any]:
    """Run all of :data:`RUNS` on ``scene``."""
    most = {"rounds": IMAGES, "budget": Budget(images=IMAGES)}
    results: dict[str, RunResult] = {}
    tried: list[dict[str, Any]] = []
    async for name, result in refined(scene, at, profile, models, RUNS, scratch, **most):
        results[name] = result
        if name != ROUTER:
            # Read here: the folders are gone after the last run.
            tried += rounds_of(result, models.backend.features.default_steps)
    router = rounds_tried(results[ROUTER])
    return {
        "kept": {name: read(result, IMAGES) for name, result in results.items()},
        "regressions": {name: lost_a_round(result) for name, result in results.items()},
        "rounds": {name: len(result.rounds) - 1 for name, result in results.items()},
        "acting": dict(sorted(Counter(one.strategy for one in router).items())),
        "gained": dict(sorted(Counter(one.strategy for one in router if one.better).items())),
        "work": {name: result.totals["work"] for name, result in results.items()},
        "tried": tried,
    }


def rounds_of(result: RunResult, steps: int) -> list[dict[str, Any]]:
    """Return the later rounds that had something to repair, as data of :class:`TriedRound`."""
    events = list(read_events(result.folder / EVENTS))
    return [
        {
            "kind": one.kind,
            "strategy": one.strategy,
            "gained": one.gained,
            "pictures": one.pictures,
        }
        for one in attempts(events, result.facts, len(result.rounds), steps)
        # Best-of-n goes on where nothing failed: that repairs nothing.
        if one.target
    ]


def figures_of(rows: Sequence[RepairRow]) -> dict[str, Any]:
    """Return all figures; raises ``ValueError`` without rows."""
    figures: dict[str, Any] = {}
    gains = {f"router_vs_{name}": (ROUTER, name) for name in RUNS if name != ROUTER}
    for prefix, some in level_parts(rows, ALL_LEVELS).items():
        cards = {name: [row.kept[name].report for row in some] for name in RUNS}
        figures |= score_figures(cards, gains, ("sgscore", "facts"), prefix)
    for name in RUNS:
        figures[f"images.{name}"] = interval([row.kept[name].images for row in rows])
        figures[f"work.{name}"] = interval([row.work[name] for row in rows])
        lost = [value for row in rows if (value := row.regressions[name]) is not None]
        if lost:
            figures[f"regressions.{name}"] = interval(lost)
    chosen = {name: sum(row.acting.get(name, 0) for row in rows) for name in strategies()}
    for name, count in chosen.items():
        if count:
            figures[f"chosen.{name}"] = count / sum(chosen.values())
            figures[f"helped.{name}"] = sum(row.gained.get(name, 0) for row in rows) / count
    return figures


def write_priors(rows: Sequence[RepairRow]) -> None:
    """Write the section of the miniature's generator in the router's priors."""
    header = "".join(line for line in PRIORS.read_text().splitlines(True) if line.startswith("#"))
    tried = [one for row in rows for one in row.tried]
    PRIORS.write_text(header + "\n" + priors_toml(BACKEND, tried), encoding="utf-8")


def verdicts(figures: Mapping[str, Any]) -> list[str]:
    """Say what the intervals allow to say of the router, one sentence a kind."""
    kinds: dict[str, list[str]] = {"beats": [], "is tied with": [], "falls behind": []}
    for name in RUNS:
        if gain := figures.get(f"gain.router_vs_{name}"):
            kinds[verb(gain, "is tied with")].append(f"{name} ({shown(gain)})")
    return [f"The router {said} {', '.join(names)}." for said, names in kinds.items() if names]


def markdown(figures: Mapping[str, Any], n: int, date: str) -> str:
    """Return the table of the results page, with what it says."""
    return (
        template("strategies_table.md")
        .render(
            figures=figures,
            n=n,
            date=date,
            runs=sorted(
                (run for run in RUNS if f"sgscore.{run}" in figures),
                key=lambda run: -figures[f"sgscore.{run}"]["mean"],
            ),
            levels=ALL_LEVELS,
            images=IMAGES,
            verdicts=verdicts(figures),
        )
        .rstrip()
    )


@benchmark(
    "5 scenes",
    measures=("scenewright.graphs.strategies",),
    clean=True,
    trials=["tuning"],
    scenes=Option(60, "scenes", least=1),
    processes=PROCESSES,
    work=folder(f"folder of the rows (default: {WORK})"),
    priors=Option(
        False,
        "write what the repairs paid into the router's priors",
        more={"action": "store_true"},
    ),
    tuning=Option(
        False,
        f"scenes from {TUNING} on, for trying settings out; writes no results",
        more={"action": "store_true"},
    ),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure all strategies."""
    count = 5 if options.quick else options.scenes + -options.scenes % len(ALL_LEVELS)
    first = TUNING if options.tuning else 0
    profile = miniature(options.quick)
    study = SceneStudy.of(
        RepairRow, measure_scene, profile, levels=ALL_LEVELS, runs=RUNS, images=IMAGES
    )
    with work_folder(options, WORK) as work:
        scenes = dict(enumerate(balanced_scenes(count, ALL_LEVELS, first), first))
        rows = study.rows(scenes, work / "rows.jsonl", options.processes)
    figures = figures_of(rows)
    if options.priors:
        write_priors(rows)
    print(markdown(figures, len(rows), "now"))
    return len(rows), figures


if __name__ == "__main__":
    main()
