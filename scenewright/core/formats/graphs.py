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
    JsonValue,
    build,
    fail,
    quote,
    split_id,
    with_intent,
)
from scenewright.core.scene import SceneGraph

if TYPE_CHECKING:
    import networkx as nx

NODE = '{"id": "dog.1", "name": "dog"}'
EDGE = '{"source": "dog.1", "target": "ball.1", "predicate": "left of"}'
_PREDICATES = ("predicate", "relation", "label")


def _node_id(given: JsonValue) -> str:
    value = given.value
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise given.fail(f"expected a node of text or a whole number, found {quote(value)}")
    return JsonValue(str(value), given.place).text('"dog.1"')


def _node(id_: str, node: JsonValue) -> tuple[str, str, dict[str, str]]:
    name = next(
        (part for key in ("name", "label") if (part := node.get(key)).value is not None), None
    )
    if name is None and split_id(id_)[0].isdigit():
        raise node.fail('the node has no name: add one, for example "name": "dog"')
    given = node.get("attributes").value
    attributes = dict(given) if isinstance(given, Mapping) else given
    return (
        id_,
        split_id(id_)[0] if name is None else name.text('"dog"'),
        node.part("attributes", {} if attributes is None else attributes).attributes(),
    )


def _predicate(edge: JsonValue) -> str:
    for key in _PREDICATES:
        if (part := edge.get(key)).value is not None:
            return part.text('"left of"')
    textual = edge.get("key")
    if isinstance(textual.value, str):
        return textual.text('"left of"')
    raise edge.fail('the edge has no predicate: add one, for example "predicate": "left of"')


def from_networkx(graph: nx.Graph) -> SceneGraph:
    """Return the scene of a ``DiGraph`` or ``MultiDiGraph``; nodes and edges in the graph's order.

    ``FormatError`` for undirected graphs, nodes without a name, edges without a
    predicate, and an edge from a node to itself.
    """
    if not graph.is_directed():
        raise fail("", "the graph is undirected: a relation has a direction, use a MultiDiGraph")
    objects = [
        _node(_node_id(JsonValue(node, f"node {node!r}")), JsonValue(data, f"node {node!r}"))
        for node, data in graph.nodes(data=True)
    ]
    relations: list[tuple[str, str, str, str]] = []
    for source, target, *key, data in (
        graph.edges(keys=True, data=True) if graph.is_multigraph() else graph.edges(data=True)
    ):
        edge = JsonValue({"key": key[0], **data} if key else data, f"edge {source!r} → {target!r}")
        relations.append((str(source), _predicate(edge), str(target), edge.place))
    return with_intent(build(objects, relations, ""), graph.graph, "", "graph")


def read(entry: Any, where: str) -> SceneGraph:
    """Return the graph of one node-link entry; the edges are in ``edges`` or ``links``."""
    data = JsonValue(entry, where, is_entry=True)
    data.object(f'{{"nodes": [{NODE}], "edges": [{EDGE}]}}')
    directed = data.get("directed", True)
    if directed.value is not True:
        raise directed.fail("must be true: a relation has a direction")
    objects: dict[str, tuple[str, str, dict[str, str]]] = {}
    for node in data.field("nodes", f"[{NODE}]").items(f"[{NODE}]"):
        id_ = _node_id(given := node.object(NODE).field("id", NODE))
        if id_ in objects:
            raise given.fail(f"{quote(id_)} is used twice: give each node its own")
        objects[id_] = _node(id_, node)
    relations: list[tuple[str, str, str, str]] = []
    for edge in data.get("edges" if "edges" in entry else "links", []).items(f"[{EDGE}]"):
        edge.object(EDGE)
        source, target = (
            edge.end(key, EDGE, _node_id, objects, "a node") for key in ("source", "target")
        )
        relations.append((source, _predicate(edge), target, edge.place))
    about = data.get("graph").value
    # Older files list pairs there.
    beside = about if isinstance(about, Mapping) else {}
    return with_intent(build(list(objects.values()), relations, where), beside, where, "graph")


def write(scene: SceneGraph) -> dict[str, Any]:
    """Return the node-link entry of ``scene``, as ``networkx.node_link_graph`` takes it."""
    import networkx as nx

    entry: dict[str, Any] = nx.node_link_data(scene.to_networkx(), edges="edges")
    return entry
