"""BiRefNet (Zheng et al., 2024) and relatives: models of salient objects that bring their code."""

from __future__ import annotations

import hashlib
import json
import os
from functools import cached_property

import numpy as np
import torch
import transformers
from PIL import Image
from torch.nn import functional

from scenewright.agents.judges.vlm import digest_folder
from scenewright.core.images import to_rgb
from scenewright.core.ports.vision import DetectionError
from scenewright.providers.device_gate import Stop
from scenewright.tools.digests import json_digest
from scenewright.tools.vision.detection.saliency import BIREFNET, CENTRE_AND_SIZE, SaliencyMap
from scenewright.tools.vision.local_model import LocalModel

INPUT_SIDE = 1024
"""Width and height, in pixels, that BiRefNet was trained at."""
_READING = 1
"""Raised when the way in which maps are read from a model changes."""
# ImageNet's, which BiRefNet's backbone was trained with.
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class BiRefNet(LocalModel):
    """Saliency model for BiRefNet and relatives, loaded by ``AutoModelForImageSegmentation``.

    Takes a model of RGB pixels that returns a list of logits, the last one of full size (RMBG 2.0
    is one, too).

    **Security.** transformers has no class of its own for BiRefNet (as of 5.23): the repository
    brings Python code, which would run with all your rights. So it is loaded only with
    ``trust_remote_code=True``; read the code in the folder first. Its code is part of the
    fingerprint. It needs timm, torchvision, einops and kornia, which are no dependencies here.
    """

    error = DetectionError
    loaded_as = "a model of salience"
    remedy = ". BiRefNet's own code needs timm, torchvision, einops and kornia"

    def __init__(
        self,
        model: str | os.PathLike[str] = BIREFNET,
        *,
        trust_remote_code: bool = False,
        device: str = "auto",
        side: int = INPUT_SIDE,
    ) -> None:
        """Use ``model``: a folder in transformers layout, or a fetched hub repository.

        ``side``: width and height, in pixels, that it is shown. Raises ``DetectionError`` if the
        model is not on this machine, brings code that is not trusted, or ``side`` is no multiple of
        32.
        """
        if side < 32 or side % 32:
            raise DetectionError(f"side {side}: use a multiple of 32, such as {INPUT_SIDE}")
        super().__init__(model, name=None, device=device, thread="saliency")
        self._trusted = trust_remote_code
        self._side = side
        file = self.folder / "config.json"
        try:
            config = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DetectionError(f"{file} cannot be read: {error}") from error
        if isinstance(config, dict) and config.get("auto_map") and not trust_remote_code:
            raise DetectionError(
                f"{model} brings Python code of its own ({self.folder}), which would run with all "
                "your rights: read it, and allow it with trust_remote_code = true; or take "
                f"{CENTRE_AND_SIZE!r}, which needs no model"
            )

    @property
    def id(self) -> str:
        """``transformers:`` and the model as it was named."""
        return f"transformers:{self.name}"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of weights, code, library versions and the settings that matter."""
        code = hashlib.sha256()
        for file in sorted(self.folder.rglob("*.py")):
            code.update(file.relative_to(self.folder).as_posix().encode() + b"\0")
            code.update(file.read_bytes())
        return json_digest(
            *(type(self).__name__, digest_folder(self.folder), code.hexdigest()),
            *(*self.versions, self._side, _READING),
        )

    async def saliency(self, image: Image.Image) -> SaliencyMap:
        """Return how much each pixel belongs to the foreground, a map of the size of ``image``.

        Raises ``ImageError`` for an image that cannot be read, and ``DetectionError`` for a model
        that cannot be loaded or fails. Cancelling stops the work before the model's next turn.
        """
        return await self.run(lambda stop: self._saliency(image, stop))

    def open_model(self, device: torch.device) -> None:
        """Load the model, with its code if that is trusted."""
        made = transformers.AutoModelForImageSegmentation.from_pretrained(
            self.folder,
            local_files_only=True,
            trust_remote_code=self._trusted,
            dtype=torch.float32,
        )
        self._model = made.to(device).eval()

    def _saliency(self, image: Image.Image, stop: Stop) -> SaliencyMap:
        self.make_ready(stop)
        rgb = to_rgb(image)
        small = rgb.resize((self._side, self._side), Image.Resampling.BILINEAR)
        pixels = (np.asarray(small, np.float32) / 255.0 - _MEAN) / _DEVIATION
        inputs = torch.from_numpy(pixels.astype(np.float32).transpose(2, 0, 1)[None])
        with self.turn(stop, f"a picture of {rgb.width}×{rgb.height}"):
            output = self._model(inputs.to(next(self._model.parameters()).device))
            logits = getattr(output, "logits", output)
            while isinstance(logits, list | tuple):
                logits = logits[-1]
            if getattr(logits, "ndim", 0) != 4 or logits.shape[:2] != (1, 1):
                raise DetectionError(
                    "the model gives no map of one channel: take BiRefNet or a model of its kind"
                )
            full = functional.interpolate(
                logits.float(), size=(rgb.height, rgb.width), mode="bilinear"
            )
            salient: SaliencyMap = full.sigmoid()[0, 0].cpu().numpy().astype(np.float32)
        return salient


def saliency_of(spec: str, *, trust_remote_code: bool = False) -> BiRefNet | None:
    """Return the model of a name.

    None for ``centre-and-size``, else a repository or folder of BiRefNet's kind (``birefnet`` is
    the published one).

    Raises ``DetectionError`` if it is not on this machine, or brings code that is not trusted.
    """
    if spec == CENTRE_AND_SIZE:
        return None
    model = BIREFNET if spec.casefold() == "birefnet" else spec
    return BiRefNet(model, trust_remote_code=trust_remote_code)
