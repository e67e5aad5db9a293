"""Templates of the run page and its drawings."""

from __future__ import annotations

import functools
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from scenewright.runs.report import words

_FILTERS = (
    "author", "begun", "card_score", "changes_line", "complexity_line", "count",
    "covered_score", "drawing_line",
    "duration",
    "file_stem", "isoformat", "verdict_mark", "method_words", "money", "percent", "score",
    "selected_line", "settled_line", "shorten", "signed", "steps", "timestamp", "tool_call",
)  # fmt: skip
"""Functions of :mod:`.words` that templates use as filters."""


@functools.cache
def environment() -> Environment:
    """Return the environment of the templates."""
    found = Environment(
        loader=PackageLoader("scenewright.runs.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {name: getattr(words, name) for name in _FILTERS}
    found.globals |= {
        "symbols": words.SYMBOLS,
        "meanings": words.MEANINGS,
        "certainty": words.certainty_line(),
    }
    return found


def render(template: str, **given: Any) -> str:
    """Return the text of ``template`` with these variables."""
    return environment().get_template(template).render(given)
