"""A model's folder in the diffusers layout: find it, read it, check it, name its content.

Nothing here builds a model. ``model_index.json`` names the parts, or ``modular_model_index.json``
those of a pipeline that is composed of blocks; a file ``scenewright.json`` beside it may give this
model's own defaults::

    {"steps": 24, "guidance": 4.0, "guidance_rescale": 0.0, "size": [128, 128]}

Models that share parts lie side by side: ``"parts_of": "NAME"`` names the folder beside this one
that holds the parts which are not in this one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, ValidationError

from scenewright.core.closed_vocabulary import ClosedVocabulary, VocabularyError, read_vocabulary
from scenewright.core.error_text import error_text
from scenewright.core.ports import MAX_SIDE, MAX_STEPS
from scenewright.core.ports.backend import BackendError
from scenewright.providers.hub.cache import PULL, about, survey
from scenewright.providers.hub.needs import (
    DEFAULTS,
    HUB_ID,
    INDEX,
    MODULAR_INDEX,
    UPSAMPLER,
    Need,
    parts_of,
    plain_index,
)
from scenewright.providers.hub.single_file import SUFFIX, SingleFile, is_file, read_header
from scenewright.tools.backends.families import Family, family_of

LongPrompts = Literal["chunks", "cut"]
_BLOB = re.compile(r"[0-9a-f]{64}")
_CONTENT = ("*.json", "*.safetensors", "*.txt", "*.model")
_VOCABULARIES = ("tokenizer.json", "vocab.json", "vocab.txt", "*.model")
_BYTES = ("ByT5Tokenizer",)
"""Tokenizers of bytes, which have no vocabulary."""
_digests: dict[tuple[str, int, int], str] = {}


class ModelDefaults(BaseModel):
    """Default settings of a model, from its ``scenewright.json``."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    steps: int | None = Field(default=None, ge=1, le=MAX_STEPS)
    """Denoising steps."""
    guidance: float | None = Field(default=None, ge=0.0, le=100.0)
    """Classifier-free guidance scale."""
    guidance_rescale: float = Field(default=0.0, ge=0.0, le=1.0)
    """φ of Lin et al. 2023 (arXiv 2305.08891), section 3.4; for zero-terminal-SNR models."""
    size: tuple[int, int] | None = None
    """(width, height) in pixels."""
    parts_of: str | None = Field(default=None, pattern=r"^[\w-][\w.-]*$")
    """Name of the folder beside the model's own that holds the parts which its own lacks."""
    long_prompts: LongPrompts | None = None
    """Whether a prompt that is longer than the input of CLIP's text encoders is read in chunks or
    cut; None: in chunks where that input has the published length."""


