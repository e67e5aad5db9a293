"""A judge on this machine: any transformers vision-language model, by name or by folder."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import transformers
from PIL import Image

from scenewright.agents.judges.families import UNKNOWN, family_of
from scenewright.agents.judges.loading import check_loading
from scenewright.agents.judges.memory import JudgeMemory, plan_judge
from scenewright.agents.judges.pictures import shrink
from scenewright.agents.judges.vlm import (
    LabelScores,
    VisionLanguageModel,
    device_of,
    digest_folder,
    find_model,
)
from scenewright.agents.judges.wording import BINARY_PROMPT, CHOICE_PROMPT, Wording, word
from scenewright.config.model_identity import ModelIdentity, digest_weights, identity_of_spec
from scenewright.config.profiles import LocalJudgeSpec
from scenewright.core.closed_vocabulary import VocabularyError, read_vocabulary
from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import JudgeCaps, JudgeError, out_of_vocabulary, unscored
from scenewright.prompts import load_prompt
from scenewright.providers.device_gate import LOADING, DeviceGate, Stop, gate_of
from scenewright.providers.model_thread import ModelThread

_READING = 2
"""Raised when the way in which probabilities are read changes."""


@dataclass(frozen=True, slots=True)
class Put:
    """A fact and how it is put to the model."""

    fact: Fact
    """The fact."""
    asked: Fact
    """The same with options in words that the model knows."""
    back: Mapping[str, str]
    """Option as asked → option of the fact; options that read alike are left out."""

    def choice(self, picked: str) -> str | None:
        """The option of the fact that was picked; None if it was in no option of the fact."""
        said = self.named(picked)
        return said if said in self.fact.options else None

    def named(self, option: str) -> str:
        """An option as asked in the fact's words, where it is one of the fact."""
        return self.back.get(option, option)


