"""Measured figures that a study is sized from, as a TOML file or from an evaluation's tables."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scenewright.config.accounts import DECISION_KIND
from scenewright.config.profiles import JUDGE_KINDS, LOCAL_BACKEND
from scenewright.evals.errors import EvalError
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.store.files import read_toml
from scenewright.evals.store.results import ANSWERS, IMAGES, JOURNAL, TABLES, Results


class SizingError(EvalError):
    """A study that cannot be sized from these figures; the message names the missing ones."""


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Spread(_Data):
    """A mean with its interval; a file may give the number alone."""

    mean: float = Field(ge=0)
    low: float = Field(ge=0)
    high: float = Field(ge=0)

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
        """Return a multiple of it."""
        return Spread(mean=self.mean * by, low=self.low * by, high=self.high * by)

    def at(self, end: End) -> float:
        """Return one of the three numbers."""
        found: float = getattr(self, end)
        return found


End = Literal["mean", "low", "high"]
NOTHING = Spread(mean=0.0, low=0.0, high=0.0)


def spread_of(values: Sequence[float]) -> Spread:
    """Return mean with its 95% bootstrap interval (2,000 resamples); 0 for no values.

    One value gives no interval: its interval is half to twice of it.
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
    """Usage of one model for a cell."""

    does: Literal["draws", "steers", "judges"]
    """Draws pictures, judges every round of a loop, or judges what is kept."""
    account: str = ""
    """Account whose limits it uses; empty: it runs on the machine."""
    uses: Spread = Spread(mean=1.0, low=1.0, high=1.0)
    """Pictures drawn, or judgings of pictures, a cell."""
    seconds: Spread
    """Seconds of one use, without waiting for limits."""
    calls: float = Field(default=1.0, ge=0)
    """Requests to the account in one use."""
    tokens_in: float = Field(default=0.0, ge=0)
    """Tokens of one use."""
    tokens_out: float = Field(default=0.0, ge=0)
    """Tokens of one use."""
    usd: float | None = Field(default=None, ge=0)
    """Dollars of one use; None: by the table of prices, if that has the model."""


class Figures(_Data):
    """Measured figures. A *cell* is one scene drawn in one way, judged and scored."""

    source: str = ""
    """Origin of the figures."""
    cells: int = Field(default=0, ge=0)
    """Number of measured cells."""
    models: dict[str, Use] = Field(min_length=1)
    """Id of a model → its use."""
    alone: Spread | None = None
    """Seconds of one cell with nothing else at work; None: the sum of its uses."""
    cpu: Spread | None = None
    """Core seconds of one cell; None: all seconds of models on the machine."""
    process: Spread = NOTHING
    """Seconds of the one thread that runs Python for all items at work, a cell."""
    cores: int = Field(default=1, ge=1)
    """Cores of a machine."""
    accelerator: bool = False
    """Whether models on the machine share one GPU."""
    startup: float = Field(default=0.0, ge=0)
    """Seconds before the first cell begins."""
    picture_bytes: Spread = NOTHING
    """Bytes of one picture's file."""
    row_bytes: Spread = NOTHING
    """Bytes of tables, journal and answers, a cell."""
    peak_mib: float | None = Field(default=None, ge=0)
    """Peak memory of the process in MiB; None: not measured."""
    rounds: float = Field(default=1.0, ge=1)
    """Rounds a cell."""
    go_on: float = Field(default=0.0, ge=0, le=1)
    """Share of rounds after which a loop continues, among those after which it may."""
    more_pictures: float = Field(default=2.0, ge=1)
    """Pictures drawn in a further round of a loop, references included."""
    void_share: float | None = Field(default=None, ge=0, le=1)
    """Share of facts that need not be asked because their object is absent."""
    notes: tuple[str, ...] = ()
    """Limitations of the figures."""

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
    """Return the figures in a TOML file. Raises ``SizingError`` with the file and the field."""
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
    """Return ``value`` as TOML, which differs from JSON here only in flat tables."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(v)}" for key, v in value.items()) + " }"
    return json.dumps(value)


_ARM = ["item", "arm"]
_LOCAL = {LOCAL_BACKEND, *JUDGE_KINDS, "scripted"}
_Row = Mapping[str, Any]


def account_of(model: str) -> str:
    """Return the account in a model's id; empty for one that runs on the machine."""
    kind, _, rest = model.partition(":")
    if kind == DECISION_KIND:
        kind = rest.partition("/")[0]
    return "" if kind in _LOCAL else kind


def figures_from(folder: str | Path) -> Figures:
    """Return the figures of a finished evaluation. Raises ``SizingError`` and ``EvalError``.

    Its items ran side by side, so that seconds of models on the machine include waiting for each
    other, and loops do not tell apart what draws and what steers them: a pilot knows more.
    """
    results = Results(folder)
    columns = [*_ARM, "backend", "state", "kept", "images_drawn", "seconds"]
    columns += ["tokens_in", "tokens_out", "usd"]
    rounds = [row for row in results.rows("rounds", columns) if row["state"] == "done"]
    if not rounds:
        raise SizingError(f"{folder} holds no finished picture: let the evaluation run first")
    cells = {(row["item"], row["arm"]) for row in rounds}
    drawn_by = {
        arm: models["backend"]["id"] for arm, models in results.manifest["models"]["arms"].items()
    }
    models = dict(_drawers(rounds, cells, drawn_by))
    looks = _looks(results)
    models |= _judges(looks, len(cells))
    if not models:
        raise SizingError(f"{folder} drew nothing and asked no model: there is nothing to size")
    notes = ["the figures are of items that ran side by side, as their tables tell"]
    config = EvalConfig.model_validate(results.manifest["config"])
    if any(config.condition_of(name).rounds > 1 for name in config.conditions):
        notes.append(
            "loops: the seconds and tokens of judges that steer are counted as drawing, and their "
            "requests not at all; a pilot tells them apart"
        )
    return Figures(
        source=f"tables of {Path(folder).name}",
        cells=len(cells),
        models=models,
        notes=tuple(notes),
        **shared_figures(results, config),
    )


