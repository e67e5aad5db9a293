"""The judge on this machine that answers typed questions, through transformers' own pipeline."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import torch
from transformers import pipeline

from scenewright.agents.judges import loading
from scenewright.agents.judges.decisions.judge import put
from scenewright.agents.judges.decisions.local import DecisionModel, LocalDecisionJudge
from scenewright.agents.judges.decisions.questions import sheet_of
from scenewright.agents.judges.local import LocalJudge
from scenewright.agents.panel.panel import Panel
from scenewright.config.profiles import LocalJudgeSpec
from scenewright.config.settings import Settings
from scenewright.core.facts import Fact
from scenewright.core.formats import load_scene
from scenewright.core.ports.judge import JudgeError
from scenewright.core.questions import facts_of, realism_facts_of
from scenewright.runs.model_factory import profiles
from scenewright.runs.model_factory.local_models import (
    Registry,
    judge_folder,
    make_local_decision_judge,
)
from tests.agents.judges.conformance import HOSTILE, JudgeConformance, picture, scene
from tests.agents.judges.tiny import save_tiny_llava

CPU = torch.device("cpu")
LETTERS = tuple("ABCDE")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model whose tokenizer knows the pipeline's own labels for yes and no."""
    return save_tiny_llava(tmp_path_factory.mktemp("tiny"), words=("Yes", "No"))


@pytest.fixture
async def judge(folder: Path) -> AsyncIterator[LocalDecisionJudge]:
    made = LocalDecisionJudge(folder, name="tiny", device="cpu")
    yield made
    await made.aclose()


@pytest.fixture
async def embedded() -> AsyncIterator[LocalDecisionJudge]:
    made = make_local_decision_judge("miniature/judge-a")
    assert isinstance(made, LocalDecisionJudge)
    yield made
    await made.aclose()


def choice(count: int) -> Fact:
    options = tuple(f"option {at}" for at in range(count))
    return Fact(
        id=f"c:{count}", kind="relation", subject="a", statement="s", question="Which?",
        options=options, expected=options[1],
    )  # fmt: skip


class TestConformance(JudgeConformance):
    pass


class TestClosedVocabularyConformance(JudgeConformance):
    @pytest.fixture
    async def judge(self) -> AsyncIterator[LocalDecisionJudge]:
        made = make_local_decision_judge("miniature/judge-a")
        assert isinstance(made, LocalDecisionJudge)
        assert made.caps.vocabulary is not None
        yield made
        await made.aclose()


async def test_probabilities_are_the_pipeline_s(judge: LocalDecisionJudge, folder: Path) -> None:
    """Against the library's pipeline, loaded by itself and asked without shared features."""
    facts = (*facts_of(scene()), *realism_facts_of(scene()))
    answers = await judge.answer(picture(), facts)
    decide = pipeline("decision", model=str(folder), dtype=torch.float32, device="cpu")
    for fact, question, answer in zip(facts, sheet_of(facts).questions, answers, strict=True):
        request = {"state": "<img-1>", "questions": {"q": put(question)}}
        said = decide({**request, "assets": {"<img-1>": picture()}})["q"]
        if question.kind == "yes_no":
            expected = said["noul"]
        elif question.kind == "choice":
            expected = said["probabilities"][fact.expected]
            assert answer.distribution == pytest.approx(said["probabilities"], abs=1e-6)
        else:
            expected = said["score"] / (len(question.options) - 1)
        assert answer.probability == pytest.approx(expected, abs=1e-6)
        assert answer.method == "decision"


