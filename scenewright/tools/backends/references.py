"""Reference images in a UNet: Equation 5 of Scene-Bench, exactly.

``Z = Attn(Q, K_prompt, V_prompt) + Σ_i λ_i · Attn(Q, K_i, V_i)``: every reference has its
own softmax and its own weight λ_i. Two images under one IP-Adapter would be joined along
the keys and share a softmax; so each reference here is an adapter of its own. All of them
are the *same* modules: another number of references costs neither memory nor a reload.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from scenewright.core.ports.backend import BackendError, Reference
from scenewright.tools.backends.adapter import (
    AdapterFolder,
    ReferenceForm,
    attach_encoder,
    read_adapter,
)

if TYPE_CHECKING:
    import torch
    from diffusers import UNet2DConditionModel
    from PIL import Image

    from scenewright.tools.backends.adapter import AdapterWeights
    from scenewright.tools.backends.placing import HeldWeights


@contextlib.contextmanager
def loading(name: str) -> Iterator[None]:
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
    """Switches a UNet between no reference and any number of them.

    Not thread-safe: the UNet's processors are its state.
    """

    def __init__(self, unet: UNet2DConditionModel, weights: AdapterWeights, name: str) -> None:
        """Load the adapter into ``unet`` and leave it switched off.

        Raises ``BackendError``, naming the adapter, if it was made for another UNet.
        """
        from diffusers.models.attention_processor import IPAdapterAttnProcessor2_0

        self._unet = unet
        self._plain = dict(unet.attn_processors)
        self._plain_projection = (unet.encoder_hid_proj, unet.config.encoder_hid_dim_type)
        with loading(name):
            unet._load_ip_adapter_weights([weights])
        self._adapted = {
            key: processor if isinstance(processor, IPAdapterAttnProcessor2_0) else self._plain[key]
            for key, processor in unet.attn_processors.items()
        }
        self._projection = unet.encoder_hid_proj.image_projection_layers[0]
        self._layers = {
            key: (processor, processor.to_k_ip[0], processor.to_v_ip[0], processor.num_tokens[0])
            for key, processor in self._adapted.items()
            if isinstance(processor, IPAdapterAttnProcessor2_0)
        }
        self._held: HeldWeights | None = None
        self.use(())

    def hold_weights(self, held: HeldWeights) -> None:
        """From now on the weights are the tensors of ``held``, which a compiled UNet needs."""
        self._held = held
        self.use(())

    def check_encoder(self, width: int, name: str) -> None:
        """Raise ``BackendError`` if the encoder's embeddings, ``width`` numbers, do not fit."""
        layer = getattr(self._projection, "image_embeds", None)
        check_width(width, getattr(layer, "in_features", width), name)

    @property
    def wants_hidden_states(self) -> bool:
        """Whether the adapter reads the encoder's last but one hidden layer (the Plus kind)."""
        from diffusers.models.embeddings import ImageProjection

        return not isinstance(self._projection, ImageProjection)

    def weigh(self, weights: Sequence[float]) -> None:
        """Change λ_0 … λ_{n-1} of the n references in use."""
        scales = [float(weight) for weight in weights]
        if self._held is not None:
            scales = self._held.set(scales)
        for processor, *_ in self._layers.values():
            processor.scale = list(scales)

    def use(self, weights: Sequence[float]) -> None:
        """Set λ_0 … λ_{n-1}. With none, the UNet computes exactly what it did without adapter."""
        from diffusers.models.embeddings import MultiIPAdapterImageProjection
        from torch import nn

        unet, count = self._unet, len(weights)
        if not count:
            unet.set_attn_processor(dict(self._plain))
            unet.encoder_hid_proj, unet.config.encoder_hid_dim_type = self._plain_projection
            return
        for processor, to_k, to_v, tokens in self._layers.values():
            processor.to_k_ip = nn.ModuleList([to_k] * count)
            values = [to_v] * count if self._held is None else self._held.values(to_v, count)
            processor.to_v_ip = nn.ModuleList(values)
            processor.num_tokens = [tokens] * count
        self.weigh(weights)
        unet.set_attn_processor(dict(self._adapted))
        unet.encoder_hid_proj = MultiIPAdapterImageProjection([self._projection] * count)
        unet.config.encoder_hid_dim_type = "ip_image_proj"


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
    """The references of a pipeline with a UNet."""

    def __init__(self, pipe: Any, adapter: AdapterFolder) -> None:
        """Load ``adapter`` into ``pipe``; raises ``BackendError`` if it does not fit."""
        super().__init__(pipe)
        self._attention = ReferenceAttention(
            pipe.unet, read_adapter(adapter.weights), str(adapter.weights)
        )
        encoder = attach_encoder(pipe, adapter, pipe.unet.dtype)
        self._attention.check_encoder(encoder.config.projection_dim, str(adapter.encoder))

    def hold_weights(self) -> bool:
        """Make the weights tensors, so that new ones compile nothing anew."""
        from scenewright.tools.backends.placing import HeldWeights

        self._attention.hold_weights(HeldWeights(self._pipe._execution_device))
        return True

    def use(self, weights: Sequence[float]) -> None:
        self._attention.use(weights)

    def weigh(self, weights: Sequence[float]) -> None:
        self._attention.weigh(weights)

    def call_options(
        self,
        used: Sequence[Reference],
        load: Callable[[str], Image.Image],
        guidance: float,
        size: tuple[int, int],
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
        hidden = self._attention.wants_hidden_states
        positive, negative = self._pipe.encode_image(
            picture, self._pipe._execution_device, 1, hidden
        )
        return positive[None], negative[None]
