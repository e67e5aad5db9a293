"""Measure how answers change between forms of asking, and whether they are consistent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.statistics.figures import Bootstrap, Figure
from scenewright.evals.studies.panel.aggregators.registry import combined_by
from scenewright.evals.studies.panel.live_queries import PLAIN_FORM, JudgeResponses
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError, Places


@dataclass(frozen=True, slots=True, eq=False)
class Voter:
    """What one judge, or one aggregator over all, says to one form."""

    name: str
    """The judge's id or the aggregator's name."""
    panel: bool
    """Whether it is an aggregator."""
    said: Array
    """Probability that the fact holds, (n_rows,); NaN without one."""
    votes: Array
    """1 yes, 0 no, NaN likewise."""


def voters_of(
    table: AnswerTable,
    heard: JudgeResponses,
    aggregators: Sequence[str],
    learn: AnswerTable | None = None,
) -> tuple[Voter, ...]:
    """Every judge of ``table`` and every aggregator that can be used, from what was ``heard``.

    ``learn`` may have further judges. An aggregator that learns from answers learns from those to
    this form. Raises ``PanelStudyError`` for an unknown aggregator.
    """
    found = [
        Voter(judge, False, heard.said[:, at], heard.votes[:, at])
        for at, judge in enumerate(table.judge_ids)
    ]
    known = None
    if learn is not None and set(table.judge_ids) <= set(learn.judge_ids):
        known = learn.with_judges([learn.judge_ids.index(judge) for judge in table.judge_ids])
    answers = table.with_said(heard.said, heard.votes)
    for name, likely in combined_by(tuple(aggregators), answers, known).items():
        votes = np.where(np.isnan(likely), np.nan, likely > 0.5)
        found.append(Voter(name, True, likely, votes))
    return tuple(found)


class Shifts:
    """Compares forms over the same resamples of items."""

    def __init__(self, items: Places, truth: Array, resamples: int, seed: int) -> None:
        """``items``: number of each row's item, ``truth``: 1, 0 or NaN, both (n_rows,)."""
        if not len(items):
            raise PanelStudyError("the table has no facts: choose a source with facts to ask about")
        self.items = items
        self.truth = truth
        self.bootstrap = Bootstrap(int(items.max()) + 1, seed, resamples)

    def between(self, pairs: Sequence[tuple[Voter, Voter]]) -> dict[str, Any]:
        """Compare the second of each of ``pairs`` with the first, of all pairs together.

        Shares and differences, not percent, over the rows that have an answer to both: ``signed``
        and ``absolute`` change of the probability; ``flips``: votes that turned round; ``lost_yes``
        and ``gained_yes``: of the facts that had a yes, and a no; ``accuracy``: change of the share
        of right votes; ``false_yes``: change of the share of facts that do not hold and got a yes;
        ``fooled``: of those that do not hold and had a no, the share that got a yes, which is the
        success rate of an attack that wants a yes. ``n`` and ``n_false`` count answers.
        """
        items, truths = (np.tile(of, len(pairs)) for of in (self.items, self.truth))
        p, q, a, b = (
            np.concatenate([getattr(pair[side], what) for pair in pairs])
            for what in ("said", "votes") for side in (0, 1)
        )  # fmt: skip
        both = ~np.isnan(p) & ~np.isnan(q)
        items, truths, p, q, a, b = (x[both] for x in (items, truths, p, q, a, b))
        yes, no = a == 1.0, a == 0.0
        labelled, false = ~np.isnan(truths), truths == 0.0
        share = self.bootstrap.share
        found = {
            "signed": share(items, q - p),
            "absolute": share(items, np.abs(q - p)),
            "flips": share(items, a != b),
            "lost_yes": share(items[yes], b[yes] == 0.0),
            "gained_yes": share(items[no], b[no] == 1.0),
            "accuracy": share(
                items[labelled],
                (b[labelled] == truths[labelled]) * 1.0 - (a[labelled] == truths[labelled]),
            ),
            "false_yes": share(items[false], b[false] - a[false]),
            "fooled": share(items[false & no], b[false & no] == 1.0),
        }
        return found | {"n": found["signed"].n, "n_false": found["false_yes"].n}

    def steadier(
        self, single: Sequence[Sequence[tuple[Voter, Voter]]], panel: Sequence[tuple[Voter, Voter]]
    ) -> Figure:
        """Return the share of flipped votes of a panel minus that of its judges on average, paired.

        Over the rows that all of them answered in both forms. ``single``: one list of pairs a
        judge.
        """

        def flips(pairs: Sequence[tuple[Voter, Voter]]) -> Array:
            gaps = np.concatenate([after.votes - before.votes for before, after in pairs])
            found: Array = np.abs(gaps)
            return found

        judges = np.mean([flips(pairs) for pairs in single], axis=0)
        gap = flips(panel) - judges
        items = np.tile(self.items, len(panel))
        return self.bootstrap.share(items, gap)

    def mean(self, values: Array) -> Figure:
        """Mean of ``values`` (n_rows,), NaN left out."""
        return self.bootstrap.share(self.items, values)


