"""Species and queries of the miniature, their pools of pictures, and REAL's scores of these.

A species is a person who wears a hat and holds a ball, with a dog beside; all species have these
four parts, and any two differ in two colours or more. A picture is *exact* (all colours right), or
a candidate as a generator might draw it: parts in a wrong colour or left out, things of a broken
shape or a spoilt surface, drawn in pencil where a photo was wanted. Everything wrong with a
candidate is known.

A query names four different things and three relations between them. A candidate may show other
relations than were asked, lack things or show others in their stead, and be damaged or drawn in
pencil. Its annotation is what was asked, as of any synthetic picture: each asked relation between
things that are there, with the boxes of those things.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from PIL import Image

from benchmarks._harness import progress
from scenewright.core.images import hash_of_image
from scenewright.core.layout import PlacementError
from scenewright.core.ports.judge import Judge
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.statistics.figures import RESAMPLES, Correlation, correlate
from scenewright.evals.studies.real.augmentation import Example
from scenewright.evals.studies.real.ranking import Ranked
from scenewright.evals.studies.real.real_scorer import RealScorer, combine
from scenewright.evals.studies.real.relation_recognition import Relations
from scenewright.evals.studies.real.schema import (
    AttributeSchema,
    ClassSchema,
    RelationSchema,
    SchemaAttribute,
)
from scenewright.evals.studies.real.style import StyleScorer, checked, read_labelled
from scenewright.evals.studies.real.style_training import (
    PLAN,
    StylePlan,
    new_style_clip,
    paint_styles,
    train_style,
)
from scenewright.miniature.damage import DamageRequest, damage
from scenewright.miniature.painter import PaintError, paint
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.truth import Painting
from scenewright.miniature.world import COLORS, KINDS, PREDICATES, can_hold
from scenewright.providers import AnswerStore

PARTS = ("person", "hat", "ball", "dog")
"""Kinds of the parts; the first is always there."""
PHOTO, ILLUSTRATION = "flat", "pencil"
"""Styles of the painter that stand for the paper's photo and illustration."""
WORST = 3
"""Most parts of a candidate that are wrong; each number from 0 is as frequent."""
_APART = 2
_P_ILLUSTRATION = 0.4
_P_DAMAGED = 0.4
_P_PART_LEFT_OUT = 0.35
_CONTACTS = {"hat": "wearing", "ball": "holding"}


@dataclass(frozen=True, slots=True)
class Species:
    """A class."""

    name: str
    """``species 3``."""
    colors: Mapping[str, str]
    """Part → its colour."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A picture of the pool, with what is wrong with it."""

    name: str
    """Unique within the pool."""
    label: str
    """The species that was asked for."""
    image: Image.Image
    """RGB."""
    present: int
    """Parts that are there."""
    right: int
    """Parts that are there in their colour."""
    style: str
    """The painter's."""
    damage: int
    """Level of the worst damage, 0 to 4."""

    @property
    def share(self) -> float:
        """Share of all parts that are there in their colour."""
        return self.right / len(PARTS)

    @property
    def s_att(self) -> float:
        """S_att = R / C of judges that are never wrong."""
        return self.right / self.present


def species_of(n: int, seed: str) -> list[Species]:
    """Return ``n`` species; others for another ``seed``.

    ``ValueError`` if there are not so many.
    """
    codes = list(itertools.product(sorted(COLORS), repeat=len(PARTS)))
    random.Random(f"species {seed}").shuffle(codes)
    found: list[tuple[str, ...]] = []
    for code in codes:
        if len(found) < n and all(_difference(code, other) >= _APART for other in found):
            found.append(code)
    if len(found) == n:
        return [
            Species(f"species {at:02d}", dict(zip(PARTS, code, strict=True)))
            for at, code in enumerate(found, start=1)
        ]
    raise ValueError(f"found no {n} species that differ in {_APART} colours: ask for fewer")


def _difference(code: Sequence[str], other: Sequence[str]) -> int:
    return sum(a != b for a, b in zip(code, other, strict=True))


def scene_of(colors: Mapping[str, str]) -> SceneGraph:
    """Return the parts that ``colors`` names, the person first."""
    return SceneGraph(
        objects=tuple(
            SceneObject(id=f"{part}.1", name=part, attributes=Attributes({"color": color}))
            for part, color in colors.items()
        ),
        relations=tuple(
            Relation(source="person.1", predicate=predicate, target=f"{part}.1")
            for part, predicate in _CONTACTS.items()
            if part in colors
        ),
    )


