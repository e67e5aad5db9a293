"""Published sets of prompts: GenEval, PartiPrompts, T2I-CompBench and TIFA.

**GenEval** (Ghosh et al., NeurIPS 2023): ``evaluation_metadata.jsonl``, one prompt a line.
``include`` lists classes with a count, perhaps a colour, perhaps a position relative to an earlier
entry; they become the scene, one object an instance. ``exclude`` lists classes of which there must
not be so many: the published evaluation counts exactly. A scene graph cannot say "no more", so such
an item has facts of its own: those of its scene and, last, ``Are there fewer than 3 clocks in the
image?`` The demands as released are kept in the item's ``meta``, for the metric ``geneval``.

**PartiPrompts** (Yu et al., 2022): ``PartiPrompts.tsv`` with columns Prompt, Category, Challenge
and Note, cells without quoting (a quotation mark is part of its prompt). The category is the item's
group, the challenge its category. Ids count the rows: ``p0001`` is the first.

**T2I-CompBench** (Huang et al., NeurIPS 2023): a folder of text files, one prompt a line. The name
of a file has its category and split: ``color_val.txt``, ``3d_spatial_train.txt``; ``color.txt``
without a split is the whole of a category. Categories are grouped as in the paper: attribute
binding, object relationships, numeracy, complex. Complex prompts that ``complex_val_spatial.txt``
or ``complex_val_action.txt`` list have no action, or no place, to be measured (``meta``).

**TIFA v1.0** (Hu et al., ICCV 2023): ``tifa_v1.0_text_inputs.json`` is a list of prompts (id,
caption, and for captions of COCO the number of their photo), ``tifa_v1.0_question_answers.json`` a
list of questions (id of the prompt, question, choices, answer, type of the element that is asked
about). Questions are yes/no or multiple choice; the choices become the fact's options and the
answer the expected one. None depends on another. The type becomes the fact's key and decides its
kind: things (object, animal, human, food, location, counting) object; activity and spatial
relation; color, material, shape, attribute and other attribute. The subject is the object of the
scene that the element names, else the element's words. Counted in ``left_out``: a question whose
answer is not among its choices, with fewer than two different choices, or asked before of the same
prompt; questions of a prompt that is not in the list.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, StringConstraints

from scenewright.core.facts import Fact, FactKind
from scenewright.core.formats.base import FormatError, build, numbered
from scenewright.core.inflection import plural, singular
from scenewright.core.questions import facts_of, object_fact_id
from scenewright.core.scene import SceneGraph
from scenewright.evals.datasets.base import (
    DatasetError,
    Item,
    StreamedSet,
    given_or_default,
    make_item,
)
from scenewright.evals.datasets.reading import (
    check_parse,
    checked,
    json_lines,
    json_list,
    lines_of,
    one_of,
    published_file,
    published_set,
    rows_of,
    said_of,
    text_of,
)

GENEVAL_VERSION = 2
GENEVAL_NAME = "geneval"
GENEVAL_FILE = "evaluation_metadata.jsonl"
GENEVAL_GROUPS: dict[str, str] = {
    "single_object": "single object",
    "two_object": "two objects",
    "counting": "counting",
    "colors": "colours",
    "position": "position",
    "color_attr": "attribute binding",
}
"""Tag → group of the item, as in the paper's tables."""
DEMANDS = "demands"
"""Key of an item's ``meta``: ``include`` and ``exclude`` as released, as JSON."""


def load_geneval(path: Path | None, *, exclude: str = "fact") -> StreamedSet:
    """Return the prompts of the release; ``path`` is the file or its folder.

    ``exclude``: ``fact`` asks what must not be there, ``meta`` only notes it in the item's
    ``meta``. Ids are the numbers of the published pictures' folders (``00000`` …). Raises
    ``DatasetError`` for a file of another form, here or on iteration.
    """
    one_of("exclude", exclude, ("fact", "meta"))
    return published_set(
        GENEVAL_NAME, GENEVAL_VERSION, path, GENEVAL_FILE, _geneval_items, exclude=exclude
    )


