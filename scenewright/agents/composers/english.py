"""English for composers: predicates as verb phrases, and groups of like instances.

Scene graphs name predicates in many forms (``holding``, ``hold``, ``wears``, ``is on a``, ``left
of``, ``parked``). Word forms come from the lexicon of the caption parser; exceptions are data in
``english.toml``. Instances that share their statements are grouped, with the relations between
groups.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from scenewright.agents.composers.reading import SAID_FOR
from scenewright.agents.parsers.spelling import is_compound, is_known, parts_of_speech
from scenewright.agents.parsers.tagging import (
    ANIMATE,
    ARTICLES,
    BE,
    CLOTHES,
    NUMBER_WORDS,
    PARTS,
    PLANTS,
    PLURAL_MODIFIERS,
    PREPOSITIONS,
    SCENERY,
    THING_PARTS,
    VESSELS,
    WHOLES,
    is_animate,
    rough,
)
from scenewright.core.english import Described, is_many, is_mass
from scenewright.core.inflection import (
    IRREGULAR_VERBS,
    WordLists,
    ing_form,
    plural,
    singular,
    third_person,
    verb_base,
)
from scenewright.core.intent import Count
from scenewright.core.scene import SceneGraph, SceneObject
from scenewright.core.wording import Names

_LISTS = WordLists.of("scenewright.agents.composers", "english.toml")
_SAID = _LISTS.pairs("predicates", "said", ",")
_JOINED = _LISTS.pairs("predicates", "joined")
_STATES = _LISTS.words("predicates", "states")
_BEHIND = _LISTS.words("predicates", "behind")
_UNCHANGED = _LISTS.words("predicates", "unchanged")
_ONGOING = _LISTS.words("predicates", "ongoing")
WAYS = _LISTS.words("predicates", "ways")
"""Prepositions that say where a movement goes."""
CLOSE = WAYS | _LISTS.words("predicates", "close")
"""Prepositions that may follow a noun without "which is"."""
_ORDINALS = _LISTS.ordered("numbers", "order")
# Larger numbers are said in digits.
_NUMBERS = ("zero", *NUMBER_WORDS)[: len(_ORDINALS)]
_BEING = BE | {"been", "be", "being"}
_SPATIAL = frozenset({"preposition", "adverb", "place"})

_COUNTABLE = ANIMATE | CLOTHES | PARTS | PLANTS | THING_PARTS | VESSELS | WHOLES | SCENERY

Place = Literal["be", "verb", "behind"]


@dataclass(frozen=True, slots=True)
class Predicate:
    """A predicate in English."""

    place: Place
    """``be``: after "is" (``holding``); ``verb``: a verb of its own (``contain``); ``behind``:
    right behind the noun (``with``)."""
    words: str
    """Words; a verb in its base form."""

    def finite(self, many: bool) -> str:
        """Return the verb with its ending: ``contains``, of ``many`` subjects ``contain``."""
        first, _, rest = self.words.partition(" ")
        return " ".join(filter(None, (first if many else third_person(first), rest)))


HAS = Predicate("verb", "have")


@lru_cache(maxsize=4096)
def predicate_in_english(predicate: str) -> Predicate:
    """Return how a predicate is said of its subject.

    >>> predicate_in_english("wears"), predicate_in_english("left of").words
    (Predicate(place='be', words='wearing'), 'to the left of')
    """
    words = predicate.casefold().replace("_", " ").split()
    while words and words[0] in _BEING:
        words = words[1:]
    while len(words) > 1 and words[-1] in ("a", "an", "the"):
        words = words[:-1]
    phrase = _SAID.get(" ".join(words), " ".join(words))
    words = phrase.split()
    if not words:
        return Predicate("be", "")
    if phrase in _BEHIND:
        return Predicate("behind", phrase)
    first, rest = words[0], words[1:]
    if first in ("has", "have", "had", "having"):
        return Predicate("verb", " ".join(["have", *rest]))
    if verb_base(first) == "look" and rest[:1] == ["like"]:
        return Predicate("verb", f"look {' '.join(rest)}")
    if tuple(words) in PREPOSITIONS or rough(first) in _SPATIAL:
        return Predicate("be", phrase)
    base = verb_base(first)
    if base is None:
        # A verb that no list holds shows its ending; what shows none is said as it stands.
        if first.endswith("s") and not first.endswith("ss") and rough(first) == "noun":
            return Predicate("verb", " ".join([first[:-1], *rest]))
        if not rest and first.endswith("ed") and first not in _JOINED and len(first) > 4:
            # With nothing but an object it is done, not suffered: "saturating an area".
            return Predicate("be", f"{first[:-2]}ing")
        return Predicate("be", phrase)
    form = rough(first)
    if base in _STATES and form != "participle":
        return Predicate("verb", " ".join([base, *rest]))
    if rest and first in _UNCHANGED:
        return Predicate("be", phrase)
    past = first in IRREGULAR_VERBS and first != base and not first.endswith("ing")
    if past or (first.endswith("ed") and first != base):
        if not rest and first in _JOINED:
            return Predicate("be", f"{first} {_JOINED[first]}")
        if rest and (base not in _ONGOING or rest[0] in ("by", "in", "from")):
            return Predicate("be", phrase)
    return Predicate("be", " ".join([ing_form(base), *rest]))


def number_word(number: int) -> str:
    """Return ``two``; digits beyond twelve."""
    return _NUMBERS[number] if number < len(_NUMBERS) else str(number)


def ordinal(number: int) -> str:
    """Return ``second``; digits beyond twelve."""
    return _ORDINALS[number] if number < len(_ORDINALS) else f"{number}th"


def is_countable(name: str) -> bool:
    """Return whether a label is surely counted, however a sentence leaves out its article."""
    head = singular(name.rpartition(" ")[2].casefold())
    return head in _COUNTABLE or head in SAID_FOR


@lru_cache(maxsize=4096)
def _compound(name: str) -> str:
    """Return a label with its first nouns in the singular: "thread rolls" of "threads rolls"."""
    *first, last = name.split(" ")
    said: list[str] = []
    for word in first:
        one = singular(word)
        whose = not word.islower() or "'" in word or word in PLURAL_MODIFIERS or is_animate(word)
        said.append(word if whose or "NOUN" not in parts_of_speech(one) else one)
    return " ".join([*said, last])


def _is_name(item: SceneObject, sentence: str) -> bool:
    """Return whether a word of no dictionary names somebody: "batman dancing in a show"."""
    words = item.name.casefold().split()
    noted = len(words) == 1 and not words[0].endswith("man")
    noted = noted and not set(sentence.casefold().split()) & ARTICLES
    described = item.attributes.keys() - {"state"}
    # Superman is no kind of thing.
    common = (
        is_known(word) and (not word.endswith("man") or not is_compound(word) or is_animate(word))
        for word in words
    )
    return not (described or noted or any(common))


@dataclass(slots=True, eq=False)
class Group:
    """Instances with the same statements."""

    at: int
    """Position in the scene."""
    items: tuple[SceneObject, ...]
    said: Described
    proper: bool
    """Whether its label is a proper name."""
    article: str | None = None
    """Article that the sentence gives it: ``a``, ``the`` or none (empty); None if unknown."""
    possessive: str = ""
    """Possessive that the sentence gives it: ``his``."""
    count: Count | None = None
    """Meaning of its number, if the sentence says it."""
    without: tuple[str, ...] = ()
    """Parts that it is to be without, in words: "without a hat"."""
    place: int | None = None
    """Words before its first mention in the sentence, if it is there."""
    outgoing: list[Edge] = field(default_factory=list)
    incoming: list[Edge] = field(default_factory=list)
    spoken: bool = False
    """Whether it was told as a subject."""
    stated: bool = False
    """Whether its states were told."""

    @property
    def name(self) -> str:
        """The label; one of several people is a person."""
        name = self.items[0].name
        several = self.count is not None and len(self.count.objects) > 1
        one = self.number == 1 and several and name.casefold() == "people"
        if self.place is not None and not self.proper:
            name = _compound(name)
        return "person" if one else name

    @property
    def number(self) -> int:
        return len(self.items)

    @property
    def many(self) -> bool:
        """Whether its verb is "are"."""
        several = is_many(self.name) and not self.proper and self.article != "a"
        return self.number > 1 or several or self.is_herd

    @property
    def is_herd(self) -> bool:
        """Whether the sentence says it without an article, in a form for one and many: "sheep"."""
        if self.article != "" or self.proper or is_mass(self.name) or is_many(self.name):
            return False
        return plural(self.name) == self.name and is_countable(self.name)

    @property
    def adjectives(self) -> str:
        return " ".join(self.said.before)

    @property
    def label(self) -> str:
        """Name in small letters."""
        return self.name.casefold()

    @property
    def called(self) -> tuple[str, tuple[str, ...]]:
        """Label with the adjectives."""
        return self.label, self.said.before

    @property
    def noun(self) -> str:
        """Name in the form for its number."""
        return self.name if self.number == 1 else plural(self.name)

    @property
    def ids(self) -> list[str]:
        """Ids of the instances."""
        return [item.id for item in self.items]

    @property
    def states(self) -> tuple[str, ...]:
        """States that are left to tell."""
        return () if self.stated else self.said.states

    @property
    def ahead(self) -> list[Edge]:
        """Relations that are left to tell."""
        return [edge for edge in self.outgoing if not edge.done and not edge.deferred]


@dataclass(slots=True, eq=False)
class Edge:
    """A relation between two groups."""

    source: Group
    predicate: Predicate
    target: Group
    each: bool
    """Whether each source has a target of its own."""
    owned: bool = False
    """Whether the sentence says it by "'s": the cat's head."""
    done: bool = False

    @property
    def deferred(self) -> bool:
        """Whether it is a possession told where that is mentioned: "on the dog's head"."""
        mine = self.predicate == HAS and self.source.number == 1 and self.source is not self.target
        owners = [edge for edge in self.target.incoming if edge.predicate == HAS]
        others = any(
            edge is not self and edge.target is not self.source and edge.predicate.place != "behind"
            for edge in (*self.target.incoming, *self.target.outgoing)
        )
        more = others or bool(self.target.said.states)
        return mine and not self.done and not self.each and len(owners) == 1 and more


