"""A set of scene graphs built from painted photos, against the exact truth.

``python -m benchmarks.annotate [--quick] [--scenes 1000]``. Scenes of the miniature world are
painted; detections are the exact boxes of the truth. A panel of three, ``judge-a`` behind OpenAI's
wire format, ``judge-b`` behind Gemini's, ``judge-c`` behind Anthropic's, annotates them by
Algorithm 1 through the mock (as ``scenewright data annotate``), with all stages after it.
The models behind the mock ask themselves one question a pair, and leave out what boxes rule out: a
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
- ``clear_precision``: precision without pairs shifted so little that their direction is a matter of
  taste.

``.a``, ``.b``, ``.c`` are single models; ``majority`` (also without a name) keeps what more than
half of them say, ``union`` all, ``unanimous`` what all say; ``verified`` puts the union to a judge
who took no part (``judge-d``, ``consensus = "judges"``). ``gain`` is a consensus less single models
(all three pooled, or one). Objects are given, so their precision and recall are 1. Intervals are
bootstraps over photos.

Dollars: tokens as the mock counted them, pictures by the rule of the model in whose name they are
priced (``gpt-4.1-mini``, ``gemini-2.5-flash-lite``, ``claude-haiku-4-5``), at list prices, for
1,000 photos of 128 pixels, the calls about photos alone; ``photo_1024`` for photos of 1024 × 1024.
The paper's figures are of Gemini 1.5 Flash for the questions of an image, not for its annotation.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import time
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._harness import (
    Array,
    Option,
    benchmark,
    folder,
    prefixed,
    spread,
    totals,
    work_folder,
)
from benchmarks._mock import MockServer
from scenewright.agents.chat.model import account_chat
from scenewright.agents.judges.models import caps_of
from scenewright.agents.judges.pictures import image_tokens
from scenewright.core.formats.base import numbered
from scenewright.core.ports.vision import Detection
from scenewright.evals.annotation.config import CONVERSES, AnnotateConfig
from scenewright.evals.annotation.panel_queries import (
    TextModel,
    Triple,
    Voter,
    claims_of,
    replies_of,
)
from scenewright.evals.annotation.pipeline import Building
from scenewright.evals.datasets.base import DatasetSpec, Item
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.truth import Painting, Truth
from scenewright.miniature.world import CONTACTS
from scenewright.mock_providers import MockSettings
from scenewright.providers.caller import Caller
from scenewright.providers.usage import PriceTable, Usage
from scenewright.runs.model_factory.profiles import build_judge
from scenewright.tools.vision.extraction.one_stage import PictureParser

SIZES = (3, 3, 4, 4, 5, 6)
"""Objects of a painting, in turn."""
_SEEDS = "held-out/annotate"
"""Begins the seeds of these paintings; training seeds begin with a number."""


def painting_of(at: int) -> Painting:
    """Return painting number ``at``: the same each time."""
    return sample_painting(random.Random(f"{_SEEDS}/{at}"), n_objects=SIZES[at % len(SIZES)])


@lru_cache(maxsize=4096)
def truth_of(at: int) -> Truth:
    """Return what painting number ``at`` holds."""
    return painting_of(at).truth


class PaintedPhotos:
    """Dataset of ``count`` paintings as PNG files, with detections in the painted scene's order."""

    name, source, licence = "painted", "painted scenes of the miniature world", ""
    left_out: Mapping[str, int] = {}

    def __init__(self, folder: Path, count: int) -> None:
        """Paints what is not there yet."""
        self.count = count
        self.fingerprint = json.dumps([_SEEDS, SIZES, count])
        folder.mkdir(parents=True, exist_ok=True)
        self._files = [folder / f"{at:06d}.png" for at in range(count)]
        for at, file in enumerate(self._files):
            if not file.exists():
                painting_of(at).image.save(file)

    def __iter__(self) -> Iterator[Item]:
        for at, file in enumerate(self._files):
            truth = truth_of(at)
            found = []
            for item in truth.scene.objects:
                box = truth.boxes[item.id]
                left, top = float(box.left), float(box.top)
                found.append(Detection(item.name, (left, top, left + box.width, top + box.height)))
            yield Item(id=file.stem, image=str(file), detections=tuple(found))


