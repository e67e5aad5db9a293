"""Judges behind a provider's API: facts of one image in as few calls as possible.

:class:`CallingJudge` makes the calls and shares their costs among the facts; limits, time,
repetitions and usage are the :class:`~scenewright.providers.caller.Caller`'s. A judge is a pure
build of a request, one await and a pure reading of the reply. :class:`RemoteJudge` asks a chat
model: a sheet of questions, answered by its schema.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from itertools import islice
from typing import Any, Generic, TypeVar

from PIL import Image

from scenewright.agents.judges.models import ModelCaps, caps_of
from scenewright.agents.judges.pictures import (
    PictureCaps,
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
from scenewright.core.error_text import error_text
from scenewright.core.facts import Answer, Fact
from scenewright.core.images import ImageError
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
from scenewright.providers.clients.client import (
    ModelClient,
    ProviderClient,
    attempts,
    make_client,
)
from scenewright.providers.judge_calls import spread, with_costs, with_totals
from scenewright.providers.retry import CallError, Decision, PermanentError
from scenewright.providers.usage import ExpectedUsage, Reply, Usage

Numbered = tuple[int, Fact]
"""A fact and its index among the asked facts."""
Pictures = tuple[Image.Image, ...]
"""Shown images: one, or two to compare."""
Sizes = Sequence[tuple[int, int]]
"""Widths and heights in pixels of the shown images."""


ClientT = TypeVar("ClientT", bound=ProviderClient[Any])
CapsT = TypeVar("CapsT", bound=PictureCaps)
Attempt = Callable[[], Awaitable[Reply[tuple[list[FactReading], str]]]]
"""Makes one attempt: returns a part per fact, in order, and the served model."""


class CallingJudge(ABC, Generic[ClientT, CapsT]):
    """Implements :class:`~scenewright.core.ports.judge.Judge`.

    Facts are asked in as few calls as :meth:`_chunks` makes of them, all at once. A fact that a
    call leaves without a usable answer while it answers others is asked once more, unless its part
    is final.
    """

    prompt: str
    """Id of the prompt file, for the answers."""

    def __init__(
        self, client: ClientT, caller: Caller, caps: CapsT, *, account: str, priced_as: str
    ) -> None:
        """Set up the judge for ``client`` and ``caller``.

        ``account``: prefix of the judge's id (default: the provider); ``priced_as``: prefix in the
        table of prices (default: the same). The judge closes its client, but not the ``caller``,
        which judges of one account share.
        """
        self._client = client
        self._caller = caller
        self._model_caps = caps
        self.caps = caps.judge_caps
        """Abilities."""
        self._account = account or client.provider
        self.id = f"{self._account}:{client.model}"
        """``provider:model``, or ``account:model`` where the account has a name."""
        self._priced = priced_as or self._account, client.model
        """Provider and model in the table of prices."""
        self._closed = False

    def __repr__(self) -> str:
        """Return the judge's id."""
        return f"{type(self).__name__}({self.id!r})"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of model, place, image preparation and the settings that matter."""
        parts = {
            "provider": self._client.provider,
            "model": self._client.model,
            "place": self._client.place,
            "preparation": asdict(self._model_caps.preparation),
            **self._settings(),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @abstractmethod
    def _settings(self) -> Mapping[str, object]:
        """Return the settings that may change answers, for the fingerprint."""

    @abstractmethod
    def _unaskable(self, fact: Fact) -> str:
        """Return why ``fact`` cannot be asked; empty if it can."""

    @abstractmethod
    def _chunks(self, todo: Sequence[Numbered]) -> Sequence[Sequence[Numbered]]:
        """Split ``todo`` into calls."""

    @abstractmethod
    def _usage(self, sizes: Sizes, facts: Sequence[Fact]) -> Usage:
        """Estimate the tokens of one call that asks ``facts`` of images of ``sizes``."""

    @abstractmethod
    def _attempt(self, pictures: Pictures, facts: Sequence[Fact]) -> Attempt:
        """Return an attempt that asks ``facts`` of ``pictures``; nothing is encoded yet."""

    def expected(self, size: tuple[int, int], facts: Sequence[Fact]) -> ExpectedUsage:
        """Return the expected usage of asking ``facts`` of an image of ``size`` pixels.

        Facts that cannot be asked are left out.
        """
        return self._expected((size,), facts)

    def _expected(self, sizes: Sizes, facts: Sequence[Fact]) -> ExpectedUsage:
        """Return :meth:`expected`, for one image or two to compare."""
        asked = [(at, fact) for at, fact in enumerate(facts) if not self._unaskable(fact)]
        calls = [[fact for _, fact in chunk] for chunk in self._chunks(asked)]
        usage = sum((self._usage(sizes, chunk) for chunk in calls), Usage())
        return ExpectedUsage(len(calls), usage, self._caller.price_of(*self._priced, usage))

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        """Return one answer a fact, in order; what a call does not answer is ``unscored``.

        The tokens, dollars and seconds of all answers add up to those of the calls that
        succeeded. Raises ``JudgeError`` only after :meth:`aclose`.
        """
        return await self._answers((image,), facts)

    async def _answers(self, pictures: Pictures, facts: Sequence[Fact]) -> list[Answer]:
        """Answer as :meth:`answer`, about one image or two to compare."""
        if self._closed:
            raise JudgeError(f"{self.id} is closed: make a new judge")
        if not facts:
            return []
        found: dict[int, Answer] = {}
        todo: list[Numbered] = []
        for at, fact in enumerate(facts):
            if reason := self._unaskable(fact):
                found[at] = self._answer(fact, FactReading(reason=reason))
            else:
                todo.append((at, fact))

        async def ask(chunk: Sequence[Numbered]) -> list[Numbered]:
            answers, hopeful = await self._ask(pictures, [fact for _, fact in chunk])
            for (at, _), answer in zip(chunk, answers, strict=True):
                # Costs are added to those of an earlier answer.
                (found[at],) = with_costs([answer], [found[at]] if at in found else [])
            return [one for one, again in zip(chunk, hopeful, strict=True) if again]

        # Once more for what a call that answered others left out.
        for _ in range(2):
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(ask(chunk)) for chunk in self._chunks(todo)]
            todo = [one for task in asked for one in task.result()]
        return [found[at] for at in range(len(facts))]

    async def aclose(self) -> None:
        """Close the connections; the caller stays open."""
        if not self._closed:
            self._closed = True
            await self._client.aclose()

    async def _ask(
        self, pictures: Pictures, facts: Sequence[Fact]
    ) -> tuple[list[Answer], list[bool]]:
        """Make one call for ``facts``; a failure becomes a reason in each of them.

        Also returns which of them may be asked again: those without an answer, where the call
        answered others.
        """

        def classify(error: Exception) -> Decision:
            if isinstance(error, ImageError):
                return PermanentError(str(error))
            return self._client.classify(error)

        count = len(facts)
        usage, usd, seconds, model = Usage(), 0.0, 0.0, ""
        try:
            expected = self._usage([picture.size for picture in pictures], facts)
            done = await self._caller.call(
                self._attempt(pictures, facts),
                classify=classify,
                provider=self._priced[0],
                model=self._priced[1],
                tokens=expected.tokens_in + expected.tokens_out,
                label=f"{self.id} {count} {'fact' if count == 1 else 'facts'}",
            )
            parts, model = done.value
            usage, usd, seconds = done.usage, done.usd, done.seconds
        except Exception as error:
            # A failing judge must not stop the others: its failure is recorded.
            parts = [FactReading(reason=error_text(error))] * count
            if isinstance(error, CallError):
                usage, usd = error.usage, error.usd
        answers = with_totals(
            [self._answer(fact, part, model) for fact, part in zip(facts, parts, strict=True)],
            {
                "tokens_in": usage.tokens_in,
                "tokens_out": usage.tokens_out,
                "tokens_cached": usage.tokens_cached,
                "seconds": seconds,
                "usd": usd,
            },
        )
        some = any(part.choice is not None for part in parts)
        return answers, [some and part.choice is None and not part.final for part in parts]

    def _answer(self, fact: Fact, part: FactReading, model: str = "") -> Answer:
        return part.answer(fact, self.id, prompt_id=load_prompt(self.prompt).ref, model=model)


def chunks(todo: Sequence[Numbered], most: int) -> list[Sequence[Numbered]]:
    """Split ``todo`` into as few parts of at most ``most`` as possible, nearly equally long."""
    count = -(-len(todo) // most)
    rest = iter(todo)
    return [list(islice(rest, size)) for size in (spread(len(todo), count) if count else ())]


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
