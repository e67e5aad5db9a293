"""Items as rows of tables and files of a folder, to read and to write.

Columns: ``id``, ``prompt``, ``scene``, ``image``, ``group``, ``category``, ``facts``,
``predicates``, ``detections``, ``meta``; others are ignored. A scene is JSON of any format that
:mod:`scenewright.core.formats` reads (text, or nested columns), or triplets; facts, detections and
meta are JSON in the form of :class:`~scenewright.evals.datasets.base.Item`. All may be empty, but
an item has a prompt, a scene or an image; one without an id gets the number of its row. The set
``table`` reads parquet, CSV, TSV or JSON lines files (text files also in ``.gz``), or a folder of
such files of one kind in the order of their names.

The set ``folder`` reads pictures with files beside them: ``NAME.json`` is the scene of ``NAME.jpg``
in any format, ``NAME.txt`` its caption; either may exist without a picture. The id of an item is
its path in the folder without the ending; its first folder is the group, the second the category.
Files are read in the order of their names; hidden ones are skipped.
"""

from __future__ import annotations

import json
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scenewright.core.flushing import replacing
from scenewright.core.formats import FormatWarning, load_scene, loads_scene
from scenewright.core.formats.base import NATIVE_MARKER
from scenewright.core.images import ENDINGS
from scenewright.core.scene import SceneError, SceneGraph
from scenewright.evals.datasets.base import DatasetError, Item, StreamedSet, make_item, unreadable
from scenewright.evals.datasets.reading import (
    check_parse,
    json_lines,
    lines_of,
    opened,
    parsed,
    rows_of,
    said_of,
)

COLUMNS = (
    *("id", "prompt", "scene", "image", "group", "category", "facts", "predicates"),
    *("detections", "meta"),
)
_ANY_OF = ("prompt", "scene", "image")


def columns_of(given: object) -> dict[str, str]:
    """Return field of an item → name of its column: ``given``, else the field's own name.

    Raises ``DatasetError`` for anything but such a mapping.
    """
    if given is None:
        return {name: name for name in COLUMNS}
    if not isinstance(given, Mapping) or not all(isinstance(v, str) and v for v in given.values()):
        raise DatasetError(
            f"option columns is {given!r}: map fields to columns, such as {{prompt = 'caption'}}"
        )
    unknown = sorted(set(given) - set(COLUMNS))
    if unknown:
        raise DatasetError(
            f"option columns names {unknown[0]!r}: the fields are {', '.join(COLUMNS)}"
        )
    return {name: given.get(name, name) for name in COLUMNS}


def check_columns(
    where: str,
    there: Sequence[str],
    columns: Mapping[str, str],
    given: Mapping[str, str] | None,
) -> None:
    """Raise ``DatasetError`` for missing columns.

    One of prompt, scene and image is needed, and every one that was ``given`` as an option.
    """
    lost = [column for column in (given or {}).values() if column not in there]
    if lost:
        raise DatasetError(f"{where} has no column {lost[0]!r}: it has {', '.join(there)}")
    if not any(columns[name] in there for name in _ANY_OF):
        raise DatasetError(
            f"{where} has no column {', '.join(_ANY_OF)} (it has {', '.join(there)}): name them "
            "with the option columns, such as {prompt = 'caption'}"
        )


