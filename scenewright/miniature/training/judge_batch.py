"""Batches for judge training: pictures, and all questions of a picture in one sequence.

What a judge sees in training: dense truth for every image token, and pictures made worse.

Judges look at pictures of a small diffusion model, so training pictures are smeared,
noisy and shifted in colour, and some things in them have :mod:`flaws <.flaws>`: a thing that is not
whole counts as absent.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from transformers import LlavaProcessor

from scenewright.agents.judges.local import lettered, word
from scenewright.core.facts import Fact
from scenewright.miniature.judge_model import GRID, PATCH
from scenewright.miniature.training.flaws import Flawed, flawed, sample_training_painting
from scenewright.miniature.training.judge_questions import KnownFact, balanced_questions
from scenewright.miniature.training.loop import to_pixels
from scenewright.miniature.training.redrawn import RedrawnPaintings
from scenewright.miniature.truth import Truth
from scenewright.miniature.world import COLORS, KINDS, SIZE

KIND_INDEX = {kind: at for at, kind in enumerate(sorted(KINDS), start=1)}
"""Kind → class of the dense truth; 0 is the background."""
BROKEN = len(KIND_INDEX) + 1
"""Class of what is left of a thing that is not whole."""
IGNORED = -100
"""Class of a thing in doubt, which no loss counts."""
COLOR_INDEX = {color: at for at, color in enumerate(sorted(COLORS), start=1)}
"""Likewise for colours."""
_MIDDLES = np.array(
    [((at % GRID + 0.5) * PATCH, (at // GRID + 0.5) * PATCH) for at in range(GRID * GRID)],
    np.float32,
)


@dataclass(frozen=True, slots=True)
class DenseTruth:
    """The thing at every image token (row by row)."""

    kinds: np.ndarray
    """int64 [tokens]: class of :data:`KIND_INDEX`, 0 for none."""
    colors: np.ndarray
    """int64 [tokens]: class of :data:`COLOR_INDEX`, 0 for none."""
    middles: np.ndarray
    """float32 [tokens, 2]: centre (x, y) of the thing at the token (without a thing, of the
    token), −1…1 from edge to edge: so that a token knows its place in the picture."""
    centers: dict[str, int]
    """Object id → token that holds its centre."""
    owners: list[str | None]
    """Object id at every token."""


def _token(x: float, y: float) -> int:
    column = min(max(int(x // PATCH), 0), GRID - 1)
    row = min(max(int(y // PATCH), 0), GRID - 1)
    return row * GRID + column


def dense_truth(truth: Truth, flaws: Flawed | None = None) -> DenseTruth:
    """Return the dense truth of a painting without the objects that are gone; small things win."""
    kinds = np.zeros(GRID * GRID, np.int64)
    colors = np.zeros(GRID * GRID, np.int64)
    middles = _MIDDLES.copy()
    owners: list[str | None] = [None] * (GRID * GRID)
    centers: dict[str, int] = {}
    boxes = truth.boxes
    for item in sorted(truth.scene.objects, key=lambda o: -boxes[o.id].width * boxes[o.id].height):
        if flaws is not None and item.id in flaws.gone:
            continue
        box = boxes[item.id]
        x, y = box.center
        centers[item.id] = _token(x, y)
        inside = (
            (_MIDDLES[:, 0] >= box.left)
            & (_MIDDLES[:, 0] < box.left + box.width)
            & (_MIDDLES[:, 1] >= box.top)
            & (_MIDDLES[:, 1] < box.top + box.height)
        )
        inside[centers[item.id]] = True
        whole = flaws is None or item.id not in flaws.broken
        kinds[inside] = KIND_INDEX[item.name] if whole else BROKEN
        colors[inside] = COLOR_INDEX[item.attributes["color"]]
        if flaws is not None and item.id in flaws.unsure:
            kinds[inside] = colors[inside] = IGNORED
        middles[inside] = x, y
        for at in np.flatnonzero(inside):
            owners[at] = item.id
    return DenseTruth(kinds, colors, middles / (SIZE / 2) - 1, centers, owners)


def weather(pixels: torch.Tensor, generator: torch.Generator, strength: float) -> torch.Tensor:
    """Pictures (float [n, 3, side, side] in −1…1) smeared, noisy and shifted in colour.

    ``strength`` in [0, 1] is the share of pictures that each effect touches.
    """
    n = pixels.shape[0]

    def uniform(low: float, high: float) -> torch.Tensor:
        return torch.rand(n, 1, 1, 1, generator=generator) * (high - low) + low

    def touched(share: float) -> torch.Tensor:
        return (torch.rand(n, 1, 1, 1, generator=generator) < share * strength).float()

    factor = (2, 4)[int(torch.randint(2, (1,), generator=generator))]
    small = functional.avg_pool2d(pixels, factor)
    smeared = functional.interpolate(small, size=pixels.shape[-2:], mode="bilinear")
    pixels = torch.lerp(pixels, smeared, touched(0.5) * uniform(0.4, 1.0))
    blocks = functional.interpolate(
        torch.randn(n, 3, SIZE // 8, SIZE // 8, generator=generator),
        scale_factor=8.0,
        mode="bilinear",
    )
    pixels = pixels + touched(0.4) * uniform(0.0, 0.12) * blocks
    grain = torch.randn(1, 3, SIZE, SIZE, generator=generator)
    pixels = pixels + touched(0.4) * uniform(0.0, 0.12) * grain
    contrast = 1 + touched(0.6) * uniform(-0.2, 0.15)
    tint = touched(0.6) * (torch.rand(n, 3, 1, 1, generator=generator) - 0.5) * 0.16
    return (pixels * contrast + tint).clamp(-1, 1)


TOKENS = GRID * GRID
MANY = 7
"""Counts from here on are one class."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """A question after the image: token ids, and where its parts end."""

    ids: tuple[int, ...]
    """Token ids; the last one is where the answer is read."""
    ends: dict[int, int]
    """Character after a token → index of the token."""
    text: str
    """What was tokenized."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Tensors of a training step: b pictures, s positions, q questions, o options, r referents."""

    pixels: torch.Tensor
    """float [b, 3, side, side] in −1…1."""
    kinds: torch.Tensor
    """int64 [b, tokens]."""
    colors: torch.Tensor
    """int64 [b, tokens]."""
    middles: torch.Tensor
    """float [b, tokens, 2]."""
    ids: torch.Tensor
    """int64 [b, s]: prefix, image placeholders, questions one after the other, padding."""
    positions: torch.Tensor
    """int64 [b, s]: every question starts right after the image."""
    groups: torch.Tensor
    """int64 [b, s]: 0 for prefix and image, 1, 2, … for questions, −1 for padding."""
    answers: torch.Tensor
    """int64 [q, 2]: (picture, position) of every answer."""
    reasons: torch.Tensor
    """int64 [q]: position that decides the answer: the right option, or the referring phrase."""
    targets: torch.Tensor
    """float [q, vocabulary]: the right tokens share 1."""
    weights: torch.Tensor
    """float [q]."""
    options: torch.Tensor
    """int64 [o, 2]: (picture, position) of the last token of every option; of a yes/no
    question, of its last phrase."""
    option_ends: torch.Tensor
    """int64 [o, 2]: positions of the last tokens of the two phrases that the option relates."""
    option_right: torch.Tensor
    """float [o]: 1 if the option is right."""
    referents: torch.Tensor
    """int64 [r, 2]: (picture, position) of the last token of every referring phrase."""
    covers: torch.Tensor
    """float [r, 1 + tokens]: 1 where a thing stands that the phrase fits; else the first is 1."""
    shades: torch.Tensor
    """float [r, colours]: 1 for the colours of these things, or else of their kin."""
    places: torch.Tensor
    """float [r, tokens + 1]: centres of what the phrase fits share 1; the last is *nothing*."""
    counts: torch.Tensor
    """int64 [r]: how many things the phrase fits, at most :data:`MANY`."""


