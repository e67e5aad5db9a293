"""The miniature's own encoders for metrics: no download, and a meaning in its painted world only.

Pictures are seen by the IP-Adapter's image encoder, which learned to give each patch of a painting
the state that the text encoder gives the words about what stands there; the mean over the patches
is the picture's vector (128 numbers). Texts are read by the generator's text encoder, the mean
over their tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from PIL import Image

from scenewright.evals.metrics.closed_forms import ClassHead, PairMaps
from scenewright.evals.metrics.encoders import EncodedTexts, unit
from scenewright.evals.metrics.weights import digest, fingerprint
from scenewright.evals.metrics.worker import Worker, shared
from scenewright.evals.store.journal import Features
from scenewright.miniature.world import KINDS, SIZE
from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS

WIDTH = 128
"""Length of a picture's vector."""
_BATCH = 64


class MiniatureModels:
    """Both encoders and what is fitted to them. Not thread-safe: one thread uses it."""

    def __init__(self, device: str) -> None:
        """Loads the picture's encoder; the text's is loaded with the first text."""
        from scenewright.miniature.training.adapter import load_reader

        self._device = device
        with _Quiet():
            self._reader = load_reader(MINIATURE_WEIGHTS / "ip-adapter").to(device).eval()
        self._text: tuple[Any, Any] | None = None
        self._head: ClassHead | None = None
        self._maps: PairMaps | None = None

    def see(self, images: Sequence[Image.Image]) -> Features:
        """(n, :data:`WIDTH`): mean of the projected states of the 64 patches."""
        import torch

        found: list[Features] = []
        for begin in range(0, len(images), _BATCH):
            pixels = np.stack([_pixels(image) for image in images[begin : begin + _BATCH]])
            with torch.inference_mode():
                states = self._reader.see(torch.from_numpy(pixels).to(self._device))
                # The first state belongs to no patch.
                found.append(self._reader.proj(states)[:, 1:].mean(1).cpu().numpy())
        return np.concatenate(found)

    def logits(self, images: Sequence[Image.Image]) -> Features:
        """(n, 12): the world's kinds, in the order of their names."""
        from scenewright.evals.metrics.miniature_fits import class_head

        if self._head is None:
            self._head = class_head(_eyes(), self.see)
        logits = self._head.logits(self.see(images).astype(np.float64))
        return logits.astype(np.float32)

    def read(self, texts: Sequence[str]) -> Features:
        """(n, 128): mean of the states of the tokens."""
        return self._read(texts)[0]

    def pictures(self, images: Sequence[Image.Image]) -> Features:
        """(n, 64): in the space that they share with texts."""
        return self._common().of_first(self.see(images).astype(np.float64)).astype(np.float32)

    def texts(self, texts: Sequence[str]) -> Features:
        """(n, 65): in the space that they share with pictures; then the number of tokens cut."""
        states, cut = self._read(texts)
        common = self._common().of_second(states.astype(np.float64))
        return np.concatenate([common, cut[:, None]], axis=1).astype(np.float32)

    def _common(self) -> PairMaps:
        from scenewright.evals.metrics.miniature_fits import pair_maps

        if self._maps is None:
            self._maps = pair_maps(_both(), self.see, self.read)
        return self._maps

    def _read(self, texts: Sequence[str]) -> tuple[Features, Features]:
        import torch

        tokenizer, encoder = self._text_side()
        room = tokenizer.model_max_length
        found: list[Features] = []
        cut: list[int] = []
        for begin in range(0, len(texts), _BATCH):
            part = [text.lower() for text in texts[begin : begin + _BATCH]]
            lengths = [len(ids) for ids in tokenizer(part, verbose=False)["input_ids"]]
            cut += [max(0, length - room) for length in lengths]
            given = tokenizer(
                part, padding="longest", truncation=True, max_length=room, return_tensors="pt"
            ).to(self._device)
            mask = given["attention_mask"][..., None].float()
            with torch.inference_mode():
                states = encoder(given["input_ids"]).last_hidden_state
                found.append(((states * mask).sum(1) / mask.sum(1)).cpu().numpy())
        return np.concatenate(found), np.array(cut, np.float32)

    def _text_side(self) -> tuple[Any, Any]:
        import torch
        from transformers import CLIPTextModel, CLIPTokenizer

        if self._text is None:
            folder = MINIATURE_WEIGHTS / "generator"
            with _Quiet():
                tokenizer = CLIPTokenizer.from_pretrained(
                    folder / "tokenizer", local_files_only=True
                )
                encoder = CLIPTextModel.from_pretrained(
                    folder / "text_encoder", dtype=torch.float32, local_files_only=True
                )
            self._text = tokenizer, encoder.to(self._device).eval()
        return self._text


