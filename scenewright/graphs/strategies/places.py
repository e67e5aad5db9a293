"""Where in the picture things are planned to stand, and what of it a repair may touch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scenewright.core.facts import Fact
from scenewright.core.regions import Region, inverted, mask_of
from scenewright.core.scene import SceneGraph
from scenewright.graphs.state import round_seed
from scenewright.graphs.strategies.base import RoundContext


def planned(round_context: RoundContext) -> Mapping[str, Region]:
    """The composer's place of each object, by id; empty where it plans none."""
    # The seed of the candidates' prompt, which said these places.
    seed = round_seed(round_context.options.seed, 0, "candidate")
    return round_context.composer.places(round_context.scene, seed)


def regions_of(round_context: RoundContext, objects: Iterable[str]) -> list[Region] | None:
    """The places of these objects; None unless there are some and each has one."""
    wanted, places = list(dict.fromkeys(objects)), planned(round_context)
    found = [places[key] for key in wanted if key in places]
    return found if found and len(found) == len(wanted) else None


def planned_regions(round_context: RoundContext, graph: SceneGraph) -> list[Region] | None:
    """The places of all objects of ``graph``; None unless each has one."""
    return regions_of(round_context, (item.id for item in graph.objects))


def objects_of(facts: Iterable[Fact]) -> list[str]:
    """Ids of the objects that ``facts`` speak of, in order."""
    return list(
        dict.fromkeys(
            key for fact in facts for key in (fact.subject, fact.target) if key is not None
        )
    )


def mask_in(round_context: RoundContext, regions: Iterable[Region]) -> str:
    """Content hash of the mask of ``regions`` at the size of the best candidate."""
    return round_context.images.put(
        mask_of(regions, round_context.images.get(round_context.best).size)
    )


def rest_of(round_context: RoundContext, regions: Iterable[Region]) -> str:
    """Content hash of the mask of all but ``regions``."""
    size = round_context.images.get(round_context.best).size
    return round_context.images.put(inverted(mask_of(regions, size)))
