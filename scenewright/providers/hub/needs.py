"""Hub repositories of a profile: which files it needs, and what is known of them offline.

Known are licence, access and about the size of a repository. Also helpers for sizes, free space and
digests.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
import shutil
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import Field

from scenewright.config.local_images import LoraSpec, QuantizationSpec
from scenewright.config.profiles import (
    LOCAL_BACKEND,
    BackendSpec,
    Profile,
    local_model_of,
    split_judge,
)
from scenewright.core.ports.backend import BackendError
from scenewright.core.validation import FrozenModel
from scenewright.providers.hub.single_file import SingleFile, is_file

TABLE = Path(__file__).with_name("known.toml")
GB = 10**9


class KnownRepository(FrozenModel):
    """A known repository."""

    licence: str
    """The hub's name of its licence."""
    gated: bool = False
    """Whether the licence must be accepted on the hub's page first."""
    gigabytes: dict[str, float] = Field(default_factory=dict)
    """Approximate download in 10^9 bytes, by ``""`` (the model), a variant's name, or a path."""
    pipeline: str | None = None
    """Class of its diffusers pipeline; None: not a pipeline."""
    distilled: bool = False
    """Whether its denoiser is distilled to need no guidance."""
    as_of: date
    """Date of this information."""


@cache
def known_repositories() -> Mapping[str, KnownRepository]:
    """Return the built-in table by repository."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {name: KnownRepository.model_validate(entry) for name, entry in table.items()}


def size_words(size: int | None) -> str:
    """Return a size in decimal units as the hub shows them: ``6.9 GB``, ``45 MB``."""
    if size is None:
        return "size unknown"
    for unit, scale in (("GB", GB), ("MB", 10**6), ("kB", 10**3)):
        if size >= scale:
            value = size / scale
            return f"{value:.1f} {unit}" if value < 100 and unit == "GB" else f"{value:.0f} {unit}"
    return f"{size} bytes"


INDEX = "model_index.json"
MODULAR_INDEX = "modular_model_index.json"
"""Index of a pipeline that diffusers composes of blocks."""
DEFAULTS = "scenewright.json"
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
"""Name of a repository: owner and name."""
IMAGE_ENCODER = "image_encoder"
"""Folder name of an adapter's encoder; other names with a slash are repositories."""
UPSAMPLER = "prompt_upsampler"
"""Part that writes a prompt in full; where it is wanted, it comes from a repository of its own."""
UPSAMPLER_PROCESSOR = "prompt_upsampler_processor"
"""Its processor, in the same folder."""
UNUSED_PARTS = ("safety_checker", UPSAMPLER, UPSAMPLER_PROCESSOR)
"""Pipeline parts that are never loaded from the pipeline's own folder."""

Kind = Literal["pipeline", "model", "files"]

_SMALL = {".json", ".txt", ".model", ".jinja", ".tiktoken"}
_WEIGHTS = re.compile(
    r"(?P<base>[\w-]+?)(?:\.(?P<variant>\w+))?(?:-\d{5}-of-\d{5})?(?:\.(?P<late>\w+))?\.safetensors"
)
_SHARD_INDEX = re.compile(r"(?P<base>[\w-]+)\.safetensors\.index(?:\.(?P<variant>\w+))?\.json")
_STANDARD = {"diffusion_pytorch_model", "model"}
CARD = re.compile(r"README\.md|LICEN[CS]E[\w.-]*", re.IGNORECASE)
"""Names of model cards and texts of licences."""


@dataclass(frozen=True, slots=True)
class Need:
    """Files of one repository."""

    repository: str
    """``owner/name``."""
    parts: tuple[str, ...]
    """Purpose: ``backend``, ``adapter``, ``image encoder``, ``LoRA``, ``denoiser``,
    ``prompt upsampler``, ``judge``, ``report judge``.
    """
    kind: Kind
    """``pipeline`` (diffusers layout), ``model`` (transformers layout), or some ``files``."""
    variant: str | None = None
    """Weights variant of a pipeline; the plain weights where a part has none of it."""
    patterns: tuple[str, ...] = ()
    """Of ``files``: names, or patterns of names with ``*`` in their last part."""
    without: tuple[str, ...] = ()
    """Parts of a pipeline whose weights come from elsewhere."""

    def known_bytes(self) -> int | None:
        """Approximate bytes by the built-in table; None if unknown."""
        entry = known_repositories().get(self.repository)
        if entry is None or self.without:
            return None
        keys = {""}
        if self.kind == "files":
            keys = {p.rpartition("/")[0] if "*" in p else p for p in self.patterns}
        elif self.kind == "pipeline" and self.variant in entry.gigabytes:
            keys = {self.variant}
        if not keys or not keys <= entry.gigabytes.keys():
            return None
        return round(sum(entry.gigabytes[key] for key in keys) * GB)


