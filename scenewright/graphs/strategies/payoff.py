"""Payoff of repairs: facts gained for a picture's worth of work, learnt from the run's own rounds.

For every kind of failure and repair the facts that a picture's worth of work gains are taken as
Poisson, with a Gamma prior of the weight :data:`WEIGHT`: ``(rate · WEIGHT + gained) / (WEIGHT +
pictures)`` is the posterior mean. A round whose candidate was not kept gained nothing. The prior
rate is measured for a backend (``priors.toml``, written by ``python -m benchmarks.strategies
--priors``); where it was not, it is flat: the mean of what was measured for this kind of failure on
the backend, or 1.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Protocol

from scenewright.graphs.strategies.base import Attempt

WEIGHT = 3.0
"""Pictures' worth of work that the prior counts for."""
FLAT = 1.0
"""Facts gained a picture, where nothing was measured."""
FILE = "priors.toml"


@dataclass(frozen=True, slots=True)
class Payoff:
    """Payoff of one repair for one kind of failure."""

    strategy: str
    """The repair."""
    prior: float
    """Facts gained a picture before the run."""
    measured: int
    """Rounds of the benchmark behind that; 0: the prior is flat."""
    gained: int = 0
    """Facts that it gained in this run."""
    pictures: float = 0.0
    """Pictures' worth of work that it took in this run."""

    @property
    def rate(self) -> float:
        """Posterior mean of the facts gained a picture."""
        return (self.prior * WEIGHT + self.gained) / (WEIGHT + self.pictures)

    def words(self) -> str:
        """Return ``feedback .62 (.80 measured in 40 rounds; 0 facts for 2.1 pictures here)``."""
        prior = f"{self.prior:.2f}"
        known = f"{prior} measured in {self.measured} rounds" if self.measured else f"{prior} flat"
        here = f"; {self.gained} facts for {self.pictures:.1f} pictures here"
        return f"{self.strategy} {self.rate:.2f} ({known}{here if self.pictures else ''})"


@cache
def priors() -> Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]:
    """Return the measured priors: backend → kind of failure → repair → facts, pictures, rounds."""
    text = files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    return tomllib.loads(text)


def payoffs(
    backend: str, kind: str, strategies: Iterable[str], tried: Iterable[Attempt]
) -> list[Payoff]:
    """Return what each of ``strategies`` pays for ``kind`` on ``backend``, in their order."""
    tried = [attempt for attempt in tried if attempt.kind == kind]
    known = priors().get(backend, {}).get(kind, {})
    rates = [one["facts"] / one["pictures"] for one in known.values()]
    flat = sum(rates) / len(rates) if rates else FLAT
    found = []
    for name in strategies:
        mine = [attempt for attempt in tried if attempt.strategy == name]
        entry = known.get(name)
        found.append(
            Payoff(
                strategy=name,
                prior=flat if entry is None else entry["facts"] / entry["pictures"],
                measured=0 if entry is None else int(entry["rounds"]),
                gained=sum(attempt.gained for attempt in mine),
                pictures=sum(attempt.pictures for attempt in mine),
            )
        )
    return found


class PaidRound(Protocol):
    """A round of a benchmark: an :class:`Attempt`, or what is stored of it."""

    @property
    def kind(self) -> str:
        """Kind of failure."""
        ...

    @property
    def strategy(self) -> str:
        """The repair."""
        ...

    @property
    def gained(self) -> int:
        """Facts gained."""
        ...

    @property
    def pictures(self) -> float:
        """Pictures' worth of work."""
        ...


def priors_toml(backend: str, rounds: Iterable[PaidRound]) -> str:
    """Return the section of ``backend`` in ``priors.toml``, from the ``rounds`` of a benchmark."""
    table: dict[tuple[str, str], list[PaidRound]] = {}
    for attempt in rounds:
        if attempt.pictures > 0:
            table.setdefault((attempt.kind, attempt.strategy), []).append(attempt)
    lines = [f'["{backend}"]']
    for (kind, name), mine in sorted(table.items()):
        facts = sum(attempt.gained for attempt in mine)
        pictures = sum(attempt.pictures for attempt in mine)
        told = f"facts = {facts}, pictures = {pictures:.2f}, rounds = {len(mine)}"
        lines.append(f'"{kind}"."{name}" = {{ {told} }}')
    return "\n".join(lines) + "\n"
