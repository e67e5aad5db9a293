"""Do the hours that ``scenewright eval plan`` foresees come true?

``python -m benchmarks.plan [--quick]``. Each study is foreseen from a pilot on other scenes, which
are drawn with another seed, and then run; pilot and study have a process each, and both load what
they need.

- ``api``: pictures and judges behind an API (the mock, in a process of its own) that takes 200 ms
  for an answer and allows 600 requests a minute, 32 items at work;
- ``loop``: loops of up to three rounds, eight items at work; what draws, steers and reports is
  behind the same API without a limit;
- ``miniature``: the generator and a judge of this package on the processor, four items at work.

``predicted_over_measured.NAME`` divides seconds of the whole study; ``predicted.NAME`` has the
range that the plan gives, ``binding.NAME`` what holds the study up. ``load.NAME`` is the machine's
load when the study began: other work on it makes studies on the processor slower than foreseen.
``requests.NAME`` arrived at the mock, ``over_limit.NAME`` of them were refused for its limit.
``million.NAME.…`` is what the plan says of a million pictures on one machine: hours (with the
range), GiB on disk, requests and the judges' tokens by the pilot's figures, and ``judge_usd``,
these tokens at the price of gpt-4o-mini, pictures not counted; nothing of that size was run.
"""

from __future__ import annotations

import asyncio
import os
import time
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._harness import benchmark, prefixed, work_folder
from benchmarks._mock import MockServer, account, apart, lab_profile
from scenewright.config.accounts import AccountSpec
from scenewright.config.settings import Settings, load_settings
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.measuring import pilot
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.runner.time_forecast import Figures, Plan
from scenewright.mock_providers.settings import MockSettings
from scenewright.providers.usage import PriceTable, Usage

LATENCY = 0.2
LIMITS: dict[str, Any] = {"requests_per_minute": 600, "window": 4.0}
KEY, SECRET = "BENCH_PLAN_KEY", "plan"
MILLION = 1_000_000
PRICED = ("openai", "gpt-4o-mini")
_STUDY, _PILOT = 0, 1
# What is timed here is the traffic: the judge that steers may report too.
LAB: dict[str, Any] = {
    "backends": ["lab"],
    "panels": {"own": {"judges": ["lab:instant"]}},
    "allow_loop_judges": True,
}


@dataclass(frozen=True, slots=True)
class Case:
    """One study."""

    name: str
    fields: dict[str, Any]
    """Of its configuration."""
    items: int
    """Scenes that it draws."""
    piloted: int
    """Scenes of the pilot."""
    limits: dict[str, Any]
    """Limits of the account."""

    def settings(self, url: str) -> Settings:
        """Return an account at the mock providers, and a profile that draws and judges there."""
        spec = account(url, KEY, concurrent=64, **self.limits)
        return load_settings(
            accounts={"lab": AccountSpec(**spec)}, profiles={"lab": lab_profile("lab:instant")}
        )

    def config(self, items: int, seed: int) -> EvalConfig:
        """Return the configuration with ``items`` scenes of the draw ``seed``."""
        dataset = {"name": "miniature", "options": {"n": items, "seed": seed}}
        return EvalConfig.model_validate(
            {"name": self.name, "dataset": dataset, "size": (128, 128), **self.fields}
        )


LOOP = LAB | {"conditions": ["feedback_3"]}
FULL = (
    Case("api", LAB | {"concurrency": 32}, 240, 12, LIMITS),
    Case("loop", LOOP | {"concurrency": 8}, 120, 24, {}),
    Case("miniature", {"concurrency": 4}, 40, 12, {}),
)
QUICK = (
    Case("api", LAB | {"concurrency": 16}, 40, 3, LIMITS),
    Case("loop", LOOP | {"concurrency": 4}, 16, 4, {}),
    Case("miniature", {"concurrency": 2}, 6, 3, {}),
)


def piloted(case: Case, url: str) -> Figures:
    """Return the figures of the pilot's scenes."""
    config = case.config(case.piloted + 1, _PILOT)
    return asyncio.run(pilot(config, case.piloted, settings=case.settings(url)))


def studied(case: Case, url: str, folder: Path) -> float:
    """Return the seconds of the study; raises ``RuntimeError`` if it is not whole."""
    config = case.config(case.items, _STUDY)
    begun = time.perf_counter()
    results = asyncio.run(run_eval(config, folder, settings=case.settings(url)))
    seconds = time.perf_counter() - begun
    states = results.table("rounds", ["state"]).column("state").to_pylist()
    if states.count("done") < case.items:
        raise RuntimeError(f"{case.name}: only {states.count('done')} pictures were drawn")
    return seconds


def measure(case: Case, folder: Path) -> dict[str, Any]:
    """Return the figures of one study, by name."""
    os.environ[KEY] = SECRET
    with MockServer(MockSettings(latency=LATENCY, **case.limits)) as lab:
        found: Figures = apart(piloted, case, lab.url)
        load, before = os.getloadavg()[0], lab.account(SECRET)
        seconds: float = apart(studied, case, lab.url, folder / case.name)
        after = lab.account(SECRET)
        settings = case.settings(lab.url)
    at_work = case.config(1, 0).concurrency
    size = Plan(case.items, at_work, found, settings).size()
    print(f"{case.name}: foreseen {size.seconds:.1f} s, took {seconds:.1f} s", flush=True)
    figures = {
        "predicted_over_measured": size.seconds / seconds,
        "predicted": {"mean": size.seconds, "low": size.least, "high": size.most},
        "measured": seconds,
        "binding": size.binding.name,
        "load": load,
        "predicted_requests": case.items * requests_of(found),
        "requests": after.get("arrivals", 0) - before.get("arrivals", 0),
        "over_limit": after.get("over_limit", 0) - before.get("over_limit", 0),
    }
    named = {f"{key}.{case.name}": value for key, value in figures.items()}
    whole = million(Plan(MILLION, at_work, found, settings))
    return named | prefixed(f"million.{case.name}.", whole)


def requests_of(figures: Figures) -> float:
    """Return the requests that one cell takes."""
    return sum(use.uses.mean * use.calls for use in figures.models.values())


def million(plan: Plan) -> dict[str, Any]:
    """Return what a million pictures take by the same figures."""
    size = plan.size()
    judges = [u for u in plan.figures.models.values() if u.account and u.does != "draws"]
    asked = Usage(
        round(MILLION * sum(use.uses.mean * use.tokens_in for use in judges)),
        round(MILLION * sum(use.uses.mean * use.tokens_out for use in judges)),
    )
    disk = plan.bytes * (1 / 2**30)
    return {
        "hours": {"mean": size.hours, "low": size.least / 3600, "high": size.most / 3600},
        "gib": {"mean": disk.mean, "low": disk.low, "high": disk.high},
        "pictures": plan.pictures,
        "requests": MILLION * requests_of(plan.figures),
        "judge_tokens_in": asked.tokens_in,
        "judge_tokens_out": asked.tokens_out,
        "judge_usd": PriceTable.load().usd(*PRICED, asked) or 0.0,
        "core_hours": MILLION * (plan.figures.cpu.mean if plan.figures.cpu else 0) / 3600,
        "binding": size.binding.name,
    }


@benchmark("few scenes")
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure all studies."""
    cases = QUICK if options.quick else FULL
    figures: dict[str, Any] = {}
    with work_folder(options) as folder:
        for case in cases:
            figures |= measure(case, folder)
    return sum(case.items for case in cases), figures


if __name__ == "__main__":
    main()
