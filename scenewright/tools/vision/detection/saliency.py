"""What of a picture is in front: maps of salience, and which detections they set in the foreground.

PSG-Bench splits foreground from background by BiRefNet (Zheng et al., 2024), a model of salient
objects. Where there is none, ``centre-and-size`` tells by the boxes alone, without a model and
without looking at the picture::

    sqrt(c · s),   c = 1 − d / D,   s = min(1, sqrt(a / 0.1))

with ``d`` the distance of the box's middle from the picture's, ``D`` half the picture's diagonal,
and ``a`` the share of the picture that the mask (or box) covers: what stands near the middle and
covers a tenth or more is in front. Stuff (sky, grass) never is.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from scenewright.core.error_text import error_text
from scenewright.core.images import ImageError, to_rgb
from scenewright.core.ports.vision import Detection, DetectionError
from scenewright.providers.device_gate import ModelThread

if TYPE_CHECKING:
    from pathlib import Path

    from scenewright.providers.device_gate import Stop

SaliencyMap = NDArray[np.float32]
"""(height, width) of the picture, each in [0, 1]: how much a pixel belongs to what is in front."""
CENTRE_AND_SIZE = "centre-and-size"
"""Name of the rule that needs no model."""
BIREFNET = "ZhengPeng7/BiRefNet"
"""Repository of the model that PSG-Bench takes."""
THRESHOLD = 0.5
"""From this mean salience on, an object is in front."""
FULL_SIZE = 0.1
"""Share of a picture from which on size counts in full."""
INPUT_SIDE = 1024
"""Width and height, in pixels, that BiRefNet was trained at."""
_READING = 1
"""Raised when the way in which maps are read from a model changes."""
# ImageNet's, which BiRefNet's backbone was trained with.
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@runtime_checkable
class SaliencyModel(Protocol):
    """Says of each pixel how much it belongs to what is in front."""

    @property
    def id(self) -> str:
        """``transformers:ZhengPeng7/BiRefNet``: in every result."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever a picture could get another map."""
        ...

    async def saliency(self, image: Image.Image) -> SaliencyMap:
        """Return the map of ``image``, of its size.

        Raises ``ImageError`` for an image that cannot be read, and ``DetectionError`` for a model
        that cannot be loaded or fails.
        """
        ...

    async def aclose(self) -> None:
        """Free the model."""
        ...


def centre_and_size(thing: Detection, size: tuple[int, int]) -> float:
    """Return the rule of this module's head, in [0, 1]; ``size`` is (width, height) of the picture.

    Raises ``DetectionError`` for a picture without pixels.
    """
    width, height = size
    if width < 1 or height < 1:
        raise DetectionError(f"a picture of {width}×{height} pixels has no foreground")
    if thing.stuff:
        return 0.0
    left, top, right, bottom = thing.box
    away = math.hypot((left + right - width) / 2.0, (top + bottom - height) / 2.0)
    central = max(0.0, 1.0 - away / (math.hypot(width, height) / 2.0))
    share = min(1.0, thing.area / (width * height))
    return math.sqrt(central * min(1.0, math.sqrt(share / FULL_SIZE)))


def salience_of(thing: Detection, salient: SaliencyMap) -> float:
    """Mean of ``salient`` within the mask of ``thing``, or within its box where it has none.

    0 if there is no pixel in it.

    Raises ``DetectionError`` if mask and map differ in size.
    """
    if thing.mask is not None:
        if thing.mask.shape != salient.shape:
            raise DetectionError(
                f"the mask of {thing.name} has {thing.mask.shape} rows and columns, the map of "
                f"salience {salient.shape}: both must be of the picture's size"
            )
        within = salient[thing.mask]
    else:
        left, top, right, bottom = thing.box
        rows = slice(max(0, math.floor(top)), max(0, math.ceil(bottom)))
        within = salient[rows, max(0, math.floor(left)) : max(0, math.ceil(right))]
    return float(within.mean()) if within.size else 0.0


def foreground(
    things: Mapping[str, Detection],
    salient: SaliencyMap | None,
    size: tuple[int, int],
    threshold: float = THRESHOLD,
) -> frozenset[str]:
    """Ids of the ``things`` that are in front: mean salience of ``threshold`` or more.

    ``salient``: a model's map; None goes by :func:`centre_and_size`. ``size``: (width, height) of
    the picture. Raises ``DetectionError`` for a threshold outside [0, 1], and for a map of another
    size.
    """
    if not 0.0 <= threshold <= 1.0:
        raise DetectionError(f"threshold {threshold}: use a number from 0 to 1")
    if salient is None:
        return frozenset(
            name for name, thing in things.items() if centre_and_size(thing, size) >= threshold
        )
    if salient.shape != (size[1], size[0]):
        raise DetectionError(
            f"the map of salience has {salient.shape} rows and columns, the picture "
            f"{(size[1], size[0])}"
        )
    return frozenset(
        name for name, thing in things.items() if salience_of(thing, salient) >= threshold
    )


