"""NetworkX graphs and their JSON node-link form.

Nodes carry ``name`` (or ``label``) and ``attributes``, edges ``predicate`` (or ``relation``,
``label``; in a multigraph also a textual edge key). Without a name the node itself names the class:
``"dog.2"`` is a dog. What was said beside the graph is the graph's datum ``intent``. Other data,
such as positions, is not kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scenewright.core.formats.base import (
    as_attributes,
    as_list,
    as_object,
    as_text,
    build,
    fail,
    field,
    prefix,
    shown,
    split_id,
    with_intent,
)
from scenewright.core.scene import SceneGraph

if TYPE_CHECKING:
    import networkx as nx

NODE = '{"id": "dog.1", "name": "dog"}'
EDGE = '{"source": "dog.1", "target": "ball.1", "predicate": "left of"}'
_PREDICATES = ("predicate", "relation", "label")


def _node_id(value: Any, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise fail(where, f"expected a node of text or a whole number, found {shown(value)}")
    return as_text(str(value), where, '"dog.1"')


def _node(id_: str, data: Mapping[str, Any], where: str) -> tuple[str, str, dict[str, str]]:
    for key in ("name", "label"):
        if data.get(key) is not None:
            name = as_text(data[key], f"{where}.{key}", '"dog"')
            break
    else:
        name = split_id(id_)[0]
        if name.isdigit():
            raise fail(where, 'the node has no name: add one, for example "name": "dog"')
    given = data.get("attributes")
    attributes = dict(given) if isinstance(given, Mapping) else given
    return id_, name, as_attributes({} if given is None else attributes, f"{where}.attributes")


def _predicate(data: Mapping[str, Any], where: str) -> str:
    for key in _PREDICATES:
        if data.get(key) is not None:
            return as_text(data[key], f"{where}.{key}", '"left of"')
    if isinstance(data.get("key"), str):
        return as_text(data["key"], f"{where}.key", '"left of"')
    raise fail(where, 'the edge has no predicate: add one, for example "predicate": "left of"')


def from_networkx(graph: nx.Graph) -> SceneGraph:
    """Return the scene of a ``DiGraph`` or ``MultiDiGraph``; nodes and edges in the graph's order.

    ``FormatError`` for undirected graphs, nodes without a name, edges without a
    predicate, and an edge from a node to itself.
    """
    if not graph.is_directed():
        raise fail("", "the graph is undirected: a relation has a direction, use a MultiDiGraph")
    objects = [
        _node(_node_id(node, f"node {node!r}"), data, f"node {node!r}")
        for node, data in graph.nodes(data=True)
    ]
    relations: list[tuple[str, str, str, str]] = []
    for source, target, *key, data in (
        graph.edges(keys=True, data=True) if graph.is_multigraph() else graph.edges(data=True)
    ):
        where = f"edge {source!r} → {target!r}"
        edge = {"key": key[0], **data} if key else data
        relations.append((str(source), _predicate(edge, where), str(target), where))
    return with_intent(build(objects, relations, ""), graph.graph, "", "graph")


def read(entry: Any, where: str) -> SceneGraph:
    """Return the graph of one node-link entry; the edges are in ``edges`` or ``links``."""
    data = as_object(entry, where, f'{{"nodes": [{NODE}], "edges": [{EDGE}]}}')
    at = prefix(where)
    if data.get("directed", True) is not True:
        raise fail(f"{at}directed", "must be true: a relation has a direction")
    objects: dict[str, tuple[str, str, dict[str, str]]] = {}
    nodes = as_list(field(data, "nodes", where, f"[{NODE}]"), f"{at}nodes", f"[{NODE}]")
    for index, value in enumerate(nodes):
        place = f"{at}nodes[{index}]"
        node = as_object(value, place, NODE)
        id_ = _node_id(field(node, "id", place, NODE), f"{place}.id")
        if id_ in objects:
            raise fail(f"{place}.id", f"{shown(id_)} is used twice: give each node its own")
        objects[id_] = _node(id_, node, place)
    name = "edges" if "edges" in data else "links"
    relations: list[tuple[str, str, str, str]] = []
    for index, value in enumerate(as_list(data.get(name, []), f"{at}{name}", f"[{EDGE}]")):
        place = f"{at}{name}[{index}]"
        edge = as_object(value, place, EDGE)
        ends = []
        for end in ("source", "target"):
            id_ = _node_id(field(edge, end, place, EDGE), f"{place}.{end}")
            if id_ not in objects:
                raise fail(
                    f"{place}.{end}",
                    f"{shown(id_)} is not a node: add it or use one of "
                    f"{shown(list(objects)[:12], 200)}",
                )
            ends.append(id_)
        relations.append((ends[0], _predicate(edge, place), ends[1], place))
    about = data.get("graph")
    # Older files list pairs there.
    said = about if isinstance(about, Mapping) else {}
    return with_intent(build(list(objects.values()), relations, where), said, where, "graph")


def write(scene: SceneGraph) -> dict[str, Any]:
    """Return the node-link entry of ``scene``, as ``networkx.node_link_graph`` takes it."""
    import networkx as nx

    entry: dict[str, Any] = nx.node_link_data(scene.to_networkx(), edges="edges")
    return entry
