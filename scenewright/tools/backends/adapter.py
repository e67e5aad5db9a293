"""IP-Adapters: their files found, checked and read, and the base of references by them."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenewright.config.local_images import AdapterSpec
from scenewright.core.ports.backend import BackendError, LoadImage, Reference
from scenewright.providers.hub.needs import encoder_apart, encoder_folder, folder_patterns
from scenewright.tools.backends.model_folder import (
    ModelFolder,
    check_safetensors,
    check_weights,
    content_files,
    digest_files,
    find_files,
    read_json,
    tensor_shapes,
)
from scenewright.tools.backends.pipeline import Recent

if TYPE_CHECKING:
    import torch
    from PIL import Image

    AdapterWeights = dict[str, dict[str, torch.Tensor]]


Size = tuple[int, int]
"""(width, height) in pixels."""
REFERENCES_KEPT = 64
"""Encoded references in memory."""

# The names in the layout that XLabs published for Flux, and ours.
_GROUPS = {"ip_adapter_proj_model": "image_proj", "double_blocks": "ip_adapter"}
_NAMES = (
    ("processor.ip_adapter_double_stream_k_proj", "to_k_ip"),
    ("processor.ip_adapter_double_stream_v_proj", "to_v_ip"),
)


# By the layout of adapters: the dimension of a key projection that the denoiser decides, and the
# numbers of its configuration whose product it is.
_WIDTHS: Mapping[str, tuple[int, *tuple[str, ...]]] = {
    "unet": (1, "cross_attention_dim"),
    "flux": (0, "num_attention_heads", "attention_head_dim"),
}


@dataclass(frozen=True, slots=True)
class AdapterFolder:
    """An IP-Adapter found on this machine and checked."""

    weights: Path
    """The checkpoint: ``image_proj.*`` and ``ip_adapter.*`` tensors, or those of XLabs."""
    encoder: Path
    """Folder of a ``CLIPVisionModelWithProjection``, or a ``SiglipVisionModel`` for SD3."""

    @classmethod
    def open(cls, source: AdapterSpec) -> AdapterFolder:
        """Find the files (a hub id in the cache) and check them; raises ``BackendError``."""
        inside = f"{source.subfolder}/{source.weight_name}".strip("/")
        folder = encoder_folder(source.subfolder, source.image_encoder)
        apart = encoder_apart(source.image_encoder)
        within = () if apart else folder_patterns(folder)
        root = find_files(source.repository, [inside, *within])
        weights, encoder = root / inside, root / folder
        own = Path(source.image_encoder).expanduser()
        if not encoder.is_dir() and (apart or (own.is_absolute() and own.is_dir())):
            encoder = find_files(source.image_encoder, ["*.json", "*.safetensors"])
        if weights.suffix != ".safetensors":
            raise BackendError(
                f"{weights}: only *.safetensors checkpoints are loaded; name one or convert it"
            )
        check_safetensors(weights)
        if not (encoder / "config.json").is_file():
            raise BackendError(
                f"{encoder} holds no image encoder: name its folder in 'image_encoder'"
            )
        check_weights(encoder)
        return cls(weights, encoder)

    def check_fits(self, form: str, model: ModelFolder) -> None:
        """Raise ``BackendError`` if it is made for a denoiser of other widths; reads headers."""
        if form not in _WIDTHS or model.denoiser is None:
            return
        config = read_json(model.folder / model.denoiser / "config.json")
        side, *factors = _WIDTHS[form]
        own = [number for name in factors if isinstance(number := config.get(name), int)]
        if len(own) < len(factors):
            return
        shapes = tensor_shapes([self.weights])
        keys = ("to_k_ip.weight", "ip_adapter_double_stream_k_proj.weight")
        found = {shape[side] for name, shape in shapes.items() if name.endswith(keys)}
        if found and found != {wanted := prod(own)}:
            raise BackendError(
                f"the IP-Adapter {self.weights.name} does not fit this model (its layers have "
                f"{', '.join(map(str, sorted(found)))} channels, those of the "
                f"{model.pipeline_class} {wanted}): use one that was made for its family"
            )

    def digest(self) -> str:
        """Return the SHA-256 (hex) of the adapter's and its encoder's files."""
        adapter = digest_files(self.weights.parent, [self.weights])
        return f"{adapter}:{digest_files(self.encoder, content_files(self.encoder))}"


def read_adapter(file: Path) -> AdapterWeights:
    """Return the checkpoint as ``{"image_proj": {...}, "ip_adapter": {...}}``.

    Raises ``BackendError`` if it is no IP-Adapter, or one that needs face embeddings.
    """
    from safetensors.torch import load_file

    weights: AdapterWeights = {"image_proj": {}, "ip_adapter": {}}
    for key, tensor in load_file(file).items():
        group, _, name = key.partition(".")
        group = _GROUPS.get(group, group)
        for published, ours in _NAMES:
            name = name.replace(published, ours)
        if group in weights:
            weights[group][name] = tensor
    if not weights["image_proj"] or not weights["ip_adapter"]:
        raise BackendError(
            f"{file} is not an IP-Adapter checkpoint: "
            "it needs 'image_proj.*' and 'ip_adapter.*' tensors"
        )
    # The plain, the full-face and the resampling kinds; all others take face embeddings.
    if not {"proj.weight", "proj.3.weight", "latents"} & weights["image_proj"].keys():
        raise BackendError(
            f"{file} needs face embeddings, which are not made here: "
            "use an IP-Adapter or IP-Adapter Plus checkpoint"
        )
    return weights


def attach_encoder(
    pipe: Any, adapter: AdapterFolder, dtype: torch.dtype, *, siglip: bool = False
) -> Any:
    """Return the vision encoder of ``adapter``, as a part of ``pipe`` with its processor.

    The processor is the PIL variant of what ``load_ip_adapter`` builds: the same picture gives the
    same numbers with and without torchvision. Raises ``BackendError`` if it does not load.
    """
    from transformers import CLIPVisionModelWithProjection, SiglipVisionModel
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

    kind: Any = SiglipVisionModel if siglip else CLIPVisionModelWithProjection
    try:
        encoder = kind.from_pretrained(
            adapter.encoder, dtype=dtype, local_files_only=True, use_safetensors=True
        )
    except Exception as error:
        raise BackendError(
            f"the image encoder in {adapter.encoder} does not load ({error}): copy or download it "
            "again"
        ) from error
    encoder.to(pipe.device).eval()
    side = encoder.config.image_size
    square = {"height": side, "width": side}
    processor = (
        SiglipImageProcessorPil(size=square)
        if siglip
        else CLIPImageProcessorPil(size={"shortest_edge": side}, crop_size=square)
    )
    pipe.register_modules(image_encoder=encoder, feature_extractor=processor)
    return encoder


class ReferenceForm(ABC):
    """The references of one pipeline: encodes pictures, once each, and sets the weights λ.

    Not thread-safe: it changes the pipeline's denoiser.
    """

    def __init__(self, pipe: Any) -> None:
        """Raise ``BackendError`` if ``pipe`` takes no references."""
        if not hasattr(pipe, "encode_image"):
            raise BackendError(
                f"{type(pipe).__name__} has no place for references: leave 'ip_adapter' out"
            )
        self._pipe = pipe
        self._embeds: Recent[Any] = Recent(REFERENCES_KEPT)

    @property
    def reused(self) -> int:
        """Number of encoded pictures that were reused."""
        return self._embeds.hits

    def options(
        self, references: Sequence[Reference], load: LoadImage, guidance: float, size: Size
    ) -> dict[str, Any]:
        """Set the weights and return the call options that carry the pictures.

        ``guidance`` is the guidance scale (with guidance, the pipeline's own negative
        embeddings go along); ``size`` is (width, height) in pixels, for the masks.
        """
        # A reference of weight 0 adds nothing to Eq. 5.
        used = [reference for reference in references if reference.weight != 0]
        self.use([reference.weight for reference in used])
        return self.call_options(used, load, guidance, size) if used else {}

    def _encoded(self, image_hash: str, load: LoadImage) -> Any:
        return self._embeds.get(image_hash, lambda: self.encode(load(image_hash).convert("RGB")))

    @contextlib.contextmanager
    def attached(self) -> Iterator[None]:
        """Inside, the denoiser holds the adapter's modules as if a reference were in use."""
        self.use([1.0])
        try:
            yield
        finally:
            self.use([])

    def use_weight_tensors(self) -> None:  # noqa: B027
        """Make the weights something that a compiler does not take for constants.

        Where the family does not allow it, the second weight compiles once more, and no later one
        does.
        """

    @abstractmethod
    def use(self, weights: Sequence[float]) -> None:
        """Switches the denoiser to as many references as there are weights."""

    @abstractmethod
    def call_options(
        self, used: Sequence[Reference], load: LoadImage, guidance: float, size: Size
    ) -> dict[str, Any]:
        """Return the call options that carry the pictures of ``used``."""

    @abstractmethod
    def encode(self, picture: Image.Image) -> Any:
        """Return the embeddings of ``picture``, which is RGB."""
