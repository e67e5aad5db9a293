"""A judge behind HTTP: the contract of judges, and the answers of the same model in process."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from scenewright.agents.judges.local import LocalJudge
from scenewright.agents.judges.served import ServedJudge
from scenewright.agents.panel.panel import check_apart
from scenewright.config.profiles import SettingsError
from scenewright.core.closed_vocabulary import ClosedVocabulary, write_vocabulary
from scenewright.core.error_text import library_texts_withheld
from scenewright.core.formats import load_scene
from scenewright.core.ports.judge import JudgeError, unscored
from scenewright.core.questions import facts_of
from scenewright.providers.model_serving import ModelServer
from scenewright.service.model_serving.models import LocalJudgeEndpoint, ModelEndpoint
from tests.agents.judges.conformance import JudgeConformance, picture, scene
from tests.agents.judges.tiny import save_tiny_llava
from tests.doubles import ScriptedJudge
from tests.service.model_serving.hosting import hosting, swift

NAME, FEW = "local:tiny", "local:few"
WORDS = ClosedVocabulary(
    classes=("dog", "ball"), attributes={}, predicates=("left of", "right of", "on", "under"),
    rivals={"left of": ("right of", "on", "under")}, choices=3,
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_llava(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    async def make() -> Mapping[str, ModelEndpoint]:
        judge = LocalJudge(folder, name="tiny", device="cpu")
        return {NAME: LocalJudgeEndpoint(judge, NAME)}

    with hosting(make) as address:
        yield address


@pytest.fixture
async def judge(url: str) -> AsyncIterator[ServedJudge]:
    caller = swift()
    made = ServedJudge(ModelServer(NAME, url), caller, account="cluster")
    yield made
    await made.aclose()
    await caller.aclose()


class TestConformance(JudgeConformance):
    pass


async def test_it_answers_as_the_same_model_in_this_process(
    judge: ServedJudge, folder: Path
) -> None:
    here = LocalJudge(folder, name="tiny", device="cpu")
    assert judge.fingerprint == here.fingerprint
    assert judge.id == "cluster:local:tiny"
    assert (judge.caps.max_side, judge.caps.local) == (here.caps.max_side, False)
    facts = facts_of(scene())
    for shown in (picture(), Image.new("RGBA", (1200, 30), (9, 9, 9, 100))):
        there, same = await judge.answer(shown, facts), await here.answer(shown, facts)
        assert [(a.state, a.choice, a.probability, a.tokens_in, a.prompt_id) for a in there] == [
            (a.state, a.choice, a.probability, a.tokens_in, a.prompt_id) for a in same
        ]
        assert all(a.judge_id == judge.id and a.usd == 0.0 for a in there)
    await here.aclose()


async def test_a_picture_that_cannot_be_shown_is_unscored(judge: ServedJudge) -> None:
    facts = facts_of(scene())[:2]
    answers = await judge.answer(Image.new("F", (8, 8)), facts)
    assert [a.state for a in answers] == ["unscored", "unscored"]
    assert "range is not known" in answers[0].reason


async def test_other_weights_than_those_looked_up_are_refused(url: str, folder: Path) -> None:
    caller = swift()
    judge = ServedJudge(ModelServer(NAME, url), caller, account="cluster")
    judge.fingerprint = "f" * 64
    answers = await judge.answer(picture(), facts_of(scene())[:1])
    assert answers[0].state == "unscored"
    assert "has the fingerprint" in answers[0].reason
    assert "Start again" in answers[0].reason
    assert caller.totals.attempts == 1
    await judge.aclose()
    await caller.aclose()


def test_a_model_that_is_not_there_is_a_clear_error(url: str) -> None:
    with pytest.raises(JudgeError, match=r"no model 'local:other' is served here.*local:tiny"):
        ServedJudge(ModelServer("local:other", url), swift(), account="cluster")


def test_a_server_that_is_not_there_says_how_to_start_one() -> None:
    with pytest.raises(JudgeError, match=r"no server of models answers.*models serve local:tiny"):
        ServedJudge(ModelServer(NAME, "http://127.0.0.1:9"), swift(), account="cluster")


async def test_a_batch_is_answered_as_each_picture_alone(folder: Path) -> None:
    judge = LocalJudge(folder, name="tiny", device="cpu")
    judge.batch = 5
    facts = facts_of(scene())
    asked = [
        (picture((200, 60, 50)), facts),
        (Image.new("RGB", (30, 70), "navy"), facts[:3]),
        (picture((0, 90, 250)), facts[2:]),
        (Image.new("F", (8, 8)), facts[:1]),
        (picture((10, 10, 10)), ()),
    ]
    together = await judge.answer_many(asked)
    alone = [await judge.answer(image, some) for image, some in asked]
    assert [len(found) for found in together] == [len(some) for _, some in asked]
    for one, other in zip(together, alone, strict=True):
        for a, b in zip(one, other, strict=True):
            assert (a.fact_id, a.state, a.choice, a.reason) == (
                b.fact_id, b.state, b.choice, b.reason
            )  # fmt: skip
            assert a.probability == pytest.approx(b.probability, abs=1e-5)
    assert together[3][0].state == "unscored"
    await judge.aclose()


async def test_a_batch_that_breaks_is_asked_again_picture_by_picture(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = LocalJudge(folder, name="tiny", device="cpu")
    await judge.load()
    assert judge._model is not None
    whole = judge._model.score_pairs

    def breaks(images, *more):  # type: ignore[no-untyped-def]
        if len({id(image) for image in images}) > 1:
            raise RuntimeError("out of memory")
        return whole(images, *more)

    monkeypatch.setattr(judge._model, "score_pairs", breaks)
    facts = facts_of(scene())
    found = await judge.answer_many([(picture(), facts), (picture((1, 2, 3)), facts)])
    assert [a.state == "unscored" for part in found for a in part] == [False] * 2 * len(facts)
    await judge.aclose()


async def test_a_service_does_not_hand_on_what_a_library_said_there() -> None:
    def fails(judge: ScriptedJudge, facts: Any, answers: Any) -> Any:
        return unscored(judge.id, facts, "RuntimeError: no kernel in /srv/x.py")

    async def make() -> Mapping[str, ModelEndpoint]:
        return {NAME: LocalJudgeEndpoint(ScriptedJudge(behave=fails), NAME)}

    facts, caller = facts_of(scene())[:2], swift()
    with hosting(make) as address:
        judge = ServedJudge(ModelServer(NAME, address), caller, account="cluster")
        whole = await judge.answer(picture(), facts)
        with library_texts_withheld(str):
            told = await judge.answer(picture(), facts)
        await judge.aclose()
    await caller.aclose()
    assert {answer.reason for answer in whole} == {"RuntimeError: no kernel in /srv/x.py"}
    assert {answer.reason for answer in told} == {"RuntimeError: the service's log says more"}


async def test_requests_go_side_by_side(judge: ServedJudge) -> None:
    facts = facts_of(scene())
    found = await asyncio.gather(*(judge.answer(picture((n, n, n)), facts) for n in range(8)))
    assert all(answer.state != "unscored" for part in found for answer in part)


@pytest.fixture(scope="module")
def few_words(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model under another name, of few words."""
    place = tmp_path_factory.mktemp("few")
    shutil.copytree(folder, place, dirs_exist_ok=True)
    write_vocabulary(place, WORDS)
    return place


