"""Results of an evaluation as arrays: one value an item and seed, for each condition.

Also how much of the prompts of some pictures their image model read, for tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from scenewright.core.validation import FrozenModel
from scenewright.evals.errors import EvalError
from scenewright.evals.runner.served_versions import told_labels
from scenewright.evals.statistics.estimates import Estimate, nothing, over_seeds
from scenewright.evals.store.results import Results, Table
from scenewright.evals.studies.layout import Cell, Column, Layout, Row

COLUMNS = (
    Column(key="tokens_dropped", title="tokens dropped", digits=0),
    Column(key="facts_dropped", title="facts dropped", digits=0),
)
"""Of tables whose rows are of drawn pictures."""
_OPEN = "how much of the prompts was read is not known"


class PromptsRead(FrozenModel):
    """What of the prompts of some pictures was not read."""

    pictures: int = Field(ge=0)
    """Pictures of which it is known."""
    cut: int = Field(ge=0)
    """Those whose prompt was not read to its end."""
    tokens: int = Field(ge=0)
    """Tokens that were not read, of all of them."""
    facts: int | None = Field(default=None, ge=0)
    """Facts whose words these were; None where that is not known of a picture that was cut."""

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> PromptsRead | None:
        """Return the sums over rows with ``tokens_dropped`` and ``facts_dropped``.

        None if no row has them.
        """
        known = [row for row in rows if row.get("tokens_dropped") is not None]
        if not known:
            return None
        cut = [row for row in known if row["tokens_dropped"]]
        facts = [row.get("facts_dropped") for row in cut]
        return cls(
            pictures=len(known),
            cut=len(cut),
            tokens=sum(row["tokens_dropped"] for row in cut),
            facts=None if None in facts else sum(filter(None, facts)),
        )

    @property
    def text(self) -> str:
        """Facts and tokens in short: ``3 (41)``, ``0``."""
        if not self.tokens:
            return "0"
        return f"{'?' if self.facts is None else self.facts} ({self.tokens})"


def cells(found: PromptsRead | None) -> tuple[Cell, Cell]:
    """Return the cells of :data:`COLUMNS`."""
    numbers = (None, None) if found is None else (found.tokens, found.facts)
    n = 0 if found is None else found.pictures
    first, second = (
        Cell(measured=Estimate(value=float(value), n=n) if value is not None else nothing(_OPEN))
        for value in numbers
    )
    return first, second


def layout(found: Mapping[str, PromptsRead | None], head: str) -> Layout | None:
    """Return a table of them by name (an arm, a condition); None if nothing is known of any."""
    if not any(found.values()):
        return None
    columns = (
        Column(key="pictures", title="pictures", digits=0),
        Column(key="cut", title="prompts cut", digits=0),
        *COLUMNS,
    )
    rows = []
    for name, one in found.items():
        counts = () if one is None else (one.pictures, one.cut)
        first = [Cell(measured=Estimate(value=float(n), n=n)) for n in counts]
        first = first or [Cell(measured=nothing(_OPEN))] * 2
        rows.append(Row(key=name, title=name, cells=(*first, *cells(one))))
    return Layout(
        id="prompts",
        title="Prompts that the image model did not read to their end",
        head=head,
        columns=columns,
        rows=tuple(rows),
        of_paper=False,
    )


Array = NDArray[np.float64]
Reading = Literal["kept", "last"]
"""Which picture of a loop counts: the one that it keeps, or the last one that it drew, whatever
its judges said of it. They are one where nothing was repaired."""

_BATCH = 8192
_VOTE = {"yes": 1.0, "no": 0.0, "void": 0.0, "unscored": np.nan}
_SCORE_COLUMNS = [
    *("item", "backend", "condition", "seed", "panel", "round"),
    *("metric", "part", "scope", "value", "reason", "n", "unscored"),
]


@dataclass(frozen=True, slots=True)
class SetFigure:
    """The score of a set of pictures with one seed."""

    value: float | None
    """None if it could not be worked out."""
    n: int
    """Pictures."""
    reason: str
    """Why there is no value, or why pictures are not in it."""
    unscored: int = 0
    """Pictures that should be in it and failed."""


@dataclass(frozen=True, slots=True)
class Votes:
    """What several panels said of the same facts of the same pictures."""

    panels: list[str]
    """Names, in the order of the columns."""
    pictures: NDArray[np.intp]
    """Number of each fact's picture, from 0 (facts,)."""
    said: Array
    """1 yes, 0 no or void, NaN unscored or not judged (facts, panels)."""


