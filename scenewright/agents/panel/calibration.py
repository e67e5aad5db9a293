"""Measure judges on facts of known truth.

For each judge, by kind of fact (and within it by number of options) and for all together:
sensitivity and specificity of its votes, the temperature that calibrates its probabilities (Guo et
al., 2017, for yes/no answers), and its Brier score and expected calibration error without and with
that temperature. For whole panels: weights of their judges
(:mod:`scenewright.agents.panel.stacking`), and sensitivity and specificity of their verdicts, which
correct a score for the panel's errors (:mod:`scenewright.agents.panel.scores`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scenewright.agents.panel.aggregation import (
    Array,
    brier_score,
    checked_probabilities,
    expected_calibration_error,
    expit,
    log_odds,
)
from scenewright.agents.panel.agreement import JudgeWeights, judge_weights
from scenewright.agents.panel.answer_arrays import answer_arrays, answer_table
from scenewright.agents.panel.guarantee import CascadeGuarantee, LabelledVerdicts, guarantee_of
from scenewright.agents.panel.panel import Panel
from scenewright.agents.panel.rates import (
    COLDEST,
    GROUPS,
    HOTTEST,
    Calibration,
    CalibrationError,
    Group,
    JudgeCalibration,
    JudgeRates,
    PanelCalibration,
    Rates,
    form_of,
    temper,
)
from scenewright.agents.panel.stacking import PanelStack, fit_stack
from scenewright.config.profiles import CascadeSpec
from scenewright.core.facts import FACT_KINDS, Answer, Fact, FactKind
from scenewright.core.ports.judge import unscored

Mask = NDArray[np.bool_]
_CLOSEST = 1e-6
"""Probabilities are clipped to this distance from 0 and 1 before the logarithm."""


@dataclass(frozen=True, slots=True)
class LabelledAnswer:
    """One judge's answer to a fact whose truth is known."""

    image: str
    """Name of the picture, which groups answers to the same facts."""
    fact_id: str
    """The fact."""
    kind: FactKind
    """Subject of the fact."""
    judge_id: str
    holds: bool
    """True label of the fact."""
    probability: float | None
    """The judge's P(the fact holds): 0 or 1 for a vote, None for an unusable answer."""
    vote: bool | None = None
    """Its choice, for a panel that counts votes; None: yes above probability ½."""
    source: tuple[Fact, Answer] | None = None
    """Fact and answer, with the other options of a choice; None: a yes/no fact."""

    @classmethod
    def of(cls, image: str, fact: Fact, answer: Answer, holds: bool) -> Self:
        """Return the answer with its label. An unscored one counts as no answer."""
        voted = {"yes": True, "no": False}.get(answer.state)
        said = answer.probability
        if said is None and voted is not None:
            said = float(voted)
        return cls(image, fact.id, fact.kind, answer.judge_id, holds, said, voted, (fact, answer))

    @property
    def fact_and_answer(self) -> tuple[Fact, Answer]:
        """Fact and answer, derived from probability and vote if missing."""
        if self.source is not None:
            return self.source
        fact = Fact(id=self.fact_id, kind=self.kind, subject="", statement="", question="")
        if self.probability is None:
            return fact, unscored(self.judge_id, (fact,), "no usable answer")[0]
        voted = self.probability > 0.5 if self.vote is None else self.vote
        answer = Answer(
            fact_id=fact.id,
            judge_id=self.judge_id,
            state="yes" if voted else "no",
            probability=self.probability,
        )
        return fact, answer


