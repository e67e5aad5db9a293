"""Who reads a sentence, what it costs, and that a run reads once."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from scenewright import Budget, load_run, refine, score, stream_refine
from scenewright.agents.parsers.language import LanguageParser
from scenewright.agents.parsers.unread import CaptionError
from scenewright.cli.main import app
from scenewright.config.profiles import BUILT_IN, Profile, SettingsError
from scenewright.config.settings import Settings
from scenewright.core.ports.backend import BackendError
from scenewright.core.scene import SceneGraph
from scenewright.evals.runner.forecast import forecast_run
from scenewright.graphs.errors import RunError
from scenewright.graphs.events import Finished, RunStarted
from scenewright.providers.retry import CallError, PermanentError
from scenewright.runs import reading
from scenewright.runs.plan import plan_run
from scenewright.runs.preview import preview_of
from scenewright.runs.reading import (
    ReadingError,
    graph_or_sentence,
    read_scene,
    read_words,
    reader_of,
)
from scenewright.runs.run_reading import read_plan
from scenewright.runs.studio import build_studio
from tests.agents.paying import CENT, PayingChat
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge

SENTENCE = "A brown dog sits on a rug at night."
READ: dict[str, Any] = {
    "objects": ["dog", "rug"],
    "relationships": [{"source": "dog", "target": "rug", "relation": "resting on"}],
}
MARK = "resting on"
"""What the rules do not read."""
GERMAN = "Ein brauner Hund liegt auf dem Teppich."
SPANISH = "Dos perros juegan con una pelota en la playa."
TRANSLATED: dict[str, dict[str, Any]] = {
    GERMAN: {**READ, "language": "de", "english": "A brown dog lies on the rug."},
    SPANISH: {
        "objects": ["dog.1", "dog.2", "ball", "beach"],
        "relationships": [{"source": "ball", "target": "beach", "relation": "on"}],
        "language": "es",
        "english": "Two dogs play with a ball on the beach.",
    },
}
OPENAI = BUILT_IN["openai"]
RUBBISH = [
    "no graph at all",
    {**READ, "objects": ["dog", "dragon"], "relationships": []},
    {**READ, "globals": [{"kind": "mood", "text": "gloomy"}]},
    {"objects": [], "relationships": []},
    {**READ, "counts": [{"objects": ["cat"], "kind": "exact", "number": 7}]},
    TimeoutError("no answer"),
]


pytestmark = pytest.mark.filterwarnings("ignore::scenewright.agents.parsers.unread.CaptionWarning")


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> PayingChat:
    """Language model of every profile."""
    made = PayingChat(replies=[READ])
    monkeypatch.setattr(reading, "parser_of", lambda *_: LanguageParser(made))
    return made


def options(**more: Any) -> dict[str, Any]:
    return {
        "rounds": 1,
        "backend": ScriptedBackend(lambda request: 250),
        "judges": [ScriptedJudge("a")],
        "report_judges": [ScriptedJudge("c")],
        "composer": ScriptedComposer(),
        **more,
    }


def is_marked(scene: SceneGraph) -> bool:
    """Return whether a scene is the language model's."""
    return any(one.predicate == MARK for one in scene.relations)


def test_the_profile_says_who_reads() -> None:
    assert reader_of(OPENAI) == "llm"
    assert reader_of(OPENAI, "rules") == "rules"
    assert reader_of(OPENAI.model_copy(update={"reader": "rules"})) == "rules"
    assert reader_of(BUILT_IN["sdxl"]) == "rules"
    # A script directs, and does not read.
    assert reader_of(BUILT_IN["miniature"]) == "rules"
    with pytest.raises(ValueError, match="reader llm needs a language model"):
        Profile.model_validate({**BUILT_IN["sdxl"].model_dump(), "reader": "llm"})


def test_only_sentences_are_for_a_language_model() -> None:
    listed = graph_or_sentence("red ball on table; dog left of table", "llm")
    assert isinstance(listed, SceneGraph)
    # One line without a mark is a sentence, whoever reads it.
    assert graph_or_sentence("dog on rug", "rules") == "dog on rug"
    assert graph_or_sentence("dog on rug", "llm") == "dog on rug"
    assert graph_or_sentence("夜晚的两只狗", "rules") == "夜晚的两只狗"


async def test_every_door_in_python_reads_by_the_language_model_and_counts_it(
    chat: PayingChat,
) -> None:
    result = await refine(SENTENCE, "openai", **options())
    assert is_marked(result.scene)
    events = [one async for one in stream_refine(SENTENCE, "openai", **options(seed=3))]
    [begun] = [one for one in events if isinstance(one, RunStarted)]
    assert is_marked(begun.scene)
    assert begun.reading is not None
    assert (begun.reading.reader, begun.reading.calls) == ("llm", 1)
    assert isinstance(events[-1], Finished)
    for totals in (result.totals, load_run(result.folder).totals):
        assert totals["usd"] == pytest.approx(CENT)
        assert totals["tokens_in"] > 100
    scored = await score(
        Image.new("RGB", (32, 32)), SENTENCE, "openai",
        judges=[ScriptedJudge("a")], report_judges=[ScriptedJudge("c")],
    )  # fmt: skip
    assert is_marked(scored.scene)
    assert scored.usd == pytest.approx(CENT)
    assert len(chat.sent) == 3


