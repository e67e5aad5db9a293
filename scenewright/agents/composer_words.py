"""Words that XTC-Bench and the lexical matching compare: synonyms, verbs, prepositions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ARTICLES = _words("a an the this that these those its his her their one another each every some")
PREPOSITIONS = _words(
    "on in of at by near under over above below behind beside beneath underneath between inside "
    "with within from to into onto upon atop against along across around through toward towards "
    "outside past before after while as who which where"
)

COUNTS: dict[str, int] = {
    **{
        word: n
        for n, word in enumerate(
            ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), 2
        )
    },
    "pair": 2,
    "couple": 2,
    "both": 2,
    "twin": 2,
    "trio": 3,
    "quartet": 4,
    "dozen": 12,
}

# A word of the left side may be said by any of the right side: each of them is one.
KINDS_OF: dict[str, frozenset[str]] = {
    "person": _words(
        "man woman boy girl child human people player musician rider figure pedestrian adult kid "
        "lady gentleman worker skier surfer skateboarder someone guy toddler individual"
    ),
    "man": _words("gentleman guy"),
    "woman": _words("lady"),
    "child": _words("boy girl kid toddler"),
    "people": _words("person man woman crowd group"),
    "dog": _words("puppy"),
    "cat": _words("kitten"),
    "bird": _words("sparrow seagull pigeon parrot"),
    "tv": _words("television"),
    "television": _words("tv"),
    "couch": _words("sofa"),
    "sofa": _words("couch"),
    "cell phone": _words("phone smartphone cellphone"),
    "bicycle": _words("bike"),
    "bike": _words("bicycle"),
    "motorcycle": _words("motorbike"),
    "airplane": _words("plane aeroplane aircraft jet"),
    "plane": _words("airplane aeroplane aircraft jet"),
    "cup": _words("mug"),
    "automobile": _words("car"),
    "sneakers": _words("shoe"),
    "glasses": _words("spectacles eyeglasses"),
}

_SAME_VALUES: tuple[frozenset[str], ...] = (
    _words("gray grey"),
    _words("wooden wood timber"),
    _words("metal metallic"),
    _words("gold golden"),
    _words("silver silvery"),
    _words("big large"),
    _words("small little tiny"),
    _words("furry fluffy"),
    _words("huge giant enormous"),
    _words("stone stony"),
    _words("glass glassy"),
)


def same_values(word: str) -> frozenset[str]:
    """What may be said for an attribute's word, the word itself included."""
    return next((group for group in _SAME_VALUES if word in group), frozenset({word}))


@dataclass(frozen=True, slots=True)
class Place:
    """How a preposition may be put: phrases, by what follows them."""

    before_target: tuple[str, ...] = ()
    """Followed by the relation's target: "the dog *under* the table"."""
    before_source: tuple[str, ...] = ()
    """Followed by its source: "the table *above* the dog"."""
    either: tuple[str, ...] = ()
    """Both ends stand in the sentence, in any order."""
    beside_source: tuple[str, ...] = ()
    """Alone, nearest to the source: "on the *left* a dog"."""


_UNDER = ("under", "beneath", "underneath", "below")
_OVER = ("above", "over", "overhead")
_IN = ("in", "inside", "within", "into")
_HOLDS = ("contains", "containing", "holds", "holding", "filled with", "full of")

