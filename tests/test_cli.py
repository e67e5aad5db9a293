"""The command line: exit codes, what goes to which stream, and errors that say what to do."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result
from PIL import Image
from typer.testing import CliRunner

from scenewright.cli import console, demo, doctor
from scenewright.cli.main import app
from scenewright.config.settings import find_profile
from scenewright.core.facts import Answer, Fact
from scenewright.core.formats import load_scene
from scenewright.core.ports.backend import BackendError, GenerationRequest
from scenewright.core.ports.judge import JudgeError, unscored
from scenewright.miniature.painter import paint
from scenewright.runs import readiness
from scenewright.runs.folder import RunError
from scenewright.runs.model_factory import profiles
from scenewright.runs.scoring import score
from tests.doubles import ScriptedBackend, ScriptedJudge, painted
from tests.isomorphism import isomorphic

SCENE = "red ball on table; dog left of table"
ESCAPE = "\x1b"


class Models:
    """The scripted models that every profile gets here."""

    def __init__(self) -> None:
        self.backend = ScriptedBackend(lambda request: 255 if request.references else 120)
        self.judges: dict[str, ScriptedJudge] = {}
        self.problem: Exception | None = None
        self.silent = False

    def judge(self, spec: str, settings: object = None) -> ScriptedJudge:
        made = self.judges.setdefault(spec, ScriptedJudge(name=spec.rpartition("/")[2]))
        if self.silent:
            made.behave = _silent
        return made

    def backend_of(self, spec: object, settings: object = None) -> ScriptedBackend:
        if self.problem is not None:
            raise self.problem
        return self.backend


def _silent(judge: ScriptedJudge, facts: list[Fact], answers: list[Answer]) -> list[Answer]:
    return unscored(judge.id, facts, "the model said nothing")


@pytest.fixture(autouse=True)
def models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Models:
    made = Models()
    monkeypatch.setattr(profiles, "backend_of", made.backend_of)
    monkeypatch.setattr(profiles, "build_judge", made.judge)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCENEWRIGHT_DEBUG", "0")
    return made


def call(*arguments: str | Path, text: str | None = None) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments], input=text)


def test_refine_repairs_and_tells_the_result() -> None:
    done = call("refine", SCENE, "--out", "run")
    assert done.exit_code == 0, done.output
    assert "All 6 facts hold" in done.stdout
    assert "round 1 (kept)" in done.stdout
    assert "by judges that the loop never saw" in done.stdout
    image = re.search(r"^image +(\S+\.png)$", done.stdout, re.MULTILINE)
    page = re.search(r"^page +(\S+)$", done.stdout, re.MULTILINE)
    assert image
    assert page
    assert Image.open(image[1]).size == (16, 16)
    assert "red ball on table" in Path(page[1]).read_text(encoding="utf-8")
    assert "round 0: loop judge scripted:judge-a" in done.stderr
    assert ESCAPE not in done.stdout + done.stderr


def test_json_is_one_object_and_alone_on_standard_output() -> None:
    done = call("refine", SCENE, "--out", "run", "--json")
    data = json.loads(done.stdout)
    assert data["exit_code"] == 0 == done.exit_code
    assert data["best_round"] == 1
    assert data["loop"]["sgscore"] == data["report"]["sgscore"] == 1.0
    assert data["change_from_round_0"]["loop"] > 0
    assert Path(data["image"]).is_file()
    assert Path(data["page"]).is_file()
    assert len(data["rounds"]) == 2
    assert "round 0" in done.stderr


def test_quiet_says_nothing_on_the_way() -> None:
    assert call("refine", SCENE, "--quiet").stderr == ""


def test_missing_facts_are_exit_code_1(models: Models) -> None:
    models.backend.quality = lambda request: 120
    done = call("refine", SCENE, "--rounds", "2", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["loop"]["satisfied"] is False


def test_nothing_judged_is_exit_code_4(models: Models) -> None:
    models.silent = True
    done = call("refine", SCENE)
    assert done.exit_code == 4
    assert "None of the 6 facts could be judged" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["refine", ""], "nothing in it"),
        (["refine", "nowhere.json"], "nowhere.json"),
        (["refine", SCENE, "--profile", "nope"], "there are"),
        (["refine", SCENE, "--rounds", "0"], "--rounds"),
        (["refine", SCENE, "--seed", "-1"], "--seed"),
        (["refine"], "SCENE"),
        (["score", "nowhere.png", SCENE], "nowhere.png"),
        (["show", "nowhere"], "not a folder"),
        (["open", "."], "not a run folder"),
        (["page", "."], "`scenewright page` is now `scenewright open --no-browser`"),
        (["filter", "x"], "is now `scenewright real-bench filter`"),
        (["parse", SCENE, "--to", "nope"], "unknown format"),
        (["parse", SCENE, "--protocol", "nope", "--facts"], "unknown protocol"),
        (["doctor", "--profile", "nope"], "no profile"),
        (["frobnicate"], "frobnicate"),
    ],
)
def test_wrong_input_is_exit_code_2_and_named(arguments: list[str], told: str) -> None:
    done = call(*arguments)
    assert done.exit_code == 2, done.output
    assert told in done.stderr
    assert "Traceback" not in done.output
    assert done.stdout == ""


def test_a_corrupt_image_is_named() -> None:
    Path("bad.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    done = call("score", "bad.png", SCENE)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: bad.png")


def test_missing_models_are_exit_code_3_on_one_line(models: Models) -> None:
    models.problem = BackendError("the weights are not there: train them first")
    done = call("refine", SCENE)
    assert done.exit_code == 3
    assert done.stderr.splitlines() == [
        "understood: red ball on table; dog left of table (3 objects, 2 relations)",
        "loading the models of profile miniature",
        "error: the weights are not there: train them first",
    ]


def test_an_unwritable_folder_is_exit_code_3() -> None:
    Path("file").write_text("x", encoding="utf-8")
    done = call("refine", SCENE, "--out", "file/run")
    assert done.exit_code == 3
    assert "file/run" in done.stderr


def test_what_nobody_foresaw_is_one_line_unless_debugging(models: Models) -> None:
    models.problem = ZeroDivisionError("by zero")
    done = call("refine", SCENE, "--quiet")
    assert done.exit_code == 3
    assert len(done.stderr.splitlines()) == 1
    assert "--debug" in done.stderr
    assert isinstance(call("--debug", "refine", SCENE).exception, ZeroDivisionError)


@pytest.fixture
def heeded() -> Iterator[None]:
    """Interruptions are heeded; shells start what runs in the background without."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeded")
