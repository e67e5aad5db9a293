"""Metrics of questions about a text: TIFA, DSG, Soft-TIFA, VQAScore, and their blind baseline.

TIFA (Hu et al., ICCV 2023) is the share of questions that a picture answers as its text does.
Questions are yes/no or multiple choice and do not depend on each other. The published code lets a
visual question answering model answer freely and takes the choice that a sentence model finds
nearest; judges here are given the choices.

DSG (Cho et al., ICLR 2024) is the share of a graph of yes/no questions that a picture answers with
yes, where nothing counts whose parent was denied. Each voter's parents are its own: a judge that
sees no motorcycle gets nothing for saying that it is blue. A question under a void one is void too;
the published code looks at the parent's own answer alone.

Soft-TIFA (GenEval 2, Kamath et al., 2025) takes means of the probabilities of the right answers.
The arithmetic mean over a prompt's questions says how many of its atoms a picture shows (Soft-TIFA
AM); the geometric mean says whether it shows all of them, since one that is missing pulls it to
nothing (Soft-TIFA GM). Questions do not depend on each other: nothing is void.

VQAScore (Lin et al., 2024) is P("Yes") to one question about the whole text. The question is the
paper's, ``Does this figure show "{text}"? Please answer yes or no.``; every judge gets the last
sentence in the words of its own prompt. A local judge's probability is read from the next token and
normalised over yes and no; the published code takes P("Yes") of all tokens, which is the same but
for what the model leaves to other words.

The blind baseline is the RelationRecall of a text-only chat model that answers relation questions
without the picture; chance is one in the number of options. It is the same for all pictures of an
item, so the model is asked once an item and its reply is kept. The baseline by counts needs no
model and no metric: see :mod:`scenewright.evals.reporting.blind`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from string import ascii_uppercase
from typing import Any, TypeVar

import numpy as np

from scenewright.agents.chat.language_replies import as_data
from scenewright.agents.panel.aggregation import Array
from scenewright.agents.panel.panel import THRESHOLD
from scenewright.config.settings import Settings, load_settings
from scenewright.core.facts import Answer, Fact, reported_kinds
from scenewright.evals.annotation.panel_queries import TextModel, text_model_of
from scenewright.evals.metrics.base import (
    MetricError,
    MetricScore,
    Need,
    Sample,
    cache_folder,
    text,
)
from scenewright.evals.store.ledger import Ledger
from scenewright.evals.studies.peers.panel_metric import (
    FOLDER,
    MetricJudges,
    PanelMetric,
    metric_judges_of,
)
from scenewright.evals.studies.peers.questions import (
    DsgMaker,
    QuestionSource,
    Steps,
    TifaMaker,
    expected_steps,
    ledger_in,
    numbered_rows,
    rows_in,
)
from scenewright.prompts import load_prompt
from scenewright.providers.usage import ExpectedUsage, metered

T = TypeVar("T")
COUNTS = ("choices", "probabilities")


class QuestionMetric(PanelMetric):
    """A metric of questions about an item."""

    asks_scenes = True
    """Its scores depend on what wrong options come from."""

    needs: frozenset[Need] = frozenset({"image"})

    def __init__(self, bench: MetricJudges, asker: QuestionSource, count: str = "choices") -> None:
        """Ask the questions of ``asker``; ``count`` is one of :data:`COUNTS`.

        Raises ``MetricError`` for another.
        """
        super().__init__(bench)
        self._asker = asker
        self._count = text("count", count, COUNTS)

    def wording(self) -> str:
        """Return the questions' source, and whether choices or probabilities count."""
        return f"{self._count} {self._asker.fingerprint}"

    async def facts_for(self, sample: Sample) -> Sequence[Fact]:
        """Return the questions that the source chooses."""
        return (await self._asker.of(sample)).facts

    async def expected(self, sample: Sample, size: tuple[int, int]) -> dict[str, ExpectedUsage]:
        """Return the expected calls of the judges and of the model that writes the questions.

        Questions are written once an item, so that further pictures of an item take less.
        """
        try:
            facts, writing = await self._asker.planned(sample)
        except MetricError:
            return {}
        found = self.looking(facts, size)
        for who, one in writing.items():
            found[who] = found.get(who, ExpectedUsage()) + one
        return found

    async def answered(
        self, sample: Sample
    ) -> tuple[tuple[Fact, ...], Mapping[str, Sequence[Answer]]]:
        """Return the questions about a picture, and by judge id the answers in the same order.

        Raises ``MetricError`` as :meth:`facts_for` does.
        """
        facts = tuple(await self.facts_for(sample))
        return facts, await self._answers(sample, facts)

    async def score(self, sample: Sample) -> MetricScore:
        """Return the score of a panel's metric, with more parts.

        ``dropped`` counts a model's questions that could not be used, ``dropped:WHY`` those of each
        reason; ``questions_usd`` and ``questions_tokens`` are what writing took, once for all
        pictures of the item. Questions that could not be written are tried for each picture: what
        that took is the score's own.
        """
        with metered() as spent:
            found = await super().score(sample)
        if not found.parts:
            took = {
                "tokens_in": spent.usage.tokens_in,
                "tokens_out": spent.usage.tokens_out,
                "usd": spent.usd,
            }
            return found.model_copy(update=took)
        asked = await self._asker.of(sample)
        lost: dict[str, float | None] = {"dropped": float(sum(asked.dropped.values()))}
        lost |= {f"dropped:{why}": float(n) for why, n in sorted(asked.dropped.items())}
        if asked.source == "chat":
            lost |= {"questions_usd": asked.usd, "questions_tokens": float(asked.tokens)}
        return found.model_copy(update={"parts": {**found.parts, **lost}})

    async def _answers(self, sample: Sample, facts: tuple[Fact, ...]) -> Mapping[str, list[Answer]]:
        answers = await super()._answers(sample, facts)
        if self._count == "probabilities":
            return answers
        # Without its probability an answer is the choice that was made.
        return {
            judge: [answer.model_copy(update={"probability": None}) for answer in given]
            for judge, given in answers.items()
        }


