"""Cascades: cheap judges first, the others only for unsure facts.

In each wave all facts go to the first judges. Facts whose probability is within the bounds of
``unsure``, or within those that a calibration measured for the wanted ``risk``
(:mod:`~scenewright.agents.panel.guarantee`), go to the other judges as well, and so do unscored
ones (too few usable answers for the quorum). Of a choice, the probability is that against its
strongest rival (``Verdict.lead``). The verdict then comes from all judges who were asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scenewright.agents.panel.guarantee import CascadeGuarantee
from scenewright.agents.panel.panel import Panel
from scenewright.agents.panel.rates import CALIBRATE, CalibrationError
from scenewright.config.profiles import CascadeSpec, SettingsError
from scenewright.core.facts import Fact, Verdict
from scenewright.core.ports.judge import Judge


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