def test_an_interruption_says_how_to_go_on_and_the_same_command_does(models: Models) -> None:
    def interrupted(request: GenerationRequest) -> Exception | None:
        if request.references:
            # As Ctrl-C does: asyncio cancels the run at its next step.
            signal.raise_signal(signal.SIGINT)
        return None

    models.backend.failing = interrupted
    done = call("refine", SCENE, "--out", "run")
    assert done.exit_code == 130, done.output
    assert "same command continues" in done.stderr
    before = [line for line in models.backend.book.lines if line.startswith("end generate")]
    models.backend.failing = lambda request: None
    again = call("refine", SCENE, "--out", "run")
    assert again.exit_code == 0, again.output
    assert "goes on" in again.stderr
    after = [line for line in models.backend.book.lines if line.startswith("end generate")]
    # Only the image at which the run was cut off may have to be drawn again.
    assert after[: len(before)] == before
    assert set(after[len(before) :]) <= {before[-1]}


def test_the_same_command_gives_the_finished_run_and_fresh_a_new_one(models: Models) -> None:
    first = json.loads(call("refine", SCENE, "--json").stdout)
    calls = len(models.backend.book.lines)
    assert json.loads(call("refine", SCENE, "--json").stdout) == first
    assert len(models.backend.book.lines) == calls
    fresh = json.loads(call("refine", SCENE, "--json", "--fresh").stdout)
    assert fresh["folder"] != first["folder"]
    refused = call("refine", SCENE, "--fresh", "--out", first["folder"])
    assert refused.exit_code == 2
    assert "already holds a run" in refused.stderr


