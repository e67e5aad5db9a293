"""Encoders of the miniature world for metrics: no download, meaningful in its painted world only.

Pictures are encoded by the IP-Adapter's image encoder, which learned to give each patch of a
painting the state that the text encoder gives the words about what is there; the mean over the
patches is the picture's vector (128 numbers). Texts are encoded by the generator's text encoder, as
the mean over their tokens.

What these encoders lack, classes and a space shared with texts, are linear maps that are fitted in
closed form on painted scenes with fixed seeds, in seconds, and kept in
:func:`~scenewright.config.settings.user_cache`; their weights are not shipped.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from scenewright.agents.composers.rules import describe
from scenewright.config.settings import user_cache
from scenewright.evals.metrics.encoders import (
    NetworkEncoder,
    NetworkExtractor,
    Worker,
    digest,
    fingerprint,
    quiet,
    shared,
)
from scenewright.evals.store.journal import Features
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.truth import Painting
from scenewright.miniature.world import KINDS, SETTINGS, SIZE
from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS

Real = NDArray[np.float64]
Whole = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class ClassHead:
    """Linear discriminant analysis: the logits of a shared Gaussian around each class's mean."""

    weights: Real
    """(dimensions, classes)."""
    bias: Real
    """(classes,)."""

    @classmethod
    def fit(cls, rows: Real, classes: Whole, count: int, shrinkage: float) -> ClassHead:
        """Fit ``rows`` (n, dimensions) in classes 0 … ``count`` − 1, all equally likely.

        ``shrinkage`` times the mean variance is added to each. Raises ``ValueError`` if a class has
        no row.
        """
        sizes = np.bincount(classes, minlength=count)
        if not sizes.all():
            raise ValueError(f"the classes {np.flatnonzero(sizes == 0).tolist()} have no row")
        means = np.stack([rows[classes == at].mean(0) for at in range(count)])
        spread = rows - means[classes]
        covariance = _shrunk(spread.T @ spread / (len(rows) - count), shrinkage)
        weights = np.linalg.solve(covariance, means.T)
        return cls(weights, -0.5 * (means.T * weights).sum(0))

    def logits(self, rows: Real) -> Real:
        """Return (n, dimensions) → (n, classes); their softmax is the probability of each class."""
        return rows @ self.weights + self.bias


@dataclass(frozen=True, slots=True)
class PairMaps:
    """Canonical correlation analysis (Hotelling, 1936) of paired vectors.

    Two maps into the space in which they correlate most, each direction weighed by its correlation.
    """

    first_mean: Real
    """(first dimensions,)."""
    first_map: Real
    """(first dimensions, common)."""
    second_mean: Real
    """(second dimensions,)."""
    second_map: Real
    """(second dimensions, common)."""

    @classmethod
    def fit(cls, first: Real, second: Real, common: int, shrinkage: float) -> PairMaps:
        """Fit paired rows, (n, …) and (n, …); ``common`` directions are kept.

        ``shrinkage`` times the mean variance of each side is added to its variances.
        """
        first_mean, second_mean = first.mean(0), second.mean(0)
        first, second = first - first_mean, second - second_mean
        first_root, second_root = (
            _inverse_root(_shrunk(side.T @ side / len(side), shrinkage)) for side in (first, second)
        )
        left, correlations, right = np.linalg.svd(
            first_root @ (first.T @ second / len(first)) @ second_root
        )
        scale = correlations[:common]
        return cls(
            first_mean,
            first_root @ left[:, :common] * scale,
            second_mean,
            second_root @ right.T[:, :common] * scale,
        )

    def of_first(self, rows: Real) -> Real:
        """Return (n, first dimensions) → (n, common)."""
        return (rows - self.first_mean) @ self.first_map

    def of_second(self, rows: Real) -> Real:
        """Return (n, second dimensions) → (n, common)."""
        return (rows - self.second_mean) @ self.second_map


def _shrunk(covariance: Real, shrinkage: float) -> Real:
    size = len(covariance)
    found: Real = covariance + shrinkage * np.trace(covariance) / size * np.eye(size)
    return found


