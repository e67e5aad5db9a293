"""Types and protocols of XTC-Bench: questions, unified models, graders, scores of facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from PIL import Image
from pydantic import Field

from scenewright.core.errors import ScenewrightError
from scenewright.core.ports.backend import PromptCount
from scenewright.core.scene import SceneGraph
from scenewright.core.validation import FiniteModel, FrozenModel

QuestionKind = Literal["attribute", "retrieval", "relation"]
"""What a question asks for: the value of an attribute, which object it is, or how two objects are
related (XTC-Bench, Sec. 3.2.5)."""
QUESTION_KINDS: tuple[QuestionKind, ...] = ("attribute", "retrieval", "relation")


BEST = 5
"""The grade of an answer that is fully correct."""


class XtcError(ScenewrightError, ValueError):
    """An evaluation of XTC-Bench that cannot be; says what to change."""


class Question(FrozenModel):
    """A question about exactly one fact of a scene, or about one edge with all its predicates."""

    id: str
    """Stable within a scene: ``attribute:dog.1:color``, ``retrieval:dog.1``,
    ``relation:dog.1|ball.1`` (separators within a part have a backslash before them)."""
    kind: QuestionKind
    """What it asks for."""
    text: str
    """As a model is asked: ``What is the color of the red car?``"""
    answer: str
    """The right answer by the reference graph: ``red``; of parallel edges ``on and under``."""
    facts: tuple[str, ...] = Field(min_length=1)
    """Ids of the facts (as in :mod:`scenewright.core.questions`) that it asks about."""
    subject: str
    """Object id that it is about; of a relation, the source."""
    target: str | None = None
    """Object id of the relation's target."""
    key: str | None = None
    """Attribute key that is asked for."""
    predicates: tuple[str, ...] = ()
    """The predicates of the edge, in the scene's order."""
    phrases: tuple[str, ...] = ()
    """How the objects are called in it, without an article: ``red car``; of a retrieval the values
    that it names."""


class Unasked(FrozenModel):
    """A fact of the scene that no question asks for."""

    fact: str
    """Its id."""
    reason: str
    """Why: ``no attributes tell dog.1 from dog.2``."""


class QuestionSheet(FrozenModel):
    """All questions of a scene."""

    questions: tuple[Question, ...]
    """Attributes, then retrievals, then relations, each in the scene's order."""
    unasked: tuple[Unasked, ...] = ()
    """What could not be asked; every fact of the scene is in a question or here."""


class Reply(FrozenModel):
    """What a model said to one question."""

    text: str | None
    """Its answer, in its words; None if it gave nothing usable."""
    reason: str = ""
    """Why there is none."""
    final: bool = False
    """Whether no other try could give one: the model has no words for it."""


@dataclass(frozen=True, slots=True)
class DrawnPicture:
    """A picture, and how much of its prompt was read."""

    image: Image.Image
    """The picture."""
    prompt: str = ""
    """The words that the count is of; empty: those that the model was asked with."""
    count: PromptCount | None = None
    """How many tokens the prompt has, and how many were not read; None: not known."""


@runtime_checkable
class UnifiedModel(Protocol):
    """A model that draws and understands: what XTC-Bench evaluates.

    A real one plugs in as one class; :mod:`scenewright.evals.studies.xtc.models` makes one of a
    backend and a judge or chat model.
    """

    @property
    def id(self) -> str:
        """How tables call it."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever it could draw or answer otherwise."""
        ...

    async def draw(self, scene: SceneGraph, prompt: str, seed: int) -> Image.Image | DrawnPicture:
        """Return the picture of ``prompt``, which words ``scene``.

        It is a :class:`DrawnPicture` where it is known how much of the prompt was read. May raise:
        the facts of the scene are then unscored on the side of generation, with the reason.
        """
        ...

    async def answer(self, image: Image.Image, questions: Sequence[Question]) -> list[Reply]:
        """Return one reply a question about ``image``, in order.

        Looks at :attr:`Question.text` and, if it must choose, at options of its own; never at the
        answer. Failures are replies without a text.
        """
        ...


class Grade(FrozenModel):
    """How well an answer fits the right one."""

    score: int | None = Field(ge=0, le=BEST)
    """0 (fully wrong) to 5 (fully correct); None if it could not be graded."""
    reason: str = ""
    """Why not."""

    @property
    def share(self) -> float | None:
        """The score as a number in [0, 1] (Sec. 3.3.1); None if there is none."""
        return None if self.score is None else self.score / BEST


class AnswerPair(FrozenModel):
    """Two answers to compare."""

    question: str
    """What was asked."""
    expected: str
    """The right answer."""
    given: str
    """The answer to be graded."""
    best: bool = False
    """Whether each answer may name several things of which the best match counts: relations of one
    pair of objects. Else a list is graded as a whole."""


@runtime_checkable
class Grader(Protocol):
    """Grades answers 0 to 5 by their meaning (XTC-Bench, Sec. 6.2.4)."""

    @property
    def id(self) -> str:
        """``account:model``, or ``lexical@2``: in every result."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever an answer could get another grade."""
        ...

    async def grade(self, pairs: Sequence[AnswerPair]) -> list[Grade]:
        """Return one grade a pair, in order; failures are grades without a score."""
        ...


class FactScore(FiniteModel):
    """Both sides of one question: what was drawn, and what was understood."""

    scene: str
    """Id of the item."""
    question: str
    """Id of the question."""
    kind: QuestionKind
    """What it asks for."""
    category: str
    """Attribute dimension or class of predicate (XTC-Bench, Sec. 6.4.1); empty for retrievals."""
    matched: bool
    """Whether every object of it has a partner in the graph of the drawn picture."""
    u: float | None = Field(default=None, ge=0.0, le=1.0)
    """Generation: the grade of the answer read from the drawn picture's graph, over 5. An object or
    edge that is missing there is 0."""
    v: float | None = Field(default=None, ge=0.0, le=1.0)
    """Understanding: the grade of the model's own answer, over 5."""
    drawn: str = ""
    """The answer that the graph of the drawn picture gives."""
    said: str = ""
    """The model's answer."""
    expected: str = ""
    """The right answer."""
    reason: str = ""
    """Why a side is unscored."""
    final: bool = False
    """Whether no other try could score it: a model has no words for it."""