@pytest.fixture(scope="module")
def few_words_url(few_words: Path) -> Iterator[str]:
    async def make() -> Mapping[str, ModelEndpoint]:
        return {FEW: LocalJudgeEndpoint(LocalJudge(few_words, name="few", device="cpu"), FEW)}

    with hosting(make) as address:
        yield address


async def test_words_that_the_served_model_does_not_know_are_unscored_without_a_call(
    few_words_url: str, few_words: Path
) -> None:
    caller = swift()
    judge = ServedJudge(ModelServer(FEW, few_words_url), caller, account="cluster")
    assert judge.caps.vocabulary == WORDS
    here = LocalJudge(few_words, name="few", device="cpu")
    known = facts_of(load_scene("dog left of ball"))
    unknown = facts_of(load_scene("astronaut"))
    (answer,) = await judge.answer(picture(), unknown)
    assert (answer.state, answer.judge_id) == ("unscored", judge.id)
    assert "the class 'astronaut' is outside its vocabulary (it knows dog, ball)" in answer.reason
    assert caller.totals.attempts == 0
    mixed = [*known[:1], *unknown, *known[1:]]
    there, same = await judge.answer(picture(), mixed), await here.answer(picture(), mixed)
    assert [(a.fact_id, a.state, a.choice, a.reason) for a in there] == [
        (a.fact_id, a.state, a.choice, a.reason) for a in same
    ]
    await judge.aclose()
    await caller.aclose()


async def test_a_served_copy_is_told_by_its_weights(
    few_words_url: str, url: str, folder: Path, tmp_path: Path
) -> None:
    caller = swift()
    few = ServedJudge(ModelServer(FEW, few_words_url), caller, account="one")
    tiny = ServedJudge(ModelServer(NAME, url), caller, account="two")
    here = LocalJudge(folder, name="tiny", device="cpu")
    assert few.identity.weights == tiny.identity.weights == here.identity.weights != ""
    # Neither name nor fingerprint tells that these are one model.
    assert few.identity.name != tiny.identity.name
    assert few.fingerprint != tiny.fingerprint
    for one, other in ((few, tiny), (few, here)):
        with pytest.raises(SettingsError, match=r"are the same model \(equal weights\)"):
            check_apart([one], [other])
    other = save_tiny_llava(tmp_path / "other", seed=1)
    check_apart([few], [LocalJudge(other, name="other", device="cpu")])
    await few.aclose()
    await tiny.aclose()
    await caller.aclose()
