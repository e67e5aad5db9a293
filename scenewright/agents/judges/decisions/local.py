"""Local judges that answer typed questions, by transformers' ``DecisionPipeline``.

Any vision-language model of transformers, or one with a decision head, by name or by folder. A
decision head scores the options itself; any other model answers by the next-token logits of their
labels. Those are raw: a calibration fits their temperature. Answers have System One's form.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from string import ascii_uppercase
from typing import Any, NamedTuple

import torch
import transformers
from PIL import Image
from transformers.decision import DecisionConfig
from transformers.decision.modeling_utils import DecisionMixin
from transformers.pipelines.decision import DecisionPipeline

from scenewright.agents.judges.decisions.judge import picture_name, put
from scenewright.agents.judges.decisions.questions import (
    ASKING,
    DECISION_PROMPT,
    READING,
    Decided,
    Question,
    decide,
    fact_parts,
    parse_json,
    problem_of,
    sheet_of,
    weighed,
)
from scenewright.agents.judges.loading import load_model, on_device
from scenewright.agents.judges.local import LocalJudge, LocalReading
from scenewright.agents.judges.reading import FactReading
from scenewright.agents.judges.vlm import PictureFeatures, device_of, digest_folder
from scenewright.config.accounts import DECISION_KIND
from scenewright.config.profiles import LocalJudgeSpec
from scenewright.core.facts import Fact
from scenewright.core.ports.judge import JudgeError
from scenewright.prompts import load_prompt
from scenewright.providers.device_gate import Stop
from scenewright.providers.judge_calls import spread


class LocalAnswer(NamedTuple):
    """A model's answer to one question."""

    decided: Decided
    """Probabilities of its options."""
    tokens: int = 0
    """Tokens of its prompt, those of the picture included."""


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
        self.model = loaded.model
        """The network itself."""
        self._waits = how.offload
        # A model that was put in place while it was loaded cannot be given a place again.
        placed = getattr(self.model, "hf_device_map", None) is not None
        self._head = isinstance(self.model, DecisionMixin)
        self.features = PictureFeatures(self.model, images_kept)
        try:
            if config is not None:
                settings = DecisionConfig.from_file(config)
            elif self._head:
                settings = self.model.decision_config
            else:
                settings = DecisionConfig.from_pretrained(folder, local_files_only=True)
            self._pipeline: Any = DecisionPipeline(
                model=self.model,
                tokenizer=loaded.tokenizer,
                processor=loaded.processor,
                device=None if placed else self.model.device,
                decision_config=settings,
            )
            # Where it computes, though its weights may wait elsewhere.
            self._pipeline.device = device
        except Exception as error:
            raise JudgeError(f"{folder} cannot be asked typed questions: {error}") from error

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
        asked: dict[str, Question] = {}
        for question in questions:
            if reason := self._problem(question):
                found[question.name] = LocalAnswer(Decided(reason=reason))
            else:
                asked[question.name] = question
        if not asked:
            return found
        wired = {name: put(question) for name, question in asked.items()}
        digest = hashlib.sha256(image.tobytes()).hexdigest()
        name = picture_name(digest, json.dumps(wired, ensure_ascii=False))
        request = {"state": name, "assets": {name: image}, "questions": wired}
        for inputs, group in self._pipeline.preprocess(request)["prompts"]:
            if stopped():
                break
            with turn(), on_device(self.model, self._pipeline.device, self._waits):
                found |= self._answers(image, inputs, group, asked)
        return found

    def _problem(self, question: Question) -> str:
        """Return why ``question`` cannot be asked; empty if it can."""
        yes_no = question.kind == "yes_no"
        labels = self._pipeline.decision_config.labels.get("noul" if yes_no else question.kind)
        labels = labels or (("Yes", "No") if yes_no else tuple(ascii_uppercase))
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
        self,
        image: Image.Image,
        inputs: dict[str, Any],
        group: Sequence[Any],
        asked: Mapping[str, Question],
    ) -> dict[str, LocalAnswer]:
        """Return the answers to the questions of one prompt."""
        tokens = spread(int(inputs["input_ids"].shape[-1]), len(group))
        # The next-token logits, one row a question; a decision head has no other answers.
        logits: list[torch.Tensor] = []
        if not self._head:
            device, given = self._pipeline.device, inputs
            with torch.inference_mode():
                inputs = self.features.put_in(
                    given,
                    image,
                    lambda: {k: v.to(device) for k, v in given.items() if hasattr(v, "to")},
                )

        def see(_module: Any, _args: Any, output: Any) -> None:
            if not self._head:
                logits.extend(output.logits[0])

        handle = self.model.register_forward_hook(see)
        try:
            scored = self._pipeline.forward({"prompts": [(inputs, group)]})
        finally:
            handle.remove()
        answers = self._pipeline.postprocess(scored)
        found: dict[str, LocalAnswer] = {}
        for at, one in enumerate(group):
            # Converted to a server's reply text, so that both are read the same way.
            decided = decide(asked[one.name], parse_json(json.dumps(answers[one.name])))
            if not self._head:
                ids = self._pipeline.label_token_ids(tuple(one.labels))
                decided = weighed(decided, float(logits[at].float().softmax(-1)[ids].sum()))
            found[one.name] = LocalAnswer(decided, tokens[at])
        return found


LOCAL = "local"
"""Account name of these judges: ``decision:local/MODEL``."""


class LocalDecisionJudge(LocalJudge):
    """Implements :class:`~scenewright.core.ports.judge.Judge`.

    Its probabilities are those that ``transformers serve`` gives of the same model. Every question
    is a forward pass of its own (see :class:`DecisionModel`).
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        name: str | None = None,
        config: Path | None = None,
        device: str = "auto",
        how: LocalJudgeSpec | None = None,
    ) -> None:
        """Initialise as :class:`LocalJudge`.

        ``config``: a file with a decision config, in place of that in the model's folder.
        """
        super().__init__(model, name=name, device=device, how=how)
        self._config = config
        self.caps = replace(self.caps, probability="decision")
        self.id = f"{DECISION_KIND}:{LOCAL}/{self._name}"
        """``decision:local/`` and the name."""

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
            self.caps.max_side,
            # One order of the options.
            1,
            ASKING,
            READING,
            *([self.loading] if self.loading else []),
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _make(self) -> DecisionModel:
        device = device_of(self._device)
        return DecisionModel(self._folder, device, self._config, self.images_kept, self._how)

    def _readings(
        self, model: DecisionModel, image: Image.Image, facts: Sequence[Fact], stop: Stop
    ) -> list[LocalReading]:
        prompt = load_prompt(DECISION_PROMPT).ref
        problems = [problem_of(fact, len(fact.options)) for fact in facts]
        sheet = sheet_of(
            [fact for fact, problem in zip(facts, problems, strict=True) if not problem],
            # One order of the options.
            1,
        )
        turn = partial(self._gate.turn, stop)
        told = model.ask(image, sheet.questions, stop.is_set, turn)
        cancelled = LocalAnswer(Decided(reason="cancelled"))
        answers = [told.get(question.name, cancelled) for question in sheet.questions]
        parts = fact_parts([answer.decided for answer in answers], sheet)
        read = zip(parts, (answer.tokens for answer in answers), strict=True)
        found = []
        for problem in problems:
            part, tokens = (FactReading(reason=problem), 0) if problem else next(read)
            found.append((part, {"tokens_in": tokens, "prompt_id": prompt}))
        return found
