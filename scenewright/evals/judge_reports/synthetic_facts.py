"""Labelled facts of the miniature world: painted scenes that no training saw, with exact truth.

Every painting gives facts of each kind that hold and as many that do not. Of those that do not,
one part is wrong of a thing that is there (a colour, a relation, a number), the other is a false
premise: the thing is not in the picture at all. A run would not ask attributes and relations of
an absent thing; here they are asked, since a judge that agrees to them agrees to anything.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from PIL import Image

from scenewright.core.facts import FACT_KINDS, FactKind
from scenewright.core.layout import canonical_predicate
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.judge_reports.labelled_facts import ABSENT, LabelledFact, Picture
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.training.judge_questions import KnownFact, know, taught_facts
from scenewright.miniature.truth import Truth
from scenewright.miniature.world import COLORS, KINDS, PREDICATES

HOLDS = "holds"
"""Group of facts that are true."""
WRONG = "wrong"
"""Group of facts that are false of a thing that is there."""
SHARES: dict[str, int] = {HOLDS: 2, WRONG: 1, ABSENT: 1}
"""Facts of each group and kind that a painting gives, where it has them."""

_SEEDS = "held-out/judge card"
"""Begins the seeds of these paintings; training seeds begin with a number."""
_OBJECTS = (2, 3, 3, 4, 4, 5, 6)


@dataclass(slots=True)
class _Pool:
    """Facts of one painting by kind and group, each question once."""

    rng: random.Random
    truth: Truth
    found: dict[tuple[FactKind, str], dict[str, KnownFact]] = field(default_factory=dict)

    def add(self, asked: SceneGraph, group: str, kind: FactKind, subject: str = "") -> None:
        """Facts of the scene ``asked`` that belong to a group: all, or those of one subject."""
        for fact in taught_facts(asked, "grounded", self.rng.randrange(1 << 16)):
            if fact.kind != kind or (subject and subject not in (fact.subject, fact.target)):
                continue
            known = know(fact, asked, self.truth, "grounded")
            if known.clear and known.holds == (group == HOLDS):
                place = self.found.setdefault((kind, group), {})
                place.setdefault(fact.question, known)

    def take(self, kind: FactKind, group: str, n: int) -> list[KnownFact]:
        """Up to ``n`` of them by chance."""
        pool = list(self.found.get((kind, group), {}).values())
        return self.rng.sample(pool, min(n, len(pool)))


def synthetic_facts(n: int, seed: int = 0) -> tuple[LabelledFact, ...]:
    """Facts of ``n`` paintings, about twelve each; the same arguments give the same facts.

    Raises ``ValueError`` for fewer than one painting.
    """
    if n < 1:
        raise ValueError(f"{n} paintings: use 1 or more")
    return tuple(fact for at in range(n) for fact in _facts(at, seed))


def _facts(at: int, seed: int) -> Iterator[LabelledFact]:
    rng = random.Random(f"{_SEEDS}/{seed}/{at}")
    painting = sample_painting(rng, n_objects=rng.choice(_OBJECTS))
    picture = Picture(f"painting {at} of seed {seed}", _Held(painting.image))
    pool = _Pool(rng, painting.truth)
    _add_true(pool)
    _add_wrong(pool)
    _add_absent(pool)
    number = 0
    for kind in FACT_KINDS:
        for group, share in SHARES.items():
            for known in pool.take(kind, group, share):
                # Facts of several scenes are asked together: an id is not the parent's there.
                own = {"id": f"{at}.{number}:{known.fact.id}", "parents": ()}
                fact = known.fact.model_copy(update=own)
                number += 1
                yield LabelledFact(picture, fact, known.holds, group)


@dataclass(frozen=True, slots=True)
class _Held:
    """A picture that is already here."""

    image: Image.Image

    def __call__(self) -> Image.Image:
        return self.image


def _add_true(pool: _Pool) -> None:
    scene = pool.truth.scene
    relations = [
        Relation(source=a.id, predicate=pool.rng.choice(sorted(found)), target=b.id)
        for a, b in _pairs(scene)
        if (found := pool.truth.relations_between(a.id, b.id))
    ]
    for kind in FACT_KINDS:
        pool.add(_with(scene, relations), HOLDS, kind)


def _add_wrong(pool: _Pool) -> None:
    scene, rng = pool.truth.scene, pool.rng
    for item in scene.objects:
        same = [o for o in scene.objects if o.name == item.name]
        one_more = SceneObject(id=f"{item.name}.{len(same) + 1}", name=item.name)
        pool.add(_with(scene, (), (*scene.objects, one_more)), WRONG, "object", one_more.id)
        color = rng.choice([c for c in sorted(COLORS) if c != item.attributes["color"]])
        changed = item.model_copy(update={"attributes": Attributes({"color": color})})
        others = tuple(changed if o.id == item.id else o for o in scene.objects)
        pool.add(_with(scene, (), others), WRONG, "attribute", item.id)
    for a, b in _pairs(scene):
        true = pool.truth.relations_between(a.id, b.id)
        false = [p for p in PREDICATES if canonical_predicate(p) not in true]
        relation = Relation(source=a.id, predicate=rng.choice(false), target=b.id)
        pool.add(_with(scene, (relation,)), WRONG, "relation")


def _add_absent(pool: _Pool) -> None:
    scene, rng = pool.truth.scene, pool.rng
    there = {item.name for item in scene.objects}
    for name in rng.sample(sorted(set(KINDS) - there), 3):
        color = rng.choice(sorted(COLORS))
        absent = SceneObject(id=f"{name}.1", name=name, attributes=Attributes({"color": color}))
        other = rng.choice(scene.objects)
        ends = [absent.id, other.id]
        rng.shuffle(ends)
        relation = Relation(source=ends[0], predicate=rng.choice(PREDICATES), target=ends[1])
        asked = _with(scene, (relation,), (*scene.objects, absent))
        for kind in FACT_KINDS:
            pool.add(asked, ABSENT, kind, absent.id)


def _pairs(scene: SceneGraph) -> list[tuple[SceneObject, SceneObject]]:
    """All ordered pairs; things of one class are left out, they may bear one name."""
    return [(a, b) for a in scene.objects for b in scene.objects if a.name != b.name]


def _with(
    scene: SceneGraph, relations: Sequence[Relation], objects: Sequence[SceneObject] | None = None
) -> SceneGraph:
    return SceneGraph(
        objects=scene.objects if objects is None else tuple(objects), relations=tuple(relations)
    )
