"""What every strategy keeps to, and what each of them does."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from scenewright.config.removed import REMOVED_STRATEGIES
from scenewright.core.ports.backend import BackendFeatures, GenerationRequest
from scenewright.graphs.strategies.base import (
    GenerationOverrides,
    RepairPlan,
    RepairStrategy,
    RoundContext,
    instruction,
)
from scenewright.graphs.strategies.payoff import priors_toml
from scenewright.graphs.strategies.registry import strategies, strategy_of
from tests.graphs.strategies.situations import ALL, FACTS, PROMPT, fact, round_context, tried

BALL, RED, CAT = "o:ball.1", "a:ball.1:color", "o:cat.1"
LEFT = fact("left of|table.1").id
LOSSES = {
    "an object": [BALL],
    "an attribute": [RED],
    "a relation": [LEFT],
    "several": [CAT, RED],
    "nearly all": [each.id for each in FACTS if each.kind == "object"],
}
BARE = replace(
    ALL, references=0, reference_maths="none", masks=False, edit=False, seeds=False,
    instructions=False,
)  # fmt: skip
BACKENDS: dict[str, BackendFeatures] = {
    "one that can do all": ALL,
    "one that only draws": BARE,
    "one with references": replace(BARE, references=2, reference_maths="exact", seeds=True),
    "one with room for one": replace(ALL, references=1),
    "a picture API": replace(
        BARE, references=4, reference_maths="pictures", edit=True, masks=True, instructions=True
    ),
}


def blue(seen: RoundContext) -> str:
    """The reference of :func:`played`."""
    return seen.images.put(Image.new("RGB", (48, 48), (0, 0, 250)))


def played(name: str, seen: RoundContext) -> tuple[RepairStrategy, RepairPlan, GenerationOverrides]:
    """The strategy that acts, its move and its redrawing with a reference if it wants one."""
    repair_plan = strategy_of(name).plan_repair(seen)
    acting = strategy_of(repair_plan.strategy)
    shown = None
    if repair_plan.reference is not None:
        shown = blue(seen)
    return acting, repair_plan, acting.redraw(seen, repair_plan, shown)


@pytest.mark.parametrize("lost", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("features", BACKENDS.values(), ids=BACKENDS)
@pytest.mark.parametrize("name", strategies())
def test_asks_nothing_that_the_backend_cannot_do(
    tmp_path: Path, name: str, features: BackendFeatures, lost: list[str]
) -> None:
    for options in ({}, {"repair": "region"}):
        seen = round_context(tmp_path, lost, features=features, options=options)
        _, repair_plan, redrawn = played(name, seen)
        assert len(redrawn.references) <= features.references
        assert repair_plan.reference is None or features.references
        assert repair_plan.reference is None or len(redrawn.references) > 0
        for reference in redrawn.references:
            assert features.masks or reference.mask is None
        if redrawn.start is not None:
            assert features.edit or redrawn.start.instruct
            assert features.instructions or not redrawn.start.instruct
            assert features.masks or redrawn.start.mask is None
        # What it asks for is a request that can be made, and everything in it is stored.
        request = GenerationRequest(
            prompt=redrawn.prompt or PROMPT,
            seed=1,
            references=redrawn.references,
            start=redrawn.start,
        )
        named = [r.image for r in request.references] + [r.mask for r in request.references]
        if request.start is not None:
            named += [request.start.image, request.start.mask]
        assert all(seen.images.sound(image) for image in named if image is not None)


@pytest.mark.parametrize("lost", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("name", strategies())
def test_the_same_situation_gives_the_same_move(tmp_path: Path, name: str, lost: list[str]) -> None:
    first = played(name, round_context(tmp_path / "one", lost))
    second = played(name, round_context(tmp_path / "two", lost))
    assert first == second
    _, repair_plan, _ = first
    assert repair_plan.does
    # Pages show it to people: weights are named in words.
    assert "λ" not in repair_plan.does
    assert repair_plan.why
    assert strategy_of(name).about.endswith(".")


@pytest.mark.parametrize(
    "name", [name for name, strategy in strategies().items() if strategy.unsupported_reason(BARE)]
)
def test_says_what_a_backend_lacks_and_still_draws(tmp_path: Path, name: str) -> None:
    seen = round_context(tmp_path, [BALL], features=BARE)
    lacking = strategy_of(name).unsupported_reason(BARE)
    _, repair_plan, redrawn = played(name, seen)
    assert lacking is not None
    assert lacking in f"{repair_plan.does} {repair_plan.why}"
    assert redrawn.start is None
    assert redrawn.references == ()


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"no strategy 'magic': there are best-of-n, .*director"):
        strategy_of("magic")


def test_feedback_puts_the_best_and_the_missing_side_by_side(tmp_path: Path) -> None:
    seen = round_context(tmp_path, [BALL], options={"weight_best": 0.4, "weight_missing": 0.7})
    _, repair_plan, redrawn = played("feedback", seen)
    assert repair_plan.reference == seen.missing
    assert [r.weight for r in redrawn.references] == [0.4, 0.7]
    assert redrawn.references[0].image == seen.best


def white(seen: RoundContext, mask: str | None) -> float:
    """Share of a mask that is white."""
    assert mask is not None
    pixels = seen.images.get(mask).convert("L")
    return pixels.histogram()[255] / (pixels.width * pixels.height)


def test_inpainting_touches_the_places_of_what_failed(tmp_path: Path) -> None:
    for lost, cells in ((RED, 1), (LEFT, 2)):
        seen = round_context(tmp_path, [lost])
        start = played("inpaint", seen)[2].start
        assert start is not None
        assert (start.image, start.strength) == (seen.best, 1.0)
        assert white(seen, start.mask) == pytest.approx(cells / 9, abs=0.02)


def test_inpainting_without_places_draws_from_under_noise(tmp_path: Path) -> None:
    seen = round_context(tmp_path, [RED], planned={}, options={"repair_strength": 0.6})
    start = played("inpaint", seen)[2].start
    assert start is not None
    assert (start.mask, start.strength) == (None, 0.6)


def test_an_edit_is_an_order_to_a_model_that_takes_one(tmp_path: Path) -> None:
    seen = round_context(tmp_path, [CAT, RED, LEFT])
    redrawn = played("edit", seen)[2]
    assert redrawn.start is not None
    assert redrawn.start.instruct
    assert redrawn.prompt == instruction(seen)
    assert instruction(seen) == (
        "Add a cat near the brown dog. Make the ball red. Change the picture so that the brown dog "
        "is left of the table. Keep everything else as it is."
    )


SEVERAL = replace(ALL, reference_maths="pictures", edit_references=1)
"""An edit model that sees a reference beside the picture."""


def test_an_edit_shows_what_is_absent_to_a_model_that_sees_several_pictures(
    tmp_path: Path,
) -> None:
    seen = round_context(tmp_path, [CAT, RED, LEFT], features=SEVERAL)
    for name in ("edit", "compose-edit"):
        _, repair_plan, redrawn = played(name, seen)
        assert repair_plan.reference == seen.missing
        assert [one.image for one in redrawn.references] == [blue(seen)]
        assert redrawn.prompt == instruction(seen, shown=True)
    assert instruction(seen, shown=True) == (
        "Image 1 is the picture to change, image 2 shows what it lacks. Add the cat of image 2 "
        "near the brown dog. Make the ball red. Change the picture so that the brown dog is left "
        "of the table. Keep everything else of image 1 as it is."
    )
    # Nothing is absent, or no image is left for it: the words alone.
    for changes in ({"lost": [RED]}, {"lost": [CAT], "images_left": 1}):
        seen = round_context(tmp_path, features=SEVERAL, **changes)
        _, repair_plan, redrawn = played("compose-edit", seen)
        assert (repair_plan.reference, redrawn.references) == (None, ())
        assert redrawn.prompt == instruction(seen)


def test_a_composed_edit_keeps_to_the_places_of_what_is_missing(tmp_path: Path) -> None:
    seen = round_context(tmp_path, [CAT], features=SEVERAL)
    _, repair_plan, redrawn = played("compose-edit", seen)
    assert repair_plan.does.endswith("Changes 1 place alone.")
    assert redrawn.start is not None
    assert redrawn.start.instruct
    assert redrawn.start.mask is not None
    mask = seen.images.get(redrawn.start.mask).convert("L")
    assert [mask.getpixel(at) for at in ((8, 40), (40, 8))] == [255, 0]
    unplanned = round_context(tmp_path, [CAT], features=SEVERAL, planned={})
    assert played("compose-edit", unplanned)[2].start == redrawn.start.model_copy(
        update={"mask": None}
    )


def test_a_composed_edit_draws_the_place_after_the_reference_where_that_is_possible(
    tmp_path: Path,
) -> None:
    seen = round_context(tmp_path, [CAT], features=replace(SEVERAL, start_references=True))
    redrawn = played("compose-edit", seen)[2]
    assert redrawn.start is not None
    assert (redrawn.start.instruct, redrawn.start.mask is None) == (False, False)
    assert [one.image for one in redrawn.references] == [blue(seen)]
    # The prompt is that of the whole scene: it says what the picture shows.
    assert redrawn.prompt is None


def test_a_composed_edit_needs_instructions_and_several_pictures() -> None:
    strategy = strategy_of("compose-edit")
    assert strategy.unsupported_reason(SEVERAL) is None
    assert strategy.unsupported_reason(ALL) == "it edits from one picture alone"
    without = replace(SEVERAL, instructions=False)
    assert strategy.unsupported_reason(without) == "it takes no instructions"


def test_the_router_takes_the_composed_edit_in_place_of_the_plain_one(tmp_path: Path) -> None:
    for features, name in ((SEVERAL, "compose-edit"), (ALL, "edit")):
        seen = round_context(tmp_path, [CAT], features=features)
        assert strategy_of("router").plan_repair(seen).strategy == name


def test_an_edit_elsewhere_says_again_what_failed(tmp_path: Path) -> None:
    seen = round_context(tmp_path, [CAT], features=replace(ALL, instructions=False))
    redrawn = played("edit", seen)[2]
    assert redrawn.start is not None
    assert not redrawn.start.instruct
    assert redrawn.prompt == f"{PROMPT}, with a cat"


def test_a_removed_strategy_says_what_replaces_it() -> None:
    for name, instead in REMOVED_STRATEGIES.items():
        with pytest.raises(ValueError, match=f"strategy '{name}' was removed: {instead}"):
            strategy_of(name)


def router_picks(folder: Path, lost: list[str], *names: str, **changes: Any) -> str:
    """The strategy that the router picks after these have failed."""
    seen = round_context(folder, lost, tried=tried(*names), **changes)
    return strategy_of("router").plan_repair(seen).strategy


def test_the_router_goes_by_the_kind_of_failure(tmp_path: Path) -> None:
    plain = replace(ALL, instructions=False)
    assert router_picks(tmp_path, LOSSES["nearly all"], features=plain) == "resample"
    for lost in ([BALL], [RED], [LEFT]):
        assert router_picks(tmp_path, lost, features=ALL) == "edit"
        assert router_picks(tmp_path, lost, features=plain) != "resample"


def test_the_router_tries_what_failed_least(tmp_path: Path) -> None:
    plain = replace(ALL, instructions=False)
    names: list[str] = []
    for _ in range(8):
        names.append(router_picks(tmp_path, [BALL], *names, features=plain))
    first = names[: len(set(names))]
    # Each once, then again from the beginning.
    assert len(set(first)) == len(first) > 2
    assert names[len(first)] == first[0]
    repair_plan = strategy_of("router").plan_repair(
        round_context(tmp_path, [BALL], features=plain, tried=tried(first[0]))
    )
    assert repair_plan.strategy != first[0]
    assert "facts a picture" in repair_plan.why


def test_the_router_learns_which_repair_pays(tmp_path: Path) -> None:
    plain = replace(ALL, instructions=False)
    gaining = tried("feedback", better=True, gained=2)
    seen = round_context(tmp_path, [BALL], features=plain, tried=gaining)
    repair_plan = strategy_of("router").plan_repair(seen)
    # (1 · 3 + 2) / (3 + 1)
    assert "feedback 1.25 (1.00 flat; 2 facts for 1.0 pictures here)" in repair_plan.why
    assert repair_plan.strategy == "feedback"
    # Of another kind of failure nothing was learnt.
    other = round_context(tmp_path, [LEFT], features=plain, tried=gaining)
    assert strategy_of("router").plan_repair(other).strategy != "feedback"


def test_the_router_begins_with_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"inpaint": {"facts": 30, "pictures": 20.0, "rounds": 12}}
    table = {"diffusers:mine": {"objects are absent": known}}
    monkeypatch.setattr("scenewright.graphs.strategies.payoff.priors", lambda: table)
    plain = replace(ALL, instructions=False)
    seen = round_context(tmp_path, [BALL], features=plain, backend="diffusers:mine")
    repair_plan = strategy_of("router").plan_repair(seen)
    # What was not measured there is as good as the mean, so that the order decides.
    assert repair_plan.strategy == "tournament"
    assert "tournament 1.50 (1.50 flat)" in repair_plan.why
    failed = replace(seen, tried=tried("tournament", "feedback"))
    repair_plan = strategy_of("router").plan_repair(failed)
    assert repair_plan.strategy == "inpaint"
    assert "inpaint 1.50 (1.50 measured in 12 rounds)" in repair_plan.why


def test_priors_are_written_as_they_are_read(tmp_path: Path) -> None:
    text = priors_toml("diffusers:mine", tried("inpaint", "inpaint", better=True, gained=3))
    table = tomllib.loads(text)
    assert table == {
        "diffusers:mine": {
            "objects are absent": {"inpaint": {"facts": 6, "pictures": 2.0, "rounds": 2}}
        }
    }


def test_the_router_keeps_to_the_budget_and_the_backend(tmp_path: Path) -> None:
    for features in BACKENDS.values():
        for left in (1, 2, None):
            seen = round_context(tmp_path, [BALL], features=features, images_left=left)
            repair_plan = strategy_of("router").plan_repair(seen)
            assert strategy_of(repair_plan.strategy).unsupported_reason(features) is None
            assert left != 1 or repair_plan.reference is None
