"""Noun phrases: from tagged words to mentions, and the things that a caption has named.

A noun phrase is determiners and numbers, adjectives, and a run of nouns whose last one is the head;
the whole run is the label, so "fire hydrant" and "soccer player" need no list. "A group of people"
is people, at least three; "a man's hat" is a hat that a man has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from scenewright.agents.parsers.tagging import (
    ADJECTIVES,
    COMPOUNDS,
    COVERS,
    EMPTY,
    GROUPS,
    IGNORED,
    IGNORED_HEADS,
    NOT_WHOLES,
    NUMBERS,
    OWN_PRONOUNS,
    PARTS,
    PEOPLE_PRONOUNS,
    PLURAL_PRONOUNS,
    SHADES,
    SIDES,
    THING_PARTS,
    THING_PRONOUNS,
    VAGUE,
    WHOLES,
    Tag,
    Token,
    is_animate,
    is_person,
    key_of,
    rough,
)
from scenewright.core.inflection import is_plural, singular
from scenewright.core.scene import MAX_OBJECTS, MAX_RELATIONS

MOST_INSTANCES = 12
"""A greater number becomes this many instances: what is asked is "at least"."""
_DEEPEST = 8
"""Deepest nesting of owners and groups: "the man's dog's pair of ears"."""


@dataclass(slots=True)
class Mention:
    """A parsed noun phrase."""

    name: str
    """The class label, in the singular."""
    least: int = 1
    """Least number of instances."""
    new: bool = False
    """Whether it has "a" or "another": a new thing."""
    known: bool = False
    """Whether it has "the" or a possessive."""
    bare: bool = False
    """Whether it has no determiner or number."""
    attributes: list[tuple[str, str]] = field(default_factory=list)
    """Attribute key and value, in the order of the words."""
    owner: Mention | None = None
    """Owner."""
    cover: tuple[str, Mention] | None = None
    """Predicate and mention of what covers or fills it: "a snow covered hill"."""
    again: bool = False
    """Whether it is "one": named after what was named before."""
    pronoun: str = ""
    """Pronoun; then there is no name."""
    ignored: bool = False
    """Whether its head cannot be drawn ("the left side")."""

    @property
    def animate(self) -> bool:
        """Whether it can hold, wear and ride."""
        return is_animate(self.name) or self.pronoun not in ("", "it", "itself")


def is_part(name: str) -> bool:
    """Return whether a label's head names a part of a body."""
    return name.rpartition(" ")[2].lower() in PARTS


Item = Mention | Token
EYEWEAR = frozenset({"glasses"})
_WEARS = frozenset({"wearing", "wears", "wear", "wore", "with", "in", "has", "have"})
_COMPOUNDS = frozenset(map(" ".join, COMPOUNDS))
_DETERMINERS: frozenset[Tag] = frozenset({"article", "determiner", "possessive", "number"})


def items(tokens: Sequence[Token]) -> list[Item]:
    """Return the sentence with every noun phrase as one mention."""
    found: list[Item] = []
    at = 0
    while at < len(tokens):
        read = _phrase(tokens, at)
        if read is None:
            found.append(tokens[at])
            at += 1
        else:
            mention, at = read
            if mention.ignored and _is(tokens, at, "one", "ones"):
                at = _named_again(mention, found, at)
            found.append(mention)
    return found


def _named_again(mention: Mention, found: Sequence[Item], at: int) -> int:
    """Name "the white one" after what the sentence has called brown; return the place after it."""
    keys = {key for key, _ in mention.attributes}
    for item in reversed(found):
        if not isinstance(item, Mention) or item.ignored:
            continue
        if keys & {key for key, _ in item.attributes}:
            mention.name, mention.ignored = item.name, False
            mention.new = mention.again = True
            break
    return at + 1


