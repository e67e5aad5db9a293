"""A scorer that scores each object once."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from PIL import Image

from scenewright.core.ports.vision import Detection, ObjectRealism, RealismError, RealismScorer
from scenewright.evals.metrics.ocr import CachedScorer
from tests.evals.damaged import damage
from tests.tools.vision.realism.scripted import ScriptedScorer

DOG, CAT = Detection("dog", (0, 0, 9, 9)), Detection("cat", (0, 0, 9, 9))


def picture(shade: int = 0) -> Image.Image:
    return Image.new("RGB", (16, 16), (shade, 0, 0))


async def test_who_asks_at_the_same_time_shares_the_scores(tmp_path: Path) -> None:
    inner = ScriptedScorer()
    kept = CachedScorer(inner, tmp_path)
    assert isinstance(kept, RealismScorer)
    assert (kept.id, kept.fingerprint) == (inner.id, inner.fingerprint)
    found = await asyncio.gather(*(kept.score(picture(), [DOG, CAT]) for _ in range(4)))
    assert found == [[ObjectRealism(3.0, 4.0)] * 2] * 4
    assert inner.asked == [(DOG, CAT)]
    # Another class, another place and another picture are other objects.
    await kept.score(picture(), [Detection("dog", (0, 0, 9, 8)), CAT])
    await kept.score(picture(1), [DOG])
    assert [len(asked) for asked in inner.asked] == [2, 1, 1]
    # How sure the detector is says nothing of how real an object looks.
    await kept.score(picture(), [Detection("dog", (0, 0, 9, 9), 0.4)])
    assert len(inner.asked) == 3


async def test_half_a_score_is_asked_again(tmp_path: Path) -> None:
    inner = ScriptedScorer(lambda item: ObjectRealism(3.0, None, reason="no texture"))
    kept = CachedScorer(inner, tmp_path)
    for _ in range(2):
        assert (await kept.score(picture(), [DOG]))[0].reason == "no texture"
    assert len(inner.asked) == 2
    assert list(tmp_path.rglob("journal.sqlite")) == []


async def test_scores_of_another_scorer_and_damaged_ones_are_not_used(tmp_path: Path) -> None:
    await CachedScorer(ScriptedScorer(), tmp_path).score(picture(), [DOG])
    other = ScriptedScorer(fingerprint="other")
    await CachedScorer(other, tmp_path).score(picture(), [DOG])
    assert len(other.asked) == 1
    for file in tmp_path.rglob("journal.sqlite"):
        damage(file)
    again = ScriptedScorer()
    assert await CachedScorer(again, tmp_path).score(picture(), [DOG]) == [ObjectRealism(3.0, 4.0)]
    assert len(again.asked) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
async def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(RealismError, match="cannot be kept"):
        await CachedScorer(ScriptedScorer(), tmp_path).score(picture(), [DOG])


async def test_without_a_folder_memory_keeps_them() -> None:
    inner = ScriptedScorer()
    kept = CachedScorer(inner)
    for _ in range(2):
        await kept.score(picture(), [DOG])
    await kept.aclose()
    await kept.score(picture(), [DOG])
    assert len(inner.asked) == 2
    assert not inner.closed
