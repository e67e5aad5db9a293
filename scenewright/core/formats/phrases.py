"""Grammar and words of triplet lines: statements, and the noun phrases at their ends.

A statement is ``subject predicate object``, ``subject | predicate | object``, ``<subject,
predicate, object>``, ``subject -> predicate -> object`` or a noun phrase alone. A noun phrase is an
optional article, number, ordinal or "another", known adjectives, the class label (literal in double
quotes, JSON style), an optional instance number (``dog.2``) and optional attributes (``[key=value,
…]``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from scenewright.core.formats.base import fail, quote
from scenewright.core.inflection import (
    WEAK_VERBS,
    WordLists,
    ing_form,
    singular,
    third_person,
    verb_base,
)
from scenewright.core.vocabulary import (
    BEHIND_VERBS,
    FURTHER_LINES,
    NOT_IN_LINES,
    STATE_VERBS,
    VERB_KINDS,
    WORDINGS,
)

_LISTS = WordLists.of(__package__, "phrases.toml")
_HUES = _LISTS.words("attributes", "hues")
COLORS: frozenset[str] = (
    _HUES
    | _LISTS.words("attributes", "colors")
    | {f"{shade} {hue}" for shade in _LISTS.words("attributes", "shades") for hue in _HUES}
)
SIZES = _LISTS.words("attributes", "sizes")
MATERIALS = _LISTS.words("attributes", "materials")
ADJECTIVES: dict[str, str] = {
    **dict.fromkeys(COLORS, "color"),
    **dict.fromkeys(SIZES, "size"),
    **dict.fromkeys(MATERIALS, "material"),
}
"""Word (or two words) → attribute key."""
ARTICLES = _LISTS.words("determiners", "articles")
VAGUE = _LISTS.words("determiners", "vague")
NEGATIONS = _LISTS.words("determiners", "negations")
"""Words that deny; in a name they stand in double quotes."""
NUMBERS: dict[str, int] = {
    **{word: n for n, word in enumerate(_LISTS.ordered("determiners", "numbers"), 2)},
    **{str(n): n for n in range(2, 7)},
}
ORDINALS: dict[str, int] = {
    word: n for n, word in enumerate(_LISTS.ordered("determiners", "ordinals"), 1)
}

# Verbs with a place behind them.
_POSTURES = (
    *STATE_VERBS,
    *(ing_form(v) for v, kind in VERB_KINDS.items() if kind in ("posture", "locomotion")),
)


def _finite(phrase: str) -> tuple[str, ...]:
    """Return ``wear`` and ``wears`` of a phrase with ``wearing``, unless a noun reads so."""
    first, _, rest = phrase.partition(" ")
    base = verb_base(first)
    if base is None or base in WEAK_VERBS or first != ing_form(base):
        return ()
    return tuple(f"{form} {rest}".rstrip() for form in (base, third_person(base)))


_PROGRESSIVE = (
    *(f"{posture} {place}" for posture in _POSTURES for place in BEHIND_VERBS),
    *FURTHER_LINES,
    *WORDINGS,
)
PREDICATES: frozenset[tuple[str, ...]] = frozenset(
    tuple(phrase.split())
    for known in _PROGRESSIVE
    for phrase in (known, *_finite(known))
    if phrase not in NOT_IN_LINES
)
"""Every known predicate as its words; longer ones win over shorter ones."""
LONGEST_PREDICATE: int = max(map(len, PREDICATES))


_NO_NOUNS = ARTICLES.union(ADJECTIVES, NUMBERS)


def key_of(value: str) -> str | None:
    """Return ``"color"``, ``"size"`` or ``"material"`` of a known attribute word, else none."""
    return ADJECTIVES.get(value.casefold())


MAX_STATEMENTS = 20_000
_QUOTED = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"')
_BRACKETS = re.compile(r"\[[^\[\]\n]*\]")
_MASK = re.compile(r"\x00([0-9]+)\x01")
_MASKED_WORD = re.compile(r"\x00([0-9]+)\x01(?:[.#]([0-9]{1,6}))?")
_NUMBERED_WORD = re.compile(r"(.+)[.#]([0-9]{1,6})")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SEPARATORS = ("|", "->")


@dataclass(frozen=True, slots=True)
class Mention:
    """A parsed noun phrase."""

    name: str
    """The class label."""
    exact: bool = False
    """Whether the label was quoted, so that case matters."""
    attributes: dict[str, str] = field(default_factory=dict)
    """Attribute key → value."""
    number: int | None = None
    """The instance number of ``dog.2``."""
    ordinal: int | None = None
    """2 for "a second dog"."""
    count: int = 1
    """Number of instances: 2 for "two dogs"."""
    another: bool = False
    """Always a new instance."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A parsed statement."""

    where: str
    """Place for errors."""
    subject: Mention
    """Phrase before the predicate, or alone."""
    predicate: str | None = None
    """None: an object without a relation."""
    target: Mention | None = None
    """Phrase after the predicate."""


