"""Sentences about figures, from texts with fields.

A text is a format of :meth:`str.format` whose fields know figures:

====================  =========================================================================
``{x}``, ``{x:2}``    ``0.931 [0.902, 0.957]``, with 3 decimal places or those given
``{x:+}``             a difference, ``+0.012 [+0.003, +0.021]``
``{x:%}``, ``{x:%0}`` a share in percent, ``12.3 % [10.0, 14.9]``; of a bare number ``12 %``
``{x:pt}``            a difference of shares, ``+2.1 points [+0.4, +3.9]``; ``pts`` without sign
``{x:a|b|c}``         a, b or c where the interval is above 0, below 0, or neither; with the
                      decimal places that count before it where these are not 3: ``4|a|b|c``
``{flag:a|b}``        a where the flag is true, else b
``{names:and}``       ``a, b and c``; ``{names:,}`` with commas alone
``{n:#judge}``        ``1 judge``, ``3 judges``; ``{n:nth}`` ``2nd``; ``{id:short}`` a short name
``{none:…}``          a dash, but for ``a|b``
====================  =========================================================================
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from string import Formatter
from typing import Any

from scenewright.evals.statistics.estimates import Estimate, Measured, number
from scenewright.evals.statistics.figures import side_of_zero

_FIGURE = re.compile(r"(\+?)(%|pts?|)(\d?)")


class Sentences:
    """Texts by key, told with the values of their fields."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    @classmethod
    def of(cls, package: str, file: str, table: str) -> Sentences:
        """Return the texts in a ``table`` of the TOML ``file`` of ``package``."""
        return cls(_read(package, file)[table])

    def __call__(
        self, values: Mapping[str, Any], /, **when: bool | Mapping[str, Any] | Sequence[Any] | None
    ) -> tuple[str, ...]:
        """Return the sentences whose keys are told, in the order of the keys.

        A key with True is told with ``values``, one with a mapping with those of its own besides,
        and one with several mappings once for each.
        """
        found = []
        for key, told in when.items():
            if not told:
                continue
            each = told if isinstance(told, Sequence) else [told if told is not True else {}]
            found += [say(self._texts[key], {**values, **one}) for one in each]
        return tuple(found)


def say(text: str, values: Mapping[str, Any]) -> str:
    """Return ``text`` with the fields filled in, on one line."""
    return " ".join(_WORDS.vformat(text, (), values).split())


@cache
def _read(package: str, file: str) -> dict[str, dict[str, str]]:
    return tomllib.loads(files(package).joinpath(file).read_text(encoding="utf-8"))


class _Words(Formatter):
    def format_field(self, value: Any, spec: str) -> str:
        if isinstance(value, Measured):
            return in_words(value, spec)
        if "|" in spec:
            return spec.split("|")[0 if value else 1]
        if value is None:
            return "–"
        if spec == "and":
            return joined(value)
        if spec == ",":
            return ", ".join(value)
        if spec == "short":
            return short_name(value)
        if spec == "nth":
            return ordinal(value)
        if spec.startswith("#"):
            return f"{value} {spec[1:]}{'s' if value != 1 else ''}"
        if spec.startswith("%"):
            return f"{number(100.0 * value, int(spec[1:] or 0))} %"
        if isinstance(value, float) and spec.isdecimal():
            return number(value, int(spec))
        return str(super().format_field(value, spec))


_WORDS = _Words()


def in_words(figure: Measured, spec: str = "") -> str:
    """Return a figure by the ``spec`` of a field."""
    found = figure if isinstance(figure, Estimate) else Estimate(**figure.model_dump())
    ways = spec.split("|")
    if len(ways) > 1:
        digits, *words = ways if len(ways) == 4 else ("3", *ways)
        return words[{1: 0, -1: 1, 0: 2}[side_of_zero(found, int(digits))]]
    told = _FIGURE.fullmatch(spec)
    if told is None:
        raise ValueError(f"unknown format {spec!r} of a figure")
    plus, unit, digits = told.groups()
    if not unit:
        return found.text(int(digits or 3), sign=bool(plus))
    shown = found.times(100.0).text(int(digits or 1), sign=unit == "pt")
    value, _, interval = shown.partition(" [")
    if found.value is None:
        return value
    return value + (" %" if unit == "%" else " points") + (f" [{interval}" if interval else "")


def joined(parts: Sequence[str]) -> str:
    """Return ``a, b and c``."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def ordinal(n: int) -> str:
    """Return ``2nd``."""
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def short_name(name: str) -> str:
    """Return the part of an id that distinguishes it from others, for axes."""
    return name.rsplit("/", 1)[-1].rsplit(":", 1)[-1]


def short_names(ids: Iterable[str]) -> tuple[str, ...]:
    """Return ids without the account and folder before the name, if all stay different."""
    known = tuple(ids)
    for marks in ("/:", ":"):
        shown = tuple(one[max(map(one.rfind, marks)) + 1 :] or one for one in known)
        if len(set(shown)) == len(known):
            return shown
    return known
