"""Direct scoring from 0 to 10 (VIEScore, Ku et al., 2024): consistency and perceptual quality.

``O = sqrt(SC · PQ)``, each the least of its marks: consistency has one, quality two (naturalness,
and freedom from artifacts). Here ``O`` is divided by ten, so that it lies in [0, 1] as the other
metrics do. Aggregators combine the tenths of the judges' marks, mark by mark.

Raters are judges: a tenth of a mark stands for the probability. A language model is shown the
picture and calls a tool with its reasons and its marks, one call for consistency and one for
quality (VIEScore asks apart, so that the text does not colour what is said of the looks). A judge
that answers questions by options is offered the eleven marks: where it gives token probabilities,
its mark is their expected value, else the one that it chose.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from PIL import Image

from scenewright.agents.chat.language_replies import as_data, ask_for, digest_of, name_of, tool_of
from scenewright.agents.judges.models import caps_of
from scenewright.agents.judges.pictures import ImagePreparation, prepare
from scenewright.agents.panel.aggregation import Array
from scenewright.config.accounts import DECISION_KIND
from scenewright.config.profiles import CHAT_KINDS, JUDGE_KINDS, split_judge
from scenewright.config.settings import Settings
from scenewright.core.error_text import error_text
from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import Judge, JudgeCaps, unscored
from scenewright.evals.metrics.base import MetricError, Sample, switch
from scenewright.evals.studies.peers.panel_metric import MetricJudges, PanelMetric, metric_judges_of
from scenewright.prompts import Prompt, load_prompt
from scenewright.providers.usage import metered
from scenewright.runs.model_factory.profiles import build_chat, build_judge

HIGHEST = 10
MARKS = tuple(str(mark) for mark in range(HIGHEST + 1))
"""What may be given."""
CONSISTENCY, NATURALNESS, ARTIFACTS = "consistency", "naturalness", "artifacts"
MARKS_OF: dict[str, tuple[str, ...]] = {
    "rate_consistency": (CONSISTENCY,),
    "rate_quality": (NATURALNESS, ARTIFACTS),
}
"""Prompt → the marks that it asks for."""
_QUESTIONS = {
    CONSISTENCY: 'From 0 (not at all) to 10 (perfectly), how well does the picture show "{text}"?',
    NATURALNESS: "From 0 (not at all) to 10 (fully), how natural does the picture look?",
    ARTIFACTS: "From 0 (full of them) to 10 (none at all), how free of artifacts is the picture?",
}

_COSTS = ("tokens_in", "tokens_out", "usd", "seconds")
_SPENT = {*_COSTS, "model", "prompt_id"}


def mark_fact(key: str, said: str = "", *, question: str = "", highest: int = HIGHEST) -> Fact:
    """Return the fact that asks for one mark from 0 to ``highest``.

    ``said`` is the text, for consistency alone; ``question`` replaces that of direct scoring.
    """
    marks = tuple(map(str, range(highest + 1)))
    return Fact(
        id=f"direct:{key}",
        kind="object",
        subject="picture",
        key=key,
        statement=said or key,
        question=question or _QUESTIONS[key].replace("{text}", said),
        options=marks,
        expected=marks[-1],
    )


@dataclass(frozen=True)
class ChatRater:
    """Judge of the facts of :func:`mark_fact`: a language model that takes pictures.

    Implements :class:`~scenewright.core.ports.judge.Judge`.
    """

    chat: BaseChatModel
    """The language model."""
    preparation: ImagePreparation = field(default_factory=ImagePreparation)
    """What is done to the picture before it is sent."""

    @property
    def id(self) -> str:
        """That of the model, ``account:model``."""
        return name_of(self.chat)

    @cached_property
    def fingerprint(self) -> str:
        """Model and its settings, prompts, and the picture's preparation."""
        prompts = [load_prompt(prompt_id).hash for prompt_id in MARKS_OF]
        return f"rater@1 {self.id}#{digest_of(self.chat, *prompts, repr(self.preparation))}"

    @property
    def caps(self) -> JudgeCaps:
        """The caller of its account bounds each call."""
        return JudgeCaps(
            facts_per_call=len(_QUESTIONS),
            probability="verbalized",
            max_side=self.preparation.max_side,
            local=False,
            structured="tool",
            bounds_calls=True,
        )

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        """Answer as the port says: one call for each prompt whose marks are asked for."""
        wanted = [
            (prompt_id, tuple(fact for fact in facts if fact.key in keys))
            for prompt_id, keys in MARKS_OF.items()
        ]
        given = await asyncio.gather(
            *(self._rated(image, prompt_id, asked) for prompt_id, asked in wanted if asked)
        )
        found = {answer.fact_id: answer for answers in given for answer in answers}
        return [found.get(f.id) or unscored(self.id, [f], "is not a mark")[0] for f in facts]

    async def aclose(self) -> None:
        """Close the model's connections where it has some."""
        close = getattr(self.chat, "aclose", None)
        if close is not None:
            await close()

    async def _rated(
        self, image: Image.Image, prompt_id: str, facts: Sequence[Fact]
    ) -> list[Answer]:

        prompt = load_prompt(prompt_id)
        text = prompt.render(**({"text": as_data(facts[0].statement)} if prompt.variables else {}))
        started = time.perf_counter()
        marks: dict[str, float] = {}
        failure = why = ""
        with metered() as spent:
            try:
                picture = await prepare(image, self.preparation)
                asked = HumanMessage(content=[picture.block, {"type": "text", "text": text}])
                reply = await ask_for(
                    self.chat,
                    [asked],
                    tool_of(prompt),
                    lambda data: read_marks(data, MARKS_OF[prompt_id]),
                )
                marks, why = reply.value
            except Exception as error:
                # A call that fails costs its own marks, not those of the other prompt.
                failure = error_text(error)
        seconds = spent.seconds if spent.calls else time.perf_counter() - started
        numbers = (spent.usage.tokens_in, spent.usage.tokens_out, spent.usd, seconds)
        first = dict(zip(_COSTS, numbers, strict=True))
        given = (
            unscored(self.id, facts, failure)
            if failure
            else [
                _answer(fact, self.id, marks[str(fact.key)], "verbalized", prompt, why)
                for fact in facts
            ]
        )
        # One call is paid once, whatever number of marks it gave.
        return [given[0].model_copy(update=first), *given[1:]]


