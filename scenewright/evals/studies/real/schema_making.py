"""Schemas by a language model over a given text of each class (REAL, Sec. 4.1).

The model quotes the words of the text that each attribute is of; what it cannot quote is not
taken. Replies are kept, so that the making of many goes on where it was stopped and pays for
nothing twice.

Schemas from annotations in the manner of CUB-200-2011: what most pictures of a class show.

The files are those of the set (Wah et al., 2011): ``classes.txt``, ``image_class_labels.txt``,
``attributes.txt`` (beside the folder in the set's archive) and
``attributes/image_attribute_labels.txt``. REAL (Sec. 4.1) gathers the common annotations of the
pictures of a class; what is common is not said there and is ours: marked on at least a share of
those of them that somebody was certain enough of.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scenewright.agents.chat.language_replies import as_data
from scenewright.agents.judges.pictures import character_tokens
from scenewright.evals.annotation.panel_queries import TextModel, ask_text
from scenewright.evals.datasets.reading import lines_of
from scenewright.evals.runner.progress import side_by_side
from scenewright.evals.store.ledger import Ledger
from scenewright.evals.studies.real.schema import (
    EXISTENCE,
    AttributeSchema,
    SchemaAttribute,
    SchemaError,
)
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
    """Return the schema of one class. ``retry``: ask again where the model failed before.

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
    on_progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[Made]:
    """Make one schema a text, in their order; ``on_progress`` gets how many are done."""
    found: dict[int, Made] = {}

    async def work(numbered: tuple[int, ClassText]) -> None:
        at, about = numbered
        found[at] = await make_schema(ledger, model, about, existence=existence, retry=retry)
        on_progress(len(found), len(texts))

    await side_by_side(enumerate(texts), work, AT_ONCE)
    return [found[at] for at in range(len(texts))]


def expected(model: TextModel, texts: Sequence[ClassText]) -> ExpectedUsage:
    """Return what the calls take if none was made before, by a quarter of the characters."""
    prompt = load_prompt(PROMPT)
    base = len(prompt.text) + len(str(prompt.output))
    usage, calls = Usage(), 0
    for about in texts:
        for piece in pieces(about.text):
            calls += 1
            usage += Usage(character_tokens(base + len(piece)), _TOKENS_OUT)
    return ExpectedUsage(calls, usage, model.price(usage))


def pieces(text: str, most: int = PIECE) -> list[str]:
    """Split ``text`` into parts of at most ``most`` characters.

    Cuts are between paragraphs, else between sentences, else between words, and only in a longer
    word within it.
    """
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
    """Return the attributes of a reply and what was left out, as JSON data.

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


SHARE = 0.5
"""Least share of a class's pictures that an attribute is marked on."""
CERTAINTY = 3
"""Least certainty of a mark that counts: 1 not visible, 2 guessing, 3 probably, 4 definitely."""
BIRD_EXISTENCE = "Is there a realistic bird in the image?"
_WORST = 0.01
"""Share of bad lines above which a file is taken for another kind of file."""
_NAMED = 20
_PARTLESS = {"primary": "plumage", "size": "bird", "shape": "bird"}
_MANNERS = {"color": "{}", "shape": "{} in shape", "pattern": "{} in pattern",
            "length": "{} in length", "size": "{} in size"}  # fmt: skip


@dataclass(slots=True)
class CubSchemas:
    """What was made of a set."""

    schemas: list[AttributeSchema] = field(default_factory=list)
    """One a class that has a common attribute, in the order of ``classes.txt``."""
    without: list[str] = field(default_factory=list)
    """Classes without a common attribute."""
    bad: list[str] = field(default_factory=list)
    """Lines that cannot be read, the first twenty: file, number, what is wrong."""
    n_bad: int = 0
    """How many there are."""
    lines: int = 0
    """Labels that were read."""