def painted(scene: SceneGraph, rng: random.Random, style: str = PHOTO) -> Painting:
    """Return ``scene`` in a layout and a setting of chance; ``PaintError`` if none was found."""
    try:
        return paint(scene, rng.getrandbits(31), style=style)
    except PlacementError as error:
        raise PaintError(f"found no layout: {error}") from error


def exact(species: Sequence[Species], per_class: int, seed: str) -> list[Example]:
    """Return ``per_class`` real pictures of each species."""
    found: list[Example] = []
    for one in species:
        rng = random.Random(f"exact {seed} {one.name} {sorted(one.colors.items())}")
        scene = scene_of(one.colors)
        found += [Example(painted(scene, rng).image, one.name) for _ in range(per_class)]
    return found


def candidates(species: Sequence[Species], per_class: int, seed: str) -> list[Candidate]:
    """Return the pool: ``per_class`` candidates of each species."""
    found: list[Candidate] = []
    for one in species:
        rng = random.Random(f"candidates {seed} {one.name} {sorted(one.colors.items())}")
        for at in range(per_class):
            found.append(_candidate(one, f"{one.name} {at:03d}", at % (WORST + 1), rng))
    return found


def _candidate(species: Species, name: str, wrong: int, rng: random.Random) -> Candidate:
    drawn = dict(species.colors)
    spoilt = rng.sample(PARTS, wrong)
    for part in spoilt:
        if part != PARTS[0] and rng.random() < _P_PART_LEFT_OUT:
            del drawn[part]
        else:
            drawn[part] = rng.choice([c for c in sorted(COLORS) if c != species.colors[part]])
    style = ILLUSTRATION if rng.random() < _P_ILLUSTRATION else PHOTO
    painting, level = damaged(painted(scene_of(drawn), rng, style), rng)
    return Candidate(
        name=name,
        label=species.name,
        image=painting.image,
        present=len(drawn),
        right=len(PARTS) - wrong,
        style=style,
        damage=level,
    )


def damaged(painting: Painting, rng: random.Random) -> tuple[Painting, int]:
    """Return ``painting``, sometimes with damaged things, and the level of the worst (0: none)."""
    if rng.random() >= _P_DAMAGED:
        return painting, 0
    things = [item.id for item in painting.scene.objects]
    requests = [
        DamageRequest(thing, rng.choice(("shape", "texture")), rng.randint(1, 4))
        for thing in rng.sample(things, rng.randint(1, len(things)))
    ]
    return damage(painting, requests, rng.getrandbits(31)), max(r.level for r in requests)


THINGS, ASKED = 4, 3
"""Things and relations of a query."""
_P_MISSING = 0.25
_P_THING_LEFT_OUT = 0.5
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
        """Share of the asked relations that hold, 0 if a thing is missing.

        It is the part of S_rel that judges of the miniature can be wrong about.
        """
        return 0.0 if self.missing else self.holding / ASKED


def queries_of(n: int, seed: str) -> list[Query]:
    """Return ``n`` queries; others for another ``seed``."""
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
    """Return the predicates that the queries ask for, sorted."""
    return sorted({r.predicate for query in queries for r in query.scene.relations})


def exact_drawings(queries: Sequence[Query], per_query: int, seed: str) -> list[Drawn]:
    """Return ``per_query`` real pictures of each query."""
    found: list[Drawn] = []
    for query in queries:
        rng = random.Random(f"exact {seed} {query.name} {query.scene.digest}")
        for at in range(per_query):
            painting = _changed(query.scene, 0, rng, PHOTO, p_missing=0.0)
            found.append(_drawn(query, f"{query.name} {at:03d}", painting))
    return found


def drawings(queries: Sequence[Query], per_query: int, seed: str) -> list[Drawn]:
    """Return the pool: ``per_query`` candidates of each query."""
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
    """Return a painting of ``scene`` with ``wrong`` other relations, and maybe another thing."""
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
    """Return ``scene`` without one thing and its relations, or with another in its stead."""
    gone = rng.choice(scene.objects)
    kept = [item for item in scene.objects if item is not gone]
    if rng.random() >= _P_THING_LEFT_OUT:
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


