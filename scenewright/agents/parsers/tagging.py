"""From a caption to tagged words: sentences, tokens, and the part each word plays.

One pass from left to right. A word that is ambiguous by the lexicon (an ``-ing`` form, a
participle, "plays") is settled by the tag before it and by what the word after it can be.

The lexicon is data in ``words.toml``. Closed classes (determiners, prepositions, auxiliaries) are
complete enough to know the rest by position: a word of no list names a thing. So there is no list
of nouns, but one of adjectives by attribute key and one of verbs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, cast

from scenewright.core.formats.phrases import COLORS, MATERIALS, SIZES
from scenewright.core.inflection import IRREGULAR_VERBS, WEAK_VERBS, WordLists, singular, verb_base

Rough = Literal[
    "article", "determiner", "possessive", "pronoun", "number", "and", "relative", "clause",
    "be", "have", "auxiliary", "not", "adverb", "preposition", "adjective", "either",
    "ing", "participle", "verb", "weak", "noun", "there",
]  # fmt: skip
"""Tag of a word without context; ``either`` is an adjective or a noun, ``weak`` a verb or a noun.
"""

_LISTS = WordLists.of("scenewright.agents.parsers", "words.toml")
words, phrases = _LISTS.words, _LISTS.phrases

ARTICLES = words("closed", "articles") | words("closed", "demonstratives")
POSSESSIVES = words("closed", "possessives")
PEOPLE_PRONOUNS = words("closed", "people_pronouns")
THING_PRONOUNS = words("closed", "thing_pronouns")
PLURAL_PRONOUNS = words("closed", "plural_pronouns")
OWN_PRONOUNS = words("closed", "own_pronouns")
PARTICLES = words("closed", "particles")
BE = words("closed", "be")
NUMBER_WORDS = _LISTS.ordered("numbers", "words")
"""``one``, ``two``, …"""
NUMBERS: dict[str, int] = {
    **{word: n for n, word in enumerate(NUMBER_WORDS, 1)},
    **{word: int(n) for word, n in _LISTS.pairs("numbers", "more").items()},
}
GROUPS: dict[str, int] = {
    **dict.fromkeys(words("groups", "two"), 2),
    **dict.fromkeys(words("groups", "three"), 3),
    **dict.fromkeys(words("groups", "one"), 1),
}
"""Word before "of" → least number of what follows."""
VAGUE: dict[str, int] = {
    **dict.fromkeys(("several", "many", "various", "numerous", "countless", "multiple"), 3),
    **dict.fromkeys(("few", "plenty"), 3),
    "both": 2,
}
"""Determiner → least number."""
ING_NOUNS = words("verbs", "intransitive_ing_nouns")
ED_NOUNS = words("verbs", "ed_nouns")
SIDES = words("adjectives", "sides")
EMPTY = words("adjectives", "empty")
SHADES = words("adjectives", "shades")
_SUFFIXES = tuple(words("adjectives", "suffixes"))
KEYS = ("color", "size", "material", "shape", "texture", "age", "gender", "state")
ADJECTIVES: dict[str, str] = {
    word: key for key in reversed(KEYS) for word in words("adjectives", key)
}
"""Adjective → attribute key."""
ADJECTIVES.update(
    (word, key)
    for key, known in (("color", COLORS), ("size", SIZES), ("material", MATERIALS))
    for word in known
    if " " not in word
)
_MATERIALS = {word for word, key in ADJECTIVES.items() if key == "material"}
_EITHER = (_MATERIALS | SIDES | words("adjectives", "nouns_too")) - words("adjectives", "no_nouns")
_CLOSED: tuple[tuple[Rough, frozenset[str]], ...] = (
    ("there", frozenset({"there", "theres", "there's"})),
    ("article", ARTICLES),
    ("possessive", POSSESSIVES),
    ("number", frozenset(NUMBERS)),
    ("determiner", words("closed", "determiners") | frozenset(VAGUE)),
    ("pronoun", PEOPLE_PRONOUNS | THING_PRONOUNS | PLURAL_PRONOUNS | OWN_PRONOUNS),
    ("and", words("closed", "conjunctions")),
    ("relative", words("closed", "relatives")),
    ("clause", words("closed", "clause_words")),
    ("be", BE),
    ("have", words("closed", "have")),
    ("auxiliary", words("closed", "auxiliaries")),
    ("not", words("closed", "negations")),
    ("preposition", words("prepositions", "single")),
    ("adverb", words("closed", "adverbs")),
)
_ROUGH_OF: dict[str, Rough] = {word: kind for kind, group in reversed(_CLOSED) for word in group}

PREPOSITIONS = frozenset((word,) for word in words("prepositions", "single")) | frozenset(
    phrases("prepositions", "phrases")
)
NO_RELATION = frozenset(" ".join(p) for p in phrases("prepositions", "none")) | frozenset(
    phrases("prepositions", "none")[0]
)
"""Prepositions without a relation between two things."""
PLACES = frozenset(phrases("places", "phrases"))
AUXILIARY_PHRASES = frozenset(phrases("closed", "auxiliary_phrases"))
OF_THINGS = words("verbs", "of_things")
OF_PARTS = words("verbs", "of_parts")
NO_STATES = words("verbs", "no_states")
OF_TARGETS = words("verbs", "of_targets")
"""A place after them and their object is the object's."""
POSTURES = words("verbs", "postures")
"""What needs no object: "standing couple" begins with an adjective."""
BLOWS = words("verbs", "blows")
"""What is done to somebody with one of :data:`WEAPONS`."""
COVERS = words("verbs", "covers")
"""Participles between two nouns: "a snow covered hill"."""
EMPTY_STATES = words("verbs", "empty_states")
COMPOUNDS = frozenset(phrases("nouns", "compounds"))
PEOPLE = words("nouns", "people")
"""Nouns that "who" may mean."""
ANIMATE = PEOPLE | words("nouns", "animate")
PARTS = words("nouns", "parts")
THING_PARTS = words("nouns", "thing_parts")
"""Parts of vehicles, buildings and furniture."""
WHOLES = words("nouns", "wholes")
"""What has such parts: a "car window" is a window that a car has."""
NOT_WHOLES = words("nouns", "not_wholes")
CLOTHES = words("nouns", "clothes")
PLANTS = words("nouns", "plants")
WEAPONS = words("nouns", "weapons")
VESSELS = words("nouns", "vessels")
SCENERY = words("nouns", "scenery")
"""Places that are rarely what a participle after them is said of."""
PLURAL_MODIFIERS = words("nouns", "plural_modifiers")
IGNORED = words("nouns", "ignored")
IGNORED_HEADS = words("nouns", "ignored_heads")
STYLE = words("style", "heads")
LEADS = words("style", "leads")
LEAD_ADJECTIVES = words("style", "lead_adjectives")
SITES = words("style", "sites")
MAKERS = words("style", "makers")
TAILS = frozenset(phrases("style", "tails"))
"""Phrases of style that a description ends with: "a bear on a cloud digital art"."""
FRAME_NOUNS = words("style", "frame")
FRAMES = tuple(
    sorted(
        {
            tuple(image if word == "{image}" else word for word in phrase)
            for phrase in phrases("frames", "phrases")
            for image in FRAME_NOUNS
        },
        key=lambda phrase: (-len(phrase), phrase),
    )
)
"""Phrases that frame a description ("in this image we can see"), longest first."""


