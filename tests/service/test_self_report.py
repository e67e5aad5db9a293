"""Requests name judges of other models than the loop's, or say that the loop reports itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenewright.runs import refine
from scenewright.service.driving import summary_of
from scenewright.service.errors import Unprocessable
from scenewright.service.extension import Extension
from scenewright.service.requests import profile_of
from scenewright.service.schemas import RefinementRequest
from scenewright.settings import Settings, load_settings
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def settings() -> Settings:
    account = {"provider": "openai", "base_url": "http://127.0.0.1:9", "key_variable": ""}
    profiles = {
        "mine": {
            "extends": "openai",
            "judges": ["openai:gpt-4.1"],
            "report_judges": ["openai:gpt-5.4", "openai:gpt-4o"],
        },
        "theirs": {"extends": "openai", "judges": ["work:gpt-4o"], "chat": "work:gpt-5.4"},
    }
    return load_settings(accounts={"work": account}, profiles=profiles)


def asked(**changes: object) -> RefinementRequest:
    return RefinementRequest.model_validate({"text": "A ball.", "profile": "mine", **changes})


def test_judges_of_a_request_leave_the_report_without_their_models() -> None:
    found = profile_of(asked(judges=["work:gpt-4o"]), settings())
    assert found.report_judges == ("openai:gpt-5.4",)


def test_a_request_cannot_have_one_model_on_both_sides() -> None:
    both = asked(judges=["work:gpt-4o"], report_judges=["openai:gpt-4o"])
    with pytest.raises(Unprocessable, match="work:gpt-4o and openai:gpt-4o are the same model"):
        profile_of(both, settings())
    directed = asked(profile="theirs", strategy="director")
    with pytest.raises(Unprocessable, match=r"director's chat work:gpt-5\.4"):
        profile_of(directed, settings())


def test_a_request_says_that_the_loop_reports_itself() -> None:
    found = profile_of(asked(self_report=True), settings())
    assert (found.self_report, found.report_judges) == (True, ())
    same = asked(judges=["work:gpt-4o"], report_judges=["openai:gpt-4o"], self_report=True)
    assert profile_of(same, settings()).report_judges == ("openai:gpt-4o",)
    assert Extension(self_report=True).model_dump()["self_report"]
    # Stored requests of before say nothing of it, and are as they were.
    assert "self_report" not in asked().model_dump(mode="json")


async def test_a_summary_labels_a_self_report(tmp_path: Path) -> None:
    result = await refine(
        "red ball",
        out=tmp_path / "run",
        backend=ScriptedBackend(lambda request: 120),
        composer=ScriptedComposer(),
        judges=[ScriptedJudge("a")],
        self_report=True,
        rounds=1,
    )
    assert summary_of(result).reporting == "self"
    assert summary_of(result).report_score == summary_of(result).loop_score