def grouped(scene: SceneGraph) -> list[Group]:
    """Group the objects with equal statements; return groups and relations between them.

    Colour refinement: instances of one class with equal attributes stay together as long as they
    have the same relations to the same groups, and each group has all or one each of another.
    """
    look = {item.id: (item.name.casefold(), item.attributes) for item in scene.objects}
    loose = {i for one in scene.intent.counts if len(one.objects) > 1 for i in one.objects}
    color = _numbered_by(look)
    while True:
        signs: dict[str, tuple[object, ...]] = {}
        for item in scene.objects:
            out = sorted(
                (r.predicate, color[r.target]) for r in scene.relations if r.source == item.id
            )
            into = sorted(
                (r.predicate, color[r.source]) for r in scene.relations if r.target == item.id
            )
            if item.id in loose:
                # Which of those that a sentence counts together has how many tells nothing.
                out, into = sorted(set(out)), sorted(set(into))
            signs[item.id] = (color[item.id], tuple(out), tuple(into))
        before, color = len(set(color.values())), _numbered_by(signs)
        finer = len(set(color.values()))
        if finer == before:
            color = _split_uneven(scene, color, loose)
            if len(set(color.values())) == finer:
                break
    groups: dict[int, Group] = {}
    names = Names(scene)
    counts = {id_: one for one in scene.intent.counts for id_ in one.objects}
    without = {one.of: one.text for one in scene.intent.exclusions if one.of is not None}
    begun: dict[str, set[str]] = {}
    for relation in scene.relations:
        first = predicate_in_english(relation.predicate).words.partition(" ")[0]
        begun.setdefault(relation.source, set()).add(verb_base(first) or first)
    for at, item in enumerate(scene.objects):
        mine = tuple(o for o in scene.objects if color[o.id] == color[item.id])
        if color[item.id] in groups:
            continue
        article = names.article_of(item.name, item.attributes.values())
        named = len(mine) == 1 and not article and _is_name(item, scene.intent.sentence)
        groups[color[item.id]] = Group(
            at,
            mine,
            _not_begun(names.described(item), begun.get(item.id, set())),
            named or names.is_proper(item.name),
            article,
            names.possessive_of(item.name, item.attributes.values()),
            counts.get(item.id),
            (without[item.id],) if item.id in without else (),
            names.place_of(item.name),
        )
    pairs = _pairs(scene, color)
    for one in scene.relations:
        source, target = groups[color[one.source]], groups[color[one.target]]
        predicate = predicate_in_english(one.predicate)
        if any(e.predicate == predicate and e.target is target for e in source.outgoing):
            continue
        count = pairs[color[one.source], one.predicate, color[one.target]]
        each = source.number > 1 and count == source.number == target.number
        open_ = target.count is not None or (
            source.count is not None and source.count.kind != "exact"
        )
        _join(source, predicate, target, each and not open_)
    _join_as_said(names, list(groups.values()))
    return list(groups.values())


