"""Facts whose truth is known: what judges are measured on.

They come from the miniature world, where truth is exact
(:mod:`scenewright.evals.judge_reports.synthetic_facts`), or from a table that people filled in
(:func:`read_labels`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

from PIL import Image

from scenewright.agents.judges.replay import LIST_SEPARATOR, Row, Table, TableError, read_table
from scenewright.core.errors import ScenewrightError
from scenewright.core.facts import FACT_KINDS, STATED_KINDS, Fact, FactError, FactKind
from scenewright.core.images import load_image
from scenewright.core.questions import facts_of
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject

ABSENT = "absent"
"""Group of false premises: facts about a thing that is not in the picture."""
COLUMNS = (
    *("image", "question", "options", "expected", "holds", "kind", "fact_id", "group"),
    *("subject", "key", "value", "predicate", "target"),
)
"""The columns of a table of labels; see :func:`read_labels`."""

KINDS: tuple[FactKind, ...] = (*STATED_KINDS, "wish")
"""Kinds that a label may have."""
_TRUTH = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
_YES_NO = ("yes", "no")


class LabelError(ScenewrightError, ValueError):
    """Labels that cannot be used; names the file and the line or row."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that is loaded when it is needed."""

    name: str
    """Tells pictures apart: the file, or the number of the painting."""
    load: Callable[[], Image.Image]
    """Gives its pixels; may raise ``ImageError``."""


@dataclass(frozen=True, slots=True)
class LabelledFact:
    """A fact of a picture, and whether it holds."""

    picture: Picture
    """The picture that is asked about."""
    fact: Fact
    """What is asked; its id is its own among all facts of a set, and it has no parents."""
    holds: bool
    """The truth."""
    group: str = ""
    """What it is a case of: ``absent`` for a false premise; else free, or empty."""


def read_labels(path: str | Path) -> tuple[LabelledFact, ...]:
    """Return the labelled facts in a CSV or parquet file, in its order.

    Columns, the first two needed:

    - ``image``: an image file, from the table's folder; ``holds``: 1 or 0 (true/false, yes/no);
    - ``question`` with ``options`` (joined by ``|``; default yes and no) and ``expected``, the
      option that says that the fact holds (default yes), or else
    - ``subject`` alone for "is there one?", with ``value`` (and ``key``) for an attribute, with
      ``predicate`` and ``target`` for a relation: then scenewright words the question;
    - ``kind`` (object, attribute, relation, and with a question count, text or wish; default by
      what is given, object for a question),
      ``group`` (``absent`` marks a false premise) and ``fact_id``, all optional.

    Raises ``LabelError`` for a file that cannot be read, lost columns, and with the line or row
    for an image that is not there, a truth that is neither, an unknown kind, options that do not
    fit, and a question about one picture that stands there twice.
    """
    file = Path(path)
    try:
        table = read_table(file, file.read_bytes(), COLUMNS, _lost)
    except OSError as error:
        raise LabelError(f"the labels {file} cannot be read: {error.strerror or error}") from error
    except TableError as error:
        raise LabelError(str(error)) from error
    facts: list[LabelledFact] = []
    pictures: dict[str, Picture] = {}
    places: dict[tuple[str, str, tuple[str, ...], str], str] = {}
    ids: dict[str, str] = {}
    for row in table.rows:
        try:
            found = _labelled(table, row, pictures)
        except (FactError, ValueError) as error:
            raise LabelError(str(table.wrong(row, _reason(error)))) from error
        asked = found.fact
        key = (found.picture.name, asked.question, asked.options, asked.expected)
        for seen, name, what in (
            (places.setdefault(key, row.place), row.place, "asks the same of the same image"),
            (ids.setdefault(asked.id, row.place), row.place, "has the same fact_id"),
        ):
            if seen != name:
                raise LabelError(
                    str(table.wrong(row, f"{seen} {what}: give one row with one truth"))
                )
        facts.append(found)
    return tuple(facts)


def _lost(columns: frozenset[str]) -> list[str]:
    lost = [name for name in ("image", "holds") if name not in columns]
    if not {"question", "subject"} & columns:
        lost.append("question (or subject)")
    return lost


def _labelled(table: Table, row: Row, pictures: dict[str, Picture]) -> LabelledFact:
    name = row["image"]
    if not name:
        raise LabelError("it names no image")
    if name not in pictures:
        file = table.path.parent / name
        if not file.is_file():
            raise LabelError(f"the image {file} is missing: give its path from the table's folder")
        pictures[name] = Picture(str(file), partial(load_image, file))
    holds = _TRUTH.get(row["holds"].lower())
    if holds is None:
        raise LabelError(f"holds is {row['holds']!r}: write 1 or 0")
    kind = row["kind"].lower()
    if kind and kind not in KINDS:
        raise LabelError(f"the kind is {kind!r}: use one of {', '.join(KINDS)}")
    fact = _asked(row, kind) if row["question"] else _worded(row, kind)
    expected = row["expected"] or fact.expected
    options = tuple(part.strip() for part in row["options"].split(LIST_SEPARATOR) if part.strip())
    options = options or fact.options
    if expected not in options:
        raise LabelError(f"expected is {expected!r}: use one of {', '.join(options)}")
    fields = fact.model_dump() | {
        "id": row["fact_id"] or f"label {row.place}",
        "options": options,
        "expected": expected,
        "parents": (),
    }
    return LabelledFact(pictures[name], Fact.model_validate(fields), holds, row["group"].lower())


def _asked(row: Row, kind: str) -> Fact:
    """Return a fact of the row's own words."""
    return Fact(
        id=row.place,
        kind=cast(FactKind, kind or "object"),
        subject=row["subject"],
        target=row["target"] or None,
        predicate=row["predicate"] or None,
        key=row["key"] or None,
        value=row["value"] or None,
        statement=row["question"],
        question=row["question"],
        options=_YES_NO,
    )


def _worded(row: Row, kind: str) -> Fact:
    """Return a fact that :func:`~scenewright.core.questions.facts_of` words."""
    subject, value = row["subject"], row["value"]
    predicate, target = row["predicate"], row["target"]
    if not subject:
        raise LabelError("it has neither question nor subject")
    if bool(predicate) != bool(target):
        raise LabelError("a relation needs both predicate and target")
    if value and predicate:
        raise LabelError("it has a value and a predicate: give an attribute or a relation")
    given = "relation" if predicate else "attribute" if value else "object"
    if kind and kind not in FACT_KINDS:
        raise LabelError(f"a fact of the kind {kind} needs its question: write it in that column")
    if kind and kind != given:
        raise LabelError(f"the kind is {kind}, but what is given makes it an {given} fact")
    # The key is for people only; the question says the value.
    attributes = Attributes({row["key"] or "attribute": value} if value else {})
    objects = [SceneObject(id=f"{subject}.1", name=subject, attributes=attributes)]
    relations: tuple[Relation, ...] = ()
    if predicate:
        if target == subject:
            raise LabelError(
                "subject and target have one name: write the question and its options yourself"
            )
        objects.append(SceneObject(id=f"{target}.1", name=target))
        relations = (Relation(source=f"{subject}.1", predicate=predicate, target=f"{target}.1"),)
    scene = SceneGraph(objects=tuple(objects), relations=relations)
    return next(fact for fact in reversed(facts_of(scene)) if fact.kind == given)


def _reason(error: Exception) -> str:
    """Return the first line of what is wrong, without pydantic's list of fields."""
    errors = getattr(error, "errors", None)
    if callable(errors):
        return str(errors()[0]["msg"]).removeprefix("Value error, ")
    return str(error)
