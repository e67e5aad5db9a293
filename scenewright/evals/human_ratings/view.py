"""Views of rating pages: pictures by opaque addresses, texts and keys, without arms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from scenewright.evals.human_ratings.store import Progress, Rater, Showing
from scenewright.evals.human_ratings.study import (
    ASPECTS,
    FACT_VALUES,
    POINTS,
    TIE,
    UNFIT,
    WHOLE,
    Aspect,
    RatingStudy,
    void_facts,
)

FactState = Literal["open", "answered", "void"]
ORIGINAL, CROP = "original", "crop"
TIE_KEYS = ("0", "=")
"""Keys that say that two pictures do not differ; the first is shown."""
FACT_KEYS = {"yes": ("y", "1"), "no": ("n", "2"), "cannot tell": ("?", "c", "3")}
"""What a rater may say of a fact → keys that say it, the one that the page shows first."""


View = dict[str, Any]
"""What a template shows: a page, a statement, a question about an object, or a button.

A button has its form ``value``, a ``label``, the ``shortcuts`` that press it (the first is shown),
the address of its ``picture``, and whether it was ``chosen`` before.
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
    done: bool = False,
) -> View:
    """Return the page of ``showing``.

    ``values`` are the rater's answers there; ``current`` is the index of the fact that keys answer;
    ``following`` is the next place, whose pictures are preloaded.
    """
    task, number = showing.task, showing.number
    pictures = pictures_of(showing)
    choice = study.kind == "choice"
    # Words that are not needed to choose would slow the rater down.
    worded = not (choice and task.original is not None) and study.kind != "facts"
    return {
        "kind": study.kind_of(task),
        "question": study.asked(task),
        "number": number,
        "progress": progress,
        "address": address_of(rater, number),
        "previous": address_of(rater, number - 1) if number > 1 else "",
        "following": end_of(rater) if following is None else address_of(rater, number + 1),
        "original": pictures[-1] if task.original is not None else "",
        "picture": "" if choice else pictures[0],
        "prompt": task.prompt if worded else "",
        "phrases": task.phrases if worded and not task.prompt else (),
        "choices": _choices(study, showing, values.get(WHOLE)),
        "tie": _tie(values.get(WHOLE)) if study.may_tie(task) else None,
        "facts": _facts(study, showing, values, current),
        "scale": study.scale,
        "preload": () if following is None else pictures_of(following),
        "done": done,
    }


def _choices(study: RatingStudy, showing: Showing, said: str | None) -> tuple[View, ...]:
    kind = study.kind_of(showing.task)
    if kind in ("facts", "objects"):
        return ()
    pictures = pictures_of(showing) if kind == "choice" else ()
    most = len(showing.slots) if kind == "choice" else POINTS
    return tuple(
        {
            "value": str(n),
            "label": f"Candidate {n}" if pictures else str(n),
            "shortcuts": (str(n),),
            "picture": pictures[n - 1] if pictures else "",
            "chosen": said == str(n),
        }
        for n in range(1, most + 1)
    )


def _tie(said: str | None) -> View:
    return {"value": TIE, "label": "No difference", "shortcuts": TIE_KEYS, "chosen": said == TIE}


def _facts(
    study: RatingStudy, showing: Showing, values: Mapping[str, str], current: int | None
) -> tuple[View, ...]:
    if study.kind != "facts":
        return ()
    void = void_facts(showing.task.facts, values)
    found = []
    for at, fact in enumerate(showing.task.facts):
        said = values.get(fact.id)
        state: FactState = "void" if fact.id in void else "open" if said is None else "answered"
        choices = tuple(
            {
                "value": f"{at + 1}:{value}",
                "label": value,
                "shortcuts": FACT_KEYS[value] if at == current else (),
                "chosen": said == value and state != "void",
            }
            for value in FACT_VALUES
        )
        found.append(
            {
                "number": at + 1,
                "statement": fact.statement,
                "state": state,
                "current": at == current,
                "choices": choices,
            }
        )
    return tuple(found)


TITLES: dict[Aspect, str] = {
    "shape": "Shape and structure",
    "texture": "Texture, color and shade",
}
"""What each aspect means, in the words of the paper's prompts (Liang et al., Sec. 4)."""
ANCHORS = ("not real at all", "mostly wrong", "partly right", "nearly real", "as in a photo")
"""What the scores from 1 to 5 mean."""
UNFIT_KEYS = ("x", "0", "?")
"""Keys that take an object out; the first is shown."""


def object_view(
    showing: Showing, values: Mapping[str, str], current: int | None, view: View
) -> View:
    """Return the view of the object of ``showing``, with the rater's ``values``.

    ``current`` is the index of the question that keys answer. A finished place shows its last
    question first, so that a wrong key can be corrected.
    """
    thing = showing.task.thing
    assert thing is not None
    if current is None:
        current = len(ASPECTS) - 1 if view["done"] else 0
    out = values.get(WHOLE) == UNFIT
    aspects = tuple(
        {
            "number": n + 1,
            "title": TITLES[aspect],
            "current": n == current,
            "choices": tuple(
                {
                    "value": f"{n + 1}:{score}",
                    "label": str(score),
                    "shortcuts": (str(score),) if n == current else (),
                    "chosen": not out and values.get(aspect) == str(score),
                }
                for score in range(1, POINTS + 1)
            ),
        }
        for n, aspect in enumerate(ASPECTS)
    )
    left, top, right, bottom = thing.box
    return {
        "category": thing.category,
        "crop": pictures_of(showing)[-1],
        "size": thing.size,
        "box": (left, top, right - left, bottom - top),
        "aspects": aspects,
        "anchors": ANCHORS,
        "unfit": {
            "value": f"0:{UNFIT}",
            "label": "Not this object, or cannot tell",
            "shortcuts": UNFIT_KEYS,
            "chosen": out,
        },
        "previous": f"{view['address']}?fact={current}" if current else view["previous"],
    }
