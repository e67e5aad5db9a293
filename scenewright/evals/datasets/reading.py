"""Reading of text files, scenes of captions, and boxes and photos of detection sets."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, TypeVar

from pydantic import BaseModel, ValidationError

from scenewright.core.flushing import replacing
from scenewright.core.formats.base import numbered
from scenewright.core.intent import listed
from scenewright.core.scene import MAX_OBJECTS, SceneError, SceneGraph, SceneObject, clean_name
from scenewright.core.user_files import (
    LONGEST_MARK,
    encoding_of,
    not_text,
    other_separator,
    parsed_json,
)
from scenewright.core.validation import first_problem
from scenewright.evals.datasets.base import (
    DOUBTS,
    NO_SCENE,
    DatasetError,
    Item,
    StreamedSet,
    given_or_default,
    unreadable,
)

MOST_IN_A_LINE = 32 * 1024 * 1024
"""Most characters of one line or cell."""
MOST_IN_A_LIST = 256 * 1024 * 1024
"""Most bytes of a JSON file that is read as a whole, for the small lists of prompts alone."""

Row = dict[str, str]
M = TypeVar("M", bound=BaseModel)


@contextmanager
def opened(path: Path) -> Iterator[IO[str]]:
    """Open ``path`` as text, unpacked if its name ends in ``.gz``; line ends stay."""
    open_file: Any = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with open_file(path, "rb") as beginning:
            encoding = encoding_of(beginning.read(LONGEST_MARK))
        with open_file(path, "rt", encoding=encoding, newline="") as file:
            yield file
    except UnicodeDecodeError as error:
        raise DatasetError(not_text(str(path), error)) from error
    except gzip.BadGzipFile as error:
        raise DatasetError(f"{path} is not a gzip file: rename or unpack it") from error
    except EOFError as error:
        raise DatasetError(f"{path} is cut off: fetch it again") from error
    except OSError as error:
        raise unreadable(path, error) from error


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, text without its end) of each line that is not blank."""
    with opened(path) as file:
        number = 0
        while line := file.readline(MOST_IN_A_LINE):
            number += 1
            if len(line) >= MOST_IN_A_LINE:
                raise DatasetError(
                    f"{path}, line {number} has more than {MOST_IN_A_LINE} characters: write one "
                    "entry a line"
                )
            if line.strip():
                yield number, line.rstrip("\r\n")


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place for messages, object) of each line of a JSON lines file."""
    for number, line in lines_of(path):
        place = f"{path}, line {number}"
        value = parsed(line, place)
        if not isinstance(value, dict):
            raise DatasetError(f"{place} is not a JSON object: write one object a line")
        yield place, value


def json_list(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place for messages, object) of each entry of a small JSON file that is one list."""
    with opened(path) as file:
        text = file.read(MOST_IN_A_LIST + 1)
    if len(text) > MOST_IN_A_LIST:
        raise DatasetError(f"{path} is too large for a list of prompts: split it")
    data = parsed(text, str(path))
    if not isinstance(data, list):
        raise DatasetError(f"{path} is not a JSON list: take the file as it was published")
    for at, entry in enumerate(data):
        place = f"{path}, entry {at}"
        if not isinstance(entry, dict):
            raise DatasetError(f"{place} is not a JSON object: take the file as it was published")
        yield place, entry


def parsed(text: str, place: str) -> Any:
    """Return the JSON value of ``text``.

    ``DatasetError`` with line and column for text that is none.
    """
    return parsed_json(text, place, DatasetError)


def checked(kind: type[M], entry: Any, place: str) -> M:
    """Return ``entry`` as a ``kind``; ``DatasetError`` with the place of what does not fit."""
    try:
        return kind.model_validate(entry)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        found = "" if problem["type"] == "missing" else f", found {problem['input']!r:.60}"
        raise DatasetError(f"{place}: {first_problem(error)}{found}") from error


def text_of(entry: dict[str, Any], key: str, place: str, needed: bool = True) -> str:
    """Return the stripped text ``entry[key]``. Raises ``DatasetError`` if it is not text."""
    value = entry.get(key)
    if value is None and not needed:
        return ""
    if not isinstance(value, str) or (needed and not value.strip()):
        raise DatasetError(f"{place}: {key!r} must be text, found {value!r:.60}")
    return value.strip()


