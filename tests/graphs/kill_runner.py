"""One loop, killed at every tick and resumed: a program of its own, because it forks.

A tick lies after every side effect: a call of a model, a stored image or answer, a stored
event, a checkpoint. Two ways of killing:

- *frozen*: the process stops itself with SIGSTOP at a tick, its folder is copied as it lies,
  and it goes on to the next tick. The copy is what SIGKILL would have left, and one walk
  gives the copies of all ticks;
- *killed*: a real SIGKILL, at the first tick of each kind and, in another run, again and
  again until a process comes to the end.

Prints one JSON line a case. ``python tests/graphs/kill_runner.py FOLDER [edited | realism]``: with
``edited`` the run is paused, corrected by a person, finished, and edited again; with ``realism``
judges of realism look as well, and the most real of equally correct pictures is kept.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import signal
import sqlite3
import sys
import threading
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from scenewright.config.settings import load_settings
from scenewright.core.facts import Fact
from scenewright.core.formats import load_scene
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import GenerationRequest
from scenewright.graphs.checkpoints import LoopCheckpoints
from scenewright.graphs.eventlog import EventLog, read_events
from scenewright.graphs.events import Edit
from scenewright.graphs.state import round_seed
from scenewright.providers import AnswerStore
from scenewright.runs import api as runs
from scenewright.runs import folder as runfolder
from scenewright.runs import session
from scenewright.runs.result import load_run
from tests.doubles import (
    CallBook,
    ScriptedBackend,
    ScriptedComposer,
    ScriptedJudge,
    ScriptedRealism,
)

SCENE = "red ball on table; dog left of table"
EDITS = (
    Edit(key="one", verdicts={"o:dog.1": "yes", "r:ball.1|on|table.1": "no"}, rounds=1),
    Edit(key="two", base=0, scene=load_scene(f"{SCENE}; hat on dog"), rounds=1, note="a hat"),
)
HEAVY = ("torch", "diffusers", "transformers")
OFTEN = 13
STRIDE = {"edited": 3, "realism": 7}.get("".join(sys.argv[2:]), 1)
"""How many ticks lie between two copies: the longer runs come by each kind of step often."""

Hook = Callable[[int, str], None]


class Clockwork:
    """Counts ticks and calls a hook at each."""

    def __init__(self, hook: Hook) -> None:
        self.hook = hook
        self.count = 0
        self.lock = threading.Lock()

    def tick(self, label: str) -> None:
        with self.lock:
            self.count += 1
            self.hook(self.count, label)


class TickingBook(CallBook):
    """A call book in which every call's begin and end is a tick."""

    def __init__(self, path: Path, clock: Clockwork) -> None:
        super().__init__(path)
        self.clock = clock

    def note(self, *lines: str) -> None:
        super().note(*lines)
        self.clock.tick(" ".join(lines[0].split()[:2]))


def instrument(clock: Clockwork) -> None:
    """Put a tick after every side effect of the loop itself."""

    def after(owner: Any, name: str) -> None:
        work = getattr(owner, name)
        label = f"{owner.__name__.rpartition('.')[2]}.{name}"

        @wraps(work)
        def plain(*args: Any, **kwargs: Any) -> Any:
            value = work(*args, **kwargs)
            clock.tick(label)
            return value

        @wraps(work)
        async def waiting(*args: Any, **kwargs: Any) -> Any:
            value = await work(*args, **kwargs)
            clock.tick(label)
            return value

        setattr(owner, name, waiting if asyncio.iscoroutinefunction(work) else plain)

    after(EventLog, "append")
    after(AnswerStore, "put")
    after(ImageStore, "put")
    after(ImageStore, "remember")
    after(LoopCheckpoints, "aput")
    after(runfolder.RunFolder, "write_manifest")
    after(session, "write_text")


def quality(request: GenerationRequest) -> int:
    """Better with references, never perfect."""
    return 170 if request.references else 120


