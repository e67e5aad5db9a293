"""Which names, accounts and copies are one model."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenewright.config.accounts import AccountSpec
from scenewright.config.model_identity import (
    digest_weights,
    identity_of_served,
    identity_of_spec,
    independence_problem,
    model_name,
)
from scenewright.config.profiles import BUILT_IN, Profile, SettingsError
from scenewright.config.settings import find_profile, load_settings


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


ONE_MODEL = [
    ("openai:gpt-4o", "work:gpt-4o"),
    ("openai:gpt-4o", "openai:gpt-4o-2024-08-06"),
    ("openai:gpt-4o", "openai:chatgpt-4o-latest"),
    ("openai:gpt-4o", "router:openai/gpt-4o"),
    ("openai:gpt-4o", "openai:ft:gpt-4o-2024-08-06:acme:judge:abc123"),
    ("openai:gpt-4.1-mini", "openai:gpt-4.1-mini-2025-04-14"),
    ("openai:o4-mini", "router:openai/o4-mini-high"),
    ("gemini:gemini-2.5-flash", "gemini:models/gemini-2.5-flash"),
    ("gemini:gemini-2.5-flash", "gemini:gemini-2.5-flash-001"),
    ("gemini:gemini-2.5-flash", "gemini:gemini-2.5-flash-preview-05-20"),
    ("gemini:gemini-2.5-flash", "router:google/gemini-2.5-flash:free"),
    ("gemini:gemini-2.5-pro", "vertex:publishers/google/models/gemini-2.5-pro"),
    ("anthropic:claude-3-5-sonnet-20241022", "anthropic:claude-3-5-sonnet-latest"),
    ("anthropic:claude-3-5-sonnet-latest", "router:anthropic/claude-3.5-sonnet"),
    ("anthropic:claude-3-5-sonnet-latest", "aws:us.anthropic.claude-3-5-sonnet-20241022-v2:0"),
    ("anthropic:claude-sonnet-4-0", "vertex:claude-sonnet-4@20250514"),
    ("anthropic:claude-sonnet-4-5", "router:anthropic/claude-sonnet-4.5"),
    ("local:Qwen/Qwen2.5-VL-7B-Instruct", "vllm:Qwen/Qwen2.5-VL-7B-Instruct"),
    ("local:Qwen/Qwen2.5-VL-7B-Instruct", "local:Qwen/Qwen2.5-VL-7B-Instruct-AWQ"),
    (
        "local:Qwen/Qwen2.5-VL-7B-Instruct",
        "local:unsloth/Qwen2.5-VL-7B-Instruct-unsloth-bnb-4bit",
    ),
    ("vllm:RedHatAI/Qwen2.5-VL-7B-Instruct-quantized.w4a16", "ollama:qwen2.5vl:7b"),
    ("local:google/gemma-3-4b-it", "local:mlx-community/gemma-3-4b-it-4bit"),
    ("local:llava-hf/llava-1.5-7b-hf", "local:/models/llava-1.5-7b-hf"),
    ("local:miniature/judge-a", "cluster:local:miniature/judge-a"),
    ("local:/models/judge", "local:/models/../models/judge"),
    ("a:default", "b:default"),
]
TWO_MODELS = [
    ("openai:gpt-4o", "openai:gpt-4o-mini"),
    ("openai:gpt-4.1", "openai:gpt-4o"),
    ("openai:gpt-5", "openai:gpt-5.4"),
    ("openai:gpt-5.4", "openai:gpt-5.4-mini"),
    ("openai:o3", "openai:o3-mini"),
    ("gemini:gemini-2.5-flash", "gemini:gemini-2.5-flash-lite"),
    ("gemini:gemini-2.5-flash", "gemini:gemini-3.5-flash-lite"),
    ("gemini:gemini-2.5-flash", "gemini:gemini-2.5-pro"),
    ("anthropic:claude-sonnet-4-5", "anthropic:claude-sonnet-4-6"),
    ("anthropic:claude-sonnet-4-5", "anthropic:claude-opus-4-5"),
    ("local:Qwen/Qwen2.5-VL-3B-Instruct", "local:Qwen/Qwen2.5-VL-7B-Instruct"),
    ("local:Qwen/Qwen3-VL-8B-Instruct", "local:Qwen/Qwen3-VL-8B-Thinking"),
    ("local:google/gemma-3-4b-it", "local:google/gemma-3-12b-it"),
    ("local:alice/judge", "local:bob/judge"),
    ("local:miniature/judge-a", "local:miniature/judge-b"),
    ("olip:miniature/olip-a", "olip:miniature/olip-b"),
    ("replay:answers.csv#a", "replay:answers.csv#b"),
]


@pytest.mark.parametrize(("one", "other"), ONE_MODEL)
def test_one_model_whatever_its_account_snapshot_or_copy(one: str, other: str) -> None:
    first, second = identity_of_spec(one), identity_of_spec(other)
    assert first is not None
    assert second is not None
    assert first.same_as(second)
    assert "both steer the loop and report" in independence_problem([first], [second])
    assert "count double" in independence_problem([first, second])


@pytest.mark.parametrize(("one", "other"), TWO_MODELS)
def test_sizes_and_variants_of_a_series_are_different_models(one: str, other: str) -> None:
    first, second = identity_of_spec(one), identity_of_spec(other)
    assert first is not None
    assert second is not None
    assert not first.same_as(second)
    assert not independence_problem([first], [second])


def test_a_name_is_taken_to_its_end_only_once() -> None:
    assert model_name("latest") == "latest"
    assert model_name("gpt-4o") == model_name(model_name("gpt-4o-2024-08-06"))
    assert model_name("") == ""


def test_a_script_is_no_model() -> None:
    assert identity_of_spec("scripted:director") is None
    assert identity_of_served("") is None


def test_an_account_says_what_a_name_of_its_own_means() -> None:
    azure = AccountSpec(
        provider="openai", base_url="http://a", aliases={"east": "gpt-4o", "default": "qwen-a"}
    )
    accounts = {"azure": azure, "own": azure.model_copy(update={"aliases": {}})}
    east, known = identity_of_spec("azure:east", accounts), identity_of_spec("openai:gpt-4o")
    assert east is not None
    assert known is not None
    assert east.same_as(known) == "gpt-4o"
    other, same = (identity_of_spec(f"{name}:default", accounts) for name in ("azure", "own"))
    assert other is not None
    assert same is not None
    assert not other.same_as(same)


def test_weights_are_the_same_in_another_folder_under_other_names(tmp_path: Path) -> None:
    for name, file, weights in (
        ("a", "model.safetensors", b"one"),
        ("b", "renamed.safetensors", b"one"),
        ("c", "model.safetensors", b"two"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_bytes(weights)
        (tmp_path / name / "config.json").write_text(f'{{"name": "{name}"}}')
    a, b, c = (digest_weights(tmp_path / name) for name in "abc")
    assert a == b != c
    (tmp_path / "empty").mkdir()
    assert digest_weights(tmp_path / "empty") == ""


def of_openai(**changes: object) -> Profile:
    return Profile.model_validate({**BUILT_IN["openai"].model_dump(), "name": "mine", **changes})


@pytest.mark.parametrize("reporter", ["openai:gpt-4o", "work:gpt-4o", "work:openai/gpt-4o-latest"])
def test_a_director_and_a_report_judge_of_one_model_do_not_pass(reporter: str) -> None:
    changes = {"chat": "openai:gpt-4o", "judges": ["openai:gpt-4.1"], "report_judges": [reporter]}
    with pytest.raises(ValueError, match=r"director's chat openai:gpt-4o .* name another model"):
        of_openai(strategy="director", **changes)
    # A chat that only composes and parses judges nothing.
    assert of_openai(strategy="router", **changes).report_judges == (reporter,)


def test_one_model_through_two_accounts_counts_as_one() -> None:
    with pytest.raises(ValueError, match="openai:gpt-4o and work:gpt-4o are the same model"):
        of_openai(judges=["openai:gpt-4o"], report_judges=["work:gpt-4o"])
    with pytest.raises(ValueError, match="second vote would count double"):
        of_openai(judges=["openai:gpt-4o", "work:gpt-4o-2024-11-20"])
    with pytest.raises(ValueError, match="both steer"):
        of_openai(judges=["openai:gpt-4o"], realism_report_judges=["work:gpt-4o"])


def test_settings_tell_two_models_behind_one_name(tmp_path: Path) -> None:
    table = '[accounts.{0}]\nprovider = "openai"\nbase_url = "http://{0}"\nkey_variable = ""\n{1}\n'
    profile = (
        '[profiles.mine]\nextends = "openai"\njudges = ["a:default"]\n'
        'report_judges = ["b:default"]\n'
    )
    told = 'aliases = { default = "qwen2.5-vl-7b-instruct" }'
    Path("scenewright.toml").write_text(table.format("a", "") + table.format("b", "") + profile)
    with pytest.raises(SettingsError, match=r"a:default and b:default are the same model"):
        find_profile("mine")
    Path("scenewright.toml").write_text(table.format("a", "") + table.format("b", told) + profile)
    assert find_profile("mine", load_settings()).report_judges == ("b:default",)


def test_a_self_report_is_said_and_takes_the_place_of_inherited_judges() -> None:
    own = of_openai(judges=["openai:gpt-4o"], report_judges=["work:gpt-4o"], self_report=True)
    assert own.self_report
    Path("scenewright.toml").write_text('[profiles.mine]\nextends = "sdxl"\nself_report = true\n')
    assert find_profile("mine").report_judges == ()
    # Profiles that do not say so are stored as ever: their runs stay the same runs.
    assert "self_report" not in BUILT_IN["openai"].model_dump(mode="json")


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_built_in_profiles_report_by_other_models_also_with_a_director(name: str) -> None:
    profile = BUILT_IN[name]
    if profile.chat is not None:
        profile = profile.model_copy(update={"strategy": "director"})
    loop, report, director = profile.identities()
    assert not independence_problem(loop, report, director)
