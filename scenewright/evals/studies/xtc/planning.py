"""What an evaluation by XTC-Bench will take, before anything is drawn: pictures, calls, dollars.

Calls are counted with the very questions that will be asked. Tokens follow the providers' published
rules, and dollars their prices; what a reading of a picture by language models takes depends on
what is seen in it, so that only the pictures to be read are counted there.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from scenewright.agents.judges.models import caps_of
from scenewright.agents.judges.pictures import image_tokens, text_tokens
from scenewright.config.settings import CHAT_KINDS, Settings, split_judge
from scenewright.evals.datasets.base import Item
from scenewright.evals.studies.xtc.base import Question
from scenewright.evals.studies.xtc.config import RULES, ModelSpec, XtcConfig
from scenewright.evals.studies.xtc.grading_chat import ChatGrader
from scenewright.evals.studies.xtc.model_setup import XtcModels
from scenewright.evals.studies.xtc.models import Paired, drawing_mark, understanding_mark
from scenewright.evals.studies.xtc.questions import questions_of
from scenewright.evals.studies.xtc.understanding import PROMPT, ChatUnderstander
from scenewright.evals.studies.xtc.understanding_judges import JudgeUnderstander
from scenewright.evals.studies.xtc.unknown import outside_of
from scenewright.prompts import load_prompt
from scenewright.providers.usage import ExpectedUsage, Usage

_ANSWER_TOKENS = 14
"""Output tokens of an answer of a few words and its number."""
_GRADE_TOKENS = 10
"""Output tokens of a grade and its number."""
_PAIR_TOKENS = 45
"""Input tokens of a question with two answers."""
_PHOTO = (640, 480)


@dataclass(frozen=True, slots=True)
class XtcModelEstimate:
    """What one model is expected to take."""

    who: str
    """Its id."""
    what: str
    """``words prompts``, ``draws``, ``reads pictures``, ``answers`` or ``grades``."""
    times: int
    """Prompts, pictures, questions or pairs of answers."""
    expected: ExpectedUsage
    """Calls, tokens and dollars; none of models on this machine."""


@dataclass(frozen=True, slots=True)
class XtcPlan:
    """What an evaluation will take if nothing of it is done yet."""

    items: int
    """Items with a scene and a photo."""
    questions: int
    """Questions about all of them."""
    unasked: int
    """Facts that no question can ask for."""
    models: int
    """Unified models."""
    pictures: int
    """Pictures to be drawn: models that share what draws share them."""
    lines: tuple[XtcModelEstimate, ...]
    """Model by model."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Why items of the set cannot be evaluated → how many."""
    outside: dict[str, int] = field(default_factory=dict)
    """Extractor or understander, and why it cannot answer → questions that will be unscored."""

    @property
    def usd(self) -> float:
        """Dollars of all models whose price is known."""
        return sum(line.expected.usd or 0.0 for line in self.lines)

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Models whose price is not known: their dollars are not counted."""
        return tuple(dict.fromkeys(n.who for n in self.lines if n.expected.usd is None))


async def plan_of(
    config: XtcConfig, xtc_models: XtcModels, items: Sequence[Item], settings: Settings
) -> XtcPlan:
    """The plan of :func:`~scenewright.evals.studies.xtc.running.run_xtc`; asks no model and draws
    nothing.

    Raises ``XtcError`` for a scene that cannot be asked about.
    """
    return await asyncio.to_thread(_plan, config, xtc_models, items, settings)


def _plan(
    config: XtcConfig, xtc_models: XtcModels, items: Sequence[Item], settings: Settings
) -> XtcPlan:
    left_out: dict[str, int] = {}
    asked: list[tuple[Item, tuple[Question, ...]]] = []
    unasked = 0
    for item in items:
        if not item.scene or item.image is None:
            lack = "no scene" if not item.scene else "no photo"
            left_out[lack] = left_out.get(lack, 0) + 1
            continue
        sheet = questions_of(item.scene)
        unasked += len(sheet.unasked)
        asked.append((item, sheet.questions))
    unread = [
        outside_of(questions, item.scene, xtc_models.extractor, config.converses)
        if item.scene
        else {}
        for item, questions in asked
    ]
    # A picture that nothing could be read of is not drawn.
    drawn = [
        one
        for one, lost in zip(asked, unread, strict=True)
        if not one[1] or len(lost) < len(one[1])
    ]
    drawing = {drawing_mark(model): model for model in xtc_models.models}
    pictures = len(drawn) * len(config.seeds) * len(drawing)
    open_ = sum(map(len, unread))
    return XtcPlan(
        items=len(asked),
        questions=sum(len(questions) for _, questions in asked),
        unasked=unasked,
        models=len(xtc_models.models),
        pictures=pictures,
        lines=tuple(_lines(config, xtc_models, asked, drawn, open_, settings)),
        left_out=left_out,
        outside=_outside(xtc_models, asked, unread),
    )


def _outside(
    xtc_models: XtcModels,
    asked: Sequence[tuple[Item, tuple[Question, ...]]],
    unread: Sequence[Mapping[str, str]],
) -> dict[str, int]:
    found: dict[str, int] = dict(Counter(why for lost in unread for why in lost.values()))
    for model in {understanding_mark(m): m for m in xtc_models.models}.values():
        who = model.understander if isinstance(model, Paired) else None
        if not isinstance(who, JudgeUnderstander):
            continue
        for question in (question for _, questions in asked for question in questions):
            if reason := who.outside(question):
                key = f"{who.id}: {reason}"
                found[key] = found.get(key, 0) + 1
    return found


def _lines(
    config: XtcConfig,
    xtc_models: XtcModels,
    asked: Sequence[tuple[Item, tuple[Question, ...]]],
    drawn: Sequence[tuple[Item, tuple[Question, ...]]],
    unread: int,
    settings: Settings,
) -> Iterator[XtcModelEstimate]:
    """``drawn``: what is asked about pictures that are drawn; ``unread``: questions that no graph
    of a picture answers."""
    n, seeds = len(asked), len(config.seeds)
    if config.prompt != RULES:
        # The whole once, each object once, and a second try of the whole at most.
        objects = sum(len(item.scene.objects) for item, _ in asked if item.scene)
        calls = n + objects
        yield XtcModelEstimate(
            xtc_models.composer.id, "words prompts", n, ExpectedUsage(calls, usd=None)
        )
    for model in {drawing_mark(m): m for m in xtc_models.models}.values():
        who, expected = model.id, ExpectedUsage()
        if isinstance(model, Paired):
            words = "" if model.composer is None else f" ({model.composer.id})"
            who = f"{model.backend.id}{words}"
            tell: Any = getattr(model.backend, "expected", None)
            if tell is not None:
                for item, _ in drawn:
                    expected = expected + tell(item.prompt or str(item.scene)[:1000]) * seeds
        elif _is_plugin(config, model.id):
            expected = ExpectedUsage(len(drawn) * seeds, usd=None)
        yield XtcModelEstimate(who, "draws", len(drawn) * seeds, expected)
    sides = seeds * len({drawing_mark(model) for model in xtc_models.models})
    yield XtcModelEstimate(
        xtc_models.extractor.id, "reads pictures", len(drawn) * sides, ExpectedUsage()
    )
    total = sum(len(questions) for _, questions in asked)
    understanding = {understanding_mark(m): m for m in xtc_models.models}
    for model in understanding.values():
        who, expected = model.id, ExpectedUsage()
        if isinstance(model, Paired):
            who = model.understander.id
            expected = _answering(model, config.models.get(model.id), asked, settings)
        elif _is_plugin(config, model.id):
            expected = ExpectedUsage(n, usd=None)
        yield XtcModelEstimate(who, "answers", total, expected)
    pairs = (total - unread) * sides + total * len(understanding)
    yield XtcModelEstimate(
        xtc_models.grader.id, "grades", pairs, _grading(xtc_models, config, pairs, settings)
    )


def _is_plugin(config: XtcConfig, name: str) -> bool:
    spec = config.models.get(name)
    return spec is not None and spec.plugin is not None


def _answering(
    model: Paired,
    spec: ModelSpec | None,
    asked: Sequence[tuple[Item, tuple[Question, ...]]],
    settings: Settings,
) -> ExpectedUsage:
    who = model.understander
    judge = getattr(who, "judge", None)
    total = ExpectedUsage()
    if judge is not None:
        tell: Any = getattr(judge, "expected", None)
        facts_of: Any = who
        for item, questions in asked if tell is not None else ():
            total = total + tell(_size(item), facts_of.facts(questions))
        return total
    if not isinstance(who, ChatUnderstander) or spec is None or spec.understander is None:
        return total
    priced = _Priced(spec.understander.partition(":")[2], settings)
    words = text_tokens(load_prompt(PROMPT).text)
    for item, questions in asked:
        shown = who.preparation.shown_size(_size(item))
        for start in range(0, len(questions), who.questions_a_call):
            some = questions[start : start + who.questions_a_call]
            text = words + sum(12 + text_tokens(question.text) for question in some)
            usage = Usage(priced.image(shown) + text, 10 + _ANSWER_TOKENS * len(some))
            total = total + priced.call(usage)
    return total


def _grading(
    xtc_models: XtcModels, config: XtcConfig, pairs: int, settings: Settings
) -> ExpectedUsage:
    if not isinstance(xtc_models.grader, ChatGrader):
        # A panel may hold language models; what it takes is theirs to tell.
        return ExpectedUsage(usd=None) if "(" in config.grader else ExpectedUsage()
    calls = math.ceil(pairs / xtc_models.grader.pairs_a_call)
    priced = _Priced(config.grader, settings)
    each = Usage(
        120 + _PAIR_TOKENS * xtc_models.grader.pairs_a_call,
        _GRADE_TOKENS * xtc_models.grader.pairs_a_call,
    )
    return priced.call(each) * calls


class _Priced:
    """A language model of an account, and what its calls cost."""

    def __init__(self, spec: str, settings: Settings) -> None:
        self._account, self._model = split_judge(spec)
        self._known = self._account not in CHAT_KINDS
        if self._known:
            from scenewright.runs.model_factory.profiles import caller_of

            about = settings.account(self._account)
            self._caps = caps_of(about.provider, self._model, about.models.get(self._model))
            self._caller = caller_of(self._account, settings)
            # Another server's models are not the provider's, whatever they are called.
            self._priced_as = about.provider if about.base_url is None else self._account

    def image(self, size: tuple[int, int]) -> int:
        """Tokens of a picture of ``size`` (width, height)."""
        return image_tokens(self._caps.image_tokens, *size) if self._known else 0

    def call(self, usage: Usage) -> ExpectedUsage:
        """One call of ``usage``."""
        if not self._known:
            return ExpectedUsage(1, usage, 0.0)
        return ExpectedUsage(1, usage, self._caller.price_of(self._priced_as, self._model, usage))


def _size(item: Item) -> tuple[int, int]:
    """Pixels of an item's photo by the head of its file; a usual size where it cannot be read."""
    try:
        with Image.open(item.image or "") as photo:
            return photo.size
    except OSError:
        return _PHOTO
