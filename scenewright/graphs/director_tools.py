"""The director's tools, the same as LangChain tools, and the storing of replies and calls.

Each tool is an asynchronous method with one pydantic model as its argument; it returns a
:class:`ToolReply` or raises :class:`ToolError`. Replies of the language model are stored so that
they can be played again.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool, ToolException
from PIL import Image
from pydantic import ValidationError

from scenewright.config.profiles import DIRECTOR
from scenewright.core.facts import missing_graph
from scenewright.core.images import hash_of_image
from scenewright.core.layout import mask_of
from scenewright.core.ports.backend import BackendError, BackendFeatures, Start
from scenewright.core.scene import SceneGraph
from scenewright.graphs.director_record import ACCEPT, DirectorRecord, left_of, next_round, short
from scenewright.graphs.drawing import compose, draw
from scenewright.graphs.events import Planned, Purpose
from scenewright.graphs.record import plan_key
from scenewright.graphs.round_context import make_round_context
from scenewright.graphs.state import emit
from scenewright.graphs.strategies.base import GenerationOverrides
from scenewright.graphs.strategies.feedback import Feedback
from scenewright.providers import ask
from scenewright.providers.sdk_clients import paying
from scenewright.providers.usage import Usage
from scenewright.tools.director import (
    Accept,
    Arguments,
    GenerateImage,
    Inpaint,
    Look,
    RefineWithReference,
    ToolError,
    ToolReply,
    VerifyFacts,
    card_in_short,
    content_of,
    preview,
    preview_of,
    region_of_box,
    view_of,
    wrong_arguments,
)

_DECLINED = ("refusal", "content_filter", "safety", "prohibited_content", "blocklist")
"""Providers' words for why a reply ended, where they mean that it was declined."""
_ENDINGS = ("stop", "stop_reason", "finish_reason")
"""Place where LangChain's chat models keep them."""
_DRAWN_ID = "lc_"


def storable_json(value: Any) -> Any:
    """Return ``value`` as JSON that can be written and read again.

    Without halves of characters, without numbers that are none.
    """
    match value:
        case str():
            # A lone surrogate, as from a cut JSON escape, has no UTF-8.
            return value.encode("utf-8", "replace").decode("utf-8")
        case float():
            return value if math.isfinite(value) else str(value)
        case dict():
            return {storable_json(str(key)): storable_json(inner) for key, inner in value.items()}
        case list() | tuple():
            return [storable_json(inner) for inner in value]
        case None | bool() | int():
            return value
    return str(value)


def refusal_of(message: AIMessage) -> str:
    """Why the model or its provider declined to go on, in words; empty if neither did."""
    said = message.additional_kwargs.get("refusal")
    if said:
        return str(said)
    if message.tool_calls:
        return ""
    for name in _ENDINGS:
        ended = message.response_metadata.get(name)
        if isinstance(ended, str) and ended.lower() in _DECLINED:
            return str(message.text).strip() or f"the language model declined ({ended})"
    return ""


def storable(message: AIMessage, turn: int) -> dict[str, Any]:
    """``message`` as JSON data from which it can be made again.

    Every call gets an id of its own where some have none or share one; an id that LangChain drew
    for the message goes.
    """
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    ids = [call.get("id") for call in calls]
    if not all(ids) or len(set(ids)) < len(ids):
        named: list[Any] = [{**call, "id": f"call_{turn}_{at}"} for at, call in enumerate(calls)]
        count = len(message.tool_calls)
        changes = {"tool_calls": named[:count], "invalid_tool_calls": named[count:]}
        message = message.model_copy(update=changes)
    if message.id is not None and message.id.startswith(_DRAWN_ID):
        message = message.model_copy(update={"id": None})
    data: dict[str, Any] = storable_json(message.model_dump(mode="json", exclude_none=True))
    return data


