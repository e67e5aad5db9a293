"""Unified models: a backend that draws and a model that understands, taken as one.

A model that really is one plugs in as a class of its own: see
:class:`~scenewright.evals.studies.xtc.base.UnifiedModel`. If two entries of an evaluation share one
of their sides, that side works once for both: see :func:`drawing_mark` and
:func:`understanding_mark`.

Any chat model that sees can answer the questions, and so can a judge. Judges say yes or no, or pick
one of few options; XTC-Bench's questions are open. Given the words that there are (values by key,
class labels, predicates), a judge is asked closed questions, worded as
:mod:`scenewright.core.questions` words them, and the likeliest answer counts:

- an attribute: ``Is the dog red?`` for each value of the key, or ``Is there a red big dog in the
  image?`` where the object is named by values;
- a retrieval: ``Is there a red dog in the image?`` for each label, with the values of the question;
- a relation: ``What is the relationship between the dog and the ball in the image?``, for each
  predicate once with three predicates and "no visible relationship" to choose from; the predicate
  that is likeliest against its rivals is the answer.

The judge sees the question's text by its phrases alone, never the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, Self, runtime_checkable

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from PIL import Image
from pydantic import Field, model_validator

from scenewright.agents.chat.language_replies import as_data, ask_for, digest_of, name_of, tool_of
from scenewright.agents.judges.pictures import ImagePreparation, image_tokens, prepare, text_tokens
from scenewright.agents.judges.sheet import clean
from scenewright.core.english import article
from scenewright.core.error_text import error_text
from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.backend import BackendError, GenerationRequest, ImageBackend
from scenewright.core.ports.composer import Composer
from scenewright.core.ports.judge import Judge
from scenewright.core.predicate_statistics import DEFAULT, PredicateStatistics, load_predicates
from scenewright.core.questions import relation_options
from scenewright.core.referring import option_text
from scenewright.core.scene import SceneGraph
from scenewright.core.validation import FrozenModel
from scenewright.evals.runner.config import digest
from scenewright.evals.runner.dataset_predicates import Predicates, mark_of
from scenewright.evals.studies.xtc.base import DrawnPicture, Question, Reply, UnifiedModel
from scenewright.prompts import load_prompt
from scenewright.providers.usage import ExpectedUsage, Usage
from scenewright.providers.versions import note_served

PROMPT = "answer_questions"
QUESTIONS_A_CALL = 20
"""More in one call get shorter and sloppier answers; a call sends the picture anew."""
_ANSWER_TOKENS = 14
"""Output tokens of an answer of a few words and its number."""
MOST_ANSWER = 300
"""Characters of an answer that are kept: a few words were asked for."""


@runtime_checkable
class Understander(Protocol):
    """Answers open questions about a picture."""

    @property
    def id(self) -> str:
        """For example ``chat:openai:gpt-…``."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever a question could get another answer."""
        ...

    async def answer(self, image: Image.Image, questions: Sequence[Question]) -> list[Reply]:
        """Answer as :meth:`~scenewright.evals.studies.xtc.base.UnifiedModel.answer` does."""
        ...


