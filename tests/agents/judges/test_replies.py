"""Models that think before they answer: switched off, or skipped up to the answer's token."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from scenewright.agents.judges.local import LocalJudge
from scenewright.agents.judges.vlm import VisionLanguageModel
from scenewright.config.profiles import LocalJudgeSpec
from tests.agents.judges.conformance import picture, scores_of
from tests.agents.judges.test_local import object_fact
from tests.agents.judges.tiny_families import GLM_THINKS, chatml, save_tiny

QUESTIONS = ("Is there a dog?", "Is there a very long name of a thing?")
YES_NO = [("yes", "no")] * len(QUESTIONS)
SWITCHED = ("qwen3.5", "gemma4", "glm-4.1v", "glm-4.6v", "minicpm-v-4.7")


class Script:
    """Makes a model write given replies, one a row; after them it is free, but for yes and no."""

    def __init__(self, model: VisionLanguageModel, replies: Sequence[str]) -> None:
        self.passes, self._step = 0, 0
        self._tokens = [model.tokenizer.encode(r, add_special_tokens=False) for r in replies]
        self._labels = model.tokenizer.convert_tokens_to_ids(["yes", "no"])
        self.handle = model.model.register_forward_hook(self, with_kwargs=True)

    def __call__(self, module: Any, args: Any, given: Any, out: Any) -> None:
        # More than one token is a prompt: the reply begins anew.
        self._step = 0 if given["input_ids"].shape[1] > 1 else self._step + 1
        for row, tokens in zip(out.logits, self._tokens, strict=True):
            if self._step < len(tokens):
                row[-1, tokens[self._step]] += 1e4
            else:
                row[-1, self._labels] += 40.0
        self.passes += 1


@pytest.fixture(scope="module")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> VisionLanguageModel:
    """One whose template begins the thinking, as that of Qwen3-VL-Thinking."""
    image = "<|vision_start|><|image_pad|><|vision_end|>"
    folder = save_tiny(
        "qwen3-vl", tmp_path_factory.mktemp("t"), template=chatml(image, "<think>\n")
    )
    return VisionLanguageModel(folder, device="cpu", how=LocalJudgeSpec(thinking_tokens=40))


@pytest.fixture(scope="module")
def opener(tmp_path_factory: pytest.TempPathFactory) -> VisionLanguageModel:
    """One that begins to think by itself and puts its answer into marks, as GLM-4.1V does."""
    folder = save_tiny("glm-4.1v", tmp_path_factory.mktemp("o"), template=GLM_THINKS)
    return VisionLanguageModel(folder, device="cpu", how=LocalJudgeSpec(thinking_tokens=60))


def after(model: VisionLanguageModel, question: str, reply: str) -> float:
    """P(yes) after the prompt and ``reply``, by one forward pass over all of it."""
    inputs = dict(model._processed(picture(), [model._framed(question) + reply]))
    with torch.no_grad():
        chances = model.model(**inputs).logits[0, -1].softmax(-1)
    yes, no = (float(chances[model.tokenizer.convert_tokens_to_ids(w)]) for w in ("yes", "no"))
    return yes / (yes + no)


@pytest.mark.parametrize("name", SWITCHED)
def test_thinking_is_switched_off_where_the_template_can(name: str, tmp_path: Path) -> None:
    model = VisionLanguageModel(save_tiny(name, tmp_path), device="cpu")
    framed = model._framed("Is it?")
    assert model.family.closes in framed
    assert not model.replies.opened(framed)
    script = Script(model, ["", ""])
    scores = scores_of(model, picture(), QUESTIONS, YES_NO)
    assert script.passes == 1
    assert [score.generated for score in scores] == [0, 0]
    assert all(score.probabilities for score in scores)


def test_template_that_knows_no_switch_is_passed_none(tmp_path: Path) -> None:
    model = VisionLanguageModel(save_tiny("minicpm-v-4.6", tmp_path), device="cpu")
    assert "enable_thinking" in model.family.template
    assert model._template == {}


def test_answer_is_read_behind_each_questions_own_thinking(thinker: VisionLanguageModel) -> None:
    replies = ["dogs?</think>\n\n", "a long thought <|im_start|></think>\n\n"]
    script = Script(thinker, replies)
    scores = scores_of(thinker, picture(), QUESTIONS, YES_NO)
    script.handle.remove()
    for question, reply, score in zip(QUESTIONS, replies, scores, strict=True):
        assert score.probabilities[0] == pytest.approx(after(thinker, question, reply), abs=1e-4)
        assert score.generated == len(thinker.tokenizer.encode(reply))
    assert thinker.features.encoded == 1


def test_model_that_begins_to_think_by_itself_is_followed(opener: VisionLanguageModel) -> None:
    replies = ["\n<think>a dog</think>\n<answer><|begin_of_box|>", "<answer>\n"]
    script = Script(opener, replies)
    scores = scores_of(opener, picture(), QUESTIONS, YES_NO)
    script.handle.remove()
    for question, reply, score in zip(QUESTIONS, replies, scores, strict=True):
        assert score.probabilities[0] == pytest.approx(after(opener, question, reply), abs=1e-4)
        assert score.generated == len(opener.tokenizer.encode(reply))


def test_an_answer_at_once_is_read_beside_one_behind_marks(opener: VisionLanguageModel) -> None:
    replies = ["", "\n<answer>"]
    script = Script(opener, replies)
    scores = scores_of(opener, picture(), QUESTIONS, YES_NO)
    script.handle.remove()
    # The two tokens of the second one and its answer's place.
    assert script.passes == 3
    assert [score.generated for score in scores] == [0, 2]
    for question, reply, score in zip(QUESTIONS, replies, scores, strict=True):
        assert score.probabilities[0] == pytest.approx(after(opener, question, reply), abs=1e-4)


def test_thinking_beyond_the_bound_is_unscored(thinker: VisionLanguageModel) -> None:
    script = Script(thinker, ["x" * 80, "</think>"])
    endless, brief = scores_of(thinker, picture(), QUESTIONS, YES_NO)
    script.handle.remove()
    assert endless.probabilities == ()
    assert "no answer after 39 tokens of thinking" in endless.reason
    assert brief.probabilities
    assert script.passes == 40


def test_reply_that_ends_without_an_answer_is_unscored(thinker: VisionLanguageModel) -> None:
    script = Script(thinker, ["so<|im_end|>"] * 2)
    for score in scores_of(thinker, picture(), QUESTIONS, YES_NO):
        assert "no answer after 2 tokens" in score.reason
    script.handle.remove()


def test_stopping_ends_the_thinking_and_leaves_its_questions_out(
    thinker: VisionLanguageModel,
) -> None:
    script = Script(thinker, ["x" * 80] * 2)
    scores = scores_of(thinker, picture(), QUESTIONS, YES_NO, stopped=lambda: script.passes >= 3)
    script.handle.remove()
    assert scores == []
    assert script.passes == 3


async def test_judge_tells_what_was_written_before_the_answer(
    thinker: VisionLanguageModel, tmp_path: Path
) -> None:
    judge = LocalJudge(thinker.model.name_or_path, name="thinker", device="cpu")
    await judge.load()
    assert judge._model is not None
    Script(judge._model, ["hm</think>"])
    (answer,) = await judge.answer(picture(), [object_fact("dog")])
    assert (answer.state in ("yes", "no"), answer.tokens_out) == (True, 3)
    await judge.aclose()


@pytest.mark.parametrize(
    ("reply", "token", "place"),
    [
        ("", "yes", "answer"),
        ("", "\n", "leading"),
        ("\n", "<", "leading"),
        ("<answer", ">", "leading"),
        ("<answer>", "A", "answer"),
        ("<answer>\n", "<|begin_of_box|>", "leading"),
        ("", "<think>", "thinking"),
        ("<thin", "g", "answer"),
        ("<answer>", "<|endoftext|>", "answer"),
    ],
)
def test_places_in_a_reply(opener: VisionLanguageModel, reply: str, token: str, place: str) -> None:
    (number,) = opener.tokenizer.encode(token, add_special_tokens=False)
    assert opener.replies.place(reply, number) == place


def test_families_without_marks_never_write(tmp_path: Path) -> None:
    model = VisionLanguageModel(save_tiny("qwen2.5-vl", tmp_path), device="cpu")
    assert not model.replies.thinks
