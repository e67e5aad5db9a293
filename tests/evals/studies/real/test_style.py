"""The style scorer and its trainer, on a small CLIP of the published class."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import load_file
from transformers import AutoImageProcessor, AutoTokenizer, CLIPModel

from benchmarks._metrics_models import save_clip, save_dinov2
from scenewright.core.images import load_image
from scenewright.evals.metrics.base import MetricError
from scenewright.evals.studies.real.style import (
    TEXTS_FILE,
    StyleError,
    StyleScorer,
    StyleSet,
    StyleTexts,
    checked,
    read_labelled,
)
from scenewright.evals.studies.real.style_training import (
    REPORT,
    StylePlan,
    auc,
    figures_of,
    train_style,
)

PLAN = StylePlan(rate=3e-3, batch=4, epochs=6)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With dropout, so that the random state matters."""
    folder = save_clip(tmp_path_factory.mktemp("clip"))
    config = json.loads((folder / "config.json").read_text())
    config["vision_config"]["attention_dropout"] = 0.2
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> StyleSet:
    """Striped illustrations, plain photos."""
    folder = tmp_path_factory.mktemp("set")
    rng = np.random.default_rng(0)
    for label in ("photo", "illustration"):
        (folder / label).mkdir()
        for at in range(15):
            pixels = np.full((32, 32, 3), rng.integers(60, 200, 3), np.uint8)
            if label == "illustration":
                pixels[::2] = 255 - pixels[::2] // 2
            pixels[-1, -1] = 0
            Image.fromarray(pixels).save(folder / label / f"{at}.png")
    return checked(read_labelled(folder), 0.3)


