"""Questions in fewer words, for decision models, whose every word of a question is paid for.

A request of decisions is about one image, so that "in the image" says nothing; and a model that
estimates statements is given one. Only the package's own questions have a shorter form, any other
stays as it is. No answer changes its sense: :func:`restored` gives back the question.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Wording = Literal["short", "full"]


@dataclass(frozen=True, slots=True)
class _Form:
    """One kind of question, with ``{}`` for what it is about."""

    full: str
    """As :mod:`scenewright.core.questions` puts it, which for one object or one relation is the
    paper's own wording."""
    short: str
    """As a question of few words."""
    statement: str = ""
    """Its yes as a statement; empty where it is no yes/no question."""


_FORMS = (
    _Form("Is there {} in the image?", "Is there {}?", "There is {}."),
    _Form("Are there {} in the image?", "Are there {}?", "There are {}."),
    _Form("What is the relationship between {} in the image?", "How are {} related?"),
)


def shortened(question: str) -> tuple[str, str]:
    """Return ``question`` in fewer words and its yes as a statement, empty where it has none.

    A question of another form comes back as it is.
    """
    for form in _FORMS:
        about = _filled(form.full, question)
        if about is not None:
            return form.short.format(about), form.statement.format(about)
    return question, ""


def restored(text: str) -> str:
    """Return the whole question of a ``text`` that :func:`shortened` made; others as they are."""
    if any(_filled(form.full, text) for form in _FORMS):
        return text
    for form in _FORMS:
        for put in (form.short, form.statement):
            about = _filled(put, text) if put else None
            if about is not None:
                return form.full.format(about)
    return text


def _filled(form: str, text: str) -> str | None:
    """What stands in ``text`` for the blank of ``form``; None if it has another form."""
    before, after = form.split("{}")
    found = re.fullmatch(f"{re.escape(before)}(.+){re.escape(after)}", text, re.DOTALL)
    return None if found is None else found[1]