def names_of(truth: Truth) -> dict[str, str]:
    """Return id of a detection, as the set numbers them → id in the painting."""
    ids = numbered(item.name for item in truth.scene.objects)
    return dict(zip(ids, (item.id for item in truth.scene.objects), strict=True))


def related_pairs(truth: Truth) -> set[frozenset[str]]:
    """Return pairs between which any relation of the world holds, from either end."""
    ids = [item.id for item in truth.scene.objects]
    return {
        frozenset((a, b))
        for a, b in itertools.combinations(ids, 2)
        if truth.relations_between(a, b) or truth.relations_between(b, a)
    }


MEASURES = {
    "precision": ("right", "named"),
    "recall": ("found", "related"),
    "asked_recall": ("asked_found", "asked"),
    "contact_precision": ("contact_right", "contact_named"),
    "clear_precision": ("clear_right", "clear_named"),
}
"""Measure → the counts whose ratio it is."""
PARTS = tuple(part for pair in MEASURES.values() for part in pair)


def score(triples: Sequence[Triple], truth: Truth) -> list[int]:
    """Return the counts :data:`PARTS` of one photo.

    Ids of ``triples`` are those of its detections.
    """
    ids = names_of(truth)
    mine = [(ids[s], p, ids[t]) for s, p, t in triples]
    true = [t for t in mine if t[1] in truth.relations_between(t[0], t[2])]
    related = related_pairs(truth)
    found = {frozenset((s, t)) for s, _, t in true}
    forms = {*mine, *((t, CONVERSES[p], s) for s, p, t in mine if p in CONVERSES)}
    asked = [(r.source, r.predicate, r.target) for r in truth.scene.relations]
    contacts = [sum(p in CONTACTS for _, p, _ in some) for some in (true, mine)]
    clear = [sum(not truth.is_ambiguous(s, t) for s, _, t in some) for some in (true, mine)]
    return [
        *(len(true), len(mine)),
        *(len(found & related), len(related)),
        *(sum(one in forms for one in asked), len(asked)),
        *contacts,
        *clear,
    ]


@dataclass
class Scores:
    """Counts of all photos, by annotator: a row of :data:`PARTS` a photo."""

    by: dict[str, list[list[int]]] = field(default_factory=lambda: defaultdict(list))

    def _values(self, names: Sequence[str], measure: str) -> Array:
        """Return a measure of all photos, then of resamples, of annotators taken together."""
        columns = [PARTS.index(part) for part in MEASURES[measure]]
        above, below = totals(sum(np.array(self.by[name]) for name in names)[:, columns]).T
        with np.errstate(all="ignore"):
            found: Array = above / below
        return found

    def figures(self) -> dict[str, dict[str, float]]:
        """Return ``MEASURE.NAME`` for ``precision``, ``recall`` and their kin."""
        found = {
            f"{measure}.{name}": self._values([name], measure)
            for name in self.by
            for measure in MEASURES
        }
        return {key: spread(values) for key, values in found.items() if np.isfinite(values[0])}

    def gains(self, ours: str, theirs: Mapping[str, Sequence[str]]) -> dict[str, dict[str, float]]:
        """Return ``gain.MEASURE.over_NAME`` of ``ours`` over the pooled annotators of each name."""
        return {
            f"gain.{measure}.over_{name}": spread(
                self._values([ours], measure) - self._values(group, measure)
            )
            for name, group in theirs.items()
            for measure in ("precision", "recall")
        }


