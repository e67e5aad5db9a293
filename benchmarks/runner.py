"""The runner of evaluations: how fast, how much memory, and what a kill costs.

``python -m benchmarks.runner [--quick]``

- ``items_per_second``: 2,000 items, each drawn and asked about by a mock in another process, whose
  models take no time; ``script_items_per_second``: a plain script that makes the same calls with
  the provider's SDK, 32 at once, and keeps nothing; ``ratio``: the runner's seconds over the
  script's, in turns of the same run.
- ``mib_at_200``, ``mib_at_20000``: peak memory of a process that puts facts of so many items to a
  judge that takes no time; nothing is drawn.
- ``waves.*``, ``together.*``: tokens and dollars an image, of paintings of balanced levels. Their
  facts go to a judge with Gemini's wire format, token rules and list prices (2.5 Flash-Lite), in
  two waves or all at once; ``paper.*``: what the paper tells of Gemini 1.5 Flash.
- ``kills``, ``lost``, ``repeated``: an evaluation is killed (SIGKILL) at random moments and started
  again until it ends. ``lost`` counts items without a score, or whose verdicts differ from those of
  an undisturbed evaluation; ``repeated`` counts calls that the mock's models executed more than the
  undisturbed one needed. ``replayed``: calls that were under way at a kill, sent again and answered
  by the mock server under their key without being executed again.
"""

from __future__ import annotations

import asyncio
import random
import time
from argparse import Namespace
from collections import defaultdict
from pathlib import Path
from typing import Any

import openai

from benchmarks._evaluation import EVAL, Work, child, finished, scene
from benchmarks._harness import Option, benchmark, interval, work_folder
from benchmarks._mock import MockServer, account, lab_profile, plain_answers, write_settings
from scenewright.agents.composers.rules import TripletComposer
from scenewright.core.questions import facts_of
from scenewright.evals.store.results import Results
from scenewright.mock_providers.settings import MockSettings

AT_ONCE = 32
PAPER = {"input": 940, "output": 780, "usd": 0.0003}
"""Scene-Bench's figures of 5,000 images with Gemini 1.5 Flash (appendix D.4)."""
PAINTER, JUDGE = "runner-painter", "runner-judge"
KEYS = {"BENCH_PAINTER": PAINTER, "BENCH_LOOKER": JUDGE, "BENCH_STEERER": "runner-loop"}
DRAWN = {"backends": ["lab"], "conditions": ["triplets"], "concurrency": AT_ONCE}
"""The evaluation of the throughput and of the kills."""


def settings(url: str) -> dict[str, Any]:
    """Return settings with a profile whose models are all at the mock providers."""
    names = ("painter", "looker", "steerer")
    accounts = {name: account(url, f"BENCH_{name.upper()}", concurrent=64) for name in names}
    accounts["gemini"] = account(url, "BENCH_LOOKER", "gemini")
    drawn = {"backend": {"kind": "painter", "model": "instant-image"}}
    profile = lab_profile("steerer:judge-a", report_judges=["looker:instant"], **drawn)
    return {"accounts": accounts, "profiles": {"lab": profile}}


def ran(folder: Path, url: str, work: Work) -> dict[str, Any]:
    """Run an evaluation in a new process and return what it says at its end.

    ``url``: address of the mock providers; empty: no model is called.
    """
    if url:
        write_settings(folder, settings(url))
    process = child(folder, work, KEYS)
    process.start()
    return finished(folder, process)


def new_lab(latency: float = 0.0) -> MockServer:
    """Return mock providers without limits."""
    return MockServer(MockSettings(requests_per_minute=10_000_000, latency=latency))


async def scripted(url: str, n: int) -> float:
    """Return the seconds that a plain script takes for the same calls."""
    composer, turn = TripletComposer(), asyncio.Semaphore(AT_ONCE)
    async with (
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="script-paints") as painter,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="script-looks") as looker,
    ):

        async def one(number: int) -> None:
            async with turn:
                asked = scene(number)
                drawn = await painter.images.generate(
                    model="instant-image", prompt=await composer.compose(asked, number)
                )
                data = str((drawn.data or [])[0].b64_json)
                facts = facts_of(asked, "scene-bench")
                assert len(await plain_answers(looker, "instant", data, facts)) == len(facts)

        begun = time.perf_counter()
        await asyncio.gather(*(one(number) for number in range(n)))
        return time.perf_counter() - begun


