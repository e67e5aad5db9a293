"""OLIP on disk: a folder with its architecture, weights, encoder's name, split and report."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save

from scenewright.core.flushing import flush, replacing
from scenewright.core.ports.vision import RealismError
from scenewright.core.validation import first_problem
from scenewright.tools.vision.realism.olip import Olip, OlipConfig, olip_of
from scenewright.tools.vision.realism.trained_on import TrainedOn

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
SPLIT = "split.json"
"""The pictures of its training by part: :class:`TrainedOn`."""
REPORT = "report.json"
"""Report on training and accuracy; nothing depends on it."""


class EncoderReference(BaseModel):
    """The encoder whose features the heads were trained on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    """A folder relative to OLIP's own (it begins with a dot), or a repository as OWNER/NAME."""
    digest: str
    """:attr:`~scenewright.tools.vision.realism.blip.BlipEncoder.digest` of its files."""


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    model_type: Literal["olip"] = "olip"
    format: Literal[1] = 1
    architecture: OlipConfig
    encoder: EncoderReference
    weights: str
    split: str | None = None
    """SHA-256 (hex) of :data:`SPLIT`; heads of older versions have none."""


@dataclass(frozen=True, slots=True)
class SavedOlip:
    """Content of a folder."""

    folder: Path
    """Its path."""
    model: Olip
    """In single precision, for inference, on the CPU."""
    encoder: str
    """Its encoder as :class:`~scenewright.tools.vision.realism.blip.BlipEncoder` takes it:
    an absolute folder or OWNER/NAME."""
    encoder_digest: str
    """Digest of the encoder's files: heads are worthless on other features."""
    fingerprint: str
    """SHA-256 (hex) of architecture, weights and the encoder's digest."""
    trained_on: TrainedOn | None = None
    """The pictures of its training; None if they were not recorded."""
    report: Mapping[str, Any] = field(default_factory=dict)
    """Report of the training; empty without one."""


def save_olip(
    folder: str | os.PathLike[str],
    model: Olip,
    *,
    encoder: str | os.PathLike[str],
    encoder_digest: str,
    trained_on: TrainedOn | None = None,
    report: Mapping[str, Any] | None = None,
    half: bool = True,
) -> Path:
    """Write the heads and what belongs to them; returns the folder.

    ``encoder``: its folder, kept relative to ``folder`` so that both can move together, or a
    repository OWNER/NAME. ``trained_on``: the pictures of the training; heads without them are not
    evaluated unless that is asked for. ``half``: weights in half precision. Each file is replaced
    in one piece, the configuration last. Raises ``RealismError`` if it cannot be written.
    """
    root = Path(folder)
    dtype = torch.float16 if half else torch.float32
    weights = save({key: one.detach().cpu().to(dtype) for key, one in model.state_dict().items()})
    place = Path(encoder)
    named = str(encoder)
    if place.is_dir():
        named = Path(os.path.relpath(place.resolve(), root.resolve())).as_posix()
        named = named if named.startswith(".") else f"./{named}"
    split = None if trained_on is None else _json(trained_on.model_dump(mode="json"))
    content = _File(
        architecture=model.config,
        encoder=EncoderReference(model=named, digest=encoder_digest),
        weights=hashlib.sha256(weights).hexdigest(),
        split=None if split is None else hashlib.sha256(split).hexdigest(),
    )
    try:
        root.mkdir(parents=True, exist_ok=True)
        if split is None:
            (root / SPLIT).unlink(missing_ok=True)
        for name, data in (
            (WEIGHTS, weights),
            (SPLIT, split),
            (REPORT, _json(dict(report or {}))),
            (CONFIG, _json(content.model_dump(mode="json", exclude_none=True))),
        ):
            if data is not None:
                with replacing(root / name) as draft:
                    draft.write_bytes(data)
                    flush(draft)
    except OSError as error:
        raise RealismError(f"{root} cannot be written: {error.strerror or error}") from error
    return root


def load_olip(folder: str | os.PathLike[str]) -> SavedOlip:
    """Return the heads in ``folder``.

    Raises ``RealismError`` if it holds none, or damaged ones; the encoder is neither looked for nor
    loaded.
    """
    root = Path(folder).expanduser()
    try:
        content = _File.model_validate_json(_bytes(root, CONFIG))
    except ValidationError as error:
        raise RealismError(
            f"{root / CONFIG} is not a configuration of OLIP: {first_problem(error)}"
        ) from error
    weights = _bytes(root, WEIGHTS)
    if hashlib.sha256(weights).hexdigest() != content.weights:
        raise RealismError(
            f"{root / WEIGHTS} is not the file that {CONFIG} speaks of: it is damaged or of "
            "another training; copy the whole folder again"
        )
    try:
        state = {key: value.float() for key, value in load(weights).items()}
        model = olip_of(content.architecture, state)
    except (SafetensorError, RuntimeError) as error:
        raise RealismError(
            f"{root / WEIGHTS} does not fit the architecture in {CONFIG}: {error}"
        ) from error
    reference = content.encoder
    try:
        report = json.loads((root / REPORT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        report = {}
    trained_on = None
    if content.split is not None:
        data = _bytes(root, SPLIT)
        if hashlib.sha256(data).hexdigest() != content.split:
            raise RealismError(
                f"{root / SPLIT} is not the file that {CONFIG} names, so it is unknown what the "
                "heads were trained on; copy the whole folder again"
            )
        try:
            trained_on = TrainedOn.model_validate_json(data)
        except ValidationError as error:
            raise RealismError(
                f"{root / SPLIT} is not a split of pictures: {first_problem(error)}"
            ) from error
    print_of = [content.architecture.model_dump(mode="json"), content.weights, reference.digest]
    return SavedOlip(
        folder=root,
        model=model,
        encoder=str((root.resolve() / reference.model).resolve())
        if reference.model.startswith(".")
        else reference.model,
        encoder_digest=reference.digest,
        fingerprint=hashlib.sha256(json.dumps(print_of, sort_keys=True).encode()).hexdigest(),
        trained_on=trained_on,
        report=report if isinstance(report, dict) else {},
    )


def check_encoder(saved: SavedOlip, digest: str, name: str) -> None:
    """Raise ``RealismError`` unless ``digest`` is that of the encoder of ``saved``.

    ``name`` is how the encoder at hand is called.
    """
    if digest != saved.encoder_digest:
        raise RealismError(
            f"{saved.folder} was trained on features of another encoder than {name}: its scores "
            "would mean nothing. Use the encoder it was trained with, or train it anew "
            "(`scenewright object-realism train`)"
        )


def _bytes(root: Path, name: str) -> bytes:
    try:
        return (root / name).read_bytes()
    except OSError as error:
        raise RealismError(
            f"{root / name} cannot be read ({error.strerror or error}): OLIP is a folder with "
            f"{CONFIG} and {WEIGHTS}; `scenewright object-realism train` writes one"
        ) from error


def _json(content: Any) -> bytes:
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()