class _OfMiniature:
    def __init__(self, device: str, batch: int) -> None:
        self._batch = batch
        self._worker: Worker[MiniatureModels] = shared(
            ("miniature", device), lambda: Worker("miniature", device, MiniatureModels)
        )


class MiniatureExtractor(_OfMiniature):
    """Implements :class:`~scenewright.evals.metrics.base.FeatureExtractor`."""

    def __init__(self, output: str = "features", *, device: str = "auto", batch: int = 64) -> None:
        """``output``: ``features`` (128), or ``logits`` of the world's kinds (12)."""
        super().__init__(device, batch)
        self._output = output

    @property
    def id(self) -> str:
        """``miniature:features`` or ``miniature:logits``."""
        return f"miniature:{self._output}"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of weights, what is fitted to them, device and library versions."""
        return fingerprint(self._output, _fitted(), _eyes(), self._worker.device)

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return len(KINDS) if self._output == "logits" else WIDTH

    async def features(self, images: Sequence[Image.Image]) -> Features:
        """One row a picture, which is brought to 128×128."""
        if not images:
            return np.zeros((0, self.dimensions), np.float32)
        work = MiniatureModels.logits if self._output == "logits" else MiniatureModels.see
        return await self._worker.rows(images, self._batch, work)


class MiniatureEncoder(_OfMiniature):
    """Implements :class:`~scenewright.evals.metrics.encoders.TextImageEncoder`."""

    id = "miniature"

    def __init__(self, *, device: str = "auto", batch: int = 64) -> None:
        """``batch``: pictures or texts in one pass."""
        super().__init__(device, batch)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of weights, what is fitted to them, device and library versions."""
        return fingerprint("pair", _fitted(), _both(), self._worker.device)

    async def images(self, images: Sequence[Image.Image]) -> Features:
        """One row of length 1 a picture, which is brought to 128×128."""
        rows = await self._worker.rows(images, self._batch, MiniatureModels.pictures)
        return unit(rows, "pictures")

    async def texts(self, texts: Sequence[str]) -> EncodedTexts:
        """One row of length 1 a text; what is past 128 tokens is cut."""
        rows = await self._worker.rows(texts, self._batch, MiniatureModels.texts)
        return EncodedTexts(unit(rows[:, :-1], "texts"), tuple(int(n) for n in rows[:, -1]))


class _Quiet:
    """Without the libraries' progress bars."""

    def __enter__(self) -> None:
        from transformers.utils import logging

        self._shown = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()

    def __exit__(self, *error: object) -> None:
        from transformers.utils import logging

        if self._shown:
            logging.enable_progress_bar()


def _pixels(image: Image.Image) -> Features:
    """(3, 128, 128) in [−1, 1]."""
    small = image.convert("RGB")
    if small.size != (SIZE, SIZE):
        small = small.resize((SIZE, SIZE), Image.Resampling.BICUBIC)
    found: Features = np.asarray(small, np.float32).transpose(2, 0, 1) / 127.5 - 1
    return found


def _eyes() -> str:
    return digest(MINIATURE_WEIGHTS / "ip-adapter")


def _both() -> str:
    generator = MINIATURE_WEIGHTS / "generator"
    words = [digest(generator / part) for part in ("text_encoder", "tokenizer")]
    return fingerprint(_eyes(), *words)


def _fitted() -> str:
    from scenewright.evals.metrics.miniature_fits import recipe

    return recipe()
