"""The manifest of an evaluation: what was asked, of which models, with which versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scenewright.evals.errors import EvalError
from scenewright.evals.store.results import MANIFEST

FORMAT = 1


def make_folder(folder: Path) -> None:
    """Make the folder of an evaluation. Raises ``EvalError`` if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EvalError(f"{folder} cannot be made: {error.strerror or error}") from error


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
