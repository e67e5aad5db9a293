"""Prompts in the manner of PSG-Bench, whose own are not public: from a file, or drawn here.

A file is one of ``scenewright data synthesize`` or ``data classify``; without one the prompts are
drawn and worded by rules. Category of Table 6 and challenge are group and category of the item.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from scenewright.agents.composers.rules import WORDING_VERSION
from scenewright.agents.parsers.classes import RULES_VERSION
from scenewright.evals.datasets import table
from scenewright.evals.datasets.base import DatasetError, Item
from scenewright.evals.datasets.psg_prompts.rows import synthesized
from scenewright.evals.datasets.psg_prompts.templates import DRAW_VERSION, DrawSpec
from scenewright.evals.datasets.reading import json_lines, whole
from scenewright.evals.datasets.rows import columns_of, item_of
from scenewright.evals.datasets.stream import StreamedSet

VERSION = 1
NAME = "psg-bench"
_N = 200


def load(
    path: Path | None = None,
    *,
    n: int | None = None,
    seed: int | None = None,
    names: str | None = None,
    templates: Sequence[str] | str | None = None,
    challenges: Sequence[str] | str | None = None,
    contrastive: bool | None = None,
) -> StreamedSet:
    """The prompts of the file ``path``, or the first ``n`` (200) of a draw.

    Options are those of :class:`~scenewright.evals.datasets.psg_prompts.templates.DrawSpec`; the
    first prompts are the same whatever ``n`` is. Raises ``DatasetError`` for options beside a file,
    for unknown words, and on iteration where the words are used up before ``n``.
    """
    given = {"n": n, "seed": seed, "names": names, "templates": templates}
    given |= {"challenges": challenges, "contrastive": contrastive}
    if path is not None:
        if said := [option for option, value in given.items() if value is not None]:
            raise DatasetError(f"option {said[0]} is for prompts drawn here: leave out the path")
        files = table.table_files(path)
        if any(table.suffix_of(file) not in (".jsonl", ".ndjson") for file in files):
            raise DatasetError(f"{path} is no file of `scenewright data synthesize` (.jsonl)")
        return StreamedSet(
            partial(_read, files),
            name=NAME,
            version=VERSION,
            options={},
            files=lambda: [(file.name, file) for file in files],
        )
    count, default = whole("n", _N if n is None else n, 1), DrawSpec()
    spec = DrawSpec(
        names=default.names if names is None else names,
        templates=default.templates if templates is None else _listed(templates),
        challenges=default.challenges if challenges is None else _listed(challenges),
        contrastive=default.contrastive if contrastive is None else bool(contrastive),
        seed=whole("seed", default.seed if seed is None else seed, 0),
    )
    return StreamedSet(
        partial(_drawn, spec, count),
        name=NAME,
        version=VERSION,
        options={
            **{"n": count, "seed": spec.seed, "names": spec.names},
            **{"templates": spec.templates, "challenges": spec.challenges},
            "contrastive": spec.contrastive,
            "rules": [DRAW_VERSION, WORDING_VERSION, RULES_VERSION],
        },
        unique=True,
    )


def _listed(given: Sequence[str] | str) -> tuple[str, ...]:
    parts = given.split(",") if isinstance(given, str) else given
    return tuple(str(part).strip() for part in parts)


def _drawn(spec: DrawSpec, n: int, left_out: Counter[str]) -> Iterator[Item]:
    yield from synthesized(spec, n)


def _read(files: Sequence[Path], left_out: Counter[str]) -> Iterator[Item]:
    columns = columns_of(None)
    number = 0
    for file in files:
        for place, cells in json_lines(file):
            number += 1
            yield item_of(cells, columns, place, number, file.parent, "none")
