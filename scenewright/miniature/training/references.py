"""The second stage of the IP-Adapter's training: keys and values in the frozen denoiser."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from diffusers.models.attention_processor import Attention, AttnProcessor
from PIL import Image
from safetensors.torch import load_file
from torch import nn

from scenewright.miniature.training.adapter import (
    ADAPTER_FILE,
    Reader,
    altered,
    write_adapter,
)
from scenewright.miniature.training.generator import (
    WATCHED,
    draw_timesteps,
    encode_paintings,
    looking_loss,
    new_scheduler,
    nth_truth,
)
from scenewright.miniature.training.lessons import lesson_emphasis, look_maps, make_lesson
from scenewright.miniature.training.loop import (
    Training,
    autocast,
    cosine_rate,
    join_workers,
    pick_device,
    share_of,
    to_pixels,
)
from scenewright.miniature.training.text import load_text_encoder

References = list[tuple[torch.Tensor, torch.Tensor]]
"""References: tokens (batch, 65, width) and weights (batch,)."""


class _ReferenceProcessor(nn.Module):
    """Eq. 5 for a batch: the text's attention plus each reference's, with a weight a sample."""

    def __init__(self, attn: Attention, shown: References) -> None:
        super().__init__()
        self.to_k_ip = nn.Linear(attn.to_k.in_features, attn.to_k.out_features, bias=False)
        self.to_v_ip = nn.Linear(attn.to_v.in_features, attn.to_v.out_features, bias=False)
        self.to_k_ip.load_state_dict(attn.to_k.state_dict())
        self.to_v_ip.load_state_dict(attn.to_v.state_dict())
        self._shown = shown
        self.looks: list[torch.Tensor] = []

    def forward(
        self,
        attn: Attention,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        temb: torch.Tensor | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> torch.Tensor:
        query = attn.head_to_batch_dim(attn.to_q(hidden_states))

        def look(keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            scores = attn.get_attention_scores(query, attn.head_to_batch_dim(keys))
            mixed: torch.Tensor = attn.batch_to_head_dim(
                torch.bmm(scores, attn.head_to_batch_dim(values))
            )
            return mixed, scores.unflatten(0, (-1, attn.heads)).float().mean(1)

        mixed, _ = look(attn.to_k(encoder_hidden_states), attn.to_v(encoder_hidden_states))
        self.looks = []
        for tokens, weight in self._shown:
            added, looked = look(self.to_k_ip(tokens), self.to_v_ip(tokens))
            mixed = mixed + weight[:, None, None] * added
            self.looks.append(looked)
        out: torch.Tensor = attn.to_out[1](attn.to_out[0](mixed))
        return out


def train_references(
    out: Path,
    work: Path,
    adapter: Path,
    reader: Reader,
    steps: int,
    batch: int = 32,
    paintings: int = 20_000,
    seed: int = 0,
    device: str = "auto",
    max_seconds: float | None = None,
    onward: bool = False,
) -> bool:
    """Train and write the adapter of the pipeline in ``out`` to ``adapter``; resumes from ``work``.

    Workers started by ``torchrun`` share each batch.

    ``steps=0`` writes the adapter as it starts: keys and values copied from the text's, or
    with ``onward`` those of the trained adapter.
    """
    where, share, worker = pick_device(device), share_of(batch), join_workers()[0]
    torch.manual_seed(seed)
    vae = AutoencoderKL.from_pretrained(out / "vae", torch_dtype=torch.float32)
    tokenizer, text = load_text_encoder(out, where)
    unet = UNet2DConditionModel.from_pretrained(out / "unet", torch_dtype=torch.float32)
    unet = unet.to(where).requires_grad_(False)
    reader = reader.to(where)
    reader.encoder.requires_grad_(False)
    shown: References = []
    processors: dict[str, Any] = {}
    looking: list[_ReferenceProcessor] = []
    for name in unet.attn_processors:
        if name.endswith("attn2.processor"):
            attn = unet.get_submodule(name.removesuffix(".processor"))
            processor = _ReferenceProcessor(attn, shown).to(where)
            processors[name] = processor
            looking.append(processor)
        else:
            processors[name] = AttnProcessor()
    unet.set_attn_processor(dict(processors))
    if onward:
        trained_before = load_file(adapter / ADAPTER_FILE)
        for at, processor in enumerate(looking):
            prefix = f"ip_adapter.{2 * at + 1}."
            processor.load_state_dict(
                {
                    k.removeprefix(prefix): v.float()
                    for k, v in trained_before.items()
                    if k.startswith(prefix)
                }
            )
    trained = nn.ModuleList(looking).requires_grad_(True)
    parameters = [*trained.parameters(), *reader.proj.parameters()]
    state = Training(
        work / "references.pt",
        {"processors": trained, "proj": reader.proj},
        torch.optim.AdamW(parameters, lr=8e-4, betas=(0.9, 0.98)),
        steps,
        lambda step: cosine_rate(step, steps, 50),
        decay=0.99,
    )
    scheduler = new_scheduler()
    latents = (
        encode_paintings(vae, paintings, seed, work / f"latents-{seed}.npy", where)
        if steps
        else None
    )

    def loss_of(step: int) -> tuple[torch.Tensor, dict[str, float]]:
        assert latents is not None
        rng = random.Random(f"references {seed} {step} {worker}")
        noise_rng = torch.Generator().manual_seed(rng.getrandbits(60))
        chosen = [rng.randrange(len(latents)) for _ in range(share)]
        truths = [nth_truth(seed, index) for index in chosen]
        lessons = [make_lesson(truth, rng, tokenizer) for truth in truths]
        clean = torch.from_numpy(latents[chosen].astype(np.float32))
        noise = torch.randn(clean.shape, generator=noise_rng)
        times = draw_timesteps(share, noise_rng)
        wanted = scheduler.get_velocity(clean, noise, times).to(where)
        ids = torch.tensor([lesson.words.ids for lesson in lessons], device=where)
        emphasis = torch.stack(
            [lesson_emphasis(t, e.lost) for t, e in zip(truths, lessons, strict=True)]
        )
        shown.clear()
        maps = []
        with autocast(where):
            with torch.no_grad():
                states = text(input_ids=ids).last_hidden_state
            for slot in range(2):
                references = [lesson.shown[slot] for lesson in lessons]
                pictures = [
                    None if r.painting is None else altered(rng, r.painting.image)
                    for r in references
                ]
                with torch.no_grad():
                    seen = _see(reader, pictures, where)
                weights = torch.tensor([r.weight for r in references], device=where)
                shown.append((reader.proj(seen), weights))
                pairs = list(zip(truths, references, strict=True))
                maps.append(
                    {
                        side: torch.stack([look_maps(t, r, side) for t, r in pairs]).to(where)
                        for side in WATCHED
                    }
                )
            found = unet(
                scheduler.add_noise(clean, noise, times).to(where),
                times.to(where),
                encoder_hidden_states=states,
            ).sample
        errors = (found.float() - wanted).pow(2).mean(1)
        denoising = (errors * emphasis.to(where)).mean()
        looks = [
            looking_loss(looked, slot)
            for processor in looking
            for looked, slot in zip(processor.looks, maps, strict=True)
        ]
        looked_at = torch.stack(looks).mean()
        return denoising + 0.05 * looked_at, {"v": denoising.item(), "looks": looked_at.item()}

    finished = state.run(loss_of, max_seconds)
    if worker == 0:
        state.load_averages()
        write_adapter(
            adapter,
            reader.cpu(),
            [processor.to_k_ip.weight for processor in looking],
            [processor.to_v_ip.weight for processor in looking],
        )
    return finished


def _see(reader: Reader, pictures: list[Image.Image | None], where: torch.device) -> torch.Tensor:
    """Hidden states of the pictures; the blank one is zero after normalisation, as in diffusers."""
    grey = Image.new("RGB", (128, 128))
    pixels = to_pixels([picture or grey for picture in pictures]).to(where)
    blank = torch.tensor([picture is None for picture in pictures], device=where)
    normal = torch.where(blank[:, None, None, None], 0.0, reader.normal(pixels))
    return reader.see_normal(normal)
