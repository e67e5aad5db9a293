"""One declaration of a run's options, and every door that takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
import typer
from pydantic import ValidationError

from scenewright import Budget, RunError, RunOptions, ScenewrightError, load_scene, refine
from scenewright.cli.main import app
from scenewright.config.options import PARTS, ImageOptions, LoopOptions, RepairOptions
from scenewright.config.profiles import BUILT_IN, SettingsError
from scenewright.config.settings import Settings, profile_with
from scenewright.runs.options import RunArguments
from scenewright.runs.plan import plan_run
from scenewright.runs.studio import build_studio
from scenewright.service.compat.openai_images.bodies import OpenAIExtension
from scenewright.service.core.requests import run_arguments
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.mcp.arguments import RefineScene

_OF_PROFILES = {"predicates"}
"""Options of a profile that no door takes: it may name a file."""


def _command_line() -> Iterable[str]:
    command = typer.main.get_command(app).commands["refine"]  # type: ignore[attr-defined]
    names = {one.name for one in command.get_params(typer.Context(command))}
    budget = {f"max_{name}" for name in Budget.model_fields}
    return names - budget | ({"budget"} if budget <= names else set())


DOORS: dict[str, Callable[[], Iterable[str]]] = {
    "Python": lambda: RunArguments.__annotations__,
    "command line": _command_line,
    "HTTP": lambda: RefinementRequest.model_json_schema()["properties"],
    "OpenAI": lambda: OpenAIExtension.model_json_schema()["properties"],
    "MCP": lambda: RefineScene.model_json_schema()["properties"],
    "Studio": lambda: build_studio().compile().get_input_jsonschema()["properties"],
}


def test_every_door_takes_every_option() -> None:
    taken = {door: set(names()) for door, names in DOORS.items()}
    rows = [f"{'':<18}" + "".join(f"{door:>14}" for door in DOORS)]
    holes = []
    for name in RunOptions.model_fields:
        marks = ["x" if name in taken[door] else "-" for door in DOORS]
        rows.append(f"{name:<18}" + "".join(f"{mark:>14}" for mark in marks))
        holes += [f"{name} at {door}" for door in DOORS if name not in taken[door]]
    print("\n".join(rows))
    assert not holes, "\n".join([*rows, *holes])


def test_every_option_of_a_profile_is_an_option_of_a_run() -> None:
    of_profile = {*RepairOptions.model_fields, *ImageOptions.model_fields}
    assert of_profile - set(RunOptions.model_fields) == _OF_PROFILES
    assert set().union(*(part.model_fields for part in PARTS.values())) == set(
        RunOptions.model_fields
    )


def test_texts_and_limits_are_those_of_the_declaration() -> None:
    for name in RunOptions.model_fields.keys() & LoopOptions.model_fields.keys():
        text = RunOptions.model_fields[name].description
        assert text, name
        assert text == LoopOptions.model_fields[name].description, name
    for wrong in ({"weight_best": 9}, {"steps": 0}, {"repair": "half"}, {"alpha": float("nan")}):
        for model in (RunOptions, LoopOptions):
            with pytest.raises(ValidationError):
                model.model_validate(wrong)


@pytest.mark.parametrize(
    ("name", "value"),
    [("steps", 4), ("guidance", 2.5), ("negative_prompt", "fog"), ("weight_best", 0.25),
     ("weight_missing", 1.0), ("strategy", "tournament"), ("asking", "together")],
)  # fmt: skip
def test_an_option_of_a_call_replaces_that_of_the_profile(name: str, value: object) -> None:
    given = RunOptions.model_validate({name: value})
    plan = plan_run("red ball on table", "miniature", options=given)
    assert getattr(plan.profile, name) == getattr(plan.options, name) == value
    arguments = {name: value}
    same = plan_run("red ball on table", "miniature", **arguments)  # type: ignore[arg-type]
    assert same.config == plan.config
    assert plan_run("red ball on table", "miniature").config != plan.config


def test_judges_by_name_leave_only_independent_judges_of_the_report() -> None:
    profile, settings = BUILT_IN["miniature"], Settings()
    loop, report = profile.judges, profile.report_judges
    changed = profile_with(profile, RunOptions(judges=report[:1]), settings)
    assert changed.judges == report[:1]
    assert changed.report_judges == report[1:]
    assert changed.cascade is None
    plan = plan_run("red ball", "miniature", judges=list(loop[:1]))
    assert plan.profile.judges == loop[:1]
    assert plan.profile.report_judges == report
    assert profile_with(profile, RunOptions(), settings) is profile


def test_options_that_conflict_name_the_conflict() -> None:
    profile = BUILT_IN["miniature"]
    both = RunOptions(judges=profile.judges[:1], report_judges=profile.judges[:1])
    with pytest.raises(SettingsError, match="these options conflict"):
        profile_with(profile, both, Settings())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"judges": 7}, TypeError, "7 is not a judge. Give names as 'kind:model'"),
        ({"judges": "x"}, SettingsError, "'x' is not a judge: write 'kind:model'"),
        ({"steps": 0}, RunError, "steps: must be at least 1"),
        ({"stepz": 4}, TypeError, "no argument 'stepz'; did you mean 'steps'?"),
        ({"width": 64}, RunError, "give both width and height"),
        ({"protocol": "scene-bensh"}, RunError, "did you mean 'scene-bench'?"),
    ],
)
async def test_a_wrong_argument_is_told(
    arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        await refine("red ball", "miniature", **arguments)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_all_errors_have_one_base() -> None:
    assert issubclass(RunError, ScenewrightError)
    assert issubclass(SettingsError, ScenewrightError)


def test_a_request_of_the_service_replaces_the_options_of_its_profile() -> None:
    wanted = {"weight_best": 0.1, "steps": 3, "repair": "region", "alpha": 0.2, "rounds": 5}
    request = RefinementRequest.model_validate({"triplets": "red ball on table", **wanted})
    stored = RefinementRequest.model_validate(request.model_dump(mode="json"))
    whole = stored.model_copy(update={"scene": load_scene("red ball on table"), "triplets": None})
    arguments = run_arguments(whole, Settings())
    plan = plan_run(**arguments)
    assert {name: getattr(plan.options, name) for name in wanted} == wanted
    assert "weight_missing" not in request.model_dump(mode="json")