class DirectorToolset(DirectorRecord):
    """The tools of one run, and what they show."""

    async def generate_image(self, given: GenerateImage) -> ToolReply:
        """Return a new picture of the whole scene."""
        self.room(1)
        words = given.prompt.strip()
        does = f"draws from other words: {short(words)}" if words else "draws the scene again"
        round = self._begin(does, given.why)
        return await self._draw(round, GenerationOverrides(prompt=words or None) if words else None)

    async def refine_with_reference(self, given: RefineWithReference) -> ToolReply:
        """Return a new picture, led by the best one and by one of what it lacks (Eq. 5)."""
        if not self.context.backend.features.references:
            raise ToolError("this backend takes no reference images: draw or inpaint instead")
        best = await self.best_of_all()
        weights = {"weight_best": given.weight_best, "weight_missing": given.weight_missing}
        changed = {name: value for name, value in weights.items() if value is not None}
        context = self.context
        options = context.options.model_copy(update=changed)
        card = context.record.card(best.round)
        wanted = self.named(given.facts) or self.facts
        missing = missing_graph(self.scene, wanted, card.verdicts)
        if not missing:
            raise ToolError(
                f"nothing of that is known to be missing in r{best.round}: name missing facts, "
                "or accept it"
            )
        round = next_round(self.past)
        await compose(self.scene, None, 0, "candidate", self.runtime)
        round_context = make_round_context(self.scene, best, round, context, options, missing)
        repair_plan = Feedback().plan_repair(round_context)
        self.room(1 if repair_plan.reference is None else 2)
        self._begin(repair_plan.does, given.why, repair_plan.reference)
        shows = None
        if repair_plan.reference is not None:
            words = await compose(
                repair_plan.reference, self.scene, round, "reference", self.runtime
            )
            shows = await self._drawn(words, round, "reference", None)
        return await self._draw(round, Feedback().redraw(round_context, repair_plan, shows))

    async def inpaint(self, given: Inpaint) -> ToolReply:
        """Return a new picture that differs from an older one in a part of it."""
        features = self.context.backend.features
        if not features.edit:
            raise ToolError("this backend cannot keep a part of a picture: draw anew instead")
        if not given.box:
            raise ToolError("box is empty: give [left, top, right, bottom], each from 0 to 1")
        region = region_of_box(given.box)
        if given.image == "best":
            await self.best_of_all()
        base = self.candidate(given.image)
        self.room(1)
        images = self.context.images
        size = (await asyncio.to_thread(images.get, base.image)).size
        mask = await asyncio.to_thread(images.put, mask_of([region], size))
        start = Start(
            image=base.image,
            strength=given.strength if features.strengths else 1.0,
            mask=mask,
        )
        words = given.prompt.strip()
        box = ", ".join(f"{share:g}" for share in given.box)
        does = f"draws the part [{box}] of round {base.round} again"
        if words:
            does += f" from other words: {short(words)}"
        round = self._begin(does, given.why)
        return await self._draw(round, GenerationOverrides(start=start, prompt=words or None))

    async def verify_facts(self, given: VerifyFacts) -> ToolReply:
        """Return the verdicts of the loop's judges on a candidate.

        Each candidate is judged once.
        """
        only = {fact.id for fact in self.named(given.facts)}
        candidate = self.candidate(given.image)
        await self.judge(candidate)
        best = self.best()
        card = card_in_short(self.context.record.card(candidate.round), self.facts, only)
        return self._reply(
            {
                "image": f"r{candidate.round}",
                **card,
                "best": None if best is None else f"r{best.round}",
            }
        )

    async def look(self, given: Look) -> ToolReply:
        """Return a closer look at any picture of the run, and one judge's answer to a question."""
        name, image = self.picture(given.image)
        picture = await asyncio.to_thread(self.context.images.get, image)
        view = await asyncio.to_thread(view_of, picture, given)
        told: dict[str, Any] = {"image": name}
        if given.box:
            told["box"] = list(given.box)
        if given.question.strip():
            told |= await self._ask(picture, view, given)
        small = await asyncio.to_thread(preview_of, picture, given)
        return self._reply(told, small)

    async def accept(self, given: Accept) -> ToolReply:
        """Keep a candidate; ``ToolError`` for one that is worse than the best."""
        best = await self.best_of_all()
        chosen = self.candidate(given.image)
        card, most = self.context.record.card(chosen.round), self.context.record.card(best.round)
        if chosen != best:
            lost = {v.fact_id for v in most.verdicts if v.state == "yes"}
            lost -= {v.fact_id for v in card.verdicts if v.state == "yes"}
            silent = _unscored(card) - _unscored(most)
            if card.rank != most.rank or silent:
                held = "; ".join(f.statement for f in self.facts if f.id in lost)
                raise ToolError(
                    f"r{chosen.round} is worse than r{best.round}: score "
                    f"{_number(card.sgscore)} against {_number(most.sgscore)}"
                    + (f"; only r{best.round} holds: {short(held)}" if held else "")
                    + f". Accept r{best.round}, or repair it"
                )
        return self._reply({"image": f"r{chosen.round}", "accepted": True})

    def show(self, tool: str, arguments: dict[str, Any], told: dict[str, Any]) -> Image.Image:
        """Return the picture that goes with what ``tool`` told, as it went the first time.

        Raises ``LookupError`` for a tool that shows none.
        """
        if tool not in ("look", "generate_image", "refine_with_reference", "inpaint"):
            raise LookupError(tool)
        picture = self.context.images.get(self.stored(str(told["image"])))
        if tool == "look":
            return preview_of(picture, Look.model_validate(arguments))
        return preview(picture)

    def _reply(self, told: dict[str, Any], picture: Image.Image | None = None) -> ToolReply:
        left = left_of(self.context, self.past)
        calls = left["calls"]
        # The call at work is not told yet.
        left["calls"] = max(0, calls - 1) if calls is not None else None
        return ToolReply(told | {"left": left}, picture)

    def _begin(self, does: str, why: str, reference: SceneGraph | None = None) -> int:
        """Return the number of the next round, its plan told."""
        round = next_round(self.past)
        if round:
            plan = Planned(
                key=plan_key(round),
                at=self.context.log.now(),
                round=round,
                strategy=DIRECTOR,
                does=does,
                why=why.strip() or self.said or "the director chose it",
                reference=reference,
            )
            emit(self.runtime, plan)
        return round

    async def _draw(self, round: int, redrawn: GenerationOverrides | None) -> ToolReply:
        prompt = await compose(self.scene, None, 0, "candidate", self.runtime)
        image = await self._drawn(prompt, round, "candidate", redrawn)
        event = self.context.record.image(round, "candidate")
        assert event is not None
        picture = await asyncio.to_thread(self.context.images.get, image)
        left = left_of(self.context, self.context.record)
        left["calls"] = max(0, (left["calls"] or 0) - 1)
        told = {"image": f"r{round}", "prompt": event.request.prompt, "left": left}
        return ToolReply(told, preview(picture))

    async def _drawn(
        self, prompt: str, round: int, purpose: Purpose, redrawn: GenerationOverrides | None
    ) -> str:
        try:
            return await draw(prompt, round, purpose, redrawn, self.runtime)
        except BackendError as error:
            raise ToolError(f"the backend did not draw it: {error}") from error

    async def _ask(self, picture: Image.Image, view: Image.Image, given: Look) -> dict[str, Any]:
        judge = self.context.loop_judges[0]
        name = await asyncio.to_thread(hash_of_image, view)
        with paying(self.context.nonce, self.origin):
            asked = await ask(
                judge,
                name,
                view,
                [given.fact()],
                store=self.context.answers,
                limit=self.context.judge_timeout,
                origin=self.origin,
                part_of=picture,
            )
        (answer,) = asked.answers
        self.asked = self.asked + Usage(answer.tokens_in, answer.tokens_out)
        self.asked_usd += answer.usd
        told: dict[str, Any] = {"question": given.question, "judge": judge.id}
        if answer.state == "unscored":
            return told | {"answer": None, "reason": short(answer.reason)}
        told["answer"] = answer.choice
        if answer.probability is not None:
            told["probability"] = {given.options[0]: round(answer.probability, 3)}
        return told