class ModelFolder(BaseModel):
    """A folder with a whole pipeline in it."""

    model_config = ConfigDict(frozen=True)

    folder: Path
    """Its path on this machine."""
    pipeline_class: str
    """Name of the pipeline's class in diffusers."""
    parts: tuple[str, ...]
    """Names of the parts that are loaded, each a sub-folder."""
    multiple: int
    """Width and height must be multiples of this many pixels."""
    native_size: tuple[int, int]
    """(width, height) in pixels that the denoiser was trained on."""
    defaults: ModelDefaults
    """The model's own defaults."""
    distilled: bool = False
    """Whether it was made for few steps, by the signs of its family."""
    vocabulary: ClosedVocabulary | None = None
    """The words that it can draw, where they are few; None: any."""
    upsampler: Path | None = None
    """Folder of the model that writes prompts in full; None: none does."""
    file: InstanceOf[SingleFile] | None = None
    """The file that weights of its parts are in; None: all are in the folder."""
    given: Mapping[str, Mapping[str, tuple[int, ...]]] = Field(default_factory=dict)
    """Shapes of the weights that come from the file, by part and name."""

    @classmethod
    def open(cls, folder: Path, *, without: Collection[str] = ()) -> Self:
        """Read and check ``folder``; raises ``BackendError`` naming the file that is wrong.

        The weights of the parts ``without`` come from elsewhere.
        """
        file = index_file(folder)
        index = index_of(folder)
        name = index.get("_class_name")
        if not isinstance(name, str):
            raise BackendError(f"{file}: '_class_name' must name a diffusers pipeline")
        # The safety checker is never loaded, so its files do not decide a picture.
        parts, defaults = parts_of(index), read_defaults(folder / DEFAULTS)
        places = {part: _place(folder, part, defaults) for part in parts}
        for part, place in places.items():
            if not place.is_dir():
                raise BackendError(
                    f"{folder}: the part {part!r} that {file.name} names is missing: copy it there"
                )
            if part not in without:
                check_weights(place)
            if part.startswith("tokenizer"):
                _check_vocabulary(place)
        denoiser = denoiser_of(parts)
        config: Mapping[str, Any] = {}
        if denoiser is not None:
            config = read_json(places[denoiser] / "config.json")
            own, wanted = config.get("_class_name"), index[denoiser][-1]
            if isinstance(own, str) and isinstance(wanted, str) and own != wanted:
                raise BackendError(
                    f"{places[denoiser]} holds a {own}, and {file.name} asks for a {wanted}: the "
                    "checkpoint is of another family; copy the model again"
                )
        pixels = pixels_per_latent(read_config(_place(folder, "vae", defaults)))
        match config.get("sample_size"):
            case int(side):
                native = side * pixels, side * pixels
            case [int(height), int(width)]:
                native = width * pixels, height * pixels
            case _:
                native = 1024, 1024
        multiple = pixels * (2 if denoiser == "transformer" else 1)
        family = family_of(name, parts)
        try:
            vocabulary = read_vocabulary(folder)
        except VocabularyError as error:
            raise BackendError(str(error)) from error
        return cls(
            folder=folder,
            pipeline_class=name,
            parts=parts,
            multiple=max(8, multiple, family.size_multiple),
            native_size=native,
            defaults=defaults,
            distilled=is_distilled(family, folder, index),
            vocabulary=vocabulary,
        )

    @property
    def denoiser(self) -> str | None:
        """The part that runs in every step."""
        return denoiser_of(self.parts)

    def with_upsampler(self, model: str) -> Self:
        """Return this model with the prompt upsampler ``model``, a folder or a hub id.

        Raises ``BackendError`` if the pipeline has none, or if ``model`` is not here or of another
        class.
        """
        wanted = family_of(self.pipeline_class, self.parts).upsampler
        if wanted is None:
            raise BackendError(
                f"{self.pipeline_class} has no prompt upsampler: leave 'prompt_upsampler' out; "
                "FLUX 3 Image Klein has one"
            )
        folder = find_files(model, ["*.safetensors"])
        config = read_json(folder / "config.json")
        if wanted not in (config.get("architectures") or ()):
            named = ", ".join(map(str, config.get("architectures") or ())) or "nothing"
            raise BackendError(
                f"the prompt upsampler {folder} is a model of another class: its config.json "
                f"names {named}, and {self.pipeline_class} needs {wanted}"
            )
        check_weights(folder)
        _check_vocabulary(folder)
        return self.model_copy(update={"parts": (*self.parts, UPSAMPLER), "upsampler": folder})

    def place(self, part: str) -> Path:
        """Return the folder of one of the parts."""
        if part == UPSAMPLER and self.upsampler is not None:
            return self.upsampler
        return _place(self.folder, part, self.defaults)

    def shapes(self, part: str) -> dict[str, tuple[int, ...]]:
        """Return the shapes of a part's weights by name, from the headers of their files."""
        if part in self.given:
            return dict(self.given[part])
        return tensor_shapes(self.place(part).glob("*.safetensors"))

    @property
    def index(self) -> dict[str, Any]:
        """Library and class of each part, by name."""
        index = index_of(self.folder)
        if self.upsampler is not None:
            kind = family_of(self.pipeline_class, self.parts).upsampler
            index[UPSAMPLER] = ["transformers", kind]
        return index

    def digest(self) -> str:
        """Return the SHA-256 (hex) over the names, sizes and contents of the files that are loaded.

        Without those of the prompt upsampler, whose folder may lie anywhere.
        """
        files = [index_file(self.folder), self.folder / DEFAULTS]
        for part in self.parts:
            if part != UPSAMPLER:
                own = content_files(self.place(part))
                files += [file for file in own if part not in self.given or file.suffix != SUFFIX]
        found = digest_files(self.folder.parent if self.defaults.parts_of else self.folder, files)
        if self.file is None:
            return found
        weights = digest_files(self.file.file.parent, [self.file.file])
        return hashlib.sha256(f"{found} {weights}".encode()).hexdigest()


def _place(folder: Path, part: str, defaults: ModelDefaults) -> Path:
    own = folder / part
    if defaults.parts_of is None or own.is_dir():
        return own
    return folder.parent / defaults.parts_of / part


def denoiser_of(parts: Collection[str]) -> str | None:
    """Return the part that runs in every step; None if no name of ``parts`` tells it."""
    return next((part for part in ("unet", "transformer", "prior") if part in parts), None)


