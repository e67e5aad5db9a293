"""Templates of the reports' pages, and the style that they share with the run page."""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined

from scenewright.evals.reporting.words import count, dollars, p_value, score, signed, whole
from scenewright.runs.report import words

POLICY = "default-src 'none'; img-src 'self' file: data:; style-src 'self' file: 'unsafe-inline'"
"""Content security policy of a page without scripts: nothing is loaded but what lies beside it.
Style attributes are those of drawings and of widths."""
POLICY_WITH_SCRIPTS = f"{POLICY}; script-src 'self' file:"
"""The same where the page's own script, and its data as scripts, are loaded from files."""


def asset(name: str) -> str:
    """The text of a file below ``reports/assets`` or, shared with the run page, ``page/assets``.

    Raises ``FileNotFoundError`` for any other.
    """
    for package in ("scenewright.evals.reporting", "scenewright.runs.report"):
        found = files(package).joinpath("assets", name)
        if found.is_file():
            return found.read_text(encoding="utf-8")
    raise FileNotFoundError(name)


def render(template: str, **given: Any) -> str:
    """The page of ``template`` with ``given``, all text escaped."""
    return _environment().get_template(template).render(**given)


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "dollars": dollars,
        "count": count,
        "score": score,
        "signed": signed,
        "whole": whole,
        "p_value": p_value,
    }
    environment.globals |= {"symbols": words.SYMBOLS, "meanings": words.MEANINGS}
    return environment