def _phrase(tokens: Sequence[Token], start: int, depth: int = 0) -> tuple[Mention, int] | None:
    if start >= len(tokens):
        return None
    first = tokens[start]
    if first.tag == "pronoun":
        return Mention("", pronoun=first.lower, ignored=first.lower in OWN_PRONOUNS), start + 1
    mention = Mention("", bare=True)
    at = _determiners(tokens, start, mention)
    after_determiners = at
    words, at = _modifiers(tokens, at)
    nouns_from = at
    while at < len(tokens) and tokens[at].tag == "noun":
        at += 1
    if at == nouns_from:
        return _headless(tokens, start, after_determiners, mention)
    nouns = list(range(nouns_from, at))
    group = tokens[at - 1].lower
    deeper = depth < _DEEPEST
    if deeper and _is(tokens, at, "of") and (group in GROUPS or singular(group) in GROUPS):
        inner = _phrase(tokens, at + 1, depth + 1)
        if inner is not None and not inner[0].pronoun:
            of = inner[0]
            plural = of.least > 1
            promised = GROUPS[group if group in GROUPS else singular(group)]
            of.least = max(of.least, promised if plural or promised == 2 else 1)
            if singular(group) == "pair":
                of.least = min(mention.least * _in_pair(of.name), MOST_INSTANCES)
            of.new, of.known, of.bare = mention.new, mention.known, mention.bare
            return of, inner[1]
    _name(tokens, nouns, words, mention)
    if deeper and (covered := _covered(tokens, at, mention, depth)) is not None:
        return covered
    if at < len(tokens) and tokens[at].tag == "number" and not _opens_phrase(tokens, at):
        at += 1
    if at < len(tokens) and tokens[at].tag == "owner":
        owned = _phrase(tokens, at + 1, depth + 1) if deeper else None
        if owned is not None and not owned[0].pronoun:
            deepest = owned[0]
            while deepest.owner is not None:
                deepest = deepest.owner
            deepest.owner = mention
            owned[0].known, owned[0].new, owned[0].bare = True, False, False
            return owned
        at += 1
    return mention, at


def _in_pair(name: str) -> int:
    """Return how many a pair is: of shoes two, of scissors one."""
    return 1 if name in EYEWEAR or (is_plural(name) and not is_animate(name)) else 2


def _covered(
    tokens: Sequence[Token], at: int, mention: Mention, depth: int
) -> tuple[Mention, int] | None:
    """Read on after the noun of "snow covered hill", which then is what covers the hill."""
    if at + 1 >= len(tokens) or tokens[at].tag not in ("participle", "adjective", "verb"):
        return None
    word = tokens[at].lower
    if word not in COVERS or tokens[at + 1].tag not in ("noun", "adjective"):
        return None
    read = _phrase(tokens, at + 1, depth + 1)
    if read is None or read[0].ignored:
        return None
    head = read[0]
    head.least = max(head.least, mention.least if mention.least > 1 else 1)
    head.new, head.known, head.bare = mention.new, mention.known, mention.bare
    plain = Mention(mention.name, bare=True, attributes=mention.attributes)
    if word == "shaped":
        head.attributes.insert(0, ("shape", mention.name))
    else:
        head.cover = (f"{word} with", plain)
    return read


def _is(tokens: Sequence[Token], at: int, *words: str) -> bool:
    return at < len(tokens) and tokens[at].lower in words


def _opens_phrase(tokens: Sequence[Token], at: int) -> bool:
    return at + 1 < len(tokens) and tokens[at + 1].tag in ("noun", "adjective")


def _determiners(tokens: Sequence[Token], at: int, mention: Mention) -> int:
    while at < len(tokens) and tokens[at].tag in _DETERMINERS:
        token = tokens[at]
        word = token.lower
        mention.bare = False
        if token.tag == "number":
            mention.least = max(1, min(_number(word), MOST_INSTANCES))
            mention.new = not mention.known
        elif token.tag == "possessive":
            mention.known = True
            mention.owner = Mention("", pronoun=word)
        elif word in ("the", "this", "that", "these", "those", "each", "every", "both", "all"):
            mention.known = True
            mention.least = max(mention.least, VAGUE.get(word, 1))
        elif word in ("a", "an", "another"):
            mention.new = True
        else:
            mention.least = max(mention.least, VAGUE.get(word, 1))
        at += 1
        if _is(tokens, at, "of") and token.tag in ("number", "determiner"):
            at += 1
    return at


