"""What papers report, as data: tables with their numbers, and what their text says of plots that
they print no numbers of. Scene-Bench, XTC-Bench, and one figure of PSG-Bench's supplement.

All of it is from the papers, on other models, sets and judges than anything that is measured here:
it stands beside measured figures to compare directions, not heights.
"""

from __future__ import annotations

import math
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

_SCENE_BENCH = "paper.toml"
_XTC_BENCH = "paper_xtc.toml"
_PSG_BENCH = "paper_psg.toml"


class Printed(BaseModel):
    """One figure of the paper."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    model: str
    """Whose, for example ``SDXL``."""
    value: float
    """As printed; shares are in percent."""
    sd: float | None = None
    """What stands behind ±; none where nothing does."""
    digits: int | None = Field(default=None, ge=0, le=6)
    """Decimal places as printed; none: one or two, as the value needs."""

    def text(self) -> str:
        """``65.50 ± 0.19``."""
        needed = 2 if self.sd is not None or round(self.value, 1) != self.value else 1
        places = needed if self.digits is None else self.digits
        shown = f"{self.value:.{places}f}"
        return shown if self.sd is None else f"{shown} ± {self.sd:.2f}"


class PaperRow(BaseModel):
    """A row of a table."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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


class PaperTable(BaseModel):
    """A table."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
        """The figure of ``row`` in ``column``; none where the paper has none."""
        at = self.columns.index(column)
        value = row.values[at]
        sd = row.sd[at] if row.sd else None
        if value is None:
            return None
        digits = self.digits[at] if self.digits else None
        return Printed(model=row.model, value=value, sd=sd, digits=digits)

    def column(self, key: str) -> dict[str, float]:
        """Model → its figure in the column ``key``; models without one are left out."""
        at = self.columns.index(key)
        found = ((row.model, row.values[at]) for row in self.rows)
        return {model: value for model, value in found if value is not None}

    def of(self, condition: str, column: str, models: tuple[str, ...]) -> tuple[Printed, ...]:
        """The figures of ``column`` in the rows of ``condition``, for those of ``models`` that the
        paper has one of."""
        found = (
            self.printed(row, column)
            for row in self.rows
            if row.condition == condition and row.model in models
        )
        return tuple(figure for figure in found if figure is not None)

    def gains(
        self, ours: str, theirs: str, column: str, models: tuple[str, ...]
    ) -> tuple[Printed, ...]:
        """How far ``ours`` is above ``theirs`` (conditions) in ``column``, model by model."""
        below = {figure.model: figure.value for figure in self.of(theirs, column, models)}
        return tuple(
            Printed(model=figure.model, value=round(figure.value - below[figure.model], 2))
            for figure in self.of(ours, column, models)
            if figure.model in below
        )


class Statement(BaseModel):
    """What the text says of a plot or a cost."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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


class Paper(BaseModel):
    """All of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    paper: str
    """The paper."""
    mark: str
    """What stands at every figure of it."""
    table: tuple[PaperTable, ...]
    """Tables."""
    statement: tuple[Statement, ...]
    """Words."""

    def named(self, id: str) -> PaperTable:
        """The table of that id. Raises ``KeyError`` if there is none."""
        return {table.id: table for table in self.table}[id]

    def said(self, id: str) -> Statement:
        """The statement of that id. Raises ``KeyError`` if there is none."""
        return {statement.id: statement for statement in self.statement}[id]


@cache
def _read(file: str) -> Paper:
    text = files("scenewright.evals.studies").joinpath(file).read_text(encoding="utf-8")
    return Paper.model_validate(tomllib.loads(text))


def paper() -> Paper:
    """Scene-Bench's figures."""
    return _read(_SCENE_BENCH)


def xtc_paper() -> Paper:
    """XTC-Bench's figures."""
    return _read(_XTC_BENCH)


def psg_paper() -> Paper:
    """Fig. 9 of PSG-Bench's supplement."""
    return _read(_PSG_BENCH)


MODELS: dict[str, str] = {"sd15": "SD v1.5", "sdxl": "SDXL"}
"""Profile → the paper's model that it is."""


def models_beside(profile: str) -> tuple[str, ...]:
    """The paper's models whose figures stand beside those of ``profile``: the same model, or both
    of those that the paper repairs."""
    return (MODELS[profile],) if profile in MODELS else tuple(MODELS.values())
