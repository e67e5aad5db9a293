"""Strategies in the loop: what a run of each tells, draws and keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scenewright.config.options import Budget
from scenewright.config.profiles import BUILT_IN
from scenewright.core.facts import Fact
from scenewright.core.ports.backend import GenerationRequest
from scenewright.graphs.errors import RunError
from scenewright.graphs.events import Event, Generated, Planned
from scenewright.graphs.strategies.registry import strategies
from scenewright.runs.api import refine
from scenewright.runs.record import read_run
from scenewright.runs.report.render import write_page
from scenewright.runs.result import RunResult
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge

SCENE = "red ball on table; dog left of table"


def level(fact: Fact) -> int:
    """The dog is found in pictures of quality over 100, all else always."""
    return 100 if "dog" in fact.id else 0


async def run(
    out: Path, strategy: str, *qualities: int, **options: Any
) -> tuple[RunResult, list[Event]]:
    """A run whose candidates have these qualities, one after the other, the last one for ever."""
    rest = list(qualities)
    drawn: dict[int, int] = {}

    def quality(request: GenerationRequest) -> int:
        # A picture of the missing graph names the dog alone.
        if "ball.1" not in request.prompt:
            return 0
        at = hash(request.model_dump_json())
        if at not in drawn:
            drawn[at] = rest.pop(0) if len(rest) > 1 else rest[0]
        return drawn[at]

    events: list[Event] = []
    watch = options.pop("watch", lambda event: None)

    def seen(event: Event) -> None:
        events.append(event)
        watch(event)

    result = await refine(
        SCENE,
        BUILT_IN["miniature"],
        strategy=strategy,
        out=out,
        backend=ScriptedBackend(quality, masks=True),
        composer=ScriptedComposer(),
        judges=[ScriptedJudge("a", level=level)],
        report_judges=[],
        on_event=seen,
        **options,
    )
    return result, events


@pytest.mark.slow
@pytest.mark.parametrize("name", strategies())
async def test_every_round_tells_what_it_does_and_why(tmp_path: Path, name: str) -> None:
    # A round of the tournament, which the router begins with, draws five proposals.
    second = [60] * (5 if name in ("tournament", "router") else 1)
    result, events = await run(tmp_path / "run", name, 50, *second, 255, rounds=3)
    plans = [event for event in events if isinstance(event, Planned)]
    assert [plan.round for plan in plans] == [1, 2]
    assert (result.best_round, len(result.rounds)) == (2, 3)
    for plan, record in zip(plans, result.rounds[1:], strict=True):
        assert (record.strategy, record.does, record.why) == (plan.strategy, plan.does, plan.why)
        assert plan.chosen_by == ("router" if name == "router" else "")
        assert name in (plan.strategy, plan.chosen_by)
        references = [e for e in events if isinstance(e, Generated) and e.purpose == "reference"]
        assert (plan.reference is not None) == (plan.round in {e.round for e in references})
    page = write_page(tmp_path / "run").read_text(encoding="utf-8")
    assert all(f"Repair: {plan.strategy}" in page for plan in plans)
    assert read_run(tmp_path / "run").rounds[1].plan == plans[0]


async def test_best_of_n_draws_all_and_keeps_the_best(tmp_path: Path) -> None:
    result, _ = await run(
        tmp_path / "run", "best-of-n", 255, 50, 50, 50, rounds=9, patience=1,
        budget=Budget(images=4),
    )  # fmt: skip
    assert (result.stop_reason, result.best_round, len(result.rounds)) == ("budget", 0, 4)
    rounds, _ = await run(tmp_path / "two", "best-of-n", 255, 50, rounds=3)
    assert (rounds.stop_reason, len(rounds.rounds)) == ("satisfied", 3)


async def test_a_round_of_one_image_fits_where_one_of_two_does_not(tmp_path: Path) -> None:
    two, _ = await run(tmp_path / "two", "feedback", 50, rounds=9, budget=Budget(images=2))
    one, _ = await run(tmp_path / "one", "router", 50, rounds=9, budget=Budget(images=2))
    assert (two.totals["images"], one.totals["images"]) == (1, 2)
    assert one.rounds[1].strategy != "feedback"


async def test_an_unknown_strategy_is_told_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no strategy 'magic'"):
        await run(tmp_path / "run", "magic", 50)
    assert not (tmp_path / "run").exists()


async def test_a_stopped_run_goes_on_with_the_same_strategy(tmp_path: Path) -> None:
    whole, _ = await run(tmp_path / "whole", "router", 50, 60, 70, 80, rounds=4, patience=9)

    class Stop(Exception):
        pass

    def stop(event: Event) -> None:
        if isinstance(event, Planned) and event.round == 2:
            raise Stop

    with pytest.raises(Stop):
        await run(tmp_path / "cut", "router", 50, 60, 70, 80, rounds=4, patience=9, watch=stop)
    again, _ = await run(tmp_path / "cut", "router", 70, 80, rounds=4, patience=9)
    assert [r.strategy for r in again.rounds] == [r.strategy for r in whole.rounds]
    assert again.best_round == whole.best_round
