"""Published architectures as data: one JSON file a repository of the hub, in ``architectures``.

A file names the classes of a model's parts and their configurations. The names and shapes of the
weights follow from them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from scenewright.core.ports.backend import BackendError
from scenewright.core.validation import FrozenModel, first_problem

BUILT_IN = Path(__file__).with_name("architectures")
Format = Literal["F32", "F16", "BF16"]
"""Number formats as safetensors files name them."""


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


class AdapterShape(FrozenModel):
    """Weights of an IP-Adapter for a UNet, in the layout of ``h94/IP-Adapter``."""

    pipeline: str
    """Repository of the pipeline that it was made for."""
    tokens: int
    """Tokens of a reference picture."""
    embedding: int
    """Numbers that its image encoder gives of a picture."""


class Architecture(FrozenModel):
    """A published repository without its weights."""

    repository: str
    source: str
    """Source of configurations and numbers."""
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

    Raises ``BackendError`` naming a file that cannot be read.
    """
    found = {}
    for folder in (BUILT_IN, *folders):
        if not folder.is_dir():
            raise BackendError(f"{folder} is not a folder: name one with architecture files")
        for file in sorted(folder.glob("*.json")):
            try:
                one = Architecture.model_validate_json(file.read_text(encoding="utf-8"))
            except ValidationError as error:
                raise BackendError(
                    f"{file} is not an architecture: {first_problem(error)} "
                    f"(an example is {BUILT_IN}/flux.2-klein-4b.json)"
                ) from error
            found[one.repository] = one
    return found