def _number(word: str) -> int:
    if word in NUMBERS:
        return NUMBERS[word]
    digits = word.replace(",", "")
    # Longer digit strings are not counts, and converting them is slow.
    return int(digits) if digits.isdecimal() and len(digits) < 7 else MOST_INSTANCES


def _modifiers(tokens: Sequence[Token], start: int) -> tuple[list[str], int]:
    """Return the adjectives from ``start``, joined by "and" and commas, and their end."""
    words: list[str] = []
    at = start
    while at < len(tokens):
        token = tokens[at]
        if token.tag == "adjective":
            words.append(token.lower)
        elif token.tag == "adverb":
            if not _leads_to_adjective(tokens, at):
                break
        elif token.tag in ("and", "comma") and words and token.lower != "nor":
            step = at + 1
            while step < len(tokens) and tokens[step].tag in ("and", "comma"):
                step += 1
            if not (step < len(tokens) and _leads_to_adjective(tokens, step - 1)):
                break
            words.append("and" if token.tag == "and" or step > at + 1 else ",")
            at = step
            continue
        else:
            break
        at += 1
    return words, at


def _leads_to_adjective(tokens: Sequence[Token], at: int) -> bool:
    step = at + 1
    while step < len(tokens) and tokens[step].tag == "adverb":
        step += 1
    return step < len(tokens) and tokens[step].tag == "adjective"


def _headless(
    tokens: Sequence[Token], start: int, at: int, mention: Mention
) -> tuple[Mention, int] | None:
    """Return a mention for a noun phrase without a noun, such as "two" or "another".

    "the red one" is none.
    """
    if at == start:
        return None
    words, after = _modifiers(tokens, at)
    if after > at and words:
        if named := _named_after(tokens, after):
            # "A brown and a white dog" are two.
            mention.name, mention.new = named, not mention.known
            mention.attributes = attributes_of(words)
            return mention, after
        # An adjective used as a noun: "a blonde", "the dark".
        mention.attributes = attributes_of(words)
        mention.name = words[-1]
        mention.ignored = True
        return mention, after
    mention.ignored = True
    return mention, at


def _named_after(tokens: Sequence[Token], at: int) -> str:
    """Return the label of the phrase that goes on after "and" with its own article, if any."""
    start = at
    while start < len(tokens) and tokens[start].tag in ("and", "comma"):
        start += 1
    if start == at or start >= len(tokens) or tokens[start].tag not in ("article", "number"):
        return ""
    read = _phrase(tokens, start, _DEEPEST)
    if read is None or read[0].ignored or not read[0].attributes:
        return ""
    return read[0].name


def _name(
    tokens: Sequence[Token], nouns: Sequence[int], words: Sequence[str], mention: Mention
) -> None:
    texts = [_cased(tokens, at) for at in nouns]
    colored = [t for t in texts[:-1] if t.lower() not in ("color", "colour", "colored", "coloured")]
    texts = [*colored, texts[-1]]
    sides = [word for word in words if word in SIDES]
    mention.attributes = attributes_of([word for word in words if word not in SIDES])
    full = " ".join([*sides, *texts])
    mention.name = singular(full)
    head = mention.name.rpartition(" ")[2].lower()
    if singular(texts[-1]) != texts[-1] or texts[-1].lower() in (
        "people",
        "cattle",
        "men",
        "women",
    ):
        mention.least = max(mention.least, 2)
    mention.ignored = head in IGNORED_HEADS or (head in IGNORED and len(texts) == 1)
    if texts[-1].lower() == "glasses" and mention.least == 2 and _is_eyewear(tokens, nouns):
        mention.name, mention.least = f"{full.removesuffix(texts[-1])}{texts[-1].lower()}", 1
    elif len(texts) > 1 and not sides and (whole := _whole_of(texts)):
        mention.name = singular(texts[-1])
        mention.owner = Mention(whole, known=mention.owner is None)


