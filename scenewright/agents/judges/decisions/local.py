"""Local judges that answer typed questions, by transformers' ``DecisionPipeline``.

Any vision-language model of transformers, or one with a decision head, by name or by folder. A
decision head scores the options itself; any other model answers by the next-token logits of their
labels. Those are raw: a calibration fits their temperature. Answers have System One's form.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import torch
import transformers
from PIL import Image
from transformers.decision import DecisionConfig
from transformers.decision.modeling_utils import DecisionMixin
from transformers.pipelines.decision import DecisionPipeline

from scenewright.agents.judges.calling import spread
from scenewright.agents.judges.decisions.asking import (
    ASKING,
    DECISION_PROMPT,
    Orders,
    Question,
    problem_of,
    sheet_of,
)
from scenewright.agents.judges.decisions.reading import (
    READING,
    Decided,
    decide,
    fact_parts,
    parse_json,
    picture_name,
    put,
    raws_of,
    weighed,
)
from scenewright.agents.judges.loading import load_model, on_device
from scenewright.agents.judges.local import AskedFact, LocalJudge
from scenewright.agents.judges.pictures import shrink
from scenewright.agents.judges.reading import FactReading
from scenewright.agents.judges.vlm import PictureFeatures, device_of, digest_folder
from scenewright.config.accounts import DECISION_KIND
from scenewright.config.profiles import LocalJudgeSpec
from scenewright.core.error_text import error_text
from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import JudgeError, unscored
from scenewright.prompts import load_prompt
from scenewright.providers.device_gate import Stop


@dataclass(frozen=True, slots=True)
class LocalAnswer:
    """A model's answer to one question."""

    answer: Mapping[str, Any] | None = None
    """The answer in System One's form; None: see ``reason``."""
    reason: str = ""
    """Why there is no answer."""
    tokens: int = 0
    """Tokens of its prompt, those of the picture included."""
    mass: float | None = None
    """Joint probability of all labels; None: a decision head, which has no other answers."""


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
        """Number of runs of the vision tower for shared features."""
        return self._features.encoded

    @property
    def network(self) -> torch.nn.Module:
        """The model itself."""
        found: torch.nn.Module = self._pipeline.model
        return found

    def ask(
        self,
        image: Image.Image,
        questions: Sequence[Question],
        stopped: Callable[[], bool] = lambda: False,
        turn: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> dict[str, LocalAnswer]:
        """Return the answers to ``questions`` about ``image`` (RGB), by their names.

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
        """Return why ``question`` cannot be asked; empty if it can."""
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
        """Return the answers to the questions of one prompt."""
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
        """Return ``inputs`` with picture features in place of pixels, where the model allows it."""
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
        """Collect the next-token logits of a forward pass, one row a question."""
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


LOCAL = "local"
"""Account name of these judges: ``decision:local/MODEL``."""


class LocalDecisionJudge(LocalJudge):
    """Implements :class:`~scenewright.core.ports.judge.Judge`.

    Its probabilities are those that ``transformers serve`` gives of the same model. Every question
    is a forward pass of its own (see :class:`~.pipeline.DecisionModel`).
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        name: str | None = None,
        config: Path | None = None,
        orders: Orders = 1,
        device: str = "auto",
        max_side: int = 1024,
        images_kept: int = 8,
        how: LocalJudgeSpec | None = None,
    ) -> None:
        """Initialise as :class:`LocalJudge`.

        ``config``: a file with a decision config, in place of that in the model's folder.
        ``orders``: with 2 a choice is asked in both orders of its options.
        """
        super().__init__(
            model, name=name, device=device, max_side=max_side, images_kept=images_kept, how=how
        )
        self._config = config
        self._orders = orders
        self._caps = replace(self._caps, probability="decision")

    @property
    def id(self) -> str:
        """``decision:local/`` and the name."""
        return f"{DECISION_KIND}:{LOCAL}/{self._name}"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of weights, prompt, library versions and the settings that matter."""
        parts = [
            DECISION_KIND,
            digest_folder(self._folder),
            None if self._config is None else self._config.read_text(encoding="utf-8"),
            load_prompt(DECISION_PROMPT).hash,
            transformers.__version__,
            torch.__version__,
            self._device,
            self._caps.max_side,
            self._orders,
            ASKING,
            READING,
            *([self.loading] if self.loading else []),
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _modules(self) -> list[torch.nn.Module]:
        return [self._model.network]

    def _make(self) -> DecisionModel:
        device = device_of(self._device)
        return DecisionModel(self._folder, device, self._config, self._images_kept, self._how)

    def _answer(self, image: Image.Image, facts: tuple[Fact, ...], stop: Stop) -> list[Answer]:
        """Run in the worker thread."""
        started = time.perf_counter()
        puts = [self._put(fact) for fact in facts]
        problems = [problem_of(put.asked, len(put.asked.options)) for put in puts]
        asked = [put.asked for put, problem in zip(puts, problems, strict=True) if not problem]
        sheet = sheet_of(asked, self._orders)
        try:
            model: DecisionModel = self._loaded(stop)
            gate = self._gate
            found = model.ask(
                shrink(image, self._caps.max_side),
                sheet.questions,
                stop.is_set,
                lambda: gate.turn(stop),
            )
        except Exception as error:
            # A failing judge must not stop the others: its failure is recorded.
            return unscored(self.id, facts, error_text(error))
        seconds = (time.perf_counter() - started) / len(facts)
        given = [found.get(question.name, _CANCELLED) for question in sheet.questions]
        decided = [_decided(*pair) for pair in zip(sheet.questions, given, strict=True)]
        tokens = [0] * len(asked)
        for one, at in zip(given, sheet.of, strict=True):
            tokens[at] += one.tokens
        read = iter(zip(fact_parts(decided, sheet), tokens, strict=True))
        return [
            self._written(
                put, *((FactReading(reason=problem), 0) if problem else next(read)), seconds
            )
            for put, problem in zip(puts, problems, strict=True)
        ]

    def _answer_many(
        self, asked: Sequence[tuple[Image.Image, tuple[Fact, ...]]], stop: Stop
    ) -> list[list[Answer]]:
        """Run in the worker thread."""
        return [self._answer(image, facts, stop) if facts else [] for image, facts in asked]

    def _written(self, put: AskedFact, part: FactReading, tokens: int, seconds: float) -> Answer:
        shares = part.distribution
        return Answer(
            fact_id=put.fact.id,
            judge_id=self.id,
            state=part.state(put.asked),
            choice=None if part.choice is None else put.choice(part.choice),
            probability=part.probability,
            distribution=shares and {put.named(option): p for option, p in shares.items()},
            method=part.method,
            reason=part.reason,
            tokens_in=tokens,
            seconds=seconds,
            model=f"{self._name}:{self.fingerprint[:12]}",
            prompt_id=load_prompt(DECISION_PROMPT).ref,
        )


_CANCELLED = LocalAnswer(reason="cancelled")


def _decided(question: Question, given: LocalAnswer) -> Decided:
    if given.answer is None:
        return Decided(reason=given.reason)
    # Converted to a server's reply text, so that both are read the same way.
    (raw,) = raws_of(parse_json(json.dumps({question.name: given.answer})))
    return weighed(decide(question, raw), given.mass)