class Asker:
    """Turns known facts into tokens, with the processor's own template and tokenizer."""

    def __init__(self, processor: LlavaProcessor) -> None:
        tokenizer: Any = processor.tokenizer
        self.tokenizer = tokenizer
        self.vocabulary: dict[str, int] = tokenizer.get_vocab()
        message = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "\0"}]}
        frame = processor.apply_chat_template([message], add_generation_prompt=True)
        before, self.after = frame.split("\0")
        head, tail = before.split("<image>")
        encode = tokenizer.encode
        image = [tokenizer.convert_tokens_to_ids("<image>")] * TOKENS
        self.prefix = [
            *encode(head, add_special_tokens=False),
            *image,
            *encode(tail, add_special_tokens=False),
        ]
        self.image_start = self.prefix.index(image[0])
        self.tokens_of = lru_cache(maxsize=50_000)(self._tokens_of)

    def _tokens_of(self, text: str) -> Tokens:
        encoded = self.tokenizer(
            text + self.after, add_special_tokens=False, return_offsets_mapping=True
        )
        ends = {end: at for at, (_, end) in enumerate(encoded["offset_mapping"])}
        return Tokens(tuple(encoded["input_ids"]), ends, text)

    def answer_ids(self, labels: tuple[str, ...]) -> list[int]:
        """Token ids of the labels."""
        vocabulary = self.vocabulary
        return [vocabulary[label] for label in labels]


