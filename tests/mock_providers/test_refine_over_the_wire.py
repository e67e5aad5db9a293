"""Whole runs whose pictures and judgements all come over the wire, from a mock server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scenewright.cli.main import app
from scenewright.config.options import Budget
from scenewright.config.profiles import BackendSpec, Profile
from scenewright.config.settings import Settings, load_settings
from scenewright.core.ports.backend import BackendError
from scenewright.graphs.errors import RunError
from scenewright.graphs.events import Event, Generated, PartialImage
from scenewright.mock_providers import Fault, MockSettings, ThreadedMockProviders, serving_thread
from scenewright.runs.api import refine

SCENE = "red ball left of blue house"
KEY, JUDGES_KEY = "key-that-draws", "key-that-judges"
PRICES = '["painter:instant-image"]\nimage = 0.25\nas_of = 2026-11-01\n'


@pytest.fixture
def served() -> Iterator[ThreadedMockProviders]:
    with serving_thread(MockSettings()) as lab:
        yield lab


@pytest.fixture
def settings(
    served: ThreadedMockProviders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Settings:
    """Two accounts at the mock server; a picture costs a quarter of a dollar."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KEY_OF_THE_PAINTER", KEY)
    monkeypatch.setenv("KEY_OF_THE_PANEL", JUDGES_KEY)
    (tmp_path / "prices.toml").write_text(PRICES)

    def account(variable: str) -> dict[str, object]:
        return {
            "provider": "openai",
            "base_url": served.openai_url,
            "key_variable": variable,
            "attempts": 2,
        }

    return load_settings(
        accounts={"painter": account("KEY_OF_THE_PAINTER"), "panel": account("KEY_OF_THE_PANEL")},
        prices=tmp_path / "prices.toml",
    )


def profile(strategy: str = "feedback") -> Profile:
    return Profile(
        name="wire",
        backend=BackendSpec(kind="painter", model="instant-image"),
        judges=("panel:instant",),
        strategy=strategy,
        asking="together",
    )


def answered(lab: ThreadedMockProviders, key: str) -> int:
    account = lab.report()["accounts"].get(key)
    return int(account["answered"]) if account else 0


@pytest.mark.parametrize("strategy", ["feedback", "router"])
async def test_a_run_is_drawn_judged_and_paid_once(
    served: ThreadedMockProviders, settings: Settings, tmp_path: Path, strategy: str
) -> None:
    done = await refine(SCENE, profile(strategy), out=tmp_path / "run", rounds=3, settings=settings)
    totals = done.totals
    assert totals["images"] >= 3
    assert totals["usd"] == pytest.approx(0.25 * totals["images"])
    for image in (tmp_path / "run" / "images").glob("*.png"):
        assert image.stat().st_size > 0
    assert answered(served, KEY) == totals["images"]
    spent = answered(served, KEY), answered(served, JUDGES_KEY)
    again = await refine(
        SCENE, profile(strategy), out=tmp_path / "run", rounds=3, settings=settings
    )
    assert again.totals == totals
    assert (answered(served, KEY), answered(served, JUDGES_KEY)) == spent


async def test_a_run_that_lost_its_painter_goes_on_and_pays_nothing_twice(
    served: ThreadedMockProviders, settings: Settings, tmp_path: Path
) -> None:
    drawn: list[Generated] = []

    def listen(event: object) -> None:
        if isinstance(event, Generated) and not event.cached:
            drawn.append(event)
            if len(drawn) == 2:
                served.schedule(Fault.REFUSAL, 1, KEY)

    with pytest.raises(BackendError, match="painter:instant-image drew nothing: refused"):
        await refine(
            SCENE, profile(), out=tmp_path / "run", rounds=3, settings=settings, on_event=listen
        )
    before = {event.key: event.image for event in drawn}
    assert len(before) == 2
    judged = answered(served, JUDGES_KEY)
    done = await refine(SCENE, profile(), out=tmp_path / "run", rounds=3, settings=settings)
    log = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").open()]
    told = {event["key"]: event["image"] for event in log if event["type"] == "generated"}
    assert before.items() <= told.items()
    assert done.totals["usd"] == pytest.approx(0.25 * done.totals["images"])
    # Each picture of the run once, and the refusal: nothing else was sent.
    report = served.report()["accounts"][KEY]
    assert report["answered"] == done.totals["images"]
    assert report["faults"] == {"refusal": 1}
    assert answered(served, JUDGES_KEY) == done.totals["judge_calls"] > judged