Words = Annotated[str, StringConstraints(strict=True, strip_whitespace=True, min_length=1)]


class _Demand(BaseModel):
    name: Words = Field(alias="class")
    count: int = Field(strict=True, ge=1, le=100)
    color: Annotated[str, StringConstraints(strict=True, strip_whitespace=True)] | None = None
    position: tuple[Words, Annotated[int, Field(strict=True, ge=0)]] | None = None
    """A relation and the number of an entry of ``include``."""


class _Demands(BaseModel):
    tag: Words
    prompt: Words
    include: list[_Demand] = []
    exclude: list[_Demand] = []


def _geneval_items(file: Path, exclude: str, left_out: Counter[str]) -> Iterator[Item]:
    for at, (place, entry) in enumerate(json_lines(file)):
        asked = checked(_Demands, entry, place)
        ids, scene = _scene(asked.include, place)
        banned = [(demand.name, demand.count) for demand in asked.exclude]
        facts: tuple[Fact, ...] = ()
        if banned and exclude == "fact":
            last = {one.name: own[-1] for one, own in zip(asked.include, ids, strict=True)}
            facts = (*facts_of(scene), *(_fewer(name, n, last) for name, n in banned))
        released = {key: entry[key] for key in ("include", "exclude") if entry.get(key)}
        said = "; ".join(f"{name} from {n}" for name, n in banned)
        yield make_item(
            place,
            id=f"{at:05d}",
            prompt=asked.prompt,
            scene=scene,
            facts=facts,
            group=GENEVAL_GROUPS.get(asked.tag, asked.tag),
            meta={"tag": asked.tag, DEMANDS: json.dumps(released, sort_keys=True)}
            | ({"exclude": said} if said else {}),
        )


def _scene(demands: list[_Demand], place: str) -> tuple[list[list[str]], SceneGraph]:
    """Return ids of the instances of each demand, and the scene."""
    fresh = iter(numbered(one.name for one in demands for _ in range(one.count)))
    ids = [[next(fresh) for _ in range(one.count)] for one in demands]
    objects: list[tuple[str, str, dict[str, str]]] = []
    relations: list[tuple[str, str, str, str]] = []
    for demand, own in zip(demands, ids, strict=True):
        color = {"color": demand.color} if demand.color else {}
        objects += [(each, demand.name, color) for each in own]
        if demand.position is not None:
            predicate, to = demand.position
            if to >= len(ids):
                raise DatasetError(
                    f"{place}: position is {list(demand.position)!r}: it must be a relation and "
                    'the number of an entry of include, such as ["left of", 0]'
                )
            relations += [(one, predicate, other, place) for one in own for other in ids[to]]
    try:
        return ids, build(objects, relations, place)
    except FormatError as error:
        raise DatasetError(str(error)) from error


def _fewer(name: str, number: int, last: dict[str, str]) -> Fact:
    """Return the fact that there are fewer than ``number`` things of a class."""
    many = plural(name)
    return Fact(
        id=f"x:{name}:{number}",
        kind="object",
        subject=last.get(name, name),
        parents=(object_fact_id(last[name]),) if name in last else (),
        statement=f"fewer than {number} {many}",
        question=f"Are there fewer than {number} {many} in the image?",
    )


PARTI_VERSION = 1
PARTI_NAME = "partiprompts"
PARTI_FILE = "PartiPrompts.tsv"
EMPTY = "row without a prompt"


def load_parti(path: Path | None, *, parse: str = "rules") -> StreamedSet:
    """Return the prompts of the release; ``path`` is the file or its folder.

    ``parse``: ``rules`` or ``none``. Raises ``DatasetError`` for a file of another form, here or on
    iteration.
    """
    check_parse(parse)
    return published_set(PARTI_NAME, PARTI_VERSION, path, PARTI_FILE, _parti_items, parse=parse)


