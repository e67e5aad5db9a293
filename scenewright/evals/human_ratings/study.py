"""What people are asked to rate: the tasks of a study, as they lie in ``study.json``.

The file names the arms, so it stays on the server: a rater's page shows pictures alone, in an
order of the rater's own (:mod:`scenewright.evals.human_ratings.order`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from scenewright.core.facts import Fact
from scenewright.core.ports.vision import Box

Kind = Literal["choice", "facts", "score", "objects"]
"""``choice``: one of several candidates; ``facts``: yes, no or cannot tell for each fact of a
picture; ``score``: 1 to 5 for a picture; ``objects``: 1 to 5 for the shape and for the texture of
one object of a picture."""
KINDS: tuple[Kind, ...] = get_args(Kind)
POINTS = 5
"""The best score; the worst is 1."""
FACT_VALUES = ("yes", "no", "cannot tell")
"""What a rater may say of a fact."""
Aspect = Literal["shape", "texture"]
"""What is rated of an object (Liang et al., Sec. 3.2)."""
ASPECTS: tuple[Aspect, ...] = get_args(Aspect)
UNFIT, FIT = "cannot tell", "can tell"
"""What a rater says of an object as a whole: its box shows no such object or cannot be rated, or
it can after all. The first takes the object out of the study."""
ARM_SEPARATOR = "|"
"""Stands between the arms of one cell in exported tables, so no arm's name holds it."""
STUDY = "study.json"
IMAGES = "images"
DATABASE = "ratings.sqlite"

QUESTIONS: dict[Kind, tuple[str, str]] = {
    "choice": (
        "Select the candidate image that best matches the original image based on object "
        "alignment and relationships.",
        "Select the candidate image that best matches the scene below based on object alignment "
        "and relationships.",
    ),
    "facts": ("Does each statement hold in this picture?",) * 2,
    "score": ("How well does the picture show what the text asks for?",) * 2,
    "objects": ("How real does this object look?",) * 2,
}
"""What is asked where the tasks have an original, and where they have none. The first is that of
the paper (Scene-Bench, appendix B.4)."""
WHOLE_QUESTION = "How real does the picture look as a whole?"
"""What is asked of some pictures of a study of objects (Liang et al., Sec. 3.2)."""


class RatingError(ValueError):
    """A study or a table of ratings that cannot be made, read or rated; says what to do."""


class Candidate(BaseModel):
    """A picture that is rated."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    arm: str = Field(min_length=1, max_length=300)
    """What drew it; raters never see this."""
    image: str
    """Content hash of the picture in the study's folder."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if ARM_SEPARATOR in self.arm:
            raise ValueError(f"the arm {self.arm!r} holds {ARM_SEPARATOR!r}: give it another name")
        return self


class Thing(BaseModel):
    """The object of a picture that is rated."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    id: str = Field(min_length=1)
    """Unique in its study; its name in what is exported."""
    category: str = Field(min_length=1)
    """Class label, which raters see."""
    box: Box
    """Left, top, right, bottom in pixels of the study's picture."""
    size: tuple[int, int]
    """Width and height of that picture."""
    crop: str
    """Content hash of the square around it in the study's folder."""
    score: float = Field(default=1.0, ge=0.0, le=1.0)
    """Confidence of its detection; raters never see this."""


class Rule(BaseModel):
    """How many raters an object gets (Liang et al., Sec. 3.2)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    raters: int = Field(default=2, ge=1, le=20)
    """So many rate each object."""
    apart: int = Field(default=3, ge=1, le=POINTS)
    """Where two of their scores of one aspect differ by so much, one more rater is asked;
    :data:`POINTS` never happens."""


class Task(BaseModel):
    """What is shown at once: the candidates of an item, or one picture of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1)
    """Unique in its study."""
    item: str = Field(min_length=1)
    """The item that was asked for."""
    candidates: tuple[Candidate, ...] = Field(min_length=1)
    """Two or more for a choice, else one."""
    original: str | None = None
    """Content hash of the original photo."""
    prompt: str = ""
    """The item's own text."""
    phrases: tuple[str, ...] = ()
    """The scene in words, a relation or a lone object each."""
    facts: tuple[Fact, ...] = ()
    """What is asked of each picture, parents before children; for ``facts`` alone."""
    thing: Thing | None = None
    """What is rated; for ``objects`` alone, where none means the picture as a whole."""


class RatingStudy(BaseModel):
    """The tasks, and how they are put to raters."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    """Of the format."""
    name: str = Field(min_length=1, max_length=200)
    """What raters see as the title."""
    kind: Kind
    """What a rater does."""
    arms: tuple[str, ...] = Field(min_length=1)
    """All arms."""
    question: str = ""
    """What is asked; empty: that of :data:`QUESTIONS`."""
    scale: tuple[str, str] = ("not at all", "completely")
    """What 1 and 5 mean."""
    seed: int = Field(default=0, ge=0)
    """With the rater's name, the seed of the order of tasks and candidates."""
    repeats: float = Field(default=0.0, ge=0.0, le=1.0)
    """Share of the tasks that every rater meets twice."""
    rule: Rule = Rule()
    """How many raters an object gets; for ``objects`` alone, as others show all tasks to all."""
    source: str = ""
    """What it was made from."""
    left_out: dict[str, int] = Field(default_factory=dict)
    """Why items are not in it → how many."""
    tasks: tuple[Task, ...] = Field(min_length=1)
    """What is rated."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len({task.id for task in self.tasks}) < len(self.tasks):
            raise ValueError("two tasks have the same id")
        for task in self.tasks:
            n = len(task.candidates)
            if (n < 2) if self.kind == "choice" else (n != 1):
                raise ValueError(f"task {task.id} has {n} pictures, which is no {self.kind}")
            if len({candidate.arm for candidate in task.candidates}) < n:
                raise ValueError(f"task {task.id} has two pictures of one arm")
            if self.kind == "facts" and not task.facts:
                raise ValueError(f"task {task.id} has no facts")
            if self.kind != "objects" and task.thing is not None:
                raise ValueError(f"task {task.id} has an object, which is no {self.kind}")
        things = [task.thing.id for task in self.tasks if task.thing is not None]
        if len(set(things)) < len(things):
            raise ValueError("two objects have the same id")
        return self

    def asked(self, task: Task) -> str:
        """The question above ``task``."""
        if self.kind == "objects" and task.thing is None:
            return WHOLE_QUESTION
        return self.question or QUESTIONS[self.kind][task.original is None]

    def kind_of(self, task: Task) -> Kind:
        """How ``task`` is asked: a picture as a whole is scored, in a study of objects too."""
        return "score" if self.kind == "objects" and task.thing is None else self.kind


class StudyFolder:
    """A folder that holds a study, its pictures and what was rated."""

    def __init__(self, folder: str | Path) -> None:
        """Opens ``folder``; raises ``RatingError`` if it holds no study."""
        self.folder = Path(folder)
        file = self.folder / STUDY
        try:
            text = file.read_bytes()
        except OSError as error:
            raise RatingError(
                f"{self.folder} holds no study to rate ({STUDY}: {error.strerror}): "
                "make one with `scenewright rate make`"
            ) from error
        try:
            self.study = RatingStudy.model_validate_json(text)
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(map(str, problem["loc"]))
            raise RatingError(
                f"{file} is damaged: {where + ': ' if where else ''}{problem['msg']}"
            ) from error

    @property
    def database(self) -> Path:
        """File of the ratings."""
        return self.folder / DATABASE

    def picture(self, image: str) -> Path:
        """File of the picture with this hash."""
        return self.folder / IMAGES / f"{image}.png"
