"""A judge on this machine that answers typed questions: any vision-language model of transformers,
or one with a decision head, by name or by folder."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch
import transformers
from PIL import Image

from scenewright.agents.judges.decisions.asking import (
    ASKING,
    DECISION_PROMPT,
    Orders,
    Question,
    problem_of,
    sheet_of,
)
from scenewright.agents.judges.decisions.maps import raws_of
from scenewright.agents.judges.decisions.pipeline import DecisionModel, LocalAnswer
from scenewright.agents.judges.decisions.reading import (
    READING,
    Decided,
    decide,
    fact_parts,
    parse_json,
    weighed,
)
from scenewright.agents.judges.local import LocalJudge, Put
from scenewright.agents.judges.pictures import shrink
from scenewright.agents.judges.reading import FactReading
from scenewright.agents.judges.vlm import device_of, digest_folder
from scenewright.config.accounts import DECISION_KIND
from scenewright.config.profiles import LocalJudgeSpec
from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import unscored
from scenewright.prompts import load_prompt
from scenewright.providers.device_gate import Stop

LOCAL = "local"
"""What stands in place of an account in the names of these judges: ``decision:local/MODEL``."""


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
        """As :class:`LocalJudge`. ``config``: a file with a decision config, in place of that in
        the model's folder. ``orders``: with 2 a choice is asked in both orders of its options.
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

    def _make(self) -> DecisionModel:
        device = device_of(self._device)
        return DecisionModel(self._folder, device, self._config, self._images_kept, self._how)

    def _answer(self, image: Image.Image, facts: tuple[Fact, ...], stop: Stop) -> list[Answer]:
        """Runs in the worker thread."""
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
            # A judge that fails must not take the others down: its silence is recorded.
            return unscored(self.id, facts, f"{type(error).__name__}: {error}")
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
        """Runs in the worker thread."""
        return [self._answer(image, facts, stop) if facts else [] for image, facts in asked]

    def _written(self, put: Put, part: FactReading, tokens: int, seconds: float) -> Answer:
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
    # Through the text of a server's reply, so that both are read alike.
    (raw,) = raws_of(parse_json(json.dumps({question.name: given.answer})))
    return weighed(decide(question, raw), given.mass)
