"""The extractor of FID and Inception Score: Inception-V3 with its published weights from a file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from scenewright.evals.metrics.base import MetricError
from scenewright.evals.metrics.encoders import (
    MINIATURE,
    NetworkExtractor,
    Worker,
    digest_file,
    shared,
)
from scenewright.evals.store.journal import Features

if TYPE_CHECKING:
    from scenewright.evals.metrics.inception_network import InceptionV3

FILE = "pt_inception-2015-12-05-6726825d.pth"
"""The checkpoint as pytorch-fid publishes it."""
NAMES = (FILE, "weights-inception-2015-12-05-6726825d.pth")
"""Its file names: torch-fidelity and torchmetrics keep the same content under the second."""
SOURCE = f"https://github.com/mseitzer/pytorch-fid/releases/download/fid_weights/{FILE}"
OUTPUTS = {"pool": 2048, "logits": 1008}
"""Output → length."""
_VERSION = 1
"""Increased when the same picture would get another vector."""
_DIGEST = re.compile(r"-([0-9a-f]{8})\.(?:pth|pt)$")


def inception_extractor(
    weights: Path, output: str = "pool", device: str = "auto", batch: int = 32
) -> NetworkExtractor:
    """Return the extractor of Inception-V3 in single precision, with its weights from a file.

    Pictures are resized to 299×299 as TensorFlow 1 did
    (:func:`~scenewright.evals.metrics.inception_network.resize_as_tensorflow`).

    Args:
        weights: ``.pth`` or ``.safetensors`` file.
        output: ``pool`` (2048, for FID) or ``logits`` (1008, for IS).
        device: ``auto``, ``cpu``, ``cuda:1``, ….
        batch: pictures in one pass.
    """
    worker: Worker[_Network] = shared(
        ("inception", weights.resolve(), device),
        lambda: Worker("inception", device, lambda where: _Network(weights, where)),
    )
    return NetworkExtractor(
        f"inception:{output}",
        worker,
        batch,
        lambda: ("inception", _VERSION, digest_file(weights), output),
        lambda network, part: network.see(part)[output],
        lambda: OUTPUTS[output],
    )


class _Network:
    """The loaded network. Not thread-safe: one thread uses it."""

    def __init__(self, weights: Path, device: str) -> None:
        self._device = device
        self._network = load_inception(weights).to(device)

    def see(self, images: Sequence[Image.Image]) -> dict[str, Features]:
        """Return pooled features and logits of each picture."""
        import torch

        from scenewright.evals.metrics.inception_network import resize_as_tensorflow

        with torch.inference_mode():
            pixels = []
            for image in images:
                data = torch.from_numpy(np.array(image.convert("RGB"))).to(self._device)
                pixels.append(resize_as_tensorflow(data.permute(2, 0, 1)[None].float()))
            pooled, logits = self._network(torch.cat(pixels))
        return {"pool": pooled.cpu().numpy(), "logits": logits.cpu().numpy()}


def find_inception(metric: str, weights: str | None = None) -> Path:
    """Return the checkpoint's file: ``weights``, or the one in the folder of torch's hub.

    pytorch-fid, torch-fidelity and torchmetrics put it there. Never uses the network. Raises
    ``MetricError`` with the remedies if it is not there.
    """
    if weights is not None:
        file = Path(weights).expanduser()
        if not file.is_file():
            raise MetricError(f"{metric}: the file {file} is missing: check the option weights")
        return file
    import torch

    folder = Path(torch.hub.get_dir()) / "checkpoints"
    for name in NAMES:
        if (folder / name).is_file():
            return folder / name
    raise MetricError(
        f"{metric}: the weights of Inception-V3 are not on this machine (about 96 MB, licence "
        f"Apache-2.0): get {SOURCE} into {folder}, name the file that you have in the option "
        f"weights, {MINIATURE}"
    )


def load_inception(weights: Path) -> InceptionV3:
    """Return the network with the weights of ``weights``, ready for use on the CPU.

    A ``.pth`` is read without running anything that it may hold. Raises ``MetricError`` for a file
    that cannot be read, lacks weights, or is not what the eight digits in its name say.
    """
    import torch
    from safetensors.torch import load_file

    from scenewright.evals.metrics.inception_network import InceptionV3

    said = _DIGEST.search(weights.name)
    if said is not None and not digest_file(weights).startswith(said[1]):
        raise MetricError(f"{weights} is damaged: its SHA-256 does not begin with {said[1]}")
    try:
        state: dict[str, Any] = (
            load_file(weights)
            if weights.suffix == ".safetensors"
            else torch.load(weights, map_location="cpu", weights_only=True)
        )
        network = InceptionV3()
        # The graph was ported without the counters of batch norm and with heads of its training.
        lacking, _ = network.load_state_dict(state, strict=False)
    except Exception as error:
        raise MetricError(f"{weights} does not hold weights of Inception-V3: {error}") from error
    lost = [name for name in lacking if not name.endswith("num_batches_tracked")]
    if lost:
        raise MetricError(f"{weights} lacks {len(lost)} weights of Inception-V3, such as {lost[0]}")
    return network.float().eval().requires_grad_(False)