def shared_figures(results: Results, config: EvalConfig) -> dict[str, Any]:
    """Return sizes, loops and void facts, which are read from tables for a pilot too."""
    names = [*_ARM, "condition", "state", "round", "image", "images_drawn"]
    rows = [row for row in results.rows("rounds", names) if row["state"] == "done"]
    cells = _grouped(rows, lambda row: (row["item"], row["arm"]))
    most = {name: config.condition_of(name).rounds for name in config.conditions}
    loops = [group for group in cells.values() if most[group[0]["condition"]] > 1]
    further = sum(len(group) - 1 for group in loops)
    drawn = sum(row["images_drawn"] for group in loops for row in group if row["round"] > 0)
    files = {p.stem: p.stat().st_size for p in (results.folder / IMAGES).rglob("*.png")}
    count = max(len(cells), 1)
    states = results.table("verdicts", ["state"]).column("state").to_pylist()
    return {
        "picture_bytes": spread_of([float(size) for size in files.values()]),
        "row_bytes": _exactly(_bytes_of(results.folder) / count),
        "rounds": sum(map(len, cells.values())) / count,
        "go_on": goes_on([len(g) for g in loops], [most[g[0]["condition"]] for g in loops]),
        "more_pictures": max(1.0, drawn / further) if further else 2.0,
        "void_share": states.count("void") / len(states) if states else None,
    }


def _exactly(value: float) -> Spread:
    return Spread(mean=value, low=value, high=value)


def _bytes_of(folder: Path) -> int:
    """Return bytes of all but the pictures: tables, journal, answers and run folders."""
    tables = [folder / f"{table}.parquet" for table in TABLES]
    kept = [folder / name for name in (JOURNAL, ANSWERS)]
    kept += [file for file in (folder / "runs").rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in (*tables, *kept) if file.is_file())


def _drawers(
    rounds: Sequence[_Row], cells: set[tuple[str, str]], drawn_by: Mapping[str, str]
) -> Mapping[str, Use]:
    found = {}
    paid = [row for row in rounds if row["images_drawn"] and row["arm"] in drawn_by]
    for who, rows in _grouped(paid, lambda row: drawn_by[row["arm"]]).items():
        count = sum(row["images_drawn"] for row in rows)
        each = [row["seconds"] / row["images_drawn"] for row in rows]
        account = account_of(who)
        found[who] = Use(
            does="draws",
            account=account,
            uses=_exactly(count / len(cells)),
            seconds=spread_of(each),
            calls=1.0 if account else 0.0,
            tokens_in=sum(row["tokens_in"] for row in rows) / count,
            tokens_out=sum(row["tokens_out"] for row in rows) / count,
            usd=(sum(row["usd"] for row in rows) / count) or None,
        )
    return found


def _looks(results: Results) -> dict[tuple[str, ...], list[_Row]]:
    names = [*_ARM, "panel", "round", "judge", "seconds", "tokens_in", "tokens_out", "usd"]
    rows = [row for row in results.rows("answers", names) if row["seconds"]]
    return _grouped(
        rows, lambda row: tuple(str(row[n]) for n in (*_ARM, "panel", "round", "judge"))
    )


def _judges(looks: Mapping[tuple[str, ...], Sequence[_Row]], cells: int) -> dict[str, Use]:
    found = {}
    for who, keys in _grouped(list(looks), lambda key: key[-1]).items():
        rows = [row for key in keys for row in looks[key]]
        account = account_of(who)
        count = len(keys)
        # A call shares its seconds evenly among its answers: equal ones are of one call.
        calls = sum(len({row["seconds"] for row in looks[key]}) for key in keys) / count
        found[who] = Use(
            does="judges",
            account=account,
            uses=_exactly(count / cells),
            seconds=spread_of([math.fsum(r["seconds"] for r in looks[key]) for key in keys]),
            calls=calls if account else 0.0,
            tokens_in=sum(row["tokens_in"] for row in rows) / count,
            tokens_out=sum(row["tokens_out"] for row in rows) / count,
            usd=(sum(row["usd"] for row in rows) / count) or None,
        )
    return found


def _grouped(rows: Sequence[Any], key: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return dict(groups)


def goes_on(rounds: Sequence[int], most: Sequence[int]) -> float:
    """Return the share of rounds after which a loop went on, of those after which it could have.

    ``rounds`` that loops took, and ``most`` that each was allowed; the maximum-likelihood estimate
    of :func:`expected_rounds`'s probability. 0 without a loop.
    """
    went = sum(taken - 1 for taken in rounds)
    could = sum(min(taken, bound - 1) for taken, bound in zip(rounds, most, strict=True))
    return went / could if could else 0.0
