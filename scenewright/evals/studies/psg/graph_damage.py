"""Graded damage of scene graphs: what one wrong fact costs, and what no score sees.

Reference graphs of known layers are damaged edit by edit and scored against themselves, by the
PSG-style score and by the graph's side of XTC-Bench's G: the questions of the reference, looked up
in the damaged graph by matching, and graded. Nothing is drawn.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from scenewright.config.settings import Settings
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.metrics.graph_edit import psg_score
from scenewright.evals.metrics.graph_matching.matching import match_graphs
from scenewright.evals.metrics.graph_matching.text_similarity import TextSimilarity
from scenewright.evals.reporting import plots
from scenewright.evals.statistics.answers import Contrast, PlainAnswer, difference_answer
from scenewright.evals.statistics.estimates import Array, Estimate, difference, mean, nothing
from scenewright.evals.studies.layout import Column, Layout, columns_of
from scenewright.evals.studies.study import Context, Outcome, Setup, StudyDefinition, Trial
from scenewright.evals.studies.xtc.base import Grader, Question
from scenewright.evals.studies.xtc.grading import graded
from scenewright.evals.studies.xtc.lookup import answer_of
from scenewright.evals.studies.xtc.questions import questions_of
from scenewright.evals.studies.xtc.scores import COMPARED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from scenewright.evals.runner.progress import OnProgress

Element = Literal["node", "attribute", "edge"]
Way = Literal["delete", "add", "change"]
Layer = Literal["foreground", "background"]
ELEMENTS: tuple[Element, ...] = get_args(Element)
WAYS: tuple[Way, ...] = get_args(Way)
LAYERS: tuple[Layer, ...] = get_args(Layer)
MOST_EDITS = 6

_EACH = 8
"""Objects of each layer, and relations within it: two more than are ever damaged."""
_ACROSS = 4
"""Relations from the foreground to the background. With the others there are 16 objects and 20
relations, a little more than XTC-Bench's images have (10.5 and 16.8, Table 1)."""
_NAMES: dict[Layer, tuple[str, ...]] = {
    "foreground": ("person", "dog", "cat", "horse", "bicycle", "car", "bench", "umbrella",
                   "backpack", "suitcase", "skateboard", "kite", "bottle", "laptop"),
    "background": ("tree", "building", "fence", "mountain", "road", "river", "bridge", "wall",
                   "house", "cloud", "lamp post", "hill", "rock", "window"),
}  # fmt: skip
_NEW_NAMES = ("elephant", "guitar", "teapot", "anchor", "lantern", "cactus", "drum", "ladder")
_VALUES: dict[str, tuple[str, ...]] = {
    "color": ("red", "blue", "green", "yellow", "black", "white", "brown", "purple"),
    "material": ("wood", "metal", "stone", "glass", "plastic", "fabric"),
}
_NEW_KEY = "size"
_SIZES = ("small", "large", "tiny", "huge")
# Drawn into made-up graphs, whatever they mean.
_PREDICATES = ("on", "under", "next to", "behind", "in front of", "holding", "touching", "facing")


@dataclass(frozen=True, slots=True)
class Damage:
    """A kind of damage."""

    element: Element
    """What is damaged."""
    way: Way
    """How."""
    layer: Layer
    """Where: of an edge, both of its ends."""

    @property
    def key(self) -> str:
        """``node/delete/foreground``."""
        return f"{self.element}/{self.way}/{self.layer}"


DAMAGES: tuple[Damage, ...] = tuple(
    Damage(element, way, layer) for element in ELEMENTS for way in WAYS for layer in LAYERS
)
"""Every kind, as tables show them."""


@dataclass(frozen=True, slots=True)
class Layered:
    """A graph, and which of its objects are in the background."""

    scene: SceneGraph
    """The graph."""
    background: frozenset[str]
    """Object ids."""

    def inside(self, layer: Layer) -> list[str]:
        """Return the ids of the objects of ``layer``, in the graph's order."""
        behind = layer == "background"
        return [o.id for o in self.scene.objects if (o.id in self.background) == behind]


