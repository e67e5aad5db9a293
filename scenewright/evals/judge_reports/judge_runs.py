"""Ask judges about labelled facts, each question in all its variants.

Answers go through the store of :mod:`scenewright.providers`, so that a stopped run continues where
it was and pays for nothing twice.

A judge that looks at the picture gives one answer to all variants of a question. Options of a
choice are rotated, so that each is in each place once (as in the permutation tests of Zheng et al.,
2024, "Large language models are not robust multiple choice selectors"): once with "no visible
relationship" kept last, where runs always offer it, and once with all of them. A yes/no question
offers its options in its words, "Yes or no?" and "No or yes?". Paraphrases are fixed templates;
'Does this figure show "…"?' is that of VQAScore (Lin et al., 2024), the others are plain wordings
of the same.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from PIL import Image

from scenewright.agents.judges.replay import ReplayJudge
from scenewright.core.facts import Answer, Fact
from scenewright.core.images import hash_of_image
from scenewright.core.ports.judge import Judge, JudgeCaps
from scenewright.core.questions import NO_RELATION
from scenewright.evals.judge_reports.labelled_facts import LabelledFact, Picture
from scenewright.evals.runner.progress import side_by_side
from scenewright.providers import AnswerStore, ask
from scenewright.providers.sdk_clients import paid_by
from scenewright.providers.versions import mixture_text

Form = Literal["plain", "order", "turn", "paraphrase"]

_ONE = re.compile(r"Is there (?P<thing>an? .+) in the image\?", re.DOTALL)
_MANY = re.compile(r"Are there at least (?P<thing>\d+ .+) in the image\?", re.DOTALL)
_STATE = re.compile(r"Is the (?P<thing>.+)\?", re.DOTALL)
_RELATION = re.compile(r"What is the relationship between (?P<thing>.+) in the image\?", re.DOTALL)
_TEMPLATES: tuple[tuple[re.Pattern[str], tuple[str, str]], ...] = (
    (_ONE, ('Does this figure show "{thing}"?', "Can you see {thing} in the picture?")),
    (_MANY, ('Does this figure show "at least {thing}"?', "Can you see at least {thing}?")),
    (_STATE, ("In the picture, is the {thing}?", "Looking at the image, is the {thing}?")),
    (_RELATION, ("How are {thing} related in the picture?", "Which relation holds for {thing}?")),
)
_ANY = ("Look at the picture. {question}", "In this image: {question}")
PARAPHRASES = 2
"""How many each question has."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A fact, asked in one of several ways."""

    form: Form
    """``plain`` as it is; ``order``: its options in another order that a run might offer;
    ``turn``: with "no visible relationship" in another place too; ``paraphrase``."""
    fact: Fact
    """The fact with that question or those options; its id is kept."""


def variants_of(
    fact: Fact, orders: bool = True, turns: bool = True, paraphrases: int = PARAPHRASES
) -> list[Variant]:
    """``fact`` as it is, then in other orders of its options, then in other words.

    A choice among k options has k − 1 further orders, or k − 2 if the last one is "no visible
    relationship" and k − 1 ``turns`` of them all; a yes/no question has two wordings of its
    options; ``paraphrases`` (0–2) of either follow. Deterministic.
    """
    # A report is about these questions: none is asked once more by class label, or
    # together with others.
    fact = fact.model_copy(update={"counting": None})
    found = [Variant("plain", fact)]
    if orders:
        found += [Variant("order", ordered) for ordered in _orders(fact)]
    if turns and keeps_last(fact):
        found += [Variant("turn", turned) for turned in _turned(fact, len(fact.options))]
    for question in paraphrases_of(fact)[:paraphrases]:
        found.append(Variant("paraphrase", fact.model_copy(update={"question": question})))
    return found


def keeps_last(fact: Fact) -> bool:
    """Whether runs keep the last option of ``fact`` in its place."""
    return not fact.is_binary and len(fact.options) > 2 and fact.options[-1] == NO_RELATION


def _orders(fact: Fact) -> list[Fact]:
    if fact.is_binary:
        # The options of a yes/no question are in nobody's prompt: they must be said.
        return [
            fact.model_copy(
                update={
                    "question": f"{fact.question} {first.capitalize()} or {second}?",
                    "options": (first, second),
                }
            )
            for first, second in (("yes", "no"), ("no", "yes"))
        ]
    return _turned(fact, len(fact.options) - keeps_last(fact))


