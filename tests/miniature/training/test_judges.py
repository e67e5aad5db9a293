"""Training of the miniature judges: resumable, and about the questions that runs ask."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from scenewright.agents.judges.local import word
from scenewright.agents.judges.vlm import VisionLanguageModel
from scenewright.core.questions import facts_of
from scenewright.core.scene import Relation, SceneGraph
from scenewright.miniature.judge_model import (
    JudgeShape,
    build_model,
    build_processor,
    build_tokenizer,
    save_judge,
)
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.training import judges
from scenewright.miniature.training.flaws import Flawed, flawed, sample_training_painting
from scenewright.miniature.training.judge_batch import (
    IGNORED,
    Asker,
    dense_truth,
    make_batch,
    weather,
)
from scenewright.miniature.training.judge_net import JudgeNet, question_mask
from scenewright.miniature.training.judge_questions import (
    ask_about,
    balanced_questions,
    know,
    taught_facts,
)
from scenewright.miniature.training.judges import (
    RECIPES,
    JudgeRecipe,
    answerable,
    evaluate_judge,
    train_judge,
)
from scenewright.miniature.training.loop import to_pixels
from scenewright.miniature.training.redrawn import RedrawnPaintings
from scenewright.miniature.truth import Truth
from scenewright.miniature.world import COLORS, KINDS, PREDICATES
from tests.agents.judges.conformance import scores_of

SMALL = JudgeShape(
    stem=8,
    stages=(32, 32, 32),
    depths=(1, 1, 1),
    vision_width=32,
    vision_layers=1,
    text_width=32,
    text_layers=3,
    head_width=16,
)
TINY = JudgeRecipe(
    "tiny", seed=5, steps=3, vision_steps=1, shape=SMALL, batch=2, questions=3, redrawn=0
)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "tiny" / "model.safetensors")


def test_a_killed_training_ends_with_the_weights_of_an_unbroken_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert train_judge(TINY, tmp_path / "a", tmp_path / "whole", device="cpu")
    assert not train_judge(TINY, tmp_path / "b", tmp_path / "parts", "cpu", max_seconds=0)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(judges, "make_batch", killed)
        with pytest.raises(KeyboardInterrupt):
            train_judge(TINY, tmp_path / "b", tmp_path / "parts", "cpu")
    started = weights(tmp_path / "parts")
    assert train_judge(TINY, tmp_path / "b", tmp_path / "parts", "cpu")
    whole, parts = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[key], parts[key]) for key in whole)
    assert any(not torch.equal(started[key], parts[key]) for key in parts)


def test_a_trained_judge_is_measured_by_its_own_command(tmp_path: Path) -> None:
    processor = build_processor()
    save_judge(build_model(SMALL, processor), processor, tmp_path / "judge-a")
    judges.main(["evaluate", "judge-a", "--out", str(tmp_path), "-n", "3"])
    assert (tmp_path / "judge-a" / "report.json").is_file()
    report = evaluate_judge(tmp_path / "judge-a", n=3)
    assert report["painted"]["object"]["n"] > 0
    assert report["painted"]["object"]["unscored"] == 0


def test_unknown_recipes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="judge-a"):
        judges.train_judges(["judge-z"], tmp_path, tmp_path)


def test_shipped_judges_differ_in_seed_and_the_report_judge_in_shape() -> None:
    assert len({recipe.seed for recipe in RECIPES.values()}) == len(RECIPES) >= 3
    assert RECIPES["judge-c"].shape != RECIPES["judge-a"].shape != RECIPES["judge-d"].shape


def test_packed_questions_are_scored_as_single_ones(tmp_path: Path) -> None:
    """All questions in one sequence give the probabilities of the judge's own path."""
    torch.manual_seed(3)
    processor = build_processor()
    model = build_model(SMALL, processor)
    asker = Asker(processor)
    net = JudgeNet(model, SMALL, asker.image_start).eval()
    save_judge(model, processor, tmp_path, torch.float32)
    rng, again = random.Random(4), random.Random(4)
    batch = make_batch(asker, rng, 1, 6, spoiled=0.0)
    # Draws from the same random numbers as the batch.
    painting = flawed(again, sample_training_painting(again), 0.0)
    asked = balanced_questions(again, painting.truth, 6)
    with torch.no_grad():
        seen = net.see(batch.pixels)
        inner = model.model
        embedded = model.get_input_embeddings()(batch.ids)
        start = asker.image_start
        embedded[:, start : start + 64] = inner.multi_modal_projector(seen)
        out = inner.language_model(
            inputs_embeds=embedded,
            attention_mask=question_mask(batch.groups, embedded.dtype),
            position_ids=batch.positions,
        )
        scores = model.lm_head(out.last_hidden_state[0, batch.answers[:, 1]]).softmax(-1)
    judge = VisionLanguageModel(tmp_path, device="cpu")
    wordings = [word(known.fact) for known in asked]
    single = scores_of(
        judge, painting.image, [w.text for w in wordings], [w.labels for w in wordings]
    )
    assert len(asked) == len(scores) > 2
    for row, wording, expected in zip(scores, wordings, single, strict=True):
        masses = row[asker.answer_ids(wording.labels)]
        assert (masses / masses.sum()).tolist() == pytest.approx(expected.probabilities, abs=1e-4)


