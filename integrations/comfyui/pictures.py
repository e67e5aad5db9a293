"""Between PNG files and ComfyUI's IMAGE: a float tensor [batch, height, width, channel], 0 to 1.

ComfyUI brings torch, numpy and Pillow; they are imported where a picture is converted.
"""

from __future__ import annotations

import io
from typing import Any


def opened(data: bytes) -> Any:
    """The PIL image of a file's bytes, RGB."""
    from PIL import Image

    return Image.open(io.BytesIO(data)).convert("RGB")


def tensor_of(data: bytes) -> Any:
    """An IMAGE of one picture, of a PNG file's bytes."""
    import numpy
    import torch

    pixels = numpy.asarray(opened(data), dtype=numpy.float32) / 255.0
    return torch.from_numpy(pixels)[None]


def pngs_of(images: Any) -> list[bytes]:
    """A PNG file for each picture of an IMAGE; ``ValueError`` for values that are no numbers."""
    import numpy
    from PIL import Image

    files = []
    for image in images:
        if not image.isfinite().all():
            # As bytes they would be black, and judged as if they had been drawn.
            raise ValueError(
                "the picture holds values that are not numbers: draw it with another VAE, or in "
                "float32 (--fp32-vae)"
            )
        pixels = image.detach().cpu().float().clamp(0.0, 1.0).numpy()
        if pixels.shape[-1] == 1:
            pixels = pixels.repeat(3, axis=-1)
        file = io.BytesIO()
        Image.fromarray(numpy.rint(pixels * 255.0).astype(numpy.uint8)).save(file, "PNG")
        files.append(file.getvalue())
    return files
