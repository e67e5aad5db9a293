"""TIFA v1.0 (Hu et al., ICCV 2023): prompts with questions and the answers that are expected.

Read as released: ``tifa_v1.0_text_inputs.json`` is a list of prompts (id, caption, and for captions
of COCO the number of their photo), ``tifa_v1.0_question_answers.json`` a list of questions (id of
the prompt, question, choices, answer, type of the element that is asked about). Questions are
yes/no or multiple choice; the choices become the fact's options and the answer what is expected.
None depends on another.

What is asked about becomes the fact's kind: things (object, animal, human, food, location,
counting) object; activity and spatial relation; color, material, shape, attribute and other
attribute. The subject is the object of the scene that the element names, else the element's words;
the type is the fact's key.

Counted in ``left_out``: a question whose answer is none of its choices, with fewer than two
different choices, or that is asked before of the same prompt; questions of a prompt that is not in
the list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from scenewright.core.facts import Fact, FactKind
from scenewright.core.inflection import singular
from scenewright.core.scene import SceneGraph
from scenewright.evals.datasets.base import Item
from scenewright.evals.datasets.captions import check_parse, said_of
from scenewright.evals.datasets.reading import json_list, published_file, text_of
from scenewright.evals.datasets.stream import StreamedSet, make_item

VERSION = 2
NAME = "tifa"
FILE = "tifa_v1.0_text_inputs.json"
QUESTIONS = "tifa_v1.0_question_answers.json"
KINDS: dict[str, FactKind] = {
    **dict.fromkeys(
        ("object", "animal", "human", "animal/human", "food", "location", "counting"), "object"
    ),
    **dict.fromkeys(("activity", "spatial"), "relation"),
}
"""Type of the element → kind of the fact; any other is an attribute."""
SOURCES: dict[str, str] = {
    "coco": "COCO",
    "drawbench": "DrawBench",
    "partiprompt": "PartiPrompts",
    "paintskill": "PaintSkills",
}
"""Beginning of an id → group of the item."""

WRONG_ANSWER = "question whose answer is none of its choices"
FEW_CHOICES = "question with fewer than two different choices"
TWICE = "question asked twice of a prompt"
NO_PROMPT = "question of a prompt that is not in the list"


def load(
    path: Path | None,
    *,
    parse: str = "rules",
    questions: str | None = None,
    images: str | None = None,
) -> StreamedSet:
    """The prompts of the release; ``path`` is the file of prompts or its folder.

    ``questions`` names the file of questions (a bare name: beside the prompts); by default the
    released one, if it is there. ``images`` is the folder of COCO's val2014 photos. ``parse``:
    ``rules`` or ``none``. Raises ``DatasetError`` for a file of another form, here or on iteration.
    """
    check_parse(parse)
    prompts = published_file(path, FILE, NAME)
    asked = _questions_file(prompts, questions)
    photos = None if images is None else Path(images).expanduser()
    files = [prompts] if asked is None else [prompts, asked]
    return StreamedSet(
        partial(_entries, prompts, asked, photos, parse),
        name=NAME,
        version=VERSION,
        options={"parse": parse, "questions": asked is not None, "images": photos is not None},
        files=lambda: [(file.name, file) for file in files],
    )


def _questions_file(prompts: Path, given: str | None) -> Path | None:
    if given is None:
        beside = prompts.with_name(QUESTIONS)
        return beside if beside.is_file() else None
    named = Path(given).expanduser()
    beside = prompts.with_name(given)
    return published_file(beside if beside.is_file() else named, QUESTIONS, NAME)


def _entries(
    prompts: Path, asked: Path | None, photos: Path | None, parse: str, left_out: Counter[str]
) -> Iterator[Item]:
    waiting = {} if asked is None else _by_prompt(asked)
    for place, entry in json_list(prompts):
        item_id = text_of(entry, "id", place)
        meta = {}
        number = text_of(entry, "coco_val_id", place, needed=False)
        if number:
            meta["coco_val_id"] = number
        said = said_of(text_of(entry, "caption", place), parse, meta)
        facts = facts_of_questions(waiting.pop(item_id, []), said.get("scene"), left_out)
        source = item_id.partition("_")[0]
        yield make_item(
            place,
            id=item_id,
            facts=facts,
            image=_photo(photos, number),
            group=SOURCES.get(source, source),
            **said,
        )
    for lost in waiting.values():
        left_out[NO_PROMPT] += len(lost)


def _by_prompt(file: Path) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    found: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for place, entry in json_list(file):
        kept = {key: entry.get(key) for key in _ASKED}
        found.setdefault(text_of(entry, "id", place), []).append((place, kept))
    return found


_ASKED = ("question", "choices", "answer", "element_type", "element")


def _photo(folder: Path | None, number: str) -> str | None:
    if folder is None or not number.isdecimal():
        return None
    for name in (f"COCO_val2014_{int(number):012d}.jpg", f"{int(number):012d}.jpg"):
        if (folder / name).is_file():
            return str(folder / name)
    return None


def facts_of_questions(
    asked: Sequence[tuple[str, dict[str, Any]]],
    scene: SceneGraph | None,
    left_out: Counter[str],
) -> tuple[Fact, ...]:
    """The facts of one prompt.

    ``asked``: (place for messages, entry) of each question, with ``question``, ``choices``,
    ``answer``, ``element_type`` and ``element``. What is left out is counted in ``left_out``.
    Raises ``DatasetError`` for a question that is no text.
    """
    facts: list[Fact] = []
    seen: set[tuple[str, str]] = set()
    for place, entry in asked:
        question = text_of(entry, "question", place)
        options = _choices(entry["choices"])
        answer = _plain(entry["answer"])
        if len(options) < 2:
            left_out[FEW_CHOICES] += 1
        elif answer not in options:
            left_out[WRONG_ANSWER] += 1
        elif (question, answer) in seen:
            left_out[TWICE] += 1
        else:
            seen.add((question, answer))
            element = text_of(entry, "element", place, needed=False)
            kind = text_of(entry, "element_type", place, needed=False)
            facts.append(
                Fact(
                    id=f"q{len(facts) + 1}",
                    kind=KINDS.get(kind, "attribute"),
                    subject=_subject(element, scene) or element or question,
                    key=kind or None,
                    statement=_statement(element or question, answer),
                    question=question[:1].upper() + question[1:],
                    options=options,
                    expected=answer,
                )
            )
    return tuple(facts)


def _plain(value: Any) -> str:
    """A choice as text; yes and no as the judges know them."""
    text = " ".join(str(value).split()) if isinstance(value, str | int | float) else ""
    return text.lower() if text.lower() in ("yes", "no") else text


def _choices(value: Any) -> tuple[str, ...]:
    given = value if isinstance(value, list) else []
    return tuple(dict.fromkeys(filter(None, map(_plain, given))))


def _subject(element: str, scene: SceneGraph | None) -> str | None:
    """Id of the object of ``scene`` that ``element`` names."""
    if scene is None or not element:
        return None
    words = singular(element.casefold())
    for item in scene.objects:
        if item.name.casefold() in (words, element.casefold()):
            return item.id
    padded = f" {words} "
    return next((o.id for o in scene.objects if f" {o.name.casefold()} " in padded), None)


def _statement(element: str, answer: str) -> str:
    return element if answer in ("yes", element) else f"{element}: {answer}"
