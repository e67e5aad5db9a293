"""Reference images in a transformer: Flux, where Equation 5 holds, and SD3, where it does not.

Flux (the layout that XLabs published): in each double block ``h += Σ_i λ_i · Attn(Q, K_i, V_i)``,
with the queries of the picture before their rotary embedding: every reference has its own softmax
and weight, as in a UNet. All references are the same modules.

SD3 (InstantX): ``h += λ · Attn(Q', [K', K_ref], [V, V_ref])``, where Q', K' and V are those of the
picture itself: the reference shares one softmax with it, so λ weighs both together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scenewright.core.ports.backend import BackendError, LoadImage, Reference
from scenewright.tools.backends.adapter import (
    AdapterFolder,
    ReferenceForm,
    Size,
    attach_encoder,
    read_adapter,
)
from scenewright.tools.backends.families import AdapterForm
from scenewright.tools.backends.references import (
    ReferenceAttention,
    References,
    adapter_errors,
    check_complete,
    check_width,
)

if TYPE_CHECKING:
    import torch
    from PIL import Image


def references_of(form: AdapterForm, pipe: Any, adapter: AdapterFolder) -> ReferenceForm:
    """``adapter`` loaded into ``pipe``; raises ``BackendError`` if it does not fit."""
    forms: dict[AdapterForm, type[References | FluxReferences | JoinedReferences]] = {
        "unet": References,
        "flux": FluxReferences,
        "sd3": JoinedReferences,
    }
    return forms[form](pipe, adapter)


class FluxReferences(ReferenceForm):
    """The references of a Flux pipeline."""

    def __init__(self, pipe: Any, adapter: AdapterFolder) -> None:
        """Load ``adapter`` into ``pipe``; raises ``BackendError`` if it does not fit."""
        super().__init__(pipe)
        from diffusers.models.transformers.transformer_flux import FluxIPAdapterAttnProcessor

        weights = read_adapter(adapter.weights)
        self.attention = ReferenceAttention(
            pipe.transformer, weights, str(adapter.weights), FluxIPAdapterAttnProcessor
        )
        encoder = attach_encoder(pipe, adapter, pipe.transformer.dtype)
        check_width(
            encoder.config.projection_dim,
            weights["image_proj"]["proj.weight"].shape[-1],
            str(adapter.encoder),
        )

    def use(self, weights: Sequence[float]) -> None:
        self.attention.use(weights)

    def call_options(
        self, used: Sequence[Reference], load: LoadImage, guidance: float, size: Size
    ) -> dict[str, Any]:
        embeds = [self._encoded(reference.image, load) for reference in used]
        # Without negative ones the pipeline encodes black pictures, which nothing then reads.
        return dict.fromkeys(
            ("ip_adapter_image_embeds", "negative_ip_adapter_image_embeds"), embeds
        )

    def encode(self, picture: Image.Image) -> torch.Tensor:
        """``[1, 1, width]``."""
        found: torch.Tensor = self._pipe.encode_image(picture, self._pipe._execution_device, 1)
        return found[None]


class JoinedReferences(ReferenceForm):
    """The reference of a Stable Diffusion 3 pipeline: one at most."""

    def __init__(self, pipe: Any, adapter: AdapterFolder) -> None:
        """Load ``adapter`` into ``pipe``; raises ``BackendError`` if it does not fit."""
        super().__init__(pipe)
        self._transformer = transformer = pipe.transformer
        self._plain = dict(transformer.attn_processors)
        weights = read_adapter(adapter.weights)
        with adapter_errors(str(adapter.weights)):
            transformer._load_ip_adapter_weights(weights)
            check_complete(transformer)
        self._projection, transformer.image_proj = transformer.image_proj, None
        self._adapted = dict(transformer.attn_processors)
        encoder = attach_encoder(pipe, adapter, transformer.dtype, siglip=True)
        check_width(
            encoder.config.hidden_size,
            weights["image_proj"]["proj_in.weight"].shape[-1],
            str(adapter.encoder),
        )
        self.use(())

    def use(self, weights: Sequence[float]) -> None:
        if len(weights) > 1:
            raise BackendError(f"{len(weights)} references were given, SD3 takes one: give one")
        transformer = self._transformer
        # The resampler has attention layers too, which must not count when processors are set.
        transformer.image_proj = None
        transformer.set_attn_processor(dict(self._adapted if weights else self._plain))
        if weights:
            transformer.image_proj = self._projection
            for processor in self._adapted.values():
                processor.scale = float(weights[0])

    def call_options(
        self, used: Sequence[Reference], load: LoadImage, guidance: float, size: Size
    ) -> dict[str, Any]:
        import torch

        positive = self._encoded(used[0].image, load)
        self._pipe._guidance_scale = guidance
        if self._pipe.do_classifier_free_guidance:
            positive = torch.cat([torch.zeros_like(positive), positive])
        return {"ip_adapter_image_embeds": positive}

    def encode(self, picture: Image.Image) -> torch.Tensor:
        """``[1, patches, width]``."""
        found: torch.Tensor = self._pipe.encode_image(picture, self._pipe._execution_device)
        return found
