"""The panel: from answers of several judges to one verdict per fact.

A yes/no fact holds if the panel's probability is above its threshold. A choice is decided by the
pooled choice: its option must be likelier than every other one, so the best of four at .45 wins.

The default is the mean of the judges' probabilities: a hard vote discards the judges' uncertainty,
and most judges say yes too easily. ``dawid_skene`` learns the judges' error rates from the answers
themselves, ``calibrated`` uses measured rates, ``stacked`` also weighs the judges jointly, and
``majority`` is for comparison. ``agreement`` weighs the judges by how they agree on many pictures
(:mod:`scenewright.agents.panel.agreement`): one picture has too few answers for that, and where no
weights are given it is the mean.

:class:`Ballots` are answers as arrays. A yes/no fact has one row, the probability that it holds. A
choice has one row for the expected option and one for every rival. A judge's probabilities of the
options of a choice are:

- its distribution, where it gives one (token probabilities, decision models); an option outside
  the fact, offered to a judge with a closed vocabulary in place of an unknown one, counts as an
  unnamed rival;
- a stated probability p of its chosen option is p for that option, and the rest is spread evenly
  over the others (an answer carries P(the fact holds), from which p follows);
- where the expected option has too much, though another was chosen, for an even spread, the
  chosen option has all the rest;
- a choice without a probability, or with one that contradicts it, is a vote: 1 for the option;
- a no that names no option (old records) gives the rest to an unnamed rival, so that the fact
  holds only above ½.

No model may vote twice, and no model that steers a loop may report its result
(:func:`check_apart`). Built judges and chat models are compared by
:mod:`scenewright.config.model_identity`: by name, whatever account or copy they are reached
through, and by the weights of local models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from scenewright.agents.panel.aggregation import (
    Array,
    DawidSkene,
    calibrated_log_odds,
    dawid_skene,
    disagreement,
    expit,
)
from scenewright.agents.panel.agreement import JudgeWeights
from scenewright.agents.panel.pooling import option_logs, vote_log_odds, weighted_means
from scenewright.agents.panel.rates import (
    Calibration,
    CalibrationError,
    form_of,
    load_calibration,
    temper,
)
from scenewright.config.accounts import AccountSpec
from scenewright.config.model_identity import ModelIdentity, apart_problem, identity_of_spec
from scenewright.config.profiles import MEASURED, Aggregation, Profile, SettingsError
from scenewright.core.answers import UNNAMED, chosen_option, shares_of
from scenewright.core.facts import (
    Answer,
    Fact,
    FactError,
    FactKind,
    ProbabilityMethod,
    Verdict,
    rules_out,
)
from scenewright.core.ports.judge import Judge

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

UNDECIDED = 1e-9
"""Options closer than this are equally likely, so that rounding decides nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Ballots:
    """Answers of judges (columns) to facts; NaN where a judge gave no usable answer."""

    values: Array
    """Probability that the fact holds, (n_facts, n_judges); a vote where there is none."""
    votes: Array
    """1 if the judge chose the expected option, else 0, (n_facts, n_judges)."""
    rivals: Array
    """Probability of each other option of a choice, (n_rivals, n_judges)."""
    rival_votes: Array
    """1 if the judge chose that option, else 0, (n_rivals, n_judges)."""
    of: NDArray[np.intp]
    """The fact (row of ``values``) of each rival, ascending, (n_rivals,)."""
    names: tuple[str, ...]
    """Option of each rival; :data:`UNNAMED` if it has no name."""

    @property
    def choices(self) -> NDArray[np.bool_]:
        """Mask of the choices among the facts, (n_facts,)."""
        found = np.zeros(len(self.values), bool)
        found[self.of] = True
        return found

    def option_means(
        self, weighed: JudgeWeights, kinds: Sequence[str], judges: Sequence[str]
    ) -> tuple[Array, Array]:
        """Return the weighted mean log-probability of facts and of rivals, (n_facts,), (n_rivals,).

        ``kinds`` of the facts, ``judges`` of the columns.
        """
        options = 1.0 + np.bincount(self.of, minlength=len(self.values))
        bare, weights = weighed.bare(judges), weighed.of(judges, kinds)
        return (
            weighted_means(option_logs(self.values, options, bare), weights),
            weighted_means(option_logs(self.rivals, options[self.of], bare), weights[self.of]),
        )

    def strongest(self, scores: Array) -> Array:
        """Return the highest score among the rivals of each fact.

        ``scores`` is (..., n_rivals), the result (..., n_facts): −inf for a yes/no fact, NaN where
        nobody answered.
        """
        found = np.full((*scores.shape[:-1], len(self.values)), -np.inf)
        if len(self.of):
            starts = np.flatnonzero(np.diff(self.of, prepend=-1))
            found[..., self.of[starts]] = np.maximum.reduceat(scores, starts, axis=-1)
        return found

    def leading(self, scores: Array) -> list[int | None]:
        """Return the index of each fact's best rival.

        That is the rival with the highest of ``scores`` (n_rivals,), the first of equal ones; None
        for a yes/no fact.
        """
        best: list[int | None] = [None] * len(self.values)
        for row, at in enumerate(self.of.tolist()):
            before = best[at]
            if before is None or scores[row] > scores[before] + UNDECIDED:
                best[at] = row
        return best


