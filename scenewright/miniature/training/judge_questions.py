"""Questions with known answers: what judges learn from and are measured on.

A painting is asked about through scenes that are near the truth but changed: kinds and
colours exchanged, one instance too many, relations turned round. Their facts come from
:func:`scenewright.core.questions.facts_of`, so a judge sees the very forms that runs ask.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from scenewright.core.facts import Fact
from scenewright.core.inflection import plural
from scenewright.core.layout import canonical_predicate
from scenewright.core.predicate_statistics import load_predicates
from scenewright.core.questions import (
    ALL_WHOLE,
    NO_RELATION,
    Protocol,
    facts_of,
    nothing_else_question,
)
from scenewright.core.referring import distinguishing_keys, instance_order, noun_phrase
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.miniature.truth import Truth
from scenewright.miniature.world import COLORS, KINDS, MOST_COUNTED, PREDICATES

_KINDS = sorted(KINDS)
_COLORS = sorted(COLORS)
# As the shipped weights learnt them, whatever the vocabulary of predicates says.
_TURNED = {
    "left of": "right of",
    "right of": "left of",
    "above": "below",
    "below": "above",
    "on": "under",
    "under": "on",
}
_IDLE = 0.12
"""Share that is kept of attribute and relation questions about absent things."""


@dataclass(frozen=True, slots=True)
class Referent:
    """A phrase of a question and the things it may mean."""

    phrase: str
    """As it stands in the question, for example ``red dog``."""
    ids: tuple[str, ...]
    """Painted objects that it fits."""
    kin: tuple[str, ...] = ()
    """Painted objects of the same class: where to look when nothing fits."""


@dataclass(frozen=True, slots=True)
class KnownFact:
    """A fact whose answer is known."""

    fact: Fact
    """What is asked."""
    right: tuple[str, ...]
    """The options that are right; more than one where several instances fit the question."""
    referents: tuple[Referent, ...]
    """The phrases that point at things, in the order of the question."""
    clear: bool
    """Whether the answer is beyond doubt: one option, and no matter of taste."""

    @property
    def holds(self) -> bool:
        """Whether the fact is true."""
        return self.fact.expected in self.right


def _matching(
    truth: Truth, gone: Collection[str], name: str, attributes: Mapping[str, str]
) -> tuple[str, ...]:
    return tuple(i for i in truth.matching(name, attributes) if i not in gone)


def _know_counted(fact: Fact, asked: SceneGraph, truth: Truth, gone: Collection[str]) -> KnownFact:
    subject = asked.object(fact.subject)
    many = fact.question.startswith("Are there")
    before: tuple[Referent, ...] = ()
    kin = _matching(truth, gone, subject.name, {})
    if fact.kind == "object":
        wanted: dict[str, str] = {}
        phrase = subject.name
        same = list(instance_order(asked, subject.name))
    else:
        key, value = str(fact.key), str(fact.value)
        wanted = {key: value}
        phrase = f"{value} {subject.name}"
        if fact.question.startswith("Is the "):
            phrase = value
            before = (Referent(subject.name, kin, kin),)
        same = [
            one
            for one in instance_order(asked, subject.name)
            if asked.object(one).attributes.get(key) == value
        ]
    needed = same.index(subject.id) + 1 if many else 1
    ids = _matching(truth, gone, subject.name, wanted)
    right = "yes" if len(ids) >= needed else "no"
    named = Referent(plural(phrase) if many else phrase, ids, kin)
    return KnownFact(fact, (right,), (*before, named), True)


def _know_relation(
    fact: Fact, asked: SceneGraph, truth: Truth, gone: Collection[str], protocol: Protocol
) -> KnownFact:
    referents: list[Referent] = []
    for object_id in (fact.subject, str(fact.target)):
        item = asked.object(object_id)
        if protocol == "scene-bench":
            keys: tuple[str, ...] | None = ()
        else:
            keys = distinguishing_keys(asked, item)
        kept = tuple(item.attributes) if keys is None else keys
        ids = _matching(truth, gone, item.name, {key: item.attributes[key] for key in kept})
        phrase = noun_phrase(item, kept)
        kin = _matching(truth, gone, item.name, {})
        referents.append(Referent(plural(phrase) if keys is None else phrase, ids, kin))
    pairs = [(s, t) for s in referents[0].ids for t in referents[1].ids if s != t]
    found = {p for s, t in pairs for p in truth.relations_between(s, t)}
    right = tuple(o for o in fact.options if canonical_predicate(o) in found) or (NO_RELATION,)
    clear = len(right) == 1 and not any(truth.is_ambiguous(s, t) for s, t in pairs)
    return KnownFact(fact, right, tuple(referents), clear)


def taught_facts(scene: SceneGraph, protocol: Protocol, seed: int) -> tuple[Fact, ...]:
    """Return the facts of ``scene`` with the options that the miniature's judges are taught."""
    return facts_of(scene, protocol, seed, load_predicates("miniature"))


