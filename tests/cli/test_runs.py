"""``scenewright edit``: what a person says on the command line, and what they are told."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from scenewright.cli import runs
from scenewright.cli.main import app
from scenewright.graphs.eventlog import read_events
from scenewright.graphs.events import Edited
from scenewright.runs.api import execute, stream_plan
from scenewright.runs.folder import RunError
from scenewright.runs.model_factory import profiles
from scenewright.runs.plan import plan_again
from tests.doubles import ScriptedBackend, ScriptedJudge
from tests.graphs.editing import BALL, DOG, LEFT, RED, SCENE, Person, level

Say = Callable[..., Result]


@pytest.fixture(autouse=True)
def models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every profile has scripted models here."""
    backend = ScriptedBackend(lambda request: 210 if request.references else 130)
    monkeypatch.setattr(profiles, "backend_of", lambda spec, settings=None: backend)
    monkeypatch.setattr(
        profiles,
        "build_judge",
        lambda spec, settings=None: ScriptedJudge(name=spec.rpartition("/")[2], level=level),
    )
    monkeypatch.setenv("SCENEWRIGHT_PROFILE", "miniature")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    done = CliRunner().invoke(
        app, ["refine", SCENE, "--out", str(tmp_path / "run"), "--rounds", "1", "--quiet"]
    )
    assert done.exit_code == 1, done.output
    return tmp_path / "run"


@pytest.fixture
def say(run: Path) -> Say:
    return lambda *words: CliRunner().invoke(app, ["edit", str(run), *words])


def edits(run: Path) -> list[Edited]:
    return [event for event in read_events(run / "events.jsonl") if isinstance(event, Edited)]


class NamedJudge(ScriptedJudge):
    """Its id is its name."""

    @property
    def id(self) -> str:
        return self.name


def test_a_run_of_a_judge_that_was_served_is_shown_without_its_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, folder = "cluster:local:miniature/judge-a", tmp_path / "run"
    monkeypatch.setattr(
        profiles, "build_judge", lambda spec, settings=None: NamedJudge(spec, level=level)
    )
    settings = Path("scenewright.toml")
    settings.write_text(
        '[accounts.cluster]\nprovider = "openai"\nbase_url = "http://127.0.0.1:9"\n'
        f'key_variable = ""\n[profiles.mine]\nextends = "miniature"\njudges = ["{served}"]\n'
    )
    options = ("--profile", "mine", "--out", str(folder), "--rounds", "1", "--quiet")
    done = CliRunner().invoke(app, ["refine", SCENE, *options])
    assert done.exit_code == 1, done.output
    assert served in (folder / "manifest.json").read_text()
    settings.unlink()
    (folder / "index.html").unlink()
    shown = CliRunner().invoke(app, ["show", str(folder), "--json"])
    assert shown.exit_code == 0, shown.output
    assert served in shown.output
    opened = CliRunner().invoke(app, ["open", str(folder), "--no-browser"])
    assert opened.exit_code == 0, opened.output
    assert served in (folder / "index.html").read_text()


def test_show_prints_the_ids_that_edit_takes(run: Path, say: Say) -> None:
    shown = CliRunner().invoke(app, ["show", str(run)]).output
    assert LEFT in shown
    done = say(
        "--present", LEFT, "--absent", "ball", "--rounds", "1", "--note", "no ball", "--json"
    )
    assert done.exit_code == 1, done.output
    data = json.loads(done.stdout)
    assert [record["round"] for record in data["rounds"]] == [0, 1, 2]
    (edit,) = edits(run)
    assert edit.note == "no ball"
    assert edit.verdicts[LEFT] == edit.verdicts[f"o:{DOG}"] == "yes"
    assert edit.verdicts[f"o:{BALL}"] == "no"
    assert "a person: “no ball”" in done.stderr
    assert (run / "index.html").read_text().count("A person looked at round 0") == 1


