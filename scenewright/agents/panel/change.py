"""Worth of a change of a picture, in facts gained and lost, by a likelihood ratio of answers.

A judge's answer about a fact is evidence for its holding, ``ln P(answer | it holds) / P(answer |
it does not)``: with a calibration by the judge's measured sensitivity and specificity, else by
those of :data:`ASSUMED`. The evidence of all judges adds up (naive Bayes). A fact that held is
lost with the prior probability that such a change loses it, a fact that was missing is gained with
the prior :data:`FIXED`; with the evidence, both become posterior probabilities. Facts are taken as
independent, so that

    P(better) = P(nothing lost) · P(something gained) = ∏ (1 − P(lost)) · (1 − ∏ (1 − P(gained)))
    worth = Σ P(gained) − LOSS · Σ P(lost)

One sum decides in place of a threshold for each fact that is gained and each that is lost: a fact
of which the judges are unsure counts for as much as they know. A change whose ``worth`` is positive
should be made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scenewright.agents.panel.aggregation import calibrated_log_odds, expit
from scenewright.agents.panel.answer_arrays import two_way_probability
from scenewright.agents.panel.panel import Panel
from scenewright.agents.panel.rates import form_of, temper
from scenewright.core.facts import Answer, Fact, Verdict

ASSUMED = (0.95, 0.95)
"""Sensitivity and specificity of a judge that was not measured. One such judge that is sure of it
says that a fact is lost."""
FIXED = 0.5
"""Prior probability that a repair of its place gains a missing fact."""
LOST_THERE = 0.2
"""Prior probability that it loses a fact about an object that is drawn anew."""
LOST_BESIDE = 0.1
"""Prior probability that it loses a fact about other objects that it touches."""
LOST_APART = 0.02
"""Prior probability that it loses a fact about objects elsewhere, whose class it counts anew."""
LOSS = 4.0
"""Facts that a change must gain for each that it loses."""


@dataclass(frozen=True, slots=True)
class Change:
    """Facts that a changed picture gained and lost, by the judges' answers."""

    gained: tuple[str, ...]
    """Ids of missing facts that the panel now finds."""
    lost: tuple[str, ...]
    """Ids of facts that held and that it does not find."""
    expected: float
    """Expected number of facts gained, less those lost."""
    worth: float
    """Expected number of facts gained, less :data:`LOSS` times those lost."""
    log_odds: float
    """Log of the odds that something was gained and nothing lost."""


def evidence_of(fact: Fact, answers: Iterable[Answer], panel: Panel) -> float:
    """Return the log-likelihood ratio (nats) of ``answers`` for ``fact``; 0 without usable ones.

    A choice counts by its probability against the strongest rival alone.
    """
    total = 0.0
    for answer in answers:
        if answer.state not in ("yes", "no"):
            continue
        likely = two_way_probability(fact, answer)
        value = float(answer.state == "yes") if likely is None else likely
        (sensitivity, specificity), temperature = ASSUMED, 1.0
        if panel.calibration is not None:
            rates = panel.calibration.judge(answer.judge_id).rates(fact.kind, form_of(fact))
            sensitivity, specificity = rates.sensitivity, rates.specificity
            temperature = rates.temperature
        scaled = temper(np.array([[value]]), temperature)
        total += float(calibrated_log_odds(scaled, [sensitivity], [specificity], 0.5)[0])
    return total


def change_between(
    missing: Sequence[str],
    held: Mapping[str, float],
    after: Mapping[str, Verdict],
    evidence: Mapping[str, float],
) -> Change:
    """Return what a changed picture gained of ``missing`` and lost of ``held`` facts.

    ``held`` maps a fact to the prior probability that the change loses it; ``after`` has the
    panel's verdicts in the changed picture and ``evidence`` the judges' (:func:`evidence_of`). Of a
    fact that the panel does not find there, evidence for it does not count.
    """
    gained = [name for name in missing if after[name].state == "yes"]
    lost = [name for name in held if after[name].state in ("no", "void")]

    def odds_of(name: str) -> float:
        found = evidence.get(name, 0.0)
        return found if after[name].state == "yes" else min(found, 0.0)

    gains = [_posterior(FIXED, odds_of(name)) for name in gained]
    losses = [_posterior(prior, -odds_of(name)) for name, prior in held.items()]
    kept = math.prod(1.0 - share for share in losses)
    some = 1.0 - math.prod(1.0 - share for share in gains)
    better = min(max(kept * some, 1e-9), 1.0 - 1e-9)
    return Change(
        gained=tuple(gained),
        lost=tuple(lost),
        expected=sum(gains) - sum(losses),
        worth=sum(gains) - LOSS * sum(losses),
        log_odds=math.log(better / (1.0 - better)),
    )


def _posterior(prior: float, evidence: float) -> float:
    return float(expit(math.log(prior / (1.0 - prior)) + evidence))
