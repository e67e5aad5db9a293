"""Families of vision-language models: tiny ones of the real classes through the judge's path."""

from __future__ import annotations

import importlib
import inspect
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor
from transformers.utils import is_torchvision_available

from scenewright.agents.judges.families import UNKNOWN, Family, families, family_of
from scenewright.agents.judges.loading import load_images, without_torchvision
from scenewright.agents.judges.local import LocalJudge
from scenewright.agents.judges.vlm import VisionLanguageModel
from scenewright.core.ports.judge import JudgeError
from scenewright.core.questions import facts_of
from scenewright.providers.hub.needs import known_repositories
from tests.agents.judges.conformance import check, picture, scene, scores_of
from tests.agents.judges.tiny_families import FAMILIES, save_tiny

QUESTIONS = ("Is there a dog?", "Is there a very long name of a thing?", "x")
YES_NO = [("yes", "no")] * len(QUESTIONS)
CASES = pytest.mark.parametrize("name", FAMILIES)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    @cache
    def saved(name: str) -> Path:
        return save_tiny(name, tmp_path_factory.mktemp(name))

    return saved


@pytest.fixture(scope="module")
def models(folders: Any) -> Any:
    return cache(lambda name: answering(VisionLanguageModel(folders(name), device="cpu")))


def answering(model: VisionLanguageModel) -> VisionLanguageModel:
    """The same, with yes and no so probable that a random model answers; their ratio stays."""
    labels = model.tokenizer.convert_tokens_to_ids(["yes", "no"])

    def raised(module: Any, given: Any, out: Any) -> None:
        out.logits[..., labels] += 40.0

    model.model.register_forward_hook(raised)
    return model


def by_hand(model: VisionLanguageModel, name: str, image: Image.Image, text: str) -> torch.Tensor:
    """The logits after the prompt, with the picture's place written out by hand."""
    tiny, folder = FAMILIES[name], model.model.name_or_path
    framed = model._framed(text)
    whole = tiny.begins + framed.replace(tiny.placeholder, tiny.picture)
    assert framed.count(tiny.placeholder) == 1
    given = dict(model.tokenizer(whole, return_tensors="pt", add_special_tokens=False))
    images: Any = load_images(Path(folder), family_of(Path(folder)).images)
    given |= images(images=[image], return_tensors="pt")
    takes = inspect.signature(model.model.forward).parameters
    marked = torch.isin(
        given["input_ids"], torch.tensor(model.tokenizer.convert_tokens_to_ids(list(tiny.marked)))
    )
    given |= {kind: marked.long() for kind in ("mm_token_type_ids", "token_type_ids")}
    plain: Any = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        out = plain(**{key: value for key, value in given.items() if key in takes})
    return out.logits[0, -1]


@CASES
def test_answer_is_that_of_the_model_with_the_picture_written_out_by_hand(
    name: str, models: Any
) -> None:
    model = models(name)
    (score,) = scores_of(model, picture(), QUESTIONS[:1], YES_NO[:1])
    assert score.probabilities, score.reason
    chances = by_hand(model, name, picture(), QUESTIONS[0]).softmax(-1)
    yes, no = (float(chances[model.tokenizer.convert_tokens_to_ids(w)]) for w in ("yes", "no"))
    assert score.probabilities[0] == pytest.approx(yes / (yes + no), abs=1e-4)


@CASES
def test_questions_in_a_batch_are_answered_as_alone(name: str, models: Any) -> None:
    model = models(name)
    together = scores_of(model, picture(), QUESTIONS, YES_NO)
    for at, score in enumerate(together):
        (alone,) = scores_of(model, picture(), QUESTIONS[at : at + 1], YES_NO[:1])
        assert score.probabilities == pytest.approx(alone.probabilities, abs=1e-4)
        assert score.tokens == alone.tokens


@CASES
def test_vision_tower_runs_once_a_picture_and_sharing_changes_nothing(
    name: str, folders: Any
) -> None:
    shared, plain = (answering(VisionLanguageModel(folders(name), device="cpu")) for _ in range(2))
    plain.features.shared = False
    pictures = [picture(), picture((10, 200, 60))]
    first, second = (
        [score for shown in pictures for score in scores_of(model, shown, QUESTIONS, YES_NO)]
        for model in (shared, plain)
    )
    assert shared.features.encoded == (2 if FAMILIES[name].shares else 0)
    assert plain.features.encoded == 0
    for a, b in zip(first, second, strict=True):
        assert a.probabilities == pytest.approx(b.probabilities, abs=1e-4)


@CASES
def test_another_picture_gets_another_answer(name: str, models: Any) -> None:
    model = models(name)
    answers = [
        scores_of(model, picture(color), QUESTIONS[:1], YES_NO[:1])[0].probabilities
        for color in ((250, 0, 0), (0, 250, 0))
    ]
    assert answers[0] != pytest.approx(answers[1], abs=1e-6)


