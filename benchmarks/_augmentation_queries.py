"""Queries for relations in the miniature: scenes to be drawn, and pictures that do so or fail.

A query names four different things and three relations between them. A candidate may show other
relations than were asked, lack things or show others in their stead, and be damaged or drawn in
pencil. Its annotation is what was asked, as of any synthetic picture: each asked relation between
things that are there, with the boxes of those things.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image

from benchmarks._augmentation_species import ILLUSTRATION, PHOTO, damaged, painted
from scenewright.core.scene import Relation, SceneGraph
from scenewright.evals.studies.real.augmentation_relations import Relations
from scenewright.miniature.painter import PaintError
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.truth import Painting
from scenewright.miniature.world import KINDS, PREDICATES, can_hold

THINGS, ASKED = 4, 3
"""Things and relations of a query."""
WORST = 3
"""Most relations of a candidate that are drawn otherwise; each number from 0 is as frequent."""
_P_ILLUSTRATION = 0.4
_P_MISSING = 0.25
_P_LEFT_OUT = 0.5
_TRIES = 200
_TRIALS = 5


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked for."""

    name: str
    """``query 03``."""
    scene: SceneGraph
    """Four things, each of another kind, and three relations."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A picture for a query."""

    name: str
    """Unique within its set."""
    label: str
    """The query's name."""
    learned: Relations
    """The picture with its annotation."""
    missing: int
    """Things of the query that are not there."""
    holding: int
    """Asked relations that hold in the picture."""

    @property
    def image(self) -> Image.Image:
        """RGB."""
        return self.learned.image

    @property
    def s_rel(self) -> float:
        """Share of the asked relations that hold, 0 if a thing is missing: the part of S_rel
        that judges of the miniature can be wrong about, by judges that never are."""
        return 0.0 if self.missing else self.holding / ASKED


def queries_of(n: int, seed: str) -> list[Query]:
    """``n`` queries; others for another ``seed``."""
    rng = random.Random(f"queries {seed}")
    found: list[Query] = []
    while len(found) < n:
        painting = sample_painting(rng, THINGS, ASKED, even_contacts=True, p_contact=0.6)
        scene = painting.scene
        kinds = {item.name for item in scene.objects}
        whole = len(kinds) == THINGS and len(scene.relations) == ASKED
        if whole and all(_can_paint(scene, rng) for _ in range(_TRIALS)):
            found.append(Query(f"query {len(found) + 1:02d}", scene))
    return found


def _can_paint(scene: SceneGraph, rng: random.Random) -> bool:
    try:
        painted(scene, rng)
    except PaintError:
        return False
    return True


def predicates_of(queries: Sequence[Query]) -> list[str]:
    """The predicates that the queries ask for, sorted."""
    return sorted({r.predicate for query in queries for r in query.scene.relations})


def exact_drawings(queries: Sequence[Query], per_query: int, seed: str) -> list[Drawn]:
    """``per_query`` real pictures of each query."""
    found: list[Drawn] = []
    for query in queries:
        rng = random.Random(f"exact {seed} {query.name} {query.scene.digest}")
        for at in range(per_query):
            painting = _changed(query.scene, 0, rng, PHOTO, p_missing=0.0)
            found.append(_drawn(query, f"{query.name} {at:03d}", painting))
    return found


def drawings(queries: Sequence[Query], per_query: int, seed: str) -> list[Drawn]:
    """The pool: ``per_query`` candidates of each query."""
    found: list[Drawn] = []
    for query in queries:
        rng = random.Random(f"drawings {seed} {query.name} {query.scene.digest}")
        for at in range(per_query):
            style = ILLUSTRATION if rng.random() < _P_ILLUSTRATION else PHOTO
            whole = _changed(query.scene, at % (WORST + 1), rng, style, _P_MISSING)
            found.append(_drawn(query, f"{query.name} {at:03d}", damaged(whole, rng)[0]))
    return found


def _changed(
    scene: SceneGraph, wrong: int, rng: random.Random, style: str, p_missing: float
) -> Painting:
    """A painting of ``scene`` in which ``wrong`` relations, and maybe a thing, are others."""
    for _ in range(_TRIES):
        relations = list(scene.relations)
        for at in rng.sample(range(len(relations)), min(wrong, len(relations))):
            relations[at] = _other(scene, relations[at], rng)
        changed = SceneGraph(objects=scene.objects, relations=tuple(relations))
        if rng.random() < p_missing:
            changed = _without(changed, rng)
        try:
            painting = painted(changed, rng, style)
        except PaintError:
            continue
        if _holding(scene, painting) <= len(relations) - wrong:
            return painting
    raise PaintError(f"found no picture of {scene} with {wrong} other relations")


def _other(scene: SceneGraph, relation: Relation, rng: random.Random) -> Relation:
    source, target = (scene.object(end).name for end in (relation.source, relation.target))
    fitting = [p for p in PREDICATES if p != relation.predicate and can_hold(source, p, target)]
    return relation.model_copy(update={"predicate": rng.choice(fitting)})


def _without(scene: SceneGraph, rng: random.Random) -> SceneGraph:
    """``scene`` with one thing left out, or another in its stead; its relations go with it."""
    gone = rng.choice(scene.objects)
    kept = [item for item in scene.objects if item is not gone]
    if rng.random() >= _P_LEFT_OUT:
        kinds = sorted(set(KINDS) - {item.name for item in scene.objects})
        kind = rng.choice(kinds)
        kept.append(gone.model_copy(update={"id": f"{kind}.1", "name": kind}))
    relations = tuple(r for r in scene.relations if gone.id not in (r.source, r.target))
    return SceneGraph(objects=tuple(kept), relations=relations)


def _holding(scene: SceneGraph, painting: Painting) -> int:
    there = painting.truth.boxes
    return sum(
        r.predicate in painting.truth.relations_between(r.source, r.target)
        for r in scene.relations
        if r.source in there and r.target in there
    )


def _drawn(query: Query, name: str, painting: Painting) -> Drawn:
    boxes = painting.truth.boxes
    there = [item.id for item in query.scene.objects if item.id in boxes]
    triplets = tuple(
        (there.index(r.source), r.predicate, there.index(r.target))
        for r in query.scene.relations
        if r.source in there and r.target in there
    )
    places = [boxes[thing] for thing in there]
    return Drawn(
        name=name,
        label=query.name,
        learned=Relations(
            painting.image,
            tuple((b.left, b.top, b.left + b.width, b.top + b.height) for b in places),
            triplets,
        ),
        missing=len(query.scene.objects) - len(there),
        holding=_holding(query.scene, painting),
    )
