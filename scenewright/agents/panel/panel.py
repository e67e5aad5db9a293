"""The panel: from what single judges say to one verdict a fact.

A yes/no fact holds if the panel's probability is above its threshold. A choice is decided by the
pooled choice: its option must be likelier than every other one, as the best of four at .45 is.

The default is the mean of the judges' probabilities: a hard vote throws away what the judges are
unsure of, and most judges say yes too easily. ``dawid_skene`` learns the judges' error rates from
the answers themselves, ``calibrated`` takes those that were measured, ``stacked`` also weighs
the judges together, and ``majority`` is there to be compared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from scenewright.agents.panel.aggregation import (
    Array,
    DawidSkene,
    calibrated_log_odds,
    dawid_skene,
    expit,
)
from scenewright.agents.panel.agreement import disagreement
from scenewright.agents.panel.ballots import (
    UNDECIDED,
    Ballots,
    answer_table,
    ballots,
    row_means,
    total_log_odds,
)
from scenewright.agents.panel.rates import (
    Calibration,
    CalibrationError,
    form_of,
    load_calibration,
    temper,
)
from scenewright.config.settings import MEASURED, Aggregation, Profile
from scenewright.core.facts import Answer, Fact, FactError, FactKind, ProbabilityMethod, Verdict
from scenewright.core.ports.judge import Judge

AGGREGATIONS: tuple[Aggregation, ...] = get_args(Aggregation)
THRESHOLD = 0.5
LeftOut = Literal["unscored", "unasked"]
"""What a judge's missing answer means: it gave none, or it was not asked."""

_NEUTRAL = 0.5
"""Prevalence of a calibrated or stacked panel: its verdict is what the judges' evidence alone
says. The share that held among labelled facts tells nothing of other pictures, least of repaired
ones."""


def next_wave(facts: Sequence[Fact], known: Mapping[str, Verdict]) -> tuple[Fact, ...]:
    """The facts that can be asked now: no verdict yet, every parent has one, none is absent.

    Of ``grounded`` facts there are two waves, of ``scene-bench`` ones one.
    """
    return tuple(
        fact
        for fact in facts
        if fact.id not in known
        and all(parent in known for parent in fact.parents)
        and not any(known[parent].state in ("no", "void") for parent in fact.parents)
    )


def void_verdicts(facts: Sequence[Fact], known: Mapping[str, Verdict]) -> list[Verdict]:
    """Verdicts of the facts that need not be asked: a parent was judged no, or is void itself.

    Only facts without a verdict in ``known`` are looked at; ``facts`` lists parents before
    their children. A parent that nobody could judge does not make its children void.
    """
    found: dict[str, Verdict] = {}
    for fact in facts:
        if fact.id in known:
            continue
        for parent in fact.parents:
            verdict = known.get(parent) or found.get(parent)
            if verdict is not None and verdict.state in ("no", "void"):
                reason = f"not asked: {parent} is {'absent' if verdict.state == 'no' else 'void'}"
                found[fact.id] = Verdict(fact_id=fact.id, state="void", reason=reason)
                break
    return list(found.values())


def able(judges: Iterable[Judge], kind: FactKind) -> tuple[Judge, ...]:
    """Those of ``judges`` that can answer facts of ``kind``."""
    return tuple(judge for judge in judges if judge.caps.kinds is None or kind in judge.caps.kinds)


@dataclass(frozen=True, slots=True, eq=False)
class Pooled:
    """What a panel makes of ballots; NaN, or False, where nobody answered."""

    probabilities: Array
    """That each fact holds, (n_facts,)."""
    rivals: Array
    """Of each other option of a choice, (n_rivals,)."""
    leading: tuple[int | None, ...]
    """Row of the strongest rival of each fact; None for a yes/no fact."""
    holds: NDArray[np.bool_]
    """The verdicts, (n_facts,)."""

    @property
    def leads(self) -> Array:
        """Probability of each fact against its strongest rival alone, (n_facts,)."""
        found = self.probabilities.copy()
        for at, row in enumerate(self.leading):
            if row is not None:
                total = found[at] + self.rivals[row]
                found[at] = found[at] / total if total > 0.0 else 0.5
        return found


