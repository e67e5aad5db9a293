"""A newer table of model facts: what replaces the copy, what is refused, and which one is used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scenewright.cli.main import app
from scenewright.cli.models import check_facts
from scenewright.providers import model_facts as facts_module
from scenewright.providers.model_facts import (
    FILE,
    ModelFacts,
    ModelTableError,
    end_of,
    model_facts,
    read_facts,
    shipped_facts,
    user_file,
    using,
)
from scenewright.providers.usage import PriceTable
from scenewright.runs.folder import installed_versions

OWN = Path(facts_module.__file__).with_name(FILE).read_text("utf-8")
TOMORROW = shipped_facts().as_of + timedelta(days=1)
NEWER = OWN.replace(f"as_of = {shipped_facts().as_of}\n", f"as_of = {TOMORROW}\n", 1) + (
    '"openai:gpt-9".price = { input = 9, output = 90, source = "litellm" }\n'
    f'"openai:gpt-9".end = {{ ends = {TOMORROW}, source = "openai" }}\n'
)


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's folder, and a process that has read no table yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(facts_module, "_in_use", [])
    installed_versions.cache_clear()
    yield tmp_path
    installed_versions.cache_clear()


def anew(monkeypatch: pytest.MonkeyPatch) -> ModelFacts:
    """What another process would read."""
    monkeypatch.setattr(facts_module, "_in_use", [])
    installed_versions.cache_clear()
    return model_facts()


def update(text: str, user: Path, *more: str) -> tuple[int, str]:
    place = user / "new.toml"
    place.write_text(text, encoding="utf-8")
    done = CliRunner().invoke(app, ["models", "update", "--from", str(place), *more])
    return done.exit_code, done.output


def test_the_shipped_table_can_be_used_whole() -> None:
    check_facts(shipped_facts())
    assert model_facts().place == ""
    assert installed_versions()["model facts"] == str(shipped_facts().as_of)


def test_a_newer_table_is_kept_used_and_noted(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert PriceTable.load().price("openai", "gpt-9") is None
    code, told = update(NEWER, user, "--json")
    assert code == 0
    assert json.loads(told)["updated"]
    assert anew(monkeypatch).as_of == TOMORROW
    price = PriceTable.load().price("openai", "gpt-9")
    assert price is not None
    assert price.output == 90
    ended = end_of("openai", "gpt-9-2026-12-24")
    assert ended is not None
    assert ended.ends == TOMORROW
    assert installed_versions()["model facts"] == f"{TOMORROW}, the user's copy"
    report = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).output)
    assert report["model_facts"] == {"as_of": str(TOMORROW), "file": str(user_file())}


def test_an_equally_old_table_replaces_nothing(user: Path) -> None:
    code, told = update(OWN, user)
    assert (code, user_file().exists()) == (0, False)
    assert "is as new as" in told


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (NEWER + "[", "is not valid TOML"),
        (NEWER.replace("format = 1", "format = 2"), "format"),
        (NEWER + '"openai:gpt-9".colour = { a = 1 }\n', "openai:gpt-9"),
        (NEWER + '"openai:gpt-8".price = { input = -1, output = 1, source = "x" }\n', "input"),
        (NEWER + '"openai:gpt-8".chat = { efforts = ["gigantic"] }\n', "efforts"),
        (NEWER + '"openai:gpt-8".image = { reference = 3 }\n', "reference"),
        (NEWER + '"openai:gpt-8".end = { successor = "openai:gpt-9" }\n', "ends"),
        (NEWER.replace('"gemini:*".image.pictures = 3\n', ""), "pictures"),
    ],
)
def test_a_table_that_cannot_be_used_leaves_the_one_in_use(
    user: Path, changed: str, told: str
) -> None:
    code, output = update(changed, user)
    assert code == 3
    assert told in output.replace("\n", " ")
    assert not user_file().exists()


def test_a_damaged_copy_is_left_aside_with_a_warning(
    user: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    user_file().parent.mkdir(parents=True)
    user_file().write_text("no table")
    assert anew(monkeypatch).place == ""
    assert "the package's own table is used" in caplog.text
    user_file().write_text(OWN)
    assert anew(monkeypatch).place == "", "no newer than the package's own"


def test_what_cannot_be_read_is_named(user: Path) -> None:
    done = CliRunner().invoke(app, ["models", "update", "--from", str(user / "none.toml")])
    assert done.exit_code == 2
    assert "cannot be read" in done.output


def test_a_table_is_used_for_the_length_of_a_block() -> None:
    with using(read_facts(NEWER)):
        assert PriceTable.load().price("openai", "gpt-9") is not None
    assert PriceTable.load().price("openai", "gpt-9") is None
    with pytest.raises(ModelTableError, match="mine is no table of model facts"):
        read_facts("format = 1", "mine")
