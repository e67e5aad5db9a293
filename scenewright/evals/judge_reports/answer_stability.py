"""Whether a judge says the same whatever the order of the options and the words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from scenewright.core.facts import Answer, Fact
from scenewright.core.questions import NO_RELATION
from scenewright.evals.judge_reports.judge_card import Places, Stability
from scenewright.evals.judge_reports.judge_runs import JudgeRun
from scenewright.evals.judge_reports.labelled_facts import ABSENT, LabelledFact
from scenewright.evals.judge_reports.variants import Form, keeps_last
from scenewright.evals.statistics.figures import Bootstrap, Figure

_SCORED = ("yes", "no")


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two forms of one question."""

    at: int
    """Number of the fact."""
    same: bool
    """Whether the choice is the same."""
    shift: float
    """|Difference| of the probabilities; NaN without them."""


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What was chosen of one question whose options stood in every place."""

    picture: int
    """Number of the picture."""
    places: list[int]
    """Place of each choice among the options that moved."""


class AnswerStability:
    """Figures of one judge from the variants of its interview."""

    def __init__(
        self,
        judge_run: JudgeRun,
        facts: Sequence[LabelledFact],
        pictures: NDArray[np.intp],
        bootstrap: Bootstrap,
    ) -> None:
        """``pictures``: number of each fact's picture, (n_facts,)."""
        self._interview = judge_run
        self._facts = facts
        self._pictures = pictures
        self._bootstrap = bootstrap

    def order(self) -> dict[str, Stability]:
        """Of all pairs of orders of one question; empty if none were asked."""
        found = self._by(
            self._all_pairs("order"), lambda fact: "yes/no" if fact.is_binary else "choice"
        )
        turned = self._all_pairs("turn")
        return found | ({"turned": self._stability(turned)} if turned else {})

    def paraphrase(self) -> dict[str, Stability]:
        """Of all pairs of wordings of one question; empty if none were asked."""
        return self._by(self._all_pairs("paraphrase"), lambda fact: fact.kind)

    def claims_absent(self) -> Figure:
        """Share of choices about absent things other than "no visible relationship"."""
        found = [
            (self._pictures[at], float(answers[0].choice != NO_RELATION))
            for at, (labelled, answers) in enumerate(
                zip(self._facts, self._interview.answers, strict=True)
            )
            if labelled.group == ABSENT
            and NO_RELATION in labelled.fact.options
            and answers[0].state in _SCORED
            and answers[0].choice is not None
        ]
        if not found:
            return Figure(value=None)
        pictures, claims = zip(*found, strict=True)
        return self._bootstrap.share(pictures, claims)

    def places(self) -> tuple[Places, ...]:
        """Position bias, for each number of options that stood in every place."""
        found: list[Places] = []
        for kept, form in ((True, "order"), (False, "turn")):
            by_size: dict[int, list[_Chosen]] = {}
            for at, labelled in enumerate(self._facts):
                fact = labelled.fact
                if fact.is_binary or (kept and not keeps_last(fact)):
                    continue
                turned: Form = "turn" if form == "turn" and keeps_last(fact) else "order"
                size = len(fact.options) - kept
                chosen = self._chosen(at, turned, size)
                if chosen is not None:
                    by_size.setdefault(size, []).append(chosen)
            found += [self._places(size, kept, by_size[size]) for size in sorted(by_size)]
        return tuple(found)

    def _chosen(self, at: int, form: Form, size: int) -> _Chosen | None:
        """Places of what was chosen in each turn; None unless all turns have an answer."""
        places: list[int] = []
        rows = zip(self._interview.variants[at], self._interview.answers[at], strict=True)
        for variant, answer in rows:
            # The plain order is one of the turns.
            if variant.form not in ("plain", form):
                continue
            if answer.state not in _SCORED or answer.choice is None:
                # With a turn lost the options would no longer stand in each place equally often.
                return None
            places.append(variant.fact.options.index(answer.choice))
        if len(places) != size:
            return None
        return _Chosen(int(self._pictures[at]), [place for place in places if place < size])

    def _places(self, size: int, kept: bool, facts: Sequence[_Chosen]) -> Places:
        pictures = [fact.picture for fact in facts for _ in fact.places]
        chosen = np.array([place for fact in facts for place in fact.places], np.intp)
        share = self._bootstrap.share
        counts = np.bincount(chosen, minlength=size)
        return Places(
            options=size,
            last_kept=kept,
            facts=len(facts),
            choices=len(chosen),
            shares=tuple(share(pictures, chosen == place) for place in range(size)),
            first_bias=share(pictures, chosen == 0, 1.0 / size),
            last_bias=share(pictures, chosen == size - 1, 1.0 / size),
            p_value=_chi_square_p(counts),
        )

    def _all_pairs(self, form: Form) -> list[_Pair]:
        return [pair for at in range(len(self._facts)) for pair in self._pairs(at, form)]

    def _pairs(self, at: int, form: Form) -> Iterator[_Pair]:
        # The plain form of a yes/no question says no order, so it is no member of that pair.
        with_plain = form != "order" or not self._facts[at].fact.is_binary
        forms = (form, "plain") if with_plain else (form,)
        rows = zip(self._interview.variants[at], self._interview.answers[at], strict=True)
        kept = [answer for variant, answer in rows if variant.form in forms]
        usable = [answer for answer in kept if answer.state in _SCORED]
        for a, b in combinations(usable, 2):
            shift = np.nan
            if a.probability is not None and b.probability is not None:
                shift = abs(a.probability - b.probability)
            yield _Pair(at, _choice(a) == _choice(b), shift)

    def _by(self, pairs: Sequence[_Pair], group: Callable[[Fact], str]) -> dict[str, Stability]:
        if not pairs:
            return {}
        parts: dict[str, list[_Pair]] = {}
        for pair in pairs:
            parts.setdefault(group(self._facts[pair.at].fact), []).append(pair)
        return {"all": self._stability(pairs)} | {
            name: self._stability(part) for name, part in parts.items()
        }

    def _stability(self, pairs: Sequence[_Pair]) -> Stability:
        at = self._pictures[[pair.at for pair in pairs]]
        shift = np.array([pair.shift for pair in pairs])
        known = ~np.isnan(shift)
        return Stability(
            same=self._bootstrap.share(at, [pair.same for pair in pairs]),
            shift=self._bootstrap.share(at[known], shift[known]),
        )


def _choice(answer: Answer) -> str:
    return answer.choice if answer.choice is not None else answer.state


def _chi_square_p(counts: NDArray[np.intp]) -> float | None:
    """P of Pearson's χ² of ``counts`` against equal ones."""
    # Imported here: scipy takes long to load.
    from scipy.special import chdtrc

    expected = counts.sum() / len(counts)
    if not expected:
        return None
    return float(chdtrc(len(counts) - 1, ((counts - expected) ** 2 / expected).sum()))
