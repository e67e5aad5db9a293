"""What the peers' metrics share: a panel answers facts, and every voter's answers make a score.

A *voter* is one judge alone, or an aggregator over all of them. All facts of a picture go to every
judge at once, so that each voter's void facts follow from its own answers, as they do where a
metric is published for one judge; one run then gives metric × judge × aggregator.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.agents.panel.answer_arrays import answer_table
from scenewright.agents.panel.panel import Panel
from scenewright.config.settings import Settings, find_profile, load_settings
from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import Judge
from scenewright.evals.metrics.base import (
    MetricError,
    MetricScore,
    Need,
    Sample,
    cache_folder,
    names_in,
    spent_on,
    store_in,
    text,
)
from scenewright.evals.runner.judging import JudgePanel, judge_picture
from scenewright.evals.studies.panel.aggregators.registry import combined_by
from scenewright.evals.studies.panel.table import AnswerTable, FactRow, ImageRow, JudgeColumn
from scenewright.graphs.limits import expected_of
from scenewright.providers import AnswerStore
from scenewright.providers.usage import ExpectedUsage
from scenewright.runs.model_factory.profiles import build_judge

UNLABELLED = ("mean", "median", "trimmed", "majority", "dawid_skene")
"""Aggregators that need nothing but the answers to one picture."""
FOLDER = "peers"
"""Below the cache: answers and questions of all of these metrics."""
JUDGE, AGGREGATOR = "judge:", "aggregator:"
"""Begin the names of a score's parts by voter."""


@dataclass(frozen=True, slots=True)
class MetricJudges:
    """The judges of a metric, and where their answers are kept."""

    judges: tuple[Judge, ...]
    store: AnswerStore
    """Keeps the answers."""
    aggregator: str = "mean"
    """Which voter the metric's own value is."""
    limit: float | None = None
    """Seconds of one call of a judge."""


class PanelMetric(ABC):
    """An :class:`~scenewright.evals.metrics.base.ItemMetric` whose facts a panel answers."""

    name: str
    """As in configurations."""
    maker: int = 1
    """Raised when the same answers would make another score."""
    higher_is_better = True
    needs: frozenset[Need] = frozenset({"image", "prompt"})

    def __init__(self, bench: MetricJudges) -> None:
        """Score with the judges of ``bench``.

        Raises ``MetricError`` for an aggregator that is not one of :data:`UNLABELLED`.
        """
        self._bench = bench
        text("aggregator", bench.aggregator, UNLABELLED)

    @cached_property
    def version(self) -> str:
        """Maker's number, fingerprints of the judges, the aggregator, and :meth:`wording`."""
        told = json.dumps([sorted(j.fingerprint for j in self._bench.judges), self.wording()])
        digest = hashlib.sha256(told.encode()).hexdigest()[:16]
        return f"{self.maker}:{self._bench.aggregator}:{digest}"

    @property
    def judges(self) -> tuple[Judge, ...]:
        """The judges that are asked."""
        return self._bench.judges

    def wording(self) -> str:
        """Return what else a score depends on: ids and hashes of prompts, options."""
        return ""

    @abstractmethod
    async def facts_for(self, sample: Sample) -> Sequence[Fact]:
        """Return the facts asked about a picture, parents before their children.

        They are the same for the same item. Raises ``MetricError`` with the reason where nothing
        can be asked.
        """

    @abstractmethod
    def reduce(self, facts: Sequence[Fact], likely: Array) -> float | None:
        """Return the score of one voter from its probabilities (n_facts,).

        A probability is NaN where the voter gave no usable answer. None where there is no score.
        """

    def voted(self, facts: Sequence[Fact], votes: Array, said: Array) -> Array:
        """Return the probabilities of a single judge for :meth:`reduce`.

        A metric that counts what was chosen gives the choices instead.
        """
        return said

    def noted(
        self, facts: Sequence[Fact], answers: Mapping[str, Sequence[Answer]], likely: Array
    ) -> dict[str, float | None]:
        """Return parts of the metric's own.

        ``answers`` are the judges' own, ``likely`` (n_facts,) the probabilities of the metric's
        aggregator.
        """
        return {}

    async def expected(self, sample: Sample, size: tuple[int, int]) -> dict[str, ExpectedUsage]:
        """Return the expected calls of each judge that is not a model of this machine."""
        try:
            return self.looking(await self.facts_for(sample), size)
        except MetricError:
            return {}

    def looking(self, facts: Sequence[Fact], size: tuple[int, int]) -> dict[str, ExpectedUsage]:
        """Return by judge id what asking ``facts`` of a picture of ``size`` pixels takes.

        A judge that cannot say is one call of unknown price.
        """
        found = {}
        for judge in self._bench.judges:
            if hasattr(judge, "expected"):
                found[judge.id] = expected_of(judge, size, facts, "together")
            elif not judge.caps.local:
                found[judge.id] = ExpectedUsage(1, usd=None)
        return found

    async def score(self, sample: Sample) -> MetricScore:
        """Return the score by the aggregator.

        Parts: ``judge:ID`` and ``aggregator:NAME`` for every voter, ``facts``, ``unscored``
        (answers that could not be used), and those of :meth:`noted`. A value beside such answers is
        of the others.
        """
        try:
            facts = tuple(await self.facts_for(sample))
        except MetricError as error:
            return MetricScore(value=None, reason=str(error))
        if not facts:
            return MetricScore(value=None, reason="there is nothing to ask about this item")
        answers = await self._answers(sample, facts)
        table = table_of(sample, facts, answers, self._bench.judges)
        parts: dict[str, float | None] = {}
        for at, judge in enumerate(table.judge_ids):
            parts[f"{JUDGE}{judge}"] = self.reduce(
                facts, self.voted(facts, table.votes[:, at], table.said[:, at])
            )
        combined = combined_by(UNLABELLED, table)
        for name, likely in combined.items():
            parts[f"{AGGREGATOR}{name}"] = self.reduce(facts, likely)
        lost = int(np.isnan(table.said).sum())
        parts |= {"facts": float(len(facts)), "unscored": float(lost)}
        parts |= self.noted(facts, answers, combined[self._bench.aggregator])
        value = parts[f"{AGGREGATOR}{self._bench.aggregator}"]
        given = [answer for each in answers.values() for answer in each]
        reasons = [answer.reason for answer in given if answer.state == "unscored"]
        why = next(filter(None, reasons), "no judge gave a usable answer")
        told = why if value is None else f"{lost} of {table.said.size} answers unscored: {why}"
        reason = told if value is None or lost else ""
        return MetricScore(
            value=value, parts=parts, reason=reason, unscored=lost, **spent_on(given)
        )

    async def _answers(self, sample: Sample, facts: tuple[Fact, ...]) -> Mapping[str, list[Answer]]:

        judge_panel = JudgePanel(self.name, self._bench.judges, Panel())
        origin = f"{self.name}:{sample.image[:16]}:{self.version}"
        judged = await judge_picture(
            judge_panel, sample.image, sample.load, facts, store=self._bench.store,
            asking="together", limit=self._bench.limit, origin=origin,
        )  # fmt: skip
        return judged.answers


