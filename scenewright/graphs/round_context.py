"""Context that a strategy plans from: the best candidate, what it lacks, where its objects are."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from scenewright.config.options import LoopOptions
from scenewright.core.facts import missing_graph
from scenewright.core.layout import Region, region_between
from scenewright.core.ports.vision import Box, Detection, DetectionError
from scenewright.core.scene import SceneGraph
from scenewright.graphs.record import Candidate, totals_of
from scenewright.graphs.state import RefineContext
from scenewright.graphs.strategies.base import RoundContext, attempts


def make_round_context(
    scene: SceneGraph,
    best: Candidate,
    round: int,
    context: RefineContext,
    options: LoopOptions | None = None,
    missing: SceneGraph | None = None,
) -> RoundContext:
    """Return the context a strategy plans ``round`` from, given the judged candidate ``best``.

    ``options`` and ``missing`` replace the run's own options and missing graph.
    """
    options, record = options or context.options, context.record
    facts = options.form.facts(scene)
    card = record.card(best.round)
    drawn = record.image(best.round, "candidate")
    assert drawn is not None
    layout = record.layout(best.round)
    steps = options.steps or context.backend.features.default_steps
    most = options.budget.images
    left = None if most is None else most - int(totals_of(record.before(round))["images"])
    # Of a cascade only the first judges are asked about an image that is judged at once.
    cascade = context.cascade_of("loop")
    judges = len(context.judges("loop")) if cascade is None else len(cascade.first)
    return RoundContext(
        round=round,
        scene=scene,
        facts=facts,
        card=card,
        missing=missing or missing_graph(scene, facts, card.verdicts),
        best=best.image,
        request=drawn.request,
        prompt=record.prompt(round, layout),
        layout=layout,
        options=options,
        backend=context.backend.id,
        features=context.backend.features,
        composer=context.composer,
        images=context.images,
        tried=attempts(record.events, facts, round, steps),
        images_left=left,
        judges=judges,
    )


async def locate_objects(
    scene: SceneGraph, best: Candidate, planned: Mapping[str, Region], context: RefineContext
) -> dict[str, Region]:
    """Return the region of every object of ``scene`` that was seen in the picture ``best``, by id.

    Of several instances of a class each gets the detection nearest to its ``planned`` place, and
    none where no places are planned: it is unknown which is which. A detector that fails finds
    nothing.
    """
    facts = context.options.form.facts(scene)
    subjects = {fact.id: fact.subject for fact in facts if fact.kind == "object"}
    boxes: dict[str, list[Box]] = {}
    for answer in context.record.answers(best.round):
        if answer.state == "yes" and answer.region and answer.fact_id in subjects:
            boxes.setdefault(subjects[answer.fact_id], []).append(answer.region)
    if not boxes and context.detector is None:
        return {}
    picture = await asyncio.to_thread(context.images.get, best.image)
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
        instances = [id_ for id_ in names if names[id_] == name and id_ not in found]
        alike = [one for one in seen if one.name == name]
        found |= _matched(instances, alike, planned, picture.size)
    return found


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
        (_squared_distance(planned[name], region), name, at)
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


def _squared_distance(one: Region, other: Region) -> float:
    across = (one.left + one.right - other.left - other.right) / 2
    down = (one.top + one.bottom - other.top - other.bottom) / 2
    return across**2 + down**2
