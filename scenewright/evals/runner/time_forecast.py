"""Forecast of a study's time, machines, disk and bottleneck, and of its cost by measured figures.

Cells pass stages, and the slowest stage decides the throughput. A *cell* is one scene drawn in one
way, judged and scored. Each stage serves a cell for :attr:`Stage.seconds` at one of its servers.
These are the operational laws of closed systems (Denning and Buzen, "The Operational Analysis of
Queueing Network Models", 1978; Lazowska, Zahorjan, Graham and Sevcik, "Quantitative System
Performance", 1984, chapter 5): with N cells at work, a cell alone taking L seconds, and stages of
demand D_k on c_k servers,

    N / (L + (N - 1) * max D_k/c_k)  <=  throughput  <=  min(N / L, min c_k / D_k)

The right side is expected where work is even; the left one holds where every cell queues behind all
others. The truth is between them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scenewright.config.settings import Settings
from scenewright.evals.errors import EvalError
from scenewright.evals.runner.forecast import CostForecast, CostLine
from scenewright.evals.store.files import read_toml
from scenewright.providers.limits import MARGIN
from scenewright.providers.usage import ExpectedUsage, PriceTable, Usage


class SizingError(EvalError):
    """A study that cannot be sized from these figures; the message names the missing ones."""


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


End = Literal["mean", "low", "high"]
_ENDS: tuple[End, ...] = ("mean", "low", "high")


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

    @classmethod
    def of(cls, figure: Callable[[End], float]) -> Self:
        """Return the spread of a ``figure`` that is computed from one end of its inputs."""
        mean, low, high = map(figure, _ENDS)
        return cls(mean=mean, low=min(low, mean), high=max(high, mean))

    def __mul__(self, by: float) -> Spread:
        """Return a multiple of it."""
        return Spread.of(lambda end: self.at(end) * by)

    def at(self, end: End) -> float:
        """Return one of the three numbers."""
        found: float = getattr(self, end)
        return found


NOTHING = Spread(mean=0.0, low=0.0, high=0.0)


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
        return Spread.of(lambda end: math.fsum(uses.at(end) for uses in drawn))

    def in_a_row(self, end: End) -> float:
        """Return the seconds of all uses of a cell, one after the other."""
        return math.fsum(use.uses.at(end) * use.seconds.at(end) for use in self.models.values())

    def resized(self, *, rounds: int | None = None, judges: int | None = None) -> Figures:
        """Return the figures of a study that differs from the measured one.

        ``rounds``: most rounds of each loop; expected ones follow from ``go_on``, and each further
        one draws ``more_pictures`` and is looked at by the judges that steer. ``judges``: how many
        look at what is kept, each like the mean of the measured ones. Seconds of a whole cell grow
        as those of its models do. Raises ``SizingError`` where the figures do not tell.
        """
        by = dict.fromkeys(self.models, 1.0)
        does = {who: use.does for who, use in self.models.items()}
        expected, pictures = self.rounds, self.pictures.mean
        if rounds is not None:
            if rounds > 1 and not self.go_on:
                raise SizingError(
                    f"{rounds} rounds: the figures have no loop that went on. Give go_on, the "
                    "share of rounds after which one goes on, or figures of a pilot with a loop"
                )
            expected = expected_rounds(self.go_on, rounds)
            drawn = 1 + (expected - 1) * self.more_pictures
            for who, what in does.items():
                if what == "draws" and pictures:
                    by[who] = drawn / pictures
                elif what == "steers":
                    by[who] = expected / self.rounds
        if judges is not None:
            there = [who for who, what in does.items() if what == "judges"]
            if not there and judges:
                raise SizingError("the figures have no judge of kept pictures: measure one")
            by |= dict.fromkeys(there, judges / max(1, len(there)))
        models = {
            who: use.model_copy(update={"uses": use.uses * by[who]})
            for who, use in self.models.items()
        }
        changed = self.model_copy(update={"models": models, "rounds": expected})
        before = self.in_a_row("mean")
        growth = changed.in_a_row("mean") / before if before else 1.0
        scaled = {
            name: value * growth
            for name in ("alone", "cpu", "process", "row_bytes")
            if (value := getattr(self, name)) is not None
        }
        return changed.model_copy(update=scaled)


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


def expected_rounds(go_on: float, most: int) -> float:
    """Return the expected rounds of a loop that goes on after each with the probability ``go_on``.

    It has at most ``most`` rounds: the sum of go_on^k for k below ``most``.
    """
    return float(most) if go_on == 1 else (1 - go_on**most) / (1 - go_on)


_NAMES = {
    "drawing": "drawing by {} on the machine",
    "judging": "judging by {} on the machine",
    "cpu": "the processor's cores",
    "process": "the one Python process",
    "device": "the accelerator",
    "requests": "requests a minute of {}",
    "day": "requests a day of {}",
    "tokens": "tokens a minute of {}",
    "calls": "calls at once of {}",
    "items": "items at work",
}
"""Kind of a stage → its name."""
SHARED = frozenset({"requests", "day", "tokens", "calls"})
"""Limits of an account: machines share them."""
_MOST_WORKERS = 1_000_000
"""Largest number of machines that is considered."""
_MINUTE = 60.0
_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Stage:
    """A resource that cells use, with a limited number of servers."""

    kind: str
    """One of the keys of the names above."""
    of: str
    """A model, an account, or empty."""
    seconds: float
    """Seconds of one server that one cell takes (its *demand*)."""
    servers: float = 1.0
    """Number of parallel servers; on each machine, unless they are shared."""
    window: float = 0.0
    """Seconds' worth that may be used ahead at the start: a limit by the minute lets the first
    minute's requests through at once."""
    waits: bool = False
    """Whether the seconds are a pace and no work: no part of the time of a cell alone."""
    limit: int | None = None
    """Number in the settings behind a limit of an account."""

    @property
    def name(self) -> str:
        """Name in words."""
        return _NAMES[self.kind].format(self.of)

    @property
    def shared(self) -> bool:
        """Whether all machines share it."""
        return self.kind in SHARED

    def capacity(self, workers: int = 1) -> float:
        """Return cells a second that ``workers`` machines get through it; infinite if unused."""
        if not self.seconds:
            return math.inf
        return self.servers * (1 if self.shared else workers) / self.seconds

    def lasts(self, cells: int, alone: float, workers: int = 1) -> float:
        """Return seconds until the last of ``cells`` is done if nothing else limits them.

        ``alone``: seconds of a cell without waiting.
        """
        rate = self.capacity(workers)
        if math.isinf(rate) or not cells:
            return alone
        busy = cells / rate
        if self.waits:
            # Limits are refilled by the window: on the average half of one has been used ahead.
            return alone + (0.0 if busy <= self.window else busy - self.window / 2)
        return max(alone, busy + max(0.0, alone - self.seconds))