async def test_the_studio_reads_by_it_and_hands_the_reading_to_the_run(
    chat: PayingChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    async def run(scene: SceneGraph, profile: str, **more: Any) -> Any:
        given.append((scene, more.get("reading")))
        return await refine(scene, profile, **options(reading=more.get("reading")))

    monkeypatch.setattr("scenewright.runs.studio.refine", run)
    made = await build_studio().compile().ainvoke({"scene": SENTENCE, "profile": "openai"})
    assert load_run(Path(made["folder"])).totals["usd"] == pytest.approx(CENT)
    await (
        build_studio()
        .compile()
        .ainvoke({"scene": SENTENCE, "profile": "openai", "reader": "rules"})
    )
    (by_model, paid), (by_rules, unpaid) = given
    assert (is_marked(by_model), is_marked(by_rules)) == (True, False)
    assert paid is not None
    assert unpaid is None
    assert len(chat.sent) == 1


def test_the_command_line_reads_by_it(chat: PayingChat, tmp_path: Path) -> None:
    def call(*arguments: str) -> Any:
        done = CliRunner().invoke(app, [*arguments, "-p", "openai"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    for door in (("parse", SENTENCE), ("parse", "--caption", SENTENCE)):
        assert is_marked(SceneGraph.model_validate(call(*door, "--json")["scene"]))
    assert len(chat.sent) == 2
    by_rules = call("parse", SENTENCE, "--json", "--with", "rules")
    assert not is_marked(SceneGraph.model_validate(by_rules["scene"]))
    # A plan pays for nothing, unless it is told to.
    plan = call("refine", SENTENCE, "--plan", "--json")
    assert not is_marked(SceneGraph.model_validate(plan["scene"]))
    assert "the run asks openai:" in plan["reader"]
    assert len(chat.sent) == 2
    plan = call("refine", SENTENCE, "--plan", "--json", "--with", "llm")
    assert is_marked(SceneGraph.model_validate(plan["scene"]))
    assert len(chat.sent) == 3
    # What is paid for is the run's.
    call("refine", SENTENCE, "--plan", "--json", "--with", "llm")
    assert len(chat.sent) == 3


async def test_a_killed_run_does_not_pay_again(chat: PayingChat, tmp_path: Path) -> None:
    killed = ScriptedBackend(lambda request: 250, failing=lambda _: BackendError("it is gone"))
    out = tmp_path / "run"
    with pytest.raises(BackendError):
        await refine(SENTENCE, "openai", **options(out=out, backend=killed))
    chat.replies = [{"objects": ["rug"], "relationships": []}]
    result = await refine(SENTENCE, "openai", **options(out=out))
    assert is_marked(result.scene)
    assert len(chat.sent) == 1
    assert result.totals["usd"] == pytest.approx(CENT)
    again = await refine(SENTENCE, "openai", **options(out=out))
    assert again.totals == result.totals
    assert len(chat.sent) == 1


async def test_a_run_killed_between_reading_and_its_beginning_does_not_pay_again(
    chat: PayingChat,
) -> None:
    plan = await read_plan(plan_run(SENTENCE, "openai", **options()))
    assert plan.unread is None
    assert plan.reading is not None
    chat.replies = [{"objects": ["rug"], "relationships": []}]
    result = await refine(SENTENCE, "openai", **options())
    assert result.folder == plan.folder.path
    assert is_marked(result.scene)
    assert len(chat.sent) == 1
    assert result.totals["usd"] == pytest.approx(CENT)
    # Another run reads, and pays, for itself.
    other = await refine(SENTENCE, "openai", **options(seed=5))
    assert not is_marked(other.scene)
    assert other.totals["usd"] == pytest.approx(CENT)


async def test_a_folder_of_another_run_is_refused_before_anything_is_paid(
    chat: PayingChat, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    await refine("red ball on table; dog", "openai", **options(out=out))
    with pytest.raises(RunError, match="another configuration"):
        await refine(SENTENCE, "openai", **options(out=out))
    assert chat.sent == []


@pytest.mark.parametrize("reply", RUBBISH, ids=str)
async def test_the_rules_read_where_the_model_fails(chat: PayingChat, reply: Any) -> None:
    chat.replies = [reply]
    result = await refine(SENTENCE, "openai", **options())
    assert not is_marked(result.scene)
    assert {item.name for item in result.scene.objects} == {"dog", "rug"}
    [warned] = [one for one in result.warnings if "did not read the sentence" in one]
    assert OPENAI.chat is not None
    assert OPENAI.chat in warned
    # What came to nothing was paid for too, and is not tried again once the run has begun.
    calls = len(chat.sent)
    assert result.totals["usd"] == pytest.approx(CENT * calls)
    assert (await refine(SENTENCE, "openai", **options())).scene == result.scene
    assert len(chat.sent) == calls
    with pytest.raises(ReadingError, match="the language model read nothing"):
        await read_words(SENTENCE, OPENAI, Settings(), reader="llm")


async def test_a_failed_reading_is_tried_again_until_the_run_begins(chat: PayingChat) -> None:
    chat.replies = [CallError(PermanentError("no network"), 1)]
    plan = await read_plan(plan_run(SENTENCE, "openai", **options()))
    assert plan.reading is not None
    assert "no network" in plan.reading.problem
    chat.replies = [READ]
    result = await refine(SENTENCE, "openai", **options())
    assert is_marked(result.scene)
    assert result.totals["usd"] == pytest.approx(2 * CENT)


async def test_a_reading_keeps_the_limit_and_is_part_of_the_estimate(chat: PayingChat) -> None:
    plan = plan_run(SENTENCE, "openai", **options())
    [line] = [one for one in forecast_run(plan).lines if one.what == "reads"]
    assert line.least.usd is not None
    assert line.least.usd > 0
    assert line.most.usd == pytest.approx(2 * line.least.usd)
    assert not [one for one in forecast_run(await read_plan(plan)).lines if one.what == "reads"]
    sent = len(chat.sent)
    tight = options(budget=Budget(usd=CENT / 2), seed=9)
    result = await refine(SENTENCE, "openai", **tight)
    assert len(chat.sent) == sent
    assert any("the limit is" in one for one in result.warnings)


async def test_a_model_that_was_asked_for_must_be_there() -> None:
    with pytest.raises(SettingsError, match="has no language model that reads"):
        await read_words(SENTENCE, BUILT_IN["sdxl"], Settings(), reader="llm")
    with pytest.raises(SettingsError, match="has no language model that reads"):
        plan_run(SENTENCE, "sdxl", reader="llm")


@pytest.mark.parametrize("said", [GERMAN, SPANISH])
async def test_other_languages_need_a_language_model(chat: PayingChat, said: str) -> None:
    with pytest.raises(CaptionError, match="--with llm"):
        plan_run(said, "sdxl")
    chat.replies = [TRANSLATED[said]]
    with pytest.raises(CaptionError, match="--with llm"):
        await preview_of(plan_run(said, "openai"))
    assert chat.sent == []
    read = (await read_scene(said, OPENAI, Settings())).scene
    assert (read.sentence, read.english) == (said, TRANSLATED[said]["english"])
    assert read.sentence_for(("en", "zh")) == read.english
    assert read.sentence_for(("*",)) == said
    result = await refine(said, "openai", **options())
    assert result.scene == read
    # Where the model fails, nobody reads: nothing is drawn of half a sentence.
    chat.replies = [CallError(PermanentError("no network"), 1)]
    with pytest.raises(CaptionError, match="no network"):
        await refine(said, "openai", **options(seed=4))
    # What that cost is the run's, once it can be read.
    chat.replies = [TRANSLATED[said]]
    result = await refine(said, "openai", **options(seed=4))
    assert result.totals["usd"] == pytest.approx(2 * CENT)


def test_asking_back_offers_the_doubts_of_the_model(
    chat: PayingChat, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = "A rug lies on a brown dog at night."
    doubt = {
        "kind": "reading",
        "text": "on a rug",
        "question": "Which is below?",
        "choices": [
            {"label": "the rug", "sentence": SENTENCE},
            {"label": "the dog", "sentence": other},
        ],
    }
    below = {"source": "rug", "target": "dog", "relation": MARK}

    def reply(messages: Any) -> dict[str, Any]:
        asked = str(messages[-1].text)
        return {**READ, "relationships": [below]} if other in asked else {**READ, "doubts": [doubt]}

    chat.replies = reply

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def ask() -> Any:
        with monkeypatch.context() as patched:
            patched.setattr("scenewright.cli.intents.sys", SimpleNamespace(stdin=Terminal()))
            patched.setattr("typer.prompt", lambda *_, **__: 2)
            arguments = ["refine", SENTENCE, "-p", "openai", "--plan", "--json", "--with", "llm"]
            done = CliRunner().invoke(app, [*arguments, "--ask"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    plan = ask()
    [relation] = plan["scene"]["relations"]
    assert (relation["source"], relation["target"]) == ("rug.1", "dog.1")
    assert plan["scene"]["intent"]["sentence"] == other
    assert len(chat.sent) == 2
    # The same answer of the same sentence is not paid for again.
    assert ask()["scene"] == plan["scene"]
    assert len(chat.sent) == 2
