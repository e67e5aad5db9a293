"""English for composers: predicates as verb phrases, attributes as adjectives, groups.

Scene graphs name predicates in many forms (``holding``, ``hold``, ``wears``, ``is on a``, ``left
of``, ``parked``). Word forms come from the lexicon of the caption parser; exceptions are data in
``english.toml``. Instances that share their statements are grouped, with the relations between
groups.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from scenewright.agents.parsers.tagging import (
    ARTICLES,
    BE,
    NUMBER_WORDS,
    PEOPLE_PRONOUNS,
    PREPOSITIONS,
    THING_PRONOUNS,
    key_of,
    rough,
)
from scenewright.core.inflection import (
    IRREGULAR_VERBS,
    WordLists,
    ing_form,
    is_plural,
    third_person,
    verb_base,
)
from scenewright.core.questions import article
from scenewright.core.scene import SceneGraph, SceneObject
from scenewright.core.vocabulary import canonical_key

_LISTS = WordLists.of("scenewright.agents.composers", "english.toml")
_SAID = _LISTS.pairs("predicates", "said", ",")
_JOINED = _LISTS.pairs("predicates", "joined")
_STATES = _LISTS.words("predicates", "states")
_BEHIND = _LISTS.words("predicates", "behind")
_ONGOING = _LISTS.words("predicates", "ongoing")
_MASS = _LISTS.words("nouns", "mass")
_ONE = _LISTS.words("nouns", "one")
_ORDINALS = _LISTS.ordered("numbers", "order")
# Larger numbers are said in digits.
_NUMBERS = ("zero", *NUMBER_WORDS)[: len(_ORDINALS)]
_BEING = BE | {"been", "be", "being"}
_PRONOUNS = PEOPLE_PRONOUNS | THING_PRONOUNS | {"someone", "somebody", "something", "they", "them"}
_YES = frozenset({"yes", "true"})
_NO = frozenset({"no", "false"})
_RANKS = {
    **{"state": 0, "size": 1, "scale": 1, "length": 1, "age": 2, "shape": 3, "texture": 4},
    **{"pattern": 4, "color": 5, "material": 7, "gender": 8, "type": 9},
}
"""Attribute key → its rank before the noun."""
_OTHER_RANK = 6
_LONGEST_ADJECTIVE = 4
"""Most words of a value that is placed before its noun."""
_BEFORE_NOUN = frozenset({"adjective", "either", "noun", "participle", "and", "number"})
_SPATIAL = frozenset({"preposition", "adverb", "place"})

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
    if tuple(words) in PREPOSITIONS or rough(first) in _SPATIAL:
        return Predicate("be", phrase)
    base = verb_base(first)
    if base is None:
        # A verb that no list holds shows its ending; what shows none is said as it stands.
        unknown = first.endswith("s") and not first.endswith("ss") and rough(first) == "noun"
        return (
            Predicate("verb", " ".join([first[:-1], *rest])) if unknown else Predicate("be", phrase)
        )
    form = rough(first)
    if base in _STATES and form != "participle":
        return Predicate("verb", " ".join([base, *rest]))
    past = first in IRREGULAR_VERBS and first != base and not first.endswith("ing")
    if past or (first.endswith("ed") and first != base):
        if not rest and first in _JOINED:
            return Predicate("be", f"{first} {_JOINED[first]}")
        if rest and (base not in _ONGOING or rest[0] in ("by", "in", "from")):
            return Predicate("be", phrase)
    return Predicate("be", " ".join([ing_form(base), *rest]))


@dataclass(frozen=True, slots=True)
class Described:
    """The attributes of an object in English."""

    before: tuple[str, ...] = ()
    """Adjectives, in their order before the noun."""
    states: tuple[str, ...] = ()
    """Predicates after "is"."""
    behind: tuple[str, ...] = ()
    """Words after the noun."""


@lru_cache(maxsize=4096)
def described(item: SceneObject) -> Described:
    """Split the attributes of ``item`` into adjectives (short values) and predicates.

    Values that the label or another key repeats are left out.
    """
    said = {item.name.casefold(), *item.name.casefold().split()}
    before: list[tuple[int, str]] = []
    states: list[str] = []
    behind: list[str] = []
    for key, value in item.attributes.items():
        for place, words in _attribute(key.casefold(), " ".join(value.split())):
            if words.casefold() in said:
                continue
            said.add(words.casefold())
            if place == "before":
                before.append((_rank(key.casefold(), words), words))
            else:
                (states if place == "state" else behind).append(words)
    ordered = tuple(words for _, words in sorted(before, key=lambda pair: pair[0]))
    return Described(ordered, tuple(states), tuple(behind))


def _rank(key: str, words: str) -> int:
    known = canonical_key(key)
    if known not in _RANKS or known == "state":
        known = key_of(words.casefold())
    return _RANKS.get(known, _OTHER_RANK)


def _attribute(key: str, value: str) -> Iterator[tuple[str, str]]:
    """Return (``before``, ``state`` or ``behind``; words) of a value, which may join several."""
    low = value.casefold()
    if low in _YES:
        yield "before", key
    elif low in _NO:
        yield "state", f"not {key}"
    elif key == "text":
        yield "behind", f'with the text "{value}"'
    elif _is_adjective(key, low):
        yield "before", value
    else:
        for part in value.split(" and "):
            low = part.casefold()
            yield ("before", part) if _is_adjective(key, low) else ("state", _state(part))


def _is_adjective(key: str, value: str) -> bool:
    words = value.split()
    kinds = [rough(word) for word in words]
    if key == "place" or len(words) > _LONGEST_ADJECTIVE or "," in value:
        return False
    if len(words) == 1:
        doing = canonical_key(key) not in _RANKS or canonical_key(key) == "state"
        return kinds[0] in _BEFORE_NOUN or not (doing or kinds[0] in _SPATIAL)
    if kinds[0] == "and" or kinds[-1] == "and" or kinds[-1] == "number":
        return False
    if kinds[0] == "participle" and kinds[-1] == "noun":
        return False
    return (
        all(
            kind in _BEFORE_NOUN or (kind == "adverb" and word not in ("up", "down", "out"))
            for word, kind in zip(words, kinds, strict=True)
        )
        and kinds[-1] != "adverb"
    )


def _state(value: str) -> str:
    """Return the predicate after "is": ``lean forward`` becomes ``leaning forward``."""
    first, _, rest = value.partition(" ")
    low = first.casefold()
    base = verb_base(low)
    if low in ("have", "has"):
        return f"having {rest}".strip()
    if base is None or rough(low) not in ("verb", "weak") or low in IRREGULAR_VERBS:
        return value
    return f"{ing_form(base)} {rest}".strip()


def number_word(number: int) -> str:
    """Return ``two``; digits beyond twelve."""
    return _NUMBERS[number] if number < len(_NUMBERS) else str(number)


def ordinal(number: int) -> str:
    """Return ``second``; digits beyond twelve."""
    return _ORDINALS[number] if number < len(_ORDINALS) else f"{number}th"


def is_many(name: str) -> bool:
    """Return whether a label takes "are": ``legs``, ``people``."""
    return is_plural(name) and name.casefold() not in _MASS


def is_mass(name: str) -> bool:
    """Return whether a label takes no article: ``grass``, ``orange juice``."""
    return name.rpartition(" ")[2].casefold() in _MASS


def is_name(name: str, small: bool) -> bool:
    """Return whether a label is a proper name.

    ``small``: other labels of the scene begin with lower-case letters.
    """
    words = name.split()
    capital = all(word[:1].isupper() and not word.isupper() for word in words)
    return capital and (small or len(words) > 1)


def indefinite(name: str, adjectives: str, proper: bool = False) -> str:
    """Return the first mention of a label with its adjectives: ``a red ball``, ``water``."""
    phrase = f"{adjectives} {name}".strip()
    first = phrase.split()[0].casefold()
    if name.casefold() in _ONE:
        return f"{article(phrase) if adjectives else 'the'} {phrase}"
    if is_many(name) or is_mass(name) or not takes_article(name, proper):
        return phrase
    bare = first in ARTICLES or rough(first) == "possessive"
    return phrase if bare else f"{article(phrase)} {phrase}"


def takes_article(name: str, proper: bool = False) -> bool:
    """Return whether "the" may precede the label."""
    first = name.split()[0].casefold()
    determined = first in ARTICLES or rough(first) == "possessive"
    return not (proper or determined or name.casefold() in _PRONOUNS)


def listed(parts: Sequence[str]) -> str:
    """Return ``a, b and c``."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


