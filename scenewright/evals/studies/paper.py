"""Figures of papers as data, and verdicts on their statements by a rule.

The papers are Scene-Bench, XTC-Bench, and one figure of PSG-Bench's supplement. Their figures are
of other models, sets and judges than anything measured here: they stand beside measured figures to
compare directions, not heights.

A statement about a direction agrees if the 95 % interval of the measured difference is wholly on
the paper's side of 0, disagrees if it is wholly on the other side, and is open otherwise. A
statement that something hardly changes agrees if the interval is within a given margin, disagrees
if it is wholly outside, and is open otherwise. Without an interval, with one of fewer than ten
items, or with one of no width (all items alike: a bootstrap then cannot know what is rare), the
statement is open and only the figure is given. Intervals are not widened for the number of
statements: of twenty that are true of nothing about one will seem to be decided.
"""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from scenewright.core.validation import FiniteModel, FrozenModel
from scenewright.evals.statistics.answers import FEWEST, AnswerVerdict, PlainAnswer
from scenewright.evals.statistics.estimates import Estimate, number

_SCENE_BENCH = "paper.toml"
_XTC_BENCH = "paper_xtc.toml"
_PSG_BENCH = "paper_psg.toml"


class Printed(FiniteModel):
    """One figure of the paper."""

    model: str
    """Whose, for example ``SDXL``."""
    value: float
    """As printed; shares are in percent."""
    sd: float | None = None
    """What stands behind ±; none where nothing does."""
    digits: int | None = Field(default=None, ge=0, le=6)
    """Decimal places as printed; none: one or two, as the value needs."""

    def text(self) -> str:
        """Return ``65.50 ± 0.19``."""
        needed = 2 if self.sd is not None or round(self.value, 1) != self.value else 1
        places = needed if self.digits is None else self.digits
        shown = f"{self.value:.{places}f}"
        return shown if self.sd is None else f"{shown} ± {self.sd:.2f}"


class PaperRow(FrozenModel):
    """A row of a table."""

    model: str
    """What drew."""
    label: str = ""
    """What the row is called; empty: the model's name."""
    resolution: str = ""
    """Of its pictures, in pixels."""
    condition: str = ""
    """The condition here that does the same; empty if there is none."""
    values: tuple[float | None, ...]
    """One a column; none where the paper has none."""
    sd: tuple[float | None, ...] = ()
    """What stands behind ±, likewise; empty without."""

    @field_validator("values", "sd", mode="before")
    @classmethod
    def _gaps(cls, value: Any) -> Any:
        return tuple(None if isinstance(v, float) and math.isnan(v) else v for v in value)

    @property
    def name(self) -> str:
        """What the row is called."""
        return self.label or self.model


