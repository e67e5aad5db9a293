"""Items and data sets: the protocol, streamed sets, the catalogue and public sources."""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Protocol, Self, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from scenewright.core.errors import ScenewrightError
from scenewright.core.facts import Fact
from scenewright.core.inflection import described, read_data
from scenewright.core.ports.vision import Detection
from scenewright.core.scene import SceneGraph
from scenewright.core.validation import first_problem


class DatasetError(ScenewrightError, ValueError):
    """A set that cannot be read; the message has the file, the place in it, and the remedy."""


DOUBTFUL = "doubtful reading"
REFUSED = "refused prompt"
"""Why scores that rest on the scene of a prompt are unscored."""
DOUBTS, NO_SCENE = "doubts", "no_scene"
"""Keys of an item's ``meta``: what its prompt could mean otherwise, why its prompt has no scene."""


class Item(BaseModel):
    """One scene, text or photo of a set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1, max_length=500)
    """Unique in its set, and the same each time the set is read."""
    scene: SceneGraph | None = None
    """What a picture must show; None where the set gives a text or a photo alone."""
    prompt: str = ""
    """The set's own text; empty where it has graphs alone."""
    facts: tuple[Fact, ...] = ()
    """The set's own questions (TIFA, DSG), parents before children; empty: those of
    :func:`~scenewright.core.questions.facts_of` of the scene."""
    predicates: str = ""
    """Origin of the wrong options of its scene's questions: a name or file of
    :func:`~scenewright.core.predicate_statistics.load_predicates`; empty: that of the
    evaluation."""
    image: str | None = None
    """File of the original photo; None where there is none on this machine."""
    detections: tuple[Detection, ...] = ()
    """Objects with boxes in the original photo, in pixels of it."""
    group: str = ""
    """First level of its class: ``People-Centric``, a category of prompts, …"""
    category: str = ""
    """Second level: ``Daily Life``, a challenge of prompts, …"""
    meta: dict[str, str] = Field(default_factory=dict)
    """Other data of the set, as text."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.scene is None and not self.prompt and self.image is None:
            raise ValueError(f"the item {self.id!r} has neither scene, prompt nor image")
        return self

    @property
    def reading_problem(self) -> str:
        """:data:`DOUBTFUL` or :data:`REFUSED`; empty for a scene that was given, or read surely."""
        if NO_SCENE in self.meta:
            return REFUSED
        return DOUBTFUL if DOUBTS in self.meta else ""

    @property
    def level(self) -> str:
        """Level that the set gives it in ``meta``, else ``simple``, ``medium`` or ``hard``.

        The latter go by its relations (γ = 0); empty without a scene.
        """
        if self.scene is None:
            return ""
        return self.meta.get("level") or self.scene.level()


@runtime_checkable
class Dataset(Protocol):
    """Protocol of a set of items that is read as a stream.

    Each iteration begins anew and holds one item (or one part of a file) in memory at a time.
    """

    @property
    def name(self) -> str:
        """Name in ``scenewright data list``, for example ``dsg``."""
        ...

    @property
    def source(self) -> str:
        """Paper or address."""
        ...

    @property
    def licence(self) -> str:
        """Its licence, as its makers name it; empty if they name none."""
        ...

    @property
    def fingerprint(self) -> str:
        """Identity of files and options: equal ones give equal items."""
        ...

    @property
    def left_out(self) -> Mapping[str, int]:
        """Reason → entries left out of the newest iteration; grows while it lasts."""
        ...

    def __iter__(self) -> Iterator[Item]:
        """Return the items in their order. Raises ``DatasetError`` for what cannot be read."""
        ...


class SampleSpec(BaseModel):
    """Selection of items of a set; without counts all, in their order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: str = "complexity"
    """``complexity`` (levels simple, medium, hard), ``group`` or ``category``."""
    counts: dict[str, int] = Field(default_factory=dict)
    """Class → items of it, for example ``{"simple": 15000, "medium": 20000, "hard": 15000}``."""
    each: int | None = Field(default=None, ge=1)
    """Items of every class, instead of ``counts``."""
    gamma: float = Field(default=0.0, ge=0.0, le=1.0)
    """γ of Eq. 1, for ``complexity``."""
    seed: int = Field(default=0, ge=0)
    short: Literal["error", "take"] = "error"
    """Where a class has too few items: raise an error, or ``take`` all of them."""


