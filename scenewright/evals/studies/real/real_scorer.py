"""A panel looks at pictures for REAL: answers kept, costed, and turned into rows of scores."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from scenewright.agents.panel.panel import Panel
from scenewright.config.settings import Asking
from scenewright.core.images import ImageError, hash_of_image, load_image
from scenewright.core.ports.judge import Judge
from scenewright.evals.runner.judging import (
    PanelJudgement,
    ToolCallSource,
    expected_of,
    judge_picture,
)
from scenewright.evals.studies.real.questions import Questions, Wording, questions_of
from scenewright.evals.studies.real.rows import (
    RealRow,
    append_row,
    combine,
    latest,
    read_rows,
    write_rows,
)
from scenewright.evals.studies.real.schema import SchemaError
from scenewright.evals.studies.real.schema_files import ClassSchema
from scenewright.evals.studies.real.scoring import RealScore, Weighting, score_of
from scenewright.providers import AnswerStore
from scenewright.providers.usage import ExpectedUsage

AT_ONCE = 16
"""Pictures that are looked at side by side."""
Style = Callable[[Image.Image], Awaitable[float | None]]
"""Gives P(photo) of RGB pixels; None if it cannot be said."""
_ORIGIN = "real"
_VERSION = 1
"""Raised when the same answers would make other scores."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture to be scored as one of a class."""

    path: Path
    """Its file."""
    label: str
    """The class: a name among the schemas."""


@dataclass(frozen=True, slots=True)
class RealJudgement:
    """What a panel found in a picture."""

    score: RealScore
    """The scores."""
    judged: PanelJudgement
    """Verdicts and answers."""
    usd: float
    """Dollars of the calls."""
    tokens_in: int
    """Their input tokens."""
    tokens_out: int
    """Their output tokens."""
    seconds: float
    """Wall time."""

    @property
    def reason(self) -> str:
        """Why questions are unscored; empty if none is."""
        if not self.score.unscored:
            return ""
        lost = [v.reason for v in self.judged.card.verdicts if v.state == "unscored"]
        return next((reason for reason in lost if reason), "no judge gave a usable answer")