def rows_of(
    path: Path,
    needed: Sequence[str] = (),
    *,
    delimiter: str = ",",
    quoted: bool = True,
) -> Iterator[tuple[str, Row]]:
    """Yield (place for messages, column → cell) of each row of a CSV file with column names.

    With ``quoted=False`` quotes are characters like any other. Raises ``DatasetError`` for missing
    or repeated columns and a row of another length.
    """
    # The limit is the process's: it is raised for cells that hold a whole scene, never lowered.
    csv.field_size_limit(max(csv.field_size_limit(), MOST_IN_A_LINE))
    with opened(path) as file:
        quoting: Any = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
        reader = csv.reader(file, delimiter=delimiter, quoting=quoting, strict=True)
        try:
            columns = [name.strip() for name in next(reader, [])]
            _check_columns(path, columns, needed)
            for cells in reader:
                if not cells:
                    continue
                place = f"{path}, line {reader.line_num}"
                if len(cells) != len(columns):
                    raise DatasetError(
                        f"{place}: it has {len(cells)} fields, the first line has "
                        f"{len(columns)}: fetch or write the file again"
                    )
                yield place, dict(zip(columns, cells, strict=True))
        except csv.Error as error:
            raise DatasetError(
                f"{path}, line {reader.line_num} is not valid CSV: {error}"
            ) from error


def _check_columns(path: Path, columns: Sequence[str], needed: Sequence[str]) -> None:
    if not columns:
        raise DatasetError(f"{path} is empty: its first line must name the columns")
    if hint := other_separator(columns):
        raise DatasetError(f"{path} has one column, {columns[0]!r}{hint}")
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise DatasetError(f"{path} has the column {twice[0]!r} twice: keep one")
    lost = [name for name in needed if name not in columns]
    if lost:
        raise DatasetError(
            f"{path} has no column {', '.join(lost)} (it has {', '.join(columns)}): take the file "
            "as it was published"
        )


def written_once(file: Path, write: Callable[[Path], object]) -> Path:
    """Have ``write`` write ``file`` unless it exists, and return it; ``DatasetError`` if not."""
    try:
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            with replacing(file) as draft:
                write(draft)
    except OSError as error:
        raise unreadable(file, error) from error
    return file


