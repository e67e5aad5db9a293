"""Typed questions as a map, and their answers as one: the form of System One and of Gemini."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scenewright.agents.judges.decisions.asking import Kind, Question
from scenewright.agents.judges.decisions.reading import JsonObject, RawAnswer, of_type, shown

_NAME_DIGITS = 8
_KINDS: Mapping[str, Kind] = {"noul": "yes_no", "choice": "choice", "score": "score"}


def put(
    question: Question, *, true: str = "true", false: str = "false", blank: str | None = None
) -> dict[str, Any]:
    """``question`` as a value of the map.

    ``true``, ``false``: the keys of the criteria of a yes/no question, which has some only where it
    is turned round. ``blank``: what stands for an option that has no description.
    """
    asked: dict[str, Any] = {"instructions": question.text}
    if question.kind == "yes_no":
        first, second = question.values
        # Turned round: its "true" is that the answer is no.
        criteria = {} if first == "yes" else {"criteria": {true: first, false: second}}
        return {**asked, "type": "noul", **criteria}
    if question.kind == "choice":
        options = {value: told or blank for value, told in question.options}
        return {**asked, "type": "choice", "criteria": options}
    return {**asked, "type": "score", "criteria": [label for _, label in question.options]}


def raws_of(answers: JsonObject) -> list[RawAnswer]:
    """The answers of a map ``{name: {noul | choice | score, …}}``; a name that stands there more
    than once is answered more than once."""
    found = []
    for name, answer in answers.items():
        raw = _taken(name, answer)
        found += [raw, raw] if name in answers.repeated else [raw]
    return found


def picture_name(digest: str, text: str) -> str:
    """A name for the picture of that ``digest`` (hex) that does not stand in ``text``.

    It is replaced by the picture wherever it stands, inside words too. The same picture has the
    same name, so that prefixes are alike.
    """
    digits = _NAME_DIGITS
    while f"<img-{digest[:digits]}>" in text and digits < len(digest):
        digits += 1
    return f"<img-{digest[:digits]}>"


def _taken(name: str, answer: object) -> RawAnswer:
    if not isinstance(answer, Mapping):
        return RawAnswer(name, problem=f"answered {shown(answer)}")
    said = answer.get("type")
    if said is None:
        said = next((one for one in _KINDS if one in answer), None)
    kind, raw = of_type(name, said, _KINDS)
    if kind is None:
        return raw
    if kind == "yes_no":
        return replace(raw, shares=(("", answer.get("noul")),))
    given = answer.get("probabilities")
    if not isinstance(given, JsonObject):
        return replace(raw, problem=f"gave as probabilities {shown(given)}")
    if given.repeated:
        return replace(raw, problem=f"gave two probabilities to {min(given.repeated)!r}")
    choice = answer.get("choice") if kind == "choice" else None
    return replace(raw, shares=tuple(given.items()), choice=choice)