class RealScorer:
    """S_att and S_rel of pictures by a panel of judges."""

    def __init__(
        self,
        judges: Sequence[Judge],
        store: AnswerStore,
        *,
        panel: Panel | None = None,
        wording: Wording = "published",
        asking: Asking = "waves",
        weighting: Weighting = "probability",
        limit: float | None = None,
        seed: int = 0,
    ) -> None:
        """``judges``: those asked; what answers no questions in words (``caps.kinds``) is left out.
        ``asking``: in two waves, or all ``together`` in one, after which what turns out to be
        missing makes void what hangs on it. ``weighting``: how answers count in S_att. ``limit``:
        seconds of a call. Raises ``SchemaError`` without a judge that can be asked."""
        asked = tuple(judge for judge in judges if judge.caps.kinds is None)
        if not asked:
            raise SchemaError("REAL needs a judge that answers questions in words: name one")
        self._seat = ToolCallSource("real", asked, panel or Panel())
        self._store = store
        self._wording = wording
        self._asking: Asking = asking
        self._weighting: Weighting = weighting
        self._limit = limit
        self._seed = seed

    @property
    def judges(self) -> tuple[Judge, ...]:
        """Who is asked."""
        return self._seat.judges

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of judges, panel, wording, asking and weighting."""
        panel = self._seat.panel
        measured = panel.calibration
        parts = [
            _VERSION,
            [judge.fingerprint for judge in self._seat.judges],
            [panel.aggregation, panel.quorum, panel.threshold],
            None if measured is None else measured.model_dump_json(),
            [self._wording, self._asking, self._seed],
            # Rows of hard scores stay those that they were before there was a choice.
            *([] if self._weighting == "hard" else [self._weighting]),
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def plan(self, schema: ClassSchema) -> str:
        """12 hex digits that change whenever a picture of the class could get another score."""
        return hashlib.sha256(f"{self.fingerprint} {schema.digest}".encode()).hexdigest()[:12]

    def questions(self, schema: ClassSchema) -> Questions:
        """What is asked about a picture of the class."""
        return questions_of(schema.attributes, schema.relations, self._wording, self._seed)

    def expected(self, schema: ClassSchema, size: tuple[int, int]) -> dict[str, ExpectedUsage]:
        """Id of each judge that is no model of this machine → what a look at a picture of ``size``
        pixels is expected to take at most."""
        facts = self.questions(schema).facts
        return {
            judge.id: expected_of(judge, size, facts, self._asking)
            for judge in self._seat.judges
            if not judge.caps.local
        }

    async def look(
        self, image: str, load: Callable[[], Image.Image], schema: ClassSchema, *, again: str = ""
    ) -> RealJudgement:
        """Score the picture with content hash ``image``; ``load`` gives its pixels, in a thread.

        ``again`` tells this look from an earlier one that left something unscored: what that one
        paid for costs nothing now, and a gateway that honours idempotency keys is truly asked.
        Raises ``ImageError`` and ``StoreError``; what a judge does wrong is an unscored answer.
        """
        questions = self.questions(schema)
        started = time.perf_counter()
        judged = await judge_picture(
            self._seat,
            image,
            load,
            questions.facts,
            store=self._store,
            asking=self._asking,
            limit=self._limit,
            origin=f"{_ORIGIN}:{image[:16]}:{self.plan(schema)}{again and f':{again}'}",
        )
        seconds = time.perf_counter() - started
        states = {verdict.fact_id: verdict.state for verdict in judged.card.verdicts}
        likely = None
        if self._weighting == "probability":
            likely = {verdict.fact_id: verdict.likelihood for verdict in judged.card.verdicts}
        answers = [answer for given in judged.answers.values() for answer in given]
        return RealJudgement(
            score_of(questions, states, likely),
            judged,
            sum(answer.usd for answer in answers),
            sum(answer.tokens_in for answer in answers),
            sum(answer.tokens_out for answer in answers),
            seconds,
        )


def row_of(
    picture: Picture,
    digest: str,
    plan: str,
    schema: ClassSchema,
    looked: RealJudgement,
    style: float | None = None,
) -> RealRow:
    """What was found in a picture as a row."""
    score = looked.score
    att, rel = score.attributes, score.relations
    s_att = None if att is None else att.value
    s_rel = None if rel is None else rel.value
    base = s_att if att is not None else s_rel
    return RealRow(
        image=str(picture.path),
        label=picture.label,
        digest=digest,
        plan=plan,
        s_att=s_att,
        s_att_hard=None if att is None else att.hard,
        attributes=0 if schema.attributes is None else len(schema.attributes.attributes),
        visible=0 if att is None else att.visible,
        matched=0 if att is None else att.matched,
        s_rel=s_rel,
        s_rel_raw=None if rel is None else rel.raw,
        s_style=style,
        combined=combine(base, style),
        invisible=score.invisible,
        wrong=score.wrong,
        unscored=score.unscored,
        reason=looked.reason,
        usd=looked.usd,
        tokens=looked.tokens_in + looked.tokens_out,
        seconds=looked.seconds,
    )


async def score_pictures(
    scorer: RealScorer,
    pictures: Iterable[Picture],
    schemas: Mapping[str, ClassSchema],
    file: Path | None = None,
    *,
    style: Style | None = None,
    at_once: int = AT_ONCE,
    told: Callable[[RealRow, bool], None] = lambda row, kept: None,
) -> list[RealRow]:
    """One row a picture, in the order given; rows of other pictures in ``file`` stay there.

    Rows are added to ``file`` as they are made. Started again, a picture whose row has this plan,
    whose pixels are the same and of which nothing is unscored is not asked about; of the others
    only what was not answered is. ``style`` gives a picture's score of style; without it that of
    an earlier row stays. ``told`` hears of each row and whether it was there. A picture that
    cannot be read has a row without scores, with the reason. Raises ``SchemaError`` for a class
    without a schema, and as :meth:`RealScorer.look`.
    """
    todo = list(pictures)
    unknown = sorted({picture.label for picture in todo} - set(schemas))
    if unknown:
        raise SchemaError(
            f"no schema for {', '.join(unknown[:8])}: there are {', '.join(list(schemas)[:8])}"
        )
    before = {} if file is None else await asyncio.to_thread(_rows_in, file)
    found: list[RealRow | None] = [None] * len(todo)
    waiting = iter(enumerate(todo))

    async def work() -> None:
        for at, picture in waiting:
            there = before.get((str(picture.path), picture.label))
            row = await _row(scorer, picture, schemas[picture.label], there, style)
            if file is not None and row != there:
                append_row(file, row)
            found[at] = row
            told(row, row == there)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(at_once, len(todo))):
            group.create_task(work())
    rows = [row for row in found if row is not None]
    if file is not None:
        await asyncio.to_thread(write_rows, file, list((before | latest(rows)).values()))
    return rows


def _rows_in(file: Path) -> dict[tuple[str, str], RealRow]:
    return latest(read_rows(file)) if file.exists() else {}


async def _row(
    scorer: RealScorer,
    picture: Picture,
    schema: ClassSchema,
    there: RealRow | None,
    style: Style | None,
) -> RealRow:
    """The row of a picture; that which was ``there`` where it still holds."""
    plan = scorer.plan(schema)
    try:
        pixels = await asyncio.to_thread(load_image, picture.path)
    except ImageError as error:
        return _unread(picture, plan, str(error))
    digest = await asyncio.to_thread(hash_of_image, pixels)
    grade = None if there is None or there.digest != digest else there.s_style
    unstyled = ""
    if style is not None:
        try:
            grade = await style(pixels)
        except Exception as error:
            # What cannot be said of the style must not cost what the judges say.
            grade, unstyled = None, f"no score of style: {type(error).__name__}: {error}"
    if there is None or (there.plan, there.digest) != (plan, digest):
        looked = await scorer.look(digest, lambda: pixels, schema)
        return _told(row_of(picture, digest, plan, schema, looked, grade), unstyled)
    if not there.unscored:
        kept = there if there.s_style == grade else there.with_style(grade)
        return _told(kept.model_copy(update={"reason": ""}), unstyled)
    turn = hashlib.sha256(there.model_dump_json().encode()).hexdigest()[:12]
    looked = await scorer.look(digest, lambda: pixels, schema, again=turn)
    row = row_of(picture, digest, plan, schema, looked, grade)
    costs = {
        "usd": row.usd + there.usd,
        "tokens": row.tokens + there.tokens,
        "seconds": row.seconds + there.seconds,
    }
    return _told(row.model_copy(update=costs), unstyled)


def _told(row: RealRow, more: str) -> RealRow:
    """The row with one more reason why a score is missing."""
    if not more:
        return row
    return row.model_copy(update={"reason": "; ".join(filter(None, (row.reason, more)))})


def _unread(picture: Picture, plan: str, reason: str) -> RealRow:
    return RealRow(image=str(picture.path), label=picture.label, plan=plan, reason=reason)
