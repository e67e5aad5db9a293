"""Pipelines that diffusers composes of blocks (``ModularPipeline``).

Such a class has no signature that names its parts and options: its blocks do. A block that rewrites
the prompt is left out, so that a prompt is what its author wrote, unless the backend is given the
model that the block needs.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenewright.core.ports.backend import Box
from scenewright.providers.hub.needs import UPSAMPLER

if TYPE_CHECKING:
    import torch

REWRITERS = (UPSAMPLER,)
"""Names of blocks that rewrite the prompt."""


def is_modular(kind: Any) -> bool:
    """Return whether ``kind`` is a class of pipelines composed of blocks."""
    import diffusers

    found = inspect.isclass(kind) and issubclass(kind, diffusers.ModularPipeline)
    return found and kind.default_blocks_name is not None


def blocks_of(kind: Any, *, rewriting: bool = False) -> Any:
    """Return the blocks of the pipeline class ``kind``.

    Those that rewrite the prompt only if ``rewriting``.
    """
    import diffusers

    blocks = getattr(diffusers, kind.default_blocks_name)()
    for name in () if rewriting else REWRITERS:
        blocks.sub_blocks.pop(name, None)
    return blocks


def needed_parts(kind: Any) -> list[str]:
    """Return the parts that the class ``kind`` does not make itself, sorted."""
    specs = blocks_of(kind).expected_components
    return sorted(one.name for one in specs if one.default_creation_method == "from_pretrained")


def assemble_pipeline(
    kind: Any,
    folder: Path,
    parts: Collection[str],
    options: Mapping[str, Any],
    upsampler: Path | None = None,
) -> Any:
    """Return a pipeline of the class ``kind`` with the ``parts`` in ``folder``.

    ``options`` are those of ``from_pretrained``, parts that are loaded already and the
    configuration of quantized ones included. With an ``upsampler``, the folder of that part, the
    prompt is rewritten. The library's own loader would only log what does not load.
    """
    import torch

    # The library's classes share their blocks.
    blocks = copy.deepcopy(blocks_of(kind, rewriting=upsampler is not None))
    for block in _every_block(blocks):
        if hasattr(block, "set_progress_bar_config"):
            block.set_progress_bar_config(disable=True)
    pipe = kind(blocks, str(folder), local_files_only=True)
    known = set(pipe.components)
    given = {name: value for name, value in options.items() if name in known}
    rest = {name: value for name, value in options.items() if name not in known}
    quantized = rest.pop("quantization_config", None)
    for name in parts:
        if name in given or name not in known:
            continue
        spec = pipe.get_component_spec(name)
        if apart := name == UPSAMPLER:
            # An index may name a base class, which writes no text.
            spec = next(one for one in blocks.expected_components if one.name == name)
        place: dict[str, Any] = {
            "pretrained_model_name_or_path": str(upsampler if apart else folder),
            "subfolder": "" if apart else name,
            "revision": None,
            "local_files_only": True,
        }
        if spec.type_hint is None or issubclass(spec.type_hint, torch.nn.Module):
            place |= {key: one for key, one in rest.items() if not (apart and key == "variant")}
            if quantized is not None and name in quantized.quant_mapping:
                place["quantization_config"] = quantized.quant_mapping[name]
        given[name] = spec.load(**place)
    pipe.update_components(**given)
    return pipe


def _every_block(block: Any) -> Iterator[Any]:
    yield block
    for inner in block.sub_blocks.values():
        yield from _every_block(inner)


def run_pipeline(pipe: Any, options: Mapping[str, Any]) -> tuple[Any, str]:
    """Call ``pipe``, a pipeline of either kind, and return its pictures.

    Also returns the prompt that a block wrote in place of that in ``options``; empty if none did.
    """
    if not is_modular(type(pipe)):
        return pipe(**options).images, ""
    found = pipe(**options, output=["images", "prompt"])
    written = found["prompt"]
    return found["images"], "" if written == options["prompt"] else written


def layout_rows(boxes: Sequence[Box], *, edited: bool) -> list[dict[str, Any]]:
    """Return ``boxes`` as FLUX 3's prompt upsampler takes them, in their order.

    Its corners are [y_min, x_min, y_max, x_max] in 0–1, and its ids a noun and a number, counted
    from left to right. A picture that is ``edited``, or drawn after references, names the origin of
    each thing: these are drawn anew.
    """
    counted: Counter[str] = Counter()
    ids: dict[int, str] = {}
    places = [one.region for one in boxes]
    for at in sorted(range(len(boxes)), key=lambda at: (places[at].left, places[at].top)):
        noun = re.sub(r"[^A-Za-z0-9]+", "_", boxes[at].name).strip("_").lower()
        noun = noun if noun[:1].isalpha() else f"object_{noun}".rstrip("_")
        counted[noun] += 1
        ids[at] = f"{noun}_{counted[noun]}"
    rows: list[dict[str, Any]] = []
    for at, box in enumerate(boxes):
        region = box.region
        corners = [region.top, region.left, region.bottom, region.right]
        place = {"from": "target", "tgt_bbox": corners} if edited else {"bbox": corners}
        rows.append({"id": ids[at], "desc": box.phrase, **place})
    return rows


def offload_parts(pipe: Any, device: torch.device) -> None:
    """Let the parts of ``pipe`` come to ``device`` when they compute, one after the other.

    Blocks do not tell when the last part is done, or that a drawing was stopped: the first part
    sends all others away.
    """
    from accelerate import cpu_offload_with_hook

    hooks: list[Any] = []
    for name in (UPSAMPLER, "text_encoder", "transformer", "vae"):
        if (part := getattr(pipe, name, None)) is not None:
            _, hook = cpu_offload_with_hook(part, device, hooks[-1] if hooks else None)
            hooks.append(hook)

    def others_leave(*_: Any) -> None:
        for hook in hooks[1:]:
            hook.offload()

    hooks[0].model.register_forward_pre_hook(others_leave)


def offload_layers(pipe: Any, device: torch.device) -> None:
    """Let the layers of the parts of ``pipe`` come to ``device`` when they compute."""
    import torch
    from diffusers.hooks import apply_group_offloading

    for part in pipe.components.values():
        if isinstance(part, torch.nn.Module):
            apply_group_offloading(part, onload_device=device, offload_type="leaf_level")
