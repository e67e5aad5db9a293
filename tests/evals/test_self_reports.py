"""Panels of an evaluation with models that steered its loops: refused, or allowed and labelled."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from scenewright.commands import eval_run
from scenewright.evals.arms import panels_of
from scenewright.evals.config import EvalConfig
from scenewright.evals.errors import EvalError
from scenewright.evals.independence import told_self_reports
from scenewright.evals.reports.report import build_report
from scenewright.evals.runner import run_eval
from scenewright.settings import Settings, load_settings
from tests.evals.eval_sets import ListedSet, scene_items, scripted

OWN = {"own": {"judges": ["local:miniature/judge-a"]}}


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def config(**changes: Any) -> EvalConfig:
    return EvalConfig.model_validate(
        {"name": "self", "dataset": {"name": "megasg"}, "conditions": ["feedback"], **changes}
    )


def settings_with(**profile: Any) -> Settings:
    account = {"provider": "openai", "base_url": "http://127.0.0.1:9", "key_variable": ""}
    profiles = {"mine": {"extends": "miniature", **profile}}
    return load_settings(accounts={"work": account}, profiles=profiles)


@pytest.mark.parametrize(
    ("profile", "judge"),
    [
        ({"judges": ["openai:gpt-4o"]}, "work:gpt-4o-2024-08-06"),
        ({"judges": ["openai:gpt-4o"]}, "work:openai/gpt-4o"),
        ({"chat": "openai:gpt-4o", "strategy": "director"}, "work:gpt-4o"),
    ],
)
def test_a_panel_holds_no_model_of_a_loop_under_any_name(
    profile: dict[str, Any], judge: str
) -> None:
    asked = config(backends=["mine"], panels={"p": {"judges": [judge]}})
    settings = settings_with(**profile)
    with pytest.raises(EvalError, match=f"holds {judge}, which steers a loop of mine/feedback"):
        panels_of(asked, settings)
    # Without a loop nothing steers.
    assert panels_of(asked.model_copy(update={"conditions": ("composition",)}), settings)
    assert panels_of(asked.model_copy(update={"allow_loop_judges": True}), settings)


def test_one_model_has_one_vote_in_a_panel() -> None:
    twice = {"p": {"judges": ["openai:gpt-4o", "work:gpt-4o"]}}
    with pytest.raises(EvalError, match=r"the panel 'p': .* count double"):
        panels_of(config(panels=twice), settings_with())


def test_a_profile_that_reports_itself_has_the_judges_of_its_loop_as_a_panel() -> None:
    (panel,) = panels_of(config(backends=["mine"]), settings_with(self_report=True)).values()
    assert panel.judges == ("local:miniature/judge-a", "local:miniature/judge-b")


async def test_a_self_report_is_labelled_in_manifest_summary_and_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = config(panels=OWN, allow_loop_judges=True)
    items = ListedSet(scene_items(1))
    found = await run_eval(asked, tmp_path / "e", given=scripted(), dataset=items)
    # Both protocols are judged by the same models.
    told = {name: {"miniature/feedback/0": ("scripted:a",)} for name in ("own", "own:grounded")}
    assert told_self_reports(found.manifest) == told
    # One that was written before says the same by its models.
    old = {key: value for key, value in found.manifest.items() if key != "self_reports"}
    assert told_self_reports(old) == told
    summary = eval_run._summary(found)
    assert summary["self_reports"] == told
    where = Console(file=StringIO(), width=200)
    monkeypatch.setattr(eval_run, "console", lambda: where)
    eval_run._show_summary(found, summary)
    said = where.file.getvalue()  # type: ignore[attr-defined]
    assert (
        "self-report: scripted:a of the panel own steered the loop of miniature/feedback/0" in said
    )
    page = build_report(found, resamples=100).page.read_text()
    assert "Self-reports" in page
    assert "These models steered the loops that they judge" in page


async def test_other_models_are_no_self_report(tmp_path: Path) -> None:
    items = ListedSet(scene_items(1))
    found = await run_eval(config(), tmp_path / "e", given=scripted(), dataset=items)
    assert told_self_reports(found.manifest) == {}
