"""Published architectures at full size: the memory plan against the measured peak.

``python -m benchmarks.rehearsal [--quick]``. Each model is built with random weights in bfloat16
from its published configuration and runs through what the loop asks for (`python -m
benchmarks.rehearse` shows the same): pictures of 256×256 pixels in two steps, references, masks,
edits, region repair, and a judge's questions. One process a model; the largest takes 17 GB of free
memory. A model that was measured is stored: the same command goes on after a kill.

``peak_over_planned.MODEL`` is the measured peak of that process over what the plan expected before
any weights were read, with loading, and without what Python and the libraries take.
``shapes.MODEL`` counts what was run and ``seconds.MODEL`` the seconds of one picture from a prompt,
or of one question. Z-Image has four layers of its text encoder in place of 36: the encoder is that
of FLUX.2 klein, which is whole.
"""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks._harness import Option, benchmark, folder, work_folder
from benchmarks._provenance import code_of, machine_class
from benchmarks._rows import Row, Rows, fingerprint_of
from benchmarks.rehearse.running import RehearsalOptions, profile_of, rehearse
from scenewright.core.ports.backend import BackendError

WORK = Path("out/bench-rehearsal")


class CaseRow(Row):
    """Figures of one model; ``at`` is its number in :data:`FULL`."""

    figures: dict[str, float]


@dataclass(frozen=True, slots=True)
class Case:
    """A model that is rehearsed."""

    name: str
    """In the keys of figures."""
    model: str
    """A profile, whose image model is meant, or a judge."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Values of its configuration that are not as published."""


FULL = (
    Case("sdxl", "sdxl"),
    Case("flux2-klein", "flux2-klein"),
    Case("z-image", "z-image", {"text_encoder.num_hidden_layers": 4}),
    Case("qwen3-vl-4b", "local:Qwen/Qwen3-VL-4B-Instruct"),
)
QUICK = (Case("miniature", "miniature"),)


async def measure(case: Case, size: int) -> dict[str, Any]:
    """Return the figures of one model."""
    profile, images, _ = profile_of(case.model)
    options = RehearsalOptions(
        size=(size, size), images=images, judges=not images, changes=dict(case.changes)
    )
    found = await rehearse(
        profile, options, lambda text: print(f"{case.name}: {text}", file=sys.stderr, flush=True)
    )
    (model,) = found.models
    return {
        f"peak_over_planned.{case.name}": model.ratio,
        f"peak_gib.{case.name}": model.peak / 2**30,
        f"planned_gib.{case.name}": model.planned / 2**30,
        f"weights.{case.name}": model.parameters,
        f"shapes.{case.name}": len(model.shapes),
        f"seconds_loading.{case.name}": model.loading,
        f"seconds.{case.name}": model.shapes[0].seconds,
    }


@benchmark(
    "the miniature",
    clean=True,
    trials=("only",),
    refused=(BackendError,),
    only=Option("", "one model alone, by its name in the figures"),
    work=folder(f"folder of the rows (default: {WORK})"),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Rehearse one model after the other."""
    cases = QUICK if options.quick else FULL
    if options.only:
        cases = tuple(case for case in FULL if case.name == options.only)
        if not cases:
            options.refuse(f"--only {options.only}: use one of {', '.join(c.name for c in FULL)}")
    figures: dict[str, Any] = {}
    size = 128 if options.quick else 256
    decides = {"size": size, "cases": [repr(case) for case in FULL]}
    name = fingerprint_of(decides | {"code": code_of("rehearsal"), "machine": machine_class()})
    with work_folder(options, WORK) as work, Rows(work / "rows.jsonl", CaseRow, name) as rows:
        for at, case in enumerate(cases):
            number = at if options.quick else FULL.index(case)
            row = rows.get(number)
            if row is None:
                found = asyncio.run(measure(case, size))
                row = CaseRow(fingerprint=name, at=number, figures=found)
                rows.add(row)
            figures |= row.figures
    ordered = sorted(figures, key=lambda key: key.partition(".")[0] != "peak_over_planned")
    return len(cases), {key: figures[key] for key in ordered}


if __name__ == "__main__":
    main()
