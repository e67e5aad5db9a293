"""Do the hours that ``scenewright eval plan`` foresees come true?

``python -m benchmarks.plan [--quick]``. Each study is foreseen from a pilot on other scenes, which
are drawn with another seed, and then run; pilot and study have a process each, and both load what
they need.

- ``api``: pictures and judges behind an API (the lab, in a process of its own) that takes 200 ms
  for an answer and allows 600 requests a minute, 32 items at work;
- ``loop``: loops of up to three rounds, eight items at work; what draws, steers and reports is
  behind the same API without a limit;
- ``miniature``: the generator and a judge of this package on the processor, four items at work.

``predicted_over_measured.NAME`` divides seconds of the whole study; ``predicted.NAME`` has the
range that the plan gives, ``binding.NAME`` what holds the study up. ``load.NAME`` is the machine's
load when the study began: other work on it makes studies on the processor slower than foreseen.
``requests.NAME`` arrived at the lab, ``over_limit.NAME`` of them were refused for its limit.
``million.NAME.…`` is what the plan says of a million pictures on one machine: hours (with the
range), GiB on disk, requests and the judges' tokens by the pilot's figures, and ``judge_usd``,
these tokens at the price of gpt-4o-mini, pictures not counted; nothing of that size was run.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from benchmarks._lab_process import lab_process
from benchmarks._report import report
from scenewright.config.accounts import AccountSpec
from scenewright.config.settings import Settings, load_settings
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.runner.sizing.figures import Figures
from scenewright.evals.runner.sizing.pilot import pilot
from scenewright.evals.runner.sizing.plan import Plan, Workload
from scenewright.mock_providers.settings import LabSettings
from scenewright.providers.usage import PriceTable, Usage

LATENCY = 0.2
PER_MINUTE = 600
WINDOW = 4.0
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
    """How its figures are called."""
    fields: dict[str, Any]
    """Of its configuration."""
    items: int
    """Scenes that it draws."""
    piloted: int
    """Scenes of the pilot."""
    limited: bool = False
    """Whether the account has its limit."""


FULL = (
    Case("api", LAB | {"concurrency": 32}, 240, 12, limited=True),
    Case("loop", LAB | {"conditions": ["feedback_3"], "concurrency": 8}, 120, 24),
    Case("miniature", {"concurrency": 4}, 40, 12),
)
QUICK = (
    Case("api", LAB | {"concurrency": 16}, 40, 3, limited=True),
    Case("loop", LAB | {"conditions": ["feedback_3"], "concurrency": 4}, 16, 4),
    Case("miniature", {"concurrency": 2}, 6, 3),
)


def settings_of(case: Case, url: str) -> Settings:
    """One account at the lab, and a profile that draws and judges there."""
    spec: dict[str, Any] = {
        "provider": "openai",
        "base_url": f"{url}/v1",
        "key_variable": KEY,
        "concurrent": 64,
    }
    if case.limited:
        spec |= {"requests_per_minute": PER_MINUTE, "window": WINDOW}
    profile = {
        "backend": {"kind": "lab", "model": "instant-image"},
        "judges": ["lab:instant"],
    }
    return load_settings(accounts={"lab": AccountSpec(**spec)}, profiles={"lab": profile})


def config_of(case: Case, items: int, seed: int) -> EvalConfig:
    """The configuration with ``items`` scenes of the draw ``seed``."""
    dataset = {"name": "miniature", "options": {"n": items, "seed": seed}}
    size = (128, 128)
    return EvalConfig.model_validate(
        {"name": case.name, "dataset": dataset, "size": size, **case.fields}
    )


def piloted(case: Case, url: str) -> Figures:
    """Figures of the pilot's scenes."""
    config = config_of(case, case.piloted + 1, _PILOT)
    return asyncio.run(pilot(config, case.piloted, settings=settings_of(case, url)))