@dataclass(slots=True, eq=False)
class Group:
    """Instances with the same statements."""

    at: int
    """Position in the scene."""
    items: tuple[SceneObject, ...]
    said: Described
    proper: bool
    """Whether its label is a proper name: capitalised where other labels are not."""
    outgoing: list[Edge] = field(default_factory=list)
    incoming: list[Edge] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.items[0].name

    @property
    def number(self) -> int:
        return len(self.items)

    @property
    def many(self) -> bool:
        """Whether its verb is "are"."""
        return self.number > 1 or is_many(self.name)

    @property
    def adjectives(self) -> str:
        return " ".join(self.said.before)


@dataclass(slots=True, eq=False)
class Edge:
    """A relation between two groups."""

    source: Group
    predicate: Predicate
    target: Group
    each: bool
    """Whether each source has a target of its own."""
    done: bool = False


def grouped(scene: SceneGraph) -> list[Group]:
    """Group the objects with equal statements; return groups and relations between them.

    Colour refinement: instances of one class with equal attributes stay together as long as they
    have the same relations to the same groups, and each group has all or one each of another.
    """
    look = {item.id: (item.name.casefold(), item.attributes) for item in scene.objects}
    color: dict[str, int] = _numbered_by({key: (value,) for key, value in look.items()})
    while True:
        signs: dict[str, tuple[object, ...]] = {}
        for item in scene.objects:
            out = sorted(
                (r.predicate, color[r.target]) for r in scene.relations if r.source == item.id
            )
            into = sorted(
                (r.predicate, color[r.source]) for r in scene.relations if r.target == item.id
            )
            signs[item.id] = (color[item.id], tuple(out), tuple(into))
        finer = _numbered_by(signs)
        if len(set(finer.values())) == len(set(color.values())):
            color = _split_uneven(scene, finer)
            if len(set(color.values())) == len(set(finer.values())):
                break
        else:
            color = finer
    groups: dict[int, Group] = {}
    small = any(item.name[:1].islower() for item in scene.objects)
    for at, item in enumerate(scene.objects):
        mine = tuple(o for o in scene.objects if color[o.id] == color[item.id])
        groups.setdefault(
            color[item.id], Group(at, mine, described(item), is_name(item.name, small))
        )
    _join(scene, color, groups)
    return list(groups.values())


