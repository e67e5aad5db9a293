"""A set of scene graphs built from painted photos, against the exact truth.

``python -m benchmarks.annotate [--quick] [--scenes 1000]``. Scenes of the miniature world are
painted; detections are the exact boxes of the truth. A panel of three, ``judge-a`` behind OpenAI's
wire format, ``judge-b`` behind Gemini's, ``judge-c`` behind Anthropic's, annotates them by
Algorithm 1 through the lab (``scenewright data annotate`` does the same), with all stages after it.
The models behind the lab ask themselves one question a pair, and leave out what boxes rule out: a
direction against the middles, a contact of things that are apart.

- ``precision``: share of the named relations that hold in the painting (any predicate that
  ``Truth.relations_between`` gives), before rare predicates are dropped.
- ``recall``: share of the pairs of things between which any relation of the world holds, from
  either end, of which the graph has one that holds. A graph says one relation a pair, so that
  recall over all predicates that hold would measure wordiness.
- ``asked_recall``: share of the relations that the painted scene itself names (at most one a pair,
  ``near`` among them) that the graph has in these words or from the other end. Models that name
  another true relation of the pair miss it.
- ``contact_precision``: precision of on, under, holding, wearing, riding, inside alone.
- ``clear_precision``: precision without pairs that stand so diagonally that their direction is a
  matter of taste.

``.a``, ``.b``, ``.c`` are single models; ``majority`` (also without a name) keeps what more than
half of them say, ``union`` all, ``unanimous`` what all say; ``verified`` puts the union to a judge
who took no part (``judge-d``, ``consensus = "judges"``). ``gain`` is a consensus less single models
(all three pooled, or one). Objects are given, so their precision and recall are 1. Intervals are
bootstraps over photos.

Dollars: tokens as the lab counted them, pictures by the rule of the model in whose name they are
priced (``gpt-4.1-mini``, ``gemini-2.5-flash-lite``, ``claude-haiku-4-5``), at list prices, for
1,000 photos of 128 pixels, the calls about photos alone; ``photo_1024`` for photos of 1024 × 1024.
The paper's figures are of Gemini 1.5 Flash for the questions of an image, not for its annotation.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks._annotate_figures import Scores, score
from benchmarks._annotate_scenes import SIZES, PaintedPhotos, truth_of
from benchmarks._lab_process import lab_process
from benchmarks._pool import Progress
from benchmarks._report import report
from scenewright.agents.chat.accounts import account_chat
from scenewright.agents.judges.models import caps_of
from scenewright.agents.judges.pictures import image_tokens
from scenewright.evals.annotation.config import CONVERSES, AnnotateConfig
from scenewright.evals.annotation.panel_queries import replies_of
from scenewright.evals.annotation.pipeline import Building
from scenewright.evals.annotation.voters import TextModel, Voter
from scenewright.evals.annotation.votes import claims_of
from scenewright.evals.datasets.base import DatasetSpec
from scenewright.mock_providers import LabSettings
from scenewright.providers.caller import Caller
from scenewright.providers.usage import PriceTable, Usage
from scenewright.runs.model_factory.profiles import judge_of
from scenewright.tools.vision.extraction.one_stage import PictureParser

PANEL = {
    "a": ("openai", "judge-a", "gpt-4.1-mini"),
    "b": ("gemini", "judge-b", "gemini-2.5-flash-lite"),
    "c": ("anthropic", "judge-c", "claude-haiku-4-5"),
}
"""Name → (wire format, model of the lab, model in whose name it is priced)."""
LAB_RULES = {"openai": "tiles-85-170", "gemini": "tiles-258", "anthropic": "area-750"}
"""How the lab counts pictures."""
THRESHOLDS = {"majority": 0.5, "union": 0.0, "unanimous": 0.99}
VERIFIERS = ("local:miniature/judge-d",)
PAPER = {"tokens_in": 940, "tokens_out": 780, "usd_per_1000": 0.3}
"""Of SGScore's questions, an image (Scene-Bench, appendix D.4)."""
SCENES = 1000
RARE = 10


def config_of(**changes: Any) -> AnnotateConfig:
    """How the set is built."""
    names = tuple(f"{provider}:{model}" for provider, model, _ in PANEL.values())
    given = {"dataset": DatasetSpec(name="folder"), "panel": names, "rare": RARE, **changes}
    return AnnotateConfig(name="painted", concurrency=6, **given)


