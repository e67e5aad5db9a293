"""Runs that begin with a given picture, and masks that keep a part of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw

from scenewright.core.images import ImageStore, hash_of_image
from scenewright.core.ports.backend import Start
from scenewright.graphs.errors import RunError
from scenewright.graphs.eventlog import read_events
from scenewright.graphs.events import Generated
from scenewright.graphs.initial_image import within_mask
from scenewright.graphs.strategies.base import GenerationOverrides
from scenewright.runs.api import refine
from scenewright.runs.folder import EVENTS, IMAGES, MANIFEST
from scenewright.runs.record import read_run
from scenewright.runs.report.render import render_run
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge, painted
from tests.graphs.strategies.situations import round_context

SCENE = "red ball on table; dog left of table"


def picture(red: int, size: tuple[int, int] = (40, 24)) -> Image.Image:
    """A picture of that quality for the scripted judges."""
    return painted(size, (red, 10, 20))


def half(size: tuple[int, int] = (40, 24)) -> Image.Image:
    """White on the left half."""
    mask = Image.new("L", size)
    ImageDraw.Draw(mask).rectangle((0, 0, size[0] // 2 - 1, size[1] - 1), fill=255)
    return mask


def models(backend: ScriptedBackend) -> dict[str, Any]:
    return {
        "backend": backend,
        "judges": [ScriptedJudge("a")],
        "report_judges": [],
        "composer": ScriptedComposer(),
    }


async def test_a_picture_that_holds_everything_is_kept_and_nothing_is_drawn(tmp_path: Path) -> None:
    backend = ScriptedBackend(lambda request: 0)
    given = picture(255)
    result = await refine(SCENE, out=tmp_path / "run", start=given, **models(backend))
    assert result.stop_reason == "satisfied"
    assert result.totals["images"] == 0
    assert backend.book.lines == []
    assert result.best is not None
    assert result.best.image == hash_of_image(given)
    assert result.best.does == "takes the picture that was given"
    assert result.image is not None
    assert Image.open(result.image).size == (40, 24)


async def test_what_it_lacks_is_repaired_from_there(tmp_path: Path) -> None:
    backend = ScriptedBackend(lambda request: 255 if request.references else 0)
    file = tmp_path / "mine.png"
    picture(60).save(file)
    result = await refine(SCENE, out=tmp_path / "run", start=file, **models(backend))
    events = read_events(tmp_path / "run" / EVENTS)
    drawn = [e for e in events if isinstance(e, Generated) and e.purpose == "candidate"]
    assert [event.given for event in drawn] == [True, False]
    assert drawn[1].request.references[0].image == hash_of_image(picture(60))
    assert result.best_round == 1
    assert result.totals["images"] == 2
    page = render_run(read_run(tmp_path / "run"))
    assert page.count("nothing: the picture came with the run") == 1


async def test_a_mask_keeps_every_repair_to_where_it_is_white(tmp_path: Path) -> None:
    backend = ScriptedBackend(lambda request: 100, masks=True)
    result = await refine(
        SCENE, out=tmp_path / "run", start=picture(60), mask=half(), rounds=3, **models(backend)
    )
    events = read_events(tmp_path / "run" / EVENTS)
    repairs = [e for e in events if isinstance(e, Generated) and e.purpose == "candidate"][1:]
    assert repairs
    for event in repairs:
        assert event.request.start is not None
        assert event.request.start.mask == hash_of_image(half())
    assert repairs[0].request.start is not None
    assert repairs[0].request.start.image == result.rounds[0].image
    assert repairs[0].request.start.strength == 1.0


def test_a_repair_of_its_own_places_changes_only_what_both_masks_let_change(
    tmp_path: Path,
) -> None:
    images = ImageStore(tmp_path / "images")
    mask, best = images.put(half()), images.put(picture(60))
    low = Image.new("L", (20, 12))
    ImageDraw.Draw(low).rectangle((0, 6, 19, 11), fill=255)
    own = images.put(low)
    seen = round_context(tmp_path, (), best=best, options={"start": best, "mask": mask})
    found = within_mask(GenerationOverrides(start=Start(image=best, strength=0.5, mask=own)), seen)
    assert found.start is not None
    assert found.start.mask is not None
    assert found.start.strength == 0.5
    assert images.get(found.start.mask).convert("L").getbbox() == (0, 6, 10, 12)
    right = Image.new("L", (20, 12))
    ImageDraw.Draw(right).rectangle((12, 0, 19, 11), fill=255)
    apart = Start(image=best, strength=0.5, mask=images.put(right))
    found = within_mask(GenerationOverrides(start=apart), seen)
    assert found.start is not None
    assert found.start.mask == mask


async def test_the_size_is_that_of_every_drawing(tmp_path: Path) -> None:
    backend = ScriptedBackend(lambda request: 40 + 40 * bool(request.references))
    await refine(SCENE, out=tmp_path / "run", size=(48, 32), rounds=2, **models(backend))
    events = read_events(tmp_path / "run" / EVENTS)
    sizes = {(e.request.width, e.request.height) for e in events if isinstance(e, Generated)}
    assert sizes == {(48, 32)}


async def test_a_kill_before_the_picture_was_kept_loses_nothing(tmp_path: Path) -> None:
    run = tmp_path / "run"
    backend = ScriptedBackend(lambda request: 80)
    whole = await refine(SCENE, out=run, start=picture(60), **models(backend))
    # As after a kill between the manifest and the pictures.
    for entry in run.iterdir():
        if entry.is_file() and entry.name != MANIFEST:
            entry.unlink()
    for entry in (run / IMAGES).rglob("*"):
        if entry.is_file():
            entry.unlink()
    again = await refine(SCENE, out=run, start=picture(60), **models(backend))
    assert [one.image for one in again.rounds] == [one.image for one in whole.rounds]


async def test_another_picture_is_another_run(tmp_path: Path) -> None:
    backend = ScriptedBackend(lambda request: 80)
    await refine(SCENE, out=tmp_path / "run", start=picture(60), **models(backend))
    with pytest.raises(RunError, match="another configuration"):
        await refine(SCENE, out=tmp_path / "run", start=picture(61), **models(backend))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"mask": half()}, "a mask needs the picture"),
        ({"start": picture(1), "mask": half((8, 8))}, "give both in one size"),
        ({"start": picture(1), "mask": Image.new("L", (40, 24))}, "lets nothing change"),
        ({"start": "none such.png"}, "no file none such.png"),
        ({"size": (48, 30)}, "multiple of 8"),
        ({"start": picture(1), "strategy": "director"}, "draws its first picture itself"),
        ({"start": picture(1), "mask": half()}, "cannot keep a part of a picture"),
    ],
)
async def test_what_cannot_be_is_refused_before_anything_is_done(
    tmp_path: Path, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(RunError, match=told):
        await refine(
            SCENE, out=tmp_path / "run", **options, **models(ScriptedBackend(lambda request: 0))
        )
    assert not (tmp_path / "run" / MANIFEST).exists()
