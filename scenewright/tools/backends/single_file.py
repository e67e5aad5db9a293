"""Models in one file: found, checked and loaded part by part into the pipeline of their family.

The names of tensors are converted by diffusers' own functions, first without numbers, so that what
does not fit is told before weights are read. What a file lacks (configurations, tokenizers, often
text encoders and autoencoder) comes from a folder in the diffusers layout: the profile's, the
family's repository in the hub's cache, or one that is written from what the package has.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from scenewright.config.settings import user_cache
from scenewright.core.error_text import error_text
from scenewright.core.ports.backend import BackendError
from scenewright.providers.hub.architectures import Architecture, read_architectures
from scenewright.providers.hub.needs import INDEX, Need, on_the_hub
from scenewright.providers.hub.single_file import SingleFile
from scenewright.tools.backends.clip_tokenizer import clip_tokenizer
from scenewright.tools.backends.model_folder import (
    ModelFolder,
    denoiser_of,
    find,
    index_of,
    require_cached,
)
from scenewright.tools.backends.pipeline import quiet

if TYPE_CHECKING:
    import torch

Tensors = dict[str, Any]


def open_file(file: Path, base_model: str | None = None, variant: str | None = None) -> ModelFolder:
    """Return the model whose weights are in ``file``, and in ``base_model`` what it lacks.

    ``base_model`` is a folder or hub id of a whole model; None: that of the file's family. No
    weights are read. Raises ``BackendError`` that says what the file is and what is missing.
    """
    held = SingleFile.read(file)
    folder = _folder_for(held, base_model, variant)
    index = index_of(folder)
    denoiser = denoiser_of(index) or ""
    if held.layout is None:
        held = held.named(denoiser)
    elif denoiser != held.layout.denoiser:
        raise BackendError(
            f"{file} is a {held.title} model, and {folder} holds a {index.get('_class_name')}: "
            f"name a model of its family in 'base_model', such as {held.repository}"
        )
    parts = [part for part in held.prefixes if isinstance(index.get(part), list)]
    model = ModelFolder.open(folder, without=parts)
    import torch

    shapes: dict[str, dict[str, tuple[int, ...]]] = {}
    with quiet():
        for part in parts:
            # Tensors without numbers show whether the file has what the class asks for.
            stand_ins = {
                name: torch.empty(held.tensors[stored].shape, device="meta")
                for name, stored in held.names(part).items()
            }
            checked = _checked(held, part, empty_part(model, part), stand_ins)
            shapes[part] = {name: tuple(one.shape) for name, one in checked.items()}
    return model.model_copy(update={"file": held, "given": shapes})


def load_parts(model: ModelFolder, dtype: torch.dtype) -> dict[str, Any]:
    """Return the parts of ``model`` that are in its file, computing in ``dtype``.

    Raises ``BackendError`` if they do not load.
    """
    if model.file is None:
        return {}
    held = model.file
    try:
        return {part: _loaded(held, part, empty_part(model, part), dtype) for part in model.given}
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        raise BackendError(
            f"{held.file} does not load ({error_text(error)}): copy or download it again"
        ) from error


def _folder_for(held: SingleFile, base_model: str | None, variant: str | None) -> Path:
    if base_model is not None and not on_the_hub(base_model):
        return find(base_model)
    if held.whole and base_model is None:
        return _built_in(held)
    own = "the denoiser alone" if len(held.prefixes) == 1 else " and ".join(held.prefixes)
    repository = base_model or held.repository
    if not repository:
        raise BackendError(
            f"{held.file} is of a family that single files are not read of by themselves: name the "
            "folder or hub id of the whole model that it was made from in 'base_model'"
        )
    need = Need(repository, ("backend",), "pipeline", variant, without=tuple(held.prefixes))
    try:
        return require_cached(need, f"diffusers:{held.file}" if base_model is None else "PROFILE")
    except BackendError as error:
        raise BackendError(
            f"{held.file} holds {own} of a {held.title} model; the rest comes from "
            f"{repository}, or from a whole model of the family that 'base_model' names: {error}"
        ) from error


def _built_in(held: SingleFile) -> Path:
    """Return a folder with configurations and tokenizers for ``held``, written once."""
    architecture = read_architectures()[held.repository]
    contents: dict[str, Any] = {INDEX: architecture.index()}
    for name, part in architecture.parts.items():
        if part.weighs:
            known = {"_class_name": part.name} if part.library == "diffusers" else {}
            contents[f"{name}/config.json"] = known | part.config
        elif part.name.endswith("Scheduler"):
            config = {"_class_name": part.name, **part.config}
            # Marks in the file ask for settings of the scheduler.
            if "ztsnr" in held.tensors:
                config["rescale_betas_zero_snr"] = True
            if "v_pred" in held.tensors:
                config["prediction_type"] = "v_prediction"
            contents[f"{name}/scheduler_config.json"] = config
    text = json.dumps(contents, sort_keys=True)
    stem = held.repository.rpartition("/")[2]
    folder = user_cache("single-files") / f"{stem}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    if not folder.is_dir():
        try:
            _write(folder, contents, architecture)
        except OSError as error:
            raise BackendError(
                f"{folder} cannot be written ({error}): set XDG_CACHE_HOME to a folder of yours"
            ) from error
    return folder


def _write(folder: Path, contents: Mapping[str, Any], architecture: Architecture) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as temporary:
        unfinished = Path(temporary) / folder.name
        for name, part in architecture.parts.items():
            if part.name == "CLIPTokenizer":
                clip_tokenizer(**part.config).save_pretrained(unfinished / name)
        for name, content in contents.items():
            (unfinished / name).parent.mkdir(parents=True, exist_ok=True)
            (unfinished / name).write_text(json.dumps(content, indent=1), encoding="utf-8")
        try:
            unfinished.rename(folder)
        except OSError:
            # Another process was faster.
            if not folder.is_dir():
                raise


def _loaded(held: SingleFile, part: str, model: Any, dtype: torch.dtype) -> Any:
    """Return ``model``, a part without numbers, with those of the file."""
    import torch
    from safetensors import safe_open

    with safe_open(held.file, framework="pt") as stored:
        given: Tensors = {}
        for name, original in held.names(part).items():
            tensor = stored.get_tensor(original)
            if (scale := held.scales.get(original)) is not None:
                factor = stored.get_tensor(scale).float()
                # One factor, or one for each row.
                if factor.numel() > 1:
                    factor = factor.reshape(-1, *[1] * (tensor.ndim - 1))
                tensor = torch.mul(tensor.float(), factor).to(dtype)
            elif tensor.is_floating_point():
                tensor = tensor.to(dtype)
            given[name] = tensor
    model.load_state_dict(_checked(held, part, model, given), strict=False, assign=True)
    if hasattr(model, "tie_weights"):
        model.tie_weights()
    model.to(dtype)
    if dtype == torch.float16:
        # T5 has layers whose values that format does not hold.
        wide = tuple(getattr(model, "_keep_in_fp32_modules", None) or ())
        for name, layer in model.named_modules():
            if name.rpartition(".")[2] in wide:
                layer.float()
    return model


def empty_part(model: ModelFolder, part: str) -> Any:
    """Return the model of a part by its configuration, whose weights have no memory."""
    import diffusers
    import transformers
    from accelerate import init_empty_weights

    (library, name), place = model.index[part], model.place(part)
    kind: Any = getattr(diffusers if library == "diffusers" else transformers, name, None)
    if kind is None:
        raise BackendError(f"{library} has no class {name!r}: install a newer {library}")
    with init_empty_weights():
        if library == "diffusers":
            return kind.from_config(kind.load_config(place, local_files_only=True)).eval()
        config = kind.config_class.from_pretrained(place, local_files_only=True)
        return kind(config).eval()


def _checked(held: SingleFile, part: str, model: Any, given: Tensors) -> Tensors:
    """Return the tensors of ``model`` among those of the file, by their names in ``model``."""
    kind = type(model).__name__
    wanted = model.state_dict()
    tied = set(getattr(model, "all_tied_weights_keys", None) or ())
    try:
        found = convert_names(model, given)
    except Exception as error:
        raise BackendError(
            f"the {part} in {held.file} is not a {kind} (unknown tensor {error_text(error, 200)}): "
            "name a whole model of its family in 'base_model'"
        ) from error
    check_fits(wanted, found, f"the {part} in {held.file}", kind, tied)
    return {name: found[name] for name in wanted if name in found}


def check_fits(
    wanted: Mapping[str, Any],
    given: Mapping[str, Any],
    what: str,
    kind: str,
    optional: set[str] | None = None,
) -> None:
    """Raise ``BackendError`` if ``given`` lacks tensors of the class ``kind`` or has other shapes.

    ``what`` they are of, for the message; those ``optional`` may lack.
    """
    lost = [name for name in wanted if name not in given and name not in (optional or ())]
    if lost:
        raise BackendError(
            f"{what} is not of a {kind}: {len(lost)} of {len(wanted)} tensors are missing, such as "
            f"{lost[0]}; use one of this model's kind"
        )
    for name, one in wanted.items():
        if name in given and one.shape != given[name].shape:
            raise BackendError(
                f"{what} is of another size of {kind}: {name} has the shape "
                f"{tuple(given[name].shape)} there and {tuple(one.shape)} by the configuration; "
                "use one of this model's size"
            )


def convert_names(model: Any, given: Tensors) -> Tensors:
    """Return ``given`` by the names that ``model``, a part of a pipeline, has for its tensors.

    Raises what diffusers' functions raise for tensors of another layout.
    """
    from diffusers.loaders import single_file_utils
    from diffusers.loaders.single_file_model import SINGLE_FILE_LOADABLE_CLASSES

    kind, wanted = type(model).__name__, model.state_dict()
    if wanted.keys() <= given.keys():
        return given
    change: Callable[..., Tensors] | None
    if kind.startswith("Autoencoder"):
        change = single_file_utils.convert_ldm_vae_checkpoint
    elif any("resblocks" in name for name in given):
        named = single_file_utils.convert_open_clip_checkpoint(model, given, prefix="")
        return _text_names(wanted, named)
    elif kind not in SINGLE_FILE_LOADABLE_CLASSES:
        return _text_names(wanted, given)
    else:
        change = SINGLE_FILE_LOADABLE_CLASSES[kind]["checkpoint_mapping_fn"]
    if kind == "UNet2DConditionModel":
        given = {f"model.diffusion_model.{name}": one for name, one in given.items()}
    if kind == "FluxTransformer2DModel":
        return _flux_names(change, model, given)
    # The functions take tensors out of what they are given.
    found = change(checkpoint=dict(given), config=model.config)
    return {name: given[name] for name in wanted if name in given} | found


def _flux_names(change: Callable[..., Tensors], model: Any, given: Tensors) -> Tensors:
    """Return the tensors of a FLUX.1 denoiser of any width: diffusers knows the published one."""
    import torch

    known, width = 3072, model.inner_dim
    fused = {name: one for name, one in given.items() if ".linear1." in name}
    stand_ins = {name: torch.empty(7 * known, device="meta") for name in fused}
    found = change(checkpoint=given | stand_ins, config=model.config)
    for name, one in fused.items():
        block, end = name.split(".")[1], name.rpartition(".")[2]
        pieces = one.split([width, width, width, one.shape[0] - 3 * width])
        for part, piece in zip(
            ("attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp"), pieces, strict=True
        ):
            found[f"single_transformer_blocks.{block}.{part}.{end}"] = piece
    return found


def _text_names(wanted: Mapping[str, Any], given: Tensors) -> Tensors:
    """Return the tensors of a text encoder by the names of its class.

    Versions of the classes differ in a first level of the names.
    """
    import torch

    plain = {_inner(name): one for name, one in given.items()}
    found = {name: plain[_inner(name)] for name in wanted if _inner(name) in plain}
    projection = wanted.get("text_projection.weight")
    if projection is not None and "text_projection.weight" not in found:
        # Files of Stable Diffusion 3 leave it out where it changes nothing.
        like = next(iter(given.values()))
        found["text_projection.weight"] = torch.eye(
            *projection.shape, dtype=like.dtype, device=like.device
        )
    return found


def _inner(name: str) -> str:
    for level in ("text_model.", "model."):
        name = name.removeprefix(level)
    return name
