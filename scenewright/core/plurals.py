"""English plurals of class labels, for questions about counts and for phrases such as "two boxes".

A small rule set with its exceptions as data, enough for the labels of COCO, Visual
Genome and SG2Im. ``person`` becomes ``persons`` by the rule: the label must be
recognisable as the class that was asked for.
"""

from __future__ import annotations

IRREGULAR: dict[str, str] = {
    "aircraft": "aircraft",
    "bison": "bison",
    "calf": "calves",
    "cattle": "cattle",
    "child": "children",
    "deer": "deer",
    "elf": "elves",
    "fireman": "firemen",
    "fish": "fish",
    "foot": "feet",
    "goldfish": "goldfish",
    "goose": "geese",
    "grass": "grass",
    "half": "halves",
    "hero": "heroes",
    "knife": "knives",
    "leaf": "leaves",
    "loaf": "loaves",
    "man": "men",
    "moose": "moose",
    "mouse": "mice",
    "offspring": "offspring",
    "ox": "oxen",
    "policeman": "policemen",
    "potato": "potatoes",
    "scarf": "scarves",
    "sheep": "sheep",
    "shelf": "shelves",
    "snowman": "snowmen",
    "thief": "thieves",
    "tomato": "tomatoes",
    "tooth": "teeth",
    "wife": "wives",
    "wolf": "wolves",
    "woman": "women",
}
_SINGULAR = {many: one for one, many in IRREGULAR.items()}

# Labels that end in s and still name one thing; without this list they would read as plurals.
ENDS_IN_S: frozenset[str] = frozenset(
    {"atlas", "axis", "canvas", "christmas", "gas", "iris", "lens", "oasis", "pelvis"}
    | {"rhinoceros", "tennis", "trellis"}
)
# Labels in -ie and -xe, whose plurals look like those of labels in -y and -x.
_ENDS_IN_E: frozenset[str] = frozenset(
    {"axe", "brownie", "cookie", "hoodie", "movie", "pie", "pixie", "prairie", "selfie"}
    | {"smoothie", "tie", "zombie"}
)
_PLURAL_ONLY: frozenset[str] = frozenset({"people", "police", "binoculars", "pants", "jeans"})


def _is_plural(word: str) -> bool:
    if word in _SINGULAR or word in _PLURAL_ONLY:
        return True
    if word in IRREGULAR or word in ENDS_IN_S or len(word) < 3:
        return False
    return word.endswith("s") and not word.endswith(("ss", "us"))


def _head(name: str) -> tuple[str, str, str]:
    """What stands before the head noun, the head noun, what stands after: "glass of water"."""
    front, of, back = name.partition(" of ")
    before, space, head = front.rpartition(" ")
    return before + space, head, of + back


def _cased(like: str, word: str) -> str:
    if like.isupper() and len(like) > 1:
        return word.upper()
    return word[:1].upper() + word[1:] if like[:1].isupper() else word


def is_plural(name: str) -> bool:
    """Whether a label names several things: "legs", "people", "glasses of water".

    Labels whose plural is no other word ("sheep") count as singular.
    """
    word = _head(name)[1].lower()
    return _is_plural(word) and IRREGULAR.get(word) != word


def plural(name: str) -> str:
    """The plural of a class label; one that is plural already or not Latin stays as it is.

    >>> plural("sports ball"), plural("bus"), plural("glass of water"), plural("jeans")
    ('sports balls', 'buses', 'glasses of water', 'jeans')
    """
    before, head, after = _head(name)
    word = head.lower()
    if not word or _is_plural(word):
        return name
    if word in IRREGULAR:
        many = IRREGULAR[word]
    elif not (word.isascii() and word[-1].isalpha()):
        return name
    elif word.endswith(("s", "x", "z", "ch", "sh")):
        many = word + "es"
    elif word.endswith("y") and word[-2:-1] not in ("", "a", "e", "i", "o", "u"):
        many = word[:-1] + "ies"
    else:
        many = word + "s"
    if many.startswith(word):
        return before + head + many[len(word) :] + after
    return before + _cased(head, many) + after


def singular(name: str) -> str:
    """The singular of a label in the plural; any other label stays as it is.

    >>> singular("sports balls"), singular("buses"), singular("leaves"), singular("bus")
    ('sports ball', 'bus', 'leaf', 'bus')
    """
    before, head, after = _head(name)
    word = head.lower()
    if word in _SINGULAR:
        return before + _cased(head, _SINGULAR[word]) + after
    if word in _PLURAL_ONLY or not _is_plural(word):
        return name
    if word[:-1] in _ENDS_IN_E:
        return before + head[:-1] + after
    if word.endswith("ies") and len(word) > 4:
        return before + head[:-3] + "y" + after
    us = word.endswith("uses") and not word.endswith("ouses")
    sibilant = us or word.endswith(("sses", "xes", "zzes", "ches", "shes"))
    cut = 2 if sibilant or word[:-2] in ENDS_IN_S else 1
    return before + head[:-cut] + after