async def drive(place: Path, clock: Clockwork) -> None:
    """The run under test: two rounds with a reference, two judges, one to report."""
    book = TickingBook(place / "calls.txt", clock)
    options: dict[str, Any] = {
        "out": place / "run",
        "rounds": 2,
        "seed": 5,
        "settings": load_settings(),
        "backend": ScriptedBackend(quality, book),
        "judges": [ScriptedJudge("a", book), ScriptedJudge("b", book)],
        "report_judges": [ScriptedJudge("c", book)],
        "composer": ScriptedComposer(book),
    }
    if "realism" in sys.argv[2:]:
        await runs.refine(SCENE, **options | of_realism(book))
        return
    if "edited" not in sys.argv[2:]:
        await runs.refine(SCENE, **options)
        return
    if not told(place, "paused"):
        await runs.refine(SCENE, pause=lambda: not told(place, "paused"), **options)
    for edit in EDITS:
        await runs.refine(SCENE, edit=edit, **options)


def of_realism(book: TickingBook) -> dict[str, Any]:
    """All facts hold from the beginning; each further picture looks more real."""
    levels = {"ball.1": 120, "table.1": 20, "dog.1": 150}

    def level(fact: Fact) -> int:
        return levels[fact.subject]

    def realism(request: GenerationRequest) -> int:
        seeds = [round_seed(5, at, "candidate") for at in range(3)]
        return 60 + 10 * seeds.index(request.seed)

    boxes = {"ball.1": (1.0, 1.0, 6.0, 6.0), "dog.1": (8.0, 8.0, 15.0, 15.0)}
    return {
        "rounds": 3,
        "realism": True,
        "strategy": "best-of-n",
        "backend": ScriptedBackend(lambda request: 255, book, masks=True, realism=realism),
        "realism_judges": [
            ScriptedRealism("real-a", book, level, boxes=boxes),
            ScriptedRealism("real-b", book, level, boxes=boxes),
        ],
        "realism_report_judges": [ScriptedRealism("real-c", book, level)],
    }


def told(place: Path, kind: str) -> bool:
    """Whether the run's log has an event of that type."""
    log = place / "run" / "events.jsonl"
    return log.exists() and any(event.type == kind for event in read_events(log))


