"""Answers in one plain sentence, made from figures: one function for each kind of question.

Pages, terminals and JSON files show the same sentence, so none of them words a result itself.

========================  ===========================================================
question                  function
========================  ===========================================================
is one better?            :func:`difference_answer`, of one :class:`Contrast`
which is the best?        :func:`best_answer`, of all pairs; :func:`highest_answer`
                          where there are no pairs
how good is it?           :func:`level_answer`, where there is nothing to compare with
do these two agree?       :func:`agreement_answer`
what was kept?            :func:`selection_answer`
========================  ===========================================================

**Rule of a difference.** *Better* or *worse*: its 95 % interval, as it is shown, excludes 0 and
its p-value, corrected where several differences were tested, is significant. *No difference*: the
interval contains 0 and lies within ± the margin, so that a difference of the margin or more is
ruled out. *Too little data*: the interval contains 0 and is wider than that, there are fewer than
:data:`FEWEST` items, or only significance is missed. A wide interval is never called "no
difference".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from scenewright.core.validation import FrozenModel
from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.statistics.figures import side_of_zero

FEWEST = 10
"""Items below which a bootstrap interval is too narrow to decide anything."""
MARGIN = 0.05
"""Difference of scores between 0 and 1 that would matter: below it two sides count as alike."""
_WIDE = 0.2
"""Half the width of an interval of an agreement beyond which it says nothing of its size."""

AnswerVerdict = Literal[
    "better", "worse", "no difference", "measured", "agrees", "no agreement", "too little data",
    "not measured",
]  # fmt: skip


class PlainAnswer(FrozenModel):
    """Answer to one question."""

    verdict: AnswerVerdict
    """In a word, for programs; ``better`` and ``worse`` are those of the sentence's subject."""
    sentence: str
    """For people, with the figures behind it."""


class Measured(Protocol):
    """A measured value with the ends of its 95 % interval."""

    @property
    def value(self) -> float | None:
        """The value; None: nothing was measured."""
        ...

    @property
    def low(self) -> float | None:
        """Lower end; None without an interval."""
        ...

    @property
    def high(self) -> float | None:
        """Upper end."""
        ...


@dataclass(frozen=True, slots=True)
class Contrast:
    """The measured difference ``after`` − ``before`` in one score, and how to read it."""

    after: str
    """Name of the side that the sentence is about."""
    before: str
    """Name of the other side."""
    difference: Estimate
    """Its mean with its interval; ``n`` counts what was resampled."""
    measure: str = ""
    """The score in words, for example ``SGScore``."""
    unit: str = "item"
    """What ``n`` counts, in the singular."""
    higher_is_better: bool = True
    """Whether more of the score is better."""
    margin: float = MARGIN
    """Difference that would matter, in the unit of the score."""
    significant: bool | None = None
    """Whether p, corrected where there are several tests, is significant; None: not tested."""
    tests: int = 1
    """How many differences the correction is for."""
    gated: bool = False
    """Whether it is of a class of items, and the difference over all items is not significant."""
    digits: int = 3
    """Decimal places."""

    @property
    def turned(self) -> Contrast:
        """Return the same with its sides exchanged."""
        found = self.difference
        ends = [None if end is None else -end for end in (found.value, found.high, found.low)]
        update = dict(zip(("value", "low", "high"), ends, strict=True))
        return replace(
            self, after=self.before, before=self.after, difference=found.model_copy(update=update)
        )

    @property
    def gain(self) -> float:
        """Return by how much ``after`` is better, below 0 if it is worse; 0 without a value."""
        value = self.difference.value or 0.0
        return value if self.higher_is_better else -value

    @property
    def verdict(self) -> AnswerVerdict:
        """By the rule of differences."""
        found = self.difference
        if found.value is None:
            return "not measured"
        if found.n < FEWEST or found.low is None or found.high is None:
            return "too little data"
        side = side_of_zero(found, self.digits)
        if side and self.significant is not False:
            return "better" if (side > 0) == self.higher_is_better else "worse"
        if not side and -self.margin <= found.low and found.high <= self.margin:
            return "no difference"
        return "too little data"

    @property
    def figures(self) -> str:
        """Return ``+0.031 [+0.012, +0.050]``."""
        return self.difference.model_copy(update={"sd": None}).text(self.digits, sign=True)

    @property
    def inside(self) -> str:
        """Return `` in SGScore``; empty without a name of the score."""
        return f" in {self.measure}" if self.measure else ""


