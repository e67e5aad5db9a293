"""Judges behind a provider's API: one image, a sheet of questions, one call for many facts.

A :class:`Wire` speaks a provider's format: a pure ``build``, one await, a pure ``read``.

Pairwise judging asks which of two images shows a fact better. Judges prefer positions, so every
pair is asked twice, the second time with the images exchanged: what both answers agree on counts,
what changes with the order is a tie and marked as not steady (Zheng et al., 2023, "Judging
LLM-as-a-Judge with MT-Bench and Chatbot Arena", section 3.4, conservative handling of position
bias).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, runtime_checkable

from PIL import Image

from scenewright.agents.judges.calling import (
    Attempt,
    CallingJudge,
    Endpoint,
    Numbered,
    Pictures,
    Sizes,
    chunks,
    place_of,
)
from scenewright.agents.judges.models import ModelCaps, caps_of
from scenewright.agents.judges.pictures import (
    PreparedImage,
    answer_tokens,
    character_tokens,
    image_tokens,
    prepare,
)
from scenewright.agents.judges.reading import READING, FactReading, Reading, read_parts
from scenewright.agents.judges.sheet import (
    MAX_OPTIONS,
    PAIR_PROMPT,
    SHEET_PROMPT,
    TOOL,
    Sheet,
    of_two,
    sheet_instructions,
    sheet_of,
)
from scenewright.config.accounts import missing_key
from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import JudgeError, unscored
from scenewright.prompts import load_prompt
from scenewright.providers.caller import Caller
from scenewright.providers.usage import ExpectedUsage, Reply, Usage

FIRST, SECOND, NEITHER = "the first image", "the second image", "neither is better"
OPTIONS = (FIRST, SECOND, NEITHER)
WANTED = " Wanted: "
"""Prefix of the expected answer in a question that is not answered by yes."""

Preference = Literal["first", "second", "tie", "unscored"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One judge's comparison of two images by one fact."""

    fact_id: str
    """The fact."""
    judge_id: str
    """The judge."""
    preferred: Preference
    """Preferred image; a tie also where the answer depended on the order."""
    probability: float | None
    """Probability that the first image is better, ties half, mean of both orders; None if unscored.
    """
    steady: bool | None
    """Whether both orders agreed; None if unscored."""
    reason: str = ""
    """Why it is unscored."""
    answers: tuple[Answer, ...] = ()
    """Answers in the given and the exchanged order, with their usage."""


@runtime_checkable
class ComparingJudge(Protocol):
    """A judge that can compare two images."""

    @property
    def id(self) -> str:
        """``provider:model``."""
        ...

    async def answer_pair(
        self, first: Image.Image, second: Image.Image, facts: Sequence[Fact]
    ) -> list[Answer]:
        """Return one answer per fact, in order: one of :data:`OPTIONS`."""
        ...


async def compare(
    judge: ComparingJudge, first: Image.Image, second: Image.Image, facts: Sequence[Fact]
) -> list[Comparison]:
    """Compare two images by each of ``facts``, in both orders at once.

    One comparison per fact, in order. A fact that one of the two calls does not answer is unscored
    with its reason.
    """
    if not facts:
        return []
    given, exchanged = await asyncio.gather(
        judge.answer_pair(first, second, facts), judge.answer_pair(second, first, facts)
    )
    return [_compared(*both) for both in zip(facts, given, exchanged, strict=True)]


def pair_fact(fact: Fact) -> Fact:
    """Return ``fact`` as a question about two pictures, with :data:`OPTIONS`."""
    wanted = "" if fact.is_binary else f"{WANTED}{fact.expected}."
    return fact.model_copy(
        update={"question": f"{fact.question}{wanted}", "options": OPTIONS, "expected": FIRST}
    )


def _compared(fact: Fact, given: Answer, exchanged: Answer) -> Comparison:
    both = (given, exchanged)
    lost = next((answer for answer in both if answer.choice is None), None)
    if lost is not None:
        return Comparison(
            fact.id, given.judge_id, "unscored", None, None, lost.reason or "no answer", both
        )
    sides = (_side(given, FIRST, SECOND), _side(exchanged, SECOND, FIRST))
    steady = sides[0] == sides[1]
    shares = (_share(given, FIRST, SECOND), _share(exchanged, SECOND, FIRST))
    return Comparison(
        fact_id=fact.id,
        judge_id=given.judge_id,
        preferred=sides[0] if steady else "tie",
        probability=sum(shares) / 2,
        steady=steady,
        answers=both,
    )


def _side(answer: Answer, first: str, second: str) -> Literal["first", "second", "tie"]:
    if answer.choice == first:
        return "first"
    return "second" if answer.choice == second else "tie"


def _share(answer: Answer, first: str, second: str) -> float:
    """Return the probability that the image called ``first`` in this order is better, ties half."""
    if answer.distribution is not None:
        chances = answer.distribution
        return chances.get(first, 0.0) + chances.get(NEITHER, 0.0) / 2
    return {first: 1.0, second: 0.0}.get(answer.choice or "", 0.5)


class Wire(Endpoint, Protocol):
    """Wire format of one provider's judges."""

    def build(
        self, picture: PreparedImage, sheet: Sheet, second: PreparedImage | None = None
    ) -> Any:
        """Build the request as data; ``second``: an image to compare with. Pure."""
        ...

    async def send(self, request: Any) -> Any:
        """Make one attempt and return the provider's response.

        Raises what its SDK raises.
        """
        ...

    def read(self, response: Any) -> Reading:
        """Convert the response from its wire format. Pure.

        Raises ``UnusableReply`` for a refusal or an empty reply, ``MalformedReply`` for a response
        outside the format.
        """
        ...


