"""Trains the editor of the miniature world: a denoiser that sees pictures beside the noise.

It begins with the generator's denoiser, whose first layer takes more channels: the latents of the
picture to change and those of the picture of what it lacks (InstructPix2Pix, CVPR 2023, with a
second picture). Where a picture is not given, they are zeros. Order and second picture are left out
together now and then, so that guidance can tell what they change.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter
from tokenizers import Regex, normalizers
from transformers import CLIPTextModel, CLIPTokenizer, PreTrainedTokenizerFast

from scenewright.agents.composers.rules import describe
from scenewright.core.closed_vocabulary import write_vocabulary
from scenewright.core.scene import Relation, SceneGraph
from scenewright.miniature.painter import Truth
from scenewright.miniature.training.edits import Edit, draw, make_edit
from scenewright.miniature.training.generator import (
    DEFAULTS,
    SIDE,
    cells_of,
    draw_timesteps,
    new_scheduler,
    nth_truth,
)
from scenewright.miniature.training.loop import (
    Training,
    autocast,
    cosine_rate,
    forget_origin,
    join_workers,
    pick_device,
    share_of,
    to_pixels,
)
from scenewright.miniature.training.text import load_text_encoder, pad
from scenewright.miniature.world import MAX_TOKENS, SETTINGS, VOCABULARY
from scenewright.tools.backends.channels import ChannelEditPipeline

SHARED = ("scheduler", "text_encoder", "unet", "vae")
"""Parts of the pipeline that are the generator's."""
PICTURES = 2
"""Pictures that the editor sees: the one to change, and one of what it lacks."""
STEPS = 4000
"""Steps of the recipe; the shipped weights were stopped sooner."""
ABBREVIATED = {
    "add": "!", "as": '"', "change": "#", "everything": "$", "else": "%", "image": "&",
    "is": "'", "it": "(", "keep": ")", "lacks": "*", "make": "+", "picture": "-",
    "shows": "/", "so": "<", "that": "=", "to": ">", "what": "?",
}  # fmt: skip
"""Word of the orders → the character that stands for it. No scene is described with these
characters, so the text encoder can stay the generator's, and a word takes one token."""
_P_REDRAWN = 0.6
_P_BLIND = 0.1
_CODING = 64
_MARGIN = 4

Latents = NDArray[np.float16]


def editing_tokenizer(generator: Path) -> PreTrainedTokenizerFast:
    """Return the tokenizer of the pipeline in ``generator`` with the words of orders abbreviated.

    Prompts without these words become the same tokens as before.
    """
    found = CLIPTokenizer.from_pretrained(generator / "tokenizer", local_files_only=True)
    core = found.backend_tokenizer
    core.normalizer = normalizers.Sequence(
        [
            core.normalizer,
            *(
                normalizers.Replace(Regex(rf"\b{word}\b"), f" {sign} ")
                for word, sign in ABBREVIATED.items()
            ),
        ]
    )
    marks = {key: getattr(found, key) for key in ("bos_token", "eos_token", "pad_token")}
    return PreTrainedTokenizerFast(tokenizer_object=core, model_max_length=MAX_TOKENS, **marks)


def new_editor(generator: Path) -> UNet2DConditionModel:
    """Return the denoiser of ``generator`` with room for the pictures, which have no effect yet."""
    plain = UNet2DConditionModel.from_pretrained(generator / "unet", torch_dtype=torch.float32)
    weights = plain.state_dict()
    channels = int(plain.config.in_channels)
    made = UNet2DConditionModel.from_config(plain.config, in_channels=channels * (1 + PICTURES))
    first = torch.zeros_like(made.conv_in.weight)
    first[:, :channels] = weights["conv_in.weight"]
    made.load_state_dict(weights | {"conv_in.weight": first})
    return made


