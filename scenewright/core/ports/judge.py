"""Who looks: the port every judge implements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from PIL import Image

from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.core.facts import Answer, Fact, FactKind, ProbabilityMethod

StructuredOutput = Literal["tool", "schema", "none"]
"""A forced tool call with a strict schema, a JSON schema for the answer's text, or neither."""


class JudgeError(RuntimeError):
    """A judge that cannot be built or loaded; says how to fix it."""


@dataclass(frozen=True, slots=True)
class JudgeCaps:
    """What a judge can do; callers look here, never at its name."""

    facts_per_call: int
    """Most facts answered in one model call."""
    probability: ProbabilityMethod
    """How its probabilities are obtained."""
    max_side: int
    """Longest image side in pixels that it is shown; larger images are scaled down."""
    local: bool
    """Runs on this machine: costs no money and no requests."""
    images_per_call: int = 1
    """Most images that one model call takes."""
    structured: StructuredOutput = "none"
    """How it is made to answer in a given form."""
    sampling: tuple[str, ...] = ()
    """Sampling parameters that it accepts, of ``temperature``, ``top_p``, ``seed``."""
    kinds: frozenset[FactKind] | None = None
    """The kinds of facts that it can answer; None: whatever is asked in words. Others are not
    sent to it."""
    bounds_calls: bool = False
    """Bounds the time of each of its model calls itself. Callers then set no limit of their own:
    a call may stand in line for its account's rate limit."""
    at_once: bool = False
    """A further question costs its own words alone: whatever may be asked of an image later goes
    along in the first call (:func:`scenewright.providers.judge_calls.ask`)."""
    vocabulary: ClosedVocabulary | None = None
    """The words that it knows, where they are few: a fact with another word is unscored without a
    call. None: any."""


@runtime_checkable
class Judge(Protocol):
    """Answers facts about one image."""

    @property
    def id(self) -> str:
        """``provider:model``, for example ``local:miniature/judge-a``."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever a question could get another answer (weights, prompt, sampling)."""
        ...

    @property
    def caps(self) -> JudgeCaps:
        """What it can do."""
        ...

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        """One answer a fact, in the order of ``facts``.

        Does not raise for what a model does: a failure is an ``unscored`` answer with
        its reason, and so is a fact outside of ``caps.vocabulary``. Cancelling the awaiting task
        cancels the call.
        """
        ...

    async def aclose(self) -> None:
        """Free the model or its connections."""
        ...


def unscored(judge_id: str, facts: Sequence[Fact], reason: str) -> list[Answer]:
    """The answers of a judge that gave nothing usable to ``facts``."""
    return [
        Answer(fact_id=fact.id, judge_id=judge_id, state="unscored", reason=reason)
        for fact in facts
    ]


def out_of_vocabulary(
    judge_id: str, vocabulary: ClosedVocabulary | None, fact: Fact
) -> Answer | None:
    """The unscored answer to a fact with words that a judge does not know; None if it can be
    asked."""
    unknown = () if vocabulary is None else vocabulary.unknown(fact)
    if vocabulary is None or not unknown:
        return None
    return unscored(judge_id, (fact,), vocabulary.reason(unknown))[0]
