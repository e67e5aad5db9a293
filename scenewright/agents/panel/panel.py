"""The panel: from answers of several judges to one verdict per fact.

A yes/no fact holds if the panel's probability is above its threshold. A choice is decided by the
pooled choice: its option must be likelier than every other one, so the best of four at .45 wins.

The default is the mean of the judges' probabilities: a hard vote discards the judges' uncertainty,
and most judges say yes too easily. ``dawid_skene`` learns the judges' error rates from the answers
themselves, ``calibrated`` uses measured rates, ``stacked`` also weighs the judges jointly, and
``majority`` is for comparison. ``agreement`` weighs the judges by how they agree on many pictures
(:mod:`scenewright.agents.panel.agreement`): one picture has too few answers for that, and where no
weights are given it is the mean.

In a *cascade* all facts of a wave go to the first judges. Facts whose probability is within the
bounds of ``unsure``, or within those that a calibration measured for the wanted ``risk``
(:mod:`~scenewright.agents.panel.guarantee`), go to the other judges as well, and so do unscored
ones (too few usable answers for the quorum). Of a choice, the probability is that against its
strongest rival (``Verdict.lead``). The verdict then comes from all judges who were asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from scenewright.agents.panel.aggregation import (
    Array,
    calibrated_log_odds,
    dawid_skene,
    disagreement,
    expit,
    sums,
    weighted_means,
)
from scenewright.agents.panel.agreement import JudgeWeights
from scenewright.agents.panel.answer_arrays import (
    UNDECIDED,
    AnswerArrays,
    answer_arrays,
    answer_table,
    binary_arrays,
)
from scenewright.agents.panel.guarantee import CascadeGuarantee
from scenewright.agents.panel.rates import (
    CALIBRATE,
    Calibration,
    CalibrationError,
    PanelCalibration,
    load_calibration,
    temper,
)
from scenewright.config.profiles import MEASURED, Aggregation, CascadeSpec, Profile, SettingsError
from scenewright.core.facts import Answer, Fact, FactError, FactKind, Verdict, voids
from scenewright.core.ports.judge import Judge, unscored

AGGREGATIONS: tuple[Aggregation, ...] = get_args(Aggregation)
THRESHOLD = 0.5
MissingMeans = Literal["unscored", "unasked"]
"""Meaning of a missing answer: the judge gave none, or was not asked."""

_NEUTRAL = 0.5
"""Prevalence of a calibrated or stacked panel, whose verdict is the judges' evidence alone: the
share that held among labelled facts tells nothing about other pictures, least of all repaired ones.
"""


def next_wave(facts: Sequence[Fact], known: Mapping[str, Verdict]) -> tuple[Fact, ...]:
    """Return the facts that can be asked now: without a verdict, and ruled out by no parent.

    ``grounded`` facts take two waves, ``scene-bench`` facts one.
    """
    return tuple(
        fact
        for fact in facts
        if fact.id not in known
        and all(parent in known for parent in fact.parents)
        and not any(voids(known[parent], fact) for parent in fact.parents)
    )


def void_verdicts(facts: Sequence[Fact], known: Mapping[str, Verdict]) -> list[Verdict]:
    """Return verdicts of facts that need no question: a parent rules them out.

    Only facts without a verdict in ``known`` are looked at; ``facts`` lists parents before
    their children. A parent that nobody could judge does not make its children void.
    """
    found: dict[str, Verdict] = {}
    for fact in facts:
        if fact.id in known:
            continue
        for parent in fact.parents:
            verdict = known.get(parent) or found.get(parent)
            if verdict is not None and voids(verdict, fact):
                reason = f"not asked: {parent} is {'absent' if verdict.state == 'no' else 'void'}"
                found[fact.id] = Verdict(fact_id=fact.id, state="void", reason=reason)
                break
    return list(found.values())


def able_judges(judges: Iterable[Judge], kind: FactKind) -> tuple[Judge, ...]:
    """Return the ``judges`` that can answer facts of ``kind``."""
    return tuple(judge for judge in judges if judge.caps.kinds is None or kind in judge.caps.kinds)


@dataclass(frozen=True, slots=True, eq=False)
class Pooled:
    """Result of pooling answers; NaN, or False, without answers.

    Of several draws of judges (:meth:`Panel.pool_draws`) arrays have these as their first axis.
    """

    probabilities: Array
    """Probability of each fact, (n_facts,)."""
    rivals: Array
    """Probability of each rival, (n_rivals,)."""
    rival_scores: Array
    """Numbers by which the rivals are ordered, (n_rivals,)."""
    holds: NDArray[np.bool_]
    """The verdicts, (n_facts,)."""
    leading: tuple[int | None, ...] = ()
    """Row of the strongest rival of each fact, None for a yes/no fact; empty for several draws."""

    @property
    def two_way_probabilities(self) -> Array:
        """Probability of each fact against its strongest rival alone, (n_facts,)."""
        found = self.probabilities.copy()
        for at, row in enumerate(self.leading):
            if row is not None:
                total = found[at] + self.rivals[row]
                found[at] = found[at] / total if total > 0.0 else 0.5
        return found


@dataclass(frozen=True, slots=True)
class Panel:
    """Rule that turns answers of several judges into verdicts."""

    aggregation: Aggregation = "mean"
    """``mean`` of the probabilities; ``dawid_skene`` over all answers about the image so far;
    ``calibrated`` by the judges' measured error rates; ``stacked`` by weights that were fitted
    to facts of known truth; share of the ``majority``'s votes; or the mean by ``weights`` of
    ``agreement``."""
    quorum: int = 1
    """Fewest judges with a usable answer that a verdict needs."""
    threshold: float = THRESHOLD
    """A yes/no fact holds if its probability is above this; at it, the judges are undecided and
    the fact is not confirmed. Choices have no threshold."""
    calibration: Calibration | None = None
    """Measured calibration of the judges, required by ``calibrated``, ``stacked`` and corrected
    scores.
    """
    weights: JudgeWeights | None = None
    """Weights by agreement; None: those of the calibration, and without any the mean."""

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
        """Return the panel of ``profile``, for ``judges`` of the loop and of the report.

        Reads the calibration that the profile names; ``CalibrationError`` if it cannot be read
        or does not hold for one of the judges.
        """
        calibration = None
        if profile.calibration is not None:
            calibration = load_calibration(profile.calibration)
            calibration.check({judge.id: judge.fingerprint for judge in judges})
        return cls(profile.aggregation, profile.quorum, calibration=calibration)

    def uncalibrated(self, judges: int) -> Self:
        """Return the panel for ``judges`` judges of what no scene graph states: the mean.

        Calibrations and error rates apply only to facts of scene graphs.
        """
        quorum = max(1, min(self.quorum, judges))
        return replace(self, aggregation="mean", quorum=quorum, calibration=None, weights=None)

    def measured(self, judges: Iterable[str]) -> PanelCalibration | None:
        """Return the calibration's entry of ``judges`` with these settings; None without.

        Entries measured when choices still had a threshold are ignored.
        """
        wanted = (tuple(sorted(judges)), self.aggregation, self.quorum, self.threshold, "pooled")
        for entry in self.calibration.panels if self.calibration else ():
            settings = (entry.aggregation, entry.quorum, entry.threshold, entry.choices)
            if (entry.judges, *settings) == wanted:
                return entry
        return None

    def agreement_weights(self, judges: Sequence[str]) -> JudgeWeights | None:
        """Return the weights by which ``judges`` are pooled, None unless it is by agreement."""
        if self.aggregation != "agreement":
            return None
        if self.weights is not None or self.calibration is None:
            return self.weights
        return self.calibration.agreement(judges)

    def combined(
        self, values: Array, votes: Array, kinds: Sequence[FactKind], judges: Sequence[str]
    ) -> Array:
        """Return the panel's probability of yes/no facts, (n_facts,); NaN where nobody answered.

        Arguments as :func:`~scenewright.agents.panel.answer_arrays.binary_arrays`, errors as
        :meth:`pool`.
        """
        return self.pool(binary_arrays(values, votes, kinds, judges)).probabilities

    def pool(self, answers: AnswerArrays, others: Array | None = None) -> Pooled:
        """Return probabilities and verdicts of ``answers``.

        ``others`` (any number, n_judges) are answers to further facts of the same image, from which
        ``dawid_skene`` learns too. Raises ``CalibrationError`` if a calibrated or stacked panel has
        no calibration of a judge.
        """
        drawn = self.pool_draws(answers, np.ones((1, len(answers.judges)), np.int64), others)
        scores = drawn.rival_scores[0]
        leading = tuple(answers.leading(scores))
        return Pooled(drawn.probabilities[0], drawn.rivals[0], scores, drawn.holds[0], leading)

    def pool_draws(
        self, answers: AnswerArrays, draws: NDArray[np.int64], others: Array | None = None
    ) -> Pooled:
        """Return the result of :meth:`pool` for panels in which judges count several times.

        ``draws`` (n_draws, n_judges) has how often. Every option of a choice gets its probability
        by the same rule: the mean of what the judges give it, its share of their choices, or what
        the evidence of a learnt or measured panel says of it, with what was found out about the
        facts' own options.
        """
        values, rivals, of = answers.values, answers.rivals, answers.rival_facts
        # The scores order the options: probabilities near 1 differ too little, log-odds do not.
        if self.aggregation == "dawid_skene":
            learnt = values if others is None else np.concatenate([values, others])
            fits = [dawid_skene(np.repeat(learnt, n, axis=1)) for n in draws]
            likely = np.stack([fit.probabilities[: len(values)] for fit in fits])
            scores, rival_scores = (
                np.stack(
                    [
                        fit.log_odds(np.repeat(rows, n, axis=1))
                        for fit, n in zip(fits, draws, strict=True)
                    ]
                )
                for rows in (values, rivals)
            )
            rival_likely = expit(rival_scores)
        elif self.aggregation in MEASURED:
            scores = _total(self._evidence(values, answers.kinds, answers.forms, answers), draws)
            kinds, forms = [answers.kinds[at] for at in of], [answers.forms[at] for at in of]
            rival_scores = _total(self._evidence(rivals, kinds, forms, answers), draws)
            likely, rival_likely = expit(scores), expit(rival_scores)
        else:
            if self.aggregation == "majority":
                values, rivals = answers.votes, answers.rival_votes
            weights = self.agreement_weights(answers.judges)
            by_judge = None if weights is None else weights.of(answers.judges)
            likely = scores = weighted_means(values, by_judge, draws)
            rival_likely = rival_scores = weighted_means(rivals, by_judge, draws)
        chosen = scores > answers.strongest(rival_scores) + UNDECIDED
        holds = np.where(answers.choices, chosen, likely > self.threshold)
        return Pooled(likely, rival_likely, rival_scores, holds)

    def _evidence(
        self, values: Array, kinds: Sequence[FactKind], forms: Sequence[str], answers: AnswerArrays
    ) -> Array:
        """Return the log-odds (nats) that each calibrated answer adds to its fact.

        ``values`` and the result are (n_facts, n_judges), NaN where there is no answer.
        Temperature and rates are those of the judge on the fact's form, or kind; of a stacked
        panel, scale and weight of the kind.
        """
        if self.calibration is None:
            raise CalibrationError(
                f"a {self.aggregation} panel needs a calibration: name the file that "
                "`scenewright judges calibrate` wrote"
            )
        if self.aggregation == "stacked":
            return self.calibration.stack(answers.judges).evidence(values, kinds, answers.judges)
        evidence = np.full(values.shape, np.nan)
        questions = list(zip(kinds, forms, strict=True))
        for at, judge in enumerate(answers.judges):
            measured = self.calibration.judge(judge)
            for question in set(questions):
                rows = np.array([one == question for one in questions])
                rates = measured.rates(*question)
                evidence[rows, at] = calibrated_log_odds(
                    temper(values[rows, at], rates.temperature)[:, None],
                    [rates.sensitivity],
                    [rates.specificity],
                    _NEUTRAL,
                )
        return evidence

    def verdict(self, fact: Fact, answers: Sequence[Answer]) -> Verdict:
        """Return the verdict of one fact from one answer a judge (unscored ones included)."""
        table = {one.judge_id: {fact.id: one} for one in answers}
        return self._verdicts((fact,), table, (), "unscored")[0]

    def verdicts(
        self,
        facts: Sequence[Fact],
        answers_by_judge: Mapping[str, Sequence[Answer]],
        known: Mapping[str, Verdict] | None = None,
        *,
        missing_means: MissingMeans = "unscored",
    ) -> list[Verdict]:
        """Return one verdict a fact of ``facts``, in their order; ``known`` are earlier verdicts.

        ``answers_by_judge`` may hold answers to the facts in ``known`` as well, from which
        ``dawid_skene`` learns. A fact that a parent rules out is void whatever was answered. A
        judge without an answer to a fact counts as unscored for it, or, with ``missing_means``
        "unasked", not at all. Raises ``FactError`` for two answers of one judge to one fact,
        an answer filed under another judge, or a parent without a verdict; ``CalibrationError``
        as :meth:`combined`.
        """
        table: dict[str, dict[str, Answer]] = {}
        for judge, answers in answers_by_judge.items():
            row = table[judge] = {}
            for answer in answers:
                if answer.judge_id != judge:
                    raise FactError(f"an answer by {answer.judge_id} is filed under {judge}")
                if answer.fact_id in row:
                    raise FactError(f"{judge} answered {answer.fact_id} twice")
                row[answer.fact_id] = answer
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
            new = {verdict.fact_id: verdict for verdict in void_verdicts(ready, before)}
            asked = [fact for fact in ready if fact.id not in new]
            learnt = [id_ for id_, verdict in before.items() if verdict.state != "void"]
            new |= {v.fact_id: v for v in self._verdicts(asked, table, learnt, missing_means)}
            decided |= new
            result |= new
            waiting = [fact for fact in waiting if fact.id not in now]
        return [result[fact.id] for fact in facts]

    def _verdicts(
        self,
        facts: Sequence[Fact],
        table: Mapping[str, Mapping[str, Answer]],
        learnt: Sequence[str],
        missing_means: MissingMeans,
    ) -> list[Verdict]:
        """Return verdicts of facts that are not void; ``learnt`` are other facts with answers."""
        if not facts:
            return []
        arrays = answer_arrays(facts, table)
        learns = self.aggregation == "dawid_skene"
        pooled = self.pool(arrays, answer_table(learnt, table)[0] if learns else None)
        bounded, rivals = np.clip(pooled.probabilities, 0.0, 1.0), np.clip(pooled.rivals, 0.0, 1.0)
        bits = disagreement(arrays.values).tolist()
        verdicts: list[Verdict] = []
        for at, fact in enumerate(facts):
            answers: list[Answer] = []
            for judge, row in table.items():
                if fact.id in row:
                    answers.append(row[fact.id])
                elif missing_means == "unscored":
                    answers += unscored(judge, (fact,), "gave no answer")
            scored = [answer for answer in answers if answer.state in ("yes", "no")]
            missing = [answer for answer in answers if answer.state not in ("yes", "no")]
            counts = {"n_scored": len(scored), "n_unscored": len(missing)}
            if len(scored) < self.quorum:
                why = "; ".join(f"{a.judge_id}: {a.reason or a.state}" for a in missing)
                reason = (
                    f"{len(scored)} of {len(answers)} judges scored it, the quorum is {self.quorum}"
                )
                if why:
                    reason += f" ({why})"
                verdicts.append(Verdict(fact_id=fact.id, state="unscored", reason=reason, **counts))
                continue
            rival = pooled.leading[at]
            methods = {a.method or ("binary" if a.probability is None else None) for a in scored}
            verdicts.append(
                Verdict(
                    fact_id=fact.id,
                    state="yes" if pooled.holds[at] else "no",
                    probability=float(bounded[at]),
                    rival="" if rival is None else arrays.rival_names[rival],
                    rival_probability=None if rival is None else float(rivals[rival]),
                    disagreement=min(1.0, bits[at]),
                    methods=tuple(sorted(method for method in methods if method is not None)),
                    **counts,
                )
            )
        return verdicts


def _total(evidence: Array, draws: NDArray[np.int64]) -> Array:
    """Return the sum of each row of ``evidence`` for each draw, NaN without answers."""
    answers = sums(~np.isnan(evidence), draws)
    total: Array = np.where(answers > 0.0, sums(np.nan_to_num(evidence), draws), np.nan)
    return total


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
    by_id = {verdict.fact_id: verdict for verdict in verdicts}
    unsure: list[Fact] = []
    for fact in facts:
        verdict = by_id.get(fact.id)
        low, high = spec.unsure if guarantee is None else guarantee.bounds(fact.kind)
        if verdict is None or (
            verdict.state != "void" and (verdict.lead is None or low <= verdict.lead <= high)
        ):
            unsure.append(fact)
    return tuple(unsure)


def guarantee_in(spec: CascadeSpec, panel: Panel | None) -> CascadeGuarantee | None:
    """Return the measured bounds of a ``spec`` with a risk; none without.

    Raises ``CalibrationError`` where the calibration of ``panel`` has none for its aggregation and
    quorum.
    """
    if spec.risk is None:
        return None
    if panel is None or panel.calibration is None:
        raise CalibrationError(
            f"a cascade with a risk of {spec.risk:g} needs a calibration: name the file that "
            "`scenewright judges calibrate` wrote"
        )
    wanted = (tuple(sorted(spec.first)), spec.risk, spec.confidence, panel.aggregation)
    for found in panel.calibration.cascades:
        measured = (found.first, found.risk, found.confidence, found.aggregation)
        if (*measured, found.quorum) == (*wanted, panel.quorum):
            return found
    raise CalibrationError(
        f"the calibration has no bounds for a cascade that begins with {', '.join(spec.first)} "
        f"at a risk of {spec.risk:g} ({panel.aggregation}, quorum {panel.quorum}): "
        f"{CALIBRATE} for this profile"
    )


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
