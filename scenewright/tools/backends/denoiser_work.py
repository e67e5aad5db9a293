"""Work of a denoiser, counted during a drawing.

Work is counted in *full-picture steps*: one step of a plain picture, of the backend's default size
and guidance. A picture of half the pixels, or one without the second pass that guidance costs, has
half the work a step; pictures that an edit model sees beside its own add theirs.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scenewright.tools.backends.families import Family

DENOISERS = ("unet", "editor", "transformer", "transformer_2")


class DenoiserWork:
    """The denoiser of a pipeline during one drawing."""

    def __init__(self, pipe: Any, family: Family) -> None:
        """Watch the denoiser of ``pipe``, which belongs to ``family``."""
        self._parts = [
            part for name in DENOISERS if (part := getattr(pipe, name, None)) is not None
        ]
        self._side = family.cell or int(getattr(pipe, "vae_scale_factor", 8))
        self.pixels = 0.0
        """Pixels that all passes together have worked through."""

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count the calls inside."""
        self.pixels = 0.0
        with contextlib.ExitStack() as hooks:
            for part in self._parts:
                hook = part.register_forward_pre_hook(self._count, with_kwargs=True)
                hooks.callback(hook.remove)
            yield

    def _count(self, part: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        names = ("hidden_states", "sample", "x")
        latents = args[0] if args else next(kwargs[name] for name in names if name in kwargs)
        cells = _cells(latents)
        if (beside := kwargs.get("image_cond_hidden_states")) is not None:
            cells += _cells(beside)
        self.pixels += cells * self._side**2


def _cells(latents: Any) -> int:
    """Return the number of latent cells, over all pictures of a batch."""
    if isinstance(latents, (list, tuple)):
        return sum(_cells(one[None]) for one in latents)
    if latents.ndim == 3:
        # Patches of 2×2 in a row.
        return int(latents.shape[0] * latents.shape[1] * 4)
    return int(latents.shape[0] * math.prod(latents.shape[2:]))