PLACES: dict[str, Place] = {
    "left of": Place(
        ("left of", "left side of", "left hand side of", "left from"),
        ("right of", "right side of", "right hand side of"),
        beside_source=("left", "leftmost"),
    ),
    "right of": Place(
        ("right of", "right side of", "right hand side of", "right from"),
        ("left of", "left side of", "left hand side of"),
        beside_source=("right", "rightmost"),
    ),
    "above": Place((*_OVER, "higher than"), (*_UNDER, "lower than")),
    "below": Place((*_UNDER, "lower than"), (*_OVER, "higher than")),
    "on": Place(
        ("on", "atop", "top of", "onto", "upon"),
        ("supports", "supporting", "topped by", "topped with", "bears", "bearing", "beneath"),
    ),
    "under": Place(_UNDER, _OVER),
    "inside": Place(_IN, _HOLDS),
    "near": Place(
        either=(
            *("near", "nearby", "next", "beside", "by", "close", "alongside", "adjacent"),
            *("around", "along", "together", "neighboring", "neighbouring", "side by side"),
            *("not far", "proximity", "surrounding", "surrounded", "vicinity"),
        ),
        beside_source=("nearby",),
    ),
    "behind": Place(("behind", "back of", "beyond"), ("in front of", "front of", "before")),
    "in front of": Place(("in front of", "front of", "before", "ahead of"), ("behind",)),
    "at": Place(("at", "by", "near", "beside", "in front of")),
    "with": Place(either=("with", "alongside", "beside", "together", "accompanied")),
    "has": Place(
        ("has", "have", "having", "with", "features", "featuring", "sports", "sporting", "bears"),
        ("of", "belongs", "belonging"),
    ),
    "of": Place(("of", "belonging to", "belongs to"), ("has", "have", "with")),
    "over": Place((*_OVER, "across"), _UNDER),
    "against": Place(("against", "on", "to")),
    "along": Place(("along", "alongside", "by", "beside", "on")),
    "across": Place(("across", "through", "over")),
    "through": Place(("through", "across")),
    "outside": Place(("outside", "out of")),
    "around": Place(either=("around", "surrounds", "surrounding", "surrounded", "encircling")),
}
_SAME_PLACES: dict[str, str] = {
    "in": "inside",
    "within": "inside",
    "into": "inside",
    "inside of": "inside",
    "onto": "on",
    "upon": "on",
    "atop": "on",
    "beneath": "below",
    "adjacent to": "near",
    "alongside": "near",
    "nearby": "near",
    "have": "has",
    "having": "has",
    "part of": "of",
    "belonging to": "of",
    "front of": "in front of",
    "in back of": "behind",
    "outside of": "outside",
    "surrounding": "around",
}


def place_of(predicate: str) -> Place | None:
    """How a predicate that says a place may be put; None for one that says none."""
    return PLACES.get(_SAME_PLACES.get(predicate, predicate))


_IRREGULAR: dict[str, str] = {
    form: verb
    for verb, forms in {
        "bite": "bit bitten",
        "catch": "caught",
        "drink": "drank drunk",
        "drive": "drove driven",
        "eat": "ate eaten",
        "feed": "fed",
        "fly": "flew flown",
        "grow": "grew grown",
        "hang": "hung",
        "hold": "held",
        "lead": "led",
        "lean": "leant",
        "lie": "lay lying laid laying lies lain",
        "ride": "rode ridden",
        "run": "ran",
        "sit": "sat seated",
        "sleep": "slept asleep",
        "speak": "spoke spoken",
        "stand": "stood",
        "swim": "swam",
        "swing": "swung",
        "throw": "threw thrown",
        "wear": "wore worn",
        "hand": "hands",
    }.items()
    for form in forms.split()
}
_SAME_VERBS: tuple[str, ...] = (
    "hold grip grasp clutch carry cradle clasp hand",
    "wear dress sport don clad",
    "ride straddle mount astride horseback",
    "look gaze stare watch observe glance eye face view",
    "chase pursue",
    "eat munch chew bite devour graze nibble",
    "drink sip",
    "throw toss hurl pitch",
    "catch grab",
    "hit strike smack",
    "sit perch rest settle",
    "lie rest recline sprawl",
    "stand rest",
    "lean rest prop",
    "walk stroll stride",
    "run sprint dash race",
    "talk speak chat converse",
    "hug embrace",
    "pull tow drag haul",
    "hang suspend dangle",
    "fly soar hover",
    "follow trail",
    "play strum",
    "cover blanket drape",
    "attach fasten fix",
    "touch press",
    "kick strike boot",
    "photograph shoot",
    "place set rest",
)


def stem(word: str) -> str:
    """A verb's form without its ending; equal for ``kick``, ``kicks``, ``kicked``, ``kicking``."""
    found = _IRREGULAR.get(word, word)
    for ending in ("ing", "ies", "ied", "ed", "es", "s", "e"):
        left = found.removesuffix(ending)
        if left == found or found.endswith(("ss", "eed")):
            continue
        if len(left) >= 2 and any(letter in "aeiouy" for letter in left):
            found = left + ("y" if ending in ("ies", "ied") else "")
            break
    if len(found) > 3 and found[-1] == found[-2] and found[-1] not in "ls":
        found = found[:-1]
    return found.removesuffix("e")


def _stems(words: Iterable[str]) -> frozenset[str]:
    return frozenset(map(stem, words))


_VERB_GROUPS = tuple(_stems(group.split()) for group in _SAME_VERBS)


def same_verbs(word: str) -> frozenset[str]:
    """Stems of the verbs that may be said for ``word``, its own included."""
    own = stem(word)
    return frozenset({own}).union(*(group for group in _VERB_GROUPS if own in group))