def know(
    fact: Fact,
    asked: SceneGraph,
    truth: Truth,
    protocol: Protocol,
    gone: Collection[str] = (),
) -> KnownFact:
    """``fact`` of the scene ``asked`` with its answer, by the words of the question.

    ``gone`` names painted objects that have been rubbed out of the picture since.
    """
    if fact.kind == "relation":
        return _know_relation(fact, asked, truth, gone, protocol)
    return _know_counted(fact, asked, truth, gone)


def _other(rng: random.Random, values: list[str], value: str) -> str:
    return rng.choice([v for v in values if v != value])


def _changed_objects(
    rng: random.Random, truth: Truth, change: float
) -> list[tuple[str | None, str, str | None]]:
    """(painted id or none, kind, colour or none) of the objects to ask about."""
    painted = list(truth.scene.objects)
    rng.shuffle(painted)
    listed: list[tuple[str | None, str, str | None]] = []
    plain = rng.random() < 0.3
    for item in painted[: rng.randint(1, len(painted))]:
        color = item.attributes["color"]
        draw = rng.random()
        if draw < change * 0.3:
            listed.append((None, _other(rng, _KINDS, item.name), color))
        elif draw < change:
            listed.append((item.id, item.name, _other(rng, _COLORS, color)))
        else:
            listed.append((item.id, item.name, color))
    if rng.random() < 0.5 * change or len(listed) < 2:
        listed.append((None, rng.choice(_KINDS), rng.choice(_COLORS)))
    if rng.random() < 0.3:
        _, kind, hue = rng.choice(listed)
        listed.append((None, kind, hue if rng.random() < 0.3 else _other(rng, _COLORS, hue or "")))
    return [(i, k, None if plain or rng.random() < 0.2 else c) for i, k, c in listed]


def _asked_relations(
    rng: random.Random,
    truth: Truth,
    listed: list[tuple[str | None, str, str | None]],
    ids: list[str],
    n: int,
) -> tuple[Relation, ...]:
    painted = [at for at, (object_id, _, _) in enumerate(listed) if object_id is not None]
    touching = {(s, t) for s, _, t in truth.contacts}
    pairs = [(a, b) for a in painted for b in painted if a != b]
    rng.shuffle(pairs)
    # Things in contact are few among all pairs but are half of what scenes ask for.
    pairs.sort(key=lambda pair: (listed[pair[0]][0], listed[pair[1]][0]) not in touching)
    found: dict[tuple[int, int], Relation] = {}
    for a, b in pairs[:n]:
        true = sorted(truth.relations_between(str(listed[a][0]), str(listed[b][0])))
        predicate = rng.choice(true) if true else rng.choice(PREDICATES)
        draw = rng.random()
        if draw < 0.3:
            predicate = _TURNED.get(predicate, rng.choice(PREDICATES))
        elif draw < 0.45:
            predicate = rng.choice(PREDICATES)
        found[a, b] = Relation(source=ids[a], predicate=predicate, target=ids[b])
    if rng.random() < 0.15 and len(ids) > 1:
        a, b = rng.sample(range(len(ids)), 2)
        found.setdefault(
            (a, b), Relation(source=ids[a], predicate=rng.choice(PREDICATES), target=ids[b])
        )
    return tuple(found.values())


def ask_about(
    rng: random.Random,
    truth: Truth,
    change: float,
    gone: Collection[str] = (),
    n_relations: int = 4,
) -> list[KnownFact]:
    """Facts of a random scene near the painted one; ``change`` in [0, 1] is how often it is off."""
    listed = _changed_objects(rng, truth, change)
    counts: dict[str, int] = {}
    objects: list[SceneObject] = []
    for _, kind, color in listed:
        counts[kind] = counts.get(kind, 0) + 1
        attributes = Attributes({"color": color} if color else {})
        objects.append(SceneObject(id=f"{kind}.{counts[kind]}", name=kind, attributes=attributes))
    ids = [item.id for item in objects]
    asked = SceneGraph(
        objects=tuple(objects),
        relations=_asked_relations(rng, truth, listed, ids, n_relations),
    )
    protocol: Protocol = "scene-bench" if rng.random() < 0.25 else "grounded"
    facts = taught_facts(asked, protocol, rng.randrange(1 << 16))
    return [know(fact, asked, truth, protocol, gone) for fact in facts]


_FEW = 2
"""Things of a kind that are counted at a glance."""


