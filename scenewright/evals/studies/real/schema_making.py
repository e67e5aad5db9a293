"""Schemas by a language model over a given text of each class (REAL, Sec. 4.1).

The model quotes the words of the text that each attribute is of; what it cannot quote is not
taken. Replies are kept, so that the making of many goes on where it was stopped and pays for
nothing twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scenewright.agents.chat.language_replies import as_data
from scenewright.agents.judges.pictures import character_tokens
from scenewright.evals.annotation.texts import ask_text
from scenewright.evals.annotation.voters import TextModel
from scenewright.evals.store.ledger import Ledger
from scenewright.evals.studies.real.schema import EXISTENCE, AttributeSchema, SchemaAttribute
from scenewright.prompts import load_prompt
from scenewright.providers.usage import ExpectedUsage, Usage

PROMPT = "real_schema"
PIECE = 12_000
"""Most characters of a text that go in one call; longer texts go in several."""
AT_ONCE = 8
MOST_WORDS = 12
"""Most words of a part or a description: a longer one is no question that a judge can answer."""
_TOKENS_OUT = 400
_ENDS = ("\n\n", "\n", ". ", " ")
_QUOTES = re.compile("[\"'`\u2018\u2019\u201c\u201d\u201e]")


@dataclass(frozen=True, slots=True)
class ClassText:
    """A class and what is known of it."""

    name: str
    """The class."""
    text: str
    """A description, as long as it may be."""


@dataclass(frozen=True, slots=True)
class Made:
    """What became of one text."""

    name: str
    """The class."""
    schema: AttributeSchema | None
    """The schema; None if the model gave nothing usable."""
    dropped: tuple[str, ...] = ()
    """Attributes that were left out, each with the reason."""
    reason: str = ""
    """Why there is no schema, or why a piece of the text is not in it."""
    usd: float = 0.0
    """Dollars, of this and of earlier runs."""
    tokens: int = 0
    """Tokens in and out, likewise."""


async def make_schema(
    ledger: Ledger,
    model: TextModel,
    about: ClassText,
    *,
    existence: str | None = EXISTENCE,
    retry: bool = False,
) -> Made:
    """The schema of one class. ``retry``: ask again where the model failed before.

    Never raises for what the model does; ``AnnotationError`` if the ledger fails.
    """
    attributes: dict[tuple[str, str], SchemaAttribute] = {}
    dropped: list[str] = []
    reasons: list[str] = []
    usd, tokens = 0.0, 0
    for piece in pieces(about.text):

        def read(given: Mapping[str, Any], last: bool, piece: str = piece) -> Any:
            return read_attributes(given, piece, last)

        reply = await ask_text(
            ledger, model, "schema", PROMPT, read, retry=retry,
            name=as_data(about.name), text=as_data(piece),
        )  # fmt: skip
        usd += reply.usd
        tokens += reply.tokens_in + reply.tokens_out
        if reply.state == "failed":
            reasons.append(reply.reason)
            continue
        for row in reply.data["attributes"]:
            found = SchemaAttribute.model_validate(row)
            attributes.setdefault((found.part.casefold(), found.description.casefold()), found)
        dropped += reply.data["dropped"]
    reason = "; ".join(dict.fromkeys(reasons))
    if not attributes:
        why = reason or "the text says nothing of visible parts"
        return Made(about.name, None, tuple(dropped), why, usd, tokens)
    schema = AttributeSchema(
        name=about.name,
        made_by=model.name,
        source=hashlib.sha256(about.text.encode("utf-8", "surrogatepass")).hexdigest(),
        existence=existence,
        attributes=tuple(attributes.values()),
    )
    return Made(about.name, schema, tuple(dropped), reason, usd, tokens)


async def make_schemas(
    ledger: Ledger,
    model: TextModel,
    texts: Sequence[ClassText],
    *,
    existence: str | None = EXISTENCE,
    retry: bool = False,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> list[Made]:
    """One result a text, in their order; ``told`` hears how many are done."""
    found: dict[int, Made] = {}
    waiting = iter(enumerate(texts))

    async def work() -> None:
        for at, about in waiting:
            found[at] = await make_schema(ledger, model, about, existence=existence, retry=retry)
            told(len(found), len(texts))

    async with asyncio.TaskGroup() as group:
        for _ in range(min(AT_ONCE, len(texts))):
            group.create_task(work())
    return [found[at] for at in range(len(texts))]


def expected(model: TextModel, texts: Sequence[ClassText]) -> ExpectedUsage:
    """What the calls take if none was made before, by a quarter of the characters."""
    prompt = load_prompt(PROMPT)
    base = len(prompt.text) + len(str(prompt.output))
    usage, calls = Usage(), 0
    for about in texts:
        for piece in pieces(about.text):
            calls += 1
            usage += Usage(character_tokens(base + len(piece)), _TOKENS_OUT)
    return ExpectedUsage(calls, usage, model.price(usage))


def pieces(text: str, most: int = PIECE) -> list[str]:
    """``text`` in parts of at most ``most`` characters, cut between paragraphs, else between
    sentences, else between words, and only in a longer word within it."""
    rest = text.strip()
    found: list[str] = []
    while len(rest) > most:
        window = rest[:most]
        ends = (at + len(mark) for mark in _ENDS if (at := window.rfind(mark)) > most // 2)
        cut = next(ends, 0) or window.rfind(" ") + 1 or most
        found.append(rest[:cut].strip())
        rest = rest[cut:].strip()
    return [*found, rest] if rest else found


def read_attributes(given: Mapping[str, Any], text: str, last: bool) -> dict[str, Any]:
    """The attributes of a reply and what was left out, as JSON data.

    An attribute needs a part and a description of at most :data:`MOST_WORDS` words each, and a
    quote that stands in ``text`` (white space, case and quotation marks aside). Repeated ones are
    taken once. Raises ``ValueError`` naming what is wrong, unless it is the ``last`` chance.
    """
    rows = given.get("attributes")
    if not isinstance(rows, list):
        raise ValueError('attributes is missing or no list: write [{"part": …}]')
    known = _fold(text)
    kept: dict[tuple[str, str], dict[str, str]] = {}
    dropped: list[str] = []
    for at, row in enumerate(rows):
        values = row if isinstance(row, Mapping) else {}
        part, description, quote = (
            " ".join(str(values.get(key) or "").split()) for key in ("part", "description", "quote")
        )
        part, description = part.strip(" .;,"), description.strip(" .;,")
        problem = ""
        if not part or not description:
            problem = "part or description is missing"
        elif max(len(part.split()), len(description.split())) > MOST_WORDS:
            problem = f"more than {MOST_WORDS} words"
        elif not quote or _fold(quote) not in known:
            problem = f"the quote {quote!r} is not in the text"
        if problem:
            dropped.append(f"attributes[{at}] ({part}: {description}): {problem}")
            continue
        kept.setdefault(
            (part.casefold(), description.casefold()), {"part": part, "description": description}
        )
    if dropped and not last:
        raise ValueError("; ".join(dropped[:8]))
    return {"attributes": list(kept.values()), "dropped": dropped}


def _fold(text: str) -> str:
    return " ".join(_QUOTES.sub("", text).split()).strip(" .…").casefold()
