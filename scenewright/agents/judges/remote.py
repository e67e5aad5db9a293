"""Judges over chat models: a sheet of questions, answered by its schema, over a model's client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PIL import Image

from scenewright.agents.judges.calling import (
    Attempt,
    CallingJudge,
    Numbered,
    Pictures,
    Sizes,
    chunks,
)
from scenewright.agents.judges.models import ModelCaps, caps_of
from scenewright.agents.judges.pictures import (
    answer_tokens,
    character_tokens,
    image_tokens,
    prepare,
)
from scenewright.agents.judges.reading import READING, FactReading, read_parts
from scenewright.agents.judges.sheet import (
    MAX_OPTIONS,
    PAIR_PROMPT,
    SHEET_PROMPT,
    TOOL,
    Sheet,
    sheet_instructions,
    sheet_of,
)
from scenewright.config.accounts import missing_key
from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import JudgeError, unscored
from scenewright.prompts import load_prompt
from scenewright.providers.caller import Caller
from scenewright.providers.clients.base import (
    Completion,
    CompletionRequest,
    Message,
    OutputSchema,
    Picture,
)
from scenewright.providers.clients.client import ModelClient, attempts, make_client
from scenewright.providers.usage import ExpectedUsage, Usage

FIRST, SECOND, NEITHER = "the first image", "the second image", "neither is better"
OPTIONS = (FIRST, SECOND, NEITHER)
WANTED = " Wanted: "
"""Prefix of the expected answer in a question that is not answered by yes."""


def pair_fact(fact: Fact) -> Fact:
    """Return ``fact`` as a question about two pictures, with :data:`OPTIONS`."""
    wanted = "" if fact.is_binary else f"{WANTED}{fact.expected}."
    return fact.model_copy(
        update={"question": f"{fact.question}{wanted}", "options": OPTIONS, "expected": FIRST}
    )


class RemoteJudge(CallingJudge[ModelClient[Any], ModelCaps]):
    """Implements :class:`~scenewright.core.ports.judge.Judge` over a chat model's client."""

    prompt = SHEET_PROMPT

    def _settings(self) -> Mapping[str, object]:
        caps = self._model_caps
        # Only where they are sent: judges without them keep their fingerprint.
        sent = {name: getattr(caps, name) for name in ("reasoning_effort", "media_resolution")}
        return {
            "api": caps.api,
            "prompt": load_prompt(SHEET_PROMPT).hash,
            "sheet": [sheet_instructions(caps.reasons), caps.stems],
            "tool": TOOL,
            "structured": [caps.structured, caps.strict, caps.logprobs],
            "sampling": caps.sampling,
            "max_output_tokens": caps.max_output_tokens,
            "facts_per_call": caps.facts_per_call,
            "reading": READING,
            **{name: value for name, value in sent.items() if value},
        }

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
        prompt = PAIR_PROMPT if pictures > 1 else SHEET_PROMPT
        return sheet_of(facts, reasons=caps.reasons, stems=caps.stems, prompt=prompt)

    def _usage(self, sizes: Sizes, facts: Sequence[Fact]) -> Usage:
        caps = self._model_caps
        shown = (caps.preparation.shown_size(size) for size in sizes)
        seen = sum(image_tokens(caps.image_tokens, *size) for size in shown)
        text = character_tokens(self._sheet(facts, len(sizes)).characters)
        return Usage(seen + text, answer_tokens(len(facts)))

    async def answer_pair(
        self, first: Image.Image, second: Image.Image, facts: Sequence[Fact]
    ) -> list[Answer]:
        """Return one answer about two images per fact, in order: one of :data:`OPTIONS`."""
        if self._model_caps.images_per_call < 2:
            return unscored(self.id, facts, f"{self.id} takes one image a call")
        found = await self._answers((first, second), [pair_fact(fact) for fact in facts])
        prompt = load_prompt(PAIR_PROMPT).ref
        return [answer.model_copy(update={"prompt_id": prompt}) for answer in found]

    def _attempt(self, pictures: Pictures, facts: Sequence[Fact]) -> Attempt:
        sheet = self._sheet(facts, len(pictures))
        caps = self._model_caps

        async def build() -> CompletionRequest:
            # Encode only now: thousands of queued calls need no encoded image.
            shown = [await prepare(picture, caps.preparation) for picture in pictures]
            files = (Picture(one.data, one.media_type) for one in shown)
            return CompletionRequest(
                (Message("system", (sheet.instructions,)), Message("user", (*files, sheet.text))),
                OutputSchema(TOOL, sheet.schema),
                # Further questions about one picture should meet the server that has read it.
                cache_key=shown[0].key if caps.prompt_cache else "",
            )

        def read(reply: Completion) -> tuple[list[FactReading], str]:
            return read_parts(reply, sheet), reply.model

        return attempts(self._client, build, read)


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
    the table of facts says. The provider's library is imported here. Raises ``JudgeError`` for a
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
    client = make_client(provider, model, caps, api_key=key, base_url=base_url)
    # Another server's models are not the provider's, whatever they are called.
    priced_as = provider if base_url is None else ""
    return RemoteJudge(client, caller, caps, account=name or "", priced_as=priced_as)
