"""``scenewright judges``."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from scenewright.agents.panel.rates import load_calibration
from scenewright.cli.main import app
from scenewright.evals.judge_reports.grading import JudgeReport
from scenewright.runs.model_factory import profiles
from tests.doubles import ScriptedJudge, painted

BOTH = "local:x/one,local:x/two"


@pytest.fixture
def judges(monkeypatch: pytest.MonkeyPatch) -> dict[str, ScriptedJudge]:
    made: dict[str, ScriptedJudge] = {}

    def judge(spec: str, settings: object = None) -> ScriptedJudge:
        return made.setdefault(spec, ScriptedJudge(name=spec.rpartition("/")[2], usd=0.001))

    monkeypatch.setattr(profiles, "build_judge", judge)
    return made


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("SCENEWRIGHT_DEBUG", "0")
    return tmp_path


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["judges", *map(str, arguments)])


@pytest.mark.usefixtures("judges")
def test_report_shows_and_writes_the_cards() -> None:
    done = call("report", "-j", BOTH, "--scenes", "2", "--out", "card")
    assert done.exit_code == 0, done.output
    for part in ("How right", "How steady", "Position bias", "How alike", "scripted:one"):
        assert part in done.stdout
    assert "answers are kept in card/answers.db" in done.stderr
    assert "scripted:two" in done.stderr
    assert " left" in done.stderr
    made = JudgeReport.model_validate_json(Path("card/report.json").read_text("utf-8"))
    assert [*made.judges] == ["scripted:one", "scripted:two"]
    assert "| scripted:one |" in Path("card/report.md").read_text("utf-8")


def test_the_same_command_asks_nobody_again(judges: dict[str, ScriptedJudge]) -> None:
    arguments = ("report", "-j", "local:x/one", "--quick", "--scenes", "2", "--json", "-q")
    first = call(*arguments)
    asked = len(judges["local:x/one"].book.lines)
    second = call(*arguments)
    assert asked
    assert len(judges["local:x/one"].book.lines) == asked
    assert first.stdout == second.stdout
    assert first.stderr == ""
    assert json.loads(first.stdout)["tables"]["dollars"]["rows"][0]["usd"] > 0


@pytest.mark.usefixtures("judges")
def test_a_cascade_begins_with_some_of_the_judges() -> None:
    arguments = ("report", "-j", BOTH, "--scenes", "1", "--plain", "-q", "--cascade-first")
    done = call(*arguments, "local:x/two", "--json")
    assert done.exit_code == 0, done.output
    cascade = json.loads(done.stdout)["tables"]["cascade"]
    assert cascade["caption"].startswith("First scripted:two; where their probability lies from ")
    assert cascade["caption"].endswith("also scripted:one.")
    shares = {row["measure"]: row["share"] for row in cascade["rows"]}
    assert 0 <= shares["same verdict as the full panel"] <= 1
    for wrong in (BOTH, "local:x/three"):
        done = call(*arguments, wrong)
        assert done.exit_code == 2
        assert "--cascade-first names some of the judges" in done.stderr


@pytest.mark.usefixtures("judges")
def test_labels_of_ones_own(place: Path) -> None:
    painted((16, 16), (200, 0, 0)).save(place / "a.png")
    with (place / "labels.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "question", "holds"])
        writer.writerows([["a.png", "Any dog?", 1], ["a.png", "Any cat?", 0]])
    done = call("report", "-j", BOTH, "--labels", "labels.csv", "--json", "-q")
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert (data["facts"], data["holds"], data["about"]) == (2, 1, "labels of labels.csv")


@pytest.mark.usefixtures("judges")
def test_calibrate_writes_what_a_profile_names() -> None:
    done = call("calibrate", "-j", BOTH, "--scenes", "2", "--out", "c.json")
    assert done.exit_code == 0, done.output
    made = load_calibration("c.json")
    assert [judge.judge_id for judge in made.judges] == ["scripted:one", "scripted:two"]
    assert ("scripted:one", "scripted:two") in [panel.judges for panel in made.panels]
    # Of two paintings: two facts of an absent thing, its presence, are all that a run would ask.
    assert made.n_facts < 2 * 12
    assert 'calibration = "c.json"' in done.stdout


@pytest.mark.usefixtures("judges")
def test_calibrate_measures_the_panels_of_a_profile() -> None:
    done = call("calibrate", "--profile", "miniature", "--scenes", "1", "--json", "-q")
    assert done.exit_code == 0, done.output
    panels = [panel["judges"] for panel in json.loads(done.stdout)["panels"]]
    assert panels == [["scripted:judge-a", "scripted:judge-b"], ["scripted:judge-c"]]


@pytest.mark.usefixtures("judges")
def test_calibrate_chooses_the_bounds_of_a_cascade() -> None:
    asked = ("-j", BOTH, "--scenes", "2", "--out", "c.json", "-q")
    done = call("calibrate", *asked, "--cascade-first", "local:x/one", "--risk", "0.2")
    assert done.exit_code == 0, done.output
    (made,) = load_calibration("c.json").cascades
    assert (made.first, made.risk, made.confidence) == (("scripted:one",), 0.2, 0.95)
    assert "scripted:one first: settles" in " ".join(done.stdout.split())
    for options, told in (
        (("--cascade-first", "local:x/three"), "--cascade-first names some of the judges"),
        (("--cascade-first", "local:x/one", "--risk", "0.7"), "--risk: "),
    ):
        done = call("calibrate", *asked, *options)
        assert done.exit_code == 2
        assert told in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("-j", "local:miniature/nobody"),
            "unknown judge 'local:miniature/nobody': use one of",
        ),
        (("-j", "nobody:x"), "no account 'nobody': there are local, replay"),
        (("-j", "nothing"), "'nothing' is not a judge"),
        (("-j", "replay:a.csv,replay:a.csv"), "name each judge once, not replay:a.csv"),
        (("-j", "replay:a.csv", "-p", "miniature"), "give --judges or --profile, not both"),
        (("-j", "replay:a.csv", "--labels", "none.csv"), "the labels none.csv cannot be read"),
        (("-p", "none"), "none"),
    ],
)
def test_wrong_input_is_one_clear_line(arguments: tuple[str, ...], told: str) -> None:
    done = call("report", *arguments)
    assert done.exit_code == 2
    assert told in done.stderr
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.output


def test_a_lost_record_could_not_run() -> None:
    done = call("report", "-j", "replay:lost.csv", "--scenes", "1")
    assert done.exit_code == 3
    assert "the record lost.csv cannot be read" in done.stderr


def test_list_tells_what_there_is() -> None:
    done = call("list")
    assert done.exit_code == 0
    for part in ("local:miniature/judge-a", "replay:FILE", "openai:MODEL"):
        assert part in done.stdout


def test_list_tells_what_a_judge_can_do_or_why_not(place: Path) -> None:
    rows = ("image,question,answer,probability", f"{64 * 'a'},Any dog?,yes,0.75")
    (place / "kept.csv").write_text("\n".join(rows), encoding="utf-8")
    done = call("list", "replay:kept.csv", "replay:lost.csv", "--json")
    assert done.exit_code == 3
    good, bad = json.loads(done.stdout)["judges"]
    assert "probability by verbalized" in good["caps"]
    assert "cannot be read" in bad["problem"]


@pytest.mark.parametrize("command", ["report", "calibrate", "list"])
def test_help_teaches_by_example(command: str) -> None:
    done = CliRunner().invoke(app, ["judges", command, "--help"])
    assert f"scenewright judges {command} " in " ".join(done.stdout.split())
    assert "Examples" in done.stdout


SLOW = """
import asyncio, signal
from scenewright.runs.model_factory import profiles
from scenewright.cli.main import app
from tests.doubles import ScriptedJudge, painted

async def slowly(judge, facts, answers):
    await asyncio.sleep(0.02)
    return answers

profiles.build_judge = lambda spec, **more: ScriptedJudge(behave=slowly)
# Where the tests run in the background of a shell, they inherit that SIGINT is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
app()
"""


@pytest.mark.slow
def test_an_interrupted_report_says_how_to_go_on(place: Path) -> None:
    command = [sys.executable, "-c", SLOW, "judges", "report", "-j", "local:slow"]
    process = subprocess.Popen(
        [*command, "--scenes", "60", "--store", "kept.db"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert process.stderr is not None
    seen = ""
    for line in process.stderr:
        seen += line
        # Some questions are answered: there is something to keep.
        if " of " in line and "questions" in line:
            break
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)[1]
    assert process.returncode == 130, seen + rest
    assert "interrupted." in rest
    assert "kept.db: the same command goes on from there" in rest
    assert "Traceback" not in rest
    assert (place / "kept.db").stat().st_size > 0
