"""Judges that answer by calls: facts in as few calls as possible, costs shared among them.

A subclass decides about the content of a call and reads its reply; limits, time, repetitions and
usage are the :class:`~scenewright.providers.caller.Caller`'s.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar
from urllib.parse import urlsplit

from PIL import Image

from scenewright.agents.judges.reading import FactReading
from scenewright.core.error_text import error_text
from scenewright.core.facts import Answer, Fact
from scenewright.core.images import ImageError
from scenewright.core.ports.judge import JudgeCaps, JudgeError
from scenewright.prompts import load_prompt
from scenewright.providers.caller import Caller
from scenewright.providers.retry import CallError, Decision, PermanentError
from scenewright.providers.usage import ExpectedUsage, Reply, Usage

Numbered = tuple[int, Fact]
"""A fact and its index among the asked facts."""
Pictures = tuple[Image.Image, ...]
"""Shown images: one, or two to compare."""
Sizes = Sequence[tuple[int, int]]
"""Widths and heights in pixels of the shown images."""


class Endpoint(Protocol):
    """Common interface of all wires: a model at an address."""

    provider: str
    model: str
    """The model, as the provider names it."""
    base_url: str
    """Base URL."""

    def classify(self, error: Exception) -> Decision:
        """Return the decision for an error of a call, without secrets."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


class Caps(Protocol):
    """Common interface of the abilities of all kinds of judges."""

    @property
    def judge_caps(self) -> JudgeCaps:
        """Abilities in the form of the judge protocol."""
        ...


WireT = TypeVar("WireT", bound=Endpoint)
CapsT = TypeVar("CapsT", bound=Caps)
Attempt = Callable[[], Awaitable[Reply[tuple[list[FactReading], str]]]]
"""Makes one attempt: returns a part per fact, in order, and the served model."""


@dataclass(slots=True)
class _Share:
    """One fact's share of the calls that asked it."""

    fact: Fact
    part: FactReading
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    seconds: float = 0.0
    usd: float = 0.0
    model: str = ""
    again: bool = False
    """Whether the call answered other facts, so that asking this one again may help."""

    def add(self, earlier: _Share) -> None:
        """Add the costs of an earlier call for the same fact."""
        self.tokens_in += earlier.tokens_in
        self.tokens_out += earlier.tokens_out
        self.tokens_cached += earlier.tokens_cached
        self.seconds += earlier.seconds
        self.usd += earlier.usd


