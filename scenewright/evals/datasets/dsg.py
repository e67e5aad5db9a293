"""DSG-1k (Cho et al., "Davidsonian Scene Graph", ICLR 2024): prompts with human-checked facts.

Read as released: a CSV file with one fact a row (``dsg-1k-anns.csv``; ``tifa160-dev-anns.csv`` has
the same columns). An item's facts are its questions, all yes/no, each with the questions it depends
on as parents; its scene is made of all tuples, also of those whose question cannot be asked.

Errors of the release, counted in ``left_out``: a fact without a question, or whose question does
not take yes or no; a number that is given twice; a dependency on a word, on a missing question, on
itself, or in a circle. Where a parent was left out, its own parents take its place.

From the tuples of a prompt to its scene:

- An entity is an object. Its owner is left off its label, and is related to it by *has* if it is an
  object of the scene too: ``man's hat`` gives ``man has hat``.
- ``other - count (dogs, ==3)`` makes three objects ``dog`` and an exact count of them; ``>1`` is a
  least one; *few* and *several* make two objects and an open count.
- ``global - style (oil painting)`` is a wish of that kind for the whole picture, and ``global - -
  (oil painting)`` one of the kind that its words are of.
- An attribute is one of its object, under its kind as key; those about how the picture is made
  (:data:`~scenewright.core.formats.published_questions.ASIDE`) are wishes where they have such a
  kind (:data:`~scenewright.core.formats.published_questions.GLOBALS`), or left off.
- A relation joins two objects; several instances take part in turn. An action without an object
  (``relation - action (dog, run)``) is an attribute, its state.
- A thing that is named in an attribute or relation alone becomes an object as well.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from scenewright.agents.parsers.tagging import NUMBERS
from scenewright.agents.parsers.wishes import style_of
from scenewright.core.facts import Fact
from scenewright.core.formats.base import numbered
from scenewright.core.formats.published_questions import (
    ASIDE,
    GLOBALS,
    Proposition,
    label,
    owner,
    read_tuple,
)
from scenewright.core.inflection import singular
from scenewright.core.intent import Count, CountKind, Global, Intent
from scenewright.core.scene import (
    MAX_NAME_LENGTH,
    Attributes,
    Relation,
    SceneGraph,
    SceneObject,
    clean_name,
)
from scenewright.evals.datasets.base import DatasetError, Item, StreamedSet, make_item
from scenewright.evals.datasets.reading import PARSES, Row, one_of, published_set, rows_of, said_of

WHOLE = "image"
"""Subject of a fact about the picture as a whole."""
MOST_INSTANCES = 12
"""Of a larger number of things one object is made: no picture is asked for each of them."""
_NUMBER = re.compile(r"_[0-9]+$")
_COMPARED = re.compile(r"(?P<how>[=<>]*)\s*(?P<number>.*)", re.DOTALL)


@dataclass(slots=True)
class _Thing:
    name: str
    count: int = 1
    """Objects that are made of it."""
    kind: CountKind | None = None
    """How its number is meant, if one is stated."""
    number: int | None = None
    attributes: dict[str, list[str]] = field(default_factory=dict)


Meaning = dict[str, Any]
"""Fields of a :class:`~scenewright.core.facts.Fact` that a tuple gives; things stand for ids."""


class _Reading:
    def __init__(self) -> None:
        self.things: dict[str, _Thing] = {}
        self.relations: dict[tuple[int, str, int], tuple[_Thing, str, _Thing]] = {}
        self.globals: dict[Global, None] = {}

    def thing(self, text: str) -> _Thing:
        """Return the thing that ``text`` names, a new one if necessary."""
        found = self.things.get(text.casefold()) or self._alike(text)
        return found or self._new(text)

    def _new(self, text: str) -> _Thing:
        name = _NUMBER.sub("", label(text)).strip() or text
        thing = self.things[text.casefold()] = _Thing(name[:MAX_NAME_LENGTH])
        return thing

    def _alike(self, text: str) -> _Thing | None:
        plain = label(text).casefold()
        for wanted in (plain, singular(plain)):
            for key, thing in self.things.items():
                own = _NUMBER.sub("", label(key))
                if wanted in (own, singular(own)) and not (owner(text) and owner(key)):
                    return thing
        return next((t for key, t in self.things.items() if plain.endswith(f" {label(key)}")), None)

    def read(self, said: Proposition) -> Meaning:
        """Add ``said`` to the scene and return its meaning."""
        parts = said.parts
        words = ", ".join(parts)
        if _is_entity(said):
            thing = self.things.get(words.casefold()) or self._new(words)
            return {"kind": "object", "subject": thing, "statement": words}
        if said.broad in ("relation", "action") and len(parts) > 2:
            return self._relation(parts[0], " ".join(parts[2:]), parts[1])
        if said.broad in ("entity", "attribute", "relation", "action") and len(parts) > 1:
            key = said.kind if said.broad in ("entity", "attribute") else "state"
            return self._attribute(parts[0], key or "state", ", ".join(parts[1:]))
        if said.broad == "other" and said.kind == "count" and len(parts) == 2:
            thing = self.thing(parts[0])
            number = self._numbered(thing, parts[1].lower())
            statement = f"{number} {parts[0]}"
            found = {"kind": "object", "subject": thing, "key": "count", "value": number}
            return found | {"statement": statement}
        found = {"kind": "attribute", "key": said.broad, "value": words, "statement": words}
        if said.broad == "other" and len(parts) > 1:
            value = ", ".join(parts[1:])
            found |= {"subject": self.thing(parts[0]), "key": said.kind, "value": value}
            found["statement"] = f"{parts[0]}: {value}"
            self._wish(said.kind, value)
        else:
            self._wish(said.kind, words, whole=said.broad == "global")
        return found

    def _wish(self, kind: str, text: str, whole: bool = False) -> None:
        """Add a wish of a known kind, or, of the ``whole`` picture, of the kind of its words."""
        stated = GLOBALS.get(kind)
        if stated is not None:
            self.globals[Global(kind=stated, text=text)] = None
        elif whole and text:
            found = style_of(text, 0, len(text))
            self.globals[found or Global(kind="style", text=text)] = None

    def join_parts(self) -> None:
        """Relate each thing that is named with its owner to the owner, if that is a thing too."""
        for text, thing in list(self.things.items()):
            whose = owner(text)
            holder = self._alike(whose) if whose else None
            if holder is not None and holder is not thing:
                self.relations[id(holder), "has", id(thing)] = (holder, "has", thing)

    def _attribute(self, text: str, key: str, value: str) -> Meaning:
        thing = self.thing(text)
        if key == "count":
            self._numbered(thing, value.lower())
        elif key in ASIDE:
            self._wish(key, value)
        else:
            for part in re.split(r"\s+and\s+|\s*,\s*", value):
                held = thing.attributes.setdefault(key, [])
                if part and part not in held:
                    held.append(part)
        found = {"kind": "attribute", "subject": thing, "key": key, "value": value}
        return found | {"statement": f"{thing.name}: {value}"}

    def _relation(self, source: str, predicate: str, target: str) -> Meaning:
        one, other = self.thing(source), self.thing(target)
        if one is not other:
            self.relations.setdefault((id(one), predicate, id(other)), (one, predicate, other))
        found = {"kind": "relation", "subject": one, "target": other, "predicate": predicate}
        return found | {"statement": f"{one.name} {predicate} {other.name}"}

    def _numbered(self, thing: _Thing, said: str) -> str:
        """Read the number of a thing, such as ``==3``, ``>1`` or ``few``; return it alone."""
        compared = _COMPARED.fullmatch(said)
        how, number = (compared["how"], compared["number"]) if compared else ("", said)
        known = int(number) if number.isdecimal() else NUMBERS.get(number)
        if known is not None and how == ">":
            known += 1
        if known is None and how not in ("<", "<="):
            thing.kind, thing.number, thing.count = "open", None, 2
        elif known and how not in ("<", "<="):
            thing.kind, thing.number = "least" if ">" in how else "exact", known
            thing.count = known if known <= MOST_INSTANCES else 1
        if thing.count > 1:
            thing.name = singular(thing.name)
        return number


def _is_entity(said: Proposition) -> bool:
    return said.broad == "entity" and (said.kind in ("whole", "part") or len(said.parts) == 1)


def scene_of_tuples(
    propositions: list[Proposition | None],
) -> tuple[SceneGraph | None, list[Meaning | None]]:
    """Return the scene of ``propositions`` and the meaning of each of them, if it has one.

    There is no scene where no proposition names a thing.
    """
    reading = _Reading()
    # Things first: a relation may come before the entities that it joins.
    said: list[Meaning | None] = [None] * len(propositions)
    for first in (True, False):
        for at, given in enumerate(propositions):
            if given is not None and _is_entity(given) == first:
                said[at] = reading.read(given)
        if first:
            reading.join_parts()
    things = list(reading.things.values())
    fresh = iter(numbered(thing.name for thing in things for _ in range(thing.count)))
    ids = {id(thing): [next(fresh) for _ in range(thing.count)] for thing in things}
    meanings = [
        each
        and {
            key: ids[id(part)][0] if isinstance(part, _Thing) else part
            for key, part in each.items()
        }
        for each in said
    ]
    return _scene(reading, ids), meanings


def _scene(reading: _Reading, ids: dict[int, list[str]]) -> SceneGraph | None:
    objects = tuple(
        SceneObject(
            id=name,
            name=thing.name,
            attributes=Attributes(
                {key: " and ".join(values) for key, values in thing.attributes.items() if values}
            ),
        )
        for thing in reading.things.values()
        for name in ids[id(thing)]
    )
    relations: dict[Relation, None] = {}
    for source, predicate, target in reading.relations.values():
        ones, others = ids[id(source)], ids[id(target)]
        for at in range(max(len(ones), len(others))):
            one, other = ones[at % len(ones)], others[at % len(others)]
            named = clean_name(predicate, "a predicate")
            relations[Relation(source=one, predicate=named, target=other)] = None
    counts = tuple(
        Count(objects=tuple(ids[id(thing)]), kind=thing.kind, number=thing.number)
        for thing in reading.things.values()
        if thing.kind is not None
    )
    intent = Intent(globals=tuple(reading.globals), counts=counts)
    found = SceneGraph(objects=objects, relations=tuple(relations), intent=intent)
    return found if objects else None


VERSION = 2
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
    """Return the prompts of the release; ``path`` is the file or its folder.

    ``split`` keeps the prompts of one source, such as ``whoops``. ``parse`` says where scenes come
    from: ``tuples``, ``rules`` (of the prompt) or ``none``. Raises ``DatasetError`` for a file of
    another form, here or on iteration.
    """
    one_of("parse", parse, ("tuples", *PARSES))
    return published_set(NAME, VERSION, path, FILE, _entries, False, split=split, parse=parse)


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
    """Return the scene and the facts of one prompt, parents before their children.

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
    """Return number → row of each fact that can be asked."""
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
    """Return number of each fact → numbers of the facts it depends on."""
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
    """Return all numbers, parents before children, else as they were.

    Circles are cut in ``parents``.
    """
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
    said = meaning or {"kind": "attribute", "statement": row["tuple"].strip() or question}
    parents_of = tuple(map(str, parents))
    try:
        return Fact(
            **{"subject": WHOLE, **said}, id=str(number), parents=parents_of, question=question
        )
    except ValueError as error:
        raise DatasetError(f"{place}: fact {number}: {error}") from error
