"""DSG-1k (Cho et al., "Davidsonian Scene Graph", ICLR 2024): prompts with human-checked facts.

Read as released: a CSV file with one fact a row (``dsg-1k-anns.csv``; ``tifa160-dev-anns.csv`` has
the same columns). An item's facts are its questions, all yes/no, each with the questions it
depends on as parents; its scene is made of all tuples (:mod:`.dsg_scene`), also of those whose
question cannot be asked.

Slips of the release, counted in ``left_out``: a fact without a question, or whose question does
not take yes or no; a number that is given twice; a dependency on a word, on a question that is not
there, on itself, or in a circle. Where a parent was left out, its own parents stand in for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from scenewright.core.facts import Fact
from scenewright.core.formats.published_questions import read_tuple
from scenewright.core.scene import SceneGraph
from scenewright.evals.datasets.base import DatasetError, Item
from scenewright.evals.datasets.captions import PARSES, said_of
from scenewright.evals.datasets.dsg_scene import WHOLE, Meaning, scene_of_tuples
from scenewright.evals.datasets.reading import Row, one_of, published_file, rows_of
from scenewright.evals.datasets.stream import StreamedSet, make_item

VERSION = 1
NAME = "dsg"
FILE = "dsg-1k-anns.csv"
KINDS_OF_PROMPTS: dict[str, str] = {
    "tifa160": "Assorted",
    "stanford_paragraph": "Paragraphs",
    "localized_narratives": "Paragraphs",
    "countbench": "Counting",
    "vrd": "Relations",
    "diffusiondb": "Written by users",
    "midjourney": "Written by users",
    "posescript": "Poses",
    "whoops": "Against common sense",
    "drawtext": "Text rendering",
}
"""Source of a prompt → group of the item; the source is its category."""
_COLUMNS = (
    *("item_id", "text", "proposition_id", "dependency", "category_broad", "tuple"),
    "question_natural_language",
)
_ASKS_YES_OR_NO = frozenset(
    {"is", "are", "am", "was", "were", "do", "does", "did", "has", "have", "had", "can", "will"}
)

NO_QUESTION = "fact without a question"
NOT_BINARY = "question that does not take yes or no"
TWICE = "number of a fact given twice"
NO_NUMBER = "dependency that is no number"
LOST = "dependency on a question that is not there"
ITSELF = "question that depends on itself"
CIRCLE = "dependency in a circle"


def load(path: Path | None, *, split: str = "", parse: str = "tuples") -> StreamedSet:
    """The prompts of the release; ``path`` is the file or its folder.

    ``split`` keeps the prompts of one source, such as ``whoops``. ``parse`` says where scenes come
    from: ``tuples``, ``rules`` (of the prompt) or ``none``. Raises ``DatasetError`` for a file of
    another form, here or on iteration.
    """
    one_of("parse", parse, ("tuples", *PARSES))
    file = published_file(path, FILE, NAME)
    return StreamedSet(
        partial(_entries, file, split, parse),
        name=NAME,
        version=VERSION,
        options={"split": split, "parse": parse},
        files=lambda: [(file.name, file)],
    )


def _entries(file: Path, split: str, parse: str, left_out: Counter[str]) -> Iterator[Item]:
    found = False
    rows = rows_of(file, _COLUMNS)
    for item_id, group in groupby(rows, key=lambda entry: entry[1]["item_id"].strip()):
        source = item_id.rpartition("_")[0]
        if split and source != split:
            continue
        found = True
        yield _item(item_id, source, list(group), parse, left_out)
    if not found:
        which = f"of the split {split!r}" if split else "at all"
        raise DatasetError(f"{file} has no prompts {which}: check the file and the option split")


def _item(
    item_id: str, source: str, rows: Sequence[tuple[str, Row]], parse: str, left_out: Counter[str]
) -> Item:
    place = rows[0][0]
    text = rows[0][1]["text"].strip()
    scene, facts = facts_of_rows(rows, left_out)
    said: dict[str, Any] = {"prompt": text, "scene": scene}
    if parse != "tuples":
        said = said_of(text, parse)
    return make_item(
        place,
        id=item_id,
        facts=facts,
        group=KINDS_OF_PROMPTS.get(source, ""),
        category=source,
        **said,
    )


def facts_of_rows(
    rows: Sequence[tuple[str, Row]], left_out: Counter[str]
) -> tuple[SceneGraph | None, tuple[Fact, ...]]:
    """The scene and the facts of one prompt, parents before their children.

    ``rows``: (place for messages, row) of each fact, with ``proposition_id``, ``dependency``,
    ``tuple`` and ``question_natural_language``. What is left out is counted in ``left_out``. Raises
    ``DatasetError`` for a number that is none.
    """
    asked = _asked(rows, left_out)
    scene, meanings = scene_of_tuples([read_tuple(row["tuple"]) for _, row in rows])
    known = {id(row): said for (_, row), said in zip(rows, meanings, strict=True)}
    parents = _parents(rows, asked, left_out)
    facts = tuple(
        _fact(rows[0][0], number, asked[number], known[id(asked[number])], parents[number])
        for number in _ordered(parents, left_out)
    )
    return scene, facts


def _asked(rows: Sequence[tuple[str, Row]], left_out: Counter[str]) -> dict[int, Row]:
    """Number → row of each fact that can be asked."""
    asked: dict[int, Row] = {}
    for place, row in rows:
        number = row["proposition_id"].strip()
        if not number.isdecimal():
            raise DatasetError(
                f"{place}: proposition_id is {number!r}: it must be a number; take the file as it "
                "was released"
            )
        words = row["question_natural_language"].split()
        if not words:
            left_out[NO_QUESTION] += 1
        elif words[0].lower() not in _ASKS_YES_OR_NO:
            left_out[NOT_BINARY] += 1
        elif int(number) in asked:
            left_out[TWICE] += 1
        else:
            asked[int(number)] = row
    return asked


def _parents(
    rows: Sequence[tuple[str, Row]], asked: dict[int, Row], left_out: Counter[str]
) -> dict[int, tuple[int, ...]]:
    """Number of each fact that is asked → those it depends on."""
    written: dict[int, list[int]] = {}
    for _, row in rows:
        number = int(row["proposition_id"])
        if number not in written:
            written[number] = _numbers(number, row["dependency"], left_out)
    found: dict[int, tuple[int, ...]] = {}
    for number in asked:
        kept: dict[int, None] = {}
        seen = {number}
        waiting = list(reversed(written[number]))
        while waiting:
            parent = waiting.pop()
            if parent in seen:
                continue
            seen.add(parent)
            if parent in asked:
                kept[parent] = None
            elif parent in written:
                waiting += reversed(written[parent])
            else:
                left_out[LOST] += 1
        found[number] = tuple(kept)
    return found


def _numbers(number: int, text: str, left_out: Counter[str]) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        if not part.strip().isdecimal():
            left_out[NO_NUMBER] += 1
        elif int(part) == number:
            left_out[ITSELF] += 1
        elif int(part):
            found.append(int(part))
    return found


def _ordered(parents: dict[int, tuple[int, ...]], left_out: Counter[str]) -> list[int]:
    """All numbers, parents before children, else as they were; circles are cut in ``parents``."""
    done: dict[int, None] = {}
    open_: dict[int, None] = {}

    def visit(number: int) -> None:
        open_[number] = None
        kept = []
        for parent in parents[number]:
            if parent in open_:
                left_out[CIRCLE] += 1
                continue
            kept.append(parent)
            if parent not in done:
                visit(parent)
        parents[number] = tuple(kept)
        del open_[number]
        done[number] = None

    for number in parents:
        if number not in done:
            visit(number)
    return list(done)


def _fact(
    place: str, number: int, row: Row, meaning: Meaning | None, parents: tuple[int, ...]
) -> Fact:
    question = row["question_natural_language"].strip()
    said = meaning or Meaning("attribute", WHOLE, row["tuple"].strip() or question)
    try:
        return Fact(
            id=str(number),
            kind=said.kind,
            subject=said.subject,
            target=said.target,
            predicate=said.predicate,
            key=said.key,
            value=said.value,
            parents=tuple(map(str, parents)),
            statement=said.statement,
            question=question,
        )
    except ValueError as error:
        raise DatasetError(f"{place}: fact {number}: {error}") from error
