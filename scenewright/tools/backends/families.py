"""What differs between families of pipelines, as data."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from scenewright.core.ports.backend import ReferenceMaths
from scenewright.tools.backends.pipeline import quiet

AdapterForm = Literal["unet", "flux", "sd3"]
"""The published layouts of IP-Adapters: for UNets (h94), for Flux (XLabs), for SD3 (InstantX)."""
Latents = Literal["grid", "packed"]
"""How a pipeline holds its latents: channels × height × width, or patches of 2×2 in a row."""

_MATHS: dict[AdapterForm, ReferenceMaths] = {"unet": "exact", "flux": "exact", "sd3": "joined"}


@dataclass(frozen=True, slots=True)
class EditForm:
    """How a pipeline edits pictures by instruction."""

    pictures: int | None
    """Most pictures that it sees at once; None: any number."""
    listed: bool = False
    """Whether its call takes a list of pictures."""
    drawing: str | None = None
    """The class of the same parts that draws without a picture; None: it does so itself."""
    sized: bool = False
    """Whether it would change the size asked for, unless it is told the area."""
    unbounded: bool = False
    """Whether it reads an instruction of any length, whatever it reads of a prompt."""


@dataclass(frozen=True, slots=True)
class Family:
    """What a pipeline class takes and does, beyond drawing from a prompt."""

    adapter: AdapterForm | None = None
    """The layout of its IP-Adapters; None: there are none."""
    most_references: int | None = None
    """Most references of its adapter; None: any number."""
    image_to_image: str | None = None
    """The class of the same parts that starts from a picture."""
    latents: Latents = "grid"
    """How those are held."""
    edits: EditForm | None = None
    """How it edits by instruction; None: it does not."""
    text: tuple[tuple[str, ...], ...] = ()
    """Tokenizers of the prompt's embeddings: rows follow each other along the tokens, those of a
    row lie side by side along the channels. Empty: words cannot be emphasised."""
    chunks: bool = False
    """Whether prompts longer than the text encoders' input can be read in chunks."""
    lengths: tuple[int, ...] = ()
    """Values of the call's ``max_sequence_length``, shortest first: the shortest is the one that
    the model was trained with, a longer one is used for a prompt that does not fit. Empty: the
    call's default."""
    few_lengths: tuple[int, ...] = ()
    """The same of models that are distilled to few steps, where it differs."""
    reader: str = "tokenizer"
    """The tokenizer whose tokens these lengths bound."""
    guidance: str = "guidance_scale"
    """The call's option for the guidance scale."""
    negative_prompt: bool = True
    """Whether a negative prompt has an effect, if the call takes one."""
    no_negative: str | None = None
    """What the call takes for an empty negative prompt."""
    few_steps: int | None = None
    """Denoising steps where the denoiser takes no guidance: those are distilled to few steps."""

    def references(self, wanted: int) -> int:
        """How many references a request may have where ``wanted`` are to be allowed."""
        most = self.edits.pictures if self.edits is not None else self.most_references
        return wanted if most is None else min(wanted, most)

    @property
    def masks(self) -> bool:
        """Whether a reference may carry a mask."""
        return self.adapter == "unet"

    @property
    def maths(self) -> ReferenceMaths:
        """How references enter the picture."""
        if self.edits is not None:
            return "pictures"
        return _MATHS[self.adapter] if self.adapter else "none"


_FLUX = Family(
    adapter="flux",
    image_to_image="FluxImg2ImgPipeline",
    latents="packed",
    text=(("tokenizer_2",),),
    lengths=(512,),
    few_lengths=(256, 512),
    reader="tokenizer_2",
    # Guidance is an input of the distilled model; a negative prompt would need a second pass.
    negative_prompt=False,
    few_steps=4,
)
_QWEN = Family(
    image_to_image="QwenImageImg2ImgPipeline",
    latents="packed",
    guidance="true_cfg_scale",
    no_negative=" ",
    # Prompts are not filled up to it, so that the longest costs a short prompt nothing.
    lengths=(1024,),
)
_FAMILIES: dict[str, Family] = {
    "StableDiffusion3Pipeline": Family(
        adapter="sd3",
        most_references=1,
        image_to_image="StableDiffusion3Img2ImgPipeline",
        text=(("tokenizer", "tokenizer_2"), ("tokenizer_3",)),
        lengths=(256, 512),
        reader="tokenizer_3",
    ),
    "FluxPipeline": _FLUX,
    "FluxKontextPipeline": replace(_FLUX, adapter=None, edits=EditForm(1, sized=True)),
    "QwenImagePipeline": _QWEN,
    "QwenImageEditPipeline": replace(
        _QWEN, edits=EditForm(1, drawing="QwenImagePipeline", unbounded=True)
    ),
    "QwenImageEditPlusPipeline": replace(
        _QWEN,
        edits=EditForm(None, listed=True, drawing="QwenImagePipeline", unbounded=True),
    ),
}
_ONE, _TWO = (("tokenizer",),), (("tokenizer", "tokenizer_2"),)
_CLIP_TEXTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "StableDiffusionPipeline": _ONE,
    "StableDiffusionPAGPipeline": _ONE,
    "LatentConsistencyModelPipeline": _ONE,
    "StableDiffusionXLPipeline": _TWO,
    "StableDiffusionXLPAGPipeline": _TWO,
}
"""UNets whose denoiser sees nothing of a prompt but the embeddings of CLIP, and their tokenizers.
Their ``encode_prompt`` gives embeddings of the prompt and of the negative one, then, with two
encoders, the pooled ones."""


def family_of(pipeline_class: str, parts: Collection[str]) -> Family:
    """Return the family of ``pipeline_class``, whose folder holds ``parts``.

    A class that is not listed draws from prompts; if it has a UNet, it takes the adapters of
    UNets, and starts from pictures if diffusers has a form of it that does.
    """
    if pipeline_class in _FAMILIES:
        family = _FAMILIES[pipeline_class]
        rows = tuple(tuple(name for name in row if name in parts) for row in family.text)
        # Without T5 the prompt is what CLIP reads of it, whatever length is asked for.
        lengths = family.lengths if family.reader in parts else ()
        return replace(family, text=tuple(row for row in rows if row), lengths=lengths)
    if "unet" not in parts:
        return Family()
    return Family(
        adapter="unet",
        image_to_image=image_to_image_class(pipeline_class, parts),
        text=_CLIP_TEXTS.get(pipeline_class, ()),
        chunks=pipeline_class in _CLIP_TEXTS,
    )


def image_to_image_class(pipeline_class: str, parts: Collection[str]) -> str | None:
    """Return the image-to-image pipeline for the weights of ``pipeline_class``, or None.

    Only for families whose ``parts`` hold a UNet, whose schedulers can add noise to a picture, and
    an autoencoder: cascades of pixels have no latents to keep.
    """
    if not {"unet", "vae"}.issubset(parts):
        return None
    with quiet():
        from diffusers.pipelines.auto_pipeline import (
            AUTO_IMAGE2IMAGE_PIPELINES_MAPPING,
            AUTO_TEXT2IMAGE_PIPELINES_MAPPING,
        )
    for family, drawing in AUTO_TEXT2IMAGE_PIPELINES_MAPPING.items():
        if drawing.__name__ == pipeline_class and family in AUTO_IMAGE2IMAGE_PIPELINES_MAPPING:
            name: str = AUTO_IMAGE2IMAGE_PIPELINES_MAPPING[family].__name__
            return name
    return None