class PaperTable(FrozenModel):
    """A table."""

    id: str
    """For example ``table4``."""
    number: str
    """For example ``Table 4``."""
    title: str
    """What it shows."""
    set: str
    """What was drawn."""
    counts: dict[str, int] = Field(default_factory=dict)
    """Pictures, ``overall`` and by level."""
    columns: tuple[str, ...]
    """Keys of the columns."""
    digits: tuple[int, ...] = ()
    """Decimal places of each column; empty: as the values need."""
    rows: tuple[PaperRow, ...]
    """In the paper's order."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for row in self.rows:
            if len(row.values) != len(self.columns) or len(row.sd) not in (0, len(self.columns)):
                raise ValueError(f"{self.number}, {row.name}: {len(self.columns)} columns")
        if len(self.digits) not in (0, len(self.columns)):
            raise ValueError(f"{self.number}, digits: {len(self.columns)} columns")
        return self

    def printed(self, row: PaperRow, column: str) -> Printed | None:
        """Return the figure of ``row`` in ``column``; none where the paper has none."""
        at = self.columns.index(column)
        value = row.values[at]
        sd = row.sd[at] if row.sd else None
        if value is None:
            return None
        digits = self.digits[at] if self.digits else None
        return Printed(model=row.model, value=value, sd=sd, digits=digits)

    def column(self, key: str) -> dict[str, float]:
        """Return by model its figure in the column ``key``; models without one are left out."""
        at = self.columns.index(key)
        found = ((row.model, row.values[at]) for row in self.rows)
        return {model: value for model, value in found if value is not None}

    def of(self, condition: str, column: str, models: tuple[str, ...]) -> tuple[Printed, ...]:
        """Return the figures of ``column`` in the rows of ``condition``, for ``models``.

        Models of which the paper has no figure are left out.
        """
        found = (
            self.printed(row, column)
            for row in self.rows
            if row.condition == condition and row.model in models
        )
        return tuple(figure for figure in found if figure is not None)

    def gains(
        self, ours: str, theirs: str, column: str, models: tuple[str, ...]
    ) -> tuple[Printed, ...]:
        """Return how far ``ours`` is above ``theirs`` (conditions) in ``column``, by model."""
        below = {figure.model: figure.value for figure in self.of(theirs, column, models)}
        return tuple(
            Printed(model=figure.model, value=round(figure.value - below[figure.model], 2))
            for figure in self.of(ours, column, models)
            if figure.model in below
        )


class Statement(FrozenModel):
    """What the text says of a plot or a cost."""

    id: str
    """For example ``fig7``."""
    number: str
    """For example ``Fig. 7``."""
    text: str
    """In our words."""
    better: tuple[str, ...] = ()
    """Categories that it calls easier."""
    worse: tuple[str, ...] = ()
    """Categories that it calls harder."""


class Paper(FrozenModel):
    """All of it."""

    paper: str
    """The paper."""
    mark: str
    """What stands at every figure of it."""
    table: tuple[PaperTable, ...]
    """Tables."""
    statement: tuple[Statement, ...]
    """Words."""

    def named(self, id: str) -> PaperTable:
        """Return the table of that id. Raises ``KeyError`` if there is none."""
        return {table.id: table for table in self.table}[id]

    def statement_of(self, id: str) -> Statement:
        """Return the statement of that id. Raises ``KeyError`` if there is none."""
        return {statement.id: statement for statement in self.statement}[id]


@cache
def _read(file: str) -> Paper:
    text = files("scenewright.evals.studies").joinpath(file).read_text(encoding="utf-8")
    return Paper.model_validate(tomllib.loads(text))


def paper() -> Paper:
    """Return Scene-Bench's figures."""
    return _read(_SCENE_BENCH)


def xtc_paper() -> Paper:
    """Return XTC-Bench's figures."""
    return _read(_XTC_BENCH)


def psg_paper() -> Paper:
    """Return Fig. 9 of PSG-Bench's supplement."""
    return _read(_PSG_BENCH)


MODELS: dict[str, str] = {"sd15": "SD v1.5", "sdxl": "SDXL"}
"""Profile → the paper's model that it is."""


def models_beside(profile: str) -> tuple[str, ...]:
    """Return the paper's models whose figures stand beside those of ``profile``.

    That is the same model, or both of those that the paper repairs.
    """
    return (MODELS[profile],) if profile in MODELS else tuple(MODELS.values())


Side = Literal["above", "below", "within"]
Verdict = Literal["agrees", "disagrees", "open", "not measured"]

VERDICTS: dict[Verdict, str] = {
    "agrees": "Agrees",
    "disagrees": "Disagrees",
    "open": "Open",
    "not measured": "Not measured",
}
COUNTED: dict[Verdict, str] = {
    "agrees": "agree in direction",
    "disagrees": "disagree",
    "open": "are open",
    "not measured": "were not measured",
}
"""Verdict → what several statements do."""


