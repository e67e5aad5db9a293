"""The shipped models: how large they are, and what their training took."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS

LIMIT_MIB = 80.0
"""All weights together stay below this."""
TRAINING = MINIATURE_WEIGHTS / "training.json"
_MIB = 2**20
_GENERATOR: dict[str, str] = {
    "autoencoder": "generator/vae",
    "text-encoder": "generator/text_encoder",
    "denoiser": "generator/unet",
    "image-encoder": "ip-adapter/image_encoder",
    "ip-adapter": "ip-adapter",
}
SEGMENTER = "segmenter"
"""Name and folder of the model that says which kind every pixel shows."""
BLIP = "blip"
"""Name and folder of the encoder under the heads of OLIP."""


def judge_specs(root: Path = MINIATURE_WEIGHTS) -> list[str]:
    """``local:miniature/NAME`` of every judge that ships."""
    return [
        f"local:miniature/{name}" for name, at in models(root).items() if at.startswith("judges/")
    ]


def models(root: Path = MINIATURE_WEIGHTS) -> dict[str, str]:
    """Model → its folder below ``root``: the parts of the generator, the segmenter, the judges,
    the BLIP and OLIP's heads.

    A model's weights are the safetensors files right in its folder.
    """
    rest = {name: f"judges/{name}" for name in _folders(root / "judges")}
    heads = {name: f"olip/{name}" for name in _folders(root / "olip")}
    blip = {BLIP: BLIP} if (root / BLIP).is_dir() else {}
    return {**_GENERATOR, SEGMENTER: SEGMENTER, **rest, **blip, **heads}


def _folders(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if path.is_dir()) if root.is_dir() else []


class TrainingError(ValueError):
    """A record of trainings that cannot be read; says what to change."""


class Stage(BaseModel):
    """One stretch of a model's training on one device."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    steps: int = Field(ge=1)
    """Optimizer steps."""
    batch: int = Field(ge=1)
    """Paintings a step."""
    seconds: float = Field(gt=0)
    """Wall time."""
    device: str = Field(min_length=1)
    """For example ``"1 × NVIDIA H100"`` or ``"CPU, 2 cores"``."""
    part: str = ""
    """What was trained, where it was not the whole model, for example ``"decoder"``."""


Training = dict[str, list[Stage]]
"""Model → the stages of its training, in order; none: not recorded."""
_RECORD: TypeAdapter[Training] = TypeAdapter(Training)


def read_training(path: Path = TRAINING) -> Training:
    """What the trainings took; ``path`` holds a JSON object with keys of :func:`models`.

    A model that is not in it has no stages. Raises ``TrainingError``.
    """
    try:
        record = _RECORD.validate_python(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValidationError, ValueError) as error:
        raise TrainingError(
            f"{path}: {error}. It must map each model to a list of stages such as "
            '{"steps": 3000, "batch": 32, "seconds": 5400, "device": "CPU, 2 cores"}'
        ) from error
    known = models(path.parent)
    unknown = sorted(set(record) - set(known))
    if unknown:
        raise TrainingError(f"{path}: no such models {unknown}: there are {', '.join(known)}")
    return {name: record.get(name, []) for name in known}


def parameters_of(file: Path) -> int:
    """Numbers in a safetensors file, read from its header."""
    with file.open("rb") as stream:
        header: Mapping[str, Any] = json.loads(
            stream.read(int.from_bytes(stream.read(8), "little"))
        )
    return sum(math.prod(t["shape"]) for name, t in header.items() if name != "__metadata__")


def size_figures(root: Path = MINIATURE_WEIGHTS) -> dict[str, Any]:
    """``sizes.<model>.parameters`` and ``.mib`` (weights files), and both in all; ``total.mib``
    counts every file below ``root``."""
    figures: dict[str, Any] = {}
    total = 0
    for model, folder in models(root).items():
        files = sorted((root / folder).glob("*.safetensors"))
        if not files:
            raise FileNotFoundError(f"{root / folder} holds no safetensors: train the model first")
        count = sum(map(parameters_of, files))
        total += count
        figures[f"sizes.{model}.parameters"] = count
        figures[f"sizes.{model}.mib"] = sum(file.stat().st_size for file in files) / _MIB
    every = [path for path in root.rglob("*") if path.is_file()]
    figures["sizes.total.parameters"] = total
    figures["sizes.total.mib"] = sum(path.stat().st_size for path in every) / _MIB
    figures["sizes.limit_mib"] = LIMIT_MIB
    return figures