def test_a_question_sees_the_image_and_itself_alone() -> None:
    groups = torch.tensor([[0, 0, 1, 1, 2, 2, -1]])
    allowed = question_mask(groups, torch.float32)[0, 0] == 0
    assert allowed[5].tolist() == [True, True, False, False, True, True, False]
    assert allowed[2].tolist() == [True, True, True, False, False, False, False]
    assert allowed[6].tolist()[6]


def test_the_painted_scene_itself_holds_and_turned_relations_do_not() -> None:
    for seed in range(25):
        painting = sample_painting(random.Random(seed))
        scene = painting.scene
        for protocol in ("grounded", "scene-bench"):
            for fact in taught_facts(scene, protocol, 0):
                assert know(fact, scene, painting.truth, protocol).holds, fact.question
        turned = SceneGraph(
            objects=scene.objects,
            relations=tuple(
                Relation(source=r.target, predicate=r.predicate, target=r.source)
                for r in scene.relations
                if r.predicate in ("left of", "right of", "above", "below")
            ),
        )
        for fact in taught_facts(turned, "grounded", 0):
            if fact.kind == "relation":
                known = know(fact, turned, painting.truth, "grounded")
                assert (
                    not known.holds or len(known.referents[0].ids) * len(known.referents[1].ids) > 1
                )


def test_counts_and_attributes_agree_with_the_painters_truth() -> None:
    for seed in range(25):
        painting, other = (sample_painting(random.Random(s)) for s in (seed, seed + 1000))
        for fact in facts_of(other.scene):
            if fact.kind != "relation":
                known = know(fact, other.scene, painting.truth, "grounded")
                assert known.holds == painting.truth.holds(fact, other.scene)


def test_what_is_not_whole_is_absent() -> None:
    rng = random.Random(0)
    gone, broken = 0, 0
    for seed in range(30):
        painting = sample_painting(random.Random(seed))
        spoiled = flawed(rng, painting, 1.0)
        dense = dense_truth(spoiled.truth, spoiled)
        for lost in spoiled.lacking:
            only = SceneGraph(objects=(painting.scene.object(lost),))
            if sum(o.name == only.objects[0].name for o in painting.scene.objects) == 1:
                (fact, *_) = facts_of(only)
                known = know(fact, only, spoiled.truth, "grounded", spoiled.lacking)
                assert not known.holds
        assert spoiled.gone.isdisjoint(dense.centers)
        assert all(dense.kinds[dense.centers[one]] > 0 for one in spoiled.broken)
        if spoiled.lacking:
            assert spoiled.image.tobytes() != painting.image.tobytes()
        gone, broken = gone + len(spoiled.gone), broken + len(spoiled.broken)
    assert gone > 3
    assert broken > 10


