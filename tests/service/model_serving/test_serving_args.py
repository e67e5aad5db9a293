"""What is served, as data, and the deployments that follow from it."""

from __future__ import annotations

import pytest

from scenewright.config.profiles import SettingsError
from scenewright.config.settings import load_settings
from scenewright.service.model_serving.app import deployment_names, deployment_options
from scenewright.service.model_serving.args import serving_args, specs_of


def test_models_take_what_they_do_not_say_from_all() -> None:
    args = serving_args(
        {
            "replicas": 2,
            "gpus": 0.5,
            "models": ["local:a/b", {"model": "diffusers:c/d", "replicas": 1, "gpus": 1}],
        }
    )
    judge, backend = specs_of(args)
    assert (judge.replicas, judge.gpus, judge.is_judge) == (2, 0.5, True)
    assert (backend.replicas, backend.gpus, backend.is_judge) == (1, 1.0, False)
    assert backend.what_draws.model == "c/d"


def test_serve_run_gives_text() -> None:
    args = serving_args({"models": "local:a/b, diffusers:c/d", "replicas": "3"})
    assert [(s.model, s.replicas) for s in specs_of(args)] == [
        ("local:a/b", 3),
        ("diffusers:c/d", 3),
    ]


def test_a_profile_serves_what_runs_on_a_machine() -> None:
    profile = {
        "backend": {"kind": "diffusers", "model": "miniature", "dtype": "float32"},
        "judges": ["local:miniature/judge-a", "openai:gpt-4o-mini"],
        "report_judges": ["local:miniature/judge-b"],
    }
    settings = load_settings(profiles={"mine": profile})
    found = specs_of(serving_args({"profile": "mine", "models": ["diffusers:miniature"]}), settings)
    assert [spec.model for spec in found] == [
        "diffusers:miniature",
        "local:miniature/judge-a",
        "local:miniature/judge-b",
    ]
    assert found[0].what_draws.dtype == "float32"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({}, "nothing to serve"),
        ({"models": ["openai:gpt-4o"]}, "cannot be served"),
        ({"models": ["judge-a"]}, "write 'kind:model'"),
        ({"models": ["local:a/b"], "replicas": 0}, "serve at least 1"),
        ({"models": ["local:a/b"], "replicas": 3, "max_replicas": 2}, "below replicas"),
        ({"models": ["local:a/b"], "replica": 3}, "replica"),
        ({"profile": "no-such-profile"}, "no-such-profile"),
    ],
)
def test_what_is_wrong_is_said(raw: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        specs_of(serving_args(raw), load_settings())


def test_each_model_has_a_deployment_with_a_name_of_its_own() -> None:
    specs = specs_of(serving_args({"models": ["local:a/b", "local:a:b", "local:/x y/z"]}))
    names = deployment_names(specs)
    assert names == {
        "local:a/b": "local-a-b",
        "local:a:b": "local-a-b-2",
        "local:/x y/z": "local-x-y-z",
    }


def test_a_pipeline_has_one_request_at_work_and_one_at_hand() -> None:
    (spec,) = specs_of(serving_args({"models": ["diffusers:a/b"], "max_replicas": 4, "gpus": 1}))
    options = deployment_options(spec)
    assert options["max_ongoing_requests"] == 2
    assert options["ray_actor_options"] == {"num_cpus": 1.0, "num_gpus": 1.0}
    assert options["autoscaling_config"] == {
        "min_replicas": 1,
        "max_replicas": 4,
        "target_ongoing_requests": 1.0,
    }
    assert "num_replicas" not in options


def test_the_next_batch_of_a_judge_fills_while_one_is_answered() -> None:
    (spec,) = specs_of(serving_args({"models": ["local:a/b"], "batch": 6, "replicas": 2}))
    options = deployment_options(spec)
    assert (options["max_ongoing_requests"], options["num_replicas"]) == (12, 2)
