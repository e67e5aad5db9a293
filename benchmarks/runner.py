"""The runner of evaluations: how fast, how much memory, and what a kill costs.

``python -m benchmarks.runner [--quick]``

- ``items_per_second``: 2,000 items, each drawn and asked about by a lab in another process, whose
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
  an undisturbed evaluation; ``repeated`` counts calls that the lab's models executed more than the
  undisturbed one needed. ``replayed``: calls that were under way at a kill, sent again and answered
  by the lab under their key without being executed again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai

from benchmarks._lab_process import LabProcess, lab_process
from benchmarks._report import interval, report
from benchmarks._runner_process import JUDGE, PAINTER, lab_settings, scene
from scenewright.agents.composers.rules import TripletComposer
from scenewright.agents.judges.sheet import TOOL, sheet_of
from scenewright.core.questions import facts_of
from scenewright.evals.store.results import Results
from scenewright.mock_providers.settings import LabSettings

AT_ONCE = 32
PAPER = {"input": 940, "output": 780, "usd": 0.0003}
"""What Scene-Bench tells of 5,000 images with Gemini 1.5 Flash (appendix D.4)."""
KEYS = {"BENCH_PAINTER": PAINTER, "BENCH_LOOKER": JUDGE, "BENCH_STEERER": "runner-loop"}


def launched(what: str, folder: Path, n: int) -> subprocess.Popen[str]:
    """An evaluation in a new process."""
    folder.mkdir(parents=True, exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks._runner_process", what, str(folder.resolve()), str(n)],
        env={**os.environ, **KEYS, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What a process tells at its end; ``RuntimeError`` if it fails."""
    out, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"the evaluation ended with {process.returncode}")
    found: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    return found


async def scripted(url: str, n: int) -> float:
    """Seconds that a plain script takes for the same calls."""
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
                data = (drawn.data or [])[0].b64_json
                await _sheet(looker, data, list(facts_of(asked, "scene-bench")))

        begun = time.perf_counter()
        await asyncio.gather(*(one(number) for number in range(n)))
        return time.perf_counter() - begun


async def _sheet(client: openai.AsyncOpenAI, data: Any, facts: Any) -> dict[str, bool]:
    sheet = sheet_of(facts)
    reply = await client.chat.completions.create(
        model="instant",
        messages=[
            {"role": "system", "content": sheet.instructions},
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
                    {"type": "text", "text": sheet.text},
                ],
            },
        ],
        tools=[{"type": "function", "function": {"name": TOOL, "parameters": sheet.schema}}],
        tool_choice={"type": "function", "function": {"name": TOOL}},
    )
    calls: Any = reply.choices[0].message.tool_calls or []
    answers = json.loads(calls[0].function.arguments)["answers"]
    by_label = {
        f.id: dict(zip(sheet.labels[i], f.options, strict=True)) for i, f in enumerate(facts)
    }
    return {
        fact.id: by_label[fact.id][given["a"]] == fact.expected
        for fact, given in zip(facts, answers, strict=True)
    }


@contextmanager
def new_lab(latency: float = 0.0) -> Iterator[LabProcess]:
    """A lab without limits."""
    settings = LabSettings(requests_per_minute=10_000_000, latency=latency)
    with lab_process(settings) as lab:
        yield lab


def throughput(folder: Path, n: int, turns: int) -> dict[str, Any]:
    """The runner against the plain script, in turns."""
    ours: list[float] = []
    plain: list[float] = []
    with new_lab() as lab:
        for turn in range(turns):
            place = folder / f"turn-{turn}"
            lab_settings(place, lab.url)
            ours.append(finished(launched("lab", place, n))["seconds"])
            plain.append(asyncio.run(scripted(lab.url, n)))
    return {
        "items_per_second": interval([n / seconds for seconds in ours]),
        "script_items_per_second": interval([n / seconds for seconds in plain]),
        "ratio": interval([a / b for a, b in zip(ours, plain, strict=True)]),
    }


def memory(folder: Path, few: int, many: int) -> dict[str, float]:
    """Peak memory for few and for many items."""
    found = {n: finished(launched("memory", folder / str(n), n)) for n in (few, many)}
    return {
        f"mib_at_{few}": found[few]["peak_mib"],
        f"mib_at_{many}": found[many]["peak_mib"],
        "facts_only_items_per_second": many / found[many]["seconds"],
    }


def cost(folder: Path, n: int) -> dict[str, Any]:
    """Tokens and dollars an image by the provider's rules and list prices, and the paper's."""
    figures: dict[str, Any] = {}
    with new_lab() as lab:
        for asking in ("waves", "together"):
            lab_settings(folder / asking, lab.url)
            finished(launched(asking, folder / asking, n))
            spent: dict[str, list[float]] = {}
            for row in Results(folder / asking / "eval").rows("answers"):
                sums = spent.setdefault(row["item"], [0.0, 0.0, 0.0])
                for at, name in enumerate(("tokens_in", "tokens_out", "usd")):
                    sums[at] += row[name]
            for at, name in enumerate(("input", "output", "usd")):
                figures[f"{asking}.{name}_per_image"] = interval([s[at] for s in spent.values()])
    return {**figures, **{f"paper.{name}_per_image": value for name, value in PAPER.items()}}


def killed(folder: Path, n: int, kills: int, seed: int) -> dict[str, float]:
    """An evaluation under kills, against an undisturbed one."""
    rng = random.Random(seed)
    with new_lab(latency=0.1) as lab:
        lab_settings(folder / "killed", lab.url)
        done = 0
        while done < kills:
            process = launched("lab", folder / "killed", n)
            try:
                # Imports take a while: a kill is to fall into the work.
                process.wait(rng.uniform(3.5, 7.0))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.communicate()
                done += 1
                continue
            finished(process)
            break
        finished(launched("lab", folder / "killed", n))
        disturbed = {key: lab.account(key) for key in (PAINTER, JUDGE)}
    with new_lab() as lab:
        lab_settings(folder / "calm", lab.url)
        finished(launched("lab", folder / "calm", n))
        calm = {key: lab.account(key) for key in (PAINTER, JUDGE)}
    return {
        "kills": done,
        "lost": len(_verdicts(folder / "calm").items() - _verdicts(folder / "killed").items()),
        "repeated": sum(disturbed[key]["executed"] - calm[key]["executed"] for key in calm),
        "replayed": sum(disturbed[key]["replayed"] for key in disturbed),
        "calls": sum(calm[key]["executed"] for key in calm),
    }


def _verdicts(folder: Path) -> dict[str, tuple[Any, ...]]:
    found: dict[str, list[Any]] = {}
    for row in Results(folder / "eval").rows("verdicts", ["item", "fact", "state", "probability"]):
        found.setdefault(row["item"], []).append((row["fact"], row["state"], row["probability"]))
    return {item: tuple(sorted(rows)) for item, rows in found.items()}


def main() -> None:
    """Measure, print, and in full mode write ``results/runner.json``."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="60 items, 300 at most, 2 kills")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    n, turns = (60, 1) if given.quick else (2000, 3)
    few, many = (50, 300) if given.quick else (200, 20_000)
    with tempfile.TemporaryDirectory(prefix="scenewright-runner-") as name:
        folder = Path(name)
        counted: dict[str, Any] = memory(folder / "memory", few, many)
        counted |= cost(folder / "cost", 12 if given.quick else 90)
        counted |= killed(
            folder / "kills", 100 if given.quick else 2000, 2 if given.quick else 20, given.seed
        )
        figures = throughput(folder / "throughput", n, turns) | counted
    report("runner", n, figures, given.quick)


if __name__ == "__main__":
    main()