def _writer(
    chat: Any,
    settings: Settings,
    options: Mapping[str, Any],
    make: Callable[[Ledger, TextModel], T],
) -> T | None:
    """Return what ``make`` makes of the model ``chat`` and its kept replies; None without one."""
    if chat is None:
        return None
    model = text_model_of(text("chat", chat), settings, "questions")
    return make(ledger_in(cache_folder(options.get("folder"), FOLDER)), model)


class Tifa(QuestionMetric):
    """Implements :class:`~scenewright.evals.metrics.base.ItemMetric`."""

    name = "tifa"
    maker = 2

    def reduce(self, facts: Sequence[Fact], likely: Array) -> float | None:
        """Return :func:`tifa_score`."""
        return tifa_score(likely)

    def noted(
        self, facts: Sequence[Fact], answers: Mapping[str, Sequence[Answer]], likely: Array
    ) -> dict[str, float | None]:
        """Return :func:`by_type`."""
        return by_type(facts, likely)


def by_type(facts: Sequence[Fact], likely: Array) -> dict[str, float | None]:
    """Return the means of the probabilities (n_facts,) by type of question, and their numbers.

    Parts: ``type:NAME`` is the mean over the answered questions of a type (the fact's key, else its
    kind), ``answered:NAME`` their number, so that questions of several pictures can be pooled.
    """
    types = np.array([fact.key or fact.kind for fact in facts])
    parts: dict[str, float | None] = {}
    for name in sorted(set(types.tolist())):
        mine = likely[(types == name) & ~np.isnan(likely)]
        parts |= {f"type:{name}": tifa_score(mine), f"answered:{name}": float(len(mine))}
    return parts


def tifa_score(likely: Array) -> float | None:
    """Return the mean of ``likely`` (n_questions,) without NaN; None without any.

    NaN is a question without an answer.
    """
    known = likely[~np.isnan(likely)]
    return float(known.mean()) if len(known) else None


def make_tifa(
    settings: Settings | None,
    questions: Any = "auto",
    chat: Any = None,
    filter: Any = "choice",
    protocol: Any = "scene-bench",
    order: Any = "dealt",
    count: Any = "choices",
    **voting: Any,
) -> Tifa:
    """Make the metric of the registry; raises ``MetricError`` for a wrong option."""
    here = settings or load_settings()
    text("order", order, ("dealt", "given"))
    maker = _writer(chat, here, voting, lambda *by: TifaMaker(by[0], by[1], filter))
    asker = QuestionSource(questions, maker, protocol, shuffled=order == "dealt")
    return Tifa(metric_judges_of(Tifa.name, here, **voting), asker, count)


