"""Where in the picture the objects of a graph are planned to stand."""

from __future__ import annotations

from scenewright.graphs.state import round_seed
from scenewright.graphs.strategies.base import Situation
from scenewright.regions import Region
from scenewright.scene import SceneGraph


def planned_regions(situation: Situation, graph: SceneGraph) -> list[Region] | None:
    """The places of the objects of ``graph``; None unless the composer planned one for each."""
    # The seed of the candidates' prompt, which said these places.
    seed = round_seed(situation.options.seed, 0, "candidate")
    planned = situation.composer.places(situation.scene, seed)
    regions = [planned[item.id] for item in graph.objects if item.id in planned]
    return regions if len(regions) == len(graph.objects) else None
