"""Read the answers of an evaluation or of runs as a table.

An evaluation gives every judged picture, by the judges of all its panels. Runs give every round's
picture, by the judges of loop and report: the answers are those that the run kept. The judges of
the loop saw every round; those of the report, as a rule, the first and the kept one, so that the
others are unasked there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from scenewright.config.settings import Settings
from scenewright.core.facts import Answer, Fact
from scenewright.core.images import ImageStore
from scenewright.evals.judge_reports.labelled_facts import LabelledFact, Picture
from scenewright.evals.runner.served_versions import version_notes
from scenewright.evals.store.journal import answer_of
from scenewright.evals.store.results import IMAGES, Results
from scenewright.evals.studies.panel.sources.live_judges import Loaded
from scenewright.evals.studies.panel.sources.ratings import Shown, with_ratings
from scenewright.evals.studies.panel.study import LiveJudges, ModelOf
from scenewright.evals.studies.panel.table import (
    AnswerTable,
    FactRow,
    ImageRow,
    JudgeColumn,
    PanelStudyError,
    answer_arrays,
)
from scenewright.providers import AnswerStore
from scenewright.providers.versions import mixture_text
from scenewright.runs.folder import EVENTS, RunError
from scenewright.runs.result import JudgeAnswers, RoundRecord, RunResult, load_run

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
    """Return the evaluation in ``folder``.

    Raises ``EvalError`` where there is none and ``PanelStudyError`` where no picture was judged,
    and for ratings that do not fit; with ``ask_again`` also what ``profiles.build_panel`` raises.
    """
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
    """Return the table of ``results``.

    A fact that a panel did not ask, because its object is absent, is unasked; one judge in two
    panels is one column, with its first usable answer.

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
        **answer_arrays(
            asked, [[None if row is None else answer_of(row) for row in line] for line in cells]
        ),
    )
    loop = {judge for ids in steering.values() for judge in ids}
    loop_judges = tuple(judge for judge in judges if judge in loop)
    return Evaluated(table, tuple(shown), tuple(hashes), tuple(asked), loop_judges, notes)


def model_of(row: Mapping[str, Any], model: ModelOf) -> str:
    """Return the name of the model of a row of the table ``rounds``."""
    if model == "backend/condition":
        return f"{row['backend']}/{row['condition']}"
    return str(row[model])


def _fingerprints(models: Mapping[str, Any]) -> dict[str, str]:
    return {
        judge["id"]: judge["fingerprint"]
        for panel in models.get("panels", {}).values()
        for judge in panel
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


_Cell = dict[str, Answer]
"""Judge → its answer."""


def load_runs(folder: Path) -> Loaded:
    """Return the run in ``folder``, or all runs in folders directly below it, finished or not.

    Items are scenes: runs of one scene share its questions. Facts that no scene graph states are
    left out, and so are rounds of a scene that was edited away. Raises ``PanelStudyError`` where
    there is no run, one cannot be read, or no judge answered.
    """
    runs = [_read(place) for place in _folders(folder)]
    judges: dict[str, str] = {}
    loop: dict[str, None] = {}
    images: list[ImageRow] = []
    rows: list[FactRow] = []
    cells: list[_Cell] = []
    unjudged = 0
    asked: list[Fact] = []
    answers: dict[str, list[Answer]] = {}
    for run in runs:
        item = run.scene.digest
        for record in run.rounds:
            if record.round < run.first_round:
                continue
            if not record.answers:
                unjudged += 1
                continue
            loop |= {said.judge_id: None for said in record.answers if said.role == "loop"}
            said = _by_fact(record)
            facts = [fact for fact in run.facts if fact.of_graph]
            number, first = len(images), len(rows)
            at = {fact.id: first + place for place, fact in enumerate(facts)}
            name = f"{run.run_id}/{record.round}"
            images.append(ImageRow(name, item, record.strategy or "first", record.round))
            for fact in facts:
                parents = tuple(at[parent] for parent in fact.parents if parent in at)
                rows.append(FactRow(fact.id, number, fact.kind, "", fact.question, parents))
                asked.append(fact)
                cells.append(said.get(fact.id, {}))
            for given in record.answers:
                judges.setdefault(given.judge_id, "")
                answers.setdefault(given.judge_id, []).extend(given.answers)
                models = (answer.model for answer in given.answers if answer.model)
                judges[given.judge_id] = judges[given.judge_id] or next(models, "")
    if not judges:
        raise PanelStudyError(f"no judge answered in the runs of {folder}: let one finish a round")
    table = AnswerTable(
        name=folder.name,
        judges=tuple(JudgeColumn(judge, fingerprint=mark) for judge, mark in judges.items()),
        images=tuple(images),
        facts=tuple(rows),
        **answer_arrays(asked, [[cell.get(judge) for judge in judges] for cell in cells]),
    )
    notes = (
        f"What drew is the strategy of the round: “{images[0].model}” where there was none.",
        *(text for judge, given in answers.items() if (text := mixture_text(judge, given))),
        *([f"{unjudged} rounds that no judge looked at are left out."] if unjudged else []),
    )
    about = f"Answers kept by {len(runs)} {'run' if len(runs) == 1 else 'runs'} of the loop."
    return Loaded(table, about, None, tuple(judge for judge in judges if judge in loop), notes)


def _folders(folder: Path) -> list[Path]:
    if (folder / EVENTS).is_file():
        return [folder]
    try:
        found = sorted(place for place in folder.iterdir() if (place / EVENTS).is_file())
    except OSError as error:
        raise PanelStudyError(f"{folder} cannot be read: {error.strerror or error}") from error
    if not found:
        raise PanelStudyError(
            f"{folder} is not a run folder and contains none: name a folder that `scenewright "
            "refine` wrote, or one with such folders in it"
        )
    return found


def _read(place: Path) -> RunResult:
    try:
        return load_run(place)
    except RunError as error:
        raise PanelStudyError(f"{place}: {error}") from error


def _by_fact(record: RoundRecord) -> dict[str, _Cell]:
    found: dict[str, _Cell] = {}
    for judge, answer in _answers(record.answers):
        found.setdefault(answer.fact_id, {})[judge] = answer
    return found


def _answers(given: tuple[JudgeAnswers, ...]) -> Iterator[tuple[str, Answer]]:
    for said in given:
        for answer in said.answers:
            if answer.state != "void":
                yield said.judge_id, answer
