"""Read scenes from files and text, detect their format, and write them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scenewright.core.formats import graphs, megasg, sg2im, triplets, visual_genome
from scenewright.core.formats.base import (
    MAX_BYTES,
    NATIVE_EXAMPLE,
    Format,
    FormatError,
    checked,
    fail,
    parse_json,
    quote,
    read_native,
    split_id,
    write_native,
)
from scenewright.core.formats.published import translated
from scenewright.core.scene import SceneGraph
from scenewright.core.user_files import decoded

_SUFFIXES = (".json", ".jsonl", ".txt")

Reader = Callable[[Any, str], SceneGraph]
Writer = Callable[[SceneGraph], dict[str, Any]]


def _entries(text: str, where: str) -> list[tuple[Any, str]]:
    """Return the JSON entries of a file and their places."""
    data = translated(parse_json(text, where))
    if isinstance(data, list):
        begin = f"{where}: " if where else ""
        return [(entry, f"{begin}[{index}]") for index, entry in enumerate(data)]
    return [(data, where)]


def _json_format(
    name: str, about: str, read: Reader, write: Writer, *, always_list: bool = False
) -> Format:
    """Return a format of JSON entries: one scene is one entry, several are a list."""

    def read_all(text: str, where: str) -> list[SceneGraph]:
        return [read(entry, place) for entry, place in _entries(text, where)]

    def write_all(scenes: Sequence[SceneGraph]) -> str:
        entries = [write(scene) for scene in scenes]
        for number, entry in enumerate(entries, 1):
            if "image_id" in entry:
                entry["image_id"] = number
        data = entries if always_list or len(entries) != 1 else entries[0]
        return json.dumps(data, ensure_ascii=False, indent=2) + "\n"

    return Format(name, about, read_all, write_all)


_KNOWN = (
    _json_format(
        "json", "our own JSON: objects with id, name and attributes", read_native, write_native
    ),
    _json_format("megasg", "the MegaSG style: ids such as person.2", megasg.read, megasg.write),
    _json_format(
        "sg2im",
        "SG2Im: relationships by the numbers of objects",
        sg2im.read,
        sg2im.write,
        always_list=True,
    ),
    _json_format(
        "visual-genome",
        "Visual Genome scene_graphs.json",
        visual_genome.read,
        visual_genome.write,
        always_list=True,
    ),
    Format("triplets", 'lines such as "red ball on table"', triplets.read, triplets.write),
    _json_format("networkx", "NetworkX node-link JSON", graphs.read, graphs.write),
)
FORMATS: dict[str, Format] = {item.name: item for item in _KNOWN}


def _format(name: str) -> Format:
    if name not in FORMATS:
        raise fail("", f"unknown format {quote(name)}: use one of {', '.join(FORMATS)}")
    return FORMATS[name]


def _entry_format(entry: Any) -> tuple[str, bool] | None:
    """Return the format of one JSON entry and whether it is certain; None for another object."""
    if not isinstance(entry, dict):
        return None
    if "nodes" in entry:
        return "networkx", True
    if "format" in entry or "relations" in entry:
        return "json", True
    objects, links = entry.get("objects"), entry.get("relationships")
    first = objects[0] if isinstance(objects, list) and objects else None
    link = links[0] if isinstance(links, list) and links else None
    if isinstance(first, dict):
        return ("visual-genome" if "object_id" in first or "names" in first else "json"), True
    if isinstance(link, list):
        return "sg2im", True
    if isinstance(link, dict):
        return ("visual-genome" if "subject_id" in link else "megasg"), True
    if isinstance(first, str) and isinstance(objects, list):
        numbered = len(set(map(str, objects))) == len(objects) and all(
            isinstance(o, str) and split_id(o)[1] is not None for o in objects
        )
        extra = entry.get("attributes")
        if isinstance(extra, dict) and extra:
            return ("sg2im" if all(key.isdecimal() for key in extra) else "megasg"), True
        return ("megasg" if numbered else "sg2im"), False
    if links is not None:
        return "sg2im", False
    return ("json", False) if objects is not None else None


def detect_format(text: str, where: str = "") -> str:
    """Return the name of the format of ``text``, by its content.

    ``FormatError`` for JSON that is not a scene graph of a known kind. Text that does not
    begin like JSON is taken as triplet lines.
    """
    if text.lstrip()[:1] not in ("{", "["):
        return "triplets"
    doubtful = None
    for entry, place in _entries(text, where):
        found = _entry_format(entry)
        if found is None:
            raise fail(
                place,
                f"not a scene graph: {quote(entry)}; write for example {NATIVE_EXAMPLE}",
            )
        if found[1]:
            return found[0]
        doubtful = doubtful or found[0]
    if doubtful is None:
        raise fail(where, "the list is empty: put at least one scene into it")
    return doubtful


def _clean(text: str, where: str) -> str:
    nul = text.find("\x00")
    if nul >= 0:
        raise fail(where, f"a NUL byte at character {nul + 1}: this is not a text file")
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise fail(where, 'there is nothing in it: write a scene, for example "dog left of table"')
    return text


def _read(text: str, where: str, format: str | None) -> list[SceneGraph]:
    text = _clean(text, where)
    scenes = _format(format or detect_format(text, where)).read(text, where)
    if not scenes:
        raise fail(where, "the list is empty: put at least one scene into it")
    return scenes


def _pick(scenes: list[SceneGraph], index: int | None, where: str) -> SceneGraph:
    if index is None and len(scenes) > 1:
        raise fail(
            where,
            f"holds {len(scenes)} scenes: give index=0 to {len(scenes) - 1}, or load them all",
        )
    if not -len(scenes) <= (index or 0) < len(scenes):
        raise fail(where, f"there is no scene {index}: it holds {len(scenes)}, counted from 0")
    return scenes[index or 0]


def _file_text(path: Path) -> str:
    where = str(path)
    try:
        if path.is_dir():
            raise fail(where, "is a directory: name a file in it")
        if not path.exists():
            raise fail(
                where,
                "no such file: check the name; a scene given as text needs quotes and "
                'spaces, for example "red ball on table"',
            )
        if not path.is_file():
            raise fail(where, "is not a regular file: copy its content into one")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FormatError:
        raise
    except (OSError, ValueError) as error:
        raise fail(where, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_BYTES:
        raise fail(where, f"is larger than {MAX_BYTES // 2**20} MiB: split it into several files")
    return decoded(data, where, FormatError)


def text_of_source(source: str | os.PathLike[str]) -> tuple[str, str]:
    """Return the text that ``source`` means, and its place for errors; empty if it is the text.

    A ``Path`` is a file. A string is a file if one of that name exists, or if it looks like a path
    (ends in .json, .jsonl or .txt, or has a slash and no space); otherwise it is the text itself.
    ``FormatError`` for a file that cannot be read and for a text that is too large.
    """
    if not isinstance(source, str):
        path = Path(source)
        return _file_text(path), str(path)
    text = source.strip()
    if "\n" not in text and "\x00" not in text and text[:1] not in ("{", "[") and text:
        looks_like_path = text.lower().endswith(_SUFFIXES) or ("/" in text and " " not in text)
        try:
            is_file = os.path.isfile(source)
        except (OSError, ValueError):
            is_file = False
        if is_file or looks_like_path:
            return _file_text(Path(source if is_file else text)), text
    return _text(source), ""


def _text(text: str) -> str:
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise fail("", f"the text is larger than {MAX_BYTES // 2**20} MiB: split it")
    return text


def loads_scenes(text: str, format: str | None = None) -> list[SceneGraph]:
    """Return all scenes of ``text``, in ``format`` or the one detected by content.

    Raises ``FormatError`` with the place and the remedy.
    """
    return _read(_text(text), "", format)


def loads_scene(
    text: str, format: str | None = None, index: int | None = None, where: str = ""
) -> SceneGraph:
    """Return the scene of ``text``; ``index`` picks one of several.

    ``FormatError`` as above, with the place ``where``, such as the name of a file.
    """
    return _pick(_read(_text(text), where, format), index, where)


def load_scenes(source: str | os.PathLike[str], format: str | None = None) -> list[SceneGraph]:
    """Return all scenes of a file (UTF-8, at most 20 MiB) or of a text (:func:`text_of_source`).

    ``FormatError`` names the place and the remedy.
    """
    text, where = text_of_source(source)
    return _read(text, where, format)


def load_scene(
    source: str | os.PathLike[str], format: str | None = None, index: int | None = None
) -> SceneGraph:
    """Return the scene of a file or text, as :func:`load_scenes`.

    ``index`` picks one of several.
    """
    text, where = text_of_source(source)
    return _pick(_read(text, where, format), index, where)


def dump_scenes(
    scenes: Sequence[SceneGraph],
    format: str = "json",
    path: str | os.PathLike[str] | None = None,
) -> str:
    """Return the text of ``scenes`` in ``format``; also written to ``path`` (UTF-8) if given.

    Raises ``FormatError`` if there is no scene or one is empty: it could not be read again.
    """
    writer = _format(format)
    if not scenes:
        raise fail("", "there is no scene to write")
    for index, scene in enumerate(scenes):
        checked(scene, f"scene {index}" if len(scenes) > 1 else "")
    text = writer.write(scenes)
    if path is not None:
        try:
            Path(path).write_text(text, encoding="utf-8", newline="\n")
        except OSError as error:
            raise fail(str(path), f"cannot be written: {error.strerror}") from None
    return text


def dump_scene(
    scene: SceneGraph, format: str = "json", path: str | os.PathLike[str] | None = None
) -> str:
    """Return the text of one scene in ``format``; also written to ``path`` if given."""
    return dump_scenes([scene], format, path)
