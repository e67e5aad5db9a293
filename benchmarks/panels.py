"""What a panel of judges is worth, and each way of making one verdict of their answers.

``python -m benchmarks.panels [--quick]``. The miniature's judges answer labelled facts of
paintings that no training saw: half of them hold, the others are wrong of a thing that is there
or about a thing that is not. Panels of good judges and of bad ones (``weak`` learned for a short
time, ``eager`` says yes too easily) are put together from the same answers. ``calibrated`` uses
error rates measured on other paintings; ``dawid_skene`` sees no labels and is fitted to all
answers of a panel together; ``best_single`` is the panel's best judge, told by the labels.

``PANEL.WAY.accuracy`` is the share of right verdicts, ``.brier`` the mean squared error of the
probabilities; 95% intervals by bootstrap over paintings, and paired differences of accuracy to
the mean under ``PANEL.gain.WAY``. ``cascade.*``: judge-weak and judge-b are asked first, judge-a
where they are unsure.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks._harness import benchmark, interval, progress
from scenewright.agents.panel.aggregation import dawid_skene, majority_share
from scenewright.agents.panel.calibration import LabelledAnswer, calibrate
from scenewright.agents.panel.cascade import pooled, replay_cascade
from scenewright.agents.panel.panel import Panel, lead_of
from scenewright.agents.panel.rates import Calibration
from scenewright.config.profiles import CascadeSpec
from scenewright.core.facts import Answer, Fact, FactKind
from scenewright.core.ports.judge import Judge
from scenewright.evals.judge_reports.labelled_facts import ABSENT, LabelledFact
from scenewright.evals.judge_reports.synthetic_facts import synthetic_facts
from scenewright.runs.model_factory.profiles import judge_of

Array = NDArray[np.float64]

JUDGES = ("a", "b", "weak", "eager")
PANELS: Mapping[str, tuple[str, ...]] = {
    "good": ("a", "b"),
    "one_eager": ("a", "eager"),
    "one_good": ("b", "weak", "eager"),
    "bad": ("weak", "eager"),
    "all": JUDGES,
}
CASCADE = CascadeSpec(first=("local:miniature/judge-weak", "local:miniature/judge-b"))
LEARN, TEST = 60, 150
"""Paintings to calibrate on, and to measure on."""
SEEDS = {"learn": 7001, "test": 7002}


@dataclass(frozen=True, slots=True)
class Asked:
    """The facts of some paintings and what every judge said of them."""

    facts: tuple[LabelledFact, ...]
    """The facts, painting by painting."""
    answers: Mapping[str, tuple[Answer, ...]]
    """Judge's id → its answers, in the order of the facts."""

    @property
    def labels(self) -> Array:
        """1 where a fact holds, else 0, (n_facts,)."""
        return np.array([fact.holds for fact in self.facts], float)

    @property
    def kinds(self) -> list[FactKind]:
        """Kind of each fact."""
        return [fact.fact.kind for fact in self.facts]

    def groups(self) -> list[list[int]]:
        """Return rows of the facts of each painting."""
        found: dict[str, list[int]] = {}
        for at, fact in enumerate(self.facts):
            found.setdefault(fact.picture.name, []).append(at)
        return list(found.values())

    def values(self, judges: Sequence[str]) -> Array:
        """Return probabilities, of choices against the strongest rival, (n_facts, n_judges).

        NaN without an answer.
        """
        rows = [zip(self.facts, self.answers[judge], strict=True) for judge in judges]
        return np.array([[_value(one.fact, said) for one, said in row] for row in rows]).T


def _value(fact: Fact, answer: Answer) -> float:
    # Above ½ where the judge's choice says that the fact holds, whatever the number of options.
    lead = lead_of(fact, answer)
    return float("nan") if lead is None else lead


def name_of(judge: str) -> str:
    """Return the id of a miniature judge."""
    return f"local:miniature/judge-{judge}"


