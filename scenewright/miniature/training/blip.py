"""Training recipe of the miniature BLIP: a small vision-language encoder that OLIP stands on.

It sees by the miniature segmenter's encoder, which stays as it is, and learns to read: pictures
and captions are told apart by contrast, true captions from false ones by cross-attention, and the
words of an object's caption are guessed from its name and the picture. Captions name kind, colour,
place and style, and the more a thing is damaged the likelier they say so in a word (``a grainy red
car``), as people's captions do. No grade is ever shown to it. ``scenewright miniature train blip``
trains or continues it.

What the miniature BLIP is pretrained on: paintings, what they show where, and their captions.

The miniature BLIP in the layouts of transformers: model, tokenizer, processor.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import torch
from diffusers import AutoencoderKL
from PIL import Image
from torch import nn
from torch.nn import functional
from transformers import (
    BertTokenizer,
    BlipConfig,
    BlipImageProcessorPil,
    SegformerConfig,
    SegformerForSemanticSegmentation,
)

from scenewright.miniature.damage import GradedObject, sample_graded
from scenewright.miniature.training.degraded_images import as_seen
from scenewright.miniature.training.loop import (
    Training,
    autocast,
    cosine_rate,
    forget_origin,
    pick_device,
    to_pixels,
)
from scenewright.miniature.world import COLORS, KINDS, SETTINGS, SIZE
from scenewright.tools.vision.realism.object_views import object_crop
from scenewright.tools.vision.realism.segformer_blip import SegformerBlip, width_of

STATES = {
    "warped": "warped",
    "melted": "melted",
    "parts": "broken",
    "noise": "grainy",
    "smudged": "smudged",
    "banded": "striped",
    "blotched": "blotched",
    "patterned": "patterned",
}
"""Manner of a damage → how a caption calls it."""
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[DEC]")
_LITTLE = (
    *("a", "an", "and", "the", "of", "in", "on", "with", "photo", "drawing", "pencil"),
    *("meadow", "beach", "snow", "room", "realistic", "shape", "texture", "structure"),
    *("color", "shade"),
)
WORDS = (*sorted(KINDS), *sorted(COLORS), *sorted(STATES.values()), *_LITTLE)
"""What it can read."""
_STYLES = {"flat": "a photo of", "pencil": "a pencil drawing of"}
_PENCIL = 0.2
_CHUNK = 50


@dataclass(frozen=True, slots=True)
class Pictured:
    """One painting of the pool."""

    image: Image.Image
    """RGB."""
    objects: tuple[GradedObject, ...]
    """What is in it."""
    setting: str
    """Its background."""
    style: str
    """flat or pencil."""


def pool_of(seed: int, count: int, processes: int | None = None) -> list[Pictured]:
    """``count`` paintings, made side by side; the same for the same seed however many work."""
    workers = processes or os.cpu_count() or 1
    chunks = [(seed, start, min(count, start + _CHUNK)) for start in range(0, count, _CHUNK)]
    if len(chunks) == 1:
        return _chunk(chunks[0])
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as executor:
        return [item for made in executor.map(_chunk, chunks) for item in made]


def _chunk(task: tuple[int, int, int]) -> list[Pictured]:
    seed, start, stop = task
    made: list[Pictured] = []
    for at in range(start, stop):
        rng = random.Random(f"blip {seed}/{at}")
        style = "pencil" if rng.random() < _PENCIL else "flat"
        found = sample_graded(rng, style)
        made.append(Pictured(found.image, found.objects, found.painting.truth.setting, style))
    return made


def phrase(item: GradedObject, rng: random.Random) -> str:
    """``grainy red car``: the states are said with a chance of the damage's level over 4."""
    states = [
        STATES[manner]
        for manner, grade in (
            (item.shape_manner, item.shape),
            (item.texture_manner, item.texture),
        )
        if rng.random() < (5 - grade) / 4
    ]
    return " ".join([*states, item.color, item.name])


def object_caption(picture: Pictured, item: GradedObject, rng: random.Random) -> str:
    """Return the caption of an object's square crop."""
    said = f"{_STYLES[picture.style]} a {phrase(item, rng)}"
    return f"{said} {SETTINGS[picture.setting]}" if rng.random() < 0.5 else said