def ballots(facts: Sequence[Fact], table: Mapping[str, Mapping[str, Answer]]) -> Ballots:
    """Return the answers in ``table`` (judge → fact id → answer) as ballots, with its columns."""
    n = len(table)
    values, votes = np.full((len(facts), n), np.nan), np.full((len(facts), n), np.nan)
    rows: list[Array] = []
    voted: list[Array] = []
    of: list[int] = []
    names: list[str] = []
    for at, fact in enumerate(facts):
        others = [] if fact.is_binary else [o for o in fact.options if o != fact.expected]
        if not fact.is_binary:
            others.append(UNNAMED)
        share = {option: np.full(n, np.nan) for option in others}
        vote = {option: np.full(n, np.nan) for option in others}
        for column, row in enumerate(table.values()):
            answer = row.get(fact.id)
            if answer is None or answer.state not in ("yes", "no"):
                continue
            votes[at, column] = float(answer.state == "yes")
            if fact.is_binary:
                known = answer.probability
                values[at, column] = votes[at, column] if known is None else known
                continue
            said = shares_of(fact, answer)
            values[at, column] = said[fact.expected]
            chosen = chosen_option(fact, answer)
            for option in others:
                share[option][column] = said.get(option, 0.0)
                vote[option][column] = float(option == chosen)
        for option in others:
            if option == UNNAMED and not np.nansum(share[option]) and not np.nansum(vote[option]):
                continue
            rows.append(share[option])
            voted.append(vote[option])
            of.append(at)
            names.append(option)
    shape = (0, n)
    return Ballots(
        values,
        votes,
        np.stack(rows) if rows else np.zeros(shape),
        np.stack(voted) if voted else np.zeros(shape),
        np.array(of, np.intp),
        tuple(names),
    )


def answer_table(
    fact_ids: Sequence[str], table: Mapping[str, Mapping[str, Answer]]
) -> tuple[Array, Array]:
    """Return probabilities and votes (1 yes, 0 no), both (n_facts, n_judges).

    ``table``: judge → fact id → answer. An answer without a probability counts as its vote.
    """
    values = np.full((len(fact_ids), len(table)), np.nan)
    votes = values.copy()
    for column, row in enumerate(table.values()):
        for at, fact_id in enumerate(fact_ids):
            answer = row.get(fact_id)
            if answer is not None and answer.state in ("yes", "no"):
                vote = 1.0 if answer.state == "yes" else 0.0
                votes[at, column] = vote
                values[at, column] = vote if answer.probability is None else answer.probability
    return values, votes


def lead_of(fact: Fact, answer: Answer) -> float | None:
    """Return a judge's probability that ``fact`` holds, against its strongest rival alone.

    Above ½ where its choice says that the fact holds, whatever the number of options. None for
    an answer that is not usable, and for a yes/no answer without a probability.
    """
    if answer.state not in ("yes", "no"):
        return None
    if fact.is_binary or (answer.probability is None and answer.distribution is None):
        return answer.probability
    said = shares_of(fact, answer)
    rival = max(share for option, share in said.items() if option != fact.expected)
    both = said[fact.expected] + rival
    return said[fact.expected] / both if both > 0.0 else 0.5


def total_log_odds(evidence: Array) -> Array:
    """Return the sum of each row of ``evidence`` (n, n_judges), NaN without answers."""
    known = ~np.isnan(evidence)
    total: Array = np.where(known.any(1), np.where(known, evidence, 0.0).sum(1), np.nan)
    return total


def row_means(table: Array) -> Array:
    """Return the mean of each row (n, n_judges), NaN without answers."""
    # Summed one by one, so that a run gives to the last bit what it always gave.
    rows = [[value for value in row if value == value] for row in table.tolist()]
    return np.array([sum(row) / len(row) if row else np.nan for row in rows])


AGGREGATIONS: tuple[Aggregation, ...] = get_args(Aggregation)
THRESHOLD = 0.5
LeftOut = Literal["unscored", "unasked"]
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
        and not any(rules_out(known[parent], fact) for parent in fact.parents)
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
            if verdict is not None and rules_out(verdict, fact):
                reason = f"not asked: {parent} is {'absent' if verdict.state == 'no' else 'void'}"
                found[fact.id] = Verdict(fact_id=fact.id, state="void", reason=reason)
                break
    return list(found.values())


def able_judges(judges: Iterable[Judge], kind: FactKind) -> tuple[Judge, ...]:
    """Return the ``judges`` that can answer facts of ``kind``."""
    return tuple(judge for judge in judges if judge.caps.kinds is None or kind in judge.caps.kinds)


