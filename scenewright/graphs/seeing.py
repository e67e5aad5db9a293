"""Where the objects of a picture stand: as judges saw them, else as the detector finds them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from scenewright.core.facts import Fact
from scenewright.core.layout import Region, region_between
from scenewright.core.ports.vision import Box, Detection, DetectionError
from scenewright.core.scene import SceneGraph
from scenewright.graphs.events import Answered
from scenewright.graphs.state import Candidate, RefineContext


async def where_seen(
    scene: SceneGraph, best: Candidate, planned: Mapping[str, Region], context: RefineContext
) -> dict[str, Region]:
    """Return the region of every object of ``scene`` that was seen in the picture ``best``, by id.

    Of several instances of a class each gets the detection nearest to its ``planned`` place, and
    none where no places are planned: nobody knows which is which. A detector that fails sees
    nothing.
    """
    facts = context.options.form.facts(scene)
    boxes = _by_judges(facts, best, context)
    if not boxes and context.detector is None:
        return {}
    picture = await asyncio.to_thread(context.images.get, best["image"])
    between = {name: region_between(mine, picture.size) for name, mine in boxes.items()}
    found = {name: region for name, region in between.items() if region is not None}
    if context.detector is None:
        return found
    names = {item.id: item.name for item in scene.objects}
    try:
        seen = await context.detector.detect(picture, sorted(set(names.values())))
    except DetectionError:
        return found
    for name in dict.fromkeys(names.values()):
        mine = [id_ for id_ in names if names[id_] == name and id_ not in found]
        alike = [one for one in seen if one.name == name]
        found |= _matched(mine, alike, planned, picture.size)
    return found


def _by_judges(
    facts: Sequence[Fact], best: Candidate, context: RefineContext
) -> dict[str, list[Box]]:
    """Return the boxes in pixels that the loop's judges gave to objects."""
    subjects = {fact.id: fact.subject for fact in facts if fact.kind == "object"}
    boxes: dict[str, list[Box]] = {}
    for event in context.log.events:
        if isinstance(event, Answered) and (event.round, event.role) == (best["round"], "loop"):
            for answer in event.answers:
                if answer.state == "yes" and answer.region and answer.fact_id in subjects:
                    boxes.setdefault(subjects[answer.fact_id], []).append(answer.region)
    return boxes


def _matched(
    objects: Sequence[str],
    detections: Sequence[Detection],
    planned: Mapping[str, Region],
    size: tuple[int, int],
) -> dict[str, Region]:
    if len(objects) > 1 and not all(name in planned for name in objects):
        return {}
    regions = [inside for one in detections if (inside := region_between([one.box], size))]
    if len(objects) == 1 and objects[0] not in planned:
        # By descending score.
        return {objects[0]: regions[0]} if regions else {}
    pairs = sorted(
        (_apart(planned[name], region), name, at)
        for name in objects
        for at, region in enumerate(regions)
    )
    found: dict[str, Region] = {}
    taken: set[int] = set()
    for _, name, at in pairs:
        if name not in found and at not in taken:
            found[name] = regions[at]
            taken.add(at)
    return found


def _apart(one: Region, other: Region) -> float:
    across = (one.left + one.right - other.left - other.right) / 2
    down = (one.top + one.bottom - other.top - other.bottom) / 2
    return across**2 + down**2