def _join_as_said(names: Names, groups: Sequence[Group]) -> None:
    """Join what the sentence joins by "of" and no relation does: a plate of pizza."""
    owned = set(names.joined("'s", "’s"))
    for edge in (edge for group in groups for edge in group.outgoing):
        edge.owned = (edge.source.items[0].name, edge.target.items[0].name) in owned
    for first, second in names.joined("of"):
        owners, others = ([g for g in groups if g.items[0].name == n] for n in (first, second))
        if len(owners) != 1 or len(others) != 1:
            continue
        source, target = owners[0], others[0]
        back = [edge for edge in target.outgoing if edge.target is source]
        held = all(edge.predicate.words in ("in", "on") and not edge.each for edge in back)
        if held and not any(edge.target is target for edge in source.outgoing):
            for edge in back:
                # "A cup of tea" says that tea is in it.
                edge.done = True
            _join(source, Predicate("behind", "of"), target, False)
            source.outgoing.insert(0, source.outgoing.pop())


def _not_begun(said: Described, begun: Set[str]) -> Described:
    """Leave out what a relation says as well: who sits on a bench sits."""

    def left(words: tuple[str, ...]) -> tuple[str, ...]:
        firsts = ((one, one.partition(" ")[0].casefold()) for one in words)
        return tuple(one for one, first in firsts if (verb_base(first) or first) not in begun)

    return Described(left(said.before), left(said.states), said.behind, said.texts)