def reference_graph(seed: int) -> Layered:
    """Return a made-up graph of 16 objects, half of them in the background, and 20 relations.

    Every object has a colour, every second one a material; no object name stands in it more than
    twice. The same ``seed`` gives the same graph.
    """
    rng = random.Random(f"damage/{seed}")
    objects: list[SceneObject] = []
    ids: dict[Layer, list[str]] = {}
    for layer, names in _NAMES.items():
        ids[layer] = []
        for at, name in enumerate(rng.sample([*names, *names[:4]], _EACH)):
            number = 1 + sum(other.name == name for other in objects)
            said = {"color": rng.choice(_VALUES["color"])}
            if at % 2:
                said["material"] = rng.choice(_VALUES["material"])
            one = SceneObject(id=f"{name}.{number}", name=name, attributes=Attributes(said))
            objects.append(one)
            ids[layer].append(one.id)
    pairs = [pair for layer in LAYERS for pair in rng.sample(_pairs(ids[layer]), _EACH)]
    crossing = [(a, b) for a in ids["foreground"] for b in ids["background"]]
    pairs += rng.sample(crossing, _ACROSS)
    relations = tuple(
        Relation(source=a, predicate=rng.choice(_PREDICATES), target=b) for a, b in pairs
    )
    scene = SceneGraph(objects=tuple(objects), relations=relations)
    return Layered(scene, frozenset(ids["background"]))


def _pairs(ids: Sequence[str]) -> list[tuple[str, str]]:
    return [(a, b) for at, a in enumerate(ids) for b in ids[at + 1 :]]


def damaged(reference: Layered, damage: Damage, seed: int) -> Iterator[Layered]:
    """Yield ``reference``, then with one edit more at a time, up to :data:`MOST_EDITS`.

    Each edit is of another element. Deleting a node takes its relations with it; a node that is
    added is bare; a change gives another name, value or predicate that the graph has nowhere near.
    """
    rng = random.Random(f"{damage.key}/{seed}")
    steps = _STEPS[damage.element](reference, damage, rng)
    yield reference
    for _ in range(MOST_EDITS):
        yield next(steps)


def _nodes(graph: Layered, damage: Damage, rng: random.Random) -> Iterator[Layered]:
    targets = rng.sample(graph.inside(damage.layer), MOST_EDITS)
    names = rng.sample(_NEW_NAMES, MOST_EDITS)
    scene, behind = graph.scene, graph.background
    for target, name in zip(targets, names, strict=True):
        objects, relations = scene.objects, scene.relations
        if damage.way == "delete":
            objects = tuple(o for o in objects if o.id != target)
            relations = tuple(r for r in relations if target not in (r.source, r.target))
            behind = behind - {target}
        elif damage.way == "change":
            objects = tuple(
                o.model_copy(update={"name": name}) if o.id == target else o for o in objects
            )
        else:
            new = SceneObject(id=f"{name}.1", name=name)
            objects = (*objects, new)
            if damage.layer == "background":
                behind = behind | {new.id}
        scene = SceneGraph(objects=objects, relations=relations)
        yield Layered(scene, behind)


def _attributes(graph: Layered, damage: Damage, rng: random.Random) -> Iterator[Layered]:
    scene = graph.scene
    for target in rng.sample(graph.inside(damage.layer), MOST_EDITS):
        objects = []
        for one in scene.objects:
            if one.id == target:
                said = dict(one.attributes)
                if damage.way == "delete":
                    del said["color"]
                elif damage.way == "change":
                    others = [c for c in _VALUES["color"] if c != said["color"]]
                    said["color"] = rng.choice(others)
                else:
                    said[_NEW_KEY] = rng.choice(_SIZES)
                one = one.model_copy(update={"attributes": Attributes(said)})
            objects.append(one)
        scene = SceneGraph(objects=tuple(objects), relations=scene.relations)
        yield Layered(scene, graph.background)


def _edges(graph: Layered, damage: Damage, rng: random.Random) -> Iterator[Layered]:
    scene, inside = graph.scene, graph.inside(damage.layer)
    there = [r for r in scene.relations if r.source in inside and r.target in inside]
    targets = rng.sample(there, MOST_EDITS)
    taken = {(r.source, r.target) for r in scene.relations}
    new = rng.sample([pair for pair in _pairs(inside) if pair not in taken], MOST_EDITS)
    for target, (a, b) in zip(targets, new, strict=True):
        if damage.way == "add":
            more = Relation(source=a, predicate=rng.choice(_PREDICATES), target=b)
            relations = (*scene.relations, more)
        elif damage.way == "delete":
            relations = tuple(r for r in scene.relations if r != target)
        else:
            others = [p for p in _PREDICATES if p != target.predicate]
            changed = target.model_copy(update={"predicate": rng.choice(others)})
            relations = tuple(changed if r == target else r for r in scene.relations)
        scene = SceneGraph(objects=scene.objects, relations=relations)
        yield Layered(scene, graph.background)


