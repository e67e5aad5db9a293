"""What the references of all families have in common."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from scenewright.core.ports.backend import BackendError, Reference
from scenewright.tools.backends.pipeline import Recent

if TYPE_CHECKING:
    from PIL import Image

REFERENCES_KEPT = 64


class ReferenceForm(ABC):
    """The references of one pipeline: encodes pictures, once each, and sets the weights λ.

    Not thread-safe: it changes the pipeline's denoiser.
    """

    def __init__(self, pipe: Any) -> None:
        """Raises ``BackendError`` if ``pipe`` takes no references."""
        if not hasattr(pipe, "encode_image"):
            raise BackendError(
                f"{type(pipe).__name__} has no place for references: leave 'ip_adapter' out"
            )
        self._pipe = pipe
        self._used: list[Reference] = []
        self._embeds: Recent[Any] = Recent(REFERENCES_KEPT)

    @property
    def reused(self) -> int:
        """How many encoded pictures were found kept."""
        return self._embeds.hits

    def options(
        self,
        references: Sequence[Reference],
        load: Callable[[str], Image.Image],
        guidance: float,
        size: tuple[int, int],
    ) -> dict[str, Any]:
        """Sets the weights of the first step and returns the call options that carry the pictures.

        ``guidance`` is the guidance scale (with guidance, the pipeline's own negative
        embeddings go along); ``size`` is (width, height) in pixels, for the masks.
        """
        # A reference of weight 0 adds nothing to Eq. 5.
        self._used = [reference for reference in references if reference.weight != 0]
        self._use(self._weights(0.0))
        return self._carried(self._used, load, guidance, size) if self._used else {}

    def at(self, done: float) -> None:
        """Sets the weights of the next step; ``done`` is its place from 0 (first) to 1 (last)."""
        if any(reference.schedule for reference in self._used):
            self._weigh(self._weights(done))

    def _weights(self, done: float) -> list[float]:
        return [reference.weight * reference.factor(done) for reference in self._used]

    def _encoded(self, image_hash: str, load: Callable[[str], Image.Image]) -> Any:
        return self._embeds.get(image_hash, lambda: self._encode(load(image_hash).convert("RGB")))

    @contextlib.contextmanager
    def attached(self) -> Iterator[None]:
        """Inside, the denoiser holds the adapter's modules as if a reference were in use."""
        self._use([1.0])
        try:
            yield
        finally:
            self._use([])

    def hold_weights(self) -> bool:
        """Makes the weights something that a compiler does not take for constants.

        False where the family does not allow it: there the second weight compiles once more, and
        no later one does.
        """
        return False

    @abstractmethod
    def _use(self, weights: Sequence[float]) -> None:
        """Switches the denoiser to as many references as there are weights."""

    @abstractmethod
    def _weigh(self, weights: Sequence[float]) -> None:
        """Changes the weights of the references in use."""

    @abstractmethod
    def _carried(
        self,
        used: Sequence[Reference],
        load: Callable[[str], Image.Image],
        guidance: float,
        size: tuple[int, int],
    ) -> dict[str, Any]:
        """The call options that carry the pictures of ``used``."""

    @abstractmethod
    def _encode(self, picture: Image.Image) -> Any:
        """The embeddings of ``picture``, which is RGB."""
