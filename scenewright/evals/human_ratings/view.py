"""Views of rating pages: pictures by opaque addresses, texts and keys, without arms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scenewright.evals.human_ratings.store import Progress, Rater, Showing
from scenewright.evals.human_ratings.study import (
    TIE,
    UNFIT,
    WHOLE,
    Form,
    RatingStudy,
)

ORIGINAL, CROP = "original", "crop"
FACT_KEYS = {"yes": ("y", "1"), "no": ("n", "2"), "cannot tell": ("?", "c", "3")}
"""What a rater may say of a fact → keys that say it, the one that the page shows first."""
BESIDE = {
    TIE: ("No difference", ("0", "=")),
    UNFIT: ("Not this object, or cannot tell", ("x", "0", "?")),
}
"""Answers to the whole task beside candidates or scores → label and keys."""
TITLES: dict[str, str] = {
    "shape": "Shape and structure",
    "texture": "Texture, color and shade",
}
"""What each aspect means, in the words of the paper's prompts (Liang et al., Sec. 4)."""
ANCHORS = ("not real at all", "mostly wrong", "partly right", "nearly real", "as in a photo")
"""What the scores from 1 to 5 mean."""

View = dict[str, Any]
"""What a template shows: a page, one of several questions about a picture, or a button.

A button has its form ``value``, a ``label``, the ``shortcuts`` that press it (the first is shown),
and whether it was ``chosen`` before.
"""


def address_of(rater: Rater, number: int | None = None) -> str:
    """Return the address of place ``number``; without one, of the next open task."""
    return f"/r/{rater.key}" if number is None else f"/r/{rater.key}/{number}"


def end_of(rater: Rater) -> str:
    """Return the address of the page after the last place."""
    return f"/r/{rater.key}/end"


def pictures_of(showing: Showing) -> tuple[str, ...]:
    """Return the addresses of the candidates in their order, then of the original and the crop."""
    places = [f"/picture/{showing.token}/{at}" for at in range(1, len(showing.slots) + 1)]
    if showing.task.original is not None:
        places.append(f"/picture/{showing.token}/{ORIGINAL}")
    if showing.task.thing is not None:
        places.append(f"/picture/{showing.token}/{CROP}")
    return tuple(places)


def picture_at(showing: Showing, slot: str) -> str | None:
    """Return the content hash of the picture at the address that ends in ``slot``, or None."""
    if slot == ORIGINAL:
        return showing.task.original
    if slot == CROP:
        return None if showing.task.thing is None else showing.task.thing.crop
    if not slot.isascii() or not slot.isdecimal() or not 1 <= int(slot[:9]) <= len(showing.slots):
        return None
    return showing.task.candidates[showing.slots[int(slot) - 1]].image


def task_view(
    study: RatingStudy,
    rater: Rater,
    showing: Showing,
    progress: Progress,
    values: Mapping[str, str],
    *,
    current: int | None = None,
    following: Showing | None = None,
) -> View:
    """Return the page of ``showing``.

    ``values`` are the rater's answers there; ``current`` is the index of the question that keys
    answer, by default the first open one; ``following`` is the next place, whose pictures are
    preloaded. A finished object shows its last question first, so that a wrong key can be
    corrected.
    """
    task, number, form = showing.task, showing.number, study.form(showing.task)
    objects, choice = form.kind == "objects", form.kind == "choice"
    pictures, address = pictures_of(showing), address_of(rater, number)
    if current is None:
        current = form.next_part(values)
    if current is None and form.parts:
        current = len(form.parts) - 1 if objects else 0
    # Words that are not needed to choose would slow the rater down.
    worded = not (choice and task.original is not None) and study.kind != "facts"
    previous = address_of(rater, number - 1) if number > 1 else ""
    view = {
        "kind": form.kind,
        "question": study.asked(task),
        "number": number,
        "progress": progress,
        "address": address,
        "previous": f"{address}?fact={current}" if objects and current else previous,
        "following": end_of(rater) if following is None else address_of(rater, number + 1),
        "original": pictures[-1] if task.original is not None else "",
        "pictures": pictures,
        "prompt": task.prompt if worded else "",
        "phrases": task.phrases if worded and not task.prompt else (),
        "parts": _parts(form, values, current),
        "scale": study.scale,
        "preload": () if following is None else pictures_of(following),
        "done": form.is_done(values),
        **_whole(form, values.get(WHOLE)),
    }
    if task.thing is not None:
        left, top, right, bottom = task.thing.box
        view |= {
            "category": task.thing.category,
            "crop": pictures[-1],
            "size": task.thing.size,
            "box": (left, top, right - left, bottom - top),
            "anchors": ANCHORS,
        }
    return view


def _button(value: str, label: str, shortcuts: tuple[str, ...], chosen: bool) -> View:
    return {"value": value, "label": label, "shortcuts": shortcuts, "chosen": chosen}


def _whole(form: Form, said: str | None) -> View:
    """Return the buttons for the task as a whole: ``choices``, and one ``beside`` them."""
    buttons, beside = [], None
    for value in form.allowed(WHOLE):
        if value in BESIDE:
            sent = f"0:{value}" if form.parts else value
            beside = _button(sent, *BESIDE[value], said == value)
        else:
            label = f"Candidate {value}" if form.kind == "choice" else value
            buttons.append(_button(value, label, (value,), said == value))
    return {"choices": tuple(buttons), "beside": beside}


def _parts(form: Form, values: Mapping[str, str], current: int | None) -> tuple[View, ...]:
    """Return the questions that are asked one after the other."""
    void = form.ignored(values)
    titles = {**TITLES, **{fact.id: fact.statement for fact in form.task.facts}}
    return tuple(
        {
            "number": at + 1,
            "title": titles[part],
            "state": "void" if part in void else "answered" if part in values else "open",
            "current": at == current,
            "choices": tuple(
                _button(
                    f"{at + 1}:{value}",
                    value,
                    FACT_KEYS.get(value, (value,)) if at == current else (),
                    values.get(part) == value and part not in void,
                )
                for value in form.allowed(part)
            ),
        }
        for at, part in enumerate(form.parts)
    )
