"""From what a request says of a scene to its graph. No text is ever taken as a file's name."""

from __future__ import annotations

from scenewright.agents.parsers.rules import parse_caption
from scenewright.core.formats import FormatError, loads_scene
from scenewright.core.scene import SceneError, SceneGraph
from scenewright.runs.report.words import scene_words
from scenewright.service.core.errors import Unprocessable
from scenewright.service.core.schemas import SceneInput

MAX_TITLE = 300


def scene_of(given: SceneInput) -> SceneGraph:
    """The scene graph of a request; ``Unprocessable`` with the reader's remedy.

    A sentence is read by the rules parser, without a model.
    """
    if given.scene is not None:
        graph = given.scene
    elif given.triplets is not None:
        graph = triplets(given.triplets)
    else:
        graph = sentence(given.text or "")
    if not graph:
        raise Unprocessable("the scene has no objects: name at least one, for example 'red ball'")
    return graph


def triplets(text: str) -> SceneGraph:
    """The scene of ``red ball on table; dog left of table``; ``Unprocessable`` otherwise."""
    try:
        return loads_scene(text, "triplets")
    except (FormatError, SceneError) as error:
        raise Unprocessable(f"the triplets cannot be read: {error}") from error


def sentence(text: str) -> SceneGraph:
    """The scene of a sentence; ``Unprocessable`` if nothing in it can be drawn."""
    try:
        found = parse_caption(text)
    except (SceneError, ValueError) as error:
        raise Unprocessable(f"the text cannot be read: {error}") from error
    if not found:
        raise Unprocessable(
            "nothing that can be drawn was recognised in the text: name things, for example "
            "'a red ball on a table', or give triplets"
        )
    return found


def title_of(scene: SceneGraph) -> str:
    """The scene in words, for lists."""
    words = scene_words(scene)
    return words if len(words) <= MAX_TITLE else f"{words[: MAX_TITLE - 1]}…"