@dataclass(slots=True)
class Readings:
    """Values of one backend's pictures, by item and seed."""

    items: list[str]
    """Ids, in the set's order."""
    seeds: list[int]
    """Seeds."""
    columns: dict[str, list[Any]]
    """``level``, ``group``, ``category``, ``complexity`` of the items."""
    values: dict[tuple[str, str, str, str, Reading], Array] = field(default_factory=dict)
    """(metric, part, condition, panel, reading) → (items, seeds), NaN where there is none."""
    sets: dict[tuple[str, str, int, str], SetFigure] = field(default_factory=dict)
    """(metric, condition, seed, scope) → the score of the set."""
    failed: dict[str, int] = field(default_factory=dict)
    """Condition → drawings of which nothing came."""
    unscored: dict[str, int] = field(default_factory=dict)
    """Metric → kept pictures that it could not score."""
    partly: dict[str, int] = field(default_factory=dict)
    """Metric → scores of kept pictures that leave out parts that failed."""
    images: dict[str, Array] = field(default_factory=dict)
    """Condition → pictures drawn, references included (items, seeds)."""
    prompts: dict[str, list[tuple[int, Mapping[str, Any]]]] = field(default_factory=dict)
    """Condition → number of the item, and what of its prompt was not read, of kept pictures."""
    votes: Votes | None = None
    """Fact by fact, where several panels judged."""

    def of(
        self,
        metric: str,
        condition: str,
        part: str = "",
        panel: str | None = None,
        reading: Reading = "kept",
    ) -> Array:
        """Return (items, seeds) of ``metric``; all NaN if nothing of it is there.

        Without ``panel`` that of the only panel. Raises ``EvalError`` if there are several.
        """
        keys = [
            key
            for key in self.values
            if key[:3] == (metric, part, condition)
            and key[4] == reading
            and (panel is None or key[3] == panel)
        ]
        if len(keys) > 1:
            raise EvalError(
                f"{metric} of {condition} was judged by {', '.join(k[3] for k in keys)}: "
                "name the panel"
            )
        return self.values[keys[0]] if keys else self._blank()

    def prompts_of(
        self, condition: str, chosen: NDArray[np.bool_] | None = None
    ) -> PromptsRead | None:
        """Return how much of the prompts of kept pictures was not read, of the ``chosen`` items.

        None where that is not known.
        """
        rows = self.prompts.get(condition, ())
        return PromptsRead.of(row for item, row in rows if chosen is None or chosen[item])

    def where(self, column: str, *wanted: Any) -> NDArray[np.bool_]:
        """Return which items have one of ``wanted`` in ``column`` (``level``, ``category``, …)."""
        return np.array([value in wanted for value in self.columns[column]], bool)

    def set_scores(self, metric: str, condition: str, scope: str = "") -> list[SetFigure]:
        """Return the scores of the set, one a seed that has one."""
        return [
            found
            for seed in self.seeds
            if (found := self.sets.get((metric, condition, seed, scope))) is not None
        ]

    def of_set(self, metric: str, condition: str, scope: str = "") -> Estimate:
        """Return the mean of :meth:`set_scores` over seeds."""
        scores = self.set_scores(metric, condition, scope)
        why = next((score.reason for score in scores if score.reason), "")
        n = max((score.n for score in scores), default=0)
        return over_seeds([score.value for score in scores], n, why)

    def _blank(self) -> Array:
        return np.full((len(self.items), len(self.seeds)), np.nan)


def lost_notes(found: Sequence[Readings]) -> tuple[str, ...]:
    """Return sentences about what failed and is therefore missing in a study's figures."""

    def counted(of: Callable[[Readings], dict[str, int]]) -> list[tuple[str, int]]:
        sums: Counter[str] = Counter()
        for one in found:
            sums.update(of(one))
        return sorted((name, n) for name, n in sums.items() if n)

    notes = []
    failed = ", ".join(f"{name}: {n}" for name, n in counted(lambda one: one.failed))
    if failed:
        notes.append(f"Drawings of which nothing came, left out: {failed}.")
    for name, n in counted(lambda one: one.unscored):
        notes.append(f"Pictures that {name} could not score, left out: {n}.")
    for name, n in counted(lambda one: one.partly):
        notes.append(f"Scores by {name} of a part of the picture only, as the rest failed: {n}.")
    for one in found:
        for (metric, condition, seed, scope), figure in one.sets.items():
            name = f"{metric} of {condition}, seed {seed}{f', {scope}' if scope else ''}"
            if figure.value is None:
                notes.append(f"There is no {name}: {figure.reason}.")
            elif figure.unscored:
                notes.append(f"Pictures that are not in {name}, as they failed: {figure.unscored}.")
    return tuple(notes)


