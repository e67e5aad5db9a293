"""Replay of cascades on recorded answers: the calls they save, and how their verdicts differ.

In a cascade (:mod:`scenewright.agents.panel.cascade`) cheap judges answer first, and the others
only the facts of which these are unsure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field

import numpy as np

from scenewright.agents.panel.aggregation import cohen_kappa
from scenewright.agents.panel.cascade import unsure_facts
from scenewright.agents.panel.panel import Panel, next_wave, void_verdicts
from scenewright.config.profiles import CascadeSpec
from scenewright.core.facts import (
    Answer,
    Fact,
    FactError,
    FactKind,
    State,
    Verdict,
    resolve_verdicts,
)
from scenewright.core.ports.judge import unscored


@dataclass(frozen=True, slots=True)
class AskingCost:
    """Cost of asking judges."""

    calls: int = 0
    """Times that a judge was asked facts of one picture in one wave."""
    answers: int = 0
    """Facts asked, summed over judges."""
    tokens: int = 0
    """Tokens of these answers, in and out."""
    usd: float = 0.0
    """Their cost in US dollars."""

    def __add__(self, other: AskingCost) -> AskingCost:
        return AskingCost(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True, slots=True)
class CascadeReport:
    """A cascade against the full panel on the same answers."""

    full: AskingCost = AskingCost()
    """Cost of the full panel."""
    cascade: AskingCost = AskingCost()
    """Cost of the cascade. An answer's tokens are its share of the call; a call with fewer facts
    still shows the whole picture, so the real saving of tokens is between that of calls and that of
    answers.
    """
    states: Mapping[tuple[FactKind, State, State], int] = field(default_factory=dict)
    """Number of facts by kind, verdict of the full panel and verdict of the cascade."""

    def __add__(self, other: CascadeReport) -> CascadeReport:
        states = Counter(self.states) + Counter(other.states)
        return CascadeReport(self.full + other.full, self.cascade + other.cascade, states)

    @property
    def saved(self) -> dict[str, float | None]:
        """Share of ``calls``, ``answers``, ``tokens`` and ``usd`` that was saved; None of nothing.

        Negative where the cascade asked more, as for facts of objects that only it found.
        """
        full, cascade = asdict(self.full), asdict(self.cascade)
        return {name: 1.0 - cascade[name] / n if n else None for name, n in full.items()}

    def agreement(self, kind: FactKind | None = None) -> float | None:
        """Return the share of facts with equal verdicts, of a kind or all; None without facts."""
        rows = {row: n for row, n in self.states.items() if kind in (None, row[0])}
        same = sum(n for (_, full, cascade), n in rows.items() if full == cascade)
        return same / sum(rows.values()) if rows else None

    def kappa(self, kind: FactKind | None = None) -> float | None:
        """Return Cohen's κ of holding (yes) and not (no, void).

        Unscored facts are left out. None if undefined.
        """
        votes = [
            (full == "yes", cascade == "yes")
            for (one, full, cascade), n in self.states.items()
            if kind in (None, one) and "unscored" not in (full, cascade)
            for _ in range(n)
        ]
        kappa = cohen_kappa(*np.array(votes, float).reshape(-1, 2).T)
        return None if np.isnan(kappa) else kappa


def replay_cascade(
    facts: Sequence[Fact],
    answers_by_judge: Mapping[str, Sequence[Answer]],
    spec: CascadeSpec,
    panel: Panel,
) -> CascadeReport:
    """Simulate a cascade on one image whose answers are all known.

    ``facts`` list parents before their children. ``answers_by_judge`` should hold every judge's
    answer to every fact, to those of absent objects too: an answer that is not there counts as
    unscored. The reports of many pictures add up. Raises ``FactError`` if a first judge has no
    answers or nobody else has, and as :meth:`Panel.verdicts`.
    """
    strangers = [judge for judge in spec.first if judge not in answers_by_judge]
    if strangers:
        raise FactError(f"no answers by {', '.join(strangers)}, with whom the cascade begins")
    if not set(answers_by_judge) - set(spec.first):
        raise FactError("the cascade begins with all judges who answered: nothing to compare")
    table = {
        judge: {answer.fact_id: answer for answer in answers}
        for judge, answers in answers_by_judge.items()
    }
    by_all, full = _ask_in_waves(facts, table, None, panel)
    by_some, cascade = _ask_in_waves(facts, table, spec, panel)
    return CascadeReport(
        full,
        cascade,
        Counter((fact.kind, by_all[fact.id].state, by_some[fact.id].state) for fact in facts),
    )


def _ask_in_waves(
    facts: Sequence[Fact],
    table: Mapping[str, Mapping[str, Answer]],
    spec: CascadeSpec | None,
    panel: Panel,
) -> tuple[dict[str, Verdict], AskingCost]:
    """Return the verdicts and the cost of asking wave by wave.

    Without ``spec`` all judges are asked everything.
    """
    known: dict[str, Verdict] = {}
    answers: dict[str, list[Answer]] = {judge: [] for judge in table}
    cost = AskingCost()

    def ask(judges: Iterable[str], asked: Sequence[Fact]) -> None:
        nonlocal cost
        for judge in judges:
            new = [
                table[judge].get(fact.id) or unscored(judge, (fact,), "not in the record")[0]
                for fact in asked
            ]
            answers[judge] += new
            tokens = sum(answer.tokens_in + answer.tokens_out for answer in new)
            cost += AskingCost(1, len(new), tokens, sum(answer.usd for answer in new))

    while wave := next_wave(facts, known):
        if spec is None:
            ask(table, wave)
        else:
            ask(spec.first, wave)
            first = {judge: answers[judge] for judge in spec.first}
            unsure = unsure_facts(wave, panel.verdicts(wave, first, known), spec, panel)
            if unsure:
                ask((judge for judge in table if judge not in spec.first), unsure)
        verdicts = panel.verdicts(wave, answers, known, missing_means="unasked")
        known |= {verdict.fact_id: verdict for verdict in verdicts}
        known |= {verdict.fact_id: verdict for verdict in void_verdicts(facts, known)}
    return resolve_verdicts(facts, known), cost