def _unscored(card: Any) -> set[str]:
    return {verdict.fact_id for verdict in card.verdicts if verdict.state == "unscored"}


def _number(score: float | None) -> str:
    return "unknown" if score is None else f"{score:.3f}"


@dataclass(frozen=True, slots=True)
class DirectorTool:
    """A tool of the director, ready to be offered in any form."""

    name: str
    """Name."""
    about: str
    """Description for a language model."""
    arguments: type[Arguments]
    """Type of its arguments."""
    use: Callable[[Any], Awaitable[ToolReply]]
    """Does it; raises ``ToolError``."""


def available_tools(toolset: DirectorToolset) -> list[DirectorTool]:
    """Return the tools that the backend of the run can serve."""
    features = toolset.context.backend.features
    every: list[tuple[str, type[Arguments], Callable[[Any], Awaitable[ToolReply]]]] = [
        ("generate_image", GenerateImage, toolset.generate_image),
        ("verify_facts", VerifyFacts, toolset.verify_facts),
        ("look", Look, toolset.look),
        ("refine_with_reference", RefineWithReference, toolset.refine_with_reference),
        ("inpaint", Inpaint, toolset.inpaint),
        (ACCEPT, Accept, toolset.accept),
    ]
    return [
        DirectorTool(name, inspect.cleandoc(arguments.__doc__ or ""), arguments, use)
        for name, arguments, use in every
        if unsupported_tool_reason(name, features) is None
    ]


def unsupported_tool_reason(name: str, features: BackendFeatures) -> str | None:
    """Why a backend cannot serve the tool of that name; None if it can."""
    if name == "refine_with_reference" and not features.references:
        return "the backend takes no reference images"
    if name == "inpaint" and not features.edit:
        return "the backend cannot keep a part of a picture"
    return None


def langchain_tool(tool: DirectorTool, previews: bool = True) -> StructuredTool:
    """``tool`` for LangChain: its content is the reply's JSON and, with ``previews``, the picture.

    What it could not do is told as the content of a message with the status ``error``.
    """

    async def used(**given: Any) -> Any:
        try:
            reply = await tool.use(tool.arguments.model_validate(given))
        except ToolError as error:
            raise ToolException(str(error)) from error
        return content_of(reply.text, reply.picture if previews else None)

    def told(error: ValidationError | Any) -> str:
        return wrong_arguments(tool.name, error)

    return StructuredTool.from_function(
        coroutine=used,
        name=tool.name,
        description=tool.about,
        args_schema=tool.arguments,
        infer_schema=False,
        handle_tool_error=True,
        handle_validation_error=told,
    )


def replayed_content(
    toolset: DirectorToolset,
    tool: str,
    arguments: dict[str, Any],
    outcome: str,
    previews: bool = True,
) -> Any:
    """Return the message content in which ``tool`` reported ``outcome``, its picture included."""
    if not previews:
        return outcome
    try:
        picture = toolset.show(tool, arguments, json.loads(outcome))
    except LookupError:
        return outcome
    return content_of(outcome, picture)