def item_of(
    cells: Mapping[str, Any],
    columns: Mapping[str, str],
    place: str,
    number: int,
    base: Path,
    parse: str,
) -> Item:
    """Return the item of a row.

    Relative images begin at ``base``, ``number`` is that of the row, from 1.

    An image that is not there is left off and noted in ``meta["no_image"]``. Raises
    ``DatasetError`` that begins with ``place``.
    """
    held = {name: cells.get(column) for name, column in columns.items()}
    meta = _json(held["meta"], "meta", place, dict) or {}
    texts = ("prompt", "group", "category", "predicates")
    fields: dict[str, Any] = {name: _text(held[name], name, place) for name in texts}
    for name in ("facts", "detections"):
        fields[name] = tuple(_json(held[name], name, place, list) or ())
    fields["id"] = _text(held["id"], "id", place) or f"row-{number:06d}"
    image = _text(held["image"], "image", place)
    if image:
        file = base / Path(image).expanduser()
        if file.is_file():
            fields["image"] = str(file)
        else:
            meta = {**meta, "no_image": image}
    fields["meta"] = {str(key): value for key, value in meta.items()}
    scene = _scene(held["scene"], place)
    if scene is None and fields["prompt"] and parse != "none":
        fields |= said_of(fields["prompt"], parse, fields["meta"])
    elif scene is not None:
        fields["scene"] = scene
    if scene is None and not fields["prompt"] and "image" not in fields and image:
        raise DatasetError(f"{place}: there is no image {image}: relative names begin at {base}")
    return make_item(place, **fields)


def row_of(item: Item) -> dict[str, Any]:
    """Return ``item`` as an object of a JSON lines file, read back equal.

    Empty fields are left off.

    The image's name is made absolute, so that the file may lie anywhere.
    """
    row: dict[str, Any] = {"id": item.id}
    if item.prompt:
        row["prompt"] = item.prompt
    if item.scene is not None:
        row["scene"] = {"format": NATIVE_MARKER, **item.scene.model_dump(mode="json")}
    if item.facts:
        row["facts"] = [fact.model_dump(mode="json", exclude_defaults=True) for fact in item.facts]
    if item.image is not None:
        row["image"] = os.path.abspath(item.image)
    if item.detections:
        row["detections"] = [{"name": d.name, "box": list(d.box)} for d in item.detections]
    row |= {
        key: text for key in ("predicates", "group", "category") if (text := getattr(item, key))
    }
    return row | ({"meta": item.meta} if item.meta else {})


def write_items(items: Iterable[Item], path: Path) -> int:
    """Write ``items`` as JSON lines to ``path``; how many there were.

    The file appears when all are written. Raises ``DatasetError`` where it cannot be written.
    """
    count = 0
    try:
        with replacing(path) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
            for item in items:
                file.write(json.dumps(row_of(item), ensure_ascii=True) + "\n")
                count += 1
    except OSError as error:
        raise DatasetError(
            f"{path} cannot be written: {error.strerror or error}: name a writable file"
        ) from error
    return count


def _text(value: Any, name: str, place: str) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise DatasetError(f"{place}: {name} holds {type(value).__name__}: use text")


def _json(value: Any, name: str, place: str, kind: type) -> Any:
    """Return ``value`` (text is parsed) as a ``kind``; none if it is empty."""
    if isinstance(value, str):
        if not value.strip():
            return None
        value = parsed(value, f"{place}, {name}")
    value = _without_nulls(value)
    if value is None or isinstance(value, kind):
        return value
    shape = "an object" if kind is dict else "a list"
    raise DatasetError(f"{place}: {name} must be {shape}, found {value!r:.60}")


