"""Base of judges behind a provider's API: facts of one image in as few calls as possible.

:class:`CallingJudge` makes the calls and shares their costs among the facts; limits, time,
repetitions and usage are the :class:`~scenewright.providers.caller.Caller`'s. A judge is a pure
build of a request, one await and a pure reading of the reply.
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

from scenewright.agents.judges.pictures import PictureCaps
from scenewright.agents.judges.reading import FactReading
from scenewright.core.error_text import error_text
from scenewright.core.facts import Answer, Fact
from scenewright.core.images import ImageError
from scenewright.core.ports.judge import JudgeError
from scenewright.prompts import load_prompt
from scenewright.providers.caller import Caller
from scenewright.providers.clients.client import ProviderClient
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