@dataclass(frozen=True, slots=True)
class Course:
    """All stages of a study."""

    cells: int
    """Pictures to be made."""
    alone: float
    """Seconds of one cell without waiting."""
    at_work: int
    """Concurrent items of one machine."""
    stages: tuple[Stage, ...]
    startup: float = 0.0
    """Seconds before the first cell begins."""

    @property
    def every(self) -> tuple[Stage, ...]:
        """All stages, the items at work as one of them."""
        return (*self.stages, Stage("items", "", self.alone, self.at_work))

    def binding(self, workers: int = 1) -> Stage:
        """Return the stage of least capacity; of equal ones the first."""
        return min(self.every, key=lambda stage: stage.capacity(workers))

    def throughput(self, workers: int = 1) -> float:
        """Return cells a second in the long run: the least capacity of any stage."""
        return self.binding(workers).capacity(workers)

    def slowest_throughput(self, workers: int = 1) -> float:
        """Return cells a second if every cell queues behind all others (the left side above)."""
        held = max((1 / stage.capacity(workers) for stage in self.stages), default=0.0)
        work = max(self.alone, held)
        n = self.at_work * workers
        return math.inf if not work else min(n / (work + (n - 1) * held), self.throughput(workers))

    def seconds(self, workers: int = 1) -> float:
        """Return seconds of the whole study, as expected; 0 for no cells."""
        if not self.cells:
            return 0.0
        return self.startup + max(s.lasts(self.cells, self.alone, workers) for s in self.every)

    def most_seconds(self, workers: int = 1) -> float:
        """Return seconds of the whole study if every cell queues behind all others."""
        if not self.cells:
            return 0.0
        queued = self.cells / self.slowest_throughput(workers)
        return max(self.seconds(workers), self.startup + queued + self.alone)

    def without(self, stage: Stage) -> Course:
        """Return the same if ``stage`` held nothing up."""
        if stage.kind == "items":
            return replace(self, at_work=max(self.cells, 1))
        return replace(self, stages=tuple(one for one in self.stages if one != stage))

    def workers_for(self, seconds: float) -> int | None:
        """Return the fewest machines with which it takes at most ``seconds``.

        None if no number does.
        """
        if self.seconds(_MOST_WORKERS) > seconds:
            return None
        low, high = 1, _MOST_WORKERS
        while low < high:
            middle = (low + high) // 2
            if self.seconds(middle) <= seconds:
                high = middle
            else:
                low = middle + 1
        return low

    def too_slow(self, seconds: float) -> tuple[tuple[Stage, float], ...]:
        """Return shared limits that more machines do not help, with the factor each must rise by.

        With that factor the study takes ``seconds``; infinite where a cell alone takes longer.
        """
        left = seconds - self.startup - self.alone
        return tuple(
            (stage, math.inf if left <= 0 else self.cells / stage.capacity() / left)
            for stage in self.stages
            if stage.shared and self.startup + stage.lasts(self.cells, self.alone) > seconds
        )