DEPENDENCIES = ("chain", "parents")


class Dsg(QuestionMetric):
    """Implements :class:`~scenewright.evals.metrics.base.ItemMetric`."""

    name = "dsg"

    def __init__(
        self,
        bench: MetricJudges,
        asker: QuestionSource,
        count: str = "choices",
        dependency: str = "chain",
    ) -> None:
        """Ask the questions of ``asker``; ``dependency`` is one of :data:`DEPENDENCIES`.

        Raises ``MetricError`` for another.
        """
        super().__init__(bench, asker, count)
        self._chain = text("dependency", dependency, DEPENDENCIES) == "chain"

    def wording(self) -> str:
        """Return the questions' source, and whose denial makes a question void."""
        said = super().wording()
        return said if self._chain else f"parents {said}"

    def reduce(self, facts: Sequence[Fact], likely: Array) -> float | None:
        """Return :func:`dsg_score`."""
        return dsg_score(facts, likely, self._chain)

    def noted(
        self, facts: Sequence[Fact], answers: Mapping[str, Sequence[Answer]], likely: Array
    ) -> dict[str, float | None]:
        """Return the aggregator's means by kind of fact, and how many facts are void.

        Parts: ``kind:object``, ``kind:attribute``, ``kind:relation``, other kinds that are asked,
        and ``void``.
        """
        kept = voided(facts, likely, self._chain)
        kinds = np.array([fact.kind for fact in facts])
        parts: dict[str, float | None] = {}
        for kind in reported_kinds(fact.kind for fact in facts):
            mine = kept[(kinds == kind) & ~np.isnan(kept)]
            parts[f"kind:{kind}"] = float(mine.mean()) if len(mine) else None
        return {**parts, "void": float(len(void_rows(facts, likely, self._chain)))}


def dsg_score(facts: Sequence[Fact], likely: Array, chain: bool = True) -> float | None:
    """Return the mean of ``likely`` (n_facts,) over facts that were answered or are void.

    Void facts count 0. None where nothing was answered. Order of ``facts``, NaN and ``chain``: see
    :func:`voided` and :func:`void_rows`.
    """
    if np.isnan(likely).all():
        return None
    return float(np.nanmean(voided(facts, likely, chain)))


def voided(facts: Sequence[Fact], likely: Array, chain: bool = True) -> Array:
    """Return ``likely`` (n_facts,) with 0 for every fact that is void.

    ``facts`` lists parents before their children. A parent without an answer (NaN) voids
    nothing, and neither does one that is not among the facts.
    """
    found = np.array(likely, float)
    found[void_rows(facts, likely, chain)] = 0.0
    return found


def void_rows(facts: Sequence[Fact], likely: Array, chain: bool = True) -> list[int]:
    """Return the rows of the facts under a parent that is void itself or not above ½.

    Without ``chain`` a void parent voids nothing: only its own answer counts, as in the published
    code of DSG and OneIG-Bench. It is then all the same in which order ``facts`` are.
    """
    row_of = {fact.id: row for row, fact in enumerate(facts)}
    denied = set(np.flatnonzero(likely <= THRESHOLD).tolist())
    void: list[int] = []
    for row, fact in enumerate(facts):
        if any(row_of.get(parent) in denied for parent in fact.parents):
            void.append(row)
            if chain:
                denied.add(row)
    return void


def make_dsg(
    settings: Settings | None,
    questions: Any = "auto",
    chat: Any = None,
    # The questions of scene-bench do not depend on each other, and this score does on that.
    protocol: Any = "grounded",
    count: Any = "choices",
    dependency: Any = "chain",
    **voting: Any,
) -> Dsg:
    """Make the metric of the registry; raises ``MetricError`` for a wrong option."""
    here = settings or load_settings()
    asker = QuestionSource(questions, _writer(chat, here, voting, DsgMaker), protocol)
    return Dsg(metric_judges_of(Dsg.name, here, **voting), asker, count, dependency)


