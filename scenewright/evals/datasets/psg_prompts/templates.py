"""Templates of scene graphs, their vocabularies, and seeded draws (PSG-Bench, supplement A.3).

The first six templates are GenEval's tasks as graphs; ``action`` binds the supplement's verbs,
``attribute`` its free attributes. :func:`draw` fills them with words: seeded, each prompt once, and
for left, right, top and bottom in contrastive pairs.

The words are data in ``words.toml``, from PSG-Bench, supplement A.3, and GenEval for colours and
counts. The supplement announces 53 regions of COCO and prints 52; they are taken as printed.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from scenewright.agents.composers.rules import BARE, SAID
from scenewright.agents.parsers.classes import CHALLENGES
from scenewright.core.inflection import plural, read_data
from scenewright.core.layout import PlacementError, place_objects
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.datasets.base import DatasetError

Kind = Literal["person", "animal", "object", "region"]
NAMES = ("coco", "ade20k", "both", "paper", "miniature")
"""Lists of names: COCO-133, ADE20K-150 or both, each with the supplement's own nouns; these alone;
the kinds of the painted world."""

DATA: Mapping[str, Any] = read_data("scenewright.evals.datasets.psg_prompts", "words.toml")


class PsgError(DatasetError):
    """Prompts that cannot be made; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class Noun:
    """A name that objects of a scene may have."""

    name: str
    """Class label, as in the list: ``wall-brick``; of ADE20K the first of several."""
    kind: Kind
    synonyms: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Label in scenes and prompts: ``brick wall``."""
        return spoken(self.name)

    @property
    def can_be_counted(self) -> bool:
        """Whether there may be several of it, and whether it may be beside something."""
        # "Two sheep" looks like one: a text that says it cannot be checked.
        many = plural(self.label) != self.label
        return self.kind != "region" and self.name not in BARE and many


@dataclass(frozen=True, slots=True)
class Verb:
    """A relation that is not spatial (supplement A.3)."""

    predicate: str
    """As in scenes: ``watching``."""
    pairs: tuple[tuple[Noun, Noun], ...]
    """Possible subjects and objects."""


@dataclass(frozen=True, slots=True)
class Trait:
    """An attribute that things of some kinds may have."""

    key: str
    values: tuple[str, ...]
    kinds: frozenset[Kind]
    """Kinds of nouns that may have it."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """All words of a draw."""

    name: str
    """One of :data:`NAMES`."""
    nouns: tuple[Noun, ...]
    """In the order of the list."""
    contrastive: tuple[str, ...]
    """Spatial predicates that are reversed with their nouns."""
    spatial: tuple[str, ...]
    """Other spatial predicates."""
    verbs: tuple[Verb, ...]
    """Verbs that some of the nouns can do."""
    colors: tuple[str, ...]
    """Values of ``color``."""
    traits: tuple[Trait, ...]
    """Other attributes; empty in a world without any."""
    counts: tuple[int, ...]
    """Possible numbers of one thing."""
    painted: bool = False
    """Whether every scene must fit on the grid of :mod:`scenewright.core.layout`."""


def spoken(name: str) -> str:
    """Return a name in words: ``floor-wood`` is a wood floor; a sign-board stays one."""
    head, dash, rest = name.partition("-")
    return f"{rest} {head}" if dash and head in ("floor", "wall") else name


@lru_cache(maxsize=8)
def vocabulary(name: str) -> Vocabulary:
    """Return the words of the list ``name``. Raises ``PsgError`` for an unknown one."""
    if name not in NAMES:
        raise PsgError(f"there are no names {name!r}: use {', '.join(NAMES)}")
    if name == "miniature":
        return _miniature()
    nouns = _nouns_of_list(name)
    return Vocabulary(
        name=name,
        nouns=nouns,
        contrastive=tuple(DATA["spatial"]["contrastive"]),
        spatial=tuple(DATA["spatial"]["other"]),
        verbs=tuple(verb for row in DATA["verbs"] if (verb := _verb(row, nouns)).pairs),
        colors=tuple(DATA["colors"]["values"]),
        traits=tuple(
            Trait(row["key"], tuple(row["values"]), frozenset(row["fits"]))
            for row in DATA["attributes"]
        ),
        counts=tuple(range(DATA["counts"]["least"], DATA["counts"]["most"] + 1)),
    )


def _nouns_of_list(name: str) -> tuple[Noun, ...]:
    given = DATA["nouns"]
    own = [*given["persons"], *given["animals"], *given["objects"]]
    coco = [*DATA["coco"]["things"], *DATA["coco"]["stuff"]]
    ade: list[str] = list(DATA["ade20k"]["names"])
    lists: Mapping[str, Sequence[str]] = {
        "paper": own,
        "coco": [*own, *coco],
        "ade20k": [*own, *ade],
        "both": [*own, *coco, *ade],
    }
    found: dict[str, Noun] = {}
    for entry in lists[name]:
        first, *others = entry.split("/")
        found.setdefault(first, Noun(first, kind_of(first), tuple(others)))
    return tuple(found.values())


def kind_of(name: str) -> Kind:
    """Return the kind of a name of the lists."""
    given = DATA["nouns"]
    if name in given["persons"] or name in given["other_persons"]:
        return "person"
    if name in given["animals"] or name in given["other_animals"]:
        return "animal"
    return "region" if name in given["regions"] else "object"


def _verb(row: Mapping[str, Any], nouns: Sequence[Noun]) -> Verb:
    def meant(named: Sequence[str]) -> list[Noun]:
        return [noun for noun in nouns if noun.name in named or noun.kind in named]

    pairs = tuple(
        (one, other)
        for one in meant(row["subjects"])
        for other in meant(row["objects"])
        if one != other
    )
    return Verb(str(row["predicate"]), pairs)


def _miniature() -> Vocabulary:
    """Return the words that the miniature's painter draws and its judges know."""
    from scenewright.miniature.world import COLORS, CONTACTS, DIRECTIONS, can_hold
    from scenewright.miniature.world import KINDS as PAINTED

    nouns = tuple(Noun(name, kind_of(name)) for name in PAINTED)
    verbs = tuple(
        Verb(
            predicate,
            tuple(
                (one, other)
                for one in nouns
                for other in nouns
                if one != other and can_hold(one.name, predicate, other.name)
            ),
        )
        for predicate in CONTACTS
    )
    return Vocabulary(
        name="miniature",
        nouns=nouns,
        contrastive=tuple(DIRECTIONS),
        spatial=("near",),
        verbs=verbs,
        colors=tuple(COLORS),
        traits=(),
        counts=tuple(range(2, DATA["miniature"]["most"] + 1)),
        painted=True,
    )


