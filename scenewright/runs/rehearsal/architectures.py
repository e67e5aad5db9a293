"""Published architectures as data: one JSON file a repository of the hub, in ``architectures``.

A file names the classes of a model's parts and their configurations. The names and shapes of the
weights follow from them: the classes are built without memory (torch's ``meta`` device).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from scenewright.core.error_text import error_text
from scenewright.core.ports.backend import BackendError
from scenewright.core.validation import FrozenModel, first_problem
from scenewright.providers.hub.needs import INDEX, MODULAR_INDEX

BUILT_IN = Path(__file__).with_name("architectures")
Format = Literal["F32", "F16", "BF16"]
"""Number formats as safetensors files name them."""
ITEM = {"F32": 4, "F16": 2, "BF16": 2, "I64": 8}
"""Bytes of a number."""


class RehearsalError(BackendError):
    """A rehearsal that cannot be made; says what to do."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """Shape and number format of one weight."""

    shape: tuple[int, ...]
    format: str

    @property
    def size(self) -> int:
        """Its bytes in a file."""
        return prod(self.shape) * ITEM[self.format]


class PartSpec(FrozenModel):
    """One part of a model: a folder with a configuration, and weights unless it has none."""

    kind: str = Field(alias="class", pattern=r"^(diffusers|transformers)\.\w+$")
    """``library.Class``."""
    config: dict[str, Any]
    """Content of its configuration; of a tokenizer the arguments of its class."""
    parameters: int | None = None
    """Published number of weights, which the class with this configuration must have."""
    format: Format | None = None
    """Number format of the published weights; None: that of the repository."""
    tokenizer: str | None = None
    """Class of the tokenizer in the same folder."""
    files: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Further files of the folder by name."""

    @property
    def library(self) -> str:
        """``diffusers`` or ``transformers``."""
        return self.kind.partition(".")[0]

    @property
    def name(self) -> str:
        """Name of the class."""
        return self.kind.partition(".")[2]

    @property
    def weighs(self) -> bool:
        """Whether it has weights."""
        return not self.name.endswith(("Scheduler", "Tokenizer", "Processor"))

    def with_values(self, values: Mapping[str, Any], where: str) -> PartSpec:
        """Return the part with other ``values`` in its configuration.

        Keys of nested tables have dots. Raises ``RehearsalError``, naming ``where``, for a key that
        the configuration does not have.
        """
        config = json.loads(json.dumps(self.config))
        for key, value in values.items():
            table: Any = config
            *path, last = key.split(".")
            for name in path:
                table = table.get(name, {}) if isinstance(table, dict) else {}
            if not isinstance(table, dict) or last not in table:
                raise RehearsalError(
                    f"the configuration of {where} has no {key!r}: use one of "
                    f"{', '.join(sorted(self.config))}"
                )
            table[last] = value
        # With other values it is another model than the published one.
        return self.model_copy(update={"config": config, "parameters": None})


class AdapterShape(FrozenModel):
    """Weights of an IP-Adapter for a UNet, in the layout of ``h94/IP-Adapter``."""

    pipeline: str
    """Repository of the pipeline that it was made for."""
    tokens: int
    """Tokens of a reference picture."""
    embedding: int
    """Numbers that its image encoder gives of a picture."""


class Architecture(FrozenModel):
    """What is published of a repository, without its weights."""

    repository: str
    source: str
    """Where configurations and numbers are from."""
    parts: dict[str, PartSpec]
    """Parts by folder; the empty name is the repository's own folder."""
    format: Format
    """Number format of the published weights without a variant."""
    pipeline: str | None = None
    """Pipeline class of diffusers; None: no pipeline."""
    modular: bool = False
    """Whether the pipeline is composed of blocks."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Settings of the pipeline in its index."""
    adapters: dict[str, AdapterShape] = Field(default_factory=dict)
    """Files of adapters."""

    @property
    def index_name(self) -> str:
        """Name of the pipeline's index."""
        return MODULAR_INDEX if self.modular else INDEX

    def index(self) -> dict[str, Any]:
        """Return the content of the pipeline's index."""
        parts: dict[str, Any]
        parts = {name: [part.library, part.name] for name, part in self.parts.items()}
        if self.modular:
            place = {"pretrained_model_name_or_path": self.repository}
            parts = {
                name: [*kind, {"type_hint": kind, "subfolder": name, **place}]
                for name, kind in parts.items()
            }
        return {"_class_name": self.pipeline, **self.options, **parts}