def is_distilled(family: Family, folder: Path, index: Mapping[str, Any]) -> bool:
    """Return whether the model in ``folder`` is one that its family distilled to few steps."""
    settings = read_config(folder / "transformer")
    return family.few is not None and family.few.applies(folder, index, settings)


def find(model: str, variant: str | None = None, without: tuple[str, ...] = ()) -> Path:
    """Return the local folder of ``model``, a path or a hub id whose files are in the hub's cache.

    The weights of the parts ``without`` may be missing. The network is never asked. Raises
    ``BackendError`` that says what is missing, how large it is, and how to get it.
    """
    path = Path(model).expanduser()
    if model and path.is_dir():
        return path.resolve()
    if is_file(model) or not HUB_ID.fullmatch(model):
        raise BackendError(
            f"there is no model folder {model!r}: give the path of a folder with a {INDEX} in it "
            "or of a *.safetensors file, or a hub id such as "
            "'stabilityai/stable-diffusion-xl-base-1.0'"
        )
    need = Need(model, ("backend",), "pipeline", variant, without=without)
    return require_cached(need, f"diffusers:{model}")


def find_files(repository: str, patterns: list[str]) -> Path:
    """Return the local folder of ``repository`` with files that match ``patterns``.

    ``repository`` is a path or a hub id. Raises ``BackendError`` as :func:`find` does.
    """
    path = Path(repository).expanduser()
    if repository and path.is_dir():
        return path.resolve()
    if not HUB_ID.fullmatch(repository):
        raise BackendError(
            f"there is no folder {repository!r}: give the path of a folder or a hub id "
            "such as 'h94/IP-Adapter'"
        )
    if "*.safetensors" in patterns:
        return require_cached(Need(repository, ("image encoder",), "model"), f"local:{repository}")
    need = Need(repository, ("adapter",), "files", patterns=tuple(patterns))
    return require_cached(need, "PROFILE")


def find_weights(repository: str, name: str, suffix: str, what: str) -> Path:
    """Return a file of weights that ends in ``suffix``; ``what`` it is, for errors.

    ``repository`` is the file itself, or a folder or hub id with a file ``name``; a folder's only
    such file needs no name. Raises ``BackendError``.
    """
    place = Path(repository).expanduser()
    if place.suffix == suffix:
        if name:
            raise BackendError(
                f"{what} {repository} is a file: leave weight_name out, or name its folder as "
                "repository"
            )
        return place
    if name:
        if not name.endswith(suffix):
            raise BackendError(
                f"{what} {repository}: {name} is not a *{suffix} file, and only these are loaded; "
                "name one or convert it"
            )
        return find_files(repository, [name]) / name
    if not place.is_dir():
        raise BackendError(
            f"{what} {repository} needs weight_name, a *{suffix} file of the repository; or there "
            "is no such folder"
        )
    found = sorted(place.glob(f"*{suffix}"))
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        raise BackendError(
            f"{what} {repository} needs weight_name: the folder has {len(found)} *{suffix} files "
            f"({names})"
        )
    return found[0]


def require_cached(need: Need, name: str) -> Path:
    """Return the folder of ``need`` in the hub's cache.

    Raises ``BackendError`` that says how to get it: by pulling ``name``.
    """
    present = survey(need)
    if present.complete and present.folder is not None:
        return present.folder
    gate = ""
    if present.gated:
        gate = (
            f"; it is gated: first accept its licence on https://huggingface.co/{need.repository}, "
            "and log in with `hf auth login` or set HF_TOKEN"
        )
    raise BackendError(
        f"the model {need.repository!r} is not on this machine ({about(present.bytes_needed)}, "
        f"licence {present.licence or 'unknown'}; {present.state()}): get it with `{PULL} {name}`, "
        f"or name a folder of yours instead{gate}"
    )


def index_file(folder: Path) -> Path:
    """Return the file in ``folder`` that names the pipeline's class and parts."""
    plain, modular = folder / INDEX, folder / MODULAR_INDEX
    return modular if modular.is_file() and not plain.is_file() else plain


def index_of(folder: Path) -> dict[str, Any]:
    """Return the pipeline's index in ``folder``: its class, and library and class of each part.

    Raises ``BackendError`` naming the file that is wrong.
    """
    return plain_index(read_json(index_file(folder)))


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in ``path``; raises ``BackendError`` naming it if there is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BackendError(f"{path} is missing: is this the folder of a diffusers model?") from None
    except (OSError, ValueError) as error:
        raise BackendError(f"{path} cannot be read ({error}): copy the file again") from error
    if not isinstance(value, dict):
        raise BackendError(f"{path} must hold a JSON object: copy the file again")
    return value


