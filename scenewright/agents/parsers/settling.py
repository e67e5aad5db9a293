"""From the words of a sentence to tagged words: tokens, and the part that each plays there.

One pass from left to right. A word that is ambiguous by the lexicon (an ``-ing`` form, a
participle, "plays") is settled by the tag before it and by what the word after it can be.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from scenewright.agents.parsers.naming import is_done_by, name_of
from scenewright.agents.parsers.spelling import parts_of_speech
from scenewright.agents.parsers.splitting import BREAK, capitals, spanning
from scenewright.agents.parsers.tagging import (
    ACTIVITIES,
    ADJECTIVES,
    ARTICLES,
    AUXILIARY_PHRASES,
    CLOTHES,
    COMPOUNDS,
    EMPTY,
    FEW,
    GROUPS,
    MADE_OF,
    NUMBERS,
    OR_SO,
    PARTICLES,
    PARTS,
    PLACES,
    PLANTS,
    PLURAL_MODIFIERS,
    POSTURES,
    PREPOSITIONS,
    QUANTIFIERS,
    SIDE_NAMES,
    SIDES,
    THING_PARTS,
    VAGUE,
    Rough,
    Tag,
    Token,
    graded,
    is_animate,
    is_group,
    rough,
    words,
)
from scenewright.core.inflection import IRREGULAR_VERBS, singular, verb_base

_LONGEST = max(len(p) for group in (PREPOSITIONS, PLACES, COMPOUNDS) for p in group)

_OPENS_NOUN = frozenset({"article", "possessive", "number", "determiner", "adjective", "owner"})
_DIRECTED = ("hill", "stairs", "stream")
"""Endings of adverbs that lead to a thing too: "skating downhill a dune"."""
_STARTS_NOUN_PHRASE = frozenset({"article", "possessive", "number", "determiner", "pronoun"})
_ADVERBS = words("closed", "adverbs")
_BEFORE_NOUNS = words("adjectives", "adverbs_too")
_NOUNLIKE = frozenset({"noun", "either", "weak"})


def tag(words: Sequence[str], said: dict[str, str]) -> list[Token]:
    """Tag the words of one sentence, with phrases joined and owners split off."""
    tokens: list[Token] = []
    pieces = _pieces(words, said)
    before: Tag | None = None
    for at, (text, known) in enumerate(pieces):
        if known is None:
            known = _settle(text.lower(), pieces, at, before, tokens)
        tokens.append(Token(text, known))
        if known != "adverb" or before is None:
            before = "comma" if text == BREAK else known
    return tokens


def _pieces(words: Sequence[str], said: dict[str, str]) -> list[tuple[str, Tag | None]]:
    found: list[tuple[str, Tag | None]] = []
    lower = [word.lower() for word in words]
    at = 0
    while at < len(words):
        word = words[at]
        if word in said:
            found.append((spanning(words, at, 1, said[word]), "quote"))
            at += 1
            continue
        if word in (",", BREAK):
            found.append((word, "comma" if word == "," else "clause"))
            at += 1
            continue
        if size := capitals(words, at):
            found.append((spanning(words, at, size), "quote"))
            at += size
            continue
        if size := _distance(lower, at):
            found.append((spanning(words, at, size), "adverb"))
            at += size
            continue
        pair = _is_bodied(lower, at) or _is_phrasal(lower, at) or is_done_by(lower, at)
        size = 3 if _is_measure(lower, at) else 2 if pair else 0
        if size:
            found.append((spanning(words, at, size), "adjective"))
            at += size
            continue
        size, known = _phrase_at(lower, at)
        if named := name_of(words, at):
            size, known = named, "noun"
        if known is not None:
            found.append((spanning(words, at, size), known))
            at += size
            continue
        if lower[at] in ("'s", "’s", "'", "’") and found and found[-1][1] in (None, "noun"):
            # Captions that a tokenizer has split: "zebra 's head".
            before = found[-1][0]
            if rough(before.lower()) in ("pronoun", "there", "relative"):
                found.append((spanning(words, at, 1, "is"), "be"))
            else:
                found[-1] = (before, "noun")
                found.append((spanning(words, at, 1, "'s"), "owner"))
            at += 1
            continue
        if lower[at] in ("it's", "it’s") and _is_its(lower, at):
            found.append((spanning(words, at, 1, "its"), "possessive"))
            at += 1
            continue
        owner = re.fullmatch(r"(.+?)['’]s|(.+s)['’]", word)
        if owner and word.lower() not in ("it's", "there's", "he's", "she's", "that's", "let's"):
            found += [
                (spanning(words, at, 1, owner[1] or owner[2]), "noun"),
                (spanning(words, at, 1, "'s"), "owner"),
            ]
        elif owner and owner[1]:
            found += [
                (spanning(words, at, 1, owner[1]), None),
                (spanning(words, at, 1, "is"), "be"),
            ]
        else:
            found.append((word, None))
        at += 1
    return found


def _is_its(lower: Sequence[str], at: int) -> bool:
    """Return whether "it's" is misspelt for "its": "on it's side"."""
    before, after = (rough(word) for word in (lower[at - 1], lower[min(at + 1, len(lower) - 1)]))
    return at > 0 and before in ("preposition", "ing", "verb") and after in ("noun", "either")


def _is_purpose(lower: Sequence[str], at: int) -> bool:
    """Return whether a verb and its object follow "to": "swooping down to catch a mouse"."""
    if at + 1 >= len(lower) or rough(lower[at]) not in ("noun", "verb", "weak"):
        return False
    return _is_deed(lower[at], rough(lower[at + 1])) and singular(lower[at]) == lower[at]


def _is_base(word: str) -> bool:
    """Return whether a word can be the base form of a verb: "going to dive"."""
    parts = parts_of_speech(word)
    return (
        verb_base(word) == word or ("VERB" in parts and "NOUN" not in parts) or rough(word) == "be"
    )


_UNITS = words("nouns", "units")


_APART = frozenset({"in", "above", "below", "behind", "away", "apart", "from", "off", "ahead"})


def _distance(lower: Sequence[str], at: int) -> int:
    """Return how many words say how far something is: "a few feet" before "in front of"."""
    size = int(lower[at] == "a")
    if at + size + 2 >= len(lower) or not (
        lower[at + size] in FEW or (not size and _is_number(lower[at : at + 1]))
    ):
        return 0
    return size + 2 if lower[at + size + 1] in _UNITS and lower[at + size + 2] in _APART else 0


def _is_measure(lower: Sequence[str], at: int) -> bool:
    """Return whether a measure begins at ``at``: "50 foot tall"."""
    if at + 2 >= len(lower) or not _is_number(lower[at : at + 1]):
        return False
    return lower[at + 1] in _UNITS and lower[at + 2] in ADJECTIVES


def _is_bodied(lower: Sequence[str], at: int) -> bool:
    """Return whether an adjective and what something has stand as one: "a short haired dog"."""
    if at + 2 >= len(lower):
        return False
    word = lower[at + 1]
    if lower[at] in _MAKING:
        return rough(word) == "participle" and rough(lower[at + 2]) in (*_NOUNLIKE, "adjective")
    if rough(lower[at]) not in ("adjective", "either"):
        return False
    stem = singular(word.removesuffix("ed"))
    if lower[at] in EMPTY or rough(lower[at + 2]) not in _NOUNLIKE:
        return False
    has = any(part in PARTS | CLOTHES | THING_PARTS for part in (stem, f"{stem}e"))
    return word in _BODIED or (word.endswith("ed") and has)


def _is_phrasal(lower: Sequence[str], at: int) -> bool:
    """Return whether a participle and its particle stand before a noun: "a lit up bus"."""
    if not at or at + 2 >= len(lower) or lower[at + 1] not in ("up", "out", "off", "down"):
        return False
    opens = rough(lower[at - 1]) in ("article", "adjective", "either", "possessive", "number")
    forms = rough(lower[at]) in ("participle", "adjective") and lower[at] not in ("left", "right")
    return opens and forms and rough(lower[at + 2]) in ("noun", "either", "weak")


_MAKING = frozenset({"hand", "home", "half", "machine"})
"""Before a participle they are one adjective with it: "a hand painted sign"."""
_BODIED = words("adjectives", "bodied")


def _is_number(word: Sequence[str]) -> bool:
    return bool(word) and (word[0] in NUMBERS or word[0][:1].isdigit())


def _phrase_at(lower: Sequence[str], at: int) -> tuple[int, Tag | None]:
    for size in range(min(_LONGEST, len(lower) - at), 1, -1):
        phrase = tuple(lower[at : at + size])
        follows = lower[at + size] if at + size < len(lower) else "."
        if phrase in AUXILIARY_PHRASES and (phrase[-1] != "to" or _is_base(follows)):
            return size, "auxiliary"
        if " ".join(phrase) in QUANTIFIERS and _is_number(lower[at + size : at + size + 1]):
            return size, "determiner"
        if " ".join(phrase) in OR_SO and at and _is_number(lower[at - 1 : at]):
            return size, "determiner"
        if phrase in ACTIVITIES and at and rough(lower[at - 1]) in ("noun", "be"):
            # "A person roller skating", but "a blue kite flying" and "dog walking".
            return size, "ing"
        if phrase == ("as", "well", "as"):
            return size, "and"
        if phrase[-1] == "to" and _is_purpose(lower, at + size):
            continue
        if phrase[-1] == "at" and size == 2 and follows not in ARTICLES:
            # "Up at the sky", but "an arm up at shoulder level".
            continue
        if phrase in PREPOSITIONS:
            return size + _side_after(lower, at + size, phrase), "preposition"
        # "On the left" begins "on the left chair".
        if (
            phrase in PLACES
            and follows != "of"
            and not (phrase[-1] in SIDES and follows[0].isalnum() and rough(follows) in _NOUNLIKE)
        ):
            return size, "place"
        if phrase in COMPOUNDS or (*phrase[:-1], singular(phrase[-1])) in COMPOUNDS:
            return size, "noun"
    if (lower[at],) in PREPOSITIONS and (side := _side_after(lower, at + 1, (lower[at],))):
        return 1 + side, "preposition"
    if at + 1 < len(lower) and lower[at + 1] == "than" and graded(lower[at]):
        return 2, "preposition"
    return 1, None


_BEFORE_SIDE = words("prepositions", "before_sides")
_NEEDS_ARTICLE = frozenset({"inside", "outside", "foot", "tip", "base"})
_NO_SIDE = frozenset({"of", "for", "with", "without", "about", "like", "as"})


def _side_after(lower: Sequence[str], at: int, preposition: Sequence[str]) -> int:
    """Return how many words make a side of something: "the left side of" after "attached to"."""
    if preposition[-1] in _NO_SIDE:
        return 0
    step = at
    while step < len(lower) and step < at + 3 and lower[step] in _BEFORE_SIDE:
        step += 1
    # "On the back of" has a word that is both.
    for place in (step, step - 1):
        bare = place == at and place < len(lower) and lower[place] in _NEEDS_ARTICLE
        if at <= place and tuple(lower[place + 1 : place + 2]) == ("of",) and not bare:
            return place + 2 - at if lower[place] in SIDE_NAMES else 0
    return 0


def _next_rough(pieces: Sequence[tuple[str, Tag | None]], at: int) -> str:
    """Return the tag of the next word that is not an adverb; ``end`` after the last."""
    for text, known in pieces[at + 1 :]:
        kind: str = known or rough(text.lower())
        if kind != "adverb":
            return kind
    return "end"


def _settle(
    word: str,
    pieces: Sequence[tuple[str, Tag | None]],
    at: int,
    before: Tag | None,
    tokens: Sequence[Token],
) -> Tag:
    kind: Rough = rough(word)
    follows = _next_rough(pieces, at)
    if word in _BEFORE_NOUNS and before in _OPENS_NOUN and follows in (*_NOUNLIKE, "adjective"):
        return "adjective"
    if kind == "ing":
        if before == "adjective" and len(tokens) > 1 and _is_clad(tokens):
            return "ing"
        if _tells_apart(pieces, at, tokens):
            return "ing"
        if _is_among_adjectives(pieces, at, before, tokens):
            return "adjective"
        return _settle_ing(word, before, follows, tokens[-1].lower if tokens else "")
    if kind == "participle":
        return _settle_participle(word, before, follows)
    if word == "half" and follows in ("participle", "adjective"):
        # "One of them half eaten", "a half empty glass".
        return "adverb"
    if word == "leaves" and before == "noun" and tokens[-1].lower in PLANTS:
        return "noun"
    if kind in ("verb", "weak"):
        return _settle_verb(word, kind, before, follows, tokens)
    if (
        before == "auxiliary"
        and kind in ("adjective", "either", "noun")
        and _is_deed(word, follows)
    ):
        return "verb"
    if kind == "either":
        if is_animate(word) and before == "article" and _is_third(pieces, at + 1):
            return "noun"
        if follows == "and" and (joined := _joined_either(pieces, at, before)) is not None:
            return joined
        if follows == "comma" and _is_listed_adjective(pieces, at):
            return "adjective"
        if follows == "verb" and before in ("have", "preposition", "verb", "ing"):
            # "A box that has silver sparkles".
            return "adjective"
        if follows == "participle" and before in _OPENS_NOUN:
            return "adjective" if _has_noun_after_participle(pieces, at) else "noun"
        if before == "and" and follows == "end" and _ends_colors(word, tokens):
            return "adjective"
        return _settle_either(word, before, follows, tokens)
    if kind == "there":
        return "there" if follows in ("be", "auxiliary") else "adverb"
    if word in PARTICLES and kind in ("adverb", "preposition"):
        return _settle_particle(word, before, follows)
    if word == "her":
        return "possessive" if follows not in ("preposition", "end", "comma", "and") else "pronoun"
    if word == "both" and at + 1 < len(pieces) and pieces[at + 1][0].lower() in ("a", "an"):
        # "Both a cat and a dog".
        return "adverb"
    if word in ("that", "this", "these", "those", "all", "both", "some", "each", "one"):
        if word == "that" and before in ("noun", "pronoun"):
            return "relative"
        return "number" if word == "one" else "determiner"
    if word == "like":
        return "preposition" if before not in ("auxiliary", "pronoun") else "verb"
    if word == "to" and follows == "noun" and at + 1 < len(pieces):
        direct = pieces[at + 1][0].lower()
        if _is_deed(direct, _next_rough(pieces, at + 1)) and singular(direct) == direct:
            # "To catch a mouse".
            return "auxiliary"
    if word == "to" and follows in ("verb", "weak") and before != "verb":
        direct = pieces[at + 1][0].lower()
        return "auxiliary" if verb_base(direct) == direct else "preposition"
    if word.endswith("ing") and kind == "noun" and verb_base(word) is not None:
        doing = before == "noun" and is_animate(tokens[-1].text)
        return "ing" if doing or before == "be" else "noun"
    if kind == "noun" and before == "auxiliary" and follows in _STARTS_NOUN_PHRASE:
        return "verb"
    if kind == "noun" and before in _OPENS_NOUN and _is_first_adjective(word, pieces, at):
        return "adjective"
    if kind == "noun" and before == "noun" and _is_unlisted_verb(word, pieces, at, tokens):
        return "verb"
    plain = kind == "adjective" and ADJECTIVES.get(word) != "color" and before == "adjective"
    if plain and follows in _AFTER_NAME and not word.endswith(("ed", "ing")):
        # "In a grassy plain".
        return "noun" if "NOUN" in parts_of_speech(word) else "adjective"
    if kind == "adverb" and before == "article" and follows in _AFTER_NAME:
        # "Beside a well".
        return "noun" if "NOUN" in parts_of_speech(word) else "adverb"
    if kind == "preposition" and word in _ADVERBS and follows == "preposition":
        # "Eating outside from a plate".
        return "adverb"
    if kind == "adverb" and word.endswith(_DIRECTED) and before == "ing":
        return "preposition" if follows in _STARTS_NOUN_PHRASE else "adverb"
    return "noun" if kind in ("either", "weak") else cast(Tag, kind)


def _joined_either(
    pieces: Sequence[tuple[str, Tag | None]], at: int, before: Tag | None
) -> Tag | None:
    """Return what a word before "and" is: "silver and gold rings", but "a square and a circle"."""
    after = next((text.lower() for text, known in pieces[at + 2 :] if known is None), "")
    kind = _next_rough(pieces, at + 1)
    if kind in ("adjective", "either"):
        same = ADJECTIVES.get(after) == ADJECTIVES.get(pieces[at][0].lower())
        return "adjective" if same or before == "be" else "noun"
    ends = before == "adjective" or (before == "possessive" and after in ARTICLES)
    return "noun" if ends and kind in _STARTS_NOUN_PHRASE else None


def _is_deed(word: str, follows: str) -> bool:
    """Return whether a word after "trying to" is a verb: "open a coconut"."""
    return "VERB" in parts_of_speech(word) and follows in _STARTS_NOUN_PHRASE


def _is_third(pieces: Sequence[tuple[str, Tag | None]], at: int) -> bool:
    """Return whether a verb in the third person is at ``at``: "a giant walks through"."""
    if at >= len(pieces) or pieces[at][1] is not None:
        return False
    word = pieces[at][0].lower()
    follows = _next_rough(pieces, at)
    third = word.endswith("s") and verb_base(word) not in (None, word)
    return third and follows in (*_STARTS_NOUN_PHRASE, "preposition", "end")


def _ends_colors(word: str, tokens: Sequence[Token]) -> bool:
    """Return whether a word ends a list of its kind after "be": "are red, yellow and orange"."""
    key, listed = ADJECTIVES.get(word), False
    for token in reversed(tokens):
        if token.tag == "adjective" and ADJECTIVES.get(token.lower) == key:
            listed = True
        elif token.tag not in ("and", "comma", "adverb"):
            return listed and token.tag == "be"
    return False


_SINGLE = frozenset({"a", "an", "one", "each", "every", "another", "this", "that"})
"""Determiners of a single thing."""
_WAYS = words("prepositions", "ways")


@dataclass(frozen=True, slots=True)
class _Opened:
    """The noun phrase that ends before a word."""

    head: str
    """Its last noun, in lower case."""
    by: Token | None
    """Its first determiner, if it has one."""
    after: Tag | None
    """Word before it."""

    @property
    def joined(self) -> bool:
        """Whether "and" stands before it: "a man and a dog"."""
        return self.after == "and"

    @property
    def single(self) -> bool:
        """Whether its determiner and its noun are those of one thing."""
        named = self.by is not None and self.by.lower in _SINGLE
        return named and singular(self.head) == self.head and self.head not in GROUPS


def _opened(tokens: Sequence[Token]) -> _Opened:
    """Return the noun phrase that ends with the last noun of ``tokens``."""
    spoken = [token for token in tokens if token.tag != "adverb"]
    head = spoken.pop().lower
    while spoken and spoken[-1].tag in ("noun", "adjective"):
        spoken.pop()
    by = None
    while spoken and spoken[-1].tag in _DETERMINING:
        by = spoken.pop()
    return _Opened(head, by, spoken[-1].tag if spoken else None)


def _lacks_plural(tokens: Sequence[Token]) -> bool:
    """Return whether the phrase so far has a number and no plural: "three security" (guards)."""
    opened = _opened(tokens)
    several = opened.by is not None and (
        NUMBERS.get(opened.by.lower, 2 if opened.by.lower[:1].isdigit() else 1) > 1
        or opened.by.lower in VAGUE
    )
    return several and singular(opened.head) == opened.head and not is_group(opened.head)


def _is_first_adjective(word: str, pieces: Sequence[tuple[str, Tag | None]], at: int) -> bool:
    """Return whether a word of no list is one of two adjectives: "a partial solar eclipse"."""
    kinds = [known or rough(text.lower()) for text, known in pieces[at + 1 : at + 3]]
    adjectives = len(kinds) == 2 and kinds[0] == "adjective" and kinds[1] in _NOUNLIKE
    return adjectives and "ADJ" in parts_of_speech(word)


def _is_unlisted_verb(
    word: str, pieces: Sequence[tuple[str, Tag | None]], at: int, tokens: Sequence[Token]
) -> bool:
    """Return whether a word of no list is what the noun before it does: "a yeti gnarfs a bone".

    Two noun phrases do not stand side by side, "a" is not said of several, and within a name the
    plural is rare. So a form that goes with the number of the noun before is a verb.
    """
    if not word.isalpha() or pieces[at][0][:1].isupper():
        return False
    subject = _opened(tokens)
    one, third = singular(subject.head) == subject.head, singular(word) != word
    if is_animate(word):
        # "Jack Sparrow pilots a plane".
        titled = len(tokens) > 1 and all(token.text.istitle() for token in tokens[-2:])
        return titled and third and _is_deed(singular(word), _next_rough(pieces, at))
    if subject.head in GROUPS or subject.head in NUMBERS or word in PLURAL_MODIFIERS:
        return False
    if third != one and not (subject.joined and not third):
        return False
    if third and subject.single:
        return True
    follows = _next_rough(pieces, at)
    after = [text.lower() for text, _ in pieces[at + 1 :]]
    if follows in _STARTS_NOUN_PHRASE and after[0] != "that":
        return True
    if not is_animate(subject.head) or word in _NAMED_WITH:
        return False
    if after and after[0].partition(" ")[0] in _WAYS:
        return True
    if follows not in ("noun", "either", "adjective") or subject.by is None:
        return False
    # "Two women tennis players" are players.
    head = _noun_run(pieces, at + 1)[-1]
    return third or (subject.by.tag in ("number", "determiner") and not is_animate(head))


def _noun_run(pieces: Sequence[tuple[str, Tag | None]], at: int) -> list[str]:
    """Return the words from ``at`` that may belong to one noun phrase."""
    run = []
    for text, known in pieces[at:]:
        if (known or rough(text.lower())) not in ("noun", "either", "weak", "adjective"):
            break
        run.append(text.lower())
    return run


_DETERMINING = frozenset({"article", "possessive", "number", "determiner"})
_NAMED_WITH = PARTS | THING_PARTS | CLOTHES | {f"{word}s" for word in PARTS | THING_PARTS | CLOTHES}
"""Parts named with the person or animal before them: "the dog ears"."""


_LISTED = frozenset({"color", "material", "texture"})


def _is_listed_adjective(pieces: Sequence[tuple[str, Tag | None]], at: int) -> bool:
    """Return whether a list of its kind and then a noun go on after ``at``: "pink, red dots"."""
    key = ADJECTIVES.get(pieces[at][0].lower(), "")
    more = False
    for text, known in pieces[at + 1 :]:
        kind = known or rough(text.lower())
        if kind in ("adjective", "either"):
            if key not in _LISTED or ADJECTIVES.get(text.lower()) != key:
                return False
            more = True
        elif kind not in ("and", "comma", "adverb"):
            return more and kind in ("noun", "weak")
    return False


def _has_noun_after_participle(pieces: Sequence[tuple[str, Tag | None]], at: int) -> bool:
    """Return whether a noun follows the participle after ``at``: "top rated car"."""
    kinds = [known or rough(text.lower()) for text, known in pieces[at + 1 : at + 3]]
    return len(kinds) == 2 and kinds[1] in (*_NOUNLIKE, "adjective")


def _is_among_adjectives(
    pieces: Sequence[tuple[str, Tag | None]],
    at: int,
    before: Tag | None,
    tokens: Sequence[Token],
) -> bool:
    """Return whether a form of a verb is one of several adjectives: "a tall and smiling man"."""
    follows = _next_rough(pieces, at)
    if before in ("and", "comma") and follows in _NOUNLIKE:
        step = len(tokens) - 1
        while step >= 0 and tokens[step].tag in ("and", "comma", "adjective", "adverb"):
            step -= 1
        opened = step < 0 or tokens[step].tag in _OPENS_NOUN | {"preposition", "have", "ing"}
        return opened and tokens[step + 1].tag == "adjective"
    if before in _OPENS_NOUN and follows in ("and", "comma"):
        kinds = [known or rough(text.lower()) for text, known in pieces[at + 1 : at + 4]]
        joined = kinds[1:2] in (["adjective"], ["participle"], ["ing"])
        return joined and kinds[2:3] in (["noun"], ["weak"], ["either"])
    return False


def _tells_apart(
    pieces: Sequence[tuple[str, Tag | None]], at: int, tokens: Sequence[Token]
) -> bool:
    """Return whether the word before stands for one of several: "two cats, one eating fish …"."""
    before = tokens[-1].lower if tokens else ""
    said = [word.lower() for word, _ in pieces]
    if before not in ("one", "other", "another") or "one" not in said[:at]:
        return False
    if before == "one" and "other" not in said[at:] and "another" not in said[at:]:
        return False
    first = said.index("one")
    set_off = first > 0 and tokens[first - 1].tag in ("comma", "clause")
    return set_off and any(t.tag == "noun" and not _is_one(t) for t in tokens[:first])


def _is_clad(tokens: Sequence[Token]) -> bool:
    """Return whether a colour that somebody wears stands last: "in white", "wearing red"."""
    link, color = tokens[-2].lower, tokens[-1].lower
    return verb_base(link) == "wear" or (link == "in" and ADJECTIVES.get(color) == "color")


def _settle_ing(word: str, before: Tag | None, follows: str, all_of: str) -> Tag:
    nounlike = follows in (*_NOUNLIKE, "adjective")
    if before == "determiner" and all_of in ("both", "all", "each"):
        # "Both wearing hats".
        return "ing"
    if before in _OPENS_NOUN:
        if nounlike or follows == "ing":
            return "adjective"
        if before == "number" and verb_base(word) is not None:
            return "ing"
        if before == "adjective" and follows in _STARTS_NOUN_PHRASE:
            # "A woman dressed in red carrying an umbrella".
            return "ing"
        return "noun" if before != "determiner" or follows == "end" else "ing"
    if before in (None, "comma", "and") and nounlike and verb_base(word) in POSTURES:
        return "adjective"
    if before == "preposition" and (nounlike or follows == "verb"):
        return "adjective"
    named = all_of == "of" and follows not in (*_STARTS_NOUN_PHRASE, "quote")
    if before == "preposition" and (named or verb_base(word) is None):
        # "An explanation of milking".
        return "noun"
    return "ing"


_BEFORE_MODIFIER = frozenset({None, "comma", "and", "verb", "ing", "preposition", "have"})


def _settle_participle(word: str, before: Tag | None, follows: str) -> Tag:
    nounlike = follows in (*_NOUNLIKE, "adjective", "ing", "participle")
    if before in _OPENS_NOUN or before in _BEFORE_MODIFIER:
        if nounlike and word not in ("made", "seen"):
            return "adjective"
        if before in ("article", "possessive", "owner") and word in ("left", "cut", "cast", "lit"):
            return "noun"
        return "participle"
    if before == "auxiliary" and word in IRREGULAR_VERBS and IRREGULAR_VERBS[word] == word:
        return "verb"
    if before in ("noun", "pronoun", "relative") and follows in _STARTS_NOUN_PHRASE:
        return "verb"
    return "participle"


_ONE_OF_SEVERAL = frozenset({"one", "other", "another", "each", "either"})
"""They stand for a noun: "one sits, the other stands"."""
_AFTER_NAME = frozenset({"end", "comma", "and", "preposition", "ing", "relative", "be"})
_BEFORE_VERB = frozenset({"noun", "pronoun", "relative", "quote"})
_AFTER_VERB = frozenset(
    {"article", "possessive", "number", "determiner", "pronoun", "preposition", "place",
     "quote"}
)  # fmt: skip


def _settle_verb(
    word: str, kind: Rough, before: Tag | None, follows: str, tokens: Sequence[Token]
) -> Tag:
    base = verb_base(word)
    if before == "auxiliary":
        return "verb"
    third = word != base and word.endswith("s")
    if third and before == "noun" and _lacks_plural(tokens):
        return "noun"
    if before == "adjective" and kind == "verb" and third and follows in _AFTER_VERB:
        return "verb"
    if third and before in ("number", "determiner") and tokens[-1].lower in _ONE_OF_SEVERAL:
        return "verb" if follows in (*_AFTER_VERB, "end") else "noun"
    if before in _OPENS_NOUN or before in ("preposition", "be"):
        return "noun"
    if before == "comma" and third and follows in ("comma", "and"):
        return "noun"
    if before == "relative" and third and tokens[-1].lower != "that":
        return "verb"
    if before == "verb" and third and _ends_clause(tokens):
        # "The girl who whistles walks a dog".
        return "verb" if follows in _AFTER_VERB else "noun"
    if kind == "verb":
        opened = _opened(tokens) if before == "noun" else None
        if opened is not None and not third and opened.single and not opened.joined:
            # "A banana peel".
            return "noun"
        if before == "ing" and third and follows in _AFTER_VERB:
            return "verb"
        if before in _BEFORE_VERB or before in ("and", "clause", "comma", "adverb", "participle"):
            return "verb"
        return "verb" if before is None and word == base else "noun"
    if before == "comma" and follows in ("comma", "and"):
        return "noun"
    if before == "noun" and not third and follows in (*_AFTER_VERB, *_NOUNLIKE, "end"):
        several = _opened(tokens)
        if several.joined and is_animate(several.head):
            # "A man and his dog walk along the beach".
            return "verb"
    if before in ("and", "clause"):
        return "verb" if follows in _STARTS_NOUN_PHRASE and third else "noun"
    if before not in _BEFORE_VERB:
        return "noun"
    opened = _opened(tokens)
    asked = any(token.lower in ("how", "why") for token in tokens)
    if third and before == "noun" and (opened.single or asked):
        # "A man walks", "how the engine works".
        return "verb"
    if third and before == "noun" and opened.after == "preposition" and opened.by is None:
        # "With Christmas lights".
        return "noun"
    one = before == "relative" or not tokens or _is_one(tokens[-1])
    if third != one and before not in ("pronoun", "relative"):
        # Notes such as "person ride bike" have no articles and no endings.
        note = not third and all(token.tag not in ("article", "adjective") for token in tokens)
        done = follows == "noun" and is_animate(tokens[-1].text)
        return "verb" if note and (done or follows == "preposition") else "noun"
    if tokens and is_animate(tokens[-1].lower):
        return "verb"
    return "verb" if follows in _AFTER_VERB else "noun"


def _ends_clause(tokens: Sequence[Token]) -> bool:
    """Return whether the last verb is that of a clause about a noun: "the mouse a cat watches"."""
    at = len(tokens) - 2
    if at >= 0 and tokens[at].tag == "relative":
        return True
    while at > 0 and tokens[at].tag in ("noun", "adjective"):
        at -= 1
    return at > 0 and tokens[at].tag in _DETERMINING and tokens[at - 1].tag == "noun"


def _is_one(token: Token) -> bool:
    """Return whether a noun names one thing."""
    return singular(token.lower) == token.lower


def _settle_either(word: str, before: Tag | None, follows: str, tokens: Sequence[Token]) -> Tag:
    if follows in ("noun", "either", "adjective", "weak") and before != "be":
        # "An ornament pine wreath".
        named = before == "noun" and word in MADE_OF and tokens[-1].text.islower()
        named = named and follows == "noun"
        return "noun" if named else "adjective"
    if before == "be":
        return "adjective"
    if follows == "and" and before in ("article", "adjective", "possessive", "comma"):
        return "adjective" if before != "article" else "noun"
    if word in ("left", "right") and before in ("noun", "ing", "verb", "participle"):
        return "adverb"
    return "noun"


def _settle_particle(word: str, before: Tag | None, follows: str) -> Tag:
    if word == "back" and before == "possessive":
        return "noun"
    if word in ("up", "down", "off", "over", "along", "around", "out"):
        return "preposition" if follows in _STARTS_NOUN_PHRASE or follows in _NOUNLIKE else "adverb"
    return "adverb"
