"""Manifest of an evaluation: configuration, models, versions, and totals when all is done."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from scenewright.evals.datasets.base import Dataset
from scenewright.evals.errors import EvalError
from scenewright.evals.store.results import KINDS, MANIFEST, read_json
from scenewright.runs.folder import installed_versions, prompt_hashes, write_json

FORMAT = 1


def make_folder(folder: Path) -> None:
    """Make the folder of an evaluation. Raises ``EvalError`` if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EvalError(f"{folder} cannot be made: {error.strerror or error}") from error


def read_manifest(folder: Path, benchmark: str = "") -> dict[str, Any]:
    """Return the manifest in ``folder``. Raises ``EvalError`` if it is not one of this version."""
    found = read_json(folder, benchmark)
    if found.get("format") != FORMAT or "plan" not in found:
        kind = KINDS[benchmark][0]
        raise EvalError(f"{folder / MANIFEST} is not a manifest of {kind}: choose another folder")
    return found


class Config(Protocol):
    """Configuration of an evaluation, of whatever kind."""

    @property
    def name(self) -> str:
        """Name of the evaluation."""
        ...

    def model_dump(self, *, mode: Literal["json"]) -> dict[str, Any]:
        """Return the configuration as JSON values."""
        ...


def write_manifest(
    folder: Path,
    config: Config,
    dataset: Dataset,
    models: dict[str, Any],
    plan: str,
    *,
    mark: Mapping[str, Any] | None = None,
) -> str:
    """Write the manifest of an evaluation that begins or goes on, and return its nonce.

    When it began and its nonce, which names it among all evaluations, are kept.

    ``mark``: further fields, of which ``benchmark`` tells it from those of other evaluations.
    Raises ``EvalError`` if the folder cannot be written, or holds something else.
    """
    file = folder / MANIFEST
    created, nonce = _now(), secrets.token_hex(16)
    if file.exists():
        before = read_manifest(folder, (mark or {}).get("benchmark", ""))
        created, nonce = before.get("created", created), before.get("nonce", nonce)
    content = {
        **(mark or {}),
        "format": FORMAT,
        "name": config.name,
        "nonce": nonce,
        "config": config.model_dump(mode="json"),
        "plan": plan,
        "dataset": {
            "name": dataset.name,
            "source": dataset.source,
            "licence": dataset.licence,
            "fingerprint": dataset.fingerprint,
        },
        "models": models,
        "prompts": dict(prompt_hashes()),
        "versions": dict(installed_versions()),
        "created": created,
        "finished": None,
    }
    _write(file, content)
    return str(nonce)


def finish_manifest(
    folder: Path,
    totals: Mapping[str, float],
    left_out: Mapping[str, int],
    more: Mapping[str, Any] | None = None,
) -> None:
    """Note in the manifest the end, the totals, counts of what was left out, and ``more``."""
    found = {"finished": _now(), "totals": dict(totals), "left_out": dict(left_out)}
    note_in_manifest(folder, {**(more or {}), **found})


def note_in_manifest(folder: Path, fields: Mapping[str, Any]) -> None:
    """Write ``fields`` into the manifest in ``folder``."""
    file = folder / MANIFEST
    _write(file, {**json.loads(file.read_text(encoding="utf-8")), **fields})


def _write(file: Path, content: dict[str, Any]) -> None:
    try:
        write_json(file, content)
    except OSError as error:
        raise EvalError(f"{file} cannot be written: {error.strerror or error}") from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
