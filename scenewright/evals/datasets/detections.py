"""What the sets of detections share: boxes in their image, photos on this machine, bare scenes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from scenewright.core.formats.base import numbered
from scenewright.core.scene import MAX_OBJECTS, SceneError, SceneGraph, SceneObject, clean_name
from scenewright.evals.datasets.base import DatasetError

Box = tuple[float, float, float, float]

CROWD = "boxes of a crowd or group"
NO_AREA = "boxes without an area inside their image"
NO_PHOTO = "images whose photo is not in the folder"
TOO_MANY = f"images with more than {MAX_OBJECTS} objects"


def too_few(least: int) -> str:
    """Why an image was left out whose objects are fewer than ``least``."""
    return f"images with fewer than {least} objects"


def number_of(value: Any, place: str, what: str) -> float:
    """``value`` if it is a number (or the text of one); ``DatasetError`` otherwise."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            found = float(value)
        except (ValueError, OverflowError):
            found = float("nan")
        if found == found and abs(found) != float("inf"):
            return found
    raise DatasetError(f"{place}: {what} must be a number, found {value!r:.60}")


def clipped(box: Box, size: tuple[float, float]) -> Box | None:
    """The part of ``box`` (xmin, ymin, xmax, ymax) inside an image of ``size`` (width, height), all
    in pixels; none if nothing of it is."""
    left, top = max(0.0, box[0]), max(0.0, box[1])
    right, bottom = min(size[0], box[2]), min(size[1], box[3])
    return (left, top, right, bottom) if left < right and top < bottom else None


def label_of(name: object, place: str, lower: bool) -> str:
    """The class label as scenes and questions use it; ``DatasetError`` if it is none."""
    if not isinstance(name, str):
        raise DatasetError(f"{place}: a name must be text, found {name!r:.60}")
    try:
        cleaned = clean_name(name, "the name")
    except SceneError as error:
        raise DatasetError(f"{place}: {error}") from None
    return cleaned.lower() if lower else cleaned


def scene_of(names: Iterable[str]) -> SceneGraph:
    """One object for each name, without relations."""
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
        """They are looked through in this order."""
        self.folders = tuple(folders)

    def find(self, name: str) -> Path | None:
        """The photo that a set calls ``name`` (``images/v1/patch8/a.jpg``): below a folder under
        this name, under its last two parts or its last alone; none if there is none.

        A name that leads out of the folder finds nothing.
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
    """The photos of ``images``, or of the first of the folders ``beside`` that is there.

    None if there are none; ``DatasetError`` if ``images`` is no folder.
    """
    if images is not None:
        folder = Path(images).expanduser()
        if not folder.is_dir():
            raise DatasetError(
                f"{name}: images = {str(images)!r} is no folder: name that of photos"
            )
        return Photos([folder])
    found = [folder for folder in beside if folder.is_dir()]
    return Photos(found) if found else None


def check_scene(scene: object, allowed: Sequence[str], photos: Photos | None, name: str) -> str:
    """``scene`` if it is one of ``allowed``; without photos an item must have a scene."""
    if not isinstance(scene, str) or scene not in allowed:
        raise DatasetError(f"option scene is {scene!r}: use one of {', '.join(allowed)}")
    if scene == "none" and photos is None:
        others = " or ".join(f"scene = {other!r}" for other in allowed if other != "none")
        raise DatasetError(
            f"{name} gives photos with boxes, and there are no photos: name their folder with "
            f"images = 'FOLDER', or take scenes alone with {others}"
        )
    return scene
