"""Cascades: cheap judges first, the others only for unsure facts; and a replay of savings.

In each wave all facts go to the first judges. Facts whose probability is within the bounds of
``unsure``, or within those that a calibration measured for the wanted ``risk``
(:mod:`~scenewright.agents.panel.guarantee`), go to the other judges as well, and so do unscored
ones (too few usable answers for the quorum). Of a choice, the probability is that against its
strongest rival (``Verdict.lead``). The verdict then comes from all judges who were asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from pydantic import Field

from scenewright.agents.panel.aggregation import cohen_kappa
from scenewright.agents.panel.guarantee import CascadeGuarantee
from scenewright.agents.panel.panel import Panel, next_wave, void_verdicts
from scenewright.agents.panel.rates import CalibrationError
from scenewright.config.profiles import CascadeSpec, SettingsError
from scenewright.core.facts import (
    Answer,
    Fact,
    FactError,
    FactKind,
    State,
    Verdict,
    resolve_verdicts,
)
from scenewright.core.ports.judge import Judge
from scenewright.core.validation import FiniteModel, FrozenModel


def unsure_facts(
    facts: Sequence[Fact],
    verdicts: Iterable[Verdict],
    spec: CascadeSpec,
    panel: Panel | None = None,
) -> tuple[Fact, ...]:
    """Return the facts for the other judges, after ``verdicts`` by the first ones alone.

    A fact without a verdict is unsure; a void one is not, since it needs no question. A
    ``spec`` with a risk takes its bounds from the calibration of ``panel``; ``CalibrationError``
    where there are none.
    """
    guarantee = guarantee_in(spec, panel)
    found = {verdict.fact_id: verdict for verdict in verdicts}

    def sure(fact: Fact) -> bool:
        verdict = found.get(fact.id)
        if verdict is None or verdict.state == "void":
            return verdict is not None
        low, high = spec.unsure if guarantee is None else guarantee.bounds(fact.kind)
        return verdict.lead is not None and not low <= verdict.lead <= high

    return tuple(fact for fact in facts if not sure(fact))


def guarantee_in(spec: CascadeSpec, panel: Panel | None) -> CascadeGuarantee | None:
    """Return the measured bounds of a ``spec`` with a risk; none without.

    Raises ``CalibrationError`` where the calibration of ``panel`` has none.
    """
    if spec.risk is None:
        return None
    if panel is None or panel.calibration is None:
        raise CalibrationError(
            f"a cascade with a risk of {spec.risk:g} needs a calibration: name the file that "
            "`scenewright judges calibrate` wrote"
        )
    return panel.calibration.cascade(spec, panel)


def check_cascade(spec: CascadeSpec, judges: Iterable[Judge]) -> None:
    """Raise ``SettingsError`` unless the first judges are some of ``judges``, but not all."""
    ids = {judge.id for judge in judges}
    lost = sorted(set(spec.first) - ids)
    if lost or not ids - set(spec.first):
        why = (
            f"{', '.join(lost)} is not among them"
            if lost
            else "no judge is left for the second step"
        )
        raise SettingsError(
            f"the cascade does not fit the judges of the loop ({', '.join(sorted(ids))}): {why}"
        )


class Spent(FiniteModel):
    """Cost of asking."""

    calls: int = 0
    """Times that a judge was asked facts of one picture in one wave."""
    answers: int = 0
    """Facts asked, summed over judges."""
    tokens: int = 0
    """Tokens of these answers, in and out."""
    usd: float = 0.0
    """Their cost in US dollars."""

    def __add__(self, other: Spent) -> Spent:
        sums = {name: value + getattr(other, name) for name, value in self}
        return Spent.model_construct(**sums)


class StateCount(FrozenModel):
    """Number of facts of a kind with a given verdict by the full panel and by the cascade."""

    kind: FactKind
    """Kind of fact."""
    full: State
    """Verdict of all judges."""
    cascade: State
    """Verdict of the judges that the cascade asked."""
    n: int = Field(ge=1)
    """Number of facts."""


class CascadeReport(FrozenModel):
    """A cascade against the full panel on the same answers."""

    full: Spent
    """Cost of the full panel."""
    cascade: Spent
    """Cost of the cascade. An answer's tokens are its share of the call; a call with fewer facts
    still shows the whole picture, so the real saving of tokens is between that of calls and that of
    answers.
    """
    states: tuple[StateCount, ...]
    """Counts of both verdicts."""

    @property
    def saved(self) -> dict[str, float | None]:
        """Share of ``calls``, ``answers``, ``tokens`` and ``usd`` that was saved; None of nothing.

        Negative where the cascade asked more, as for facts of objects that only it found.
        """
        shares: dict[str, float | None] = {}
        for name in Spent.model_fields:
            whole = float(getattr(self.full, name))
            shares[name] = 1.0 - getattr(self.cascade, name) / whole if whole else None
        return shares

    def agreement(self, kind: FactKind | None = None) -> float | None:
        """Return the share of facts with equal verdicts, of a kind or all; None without facts."""
        rows = self._rows(kind)
        total = sum(row.n for row in rows)
        return sum(row.n for row in rows if row.full == row.cascade) / total if total else None

    def kappa(self, kind: FactKind | None = None) -> float | None:
        """Return Cohen's κ of holding (yes) and not (no, void).

        Unscored facts are left out. None if undefined.
        """
        rows = [r for r in self._rows(kind) if "unscored" not in (r.full, r.cascade)]
        sizes = [row.n for row in rows]
        sides = (
            np.repeat([float(getattr(row, side) == "yes") for row in rows], sizes)
            for side in ("full", "cascade")
        )
        found = cohen_kappa(*sides)
        return None if np.isnan(found) else found

    def _rows(self, kind: FactKind | None) -> list[StateCount]:
        return [row for row in self.states if kind is None or row.kind == kind]


def pooled(reports: Iterable[CascadeReport]) -> CascadeReport:
    """Return the combined report of several pictures."""
    full, cascade = Spent(), Spent()
    counts: Counter[tuple[FactKind, State, State]] = Counter()
    for report in reports:
        full, cascade = full + report.full, cascade + report.cascade
        for row in report.states:
            counts[row.kind, row.full, row.cascade] += row.n
    return CascadeReport(full=full, cascade=cascade, states=_states(counts))


def replay_cascade(
    facts: Sequence[Fact],
    answers_by_judge: Mapping[str, Sequence[Answer]],
    spec: CascadeSpec,
    panel: Panel,
) -> CascadeReport:
    """Simulate a cascade on one image whose answers are all known.

    ``facts`` list parents before their children. ``answers_by_judge`` should hold every judge's
    answer to every fact, to those of absent objects too: an answer that is not there counts as
    unscored. :func:`pooled` makes one report of many pictures. Raises ``FactError`` if a first
    judge has no answers or nobody else has, and as :meth:`Panel.verdicts`.
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
    whole, full = _walk(facts, table, None, panel)
    partly, cascade = _walk(facts, table, spec, panel)
    whole, partly = resolve_verdicts(facts, whole), resolve_verdicts(facts, partly)
    counts = Counter((f.kind, whole[f.id].state, partly[f.id].state) for f in facts)
    return CascadeReport(full=full, cascade=cascade, states=_states(counts))