class DatasetSpec(BaseModel):
    """A set in a configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """As in ``scenewright data list``."""
    path: str | None = None
    """File or folder; None: where ``scenewright data get`` puts it, or none needed."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the loader, for example ``{"split": "test"}``."""
    limit: int | None = Field(default=None, ge=1)
    """Most items, after sampling."""
    sample: SampleSpec | None = None
    """Sample of the items; None: all."""


Entries = Callable[[Counter[str]], Iterator[Item]]
"""Reads a set from its beginning; counts in the counter what it leaves out, by reason."""


def file_digest(path: Path) -> str:
    """Return SHA-256 (hex) of the content of ``path``, read in blocks.

    ``DatasetError`` if it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> DatasetError:
    """Return the error for a file that the system does not give."""
    return DatasetError(
        f"{path} cannot be read: {error.strerror or error}: check the name and who may read it"
    )


def make_item(place: str, **fields: Any) -> Item:
    """Return the item of ``fields``.

    ``DatasetError`` that begins with ``place`` if it cannot be one.
    """
    try:
        return Item(**fields)
    except ValidationError as error:
        raise DatasetError(f"{place}: {first_problem(error)}") from error


class StreamedSet:
    """A set of items that a function reads anew for each iteration.

    ``left_out`` counts, by reason, the entries that the newest iteration has left out so far.
    """

    def __init__(
        self,
        entries: Entries,
        *,
        name: str,
        version: int,
        options: Mapping[str, Any],
        files: Callable[[], Sequence[tuple[str, Path]]] = tuple,
        state: Callable[[], str] = str,
        unique: bool = False,
        light: bool = True,
    ) -> None:
        """Describe the set.

        Args:
            entries: function that yields the items; it counts what it leaves out.
            name: a name of the catalogue.
            version: the loader's own number.
            options: plain values.
            files: gives (name, path) of all files that ``entries`` reads.
            state: gives what is known late, such as a commit; part of the fingerprint.
            unique: ids cannot repeat, for example because they count the rows, and are not checked.
            light: reading all of it costs nothing but time; False for sets that are read over the
                network, or that write pictures while they are read.
        """
        about = CATALOGUE[name]
        self.name = name
        self.source = about.source
        self.licence = about.licence
        self.light = light
        self.left_out: Counter[str] = Counter()
        self._entries = entries
        self._identity = {"name": name, "version": version, "options": dict(options)}
        self._files = files
        self._state = state
        self._unique = unique

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of loader, options, and the names and contents of all files.

        It is worked out once; raises ``DatasetError`` for a file that cannot be read.
        """
        files = [[name, file_digest(path)] for name, path in self._files()]
        said = json.dumps(
            {**self._identity, "files": files, "state": self._state()}, sort_keys=True, default=str
        )
        return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()

    def __iter__(self) -> Iterator[Item]:
        """Return the items in their order.

        Raises ``DatasetError`` for what cannot be read, and for an id that is given twice.
        """
        self.left_out = Counter()
        found = self._entries(self.left_out)
        return found if self._unique else self._checked(found)

    def _checked(self, items: Iterator[Item]) -> Iterator[Item]:
        # Eight bytes an id: two of a million ids share them once in 10^7 sets.
        seen: set[int] = set()
        for item in items:
            short = hashlib.blake2b(item.id.encode("utf-8", "surrogatepass"), digest_size=8)
            key = int.from_bytes(short.digest(), "big")
            if key in seen:
                raise DatasetError(
                    f"{self.name}: the id {item.id!r} is given twice: results are kept by id, so "
                    "give every item its own"
                )
            seen.add(key)
            yield item


