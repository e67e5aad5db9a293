"""The dated table of facts about providers' models, and a user's newer copy of it.

``model_facts.toml`` comes with the package; ``scenewright models update`` puts a newer one into the
user's folder of settings. The newer of both is used. A row is named by ``provider:model``, or by
the beginning of a name and a star, and has kinds of facts: ``chat``, ``image``, ``decision``,
``price`` and ``end``. The modules that use a kind check its keys.
"""

from __future__ import annotations

import logging
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from scenewright.config.accounts import keys_file
from scenewright.core.errors import ScenewrightError
from scenewright.core.flushing import replacing
from scenewright.core.validation import FrozenModel, first_problem

FILE = "model_facts.toml"
UPDATE_URL = (
    f"https://raw.githubusercontent.com/scenewright/scenewright/main/scenewright/providers/{FILE}"
)
"""Address of the newest table."""
Kind = Literal["chat", "image", "decision", "price", "end"]
ModelName = Annotated[str, StringConstraints(pattern=r"^[a-z]+:[^*]*\*?$")]
_DATED = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8})$")
_LOG = logging.getLogger("scenewright.providers")
Rows = Mapping[str, Mapping[str, object]]
M = TypeVar("M", bound=BaseModel)


class ModelTableError(ScenewrightError, ValueError):
    """A table of models, or facts of a model, that cannot be used; names the place."""


class Source(FrozenModel):
    """Publication of facts."""

    text: str
    """Address or name."""
    as_of: date
    """Day on which it said so."""


class ModelFacts(FrozenModel):
    """A table of facts, by name of a model and kind."""

    format: int = Field(ge=1, le=1)
    """Version of the file's form."""
    as_of: date
    """Day of the table."""
    sources: dict[str, Source]
    """Publications by the name in a row's ``source``."""
    models: dict[ModelName, dict[Kind, dict[str, Any]]]
    """Name → kind → facts."""
    place: str = ""
    """File it was read from; empty: the package's own."""

    def rows(self, kind: Kind) -> Rows:
        """Return the rows that have facts of ``kind``."""
        found = {}
        for name, row in self.models.items():
            if (facts := row.get(kind)) is None:
                continue
            found[name] = facts
            if source := self.sources.get(facts.get("source", "")):
                dated = {"as_of": source.as_of} if kind == "price" else {}
                found[name] = {**dated, **facts, "source": source.text}
        return found

    @property
    def version(self) -> str:
        """Its day, and whether it is a copy of the user's."""
        return f"{self.as_of}, the user's copy" if self.place else str(self.as_of)


def read_facts(text: str, place: str = "") -> ModelFacts:
    """Return the table in ``text``; ``place`` names it.

    Raises ``ModelTableError`` for anything that is no table of this release's form.
    """
    try:
        table = tomllib.loads(text)
        models = {name: table.pop(name) for name in list(table) if ":" in name}
        return ModelFacts.model_validate({**table, "models": models, "place": place})
    except tomllib.TOMLDecodeError as error:
        raise ModelTableError(f"{place or FILE} is not valid TOML: {error}") from error
    except ValidationError as error:
        raise ModelTableError(
            f"{place or FILE} is no table of model facts for this version of scenewright: "
            f"{first_problem(error)}"
        ) from error


def shipped_facts() -> ModelFacts:
    """Return the package's own table."""
    return read_facts(files(__package__).joinpath(FILE).read_text("utf-8"))


def user_file() -> Path:
    """Return the file of the user's copy, beside the keys.

    Raises ``RuntimeError`` where the user has no home folder.
    """
    return keys_file().with_name(FILE)


def keep_facts(text: str) -> Path:
    """Put the text of a checked table in place of the user's copy, and return its file.

    Raises ``OSError`` where it cannot be written; the copy of before then stays.
    """
    place = user_file()
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with replacing(place) as draft:
        draft.write_text(text, encoding="utf-8")
    return place


_in_use: list[ModelFacts] = []


def model_facts() -> ModelFacts:
    """Return the table in use: the newer of the package's own and the user's copy.

    It is read once in a process. A copy that cannot be used is left aside with a warning.
    """
    if not _in_use:
        own = shipped_facts()
        copy = own
        try:
            place = user_file()
            copy = read_facts(place.read_text("utf-8"), str(place))
        except (FileNotFoundError, NotADirectoryError, RuntimeError):
            pass
        except (OSError, UnicodeDecodeError, ModelTableError) as error:
            _LOG.warning(
                "%s; the package's own table is used: run `scenewright models update`, or delete "
                "it",
                error,
            )
        _in_use.append(copy if copy.as_of > own.as_of else own)
    return _in_use[-1]


@contextmanager
def using(table: ModelFacts) -> Iterator[None]:
    """Use ``table`` in this process for the length of a block, as a check of it needs."""
    model_facts()
    _in_use.append(table)
    try:
        yield
    finally:
        _in_use.remove(table)


@cache
def rows_of(package: str, file: str) -> Rows:
    """Return the tables of the TOML ``file`` in ``package``."""
    rows: Rows = tomllib.loads(files(package).joinpath(file).read_text("utf-8"))
    return rows


def checked(kind: type[M], row: Mapping[str, object], name: str) -> M:
    """Return ``row`` as a model of ``kind``.

    Raises ``ModelTableError`` for wrong keys and values.
    """
    try:
        return kind.model_validate(row)
    except ValidationError as error:
        details = "; ".join(
            f"{'.'.join(map(str, item['loc'])) or 'together'}: {item['msg']}"
            for item in error.errors()
        )
        raise ModelTableError(
            f"{name} cannot be used so: {details} (keys: {', '.join(kind.model_fields)})"
        ) from error


def row_of(rows: Rows, name: str) -> dict[str, object]:
    """Return the merged rows that match ``name``.

    ``openai:gpt-4*`` matches names that begin so; longer patterns override shorter ones. A model
    with a date at the end of its name has the rows of the model without.
    """
    row: dict[str, object] = {}
    for pattern in sorted(rows, key=_length):
        if _fits(pattern, name) or pattern == undated(name):
            row.update(rows[pattern])
    return row


def best_key(rows: Mapping[str, object], name: str) -> str | None:
    """Return the best key of ``rows`` for ``name``: itself, else the longest pattern, or None."""
    return max((key for key in rows if _fits(key, name)), key=_length, default=None)


def undated(name: str) -> str:
    """Return a model's name without the date of a snapshot."""
    return _DATED.sub("", name)


def _fits(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _length(pattern: str) -> tuple[int, bool]:
    """Return the rank of a pattern: longer ones and, at equal length, exact ones are last."""
    return len(pattern.removesuffix("*")), not pattern.endswith("*")
