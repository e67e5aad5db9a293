"""The scores of a finished evaluation by metric and voter, as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.errors import EvalError
from scenewright.evals.runner.independence import self_report_notes
from scenewright.evals.runner.served_versions import version_notes
from scenewright.evals.store.results import Results
from scenewright.evals.store.schema import arm_name
from scenewright.evals.studies.panel.sources.ratings import Shown
from scenewright.evals.studies.panel.table import AnswerTable, ImageRow, JudgeColumn
from scenewright.evals.studies.peers.panel_metric import AGGREGATOR, JUDGE
from scenewright.evals.studies.prompts_read import PromptsRead

PANEL = "panel:"
"""Begins the voter of a metric that the evaluation's own panels score, such as ``sgscore``."""
_SCORES = (
    *("item", "arm", "backend", "condition", "seed", "panel", "round", "image"),
    *("metric", "version", "part", "value"),
)
_Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Voted:
    """What one voter makes of a metric."""

    metric: str
    """The metric; with the end of its version where the evaluation has two of the name."""
    voter: str
    """``judge:ID``, ``aggregator:NAME``, ``panel:NAME``, or empty for a metric without voters."""
    values: Array
    """(items, arms, seeds), NaN where there is no score. Of a metric of sets (arms, seeds) in one
    row, see :attr:`of_set`."""
    of_set: bool = False
    """Whether it scores a set of pictures as a whole."""


@dataclass(frozen=True, slots=True)
class PeerScores:
    """All scores of an evaluation."""

    name: str
    """The evaluation."""
    items: tuple[str, ...]
    """Items with a score, in their order."""
    arms: tuple[str, ...]
    """``backend/condition``."""
    seeds: tuple[int, ...]
    """Seeds."""
    voted: tuple[Voted, ...]
    """By metric, in the order of the evaluation; judges, aggregators, panels."""
    pictures: tuple[ImageRow, ...]
    """The pictures with a score, item by item."""
    shown: tuple[Shown, ...]
    """The same, as ratings name them."""
    places: tuple[tuple[int, int, int], ...]
    """(item, arm, seed) of each picture, as indices of :attr:`Voted.values`."""
    self_reports: tuple[str, ...] = ()
    """Whose scores are by models that steered the loops of an arm, a sentence each."""
    prompts: Mapping[str, PromptsRead | None] = field(default_factory=dict)
    """Arm → what of the prompts of its kept pictures was not read."""

    def table(self) -> AnswerTable:
        """The pictures as a table without answers, which ratings may be joined to."""
        return AnswerTable(self.name, (JudgeColumn("none"),), self.pictures, (), np.zeros((0, 1)))

    def of_pictures(self, voted: Voted) -> Array:
        """The scores of :attr:`pictures`, (n_pictures,); NaN for a metric of sets."""
        if voted.of_set:
            return np.full(len(self.pictures), np.nan)
        return np.array([voted.values[place] for place in self.places])


