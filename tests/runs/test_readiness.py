"""What keeps a profile from running here, told before anything is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenewright.config.profiles import Profile
from scenewright.config.settings import Settings, find_profile, load_profiles
from scenewright.runs.readiness import Machine, obstacle, this_machine

GIB = 2**30
LARGE = Machine(main=128 * GIB)


@pytest.fixture(autouse=True)
def keyless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No keys, and no models of a hub."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("scenewright.providers.hub.cache.cache_folder", lambda: tmp_path / "hub")
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("profile", "machine", "told"),
    [
        ("miniature", Machine(2 * GIB), ""),
        ("miniature-edit", Machine(2 * GIB), ""),
        ("miniature", Machine(2 * GIB, local=False), "pip install 'scenewright[local]'"),
        (
            "openai",
            LARGE,
            "needs a key for openai: set it with `scenewright keys set openai`",
        ),
        ("openai", Machine(2 * GIB, local=False), "a key for openai"),
        ("gemini", LARGE, "a key for gemini"),
        ("sdxl", LARGE, "`scenewright models pull sdxl`"),
        ("sdxl", LARGE, "needs the models stabilityai/stable-diffusion-xl-base-1.0 and "),
        ("qwen-image", Machine(25 * GIB), "of memory to draw, and this machine has 26.8 GB"),
        ("qwen-image", Machine(96 * GIB, cuda=24 * GIB), "`scenewright models pull qwen-image`"),
        ("qwen-image", Machine(0), "`scenewright models pull qwen-image`"),
    ],
)
def test_an_obstacle_says_why_and_what_to_do(profile: str, machine: Machine, told: str) -> None:
    found = obstacle(find_profile(profile), Settings(), machine)
    assert told in found if told else found == ""
    assert "\n" not in found


def test_a_key_takes_the_obstacle_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    settings = Settings()
    told = {name: obstacle(one, settings, LARGE) for name, one in load_profiles(settings).items()}
    assert told["gemini"]
    assert "openai" not in told["openai"].partition(":")[0]


def test_settings_that_cannot_be_read_are_told_without_their_place(tmp_path: Path) -> None:
    keys = tmp_path / "scenewright" / "keys.json"
    keys.parent.mkdir()
    keys.write_text("{")
    profile: Profile = find_profile("openai")
    found = obstacle(profile, Settings(), LARGE)
    assert found == "needs settings that can be read: `scenewright doctor`"


def test_this_machine_has_memory_and_the_libraries_of_the_tests() -> None:
    found = this_machine()
    assert found.main > GIB
    assert found.local
