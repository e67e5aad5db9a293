"""Which parameters of AUTOMATIC1111's API ask for something that no run here does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scenewright.core.ports.backend import BackendFeatures
from scenewright.service.compat.automatic1111.bodies import CHECKPOINT, TextToImage

HEADER = "X-Scenewright-Ignored"
"""Header of replies: the names of the parameters without effect."""
_OWN = "the profile's model has its own"
_WHY = {
    "sampler_name": f"{_OWN} scheduler",
    "sampler_index": f"{_OWN} scheduler",
    "scheduler": f"{_OWN} scheduler",
    "styles": "there are no stored styles: write them into the prompt",
    "restore_faces": "there is no restorer of faces",
    "tiling": "no model here draws tiles",
    "refiner_checkpoint": "there is no refiner: a run repairs what is missing",
    "subseed": "there are no variations of a seed: use another seed",
    "subseed_strength": "there are no variations of a seed: use another seed",
    "firstphase_width": "the size is that of width and height",
    "firstphase_height": "the size is that of width and height",
    "infotext": "the parameters are those of the request",
}
_ONE_PASS = "the hires fix has no second pass"
_NO_OPTION = "of the options sd_model_checkpoint has an effect"
_ELSE = "no effect here: the profile decides"
_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "sampler_name": ("Automatic",),
    "sampler_index": ("Automatic",),
    "scheduler": ("Automatic",),
    "subseed": (-1,),
    "seed_resize_from_w": (-1,),
    "seed_resize_from_h": (-1,),
    "s_noise": (1,),
    "hr_upscaler": ("None", "Lanczos"),
    "hr_sampler_name": ("Use same sampler", "Automatic"),
    "hr_scheduler": ("Use same scheduler", "Automatic"),
    "hr_checkpoint_name": ("Use same checkpoint",),
}
"""Values besides empty ones, false and 0 that ask for nothing."""
_NO_REQUEST = frozenset(
    {"do_not_save_samples", "do_not_save_grid", "save_images", "force_task_id", "script_args",
     "override_settings_restore_afterwards"}
)  # fmt: skip
"""Fields about where AUTOMATIC1111 keeps things: a run keeps all of its pictures."""
_SECOND_PASS = "denoising_strength"
_FOLLOW = {"subseed": "subseed_strength", "refiner_switch_at": "refiner_checkpoint"}
"""Fields that mean something only if another one asks for something."""


def ignored_of(body: TextToImage, features: BackendFeatures) -> dict[str, str]:
    """Return the parameters of a request that have no effect, each with the reason.

    Values that ask for nothing, such as ``restore_faces: false``, are not named. ``features`` are
    those of the backend that draws.
    """
    given = body.model_extra or {}
    found = {}
    for name, value in given.items():
        if name in _NO_REQUEST or not _asks(name, value):
            continue
        if name in _FOLLOW and not _asks(_FOLLOW[name], given.get(_FOLLOW[name])):
            continue
        second = name.startswith("hr_") or name == _SECOND_PASS
        if second and not body.enable_hr:
            continue
        reason = _ONE_PASS if second else _WHY.get(name, _ELSE)
        found[name[:100]] = "pictures are scaled with Lanczos" if name == "hr_upscaler" else reason
    found |= ignored_options(body.override_settings, "override_settings.")
    if body.negative_prompt and not features.negative_prompt:
        found["negative_prompt"] = "the profile's model takes none"
    if body.seed >= 0 and not features.seeds:
        found["seed"] = "the profile's model draws another picture each time"
    return found


def ignored_options(options: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return the options that have no effect, by name after ``prefix``, each with the reason."""
    return {f"{prefix}{name[:100]}": _NO_OPTION for name in options if name != CHECKPOINT}


def header_of(ignored: Mapping[str, str]) -> dict[str, str]:
    """Return the header that names parameters without effect; none: no header."""
    names = [name for name in ignored if name.isascii() and name.replace(".", "_").isidentifier()]
    return {HEADER: ", ".join(names[:50])} if names else {}


def _asks(name: str, value: object) -> bool:
    if isinstance(value, (str, list, dict, int, float)) and not value:
        return False
    return value is not None and value not in _NEUTRAL.get(name, ())
