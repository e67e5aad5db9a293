"""Public sources of sets: addresses, licences, sizes and digests, and where files are put."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scenewright.evals.datasets.base import DatasetError

TABLE = Path(__file__).with_name("sources.toml")
FOLDER_VARIABLE = "SCENEWRIGHT_DATA"
"""Environment variable that names the folder of all sets."""


class SourceFile(BaseModel):
    """One file of a set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str = Field(pattern=r"^https?://")
    """Where it is fetched."""
    name: str = ""
    """Path below the set's folder; by default the last part of the address."""
    about: str
    """What it holds, in a few words."""
    bytes: int | None = Field(default=None, ge=0)
    """Its exact size, where :attr:`sha256` is known; else about its size, for the plan."""
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """Digest of its content, where the very file was at hand; else the first download's counts."""
    extra: bool = False
    """Whether it comes only if it is asked for (``--only``): photos, training splits."""
    unpack: bool = False
    """Whether it is an archive that loaders cannot read packed."""

    @model_validator(mode="before")
    @classmethod
    def _name(cls, value: object) -> object:
        if isinstance(value, dict) and not value.get("name"):
            return {**value, "name": str(value.get("address", "")).rsplit("/", 1)[-1]}
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        parts = PurePosixPath(self.name)
        if not parts.parts or parts.is_absolute() or ".." in parts.parts:
            raise ValueError(f"{self.name!r} is no path below a folder")
        return self


class Source(BaseModel):
    """One set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    about: str
    """One line."""
    page: str
    """Page of its makers."""
    licence: str
    """As its makers name it."""
    note: str = ""
    """What one should know before fetching it."""
    files: tuple[SourceFile, ...] = Field(min_length=1)
    """What there is."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [file.name for file in self.files]
        if len(set(names)) != len(names):
            raise ValueError(f"two files have one name: {names}")
        return self

    def chosen(self, only: tuple[str, ...] = ()) -> tuple[SourceFile, ...]:
        """The files named in ``only`` (name, or its last part), by default all that are no extras.

        Raises ``DatasetError`` for a name that none has.
        """
        if not only:
            return tuple(file for file in self.files if not file.extra)
        known = {key: f for f in self.files for key in (f.name.rsplit("/", 1)[-1], f.name)}
        lost = [name for name in only if name not in known]
        if lost:
            names = ", ".join(file.name for file in self.files)
            raise DatasetError(f"there is no file {lost[0]!r} in this set: it has {names}")
        return tuple(dict.fromkeys(known[name] for name in only))


@cache
def sources() -> Mapping[str, Source]:
    """The table that ships with scenewright, by the name of the set."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {name: Source.model_validate(entry) for name, entry in table.items()}


def find_source(name: str) -> Source:
    """The source of that name; ``DatasetError`` that lists them otherwise."""
    found = sources().get(name)
    if found is None:
        raise DatasetError(
            f"no public source of {name!r} is known: there are {', '.join(sorted(sources()))}"
        )
    return found


def data_folder() -> Path:
    """Where sets are put: ``SCENEWRIGHT_DATA``, else ``scenewright/data`` in the user's data
    folder (``XDG_DATA_HOME``, ``~/.local/share``)."""
    if given := os.environ.get(FOLDER_VARIABLE):
        return Path(given).expanduser()
    home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(home).expanduser() / "scenewright" / "data"


def default_place(name: str) -> Path:
    """The folder of the set ``name``, whether it exists or not."""
    return data_folder() / name


def given_or_default(path: Path | None, name: str) -> Path:
    """``path``, or the folder of the set ``name`` where none is given.

    Raises ``DatasetError`` where it is not there: how to fetch the set, or to name it.
    """
    place = default_place(name) if path is None else path
    if place.exists():
        return place
    if path is not None:
        raise DatasetError(f"there is no file or folder {path}: check the path of {name}")
    get = f"fetch the set with `scenewright data get {name}`, or " if name in sources() else ""
    raise DatasetError(f"{name} is not in {place}: {get}name its file or folder with path = '…'")
