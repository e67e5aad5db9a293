"""Wishes of a caption for the whole picture: medium, style, artist, view, light, time, weather.

These words are wishes (:class:`~scenewright.core.intent.Global`) and never objects. They stand
before the description ("a photo of"), between commas ("cinematic lighting, 8k"), at its end ("by
NAME", "oil on canvas") or within it ("at night", "in soft light"). :func:`settings_of` finds the
last kind in the text, :func:`without_style` takes the others out of the words of a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from scenewright.agents.parsers.spelling import parts_of_speech
from scenewright.agents.parsers.splitting import BREAK, Word
from scenewright.agents.parsers.tagging import (
    ADJECTIVES,
    PLURAL_MODIFIERS,
    is_animate,
    phrases,
    rough,
    words,
)
from scenewright.core.inflection import singular, verb_base
from scenewright.core.intent import Global, GlobalKind

STYLE = words("style", "heads")
LEADS = words("style", "leads")
_PICTURES = words("style", "pictures")
_LEAD_ADJECTIVES = words("style", "lead_adjectives")
_SITES = words("style", "sites")
_ALONE = words("style", "alone")
_MAKERS = words("style", "makers")
_MAKING = frozenset({"by", "art", "artwork", "style", "inspired"})
_TAILS = sorted(phrases("style", "tails"), key=len, reverse=True)
_YEARS = re.compile(r"[0-9]+(?:st|nd|rd|th|s)?")

_KINDS: tuple[GlobalKind, ...] = (
    "artist", "aspect", "light", "medium", "view", "time", "weather", "mood", "quality",
)  # fmt: skip
_WORDS: dict[GlobalKind, frozenset[str]] = {
    kind: words("globals", kind) for kind in _KINDS if kind not in ("artist", "aspect")
}
_INTENSITY = words("globals", "intensity")
_TIMES, _WEATHERS, _LIGHTS = (
    frozenset(map(" ".join, phrases("globals", name))) for name in ("times", "weathers", "lights")
)
_DAYS = words("globals", "days")
_SEASONS = words("globals", "seasons")


_ANY: dict[str, str] = {
    name: "|".join(
        re.escape(one).replace("\\ ", r"\s+")
        for one in sorted(group, key=lambda one: (-len(one), one))
    )
    for name, group in {
        "how": _WORDS["weather"] | _INTENSITY | _WORDS["mood"],
        "strength": _INTENSITY | {"late", "early"},
        "sky": _WORDS["weather"] | _SEASONS,
        "lit": _WORDS["weather"] | _INTENSITY | _WORDS["mood"] | words("globals", "lit"),
        "time": _TIMES,
        "weather": _WEATHERS,
        "light": _LIGHTS,
        "day": _DAYS,
        "moods": words("globals", "moods"),
        **{
            name: frozenset(map(" ".join, phrases("globals", name)))
            for name in ("lenses", "rendered_in", "viewpoints")
        },
    }.items()
}
_IN = r"(?:at|in|during|by|around|under|before|after)\s+(?:the\s+|an?\s+)?"
_LATE = r"(?:late\s+|early\s+|mid-?\s*|middle\s+of\s+the\s+)?"
_THE = r"(?:an?\s+|the\s+)?"
_NO_TIME = "".join(rf"(?<!{word}\s)" for word in ("reads", "says", "shows", "reading", "showing"))
_END = r"(?=\s*(?:[,.;]|$))"
_PHRASES: tuple[tuple[GlobalKind, str], ...] = (
    ("light", _IN + r"(?:(?:{how})[\s-]+){{0,2}}(?:{light})"),
    ("weather", _IN + r"(?:(?:{how})[\s-]+){{0,2}}(?:{weather})"),
    ("time",
     r"(?:late\s+|early\s+)?" + _IN + r"(?:(?:{how})[\s-]+){{0,2}}" + _LATE + r"(?:{time})"),
    ("weather",
     r"(?:on|in|under|during)\s+(?:an?|the)\s+(?:very\s+)?(?:(?:{strength})\s+)?(?:{sky})"
     r"(?:(?:\s+and|\s*,)?\s+(?:{sky}))*\s+(?:{day})"),
    ("weather",
     r"(?<![\w,.;])^\s*" + _THE + r"(?:(?:{how}|{sky})[\s,]+(?:and\s+)?)+(?:{day})"
     r"(?=\s+(?:in|at|on|over|with)\b)"),
    ("light",
     r"(?:in|under|with|by|bathed\s+in)\s+" + _THE + r"(?:(?:{lit})[\s,]+(?:and\s+)?)*"
     r"(?:lighting|illumination)"),
    ("light", r"(?:in|under)\s+" + _THE + r"(?:(?:{lit})[\s,]+(?:and\s+)?)+light" + _END),
    ("mood", r"(?:with|in)\s+an?\s+(?:[\w-]+\s+){{1,3}}(?:{moods})"),
    ("view", r"(?:in|with)\s+(?:[\w-]+\s+){{0,2}}(?:{lenses})"),
    ("view",
     r"with\s+" + _THE + r"(?:soft(?:ly)?\s+)?(?:blurred|blurry|bokeh|unfocused|"
     r"out[\s-]of[\s-]focus)\s+background"),
    ("view",
     r"(?:(?:seen|viewed|shot|taken|photographed|pictured|looking|captured)\s+)?from\s+" + _THE
     + r"(?:{viewpoints})" + _END),
    ("view", r"at\s+eye[\s-]+level"),
    ("style",
     r"(?:in|as)\s+" + _THE + r"(?:black\s+and\s+white|sepia|monochrome|gr[ae]yscale)" + _END),
    ("medium", r"(?:in|as)\s+" + _THE + r"(?:{rendered_in})"),
    ("aspect",
     _NO_TIME + r"(?:aspect\s+ratio\s+(?:of\s+)?)?\b\d{{1,2}}:\d{{1,2}}\b"
     r"(?:\s+aspect\s+ratio)?"),
)  # fmt: skip
_ENDS = (
    rf"\b(?!\s+of\b(?!\s+(?:the\s+)?(?:{_ANY['time']}))|[-'’]"
    r"|\s+(?:sky|scene|light|clothes|gear|hat|coat|forest|jacket|boots)\b)"
)
"""No such phrase goes on: "in the night sky", "in a storm of paper"."""
_SETTINGS = re.compile(
    r"\b(?:"
    + "|".join(f"(?P<p{at}>{said.format(**_ANY)})" for at, (_, said) in enumerate(_PHRASES))
    + f"){_ENDS}",
    re.IGNORECASE,
)
_ASPECT = re.compile(r"(?:--|—)\s?(?:ar|aspect)\s+\S+|(?:--|—)[wh]\s+\d+", re.IGNORECASE)


_OPENS = re.compile(r"(?:^|[,.;:!?])\s*$")
_FOLLOWS = re.compile(r"\s+([a-z][\w'’-]*)")


def settings_of(text: str) -> Iterator[tuple[int, int, GlobalKind]]:
    """Yield the places of phrases such as "at night" and "on a rainy day", with their kind."""
    for match in _SETTINGS.finditer(text):
        after = _FOLLOWS.match(text, match.end())
        if after is not None and not _OPENS.search(text, 0, match.start()):
            word, one = after[1], singular(after[1])
            deed = rough(word) in ("verb", "weak") and verb_base(word) != one != word
            if (deed or rough(word) in ("noun", "either")) and not _makes_style(word):
                # "In the rain forest".
                continue
        kind, said = _PHRASES[int((match.lastgroup or "p0")[1:])]
        known = _WORDS["weather"].intersection(re.findall(r"[\w-]+", match[0].lower()))
        if kind == "weather" and "{day}" in said and not known:
            kind = "time"
        yield match.start(), match.end(), kind


def is_aspect(option: str) -> bool:
    """Return whether an option of a drawing program is a format of the picture."""
    return _ASPECT.fullmatch(option) is not None


def style_of(text: str, start: int, end: int) -> Global | None:
    """Return what the phrase of style from ``start`` to ``end`` says; None if it says nothing."""
    said = text[start:end].strip(" ,.;:!")
    low = said.lower().replace("close up", "close-up").split()
    while low and (rough(low[0]) in ("article", "and") or low[0] in ("of", "this")):
        low.pop(0)
        said = said.partition(" ")[2].strip()
    while low and (low[-1] in _LAST or rough(low[-1]) == "and"):
        low.pop()
        said = said.rpartition(" ")[0].strip()
    if not said or all(rough(word) in _BARE or word == "scene" for word in low):
        return None
    named = any(word[:1].isupper() for word in said.split()[1:])
    if low[0] == "by" or " by " in f" {' '.join(low)} " or ("style" in low and named):
        return Global(kind="artist", text=said)
    if " ".join(low) in _TIMES:
        return Global(kind="time", text=said)
    if low[-1] in _HUES:
        return Global(kind="style", text=said)
    if _is_painted(low):
        return Global(kind="medium", text=said)
    of_style = " style of " in f" {' '.join(low)} "
    for word in reversed(low):
        for kind, group in _WORDS.items():
            if of_style and kind not in ("medium", "view", "quality"):
                continue
            if word.strip(",") in group or singular(word.strip(",")) in group:
                return Global(kind=kind, text=said)
    if any(one in _TIMES for one in low):
        return Global(kind="time", text=said)
    return Global(kind="style", text=said)


_ASKS = words("frames", "asks")
_WANTS = frozenset(phrases("frames", "wants"))
_DETERMINES = frozenset({"article", "determiner", "number", "possessive"})


def without_request(said: Sequence[str]) -> list[str]:
    """Return the words of a caption without what asks for it: "please draw me", "I want".

    >>> without_request("Please draw me a fox".split())
    ['a', 'fox']
    """
    lower = [word.lower() for word in said]
    at = 0
    while size := next((n for n in range(4, 0, -1) if tuple(lower[at : at + n]) in _WANTS), 0):
        at += size
    asked = at < len(lower) and lower[at] in _ASKS
    step = at + asked
    if not step or step >= len(lower):
        return list(said)
    to_whom = lower[step] in ("me", "us")
    only_deed = asked and "NOUN" not in parts_of_speech(lower[at])
    if asked and not (to_whom or only_deed or rough(lower[step]) in _DETERMINES):
        return list(said[at:])
    return list(said[step + to_whom :])


_BARE = frozenset({"article", "preposition", "and"})
_LAST = frozenset(
    {"of", "showing", "shows", "depicting", "from", "featuring", "a", "an", "the", "with", "in"}
)


def without_style(words: Sequence[str], first: bool = True) -> list[str]:
    """Return ``words`` of a sentence without phrases of style; commas between the rest stay.

    ``first`` tells whether the sentence begins the caption.
    """
    kept: list[str] = []
    names = styled = aside = False
    fragments: list[list[str]] = [[]]
    for word in words:
        if word == ",":
            fragments.append([])
        else:
            fragments[-1].append(word)
    fragments = [fragment for fragment in fragments if fragment]
    for at, fragment in enumerate(fragments):
        if names and all(word[:1].isupper() or rough(word) in ("noun", "and") for word in fragment):
            continue
        if styled and at and (_is_name(fragment) or _is_look(fragment)):
            continue
        begins = first and at == 0
        rest = _without_tail(_without_maker(_without_lead(fragment, begins or len(fragment) > 2)))
        names = names or (len(fragment) > len(rest) and "by" in map(str.lower, fragment))
        alone = not first and len(fragments) == 1 and 1 < len(rest) < 5 and _is_alone(rest)
        if not rest or alone or _is_style(rest, begins) or _is_setting(rest):
            styled, aside = styled or not begins, bool(kept)
            continue
        if kept:
            # What follows a phrase of style goes on with no list before it.
            kept.append(BREAK if aside else ",")
        aside = False
        kept.extend(rest)
    return kept


def _is_name(words: Sequence[str]) -> bool:
    """Return whether words after a phrase of style are but a name: "makoto shinkai"."""
    if len(words) > 3 or any(not word.isalpha() for word in words):
        return False
    return all(
        rough(word.lower()) == "noun"
        and not is_animate(word)
        and (word[:1].isupper() or not parts_of_speech(word.lower()))
        for word in words
    )


def _is_look(words: Sequence[str]) -> bool:
    """Return whether words after a phrase of style say how all of it looks: "smooth"."""
    lower = [word.lower() for word in words]
    if all(rough(word) in ("adjective", "and", "adverb") for word in lower):
        return True
    hues = lower[-1] in _HUES and all(
        rough(word) in ("adjective", "either", "noun") for word in lower
    )
    return len(lower) < 4 and hues


_HUES = frozenset({"color", "colors", "colour", "colours", "tones", "hues", "shades", "palette"})
_OF = frozenset({"of", "showing", "shows", "depicting", "from", "featuring"})
_LONGEST_LEAD = 9
_NAMING = frozenset({"noun", "either", "weak", "adjective", "adverb", "participle", "number"})


def _without_lead(words: list[str], whole: bool = True) -> list[str]:
    """Return the words without "a photo of" or "a military diagram of" at their beginning."""
    lower = [word.lower() for word in words[: _LONGEST_LEAD + 1]]
    named = False
    for at, word in enumerate(lower[:_LONGEST_LEAD] if whole else ()):
        head, after = lower[at - 1], lower[at + 1] if at + 1 < len(lower) else ""
        # "A scene with a city".
        scene = word == "with" and head in ("scene", "view", "image", "picture")
        scene = scene and rough(after) in _DETERMINES
        if word in LEADS or singular(word) in LEADS or words[at - 1 : at + 1] == ["close", "up"]:
            named = True
        elif named and (word in _OF or scene):
            return words[at + 1 :]
        elif word not in _LEAD_ADJECTIVES and not _YEARS.fullmatch(word):
            break
    for at, word in enumerate(lower[:_LONGEST_LEAD] if whole else ()):
        if at and word in _OF and singular(lower[at - 1]) in _PICTURES:
            return words[at + 1 :]
        opens = at == 0 and word in ("a", "an", "the", "this")
        if not opens and rough(word) not in _NAMING:
            break
    return words


_STYLES = frozenset({"article", "noun", "adjective", "either", "weak", "participle"})
_STYLE_LEADS = (("in", "the", "style", "of"), ("in", "style", "of"), ("style", "of"))


def _without_maker(words: list[str]) -> list[str]:
    """Return the words without "by NAME" or "in the style of NAME" at their end."""
    lower = [word.lower() for word in words]
    for at, word in enumerate(lower):
        if word == "by" and at + 1 < len(words):
            named = words[at + 1][:1].isupper() and (
                rough(lower[at + 1]) == "noun" or all(w[:1].isupper() for w in words[at + 1 :])
            )
            if at and lower[at - 1] in _MAKERS and (named or rough(lower[at + 1]) == "noun"):
                return words[: at - 1]
            if named and (at == 0 or rough(lower[at - 1]) not in ("participle", "ing", "be")):
                return words[:at]
            if at == 0 or lower[at - 1] in STYLE:
                return words[:at]
            if len(words) > at + 2 and all(
                rough(one) in ("noun", "and") and not parts_of_speech(one)
                for one in lower[at + 1 : at + 3]
            ):
                # "by greg rutkowski": names of no dictionary.
                return words[:at]
        if any(tuple(lower[at : at + len(lead)]) == lead for lead in _STYLE_LEADS):
            return words[:at]
        if word != "in" or not at:
            continue
        for end in range(at + 2, min(at + 6, len(lower) + 1)):
            # "In a cartoon style".
            last = lower[end - 1]
            styled = last in ("style", "styles", "aesthetic") or last.endswith("-style")
            if styled and lower[end : end + 1] != ["of"]:
                return [*words[:at], *words[end:]]
            if styled or rough(last) not in _STYLES:
                break
    return words


def _without_tail(words: list[str]) -> list[str]:
    """Return the words without "digital art" or "trending on artstation" at their end."""
    lower = [word.lower() for word in words]
    for at in range(1, len(words)):
        opens = rough(lower[at - 1]) in ("article", "preposition", "possessive", "number", "have")
        if not opens and any(tuple(lower[at : at + len(tail)]) == tail for tail in _TAILS):
            return words[:at]
    if len(lower) < 2 or lower[-1] not in _PICTURES or singular(lower[-1]) != lower[-1]:
        return words
    # "Two dogs photo": a medium stands after a plural, or a number that it does not go with.
    if singular(lower[-2]) != lower[-2] and rough(lower[-2]) == "noun":
        return words if lower[-2] in PLURAL_MODIFIERS else words[:-1]
    at = len(lower) - 2
    while at and rough(lower[at]) in ("noun", "weak", "either", "adjective"):
        at -= 1
    counted = rough(lower[at]) == "number" and lower[at] not in ("one", "single")
    return words[:-1] if counted else words


_PAINTS = words("style", "paints")
_SUPPORTS = words("style", "supports")
_SHOT = frozenset({"shot", "taken", "filmed", "photographed", "captured", "rendered"})
_SMALL = frozenset({"adverb", "preposition", "and", "number", "adjective"})
_NO_STYLE = frozenset({"article", "possessive", "be", "ing", "verb", "have", "relative"})


def _is_style(words: Sequence[str], first: bool) -> bool:
    """Return whether a fragment says only how the picture is made; ``first`` begins the caption."""
    lower = [word.lower() for word in words]
    style = [_makes_style(word) for word in lower]
    if not first and lower[0] in _SITES and not is_animate(lower[-1]):
        return True
    if not first and lower[0] in _SHOT and len(lower) > 2 and rough(lower[1]) == "preposition":
        # "Shot on Kodak Portra 400".
        return True
    if not first and _is_painted(lower):
        return True
    if not first and lower[-1] in ("style", "aesthetic") and rough(lower[0]) != "article":
        return not any(rough(word) in ("be", "have", "ing", "relative") for word in lower)
    if any(rough(word) in _NO_STYLE and not made for word, made in zip(lower, style, strict=True)):
        return False
    small = [rough(word) in _SMALL for word in lower]
    named = any(s and not m for s, m in zip(style, small, strict=True))
    if named and all(s or m for s, m in zip(style, small, strict=True)):
        return not first or len(lower) > 1 or lower[0] not in ADJECTIVES
    if first or is_animate(lower[-1]):
        return False
    placed = any(rough(word) == "preposition" and word != "of" for word in lower)
    return (
        (style[-1] and not placed) or lower[0] in _MAKING or any(word in _SITES for word in lower)
    )


def _is_painted(lower: Sequence[str]) -> bool:
    """Return whether words say what a picture is painted with and on: "oil on canvas"."""
    if "on" not in lower or lower[-1] not in _SUPPORTS:
        return False
    paints = [
        word for word in lower[: lower.index("on")] if rough(word) not in ("and", "adjective")
    ]
    return bool(paints) and all(singular(word) in _PAINTS for word in paints)


def _is_alone(words: Sequence[str]) -> bool:
    """Return whether a sentence without a verb names but a medium: "marble statue"."""
    lower = [word.lower() for word in words if word.lower() not in ("a", "an")]
    named = all(rough(word) in ("noun", "either", "weak", "adjective") for word in lower)
    return named and bool(lower) and (lower[-1] in _ALONE or _makes_style(lower[-1]))


def _makes_style(word: str) -> bool:
    plain = word.replace(" ", "")
    return plain in STYLE or singular(plain) in STYLE or plain.endswith("-style")


def _is_setting(words: Sequence[str]) -> bool:
    """Return whether a fragment is but a time, a weather or a light: "golden hour", "foggy day"."""
    lower = [word.lower() for word in words if word.lower() not in ("a", "an", "the")]
    text = " ".join(lower)
    if text in _TIMES | _WEATHERS | _LIGHTS:
        return True
    if not lower or not 1 < len(lower) < 5:
        return False
    heads = _DAYS | _TIMES | _WEATHERS | _LIGHTS
    how = _WORDS["weather"] | _INTENSITY | _WORDS["mood"] | _SEASONS | {"very", "late", "early"}
    return lower[-1] in heads and all(word in how or rough(word) == "and" for word in lower[:-1])


def wishes_of(
    text: str, words: Sequence[str], plain: Sequence[str]
) -> Iterator[tuple[int, Global]]:
    """Yield the phrases of style that ``plain`` lacks of ``words``, with their places."""
    kept = set(map(id, plain))
    run: list[Word] = []
    for word in [*words, ","]:
        if isinstance(word, Word) and word != "," and id(word) not in kept:
            run.append(word)
        elif run:
            found = style_of(text, run[0].start, run[-1].end)
            if found is not None:
                yield run[0].start, found
            run = []
