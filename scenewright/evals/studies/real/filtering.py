"""Which pictures of a table of REAL scores are kept, and why the others are not (Section 4.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scenewright.core.images import ImageError
from scenewright.evals.errors import EvalError
from scenewright.evals.studies.real.ranking import Ranked, by_rank, tied_at
from scenewright.evals.studies.real.rows import RealRow, latest

By = Literal["combined", "s_att", "s_rel", "s_style"]
Why = Literal["kept", "rank", "least", "unscored", "duplicate", "unreadable", "changed"]
WHY: dict[Why, str] = {
    "kept": "kept",
    "rank": "beyond the best",
    "least": "below the least score",
    "unscored": "unscored",
    "duplicate": "duplicates",
    "unreadable": "unreadable",
    "changed": "changed since they were scored",
}
"""What became of a picture, in words."""


class FilterError(EvalError):
    """Scores that cannot be filtered, or a folder that cannot take the result; says what to do."""


class FilterPlan(BaseModel):
    """What is kept."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    by: By = "combined"
    """The score that ranks."""
    top: int | None = Field(default=None, ge=1)
    """At most so many of each class; none: all that score enough."""
    least: float | None = Field(default=None, ge=0.0, le=1.0)
    """Least score."""
    per: Literal["class", "all"] = "class"
    """Ranked within each class, or all pictures at once."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.top is None and self.least is None:
            raise ValueError("nothing would be dropped: give how many are kept, or a least score")
        return self


class Filtered(BaseModel):
    """What became of one picture: a line of the manifest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    image: str
    """The picture's file, as the scores name it."""
    label: str
    """Its class."""
    kept: bool
    """Whether it is kept."""
    why: Why
    """The reason."""
    told: str = ""
    """The reason in a sentence; empty if it is kept."""
    rank: int | None = None
    """Its place, 1 the best, among the scored pictures; duplicates have none."""
    of: int | None = None
    """How many places there are."""
    score: float | None = None
    """The score that ranks."""
    tied: bool = False
    """Whether the cut falls among pictures of its score: its content hash, not the score, decided
    whether it is kept."""
    digest: str = ""
    """Content hash; empty if it could not be read."""
    same_as: str = ""
    """The picture with the same pixels that is ranked for it."""
    also_in: tuple[str, ...] = ()
    """Other classes that have the same pixels."""
    file: str = ""
    """Where the kept picture lies, relative to the folder of the result."""
    row: RealRow
    """The scores, with what was not visible and what did not match."""


@dataclass(frozen=True, slots=True)
class Tally:
    """One class in numbers."""

    label: str
    """The class."""
    pictures: int
    """Pictures with this class."""
    counts: Mapping[Why, int]
    """What became of them."""
    lowest: float | None
    """Lowest score that is kept."""
    mean_kept: float | None
    """Mean score of the kept ones."""
    mean_scored: float | None
    """Mean score of all that were ranked."""
    tied: int = 0
    """Pictures, kept or not, that share the score at the cut."""


