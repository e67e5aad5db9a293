"""Judges over decision models: one image, typed questions, a probability per option."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property

from scenewright.agents.judges.calling import (
    Attempt,
    CallingJudge,
    Numbered,
    Pictures,
    Sizes,
    chunks,
    place_of,
)
from scenewright.agents.judges.decisions.asking import (
    ASKING,
    DECISION_PROMPT,
    STATEMENT_PROMPT,
    DecisionSheet,
    Question,
    copies,
    problem_of,
    sheet_of,
)
from scenewright.agents.judges.decisions.models import DecisionCaps, caps_of, host_of
from scenewright.agents.judges.decisions.reading import READING, DecisionWire, parts_of
from scenewright.agents.judges.pictures import image_tokens, prepare, text_tokens
from scenewright.agents.judges.reading import FactReading
from scenewright.config.accounts import DECISION_KIND, NO_KEY, OWN_HOSTS, missing_key
from scenewright.core.facts import Fact
from scenewright.core.ports.judge import JudgeError
from scenewright.prompts import load_prompt
from scenewright.providers.caller import Caller
from scenewright.providers.usage import Reply, Usage

_BYTES_AROUND = 64
"""Bytes of a question besides its words, in the largest wire format."""


class DecisionJudge(CallingJudge[DecisionWire, DecisionCaps]):
    """Implements :class:`~scenewright.core.ports.judge.Judge` over a :class:`DecisionWire`.

    All facts of a picture go in one request, unless they are more than the model's caps allow.
    """

    prompt = DECISION_PROMPT

    @property
    def id(self) -> str:
        """``decision:account/model``."""
        return f"{DECISION_KIND}:{self._account}/{self._wire.model}"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of model, place, wire, prompts, image preparation and orders."""
        caps = self._model_caps
        parts = {
            "provider": self._wire.provider,
            "model": self._wire.model,
            "place": place_of(self._wire.base_url),
            "wire": caps.wire,
            "prompts": [load_prompt(name).hash for name in (DECISION_PROMPT, STATEMENT_PROMPT)],
            "preparation": asdict(caps.preparation),
            "orders": [caps.orders, caps.turns],
            "wording": caps.wording,
            "detail": caps.detail,
            # In joint models the questions of a request influence each other.
            "limits": [caps.questions_per_call, caps.request_bytes, caps.request_tokens],
            "asking": ASKING,
            "reading": READING,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def _priced(self) -> tuple[str, str]:
        # A model that also chats costs another price there.
        return DECISION_KIND, f"{self._priced_as}/{self._wire.model}"

    def _unaskable(self, fact: Fact) -> str:
        caps = self._model_caps
        problem = problem_of(fact, caps.options_per_question)
        return problem or (
            "" if self._fits([fact]) else "the question is longer than a request may be: shorten it"
        )

    def _chunks(self, todo: Sequence[Numbered]) -> list[Sequence[Numbered]]:
        """Split into as few nearly equal parts as keep every limit of the wire."""
        most = len(todo)
        while most > 1:
            found = chunks(todo, most)
            if all(self._fits([fact for _, fact in chunk]) for chunk in found):
                return found
            # One part more.
            most = -(-len(todo) // (len(found) + 1))
        return chunks(todo, 1)

    def _fits(self, facts: Sequence[Fact]) -> bool:
        caps = self._model_caps
        asked = sum(copies(fact, caps.orders, turns=caps.turns) for fact in facts)
        if asked > caps.questions_per_call:
            return False
        if not caps.request_bytes and not caps.request_tokens:
            return True
        questions = self._sheet(facts).questions
        size = caps.picture_bytes + sum(map(_bytes, questions))
        if caps.request_bytes and size > caps.request_bytes:
            return False
        return not caps.request_tokens or self._question_tokens(questions) <= caps.request_tokens

    def _sheet(self, facts: Sequence[Fact]) -> DecisionSheet:
        caps = self._model_caps
        return sheet_of(facts, caps.orders, turns=caps.turns, wording=caps.wording)

    def _usage(self, sizes: Sizes, facts: Sequence[Fact]) -> Usage:
        caps = self._model_caps
        (size,) = sizes
        shown = caps.preparation.shown_size(size)
        questions = self._sheet(facts).questions
        # The output is not text, and free.
        return Usage(image_tokens(caps.image_tokens, *shown) + self._question_tokens(questions))

    def _question_tokens(self, questions: Sequence[Question]) -> int:
        around = self._model_caps.question_tokens
        return sum(around + text_tokens(_words(question)) for question in questions)

    def _attempt(self, pictures: Pictures, facts: Sequence[Fact]) -> Attempt:
        (image,) = pictures
        caps = self._model_caps
        sheet = self._sheet(facts)

        async def attempt() -> Reply[tuple[list[FactReading], str]]:
            # Encode only now: thousands of queued calls need no encoded image.
            picture = await prepare(image, caps.preparation)
            request = self._wire.build(picture, sheet.questions)
            reading = self._wire.read(await self._wire.send(request), sheet.questions)
            parts = parts_of(reading, sheet)
            return Reply((parts, reading.model), reading.usage, reading.request_id)

        return attempt


def decision_judge(
    provider: str,
    model: str,
    caller: Caller,
    *,
    api_key: str | None,
    base_url: str | None = None,
    name: str | None = None,
    overrides: Mapping[str, object] | None = None,
    host: Mapping[str, object] | None = None,
) -> DecisionJudge:
    """Return the judge ``decision:NAME/model`` of an account of ``provider``.

    ``base_url``: a server that speaks the provider's protocol, instead of the provider's own.
    ``name``: the account, in place of the provider in the judge's id. ``overrides``: keys of
    :class:`~.models.DecisionCaps`, in place of what ``models.toml`` says. The provider's library is
    imported here. Raises ``JudgeError`` for a missing key, a provider without decision models or a
    setting that cannot be.
    """
    caps = caps_of(provider, model, overrides)
    key = (api_key or "").strip() or (NO_KEY if provider in OWN_HOSTS else "")
    if not key:
        raise JudgeError(missing_key(provider, name))
    wire: DecisionWire
    if caps.wire == "openai":
        from scenewright.agents.judges.decisions.openai import OpenAIDecisions

        wire = OpenAIDecisions(model, caps, api_key=key, base_url=base_url)
    elif caps.wire == "gemini":
        from scenewright.agents.judges.decisions.gemini import GeminiDecisions

        wire = GeminiDecisions(model, caps, api_key=key, base_url=base_url)
    else:
        from scenewright.agents.judges.decisions.systemone import SystemOneWire

        wire = SystemOneWire(
            model,
            caps,
            host_of(caps.wire, host),
            provider=caps.wire,
            api_key=key,
            base_url=base_url,
        )
    # Another server's models are not the provider's, whatever they are called.
    priced_as = provider if base_url is None else ""
    return DecisionJudge(wire, caller, caps, account=name or "", priced_as=priced_as)


def _words(question: Question) -> str:
    """Return all text sent for a question."""
    told = [text for option in question.options for text in option if text]
    return " ".join([question.text, *told]) if question.kind != "yes_no" else question.statement


def _bytes(question: Question) -> int:
    # A name of another script takes up to six bytes a character where it is escaped.
    return _BYTES_AROUND * (1 + len(question.options)) + len(json.dumps(_words(question)))
