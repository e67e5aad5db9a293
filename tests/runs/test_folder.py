"""What a run's folder knows of its run."""

from __future__ import annotations

import json
from pathlib import Path

from scenewright.runs.folder import MANIFEST, RunFolder


def begun(path: Path) -> RunFolder:
    path.mkdir()
    folder = RunFolder(path)
    folder.write_manifest({"scene": "red ball"}, {})
    return folder


def test_every_run_has_a_nonce_of_its_own_and_keeps_it(tmp_path: Path) -> None:
    """Folders of two machines may have one name, and their runs ask for the same."""
    (tmp_path / "there").mkdir()
    one, other = begun(tmp_path / "run"), begun(tmp_path / "there" / "run")
    assert one.id == other.id
    assert one.nonce() != other.nonce()
    assert RunFolder(one.path).nonce() == one.nonce()
    assert len(one.nonce()) == 32


def test_a_run_of_before_is_named_by_its_id(tmp_path: Path) -> None:
    folder = begun(tmp_path / "20261101-0123456789")
    manifest = json.loads((folder / MANIFEST).read_text())
    del manifest["nonce"]
    (folder / MANIFEST).write_text(json.dumps(manifest))
    assert folder.nonce() == "20261101-0123456789"


def test_a_folder_without_a_run_has_none(tmp_path: Path) -> None:
    assert RunFolder(tmp_path).nonce() == ""