@dataclass(frozen=True, slots=True)
class EditPairs:
    """Lessons as latents; arrays of n."""

    kept: Latents
    """The picture to change."""
    shown: Latents
    """The picture of what it lacks; zeros where there is none."""
    wanted: Latents
    """The picture to draw."""
    weights: Latents
    """(n, 16, 16), 1 on average: how much each cell counts."""
    orders: tuple[str, ...]
    """What the editor is told."""

    @classmethod
    def load(cls, path: Path) -> EditPairs | None:
        """Return what :meth:`save` wrote; None if there is nothing."""
        if not path.is_file():
            return None
        with np.load(path) as kept:
            arrays = {name: kept[name] for name in ("kept", "shown", "wanted", "weights")}
        return cls(**arrays, orders=tuple(json.loads(path.with_suffix(".json").read_text())))

    def save(self, path: Path) -> None:
        """Write everything to ``path`` and a JSON file beside it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".json").write_text(json.dumps(self.orders))
        np.savez(path, kept=self.kept, shown=self.shown, wanted=self.wanted, weights=self.weights)


class Redrawing:
    """Lets the generator draw paintings again from under noise: pictures as the loop sees them."""

    def __init__(self, generator: Path, where: torch.device) -> None:
        """Load the pipeline in ``generator``."""
        self.where = where
        vae = AutoencoderKL.from_pretrained(generator / "vae", torch_dtype=torch.float32)
        self._vae = vae.to(where).eval().requires_grad_(False)
        self._tokenizer, self._text = load_text_encoder(generator, where)
        unet = UNet2DConditionModel.from_pretrained(generator / "unet", torch_dtype=torch.float32)
        self._unet = unet.to(where).eval().requires_grad_(False)
        self._scheduler = new_scheduler()
        self._scheduler.set_timesteps(10)

    def encode(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Return the scaled latents of pictures of the world's size."""
        with autocast(self.where):
            found = self._vae.encode(to_pixels(list(images)).to(self.where)).latent_dist.mean
        scaled: torch.Tensor = found.float() * float(self._vae.config.scaling_factor)
        return scaled

    def decode(self, latents: torch.Tensor) -> list[Image.Image]:
        """Return the pictures of scaled latents."""
        with autocast(self.where):
            pixels = self._vae.decode(latents / self._vae.config.scaling_factor).sample
        bytes_ = pixels.float().add(1).mul(127.5).round().clamp(0, 255).to(torch.uint8)
        return [Image.fromarray(one.permute(1, 2, 0).cpu().numpy()) for one in bytes_]

    def redraw(
        self, latents: torch.Tensor, truths: Sequence[Truth], steps: int, noise: torch.Generator
    ) -> torch.Tensor:
        """Return latents put under noise and denoised in the last ``steps`` of ten steps."""
        captions = [
            pad(describe(_said(one), one.cells, SETTINGS[one.setting]), self._tokenizer, True)
            for one in truths
        ]
        ids = torch.tensor([words.ids for words in captions], device=self.where)
        times = self._scheduler.timesteps[-steps:]
        drawn: torch.Tensor = self._scheduler.add_noise(
            latents, torch.randn(latents.shape, generator=noise).to(self.where), times[:1]
        )
        with autocast(self.where):
            states = self._text(input_ids=ids).last_hidden_state
            for time in times:
                found = self._unet(drawn, time, encoder_hidden_states=states).sample
                drawn = self._scheduler.step(found.float(), time, drawn).prev_sample
        return drawn


def _said(truth: Truth) -> SceneGraph:
    """Return the objects of ``truth`` with the contacts that are drawn."""
    relations = (Relation(source=s, predicate=p, target=t) for s, p, t in sorted(truth.contacts))
    return SceneGraph(objects=truth.scene.objects, relations=tuple(relations))


def patched(kept: Image.Image, edit: Edit) -> Image.Image:
    """Return ``kept`` with what ``edit`` changes painted into it, edges softened."""
    mask = Image.new("L", kept.size)
    pen = ImageDraw.Draw(mask)
    for box in edit.changed:
        pen.rectangle(
            (
                box.left - _MARGIN,
                box.top - _MARGIN,
                box.left + box.width + _MARGIN - 1,
                box.top + box.height + _MARGIN - 1,
            ),
            fill=255,
        )
    soft = mask.filter(ImageFilter.GaussianBlur(1.5))
    return Image.composite(draw(edit.wanted).image, kept, soft)


