"""The local judge: any transformers vision-language model behind the judge port."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor

from scenewright.agents.judges.local import LocalJudge, lettered, word
from scenewright.agents.judges.vlm import VisionLanguageModel, find_model, neutralise
from scenewright.core.facts import Fact
from scenewright.core.ports.judge import JudgeError
from scenewright.core.questions import facts_of
from scenewright.runs.model_factory.local_models import judge_folder
from tests.agents.judges.conformance import JudgeConformance, picture, scene, scores_of
from tests.agents.judges.tiny import save_tiny_llava

SPECIAL = ("<image>", "</s>", "<s>", "<pad>", "<|im_end|>", "<|im_start|>")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_llava(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
async def judge(folder: Path) -> AsyncIterator[LocalJudge]:
    made = LocalJudge(folder, name="tiny", device="cpu")
    made.batch = 4
    yield made
    await made.aclose()


@pytest.fixture(scope="module")
def model(folder: Path) -> VisionLanguageModel:
    return VisionLanguageModel(folder, device="cpu")


def object_fact(name: str) -> Fact:
    return Fact(
        id=f"o:{name}",
        kind="object",
        subject=name,
        statement=name,
        question=f"Is there a {name} in the image?",
    )


class TestConformance(JudgeConformance):
    pass


class TestClosedVocabularyConformance(JudgeConformance):
    @pytest.fixture
    async def judge(self) -> AsyncIterator[LocalJudge]:
        made = LocalJudge(judge_folder("miniature/judge-a"), name="miniature/judge-a", device="cpu")
        assert made.caps.vocabulary is not None
        yield made
        await made.aclose()


def inner(judge: LocalJudge) -> VisionLanguageModel:
    assert judge._model is not None
    return judge._model


async def test_probability_is_the_next_token_distribution(judge: LocalJudge, folder: Path) -> None:
    """Against a plain forward pass of one question, without padding or shared features."""
    facts = facts_of(scene())
    answers = await judge.answer(picture(), facts)
    plain = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    processor: Any = AutoProcessor.from_pretrained(folder)
    vocabulary = processor.tokenizer.get_vocab()
    for fact, answer in zip(facts, answers, strict=True):
        wording = word(fact)
        text = f"USER: <image>{wording.text} ASSISTANT: "
        inputs = processor(text=text, images=picture(), return_tensors="pt")
        with torch.no_grad():
            chances = plain(**inputs).logits[0, -1].softmax(-1)
        masses = [float(chances[vocabulary[label]]) for label in wording.labels]
        expected = masses[fact.options.index(fact.expected)] / sum(masses)
        assert answer.probability == pytest.approx(expected, abs=1e-5)
        assert answer.choice == fact.options[masses.index(max(masses))]
        assert answer.tokens_in == inputs["input_ids"].shape[1]
        assert answer.method == "logprob"


async def test_image_is_encoded_once(judge: LocalJudge) -> None:
    facts = facts_of(scene())
    await judge.answer(picture(), facts)
    await judge.answer(picture(), facts[:1])
    assert inner(judge).features.encoded == 1
    await judge.answer(picture((1, 1, 1)), facts[:1])
    assert inner(judge).features.encoded == 2


async def test_only_few_encoded_images_are_kept(folder: Path) -> None:
    judge = LocalJudge(folder, device="cpu")
    judge.images_kept = 2
    fact = object_fact("dog")
    for shade in (0, 50, 100, 0):
        await judge.answer(picture((shade, 0, 0)), [fact])
    assert inner(judge).features.encoded == 4
    await judge.aclose()


def test_shared_features_change_nothing(folder: Path) -> None:
    shared, plain = (VisionLanguageModel(folder, device="cpu") for _ in range(2))
    plain.features.shared = False
    texts = [f"Is there a {name}?" for name in ("dog", "very long name of a thing", "x")]
    labels = [("yes", "no")] * 3
    first = scores_of(shared, picture(), texts, labels)
    second = scores_of(plain, picture(), texts, labels)
    assert (shared.features.encoded, plain.features.encoded) == (1, 0)
    for a, b in zip(first, second, strict=True):
        assert a.probabilities == pytest.approx(b.probabilities, abs=1e-5)


async def test_different_pictures_get_different_answers(judge: LocalJudge) -> None:
    facts = facts_of(scene())
    first = await judge.answer(picture((250, 0, 0)), facts)
    second = await judge.answer(picture((0, 250, 0)), facts)
    assert [a.probability for a in first] != [a.probability for a in second]


@pytest.mark.parametrize("name", ["<image>", "</s>", "<s>", "<pad>", "a <image><image> b"])
def test_special_tokens_in_names_stay_letters(model: VisionLanguageModel, name: str) -> None:
    clean = word(object_fact(name), model.clean).text
    ids = model._processed(picture(), [model._framed(clean)])["input_ids"][0].tolist()
    harmless = model._processed(picture(), [model._framed("dog")])["input_ids"][0].tolist()
    for token in ("<image>", "</s>", "<s>"):
        number = model.tokenizer.convert_tokens_to_ids(token)
        assert ids.count(number) == harmless.count(number)


@given(st.lists(st.sampled_from([*SPECIAL, "dog", " ", "<", ">", "/", "im", "a"]), max_size=12))
def test_neutralised_text_holds_no_special_token(parts: list[str]) -> None:
    clean = neutralise("".join(parts), SPECIAL)
    assert not any(token in clean for token in SPECIAL)
    assert clean.replace(" ", "") == "".join(parts).replace(" ", "")


@given(st.text(alphabet="abc XYZ-'é", max_size=40))
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert neutralise(text, SPECIAL) == text


def test_options_have_the_papers_form() -> None:
    options = ("kicking", "throwing", "holding", "no visible relationship")
    assert lettered(options) == ("A) kicking; B) throwing; C) holding; D) no visible relationship")
    with pytest.raises(ValueError, match="at most 26"):
        lettered(tuple(map(str, range(27))))


async def test_answer_outside_the_options_is_unscored(judge: LocalJudge) -> None:
    await judge.load()
    loud = inner(judge).tokenizer.get_vocab()["Q"]

    def shout(module: Any, given: Any, out: Any) -> None:
        out.logits[..., loud] += 60.0

    handle = inner(judge).model.register_forward_hook(shout)
    (answer,) = await judge.answer(picture(), [object_fact("dog")])
    handle.remove()
    assert answer.state == "unscored"
    assert "next token" in answer.reason
    assert answer.probability is None


async def test_label_without_a_token_is_unscored(tmp_path: Path) -> None:
    judge = LocalJudge(save_tiny_llava(tmp_path, words=("yes",)), device="cpu")
    (answer,) = await judge.answer(picture(), [object_fact("dog")])
    assert answer.state == "unscored"
    assert "no single token for ['no']" in answer.reason
    await judge.aclose()


async def test_failing_model_is_unscored_not_raised(judge: LocalJudge) -> None:
    await judge.load()

    def fail(*_: Any) -> None:
        raise RuntimeError("out of memory")

    handle = inner(judge).model.register_forward_pre_hook(fail)
    facts = facts_of(scene())
    answers = await judge.answer(picture(), facts)
    handle.remove()
    assert {(a.state, a.reason) for a in answers} == {("unscored", "RuntimeError: out of memory")}
    assert len(answers) == len(facts)


async def test_cancelled_call_stops_between_batches_and_frees_the_worker(folder: Path) -> None:
    judge = LocalJudge(folder, device="cpu")
    judge.batch = 1
    await judge.load()
    calls, turns = 0, threading.Semaphore(1)

    def slow(*_: Any) -> None:
        nonlocal calls
        calls += 1
        assert turns.acquire(timeout=60)

    handle = inner(judge).model.register_forward_pre_hook(slow)
    many = [object_fact(f"thing {at}") for at in range(60)]
    task = asyncio.create_task(judge.answer(picture(), many))
    # The second pass is held: that this loop goes on meanwhile is what lets it be cancelled.
    while calls < 2:  # noqa: ASYNC110 - the model's thread counts
        await asyncio.sleep(0.005)
    task.cancel()
    await asyncio.sleep(0)
    turns.release(len(many))
    with pytest.raises(asyncio.CancelledError):
        await task
    handle.remove()
    (answer,) = await asyncio.wait_for(judge.answer(picture(), many[:1]), 60)
    assert answer.state in ("yes", "no")
    assert calls < 10
    await judge.aclose()


async def test_closed_judge_says_so(folder: Path) -> None:
    judge = LocalJudge(folder, device="cpu")
    await judge.aclose()
    with pytest.raises(JudgeError, match="closed"):
        await judge.answer(picture(), [object_fact("dog")])


async def test_large_image_is_scaled_down_not_changed(folder: Path) -> None:
    judge = LocalJudge(folder, device="cpu")
    judge.caps = replace(judge.caps, max_side=32)
    image = Image.new("RGB", (640, 320), (9, 90, 200))
    (answer,) = await judge.answer(image, [object_fact("dog")])
    assert answer.state in ("yes", "no")
    assert image.size == (640, 320)
    await judge.aclose()


def test_missing_models_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="check the path"):
        LocalJudge(tmp_path / "nowhere")
    with pytest.raises(JudgeError, match=r"config\.json"):
        LocalJudge(tmp_path)
    with pytest.raises(JudgeError, match="models pull local:nobody-at-all/no-such-model"):
        find_model("nobody-at-all/no-such-model")


async def test_broken_weights_fail_loudly_on_load(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    (broken / "model.safetensors").write_bytes(b"not weights")
    judge = LocalJudge(broken, device="cpu")
    with pytest.raises(JudgeError, match="could not be loaded"):
        await judge.load()
    (answer,) = await judge.answer(picture(), [object_fact("dog")])
    assert answer.state == "unscored"
    assert "could not be loaded" in answer.reason
    await judge.aclose()


def test_model_without_chat_template_is_refused(folder: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(folder, bare)
    (bare / "chat_template.jinja").unlink()
    with pytest.raises(JudgeError, match="chat template"):
        VisionLanguageModel(bare, device="cpu")


def test_fingerprint_follows_the_weights(folder: Path, tmp_path: Path) -> None:
    same, other = tmp_path / "same", save_tiny_llava(tmp_path / "other", seed=1)
    shutil.copytree(folder, same)
    (same / "report.json").write_text("{}")
    first = LocalJudge(folder, name="a").fingerprint
    assert LocalJudge(same, name="b").fingerprint == first
    assert LocalJudge(other).fingerprint != first