def _without_nulls(value: Any) -> Any:
    """Remove the nulls that nested columns hold for keys of other rows."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _scene(value: Any, place: str) -> SceneGraph | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if not isinstance(value, str | dict | list):
        raise DatasetError(f"{place}: scene holds {type(value).__name__}: use text or JSON")
    data = _without_nulls(value)
    try:
        if isinstance(data, dict) and data.get("format") == NATIVE_MARKER:
            return SceneGraph.model_validate({k: v for k, v in data.items() if k != "format"})
        text = data if isinstance(data, str) else json.dumps(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FormatWarning)
            return loads_scene(text)
    except (SceneError, ValidationError) as error:
        said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise DatasetError(f"{place}: scene: {said}") from error


TABLE_VERSION = 1
TABLE_NAME = "table"
LINES = ".txt"
"""Ending of a list of prompts, one a line."""
SUFFIXES = (".parquet", ".csv", ".tsv", ".jsonl", ".ndjson", LINES)
_BATCH = 256

Cells = Mapping[str, Any]


def load_table(
    path: Path | None, *, columns: Mapping[str, str] | None = None, parse: str = "none"
) -> StreamedSet:
    """Return the items of the file or folder ``path``.

    ``columns`` says which column holds which field, where they are called otherwise; ``parse``
    (``rules``) makes scenes of prompts that have none. Raises ``DatasetError`` for files of another
    kind and lost columns, here or on iteration.
    """
    check_parse(parse)
    named = columns_of(columns)
    files = table_files(path)
    return StreamedSet(
        partial(items_of_files, files, named, columns, parse),
        name=TABLE_NAME,
        version=TABLE_VERSION,
        options={"columns": named, "parse": parse},
        files=lambda: [(file.name, file) for file in files],
    )


def suffix_of(path: Path) -> str:
    """Return the kind of ``path``, one of :data:`SUFFIXES`; empty for other files."""
    name = path.name.lower().removesuffix(".gz")
    found = next((suffix for suffix in SUFFIXES if name.endswith(suffix)), "")
    return "" if found == ".parquet" and path.suffix.lower() == ".gz" else found


def table_files(path: Path | None) -> list[Path]:
    """Return the files of the table ``path``.

    ``DatasetError`` if there are none, or of several kinds.
    """
    if path is None:
        raise DatasetError(
            f"{TABLE_NAME} is read from a file: name a {', '.join(SUFFIXES)} file (path)"
        )
    if not path.is_dir():
        if not path.is_file():
            raise DatasetError(f"there is no file {path}: check the name")
        if not suffix_of(path):
            raise DatasetError(
                f"{path} is not a table: its name must end in {', '.join(SUFFIXES)} (text files "
                "may be packed, .gz)"
            )
        return [path]
    # Text files lie beside tables as notes: one that is meant is named.
    files = sorted(f for f in path.iterdir() if suffix_of(f) not in ("", LINES) and f.is_file())
    kinds = sorted({suffix_of(file) for file in files})
    if len(kinds) != 1:
        held = f"holds tables of several kinds ({', '.join(kinds)})" if kinds else "holds no table"
        raise DatasetError(f"{path} {held}: name one file, or a folder with files of one kind")
    return files


def items_of_files(
    files: Sequence[Path],
    columns: Mapping[str, str],
    given: Mapping[str, str] | None,
    parse: str,
    left_out: Counter[str],
) -> Iterator[Item]:
    """Yield the items of all rows of ``files``; arguments as of :func:`load_table`."""
    number = 0
    for file in files:
        for place, cells in _rows(file, columns, given):
            number += 1
            yield item_of(cells, columns, place, number, file.parent, parse)


def _rows(
    file: Path, columns: Mapping[str, str], given: Mapping[str, str] | None
) -> Iterator[tuple[str, Cells]]:
    kind = suffix_of(file)
    if kind == ".parquet":
        yield from _parquet(file, columns, given)
        return
    if kind in (".jsonl", ".ndjson"):
        # Each line may hold other keys: a lost field shows in the item that lacks it.
        yield from json_lines(file)
        return
    if kind == LINES:
        for number, line in lines_of(file):
            yield f"{file}, line {number}", {columns["prompt"]: line.strip()}
        return
    checked = False
    for place, row in rows_of(file, delimiter="\t" if kind == ".tsv" else ","):
        if not checked:
            check_columns(str(file), list(row), columns, given)
            checked = True
        yield place, row


def _parquet(
    file: Path, columns: Mapping[str, str], given: Mapping[str, str] | None
) -> Iterator[tuple[str, Cells]]:
    # Imported here: pyarrow is large, and other tables do without it.
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as table:
            there = list(table.schema_arrow.names)
            check_columns(str(file), there, columns, given)
            wanted = [name for name in there if name in set(columns.values())]
            row = 0
            for batch in table.iter_batches(batch_size=_BATCH, columns=wanted):
                for cells in batch.to_pylist():
                    row += 1
                    yield f"{file}, row {row}", cells
    except (pa.ArrowException, OSError) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DatasetError(
            f"{file} is not a parquet file: {said}: fetch or write it again"
        ) from error


FOLDER_VERSION = 1
FOLDER_NAME = "folder"
SCENE = ".json"
CAPTION = ".txt"
_MOST_OF_A_CAPTION = 100_000


def load_folder(path: Path | None, *, recursive: bool = True, parse: str = "none") -> StreamedSet:
    """Return the items of the folder ``path``.

    With ``recursive`` those of the folders in it, too. ``parse`` (``rules``) makes scenes of
    captions without one. Raises ``DatasetError`` for no folder; on iteration for a folder without
    items, two pictures of one name, and a scene or caption that cannot be read.
    """
    check_parse(parse)
    if path is None or not path.is_dir():
        raise DatasetError(
            f"{FOLDER_NAME} is read from a folder of pictures, scenes (.json) and captions (.txt): "
            + ("name it (path)" if path is None else f"{path} is none")
        )
    return StreamedSet(
        partial(_folder_items, path, bool(recursive), parse),
        name=FOLDER_NAME,
        version=FOLDER_VERSION,
        options={"recursive": bool(recursive), "parse": parse},
        files=lambda: [
            (file.relative_to(path).as_posix(), file)
            for group in _groups(path, bool(recursive))
            for file in group
        ],
        unique=True,
    )


def _groups(root: Path, recursive: bool) -> Iterator[list[Path]]:
    """Yield the files of each item, in the order of the items."""
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        by_name: dict[str, list[Path]] = {}
        inner: list[Path] = []
        try:
            for entry in sorted(folder.iterdir()):
                if entry.name.startswith("."):
                    continue
                if entry.is_dir():
                    inner.append(entry)
                elif entry.suffix.lower() in (*ENDINGS, SCENE, CAPTION):
                    by_name.setdefault(entry.stem, []).append(entry)
        except OSError as error:
            raise unreadable(folder, error) from error
        yield from by_name.values()
        waiting += reversed(inner) if recursive else []


def _folder_items(
    root: Path, recursive: bool, parse: str, left_out: Counter[str]
) -> Iterator[Item]:
    found = False
    for files in _groups(root, recursive):
        found = True
        yield _item(root, files, parse)
    if not found:
        raise DatasetError(f"{root} holds no pictures, scenes (.json) or captions (.txt)")


def _item(root: Path, files: list[Path], parse: str) -> Item:
    place = os.fspath(files[0])
    pictures = [file for file in files if file.suffix.lower() in ENDINGS]
    if len(pictures) > 1:
        raise DatasetError(
            f"{pictures[0]} and {pictures[1].name} have one name: an item has one picture, so "
            "rename one"
        )
    beside = {file.suffix.lower(): file for file in files}
    scene = _scene_beside(beside[SCENE]) if SCENE in beside else None
    caption = _caption(beside[CAPTION]) if CAPTION in beside else ""
    said = said_of(caption, parse if caption and scene is None else "none")
    within = files[0].relative_to(root)
    folders = within.parent.parts
    return make_item(
        place,
        id=within.with_suffix("").as_posix(),
        image=str(pictures[0]) if pictures else None,
        group=folders[0] if folders else "",
        category=folders[1] if len(folders) > 1 else "",
        **({"scene": scene} | said if scene is not None else said),
    )


def _scene_beside(file: Path) -> SceneGraph:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FormatWarning)
            return load_scene(file)
    except SceneError as error:
        raise DatasetError(
            f"{error}; a .json file in this folder is the scene of the picture of its name"
        ) from error


def _caption(file: Path) -> str:
    with opened(file) as text:
        said = text.read(_MOST_OF_A_CAPTION + 1)
    if len(said) > _MOST_OF_A_CAPTION:
        raise DatasetError(f"{file} is too long for a caption: describe one picture")
    return " ".join(said.split())
