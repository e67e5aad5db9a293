"""From tagged words to mentions.

A noun phrase is determiners and numbers, adjectives, and a run of nouns whose last one is the head;
the whole run is the label, so "fire hydrant" and "soccer player" need no list. "A group of people"
is people, at least three; "a man's hat" is a hat that a man has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from scenewright.agents.parsers import tagging as lexicon
from scenewright.agents.parsers.mentions import MOST_INSTANCES, Item, Mention, place_within
from scenewright.agents.parsers.naming import (
    attributes_of,
    cased,
    is_counted,
    is_degree,
    is_eyewear,
    is_proper,
    is_proper_adjective,
    joined_names,
    misspelt,
    whole_of,
)
from scenewright.agents.parsers.spelling import parts_of_speech
from scenewright.agents.parsers.splitting import spanning
from scenewright.agents.parsers.tagging import (
    EXACT_GROUPS,
    GROUPS,
    ORDINALS,
    SIDES,
    VAGUE,
    Tag,
    Token,
    is_animate,
    is_person,
    peek,
    words,
)
from scenewright.core.inflection import IRREGULAR_NOUNS, is_plural, singular
from scenewright.core.inflection import plural as plural_of

_DEEPEST = 8
"""Deepest nesting of owners and groups: "the man's dog's pair of ears"."""
_DRINKS = words("nouns", "drinking_vessels")
_IGNORED_SINGLE = words("nouns", "ignored_single")
_IGNORED_HEADS = words("nouns", "ignored_heads")
_ROUND_NUMBERS = words("numbers", "round")
"""Numbers that "a" may stand before: "a dozen"."""
_HUNDREDS = words("numbers", "hundreds")
_NUMBERED = words("nouns", "numbered")
"""Nouns that a number goes on with: "room two"."""
_PORTIONS = words("groups", "portions")
_ARRANGED = words("groups", "arranged")
_ROLES = lexicon.PEOPLE - words("nouns", "generic_people")
_EYEWEAR = frozenset({"glasses"})
_COLORED = frozenset({"color", "colour", "colored", "coloured"})
_DEFINITE = frozenset({"the", "this", "that", "these", "those", "each", "every", "both", "all"})
_DETERMINERS: frozenset[Tag] = frozenset({"article", "determiner", "possessive", "number"})
_YEAR = re.compile(r"(?:1[0-9]|20|21)[0-9][0-9]", re.ASCII)


def items(tokens: Sequence[Token]) -> list[Item]:
    """Return the sentence with every noun phrase as one mention.

    A noun for a text and the text are one token, the text: "the words 'KEEP OFF'".
    """
    found: list[Item] = []
    phrases = _Phrases(tokens)
    at = 0
    while at < len(tokens):
        first = tokens[at]
        read = phrases.read(at)
        if read is None:
            found.append(first)
            at += 1
            owner, side, after = (peek(tokens, at + step) for step in range(3))
            sided = owner.tag == "possessive" and side.lower in ("left", "right")
            sided = sided and after.tag not in ("noun", "adjective")
            if sided and first.lower in ("to", "on", "at"):
                # "To its left".
                said = f"{first.lower} the {side.lower} of"
                text = spanning([first.text, owner.text, side.text], 0, 3, said)
                found[-1] = Token(text, "preposition")
                found.append(Mention("", pronoun=owner.lower, place=owner.place))
                at += 2
            continue
        mention, at = read
        mention.place = (first.place[0], tokens[at - 1].place[1])
        unnamed = mention.ignored or (mention.part == "one" and mention.attributes)
        if unnamed and mention.name != "one" and phrases.says(at, "one", "ones"):
            _name_again(mention, found)
            at += 1
        elif mention.name == "one" and mention.attributes:
            _name_again(mention, found)
        step = at
        while phrases.says(step, ",", "of", "reading", "saying", "that", "says", "reads", "which"):
            step += 1
        if mention.is_writing and phrases.tag(step) == "quote":
            at = step
            continue
        found.append(mention)
    return found


def _name_again(mention: Mention, found: Sequence[Item]) -> None:
    """Name "the white one" after what the sentence has called brown."""
    keys = {key for key, _ in mention.attributes}
    for item in reversed(found):
        if not isinstance(item, Mention) or item.ignored or not item.name:
            continue
        if mention.known and (item.number or item.least) > 1:
            break
        others = {key for key, said in item.attributes if (key, said) not in mention.attributes}
        if keys & others:
            mention.name, mention.ignored, mention.part = item.name, False, ""
            mention.new = mention.again = True
            return
    mention.part = f"{mention.number} of" if mention.number else "one"
    mention.name, mention.ignored = "", False


class _Phrases:
    """Reader of the noun phrases of a sentence."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens

    def tag(self, at: int) -> Tag:
        """Return the tag at ``at``; ``end`` after the last word."""
        return peek(self.tokens, at).tag

    def says(self, at: int, *words: str) -> bool:
        """Return whether one of ``words`` is at ``at``."""
        return at < len(self.tokens) and self.tokens[at].lower in words

    def read(self, start: int, depth: int = 0) -> tuple[Mention, int] | None:
        """Return the noun phrase at ``start`` and the place after it; None for other words."""
        tokens = self.tokens
        first = peek(tokens, start)
        if first.tag == "pronoun":
            own = first.lower in lexicon.OWN_PRONOUNS
            return Mention("", pronoun=first.lower, ignored=own), start + 1
        mention = Mention("", bare=True)
        at = after_determiners = self.determiners(start, mention)
        words, at = self.modifiers(at)
        if at > start and self.tag(at) == "quote":
            # "A wooden 'No Entry' sign".
            more, after = self.modifiers(at + 1)
            if self.tag(after) == "noun":
                mention.text, words, at = tokens[at].text, [*words, *more], after
        named = self.tag(at) == "number" and self.tag(at + 1) == "noun"
        named = named and not is_counted(tokens[at + 1]) and (mention.new or mention.bare)
        if words and mention.number is None and named:
            # "A blue 1977 Ford".
            mention.prefix, at = tokens[at].text, at + 1
        nouns_from = at
        while self.is_of_name(at, nouns_from):
            at += 1
        if at == nouns_from:
            return self.headless(start, after_determiners, mention)
        nouns = list(range(nouns_from, at))
        self.drop_compound_number(nouns, mention)
        deeper = depth < _DEEPEST
        if deeper and (of := self.group(at, words, mention, depth)) is not None:
            return of
        at = joined_names(tokens, nouns)
        self.name(nouns, words, mention)
        word = peek(tokens, at).lower
        members = word == "of" and mention.animate and self.tag(at + 1) == "number"
        if members and self.tag(at + 2) not in ("noun", "adjective"):
            # "A family of four".
            mention.name = f"{mention.name} of {tokens[at + 1].lower}"
            return mention, at + 2
        covers = word in lexicon.COVERS and self.tag(at) in ("participle", "adjective", "verb")
        covers = deeper and covers and self.tag(at + 1) in ("noun", "adjective")
        covered = self.read(at + 1, depth + 1) if covers else None
        if covered is not None and not covered[0].ignored:
            # "A snow covered hill".
            head = covered[0]
            head.least = max(head.least, mention.least)
            head.take_article(mention)
            if word == "shaped":
                head.attributes.insert(0, ("shape", mention.name))
            else:
                plain = Mention(mention.name, bare=True, attributes=mention.attributes)
                head.cover = (f"{word} with", plain)
            return covered
        if deeper and word == "of":
            # "Art of a dog, art of a cat": they are two.
            apart = self.says(at + 1, "a", "an") or (mention.bare and not mention.is_part)
            mention.new = mention.new or apart
            return mention, self.contents(at, mention, depth)
        if self.tag(at) != "owner":
            return mention, at
        owned = self.read(at + 1, depth + 1) if deeper else None
        if owned is None or owned[0].pronoun:
            return mention, at + 1
        head = owned[0]
        if head.name and self.is_kind(nouns, mention, head):
            # "A train conductor's hat" names a hat, and no conductor.
            mark = "'" if tokens[at - 1].lower.endswith("s") else "'s"
            head.name = f"{' '.join(tokens[n].lower for n in nouns)}{mark} {head.name}"
            head.attributes = [*mention.attributes, *head.attributes]
            head.take_article(mention)
            return owned
        deepest = head
        while deepest.owner is not None:
            deepest = deepest.owner
        if mention.part:
            # "One of the man's fingers" is one finger.
            head.part = mention.part
            head.take_number(mention)
            mention.part = ""
            mention.take_number(Mention(""))
            mention.new, mention.known = False, True
        deepest.owner = mention
        head.known, head.new, head.bare = True, False, False
        return owned

    def group(
        self, at: int, words: Sequence[str], mention: Mention, depth: int
    ) -> tuple[Mention, int] | None:
        """Return the things of a group, "of" being at ``at``: "a pair of shoes"."""
        word = self.tokens[at - 1].lower
        named = self.says(at, "of") and lexicon.is_group(word)
        inner = self.read(at + 1, depth + 1) if named else None
        if inner is None or inner[0].pronoun:
            return None
        of, plural = inner[0], inner[0].least > 1
        if mention.number is None and singular(word) != word:
            mention.least, mention.count = 2, "open"
        group = word if word in GROUPS else singular(word)
        promised = GROUPS[group]
        if of.number is None:
            of.least = max(of.least, promised if plural or group in EXACT_GROUPS else 1)
            if promised > 2 and plural:
                of.count = "open"
        if group in EXACT_GROUPS:
            # A pair of scissors is one.
            one = of.name in _EYEWEAR or (is_plural(of.name) and not is_animate(of.name))
            each = 1 if one and group == "pair" else promised
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
            of.take_number(mention)
        elif group in _ARRANGED and of.count == "exact":
            of.told = True
        of.take_article(mention)
        # "A migrating herd of sauropods": they migrate. "A square slice of pizza": the pizza is.
        own = [word for word in words if word.endswith("ing") or promised == 1]
        of.attributes = attributes_of(own) + of.attributes
        return inner

    def is_of_name(self, at: int, start: int) -> bool:
        """Return whether the word at ``at`` goes on with the name that begins at ``start``.

        Numbers within a name are part of it ("Boeing 747", "size 10 shoe"), as are capitalised
        adjectives before capitalised nouns ("Golden Gate Bridge").
        """
        if at >= len(self.tokens) or self.tag(at) == "noun":
            return at < len(self.tokens)
        text = self.tokens[at].text
        before = self.tokens[at - 1].text if at > start else ""
        if self.tag(at) == "number" and before:
            if singular(before.lower()) != before.lower() and not before[:1].isupper():
                return False
            digits = text[:1].isdigit() or before.lower() in _NUMBERED
            return digits and not is_counted(peek(self.tokens, at + 1))
        titled = before.endswith(".") and text[:1].isupper()
        return titled or is_proper_adjective(self.tokens, at)

    def drop_compound_number(self, nouns: Sequence[int], mention: Mention) -> None:
        """Make a number that counts nothing part of the name: "two lane road", "2019 Toyota"."""
        before = peek(self.tokens, nouns[0] - 1)
        if mention.number is None or mention.prefix or before.tag != "number":
            return
        head = self.tokens[nouns[-1]].lower
        one = singular(head) == head and IRREGULAR_NOUNS.get(head) != head
        named = len(nouns) > 1 or _YEAR.fullmatch(before.text) is not None
        if one and mention.number > 1 and named and not lexicon.is_group(head):
            mention.prefix = before.text
            mention.take_number(Mention(""))

    def is_kind(self, nouns: Sequence[int], owner: Mention, owned: Mention) -> bool:
        """Return whether an owner says only of which kind its thing is: "chef's hat"."""
        last = self.tokens[nouns[-1]]
        head, one = last.lower, singular(last.lower)
        if owned.owner is not None or owner.known or owned.animate:
            return False
        articles = any(token.tag == "article" for token in self.tokens[: nouns[0]])
        if owner.new and not parts_of_speech(head):
            # "A rubik's cube".
            return True
        if owner.bare and articles and one == head and last.text.islower():
            # Without "a" it names no tiger: "a shield with tiger's heads".
            return True
        if owned.is_part or owner.number is not None or last.text[:1].isupper():
            return False
        if one != head or head in ("children", "men", "women", "people"):
            return owner.bare or owner.new or is_person(head)
        # Nouns of no list name trades by their endings: "conductor".
        trade = head.endswith(("or", "er", "ist", "man", "ian")) and not is_animate(head)
        role = one in _ROLES
        return (owned.is_clothes and (role or trade)) or (owner.new and role)

    def contents(self, at: int, mention: Mention, depth: int) -> int:
        """Read what a thing holds, "of" being at ``at``; return the place after it.

        What is said after "a cup of coffee" is said of the cup. After persons and animals it is
        said of them: "a basket of kittens sleeping".
        """
        predicate = place_within(mention.name)
        read = self.content(at + 1, depth) if predicate else None
        if read is None or read[0].animate:
            return at
        held, end = [read[0]], read[1]
        mention.contents = (predicate, held)
        if singular(mention.head) in _DRINKS:
            return end
        step = end
        listed: list[Mention] = []
        while self.says(step, ",", "and"):
            closes = self.says(step, "and") or self.says(step + 1, "and")
            step += 1 + (closes and not self.says(step, "and"))
            read = self.content(step, depth)
            if read is None or read[0].bare != held[0].bare:
                return end
            listed.append(read[0])
            step = read[1]
            if closes:
                goes_on = self.tag(step) in ("be", "verb", "have", "owner")
                if goes_on or read[0].contents or read[0].animate:
                    return end
                held += listed
                return step
        return end

    def content(self, at: int, depth: int) -> tuple[Mention, int] | None:
        """Return the noun phrase at ``at`` if it names what may be in a thing."""
        read = self.read(at, depth + 1)
        if read is None or not read[0].name or read[0].ignored or read[0].owner is not None:
            return None
        return None if read[0].is_writing else read

    def determiners(self, at: int, mention: Mention) -> int:
        """Read the determiners from ``at``; return the place after them."""
        while self.tag(at) in _DETERMINERS:
            token = self.tokens[at]
            word = token.lower
            # "A two lane road".
            named = at > 0 and self.says(at - 1, "a", "an") and word not in _ROUND_NUMBERS
            named = named and self.tag(at + 1) in ("noun", "adjective") and mention.count is None
            again = mention.number is not None and word not in _ROUND_NUMBERS
            if token.tag == "number" and (again or named):
                mention.prefix = token.text
                return at + 1
            mention.bare = False
            if token.tag == "number":
                _count(mention, word)
            elif token.tag == "possessive":
                mention.known = True
                mention.owner = Mention("", pronoun=word)
            elif word in _DEFINITE:
                mention.known = True
                mention.least = max(mention.least, VAGUE.get(word, 1))
                mention.each = word in ("each", "every")
                if word == "both":
                    mention.number, mention.count = 2, "exact"
            elif word in ("a", "an", "another"):
                mention.new = True
            elif word == "other" and mention.known:
                mention.part = word
            elif word in lexicon.OR_SO or word in lexicon.AT_LEAST:
                mention.count = "least"
            elif word in lexicon.MORE_THAN:
                mention.count, mention.least = "least", 2
            elif word in lexicon.AT_MOST:
                mention.count = "open"
            elif word in VAGUE:
                mention.least = max(mention.least, VAGUE[word])
                mention.count = "least" if word in lexicon.FEW else "open"
            at += 1
            counts = self.tag(at + 1) == "number" and self.tag(at + 2) in ("noun", "adjective")
            if token.tag == "number" and counts and self.says(at, "or", "to"):
                # "Three or four ducks".
                mention.count, at = "least", at + 2
            if self.says(at, "of") and token.tag in ("number", "determiner"):
                at += 1
                # "One of the dogs" is one of those named before.
                definite = self.tag(at) in ("possessive", "pronoun", "relative")
                definite = definite or self.says(at, "the", "these", "those")
                exact = mention.number is not None and mention.count == "exact"
                if definite and self.says(at - 2, "each", "both", "all"):
                    mention.part = "all"
                elif definite and exact:
                    mention.part = "one" if mention.number == 1 else f"{mention.number} of"
                else:
                    mention.part = ""
        return at

    def modifiers(self, at: int) -> tuple[list[str], int]:
        """Return the adjectives from ``at``, joined by "and" and commas, and their end."""
        words: list[str] = []
        while at < len(self.tokens):
            token = self.tokens[at]
            if token.tag == "adjective":
                if is_proper_adjective(self.tokens, at):
                    break
                words.append(token.lower)
            elif token.tag == "adverb":
                if not self.leads_to_adjective(at + 1):
                    break
                if is_degree(token.lower):
                    words.append(token.lower)
            elif token.tag in ("and", "comma") and words and token.lower != "nor":
                step = self.after_join(at)
                if not self.leads_to_adjective(step):
                    break
                words.append("and" if token.tag == "and" or step > at + 1 else ",")
                at = step
                continue
            else:
                break
            at += 1
        return words, at

    def after_join(self, at: int) -> int:
        """Return the place after "and" and commas."""
        while self.tag(at) in ("and", "comma"):
            at += 1
        return at

    def leads_to_adjective(self, at: int) -> bool:
        """Return whether an adjective is at ``at``, adverbs aside."""
        while self.tag(at) == "adverb":
            at += 1
        return self.tag(at) == "adjective"

    def headless(self, start: int, at: int, mention: Mention) -> tuple[Mention, int] | None:
        """Return a mention for a noun phrase without a noun, such as "two" or "the other".

        "the red one" is none.
        """
        if at == start:
            return None
        if mention.part and self.tag(at) in ("pronoun", "relative"):
            # "One of them".
            return mention, at + 1
        words, after = self.modifiers(at)
        last = self.tokens[at - 1]
        counted = last.tag == "number" and bool(mention.number) and not mention.known
        if words:
            mention.attributes = attributes_of(words)
            joined = self.after_join(after)
            other = None
            if joined > after and self.tag(joined) in ("article", "number"):
                other = self.read(joined, _DEEPEST)
            if other is not None and not other[0].ignored and other[0].attributes and other[0].name:
                # "A brown and a white dog" are two.
                mention.name, mention.new = other[0].name, not mention.known
            elif last.lower in ("one", "other", "another"):
                # "One red and the other blue".
                mention.part = last.lower
            elif counted:
                # "Four apples, two red and two green".
                mention.part = f"{mention.number} of"
            elif words[-1] in ORDINALS and mention.known:
                mention.part, mention.attributes = ORDINALS[words[-1]], []
                after += self.says(after, "one")
            elif words[-1].endswith("est") and lexicon.graded(words[-1]) and self.says(after, "of"):
                # "The largest of which".
                mention.part = "one"
                after += 1 + self.says(after + 1, "which", "them", "whom")
            else:
                # An adjective used as a noun: "a blonde", "the dark".
                mention.name, mention.ignored = words[-1], True
            return mention, after
        if last.lower in ("other", "another", "others", "rest", "one"):
            mention.part = last.lower
            return mention, at + (mention.part != "one" and self.says(at, "one"))
        if counted:
            mention.part = f"{mention.number} of"
        elif last.lower in ("both", "two", "each", "all") and mention.known:
            mention.part = "all"
        else:
            mention.ignored = True
        return mention, at

    def name(self, nouns: Sequence[int], words: Sequence[str], mention: Mention) -> None:
        """Take the label from ``nouns``, and attributes from the adjectives before them."""
        texts = [cased(self.tokens, at) for at in nouns]
        if mention.known and [text.lower() for text in texts] == ["others"]:
            # "The others with blue hats".
            mention.part = "others"
            return
        first = [text for text in texts[:-1] if text.lower() not in _COLORED and not misspelt(text)]
        texts = [*first, texts[-1]]
        last = texts[-1].lower()
        counted = bool(first) and first[0] in EXACT_GROUPS and singular(texts[-1]) != texts[-1]
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
        mention.name = full if is_proper(self.tokens, nouns) else singular(full)
        head = mention.head
        several = mention.name != full or last in ("people", "cattle", "men", "women")
        odd = several and mention.new and mention.count is None and mention.number is None
        if odd and mention.name != "people":
            # "A skis": what "a" says is one.
            mention.name = full
        elif several and not mention.part:
            mention.least = max(mention.least, 2)
            mention.count = mention.count or "open"
        if mention.part == "other" and several:
            mention.part = "others"
        plain = head in lexicon.IGNORED and len(texts) == 1 and " " not in texts[0]
        plain = plain and not (head in _IGNORED_SINGLE and mention.least > 1)
        plain = plain and not (head in lexicon.DEPICTIONS and self.is_shown(nouns))
        # "A white background" is to be seen.
        backdrop = mention.name == "background" and bool(mention.attributes)
        mention.ignored = head in _IGNORED_HEADS or (plain and not backdrop)
        if last == "glasses" and mention.least == 2 and is_eyewear(self.tokens, nouns):
            mention.name, mention.least = f"{full.removesuffix(texts[-1])}{last}", 1
            mention.count = None
        elif len(texts) > 1 and not sides and (whole := whole_of(texts)):
            mention.name = singular(texts[-1])
            mention.owner = Mention(whole, known=mention.owner is None)

    def is_shown(self, nouns: Sequence[int]) -> bool:
        """Return whether a picture is on a thing named before it: "a cover with a drawing of"."""
        before = self.tokens[: nouns[0]]
        link = next((t for t in reversed(before) if t.tag not in ("article", "adjective")), None)
        shown = link is not None and (link.lower in ("with", "and") or link.tag in ("verb", "ing"))
        named = any(token.tag == "noun" for token in before)
        return shown and named and self.says(nouns[-1] + 1, "of")


def _count(mention: Mention, word: str) -> None:
    """Take the number ``word`` into ``mention``."""
    if word in _HUNDREDS:
        mention.count, mention.least = "open", max(mention.least, 3)
        return
    digits = word.replace(",", "")
    # Longer digit strings are not counts, and converting them is slow.
    short = digits.isdecimal() and len(digits) < 10
    number = max(1, lexicon.NUMBERS.get(word) or (int(digits) if short else MOST_INSTANCES))
    if mention.number is not None and word in _ROUND_NUMBERS:
        # "Two dozen".
        number *= mention.number
    more = mention.count == "least" and mention.least == 2
    mention.number = number
    mention.count = mention.count or "exact"
    mention.least = min(number + more, MOST_INSTANCES)
    mention.new = not mention.known