def _parti_items(file: Path, parse: str, left_out: Counter[str]) -> Iterator[Item]:
    rows = rows_of(file, ("Prompt", "Category", "Challenge"), delimiter="\t", quoted=False)
    for at, (place, row) in enumerate(rows, 1):
        prompt = row["Prompt"].strip()
        if not prompt:
            left_out[EMPTY] += 1
            continue
        note = row.get("Note", "").strip()
        yield make_item(
            place,
            id=f"p{at:04d}",
            group=row["Category"].strip(),
            category=row["Challenge"].strip(),
            **said_of(prompt, parse, {"note": note} if note else {}),
        )


COMPBENCH_VERSION = 1
COMPBENCH_NAME = "t2i-compbench"
COMPBENCH_GROUPS: dict[str, str] = {
    **dict.fromkeys(("color", "shape", "texture"), "attribute binding"),
    **dict.fromkeys(("spatial", "3d_spatial", "non_spatial"), "object relationships"),
    "numeracy": "numeracy",
    "complex": "complex",
}
"""Category → group of the item."""
COMPBENCH_SPLITS = ("val", "train", "all")
THREE_IN_ONE = "three_in_one"
"""Key of a complex item's ``meta``: ``spatial`` or ``action``, where it has that alone."""
REPEATED = "prompt that its category has already"
_NAME = re.compile(r"(?P<category>.+?)(?:_(?P<split>train|val))?\.txt")


def load_compbench(
    path: Path | None,
    *,
    split: str = "val",
    categories: Sequence[str] | None = None,
    parse: str = "rules",
) -> StreamedSet:
    """Return the prompts of the folder ``path`` (or of one file), category by category.

    ``split``: ``val``, ``train``, or ``all`` (both, or the file without a split where a category
    has neither). ``categories``: those to read (default all). ``parse``: ``rules`` or ``none``. A
    prompt that its category has already is left out and counted. Raises ``DatasetError`` for a
    folder without such files, here or on iteration.
    """
    check_parse(parse)
    one_of("split", split, COMPBENCH_SPLITS)
    named = [categories] if isinstance(categories, str) else categories
    files = _files(path, split, named)
    beside = [lists for name, file in files for lists in _lists_beside(name, file).values()]
    read = [*(file for _, file in files), *beside]
    return StreamedSet(
        partial(_compbench_items, files, parse),
        name=COMPBENCH_NAME,
        version=COMPBENCH_VERSION,
        options={"split": split, "categories": sorted(named or ()), "parse": parse},
        files=lambda: [(file.name, file) for file in read],
        unique=True,
    )


def _files(
    path: Path | None, split: str, categories: Sequence[str] | None
) -> list[tuple[str, Path]]:
    """Return (category, file) of all files to read."""
    path = given_or_default(path, COMPBENCH_NAME)
    found: dict[str, dict[str, Path]] = {}
    for file in [path] if path.is_file() else sorted(path.iterdir()):
        match = _NAME.fullmatch(file.name)
        # Other text files lie beside them in the release.
        if match and (match["category"] in COMPBENCH_GROUPS or path.is_file()):
            found.setdefault(match["category"], {})[match["split"] or ""] = file
    if path.is_file():
        return [(name, file) for name, held in found.items() for file in held.values()]
    unknown = sorted(set(categories or ()) - set(found))
    if unknown:
        there = ", ".join(found) or "none"
        raise DatasetError(f"{path} has no category {unknown[0]!r}: it has {there}")
    chosen = []
    for category, held in found.items():
        if categories is not None and category not in categories:
            continue
        parts = ["val", "train"] if split == "all" else [split]
        files = [held[part] for part in parts if part in held]
        if not files and split == "all":
            files = list(held.values())
        chosen += [(category, file) for file in files]
    if not chosen:
        raise DatasetError(
            f"{path} has no files of the split {split}: it needs files such as color_{split}.txt"
        )
    return chosen


