"""Scene graphs that are equal up to object ids and order."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import networkx as nx

from scenewright.core.scene import SceneGraph


def isomorphic(one: SceneGraph, other: SceneGraph) -> bool:
    """Return whether the graphs are equal up to object ids and order."""
    if len(one.objects) != len(other.objects) or len(one.relations) != len(other.relations):
        return False
    mine, theirs = _colored(one), _colored(other)
    if sorted(nx.get_node_attributes(mine, "color").values()) != sorted(
        nx.get_node_attributes(theirs, "color").values()
    ):
        return False

    def same_edges(a: dict[Any, dict[str, Any]], b: dict[Any, dict[str, Any]]) -> bool:
        return sorted(e["predicate"] for e in a.values()) == sorted(
            e["predicate"] for e in b.values()
        )

    return bool(
        nx.is_isomorphic(
            mine,
            theirs,
            node_match=lambda a, b: a["color"] == b["color"],
            edge_match=same_edges,
        )
    )


def _colored(scene: SceneGraph) -> nx.MultiDiGraph:
    """Return the graph with node colours by Weisfeiler–Leman refinement.

    Equal graphs get equal colours; without them the search of twins is exponential.
    """
    graph = scene.to_networkx()
    colors = {item.id: _hash([item.name, *item.attributes.items()]) for item in scene.objects}
    kinds = len(set(colors.values()))
    while kinds:
        colors = {
            node: _hash(
                [
                    color,
                    sorted((d["predicate"], colors[v]) for _, v, d in graph.out_edges(node, True)),
                    sorted((d["predicate"], colors[u]) for u, _, d in graph.in_edges(node, True)),
                ]
            )
            for node, color in colors.items()
        }
        if len(set(colors.values())) == kinds:
            break
        kinds = len(set(colors.values()))
    nx.set_node_attributes(graph, colors, "color")
    return graph


def _hash(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
