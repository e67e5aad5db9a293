"""Start pictures, masks and pictures beside the prompt: edits with the weights of one pipeline.

Image-to-image is SDEdit (ICLR 2022): the start picture under noise is denoised. The latents of a
diffusion model are put under noise by its scheduler; those of a flow-matching model (SD3, Flux) lie
at noise level σ on the straight line ``(1 - σ) · picture + σ · noise``. Outside of a mask the
picture is held as in Blended Latent Diffusion (SIGGRAPH 2023): after every step the latents there
become those of the start picture under the noise of that step, so that what is drawn inside fits to
it; in the end its own pixels are put back.

Families such as Flux Kontext and Qwen-Image-Edit see pictures in place of an IP-Adapter. The prompt
says what to change in them, or what of them to show; weights have no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageFilter

from scenewright.core.ports.backend import BackendError, LoadImage, Reference, Start
from scenewright.tools.backends.families import EditForm, Family, Latents

if TYPE_CHECKING:
    import torch
    from PIL import Image


def encode_picture(pipe: Any, picture: Image.Image, layout: Latents) -> torch.Tensor:
    """Return the latents of ``picture`` as ``pipe`` denoises them, without noise."""
    import torch
    from diffusers.pipelines.stable_diffusion.pipeline_stable_diffusion_img2img import (
        retrieve_latents,
    )

    vae, config = pipe.vae, pipe.vae.config
    dtype = vae.dtype
    if layout == "flux2":
        shades = torch.from_numpy(np.asarray(picture, np.float32) / 255)
        pixels = (2 * shades - 1).permute(2, 0, 1)[None].to(pipe._execution_device, dtype)
        patches = to_patches(retrieve_latents(vae.encode(pixels), sample_mode="argmax"))
        mean, deviation = patch_statistics(vae, patches)
        return (patches - mean) / deviation
    if config.get("force_upcast"):
        # Such autoencoders overflow in half precision.
        vae.to(dtype=torch.float32)
    pixels = pipe.image_processor.preprocess(picture).to(pipe._execution_device, vae.dtype)
    # Autoencoders of videos take a frame.
    if "temperal_downsample" in config:
        pixels = pixels.unsqueeze(2)
    latents: torch.Tensor = retrieve_latents(vae.encode(pixels), sample_mode="argmax")
    vae.to(dtype=dtype)
    if (statistics := latent_statistics(config, latents)) is not None:
        latents = (latents - statistics[0]) / statistics[1]
    latents = latents.to(dtype)
    if config.get("shift_factor"):
        latents = latents - config.shift_factor
    if config.get("scaling_factor") is not None:
        latents = latents * config.scaling_factor
    return pack_latents(pipe, latents, layout)


def latent_statistics(config: Any, latents: torch.Tensor) -> list[torch.Tensor] | None:
    """Return mean and deviation of an autoencoder's channels, for values like ``latents``."""
    rows = [config.get("latents_mean"), config.get("latents_std")]
    if None in rows:
        return None
    return [latents.new_tensor(row).view(1, -1, *[1] * (latents.ndim - 2)) for row in rows]


def pack_latents(pipe: Any, latents: torch.Tensor, layout: Latents) -> torch.Tensor:
    """``[1, channels, height, width]`` (or with one frame before the height) in ``layout``."""
    if layout == "grid":
        return latents
    if layout == "flux2":
        return to_patches(latents)
    channels, (height, width) = latents.shape[1], latents.shape[-2:]
    found: torch.Tensor = pipe._pack_latents(latents, 1, channels, height, width)
    return found


