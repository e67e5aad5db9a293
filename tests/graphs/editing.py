"""Runs that a person edits, for tests: scripted models, pictures of chosen qualities."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from scenewright.config.settings import load_settings
from scenewright.core.facts import Fact, ScoreCard
from scenewright.core.formats import load_scene
from scenewright.core.ports.backend import GenerationRequest
from scenewright.core.questions import facts_of
from scenewright.core.scene import SceneGraph
from scenewright.graphs.eventlog import read_events
from scenewright.graphs.events import Edit, Event
from scenewright.runs.api import refine
from scenewright.runs.result import RunResult
from tests.doubles import CallBook, ScriptedBackend, ScriptedComposer, ScriptedJudge

SCENE = "red ball on table; dog left of table"
GRAPH = load_scene(SCENE)
BALL, TABLE, DOG = (item.id for item in GRAPH.objects)
LEVELS = {fact.id: 40 * at for at, fact in enumerate(facts_of(GRAPH), start=1)}
RED, ON, LEFT = (fact.id for fact in facts_of(GRAPH)[3:])


def level(fact: Fact) -> int:
    """The quality above which the judges find a fact: 40, 80, … 240; 100 for one added later."""
    return LEVELS.get(fact.id, 100)


def qualities(*wanted: int) -> Callable[[GenerationRequest], int]:
    """Pictures of these qualities in the order in which they are drawn, the last for ever."""
    rest = itertools.chain(wanted, itertools.repeat(wanted[-1]))
    return lambda request: next(rest)


class Person:
    """Starts a run and goes on with it, as a person would: one folder, one team."""

    def __init__(self, folder: Path, *wanted: int, strategy: str = "resample") -> None:
        self.folder = folder
        self.book = CallBook()
        self.backend = ScriptedBackend(qualities(*wanted), self.book)
        self.judges = [ScriptedJudge(n, self.book, level) for n in "ab"]
        self.report = [ScriptedJudge("c", self.book, level)]
        self.composer = ScriptedComposer(self.book)
        self.strategy = strategy
        self.told: list[Event] = []

    async def __call__(
        self, edit: Edit | None = None, *, rounds: int = 2, **options: Any
    ) -> RunResult:
        self.told = []
        return await refine(
            SCENE,
            **{
                "out": self.folder,
                "seed": 5,
                "rounds": rounds,
                "patience": 9,
                "strategy": self.strategy,
                "settings": load_settings(),
                "backend": self.backend,
                "judges": self.judges,
                "report_judges": self.report,
                "composer": self.composer,
                "on_event": self.told.append,
                "edit": edit,
                **options,
            },
        )

    @property
    def events(self) -> list[Event]:
        """All that the log holds."""
        return read_events(self.folder / "events.jsonl")

    def of(self, kind: type[Any]) -> list[Any]:
        """The stored events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def calls(self, kind: str = "") -> list[str]:
        """Calls of the models so far."""
        return [line[6:] for line in self.book.lines if line.startswith(f"begin {kind}")]


def states(card: ScoreCard | None) -> dict[str, str]:
    """The verdicts of a card by fact id."""
    assert card is not None
    return {verdict.fact_id: verdict.state for verdict in card.verdicts}


def part(*objects: str, relations: Iterable[int] = (), scene: SceneGraph = GRAPH) -> SceneGraph:
    """These objects of a scene, with relations by their place in it."""
    return scene.subgraph(objects, [scene.relations[at] for at in relations])