class BiRefNet:
    """Saliency model for BiRefNet and relatives, loaded by ``AutoModelForImageSegmentation``.

    Implements :class:`SaliencyModel`. Takes a model of RGB pixels that returns a list of logits,
    the last one of full size (RMBG 2.0 is one, too).

    **Security.** transformers has no class of its own for BiRefNet (as of 5.23): the repository
    brings Python code, which would run with all your rights. So it is loaded only with
    ``trust_remote_code=True``; read the code in the folder first. Its code is part of the
    fingerprint. It needs timm, torchvision, einops and kornia, which are no dependencies here.

    One worker thread owns the model; on an accelerator each picture waits for the device's turn.
    """

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
        from scenewright.tools.vision.local_model import folder_of

        if side < 32 or side % 32:
            raise DetectionError(f"side {side}: use a multiple of 32, such as {INPUT_SIDE}")
        self._folder = folder_of(model, DetectionError)
        self._name = str(model)
        self._trusted = trust_remote_code
        self._device = device
        self._side = side
        if _brings_code(self._folder) and not trust_remote_code:
            raise DetectionError(
                f"{model} brings Python code of its own ({self._folder}), which would run with all "
                "your rights: read it, and allow it with trust_remote_code = true; or take "
                f"{CENTRE_AND_SIZE!r}, which needs no model"
            )
        self._model: Any = None
        self._failure: DetectionError | None = None
        self._thread = ModelThread("saliency")

    @property
    def id(self) -> str:
        """``transformers:`` and the model as it was named."""
        return f"transformers:{self._name}"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of weights, code, library versions and the settings that matter."""
        import torch
        import transformers

        from scenewright.agents.judges.vlm import digest_folder

        digest = hashlib.sha256()
        for file in sorted(self._folder.rglob("*.py")):
            digest.update(file.relative_to(self._folder).as_posix().encode() + b"\0")
            digest.update(file.read_bytes())
        parts = [
            type(self).__name__,
            digest_folder(self._folder),
            digest.hexdigest(),
            transformers.__version__,
            torch.__version__,
            self._device,
            self._side,
            _READING,
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    async def saliency(self, image: Image.Image) -> SaliencyMap:
        """As the port says. Cancelling stops the work before the model's next turn."""
        if self._thread.closed:
            raise DetectionError(f"{self.id} is closed: make a new model")
        return await self._thread.run(lambda stop: self._look(image, stop))

    async def aclose(self) -> None:
        """Wait for the running picture, then free the model."""
        if not self._thread.closed:
            await self._thread.aclose()
            self._model = None

    def _look(self, image: Image.Image, stop: Stop) -> SaliencyMap:
        import torch
        from torch.nn import functional

        from scenewright.agents.judges.vlm import device_of
        from scenewright.providers.device_gate import Stopped, gate_of

        model = self._loaded(stop)
        rgb = to_rgb(image)
        small = rgb.resize((self._side, self._side), Image.Resampling.BILINEAR)
        pixels = (np.asarray(small, np.float32) / 255.0 - _MEAN) / _DEVIATION
        given = torch.from_numpy(pixels.astype(np.float32).transpose(2, 0, 1)[None])
        try:
            with gate_of(str(device_of(self._device))).turn(stop), torch.inference_mode():
                output = model(given.to(next(model.parameters()).device))
                logits = _logits(output)
                full = functional.interpolate(
                    logits.float(), size=(rgb.height, rgb.width), mode="bilinear"
                )
                found: SaliencyMap = full.sigmoid()[0, 0].cpu().numpy().astype(np.float32)
        except (Stopped, DetectionError, ImageError):
            raise
        except Exception as error:
            raise DetectionError(
                f"{self.id} failed on a picture of {rgb.width}×{rgb.height}: {error_text(error)}"
            ) from error
        return found

    def _loaded(self, stop: Stop) -> Any:
        import torch
        import transformers

        from scenewright.agents.judges.vlm import device_of
        from scenewright.providers.device_gate import LOADING, Stopped, gate_of

        if self._failure is not None:
            raise self._failure
        if self._model is None:
            try:
                device = device_of(self._device)
                with gate_of(str(device)).turn(stop), LOADING:
                    made = transformers.AutoModelForImageSegmentation.from_pretrained(
                        self._folder,
                        local_files_only=True,
                        trust_remote_code=self._trusted,
                        dtype=torch.float32,
                    )
                    self._model = made.to(device).eval()
            except Stopped:
                raise
            except Exception as error:
                self._failure = DetectionError(
                    f"{self._folder} could not be loaded with transformers "
                    f"{transformers.__version__} as a model of salience: {error_text(error)}. "
                    "BiRefNet's own code needs timm, torchvision, einops and kornia"
                )
                raise self._failure from error
        return self._model


def saliency_of(spec: str, *, trust_remote_code: bool = False) -> SaliencyModel | None:
    """Return the model of a name.

    None for ``centre-and-size``, else a repository or folder of BiRefNet's kind (``birefnet`` is
    the published one).

    Raises ``DetectionError`` if it is not on this machine, or brings code that is not trusted.
    """
    if spec == CENTRE_AND_SIZE:
        return None
    model = BIREFNET if spec.casefold() == "birefnet" else spec
    return BiRefNet(model, trust_remote_code=trust_remote_code)


def _brings_code(folder: Path) -> bool:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DetectionError(f"{folder / 'config.json'} cannot be read: {error}") from error
    return isinstance(config, dict) and bool(config.get("auto_map"))


def _logits(output: Any) -> Any:
    """Return the last of the maps that a model gives, (1, 1, height, width)."""
    found = getattr(output, "logits", output)
    while isinstance(found, list | tuple):
        found = found[-1]
    if getattr(found, "ndim", 0) != 4 or found.shape[:2] != (1, 1):
        raise DetectionError(
            "the model gives no map of one channel: take BiRefNet or a model of its kind"
        )
    return found