@dataclass(frozen=True)
class ChatUnderstander:
    """Implements :class:`Understander` by a chat model that takes images and calls a tool."""

    chat: BaseChatModel
    """The model."""
    preparation: ImagePreparation = field(default_factory=ImagePreparation)
    """What is done to a picture before it is sent."""
    questions_a_call: int = QUESTIONS_A_CALL
    """Most questions of one call."""
    image_rule: str = ""
    """How the provider counts the tokens of a picture; empty: not at all."""

    def __post_init__(self) -> None:
        """Check ``questions_a_call``; raises ``ValueError`` for calls without a question."""
        if self.questions_a_call < 1:
            raise ValueError(f"{self.questions_a_call} questions a call: use 1 or more")

    @property
    def id(self) -> str:
        """``chat:`` and the model's name."""
        return f"chat:{name_of(self.chat)}"

    @cached_property
    def fingerprint(self) -> str:
        """Model and its settings, prompt, preparation of pictures and questions of a call."""
        parts = (load_prompt(PROMPT).hash, repr(self.preparation), str(self.questions_a_call))
        return f"{self.id}@1#{digest_of(self.chat, *parts)}"

    async def answer(self, image: Image.Image, questions: Sequence[Question]) -> list[Reply]:
        """Return one reply a question; a call that fails leaves its questions without a text."""
        replies: list[Reply] = []
        for start in range(0, len(questions), self.questions_a_call):
            some = questions[start : start + self.questions_a_call]
            try:
                replies += await self._asked(image, some)
            except Exception as error:
                reason = error_text(error)
                replies += [Reply(text=None, reason=reason) for _ in some]
        return replies

    def expected(self, size: tuple[int, int], questions: Sequence[Question]) -> ExpectedUsage:
        """Return what answering ``questions`` is expected to take; no call is made.

        ``size`` is (width, height) of the picture in pixels.
        """
        shown = self.preparation.shown_size(size)
        words = text_tokens(load_prompt(PROMPT).text)
        if self.image_rule:
            words += image_tokens(self.image_rule, *shown)
        total = ExpectedUsage()
        for start in range(0, len(questions), self.questions_a_call):
            some = questions[start : start + self.questions_a_call]
            text = words + sum(12 + text_tokens(question.text) for question in some)
            total += expected_call(self.chat, Usage(text, 10 + _ANSWER_TOKENS * len(some)))
        return total

    async def _asked(self, image: Image.Image, questions: Sequence[Question]) -> list[Reply]:
        prompt = load_prompt(PROMPT)
        rows = [{"number": at, "question": q.text} for at, q in enumerate(questions, start=1)]
        picture = await prepare(image, self.preparation)
        text = prompt.render(questions=as_data(rows))
        asked = HumanMessage(content=[picture.block, {"type": "text", "text": text}])
        tool = tool_of(prompt)

        def read(arguments: Mapping[str, Any]) -> list[Reply]:
            return read_answers(arguments, len(questions))

        return (await ask_for(self.chat, [asked], tool, read)).value


def read_answers(arguments: Mapping[str, Any], n: int) -> list[Reply]:
    """Return the replies to questions 1 to ``n`` in a tool's ``arguments``.

    A number that is missing or given with different answers has no text and a reason; numbers that
    were not asked are passed over. Raises ``ValueError`` if nothing at all is usable.
    """
    replies, usable = [], False
    for number, said in numbered(arguments, "answers", "answer", n).items():
        given: dict[str, str] = {}
        for text in said:
            if isinstance(text, str) and (short := " ".join(clean(text, MOST_ANSWER).split())):
                given.setdefault(short.casefold(), short)
        usable = usable or bool(given)
        if len(given) == 1:
            replies.append(Reply(text=next(iter(given.values()))))
            continue
        what = "left out" if not given else f"given {len(given)} times, differently"
        reason = f"the model's answer to question {number} was {what}"
        replies.append(Reply(text=None, reason=reason))
    if n and not usable:
        raise ValueError(f"no answer to any of the numbers 1 to {n}")
    return replies


def numbered(arguments: Mapping[str, Any], field: str, value: str, n: int) -> dict[int, list[Any]]:
    """Return for each of the numbers 1 to ``n`` what the rows of a tool's ``field`` say of it.

    Other numbers are passed over. Raises ``ValueError`` if there are no rows.
    """
    rows = arguments.get(field)
    if not isinstance(rows, list):
        raise ValueError(f'there is no list "{field}" of {{number, {value}}}')
    found: dict[int, list[Any]] = {number: [] for number in range(1, n + 1)}
    for row in rows:
        number = whole_number(row.get("number")) if isinstance(row, Mapping) else None
        if number in found:
            found[number].append(row.get(value))
    return found


