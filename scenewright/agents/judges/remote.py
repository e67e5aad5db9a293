"""A judge behind a provider's API: one picture, a sheet of questions, one call for many facts.

What a provider speaks is a :class:`Wire`: a pure ``build``, one await, a pure ``read``. Limits,
time, repeats and the account are the :class:`~scenewright.calls.caller.Caller`'s.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Protocol
from urllib.parse import urlsplit

from PIL import Image

from scenewright.accounts import missing_key
from scenewright.agents.judges.base import JudgeCaps, JudgeError
from scenewright.agents.judges.models import ModelCaps, caps_of
from scenewright.agents.judges.pictures import PreparedImage, prepare
from scenewright.agents.judges.reading import READING, Part, Reading, read_parts
from scenewright.agents.judges.sheet import (
    MAX_OPTIONS,
    SHEET_PROMPT,
    TOOL,
    TOOL_DESCRIPTION,
    Sheet,
    sheet_of,
    sheet_schema,
)
from scenewright.agents.judges.tokens import answer_tokens, estimate, image_tokens, text_tokens
from scenewright.calls.caller import Caller
from scenewright.calls.decisions import CallError, Decision, Never
from scenewright.calls.scrubbing import scrubbed
from scenewright.calls.usage import Expected, Reply, Usage
from scenewright.facts import Answer, Fact
from scenewright.images import ImageError
from scenewright.prompts import load_prompt

_REASON_LENGTH = 500


class Wire(Protocol):
    """How one provider's model is asked."""

    provider: str
    """``openai``, ``gemini`` or ``anthropic``."""
    model: str
    """The model, as the provider names it."""
    base_url: str
    """Where it is."""

    def build(self, picture: PreparedImage, sheet: Sheet) -> Any:
        """The request as data. Pure."""
        ...

    async def send(self, request: Any) -> Any:
        """One attempt: the provider's response. Raises what its SDK raises."""
        ...

    def read(self, response: Any) -> Reading:
        """The response out of its wire format. Pure.

        Raises ``UnusableReply`` for a refusal or an empty reply, ``MalformedReply`` for what is
        no response of the provider.
        """
        ...

    def classify(self, error: Exception) -> Decision:
        """What an error of :meth:`send` or :meth:`read` means; its reason holds no secret."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


@dataclass(slots=True)
class _Share:
    """One fact's part of the calls that asked it."""

    fact: Fact
    part: Part
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    seconds: float = 0.0
    usd: float = 0.0
    model: str = ""
    again: bool = False
    """The call answered other facts, so that asking this one once more may help."""

    def add(self, earlier: _Share) -> None:
        """Take the costs of an earlier call for the same fact on top."""
        self.tokens_in += earlier.tokens_in
        self.tokens_out += earlier.tokens_out
        self.tokens_cached += earlier.tokens_cached
        self.seconds += earlier.seconds
        self.usd += earlier.usd


