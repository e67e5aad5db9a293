"""Small evaluations with the scores of voters, as the runner writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from scenewright.evals.store.results import SCHEMAS, arm_name

Values = Mapping[tuple[str, str, int], float | None]
"""(item, condition, seed) → score."""


def evaluation(
    folder: Path,
    scores: Mapping[tuple[str, str, str], Values],
    *,
    sets: Mapping[str, Mapping[str, float]] | None = None,
    dropped: Mapping[str, int] | None = None,
) -> Path:
    """``scores``: (metric, panel, part) → its values; ``sets``: metric → condition → score of the
    set; ``dropped``: condition → tokens of each prompt that were not read. Every picture is of two
    rounds, and the first one, which is not kept, has a score of 99."""
    folder.mkdir()
    rounds: dict[tuple[str, str, int], None] = {}
    rows = []
    for (metric, panel, part), values in scores.items():
        name, _, version = metric.partition("@")
        for (item, condition, seed), value in values.items():
            rounds.setdefault((item, condition, seed))
            for number in (0, 1):
                rows.append(
                    _arm(condition, seed)
                    | {"item": item, "panel": panel, "round": number, "image": f"{item}{number}"}
                    | {"metric": name, "version": version or "1", "part": part, "scope": ""}
                    | {"value": value if number else 99.0, "reason": "", "n": 1}
                )
                rows.append({**rows[-1], "part": "facts", "value": 7.0})
    for metric, by_condition in (sets or {}).items():
        for condition, value in by_condition.items():
            for scope in ("", "level=hard"):
                rows.append(
                    _arm(condition, 0)
                    | {"item": "", "panel": "", "round": None, "image": ""}
                    | {"metric": metric, "version": "1", "part": "", "scope": scope}
                    | {"value": value if not scope else 99.0, "reason": "", "n": 4}
                )
    drawn = [
        _arm(condition, seed)
        | {"item": item, "round": number, "kept": number == 1}
        | {"tokens_dropped": (dropped or {}).get(condition), "facts_dropped": 1}
        for item, condition, seed in rounds
        for number in (0, 1)
    ]
    pq.write_table(pa.Table.from_pylist(rows, SCHEMAS["scores"]), folder / "scores.parquet")
    pq.write_table(pa.Table.from_pylist(drawn, SCHEMAS["rounds"]), folder / "rounds.parquet")
    (folder / "manifest.json").write_text(json.dumps({"name": "made"}))
    return folder


def _arm(condition: str, seed: int) -> dict[str, object]:
    return {
        "arm": arm_name("b", condition, seed),
        "backend": "b",
        "condition": condition,
        "seed": seed,
    }
