"""Who reports a run: other models than the loop's, or the loop itself, and then it is labelled."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from rich.console import Console

from scenewright.agents.judges.local import LocalJudge
from scenewright.agents.panel.independence import check_independence, identity_of_judge
from scenewright.cli.run_display import card_lines, print_result
from scenewright.config.profiles import BUILT_IN, SettingsError
from scenewright.config.settings import Settings
from scenewright.core.facts import Answer, Fact
from scenewright.graphs.reporting import INDEPENDENT, reporting_from
from scenewright.runs.api import refine
from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS
from scenewright.runs.plan import plan_again
from scenewright.runs.record import read_run
from scenewright.runs.report.render import write_page
from scenewright.runs.result import RunResult, load_run
from scenewright.runs.scoring import score
from tests.doubles import CallBook, ScriptedBackend, ScriptedComposer, ScriptedJudge
from tests.graphs.directing import ACCEPT, DRAW, VERIFY, Played

SCENE = "red ball on table; dog left of table"


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Served(ScriptedJudge):
    """A judge of an account; its name is ``account:model``, and its answers say what served it."""

    @property
    def id(self) -> str:
        return self.name

    @staticmethod
    def by(model: str) -> Any:
        def said(judge: ScriptedJudge, facts: Sequence[Fact], answers: list[Answer]) -> Any:
            return [answer.model_copy(update={"model": model}) for answer in answers]

        return said


class Chat(Played):
    model_name: str = "gpt-4o-2024-08-06"


def run_models(**changes: Any) -> dict[str, Any]:
    return {
        "rounds": 2,
        "backend": ScriptedBackend(lambda request: 120),
        "judges": [ScriptedJudge("a")],
        "report_judges": [ScriptedJudge("c")],
        "composer": ScriptedComposer(),
        **changes,
    }


def told(result: RunResult) -> str:
    console = Console(width=200, force_terminal=False)
    with console.capture() as said:
        print_result(read_run(result.folder), console)
    return said.get()


async def test_report_judges_of_other_models_are_independent() -> None:
    result = await refine(SCENE, **run_models())
    assert result.reporting.kind == "independent"
    assert "by judges that the loop never saw" in told(result)
    page = write_page(result.folder).read_text()
    assert "Report judges" in page
    assert "elf-report" not in page


async def test_a_run_without_report_judges_says_that_nobody_else_looked() -> None:
    result = await refine(SCENE, **run_models(report_judges=[]))
    assert (result.reporting.kind, result.report_card) == ("none", None)
    assert "no report: only the judges of the loop looked" in told(result)


async def test_the_loop_reports_itself_only_by_saying_so_and_is_labelled() -> None:
    book = CallBook()
    judges = run_models(judges=[ScriptedJudge("a", book)], report_judges=None)
    result = await refine(SCENE, **judges, self_report=True)
    assert result.reporting.kind == "self"
    assert result.reporting.models == ("scripted:a",)
    assert result.report_card == result.loop_card
    # The same judge is not paid twice for the same questions.
    asked = [line for line in book.lines if line.startswith("begin answer")]
    assert len(asked) == len(set(asked))
    lines = told(result)
    assert "self-report, by models of the loop: scripted:a" in lines
    assert "never saw" not in lines
    page = write_page(result.folder).read_text()
    assert "This is a self-report" in page
    assert "Report judges" not in page
    saved = json.loads((result.folder / "result.json").read_text())
    assert saved["reporting"]["kind"] == "self"
    manifest = json.loads((result.folder / "manifest.json").read_text())
    assert manifest["config"]["profile"]["self_report"] is True
    again = plan_again(result.folder, **{k: v for k, v in run_models(report_judges=None).items()
                                         if k in ("backend", "judges", "composer")})  # fmt: skip
    assert again.profile.self_report
    assert load_run(result.folder).reporting.kind == "self"


async def test_a_score_by_one_panel_is_labelled_too() -> None:
    picture = Image.new("RGB", (16, 16), (100, 0, 0))
    own = await score(picture, SCENE, judges=[ScriptedJudge("a")], self_report=True)
    assert own.reporting.kind == "self"
    assert own.report == own.loop
    assert any("self-report" in value for _, value in card_lines(own))
    apart = await score(
        picture, SCENE, judges=[ScriptedJudge("a")], report_judges=[ScriptedJudge("b")]
    )
    assert apart.reporting.kind == "independent"


@pytest.mark.parametrize("account", ["openai", "work"])
async def test_a_director_given_as_an_object_cannot_report(account: str) -> None:
    chat = Chat(lines=[DRAW, VERIFY, ACCEPT])
    models = run_models(chat=chat, strategy="director", report_judges=[Served(f"{account}:gpt-4o")])
    with pytest.raises(SettingsError, match=f"director's chat .* report judge {account}:gpt-4o"):
        await refine(SCENE, **models)
    assert not Path("runs").exists()
    # In a loop of another strategy nobody asks it.
    assert (await refine(SCENE, **models | {"strategy": "feedback"})).finished


async def test_a_strategy_of_the_call_makes_the_chat_a_director() -> None:
    profile = BUILT_IN["openai"].model_copy(
        update={
            "chat": "openai:gpt-5.4",
            "report_judges": ("openai:gpt-5.4",),
            "strategy": "router",
            "aggregation": "mean",
        }
    )
    with pytest.raises(SettingsError, match=r"director's chat openai:gpt-5\.4"):
        await refine(SCENE, profile, strategy="director")


async def test_given_judges_of_one_model_through_two_accounts_are_one() -> None:
    one, other = Served("openai:gpt-4o"), Served("work:openai/gpt-4o-2024-08-06")
    with pytest.raises(SettingsError, match="both steer the loop and report"):
        await refine(SCENE, **run_models(judges=[one], report_judges=[other]))
    with pytest.raises(SettingsError, match="count double"):
        await refine(SCENE, **run_models(judges=[one, other]))
    picture = Image.new("RGB", (16, 16), (100, 0, 0))
    with pytest.raises(SettingsError, match="both steer"):
        await score(picture, SCENE, judges=[one], report_judges=[other])


async def test_two_names_that_one_model_serves_are_told() -> None:
    served = Served.by("gemini-3.5-flash-lite")
    loop = Served("gemini:gemini-2.5-flash", behave=served)
    report = Served("gemini:models/gemini-3.5-flash-lite-001", behave=served)
    result = await refine(SCENE, **run_models(judges=[loop], report_judges=[report]))
    assert result.reporting.kind == "self"
    assert result.reporting.models == ("gemini-3.5-flash-lite",)
    assert "gemini-3.5-flash-lite steered the loop and reports its result" in told(result)
    twice = Served("gemini:gemini-2.5-flash-lite", behave=served)
    result = await refine(SCENE, **run_models(judges=[loop, twice]))
    assert result.reporting.kind == "independent"
    assert result.reporting.doubled == ("gemini-3.5-flash-lite",)
    assert "answered under two names of one panel" in told(result)


def test_a_served_name_behind_an_alias_tells_nothing_more() -> None:
    aliases = {"a:default": "qwen2.5-vl-7b-instruct", "b:default": "gemma-3-4b-it"}
    sides = {"a:default": {"default"}}, {"b:default": {"default"}}
    assert reporting_from(*sides, aliases=aliases).kind == "independent"
    assert reporting_from(*sides).kind == "self"


def test_local_weights_copied_to_another_folder_are_one_model(tmp_path: Path) -> None:
    source = MINIATURE_WEIGHTS / "judges" / "judge-a"
    shutil.copytree(source, tmp_path / "copy")
    (tmp_path / "copy" / "generation_config.json").write_text("{}")
    one, other = LocalJudge(source), LocalJudge(tmp_path / "copy")
    assert one.fingerprint != other.fingerprint
    with pytest.raises(SettingsError, match=r"are the same model \(equal weights\).*both steer"):
        check_independence([one], [other])
    different = LocalJudge(MINIATURE_WEIGHTS / "judges" / "judge-b")
    assert identity_of_judge(one).weights != identity_of_judge(different).weights
    check_independence([one], [different])


async def test_an_alias_of_the_settings_holds_for_a_run() -> None:
    account = {"provider": "openai", "base_url": "http://127.0.0.1:9", "key_variable": ""}
    settings = Settings.model_validate(
        {"accounts": {"azure": account | {"aliases": {"east": "gpt-4o"}}}}
    )
    models = run_models(judges=[Served("azure:east")], report_judges=[Served("openai:gpt-4o")])
    with pytest.raises(SettingsError, match="azure:east and openai:gpt-4o are the same model"):
        await refine(SCENE, **models, settings=settings)
    assert (await refine(SCENE, **models)).reporting.kind == "independent"


def test_a_director_that_does_not_tell_its_model_is_unknown() -> None:
    own, others = {"local:a": ()}, {"openai:gpt-4o": ()}
    found = reporting_from(own, others, {"AgentChat:unknown": ()})
    assert (found.kind, found.unknown) == ("independent", ("AgentChat:unknown",))
    assert "which model directed it is unknown" in found.line
    assert any("did not tell which model it is" in note for note in found.notes)
    # What it answered tells it, and a script is no model.
    told = reporting_from(own, others, {"AgentChat:unknown": ("gpt-4o-2024-08-06",)})
    assert (told.kind, told.models, told.unknown) == ("self", ("gpt-4o",), ())
    assert reporting_from(own, others, {"scripted:director": ()}).unknown == ()
    assert reporting_from(own, others, {"AgentChat:gpt-5.4": ()}).line == INDEPENDENT
