"""Stages of a language model: synonyms of predicates, classes of scenes, attributes of categories.

**Synonyms.** The model proposes a mapping, which is written as ``synonyms.json`` beside the set.
Once it is there it is used as it is: edit it and run the same again, or delete it to have it made
anew.

**Classes** in two levels from boxes and relations, with the prompt and the classes of Scene-Bench,
appendix A. A scene without a usable answer has no class, with the reason.

**Attributes**: three instances of each category: apple → red apple, green apple, ripe apple (Table
8).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from scenewright.agents.chat.language_replies import as_data
from scenewright.agents.parsers.classes import SCENE_CATEGORIES
from scenewright.core.user_files import as_model, read_user_json
from scenewright.evals.annotation.graph_sets import entry_of
from scenewright.evals.annotation.panel_queries import TextModel, ask_text, plain, rows_by_key
from scenewright.evals.errors import AnnotationError
from scenewright.evals.runner.progress import StartupFailureLimit, side_by_side
from scenewright.evals.store.ledger import GraphRow, Ledger
from scenewright.prompts import load_prompt

SYNONYMS_PROMPT = "merge_synonyms"
SYNONYMS_FILE = "synonyms.json"
MOST_WORDS = 400
"""Most predicates in one call; the most frequent ones are in every call, so that all can be merged
with them."""
_COMMON = 150


class Synonyms(BaseModel):
    """Mapping of predicates to the ones that replace them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    about: str = "Edit the mapping and run the same again; delete this file to have it made anew."
    """Note for people who open the file."""
    model: str = ""
    """Model that proposed the mapping; empty for one made by hand."""
    prompt: str = ""
    """Id, version and hash of the prompt."""
    mapping: dict[str, str] = Field(default_factory=dict)
    """Predicate → its replacement, in lower case."""
    refused: list[str] = Field(default_factory=list)
    """Invalid proposals, with the reason."""

    def resolved(self, known: Iterable[str]) -> dict[str, str]:
        """Return :attr:`mapping` with chains followed to their end.

        Raises ``AnnotationError`` for a circle and for a target that is no predicate of ``known``.
        """
        return resolve(self.mapping, set(known))


def resolve(mapping: Mapping[str, str], known: set[str]) -> dict[str, str]:
    """Return ``mapping`` with chains followed: no value is replaced by another.

    Predicates that are not in ``known`` may be keys (they have no effect), but not values. Raises
    ``AnnotationError`` for that and for circles.
    """
    plainly = {plain(word): plain(other) for word, other in mapping.items()}
    found: dict[str, str] = {}
    for word in plainly:
        seen = [word]
        while (following := plainly.get(seen[-1])) is not None:
            if following in seen:
                raise AnnotationError(
                    f"{SYNONYMS_FILE}: {' → '.join([*seen, following])} goes in a circle: "
                    "let one of them stand for the others"
                )
            seen.append(following)
        if word in known and seen[-1] not in known:
            raise AnnotationError(
                f"{SYNONYMS_FILE}: {word!r} becomes {seen[-1]!r}, which is not a predicate of the "
                f"set: use one of {', '.join(sorted(known)[:12])}"
            )
        found[word] = seen[-1]
    return found


def read_synonyms(path: Path) -> Synonyms | None:
    """Return the mapping in the file ``path``; none if there is no file.

    Raises ``AnnotationError`` that names the file and the place.
    """
    if not path.exists():
        return None
    data = read_user_json(path, AnnotationError, ". Fix or delete it")
    return as_model(data, Synonyms, str(path), AnnotationError)


async def propose_synonyms(
    ledger: Ledger, model: TextModel, counts: Mapping[str, int], *, retry: bool = False
) -> Synonyms:
    """Return the synonyms that ``model`` finds among predicates.

    ``counts``: predicate → occurrences. A call that fails leaves its predicates as they are; its
    reason is in the ledger and under ``refused``.
    """
    words = sorted(counts, key=lambda word: (-counts[word], word))
    accepted: dict[str, str] = {}
    refused: list[str] = []
    for chunk in _chunks(words):
        reply = await ask_text(
            ledger,
            model,
            "synonyms",
            SYNONYMS_PROMPT,
            lambda given, last, chunk=chunk: read_synonym_reply(given, last, set(chunk)),  # type: ignore[misc]
            retry=retry,
            predicates=as_data(chunk),
        )
        if reply.state == "failed":
            refused.append(f"a call failed: {reply.reason}")
            continue
        refused += reply.data["refused"]
        for word, other in reply.data["mapping"].items():
            trial = {**accepted, word: other}
            try:
                resolve(trial, set(words))
            except AnnotationError as error:
                refused.append(str(error).removeprefix(f"{SYNONYMS_FILE}: "))
                continue
            accepted = trial
    return Synonyms(
        model=model.name, prompt=load_prompt(SYNONYMS_PROMPT).ref, mapping=accepted, refused=refused
    )


