"""Where the objects of a study come from: rated objects, a file of detections, or a detector."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scenewright.core.images import ImageError, load_image
from scenewright.core.ports.vision import Detection, DetectionError, Detector, RealismError
from scenewright.evals.human_ratings.objects.data import FILE, read_objects
from scenewright.evals.human_ratings.sources import SUFFIXES, Source, match_arms
from scenewright.evals.human_ratings.study import RatingError
from scenewright.tools.vision.detection.files import Listed, as_record, read_detections

UNKNOWN = "unknown"
"""Source of a picture of which nothing is said."""
Tick = Callable[[int, int], None]
"""Told after each picture: how many are done, and how many there are."""


@dataclass(frozen=True, slots=True)
class Pictured:
    """A picture and what was detected in it."""

    item: str
    """Its id in the source."""
    file: Path
    """Where it lies."""
    source: str
    """What made it; raters never see this."""
    size: tuple[int, int]
    """Width and height."""
    things: tuple[Detection, ...]
    """What is in it, boxes in its pixels."""
    ids: tuple[str, ...] = ()
    """Ids of the things, where the source gives them."""


@dataclass(frozen=True, slots=True)
class ObjectSource:
    """Pictures with objects."""

    about: str
    """What it is, for reports."""
    pictures: tuple[Pictured, ...]
    """In the source's order."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Why pictures are not among them → how many."""


def read_rated(folder: Path) -> ObjectSource:
    """The objects of a set of rated objects; their ratings are not looked at.

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
            found.append(
                Pictured(image, root / image, source or UNKNOWN, size, things, ids)
            )  # fmt: skip
    return _source(f"rated objects {folder.name}", found, left_out)


def read_detected(file: Path, images: Path | None = None) -> ObjectSource:
    """The things of a file of detections (:mod:`scenewright.tools.vision.detection.files`, COCO's
    forms included), whose pictures lie in ``images``, by default in the folder of ``file``.

    What made a picture is the folder that its name begins with (``sdxl/001.png``). Raises
    ``RatingError`` for a file that cannot be read or fits no picture.
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
    return _source(f"detections {file.name}", found, left_out)


async def detect_all(
    source: Source,
    detector: Detector,
    record: Path,
    arms: Sequence[str] = (),
    labels: Sequence[str] = (),
    tick: Tick | None = None,
) -> ObjectSource:
    """What ``detector`` finds in all pictures of ``source``, or of its ``arms``.

    Each picture's detections are appended to ``record`` (JSON lines) at once: what lies there
    already is not detected again. Raises ``RatingError`` for a detector that cannot be used.
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
    return _source(f"{source.about}, objects by {detector.id}", found, left_out)


def _recorded(record: Path) -> dict[str, tuple[Detection, ...]]:
    """Picture → its detections, as far as the file is whole: a run that was killed may have left
    half of a line at its end."""
    if not record.is_file():
        return {}
    data = record.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if whole != data:
        record.write_bytes(whole)
    try:
        listed = read_detections(record)
    except DetectionError as error:
        raise RatingError(f"{error}; delete {record} to detect anew") from error
    return {
        image: tuple(
            Detection(one.name, one.sides, one.score, stuff=one.stuff)
            for one in things
            if one.sides is not None
        )
        for image, things in listed.items()
    }


def _append(record: Path, picture: str, seen: Iterable[Detection]) -> None:
    boxes = [Detection(one.name, one.box, one.score, stuff=one.stuff) for one in seen]
    entry = {"image": picture, "detections": as_record({picture: boxes})["images"][picture]}
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        with record.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
    except OSError as error:
        raise RatingError(f"{record} cannot be written: {error.strerror or error}") from error


def _placed(things: Sequence[Listed], size: tuple[int, int]) -> tuple[Detection, ...]:
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
        why = "the picture cannot be read" if file.is_file() else "there is no such picture"
        left_out[why] = left_out.get(why, 0) + 1
        return None


def _source(about: str, found: list[Pictured], left_out: dict[str, int]) -> ObjectSource:
    if not found:
        why = "; ".join(f"{n} × {reason}" for reason, n in left_out.items())
        raise RatingError(
            f"{about} holds no picture that can be rated{f' ({why})' if why else ''}: check where "
            f"its pictures lie (--images), as {', '.join(SUFFIXES)}"
        )
    return ObjectSource(about, tuple(found), left_out)


def is_rated_set(place: Path) -> bool:
    """Whether ``place`` is a set of rated objects."""
    return (place / FILE).is_file() or (place.name == FILE and place.is_file())


def is_detections(place: Path) -> bool:
    """Whether ``place`` is a file of detections."""
    return place.is_file() and place.suffix.lower() in (".json", ".jsonl", ".ndjson")
