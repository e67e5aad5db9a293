"""What the miniature benchmark measures with, on scripted models and known pictures."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import save_file

from benchmarks._miniature_models import (
    LIMIT_MIB,
    PALE,
    THIN,
    TrainingError,
    errors_of,
    models,
    opened,
    parameters_of,
    read_training,
    regions,
    size_figures,
    spread,
)
from benchmarks._miniature_pictures import (
    AdapterPlan,
    KeptTeam,
    Outcome,
    adapter_figures,
    grid,
    guidance_figures,
    guidance_summary,
    level_figures,
    reference_of,
    rounded,
    small_png,
    subject,
    summary,
)
from benchmarks._scenes import LEVELS, painting_of_level
from scenewright.agents.composers.rules import GridComposer
from scenewright.config.settings import find_profile
from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.backend import GenerationRequest, PromptCount
from scenewright.core.questions import facts_of
from scenewright.core.scene import SceneGraph, SceneObject
from scenewright.miniature.painter import Painting, paint
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.training.judge_questions import KnownFact
from scenewright.miniature.training.judges import Scored, figures_of
from scenewright.runs.model_factory.profiles import RunModels
from tests.doubles import CallBook, ScriptedBackend, ScriptedJudge

SHARES = st.floats(0, 1, allow_nan=False)


def thing(name: str, color: str | None = None) -> SceneGraph:
    attributes = {"color": color} if color else {}
    return SceneGraph(objects=(SceneObject(id=name, name=name, attributes=attributes),))


def scripted(folder: Path, book: CallBook | None = None) -> KeptTeam:
    """Models of which stronger guidance gives a better picture, and a reference an even better."""

    def quality(request: GenerationRequest) -> int:
        weight = sum(reference.weight for reference in request.references)
        return round(60 + 40 * (request.guidance or 1.0) + 100 * weight)

    book = book or CallBook()
    run_models = RunModels(
        backend=ScriptedBackend(quality, book),
        composer=GridComposer(),
        loop_judges=(ScriptedJudge("a", book), ScriptedJudge("b", book)),
        report_judges=(ScriptedJudge("c", book),),
    )
    return KeptTeam(find_profile("miniature"), run_models, folder)


# Kept pictures and answers


async def test_what_was_drawn_and_asked_is_found_again_by_the_next_process(tmp_path: Path) -> None:
    book = CallBook()
    scene = painting_of_level("medium", "test", 0).scene
    request = GenerationRequest(prompt="x", seed=3, guidance=3.0)
    cards, images, calls = [], [], []
    for _ in range(2):
        kept = scripted(tmp_path, book)
        images.append(await kept.draw(request))
        cards.append(await kept.card(images[-1], facts_of(scene), "loop"))
        kept.close()
        calls.append(len(book.lines))
    assert images[0] == images[1]
    assert cards[0] == cards[1]
    assert calls[0] == calls[1] > 0


async def test_facts_of_absent_things_are_void_and_cost_no_question(tmp_path: Path) -> None:
    kept = scripted(tmp_path)
    kept.run_models = RunModels(
        backend=kept.run_models.backend,
        composer=kept.run_models.composer,
        loop_judges=(ScriptedJudge(level=lambda fact: 255),),
        report_judges=(),
    )
    scene = painting_of_level("hard", "test", 0).scene
    facts = facts_of(scene)
    image = await kept.draw(GenerationRequest(prompt="x", seed=0))
    card = await kept.card(image, facts, "loop")
    states = {verdict.fact_id: verdict.state for verdict in card.verdicts}
    assert {states[fact.id] for fact in facts if fact.kind == "object"} == {"no"}
    assert {states[fact.id] for fact in facts if fact.kind != "object"} == {"void"}


async def test_what_the_backend_told_is_known_only_of_pictures_that_were_drawn(
    tmp_path: Path,
) -> None:
    kept = scripted(tmp_path)
    request = GenerationRequest(prompt="x", seed=0)
    with pytest.raises(LookupError, match="draw it first"):
        kept.count(request)
    await kept.draw(request)
    assert kept.count(request) == PromptCount(tokens=1)


# Scenes


@pytest.mark.parametrize("level", LEVELS)
def test_scenes_are_of_their_level_and_the_same_every_time(level: Any) -> None:
    for at in range(5):
        painting = painting_of_level(level, "test", at)
        assert painting.scene.level() == level
        assert painting.scene.relations
        assert painting.scene == painting_of_level(level, "test", at).scene
    assert painting.scene != painting_of_level(level, "other", at).scene


# Autoencoder


def test_regions_of_a_painting() -> None:
    found = regions(paint(thing("umbrella", "red"), 3))
    assert np.array_equal(found["ground"], ~found["objects"])
    assert found["objects"].sum() == 36 * 36
    # The shaft is thin, the canopy is not.
    assert 25 < found["thin"].sum() < 400
    assert not (found["thin"] & found["ground"]).any()
    assert not found["pale"].any(), "an umbrella has no pale part"
    assert regions(paint(thing("boat", "red"), 3))["pale"].sum() > 50, "sails are pale"


def test_edges_are_where_colours_step() -> None:
    painting = paint(thing("ball", "red"), 1)
    found = regions(painting)
    box = painting.truth.boxes["ball"]
    assert found["edges"][box.top, box.left + box.width // 2]
    assert found["edges"].mean() < 0.2


def test_a_hidden_thing_counts_only_where_it_shows() -> None:
    rng = random.Random(0)
    for _ in range(20):
        painting = sample_painting(rng, 4)
        found = regions(painting)
        assert not (found["pale"] & found["ground"]).any()
        pale = np.asarray(painting.image)[found["pale"]]
        assert (pale.min(-1) >= PALE).all()


def test_opening_takes_away_what_is_thin_and_leaves_the_rest() -> None:
    mask = np.zeros((30, 30), bool)
    mask[4:16, 4:16] = True
    whole = mask.copy()
    mask[20 : 20 + THIN - 1, 2:28] = True
    assert np.array_equal(opened(mask), whole)


def test_opening_keeps_what_fills_the_drawing() -> None:
    assert opened(np.ones((12, 12), bool)).all()


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 60))
def test_an_even_error_is_the_same_everywhere(shift: int) -> None:
    painting = paint(thing("house", "red"), 0)
    pixels = np.minimum(np.asarray(painting.image), 255 - shift)
    dark = Painting(Image.fromarray(pixels), painting.truth)
    found = errors_of(dark, (pixels + np.uint8(shift)).astype(np.uint8))
    assert {round(value, 6) for key, value in found.items() if key != "psnr"} == {float(shift)}
    assert found["psnr"] == pytest.approx(20 * np.log10(255 / shift))


# Drawing


async def test_levels_and_guidance_of_scripted_models(tmp_path: Path) -> None:
    kept = scripted(tmp_path)
    figures = await level_figures(kept, 2)
    for level in LEVELS:
        assert figures[f"levels.{level}.n"] == 2
        assert 0 <= figures[f"levels.{level}.report.facts"]["mean"] <= 1
        assert figures[f"levels.{level}.prompts_cut"] == 0.0
    guided = await guidance_figures(kept, 2, (1, 2, 4))
    assert guided["guidance.n"] == 6
    shares = [guided[f"guidance.facts.{g}"]["mean"] for g in (1, 2, 4)]
    assert shares[0] < shares[1] < shares[2]
    # Scale 1 is the backend's own, so its pictures are those of the levels.
    own = [figures[f"levels.{level}.report.facts"]["mean"] for level in LEVELS]
    assert shares[0] == pytest.approx(np.mean(own))


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(SHARES, SHARES), min_size=1, max_size=8))
def test_the_gain_of_guidance_is_paired(rows: list[tuple[float, float]]) -> None:
    low, high = zip(*rows, strict=True)
    found = guidance_summary({1: low, 3: high}, "_loop")
    means = {key: value["mean"] for key, value in found.items()}
    assert means["gain_loop.3"] == pytest.approx(
        means["facts_loop.3"] - means["facts_loop.1"], abs=1e-9
    )
    assert set(found) == {"facts_loop.1", "facts_loop.3", "gain_loop.3"}


# References


@pytest.mark.parametrize("at", range(4))
def test_a_reference_shows_the_thing_alone_in_its_place(at: int) -> None:
    case = subject(at)
    for target in case.alone:
        item = case.scene.object(target)
        shown, other = (reference_of(case, target, unrelated) for unrelated in (False, True))
        assert [(o.name, o.attributes) for o in shown.scene.objects] == [
            (item.name, item.attributes)
        ]
        assert shown.truth.cells == other.truth.cells == {target: case.cells[target]}
        assert shown.truth.setting == other.truth.setting
        assert other.scene.objects[0].name not in {o.name for o in case.scene.objects}
        assert reference_of(case, target, False).image.tobytes() == shown.image.tobytes()


async def test_references_of_scripted_models(tmp_path: Path) -> None:
    figures = await adapter_figures(scripted(tmp_path), AdapterPlan(4, 6, 3, 2, 2))
    assert figures["adapter.all.n"] == 4
    assert figures["adapter.absent.n"] == 3
    assert figures["adapter.unnamed.n"] == 2
    assert figures["adapter.absent.prompt.appears"]["mean"] == 0.0
    assert figures["adapter.absent.shown.appears"] == figures["adapter.absent.unrelated.appears"]
    assert figures["adapter.absent.gain_over_unrelated.appears"]["mean"] == 0.0
    # These models draw another picture for every request, so λ = 0 is not the prompt's own.
    assert figures["adapter.zero.same"] == 0.0


def test_a_case_with_an_unscored_arm_is_counted_and_left_out() -> None:
    rows = [
        {"prompt": Outcome(False, 0.5), "shown": Outcome(True, 0.75)},
        {"prompt": Outcome(True, 0.5), "shown": Outcome(True, 0.25)},
        {"prompt": Outcome(None, 0.5), "shown": Outcome(True, 0.5)},
    ]
    found = summary(rows)
    assert (found["n"], found["unscored"]) == (2, 1)
    assert found["prompt.appears"]["mean"] == 0.5
    assert found["gain_over_prompt.appears"]["mean"] == 0.5
    assert found["gain_over_prompt.facts"]["mean"] == 0.0
    assert "gain_over_shown.facts" not in found
    assert summary([]) == {"n": 0, "unscored": 0}


# Judges


def scored(rows: Sequence[tuple[bool, float]]) -> list[Scored]:
    fact = Fact(id="o:x", kind="object", subject="x", statement="x", question="x?")
    return [
        (
            KnownFact(fact, ("yes",) if holds else ("no",), (), True),
            Answer(
                fact_id="o:x",
                judge_id="j",
                state="yes" if probability > 0.5 else "no",
                probability=probability,
            ),
        )
        for holds, probability in rows
    ]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.lists(st.tuples(st.booleans(), SHARES), min_size=1, max_size=4), min_size=1, max_size=5
    )
)
def test_the_middle_of_a_spread_is_the_figure_of_all_facts(
    clusters: list[list[tuple[bool, float]]],
) -> None:
    whole = figures_of(scored([row for cluster in clusters for row in cluster]))
    found = spread([scored(cluster) for cluster in clusters], resamples=20)
    assert set(found) == set(whole)
    for key, value in whole.items():
        if isinstance(value, float):
            assert found[key]["mean"] == value
            assert found[key]["low"] <= found[key]["high"]
        else:
            assert found[key] == value


def test_facts_of_one_picture_are_drawn_together() -> None:
    # Two pictures, one all right and one all wrong: with whole pictures drawn, the share of
    # right answers is 0, ½ or 1 however many facts each has.
    right, wrong = [(True, 0.9)] * 50, [(True, 0.1)] * 50
    found = spread([scored(right), scored(wrong)])
    assert found["sensitivity"] == {"mean": 0.5, "low": 0.0, "high": 1.0}


# Sizes and trainings


def test_parameters_are_counted_from_the_header(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    tensors = {"a": torch.zeros(3, 5).half(), "b": torch.zeros(7), "c": torch.tensor(1.0)}
    save_file(tensors, file, metadata={"format": "pt"})
    assert parameters_of(file) == 15 + 7 + 1


def test_the_shipped_models_are_small() -> None:
    figures = size_figures()
    assert 0 < figures["sizes.total.mib"] <= LIMIT_MIB
    assert figures["sizes.total.parameters"] == sum(
        figures[f"sizes.{name}.parameters"] for name in models()
    )


def test_the_shipped_training_record_can_be_read() -> None:
    assert list(read_training()) == list(models())


def test_a_model_without_a_record_has_no_stages(tmp_path: Path) -> None:
    (tmp_path / "judges" / "judge-a").mkdir(parents=True)
    stage = {"steps": 5, "batch": 2, "seconds": 1.5, "device": "CPU"}
    (tmp_path / "training.json").write_text(json.dumps({"denoiser": [stage]}))
    found = read_training(tmp_path / "training.json")
    assert found["judge-a"] == []
    assert found["denoiser"][0].seconds == 1.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"judge-q": []}, "no such models"),
        ({"judge-a": None}, "judge-a"),
        ({"judge-a": [{"steps": 0, "batch": 1, "seconds": 1, "device": "cpu"}]}, "steps"),
        ({"judge-a": [{"steps": 5, "batch": 1, "seconds": 1}]}, "device"),
    ],
)
def test_a_wrong_training_record_says_what_is_wrong(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    (tmp_path / "judges" / "judge-a").mkdir(parents=True)
    file = tmp_path / "training.json"
    file.write_text(json.dumps({"denoiser": []} | change))
    with pytest.raises(TrainingError, match=message):
        read_training(file)


# The page of pictures


async def test_the_grid_holds_every_scene_at_every_scale(tmp_path: Path) -> None:
    book = CallBook()
    page = await grid(scripted(tmp_path, book), ("red ball", "dog"), ("cat", "hat"), ("red",))
    drawn = sum(line.startswith("end generate") for line in book.lines)
    # Without text all rows are the same picture.
    assert drawn == 2 * 4 + 1 + 2 * 1
    assert page.mode == "RGB"


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 8), st.integers(0, 255))
def test_rounding_is_off_by_half_a_step_at_most(bits: int, value: int) -> None:
    found = np.asarray(rounded(Image.new("RGB", (1, 1), (value, 0, 255)), bits)).astype(int)
    assert np.abs(found - (value, 0, 255)).max() <= (1 << (8 - bits)) >> 1


def test_a_png_is_made_to_fit() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    image = Image.fromarray(noise)
    whole = small_png(image, 1_000_000)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(whole))), noise)
    small = small_png(image, len(whole) - 1)
    assert len(small) < len(whole)
    with pytest.raises(ValueError, match="ask less"):
        small_png(image, 100)
