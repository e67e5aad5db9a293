"""Protocol of judges: models that answer facts about one image.

A judge has an ``id``, a ``fingerprint``, ``caps`` and the methods ``answer`` and ``aclose``. The
panel, the loop and the pages look only at these. The smallest judge answers with
:class:`~scenewright.core.facts.Answer` objects: ``state`` ``yes`` or ``no``, ``choice`` the chosen
option of the fact, ``probability`` that the fact holds if the judge has one, or ``unscored`` with a
``reason`` (:func:`unscored`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from PIL import Image

from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.core.errors import ScenewrightError
from scenewright.core.facts import Answer, Fact, FactKind, ProbabilityMethod

StructuredOutput = Literal["tool", "schema", "none"]
"""Way to make a judge answer in a given form: by a forced tool call with a strict schema, by a
JSON schema for the answer's text, or not at all.
"""


class JudgeError(ScenewrightError, RuntimeError):
    """A judge that cannot be built or loaded; says how to fix it."""


@dataclass(frozen=True, slots=True)
class JudgeCaps:
    """Abilities of a judge, as data: callers look here, never at its name or class."""

    facts_per_call: int
    """Most facts answered in one model call."""
    probability: ProbabilityMethod
    """Source of its probabilities."""
    max_side: int
    """Longest side of its images in pixels; the judge scales larger ones down itself."""
    local: bool
    """Whether it runs on this machine, without cost or requests."""
    images_per_call: int = 1
    """Most images that one model call takes."""
    structured: StructuredOutput = "none"
    """Way to make it answer in a given form."""
    sampling: tuple[str, ...] = ()
    """Accepted sampling parameters, of ``temperature``, ``top_p``, ``seed``."""
    kinds: frozenset[FactKind] | None = None
    """Kinds of facts that it can answer; facts of other kinds are not sent to it. None: all kinds.
    """
    bounds_calls: bool = False
    """Whether it bounds the time of each of its calls itself. Callers then set no limit of their
    own, because a call may wait for its account's rate limit.
    """
    at_once: bool = False
    """Whether a further question costs only its own words. Facts that may be asked about the image
    later are then sent with the first call (``ahead`` of
    :func:`scenewright.providers.judge_calls.ask`).
    """
    counts: bool = False
    """Whether it says how many there are of something. One question then answers all facts about
    that number (:attr:`~scenewright.core.facts.Fact.counted`); others are asked each fact.
    """
    vocabulary: ClosedVocabulary | None = None
    """Closed vocabulary: a fact with another word is unscored without a call. None: any words."""


@runtime_checkable
class Judge(Protocol):
    """A model that answers facts about one image.

    Implementations may be called concurrently from one event loop, for several images. Construction
    may fail with :class:`JudgeError`; :meth:`answer` does not fail for anything that a model does.
    """

    @property
    def id(self) -> str:
        """``provider:model``, for example ``local:miniature/judge-a``.

        It is unique within a panel, and the ``judge_id`` of its answers.
        """
        ...

    @property
    def fingerprint(self) -> str:
        """Digest that changes whenever the same question could get another answer.

        It covers weights, prompt, sampling and image preparation. Stored answers are keyed with it.
        """
        ...

    @property
    def caps(self) -> JudgeCaps:
        """Abilities; constant."""
        ...

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        """Return one answer per fact, in the order of ``facts``.

        ``image`` is in any mode and size; the caller keeps it, so it must not be changed. ``facts``
        may be more than ``caps.facts_per_call``: the judge splits them itself. Each answer has the
        ``fact_id`` of its fact and the ``judge_id`` of this judge; its ``choice``, if set, is one
        of the fact's ``options``, and ``state`` is ``yes`` exactly if that is ``fact.expected``.
        Tokens, seconds and dollars of a call are shared among its answers.

        A failure, a refusal, an answer outside the options and a fact outside of
        ``caps.vocabulary`` are ``unscored`` answers with a ``reason``; nothing is guessed, and
        nothing is ``void``, which only the panel decides. Cancelling the awaiting task cancels the
        call. Raises ``JudgeError`` only after :meth:`aclose`.
        """
        ...

    async def aclose(self) -> None:
        """Free the model or its connections; may be called twice."""
        ...


def unscored(judge_id: str, facts: Sequence[Fact], reason: str) -> list[Answer]:
    """Return unscored answers to ``facts``, all with one ``reason``."""
    return [
        Answer(fact_id=fact.id, judge_id=judge_id, state="unscored", reason=reason)
        for fact in facts
    ]


def out_of_vocabulary(
    judge_id: str, vocabulary: ClosedVocabulary | None, fact: Fact
) -> Answer | None:
    """Return the unscored answer to a fact with words that a judge does not know.

    None if it can be asked.
    """
    unknown = () if vocabulary is None else vocabulary.unknown(fact)
    if vocabulary is None or not unknown:
        return None
    return unscored(judge_id, (fact,), vocabulary.reason(unknown))[0]


def by_vocabulary(
    judge_id: str, vocabulary: ClosedVocabulary | None, facts: Sequence[Fact]
) -> tuple[dict[int, Answer], tuple[Fact, ...]]:
    """Return unscored answers to facts with unknown words, by position, and the other facts."""
    refused = {
        at: answer
        for at, fact in enumerate(facts)
        if (answer := out_of_vocabulary(judge_id, vocabulary, fact)) is not None
    }
    return refused, tuple(fact for at, fact in enumerate(facts) if at not in refused)


def merged(refused: Mapping[int, Answer], given: Sequence[Answer]) -> list[Answer]:
    """Return all answers in the order of their facts, given those of :func:`by_vocabulary`."""
    rest = iter(given)
    return [refused.get(at) or next(rest) for at in range(len(refused) + len(given))]
