"""An evaluation's answers as a table: every judged picture, by the judges of all its panels."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from scenewright.agents.panel.panel import lead_of
from scenewright.config.settings import Settings
from scenewright.core.facts import Fact
from scenewright.core.images import ImageStore
from scenewright.evals.judge_reports.labelled_facts import LabelledFact, Picture
from scenewright.evals.runner.served_versions import version_notes
from scenewright.evals.store.export import answer_of
from scenewright.evals.store.results import IMAGES, Results
from scenewright.evals.studies.panel.base import LiveJudges
from scenewright.evals.studies.panel.config import ModelOf
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.sources.base import Loaded
from scenewright.evals.studies.panel.sources.ratings import Shown, with_ratings
from scenewright.evals.studies.panel.table import AnswerTable, FactRow, ImageRow, JudgeColumn
from scenewright.providers import AnswerStore

_ROUND = ["item", "arm", "backend", "condition", "round", "kept", "image"]
_ANSWER = [
    *("item", "arm", "round", "judge", "fact", "state", "probability", "protocol"),
    *("choice", "distribution"),
    *("tokens_in", "tokens_out", "seconds", "usd"),
]
_Key = tuple[str, str, int]
"""(item, arm, round)."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """An evaluation's answers, and what each of its pictures is."""

    table: AnswerTable
    """The answers; an image's id is ``ARM/ROUND/ITEM``."""
    shown: tuple[Shown, ...]
    """One an image."""
    hashes: tuple[str, ...]
    """Content hash of each image."""
    facts: tuple[Fact, ...]
    """What was asked, one a row of the table."""
    loop_judges: tuple[str, ...]
    """Judges of the table that steered a loop of any arm."""
    notes: tuple[str, ...]
    """What was left out."""


async def load_evaluation(
    folder: str | Path,
    *,
    store: AnswerStore,
    settings: Settings,
    model: ModelOf = "backend/condition",
    ratings: str | Path | None = None,
    ask_again: bool = False,
) -> Loaded:
    """The evaluation in ``folder``. Raises ``EvalError`` where there is none and
    ``PanelStudyError`` where no picture was judged, and for ratings that do not fit; with
    ``ask_again`` also what ``profiles.panel_of`` raises."""
    results = Results(folder)
    found = read_evaluation(results, model)
    table, notes = found.table, found.notes
    if ratings is not None:
        table, more = with_ratings(table, found.shown, ratings)
        notes += more
    live = None
    if ask_again:
        live, more = await _live(results, replace(found, table=table), store, settings)
        notes += more
    about = (
        f"Answers of the evaluation {results.manifest.get('name', results.folder.name)}, on the "
        f"set {results.manifest.get('dataset', {}).get('name', '?')}."
    )
    return Loaded(table, about, live, found.loop_judges, notes)


def read_evaluation(results: Results, model: ModelOf = "backend/condition") -> Evaluated:
    """The table of ``results``. A fact that a panel did not ask, because its object is absent, is
    unasked; one judge in two panels is one column, with its first usable answer.

    Raises ``PanelStudyError`` where no picture was judged.
    """
    said: dict[_Key, dict[tuple[str, str], dict[str, Any]]] = {}
    main = str((results.manifest.get("config") or {}).get("protocol") or "")
    for row in results.rows("answers", _ANSWER):
        if main and row["protocol"] not in (None, "", main):
            continue
        cell = said.setdefault((row["item"], row["arm"], row["round"]), {})
        asks = (row["fact"], row["judge"])
        if asks not in cell or cell[asks]["state"] not in ("yes", "no"):
            cell[asks] = row
    if not said:
        raise PanelStudyError(
            f"{results.folder} holds no answers of judges: run the evaluation to its end, with a "
            "metric that asks them (sgscore)"
        )
    facts_of = {
        row["item"]: [Fact.model_validate(one) for one in json.loads(row["facts"])]
        for row in results.rows("items", ["item", "facts"])
    }
    models: Mapping[str, Any] = results.manifest.get("models", {})
    fingerprints = _fingerprints(models)
    judges = list(dict.fromkeys([*fingerprints, *(j for cell in said.values() for _, j in cell)]))
    answered = {judge for cell in said.values() for _, judge in cell}
    judges = [judge for judge in judges if judge in answered]
    steering = {
        arm: [judge["id"] for judge in about["judges"]]
        for arm, about in models.get("arms", {}).items()
    }
    images: list[ImageRow] = []
    shown: list[Shown] = []
    hashes: list[str] = []
    rows: list[FactRow] = []
    asked: list[Fact] = []
    cells: list[list[dict[str, Any] | None]] = []
    unjudged = 0
    for row in results.rows("rounds", _ROUND):
        key = (row["item"], row["arm"], row["round"])
        if key not in said:
            unjudged += 1
            continue
        number, first = len(images), len(rows)
        name = model_of(row, model)
        loops = bool(steering.get(row["arm"]))
        images.append(
            ImageRow(
                f"{row['arm']}/{row['round']}/{row['item']}",
                row["item"],
                name,
                row["round"] if loops else None,
            )
        )
        shown.append(Shown(row["item"], row["arm"], name, row["round"], bool(row["kept"])))
        hashes.append(row["image"])
        facts = facts_of[row["item"]]
        at = {fact.id: first + place for place, fact in enumerate(facts)}
        for fact in facts:
            parents = tuple(at[parent] for parent in fact.parents if parent in at)
            rows.append(FactRow(fact.id, number, fact.kind, "", fact.question, parents))
            asked.append(fact)
            cells.append([said[key].get((fact.id, judge)) for judge in judges])
    # A judge is one column here, whichever of its versions answered.
    notes = version_notes(results.manifest)
    if unjudged:
        notes += (f"{unjudged} drawings without answers (failed, or not judged) are left out.",)
    table = AnswerTable(
        name=str(results.manifest.get("name", results.folder.name)),
        judges=tuple(JudgeColumn(j, fingerprint=fingerprints.get(j, "")) for j in judges),
        images=tuple(images),
        facts=tuple(rows),
        asked=np.array([[cell is not None for cell in row] for row in cells], bool),
        **_arrays(cells, asked),
    )
    loop = {judge for ids in steering.values() for judge in ids}
    loop_judges = tuple(judge for judge in judges if judge in loop)
    return Evaluated(table, tuple(shown), tuple(hashes), tuple(asked), loop_judges, notes)


