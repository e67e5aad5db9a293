"""Feature extractors and encoders by name, and models in transformers layout.

Names: ``inception``, ``miniature``, a folder, ``OWNER/NAME`` of the hub as fetched earlier, or
``module:function`` of your own. Models in transformers layout are CLIP, SigLIP, DINOv2 and the
like. Features of a picture are the class token after the last layer norm (``class``; DINOv2) or the
projection into the space of texts (``projection``; CLIP). Weights are used in single precision
unless another one is requested.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from scenewright.evals.metrics.base import (
    FeatureExtractor,
    MetricError,
    is_plugin,
    plugin_of,
    text,
    whole,
)
from scenewright.evals.metrics.encoders import (
    NetworkEncoder,
    NetworkExtractor,
    TextImageEncoder,
    Worker,
    digest,
    find_model,
    quiet,
    shared,
)
from scenewright.evals.store.journal import Features

DTYPES = ("float32", "bfloat16", "float16")
PREPARATIONS = ("squash", "processor")
_VERSION = 1
"""Increased when the same picture or text would get another vector."""


class LoadedModel:
    """A loaded model with its preparation of pictures. Not thread-safe: one thread uses it."""

    def __init__(self, folder: Path, device: str, dtype: str) -> None:
        """Load the model in ``folder``. Raises ``MetricError`` if that fails."""
        import torch
        import transformers
        from transformers import AutoImageProcessor, AutoModel

        try:
            with quiet():
                # The variant without torchvision, which is not everywhere.
                self._prepare: Any = AutoImageProcessor.from_pretrained(
                    folder, local_files_only=True, backend="pil"
                )
                self._model: Any = AutoModel.from_pretrained(
                    folder, local_files_only=True, dtype=getattr(torch, dtype)
                )
            self._model.to(device).eval()
        except Exception as error:
            raise MetricError(
                f"{folder} could not be loaded with transformers {transformers.__version__} as an "
                f"encoder on {device}: {error}"
            ) from error
        self._folder = folder
        self._tokenizer: Any = None

    def features(self, images: Sequence[Image.Image], output: str, preparation: str) -> Features:
        """Return one row a picture."""
        import torch

        pixels = self._pixels(images, preparation)
        with torch.inference_mode():
            if output == "projection":
                if not hasattr(self._model, "get_image_features"):
                    raise MetricError(
                        f"{self._folder} has no projection of pictures: name a model of pictures "
                        "and texts such as CLIP or SigLIP"
                    )
                return _rows(self._model.get_image_features(pixel_values=pixels))
            tower = getattr(self._model, "vision_model", self._model)
            return _rows(tower(pixel_values=pixels))

    def texts(self, texts: Sequence[str]) -> Features:
        """Return one row a text; the last column is the number of cut tokens."""
        import torch

        tokenizer = self._text_side()
        room = self._model.config.text_config.max_position_embeddings
        # SigLIP learned with texts filled up to their full length.
        fill = "max_length" if self._model.config.model_type.startswith("siglip") else "longest"
        lengths = [len(ids) for ids in tokenizer(list(texts), verbose=False)["input_ids"]]
        given = tokenizer(
            list(texts), padding=fill, truncation=True, max_length=room, return_tensors="pt"
        )
        with torch.inference_mode():
            found = _rows(self._model.get_text_features(**given.to(self._model.device)))
        cut = np.maximum(np.array(lengths, np.float32) - room, 0)
        return np.concatenate([found, cut[:, None]], axis=1)

    def _text_side(self) -> Any:
        from transformers import AutoTokenizer

        if self._tokenizer is None:
            if not hasattr(self._model, "get_text_features"):
                raise MetricError(
                    f"{self._folder} encodes no texts: name a model of pictures and texts such as "
                    "CLIP or SigLIP"
                )
            try:
                self._tokenizer = AutoTokenizer.from_pretrained(self._folder, local_files_only=True)
            except Exception as error:
                raise MetricError(
                    f"the tokenizer in {self._folder} could not be loaded: {error}"
                ) from error
        return self._tokenizer

    def _pixels(self, images: Sequence[Image.Image], preparation: str) -> Any:
        given = [image.convert("RGB") for image in images]
        options: dict[str, Any] = {}
        if preparation == "squash":
            width, height = self._side()
            given = [image.resize((width, height), Image.Resampling.BICUBIC) for image in given]
            options = {"do_resize": False, "do_center_crop": False}
        found = self._prepare(images=given, return_tensors="pt", **options)["pixel_values"]
        return found.to(self._model.device, self._model.dtype)

    def _side(self) -> tuple[int, int]:
        """Return (width, height) that the model's own preparation ends at."""
        cropped = getattr(self._prepare, "do_center_crop", False)
        size = self._prepare.crop_size if cropped else self._prepare.size
        side = size.get("shortest_edge")
        return (side, side) if side is not None else (size["width"], size["height"])


def _network(
    folder: Path, name: str, device: str, dtype: str, preparation: str
) -> tuple[Worker[LoadedModel], Callable[..., tuple[object, ...]]]:
    """Return the thread of a model in transformers layout, and what gives its identity."""
    worker: Worker[LoadedModel] = shared(
        ("transformers", folder.resolve(), device, dtype),
        lambda: Worker(name, device, lambda where: LoadedModel(folder, where, dtype)),
    )
    return worker, lambda output: (_VERSION, digest(folder), dtype, preparation, output)


