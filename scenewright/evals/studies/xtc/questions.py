"""Questions about a scene graph, each tied to one fact (XTC-Bench, Sec. 3.2.5).

**Categories.** The six dimensions of attributes are those of Sec. 6.4.1, the four classes of
predicates those of Sec. 6.1.1. The keys of all 30 meta-classes (Table 11) and all predicates of
Table 10 are sorted; words that no table has go by their last word (attributes) or by their verb and
preposition (predicates), and are :data:`OTHER` where that tells nothing.

**Words.** The forms are the paper's examples: "What is the color of the red car?", "What object is
dark red and parked?", "What is the spatial position of the person relative to the bench?". It
prints none for relations that say no place; ours ask what the subject is doing with the object, or
what the relationship between them is. A fact whose value is yes or no is asked as such.

**Descriptions.** An object is named by the shortest set of attribute values that singles it out.
The paper searches sets of growing size until one does "not overlap with those of competing
instances": values are sets of lower-cased words, and two of them overlap if they share a word or
one is a part of the other as text. A set singles an object out if each competing object is ruled
out by one of its values at least, that is one which overlaps with nothing that is said of that
object. (Were each value to rule out all of them, no set of two would ever be needed, and the search
would be of no use.)

What the paper leaves open is read strictly:

- Phrases show values without their keys, so a value is compared with all values of a rival,
  whatever their keys.
- An object competes for a label if its own is the same, in singular or plural, or a compound of it
  ("police car" for "car"). The words of a label that differs count as said of the rival.
- A question must not give its answer away: values that share a word with it are left out of the
  description, and a label that says all of it makes the fact unaskable.
- Values such as "yes", "none" or "unknown" are never named by.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from itertools import combinations
from operator import or_
from typing import Any

from scenewright.agents.composers.reading import NOT_COMPOUND
from scenewright.agents.parsers.tagging import NO_RELATION as NO_RELATION_WORDS
from scenewright.agents.parsers.tagging import NUMBERS, rough
from scenewright.core import english
from scenewright.core.english import listed
from scenewright.core.inflection import read_data, singular, verb_base
from scenewright.core.questions import (
    NO_RELATION,
    attribute_fact_id,
    object_fact_id,
    relation_fact_id,
)
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.core.vocabulary import (
    VERB_KINDS,
    canonical_key,
    is_handling,
    kind_of,
    names_no_place,
)
from scenewright.evals.metrics.graph_matching.text_similarity import folded
from scenewright.evals.studies.xtc.base import Question, QuestionSheet, Unasked, XtcError

_DATA = read_data("scenewright.evals.studies.xtc", "categories.toml")
ATTRIBUTE_DIMENSIONS: tuple[str, ...] = tuple(_DATA["dimensions"].values())
"""As the paper calls them: ``Color & Material`` …"""
PREDICATE_NAMES: tuple[str, ...] = ("Spatial", "Posture", "Locomotion", "Social")
"""The classes of predicates, as the paper calls them."""
OTHER = "Other"
"""Category of what cannot be sorted."""

_NUMBER = re.compile(r"[ _]?[0-9]+$")


@dataclass(frozen=True, slots=True)
class KeyForm:
    """How an attribute key is sorted and said."""

    dimension: str
    """One of :data:`ATTRIBUTE_DIMENSIONS`, or :data:`OTHER`."""
    asked: str
    """Name of the key in "What is the … of the car?"."""
    said: str
    """Words before a quoted value: ``upper clothing``."""
    rank: int
    """Place among adjectives: those of low rank are said first."""
    adjective: bool = False
    """Whether a value is said by itself, without its key."""
    made: bool = False
    """Whether a value that is a noun follows "made of"."""
    like: bool = False
    """Whether the key says nothing, so that one asks what the thing is like."""
    there: str = ""
    """What a yes or no speaks of: ``visible text on``; empty: the key itself."""


def _form(key: str, row: dict[str, Any], rank: int) -> KeyForm:
    asked = row.get("asked", key)
    dimension = _DATA["dimensions"].get(row["dimension"], OTHER)
    return KeyForm(**{"asked": asked, "said": asked, **row, "dimension": dimension, "rank": rank})


_FORMS: dict[str, KeyForm] = {
    key: _form(key, row, rank) for rank, (key, row) in enumerate(_DATA["keys"].items())
}


def _plain(key: str) -> str:
    return " ".join(key.replace("_", " ").casefold().split())


@lru_cache(maxsize=4096)
def form_of(key: str) -> KeyForm:
    """Return how ``key`` is sorted and said; an unknown key goes by its words.

    A number at the end (``color 2``, a second value of a key) asks for another one.
    """
    plain = _plain(key)
    for name in (plain, canonical_key(plain)):
        if name in _FORMS:
            return _FORMS[name]
    bare = _NUMBER.sub("", plain)
    if bare != plain and bare in _FORMS:
        form = _FORMS[bare]
        return replace(form, asked=f"other {form.asked}", said=f"other {form.said}")
    words = re.findall(r"\w+", bare)
    known = [_FORMS[word].dimension for word in reversed(words) if word in _FORMS]
    asked = re.sub(r"\s*/\s*", " or ", bare) or plain
    return KeyForm(known[0] if known else OTHER, asked, asked, rank=len(_FORMS))


def dimension_of(key: str) -> str:
    """Return the attribute dimension of ``key``, or :data:`OTHER`.

    Dimensions are :data:`ATTRIBUTE_DIMENSIONS`.
    """
    return form_of(key).dimension


@lru_cache(maxsize=4096)
def predicate_class(predicate: str) -> str:
    """Return the class of a predicate, of verbs in any form (``ride``, ``rides``).

    It is one of :data:`PREDICATE_NAMES`, or :data:`OTHER`.

    A verb goes before the preposition behind it: ``perched on`` is a posture.
    """
    words = folded(predicate).split()
    for known in (kind_of(predicate), kind_of(words[0])):
        if known is not None:
            return known.capitalize()
    if _says_where(words[0]):
        return "Spatial"
    bases = (verb_base(word) or word for word in words)
    by_verb = next((VERB_KINDS[base] for base in bases if _tells(base)), None)
    if by_verb is not None:
        return by_verb.capitalize()
    return "Spatial" if _says_where(words[-1]) or words[-1] == "of" else OTHER


def _tells(base: str) -> bool:
    """Return whether the verb decides the class; a verb of place leaves it to its preposition."""
    return VERB_KINDS.get(base, "spatial") != "spatial"


def _says_where(word: str) -> bool:
    """Return whether ``word`` is a preposition that relates one object to another."""
    return rough(word) == "preposition" and word not in NO_RELATION_WORDS | {"like"}


def says_a_place(predicate: str) -> bool:
    """Return whether ``predicate`` answers where the subject is relative to the object."""
    return predicate_class(predicate) == "Spatial" and not names_no_place(predicate)


def category_of(question: Question) -> str:
    """Return the attribute dimension or class of predicate that ``question`` asks about.

    Of parallel edges the class of the first predicate that has one; empty for a retrieval.
    """
    if question.kind == "attribute":
        return dimension_of(question.key or "")
    if question.kind == "retrieval":
        return ""
    classes = [predicate_class(predicate) for predicate in question.predicates]
    return next((name for name in classes if name != OTHER), OTHER)


EMPTY_VALUES: frozenset[str] = frozenset(_DATA["values"]["empty"])
"""Values that tell nothing about how a thing looks, in small letters."""
_SPOKEN_LABELS: dict[str, str] = _DATA["labels"]
_ENDINGS = re.compile(r"(-(other|merged|stuff))+$")


def spoken_label(label: str) -> str:
    """Return a class label as it is said.

    ``grass-merged`` is ``grass``, ``sports_ball`` is ``sports ball``.
    """
    found = _SPOKEN_LABELS.get(label.casefold())
    return found or _ENDINGS.sub("", label).replace("_", " ").strip() or label


_NO_ARTICLE = frozenset(
    {"the", "someone", "somebody", "everyone", "something", "he", "she", "it", "they"}
)
_ADJECTIVAL = ("en", "ic", "ed", "y")
_YES_NO = frozenset({"yes", "no", "true", "false"})


def is_many(label: str) -> bool:
    """Return whether a label is plural: ``jeans``, ``people``, ``dogs``."""
    head = label.partition(" of ")[0].casefold()
    return english.is_many(label) or any(
        NUMBERS.get(word, 1) > 1 and word != "dozen" for word in head.split()
    )


def the(phrase: str) -> str:
    """Return ``phrase`` with its article, unless it has one or takes none."""
    first = phrase.casefold().split()[0]
    return phrase if first in _NO_ARTICLE else f"the {phrase}"


def _before(key: str, value: str) -> bool:
    """Return whether ``value`` may stand before a label: ``dark red car``, ``parked car``."""
    words = value.casefold().split()
    if any(rough(word) == "preposition" for word in words):
        return False
    return len(words) == 1 or (len(words) == 2 and form_of(key).dimension == "Color & Material")


def _quoted(key: str, value: str) -> str:
    said = form_of(key).said
    return '{} "{}"'.format(said, value.replace('"', "'"))


def _stated(key: str, value: str) -> str:
    """Return a value behind "is"."""
    made = form_of(key).made and not value.casefold().endswith(_ADJECTIVAL)
    return f"made of {value}" if made else value


def _ranked(item: SceneObject, keys: Sequence[str]) -> list[tuple[str, str]]:
    return [(key, item.attributes[key]) for key in sorted(keys, key=lambda k: form_of(k).rank)]


def object_phrase(item: SceneObject, keys: Sequence[str] = ()) -> str:
    """Return ``item`` by its label and the values of ``keys``, without an article.

    ``big red car``, ``man that is leaning forward``, ``person with held object "racket"``.
    """
    label = spoken_label(item.name)
    before: list[str] = []
    behind: list[str] = []
    quoted: list[str] = []
    for key, value in _ranked(item, keys):
        if not form_of(key).adjective:
            quoted.append(_quoted(key, value))
        elif _before(key, value):
            before.append(value)
        else:
            behind.append(_stated(key, value))
    phrase = " ".join([*before, label])
    if quoted:
        phrase += f" with {listed(quoted)}"
    if behind:
        phrase += f" that {'are' if is_many(label) else 'is'} {listed(behind)}"
    return phrase


def attribute_text(item: SceneObject, key: str, phrase: str) -> str:
    """Return the question for the value of ``key``; ``phrase`` is how ``item`` is called in it."""
    form = form_of(key)
    verb = "are" if is_many(spoken_label(item.name)) else "is"
    if item.attributes[key].casefold() in _YES_NO:
        if form.there:
            return f"Is there {form.there} {the(phrase)}?"
        if len(form.asked.split()) == 1:
            return f"{verb.capitalize()} {the(phrase)} {form.asked}?"
        return f"Is it true of {the(phrase)}: {form.asked}?"
    if form.like:
        return f"What {verb} {the(phrase)} like?"
    return f"What is {the(form.asked)} of {the(phrase)}?"


def retrieval_text(item: SceneObject, keys: Sequence[str]) -> str:
    """Return the question for the object of which the values of ``keys`` hold."""
    stated, quoted = [], []
    for key in keys:
        value = item.attributes[key]
        if form_of(key).adjective:
            stated.append(_stated(key, value))
        else:
            quoted.append(_quoted(key, value))
    said = [f"is {listed(stated)}"] if stated else []
    said += [f"has {listed(quoted)}"] if quoted else []
    return f"What object {' and '.join(said)}?"


def relation_text(source: str, many: bool, target: str, predicates: Sequence[str]) -> str:
    """Return the question for the predicates of an edge between two phrases.

    ``many``: whether the source is plural.
    """
    first, second = the(source), the(target)
    if all(map(says_a_place, predicates)):
        return f"What is the spatial position of {first} relative to {second}?"
    if all(map(is_handling, predicates)):
        return f"What {'are' if many else 'is'} {first} doing with {second}?"
    return f"What is the relationship between {first} and {second}?"


MAX_VALUES = 5
"""Most values of a description: longer questions cannot be read."""
_WORD = re.compile(r"\w+")
_JOINTS = frozenset({"a", "an", "the", "of", "and", "or", "with", "to", "is"})


@lru_cache(maxsize=65_536)
def tokens(text: str) -> frozenset[str]:
    """Return the words of ``text`` in small letters; a text without any is one word."""
    return frozenset(_WORD.findall(text.casefold())) or frozenset({folded(text)})


def overlap(one: str, other: str) -> bool:
    """Return whether two values share a word, or one is a part of the other as text."""
    if tokens(one) & tokens(other):
        return True
    first, second = folded(one), folded(other)
    return first in second or second in first


def content(text: str) -> frozenset[str]:
    """Return the words of ``text`` without articles and joints, unless it has no others."""
    return (tokens(text) - _JOINTS) or tokens(text)


def tells(shown: str, answer: str) -> bool:
    """Return whether ``shown`` says all of ``answer``, so that no picture is needed."""
    return content(answer) <= tokens(shown)


def hints_at(shown: str, answer: str) -> bool:
    """Return whether ``shown`` says a part of ``answer``."""
    return bool(content(shown) & content(answer))


def tells_nothing(value: str) -> bool:
    """Return whether ``value`` is one such as "yes" or "unknown", which no object is named by."""
    return folded(value) in EMPTY_VALUES


@dataclass(frozen=True, slots=True)
class Unclear:
    """An object that cannot be singled out."""

    rivals: tuple[str, ...]
    """Ids of the objects that it cannot be distinguished from, in the scene's order; empty if it
    has no value to be named by."""
    long: bool = False
    """Whether more than :data:`MAX_VALUES` values could."""


class Namer:
    """Singles out the objects of one scene."""

    def __init__(self, scene: SceneGraph) -> None:
        """Read the scene once; descriptions are made on request."""
        self._items = scene.objects
        self._bits = {item.id: 1 << at for at, item in enumerate(scene.objects)}
        self._everyone = (1 << len(scene.objects)) - 1
        self._clashes: dict[str, int] = {}
        self._rivals: dict[str, int] = {}

    def named(
        self, item: SceneObject, answers: Sequence[str], hidden: str | None = None
    ) -> tuple[str, ...] | Unclear:
        """Return the keys of the fewest values that single ``item`` out.

        Of equally many the first in the order of keys; none at all if nothing competes.
        ``answers``: what the question must not say; ``hidden``: the key that is asked for.
        """
        label = spoken_label(item.name)
        keys = [
            key
            for key, value in item.attributes.items()
            if key != hidden
            and not tells_nothing(value)
            and not tells(label, value)
            and not any(hints_at(value, answer) for answer in answers)
            and not (hidden is not None and overlap(value, item.attributes[hidden]))
        ]
        return self._smallest(item, keys, self._rivals_of(item), least=0)

    def retrieved(self, item: SceneObject) -> tuple[str, ...] | Unclear:
        """Return the keys of the fewest values, at least one, that fit no other object.

        Values that share a word with the label are not used.
        """
        label = spoken_label(item.name)
        keys = [
            key
            for key, value in item.attributes.items()
            if not tells_nothing(value)
            and not hints_at(value, item.name)
            and not hints_at(value, label)
        ]
        if not keys:
            return Unclear(())
        return self._smallest(item, keys, self._everyone & ~self._bits[item.id], least=1)

    def _smallest(
        self, item: SceneObject, keys: Sequence[str], rivals: int, least: int
    ) -> tuple[str, ...] | Unclear:
        out = [rivals & ~self._clash(item.attributes[key]) for key in keys]
        found = fewest(out, rivals, least, MAX_VALUES)
        if found is not None:
            return tuple(keys[at] for at in found)
        ruled_out = 0
        for mask in out:
            ruled_out |= mask
        left = rivals & ~ruled_out
        return Unclear(self._ids(left or rivals), long=not left)

    def _ids(self, mask: int) -> tuple[str, ...]:
        return tuple(item.id for item in self._items if self._bits[item.id] & mask)

    def _rivals_of(self, item: SceneObject) -> int:
        name = folded(spoken_label(item.name))
        if name not in self._rivals:
            self._rivals[name] = sum(
                self._bits[other.id] for other in self._items if _competes(name, other.name)
            )
        return self._rivals[name] & ~self._bits[item.id]

    @cached_property
    def _holders(self) -> dict[str, int]:
        """Value or, behind a colon, label → who has it."""
        found: dict[str, int] = {}
        for item in self._items:
            bit = self._bits[item.id]
            for value in item.attributes.values():
                found[folded(value)] = found.get(folded(value), 0) | bit
        return found

    @cached_property
    def _labelled(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for item in self._items:
            label = spoken_label(item.name)
            found[label] = found.get(label, 0) | self._bits[item.id]
        return found

    def _clash(self, value: str) -> int:
        """Return the objects of which something is said that overlaps with ``value``."""
        value = folded(value)
        if value not in self._clashes:
            mask = 0
            for other, holders in self._holders.items():
                if overlap(value, other):
                    mask |= holders
            for label, holders in self._labelled.items():
                if tokens(label) & tokens(value):
                    mask |= holders
            self._clashes[value] = mask
        return self._clashes[value]


def fewest(out: Sequence[int], everyone: int, least: int, most: int) -> tuple[int, ...] | None:
    """Return the indices of the fewest masks of ``out`` whose union is ``everyone``.

    There are ``least`` to ``most`` of them; of equally many the first in lexicographic order. None
    if there are none.
    """
    if reduce(or_, out, 0) != everyone:
        return None
    for size in range(least, min(most, len(out)) + 1):
        for chosen in combinations(range(len(out)), size):
            if reduce(or_, (out[at] for at in chosen), 0) == everyone:
                return chosen
    return None


@lru_cache(maxsize=16_384)
def _competes(name: str, label: str) -> bool:
    """Return whether the folded label ``name`` may be heard as an object of the class ``label``."""
    other = folded(spoken_label(label))
    if singular(other) == singular(name):
        return True
    return singular(other).endswith(f" {singular(name)}") and singular(other) not in NOT_COMPOUND


QUESTIONS_VERSION = 1
"""Raised when a scene gets other questions."""
_SHOWN = 3


def questions_of(scene: SceneGraph) -> QuestionSheet:
    """Return all questions of ``scene`` and the facts that none can ask for.

    The value of an attribute is asked of an object named without it; an object is asked for by the
    values that fit it alone; parallel edges of an ordered pair are one question. Objects are named
    by the fewest values that single them out (:mod:`~scenewright.evals.studies.xtc.questions`).
    The fact that an object is there is that of its retrieval. Deterministic; ids of objects are
    in the questions' ids and in reasons alone. Raises ``XtcError`` for a relation that says that
    there is none.
    """
    return _Asking(scene).sheet()


class _Asking:
    """The questions of one scene, while they are made."""

    def __init__(self, scene: SceneGraph) -> None:
        self._scene = scene
        self._items = {item.id: item for item in scene.objects}
        self._namer = Namer(scene)
        self._asked: list[Question] = []
        self._unasked: list[Unasked] = []

    def sheet(self) -> QuestionSheet:
        for item in self._scene.objects:
            for key in item.attributes:
                self._take([attribute_fact_id(item.id, key)], self._attribute(item, key))
        for item in self._scene.objects:
            self._take([object_fact_id(item.id)], self._retrieval(item))
        for edge in self._edges():
            self._take([relation_fact_id(relation) for relation in edge], self._relation(edge))
        return QuestionSheet(questions=tuple(self._asked), unasked=tuple(self._unasked))

    def _take(self, facts: Sequence[str], made: Question | str) -> None:
        """Keep a question, or why there is none."""
        if isinstance(made, Question):
            self._asked.append(made)
        else:
            self._unasked.extend(Unasked(fact=fact, reason=made) for fact in facts)

    def _attribute(self, item: SceneObject, key: str) -> Question | str:
        value = item.attributes[key]
        label = spoken_label(item.name)
        if tells(label, value):
            return f"the label {label!r} says {value!r} already"
        keys = self._namer.named(item, (value,), key)
        if isinstance(keys, Unclear):
            return _why(item, keys)
        phrase = object_phrase(item, keys)
        return Question(
            id=f"attribute:{_part(item.id)}:{_part(key)}",
            kind="attribute",
            text=attribute_text(item, key, phrase),
            answer=value,
            facts=(attribute_fact_id(item.id, key),),
            subject=item.id,
            key=key,
            phrases=(phrase,),
        )

    def _retrieval(self, item: SceneObject) -> Question | str:
        if not item.attributes:
            return f"{item.id} has no attributes to ask by"
        keys = self._namer.retrieved(item)
        if isinstance(keys, Unclear):
            return _why(item, keys)
        return Question(
            id=f"retrieval:{_part(item.id)}",
            kind="retrieval",
            text=retrieval_text(item, keys),
            answer=item.name,
            facts=(object_fact_id(item.id),),
            subject=item.id,
            phrases=tuple(item.attributes[key] for key in keys),
        )

    def _edges(self) -> list[list[Relation]]:
        """Return the relations by ordered pair, in the order of their first ones."""
        found: dict[tuple[str, str], list[Relation]] = {}
        for relation in self._scene.relations:
            if folded(relation.predicate) == NO_RELATION:
                raise XtcError(
                    f"'{relation}' says that there is no relation, which no question can ask for: "
                    "remove it"
                )
            found.setdefault((relation.source, relation.target), []).append(relation)
        return list(found.values())

    def _relation(self, edge: Sequence[Relation]) -> Question | str:
        source, target = self._items[edge[0].source], self._items[edge[0].target]
        predicates = tuple(relation.predicate for relation in edge)
        phrases = []
        for item in (source, target):
            label = spoken_label(item.name)
            said = next((p for p in predicates if tells(label, p)), None)
            if said is not None:
                return f"the label {label!r} says {said!r} already"
            keys = self._namer.named(item, predicates)
            if isinstance(keys, Unclear):
                return _why(item, keys)
            phrases.append(object_phrase(item, keys))
        many = is_many(spoken_label(source.name))
        return Question(
            id=f"relation:{_part(source.id)}|{_part(target.id)}",
            kind="relation",
            text=relation_text(phrases[0], many, phrases[1], predicates),
            answer=" and ".join(predicates),
            facts=tuple(relation_fact_id(relation) for relation in edge),
            subject=source.id,
            target=target.id,
            predicates=predicates,
            phrases=tuple(phrases),
        )


def _why(item: SceneObject, unclear: Unclear) -> str:
    if not unclear.rivals:
        return f"no attribute of {item.id} can be asked by"
    rivals = ", ".join(unclear.rivals[:_SHOWN])
    more = len(unclear.rivals) - _SHOWN
    if more > 0:
        rivals += f" and {more} more"
    if unclear.long:
        return f"it takes more than {MAX_VALUES} attributes to tell {item.id} from {rivals}"
    return f"no attributes tell {item.id} from {rivals}"


def _part(text: str) -> str:
    """Return ``text`` within a question's id: separators get a backslash."""
    return re.sub(r"([\\:|])", r"\\\1", text)
