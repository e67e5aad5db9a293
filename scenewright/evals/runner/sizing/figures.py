"""Measured figures that a study is sized from, as a TOML file holds them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scenewright.evals.runner.sizing.errors import SizingError
from scenewright.evals.store.toml_files import read_toml


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Spread(_Data):
    """A mean with the interval in which it lies; a file may give the number alone."""

    mean: float = Field(ge=0)
    """As measured."""
    low: float = Field(ge=0)
    """Lower end."""
    high: float = Field(ge=0)
    """Upper end."""

    @model_validator(mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return {"mean": value, "low": value, "high": value}
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.low <= self.mean <= self.high:
            raise ValueError(f"{self.low} to {self.high} does not hold the mean {self.mean}")
        return self

    def __mul__(self, by: float) -> Spread:
        """So many times of it."""
        return Spread(mean=self.mean * by, low=self.low * by, high=self.high * by)

    def at(self, end: End) -> float:
        """One of the three numbers."""
        found: float = getattr(self, end)
        return found


End = Literal["mean", "low", "high"]
NOTHING = Spread(mean=0.0, low=0.0, high=0.0)


def spread_of(values: Sequence[float]) -> Spread:
    """Mean with its 95% bootstrap interval (2,000 resamples); 0 for no values.

    One value tells no spread: its interval is half to twice of it.
    """
    import numpy as np

    if not len(values):
        return NOTHING
    if len(values) == 1:
        return Spread(mean=values[0], low=values[0] / 2, high=values[0] * 2)
    data = np.asarray(values, float)
    picks = np.random.default_rng(0).integers(0, len(data), (2000, len(data)))
    mean = float(data.mean())
    low, high = np.percentile(data[picks].mean(1), [2.5, 97.5])
    return Spread(mean=mean, low=min(mean, float(low)), high=max(mean, float(high)))


class Use(_Data):
    """What one model does for a cell, and what that takes."""

    does: Literal["draws", "steers", "judges"]
    """Draws pictures, judges every round of a loop, or judges what is kept."""
    account: str = ""
    """Account whose limits it uses; empty: it runs on the machine."""
    uses: Spread = Spread(mean=1.0, low=1.0, high=1.0)
    """Pictures drawn, or looks at pictures, a cell."""
    seconds: Spread
    """Seconds of one use, without waiting for limits."""
    calls: float = Field(default=1.0, ge=0)
    """Requests to the account that one use takes."""
    tokens_in: float = Field(default=0.0, ge=0)
    """Tokens of one use."""
    tokens_out: float = Field(default=0.0, ge=0)
    """Likewise."""
    usd: float | None = Field(default=None, ge=0)
    """Dollars of one use; left out: by the table of prices, if that knows the model."""


class Figures(_Data):
    """All that is measured. A *cell* is one scene drawn in one way, judged and scored."""

    source: str = ""
    """Where the figures come from."""
    cells: int = Field(default=0, ge=0)
    """How many cells they were measured on."""
    models: dict[str, Use] = Field(min_length=1)
    """Id of a model → what it does."""
    alone: Spread | None = None
    """Seconds of one cell with nothing else at work; left out: its uses one after the other."""
    cpu: Spread | None = None
    """Seconds of a core that one cell takes; left out: all seconds of models on the machine."""
    process: Spread = NOTHING
    """Seconds of the one thread that runs Python for all items at work, a cell."""
    cores: int = Field(default=1, ge=1)
    """Cores of a machine."""
    accelerator: bool = False
    """Whether models on the machine compute on a GPU, one after the other."""
    startup: float = Field(default=0.0, ge=0)
    """Seconds before the first cell begins."""
    picture_bytes: Spread = NOTHING
    """Bytes of one picture's file."""
    row_bytes: Spread = NOTHING
    """Bytes of tables, journal and answers, a cell."""
    peak_mib: float | None = Field(default=None, ge=0)
    """Most memory that the process had, in MiB; none: not measured."""
    rounds: float = Field(default=1.0, ge=1)
    """Rounds a cell."""
    go_on: float = Field(default=0.0, ge=0, le=1)
    """Share of the rounds after which a loop goes on, of those after which it may."""
    more_pictures: float = Field(default=2.0, ge=1)
    """Pictures that a further round of a loop draws, references included."""
    void_share: float | None = Field(default=None, ge=0, le=1)
    """Share of the facts that need not be asked, since what they are of is absent."""
    notes: tuple[str, ...] = ()
    """What the figures leave out."""

    @property
    def pictures(self) -> Spread:
        """Pictures drawn a cell."""
        drawn = [use.uses for use in self.models.values() if use.does == "draws"]
        return Spread(
            mean=math.fsum(uses.mean for uses in drawn),
            low=math.fsum(uses.low for uses in drawn),
            high=math.fsum(uses.high for uses in drawn),
        )


def load_figures(path: str | Path) -> Figures:
    """The figures in a TOML file. Raises ``SizingError`` with the file and the field."""
    return read_toml(path, Figures, SizingError)


def save_figures(figures: Figures, path: str | Path) -> None:
    """Write ``figures`` as TOML that :func:`load_figures` reads. Raises ``SizingError``."""
    data = figures.model_dump(mode="json", exclude_none=True)
    models = data.pop("models")
    lines = [f"{key} = {_toml(value)}" for key, value in data.items()]
    for name, use in models.items():
        lines += ["", f"[models.{json.dumps(name)}]"]
        lines += [f"{key} = {_toml(value)}" for key, value in use.items()]
    try:
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise SizingError(f"{path} cannot be written: {error.strerror or error}") from error


def _toml(value: Any) -> str:
    """JSON of numbers, texts, lists and flat tables is TOML but for the colons of tables."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(v)}" for key, v in value.items()) + " }"
    return json.dumps(value)
