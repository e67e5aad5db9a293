"""The way to a first picture: ``init``, keys of providers, ``refine -m`` and ``open``."""

from __future__ import annotations

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
    assert "--profile miniature" in done.stderr
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


@pytest.mark.parametrize("given", ["", "\n", "two words\n", "\x07\n"])
def test_what_is_no_key_is_not_stored(given: str) -> None:
    assert run("keys", "set", "openai", given=given).exit_code == 2
    assert not keys_file().exists()


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