def read_architectures(folders: Iterable[Path] = ()) -> dict[str, Architecture]:
    """Return the built-in architectures by repository, and those in ``folders``, which go before.

    Raises ``RehearsalError`` naming a file that cannot be read.
    """
    found = {}
    for folder in (BUILT_IN, *folders):
        if not folder.is_dir():
            raise RehearsalError(f"{folder} is not a folder: name one with architecture files")
        for file in sorted(folder.glob("*.json")):
            try:
                one = Architecture.model_validate_json(file.read_text(encoding="utf-8"))
            except ValidationError as error:
                raise RehearsalError(
                    f"{file} is not an architecture: {first_problem(error)} "
                    f"(an example is {BUILT_IN}/flux.2-klein-4b.json)"
                ) from error
            found[one.repository] = one
    return found


def tensors_of(part: PartSpec, format: Format) -> dict[str, Tensor]:
    """Return the weights of a part by name, as a file in ``format`` has them.

    Tied weights are there once. Raises ``RehearsalError`` if the class cannot be made, or has
    another number of weights than is published.
    """
    import torch

    model = _empty(part)
    tied = set(getattr(model, "all_tied_weights_keys", None) or ())
    if part.parameters is not None:
        count = sum(one.numel() for one in model.parameters())
        if count != part.parameters:
            raise RehearsalError(
                f"{part.kind} has {count:,} weights by its configuration, {part.parameters:,} are "
                "published: correct the architecture file, or install the versions of "
                "constraints.txt"
            )
    kinds = {torch.int64: "I64"}
    return {
        name: Tensor(tuple(one.shape), kinds.get(one.dtype, format))
        for name, one in model.state_dict().items()
        if name not in tied
    }


def adapter_tensors(adapter: AdapterShape, unet: PartSpec, format: Format) -> dict[str, Tensor]:
    """Return the weights of an adapter for the UNet ``unet``, by their published names."""
    model = _empty(unet)
    width = int(model.config.cross_attention_dim)
    shapes = {
        "image_proj.proj.weight": (adapter.tokens * width, adapter.embedding),
        "image_proj.proj.bias": (adapter.tokens * width,),
        "image_proj.norm.weight": (width,),
        "image_proj.norm.bias": (width,),
    }
    # The checkpoints number all attention layers, and the adapter's are every second one.
    layers = [name for name in model.attn_processors if "attn2" in name]
    for at, name in enumerate(layers):
        inner = model.get_submodule(name.removesuffix(".processor")).inner_dim
        for which in ("to_k_ip", "to_v_ip"):
            shapes[f"ip_adapter.{2 * at + 1}.{which}.weight"] = (inner, width)
    return {name: Tensor(shape, format) for name, shape in shapes.items()}


def _empty(part: PartSpec) -> Any:
    """Return the model of a part, whose tensors have no memory."""
    import diffusers
    import torch
    import transformers

    libraries = {"diffusers": diffusers, "transformers": transformers}
    kind: Any = getattr(libraries[part.library], part.name, None)
    try:
        with torch.device("meta"):
            if part.library == "diffusers":
                return kind.from_config(part.config)
            return kind(kind.config_class.from_dict(part.config))
    except Exception as error:
        raise RehearsalError(
            f"no {part.kind} can be made of its configuration ({error_text(error, 200)}): "
            "correct the architecture file, or install the versions of "
            "constraints.txt"
        ) from error
