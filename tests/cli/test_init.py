"""The way to a first picture: ``init``, keys of providers, ``refine -m`` and ``open``."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from scenewright.cli import runs
from scenewright.cli.main import app
from scenewright.config.accounts import AccountSpec, keys_file, store_key
from scenewright.config.profiles import BUILT_IN, SettingsError
from scenewright.config.settings import find_profile, load_settings, profile_drawing


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder and a user of the test's own, without keys."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def run(*words: str, given: str | None = None) -> Result:
    return CliRunner().invoke(app, list(words), input=given)


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_every_profile_makes_a_file_that_can_be_used(name: str) -> None:
    done = run("init", "--profile", name)
    assert done.exit_code == 0, done.output
    settings = load_settings()
    mine = find_profile(settings.profile, settings)
    assert mine.backend == BUILT_IN[name].backend
    assert mine.judges == BUILT_IN[name].judges
    # What is shown as a comment is the profile's own.
    text = Path("scenewright.toml").read_text("utf-8")
    Path("scenewright.toml").write_text(
        "\n".join(
            line.removeprefix("# ")
            if line.startswith(("# judges", "# report", "# strat"))
            else line
            for line in text.splitlines()
        )
    )
    assert find_profile(load_settings().profile).strategy == BUILT_IN[name].strategy


def test_a_file_that_is_there_stays() -> None:
    Path("scenewright.toml").write_text('profile = "sdxl"\n')
    done = run("init", "-p", "openai")
    assert done.exit_code == 2
    assert "--force" in done.stderr
    assert load_settings().profile == "sdxl"
    assert run("init", "-p", "openai", "--force").exit_code == 0
    assert load_settings().profile == "my-openai"


def test_without_a_terminal_the_profile_is_named() -> None:
    done = run("init")
    assert done.exit_code == 2
    first, api, here = done.stderr.splitlines()
    assert "--profile openai" in first
    assert api.endswith(": openai, gemini")
    assert {"sdxl", "flux2-klein", "miniature"} <= set(here.rpartition(": ")[2].split(", "))
    assert not Path("scenewright.toml").exists()


def test_the_steps_name_what_is_missing() -> None:
    assert "scenewright keys set openai" in run("init", "-p", "openai").stdout
    told = run("init", "-p", "flux2-klein", "--force").stdout
    assert "scenewright models pull flux2-klein" in told
    assert "GB" in told


def test_a_key_is_stored_for_its_owner_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert AccountSpec(provider="openai").key() is None
    assert run("keys", "set", "openai", given="sk-mine\n").exit_code == 0
    assert AccountSpec(provider="openai").key() == "sk-mine"
    assert stat.S_IMODE(keys_file().stat().st_mode) == 0o600
    assert stat.S_IMODE(keys_file().parent.stat().st_mode) == 0o700
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    assert AccountSpec(provider="openai").key() == "sk-other"
    monkeypatch.delenv("OPENAI_API_KEY")
    assert run("keys", "forget", "openai").exit_code == 0
    assert AccountSpec(provider="openai").key() is None
    assert run("keys", "forget", "openai").exit_code == 2


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("", "the key is empty"),
        ("\n", "the key is empty"),
        ("two words\n", "spaces"),
        ("\x07\n", "control characters"),
    ],
)
def test_what_is_no_key_is_not_stored(given: str, told: str) -> None:
    done = run("keys", "set", "openai", given=given)
    assert done.exit_code == 2
    assert told in done.stderr
    assert not keys_file().exists()


def test_both_kinds_of_keys_are_listed_and_a_read_makes_no_folder() -> None:
    none = run("keys", "list")
    assert none.exit_code == 0
    assert "scenewright keys set ACCOUNT" in none.stderr.replace("\n", " ")
    assert run("keys", "set", "openai", given="sk-0123456789abcdefgh\n").exit_code == 0
    assert run("keys", "set", "gemini", given="short\n").exit_code == 0
    shown = run("keys", "list")
    assert "…efgh" in shown.stdout
    assert "openai" in shown.stdout
    assert not any(secret in shown.stdout for secret in ("0123", "abcd", "short"))
    rows = json.loads(run("keys", "list", "--json").stdout)["providers"]
    assert [(row["account"], row["key"]) for row in rows] == [("openai", "…efgh"), ("gemini", "…")]
    assert run("keys", "revoke", "0123").exit_code == 2
    assert sorted(path.name for path in Path().iterdir()) == ["config"]


def test_only_accounts_that_take_a_key_are_offered() -> None:
    for name in ("local", "replay", "nobody"):
        done = run("keys", "set", name, given="sk-mine\n")
        assert done.exit_code == 2
        told = " ".join(done.stderr.split())
        assert f"no account '{name}'" in told
        assert "openai, gemini, anthropic" in told
        assert "replay," not in told
        assert "ollama" not in told
    assert "did you mean 'openai'" in run("keys", "set", "opnai", given="sk\n").stderr


def test_a_damaged_file_of_keys_is_told_and_kept() -> None:
    store_key("OPENAI_API_KEY", "sk-mine")
    keys_file().write_text("{")
    done = run("keys", "set", "gemini", given="other\n")
    assert done.exit_code == 2
    assert str(keys_file()) in done.stderr.replace("\n", "")
    assert keys_file().read_text() == "{"


def test_a_model_stands_for_a_profile() -> None:
    assert profile_drawing("sdxl") == BUILT_IN["sdxl"]
    assert profile_drawing("diffusers:black-forest-labs/FLUX.2-klein-4B").name == "flux2-klein"
    found = profile_drawing("openai:gpt-image-1-mini")
    assert found.backend.model == "gpt-image-1-mini"
    assert found.judges == BUILT_IN["openai"].judges
    own = profile_drawing("diffusers:/models/mine")
    assert (own.backend.model, own.backend.adapter) == ("/models/mine", None)
    with pytest.raises(SettingsError, match="no kind of backend and no account 'nobody'"):
        profile_drawing("nobody:model")
    done = run("refine", "red ball", "-m", "sdxl", "-p", "sdxl")
    assert done.exit_code == 2
    assert "both name what draws" in done.stderr


def test_open_finds_the_newest_run(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(runs.webbrowser, "open", opened.append)
    done = run("open")
    assert done.exit_code == 2
    assert "scenewright refine" in done.stderr
    assert opened == []