class _Masks:
    """Quoted strings and brackets, taken out of a text so that their inside is not read."""

    def __init__(self) -> None:
        self._kept: list[str] = []

    def mask(self, text: str) -> str:
        for pattern in (_QUOTED, _BRACKETS):
            text = pattern.sub(self._keep, text)
        return text

    def _keep(self, match: re.Match[str]) -> str:
        self._kept.append(match[0])
        return f"\x00{len(self._kept) - 1}\x01"

    def kept(self, number: str) -> str:
        return self._kept[int(number)]

    def unmask(self, text: str) -> str:
        while _MASK.search(text):
            text = _MASK.sub(lambda match: self.kept(match[1]), text)
        return text

    def literal(self, text: str, where: str) -> str:
        """Return ``text``, or what it quotes; ``FormatError`` for a quote among other words."""
        match = _MASK.fullmatch(text)
        if match is None:
            if _MASK.search(text):
                raise fail(where, f"{quote(self.unmask(text))}: put all of it in quotes, or none")
            return " ".join(text.split())
        return self.unquote(self.kept(match[1]), where)

    def unquote(self, text: str, where: str) -> str:
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if not isinstance(value, str) or not value.strip():
            raise fail(where, f'{text}: write text in double quotes, with \\" for a quote')
        return value


def _attributes(inside: str, masks: _Masks, where: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in inside.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value) or "=" in value:
            raise fail(where, "write attributes as [key=value, key=value], for example [color=red]")
        name = masks.literal(key, where)
        if name in found:
            raise fail(where, f"attribute {quote(name)} is given twice: keep one")
        found[name] = masks.literal(value, where)
    return found


def _adjectives(words: list[str], where: str) -> tuple[dict[str, str], list[str]]:
    """Read leading known adjectives as attributes; return them and the words after them."""
    found: dict[str, str] = {}
    while len(words) > 1:
        for size in (2, 1):
            value = " ".join(words[:size]).casefold()
            if len(words) > size and value in ADJECTIVES:
                break
        else:
            break
        key = ADJECTIVES[value]
        if key in found:
            raise fail(
                where,
                f"two values of {key}, {found[key]!r} and {value!r}: name one, or write "
                f'{quote(" ".join(words[size:]))} [{key}="{found[key]} and {value}"]',
            )
        found[key] = value
        words = words[size:]
    return found, words


