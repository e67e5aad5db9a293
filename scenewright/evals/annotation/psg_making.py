"""Synthesis of a file of prompts, and classification of prompts; both resume where they stopped.

A language model classifies several prompts in a call (supplement A.2, Table 6; prompt
``classify_challenges``). The paper's precedence is applied to its answers in code as well; prompts
without a usable answer stay unclassified, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel

from scenewright.agents.chat.language_replies import as_data, name_of
from scenewright.agents.judges.pictures import character_tokens
from scenewright.agents.parsers.classes import (
    CHALLENGES,
    PROMPT_CATEGORIES,
    RULES_VERSION,
    Classes,
    classify,
    with_precedence,
)
from scenewright.core.error_text import error_text
from scenewright.evals.annotation.panel_queries import TextModel, ask_twice, rows_by_key
from scenewright.evals.datasets.base import DatasetError, Item, unreadable
from scenewright.evals.datasets.psg_prompts.rows import (
    by_model,
    by_rules,
    item_of_draw,
    writing_usage,
)
from scenewright.evals.datasets.psg_prompts.templates import Draw, DrawSpec, PsgError, draw
from scenewright.evals.datasets.tables import columns_of, item_of, row_of, write_items
from scenewright.evals.errors import AnnotationError
from scenewright.evals.runner.progress import StartupFailureLimit, side_by_side
from scenewright.evals.store.json_lines import append_lines, read_lines
from scenewright.prompts import load_prompt
from scenewright.providers.usage import ExpectedUsage, Usage

PROMPT = "classify_challenges"
BATCH = 20
"""Prompts in one call."""
_TOKENS_A_CLASS = 25


async def classify_by(chat: BaseChatModel, prompts: Sequence[str]) -> list[Classes]:
    """Return the classes of ``prompts``, in order, by one call.

    Never raises for what the model or its library does: its prompts are then unclassified.
    """
    by = name_of(chat)

    def read(given: Mapping[str, Any], last: bool) -> dict[int, Classes]:
        return read_classes(given, len(prompts), by, last)

    try:
        found = await ask_twice(chat, load_prompt(PROMPT), request_of(prompts), read)
    except Exception as error:
        # Whatever the model's library raises costs these prompts and no others.
        reason = error_text(error)
        return [Classes("", "", by, reason) for _ in prompts]
    return [
        with_precedence(one, text) if (one := found[number]).category else one
        for number, text in enumerate(prompts, start=1)
    ]


def request_of(prompts: Sequence[str]) -> str:
    """Return the request about ``prompts``."""
    rows = [{"number": number, "prompt": text} for number, text in enumerate(prompts, start=1)]
    return load_prompt(PROMPT).render(prompts=as_data(rows))


def read_classes(given: Mapping[str, Any], count: int, by: str, last: bool) -> dict[int, Classes]:
    """Return number → classes.

    Those that the reply has not, or not usable, are empty with a reason.

    Raises ``ValueError`` for anything but one fitting answer a number, unless it is the ``last``
    chance.
    """

    def one(rows: list[Mapping[str, Any]]) -> Classes:
        if len(rows) > 1:
            raise ValueError("the model gave two answers")
        for key, known in (("category", PROMPT_CATEGORIES), ("challenge", CHALLENGES)):
            if str(rows[0].get(key, "")).upper() not in known:
                raise ValueError(f"{rows[0].get(key)!r} is not a {key}")
        return Classes(rows[0]["category"].upper(), rows[0]["challenge"].upper(), by)

    numbers = [str(number) for number in range(1, count + 1)]
    found, lost = rows_by_key(given.get("classes"), "classes", "number", numbers, one, last)
    return {int(n): found[n] if n in found else Classes("", "", by, lost[n]) for n in numbers}


def classifying_usage(prompts: Sequence[str]) -> Usage:
    """Return tokens of one call, by a quarter of the characters."""
    tokens = character_tokens(len(request_of(prompts)) + len(str(load_prompt(PROMPT).output)))
    return Usage(tokens, _TOKENS_A_CLASS * len(prompts))


class RowFile:
    """A JSON lines file of items, written row by row."""

    def __init__(self, path: Path) -> None:
        """Use the file ``path``; raises ``PsgError`` unless it is ``.jsonl`` or ``.ndjson``."""
        if path.suffix.lower() not in (".jsonl", ".ndjson"):
            raise PsgError(f"{path} must end in .jsonl: prompts are written as JSON lines")
        self.path = path

    def read(self) -> dict[str, Item]:
        """Return id → item of all rows; empty where there is no file.

        A last line that a kill cut off is left out. Raises ``DatasetError`` for other lines that
        are no items.
        """
        if not self.path.exists():
            return {}
        found: dict[str, Item] = {}
        try:
            for number, cells in read_lines(self.path):
                if not isinstance(cells, dict):
                    raise ValueError(f"line {number} is not a JSON object")
                place = f"{self.path}, line {number}"
                item = item_of(cells, columns_of(None), place, number, self.path.parent, "none")
                found[item.id] = item
        except DatasetError:
            raise
        except OSError as error:
            raise unreadable(self.path, error) from error
        except ValueError as error:
            raise PsgError(f"{self.path}, {error}: name another file, or fix it") from error
        return found

    def append(self, items: Iterable[Item]) -> None:
        """Write more rows; those of the same ids before them count no more."""
        try:
            append_lines(self.path, [json.dumps(row_of(item)) for item in items])
        except OSError as error:
            raise PsgError(
                f"{self.path} cannot be written: {error.strerror or error}: name a writable file"
            ) from error

    def finish(self, items: Iterable[Item]) -> int:
        """Write all rows anew, in their order; how many there are."""
        return write_items(items, self.path)


T = TypeVar("T")

CONCURRENCY = 8
"""Concurrent calls; the account's own limits apply besides."""
_FAILURES = 5
_FRESH_ONLY = "name another file, or use the options that it was made with"