@dataclass(frozen=True, slots=True, eq=False)
class Pooled:
    """Result of pooling ballots; NaN, or False, without answers."""

    probabilities: Array
    """Probability of each fact, (n_facts,)."""
    rivals: Array
    """Probability of each rival, (n_rivals,)."""
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
    """Rule that turns answers of several judges into verdicts."""

    aggregation: Aggregation = "mean"
    """``mean`` of the probabilities; ``dawid_skene`` over all answers about the image so far;
    ``calibrated`` by the judges' measured error rates; ``stacked`` by weights that were fitted
    to facts of known truth; share of the ``majority``'s votes; or mean log-odds by ``weights`` of
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

    def with_calibration(self, calibration: Calibration | None) -> Self:
        """Return the same panel with another calibration."""
        return replace(self, calibration=calibration)

    def with_weights(self, weights: JudgeWeights | None) -> Self:
        """Return the same panel with other weights by agreement."""
        return replace(self, weights=weights)

    def weighing(self, judges: Sequence[str]) -> JudgeWeights | None:
        """Return the weights by which ``judges`` are pooled, None unless it is by agreement."""
        if self.aggregation != "agreement":
            return None
        if self.weights is not None or self.calibration is None:
            return self.weights
        return self.calibration.agreement(judges)

    def combined(
        self,
        values: Array,
        votes: Array,
        kinds: Sequence[FactKind],
        judges: Sequence[str],
        others: Array | None = None,
        forms: Sequence[str] = (),
    ) -> Array:
        """Return the panel's probability of each fact, (n_facts,); NaN where nobody answered.

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
        if (weighed := self.weighing(judges)) is not None:
            odds = vote_log_odds(values, weighed.bare(judges))
            return expit(weighted_means(odds, weighed.of(judges, kinds)))
        return row_means(votes if self.aggregation == "majority" else values)

    def pool(
        self,
        said: Ballots,
        kinds: Sequence[FactKind],
        judges: Sequence[str],
        others: Array | None = None,
        forms: Sequence[str] = (),
    ) -> Pooled:
        """Return probabilities and verdicts of ``said``; arguments and errors as :meth:`combined`.

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
            elif (weighed := self.weighing(judges)) is not None:
                ahead, behind = said.option_means(weighed, kinds, judges)
                total = np.exp(ahead)
                np.add.at(total, said.of, np.exp(behind))
                likely = np.where(said.choices, np.exp(ahead) / total, likely)
                rivals = np.exp(behind) / total[said.of]
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
        """Return the log-odds (nats) that each calibrated answer adds to its fact.

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
        """Return the verdict of one fact from one answer a judge (unscored ones included)."""
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
        """Return one verdict a fact of ``facts``, in their order; ``known`` are earlier verdicts.

        ``answers_by_judge`` may hold answers to the facts in ``known`` as well, from which
        ``dawid_skene`` learns. A fact that a parent rules out is void whatever was answered. A
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
        """Return verdicts of facts that are not void; ``learnt`` are other facts with answers."""
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


Accounts = Mapping[str, AccountSpec] | None
"""Accounts of the settings by name, for models named by them."""


def identity_of_judge(judge: Judge, accounts: Accounts = None) -> ModelIdentity:
    """Return the identity of a built judge: its own ``identity``, else by its id.

    May read the weights of a local model, which takes seconds.
    """
    found = getattr(judge, "identity", None)
    if isinstance(found, ModelIdentity):
        return found
    named = identity_of_spec(judge.id, accounts)
    return ModelIdentity(
        judge.id, "" if named is None else named.name, fingerprint=judge.fingerprint
    )


def identity_of_chat(chat: BaseChatModel, accounts: Accounts = None) -> ModelIdentity | None:
    """Return the identity of a chat model by its name.

    None for a script, and where it is unknown.
    """
    spec = getattr(chat, "id", None)
    if isinstance(spec, str) and ":" in spec:
        return identity_of_spec(spec, accounts)
    names = (getattr(chat, key, None) for key in ("model_name", "model", "model_id", "deployment"))
    name = next((name for name in names if isinstance(name, str) and name), "")
    return identity_of_spec(f"{type(chat).__name__}:{name}") if name else None


def check_apart(
    loop: Iterable[Judge],
    report: Iterable[Judge] = (),
    director: BaseChatModel | None = None,
    *,
    self_report: bool = False,
    accounts: Accounts = None,
) -> None:
    """Raise ``SettingsError`` if one model is in the panels twice, under any names.

    Two votes of one model are one vote that counts double, and a model that steers the loop, as a
    judge or as its ``director``, must not report its result, unless ``self_report`` says so.
    """
    problem = apart_problem(
        _identities(loop, accounts),
        _identities(report, accounts),
        None if director is None else identity_of_chat(director, accounts),
        self_report=self_report,
    )
    if problem:
        raise SettingsError(problem)


def _identities(judges: Iterable[Judge], accounts: Accounts) -> Sequence[ModelIdentity]:
    # A judge for both facts and realism is in both panels of its side.
    each = {judge.id: judge for judge in judges}
    return [identity_of_judge(judge, accounts) for judge in each.values()]