def _counting(rng: random.Random, truth: Truth, gone: Collection[str]) -> list[KnownFact]:
    """Return questions that count a kind, up to one too many; most often a frequent one."""
    counts = Counter(item.name for item in truth.scene.objects if item.id not in gone)
    several = sorted(kind for kind in counts if counts[kind] > 1) or sorted(counts)
    if not several:
        return []
    kind = rng.choice(several)
    numbers = range(1, min(counts[kind] + 1, MOST_COUNTED) + 1)
    asked = SceneGraph(
        objects=tuple(SceneObject(id=f"{kind}.{number}", name=kind) for number in numbers)
    )
    facts = taught_facts(asked, "grounded", rng.randrange(1 << 16))
    return [know(fact, asked, truth, "grounded", gone) for fact in facts]


def _of_the_whole(
    rng: random.Random, truth: Truth, gone: Collection[str], broken: Collection[str]
) -> list[KnownFact]:
    """Return the questions whether all is whole, and whether there is more than what is named."""
    items = [item for item in truth.scene.objects if item.id not in gone or item.id in broken]
    left = tuple(item.id for item in items if item.id in broken)
    whole = Fact(
        id="whole",
        kind="object",
        subject="",
        statement="everything whole",
        question=ALL_WHOLE,
    )
    found = [KnownFact(whole, ("no" if left else "yes",), (Referent("whole", left),), clear=True)]
    if left or not items:
        return found
    kinds = Counter(item.name for item in items)
    hidden = rng.choice(sorted(kinds)) if len(kinds) > 1 and rng.random() < 0.5 else None
    listed = [(kind, number) for kind, number in kinds.items() if kind != hidden]
    rng.shuffle(listed)
    more = tuple(item.id for item in items if item.name == hidden)
    extra = Fact(
        id="extra",
        kind="object",
        subject="",
        statement="nothing else",
        question=nothing_else_question(listed),
        expected="no",
    )
    right = "yes" if more else "no"
    return [*found, KnownFact(extra, (right,), (Referent("anything else", more),), clear=True)]


def balanced_questions(
    rng: random.Random,
    truth: Truth,
    n: int,
    gone: Collection[str] = (),
    broken: Collection[str] = (),
    unsure: Collection[str] = (),
) -> list[KnownFact]:
    """About ``n`` different questions of all kinds, yes and no about equally often.

    Where there are several of a kind, counts come first among the questions of objects: that one
    is too many is rarer and harder to see than that a kind is not there at all. Of ``gone`` those
    of ``broken`` have left something; questions about them, and about all things at once, come
    beside the ``n``. Nothing is asked about a kind of which one of ``unsure`` is.
    """
    pool: dict[str, KnownFact] = {}
    for known in _counting(rng, truth, gone):
        pool.setdefault(f"{known.fact.question} {known.fact.options}", known)
    for change in (0.15, 0.85, 0.6):
        for known in ask_about(rng, truth, change, gone):
            # A run never asks about what is absent, and such questions are easy: they would
            # teach that a thing of another colour is as good as the thing itself.
            idle = known.fact.kind != "object" and not all(r.kin for r in known.referents)
            if not idle or rng.random() < _IDLE:
                pool.setdefault(f"{known.fact.question} {known.fact.options}", known)
    doubted = {truth.scene.object(one).name for one in unsure}
    pool = {
        text: known
        for text, known in pool.items()
        if not any(truth.scene.object(i).name in doubted for r in known.referents for i in r.kin)
    }
    chosen: list[KnownFact] = [] if unsure else _of_the_whole(rng, truth, gone, broken)
    if names := sorted({truth.scene.object(one).name for one in broken} - doubted):
        asked = SceneGraph(
            objects=tuple(SceneObject(id=f"{name}.1", name=name) for name in names[:3])
        )
        for fact in taught_facts(asked, "grounded", rng.randrange(1 << 16)):
            pool.pop(f"{fact.question} {fact.options}", None)
            chosen.append(know(fact, asked, truth, "grounded", gone))
    most = n + len(chosen)
    # Counts take longest to learn: of many of a kind most questions are about numbers.
    crowded = max(Counter(item.name for item in truth.scene.objects).values(), default=0) > _FEW
    shares = {
        "relation": n // 4 if crowded else n * 5 // 12,
        "attribute": n // 6 if crowded else n // 3,
    }
    for kind, share in (*shares.items(), ("object", n)):
        of_kind = [k for k in pool.values() if k.fact.kind == kind]
        rng.shuffle(of_kind)
        # The highest number that holds is the hardest.
        of_kind.sort(key=lambda k: int(k.fact.key or 0) if k.fact.counts else 0)
        sides = ([k for k in of_kind if k.holds], [k for k in of_kind if not k.holds])
        for at in range(min(share, most - len(chosen))):
            side = sides[at % 2] or sides[1 - at % 2]
            if not side:
                break
            chosen.append(side.pop())
    return chosen
