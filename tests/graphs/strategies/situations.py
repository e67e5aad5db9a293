"""Situations to put before strategies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from scenewright.config.options import LoopOptions
from scenewright.core.facts import Fact, ScoreCard, State, Verdict, missing_graph
from scenewright.core.formats import load_scene
from scenewright.core.images import ImageStore
from scenewright.core.layout import Cell, region_of_cell
from scenewright.core.ports.backend import BackendFeatures, GenerationRequest
from scenewright.core.questions import QuestionForm
from scenewright.core.scene import SceneGraph
from scenewright.graphs.strategies.base import Attempt, RoundContext
from tests.doubles import ScriptedComposer

SCENE = load_scene("red ball on table; brown dog left of table; cat near dog")
CELLS: Mapping[str, Cell] = {
    "ball.1": (1, 0),
    "table.1": (1, 1),
    "dog.1": (0, 1),
    "cat.1": (0, 2),
}
FACTS = QuestionForm().facts(SCENE)
PROMPT = "a red ball on the table, a brown dog, a cat near the brown dog"
ALL = BackendFeatures(
    references=2,
    reference_maths="exact",
    masks=True,
    edit=True,
    negative_prompt=True,
    seeds=True,
    sizes=None,
    default_size=(16, 16),
    default_steps=2,
    default_guidance=1.0,
    instructions=True,
)


def fact(part: str) -> Fact:
    """The one fact whose id ends with ``part``."""
    (found,) = [fact for fact in FACTS if fact.id.endswith(part)]
    return found


def card_without(ids: Iterable[str], scene: SceneGraph = SCENE) -> ScoreCard:
    """A card on which the facts of these ids fail, those that rest on them are void."""
    lost, verdicts = set(ids), []
    facts = QuestionForm().facts(scene)
    for each in facts:
        state: State = "no" if each.id in lost else "yes"
        if any(parent in lost for parent in each.parents):
            state = "void"
            lost.add(each.id)
        chance = {"yes": 0.9, "no": 0.1}.get(state)
        verdicts.append(Verdict(fact_id=each.id, state=state, probability=chance, n_scored=1))
    return ScoreCard.of(facts, verdicts, 0.5)


def round_context(folder: Path, lost: Iterable[str], **changes: Any) -> RoundContext:
    """Round 1 after a picture that lacks the facts of the ids ``lost``; fields may be changed."""
    images = ImageStore(folder / "images")
    card = card_without(lost)
    options = changes.pop("options", {})
    planned = changes.pop("planned", CELLS)
    made = {
        "round": 1,
        "scene": SCENE,
        "facts": FACTS,
        "card": card,
        "missing": missing_graph(SCENE, FACTS, card.verdicts),
        "best": images.put(Image.new("RGB", (48, 48), (200, 10, 10))),
        "request": GenerationRequest(prompt=PROMPT, seed=77),
        "prompt": PROMPT,
        "options": LoopOptions(seed=5, **options),
        "features": ALL,
        "composer": ScriptedComposer(
            planned={key: region_of_cell(cell, 0) for key, cell in planned.items()}
        ),
        "images": images,
    }
    return RoundContext(**{**made, **changes})


def tried(
    *names: str, better: bool = False, kind: str = "objects are absent", gained: int = 0
) -> tuple[Attempt, ...]:
    """Earlier rounds in which these acted, for a picture's worth of work each."""
    nothing: frozenset[str] = frozenset()
    return tuple(
        Attempt(
            round=at,
            strategy=name,
            target=nothing,
            fixed=frozenset(map(str, range(gained))),
            broken=nothing,
            better=better,
            kind=kind,
            pictures=1.0,
        )
        for at, name in enumerate(names, 1)
    )