def _numbered_by(signs: Mapping[str, tuple[object, ...]]) -> dict[str, int]:
    numbers: dict[object, int] = {}
    return {key: numbers.setdefault(sign, len(numbers)) for key, sign in signs.items()}


def _split_uneven(scene: SceneGraph, color: dict[str, int], loose: Set[str]) -> dict[str, int]:
    """Split one group that another relates to unevenly.

    Even means that all members are related, or each to one of its own.
    """
    sizes, open_ = Counter(color.values()), {color[id_] for id_ in loose}
    # Relations of several with each other are even as well.
    counts = {
        (source, predicate, target): n
        for (source, predicate, target), n in _pairs(scene, color).items()
        if not open_ & {source, target}
        and (source != target or n != sizes[source] * (sizes[source] - 1))
    }
    for (source, _, target), count in counts.items():
        full = source != target and count == sizes[source] * sizes[target]
        paired = source != target and count == sizes[source] == sizes[target]
        if not (full or paired):
            worst = source if sizes[source] > 1 else target
            return _apart(color, worst)
    for (source, _, target), count in counts.items():
        paired = count == sizes[source] == sizes[target] > 1
        others = [key for key in counts if target in (key[0], key[2]) and key[0] != source]
        several = [key for key in counts if key[0] == source and key[2] == target]
        if paired and (others or len(several) > 1):
            # "Each a bag": what is said of the bag besides could not be told apart.
            return _apart(_apart(color, source), target)
    return color


def _pairs(scene: SceneGraph, color: Mapping[str, int]) -> Counter[tuple[int, str, int]]:
    """Return the number of relations by color of the source, predicate and color of the target."""
    return Counter((color[r.source], r.predicate, color[r.target]) for r in scene.relations)


def _apart(color: dict[str, int], worst: int) -> dict[str, int]:
    fresh = itertools.count(max(color.values()) + 1)
    return {key: next(fresh) if c == worst else c for key, c in color.items()}


def _join(source: Group, predicate: Predicate, target: Group, each: bool) -> None:
    edge = Edge(source, predicate, target, each)
    source.outgoing.append(edge)
    target.incoming.append(edge)
