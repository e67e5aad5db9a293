"""Count the work of a denoiser, and leave its guidance out in the late steps of a drawing.

Work is counted in *full-picture steps*: one step of a plain picture, of the backend's default size
and guidance. A picture of half the pixels, or one without the second pass that guidance costs, has
half the work a step; pictures that an edit model sees beside its own add theirs.

Guidance matters while a picture takes shape and little after that: leaving it out in late steps
saves the pass without the prompt (Kynkäänniemi et al., "Applying Guidance in a Limited Interval",
2024).
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from scenewright.tools.backends.families import Family, GuidancePasses

DENOISERS = ("unet", "editor", "transformer", "transformer_2")


class DenoiserWork:
    """The denoiser of a pipeline during one drawing.

    While :meth:`watched`, every call is counted. After ``guided_share`` of the steps the pass
    without the prompt is not computed: what is drawn is then the same as with a scale of 1.
    """

    def __init__(self, pipe: Any, family: Family) -> None:
        """Watch the denoiser of ``pipe``, which belongs to ``family``."""
        self._parts = [
            part for name in DENOISERS if (part := getattr(pipe, name, None)) is not None
        ]
        self._passes = family.passes
        self._side = family.cell or int(getattr(pipe, "vae_scale_factor", 8))
        self.pixels = 0.0
        """Pixels that all passes together have worked through."""
        self._late = False
        self._first: Any = None

    def step_done(self, step: int, of: int, guided_share: float) -> None:
        """Note that ``step`` steps of ``of`` are done, of which ``guided_share`` are guided."""
        self._late = step >= math.ceil(guided_share * of)
        self._first = None

    @contextlib.contextmanager
    def watched(self, guided: bool, guided_share: float) -> Iterator[None]:
        """Count the calls inside; ``guided``: whether each picture has two passes a step."""
        self.pixels, self._first = 0.0, None
        self._late = guided_share <= 0
        passes = self._passes if guided and guided_share < 1 else None
        plain = [(part, vars(part).get("forward"), part.forward) for part in self._parts]
        for part, _, forward in plain:
            part.forward = self._counted(forward, passes)
        try:
            yield
        finally:
            self._first = None
            for part, own, _ in plain:
                if own is None:
                    del part.forward
                else:
                    part.forward = own

    def _counted(
        self, forward: Callable[..., Any], passes: GuidancePasses | None
    ) -> Callable[..., Any]:
        @functools.wraps(forward)
        def counted(*args: Any, **kwargs: Any) -> Any:
            if passes == "batch" and self._late:
                whole = _batch(args, kwargs)
                args, kwargs = _second_half((args, kwargs), whole)
                self._add(args, kwargs)
                return _doubled(forward(*args, **kwargs), whole // 2)
            if passes == "calls" and self._late and self._first is not None:
                found, self._first = self._first, None
                return found
            self._add(args, kwargs)
            found = forward(*args, **kwargs)
            if passes == "calls" and self._late:
                self._first = found
            return found

        return counted

    def _add(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        cells = _cells(_latents(args, kwargs))
        if (beside := kwargs.get("image_cond_hidden_states")) is not None:
            cells += _cells(beside)
        self.pixels += cells * self._side**2


def is_guided(pipe: Any, family: Family, guidance: float, negative: bool, distilled: bool) -> bool:
    """Whether ``pipe`` makes two passes a step at the scale ``guidance``.

    ``negative``: whether it is given a negative prompt, without which some do not guide.
    """
    if family.guider:
        return not distilled
    if hasattr(type(pipe), "do_classifier_free_guidance"):
        pipe._guidance_scale = guidance
        return bool(pipe.do_classifier_free_guidance)
    return family.guidance == "true_cfg_scale" and guidance > 1 and negative


def _latents(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    if args:
        return args[0]
    return next(kwargs[name] for name in ("hidden_states", "sample", "x") if name in kwargs)


def _cells(latents: Any) -> int:
    """Return the number of latent cells, over all pictures of a batch."""
    if isinstance(latents, (list, tuple)):
        return sum(_cells(one[None]) for one in latents)
    if latents.ndim == 3:
        # Patches of 2×2 in a row.
        return int(latents.shape[0] * latents.shape[1] * 4)
    return int(latents.shape[0] * math.prod(latents.shape[2:]))


def _batch(args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    return int(_latents(args, kwargs).shape[0])


def _second_half(value: Any, batch: int) -> Any:
    """Return ``value`` with the second half of every tensor whose first side is ``batch``."""
    import torch

    if isinstance(value, torch.Tensor):
        whole = value.ndim and value.shape[0] == batch
        return value[batch // 2 :] if whole else value
    if isinstance(value, dict):
        return {key: _second_half(one, batch) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_second_half(one, batch) for one in value)
    return value


def _doubled(value: Any, batch: int) -> Any:
    """Return ``value`` with every tensor of ``batch`` pictures twice."""
    import torch

    if isinstance(value, torch.Tensor):
        return torch.cat([value, value]) if value.ndim and value.shape[0] == batch else value
    return tuple(_doubled(one, batch) for one in value) if isinstance(value, tuple) else value
