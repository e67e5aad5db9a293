"""A judge as one that understands: it is asked closed questions, and the likeliest answer counts.

Judges say yes or no, or pick one of few options; XTC-Bench's questions are open. Given the words
that there are (values by key, class labels, predicates), every one is a fact that a judge can be
asked, worded as :mod:`scenewright.core.questions` words them:

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
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, model_validator

from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import Judge
from scenewright.core.predicate_statistics import DEFAULT, PredicateStatistics, load_predicates
from scenewright.core.questions import article, option_text, relation_options
from scenewright.core.scene import SceneGraph
from scenewright.evals.runner.arms import digest
from scenewright.evals.runner.dataset_predicates import Predicates, mark_of
from scenewright.evals.studies.xtc.base import Question, Reply, XtcError
from scenewright.providers.versions import note_served

_VERSION = 2


class Vocabulary(BaseModel):
    """The answers that there are."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
        for what, words in (("labels", self.labels), ("predicates", self.predicates)):
            if len(set(words)) != len(words):
                raise ValueError(f"{what} lists a word twice: keep one")
        for key, words in self.values.items():
            if len(set(words)) != len(words):
                raise ValueError(f"values.{key} lists a word twice: keep one")
        return self

    @classmethod
    def of(cls, scenes: Iterable[SceneGraph]) -> Vocabulary:
        """The words of ``scenes``, each list in alphabetical order."""
        values: dict[str, set[str]] = {}
        labels: set[str] = set()
        predicates: set[str] = set()
        for scene in scenes:
            for item in scene.objects:
                labels.add(item.name)
                for key, value in item.attributes.items():
                    values.setdefault(key, set()).add(value)
            predicates.update(relation.predicate for relation in scene.relations)
        return cls(
            values={key: tuple(sorted(found)) for key, found in sorted(values.items())},
            labels=tuple(sorted(labels)),
            predicates=tuple(sorted(predicates)),
        )


@dataclass(frozen=True)
class JudgeUnderstander:
    """Implements :class:`~scenewright.evals.studies.xtc.understanding.Understander` by a judge."""

    judge: Judge
    """Who is asked."""
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
        """One reply a question: the likeliest word; without a text where the vocabulary has none,
        the judge left one of its words unscored, or :meth:`outside` says why it is not asked."""
        asked = [self._askable(question) for question in questions]
        facts = [fact for choices, _ in asked for fact in choices.values()]
        answers: dict[str, Answer] = {}
        most = max(1, self.judge.caps.facts_per_call)
        for start in range(0, len(facts), most):
            try:
                found = await self.judge.answer(image, facts[start : start + most])
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"[:500]
                return [Reply(text=None, reason=reason) for _ in questions]
            note_served(self.judge.id, self.judge.fingerprint, found)
            answers |= {answer.fact_id: answer for answer in found}
        return [
            Reply(text=None, reason=outside) if outside else _likeliest(question, choices, answers)
            for question, (choices, outside) in zip(questions, asked, strict=True)
        ]

    def facts(self, questions: Sequence[Question]) -> list[Fact]:
        """What the judge is asked for these questions."""
        asked = map(self._askable, questions)
        return [fact for choices, _ in asked for fact in choices.values()]

    def outside(self, question: Question) -> str:
        """Return why a judge of few words cannot be asked ``question``; empty if it can.

        Its objects or its right answer are outside of the judge's words. This is the one place
        that looks at the right answer, and the judge is not told of it.
        """
        return self._askable(question)[1]

    def _askable(self, question: Question) -> tuple[dict[str, Fact], str]:
        """The choices that the judge knows, and why it cannot be asked."""
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

    async def aclose(self) -> None:
        """Nothing: judges are shared."""

    def _choices(self, question: Question) -> dict[str, Fact]:
        """Word → the fact that says it is the answer."""
        if question.kind == "relation":
            known = self.predicates or self.vocabulary.options
            known = load_predicates(known) if isinstance(known, str) else known
            facts = [
                _relation(f"{question.id}/{number}", question, word, known)
                for number, word in enumerate(self.vocabulary.predicates)
            ]
            return dict(zip(self.vocabulary.predicates, facts, strict=True))
        if question.kind == "retrieval":
            words: Sequence[str] = self.vocabulary.labels
            asked = [_there(" ".join([*question.phrases, word])) for word in words]
        else:
            words = self.vocabulary.values.get(question.key or "", ())
            asked = [f"Is the {' '.join(question.phrases)} {word}?" for word in words]
        return {
            word: Fact(
                id=f"{question.id}/{number}",
                kind="attribute",
                subject="subject",
                statement=text,
                question=text,
            )
            for number, (word, text) in enumerate(zip(words, asked, strict=True))
        }


def vocabulary_of(spec: str | Vocabulary, scenes: Iterable[SceneGraph]) -> Vocabulary:
    """The vocabulary that a configuration names: its own, ``set`` (the words of the set's
    ``scenes``) or ``miniature``. Raises ``XtcError`` for another name."""
    if isinstance(spec, Vocabulary):
        return spec
    if spec == "set":
        return Vocabulary.of(scenes)
    if spec == "miniature":
        from scenewright.miniature.world import COLORS, KINDS, PREDICATES

        return Vocabulary(
            values={"color": tuple(COLORS)},
            labels=tuple(KINDS),
            predicates=PREDICATES,
            options="miniature",
        )
    raise XtcError(
        f"there is no vocabulary {spec!r}: use set, miniature, or a table with values, labels and "
        "predicates"
    )


def _there(phrase: str) -> str:
    return f"Is there {article(phrase)} {phrase} in the image?"


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
        options=relation_options(word, (first, second), (first, second), predicates=predicates),
        expected=option_text(word),
    )


def _likeliest(
    question: Question, choices: Mapping[str, Fact], answers: Mapping[str, Answer]
) -> Reply:
    if not choices:
        what = f"values of {question.key!r}" if question.kind == "attribute" else question.kind
        return Reply(text=None, reason=f"the judge was given no words for {what}")
    known: dict[str, Answer] = {}
    for word, fact in choices.items():
        answer = answers.get(fact.id)
        if answer is None or answer.state not in ("yes", "no"):
            # The word that was not judged could be the likeliest.
            reason = "" if answer is None else answer.reason
            return Reply(text=None, reason=reason or f"the judge gave no answer about {word!r}")
        known[word] = answer
    return Reply(text=max(known, key=lambda word: _chance(known[word])))


def _chance(answer: Answer) -> float:
    if answer.probability is not None:
        return answer.probability
    return 1.0 if answer.state == "yes" else 0.0
