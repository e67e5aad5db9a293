"""Where in the picture things are planned to stand, and what of it a repair may touch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scenewright.core.facts import Fact
from scenewright.core.regions import Region, inverted, mask_of
from scenewright.core.scene import SceneGraph
from scenewright.graphs.state import round_seed
from scenewright.graphs.strategies.base import Situation


def planned(situation: Situation) -> Mapping[str, Region]:
    """The composer's place of each object, by id; empty where it plans none."""
    # The seed of the candidates' prompt, which said these places.
    seed = round_seed(situation.options.seed, 0, "candidate")
    return situation.composer.places(situation.scene, seed)


def regions_of(situation: Situation, objects: Iterable[str]) -> list[Region] | None:
    """The places of these objects; None unless there are some and each has one."""
    wanted, places = list(dict.fromkeys(objects)), planned(situation)
    found = [places[key] for key in wanted if key in places]
    return found if found and len(found) == len(wanted) else None


def planned_regions(situation: Situation, graph: SceneGraph) -> list[Region] | None:
    """The places of all objects of ``graph``; None unless each has one."""
    return regions_of(situation, (item.id for item in graph.objects))


def objects_of(facts: Iterable[Fact]) -> list[str]:
    """Ids of the objects that ``facts`` speak of, in order."""
    return list(
        dict.fromkeys(
            key for fact in facts for key in (fact.subject, fact.target) if key is not None
        )
    )


def mask_in(situation: Situation, regions: Iterable[Region]) -> str:
    """Content hash of the mask of ``regions`` at the size of the best candidate."""
    return situation.images.put(mask_of(regions, situation.images.get(situation.best).size))


def rest_of(situation: Situation, regions: Iterable[Region]) -> str:
    """Content hash of the mask of all but ``regions``."""
    size = situation.images.get(situation.best).size
    return situation.images.put(inverted(mask_of(regions, size)))