def _inverse_root(covariance: Real) -> Real:
    values, vectors = np.linalg.eigh(covariance)
    found: Real = (vectors / np.sqrt(values)) @ vectors.T
    return found


CLASSES = tuple(sorted(KINDS))
"""The classes of the head, in the order of its logits."""
SINGLE = 600
"""Paintings of one thing that the head is fitted on."""
PAIRS = 1000
"""Paintings whose texts the common space is fitted on."""
COMMON = 64
"""Dimensions of the common space."""
SHRINKAGE = 0.01
FITTING = "metrics/fit"
"""Prefix of the seeds of these paintings; training seeds begin with a number."""
VERSION = 1
"""Increased when the same weights and numbers would give other maps."""

Fit = TypeVar("Fit", ClassHead, PairMaps)
See = Callable[[Sequence[Image.Image]], Features]
Read = Callable[[Sequence[str]], Features]


def recipe() -> str:
    """Return all that decides a fit besides the encoder: every number of this module."""
    return f"{VERSION}/{SINGLE}/{PAIRS}/{COMMON}/{SHRINKAGE}"


def single_painting(at: int, seeds: str = FITTING, style: str = "flat") -> Painting:
    """Return a painting of one thing; deterministic.

    ``seeds`` begins the seed, so that others are held out. The miniature's encoders learned from
    flat paintings alone.
    """
    return sample_painting(random.Random(f"{seeds}/single/{at}"), n_objects=1, style=style)


def class_of(painting: Painting) -> int:
    """Return number in :data:`CLASSES` of the first thing of a painting."""
    return CLASSES.index(painting.scene.objects[0].name)


def paired_painting(at: int, seeds: str = FITTING, style: str = "flat") -> Painting:
    """Return a painting of one to eight things with some of its relations; deterministic."""
    return sample_painting(random.Random(f"{seeds}/pair/{at}"), style=style)


def texts_of(painting: Painting) -> tuple[str, ...]:
    """Return texts that describe a painting.

    They are its composed description, its relations as phrases (if it has any), and its things with
    their colours.
    """
    scene, truth = painting.scene, painting.truth
    composed = describe(scene, truth.cells, SETTINGS[truth.setting])
    things = ", ".join(f"{o.attributes['color']} {o.name}" for o in scene.objects)
    phrases = ", ".join(
        f"{scene.object(r.source).name} {r.predicate} {scene.object(r.target).name}"
        for r in scene.relations
    )
    return tuple(filter(None, (" ".join(piece.text for piece in composed), phrases, things)))


def class_head(key: str, see: See) -> ClassHead:
    """Return the head onto the world's kinds for the encoder ``see`` of fingerprint ``key``."""

    def fit() -> ClassHead:
        paintings = [single_painting(at) for at in range(SINGLE)]
        rows = see([painting.image for painting in paintings]).astype(np.float64)
        classes = np.array([class_of(painting) for painting in paintings])
        return ClassHead.fit(rows, classes, len(CLASSES), SHRINKAGE)

    return _kept(ClassHead, _name("classes", key), fit)


def pair_maps(key: str, see: See, read: Read) -> PairMaps:
    """Return the common space of pictures and texts for two encoders of fingerprint ``key``."""

    def fit() -> PairMaps:
        paintings = [paired_painting(at) for at in range(PAIRS)]
        seen = see([painting.image for painting in paintings]).astype(np.float64)
        texts = [(at, text) for at, p in enumerate(paintings) for text in texts_of(p)]
        words = read([text for _, text in texts]).astype(np.float64)
        return PairMaps.fit(seen[[at for at, _ in texts]], words, COMMON, SHRINKAGE)

    return _kept(PairMaps, _name("pairs", key), fit)


def _name(what: str, key: str) -> str:
    return f"{what}-{hashlib.sha256(f'{key} {recipe()}'.encode()).hexdigest()[:32]}"