def is_animate(label: str) -> bool:
    """Return whether the last word of a label names a person or an animal."""
    return singular(label.rpartition(" ")[2].lower()) in ANIMATE


def is_person(label: str) -> bool:
    """Return whether the last word of a label names a person."""
    return singular(label.rpartition(" ")[2].lower()) in PEOPLE


@lru_cache(maxsize=16384)
def rough(word: str) -> Rough:
    """Return the tag of a lower-case word without context."""
    known = _ROUGH_OF.get(word)
    if known is not None:
        return known
    if word[:1].isdigit():
        return "number" if word.replace(",", "").isdigit() else "adjective"
    if word in _EITHER:
        return "either"
    if word in ADJECTIVES:
        return "adjective"
    if word.endswith("ing") and len(word) > 4:
        return "noun" if word in ING_NOUNS else "ing"
    base = verb_base(word)
    if word in IRREGULAR_VERBS and not word.endswith("ing"):
        return "participle"
    if word.endswith("ed") and len(word) > 3 and word not in ED_NOUNS:
        return "participle"
    if base is not None:
        return "weak" if base in WEAK_VERBS else "verb"
    if word.endswith("ly") and len(word) > 4 and word not in _LY_NOUNS:
        return "adverb"
    if _is_adjective_by_ending(word) or graded(word):
        return "adjective"
    return "noun"


