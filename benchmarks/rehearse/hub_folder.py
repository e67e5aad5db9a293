"""A hub cache with architectures in place of models: all files that a profile needs.

Configurations and indexes as published, tokenizers of the same class and size, and weights whose
headers are right and whose numbers are all 0 (:mod:`benchmarks.rehearse.weights`). What
loads models finds it as it finds fetched ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from huggingface_hub import constants
from huggingface_hub.file_download import repo_folder_name

from benchmarks.rehearse.tensors import RehearsalError, Tensor, adapter_tensors, tensors_of
from benchmarks.rehearse.tokenizers import build_tokenizer
from benchmarks.rehearse.weights import write_weights
from scenewright.providers.hub.architectures import AdapterShape, Architecture, Format, PartSpec
from scenewright.providers.hub.needs import INDEX, MODULAR_INDEX, Need

_COMMIT = "0" * 40
_VARIANTS: Mapping[str, Format] = {"fp16": "F16", "bf16": "BF16", "fp32": "F32"}


@dataclass(slots=True)
class HubFolder:
    """Writes architectures into a hub cache."""

    place: Path
    """Folder of the cache."""
    known: Mapping[str, Architecture]
    """Architectures by repository."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Values of configurations by ``PART.KEY``, in place of the published ones."""
    said: Callable[[str], None] = lambda text: None
    """Called with what is written next."""
    used: set[str] = field(default_factory=set)
    """Those of ``changes`` that belonged to a part."""

    def write(self, need: Need) -> None:
        """Write what ``need`` names.

        Raises ``RehearsalError`` if nothing is known of it.
        """
        architecture = self.known.get(need.repository)
        if architecture is None:
            raise RehearsalError(
                f"no architecture of {need.repository} is known: known are "
                f"{', '.join(sorted(self.known))}; write one as docs/local-models.md says and name "
                "its folder with --architectures"
            )
        snapshot = self._snapshot(need.repository)
        if need.kind == "files":
            for pattern in need.patterns:
                self._write_files(architecture, pattern, snapshot, need)
            return
        for name in architecture.parts:
            self._write_part(architecture, name, snapshot, need.variant)
        if architecture.pipeline is not None:
            index = MODULAR_INDEX if architecture.modular else INDEX
            write_json(snapshot / index, architecture.index())

    def check_changes(self) -> None:
        """Raise ``RehearsalError`` if one of the changes belongs to no part that was written."""
        if lost := sorted(self.changes.keys() - self.used):
            raise RehearsalError(
                f"--set {lost[0]}: no part of that name has a configuration here: write "
                "PART.KEY=VALUE, as text_encoder.num_hidden_layers=4"
            )

    def _snapshot(self, repository: str) -> Path:
        storage = self.place / repo_folder_name(repo_id=repository, repo_type="model")
        (storage / "refs").mkdir(parents=True, exist_ok=True)
        (storage / "refs" / constants.DEFAULT_REVISION).write_text(_COMMIT, encoding="utf-8")
        (storage / "blobs").mkdir(exist_ok=True)
        snapshot = storage / "snapshots" / _COMMIT
        snapshot.mkdir(parents=True, exist_ok=True)
        return snapshot

    def _write_files(
        self, architecture: Architecture, pattern: str, snapshot: Path, need: Need
    ) -> None:
        """Write the adapter, or the folder of the image encoder, that ``pattern`` names."""
        if pattern in architecture.adapters:
            self.said(f"{architecture.repository}: {pattern}")
            adapter = architecture.adapters[pattern]
            unet = self._unet(adapter, architecture.repository)
            tensors = adapter_tensors(adapter, unet, architecture.format)
            self._weights(snapshot, pattern, tensors)
            return
        folder = pattern.rpartition("/")[0]
        if folder not in architecture.parts:
            known = [*architecture.adapters, *architecture.parts]
            raise RehearsalError(
                f"no architecture of {pattern} in {need.repository} is known: known are "
                f"{', '.join(known)}"
            )
        if not (snapshot / folder / "config.json").is_file():
            self._write_part(architecture, folder, snapshot, None)

    def _unet(self, adapter: AdapterShape, repository: str) -> PartSpec:
        pipeline = self.known.get(adapter.pipeline)
        if pipeline is None or "unet" not in pipeline.parts:
            raise RehearsalError(
                f"the adapter in {repository} is for {adapter.pipeline}, of which no architecture "
                "with a UNet is known: add its file to the folder"
            )
        return self._changed("unet", pipeline.parts["unet"])

    def _changed(self, name: str, part: PartSpec) -> PartSpec:
        own = {
            key.removeprefix(f"{name}."): value
            for key, value in self.changes.items()
            if name and key.startswith(f"{name}.")
        }
        self.used |= {f"{name}.{key}" for key in own}
        return with_values(part, own, name) if own else part

    def _write_part(
        self, architecture: Architecture, name: str, snapshot: Path, variant: str | None
    ) -> None:
        part = self._changed(name, architecture.parts[name])
        self.said(f"{architecture.repository}: {name or part.name}")
        folder = snapshot / name
        folder.mkdir(parents=True, exist_ok=True)
        for file, content in part.files.items():
            write_json(folder / file, content)
        if part.name.endswith("Tokenizer"):
            build_tokenizer(part.name, part.config).save_pretrained(folder)
        elif part.name.endswith("Scheduler"):
            write_json(folder / "scheduler_config.json", {"_class_name": part.name, **part.config})
        elif part.weighs:
            self._write_model(architecture, part, folder, snapshot, variant)
        if part.tokenizer is not None:
            build_tokenizer(part.tokenizer, {}).save_pretrained(folder)

    def _write_model(
        self,
        architecture: Architecture,
        part: PartSpec,
        folder: Path,
        snapshot: Path,
        variant: str | None,
    ) -> None:
        known = {"_class_name": part.name} if part.library == "diffusers" else {}
        named = {"architectures": [part.name]} if part.library == "transformers" else known
        write_json(folder / "config.json", {**named, **part.config})
        stem = "diffusion_pytorch_model" if part.library == "diffusers" else "model"
        format = part.format or architecture.format
        if variant is not None:
            stem, format = f"{stem}.{variant}", _VARIANTS.get(variant, format)
        place = (folder / f"{stem}.safetensors").relative_to(snapshot).as_posix()
        self._weights(snapshot, place, tensors_of(part, format))

    def _weights(self, snapshot: Path, place: str, tensors: Mapping[str, Tensor]) -> None:
        # The name of a blob spares whoever asks for the file's digest the reading of gigabytes.
        text = json.dumps([place, [(n, t.shape, t.format) for n, t in tensors.items()]])
        digest = hashlib.sha256(text.encode()).hexdigest()
        blob = snapshot.parents[1] / "blobs" / digest
        write_weights(blob, tensors)
        link = snapshot / place
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(blob)


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write ``content`` as JSON."""
    file.write_text(json.dumps(content, indent=1), encoding="utf-8")


def with_values(part: PartSpec, values: Mapping[str, Any], where: str) -> PartSpec:
    """Return ``part`` with other ``values`` in its configuration.

    Keys of nested tables have dots. Raises ``RehearsalError``, naming ``where``, for a key that
    the configuration does not have.
    """
    config = json.loads(json.dumps(part.config))
    for key, value in values.items():
        table: Any = config
        *path, last = key.split(".")
        for name in path:
            table = table.get(name, {}) if isinstance(table, dict) else {}
        if not isinstance(table, dict) or last not in table:
            raise RehearsalError(
                f"the configuration of {where} has no {key!r}: use one of "
                f"{', '.join(sorted(part.config))}"
            )
        table[last] = value
    # With other values it is another model than the published one.
    return part.model_copy(update={"config": config, "parameters": None})
