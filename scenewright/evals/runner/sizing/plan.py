"""Size of a study from measured figures: time, dollars, disk, bottleneck and daily limits.

The bottleneck model: cells pass stages, and the slowest stage decides the throughput. A *cell* is
one scene drawn in one way, judged and scored. Each stage serves a cell for :attr:`Stage.seconds` at
one of its servers. These are the operational laws of closed systems (Denning and Buzen, "The
Operational Analysis of Queueing Network Models", 1978; Lazowska, Zahorjan, Graham and Sevcik,
"Quantitative System Performance", 1984, chapter 5): with N cells at work, a cell alone taking L
seconds, and stages of demand D_k on c_k servers,

    N / (L + (N - 1) * max D_k/c_k)  <=  throughput  <=  min(N / L, min c_k / D_k)

The right side is expected where work is even; the left one holds where every cell queues behind all
others. The truth is between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from scenewright.config.accounts import AccountSpec
from scenewright.config.profiles import SettingsError
from scenewright.config.settings import Settings
from scenewright.evals.runner.sizing.figures import (
    NOTHING,
    End,
    Figures,
    SizingError,
    Spread,
    Use,
    account_of,
)
from scenewright.providers.limits import MARGIN
from scenewright.providers.usage import PriceTable, Usage
from scenewright.runs.model_factory.profiles import limits_of

Kind = Literal[
    "drawing", "judging", "cpu", "process", "device", "requests", "day", "tokens", "calls", "items"
]
_MOST_WORKERS = 1_000_000
"""Largest number of machines that is considered."""
SHARED: frozenset[str] = frozenset({"requests", "day", "tokens", "calls"})
"""Limits of an account: machines share them."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A resource that cells use, with a limited number of servers."""

    kind: Kind
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

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a demand or a window below 0, or no server."""
        sound = math.isfinite(self.seconds) and self.seconds >= 0 and self.window >= 0
        if not sound or not self.servers > 0:
            raise ValueError(
                f"the stage {self.name!r} serves {self.seconds} s on {self.servers} servers "
                f"(window {self.window} s): give seconds of 0 or more, and more than 0 servers"
            )

    @property
    def name(self) -> str:
        """Name in words."""
        what = {
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
        return what[self.kind].format(self.of)

    @property
    def shared(self) -> bool:
        """Whether all machines share it."""
        return self.kind in SHARED

    def capacity(self, workers: int = 1) -> float:
        """Return cells a second that ``workers`` machines get through it.

        Infinite if none needs it.
        """
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

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for fewer than no cells or fewer than one item at work."""
        if self.cells < 0 or self.at_work < 1 or self.alone < 0 or self.startup < 0:
            raise ValueError(
                f"{self.cells} cells of {self.alone} s, {self.at_work} at work: give cells and "
                "seconds of 0 or more, and at least one item at work"
            )

    @property
    def every(self) -> tuple[Stage, ...]:
        """The stages, with the items at work as one of them."""
        return (*self.stages, Stage("items", "", self.alone, self.at_work))

    def throughput(self, workers: int = 1) -> float:
        """Return cells a second in the long run: the least capacity of any stage."""
        return min(stage.capacity(workers) for stage in self.every)

    def slowest_throughput(self, workers: int = 1) -> float:
        """Return cells a second if every cell queues behind all others (the left side above)."""
        held = max((1 / stage.capacity(workers) for stage in self.stages), default=0.0)
        work = max(self.alone, held)
        n = self.at_work * workers
        return math.inf if not work else min(n / (work + (n - 1) * held), self.throughput(workers))

    def binding(self, workers: int = 1) -> Stage:
        """Return the stage of least capacity; of equal ones the first."""
        return min(self.every, key=lambda stage: stage.capacity(workers))

    def seconds(self, workers: int = 1) -> float:
        """Return seconds of the whole study, as expected; 0 for no cells."""
        if not self.cells:
            return 0.0
        return self.startup + max(s.lasts(self.cells, self.alone, workers) for s in self.every)

    def most_seconds(self, workers: int = 1) -> float:
        """Return seconds of the whole study if every cell queues behind all others."""
        if not self.cells:
            return 0.0
        rate = self.slowest_throughput(workers)
        queued = 0.0 if math.isinf(rate) else self.cells / rate
        return max(self.seconds(workers), self.startup + queued + self.alone)

    def without(self, stage: Stage) -> Course:
        """Return the same if ``stage`` held nothing up."""
        if stage.kind == "items":
            return Course(self.cells, self.alone, max(self.cells, 1), self.stages, self.startup)
        rest = tuple(one for one in self.stages if one != stage)
        return Course(self.cells, self.alone, self.at_work, rest, self.startup)

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
        found = []
        left = seconds - self.startup - self.alone
        for stage in self.stages:
            if stage.shared and self.startup + self._last(stage) > seconds:
                busy = self.cells / stage.capacity()
                found.append((stage, math.inf if left <= 0 else busy / left))
        return tuple(found)

    def _last(self, stage: Stage) -> float:
        return stage.lasts(self.cells, self.alone)