def _chunks(words: Sequence[str]) -> list[list[str]]:
    if len(words) <= MOST_WORDS:
        return [list(words)] if words else []
    common, rest = list(words[:_COMMON]), words[_COMMON:]
    step = MOST_WORDS - _COMMON
    return [common + list(rest[at : at + step]) for at in range(0, len(rest), step)]


def read_synonym_reply(given: Mapping[str, Any], last: bool, known: set[str]) -> dict[str, Any]:
    """Return the valid pairs of a reply, and problems of the others.

    Raises ``ValueError`` with the problems unless it is the ``last`` chance.
    """
    rows = given.get("synonyms")
    if not isinstance(rows, list):
        raise ValueError("synonyms is missing or not a list: write an empty list if there are none")
    mapping: dict[str, str] = {}
    refused: list[str] = []
    for at, row in enumerate(rows):
        where = f"synonyms[{at}]"
        if not isinstance(row, Mapping):
            refused.append(f"{where} is not an object with predicate and means")
            continue
        word, other = plain(str(row.get("predicate"))), plain(str(row.get("means")))
        strange = [one for one in (word, other) if one not in known]
        if strange:
            refused.append(f"{where}: {strange[0]!r} is not in the list: use its words alone")
            continue
        if word == other:
            continue
        try:
            resolve({**mapping, word: other}, known)
        except AnnotationError as error:
            refused.append(f"{where}: {str(error).removeprefix(f'{SYNONYMS_FILE}: ')}")
            continue
        if word in mapping and mapping[word] != other:
            refused.append(f"{where}: {word!r} is in two entries: keep one")
            continue
        mapping[word] = other
    if refused and not last:
        raise ValueError("; ".join(refused[:8]))
    return {"mapping": mapping, "refused": refused}


CLASSES_PROMPT = "classify_diversity"


def _key(text: object) -> str:
    return "".join(c for c in str(text).casefold() if c.isalnum())


_GROUPS = {_key(group): group for group in SCENE_CATEGORIES}
_CLASSES = {
    (group, _key(one)): one for group, members in SCENE_CATEGORIES.items() for one in members
}


def class_of(first: object, second: object) -> tuple[str, str]:
    """Return the canonical names of the two levels.

    Raises ``ValueError`` for unknown ones.
    """
    group = _GROUPS.get(_key(first))
    if group is None:
        raise ValueError(f"level 1 is {first!r}: choose {' or '.join(SCENE_CATEGORIES)}")
    category = _CLASSES.get((group, _key(second)))
    if category is None:
        known = ", ".join(SCENE_CATEGORIES[group])
        raise ValueError(f"level 2 is {second!r}: of {group} choose one of {known}")
    return group, category


async def classify(
    ledger: Ledger,
    model: TextModel,
    batch: int,
    concurrency: int,
    *,
    retry: bool = False,
    on_graph: Callable[[], None] = lambda: None,
) -> None:
    """Classify every graph with a part, ``batch`` scenes in a call."""
    failures = StartupFailureLimit()

    async def work(rows: Sequence[GraphRow]) -> None:
        ids = [row.photo.id for row in rows]
        reply = await ask_text(
            ledger,
            model,
            "classes",
            CLASSES_PROMPT,
            lambda given, last: read_classes(given, last, ids),
            retry=retry,
            image_info=json.dumps([info_of(row) for row in rows], ensure_ascii=False),
        )
        if reply.state == "failed":
            failures.failed(model.name, reply.reason)
            found: Mapping[str, Any] = {}
        else:
            failures.worked(model.name)
            found = reply.data
        lost = f"the call failed: {reply.reason}"
        ledger.update_graphs(
            "class",
            {row.photo.position: tuple(found.get(row.photo.id, ("", "", lost))) for row in rows},
        )
        for _ in rows:
            on_graph()

    await side_by_side(batches(ledger.graphs(parts_only=True), batch), work, concurrency)