def difference_answer(contrast: Contrast) -> PlainAnswer:
    """Return whether ``contrast.after`` is better than ``contrast.before``."""
    found, verdict = contrast.difference, contrast.verdict
    pair = f"{contrast.after} from {contrast.before}{contrast.inside}"
    counted = _counted(found.n, contrast.unit)
    if verdict == "not measured":
        why = found.reason or f"no {contrast.unit} was scored on both sides"
        sentence = f"Not measured: {contrast.after} against {contrast.before}, since {why}."
    elif verdict in ("better", "worse"):
        size = contrast if (found.value or 0.0) > 0 else contrast.turned
        less = "" if contrast.higher_is_better else ", lower is better"
        shown = size.difference.model_copy(update={"sd": None}).text(contrast.digits)
        sentence = (
            f"{_begun(contrast.after)} is {verdict} than {contrast.before}{contrast.inside} by "
            f"{shown} "
            f"(95 %, {counted}{less})."
        )
    elif verdict == "no difference" and found.low == found.high:
        # Of items that are all alike a bootstrap cannot know what is rare: nothing is ruled out.
        sentence = (
            f"No difference between {contrast.after} and {contrast.before}{contrast.inside} on any "
            f"of {counted}."
        )
    elif verdict == "no difference":
        edge = f"{contrast.margin:.{_places(contrast.margin)}f}"
        sentence = (
            f"No difference between {contrast.after} and {contrast.before}{contrast.inside}: "
            f"{contrast.figures} (95 %, {counted}); one of {edge} or more is ruled out."
        )
    elif found.n < FEWEST:
        sentence = (
            f"Too few {contrast.unit}s to tell {pair}: {contrast.figures} over {counted}; at least "
            f"{FEWEST} are needed."
        )
    else:
        sentence = (
            f"Too little data to tell {pair}: {contrast.figures} (95 %, {counted})"
            f"{_lacking(contrast)}."
        )
    return PlainAnswer(verdict=verdict, sentence=sentence)


def _lacking(contrast: Contrast) -> str:
    """Return what would settle a difference that is not settled."""
    found = contrast.difference
    if found.low is None or found.high is None:
        return ", without an interval"
    if side_of_zero(found, contrast.digits):
        if contrast.gated:
            return " counts only where the difference over all items is significant"
        if contrast.tests == 1:
            return " is not significant in the test of sign flips"
        return f" is not significant after Holm's correction for {contrast.tests} comparisons"
    half = (found.high - found.low) / 2
    if half <= contrast.margin:
        return ""
    needed = found.n * (half / contrast.margin) ** 2
    step = 10 ** max(0, math.floor(math.log10(needed)) - 1)
    edge = f"{contrast.margin:.{_places(contrast.margin)}f}"
    shown = f"{math.ceil(needed / step) * step:,}"
    return f"; a difference of {edge} would take about {shown} {contrast.unit}s"


def best_answer(contrasts: Sequence[Contrast], noun: str = "arm") -> PlainAnswer:
    """Return which side is the best by ``contrasts`` of the same score, in one sentence.

    With all pairs of the sides the best one is named, and what it cannot be told from; otherwise
    each side is told from the one that it was compared with. ``noun`` names a side. Raises
    ``ValueError`` without contrasts.
    """
    if not contrasts:
        raise ValueError("no contrast: name two sides")
    if len(contrasts) == 1:
        return difference_answer(contrasts[0])
    names = list(dict.fromkeys(name for c in contrasts for name in (c.before, c.after)))
    pairs = {frozenset((c.before, c.after)) for c in contrasts}
    if len(pairs) < len(names) * (len(names) - 1) // 2 or len(pairs) < len(contrasts):
        return _listed(contrasts)
    best = max(names, key=lambda name: _standing(name, contrasts))
    others = sorted(_of(best, contrasts), key=lambda c: c.gain)
    first, inside = others[0], others[0].inside
    groups = _grouped(others)
    if set(groups) == {"better"}:
        size = (first if (first.difference.value or 0.0) > 0 else first.turned).difference
        shown = size.model_copy(update={"sd": None}).text(first.digits)
        return PlainAnswer(
            verdict="better",
            sentence=f"{best} is better than the other {len(others)} {noun}s{inside}: by {shown} "
            f"than the next best, {first.before} (95 %, "
            f"{_counted(first.difference.n, first.unit)}).",
        )
    open_ = "too little data" in groups or "not measured" in groups
    parts = [
        f"{words} {_joined([_with_figures(c, verdict) for c in groups[verdict]])}"
        for verdict, words in _TOLD.items()
        if verdict in groups
    ]
    return PlainAnswer(
        verdict="too little data" if open_ else "no difference",
        sentence=f"No {noun} is clearly the best{inside}: {best} comes first; it "
        f"{'; it '.join(parts)}.",
    )