def whole_number(value: object) -> int | None:
    """Return ``value`` as a whole number; None for what is none."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        return int(value) if len(value.strip()) < 10 else None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(frozen=True)
class Paired:
    """Implements :class:`~scenewright.evals.studies.xtc.base.UnifiedModel` by two models."""

    name: str
    """How tables call it."""
    backend: ImageBackend
    """What draws."""
    understander: Understander
    """What answers."""
    composer: Composer | None = None
    """What words a scene for the backend, in place of the benchmark's prompt: for models that
    understand one form of words alone. With it, prompts of two models differ."""
    negative_prompt: str = ""
    """What to avoid, if the backend takes it."""
    steps: int | None = None
    """Denoising steps; none: the backend's default."""
    guidance: float | None = None
    """Classifier-free guidance scale; none: the backend's default."""
    size: tuple[int, int] | None = None
    """(width, height) in pixels; none: the backend's default."""

    @property
    def id(self) -> str:
        """The name."""
        return self.name

    @property
    def fingerprint(self) -> str:
        """Of both sides."""
        return digest(self.drawing_fingerprint, self.understanding_fingerprint)

    @property
    def drawing_fingerprint(self) -> str:
        """Changes whenever it could draw otherwise."""
        words = None if self.composer is None else self.composer.fingerprint
        settings = [self.negative_prompt, self.steps, self.guidance, self.size]
        return digest(self.backend.fingerprint, words, settings)

    @property
    def understanding_fingerprint(self) -> str:
        """Changes whenever it could answer otherwise."""
        return self.understander.fingerprint

    @property
    def parts(self) -> dict[str, str]:
        """What it is made of, for manifests."""
        found = {"backend": self.backend.id, "understander": self.understander.id}
        return found if self.composer is None else {**found, "composer": self.composer.id}

    async def draw(self, scene: SceneGraph, prompt: str, seed: int) -> DrawnPicture:
        """Draw ``prompt``, or the wording of ``scene`` by the composer, where there is one.

        Raises ``BackendError``, and what the composer's calls raise.
        """
        text = prompt if self.composer is None else await self.composer.compose(scene, seed)
        width, height = self.size or (None, None)
        request = GenerationRequest(
            prompt=text,
            negative_prompt=self.negative_prompt,
            seed=seed,
            steps=self.steps,
            guidance=self.guidance,
            width=width,
            height=height,
        )
        made = await self.backend.generate(request, _no_picture)
        return DrawnPicture(made.image, text, made.count)

    async def answer(self, image: Image.Image, questions: Sequence[Question]) -> list[Reply]:
        """Return the understander's replies."""
        return await self.understander.answer(image, questions)

    @property
    def drawer(self) -> str:
        """The backend's id, and the composer's where it has one."""
        return self.backend.id + (f" ({self.composer.id})" if self.composer is not None else "")

    def expected_drawing(self, text: str) -> ExpectedUsage:
        """Return what drawing ``text`` is expected to take; nothing on this machine."""
        return _expected(self.backend, text)

    def expected_answers(
        self, size: tuple[int, int], questions: Sequence[Question]
    ) -> ExpectedUsage:
        """Return what answering is expected to take; nothing on this machine.

        ``size`` is (width, height) of the picture in pixels.
        """
        return _expected(self.understander, size, questions)

    async def load(self) -> None:
        """Load the weights of both, of those that can be loaded ahead."""
        for model in (self.backend, getattr(self.understander, "judge", self.understander)):
            load = getattr(model, "load", None)
            if load is not None:
                await load()


def expected_call(chat: BaseChatModel, usage: Usage) -> ExpectedUsage:
    """Return one call of ``usage``; a model without prices costs nothing."""
    price: Any = getattr(chat, "price", None)
    return ExpectedUsage(1, usage, 0.0 if price is None else price(usage))


def _expected(model: Any, *asked: Any) -> ExpectedUsage:
    """Return what ``model`` expects to take; nothing for one that does not tell."""
    found: ExpectedUsage = getattr(model, "expected", lambda *_: ExpectedUsage())(*asked)
    return found


def drawing_mark(model: UnifiedModel) -> str:
    """Return what decides the pictures of ``model``.

    That is its ``drawing_fingerprint``, else its whole fingerprint.
    """
    return str(getattr(model, "drawing_fingerprint", None) or model.fingerprint)


