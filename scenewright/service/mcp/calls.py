"""The context of a tool's call, and the wait for a run with reports of its progress."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from mcp.types import CallToolResult

from scenewright.core.facts import is_stated
from scenewright.runs.folder import EVENTS
from scenewright.service.core.errors import NotFound
from scenewright.service.core.event_broadcast import read_lines
from scenewright.service.core.identity import Identity
from scenewright.service.core.service import Service
from scenewright.service.core.store import Run
from scenewright.service.mcp.agent_sessions import AgentSessions
from scenewright.service.mcp.replies import RunStatus, links_of, reply, run_reply, small

Report = Callable[[float, float | None, str], Awaitable[None]]
"""Report to a client: how far, of how much, in words."""

_LEAST = 0.001
"""Least progress between two reports: MCP wants the number to rise."""


async def watch(
    service: Service, identity: Identity, run: Run, report: Report, seconds: float
) -> None:
    """Report progress in rounds until ``run`` stands still, or ``seconds`` are over."""
    if seconds <= 0:
        return
    rounds = float(run.request.get("rounds") or 1)
    at, text = 0.0, "waiting"
    path = await service.artifacts.log(run.id) / EVENTS
    known = (await asyncio.to_thread(read_lines, path, None, 0))[0]
    after = (known[0] if known is not None else 0) - 1
    try:
        async with asyncio.timeout(seconds):
            async with aclosing(service.follow(identity, run, after)) as events:
                async for event in events:
                    reached = at
                    if event is not None:
                        found = _progress(event.kind, json.loads(event.data))
                        if found is None:
                            continue
                        reached, text = found
                        if event.kind == "finished":
                            reached = rounds
                    at = max(at + _LEAST, reached)
                    await report(at, max(rounds, at), text)
    except TimeoutError:
        return


_DRAWN_NOW = {"reference": "a reference", "draft": "drafts", "proposal": "proposals"}
"""Names of the drawing in a step, by purpose."""
_DRAWN = {"reference": "the reference", "draft": "a draft", "proposal": "a proposal"}
"""Names of the drawn image, by purpose."""


def _progress(kind: str, data: dict[str, Any]) -> tuple[float, str] | None:
    """Return the progress in rounds after an event, and its words; None if it is not reported."""
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
            reference = data["purpose"] != "candidate"
            shown = _DRAWN_NOW.get(data["purpose"], "the picture")
            share = 0.3 * data["step"] / max(1, data["of"])
            step = f"step {data['step']} of {data['of']}"
            return at + (0.0 if reference else 0.3) + share, f"{name}: drawing {shown}, {step}"
        case "retrying":
            return max(0.0, at), f"{data['model']}: attempt {data['attempt']} failed, asked again"
        case "generated":
            reference = data["purpose"] != "candidate"
            shown = _DRAWN.get(data["purpose"], "the picture")
            return at + (0.3 if reference else 0.6), f"{name}: {shown} is drawn"
        case "proposed":
            wins = sum(one["wins"] for one in data["proposals"])
            judged = f"{wins} of {len(data['proposals'])} proposals may be pasted"
            return at + 0.4, f"{name}: {judged}"
        case "selected":
            gained, lost = len(data["gained"]), len(data["lost"])
            pasted = f"{len(data['winners'])} proposals are pasted"
            return at + 0.6, f"{name}: {pasted}, facts gained {gained}, lost {lost}"
        case "judged" if data["role"] == "loop":
            verdicts = [one for one in data["card"]["verdicts"] if is_stated(one["fact_id"])]
            found = sum(verdict["state"] == "yes" for verdict in verdicts)
            return at + 0.9, f"{name}: {found} of {len(verdicts)} facts found"
        case "finished":
            return at, f"finished: {data['reason']}"
    return None


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool."""

    service: Service
    """The core."""
    sessions: AgentSessions
    """The runs that agents have open."""
    identity: Identity
    """The caller; its scope for the tool was checked."""
    report: Report
    """Report to the client how far it is."""

    async def run(self, run: str) -> Run:
        """Return the caller's run of that id; ``NotFound`` otherwise."""
        return await self.service.run(self.identity, run)

    async def wait(self, run: Run, seconds: float) -> Run:
        """Return the run once it stands still, or after ``seconds``; reported meanwhile."""
        await watch(self.service, self.identity, run, self.report, seconds)
        return await self.run(run.id)

    async def status(self, run: Run, round: int | None = None) -> RunStatus:
        """Return the run as tools tell of it.

        ``NotFound`` if there is no such round.
        """
        result = await self.service.result(run)
        position = await self.service.store.position(run)
        warnings = await self.service.warnings(run, result)
        try:
            return await asyncio.to_thread(run_reply, run, result, position, round, warnings)
        except LookupError as error:
            raise NotFound(str(error.args[0])) from error

    async def reply(self, run: Run, round: int | None = None) -> CallToolResult:
        """Return the run with a small picture of the round and links to the whole ones."""
        status = await self.status(run, round)
        return reply(status, await self.preview(status), links_of(status))

    async def preview(self, status: RunStatus) -> str | None:
        """Return the picture of ``status`` as a small JPEG in base64."""
        image = None if status.image is None else status.image.rpartition("/")[2]
        if image is None:
            return None
        return await asyncio.to_thread(small, await self.service.artifacts.image(status.run, image))
