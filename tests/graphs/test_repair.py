"""Repairing a region: what a round keeps of the best candidate and where it may change it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scenewright.config.profiles import BUILT_IN
from scenewright.core.facts import Fact
from scenewright.core.images import ImageStore
from scenewright.core.layout import Cell, region_of_cell
from scenewright.core.ports.backend import GenerationRequest
from scenewright.graphs.events import Event, Generated
from scenewright.graphs.state import round_seed
from scenewright.runs.api import refine
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge

SCENE = "red ball on table; dog left of table; cat near dog"
CELLS: dict[str, Cell] = {"ball.1": (1, 0), "table.1": (1, 1), "dog.1": (0, 1), "cat.1": (0, 2)}
SEED = 5


def level(fact: Fact) -> int:
    """The cat is found in pictures of quality over 100, all else always."""
    return 100 if "cat" in fact.id else 0


async def requests_of(
    out: Path, qualities: list[int], planned: dict[str, Cell] = CELLS, **options: Any
) -> list[GenerationRequest]:
    """The requests of the candidates, whose qualities are these, one a round."""
    asked = options.pop("level", level)
    seeds = {round_seed(SEED, n, "reference") for n in range(1, 9)}
    rest = iter(qualities)
    backend = ScriptedBackend(
        lambda request: 0 if request.seed in seeds else next(rest),
        **{"masks": True, **options.pop("backend", {})},
    )
    events: list[Event] = []
    await refine(
        SCENE,
        BUILT_IN["miniature"].model_copy(update={"repair": "region", **options}),
        out=out,
        seed=SEED,
        rounds=len(qualities),
        patience=9,
        backend=backend,
        composer=ScriptedComposer(
            planned={key: region_of_cell(cell, 0) for key, cell in planned.items()}
        ),
        judges=[ScriptedJudge("a", level=asked)],
        report_judges=[],
        on_event=events.append,
    )
    drawn = [e for e in events if isinstance(e, Generated) and e.purpose == "candidate"]
    return [event.request for event in drawn]


def share(out: Path, mask: str | None) -> float:
    """The part of the picture that a mask covers."""
    assert mask is not None
    picture = ImageStore(out / "images").get(mask).convert("L")
    return picture.histogram()[255] / (picture.width * picture.height)


async def test_only_the_place_of_what_is_missing_changes(tmp_path: Path) -> None:
    first, second = await requests_of(
        tmp_path / "run", [50, 50], repair_strength=0.7, weight_best=0.5
    )
    assert (first.start, first.references) == (None, ())
    assert second.seed == round_seed(SEED, 1, "candidate")
    assert second.start is not None
    assert second.start.strength == 0.7
    best, missing = second.references
    assert missing.mask == second.start.mask
    # The dog is in the missing graph, because the cat is missing near it: two cells of nine.
    inside = share(tmp_path / "run", second.start.mask)
    assert inside == pytest.approx(2 / 9, abs=0.05)
    # The best picture stays there by itself; as a reference it only tells where it came from.
    assert (best.weight, best.mask) == (0.0, None)


async def test_a_round_begins_with_the_best_picture_and_the_reference_pasted_in(
    tmp_path: Path,
) -> None:
    second = (await requests_of(tmp_path / "run", [50, 50]))[1]
    images = ImageStore(tmp_path / "run" / "images")
    assert second.start is not None
    assert second.start.mask is not None
    best, missing = (images.get(reference.image) for reference in second.references)
    start, mask = images.get(second.start.image), images.get(second.start.mask).convert("L")
    assert start.size == best.size
    for x in range(start.width):
        for y in range(start.height):
            shown = missing if mask.getpixel((x, y)) == 255 else best
            assert start.getpixel((x, y)) == shown.getpixel((x, y))


async def test_rounds_add_up_and_failures_do_not(tmp_path: Path) -> None:
    def ball_first(fact: Fact) -> int:
        return 50 if "ball" in fact.id else level(fact)

    requests = await requests_of(tmp_path / "run", [20, 10, 60, 255], level=ball_first)
    kept = [request.references[0].image for request in requests[1:]]
    # Round 1 was worse than round 0, so round 2 begins with round 0 again.
    assert kept[0] == kept[1] != kept[2]
    starts = [request.start.image for request in requests[1:] if request.start is not None]
    assert len(set(starts)) == 3


async def test_without_a_weight_no_reference_is_drawn(tmp_path: Path) -> None:
    requests = await requests_of(tmp_path / "run", [50, 50, 50], weight_missing=0.0)
    drawn = list((tmp_path / "run" / "images").rglob("*.png"))
    for request in requests[1:]:
        assert request.start is not None
        # Noise: what is there now is wrong, and nothing shows what is right.
        assert request.start.strength == 1.0
        assert [r.image for r in request.references] == [request.start.image]
    # Three candidates and a mask.
    assert len(drawn) == 4


@pytest.mark.parametrize(
    ("planned", "options"),
    [
        pytest.param({}, {}, id="the composer plans no places"),
        pytest.param({"dog.1": (0, 1)}, {}, id="it does not plan what is missing"),
        pytest.param(CELLS, {"repair": "whole"}, id="the paper's way"),
        pytest.param(CELLS, {"backend": {"masks": False}}, id="the backend takes no masks"),
    ],
)
async def test_else_the_whole_picture_is_drawn_anew(
    tmp_path: Path, planned: dict[str, Cell], options: dict[str, Any]
) -> None:
    first, second = await requests_of(tmp_path / "run", [50, 50], planned, **options)
    assert second.start is None
    assert second.seed == round_seed(SEED, 1, "candidate") != first.seed
    assert [reference.mask for reference in second.references] == [None, None]


async def test_a_backend_with_room_for_one_gets_what_is_missing(tmp_path: Path) -> None:
    second = (await requests_of(tmp_path / "run", [50, 50], backend={"references": 1}))[1]
    assert second.start is not None
    assert [r.mask for r in second.references] == [second.start.mask]