def transformers_extractor(
    folder: Path, name: str, output: str, device: str, batch: int, dtype: str, preparation: str
) -> NetworkExtractor:
    """Return the extractor of a model in transformers layout.

    Args:
        folder: the model.
        name: its given name.
        output: ``class`` or ``projection``.
        device: ``auto``, ``cpu``, ``cuda:1``, ….
        batch: pictures in one pass.
        dtype: precision of the weights.
        preparation: ``squash`` resizes the whole picture to the model's size (bicubic, as the
            papers of CMMD and FD-DINOv2 do), ``processor`` does what the model's own processor
            does, which crops.
    """
    worker, identity = _network(folder, name, device, dtype, preparation)

    def dimensions() -> int:
        from transformers import AutoConfig

        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        if output == "projection":
            own = getattr(config, "projection_dim", None)
            return int(config.vision_config.hidden_size if own is None else own)
        return int(getattr(config, "vision_config", config).hidden_size)

    return NetworkExtractor(
        f"transformers:{name}",
        worker,
        batch,
        lambda: identity(output),
        lambda model, part: model.features(part, output, preparation),
        dimensions,
    )


def transformers_encoder(
    folder: Path, name: str, device: str, batch: int, dtype: str, preparation: str
) -> NetworkEncoder:
    """Return the encoder of a model as in :func:`transformers_extractor`."""
    worker, identity = _network(folder, name, device, dtype, preparation)
    return NetworkEncoder(
        f"transformers:{name}",
        worker,
        batch,
        lambda: identity("pair"),
        lambda model, part: model.features(part, "projection", preparation),
        lambda model, part: model.texts(part),
    )


def _rows(output: Any) -> Features:
    # Newer versions of transformers hand the projection over as the pooled output.
    found = getattr(output, "pooler_output", output)
    rows: Features = found.float().cpu().numpy().astype(np.float32)
    return rows


INCEPTION = "inception"
MINIATURE = "miniature"


def extractor_of(
    metric: str, name: Any, output: str, options: Mapping[str, Any]
) -> FeatureExtractor:
    """Return the extractor that a metric's option ``extractor`` names.

    ``output``: what the metric wants of a network: ``pool``, ``class``, ``projection`` or
    ``logits``. A network without an Inception's pool gives its class token. Options: ``device``,
    ``batch``, ``dtype``, ``preparation``, ``weights``, as far as the extractor has them. Raises
    ``MetricError`` for a wrong option, or if the model is not on this machine.
    """
    name = text("extractor", name)
    if is_plugin(name):
        own: FeatureExtractor = plugin_of(
            name, FeatureExtractor, "is not an extractor", output, options=options
        )
        return own
    if name == MINIATURE:
        from scenewright.evals.metrics.miniature import miniature_extractor

        kind = "logits" if output == "logits" else "features"
        return miniature_extractor(kind, **_options(name, options))
    if name == INCEPTION:
        from scenewright.evals.metrics.inception import find_inception, inception_extractor

        given = _options(name, options, weights=None)
        file = find_inception(metric, given.pop("weights"))
        return inception_extractor(file, "logits" if output == "logits" else "pool", **given)
    if output == "logits":
        raise MetricError(
            f"{metric} needs classes, which {name!r} does not give: use extractor = "
            f'"{INCEPTION}", "{MINIATURE}", or your own as module:function'
        )
    given = _options(name, options, dtype="float32", preparation="squash")
    output = "projection" if output == "projection" else "class"
    return transformers_extractor(find_model(metric, name), name, output, **given)


def encoder_of(metric: str, name: Any, options: Mapping[str, Any]) -> TextImageEncoder:
    """Return the encoder of pictures and texts that a metric's option ``extractor`` names.

    As :func:`extractor_of`.
    """
    name = text("extractor", name)
    if is_plugin(name):
        what = "does not encode pictures and texts"
        own: TextImageEncoder = plugin_of(name, TextImageEncoder, what, options=options)
        return own
    if name == MINIATURE:
        from scenewright.evals.metrics.miniature import miniature_encoder

        return miniature_encoder(**_options(name, options))
    if name == INCEPTION:
        raise MetricError(f"{metric}: {INCEPTION} encodes no texts: name a CLIP model")
    given = _options(name, options, dtype="float32", preparation="processor")
    return transformers_encoder(find_model(metric, name), name, **given)


_CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "device": text,
    "batch": lambda name, value: whole(name, value, 1),
    "dtype": lambda name, value: text(name, value, DTYPES),
    "preparation": lambda name, value: text(name, value, PREPARATIONS),
    "weights": lambda name, value: None if value is None else text(name, value),
}


def _options(extractor: str, options: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return device, batch and what ``more`` names with its default, as ``options`` give them.

    Raises ``MetricError`` for a wrong value, and for an option that the extractor would ignore.
    """
    defaults = {"device": "auto", "batch": 32, **more}
    if unknown := sorted(set(options) - set(defaults)):
        raise MetricError(
            f"the extractor {extractor!r} has no option {unknown[0]!r}: it has "
            f"{', '.join(sorted(defaults))}"
        )
    return {name: _CHECKS[name](name, options.get(name, usual)) for name, usual in defaults.items()}
