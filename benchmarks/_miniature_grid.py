"""A page of pictures by the miniature generator: prompts by guidance, and every kind by colour."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image

from benchmarks._kept import KeptTeam
from benchmarks._miniature_drawing import request_at
from benchmarks._progress import progress
from benchmarks._sheets import paper, paste, write
from scenewright.core.formats import load_scene
from scenewright.core.scene import Attributes, SceneGraph, SceneObject
from scenewright.miniature.world import COLORS, KINDS

SCENES = (
    "red ball",
    "yellow dog left of blue house",
    "black cat on purple table; green ball right of purple table",
    "red person holding yellow umbrella; blue car right of red person; "
    "green tree above blue car; blue car below green tree",
    "red house left of green tree; green tree left of blue boat; yellow dog below red house; "
    "purple cat below green tree; yellow dog left of purple cat; red ball right of purple cat; "
    "red ball below blue boat; red house above yellow dog",
)
"""Triplets of the rows, from one thing to eight relations."""
SCALES = (0, 1, 2, 3, 5)
"""Guidance of the columns, 0 without text; the seed is the same in a row."""
SEED = 7
LIMIT_BYTES = 400_000
_SIDE = 192
_SMALL = 84
_GAP = 4
_WORDS = 232
_LABEL = 64
_TOP = 22


async def _drawn(
    kept: KeptTeam, scene: SceneGraph, seed: int, guidance: float | None
) -> Image.Image:
    prompt = await kept.run_models.composer.compose(scene, seed)
    return kept.images.get(await kept.draw(request_at(prompt, seed, guidance)))


async def _scenes_block(kept: KeptTeam, scenes: Sequence[str]) -> Image.Image:
    step = _SIDE + _GAP
    block = paper(_WORDS + len(SCALES) * step, _TOP + len(scenes) * step)
    write(block, (0, 2), ["what is asked, and guidance:"], 13)
    for column, scale in enumerate(SCALES):
        write(block, (_WORDS + column * step + _SIDE // 2, 2), [str(scale)], 13)
    for row, text in enumerate(progress("grid, scenes", scenes, len(scenes))):
        scene = load_scene(text, format="triplets")
        words = [f"{scene.level()}:", *(part.strip() for part in text.split(";"))]
        write(block, (0, _TOP + row * step), words, 12, 38)
        for column, scale in enumerate(SCALES):
            image = await _drawn(kept, scene, SEED, float(scale))
            paste(block, (_WORDS + column * step, _TOP + row * step), image, _SIDE)
    return block


async def _kinds_block(kept: KeptTeam, kinds: Sequence[str], colors: Sequence[str]) -> Image.Image:
    step = _SMALL + _GAP
    block = paper(_LABEL + len(kinds) * step, _TOP + len(colors) * step)
    for column, kind in enumerate(kinds):
        write(block, (_LABEL + column * step, 2), [kind], 13)
    for row, color in enumerate(progress("grid, colours", colors, len(colors))):
        write(block, (0, _TOP + row * step + 28), [color], 13)
        for column, kind in enumerate(kinds):
            item = SceneObject(id=kind, name=kind, attributes=Attributes({"color": color}))
            image = await _drawn(kept, SceneGraph(objects=(item,)), SEED, None)
            paste(block, (_LABEL + column * step, _TOP + row * step), image, _SMALL)
    return block


async def grid(
    kept: KeptTeam,
    scenes: Sequence[str] = SCENES,
    kinds: Sequence[str] = tuple(KINDS),
    colors: Sequence[str] = tuple(COLORS),
) -> Image.Image:
    """The page, RGB: scenes by guidance above, single things by colour below."""
    blocks = [await _scenes_block(kept, scenes), await _kinds_block(kept, kinds, colors)]
    margin = 12
    page = paper(
        max(block.width for block in blocks) + 2 * margin,
        sum(block.height + margin for block in blocks) + margin,
    )
    top = margin
    for block in blocks:
        page.paste(block, (margin, top))
        top += block.height + margin
    return page
