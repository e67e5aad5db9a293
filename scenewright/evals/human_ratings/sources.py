"""Sources of studies: evaluations, folders of arms, tables, detections and rated objects."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from scenewright.agents.judges.replay import LIST_SEPARATOR, Row, TableError, read_table
from scenewright.core.facts import Fact
from scenewright.core.images import ENDINGS, ImageError, load_image
from scenewright.core.ports.vision import Detection, DetectionError, Detector, RealismError
from scenewright.core.questions import facts_of
from scenewright.core.scene import SceneGraph
from scenewright.evals.human_ratings.rated_objects import FILE, read_objects
from scenewright.evals.human_ratings.study import RatingError, Tick
from scenewright.evals.store.json_lines import append_lines, read_lines
from scenewright.evals.store.results import IMAGES, MANIFEST, Results
from scenewright.tools.vision.detection.files import ListedDetection, as_record, read_detections

ITEMS_FILE = "items.csv"
ORIGINALS = "originals"
"""Subfolder of a plain folder that holds the original photos, if there are any."""
_COLUMNS = ("item", "arm", "image", "prompt", "original", "facts")
_FACTS = TypeAdapter(tuple[Fact, ...])


@dataclass(frozen=True, slots=True)
class Entry:
    """An item with the picture of each arm."""

    item: str
    pictures: Mapping[str, Path]
    """File by arm."""
    original: Path | None = None
    """File of the original photo."""
    prompt: str = ""
    """The item's own text."""
    scene: SceneGraph | None = None
    facts: tuple[Fact, ...] = ()
    """Facts that each picture should satisfy."""


@dataclass(frozen=True, slots=True)
class Pictured:
    """A picture and the detections in it."""

    item: str
    """Its id in the source."""
    file: Path
    """Where it lies."""
    source: str
    """Source of the picture; raters never see this."""
    size: tuple[int, int]
    """Width and height."""
    things: tuple[Detection, ...]
    """Detections, with boxes in pixels."""
    ids: tuple[str, ...] = ()
    """Ids of the things, where the source gives them."""


@dataclass(frozen=True, slots=True)
class Source:
    """Items, or pictures with objects, to rate."""

    about: str
    """Description for reports."""
    arms: tuple[str, ...]
    """All arms, or sources of pictures, in their order."""
    entries: tuple[Entry, ...] = ()
    """The items, in their order."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Why items or pictures are not among them → how many."""
    objects: tuple[Pictured, ...] = ()
    """Pictures with objects, in the source's order."""


def read_source(path: str | Path) -> Source:
    """Return the items of an evaluation's folder, a plain folder, or a CSV or parquet file.

    A plain folder has one subfolder an arm with a file ``ITEM.png`` (or .jpg, .jpeg, .webp) each,
    optionally ``originals/`` with the photos, and ``items.csv`` with the columns item, prompt and
    facts (statements joined by ``|``). A table has the columns item, arm and image (file names
    relative to its folder), optionally prompt, original and facts.

    Raises ``RatingError`` or ``EvalError`` for sources that cannot be read or hold no picture.
    """
    place = Path(path)
    if (place / MANIFEST).is_file():
        return _evaluation(Results(place))
    if place.is_dir():
        return _folder(place)
    if place.is_file():
        return _table(place)
    raise RatingError(
        f"{place} does not exist: name the folder of an evaluation, a folder with one subfolder an "
        "arm, or a CSV file with the columns item, arm and image"
    )


