"""Predicates of one meaning become one: a mapping that a model proposes and a person may mend.

The mapping lies beside the set as ``synonyms.json``. Once it is there it is used as it is: edit it
and run the same again, or delete it to have it made anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from scenewright.agents.chat.language_replies import as_data
from scenewright.core.validation import first_problem
from scenewright.evals.annotation.texts import ask_text
from scenewright.evals.annotation.voters import TextModel
from scenewright.evals.annotation.votes import plain
from scenewright.evals.errors import AnnotationError
from scenewright.evals.store.ledger import Ledger
from scenewright.prompts import load_prompt

PROMPT = "merge_synonyms"
FILE = "synonyms.json"
MOST_WORDS = 400
"""Most predicates in one call; the commonest ones stand in every call, so that all can be merged
with them."""
_COMMON = 150


class Synonyms(BaseModel):
    """Which predicate stands for which."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    about: str = "Edit the mapping and run the same again; delete this file to have it made anew."
    """For who opens the file."""
    model: str = ""
    """Who proposed the mapping; empty for one made by hand."""
    prompt: str = ""
    """Id, version and hash of the prompt."""
    mapping: dict[str, str] = Field(default_factory=dict)
    """Predicate → the one that stands for it, in small letters."""
    refused: list[str] = Field(default_factory=list)
    """What was proposed and cannot be, with the reason."""

    def resolved(self, known: Iterable[str]) -> dict[str, str]:
        """:attr:`mapping` with chains followed to their end.

        Raises ``AnnotationError`` for a circle and for a target that is no predicate of ``known``.
        """
        return resolve(self.mapping, set(known))


def resolve(mapping: Mapping[str, str], known: set[str]) -> dict[str, str]:
    """``mapping`` with chains followed: every value is one that nothing replaces.

    Predicates that are not in ``known`` may stand in it as keys (they say nothing), but not as
    values. Raises ``AnnotationError`` for that and for circles.
    """
    plainly = {plain(word): plain(other) for word, other in mapping.items()}
    found: dict[str, str] = {}
    for word in plainly:
        seen = [word]
        while (following := plainly.get(seen[-1])) is not None:
            if following in seen:
                raise AnnotationError(
                    f"{FILE}: {' → '.join([*seen, following])} goes in a circle: let one of them "
                    "stand for the others"
                )
            seen.append(following)
        if word in known and seen[-1] not in known:
            raise AnnotationError(
                f"{FILE}: {word!r} becomes {seen[-1]!r}, which is no predicate of the set: use "
                f"one of {', '.join(sorted(known)[:12])}"
            )
        found[word] = seen[-1]
    return found


def read_synonyms(path: Path) -> Synonyms | None:
    """The mapping in the file ``path``; none if there is no file.

    Raises ``AnnotationError`` that names the file and the place.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise AnnotationError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        return Synonyms.model_validate(json.loads(text))
    except ValidationError as error:
        raise AnnotationError(f"{path}: {first_problem(error)}") from error
    except ValueError as error:
        raise AnnotationError(f"{path} is no JSON: {error}. Mend or delete it") from error


async def propose_synonyms(
    ledger: Ledger, model: TextModel, counts: Mapping[str, int], *, retry: bool = False
) -> Synonyms:
    """What ``model`` merges of the predicates in ``counts`` (predicate → how often).

    A call that fails leaves its predicates as they are; its reason is in the ledger and under
    ``refused``.
    """
    words = sorted(counts, key=lambda word: (-counts[word], word))
    accepted: dict[str, str] = {}
    refused: list[str] = []
    for chunk in _chunks(words):
        reply = await ask_text(
            ledger,
            model,
            "synonyms",
            PROMPT,
            lambda given, last, chunk=chunk: _read(given, last, set(chunk)),  # type: ignore[misc]
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
                refused.append(str(error).removeprefix(f"{FILE}: "))
                continue
            accepted = trial
    return Synonyms(
        model=model.name, prompt=load_prompt(PROMPT).ref, mapping=accepted, refused=refused
    )


def _chunks(words: Sequence[str]) -> list[list[str]]:
    if len(words) <= MOST_WORDS:
        return [list(words)] if words else []
    common, rest = list(words[:_COMMON]), words[_COMMON:]
    step = MOST_WORDS - _COMMON
    return [common + list(rest[at : at + step]) for at in range(0, len(rest), step)]


def _read(given: Mapping[str, Any], last: bool, known: set[str]) -> dict[str, Any]:
    """The pairs that can be, and what is wrong with the others; at first that is an error."""
    rows = given.get("synonyms")
    if not isinstance(rows, list):
        raise ValueError("synonyms is missing or no list: write an empty list if there are none")
    mapping: dict[str, str] = {}
    refused: list[str] = []
    for at, row in enumerate(rows):
        where = f"synonyms[{at}]"
        if not isinstance(row, Mapping):
            refused.append(f"{where} is no object with predicate and means")
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
            refused.append(f"{where}: {str(error).removeprefix(f'{FILE}: ')}")
            continue
        if word in mapping and mapping[word] != other:
            refused.append(f"{where}: {word!r} stands in two entries: keep one")
            continue
        mapping[word] = other
    if refused and not last:
        raise ValueError("; ".join(refused[:8]))
    return {"mapping": mapping, "refused": refused}
