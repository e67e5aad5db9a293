"""Results of an evaluation as arrays: one value an item and seed, for each condition.

Also how much of the prompts of some pictures their image model read, for tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from scenewright.evals.studies.layout import Cell, Column, Layout

COLUMNS = (
    Column(key="tokens_dropped", title="tokens dropped", digits=0),
    Column(key="facts_dropped", title="facts dropped", digits=0),
)
"""Of tables whose rows are of drawn pictures."""
_KEYS = tuple(column.key for column in COLUMNS)
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
    if found is None:
        return _counted(None), _counted(None)
    return _counted(found.tokens, found.pictures), _counted(found.facts, found.pictures)


def layout(found: Mapping[str, PromptsRead | None], head: str) -> Layout | None:
    """Return a table of them by name (an arm, a condition); None if nothing is known of any."""
    if not any(found.values()):
        return None
    columns = (
        Column(key="pictures", title="pictures", digits=0),
        Column(key="cut", title="prompts cut", digits=0),
        *COLUMNS,
    )

    def cell(name: str, key: str) -> Cell:
        one = found[name]
        if key in ("pictures", "cut"):
            return _counted(None if one is None else getattr(one, key))
        return dict(zip(_KEYS, cells(one), strict=True))[key]

    title = "Prompts that the image model did not read to their end"
    rows = {name: name for name in found}
    return Layout.grid("prompts", title, rows, columns, cell, head=head, of_paper=False)


def _counted(number: int | None, n: int | None = None) -> Cell:
    if number is None:
        return Cell(measured=nothing(_OPEN))
    return Cell(measured=Estimate(value=float(number), n=number if n is None else n))


Array = NDArray[np.float64]
Reading = Literal["kept", "last"]
"""Which picture of a loop counts: the one that it keeps, or the last one that it drew, whatever
its judges said of it. They are one where nothing was repaired."""

_VOTE = {"yes": 1.0, "no": 0.0, "void": 0.0, "unscored": np.nan}
_CLASSES = ("level", "group", "category", "complexity")
_PICTURE = ["item", "condition", "seed"]
_DROPPED = ("tokens_dropped", "facts_dropped")
_OF_ROUND = ("reference_image", *_DROPPED)
_OF_SCORE = ("metric", "part", "scope", "value", "reason", "n", "unscored")


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
    items = results.frame("items", ["item", *_CLASSES])
    rounds = _of(results, "rounds", backend, [*_PICTURE, "round", "kept", "state", *_OF_ROUND])
    if items.empty or rounds.empty:
        raise EvalError(
            f"{results.folder} holds no pictures of {backend!r}: run the evaluation to its end"
        )
    names, seeds = items["item"].tolist(), sorted(rounds["seed"].unique().tolist())
    place = {name: at for at, name in enumerate(names)}
    found = Readings(
        items=names,
        seeds=seeds,
        columns={name: results.table("items", [name])[name].to_pylist() for name in _CLASSES},
    )

    def cells(frame: Any) -> Any:
        """Return the number of the item and of the seed of each row."""
        return frame["item"].map(place), frame["seed"].map(seeds.index)

    lost = rounds["state"] == "failed"
    found.failed = rounds["condition"][lost].value_counts(sort=False).to_dict()
    rounds = rounds[~lost]
    last = rounds.groupby(_PICTURE)["round"].max()
    kept = rounds[rounds["kept"].astype(bool)].drop_duplicates(_PICTURE, keep="last")
    for condition, some in kept.groupby("condition", sort=False):
        found.prompts[condition] = [
            (place[row["item"]], row) for row in _plain(some[["item", *_DROPPED]])
        ]
    # Counted as if the arm had drawn alone: what it shares with others is its own, too.
    drawn = rounds.assign(drawn=1 + (rounds["reference_image"].fillna("") != "").astype(int))
    sums = drawn.groupby(_PICTURE, sort=False)["drawn"].sum().reset_index()
    for condition, some in sums.groupby("condition", sort=False):
        found.images[condition] = _filled(found, cells(some), some["drawn"])
    scores = _of(results, "scores", backend, [*_PICTURE, "panel", "round", *_OF_SCORE])
    of_set = (scores["item"] == "") & (scores["part"] == "")
    for row in _plain(scores[of_set]):
        key = (row["metric"], row["condition"], row["seed"], row["scope"])
        found.sets[key] = SetFigure(
            row["value"], int(row["n"] or 0), row["reason"] or "", int(row["unscored"] or 0)
        )
    scores = scores[scores["item"] != ""]
    of_round: dict[Reading, Any] = {"kept": kept.set_index(_PICTURE)["round"], "last": last}
    # Arrow joins no empty columns.
    for reading, chosen in () if scores.empty else of_round.items():
        wanted = scores[_PICTURE].join(chosen.rename("wanted"), on=_PICTURE)["wanted"]
        some = scores[wanted.fillna(0) == scores["round"].fillna(0)]
        whole = some[some["part"] == ""] if reading == "kept" else some[:0]
        for counts, out in (
            (whole["value"].isna(), found.unscored),
            (whole["value"].notna() & (whole["unscored"].fillna(0) > 0), found.partly),
        ):
            out |= whole["metric"][counts].value_counts(sort=False).to_dict()
        known = some[some["value"].notna()]
        by = known.groupby(["metric", "part", "condition", "panel"], sort=False)
        for (metric, part, condition, panel), rows in by:
            of = metric, part, condition, panel, reading
            found.values[of] = _filled(found, cells(rows), rows["value"])
    found.votes = _votes(results, backend)
    return found


def _votes(results: Results, backend: str) -> Votes | None:
    """Return the verdicts of all panels; none where there is one panel."""
    rows = _of(results, "verdicts", backend, ["item", "arm", "panel", "round", "fact", "state"])
    panel = rows["panel"].unique().tolist()
    if len(panel) < 2:
        return None
    rows["picture"] = rows.groupby(["item", "arm"], sort=False).ngroup()
    rows["at"] = rows.groupby(["picture", "round", "fact"], sort=False).ngroup()
    pictures = rows.drop_duplicates("at").sort_values("at")["picture"].to_numpy(np.intp)
    said = np.full((len(pictures), len(panel)), np.nan)
    said[rows["at"], rows["panel"].map(panel.index)] = rows["state"].map(_VOTE)
    return Votes(panel, pictures, said)


def _filled(found: Readings, cells: Any, values: Any) -> Array:
    """Return (items, seeds) with ``values`` at ``cells``, else NaN."""
    made = found._blank()
    made[cells] = values
    return made


def _of(results: Results, table: Table, backend: str, columns: list[str]) -> Any:
    """Return the rows of a table that are of ``backend``."""
    rows = results.frame(table, ["backend", *columns])
    return rows[rows["backend"] == backend].drop(columns="backend")


def _plain(rows: Any) -> list[dict[str, Any]]:
    """Return rows as dicts, None for what is not there."""
    found: list[dict[str, Any]] = rows.astype(object).where(rows.notna(), None).to_dict("records")
    return found
