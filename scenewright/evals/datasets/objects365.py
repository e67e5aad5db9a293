"""Objects365 (Shao et al., 2019), release v2: photos with detections in COCO's layout.

Its files are ``zhiyuan_objv2_train.json`` and ``zhiyuan_objv2_val.json``; its photos lie in folders
``patch0``, ``patch1``, … with the names in the file beginning ``images/v1/`` or ``images/v2/``.
Class labels (``Street Lights``) are written in lower case, as in COCO and in the paper.
"""

from __future__ import annotations

from pathlib import Path

from scenewright.evals.datasets.coco import find_file, open_layout
from scenewright.evals.datasets.reading import one_of
from scenewright.evals.datasets.sources import given_or_default
from scenewright.evals.datasets.stream import StreamedSet

NAME = "objects365"


def load(
    path: Path | None = None,
    *,
    images: str | None = None,
    split: str = "val",
    min_objects: int = 3,
    scene: str = "none",
) -> StreamedSet:
    """The photos of Objects365 with their boxes; arguments and errors are those of
    :func:`scenewright.evals.datasets.coco.load`.

    ``images`` holds the patch folders, by default ``val`` or ``train`` beside the annotations.
    """
    one_of("split", split, ("val", "train"))
    given = given_or_default(path, NAME)
    name = f"zhiyuan_objv2_{split}.json"
    files = (name, f"annotations/{name}", f"{split}/{name}")
    file, member = find_file(NAME, given, files)
    folder = given if given.is_dir() else file.parent
    beside = [folder / split, folder / "images" / split]
    return open_layout(
        NAME, file, member, images, beside, min_objects=min_objects, scene=scene, lower=True
    )