@dataclass(frozen=True)
class OptionRater:
    """Judge of the facts of :func:`mark_fact`: a judge that chooses among options.

    Implements :class:`~scenewright.core.ports.judge.Judge`.
    """

    judge: Judge

    @property
    def id(self) -> str:
        """The judge's."""
        return self.judge.id

    @cached_property
    def fingerprint(self) -> str:
        """Of the judge, and the way in which marks are read."""
        return f"option rater@1 {self.judge.fingerprint}"

    @property
    def caps(self) -> JudgeCaps:
        """The judge's."""
        return self.judge.caps

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        """Answer as the port says; a fact is a question a mark where there are probabilities."""
        if self.caps.probability != "logprob":
            given = await self.judge.answer(image, facts)
            return [self._marked(fact, said) for fact, said in zip(facts, given, strict=True)]
        asked = [
            fact.model_copy(update={"id": f"{fact.id}={mark}", "expected": mark})
            for fact in facts
            for mark in fact.options
        ]
        marks = iter(await self.judge.answer(image, asked))
        return [self._expected(fact, [next(marks) for _ in fact.options]) for fact in facts]

    async def aclose(self) -> None:
        """Leave the judge open: its owner closes it."""

    def _marked(self, fact: Fact, said: Answer) -> Answer:
        """Return the mark of one answer: by the probability of each, or the one that was chosen."""
        if self.caps.probability == "decision":
            if said.distribution is None:
                why = said.reason or "gave no probability of each mark"
                return unscored(self.id, [fact], why)[0]
            mark = sum(float(option) * share for option, share in said.distribution.items())
        elif said.state not in ("yes", "no") or said.choice not in fact.options:
            return unscored(self.id, [fact], said.reason or "chose no mark")[0]
        else:
            mark = float(said.choice)
        method = "decision" if self.caps.probability == "decision" else "verbalized"
        found = _answer(fact, self.id, mark, method, None, said.rationale)
        return found.model_copy(update=said.model_dump(include=_SPENT))

    def _expected(self, fact: Fact, given: Sequence[Answer]) -> Answer:
        silent = next((a for a in given if a.probability is None), None)
        total = sum(a.probability or 0.0 for a in given)
        if silent is not None or total <= 0.0:
            why = "" if silent is None else silent.reason
            return unscored(self.id, [fact], why or "gave no probability of each mark")[0]
        mark = sum(at * (a.probability or 0.0) for at, a in enumerate(given)) / total
        spent: dict[str, Any] = {name: sum(getattr(a, name) for a in given) for name in _COSTS}
        named = {"model": given[0].model, "prompt_id": given[0].prompt_id}
        return _answer(fact, self.id, mark, "logprob", None, "").model_copy(update=spent | named)