def needs_of(
    profile: Profile,
    *,
    backend: bool = True,
    judges: bool = True,
    report_judges: bool = True,
    realism_judges: bool = False,
    realism_report_judges: bool = False,
) -> tuple[Need, ...]:
    """Return the hub files that ``profile`` needs, each repository once.

    Local folders, models of accounts and built-in models need nothing. The flags leave out models
    that are provided otherwise or not used; judging realism needs the profile's detector as well.
    """
    found = _of_backend(profile.backend) if backend else []
    detector = (profile.detector,) if profile.detector and ":" in profile.detector else ()
    for wanted, part, specs in (
        (judges, "judge", profile.judges),
        (report_judges, "report judge", profile.report_judges),
        (realism_judges, "realism judge", profile.realism_judges),
        (realism_report_judges, "realism report judge", profile.realism_report_judges),
        (realism_judges or realism_report_judges, "detector", detector),
    ):
        for spec in specs if wanted else ():
            found += needs_of_spec(spec, part)
    return _on_the_hub(found)


def needs_of_spec(spec: str, part: str = "model") -> tuple[Need, ...]:
    """Return the hub files of ``kind:model``.

    ``diffusers:…`` is a pipeline; ``local:…``, ``decision:local/…`` and ``olip:…`` (judges) or
    ``transformers:…`` (a detector) are models.
    """
    kind, model = split_judge(spec)
    local = local_model_of(spec)
    if kind == LOCAL_BACKEND and is_file(model):
        return _on_the_hub(_of_file(model, None, None, part))
    if kind == LOCAL_BACKEND:
        return _on_the_hub([Need(model, (part,), "pipeline")])
    own = local is not None or kind in ("olip", "transformers")
    return _on_the_hub([Need(local or model, (part,), "model")] if own else [])


def on_the_hub(model: str) -> bool:
    """Return whether ``model`` is a hub repository, not a folder of this machine or the package."""
    return (
        HUB_ID.fullmatch(model) is not None
        and not model.startswith("miniature/")
        and not is_file(model)
        and not Path(model).expanduser().is_dir()
    )


def encoder_apart(image_encoder: str) -> bool:
    """Return whether an adapter's encoder is a repository of its own.

    ``openai/clip-vit-large-patch14`` is one, a folder like ``models/image_encoder`` is not.
    """
    owner, slash, name = image_encoder.rpartition("/")
    return bool(owner and slash) and name != IMAGE_ENCODER


def encoder_folder(subfolder: str, image_encoder: str) -> str:
    """Return an adapter's encoder relative to the repository: the rule of ``load_ip_adapter``."""
    if "/" in image_encoder:
        return image_encoder.strip("/")
    return f"{subfolder}/{image_encoder}".strip("/")


def folder_patterns(folder: str) -> tuple[str, ...]:
    """Return patterns of the files of a transformers model in a sub-folder."""
    return (f"{folder}/*.json", f"{folder}/*.safetensors")


def replaced_parts(quantization: QuantizationSpec | None) -> tuple[str, ...]:
    """Return the parts of a pipeline whose weights a quantized file replaces."""
    return ("transformer",) if quantization is not None and quantization.method == "gguf" else ()


def _of_backend(spec: BackendSpec) -> list[Need]:
    if spec.kind != LOCAL_BACKEND or spec.model == "miniature":
        return []
    without = replaced_parts(spec.quantization)
    if is_file(spec.model):
        found = _of_file(spec.model, spec.base_model, spec.variant, "backend")
    else:
        found = [Need(spec.model, ("backend",), "pipeline", spec.variant, without=without)]
    if spec.quantization is not None and without:
        found.append(_of_weights(spec.quantization, "denoiser", ".gguf"))
    found += [_of_weights(lora, "LoRA", ".safetensors") for lora in spec.loras]
    if spec.prompt_upsampler is not None:
        found.append(Need(spec.prompt_upsampler, ("prompt upsampler",), "model"))
    if (adapter := spec.adapter) is None:
        return found
    weights = f"{adapter.subfolder}/{adapter.weight_name}".strip("/")
    found.append(Need(adapter.repository, ("adapter",), "files", patterns=(weights,)))
    part, encoder = ("image encoder",), adapter.image_encoder
    if not encoder_apart(encoder):
        patterns = folder_patterns(encoder_folder(adapter.subfolder, encoder))
        found.append(Need(adapter.repository, part, "files", patterns=patterns))
    elif not (Path(adapter.repository).expanduser() / encoder).is_dir():
        found.append(Need(encoder, part, "model"))
    return found


def _of_file(file: str, base: str | None, variant: str | None, part: str) -> list[Need]:
    """Return what a model in one file needs besides; nothing of a file that cannot be read."""
    try:
        held = SingleFile.read(Path(file).expanduser())
    except BackendError:
        return []
    place = base or ("" if held.whole else held.repository)
    return [Need(place, (part,), "pipeline", variant, without=tuple(held.prefixes))]


def _of_weights(source: LoraSpec | QuantizationSpec, part: str, suffix: str) -> Need:
    patterns = (source.weight_name or f"*{suffix}",)
    return Need(source.repository, (part,), "files", patterns=patterns)


