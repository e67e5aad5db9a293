"""Calls to a mock that fails: what hangs, a caller that gives up soon, and what it says then."""

from __future__ import annotations

import io

from PIL import Image

from scenewright.core.facts import Answer
from scenewright.core.formats import load_scene
from scenewright.core.ports.judge import Judge
from scenewright.core.questions import facts_of, realism_facts_of
from scenewright.mock_providers import Fault
from scenewright.providers.caller import Caller
from scenewright.providers.retry import Backoff
from tests.mock_providers.asking import picture

HANGING = frozenset({Fault.TIMEOUT, Fault.SLOW_DRIP, Fault.STREAM_STALL, Fault.KEEP_ALIVE})
"""Faults that only the caller's own timeout ends; the others are told before any timeout."""
STREAM_FAULTS = frozenset(
    {Fault.STREAM_CUT, Fault.STREAM_STALL, Fault.STREAM_ERROR, Fault.BAD_PARTIAL, Fault.NO_PARTIALS}
) | {Fault.STREAM_UNENDED, Fault.KEEP_ALIVE}
"""Faults that only a stream shows."""
HARMLESS = frozenset({Fault.SHUFFLED, Fault.NO_PROBABILITY, Fault.SLOW_DRIP}) | STREAM_FAULTS
"""Faults whose answers are right however often they come. What drips too slowly is worked on, and
comes at once when it is requested again under its key."""
HANGING_TIMEOUT, TIMEOUT, ATTEMPTS = 0.6, 20.0, 3
NO_REPLY = {
    Fault.SERVER_ERROR: r"500.*after 3 attempts",
    Fault.UNAVAILABLE: r"503.*after 3 attempts",
    Fault.OVERLOADED: r"529.*after 3 attempts",
    Fault.RATE_LIMITED: r"429.*retry budget",
    Fault.TIMEOUT: r"no reply within 0.6 s \(after 2 attempts\)",
    Fault.DROP: r"no connection.*after 3 attempts",
}
"""What is said of faults that never pass and leave nothing to read, whatever was asked."""
NO_DECISION = {
    **NO_REPLY,
    Fault.TRUNCATED_JSON: r"malformed reply: no JSON.*the same answer came twice",
    Fault.INVALID_JSON: r"malformed reply: no JSON.*the same answer came twice",
    Fault.EMPTY: r"no usable answer: the reply does not answer it",
    Fault.OUTSIDE_OPTIONS: r"no usable answer: gave the probability 1.7",
}
"""What all facts say that were asked of a decision model."""
SCENE = load_scene("red ball left of table; dog right of table", format="triplets")
FACTS = (*facts_of(SCENE), *realism_facts_of(SCENE))


def get_caller(fault: Fault | None = None, name: str = "lab") -> Caller:
    """A caller that meets ``fault``, and waits no longer for what hangs than it must."""
    return Caller(
        name,
        timeout=HANGING_TIMEOUT if fault in HANGING else TIMEOUT,
        attempts=ATTEMPTS,
        max_wait=1.5,
        backoff=Backoff(initial=0.01, maximum=0.05),
        priced=False,
    )


async def decided(judge: Judge) -> list[Answer]:
    """What ``judge`` says to :data:`FACTS`, every one of them."""
    answers = await judge.answer(Image.open(io.BytesIO(picture())), FACTS)
    assert [answer.fact_id for answer in answers] == [fact.id for fact in FACTS]
    return answers


def said(answers: list[Answer]) -> list[tuple[str, float | None]]:
    return [(answer.state, answer.probability) for answer in answers]