def rater_of(spec: str, settings: Settings) -> Judge:
    """Return the rater of the name ``ACCOUNT:MODEL``.

    That is a language model where the account's provider has them, else a judge. Raises
    ``SettingsError`` and ``JudgeError`` as ``build_judge``.
    """
    kind, model = split_judge(spec)
    if kind in (*JUDGE_KINDS, DECISION_KIND):
        return OptionRater(build_judge(spec, settings))
    chat = build_chat(spec, settings, role="grader")
    if kind in CHAT_KINDS:
        return ChatRater(chat)
    account = settings.account(kind)
    caps = caps_of(account.provider, model, account.models.get(model, {}))
    return ChatRater(chat, caps.preparation)


def read_marks(data: Mapping[str, Any], keys: Sequence[str]) -> tuple[dict[str, float], str]:
    """Return the marks of ``keys`` in the arguments of a tool, and its reasons.

    Raises ``ValueError`` for a mark that is missing, no number, or out of range.
    """
    found: dict[str, float] = {}
    for key in keys:
        given = data.get(key)
        try:
            mark = float(given) if isinstance(given, int | float | str) else float("nan")
        except ValueError:
            mark = float("nan")
        # Of nan both comparisons are false.
        if isinstance(given, bool) or not 0.0 <= mark <= HIGHEST:
            raise ValueError(f"{key}: write a number from 0 to {HIGHEST}")
        found[key] = mark
    return found, str(data.get("reasoning") or "")


def _answer(
    fact: Fact, judge: str, mark: float, method: Any, prompt: Prompt | None, why: str
) -> Answer:
    share = min(1.0, mark / (len(fact.options) - 1))
    return Answer(
        fact_id=fact.id,
        judge_id=judge,
        # The port's two states; a mark of the middle is no vote for the picture.
        state="yes" if share > 0.5 else "no",
        probability=share,
        method=method,
        rationale=why,
        prompt_id="" if prompt is None else prompt.ref,
    )


class DirectScore(PanelMetric):
    """Implements :class:`~scenewright.evals.metrics.base.ItemMetric`."""

    name = "direct"

    def __init__(self, bench: MetricJudges, *, quality: bool = True) -> None:
        """Score with the judges of ``bench``, which answer the facts of :func:`mark_fact`.

        ``quality``: whether perceptual quality counts; without it the score is SC / 10.
        """
        super().__init__(bench)
        self._quality = switch("quality", quality)

    def wording(self) -> str:
        """Return whether quality counts."""
        return f"quality={self._quality}"

    async def facts_for(self, sample: Sample) -> Sequence[Fact]:
        """Return one mark for consistency, and two for quality."""
        said = " ".join(sample.prompt.split())
        if not said:
            raise MetricError("the item has no text to rate the picture by")
        looks = (NATURALNESS, ARTIFACTS) if self._quality else ()
        return (mark_fact(CONSISTENCY, said), *(mark_fact(key) for key in looks))

    def reduce(self, facts: Sequence[Fact], likely: Array) -> float | None:
        """Return O / 10; None where a mark is missing."""
        if np.isnan(likely).any():
            return None
        consistency = float(likely[0])
        return math.sqrt(consistency * float(likely[1:].min())) if self._quality else consistency

    def noted(
        self, facts: Sequence[Fact], answers: Mapping[str, Sequence[Answer]], likely: Array
    ) -> dict[str, float | None]:
        """Return the aggregator's marks by name, each 0 to 10."""
        return {
            str(fact.key): None if np.isnan(tenth) else HIGHEST * float(tenth)
            for fact, tenth in zip(facts, likely, strict=True)
        }


def make(
    settings: Settings | None,
    quality: Any = True,
    **voting: Any,
) -> DirectScore:
    """Make the metric of the registry; raises ``MetricError`` for a wrong option."""
    bench = metric_judges_of(DirectScore.name, settings, **voting, made_by=rater_of)
    return DirectScore(bench, quality=quality)