MEANS = ("arithmetic", "geometric")


class SoftTifa(QuestionMetric):
    """Implements :class:`~scenewright.evals.metrics.base.ItemMetric`."""

    name = "soft_tifa"
    maker = 3

    def __init__(
        self, bench: MetricJudges, asker: QuestionSource, mean: str = "arithmetic"
    ) -> None:
        """Ask the questions of ``asker``; ``mean`` is one of :data:`MEANS`.

        Raises ``MetricError`` for another.
        """
        super().__init__(bench, asker, "probabilities")
        self._mean = text("mean", mean, MEANS)

    def wording(self) -> str:
        """Return the mean, and the questions' source."""
        return f"{self._mean} {super().wording()}"

    def reduce(self, facts: Sequence[Fact], likely: Array) -> float | None:
        """Return the mean; see :func:`soft_tifa` for unscored questions."""
        return soft_tifa(likely, self._mean)

    def noted(
        self, facts: Sequence[Fact], answers: Mapping[str, Sequence[Answer]], likely: Array
    ) -> dict[str, float | None]:
        """Return both means by the aggregator, as ``am`` and ``gm``, and :func:`by_type`."""
        means = {"am": soft_tifa(likely, "arithmetic"), "gm": soft_tifa(likely, "geometric")}
        return means | by_type(facts, likely)


def soft_tifa(likely: Array, mean: str = "arithmetic") -> float | None:
    """Return the arithmetic or ``geometric`` mean of the probabilities (n_facts,).

    NaN is a fact without an answer.

    The arithmetic mean is that of the others, None without any. The geometric one says whether all
    hold, which an unknown answer leaves open: None, unless one that is known is 0 already.
    """
    known = likely[~np.isnan(likely)]
    if mean == "geometric" and len(known) < len(likely):
        return 0.0 if (known == 0.0).any() else None
    if not len(known):
        return None
    if mean == "arithmetic":
        return float(known.mean())
    with np.errstate(divide="ignore"):
        return float(np.exp(np.log(known).mean()))


def make_soft_tifa(
    settings: Settings | None,
    mean: Any = "arithmetic",
    questions: Any = "auto",
    chat: Any = None,
    protocol: Any = "scene-bench",
    **voting: Any,
) -> SoftTifa:
    """Make the metric of the registry; raises ``MetricError`` for a wrong option."""
    here = settings or load_settings()
    bench = metric_judges_of(SoftTifa.name, here, **voting)
    # The questions that TIFA filters: of one model and folder they are written once for both.
    maker = _writer(chat, here, voting, TifaMaker)
    return SoftTifa(bench, QuestionSource(questions, maker, protocol, shuffled=True), mean)


TEMPLATE = 'Does this figure show "{text}"?'
_TEXT = "{text}"


class VqaScore(PanelMetric):
    """Implements :class:`~scenewright.evals.metrics.base.ItemMetric`: one fact a picture."""

    name = "vqascore"

    def __init__(self, bench: MetricJudges, template: str = TEMPLATE) -> None:
        """Ask ``template``, in which ``{text}`` is replaced by the item's text.

        Raises ``MetricError`` for a template without ``{text}``.
        """
        super().__init__(bench)
        if _TEXT not in text("template", template):
            raise MetricError(f"template is {template!r}: put {_TEXT} where the text goes")
        self._template = template

    def wording(self) -> str:
        """Return the template."""
        return self._template

    async def facts_for(self, sample: Sample) -> Sequence[Fact]:
        """Return the one question about the sample's text."""
        said = " ".join(sample.prompt.split())
        if not said:
            raise MetricError("the item has no text to ask about")
        question = self._template.replace(_TEXT, said)
        return (
            Fact(
                id=f"{self.name}:text",
                kind="object",
                subject="picture",
                statement=said,
                question=question,
            ),
        )

    def reduce(self, facts: Sequence[Fact], likely: Array) -> float | None:
        """Return the probability of yes."""
        return None if np.isnan(likely[0]) else float(likely[0])

    def noted(
        self, facts: Sequence[Fact], answers: Mapping[str, Sequence[Answer]], likely: Array
    ) -> dict[str, float | None]:
        """Return the number of judges (``bare``) that gave no probability; they score 1 or 0."""
        usable = [a for given in answers.values() for a in given if a.state in ("yes", "no")]
        return {"bare": float(sum(a.probability is None or a.method == "binary" for a in usable))}


