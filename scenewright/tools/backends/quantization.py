"""Weights of a pipeline that are stored in few bits: what each method needs, and how it loads."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenewright.config.local_images import QuantizationMethod, QuantizationSpec
from scenewright.core.error_text import error_text
from scenewright.core.ports.backend import BackendError
from scenewright.providers.hub.needs import replaced_parts
from scenewright.tools.backends.memory import Needs
from scenewright.tools.backends.model_folder import ModelFolder, digest_files, find_weights
from scenewright.tools.backends.pipeline import quiet
from scenewright.tools.backends.single_file import check_fits, convert_names, empty_part

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class _Method:
    words: str
    """Its number format, for people."""
    size: float
    """Bytes of a weight with its share of the scales; 0: as the file says."""
    package: str = ""
    """Name of the package that it needs, as it is imported; empty: none."""
    extra: str = ""
    """Its name for ``pip install``."""
    accelerator: bool = False
    """Whether it needs one."""
    fuses: bool = False
    """Whether a LoRA can be added to the weights before they are narrowed."""


_TORCHAO = ("torchao", "scenewright[quantization]")
_QUANTO = ("optimum.quanto", "optimum-quanto")
_BITSANDBYTES = ("bitsandbytes", "scenewright[quantization]", True)
_METHODS: Mapping[QuantizationMethod, _Method] = {
    "bitsandbytes-8bit": _Method("8 bit", 1.0, *_BITSANDBYTES),
    # A scale of 4 bytes for 64 weights.
    "bitsandbytes-4bit": _Method("4 bit", 0.5625, *_BITSANDBYTES),
    "torchao-int8": _Method("int8", 1.0, *_TORCHAO),
    "torchao-float8": _Method("float8", 1.0, *_TORCHAO),
    "quanto-int8": _Method("int8", 1.0, *_QUANTO),
    "quanto-int4": _Method("int4", 0.5625, *_QUANTO),
    "layerwise-float8": _Method("float8", 1.0, fuses=True),
    "gguf": _Method("GGUF", 0.0, "gguf", "scenewright[gguf]"),
}
_WHOLE = ("embed", "lm_head", "shared", "wte")
"""Parts of the names of matrices that are not those of linear layers."""


@dataclass(frozen=True)
class Quantized:
    """The quantized parts of a model on this machine."""

    spec: QuantizationSpec
    model: ModelFolder
    parts: tuple[str, ...]
    """Their names."""
    file: Path | None
    """The file of a quantized denoiser."""

    @classmethod
    def open(cls, spec: QuantizationSpec, model: ModelFolder, device: str) -> Quantized:
        """Find what ``spec`` needs for ``model`` on a kind of ``device``; no weights are read.

        Raises ``BackendError`` if a package, a file or a part is missing, or if the file is not of
        the model's denoiser.
        """
        method = _METHODS[spec.method]
        if method.package and not _is_installed(method.package):
            raise BackendError(
                f"quantization {spec.method!r} needs the package {method.package}: install it "
                f"with `pip install '{method.extra}'`"
            )
        if method.accelerator and device == "cpu":
            raise BackendError(
                f"quantization {spec.method!r} needs a GPU, and the model runs on the CPU: use "
                "'torchao-int8' or 'layerwise-float8'"
            )
        if model.file is not None and spec.method != "layerwise-float8":
            raise BackendError(
                f"quantization {spec.method!r} reads the folder of a model, and {model.file.file} "
                "is one file: use 'layerwise-float8', or name the whole model"
            )
        parts = spec.parts or ((model.denoiser,) if model.denoiser else ())
        index = model.index
        known = [name for name in model.parts if (model.place(name) / "config.json").is_file()]
        for part in parts:
            if part not in known:
                raise BackendError(
                    f"the model has no part {part!r} with weights: name some of "
                    f"{', '.join(known)} in 'parts'"
                )
            if spec.method == "layerwise-float8" and index[part][0] == "transformers":
                raise BackendError(
                    f"layerwise-float8 does not serve the {part}, a part of the library "
                    "transformers: leave it out, or use 'torchao-int8'"
                )
            if spec.method == "gguf" and part not in replaced_parts(spec):
                raise BackendError(
                    f"{model.pipeline_class} has no transformer, and only these are published as "
                    "GGUF: use another quantization"
                )
        if not parts:
            raise BackendError(
                f"{model.pipeline_class} has no denoiser of a known name: name the parts to "
                "quantize in 'parts'"
            )
        file = None
        if spec.method == "gguf":
            file = find_weights(spec.repository, spec.weight_name, ".gguf", "the GGUF file")
        found = cls(spec, model, parts, file)
        if file is not None:
            _check_gguf(file, found)
        return found

    @property
    def fuses(self) -> bool:
        """Whether LoRAs can be added to the weights."""
        return _METHODS[self.spec.method].fuses

    def describe(self) -> str:
        """Return parts and number format, for people."""
        words, package = _METHODS[self.spec.method].words, self.spec.method.partition("-")[0]
        if self.file is not None:
            return f"{self.parts[0]} of {self.file.name}"
        return f"{' and '.join(self.parts)} in {words} ({package})"

    def identity(self) -> dict[str, Any]:
        """Return what of it decides pictures, for fingerprints."""
        package = _METHODS[self.spec.method].package
        return {
            "method": self.spec.method,
            "parts": self.parts,
            "files": None if self.file is None else digest_files(self.file.parent, [self.file]),
            "version": version(package.replace(".", "-")) if package else None,
        }

    def applied(self, needs: Needs) -> Needs:
        """Return ``needs`` of the model with these weights in their own format."""
        method, weights, narrow = _METHODS[self.spec.method], dict(needs.weights), {}
        for part in self.parts:
            if self.file is not None:
                stored = self._stored.values()
                count = sum(prod(shape) for shape, _ in stored)
                plain = sum(prod(shape) for shape in self.model.shapes(part).values())
                beside = max(0, weights.get(part, 0) - plain)
                weights[part] = count + beside
                narrow[part] = (count, sum(size for _, size in stored) / count)
                continue
            linear = sum(
                prod(shape)
                for name, shape in self.model.shapes(part).items()
                if len(shape) == 2
                and name.endswith(".weight")
                and not any(word in name for word in _WHOLE)
            )
            narrow[part] = (linear, method.size)
        return replace(needs, weights=weights, narrow=narrow)

    @cached_property
    def _stored(self) -> dict[str, tuple[tuple[int, ...], int]]:
        """Shape and bytes of the tensors of the GGUF file, by name; raises ``BackendError``."""
        file = self.file
        assert file is not None
        from gguf import GGUFReader

        try:
            with file.open("rb") as stream:
                first = stream.read(4)
            if first != b"GGUF":
                raise BackendError(
                    f"{file} is not a GGUF file: it begins with {first!r} and not with b'GGUF'; "
                    "copy or download it again"
                )
            return {
                str(one.name): (tuple(int(side) for side in reversed(one.shape)), int(one.n_bytes))
                for one in GGUFReader(file).tensors
            }
        except FileNotFoundError:
            raise BackendError(f"{file} is missing: copy it there") from None
        except (OSError, ValueError, IndexError, KeyError) as error:
            raise BackendError(
                f"the GGUF file {file} is damaged or was not copied whole "
                f"({error_text(error, 200)}): copy or download it again"
            ) from error

    def options(self, dtype: torch.dtype) -> dict[str, Any]:
        """Return the options of ``from_pretrained`` that load these parts, computing in ``dtype``.

        Raises ``BackendError`` if a file does not load.
        """
        from diffusers import GGUFQuantizationConfig, PipelineQuantizationConfig

        if self.spec.method == "layerwise-float8":
            return {}
        if self.file is not None:
            part = self.parts[0]
            try:
                denoiser = type(empty_part(self.model, part)).from_single_file(
                    str(self.file),
                    config=str(self.model.folder),
                    subfolder=part,
                    quantization_config=GGUFQuantizationConfig(compute_dtype=dtype),
                    dtype=dtype,
                    local_files_only=True,
                )
            except Exception as error:
                raise BackendError(
                    f"the GGUF file {self.file} does not load ({error_text(error)}): "
                    "use one of this model's denoiser"
                ) from error
            return {part: denoiser}
        index = self.model.index
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            mapping = {part: self._config(index[part][0], dtype) for part in self.parts}
            return {"quantization_config": PipelineQuantizationConfig(quant_mapping=mapping)}

    def _config(self, library: str, dtype: torch.dtype) -> Any:
        """Return the configuration of a part that ``library`` loads."""
        import importlib

        of = importlib.import_module("transformers" if library == "transformers" else "diffusers")
        match self.spec.method:
            case "bitsandbytes-8bit":
                return of.BitsAndBytesConfig(load_in_8bit=True)
            case "bitsandbytes-4bit":
                return of.BitsAndBytesConfig(
                    load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype
                )
            case "quanto-int8" | "quanto-int4":
                short = self.spec.method.removeprefix("quanto-")
                if library == "transformers":
                    return of.QuantoConfig(weights=short)
                return of.QuantoConfig(weights_dtype=short)
        from torchao.quantization import Float8WeightOnlyConfig, Int8WeightOnlyConfig

        int8 = self.spec.method == "torchao-int8"
        return of.TorchAoConfig(Int8WeightOnlyConfig() if int8 else Float8WeightOnlyConfig())

    def cast(self, pipe: Any, dtype: torch.dtype) -> None:
        """Store weights of a loaded ``pipe`` narrowly, where the method does it then."""
        if self.spec.method != "layerwise-float8":
            return
        import torch

        for part in self.parts:
            getattr(pipe, part).enable_layerwise_casting(
                storage_dtype=torch.float8_e4m3fn, compute_dtype=dtype
            )


def _check_gguf(file: Path, quantized: Quantized) -> None:
    """Raise ``BackendError`` if the tensors of ``file`` are not those of the denoiser."""
    import torch

    part, model = quantized.parts[0], quantized.model
    what = f"the GGUF file {file}"
    with quiet():
        from diffusers.loaders.single_file_model import SINGLE_FILE_LOADABLE_CLASSES

        empty = empty_part(model, part)
        kind = type(empty).__name__
        if kind not in SINGLE_FILE_LOADABLE_CLASSES:
            raise BackendError(
                f"diffusers reads no GGUF file of a {kind}: use another quantization"
            )
        names = quantized._stored
        # As llama.cpp names the tensors of language models, and encoders of text and pictures.
        if any(name.startswith(("blk.", "token_embd", "v.blk.", "enc.blk.")) for name in names):
            raise BackendError(
                f"{what} is a language model or a text encoder, not a denoiser: use one of this "
                "model's denoiser"
            )
        given = {name: torch.empty(shape, device="meta") for name, (shape, _) in names.items()}
        try:
            found = convert_names(empty, given)
        except Exception as error:
            raise BackendError(
                f"{what} is not of a {kind} (unknown tensor {error_text(error, 200)}): use one of "
                "this model's denoiser"
            ) from error
    check_fits(empty.state_dict(), found, what, kind)


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False
