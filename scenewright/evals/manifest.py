"""The manifest of an evaluation: what was asked, of which models, with which versions."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scenewright.evals.config import EvalConfig
from scenewright.evals.datasets.base import Dataset
from scenewright.evals.errors import EvalError
from scenewright.evals.results import MANIFEST
from scenewright.runfolder import installed_versions, prompt_hashes, write_json

FORMAT = 1


def make_folder(folder: Path) -> None:
    """Make the folder of an evaluation. Raises ``EvalError`` if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EvalError(f"{folder} cannot be made: {error.strerror or error}") from error


def write_manifest(
    folder: Path, config: EvalConfig, dataset: Dataset, models: dict[str, Any], plan: str
) -> None:
    """Write the manifest of an evaluation that begins or goes on; when it began is kept.

    Raises ``EvalError`` if the folder cannot be written, or holds something else.
    """
    file = folder / MANIFEST
    created = _now()
    if file.exists():
        created = read_manifest(folder).get("created", created)
    content = {
        "format": FORMAT,
        "name": config.name,
        "config": config.model_dump(mode="json"),
        "plan": plan,
        "dataset": {
            "name": dataset.name,
            "source": dataset.source,
            "licence": dataset.licence,
            "fingerprint": dataset.fingerprint,
        },
        "models": models,
        "prompts": prompt_hashes(),
        "versions": dict(installed_versions()),
        "created": created,
        "finished": None,
    }
    _write(file, content)


def finish_manifest(folder: Path, dataset: Dataset, totals: dict[str, float]) -> None:
    """Note in the manifest that all is done, what it took, and what the set left out."""
    content = read_manifest(folder)
    content |= {"finished": _now(), "totals": totals, "left_out": dict(dataset.left_out)}
    _write(folder / MANIFEST, content)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest in ``folder``. Raises ``EvalError`` if it is not one of an evaluation."""
    file = folder / MANIFEST
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise EvalError(f"{folder} holds no evaluation: {error.strerror or error}") from error
    except ValueError as error:
        raise EvalError(f"{file} is damaged: {error}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT or "plan" not in found:
        raise EvalError(f"{file} is no manifest of an evaluation: choose another folder")
    return found


def _write(file: Path, content: dict[str, Any]) -> None:
    try:
        write_json(file, content)
    except OSError as error:
        raise EvalError(f"{file} cannot be written: {error.strerror or error}") from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
