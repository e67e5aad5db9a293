"""What a run's folder knows of its run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scenewright.graphs.errors import ModelsChangedError
from scenewright.runs.folder import MANIFEST, RunError, RunFolder


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


def test_other_models_are_told_in_words_without_hashes(tmp_path: Path) -> None:
    def models(backend: str, *judges: str, mark: str = "0" * 64) -> dict[str, Any]:
        return {
            "backend": {"id": backend, "fingerprint": mark},
            "judges": [{"id": judge, "fingerprint": mark} for judge in judges],
        }

    tmp_path.joinpath("run").mkdir()
    folder = RunFolder(tmp_path / "run")
    folder.write_manifest({"scene": "red ball"}, models("openai:gpt-image-2", "local:a"))
    manifest = folder.manifest()
    assert manifest is not None
    folder.check_models(manifest, models("openai:gpt-image-2", "local:a"))
    for now, said in (
        (models("sdxl", "local:a"), "the image model was openai:gpt-image-2 and is sdxl now"),
        (models("openai:gpt-image-2", "local:b"), "the judge was local:a and is local:b now"),
        (models("openai:gpt-image-2"), "the judge local:a was there and is not now"),
        (
            models("openai:gpt-image-2", "local:a", mark="1" * 64),
            "2 models have other weights, settings or libraries: the image model "
            "openai:gpt-image-2, the judge local:a.",
        ),
    ):
        with pytest.raises(RunError) as refused:
            folder.check_models(manifest, now)
        told = str(refused.value)
        assert said in told
        assert "--fresh" in told
        assert "0000" not in told.replace(str(tmp_path), "")
    manifest["versions"]["python"] = "3.11.0"
    with pytest.raises(RunError, match=r"python was 3\.11\.0 and is"):
        folder.check_models(manifest, models("sdxl", "local:a"))


def test_another_address_is_named_once_with_its_models_together(tmp_path: Path) -> None:
    def models(mark: str, local: str = "0", count: int = 1) -> dict[str, Any]:
        names = [f"local:{name}" for name in "abc"[:count]]
        return {
            "backend": {"id": "openai:gpt-image-2", "fingerprint": mark},
            "composer": {"id": "llm", "fingerprint": f"llm@1 openai:gpt-6#{mark}"},
            "judges": [
                {"id": "openai:gpt-6", "fingerprint": mark},
                {"id": "decision:openai/gpt-6", "fingerprint": mark},
                *({"id": name, "fingerprint": local} for name in names),
            ],
        }

    tmp_path.joinpath("run").mkdir()
    folder = RunFolder(tmp_path / "run")
    folder.write_manifest({}, models("0"), addresses={"openai": "127.0.0.1:9/v1"})
    manifest = folder.manifest()
    assert manifest is not None

    def refused(now: dict[str, Any], addresses: dict[str, str]) -> ModelsChangedError:
        with pytest.raises(ModelsChangedError) as found:
            folder.check_models(manifest, now, addresses)
        return found.value

    # An account whose address no model feels is no matter.
    folder.check_models(manifest, models("0"), {"openai": ""})
    moved = refused(models("1"), {"openai": ""})
    told = str(moved)
    said = "other models: the account openai: its address was 127.0.0.1:9/v1 and is the provider's"
    assert said in told
    assert "weights" not in told
    assert moved.differences == "the account openai has another address"
    same = refused(models("1"), {"openai": "127.0.0.1:9/v1"})
    assert same.differences == (
        "4 models have other weights, settings or libraries: the image model openai:gpt-image-2, "
        "the composer llm, the judge openai:gpt-6, the judge decision:openai/gpt-6"
    )
    both = refused(models("1", local="2"), {"openai": ""}).differences
    assert both.startswith("the account openai has another address; the judge local:a has other")
