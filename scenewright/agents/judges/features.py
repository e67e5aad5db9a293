"""Features of pictures from a model's vision tower, computed once for many questions."""

from __future__ import annotations

import hashlib
import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from PIL import Image

# What towers say beside the features; a model that gives more may read it later.
_SPARE_OUTPUTS = {
    "last_hidden_state",
    "pooler_output",
    "hidden_states",
    "attentions",
    "intermediate_activations",
    "reshaped_hidden_states",
}
_POOLED, _DEEP = "pooler_output", "deepstack_features"


class PictureFeatures:
    """The features of the last pictures, in the form in which the model takes them from outside.

    ``kept``: most pictures whose features stay.
    """

    def __init__(self, model: Any, kept: int) -> None:
        # The inner model names its arguments, the outer one of some families does not.
        self._encode: Any = getattr(model.base_model, "get_image_features", None)
        self._kept = kept
        self._features: OrderedDict[str, Any] = OrderedDict()
        takes = inspect.signature(model.forward).parameters
        self.shared = "mm_encoder_outputs" in takes and self._encode is not None
        """Whether the model takes features from outside."""
        self.encoded = 0
        """How often the vision tower ran for shared features."""

    def of(
        self,
        images: Sequence[Image.Image],
        inputs_of: Callable[[int], Mapping[str, Any]],
    ) -> Any | None:
        """Return the features of all ``images``, one after the other; None if not shareable.

        Equal neighbours are one object. ``inputs_of`` gives the model's input of the picture at a
        place.
        """
        if not self.shared:
            return None
        found: list[Any] = []
        at = 0
        while at < len(images):
            times = 1
            while at + times < len(images) and images[at + times] is images[at]:
                times += 1
            features = self._one(images[at], inputs_of, at)
            if features is None:
                return None
            found += [features] * times
            at += times
        return _joined(found)

    def _one(
        self, image: Image.Image, inputs_of: Callable[[int], Mapping[str, Any]], at: int
    ) -> Any | None:
        """Features of one image, from the few kept ones if it was seen; none if not shareable."""
        key = hashlib.sha256(f"{image.mode}{image.size}".encode() + image.tobytes()).hexdigest()
        if key in self._features:
            self._features.move_to_end(key)
            return self._features[key]
        takes = inspect.signature(self._encode).parameters
        features = self._encode(
            **{k: v for k, v in inputs_of(at).items() if k in takes and k != "input_ids"},
            return_dict=True,
        )
        self.encoded += 1
        given = {name for name, value in features.items() if value is not None}
        if _POOLED not in given or not given <= {*_SPARE_OUTPUTS, _DEEP}:
            self.shared = False
            return None
        kept = type(features)(**{k: features[k] for k in (_POOLED, _DEEP) if k in given})
        self._features[key] = kept
        while len(self._features) > self._kept:
            self._features.popitem(last=False)
        return kept


def _joined(parts: Sequence[Any]) -> Any:
    """The features of several pictures as those of all of them in a row."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    joined = {_POOLED: _in_a_row([part[_POOLED] for part in parts])}
    if _DEEP in first:
        layers = zip(*(part[_DEEP] for part in parts), strict=True)
        joined[_DEEP] = [_in_a_row(list(layer)) for layer in layers]
    return type(first)(**joined)


def _in_a_row(features: Sequence[Any]) -> Any:
    """Tensors of pictures joined along the first dimension, or lists of them one after another."""
    if all(isinstance(one, torch.Tensor) for one in features):
        return torch.cat(list(features))
    return [feature for one in features for feature in one]
