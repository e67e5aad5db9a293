"""The words of XTC-Bench's questions: phrases for objects, and a sentence for each kind of fact.

The forms are the paper's examples (Sec. 3.2.5): "What is the color of the red car?", "What object
is dark red and parked?", "What is the spatial position of the person relative to the bench?". It
prints none for relations that say no place; ours ask what the subject is doing with the object, or
what the relationship between them is. A fact whose value is yes or no is asked as such.
"""

from __future__ import annotations

from collections.abc import Sequence

from scenewright.agents.parsers.tagging import NUMBERS, rough
from scenewright.core.inflection import plural, singular
from scenewright.core.scene import SceneObject
from scenewright.core.vocabulary import is_handling
from scenewright.evals.studies.xtc.categories import form_of, says_a_place, spoken_label

_NO_ARTICLE = frozenset(
    {"the", "someone", "somebody", "everyone", "something", "he", "she", "it", "they"}
)
_MANY = frozenset({"people", "police"})
_ADJECTIVAL = ("en", "ic", "ed", "y")
_YES_NO = frozenset({"yes", "no", "true", "false"})


def is_many(label: str) -> bool:
    """Whether a label stands in the plural: ``jeans``, ``people``, ``dogs``."""
    head = label.partition(" of ")[0].casefold()
    if any(NUMBERS.get(word, 1) > 1 and word != "dozen" for word in head.split()):
        return True
    last = head.split()[-1] if head.split() else head
    plain = plural(head) == head and last.endswith("s") and not last.endswith(("ss", "us"))
    return last in _MANY or singular(head) != head or plain


def joined(parts: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def the(phrase: str) -> str:
    """``phrase`` with its article, unless it has one or takes none."""
    first = phrase.casefold().split()[0]
    return phrase if first in _NO_ARTICLE else f"the {phrase}"


def _before(key: str, value: str) -> bool:
    """Whether ``value`` may stand before a label: ``red car``, ``dark red car``, ``parked car``."""
    words = value.casefold().split()
    if any(rough(word) == "preposition" for word in words):
        return False
    return len(words) == 1 or (len(words) == 2 and form_of(key).dimension == "Color & Material")


def _quoted(key: str, value: str) -> str:
    said = form_of(key).said
    return '{} "{}"'.format(said, value.replace('"', "'"))


def _stated(key: str, value: str) -> str:
    """A value behind "is"."""
    made = form_of(key).made and not value.casefold().endswith(_ADJECTIVAL)
    return f"made of {value}" if made else value


def _ranked(item: SceneObject, keys: Sequence[str]) -> list[tuple[str, str]]:
    return [(key, item.attributes[key]) for key in sorted(keys, key=lambda k: form_of(k).rank)]


def object_phrase(item: SceneObject, keys: Sequence[str] = ()) -> str:
    """``item`` by its label and the values of ``keys``, without an article.

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
        phrase += f" with {joined(quoted)}"
    if behind:
        phrase += f" that {'are' if is_many(label) else 'is'} {joined(behind)}"
    return phrase


def attribute_text(item: SceneObject, key: str, phrase: str) -> str:
    """The question for the value of ``key``; ``phrase`` is how ``item`` is called in it."""
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
    """The question for the object of which the values of ``keys`` hold."""
    stated, quoted = [], []
    for key in keys:
        value = item.attributes[key]
        if form_of(key).adjective:
            stated.append(_stated(key, value))
        else:
            quoted.append(_quoted(key, value))
    said = [f"is {joined(stated)}"] if stated else []
    said += [f"has {joined(quoted)}"] if quoted else []
    return f"What object {' and '.join(said)}?"


def relation_text(source: str, many: bool, target: str, predicates: Sequence[str]) -> str:
    """The question for the predicates of an edge between two phrases.

    ``many``: whether the source stands in the plural.
    """
    first, second = the(source), the(target)
    if all(map(says_a_place, predicates)):
        return f"What is the spatial position of {first} relative to {second}?"
    if all(map(is_handling, predicates)):
        return f"What {'are' if many else 'is'} {first} doing with {second}?"
    return f"What is the relationship between {first} and {second}?"
