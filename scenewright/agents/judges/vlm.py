"""Any transformers vision-language model as a scorer: image + questions → probabilities of labels.

Forward passes only, nothing is generated: the probability of a label is read from the
next-token distribution where the answer would begin.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils import logging as transformers_logging

from scenewright.agents.judges.base import JudgeError
from scenewright.hub.cache import PULL, about, survey
from scenewright.hub.needs import HUB_ID, Need

MIN_MASS = 1e-3
"""Labels that together get less probability than this are no answer."""
_HASHED_WHOLE = 256 * 2**20
_HASHED_ENDS = 4 * 2**20
# What towers say beside the features; a model that gives more may read it later.
_SPARE_OUTPUTS = {
    "last_hidden_state",
    "pooler_output",
    "hidden_states",
    "attentions",
    "intermediate_activations",
    "reshaped_hidden_states",
}


@dataclass(frozen=True, slots=True)
class LabelScores:
    """How a model answers one question."""

    probabilities: tuple[float, ...]
    """One a label, summing to 1; empty if the model gave nothing usable."""
    reason: str
    """Why there are none; empty if there are."""
    tokens: int
    """Tokens of the question, the image's included."""


def find_model(model: str | os.PathLike[str]) -> Path:
    """The local folder of ``model``: a folder, or a hub repository fetched earlier.

    Never asks the network. Raises ``JudgeError`` if there is none, or if files are missing.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise JudgeError(
                f"{folder} holds no config.json: give a folder in transformers layout "
                "(config.json, model.safetensors, processor and tokenizer files)"
            )
        return folder
    name = str(model)
    if HUB_ID.fullmatch(name) is None:
        raise JudgeError(
            f"no model folder {name!r}: check the path, or name a hub repository as owner/name"
        )
    present = survey(Need(name, ("judge",), "model"))
    if not present.complete or present.folder is None:
        raise JudgeError(
            f"{name} is not on this machine ({about(present.bytes_needed)}, licence "
            f"{present.licence or 'unknown'}; {present.state()}): get it with "
            f"`{PULL} local:{name}`, or give the folder it lies in"
        )
    return present.folder


def digest_folder(folder: Path) -> str:
    """SHA-256 (hex) of the model's files: whole, or size and both ends beyond 256 MB."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if not file.is_file() or file.suffix not in {
            ".safetensors", ".json", ".jinja", ".txt", ".model", ".bin"
        } or file.name == "report.json":  # fmt: skip
            continue
        size = file.stat().st_size
        digest.update(f"{file.relative_to(folder).as_posix()}\0{size}\0".encode())
        with file.open("rb") as stream:
            if size <= _HASHED_WHOLE:
                while block := stream.read(2**20):
                    digest.update(block)
            else:
                digest.update(stream.read(_HASHED_ENDS))
                stream.seek(-_HASHED_ENDS, os.SEEK_END)
                digest.update(stream.read())
    return digest.hexdigest()


def neutralise(text: str, special: Sequence[str]) -> str:
    """``text`` with every special token of a tokenizer broken up, so that it is mere letters.

    A space goes between the first and second character of each occurrence; control
    characters become spaces. ``special`` may hold tokens that contain one another.
    """
    clean = "".join(c if c.isprintable() else " " for c in text)
    found = True
    while found:
        found = False
        for token in special:
            if len(token) > 1 and token in clean:
                clean = clean.replace(token, f"{token[0]} {token[1:]}")
                found = True
    return clean


def device_of(wanted: str) -> torch.device:
    """``"auto"``: CUDA if there is one, else the CPU."""
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(wanted)


