"""The dated table of facts about providers' models, and a user's newer copy of it.

``model_facts.toml`` comes with the package; ``scenewright models update`` puts a newer one into the
user's folder of settings. The newer of both is used. A row is named by ``provider:model``, or by
the beginning of a name and a star, and has kinds of facts: ``chat``, ``image``, ``decision``,
``price`` and ``end``. The modules that use a kind check its keys;
here is that of ends: when a provider's models end, and what comes after.
"""

from __future__ import annotations

import logging
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from scenewright.config.accounts import DECISION_KIND, AccountSpec, keys_file
from scenewright.core.errors import ScenewrightError
from scenewright.core.flushing import replacing
from scenewright.core.user_files import UserFileError, decoded
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
            copy = read_facts(decoded(place.read_bytes(), str(place)), str(place))
        except (FileNotFoundError, NotADirectoryError, RuntimeError):
            pass
        except (OSError, UserFileError, ModelTableError) as error:
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


WARNING_DAYS = 60
"""Days before its end from which a model is warned of."""


class ModelEnd(FrozenModel):
    """The end of one model, as announced."""

    ends: date
    """First day without the model."""
    successor: str = ""
    """The model that its provider names instead, as ``provider:model``."""
    then: str = ""
    """Result of calls afterwards, unless they fail."""
    source: str = ""
    """Place of the announcement."""


@dataclass(frozen=True, slots=True)
class Ending:
    """A model in use that ends soon or has ended."""

    spec: str
    """As the profile names it, ``account:model``."""
    end: ModelEnd
    """When, and what comes after."""
    days: int
    """Days left; 0 or less after the end."""

    @property
    def text(self) -> str:
        """Sentence with the end and the model to name instead."""
        when = (
            f"ended on {self.end.ends}"
            if self.days <= 0
            else (f"ends on {self.end.ends}, in {self.days} day{'s' if self.days != 1 else ''}")
        )
        then = f", then {self.end.then}" if self.end.then else ""
        instead = f": name another, such as {self.end.successor}" if self.end.successor else ""
        return f"{self.spec} {when}{then}{instead}"


def end_of(provider: str, model: str) -> ModelEnd | None:
    """Return the announced end of a provider's own model; None if the table knows none."""
    rows, name = model_facts().rows("end"), f"{provider}:{model}"
    key = best_key(rows, name) or best_key(rows, undated(name))
    return None if key is None else ModelEnd.model_validate(rows[key])


def endings(
    specs: Iterable[str],
    accounts: Mapping[str, AccountSpec],
    *,
    today: date | None = None,
    told: Mapping[str, ModelEnd] | None = None,
) -> list[Ending]:
    """Return the models of ``specs`` (``account:model``) that end within :data:`WARNING_DAYS`.

    Soonest first. ``accounts``: by name, the built-in ones included. An account with an address of
    its own may serve anything under a name, and is left out. ``told``: ends listed by the providers
    themselves, by spec (:func:`scenewright.agents.judges.models.listed_ends`), which override the
    table.
    """
    today = today or date.today()
    found = []
    for spec in dict.fromkeys(specs):
        name, _, model = spec.partition(":")
        if name == DECISION_KIND:
            name, _, model = model.partition("/")
        account = accounts.get(name)
        end = (told or {}).get(spec)
        if end is None and account is not None and account.base_url is None:
            end = end_of(account.provider, model)
        if end is not None and (days := (end.ends - today).days) <= WARNING_DAYS:
            found.append(Ending(spec, end, days))
    return sorted(found, key=lambda ending: ending.days)