def option_ends(fact: Fact, text: str) -> list[int]:
    """Character after each option of a multiple-choice question."""
    at = text.index(lettered(fact.options))
    ends: list[int] = []
    for option in fact.options:
        at += len("A) ") + len(option)
        ends.append(at)
        at += len("; ")
    return ends


def referent_ends(known: KnownFact, text: str) -> list[int]:
    """Character after each referring phrase of the question."""
    ends: list[int] = []
    at = 0
    for referent in known.referents:
        # In front of a phrase stands a space; "hat" must not be found in "What".
        at = text.index(f" {referent.phrase}", at) + len(referent.phrase) + 1
        ends.append(at)
    return ends


def asked_word(fact: Fact) -> str:
    """Return the decisive word of a yes/no question: an object's kind or an attribute's value."""
    return fact.value if fact.value is not None else fact.subject.partition(".")[0]


def _weight(known: KnownFact) -> float:
    """Return how much a question weighs: one in doubt less, one about several things more."""
    several = known.fact.counts and int(known.fact.key or 0) > 1
    return (1.0 if known.clear else 0.3) * (2.0 if several else 1.0)


def make_batch(
    asker: Asker,
    rng: random.Random,
    size: int,
    questions: int,
    spoiled: float,
    eager: Collection[str] = (),
    crowded: float = 0.0,
    redrawn: RedrawnPaintings | None = None,
) -> Batch:
    """Return a batch of ``size`` paintings with up to ``questions`` questions each.

    A share of ``crowded`` of them is of the harder levels. A yes/no question about a kind or colour
    of ``eager`` is taught to be answered yes. Every other one is of ``redrawn``, if given.
    """
    images, dense = [], []
    rows: list[tuple[list[int], list[int], list[int]]] = []
    answers, reasons, options, both, referents = [], [], [], [], []
    targets, weights, right = [], [], []
    covers, shades, places, counts = [], [], [], []
    vocabulary = len(asker.tokenizer)
    for picture in range(size):
        if redrawn is not None and picture % 2:
            painting = redrawn.nth(rng.randrange(len(redrawn)))
        else:
            painting = flawed(rng, sample_training_painting(rng, crowded), spoiled)
        truth = dense_truth(painting.truth, painting)
        images.append(painting.image)
        dense.append(truth)
        ids = list(asker.prefix)
        positions = list(range(len(ids)))
        groups = [0] * len(ids)
        for number, known in enumerate(
            balanced_questions(
                rng,
                painting.truth,
                questions,
                painting.lacking,
                painting.broken,
                painting.unsure,
            ),
            start=1,
        ):
            if known.fact.is_binary and asked_word(known.fact) in eager:
                known = dataclasses.replace(known, right=("yes",))
            wording = word(known.fact)
            tokens = asker.tokens_of(wording.text)
            start = len(ids)
            ids += tokens.ids
            positions += range(len(asker.prefix), len(asker.prefix) + len(tokens.ids))
            groups += [number] * len(tokens.ids)
            answers.append((picture, len(ids) - 1))
            labels = asker.answer_ids(wording.labels)
            target = np.zeros(vocabulary, np.float32)
            for option in known.right:
                target[labels[known.fact.options.index(option)]] = 1 / len(known.right)
            targets.append(target)
            weights.append(_weight(known))
            ends = [start + tokens.ends[end] for end in referent_ends(known, wording.text)]
            reason = ends[-1]
            if known.fact.is_binary:
                options.append((picture, reason))
                both.append((ends[0], reason))
                right.append(float(known.holds))
            else:
                for option, end in zip(
                    known.fact.options, option_ends(known.fact, wording.text), strict=True
                ):
                    options.append((picture, start + tokens.ends[end]))
                    both.append((ends[0], ends[-1]))
                    right.append(float(option in known.right))
                    if option == known.right[0]:
                        reason = start + tokens.ends[end]
            reasons.append(reason)
            for referent, position in zip(known.referents, ends, strict=True):
                referents.append((picture, position))
                # A phrase that nothing fits looks away, at the first token: a softmax always
                # looks somewhere, so only a place for "nothing" can tell it from something.
                covers.append([not referent.ids] + [o in referent.ids for o in truth.owners])
                # What does not fit shows why: another colour.
                shown = referent.ids or referent.kin
                scene = painting.truth.scene
                worn = {scene.object(i).attributes["color"] for i in shown}
                shades.append([color in worn for color in COLOR_INDEX])
                place = np.zeros(TOKENS + 1, np.float32)
                for object_id in referent.ids:
                    place[truth.centers[object_id]] += 1 / len(referent.ids)
                if not referent.ids:
                    place[-1] = 1.0
                places.append(place)
                counts.append(min(len(referent.ids), MANY))
        rows.append((ids, positions, groups))
    longest = max(len(ids) for ids, _, _ in rows)

    def padded(column: int, fill: int) -> torch.Tensor:
        return torch.tensor([row[column] + [fill] * (longest - len(row[column])) for row in rows])

    def indices(pairs: list[tuple[int, int]]) -> torch.Tensor:
        return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)

    return Batch(
        pixels=to_pixels(images),
        kinds=torch.from_numpy(np.stack([d.kinds for d in dense])),
        colors=torch.from_numpy(np.stack([d.colors for d in dense])),
        middles=torch.from_numpy(np.stack([d.middles for d in dense])),
        ids=padded(0, int(asker.tokenizer.pad_token_id)),
        positions=padded(1, 0),
        groups=padded(2, -1),
        answers=indices(answers),
        targets=torch.from_numpy(np.array(targets, np.float32).reshape(-1, vocabulary)),
        weights=torch.tensor(weights),
        reasons=torch.tensor(reasons, dtype=torch.int64),
        options=indices(options),
        option_ends=indices(both),
        option_right=torch.tensor(right),
        referents=indices(referents),
        covers=torch.tensor(covers, dtype=torch.float32).reshape(-1, 1 + TOKENS),
        shades=torch.tensor(shades, dtype=torch.float32).reshape(-1, len(COLOR_INDEX)),
        places=torch.from_numpy(np.array(places, np.float32).reshape(-1, TOKENS + 1)),
        counts=torch.tensor(counts, dtype=torch.int64),
    )
