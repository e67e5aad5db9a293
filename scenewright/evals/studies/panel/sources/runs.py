"""Runs of the loop as a table: every round's picture, by the judges of loop and report.

A round's answers are those that the run kept. The judges of the loop looked at every round; those
of the report, as a rule, at the first and the kept one, so that the others are unasked there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from scenewright.agents.panel.panel import lead_of
from scenewright.core.facts import Answer, Fact, is_realism
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.sources.base import Loaded
from scenewright.evals.studies.panel.table import AnswerTable, FactRow, ImageRow, JudgeColumn
from scenewright.providers.versions import mixture_text
from scenewright.runs.folder import EVENTS, RunError
from scenewright.runs.records import JudgeAnswers, RoundRecord, RunResult, load_run

_Cell = dict[str, Answer]
"""Judge → its answer."""


def load_runs(folder: Path) -> Loaded:
    """The run in ``folder``, or all runs in folders directly below it, finished or not.

    Items are scenes: runs of one scene share its questions. Facts of realism are left out, and so
    are rounds of a scene that was edited away. Raises ``PanelStudyError`` where there is no run,
    one cannot be read, or no judge answered.
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
            facts = [fact for fact in run.facts if not is_realism(fact.id)]
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
        asked=np.array([[judge in cell for judge in judges] for cell in cells], bool),
        **_arrays(cells, asked, list(judges)),
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
            f"{folder} is no run and holds none: name a folder that `scenewright refine` wrote, or "
            "one with such folders in it"
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


def _arrays(cells: list[_Cell], facts: list[Fact], judges: list[str]) -> dict[str, Any]:
    shape = (len(cells), len(judges))
    found = {name: np.zeros(shape) for name in ("seconds", "tokens", "usd")}
    found |= {name: np.full(shape, np.nan) for name in ("said", "votes")}
    for row, cell in enumerate(cells):
        for column, judge in enumerate(judges):
            answer = cell.get(judge)
            if answer is None:
                continue
            found["seconds"][row, column] = answer.seconds
            found["tokens"][row, column] = answer.tokens_in + answer.tokens_out
            found["usd"][row, column] = answer.usd
            if answer.state in ("yes", "no"):
                vote = float(answer.state == "yes")
                found["votes"][row, column] = vote
                known = lead_of(facts[row], answer)
                found["said"][row, column] = vote if known is None else known
    return found