def model_of(row: Mapping[str, Any], model: ModelOf) -> str:
    """What counts as the model of a row of the table ``rounds``."""
    if model == "backend/condition":
        return f"{row['backend']}/{row['condition']}"
    return str(row[model])


def _fingerprints(models: Mapping[str, Any]) -> dict[str, str]:
    return {
        judge["id"]: judge["fingerprint"]
        for panel in models.get("panels", {}).values()
        for judge in panel
    }


def _arrays(
    cells: Sequence[Sequence[dict[str, Any] | None]], facts: Sequence[Fact]
) -> dict[str, Any]:
    """What each judge said and what that took, arrays (n_facts, n_judges) by field."""

    def vote(row: dict[str, Any] | None) -> float:
        state = None if row is None else row["state"]
        return 1.0 if state == "yes" else 0.0 if state == "no" else np.nan

    def likely(fact: Fact, row: dict[str, Any] | None) -> float:
        known = None if row is None else lead_of(fact, answer_of(row))
        return vote(row) if known is None else known

    def summed(*names: str) -> Any:
        return [
            [0.0 if row is None else float(sum(row[name] or 0 for name in names)) for row in line]
            for line in cells
        ]

    return {
        "said": np.array(
            [[likely(fact, row) for row in line] for fact, line in zip(facts, cells, strict=True)]
        ),
        "votes": np.array([[vote(row) for row in line] for line in cells]),
        "seconds": np.array(summed("seconds")),
        "tokens": np.array(summed("tokens_in", "tokens_out")),
        "usd": np.array(summed("usd")),
    }


async def _live(
    results: Results, found: Evaluated, store: AnswerStore, settings: Settings
) -> tuple[LiveJudges, tuple[str, ...]]:
    from scenewright.evals.studies.panel.sources.live_judges import judges_of

    table = found.table
    judges = await judges_of(table.judge_ids, settings)
    changed = [
        judge.id
        for judge, column in zip(judges, table.judges, strict=True)
        if column.fingerprint and judge.fingerprint != column.fingerprint
    ]
    notes = (
        (
            f"{', '.join(changed)}: not the model that answered in the evaluation (another "
            "fingerprint); parts that ask again ask the new one.",
        )
        if changed
        else ()
    )
    images = ImageStore(results.folder / IMAGES)
    pictures = [Picture(name, partial(images.get, name)) for name in found.hashes]
    facts = tuple(
        LabelledFact(
            pictures[row.image],
            # Facts of several scenes are asked together: ids are their own, and no parents.
            fact.model_copy(
                update={"id": f"{table.images[row.image].id} {fact.id}", "parents": ()}
            ),
            bool(table.truth[at] == 1.0),
            row.group,
        )
        for at, (row, fact) in enumerate(zip(table.facts, found.facts, strict=True))
    )
    return LiveJudges(judges, facts, store, settings.judge_timeout), notes