def expected_rounds(go_on: float, most: int) -> float:
    """Return the expected rounds of a loop that goes on after each with the probability ``go_on``.

    It has at most ``most`` rounds: the sum of go_on^k for k below ``most``. Raises ``ValueError``
    for a probability outside [0, 1] or fewer than one round.
    """
    if not 0 <= go_on <= 1 or most < 1:
        raise ValueError(
            f"a loop that goes on with probability {go_on}, {most} rounds at most: give a "
            "probability of 0 to 1, and at least one round"
        )
    return float(most) if go_on == 1 else (1 - go_on**most) / (1 - go_on)


@dataclass(frozen=True, slots=True)
class DayLimit:
    """An account whose daily requests are too few."""

    account: str
    calls: int
    """Most expected requests."""
    per_day: int
    """Allowed requests a day."""
    left: int
    """Requests left today, on this machine."""
    zone: str
    """IANA time zone of its day."""

    @property
    def pauses(self) -> int:
        """Number of pauses until midnight."""
        return math.ceil((self.calls - self.left) / self.per_day)

    @property
    def text(self) -> str:
        """The limit as a clause, without a full stop."""
        until = (
            f"until midnight ({self.zone})"
            if self.pauses == 1
            else f"until midnight ({self.zone}) {self.pauses:,} times"
        )
        return (
            f"{self.account} takes up to {self.calls:,} requests and may send {self.per_day:,} a "
            f"day, of which {self.left:,} are left today: it pauses {until}; calls that have less "
            "patience are unscored, and --retry or the same command asks them another day"
        )


def short_days(calls: Iterable[tuple[str, float]], settings: Settings) -> tuple[DayLimit, ...]:
    """Return the accounts that would send more requests than a day of theirs has left.

    ``calls``: id of a model and how often it is called, at most. Names of no known account, such as
    those of models on this machine, are left out.
    """
    total: dict[str, float] = {}
    for model, count in calls:
        account = account_of(model)
        total[account] = total.get(account, 0.0) + count
    found = []
    for account, count in sorted(total.items()):
        try:
            spec = settings.account(account)
        except SettingsError:
            continue
        quota = limits_of(account, spec).day_quota()
        if quota is None or spec.requests_per_day is None or count <= (left := quota.left()):
            continue
        found.append(
            DayLimit(account, math.ceil(count), spec.requests_per_day, left, spec.zone_of_day)
        )
    return tuple(found)


_MINUTE = 60.0
_DAY = 86_400.0
_ENDS: tuple[End, ...] = ("mean", "low", "high")


