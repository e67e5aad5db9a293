"""Training recipe of the miniature BLIP: a small vision-language encoder that OLIP stands on.

It sees by the miniature segmenter's encoder, which stays as it is, and learns to read: pictures
and captions are told apart by contrast, true captions from false ones by cross-attention, and the
words of an object's caption are guessed from its name and the picture. Captions name kind, colour,
place and style, and the more a thing is damaged the likelier they say so in a word (``a grainy red
car``), as people's captions do. No grade is ever shown to it. ``scenewright miniature train blip``
trains or continues it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from diffusers import AutoencoderKL
from PIL import Image
from torch import nn
from torch.nn import functional

from scenewright.miniature.training.blip_model import (
    EMBEDDING,
    emptied,
    new_model,
    new_processor,
    new_tokenizer,
)
from scenewright.miniature.training.blip_pictures import (
    SPECIAL,
    STATES,
    WORDS,
    Pictured,
    false_caption,
    object_caption,
    picture_caption,
    pool_of,
)
from scenewright.miniature.training.degraded_images import as_seen
from scenewright.miniature.training.judge_pixels import to_pixels
from scenewright.miniature.training.loop import (
    Training,
    autocast,
    cosine_rate,
    forget_origin,
    pick_device,
)
from scenewright.miniature.world import SIZE
from scenewright.tools.vision.realism.crops import object_crop
from scenewright.tools.vision.realism.segformer_blip import SegformerBlip

FOLDER = "blip"
"""Below the weights."""
STEPS = 2000
"""Optimizer steps in all."""
POOL = 2500
"""Paintings that a training draws from."""
PAINTINGS = 12
"""A step."""
OBJECTS = 3
"""A painting, at most."""
_RATE = 1e-3
_ENCODED = 50
_MEASURED = 200
_STATE = 4.0


@dataclass(frozen=True, slots=True)
class _Looked:
    """One painting of the pool, and what the vision tower says of it and of its objects."""

    picture: Pictured
    whole: torch.Tensor
    """float16 (tokens, width)."""
    crops: tuple[torch.Tensor, ...]
    """Likewise, one an object."""


class _Heads(nn.Module):
    """What only pretraining needs."""

    def __init__(self) -> None:
        super().__init__()
        self.match = nn.Linear(EMBEDDING, 2)
        self.words = nn.Linear(EMBEDDING, len(WORDS))


class _Reader:
    """Texts to token ids."""

    def __init__(self) -> None:
        self._ids = {word: at for at, word in enumerate((*SPECIAL, *WORDS))}

    def __call__(self, texts: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
        rows = [[2, *(self._ids[word] for word in text.split()), 3] for text in texts]
        width = max(map(len, rows))
        ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
        return ids, (ids != 0).long()

    @property
    def weights(self) -> torch.Tensor:
        """What each of ``WORDS`` counts, float (words,): captions leave out most words of state,
        so a miss of one says more."""
        states = set(STATES.values())
        return torch.tensor([_STATE if word in states else 1.0 for word in WORDS])

    def bag(self, texts: Sequence[str]) -> torch.Tensor:
        """Which of ``WORDS`` each text holds, float (texts, words)."""
        found = torch.zeros(len(texts), len(WORDS))
        for row, text in enumerate(texts):
            for word in text.split():
                found[row, self._ids[word] - len(SPECIAL)] = 1.0
        return found


def train_blip(
    out: Path,
    work: Path,
    steps: int = STEPS,
    *,
    weights: Path,
    seed: int = 0,
    device: str = "auto",
    max_seconds: float | None = None,
    pool: int = POOL,
) -> bool:
    """Train or continue the BLIP; returns whether it is finished.

    ``weights``: the folder with ``segmenter`` and ``generator/vae``. The checkpoint lies in
    ``work``; the averaged weights go to ``out``, in half precision, with every checkpoint.
    ``max_seconds`` stops early.
    """
    place = pick_device(device)
    torch.manual_seed(seed)
    model, heads = new_model(weights / "segmenter").to(place).train(), _Heads().to(place)
    model.vision_model.segformer.requires_grad_(False).eval()
    parameters = [p for p in (*model.parameters(), *heads.parameters()) if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=_RATE, weight_decay=0.02, fused=True)
    training = Training(
        path=work / f"{FOLDER}.pt",
        modules={"model": model, "heads": heads},
        optimizer=optimizer,
        steps=steps,
        rate=lambda step: cosine_rate(step, steps, warmup=min(150, steps), floor=0.02),
        decay=0.998,
    )
    autoencoder = AutoencoderKL.from_pretrained(weights / "generator" / "vae").float().eval()
    looked = _looked(pool_of(seed, pool), model, autoencoder.to(place), seed)
    model.measure(_sample_of(looked, seed).to(place))
    # The averages began before anything was measured.
    for name, value in model.named_buffers():
        if value.dtype.is_floating_point:
            training.averages["model"].values[name].copy_(value)
    read = _Reader()

    def export() -> None:
        averaged = emptied(model)
        averaged.load_state_dict(training.averages["model"].values)
        averaged.half().save_pretrained(out)
        new_tokenizer(out).save_pretrained(out)
        new_processor().save_pretrained(out)
        forget_origin(out)

    training.on_save = export

    def seen(tokens: torch.Tensor, texts: Sequence[str]) -> torch.Tensor:
        ids, mask = (part.to(place) for part in read(texts))
        pooled = model.text_model(
            input_ids=ids,
            attention_mask=mask,
            encoder_hidden_states=tokens,
            encoder_attention_mask=torch.ones(tokens.shape[:-1], dtype=torch.long, device=place),
        ).pooler_output
        found: torch.Tensor = model.text_projection(pooled)
        return found

    def loss_of(step: int) -> tuple[torch.Tensor, dict[str, float]]:
        # Everything random hangs on (seed, step) alone, so that a resumed run sees the same.
        rng = random.Random(f"{seed}/{step}")
        fulls, crops = _drawn(looked, rng)
        captions = [
            picture_caption(item.picture, [item.picture.objects[at] for at in chosen], rng)
            for item, chosen in fulls
        ]
        captions += [
            object_caption(fulls[row][0].picture, fulls[row][0].picture.objects[at], rng)
            for row, at in crops
        ]
        raw = [item.whole for item, _ in fulls] + [fulls[row][0].crops[at] for row, at in crops]
        shown = torch.stack(raw).to(place).float()
        with autocast(place):
            vision = model.vision_model.of(shown)
            tokens = vision.last_hidden_state
            ids, mask = (part.to(place) for part in read(captions))
            texts = model.text_projection(
                model.text_model(input_ids=ids, attention_mask=mask).pooler_output
            )
            looks = model.visual_projection(vision.pooler_output)
            likeness = (
                functional.normalize(texts.float(), dim=-1)
                @ functional.normalize(looks.float(), dim=-1).t()
            )
            scaled = likeness * model.logit_scale.exp().clamp(max=100)
            same = torch.tensor([[float(a == b) for b in captions] for a in captions], device=place)
            target = same / same.sum(1, keepdim=True)
            contrast = (
                functional.cross_entropy(scaled, target)
                + functional.cross_entropy(scaled.t(), target)
            ) / 2
            false = [false_caption(caption, rng) for caption in captions]
            matching = heads.match(seen(torch.cat([tokens, tokens]), [*captions, *false]).float())
            wanted = torch.tensor([1] * len(captions) + [0] * len(false), device=place)
            match = functional.cross_entropy(matching, wanted)
            # The object's name and a picture: which other words are said of it?
            named = [fulls[row][0].picture.objects[at].name for row, at in crops]
            both = torch.cat([tokens[len(fulls) :], tokens[[row for row, _ in crops]]])
            guessed = heads.words(seen(both, named + named).float())
            bag = read.bag(captions[len(fulls) :]).to(place)
            missed = functional.binary_cross_entropy_with_logits(
                guessed, torch.cat([bag, bag]), weight=read.weights.to(place), reduction="none"
            ).sum(1)
            words = missed.mean()
        with torch.no_grad():
            right = (matching.argmax(1) == wanted).float().mean().item()
            found = (scaled.argmax(1) == torch.arange(len(captions), device=place)).float()
        figures = {
            "match": right,
            "found": found.mean().item(),
            "words_crop": missed[: len(crops)].mean().item(),
            "words_whole": missed[len(crops) :].mean().item(),
        }
        return contrast + match + 0.5 * words, figures

    return training.run(loss_of, max_seconds)


@torch.no_grad()
def _looked(
    pictures: Sequence[Pictured], model: SegformerBlip, autoencoder: AutoencoderKL, seed: int
) -> list[_Looked]:
    """The pool as the frozen vision tower sees it, worn as :func:`as_seen` wears it."""
    place = next(model.parameters()).device
    found: list[_Looked] = []

    def tokens(images: Sequence[Image.Image]) -> torch.Tensor:
        parts = [
            model.vision_model.raw(to_pixels(list(images[at : at + _ENCODED])).to(place))
            for at in range(0, len(images), _ENCODED)
        ]
        return torch.cat(parts).half().cpu()

    for start in range(0, len(pictures), _ENCODED):
        some = [item for item in pictures[start : start + _ENCODED] if item.objects]
        if not some:
            continue
        worn = as_seen([item.image for item in some], autoencoder, f"blip {seed}/{start}")
        crops = [
            object_crop(image, item.box).resize((SIZE, SIZE), Image.Resampling.BICUBIC)
            for image, picture in zip(worn, some, strict=True)
            for item in picture.objects
        ]
        whole, parts = tokens(worn), iter(tokens(crops).unbind())
        found += [
            _Looked(picture, whole[at], tuple(next(parts) for _ in picture.objects))
            for at, picture in enumerate(some)
        ]
        if start % (10 * _ENCODED) == 0:
            print(f"looked at {start + len(some)} of {len(pictures)} paintings", flush=True)
    return found


def _sample_of(looked: Sequence[_Looked], seed: int) -> torch.Tensor:
    """Tokens of some pictures and crops, float32 (n, tokens, width)."""
    some = random.Random(seed).sample(looked, min(_MEASURED, len(looked)))
    return torch.stack([part for item in some for part in (item.whole, *item.crops)]).float()


def _drawn(
    looked: Sequence[_Looked], rng: random.Random
) -> tuple[list[tuple[_Looked, list[int]]], list[tuple[int, int]]]:
    """Paintings with some of their objects, and each of these as (row, object)."""
    fulls = [
        (item, rng.sample(range(len(item.crops)), min(OBJECTS, len(item.crops))))
        for item in rng.choices(looked, k=PAINTINGS)
    ]
    return fulls, [(row, at) for row, (_, chosen) in enumerate(fulls) for at in chosen]