def test_scenes_and_missing_graphs_are_read_as_text_or_from_files(
    run: Path, say: Say, tmp_path: Path
) -> None:
    file = tmp_path / "scene.txt"
    file.write_text(f"{SCENE}; hat on dog")
    assert say("--scene", str(file), "--absent", "hat on dog", "-r", "1").exit_code == 1
    assert edits(run)[0].verdicts == {"r:hat.1|on|dog.1": "no"}
    assert say("--missing", "red ball", "--base", "0", "-r", "1").exit_code == 1
    assert edits(run)[1].verdicts[LEFT] == "yes"


def test_the_same_words_again_are_another_edit_once_the_run_is_over(run: Path, say: Say) -> None:
    for _ in range(2):
        say("--rounds", "1")
    assert len({edit.edit_key for edit in edits(run)}) == 2


def test_a_run_cut_off_after_an_edit_goes_on_with_the_same_words(run: Path, say: Say) -> None:
    first = say("--present", RED, "-r", "1")
    assert first.exit_code == 1
    lines = (run / "events.jsonl").read_text().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if '"type":"edited"' in line)
    (run / "events.jsonl").write_text("".join(lines[: at + 1]))
    refused = say("--present", LEFT, "-r", "1")
    assert refused.exit_code == 2
    assert "go on with it without an edit" in refused.output
    assert say("--present", RED, "-r", "1").exit_code == 1
    assert len(edits(run)) == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--present", "dgo"], "o:ball.1"),
        (["--present", "dog", "--absent", f"o:{DOG}"], "give one"),
        (["--base", "9"], "no round 9"),
    ],
)
def test_wrong_words_say_what_to_do(run: Path, say: Say, words: list[str], told: str) -> None:
    before = (run / "events.jsonl").read_bytes()
    done = say(*words)
    assert done.exit_code == 2
    assert told in done.output
    assert (run / "events.jsonl").read_bytes() == before


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["edit", str(tmp_path)])
    assert done.exit_code == 2
    assert "run folder" in done.output


async def test_a_plan_is_made_again_from_the_folder_alone(run: Path) -> None:
    again = await execute(plan_again(run))
    assert again.stop_reason == "rounds"
    plan = plan_again(run)
    assert plan.config == json.loads((run / "manifest.json").read_text())["config"]
    events = [event async for event in stream_plan(plan)]
    assert events == read_events(run / "events.jsonl")


async def test_models_given_by_hand_must_be_given_again(tmp_path: Path) -> None:
    person = Person(tmp_path / "run", 90)
    result = await person()
    with pytest.raises(RunError, match="backend, composer, judges, report_judges"):
        plan_again(tmp_path / "run")
    given: dict[str, Any] = {
        "backend": person.backend,
        "composer": person.composer,
        "judges": person.judges,
        "report_judges": person.report,
    }
    assert await execute(plan_again(tmp_path / "run", **given)) == result
    with pytest.raises(RunError, match="holds no run"):
        plan_again(tmp_path / "nothing")


def test_a_run_that_reports_itself_is_labelled_after_an_edit_too(tmp_path: Path) -> None:
    run = str(tmp_path / "own")
    words = ("refine", SCENE, "--out", run, "--rounds", "1", "--quiet", "--self-report")
    assert CliRunner().invoke(app, words).exit_code == 1
    done = CliRunner().invoke(app, ["edit", run, "--absent", "ball", "--rounds", "1"])
    assert done.exit_code == 1, done.output
    assert "self-report, by models of the loop" in " ".join(done.output.split())
    assert "This is a self-report" in (tmp_path / "own" / "index.html").read_text()
    told = json.loads(CliRunner().invoke(app, ["edit", run, "--json", "--quiet"]).stdout)
    assert told["reporting"]["kind"] == "self"


def test_the_newest_run_is_opened(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(runs.webbrowser, "open", opened.append)
    older = shutil.copytree(run, run.parent / "older")
    os.utime(older / "events.jsonl", (1, 1))
    monkeypatch.setenv("SCENEWRIGHT_RUNS", str(run.parent))
    for words in (["open"], ["open", str(older)]):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
    pages = [run / "index.html", older / "index.html"]
    assert opened == [page.absolute().as_uri() for page in pages]
    assert all(page.is_file() for page in pages)