def picture_caption(picture: Pictured, chosen: Sequence[GradedObject], rng: random.Random) -> str:
    """Return the caption of a whole picture: two of its things and where they are."""
    things = " and ".join(f"a {phrase(item, rng)}" for item in chosen[:2])
    return f"{_STYLES[picture.style]} {things} {SETTINGS[picture.setting]}"


def false_caption(caption: str, rng: random.Random) -> str:
    """``caption`` with one word of meaning exchanged for another of its sort."""
    words = caption.split()
    sorts = (sorted(KINDS), sorted(COLORS), sorted(STATES.values()), sorted(SETTINGS))
    places = [(at, sort) for at, word in enumerate(words) for sort in sorts if word in sort]
    at, sort = rng.choice(places)
    words[at] = rng.choice([word for word in sort if word != words[at]])
    return " ".join(words)


EMBEDDING = 128
"""Length of its embeddings."""
TOKENS = 24
"""Longest text."""
_SEGFORMER = (
    *("num_encoder_blocks", "depths", "sr_ratios", "hidden_sizes", "patch_sizes", "strides"),
    *("num_attention_heads", "mlp_ratios", "drop_path_rate", "hidden_dropout_prob"),
    *("attention_probs_dropout_prob", "hidden_act", "layer_norm_eps"),
)


def new_model(segmenter: Path) -> SegformerBlip:
    """Return a model with random weights on the frozen encoder of ``segmenter``."""
    seen = SegformerForSemanticSegmentation.from_pretrained(segmenter, dtype=torch.float32)
    model = _empty(seen.config)
    model.vision_model.segformer.load_state_dict(seen.segformer.state_dict())
    return model


def _empty(segformer: SegformerConfig) -> SegformerBlip:
    kept = {name: getattr(segformer, name) for name in _SEGFORMER}
    width = width_of(segformer)
    config = BlipConfig(
        text_config={
            "vocab_size": len(SPECIAL) + len(WORDS),
            "hidden_size": 96,
            "encoder_hidden_size": width,
            "intermediate_size": 288,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "max_position_embeddings": TOKENS,
            "bos_token_id": SPECIAL.index("[DEC]"),
            "eos_token_id": SPECIAL.index("[SEP]"),
            "sep_token_id": SPECIAL.index("[SEP]"),
            "pad_token_id": 0,
        },
        vision_config={
            "hidden_size": width,
            "intermediate_size": 1,
            "num_hidden_layers": 0,
            "num_attention_heads": 4,
            "image_size": SIZE,
            "patch_size": SIZE,
            "initializer_range": 0.02,
        },
        projection_dim=EMBEDDING,
        segformer=kept,
    )
    told = logging.getLogger("transformers.models.blip.modeling_blip")
    level = told.level
    told.setLevel(logging.ERROR)
    try:
        return SegformerBlip(config)
    finally:
        told.setLevel(level)


def emptied(model: SegformerBlip) -> SegformerBlip:
    """Another model of the same kind, for weights to be put in."""
    return SegformerBlip(model.config)


def new_tokenizer(folder: Path) -> BertTokenizer:
    """Its tokenizer, a word a token; ``folder`` takes the vocabulary's file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "vocab.txt"
    file.write_text("".join(f"{word}\n" for word in (*SPECIAL, *WORDS)), encoding="utf-8")
    vocab = {word: at for at, word in enumerate((*SPECIAL, *WORDS))}
    return BertTokenizer(vocab=vocab, model_max_length=TOKENS)


def new_processor() -> BlipImageProcessorPil:
    """Return the image processor of the model's size and range."""
    return BlipImageProcessorPil(
        size={"height": SIZE, "width": SIZE},
        image_mean=[0.5, 0.5, 0.5],
        image_std=[0.5, 0.5, 0.5],
    )


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
        """Return the weight of each of ``WORDS``, float (words,).

        Captions leave out most words of state, so that missing one weighs more.
        """
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
    """Return the pool as the frozen vision tower sees it, worn as :func:`as_seen` wears it."""
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