def cub_schemas(
    folder: str | Path,
    *,
    share: float = SHARE,
    certainty: int = CERTAINTY,
    existence: str | None = BIRD_EXISTENCE,
    on_progress: Callable[[int], None] = lambda lines: None,
) -> CubSchemas:
    """Return the schemas of the classes of a set; the labels are read as a stream.

    ``on_progress`` gets, every hundred thousand, how many labels were read. Lines that cannot be
    read (the set's own file has a few with fields too many) are named and left out. Raises
    ``SchemaError`` if a file is missing, more than a hundredth of it cannot be read, or a number is
    out of range, and ``DatasetError`` for a file that is no text.
    """
    if not 0.0 < share <= 1.0:
        raise SchemaError(f"the share is {share}: it must lie above 0, at most at 1")
    if certainty not in (1, 2, 3, 4):
        raise SchemaError(f"the certainty is {certainty}: use 1, 2, 3 or 4")
    root = Path(folder)
    made = CubSchemas()
    digest = hashlib.sha256(f"{share} {certainty}".encode())
    classes = _names(_file(root, "classes.txt"), made)
    attributes = {
        id_: _attribute(name, made, id_)
        for id_, name in _names(_file(root, "attributes.txt", "../attributes.txt",
                                      "attributes/attributes.txt"), made).items()
    }  # fmt: skip
    class_of = _names(_file(root, "image_class_labels.txt"), made)
    unknown = sorted(set(class_of.values()) - set(classes))
    if unknown:
        raise SchemaError(f"image_class_labels.txt names classes {unknown[:5]} not in classes.txt")
    # (class, attribute) → pictures that say yes, and pictures that say anything
    marked: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    labels = _file(root, "attributes/image_attribute_labels.txt", "image_attribute_labels.txt")
    for number, line in lines_of(labels):
        made.lines += 1
        if made.lines % 100_000 == 0:
            on_progress(made.lines)
        digest.update(line.strip().encode())
        parts = line.split()
        problem = _label_problem(parts, class_of, attributes)
        if problem:
            _bad(made, labels, number, problem)
            continue
        if int(parts[3]) >= certainty:
            counts = marked[class_of[parts[0]], parts[1]]
            counts[0] += parts[2] == "1"
            counts[1] += 1
    if made.n_bad > _WORST * max(made.lines, 1):
        raise SchemaError(
            f"{labels}: {made.n_bad} of {made.lines} lines cannot be read: "
            f"{'; '.join(made.bad[:3])}. A line is: image attribute is_present certainty seconds"
        )
    for class_id, name in classes.items():
        common = [
            attribute
            for id_, attribute in attributes.items()
            if attribute is not None
            and (found := marked.get((class_id, id_))) is not None
            and found[0] >= share * found[1]
            and found[0]
        ]
        title = re.sub(r"^\d+\.", "", name).replace("_", " ").strip()
        if not common:
            made.without.append(title)
            continue
        made.schemas.append(
            AttributeSchema(
                name=title,
                made_by="cub",
                source=digest.hexdigest(),
                existence=existence,
                attributes=tuple(dict.fromkeys(common)),
            )
        )
    return made


def attribute_of(name: str) -> SchemaAttribute:
    """Read the name of an attribute, such as ``has_bill_shape::curved_(up_or_down)``.

    Its part is ``bill``, its description ``curved (up or down) in shape``. Raises ``SchemaError``
    for another form.
    """
    match = re.fullmatch(r"has_([a-z_-]+?)::(\S+)", name)
    if match is None:
        raise SchemaError(f"{name!r} is not an attribute: write has_PART_KIND::VALUE")
    before, _, kind = match[1].rpartition("_")
    manner = _MANNERS.get(kind)
    if manner is None:
        raise SchemaError(f"{name!r} is of no known kind: there are {', '.join(_MANNERS)}")
    part = _PARTLESS.get(before or kind, (before or kind).replace("_", " "))
    value = match[2].replace("_", " ").strip()
    # "rounded-wings" of a wing, "forked tail" of a tail
    value = re.sub(rf"[- ]{re.escape(part)}s?$", "", value) or value
    return SchemaAttribute(part=part, description=manner.format(value))


def _attribute(name: str, made: CubSchemas, id_: str) -> SchemaAttribute | None:
    try:
        return attribute_of(name)
    except SchemaError as error:
        made.n_bad += 1
        made.bad.append(f"attributes.txt, {id_}: {error}")
        return None


def _label_problem(
    parts: list[str], images: Mapping[str, str], attributes: Mapping[str, object]
) -> str:
    """Return the fault of a line of labels; empty if there is none."""
    if len(parts) != 5:
        return f"{len(parts)} fields in place of 5"
    if parts[0] not in images:
        return f"image {parts[0]} has no class"
    if parts[1] not in attributes:
        return f"unknown attribute {parts[1]}"
    if parts[2] not in ("0", "1"):
        return f"is_present is {parts[2]!r} in place of 0 or 1"
    if parts[3] not in ("1", "2", "3", "4"):
        return f"certainty is {parts[3]!r} in place of 1 to 4"
    return ""


def _names(file: Path, made: CubSchemas) -> dict[str, str]:
    """Return by id the name, of a file of ``ID NAME`` lines."""
    found: dict[str, str] = {}
    for number, line in lines_of(file):
        id_, _, name = line.strip().partition(" ")
        if not id_.isdecimal() or not name.strip():
            _bad(made, file, number, f"{line[:60]!r} is not an id with a name")
        elif id_ in found:
            _bad(made, file, number, f"the id {id_} stands there twice")
        else:
            found[id_] = name.strip()
    if not found:
        raise SchemaError(f"{file}: it has no lines of an id and a name")
    return found


def _bad(made: CubSchemas, file: Path, number: int, problem: str) -> None:
    made.n_bad += 1
    if len(made.bad) < _NAMED:
        made.bad.append(f"{file.name}, line {number}: {problem}")


def _file(root: Path, *places: str) -> Path:
    for place in places:
        if (root / place).is_file():
            return root / place
    raise SchemaError(
        f"{root / places[0]} is missing: name the folder of the set, CUB_200_2011, with "
        "classes.txt, image_class_labels.txt and attributes/image_attribute_labels.txt"
    )