def one_of(option: str, value: object, allowed: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``allowed``.

    ``DatasetError`` that names the option otherwise.
    """
    if isinstance(value, str) and value in allowed:
        return value
    raise DatasetError(f"option {option} is {value!r}: use one of {', '.join(allowed)}")


def whole(option: str, value: object, least: int) -> int:
    """Return ``value`` if it is a whole number from ``least``; ``DatasetError`` otherwise."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    raise DatasetError(f"option {option} is {value!r}: use a whole number from {least}")


def published_file(path: Path | None, name: str, set_name: str) -> Path:
    """Return the file at ``path``, or ``name`` in the folder ``path``.

    The default folder is where ``scenewright data get`` puts the set. Raises ``DatasetError`` where
    the file is missing.
    """
    place = given_or_default(path, set_name)
    found = place / name if place.is_dir() else place
    if not found.is_file():
        raise DatasetError(
            f"there is no file {found}: name {name} or its folder, or fetch the set with "
            f"`scenewright data get {set_name}`"
        )
    return found


def published_set(
    name: str,
    version: int,
    path: Path | None,
    file: str,
    items: Callable[..., Iterator[Item]],
    unique: bool = True,
    **options: Any,
) -> StreamedSet:
    """Return the set ``name`` of one published ``file``, as :func:`published_file` finds it.

    ``items`` takes the file, the values of ``options``, and the counter of what is left out.
    """
    found = published_file(path, file, name)
    return StreamedSet(
        partial(items, found, *options.values()),
        name=name,
        version=version,
        options=options,
        files=lambda: [(found.name, found)],
        unique=unique,
    )


PARSES = ("rules", "none")
"""Parsers of prompts: the rules of :mod:`scenewright.agents.parsers.rules`, or none."""


def check_parse(value: object) -> str:
    """Return ``value`` if it is one of :data:`PARSES`; ``DatasetError`` otherwise."""
    return one_of("parse", value, PARSES)


def said_of(prompt: str, parse: str, meta: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the fields ``prompt``, ``scene`` and ``meta`` of the item of ``prompt``.

    A prompt that the rules cannot read has no scene; ``meta["no_scene"]`` has the reason.
    ``meta["unread"]`` has the words that a scene lacks, ``meta["doubts"]`` those that could be read
    otherwise.
    """
    kept = dict(meta or {})
    if parse == "none":
        return {"prompt": prompt, "meta": kept}
    from scenewright.agents.parsers.rules import parse_caption

    try:
        scene = parse_caption(prompt)
    except SceneError as error:
        return {"prompt": prompt, "meta": {**kept, NO_SCENE: str(error)}}
    said = scene.intent
    if said.unread:
        kept["unread"] = listed(said.unread)
    if said.doubts:
        kept[DOUBTS] = "; ".join(map(str, said.doubts))
    return {"prompt": prompt, "scene": scene, "meta": kept}


Box = tuple[float, float, float, float]

CROWD = "boxes of a crowd or group"
NO_AREA = "boxes without an area inside their image"
NO_PHOTO = "images whose photo is not in the folder"
TOO_MANY = f"images with more than {MAX_OBJECTS} objects"


def too_few(least: int) -> str:
    """Return the reason of images with fewer than ``least`` objects."""
    return f"images with fewer than {least} objects"


def number_of(value: Any, place: str, what: str) -> float:
    """Return ``value`` if it is a number (or the text of one); ``DatasetError`` otherwise."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            found = float(value)
        except (ValueError, OverflowError):
            found = float("nan")
        if found == found and abs(found) != float("inf"):
            return found
    raise DatasetError(f"{place}: {what} must be a number, found {value!r:.60}")


def clipped(box: Box, size: tuple[float, float]) -> Box | None:
    """Return the part of ``box`` inside an image; None if it has no area.

    ``box`` is (xmin, ymin, xmax, ymax) and ``size`` (width, height), all in pixels.
    """
    left, top = max(0.0, box[0]), max(0.0, box[1])
    right, bottom = min(size[0], box[2]), min(size[1], box[3])
    return (left, top, right, bottom) if left < right and top < bottom else None


def label_of(name: object, place: str, lower: bool) -> str:
    """Return the class label for scenes and questions. Raises ``DatasetError`` if it is invalid."""
    if not isinstance(name, str):
        raise DatasetError(f"{place}: a name must be text, found {name!r:.60}")
    try:
        cleaned = clean_name(name, "the name")
    except SceneError as error:
        raise DatasetError(f"{place}: {error}") from None
    return cleaned.lower() if lower else cleaned


def scene_of(names: Iterable[str]) -> SceneGraph:
    """Return one object for each name, without relations."""
    listed = list(names)
    return SceneGraph(
        objects=tuple(
            SceneObject(id=id_, name=name)
            for id_, name in zip(numbered(listed), listed, strict=True)
        )
    )


class Photos:
    """Folders with the photos of a set."""

    def __init__(self, folders: Iterable[Path]) -> None:
        """Search ``folders`` in this order."""
        self.folders = tuple(folders)

    def find(self, name: str) -> Path | None:
        """Return the photo that a set calls ``name`` (``images/v1/patch8/a.jpg``), if there is one.

        It is looked for below each folder under this name, under its last two parts or its last
        alone. A name that leads out of the folder finds nothing.
        """
        parts = PurePosixPath(name.replace("\\", "/")).parts
        if not parts or ".." in parts or PurePosixPath(name).is_absolute():
            return None
        for folder in self.folders:
            for last in dict.fromkeys((len(parts), min(2, len(parts)), 1)):
                file = folder.joinpath(*parts[-last:])
                if file.is_file():
                    return file
        return None


def photos_in(images: str | Path | None, beside: Iterable[Path], name: str) -> Photos | None:
    """Return the photos of ``images``, or of the first of the folders ``beside`` that is there.

    None if there are none; ``DatasetError`` if ``images`` is not a folder.
    """
    if images is not None:
        folder = Path(images).expanduser()
        if not folder.is_dir():
            raise DatasetError(
                f"{name}: images = {str(images)!r} is not a folder: name that of photos"
            )
        return Photos([folder])
    found = [folder for folder in beside if folder.is_dir()]
    return Photos(found) if found else None


def check_scene(scene: object, allowed: Sequence[str], photos: Photos | None, name: str) -> str:
    """Return ``scene`` if it is one of ``allowed``; without photos an item must have a scene."""
    if not isinstance(scene, str) or scene not in allowed:
        raise DatasetError(f"option scene is {scene!r}: use one of {', '.join(allowed)}")
    if scene == "none" and photos is None:
        others = " or ".join(f"scene = {other!r}" for other in allowed if other != "none")
        raise DatasetError(
            f"{name} gives photos with boxes, and there are no photos: name their folder with "
            f"images = 'FOLDER', or take scenes alone with {others}"
        )
    return scene
