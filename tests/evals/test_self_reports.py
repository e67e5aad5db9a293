"""Panels of an evaluation with models that steered its loops: refused, or allowed and labelled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from scenewright.cli import console as terminal
from scenewright.cli import eval as eval_command
from scenewright.config.settings import Settings, load_settings
from scenewright.evals.errors import EvalError
from scenewright.evals.metrics.base import MetricError, judges_of
from scenewright.evals.metrics.picture_scores import SGScore
from scenewright.evals.metrics.registry import metric_of
from scenewright.evals.reporting.report import build_report
from scenewright.evals.runner.config import EvalConfig, arms_of, panels_of
from scenewright.evals.runner.drawing import ImageGenerator
from scenewright.evals.runner.independence import shared_judges, steering_of, told_self_reports
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.studies.peers.matrix import findings, matrix_of, peer_scores
from scenewright.evals.studies.peers.panel_metric import metric_judges_of
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge
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
    asked = config(panels=OWN, allow_loop_judges=True, side_by_side=True)
    items = ListedSet(scene_items(1))
    found = await run_eval(asked, tmp_path / "e", given=scripted(), dataset=items)
    # Both protocols are judged by the same models.
    told = {name: {"miniature/feedback/0": ("scripted:a",)} for name in ("own", "own:grounded")}
    assert told_self_reports(found.manifest) == told
    # One that was written before says the same by its models.
    old = {key: value for key, value in found.manifest.items() if key != "self_reports"}
    assert told_self_reports(old) == told
    summary = eval_command.summarize(found)
    assert summary["self_reports"] == told
    where = Console(file=StringIO(), width=200)
    monkeypatch.setattr(terminal, "console", lambda *args: where)
    eval_command.print_summary(found, summary)
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


class Asking(SGScore):
    """A metric that asks judges of its own."""

    name = "asking"

    def __init__(self, *judges: ScriptedJudge) -> None:
        super().__init__()
        self.judges = judges


async def test_a_metric_with_judges_of_a_loop_is_labelled_like_a_panel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = scripted()
    given = replace(given, metrics=[*(given.metrics or ()), Asking(ScriptedJudge("a"))])
    items = ListedSet(scene_items(1))
    found = await run_eval(config(), tmp_path / "e", given=given, dataset=items)
    told = {"metric asking": {"miniature/feedback/0": ("scripted:a",)}}
    assert told_self_reports(found.manifest) == told
    where = Console(file=StringIO(), width=200)
    monkeypatch.setattr(terminal, "console", lambda *args: where)
    eval_command.print_summary(found, eval_command.summarize(found))
    said = where.file.getvalue()  # type: ignore[attr-defined]
    assert "self-report: scripted:a of the metric asking steered the loop of" in said
    assert "the metric asking" in build_report(found, resamples=100).page.read_text()
    scores = peer_scores(found)
    assert "scripted:a of the metric asking steered the loop of" in scores.self_reports[0]
    assert findings(matrix_of(scores))[0] == scores.self_reports[0]


def test_judges_of_a_metric_are_those_of_the_report_or_are_named(tmp_path: Path) -> None:
    folder = str(tmp_path)
    bench = metric_judges_of("tifa", settings_with(), profile="mine", folder=folder)
    assert [judge.id for judge in bench.judges] == ["local:miniature/judge-c"]
    bare = settings_with(report_judges=[])
    with pytest.raises(MetricError, match="has no report judges, and those of its loop must not"):
        metric_judges_of("tifa", bare, profile="mine", folder=folder)
    named = metric_judges_of("tifa", bare, "local:miniature/judge-a", folder=folder)
    assert [judge.id for judge in named.judges] == ["local:miniature/judge-a"]
    own = metric_judges_of("tifa", settings_with(self_report=True), profile="mine", folder=folder)
    assert [judge.id for judge in own.judges] == [
        "local:miniature/judge-a", "local:miniature/judge-b",
    ]  # fmt: skip


def test_metrics_name_the_judges_that_they_ask(tmp_path: Path) -> None:
    asked = {"judges": "local:miniature/judge-a", "folder": str(tmp_path)}
    for name, options in (
        ("direct", asked),
        ("real", asked),
        ("psg", {"extractor": "miniature", "folder": str(tmp_path)}),
    ):
        found = judges_of(metric_of(name, options, settings_with()))
        assert "local:miniature/judge-a" in [judge.id for judge in found], name
    assert judges_of(SGScore()) == ()


def test_the_director_is_among_what_steered_a_drawing() -> None:
    settings = settings_with(chat="work:own", strategy="director", composer="grid")
    account = settings.accounts["work"].model_copy(update={"aliases": {"own": "gpt-4o"}})
    accounts = {**settings.accounts, "work": account}
    (arm,) = arms_of(config(backends=["mine"]), settings)
    generator = ImageGenerator(
        ScriptedBackend(lambda request: 1), ScriptedComposer(), (ScriptedJudge("a"),)
    )
    steering = steering_of(arm, generator, accounts)
    assert [one["id"] for one in steering] == ["scripted:a", "work:own"]

    def both(*names: str) -> list[str]:
        return shared_judges(steering, [_Named(name) for name in names], accounts)

    assert both("openai:gpt-4o-2024-08-06", "openai:gpt-5.4") == ["openai:gpt-4o-2024-08-06"]
    assert both("work:own", "scripted:a") == ["work:own", "scripted:a"]
    # Without a loop nothing steers.
    (alone,) = arms_of(config(backends=["mine"], conditions=["composition"]), settings)
    assert steering_of(alone, None, accounts) == []


@dataclass
class _Named(ScriptedJudge):
    @property
    def id(self) -> str:
        return self.name
