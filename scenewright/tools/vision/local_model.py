"""Models of transformers on this machine: found, loaded once, used in turn, freed."""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
import transformers
from transformers import AutoImageProcessor
from transformers.utils import logging as transformers_logging

from scenewright.agents.judges.vlm import device_of, find_model
from scenewright.core.error_text import error_text
from scenewright.core.images import ImageError
from scenewright.core.ports.judge import JudgeError
from scenewright.providers.device_gate import (
    LOADING,
    DeviceGate,
    ModelThread,
    Stop,
    Stopped,
    gate_of,
)

T = TypeVar("T")


class LocalModel(ABC):
    """A model that one worker thread owns.

    Pictures wait in line and the event loop stays free; on an accelerator each also waits for the
    device's turn. The model is loaded with the first picture, or by :meth:`load`.
    """

    error: ClassVar[type[RuntimeError]]
    """Raised for all that goes wrong."""
    loaded_as: ClassVar[str] = "a model"
    """Kind of model that the folder should hold."""
    remedy: ClassVar[str] = ""
    """End of the error for a model that does not load."""
    _model: Any = None
    _processor: Any = None
    _tokenizer: Any = None

    def __init__(
        self, model: str | os.PathLike[str], *, name: str | None, device: str, thread: str
    ) -> None:
        """``model``: a folder in transformers layout, or a fetched hub repository ``owner/name``.

        ``name``: how it is called (default: the model as given). ``thread``: prefix of the thread's
        name. Raises :attr:`error` if the model is not on this machine.
        """
        self.folder = folder_of(model, self.error)
        """Folder of the model."""
        self.name = name or str(model)
        """Its name."""
        self._device = device
        self._thread = ModelThread(thread)
        self._loaded = False
        self._failure: RuntimeError | None = None

    async def load(self) -> None:
        """Load the model now; raises :attr:`error` if that fails."""
        await self.run(self.make_ready)

    async def aclose(self) -> None:
        """Wait for the running pictures, then free the model."""
        if self._thread.closed:
            return
        await self._thread.aclose()
        self.free_model()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    @abstractmethod
    def open_model(self, device: torch.device) -> None:
        """Load the model; what the libraries raise is told by the caller."""

    def free_model(self) -> None:
        """Let go of the model, its processor and its tokenizer."""
        self._model = self._processor = self._tokenizer = None

    @property
    def versions(self) -> tuple[str, str, str]:
        """Versions of the libraries, and the device: results depend on them."""
        return transformers.__version__, torch.__version__, self._device

    def check_open(self) -> None:
        """Raise :attr:`error` if the model was closed."""
        if self._thread.closed:
            raise self.error(f"{self.name} is closed: make a new one")

    async def run(self, work: Callable[[Stop], T]) -> T:
        """Run ``work`` in the model's thread."""
        self.check_open()
        return await self._thread.run(work)

    @property
    def _gate(self) -> DeviceGate:
        return gate_of(str(device_of(self._device)))

    def make_ready(self, stop: Stop) -> None:
        """Load the model unless it is; a failure stays. Runs in the worker thread."""
        if self._failure is not None:
            raise self._failure
        if self._loaded:
            return
        try:
            device = device_of(self._device)
            with self._gate.turn(stop), LOADING, _no_progress_bar():
                self.open_model(device)
        except Stopped:
            raise
        except Exception as error:
            if isinstance(error, self.error):
                self._failure = error
                raise
            self._failure = self.error(
                f"{self.folder} could not be loaded as {self.loaded_as} with transformers "
                f"{transformers.__version__} on {self._device}: {error_text(error)}{self.remedy}"
            )
            raise self._failure from error
        self._loaded = True

    @contextmanager
    def turn(self, stop: Stop, failed_on: str, advice: str = "") -> Iterator[None]:
        """Hold the device for inference; an error says what it failed on, with ``advice``."""
        if stop.is_set():
            raise Stopped("the work was stopped")
        try:
            with self._gate.turn(stop), torch.inference_mode():
                yield
        except (Stopped, self.error, ImageError):
            raise
        except Exception as error:
            raise self.error(
                f"{self.name} failed on {failed_on}: {error_text(error)}{advice}"
            ) from error


def folder_of(model: str | os.PathLike[str], error: type[RuntimeError]) -> Path:
    """Return the local folder of ``model``.

    Raises ``error`` if there is none, or files are missing.
    """
    try:
        return find_model(model)
    except JudgeError as lost:
        raise error(str(lost)) from None


def image_processor_of(folder: Path, **overrides: Any) -> Any:
    """Return the image processor in ``folder`` that works on Pillow's pictures."""
    # Without a backend the library asks for torchvision first.
    return AutoImageProcessor.from_pretrained(
        folder, backend="pil", local_files_only=True, **overrides
    )


def model_of(auto_class: Any, folder: Path, device: torch.device) -> Any:
    """Return the model in ``folder``, in single precision, for inference."""
    model = auto_class.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
    return model.to(device).eval()


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    """No progress bar, and no advice of the library, while a model is loaded."""
    shown = transformers_logging.is_progress_bar_enabled()
    log = logging.getLogger("transformers")
    level = log.level
    transformers_logging.disable_progress_bar()
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
        if shown:
            transformers_logging.enable_progress_bar()
