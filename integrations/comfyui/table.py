"""The nodes as data: both of ComfyUI's ways to declare a node are made from this table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import work

CATEGORY = "scenewright"
MAX_SEED = 2**53 - 1
"""The largest whole number that a browser keeps exactly."""


@dataclass(frozen=True)
class Input:
    """An input of a node."""

    id: str
    """Name of the argument."""
    kind: str
    """``STRING``, ``INT``, ``COMBO`` or ``IMAGE``."""
    tooltip: str
    """What it means."""
    options: dict[str, Any] = field(default_factory=dict)
    """``default``, ``min``, ``max``, ``multiline``, ``control_after_generate``; ``options`` of a
    COMBO."""
    optional: bool = False
    """Whether it may be left out."""


@dataclass(frozen=True)
class Output:
    """An output of a node."""

    id: str
    """Its name."""
    kind: str
    """``IMAGE``, ``FLOAT``, ``INT`` or ``STRING``."""
    tooltip: str
    """What it is."""
    each: bool = False
    """Whether there is one for each picture: a list."""


@dataclass(frozen=True)
class Node:
    """A node."""

    id: str
    """How workflows name it: stays as it is for ever."""
    title: str
    """How people see it."""
    about: str
    """What it does."""
    inputs: tuple[Input, ...]
    """In the order of the widgets, which workflows rely on: new ones come last."""
    outputs: tuple[Output, ...]
    """In the order of the slots; likewise."""
    work: Callable[..., tuple[Any, ...]]
    """Takes the inputs by name, gives the outputs."""


_SCENE = Input(
    "scene",
    "STRING",
    "A sentence, triplets (red ball on table; dog left of table), or a scene graph as JSON.",
    {"default": "A red ball lies on a table.", "multiline": True},
)
_WRITTEN_AS = Input(
    "written_as",
    "COMBO",
    "How the scene is written; auto: a graph if it begins with a brace, else a sentence.",
    {"options": list(work.WAYS), "default": work.WAYS[0]},
    optional=True,
)
_WARNINGS = Output(
    "warnings",
    "STRING",
    "Words of the scene that were not read, and words that the models do not know; empty: none.",
)


def _profile(means: str) -> Input:
    return Input("profile", "STRING", means, {"default": ""}, optional=True)


def _last(seconds: int) -> tuple[Input, Input]:
    return (
        Input(
            "timeout",
            "INT",
            "Seconds after which the node gives up.",
            {"default": seconds, "min": 1, "max": 86_400},
            optional=True,
        ),
        Input(
            "server",
            "STRING",
            "http://HOST:PORT of the service; empty: SCENEWRIGHT_URL, or this machine. An API key "
            "comes from SCENEWRIGHT_API_KEY where ComfyUI is started.",
            {"default": ""},
            optional=True,
        ),
    )


NODES = (
    Node(
        "ScenewrightRefine",
        "Refine Scene",
        "Draws a scene, has judges check every fact of it, and draws again what they did not find.",
        (
            _SCENE,
            _WRITTEN_AS,
            _profile("Models of the service that draw and judge; empty: its default."),
            Input(
                "strategy",
                "STRING",
                "How a round repairs; empty: as the profile says.",
                {"default": ""},
                optional=True,
            ),
            Input(
                "rounds",
                "INT",
                "Most candidates drawn, the first one included.",
                {"default": 3, "min": 1, "max": 100},
            ),
            Input(
                "seed",
                "INT",
                "Seed of the run.",
                {"default": 0, "min": 0, "max": MAX_SEED, "control_after_generate": True},
            ),
            *_last(1800),
        ),
        (
            Output("image", "IMAGE", "The best candidate."),
            Output(
                "score",
                "FLOAT",
                "SGScore, 0 to 1, by judges that the loop never saw; -1: nothing was scored.",
            ),
            Output("report", "STRING", "Rounds, scores, facts and verdicts as JSON."),
            Output("missing", "STRING", "What was not found, a graph as JSON; empty: nothing."),
            Output("page", "STRING", "Address of the run's page."),
            _WARNINGS,
        ),
        work.refine,
    ),
    Node(
        "ScenewrightScore",
        "Score Image",
        "Has judges check every fact of a scene in each picture.",
        (
            Input("image", "IMAGE", "One picture or several."),
            _SCENE,
            _WRITTEN_AS,
            _profile("The profile whose judges answer; empty: the service's default."),
            *_last(600),
        ),
        (
            Output(
                "score", "FLOAT", "SGScore of each picture, 0 to 1; -1: nothing was scored.", True
            ),
            Output("report", "STRING", "Facts and verdicts as JSON, of each picture.", True),
            Output("missing", "STRING", "What was not found, a graph as JSON.", True),
            _WARNINGS,
        ),
        work.score,
    ),
    Node(
        "ScenewrightScene",
        "Scene Graph",
        "Reads a scene and adds facts to it: a graph for the other nodes.",
        (
            _SCENE,
            _WRITTEN_AS,
            Input(
                "add",
                "STRING",
                "Facts to add, as triplets: hat on dog; blue sky",
                {"default": "", "multiline": True},
                optional=True,
            ),
            _profile("A profile whose language model reads the sentence; empty: rules do."),
            *_last(120),
        ),
        (
            Output("graph", "STRING", "The scene graph as JSON."),
            Output("triplets", "STRING", "The same as triplets."),
            Output("questions", "STRING", "What would be asked of a picture, a line a fact."),
            Output("facts", "INT", "How many facts there are."),
            _WARNINGS,
        ),
        work.graph,
    ),
)