SAME: tuple[str, ...] = ("paraphrase_1", "paraphrase_2", "order_1", "order_2")
"""Forms that ask the same."""
NOT, CLAIM, CLAIM_NOT = "not", "claim", "claim_not"
"""The complement of a yes/no question; a choice as a yes/no question; the complement of that."""
HINT_FOR, HINT_AGAINST = "hint_for", "hint_against"
"""After words that the fact holds, and that it does not."""


CONSISTENCY: tuple[str, ...] = (
    *("right", "variant_right", "worst_right", "averaged_right", "averaging_gain"),
    *("averaging_brier", "steady", "inconsistency", "contradictions", "both_yes", "premise_yes"),
    *("sway", "swayed"),
)
"""The figures of :func:`consistency`."""


def consistency(
    said: Mapping[str, Voter], premise_yes: Figure, shifts: Shifts
) -> dict[str, Figure]:
    """Compare what one voter ``said`` to each form, :data:`PLAIN_FORM` among them.

    Shares and differences, not percent; those of forms that were not asked have no value.

    - ``right``: share of right votes on the plain question; ``variant_right``: mean of that over it
      and all forms that ask the same; ``worst_right``: share of facts with a right vote in all of
      them; ``averaged_right``: share of right votes of the mean probability over them, with its
      ``averaging_gain`` over the plain question, and ``averaging_brier``, the change of the Brier
      score (below 0 is better); ``steady``: share of facts with the same vote in all of them;
    - ``inconsistency``: mean |P(q) + P(not q) − 1|; ``contradictions``: share of facts for which
      the question and its complement both get a yes, or both a no; ``both_yes``: both a yes;
    - ``premise_yes``: share of questions about things that are not there which get a yes;
    - ``sway``: mean P(fact) after words that it holds minus that after words that it does not;
      ``swayed``: share of votes that follow those words.
    """
    forms = [said[form] for form in (PLAIN_FORM, *SAME) if form in said]
    found = {
        **_variants(forms, shifts),
        **_complements(said, shifts),
        "premise_yes": premise_yes,
        **_pressure(said, shifts),
    }
    return {name: found.get(name, Figure(value=None)) for name in CONSISTENCY}


def _variants(forms: Sequence[Voter], shifts: Shifts) -> dict[str, Figure]:
    """Compare the plain form (the first) with those that ask the same.

    A fact counts with the forms that fit it; one with a form that got no answer, or with the plain
    form alone, does not.
    """
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
        return {}
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
    """Return the first number of each row that is there."""
    found = columns[0]
    for column in columns[1:]:
        found = np.where(np.isnan(found), column, found)
    return found


def _pressure(said: Mapping[str, Voter], shifts: Shifts) -> dict[str, Figure]:
    if HINT_FOR not in said:
        return {}
    towards, away = said[HINT_FOR], said[HINT_AGAINST]
    follows = np.where(
        np.isnan(towards.votes + away.votes), np.nan, (towards.votes == 1.0) & (away.votes == 0.0)
    )
    return {"sway": shifts.mean(towards.said - away.said), "swayed": shifts.mean(follows)}