_GRADED_NOUNS = words("nouns", "like_comparatives")


@lru_cache(maxsize=16384)
def graded(word: str) -> str | None:
    """Return the adjective of which ``word`` is the comparative or the superlative, if any.

    >>> graded("older"), graded("biggest"), graded("happier"), graded("corner")
    ('old', 'big', 'happy', None)
    """
    ending = next((ending for ending in ("est", "er") if word.endswith(ending)), "")
    if not ending or word in _GRADED_NOUNS:
        return None
    stem = word.removesuffix(ending)
    tried = [stem, f"{stem}e"]
    if stem.endswith("i"):
        tried.append(f"{stem[:-1]}y")
    if len(stem) > 2 and stem[-1] == stem[-2]:
        tried.append(stem[:-1])
    return next((base for base in tried if base in ADJECTIVES), None)


_LY_NOUNS = words("nouns", "in_ly")
_SUFFIX_NOUNS = words("nouns", "like_adjectives")


def _is_adjective_by_ending(word: str) -> bool:
    if len(word) < 6 or word in _SUFFIX_NOUNS or word.endswith("table"):
        return False
    return word.endswith(_SUFFIXES)


def key_of(value: str) -> str:
    """Return the attribute key of an adjective; participles and unknown ones are states.

    >>> key_of("light blue"), key_of("wooden"), key_of("parked")
    ('color', 'material', 'state')
    """
    last = value.rpartition(" ")[2]
    return ADJECTIVES.get(last) or ADJECTIVES.get(graded(last) or "", "state")


Tag = Literal[
    "article", "determiner", "possessive", "pronoun", "number", "and", "comma", "relative",
    "clause", "be", "have", "auxiliary", "not", "adverb", "preposition", "place", "adjective",
    "ing", "participle", "verb", "noun", "owner", "quote", "there",
]  # fmt: skip


class Word(str):
    """A word that knows its place in the caption."""

    __slots__ = ("end", "start")
    start: int
    """Place of its first character, from 0."""
    end: int
    """Place after its last character."""

    @classmethod
    def at(cls, text: str, start: int, end: int) -> Word:
        """Return ``text`` as a word of the characters ``start`` to ``end``."""
        word = cls(text)
        word.start, word.end = start, end
        return word


@dataclass(frozen=True, slots=True)
class Token:
    """A word, or a phrase treated as one, with its tag."""

    text: str
    """As written; a phrase has its words joined by spaces."""
    tag: Tag

    @property
    def lower(self) -> str:
        """In lower case."""
        return self.text.lower()


_QUOTED = re.compile(
    r"[\"“”]([^\"“”]{1,300})[\"“”]"
    r"|(?<![\w'’])['\u2018\u201b](?!s\b)((?:(?!['’](?!\w)).){1,300})['’](?!\w)",
    re.DOTALL,
)
_MARK = "\ue000"
_JUNK = re.compile(r"https?://\S+|<[^<>]*>|[\[\](){}<>|*_~^\ue000]+")
_OPTION = re.compile(r"(?:(?<=\s)|^)(?:--|—)[a-z]+\b[^,;]*?(?=\s(?:--|—)|[,;]|$)")
_WORD = re.compile(
    rf"{_MARK}|(?:Dr|Mr|Mrs|Ms|St|No|Jr|Sr|vs)\.|\d+(?:[.,:]\d+)*\w*"
    r"|(?<=\s)['’]s\b|(?<=s\s)['’](?=\s)"
    r"|\w+(?:[-'’/]\w+)*s['’](?=\s)|\w+(?:[-'’/]\w+)*|&|[.,;:!?\n]|--+|[-–—](?=\s)"
)
_ENDS = frozenset(".;:!?\n")
_LONGEST = max(len(p) for group in (PREPOSITIONS, PLACES, COMPOUNDS) for p in group)


