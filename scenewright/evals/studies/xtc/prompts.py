"""The generation prompt of a scene (XTC-Bench, Sec. 3.2.4), and whether every fact survives in it.

The paper linearizes the graph, has a language model refine each object, then the whole. A
:class:`~scenewright.agents.composers.language.LanguageComposer` in stages does so; any other
composer serves where there is no language model.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from PIL import Image

from scenewright.agents.composers.check import lost_facts
from scenewright.agents.composers.language import LanguageComposer, linearize
from scenewright.agents.composers.sentences import SentenceComposer
from scenewright.core.layout import Region, canonical_predicate
from scenewright.core.ports.composer import Composer, LostFact, compose_with_origin
from scenewright.core.ports.vision import ExtractionError
from scenewright.core.scene import SceneGraph
from scenewright.evals.datasets.base import Item
from scenewright.evals.studies.xtc.base import XtcError
from scenewright.tools.vision.extraction.views import detail_crop

_NEAR = 0.5
"""Of the picture's side: the middles of neighbouring cells, corner to corner, lie closer."""


@dataclass(frozen=True, slots=True)
class XtcPrompt:
    """A prompt, and how it came about."""

    text: str
    """What the model is asked to draw."""
    author: str
    """``model``, ``model again`` (its second text), or a composer's id."""
    lost: tuple[LostFact, ...]
    """Facts of the scene that the text does not say; empty if all survived. What a composer says
    by places counts as said."""
    linearized: str
    """The scene in lines: an object each, with the relations in which it is the subject."""
    problem: str = ""
    """Why it was not written in the first way; empty if it was."""


def takes_views(composer: Composer) -> bool:
    """Return whether ``composer`` looks at pictures of single objects."""
    return isinstance(composer, LanguageComposer) and composer.stages


def views_of(item: Item, picture: Image.Image) -> dict[str, Image.Image]:
    """Return the detail crops of the objects of ``item`` in its photo, by object id.

    By the boxes or masks of :attr:`~scenewright.evals.datasets.base.Item.detections`: all of them
    where they are those of the scene's objects one by one, else those of classes that the scene and
    the boxes have once. A box outside of the photo gives no view.
    """
    objects = item.scene.objects if item.scene is not None else ()
    names = [one.name for one in objects]
    found = [one.name for one in item.detections]
    if names == found:
        places = dict(zip((one.id for one in objects), item.detections, strict=True))
    else:
        alone = {one.name: one for one in item.detections if found.count(one.name) == 1}
        places = {
            one.id: alone[one.name]
            for one in objects
            if names.count(one.name) == 1 and one.name in alone
        }
    views = {}
    for id_, place in places.items():
        with contextlib.suppress(ExtractionError):
            views[id_] = detail_crop(picture, place)
    return views


async def prompt_of(
    scene: SceneGraph,
    composer: Composer | None = None,
    views: Mapping[str, Image.Image] | None = None,
    seed: int = 0,
) -> XtcPrompt:
    """The prompt of ``scene`` by ``composer`` (default: plain sentences, which need no model).

    ``views``: object id → its detail crop, for the refinement of single objects; only a language
    model that composes looks at them. ``seed`` picks among equally good placements. Raises
    ``XtcError`` for a view of an object that is not in the scene.
    """
    unknown = sorted(set(views or ()) - {item.id for item in scene.objects})
    if unknown:
        raise XtcError(
            f"views of objects that are not in the scene: {unknown[:12]}: leave them out"
        )
    composer = composer or SentenceComposer()
    if isinstance(composer, LanguageComposer):
        told = await composer.word(scene, seed, views=views)
    else:
        told = await compose_with_origin(composer, scene, seed)
    lost = lost_facts(_without_places(scene, composer.places(scene, seed)), told.prompt)
    return XtcPrompt(told.prompt, told.author, lost, linearized(scene), told.problem)


def linearized(scene: SceneGraph) -> str:
    """Every fact of ``scene`` and nothing else, a line an object (the paper's linearization)."""
    return "\n".join(", ".join([line.object, *line.relations]) for line in linearize(scene))


def _without_places(scene: SceneGraph, places: Mapping[str, Region]) -> SceneGraph:
    """``scene`` without the relations that ``places`` say."""
    kept = tuple(
        relation
        for relation in scene.relations
        if relation.source not in places
        or relation.target not in places
        or not _says(
            canonical_predicate(relation.predicate),
            places[relation.source],
            places[relation.target],
        )
    )
    return SceneGraph(objects=scene.objects, relations=kept)


def _says(predicate: str, source: Region, target: Region) -> bool:
    """Whether two places make a direction or nearness plain."""
    across = (source.left + source.right - target.left - target.right) / 2
    down = (source.top + source.bottom - target.top - target.bottom) / 2
    match predicate:
        case "left of":
            return across < 0
        case "right of":
            return across > 0
        case "above":
            return down < 0
        case "below":
            return down > 0
        case "near":
            return max(abs(across), abs(down)) < _NEAR
        case _:
            return False
