"""Noun phrases: from tagged words to mentions.

A noun phrase is determiners and numbers, adjectives, and a run of nouns whose last one is the head;
the whole run is the label, so "fire hydrant" and "soccer player" need no list. "A group of people"
is people, at least three; "a man's hat" is a hat that a man has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from scenewright.agents.parsers.naming import (
    attributes_of,
    cased,
    is_counted,
    is_degree,
    is_doer,
    is_eyewear,
    is_proper,
    is_proper_adjective,
    joined_names,
    misspelt,
    says,
    whole_of,
)
from scenewright.agents.parsers.spelling import parts_of_speech
from scenewright.agents.parsers.splitting import spanning
from scenewright.agents.parsers.tagging import (
    AT_LEAST,
    AT_MOST,
    COVERS,
    EXACT_GROUPS,
    FEW,
    GROUPS,
    IGNORED,
    MORE_THAN,
    NUMBERS,
    OR_SO,
    ORDINALS,
    OWN_PRONOUNS,
    PEOPLE,
    SIDES,
    VAGUE,
    VESSELS,
    Named,
    Tag,
    Token,
    graded,
    is_animate,
    is_group,
    is_person,
    words,
)
from scenewright.core.inflection import IRREGULAR_NOUNS, is_plural, singular
from scenewright.core.inflection import plural as plural_of
from scenewright.core.intent import CountKind

MOST_INSTANCES = 12
"""A greater number becomes this many instances: what is asked is "at least"."""
_DEEPEST = 8
"""Deepest nesting of owners and groups: "the man's dog's pair of ears"."""
_FLAT = words("nouns", "flat_vessels")
_DRINKS = words("nouns", "drinking_vessels")
_EXPANSES = words("nouns", "expanses")
"""Places that are named by what fills them: "a field of daisies"."""
_IGNORED_SINGLE = words("nouns", "ignored_single")
_SHOWN = words("nouns", "depictions")
_IGNORED_HEADS = words("nouns", "ignored_heads")
_ROUND_NUMBERS = words("numbers", "round")
"""Numbers that "a" may stand before: "a dozen"."""
_HUNDREDS = words("numbers", "hundreds")
_NUMBERED = words("nouns", "numbered")
"""Nouns that a number goes on with: "room two"."""


@dataclass(slots=True)
class Mention(Named):
    """A parsed noun phrase."""

    tag: ClassVar[Tag] = "phrase"
    name: str
    """The class label, in the singular."""
    least: int = 1
    """Least number of instances."""
    number: int | None = None
    """The number that was said, if one was: "three", "a pair of"."""
    count: CountKind | None = None
    """Meaning of the number; None for one thing."""
    group: int | None = None
    """Number of groups: 4 for "four pairs"."""
    told: bool = False
    """Whether its things may be told one by one: "a stack of three plates"."""
    part: str = ""
    """Which of several it is: "one", "other", "others", "2" for the second, "last"."""
    prefix: str = ""
    """Numbers of its name: "2019" in "a 2019 Toyota"."""
    new: bool = False
    """Whether it has "a" or "another": a new thing."""
    each: bool = False
    """Whether what is said of it is said of each: "a fork next to each plate"."""
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
    text: str = ""
    """Text written on it."""
    contents: tuple[str, list[Mention]] | None = None
    """Predicate and mentions of what it holds: "a cup of coffee"."""
    again: bool = False
    """Whether it is "one": named after what was named before."""
    pronoun: str = ""
    """Pronoun; then there is no name."""
    place: tuple[int, int] = (-1, -1)
    """Begin and end in the caption."""
    ignored: bool = False
    """Whether its head cannot be drawn ("the left side")."""

    @property
    def singled(self) -> bool:
        """Whether it tells one of several from the others: "the brown dog"."""
        one = self.known and self.least == 1 and self.count is None
        return one and bool(self.attributes) and self.owner is None

    @property
    def animate(self) -> bool:
        """Whether it can hold, wear and ride."""
        return is_animate(self.name) or self.pronoun not in ("", "it", "itself")


Item = Mention | Token
EYEWEAR = frozenset({"glasses"})
_PORTIONS = words("groups", "portions")
_ARRANGED = words("groups", "arranged")
_DETERMINERS: frozenset[Tag] = frozenset({"article", "determiner", "possessive", "number"})


def items(tokens: Sequence[Token]) -> list[Item]:
    """Return the sentence with every noun phrase as one mention.

    A noun for a text and the text are one token, the text: "the words 'KEEP OFF'".
    """
    found: list[Item] = []
    at = 0
    while at < len(tokens):
        read = _phrase(tokens, at)
        if read is None and (side := _own_side(tokens, at)) is not None:
            found += side
            at += 3
            continue
        if read is None:
            found.append(tokens[at])
            at += 1
            continue
        begin = tokens[at].place[0]
        mention, at = read
        mention.place = (begin, tokens[at - 1].place[1])
        unnamed = mention.ignored or (mention.part == "one" and mention.attributes)
        if unnamed and mention.name != "one" and says(tokens, at, "one", "ones"):
            _named_again(mention, found)
            at += 1
        elif mention.name == "one" and mention.attributes:
            _named_again(mention, found)
        step = at
        while says(tokens, step, ",", "of", "reading", "saying", "that", "says", "reads", "which"):
            step += 1
        if mention.is_writing and step < len(tokens) and tokens[step].tag == "quote":
            at = step
            continue
        found.append(mention)
    return found


def _own_side(tokens: Sequence[Token], at: int) -> tuple[Token, Mention] | None:
    """Return "to the left of" and "it" for "to its left"; None for anything else."""
    if not says(tokens, at, "to", "on", "at") or not says(tokens, at + 2, "left", "right"):
        return None
    if tokens[at + 1].tag != "possessive" or (
        at + 3 < len(tokens) and tokens[at + 3].tag in ("noun", "adjective")
    ):
        return None
    first, owner, side = tokens[at : at + 3]
    text = spanning([first.text, owner.text, side.text], 0, 3, f"{first.lower} the {side.lower} of")
    return Token(text, "preposition"), Mention("", pronoun=owner.lower, place=owner.place)


def _named_again(mention: Mention, found: Sequence[Item]) -> None:
    """Name "the white one" after what the sentence has called brown."""
    keys = {key for key, _ in mention.attributes}
    for item in reversed(found):
        if not isinstance(item, Mention) or item.ignored or not item.name:
            continue
        others = [key for key, value in item.attributes if (key, value) not in mention.attributes]
        if mention.known and (item.number or item.least) > 1:
            break
        if keys & set(others):
            mention.name, mention.ignored, mention.part = item.name, False, ""
            mention.new = mention.again = True
            return
    mention.part = f"{mention.number} of" if mention.number else "one"
    mention.name, mention.ignored = "", False


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
    if at > start and at + 1 < len(tokens) and tokens[at].tag == "quote":
        # "A wooden 'No Entry' sign".
        mention.text, more = tokens[at].text, _modifiers(tokens, at + 1)
        if more[1] < len(tokens) and tokens[more[1]].tag == "noun":
            words, at = [*words, *more[0]], more[1]
        else:
            mention.text = ""
    if words and mention.number is None and _is_year_before_name(tokens, at, mention):
        mention.prefix, at = tokens[at].text, at + 1
    nouns_from = at
    while at < len(tokens) and _is_of_name(tokens, at, nouns_from):
        at += 1
    if at == nouns_from:
        return _headless(tokens, start, after_determiners, mention)
    nouns = list(range(nouns_from, at))
    _without_compound_number(tokens, nouns, mention)
    group = tokens[at - 1].lower
    deeper = depth < _DEEPEST
    if deeper and says(tokens, at, "of") and (group in GROUPS or singular(group) in GROUPS):
        inner = _phrase(tokens, at + 1, depth + 1)
        if inner is not None and not inner[0].pronoun:
            of = inner[0]
            plural = of.least > 1
            if mention.number is None and singular(group) != group:
                mention.least, mention.count = 2, "open"
            group = group if group in GROUPS else singular(group)
            promised = GROUPS[group]
            if of.number is None:
                of.least = max(of.least, promised if plural or group in EXACT_GROUPS else 1)
                if promised > 2 and plural:
                    of.count = "open"
            if group in EXACT_GROUPS:
                each = _in_pair(of.name) if group == "pair" else promised
                of.count = mention.count or "exact"
                # "Pairs of shoes": how many is not said.
                of.number = None if of.count == "open" else each * (mention.number or 1)
                of.least = min(each * mention.least, MOST_INSTANCES)
                of.group = mention.number
            elif mention.least > 1 and (
                (promised == 1 and of.least <= 1) or (mention.number and plural and not of.number)
            ):
                # "Two slices of pizza", "two sets of twins".
                if group in _PORTIONS or plural:
                    of.name = f"{singular(group)} of {plural_of(of.name) if plural else of.name}"
                of.number, of.least, of.count = mention.number, mention.least, mention.count
            elif group in _ARRANGED and of.count == "exact":
                of.told = True
            of.new, of.known, of.bare = mention.new, mention.known, mention.bare
            # "A migrating herd of sauropods": they migrate.
            # "A square slice of pizza": the pizza is.
            own = [word for word in words if word.endswith("ing") or promised == 1]
            of.attributes = attributes_of(own) + of.attributes
            return of, inner[1]
    at = joined_names(tokens, nouns)
    _name(tokens, nouns, words, mention)
    if says(tokens, at, "of") and mention.animate and at + 1 < len(tokens):
        after = tokens[at + 2] if at + 2 < len(tokens) else None
        if tokens[at + 1].tag == "number" and (
            after is None or after.tag not in ("noun", "adjective")
        ):
            # "A family of four".
            mention.name = f"{mention.name} of {tokens[at + 1].lower}"
            return mention, at + 2
    if deeper and (covered := _covered(tokens, at, mention, depth)) is not None:
        return covered
    if deeper and says(tokens, at, "of"):
        # "Art of a dog, art of a cat": they are two.
        apart = says(tokens, at + 1, "a", "an") or (mention.bare and not mention.is_part)
        mention.new = mention.new or apart
        return mention, _contents(tokens, at, mention, depth)
    if at < len(tokens) and tokens[at].tag == "owner":
        owned = _phrase(tokens, at + 1, depth + 1) if deeper else None
        if owned is not None and owned[0].name and _is_kind(tokens, nouns, mention, owned[0]):
            # "A train conductor's hat" names a hat, and no conductor.
            head = owned[0]
            head.name = (
                f"{' '.join(tokens[n].lower for n in nouns)}{_owner_mark(tokens, at)} {head.name}"
            )
            head.attributes = [*mention.attributes, *head.attributes]
            head.new, head.known, head.bare = mention.new, mention.known, mention.bare
            return owned
        if owned is not None and not owned[0].pronoun:
            deepest = owned[0]
            while deepest.owner is not None:
                deepest = deepest.owner
            if mention.part:
                # "One of the man's fingers" is one finger.
                head = owned[0]
                head.part, head.number, head.count = mention.part, mention.number, mention.count
                head.least = mention.least
                mention.part, mention.number, mention.count, mention.least = "", None, None, 1
                mention.new, mention.known = False, True
            deepest.owner = mention
            owned[0].known, owned[0].new, owned[0].bare = True, False, False
            return owned
        at += 1
    return mention, at


def _is_of_name(tokens: Sequence[Token], at: int, start: int) -> bool:
    """Return whether the word at ``at`` goes on with the name that begins at ``start``.

    Numbers within a name are part of it ("Boeing 747", "size 10 shoe"), as are capitalised
    adjectives before capitalised nouns ("Golden Gate Bridge").
    """
    token = tokens[at]
    follows = tokens[at + 1] if at + 1 < len(tokens) else None
    if token.tag == "noun":
        return True
    if token.tag == "number" and at > start:
        before = tokens[at - 1]
        if singular(before.lower) != before.lower and not before.text[:1].isupper():
            return False
        digits = token.text[:1].isdigit() or before.lower in _NUMBERED
        return digits and not (follows is not None and is_counted(follows))
    titled = at > start and tokens[at - 1].text.endswith(".") and token.text[:1].isupper()
    return titled or is_proper_adjective(tokens, at)


def _is_year_before_name(tokens: Sequence[Token], at: int, mention: Mention) -> bool:
    """Return whether a number after adjectives is part of a name: "a blue 1977 Ford"."""
    named = at + 1 < len(tokens) and tokens[at].tag == "number" and tokens[at + 1].tag == "noun"
    return named and not is_counted(tokens[at + 1]) and (mention.new or mention.bare)


def _without_compound_number(
    tokens: Sequence[Token], nouns: Sequence[int], mention: Mention
) -> None:
    """Make a number that counts nothing part of the name: "two lane road", "2019 Toyota"."""
    before = tokens[nouns[0] - 1] if nouns[0] else None
    if mention.number is None or mention.prefix or before is None or before.tag != "number":
        return
    head = tokens[nouns[-1]]
    one = singular(head.lower) == head.lower and IRREGULAR_NOUNS.get(head.lower) != head.lower
    year = _YEAR.fullmatch(before.text) is not None
    if one and mention.number > 1 and (year or len(nouns) > 1) and not is_group(head.lower):
        mention.prefix = before.text
        mention.number, mention.count, mention.least = None, None, 1


_YEAR = re.compile(r"(?:1[0-9]|20|21)[0-9][0-9]", re.ASCII)


_ROLES = PEOPLE - words("nouns", "generic_people")


def _owner_mark(tokens: Sequence[Token], at: int) -> str:
    return "'" if tokens[at - 1].lower.endswith("s") else "'s"


def _is_kind(tokens: Sequence[Token], nouns: Sequence[int], owner: Mention, owned: Mention) -> bool:
    """Return whether an owner says only what kind its thing is: "chef's hat", "kids' book"."""
    head = tokens[nouns[-1]].lower
    role = singular(head) in _ROLES or is_doer(head)
    if owned.owner is not None or owner.known or is_animate(owned.name):
        return False
    articles = any(token.tag == "article" for token in tokens[: nouns[0]])
    if owner.new and not parts_of_speech(head):
        # "A rubik's cube".
        return True
    if owner.bare and articles and singular(head) == head and tokens[nouns[-1]].text.islower():
        # Without "a" it names no tiger: "a shield with tiger's heads".
        return True
    if owned.is_part:
        return False
    if owner.number is not None or tokens[nouns[-1]].text[:1].isupper():
        return False
    if singular(head) != head or head in ("children", "men", "women", "people"):
        return owner.bare or owner.new or is_person(head)
    return (owned.is_clothes and role) or (owner.new and singular(head) in _ROLES)


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


def place_within(name: str) -> str:
    """Return how what a thing is "of" lies in it: "in" for a cup; empty for what holds nothing."""
    head = singular(name.rpartition(" ")[2].lower())
    return "on" if head in _FLAT else "in" if head in VESSELS or head in _EXPANSES else ""


def _contents(tokens: Sequence[Token], at: int, mention: Mention, depth: int) -> int:
    """Read what a thing holds, "of" being at ``at``; return the place after it.

    What is said after "a cup of coffee" is said of the cup. After persons and animals it is said
    of them: "a basket of kittens sleeping".
    """
    predicate = place_within(mention.name)
    read = _phrase(tokens, at + 1, depth + 1) if predicate else None
    if read is None or not _is_content(read[0]) or read[0].animate:
        return at
    held, end = [read[0]], read[1]
    mention.contents = (predicate, held)
    if singular(mention.name.rpartition(" ")[2].lower()) in _DRINKS:
        return end
    listed: list[Mention] = []
    step = end
    while says(tokens, step, ",", "and"):
        closes = says(tokens, step, "and") or says(tokens, step + 1, "and")
        step += 1 + (closes and not says(tokens, step, "and"))
        read = _phrase(tokens, step, depth + 1)
        if read is None or not _is_content(read[0]) or read[0].bare != held[0].bare:
            return end
        listed.append(read[0])
        step = read[1]
        if closes:
            goes_on = step < len(tokens) and tokens[step].tag in ("be", "verb", "have", "owner")
            if goes_on or read[0].contents or read[0].animate:
                return end
            held += listed
            return step
    return end


def _is_content(mention: Mention) -> bool:
    named = bool(mention.name) and not mention.ignored and mention.owner is None
    return named and not mention.is_writing


def _determiners(tokens: Sequence[Token], at: int, mention: Mention) -> int:
    while at < len(tokens) and tokens[at].tag in _DETERMINERS:
        token = tokens[at]
        word = token.lower
        again = mention.number is not None and word not in _ROUND_NUMBERS
        if token.tag == "number" and (again or _is_in_name(tokens, at, mention)):
            mention.prefix = token.text
            return at + 1
        mention.bare = False
        if token.tag == "number":
            _count(mention, word)
        elif token.tag == "possessive":
            mention.known = True
            mention.owner = Mention("", pronoun=word)
        elif word in ("the", "this", "that", "these", "those", "each", "every", "both", "all"):
            mention.known = True
            mention.least = max(mention.least, VAGUE.get(word, 1))
            mention.each = word in ("each", "every")
            if word == "both":
                mention.number, mention.count = 2, "exact"
        elif word in ("a", "an", "another"):
            mention.new = True
        elif word == "other" and mention.known:
            mention.part = word
        elif word in OR_SO or word in AT_LEAST:
            mention.count = "least"
        elif word in MORE_THAN:
            mention.count, mention.least = "least", 2
        elif word in AT_MOST:
            mention.count = "open"
        elif word in VAGUE:
            mention.least = max(mention.least, VAGUE[word])
            mention.count = "least" if word in FEW else "open"
        at += 1
        if token.tag == "number" and says(tokens, at, "or", "to") and _is_number(tokens, at + 1):
            # "Three or four ducks".
            mention.count, at = "least", at + 2
        if says(tokens, at, "of") and token.tag in ("number", "determiner"):
            at += 1
            mention.part = _subset(tokens, at, mention)
    return at


def _is_number(tokens: Sequence[Token], at: int) -> bool:
    return (
        at < len(tokens)
        and tokens[at].tag == "number"
        and at + 1 < len(tokens)
        and tokens[at + 1].tag in ("noun", "adjective")
    )


def _subset(tokens: Sequence[Token], at: int, mention: Mention) -> str:
    """Return which ones "of them" leaves: "one of the dogs" is one of those named before."""
    after = tokens[at] if at < len(tokens) else None
    definite = after is not None and (
        after.tag in ("possessive", "pronoun", "relative")
        or after.lower in ("the", "these", "those")
    )
    if definite and tokens[at - 2].lower in ("each", "both", "all"):
        return "all"
    if not definite or mention.number is None or mention.count != "exact":
        return ""
    return "one" if mention.number == 1 else f"{mention.number} of"


def _is_in_name(tokens: Sequence[Token], at: int, mention: Mention) -> bool:
    """Return whether a number after "a" is part of a name: "a two lane road"."""
    word = tokens[at].lower
    if not at or tokens[at - 1].lower not in ("a", "an") or word in _ROUND_NUMBERS:
        return False
    follows = tokens[at + 1] if at + 1 < len(tokens) else None
    return follows is not None and follows.tag in ("noun", "adjective") and mention.count is None


def _count(mention: Mention, word: str) -> None:
    """Take the number ``word`` into ``mention``."""
    if word in _HUNDREDS:
        mention.count, mention.least = "open", max(mention.least, 3)
        return
    number = max(1, _number(word))
    if mention.number is not None and word in _ROUND_NUMBERS:
        # "Two dozen".
        number *= mention.number
    more = mention.count == "least" and mention.least == 2
    mention.number = number
    mention.count = mention.count or "exact"
    mention.least = min(number + more, MOST_INSTANCES)
    mention.new = not mention.known


def _number(word: str) -> int:
    if word in NUMBERS:
        return NUMBERS[word]
    digits = word.replace(",", "")
    # Longer digit strings are not counts, and converting them is slow.
    return int(digits) if digits.isdecimal() and len(digits) < 10 else MOST_INSTANCES


def _modifiers(tokens: Sequence[Token], start: int) -> tuple[list[str], int]:
    """Return the adjectives from ``start``, joined by "and" and commas, and their end."""
    words: list[str] = []
    at = start
    while at < len(tokens):
        token = tokens[at]
        if token.tag == "adjective" and is_proper_adjective(tokens, at):
            break
        if token.tag == "adjective":
            words.append(token.lower)
        elif token.tag == "adverb":
            if not _leads_to_adjective(tokens, at):
                break
            if is_degree(token.lower):
                words.append(token.lower)
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
    """Return a mention for a noun phrase without a noun, such as "two" or "the other".

    "the red one" is none.
    """
    if at == start:
        return None
    if mention.part and at < len(tokens) and tokens[at].tag in ("pronoun", "relative"):
        # "One of them".
        return mention, at + 1
    words, after = _modifiers(tokens, at)
    if after > at and words:
        if named := _named_after(tokens, after):
            # "A brown and a white dog" are two.
            mention.name, mention.new = named, not mention.known
            mention.attributes = attributes_of(words)
            return mention, after
        if tokens[at - 1].lower in ("one", "other", "another"):
            # "One red and the other blue".
            mention.part = tokens[at - 1].lower
            mention.attributes = attributes_of(words)
            return mention, after
        if tokens[at - 1].tag == "number" and mention.number and not mention.known:
            # "Four apples, two red and two green".
            mention.part = f"{mention.number} of"
            mention.attributes = attributes_of(words)
            return mention, after
        if words[-1] in ORDINALS and mention.known:
            mention.part = ORDINALS[words[-1]]
            return mention, after + says(tokens, after, "one")
        if words[-1].endswith("est") and graded(words[-1]) and says(tokens, after, "of"):
            # "The largest of which".
            mention.part, mention.attributes = "one", attributes_of(words)
            return mention, after + 1 + says(tokens, after + 1, "which", "them", "whom")
        # An adjective used as a noun: "a blonde", "the dark".
        mention.attributes = attributes_of(words)
        mention.name = words[-1]
        mention.ignored = True
        return mention, after
    last = tokens[at - 1].lower
    if last in ("other", "another", "others", "rest") or last == "one":
        mention.part = last
        return mention, at + (last != "one" and says(tokens, at, "one"))
    if tokens[at - 1].tag == "number" and mention.number and not mention.known:
        mention.part = f"{mention.number} of"
        return mention, at
    if last in ("both", "two", "each", "all") and mention.known:
        mention.part = "all"
        return mention, at
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
    texts = [cased(tokens, at) for at in nouns]
    if mention.known and [text.lower() for text in texts] == ["others"]:
        # "The others with blue hats".
        mention.part = "others"
        return
    colored = [
        t
        for t in texts[:-1]
        if t.lower() not in ("color", "colour", "colored", "coloured") and not misspelt(t)
    ]
    texts = [*colored, texts[-1]]
    counted = len(texts) > 1 and texts[0] in EXACT_GROUPS and singular(texts[-1]) != texts[-1]
    if counted and mention.new and mention.number is None:
        # "A couple bananas", but "a couple photo".
        mention.number = mention.least = EXACT_GROUPS[texts.pop(0)]
        mention.count = "exact"
    sides = [word for word in words if word in SIDES]
    numbered = [word for word in words if word[0].isdigit() and " " not in word]
    mention.attributes = attributes_of(
        [word for word in words if word not in SIDES and word not in numbered]
    )
    full = " ".join([*mention.prefix.split(), *numbered, *sides, *texts])
    one = full if is_proper(tokens, nouns) else singular(full)
    mention.name = one
    head = mention.name.rpartition(" ")[2].lower()
    several = one != full or texts[-1].lower() in ("people", "cattle", "men", "women")
    odd = several and mention.new and mention.count is None and mention.number is None
    if odd and mention.name != "people":
        # "A skis": what "a" says is one.
        mention.name = full
    elif several and not mention.part:
        mention.least = max(mention.least, 2)
        mention.count = mention.count or "open"
    if mention.part == "other" and several:
        mention.part = "others"
    plain = head in IGNORED and len(texts) == 1 and " " not in texts[0]
    plain = plain and not (head in _IGNORED_SINGLE and mention.least > 1)
    plain = plain and not (head in _SHOWN and _is_shown(tokens, nouns))
    mention.ignored = head in _IGNORED_HEADS or (plain and not _is_backdrop(mention))
    if texts[-1].lower() == "glasses" and mention.least == 2 and is_eyewear(tokens, nouns):
        mention.name, mention.least = f"{full.removesuffix(texts[-1])}{texts[-1].lower()}", 1
        mention.count = None
    elif len(texts) > 1 and not sides and (whole := whole_of(texts)):
        mention.name = singular(texts[-1])
        mention.owner = Mention(whole, known=mention.owner is None)


def _is_shown(tokens: Sequence[Token], nouns: Sequence[int]) -> bool:
    """Return whether a picture is on a thing named before it: "a cover with an illustration of"."""
    before, start = tokens[: nouns[0]], nouns[-1] + 1
    link = next((t for t in reversed(before) if t.tag not in ("article", "adjective")), None)
    shown = link is not None and (link.lower in ("with", "and") or link.tag in ("verb", "ing"))
    return shown and says(tokens, start, "of") and any(t.tag == "noun" for t in before)


def _is_backdrop(mention: Mention) -> bool:
    """Return whether a background is something to be seen: "a white background"."""
    return mention.name == "background" and bool(mention.attributes)
