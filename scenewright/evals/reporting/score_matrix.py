"""Scores of an evaluation as arrays: items × arms, one array a column of scores.

Tables are read a batch at a time, so that only numbers stay in memory: eight bytes for each item,
arm and column. Items have classes (facets) in which scores are compared.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from scenewright.evals.errors import EvalError
from scenewright.evals.statistics.estimates import Array, item_means
from scenewright.evals.store.results import Results, Table, arm_name, filled

Facet = Literal["level", "group", "category", "complexity"]
FACETS: tuple[Facet, ...] = get_args(Facet)
TITLES: dict[Facet, str] = {
    "level": "level",
    "group": "group",
    "category": "category",
    "complexity": "complexity",
}
MOST_COMPLEX = 10
"""From so many relations on, items are one class, as in Fig. 7 of Scene-Bench."""
_LEVELS = {"simple": 0, "medium": 1, "hard": 2, "very_hard": 3, "adversarial": 4}


def complexity_class(value: float | None) -> str:
    """Return ``1`` … ``9``, ``10+``; empty for None."""
    if value is None or math.isnan(value):
        return ""
    whole = round(value)
    return f"{MOST_COMPLEX}+" if whole >= MOST_COMPLEX else str(whole)


def in_order(facet: Facet, names: Iterable[str]) -> list[str]:
    """Return distinct non-empty classes in order.

    Levels go from simple to hard, numbers by size, others by name.
    """
    known = {name for name in names if name}
    if facet == "level":
        return sorted(known, key=lambda name: (_LEVELS.get(name, 9), name))
    if facet == "complexity":
        return sorted(known, key=lambda name: (int(re.sub(r"\D", "", name) or 0), name))
    return sorted(known)


BATCH = 8192
"""Rows read at once."""
_LOWER = ("fid", "fd_", "fd-", "kid", "cmmd")
"""How the names of distances begin, for manifests that do not say what is better."""

_LAST = 2**31 - 1
_PARTS = ("", "objects", "attributes", "relations")


class Column(NamedTuple):
    """One column of scores."""

    metric: str
    """For example ``sgscore``."""
    part: str
    """Empty for the metric's own value."""
    panel: str
    """Panel of judges; empty where no judge is needed."""


MAIN = "sgscore"


def main_columns(columns: Sequence[Column]) -> list[Column]:
    """Return the scores that lead: SGScore by each panel, else the first score."""
    found = [column for column in columns if column.metric == MAIN and not column.part]
    return found or list(columns[:1])


def shown_name(metric: str) -> str:
    """Return the name of ``metric`` in texts: ``SGScore``, others as they are called."""
    return "SGScore" if metric == MAIN else metric


@dataclass(frozen=True, slots=True)
class Arm:
    """One backend and condition with one seed."""

    backend: str
    condition: str
    seed: int

    @property
    def name(self) -> str:
        """Return ``backend/condition/seed``."""
        return arm_name(self.backend, self.condition, self.seed)

    @property
    def way(self) -> str:
        """Return ``backend/condition``: the arm over all its seeds."""
        return f"{self.backend}/{self.condition}"


@dataclass(frozen=True, slots=True)
class SetScore:
    """A score of a whole set of pictures."""

    arm: str
    metric: str
    part: str
    scope: str
    """Empty for all items, else as in ``level=hard``."""
    value: float | None
    """None with a reason."""
    reason: str
    n: int
    """Pictures of the set."""
    unscored: int = 0
    """Pictures that should be in it and failed, with a reason."""