class Claim(FiniteModel):
    """One statement of the paper, and the measured difference that bears on it."""

    where: str
    """Table or figure of the paper."""
    says: str
    """The statement, as a sentence without a full stop."""
    side: Side
    """Where the paper puts the difference: ``above`` 0, ``below`` 0, or ``within`` the margin."""
    margin: float = Field(default=0.0, ge=0.0)
    """Of ``within``, in the unit of the difference."""
    measured: Estimate
    """The difference here."""
    paper: tuple[Printed, ...] = ()
    """The same difference in the paper, where it prints numbers."""
    unit: str = "points"
    """Of the difference."""
    digits: int = Field(default=1, ge=0, le=6)
    """Decimal places."""
    note: str = ""
    """What is to be known beside it, as whole sentences."""

    @property
    def verdict(self) -> Verdict:
        """By the rule above."""
        found = self.measured
        if found.value is None:
            return "not measured"
        if found.low is None or found.high is None or self._too_thin:
            return "open"
        if self.side == "within":
            if -self.margin <= found.low and found.high <= self.margin:
                return "agrees"
            outside = found.low > self.margin or found.high < -self.margin
            return "disagrees" if outside else "open"
        # An interval of no width at 0 lies on neither side.
        above, below = found.low > 0.0, found.high < 0.0
        if above or below:
            return "agrees" if above == (self.side == "above") else "disagrees"
        return "open"

    @property
    def _too_thin(self) -> bool:
        """Whether the interval is of too few items, or of items that are all alike."""
        return self.measured.n < FEWEST or self.measured.low == self.measured.high

    def sentence(self) -> str:
        """Return the verdict with its figures."""
        said = self.says[0].upper() + self.says[1:]
        if self.measured.value is None:
            why = self.measured.reason or "not measured"
            return f"**{VERDICTS[self.verdict]}** ({self.where}): {said}: {why}."
        here = f"here {self._figure()}"
        if self.measured.low is None:
            here += " without an interval"
        elif self._too_thin:
            alike = self.measured.n >= FEWEST
            here += ", all alike" if alike else ", too few to decide"
        if self.side == "within":
            here += f" (within ± {self.margin:.{self.digits}f} is meant)"
        places = max(2, self.digits)
        theirs = "; ".join(f"{p.model} {number(p.value, places, sign=True)}" for p in self.paper)
        paper = f"; paper {theirs}" if theirs else ""
        note = f" {self.note}" if self.note else ""
        return f"**{VERDICTS[self.verdict]}** ({self.where}): {said}: {here}{paper}.{note}"

    def _figure(self) -> str:
        shown = self.measured.model_copy(update={"sd": None}).text(self.digits, sign=True)
        return f"{shown}{self.unit and ' '}{self.unit}, n = {self.measured.n}"


_AS_ANSWER: dict[Verdict, AnswerVerdict] = {
    "agrees": "agrees",
    "disagrees": "no agreement",
    "open": "too little data",
    "not measured": "not measured",
}


def replication_answer(claims: Sequence[Claim]) -> PlainAnswer:
    """Return whether the first of ``claims`` holds here, and how many of all do.

    The first statement of a study is its main one. Raises ``ValueError`` without claims.
    """
    if not claims:
        raise ValueError("no claim of a paper: nothing can be held against it")
    main, verdict = claims[0], claims[0].verdict
    said = main.says[0].upper() + main.says[1:]
    told = {
        "agrees": f"{said}, as the paper says: {main._figure()}",
        "disagrees": f"Unlike in the paper it does not hold that {main.says}: {main._figure()}",
        "open": f"Too little data to tell whether {main.says}: {main._figure()}",
        "not measured": f"Not measured, whether {main.says}",
    }[verdict]
    if len(claims) > 1:
        counts = Counter(claim.verdict for claim in claims)
        rest = ", ".join(
            f"{counts[name]} {words}" for name, words in COUNTED.items() if counts[name]
        )
        told += f". Of all {len(claims)} statements, {rest}"
    return PlainAnswer(verdict=_AS_ANSWER[verdict], sentence=f"{told}.")
