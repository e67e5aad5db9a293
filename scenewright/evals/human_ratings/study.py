"""Studies: their tasks as in ``study.json``, the order for each rater, and rules of answers.

The file names the arms, so it stays on the server: a rater's page shows only pictures, in the
rater's own order (:func:`order_for`).

Of an object two raters are asked, and one more where they differ widely (Liang et al., Sec. 3.2: by
three or more in either question). Objects whose box does not show the object are taken out (Sec.
3.1).
"""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from scenewright.core.errors import ScenewrightError
from scenewright.core.facts import Fact
from scenewright.core.flushing import replacing
from scenewright.core.ports.vision import Box
from scenewright.core.validation import FrozenModel

Kind = Literal["choice", "facts", "score", "objects"]
"""``choice``: one of several candidates, of two also neither; ``facts``: yes, no or cannot tell for
each fact of a picture; ``score``: 1 to 5 for a picture; ``objects``: 1 to 5 for the shape and for
the texture of one object of a picture."""
KINDS: tuple[Kind, ...] = get_args(Kind)
POINTS = 5
"""The best score; the worst is 1."""
FACT_VALUES = ("yes", "no", "cannot tell")
"""What a rater may say of a fact."""
TIE = "no difference"
"""What a rater may say of two candidates instead of choosing one."""
Aspect = Literal["shape", "texture"]
"""What is rated of an object (Liang et al., Sec. 3.2)."""
ASPECTS: tuple[Aspect, ...] = get_args(Aspect)
UNFIT, FIT = "cannot tell", "can tell"
"""What a rater says of an object as a whole: its box shows no such object or cannot be rated, or
it can after all. The first takes the object out of the study."""
ARM_SEPARATOR = "|"
"""Stands between the arms of one cell in exported tables, so no arm's name holds it."""
Tick = Callable[[int, int], None]
"""Callback of progress: how many are done, of how many."""
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


class RatingError(ScenewrightError, ValueError):
    """A study or a table of ratings that cannot be made, read or rated; says what to do."""


