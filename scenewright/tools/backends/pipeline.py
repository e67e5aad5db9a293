"""Diffusers pipelines built from a folder, silent and ready to draw."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import inspect
import json
import logging
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from scenewright.core.error_text import error_text
from scenewright.core.ports.backend import BackendError
from scenewright.providers.hub.needs import UPSAMPLER, UPSAMPLER_PROCESSOR
from scenewright.tools.backends.late_imports import import_late
from scenewright.tools.backends.model_folder import ModelFolder, index_file, read_json
from scenewright.tools.backends.modular import (
    assemble_pipeline,
    is_modular,
    needed_parts,
    options_of,
)

if TYPE_CHECKING:
    import torch


Dtype = Literal["auto", "float32", "float16", "bfloat16"]
T = TypeVar("T")

_quiet_lock = threading.Lock()
_quiet_depth = 0
_restore: list[tuple[Any, int, bool]] = []
OWN = {"ChannelEditPipeline": "scenewright.tools.backends.channels"}
"""Pipeline classes of this package, and where they are."""


def build_custom_parts(model: ModelFolder) -> dict[str, Any]:
    """Return the parts of ``model`` that the library does not load as they are needed, by name.

    These are processors with a part for videos, which the library loads with torchvision only, and
    the tokenizer of Flux 2, a processor of which the pipeline uses the text half.
    """
    index = model.index
    made = {}
    if (upsampler := model.upsampler) is not None:
        import transformers

        from scenewright.agents.judges.loading import pictures_alone

        kind = _processor_in(upsampler) or "Qwen3VLProcessor"
        made[UPSAMPLER_PROCESSOR] = pictures_alone(getattr(transformers, kind), upsampler)
    for part in model.parts:
        library, kind = index[part]
        if library != "transformers" or not kind.endswith("Processor"):
            continue
        if kind == "AutoProcessor":
            kind = _processor_in(model.folder / part)
        import transformers

        from scenewright.agents.judges.loading import pictures_alone

        if kind == "PixtralProcessor":
            made[part] = transformers.AutoTokenizer.from_pretrained(
                model.place(part), local_files_only=True
            )
            continue

        processor: Any = getattr(transformers, kind, None)
        if processor is not None and "video_processor" in processor.get_attributes():
            made[part] = pictures_alone(processor, model.place(part))
    return made


def _processor_in(part: Path) -> str:
    """Return the class of the processor in the folder ``part`` by its files; "" if none tells."""
    for name in ("processor_config.json", "tokenizer_config.json", "preprocessor_config.json"):
        if (part / name).is_file():
            named = read_json(part / name).get("processor_class")
            if isinstance(named, str):
                return named
    return ""


def shared_parts(model: ModelFolder, dtype: torch.dtype) -> dict[str, Any]:
    """Return the parts of ``model`` that lie in another model's folder, by name."""
    import torch

    index = model.index
    found: dict[str, Any] = {}
    for part in model.parts:
        place = model.place(part)
        if place.parent == model.folder or part == UPSAMPLER:
            continue
        library, kind = index[part]
        made = getattr(importlib.import_module(library), kind).from_pretrained(
            place, local_files_only=True
        )
        found[part] = made.to(dtype) if isinstance(made, torch.nn.Module) else made
    return found


class Recent(Generic[T]):
    """The last ``limit`` values by key; not thread-safe."""

    def __init__(self, limit: int) -> None:
        """``limit`` values are kept; the one used longest ago goes first."""
        self._limit = limit
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self.hits = 0

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of ``key``, made by ``make`` if it is not kept."""
        if key in self._values:
            self._values.move_to_end(key)
            self.hits += 1
            return self._values[key]
        value = self._values[key] = make()
        if len(self._values) > self._limit:
            self._values.popitem(last=False)
        return value


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silences diffusers' and transformers' messages and bars, and then puts them back.

    Imports of both are made inside, because they speak while they are imported. May be
    nested and entered from many threads: the last to leave restores.
    """
    global _quiet_depth
    early = logging.getLogger("transformers")
    with _quiet_lock:
        _quiet_depth += 1
        first = _quiet_depth == 1
        if first:
            level = early.level
            early.setLevel(logging.ERROR)
            from diffusers.utils import logging as diffusers_logging
            from transformers.utils import logging as transformers_logging

            early.setLevel(level)
            for library in (diffusers_logging, transformers_logging):
                _restore.append(
                    (library, library.get_verbosity(), library.is_progress_bar_enabled())
                )
                # Of what goes wrong, traceback and all, the exception tells.
                library.set_verbosity(logging.CRITICAL)
                library.disable_progress_bar()
    try:
        yield
    finally:
        with _quiet_lock:
            _quiet_depth -= 1
            if _quiet_depth == 0:
                while _restore:
                    library, verbosity, bar = _restore.pop()
                    library.set_verbosity(verbosity)
                    if bar:
                        library.enable_progress_bar()