def _walk(
    facts: Sequence[Fact],
    table: Mapping[str, Mapping[str, Answer]],
    spec: CascadeSpec | None,
    panel: Panel,
) -> tuple[dict[str, Verdict], Spent]:
    """Ask wave by wave; return verdicts and cost.

    Without ``spec`` all judges are asked everything.
    """
    known: dict[str, Verdict] = {}
    given: dict[str, list[Answer]] = {judge: [] for judge in table}
    spent = Spent()

    def ask(judges: Iterable[str], asked: Sequence[Fact]) -> None:
        nonlocal spent
        for judge in judges:
            found = [table[judge].get(fact.id) or _nothing(judge, fact) for fact in asked]
            given[judge] += found
            spent += Spent(
                calls=1,
                answers=len(found),
                tokens=sum(answer.tokens_in + answer.tokens_out for answer in found),
                usd=sum(answer.usd for answer in found),
            )

    while wave := next_wave(facts, known):
        if spec is None:
            ask(table, wave)
        else:
            ask(spec.first, wave)
            first = {judge: given[judge] for judge in spec.first}
            unsure = unsure_facts(wave, panel.verdicts(wave, first, known), spec, panel)
            if unsure:
                ask((judge for judge in table if judge not in spec.first), unsure)
        found = panel.verdicts(wave, given, known, missing_means="unasked")
        known |= {verdict.fact_id: verdict for verdict in found}
        known |= {verdict.fact_id: verdict for verdict in void_verdicts(facts, known)}
    return known, spent


def _nothing(judge: str, fact: Fact) -> Answer:
    return Answer(fact_id=fact.id, judge_id=judge, state="unscored", reason="not in the record")


def _states(counts: Mapping[tuple[FactKind, State, State], int]) -> tuple[StateCount, ...]:
    return tuple(
        StateCount(kind=kind, full=full, cascade=cascade, n=n)
        for (kind, full, cascade), n in sorted(counts.items())
    )