async def test_the_embedded_judges_are_asked_in_the_words_that_they_learned(
    embedded: LocalDecisionJudge,
) -> None:
    """Their decision config puts a question as the prompts of ``local:`` judges do."""
    facts = facts_of(load_scene("red dog left of blue cat; cat on table; big tree"))
    image = picture()
    plain = LocalJudge(judge_folder("miniature/judge-a"), name="miniature/judge-a", device="cpu")
    for ours, theirs in zip(
        await embedded.answer(image, facts), await plain.answer(image, facts), strict=True
    ):
        assert ours.state == theirs.state
        assert ours.choice == theirs.choice
        assert ours.reason.replace("decision:", "") == theirs.reason.replace("decision:", "")
        assert ours.tokens_in == theirs.tokens_in
        if theirs.probability is not None:
            assert ours.probability == pytest.approx(theirs.probability, abs=1e-5)
    await plain.aclose()
    assert embedded.id == "decision:local/miniature/judge-a"
    assert embedded.fingerprint != plain.fingerprint
    # One model by its weights: it may not judge in the loop and in the report.
    assert embedded.identity.weights == plain.identity.weights


async def test_the_picture_is_encoded_once(judge: LocalDecisionJudge) -> None:
    await judge.answer(picture(), facts_of(scene()))
    await judge.answer(picture(), facts_of(scene())[:1])
    assert judge._model.features.encoded == 1
    await judge.answer(picture((1, 1, 1)), facts_of(scene())[:1])
    assert judge._model.features.encoded == 2


@pytest.mark.parametrize("text", [*HOSTILE, "<|mark|>", "<|split|>", "<img-1>", "</s> <s>"])
def test_what_stands_in_a_question_is_text(folder: Path, text: str) -> None:
    model = DecisionModel(folder, CPU)
    fact = Fact(id="o", kind="object", subject="x", statement="x", question=f"Is there {text}?")
    plain = fact.model_copy(update={"question": "Is there it?"})
    found = model.ask(picture(), sheet_of([fact, plain]).questions)
    assert [one.decided.reason for one in found.values()] == ["", ""]
    grown = found["f1"].tokens - found["f2"].tokens
    # A token a character, and no picture or control token among them.
    assert grown == len(" ".join(text.split())) - len("it")


async def test_options_beyond_the_labels_are_unscored_alone(
    judge: LocalDecisionJudge, embedded: LocalDecisionJudge
) -> None:
    first, most, more = await judge.answer(picture(), [choice(2), choice(26), choice(27)])
    assert (first.state, most.state) != ("unscored", "unscored")
    assert more.reason == "27 options: this model tells at most 26 apart"
    known = embedded._model or await embedded.load() or embedded._model
    found = known.ask(picture(), sheet_of([choice(9), choice(8)]).questions)
    assert found["f1"].decided.reason == "9 options: this model tells at most 8 apart"
    assert found["f2"].decided.shares is not None


async def test_options_that_read_alike_are_unscored_alone(judge: LocalDecisionJudge) -> None:
    same = choice(2).model_copy(update={"options": ("on", " on"), "expected": "on"})
    twice, other = await judge.answer(picture(), [same, choice(2)])
    assert twice.reason == "two options look the same: make them different"
    assert other.state != "unscored"


async def test_labels_that_are_no_single_tokens_are_unscored(tmp_path: Path) -> None:
    folder = save_tiny_llava(tmp_path / "model", words=("yes", "no"))
    judge = LocalDecisionJudge(folder, name="tiny", device="cpu")
    yes_no, relation = await judge.answer(picture(), [facts_of(scene())[0], choice(3)])
    assert "['Yes', 'No'] are not distinct single tokens" in yes_no.reason
    assert relation.state != "unscored"
    await judge.aclose()


async def test_an_answer_in_another_form_is_none(tmp_path: Path) -> None:
    """Two labels to which a small model gives nothing: their ratio would be noise."""
    folder = save_tiny_llava(tmp_path / "model", words=("Yes", "No"))
    model = DecisionModel(folder, CPU)
    (question,) = sheet_of([facts_of(scene())[0]]).questions
    whole = model.ask(picture(), [question])["f1"]
    assert whole.decided.shares is not None
    judge = LocalDecisionJudge(folder, name="tiny", device="cpu")
    await judge.load()
    head = judge._model.model.lm_head
    ids = judge._model._pipeline.label_token_ids(("Yes", "No"))
    with torch.no_grad():
        hidden = torch.zeros(head.out_features)
        hidden[ids] = -50.0
        head.bias = torch.nn.Parameter(hidden)
    (answer,) = await judge.answer(picture(), [facts_of(scene())[0]])
    assert answer.state == "unscored"
    assert "does not answer in the requested form" in answer.reason
    await judge.aclose()