def choose_device(wanted: str) -> torch.device:
    """``"auto"``: CUDA if there is one, else the CPU. Raises ``BackendError`` if unusable."""
    import torch

    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise BackendError(
            f"the device {wanted!r} cannot be used here ({str(error).splitlines()[0]}): "
            "use 'auto' or 'cpu'"
        ) from error
    return device


def choose_dtype(wanted: str, device: torch.device) -> torch.dtype:
    """``"auto"``: bfloat16 or else float16 on CUDA, float32 elsewhere."""
    import torch

    named = {
        "float32": torch.float32,
        "float16": torch.float16,
        "bfloat16": torch.bfloat16,
    }
    if wanted in named:
        return named[wanted]
    if wanted != "auto":
        raise BackendError(f"unknown dtype {wanted!r}: use 'auto' or one of {sorted(named)}")
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16


def import_pipelines() -> None:
    """Import what diffusers otherwise imports when a pipeline is first named.

    It reaches into transformers, where an import of another thread may be under way.
    """
    import_late("scipy.stats")
    with quiet():
        from diffusers import StableDiffusionPipeline  # noqa: F401


def pipeline_class(name: str) -> Any:
    """Return the pipeline class of that name; raises ``BackendError`` if diffusers has none."""
    import diffusers

    if name in OWN:
        return getattr(importlib.import_module(OWN[name]), name)
    found = getattr(diffusers, name, None)
    if wanted := getattr(found, "_backends", None):
        # A stand-in for a pipeline that is there, if only the libraries it needs were.
        raise BackendError(f"{name} needs {', '.join(wanted)}: install them all")
    plain = inspect.isclass(found) and issubclass(found, diffusers.DiffusionPipeline)
    if not plain and not is_modular(found):
        raise BackendError(
            f"diffusers {diffusers.__version__} has no pipeline {name!r}: "
            "check '_class_name' in the model's index or install a newer diffusers"
        )
    return found


def check_parts(model: ModelFolder) -> None:
    """Raise ``BackendError`` if ``model`` lacks a part that its class does not make itself.

    Only classes composed of blocks tell which these are.
    """
    kind = pipeline_class(model.pipeline_class)
    if not is_modular(kind):
        return
    lacking = [part for part in needed_parts(kind) if part not in model.parts]
    if lacking:
        raise BackendError(
            f"{index_file(model.folder)} does not name {', '.join(lacking)}, which "
            f"{model.pipeline_class} needs: copy the whole model again"
        )


def call_options(name: str) -> dict[str, Any]:
    """Return the options of the pipeline's call, each with its default."""
    kind = pipeline_class(name)
    if is_modular(kind):
        return options_of(kind)
    return {
        key: parameter.default
        for key, parameter in inspect.signature(kind.__call__).parameters.items()
        if key != "self"
    }