PANEL = {
    "a": ("openai", "judge-a", "gpt-4.1-mini"),
    "b": ("gemini", "judge-b", "gemini-2.5-flash-lite"),
    "c": ("anthropic", "judge-c", "claude-haiku-4-5"),
}
"""Name → (wire format, model of the mock server, model in whose name it is priced)."""
LAB_RULES = {"openai": "tiles-85-170", "gemini": "tiles-258", "anthropic": "area-750"}
"""How the mock server counts pictures."""
THRESHOLDS = {"majority": 0.5, "union": 0.0, "unanimous": 0.99}
VERIFIERS = ("local:miniature/judge-d",)
PAPER = {"tokens_in": 940, "tokens_out": 780, "usd_per_1000": 0.3}
"""Of SGScore's questions, an image (Scene-Bench, appendix D.4)."""
SCENES = 1000
RARE = 10


def config_of(**changes: Any) -> AnnotateConfig:
    """Return how the set is built."""
    names = tuple(f"{provider}:{model}" for provider, model, _ in PANEL.values())
    given = {"dataset": DatasetSpec(name="folder"), "panel": names, "rare": RARE, **changes}
    return AnnotateConfig(name="painted", concurrency=6, **given)


async def measure(count: int, folder: Path) -> dict[str, Any]:
    """Return all figures of ``count`` scenes."""
    dataset = PaintedPhotos(folder / "photos", count)
    config = config_of()
    with ExitStack() as stack:
        voters, callers = [], []
        lab = stack.enter_context(MockServer(MockSettings()))
        for provider, model, _ in PANEL.values():
            url = f"{lab.url}/v1" if provider == "openai" else lab.url
            callers.append(Caller(provider, priced=False))
            chat = account_chat(provider, model, callers[-1], api_key="bench", base_url=url)
            parser = PictureParser(chat, caps_of(provider, model).preparation)
            voters.append(Voter(f"{provider}:{model}", parser))
        text = TextModel(voters[0].name, voters[0].parser.chat)
        building = Building(config, dataset, folder / "built", voters, text)
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
    """Return the second consensus, from the replies that are there."""
    config = config_of(
        consensus="judges", judges=VERIFIERS, rare=0, least_relations=0,
        synonyms=False, diversity=False, attributes=False,
    )  # fmt: skip
    judges = [build_judge(spec) for spec in VERIFIERS]
    building = Building(config, dataset, folder / "built", voters, judges=judges)
    try:
        await building.run(building.plan())
        for row in building.ledger.graphs():
            kept = [row.claims[at] for at in row.kept]
            triples = [(one["source"], one["relation"], one["target"]) for one in kept]
            scores.by["verified"].append(score(triples, truth_of(int(row.photo.id))))
    finally:
        building.close()


async def _scored(
    building: Building, folder: Path, dataset: PaintedPhotos, voters: Sequence[Voter]
) -> dict[str, Any]:
    scores = Scores()
    names = dict(zip((voter.name for voter in voters), PANEL, strict=True))
    for photo in building.ledger.photos():
        truth = truth_of(int(photo.id))
        replies = replies_of(building.ledger, photo, voters, 1)
        for voter, triples in replies.items():
            scores.by[names[voter]].append(score(triples, truth))
        claims = claims_of(replies, {}, CONVERSES)
        for name, threshold in THRESHOLDS.items():
            kept = [claim.triple for claim in claims if claim.share > threshold]
            scores.by[name].append(score(kept, truth))
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
    sums = {"usd_per_1000": 0.0, "usd_per_1000.photo_1024": 0.0}
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
            sums[key] += 1000 * usd / count
        figures[f"tokens_in.{name}"] = used["tokens_in"] / count
        figures[f"tokens_out.{name}"] = used["tokens_out"] / count
    return figures | sums | prefixed("paper.", PAPER)


@benchmark(
    "40 scenes",
    # One of each size.
    scenes=Option(SCENES, "scenes", least=len(SIZES)),
    work=folder("keep photos, replies and the set here"),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Build and score the set."""
    # The mock providers are a process of their own: neither must take the other's core.
    os.environ["OMP_NUM_THREADS"] = "1"
    count = 40 if options.quick else options.scenes
    with work_folder(options) as place:
        return count, asyncio.run(measure(count, place))


if __name__ == "__main__":
    main()