def fit_temperature(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Return the T in [0.1, 10] of least ``−Σ log P(label)`` under ``expit(logit(p) / T)``.

    Both (n_facts,), labels 0 or 1, no NaN. 1 if no probability lies inside (0, 1): votes have
    nothing to scale. The loss is convex in 1/T; where no scaling helps
    (every answer on the right side, say), a bound is returned.
    """
    values = checked_probabilities(np.asarray(probabilities, np.float64)[:, None])[:, 0]
    graded = (values > 0.0) & (values < 1.0)
    if not graded.any():
        return 1.0
    odds, truth = log_odds(values[graded], _CLOSEST), np.asarray(labels, np.float64)[graded]

    def slope(sharpness: float) -> float:
        return float((odds * (expit(odds * sharpness) - truth)).sum())

    if slope(1.0 / HOTTEST) >= 0.0:
        # Only undecided answers: no information. Wrong on average: no weight.
        return 1.0 if not odds.any() else HOTTEST
    if slope(1.0 / COLDEST) <= 0.0:
        return COLDEST
    from scipy.optimize import brentq

    return 1.0 / float(brentq(slope, 1.0 / HOTTEST, 1.0 / COLDEST, xtol=1e-12))


def calibrate(
    labelled: Iterable[LabelledAnswer],
    *,
    judges: Mapping[str, str],
    about: str,
    panel: Panel | None = None,
    panels: Sequence[Sequence[str]] | None = None,
    cascades: Sequence[CascadeSpec] = (),
) -> Calibration:
    """Measure ``judges`` (id → fingerprint) on ``labelled`` answers; ``about`` describes these.

    ``panel`` says how verdicts are made (default: the mean; its own calibration is replaced by
    the one that is measured here) and ``panels`` of which judges: give the judges of the loop
    and those of the report, one sequence each. By default each judge alone and all together are
    measured. The rates of a ``calibrated`` panel are those on the facts it was fitted to, which
    flatters it a little where labels are few.

    Each of ``cascades`` that names a ``risk`` gets its bounds
    (:mod:`scenewright.agents.panel.guarantee`).

    Raises ``CalibrationError`` for answers of other judges, two answers of one judge to one
    fact, labels that contradict each other, a judge without any usable answer, and a panel of
    judges that are not measured.
    """
    panel = panel or Panel()
    table = _Table(labelled, tuple(judges))
    if panels is None:
        panels = [(judge,) for judge in judges]
        if len(judges) > 1:
            panels.append(tuple(judges))
    for ids in (*panels, *(spec.first for spec in cascades)):
        if not ids or set(ids) - set(judges):
            raise CalibrationError(
                f"a panel of {', '.join(ids) or 'no judges'}: name judges that are measured here"
            )
    measured = Calibration(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        about=about,
        n_facts=len(table.truth),
        prevalence={
            group: float(table.truth[rows].mean()) if (rows := table.rows(group)).any() else None
            for group in GROUPS
        },
        judges=tuple(table.judge(judge, judges[judge]) for judge in judges),
    )
    wanted = dict.fromkeys(tuple(sorted(set(ids))) for ids in panels)
    stacks: list[PanelStack] = []
    agreements: list[JudgeWeights] = []
    kinds = table.kinds.tolist()
    for ids in wanted:
        values = table.columns(ids)
        # Not where no answered fact holds, or all do.
        if len(set(table.truth[~np.isnan(values).all(1)].tolist())) == 2:
            stacks.append(fit_stack(values, table.truth, kinds, ids, table.pictures))
        if (weights := judge_weights(ids, values, kinds)) is not None:
            agreements.append(weights)
    measured = measured.model_copy(
        update={"stacks": tuple(stacks), "agreements": tuple(agreements)}
    )
    working = replace(panel, calibration=measured)
    return measured.model_copy(
        update={
            "panels": tuple(table.panel(ids, working) for ids in wanted),
            "cascades": tuple(
                table.cascade(spec, spec.risk, working)
                for spec in cascades
                if spec.risk is not None
            ),
        }
    )


class _Table:
    """Labelled answers as arrays: facts of all images are rows, judges are columns."""

    def __init__(self, labelled: Iterable[LabelledAnswer], judges: Sequence[str]) -> None:
        labels: dict[tuple[str, str], tuple[FactKind, bool]] = {}
        by_judge: dict[tuple[str, str], dict[str, LabelledAnswer]] = defaultdict(dict)
        for answer in labelled:
            if answer.kind not in FACT_KINDS:
                continue
            key = (answer.image, answer.fact_id)
            label = (answer.kind, answer.holds)
            if answer.judge_id not in judges:
                raise CalibrationError(
                    f"an answer by {answer.judge_id}, which is not among the judges"
                )
            if labels.setdefault(key, label) != label:
                raise CalibrationError(f"{answer.fact_id} of {answer.image} is labelled two ways")
            if answer.judge_id in by_judge[key]:
                raise CalibrationError(
                    f"{answer.judge_id} answered {answer.fact_id} of {answer.image} twice"
                )
            by_judge[key][answer.judge_id] = answer
        if not labels:
            raise CalibrationError("no labelled answers: nothing can be measured")
        self.judges = tuple(judges)
        self.kinds = np.array([kind for kind, _ in labels.values()])
        self.truth = np.array([holds for _, holds in labels.values()])
        self.images: dict[str, list[int]] = defaultdict(list)
        self.unscored = dict.fromkeys(judges, 0)
        self.facts: dict[int, Fact] = {}
        self.answers: dict[str, dict[str, Answer]] = {judge: {} for judge in judges}
        forms: list[str] = []
        for row, (key, answers) in enumerate(by_judge.items()):
            self.images[key[0]].append(row)
            forms.append(form_of(next(iter(answers.values())).fact_and_answer[0]))
            for judge, labelled_answer in answers.items():
                fact, given = labelled_answer.fact_and_answer
                if labelled_answer.probability is None:
                    self.unscored[judge] += 1
                    continue
                self.facts[row] = fact.model_copy(update={"id": str(row)})
                self.answers[judge][str(row)] = given
        self.forms = np.array(forms)
        self.values, self.votes = answer_table(list(map(str, range(len(labels)))), self.answers)
        self.pictures = np.empty(len(labels), np.intp)
        for number, rows in enumerate(self.images.values()):
            self.pictures[rows] = number

    def columns(self, ids: Sequence[str]) -> Array:
        """Return the probabilities of some judges, (n_facts, len(ids))."""
        return self.values[:, [self.judges.index(judge) for judge in ids]]

    def rows(self, group: Group) -> Mask:
        """Return the mask of the facts of a kind."""
        mask: Mask = np.ones(len(self.kinds), bool) if group == "all" else self.kinds == group
        return mask

    def judge(self, judge: str, fingerprint: str) -> JudgeCalibration:
        """Return the calibration of one judge."""
        known = ~np.isnan(self.columns((judge,))[:, 0])
        if not known.any():
            raise CalibrationError(f"no usable labelled answer by {judge}: it cannot be measured")
        forms = {}
        for form in sorted(set(self.forms.tolist())):
            rows = self.forms == form
            # The only form of its kind is the kind.
            if not (rows == (self.kinds == form.partition("/")[0])).all():
                forms[form] = self._rates_of(judge, known & rows)
        return JudgeCalibration(
            judge_id=judge,
            fingerprint=fingerprint,
            n_unscored=self.unscored[judge],
            kinds={group: self._rates_of(judge, known & self.rows(group)) for group in GROUPS},
            forms={form: rates for form, rates in forms.items() if rates.enough},
        )

    def _rates_of(self, judge: str, rows: Mask) -> JudgeRates:
        """Return one judge's rates on some rows, all answered."""
        column = self.judges.index(judge)
        truth, given = self.truth[rows].astype(np.float64), self.values[rows, column]
        temperature = fit_temperature(given, truth) if len(given) else 1.0
        errors: dict[str, float | None] = {}
        for name, values in (("", given), ("_scaled", temper(given, temperature))):
            some = len(given) > 0
            errors[f"brier{name}"] = brier_score(values, truth) if some else None
            errors[f"ece{name}"] = expected_calibration_error(values, truth) if some else None
        rates = _rates(self.truth[rows], self.votes[rows, column] == 1.0).model_dump()
        return JudgeRates.model_validate({**rates, "temperature": temperature, **errors})

    def verdicts(self, ids: tuple[str, ...], panel: Panel) -> tuple[Mask, Array]:
        """Return whether each fact holds by some columns, and its lead, image by image.

        The lead is NaN where too few judges answered.
        """
        holds = np.zeros(len(self.truth), bool)
        leads = np.full(len(self.truth), np.nan)
        table = {judge: self.answers[judge] for judge in ids}
        for rows in self.images.values():
            there = [row for row in rows if row in self.facts]
            pooled = panel.pool(answer_arrays([self.facts[row] for row in there], table))
            holds[there] = pooled.holds
            leads[there] = pooled.two_way_probabilities
        few = (~np.isnan(self.columns(ids))).sum(1) < panel.quorum
        return holds, np.where(few, np.nan, leads)

    def cascade(self, spec: CascadeSpec, risk: float, panel: Panel) -> CascadeGuarantee:
        """Return the bounds of a cascade."""
        says, lead = self.verdicts(spec.first, panel)
        return guarantee_of(
            LabelledVerdicts(self.kinds, lead, says, self.truth, self.pictures),
            first=spec.first,
            aggregation=panel.aggregation,
            quorum=panel.quorum,
            risk=risk,
            confidence=spec.confidence,
        )

    def panel(self, ids: tuple[str, ...], panel: Panel) -> PanelCalibration:
        """Return the rates of the joint verdicts of some judges."""
        holds, lead = self.verdicts(ids, panel)
        rows = {group: self.rows(group) & ~np.isnan(lead) for group in GROUPS}
        return PanelCalibration(
            judges=ids,
            aggregation=panel.aggregation,
            quorum=panel.quorum,
            threshold=panel.threshold,
            choices="pooled",
            kinds={group: _rates(self.truth[some], holds[some]) for group, some in rows.items()},
        )


def _rates(truth: Mask, yes: Mask) -> Rates:
    """Return smoothed rates of votes, both (n_facts,) of booleans."""
    n_true, n_false = int(truth.sum()), int((~truth).sum())
    return Rates(
        n_true=n_true,
        n_false=n_false,
        sensitivity=(float((yes & truth).sum()) + 0.5) / (n_true + 1),
        specificity=(float((~yes & ~truth).sum()) + 0.5) / (n_false + 1),
    )
