"""An evaluation in a process of its own: to be measured, or killed."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from PIL import Image

from benchmarks._instant import InstantJudge
from scenewright.config.settings import load_settings
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.datasets.base import Item
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.model_setup import EvalModelOverrides
from scenewright.evals.runner.progress import Progress
from scenewright.evals.runner.runner import run_eval

PAINTER, JUDGE = "runner-painter", "runner-judge"
"""API keys at the lab: an account each."""
THINGS = ("ball", "dog", "table", "lamp", "house", "car", "tree", "boat", "person", "umbrella")
COLORS = ("red", "green", "blue", "yellow", "white", "black")
PREDICATES = ("on", "left of", "right of", "above", "near")
PHOTOS = 16


class NumberedScenes:
    """``n`` scenes of four things and four relations, each made when it is asked for."""

    name, source, licence = "numbered", "made for the benchmark", ""
    left_out: Mapping[str, int] = {}

    def __init__(self, n: int, photos: Path | None = None) -> None:
        """``photos``: a folder of pictures that items share as their originals."""
        self.n = n
        self.photos = photos
        self.fingerprint = f"numbered-1-{n}-{photos is not None}"

    def __iter__(self) -> Iterator[Item]:
        for at in range(self.n):
            photo = None if self.photos is None else str(self.photos / f"{at % PHOTOS}.png")
            yield Item(id=f"scene-{at}", scene=scene(at), image=photo, category=f"c{at % 5}")


def scene(number: int) -> SceneGraph:
    """The scene of that number: no two of the first million are equal."""
    rng = random.Random(f"runner {number}")
    names = rng.sample(THINGS, 4)
    things = [
        SceneObject(id=f"{name}.1", name=name, attributes=Attributes({"color": rng.choice(COLORS)}))
        for name in names
    ]
    ends = [(0, 1), (1, 2), (2, 3), (3, 0)]
    relations = [
        Relation(source=things[a].id, predicate=rng.choice(PREDICATES), target=things[b].id)
        for a, b in ends
    ]
    return SceneGraph(objects=tuple(things), relations=tuple(relations))


def lab_settings(folder: Path, url: str) -> None:
    """Write a settings file with a profile whose models are all in the lab at ``url``."""
    folder.mkdir(parents=True, exist_ok=True)
    accounts = "".join(
        f'[accounts.{name}]\nprovider = "openai"\nbase_url = "{url}/v1"\n'
        f'key_variable = "BENCH_{name.upper()}"\nconcurrent = 64\n'
        for name in ("painter", "looker", "steerer")
    )
    accounts += (
        f'[accounts.gemini]\nprovider = "gemini"\nbase_url = "{url}"\n'
        'key_variable = "BENCH_LOOKER"\n'
    )
    (folder / "scenewright.toml").write_text(
        f"{accounts}[profiles.lab]\n"
        'backend = { kind = "painter", model = "instant-image" }\n'
        'judges = ["steerer:judge-a"]\nreport_judges = ["looker:instant"]\n',
        encoding="utf-8",
    )


def against_the_lab(n: int) -> tuple[EvalConfig, NumberedScenes]:
    """The evaluation of the throughput and of the kills."""
    config = EvalConfig.model_validate(
        {
            "name": "runner",
            "dataset": {"name": "numbered"},
            "backends": ["lab"],
            "conditions": ["triplets"],
            "side_by_side": False,
            "concurrency": 32,
        }
    )
    return config, NumberedScenes(n)


def facts_only(n: int, photos: Path) -> tuple[EvalConfig, NumberedScenes, EvalModelOverrides]:
    """The evaluation of the memory: nothing is drawn, and a judge that takes no time."""
    photos.mkdir(parents=True, exist_ok=True)
    for at in range(PHOTOS):
        Image.new("RGB", (64, 64), (at * 15, 90, 40)).save(photos / f"{at}.png")
    config = EvalConfig.model_validate(
        {
            "name": "memory",
            "dataset": {"name": "numbered"},
            "conditions": ["originals"],
            "side_by_side": False,
            "panels": {"instant": {"judges": ["local:instant"]}},
        }
    )
    return (
        config,
        NumberedScenes(n, photos),
        EvalModelOverrides(judges={"local:instant": InstantJudge("r")}),
    )


def paid(n: int, asking: str, paintings: Path) -> EvalConfig:
    """Paintings of balanced complexity, asked about at list prices."""
    return EvalConfig.model_validate(
        {
            "name": f"paid-{asking}",
            "dataset": {"name": "miniature", "options": {"n": n, "out": str(paintings)}},
            "conditions": ["originals"],
            "panels": {"gemini": {"judges": ["gemini:gemini-2.5-flash-lite"]}},
            "asking": asking,
            # The protocol that asks in waves.
            "protocol": "grounded",
            "side_by_side": False,
        }
    )


def main() -> None:
    """Run one evaluation; the last line of the output is JSON with seconds and peak memory."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["lab", "memory", "waves", "together"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("n", type=int)
    given = parser.parse_args()
    os.chdir(given.folder)
    last = Progress()
    items: NumberedScenes | None = None

    def keep(now: Progress) -> None:
        nonlocal last
        last = now

    if given.what == "lab":
        config, items = against_the_lab(given.n)
        brought = EvalModelOverrides()
    elif given.what in ("waves", "together"):
        config, brought = (
            paid(given.n, given.what, given.folder / "paintings"),
            EvalModelOverrides(),
        )
    else:
        config, items, brought = facts_only(given.n, given.folder / "photos")
    began = time.perf_counter()
    asyncio.run(
        run_eval(
            config,
            "eval",
            settings=load_settings(),
            given=brought,
            dataset=items,
            on_progress=keep,
        )
    )
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "peak_mib": peak, "items": last.items}))


if __name__ == "__main__":
    main()