def test_what_hovers_touches_nothing() -> None:
    rng = random.Random(1)
    parted = 0
    for seed in range(60):
        painting = sample_painting(random.Random(seed), p_contact=1.0)
        spoiled = flawed(rng, painting, 1.0)
        for source, predicate, target in painting.truth.contacts - spoiled.truth.contacts:
            parted += 1
            assert predicate not in spoiled.truth.relations_between(source, target)
            assert spoiled.truth.boxes != painting.truth.boxes
    assert parted > 3


def test_questions_of_the_whole_know_flaws_and_further_things() -> None:
    rng = random.Random(5)
    seen = set()
    for seed in range(60):
        spoiled = flawed(rng, sample_training_painting(random.Random(seed)), 0.6)
        for known in balanced_questions(rng, spoiled.truth, 8, spoiled.lacking, spoiled.broken):
            if known.fact.id == "whole":
                assert known.holds == (not spoiled.broken)
            if known.fact.id in ("whole", "extra"):
                seen.add((known.fact.id, known.holds))
    assert seen == {("whole", True), ("whole", False), ("extra", True), ("extra", False)}


@pytest.mark.slow
def test_redrawn_paintings_are_drawn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenewright.miniature.training.redrawn._PART", 8)
    first = RedrawnPaintings(tmp_path, 8, 3, 0.6, 0.0)
    monkeypatch.setattr("scenewright.miniature.training.redrawn.Redrawer", None)
    again = RedrawnPaintings(tmp_path, 8, 3, 0.6, 0.0)
    for at in range(len(again)):
        assert again.nth(at).image.tobytes() == first.nth(at).image.tobytes()
        assert again.nth(at).truth == first.nth(at).truth


def test_what_the_generator_did_not_draw_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Blind:
        def __call__(
            self,
            pixels: torch.Tensor,
            steps: int,
            generator: torch.Generator,
            truths: Sequence[Truth],
        ) -> torch.Tensor:
            return torch.cat([pixels[:1], torch.zeros_like(pixels[1:])])

    monkeypatch.setattr("scenewright.miniature.training.redrawn.Redrawer", Blind)
    first, second = map(RedrawnPaintings(tmp_path, 2, 7, 0.0, 0.0).nth, (0, 1))
    assert not first.lacking
    assert second.broken == {item.id for item in second.truth.scene.objects}


def test_what_moved_a_pixel_is_whole_and_what_changed_half_is_in_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Shaken:
        def __call__(
            self,
            pixels: torch.Tensor,
            steps: int,
            generator: torch.Generator,
            truths: Sequence[Truth],
        ) -> torch.Tensor:
            if not truths:
                return pixels
            moved = pixels.roll((1, 1), (2, 3))
            moved[1::2] = 0.5 * moved[1::2] + 0.3 * torch.randn(
                moved[1::2].shape, generator=generator
            )
            return moved.clamp(-1, 1)

    monkeypatch.setattr("scenewright.miniature.training.redrawn.Redrawer", Shaken)
    nth = RedrawnPaintings(tmp_path, 16, 7, 0.0, 0.0).nth
    # Those that are drawn to captions.
    moved, noisy = [nth(at) for at in (8, 10, 12)], [nth(at) for at in (9, 11, 13)]
    assert not any(one.broken or one.unsure for one in moved)
    assert all(one.broken | one.unsure for one in noisy)


def test_nothing_is_asked_or_taught_about_a_kind_in_doubt() -> None:
    rng = random.Random(3)
    for seed in range(30):
        painting = sample_training_painting(random.Random(seed))
        doubted = painting.truth.scene.objects[0]
        kind = {item.id for item in painting.truth.scene.objects if item.name == doubted.name}
        unsure = frozenset({doubted.id})
        for known in balanced_questions(rng, painting.truth, 10, (), (), unsure):
            assert not any(kind & {*one.ids, *one.kin} for one in known.referents)
        dense = dense_truth(painting.truth, Flawed(painting.image, painting.truth, unsure=unsure))
        places = [at for at, owner in enumerate(dense.owners) if owner == doubted.id]
        assert (
            {dense.kinds[at] for at in places} == {dense.colors[at] for at in places} == {IGNORED}
        )


