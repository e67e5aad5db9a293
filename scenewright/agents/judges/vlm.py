"""Vision-language models of transformers as scorers: image + questions → label probabilities.

The probability of a label is read from the next-token distribution where the answer would begin:
after one forward pass, or, for a thinking model, after its thinking. Image features from the
model's vision tower are computed once for many questions.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from PIL import Image
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

from scenewright.agents.judges.families import Family
from scenewright.agents.judges.loading import load_model, on_device
from scenewright.agents.judges.reading import MIN_MASS, FactReading, of_shares, off_labels
from scenewright.config.profiles import LocalJudgeSpec
from scenewright.core.facts import Fact
from scenewright.core.ports.judge import JudgeError
from scenewright.providers.hub.cache import PULL, about, survey
from scenewright.providers.hub.needs import HUB_ID, Need

# Outputs of vision towers besides the features, which a model may use later.
_SPARE_OUTPUTS = {
    *("last_hidden_state", "pooler_output", "hidden_states", "attentions"),
    *("intermediate_activations", "reshaped_hidden_states"),
}
_POOLED, _DEEP = "pooler_output", "deepstack_features"


class PictureFeatures:
    """Image features of the latest pictures, in the form that the model accepts.

    ``kept``: most pictures whose features stay.
    """

    def __init__(self, model: Any, kept: int) -> None:
        # The inner model names its arguments, the outer one of some families does not.
        self._encode: Any = getattr(model.base_model, "get_image_features", None)
        self._kept = kept
        self._features: OrderedDict[str, Any] = OrderedDict()
        takes = inspect.signature(model.forward).parameters
        self.shared = "mm_encoder_outputs" in takes and self._encode is not None
        """Whether the model accepts features."""
        self.encoded = 0
        """Number of runs of the vision tower for shared features."""

    def put_in(
        self,
        inputs: dict[str, Any],
        image: Image.Image,
        alone: Callable[[], Mapping[str, Any]],
        times: int = 1,
    ) -> dict[str, Any]:
        """Return the model's ``inputs`` with the features of ``image`` in place of pixels.

        Unchanged where the model does not accept them. ``alone`` gives the model's input of the
        image with one question, ``times`` is how many the ``inputs`` have.
        """
        features = self._encoded(image, alone) if self.shared else None
        if features is None:
            return inputs
        if times > 1:
            # As of a batch.
            row = {_POOLED: _repeat(features[_POOLED], times)}
            if _DEEP in features:
                row[_DEEP] = [_repeat(layer, times) for layer in features[_DEEP]]
            features = type(features)(**row)
        rest = {k: v for k, v in inputs.items() if not k.startswith("pixel_")}
        return {**rest, "mm_encoder_outputs": {"image": features}}

    def _encoded(self, image: Image.Image, alone: Callable[[], Mapping[str, Any]]) -> Any | None:
        """Return the features of an image, cached if possible; None if not shareable."""
        key = hashlib.sha256(f"{image.mode}{image.size}".encode() + image.tobytes()).hexdigest()
        if key in self._features:
            self._features.move_to_end(key)
            return self._features[key]
        takes = inspect.signature(self._encode).parameters
        features = self._encode(
            **{k: v for k, v in alone().items() if k in takes and k != "input_ids"},
            return_dict=True,
        )
        self.encoded += 1
        given = {name for name, value in features.items() if value is not None}
        if _POOLED not in given or not given <= {*_SPARE_OUTPUTS, _DEEP}:
            self.shared = False
            return None
        kept = type(features)(**{k: features[k] for k in (_POOLED, _DEEP) if k in given})
        self._features[key] = kept
        while len(self._features) > self._kept:
            self._features.popitem(last=False)
        return kept


def _repeat(features: Any, times: int) -> Any:
    """Repeat a tensor along the first dimension, or a list."""
    if isinstance(features, torch.Tensor):
        return torch.cat([features] * times)
    return [*features] * times


Place = Literal["thinking", "leading", "answer"]
_TAIL = 16
"""Most tokens of a mark; the end of thinking is searched in these."""


class ReplyReader:
    """Reader of the logits of the answer's token, for models that may think before answering."""

    def __init__(self, model: Any, tokenizer: Any, family: Family, most: int) -> None:
        """``most``: most tokens of thinking; a longer one is given up."""
        self._model, self._tokenizer, self._family = model, tokenizer, family
        self._marks = tuple(mark for mark in (family.opens, *family.leads) if mark)
        self.thinks = bool(self._marks)
        """Whether text may precede the answer."""
        if self.thinks:
            # Greedy, without penalties: the repository's sampling settings are ignored.
            model.generation_config = GenerationConfig(
                do_sample=False,
                eos_token_id=model.generation_config.eos_token_id or tokenizer.eos_token_id,
                pad_token_id=tokenizer.pad_token_id,
                max_new_tokens=most,
            )

    def opened(self, prompt: str) -> bool:
        """Return whether ``prompt`` ends inside thinking: its template begins it."""
        opens, closes = self._family.opens, self._family.closes
        return bool(opens) and prompt.rfind(opens) > prompt.rfind(closes)

    def place(self, reply: str, token: int) -> Place:
        """Return the role of ``token`` after ``reply``, which has no thinking and no answer yet."""
        rest = (reply + self._decoded([token])).strip()
        while lead := next((lead for lead in self._family.leads if rest.startswith(lead)), ""):
            rest = rest[len(lead) :].strip()
        if rest and rest == self._family.opens:
            return "thinking"
        # An empty rest begins every mark.
        return "leading" if any(mark.startswith(rest) for mark in self._marks) else "answer"

    @torch.inference_mode()
    def read(
        self, inputs: Mapping[str, Any], opened: list[bool], stopped: Callable[[], bool]
    ) -> tuple[list[torch.Tensor | None], list[int]]:
        """Generate each reply up to its answer.

        ``inputs`` are those of the model, padded on the left; ``opened`` says which prompts end
        within thinking. Returns the logits of each answer's token (None: there was none within the
        bound, or ``stopped`` was true) and the number of tokens that stand before it.
        """
        prompt = inputs["input_ids"].shape[1]
        thinking, start = list(opened), [0] * len(opened)
        found: list[torch.Tensor | None] = [None] * len(opened)
        before = [0] * len(opened)

        def follow(row: int, tokens: list[int], logits: torch.Tensor) -> None:
            before[row] = len(tokens)
            if thinking[row]:
                last = self._decoded(tokens[max(start[row], len(tokens) - _TAIL) :])
                if self._family.closes not in last:
                    return
                thinking[row], start[row] = False, len(tokens)
            place = self.place(self._decoded(tokens[start[row] :]), int(logits.argmax()))
            if place == "answer":
                found[row] = logits.clone()
            elif place == "thinking":
                # The mark itself is the next token.
                thinking[row], start[row] = True, len(tokens) + 1

        def look(input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            for row, tokens in enumerate(input_ids[:, prompt:].tolist()):
                if found[row] is None:
                    follow(row, tokens, scores[row])
            return scores

        def done(input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
            every = stopped()
            finished = [every or logits is not None for logits in found]
            return torch.tensor(finished, device=input_ids.device)

        self._model.generate(
            **inputs,
            logits_processor=LogitsProcessorList([look]),
            stopping_criteria=StoppingCriteriaList([done]),
        )
        return found, before

    def _decoded(self, tokens: list[int]) -> str:
        return str(self._tokenizer.decode(tokens, skip_special_tokens=False))


_HASHED_WHOLE = 256 * 2**20
_HASHED_ENDS = 4 * 2**20


@dataclass(frozen=True, slots=True)
class LabelScores:
    """Label probabilities of one question."""

    probabilities: tuple[float, ...]
    """One per label, summing to 1; empty if the model gave nothing usable."""
    reason: str
    """Why there are none; else empty."""
    tokens: int
    """Tokens of the question, the image's included."""
    generated: int = 0
    """Tokens that the model wrote before its answer."""

    def reading(self, fact: Fact) -> FactReading:
        """Return the answer to ``fact``, whose options are those of the labels."""
        if not self.probabilities:
            return FactReading(reason=self.reason)
        shares = dict(zip(fact.options, self.probabilities, strict=True))
        return of_shares(fact, shares, "logprob")


def find_model(model: str | os.PathLike[str]) -> Path:
    """Return the local folder of ``model``: a folder, or a hub repository fetched earlier.

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
            f"`{PULL} local:{name}`, or give its folder"
        )
    return present.folder


def digest_folder(folder: Path) -> str:
    """Return the SHA-256 (hex) of the model's files: whole, or size and both ends beyond 256 MB."""
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
    """Return ``text`` with every special token of a tokenizer broken up into plain letters.

    A space goes between the first and second character of each occurrence; control
    characters become spaces. ``special`` may hold tokens that contain one another.
    """
    clean = "".join(c if c.isprintable() else " " for c in text)
    tokens = [token for token in special if len(token) > 1]
    while held := [token for token in tokens if token in clean]:
        for token in held:
            clean = clean.replace(token, f"{token[0]} {token[1:]}")
    return clean


def device_of(wanted: str) -> torch.device:
    """Return ``"auto"``: CUDA if there is one, else the CPU."""
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
        """Return ``text`` without special tokens; see :func:`neutralise`."""
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
        """Return probabilities of ``labels[i]`` as the answer to ``texts[i]`` about ``image``.

        The image is RGB. It goes through the vision tower once for all texts where the model
        accepts features, else with every text. ``stopped`` is asked between batches: once
        true, the rest is left out of the result. Each batch is computed in a ``turn``.
        """
        scores: list[LabelScores] = []
        for start in range(0, len(texts), batch):
            if stopped():
                break
            part = slice(start, start + batch)
            with turn(), on_device(self.model, self.device, self._waits):
                rows, lengths, before = self._replies(image, texts[part], stopped)
            if any(row is None for row in rows) and stopped():
                break
            for row, length, count, names in zip(rows, lengths, before, labels[part], strict=True):
                if row is None:
                    masses: list[float] = []
                    reason = (
                        f"no answer after {count} tokens of thinking: allow more of them "
                        "(thinking_tokens), or use a model that answers at once"
                    )
                else:
                    masses, reason = self._masses(row, names)
                shares = tuple(mass / sum(masses) for mass in masses)
                scores.append(LabelScores(shares, reason, length, count))
        return scores

    def _masses(self, logits: torch.Tensor, labels: Sequence[str]) -> tuple[list[float], str]:
        """Return the probability of each label; none, and the reason, if they are of no use."""
        ids = [self._label_ids(label) for label in labels]
        bare = [label for label, found in zip(labels, ids, strict=True) if not found]
        if bare:
            return [], f"the tokenizer has no single token for {bare}"
        if len(set().union(*ids)) < sum(map(len, ids)):
            return [], f"the labels {list(labels)} share a token"
        row = logits.float().softmax(-1)
        masses = [float(row[sorted(found)].sum()) for found in ids]
        if not sum(masses) >= MIN_MASS:
            return [], off_labels(sum(masses), str(list(labels)))
        return masses, ""

    def _label_ids(self, label: str) -> set[int]:
        """Return the tokens that begin an answer ``label``, also capitalised or after a space."""
        if label not in self._known_labels:
            spellings = {label} if len(label) == 1 else {label, label.capitalize(), label.upper()}
            found = self._known_labels[label] = set()
            for spelling in spellings | {f" {s}" for s in spellings}:
                ids = self.tokenizer.encode(spelling, add_special_tokens=False)
                if ids and self.tokenizer.decode(ids[:1]).strip() == spelling.strip():
                    found.add(int(ids[0]))
        return self._known_labels[label]

    def _framed(self, text: str) -> str:
        """Return the prompt of a question, with a placeholder of one picture."""
        content = [{"type": "image"}, {"type": "text", "text": text}]
        asked = [{"role": "user", "content": content}]
        put = self.processor.apply_chat_template
        return str(put(asked, add_generation_prompt=True, **self._template))

    def _processed(self, image: Image.Image, prompts: Sequence[str]) -> Any:
        bos = self.tokenizer.bos_token
        return self.processor(
            text=list(prompts),
            images=[[image]] * len(prompts),
            padding=True,
            return_tensors="pt",
            # Where the template begins with it, the tokenizer would write it a second time.
            add_special_tokens=not (bos and prompts[0].startswith(bos)),
        ).to(self.device, self.model.dtype)

    @torch.inference_mode()
    def _replies(
        self, image: Image.Image, texts: Sequence[str], stopped: Callable[[], bool]
    ) -> tuple[list[torch.Tensor | None], list[int], list[int]]:
        """Return the logits of each answer's first token, and the tokens of prompts and thinking.

        The logits are None where there was no answer.
        """
        prompts = [self._framed(text) for text in texts]
        # Picture features stand in place of pixels where the model accepts them.
        inputs = self.features.put_in(
            dict(self._processed(image, prompts)),
            image,
            lambda: self._processed(image, prompts[:1]),
            len(prompts),
        )
        lengths = inputs["attention_mask"].sum(-1).tolist()
        if self.replies.thinks:
            opened = [self.replies.opened(prompt) for prompt in prompts]
            found, before = self.replies.read(inputs, opened, stopped)
            return [None if row is None else row.cpu() for row in found], lengths, before
        extra = {"logits_to_keep": 1} if self._keeps_logits else {}
        logits = self.model(**inputs, use_cache=False, **extra).logits[:, -1].cpu()
        return list(logits), lengths, [0] * len(prompts)