def to_patches(latents: torch.Tensor) -> torch.Tensor:
    """Return ``[batch, channels, height, width]`` as patches of 2×2 in a row, channels last."""
    batch, channels, height, width = latents.shape
    cells = latents.reshape(batch, channels, height // 2, 2, width // 2, 2)
    return cells.permute(0, 2, 4, 1, 3, 5).reshape(batch, -1, 4 * channels)


def from_patches(patches: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Undo :func:`to_patches`; ``height`` and ``width`` are those of the patches together."""
    batch, _, channels = patches.shape
    cells = patches.reshape(batch, height, width, channels // 4, 2, 2)
    return cells.permute(0, 3, 1, 4, 2, 5).reshape(batch, channels // 4, 2 * height, 2 * width)


def patch_statistics(vae: Any, patches: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return mean and deviation of FLUX.2's patches, for values like ``patches``."""
    mean, variance = (one.to(patches) for one in (vae.bn.running_mean, vae.bn.running_var))
    return mean, (variance + vae.config.batch_norm_eps) ** 0.5


def channels_of(pipe: Any) -> int:
    """Return the channels of a latent cell."""
    config = pipe.vae.config
    return int(config.get("latent_channels") or config["z_dim"])


def pipeline_of_parts(pipe: Any, name: str) -> Any:
    """Return the pipeline class ``name`` over the parts of ``pipe``, which are not loaded again."""
    import diffusers

    other = getattr(diffusers, name).from_pipe(pipe, vae=pipe.vae, dtype=pipe.dtype)
    other.set_progress_bar_config(disable=True)
    return other


def picture_of(image: str, load: LoadImage, size: tuple[int, int]) -> Image.Image:
    """Return the picture ``image`` in RGB at ``size``, (width, height) in pixels."""
    picture = load(image).convert("RGB")
    return picture if picture.size == size else picture.resize(size, Image.Resampling.LANCZOS)


def is_flow_matching(scheduler: Any) -> bool:
    """Return whether ``scheduler`` moves on straight lines between noise and picture."""
    return hasattr(scheduler, "scale_noise")


class Inpainter:
    """The form of a pipeline that starts from a picture: the same parts, not loaded again."""

    def __init__(self, pipe: Any, family: Family, multiple: int) -> None:
        """Build the form of ``family`` for masks and references, or that for strengths alone.

        ``multiple``: sides of references must be multiples of this many pixels.
        """
        name = family.inpaint or family.image_to_image
        assert name is not None
        self.pipe = pipeline_of_parts(pipe, name)
        # Both forms encode prompts alike, and the first one remembers them.
        self.pipe.encode_prompt = pipe.encode_prompt
        self._family = family
        self._multiple = multiple

    def begin(
        self,
        start: Start,
        load: LoadImage,
        size: tuple[int, int],
        steps: int,
        seed: int,
        references: Sequence[Reference] = (),
    ) -> tuple[dict[str, Any], PreservedArea | None]:
        """Return the call options of a drawing of ``steps`` steps that begins with ``start``.

        Also returns which part of the picture stays. ``size`` is (width, height) in pixels; a start
        picture of another size is scaled. ``references`` are for a form that takes them.
        """
        picture = picture_of(start.image, load, size)
        # No step would draw nothing. Diffusion pipelines round the steps down, so that half a step
        # more gives one; flow-matching ones round up.
        least = 0.5 if is_flow_matching(self.pipe.scheduler) else 1.5
        strength = min(1.0, max(start.strength, least / steps))
        options: dict[str, Any] = {"image": picture, "strength": strength}
        mask = None if start.mask is None else load(start.mask).convert("L").resize(size)
        family = self._family
        if family.inpaint is not None:
            options["mask_image"] = mask or Image.new("L", size, 255)
            options |= size_options(family.edits, size)
            shown = [one for one in references if one.weight != 0]
            if shown:
                smallest = family.edits.least if family.edits else 1
                options["image_reference"] = fit_picture(
                    load(shown[0].image), size, self._multiple, smallest
                )
        if mask is None:
            return options, None
        return options, PreservedArea(self.pipe, picture, mask, seed, family.latents)


class PreservedArea:
    """The part of a picture that stays."""

    def __init__(
        self,
        pipe: Any,
        picture: Image.Image,
        mask: Image.Image,
        seed: int,
        layout: Latents = "grid",
    ) -> None:
        """Keep ``picture`` where ``mask`` is black; it may change where the mask is white.

        A cell of the latents changes if it is white on at least half of it.
        """
        import torch

        self._pipe = pipe
        self._picture = picture
        self._factor = factor = int(pipe.vae_scale_factor)
        width, height = picture.size
        white = np.asarray(mask, dtype=np.float32) / 255
        shares = white.reshape(height // factor, factor, width // factor, factor).mean((1, 3))
        self._cells = shares >= 0.5
        cells = torch.from_numpy(self._cells).to(pipe._execution_device)
        self._changes = pack_latents(pipe, cells.expand(1, channels_of(pipe), -1, -1), layout)
        self._latents = encode_picture(pipe, picture, layout)
        noise = torch.randn(self._latents.shape, generator=torch.Generator().manual_seed(seed))
        self._noise = noise.to(self._latents)

    def hold(self, step: int, latents: torch.Tensor) -> torch.Tensor:
        """``latents`` after ``step`` (from 0), those of the picture where it stays."""
        import torch

        scheduler = self._pipe.scheduler
        times = scheduler.timesteps
        times = times[-getattr(self._pipe, "num_timesteps", len(times)) :]
        held = self._latents
        if step + 1 < len(times) and is_flow_matching(scheduler):
            level = scheduler.sigmas[scheduler.step_index].to(held)
            held = (1 - level) * held + level * self._noise
        elif step + 1 < len(times):
            held = scheduler.add_noise(held, self._noise, times[step + 1 : step + 2])
        return torch.where(self._changes, latents, held.to(latents.dtype))

    def put_back(self, drawn: Image.Image) -> Image.Image:
        """``drawn`` with the picture's own pixels where it stays, the seam half a cell soft."""
        mask = Image.fromarray(self._cells.astype(np.uint8) * 255)
        mask = mask.resize(drawn.size, Image.Resampling.NEAREST)
        soft = mask.filter(ImageFilter.BoxBlur(self._factor // 4))
        return Image.composite(drawn, self._picture, soft)


@dataclass(frozen=True)
class Editor:
    """The edit pipeline, and the form of it that draws without a picture."""

    pipe: Any
    """Edits."""
    drawing: Any
    """Has the same parts and draws without a picture."""
    form: EditForm
    latents: Latents
    multiple: int
    """Sides of pictures must be multiples of this many pixels."""

    def begin(
        self,
        start: Start | None,
        references: Sequence[Reference],
        load: LoadImage,
        size: tuple[int, int],
        seed: int,
    ) -> tuple[Any, dict[str, Any], PreservedArea | None]:
        """Return the pipeline to call, the options that carry the pictures, and what of them stays.

        ``size`` is (width, height) in pixels of what is drawn. A picture to edit comes first, at
        that size; a reference keeps its shape, at most as large. Raises ``BackendError`` if there
        are more pictures than the pipeline sees at once.
        """
        pictures, kept = [], None
        if start is not None:
            picture = picture_of(start.image, load, size)
            pictures.append(fit_picture(picture, size, 1, self.form.least))
            if start.mask is not None:
                mask = load(start.mask).convert("L").resize(size)
                kept = PreservedArea(self.pipe, picture, mask, seed, self.latents)
        pictures += [
            fit_picture(load(one.image), size, self.multiple, self.form.least)
            for one in references
            if one.weight != 0
        ]
        most = self.form.pictures
        if most is not None and len(pictures) > most:
            raise BackendError(
                f"{type(self.pipe).__name__} sees {most} picture{'s' * (most > 1)} at once, "
                f"{len(pictures)} were given: leave the references out, or the picture to edit"
            )
        options = size_options(self.form, size)
        if not pictures:
            return self.drawing, options, None
        options["image"] = pictures if self.form.listed else pictures[0]
        return self.pipe, options, kept


def size_options(form: EditForm | None, size: tuple[int, int]) -> dict[str, Any]:
    """Return the call options that keep a pipeline to ``size``, (width, height) in pixels."""
    match form and form.sizing:
        case "max_area":
            return {"max_area": size[0] * size[1], "_auto_resize": False}
        case "output_resolution":
            return {"output_resolution": round((size[0] * size[1]) ** 0.5)}
    return {}


def fit_picture(
    picture: Image.Image, size: tuple[int, int], multiple: int, least: int = 1
) -> Image.Image:
    """Return ``picture`` in RGB and in its shape, at most as large as ``size``.

    ``size`` is (width, height) in pixels; sides become multiples of ``multiple``, and none is
    shorter than ``least``.
    """
    picture = picture.convert("RGB")
    scale = min(1.0, (size[0] * size[1] / (picture.width * picture.height)) ** 0.5)
    scale = max(scale, least / min(picture.size))
    sides = (
        max(multiple, round(picture.width * scale / multiple) * multiple),
        max(multiple, round(picture.height * scale / multiple) * multiple),
    )
    return picture if picture.size == sides else picture.resize(sides, Image.Resampling.LANCZOS)