_STEPS = {"node": _nodes, "attribute": _attributes, "edge": _edges}


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


def requirements(setup: Setup, settings: Settings) -> tuple[Trial, ...]:
    """Return a trial that draws nothing."""
    graphs = min(setup.scenes, MOST_GRAPHS)
    return (Trial("graph_damage", "graph damage", graphs, "graphs", partial(_run, graphs)),)


async def _run(
    graphs: int, folder: Path, on_progress: OnProgress | None, retry: bool
) -> tuple[Measured, Context]:
    # Nothing of it is kept: what failed is tried again anyway.
    from scenewright.evals.metrics.graph_matching.embeddings import similarity_of
    from scenewright.evals.studies.xtc.grading import grader_of

    similarity, grader = similarity_of("exact"), grader_of("exact")
    found = await measure(graphs, similarity, grader, on_progress)
    context = Context(
        set_name="graphs made up by seed",
        fingerprint=f"damage@1/{graphs}",
        items=graphs,
        seeds=(0,),
        models={"texts compared by": similarity.id, "graded by": grader.id},
        draws=False,
    )
    return found, context


async def measure(
    graphs: int, similarity: TextSimilarity, grader: Grader, on_progress: OnProgress | None = None
) -> Measured:
    """Measure both scores of every damage of ``graphs`` reference graphs."""
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
        if on_progress is not None:
            from scenewright.evals.runner.progress import Progress

            on_progress(Progress(doing="damaging graphs", items=at + 1))
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
    """Return the graph's side of G: the mean grade of the answers of ``seen``, in [0, 1].

    ``questions`` are those of ``reference``. NaN if an answer could not be graded.
    """
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
    """Return a table a score: a row a kind of damage, a column an edit."""
    (measured,) = found
    tables = tuple(_layout(measured, score) for score in SCORES)
    return Outcome(
        tables,
        (),
        lambda: _plot(measured),
        _notes(measured),
        {"falling_steps": {score: _falls(measured, score) for score in SCORES}},
        _answer(measured),
    )


def _answer(found: Measured) -> PlainAnswer:
    """Return which score falls at more of the edits, over graphs."""
    first, second = SCORES
    ours, theirs = (
        np.mean([_falling(found.values[score, damage.key]) for damage in DAMAGES], axis=0)
        for score in (first, second)
    )
    return difference_answer(
        Contrast(
            after=f"the {SCORES[first]}",
            before=SCORES[second],
            difference=difference(ours, theirs),
            measure="the share of edits at which it falls",
            unit="graph",
        )
    )


def _layout(found: Measured, score: str) -> Layout:
    def cell(damage: str, column: str) -> Estimate:
        values = found.values[score, damage]
        if column == "falls":
            return mean(_falling(values)).times(100)
        return mean(values[:, [int(column)]])

    edits = columns_of({str(n): str(n) for n in range(1 + MOST_EDITS)}, 3)
    return Layout.grid(
        f"damage_{score}",
        f"{SCORES[score]} after so many edits",
        {one.key: f"{one.way} {one.element}, {one.layer}" for one in DAMAGES},
        (*edits, Column(key="falls", title="steps at which it falls (%)", digits=0)),
        cell,
        head="Damage",
        of_paper=False,
    )


def _falling(values: Array) -> Array:
    """Return (graphs, 1): share of the edits at which the score falls."""
    steps = np.diff(values, axis=1)
    share: Array = np.where(np.isnan(steps).any(1), np.nan, (steps < -_SAME).mean(1))
    return share[:, None]


def _falls(found: Measured, score: str) -> dict[str, int]:
    """Return how many single edits make ``score`` fall, leave it or raise it."""
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
    """Return how much more six edits of the foreground cost than six of the background."""
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
    return made


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
    requirements,
    outcome,
)
