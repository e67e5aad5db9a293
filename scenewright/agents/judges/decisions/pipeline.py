"""transformers' ``DecisionPipeline`` over a model on this machine: typed questions about a picture,
answered in System One's form.

A model with a decision head scores the options itself; any other vision-language model answers by
the next-token logits of their labels. Those are raw: a calibration fits their temperature.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import torch
from PIL import Image
from transformers.decision import DecisionConfig
from transformers.decision.modeling_utils import DecisionMixin
from transformers.pipelines.decision import DecisionPipeline

from scenewright.agents.judges.calling import spread
from scenewright.agents.judges.decisions.asking import Question
from scenewright.agents.judges.decisions.maps import picture_name, put
from scenewright.agents.judges.features import PictureFeatures
from scenewright.agents.judges.loading import load_model, on_device
from scenewright.config.profiles import LocalJudgeSpec
from scenewright.core.ports.judge import JudgeError


@dataclass(frozen=True, slots=True)
class LocalAnswer:
    """What a model says to one question."""

    answer: Mapping[str, Any] | None = None
    """The answer in System One's form; None: see ``reason``."""
    reason: str = ""
    """Why there is none."""
    tokens: int = 0
    """Tokens of its prompt, those of the picture included."""
    mass: float | None = None
    """Probability of all labels together; None: a decision head, which has no other answers."""


class DecisionModel:
    """A loaded model. Not thread-safe: one thread uses it.

    Every question is a forward pass of its own. The picture goes through the vision tower once for
    all of them where the model takes features from outside; with a decision head it goes through
    with every question.
    """

    def __init__(
        self,
        folder: Path,
        device: torch.device,
        config: Path | None = None,
        images_kept: int = 8,
        how: LocalJudgeSpec | None = None,
    ) -> None:
        """Load from ``folder``; ``config``: a decision config in place of the folder's own.

        ``how``: number format and place of the weights. Raises ``JudgeError`` if that fails.
        """
        how = how or LocalJudgeSpec()
        loaded = load_model(folder, device, how, decides=True)
        self._waits = how.offload
        # A model that was put in place while it was loaded cannot be given a place again.
        placed = getattr(loaded.model, "hf_device_map", None) is not None
        self._head = isinstance(loaded.model, DecisionMixin)
        self._features = PictureFeatures(loaded.model, images_kept)
        try:
            if config is not None:
                settings = DecisionConfig.from_file(config)
            elif self._head:
                settings = loaded.model.decision_config
            else:
                settings = DecisionConfig.from_pretrained(folder, local_files_only=True)
            self._pipeline: Any = DecisionPipeline(
                model=loaded.model,
                tokenizer=loaded.tokenizer,
                processor=loaded.processor,
                device=None if placed else loaded.model.device,
                decision_config=settings,
            )
            # Where it computes, though its weights may wait elsewhere.
            self._pipeline.device = device
        except Exception as error:
            raise JudgeError(f"{folder} cannot be asked typed questions: {error}") from error

    @property
    def images_encoded(self) -> int:
        """How often the vision tower ran for shared features."""
        return self._features.encoded

    def ask(
        self,
        image: Image.Image,
        questions: Sequence[Question],
        stopped: Callable[[], bool] = lambda: False,
        turn: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> dict[str, LocalAnswer]:
        """The answers to ``questions`` about ``image`` (RGB), by their names.

        ``stopped`` is asked before each forward pass: once true, the rest is left out of the
        result. Each pass is computed in a ``turn``.
        """
        found: dict[str, LocalAnswer] = {}
        asked: dict[str, dict[str, Any]] = {}
        for question in questions:
            reason = self._problem(question)
            if reason:
                found[question.name] = LocalAnswer(reason=reason)
            else:
                asked[question.name] = put(question)
        if not asked:
            return found
        digest = hashlib.sha256(image.tobytes()).hexdigest()
        name = picture_name(digest, json.dumps(asked, ensure_ascii=False))
        request = {"state": name, "assets": {name: image}, "questions": asked}
        for inputs, group in self._pipeline.preprocess(request)["prompts"]:
            if stopped():
                break
            with turn(), on_device(self._pipeline.model, self._pipeline.device, self._waits):
                found |= self._answers(image, inputs, group)
        return found

    def _problem(self, question: Question) -> str:
        """Why ``question`` cannot be asked; empty if it can."""
        config = self._pipeline.decision_config
        yes_no = question.kind == "yes_no"
        kind = "noul" if yes_no else question.kind
        labels = config.labels.get(kind) or (("Yes", "No") if yes_no else tuple(ascii_uppercase))
        count = len(question.options)
        if count > len(labels):
            return f"{count} options: this model tells at most {len(labels)} apart"
        if not self._head:
            try:
                self._pipeline.label_token_ids(tuple(labels[:count]))
            except ValueError as error:
                return str(error)
        return ""

    def _answers(
        self, image: Image.Image, inputs: dict[str, Any], group: Sequence[Any]
    ) -> dict[str, LocalAnswer]:
        """The answers to the questions of one prompt."""
        tokens = spread(int(inputs["input_ids"].shape[-1]), len(group))
        with self._logits() as logits:
            scored = self._pipeline.forward({"prompts": [(self._shared(image, inputs), group)]})
        answers = self._pipeline.postprocess(scored)
        return {
            one.name: LocalAnswer(
                answers[one.name], tokens=tokens[at], mass=self._mass(logits, at, one.labels)
            )
            for at, one in enumerate(group)
        }

    @torch.inference_mode()
    def _shared(self, image: Image.Image, inputs: dict[str, Any]) -> dict[str, Any]:
        """``inputs`` with the features of the picture in place of its pixels, if it can be."""
        if self._head:
            return inputs
        device = self._pipeline.device
        features = self._features.of(
            [image], lambda _: {k: v.to(device) for k, v in inputs.items() if hasattr(v, "to")}
        )
        if features is None:
            return inputs
        rest = {k: v for k, v in inputs.items() if not k.startswith("pixel_")}
        return {**rest, "mm_encoder_outputs": {"image": features}}

    @contextmanager
    def _logits(self) -> Iterator[list[torch.Tensor]]:
        """Collects the next-token logits of a forward pass, one row a question."""
        seen: list[torch.Tensor] = []

        def see(_module: Any, _args: Any, output: Any) -> None:
            if not self._head:
                seen.extend(output.logits[0])

        handle = self._pipeline.model.register_forward_hook(see)
        try:
            yield seen
        finally:
            handle.remove()

    def _mass(self, logits: Sequence[torch.Tensor], at: int, labels: Sequence[str]) -> float | None:
        if self._head:
            return None
        ids = self._pipeline.label_token_ids(tuple(labels))
        return float(logits[at].float().softmax(-1)[ids].sum())
