"""Prompts of scenes, and the views of objects that a language model sees for them (Sec. 3.2.4).

The paper linearizes the graph, has a language model refine each object, then the whole. A
:class:`~scenewright.agents.composers.language.LanguageComposer` in stages does so; any other
composer serves where there is no language model. Facts that do not survive in the prompt are
counted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from PIL import Image

from scenewright.agents.composers.check import lost_facts
from scenewright.agents.composers.language import LanguageComposer
from scenewright.agents.composers.sentences import SentenceComposer
from scenewright.core.layout import Region, canonical_predicate
from scenewright.core.ports.composer import Composer, LostFact, compose_with_origin
from scenewright.core.ports.vision import ExtractionError
from scenewright.core.scene import Relation, SceneGraph
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
        pairs = list(zip(objects, item.detections, strict=True))
    else:
        pairs = [
            (one, place)
            for one in objects
            for place in item.detections
            if one.name == place.name and names.count(one.name) == found.count(one.name) == 1
        ]
    views = {}
    for one, place in pairs:
        with contextlib.suppress(ExtractionError):
            views[one.id] = detail_crop(picture, place)
    return views


async def prompt_of(
    scene: SceneGraph,
    composer: Composer | None = None,
    views: Mapping[str, Image.Image] | None = None,
    seed: int = 0,
) -> XtcPrompt:
    """Return the prompt of ``scene`` by ``composer`` (default: plain sentences).

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
    places = composer.places(scene, seed)
    open_ = tuple(relation for relation in scene.relations if not _says(places, relation))
    lost = lost_facts(SceneGraph(objects=scene.objects, relations=open_), told.prompt)
    return XtcPrompt(told.prompt, told.author, lost, told.problem)


def _says(places: Mapping[str, Region], relation: Relation) -> bool:
    """Return whether the places of both ends make a direction or nearness plain."""
    if relation.source not in places or relation.target not in places:
        return False
    source, target = places[relation.source], places[relation.target]
    across = (source.left + source.right - target.left - target.right) / 2
    down = (source.top + source.bottom - target.top - target.bottom) / 2
    said = {
        "left of": across < 0,
        "right of": across > 0,
        "above": down < 0,
        "below": down > 0,
        "near": max(abs(across), abs(down)) < _NEAR,
    }
    return said.get(canonical_predicate(relation.predicate), False)
