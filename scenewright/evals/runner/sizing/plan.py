"""A study sized from figures: stages, hours, dollars, bytes, and what holds it up."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scenewright.config.accounts import AccountSpec
from scenewright.config.settings import Settings
from scenewright.evals.runner.sizing.days import DayLimit, short_days
from scenewright.evals.runner.sizing.errors import SizingError
from scenewright.evals.runner.sizing.figures import NOTHING, End, Figures, Spread, Use
from scenewright.evals.runner.sizing.stages import Course, Stage, expected_rounds
from scenewright.providers.limits import MARGIN
from scenewright.providers.usage import PriceTable, Usage

_MINUTE = 60.0
_DAY = 86_400.0
_ENDS: tuple[End, ...] = ("mean", "low", "high")


@dataclass(frozen=True, slots=True)
class Workload:
    """What is to be done."""

    cells: int
    """Pictures that are to be there in the end: items times ways of drawing."""
    at_work: int = 8
    """Items at work at the same time on each machine."""


@dataclass(frozen=True, slots=True)
class Size:
    """What a study takes on a number of machines."""

    workers: int
    """Machines."""
    seconds: float
    """From beginning to end, as expected."""
    least: float
    """By the lower ends of the figures."""
    most: float
    """By their upper ends, and with every cell queueing behind all others."""
    binding: Stage
    """What holds it up."""
    busy: dict[str, float]
    """Name of a stage → the share of the time in which it is used, 0 to 1."""

    @property
    def hours(self) -> float:
        """Likewise, in hours."""
        return self.seconds / 3600


class Plan:
    """A study with its figures and limits."""

    def __init__(
        self, study: Workload, figures: Figures, settings: Settings, disk: float | None = None
    ) -> None:
        """``disk``: bytes that there are. Raises ``SettingsError`` for an account that the
        settings do not know, ``PriceError`` for a file of prices, ``SizingError`` for a study
        without pictures."""
        if study.cells < 1 or study.at_work < 1:
            raise SizingError(
                f"{study.cells} pictures with {study.at_work} items at work: give 1 or more of both"
            )
        self.study = study
        """What is to be done."""
        self.figures = figures
        """What it is worked out from."""
        self.disk = disk
        """Bytes that there are; none: not known."""
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
        """What the study takes on so many machines."""
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
        """What would hold the study up next if nothing limited its binding stage, and the seconds
        that it would take."""
        freed = self.course.without(size.binding)
        return freed.binding(size.workers), freed.seconds(size.workers)

    def limit_of(self, stage: Stage) -> int | None:
        """The number in the settings behind a shared stage; none for stages of machines."""
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
        """Disk that pictures, tables, journal and answers take."""
        figures, kept = self.figures, []
        for end in _ENDS:
            pictures = max(1.0, figures.pictures.at(end))  # files that are given are kept too
            kept.append(pictures * figures.picture_bytes.at(end) + figures.row_bytes.at(end))
        mean, low, high = kept
        return Spread(mean=mean, low=low, high=high) * self.study.cells

    @property
    def fits(self) -> bool | None:
        """Whether the disk holds it; none if it is not known."""
        return None if self.disk is None else self.bytes.mean <= self.disk

    @property
    def usd(self) -> Spread:
        """Dollars of the accounts; without those of models whose price is not known."""
        total = [0.0, 0.0, 0.0]
        for who, use in self.figures.models.items():
            price = self.price(who, use) or 0.0
            for at, end in enumerate(_ENDS):
                total[at] += price * use.uses.at(end)
        mean, low, high = total
        return Spread(mean=mean, low=min(low, mean), high=max(high, mean)) * self.study.cells

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Models of accounts whose price is not known: their dollars are not in the sum."""
        return tuple(w for w, use in self.figures.models.items() if self.price(w, use) is None)

    def price(self, who: str, use: Use) -> float | None:
        """Dollars of one use: as measured, else by the table of prices; none if it knows none."""
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
        """Accounts whose requests of a day do not suffice."""
        calls = [
            (who, self.study.cells * use.uses.mean * use.calls)
            for who, use in self.figures.models.items()
        ]
        return short_days(calls, self._settings)


def _limits(
    name: str, spec: AccountSpec, uses: Sequence[Use], end: End, cells: int
) -> Iterator[Stage]:
    """The limits of an account; that of a day only where ``cells`` reach it."""
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
    """The figures of a study that differs from the measured one.

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
                f"{rounds} rounds: the figures tell of no loop that went on. Give go_on, the share "
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
            raise SizingError("the figures tell of no judge of what is kept: measure one")
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