def _kept(kind: type[Fit], name: str, fit: Callable[[], Fit]) -> Fit:
    """Return the fit of that name from the folder, made anew where it is missing or damaged."""
    from safetensors.numpy import load_file

    file = user_cache("metrics") / f"{name}.safetensors"
    names = [field.name for field in fields(kind)]
    with contextlib.suppress(Exception):
        # Whatever is wrong with a file that can be made again: it is made again.
        kept: Mapping[str, Real] = load_file(file)
        if set(kept) == set(names) and all(np.isfinite(kept[n]).all() for n in names):
            return kind(*(kept[n] for n in names))
    found = fit()
    with contextlib.suppress(OSError):
        # Without a place to keep it, the next process fits it again.
        _write(file, {n: np.ascontiguousarray(getattr(found, n)) for n in names})
    return found


def _write(file: Path, tensors: dict[str, Real]) -> None:
    from safetensors.numpy import save

    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}.part")
    draft.write_bytes(save(tensors))
    draft.replace(file)


WIDTH = 128
"""Length of a picture's vector."""
_BATCH = 64


class MiniatureModels:
    """Both encoders and their fitted maps. Not thread-safe: one thread uses it."""

    def __init__(self, device: str) -> None:
        """Load the picture's encoder; the text's is loaded with the first text."""
        from scenewright.miniature.training.adapter import load_reader

        self._device = device
        with quiet():
            self._reader = load_reader(MINIATURE_WEIGHTS / "ip-adapter").to(device).eval()
        self._text: tuple[Any, Any] | None = None
        self._head: ClassHead | None = None
        self._maps: PairMaps | None = None

    def see(self, images: Sequence[Image.Image]) -> Features:
        """Return (n, :data:`WIDTH`): mean of the projected states of the 64 patches."""
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
        """Return (n, 12): the world's kinds, in the order of their names."""
        if self._head is None:
            self._head = class_head(_eyes(), self.see)
        logits = self._head.logits(self.see(images).astype(np.float64))
        return logits.astype(np.float32)

    def read(self, texts: Sequence[str]) -> Features:
        """Return (n, 128): mean of the states of the tokens."""
        return self._read(texts)[0]

    def pictures(self, images: Sequence[Image.Image]) -> Features:
        """Return (n, 64): in the space that they share with texts."""
        return self._common().of_first(self.see(images).astype(np.float64)).astype(np.float32)

    def texts(self, texts: Sequence[str]) -> Features:
        """Return (n, 65): in the space that they share with pictures.

        Then the number of tokens cut.
        """
        states, cut = self._read(texts)
        common = self._common().of_second(states.astype(np.float64))
        return np.concatenate([common, cut[:, None]], axis=1).astype(np.float32)

    def _common(self) -> PairMaps:

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
            with quiet():
                tokenizer = CLIPTokenizer.from_pretrained(
                    folder / "tokenizer", local_files_only=True
                )
                encoder = CLIPTextModel.from_pretrained(
                    folder / "text_encoder", dtype=torch.float32, local_files_only=True
                )
            self._text = tokenizer, encoder.to(self._device).eval()
        return self._text


def _worker(device: str) -> Worker[MiniatureModels]:
    return shared(("miniature", device), lambda: Worker("miniature", device, MiniatureModels))


def miniature_extractor(
    output: str = "features", device: str = "auto", batch: int = 64
) -> NetworkExtractor:
    """Return the extractor of ``features`` (128) or of ``logits`` of the world's kinds (12).

    Pictures are resized to 128×128.
    """
    logits = output == "logits"
    return NetworkExtractor(
        f"miniature:{output}",
        _worker(device),
        batch,
        lambda: (output, recipe(), _eyes()),
        MiniatureModels.logits if logits else MiniatureModels.see,
        lambda: len(KINDS) if logits else WIDTH,
    )


def miniature_encoder(device: str = "auto", batch: int = 64) -> NetworkEncoder:
    """Return the encoder of pictures, resized to 128×128, and of texts of up to 128 tokens."""
    return NetworkEncoder(
        "miniature",
        _worker(device),
        batch,
        lambda: ("pair", recipe(), _both()),
        MiniatureModels.pictures,
        MiniatureModels.texts,
    )


def _pixels(image: Image.Image) -> Features:
    """Return (3, 128, 128) in [−1, 1]."""
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