class RemoteJudge(CallingJudge[Wire, ModelCaps]):
    """Implements :class:`~scenewright.core.ports.judge.Judge` over a :class:`Wire`."""

    prompt = SHEET_PROMPT

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of model, place, prompt, schema, image preparation and settings."""
        caps = self._model_caps
        parts = {
            "provider": self._wire.provider,
            "model": self._wire.model,
            "place": place_of(self._wire.base_url),
            "api": caps.api,
            "prompt": load_prompt(SHEET_PROMPT).hash,
            "sheet": [sheet_instructions(caps.reasons), caps.stems],
            "tool": TOOL,
            "preparation": asdict(caps.preparation),
            "structured": [caps.structured, caps.strict, caps.logprobs],
            "sampling": caps.sampling,
            "max_output_tokens": caps.max_output_tokens,
            "facts_per_call": caps.facts_per_call,
            "reading": READING,
        }
        # Only where they are sent: judges without them keep their fingerprint.
        for name in ("reasoning_effort", "media_resolution"):
            if sent := getattr(caps, name):
                parts[name] = sent
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def expected_pair(self, sizes: Sizes, facts: Sequence[Fact]) -> ExpectedUsage:
        """Return the expected usage of comparing two images, in both orders; no call."""
        once = self._expected(sizes, [pair_fact(fact) for fact in facts])
        return once + once

    def _unaskable(self, fact: Fact) -> str:
        if fact.is_binary or len(fact.options) <= MAX_OPTIONS:
            return ""
        return f"{len(fact.options)} options: offer at most {MAX_OPTIONS}"

    def _chunks(self, todo: Sequence[Numbered]) -> list[Sequence[Numbered]]:
        return chunks(todo, self._model_caps.facts_per_call)

    def _sheet(self, facts: Sequence[Fact], pictures: int) -> Sheet:
        caps = self._model_caps
        sheet = sheet_of(facts, reasons=caps.reasons, stems=caps.stems)
        return of_two(sheet) if pictures > 1 else sheet

    def _usage(self, sizes: Sizes, facts: Sequence[Fact]) -> Usage:
        caps = self._model_caps
        shown = (caps.preparation.shown_size(size) for size in sizes)
        seen = sum(image_tokens(caps.image_tokens, *size) for size in shown)
        text = character_tokens(self._sheet(facts, len(sizes)).characters)
        return Usage(seen + text, answer_tokens(len(facts)))

    async def answer_pair(
        self, first: Image.Image, second: Image.Image, facts: Sequence[Fact]
    ) -> list[Answer]:
        """Answer about two images; see :class:`ComparingJudge`."""
        if self._model_caps.images_per_call < 2:
            return unscored(self.id, facts, f"{self.id} takes one image a call")
        found = await self._answers((first, second), [pair_fact(fact) for fact in facts])
        prompt = load_prompt(PAIR_PROMPT).ref
        return [answer.model_copy(update={"prompt_id": prompt}) for answer in found]

    def _attempt(self, pictures: Pictures, facts: Sequence[Fact]) -> Attempt:
        sheet = self._sheet(facts, len(pictures))
        preparation = self._model_caps.preparation

        async def attempt() -> Reply[tuple[list[FactReading], str]]:
            # Encode only now: thousands of queued calls need no encoded image.
            first, *rest = [await prepare(picture, preparation) for picture in pictures]
            request = self._wire.build(first, sheet, *rest)
            reading = self._wire.read(await self._wire.send(request))
            parts = read_parts(reading, sheet)
            return Reply((parts, reading.model), reading.usage, reading.request_id)

        return attempt


def remote_judge(
    provider: str,
    model: str,
    caller: Caller,
    *,
    api_key: str | None,
    base_url: str | None = None,
    name: str | None = None,
    overrides: Mapping[str, object] | None = None,
) -> RemoteJudge:
    """Return a judge ``provider:model``, of ``openai``, ``gemini`` or ``anthropic``.

    ``base_url``: a server that speaks the provider's protocol, instead of the provider's own
    (vLLM, Ollama, OpenRouter, the mock). ``name``: the account, in place of the provider in the
    judge's id. ``overrides``: keys of :class:`~.models.ModelCaps`, in place of what
    ``models.toml`` says. The provider's library is imported here. Raises ``JudgeError`` for a
    missing key, an unknown provider or a setting that cannot be.
    """
    caps = caps_of(provider, model, overrides)
    if not caps.pictures:
        raise JudgeError(
            f"{provider}:{model} sees no pictures (pictures = false in its account): no judge"
        )
    key = (api_key or "").strip()
    if not key:
        raise JudgeError(missing_key(provider, name))
    wire: Wire
    if provider == "openai":
        from scenewright.agents.judges.openai import OpenAIWire

        wire = OpenAIWire(model, caps, api_key=key, base_url=base_url)
    elif provider == "gemini":
        from scenewright.agents.judges.gemini import GeminiWire

        wire = GeminiWire(model, caps, api_key=key, base_url=base_url)
    else:
        from scenewright.agents.judges.anthropic import AnthropicWire

        wire = AnthropicWire(model, caps, api_key=key, base_url=base_url)
    # Another server's models are not the provider's, whatever they are called.
    priced_as = provider if base_url is None else ""
    return RemoteJudge(wire, caller, caps, account=name or "", priced_as=priced_as)
