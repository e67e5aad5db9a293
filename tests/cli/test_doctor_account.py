"""``scenewright doctor ACCOUNT``: what it asks, prints and ends with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from scenewright.cli.main import app
from scenewright.config.accounts import AccountSpec
from scenewright.mock_providers import MockSettings
from scenewright.mock_providers.serving import ThreadedMockProviders, serving_thread

PROFILE = """
[profiles.mine]
extends = "miniature"
judges = ["lab:instant", "decision:lab/instant-2"]
chat = "lab:script:echo"
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[ThreadedMockProviders]:
    models = {"gpt-image-2.6-flare": "instant-image"}
    with serving_thread(MockSettings(latency=0, models=models)) as mock:
        yield mock


@pytest.fixture(autouse=True)
def settings(lab: ThreadedMockProviders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose settings have an account of the mock server."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "scenewright.toml"
    file.write_text(
        f'[accounts.lab]\nprovider = "openai"\nbase_url = "{lab.openai_url}"\nkey_variable = ""\n'
    )
    lab.reset()
    return file


def arrivals(lab: ThreadedMockProviders) -> int:
    return sum(account["arrivals"] for account in lab.report()["accounts"].values())


def doctor(*words: str) -> Result:
    return CliRunner().invoke(app, ["doctor", *words])


def test_the_models_that_a_profile_names_are_asked(
    settings: Path, lab: ThreadedMockProviders
) -> None:
    settings.write_text(settings.read_text() + PROFILE)
    done = doctor("lab", "--json")
    assert done.exit_code == 0, done.output
    assert "asking lab for 3 small answers" in done.stderr
    report = json.loads(done.stdout)
    assert report["ok"] is True
    assert [(one["kind"], one["model"], one["state"]) for one in report["models"]] == [
        ("chat", "instant", "ok"), ("decision", "instant-2", "ok"), ("chat", "script:echo", "ok")
    ]  # fmt: skip
    assert arrivals(lab) == 3


def test_what_is_wrong_is_printed_with_its_remedy() -> None:
    done = doctor("lab", "--model", "instnat")
    assert done.exit_code == 3
    assert "chat instnat: fails" in done.stdout
    assert "HTTP 404: The model `instnat` does not exist" in done.stdout
    assert "what to do: name a model that the account has: did you mean 'instant'?" in done.stdout
    assert done.stderr.splitlines() == ["asking lab for 1 small answer"]


def test_a_picture_is_drawn_only_where_that_is_wanted(lab: ThreadedMockProviders) -> None:
    settings = Path("scenewright.toml")
    profile = '[profiles.mine]\nextends = "miniature"\nbackend = "lab:instant-image"\n'
    settings.write_text(settings.read_text() + profile)
    left_out = doctor("lab")
    assert left_out.exit_code == 0
    assert "image instant-image: not drawn: add --draw" in left_out.stdout
    assert "nothing is asked of lab" in left_out.stderr
    assert arrivals(lab) == 0
    drawn = doctor("lab", "--draw")
    assert drawn.exit_code == 0
    assert drawn.stderr.splitlines() == ["asking lab for a picture by instant-image"]
    assert "image instant-image: draws" in drawn.stdout


def test_an_account_without_models_lists_what_its_server_has() -> None:
    done = doctor("lab")
    assert done.exit_code == 2
    assert "no profile names a model of lab: add --model NAME; it lists judge-a" in done.stderr


def test_a_profile_that_cannot_be_read_is_told(settings: Path) -> None:
    settings.write_text(settings.read_text() + '[profiles.mine]\nextends = "nothing"\n')
    assert "no profile names a model of lab (mine cannot be read:" in doctor("lab").stderr


def test_a_key_that_is_not_there_is_told_before_anything_is_asked(
    lab: ThreadedMockProviders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_BASE_URL", lab.openai_url)
    done = doctor("openai")
    assert done.exit_code == 3
    assert "no API key for openai: set OPENAI_API_KEY" in done.stderr
    assert "as OPENAI_BASE_URL says" in done.stdout
    assert arrivals(lab) == 0


def test_an_account_that_charges_says_so_before(
    lab: ThreadedMockProviders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test-that-is-long-enough")
    monkeypatch.setenv("OPENAI_BASE_URL", lab.openai_url)
    monkeypatch.setattr(AccountSpec, "self_hosted", property(lambda account: False))
    done = doctor("openai", "--model", "gpt-image-2.6-flare", "--model", "nobody", "--draw")
    assert done.stderr.startswith("asking openai for a picture by gpt-image-2.6-flare (about $")
    assert "a picture by nobody (its price is unknown)" in done.stderr
    assert "image gpt-image-2.6-flare: draws" in done.stdout
    assert "image nobody: fails" in done.stdout
    assert "sk-of-a-test" not in done.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nobody"], "no account 'nobody'"),
        (["lab", "--profile", "miniature"], "leave --profile and --online out"),
        (["--model", "instant"], "need an ACCOUNT"),
        (["--draw"], "need an ACCOUNT"),
    ],
)
def test_wrong_input_is_a_sentence(words: list[str], told: str) -> None:
    done = doctor(*words)
    assert done.exit_code == 2
    assert told in done.output


def test_a_model_of_decisions_is_named_by_its_prefix() -> None:
    done = doctor("lab", "--model", "decision:instant", "--model", "instant")
    assert done.exit_code == 0
    assert "decision instant: answers" in done.stdout
    assert "chat instant: answers" in done.stdout