def read(results: Results, backend: str) -> Readings:
    """Return the readings of the pictures of ``backend``.

    Where all rounds of a loop were judged, both readings are there; else ``kept`` alone. Raises
    ``EvalError`` if the tables cannot be read or hold nothing of ``backend``.
    """
    if changed := told_labels(results.manifest):
        raise EvalError(
            f"the tables in {results.folder} hold served versions of a judge apart "
            f"({', '.join(changed)}), and a study compares the pictures of one panel: run it with "
            "--on-model-change accept to pool them, or in another folder"
        )
    items = list(_rows(results, "items", ["item", "level", "group", "category", "complexity"]))
    rounds = [
        row
        for row in _rows(
            results,
            "rounds",
            [
                *("item", "backend", "condition", "seed", "round", "kept", "state"),
                *("reference_image", "tokens_dropped", "facts_dropped"),
            ],
        )
        if row["backend"] == backend
    ]
    if not items or not rounds:
        raise EvalError(
            f"{results.folder} holds no pictures of {backend!r}: run the evaluation to its end"
        )
    seeds = sorted({row["seed"] for row in rounds})
    found = Readings(
        items=[row["item"] for row in items],
        seeds=seeds,
        columns={
            name: [row[name] for row in items]
            for name in ("level", "group", "category", "complexity")
        },
    )
    place = {name: at for at, name in enumerate(found.items)}
    column = {seed: at for at, seed in enumerate(seeds)}
    kept: dict[tuple[str, str, int], int] = {}
    last: dict[tuple[str, str, int], int] = {}
    for row in rounds:
        condition = row["condition"]
        if row["state"] == "failed":
            found.failed[condition] = found.failed.get(condition, 0) + 1
            continue
        key = (row["item"], condition, row["seed"])
        last[key] = max(row["round"], last.get(key, 0))
        if row["kept"]:
            kept[key] = row["round"]
            found.prompts.setdefault(condition, []).append((place[row["item"]], row))
        drawn = found.images.setdefault(condition, found._blank())
        cell = (place[row["item"]], column[row["seed"]])
        # Counted as if the arm had drawn alone: what it shares with others is its own, too.
        drawn[cell] = np.nansum([drawn[cell], 2 if row["reference_image"] else 1])
    for row in _rows(results, "scores", _SCORE_COLUMNS):
        if row["backend"] != backend:
            continue
        if not row["item"]:
            if not row["part"]:
                figure = SetFigure(
                    row["value"], row["n"] or 0, row["reason"] or "", row["unscored"] or 0
                )
                key_of_set = (row["metric"], row["condition"], row["seed"], row["scope"])
                found.sets[key_of_set] = figure
            continue
        key = (row["item"], row["condition"], row["seed"])
        cell = (place[row["item"]], column[row["seed"]])
        for reading, rounds_of in (("kept", kept), ("last", last)):
            if rounds_of.get(key, 0) != (row["round"] or 0):
                continue
            if row["value"] is None:
                if reading == "kept" and not row["part"]:
                    found.unscored[row["metric"]] = found.unscored.get(row["metric"], 0) + 1
                continue
            if reading == "kept" and not row["part"] and row["unscored"]:
                found.partly[row["metric"]] = found.partly.get(row["metric"], 0) + 1
            name = (row["metric"], row["part"], row["condition"], row["panel"], reading)
            found.values.setdefault(name, found._blank())[cell] = row["value"]  # type: ignore[arg-type]
    found.votes = _votes(results, backend)
    return found


def _votes(results: Results, backend: str) -> Votes | None:
    """Return the verdicts of all panels; none where there is one panel."""
    panels: dict[str, int] = {}
    pictures: dict[tuple[str, str], int] = {}
    facts: dict[tuple[int, int, str], int] = {}
    rows: list[tuple[int, int, float]] = []
    columns = ["item", "arm", "backend", "panel", "round", "fact", "state"]
    for row in _rows(results, "verdicts", columns):
        if row["backend"] != backend:
            continue
        picture = pictures.setdefault((row["item"], row["arm"]), len(pictures))
        fact = facts.setdefault((picture, row["round"], row["fact"]), len(facts))
        panel = panels.setdefault(row["panel"], len(panels))
        rows.append((fact, panel, _VOTE[row["state"]]))
    if len(panels) < 2:
        return None
    said = np.full((len(facts), len(panels)), np.nan)
    for fact, panel, vote in rows:
        said[fact, panel] = vote
    at = np.fromiter((picture for picture, _, _ in facts), np.intp, len(facts))
    return Votes(list(panels), at, said)


def _rows(results: Results, table: Table, columns: list[str]) -> Iterator[dict[str, Any]]:
    for batch in results.table(table, columns).to_batches(max_chunksize=_BATCH):
        yield from batch.to_pylist()
