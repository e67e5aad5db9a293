"""The shipped models of the miniature: sizes, autoencoder, segmenter, judges, labels by eye.

Errors of the autoencoder are mean absolute differences of 8-bit values (0–255). Things are small
and the ground is easy, so the error is given for parts of the picture as well.

Paintings show how judges do on clean pictures of a known truth. What judges are for is
pictures of the generator, whose truth is labelled by eye.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from diffusers import AutoencoderKL
from PIL import Image, ImageFilter
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from torch.nn import functional
from transformers import SegformerForSemanticSegmentation

from benchmarks._harness import interval, intervals, prefixed, progress
from benchmarks._miniature_pictures import KeptTeam, short
from benchmarks._scenes import held_out
from scenewright.core.facts import FACT_KINDS, Fact
from scenewright.core.images import load_image
from scenewright.core.ports.judge import Judge
from scenewright.core.predicate_statistics import load_predicates
from scenewright.core.questions import facts_of
from scenewright.core.scene import Level, SceneGraph
from scenewright.miniature.painter import Mask, Painting, layers_of, silhouettes
from scenewright.miniature.sampler import GROUNDS, sample_painting
from scenewright.miniature.training.judge_batch import weather
from scenewright.miniature.training.judge_questions import KnownFact
from scenewright.miniature.training.judges import Scored, figures_of, known_of, weathered
from scenewright.miniature.training.loop import to_pixels
from scenewright.miniature.training.segmenter import LABELS, truth_of
from scenewright.miniature.world import SIZE
from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS

EDGE = 40
"""Step between neighbouring pixels, in 8-bit values, from which it is an edge."""
NEAR_EDGE = 2
"""Pixels from an edge that count as near it."""
THIN = 5
"""A part through which no square of this side fits is thin: whiskers, poles, masts, tails."""
PALE = 200
"""A part whose darkest channel is at least this is pale: sails, house fronts, hat bands."""
_BATCH = 16


def opened(mask: Mask) -> Mask:
    """Return ``mask`` without its thin parts: morphological opening with a square."""
    image = Image.fromarray(mask.astype(np.uint8) * 255)
    # The frame keeps the border of the drawing from counting as inside.
    framed = Image.new("L", (image.width + 2 * THIN, image.height + 2 * THIN))
    framed.paste(image, (THIN, THIN))
    rest = framed.filter(ImageFilter.MinFilter(THIN)).filter(ImageFilter.MaxFilter(THIN))
    return np.asarray(rest)[THIN:-THIN, THIN:-THIN] > 127


def regions(painting: Painting) -> dict[str, Mask]:
    """Return boolean masks (128, 128).

    ``objects`` (inside their boxes), ``ground`` (outside), ``edges``, and of the things' visible
    pixels the ``thin`` and the ``pale``.
    """
    pixels = np.asarray(painting.image).astype(int)
    objects = np.zeros((SIZE, SIZE), bool)
    thin, pale = objects.copy(), objects.copy()
    for box in painting.truth.boxes.values():
        objects[box.top : box.top + box.height, box.left : box.left + box.width] = True
    layers = layers_of(painting.truth)
    visible = silhouettes(layers)
    for layer in layers:
        # A thing that is partly hidden is thin where it is so by itself, not where it peeps out.
        whole = silhouettes([layer])[layer.object_id]
        shown = visible.get(layer.object_id, np.zeros_like(whole))
        thin |= shown & ~opened(whole)
        pale |= shown & (pixels.min(-1) >= PALE)
    step = np.zeros((SIZE, SIZE), bool)
    step[:, 1:] |= np.abs(np.diff(pixels, axis=1)).max(-1) >= EDGE
    step[1:] |= np.abs(np.diff(pixels, axis=0)).max(-1) >= EDGE
    wide = Image.fromarray(step.astype(np.uint8) * 255)
    edges = np.asarray(wide.filter(ImageFilter.MaxFilter(2 * NEAR_EDGE + 1))) > 127
    return {"objects": objects, "ground": ~objects, "edges": edges, "thin": thin, "pale": pale}


def errors_of(painting: Painting, made: npt.NDArray[np.uint8]) -> dict[str, float]:
    """Return L1 (8-bit values) of all and of each region that is there, and PSNR (dB)."""
    difference = np.asarray(painting.image).astype(float) - made
    absolute = np.abs(difference).mean(-1)
    found = {"l1": float(absolute.mean())}
    for name, mask in regions(painting).items():
        if mask.any():
            found[f"l1.{name}"] = float(absolute[mask].mean())
    found["psnr"] = float(10 * np.log10(255.0**2 / max(1e-3, float((difference**2).mean()))))
    return found


@torch.inference_mode()
def _rebuilt(vae: AutoencoderKL, images: Sequence[Image.Image]) -> npt.NDArray[np.uint8]:
    stack = np.stack([np.asarray(image) for image in images])
    pixels = torch.from_numpy(stack).permute(0, 3, 1, 2).float().div(127.5).sub(1)
    made = vae.decode(vae.encode(pixels).latent_dist.mean).sample
    whole: torch.Tensor = ((made.clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1)
    return whole.numpy()


def _batches(count: int) -> Iterator[list[Painting]]:
    for start in range(0, count, _BATCH):
        yield [
            sample_painting(held_out("autoencoder", at))
            for at in range(start, min(start + _BATCH, count))
        ]


def autoencoder_figures(
    count: int, folder: Path = MINIATURE_WEIGHTS / "generator" / "vae"
) -> dict[str, Any]:
    """Return ``autoencoder.l1``, ``.l1.<region>``, ``.psnr``: means over held-out paintings."""
    vae = AutoencoderKL.from_pretrained(folder, torch_dtype=torch.float32).eval()
    total = -(-count // _BATCH)
    rows = [
        errors_of(painting, made)
        for batch in progress(_batches(count), total, "autoencoder, batches")
        for painting, made in zip(batch, _rebuilt(vae, [p.image for p in batch]), strict=True)
    ]
    return intervals(rows, "autoencoder.")


LIMIT_MIB = 80.0
"""All weights together stay below this."""
TRAINING = MINIATURE_WEIGHTS / "training.json"
_MIB = 2**20
_GENERATOR: dict[str, str] = {
    "autoencoder": "generator/vae",
    "text-encoder": "generator/text_encoder",
    "denoiser": "generator/unet",
    "image-encoder": "ip-adapter/image_encoder",
    "ip-adapter": "ip-adapter",
}
SEGMENTER = "segmenter"
"""Name and folder of the model that says which kind every pixel shows."""
BLIP = "blip"
"""Name and folder of the encoder under the heads of OLIP."""


def judge_specs(root: Path = MINIATURE_WEIGHTS) -> list[str]:
    """Return ``local:miniature/NAME`` of every judge that ships."""
    return [
        f"local:miniature/{name}" for name, at in models(root).items() if at.startswith("judges/")
    ]


def models(root: Path = MINIATURE_WEIGHTS) -> dict[str, str]:
    """Return model → its folder below ``root``.

    A model's weights are the safetensors files right in its folder.
    """
    rest = {name: f"judges/{name}" for name in _folders(root / "judges")}
    heads = {name: f"olip/{name}" for name in _folders(root / "olip")}
    blip = {BLIP: BLIP} if (root / BLIP).is_dir() else {}
    editor = {"editor": "editor/editor"} if (root / "editor").is_dir() else {}
    return {**_GENERATOR, **editor, SEGMENTER: SEGMENTER, **rest, **blip, **heads}


def _folders(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if path.is_dir()) if root.is_dir() else []


class TrainingError(ValueError):
    """A record of trainings that cannot be read; says what to change."""


class Stage(BaseModel):
    """One stretch of a model's training on one device."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    steps: int = Field(ge=1)
    """Optimizer steps."""
    batch: int = Field(ge=1)
    """Paintings a step."""
    seconds: float = Field(gt=0)
    """Wall time."""
    device: str = Field(min_length=1)
    """For example ``"1 × NVIDIA H100"`` or ``"CPU, 2 cores"``."""
    part: str = ""
    """What was trained, where it was not the whole model, for example ``"decoder"``."""