JUDGES = ("local:miniature/judge-a", "local:miniature/judge-b")
STYLE_PLAN = PLAN.model_copy(update={"batch": 8})
"""The recipe of the miniature's style scorer in the paper's small batches: fewer paintings do."""
_STYLE_SEED = 4000


class Named(Protocol):
    """A picture of a pool."""

    @property
    def name(self) -> str:
        """Unique within the pool."""

    @property
    def label(self) -> str:
        """The class it was made for."""

    @property
    def image(self) -> Image.Image:
        """RGB."""


@dataclass(frozen=True, slots=True)
class Scored:
    """What REAL says of one picture."""

    name: str
    """The picture."""
    label: str
    """Its class."""
    base: float | None
    """S_att or S_rel (normalised); None if it could not be scored."""
    style: float
    """S_style, P(photo)."""
    hard: float | None = None
    """S_att as the paper counts it; None of relations."""

    @property
    def combined(self) -> float | None:
        """``base × style``."""
        return combine(self.base, self.style)


def ranked(rows: Sequence[Scored], *, style: bool = True) -> list[Ranked]:
    """Return ``rows`` by their combined score or, without ``style``, by S_att or S_rel alone."""
    return [Ranked(r.name, r.label, r.combined if style else r.base) for r in rows]


def species_schemas(species: Sequence[Species]) -> dict[str, ClassSchema]:
    """Return what is asked of a picture of each species: a person, and the colours of the parts."""
    return {
        one.name: ClassSchema(
            one.name,
            attributes=AttributeSchema(
                name=one.name,
                existence="Is there a person in the image?",
                attributes=tuple(
                    SchemaAttribute(part=part, description=color)
                    for part, color in one.colors.items()
                ),
            ),
        )
        for one in species
    }


def query_schemas(queries: Sequence[Query]) -> dict[str, ClassSchema]:
    """Return what is asked of a picture of each query: its things, and their relations."""
    found: dict[str, ClassSchema] = {}
    for query in queries:
        schema, left_out = RelationSchema.of_scene(query.scene, query.name)
        if schema is None or left_out:
            raise ValueError(f"{query.name} has relations that cannot be asked for: {query.scene}")
        found[query.name] = ClassSchema(query.name, relations=schema)
    return found


async def trained_style(
    folder: Path, n: int, plan: StylePlan = STYLE_PLAN
) -> tuple[StyleScorer, Mapping[str, float]]:
    """Return a style scorer trained on ``n`` paintings a style, and its held-out figures."""
    out = folder / "style"

    def train() -> Mapping[str, float]:
        paint_styles(folder / "styles", n, _STYLE_SEED)
        start = folder / "style-start"
        if not start.exists():
            new_style_clip(start)
        data = checked(read_labelled(folder / "styles"))
        report = train_style(start, data, out, plan)
        if report is None:
            raise RuntimeError("the style scorer's training did not end")
        return {"accuracy": report.after.accuracy.value or 0.0}

    figures = await asyncio.to_thread(train)
    return StyleScorer(out), figures


async def scored(
    pool: Sequence[Named],
    schemas: Mapping[str, ClassSchema],
    style: StyleScorer,
    judges: Sequence[Judge],
    file: Path,
) -> list[Scored]:
    """REAL's scores of ``pool``, one a picture in its order; answers are kept in ``file``."""
    styles = await style.score([one.image for one in pool])
    found: list[Scored] = []
    with closing(AnswerStore(file)) as store:
        scorer = RealScorer(judges, store, wording="plain")
        for one, grade in progress(zip(pool, styles, strict=True), len(pool), "judged"):
            row, _ = await scorer.look(
                hash_of_image(one.image), partial(getattr, one, "image"), schemas[one.label]
            )
            score = row.get("s_att", row.get("s_rel"))
            found.append(Scored(one.name, one.label, score, grade, row.get("s_att_hard")))
    return found


def agreement(rows: Sequence[Scored], truth: Mapping[str, float], seed: int = 0) -> Correlation:
    """Return how S_att or S_rel ranks pictures beside ``truth`` (name → number).

    Intervals are over pictures; those that could not be scored are left out.
    """
    values = {(row.name, "pool"): row.base for row in rows if row.base is not None}
    people = {(name, "pool"): value for name, value in truth.items()}
    return correlate("REAL", values, people, resamples=RESAMPLES, seed=seed)
