"""The words that triplet lines and bare attributes are read with, as data."""

from __future__ import annotations

from scenewright.inflection import WEAK_VERBS, ing_form, third_person, verb_base
from scenewright.vocabulary import WORDINGS


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_HUES = _words("red orange yellow green blue purple pink brown gray grey")
_SHADES = _words("light dark bright pale")
COLORS: frozenset[str] = frozenset(
    {
        *_HUES,
        *_words("black white golden silver beige tan turquoise violet magenta cyan maroon"),
        *_words("navy teal cream"),
        *(f"{shade} {hue}" for shade in _SHADES for hue in _HUES),
    }
)
SIZES: frozenset[str] = frozenset(
    _words("small little tiny big large huge giant tall short long thick thin wide narrow")
)
MATERIALS: frozenset[str] = frozenset(
    _words("wooden wood metal metallic plastic glass leather stone brick concrete paper ceramic")
    + _words("fabric rubber steel marble cotton")
)
ADJECTIVES: dict[str, str] = {
    **dict.fromkeys(COLORS, "color"),
    **dict.fromkeys(SIZES, "size"),
    **dict.fromkeys(MATERIALS, "material"),
}
"""Word (or two words) → attribute key."""

ARTICLES: frozenset[str] = frozenset({"a", "an", "the", "one"})
ANOTHER: frozenset[str] = frozenset({"another"})
VAGUE: frozenset[str] = frozenset({"some", "several", "many", "few", "no", "any"})
NUMBERS: dict[str, int] = {
    **{word: n for n, word in enumerate(("two", "three", "four", "five", "six"), 2)},
    **{str(n): n for n in range(2, 7)},
}
ORDINALS: dict[str, int] = {
    word: n for n, word in enumerate(("first", "second", "third", "fourth", "fifth", "sixth"), 1)
}

_POSTURES = (
    *_words("sitting standing lying leaning resting sleeping walking running jumping flying"),
    *_words("floating swimming hanging parked growing climbing playing kneeling crawling"),
    *_words("driving perched placed"),
)
_PLACES = (
    *_words("on in at by near under over above below behind beside between inside along across"),
    *_words("around through against into onto past from with underneath beneath towards toward"),
    *_words("outside up down"),
    *("next to", "close to", "in front of", "on top of", "outside of"),
)
# Of the vocabulary's wordings, those that join two statements or describe one thing.
_NO_PREDICATES = frozenset({"and", "of", "from", "next", "with a"})
_PHRASES = (
    *("left of", "right of", "to the left of", "to the right of", "on the left of"),
    *("on the right of", "in front of", "in back of", "on top of", "at the top of", "next to"),
    *("close to", "far from", "in the middle of", "at the bottom of", "on the side of"),
    *("to the side of", "adjacent to", "attached to", "connected to", "tied to", "part of"),
    *("belonging to", "made of", "full of", "filled with", "covered in", "covered with"),
    *("covered by", "surrounded by", "looking at", "looking down at", "looking up at"),
    *("staring at", "pointing at", "pointing to", "talking to", "talking on", "speaking to"),
    *("waiting for", "reaching for", "holding onto", "holding hands with", "playing with"),
    *("dressed in", "mounted on", "painted on", "printed on", "written on", "reflected in"),
    *("cutting with", "eating from", "drinking from", "riding on", "riding in", "getting on"),
    *("getting off", "grazing on", "grazing in", "working on", "working at", "inside of"),
    *("outside of", "alongside of", "away from", "up against", "out of", "facing away from"),
)
_SINGLE = (
    *_words("on in at by near under over above below behind beside between inside outside along"),
    *_words("across around through against into onto beneath underneath underside atop"),
    *_words("alongside within with has have holding carrying wearing riding eating drinking"),
    *_words("kicking throwing catching hitting pulling pushing touching feeding chasing"),
    *_words("following watching facing reading using playing petting hugging kissing biting"),
    *_words("licking chewing cutting cooking washing cleaning driving surrounding covering"),
    *_words("containing supporting overlapping crossing entering leaving approaching climbing"),
    *_words("swinging opening closing lifting dragging grabbing guiding leading herding"),
    *_words("photographing towing walking smelling sniffing balancing blocking"),
)


def _finite(phrase: str) -> tuple[str, ...]:
    """``wear`` and ``wears`` of a phrase with ``wearing``, unless a noun reads so."""
    first, _, rest = phrase.partition(" ")
    base = verb_base(first)
    if base is None or base in WEAK_VERBS or first != ing_form(base):
        return ()
    return tuple(f"{form} {rest}".rstrip() for form in (base, third_person(base)))


_PROGRESSIVE = (
    *_PHRASES,
    *(f"{posture} {place}" for posture in _POSTURES for place in _PLACES),
    *_SINGLE,
    *WORDINGS,
)
PREDICATES: frozenset[tuple[str, ...]] = frozenset(
    _words(phrase)
    for known in _PROGRESSIVE
    for phrase in (known, *_finite(known))
    if phrase not in _NO_PREDICATES
)
"""Every known predicate as its words; longer ones win over shorter ones."""
LONGEST_PREDICATE: int = max(map(len, PREDICATES))


def key_of(value: str) -> str | None:
    """``"color"``, ``"size"`` or ``"material"`` of a known attribute word, else none."""
    return ADJECTIVES.get(value.casefold())
