"""``scenewright keys``: made, listed, revoked."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from typer.testing import CliRunner

from scenewright.cli.main import app
from scenewright.service.core import database
from scenewright.service.core.keys import KeyStore
from scenewright.service.core.settings import ServiceSettings

RUNNER = CliRunner()


def opens(folder: Path, text: str) -> bool:
    async def look() -> bool:
        async with database.open_database(ServiceSettings(data=folder)) as engine:
            return await KeyStore(engine).check(text) is not None

    return asyncio.run(look())


def test_a_key_is_made_listed_and_revoked(tmp_path: Path) -> None:
    data = ["--data", str(tmp_path)]
    made = RUNNER.invoke(app, ["keys", "create", "studio", "--label", "Krita", "--usd", "2", *data])
    assert made.exit_code == 0, made.output
    text = made.stdout.strip()
    assert opens(tmp_path, text)
    listed = RUNNER.invoke(app, ["keys", "list", "--json", *data])
    (row,) = json.loads(listed.stdout)["keys"]
    assert (row["tenant"], row["label"], row["usd"], row["state"]) == ("studio", "Krita", 2, "open")
    assert text not in listed.stdout
    table = RUNNER.invoke(app, ["keys", "list", *data])
    assert row["id"] in table.stdout
    for _ in range(2):
        gone = RUNNER.invoke(app, ["keys", "revoke", row["id"], *data])
        assert gone.exit_code == 0
    assert not opens(tmp_path, text)
    assert "revoked" in RUNNER.invoke(app, ["keys", "list", *data]).stdout


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    data = ["--data", str(tmp_path)]
    for arguments, told in (
        (["create", "studio", "--scope", "everything"], "refine, read, score, parse, admin"),
        (["create", "../studio"], "letters, digits"),
        (["revoke", "unknown"], "keys list"),
    ):
        done = RUNNER.invoke(app, ["keys", *arguments, *data])
        assert done.exit_code == 2
        assert told in done.stderr.replace("\n", " ")


def test_only_named_scopes_are_given(tmp_path: Path) -> None:
    arguments = ["keys", "create", "studio", "--scope", "read", "--scope", "admin", "--json"]
    made = RUNNER.invoke(app, [*arguments, "--data", str(tmp_path)])
    assert json.loads(made.stdout)["scopes"] == ["read", "admin"]
