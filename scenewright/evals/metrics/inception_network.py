"""The Inception-V3 that FID and Inception Score are defined by, as a torch module.

The graph of December 2015 that TensorFlow's authors published (Szegedy et al., 2016), as ported
to PyTorch by pytorch-fid: 1008 classes; average pools leave the padding out; the pool of the last
block takes the maximum. Names of weights are those of that checkpoint,
``pt_inception-2015-12-05-6726825d.pth``.
"""

from __future__ import annotations

from typing import cast

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


class _Block(nn.Module):
    def _run(self, x: Tensor, *names: str) -> Tensor:
        for name in names:
            x = cast(BasicConv2d, getattr(self, name))(x)
        return x

    def _chain(self, prefix: str, inputs: int, *layers: tuple[int, Size]) -> None:
        """Apply the layers ``prefix_1``, ``prefix_2``, …, which keep the size."""
        for at, (outputs, size) in enumerate(layers, start=1):
            self.add_module(f"{prefix}_{at}", BasicConv2d(inputs, outputs, size))
            inputs = outputs


class BlockA(_Block):
    """35×35: 1×1, 5×5, two 3×3, and a pool of ``pooled`` channels."""

    def __init__(self, inputs: int, pooled: int) -> None:
        super().__init__()
        self.branch1x1 = BasicConv2d(inputs, 64, 1)
        self._chain("branch5x5", inputs, (48, 1), (64, 5))
        self._chain("branch3x3dbl", inputs, (64, 1), (96, 3), (96, 3))
        self.branch_pool = BasicConv2d(inputs, pooled, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return (n, inputs, 35, 35) → (n, 224 + pooled, 35, 35)."""
        five = self._run(x, "branch5x5_1", "branch5x5_2")
        three = self._run(x, "branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3")
        return torch.cat([self.branch1x1(x), five, three, self.branch_pool(_average(x))], 1)


class BlockB(_Block):
    """35×35 → 17×17."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.branch3x3 = BasicConv2d(inputs, 384, 3, stride=2, valid=True)
        self._chain("branch3x3dbl", inputs, (64, 1), (96, 3))
        self.branch3x3dbl_3 = BasicConv2d(96, 96, 3, stride=2, valid=True)

    def forward(self, x: Tensor) -> Tensor:
        """Return (n, inputs, 35, 35) → (n, 480 + inputs, 17, 17)."""
        three = self._run(x, "branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3")
        return torch.cat([self.branch3x3(x), three, functional.max_pool2d(x, 3, 2)], 1)


class BlockC(_Block):
    """17×17: 1×1, 7×7 in two steps and in four, and a pool; ``middle`` channels inside."""

    def __init__(self, inputs: int, middle: int) -> None:
        super().__init__()
        wide, high = (1, 7), (7, 1)
        self.branch1x1 = BasicConv2d(inputs, 192, 1)
        self._chain("branch7x7", inputs, (middle, 1), (middle, wide), (192, high))
        self._chain(
            "branch7x7dbl",
            inputs,
            *((middle, 1), (middle, high), (middle, wide), (middle, high), (192, wide)),
        )
        self.branch_pool = BasicConv2d(inputs, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return (n, inputs, 17, 17) → (n, 768, 17, 17)."""
        seven = self._run(x, *(f"branch7x7_{at}" for at in (1, 2, 3)))
        double = self._run(x, *(f"branch7x7dbl_{at}" for at in (1, 2, 3, 4, 5)))
        return torch.cat([self.branch1x1(x), seven, double, self.branch_pool(_average(x))], 1)


class BlockD(_Block):
    """17×17 → 8×8."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self._chain("branch3x3", inputs, (192, 1))
        self.branch3x3_2 = BasicConv2d(192, 320, 3, stride=2, valid=True)
        self._chain("branch7x7x3", inputs, (192, 1), (192, (1, 7)), (192, (7, 1)))
        self.branch7x7x3_4 = BasicConv2d(192, 192, 3, stride=2, valid=True)

    def forward(self, x: Tensor) -> Tensor:
        """Return (n, inputs, 17, 17) → (n, 512 + inputs, 8, 8)."""
        three = self._run(x, "branch3x3_1", "branch3x3_2")
        seven = self._run(x, *(f"branch7x7x3_{at}" for at in (1, 2, 3, 4)))
        return torch.cat([three, seven, functional.max_pool2d(x, 3, 2)], 1)


class BlockE(_Block):
    """8×8: 1×1, 3×3 and two 3×3 that part in the last step, and a pool."""

    def __init__(self, inputs: int, maximum: bool) -> None:
        super().__init__()
        self._maximum = maximum
        self.branch1x1 = BasicConv2d(inputs, 320, 1)
        self._chain("branch3x3", inputs, (384, 1))
        self._chain("branch3x3dbl", inputs, (448, 1), (384, 3))
        for name in ("branch3x3_2", "branch3x3dbl_3"):
            self.add_module(f"{name}a", BasicConv2d(384, 384, (1, 3)))
            self.add_module(f"{name}b", BasicConv2d(384, 384, (3, 1)))
        self.branch_pool = BasicConv2d(inputs, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return (n, inputs, 8, 8) → (n, 2048, 8, 8)."""
        three = self._run(x, "branch3x3_1")
        double = self._run(x, "branch3x3dbl_1", "branch3x3dbl_2")
        parts = [
            self._run(inner, f"{name}{part}")
            for inner, name in ((three, "branch3x3_2"), (double, "branch3x3dbl_3"))
            for part in "ab"
        ]
        pooled = functional.max_pool2d(x, 3, 1, 1) if self._maximum else _average(x)
        return torch.cat([self.branch1x1(x), *parts, self.branch_pool(pooled)], 1)


class InceptionV3(nn.Module):
    """The whole network, with random weights until a checkpoint is loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.Conv2d_1a_3x3 = BasicConv2d(3, 32, 3, stride=2, valid=True)
        self.Conv2d_2a_3x3 = BasicConv2d(32, 32, 3, valid=True)
        self.Conv2d_2b_3x3 = BasicConv2d(32, 64, 3)
        self.Conv2d_3b_1x1 = BasicConv2d(64, 80, 1)
        self.Conv2d_4a_3x3 = BasicConv2d(80, 192, 3, valid=True)
        self.Mixed_5b, self.Mixed_5c = BlockA(192, 32), BlockA(256, 64)
        self.Mixed_5d, self.Mixed_6a = BlockA(288, 64), BlockB(288)
        self.Mixed_6b, self.Mixed_6c = BlockC(768, 128), BlockC(768, 160)
        self.Mixed_6d, self.Mixed_6e = BlockC(768, 160), BlockC(768, 192)
        self.Mixed_7a = BlockD(768)
        self.Mixed_7b, self.Mixed_7c = BlockE(1280, False), BlockE(2048, True)
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


def _average(x: Tensor) -> Tensor:
    return functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