@dataclass(frozen=True, slots=True)
class Size:
    """Time of a study on a number of machines."""

    workers: int
    """Machines."""
    seconds: float
    """Expected duration."""
    least: float
    """Duration by the lower ends of the figures."""
    most: float
    """Duration by their upper ends, with every cell queueing behind all others."""
    binding: Stage
    """The bottleneck."""
    busy: dict[str, float]
    """Name of a stage → its utilisation, 0 to 1."""

    @property
    def hours(self) -> float:
        """Expected duration in hours."""
        return self.seconds / 3600


class Plan:
    """A study with its figures and limits."""

    def __init__(
        self,
        cells: int,
        at_work: int,
        figures: Figures,
        settings: Settings,
        disk: float | None = None,
    ) -> None:
        """Compute the stages of a study.

        Args:
            cells: pictures to be made: items times arms.
            at_work: concurrent items on each machine.
            figures: measured figures.
            settings: accounts with their limits.
            disk: free bytes, if known.

        Raises:
            SettingsError: an account is unknown.
            PriceError: the file of prices is wrong.
            SizingError: the study has no pictures.
        """
        if cells < 1 or at_work < 1:
            raise SizingError(
                f"{cells} pictures with {at_work} items at work: give 1 or more of both"
            )
        self.cells, self.at_work, self.figures = cells, at_work, figures
        self.settings, self.disk = settings, disk
        accounts = sorted({use.account for use in figures.models.values() if use.account})
        self._accounts = {name: settings.account(name) for name in accounts}
        self._prices = PriceTable.load(*([settings.prices] if settings.prices else []))
        self.courses = {end: self._course(end) for end in _ENDS}
        """The stages by the figures' means and by both of their ends."""

    @property
    def course(self) -> Course:
        """The stages by the means."""
        return self.courses["mean"]

    def size(self, workers: int = 1) -> Size:
        """Return the time of the study on that many machines."""
        rate, expected = self.course.throughput(workers), self.course.seconds(workers)
        return Size(
            workers,
            expected,
            min(self.courses["low"].seconds(workers), expected),
            max(self.courses["high"].most_seconds(workers), expected),
            self.course.binding(workers),
            {
                stage.name: 0.0 if math.isinf(rate) else rate / stage.capacity(workers)
                for stage in self.course.every
                if stage.seconds
            },
        )

    def after(self, size: Size) -> tuple[Stage, float]:
        """Return the next bottleneck if the binding stage had no limit, and the seconds with it."""
        freed = self.course.without(size.binding)
        return freed.binding(size.workers), freed.seconds(size.workers)

    @property
    def pictures(self) -> float:
        """Pictures drawn, rounds and references included."""
        return self.cells * self.figures.pictures.mean

    @property
    def bytes(self) -> Spread:
        """Disk space of pictures, tables, journal and answers."""
        figures = self.figures

        def kept(end: End) -> float:
            pictures = max(1.0, figures.pictures.at(end))  # files that are given are kept too
            return pictures * figures.picture_bytes.at(end) + figures.row_bytes.at(end)

        return Spread.of(kept) * self.cells

    @property
    def fits(self) -> bool | None:
        """Whether the disk is large enough; None if its size is unknown."""
        return None if self.disk is None else self.bytes.mean <= self.disk

    def costs(self, end: End = "mean") -> CostForecast:
        """Return what the accounts take by the figures' means, or by one of their ends."""
        lines = []
        for who, use in self.figures.models.items():
            uses = self.cells * use.uses.at(end)
            usage = Usage(
                round(uses * use.tokens_in),
                round(uses * use.tokens_out),
                images=round(uses) if use.does == "draws" else 0,
            )
            known = uses * (use.usd or 0.0) if use.usd is not None or not use.account else None
            usd = self._price(who, use.account, usage) if known is None else known
            once = ExpectedUsage(round(uses * use.calls), usage, usd)
            lines.append(CostLine.of(who, use.does, once))
        return CostForecast(tuple(lines))

    @property
    def usd(self) -> Spread:
        """Dollars of the accounts, without those of models whose price is unknown."""
        return Spread.of(lambda end: self.costs(end).usd)

    def _price(self, who: str, account: str, usage: Usage) -> float | None:
        """Return dollars by the table of prices; None if it knows none."""
        spec = self._accounts[account]
        # An account's own entry goes before that of the provider whose format it speaks.
        providers = [account] if spec.base_url is not None else [account, spec.provider]
        found = (self._prices.usd(name, who.partition(":")[2], usage) for name in providers)
        return next((usd for usd in found if usd is not None), None)

    def _course(self, end: End) -> Course:
        figures = self.figures
        alone = figures.in_a_row(end) if figures.alone is None else figures.alone.at(end)
        stages = (*self._machine(end), *self._shared(end))
        return Course(self.cells, alone, self.at_work, stages, figures.startup)

    def _machine(self, end: End) -> Iterator[Stage]:
        figures = self.figures
        here = {who: use for who, use in figures.models.items() if not use.account}
        taken = {who: use.uses.at(end) * use.seconds.at(end) for who, use in here.items()}
        if figures.accelerator:
            yield Stage("device", "", math.fsum(taken.values()))
        else:
            # Each model on the machine works off its requests one by one.
            for who, seconds in taken.items():
                yield Stage("drawing" if here[who].does == "draws" else "judging", who, seconds)
        cpu = math.fsum(taken.values()) if figures.cpu is None else figures.cpu.at(end)
        if figures.cpu is not None or not figures.accelerator:
            yield Stage("cpu", "", cpu, figures.cores)
        yield Stage("process", "", figures.process.at(end))

    def _shared(self, end: End) -> Iterable[Stage]:
        """Yield the limits of each account; that of a day only where the study reaches it."""
        for name, spec in self._accounts.items():
            uses = [use for use in self.figures.models.values() if use.account == name]

            def total(of: Callable[[Use], float], uses: list[Use] = uses) -> float:
                return math.fsum(use.uses.at(end) * of(use) for use in uses)

            calls = total(lambda use: use.calls)
            if (limit := spec.requests_per_minute) is not None:
                pace = _MINUTE * (1 + MARGIN) / limit
                ahead = spec.window if limit * spec.window >= _MINUTE else 0.0
                yield Stage("requests", name, calls * pace, 1.0, ahead, True, limit)
            if (limit := spec.requests_per_day) is not None and calls * self.cells > limit:
                yield Stage("day", name, calls * _DAY / limit, 1.0, _DAY, True, limit)
            if (limit := spec.tokens_per_minute) is not None:
                tokens = total(lambda use: use.tokens_in + use.tokens_out)
                yield Stage("tokens", name, tokens * _MINUTE / limit, waits=True, limit=limit)
            seconds = total(lambda use: use.seconds.at(end))
            yield Stage("calls", name, seconds, spec.concurrent, limit=spec.concurrent)
