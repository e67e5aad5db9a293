"""Whether a voter says the same to all forms of a question: other words and orders, its complement,
false premises, and pressure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.statistics.figures import Figure
from scenewright.evals.studies.panel.live_queries import PLAIN_FORM
from scenewright.evals.studies.panel.shifts import Shifts, Voter

SAME: tuple[str, ...] = ("paraphrase_1", "paraphrase_2", "order_1", "order_2")
"""Forms that ask the same."""
NOT, CLAIM, CLAIM_NOT = "not", "claim", "claim_not"
"""The complement of a yes/no question; a choice as a yes/no question; the complement of that."""
HINT_FOR, HINT_AGAINST = "hint_for", "hint_against"
"""After words that the fact holds, and that it does not."""


@dataclass(frozen=True, slots=True)
class Consistency:
    """Of one voter. Shares and differences, not percent; intervals go by items."""

    right: Figure
    """Share of right votes on the plain question; without a value where no truth is known."""
    variant_right: Figure
    """Mean of that over the plain question and all that ask the same."""
    worst_right: Figure
    """Share of facts with a right vote in all of these forms."""
    averaged_right: Figure
    """Share of right votes of the mean probability over these forms."""
    averaging_gain: Figure
    """Change of the share of right votes from the plain question to that mean."""
    averaging_brier: Figure
    """Change of the Brier score (mean squared error) likewise: below 0 is better."""
    steady: Figure
    """Share of facts with the same vote in all of these forms."""
    inconsistency: Figure
    """Mean |P(q) + P(not q) − 1|."""
    contradictions: Figure
    """Share of facts for which the question and its complement both get a yes, or both a no."""
    both_yes: Figure
    """Share for which both get a yes."""
    premise_yes: Figure
    """Share of questions about things that are not there which get a yes."""
    sway: Figure
    """Mean P(fact) after words that it holds minus that after words that it does not."""
    swayed: Figure
    """Share of votes that follow those words: yes after the ones, no after the others."""

    def named(self) -> Iterator[tuple[str, Figure]]:
        """Name and figure of all that was measured."""
        for field in fields(self):
            figure: Figure = getattr(self, field.name)
            if figure.value is not None:
                yield field.name, figure


def consistency(said: Mapping[str, Voter], premise_yes: Figure, shifts: Shifts) -> Consistency:
    """Of one voter, from what it ``said`` to each form (:data:`PLAIN_FORM` among them); figures of
    forms that were not asked have no value. ``premise_yes`` is kept as it is."""
    forms = [said[form] for form in (PLAIN_FORM, *SAME) if form in said]
    return Consistency(
        **_variants(forms, shifts),
        **_complements(said, shifts),
        premise_yes=premise_yes,
        **_pressure(said, shifts),
    )


def _variants(forms: Sequence[Voter], shifts: Shifts) -> dict[str, Figure]:
    """Over the plain form (the first) and those that ask the same. A fact counts with the forms
    that fit it; one with a form that got no answer, or with the plain form alone, does not."""
    said = np.stack([one.said for one in forms], 1)
    votes = np.stack([one.votes for one in forms], 1)
    there = ~np.isnan(said)
    n = there.sum(1)
    known = there[:, 0] & (n > 1)
    truth = np.where(known, shifts.truth, np.nan)
    divisor = np.maximum(n, 1)
    mean = np.where(there, said, 0.0).sum(1) / divisor
    right = np.where(there, votes == truth[:, None], False)
    # Votes compared with an unknown truth are neither right nor wrong.
    unknown = 0.0 * truth
    plain_right = (votes[:, 0] == truth) + unknown
    averaged = ((mean > 0.5) == (truth == 1.0)) + unknown
    yes = np.where(there, votes, 0.0).sum(1)
    alike = np.where(known, (yes == 0) | (yes == n), np.nan)
    brier = (mean - truth) ** 2 - (said[:, 0] - truth) ** 2
    return {
        "right": shifts.mean(plain_right),
        "variant_right": shifts.mean(right.sum(1) / divisor + unknown),
        "worst_right": shifts.mean((right.sum(1) == n) + unknown),
        "averaged_right": shifts.mean(averaged),
        "averaging_gain": shifts.mean(averaged - plain_right),
        "averaging_brier": shifts.mean(brier),
        "steady": shifts.mean(alike),
    }


def _complements(said: Mapping[str, Voter], shifts: Shifts) -> dict[str, Figure]:
    pairs = [
        (said[plain], said[other])
        for plain, other in ((PLAIN_FORM, NOT), (CLAIM, CLAIM_NOT))
        if other in said
    ]
    if not pairs:
        nothing = Figure(value=None)
        return {"inconsistency": nothing, "contradictions": nothing, "both_yes": nothing}
    # A row is a yes/no question or a choice, never both.
    gap = _first([np.abs(after.said - before.said) for before, after in pairs])
    flips = _first([np.abs(after.votes - before.votes) for before, after in pairs])
    # The complement's yes is read as a no to the fact.
    both = _first([before.votes * (1.0 - after.votes) for before, after in pairs])
    return {
        "inconsistency": shifts.mean(gap),
        "contradictions": shifts.mean(flips),
        "both_yes": shifts.mean(both),
    }


def _first(columns: Sequence[Array]) -> Array:
    """The first number of each row that is there."""
    found = columns[0]
    for column in columns[1:]:
        found = np.where(np.isnan(found), column, found)
    return found


def _pressure(said: Mapping[str, Voter], shifts: Shifts) -> dict[str, Figure]:
    if HINT_FOR not in said:
        return {"sway": Figure(value=None), "swayed": Figure(value=None)}
    towards, away = said[HINT_FOR], said[HINT_AGAINST]
    follows = np.where(
        np.isnan(towards.votes + away.votes), np.nan, (towards.votes == 1.0) & (away.votes == 0.0)
    )
    return {"sway": shifts.mean(towards.said - away.said), "swayed": shifts.mean(follows)}
