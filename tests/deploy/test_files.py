"""All files together: they can be read, and name nothing that the package does not know."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from scenewright.config.settings import SETTINGS_FILE, load_profiles, load_settings
from tests.deploy.reading import (
    PAGE,
    compose,
    deployed,
    known_variables,
    parsed,
)


@pytest.mark.parametrize(
    "path", [p for p in deployed() if p.suffix == ".yaml"], ids=lambda p: p.name
)
def test_every_yaml_file_can_be_read_and_holds_something(path: Path) -> None:
    assert all(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def test_every_variable_is_one_that_the_settings_know() -> None:
    for text in [*(p.read_text(encoding="utf-8") for p in deployed()), PAGE]:
        named = set(re.findall(r"\bSCENEWRIGHT_[A-Z_]+[A-Z]", text)) - {"SCENEWRIGHT_SERVICE"}
        assert named <= known_variables()


def test_nothing_names_a_path_of_one_machine_or_a_registry_of_ones_own() -> None:
    for path in deployed():
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"(?<![\w.])/(?:work|root|home/\w+)/", text), path
        for image in re.findall(r"^\s*(?:-\s+)?image:\s+(\S+)$", text, re.MULTILINE):
            name, _, tag = image.removeprefix("${IMAGE:-").removesuffix("}").partition(":")
            # A first part with a dot or a port would be a registry's host.
            assert "." not in name.partition("/")[0]
            assert name == "scenewright" or re.search(r"\d", tag), f"{image}: pin its version"
            assert tag != "latest"


@pytest.mark.parametrize(
    "path", [p for p in deployed() if p.name == SETTINGS_FILE], ids=lambda p: p.parent.name
)
def test_settings_files_load_and_name_judges_that_are_served(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in known_variables():
        monkeypatch.delenv(name, raising=False)
    shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    settings = load_settings()
    profiles = load_profiles(settings)
    assert settings.profile in profiles
    vllm = compose()["services"]["vllm"]
    port = next(word for word in vllm["command"] if word.startswith("--port="))[len("--port=") :]
    for name in settings.accounts:
        assert settings.accounts[name].base_url == f"http://vllm:{port}/v1"
        assert set(settings.accounts[name].models) == {vllm["command"][0]}
        judged = [
            p for p in settings.profiles if f"{name}:{vllm['command'][0]}" in profiles[p].judges
        ]
        assert judged == list(settings.profiles)


@pytest.mark.parametrize(
    "line",
    re.findall(r"^(?:scenewright|docker compose run --rm api) .+$", PAGE, re.MULTILINE),
)
def test_the_commands_of_the_page_are_commands(line: str) -> None:
    words = shlex.split(line.removeprefix("docker compose run --rm api"), comments=True)
    assert parsed(words[1:] if words[0] == "scenewright" else words)
