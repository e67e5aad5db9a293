"""From a draw to a file of prompts, and from a file to its classes; both go on where they were."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from scenewright.agents.parsers.classes import RULES_VERSION, Classes, classify
from scenewright.evals.annotation import psg_classifying as classifying
from scenewright.evals.annotation.voters import TextModel
from scenewright.evals.annotation.workers import StartupFailureLimit, side_by_side
from scenewright.evals.datasets.base import Item
from scenewright.evals.datasets.psg_prompts import writing
from scenewright.evals.datasets.psg_prompts.rows import RowFile, item_of_draw
from scenewright.evals.datasets.psg_prompts.templates import Draw, DrawSpec, draw
from scenewright.evals.datasets.psg_prompts.words import PsgError
from scenewright.evals.errors import AnnotationError
from scenewright.providers.usage import ExpectedUsage, Usage

T = TypeVar("T")

CONCURRENCY = 8
"""Calls at a time; the account's own limits hold besides."""
_FAILURES = 5
_FRESH_ONLY = "name another file, or use the options that it was made with"

OnProgress = Callable[[int, int], None]
"""Is told how many rows are there, and of how many."""


@dataclass(slots=True)
class Work:
    """What lacks, before any of it is asked."""

    kept: dict[str, Item]
    """Id → row that is there."""
    lacking: list[Draw] = field(default_factory=list)
    """Prompts to be written."""
    expected: ExpectedUsage = field(default_factory=ExpectedUsage)
    """What a language model will take; nothing for the rules."""


def plan(
    spec: DrawSpec, n: int, file: RowFile, model: TextModel | None = None, retry: bool = False
) -> Work:
    """What ``file`` lacks of the first ``n`` prompts of ``spec``.

    With ``retry`` rows count as lacking whose text the rules had to word in place of a model.
    Raises ``PsgError`` if the file holds other prompts under the same ids.
    """
    work = Work(file.read())
    for drawn in draw(spec, n):
        there = work.kept.get(drawn.id)
        if there is not None:
            same = there.scene == drawn.scene and there.category == drawn.challenge
            if not same or there.meta.get("template") != drawn.template:
                raise PsgError(f"{file.path} holds another {drawn.id}: {_FRESH_ONLY}")
            failed = there.meta.get("author") == "rules" and "problem" in there.meta
            if not (retry and failed and model is not None):
                continue
        work.lacking.append(drawn)
    if model is not None:
        usage = sum((writing.expected(one) for one in work.lacking), Usage())
        work.expected = ExpectedUsage(len(work.lacking), usage, model.price(usage))
    return work


async def synthesize(
    work: Work,
    spec: DrawSpec,
    file: RowFile,
    model: TextModel | None = None,
    told: OnProgress = lambda done, of: None,
) -> list[Item]:
    """Write what lacks, row by row, and then the file in the order of its ids.

    Each row is there once its text is: started again after a kill, at most the calls that were
    under way are repeated. Raises ``PsgError`` if the model fails from the start.
    """
    rows = dict(work.kept)
    of = len(rows.keys() | {drawn.id for drawn in work.lacking})
    patience = StartupFailureLimit(_FAILURES)

    async def one(drawn: Draw) -> None:
        if model is None:
            written = writing.by_rules(drawn)
        else:
            written = await writing.by_model(model.chat, drawn)
        item = item_of_draw(drawn, written, classify(written.text), spec.names)
        file.append(item)
        rows[item.id] = item
        told(len(rows), of)
        if model is not None and written.author == "rules":
            patience.failed(model.name, written.problem)
        elif model is not None:
            patience.worked(model.name)

    told(len(rows), of)
    await _all(work.lacking, one)
    found = sorted(rows.values(), key=lambda item: item.id)
    file.finish(found)
    return found


def unclassified(
    items: Iterable[Item], kept: Mapping[str, Item], model: TextModel | None
) -> tuple[list[Item], ExpectedUsage]:
    """The items that ``kept`` has no classes of by this model (or the rules), and what asking for
    them takes."""
    by = f"rules@{RULES_VERSION}" if model is None else model.name
    lacking = [
        item
        for item in items
        if (there := kept.get(item.id)) is None
        or there.prompt != item.prompt
        or not there.group
        or there.meta.get("classified_by") != by
    ]
    expected = ExpectedUsage()
    if model is not None:
        for some in _batches([item for item in lacking if item.prompt]):
            usage = classifying.expected([item.prompt for item in some])
            expected += ExpectedUsage(1, usage, model.price(usage))
    return lacking, expected


async def classify_items(
    items: Sequence[Item],
    lacking: Sequence[Item],
    kept: Mapping[str, Item],
    file: RowFile,
    model: TextModel | None = None,
    told: OnProgress = lambda done, of: None,
) -> list[Item]:
    """``items`` with their classes as group and category; written to ``file`` as they come.

    What is not classified has neither, and ``meta["class_note"]`` says why. Raises ``PsgError`` if
    the model fails from the start.
    """
    wanted = {item.id for item in lacking}
    rows = {item.id: kept[item.id] for item in items if item.id not in wanted}
    patience = StartupFailureLimit(_FAILURES)

    async def some(batch: Sequence[Item]) -> None:
        prompts = [item.prompt for item in batch]
        if model is None:
            found = [classify(text) for text in prompts]
        else:
            found = await classifying.classify_by(model.chat, prompts)
        for item, classes in zip(batch, found, strict=True):
            by = classes.by if model is None else model.name
            rows[item.id] = with_classes(item, classes, by)
            file.append(rows[item.id])
        told(len(rows), len(items))
        if model is not None and not any(one.category for one in found):
            patience.failed(model.name, found[0].note)
        elif model is not None:
            patience.worked(model.name)

    told(len(rows), len(items))
    for item in lacking:
        if not item.prompt:
            rows[item.id] = with_classes(item, Classes("", "", "", "there is no prompt"), "")
    await _all(list(_batches([item for item in lacking if item.prompt])), some)
    found = [rows[item.id] for item in items]
    file.finish(found)
    return found


def with_classes(item: Item, classes: Classes, by: str) -> Item:
    """``item`` with ``classes`` in place of those that it had."""
    meta = {key: value for key, value in item.meta.items() if key != "class_note"}
    meta |= {"classified_by": by} if by else {}
    meta |= {"class_note": classes.note} if classes.note else {}
    changes = {"group": classes.category, "category": classes.challenge, "meta": meta}
    return item.model_copy(update=changes)


def _batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for at in range(0, len(items), classifying.BATCH):
        yield items[at : at + classifying.BATCH]


async def _all(pieces: Sequence[T], work: Callable[[T], Awaitable[None]]) -> None:
    try:
        await side_by_side(pieces, work, CONCURRENCY)
    except AnnotationError as error:
        raise PsgError(str(error)) from error
