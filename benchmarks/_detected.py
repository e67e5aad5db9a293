"""Facts of a picture read off a detector's outlines, without any judge.

The truth of a painting is known exactly, that of a generated picture is not. What stands in for it
shares no weights with a judge: the miniature's segmenter says where things of which kind are, the
mean of the pixels inside of an outline says their colour, and relations follow from the boxes by
the rule that paintings are true by
(:meth:`~scenewright.miniature.truth.Truth.relations_between`). Contacts are not read off boxes, so
facts of them are left out. How far it is to be trusted is measured on paintings against their
truth, and on generated pictures that were labelled by eye (:func:`trust_figures`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from benchmarks._miniature_models import FOLDER, known_facts, read_labels
from benchmarks._scenes import held_out
from scenewright.core.facts import Fact, Recall
from scenewright.core.images import load_image
from scenewright.core.layout import canonical_predicate
from scenewright.core.ports.vision import Detection, Detector
from scenewright.core.predicate_statistics import load_predicates
from scenewright.core.questions import facts_of
from scenewright.core.scene import Attributes, SceneGraph, SceneObject
from scenewright.miniature.sampler import GROUNDS
from scenewright.miniature.sprites import sprite
from scenewright.miniature.training.judges import known_of
from scenewright.miniature.truth import Box, Truth
from scenewright.miniature.world import COLORS, CONTACTS
from scenewright.runs.model_factory.local_models import detector_of


@cache
def detector() -> Detector:
    """Return the miniature's detector, loaded once a process."""
    return detector_of("miniature")


@cache
def _looks(kind: str) -> NDArray[np.float64]:
    """Return the mean RGB of a drawing of ``kind`` in each colour: (colours, 3), names sorted."""
    rows = []
    for colour in sorted(COLORS):
        drawn = np.asarray(sprite(kind, colour, 1.0, "flat", 0), float)
        rows.append(drawn[drawn[..., 3] >= 128, :3].mean(0))
    return np.array(rows)


def colour_of(image: Image.Image, found: Detection) -> str:
    """Return the colour in which a drawing of the kind is most like a detection on average."""
    pixels = np.asarray(image.convert("RGB"), float)
    mask = found.mask
    if mask is None:
        left, top, right, bottom = (round(at) for at in found.box)
        mask = np.zeros(pixels.shape[:2], bool)
        mask[top:bottom, left:right] = True
    far = np.linalg.norm(_looks(found.name) - pixels[mask].mean(0), axis=-1)
    return sorted(COLORS)[int(far.argmin())]


def truth_of(image: Image.Image, found: Sequence[Detection]) -> Truth:
    """Return what the detections say that ``image`` holds, without contacts."""
    objects: list[SceneObject] = []
    boxes: dict[str, Box] = {}
    for at, one in enumerate(found):
        key = f"{one.name}.{at}"
        colour = colour_of(image, one)
        objects.append(SceneObject(id=key, name=one.name, attributes=Attributes({"color": colour})))
        left, top, right, bottom = (round(side) for side in one.box)
        boxes[key] = Box(left, top, right - left, bottom - top)
    return Truth(SceneGraph(objects=tuple(objects)), "", boxes, {}, frozenset(), "flat", 0)


async def detected_truth(image: Image.Image) -> Truth:
    """Return what the miniature's detector sees in ``image``."""
    return truth_of(image, await detector().detect(image))


def is_readable(fact: Fact) -> bool:
    """Return whether outlines alone can decide ``fact``: all but relations of contact."""
    return fact.kind != "relation" or canonical_predicate(str(fact.predicate)) not in CONTACTS


def recalls(truth: Truth, asked: SceneGraph, facts: Sequence[Fact]) -> dict[str, Recall]:
    """Return by kind how many readable facts of ``asked`` hold in ``truth``."""
    found: dict[str, list[int]] = {"object": [0, 0], "attribute": [0, 0], "relation": [0, 0]}
    for fact in facts:
        if is_readable(fact):
            found[fact.kind][0 if truth.holds(fact, asked) else 1] += 1
    return {kind: Recall(yes=yes, no=no) for kind, (yes, no) in found.items()}


async def trust_figures(count: int) -> dict[str, Any]:
    """Return how often the detector agrees with what is known of pictures, by kind of fact.

    ``detector.TITLE.KIND.sensitivity`` and ``.specificity`` (of readable facts that hold and that
    do not) and their numbers ``.true`` and ``.false``. Titles are ``painted`` and the levels of
    ``GROUNDS``, of ``count`` paintings each, of which their own scene is asked and that of the
    painting before, and ``labels``: generated pictures that were labelled by eye.
    """
    told: dict[tuple[str, str], list[tuple[bool, bool]]] = {}

    def add(title: str, fact: Fact, asked: SceneGraph, holds: bool, seen: Truth) -> None:
        if is_readable(fact):
            told.setdefault((title, fact.kind), []).append((holds, seen.holds(fact, asked)))

    for title, ground in (("painted", None), *((one, one) for one in GROUNDS)):
        before: SceneGraph | None = None
        for at in range(count):
            painting, _ = known_of(held_out(f"detector/{title}", at), ground)
            seen = await detected_truth(painting.image)
            for asked in filter(None, (painting.scene, before)):
                for fact in facts_of(asked, predicates=load_predicates("miniature")):
                    add(title, fact, asked, painting.truth.holds(fact, asked), seen)
            before = painting.scene
    for picture in read_labels().pictures:
        seen = await detected_truth(load_image(FOLDER / picture.file))
        for known in known_facts(picture):
            add("labels", known.fact, picture.scene, known.holds, seen)
    figures: dict[str, Any] = {}
    for (title, kind), rows in told.items():
        for holds, sides in ((True, ("sensitivity", "true")), (False, ("specificity", "false"))):
            right = [said == holds for truly, said in rows if truly == holds]
            figures[f"detector.{title}.{kind}.{sides[1]}"] = len(right)
            if right:
                figures[f"detector.{title}.{kind}.{sides[0]}"] = sum(right) / len(right)
    return figures
