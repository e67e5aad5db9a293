"""Calibration files: measured error rates of judges and panels.

:mod:`scenewright.agents.panel.calibration` measures them. A calibration is valid for the judges
whose fingerprints it names, on pictures and facts like those that were labelled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, ValidationError, field_validator, model_validator

from scenewright.agents.panel.aggregation import Array
from scenewright.agents.panel.agreement import EARLIER, JudgeWeights
from scenewright.agents.panel.guarantee import CascadeGuarantee
from scenewright.agents.panel.stacking import PanelStack
from scenewright.config.profiles import Aggregation, SettingsError
from scenewright.core.facts import Fact, FactKind
from scenewright.core.user_files import read_user_text
from scenewright.core.validation import FiniteModel, FrozenModel, first_problem

Group = Literal["object", "attribute", "relation", "all"]
GROUPS: tuple[Group, ...] = get_args(Group)
LEAST_LABELS = 10
"""Fewest facts that hold, and that do not, for rates of a kind of its own; with fewer, the rates of
all kinds together apply.
"""
COLDEST, HOTTEST = 0.1, 10.0
"""Bounds of a temperature; a judge that is always right, or never sure, has no finite one."""
CALIBRATE = "run `scenewright judges calibrate`"
R = TypeVar("R", bound="Rates")


class CalibrationError(SettingsError):
    """A calibration that cannot be made, read or used; says how to get one."""


class Rates(FiniteModel):
    """Error rates of votes or verdicts."""

    n_true: int = Field(ge=0)
    """Facts behind the sensitivity."""
    n_false: int = Field(ge=0)
    """Facts behind the specificity."""
    sensitivity: float = Field(gt=0.0, lt=1.0)
    """P(yes | the fact holds), as (hits + ½) / (n + 1)."""
    specificity: float = Field(gt=0.0, lt=1.0)
    """P(no | the fact does not hold), likewise."""

    @property
    def youden(self) -> float:
        """Sensitivity + specificity − 1: 0 is guessing."""
        return self.sensitivity + self.specificity - 1.0

    @property
    def enough(self) -> bool:
        """Whether there are enough labels to use them (:data:`LEAST_LABELS`)."""
        return min(self.n_true, self.n_false) >= LEAST_LABELS


class JudgeRates(Rates):
    """One judge on one kind of fact."""

    temperature: float = Field(ge=COLDEST, le=HOTTEST)
    """T of ``logit(p) / T``: above 1 the judge was too sure. 1 for votes, which have no
    logit that could be scaled."""
    brier: float | None
    """Brier score of its probabilities as given; None without labels."""
    brier_scaled: float | None
    """With the temperature, on the same facts."""
    ece: float | None
    """Expected calibration error (10 bins) as given."""
    ece_scaled: float | None
    """With the temperature, on the same facts."""


class JudgeCalibration(FrozenModel):
    """Calibration of one judge."""

    judge_id: str
    """``provider:model``."""
    fingerprint: str
    """Fingerprint of the judge when measured; another one is another judge."""
    n_unscored: int = Field(default=0, ge=0)
    """Labelled facts without a usable answer, left out of all rates."""
    kinds: dict[Group, JudgeRates]
    """By kind of fact, and all together."""
    forms: dict[str, JudgeRates] = Field(default_factory=dict, exclude_if=lambda forms: not forms)
    """By kind of fact and of question (:func:`form_of`), where there are labels enough: among more
    options a judge is right less often, and its probabilities are others."""

    def rates(self, kind: FactKind, form: str = "") -> JudgeRates:
        """Return the rates of the ``form``, else of ``kind``, else of all kinds.

        The first with enough labels applies.
        """
        return self.forms.get(form) or _enough(self.kinds, kind)


class PanelCalibration(FrozenModel):
    """Calibration of the joint verdicts of several judges."""

    judges: tuple[str, ...]
    """Ids, sorted."""
    aggregation: Aggregation
    """Rule by which their answers became verdicts."""
    quorum: int = Field(ge=1)
    """Fewest judges that a verdict needed."""
    threshold: float
    """Above which probability a fact held."""
    choices: Literal["threshold", "pooled"] = "threshold"
    """Rule by which choices were decided: by that threshold (files of earlier versions, which
    correct nothing any more), or by the pooled choice."""
    kinds: dict[Group, Rates]
    """By kind of fact, and all together."""

    def rates(self, kind: FactKind) -> Rates:
        """Return the rates of ``kind``, or of all kinds if it has too few labels."""
        return _enough(self.kinds, kind)


class Calibration(FrozenModel):
    """Measurements of judges and panels on one set of labelled facts."""

    schema_version: Literal[1] = 1
    """Of the file."""
    created: str
    """Time of measurement, UTC, ISO 8601."""
    about: str
    """The labelled facts, in words."""
    n_facts: int = Field(ge=1)
    """Number of answers."""
    prevalence: dict[Group, float | None]
    """Share of them that hold; None for a kind without facts. For information only: labelled sets
    are seldom drawn as runs draw.
    """
    judges: tuple[JudgeCalibration, ...]
    """One a judge."""
    panels: tuple[PanelCalibration, ...] = ()
    """One per measured panel."""
    stacks: tuple[PanelStack, ...] = ()
    """One a panel that was measured, for the aggregation ``stacked``; none in files of earlier
    versions, and where no fact holds or all do."""
    cascades: tuple[CascadeGuarantee, ...] = ()
    """Bounds of cascades, one a wanted risk and choice of first judges."""
    agreements: tuple[JudgeWeights, ...] = ()
    """One a panel of three judges or more that answered enough, for the aggregation ``agreement``;
    they come from the answers alone. Those of version 1.0 are left out."""

    @field_validator("agreements", mode="before")
    @classmethod
    def _leave_out_earlier(cls, given: Any) -> Any:
        # Weights of version 1.0 were measured for a pool of log-odds.
        if not isinstance(given, list):
            return given
        return [one for one in given if not (isinstance(one, Mapping) and EARLIER & one.keys())]

    @model_validator(mode="after")
    def _check(self) -> Self:
        kinds: list[Mapping[Group, Rates]] = [entry.kinds for entry in self.judges]
        kinds += [entry.kinds for entry in self.panels]
        if not all("all" in entry for entry in kinds):
            raise ValueError("a judge or panel has no entry 'all'")
        known = {entry.judge_id for entry in self.judges}
        if not all(known.issuperset(stack.judge_ids) for stack in self.stacks):
            raise ValueError("a stack holds a judge that was not measured")
        return self

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the content."""
        # Files of earlier versions keep the digest that runs were begun with.
        unsaid: dict[str, Any] = {
            name: True for name in ("stacks", "cascades", "agreements") if not getattr(self, name)
        }
        if all(panel.choices == "threshold" for panel in self.panels):
            unsaid["panels"] = {"__all__": {"choices"}}
        return hashlib.sha256(self.model_dump_json(exclude=unsaid or None).encode()).hexdigest()

    def judge(self, judge_id: str) -> JudgeCalibration:
        """Return the entry of a judge; ``CalibrationError`` if there is none."""
        for entry in self.judges:
            if entry.judge_id == judge_id:
                return entry
        known = ", ".join(entry.judge_id for entry in self.judges) or "no judge"
        raise CalibrationError(
            f"the calibration has no entry for {judge_id} (it measured {known}): "
            f"{CALIBRATE} for the judges of this profile"
        )

    def stack(self, judges: Sequence[str]) -> PanelStack:
        """Return the stack of the smallest measured panel with all ``judges``.

        Raises ``CalibrationError`` if there is none.
        """
        for judge in judges:
            self.judge(judge)
        holding = [stack for stack in self.stacks if set(stack.judge_ids).issuperset(judges)]
        if holding:
            return min(holding, key=lambda stack: len(stack.judges))
        raise CalibrationError(
            f"the calibration has no weights for a stacked panel of {', '.join(judges)}: it is of "
            "an earlier version, was measured for other panels, or all its facts hold or none "
            f"does; {CALIBRATE} for the judges of this profile"
        )

    def agreement(self, judges: Sequence[str]) -> JudgeWeights | None:
        """Return the weights of the smallest measured panel with all ``judges``, None without."""
        holding = [one for one in self.agreements if set(one.judges).issuperset(judges)]
        return min(holding, key=lambda one: len(one.judges)) if holding else None

    def check(self, judges: Mapping[str, str]) -> None:
        """Raise ``CalibrationError`` unless it is valid for ``judges`` (id → fingerprint)."""
        for judge_id, fingerprint in judges.items():
            if self.judge(judge_id).fingerprint != fingerprint:
                raise CalibrationError(
                    f"{judge_id} has changed since it was calibrated ({self.created}): its "
                    f"weights, prompt or settings changed. To measure it again,  {CALIBRATE}"
                )

    def save(self, path: str | Path) -> None:
        """Write it as JSON. Raises ``CalibrationError`` if the file cannot be written."""
        try:
            Path(path).write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise CalibrationError(
                f"{path} cannot be written: {error.strerror or error}. Name another file"
            ) from error