class CallingJudge(ABC, Generic[WireT, CapsT]):
    """Implements :class:`~scenewright.core.ports.judge.Judge` but for ``fingerprint``.

    Facts are asked in as few calls as :meth:`_chunks` makes of them, all at once. A fact that a
    call leaves without a usable answer while it answers others is asked once more, unless its part
    is final.
    """

    prompt: str
    """Id of the prompt file, for the answers."""

    def __init__(
        self,
        wire: WireT,
        caller: Caller,
        caps: CapsT,
        *,
        account: str = "",
        priced_as: str = "",
    ) -> None:
        """Set up the judge for ``wire`` and ``caller``.

        ``account``: prefix of the judge's id (default: the provider); ``priced_as``: prefix in the
        table of prices (default: the same). The judge closes its wire, but not the ``caller``,
        which judges of one account share.
        """
        self._wire = wire
        self._caller = caller
        self._model_caps = caps
        self._caps = caps.judge_caps
        self._account = account or wire.provider
        self._priced_as = priced_as or self._account
        self._closed = False

    def __repr__(self) -> str:
        """Return the judge's id."""
        return f"{type(self).__name__}({self.id!r})"

    @property
    def id(self) -> str:
        """``provider:model``, or ``account:model`` where the account has a name."""
        return f"{self._account}:{self._wire.model}"

    @property
    def _priced(self) -> tuple[str, str]:
        """Provider and model in the table of prices."""
        return self._priced_as, self._wire.model

    @property
    def caps(self) -> JudgeCaps:
        """What it can do."""
        return self._caps

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
        shares: dict[int, _Share] = {}
        todo: list[Numbered] = []
        for at, fact in enumerate(facts):
            reason = self._unaskable(fact)
            if reason:
                shares[at] = _Share(fact, FactReading(reason=reason))
            else:
                todo.append((at, fact))
        await self._ask_all(pictures, todo, shares)
        again = [(at, fact) for at, fact in todo if shares[at].again]
        if again:
            earlier = {at: shares[at] for at, _ in again}
            await self._ask_all(pictures, again, shares)
            for at, share in earlier.items():
                shares[at].add(share)
        return [self._answer(shares[at]) for at in range(len(facts))]

    async def aclose(self) -> None:
        """Close the connections; the caller stays open."""
        if not self._closed:
            self._closed = True
            await self._wire.aclose()

    async def _ask_all(
        self, pictures: Pictures, todo: Sequence[Numbered], shares: dict[int, _Share]
    ) -> None:
        """Ask ``todo`` in chunks, all at once, and put what comes back into ``shares``."""

        async def ask(chunk: Sequence[Numbered]) -> None:
            found = await self._ask(pictures, [fact for _, fact in chunk])
            shares.update(zip((at for at, _ in chunk), found, strict=True))

        async with asyncio.TaskGroup() as group:
            for chunk in self._chunks(todo):
                group.create_task(ask(chunk))

    async def _ask(self, pictures: Pictures, facts: Sequence[Fact]) -> list[_Share]:
        """Make one call for ``facts``; a failure becomes a reason in each of them."""
        try:
            expected = self._usage([picture.size for picture in pictures], facts)
            done = await self._caller.call(
                self._attempt(pictures, facts),
                classify=self._classify,
                provider=self._priced[0],
                model=self._priced[1],
                tokens=expected.tokens_in + expected.tokens_out,
                label=f"{self.id} {len(facts)} {'fact' if len(facts) == 1 else 'facts'}",
            )
        except CallError as error:
            lost = [FactReading(reason=error_text(error))] * len(facts)
            return self._shared(facts, lost, "", error.usage, 0.0, error.usd)
        except Exception as error:
            # A failing judge must not stop the others: its failure is recorded.
            reason = error_text(error)
            return [_Share(fact, FactReading(reason=reason)) for fact in facts]
        parts, model = done.value
        return self._shared(facts, parts, model, done.usage, done.seconds, done.usd)

    def _classify(self, error: Exception) -> Decision:
        if isinstance(error, ImageError):
            return PermanentError(str(error))
        return self._wire.classify(error)

    def _shared(
        self,
        facts: Sequence[Fact],
        parts: Sequence[FactReading],
        model: str,
        usage: Usage,
        seconds: float,
        usd: float,
    ) -> list[_Share]:
        """Return each fact's share of a call and of its cost."""
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
                model=model,
                again=some and part.choice is None and not part.final,
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
        return Answer(
            fact_id=fact.id,
            judge_id=self.id,
            state=part.state(fact),
            choice=part.choice,
            probability=part.probability,
            distribution=part.distribution,
            method=part.method,
            rationale=part.rationale,
            reason=part.reason,
            note=part.note,
            tokens_in=share.tokens_in,
            tokens_out=share.tokens_out,
            tokens_cached=share.tokens_cached,
            seconds=share.seconds,
            usd=share.usd,
            model=share.model,
            prompt_id=load_prompt(self.prompt).ref,
        )


def place_of(base_url: str) -> str:
    """Return host, port and path of ``base_url``, without secrets."""
    parts = urlsplit(base_url)
    return f"{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def chunks(todo: Sequence[tuple[int, Fact]], most: int) -> list[Sequence[tuple[int, Fact]]]:
    """Split ``todo`` into as few parts of at most ``most`` as possible, nearly equally long."""
    count = -(-len(todo) // most)
    sizes = spread(len(todo), count) if count else []
    found, start = [], 0
    for size in sizes:
        found.append(todo[start : start + size])
        start += size
    return found


def spread(total: int, count: int) -> list[int]:
    """Split ``total`` into ``count`` whole parts that differ by one at most."""
    share, rest = divmod(total, count)
    return [share + (at < rest) for at in range(count)]
