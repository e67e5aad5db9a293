"""What the version before this layout wrote still opens: runs, database, evaluation, settings.

``tests/data/before.tar.xz`` was written by it: a run that ended, one that was killed in its second
round, the data folder of a service with one run and one key, an evaluation of two scenes, and the
``scenewright.toml`` whose profile they name (the miniature with two steps).
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from scenewright.agents.judges.local import LocalJudge
from scenewright.config.settings import load_profiles, load_settings
from scenewright.core.facts import FACT_KINDS
from scenewright.evals.reporting.readings import Readings
from scenewright.evals.reporting.report import build_report
from scenewright.evals.runner.config import load_config
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.store.results import Results
from scenewright.graphs.eventlog import read_events
from scenewright.graphs.events import RunStarted
from scenewright.runs.api import execute
from scenewright.runs.plan import plan_again
from scenewright.runs.report.render import write_page
from scenewright.runs.result import load_run
from scenewright.service.app import create_app
from scenewright.service.core.settings import ServiceSettings
from scenewright.tools.backends.diffusers import DiffusersBackend
from tests.service.serving import serving

KEY = "sw_79b8d80db1896310_58d47f7e304a2835a84c1920309bcca9e4202212be0bc6aa"
"""Of the tenant *tester*, made for this database alone."""
FINGERPRINT = "21422264f3df92f8a103a7f05a28584c8ede210efbc5c2b39ecb82f07e7950a8"
"""Of the miniature's image model when it was written."""
JUDGES = {
    "local:miniature/judge-a": "3a1c7174ff6f4c5f12e325159d466e3591f24cc5e7bd510f7947dcd24f6bbc53",
    "local:miniature/judge-b": "a289a12852c77499b3080b72542b64acf2f6a8b2fdf8c62a3bd5968315f8be9d",
    "local:miniature/judge-c": "1749b862f281442d674da1145b53ac9f30edac588daab3c6fc8038bb404d057e",
}
"""Fingerprints of its judges likewise, by id."""
RUN = "run_9d645e6668e2a64922af470cb8955322"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("before")
    with tarfile.open(Path(__file__).parents[1] / "data" / "before.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return folder / "before"


@pytest.fixture
def before(unpacked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of that version, as the working folder; each test has its own."""
    # It was written with earlier weights of the miniature: its models are taken as the same.
    monkeypatch.setattr(DiffusersBackend, "fingerprint", property(lambda _: FINGERPRINT))
    monkeypatch.setattr(LocalJudge, "fingerprint", property(lambda judge: JUDGES[judge.id]))
    folder = tmp_path / "before"
    shutil.copytree(unpacked, folder)
    monkeypatch.chdir(folder)
    return folder


def test_its_settings_are_read(before: Path) -> None:
    settings = load_settings()
    assert settings.profile == "quick"
    assert load_profiles(settings)["quick"].steps == 2


def test_its_runs_are_read_and_shown(before: Path) -> None:
    run = load_run(before / "finished")
    written = json.loads((before / "finished" / "result.json").read_text("utf-8"))
    assert len(run.rounds) == 2
    assert run.best_round == written["best_round"]
    assert run.loop_card is not None
    card = run.loop_card.model_dump(mode="json")
    assert card["verdicts"] == written["rounds"][1]["loop_card"]["verdicts"]
    page = write_page(before / "finished")
    assert "purple hat" in page.read_text("utf-8")


def test_the_sentence_of_its_runs_is_kept(before: Path) -> None:
    """Runs of 1.0 had the sentence in the event that starts them, and no intent in the scene."""
    log = before / "finished" / "events.jsonl"
    first, _, rest = log.read_text("utf-8").partition("\n")
    started = json.loads(first)
    assert "intent" not in started["scene"]
    said = "a red dog under a purple hat, as somebody said it"
    log.write_text(json.dumps(started | {"sentence": said}) + "\n" + rest, encoding="utf-8")
    (event, *_) = read_events(log)
    assert isinstance(event, RunStarted)
    assert event.sentence == said
    assert event.scene.sentence == ""
    assert said in write_page(before / "finished").read_text("utf-8")


async def test_the_sentence_of_its_requests_is_served(before: Path) -> None:
    """Requests of 1.0 had the sentence and its unread passages beside the scene."""
    said = "a red dog, furtively"
    passage = {"start": 11, "end": 20, "text": "furtively", "reason": "not understood"}
    with closing(sqlite3.connect(before / "service" / "service.sqlite")) as database:
        ((stored,),) = database.execute("SELECT request FROM runs").fetchall()
        request = json.loads(stored) | {"sentence": said, "unread": [passage]}
        assert "intent" not in request["scene"]
        database.execute("UPDATE runs SET request = ?", (json.dumps(request),))
        database.commit()
    app = create_app(ServiceSettings(data=before / "service", keys=True))
    async with (
        serving(app) as url,
        httpx2.AsyncClient(
            base_url=url, headers={"Authorization": f"Bearer {KEY}"}, timeout=60
        ) as client,
    ):
        run = (await client.get(f"/v1/refinements/{RUN}")).json()
        assert run["status"] == "finished"
        assert run["request"]["sentence"] == said
        assert any("furtively" in line for line in run["warnings"])
        assert (await client.get(f"/runs/{RUN}")).status_code == 200


def test_its_evaluation_has_no_doubts(before: Path) -> None:
    """Tables of before have no columns for readings, and verdicts of the graph's facts alone."""
    results = Results(before / "evaluation")
    assert Readings.of(results) == Readings(len(results.rows("items")), 0, 0, included=False)
    assert {row["kind"] for row in results.rows("verdicts")} <= set(FACT_KINDS)
    assert not load_config(before / "eval.toml").include_doubtful
    page = build_report(results, resamples=50).page.read_text("utf-8")
    assert "Prompts that were not read surely" not in page


@pytest.mark.slow
async def test_its_killed_run_goes_on_and_draws_nothing_twice(before: Path) -> None:
    kept = [event.key for event in read_events(before / "killed" / "events.jsonl")]
    assert "r1:reference:composed" in kept
    result = await execute(plan_again(before / "killed"))
    assert len(result.rounds) == 2
    after = [event.key for event in read_events(before / "killed" / "events.jsonl")]
    assert after[: len(kept)] == kept
    assert len(after) == len(set(after)) > len(kept)


async def test_its_database_is_served(before: Path) -> None:
    app = create_app(ServiceSettings(data=before / "service", keys=True))
    async with (
        serving(app) as url,
        httpx2.AsyncClient(
            base_url=url, headers={"Authorization": f"Bearer {KEY}"}, timeout=60
        ) as client,
    ):
        (run,) = (await client.get("/v1/refinements")).json()["items"]
        assert (run["id"], run["status"]) == (RUN, "finished")
        image = await client.get(run["image"]["url"])
        assert image.status_code == 200
        assert (await client.get(f"/runs/{RUN}")).status_code == 200
        missing = await client.get("/v1/refinements", headers={"Authorization": "Bearer sw_a_b"})
        assert missing.status_code == 401


@pytest.mark.slow
async def test_its_evaluation_is_complete(before: Path) -> None:
    kept = Results(before / "evaluation").rows("scores")
    images = sorted((before / "evaluation" / "images").glob("*.png"))
    # Before, a configuration that said nothing of it had every protocol beside its own.
    config = load_config(before / "eval.toml").model_copy(update={"side_by_side": True})
    found = await run_eval(config, before / "evaluation")
    # The judges of the package have changed since, so that they are asked again: every row is
    # there, of the same pictures, and only what they say may differ.
    again = list(found.rows("scores"))
    assert [{**row, "value": None} for row in again] == [{**row, "value": None} for row in kept]
    assert not any(row["value"] is None for row in again)
    assert sorted((before / "evaluation" / "images").glob("*.png")) == images
