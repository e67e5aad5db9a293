"""Settings and profiles: where they come from, and what a wrong one says."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenewright.config.profiles import BUILT_IN, BackendSpec, Profile, SettingsError, account_of
from scenewright.config.settings import (
    Settings,
    find_profile,
    load_profiles,
    load_settings,
    read_profiles,
)
from scenewright.core.ports.judge import JudgeError
from scenewright.runs.model_factory.local_models import Registry
from scenewright.runs.model_factory.profiles import build_chat, build_judge, composer_of


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in Settings.model_fields:
        monkeypatch.delenv(f"SCENEWRIGHT_{name.upper()}", raising=False)
    return tmp_path


def toml(text: str) -> None:
    Path("scenewright.toml").write_text(text)


def test_without_any_file_there_are_defaults() -> None:
    settings = load_settings()
    assert settings.profile == "miniature"
    assert settings.runs == Path("runs")


def test_arguments_go_before_the_environment_before_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    toml('profile = "sd15"\nruns = "from-file"\njudge_timeout = 5\n')
    monkeypatch.setenv("SCENEWRIGHT_RUNS", "from-environment")
    monkeypatch.setenv("SCENEWRIGHT_JUDGE_TIMEOUT", "6")
    settings = load_settings(judge_timeout=7)
    assert settings.profile == "sd15"
    assert settings.runs == Path("from-environment")
    assert settings.judge_timeout == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour = 1\n", "known settings: profile"),
        ("judge_timeout = -1\n", "judge_timeout"),
        ("profile = \n", "not valid TOML"),
    ],
)
def test_a_wrong_settings_file_says_what(text: str, message: str) -> None:
    toml(text)
    with pytest.raises(SettingsError, match=message):
        load_settings()


def test_an_unknown_profile_lists_what_there_is() -> None:
    toml('[profiles.mine]\nextends = "miniature"\n')
    with pytest.raises(SettingsError, match="mine, miniature, miniature-edit, openai, qwen-image,"):
        find_profile("sd51")


def test_loop_and_report_judges_of_every_built_in_profile_differ() -> None:
    assert {"miniature", "sd15", "sdxl", "sd3", "flux", "openai", "gemini"} <= set(BUILT_IN)
    for profile in BUILT_IN.values():
        assert not set(profile.judges) & set(profile.report_judges)
        assert profile.report_judges
        assert Profile.model_validate_json(profile.model_dump_json()) == profile


def test_an_own_profile_extends_another_and_keeps_its_adapter() -> None:
    toml(
        '[profiles.mine]\nextends = "sdxl"\nbackend = "diffusers:my/finetune"\nsteps = 12\n'
        '[profiles.other]\nextends = "mine"\nweight_missing = 0.8\n'
        'backend = {dtype = "float16"}\n'
    )
    mine, other = find_profile("mine"), find_profile("other")
    sdxl = BUILT_IN["sdxl"]
    assert (mine.name, mine.steps) == ("mine", 12)
    assert mine.backend.model == "my/finetune"
    assert mine.backend.adapter == sdxl.backend.adapter
    assert mine.judges == sdxl.judges
    assert (other.steps, other.weight_missing, other.weight_best) == (12, 0.8, 0.5)
    assert other.backend == mine.backend.model_copy(update={"dtype": "float16"})


def test_a_profile_may_replace_the_built_in_one_it_extends() -> None:
    toml('[profiles.miniature]\nextends = "miniature"\nsteps = 5\n')
    assert find_profile("miniature").steps == 5


def test_profiles_come_from_a_named_file_too(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[profiles.quick]\nextends = "miniature"\nsteps = 3\n')
    assert load_profiles(load_settings(profiles_file=file))["quick"].steps == 3
    with pytest.raises(SettingsError, match=r"the profiles file .* does not exist"):
        load_profiles(load_settings(profiles_file=tmp_path / "absent.toml"))
    file.write_text("steps = 3\n")
    with pytest.raises(SettingsError, match="tables"):
        load_profiles(load_settings(profiles_file=file))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('extends = "sd99"', "which does not exist: there are chroma"),
        ('backend = "diffusers:x"', 'names no judges: add them, or .* extends = "miniature"'),
        ("rounds = 3", "backend: is required"),
        ("steps = 3", 'names no backend and no judges: .* extends = "miniature"'),
        (
            'extends = "sdxl"\nbackend = "dalle:3"',
            "no kind of backend and no account 'dalle': there are diff",
        ),
        (
            'extends = "sdxl"\nchat = "parrot:1"',
            "no kind of language model and no account 'parrot'",
        ),
        (
            'extends = "sdxl"\nbackend = "My model"',
            "'My model' is not a backend: write 'kind:model'",
        ),
        ('extends = "sdxl"\nbackend = "diffusers:"', "not a backend"),
        ('extends = "sdxl"\njudges = ["gpt"]', "not a judge: write 'kind:model'"),
        ('extends = "sdxl"\njudges = []', "judges"),
        ('extends = "sdxl"\njudges = ["local:a", "local:a"]', "listed twice"),
        ('extends = "sdxl"\njudges = ["local:a"]\nreport_judges = ["local:a"]', "both steer"),
        ('extends = "sdxl"\nquorum = 2', "quorum is 2, but a panel has only 1"),
        ('extends = "sdxl"\nstepz = 2', "stepz"),
        (
            'extends = "sdxl"\ncomposer = "poet"',
            "'sentences', 'grid', 'triplets', 'table6', 'llm' or 'stages'",
        ),
    ],
)
def test_a_wrong_profile_says_what(text: str, message: str) -> None:
    toml(f"[profiles.mine]\n{text}\n")
    with pytest.raises(SettingsError, match=message):
        find_profile("mine")


def test_a_wrong_profile_stops_no_other() -> None:
    toml(
        "[profiles.wrong]\nsteps = 3\n"
        '[profiles.child]\nextends = "wrong"\n'
        '[profiles.sdxl]\njudges = ["local:a"]\n'
        '[profiles.good]\nextends = "miniature"\n'
    )
    assert find_profile("good").judges == BUILT_IN["miniature"].judges
    assert find_profile("miniature") == BUILT_IN["miniature"]
    found, problems = read_profiles()
    assert set(problems) == {"wrong", "child", "sdxl"}
    assert "names no backend" in problems["sdxl"]
    # The built-in one does not stand in for the one that was to replace it.
    assert set(found) == {*BUILT_IN, "good"} - {"sdxl"}
    assert load_profiles() == found
    with pytest.raises(SettingsError, match="'sdxl' names no backend"):
        find_profile("sdxl")


def test_profiles_in_a_circle_are_named() -> None:
    toml('[profiles.a]\nextends = "b"\n[profiles.b]\nextends = "a"\n')
    with pytest.raises(SettingsError, match="a → b → a"):
        find_profile("a")


def test_short_form_of_a_backend() -> None:
    assert BackendSpec.model_validate("diffusers:org/model").model == "org/model"


async def test_composers_by_name() -> None:
    profile = BUILT_IN["miniature"]
    assert composer_of(profile).id == "grid"
    assert composer_of(profile.model_copy(update={"composer": "triplets"})).id == "triplets"


def test_an_unknown_kind_of_judge_is_a_clear_error() -> None:
    with pytest.raises(SettingsError, match="no account 'oracle'"):
        build_judge("oracle:delphi")


async def test_a_record_of_answers_is_a_judge(tmp_path: Path) -> None:
    record = tmp_path / "answers.csv"
    record.write_text(f"image,question,answer,judge\n{'0' * 64},Is there a dog?,yes,ann\n")
    judge = build_judge(f"replay:{record}#ann")
    assert judge.id == f"replay:{record}#ann"
    with pytest.raises(JudgeError, match="no answers by 'bob'"):
        build_judge(f"replay:{record}#bob")
    profile = BUILT_IN["miniature"].model_dump() | {"judges": [f"replay:{record}"]}
    assert Profile.model_validate(profile).judges == (f"replay:{record}",)


def test_a_model_is_made_once_and_a_failed_try_is_not_kept() -> None:
    registry, made = Registry(), []

    def make() -> object:
        made.append(1)
        if len(made) == 1:
            raise OSError("not yet")
        return object()

    with pytest.raises(OSError, match="not yet"):
        registry.get("model", make)
    first = registry.get("model", make)
    assert registry.get("model", make) is first
    assert len(made) == 2


def test_a_decision_judge_is_named_by_its_account_and_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    toml(
        '[accounts.lab]\nprovider = "openai"\nbase_url = "http://127.0.0.1:1/v1"\n'
        'key_variable = ""\n[accounts.lab.decisions."owner/m"]\norders = 2\n'
    )
    monkeypatch.setenv("OPENAI_API_KEY", "k" * 20)
    settings = load_settings()
    plain = build_judge("decision:openai/gpt-6-luna", settings)
    mine = build_judge("decision:lab/owner/m", settings)
    assert (plain.id, mine.id) == ("decision:openai/gpt-6-luna", "decision:lab/owner/m")
    assert plain.caps.probability == "decision"
    assert mine.caps.facts_per_call == plain.caps.facts_per_call // 2
    assert mine.fingerprint != build_judge("decision:openai/owner/m", settings).fingerprint
    assert [account_of(one) for one in (plain.id, mine.id, "openai:m", "local:m")] == [
        "openai", "lab", "openai", None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("decision:gpt-6-luna", "write 'decision:ACCOUNT/MODEL'"),
        ("decision:/m", "write 'decision:ACCOUNT/MODEL'"),
        ("decision:nobody/m", "no account 'nobody'"),
    ],
)
def test_a_decision_judge_without_an_account_says_how(spec: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        build_judge(spec)


def test_a_decision_judge_of_a_provider_without_any_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k" * 20)
    with pytest.raises(JudgeError, match="no decision models at 'anthropic'"):
        build_judge("decision:anthropic/claude")


def test_a_profile_of_decision_judges_is_checked_and_one_that_chats_is_not_had() -> None:
    given = {
        "name": "d", "backend": "diffusers:miniature", "judges": ["decision:openai/gpt-6-luna"],
    }  # fmt: skip
    assert Profile.model_validate(given).judges == ("decision:openai/gpt-6-luna",)
    for more, message in (
        ({"chat": "decision:openai/gpt-6-luna"}, "writes no text"),
        ({"report_judges": ["openai:gpt-6-luna"]}, "the same model"),
    ):
        with pytest.raises(ValueError, match=message):
            Profile.model_validate(given | more)
    with pytest.raises(SettingsError, match="writes no text"):
        build_chat("decision:openai/gpt-6-luna")


def test_an_account_cannot_be_named_decision() -> None:
    toml('[accounts.decision]\nprovider = "openai"\n')
    with pytest.raises(SettingsError, match="cannot name an account"):
        load_settings()


def test_what_a_profile_says_of_itself_is_not_inherited() -> None:
    told = load_settings(profiles={"mine": {"extends": "miniature"}})
    assert BUILT_IN["miniature"].about
    assert find_profile("mine", told).about == ""
    own = load_settings(profiles={"mine": {"extends": "miniature", "about": "Mine."}})
    assert find_profile("mine", own).about == "Mine."


def test_like_in_a_profile_is_told_the_right_word() -> None:
    with pytest.raises(SettingsError, match=r"write extends = 'sdxl' to start from a profile"):
        find_profile("mine", load_settings(profiles={"mine": {"like": "sdxl"}}))


def test_no_profile_of_a_real_model_redraws_the_whole_picture_by_default() -> None:
    """The results' table has a whole-picture redraw lose the most facts a round."""
    named = {name: one.strategy for name, one in load_profiles(Settings()).items()}
    assert {name for name, strategy in named.items() if strategy == "feedback"} == {"miniature"}
