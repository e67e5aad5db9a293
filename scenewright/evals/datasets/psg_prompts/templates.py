"""Templates of scene graphs and what is drawn from them (PSG-Bench, supplement A.3).

The first six are GenEval's tasks as graphs; ``action`` binds the supplement's verbs, ``attribute``
its free attributes. :func:`draw` fills them with words: seeded, each prompt once, and for left,
right, top and bottom in contrastive pairs.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scenewright.agents.composers.rules import SAID
from scenewright.agents.parsers.classes import CHALLENGES
from scenewright.core.layout import PlacementError, place_objects
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.datasets.psg_prompts.words import (
    Noun,
    PsgError,
    Vocabulary,
    vocabulary,
)

DRAW_VERSION = 1
"""Raised when a seed draws other prompts."""
TEMPLATES: dict[str, str] = {
    "single_object": "[OBJECT]",
    "two_object": "[OBJECT 1], [OBJECT 2]",
    "counting": "[NUMBER] × [OBJECT]",
    "colors": "[COLOR] [OBJECT]",
    "position": "[OBJECT 1] [SPATIAL RELATION] [OBJECT 2]",
    "color_attr": "[COLOR 1] [OBJECT 1], [COLOR 2] [OBJECT 2]",
    "action": "[OBJECT 1] [VERB] [OBJECT 2]",
    "attribute": "[ATTRIBUTE] [OBJECT]",
}
"""Template → its graph in words; the first six are named as GenEval names its tasks."""
_TRIES = 60
_EXTRA = (1, 2)
"""Objects that COMPLEX adds."""

Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Draw:
    """One prompt before it has words."""

    id: str
    """``p00012``: its place in the draw, whatever is taken of it."""
    template: str
    """One of :data:`TEMPLATES`."""
    challenge: str
    """One of :data:`~scenewright.agents.parsers.classes.CHALLENGES`."""
    scene: SceneGraph
    """What the prompt must say."""
    said: str = ""
    """What the rules say beside it, for the challenge."""
    pair: str = ""
    """Same for the two prompts of a contrastive pair; empty outside of one."""

    def rng(self, salt: str) -> random.Random:
        """A generator of its own: the same for the two of a pair."""
        return _rng(self.pair or self.id, self.template, self.challenge, salt)


@dataclass(frozen=True, slots=True)
class DrawSpec:
    """What is drawn. Raises ``PsgError`` for what there is not."""

    names: str = "both"
    """One of :data:`~scenewright.evals.datasets.psg_prompts.words.NAMES`."""
    templates: tuple[str, ...] = tuple(TEMPLATES)
    """Taken in turn."""
    challenges: tuple[str, ...] = CHALLENGES
    """Taken in turn, for each template."""
    contrastive: bool = True
    """Whether left, right, top and bottom come in pairs."""
    seed: int = 0
    """Of the draw."""

    def __post_init__(self) -> None:
        """Check the words."""
        for what, given, known in (
            ("template", self.templates, tuple(TEMPLATES)),
            ("challenge", self.challenges, CHALLENGES),
        ):
            if not given:
                raise PsgError(f"no {what}s are named: use some of {', '.join(known)}")
            unknown = [one for one in given if one not in known]
            if unknown:
                raise PsgError(f"there is no {what} {unknown[0]!r}: use {', '.join(known)}")
        vocabulary(self.names)


def draw(spec: DrawSpec, n: int) -> list[Draw]:
    """The first ``n`` prompts of ``spec``; no two have an equal scene and say the same beside it.

    Pairs are never divided: where one place is left for two, the next single prompt takes it.
    Raises ``PsgError`` if the words are used up before.
    """
    found: list[Draw] = []
    for group in _groups(spec):
        if len(found) + len(group) <= n:
            found += group
        if len(found) == n:
            return found
    raise PsgError(
        f"only {len(found)} different prompts can be drawn of {n}: ask for fewer, or name more "
        "templates, challenges or names"
    )


def _groups(spec: DrawSpec) -> Iterator[list[Draw]]:
    """Prompts one by one and pairs together, without end while there are new ones."""
    words = vocabulary(spec.names)
    # A diagonal order: few prompts have both many templates and many challenges.
    cells = [
        (spec.challenges[(shift + at) % len(spec.challenges)], template)
        for shift in range(len(spec.challenges))
        for at, template in enumerate(spec.templates)
    ]
    seen: set[Key] = set()
    dry: set[tuple[str, str]] = set()
    number = 0
    for turn in itertools.count():
        challenge, template = cells[turn % len(cells)]
        if (challenge, template) in dry:
            if len(dry) == len(cells):
                return
            continue
        rng = _rng(spec.seed, spec.names, template, challenge, turn)
        for _ in range(_TRIES):
            scene, turned = _scene(rng, words, template, challenge)
            said = rng.choice(SAID.get(challenge, [""]))
            scenes = [scene] if turned is None or not spec.contrastive else [scene, turned]
            keys = [_key(one, said) for one in scenes]
            if seen.isdisjoint(keys) and all(_fits(words, one) for one in scenes):
                break
        else:
            dry.add((challenge, template))
            continue
        seen.update(keys)
        ids = [f"p{number + at:05d}" for at in range(len(scenes))]
        pair = f"pair-{ids[0]}" if len(ids) > 1 else ""
        number += len(ids)
        yield [
            Draw(id_, template, challenge, one, said, pair)
            for id_, one in zip(ids, scenes, strict=True)
        ]


def _key(scene: SceneGraph, said: str) -> Key:
    """Equal for scenes of the same things, whichever comes first."""
    names = {o.id: (o.name, tuple(o.attributes.items())) for o in scene.objects}
    joined = sorted((names[r.source], r.predicate, names[r.target]) for r in scene.relations)
    return tuple(sorted(names.values())), tuple(joined), said


def _rng(*parts: object) -> random.Random:
    text = "\x1f".join(map(str, parts))
    return random.Random(hashlib.sha256(text.encode()).digest())


@dataclass(slots=True)
class _Slot:
    """A place of a template, filled."""

    noun: Noun
    attributes: dict[str, str]
    count: int = 1


def _scene(
    rng: random.Random, words: Vocabulary, template: str, challenge: str
) -> tuple[SceneGraph, SceneGraph | None]:
    """A filled template, and its mirror where there is one."""
    predicate = ""
    if template == "action":
        verb = rng.choice(words.verbs)
        nouns, predicate = list(rng.choice(verb.pairs)), verb.predicate
    elif template in ("two_object", "position", "color_attr"):
        nouns = _nouns(rng, words, 2, movable=template == "position")
        if template == "position":
            predicate = rng.choice([*words.contrastive, *words.spatial])
    else:
        nouns = _nouns(rng, words, 1, movable=template == "counting")
    slots = [_Slot(noun, {}) for noun in nouns]
    if template in ("colors", "color_attr"):
        for slot, color in zip(slots, rng.sample(words.colors, len(slots)), strict=True):
            slot.attributes["color"] = color
    elif template == "attribute":
        slots[0].attributes |= _trait(rng, words, slots[0].noun)
    elif template == "counting":
        slots[0].count = rng.choice(words.counts)
    if challenge == "QUANTITY" and template != "counting":
        able = [slot for slot in slots if slot.noun.can_be_counted]
        if template == "action":
            # Nobody sits on three chairs.
            able = [slot for slot in able if slot.noun.kind in ("person", "animal")]
        if able:
            rng.choice(able).count = rng.choice(words.counts)
    links = [(0, predicate, 1)] if predicate else []
    if challenge == "COMPLEX":
        _enrich(rng, words, slots, links)
    scene = _built(slots, links)
    if predicate not in words.contrastive:
        return scene, None
    mirrored = [slots[1], slots[0], *slots[2:]]
    moved = {0: 1, 1: 0}
    # What COMPLEX added stays with its things; the nouns of the template change places.
    rest = [(moved.get(a, a), p, moved.get(b, b)) for a, p, b in links[1:]]
    return scene, _built(mirrored, [(0, predicate, 1), *rest])


def _fits(words: Vocabulary, scene: SceneGraph) -> bool:
    """Whether the scene can be painted, where it must be."""
    try:
        return not words.painted or bool(place_objects(scene))
    except PlacementError:
        return False


def _nouns(rng: random.Random, words: Vocabulary, count: int, *, movable: bool) -> list[Noun]:
    """Different nouns; their kinds are drawn first, so that few persons are as many as objects."""
    found: list[Noun] = []
    while len(found) < count:
        by_kind = {
            kind: some
            for kind in ("person", "animal", "object", "region")
            if (
                some := [
                    noun
                    for noun in words.nouns
                    if noun.kind == kind
                    and noun.label not in [one.label for one in found]
                    and (noun.can_be_counted or not movable)
                ]
            )
        }
        # Regions are backgrounds: they come once where the others come three times.
        kinds = [kind for kind in by_kind for _ in range(1 if kind == "region" else 3)]
        found.append(rng.choice(by_kind[rng.choice(kinds)]))
    return found


def _trait(rng: random.Random, words: Vocabulary, noun: Noun) -> dict[str, str]:
    fitting = [trait for trait in words.traits if noun.kind in trait.kinds]
    if not fitting:
        return {"color": rng.choice(words.colors)}
    trait = rng.choice(fitting)
    return {trait.key: rng.choice(trait.values)}


def _enrich(
    rng: random.Random,
    words: Vocabulary,
    slots: list[_Slot],
    links: list[tuple[int, str, int]],
) -> None:
    """COMPLEX: more objects, each beside one that is there, and more attributes."""
    for _ in range(rng.choice(_EXTRA) + (len(slots) == 1)):
        taken = {slot.noun.label for slot in slots}
        rest = [n for n in words.nouns if n.can_be_counted and n.label not in taken]
        slots.append(_Slot(rng.choice(rest), {}))
        at = len(slots) - 1
        links.append((at, rng.choice(words.spatial), rng.randrange(at)))
    for slot in slots:
        if not slot.attributes and slot.noun.kind != "region":
            bound = _trait(rng, words, slot.noun) if rng.random() < 0.5 else {}
            slot.attributes |= bound or {"color": rng.choice(words.colors)}


def _built(slots: Sequence[_Slot], links: Sequence[tuple[int, str, int]]) -> SceneGraph:
    """Several of a thing are several objects; a relation joins each of them."""
    ids: list[list[str]] = []
    objects: list[SceneObject] = []
    for slot in slots:
        own = [f"{slot.noun.label}.{at + 1}" for at in range(slot.count)]
        ids.append(own)
        objects += [
            SceneObject(id=id_, name=slot.noun.label, attributes=Attributes(slot.attributes))
            for id_ in own
        ]
    relations = tuple(
        Relation(source=one, predicate=predicate, target=other)
        for source, predicate, target in links
        for one in ids[source]
        for other in ids[target]
    )
    return SceneGraph(objects=tuple(objects), relations=relations)