def sentences(text: str) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Split ``text`` into sentences of words and commas, with marks for its quotes.

    Words keep their case and are each a :class:`Word`; quoted text is one word, its mark. Options
    of drawing programs (``--ar 16:9``), links and brackets are left out.
    """
    said: dict[str, str] = {}
    quotes: list[tuple[str, int, int]] = []

    def keep(match: re.Match[str]) -> str:
        inside = " ".join((match[1] or match[2]).split())
        if not inside:
            return _blank(match)
        mark = f"{_MARK}{len(said)}{_MARK}"
        said[mark] = inside
        quotes.append((mark, match.start(), match.end()))
        return f" {_MARK}".ljust(len(match[0]))

    # Every step keeps the length, so that a place in what is left is one in the text.
    plain = _OPTION.sub(_blank, text.replace(_MARK, " "))
    marked = _QUOTED.sub(keep, plain)
    cleaned = _MARK.join(_JUNK.sub(_blank, part) for part in marked.split(_MARK))
    marks = iter(quotes)
    sentence: list[str] = []
    for match in _WORD.finditer(cleaned):
        word = match[0]
        if word in _ENDS or (word[0] in "-–—" and not word[-1].isalnum()):
            if sentence:
                yield sentence, said
            sentence = []
        elif word == _MARK:
            sentence.append(Word.at(*next(marks)))
        else:
            sentence.append(Word.at(word, match.start(), match.end()))
    if sentence:
        yield sentence, said


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def options(text: str) -> Iterator[Word]:
    """Yield the options of drawing programs in ``text``, such as ``--ar 16:9``."""
    for match in _OPTION.finditer(text):
        yield Word.at(match[0].strip(), match.start(), match.end())


def without_frames(words: Sequence[str]) -> list[str]:
    """Return ``words`` without framing phrases such as "in this image we can see"."""
    kept: list[str] = []
    lower = [word.lower() for word in words]
    at = 0
    while at < len(words):
        for phrase in FRAMES_BY_FIRST.get(lower[at], ()):
            if tuple(lower[at : at + len(phrase)]) == phrase:
                at += len(phrase)
                begun = at
                while at < len(words) and lower[at] in (",", "that", "there"):
                    at += 1
                if at < len(words) and lower[at] in ("is", "are") and lower[at - 1] == "there":
                    at += 1
                # What was taken out here stood between a place and what is there.
                if at > begun and kept and kept[-1] != ",":
                    kept.append(",")
                break
        else:
            kept.append(words[at])
            at += 1
    return kept


FRAMES_BY_FIRST: dict[str, list[tuple[str, ...]]] = {}
for _phrase in FRAMES:
    FRAMES_BY_FIRST.setdefault(_phrase[0], []).append(_phrase)

_OPENS_NOUN = frozenset({"article", "possessive", "number", "determiner", "adjective", "owner"})
_STARTS_NOUN_PHRASE = frozenset({"article", "possessive", "number", "determiner", "pronoun"})
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
            before = known
    return tokens


def _pieces(words: Sequence[str], said: dict[str, str]) -> list[tuple[str, Tag | None]]:
    found: list[tuple[str, Tag | None]] = []
    lower = [word.lower() for word in words]
    at = 0
    while at < len(words):
        word = words[at]
        if word in said:
            found.append((said[word], "quote"))
            at += 1
            continue
        if word == ",":
            found.append((word, "comma"))
            at += 1
            continue
        size, known = _phrase_at(lower, at)
        if known is not None:
            found.append((" ".join(words[at : at + size]), known))
            at += size
            continue
        if lower[at] in ("'s", "’s", "'", "’") and found and found[-1][1] in (None, "noun"):
            # Captions that a tokenizer has split: "zebra 's head".
            before = found[-1][0]
            if rough(before.lower()) in ("pronoun", "there", "relative"):
                found.append(("is", "be"))
            else:
                found[-1] = (before, "noun")
                found.append(("'s", "owner"))
            at += 1
            continue
        owner = re.fullmatch(r"(.+?)['’]s|(.+s)['’]", word)
        if owner and word.lower() not in ("it's", "there's", "he's", "she's", "that's", "let's"):
            found += [(owner[1] or owner[2], "noun"), ("'s", "owner")]
        elif owner and owner[1]:
            found += [(owner[1], None), ("is", "be")]
        else:
            found.append((word, None))
        at += 1
    return found


def _phrase_at(lower: Sequence[str], at: int) -> tuple[int, Tag | None]:
    for size in range(min(_LONGEST, len(lower) - at), 1, -1):
        phrase = tuple(lower[at : at + size])
        if phrase in AUXILIARY_PHRASES:
            return size, "auxiliary"
        if phrase == ("as", "well", "as"):
            return size, "and"
        if phrase in PREPOSITIONS:
            return size + _side_after(lower, at + size, phrase), "preposition"
        follows = lower[at + size] if at + size < len(lower) else "."
        if phrase in PLACES and follows != "of" and not _goes_on(phrase[-1], follows):
            return size, "place"
        if phrase in COMPOUNDS or (*phrase[:-1], singular(phrase[-1])) in COMPOUNDS:
            return size, "noun"
    if (lower[at],) in PREPOSITIONS and (side := _side_after(lower, at + 1, (lower[at],))):
        return 1 + side, "preposition"
    if at + 1 < len(lower) and lower[at + 1] == "than" and graded(lower[at]):
        return 2, "preposition"
    return 1, None


SIDE_NAMES = words("prepositions", "sides")
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


def _goes_on(last: str, follows: str) -> bool:
    """Return whether "on the left" begins "on the left chair"."""
    return last in SIDES and follows[0].isalnum() and rough(follows) in _NOUNLIKE


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
    if kind == "ing":
        if before == "adjective" and len(tokens) > 1 and verb_base(tokens[-2].lower) == "wear":
            return "ing"
        return _settle_ing(word, before, follows)
    if kind == "participle":
        return _settle_participle(word, before, follows)
    if word == "leaves" and before == "noun" and tokens[-1].lower in PLANTS:
        return "noun"
    if kind in ("verb", "weak"):
        return _settle_verb(word, kind, before, follows, tokens)
    if kind == "either":
        if follows == "and" and _next_rough(pieces, at + 1) in ("adjective", "either"):
            return "adjective"
        if follows == "comma" and _is_listed_adjective(pieces, at):
            return "adjective"
        if follows == "participle" and not _has_noun_after_participle(pieces, at):
            return "noun" if before in _OPENS_NOUN else _settle_either(word, before, follows)
        return _settle_either(word, before, follows)
    if kind == "there":
        return "there" if follows in ("be", "auxiliary") else "adverb"
    if word in PARTICLES and kind in ("adverb", "preposition"):
        return _settle_particle(word, before, follows)
    if word == "her":
        return "possessive" if follows not in ("preposition", "end", "comma", "and") else "pronoun"
    if word in ("that", "this", "these", "those", "all", "both", "some", "each", "one"):
        if word == "that" and before in ("noun", "pronoun"):
            return "relative"
        return "number" if word == "one" else "determiner"
    if word == "like":
        return "preposition" if before not in ("auxiliary", "pronoun") else "verb"
    if word == "to" and follows in ("verb", "weak") and before != "verb":
        direct = pieces[at + 1][0].lower()
        return "auxiliary" if verb_base(direct) == direct else "preposition"
    if word.endswith("ing") and kind == "noun" and verb_base(word) is not None:
        doing = before == "noun" and is_animate(tokens[-1].text)
        return "ing" if doing or before == "be" else "noun"
    if kind == "noun" and before == "auxiliary" and follows in _STARTS_NOUN_PHRASE:
        return "verb"
    if kind == "noun" and before == "noun" and _is_unlisted_verb(word, pieces, at, tokens):
        return "verb"
    if kind in ("preposition", "adverb"):
        return "preposition" if kind == "preposition" else "adverb"
    if kind == "determiner" or kind == "article":
        return kind
    return "noun" if kind in ("either", "weak") else cast(Tag, kind)


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
    joined: bool
    """Whether "and" stands before it: "a man and a dog"."""

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
    return _Opened(head, by, bool(spoken) and spoken[-1].tag == "and")


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
    named = _noun_run(pieces, at + 1)[-1]
    return third or (subject.by.tag in ("number", "determiner") and not is_animate(named))


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
"""What is named with the person or animal before it: "the dog ears"."""


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


def _settle_ing(word: str, before: Tag | None, follows: str) -> Tag:
    nounlike = follows in _NOUNLIKE or follows in ("adjective",)
    if before in ("article", "possessive", "number", "adjective", "determiner", "owner"):
        if follows in ("noun", "either", "weak", "adjective", "ing"):
            return "adjective"
        return "noun" if before != "determiner" or follows == "end" else "ing"
    if before is None and follows in _NOUNLIKE and verb_base(word) in POSTURES:
        return "adjective"
    if before == "preposition" and verb_base(word) is None:
        return "noun"
    if before == "preposition" and nounlike:
        return "adjective"
    return "ing"


def _settle_participle(word: str, before: Tag | None, follows: str) -> Tag:
    nounlike = follows in ("noun", "either", "weak", "adjective", "ing", "participle")
    if before in ("be",):
        return "participle"
    if before in _OPENS_NOUN or before in (
        None,
        "comma",
        "and",
        "verb",
        "ing",
        "preposition",
        "have",
    ):
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
    if before == "adjective" and kind == "verb" and third and follows in _AFTER_VERB:
        return "verb"
    if before in _OPENS_NOUN or before in ("preposition", "be"):
        return "noun"
    if kind == "verb":
        if before in _BEFORE_VERB or before in ("and", "clause", "comma", "adverb", "participle"):
            return "verb"
        return "verb" if before is None and word == base else "noun"
    if before in ("and", "clause"):
        return "verb" if follows in _STARTS_NOUN_PHRASE and third else "noun"
    if before not in _BEFORE_VERB:
        return "noun"
    if third and before == "noun" and _opened(tokens).single:
        return "verb"
    one = before == "relative" or not tokens or _is_one(tokens[-1])
    if third != one and before not in ("pronoun", "relative"):
        # Notes such as "person ride bike" have no articles and no endings.
        note = not third and all(token.tag != "article" for token in tokens)
        done = follows in ("preposition", "noun") and is_animate(tokens[-1].text)
        return "verb" if note and (done or follows == "preposition") else "noun"
    if tokens and is_animate(tokens[-1].lower):
        return "verb"
    return "verb" if follows in _AFTER_VERB else "noun"


def _is_one(token: Token) -> bool:
    """Return whether a noun names one thing."""
    return singular(token.lower) == token.lower


def _settle_either(word: str, before: Tag | None, follows: str) -> Tag:
    if follows in ("noun", "either", "adjective", "weak") and before != "be":
        return "adjective"
    if follows == "participle" and before in _OPENS_NOUN:
        return "adjective"
    if before == "be":
        return "adjective"
    if follows == "and" and before in ("article", "adjective", "possessive", "comma"):
        return "adjective" if before != "article" else "noun"
    if word in ("left", "right") and before == "noun":
        return "adverb"
    return "noun"


def _settle_particle(word: str, before: Tag | None, follows: str) -> Tag:
    if word == "right":
        return "adverb"
    if word in ("up", "down", "off", "over", "along", "around", "out"):
        return "preposition" if follows in _STARTS_NOUN_PHRASE or follows in _NOUNLIKE else "adverb"
    return "adverb"