def _determiner(words: list[str], where: str) -> tuple[Mention, list[str]]:
    """Return the number, ordinal or "another" before a noun, and the words after it.

    They are returned as a mention without a name.
    """
    blank = Mention(name="")
    if denied := next((word for word in words if word.casefold() in NEGATIONS), None):
        raise fail(
            where,
            f"{denied!r} says what is not there, and a scene holds what is to be seen: take it "
            "out and name it in the negative prompt; if it belongs to a name, quote that in "
            "double quotes",
        )
    if len(words) < 2:
        return blank, words
    first = words[0].casefold()
    if first in VAGUE:
        raise fail(where, f"{words[0]!r} is not a number: say how many, for example 'two dogs'")
    if first == "another":
        return Mention(name="", another=True), words[1:]
    if first in NUMBERS:
        return Mention(name="", count=NUMBERS[first]), words[1:]
    if first in ARTICLES:
        words = words[1:]
    if len(words) > 1 and words[0].casefold() in ORDINALS:
        return Mention(name="", ordinal=ORDINALS[words[0].casefold()]), words[1:]
    return blank, words


def _label(words: list[str], masks: _Masks, where: str) -> tuple[str, bool, int | None]:
    """Return the class label, whether it is quoted, and the instance number."""
    if any("\x00" in word for word in words):
        match = _MASKED_WORD.fullmatch(words[-1])
        if match is None or len(words) > 1 or not masks.kept(match[1]).startswith('"'):
            text = quote(masks.unmask(" ".join(words)))
            raise fail(
                where,
                f'{text}: write a quoted label alone or after known adjectives, as "my dog".2',
            )
        number = None if match[2] is None else int(match[2])
        return masks.unquote(masks.kept(match[1]), where), True, number
    text = " ".join(words)
    for char in ',|<>="[]{}':
        if char in text:
            hint = "separate statements with ';'" if char == "," else "put the label in quotes"
            raise fail(where, f"{quote(text)} holds {char!r}: {hint}")
    if text.startswith(("#", "---")) or text.endswith(".") or "->" in text:
        raise fail(where, f"{quote(text)}: put the label in double quotes")
    if any(word.casefold() == "and" for word in words):
        raise fail(
            where,
            f"{quote(text)} holds 'and': make two statements with ';', or put the label in "
            'quotes: "salt and pepper"',
        )
    match = _NUMBERED_WORD.fullmatch(words[-1])
    if match is None:
        return text, False, None
    return " ".join([*words[:-1], match[1]]), False, int(match[2])


def _mention(text: str, masks: _Masks, where: str) -> Mention:
    words = text.split()
    brackets: dict[str, str] = {}
    tail = re.search(r"\x00([0-9]+)\x01$", words[-1]) if words else None
    if tail is not None and masks.kept(tail[1]).startswith("["):
        brackets = _attributes(masks.kept(tail[1])[1:-1], masks, where)
        words[-1:] = [words[-1][: tail.start()]] if tail.start() else []
    if not words:
        raise fail(where, "an object has no name: write one, for example 'dog'")
    found, words = _determiner(words, where)
    attributes, words = _adjectives(words, where)
    name, exact, number = _label(words, masks, where)
    for key in brackets:
        if key in attributes:
            raise fail(where, f"{key} is given twice, as a word and in brackets: keep one")
    if number is not None and (found.count > 1 or found.ordinal or found.another):
        raise fail(where, f"{quote(text)}: write either {name}.{number} or the number in words")
    return Mention(
        name=singular(name) if found.count > 1 and not exact else name,
        exact=exact,
        attributes={**attributes, **brackets},
        number=number,
        ordinal=found.ordinal,
        count=found.count,
        another=found.another,
    )


def predicates_in(words: list[str]) -> list[tuple[int, int]]:
    """Return (start, end) of the known predicates: the leftmost longest, with a noun between."""
    lower = [word.casefold() for word in words]
    found: list[tuple[int, int]] = []
    at = begin = 0
    while at < len(words):
        for size in range(min(LONGEST_PREDICATE, len(words) - at), 0, -1):
            if tuple(lower[at : at + size]) in PREDICATES:
                break
        else:
            size = 0
        if size and not _NO_NOUNS.issuperset(lower[begin:at]):
            found.append((at, at + size))
            at = begin = at + size
        else:
            at += 1
    return found