class RemoteJudge:
    """Implements :class:`~scenewright.agents.judges.base.Judge` over a :class:`Wire`.

    Facts are asked in as few calls as the model's caps allow, all at once. A fact that a call
    leaves without a usable answer while it answers others is asked once more.
    """

    def __init__(
        self,
        wire: Wire,
        caller: Caller,
        caps: ModelCaps,
        *,
        account: str = "",
        priced_as: str = "",
    ) -> None:
        """``account``: what precedes the model in the judge's id (default: the provider).
        ``priced_as``: what precedes it in the table of prices (default: the same).

        The judge closes its wire, not the ``caller``, which judges of one account share.
        """
        self._wire = wire
        self._caller = caller
        self._model_caps = caps
        self._account = account or wire.provider
        self._priced_as = priced_as or self._account
        self._caps = caps.judge_caps
        self._closed = False

    def __repr__(self) -> str:
        """The judge's id."""
        return f"RemoteJudge({self.id!r})"

    @property
    def id(self) -> str:
        """``provider:model``, or ``account:model`` where the account has a name."""
        return f"{self._account}:{self._wire.model}"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of model, place, prompt, schema, image preparation and settings."""
        caps = self._model_caps
        prompt = load_prompt(SHEET_PROMPT)
        parts = {
            "provider": self._wire.provider,
            "model": self._wire.model,
            "place": place_of(self._wire.base_url),
            "api": caps.api,
            "prompt": prompt.hash,
            "schema": sheet_schema(),
            "tool": [TOOL, TOOL_DESCRIPTION],
            "preparation": asdict(caps.preparation),
            "structured": [caps.structured, caps.strict, caps.logprobs],
            "sampling": caps.sampling,
            "max_output_tokens": caps.max_output_tokens,
            "facts_per_call": caps.facts_per_call,
            "reading": READING,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def caps(self) -> JudgeCaps:
        """What it can do."""
        return self._caps

    def expected(self, size: tuple[int, int], facts: Sequence[Fact]) -> Expected:
        """What asking ``facts`` of a picture of ``size`` pixels is expected to take; no call."""
        shown = self._model_caps.preparation.shown_size(size)
        picture = image_tokens(self._model_caps.image_tokens, *shown)
        usage, calls = Usage(), 0
        for part in chunks(list(enumerate(facts)), self._model_caps.facts_per_call):
            chunk = [fact for _, fact in part]
            asked = picture + text_tokens(sheet_of(chunk).text)
            usage, calls = usage + Usage(asked, answer_tokens(len(chunk))), calls + 1
        usd = self._caller.price_of(self._priced_as, self._wire.model, usage)
        return Expected(calls, usage, usd)

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        """One answer a fact, in order; what a call does not answer is ``unscored``.

        The tokens, dollars and seconds of all answers add up to those of the calls that
        succeeded. Raises ``JudgeError`` only after :meth:`aclose`.
        """
        if self._closed:
            raise JudgeError(f"{self.id} is closed: make a new judge")
        if not facts:
            return []
        shares: dict[int, _Share] = {}
        todo: list[tuple[int, Fact]] = []
        for at, fact in enumerate(facts):
            if fact.is_binary or len(fact.options) <= MAX_OPTIONS:
                todo.append((at, fact))
            else:
                reason = f"{len(fact.options)} options: offer at most {MAX_OPTIONS}"
                shares[at] = _Share(fact, Part(reason=reason))
        await self._ask_all(image, todo, shares)
        again = [(at, fact) for at, fact in todo if shares[at].again]
        if again:
            earlier = {at: shares[at] for at, _ in again}
            await self._ask_all(image, again, shares)
            for at, share in earlier.items():
                shares[at].add(share)
        return [self._answer(shares[at]) for at in range(len(facts))]

    async def aclose(self) -> None:
        """Close the connections; the caller stays open."""
        if not self._closed:
            self._closed = True
            await self._wire.aclose()

    async def _ask_all(
        self, image: Image.Image, todo: Sequence[tuple[int, Fact]], shares: dict[int, _Share]
    ) -> None:
        """Ask ``todo`` in chunks, all at once, and put what comes back into ``shares``."""

        async def ask(chunk: Sequence[tuple[int, Fact]]) -> None:
            found = await self._ask(image, [fact for _, fact in chunk])
            shares.update(zip((at for at, _ in chunk), found, strict=True))

        async with asyncio.TaskGroup() as group:
            for chunk in chunks(todo, self._model_caps.facts_per_call):
                group.create_task(ask(chunk))

    async def _ask(self, image: Image.Image, facts: Sequence[Fact]) -> list[_Share]:
        """One call for ``facts``; a failure is a reason in each of them."""
        sheet = sheet_of(facts)
        preparation = self._model_caps.preparation

        async def attempt() -> Reply[tuple[list[Part], str]]:
            # Only now: thousands of calls may stand in line, and need no encoded image there.
            request = self._wire.build(await prepare(image, preparation), sheet)
            reading = self._wire.read(await self._wire.send(request))
            parts = read_parts(reading, sheet)
            return Reply((parts, reading.model), reading.usage, reading.request_id)

        try:
            done = await self._caller.call(
                attempt,
                classify=self._classify,
                provider=self._priced_as,
                model=self._wire.model,
                tokens=estimate(
                    self._model_caps.image_tokens,
                    *preparation.shown_size(image.size),
                    sheet.text,
                    len(facts),
                ),
                label=f"{self.id} {len(facts)} facts",
            )
        except CallError as error:
            lost = [Part(reason=_short(str(error)))] * len(facts)
            return self._shared(facts, lost, "", error.usage, 0.0, error.usd)
        except Exception as error:
            # A judge that fails must not take the others down: its silence is recorded.
            reason = scrubbed(f"{type(error).__name__}: {error}")
            return [_Share(fact, Part(reason=reason)) for fact in facts]
        parts, model = done.value
        return self._shared(facts, parts, model, done.usage, done.seconds, done.usd)

    def _classify(self, error: Exception) -> Decision:
        if isinstance(error, ImageError):
            return Never(str(error))
        return self._wire.classify(error)

    def _shared(
        self,
        facts: Sequence[Fact],
        parts: Sequence[Part],
        model: str,
        usage: Usage,
        seconds: float,
        usd: float,
    ) -> list[_Share]:
        """Each fact's part of a call, and of what the call took."""
        some = any(part.choice is not None for part in parts)
        count = len(facts)
        return [
            _Share(
                fact=fact,
                part=part,
                tokens_in=tokens_in,
                tokens_out=tokens_out,
                tokens_cached=cached,
                seconds=seconds / count,
                usd=usd / count,
                model=model or self._wire.model,
                again=some and part.choice is None,
            )
            for fact, part, tokens_in, tokens_out, cached in zip(
                facts,
                parts,
                spread(usage.tokens_in, count),
                spread(usage.tokens_out, count),
                spread(usage.tokens_cached, count),
                strict=True,
            )
        ]

    def _answer(self, share: _Share) -> Answer:
        part, fact = share.part, share.fact
        if part.choice is None:
            state = "unscored"
        else:
            state = "yes" if part.choice == fact.expected else "no"
        return Answer(
            fact_id=fact.id,
            judge_id=self.id,
            state=state,
            choice=part.choice,
            probability=part.probability,
            distribution=part.distribution,
            method=part.method,
            rationale=part.rationale,
            reason=part.reason,
            tokens_in=share.tokens_in,
            tokens_out=share.tokens_out,
            tokens_cached=share.tokens_cached,
            seconds=share.seconds,
            usd=share.usd,
            model=share.model,
            prompt_id=load_prompt(SHEET_PROMPT).ref,
        )


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
    """A judge ``provider:model``, of ``openai``, ``gemini`` or ``anthropic``.

    ``base_url``: a server that speaks the provider's protocol, instead of the provider's own
    (vLLM, Ollama, OpenRouter, the lab). ``name``: the account, in place of the provider in the
    judge's id. ``overrides``: keys of :class:`~.models.ModelCaps`, in place of what
    ``models.toml`` says. The provider's library is imported here. Raises ``JudgeError`` for a
    missing key, an unknown provider or a setting that cannot be.
    """
    caps = caps_of(provider, model, overrides)
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


def place_of(base_url: str) -> str:
    """Host, port and path of ``base_url``, without what may be secret in it."""
    parts = urlsplit(base_url)
    return f"{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def chunks(todo: Sequence[tuple[int, Fact]], most: int) -> list[Sequence[tuple[int, Fact]]]:
    """``todo`` in as few parts of at most ``most`` as can be, all nearly equally long."""
    count = -(-len(todo) // most)
    sizes = spread(len(todo), count) if count else []
    found, start = [], 0
    for size in sizes:
        found.append(todo[start : start + size])
        start += size
    return found


def spread(total: int, count: int) -> list[int]:
    """``total`` in ``count`` whole parts that add up to it and differ by one at most."""
    share, rest = divmod(total, count)
    return [share + (at < rest) for at in range(count)]


def _short(text: str) -> str:
    return text if len(text) <= _REASON_LENGTH else f"{text[: _REASON_LENGTH - 1]}…"
