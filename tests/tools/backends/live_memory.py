"""Counts the bytes of live tensors, whichever device they are on, real or not."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveMemory(TorchDispatchMode):
    """Inside, ``peak`` is the most bytes that tensors made here held at once."""

    def __init__(self, *models: torch.nn.Module) -> None:
        """The weights of ``models`` do not count."""
        super().__init__()
        self.live = self.peak = 0
        tensors = [t for model in models for t in (*model.parameters(), *model.buffers())]
        self._known = {tensor.untyped_storage()._cdata for tensor in tensors}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                key, size = storage._cdata, storage.nbytes()
                if key not in self._known:
                    self._known.add(key)
                    self.live += size
                    self.peak = max(self.peak, self.live)
                    weakref.finalize(storage, self._gone, key, size)
        return out

    def _gone(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.live -= size