@dataclass(frozen=True, slots=True)
class Panel:
    """How the answers of several judges become a verdict."""

    aggregation: Aggregation = "mean"
    """``mean`` of the probabilities; ``dawid_skene`` over all answers about the image so far;
    ``calibrated`` by the judges' measured error rates; ``stacked`` by weights that were fitted
    to facts of known truth; or share of the ``majority``'s votes."""
    quorum: int = 1
    """Fewest judges with a usable answer that a verdict needs."""
    threshold: float = THRESHOLD
    """A yes/no fact holds if its probability is above this; at it, the judges are undecided and
    the fact is not confirmed. Choices have no threshold."""
    calibration: Calibration | None = None
    """What was measured of the judges: ``calibrated`` and ``stacked`` need it, and corrected
    scores do."""

    def __post_init__(self) -> None:
        if self.aggregation not in AGGREGATIONS:
            raise FactError(
                f"unknown aggregation {self.aggregation!r}: use one of {', '.join(AGGREGATIONS)}"
            )
        if self.quorum < 1:
            raise FactError(f"the quorum is {self.quorum}: it must be 1 or more")
        if not 0.0 <= self.threshold < 1.0:
            raise FactError(f"the threshold is {self.threshold}: it must lie in [0, 1)")

    @classmethod
    def of(cls, profile: Profile, judges: Iterable[Judge]) -> Self:
        """The panel of ``profile``, for ``judges`` of the loop and of the report.

        Reads the calibration that the profile names; ``CalibrationError`` if it cannot be read
        or does not hold for one of the judges.
        """
        calibration = None
        if profile.calibration is not None:
            calibration = load_calibration(profile.calibration)
            calibration.check({judge.id: judge.fingerprint for judge in judges})
        return cls(profile.aggregation, profile.quorum, calibration=calibration)

    def of_realism(self, judges: int) -> Self:
        """The panel of so many judges of realism: the mean of what they say.

        Calibrations and error rates are of facts that a scene states.
        """
        quorum = max(1, min(self.quorum, judges))
        return replace(self, aggregation="mean", quorum=quorum, calibration=None)

    def with_calibration(self, calibration: Calibration | None) -> Self:
        """The same panel with another calibration."""
        return replace(self, calibration=calibration)

    def combined(
        self,
        values: Array,
        votes: Array,
        kinds: Sequence[FactKind],
        judges: Sequence[str],
        others: Array | None = None,
        forms: Sequence[str] = (),
    ) -> Array:
        """The panel's probability of each fact, (n_facts,); NaN where nobody answered.

        ``values`` (n_facts, n_judges) are the judges' probabilities and ``votes`` what they
        chose (1 yes, 0 no), NaN where there is no answer; ``kinds`` and ``judges`` name rows
        and columns. ``others`` (any number, n_judges) are answers to further facts of the same
        image, from which ``dawid_skene`` learns too; ``forms``
        (:func:`~scenewright.agents.panel.rates. form_of`) tell the rows' questions apart for a
        calibrated panel. Raises ``CalibrationError`` if a calibrated or stacked panel has no
        calibration of a judge.
        """
        if self.aggregation == "dawid_skene":
            return _fit(values, others).probabilities[: len(values)]
        if self.aggregation in MEASURED:
            return expit(total_log_odds(self.evidence(values, kinds, judges, forms)))
        return row_means(votes if self.aggregation == "majority" else values)

    def pool(
        self,
        said: Ballots,
        kinds: Sequence[FactKind],
        judges: Sequence[str],
        others: Array | None = None,
        forms: Sequence[str] = (),
    ) -> Pooled:
        """Probabilities and verdicts of ``said``; arguments and errors as :meth:`combined`.

        Every option of a choice gets its probability by the same rule: the mean of what the
        judges give it, its share of their choices, or what the evidence of a learnt or measured
        panel says of it, with what was found out about the facts' own options.
        """
        likely = self.combined(said.values, said.votes, kinds, judges, others, forms)
        rivals, ahead, behind = np.zeros(0), likely, np.zeros(0)
        if len(said.of):
            if self.aggregation == "dawid_skene":
                fit = _fit(said.values, others)
                # By log-odds: probabilities near 1 differ too little.
                ahead, behind = fit.log_odds(said.values), fit.log_odds(said.rivals)
                rivals = expit(behind)
            elif self.aggregation in MEASURED:
                of_rivals = [kinds[at] for at in said.of.tolist()]
                theirs = [forms[at] for at in said.of.tolist()] if forms else ()
                ahead = total_log_odds(self.evidence(said.values, kinds, judges, forms))
                behind = total_log_odds(self.evidence(said.rivals, of_rivals, judges, theirs))
                rivals = expit(behind)
            else:
                votes = self.aggregation == "majority"
                rivals = behind = row_means(said.rival_votes if votes else said.rivals)
        choices = said.choices
        with np.errstate(invalid="ignore"):
            chosen = ahead > said.strongest(behind) + UNDECIDED
        return Pooled(
            likely,
            rivals,
            tuple(said.leading(behind)),
            np.where(choices, chosen, likely > self.threshold),
        )

    def evidence(
        self,
        values: Array,
        kinds: Sequence[FactKind],
        judges: Sequence[str],
        forms: Sequence[str] = (),
    ) -> Array:
        """What each calibrated answer adds to the log-odds (nats) that its fact holds.

        Shapes as in :meth:`combined`; (n_facts, n_judges), NaN where there is no answer.
        Temperature and rates are those of the judge on the fact's form, or kind; of a stacked
        panel, scale and weight of the kind.
        """
        if self.calibration is None:
            raise CalibrationError(
                f"a {self.aggregation} panel needs a calibration: name the file that "
                "`scenewright judges calibrate` wrote"
            )
        if self.aggregation == "stacked":
            return self.calibration.stack(judges).evidence(values, kinds, judges)
        found = np.full(values.shape, np.nan)
        asked = list(zip(kinds, forms or [""] * len(kinds), strict=True))
        for at, judge in enumerate(judges):
            measured = self.calibration.judge(judge)
            for kind, form in set(asked):
                rows = np.array([one == (kind, form) for one in asked])
                rates = measured.rates(kind, form)
                found[rows, at] = calibrated_log_odds(
                    temper(values[rows, at], rates.temperature)[:, None],
                    [rates.sensitivity],
                    [rates.specificity],
                    _NEUTRAL,
                )
        return found

    def verdict(self, fact: Fact, answers: Sequence[Answer]) -> Verdict:
        """The verdict of one fact from one answer a judge (unscored ones included)."""
        table = {one.judge_id: {fact.id: one} for one in answers}
        return self._judged((fact,), table, (), "unscored")[0]

    def verdicts(
        self,
        facts: Sequence[Fact],
        answers_by_judge: Mapping[str, Sequence[Answer]],
        known: Mapping[str, Verdict] | None = None,
        *,
        left_out: LeftOut = "unscored",
    ) -> list[Verdict]:
        """One verdict a fact of ``facts``, in their order; ``known`` are earlier verdicts.

        ``answers_by_judge`` may hold answers to the facts in ``known`` as well, from which
        ``dawid_skene`` learns. A fact with an absent parent is void whatever was answered. A
        judge without an answer to a fact counts as unscored for it, or, with ``left_out``
        "unasked", not at all. Raises ``FactError`` for two answers of one judge to one fact,
        an answer filed under another judge, or a parent without a verdict; ``CalibrationError``
        as :meth:`combined`.
        """
        table = {judge: _by_fact(judge, answers) for judge, answers in answers_by_judge.items()}
        decided = dict(known or {})
        result: dict[str, Verdict] = {}
        waiting = list(facts)
        while waiting:
            ready = [fact for fact in waiting if all(p in decided for p in fact.parents)]
            if not ready:
                lost = [parent for parent in waiting[0].parents if parent not in decided]
                raise FactError(f"fact {waiting[0].id}: no verdict for its parents {lost} yet")
            now = {fact.id for fact in ready}
            before = {id_: verdict for id_, verdict in decided.items() if id_ not in now}
            found = {verdict.fact_id: verdict for verdict in void_verdicts(ready, before)}
            asked = [fact for fact in ready if fact.id not in found]
            learnt = [id_ for id_, verdict in before.items() if verdict.state != "void"]
            found |= {v.fact_id: v for v in self._judged(asked, table, learnt, left_out)}
            decided |= found
            result |= found
            waiting = [fact for fact in waiting if fact.id not in now]
        return [result[fact.id] for fact in facts]

    def _judged(
        self,
        facts: Sequence[Fact],
        table: Mapping[str, Mapping[str, Answer]],
        learnt: Sequence[str],
        left_out: LeftOut,
    ) -> list[Verdict]:
        """Verdicts of facts that are not void; ``learnt`` are other facts with answers."""
        if not facts:
            return []
        said = ballots(facts, table)
        learns = self.aggregation == "dawid_skene"
        others = answer_table(learnt, table)[0] if learns else None
        forms = [form_of(fact) for fact in facts]
        pooled = self.pool(said, [fact.kind for fact in facts], tuple(table), others, forms)
        apart = disagreement(said.values).tolist()
        found: list[Verdict] = []
        for fact, row, holds, likely, bits in zip(
            facts, pooled.leading, pooled.holds, pooled.probabilities.tolist(), apart, strict=True
        ):
            rival = None if row is None else (said.names[row], float(pooled.rivals[row]))
            found.append(self._verdict(fact, table, bool(holds), likely, rival, bits, left_out))
        return found

    def _verdict(
        self,
        fact: Fact,
        table: Mapping[str, Mapping[str, Answer]],
        holds: bool,
        probability: float,
        rival: tuple[str, float] | None,
        bits: float,
        left_out: LeftOut,
    ) -> Verdict:
        answers: list[Answer] = []
        for judge, row in table.items():
            if fact.id in row:
                answers.append(row[fact.id])
            elif left_out == "unscored":
                answers.append(
                    Answer(
                        fact_id=fact.id, judge_id=judge, state="unscored", reason="gave no answer"
                    )
                )
        scored = [answer for answer in answers if answer.state in ("yes", "no")]
        missing = [answer for answer in answers if answer.state not in ("yes", "no")]
        counts = {"n_scored": len(scored), "n_unscored": len(missing)}
        if len(scored) < self.quorum:
            why = "; ".join(f"{a.judge_id}: {a.reason or a.state}" for a in missing)
            reason = (
                f"{len(scored)} of {len(answers)} judges scored it, the quorum is {self.quorum}"
            )
            return Verdict(
                fact_id=fact.id,
                state="unscored",
                reason=f"{reason} ({why})" if why else reason,
                **counts,
            )
        return Verdict(
            fact_id=fact.id,
            state="yes" if holds else "no",
            probability=_bounded(probability),
            rival="" if rival is None else rival[0],
            rival_probability=None if rival is None else _bounded(rival[1]),
            disagreement=min(1.0, bits),
            methods=tuple(sorted({m for a in scored if (m := _method(a)) is not None})),
            **counts,
        )


def _fit(values: Array, others: Array | None) -> DawidSkene:
    return dawid_skene(values if others is None else np.concatenate([values, others]))


def _bounded(probability: float) -> float:
    return min(1.0, max(0.0, probability))


def _method(answer: Answer) -> ProbabilityMethod | None:
    return answer.method or ("binary" if answer.probability is None else None)


def _by_fact(judge: str, answers: Sequence[Answer]) -> dict[str, Answer]:
    row: dict[str, Answer] = {}
    for answer in answers:
        if answer.judge_id != judge:
            raise FactError(f"an answer by {answer.judge_id} is filed under {judge}")
        if answer.fact_id in row:
            raise FactError(f"{judge} answered {answer.fact_id} twice")
        row[answer.fact_id] = answer
    return row
