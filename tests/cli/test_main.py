"""Old names of commands: each is answered with its new one, which is there."""

from __future__ import annotations

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from scenewright.cli.main import REMOVED, RENAMED, app


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_an_old_name_says_the_new_one(old: str, new: str) -> None:
    done = CliRunner().invoke(app, [*old.split(), "more", "--help"])
    assert done.exit_code == 2
    assert done.output == f"error: `scenewright {old}` is now `scenewright {new}`\n"
    found = get_command(app)
    for word in new.split():
        if word.startswith("--"):
            assert any(word in (*param.opts, *param.secondary_opts) for param in found.params)
        else:
            found = found.commands[word]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("old", "instead"), REMOVED.items())
def test_a_removed_command_says_what_replaces_it(old: str, instead: str) -> None:
    done = CliRunner().invoke(app, [*old.split(), "more", "--help"])
    assert done.exit_code == 2
    assert done.output == f"error: `scenewright {old}` was removed: {instead}\n"


def test_an_option_between_may_come_first() -> None:
    done = CliRunner().invoke(app, ["--debug", "edit", "runs/1", "--note", "x", "--holds=dog"])
    assert done.exit_code == 2
    assert "is now `scenewright edit --present`" in done.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["feedback", "--part", "power"], "--part is an option of a panel study"),
        (["mine.toml", "--seeds", "1"], "--seeds is an option of a paper's studies"),
        (["mine.toml", "feedback"], "mine.toml is a panel study: run it by itself"),
    ],
)
def test_options_of_the_other_kind_of_study_are_refused(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["study", "run", *arguments])
    assert done.exit_code == 2
    assert said in done.output
