"""What the study of attacks and drifts measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.studies.panel.attacks import AttackKind, Breakdown
from scenewright.evals.studies.panel.drift import Change, Watched
from scenewright.evals.studies.panel.quality import Measure
from scenewright.evals.studies.panel.slowness import Cut

SAYS: Mapping[AttackKind, str] = {
    "yes": "always say yes",
    "no": "always say no",
    "random": "throw a coin",
    "adversarial": "say the opposite of the truth",
    "copies": "copy one another",
    "missing": "give nothing usable",
}
"""Attack → what judges do, after a plural."""
CHANGED: Mapping[Change, str] = {
    "worse": "turns {} of the answers round",
    "eager": "sets {} to yes",
}
"""Update → what it does to a share of the answers."""
Scored = tuple[Estimate, float]
"""Quality, and the share of the asked facts that have a value."""


@dataclass(frozen=True, slots=True, eq=False)
class Attacked:
    """All that was measured."""

    table: str
    """Name of the table."""
    real: int
    """Judges of the table."""
    names: tuple[str, ...]
    """Aggregators."""
    left_out: tuple[str, ...]
    """Those that had nothing to learn from."""
    measure: Measure
    """What quality is."""
    chance: float
    """What guessing reaches."""
    strength: float
    """Of the attacks."""
    added: bool
    """Whether bad judges join."""
    enlarged: Mapping[AttackKind, Mapping[str, Breakdown]]
    """With the panel enlarged by clones, or as it is where it is large enough."""
    plain: Mapping[AttackKind, Mapping[str, Breakdown]]
    """The panel as it is, where the other one is enlarged."""
    missing: Mapping[str, Mapping[str, Scored]]
    """What is missing → aggregator → quality."""
    watched: Mapping[tuple[Change, float], Sequence[Watched]]
    """What is seen of judges that change."""
    cuts: Sequence[Cut]
    """Time limits."""
    slow: Sequence[Mapping[str, Scored]]
    """Aggregator → quality, one a time limit."""
    modelled: bool
    """Whether the seconds are drawn."""
    updated: tuple[str, ...]
    """Judges with another fingerprint than when they were learnt of."""

    @property
    def size(self) -> int:
        """Judges of the panel that is attacked."""
        return next(iter(next(iter(self.enlarged.values())).values())).judges


def records(study: Attacked) -> dict[str, list[dict[str, Any]]]:
    """Rows of parquet tables, by file stem."""
    curves = [
        {"panel": panel, "attack": kind, "aggregator": name, "judges": b.judges, "bad": bad,
         "share": b.shares[bad], "scored": b.scored[bad], "quality": e.value, "low": e.low,
         "high": e.high}
        for panel, by_kind in (("enlarged", study.enlarged), ("as it is", study.plain))
        for kind, by_name in by_kind.items()
        for name, b in by_name.items()
        for bad, e in enumerate(b.curve)
    ]  # fmt: skip
    points = [
        {"panel": panel, "attack": kind, "aggregator": name, "judges": b.judges, "bad": b.bad,
         "share": b.share, "low": b.low, "high": b.high, "worse_than_best_judge": b.worse}
        for panel, by_kind in (("enlarged", study.enlarged), ("as it is", study.plain))
        for kind, by_name in by_kind.items()
        for name, b in by_name.items()
    ]  # fmt: skip
    missing = [
        {"missing": what, "aggregator": name, "scored": scored, "quality": e.value, "low": e.low,
         "high": e.high}
        for what, by_name in study.missing.items()
        for name, (e, scored) in by_name.items()
    ]  # fmt: skip
    slow = [
        {"limit": None if np.isinf(cut.limit) else cut.limit, "lost": cut.lost,
         "seconds": float(np.nanmean(cut.wall)), "aggregator": name, "scored": scored,
         "quality": e.value, "low": e.low, "high": e.high}
        for cut, by_name in zip(study.cuts, study.slow, strict=True)
        for name, (e, scored) in by_name.items()
    ]  # fmt: skip
    delays = [
        {"judge": seen.judge, "change": change, "shift": shift, "stream": at,
         "delay": float(delay) if np.isfinite(delay) else None}
        for (change, shift), every in study.watched.items()
        for seen in every
        for at, delay in enumerate(seen.delays)
    ]  # fmt: skip
    tests = [
        {"judge": seen.judge, "change": change, "shift": shift, "images": n, "found": share}
        for (change, shift), every in study.watched.items()
        for seen in every
        for n, share in zip(seen.ns, seen.found, strict=True)
    ]
    return {
        "attack_curves": curves,
        "breakdown_points": points,
        "missing_answers": missing,
        "slow_judges": slow,
        "update_delays": delays,
        "update_tests": tests,
    }
