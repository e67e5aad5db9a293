"""Repairing a region: what a round keeps of the best candidate and where it may change it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scenewright.facts import Fact
from scenewright.graphs.events import Event, Generated
from scenewright.graphs.state import round_seed
from scenewright.images import ImageStore
from scenewright.placement import Cell
from scenewright.regions import covered, region_of_cell
from scenewright.runs import refine
from scenewright.settings import BUILT_IN
from scenewright.tools.backends.base import GenerationRequest
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
        judges=[ScriptedJudge("a", level=level)],
        report_judges=[],
        on_event=events.append,
    )
    drawn = [e for e in events if isinstance(e, Generated) and e.purpose == "candidate"]
    return [event.request for event in drawn]


def share(out: Path, mask: str | None) -> float:
    """The part of the picture that a mask covers."""
    assert mask is not None
    return covered(ImageStore(out / "images").get(mask).convert("L"))


async def test_only_the_place_of_what_is_missing_changes(tmp_path: Path) -> None:
    first, second = await requests_of(tmp_path / "run", [50, 50])
    assert (first.noise_patches, first.references) == ((), ())
    assert second.seed == first.seed == SEED
    (patch,) = second.noise_patches
    assert patch.seed == round_seed(SEED, 1, "reference")
    best, missing = second.references
    assert missing.mask == patch.mask
    # The dog is in the missing graph, because the cat is missing near it: two cells of nine.
    inside = share(tmp_path / "run", patch.mask)
    assert inside == pytest.approx(2 / 9, abs=0.05)
    assert share(tmp_path / "run", best.mask) == pytest.approx(1 - inside)


async def test_rounds_add_up_and_failures_do_not(tmp_path: Path) -> None:
    requests = await requests_of(tmp_path / "run", [20, 10, 60, 255])
    # Round 1 was worse than round 0, so round 2 begins with the noise of round 0.
    assert [len(request.noise_patches) for request in requests] == [0, 1, 1, 1]
    seeds = [request.noise_patches[-1].seed for request in requests[1:]]
    assert seeds == [round_seed(SEED, n, "reference") for n in (1, 2, 3)]


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
    assert second.noise_patches == ()
    assert second.seed == round_seed(SEED, 1, "candidate") != first.seed
    assert [reference.mask for reference in second.references] == [None, None]


async def test_a_backend_with_room_for_one_gets_what_is_missing(tmp_path: Path) -> None:
    second = (await requests_of(tmp_path / "run", [50, 50], backend={"references": 1}))[1]
    assert [r.mask for r in second.references] == [second.noise_patches[0].mask]


async def test_where_most_is_missing_all_is_drawn_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenewright.graphs.repair.MOST_COVERED", 0.2)
    second = (await requests_of(tmp_path / "run", [50, 50]))[1]
    assert second.noise_patches == ()
    assert second.seed != SEED