async def ask_all(judges: Sequence[Judge], count: int, seed: int) -> Asked:
    """Return ``count`` paintings put to all ``judges``."""
    # As in a run: what lacks its object is not asked.
    facts = tuple(
        fact
        for fact in synthetic_facts(count, seed)
        if fact.group != ABSENT or fact.fact.kind == "object"
    )
    asked = Asked(facts, {})
    answers: dict[str, list[Answer]] = {judge.id: [] for judge in judges}
    groups = asked.groups()
    for rows in progress(groups):
        image = facts[rows[0]].picture.load()
        for judge in judges:
            answers[judge.id] += await judge.answer(image, [facts[at].fact for at in rows])
    return Asked(facts, {judge: tuple(given) for judge, given in answers.items()})


def ways_of(asked: Asked, judges: Sequence[str], calibration: Calibration) -> dict[str, Array]:
    """Return way → probability of each fact, (n_facts,)."""
    values = asked.values(judges)
    votes = np.where(np.isnan(values), np.nan, values > 0.5)
    panel = {
        way: Panel(way, calibration=calibration).combined(values, votes, asked.kinds, judges)
        for way in ("mean", "calibrated")
    }
    right = [((values[:, at] > 0.5) == asked.labels).mean() for at in range(len(judges))]
    return {
        **panel,
        "dawid_skene": dawid_skene(values).probabilities,
        "majority": majority_share(values),
        "best_single": values[:, int(np.argmax(right))],
    }


def per_painting(values: Array, groups: Sequence[Sequence[int]]) -> list[float]:
    """Return mean of each painting's facts, weighted so that their mean is that of all facts."""
    total = sum(len(rows) for rows in groups) / len(groups)
    return [float(values[list(rows)].sum() / total) for rows in groups]


def figures_of(asked: Asked, calibration: Calibration) -> dict[str, Any]:
    """Return the figures of every panel."""
    labels, groups = asked.labels, asked.groups()
    figures: dict[str, Any] = {"facts": len(labels), "share_that_holds": float(labels.mean())}
    for name, members in PANELS.items():
        found = ways_of(asked, [name_of(member) for member in members], calibration)
        right = {way: ((p > 0.5) == labels).astype(float) for way, p in found.items()}
        for way, likely in found.items():
            figures[f"{name}.{way}.accuracy"] = interval(per_painting(right[way], groups))
            figures[f"{name}.{way}.brier"] = interval(per_painting((likely - labels) ** 2, groups))
            if way != "mean":
                gain = right[way] - right["mean"]
                figures[f"{name}.gain.{way}"] = interval(per_painting(gain, groups))
    return figures | cascade_figures(asked)


def cascade_figures(asked: Asked) -> dict[str, Any]:
    """Return what a cascade saves and how often it agrees with everybody asked."""
    judges = [*CASCADE.first, name_of("a")]
    reports = []
    for rows in asked.groups():
        facts = [asked.facts[at].fact for at in rows]
        given = {judge: [asked.answers[judge][at] for at in rows] for judge in judges}
        reports.append(replay_cascade(facts, given, CASCADE, Panel()))
    whole = pooled(reports)
    saved = {f"cascade.{name}_saved": share for name, share in whole.saved.items()}
    agreement = {"cascade.agreement": whole.agreement(), "cascade.kappa": whole.kappa()}
    return {name: share for name, share in (saved | agreement).items() if share is not None}


def measure(learn: int, test: int) -> dict[str, Any]:
    """Return all figures."""
    torch.set_num_threads(1)
    judges = [judge_of(name_of(judge)) for judge in JUDGES]

    async def both() -> tuple[Asked, Asked]:
        return (
            await ask_all(judges, learn, SEEDS["learn"]),
            await ask_all(judges, test, SEEDS["test"]),
        )

    learnt, tested = asyncio.run(both())
    labelled = [
        LabelledAnswer.of(known.picture.name, known.fact, answer, known.holds)
        for given in learnt.answers.values()
        for known, answer in zip(learnt.facts, given, strict=True)
    ]
    calibration = calibrate(
        labelled,
        judges={judge.id: judge.fingerprint for judge in judges},
        about=f"{learn} paintings",
    )
    return figures_of(tested, calibration)


@benchmark("few paintings")
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure the panels."""
    learn, test = (12, 15) if options.quick else (LEARN, TEST)
    return test, measure(learn, test)


if __name__ == "__main__":
    main()