def _numbered_by(signs: Mapping[str, tuple[object, ...]]) -> dict[str, int]:
    numbers: dict[tuple[object, ...], int] = {}
    return {key: numbers.setdefault(sign, len(numbers)) for key, sign in signs.items()}


def _split_uneven(scene: SceneGraph, color: dict[str, int]) -> dict[str, int]:
    """Split one group that another relates to unevenly.

    Even means that all members are related, or each to one of its own.
    """
    sizes = {c: sum(1 for other in color.values() if other == c) for c in color.values()}
    counts: dict[tuple[int, str, int], int] = {}
    for r in scene.relations:
        key = (color[r.source], r.predicate, color[r.target])
        counts[key] = counts.get(key, 0) + 1
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


def _apart(color: dict[str, int], worst: int) -> dict[str, int]:
    fresh = itertools.count(max(color.values()) + 1)
    return {key: next(fresh) if c == worst else c for key, c in color.items()}


def _join(scene: SceneGraph, color: Mapping[str, int], groups: Mapping[int, Group]) -> None:
    seen: set[tuple[int, Predicate, int]] = set()
    for relation in scene.relations:
        source, target = groups[color[relation.source]], groups[color[relation.target]]
        predicate = predicate_in_english(relation.predicate)
        key = (id(source), predicate, id(target))
        if key in seen:
            continue
        seen.add(key)
        pairs = sum(
            1
            for r in scene.relations
            if r.predicate == relation.predicate
            and color[r.source] == color[relation.source]
            and color[r.target] == color[relation.target]
        )
        each = source.number > 1 and pairs == source.number == target.number
        edge = Edge(source, predicate, target, each)
        source.outgoing.append(edge)
        target.incoming.append(edge)
