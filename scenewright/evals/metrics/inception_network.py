"""The Inception-V3 that FID and Inception Score are defined by, as a torch module.

The graph of December 2015 that TensorFlow's authors published (Szegedy et al., 2016), as ported
to PyTorch by pytorch-fid: 1008 classes; average pools leave the padding out; the pool of the last
block takes the maximum. Names of weights are those of that checkpoint,
``pt_inception-2015-12-05-6726825d.pth``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

POOL = 2048
"""Length of the pooled features."""
CLASSES = 1008
"""Length of the logits."""
SIDE = 299
"""Side of the network's input in pixels."""

Size = int | tuple[int, int]


class BasicConv2d(nn.Module):
    """Convolution without bias, batch norm, ReLU; padded to keep the size unless ``valid``."""

    def __init__(
        self, inputs: int, outputs: int, size: Size, stride: int = 1, valid: bool = False
    ) -> None:
        super().__init__()
        height, width = (size, size) if isinstance(size, int) else size
        padding = (0, 0) if valid else (height // 2, width // 2)
        self.conv = nn.Conv2d(inputs, outputs, (height, width), stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        """Return (n, inputs, h, w) → (n, outputs, h', w')."""
        return functional.relu(self.bn(self.conv(x)))


class Mixed(nn.Module):
    """Branches side by side, each a chain of layers with the names of the checkpoint.

    A branch of one layer has its name; of several they are ``branch_1``, ``branch_2``, ….
    """

    def __init__(
        self,
        inputs: int,
        branches: Mapping[str, Sequence[tuple[int, Size]]],
        pool: Literal["average", "maximum", "halving"] = "average",
        forked: Sequence[str] = (),
    ) -> None:
        """Make the layers of ``branches``, each given by its channels and its size.

        ``branch_pool`` begins at the ``pool``. Where that is ``halving``, the last layers step by
        two, and the pool is a branch itself. The branches of ``forked`` end in a 1×3 and a 3×1 side
        by side.
        """
        super().__init__()
        self._pool = pool
        self._chains: dict[str, tuple[list[str], list[str]]] = {}
        for branch, layers in branches.items():
            width, names = inputs, []
            for at, (outputs, size) in enumerate(layers, start=1):
                alone = len(layers) == 1 and branch not in forked
                names.append(branch if alone else f"{branch}_{at}")
                halves = pool == "halving" and at == len(layers)
                layer = BasicConv2d(width, outputs, size, 2 if halves else 1, valid=halves)
                self.add_module(names[-1], layer)
                width = outputs
            ends = [f"{branch}_{len(layers) + 1}{end}" for end in "ab"] if branch in forked else []
            for end, size in zip(ends, ((1, 3), (3, 1)), strict=False):
                self.add_module(end, BasicConv2d(width, 384, size))
            self._chains[branch] = names, ends

    def forward(self, x: Tensor) -> Tensor:
        """Return (n, inputs, h, w) → (n, channels of all branches, h', w')."""
        if self._pool == "average":
            pooled = functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
        else:
            step, padding = (2, 0) if self._pool == "halving" else (1, 1)
            pooled = functional.max_pool2d(x, 3, step, padding)
        found: list[Tensor] = []
        for branch, (names, ends) in self._chains.items():
            y = pooled if branch == "branch_pool" else x
            for name in names:
                y = self.get_submodule(name)(y)
            found += [self.get_submodule(end)(y) for end in ends] or [y]
        return torch.cat([*found, pooled] if self._pool == "halving" else found, 1)


def _mixed_5(inputs: int, pooled: int) -> Mixed:
    """35×35."""
    dbl = ((64, 1), (96, 3), (96, 3))
    return Mixed(
        inputs,
        {
            "branch1x1": [(64, 1)],
            "branch5x5": [(48, 1), (64, 5)],
            "branch3x3dbl": dbl,
            "branch_pool": [(pooled, 1)],
        },
    )


def _mixed_6(inputs: int, middle: int) -> Mixed:
    """17×17, with ``middle`` channels inside."""
    wide, high = (1, 7), (7, 1)
    dbl = ((middle, 1), (middle, high), (middle, wide), (middle, high), (192, wide))
    return Mixed(
        inputs,
        {
            "branch1x1": [(192, 1)],
            "branch7x7": [(middle, 1), (middle, wide), (192, high)],
            "branch7x7dbl": dbl,
            "branch_pool": [(192, 1)],
        },
    )


def _mixed_7(inputs: int, pool: Literal["average", "maximum"]) -> Mixed:
    """8×8."""
    branches: dict[str, list[tuple[int, Size]]] = {
        "branch1x1": [(320, 1)],
        "branch3x3": [(384, 1)],
        "branch3x3dbl": [(448, 1), (384, 3)],
        "branch_pool": [(192, 1)],
    }
    return Mixed(inputs, branches, pool, forked=("branch3x3", "branch3x3dbl"))


class InceptionV3(nn.Module):
    """The whole network, with random weights until a checkpoint is loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.Conv2d_1a_3x3 = BasicConv2d(3, 32, 3, stride=2, valid=True)
        self.Conv2d_2a_3x3 = BasicConv2d(32, 32, 3, valid=True)
        self.Conv2d_2b_3x3 = BasicConv2d(32, 64, 3)
        self.Conv2d_3b_1x1 = BasicConv2d(64, 80, 1)
        self.Conv2d_4a_3x3 = BasicConv2d(80, 192, 3, valid=True)
        self.Mixed_5b, self.Mixed_5c = _mixed_5(192, 32), _mixed_5(256, 64)
        self.Mixed_5d = _mixed_5(288, 64)
        dbl = ((64, 1), (96, 3), (96, 3))
        self.Mixed_6a = Mixed(288, {"branch3x3": [(384, 3)], "branch3x3dbl": dbl}, "halving")
        self.Mixed_6b, self.Mixed_6c = _mixed_6(768, 128), _mixed_6(768, 160)
        self.Mixed_6d, self.Mixed_6e = _mixed_6(768, 160), _mixed_6(768, 192)
        seven: list[tuple[int, Size]] = [(192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3)]
        three: list[tuple[int, Size]] = [(192, 1), (320, 3)]
        self.Mixed_7a = Mixed(768, {"branch3x3": three, "branch7x7x3": seven}, "halving")
        self.Mixed_7b, self.Mixed_7c = _mixed_7(1280, "average"), _mixed_7(2048, "maximum")
        self.fc = nn.Linear(POOL, CLASSES)

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Return features (n, 2048) and logits (n, 1008) of (n, 3, 299, 299), values 0…255."""
        x = (pixels - 128) / 128
        x = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x)))
        x = self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(functional.max_pool2d(x, 3, 2)))
        x = functional.max_pool2d(x, 3, 2)
        x = self.Mixed_6a(self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(x))))
        x = self.Mixed_6e(self.Mixed_6d(self.Mixed_6c(self.Mixed_6b(x))))
        x = self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(x)))
        pooled = x.mean((2, 3))
        return pooled, functional.linear(pooled, self.fc.weight)


def resize_as_tensorflow(pixels: Tensor) -> Tensor:
    """Return (n, c, h, w) → (n, c, SIDE, SIDE) as ``ResizeBilinear`` of TensorFlow 1 in that graph.

    Point i of the result lies at ``i·h/SIDE``, from the corner and not from the middle of a pixel,
    and nothing is smoothed where the picture shrinks (Parmar et al., 2022, show what that does).
    """
    for axis in (3, 2):
        length = pixels.shape[axis]
        place = torch.arange(SIDE, dtype=torch.float32) * (length / SIDE)
        low = place.floor().long().clamp(max=length - 1)
        high = (low + 1).clamp(max=length - 1)
        share = (place - low).to(pixels.device, pixels.dtype)
        share = share[:, None] if axis == 2 else share
        first = pixels.index_select(axis, low.to(pixels.device))
        second = pixels.index_select(axis, high.to(pixels.device))
        pixels = first + (second - first) * share
    return pixels