@dataclass(frozen=True, slots=True)
class SetEntry:
    """Entry of a set in ``sets.toml``."""

    about: str
    """One line for lists."""
    source: str
    """Paper or address."""
    licence: str
    """As its makers name it; empty if they name none, or if the files are the user's own."""
    size: str
    """Size of the published set; empty for sets of the user."""
    module: str
    """Module below ``scenewright.evals.datasets`` that holds :attr:`function`."""
    function: str = "load"
    """``(path: Path | None, **options) -> Dataset``; raises ``DatasetError``."""
    needs_path: bool = True
    """Whether it reads files."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Option → description."""


def _catalogue() -> dict[str, SetEntry]:
    data = read_data("scenewright.evals.datasets", "sets.toml")
    return {
        name: SetEntry(**entry | {"options": described(entry.get("options", {}), data["shared"])})
        for name, entry in data["sets"].items()
    }


CATALOGUE: Mapping[str, SetEntry] = _catalogue()


TABLE = Path(__file__).with_name("sources.toml")
FOLDER_VARIABLE = "SCENEWRIGHT_DATA"
"""Environment variable that names the folder of all sets."""


class SourceFile(BaseModel):
    """One file of a set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str = Field(pattern=r"^https?://")
    name: str = ""
    """Path below the set's folder; by default the last part of the address."""
    about: str
    """Its content, in a few words."""
    bytes: int | None = Field(default=None, ge=0)
    """Its exact size where :attr:`sha256` is known, else its approximate size, for the plan."""
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """Digest of its content; None: the first download's counts."""
    extra: bool = False
    """Whether it is fetched only on request (``--only``): photos, training splits."""
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
            raise ValueError(f"{self.name!r} is not a path below a folder")
        return self


class Source(BaseModel):
    """Public source of a set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    about: str
    """One line for lists."""
    page: str
    """Page of its makers."""
    licence: str
    """As its makers name it."""
    note: str = ""
    """Note to read before fetching it."""
    files: tuple[SourceFile, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [file.name for file in self.files]
        if len(set(names)) != len(names):
            raise ValueError(f"two files have one name: {names}")
        return self

    def chosen(self, only: tuple[str, ...] = ()) -> tuple[SourceFile, ...]:
        """Return the files named in ``only`` (name, or its last part), by default all but extras.

        Raises ``DatasetError`` for an unknown name.
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
    """Return the table that ships with scenewright, by the name of the set."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {name: Source.model_validate(entry) for name, entry in table.items()}


def find_source(name: str) -> Source:
    """Return the source of that name. Raises ``DatasetError``, which lists the known ones."""
    found = sources().get(name)
    if found is None:
        raise DatasetError(
            f"no public source of {name!r} is known: there are {', '.join(sorted(sources()))}"
        )
    return found


def data_folder() -> Path:
    """Return the folder of all sets.

    It is ``SCENEWRIGHT_DATA``, else ``scenewright/data`` in the user's data folder
    (``XDG_DATA_HOME``, ``~/.local/share``).
    """
    if given := os.environ.get(FOLDER_VARIABLE):
        return Path(given).expanduser()
    home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(home).expanduser() / "scenewright" / "data"


def default_place(name: str) -> Path:
    """Return the folder of the set ``name``, whether it exists or not."""
    return data_folder() / name


def given_or_default(path: Path | None, name: str) -> Path:
    """Return ``path``, or the folder of the set ``name`` without one.

    Raises ``DatasetError`` with the remedies where it does not exist.
    """
    place = default_place(name) if path is None else path
    if place.exists():
        return place
    if path is not None:
        raise DatasetError(f"there is no file or folder {path}: check the path of {name}")
    get = f"fetch the set with `scenewright data get {name}`, or " if name in sources() else ""
    raise DatasetError(f"{name} is not in {place}: {get}name its file or folder with path = '…'")
