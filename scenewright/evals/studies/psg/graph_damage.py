"""Graded damage of scene graphs: what one wrong fact costs, and what no score sees.

Reference graphs are damaged edit by edit (:mod:`scenewright.evals.studies.psg.damage_edits`) and
scored against themselves, by the PSG-style score and by the graph's side of XTC-Bench's G: the
questions of the reference, looked up in the damaged graph by matching, and graded. Nothing is
drawn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scenewright.config.settings import Settings
from scenewright.core.scene import SceneGraph
from scenewright.evals.metrics.graph_edit import psg_score
from scenewright.evals.metrics.graph_matching.base import TextSimilarity
from scenewright.evals.metrics.graph_matching.matching import match_graphs
from scenewright.evals.statistics.estimates import Array, Estimate, difference, mean, nothing
from scenewright.evals.studies import plots
from scenewright.evals.studies.context import Context
from scenewright.evals.studies.layout import Cell, Column, Layout, Row
from scenewright.evals.studies.psg.damage_edits import (
    DAMAGES,
    ELEMENTS,
    LAYERS,
    MOST_EDITS,
    WAYS,
    Damage,
    Layered,
    damaged,
    reference_graph,
)
from scenewright.evals.studies.setup import Setup
from scenewright.evals.studies.study import Outcome, StudyDefinition, Trial
from scenewright.evals.studies.xtc.base import Grader, Question
from scenewright.evals.studies.xtc.lookup import answer_of
from scenewright.evals.studies.xtc.questions import questions_of
from scenewright.evals.studies.xtc.scores import COMPARED
from scenewright.evals.studies.xtc.units import graded

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from scenewright.evals.runner.progress import OnProgress

MOST_GRAPHS = 24
"""Reference graphs; all damages of one take about a second."""
SCORES: dict[str, str] = {"psg": "PSG-style score", "xtc": "XTC-Bench's G"}
"""Score → how tables call it."""
_SAME = 1e-9


@dataclass(frozen=True, slots=True)
class Measured:
    """Scores of damaged graphs."""

    values: dict[tuple[str, str], Array] = field(default_factory=dict)
    """(score, key of the damage) → (graphs, edits from 0), in [0, 1]; NaN where unscored."""


def wants(setup: Setup, settings: Settings) -> tuple[Trial, ...]:
    """A trial that draws nothing."""
    graphs = min(setup.scenes, MOST_GRAPHS)
    return (Trial("graph_damage", "graph damage", graphs, "graphs", partial(_run, graphs)),)


async def _run(
    graphs: int, folder: Path, told: OnProgress | None, retry: bool
) -> tuple[Measured, Context]:
    # Nothing of it is kept: what failed is tried again anyway.
    from scenewright.evals.metrics.graph_matching.similarities import similarity_of
    from scenewright.evals.studies.xtc.graders import grader_of

    similarity, grader = similarity_of("exact"), grader_of("exact")
    try:
        found = await measure(graphs, similarity, grader, told)
        models = {"texts compared by": similarity.id, "graded by": grader.id}
    finally:
        await grader.aclose()
    context = Context(
        set_name="graphs made up by seed",
        fingerprint=f"damage@1/{graphs}",
        items=graphs,
        seeds=(0,),
        models=models,
        draws=False,
    )
    return found, context


async def measure(
    graphs: int, similarity: TextSimilarity, grader: Grader, told: OnProgress | None = None
) -> Measured:
    """Both scores of every damage of ``graphs`` reference graphs."""
    found = Measured(
        {
            (score, damage.key): np.full((graphs, 1 + MOST_EDITS), np.nan)
            for score in SCORES
            for damage in DAMAGES
        }
    )
    for at in range(graphs):
        reference = reference_graph(at)
        steps = [(damage, list(damaged(reference, damage, at))) for damage in DAMAGES]
        await asyncio.to_thread(_score_psg, found, at, reference, steps)
        sheet = questions_of(reference.scene)
        questions = [question for question in sheet.questions if question.kind in COMPARED]
        for damage, seen in steps:
            for edits, one in enumerate(seen):
                found.values["xtc", damage.key][at, edits] = await generation(
                    reference.scene, one.scene, questions, similarity, grader
                )
        if told is not None:
            from scenewright.evals.runner.progress import Progress

            told(Progress(doing="damaging graphs", items=at + 1))
    return found


def _score_psg(
    found: Measured, at: int, reference: Layered, steps: list[tuple[Damage, list[Layered]]]
) -> None:
    for damage, seen in steps:
        for edits, one in enumerate(seen):
            score = psg_score(
                reference.scene,
                one.scene,
                background=one.background,
                reference_background=reference.background,
            )
            found.values["psg", damage.key][at, edits] = score.value


async def generation(
    reference: SceneGraph,
    seen: SceneGraph,
    questions: Sequence[Question],
    similarity: TextSimilarity,
    grader: Grader,
) -> float:
    """The graph's side of G: mean grade, in [0, 1], of what ``seen`` answers to ``questions`` of
    ``reference``; NaN if an answer could not be graded."""
    match = match_graphs(reference, seen, similarity)
    answers = [answer_of(match, reference, seen, question) for question in questions]
    given = [
        (question, answer.text)
        for question, answer in zip(questions, answers, strict=True)
        if not answer.missing
    ]
    grades = [grade.score for grade in await graded(grader, given)]
    # What is missing is wrong, whatever a grader would make of the word.
    scores = [0] * (len(answers) - len(given)) + [score for score in grades if score is not None]
    if len(scores) < len(answers) or not scores:
        return float("nan")
    return float(np.mean(scores)) / 5


def outcome(setup: Setup, settings: Settings, found: tuple[Measured, ...]) -> Outcome:
    """A table a score: a row a kind of damage, a column an edit."""
    (measured,) = found
    tables = tuple(_layout(measured, score) for score in SCORES)
    return Outcome(
        tables,
        (),
        lambda: _plot(measured),
        _notes(measured),
        {"falling_steps": {score: _falls(measured, score) for score in SCORES}},
    )


def _layout(found: Measured, score: str) -> Layout:
    rows = []
    for damage in DAMAGES:
        values = found.values[score, damage.key]
        cells = [Cell(measured=mean(values[:, [edits]])) for edits in range(1 + MOST_EDITS)]
        cells.append(Cell(measured=mean(_falling(values)).times(100)))
        rows.append(
            Row(
                key=damage.key,
                title=f"{damage.way} {damage.element}, {damage.layer}",
                cells=tuple(cells),
            )
        )
    edits = [Column(key=str(n), title=str(n), digits=3) for n in range(1 + MOST_EDITS)]
    return Layout(
        id=f"damage_{score}",
        title=f"{SCORES[score]} after so many edits",
        head="Damage",
        columns=(*edits, Column(key="falls", title="steps at which it falls (%)", digits=0)),
        rows=tuple(rows),
        of_paper=False,
    )


def _falling(values: Array) -> Array:
    """(graphs, 1): share of the edits at which the score falls."""
    steps = np.diff(values, axis=1)
    share: Array = np.where(np.isnan(steps).any(1), np.nan, (steps < -_SAME).mean(1))
    return share[:, None]


def _falls(found: Measured, score: str) -> dict[str, int]:
    """How many single edits make ``score`` fall, leave it or raise it."""
    steps = np.concatenate(
        [np.diff(found.values[score, damage.key], axis=1).ravel() for damage in DAMAGES]
    )
    return {
        "fall": int((steps < -_SAME).sum()),
        "same": int((np.abs(steps) <= _SAME).sum()),
        "rise": int((steps > _SAME).sum()),
    }


def _notes(found: Measured) -> tuple[str, ...]:
    notes = [
        "Graphs have 16 objects, half of them in the background, and 20 relations. Every edit is "
        "of another element; deleting an object takes its relations with it.",
        "Both layers of the reference are known here. Of a picture only those of what is seen are: "
        "there a missing object counts in full (docs/graphs.md).",
    ]
    for score, title in SCORES.items():
        counts = _falls(found, score)
        total = sum(counts.values())
        notes.append(
            f"{title} falls at {counts['fall']:,} of {total:,} single edits, stays at "
            f"{counts['same']:,} and rises at {counts['rise']:,}."
        )
        lost = sum(
            int(np.isnan(values).sum()) for (of, _), values in found.values.items() if of == score
        )
        if lost:
            notes.append(f"{title} of {lost:,} damaged graphs is unscored, and left out.")
    blind = [
        f"{way} {element}"
        for element in ELEMENTS
        for way in WAYS
        if all(_flat(found.values["xtc", Damage(element, way, layer).key]) for layer in LAYERS)
    ]
    if blind:
        notes.append(
            f"XTC-Bench's G does not see: {', '.join(blind)}. It asks about the reference alone, "
            "so what a picture has too much costs nothing."
        )
    if _falls(found, "xtc")["same"]:
        notes.append(
            "Where it stays at other damage, no question asks for the fact, or another object of "
            "the name answers as well."
        )
    gap = _layers(found)
    if gap.value is not None:
        notes.append(
            "The same six edits cost the PSG-style score more in the foreground than in the "
            f"background, by {gap.text(3)} over graphs and kinds of damage."
        )
    return tuple(notes)


def _flat(values: Array) -> bool:
    return bool((np.abs(values - values[:, :1]) <= _SAME).all())


def _layers(found: Measured) -> Estimate:
    """What six edits of the foreground cost more than six of the background."""
    pairs = [
        tuple(
            found.values["psg", Damage(element, way, layer).key][:, -1]
            for layer in ("background", "foreground")
        )
        for element in ELEMENTS
        for way in WAYS
    ]
    if not pairs:
        return nothing("nothing was damaged")
    behind, front = (np.mean([pair[side] for pair in pairs], axis=0)[:, None] for side in (0, 1))
    return difference(behind, front)


def _plot(found: Measured) -> Figure:
    made, axes = plots.figure(len(ELEMENTS), len(WAYS), size=(9.6, 8.4))
    lowest = min(float(np.nanmin(values)) for values in found.values.values())
    for row, element in zip(axes, ELEMENTS, strict=True):
        for axis, way in zip(row, WAYS, strict=True):
            plots.lines(axis, _curves(found.values, element, way))
            axis.set_title(f"{way} {element}")
            axis.set_ylim(max(0.0, np.floor(10 * lowest) / 10), 1.02)
            axis.set_xticks(range(1 + MOST_EDITS))
        row[0].set_ylabel("score, 95 % interval")
    for axis in axes[-1]:
        axis.set_xlabel("edits")
    made.suptitle("Scores of damaged graphs")
    plots.legend(made, axes[0][0], columns=2)
    figure: Figure = made
    return figure


def _curves(
    values: Mapping[tuple[str, str], Array], element: str, way: str
) -> dict[str, list[tuple[float, Estimate]]]:
    return {
        f"{title}, {layer}": [
            (float(edits), mean(values[score, f"{element}/{way}/{layer}"][:, [edits]]))
            for edits in range(1 + MOST_EDITS)
        ]
        for score, title in SCORES.items()
        for layer in LAYERS
    }


STUDY = StudyDefinition(
    "graph_damage",
    "graph_damage",
    "Graph damage",
    "what each wrong node, attribute and relation costs two scores of graphs",
    wants,
    outcome,
)