def _turned(fact: Fact, first: int) -> list[Fact]:
    """``fact`` with its ``first`` options turned by 1, 2, …; the others stay."""
    return [
        fact.model_copy(
            update={
                "options": (
                    *fact.options[by:first],
                    *fact.options[:by],
                    *fact.options[first:],
                )
            }
        )
        for by in range(1, first)
    ]


def paraphrases_of(fact: Fact) -> tuple[str, ...]:
    """Return the question of ``fact`` in other words.

    Its own form's templates, or some that fit any.
    """
    for pattern, templates in _TEMPLATES:
        found = pattern.fullmatch(fact.question)
        if found:
            # Names are data: braces in them are no fields.
            return tuple(template.replace("{thing}", found["thing"]) for template in templates)
    return tuple(template.replace("{question}", fact.question) for template in _ANY)


def subject_of(fact: Fact) -> tuple[str, ...]:
    """Return the subject of ``fact``, without its claim.

    Facts that may rule each other out have the same. Facts without a subject go by their words.
    """
    if not fact.subject:
        return (fact.question,)
    return (fact.kind, *sorted((fact.subject, fact.target or "")), fact.key or "")


ORIGIN = "judges"
"""Who paid for the answers, in the store: reports and calibrations alike."""
AT_ONCE = 16
"""Pictures that one remote judge is asked about at a time."""


@dataclass(frozen=True, slots=True)
class VariantPlan:
    """In which ways every question is put."""

    orders: bool = True
    """Also with the options in other orders."""
    turns: bool = True
    """Also with "no visible relationship" in other places."""
    paraphrases: int = PARAPHRASES
    """Also in so many other words."""

    def variants(self, fact: Fact) -> list[Variant]:
        """Return the ways in which ``fact`` is put; the plain one is the first."""
        return variants_of(fact, self.orders, self.turns, self.paraphrases)


PLAIN = VariantPlan(orders=False, turns=False, paraphrases=0)
"""Every question once, as it is."""


@dataclass(frozen=True, slots=True)
class SheetCall:
    """A sheet of questions about one picture, put to a judge at once."""

    questions: int
    """How many questions it held."""
    seconds: float
    """How long the judge took; 0 where others had paid for the answers."""
    plain: bool
    """Whether the questions were put as they are."""


@dataclass(slots=True)
class JudgeRun:
    """What one judge said."""

    judge_id: str
    """``provider:model``."""
    fingerprint: str
    """The judge's."""
    caps: JudgeCaps
    """What it can do."""
    recorded: bool
    """It answers from a record, which holds no variants."""
    variants: list[list[Variant]]
    """One list a fact: the ways in which it was put, the plain one first."""
    answers: list[list[Answer]]
    """One answer a variant."""
    calls: list[SheetCall] = field(default_factory=list)
    """One a call."""

    @property
    def mixture(self) -> str:
        """A sentence that says of which served versions the answers are; empty for one at most."""
        return mixture_text(self.judge_id, (answer for row in self.answers for answer in row))


OnAnswered = Callable[[str, int], None]
"""Is told the judge's id and how many questions were answered, of a store or of the judge."""


def plan_for(judge: Judge, plan: VariantPlan) -> VariantPlan:
    """``plan``, but plain for a recorded judge: a record knows neither order nor other words."""
    return PLAIN if isinstance(judge, ReplayJudge) else plan


def count_questions(judge: Judge, facts: Sequence[LabelledFact], plan: VariantPlan) -> int:
    """How many questions :func:`run_judges` puts to ``judge``."""
    mine = plan_for(judge, plan)
    return sum(len(mine.variants(f.fact)) for f in facts)