@dataclass(slots=True)
class ScoreMatrix:
    """All scores of an evaluation, of the kept pictures of its arms."""

    items: tuple[str, ...]
    """Ids, in the order of the set."""
    facets: dict[Facet, NDArray[Any]]
    """Level, group, category and complexity of each item as text; empty where it has none."""
    arms: list[Arm]
    """In the order of the configuration."""
    values: dict[Column, Array] = field(default_factory=dict)
    """(items, arms); NaN where there is no score."""
    reasons: Counter[tuple[Column, str, str]] = field(default_factory=Counter)
    """(column, arm, reason) → how many pictures could not be scored for it."""
    partly: Counter[tuple[Column, str, str]] = field(default_factory=Counter)
    """(column, arm, reason) → how many scores leave out parts that failed."""
    unscored: dict[Column, NDArray[np.bool_]] = field(default_factory=dict)
    """(items, arms): where a score was tried and there is none."""
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(arm, reason) → items whose picture failed."""
    failed: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), bool))
    """(items, arms): where there is no picture because it failed."""
    kept: NDArray[np.int32] = field(default_factory=lambda: np.zeros((0, 0), np.int32))
    """(items, arms): first round of the picture that the arm gives, which is the judged one where a
    loop drew the same picture twice; −1 if there is none."""
    versions: dict[str, set[str]] = field(default_factory=dict)
    """Metric → versions of it that made the scores."""
    sets: list[SetScore] = field(default_factory=list)
    """Scores of sets."""
    strangers: int = 0
    """Rows that name no item of the table of items."""

    @property
    def ways(self) -> dict[str, list[int]]:
        """Return the numbers of the arms, one a seed, by ``backend/condition``."""
        found: dict[str, list[int]] = {}
        for at, arm in enumerate(self.arms):
            found.setdefault(arm.way, []).append(at)
        return found

    def columns(self, *, parts: bool = False) -> list[Column]:
        """Return the columns of scores of single pictures; with ``parts`` also their parts."""
        return [column for column in self.values if parts or not column.part]

    def over_seeds(self, column: Column, arms: Sequence[int]) -> Array:
        """Return each item's mean (items,) over the ``arms`` with a score; NaN without one."""
        return item_means(self.values[column][:, list(arms)])


def higher_is_better(metric: str, manifest: Mapping[str, Any]) -> bool:
    """Return whether higher is better for ``metric``: as in the manifest, else by its name."""
    found: Any = manifest
    for key in ("models", "metrics", metric, "higher_is_better"):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, bool) else not metric.lower().startswith(_LOWER)