def start(place: Path, hook: Hook) -> int:
    """Fork a process that drives the run in ``place``; its id."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            clock = Clockwork(hook)
            instrument(clock)
            asyncio.run(drive(place, clock))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return child


def go_on(place: Path) -> bool:
    """Drive the run in ``place`` to its end; whether that went well."""
    return os.waitpid(start(place, lambda at, label: None), 0)[1] == 0


def kill_at(place: Path, wanted: int) -> bool:
    """Drive the run in ``place`` and kill it at a tick; False if it ended before."""

    def hook(at: int, label: str) -> None:
        if at == wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    status = os.waitpid(start(place, hook), 0)[1]
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def stored(place: Path) -> set[str]:
    """Calls whose results are safe on the disk, by the names of the call book."""
    folder = place / "run"
    found = {f"generate {file.stem}" for file in (folder / "images" / "requests").glob("*.json")}
    if (folder / "answers.sqlite").exists():
        db = sqlite3.connect(folder / "answers.sqlite")
        try:
            rows = db.execute("SELECT judge, image, fact FROM answers").fetchall()
            found |= {"answer " + " ".join(row) for row in rows}
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
        finally:
            db.close()
    return found


def calls(place: Path) -> list[str]:
    """All paid calls begun, in order."""
    book = place / "calls.txt"
    lines = book.read_text().splitlines() if book.exists() else []
    begun = [line.removeprefix("begin ") for line in lines if line.startswith("begin ")]
    return [line for line in begun if not line.startswith("compose")]


def outcome(place: Path) -> dict[str, Any]:
    """The result and the events without what only a clock decides.

    An edit's candidate is the picture of an earlier round. Where the report's judges look at both
    side by side, the clock decides which of the two pays for the answers; the totals do not change.
    """
    folder = place / "run"
    clocked = {"at", "seconds"}
    by_turns = clocked | {"cached", "tokens_in", "tokens_out"}

    def timeless(value: Any) -> Any:
        if isinstance(value, dict):
            answers = "judge_id" in value and "edited" in sys.argv[2:]
            left_out = by_turns if answers else clocked
            return {k: timeless(v) for k, v in value.items() if k not in left_out}
        return [timeless(item) for item in value] if isinstance(value, list) else value

    events = [event.model_dump(mode="json") for event in read_events(folder / "events.jsonl")]
    lasting = [timeless(event) for event in events if event["type"] != "resumed"]
    keys = [event["key"] for event in lasting]
    return {
        "result": timeless(load_run(folder).model_dump(mode="json")),
        "file": timeless(json.loads((folder / "result.json").read_text())),
        # Judges of one wave answer in any order.
        "events": sorted(lasting, key=lambda event: str(event["key"])),
        "each key once": len(keys) == len(set(keys)),
        "last": keys[-1],
        "images": sorted(file.name for file in (folder / "images").glob("*.png")),
    }


def resumed(place: Path, expected: dict[str, Any]) -> dict[str, Any]:
    """Resume what a kill left in ``place`` and compare it with the unbroken run."""
    safe, before = stored(place), calls(place)
    ended = go_on(place)
    after = calls(place)[len(before) :]
    found = outcome(place) if ended else {}
    shutil.rmtree(place)
    return {
        "ended": ended,
        "differs": [name for name in expected if found.get(name) != expected[name]],
        "paid again": sorted(set(after) & safe),
        "asked twice": sorted({call for call in after if after.count(call) > 1}),
        "in flight": len(set(before) - safe),
    }


def frozen_walk(root: Path, expected: dict[str, Any]) -> list[str]:
    """Stop one run at every tick and resume a copy of it; the labels of the ticks."""
    place, labels = root / "walk", root / "labels"
    place.mkdir()
    waiting, going_on = os.pipe()

    def hook(at: int, label: str) -> None:
        with labels.open("a") as file:
            file.write(f"{label}\n")
        os.kill(os.getpid(), signal.SIGSTOP)
        # A thread can run on for a moment after it has stopped its process.
        os.read(waiting, 1)

    child = start(place, hook)
    at = 0
    while True:
        status = os.waitpid(child, os.WUNTRACED)[1]
        if not os.WIFSTOPPED(status):
            break
        at += 1
        if at % STRIDE:
            os.write(going_on, b".")
            os.kill(child, signal.SIGCONT)
            continue
        copy = root / f"frozen-{at}"
        shutil.copytree(place, copy)
        label = labels.read_text().splitlines()[-1]
        say({"way": "frozen", "at": at, "label": label} | resumed(copy, expected))
        os.write(going_on, b".")
        os.kill(child, signal.SIGCONT)
    os.close(waiting)
    os.close(going_on)
    if status != 0:
        raise SystemExit("the frozen run failed")
    return labels.read_text().splitlines()


def killed_often(root: Path, expected: dict[str, Any]) -> dict[str, Any]:
    """Kill one process after another until one comes to the end."""
    place = root / "often"
    place.mkdir()
    kills = 0
    # A little later each time: a step longer than the interval would never be passed.
    while kill_at(place, OFTEN + kills):
        kills += 1
    found = outcome(place)
    return {
        "kills": kills,
        "differs": [name for name in expected if found[name] != expected[name]],
    }


def say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def main() -> None:
    # A forked process that collects garbage would copy every page of the libraries.
    gc.disable()
    gc.freeze()
    root = Path(sys.argv[1])
    whole = root / "whole"
    whole.mkdir()
    if not go_on(whole):
        raise SystemExit("the unbroken run failed")
    expected = outcome(whole)
    say({"way": "whole", "calls": calls(whole), "stored": sorted(stored(whole)), **expected})
    labels = frozen_walk(root, expected)
    for label in dict.fromkeys(labels):
        # The middle one of its kind: neither the very beginning nor the very end.
        ticks = [at for at, name in enumerate(labels, start=1) if name == label]
        wanted = ticks[len(ticks) // 2]
        place = root / f"killed-{wanted}"
        place.mkdir()
        killed = kill_at(place, wanted)
        say(
            {"way": "killed", "at": wanted, "label": label, "killed": killed}
            | resumed(place, expected)
        )
    say({"way": "often"} | killed_often(root, expected))
    say({"way": "heavy", "loaded": [name for name in HEAVY if name in sys.modules]})


if __name__ == "__main__":
    main()