_TOLD: dict[AnswerVerdict, str] = {
    "better": "is better than",
    "worse": "is worse than",
    "no difference": "does not differ from",
    "too little data": "cannot be told, with this little data, from",
    "not measured": "could not be compared with",
}


def _listed(contrasts: Sequence[Contrast]) -> PlainAnswer:
    """Return one sentence about contrasts that are not all pairs."""
    groups = _grouped(contrasts)
    befores = {c.before for c in contrasts}
    (one,) = befores if len(befores) == 1 else ("",)
    lead = f"Against {one}" if one else f"Of {len(contrasts)} comparisons"
    parts = [
        f"{verdict}: "
        + _joined([f"{c.after if one else f'{c.after} than {c.before}'} ({c.figures})" for c in of])
        for verdict, of in groups.items()
    ]
    return PlainAnswer(
        verdict=next(iter(groups)), sentence=f"{lead}{contrasts[0].inside}: {'; '.join(parts)}."
    )


def _standing(name: str, contrasts: Sequence[Contrast]) -> tuple[int, float]:
    """Return how many others ``name`` is ahead of, and by how much in all."""
    gains = [c.gain for c in _of(name, contrasts)]
    return sum(gain > 0 for gain in gains), sum(gains)


def _of(name: str, contrasts: Sequence[Contrast]) -> list[Contrast]:
    """Return the contrasts of ``name`` with each other side."""
    return [c if c.after == name else c.turned for c in contrasts if name in (c.after, c.before)]


def _grouped(contrasts: Sequence[Contrast]) -> dict[AnswerVerdict, list[Contrast]]:
    found = {verdict: [c for c in contrasts if c.verdict == verdict] for verdict in _TOLD}
    return {verdict: of for verdict, of in found.items() if of}


def _with_figures(contrast: Contrast, verdict: str) -> str:
    if verdict == "not measured":
        return contrast.before
    return f"{contrast.before} ({contrast.figures})"


def highest_answer(
    figures: Mapping[str, Measured],
    measure: str,
    *,
    noun: str,
    n: int,
    unit: str = "item",
    digits: int = 3,
) -> PlainAnswer:
    """Return which of ``figures`` by name is the highest, where no pairs were tested.

    One is clearly the highest if its interval lies wholly above those of all others, which is
    stricter than a paired test. A single figure is told as :func:`level_answer` does.
    """
    known = {name: one for name, one in figures.items() if one.value is not None}
    if not known:
        lost = f"Not measured: which {noun} has the highest {measure}."
        return PlainAnswer(verdict="not measured", sentence=lost)
    if len(known) == 1:
        ((name, one),) = known.items()
        return level_answer(name, one, measure, n=n, unit=unit, digits=digits)
    order = sorted(known, key=lambda name: -(known[name].value or 0.0))
    best = order[0]
    if n < FEWEST:
        return PlainAnswer(
            verdict="too little data",
            sentence=f"Too few {unit}s to tell which {noun} has the highest {measure}: {best} has "
            f"{_text(known[best], digits)} over {_counted(n, unit)}; at least {FEWEST} "
            "are needed.",
        )
    low = known[best].low
    ends = {name: known[name].high for name in order[1:]}
    open_ = [name for name, high in ends.items() if low is None or high is None or high >= low]
    shown = f"{_text(known[best], digits)} (95 %, {_counted(n, unit)})"
    if not open_:
        return PlainAnswer(
            verdict="better",
            sentence=f"{best} has the highest {measure}, {shown}, above all other {noun}s; "
            f"{order[1]} comes next with {_text(known[order[1]], digits)}.",
        )
    others = _joined([f"{name} ({_text(known[name], digits)})" for name in open_])
    return PlainAnswer(
        verdict="too little data",
        sentence=f"Too little data to tell which {noun} has the highest {measure}: {best} has "
        f"{shown}, and its interval meets that of {others}.",
    )


def level_answer(
    name: str, figure: Measured, measure: str, *, n: int, unit: str = "item", digits: int = 3
) -> PlainAnswer:
    """Return how good one side is, where there is nothing to compare it with."""
    if figure.value is None:
        return PlainAnswer(verdict="not measured", sentence=f"Not measured: {measure} of {name}.")
    shown, counted = _text(figure, digits), _counted(n, unit)
    if n < FEWEST:
        return PlainAnswer(
            verdict="too little data",
            sentence=f"Too few {unit}s to tell the {measure} of {name}: {shown} over {counted}; "
            f"at least {FEWEST} are needed.",
        )
    return PlainAnswer(
        verdict="measured",
        sentence=f"{name} reaches a mean {measure} of {shown} (95 %, {counted}); there is nothing "
        "to compare it with.",
    )


