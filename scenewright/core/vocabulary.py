"""Vocabulary of predicates and attribute keys: synonyms, converses, entailments, exclusions.

Scenes come from people, captions, data sets and models, so one relation has many wordings:
``wear``, ``wears``, ``is wearing``, ``dressed in``. Everything that compares, exchanges or offers
predicates (questions and their wrong options, placement, matching, edit distance, lookup,
extraction) uses this module. The reviewed data is ``vocabulary.toml``, and ``verbs.toml`` for verbs
and prepositions.

A predicate that the data does not name still has a canonical form (verbs in ``-ing``), and a verb
with a preposition entails the preposition: ``crouching behind`` entails ``behind``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

from scenewright.core.inflection import ing_form, participle, read_data, verb_base

PredicateKind = Literal["spatial", "posture", "locomotion", "social"]
"""Kind of a predicate: a place, how a body rests on another, a change of place, or an action on
another (XTC-Bench, Sec. 6.1.1)."""
PREDICATE_KINDS: tuple[PredicateKind, ...] = get_args(PredicateKind)

_REMEMBERED = 2**14
INVERSE = "~"
"""Mark of a predicate that is meant from its target to its source."""
_DROPPED = frozenset({"is", "are", "was", "were", "be", "being", "been", "am"})
_DETERMINERS = frozenset({"a", "an", "the", "his", "her", "its", "their"})
_PAIRS = (("left", "right"), ("top", "bottom"), ("above", "below"), ("front", "back"))
_TURNED = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
# Beginnings of prepositional phrases that are forms of verbs as well.
_NO_VERBS = frozenset({"left", "like", "down", "up", "off", "past", "near", "over", "back", "set"})


@dataclass(frozen=True, slots=True)
class _Predicate:
    """One entry of the data."""

    name: str
    kind: PredicateKind
    converse: str | None = None
    opposite: str | None = None
    entails: frozenset[str] = frozenset()
    near_to: frozenset[str] = frozenset()
    excludes: frozenset[str] = frozenset()
    weak: bool = False


def _plain(text: str) -> str:
    """Return ``text`` in small letters with single spaces, hyphens and underscores as spaces."""
    return " ".join(text.casefold().replace("_", " ").replace("-", " ").split())


def _load(data: dict[str, Any]) -> tuple[dict[str, _Predicate], dict[str, str], dict[str, str]]:
    known: dict[str, _Predicate] = {}
    forms: dict[str, str] = {}
    for row in (*data["predicate"], *data["short"]["predicates"]):
        name: str = row["name"]
        fields: dict[str, Any] = {
            key: frozenset(value) if isinstance(value, list) else value
            for key, value in row.items()
            if key != "means"
        }
        known[name] = _Predicate(**fields)
        for form in (name, *row.get("means", ())):
            if forms.setdefault(form, name) != name:
                raise ValueError(f"vocabulary.toml: {form!r} means {forms[form]!r} and {name!r}")
    keys: dict[str, str] = {}
    for key, others in data["attribute_keys"].items():
        keys.update(dict.fromkeys((key, *others), key))
    return known, forms, keys


_DATA = read_data(__package__, "vocabulary.toml")
_WORDS = read_data(__package__, "verbs.toml")
_KNOWN, _FORMS, _KEYS = _load(_DATA)
PREDICATES: tuple[str, ...] = tuple(_KNOWN)
"""Canonical names of the predicates that the data describes."""
WORDINGS: tuple[str, ...] = tuple(_FORMS)
"""Every wording that the data names, canonical names among them."""


def _kinds_of_verbs() -> dict[str, PredicateKind]:
    """Return the kind of each verb's base form.

    It is the kind in the data, else that of all predicates that the verb begins.
    """
    found: dict[str, set[PredicateKind]] = {}
    for name, entry in _KNOWN.items():
        first = name.partition(" ")[0]
        base = None if first in _NO_VERBS else verb_base(first)
        if base is not None and first == ing_form(base):
            found.setdefault(base, set()).add(entry.kind)
    kinds = {base: next(iter(some)) for base, some in found.items() if len(some) == 1}
    for kind in PREDICATE_KINDS:
        kinds.update(dict.fromkeys(_WORDS["kinds"].get(kind, ()), kind))
    return kinds


VERB_KINDS: dict[str, PredicateKind] = _kinds_of_verbs()
"""Base form of a verb → the kind of what it says, whatever preposition follows."""
FAIR_PSG: tuple[str, ...] = tuple(_DATA["fair_psg"]["predicates"])
"""The 56 predicates of Fair-PSG (XTC-Bench, Table 10), by kind."""
EXCLUSIVE: frozenset[str] = frozenset(_DATA["fair_psg"]["exclusive"])
"""Predicates that only one subject can have toward an object (XTC-Bench, Sec. 3.2.2)."""
PLACES: frozenset[str] = frozenset(_WORDS["prepositions"]["places"])
"""Prepositions that stay true after a verb: who crouches behind a tree is behind it."""
BEHIND_VERBS: tuple[str, ...] = (
    *_WORDS["prepositions"]["places"],
    *_WORDS["prepositions"]["behind_verbs"],
)
"""Prepositions after verbs: :data:`PLACES`, other words for them, and directions."""
STATE_VERBS: tuple[str, ...] = tuple(_WORDS["verbs"]["states"])
"""Verbs of states, in the form before a preposition."""
_RESTS: frozenset[str] = frozenset(_WORDS["verbs"]["rests"])
FURTHER_LINES: tuple[str, ...] = tuple(_WORDS["lines"]["further"])
"""Predicates of triplet lines of which nothing else is known."""
NOT_IN_LINES: frozenset[str] = frozenset(_WORDS["lines"]["without"])
"""Wordings that no triplet line has for a predicate."""
DIRECTIONS: tuple[str, ...] = ("left of", "right of", "above", "below")
"""Place of a thing in the picture relative to another."""
_CONTRASTS: dict[str, Any] = _DATA["contrasts"]
_ACTIONS: frozenset[str] = frozenset(_CONTRASTS["actions"])
_NO_PLACE: frozenset[str] = frozenset(_WORDS["answers"]["no_place"])
_HANDLING: frozenset[str] = frozenset(_WORDS["answers"]["handling"])


def without_be(predicate: str) -> list[str]:
    """Return the words of a predicate without leading forms of "be": ``is wearing`` → wearing."""
    words = predicate.split()
    while len(words) > 1 and words[0].casefold() in _DROPPED:
        words = words[1:]
    return words


def _morphological(words: list[str]) -> str:
    """Return the canonical form of a predicate that the data does not name."""
    first = words[0] if words else ""
    base = None if first in _NO_VERBS else verb_base(first)
    if base is None:
        return " ".join(words)
    if first == participle(base) and not first.endswith("ing") and len(words) > 1:
        # "parked on", "held by": states and passives stay as they are.
        return " ".join(words)
    return " ".join([ing_form(base), *words[1:]])


@lru_cache(_REMEMBERED)
def canonical(predicate: str) -> str:
    """Return the canonical form of a predicate: equal for wordings that mean the same.

    >>> [canonical(p) for p in ("wears", "is dressed in", "To the left of", "in", "kneel beside")]
    ['wearing', 'wearing', 'left of', 'inside', 'kneeling beside']
    """
    if predicate.startswith(INVERSE):
        return INVERSE + canonical(predicate[1:])
    plain = _plain(predicate)
    words = without_be(plain) or [plain]
    bare = [word for word in words if word not in _DETERMINERS] or words
    for form in (plain, " ".join(words), " ".join(bare)):
        if form in _FORMS:
            return _FORMS[form]
    made = _morphological(bare)
    return _FORMS.get(made, made)


@lru_cache(_REMEMBERED)
def _parts(name: str) -> tuple[str, str]:
    """Return the verb's base form and the rest of a canonical predicate.

    Empty where there is none.
    """
    first, _, rest = name.partition(" ")
    base = None if first in _NO_VERBS else verb_base(first)
    return (base, rest) if base is not None else ("", "")


@lru_cache(_REMEMBERED)
def _following(name: str) -> frozenset[str]:
    """Return all that follows from a canonical predicate, without itself.

    What follows from a predicate follows from its inverse the other way round. Names are those of
    :func:`inverse`.
    """

    def step(here: str) -> set[str]:
        other = inverse(here)
        known = {*_direct(here), *(inverse(one) for one in _direct(other))}
        known |= {inverse(one) for one in (converse(here),) if one is not None}
        return known | {one for one in (converse(other),) if one is not None}

    return _closure(name, step)


def _closure(name: str, step: Callable[[str], Iterable[str]]) -> frozenset[str]:
    """Return all that ``step`` after step leads to from ``name``, without itself."""
    found = {name}
    waiting = [name]
    while waiting:
        new = {*step(waiting.pop())} - found
        found |= new
        waiting += new
    return frozenset(found - {name})


@lru_cache(_REMEMBERED)
def entailed(predicate: str) -> frozenset[str]:
    """Return the canonical predicates that follow from ``predicate``, without itself.

    >>> sorted(entailed("riding"))
    ['above', 'near', 'on', 'touching']
    """
    return frozenset(one for one in _following(canonical(predicate)) if one[0] != INVERSE)


def kind_of(predicate: str) -> PredicateKind | None:
    """Return the kind of a predicate; None for one that the data does not describe.

    >>> kind_of("sits on"), kind_of("to the left of"), kind_of("photosynthesizing")
    ('posture', 'spatial', None)
    """
    entry = _KNOWN.get(canonical(predicate))
    return None if entry is None else entry.kind


def names_no_place(predicate: str) -> bool:
    """Return whether a spatial predicate gives no position: ``has``, ``part of``."""
    return canonical(predicate) in _NO_PLACE


def is_handling(predicate: str) -> bool:
    """Return whether the predicate says what one does with a thing.

    >>> is_handling("slices"), is_handling("on")
    (True, False)
    """
    return canonical(predicate) in _HANDLING


def synonymous(first: str, second: str) -> bool:
    """Return whether the two predicates mean the same."""
    return canonical(first) == canonical(second)


def entails(first: str, second: str) -> bool:
    """Return whether ``second`` follows from ``first``, or means the same.

    >>> entails("sitting on", "on"), entails("on", "sitting on")
    (True, False)
    """
    return synonymous(first, second) or canonical(second) in _following(canonical(first))


@lru_cache(_REMEMBERED)
def inverse(predicate: str) -> str:
    """Return the predicate that says the same from target to source.

    Every predicate has one, and the inverse of the inverse is the canonical predicate. Where no
    word says as much it is marked with ``~``: :func:`converse` gives a word that may say less.

    >>> inverse("on the left of"), inverse("near"), inverse("on"), inverse("~on")
    ('right of', 'near', '~on', 'on')
    """
    name = canonical(predicate)
    if name.startswith(INVERSE):
        return name[1:]
    other = converse(name)
    return other if other is not None and converse(other) == name else INVERSE + name


@lru_cache(_REMEMBERED)
def converse(predicate: str) -> str | None:
    """Return what holds from target to source where ``predicate`` holds from source to target.

    None if nothing follows. Verbs and their passives are converses of each other.

    >>> converse("on the left of"), converse("beside"), converse("held by"), converse("at")
    ('right of', 'next to', 'holding', None)
    """
    name = canonical(predicate)
    if name.startswith(INVERSE):
        return name[1:]
    entry = _KNOWN.get(name)
    if entry is not None and entry.converse is not None:
        return entry.converse
    verb, rest = _parts(name)
    if verb and _is_passive(name, verb, rest):
        return canonical(ing_form(verb))
    if verb and not rest and name == ing_form(verb):
        return f"{participle(verb)} by"
    # Of a posture relative to a thing only the place has a converse.
    for other in sorted(_closure(name, _direct)):
        known = _KNOWN[other]
        if known.converse is not None and other in ("left of", "right of", "behind", "in front of"):
            return known.converse
    return None


def converse_in_text(wording: str) -> str | None:
    """Return :func:`converse` of a wording as a text means it: what bears a thing has it on it.

    >>> converse_in_text("topped with"), converse_in_text("above")
    ('on', 'below')
    """
    said: str | None = _WORDS["said_converses"].get(_plain(wording))
    return said or converse(wording)


def is_symmetric(predicate: str) -> bool:
    """Return whether the predicate holds both ways whenever it holds."""
    return converse(predicate) == canonical(predicate)


def turned(wording: str) -> str:
    """Return a wording with each direction in it turned about: the same form, the other side.

    >>> turned("On the left of"), turned("above"), turned("holding")
    ('on the right of', 'below', 'holding')
    """
    return " ".join(_TURNED.get(word, word) for word in _plain(wording).split())


def converse_wordings() -> dict[str, str]:
    """Return each wording with the wording of its converse.

    Only pairs where neither says more than the other: ``on the left of`` → ``on the right of``,
    ``beside`` → ``beside``.
    """
    found: dict[str, str] = {}
    for wording in WORDINGS:
        other = converse(wording)
        if other is None or converse(other) != canonical(wording):
            continue
        if wording == canonical(wording):
            found[wording] = other
        else:
            found[wording] = wording if is_symmetric(wording) else turned(wording)
    return {one: other for one, other in found.items() if found.get(other) == one}


@lru_cache(_REMEMBERED)
def place_of(predicate: str) -> str:
    """Return where a thing is that lies, sits, stands or hangs so; empty for other predicates.

    >>> [place_of(p) for p in ("lies on", "parked in", "jumping over", "on", "standing")]
    ['on', 'inside', '', '', '']
    """
    verb, place = _parts(canonical(predicate))
    rests = VERB_KINDS.get(verb) == "posture" or verb in _RESTS
    return canonical(place) if rests and place else ""


@lru_cache(_REMEMBERED)
def opposite(predicate: str) -> str | None:
    """Return the predicate that a mirrored or upturned picture shows; None if there is none.

    >>> opposite("to the left of"), opposite("standing behind"), opposite("holding")
    ('right of', 'in front of', None)
    """
    name = canonical(predicate)
    entry = _KNOWN.get(name)
    if entry is not None and entry.opposite is not None:
        return entry.opposite
    known = (_KNOWN[other] for other in entailed(name) if other in _KNOWN)
    found = sorted({one.opposite for one in known} - {None}, key=str)
    directed = [other for other in found if entry is None and other is not None]
    return directed[0] if len(directed) == 1 else None


@lru_cache(_REMEMBERED)
def excludes(first: str, second: str) -> bool:
    """Return whether the two predicates cannot hold of the same two things.

    >>> excludes("on the left of", "right of"), excludes("standing behind", "in front of")
    (True, True)
    >>> excludes("on", "behind")
    False
    """
    one = {canonical(first), *_following(canonical(first))}
    other = {canonical(second), *_following(canonical(second))}
    return any(_clash(a, b) or _clash(inverse(a), inverse(b)) for a in one for b in other)


@lru_cache(_REMEMBERED)
def contrasts(first: str, second: str) -> bool:
    """Return whether no fair person could say both of the same two things in one picture.

    Such a predicate is a wrong option that is wrong: one that is excluded, another place, another
    way to rest or move at the same place, or another action. An action and a place never contrast.

    >>> contrasts("on", "next to"), contrasts("standing on", "sitting on")
    (True, True)
    >>> contrasts("kicking", "throwing"), contrasts("holding", "behind")
    (True, False)
    """
    one, other = canonical(first), canonical(second)
    if holds_with(one, other) or holds_with(other, one):
        return False
    if excludes(one, other) or _ACTIONS.issuperset((one, other)):
        return True
    if any(
        b in _CONTRASTS["places"].get(a, ()) or a in _CONTRASTS["places"].get(b, ())
        for a in {one, *entailed(one)}
        for b in {other, *entailed(other)}
    ):
        return True
    (verb, place), (other_verb, other_place) = _parts(one), _parts(other)
    moves = {VERB_KINDS.get(verb), VERB_KINDS.get(other_verb)} <= {"posture", "locomotion"}
    return moves and bool(place) and canonical(place) == canonical(other_place)


def _clash(first: str, second: str) -> bool:
    """Return whether the data says of either that it excludes the other."""
    return any(
        entry is not None and (other == entry.opposite or other in entry.excludes)
        for entry, other in ((_KNOWN.get(first), second), (_KNOWN.get(second), first))
    )


@lru_cache(_REMEMBERED)
def holds_with(asked: str, other: str) -> bool:
    """Return whether ``other`` may well be true of a picture in which ``asked`` is.

    True for synonyms, for what either entails, and for predicates that fair people exchange
    (``on`` and ``in``). Such a predicate is not a wrong option of a question about ``asked``. Of a
    weak predicate (``next to``) a more specific one (``riding``) that entails it is no such case:
    who says *next to* does not mean *riding*.
    """
    one, two = canonical(asked), canonical(other)
    if one == two:
        return True
    if excludes(one, two):
        return False
    if two in entailed(one) or _exchanged(one, two):
        return True
    if one in entailed(two):
        return not is_weak(one)
    (verb, rest), (other_verb, other_rest) = _parts(one), _parts(two)
    if not verb or verb != other_verb:
        return False
    # "holding up" is holding; "standing on" and "standing behind" are two places.
    return not (rest and other_rest) or holds_with(rest, other_rest)


def _exchanged(one: str, two: str) -> bool:
    """Return whether people exchange the two, or a predicate that one of them entails."""
    return any(
        second in _KNOWN[name].near_to or (second in _KNOWN and name in _KNOWN[second].near_to)
        for first, second in ((one, two), (two, one))
        for name in ((first,) if first in _KNOWN else entailed(first))
        if name in _KNOWN
    )


def is_wording(predicate: str) -> bool:
    """Return whether it is a plausible predicate: a known one, or a verb and a preposition.

    Data sets contain errors (``knee bent``, ``as``) that no question should offer.
    """
    name = canonical(predicate)
    verb, rest = _parts(name)
    made = bool(verb) and name.split()[0] == ing_form(verb)
    return name in _KNOWN or (made and bool(rest) and canonical(rest) in _KNOWN)


def is_weak(predicate: str) -> bool:
    """Return whether it says so little that it holds in most pictures of its two things."""
    entry = _KNOWN.get(canonical(predicate))
    return entry is not None and entry.weak


def first_known(predicate: str, known: Collection[str]) -> str | None:
    """Return the one of ``known`` (canonical names) that means ``predicate`` or follows from it.

    The nearest wins: its own name, then what it entails directly, then what that entails.

    >>> first_known("sitting on", ("on", "near")), first_known("beside", ("on", "near"))
    ('on', 'near')
    """
    level: list[str] = [canonical(predicate)]
    seen: set[str] = set()
    while level:
        for name in level:
            if name in known:
                return name
        seen |= set(level)
        level = [n for name in level for n in _direct(name) if n not in seen]
    return None


def _direct(name: str) -> Iterable[str]:
    """Return what follows from a canonical predicate in one step."""
    entry = _KNOWN.get(name)
    if entry is not None:
        return sorted(entry.entails)
    verb, rest = _parts(name)
    # Of a passive "by" names who does it.
    place = "" if not verb or _is_passive(name, verb, rest) else canonical(rest)
    return (place,) if place in PLACES else ()


def _is_passive(name: str, verb: str, rest: str) -> bool:
    """Return whether a canonical predicate is the passive of a verb: ``held by``."""
    return rest == "by" and name.split()[0] == participle(verb)


def _verb_of(wording: str) -> str:
    """Return the verb of what a wording means: ``watching`` → looking."""
    return canonical(wording).partition(" ")[0]


@lru_cache(maxsize=1)
def _single_words() -> dict[str, list[str]]:
    """Return verb → one-word wordings of predicates that begin with it."""
    found: dict[str, list[str]] = {}
    for wording in WORDINGS:
        if " " not in wording:
            found.setdefault(_verb_of(wording), []).append(wording)
    return found


@lru_cache(_REMEMBERED)
def same_verbs(verb: str) -> frozenset[str]:
    """Return the verbs that mean the same as one in its ``-ing`` form, itself included.

    >>> sorted(same_verbs("holding") & {"gripping", "carrying"})
    ['gripping']
    """
    named = {verb, _verb_of(verb)} - {""}
    named.update(*(row for row in _WORDS["verbs"]["same"] if not named.isdisjoint(row)))
    single = _single_words()
    return frozenset(named.union(*(single.get(one, ()) for one in named)))


@lru_cache(_REMEMBERED)
def verbs_in_text(verb: str) -> frozenset[str]:
    """Return the verbs that a text may use for one in its ``-ing`` form: the same and looser ones.

    >>> sorted(verbs_in_text("holding") & {"gripping", "carrying", "riding"})
    ['carrying', 'gripping']
    """
    named = {verb, _verb_of(verb)}
    rows = [row for row in _WORDS["verbs"]["said_for"] if not named.isdisjoint(row)]
    # "Grabbing" is said for catching; what it means here (holding) is not.
    said = (same_verbs(one) if _verb_of(one) == one else {one} for row in rows for one in row)
    return same_verbs(verb).union(*said)


@lru_cache(_REMEMBERED)
def canonical_key(key: str) -> str:
    """Return the canonical form of an attribute's key.

    >>> canonical_key("Primary_Colour"), canonical_key("upper clothing color")
    ('color', 'upper clothing color')
    """
    plain = _plain(key).replace("colour", "color")
    return _KEYS.get(plain, plain)


def same_key(first: str, second: str) -> bool:
    """Return whether the two attribute keys mean the same."""
    return canonical_key(first) == canonical_key(second)
