"""How well the rules parser reads captions, on the human-checked facts of DSG-1k.

``python -m benchmarks.parser [--quick] [--data FOLDER]``. Micro-averaged precision, recall and F1
of :func:`scenewright.agents.parsers.rules.parse_caption` over the prompts of
:mod:`benchmarks._parser_gold`, compared by the rules of :mod:`benchmarks._parser_match`.

The rules were written with the prompts of even item number in view; the headline figures are on
the other half. (To learn the form of the facts, some fifty prompts of both halves were read
before the first rule.)

- ``f1.KIND``, ``precision.KIND``, ``recall.KIND`` (objects, attributes, relations): the headline,
  by the ``headline`` rule, on the held-out half.
- ``tuned.…``, ``all.…``: the same on the half in view, and on all prompts.
- ``exact.…``: labels, values and predicates equal; held-out half.
- ``pairs.….relations``: relations whatever their predicate; ``parts.….relations``: what DSG
  states as a part counts as a relation; held-out half.
- ``prose.….relations``: held-out half without ``vrd``, whose captions are lists of triplets; also
  by the exact rule and of the baseline.
- ``baseline.…``: every noun-like word is an object, neighbours are related; held-out half.
- ``gain.f1.KIND``: the parser's F1 less the baseline's on the same resamples.
- ``SPLIT.f1.KIND``: by the data set that a prompt comes from, all prompts.
- ``counts.right``: share of exact numbers that are right, of objects both sides name.
- ``aside.held_out_relations``: relations said that the headline rule sets aside as parts.
- ``refused``: captions in which the parser finds no object; they count as saying nothing.
- ``captions_per_second``: of one process, best of three passes over all captions.

Intervals are 95% percentile intervals of a bootstrap over prompts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._dsg_command import given_release
from benchmarks._parser_baseline import nearest_pairs
from benchmarks._parser_gold import DATA, DataError, Facts, Prompt, load
from benchmarks._parser_match import KINDS, Count, aside, compare, right_counts, said_by, with_parts
from benchmarks._report import report
from scenewright.agents.parsers.rules import CaptionError, parse_caption

RESAMPLES = 2000
QUICK_RESAMPLES = 200
Array = NDArray[np.float64]
MEASURES: dict[str, Callable[[Array], Array]] = {
    "f1": lambda c: 2 * c[..., 0] / np.maximum(c[..., 1] + c[..., 2], 1),
    "precision": lambda c: c[..., 0] / np.maximum(c[..., 1], 1),
    "recall": lambda c: c[..., 0] / np.maximum(c[..., 2], 1),
}
"""Of sums (…, 3) of facts that are right, said and true."""


def read(text: str) -> Facts | None:
    """What the rules parser says of a caption; None if it finds no object in it."""
    try:
        return said_by(parse_caption(text))
    except CaptionError:
        return None


def micro(counts: Sequence[Count], resamples: int, seed: int = 0) -> dict[str, Array]:
    """Measure → its value over all prompts, then over each of ``resamples``: (1 + resamples,).

    ``counts`` are the right, said and true facts of each prompt. Raises ``ValueError`` without
    prompts.
    """
    if not counts:
        raise ValueError("no prompts: nothing was measured")
    table = np.asarray(counts, float)
    rng = np.random.default_rng(seed)
    sums = [table.sum(0)]
    for _ in range(resamples):
        sums.append(table[rng.integers(0, len(table), len(table))].sum(0))
    stacked = np.stack(sums)
    return {name: measure(stacked) for name, measure in MEASURES.items()}


def figure(values: Array) -> dict[str, float]:
    """The value with the 95% interval of its resamples."""
    low, high = np.percentile(values[1:], [2.5, 97.5])
    return {"mean": float(values[0]), "low": float(low), "high": float(high)}


def measure(prompts: Sequence[Prompt], resamples: int) -> dict[str, Any]:
    """All figures but the speed."""
    said = [read(prompt.text) for prompt in prompts]
    facts = [one if one is not None else Facts() for one in said]
    counted = [compare(one, p.facts) for one, p in zip(facts, prompts, strict=True)]
    held = [at for at, prompt in enumerate(prompts) if prompt.held_out]
    tuned = [at for at, prompt in enumerate(prompts) if not prompt.held_out]
    figures: dict[str, Any] = {}

    def put(prefix: str, rows: Sequence[Mapping[str, Count]], only: Sequence[str] = KINDS) -> None:
        for kind in only:
            for name, values in micro([row[kind] for row in rows], resamples).items():
                figures[f"{prefix}{name}.{kind}"] = figure(values)

    def of_held(compared: Callable[[Facts, Facts], Mapping[str, Count]]) -> list[Any]:
        return [compared(facts[at], prompts[at].facts) for at in held]

    rows = [counted[at] for at in held]
    base = [compare(nearest_pairs(prompts[at].text), prompts[at].facts) for at in held]
    put("", rows)
    put("baseline.", base)
    for kind in KINDS:
        ours, theirs = (
            micro([row[kind] for row in half], resamples)["f1"] for half in (rows, base)
        )
        figures[f"gain.f1.{kind}"] = figure(ours - theirs)
    put("exact.", of_held(lambda a, b: compare(a, b, "exact")))
    put("pairs.", of_held(lambda a, b: compare(a, b, "pairs")), ["relations"])
    put("parts.", of_held(lambda a, b: {"relations": with_parts(a, b)}), ["relations"])
    prose = [at for at in held if prompts[at].category != "vrd"]
    if prose:
        exact = [compare(facts[at], prompts[at].facts, "exact") for at in prose]
        plain = [compare(nearest_pairs(prompts[at].text), prompts[at].facts) for at in prose]
        put("prose.", [counted[at] for at in prose], ["relations"])
        put("prose.exact.", exact, ["relations"])
        put("prose.baseline.", plain, ["relations"])
    put("tuned.", [counted[at] for at in tuned])
    put("all.", counted)
    for split in sorted({prompt.category for prompt in prompts}):
        some = [c for c, p in zip(counted, prompts, strict=True) if p.category == split]
        for kind in KINDS:
            value = micro([row[kind] for row in some], resamples)["f1"]
            figures[f"{split}.f1.{kind}"] = figure(value)
    numbers = np.sum([right_counts(facts[at], prompts[at].facts) for at in held], axis=0)
    figures["counts.right"] = float(numbers[0] / max(numbers[1], 1))
    figures["counts.asked"] = int(numbers[1])
    figures["refused"] = sum(one is None for one in said)
    figures["held_out"] = len(held)
    figures["aside.held_out_relations"] = sum(aside(facts[at], prompts[at].facts) for at in held)
    figures["resamples"] = resamples
    return figures


def captions_per_second(prompts: Sequence[Prompt], passes: int = 3) -> float:
    """Captions read in a second by one process: the best of ``passes``."""
    best = float("inf")
    for _ in range(passes):
        began = time.perf_counter()
        for prompt in prompts:
            try:
                parse_caption(prompt.text)
            except CaptionError:
                continue
        best = min(best, time.perf_counter() - began)
    return len(prompts) / best


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    found = given_release(
        __doc__,
        arguments,
        beside=DATA,
        resamples=(RESAMPLES, QUICK_RESAMPLES),
        load=load,
        refused=DataError,
    )
    if found is None:
        return
    prompts, resamples, quick = found
    figures = measure(prompts, resamples)
    figures["captions_per_second"] = captions_per_second(prompts)
    report("parser", len(prompts), figures, quick)


if __name__ == "__main__":
    main()