def agreement_answer(
    who: str, does: str, figure: Measured, measure: str, *, n: int, unit: str, digits: int = 2
) -> PlainAnswer:
    """Return whether ``who`` ``does`` (``agrees with people``) beyond chance, and how far.

    ``figure`` is a κ, α or rank correlation, named by ``measure``: 1 is full agreement, 0 chance.
    Its size is put in the words of Landis and Koch (1977).
    """
    upper = _begun(who)
    if figure.value is None:
        return PlainAnswer(verdict="not measured", sentence=f"Not measured: whether {who} {does}.")
    shown = f"{measure} {_text(figure, digits)}, {_counted(n, unit)}"
    if n < FEWEST or figure.low is None or figure.high is None:
        return PlainAnswer(
            verdict="too little data",
            sentence=f"Too few {unit}s to tell whether {who} {does}: {shown}; at least {FEWEST} "
            "are needed.",
        )
    side, half = side_of_zero(figure, digits), (figure.high - figure.low) / 2
    if side > 0 and half <= _WIDE:
        return PlainAnswer(
            verdict="agrees", sentence=f"{upper} {_degree(figure.value)} {does} ({shown})."
        )
    if side > 0:
        return PlainAnswer(
            verdict="agrees",
            sentence=f"{upper} {does} beyond chance, but there is too little data to tell how far "
            f"({shown}).",
        )
    if side < 0:
        return PlainAnswer(
            verdict="no agreement",
            sentence=f"{upper} {does} less than chance would ({shown}).",
        )
    if half <= _WIDE:
        return PlainAnswer(
            verdict="no agreement",
            sentence=f"Nothing shows that {who} {does} beyond chance ({shown}).",
        )
    return PlainAnswer(
        verdict="too little data",
        sentence=f"Too little data to tell whether {who} {does} beyond chance ({shown}).",
    )


def selection_answer(
    counts: Mapping[str, int],
    measure: str,
    *,
    kept: float | None,
    ranked: float | None,
    noun: str = "picture",
    digits: int = 3,
) -> PlainAnswer:
    """Return what a selection by rank kept, and how much better that is than all it ranked.

    ``counts``: in words what became of them → how many, the kept ones first. ``kept`` and
    ``ranked`` are the mean ``measure`` of the kept and of all ranked ones. Nothing is tested: the
    selection is of these alone.
    """
    (_, n), *others = counts.items()
    total = n + sum(left for _, left in others)
    left = _joined([f"{number:,} {word}" for word, number in others if number])
    rest = f"; of the rest, {left}" if n and left else f": {left}" if left else ""
    if ranked is None:
        return PlainAnswer(
            verdict="not measured",
            sentence=f"Not measured: none of {_counted(total, noun)} has a value of {measure} to "
            f"rank by{rest}.",
        )
    if kept is None:
        verb = "is" if total == 1 else "are"
        return PlainAnswer(
            verdict="measured",
            sentence=f"None of {_counted(total, noun)} {verb} kept{rest}; the mean {measure} of "
            f"the ranked ones is {ranked:.{digits}f}.",
        )
    return PlainAnswer(
        verdict="measured",
        sentence=f"{n:,} of {_counted(total, noun)} {'is' if n == 1 else 'are'} kept, with a mean "
        f"{measure} of {kept:.{digits}f} against {ranked:.{digits}f} of all that were ranked"
        f"{rest}.",
    )


def _begun(name: str) -> str:
    """Return ``name`` as the beginning of a sentence; names of arms and models stay as they are."""
    return name[0].upper() + name[1:] if name.startswith(("the ", "raters")) else name


def _degree(value: float) -> str:
    """Return the words of Landis and Koch (1977) for an agreement above chance."""
    degrees = ((0.8, "almost perfectly"), (0.6, "substantially"), (0.4, "moderately"))
    for least, word in degrees:
        if value > least:
            return word
    return "fairly" if value > 0.2 else "only slightly"


def _text(figure: Measured, digits: int) -> str:
    """Return ``0.812 [0.790, 0.833]``."""
    return Estimate(value=figure.value, low=figure.low, high=figure.high).text(digits)


def _counted(n: int, unit: str) -> str:
    """Return ``1 item``, ``2,000 items``, ``3 pairs of ratings``."""
    first, of, rest = unit.partition(" of ")
    return f"{n:,} {unit}" if n == 1 else f"{n:,} {first}s{of}{rest}"


def _places(margin: float) -> int:
    """Return the decimal places that show ``margin``."""
    return next((d for d in range(6) if math.isclose(round(margin, d), margin)), 2)


def _joined(parts: Sequence[str]) -> str:
    """Return ``a, b and c``."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
