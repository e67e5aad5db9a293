"""The tournament: places, proposals, the choice of the best, and what a kill does to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import pytest

from scenewright.agents.composers.rules import GridComposer
from scenewright.config.options import Budget
from scenewright.config.profiles import BUILT_IN
from scenewright.core.layout import Region, place_what_fits, region_of_cell
from scenewright.core.ports.backend import BackendFeatures, GenerationRequest
from scenewright.core.scene import SceneGraph
from scenewright.graphs.events import (
    Composed,
    Event,
    Generated,
    Planned,
    Proposed,
    Selected,
)
from scenewright.graphs.state import round_seed
from scenewright.runs.api import refine
from scenewright.runs.record import read_run
from scenewright.runs.report.render import write_page
from scenewright.runs.result import RunResult
from tests.doubles import Killed, ScriptedComposer, ScriptedJudge, kill_at
from tests.graphs.test_work import WORK, CountedBackend

SCENE = "red ball on table; dog left of table; cat"


class PlacingComposer(ScriptedComposer):
    """Plans places on the grid."""

    def places(self, scene: SceneGraph, seed: int) -> Mapping[str, Region]:
        return {key: region_of_cell(cell) for key, cell in place_what_fits(scene, seed).items()}


def levels(fact: Any) -> int:
    """The cat and the dog need a better picture than the rest."""
    return 100 if {"cat.1", "dog.1"} & {fact.subject, fact.target} else 20


def by_turn(*qualities: int) -> Callable[[GenerationRequest], int]:
    """Proposals get these qualities in turn, everything else is middling."""
    seen: dict[int, int] = {}

    def quality(request: GenerationRequest) -> int:
        if request.start is None:
            return 60
        at = seen.setdefault(request.seed, len(seen))
        return qualities[at % len(qualities)]

    return quality


async def run(
    out: Path, backend: CountedBackend, budget: Budget | None = None, **own: Any
) -> tuple[RunResult, list[Event]]:
    events: list[Event] = []
    result = await refine(
        SCENE,
        BUILT_IN["miniature"].model_copy(update={"strategy": "tournament", **own}),
        out=out,
        seed=5,
        rounds=2,
        patience=9,
        budget=budget or Budget(),
        backend=backend,
        composer=PlacingComposer(),
        judges=[ScriptedJudge("a", level=levels), ScriptedJudge("b", level=levels)],
        report_judges=[],
        on_event=events.append,
    )
    return result, events


def only(events: list[Event], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


async def test_every_place_gets_its_best_proposal(tmp_path: Path) -> None:
    backend = CountedBackend(by_turn(30, 200), masks=True)
    result, events = await run(tmp_path / "run", backend)
    (plan,) = only(events, Planned)
    assert [set(place.objects) for place in plan.places] == [{"dog.1"}, {"cat.1"}]
    assert plan.work == (8.0, 20.0)
    assert plan.judge_calls == (8, 20)
    assert "draws 2 proposals for 2 places of what failed" in plan.does
    (heat,) = only(events, Proposed)
    assert [(one.place, one.number, one.wins) for one in heat.proposals] == [
        (0, 0, False),
        (0, 1, True),
        (1, 0, False),
        (1, 1, True),
    ]
    (chosen,) = only(events, Selected)
    assert [one.number for one in chosen.winners] == [1, 1]
    assert set(chosen.gained) == {"o:dog.1", "r:dog.1|left of|table.1", "o:cat.1"}
    assert not chosen.lost
    assert chosen.work == 6 * WORK
    assert chosen.calls == 8 + 2
    assert result.stop_reason == "satisfied"
    # First picture, a picture of what is missing for each proposal, four proposals in one batch.
    assert backend.together == [1, 1, 1, 4]
    assert result.totals["images"] == 7
    assert result.totals["work"] == 7 * WORK
    assert result.rounds[1].pasted == tuple(one.image for one in chosen.winners)


async def test_the_prompt_of_a_crop_says_where_things_are_in_the_crop(tmp_path: Path) -> None:
    class LargeBackend(CountedBackend):
        @property
        def features(self) -> BackendFeatures:
            return replace(super().features, default_size=(128, 128))

    events: list[Event] = []
    profile = {"strategy": "tournament", "crop": True}
    await refine(
        SCENE,
        BUILT_IN["miniature"].model_copy(update=profile),
        out=tmp_path / "run",
        seed=5,
        rounds=2,
        backend=LargeBackend(by_turn(30, 200), masks=True),
        composer=GridComposer(),
        judges=[ScriptedJudge("a", level=levels)],
        report_judges=[],
        on_event=events.append,
    )
    (plan,) = only(events, Planned)
    prompts = {e.key: e.prompt for e in only(events, Composed) if e.purpose == "proposal"}
    assert sorted(prompts) == ["r1:proposal:0:composed", "r1:proposal:1:composed"]
    for at, place in enumerate(plan.places):
        (name,) = place.objects
        assert f"a {name.partition('.')[0]} at the " in prompts[f"r1:proposal:{at}:composed"]
    drawn = [e.request for e in only(events, Generated) if e.purpose == "proposal"]
    assert drawn
    assert all(one.start is not None and one.start.crop for one in drawn)


async def test_a_place_without_a_winner_gets_more_and_then_stays_as_it_was(tmp_path: Path) -> None:
    backend = CountedBackend(by_turn(30), masks=True)
    result, events = await run(tmp_path / "run", backend)
    assert backend.together == [1, 1, 1, 4, 3, 6]
    (chosen,) = only(events, Selected)
    assert not chosen.winners
    assert result.rounds[1].image == result.rounds[0].image
    assert result.best_round == 0
    assert result.totals["images"] == 16


async def test_a_proposal_that_loses_what_held_is_not_pasted(tmp_path: Path) -> None:
    def needs(fact: Any) -> int:
        return 60 if {"cat.1", "dog.1"} & {fact.subject, fact.target} else 20

    class Fickle(ScriptedJudge):
        """Finds the table in the first picture alone."""

        def _answer(self, fact: Any, quality: int) -> Any:
            worse = fact.id == "o:table.1" and quality > 100
            return super()._answer(fact, 0 if worse else quality)

    events: list[Event] = []
    await refine(
        "dog on table",
        BUILT_IN["miniature"].model_copy(update={"strategy": "tournament"}),
        out=tmp_path / "run",
        rounds=2,
        backend=CountedBackend(lambda request: 200 if request.start else 50, masks=True),
        composer=PlacingComposer(),
        judges=[Fickle("a", level=needs)],
        report_judges=[],
        on_event=events.append,
    )
    proposals = [one for heat in only(events, Proposed) for one in heat.proposals]
    assert proposals
    assert all("o:dog.1" in one.gained for one in proposals)
    assert all(one.lost == ("o:table.1",) and not one.wins for one in proposals)


@pytest.mark.parametrize(
    ("budget", "together"),
    [
        (Budget(work=2 * WORK + 2), [1, 1, 2]),
        (Budget(images=6), [1, 1, 1, 3]),
        (Budget(judge_calls=4 + 2 * 3 + 4), [1, 1, 1, 3]),
    ],
)
async def test_the_budget_limits_the_proposals(
    tmp_path: Path, budget: Budget, together: list[int]
) -> None:
    backend = CountedBackend(by_turn(30), masks=True)
    await run(tmp_path / "run", backend, budget)
    assert backend.together == together


class WholeBackend(CountedBackend):
    """Keeps no part of a picture."""

    @property
    def features(self) -> BackendFeatures:
        return replace(super().features, edit=False, masks=False, crops=False)


async def test_without_masks_the_whole_picture_is_the_place(tmp_path: Path) -> None:
    backend = WholeBackend(lambda request: 200 if request.references else 60)
    result, events = await run(tmp_path / "run", backend)
    (plan,) = only(events, Planned)
    assert [place.regions for place in plan.places] == [()]
    assert "it cannot keep a part of a picture" in plan.why
    drawn = [e.request for e in only(events, Generated) if e.purpose == "proposal"]
    assert len(drawn) == 2
    assert [len(request.references) for request in drawn] == [2, 0]
    assert result.stop_reason == "satisfied"


@pytest.mark.parametrize("second", [40, 200])
async def test_a_round_that_gained_nothing_is_followed_by_a_scene_planned_anew(
    tmp_path: Path, second: int
) -> None:
    def quality(request: GenerationRequest) -> int:
        """Repairs of places gain nothing; whole pictures of another plan are ``second``."""
        if request.start is not None:
            return 30
        return 60 if request.prompt == prompts[0] else second

    class PlannedComposer(PlacingComposer):
        async def compose(
            self, scene: SceneGraph, seed: int, within: SceneGraph | None = None
        ) -> str:
            prompts.append(f"{await super().compose(scene, seed, within)} by {seed}")
            return prompts[-1]

    prompts: list[str] = []
    events: list[Event] = []
    backend = CountedBackend(quality, masks=True)
    result = await refine(
        SCENE,
        BUILT_IN["miniature"].model_copy(update={"strategy": "tournament"}),
        out=tmp_path / "run",
        seed=5,
        rounds=4,
        backend=backend,
        composer=PlannedComposer(),
        judges=[ScriptedJudge("a", level=levels)],
        report_judges=[],
        on_event=events.append,
    )
    plans = only(events, Planned)
    assert plans[0].layout == 0
    assert all(place.regions for place in plans[0].places)
    assert plans[1].layout == 2
    assert plans[1].reference is None
    (place,) = plans[1].places
    assert not place.regions
    assert "plans the scene anew and draws 2 whole pictures of it" in plans[1].does
    anew = [
        one.request
        for one in only(events, Generated)
        if one.round == 2 and one.purpose == "proposal"
    ]
    assert not any(one.start or one.references for one in anew)
    assert len({one.seed for one in anew}) == len(anew)
    (prompt,) = {one.prompt for one in anew}
    assert prompt != prompts[0]
    view = read_run(tmp_path / "run")
    if second == 200:
        assert len(anew) == 2
        assert (result.stop_reason, result.best_round) == ("satisfied", 2)
        assert result.rounds[2].prompt == prompt
        assert view.composed(2).prompt == prompt
    else:
        assert len(anew) == 5
        assert (result.stop_reason, result.best_round) == ("patience", 0)
        assert view.composed(0).prompt == prompts[0]


async def test_what_was_planned_anew_is_repaired_in_its_own_places(tmp_path: Path) -> None:
    def quality(request: GenerationRequest) -> int:
        """Only the scene that was planned anew has a place that can be repaired."""
        if request.start is not None:
            return 200 if len(only(events, Selected)) > 1 else 30
        return 60 if len(only(events, Selected)) == 0 else 110

    def levels(fact: Any) -> int:
        return {"cat.1": 150, "dog.1": 100}.get(fact.subject, 20)

    events: list[Event] = []
    composer = PlacingComposer()
    result = await refine(
        SCENE,
        BUILT_IN["miniature"].model_copy(update={"strategy": "tournament"}),
        out=tmp_path / "run",
        seed=5,
        rounds=4,
        backend=CountedBackend(quality, masks=True),
        composer=composer,
        judges=[ScriptedJudge("a", level=levels)],
        report_judges=[],
        on_event=events.append,
    )
    first, anew, last = only(events, Planned)
    assert (first.layout, anew.layout, last.layout) == (0, 2, 2)
    (place,) = last.places
    assert place.objects == ("cat.1",)
    planned = composer.places(result.scene, round_seed(5, 2, "candidate"))["cat.1"]
    assert place.regions == (astuple(planned),)
    assert planned != composer.places(result.scene, 5)["cat.1"]
    assert result.stop_reason == "satisfied"


async def test_the_page_shows_the_proposals_of_each_place(tmp_path: Path) -> None:
    await run(tmp_path / "run", CountedBackend(by_turn(30, 200), masks=True))
    view = read_run(tmp_path / "run")
    assert view.images == 7
    assert view.work == 7 * WORK
    assert len(view.rounds[1].proposals) == 4
    page = write_page(tmp_path / "run").read_text(encoding="utf-8")
    assert page.count('class="won"') == 2
    assert "Place 2" in page
    assert "pastes 2 proposals: gains dog; dog left of table; cat" in page


@pytest.mark.parametrize(
    "dies_at",
    [9, 13, *(pytest.param(at, marks=pytest.mark.slow) for at in (7, 10, 12, 14, 15))],
)
async def test_a_run_killed_at_any_event_draws_and_asks_nothing_twice(
    tmp_path: Path, dies_at: int
) -> None:
    whole, _ = await run(tmp_path / "whole", CountedBackend(by_turn(30, 200), masks=True))
    backend = CountedBackend(by_turn(30, 200), masks=True)

    judges = [ScriptedJudge("a", level=levels), ScriptedJudge("b", level=levels)]
    asked: dict[str, Any] = {
        "profile": BUILT_IN["miniature"].model_copy(update={"strategy": "tournament"}),
        "out": tmp_path / "run",
        "seed": 5,
        "rounds": 2,
        "patience": 9,
        "backend": backend,
        "composer": PlacingComposer(),
        "judges": judges,
        "report_judges": [],
    }
    with pytest.raises(Killed):
        await refine(SCENE, **asked, on_event=kill_at(dies_at))
    result = await refine(SCENE, **asked)
    assert sum(backend.together) == 7
    for name in ("images", "work", "judge_calls", "tokens_in"):
        assert result.totals[name] == whole.totals[name], name
    assert result.rounds[1].image == whole.rounds[1].image
    assert result.rounds[1].pasted == whole.rounds[1].pasted
