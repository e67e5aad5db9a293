"""A model in one file: what kind of file it is, what it holds, and which repository has the rest.

Only headers are read. Names of tensors tell the layout: fine-tunes are kept as their trainers and
ComfyUI write them, with a prefix for each part, or the denoiser alone.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

from pydantic import Field

from scenewright.core.ports.backend import BackendError
from scenewright.core.validation import FrozenModel

SUFFIX = ".safetensors"
_OTHERS = (".gguf", ".ckpt", ".pt", ".pth", ".bin", ".pkl")
_DENOISERS = ("model.diffusion_model.", "diffusion_model.", "transformer.", "unet.", "")
_VAES = ("first_stage_model.", "vae.")
_SCALES = ("scale_weight", "weight_scale")
"""Ends of the names of the factors by which eight-bit weights are multiplied."""
_BESIDE = re.compile(
    r"(.*\.)?(scale_weight|weight_scale|scale_input|input_scale|comfy_quant)|scaled_fp8"
)
"""Names of what stands beside weights in eight bits."""
_WIDE = {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"}
"""Number formats that weights can be read from."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor of a file."""

    format: str
    """Its number format, as safetensors names it."""
    shape: tuple[int, ...]


class Variant(FrozenModel):
    """A model of a family, and how its denoiser is told from those of the other variants."""

    repository: str
    """The repository that has the other parts."""
    tensors: dict[str, int] = Field(default_factory=dict)
    """Tensors that the denoiser has, and how many numbers at least."""
    word: str = ""
    """Part of the file's name."""


class Layout(FrozenModel):
    """A family of files."""

    title: str
    """The family, for people."""
    marker: str
    """A tensor of the denoiser that files of other families before it in the table lack."""
    denoiser: str
    """Name of the pipeline's part."""
    variants: tuple[Variant, ...]
    """The first that fits is taken; the last fits every file of the family."""
    encoders: dict[str, str] = Field(default_factory=dict)
    """Prefixes of text encoders, and the pipeline's parts."""
    built_in: bool = False
    """Whether configurations and vocabulary come with the package."""

    def repository(self, denoiser: Mapping[str, Stored], name: str) -> str:
        """Return the repository with the other parts, by the denoiser and the file's name."""
        sizes = {tensor: prod(stored.shape) for tensor, stored in denoiser.items()}
        for variant in self.variants:
            fits = all(sizes.get(one, 0) >= least for one, least in variant.tensors.items())
            if fits and variant.word in name:
                return variant.repository
        return ""


class OtherModel(FrozenModel):
    """A model that does not draw by itself."""

    tensors: str
    """Pattern of the names of its tensors."""
    what: str
    remedy: str


class OtherFile(FrozenModel):
    """A file that is not safetensors."""

    begins: tuple[str, ...]
    """Its first characters, in small letters."""
    what: str
    """Its kind, with a remedy."""


class _Table(FrozenModel):
    layouts: tuple[Layout, ...]
    other_models: tuple[OtherModel, ...]
    other_files: tuple[OtherFile, ...]
    channels: dict[str, dict[int, str]]
    """Tensor of a denoiser's input, its number of channels, and the kind of model that has them."""


_TABLE = _Table.model_validate(
    tomllib.loads(Path(__file__).with_name("single_files.toml").read_text("utf-8"))
)
LAYOUTS = _TABLE.layouts


@dataclass(frozen=True)
class SingleFile:
    """A checkpoint on this machine."""

    file: Path
    layout: Layout | None
    """None: of a family that the table does not have; all tensors are taken as the denoiser's."""
    tensors: Mapping[str, Stored]
    """All its tensors but the factors of eight-bit weights."""
    scales: Mapping[str, str]
    """Names of these factors, by the weights that they multiply."""
    prefixes: Mapping[str, str]
    """The parts that it holds, each with the prefix of its tensors."""
    repository: str
    """The hub's repository that has the other parts; empty: unknown."""

    @classmethod
    def read(cls, file: Path) -> SingleFile:
        """Read the header of ``file``; raises ``BackendError`` saying what kind of file it is."""
        everything = read_header(file)
        scales = {f"{n.rpartition('.')[0]}.weight": n for n in everything if n.endswith(_SCALES)}
        tensors = {n: one for n, one in everything.items() if not _BESIDE.fullmatch(n)}
        layout, prefix = _layout_of(tensors)
        four_bits = any("quant_state" in n or n.endswith("weight_scale_2") for n in everything)
        if layout is None or four_bits:
            _refuse_others(file, everything)
        for one in tensors.values():
            if len(one.shape) > 1 and one.format not in _WIDE:
                raise BackendError(
                    f"{file} stores weights as {one.format}, which is not read: use its file in "
                    "8-bit floating point, 16 or 32 bits, or a GGUF file"
                )
        if layout is None:
            return cls(file, None, tensors, scales, {"": prefix}, "")
        prefixes = {layout.denoiser: prefix}
        if prefix:
            # Without a prefix all tensors are the denoiser's.
            for other, part in (dict.fromkeys(_VAES, "vae") | layout.encoders).items():
                if any(name.startswith(other) for name in tensors):
                    prefixes[part] = other
        held = cls(file, layout, tensors, scales, prefixes, "")
        own = {name: tensors[stored] for name, stored in held.names(layout.denoiser).items()}
        _refuse_partners(file, own, tensors)
        return replace(held, repository=layout.repository(own, file.stem.lower()))

    @property
    def title(self) -> str:
        """The family, for people."""
        return "an unknown family" if self.layout is None else self.layout.title

    @property
    def whole(self) -> bool:
        """Whether nothing is needed besides, because the rest comes with the package."""
        layout = self.layout
        if layout is None or not layout.built_in:
            return False
        return set(self.prefixes) == {layout.denoiser, "vae", *layout.encoders.values()}

    @property
    def known_bytes(self) -> int:
        """Bytes of the weights that are loaded, in 16 bits."""
        loaded = tuple(self.prefixes.values())
        return sum(2 * prod(t.shape) for name, t in self.tensors.items() if name.startswith(loaded))

    def named(self, denoiser: str) -> SingleFile:
        """Return this file of an unknown family, whose ``denoiser`` is a part of that name."""
        return replace(self, prefixes={denoiser: self.prefixes[""]})

    def names(self, part: str) -> dict[str, str]:
        """Return the tensors of a part: the names without prefix, and those in the file."""
        prefix = self.prefixes[part]
        return {name.removeprefix(prefix): name for name in self.tensors if name.startswith(prefix)}