Training = dict[str, list[Stage]]
"""Model → the stages of its training, in order; none: not recorded."""
_RECORD: TypeAdapter[Training] = TypeAdapter(Training)


def read_training(path: Path = TRAINING) -> Training:
    """Return what the trainings took; ``path`` holds a JSON object with keys of :func:`models`.

    A model that is not in it has no stages. Raises ``TrainingError``.
    """
    try:
        record = _RECORD.validate_python(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValidationError, ValueError) as error:
        raise TrainingError(
            f"{path}: {error}. It must map each model to a list of stages such as "
            '{"steps": 3000, "batch": 32, "seconds": 5400, "device": "CPU, 2 cores"}'
        ) from error
    known = models(path.parent)
    unknown = sorted(set(record) - set(known))
    if unknown:
        raise TrainingError(f"{path}: no such models {unknown}: there are {', '.join(known)}")
    return {name: record.get(name, []) for name in known}


def parameters_of(file: Path) -> int:
    """Return numbers in a safetensors file, read from its header."""
    with file.open("rb") as stream:
        header: Mapping[str, Any] = json.loads(
            stream.read(int.from_bytes(stream.read(8), "little"))
        )
    return sum(math.prod(t["shape"]) for name, t in header.items() if name != "__metadata__")


def size_figures(root: Path = MINIATURE_WEIGHTS) -> dict[str, Any]:
    """Return ``sizes.<model>.parameters`` and ``.mib`` (weights files), and both in all.

    ``total.mib`` counts every file below ``root``.
    """
    figures: dict[str, Any] = {}
    total = 0
    for model, folder in models(root).items():
        files = sorted((root / folder).glob("*.safetensors"))
        if not files:
            raise FileNotFoundError(f"{root / folder} holds no safetensors: train the model first")
        count = sum(map(parameters_of, files))
        total += count
        figures[f"sizes.{model}.parameters"] = count
        figures[f"sizes.{model}.mib"] = sum(file.stat().st_size for file in files) / _MIB
    every = [path for path in root.rglob("*") if path.is_file()]
    figures["sizes.total.parameters"] = total
    figures["sizes.total.mib"] = sum(path.stat().st_size for path in every) / _MIB
    figures["sizes.limit_mib"] = LIMIT_MIB
    return figures