def edit_emphasis(edit: Edit) -> torch.Tensor:
    """Weights (16, 16), 1 on average: what changes counts most, then the other things."""
    weights = torch.ones(SIDE * SIDE)
    for box in edit.wanted.boxes.values():
        weights[cells_of(box)] = 2.5
    for box in edit.changed:
        weights[cells_of(box)] = 6.0
    return (weights / weights.mean()).view(SIDE, SIDE)


@torch.no_grad()
def encode_edits(
    generator: Path, count: int, seed: int, path: Path, where: torch.device
) -> EditPairs:
    """Return ``count`` lessons, kept in ``path``; more than half of them drawn by the generator."""
    made = EditPairs.load(path)
    if made is not None and len(made.orders) >= count:
        return made
    pen = Redrawing(generator, where)
    parts: list[tuple[torch.Tensor, ...]] = []
    orders: list[str] = []
    at = 0
    while len(orders) < count:
        edits: list[Edit] = []
        rng = random.Random(f"edits {seed} {len(parts)}")
        noise = torch.Generator().manual_seed(rng.getrandbits(60))
        while len(edits) < min(_CODING, count - len(orders)):
            edit = make_edit(nth_truth(seed, at), rng)
            at += 1
            if edit is not None:
                edits.append(edit)
        parts.append(_encoded(edits, pen, rng, noise))
        orders += [edit.order for edit in edits]
        print(f"encoded {len(orders)}/{count}", flush=True)
    arrays = [torch.cat(some).cpu().numpy().astype(np.float16) for some in zip(*parts, strict=True)]
    kept, shown, wanted, weights = arrays
    made = EditPairs(kept, shown, wanted, weights, tuple(orders))
    made.save(path)
    return made


def _encoded(
    edits: Sequence[Edit], pen: Redrawing, rng: random.Random, noise: torch.Generator
) -> tuple[torch.Tensor, ...]:
    """Return kept, shown, wanted and weights of ``edits``."""
    kept = [edit.kept.image for edit in edits]
    shown = [None if edit.shown is None else edit.shown.image for edit in edits]
    wanted = [draw(edit.wanted).image for edit in edits]
    again = [(at, one.kept) for at, one in enumerate(edits) if rng.random() < _P_REDRAWN]
    beside = [
        (at, one.shown)
        for at, one in enumerate(edits)
        if rng.random() < _P_REDRAWN and one.shown is not None
    ]
    if paintings := [one for _, one in again + beside]:
        steps = rng.randint(3, 7)
        codes = pen.encode([one.image for one in paintings])
        drawn = pen.decode(pen.redraw(codes, [one.truth for one in paintings], steps, noise))
        for at, _ in again:
            kept[at] = drawn.pop(0)
            wanted[at] = patched(kept[at], edits[at])
        for at, _ in beside:
            shown[at] = drawn.pop(0)
    there = [at for at, one in enumerate(shown) if one is not None]
    codes = pen.encode([*kept, *wanted, *(one for one in shown if one is not None)])
    count = len(edits)
    places = torch.zeros_like(codes[:count])
    places[there] = codes[2 * count :]
    weights = torch.stack([edit_emphasis(edit) for edit in edits])
    return codes[:count], places, codes[count : 2 * count], weights