def _free(text: str, masks: _Masks, where: str, known: Callable[[str], bool]) -> Statement:
    """Return a statement without separators."""
    words = text.split()
    found = predicates_in(words)
    inner = [(start, end) for start, end in found if end < len(words)]
    if len(inner) > 1:
        said = " and ".join(repr(" ".join(words[start:end])) for start, end in inner)
        raise fail(
            where,
            f"holds more than one relation ({said}): make two statements with ';', or write "
            "'subject | predicate | object', with a label of several words in double quotes",
        )
    if inner:
        start, end = inner[0]
        before = words[:start]
        if len(before) > 1 and before[-1].casefold() in ("is", "are"):
            before = before[:-1]
        return Statement(
            where,
            _mention(" ".join(before), masks, where),
            " ".join(word.casefold() for word in words[start:end]),
            _mention(" ".join(words[end:]), masks, where),
        )
    if found:
        start, _ = found[0]
        raise fail(where, f"nothing follows {' '.join(words[start:])!r}: name the second object")
    first = tuple(word.casefold() for word in words)
    for size in range(min(LONGEST_PREDICATE, len(words) - 1), 0, -1):
        if first[:size] in PREDICATES and not (size == 1 and first[0].endswith("ing")):
            raise fail(
                where, f"nothing stands before {' '.join(words[:size])!r}: name the first object"
            )
    mention = _mention(text, masks, where)
    label = mention.name.split()
    verbs = any(word.casefold().endswith("ing") for word in label[1:-1])
    if not mention.exact and not known(mention.name) and (len(label) > 2 or verbs):
        raise fail(
            where,
            "no known relation in it: write it as 'subject | predicate | object', for example "
            "'dog | chasing | cat'; if it is the name of one object, put it in double quotes",
        )
    return Statement(where, mention)


def _statement(text: str, masks: _Masks, where: str, known: Callable[[str], bool]) -> Statement:
    if text.startswith("<"):
        if not text.endswith(">"):
            raise fail(where, "a '<' is not closed: write <subject, predicate, object>")
        parts = text[1:-1].split(",")
    else:
        used = next((mark for mark in _SEPARATORS if mark in text), None)
        if used is None:
            return _free(text, masks, where, known)
        parts = text.split(used)
    parts = [part.strip() for part in parts]
    if len(parts) != 3 or not all(parts):
        raise fail(
            where,
            f"expected three parts, found {len(parts)}: write subject | predicate | object, "
            "with a label that holds the separator in double quotes",
        )
    predicate = masks.literal(parts[1], where)
    return Statement(
        where, _mention(parts[0], masks, where), predicate, _mention(parts[2], masks, where)
    )


def statements(
    text: str, where: str = "", known: Callable[[str], bool] = lambda name: False
) -> Iterator[Statement]:
    """Return the statements of ``text``, separated by ``;`` or line ends.

    Lines from ``#`` are comments.

    ``known(label)`` tells whether a class was named before: a longer bare phrase is then
    an object, else it must be quoted, for it could be an unknown relation.
    Raises ``FormatError`` with the line, the fragment and the remedy.
    """
    control = _CONTROL.search(text)
    if control:
        raise fail(
            where,
            f"control character {control[0]!r} at character {control.start() + 1}: remove it",
        )
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    done = 0
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("#"):
            continue
        masks = _Masks()
        for piece in masks.mask(line).split(";"):
            fragment = piece.strip()
            if not fragment:
                continue
            place = f"{where}, " if where else ""
            place += f"line {number}, " if len(lines) > 1 else ""
            place += quote(masks.unmask(fragment), 120)
            done += 1
            if done > MAX_STATEMENTS:
                raise fail(place, f"more than {MAX_STATEMENTS} statements: split the scene")
            if '"' in fragment:
                raise fail(place, 'a double quote is not closed: write \\" for one inside a label')
            if len(fragment) > 1 and fragment.endswith("."):
                fragment = fragment[:-1].rstrip()
            yield _statement(fragment, masks, place, known)