def _layout_of(tensors: Mapping[str, Stored]) -> tuple[Layout | None, str]:
    for layout in LAYOUTS:
        for prefix in _DENOISERS:
            if f"{prefix}{layout.marker}" in tensors:
                return layout, prefix
    prefix = next((p for p in _DENOISERS if any(name.startswith(p) for name in tensors)), "")
    return None, prefix


def _refuse_others(file: Path, tensors: Mapping[str, Stored]) -> None:
    for other in _TABLE.other_models:
        if any(re.fullmatch(other.tensors, name) for name in tensors):
            raise BackendError(f"{file} is {other.what}, not a model that draws: {other.remedy}")


def _refuse_partners(
    file: Path, denoiser: Mapping[str, Stored], tensors: Mapping[str, Stored]
) -> None:
    """Raise ``BackendError`` for models that draw with others or from pictures only."""
    for name, kinds in _TABLE.channels.items():
        shape = denoiser[name].shape if name in denoiser else ()
        if what := kinds.get(shape[1]) if len(shape) > 1 else None:
            raise BackendError(
                f"{file} is an {what} model, which does not draw from a prompt alone: use the "
                "model that it was made from"
            )
    if any(name.startswith("conditioner.embedders.0.model.") for name in tensors):
        raise BackendError(
            f"{file} is the refiner of Stable Diffusion XL, which finishes pictures of another "
            "model: use the base model"
        )


def is_file(model: str) -> bool:
    """Return whether ``model`` names a file, there or not, rather than a folder or a repository."""
    place = Path(model).expanduser()
    return (place.suffix.lower() in (SUFFIX, *_OTHERS) and not place.is_dir()) or place.is_file()


def read_header(file: Path) -> dict[str, Stored]:
    """Return the tensors of the safetensors ``file`` by name.

    Raises ``BackendError`` that says what is wrong with it, or which other kind of file it is.
    """
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            first = stream.read(64)
            length = int.from_bytes(first[:8], "little")
            if what := _other_kind(file, first):
                raise BackendError(f"{file} is {what}")
            stream.seek(8)
            header = json.loads(stream.read(length)) if 8 + length <= size else None
        if header is None:
            raise ValueError(f"its header should have {length} bytes, the file has {size}")
        header.pop("__metadata__", None)
        found = {name: Stored(one["dtype"], tuple(one["shape"])) for name, one in header.items()}
        end = 8 + length + max((one["data_offsets"][1] for one in header.values()), default=0)
    except FileNotFoundError:
        raise BackendError(f"{file} is missing: copy it there") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackendError(f"{file} is damaged ({error}): copy or download it again") from error
    if end > size:
        raise BackendError(
            f"{file} is damaged (it has {size} of {end} bytes): copy or download it again"
        )
    return found


_PICKLES = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04")


def _other_kind(file: Path, first: bytes) -> str:
    """Return what ``file`` is by its ``first`` bytes, with a remedy; empty: perhaps safetensors."""
    # The length of a short header may look like the first bytes of a pickle.
    pickled = first.startswith(_PICKLES) and first[8:9] != b"{"
    if pickled or file.suffix.lower() in (".ckpt", ".pt", ".pth", ".pkl"):
        return (
            "a pickle, and reading one runs whatever code its maker put into it, so that it is "
            "never read: use the *.safetensors file of the same model, or convert it with "
            "torch.load(FILE, weights_only=True) and safetensors.torch.save_file"
        )
    text = first.lstrip().lower().decode("latin-1")
    return next((one.what for one in _TABLE.other_files if text.startswith(one.begins)), "")