def batches(results: Results, table: Table, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield some columns of a table, a batch at a time; nothing if the table does not exist.

    Raises ``EvalError`` for a file that cannot be read.
    """
    file = results.path(table)
    if not file.exists():
        return
    try:
        with pq.ParquetFile(file) as parquet:
            there = [name for name in columns if name in parquet.schema_arrow.names]
            for batch in parquet.iter_batches(BATCH, columns=there):
                yield filled(batch, table, columns)
    except (OSError, pa.ArrowException) as error:
        raise EvalError(
            f"{file} cannot be read: {error}. Run the evaluation again: it writes its tables anew "
            "from what it kept"
        ) from error


def item_ids(results: Results) -> pa.Array:
    """Return the ids of all items in the order of the set.

    Raises ``EvalError`` for a repeated id.
    """
    found = [batch.column("item") for batch in batches(results, "items", ["item"])]
    ids: pa.Array = pa.chunked_array(found, pa.string()).combine_chunks()
    if pc.count_distinct(ids).as_py() != len(ids):
        twice = next(v["values"] for v in pc.value_counts(ids).to_pylist() if v["counts"] > 1)
        raise EvalError(
            f"{results.path('items')} lists the item {twice!r} twice: its rows would count double"
        )
    return ids


def load_score_matrix(results: Results) -> ScoreMatrix:
    """Return the scores of an evaluation.

    Raises ``EvalError`` for tables that cannot be read.
    """
    ids = item_ids(results)
    score_matrix = ScoreMatrix(
        items=tuple(ids.to_pylist()), facets=_facets(results), arms=_arms(results)
    )
    number = {arm.name: at for at, arm in enumerate(score_matrix.arms)}
    shape = (len(ids), len(score_matrix.arms))
    score_matrix.kept = np.full(shape, -1, np.int32)
    score_matrix.failed = np.zeros(shape, bool)
    pictures = np.zeros(shape, np.int64)
    columns = ["item", "arm", "image", "kept", "state", "reason"]
    for batch in batches(results, "rounds", columns):
        item, arm = _places(batch, ids, number)
        known = item >= 0
        score_matrix.strangers += int((~known).sum())
        kept = known & np.asarray(pc.fill_null(batch.column("kept"), False))
        pictures[item[kept], arm[kept]] = _hashes(batch)[kept]
        score_matrix.kept[item[kept], arm[kept]] = _LAST
        bad = known & np.asarray(pc.fill_null(pc.equal(batch.column("state"), "failed"), False))
        score_matrix.failed[item[bad], arm[bad]] = True
        reasons = batch.column("reason")
        for row in np.flatnonzero(bad):
            score_matrix.failures[
                score_matrix.arms[arm[row]].name, reasons[row].as_py() or "no reason"
            ] += 1
    for batch in batches(results, "rounds", ["item", "arm", "image", "round"]):
        item, arm = _places(batch, ids, number)
        same = (item >= 0) & (pictures[item, arm] == _hashes(batch))
        same &= score_matrix.kept[item, arm] >= 0
        np.minimum.at(score_matrix.kept, (item[same], arm[same]), _whole(batch, "round")[same])
    # A later round may fail while an earlier picture is kept: then there is a picture.
    score_matrix.failed &= score_matrix.kept < 0
    for batch in batches(results, "scores", [
        "item", "arm", "round", "panel", "metric", "version", "part", "scope", "value", "reason",
        "unscored", "n",
    ]):  # fmt: skip
        _take(score_matrix, batch, ids, number)
    _sort_columns(score_matrix, results)
    return score_matrix


def _sort_columns(score_matrix: ScoreMatrix, results: Results) -> None:
    """Sort columns as in the configuration, a metric's own value before its parts."""
    config = results.manifest.get("config")
    config = config if isinstance(config, dict) else {}
    metrics = [m.get("name") if isinstance(m, dict) else m for m in config.get("metrics") or ()]
    metrics = metrics or ["sgscore"]
    panels = list(config.get("panels") or ())

    def place(column: Column) -> tuple[int, str, int, str, int, str]:
        return (
            metrics.index(column.metric) if column.metric in metrics else len(metrics),
            column.metric,
            _PARTS.index(column.part) if column.part in _PARTS else len(_PARTS),
            column.part,
            panels.index(column.panel) if column.panel in panels else len(panels),
            column.panel,
        )

    score_matrix.values = {
        column: score_matrix.values[column] for column in sorted(score_matrix.values, key=place)
    }


def _facets(results: Results) -> dict[Facet, NDArray[Any]]:
    found: dict[Facet, list[str]] = {facet: [] for facet in FACETS}
    for batch in batches(results, "items", list(FACETS)):
        for facet in FACETS:
            column = batch.column(facet).to_pylist()
            if facet == "complexity":
                column = [complexity_class(value) for value in column]
            found[facet].extend(value or "" for value in column)
    return {facet: np.array(values, dtype=object) for facet, values in found.items()}


def _arms(results: Results) -> list[Arm]:
    """Return all arms of the tables, first those of the configuration in its order."""
    found: set[Arm] = set()
    names = ["backend", "condition", "seed"]
    tables: tuple[Table, ...] = ("rounds", "scores")
    for table in tables:
        for batch in batches(results, table, names):
            rows = pa.Table.from_batches([batch]).group_by(names).aggregate([]).to_pylist()
            found.update(
                Arm(row["backend"] or "", row["condition"] or "", row["seed"] or 0) for row in rows
            )
    config = results.manifest.get("config")
    config = config if isinstance(config, dict) else {}
    order = {
        key: {str(name): at for at, name in enumerate(config.get(key) or ())}
        for key in ("backends", "conditions")
    }
    last = len(found)
    return sorted(
        found,
        key=lambda arm: (
            order["backends"].get(arm.backend, last),
            arm.backend,
            order["conditions"].get(arm.condition, last),
            arm.condition,
            arm.seed,
        ),
    )


def _places(
    batch: pa.RecordBatch, ids: pa.Array, number: dict[str, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of each row's item (−1 for an unknown one) and arm."""
    item = np.asarray(pc.fill_null(pc.index_in(batch.column("item"), value_set=ids), -1), np.int64)
    coded = batch.column("arm").dictionary_encode()
    names = np.array([number[name] for name in coded.dictionary.to_pylist()] or [0], np.int64)
    return item, names[np.asarray(coded.indices)]


def _whole(batch: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    return np.asarray(pc.fill_null(batch.column(name), -1), np.int64)


def _hashes(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Return the beginnings of the pictures' content hashes as numbers."""
    names = pc.fill_null(batch.column("image"), "").to_pylist()
    return np.array([int(name[:15] or "0", 16) for name in names], np.int64)


def _take(
    score_matrix: ScoreMatrix, batch: pa.RecordBatch, ids: pa.Array, number: dict[str, int]
) -> None:
    of_sets = np.asarray(pc.fill_null(pc.equal(batch.column("item"), ""), True))
    for row in batch.filter(pa.array(of_sets)).to_pylist():
        score_matrix.sets.append(
            SetScore(
                row["arm"], row["metric"], row["part"] or "", row["scope"] or "", row["value"],
                row["reason"] or "", row["n"] or 0, row.get("unscored") or 0,
            )
        )  # fmt: skip
    batch = batch.filter(pa.array(~of_sets))
    if not batch.num_rows:
        return
    item, arm = _places(batch, ids, number)
    known = item >= 0
    score_matrix.strangers += int((~known).sum())
    kept = np.where(known, score_matrix.kept[item, arm], -1)
    rounds = _whole(batch, "round")
    known &= (kept < 0) | (rounds < 0) | (rounds == kept)
    value = np.asarray(pc.fill_null(batch.column("value"), np.nan), np.float64)
    codes, names = _groups(batch, ["metric", "part", "panel", "version"])
    reasons = batch.column("reason")
    lost = _whole(batch, "unscored")
    for code, (metric, part, panel, version) in enumerate(names):
        rows = np.flatnonzero(known & (codes == code))
        column = Column(metric, part, panel)
        if column not in score_matrix.values:
            score_matrix.values[column] = np.full(score_matrix.kept.shape, np.nan)
            score_matrix.unscored[column] = np.zeros(score_matrix.kept.shape, bool)
        score_matrix.values[column][item[rows], arm[rows]] = value[rows]
        if version:
            score_matrix.versions.setdefault(metric, set()).add(version)
        for row in rows[np.isnan(value[rows])]:
            score_matrix.unscored[column][item[row], arm[row]] = True
            why = reasons[row].as_py() or "no reason"
            score_matrix.reasons[column, score_matrix.arms[arm[row]].name, why] += 1
        for row in rows[~np.isnan(value[rows]) & (lost[rows] > 0)]:
            why = reasons[row].as_py() or "no reason"
            score_matrix.partly[column, score_matrix.arms[arm[row]].name, why] += 1


def _groups(
    batch: pa.RecordBatch, names: list[str]
) -> tuple[NDArray[np.int64], list[tuple[str, ...]]]:
    """Return for each row the number of its combination of ``names``, and the combinations."""
    code = np.zeros(batch.num_rows, np.int64)
    tables: list[list[str]] = []
    for name in names:
        coded = pc.fill_null(batch.column(name), "").dictionary_encode()
        tables.append(coded.dictionary.to_pylist())
        code = code * max(1, len(tables[-1])) + np.asarray(coded.indices)
    found, codes = np.unique(code, return_inverse=True)
    combinations = []
    for value in found.tolist():
        parts = []
        for table in reversed(tables):
            value, at = divmod(value, max(1, len(table)))
            parts.append(table[at])
        combinations.append(tuple(reversed(parts)))
    return codes.reshape(-1), combinations
