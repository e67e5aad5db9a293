"""A director's run, killed at every event: it goes on as it would have, and pays nothing twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scenewright.graphs.eventlog import EventLog
from scenewright.graphs.events import Event, Planned, Replied, Resumed, Step
from tests.doubles import CallBook, ScriptedBackend, ScriptedComposer, ScriptedJudge
from tests.graphs.directing import Played, direct, level, played

LINES: tuple[Any, ...] = (
    [("generate_image", {}), ("verify_facts", {})],
    "Let me think.",
    ("refine_with_reference", {"why": "the dog"}),
    ("look", {"image": "r1", "box": [0, 0, 0.5, 0.5], "question": "Is it dark?"}),
    ("inpaint", {"box": [2, 0, 1, 1]}),
    ("accept", {}),
)


class Killed(Exception):
    """The process ends here."""


def killed_at(number: int, *, told: bool) -> Callable[..., EventLog]:
    """A log whose process ends at the event of that number, which is stored if ``told``."""

    class Ending(EventLog):
        def append(self, event: Event) -> bool:
            last = len(self.record) == number and not isinstance(event, Step)
            if last and not told:
                raise Killed
            stored = super().append(event)
            if last and stored:
                raise Killed
            return stored

    return Ending


def quality(request: Any) -> int:
    """Better with references."""
    return 200 if request.references else 100


class Place:
    """A run's folder with the books of all that was called, whichever process called it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.book = CallBook()
        self.chats: list[Played] = []

    async def drive(self, opened: Callable[..., EventLog] = EventLog) -> list[Event]:
        self.chats.append(played(*LINES))
        return await direct(
            self.folder,
            self.chats[-1],
            backend=ScriptedBackend(quality, self.book, masks=True, usd=0.1),
            judges=[ScriptedJudge("a", self.book, level)],
            report=[ScriptedJudge("c", self.book, level)],
            composer=ScriptedComposer(self.book),
            opened=opened,
        )

    @property
    def paid(self) -> Counter[str]:
        return Counter(line for line in self.book.lines if line.startswith("begin "))

    @property
    def turns(self) -> int:
        return sum(len(chat.sent) for chat in self.chats)

    @property
    def talk(self) -> list[Any]:
        """The longest conversation that a language model was sent."""
        sent = [talk for chat in self.chats for talk in chat.sent]
        return [
            (message.type, message.content, getattr(message, "tool_calls", None))
            for message in max(sent, key=len)
        ]


def lasting(events: list[Event]) -> list[dict[str, Any]]:
    """The events without what only a clock decides; judges of one wave answer in any order."""

    def timeless(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: timeless(v) for k, v in value.items() if k not in ("at", "seconds")}
        return [timeless(item) for item in value] if isinstance(value, list) else value

    told = [timeless(e.model_dump(mode="json")) for e in events if not isinstance(e, Resumed)]
    return sorted(told, key=lambda event: str(event["key"]))


@pytest.mark.slow
async def test_a_run_killed_at_any_event_goes_on_and_pays_nothing_twice(tmp_path: Path) -> None:
    whole = Place(tmp_path / "whole")
    events = await whole.drive()
    expected = lasting(events)
    assert max(whole.paid.values()) == 1
    assert whole.turns == len(LINES)
    for number, event in enumerate(events[1:], start=1):
        # Before an event its work is done; after one of these begins the next.
        for told in (False, True) if isinstance(event, Replied | Planned) else (False,):
            place = Place(tmp_path / f"{number}-{told}")
            try:
                await place.drive(killed_at(number, told=told))
            except Killed:
                pass
            else:
                raise AssertionError(f"{event.key} ended nothing")
            case = f"{event.key}, {'told' if told else 'not told'}"
            assert lasting(await place.drive()) == expected, case
            # A worded prompt and a reply that were not told yet are lost; all else is stored.
            unsafe = 0 if told else 1
            again = {call for call, times in place.paid.items() if times > 1}
            assert not {call for call in again if not call.startswith("begin compose")}, case
            assert len(again) <= unsafe, case
            assert place.turns <= len(LINES) + unsafe, case
            assert place.talk == whole.talk, case