def _is_eyewear(tokens: Sequence[Token], nouns: Sequence[int]) -> bool:
    """Return whether "glasses" are worn: a pair of them, or of a person before them."""
    after = nouns[-1] + 1
    if _is(tokens, after, "of", "filled", "full of", "filled with"):
        return False
    if _is(tokens, after, "on") and any(is_animate(t.lower) for t in tokens[after + 1 : after + 3]):
        return True
    before = tokens[: nouns[0]]
    if before and before[-1].tag == "possessive":
        return True
    if any(token.tag in ("number", "determiner") for token in before[-2:]):
        return False
    if before and before[-1].lower == "of" and "pair" in {token.lower for token in before[-3:]}:
        return True
    worn = any(token.lower in _WEARS for token in before[-5:])
    return worn and any(token.tag == "noun" and is_animate(token.lower) for token in before)


def _whole_of(texts: Sequence[str]) -> str:
    """Return the owner in "car window" and "horse head"; empty for other compounds."""
    whole, part = singular(" ".join(texts[:-1]).lower()), singular(texts[-1].lower())
    last = whole.rpartition(" ")[2]
    if f"{whole} {part}" in _COMPOUNDS or last in NOT_WHOLES:
        return ""
    of_thing = last in WHOLES and part in THING_PARTS
    of_body = is_animate(last) and part in PARTS
    return whole if of_thing or of_body else ""


def _cased(tokens: Sequence[Token], at: int) -> str:
    """Return the word in lower case unless it is a proper name inside the sentence."""
    text = tokens[at].text
    if text.isupper() and len(text) > 3:
        return text.lower()
    if at > 0:
        return text
    follows = tokens[at + 1] if at + 1 < len(tokens) else None
    proper = follows is not None and follows.tag == "noun" and follows.text[:1].isupper()
    return text if proper else text.lower()


def attributes_of(words: Sequence[str]) -> list[tuple[str, str]]:
    """Return keys and values of adjectives in order; "red and white" is one value.

    >>> attributes_of(["light", "blue", "and", "white", "wooden"])
    [('color', 'light blue and white'), ('material', 'wooden')]
    """
    found: list[tuple[str, str]] = []
    joined = False
    shade = ""
    for at, word in enumerate(words):
        if word in ("and", ","):
            joined = True
            continue
        after = words[at + 1] if at + 1 < len(words) else ""
        if word in SHADES and key_of(after) == "color" and after in ADJECTIVES:
            shade = f"{shade}{word} "
            continue
        if word in EMPTY or rough(word) == "number":
            joined = False
            continue
        key, value = key_of(shade + word), shade + word
        if found and joined and found[-1][0] == key:
            found[-1] = (key, f"{found[-1][1]} and {value}")
        else:
            found.append((key, value))
        joined, shade = False, ""
    return found


_MEMORY = 40
"""Number of last things that a pronoun or a shortened label can mean."""


@dataclass(slots=True, eq=False)
class Thing:
    """A named thing: a class label and its number of instances."""

    name: str
    """The class label, in the singular."""
    least: int = 1
    """Least number of instances."""
    attributes: dict[str, list[str]] = field(default_factory=dict)
    """Attribute key → values, in the order of the words."""

    def add(self, key: str, value: str) -> None:
        """Add an attribute value; one that is there already is not repeated."""
        values = self.attributes.setdefault(key, [])
        if value not in values:
            values.append(value)

    @property
    def animate(self) -> bool:
        """Whether it can hold, wear and ride."""
        return is_animate(self.name)