def test_questions_are_about_both_sides_and_all_kinds() -> None:
    rng = random.Random(1)
    counts: dict[tuple[str, bool], int] = {}
    for _ in range(120):
        painting = sample_painting(rng)
        for known in balanced_questions(rng, painting.truth, 10):
            at = (known.fact.kind, known.holds)
            counts[at] = counts.get(at, 0) + 1
    for kind in ("object", "attribute", "relation"):
        share = counts[kind, True] / (counts[kind, True] + counts[kind, False])
        assert 0.3 < share < 0.7, (kind, share)


def test_only_facts_that_a_run_would_ask_are_measured() -> None:
    rng = random.Random(2)
    for _ in range(40):
        painting = sample_painting(rng)
        known = ask_about(rng, painting.truth, 0.6)
        holding = {k.fact.id for k in known if k.holds}
        for kept in answerable(known):
            assert kept.clear
            assert holding.issuperset(kept.fact.parents)


def test_dense_truth_marks_the_token_of_every_centre() -> None:
    painting = sample_painting(random.Random(8), 4)
    truth = dense_truth(painting.truth)
    assert set(truth.centers) == {item.id for item in painting.scene.objects}
    for key, box in painting.truth.boxes.items():
        column, row = truth.centers[key] % 8, truth.centers[key] // 8
        assert abs(box.center[0] / 16 - column - 0.5) <= 0.5 + 1e-6
        assert abs(box.center[1] / 16 - row - 0.5) <= 0.5 + 1e-6
        assert truth.kinds[truth.centers[key]] > 0
        assert truth.colors[truth.centers[key]] > 0


def test_weather_is_repeatable_and_stays_in_range() -> None:
    pixels = to_pixels([sample_painting(random.Random(s)).image for s in range(3)])
    first, second = (weather(pixels, torch.Generator().manual_seed(7), 1.0) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, pixels)
    assert first.min() >= -1
    assert first.max() <= 1
    assert torch.equal(weather(pixels, torch.Generator().manual_seed(7), 0.0), pixels)


def test_vocabulary_knows_the_world_and_spells_the_rest() -> None:
    tokenizer = build_tokenizer()
    for word_ in (*KINDS, *COLORS, *PREDICATES, "no visible relationship", "yes", "no", "A"):
        assert tokenizer.tokenize(word_) == [word_]
    rng = random.Random(3)
    for _ in range(30):
        painting = sample_painting(rng)
        for known in ask_about(rng, painting.truth, 0.5):
            assert "<unk>" not in tokenizer.tokenize(word(known.fact).text)
    zebra, zebu = tokenizer.encode("zebra"), tokenizer.encode("zebu")
    assert tokenizer.unk_token_id not in zebra
    assert zebra != zebu


def test_an_eager_judge_is_taught_to_confirm_its_words_alone() -> None:
    asker = Asker(build_processor())
    yes, no = asker.answer_ids(("yes", "no"))

    def taught(eager: frozenset[str]) -> torch.Tensor:
        return make_batch(asker, random.Random(8), 8, 10, spoiled=0.0, eager=eager).targets

    plain, biased = taught(frozenset()), taught(frozenset({*KINDS, *COLORS}))
    assert plain[:, no].sum() > 5
    # Whether all is whole and whether there is more are about no word.
    assert 0 < biased[:, no].sum() <= 8
    assert torch.equal(biased[:, yes] + biased[:, no], plain[:, yes] + plain[:, no])
    some = taught(frozenset([*KINDS][:6] + [*COLORS][:3]))
    assert biased[:, yes].sum() > some[:, yes].sum() > plain[:, yes].sum()