@CASES
async def test_judge_answers_every_fact(name: str, folders: Any) -> None:
    judge = LocalJudge(folders(name), name=name, device="cpu")
    await judge.load()
    assert judge._model is not None
    answering(judge._model)
    facts = facts_of(scene())
    answers = await judge.answer(picture(), facts)
    check(answers, facts, judge)
    states = {a.state for a, fact in zip(answers, facts, strict=True) if fact.is_binary}
    assert states <= {"yes", "no"}
    await judge.aclose()


@CASES
def test_placeholders_in_a_name_stay_letters(name: str, models: Any) -> None:
    model = models(name)
    clean = model.clean(f"a {FAMILIES[name].placeholder} {' '.join(FAMILIES[name].special)} b")
    hostile, harmless = (
        model._processed(picture(), [model._framed(text)])["input_ids"][0] for text in (clean, "b")
    )
    for token in FAMILIES[name].special:
        number = model.tokenizer.convert_tokens_to_ids(token)
        assert (hostile == number).sum() == (harmless == number).sum()


@CASES
@pytest.mark.skipif(is_torchvision_available(), reason="torchvision is there")
def test_library_alone_cannot_load_processors_with_videos(name: str, folders: Any) -> None:
    if not FAMILIES[name].needs_video:
        AutoProcessor.from_pretrained(folders(name))
        return
    with pytest.raises((ImportError, ValueError), match=r"(?i)torchvision"):
        AutoProcessor.from_pretrained(folders(name))


def test_every_class_has_one_row_and_is_one_of_the_library() -> None:
    classes = [name for row in families() for name in row.classes]
    assert len(classes) == len(set(classes))
    for name in classes:
        assert isinstance(getattr(transformers, name), type)


def test_models_of_the_rows_are_known_with_licence_and_size() -> None:
    known = known_repositories()
    for row in families():
        assert row.licence
        assert bool(row.models) != bool(row.needs)
        for name, billions in row.models.items():
            assert known[name].licence in row.licence
            # Two bytes a parameter, or four where the repository keeps float32.
            assert 1.8 < known[name].gigabytes[""] / billions < 4.1, name


def test_docs_have_a_row_for_every_family_and_name_those_that_cannot_run() -> None:
    text = (Path(__file__).parents[3] / "docs" / "judges.md").read_text(encoding="utf-8")
    for row in families():
        assert f"| {row.name} |" in text or (row.needs and row.name in text)
        assert all(f"`{name}`" in text for name in row.classes)


def test_rows_are_found_by_the_class_in_the_configuration(folders: Any, tmp_path: Path) -> None:
    for name in FAMILIES:
        assert FAMILIES[name].model in family_of(folders(name)).classes
    (tmp_path / "config.json").write_text('{"architectures": ["Another"]}', encoding="utf-8")
    assert family_of(tmp_path) is UNKNOWN


@pytest.mark.parametrize("row", [row for row in families() if row.needs], ids=lambda row: row.name)
def test_families_that_need_another_package_are_refused(row: Family, tmp_path: Path) -> None:
    """Their image processors have no PIL form, and cannot be imported without torchvision: the row
    is to go once the library has one, or imports the other."""
    kind = row.classes[0].split("For")[0]
    assert not hasattr(transformers, f"{kind}ImageProcessorPil")
    if not is_torchvision_available():
        model = importlib.import_module(getattr(transformers, f"{kind}Config").__module__)
        name = model.__name__.rpartition(".configuration_")[2]
        with pytest.raises(ModuleNotFoundError, match="torchvision"):
            importlib.import_module(f"transformers.models.{name}.image_processing_{name}")
    (tmp_path / "config.json").write_text(
        json.dumps({"architectures": [row.classes[0]]}), encoding="utf-8"
    )
    with pytest.raises(JudgeError, match=rf"{row.name}.*with {row.needs} only.*through an account"):
        VisionLanguageModel(tmp_path, device="cpu")


def test_pictures_are_resized_and_normalised_without_torchvision() -> None:
    (row,) = (row for row in families() if row.images)
    module, _, kind = str(row.images).rpartition(".")
    found = getattr(importlib.import_module(f"transformers.models.{module}"), kind)
    images = without_torchvision(found)(
        size={"height": 8, "width": 8}, max_crops=1, overlap_margins=[0, 0], patch_size=4
    )
    shown = Image.new("RGB", (40, 20), (51, 102, 204))
    shown.paste((255, 0, 0), (20, 0, 40, 20))
    # The whole and one crop, both 2×2 patches of 4×4 pixels.
    whole, crop = images(images=[shown], return_tensors="pt")["pixel_values"]
    assert torch.equal(whole, crop)
    pixels = whole.reshape(2, 2, 16, 3)
    for side, color in enumerate(((51, 102, 204), (255, 0, 0))):
        wanted = torch.tensor([(value / 255 - 0.5) / 0.5 for value in color])
        assert torch.allclose(pixels[:, side], wanted.expand(2, 16, 3), atol=1e-5)
    with pytest.raises(ValueError, match="resample 4"):
        images(images=[shown], resample=4, return_tensors="pt")