def train_editor(
    generator: Path,
    work: Path,
    out: Path,
    steps: int = STEPS,
    batch: int = 32,
    pairs: int = 12_000,
    seed: int = 0,
    device: str = "auto",
    max_seconds: float | None = None,
    onward: bool = False,
) -> bool:
    """Train the editor for ``generator`` and write its pipeline to ``out``; resumes from ``work``.

    With ``onward`` it begins with the editor in ``out``, otherwise with the generator's denoiser.
    Returns whether the last step was reached.
    """
    where, share, worker = pick_device(device), share_of(batch), join_workers()[0]
    torch.manual_seed(seed)
    lessons = encode_edits(generator, pairs, seed, work / f"edits-{seed}.npz", where)
    text: CLIPTextModel = load_text_encoder(generator, where)[1]
    tokenizer = editing_tokenizer(generator)
    model = new_editor(generator)
    if onward:
        trained = UNet2DConditionModel.from_pretrained(out / "editor", torch_dtype=torch.float32)
        model.load_state_dict(trained.state_dict())
    model = model.to(where, memory_format=torch.channels_last)
    state = Training(
        work / "editor.pt",
        {"editor": model},
        torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=0.01),
        steps,
        lambda step: cosine_rate(step, steps, 100),
        decay=0.998,
        on_save=lambda: export_editor(state, generator, out),
    )
    scheduler = new_scheduler()
    model.train()

    def loss_of(step: int) -> tuple[torch.Tensor, dict[str, float]]:
        rng = random.Random(f"editor {seed} {step} {worker}")
        noise_rng = torch.Generator().manual_seed(rng.getrandbits(60))
        chosen = [rng.randrange(len(lessons.orders)) for _ in range(share)]
        blind = [rng.random() < _P_BLIND for _ in chosen]
        kept, shown, clean, weights = (
            torch.from_numpy(one[chosen].astype(np.float32)).to(where)
            for one in (lessons.kept, lessons.shown, lessons.wanted, lessons.weights)
        )
        shown = shown * ~torch.tensor(blind, device=where)[:, None, None, None]
        orders = ["" if no else lessons.orders[at] for no, at in zip(blind, chosen, strict=True)]
        ids = tokenizer(
            orders, padding="max_length", truncation=True, max_length=MAX_TOKENS,
            return_tensors="pt",
        ).input_ids.to(where)  # fmt: skip
        noise = torch.randn(clean.shape, generator=noise_rng).to(where)
        times = draw_timesteps(share, noise_rng).to(where)
        noisy = scheduler.add_noise(clean, noise, times)
        wanted = scheduler.get_velocity(clean, noise, times)
        with autocast(where):
            with torch.no_grad():
                states = text(input_ids=ids).last_hidden_state
            found = model(
                torch.cat([noisy, kept, shown], 1), times, encoder_hidden_states=states
            ).sample
        errors = (found.float() - wanted).pow(2).mean(1)
        loss = (errors * weights).mean()
        return loss, {"v": errors.mean().item()}

    finished = state.run(loss_of, max_seconds)
    if worker == 0:
        export_editor(state, generator, out)
    return finished


def export_editor(state: Training, generator: Path, out: Path) -> None:
    """Write the averaged editor in half precision and make ``out`` a pipeline.

    Where ``out`` lies beside ``generator``, it holds no copy of the parts that both have.
    """
    model = new_editor(generator)
    model.load_state_dict({k: v.cpu() for k, v in state.averages["editor"].values.items()})
    pipe = ChannelEditPipeline(
        vae=AutoencoderKL.from_pretrained(generator / "vae"),
        text_encoder=CLIPTextModel.from_pretrained(generator / "text_encoder"),
        tokenizer=editing_tokenizer(generator),
        unet=UNet2DConditionModel.from_pretrained(generator / "unet"),
        editor=model,
        scheduler=new_scheduler(),
    )
    pipe.to(dtype=torch.float16)
    pipe.save_pretrained(out, safe_serialization=True)
    defaults: dict[str, object] = dict(DEFAULTS)
    if out.resolve().parent == generator.resolve().parent:
        defaults["parts_of"] = generator.name
        for part in SHARED:
            shutil.rmtree(out / part)
    (out / "scenewright.json").write_text(json.dumps(defaults, indent=2) + "\n")
    write_vocabulary(out, VOCABULARY)
    forget_origin(out)