@pytest.fixture(scope="module")
def trained(clip: Path, data: StyleSet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "style"
    assert train_style(clip, data, folder, PLAN, device="cpu") is not None
    return folder


def by_hand(folder: Path, image: Image.Image, texts: tuple[str, str]) -> float:
    """P of the first text by transformers' own calls."""
    model = CLIPModel.from_pretrained(folder).eval()
    prepare = AutoImageProcessor.from_pretrained(folder, backend="pil")
    words = AutoTokenizer.from_pretrained(folder)(list(texts), padding=True, return_tensors="pt")
    with torch.no_grad():
        output = model(**prepare(images=image, return_tensors="pt"), **words)
    return float(output.logits_per_image.softmax(-1)[0, 0])


async def test_the_score_is_the_softmax_over_both_texts(clip: Path, data: StyleSet) -> None:
    images = [load_image(one.file) for one in data.test[:3]]
    texts = StyleTexts(photo="a red ball", illustration="a blue car")
    found = await StyleScorer(clip, texts, device="cpu").score(images)
    assert found == pytest.approx([by_hand(clip, one, texts.both) for one in images], abs=1e-5)
    turned = StyleTexts(photo="a blue car", illustration="a red ball")
    other = await StyleScorer(clip, turned, device="cpu").score(images)
    assert other == pytest.approx([1 - one for one in found], abs=1e-5)


async def test_files_are_scored_once_and_what_cannot_be_read_says_why(
    clip: Path, data: StyleSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.png"
    broken.write_text("no picture")
    files = [data.test[0].file, broken, data.test[1].file, data.test[0].file]
    scorer = StyleScorer(clip, device="cpu", batch=2, store=tmp_path / "style.sqlite")
    found = [one async for one in scorer.score_files(files)]
    assert [one.score is None for one in found] == [False, True, False, False]
    assert "broken.png" in found[1].reason
    assert found[0].score == found[3].score

    async def refuse(images: list[Image.Image]) -> list[float]:
        assert not images, "computed again"
        return []

    again = StyleScorer(clip, device="cpu", store=tmp_path / "style.sqlite")
    monkeypatch.setattr(again, "score", refuse)
    assert [one async for one in again.score_files(files)] == found


def test_training_tells_the_classes_apart_and_saves_an_ordinary_clip(
    trained: Path, data: StyleSet
) -> None:
    report = json.loads((trained / REPORT).read_text())
    assert report["after"]["accuracy"]["value"] > 0.85
    assert report["after"]["auc"]["value"] >= report["before"]["auc"]["value"]
    assert report["pictures"]["train"] == {"photo": 11, "illustration": 11}
    assert CLIPModel.from_pretrained(trained).config.model_type == "clip"
    assert (trained / "model.safetensors").is_file()
    assert not list(trained.parent.glob(".*"))


async def test_a_trained_scorer_remembers_its_texts(
    clip: Path, data: StyleSet, tmp_path: Path, trained: Path
) -> None:
    assert StyleScorer(trained).texts == StyleTexts()
    (trained / TEXTS_FILE).write_text('{"photo": "a", "illustration": " A"}')
    try:
        with pytest.raises(StyleError, match="the same text"):
            StyleScorer(trained)
    finally:
        (trained / TEXTS_FILE).write_text(StyleTexts().model_dump_json())


def test_a_stopped_training_ends_with_the_same_weights(
    clip: Path, data: StyleSet, trained: Path, tmp_path: Path
) -> None:
    out = tmp_path / "style"
    for steps in (1, 4, 2):
        assert train_style(clip, data, out, PLAN, device="cpu", most_steps=steps) is None
        torch.manual_seed(99)
    assert train_style(clip, data, out, PLAN, device="cpu") is not None
    first, second = (load_file(folder / "model.safetensors") for folder in (trained, out))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_finished_training_is_found_and_another_is_refused(
    clip: Path, data: StyleSet, trained: Path, tmp_path: Path
) -> None:
    before = (trained / "model.safetensors").stat().st_mtime_ns
    assert train_style(clip, data, trained, PLAN, device="cpu") is not None
    assert (trained / "model.safetensors").stat().st_mtime_ns == before
    other = PLAN.model_copy(update={"seed": 5})
    with pytest.raises(StyleError, match="trained otherwise"):
        train_style(clip, data, trained, other, device="cpu")
    out = tmp_path / "style"
    train_style(clip, data, out, PLAN, device="cpu", most_steps=1)
    with pytest.raises(StyleError, match="a training with other settings"):
        train_style(clip, data, out, other, device="cpu")
    (tmp_path / ".style.training" / "checkpoint.pt").write_bytes(b"cut")
    with pytest.raises(StyleError, match="is not a readable checkpoint"):
        train_style(clip, data, out, PLAN, device="cpu")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    with pytest.raises(StyleError, match="something else"):
        train_style(clip, data, tmp_path / "mine", PLAN, device="cpu")


def test_models_that_are_not_there_or_no_clip_are_told(tmp_path: Path, data: StyleSet) -> None:
    with pytest.raises(MetricError, match="nobody/nothing is not on this machine"):
        StyleScorer("nobody/nothing")
    other = save_dinov2(tmp_path / "dino")
    with pytest.raises(StyleError, match="holds a dinov2: name a CLIP"):
        train_style(other, data, tmp_path / "out", PLAN, device="cpu")


async def test_a_text_that_is_too_long_is_told(clip: Path) -> None:
    texts = StyleTexts(photo="a photo " * 60)
    with pytest.raises(StyleError, match="use shorter ones"):
        await StyleScorer(clip, texts, device="cpu").score([Image.new("RGB", (32, 32))])


def test_figures_by_hand() -> None:
    truth = np.array([1.0, 1.0, 0.0, 0.0])
    assert auc(np.array([0.9, 0.4, 0.4, 0.1]), truth) == pytest.approx(0.875)
    found = figures_of([0.9, 0.4, 0.4, 0.1], ["photo", "photo", "illustration", "illustration"])
    assert found.accuracy.value == 0.75
    assert found.spearman.value == pytest.approx(3 / 18**0.5)
    with pytest.raises(ValueError, match="2 scores and 1 labels"):
        figures_of([0.1, 0.2], ["photo"])


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=4, max_size=30))
def test_auc_is_the_share_of_pairs_in_order(rows: list[tuple[float, bool]]) -> None:
    scores = np.array([score for score, _ in rows])
    truth = np.array([float(label) for _, label in rows])
    pairs = [
        1.0 if a > b else 0.5 if a == b else 0.0
        for a, photo in rows
        if photo
        for b, other in rows
        if not other
    ]
    found = auc(scores, truth)
    assert np.isnan(found) if not pairs else found == pytest.approx(sum(pairs) / len(pairs))
