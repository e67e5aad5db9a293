"""Several scorers over one set: what is done is kept, what failed is asked again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from scenewright.core.ports.vision import ObjectRealism, RealismError
from scenewright.evals.human_ratings.rated_objects import RatedObject
from scenewright.evals.studies.olip.comparing import compare, examples_of
from tests.doubles import painted
from tests.evals.damaged import damage
from tests.tools.vision.realism.rated import PixelScorer


def exact(shape: float, texture: float) -> ObjectRealism:
    return ObjectRealism(shape, texture, (shape + texture) / 2, usd=0.25)


def asked(scorer: PixelScorer) -> int:
    return sum(len(call) for call in scorer.calls)


@pytest.fixture
def objects(tmp_path: Path) -> list[RatedObject]:
    found = []
    for at, (shape, texture) in enumerate([(1, 2), (3, 3), (5, 4)]):
        painted((40, 30), (10 * shape, 10 * texture, 0)).save(tmp_path / f"{at}.png")
        found += [
            RatedObject(
                id=f"{at}.{n}", image=f"{at}.png", category="dog", box=(n, 0, 20, 20),
                shape=shape, texture=texture, split="test" if at else "train",
            )
            for n in range(2)
        ]  # fmt: skip
    return found


def failed(scores: Sequence[ObjectRealism]) -> int:
    return sum(not score.known for score in scores)


async def test_predictions_come_in_the_order_of_the_set(
    objects: list[RatedObject], tmp_path: Path
) -> None:
    heard: list[tuple[str, int]] = []
    mixed = [objects[at] for at in (4, 0, 3, 1, 5, 2)]
    scorers = [PixelScorer(exact, "1"), PixelScorer(lambda s, t: ObjectRealism(s, None), "2")]
    first, second = await compare(
        scorers, tmp_path, mixed, kept=tmp_path / "kept", on_scored=lambda *said: heard.append(said)
    )
    assert [(s.shape, s.texture) for s in first] == [(o.shape, o.texture) for o in mixed]
    assert [s.texture for s in second] == [None] * 6
    assert sum(score.usd for score in first) == 1.5
    assert sum(n for _, n in heard) == 12
    # Objects of one picture are one call.
    assert sorted(len(call) for call in scorers[0].calls) == [2, 2, 2]


async def test_a_second_run_asks_nothing(objects: list[RatedObject], tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    await compare([PixelScorer(exact)], tmp_path, objects[:3], kept=kept)
    again = PixelScorer(exact)
    await compare([again], tmp_path, objects, kept=kept)
    assert asked(again) == 3
    other = PixelScorer(exact, "other")
    await compare([other], tmp_path, objects, kept=kept)
    assert asked(other) == 6
    # A box that moved, or a picture that changed, is another object.
    moved = objects[0].model_copy(update={"box": (0.0, 0.0, 9.0, 9.0)})
    painted((40, 30), (50, 50, 0)).save(tmp_path / "2.png")
    third = PixelScorer(exact)
    (found,) = await compare([third], tmp_path, [moved, *objects[1:]], kept=kept)
    assert asked(third) == 3
    assert found[-1].shape == 5


async def test_failures_are_told_and_asked_again(
    objects: list[RatedObject], tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    broken = PixelScorer(
        lambda s, t: ObjectRealism(None, None, reason="no line") if s == 3 else exact(s, t)
    )
    (found,) = await compare([broken], tmp_path, objects, kept=kept)
    assert (failed(found), found[2].reason) == (2, "no line")
    again = PixelScorer(exact)
    (found,) = await compare([again], tmp_path, objects, kept=kept)
    assert (failed(found), asked(again)) == (0, 2)


async def test_damaged_scores_are_made_anew(objects: list[RatedObject], tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    await compare([PixelScorer(exact)], tmp_path, objects, kept=kept)
    (file,) = kept.rglob("journal.sqlite")
    damage(file)
    again = PixelScorer(exact)
    await compare([again], tmp_path, objects, kept=kept)
    assert asked(again) == 2
    await compare([again], tmp_path, objects, kept=kept)
    assert asked(again) == 2


async def test_a_picture_that_cannot_be_read_fails_its_objects(
    objects: list[RatedObject], tmp_path: Path
) -> None:
    (tmp_path / "1.png").write_bytes(b"no picture")
    (tmp_path / "2.png").unlink()
    (found,) = await compare([PixelScorer(exact)], tmp_path, objects, kept=tmp_path / "kept")
    assert [s.shape for s in found] == [1, 1, None, None, None, None]
    assert "1.png" in found[2].reason


async def test_a_scorer_that_cannot_be_loaded_stops_with_its_reason(
    objects: list[RatedObject], tmp_path: Path
) -> None:
    def fails(shape: float, texture: float) -> ObjectRealism:
        raise RealismError("no weights: pull them")

    with pytest.raises(RealismError, match=r"^no weights: pull them$"):
        await compare(
            [PixelScorer(exact, "1"), PixelScorer(fails, "2")],
            tmp_path, objects, kept=tmp_path / "kept",
        )  # fmt: skip
    with pytest.raises(RealismError, match="the same"):
        await compare([PixelScorer(exact), PixelScorer(exact)], tmp_path, objects, kept=tmp_path)


def test_examples_come_from_the_training_part(objects: list[RatedObject], tmp_path: Path) -> None:
    found = examples_of(tmp_path, objects)
    assert {one.picture.name for one in found.objects} == {"0.png"}
    assert found.of("dog").objects[0].picture.is_file()
    with pytest.raises(RealismError, match="examples come from training"):
        examples_of(tmp_path, objects[2:])