def understanding_mark(model: UnifiedModel) -> str:
    """Return what decides the answers of ``model``.

    That is its ``understanding_fingerprint``, else its whole fingerprint.
    """
    return str(getattr(model, "understanding_fingerprint", None) or model.fingerprint)


def parts_of(model: UnifiedModel) -> dict[str, str]:
    """Return the parts of ``model``, if it names them."""
    return dict(getattr(model, "parts", {}))


def _no_picture(name: str) -> Image.Image:
    raise BackendError(f"unknown picture {name}: the request refers to none")


_VERSION = 2


class Vocabulary(FrozenModel):
    """The answers that there are."""

    values: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Attribute key → its values."""
    labels: tuple[str, ...] = ()
    """Class labels."""
    predicates: tuple[str, ...] = ()
    """Predicates."""
    options: str = DEFAULT
    """Where the wrong options of questions about relations come from."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        lists = {"labels": self.labels, "predicates": self.predicates}
        lists |= {f"values.{key}": words for key, words in self.values.items()}
        for what, words in lists.items():
            if len(set(words)) != len(words):
                raise ValueError(f"{what} lists a word twice: keep one")
        return self

    @classmethod
    def of(cls, scenes: Iterable[SceneGraph]) -> Vocabulary:
        """Return the words of ``scenes``, each list in alphabetical order."""
        values: dict[str, set[str]] = {}
        labels, predicates = set[str](), set[str]()
        for scene in scenes:
            labels.update(item.name for item in scene.objects)
            predicates.update(relation.predicate for relation in scene.relations)
            for item in scene.objects:
                for key, value in item.attributes.items():
                    values.setdefault(key, set()).add(value)
        return cls(
            values={key: tuple(sorted(found)) for key, found in sorted(values.items())},
            labels=tuple(sorted(labels)),
            predicates=tuple(sorted(predicates)),
        )


