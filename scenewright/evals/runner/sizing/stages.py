"""The bottleneck model: a study passes stages, and the slowest one decides how fast it goes.

A *cell* is one scene drawn in one way, judged and scored. Each stage serves a cell for
:attr:`Stage.seconds` at one of its servers. These are the operational laws of closed systems
(Denning and Buzen, "The Operational Analysis of Queueing Network Models", 1978; Lazowska, Zahorjan,
Graham and Sevcik, "Quantitative System Performance", 1984, chapter 5): with N cells at work, a
cell alone taking L seconds, and stages of demand D_k on c_k servers,

    N / (L + (N - 1) * max D_k/c_k)  <=  throughput  <=  min(N / L, min c_k / D_k)

The right side is what is expected where work is even; the left one holds where every cell queues
behind all others, so that the truth lies between.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "drawing", "judging", "cpu", "process", "device", "requests", "day", "tokens", "calls", "items"
]
_MOST_WORKERS = 1_000_000
"""Machines beyond which nobody asks for more."""
SHARED: frozenset[str] = frozenset({"requests", "day", "tokens", "calls"})
"""Limits of an account: machines share them."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One thing that cells pass, and that only so many can use at once."""

    kind: Kind
    """What it is."""
    of: str
    """Whose: a model, an account, or empty."""
    seconds: float
    """Seconds of one server that one cell takes (its *demand*)."""
    servers: float = 1.0
    """How many serve side by side; on each machine, unless they are shared."""
    window: float = 0.0
    """Seconds' worth that may be used ahead at the start: a limit that counts by the minute lets
    the first minute's requests through at once."""
    waits: bool = False
    """Whether the seconds are a pace and no work: no part of the time of a cell alone."""

    def __post_init__(self) -> None:
        """Raises ``ValueError`` for a demand or a window below 0, or no server."""
        sound = math.isfinite(self.seconds) and self.seconds >= 0 and self.window >= 0
        if not sound or not self.servers > 0:
            raise ValueError(
                f"the stage {self.name!r} serves {self.seconds} s on {self.servers} servers "
                f"(window {self.window} s): give seconds of 0 or more, and more than 0 servers"
            )

    @property
    def name(self) -> str:
        """For people."""
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
        """Whether all machines have it together."""
        return self.kind in SHARED

    def capacity(self, workers: int = 1) -> float:
        """Cells a second that ``workers`` machines get through it; infinite if none needs it."""
        if not self.seconds:
            return math.inf
        return self.servers * (1 if self.shared else workers) / self.seconds

    def lasts(self, cells: int, alone: float, workers: int = 1) -> float:
        """Seconds until the last of ``cells`` is done if nothing else holds them up.

        ``alone``: seconds of a cell that nothing holds up.
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
    """Pictures that are to be there in the end."""
    alone: float
    """Seconds of one cell that nothing holds up."""
    at_work: int
    """Items that one machine has at work at the same time."""
    stages: tuple[Stage, ...]
    """What they pass."""
    startup: float = 0.0
    """Seconds before the first cell begins."""

    def __post_init__(self) -> None:
        """Raises ``ValueError`` for fewer than no cells or fewer than one item at work."""
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
        """Cells a second in the long run: the least capacity of any stage."""
        return min(stage.capacity(workers) for stage in self.every)

    def slowest_throughput(self, workers: int = 1) -> float:
        """Cells a second if every cell queues behind all others (the left side above)."""
        held = max((1 / stage.capacity(workers) for stage in self.stages), default=0.0)
        work = max(self.alone, held)
        n = self.at_work * workers
        return math.inf if not work else min(n / (work + (n - 1) * held), self.throughput(workers))

    def binding(self, workers: int = 1) -> Stage:
        """The stage of least capacity; of equal ones the first."""
        return min(self.every, key=lambda stage: stage.capacity(workers))

    def seconds(self, workers: int = 1) -> float:
        """Seconds of the whole study, as expected; 0 for no cells."""
        if not self.cells:
            return 0.0
        return self.startup + max(s.lasts(self.cells, self.alone, workers) for s in self.every)

    def most_seconds(self, workers: int = 1) -> float:
        """Seconds of the whole study if every cell queues behind all others."""
        if not self.cells:
            return 0.0
        rate = self.slowest_throughput(workers)
        queued = 0.0 if math.isinf(rate) else self.cells / rate
        return max(self.seconds(workers), self.startup + queued + self.alone)

    def without(self, stage: Stage) -> Course:
        """The same if ``stage`` held nothing up."""
        if stage.kind == "items":
            return Course(self.cells, self.alone, max(self.cells, 1), self.stages, self.startup)
        rest = tuple(one for one in self.stages if one != stage)
        return Course(self.cells, self.alone, self.at_work, rest, self.startup)

    def workers_for(self, seconds: float) -> int | None:
        """Fewest machines with which it takes at most ``seconds``; None if no number does."""
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
        """Shared limits that no machine can help, with the factor by which each must be higher for
        the study to take ``seconds``; infinite where a cell alone takes longer."""
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
    """Rounds of a loop that goes on after each with the probability ``go_on``, ``most`` at most.

    The sum of go_on^k for k below ``most``. Raises ``ValueError`` for a probability outside
    [0, 1] or fewer than one round.
    """
    if not 0 <= go_on <= 1 or most < 1:
        raise ValueError(
            f"a loop that goes on with probability {go_on}, {most} rounds at most: give a "
            "probability of 0 to 1, and at least one round"
        )
    return float(most) if go_on == 1 else (1 - go_on**most) / (1 - go_on)


def goes_on(rounds: Sequence[int], most: Sequence[int]) -> float:
    """The share of rounds after which a loop went on, of those after which it could have.

    ``rounds`` that loops took, and ``most`` that each was allowed; the maximum-likelihood estimate
    of :func:`expected_rounds`'s probability. 0 without a loop.
    """
    went = sum(taken - 1 for taken in rounds)
    could = sum(min(taken, bound - 1) for taken, bound in zip(rounds, most, strict=True))
    return went / could if could else 0.0