class LocalJudge:
    """Implements :class:`~scenewright.core.ports.judge.Judge`.

    The probability of a fact is that of its expected option, normalised over the options
    (method ``logprob``). One worker thread owns the model, so questions of several images
    wait in line and the event loop stays free. On an accelerator each batch also waits for the
    device's turn. The model is loaded with the first question, or by :meth:`load`.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        name: str | None = None,
        device: str = "auto",
        batch: int = 16,
        max_side: int = 1024,
        images_kept: int = 8,
        how: LocalJudgeSpec | None = None,
    ) -> None:
        """``model``: a folder in transformers layout, or a fetched hub repository ``owner/name``.

        ``name`` is what follows ``local:`` in the judge's id (default: the model as given).
        ``batch``: questions in one forward pass. ``max_side``: larger images are scaled down,
        in pixels. ``images_kept``: encoded images kept for later questions. ``how``: number format
        and place of the weights, and the bound on thinking. Raises ``JudgeError`` if the model is
        not on this machine or a number is out of range.
        """
        if batch < 1 or max_side < 8 or images_kept < 1:
            raise JudgeError(
                f"batch {batch}, max_side {max_side}, images_kept {images_kept}: "
                "use at least 1, 8 and 1"
            )
        self._folder = find_model(model)
        self._name = name or str(model)
        self._device = device
        self._batch = batch
        self._images_kept = images_kept
        self._how = how or LocalJudgeSpec()
        try:
            vocabulary = read_vocabulary(self._folder)
        except VocabularyError as error:
            raise JudgeError(str(error)) from error
        self._caps = JudgeCaps(
            facts_per_call=512,
            probability="logprob",
            max_side=max_side,
            local=True,
            vocabulary=vocabulary,
        )
        check_loading(self._folder, device_of(device), self._how)
        self._model: Any = None
        self._failure: JudgeError | None = None
        self._thread = ModelThread("judge")

    @property
    def id(self) -> str:
        """``local:`` and the name."""
        return f"local:{self._name}"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of weights, prompts, library versions and the settings that matter."""
        parts = [
            digest_folder(self._folder),
            load_prompt(BINARY_PROMPT).hash,
            load_prompt(CHOICE_PROMPT).hash,
            transformers.__version__,
            torch.__version__,
            self._device,
            self._caps.max_side,
            _READING,
            *self._peculiar,
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @property
    def _peculiar(self) -> list[object]:
        """What sets the judge apart from a model of no known family, loaded as it is."""
        parts: list[object] = []
        family = family_of(self._folder)
        if family is not UNKNOWN:
            parts.append(family.reading())
        if family.opens or family.leads:
            parts.append(self._how.thinking_tokens)
        placed = self._how.model_dump(exclude={"thinking_tokens"}, exclude_defaults=True)
        return [*parts, placed] if placed else parts

    @property
    def loading(self) -> str:
        """What is not as usual of its weights, in words; empty if all is."""
        return self._how.describe()

    @cached_property
    def memory(self) -> JudgeMemory:
        """What its weights take; ``JudgeError`` if the model's class cannot be made."""
        return plan_judge(self._folder, device_of(self._device), self._how)

    @cached_property
    def identity(self) -> ModelIdentity:
        """The model by its name and its weights, wherever their copy lies."""
        named = identity_of_spec(self.id)
        return ModelIdentity(
            self.id,
            "" if named is None else named.name,
            digest_weights(self._folder),
            self.fingerprint,
        )

    @property
    def caps(self) -> JudgeCaps:
        """What it can do."""
        return self._caps

    async def load(self) -> None:
        """Load the model now; ``JudgeError`` if that fails."""
        self._check_open()
        await self._thread.run(self._loaded)

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        """One answer a fact, in order. A model that fails gives ``unscored`` answers.

        Cancelling stops the work after the running batch. Raises ``JudgeError`` only after
        :meth:`aclose`.
        """
        self._check_open()
        if not facts:
            return []
        refused, asked = self._sorted_out(facts)
        if not asked:
            return list(refused.values())
        found = await self._thread.run(lambda stop: self._answer(image, asked, stop))
        return _merged(refused, found)

    async def answer_many(
        self, asked: Sequence[tuple[Image.Image, Sequence[Fact]]]
    ) -> list[list[Answer]]:
        """The answers of :meth:`answer` for each picture with its facts, up to rounding.

        Questions about pictures that are shown in one size share forward passes: faster where a
        picture's own leave the device idle. A picture that fails takes no other one down.
        """
        self._check_open()
        sorted_out = [self._sorted_out(facts) for _, facts in asked]
        given = [(image, known) for (image, _), (_, known) in zip(asked, sorted_out, strict=True)]
        found = await self._thread.run(lambda stop: self._answer_many(given, stop))
        return [
            _merged(refused, answers)
            for (refused, _), answers in zip(sorted_out, found, strict=True)
        ]

    async def aclose(self) -> None:
        """Wait for the running batch, then free the model."""
        if self._thread.closed:
            return
        await self._thread.aclose()
        self._model = None
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _sorted_out(self, facts: Sequence[Fact]) -> tuple[dict[int, Answer], tuple[Fact, ...]]:
        """The answers to facts outside of the vocabulary by their place, and the other facts."""
        refused = {
            at: answer
            for at, fact in enumerate(facts)
            if (answer := out_of_vocabulary(self.id, self._caps.vocabulary, fact)) is not None
        }
        return refused, tuple(fact for at, fact in enumerate(facts) if at not in refused)

    def _put(self, fact: Fact) -> Put:
        vocabulary = self._caps.vocabulary
        return Put(fact, *((fact, {}) if vocabulary is None else vocabulary.worded(fact)))

    def _check_open(self) -> None:
        if self._thread.closed:
            raise JudgeError(f"{self.id} is closed: make a new judge")

    @property
    def _gate(self) -> DeviceGate:
        return gate_of(str(device_of(self._device)))

    def _make(self) -> Any:
        """The loaded model, as :meth:`_answer` uses it."""
        return VisionLanguageModel(self._folder, self._device, self._images_kept, self._how)

    def _loaded(self, stop: Stop) -> Any:
        if self._failure is not None:
            raise self._failure
        if self._model is None:
            try:
                with self._gate.turn(stop), LOADING:
                    self._model = self._make()
            except JudgeError as error:
                self._failure = error
                raise
        return self._model

    def _answer(self, image: Image.Image, facts: tuple[Fact, ...], stop: Stop) -> list[Answer]:
        """Runs in the worker thread."""
        started = time.perf_counter()
        try:
            model: VisionLanguageModel = self._loaded(stop)
            gate = self._gate
            asked = [self._put(fact) for fact in facts]
            wordings = [word(put.asked, model.clean) for put in asked]
            scores = model.score(
                shrink(image, self._caps.max_side),
                [wording.text for wording in wordings],
                [wording.labels for wording in wordings],
                self._batch,
                stop.is_set,
                lambda: gate.turn(stop),
            )
        except Exception as error:
            # A judge that fails must not take the others down: its silence is recorded.
            return unscored(self.id, facts, f"{type(error).__name__}: {error}")
        seconds = (time.perf_counter() - started) / len(facts)
        answers = [
            self._read(put, wording, score, seconds)
            for put, wording, score in zip(asked, wordings, scores, strict=False)
        ]
        return answers + unscored(self.id, facts[len(answers) :], "cancelled")

    def _answer_many(
        self, asked: Sequence[tuple[Image.Image, tuple[Fact, ...]]], stop: Stop
    ) -> list[list[Answer]]:
        """Runs in the worker thread."""
        sizes: dict[tuple[int, int], list[int]] = {}
        shown: dict[int, Image.Image] = {}
        found: dict[int, list[Answer]] = {}
        for at, (image, facts) in enumerate(asked):
            try:
                shown[at] = shrink(image, self._caps.max_side)
            except Exception as error:
                found[at] = unscored(self.id, facts, f"{type(error).__name__}: {error}")
            else:
                sizes.setdefault(shown[at].size, []).append(at)
        for places in sizes.values():
            pairs = [(shown[at], asked[at][1]) for at in places]
            for at, answers in zip(places, self._answer_group(pairs, stop), strict=True):
                found[at] = answers
        return [found[at] for at in range(len(asked))]

    def _answer_group(
        self, asked: Sequence[tuple[Image.Image, tuple[Fact, ...]]], stop: Stop
    ) -> list[list[Answer]]:
        """Answers about pictures of one size, ready to be shown."""
        if len(asked) == 1:
            return [self._answer(*asked[0], stop)]
        started = time.perf_counter()
        try:
            model: VisionLanguageModel = self._loaded(stop)
            gate = self._gate
            pairs = [(image, fact) for image, facts in asked for fact in facts]
            puts = [self._put(fact) for _, fact in pairs]
            wordings = [word(put.asked, model.clean) for put in puts]
            scores = model.score_pairs(
                [image for image, _ in pairs],
                [wording.text for wording in wordings],
                [wording.labels for wording in wordings],
                self._batch,
                stop.is_set,
                lambda: gate.turn(stop),
            )
        except Exception:
            # Which of them it was shows when each is asked alone.
            return [self._answer(image, facts, stop) for image, facts in asked]
        seconds = (time.perf_counter() - started) / max(1, len(pairs))
        read = [
            self._read(put, wording, score, seconds)
            for put, wording, score in zip(puts, wordings, scores, strict=False)
        ]
        read += unscored(self.id, [fact for _, fact in pairs[len(read) :]], "cancelled")
        left = iter(read)
        return [[next(left) for _ in facts] for _, facts in asked]

    def _read(self, put: Put, wording: Wording, score: LabelScores, seconds: float) -> Answer:
        fact, asked = put.fact, put.asked
        model = f"{self._name}:{self.fingerprint[:12]}"
        if not score.probabilities:
            return Answer(
                fact_id=fact.id,
                judge_id=self.id,
                state="unscored",
                reason=score.reason,
                tokens_in=score.tokens,
                tokens_out=score.generated,
                seconds=seconds,
                model=model,
                prompt_id=wording.prompt.ref,
            )
        best = max(range(len(score.probabilities)), key=score.probabilities.__getitem__)
        picked = asked.options[best]
        probability = score.probabilities[asked.options.index(asked.expected)]
        return Answer(
            fact_id=fact.id,
            judge_id=self.id,
            state="yes" if picked == asked.expected else "no",
            choice=put.choice(picked),
            probability=min(1.0, probability),
            distribution=(
                None
                if fact.is_binary
                else dict(zip(map(put.named, asked.options), score.probabilities, strict=True))
            ),
            method="logprob",
            tokens_in=score.tokens,
            tokens_out=score.generated,
            seconds=seconds,
            model=model,
            prompt_id=wording.prompt.ref,
        )


def _merged(refused: Mapping[int, Answer], given: Sequence[Answer]) -> list[Answer]:
    """All answers in the order of their facts; ``refused`` are those at given places."""
    rest = iter(given)
    return [refused.get(at) or next(rest) for at in range(len(refused) + len(given))]