def studied(case: Case, url: str) -> float:
    """Seconds of the study. Raises ``RuntimeError`` if it is not whole."""
    config = config_of(case, case.items, _STUDY)
    with tempfile.TemporaryDirectory(prefix="bench-plan-") as folder:
        begun = time.perf_counter()
        results = asyncio.run(run_eval(config, folder, settings=settings_of(case, url)))
        seconds = time.perf_counter() - begun
        states = results.table("rounds", ["state"]).column("state").to_pylist()
    if states.count("done") < case.items:
        raise RuntimeError(f"{case.name}: only {states.count('done')} pictures were drawn")
    return seconds


def apart(work: Any, *arguments: Any) -> Any:
    """What ``work`` gives in a new process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, *arguments).result()


def measure(cases: tuple[Case, ...]) -> dict[str, Any]:
    """All figures."""
    os.environ[KEY] = SECRET
    figures: dict[str, Any] = {}
    for case in cases:
        limits: dict[str, Any] = {"latency": LATENCY}
        if case.limited:
            limits |= {"requests_per_minute": PER_MINUTE, "window": WINDOW}
        with lab_process(LabSettings(**limits)) as lab:
            found: Figures = apart(piloted, case, lab.url)
            load, before = os.getloadavg()[0], lab.account(SECRET)
            seconds: float = apart(studied, case, lab.url)
            after = lab.account(SECRET)
            settings = settings_of(case, lab.url)
        at_work = config_of(case, 1, 0).concurrency
        size = Plan(Workload(case.items, at_work), found, settings).size()
        figures |= {
            f"predicted_over_measured.{case.name}": size.seconds / seconds,
            f"predicted.{case.name}": {"mean": size.seconds, "low": size.least, "high": size.most},
            f"measured.{case.name}": seconds,
            f"binding.{case.name}": size.binding.name,
            f"load.{case.name}": load,
            f"predicted_requests.{case.name}": case.items * requests_of(found),
            f"requests.{case.name}": after.get("arrivals", 0) - before.get("arrivals", 0),
            f"over_limit.{case.name}": after.get("over_limit", 0) - before.get("over_limit", 0),
            **million(case.name, Plan(Workload(MILLION, at_work), found, settings)),
        }
        print(f"{case.name}: foreseen {size.seconds:.1f} s, took {seconds:.1f} s", flush=True)
    return figures


def requests_of(figures: Figures) -> float:
    """Requests that one cell takes."""
    return sum(use.uses.mean * use.calls for use in figures.models.values())


def million(name: str, plan: Plan) -> dict[str, Any]:
    """What a million pictures take by the same figures."""
    size = plan.size()
    told = f"million.{name}"
    judges = [u for u in plan.figures.models.values() if u.account and u.does != "draws"]
    asked = Usage(
        round(MILLION * sum(use.uses.mean * use.tokens_in for use in judges)),
        round(MILLION * sum(use.uses.mean * use.tokens_out for use in judges)),
    )
    disk = plan.bytes * (1 / 2**30)
    return {
        f"{told}.hours": {
            "mean": size.hours,
            "low": size.least / 3600,
            "high": size.most / 3600,
        },
        f"{told}.gib": {"mean": disk.mean, "low": disk.low, "high": disk.high},
        f"{told}.pictures": plan.pictures,
        f"{told}.requests": MILLION * requests_of(plan.figures),
        f"{told}.judge_tokens_in": asked.tokens_in,
        f"{told}.judge_tokens_out": asked.tokens_out,
        f"{told}.judge_usd": PriceTable.load().usd(*PRICED, asked) or 0.0,
        f"{told}.core_hours": MILLION * (plan.figures.cpu.mean if plan.figures.cpu else 0) / 3600,
        f"{told}.binding": size.binding.name,
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few scenes, writes nothing")
    given = parser.parse_args()
    cases = QUICK if given.quick else FULL
    report("plan", sum(case.items for case in cases), measure(cases), given.quick)


if __name__ == "__main__":
    main()