def table_of(
    sample: Sample,
    facts: Sequence[Fact],
    answers: Mapping[str, Sequence[Answer]],
    judges: Sequence[Judge],
) -> AnswerTable:
    """Return the answers about one picture as a table."""
    row_of = {fact.id: row for row, fact in enumerate(facts)}
    rows = tuple(
        FactRow(
            id=fact.id,
            image=0,
            kind=fact.kind,
            question=fact.question,
            parents=tuple(row_of[parent] for parent in fact.parents if parent in row_of),
        )
        for fact in facts
    )
    by_judge = {judge.id: {a.fact_id: a for a in answers.get(judge.id, ())} for judge in judges}
    said, votes = answer_table([fact.id for fact in facts], by_judge)
    return AnswerTable(
        name=sample.item.id,
        judges=tuple(JudgeColumn(judge.id, fingerprint=judge.fingerprint) for judge in judges),
        images=(ImageRow(sample.image, sample.item.id),),
        facts=rows,
        said=said,
        votes=votes,
        asked=np.ones(said.shape, bool),
    )


def metric_judges_of(
    name: str,
    settings: Settings | None,
    judges: Any = None,
    profile: Any = None,
    aggregator: Any = "mean",
    folder: Any = None,
    *,
    made_by: Callable[[str, Settings], Judge] | None = None,
) -> MetricJudges:
    """Return the judges that a metric's options name, else the profile's report judges.

    ``made_by`` makes a judge by its name (default: ``profiles.build_judge``). Raises
    ``MetricError`` for a wrong option and for a profile with judges for its loop alone, and
    ``SettingsError`` or ``JudgeError`` if a judge is not there.
    """
    here = settings or load_settings()
    if judges is not None and profile is not None:
        raise MetricError(f"{name}: give judges or a profile, not both")
    specs: Sequence[str] | None = None
    if judges is not None:
        specs = names_in("judges", judges, "use ACCOUNT:MODEL, or a list of such")
    chosen = text("aggregator", aggregator, UNLABELLED)
    if specs is None:
        wanted = here.profile if profile is None else text("profile", profile)
        found = find_profile(wanted, here)
        # The loop's own judges report only where the profile says so.
        specs = found.report_judges or (found.judges if found.self_report else ())
        if not specs:
            raise MetricError(
                f"{name}: the profile {wanted} has no report judges, and those of its loop must "
                "not report its pictures: name judges in the metric's options, or set self_report "
                "in the profile"
            )
    make = made_by or build_judge
    made = tuple(make(spec, here) for spec in specs)
    asked = tuple(judge for judge in made if judge.caps.kinds is None)
    if not asked:
        raise MetricError(f"{name} needs a judge that answers questions in words: name one")
    return MetricJudges(asked, store_in(cache_folder(folder, FOLDER)), chosen, here.judge_timeout)