async def measure(count: int, folder: Path) -> dict[str, Any]:
    """All figures of ``count`` scenes."""
    dataset = PaintedPhotos(folder / "photos", count)
    config = config_of()
    with ExitStack() as stack:
        voters, callers = [], []
        lab = stack.enter_context(lab_process(LabSettings()))
        for provider, model, _ in PANEL.values():
            url = f"{lab.url}/v1" if provider == "openai" else lab.url
            callers.append(Caller(provider, priced=False))
            chat = account_chat(provider, model, callers[-1], api_key="bench", base_url=url)
            parser = PictureParser(chat, caps_of(provider, model).preparation)
            voters.append(Voter(f"{provider}:{model}", parser))
        text = TextModel(voters[0].name, voters[0].parser.chat)
        progress = Progress(count * len(voters), sys.stderr)

        def told(stage: str, done: int, of: int | None) -> None:
            if stage == "annotate":
                progress.step()

        building = Building(config, dataset, folder / "built", voters, text, told=told)
        try:
            plan = building.plan()
            begun = time.monotonic()
            made = await building.run(plan)
            seconds = time.monotonic() - begun
            if made.problems:
                raise RuntimeError(f"failed in a benchmark without faults: {made.problems[0]}")
            figures = _spent(building, count)
            figures |= await _scored(building, folder, dataset, voters)
        finally:
            building.close()
            for voter in voters:
                await voter.parser.chat.aclose()  # type: ignore[attr-defined]
            for caller in callers:
                await caller.aclose()
    figures["graphs"] = made.graphs
    figures["relations_per_graph"] = made.statistics["relations_per_graph"]
    figures["unclassified"] = made.statistics["classes"].get("unclassified", 0)
    figures["rare_predicates_dropped"] = len(made.dropped)
    figures["photos_per_second"] = count / seconds
    return figures


async def _verified(
    folder: Path, dataset: PaintedPhotos, voters: Sequence[Voter], scores: Scores
) -> None:
    """The second consensus, from the replies that are there."""
    config = config_of(
        consensus="judges", judges=VERIFIERS, rare=0, least_relations=0,
        synonyms=False, diversity=False, attributes=False,
    )  # fmt: skip
    judges = [judge_of(spec) for spec in VERIFIERS]
    building = Building(config, dataset, folder / "built", voters, judges=judges)
    try:
        await building.run(building.plan())
        for row in building.ledger.graphs():
            kept = [row.claims[at] for at in row.kept]
            triples = [(one["source"], one["relation"], one["target"]) for one in kept]
            scores.add("verified", score(triples, truth_of(int(row.photo.id))))
    finally:
        building.close()


async def _scored(
    building: Building, folder: Path, dataset: PaintedPhotos, voters: Sequence[Voter]
) -> dict[str, Any]:
    scores = Scores(dataset.count)
    names = dict(zip((voter.name for voter in voters), PANEL, strict=True))
    for photo in building.ledger.photos():
        truth = truth_of(int(photo.id))
        replies = replies_of(building.ledger, photo, voters, 1)
        for voter, triples in replies.items():
            scores.add(names[voter], score(triples, truth))
        claims = claims_of(replies, {}, CONVERSES)
        for name, threshold in THRESHOLDS.items():
            kept = [claim.triple for claim in claims if claim.share > threshold]
            scores.add(name, score(kept, truth))
    await _verified(folder, dataset, voters, scores)
    figures: dict[str, Any] = dict(scores.figures())
    singles = {one: (one,) for one in PANEL}
    for ours in ("majority", "unanimous", "union", "verified"):
        for key, gain in scores.gains(ours, {"single": tuple(PANEL), **singles}).items():
            figures[f"{ours}.{key}"] = gain
    for measure in ("precision", "recall"):
        figures[measure] = figures[f"{measure}.majority"]
    return figures


def _spent(building: Building, count: int) -> dict[str, Any]:
    prices = PriceTable.load()
    figures: dict[str, Any] = {}
    totals = {"usd_per_1000": 0.0, "usd_per_1000.photo_1024": 0.0}
    spent = building.ledger.spent()
    for name, (provider, model, named) in PANEL.items():
        used = spent["photo", f"{provider}:{model}"]
        rule = caps_of(provider, named).image_tokens
        words = used["tokens_in"] - count * image_tokens(LAB_RULES[provider], 128, 128)
        for key, side in (("usd_per_1000", 128), ("usd_per_1000.photo_1024", 1024)):
            tokens = Usage(
                int(words + count * image_tokens(rule, side, side)), int(used["tokens_out"])
            )
            usd = prices.usd(provider, named, tokens)
            if usd is None:
                raise RuntimeError(f"no price of {provider}:{named}")
            figures[f"{key}.{named}"] = 1000 * usd / count
            totals[key] += 1000 * usd / count
        figures[f"tokens_in.{name}"] = used["tokens_in"] / count
        figures[f"tokens_out.{name}"] = used["tokens_out"] / count
    return figures | totals | {f"paper.{key}": value for key, value in PAPER.items()}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="40 scenes, writes nothing")
    parser.add_argument("--scenes", type=int, default=SCENES, help="default: %(default)s")
    parser.add_argument("--folder", type=Path, help="keep photos, replies and the set here")
    given = parser.parse_args()
    if given.scenes < len(SIZES):
        parser.error(f"--scenes must be {len(SIZES)} or more: one of each size")
    # The lab is a process of its own: neither must take the other's core.
    os.environ["OMP_NUM_THREADS"] = "1"
    count = 40 if given.quick else given.scenes
    with tempfile.TemporaryDirectory() as spare:
        figures = asyncio.run(measure(count, given.folder or Path(spare)))
    report("annotate", count, figures, given.quick)


if __name__ == "__main__":
    main()
