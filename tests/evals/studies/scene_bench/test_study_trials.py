"""Studies that bring work of their own: done after the evaluations, in folders of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from scenewright.config.settings import Settings
from scenewright.evals.errors import EvalError
from scenewright.evals.reporting import plots
from scenewright.evals.runner.progress import OnProgress, Progress
from scenewright.evals.studies.paper import xtc_paper
from scenewright.evals.studies.registry import STUDIES
from scenewright.evals.studies.running import Job, plan, run_studies
from scenewright.evals.studies.study import Context, Outcome, Setup, StudyDefinition, Trial
from tests.evals.studies.scene_bench.study_results import Made

SETUP = Setup(n=10, seeds=(0,))


def counting(name: str, seen: dict[str, Any], title: str = "counting") -> StudyDefinition:
    async def run(
        what: str, folder: Path, told: OnProgress | None, retry: bool
    ) -> tuple[str, Context]:
        folder.mkdir(parents=True, exist_ok=True)
        kept = folder / "count"
        kept.write_text(str(int(kept.read_text()) + 1) if kept.exists() else "1")
        if told is not None:
            told(Progress(doing="counting", items=1))
        return f"{what} {kept.read_text()}", Context(
            set_name=title, fingerprint="f", items=1, seeds=(0,), draws=False, models={"by": what}
        )

    def requirements(setup: Setup, settings: Settings) -> tuple[Trial, ...]:
        return tuple(
            Trial(f"{name}-{what}", title, 1, "things", partial(run, what)) for what in ("a", "b")
        )

    def outcome(setup: Setup, settings: Settings, found: tuple[str, ...]) -> Outcome:
        seen[name] = found
        return Outcome((), (), _figure, notes=found)

    return StudyDefinition(name, name, "Ours", "counting", requirements, outcome, paper=xtc_paper)


def _figure() -> Figure:
    made, _ = plots.figure()
    figure: Figure = made
    return figure


async def test_trials_follow_evaluations_and_keep_their_folders(tmp_path: Path) -> None:
    seen: dict[str, Any] = {}
    jobs: list[tuple[str, int, int]] = []
    said: list[Progress] = []

    @contextmanager
    def watch(job: Job, number: int, of: int) -> Iterator[OnProgress]:
        jobs.append((job.title, number, of))
        yield said.append

    async def perform(job: Job, folder: Path, told: OnProgress | None) -> tuple[Any, Context]:
        if isinstance(job, Trial):
            return await job.run(folder, told, False)
        return await Made()(job, folder, told)

    studies = (counting("one", seen), STUDIES["feedback"], counting("two", seen))
    again: dict[str, Any] = {}
    for _ in range(2):
        again = dict(seen)
        done = await run_studies(
            studies, SETUP, tmp_path, settings=Settings(), watch=watch, perform=perform
        )
    assert again == {"one": ("a 1", "b 1"), "two": ("a 1", "b 1")}
    # What lies in its folder is there for the next call.
    assert seen == {"one": ("a 2", "b 2"), "two": ("a 2", "b 2")}
    assert [title for title, _, _ in jobs[:5]] == ["miniature", *4 * ["counting"]]
    assert [(number, of) for _, number, of in jobs[:5]] == [(at, 5) for at in range(1, 6)]
    assert len(said) == 8
    assert [one.study.name for one in done] == ["one", "feedback", "two"]


async def test_the_page_says_who_took_part_and_whose_figures_these_are(tmp_path: Path) -> None:
    await run_studies((counting("one", {}),), SETUP, tmp_path, settings=Settings())
    text = (tmp_path / "one.md").read_text(encoding="utf-8")
    assert "Set `counting`, 1 items, seeds 0; by: a." in text
    assert "drawn by" not in text
    data = (tmp_path / "one.json").read_text(encoding="utf-8")
    assert xtc_paper().paper in data


def test_a_plan_has_evaluations_first() -> None:
    studies = (counting("one", {}), STUDIES["feedback"])
    jobs = plan(studies, SETUP, Settings())
    assert [job.requirements for job in jobs] == [((1, 0),), ((0, 0),), ((0, 1),)]
    assert [isinstance(job, Trial) for job in jobs] == [False, True, True]


async def test_a_trial_that_fails_stops_before_anything_is_written(tmp_path: Path) -> None:
    async def broken(*_: Any) -> tuple[Any, Context]:
        raise EvalError("nothing to count")

    with pytest.raises(EvalError, match="nothing to count"):
        await run_studies(
            (counting("one", {}),), SETUP, tmp_path, settings=Settings(), perform=broken
        )
    assert not (tmp_path / "one.md").exists()
