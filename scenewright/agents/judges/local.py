"""Local judges: any transformers vision-language model, by name or by folder.

Also the wording of a fact for such a judge: prompt, text and short labels of its options.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import ascii_uppercase
from typing import Any

import torch
import transformers
from PIL import Image

from scenewright.agents.judges.families import UNKNOWN, JudgeMemory, family_of, plan_judge
from scenewright.agents.judges.loading import check_loading
from scenewright.agents.judges.pictures import shrink
from scenewright.agents.judges.reading import FactReading
from scenewright.agents.judges.vlm import VisionLanguageModel, device_of, digest_folder, find_model
from scenewright.config.model_identity import ModelIdentity, digest_weights, identity_of_spec
from scenewright.config.profiles import LocalJudgeSpec
from scenewright.core.closed_vocabulary import VocabularyError, read_vocabulary
from scenewright.core.error_text import error_text
from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import JudgeCaps, JudgeError, by_vocabulary, merged, unscored
from scenewright.prompts import Prompt, load_prompt
from scenewright.providers.device_gate import LOADING, ModelThread, Stop, gate_of, limit_threads

BINARY_PROMPT = "judge_binary"
CHOICE_PROMPT = "judge_choice"


@dataclass(frozen=True, slots=True)
class Wording:
    """Wording of a fact for a judge."""

    prompt: Prompt
    """The prompt file."""
    text: str
    """Text of the question."""
    labels: tuple[str, ...]
    """One label per option of the fact, in their order: yes/no, or letters."""


def lettered(options: tuple[str, ...]) -> str:
    """Return ``A) kicking; B) throwing; C) no visible relationship``: the form of Scene-Bench."""
    if len(options) > len(ascii_uppercase):
        raise ValueError(f"{len(options)} options: offer at most {len(ascii_uppercase)}")
    return "; ".join(map("{}) {}".format, ascii_uppercase, options))


def word(fact: Fact, clean: Callable[[str], str] = str) -> Wording:
    """Return the wording of ``fact``.

    ``clean`` is applied to everything that comes from the scene.
    """
    if fact.is_binary:
        prompt = load_prompt(BINARY_PROMPT)
        return Wording(prompt, prompt.render(question=clean(fact.question)), fact.options)
    prompt = load_prompt(CHOICE_PROMPT)
    options = tuple(clean(option) for option in fact.options)
    text = prompt.render(question=clean(fact.question), options=lettered(options))
    return Wording(prompt, text, tuple(ascii_uppercase[: len(options)]))


_READING = 2
"""Raised when the way in which probabilities are read changes."""
_MAX_SIDE = 1024
"""Longest side of an image in pixels; larger ones are scaled down."""


LocalReading = tuple[FactReading, dict[str, Any]]
"""A model's answer to one fact, in the options as asked, with the tokens and prompt of it."""