OnProgress = Callable[[int, int], None]
"""Called with the rows done and all rows."""


@dataclass(slots=True)
class Work:
    """Missing rows, before any model is asked."""

    kept: dict[str, Item]
    """Id → existing row."""
    lacking: list[Draw] = field(default_factory=list)
    """Prompts to be written."""
    expected: ExpectedUsage = field(default_factory=ExpectedUsage)
    """Expected usage of a language model; nothing for the rules."""


def plan(
    spec: DrawSpec, n: int, file: RowFile, model: TextModel | None = None, retry: bool = False
) -> Work:
    """Return the missing rows of ``file`` among the first ``n`` prompts of ``spec``.

    With ``retry`` rows count as missing whose text the rules had to word in place of a model.
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
        usage = sum((writing_usage(one) for one in work.lacking), Usage())
        work.expected = ExpectedUsage(len(work.lacking), usage, model.price(usage))
    return work


async def synthesize(
    work: Work,
    spec: DrawSpec,
    file: RowFile,
    model: TextModel | None = None,
    told: OnProgress = lambda done, of: None,
) -> list[Item]:
    """Write missing rows, and then the file in the order of its ids.

    A model's row is written as soon as its text is there: after a kill, at most the calls that were
    under way are repeated. Raises ``PsgError`` if the model fails from the start.
    """

    async def one(drawn: Draw) -> tuple[list[Item], str]:
        written = by_rules(drawn) if model is None else await by_model(model.chat, drawn)
        item = item_of_draw(drawn, written, classify(written.text), spec.names)
        return [item], written.problem if written.author == "rules" else ""

    rows = dict(work.kept)
    of = len(rows.keys() | {drawn.id for drawn in work.lacking})
    await _make(work.lacking, one, rows, file, model, lambda: told(len(rows), of))
    found = sorted(rows.values(), key=lambda item: item.id)
    file.finish(found)
    return found


def unclassified(
    items: Iterable[Item], kept: Mapping[str, Item], model: TextModel | None
) -> tuple[list[Item], ExpectedUsage]:
    """Return the items without classes by this model (or the rules), and the cost of asking."""
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
            usage = classifying_usage([item.prompt for item in some])
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
    """Return ``items`` with their classes as group and category, written to ``file`` as they come.

    Unclassified items have neither, and ``meta["class_note"]`` has the reason. Raises ``PsgError``
    if the model fails from the start.
    """

    async def some(batch: Sequence[Item]) -> tuple[list[Item], str]:
        prompts = [item.prompt for item in batch]
        if model is None:
            found = [classify(text) for text in prompts]
        else:
            found = await classify_by(model.chat, prompts)
        made = [
            with_classes(item, classes, classes.by if model is None else model.name)
            for item, classes in zip(batch, found, strict=True)
        ]
        return made, "" if any(one.category for one in found) else found[0].note

    wanted = {item.id for item in lacking}
    rows = {item.id: kept[item.id] for item in items if item.id not in wanted}
    for item in lacking:
        if not item.prompt:
            rows[item.id] = with_classes(item, Classes("", "", "", "there is no prompt"), "")
    pieces = list(_batches([item for item in lacking if item.prompt]))
    await _make(pieces, some, rows, file, model, lambda: told(len(rows), len(items)))
    found = [rows[item.id] for item in items]
    file.finish(found)
    return found


async def _make(
    pieces: Sequence[T],
    make: Callable[[T], Awaitable[tuple[list[Item], str]]],
    rows: dict[str, Item],
    file: RowFile,
    model: TextModel | None,
    told: Callable[[], None],
) -> None:
    """Add to ``rows`` what ``make`` gives for each of ``pieces``.

    It gives items, and why the model failed at them. What a model made is written to ``file`` at
    once; by rules it costs nothing to make it again.
    """
    failures = StartupFailureLimit(_FAILURES)

    async def one(piece: T) -> None:
        items, problem = await make(piece)
        rows.update((item.id, item) for item in items)
        if model is not None:
            file.append(items)
        told()
        if model is not None and problem:
            failures.failed(model.name, problem)
        elif model is not None:
            failures.worked(model.name)

    told()
    try:
        await side_by_side(pieces, one, CONCURRENCY)
    except AnnotationError as error:
        raise PsgError(str(error)) from error


def with_classes(item: Item, classes: Classes, by: str) -> Item:
    """Return ``item`` with ``classes`` in place of those that it had."""
    meta = {key: value for key, value in item.meta.items() if key != "class_note"}
    meta |= {"classified_by": by} if by else {}
    meta |= {"class_note": classes.note} if classes.note else {}
    changes = {"group": classes.category, "category": classes.challenge, "meta": meta}
    return item.model_copy(update=changes)


def _batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for at in range(0, len(items), BATCH):
        yield items[at : at + BATCH]