STYLES = ("flat", "pencil", "weathered")
"""As painted, in pencil, and smeared, noisy and shifted in colour."""
_STRENGTH = 0.8


def overlap(found: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> float:
    """Return mean intersection over union of the kinds that are in either of two maps of classes.

    1 where neither shows a thing: class 0 is no kind.
    """
    kinds = sorted({*np.unique(found), *np.unique(wanted)} - {0})
    shares = [
        np.sum((found == at) & (wanted == at)) / np.sum((found == at) | (wanted == at))
        for at in kinds
    ]
    return float(np.mean(shares)) if shares else 1.0


def segmenter_figures(n: int, folder: Path = MINIATURE_WEIGHTS / SEGMENTER) -> dict[str, Any]:
    """Return ``segmenter.{flat,pencil,weathered}.iou``.

    Of the kinds of each of ``n`` held-out paintings, its mean over paintings with a 95 % interval;
    and ``segmenter.n``.
    """
    model = SegformerForSemanticSegmentation.from_pretrained(
        folder, dtype=torch.float32, local_files_only=True
    ).eval()
    if model.config.id2label != dict(enumerate(LABELS)):
        raise ValueError(f"{folder} knows other kinds than the world: train it anew")
    figures: dict[str, Any] = {"segmenter.n": n}
    generator = torch.Generator().manual_seed(0)
    for style in STYLES:
        rng = random.Random("held-out segmenter")
        scores = []
        for _ in range(n):
            painting = sample_painting(rng, style="pencil" if style == "pencil" else "flat")
            pixels = to_pixels([painting.image])
            if style == "weathered":
                pixels = weather(pixels, generator, _STRENGTH)
            wanted = truth_of(painting)
            with torch.inference_mode():
                logits = model(pixels).logits
            full = functional.interpolate(logits, size=wanted.shape, mode="bilinear")
            scores.append(overlap(full[0].argmax(0).numpy(), wanted))
        figures[f"segmenter.{style}.iou"] = interval(scores)
    return figures


FOLDER = Path(__file__).parent.parent / "tests" / "data" / "generated"
"""Where the labelled pictures lie."""
FILE = "labels.json"
Mark = Literal["true", "false", "unclear"]


class LabelError(ValueError):
    """Labels that do not fit their pictures; says which and what to do."""


class Picture(BaseModel):
    """A generated picture and, once it was looked at, the label of every fact."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str = Field(pattern=r"^[\w-]+\.png$")
    """Its file in the folder of the labels."""
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Of the file."""
    level: Level
    """Level of the scene."""
    seed: int = Field(ge=0)
    """Seed of the drawing."""
    scene: SceneGraph
    """What was asked."""
    facts: dict[str, Mark] = Field(default_factory=dict)
    """Fact id → what is seen."""

    def all_facts(self) -> tuple[Fact, ...]:
        """Return the facts of the scene in their order."""
        return facts_of(self.scene, predicates=load_predicates("miniature"))

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.scene.level() != self.level:
            raise ValueError(f"{self.file}: the scene is {self.scene.level()}, not {self.level}")
        if not self.facts:
            return self
        facts = {fact.id: fact for fact in self.all_facts()}
        if set(self.facts) != set(facts):
            raise ValueError(
                f"{self.file}: not labelled {sorted(set(facts) - set(self.facts))}, "
                f"no facts of the scene {sorted(set(self.facts) - set(facts))}"
            )
        for fact in facts.values():
            absent = [parent for parent in fact.parents if self.facts[parent] == "false"]
            if absent and self.facts[fact.id] != "false":
                raise ValueError(
                    f"{self.file}: {fact.id} is {self.facts[fact.id]} though {absent[0]} is false"
                )
        return self


class Labels(BaseModel):
    """Pictures with their labels."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    generator: str
    """Fingerprint of the backend that drew the pictures."""
    seen_by: str = ""
    """Who looked; empty as long as nobody has."""
    pictures: tuple[Picture, ...]
    """In the order of their numbers."""


def read_labels(folder: Path = FOLDER, labelled: bool = True) -> Labels:
    """Return the labels in ``folder``, checked against their pictures. Raises ``LabelError``.

    With ``labelled`` every fact of every picture must have its label.
    """
    path = folder / FILE
    try:
        labels = Labels.model_validate_json(path.read_bytes())
    except OSError as error:
        raise LabelError(
            f"{path} cannot be read ({error.strerror}): label pictures first"
        ) from error
    except ValidationError as error:
        raise LabelError(f"{path}: {error}") from error
    files = [picture.file for picture in labels.pictures]
    stray = sorted({f.name for f in folder.glob("*.png")} ^ set(files))
    if stray or len(set(files)) != len(files):
        raise LabelError(f"{path}: {stray or files} must each be one file and one entry")
    for picture in labels.pictures:
        found = hashlib.sha256((folder / picture.file).read_bytes()).hexdigest()
        if found != picture.sha256:
            raise LabelError(f"{folder / picture.file} is not the picture that was labelled")
        if labelled and not picture.facts:
            raise LabelError(f"{path}: {picture.file} has no labels: fill in its line of the form")
    if labelled and not labels.seen_by:
        raise LabelError(f"{path}: 'seen_by' is empty: say who looked at the pictures")
    return labels


def known_facts(picture: Picture) -> list[KnownFact]:
    """Return the facts that a run would ask and whose label is clear: every parent is true."""
    found = []
    for fact in picture.all_facts():
        mark = picture.facts[fact.id]
        if mark == "unclear" or any(picture.facts[p] != "true" for p in fact.parents):
            continue
        others = tuple(option for option in fact.options if option != fact.expected)
        right = (fact.expected,) if mark == "true" else others[-1:]
        found.append(KnownFact(fact, right, (), True))
    return found


RESAMPLES = 300


def spread(clusters: Sequence[Sequence[Scored]], resamples: int = RESAMPLES) -> dict[str, Any]:
    """Return ``figures_of`` all facts: counts as they are, shares with a 95% bootstrap interval.

    Whole clusters (the facts of one picture) are drawn again, because facts of one
    picture fail together. A share that some resample lacks (no false fact in it) is
    taken over the others.
    """
    whole = figures_of([scored for cluster in clusters for scored in cluster])
    drawn: dict[str, list[float]] = {k: [] for k, v in whole.items() if isinstance(v, float)}
    rng = np.random.default_rng(0)
    for _ in range(resamples):
        picks = rng.integers(0, len(clusters), len(clusters))
        sample = figures_of([scored for at in picks for scored in clusters[at]])
        for key, values in drawn.items():
            if key in sample:
                values.append(float(sample[key]))
    figures: dict[str, Any] = dict(whole)
    for key, values in drawn.items():
        low, high = np.percentile(values, [2.5, 97.5]) if values else (whole[key], whole[key])
        figures[key] = {"mean": whole[key], "low": float(low), "high": float(high)}
    return figures


def by_kind(prefix: str, clusters: Sequence[Sequence[Scored]]) -> dict[str, Any]:
    """Return ``<prefix>.<kind>.<figure>`` for every kind of fact that was asked."""
    figures: dict[str, Any] = {}
    for kind in FACT_KINDS:
        own = [[s for s in cluster if s[0].fact.kind == kind] for cluster in clusters]
        asked = [cluster for cluster in own if cluster]
        if asked:
            figures |= prefixed(f"{prefix}.{kind}.", spread(asked))
    return figures


async def _scored(
    kept: KeptTeam, judge: Judge, image: Image.Image, known: Sequence[KnownFact]
) -> list[Scored]:
    answers = await kept.answers(judge, image, [k.fact for k in known])
    return list(zip(known, answers, strict=True))


async def judge_figures(kept: KeptTeam, judges: Sequence[Judge], count: int) -> dict[str, Any]:
    """Return the figures of judges on ``count`` paintings, and the role of each judge.

    Keys are ``judges.JUDGE.TITLE.KIND.FIGURE`` and ``judges.JUDGE.role``; titles are those of
    :data:`~scenewright.miniature.training.judges.TITLES`.
    """
    clusters: dict[tuple[str, str], list[list[Scored]]] = {}
    for at in progress(range(count), note="judges"):
        painting, known = known_of(held_out("judges", at))
        shown = {
            "painted": (painting.image, known),
            "weathered": (weathered(painting.image, at), known),
        }
        for ground in GROUNDS:
            painting, known = known_of(held_out(f"judges/{ground}", at), ground)
            shown[ground] = painting.image, known
        for title, (image, asked) in shown.items():
            for judge in judges:
                row = await _scored(kept, judge, image, asked)
                clusters.setdefault((short(judge), title), []).append(row)
    figures: dict[str, Any] = {"judges.paintings": count}
    figures |= {f"judges.{short(judge)}.role": kept.role_of(judge) for judge in judges}
    for (name, title), rows in clusters.items():
        figures |= by_kind(f"judges.{name}.{title}", rows)
    return figures


def label_counts(labels: Labels) -> dict[str, int]:
    """Return ``<kind>.<true, false or unclear>``: how many facts got each label."""
    counts = {f"{k}.{mark}": 0 for k in FACT_KINDS for mark in ("true", "false", "unclear")}
    for picture in labels.pictures:
        for fact in picture.all_facts():
            counts[f"{fact.kind}.{picture.facts[fact.id]}"] += 1
    return counts


async def label_figures(
    kept: KeptTeam, judges: Sequence[Judge], labels: Labels, folder: Path = FOLDER
) -> dict[str, Any]:
    """Return ``labels.<judge>.<kind>.<figure>``: each judge against what was seen by eye.

    Asked is what a run would ask: facts whose objects are there. Unclear facts are
    counted (``labels.<kind>.unclear``) and left out.
    """
    clusters: dict[str, list[list[Scored]]] = {}
    for picture in progress(labels.pictures, note="labels"):
        known = known_facts(picture)
        for judge in judges:
            row = await _scored(kept, judge, load_image(folder / picture.file), known)
            clusters.setdefault(short(judge), []).append(row)
    told = {"pictures": len(labels.pictures), "seen_by": labels.seen_by}
    found = prefixed("labels.", {**told, **label_counts(labels)})
    for name, rows in clusters.items():
        found |= by_kind(f"labels.{name}", rows)
    return found