def throughput(folder: Path, n: int, turns: int) -> dict[str, Any]:
    """Measure the runner against the plain script, in turns."""
    ours: list[float] = []
    plain: list[float] = []
    with new_lab() as lab:
        for turn in range(turns):
            ours.append(ran(folder / f"turn-{turn}", lab.url, Work(DRAWN, n))["seconds"])
            plain.append(asyncio.run(scripted(lab.url, n)))
    return {
        "items_per_second": interval([n / seconds for seconds in ours]),
        "script_items_per_second": interval([n / seconds for seconds in plain]),
        "ratio": interval([a / b for a, b in zip(ours, plain, strict=True)]),
    }


def memory(folder: Path, few: int, many: int) -> dict[str, float]:
    """Measure the peak memory for few and for many items, of which nothing is drawn."""
    judged = {"conditions": ["originals"], "panels": {"instant": {"judges": ["local:instant"]}}}
    found = {
        n: ran(folder / str(n), "", Work(judged, n, photos=True, models="instant"))
        for n in (few, many)
    }
    return {
        f"mib_at_{few}": found[few]["peak_mib"],
        f"mib_at_{many}": found[many]["peak_mib"],
        "facts_only_items_per_second": many / found[many]["seconds"],
    }


def cost(folder: Path, n: int) -> dict[str, Any]:
    """Count tokens and dollars an image by the provider's rules and list prices."""
    figures: dict[str, Any] = {}
    columns = {"input": "tokens_in", "output": "tokens_out", "usd": "usd"}
    with new_lab() as lab:
        for asking in ("waves", "together"):
            place = folder / asking
            options = {"n": n, "out": str(place.resolve() / "paintings")}
            config = {
                "dataset": {"name": "miniature", "options": options},
                "conditions": ["originals"],
                "panels": {"gemini": {"judges": ["gemini:gemini-2.5-flash-lite"]}},
                "asking": asking,
                # The protocol that asks in waves.
                "protocol": "grounded",
            }
            ran(place, lab.url, Work(config))
            spent: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(columns, 0.0))
            for row in Results(place / EVAL).rows("answers"):
                for name, column in columns.items():
                    spent[row["item"]][name] += row[column]
            for name in columns:
                key = f"{asking}.{name}_per_image"
                figures[key] = interval([sums[name] for sums in spent.values()])
    return {**figures, **{f"paper.{name}_per_image": value for name, value in PAPER.items()}}


def killed(folder: Path, n: int, kills: int, seed: int) -> dict[str, float]:
    """Measure an evaluation under kills against an undisturbed one."""
    rng = random.Random(seed)
    with new_lab(latency=0.1) as lab:
        write_settings(folder / "killed", settings(lab.url))
        process = child(folder / "killed", Work(DRAWN, n), KEYS)
        process.start()
        done = 0
        while done < kills:
            # Imports take a while: a kill is to fall into the work.
            until = time.monotonic() + rng.uniform(3.5, 7.0)
            while process.poll() is None and time.monotonic() < until:
                time.sleep(0.02)
            if process.poll() is not None:
                break
            process.kill()
            done += 1
            process.start()
        finished(folder / "killed", process)
        accounts = (PAINTER, JUDGE)
        executed, replayed = (lab.count(what, accounts) for what in ("executed", "replayed"))
    with new_lab() as lab:
        ran(folder / "calm", lab.url, Work(DRAWN, n))
        calls = lab.count("executed", accounts)
    return {
        "kills": done,
        "lost": len(_verdicts(folder / "calm").items() - _verdicts(folder / "killed").items()),
        "repeated": executed - calls,
        "replayed": replayed,
        "calls": calls,
    }


def _verdicts(folder: Path) -> dict[str, tuple[Any, ...]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for row in Results(folder / EVAL).rows("verdicts", ["item", "fact", "state", "probability"]):
        found[row["item"]].append((row["fact"], row["state"], row["probability"]))
    return {item: tuple(sorted(rows)) for item, rows in found.items()}


@benchmark("60 items, 300 at most, 2 kills", seed=Option(0, "of the kills"))
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure all parts."""
    quick = options.quick
    n, turns = (60, 1) if quick else (2000, 3)
    few, many = (50, 300) if quick else (200, 20_000)
    killing = (100, 2) if quick else (2000, 20)
    with work_folder(options) as folder:
        counted: dict[str, Any] = memory(folder / "memory", few, many)
        counted |= cost(folder / "cost", 12 if quick else 90)
        counted |= killed(folder / "kills", *killing, options.seed)
        return n, throughput(folder / "throughput", n, turns) | counted


if __name__ == "__main__":
    main()
