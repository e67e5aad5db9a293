"""Figures from the tables of an evaluation: a finished one, or a pilot's."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scenewright.config.accounts import DECISION_KIND
from scenewright.config.settings import JUDGE_KINDS, LOCAL_BACKEND
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.sizing.errors import SizingError
from scenewright.evals.runner.sizing.figures import Figures, Spread, Use, spread_of
from scenewright.evals.runner.sizing.stages import goes_on
from scenewright.evals.store.paths import ANSWERS, JOURNAL
from scenewright.evals.store.results import IMAGES, Results
from scenewright.evals.store.schema import TABLES

_ARM = ["item", "arm"]
_LOCAL = {LOCAL_BACKEND, *JUDGE_KINDS, "scripted"}
_Row = Mapping[str, Any]


def account_of(model: str) -> str:
    """The account in a model's id; empty for one that runs on the machine."""
    kind, _, rest = model.partition(":")
    if kind == DECISION_KIND:
        kind = rest.partition("/")[0]
    return "" if kind in _LOCAL else kind


def figures_from(folder: str | Path) -> Figures:
    """What a finished evaluation tells. Raises ``SizingError`` and ``EvalError``.

    Its items ran side by side, so that seconds of models on the machine hold what they waited for
    each other, and loops do not tell apart what draws and what steers them: a pilot knows more.
    """
    results = Results(folder)
    columns = [*_ARM, "backend", "state", "kept", "images_drawn", "seconds"]
    columns += ["tokens_in", "tokens_out", "usd"]
    rounds = [row for row in results.rows("rounds", columns) if row["state"] == "done"]
    if not rounds:
        raise SizingError(f"{folder} holds no finished picture: let the evaluation run first")
    cells = {(row["item"], row["arm"]) for row in rounds}
    drawn_by = {
        arm: models["backend"]["id"] for arm, models in results.manifest["models"]["arms"].items()
    }
    models = dict(_drawers(rounds, cells, drawn_by))
    looks = _looks(results)
    models |= _judges(looks, len(cells))
    if not models:
        raise SizingError(f"{folder} drew nothing and asked nobody: there is nothing to size")
    notes = ["the figures are of items that ran side by side, as their tables tell"]
    config = EvalConfig.model_validate(results.manifest["config"])
    if any(config.condition_of(name).rounds > 1 for name in config.conditions):
        notes.append(
            "loops: the seconds and tokens of judges that steer are counted as drawing, and their "
            "requests not at all; a pilot tells them apart"
        )
    return Figures(
        source=f"tables of {Path(folder).name}",
        cells=len(cells),
        models=models,
        notes=tuple(notes),
        **shared_figures(results, config),
    )


def shared_figures(results: Results, config: EvalConfig) -> dict[str, Any]:
    """Sizes, loops and voids, which the tables tell of a pilot too."""
    names = [*_ARM, "condition", "state", "round", "image", "images_drawn"]
    rows = [row for row in results.rows("rounds", names) if row["state"] == "done"]
    cells = _grouped(rows, lambda row: (row["item"], row["arm"]))
    most = {name: config.condition_of(name).rounds for name in config.conditions}
    loops = [group for group in cells.values() if most[group[0]["condition"]] > 1]
    further = sum(len(group) - 1 for group in loops)
    drawn = sum(row["images_drawn"] for group in loops for row in group if row["round"] > 0)
    files = {p.stem: p.stat().st_size for p in (results.folder / IMAGES).rglob("*.png")}
    count = max(len(cells), 1)
    states = results.table("verdicts", ["state"]).column("state").to_pylist()
    return {
        "picture_bytes": spread_of([float(size) for size in files.values()]),
        "row_bytes": _exactly(_bytes_of(results.folder) / count),
        "rounds": sum(map(len, cells.values())) / count,
        "go_on": goes_on([len(g) for g in loops], [most[g[0]["condition"]] for g in loops]),
        "more_pictures": max(1.0, drawn / further) if further else 2.0,
        "void_share": states.count("void") / len(states) if states else None,
    }


def _exactly(value: float) -> Spread:
    return Spread(mean=value, low=value, high=value)


def _bytes_of(folder: Path) -> int:
    """Bytes of all but the pictures: tables, journal, answers and run folders."""
    tables = [folder / f"{table}.parquet" for table in TABLES]
    kept = [folder / name for name in (JOURNAL, ANSWERS)]
    kept += [file for file in (folder / "runs").rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in (*tables, *kept) if file.is_file())


def _drawers(
    rounds: Sequence[_Row], cells: set[tuple[str, str]], drawn_by: Mapping[str, str]
) -> Mapping[str, Use]:
    found = {}
    paid = [row for row in rounds if row["images_drawn"] and row["arm"] in drawn_by]
    for who, rows in _grouped(paid, lambda row: drawn_by[row["arm"]]).items():
        count = sum(row["images_drawn"] for row in rows)
        each = [row["seconds"] / row["images_drawn"] for row in rows]
        account = account_of(who)
        found[who] = Use(
            does="draws",
            account=account,
            uses=_exactly(count / len(cells)),
            seconds=spread_of(each),
            calls=1.0 if account else 0.0,
            tokens_in=sum(row["tokens_in"] for row in rows) / count,
            tokens_out=sum(row["tokens_out"] for row in rows) / count,
            usd=(sum(row["usd"] for row in rows) / count) or None,
        )
    return found


def _looks(results: Results) -> dict[tuple[str, ...], list[_Row]]:
    names = [*_ARM, "panel", "round", "judge", "seconds", "tokens_in", "tokens_out", "usd"]
    rows = [row for row in results.rows("answers", names) if row["seconds"]]
    return _grouped(
        rows, lambda row: tuple(str(row[n]) for n in (*_ARM, "panel", "round", "judge"))
    )


def _judges(looks: Mapping[tuple[str, ...], Sequence[_Row]], cells: int) -> dict[str, Use]:
    found = {}
    for who, keys in _grouped(list(looks), lambda key: key[-1]).items():
        rows = [row for key in keys for row in looks[key]]
        account = account_of(who)
        count = len(keys)
        # A call shares its seconds evenly among its answers: equal ones are of one call.
        calls = sum(len({row["seconds"] for row in looks[key]}) for key in keys) / count
        found[who] = Use(
            does="judges",
            account=account,
            uses=_exactly(count / cells),
            seconds=spread_of([math.fsum(r["seconds"] for r in looks[key]) for key in keys]),
            calls=calls if account else 0.0,
            tokens_in=sum(row["tokens_in"] for row in rows) / count,
            tokens_out=sum(row["tokens_out"] for row in rows) / count,
            usd=(sum(row["usd"] for row in rows) / count) or None,
        )
    return found


def _grouped(rows: Sequence[Any], key: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return dict(groups)