class Things:
    """All things of a caption, in order of first mention."""

    def __init__(self) -> None:
        self.all: list[Thing] = []
        self.relations: dict[tuple[int, str, int], tuple[Thing, str, Thing]] = {}
        self._subjects: list[Thing] = []
        self._named: dict[str, list[Thing]] = {}

    def relate(self, source: Thing, predicate: str, target: Thing) -> None:
        """Add a relation, unless it is of a thing to itself or known."""
        if source is not target and len(self.relations) < MAX_RELATIONS:
            self.relations[(id(source), predicate, id(target))] = (source, predicate, target)

    def related(self, source: Thing, predicate: str, target: Thing) -> bool:
        """Return whether the relation is known."""
        return (id(source), predicate, id(target)) in self.relations

    def forget(self, source: Thing, predicate: str, target: Thing) -> None:
        """Take back a relation, if it is known."""
        self.relations.pop((id(source), predicate, id(target)), None)

    def spoken_of(self, subjects: list[Thing]) -> None:
        """Remember the subjects of a clause: later pronouns mean them."""
        self._subjects.extend(subjects)
        del self._subjects[:-_MEMORY]

    def resolve(self, mention: Mention, apart: list[Thing]) -> list[Thing]:
        """Return the things that a mention means: earlier ones, or new ones while there is room.

        ``apart`` are the things that it is related to, which it cannot be: "a chair beside a
        chair". Nothing for a pronoun without a thing to mean.
        """
        if mention.pronoun:
            return self._meant(mention.pronoun, apart)
        thing = None if mention.new else self._same(mention, apart)
        if thing is None:
            if len(self.all) >= MAX_OBJECTS:
                return []
            thing = Thing(mention.name, mention.least)
            self.all.append(thing)
            self._named.setdefault(mention.name.casefold(), []).append(thing)
        else:
            thing.least = max(thing.least, mention.least)
        for key, value in mention.attributes:
            thing.add(key, value)
        if mention.cover is not None:
            predicate, cover = mention.cover
            for other in self.resolve(cover, [thing]):
                self.relate(thing, predicate, other)
        if mention.owner is not None:
            holder = mention.owner
            if holder.pronoun == "its" and is_part(mention.name):
                # A body has arms and ears, whatever stands nearer.
                holder = Mention("", pronoun="his")
            elif holder.pronoun == "its" and self._is_of_animal(mention.name):
                holder = Mention("", pronoun="his")
            for owner in self.resolve(holder, [thing]) or self.resolve(mention.owner, [thing]):
                if owner is not thing and not any(owner is other for other in apart):
                    self.relate(owner, "has", thing)
        return [thing]

    def _is_of_animal(self, name: str) -> bool:
        """Return whether "its NAME" is of the animal that the clause is about.

        "An elephant sprays water on its calf"; a part of a thing is of what stands nearer.
        """
        if not self._subjects or name.rpartition(" ")[2].lower() in THING_PARTS:
            return False
        newest = self._subjects[-1]
        return newest.animate and newest.least == 1 and not is_person(newest.name)

    def _same(self, mention: Mention, apart: list[Thing]) -> Thing | None:
        name = mention.name.casefold()
        rivals = self._named.get(name, [])
        for thing in reversed(rivals):
            if not any(thing is other for other in apart) and _fits(mention, thing):
                return thing
        if mention.known and " " not in name:
            for thing in reversed(self.all[-_MEMORY:]):
                if thing.name.casefold().endswith(f" {name}") and thing not in apart:
                    return thing
        return None

    def _meant(self, pronoun: str, apart: list[Thing]) -> list[Thing]:
        for fits in _WANTED.get(pronoun, ()):
            for named in (self._subjects, self.all[-_MEMORY:]):
                for thing in reversed(named):
                    if thing not in apart and _FITS[fits](thing):
                        return [thing]
        return []


def _fits(mention: Mention, thing: Thing) -> bool:
    """Return whether the statements about one can be true of the other."""
    return all(
        key not in thing.attributes or value in thing.attributes[key] or key == "state"
        for key, value in mention.attributes
    )


_FITS: dict[str, Callable[[Thing], bool]] = {
    "person": lambda thing: thing.animate and thing.least == 1,
    "people": lambda thing: thing.animate and thing.least > 1,
    "animate": lambda thing: thing.animate,
    "object": lambda thing: not thing.animate and thing.least == 1,
    "many": lambda thing: thing.least > 1,
    "any": lambda thing: True,
}
_WANTED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(PEOPLE_PRONOUNS | {"his", "her"}, ("person", "animate")),
    **dict.fromkeys(PLURAL_PRONOUNS | {"their"}, ("people", "animate", "many", "any")),
    **dict.fromkeys(THING_PRONOUNS | {"its"}, ("object", "any")),
}
"""Pronoun → preferred meaning; the last subject before the last thing named."""