def test_a_budget_of_images_is_kept(models: Models) -> None:
    models.backend.quality = lambda request: 120
    data = json.loads(call("refine", SCENE, "--max-images", "2", "--json").stdout)
    assert data["stop_reason"] == "budget"
    assert data["totals"]["images"] == 1


def test_a_scene_comes_from_standard_input_too() -> None:
    assert call("refine", "-", text=SCENE).exit_code == 0


def test_a_sentence_is_read_and_what_was_understood_is_shown() -> None:
    done = call("refine", "A photo of a red ball on a table. Ein Hund auf dem Tisch.", "--json")
    assert json.loads(done.stdout)["exit_code"] == done.exit_code
    understood, *_ = said = done.stderr.splitlines()
    assert understood == "understood: red ball on table (2 objects, 1 relation)"
    told = "warning: not checked: 'Ein Hund auf dem Tisch' (characters 34 to 56"
    assert next(line for line in said if line.startswith("warning")).startswith(told)
    Path("scene.txt").write_text("A red ball is on a table. A dog is left of the table.")
    data = json.loads(call("parse", "scene.txt", "--json").stdout)
    assert [str(fact["statement"]) for fact in data["facts"]][-1] == "dog left of table"


def test_what_must_not_be_there_is_asked_and_not_refused(models: Models) -> None:
    done = call("refine", "a red ball on a table with no cat on it", "--plan")
    assert done.exit_code == 0
    assert re.search(r"asks +Does the table have a cat\?  \(no\)", done.stdout)
    assert "table.1 on ball.1" not in done.stdout
    assert not models.backend.book.lines


def test_wrong_triplets_stay_an_error_of_triplets() -> None:
    assert "write subject | predicate | object" in call("refine", "ball | on").stderr


def test_doctor_finds_a_folder_without_a_model_by_its_files() -> None:
    Path("scenewright.toml").write_text(
        '[profiles.mine]\nextends = "miniature"\nbackend = "diffusers:./nothing"\n'
    )
    report = json.loads(call("doctor", "--json").stdout)["profiles"]
    assert report["miniature"]["runs"] is True
    (problem,) = [part["problem"] for part in report["mine"]["parts"] if not part["ok"]]
    assert "nothing has no model_index.json" in problem


def test_score_shows_every_judge(models: Models) -> None:
    painted((16, 16), (255, 0, 0)).save("good.png")
    done = call("score", "good.png", SCENE)
    assert done.exit_code == 0, done.output
    assert "All 6 facts hold" in done.stdout
    for judge in ("scripted:judge-a", "scripted:judge-b", "scripted:judge-c (report)"):
        assert judge in done.stdout
    assert not models.backend.book.lines
    painted((16, 16), (0, 0, 0)).save("bad.png")
    data = json.loads(call("score", "bad.png", SCENE, "--json").stdout)
    assert data["exit_code"] == 1
    assert data["scores"]["loop"]["sgscore"] == 0.0
    assert {answer["judge_id"] for answer in data["answers"]} == {
        "scripted:judge-a",
        "scripted:judge-b",
        "scripted:judge-c",
    }