async def run_judges(
    judges: Sequence[Judge],
    facts: Sequence[LabelledFact],
    *,
    store: AnswerStore,
    plan: VariantPlan | None = None,
    at_once: int = AT_ONCE,
    limit: float | None = None,
    heard: OnAnswered = lambda judge, n: None,
) -> list[JudgeRun]:
    """Ask every judge of ``facts``; one interview a judge, in their order.

    Facts of one picture go in one call, except those that may rule each other out (a red dog, a
    blue dog) and the variants of one question: a judge that saw them together would be
    consistent without looking. Local judges take turns, so that they do not slow each other
    down; remote ones are asked about ``at_once`` pictures at a time. ``limit``: seconds a call.

    A failed call gives unscored answers, which are not kept. Raises ``ImageError`` for a picture
    that cannot be read and ``StoreError`` (both maybe in an ``ExceptionGroup``).
    """
    pictures: dict[str, tuple[Picture, list[int]]] = {}
    for at, labelled in enumerate(facts):
        pictures.setdefault(labelled.picture.name, (labelled.picture, []))[1].append(at)
    found = [_begin(judge, facts, plan or VariantPlan()) for judge in judges]

    async def hear(judge: Judge, kept: JudgeRun) -> None:
        asked = _Loading(judge)

        async def work(shown: tuple[Picture, list[int]]) -> None:
            picture, members = shown
            image, image_hash = await asyncio.to_thread(_opened, picture)
            for sheet in _sheets(members, kept.variants):
                questions = [kept.variants[f][v].fact for f, v in sheet]
                got = await ask(
                    asked, image_hash, image, questions, store=store, limit=limit, origin=ORIGIN
                )
                for (f, v), answer in zip(sheet, got.answers, strict=True):
                    kept.answers[f][v] = answer
                seconds = sum(answer.seconds for answer in got.answers)
                kept.calls.append(SheetCall(len(sheet), seconds, sheet[0][1] == 0))
                heard(judge.id, len(sheet))

        await side_by_side(pictures.values(), work, 1 if judge.caps.local else at_once)

    async def in_turn(those: list[tuple[Judge, JudgeRun]]) -> None:
        for judge, kept in those:
            await hear(judge, kept)

    pairs = list(zip(judges, found, strict=True))
    with paid_by(store):
        async with asyncio.TaskGroup() as group:
            group.create_task(in_turn([pair for pair in pairs if pair[0].caps.local]))
            for pair in pairs:
                if not pair[0].caps.local:
                    group.create_task(hear(*pair))
    return found


def _begin(judge: Judge, facts: Sequence[LabelledFact], plan: VariantPlan) -> JudgeRun:
    mine = plan_for(judge, plan)
    variants = [mine.variants(f.fact) for f in facts]
    nothing = [
        [
            Answer(fact_id=v.fact.id, judge_id=judge.id, state="unscored", reason="not asked")
            for v in row
        ]
        for row in variants
    ]
    recorded = isinstance(judge, ReplayJudge)
    return JudgeRun(judge.id, judge.fingerprint, judge.caps, recorded, variants, nothing)


def _sheets(
    members: Sequence[int], variants: Sequence[Sequence[Variant]]
) -> Iterator[list[tuple[int, int]]]:
    """(fact, variant) pairs that are asked together, of the facts of one picture."""
    parts: list[list[int]] = []
    subjects: list[set[tuple[str, ...]]] = []
    for at in members:
        subject = subject_of(variants[at][0].fact)
        place = next((n for n, taken in enumerate(subjects) if subject not in taken), len(parts))
        if place == len(parts):
            parts.append([])
            subjects.append(set())
        parts[place].append(at)
        subjects[place].add(subject)
    for number in range(max(len(variants[at]) for at in members)):
        for part in parts:
            sheet = [(at, number) for at in part if number < len(variants[at])]
            if sheet:
                yield sheet


def _opened(picture: Picture) -> tuple[Image.Image, str]:
    image = picture.load()
    return image, hash_of_image(image)


class _Loading:
    """A judge whose weights are loaded when it is first asked, and not if the store has all."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._loaded = False

    @property
    def id(self) -> str:
        return self._judge.id

    @property
    def fingerprint(self) -> str:
        return self._judge.fingerprint

    @property
    def caps(self) -> JudgeCaps:
        return self._judge.caps

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        load = getattr(self._judge, "load", None)
        if load is not None and not self._loaded:
            # Outside of the first call's time: loading says nothing of how fast it answers.
            await load()
            self._loaded = True
        return await self._judge.answer(image, facts)

    async def aclose(self) -> None:
        await self._judge.aclose()
