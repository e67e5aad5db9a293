"""Unified models: a backend that draws and a model that understands, taken as one.

A model that really is one plugs in as a class of its own: see
:class:`~scenewright.evals.studies.xtc.base.UnifiedModel`. If two entries of an evaluation share one
of their sides, that side works once for both: they say so by :func:`drawing_mark` and
:func:`understanding_mark`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image

from scenewright.core.ports.backend import BackendError, GenerationRequest, ImageBackend
from scenewright.core.ports.composer import Composer
from scenewright.core.scene import SceneGraph
from scenewright.evals.runner.arms import digest
from scenewright.evals.studies.xtc.base import DrawnPicture, Question, Reply, UnifiedModel
from scenewright.evals.studies.xtc.understanding import Understander


@dataclass(frozen=True)
class Paired:
    """Implements :class:`~scenewright.evals.studies.xtc.base.UnifiedModel` by two models."""

    name: str
    """How tables call it."""
    backend: ImageBackend
    """What draws."""
    understander: Understander
    """What answers."""
    composer: Composer | None = None
    """What words a scene for the backend, in place of the benchmark's prompt: for models that
    understand one form of words alone. With it, prompts of two models differ."""
    negative_prompt: str = ""
    """What to avoid, if the backend takes it."""
    steps: int | None = None
    """Denoising steps; none: the backend's default."""
    guidance: float | None = None
    """Classifier-free guidance scale; none: the backend's default."""
    size: tuple[int, int] | None = None
    """(width, height) in pixels; none: the backend's default."""

    @property
    def id(self) -> str:
        """The name."""
        return self.name

    @property
    def fingerprint(self) -> str:
        """Of both sides."""
        return digest(self.drawing_fingerprint, self.understanding_fingerprint)

    @property
    def drawing_fingerprint(self) -> str:
        """Changes whenever it could draw otherwise."""
        words = None if self.composer is None else self.composer.fingerprint
        settings = [self.negative_prompt, self.steps, self.guidance, self.size]
        return digest(self.backend.fingerprint, words, settings)

    @property
    def understanding_fingerprint(self) -> str:
        """Changes whenever it could answer otherwise."""
        return self.understander.fingerprint

    @property
    def parts(self) -> dict[str, str]:
        """What it is made of, for manifests."""
        found = {"backend": self.backend.id, "understander": self.understander.id}
        return found if self.composer is None else {**found, "composer": self.composer.id}

    async def draw(self, scene: SceneGraph, prompt: str, seed: int) -> DrawnPicture:
        """The backend's picture of ``prompt``, or of its own composer's wording of ``scene``.

        Raises ``BackendError``, and what the composer's calls raise.
        """
        text = prompt if self.composer is None else await self.composer.compose(scene, seed)
        width, height = self.size or (None, None)
        request = GenerationRequest(
            prompt=text,
            negative_prompt=self.negative_prompt,
            seed=seed,
            steps=self.steps,
            guidance=self.guidance,
            width=width,
            height=height,
        )
        made = await self.backend.generate(request, _no_picture)
        return DrawnPicture(made.image, text, made.count)

    async def answer(self, image: Image.Image, questions: Sequence[Question]) -> list[Reply]:
        """The understander's replies."""
        return await self.understander.answer(image, questions)

    async def load(self) -> None:
        """Load the weights of both, of those that can be loaded ahead."""
        for model in (self.backend, getattr(self.understander, "judge", self.understander)):
            load = getattr(model, "load", None)
            if load is not None:
                await load()

    async def aclose(self) -> None:
        """Nothing: backends, judges and chat models are shared by the process."""


def drawing_mark(model: UnifiedModel) -> str:
    """What decides the pictures of ``model``: its ``drawing_fingerprint``, else all of it."""
    found: str = getattr(model, "drawing_fingerprint", None) or model.fingerprint
    return found


def understanding_mark(model: UnifiedModel) -> str:
    """What decides the answers of ``model``: its ``understanding_fingerprint``, else all of it."""
    found: str = getattr(model, "understanding_fingerprint", None) or model.fingerprint
    return found


def parts_of(model: UnifiedModel) -> dict[str, str]:
    """What ``model`` is made of, as far as it tells."""
    return dict(getattr(model, "parts", {}))


def _no_picture(name: str) -> Image.Image:
    raise BackendError(f"there is no picture {name}: the request refers to none")
