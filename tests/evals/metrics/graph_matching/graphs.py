"""Small scenes that look alike, so that matching them is a choice."""

from __future__ import annotations

from hypothesis import strategies as st

from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.evals.metrics.graph_matching.text_similarity import LexicalSimilarity

LEXICAL = LexicalSimilarity()
VALUES = ("red", "dark red", "blue", "gray", "grey and white", "White, grey")
PREDICATES = ("left of", "to the left of", "holding", "near", "chasing")


def alike(left: str, right: str) -> float:
    """One pair of texts by the lexical similarity."""
    return float(LEXICAL.similarities([(left, right)])[0])


def thing(object_id: str, name: str = "dog", /, **attributes: str) -> SceneObject:
    return SceneObject(id=object_id, name=name, attributes=attributes)


def graph(*objects: SceneObject, edges: str = "") -> SceneGraph:
    """``edges`` are ``a predicate b`` with ``;`` between."""
    relations = []
    for edge in filter(None, (part.strip() for part in edges.split(";"))):
        source, *middle, target = edge.split()
        relations.append(Relation(source=source, predicate=" ".join(middle), target=target))
    return SceneGraph(objects=objects, relations=tuple(relations))


@st.composite
def alike_scenes(draw: st.DrawFn, most: int = 5, prefix: str = "o") -> SceneGraph:
    """Scenes of few labels, values and predicates, parallel edges among them."""
    count = draw(st.integers(0, most))
    objects = tuple(
        SceneObject(
            id=f"{prefix}{at}",
            name=draw(st.sampled_from(("dog", "Dog", "dog", "ball"))),
            attributes=draw(
                st.dictionaries(
                    st.sampled_from(("color", "Color", "size", "pattern_type")),
                    st.sampled_from(VALUES),
                    max_size=2,
                )
            ),
        )
        for at in range(count)
    )
    pairs = [(a.id, b.id) for a in objects for b in objects if a is not b]
    triples = (
        draw(
            st.lists(
                st.tuples(st.sampled_from(pairs), st.sampled_from(PREDICATES)),
                max_size=6,
                unique=True,
            )
        )
        if pairs
        else []
    )
    return SceneGraph(
        objects=objects,
        relations=tuple(
            Relation(source=ends[0], predicate=word, target=ends[1]) for ends, word in triples
        ),
    )


@st.composite
def shuffled(draw: st.DrawFn, scene: SceneGraph, prefix: str = "s") -> SceneGraph:
    """The same scene under other ids, in another order."""
    objects = draw(st.permutations(scene.objects))
    ids = {item.id: f"{prefix}{at}" for at, item in enumerate(objects)}
    return SceneGraph(
        objects=tuple(item.model_copy(update={"id": ids[item.id]}) for item in objects),
        relations=tuple(
            Relation(source=ids[r.source], predicate=r.predicate, target=ids[r.target])
            for r in draw(st.permutations(scene.relations))
        ),
    )