class LocalJudge:
    """Implements :class:`~scenewright.core.ports.judge.Judge`.

    The probability of a fact is that of its expected option, normalised over the options
    (method ``logprob``). One worker thread owns the model, so questions of several images
    wait in line and the event loop stays free. On an accelerator each batch also waits for the
    device's turn. The model is loaded with the first question, or by :meth:`load`.
    """

    batch = 16
    """Questions in one forward pass."""
    images_kept = 8
    """Encoded images kept for later questions."""

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        name: str | None = None,
        device: str = "auto",
        how: LocalJudgeSpec | None = None,
    ) -> None:
        """``model``: a folder in transformers layout, or a cached hub repository ``owner/name``.

        ``name`` is what follows ``local:`` in the judge's id (default: the model as given).
        ``how``: number format and place of the weights, and the bound on thinking. Raises
        ``JudgeError`` if the model is not on this machine.
        """
        self._folder = find_model(model)
        self._name = name or str(model)
        self.id = f"local:{self._name}"
        """``local:`` and the name."""
        self._device = device
        self._how = how or LocalJudgeSpec()
        try:
            vocabulary = read_vocabulary(self._folder)
        except VocabularyError as error:
            raise JudgeError(str(error)) from error
        self.caps = JudgeCaps(
            facts_per_call=512,
            probability="logprob",
            max_side=_MAX_SIDE,
            local=True,
            # A closed vocabulary was learnt with the forms of questions that it knows.
            counts=vocabulary is None,
            vocabulary=vocabulary,
        )
        """Abilities."""
        check_loading(self._folder, device_of(device), self._how)
        self._model: Any = None
        self._failure: JudgeError | None = None
        self._thread = ModelThread("judge")
        self._gate = gate_of(str(device_of(device)))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of weights, prompts, library versions and the settings that matter."""
        parts: list[object] = [
            digest_folder(self._folder),
            load_prompt(BINARY_PROMPT).hash,
            load_prompt(CHOICE_PROMPT).hash,
            transformers.__version__,
            torch.__version__,
            self._device,
            self.caps.max_side,
            _READING,
        ]
        family = family_of(self._folder)
        if family is not UNKNOWN:
            parts.append(family.reading())
        if family.opens or family.leads:
            parts.append(self._how.thinking_tokens)
        placed = self._how.model_dump(exclude={"thinking_tokens"}, exclude_defaults=True)
        parts += [placed] if placed else []
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @property
    def loading(self) -> str:
        """Unusual settings of its weights, in words; empty if there are none."""
        return self._how.describe()

    @cached_property
    def memory(self) -> JudgeMemory:
        """Memory of its weights.

        Raises ``JudgeError`` if the model's class cannot be made.
        """
        return plan_judge(self._folder, device_of(self._device), self._how)

    @cached_property
    def identity(self) -> ModelIdentity:
        """Identity by name and weights, independent of the copy."""
        named = identity_of_spec(self.id)
        return ModelIdentity(
            self.id,
            "" if named is None else named.name,
            digest_weights(self._folder),
            self.fingerprint,
        )

    async def load(self, change: Callable[[torch.nn.Module], None] | None = None) -> None:
        """Load the model now.

        ``change`` is called with it once: it may give the weights other values. Raises
        ``JudgeError`` if that fails.
        """
        self._check_open()
        loaded = await self._thread.run(self._loaded)
        if change is not None:
            await self._thread.run(lambda stop: change(loaded.model))

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        """Return one answer a fact, in order. A model that fails gives ``unscored`` answers.

        Cancelling stops the work after the running batch. Raises ``JudgeError`` only after
        :meth:`aclose`.
        """
        self._check_open()
        refused, known = by_vocabulary(self.id, self.caps.vocabulary, facts)
        answers: list[Answer] = []
        if known:
            answers = await self._thread.run(lambda stop: self._answer(image, known, stop))
        return merged(refused, answers)

    async def aclose(self) -> None:
        """Wait for the running batch, then free the model."""
        if self._thread.closed:
            return
        await self._thread.aclose()
        self._model = None
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _check_open(self) -> None:
        if self._thread.closed:
            raise JudgeError(f"{self.id} is closed: make a new judge")

    def _make(self) -> Any:
        """Return the loaded model, as :meth:`_readings` uses it."""
        return VisionLanguageModel(self._folder, self._device, self.images_kept, self._how)

    def _loaded(self, stop: Stop) -> Any:
        if self._failure is not None:
            raise self._failure
        if self._model is None:
            try:
                with self._gate.turn(stop), LOADING:
                    self._model = self._make()
                limit_threads([self._model.model])
            except JudgeError as error:
                self._failure = error
                raise
        return self._model

    def _answer(self, image: Image.Image, facts: Sequence[Fact], stop: Stop) -> list[Answer]:
        """Answer in the worker thread."""
        started = time.perf_counter()
        vocabulary = self.caps.vocabulary
        try:
            shown = shrink(image, self.caps.max_side)
            model = self._loaded(stop)
            # The same facts with options in words that the model knows, and the fact's own words.
            worded = [(one, {}) if vocabulary is None else vocabulary.worded(one) for one in facts]
            readings = self._readings(model, shown, [fact for fact, _ in worded], stop)
            seconds = (time.perf_counter() - started) / len(facts)
            served = f"{self._name}:{self.fingerprint[:12]}"
            answers = []
            for fact, (asked, words), (part, told) in zip(facts, worded, readings, strict=False):
                answer = part.answer(asked, self.id, seconds=seconds, model=served, **told)
                if words and answer.choice is not None:
                    choice = words.get(answer.choice, answer.choice)
                    shares = answer.distribution or {}
                    own = {
                        "choice": choice if choice in fact.options else None,
                        "distribution": {words.get(o, o): p for o, p in shares.items()},
                    }
                    answer = answer.model_copy(update=own)
                answers.append(answer)
        except Exception as error:
            # A failing judge must not stop the others: its failure is recorded.
            return unscored(self.id, facts, error_text(error))
        return answers + unscored(self.id, facts[len(answers) :], "cancelled")

    def _readings(
        self, model: Any, image: Image.Image, facts: Sequence[Fact], stop: Stop
    ) -> list[LocalReading]:
        """Return the readings of all ``facts``, or of the first until ``stop``."""
        wordings = [word(fact, model.clean) for fact in facts]
        scores = model.score(
            image,
            [wording.text for wording in wordings],
            [wording.labels for wording in wordings],
            self.batch,
            stop.is_set,
            lambda: self._gate.turn(stop),
        )
        readings = []
        for fact, wording, score in zip(facts, wordings, scores, strict=False):
            told = {
                "tokens_in": score.tokens,
                "tokens_out": score.generated,
                "prompt_id": wording.prompt.ref,
            }
            readings.append((score.reading(fact), told))
        return readings
