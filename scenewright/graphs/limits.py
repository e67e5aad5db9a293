"""Limits of a run: what the next round may take, and whether that fits into what is left.

What a round takes is the most of two: what its models expect by the providers' published rules, and
what earlier rounds of the run took. Models that expect nothing cost nothing before their first
call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from scenewright.config.options import Asking
from scenewright.core.facts import Fact
from scenewright.core.formats import dump_scene
from scenewright.core.ports.backend import ImageBackend
from scenewright.core.ports.composer import Composer
from scenewright.core.ports.judge import JudgeCaps
from scenewright.core.scene import SceneGraph
from scenewright.graphs.events import (
    Answered,
    Composed,
    Drafted,
    Event,
    Generated,
    Judged,
    Proposed,
    Role,
    Selected,
    ToolCalled,
)
from scenewright.graphs.record import totals_of
from scenewright.graphs.state import RefineContext
from scenewright.providers.usage import ExpectedUsage


@dataclass(frozen=True, slots=True)
class Amount:
    """Dollars and tokens, in and out together."""

    usd: float = 0.0
    tokens: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        """Return both together."""
        return Amount(self.usd + other.usd, self.tokens + other.tokens)

    def __sub__(self, other: Amount) -> Amount:
        """Return what is left."""
        return Amount(self.usd - other.usd, self.tokens - other.tokens)

    def __mul__(self, times: float) -> Amount:
        """Return it ``times`` times."""
        return Amount(self.usd * times, self.tokens * times)

    def __or__(self, other: Amount) -> Amount:
        """Return the larger of each."""
        return Amount(max(self.usd, other.usd), max(self.tokens, other.tokens))

    @property
    def overdrawn(self) -> bool:
        """Whether less than nothing is left of either."""
        return self.usd < 0 or self.tokens < 0


def expected_of(
    judge: Any, size: tuple[int, int], facts: Sequence[Fact], asking: Asking
) -> ExpectedUsage:
    """Return the most usage of asking a judge the ``facts`` of a picture of ``size`` pixels.

    It is empty for a judge without estimates. Asked in waves, the picture is sent again for what
    depends on its objects, unless the judge is asked all at once.
    """
    expected = getattr(judge, "expected", None)
    total = ExpectedUsage()
    if expected is None or not facts:
        return total
    caps: JudgeCaps | None = getattr(judge, "caps", None)
    if caps is not None and caps.counts:
        # Several facts are told by one number.
        facts = list({one.id: one for f in facts for one in (f.counted or f,)}.values())
    if asking == "together" or (caps is not None and caps.at_once):
        waves = [list(facts)]
    else:
        waves = [[f for f in facts if not f.parents], [f for f in facts if f.parents]]
    for wave in waves:
        if wave:
            total = total + expected(size, wave)
    return total


def limit_reached(
    context: RefineContext,
    scene: SceneGraph,
    images: int = 0,
    looks: int = 0,
    events: Iterable[Event] | None = None,
) -> str:
    """Return which limit ends the run before ``images`` more are drawn, with its figures.

    ``looks``: how many of them the loop's judges look at. Counted from ``events``, by default all
    that the log has. What the report of the pictures so far may take is set aside. Empty: it fits.
    """
    budget = context.options.budget
    past = context.record.events if events is None else list(events)
    spent = totals_of(past)
    if budget.images is not None and spent["images"] + images > budget.images:
        more = f", {images} more are wanted" if images > 1 else ""
        return f"{spent['images']:.0f} of {budget.images} images are drawn{more}"
    plain = (
        ("seconds", context.log.seconds(), budget.seconds),
        ("steps of the denoiser", spent["work"], budget.work),
        ("calls of judges", spent["judge_calls"], budget.judge_calls),
    )
    for name, used, most in plain:
        if most is not None and used >= most:
            return f"{used:,.4g} {name} are spent, the limit is {most:,.4g}"
    return unaffordable(context, scene, images, looks, past)


def unaffordable(
    context: RefineContext, scene: SceneGraph, images: int, looks: int, past: Sequence[Event]
) -> str:
    """Return as :func:`limit_reached`, of dollars and tokens alone."""
    budget = context.options.budget
    if budget.usd is None and budget.tokens is None:
        return ""
    spent = totals_of(past)
    wanted = Prices.of(context, scene, past).of_round(images, looks)
    for used, more_of_it, most, name in (
        (spent["usd"], wanted.usd, budget.usd, "dollars"),
        (spent["tokens_in"] + spent["tokens_out"], wanted.tokens, budget.tokens, "tokens"),
    ):
        if most is not None and (used >= most or used + more_of_it > most):
            form = "{:,.2f}" if name == "dollars" else "{:,.0f}"
            rest = f", what follows may take {form.format(more_of_it)}" if more_of_it else ""
            return f"{form.format(used)} of {form.format(most)} {name} are spent{rest}"
    return ""


@dataclass(frozen=True, slots=True)
class Prices:
    """Most that the parts of a round may take."""

    picture: Amount
    """A picture."""
    words: Amount
    """The prompt of a picture of what is missing."""
    look: Amount
    """The loop's judges look at a picture."""
    turn: Amount
    """A call of the director."""
    report: Amount
    """The judges of the report look at a picture."""
    unseen: int
    """Candidates that they have not seen yet."""
    unjudged: int
    """Candidates that the loop's judges have not seen yet."""

    @classmethod
    def of(cls, context: RefineContext, scene: SceneGraph, past: Sequence[Event]) -> Self:
        """Return the prices of a run with the events ``past``."""
        facts = context.options.form.facts(scene)
        drawn = [event for event in past if isinstance(event, Generated)]
        seen = {(event.round, event.role) for event in past if isinstance(event, Judged)}
        candidates = {event.round for event in drawn if event.purpose == "candidate"}
        return cls(
            picture=_expected_of_image(context.backend, scene)
            | _most(Amount(event.usd) for event in drawn if event.drawn),
            words=_expected_of_prompt(context.composer, scene)
            | _most(_amount(event) for event in past if isinstance(event, Composed)),
            look=_judged(context, "loop", facts, past),
            turn=_most(_amount(event) for event in past if isinstance(event, ToolCalled)),
            report=_judged(context, "report", facts, past),
            unseen=sum((round, "report") not in seen for round in candidates),
            unjudged=sum((round, "loop") not in seen for round in candidates),
        )

    @property
    def of_proposal(self) -> Amount:
        """A picture and a look at it."""
        return self.picture + self.look

    def of_round(self, images: int, looks: int) -> Amount:
        """Return what ``images`` more, ``looks`` at them and the report of all candidates take."""
        drawn = self.picture * images + self.words * max(0, images - looks)
        looked = self.look * (looks + self.unjudged)
        return drawn + looked + self.turn + self.report * (self.unseen + bool(looks))


