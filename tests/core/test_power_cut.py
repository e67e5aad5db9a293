"""What a power cut can leave of a run: files that were written last are gone, torn or apart.

A killed process loses none of its files; only a power cut takes back what was not flushed
yet, and of several files each a different part.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from scenewright.core.flushing import Flusher
from scenewright.core.ports.backend import GenerationRequest
from scenewright.graphs.eventlog import EventLog, read_events
from scenewright.runs import session
from scenewright.runs.api import refine
from scenewright.runs.result import load_run
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge

SCENE = "red ball on table; dog left of table"


def quality(request: GenerationRequest) -> int:
    return 170 if request.references else 120


async def drive(out: Path) -> None:
    await refine(
        SCENE,
        out=out,
        rounds=2,
        seed=5,
        backend=ScriptedBackend(quality, masks=True),
        judges=[ScriptedJudge("a"), ScriptedJudge("b")],
        report_judges=[ScriptedJudge("c")],
        composer=ScriptedComposer(),
    )


def timeless(value: Any) -> Any:
    """``value`` without what only a clock decides."""
    if isinstance(value, dict):
        return {
            k: timeless(v)
            for k, v in value.items()
            if k not in ("at", "seconds", "run_id", "after")
        }
    return [timeless(item) for item in value] if isinstance(value, list) else value


def outcome(out: Path) -> tuple[Any, ...]:
    events = [event.model_dump(mode="json") for event in read_events(out / "events.jsonl")]
    lasting = [timeless(event) for event in events if event["type"] != "resumed"]
    images = sorted(file.name for file in (out / "images").glob("*.png"))
    result = timeless(load_run(out).model_dump(mode="json"))
    assert timeless(json.loads((out / "result.json").read_text())) == result
    return sorted(lasting, key=lambda event: str(event["key"])), result, images


async def unbroken(tmp_path: Path) -> Path:
    out = tmp_path / "unbroken"
    await drive(out)
    return out


def lines_left(out: Path, count: int, torn: int = 0) -> None:
    """Let the event log have its first ``count`` lines and some bytes of the next one."""
    log = out / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:count]) + lines[count][:torn])
    (out / "result.json").unlink(missing_ok=True)


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
async def test_a_log_that_lost_its_end_is_written_again_whatever_the_checkpoints_say(
    tmp_path: Path, step: int
) -> None:
    whole = await unbroken(tmp_path)
    expected = outcome(whole)
    for count in range(0, len(read_events(whole / "events.jsonl")), step):
        out = tmp_path / f"lost-{count}"
        shutil.copytree(whole, out)
        lines_left(out, count, torn=17 * (count // step % 2))
        await drive(out)
        assert outcome(out) == expected, count


@pytest.mark.parametrize("left", [None, b"", b"\0" * 200])
async def test_a_lost_or_torn_image_is_drawn_again(tmp_path: Path, left: bytes | None) -> None:
    whole = await unbroken(tmp_path)
    expected = outcome(whole)
    for number, name in enumerate(expected[2]):
        out = tmp_path / f"torn-{number}"
        shutil.copytree(whole, out)
        lines_left(out, len(expected[0]) - 1)
        if left is None:
            (out / "images" / name).unlink()
        else:
            (out / "images" / name).write_bytes(left)
        await drive(out)
        assert outcome(out) == expected, name


async def test_lost_answers_and_notes_are_asked_for_and_drawn_again(tmp_path: Path) -> None:
    whole = await unbroken(tmp_path)
    expected = outcome(whole)
    for count in (1, len(expected[0]) // 2):
        out = tmp_path / f"forgotten-{count}"
        shutil.copytree(whole, out)
        lines_left(out, count)
        (out / "answers.sqlite").unlink()
        for note in (out / "images" / "requests").iterdir():
            note.write_bytes(b"")
        await drive(out)
        assert outcome(out) == expected, count


async def test_the_end_is_told_only_when_all_it_rests_on_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finished run is never looked through again."""
    flushed: set[str] = set()

    class Seen(Flusher):
        def flush(self) -> None:
            flushed.update(path.name for path in self._noted)
            super().flush()

    at_end: set[str] = set()
    append = EventLog.append

    def appended(log: EventLog, event: Any) -> bool:
        stored = append(log, event)
        if event.type == "finished":
            at_end.update(flushed)
        return stored

    monkeypatch.setattr(session, "Flusher", Seen)
    monkeypatch.setattr(EventLog, "append", appended)
    out = await unbroken(tmp_path)
    images = {file.name for file in (out / "images").glob("*.png")}
    notes = {file.name for file in (out / "images" / "requests").iterdir()}
    assert images | notes | {"images", "requests", "events.jsonl", "answers.sqlite-wal"} == at_end
