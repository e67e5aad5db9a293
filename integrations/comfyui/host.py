"""What ComfyUI gives a node at work: interruption and progress. Elsewhere there is neither."""

from __future__ import annotations

from typing import Any


def check_interrupted() -> None:
    """Raise ComfyUI's exception if the person has pressed Cancel."""
    try:
        from comfy.model_management import throw_exception_if_processing_interrupted
    except ImportError:
        return
    throw_exception_if_processing_interrupted()


class Progress:
    """The node's progress bar, which never goes back."""

    def __init__(self, total: int) -> None:
        """``total``: its end."""
        self._total = total
        self._value = 0
        try:
            from comfy.utils import ProgressBar
        except ImportError:
            self._bar: Any = None
        else:
            self._bar = ProgressBar(total)

    def tell(self, value: float, preview: Any = None) -> None:
        """So much is done; ``preview``: a PIL image to show."""
        self._value = max(self._value, min(self._total, int(value)))
        if self._bar is not None:
            shown = None if preview is None else ("JPEG", preview, max(preview.size))
            self._bar.update_absolute(self._value, self._total, shown)