def test_score_takes_swapped_arguments_and_says_so() -> None:
    painted((16, 16), (255, 0, 0)).save("good.png")
    done = call("score", SCENE, "good.png", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["image"] == "good.png"
    assert "write IMAGE before SCENE" in done.stderr
    # A file that is no image stays a scene: nothing is swapped.
    Path("scene.txt").write_text(SCENE)
    wrong = call("score", "scene.txt", SCENE)
    assert (wrong.exit_code, "not an image" in wrong.stderr) == (2, True)


async def test_swapped_arguments_of_the_function_are_told() -> None:
    picture = painted((16, 16), (0, 0, 0))
    picture.save("good.png")
    for given in (picture, "good.png", Path("good.png")):
        with pytest.raises(RunError, match=r"swapped: score\(image, scene\)"):
            await score(SCENE, given)  # type: ignore[arg-type]


def test_score_says_why_facts_could_not_be_judged(models: Models) -> None:
    models.silent = True
    painted((16, 16), (0, 0, 0)).save("good.png")
    done = call("score", "good.png", SCENE)
    assert done.exit_code == 4
    told = [line for line in done.stdout.splitlines() if line.startswith("unscored ")]
    assert len(told) == 3
    assert "scripted:judge-a: ball and 5 more: the model said nothing" in told[0]


def test_show_and_page_work_on_a_stored_run() -> None:
    call("refine", SCENE, "--out", "run")
    Path("run/index.html").unlink()
    shown = call("show", "run")
    assert shown.exit_code == 0
    assert "red ball on table" in shown.stdout
    assert "page " not in shown.stdout
    made = call("open", "run", "--no-browser", "--sheet", "sheet.png")
    assert made.stdout.split() == [str(Path("run/index.html").absolute()), "sheet.png"]
    assert Image.open("sheet.png").width > 500
    assert json.loads(call("show", "run", "--json").stdout)["page"] == "run/index.html"
    wrong = call("open", "run", "--no-browser", "--sheet", "sheet.nope")
    assert wrong.exit_code == 2
    assert "writable" in wrong.stderr


def test_parse_shows_and_converts() -> None:
    shown = call("parse", SCENE, "--facts")
    assert "complexity 2, simple" in shown.stdout
    assert "Is there a ball in the image?" in shown.stdout
    for name in ("json", "megasg", "triplets", "networkx"):
        text = call("parse", SCENE, "--to", name).stdout
        Path(f"scene.{name}.txt").write_text(text, encoding="utf-8")
        assert isomorphic(load_scene(Path(f"scene.{name}.txt")), load_scene(SCENE))
    assert call("parse", SCENE, "--to", "json", "--out", "s.json").stdout == ""
    assert isomorphic(load_scene(Path("s.json")), load_scene(SCENE))
    data = json.loads(call("parse", SCENE, "--json").stdout)
    assert data["level"] == "simple"
    assert len(data["facts"]) == 6


def test_the_demo_draws_three_scenes_and_tells_where_the_page_is() -> None:
    done = call("demo", "--out", "demo", "--rounds", "2")
    assert done.exit_code == 0, done.output
    last = done.stdout.strip().splitlines()[-1]
    page = Path(last.removeprefix("The page: "))
    text = page.read_text(encoding="utf-8")
    links = set(re.findall(r'href="([^"#]+/index\.html)"', text))
    assert len(links) == 3
    assert all((page.parent / link).is_file() for link in links)
    again = call("demo", "--out", "demo", "--rounds", "2", "--json", "--quiet")
    assert set(json.loads(again.stdout)["runs"]) == {"simple", "medium", "hard"}
    assert again.stderr == ""


def test_new_models_make_a_new_demo(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "SCENES", {"simple": SCENE})
    call("demo", "--quiet", "--rounds", "1")
    models.backend.version = "2"
    call("demo", "--quiet", "--rounds", "1")
    assert len(list(Path("out/demo").glob("simple-*"))) == 2


def test_the_demo_scenes_can_be_painted_and_have_their_level() -> None:
    for level, text in demo.SCENES.items():
        scene = load_scene(text)
        assert scene.level() == level
        assert all(fact.attributes.keys() <= {"color"} for fact in scene.objects)
        paint(scene, seed=0)


def test_doctor_tells_what_would_run_and_why_not(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Importing torch takes seconds and tells nothing about the models here.
    monkeypatch.setattr(doctor, "devices", lambda by_torch: ["cpu (2 threads)"])
    good = call("doctor", "--profile", "miniature", "--json")
    report = json.loads(good.stdout)
    assert good.exit_code == 0
    assert report["ready"] is True
    assert report["packages"]["pydantic"]
    assert report["machine"]["free_disk_bytes"] > 0

    def absent(spec: str, settings: object = None) -> ScriptedJudge:
        raise JudgeError(f"{spec} has no weights: train it first")

    monkeypatch.setattr(profiles, "build_judge", absent)
    bad = call("doctor", "--profile", "miniature")
    assert bad.exit_code == 3
    assert "miniature, default: would not run" in bad.stdout
    assert "local:miniature/judge-c has no weights: train it first" in bad.stdout


@pytest.mark.parametrize(
    ("profile", "main", "cuda", "fits"),
    [
        ("flux2-klein", 24, 0, "whole"),
        ("flux2-klein", 16, 0, "no"),
        ("flux2-klein", 32, 24, "whole"),
        ("flux2-klein", 32, 12, "offloaded"),
        ("qwen-image", 32, 24, "no"),
        ("sdxl", 64, 16, "whole"),
    ],
)
def test_doctor_knows_what_fits_before_it_is_fetched(
    profile: str, main: int, cuda: int, fits: str
) -> None:
    found = readiness.memory_needed(find_profile(profile), main * 2**30, cuda * 2**30)
    assert found is not None
    assert found["fits"] == fits
    assert found["device_bytes"] == (cuda or main) * 2**30
    assert readiness.memory_needed(find_profile("openai"), 2**30) is None


def test_doctor_goes_on_where_a_profile_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "devices", lambda by_torch: ["cpu (2 threads)"])
    Path("scenewright.toml").write_text('[profiles.mine]\nchat = "scripted:director"\n')
    done = call("doctor", "--json")
    report = json.loads(done.stdout)
    assert (done.exit_code, report["ready"]) == (0, True)
    (part,) = report["profiles"]["mine"]["parts"]
    assert 'extends = "miniature"' in part["problem"]
    shown = call("doctor", "--profile", "mine")
    assert shown.exit_code == 3
    assert "mine: would not run" in shown.stdout
    assert 'extends = "miniature"' in shown.stdout
    assert call("refine", SCENE).exit_code == 0
    wrong = call("refine", SCENE, "--profile", "mine")
    assert (wrong.exit_code, 'extends = "miniature"' in wrong.stderr) == (2, True)


@pytest.mark.parametrize(
    "command", ["", "refine", "score", "demo", "open", "show", "parse", "doctor"]
)
def test_every_command_has_help(command: str) -> None:
    done = call(*command.split(), "--help")
    assert done.exit_code == 0
    assert "Usage" in done.stdout


def test_long_help_has_options_in_groups() -> None:
    for command, groups in (
        ("refine", ("Models", "Limits", "Run", "Output")),
        ("eval run", ("Evaluation", "Workers", "Output")),
        ("serve", ("Address", "Storage", "Runs", "Log")),
    ):
        text = call(*command.split(), "--help").stdout
        heads = re.findall(r"^╭─ (.+?) ─", text, re.MULTILINE)
        assert {*groups, "Options"} <= set(heads)


def test_refine_help_documents_the_exit_codes() -> None:
    text = " ".join(call("refine", "--help").stdout.split())
    for code in (*map(int, console.Exit),):
        assert f" {code} " in text


def test_quick_commands_import_no_model_library() -> None:
    code = """
import sys
from typer.testing import CliRunner
from scenewright.cli.main import app

heavy = {"torch", "diffusers", "transformers", "scipy"}
slow = {"langgraph", "networkx", "numpy", "PIL"}
for command, barred in (("refine --help", heavy | slow), ("doctor", heavy), ("strategies", heavy)):
    done = CliRunner().invoke(app, command.split())
    assert done.exit_code == 0, done.output
    print(command, sorted(barred & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert done.stdout.splitlines() == ["refine --help []", "doctor []", "strategies []"], done


def test_a_terminal_that_knows_ascii_only_still_gets_a_table(tmp_path: Path) -> None:
    call("refine", SCENE, "--out", "run")
    done = subprocess.run(
        [sys.executable, "-m", "scenewright", "show", "run"],
        capture_output=True,
        check=True,
        env={
            **os.environ,
            "PYTHONIOENCODING": "ascii",
            "PYTHONPATH": str(Path(__file__).parents[1]),
        },
    )
    assert b"y 9" in done.stdout
    assert done.stdout.isascii()