class VisionLanguageModel:
    """A loaded model. Not thread-safe: one thread uses it."""

    def __init__(self, folder: Path, device: str = "auto", images_kept: int = 8) -> None:
        """Load from ``folder``; ``JudgeError`` if that fails or it has no chat template."""
        self.device = device_of(device)
        dtype = torch.float32 if self.device.type == "cpu" else torch.bfloat16
        bar = transformers_logging.is_progress_bar_enabled()
        transformers_logging.disable_progress_bar()
        try:
            self.processor: Any = AutoProcessor.from_pretrained(folder, local_files_only=True)
            self.model: Any = AutoModelForImageTextToText.from_pretrained(
                folder, local_files_only=True, dtype=dtype
            )
            self.model.to(self.device).eval()
        except Exception as error:
            raise JudgeError(
                f"{folder} could not be loaded with transformers {transformers.__version__} as an "
                f"image-text-to-text model on {self.device}: {error}"
            ) from error
        finally:
            if bar:
                transformers_logging.enable_progress_bar()
        self.tokenizer: Any = getattr(self.processor, "tokenizer", None)
        if self.tokenizer is None or not getattr(self.processor, "chat_template", None):
            raise JudgeError(
                f"{folder} has no tokenizer with a chat template: use an instruction-tuned model"
            )
        self.tokenizer.padding_side = "left"
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        added = [str(token) for token in self.tokenizer.get_added_vocab()]
        tokens = {*self.tokenizer.all_special_tokens, *added}
        self.special = tuple(sorted((t for t in tokens if t.strip()), key=len, reverse=True))
        takes = inspect.signature(self.model.forward).parameters
        self._keeps_logits = "logits_to_keep" in takes
        self._shares = "mm_encoder_outputs" in takes and hasattr(self.model, "get_image_features")
        self._images_kept = images_kept
        self._features: OrderedDict[str, BaseModelOutputWithPooling] = OrderedDict()
        self._known_labels: dict[str, set[int]] = {}
        self.images_encoded = 0
        """How often the vision tower ran for shared features."""

    def clean(self, text: str) -> str:
        """``text`` as mere letters: see :func:`neutralise`."""
        return neutralise(text, self.special)

    def score(
        self,
        image: Image.Image,
        texts: Sequence[str],
        labels: Sequence[Sequence[str]],
        batch: int = 16,
        stopped: Callable[[], bool] = lambda: False,
        turn: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> list[LabelScores]:
        """Probabilities of ``labels[i]`` as the answer to ``texts[i]`` about ``image`` (RGB).

        The image goes through the vision tower once for all texts where the model takes
        features from outside; else with every text. ``stopped`` is asked between batches:
        once true, the rest is left out of the result. Each batch is computed in a ``turn``.
        """
        return self.score_pairs([image] * len(texts), texts, labels, batch, stopped, turn)

    def score_pairs(
        self,
        images: Sequence[Image.Image],
        texts: Sequence[str],
        labels: Sequence[Sequence[str]],
        batch: int = 16,
        stopped: Callable[[], bool] = lambda: False,
        turn: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> list[LabelScores]:
        """As :meth:`score`, of ``texts[i]`` about ``images[i]`` (RGB, all of one size).

        Questions about one image stand next to each other, and its object is the same in each.
        """
        scores: list[LabelScores] = []
        for start in range(0, len(texts), batch):
            if stopped():
                break
            part = slice(start, start + batch)
            with turn():
                logits, lengths = self._next_token_logits(images[part], texts[part])
                chances = logits.float().softmax(-1).cpu()
            for row, length, names in zip(chances, lengths, labels[part], strict=True):
                scores.append(self._read(row, names, length))
        return scores

    def _read(self, row: torch.Tensor, labels: Sequence[str], tokens: int) -> LabelScores:
        ids = [self._label_ids(label) for label in labels]
        bare = [label for label, found in zip(labels, ids, strict=True) if not found]
        if bare:
            return LabelScores((), f"the tokenizer has no single token for {bare}", tokens)
        if len(set().union(*ids)) < sum(len(found) for found in ids):
            return LabelScores((), f"the labels {list(labels)} share a token", tokens)
        masses = [float(row[sorted(found)].sum()) for found in ids]
        total = sum(masses)
        if not total >= MIN_MASS:
            return LabelScores(
                (),
                f"only {total:.2g} of the next token's probability lies on {list(labels)}: "
                "the model does not answer in the asked form",
                tokens,
            )
        return LabelScores(tuple(mass / total for mass in masses), "", tokens)

    def _label_ids(self, label: str) -> set[int]:
        """Tokens that begin an answer with ``label``: also capitalised, also after a space."""
        if label in self._known_labels:
            return self._known_labels[label]
        spellings = {label}
        if len(label) > 1:
            spellings |= {label.capitalize(), label.upper()}
        found: set[int] = set()
        for spelling in spellings | {f" {s}" for s in spellings}:
            ids = self.tokenizer.encode(spelling, add_special_tokens=False)
            if ids and self.tokenizer.decode(ids[:1]).strip() == spelling.strip():
                found.add(int(ids[0]))
        self._known_labels[label] = found
        return found

    def _inputs(self, image: Image.Image, texts: Sequence[str]) -> Any:
        return self._paired([image] * len(texts), texts)

    def _paired(self, images: Sequence[Image.Image], texts: Sequence[str]) -> Any:
        framed = [
            self.processor.apply_chat_template(
                [
                    {
                        "role": "user",
                        "content": [{"type": "image"}, {"type": "text", "text": text}],
                    }
                ],
                add_generation_prompt=True,
            )
            for text in texts
        ]
        return self.processor(
            text=framed, images=[[image] for image in images], padding=True, return_tensors="pt"
        ).to(self.device)

    @torch.inference_mode()
    def _next_token_logits(
        self, images: Sequence[Image.Image], texts: Sequence[str]
    ) -> tuple[torch.Tensor, list[int]]:
        inputs = dict(self._paired(images, texts))
        lengths: list[int] = inputs["attention_mask"].sum(-1).tolist()
        extra: dict[str, Any] = {"use_cache": False}
        if self._keeps_logits:
            extra["logits_to_keep"] = 1
        if self._shares:
            features = self._features_of(images, texts)
            if features is not None:
                text_inputs = {k: v for k, v in inputs.items() if not k.startswith("pixel_")}
                shared = {"image": features}
                out = self.model(**text_inputs, **extra, mm_encoder_outputs=shared)
                return out.logits[:, -1], lengths
        return self.model(**inputs, **extra).logits[:, -1], lengths

    def _features_of(
        self, images: Sequence[Image.Image], texts: Sequence[str]
    ) -> BaseModelOutputWithPooling | None:
        """Features of all ``images``, one after the other; none if they are not shareable."""
        found: list[BaseModelOutputWithPooling] = []
        at = 0
        while at < len(images):
            times = 1
            while at + times < len(images) and images[at + times] is images[at]:
                times += 1
            features = self._image_features(images[at], texts[at])
            if features is None:
                return None
            found.append(_repeated(features, times))
            at += times
        return found[0] if len(found) == 1 else _joined(found)

    def _image_features(self, image: Image.Image, text: str) -> BaseModelOutputWithPooling | None:
        """Features of one image, from the few kept ones if it was seen; none if not shareable."""
        key = hashlib.sha256(f"{image.mode}{image.size}".encode() + image.tobytes()).hexdigest()
        if key in self._features:
            self._features.move_to_end(key)
            return self._features[key]
        takes = inspect.signature(self.model.get_image_features).parameters
        single = self._inputs(image, [text])
        features = self.model.get_image_features(
            **{k: v for k, v in single.items() if k in takes and k != "input_ids"},
            return_dict=True,
        )
        self.images_encoded += 1
        pooled = getattr(features, "pooler_output", None)
        if (
            pooled is None
            or not {k for k, v in features.items() if v is not None} <= _SPARE_OUTPUTS
        ):
            self._shares = False
            return None
        kept = BaseModelOutputWithPooling(pooler_output=pooled)
        self._features[key] = kept
        while len(self._features) > self._images_kept:
            self._features.popitem(last=False)
        return kept


def _repeated(features: BaseModelOutputWithPooling, times: int) -> BaseModelOutputWithPooling:
    """The features of one image as those of ``times`` equal images."""
    pooled: Any = features.pooler_output
    if isinstance(pooled, torch.Tensor):
        repeated: Any = pooled.repeat(times, *([1] * (pooled.dim() - 1)))
    else:
        repeated = list(pooled) * times
    return BaseModelOutputWithPooling(pooler_output=repeated)


def _joined(parts: Sequence[BaseModelOutputWithPooling]) -> BaseModelOutputWithPooling:
    """The features of several images of one size as those of all of them in a row."""
    pooled: list[Any] = [part.pooler_output for part in parts]
    joined: Any
    if all(isinstance(one, torch.Tensor) for one in pooled):
        joined = torch.cat(pooled)
    else:
        joined = [feature for one in pooled for feature in one]
    return BaseModelOutputWithPooling(pooler_output=joined)
