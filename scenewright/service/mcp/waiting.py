"""Waiting for a run while its client hears how far it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

from scenewright.runs.folder import EVENTS
from scenewright.service.core.event_broadcast import BroadcastEvent, read_lines
from scenewright.service.core.identity import Identity
from scenewright.service.core.service import Service
from scenewright.service.core.store import Run

Report = Callable[[float, float | None, str], Awaitable[None]]
"""Tells a client: how far, of how much, in words."""

_LEAST = 0.001
"""Least progress between two reports: MCP wants the number to rise."""


class Progress:
    """What happens in a run as progress in rounds: 0 at its beginning, up to ``rounds``."""

    def __init__(self, report: Report, rounds: int) -> None:
        self._report = report
        self._rounds = float(rounds)
        self._at = 0.0
        self._says = "waiting"

    async def told(self, told: BroadcastEvent | None) -> None:
        """Report ``told``, or with none that nothing has happened for a while."""
        if told is not None:
            found = _progress(told.kind, json.loads(told.data))
            if found is None:
                return
            at, self._says = found
            if told.kind == "finished":
                at = self._rounds
            self._at = max(self._at + _LEAST, at)
        else:
            self._at += _LEAST
        await self._report(self._at, max(self._rounds, self._at), self._says)


async def watch(
    service: Service, identity: Identity, run: Run, report: Report, seconds: float
) -> None:
    """Report what happens in ``run`` until it stands still, or ``seconds`` are over."""
    if seconds <= 0:
        return
    progress = Progress(report, int(run.request.get("rounds") or 1))
    path = await service.artifacts.log(run.id) / EVENTS
    known = (await asyncio.to_thread(read_lines, path, None, 0))[0]
    after = (known[0] if known is not None else 0) - 1
    try:
        async with asyncio.timeout(seconds):
            async with aclosing(service.follow(identity, run, after)) as heard:
                async for told in heard:
                    await progress.told(told)
    except TimeoutError:
        return


def _progress(kind: str, data: dict[str, Any]) -> tuple[float, str] | None:
    """How far a run is with this event, and what it says; none for what is not worth a report."""
    at = float(data.get("round") or 0)
    name = f"round {data.get('round')}"
    match kind:
        case "status":
            if data["status"] not in ("queued", "running"):
                return None
            position = data.get("queue_position")
            if data["status"] == "queued" and position:
                return 0.0, f"waiting, {position} runs before it"
            return 0.0, str(data["status"])
        case "planned":
            return at, f"{name}: {data['does']}"
        case "step":
            reference = data["purpose"] == "reference"
            shown = "a reference" if reference else "the picture"
            share = 0.3 * data["step"] / max(1, data["of"])
            step = f"step {data['step']} of {data['of']}"
            return at + (0.0 if reference else 0.3) + share, f"{name}: drawing {shown}, {step}"
        case "retrying":
            return max(0.0, at), f"{data['model']}: attempt {data['attempt']} failed, asked again"
        case "generated":
            reference = data["purpose"] == "reference"
            shown = "the reference" if reference else "the picture"
            return at + (0.3 if reference else 0.6), f"{name}: {shown} is drawn"
        case "judged" if data["role"] == "loop":
            verdicts = data["card"]["verdicts"]
            found = sum(verdict["state"] == "yes" for verdict in verdicts)
            return at + 0.9, f"{name}: {found} of {len(verdicts)} facts found"
        case "finished":
            return at, f"finished: {data['reason']}"
    return None