def load_calibration(path: str | Path) -> Calibration:
    """Return the calibration in a file. Raises ``CalibrationError`` that names file and remedy."""
    if not Path(path).expanduser().exists():
        raise CalibrationError(f"there is no calibration {path}: to make one, {CALIBRATE}")
    try:
        return Calibration.model_validate_json(read_user_text(path, CalibrationError))
    except ValidationError as error:
        raise CalibrationError(
            f"{path} is not a calibration of this version ({first_problem(error)}): to make one, "
            f"{CALIBRATE}"
        ) from error


def form_of(fact: Fact) -> str:
    """Return the kind of fact and question: ``object/yes-no``, ``relation/4`` for four options."""
    return f"{fact.kind}/{'yes-no' if fact.is_binary else len(fact.options)}"


def temper(probabilities: ArrayLike, temperature: ArrayLike) -> Array:
    """Return ``expit(logit(p) / T)``, same shape, NaN kept; 0 and 1 stay what they are.

    ``temperature`` is positive and is broadcast against the ``probabilities`` in [0, 1].
    """
    from scipy.special import expit, logit

    odds = logit(np.asarray(probabilities, np.float64))
    result: Array = expit(odds / np.asarray(temperature, np.float64))
    return result


def _enough(kinds: Mapping[Group, R], kind: FactKind) -> R:
    rates = next((rates for group, rates in kinds.items() if group == kind), None)
    return rates if rates is not None and rates.enough else kinds["all"]
