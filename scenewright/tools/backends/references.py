"""Reference images in a UNet: Equation 5 of Scene-Bench, exactly.

``Z = Attn(Q, K_prompt, V_prompt) + Σ_i λ_i · Attn(Q, K_i, V_i)``: every reference has its
own softmax and its own weight λ_i. Two images under one IP-Adapter would be joined along
the keys and share a softmax; so each reference here is an adapter of its own. All of them
are the *same* modules: another number of references costs neither memory nor a reload.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from scenewright.core.ports.backend import BackendError, LoadImage, Reference
from scenewright.tools.backends.adapter import (
    AdapterFolder,
    ReferenceForm,
    Size,
    attach_encoder,
    read_adapter,
)

if TYPE_CHECKING:
    import torch
    from PIL import Image

    from scenewright.tools.backends.adapter import AdapterWeights
    from scenewright.tools.backends.placing import WeightTensors


@contextlib.contextmanager
def adapter_errors(name: str) -> Iterator[None]:
    """Raise ``BackendError``, naming the adapter, if its weights do not fit the denoiser."""
    try:
        yield
    except (KeyError, RuntimeError, ValueError, IndexError, AttributeError) as error:
        raise BackendError(
            f"the IP-Adapter {name} does not fit this model ({error}): "
            "use one that was trained for it"
        ) from error


def check_width(given: int, wanted: int, name: str) -> None:
    """Raise ``BackendError`` if an encoder gives another number of values than is wanted."""
    if wanted != given:
        raise BackendError(
            f"the image encoder {name} gives {given} numbers an image, the IP-Adapter takes "
            f"{wanted}: use the encoder it was trained with"
        )


class ReferenceAttention:
    """Switches a denoiser between no reference and any number of them.

    Not thread-safe: the denoiser's processors are its state.
    """

    def __init__(
        self, denoiser: Any, weights: AdapterWeights, name: str, processor: type | None = None
    ) -> None:
        """Load the adapter into ``denoiser`` and leave it switched off.

        ``processor``: class of the attention layers that a reference enters; None: that of UNets.
        Raises ``BackendError``, naming the adapter, if it was made for another denoiser.
        """
        from diffusers.models.attention_processor import IPAdapterAttnProcessor2_0

        kind: Any = processor or IPAdapterAttnProcessor2_0
        self._denoiser = denoiser
        self._plain = dict(denoiser.attn_processors)
        self._plain_projection = (
            getattr(denoiser, "encoder_hid_proj", None),
            denoiser.config.get("encoder_hid_dim_type"),
        )
        with adapter_errors(name):
            denoiser._load_ip_adapter_weights([weights])
            check_complete(denoiser)
        self._adapted = {
            key: one if isinstance(one, kind) else self._plain[key]
            for key, one in denoiser.attn_processors.items()
        }
        self.projection = denoiser.encoder_hid_proj.image_projection_layers[0]
        """Projection of the encoder's embeddings."""
        self._layers = [
            (one, one.to_k_ip[0], one.to_v_ip[0])
            for one in self._adapted.values()
            if isinstance(one, kind)
        ]
        self._tensors: WeightTensors | None = None
        self.use(())

    def use_tensors(self, tensors: WeightTensors) -> None:
        """From now on the weights are ``tensors``, which a compiled denoiser needs."""
        self._tensors = tensors
        self.use(())

    def use(self, weights: Sequence[float]) -> None:
        """Set λ_0 … λ_{n-1}; with none, the denoiser computes what it did without adapter."""
        from diffusers.models.embeddings import MultiIPAdapterImageProjection
        from torch import nn

        denoiser, count = self._denoiser, len(weights)
        if not count:
            denoiser.set_attn_processor(dict(self._plain))
            denoiser.encoder_hid_proj, denoiser.config.encoder_hid_dim_type = self._plain_projection
            return
        scales, tensors = [float(weight) for weight in weights], self._tensors
        if tensors is not None:
            scales = tensors.set(scales)
        for processor, to_k, to_v in self._layers:
            processor.scale = list(scales)
            processor.to_k_ip = nn.ModuleList([to_k] * count)
            values = [to_v] * count if tensors is None else tensors.values(to_v, count)
            processor.to_v_ip = nn.ModuleList(values)
            if tokens := getattr(processor, "num_tokens", None):
                processor.num_tokens = [tokens[0]] * count
        denoiser.set_attn_processor(dict(self._adapted))
        denoiser.encoder_hid_proj = MultiIPAdapterImageProjection([self.projection] * count)
        denoiser.config.encoder_hid_dim_type = "ip_image_proj"


