"""Local judges: any transformers vision-language model, by name or by folder.

Also the wording of a fact for such a judge: prompt, text and short labels of its options.
"""

from __future__ import annotations

import hashlib
import json
import os
import string
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
import transformers
from PIL import Image

from scenewright.agents.judges.families import UNKNOWN, JudgeMemory, family_of, plan_judge
from scenewright.agents.judges.loading import check_loading
from scenewright.agents.judges.pictures import shrink
from scenewright.agents.judges.vlm import (
    LabelScores,
    VisionLanguageModel,
    device_of,
    digest_folder,
    find_model,
)
from scenewright.config.model_identity import ModelIdentity, digest_weights, identity_of_spec
from scenewright.config.profiles import LocalJudgeSpec
from scenewright.core.closed_vocabulary import VocabularyError, read_vocabulary
from scenewright.core.error_text import error_text
from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import JudgeCaps, JudgeError, by_vocabulary, merged, unscored
from scenewright.prompts import Prompt, load_prompt
from scenewright.providers.device_gate import (
    LOADING,
    DeviceGate,
    ModelThread,
    Stop,
    gate_of,
    limit_threads,
)

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
    letters = string.ascii_uppercase
    if len(options) > len(letters):
        raise ValueError(f"{len(options)} options: offer at most {len(letters)}")
    return "; ".join(
        f"{letter}) {option}" for letter, option in zip(letters, options, strict=False)
    )


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
    return Wording(prompt, text, tuple(string.ascii_uppercase[: len(options)]))


_READING = 2
"""Raised when the way in which probabilities are read changes."""


@dataclass(frozen=True, slots=True)
class AskedFact:
    """A fact and its wording for the model."""

    fact: Fact
    """The fact."""
    asked: Fact
    """The same with options in words that the model knows."""
    back: Mapping[str, str]
    """Option as asked → option of the fact; options that read alike are left out."""

    def choice(self, picked: str) -> str | None:
        """Return the fact's option that was picked; None if it is another one."""
        said = self.named(picked)
        return said if said in self.fact.options else None

    def named(self, option: str) -> str:
        """Return the fact's own wording of an option that was asked."""
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
        """``model``: a folder in transformers layout, or a cached hub repository ``owner/name``.

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
        """Properties that distinguish the judge from an unknown model with usual loading."""
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

    @property
    def caps(self) -> JudgeCaps:
        """What it can do."""
        return self._caps

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
        if not facts:
            return []
        refused, asked = self._sorted_out(facts)
        if not asked:
            return list(refused.values())
        found = await self._thread.run(lambda stop: self._answer(image, asked, stop))
        return merged(refused, found)

    async def answer_many(
        self, asked: Sequence[tuple[Image.Image, Sequence[Fact]]]
    ) -> list[list[Answer]]:
        """Return the answers of :meth:`answer` for each picture with its facts, up to rounding.

        Questions about pictures that are shown in one size share forward passes: faster where a
        picture's own leave the device idle. A picture that fails takes no other one down.
        """
        self._check_open()
        sorted_out = [self._sorted_out(facts) for _, facts in asked]
        given = [(image, known) for (image, _), (_, known) in zip(asked, sorted_out, strict=True)]
        found = await self._thread.run(lambda stop: self._answer_many(given, stop))
        return [
            merged(refused, answers)
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
        return by_vocabulary(self.id, self._caps.vocabulary, facts)

    def _put(self, fact: Fact) -> AskedFact:
        vocabulary = self._caps.vocabulary
        return AskedFact(fact, *((fact, {}) if vocabulary is None else vocabulary.worded(fact)))

    def _check_open(self) -> None:
        if self._thread.closed:
            raise JudgeError(f"{self.id} is closed: make a new judge")

    @property
    def _gate(self) -> DeviceGate:
        return gate_of(str(device_of(self._device)))

    def _make(self) -> Any:
        """Return the loaded model, as :meth:`_answer` uses it."""
        return VisionLanguageModel(self._folder, self._device, self._images_kept, self._how)

    def _modules(self) -> list[torch.nn.Module]:
        """Return the networks of the loaded model."""
        return [self._model.model]

    def _loaded(self, stop: Stop) -> Any:
        if self._failure is not None:
            raise self._failure
        if self._model is None:
            try:
                with self._gate.turn(stop), LOADING:
                    self._model = self._make()
                limit_threads(self._modules())
            except JudgeError as error:
                self._failure = error
                raise
        return self._model

    def _answer(self, image: Image.Image, facts: tuple[Fact, ...], stop: Stop) -> list[Answer]:
        """Answer in the worker thread."""
        try:
            shown = shrink(image, self._caps.max_side)
            return self._scored([(shown, fact) for fact in facts], stop)
        except Exception as error:
            # A failing judge must not stop the others: its failure is recorded.
            return unscored(self.id, facts, error_text(error))

    def _scored(self, pairs: Sequence[tuple[Image.Image, Fact]], stop: Stop) -> list[Answer]:
        """Return answers about images of one size, ready for the model."""
        started = time.perf_counter()
        model: VisionLanguageModel = self._loaded(stop)
        gate = self._gate
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
        seconds = (time.perf_counter() - started) / max(1, len(pairs))
        answers = [
            self._read(put, wording, score, seconds)
            for put, wording, score in zip(puts, wordings, scores, strict=False)
        ]
        return answers + unscored(self.id, [fact for _, fact in pairs[len(answers) :]], "cancelled")

    def _answer_many(
        self, asked: Sequence[tuple[Image.Image, tuple[Fact, ...]]], stop: Stop
    ) -> list[list[Answer]]:
        """Answer in the worker thread."""
        sizes: dict[tuple[int, int], list[int]] = {}
        shown: dict[int, Image.Image] = {}
        found: dict[int, list[Answer]] = {}
        for at, (image, facts) in enumerate(asked):
            try:
                shown[at] = shrink(image, self._caps.max_side)
            except Exception as error:
                found[at] = unscored(self.id, facts, error_text(error))
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
        """Return answers about pictures of one size, ready to be shown."""
        if len(asked) == 1:
            return [self._answer(*asked[0], stop)]
        try:
            read = self._scored([(image, fact) for image, facts in asked for fact in facts], stop)
        except Exception:
            # Asked one by one, the failing image shows.
            return [self._answer(image, facts, stop) for image, facts in asked]
        left = iter(read)
        return [[next(left) for _ in facts] for _, facts in asked]

    def _read(self, put: AskedFact, wording: Wording, score: LabelScores, seconds: float) -> Answer:
        fact, asked = put.fact, put.asked
        answer = partial(
            Answer,
            fact_id=fact.id,
            judge_id=self.id,
            tokens_in=score.tokens,
            tokens_out=score.generated,
            seconds=seconds,
            model=f"{self._name}:{self.fingerprint[:12]}",
            prompt_id=wording.prompt.ref,
        )
        if not score.probabilities:
            return answer(state="unscored", reason=score.reason)
        best = max(range(len(score.probabilities)), key=score.probabilities.__getitem__)
        picked = asked.options[best]
        probability = score.probabilities[asked.options.index(asked.expected)]
        return answer(
            state="yes" if picked == asked.expected else "no",
            choice=put.choice(picked),
            probability=min(1.0, probability),
            distribution=(
                None
                if fact.is_binary
                else dict(zip(map(put.named, asked.options), score.probabilities, strict=True))
            ),
            method="logprob",
        )