def batches(rows: Iterable[GraphRow], size: int) -> Iterator[list[GraphRow]]:
    """Yield ``rows`` in lists of ``size``, the last one shorter."""
    some: list[GraphRow] = []
    for row in rows:
        some.append(row)
        if len(some) == size:
            yield some
            some = []
    if some:
        yield some


def info_of(row: GraphRow) -> dict[str, Any]:
    """Return the data of an image for the prompt: id, file, boxes, relations."""
    entry = entry_of(row)
    relations = [
        {key: relation[key] for key in ("source", "target", "relation")}
        for relation in entry["relationships"]
    ]
    return {
        "image_id": row.photo.id,
        "file_name": entry["file_name"],
        "objects": entry["objects"],
        "relationships": relations,
    }


def read_classes(
    given: Mapping[str, Any], last: bool, ids: Sequence[str]
) -> dict[str, tuple[str, str, str]]:
    """Return image id → (level 1, level 2, reason without a class).

    Raises ``ValueError`` for anything but one valid class an image, unless it is the ``last``
    chance.
    """

    def one(rows: list[Mapping[str, Any]]) -> tuple[str, str, str]:
        problem = ""
        for row in rows:
            try:
                return (*class_of(row.get("level 1"), row.get("level 2")), "")
            except ValueError as error:
                problem = str(error)
        raise ValueError(problem)

    found, lost = rows_by_key(given.get("images"), "images", "image_id", ids, one, last)
    return found | {id_: ("", "", why) for id_, why in lost.items()}


ATTRIBUTES_PROMPT = "augment_attributes"
INSTANCES = 3
"""Instances of each category, as in the paper: 775 categories give 2,325 prompts."""
BATCH = 60
"""Categories in one call."""


async def augment(
    ledger: Ledger, model: TextModel, categories: Sequence[str], *, retry: bool = False
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return category → its instances, and category → reason without any."""
    found: dict[str, list[str]] = {}
    lost: dict[str, str] = {}
    for at in range(0, len(categories), BATCH):
        some = list(categories[at : at + BATCH])
        reply = await ask_text(
            ledger,
            model,
            "attributes",
            ATTRIBUTES_PROMPT,
            lambda given, last, some=some: read_instances(given, last, some),  # type: ignore[misc]
            retry=retry,
            categories=as_data(some),
        )
        if reply.state == "failed":
            lost |= dict.fromkeys(some, f"the call failed: {reply.reason}")
            continue
        found |= reply.data["instances"]
        lost |= reply.data["lost"]
    return found, lost


def read_instances(
    given: Mapping[str, Any], last: bool, categories: Sequence[str]
) -> dict[str, Any]:
    """Return ``instances`` (category → three phrases) and ``lost`` (category → why it has none).

    ``given`` is a list of categories with their instances, or the dict that the prompt shows. A
    phrase names its category and says more than it. Raises ``ValueError`` for what cannot be,
    unless it is the ``last`` chance.
    """
    rows = given.get("instances", given)
    pairs: dict[str, Any] = {}
    if isinstance(rows, Mapping):
        pairs = {plain(str(name)): said for name, said in rows.items()}
    elif isinstance(rows, list):
        pairs = {
            plain(str(row.get("category"))): row.get("instances")
            for row in rows
            if isinstance(row, Mapping)
        }
    found: dict[str, list[str]] = {}
    lost: dict[str, str] = {}
    for name in categories:
        said = pairs.get(plain(name))
        if not isinstance(said, list):
            lost[name] = "it is missing"
            continue
        phrases = list(dict.fromkeys(" ".join(str(one).split()) for one in said))
        bare = [p for p in phrases if plain(name) not in plain(p) or plain(p) == plain(name)]
        if bare:
            lost[name] = f"{bare[0]!r} is no {name} with an attribute"
        elif len(phrases) != INSTANCES:
            lost[name] = f"{len(phrases)} different instances: give {INSTANCES}"
        else:
            found[name] = phrases
    if lost and not last:
        raise ValueError("; ".join(f"{name}: {why}" for name, why in list(lost.items())[:8]))
    return {"instances": found, "lost": lost}
