"""An IP-Adapter's files: find them, check them, read them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenewright.tools.backends.base import BackendError
from scenewright.tools.backends.model_folder import (
    check_safetensors,
    check_weights,
    content_files,
    digest_files,
    find_files,
)

if TYPE_CHECKING:
    import torch

    AdapterWeights = dict[str, dict[str, torch.Tensor]]


@dataclass(frozen=True, slots=True)
class IPAdapterSource:
    """Where the weights of an IP-Adapter lie."""

    repository: str
    """A local folder or a hub id, for example ``"h94/IP-Adapter"``."""
    subfolder: str = ""
    """Folder of the weights in it, for example ``"models"``."""
    weight_name: str = "ip-adapter.safetensors"
    """File of the weights in the sub-folder."""
    image_encoder: str = "image_encoder"
    """Folder of the CLIP vision encoder: below ``subfolder``, or, with a slash in it, below
    ``repository`` (the rule of ``load_ip_adapter``)."""

    @property
    def encoder_folder(self) -> str:
        """The encoder's folder relative to the repository."""
        if "/" in self.image_encoder:
            return self.image_encoder.strip("/")
        return f"{self.subfolder}/{self.image_encoder}".strip("/")


@dataclass(frozen=True, slots=True)
class AdapterFolder:
    """An IP-Adapter found on this machine and checked."""

    weights: Path
    """The checkpoint: ``image_proj.*`` and ``ip_adapter.N.to_{k,v}_ip.weight``."""
    encoder: Path
    """Folder of a ``CLIPVisionModelWithProjection``."""

    @classmethod
    def open(cls, source: IPAdapterSource) -> AdapterFolder:
        """Finds (downloads if it is a hub id) and checks; raises ``BackendError``."""
        inside = f"{source.subfolder}/{source.weight_name}".strip("/")
        patterns = [
            inside,
            f"{source.encoder_folder}/*.json",
            f"{source.encoder_folder}/*.safetensors",
        ]
        root = find_files(source.repository, patterns)
        weights, encoder = root / inside, root / source.encoder_folder
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

    def digest(self) -> str:
        """SHA-256 (hex) of the adapter's and its encoder's files."""
        adapter = digest_files(self.weights.parent, [self.weights])
        return f"{adapter}:{digest_files(self.encoder, content_files(self.encoder))}"


def read_adapter(file: Path) -> AdapterWeights:
    """The checkpoint as ``{"image_proj": {...}, "ip_adapter": {...}}``.

    Raises ``BackendError`` if it is no IP-Adapter, or one that needs face embeddings.
    """
    from safetensors.torch import load_file

    weights: AdapterWeights = {"image_proj": {}, "ip_adapter": {}}
    for key, tensor in load_file(file).items():
        group, _, name = key.partition(".")
        if group in weights:
            weights[group][name] = tensor
    if not weights["image_proj"] or not weights["ip_adapter"]:
        raise BackendError(
            f"{file} is no IP-Adapter checkpoint: "
            "it needs 'image_proj.*' and 'ip_adapter.*' tensors"
        )
    # The plain, the full-face and the Plus kind; all others take face embeddings.
    if not {"proj.weight", "proj.3.weight", "latents"} & weights["image_proj"].keys():
        raise BackendError(
            f"{file} needs face embeddings, which are not made here: "
            "use an IP-Adapter or IP-Adapter Plus checkpoint"
        )
    return weights


def load_encoder(folder: Path, device: torch.device, dtype: torch.dtype) -> Any:
    """The CLIP vision encoder in ``folder``; raises ``BackendError`` if it does not load."""
    from transformers import CLIPVisionModelWithProjection

    try:
        encoder = CLIPVisionModelWithProjection.from_pretrained(
            folder, dtype=dtype, local_files_only=True, use_safetensors=True
        )
    except Exception as error:
        raise BackendError(
            f"the image encoder in {folder} does not load ({error}): copy or download it again"
        ) from error
    return encoder.to(device).eval()


def image_processor(image_size: int) -> Any:
    """What turns a reference into the encoder's input, as ``load_ip_adapter`` builds it.

    The PIL variant in every case: the same picture gives the same numbers with and
    without torchvision.
    """
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    return CLIPImageProcessorPil(
        size={"shortest_edge": image_size},
        crop_size={"height": image_size, "width": image_size},
    )
