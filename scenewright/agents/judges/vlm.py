"""Any transformers vision-language model as a scorer: image + questions → probabilities of labels.

The probability of a label is read from the next-token distribution where the answer would begin:
after one forward pass, or, with a model that thinks first, where its thinking has ended.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from scenewright.agents.judges.features import PictureFeatures
from scenewright.agents.judges.loading import load_model, on_device
from scenewright.agents.judges.logprobs import MIN_MASS
from scenewright.agents.judges.replies import ReplyReader
from scenewright.config.profiles import LocalJudgeSpec
from scenewright.core.ports.judge import JudgeError
from scenewright.providers.hub.cache import PULL, about, survey
from scenewright.providers.hub.needs import HUB_ID, Need

_HASHED_WHOLE = 256 * 2**20
_HASHED_ENDS = 4 * 2**20


@dataclass(frozen=True, slots=True)
class LabelScores:
    """How a model answers one question."""

    probabilities: tuple[float, ...]
    """One a label, summing to 1; empty if the model gave nothing usable."""
    reason: str
    """Why there are none; empty if there are."""
    tokens: int
    """Tokens of the question, the image's included."""
    generated: int = 0
    """Tokens that the model wrote before its answer."""


@dataclass(frozen=True, slots=True)
class _Reply:
    """The place in a reply where its answer begins."""

    logits: torch.Tensor | None
    """Of the answer's first token; None if there was no answer."""
    length: int
    """Tokens of the prompt."""
    before: int
    """Tokens that were generated before."""

    @property
    def first(self) -> int:
        """The most probable token."""
        assert self.logits is not None
        return int(self.logits.argmax())


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

    def __init__(
        self,
        folder: Path,
        device: str = "auto",
        images_kept: int = 8,
        how: LocalJudgeSpec | None = None,
    ) -> None:
        """Load from ``folder``; ``JudgeError`` if that fails or it has no chat template."""
        how = how or LocalJudgeSpec()
        self.device = device_of(device)
        loaded = load_model(folder, self.device, how)
        self.model, self.processor = loaded.model, loaded.processor
        self.tokenizer, self.family = loaded.tokenizer, loaded.family
        added = [str(token) for token in self.tokenizer.get_added_vocab()]
        tokens = {*self.tokenizer.all_special_tokens, *added}
        self.special = tuple(sorted((t for t in tokens if t.strip()), key=len, reverse=True))
        takes = inspect.signature(self.model.forward).parameters
        self._keeps_logits = "logits_to_keep" in takes
        self.features = PictureFeatures(self.model, images_kept)
        self.replies = ReplyReader(self.model, self.tokenizer, self.family, how.thinking_tokens)
        self._waits = how.offload
        # A template warns of arguments that it does not know.
        known = str(self.processor.chat_template)
        self._template = {k: v for k, v in self.family.template.items() if k in known}
        self._known_labels: dict[str, set[int]] = {}

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
            with turn(), on_device(self.model, self.device, self._waits):
                replies = self._replies(images[part], texts[part], stopped)
            if any(reply.logits is None for reply in replies) and stopped():
                break
            for reply, names in zip(replies, labels[part], strict=True):
                scores.append(replace(self._read(reply, names), generated=reply.before))
        return scores

    def _read(self, reply: _Reply, labels: Sequence[str]) -> LabelScores:
        tokens = reply.length
        if reply.logits is None:
            return LabelScores(
                (),
                f"no answer after {reply.before} tokens of thinking: allow more of them "
                "(thinking_tokens), or use a model that answers at once",
                tokens,
            )
        row = reply.logits.float().softmax(-1)
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

    def _framed(self, text: str) -> str:
        """The prompt of a question, with a placeholder of one picture."""
        return str(
            self.processor.apply_chat_template(
                [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": text}]}],
                add_generation_prompt=True,
                **self._template,
            )
        )

    def _processed(self, images: Sequence[Image.Image], prompts: Sequence[str]) -> Any:
        bos = self.tokenizer.bos_token
        return self.processor(
            text=list(prompts),
            images=[[image] for image in images],
            padding=True,
            return_tensors="pt",
            # Where the template begins with it, the tokenizer would write it a second time.
            add_special_tokens=not (bos and prompts[0].startswith(bos)),
        ).to(self.device)

    @torch.inference_mode()
    def _replies(
        self, images: Sequence[Image.Image], texts: Sequence[str], stopped: Callable[[], bool]
    ) -> list[_Reply]:
        """Where the answer to each question begins, and how its first token is distributed."""
        prompts = [self._framed(text) for text in texts]
        inputs = self._with_features(images, prompts)
        lengths = inputs["attention_mask"].sum(-1).tolist()
        opened = [self.replies.opened(prompt) for prompt in prompts]
        replies = [_Reply(None, length, 0) for length in lengths]
        if not all(opened):
            extra = {"logits_to_keep": 1} if self._keeps_logits else {}
            logits = self.model(**inputs, use_cache=False, **extra).logits[:, -1].cpu()
            replies = [_Reply(row, len_, 0) for row, len_ in zip(logits, lengths, strict=True)]
        late = [
            at
            for at, reply in enumerate(replies)
            if opened[at] or reply.logits is None or not self.replies.begins(reply.first)
        ]
        if late:
            if len(late) < len(prompts):
                inputs = self._with_features(
                    [images[at] for at in late], [prompts[at] for at in late]
                )
            found, before = self.replies.read(inputs, [opened[at] for at in late], stopped)
            for at, row, count in zip(late, found, before, strict=True):
                kept = None if row is None else row.cpu()
                replies[at] = _Reply(kept, lengths[at], count)
        return replies

    def _with_features(
        self, images: Sequence[Image.Image], prompts: Sequence[str]
    ) -> dict[str, Any]:
        """The model's input, with the pictures' features in place of their pixels where it can."""
        inputs = dict(self._processed(images, prompts))
        features = self.features.of(images, lambda at: self._processed([images[at]], [prompts[at]]))
        if features is not None:
            inputs = {k: v for k, v in inputs.items() if not k.startswith("pixel_")}
            inputs["mm_encoder_outputs"] = {"image": features}
        return inputs