def peer_scores(results: Results) -> PeerScores:
    """The scores of the pictures that each arm gives. Raises ``EvalError`` where there are none."""
    rows = _rows(results)
    kept = _kept(results)
    alone = [r for r in rows if r["item"] and (r["item"], r["arm"], r["round"]) in kept]
    sets = [r for r in rows if not r["item"]]
    if not alone and not sets:
        raise EvalError(
            f"{results.folder} holds no scores: finish it with `scenewright eval run`, and name "
            "metrics in its configuration"
        )
    names = _names(rows)
    items = _distinct(row["item"] for row in alone)
    arms = _distinct(f"{row['backend']}/{row['condition']}" for row in [*alone, *sets])
    seeds = tuple(sorted({row["seed"] for row in [*alone, *sets]}))
    at = (_numbers(items), _numbers(arms), _numbers(seeds))
    voting = {names[_key(row)] for row in alone if row["part"]}
    judges: dict[str, set[str]] = {}
    for row in alone:
        if row["part"].startswith(JUDGE):
            judges.setdefault(names[_key(row)], set()).add(row["part"])
    values: dict[tuple[str, str, bool], Array] = {}
    pictures: dict[tuple[int, int, int], ImageRow] = {}
    for row in [*alone, *sets]:
        metric, of_set = names[_key(row)], not row["item"]
        # The metric's own value is that of one of its aggregators.
        if metric in voting and not row["part"]:
            continue
        # Of one judge every aggregator makes the same.
        if row["part"].startswith(AGGREGATOR) and len(judges.get(metric, ())) == 1:
            continue
        arm = f"{row['backend']}/{row['condition']}"
        place = (0 if of_set else at[0][row["item"]], at[1][arm], at[2][row["seed"]])
        voter = row["part"] or (f"{PANEL}{row['panel']}" if row["panel"] else "")
        found = values.setdefault(
            (metric, voter, of_set),
            np.full((1 if of_set else len(items), len(arms), len(seeds)), np.nan),
        )
        if row["value"] is not None:
            found[place] = row["value"]
        if not of_set and place not in pictures:
            pictures[place] = ImageRow(f"{row['item']}|{row['arm']}", row["item"], arm)
    places = tuple(sorted(pictures))
    order = {name: number for number, name in enumerate(dict.fromkeys(names.values()))}
    return PeerScores(
        name=str(results.manifest.get("name") or results.folder.name),
        items=items,
        arms=arms,
        seeds=seeds,
        voted=tuple(
            Voted(*key[:2], found, key[2])
            for key, found in sorted(values.items(), key=lambda v: _order(order, v[0]))
        ),
        pictures=tuple(pictures[place] for place in places),
        shown=tuple(_shown(pictures[place], seeds[place[2]]) for place in places),
        places=places,
        prompts=_prompts(results, arms),
        self_reports=(*self_report_notes(results.manifest), *version_notes(results.manifest)),
    )


def _rows(results: Results) -> list[_Row]:
    table = results.table("scores", [*_SCORES, "scope"])
    part = table.column("part")
    wanted = pc.equal(part, "")
    for start in (JUDGE, AGGREGATOR):
        wanted = pc.or_(wanted, pc.starts_with(part, start))
    mask = pc.and_(wanted, pc.equal(table.column("scope"), ""))
    found: list[_Row] = table.filter(mask).to_pylist() if isinstance(table, pa.Table) else []
    return found


def _kept(results: Results) -> set[tuple[str, str, int]]:
    rows = results.rows("rounds", ["item", "arm", "round", "kept"])
    return {(row["item"], row["arm"], row["round"]) for row in rows if row["kept"]}


def _prompts(results: Results, arms: tuple[str, ...]) -> dict[str, PromptsRead | None]:
    columns = ["backend", "condition", "kept", "tokens_dropped", "facts_dropped"]
    kept = [row for row in results.rows("rounds", columns) if row["kept"]]
    return {
        arm: PromptsRead.of(r for r in kept if f"{r['backend']}/{r['condition']}" == arm)
        for arm in arms
    }


def _key(row: _Row) -> tuple[str, str]:
    return row["metric"], row["version"]


def _names(rows: list[_Row]) -> dict[tuple[str, str], str]:
    """Metric and version → how tables call it."""
    keys = dict.fromkeys(_key(row) for row in rows)
    versions: dict[str, int] = {}
    for metric, _ in keys:
        versions[metric] = versions.get(metric, 0) + 1
    return {key: key[0] if versions[key[0]] == 1 else f"{key[0]} ({key[1][-8:]})" for key in keys}


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _numbers(values: tuple[Any, ...]) -> dict[Any, int]:
    return {value: at for at, value in enumerate(values)}


def _order(order: dict[str, int], key: tuple[str, str, bool]) -> tuple[int, int]:
    kinds = (JUDGE, AGGREGATOR, PANEL)
    kind = next((at for at, start in enumerate(kinds) if key[1].startswith(start)), len(kinds))
    return order[key[0]], kind


def _shown(picture: ImageRow, seed: int) -> Shown:
    backend, _, condition = picture.model.partition("/")
    arm = arm_name(backend, condition, seed)
    return Shown(picture.item, arm, picture.model, 0, True)