class Candidate(FrozenModel):
    """A picture to rate."""

    arm: str = Field(min_length=1, max_length=300)
    """Arm that drew it; raters never see this."""
    image: str
    """Content hash of the picture in the study's folder."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if ARM_SEPARATOR in self.arm:
            raise ValueError(f"the arm {self.arm!r} holds {ARM_SEPARATOR!r}: give it another name")
        return self


class Thing(BaseModel):
    """The object of a picture to rate."""

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


class Rule(FrozenModel):
    """Number of raters of an object (Liang et al., Sec. 3.2)."""

    raters: int = Field(default=2, ge=1, le=20)
    """Raters of each object."""
    apart: int = Field(default=3, ge=1, le=POINTS)
    """Where two of their scores of one aspect differ by so much, one more rater is asked;
    :data:`POINTS` never happens."""


class Task(FrozenModel):
    """The content of one page: the candidates of an item, or one picture of it."""

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
    """The scene in sentences, a relation or a lone object each."""
    facts: tuple[Fact, ...] = ()
    """Questions about each picture, parents before children; for ``facts`` only."""
    thing: Thing | None = None
    """Object to rate; for ``objects`` only, where None means the picture as a whole."""


class RatingStudy(FrozenModel):
    """Tasks and the way they are shown to raters."""

    version: Literal[1] = 1
    """Version of the format."""
    name: str = Field(min_length=1, max_length=200)
    """Title that raters see."""
    kind: Kind
    arms: tuple[str, ...] = Field(min_length=1)
    question: str = ""
    """Question to raters; empty: that of :data:`QUESTIONS`."""
    scale: tuple[str, str] = ("not at all", "completely")
    """Meanings of 1 and 5."""
    seed: int = Field(default=0, ge=0)
    """With the rater's name, the seed of the order of tasks and candidates."""
    repeats: float = Field(default=0.0, ge=0.0, le=1.0)
    """Share of the tasks that every rater meets twice."""
    rule: Rule = Rule()
    """How many raters an object gets; for ``objects`` alone, as others show all tasks to all."""
    source: str = ""
    left_out: dict[str, int] = Field(default_factory=dict)
    """Why items are not in it → how many."""
    tasks: tuple[Task, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len({task.id for task in self.tasks}) < len(self.tasks):
            raise ValueError("two tasks have the same id")
        for task in self.tasks:
            n = len(task.candidates)
            if (n < 2) if self.kind == "choice" else (n != 1):
                raise ValueError(
                    f"task {task.id} has {n} pictures, which does not fit the kind {self.kind}"
                )
            if len({candidate.arm for candidate in task.candidates}) < n:
                raise ValueError(f"task {task.id} has two pictures of one arm")
            if self.kind == "facts" and not task.facts:
                raise ValueError(f"task {task.id} has no facts")
            if self.kind != "objects" and task.thing is not None:
                raise ValueError(
                    f"task {task.id} has an object, which does not fit the kind {self.kind}"
                )
        things = [task.thing.id for task in self.tasks if task.thing is not None]
        if len(set(things)) < len(things):
            raise ValueError("two objects have the same id")
        return self

    def asked(self, task: Task) -> str:
        """Return the question above ``task``."""
        if self.kind == "objects" and task.thing is None:
            return WHOLE_QUESTION
        return self.question or QUESTIONS[self.kind][task.original is None]

    def form(self, task: Task) -> Form:
        """Return what is asked of ``task``."""
        whole = self.kind == "objects" and task.thing is None
        return Form("score" if whole else self.kind, task)


class StudyFolder:
    """Folder of a study, its pictures and its ratings."""

    def __init__(self, folder: str | Path) -> None:
        """Open ``folder``; raises ``RatingError`` if it holds no study."""
        self.folder = Path(folder)
        file = self.folder / STUDY
        try:
            text = file.read_bytes()
        except OSError as error:
            raise RatingError(
                f"{self.folder} is not the folder of a study ({STUDY}: {error.strerror}): "
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
        """Return the file of the ratings."""
        return self.folder / DATABASE

    def picture(self, image: str) -> Path:
        """Return the file of the picture with this hash."""
        return self.folder / IMAGES / f"{image}.png"


WHOLE = ""
"""In place of a fact's id: the rating is of the task as a whole."""


Scores = tuple[int, ...]
"""Shape and texture, or the one score of a picture as a whole."""


def void_facts(facts: Sequence[Fact], values: Mapping[str, str]) -> frozenset[str]:
    """Return the ids of facts that are not asked because the rater denies what they depend on.

    This holds for facts of every protocol. ``values``: fact id → the rater's answer.
    """
    void: set[str] = set()
    for fact in facts:
        if any(one in void or values.get(one) == "no" for one in fact.depends_on):
            void.add(fact.id)
    return frozenset(void)


def question_of(fact: Fact) -> tuple[str, str]:
    """Return what a person decides of ``fact``: facts that share it have one answer.

    The other options are no part of it: people say whether the expected one is right.
    """
    return fact.question, fact.expected


def sheet(facts: Sequence[Fact]) -> tuple[Fact, ...]:
    """Return ``facts`` as people are asked: each question once, and with what it depends on.

    Objects that no words tell apart share their questions. What depends on one of them then
    depends on the question that stands for it.
    """
    first: dict[tuple[str, str], str] = {}
    stands = {fact.id: first.setdefault(question_of(fact), fact.id) for fact in facts}
    kept = (fact for fact in facts if stands[fact.id] == fact.id)
    return tuple(
        fact.model_copy(
            update={"parents": tuple(dict.fromkeys(stands.get(on, on) for on in fact.depends_on))}
        )
        for fact in kept
    )


SCORES = tuple(str(number) for number in range(1, POINTS + 1))


@dataclass(frozen=True, slots=True)
class Form:
    """What is asked of a task, and which answers there are.

    Answers are by the id of the question, :data:`WHOLE` for the task as a whole.
    """

    kind: Kind
    """How it is asked: whole pictures of a study of objects are scored."""
    task: Task

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the ids of questions asked one after the other: facts, or aspects of an object."""
        if self.kind == "facts":
            return tuple(fact.id for fact in self.task.facts)
        return ASPECTS if self.kind == "objects" else ()

    def allowed(self, part: str) -> tuple[str, ...]:
        """Return the answers to a question; none for one that the task does not have."""
        if part != WHOLE:
            return () if part not in self.parts else FACT_VALUES if self.kind == "facts" else SCORES
        if self.kind == "choice":
            n = len(self.task.candidates)
            return (*map(str, range(1, n + 1)), *((TIE,) if n == 2 else ()))
        return {"score": SCORES, "objects": (UNFIT,)}.get(self.kind, ())

    def ignored(self, values: Mapping[str, str]) -> frozenset[str]:
        """Return the ids of answers that do not count given the other ``values``.

        These are facts whose parent is denied, and scores of an object that the rater takes out.
        """
        if self.kind == "facts":
            return void_facts(self.task.facts, values)
        if self.kind == "objects":
            return frozenset(ASPECTS if values.get(WHOLE) == UNFIT else (WHOLE,))
        return frozenset()

    def open_parts(self, values: Mapping[str, str]) -> list[int]:
        """Return the indices of the questions that ``values`` leave open."""
        void = self.ignored(values)
        return [n for n, one in enumerate(self.parts) if one not in void and one not in values]

    def is_done(self, values: Mapping[str, str]) -> bool:
        """Return whether ``values`` answer all of the task."""
        return not self.open_parts(values) if self.parts else WHOLE in values

    def next_part(self, values: Mapping[str, str], after: int = -1) -> int | None:
        """Return the index of the first open question after ``after``, else of the first open one.

        None if all are answered.
        """
        still = self.open_parts(values)
        return next((n for n in still if n > after), still[0] if still else None)

    def read(self, text: str) -> tuple[str, str, int]:
        """Return a page's answer as (id of the question, value, its index or -1 for the whole).

        ``3`` answers the whole task, ``2:yes`` its second question; ``0:cannot tell`` is about an
        object as a whole. Raises ``RatingError`` for an invalid answer.
        """
        part, value, at = WHOLE, text, -1
        if self.parts:
            number, _, value = text.partition(":")
            if number.isascii() and number.isdecimal() and 0 < int(number[:6]) <= len(self.parts):
                at = int(number[:6]) - 1
                part = self.parts[at]
        allowed = self.allowed(part)
        if not allowed:
            raise RatingError("this task has no such statement: reload the page")
        if value not in allowed:
            raise RatingError(
                f"{value[:40]!r} is not an answer to this question: give one of "
                f"{', '.join(allowed)}"
            )
        return part, value, at

    def implied(self, part: str) -> dict[str, str]:
        """Return answers implied by an answer to ``part``: a scored object can be rated."""
        return {WHOLE: FIT} if self.kind == "objects" and part != WHOLE else {}

    def scores(self, values: Mapping[str, str]) -> Scores | None:
        """Return the scores in one rater's ``values`` of a finished task; None: it is left out.

        Raises ``ValueError`` for a task that the rater has not finished.
        """
        if not self.is_done(values):
            raise ValueError(f"the rater has not finished task {self.task.id}")
        if self.kind == "objects":
            return None if values.get(WHOLE) == UNFIT else tuple(int(values[a]) for a in ASPECTS)
        return (int(values[WHOLE]),)


GAP = 10
"""Fewest tasks between the two showings of a repeated one, where there are so many."""


@dataclass(frozen=True, slots=True)
class Place:
    """One showing of a task."""

    task: int
    """Its index among the tasks of the study."""
    slots: tuple[int, ...]
    """Which candidate stands at each position."""
    repeat: bool
    """Whether the rater has met the task before."""


def order_for(study: RatingStudy, rater: str) -> tuple[Place, ...]:
    """Return the showings for the rater of that name.

    The same seed and name give the same order, other names others. A share ``study.repeats`` of all
    tasks is shown a second time, with its candidates shuffled again and at least :data:`GAP` tasks
    later where the study is long enough.
    """
    rng = random.Random(f"{study.seed}\n{rater}")
    tasks = list(range(len(study.tasks)))
    rng.shuffle(tasks)
    wanted = round(study.repeats * len(tasks))
    gap = min(GAP, len(tasks) // 2)
    early = max(len(tasks) - gap, wanted)
    again = sorted(rng.sample(range(early), wanted))
    keyed = [(float(at), at, False) for at in range(len(tasks))]
    for at in again:
        # Between two whole numbers, so that the order is never left to chance.
        after = rng.uniform(at + gap, max(at + gap, len(tasks) - 1)) + rng.uniform(0.01, 0.99)
        keyed.append((after, at, True))
    places = []
    for _, at, repeat in sorted(keyed):
        slots = list(range(len(study.tasks[tasks[at]].candidates)))
        rng.shuffle(slots)
        places.append(Place(tasks[at], tuple(slots), repeat))
    return tuple(places)


def far_apart(given: Sequence[Scores], rule: Rule) -> bool:
    """Return whether two raters differ by ``rule.apart`` or more in any question."""
    return any(max(said) - min(said) >= rule.apart for said in zip(*given, strict=True))


def still_needed(given: Sequence[Scores | None], rule: Rule) -> int:
    """Return how many more raters an object needs after the finished ratings ``given``."""
    known = [scores for scores in given if scores is not None]
    if len(known) < len(given):
        return 0
    if len(known) < rule.raters:
        return rule.raters - len(known)
    return int(len(known) == rule.raters and far_apart(known, rule))


def put_file(path: Path, data: bytes | str) -> Path:
    """Write ``data`` (text as UTF-8) at ``path`` in one step.

    Raises ``RatingError`` if that fails.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as draft:
            draft.write_bytes(data.encode() if isinstance(data, str) else data)
    except OSError as error:
        raise RatingError(f"{path} cannot be written: {error.strerror or error}") from error
    return path


def put_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str | int]]) -> int:
    """Write a CSV table (UTF-8, RFC 4180) in one step and return its number of rows.

    Raises ``RatingError`` if that fails.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    body = list(rows)
    writer.writerows(body)
    put_file(path, text.getvalue())
    return len(body)
