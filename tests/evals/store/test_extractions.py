"""Kept extractions: one look a picture, files that are whole or made anew."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scenewright.core.images import hash_of_image
from scenewright.core.ports.vision import (
    Detection,
    Dropped,
    Extraction,
    ExtractionError,
    GraphExtractor,
    Unread,
)
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.store.extractions import (
    Extractions,
    data_of,
    extraction_of,
    shared_extractions,
)
from tests.evals.damaged import damage, facts_in

RED = Image.new("RGB", (8, 6), "red")
BLUE = Image.new("RGB", (8, 6), "blue")
MASK = np.zeros((6, 8), bool)
MASK[1:4, 2:7] = True


class Looking:
    """An extractor that counts its looks."""

    id = "looking"

    def __init__(self, fingerprint: str = "f" * 64) -> None:
        self.fingerprint = fingerprint
        self.looks = 0
        self.fails = False
        self.closed = False

    async def extract(self, image: Image.Image) -> Extraction:
        self.looks += 1
        await asyncio.sleep(0)
        if self.fails:
            raise ExtractionError("nothing could be said")
        return Extraction(
            scene=SceneGraph(
                objects=(
                    SceneObject(id="dog.1", name="dog", attributes=Attributes({"color": "red"})),
                    SceneObject(id="sky.1", name="sky"),
                ),
                relations=(Relation(source="dog.1", predicate="under", target="sky.1"),),
            ),
            things={
                "dog.1": Detection("dog", (2.0, 1.0, 7.0, 4.0), 0.5, MASK),
                "sky.1": Detection("sky", (0.0, 0.0, 8.0, 1.0), 0.25, stuff=True),
            },
            confidence={"object:dog.1": 0.5},
            dropped=(Dropped("cat 0.2", "detection", "below 0.5"),),
        )

    async def aclose(self) -> None:
        self.closed = True


def same(one: Extraction, other: Extraction) -> bool:
    masks = [
        (a.mask is None) == (b.mask is None) and (a.mask is None or np.array_equal(a.mask, b.mask))
        for a, b in zip(one.things.values(), other.things.values(), strict=True)
    ]
    return one == other and all(masks)


def test_the_double_is_an_extractor() -> None:
    assert isinstance(Looking(), GraphExtractor)


async def test_a_picture_is_looked_at_once() -> None:
    extractor = Looking()
    kept = Extractions(extractor)
    found = await asyncio.gather(*(kept.of(RED) for _ in range(5)), kept.of(RED.copy()))
    assert extractor.looks == kept.made == 1
    assert all(one is found[0] for one in found)
    await kept.of(BLUE)
    assert extractor.looks == 2


async def test_another_process_finds_it_on_the_disk(tmp_path: Path) -> None:
    first, second = Looking(), Looking()
    seen = await Extractions(first, tmp_path).of(RED)
    found = await Extractions(second, tmp_path).of(RED)
    assert (first.looks, second.looks) == (1, 0)
    assert same(seen, found)


async def test_another_extractor_looks_for_itself(tmp_path: Path) -> None:
    await Extractions(Looking(), tmp_path).of(RED)
    other = Looking("a name: not a hash/..")
    await Extractions(other, tmp_path).of(RED)
    assert other.looks == 1
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("wrong", ["{}", '{"extraction": {}}', '{"extraction": null}'])
async def test_a_graph_that_cannot_be_read_is_made_anew(tmp_path: Path, wrong: str) -> None:
    await Extractions(Looking(), tmp_path).of(RED)
    (file,) = tmp_path.rglob("journal.sqlite")
    whole = facts_in(file)
    damage(file, wrong)
    again = Looking()
    await Extractions(again, tmp_path).of(RED)
    assert again.looks == 1
    assert facts_in(file) == whole


async def test_failures_are_not_kept(tmp_path: Path) -> None:
    extractor = Looking()
    extractor.fails = True
    kept = Extractions(extractor, tmp_path)
    with pytest.raises(ExtractionError, match="nothing could be said"):
        await kept.of(RED)
    extractor.fails = False
    assert (await kept.of(RED)).scene
    assert extractor.looks == 2


async def test_what_a_model_failed_on_is_read_anew_another_day(tmp_path: Path) -> None:
    class Partly(Looking):
        async def extract(self, image: Image.Image) -> Extraction:
            self.looks += 1
            reason = "the model gave no JSON"
            return Extraction(SceneGraph(), unread=(Unread("relations", reason),))

    extractor = Partly()
    kept = Extractions(extractor, tmp_path)
    found = await asyncio.gather(*(kept.of(RED) for _ in range(2)))
    assert not found[0].complete
    # Nothing is known of it that would be worth keeping.
    assert list(tmp_path.rglob("journal.sqlite")) == []
    looks = extractor.looks
    await kept.of(RED)
    await Extractions(extractor, tmp_path).of(RED)
    assert extractor.looks == looks + 2


async def test_a_look_that_is_cancelled_is_taken_by_who_waits() -> None:
    class Slow(Looking):
        async def extract(self, image: Image.Image) -> Extraction:
            if not self.looks:
                self.looks += 1
                await asyncio.Event().wait()
            return await super().extract(image)

    extractor = Slow()
    kept = Extractions(extractor)
    first = asyncio.create_task(kept.of(RED, "a" * 64))
    second = asyncio.create_task(kept.of(RED, "a" * 64))
    await asyncio.sleep(0.01)
    first.cancel()
    assert (await second).scene
    assert first.cancelled()


async def test_a_picture_can_be_read_anew(tmp_path: Path) -> None:
    extractor = Looking()
    kept = Extractions(extractor, tmp_path)
    await kept.of(RED)
    kept.forget(hash_of_image(RED))
    await kept.of(RED)
    assert extractor.looks == 2


async def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ExtractionError, match="cannot be kept in"):
        await Extractions(Looking(), file).of(RED)


async def test_who_shares_an_extractor_shares_what_it_sees(tmp_path: Path) -> None:
    one = shared_extractions(Looking(), tmp_path)
    assert shared_extractions(Looking(), tmp_path) is one
    assert shared_extractions(Looking("e" * 64), tmp_path) is not one
    assert shared_extractions(Looking()) is not one
    await one.aclose()
    assert isinstance(one.extractor, Looking)
    assert one.extractor.closed


def test_event_loops_one_after_the_other() -> None:
    extractor = Looking()
    kept = Extractions(extractor)

    async def both() -> None:
        await asyncio.gather(kept.of(RED), kept.of(BLUE), kept.of(RED))

    asyncio.run(both())
    asyncio.run(both())
    assert extractor.looks == 2


def test_data_that_is_no_extraction_is_told() -> None:
    with pytest.raises(ExtractionError, match="this is not an extraction"):
        extraction_of({"scene": {}})
    whole = data_of(asyncio.run(Looking().extract(RED)))
    whole["things"]["dog.1"]["mask"]["counts"] = "\x00"
    with pytest.raises(ExtractionError, match="this is not an extraction"):
        extraction_of(whole)