DRAW_VERSION = 1
"""Increased when a seed draws other prompts."""
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
    """``p00012``: its place in the draw."""
    template: str
    """One of :data:`TEMPLATES`."""
    challenge: str
    """One of :data:`~scenewright.agents.parsers.classes.CHALLENGES`."""
    scene: SceneGraph
    """Scene that the prompt must describe."""
    said: str = ""
    """Additional words of the rules, for the challenge."""
    pair: str = ""
    """Same for the two prompts of a contrastive pair; empty otherwise."""

    def rng(self, salt: str) -> random.Random:
        """Return a generator of its own: the same for the two of a pair."""
        return _rng(self.pair or self.id, self.template, self.challenge, salt)


@dataclass(frozen=True, slots=True)
class DrawSpec:
    """Options of a draw. Raises ``PsgError`` for unknown ones."""

    names: str = "both"
    """One of :data:`~scenewright.evals.datasets.psg_prompts.templates.NAMES`."""
    templates: tuple[str, ...] = tuple(TEMPLATES)
    """Taken in turn."""
    challenges: tuple[str, ...] = CHALLENGES
    """Taken in turn, for each template."""
    contrastive: bool = True
    """Whether left, right, top and bottom come in pairs."""
    seed: int = 0

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
    """Return the first ``n`` prompts of ``spec``.

    No two have an equal scene and say the same beside it.

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
    """Yield single prompts and pairs, as long as there are new ones."""
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
    """Return a key that is equal for scenes of the same things in any order."""
    names = {o.id: (o.name, tuple(o.attributes.items())) for o in scene.objects}
    joined = sorted((names[r.source], r.predicate, names[r.target]) for r in scene.relations)
    return tuple(sorted(names.values())), tuple(joined), said


def _rng(*parts: object) -> random.Random:
    text = "\x1f".join(map(str, parts))
    return random.Random(hashlib.sha256(text.encode()).digest())


@dataclass(slots=True)
class _Slot:
    """A filled place of a template."""

    noun: Noun
    attributes: dict[str, str]
    count: int = 1


def _scene(
    rng: random.Random, words: Vocabulary, template: str, challenge: str
) -> tuple[SceneGraph, SceneGraph | None]:
    """Return a filled template, and its mirror where there is one."""
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
    """Return whether the scene can be painted, where it must be."""
    try:
        return not words.painted or bool(place_objects(scene))
    except PlacementError:
        return False


def _nouns(rng: random.Random, words: Vocabulary, count: int, *, movable: bool) -> list[Noun]:
    """Return different nouns.

    Their kinds are drawn first, so that the few persons are as frequent as objects.
    """
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
    """Add objects, each beside an existing one, and attributes for the challenge COMPLEX."""
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
    """Return the scene; several instances are several objects, each with its relations."""
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