def filter_rows(
    rows: Sequence[RealRow], plan: FilterPlan, contents: Mapping[str, str | ImageError]
) -> list[Filtered]:
    """What becomes of each picture: by class, those with a rank first.

    ``contents``: image → content hash, or why it cannot be read. Of rows of the same picture and
    class the last counts. A picture without the score that ranks is unscored: it has no rank, and
    is not 0. Of equal pictures of a class one is ranked, the best by score. A picture whose pixels
    are not those that were scored is dropped. Raises ``FilterError`` for no rows, and for a class
    whose rows were scored in different ways.
    """
    given = list(latest(rows).values())
    if not given:
        raise FilterError("there are no scores: score pictures with `scenewright real-bench score`")
    _check_plans(given, plan)
    out: dict[int, Filtered] = {}
    usable: dict[tuple[str, str], list[int]] = {}
    for at, row in enumerate(given):
        found = contents[row.image]
        score = getattr(row, plan.by)
        if isinstance(found, ImageError):
            out[at] = _dropped(row, "unreadable", str(found), score)
        elif row.digest and row.digest != found:
            told = "its pixels are not those that were scored: score it again"
            out[at] = _dropped(row, "changed", told, score, found)
        elif score is None:
            out[at] = _dropped(row, "unscored", _unscored(row, plan.by), None, found)
        else:
            usable.setdefault((row.label, found), []).append(at)
    classes: dict[str, set[str]] = {}
    for label, digest in usable:
        classes.setdefault(digest, set()).add(label)
    ranked: list[Ranked] = []
    for (label, digest), places in usable.items():
        # Of equal scores that with the first name: the pixels cannot tell them apart.
        first, *others = sorted(places, key=lambda at: (-_score(given[at], plan), given[at].image))
        group = label if plan.per == "class" else ""
        ranked.append(Ranked(str(first), group, _score(given[first], plan), digest + label))
        for at in others:
            told = f"the same pixels as {given[first].image}, which is ranked"
            out[at] = _dropped(given[at], "duplicate", told, _score(given[at], plan), digest)
            out[at] = out[at].model_copy(update={"same_as": given[first].image})
    for inside in by_rank(ranked).values():
        scores = [_score(given[int(one.image)], plan) for one in inside]
        # Below the least score nothing is kept: there the score itself is the cut.
        tied = tied_at(scores, plan.top or 0)
        if plan.least is not None and len(tied) and scores[tied[0]] < plan.least:
            tied = range(0)
        for rank, one in enumerate(inside, start=1):
            at, n = int(one.image), len(inside)
            row = given[at]
            why, told = _placed(plan, rank, n, _score(row, plan))
            if rank - 1 in tied and why == "rank":
                told += f"; {len(tied)} share the score at the cut, of which a hash chose"
            digest = str(contents[row.image])
            out[at] = Filtered(
                image=row.image, label=row.label, kept=why == "kept", why=why, told=told,
                tied=rank - 1 in tied,
                rank=rank, of=n, score=one.score, digest=digest,
                also_in=tuple(sorted(classes[digest] - {row.label})), row=row,
            )  # fmt: skip
    return sorted(out.values(), key=_order)


def tallies(filtered: Sequence[Filtered]) -> list[Tally]:
    """The classes in numbers, by name."""
    found = []
    for label in sorted({one.label for one in filtered}):
        inside = [one for one in filtered if one.label == label]
        kept = [one.score for one in inside if one.kept and one.score is not None]
        scored = [one.score for one in inside if one.rank is not None and one.score is not None]
        found.append(
            Tally(
                label,
                len(inside),
                Counter(one.why for one in inside),
                min(kept, default=None),
                _mean(kept),
                _mean(scored),
                sum(one.tied for one in inside),
            )
        )
    return found


def _check_plans(rows: Sequence[RealRow], plan: FilterPlan) -> None:
    if plan.by == "s_style":
        return
    ways: dict[str, set[str]] = {}
    for row in rows:
        if getattr(row, plan.by) is not None:
            ways.setdefault(row.label, set()).add(row.plan)
    mixed = sorted(label for label, plans in ways.items() if len(plans) > 1)
    if mixed:
        raise FilterError(
            f"the pictures of {', '.join(mixed[:5])} were scored in different ways (other schema, "
            "wording or judges), which cannot be ranked together: score them all again"
        )


def _placed(plan: FilterPlan, rank: int, n: int, score: float) -> tuple[Why, str]:
    if plan.top is not None and rank > plan.top:
        return "rank", f"rank {rank} of {n}: the best {plan.top} are kept"
    if plan.least is not None and score < plan.least:
        return "least", f"{plan.by} is {score:.3f}, the least is {plan.least:g}"
    return "kept", ""


def _unscored(row: RealRow, by: By) -> str:
    if row.reason:
        return row.reason
    if by in ("combined", "s_style") and row.s_style is None:
        return "it has no score of style: name a scorer with --style"
    if by == "combined" and row.base is not None:
        return "it has no combined score"
    return f"it has no {'s_att or s_rel' if by == 'combined' else by}"


def _dropped(row: RealRow, why: Why, told: str, score: float | None, digest: str = "") -> Filtered:
    return Filtered(
        image=row.image, label=row.label, kept=False, why=why, told=told, score=score,
        digest=digest, row=row,
    )  # fmt: skip


def _score(row: RealRow, plan: FilterPlan) -> float:
    return float(getattr(row, plan.by))


def _order(one: Filtered) -> tuple[str, bool, int, int, str]:
    return one.label, one.rank is None, one.rank or 0, list(WHY).index(one.why), one.image


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