async def test_a_config_of_the_folder_and_one_beside_it(folder: Path, tmp_path: Path) -> None:
    facts = facts_of(scene())[:1]
    sharp = tmp_path / "sharp.json"
    sharp.write_text(json.dumps({"temperature": {"noul": 0.1}}), encoding="utf-8")
    raw = LocalDecisionJudge(folder, name="tiny", device="cpu")
    cooled = LocalDecisionJudge(folder, name="tiny", device="cpu", config=sharp)
    (a,), (b,) = await raw.answer(picture(), facts), await cooled.answer(picture(), facts)
    logit = torch.logit(torch.tensor(a.probability, dtype=torch.float64))
    assert b.probability == pytest.approx(float(torch.sigmoid(10 * logit)), abs=1e-6)
    assert raw.fingerprint != cooled.fingerprint
    for made in (raw, cooled):
        await made.aclose()


async def test_a_folder_that_cannot_be_asked_says_why(folder: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"noul_options": ["yes"]}', encoding="utf-8")
    judge = LocalDecisionJudge(folder, name="tiny", device="cpu", config=wrong)
    with pytest.raises(JudgeError, match=r"cannot be asked typed questions: .*noul_options"):
        await judge.load()
    (answer,) = await judge.answer(picture(), facts_of(scene())[:1])
    assert answer.state == "unscored"
    assert "noul_options" in answer.reason
    await judge.aclose()


async def test_a_panel_takes_its_probabilities(judge: LocalDecisionJudge) -> None:
    facts = facts_of(scene())
    answers = await judge.answer(picture(), facts)
    verdicts = Panel(quorum=1).verdicts(facts, {judge.id: answers})
    for answer, verdict in zip(answers, verdicts, strict=True):
        assert verdict.state in ("yes", "no", "void")
        if verdict.state != "void":
            assert verdict.probability == pytest.approx(answer.probability)


def test_offloaded_weights_are_on_the_device_for_each_question_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = DecisionModel(folder, CPU)
    facts = facts_of(scene())[:2]
    questions = sheet_of(facts).questions
    plain = model.ask(picture(), questions)
    model._waits = True
    model._pipeline.device = torch.device("cpu", 0)
    steps: list[str] = []
    monkeypatch.setattr(model.model, "to", lambda place: steps.append(f"to {place}"))
    model.model.register_forward_pre_hook(lambda *_: steps.append("model"))
    assert model.ask(picture((3, 4, 5)), questions).keys() == plain.keys()
    assert steps == ["to cpu:0", "model", "to cpu"] * 2


def test_it_is_loaded_as_the_settings_say(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "SHARED", Registry())
    monkeypatch.setattr(loading, "is_bitsandbytes_available", lambda: True)
    spec = f"decision:local/{folder}"
    plain, four = (
        profiles.build_judge(spec, Settings(local_judges=LocalJudgeSpec(quantization=how)))
        for how in ("none", "4bit")
    )
    assert isinstance(four, LocalDecisionJudge)
    assert four._how.quantization == "4bit"
    assert four.fingerprint != plain.fingerprint
    asked: list[LocalJudgeSpec | None] = []

    def load(folder: Path, device: torch.device, how: LocalJudgeSpec, **_: object) -> None:
        asked.append(how)
        raise JudgeError("stop")

    monkeypatch.setattr("scenewright.agents.judges.decisions.local.load_model", load)
    with pytest.raises(JudgeError, match="stop"):
        four._make()
    assert asked == [LocalJudgeSpec(quantization="4bit")]