def _judged(
    context: RefineContext, role: Role, facts: Sequence[Fact], past: Iterable[Event]
) -> Amount:
    """Return what the judges of ``role`` may take for one picture."""
    options, (width, height) = context.options, context.backend.features.default_size
    size = (options.width or width, options.height or height)
    asked = [expected_of(one, size, facts, options.asking) for one in context.judges(role)]
    before: dict[int, Amount] = {}
    for event in past:
        if isinstance(event, Answered) and event.role == role:
            for answer in event.answers:
                before[event.round] = before.get(event.round, Amount()) + _amount(answer)
        elif isinstance(event, Drafted | Proposed | Selected) and role == "loop":
            before[event.round] = before.get(event.round, Amount()) | _amount(event)
    return sum((_of(one) for one in asked), Amount()) | _most(before.values())


def _expected_of_image(backend: ImageBackend, scene: SceneGraph) -> Amount:
    expected = getattr(backend, "expected", None)
    if expected is None:
        return Amount()
    # Tokens of images are in no budget.
    words = scene.sentence or dump_scene(scene.graph, "triplets")
    return Amount(expected(words, min(2, backend.features.references)).usd or 0.0)


def _expected_of_prompt(composer: Composer, scene: SceneGraph) -> Amount:
    expected = getattr(composer, "expected", None)
    return Amount() if expected is None else _of(expected(scene))


def _of(expected: ExpectedUsage) -> Amount:
    return Amount(expected.usd or 0.0, expected.usage.tokens_in + expected.usage.tokens_out)


def _amount(paid: Any) -> Amount:
    return Amount(paid.usd, paid.tokens_in + paid.tokens_out)


def _most(amounts: Iterable[Amount]) -> Amount:
    found = Amount()
    for one in amounts:
        found |= one
    return found
