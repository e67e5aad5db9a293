"""The plain baseline of the parser's benchmark: every noun-like word is an object.

It knows the lexicon and no grammar: an adjective belongs to the next noun-like word, and two
neighbours in a sentence are related by what stands between them.
"""

from __future__ import annotations

import re

from benchmarks._parser_gold import Facts
from scenewright.agents.parsers.tagging import rough
from scenewright.core.inflection import singular

_BETWEEN = frozenset({"preposition", "verb", "ing", "participle"})


def nearest_pairs(text: str) -> Facts:
    """What the baseline says of a caption."""
    facts = Facts()
    for sentence in re.split(r"[.;:!?\n]", text.lower()):
        before, between, values = "", "", []
        for word in re.findall(r"\w+(?:[-']\w+)*", sentence):
            kind = rough(word)
            if kind == "adjective":
                values.append(word)
            elif kind in ("noun", "either", "weak"):
                name = singular(word)
                facts.objects[name] = None
                for value in values:
                    facts.attributes[(name, value)] = None
                if before and between and before != name:
                    facts.relations[(before, between.strip(), name)] = None
                before, between, values = name, "", []
            elif kind in _BETWEEN:
                between += f" {word}"
    return facts
