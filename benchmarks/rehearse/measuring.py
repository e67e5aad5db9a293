"""Peak memory of this process on a device, between two moments."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import torch

_EVERY = 0.005
"""Seconds between two looks at main memory."""
_STATM = Path("/proc/self/statm")


class PeakMemory:
    """Peak bytes inside a ``with`` block, beyond what was taken when the meter was made.

    On CUDA what the allocator handed out. In main memory the anonymous pages, looked at every few
    milliseconds: pages of files that are mapped can be dropped at any time.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.highest = 0
        """Peak of all blocks so far."""
        self.last = 0
        """Peak of the latest block."""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._before = self._now()

    def __enter__(self) -> Self:
        self.last = 0
        if self._device.type == "cuda":
            import torch

            torch.cuda.reset_peak_memory_stats(self._device)
            return self
        self._stop.clear()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is None:
            import torch

            self.last = torch.cuda.max_memory_allocated(self._device) - self._before
        else:
            self._stop.set()
            self._thread.join()
            self._thread = None
            # On a busy machine the thread may not have had its turn since the block began.
            self._sample()
        self.highest = max(self.highest, self.last)

    def _watch(self) -> None:
        while True:
            self._sample()
            if self._stop.wait(_EVERY):
                return

    def _sample(self) -> None:
        self.last = max(self.last, self._now() - self._before)

    def _now(self) -> int:
        if self._device.type == "cuda":
            import torch

            return int(torch.cuda.memory_allocated(self._device))
        try:
            _, resident, shared, *_ = _STATM.read_text(encoding="ascii").split()
        except OSError:
            # Without /proc there is no cheap way to tell; a peak of 0 is shown as not measured.
            return 0
        return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