def build(
    model: ModelFolder,
    device: torch.device,
    dtype: torch.dtype,
    *,
    scheduler: tuple[str | None, Mapping[str, Any]] = (None, {}),
    variant: str | None = None,
    loaded: Mapping[str, Any] | None = None,
) -> Any:
    """Return the pipeline in evaluation mode on ``device``.

    Raises ``BackendError`` if it does not load.

    ``scheduler`` names a diffusers scheduler class that replaces the model's own, with its
    settings and those that are given. ``loaded`` are further options of ``from_pretrained``, such
    as parts that are loaded already.
    """
    import torch

    cls = pipeline_class(model.pipeline_class)
    options: dict[str, Any] = {"local_files_only": True, "use_safetensors": True, "dtype": dtype}
    # A folder that a profile swaps in may have the plain weights only.
    if variant and any(model.folder.glob(f"*/*.{variant}*.safetensors")):
        options["variant"] = variant
    parts = inspect.signature(cls.__init__).parameters
    if "safety_checker" in parts:
        options["safety_checker"] = None
    if "requires_safety_checker" in parts:
        options["requires_safety_checker"] = False
    try:
        with warnings.catch_warnings():
            # Advice to the authors of old configurations, which are read as they are meant.
            warnings.simplefilter("ignore", FutureWarning)
            made = build_custom_parts(model) | shared_parts(model, dtype)
            # The library would compare a tokenizer with the processor that it stands for.
            late = {name: part for name, part in made.items() if name == "tokenizer"}
            given = {**options, **(loaded or {}), **made}
            if is_modular(cls):
                pipe = assemble_pipeline(cls, model.folder, model.parts, given, model.upsampler)
            else:
                pipe = cls.from_pretrained(model.folder, **given | dict.fromkeys(late))
                pipe.register_modules(**late)
            pipe.to(device)
    except Exception as error:
        raise BackendError(
            f"the model in {model.folder} does not load ({error_text(error)}): "
            "copy or download it again, or install what it names"
        ) from error
    for part in pipe.components.values():
        if isinstance(part, torch.nn.Module):
            part.eval().requires_grad_(False)
    if device.type in ("cpu", "cuda"):
        # Convolutions run markedly faster on this layout; it stays where the weights go.
        for name in ("unet", "editor", "vae"):
            part = getattr(pipe, name, None)
            # Autoencoders of videos have convolutions over time too, which the layout lacks.
            # Quantized weights keep the layout that they were made in.
            kept = getattr(part, "hf_quantizer", None) is not None
            if not isinstance(part, torch.nn.Module) or kept:
                continue
            if all(weight.ndim < 5 for weight in part.parameters()):
                getattr(pipe, name).to(memory_format=torch.channels_last)
    chosen, settings = scheduler
    if chosen:
        import diffusers

        kind: Any = getattr(diffusers, chosen, None)
        usable = isinstance(kind, type) and issubclass(kind, diffusers.SchedulerMixin)
        if not usable:
            known = sorted({one.__name__ for one in pipe.scheduler.compatibles})
            raise BackendError(
                f"diffusers has no scheduler {chosen!r}: use one of {', '.join(known)}"
            )
        pipe.scheduler = kind.from_config(pipe.scheduler.config, **settings)
    if not is_modular(cls):
        pipe.set_progress_bar_config(disable=True)
    give_back_memory()
    return pipe


def give_back_memory() -> None:
    """Return freed main memory to the system, where the C library is able to.

    Weights that were converted or laid out anew leave holes, a fifth of the model and more, which
    the library would keep.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def remember_prompts(pipe: Any, limit: int) -> Recent[Any]:
    """Make ``pipe.encode_prompt`` reuse its last ``limit`` results, by its arguments' values.

    Works for every pipeline, because texts go in and tensors that nobody changes come
    out. Calls that pass tensors are not kept. Returns the memory.
    """
    memory: Recent[Any] = Recent(limit)
    encode = getattr(pipe, "encode_prompt", None)
    if encode is None:
        return memory

    def remembered(*args: Any, **kwargs: Any) -> Any:
        # What has no JSON, such as a tensor, is not kept; devices and dtypes go by their names.
        try:
            key = json.dumps([args, kwargs], sort_keys=True, default=_plain_name)
        except TypeError:
            return encode(*args, **kwargs)
        return memory.get(key, lambda: encode(*args, **kwargs))

    pipe.encode_prompt = remembered
    return memory


def _plain_name(value: Any) -> str:
    import torch

    if isinstance(value, torch.device | torch.dtype):
        return repr(value)
    raise TypeError(f"{type(value).__name__} is not remembered")