def _compbench_items(
    files: list[tuple[str, Path]], parse: str, left_out: Counter[str]
) -> Iterator[Item]:
    seen: set[str] = set()
    last = ""
    for category, file in files:
        if category != last:
            seen, last = set(), category
        alone = {
            _sentence(" ".join(line.split())): {THREE_IN_ONE: kind}
            for kind, listed in _lists_beside(category, file).items()
            for _, line in lines_of(listed)
        }
        for number, line in lines_of(file):
            prompt = " ".join(line.split())
            if prompt in seen:
                left_out[REPEATED] += 1
                continue
            seen.add(prompt)
            yield make_item(
                f"{file}, line {number}",
                id=f"{file.stem}-{number:05d}",
                group=COMPBENCH_GROUPS.get(category, ""),
                category=category,
                **said_of(prompt, parse, alone.get(_sentence(prompt))),
            )


def _lists_beside(category: str, file: Path) -> dict[str, Path]:
    """Return kind → list of the complex prompts of ``file`` that have that kind alone."""
    kinds = ("action", "spatial") if category == "complex" else ()
    places = {kind: file.with_name(f"{file.stem}_{kind}.txt") for kind in kinds}
    return {kind: place for kind, place in places.items() if place.is_file()}


def _sentence(prompt: str) -> str:
    return prompt.partition(".")[0].lower()


TIFA_VERSION = 2
TIFA_NAME = "tifa"
TIFA_FILE = "tifa_v1.0_text_inputs.json"
TIFA_QUESTIONS = "tifa_v1.0_question_answers.json"
TIFA_KINDS: dict[str, FactKind] = {
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


def load_tifa(
    path: Path | None,
    *,
    parse: str = "rules",
    questions: str | None = None,
    images: str | None = None,
) -> StreamedSet:
    """Return the prompts of the release; ``path`` is the file of prompts or its folder.

    ``questions`` names the file of questions (a bare name: beside the prompts); by default the
    released one, if it is there. ``images`` is the folder of COCO's val2014 photos. ``parse``:
    ``rules`` or ``none``. Raises ``DatasetError`` for a file of another form, here or on iteration.
    """
    check_parse(parse)
    prompts = published_file(path, TIFA_FILE, TIFA_NAME)
    asked = _questions_file(prompts, questions)
    photos = None if images is None else Path(images).expanduser()
    files = [prompts] if asked is None else [prompts, asked]
    return StreamedSet(
        partial(_tifa_items, prompts, asked, photos, parse),
        name=TIFA_NAME,
        version=TIFA_VERSION,
        options={"parse": parse, "questions": asked is not None, "images": photos is not None},
        files=lambda: [(file.name, file) for file in files],
    )


def _questions_file(prompts: Path, given: str | None) -> Path | None:
    if given is None:
        beside = prompts.with_name(TIFA_QUESTIONS)
        return beside if beside.is_file() else None
    named = Path(given).expanduser()
    beside = prompts.with_name(given)
    return published_file(beside if beside.is_file() else named, TIFA_QUESTIONS, TIFA_NAME)


def _tifa_items(
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
    """Return the facts of one prompt.

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
                    kind=TIFA_KINDS.get(kind, "attribute"),
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
    """Return a choice as text, with yes and no in the judges' form."""
    text = " ".join(str(value).split()) if isinstance(value, str | int | float) else ""
    return text.lower() if text.lower() in ("yes", "no") else text


def _choices(value: Any) -> tuple[str, ...]:
    given = value if isinstance(value, list) else []
    return tuple(dict.fromkeys(filter(None, map(_plain, given))))


def _subject(element: str, scene: SceneGraph | None) -> str | None:
    """Return id of the object of ``scene`` that ``element`` names."""
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