def make_vqascore(
    settings: Settings | None,
    template: Any = TEMPLATE,
    **voting: Any,
) -> VqaScore:
    """Make the metric of the registry; raises ``MetricError`` for a wrong option."""
    bench = metric_judges_of(VqaScore.name, settings, **voting)
    return VqaScore(bench, text("template", template))


PROMPT = "blind_relations"
UNKNOWN_OPTION = "the answer is not one of the options"


class Blind:
    """Implements :class:`~scenewright.evals.metrics.base.ItemMetric`."""

    name = "blind"
    higher_is_better = False
    needs: frozenset[Need] = frozenset({"judges"})

    def __init__(self, ledger: Ledger, model: TextModel) -> None:
        """Keep the replies of ``model`` in ``ledger``."""
        self._ledger = ledger
        self._model = model
        self._locks: dict[str, asyncio.Lock] = {}

    @property
    def version(self) -> str:
        """Number, model and prompt."""
        return f"1:{self._model.fingerprint}:{load_prompt(PROMPT).hash}"

    async def expected(self, sample: Sample, size: tuple[int, int]) -> Mapping[str, ExpectedUsage]:
        """Return one call an item; nothing where no relation is asked for."""
        asked = _relations(sample.facts)
        return expected_steps(self._model, (PROMPT,), _shown(asked)) if asked else {}

    async def score(self, sample: Sample) -> MetricScore:
        """Return the share of relation questions that the model guesses right.

        ``chance`` is a part: what guessing at random gets. Unscored where no relation is asked
        for; raises ``MetricError`` where the model leaves a question out or cannot be asked.
        """
        asked = _relations(sample.facts)
        if not asked:
            return MetricScore(value=None, reason="no relation is asked for")
        shown = _shown(asked)
        steps = Steps(self._ledger, self._model)
        async with self._locks.setdefault(shown, asyncio.Lock()):
            said = await steps.ask(PROMPT, _reader(asked), questions=shown)
        right = [said[str(at)] == fact.expected for at, fact in enumerate(asked, start=1)]
        chance = sum(1.0 / len(fact.options) for fact in asked) / len(asked)
        return MetricScore(
            value=sum(right) / len(right),
            parts={"chance": chance},
            tokens_in=steps.tokens,
            usd=steps.usd,
        )


def make_blind(settings: Settings | None, chat: Any = None, folder: Any = None) -> Blind:
    """Make the metric of the registry.

    Raises ``MetricError`` without a model or for a wrong option.
    """
    found = _writer(chat, settings or load_settings(), {"folder": folder}, Blind)
    if found is None:
        raise MetricError('blind needs a language model: name one, chat = "ACCOUNT:MODEL"')
    return found


def _relations(facts: Sequence[Fact]) -> list[Fact]:
    return [fact for fact in facts if fact.kind == "relation" and not fact.is_binary]


def _shown(asked: Sequence[Fact]) -> str:
    return as_data(
        [
            {
                "number": at,
                "question": fact.question,
                "options": dict(zip(ascii_uppercase, fact.options, strict=False)),
            }
            for at, fact in enumerate(asked, start=1)
        ]
    )


def _reader(asked: Sequence[Fact]) -> Any:
    def read(given: Mapping[str, Any], counted: Counter[str]) -> dict[str, str]:
        lost: Counter[str] = Counter()
        rows = rows_in(given, "answers", lost)
        found: dict[str, str] = {}
        for number, row in numbered_rows(rows, "number", range(1, len(asked) + 1), lost).items():
            options = asked[number - 1].options
            letter = str(row.get("option")).strip().rstrip(").").upper()
            at = ascii_uppercase.find(letter) if len(letter) == 1 else -1
            if 0 <= at < len(options):
                found[str(number)] = options[at]
            else:
                lost[UNKNOWN_OPTION] += 1
        if lost:
            # An incomplete reply is no reply: it is asked for again, and not kept.
            raise ValueError("; ".join(f"{why} ({n} times)" for why, n in lost.items()))
        return found

    return read
