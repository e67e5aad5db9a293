"""Differences between families of pipelines, as data in ``families.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter

from scenewright.core.ports.backend import ReferenceMaths

AdapterForm = Literal["none", "unet", "flux", "sd3"]
"""The published layouts of IP-Adapters: for UNets (h94), for Flux (XLabs), for SD3 (InstantX)."""
Latents = Literal["grid", "packed", "flux2"]
"""Layout of a pipeline's latents: channels × height × width, patches of 2×2 in a row, or patches
of 2×2 that are normalised by the autoencoder's statistics, in a row."""

_MATHS: dict[AdapterForm, ReferenceMaths] = {
    "none": "none", "unet": "exact", "flux": "exact", "sd3": "joined",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class EditForm:
    """Editing of pictures by instruction."""

    pictures: int | None = None
    """Most pictures that it sees at once; None: any number."""
    listed: bool = False
    """Whether its call takes a list of pictures."""
    drawing: str | None = None
    """The class of the same parts that draws without a picture; None: it does so itself."""
    sizing: Literal["max_area", "output_resolution"] | None = None
    """The call's option that keeps the pipeline from changing the size of its pictures."""
    least: int = 1
    """Smallest width and height in pixels of a picture that it takes."""
    unbounded: bool = False
    """Whether it reads an instruction of any length, whatever it reads of a prompt."""


@dataclass(frozen=True, slots=True)
class FewSteps:
    """Defaults of the models of a family that are distilled to few steps.

    They are told by ``key`` of the pipeline's index or of the denoiser's configuration, by
    ``name``, or, without both, are all models of the class.
    """

    steps: int
    """Denoising steps."""
    guidance: float
    """Guidance scale."""
    lengths: tuple[int, ...] = ()
    """``Family.lengths`` of these models, where they differ."""
    key: str | None = None
    """The key that tells them."""
    value: bool = True
    """Its value in these models."""
    name: str | None = None
    """A part of the repository's or folder's name, in lower case."""

    def applies(self, folder: Path, *settings: Mapping[str, Any]) -> bool:
        """Return whether the model in ``folder`` is one of them.

        ``settings`` are its index and the denoiser's configuration.
        """
        if self.key is not None:
            return any(one.get(self.key) is self.value for one in settings)
        # In a hub's cache the folder above the snapshots has the repository's name.
        named = folder.parent.parent if folder.parent.name == "snapshots" else folder
        return self.name is None or self.name in named.name.lower()


@dataclass(frozen=True, slots=True)
class FewStepLora:
    """Published LoRAs that let a model of the family draw in few steps."""

    file: str
    """Regular expression of the file's name without suffix, in lower case; its group is the number
    of steps."""
    guidance: float
    """Guidance scale."""
    scheduler: str | None = None
    """Class of the scheduler; None: the model's own."""
    scheduler_options: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the scheduler that differ from the model's."""
    steps: int = 0
    """Denoising steps, of a LoRA that was found."""

    def of(self, name: str) -> FewStepLora | None:
        """Return the defaults of the LoRA whose file is called ``name``; None if not one of these.

        ``name`` has no suffix.
        """
        found = re.search(self.file, name.lower())
        return None if found is None else replace(self, steps=int(found[1]))


@dataclass(frozen=True, slots=True)
class Family:
    """Inputs and abilities of a pipeline class, beyond drawing from a prompt."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    adapter: AdapterForm = "none"
    """The layout of its IP-Adapters."""
    most_references: int | None = None
    """Most references of its adapter; None: any number."""
    image_to_image: str | None = None
    """The class of the same parts that starts from a picture."""
    inpaint: str | None = None
    """The class of the same parts that draws a masked place anew after references."""
    latents: Latents = "grid"
    """Layout of its latents."""
    edits: EditForm | None = None
    """Editing by instruction; None: it does not."""
    text: tuple[str, ...] = ()
    """Tokenizers of the prompt's embeddings, where all prompts are filled up to one length: such
    prompts share a batch."""
    chunks: bool = False
    """Whether prompts longer than the text encoders' input can be read in chunks."""
    lengths: tuple[int, ...] = ()
    """Values of the call's ``max_sequence_length``, shortest first: the shortest is the one that
    the model was trained with, a longer one is used for a prompt that does not fit. Empty: the
    call's default."""
    reader: str = "tokenizer"
    """The tokenizer whose tokens these lengths bound."""
    marks: int | None = None
    """Tokens of the chat template that these lengths count; None: the tokenizer's own marks."""
    guidance: str = "guidance_scale"
    """The call's option for the guidance scale."""
    cell: int | None = None
    """Pixels of a side of what the denoiser takes as one cell of the latents; None: what the
    pipeline scales by."""
    guider: bool = False
    """Whether models that are not distilled are guided by a part ``guider`` of the pipeline."""
    negative_prompt: bool = True
    """Whether a negative prompt has an effect, if the call takes one."""
    languages: tuple[str, ...] = ("en",)
    """Languages that it was trained to draw from (ISO 639-1); ``*``: any."""
    no_negative: str | None = None
    """Value of the call for an empty negative prompt."""
    steps: int | None = None
    """Denoising steps that its makers recommend; None: the call's default."""
    scale: float | None = None
    """Guidance scale that its makers recommend; None: the call's default."""
    few: FewSteps | None = None
    """Its models that are distilled to few steps."""
    few_loras: tuple[FewStepLora, ...] = ()
    """LoRAs for few steps."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of every call, such as one that keeps the pipeline from rewriting the prompt."""
    upsampler: str | None = None
    """Class of the model that can write the prompt in full first, which also takes boxes; None: it
    has none."""
    size_multiple: int = 1
    """Width and height must be multiples of this many pixels, beside what the latents ask for."""

    def references(self, wanted: int) -> int:
        """Return how many references a request may have where ``wanted`` are to be allowed."""
        most = self.edits.pictures if self.edits is not None else self.most_references
        return wanted if most is None else min(wanted, most)

    def edit_references(self, wanted: int) -> int:
        """Return how many references may stand beside a picture that is edited by instruction."""
        if self.edits is None or not self.edits.listed:
            return 0
        most = self.edits.pictures
        return wanted if most is None else min(wanted, most - 1)

    @property
    def masks(self) -> bool:
        """Whether a reference may carry a mask."""
        return self.adapter == "unet"

    @property
    def maths(self) -> ReferenceMaths:
        """Way in which references enter the picture."""
        return "pictures" if self.edits is not None else _MATHS[self.adapter]

    def defaults(self, distilled: bool) -> FewSteps | None:
        """Return the defaults of a distilled model; None for any other."""
        return self.few if distilled else None

    def few_lora(self, names: Iterable[str]) -> FewStepLora | None:
        """Return the defaults of the first LoRA among ``names`` (of files) that is for few steps.

        None if there is none.
        """
        found = (known.of(name) for name in names for known in self.few_loras)
        return next((one for one in found if one is not None), None)

    def recommended(
        self, options: Mapping[str, Any], distilled: bool
    ) -> tuple[int | None, float | None]:
        """Return steps and guidance scale of a model; None where nothing names them.

        ``options`` are those of the pipeline's call, with their defaults.
        """
        if few := self.defaults(distilled):
            return few.steps, few.guidance
        steps = self.steps or options.get("num_inference_steps")
        return steps, options.get(self.guidance) if self.scale is None else self.scale


def family_of(pipeline_class: str, parts: Collection[str]) -> Family:
    """Return the family of ``pipeline_class``, whose folder holds ``parts``.

    A class that is not listed draws from prompts; if it has a UNet, it takes the adapters of UNets.
    """
    family = known_families().get(pipeline_class)
    if family is None:
        return Family(adapter="unet" if "unet" in parts else "none")
    if family.adapter == "unet" and "unet" not in parts:
        family = replace(family, adapter="none")
    text = tuple(name for name in family.text if name in parts)
    # Without T5 the prompt is what CLIP reads of it, whatever length is asked for.
    lengths = family.lengths if family.reader in parts else ()
    return replace(family, text=text, lengths=lengths)


@cache
def known_families() -> dict[str, Family]:
    """Return the families of ``families.toml`` by the name of their pipeline class."""
    place = files("scenewright.tools.backends") / "families.toml"
    tables: dict[str, dict[str, Any]] = tomllib.loads(place.read_text(encoding="utf-8"))

    def table(name: str) -> dict[str, Any]:
        own = dict(tables[name])
        like = own.pop("like", None)
        return (table(like) if like else {}) | own

    return TypeAdapter(dict[str, Family]).validate_python({name: table(name) for name in tables})
