"""Seconds that matching scene graphs takes, beside the same definition written plainly.

``python -m benchmarks.matching [--quick] [--model FOLDER]``. Made-up scenes of 5, 10 and 20
objects, one and a half times as many relations and up to four attributes an object, each matched
with a damaged copy of itself (:mod:`benchmarks._matching_scenes`).

- ``seconds_per_1000_pairs``: of 10 objects and 15 relations by the lexical similarity, the
  default where there is no sentence model.
- ``seconds_per_1000_pairs.SIMILARITY.N``: :func:`match_many` on one process, texts compared
  included, nothing remembered from before. ``sentences`` is the sentence model, where one is on
  this machine: ``first`` encodes every text, ``kept`` finds the vectors in the store.
- ``ratio.SIMILARITY.N``: seconds of the plain Python and scipy implementation
  (:mod:`benchmarks._matching_plain`) over ours, on the same pairs in the same run; it remembers
  the likeness of texts too.
- ``largest_difference``: between the two in the total likeness of a pair of graphs.
- ``otherwise_directed.SIMILARITY.N``: share of the matched objects that get another partner where
  an edge that leaves an object is never taken for one that enters it.

Spread: 95% bootstrap interval over repeats, each with scenes of its own.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks._matching_plain import plain_match
from benchmarks._matching_scenes import drawn, scene
from benchmarks._report import interval, report
from scenewright.core.scene import SceneGraph
from scenewright.evals.metrics.graph_matching.base import TextSimilarity
from scenewright.evals.metrics.graph_matching.embeddings import SentenceSimilarity
from scenewright.evals.metrics.graph_matching.lexical import ExactSimilarity, LexicalSimilarity
from scenewright.evals.metrics.graph_matching.matching import match_many
from scenewright.evals.metrics.graph_matching.sentence_model import (
    DEFAULT_MODEL,
    find_sentence_model,
)

SIZES = (5, 10, 20)
Pairs = list[tuple[SceneGraph, SceneGraph]]


def scenes(objects: int, pairs: int, seed: int) -> Pairs:
    """Scenes, each with a damaged copy."""
    rng = random.Random(f"{objects}:{seed}")
    found = []
    for _ in range(pairs):
        whole = scene(rng, objects)
        found.append((whole, drawn(rng, whole)))
    return found


def plainly(pairs: Pairs, similarity: TextSimilarity) -> list[float]:
    """Total likeness of each pair by the plain implementation."""
    known: dict[tuple[str, str], float] = {}

    def alike(left: str, right: str) -> float:
        if (left, right) not in known:
            known[left, right] = float(similarity.similarities([(left, right)])[0])
        return known[left, right]

    return [sum(value for *_, value in plain_match(*pair, alike)) for pair in pairs]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what came of it."""
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def compared(
    make: Callable[[], TextSimilarity], objects: int, pairs: int, plain: int, repeats: int
) -> dict[str, Any]:
    """Figures of one similarity and size."""
    seconds, ratios, differences, otherwise = [], [], [0.0], []
    for seed in range(repeats):
        given = scenes(objects, pairs, seed)
        took, matches = timed(partial(match_many, given, make()))
        seconds.append(took * 1000 / pairs)
        ours, _ = timed(partial(match_many, given[:plain], make()))
        theirs, totals = timed(partial(plainly, given[:plain], make()))
        ratios.append(theirs / ours)
        differences += [
            abs(total - sum(node.similarity for node in match.nodes))
            for total, match in zip(totals, matches, strict=False)
        ]
        others = match_many(given, make(), edges="directed")
        maps = [(one.mapping, other.mapping) for one, other in zip(matches, others, strict=True)]
        changed = sum(there.get(key) != seen for here, there in maps for key, seen in here.items())
        otherwise.append(changed / sum(len(match.nodes) for match in matches))
    return {
        "seconds_per_1000_pairs": interval(seconds),
        "ratio": interval(ratios),
        "difference": max(differences),
        "otherwise_directed": interval(otherwise),
    }


def sentences(model: str, objects: int, pairs: int, repeats: int) -> dict[str, Any]:
    """Seconds with the sentence model: the first time, and with every vector in the store."""
    first, kept = [], []
    loaded = SentenceSimilarity(model)
    loaded.similarities([("a", "b")])
    for seed in range(repeats):
        given = scenes(objects, pairs, seed)
        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder) / "vectors.sqlite"
            fresh = SentenceSimilarity(model, store=store)
            # The network is loaded once in a process, and not what is measured.
            fresh.__dict__["_model"] = loaded._model
            first.append(timed(partial(match_many, given, fresh))[0] * 1000 / pairs)
            again = SentenceSimilarity(model, store=store)
            _ = again.id
            kept.append(timed(partial(match_many, given, again))[0] * 1000 / pairs)
    return {"first": interval(first), "kept": interval(kept)}


def main() -> None:
    """Print the figures and, in full mode, write ``benchmarks/results/matching.json``."""
    parser = argparse.ArgumentParser(prog="benchmarks.matching", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer pairs, nothing written")
    parser.add_argument("--model", default=DEFAULT_MODEL, help="sentence model: name or folder")
    args = parser.parse_args()
    pairs, plain, repeats = (100, 10, 2) if args.quick else (1000, 100, 10)
    figures: dict[str, Any] = {}
    difference = 0.0
    made: dict[str, Callable[[], TextSimilarity]] = {
        "lexical": LexicalSimilarity,
        "exact": ExactSimilarity,
    }
    for name, make in made.items():
        for objects in SIZES:
            found = compared(make, objects, pairs, plain, repeats)
            difference = max(difference, found.pop("difference"))
            figures |= {f"{key}.{name}.{objects}": value for key, value in found.items()}
    figures["largest_difference"] = difference
    figures["seconds_per_1000_pairs"] = figures["seconds_per_1000_pairs.lexical.10"]
    if find_sentence_model(args.model) is None:
        print(f"no sentence model {args.model} on this machine: not measured")
    else:
        few = max(10, pairs // 10)
        for objects in SIZES[:1] if args.quick else SIZES:
            for key, value in sentences(args.model, objects, few, min(repeats, 3)).items():
                figures[f"seconds_per_1000_pairs.sentences.{key}.{objects}"] = value
    report("matching", pairs, figures, args.quick)


if __name__ == "__main__":
    main()
