"""Work of the denoiser: what is counted, what ends a run, and what draws with less of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from scenewright.config.options import Budget
from scenewright.config.profiles import BUILT_IN
from scenewright.core.ports.backend import (
    BackendFeatures,
    GeneratedImage,
    GenerationRequest,
)
from scenewright.graphs.events import Event, Generated
from scenewright.graphs.state import round_seed
from scenewright.runs.api import refine
from scenewright.runs.record import read_run
from scenewright.runs.report.render import write_page
from scenewright.runs.result import RunResult
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge

SCENE = "red ball on table; dog left of table"
WORK = 2.0
"""Full-picture steps of each scripted picture."""


@dataclass
class CountedBackend(ScriptedBackend):
    """Tells the work of its pictures, and draws several at once."""

    together: list[int] = field(default_factory=list)
    """How many pictures each call drew."""

    @property
    def features(self) -> BackendFeatures:
        return replace(super().features, crops=True)

    async def generate_many(self, requests: Any, load: Any, on_step: Any = None) -> Any:
        made = [await super(CountedBackend, self).generate(one, load, on_step) for one in requests]
        self.together.append(len(made))
        return [replace(one, work=WORK) for one in made]

    async def generate(self, request: Any, load: Any, on_step: Any = None) -> GeneratedImage:
        return (await self.generate_many([request], load, on_step))[0]


async def run(
    out: Path, backend: CountedBackend, rounds: int = 3, budget: Budget | None = None, **own: Any
) -> tuple[RunResult, list[GenerationRequest]]:
    events: list[Event] = []
    result = await refine(
        SCENE,
        BUILT_IN["miniature"].model_copy(update=own),
        out=out,
        seed=5,
        rounds=rounds,
        patience=9,
        budget=budget or Budget(),
        backend=backend,
        composer=ScriptedComposer(),
        judges=[ScriptedJudge("a", level=lambda fact: 100)],
        report_judges=[],
        on_event=events.append,
    )
    return result, [event.request for event in events if isinstance(event, Generated)]


async def test_the_work_of_every_round_is_told(tmp_path: Path) -> None:
    result, drawn = await run(tmp_path / "run", CountedBackend(lambda request: 50))
    assert len(drawn) == 5
    assert [record.work for record in result.rounds] == [WORK, 2 * WORK, 2 * WORK]
    assert result.totals["work"] == 5 * WORK
    view = read_run(tmp_path / "run")
    assert view.work == 5 * WORK
    page = write_page(tmp_path / "run").read_text(encoding="utf-8")
    assert "5 images drawn, 10 steps of work" in page
    assert "<td>4 steps</td>" in page


async def test_a_backend_that_does_not_tell_its_work_has_none(tmp_path: Path) -> None:
    events: list[Event] = []
    result = await refine(
        SCENE,
        "miniature",
        out=tmp_path / "run",
        rounds=1,
        backend=ScriptedBackend(lambda request: 255),
        composer=ScriptedComposer(),
        judges=[ScriptedJudge("a")],
        report_judges=[],
        on_event=events.append,
    )
    assert result.rounds[0].work is None
    assert read_run(tmp_path / "run").work is None
    assert "of work" not in write_page(tmp_path / "run").read_text(encoding="utf-8")
    written = (tmp_path / "run" / "events.jsonl").read_text(encoding="utf-8")
    assert '"work"' not in "".join(line for line in written.splitlines() if "generated" in line)


async def test_no_round_begins_beyond_the_work_allowed(tmp_path: Path) -> None:
    backend = CountedBackend(lambda request: 50)
    result, drawn = await run(tmp_path / "run", backend, rounds=9, budget=Budget(work=5.0))
    assert result.stop_reason == "budget"
    assert len(drawn) == 3


async def test_the_steps_of_the_run_reach_every_picture(tmp_path: Path) -> None:
    _, drawn = await run(tmp_path / "run", CountedBackend(lambda request: 50), rounds=2, steps=4)
    first, reference, second = drawn
    assert reference.seed == round_seed(5, 1, "reference")
    assert [one.steps for one in (first, reference, second)] == [4, 4, 4]
    # A plain request has the key that it always had.
    plain = GenerationRequest(prompt="a dog", seed=1)
    assert "guided_share" not in plain.model_dump(mode="json")


@pytest.mark.parametrize(("images", "calls"), [(None, [4, 2]), (3, [3])])
async def test_best_of_n_draws_its_pictures_together(
    tmp_path: Path, images: int | None, calls: list[int]
) -> None:
    backend = CountedBackend(lambda request: request.seed % 200)
    budget = Budget(images=images)
    result, drawn = await run(
        tmp_path / "run", backend, rounds=6, budget=budget, strategy="best-of-n"
    )
    assert backend.together == calls
    assert [one.seed for one in drawn] == [
        round_seed(5, at, "candidate") for at in range(sum(calls))
    ]
    assert result.totals["images"] == sum(calls)
    assert result.totals["work"] == WORK * sum(calls)
    assert result.totals["cached"] == 0


async def test_a_limit_that_may_end_the_run_early_draws_none_ahead(tmp_path: Path) -> None:
    backend = CountedBackend(lambda request: 50)
    budget = Budget(work=3.0)
    result, _ = await run(tmp_path / "run", backend, rounds=6, budget=budget, strategy="best-of-n")
    assert backend.together == [1, 1]
    assert result.stop_reason == "budget"