def check_weights(part: Path) -> None:
    """Check that the weights in the folder ``part`` are there and whole (headers and lengths).

    Folders without a ``config.json`` (schedulers, tokenizers) hold no weights.
    Raises ``BackendError`` naming the file.
    """
    if not (part / "config.json").is_file():
        if not any(part.iterdir()):
            raise BackendError(f"{part} is empty: copy the model again")
        return
    read_json(part / "config.json")
    files = sorted(part.glob("*.safetensors"))
    if not files:
        raise BackendError(
            f"{part} holds no *.safetensors weights: copy them there "
            "(weights in other formats are not loaded; convert them)"
        )
    for file in files:
        check_safetensors(file)


def _check_vocabulary(part: Path) -> None:
    # transformers makes a tokenizer of three tokens, without a word, where the files are missing.
    config = part / "tokenizer_config.json"
    if config.is_file() and read_json(config).get("tokenizer_class") in _BYTES:
        return
    if not any(file for pattern in _VOCABULARIES for file in part.glob(pattern)):
        raise BackendError(
            f"{part} holds no vocabulary (tokenizer.json, vocab.json or a *.model file): "
            "copy the tokenizer again"
        )


def check_safetensors(file: Path) -> None:
    """Check header and length of one weights file; raises ``BackendError`` naming it."""
    if not read_header(file):
        raise BackendError(f"{file} holds no tensors: copy or download it again")


def tensor_shapes(files: Iterable[Path]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors in safetensors ``files``, from their headers, by name.

    A tensor in several files counts once: a variant of the same weights is not loaded too. Raises
    ``BackendError`` naming a file that cannot be read.
    """
    found: dict[str, tuple[int, ...]] = {}
    for file in sorted(files):
        found |= {name: tensor.shape for name, tensor in read_header(file).items()}
    return found


def content_files(part: Path) -> list[Path]:
    """Return the files of a model part that decide what it computes."""
    return sorted({file for pattern in _CONTENT for file in part.rglob(pattern)})


def digest_files(root: Path, files: Iterable[Path]) -> str:
    """SHA-256 (hex) of the names (relative to ``root``), sizes and contents of ``files``.

    Missing files are left out.
    """
    total = hashlib.sha256()
    for file in files:
        if not file.is_file():
            continue
        target, stat = file.resolve(), file.stat()
        key = (str(target), stat.st_size, stat.st_mtime_ns)
        if file.is_symlink() and _BLOB.fullmatch(target.name):
            # A hub cache names the blob of a large file by its SHA-256: gigabytes need no reading.
            digest = target.name
        elif key in _digests:
            digest = _digests[key]
        else:
            with target.open("rb") as stream:
                digest = _digests[key] = hashlib.file_digest(stream, "sha256").hexdigest()
        name = file.relative_to(root).as_posix()
        total.update(f"{name}\0{stat.st_size}\0{digest}\n".encode())
    return total.hexdigest()


def read_config(part: Path) -> dict[str, Any]:
    """Return the configuration in the folder ``part``; empty if it has none."""
    file = part / "config.json"
    return read_json(file) if file.is_file() else {}


def pixels_per_latent(autoencoder: Mapping[str, Any]) -> int:
    """Return how many pixels of a side one latent cell has, by the autoencoder's configuration."""
    if isinstance(halvings := autoencoder.get("temperal_downsample"), list):
        return int(2 ** len(halvings))
    blocks = block_widths(autoencoder)
    return int(2 ** (len(blocks) - 1)) if blocks else 8


def block_widths(autoencoder: Mapping[str, Any]) -> list[int]:
    """Return the channels of the autoencoder's blocks; empty if its configuration has none."""
    blocks = autoencoder.get("block_out_channels", autoencoder.get("decoder_block_out_channels"))
    return blocks if isinstance(blocks, list) else []


def read_defaults(path: Path) -> ModelDefaults:
    """Return the content of a ``scenewright.json``, or nothing.

    Raises ``BackendError`` naming it.
    """
    if not path.exists():
        return ModelDefaults()
    try:
        defaults = ModelDefaults.model_validate(read_json(path))
    except ValidationError as error:
        raise BackendError(f"{path}: {error_text(error, 400)}") from error
    if defaults.size and not all(8 <= side <= MAX_SIDE for side in defaults.size):
        raise BackendError(f"{path}: 'size' {defaults.size} must be in 8…{MAX_SIDE} pixels")
    return defaults