def test_the_profile_openai_runs_whole_from_the_command_line(
    served: ThreadedMockProviders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    account = f'[accounts.openai]\nprovider = "openai"\nbase_url = "{served.openai_url}"\n'
    Path("scenewright.toml").write_text(account)
    done = CliRunner().invoke(
        app, ["refine", "red ball", "--profile", "openai", "--rounds", "1", "--out", "run"]
    )
    # Whether the miniature's one picture holds every fact is not the matter here.
    assert done.exit_code in (0, 1), done.output
    assert "1 image drawn" in done.output
    assert "openai:gpt-6-luna" in done.output
    assert Path("run/index.html").is_file()
    report = served.report()["accounts"][KEY]
    # A reading, a prompt, a picture, two judges of the loop and one that reports.
    assert (report["arrivals"], report["answered"]) == (6, 6)
    assert "warning" not in done.output
    assert KEY not in Path("run/events.jsonl").read_text() + done.output


def test_a_run_at_a_wrong_address_begins_anew_at_the_right_one(
    served: ThreadedMockProviders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    command = ["refine", "red ball", "-m", "openai", "--rounds", "1", "--out", "run"]
    Path("scenewright.toml").write_text('[accounts.openai]\nprovider = "openai"\nattempts = 1\n')
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    failed = CliRunner().invoke(app, command)
    assert failed.exit_code == 3, failed.output
    # The prompt was written without the language model, which could not be reached.
    assert "composed" in Path("run/events.jsonl").read_text()
    monkeypatch.setenv("OPENAI_BASE_URL", served.openai_url)
    done = CliRunner().invoke(app, command)
    assert done.exit_code in (0, 1), done.output
    # The run is of what the rules read: that stays, and is told.
    told = [line for line in done.output.splitlines() if line.startswith("warning")]
    assert len(told) == 1
    assert "did not read the sentence, the rules did" in told[0]
    log = [json.loads(line) for line in Path("run/events.jsonl").read_text().splitlines()]
    (composed,) = (event for event in log if event["type"] == "composed")
    assert (composed["author"], composed["problem"]) == ("model", "")


def test_a_run_with_a_picture_says_which_address_has_changed(
    served: ThreadedMockProviders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", served.openai_url)
    command = ["refine", "red ball", "-m", "openai", "--rounds", "1", "--out", "run"]
    assert CliRunner().invoke(app, command).exit_code in (0, 1)
    Path("run/result.json").unlink()
    lines = Path("run/events.jsonl").read_text().splitlines(keepends=True)
    Path("run/events.jsonl").write_text("".join(lines[:-1]))
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code != 0
    said = " ".join(refused.output.split())
    there = served.openai_url.removeprefix("http://")
    assert f"the account openai: its address was {there} and is 127.0.0.1:9/v1." in said
    assert "weights" not in said


async def test_partial_images_are_streamed_and_not_stored(
    settings: Settings, tmp_path: Path
) -> None:
    given = profile()
    backend = given.backend.model_copy(update={"partial_images": 2})
    given = given.model_copy(update={"backend": backend})
    seen: list[Event] = []
    folder = tmp_path / "run"
    done = await refine(SCENE, given, out=folder, rounds=2, settings=settings, on_event=seen.append)
    shown = [event for event in seen if isinstance(event, PartialImage)]
    drawn = [event for event in seen if isinstance(event, Generated)]
    assert [(one.step, one.of) for one in shown] == [(1, 3), (2, 3)] * len(drawn)
    assert {(one.round, one.purpose) for one in shown} == {(e.round, e.purpose) for e in drawn}
    assert all(one.image.startswith("data:image/webp;base64,") for one in shown)
    stored = (folder / "events.jsonl").read_text()
    assert 'partial_image",' not in stored
    assert "data:image" not in stored
    assert done.totals["usd"] == pytest.approx(0.25 * len(drawn))
    again = await refine(SCENE, given, out=folder, rounds=2, settings=settings)
    assert again.best == done.best


async def test_a_profile_that_asks_for_too_many_partial_images_is_refused(
    settings: Settings, tmp_path: Path
) -> None:
    given = profile().model_copy(
        update={"backend": BackendSpec(kind="painter", model="instant-image", partial_images=9)}
    )
    with pytest.raises(BackendError, match="at most 3 partial images"):
        await refine(SCENE, given, out=tmp_path / "run", settings=settings)


@pytest.mark.parametrize("strategy", ["feedback", "router"])
@pytest.mark.parametrize("limit", [0.3, 0.9, 1.3])
async def test_no_round_begins_that_a_limit_has_no_room_for(
    settings: Settings, tmp_path: Path, strategy: str, limit: float
) -> None:
    judged = '["panel:instant"]\ninput = 20.0\noutput = 100.0\nas_of = 2026-11-01\n'
    (tmp_path / "prices.toml").write_text(PRICES + judged)
    given = profile(strategy).model_copy(update={"report_judges": ("panel:instant",)})
    done = await refine(
        "red ball left of blue house; green tree; yellow car",
        given.model_copy(update={"judges": ("panel:other",)}),
        out=tmp_path / "run",
        rounds=6,
        patience=6,
        budget=Budget(usd=limit),
        settings=settings,
    )
    assert 0 < done.totals["usd"] <= limit
    if done.stop_reason == "budget":
        assert f"of {limit:.2f} dollars are spent" in done.limit


async def test_a_first_round_that_does_not_fit_is_refused_unpaid(
    served: ThreadedMockProviders, settings: Settings, tmp_path: Path
) -> None:
    with pytest.raises(RunError, match=r"0\.00 of 0\.20 dollars are spent, what follows may take"):
        await refine(
            SCENE, profile(), out=tmp_path / "run", budget=Budget(usd=0.2), settings=settings
        )
    assert answered(served, KEY) == answered(served, JUDGES_KEY) == 0
