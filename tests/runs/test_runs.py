"""Runs: their folders, locks, resumption, and what goes wrong with a disk or a person."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import scenewright
from scenewright import Budget, RunError, SceneGraph, load_run, refine, score, stream_refine
from scenewright.config.options import LoopOptions
from scenewright.config.profiles import BUILT_IN, SettingsError
from scenewright.config.settings import Settings, load_settings
from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.backend import BackendError, GenerationRequest
from scenewright.core.scene import SceneObject
from scenewright.graphs.eventlog import read_events
from scenewright.graphs.events import Event, Finished, Generated, Resumed, RunStarted
from scenewright.runs.folder import choose_folder, differences
from scenewright.runs.plan import loop_options, plan_run
from scenewright.runs.record import read_run
from scenewright.runs.result import PageWarning
from tests.doubles import CallBook, ScriptedBackend, ScriptedComposer, ScriptedJudge, painted

SCENE = "red ball on table; dog left of table"


def quality(request: GenerationRequest) -> int:
    return 170 if request.references else 120


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in Settings.model_fields:
        monkeypatch.delenv(f"SCENEWRIGHT_{name.upper()}", raising=False)
    return tmp_path


def run_models(book: CallBook | None = None, **changes: Any) -> dict[str, Any]:
    book = book or CallBook()
    return {
        "rounds": 2,
        "backend": ScriptedBackend(quality, book),
        "judges": [ScriptedJudge("a", book)],
        "report_judges": [ScriptedJudge("c", book)],
        "composer": ScriptedComposer(book),
        **changes,
    }


async def test_the_folder_holds_all_of_the_run() -> None:
    result = await refine(SCENE, **run_models())
    folder = result.folder
    assert folder.parent == Path("runs")
    assert {entry.name for entry in folder.iterdir()} == {
        "manifest.json",
        "events.jsonl",
        "images",
        "answers.sqlite",
        "checkpoints.sqlite",
        "result.json",
        "run.lock",
        "index.html",
    }
    assert result.page == folder / "index.html"
    assert "red ball on table" in result.page.read_text(encoding="utf-8")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["run_id"] == folder.name
    assert manifest["models"]["backend"] == {
        "id": "scripted:backend",
        "fingerprint": "scripted-backend-1",
    }
    assert manifest["models"]["report_judges"][0]["id"] == "scripted:c"
    assert manifest["config"]["options"]["rounds"] == 2
    assert {"python", "langgraph", "torch"} <= set(manifest["versions"])
    assert set(manifest["prompts"]) == {
        file.name for file in Path(scenewright.__file__).parent.joinpath("prompts").glob("*.md")
    }
    assert result.image is not None
    with Image.open(result.image) as image:
        assert image.size == (16, 16)
    saved = json.loads((folder / "result.json").read_text())
    assert saved == result.model_dump(mode="json")
    assert load_run(folder) == result


async def test_the_same_call_again_returns_the_result_and_calls_nothing() -> None:
    first = await refine(SCENE, **run_models())
    book = CallBook()
    events: list[Event] = []
    again = await refine(SCENE, **run_models(book), on_event=events.append)
    assert again == first
    assert book.lines == []
    assert [type(event) for event in (events[0], events[-1])] == [RunStarted, Finished]
    (first.folder / "result.json").unlink()
    await refine(SCENE, **run_models(book))
    assert (first.folder / "result.json").exists()


async def test_a_sentence_is_kept_with_the_run() -> None:
    said = "There is a red ball on a table, and a dog."
    first = await refine(SCENE, sentence=said, **run_models())
    events = read_events(first.folder / "events.jsonl")
    assert [event.scene.sentence for event in events if isinstance(event, RunStarted)] == [said]
    assert read_run(first.folder).sentence == said
    book = CallBook()
    again = await refine(SCENE, sentence=said, **run_models(book))
    assert (again.folder, book.lines) == (first.folder, [])


async def test_other_options_or_models_get_another_folder_and_resume_false_too() -> None:
    first = await refine(SCENE, **run_models())
    folders = {
        first.folder,
        (await refine(SCENE, **run_models(), seed=1)).folder,
        (await refine("a dog", **run_models())).folder,
        (await refine(SCENE, **run_models(judges=[ScriptedJudge("z")]))).folder,
        (await refine(SCENE, **run_models(), resume=False)).folder,
    }
    assert len(folders) == 5
    newest = await refine(SCENE, **run_models(), resume=False)
    assert newest.folder.name == f"{first.folder.name}-3"
    assert (await refine(SCENE, **run_models())).folder == newest.folder


async def test_a_page_is_left_out_where_nobody_reads_it(tmp_path: Path) -> None:
    result = await refine(SCENE, out=tmp_path / "run", **run_models(), page=False)
    assert result.page is None


async def test_a_page_that_cannot_be_written_costs_no_result(tmp_path: Path) -> None:
    out = tmp_path / "run"

    def taken(event: Event) -> None:
        if isinstance(event, Finished):
            (out / "index.html").mkdir()

    with pytest.warns(PageWarning, match="the run is done, but has no page"):
        result = await refine(SCENE, out=out, **run_models(), on_event=taken)
    assert result.finished
    assert result.page is None


def test_a_run_of_yesterday_is_found(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    today = choose_folder(runs, {"a": 1}, resume=True)
    old = runs / f"20200101-{today.name.partition('-')[2]}"
    old.mkdir(parents=True)
    assert choose_folder(runs, {"a": 1}, resume=True) == old
    assert choose_folder(runs, {"a": 1}, resume=False) == today
    assert choose_folder(runs, {"a": 2}, resume=True) != old


async def test_a_folder_of_another_configuration_names_what_differs(tmp_path: Path) -> None:
    out = tmp_path / "run"
    await refine(SCENE, out=out, **run_models())
    before = (out / "events.jsonl").read_bytes()
    with pytest.raises(RunError, match="seed was 0 and is 4 now"):
        await refine(SCENE, out=out, **run_models(), seed=4)
    with pytest.raises(RunError, match="already holds this run"):
        await refine(SCENE, out=out, **run_models(), resume=False)
    assert (out / "events.jsonl").read_bytes() == before


async def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "holiday"
    out.mkdir()
    (out / "beach.jpg").write_bytes(b"sand")
    with pytest.raises(RunError, match=r"beach\.jpg"):
        await refine(SCENE, out=out, **run_models())
    assert (out / "beach.jpg").read_bytes() == b"sand"


class Stop(Exception):
    """Raised by a listener to break a run off."""


def stop_at(kind: type[Event], nth: int = 1) -> Any:  # type: ignore[valid-type]
    seen: list[Event] = []

    def listen(event: Event) -> None:
        seen.extend([event] if isinstance(event, kind) else [])
        if len(seen) == nth:
            raise Stop

    return listen


async def test_new_weights_do_not_continue_a_run_of_old_ones(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(Stop):
        await refine(SCENE, out=out, **run_models(), on_event=stop_at(Generated))
    newer = ScriptedBackend(quality, version="2")
    with pytest.raises(RunError) as refused:
        await refine(SCENE, out=out, **run_models(backend=newer))
    told = str(refused.value)
    assert "the image model scripted:backend has other weights, settings or libraries" in told
    assert "--fresh (resume=False)" in told
    assert not re.search("[0-9a-f]{16}", told.replace(str(out), ""))
    assert load_run(out).stop_reason is None
    assert (await refine(SCENE, out=out, **run_models())).finished


async def test_a_run_that_failed_on_its_models_begins_with_mended_ones(tmp_path: Path) -> None:
    class Broken(ScriptedBackend):
        async def load(self) -> None:
            raise BackendError("the weights are damaged: fetch them again")

    out = tmp_path / "run"
    with pytest.raises(BackendError):
        await refine(SCENE, out=out, **run_models(backend=Broken(quality)))
    nonce = json.loads((out / "manifest.json").read_text())["nonce"]
    mended = ScriptedBackend(quality, version="2")
    assert (await refine(SCENE, out=out, **run_models(backend=mended))).finished
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["nonce"] == nonce
    assert manifest["models"]["backend"]["fingerprint"] == mended.fingerprint


async def test_a_broken_run_can_be_shown_and_goes_on(tmp_path: Path) -> None:
    out, book = tmp_path / "run", CallBook()
    with pytest.raises(Stop):
        await refine(SCENE, out=out, **run_models(book), on_event=stop_at(Generated, 2))
    shown = load_run(out)
    assert (shown.stop_reason, shown.best_round, len(shown.rounds)) == (None, 0, 1)
    assert shown.image is not None
    assert shown.image.exists()
    events = [event async for event in stream_refine(SCENE, out=out, **run_models(book))]
    assert isinstance(events[0], RunStarted)
    assert sum(isinstance(event, Resumed) for event in events) == 1
    assert isinstance(events[-1], Finished)
    begun = [line for line in book.lines if line.startswith("begin")]
    assert len(begun) == len(set(begun))
    assert (out / "result.json").exists()


async def test_cancelling_keeps_what_was_done(tmp_path: Path) -> None:
    out, book = tmp_path / "run", CallBook()
    drawn = asyncio.Event()

    async def slow(answers: list[Answer]) -> list[Answer]:
        drawn.set()
        await asyncio.sleep(60)
        return answers

    stuck = ScriptedJudge("a", book, behave=lambda judge, facts, answers: slow(answers))
    task = asyncio.create_task(refine(SCENE, out=out, **run_models(book, judges=[stuck])))
    await asyncio.wait_for(drawn.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    result = await refine(SCENE, out=out, **run_models(book))
    assert result.finished
    generated = [line for line in book.lines if line.startswith("begin generate")]
    assert len(generated) == len(set(generated))


async def test_a_listener_may_leave_the_stream(tmp_path: Path) -> None:
    out = tmp_path / "run"
    stream = stream_refine(SCENE, out=out, **run_models())
    async for event in stream:
        if isinstance(event, Generated):
            break
    await stream.aclose()
    assert (await refine(SCENE, out=out, **run_models())).finished


async def test_a_failing_backend_is_raised_and_the_run_can_go_on(tmp_path: Path) -> None:
    out = tmp_path / "run"

    def full(request: GenerationRequest) -> Exception | None:
        return BackendError("out of memory: use a smaller size") if request.references else None

    with pytest.raises(BackendError, match="smaller size"):
        await refine(SCENE, out=out, **run_models(backend=ScriptedBackend(quality, failing=full)))
    assert load_run(out).best_round == 0
    assert (await refine(SCENE, out=out, **run_models())).stop_reason == "rounds"


async def test_two_drivers_of_one_run_are_kept_apart(tmp_path: Path) -> None:
    out = tmp_path / "run"
    stream = stream_refine(SCENE, out=out, **run_models())
    await anext(stream)
    with pytest.raises(RunError, match=f"driven by process {os.getpid()}"):
        await refine(SCENE, out=out, **run_models())
    await stream.aclose()
    assert (await refine(SCENE, out=out, **run_models())).finished


async def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(RunError, match="Choose a folder that you may write in"):
        await refine(SCENE, out=tmp_path / "file" / "run", **run_models())
    with pytest.raises(RunError, match="not a run folder"):
        load_run(tmp_path)


async def test_a_full_disk_is_told_and_the_run_goes_on_afterwards(tmp_path: Path) -> None:
    program = (
        "import asyncio, resource, signal, sys\n"
        # A file of bytecode must not be cut off there.
        "sys.dont_write_bytecode = True\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from scenewright.graphs.errors import RunError\n"
        "from scenewright.runs.api import refine\n"
        "from tests.runs.test_runs import SCENE, run_models\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))\n"
        "try:\n    asyncio.run(refine(SCENE, out=sys.argv[1], **run_models()))\n"
        "except RunError as error:\n    print(error)\n    sys.exit(7)\n"
    )
    out = tmp_path / "run"
    root = str(Path(__file__).parents[2])
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", program, str(out), root],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 7, done.stderr[-2000:]
    assert "again" in done.stdout
    assert (await refine(SCENE, out=out, **run_models())).finished


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rounds": 0}, "rounds"),
        ({"patience": 0}, "patience"),
        ({"seed": -1}, "seed"),
        ({"judges": []}, "at least one"),
        ({"report_judges": [ScriptedJudge("a")]}, "cannot report its result"),
        ({"judges": [ScriptedJudge("a"), ScriptedJudge("a")]}, "given twice"),
    ],
)
async def test_wrong_options_say_what(change: dict[str, Any], message: str) -> None:
    with pytest.raises(RunError, match=message):
        await refine(SCENE, **run_models(**change))
    assert not Path("runs").exists()


async def test_wrong_scenes_and_profiles_are_told_before_anything_is_made() -> None:
    with pytest.raises(RunError, match="no objects"):
        await refine(SceneGraph(), **run_models())
    with pytest.raises(ValueError, match="nothing in it"):
        await refine("", **run_models())
    with pytest.raises(SettingsError, match=r"there are .*miniature"):
        await refine(SCENE, "miniatur", **run_models())
    assert not Path("runs").exists()


async def test_a_missing_model_leaves_the_folder_ready_for_the_next_try(tmp_path: Path) -> None:
    out = tmp_path / "run"
    profile = BUILT_IN["miniature"].model_copy(
        update={"judges": (f"local:{tmp_path}/nowhere",), "report_judges": ()}
    )
    parts = run_models()
    del parts["judges"]
    with pytest.raises(RuntimeError, match="nowhere"):
        await refine(SCENE, profile, out=out, **parts)
    assert (await refine(SCENE, out=out, **run_models())).finished


def test_options_come_from_the_profile_and_the_call() -> None:
    profile = BUILT_IN["miniature"].model_copy(update={"weight_best": 0.25, "steps": 9})
    options = loop_options(profile, rounds=5, budget=Budget(images=4))
    assert (options.weight_best, options.steps, options.rounds) == (0.25, 9, 5)
    assert options.budget.images == 4
    assert options.protocol == LoopOptions().protocol


def test_differences_name_the_place() -> None:
    assert differences({"a": {"b": 1}, "c": 2}, {"a": {"b": 3}, "c": 2}) == [
        "a.b was 1 and is 3 now"
    ]
    assert differences({"a": 1}, {}) == ["a was 1 and is null now"]
    assert differences({"start": "0" * 64}, {"start": None}) == ["start has changed"]


async def test_score_judges_one_image_without_a_run(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    painted((20, 10), (254, 0, 0)).save(path)
    judges, reporters = [ScriptedJudge("a"), ScriptedJudge("b")], [ScriptedJudge("c")]
    found = await score(path, SCENE, judges=judges, report_judges=reporters)
    assert found.loop.satisfied
    assert found.report is not None
    assert {(a.role, a.judge_id) for a in found.answers} == {
        ("loop", "scripted:a"),
        ("loop", "scripted:b"),
        ("report", "scripted:c"),
    }
    assert [answer.fact_id for answer in found.answers[0].answers] == [f.id for f in found.facts]
    dark = await score(painted((8, 8), (0, 0, 0)), SCENE, judges=judges, report_judges=[])
    assert dark.report is None
    assert dark.loop.sgscore == 0.0
    with pytest.raises(ValueError, match="no file"):
        await score(tmp_path / "absent.png", SCENE, judges=judges, report_judges=[])


def test_importing_the_package_is_cheap() -> None:
    program = (
        "import sys, scenewright\n"
        "assert 'langgraph' not in sys.modules and 'pydantic' not in sys.modules\n"
        "scenewright.refine\n"
        "assert not {'torch', 'diffusers', 'transformers'} & set(sys.modules)\n"
        "assert set(scenewright.__all__) <= {*dir(scenewright), '__version__'}\n"
        "[getattr(scenewright, name) for name in scenewright.__all__]\n"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd=root
    )
    assert done.returncode == 0, done.stderr


async def test_a_judge_timeout_comes_from_the_settings(tmp_path: Path) -> None:
    async def wait(answers: list[Answer]) -> list[Answer]:
        await asyncio.sleep(60)
        return answers

    def slow(judge: ScriptedJudge, facts: Sequence[Fact], answers: list[Answer]) -> object:
        return wait(answers)

    judges = [ScriptedJudge("a", behave=slow)]
    result = await refine(
        SCENE,
        **run_models(judges=judges, report_judges=[]),
        settings=load_settings(judge_timeout=0.05),
    )
    assert result.stop_reason == "unscored"
    assert "no answer within 0.05 s" in result.loop_card.verdicts[0].reason  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("scene", "sentence"),
    [
        ("A red ball is on a table.", "A red ball is on a table."),
        ("red ball on table; dog left of table", "red ball on table; dog left of table"),
        ("ball.1 | on | table", ""),
        (SceneGraph(objects=(SceneObject(id="ball.1", name="ball"),)), ""),
    ],
)
def test_a_sentence_is_the_title_of_its_run(scene: str | SceneGraph, sentence: str) -> None:
    assert plan_run(scene, "miniature").scene.intent.sentence == sentence
    if isinstance(scene, SceneGraph):
        mine = plan_run(scene, "miniature", sentence="Mine.").scene
        assert (mine.sentence, mine.graph) == ("Mine.", scene)