def match_arms(wanted: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return the arms of ``wanted``: whole names, or a part between slashes that only one arm has.

    Raises ``RatingError`` for a name that matches no arm or several, and for repeated arms.
    """
    found = []
    for name in wanted:
        parts = name.split("/")
        n = len(parts)
        hits = [name] if name in known else [
            arm for arm in known
            if any(arm.split("/")[at : at + n] == parts for at in range(arm.count("/") + 1))
        ]  # fmt: skip
        if len(hits) != 1:
            said = "is not one of the arms" if not hits else "matches several of the arms"
            raise RatingError(f"{name!r} {said}: give one of {', '.join(hits or known)}")
        found.append(hits[0])
    if len(set(found)) < len(found):
        raise RatingError(f"an arm is named twice in {', '.join(wanted)}")
    return tuple(found)


def _evaluation(results: Results) -> Source:
    pictures: dict[str, dict[str, Path]] = {}
    arms: dict[str, None] = {}
    for row in results.rows("rounds", ["item", "arm", "kept", "image"]):
        arms.setdefault(row["arm"])
        if row["kept"] and row["image"]:
            file = results.folder / IMAGES / f"{row['image']}.png"
            pictures.setdefault(row["item"], {})[row["arm"]] = file
    entries, lost = [], 0
    for row in results.rows("items"):
        if row["item"] not in pictures:
            lost += 1
            continue
        where = f"{results.path('items')}, item {row['item']}"
        try:
            scene = SceneGraph.model_validate_json(row["scene"]) if row["scene"] else None
            facts = _FACTS.validate_json(row["facts"]) if row["facts"] else ()
        except ValidationError as error:
            raise RatingError(f"{where}: {error.errors()[0]['msg']}") from error
        original = Path(row["original"]) if row["original"] else None
        if original is not None and not original.is_absolute() and not original.is_file():
            original = results.folder / original
        entries.append(
            Entry(
                item=row["item"],
                pictures=pictures[row["item"]],
                original=original,
                prompt=row["prompt"] or "",
                scene=scene,
                facts=facts or (() if scene is None else tuple(facts_of(scene))),
            )
        )
    left_out = {"no arm has drawn it": lost} if lost else {}
    return _source(f"evaluation {results.folder.name}", arms, entries, left_out)


def _folder(folder: Path) -> Source:
    arms: dict[str, None] = {}
    pictures: dict[str, dict[str, Path]] = {}
    originals: dict[str, Path] = {}
    for below in sorted(p for p in folder.iterdir() if p.is_dir() and p.name[0] != "."):
        for item, file in _files(below):
            if below.name == ORIGINALS:
                originals[item] = file
            else:
                arms.setdefault(below.name)
                pictures.setdefault(item, {})[below.name] = file
    about: dict[str, Row] = {}
    file = folder / ITEMS_FILE
    if file.is_file():
        about = {row["item"]: row for row in _rows(file, ("item",))}
    entries = []
    for item, found in sorted(pictures.items()):
        row = about.get(item)
        entries.append(
            Entry(
                item=item,
                pictures=found,
                original=originals.get(item),
                prompt=row["prompt"] if row else "",
                facts=_statements(row["facts"]) if row else (),
            )
        )
    return _source(f"folder {folder.name}", arms, entries, {})


def _table(file: Path) -> Source:
    arms: dict[str, None] = {}
    pictures: dict[str, dict[str, Path]] = {}
    about: dict[str, Row] = {}
    for row in _rows(file, ("item", "arm", "image")):
        item, arm = row["item"], row["arm"]
        if not item or not arm or not row["image"]:
            raise RatingError(f"{file}, {row.place}: item, arm and image must not be empty")
        arms.setdefault(arm)
        if pictures.setdefault(item, {}).setdefault(arm, file.parent / row["image"]) != (
            file.parent / row["image"]
        ):
            raise RatingError(f"{file}, {row.place}: a second picture of {item!r} by {arm!r}")
        first = about.setdefault(item, row)
        for column in ("prompt", "original", "facts"):
            if row[column] != first[column]:
                raise RatingError(
                    f"{file}, {row.place}: another {column} of {item!r} than in {first.place}"
                )
    entries = [
        Entry(
            item=item,
            pictures=found,
            original=file.parent / about[item]["original"] if about[item]["original"] else None,
            prompt=about[item]["prompt"],
            facts=_statements(about[item]["facts"]),
        )
        for item, found in pictures.items()
    ]
    return _source(f"table {file.name}", arms, entries, {})


def _source(
    about: str, arms: Mapping[str, None], entries: list[Entry], left_out: dict[str, int]
) -> Source:
    if not entries:
        raise RatingError(
            f"{about} has no pictures to rate: an evaluation needs kept pictures, a folder one "
            "subfolder an arm with files ITEM.png"
        )
    return Source(about, tuple(arms), tuple(entries), left_out)


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    seen: dict[str, Path] = {}
    for file in sorted(folder.iterdir()):
        if file.suffix.lower() in ENDINGS and file.is_file():
            if file.stem in seen:
                raise RatingError(f"{seen[file.stem]} and {file} are two pictures of one item")
            seen[file.stem] = file
            yield file.stem, file


def _rows(file: Path, needed: Sequence[str]) -> tuple[Row, ...]:
    try:
        table = read_table(
            file, file.read_bytes(), _COLUMNS, lambda there: [c for c in needed if c not in there]
        )
    except OSError as error:
        raise RatingError(f"{file} cannot be read: {error.strerror or error}") from error
    except TableError as error:
        raise RatingError(str(error)) from error
    return table.rows


def _statements(cell: str) -> tuple[Fact, ...]:
    """Return facts for statements in a user's own words."""
    said = [part.strip() for part in cell.split(LIST_SEPARATOR)]
    return tuple(
        Fact(id=f"s{number}", kind="object", subject=text, statement=text, question=text)
        for number, text in enumerate(filter(None, dict.fromkeys(said)), start=1)
    )


UNKNOWN = "unknown"
"""Source of a picture of which nothing is said."""


def read_rated(folder: Path) -> Source:
    """Return the objects of a set of rated objects, without their ratings.

    Raises ``RatingError`` for a set that cannot be read.
    """
    try:
        rated = read_objects(folder)
    except RealismError as error:
        raise RatingError(str(error)) from error
    root = folder if folder.is_dir() else folder.parent
    by_image: dict[tuple[str, str], list[int]] = {}
    for at, one in enumerate(rated):
        by_image.setdefault((one.image, one.source), []).append(at)
    left_out: dict[str, int] = {}
    found = []
    for (image, source), rows in by_image.items():
        size = _size_of(root / image, left_out)
        if size is not None:
            things = tuple(rated[at].detection for at in rows)
            ids = tuple(rated[at].id for at in rows)
            found.append(Pictured(image, root / image, source or UNKNOWN, size, things, ids))
    return _object_source(f"rated objects {folder.name}", found, left_out)


def read_detected(file: Path, images: Path | None = None) -> Source:
    """Return the objects of a file of detections, COCO's formats included.

    :mod:`scenewright.tools.vision.detection.files` reads it. The pictures are in ``images``, by
    default in the folder of ``file``. A picture's source is the folder that its name begins with
    (``sdxl/001.png``). Raises ``RatingError`` for a file that cannot be read or matches no picture.
    """
    try:
        listed = read_detections(file)
    except DetectionError as error:
        raise RatingError(str(error)) from error
    root = file.parent if images is None else images
    left_out: dict[str, int] = {}
    found = []
    for name, things in listed.items():
        size = _size_of(root / name, left_out)
        if size is not None:
            made = _first_folder(name)
            found.append(Pictured(name, root / name, made, size, _placed(things, size)))
    return _object_source(f"detections {file.name}", found, left_out)


async def detect_all(
    source: Source,
    detector: Detector,
    record: Path,
    arms: Sequence[str] = (),
    labels: Sequence[str] = (),
    tick: Tick | None = None,
) -> Source:
    """Return the detections of ``detector`` in all pictures of ``source``, or of its ``arms``.

    Each picture's detections are appended to ``record`` (JSON lines) at once; pictures in it are
    not detected again. Raises ``RatingError`` for a detector that cannot be used.
    """
    wanted = match_arms(arms, source.arms) if arms else source.arms
    todo = [
        (arm, entry.item, entry.pictures[arm])
        for entry in source.entries
        for arm in wanted
        if arm in entry.pictures
    ]
    known = _recorded(record)
    left_out: dict[str, int] = {}
    found = []
    for done, (arm, item, file) in enumerate(todo, start=1):
        size = _size_of(file, left_out)
        key = str(file.resolve())
        if size is not None and key not in known:
            try:
                seen = await detector.detect(load_image(file), labels)
            except DetectionError as error:
                raise RatingError(str(error)) from error
            known[key] = tuple(seen)
            _append(record, key, seen)
        if size is not None:
            found.append(Pictured(item, file, arm, size, known[key]))
        if tick is not None:
            tick(done, len(todo))
    return _object_source(f"{source.about}, objects by {detector.id}", found, left_out)


def _recorded(record: Path) -> dict[str, tuple[Detection, ...]]:
    """Return the detections of each picture in the file, without a line that a kill cut off."""
    try:
        return {
            row["image"]: tuple(
                Detection(one["name"], tuple(one["box"]), one["score"], stuff="stuff" in one)
                for one in row["detections"]
            )
            for _, row in (read_lines(record) if record.is_file() else ())
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RatingError(f"{record} cannot be read ({error}): delete it to detect anew") from error


def _append(record: Path, picture: str, seen: Iterable[Detection]) -> None:
    boxes = [Detection(one.name, one.box, one.score, stuff=one.stuff) for one in seen]
    entry = {"image": picture, "detections": as_record({picture: boxes})["images"][picture]}
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        append_lines(record, [json.dumps(entry)])
    except OSError as error:
        raise RatingError(f"{record} cannot be written: {error.strerror or error}") from error


def _placed(things: Sequence[ListedDetection], size: tuple[int, int]) -> tuple[Detection, ...]:
    found = []
    for one in things:
        try:
            box, _ = one.placed(size)
        except DetectionError as error:
            raise RatingError(str(error)) from error
        found.append(Detection(one.name, box, one.score, stuff=one.stuff))
    return tuple(found)


def _first_folder(name: str) -> str:
    parts = name.replace("\\", "/").split("/")
    return parts[0] if len(parts) > 1 and parts[0] not in ("", ".", "..") else UNKNOWN


def _size_of(file: Path, left_out: dict[str, int]) -> tuple[int, int] | None:
    try:
        return load_image(file).size
    except ImageError:
        why = "the picture cannot be read" if file.is_file() else "the picture is missing"
        left_out[why] = left_out.get(why, 0) + 1
        return None


def _object_source(about: str, found: list[Pictured], left_out: dict[str, int]) -> Source:
    if not found:
        why = "; ".join(f"{n} × {reason}" for reason, n in left_out.items())
        raise RatingError(
            f"{about} has no pictures that can be rated{f' ({why})' if why else ''}: check where "
            f"its pictures lie (--images), as {', '.join(ENDINGS)}"
        )
    sources = dict.fromkeys(picture.source for picture in found)
    return Source(about, tuple(sources), (), left_out, tuple(found))


def is_rated_set(place: Path) -> bool:
    """Return whether ``place`` is a set of rated objects."""
    return (place / FILE).is_file() or (place.name == FILE and place.is_file())


def is_detections(place: Path) -> bool:
    """Return whether ``place`` is a file of detections."""
    return place.is_file() and place.suffix.lower() in (".json", ".jsonl", ".ndjson")