@dataclass(frozen=True)
class JudgeUnderstander:
    """Implements :class:`~scenewright.evals.studies.xtc.models.Understander` by a judge."""

    judge: Judge
    vocabulary: Vocabulary
    """The answers that there are."""
    predicates: Predicates = ""
    """Where the wrong options of questions about relations come from; empty: as the vocabulary
    says."""

    @property
    def id(self) -> str:
        """``judge:`` and the judge's id."""
        return f"judge:{self.judge.id}"

    @cached_property
    def fingerprint(self) -> str:
        """The judge's, the vocabulary, and how it is asked."""
        other = [mark_of(self.predicates)] if self.predicates else []
        words = self.vocabulary.model_dump_json()
        return digest(_VERSION, self.judge.fingerprint, words, *other)

    async def answer(self, image: Image.Image, questions: Sequence[Question]) -> list[Reply]:
        """Return one reply a question: the likeliest word.

        There is no text where the vocabulary has no word, the judge left one of its words unscored,
        or :meth:`outside` says why it is not asked.
        """
        asked = [self._askable(question) for question in questions]
        facts = [fact for choices, _ in asked for fact in choices.values()]
        answers: dict[str, Answer] = {}
        most = max(1, self.judge.caps.facts_per_call)
        for start in range(0, len(facts), most):
            try:
                found = await self.judge.answer(image, facts[start : start + most])
            except Exception as error:
                reason = error_text(error)
                return [Reply(text=None, reason=reason) for _ in questions]
            note_served(self.judge.id, self.judge.fingerprint, found)
            answers |= {answer.fact_id: answer for answer in found}
        return [
            Reply(text=None, reason=outside, final=True)
            if outside
            else _likeliest(question, choices, answers)
            for question, (choices, outside) in zip(questions, asked, strict=True)
        ]

    def expected(self, size: tuple[int, int], questions: Sequence[Question]) -> ExpectedUsage:
        """Return what the judge's answers are expected to take.

        ``size`` is (width, height) of the picture in pixels.
        """
        asked = (self._askable(question)[0] for question in questions)
        return _expected(self.judge, size, [fact for one in asked for fact in one.values()])

    def outside(self, question: Question) -> str:
        """Return why a judge of few words cannot be asked ``question``; empty if it can.

        Its objects or its right answer are outside of the judge's words. This is the one place
        that uses the right answer, and the judge does not see it.
        """
        return self._askable(question)[1]

    def _askable(self, question: Question) -> tuple[dict[str, Fact], str]:
        """Return the choices that the judge knows, and why it cannot be asked."""
        choices = self._choices(question)
        words = self.judge.caps.vocabulary
        if words is None:
            return choices, ""
        unknown = {word: found for word, fact in choices.items() if (found := words.unknown(fact))}
        right = question.predicates or (question.answer,)
        lost = next((unknown[word] for word in right if word in unknown), None)
        if lost is None and choices and len(unknown) == len(choices):
            lost = next(iter(unknown.values()))
        if lost is not None:
            return {}, words.reason(lost)
        return {word: fact for word, fact in choices.items() if word not in unknown}, ""

    def _choices(self, question: Question) -> dict[str, Fact]:
        """Return by word the fact that says it is the answer."""
        if question.kind == "relation":
            known = self.predicates or self.vocabulary.options
            known = load_predicates(known) if isinstance(known, str) else known
            return {
                word: _relation(f"{question.id}/{number}", question, word, known)
                for number, word in enumerate(self.vocabulary.predicates)
            }
        phrase = " ".join(question.phrases)
        if question.kind == "retrieval":
            words = self.vocabulary.labels
        else:
            words = self.vocabulary.values.get(question.key or "", ())
        found = {}
        for number, word in enumerate(words):
            text = f"Is the {phrase} {word}?"
            if question.kind == "retrieval":
                thing = " ".join([*question.phrases, word])
                text = f"Is there {article(thing)} {thing} in the image?"
            found[word] = Fact(
                id=f"{question.id}/{number}",
                kind="attribute",
                subject="subject",
                statement=text,
                question=text,
            )
        return found


def vocabulary_of(spec: str | Vocabulary, scenes: Iterable[SceneGraph]) -> Vocabulary:
    """Return the vocabulary that a configuration names.

    That is its own, ``set`` (the words of the set's ``scenes``) or ``miniature``.
    """
    if isinstance(spec, Vocabulary):
        return spec
    if spec == "set":
        return Vocabulary.of(scenes)
    from scenewright.miniature.world import COLORS, KINDS, PREDICATES

    return Vocabulary(
        values={"color": tuple(COLORS)},
        labels=tuple(KINDS),
        predicates=PREDICATES,
        options="miniature",
    )


def _relation(id: str, question: Question, word: str, predicates: PredicateStatistics) -> Fact:
    first, second = (*question.phrases, "thing", "thing")[:2]
    return Fact(
        id=id,
        kind="relation",
        subject="subject",
        target="target",
        predicate=word,
        statement=f"{first} {word} {second}",
        question=f"What is the relationship between the {first} and the {second} in the image?",
        options=relation_options(
            word, (first, second), (first, second), predicates=predicates
        ).offered,
        expected=option_text(word),
    )


def _likeliest(
    question: Question, choices: Mapping[str, Fact], answers: Mapping[str, Answer]
) -> Reply:
    if not choices:
        what = f"values of {question.key!r}" if question.kind == "attribute" else question.kind
        return Reply(text=None, reason=f"the judge was given no words for {what}")
    chances: dict[str, float] = {}
    for word, fact in choices.items():
        answer = answers.get(fact.id)
        if answer is None or answer.state not in ("yes", "no"):
            # The word that was not judged could be the likeliest.
            reason = "" if answer is None else answer.reason
            return Reply(text=None, reason=reason or f"the judge gave no answer about {word!r}")
        said = float(answer.state == "yes")
        chances[word] = said if answer.probability is None else answer.probability
    return Reply(text=max(chances, key=lambda word: chances[word]))
