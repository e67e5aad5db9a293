"""From figures to a plan: accounts, prices, disk, loops; pilots and tables of scripted models."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from scenewright.config.accounts import AccountSpec
from scenewright.config.profiles import SettingsError
from scenewright.config.settings import load_settings
from scenewright.evals.runner.forecast import account_of
from scenewright.evals.runner.measuring import figures_from, pilot, spread_of
from scenewright.evals.runner.model_setup import EvalModelOverrides
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.runner.time_forecast import (
    Figures,
    Plan,
    SizingError,
    Spread,
    Use,
    load_figures,
    save_figures,
)
from scenewright.runs.model_factory.profiles import limits_of
from tests.doubles import CallBook
from tests.evals.eval_sets import ListedSet, config, scene_items, scripted

GIVEN: dict[str, Any] = {
    "models": {
        "local:painter": {"does": "draws", "seconds": 2.0},
        "seer:model": {
            "does": "judges",
            "account": "seer",
            "seconds": {"mean": 0.5, "low": 0.4, "high": 0.8},
            "calls": 2,
            "tokens_in": 1000,
            "tokens_out": 100,
        },
    },
    "picture_bytes": 2048,
    "row_bytes": 1024,
    "go_on": 0.5,
    "cores": 4,
}


def figures(**changed: Any) -> Figures:
    return Figures.model_validate(GIVEN | changed)


def settings(prices: Path | None = None, **spec: Any) -> Any:
    account = AccountSpec(provider="openai", base_url="http://127.0.0.1:9/v1", **spec)
    return load_settings(accounts={"seer": account}, prices=prices)


def test_each_limit_of_an_account_is_a_stage() -> None:
    plan = Plan(
        100,
        16,
        figures(),
        settings(requests_per_minute=30, tokens_per_minute=2200, concurrent=4),
    )
    rate = {stage.kind: stage.capacity() for stage in plan.course.every}
    assert rate["drawing"] == pytest.approx(1 / 2.0)
    assert rate["cpu"] == pytest.approx(4 / 2.0)
    # Two requests a picture of 30 a minute, less the margin that the limiter keeps.
    assert rate["requests"] == pytest.approx(30 / 2 / 60 / 1.01)
    assert rate["tokens"] == pytest.approx(2200 / 1100 / 60)
    assert rate["calls"] == pytest.approx(4 / 0.5)
    assert rate["items"] == pytest.approx(16 / 2.5)
    size = plan.size()
    assert size.binding.kind == "tokens"
    assert size.binding.limit == 2200
    assert size.busy["tokens a minute of seer"] == pytest.approx(1.0)
    following, seconds = plan.after(size)
    assert following.kind == "requests"
    assert seconds < size.seconds


def test_a_day_that_is_too_short_for_the_study_holds_it_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    # 100 pictures with two requests each.
    enough = Plan(100, 16, figures(), settings(requests_per_day=200))
    assert enough.costs().day_limits(enough.settings) == ()
    assert enough.size().binding.kind != "day"
    short = Plan(100, 16, figures(), settings(requests_per_day=60, day_zone="Asia/Tokyo"))
    assert short.size().binding.name == "requests a day of seer"
    assert short.size().binding.limit == 60
    # At 60 a day 200 requests take until the fourth day; on average half of the first is over.
    assert short.size().hours == pytest.approx((200 / 60 - 0.5) * 24, rel=0.01)
    (limit,) = short.costs().day_limits(short.settings)
    assert (limit.calls, limit.left, limit.pauses) == (200, 60, 3)
    assert "it pauses until midnight (Asia/Tokyo) 3 times" in limit.text


def test_what_was_sent_today_is_not_there_for_a_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    known = settings(requests_per_day=200)
    quota = limits_of("seer", known.account("seer")).day_quota()
    assert quota is not None
    asyncio.run(quota.take(0))
    (limit,) = Plan(100, 16, figures(), known).costs().day_limits(known)
    assert (limit.left, limit.pauses) == (199, 1)


def test_the_range_holds_what_is_expected() -> None:
    size = Plan(100, 16, figures(), settings()).size(3)
    assert size.least <= size.seconds <= size.most


def test_dollars_come_from_the_table_of_prices_or_are_not_counted(tmp_path: Path) -> None:
    plan = Plan(1000, 8, figures(), settings())
    assert plan.costs().unpriced == ("seer:model",)
    assert plan.usd.mean == 0.0
    prices = tmp_path / "prices.toml"
    prices.write_text('["seer:model"]\ninput = 1.0\noutput = 10.0\nas_of = 2026-11-01\n')
    priced = Plan(1000, 8, figures(), settings(prices))
    assert priced.costs().unpriced == ()
    assert priced.usd.mean == pytest.approx(1000 * (1000 * 1.0 + 100 * 10.0) / 1e6)


def test_pictures_and_rows_fill_the_disk() -> None:
    plan = Plan(1000, 8, figures(), settings(), disk=3 * 2**20)
    assert plan.bytes.mean == pytest.approx(1000 * 3072)
    assert plan.fits is True
    assert Plan(1000, 8, figures(), settings(), disk=2**20).fits is False
    assert Plan(1000, 8, figures(), settings()).fits is None


def test_an_unknown_account_and_an_empty_study_are_refused() -> None:
    with pytest.raises(SettingsError, match="seer"):
        Plan(1, 8, figures(), load_settings())
    with pytest.raises(SizingError, match="1 or more"):
        Plan(0, 8, figures(), settings())


def test_rounds_draw_more_and_judges_look_more() -> None:
    steering = GIVEN["models"] | {"local:eye": {"does": "steers", "seconds": 1.0}}
    grown = figures(models=steering, more_pictures=2.0).resized(rounds=2, judges=3)
    # One more round in half of the cells: two more pictures, and another look.
    assert grown.rounds == pytest.approx(1.5)
    assert grown.models["local:painter"].uses.mean == pytest.approx(2.0)
    assert grown.models["local:eye"].uses.mean == pytest.approx(1.5)
    assert grown.models["seer:model"].uses.mean == pytest.approx(3.0)
    with pytest.raises(SizingError, match="go_on"):
        figures(go_on=0.0).resized(rounds=2)


def test_seconds_of_a_cell_grow_with_those_of_its_models() -> None:
    grown = figures(alone=2.5, cpu=2.0).resized(judges=2)
    assert grown.alone is not None
    assert grown.alone.mean == pytest.approx(2.5 * 3.0 / 2.5)


def test_figures_are_kept_as_a_file(tmp_path: Path) -> None:
    file = tmp_path / "figures.toml"
    found = figures(notes=['ä "quoted" word'], peak_mib=12.5)
    save_figures(found, file)
    assert load_figures(file) == found
    with pytest.raises(SizingError, match="cannot be written"):
        save_figures(found, tmp_path / "none" / "figures.toml")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "models"),
        ("[models.a]\ndoes = 'draws'\nseconds = -1", "seconds"),
        ("[models.a]\ndoes = 'sings'\nseconds = 1", "does"),
        ("[models.a]\ndoes='draws'\nseconds = {mean=1, low=2, high=3}", "does not hold the mean"),
        ("=", "not valid TOML"),
    ],
)
def test_a_wrong_file_is_told_with_its_field(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "figures.toml"
    file.write_text(text)
    with pytest.raises(SizingError, match=told) as error:
        load_figures(file)
    assert "figures.toml" in str(error.value)


def test_spreads() -> None:
    assert spread_of([]) == Spread(mean=0, low=0, high=0)
    assert spread_of([2.0]) == Spread(mean=2, low=1, high=4)
    found = spread_of([1.0, 2.0, 3.0])
    assert found.mean == pytest.approx(2.0)
    assert 1.0 <= found.low < 2.0 < found.high <= 3.0


def test_models_of_this_machine_have_no_account() -> None:
    assert account_of("local:miniature/judge-a") == ""
    assert account_of("diffusers:miniature") == ""
    assert account_of("openai:gpt-4o") == "openai"


async def test_a_pilot_counts_what_its_models_do(tmp_path: Path) -> None:
    book = CallBook()
    asked = config(conditions=["feedback"])
    given = scripted(book)
    found = await pilot(asked, 3, given=given, dataset=ListedSet(scene_items(9)), folder=tmp_path)
    assert found.cells == 3
    assert found.models["scripted:backend"].does == "draws"
    steering = [who for who, use in found.models.items() if use.does == "steers"]
    assert len(steering) == 2
    assert found.alone is not None
    assert found.alone.mean > 0
    assert found.pictures.mean >= 1
    assert 1.0 <= found.rounds <= 2.0
    assert found.picture_bytes.mean > 0
    assert found.row_bytes.mean > 0
    plan = Plan(100, 4, found, load_settings())
    assert plan.size(2).seconds <= plan.size(1).seconds


async def test_a_pilot_that_is_too_small_is_refused() -> None:
    with pytest.raises(SizingError, match="2 at least"):
        await pilot(config(), 1, given=scripted(), dataset=ListedSet(scene_items(4)))
    with pytest.raises(SizingError, match="--figures"):
        await pilot(config(), 5, given=scripted(), dataset=ListedSet(scene_items(2)))


async def test_a_pilot_of_which_nothing_comes_says_why() -> None:
    failing = scripted(failing=lambda request: RuntimeError("no paint"))
    with pytest.raises(SizingError, match="no paint"):
        await pilot(config(), 3, given=failing, dataset=ListedSet(scene_items(6)))


async def test_tables_of_a_finished_evaluation_tell_figures(tmp_path: Path) -> None:
    given: EvalModelOverrides = scripted()
    asked = config(seeds=[0, 1])
    await run_eval(asked, tmp_path, given=given, dataset=ListedSet(scene_items(4)))
    found = figures_from(tmp_path)
    assert found.cells == 8
    use = found.models["scripted:backend"]
    assert use.seconds.mean == pytest.approx(0.25)
    assert use.uses.mean == pytest.approx(1.0)
    assert found.rounds == 1.0
    assert found.void_share is not None
    failing = scripted(failing=lambda request: RuntimeError("no paint"))
    empty = tmp_path / "empty"
    await run_eval(asked, empty, given=failing, dataset=ListedSet(scene_items(1)))
    with pytest.raises(SizingError, match="no finished picture"):
        figures_from(empty)


def test_a_use_of_the_machine_costs_nothing_at_an_account() -> None:
    use = Use(does="draws", seconds=Spread(mean=1, low=1, high=1))
    assert Plan(1, 8, Figures(models={"local:m": use}), load_settings()).usd.mean == 0.0