def _on_the_hub(needs: Iterable[Need]) -> tuple[Need, ...]:
    """Return those of ``needs`` that are of the hub, each repository once."""
    merged: dict[tuple[str, Kind, str | None], Need] = {}
    for need in needs:
        if not on_the_hub(need.repository):
            continue
        key = (need.repository, need.kind, need.variant)
        if first := merged.get(key):
            need = replace(
                first,
                parts=tuple(dict.fromkeys((*first.parts, *need.parts))),
                patterns=tuple(dict.fromkeys((*first.patterns, *need.patterns))),
            )
        merged[key] = need
    return tuple(merged.values())


def plain_index(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pipeline's index of either kind, with library and class of each part."""
    found = dict(content)
    for part, entry in content.items():
        match entry:
            case [_, _, {"type_hint": [str(library), str(kind)]}]:
                found[part] = [library, kind]
            case [library, kind, dict()]:
                found[part] = [library, kind]
    return found


def parts_of(index: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the parts that a pipeline's index names and that are loaded."""
    return tuple(
        key
        for key, value in index.items()
        if isinstance(value, list)
        and any(isinstance(name, str) for name in value)
        and key not in UNUSED_PARTS
    )


def wanted_files(
    need: Need, names: Iterable[str], index: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """Return the needed files of a repository, sorted.

    Weights only as safetensors.

    ``index`` is a pipeline's, as :func:`plain_index` gives it; without it every folder that
    could be a part counts as one.
    """
    names = set(names)
    if need.kind == "files":
        return tuple(sorted(name for name in names if _fits(name, need.patterns)))
    if need.kind == "model":
        return tuple(sorted(_of_model(_inside("", names), need.variant)))
    folders = {folder for folder, slash, _ in (name.partition("/") for name in names) if slash}
    parts = parts_of(index) if index is not None else folders.difference(UNUSED_PARTS)
    found = names & {INDEX, MODULAR_INDEX, DEFAULTS}
    for part in parts:
        for file in _of_model(_inside(f"{part}/", names), need.variant):
            weighs = _WEIGHTS.fullmatch(file) or _SHARD_INDEX.fullmatch(file)
            if part not in need.without or not weighs:
                found.add(f"{part}/{file}")
    return tuple(sorted(found))


def missing_files(
    need: Need, names: Iterable[str], index: Mapping[str, Any] | None
) -> tuple[str, ...]:
    """Return the required files of this kind of model that are missing in ``names``, sorted."""
    have = set(names)
    if need.kind == "files":
        return tuple(
            sorted(p for p in need.patterns if not any(_fits(name, (p,)) for name in have))
        )
    if need.kind == "model":
        return _without_weights("", have)
    if index is None or not have & {INDEX, MODULAR_INDEX}:
        return (INDEX,)
    found: tuple[str, ...] = ()
    for part in parts_of(index):
        if not any(name.startswith(f"{part}/") for name in have):
            found += (f"{part}/",)
        elif f"{part}/config.json" in have and part not in need.without:
            found += _without_weights(f"{part}/", have)
    return found


def _inside(folder: str, names: Iterable[str]) -> set[str]:
    """Return the names of the files in ``folder``, which is empty or ends with a slash."""
    inside = {name.removeprefix(folder) for name in names if name.startswith(folder)}
    return {name for name in inside if "/" not in name}


def _without_weights(folder: str, have: set[str]) -> tuple[str, ...]:
    files = _inside(folder, have)
    config = () if "config.json" in files else (f"{folder}config.json",)
    weighs = any(_WEIGHTS.fullmatch(file) for file in files)
    return config if weighs else (*config, f"{folder}*.safetensors")


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    # A pattern covers one folder: `*` does not match below it.
    depth = name.count("/")
    return any(depth == p.count("/") and fnmatch.fnmatchcase(name, p) for p in patterns)


def _of_model(files: set[str], variant: str | None) -> set[str]:
    """Return the needed files of one folder: configuration, tokenizer and one set of weights."""
    weights = {file: match for file in files if (match := _WEIGHTS.fullmatch(file))}
    standard = {f: m for f, m in weights.items() if m["base"] in _STANDARD} or weights
    variants = {file: match["variant"] or match["late"] for file, match in standard.items()}
    if variant not in variants.values():
        variant = None
    found = {file for file, own in variants.items() if own == variant}
    for file in files:
        index = _SHARD_INDEX.fullmatch(file)
        of_shards = index is not None and index["variant"] == variant
        if of_shards or (".index." not in file and PurePosixPath(file).suffix in _SMALL):
            found.add(file)
    return found


PARTIAL = ".incomplete"
"""Suffix of an incomplete file."""
_BLOCK = 1 << 22


def free_bytes(folder: Path) -> int:
    """Return the free bytes at ``folder``, which may not exist yet."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def sha256_of(place: Path, checked: Callable[[int], None]) -> str:
    """Return the SHA-256 (hex) of ``place``; ``checked`` receives the number of bytes read."""
    digest = hashlib.sha256()
    with place.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
            checked(len(block))
    return digest.hexdigest()