@dataclass(frozen=True, slots=True)
class Workload:
    """Amount of work."""

    cells: int
    """Pictures to be made: items times arms."""
    at_work: int = 8
    """Concurrent items on each machine."""


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
        self, study: Workload, figures: Figures, settings: Settings, disk: float | None = None
    ) -> None:
        """Compute the stages of a study.

        Args:
            study: the amount of work.
            figures: measured figures.
            settings: accounts with their limits.
            disk: free bytes, if known.

        Raises:
            SettingsError: an account is unknown.
            PriceError: the file of prices is wrong.
            SizingError: the study has no pictures.
        """
        if study.cells < 1 or study.at_work < 1:
            raise SizingError(
                f"{study.cells} pictures with {study.at_work} items at work: give 1 or more of both"
            )
        self.study = study
        self.figures = figures
        self.disk = disk
        """Free bytes, if known."""
        accounts = sorted({use.account for use in figures.models.values() if use.account})
        self._settings = settings
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
        rate = self.course.throughput(workers)
        return Size(
            workers,
            self.course.seconds(workers),
            min(self.courses["low"].seconds(workers), self.course.seconds(workers)),
            max(self.courses["high"].most_seconds(workers), self.course.seconds(workers)),
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

    def limit_of(self, stage: Stage) -> int | None:
        """Return the number in the settings behind a shared stage; none for stages of machines."""
        spec = self._accounts.get(stage.of)
        if spec is None:
            return None
        return {
            "requests": spec.requests_per_minute,
            "day": spec.requests_per_day,
            "tokens": spec.tokens_per_minute,
            "calls": spec.concurrent,
        }.get(stage.kind)

    @property
    def pictures(self) -> float:
        """Pictures drawn, rounds and references included."""
        return self.study.cells * self.figures.pictures.mean

    @property
    def bytes(self) -> Spread:
        """Disk space of pictures, tables, journal and answers."""
        figures, kept = self.figures, []
        for end in _ENDS:
            pictures = max(1.0, figures.pictures.at(end))  # files that are given are kept too
            kept.append(pictures * figures.picture_bytes.at(end) + figures.row_bytes.at(end))
        mean, low, high = kept
        return Spread(mean=mean, low=low, high=high) * self.study.cells

    @property
    def fits(self) -> bool | None:
        """Whether the disk is large enough; None if its size is unknown."""
        return None if self.disk is None else self.bytes.mean <= self.disk

    @property
    def usd(self) -> Spread:
        """Dollars of the accounts, without those of models whose price is unknown."""
        total = [0.0, 0.0, 0.0]
        for who, use in self.figures.models.items():
            price = self.price(who, use) or 0.0
            for at, end in enumerate(_ENDS):
                total[at] += price * use.uses.at(end)
        mean, low, high = total
        return Spread(mean=mean, low=min(low, mean), high=max(high, mean)) * self.study.cells

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Models of accounts whose price is unknown: their dollars are not in the sum."""
        return tuple(w for w, use in self.figures.models.items() if self.price(w, use) is None)

    def price(self, who: str, use: Use) -> float | None:
        """Return dollars of one use: as measured, else by the table of prices.

        None if it knows none.
        """
        if use.usd is not None or not use.account:
            return use.usd or 0.0
        spec = self._accounts[use.account]
        model = who.partition(":")[2]
        usage = Usage(
            round(use.tokens_in * 1000),
            round(use.tokens_out * 1000),
            images=1000 if use.does == "draws" else 0,
        )
        # An account's own entry goes before that of the provider whose format it speaks.
        for provider in (use.account, spec.provider if spec.base_url is None else ""):
            usd = self._prices.usd(provider, model, usage) if provider else None
            if usd is not None:
                return usd / 1000
        return None

    def _course(self, end: End) -> Course:
        figures = self.figures
        alone = figures.alone.at(end) if figures.alone is not None else _in_a_row(figures, end)
        stages = (*self._machine(end), *self._shared(end))
        return Course(self.study.cells, alone, self.study.at_work, stages, figures.startup)

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

    def _shared(self, end: End) -> Iterator[Stage]:
        for name, spec in self._accounts.items():
            uses = [use for use in self.figures.models.values() if use.account == name]
            yield from _limits(name, spec, uses, end, self.study.cells)

    @property
    def day_limits(self) -> tuple[DayLimit, ...]:
        """Accounts whose daily requests are too few."""
        calls = [
            (who, self.study.cells * use.uses.mean * use.calls)
            for who, use in self.figures.models.items()
        ]
        return short_days(calls, self._settings)


def _limits(
    name: str, spec: AccountSpec, uses: Sequence[Use], end: End, cells: int
) -> Iterator[Stage]:
    """Yield the limits of an account; that of a day only where ``cells`` reach it."""
    calls = math.fsum(use.uses.at(end) * use.calls for use in uses)
    tokens = math.fsum(use.uses.at(end) * (use.tokens_in + use.tokens_out) for use in uses)
    if spec.requests_per_minute is not None:
        pace = _MINUTE * (1 + MARGIN) / spec.requests_per_minute
        ahead = spec.window if spec.requests_per_minute * spec.window >= _MINUTE else 0.0
        yield Stage("requests", name, calls * pace, window=ahead, waits=True)
    if spec.requests_per_day is not None and calls * cells > spec.requests_per_day:
        yield Stage("day", name, calls * _DAY / spec.requests_per_day, window=_DAY, waits=True)
    if spec.tokens_per_minute is not None:
        yield Stage("tokens", name, tokens * _MINUTE / spec.tokens_per_minute, waits=True)
    seconds = math.fsum(use.uses.at(end) * use.seconds.at(end) for use in uses)
    yield Stage("calls", name, seconds, spec.concurrent)


def _in_a_row(figures: Figures, end: End) -> float:
    return math.fsum(use.uses.at(end) * use.seconds.at(end) for use in figures.models.values())


def resized(
    figures: Figures,
    *,
    rounds: int | None = None,
    judges: int | None = None,
) -> Figures:
    """Return the figures of a study that differs from the measured one.

    ``rounds``: most rounds of each loop; expected ones follow from ``go_on``, and each further one
    draws ``more_pictures`` and is looked at by the judges that steer. ``judges``: how many look at
    what is kept, each like the mean of the measured ones. Seconds of a whole cell grow as those of
    its models do. Raises ``SizingError`` where the figures do not tell.
    """
    models = dict(figures.models)
    expected = figures.rounds
    if rounds is not None:
        if rounds > 1 and not figures.go_on:
            raise SizingError(
                f"{rounds} rounds: the figures have no loop that went on. Give go_on, the share "
                "of rounds after which one goes on, or figures of a pilot with a loop"
            )
        expected = expected_rounds(figures.go_on, rounds)
        drawn = 1 + (expected - 1) * figures.more_pictures
        pictures = figures.pictures.mean
        for who, use in models.items():
            if use.does == "judges" or (use.does == "draws" and not pictures):
                continue
            by = drawn / pictures if use.does == "draws" else expected / figures.rounds
            models[who] = use.model_copy(update={"uses": use.uses * by})
    if judges is not None:
        there = [who for who, use in models.items() if use.does == "judges"]
        if not there and judges:
            raise SizingError("the figures have no judge of kept pictures: measure one")
        for who in there:
            use = models[who]
            models[who] = use.model_copy(update={"uses": use.uses * (judges / len(there))})
    changed = figures.model_copy(update={"models": models, "rounds": expected})
    before, now = _in_a_row(figures, "mean"), _in_a_row(changed, "mean")
    by = now / before if before else 1.0
    scaled = {
        name: value * by
        for name in ("alone", "cpu", "process", "row_bytes")
        if (value := getattr(figures, name)) is not None and value != NOTHING
    }
    return changed.model_copy(update=scaled)