def check_complete(denoiser: Any) -> None:
    """Raise ``KeyError`` with the first tensor of ``denoiser`` that no file gave."""
    for name, tensor in denoiser.named_parameters():
        if tensor.is_meta:
            raise KeyError(name)


def mask_tensors(
    masks: Sequence[Image.Image | None], width: int, height: int
) -> list[torch.Tensor | None] | None:
    """Return the masks for ``ip_adapter_masks``, each ``[1, 1, height, width]`` of 0 and 1.

    None if none.

    A reference without a mask acts everywhere.
    """
    if all(mask is None for mask in masks):
        return None
    from diffusers.image_processor import IPAdapterMaskProcessor

    processor = IPAdapterMaskProcessor()
    return [
        None
        if mask is None
        else processor.preprocess(mask.convert("L"), height=height, width=width)
        for mask in masks
    ]


class References(ReferenceForm):
    """References of a pipeline with a UNet, which each have an attention of their own."""

    attention: ReferenceAttention

    def __init__(self, pipe: Any, adapter: AdapterFolder) -> None:
        """Load ``adapter`` into ``pipe``; raises ``BackendError`` if it does not fit."""
        super().__init__(pipe)
        self.attention = ReferenceAttention(
            pipe.unet, read_adapter(adapter.weights), str(adapter.weights)
        )
        encoder = attach_encoder(pipe, adapter, pipe.unet.dtype)
        width, layer = encoder.config.projection_dim, self.attention.projection
        layer = getattr(layer, "image_embeds", None)
        check_width(width, getattr(layer, "in_features", width), str(adapter.encoder))

    def use(self, weights: Sequence[float]) -> None:
        """Switch the denoiser to as many references as there are weights."""
        self.attention.use(weights)

    def use_weight_tensors(self) -> None:
        """Make the weights tensors, so that new ones compile nothing anew."""
        from scenewright.tools.backends.placing import WeightTensors

        self.attention.use_tensors(WeightTensors(self._pipe._execution_device))

    def call_options(
        self, used: Sequence[Reference], load: LoadImage, guidance: float, size: Size
    ) -> dict[str, Any]:
        import torch

        self._pipe._guidance_scale = guidance
        guided = bool(self._pipe.do_classifier_free_guidance)
        embeds = []
        for reference in used:
            positive, negative = self._encoded(reference.image, load)
            embeds.append(torch.cat([negative, positive]) if guided else positive)
        masks = [load(reference.mask) if reference.mask else None for reference in used]
        tensors = mask_tensors(masks, *size)
        options: dict[str, Any] = {"ip_adapter_image_embeds": embeds}
        if tensors is not None:
            options["cross_attention_kwargs"] = {"ip_adapter_masks": tensors}
        return options

    def encode(self, picture: Image.Image) -> tuple[torch.Tensor, torch.Tensor]:
        from diffusers.models.embeddings import ImageProjection

        # The Plus kind reads the encoder's last but one hidden layer.
        hidden = not isinstance(self.attention.projection, ImageProjection)
        positive, negative = self._pipe.encode_image(
            picture, self._pipe._execution_device, 1, hidden
        )
        return positive[None], negative[None]
