"""Score pictures by REAL with a panel, as rows of a file or as a metric of evaluations.

A row of scores is kept for each picture and class. A file of rows is JSON lines, so that a kill
loses at most the line that is being written; the same rows can be written as parquet for other
tools.

The metric is S_att or S_rel of a picture. Its questions come from a file of schemas by class, or
are made of the item's scene: parts are its objects, descriptions their attributes' values. The
judges are the metric's own, not those of the evaluation's panels, whose facts are others.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from scenewright.agents.panel.panel import Panel
from scenewright.config.options import Asking
from scenewright.config.settings import (
    Settings,
    find_profile,
    load_settings,
    settings_with,
)
from scenewright.core.error_text import error_text
from scenewright.core.flushing import write_text
from scenewright.core.images import ImageError, hash_of_image, load_image, nothing_drawn
from scenewright.core.ports.judge import Judge
from scenewright.core.validation import first_problem
from scenewright.evals.errors import EvalError
from scenewright.evals.metrics.base import (
    MetricError,
    MetricScore,
    Need,
    Sample,
    cache_folder,
    names_in,
    spent_on,
    store_in,
    text,
)
from scenewright.evals.runner.judging import JudgePanel, judge_picture
from scenewright.evals.runner.progress import side_by_side
from scenewright.evals.store.files import write_table
from scenewright.evals.store.json_lines import append_lines, read_lines
from scenewright.evals.studies.real.schema import (
    AttributeSchema,
    ClassSchema,
    RelationSchema,
    SchemaError,
    digest_of,
    read_schemas,
)
from scenewright.evals.studies.real.scoring import (
    WEIGHTINGS,
    WORDINGS,
    Questions,
    Weighting,
    Wording,
    questions_of,
    score_of,
)
from scenewright.evals.studies.real.style import StyleScorer
from scenewright.graphs.limits import expected_of
from scenewright.providers import AnswerStore
from scenewright.providers.sdk_clients import paid_by
from scenewright.providers.usage import ExpectedUsage
from scenewright.runs.model_factory.profiles import build_judge

PARQUET = ".parquet"
Score = float | None


class RealRow(BaseModel):
    """What REAL says of one picture as one of a class."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    image: str = Field(min_length=1)
    """The picture's file, as it was named."""
    label: str = Field(min_length=1)
    """Its class, within which it is ranked."""
    digest: str = ""
    """Its :func:`~scenewright.core.images.hash_of_image`; empty if it could not be read."""
    plan: str = ""
    """Changes with the schema, the wording, the judges and the panel: rows of one plan can be
    compared."""
    s_att: Score = Field(default=None, ge=0.0, le=1.0)
    """S_att, weighted by probabilities unless the hard one was asked for; None without a schema of
    attributes, or if it could not be scored."""
    s_att_hard: Score = Field(default=None, ge=0.0, le=1.0)
    """S_att as the paper has it, R / C; None also in rows of older versions, whose ``s_att`` it
    is."""
    attributes: int = Field(default=0, ge=0)
    """N of the schema; 0: the picture is scored by relations alone."""
    visible: int = Field(default=0, ge=0)
    """C: attributes whose part can be seen."""
    matched: int = Field(default=0, ge=0)
    """R: those of them that are as described."""
    s_rel: Score = Field(default=None, ge=0.0, le=1.0)
    """S_rel divided by its maximum; None without relations, or if it could not be scored."""
    s_rel_raw: Score = Field(default=None, ge=0.0)
    """S_rel as the paper sums it."""
    s_style: Score = Field(default=None, ge=0.0, le=1.0)
    """Probability of the class "photo"; None if no style scorer looked."""
    combined: Score = Field(default=None, ge=0.0, le=1.0)
    """S_att × S_style, of pictures without attributes S_rel × S_style; None without either."""
    invisible: tuple[str, ...] = ()
    """Parts and entities that cannot be seen."""
    wrong: tuple[str, ...] = ()
    """Statements that were found not to hold: ``bill is curved``."""
    unscored: int = Field(default=0, ge=0)
    """Questions that were asked and not answered; the scores are of the others."""
    reason: str = ""
    """Why a score is missing."""
    usd: float = Field(default=0.0, ge=0.0)
    """Dollars of the calls."""
    tokens: int = Field(default=0, ge=0)
    """Tokens of the calls, in and out."""
    seconds: float = Field(default=0.0, ge=0.0)
    """Wall time."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        expected = combine(self.base, self.s_style)
        if (self.combined is None) != (expected is None) or (
            self.combined is not None
            and expected is not None
            and abs(self.combined - expected) > 1e-9
        ):
            raise ValueError(f"combined is {self.combined}, but the scores make {expected}")
        return self

    @property
    def base(self) -> Score:
        """The score that style multiplies: S_att, without a schema of attributes S_rel."""
        return self.s_att if self.attributes else self.s_rel

    def with_style(self, style: Score) -> Self:
        """Return the same row with another score of style in [0, 1], or without one."""
        return type(self).model_validate(
            self.model_dump() | {"s_style": style, "combined": combine(self.base, style)}
        )


def combine(score: Score, style: Score) -> Score:
    """Return ``S_att × S_style`` or ``S_rel × S_style`` (Sec. 4.4.1), None if one is unknown.

    Both lie in [0, 1], S_rel normalised; ``ValueError`` for anything else.
    """
    for name, value in (("the score", score), ("the style", style)):
        if value is not None and not 0.0 <= value <= 1.0:
            raise ValueError(f"{name} is {value}: it must lie in [0, 1]")
    return None if score is None or style is None else score * style


def read_rows(path: str | os.PathLike[str]) -> list[RealRow]:
    """Return the rows of a file of JSON lines or parquet, in its order.

    A last line that was cut off by a kill is left out. Raises ``EvalError`` with file and line for
    what cannot be read.
    """
    file = Path(path)
    found: list[RealRow] = []
    for place, data in _parquet(file) if file.suffix == PARQUET else _lines(file):
        try:
            found.append(RealRow.model_validate(data))
        except ValidationError as error:
            raise EvalError(f"{file}, {place}: {first_problem(error)}") from error
    return found


def _lines(file: Path) -> list[tuple[str, Any]]:
    try:
        return [(f"line {number}", value) for number, value in read_lines(file)]
    except (OSError, UnicodeDecodeError) as error:
        raise EvalError(
            f"{file} cannot be read ({error}): `scenewright real-bench score … --out FILE.jsonl` "
            "makes it"
        ) from error
    except ValueError as error:
        raise EvalError(f"{file}, {error}") from error


def _parquet(file: Path) -> list[tuple[str, Any]]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        rows = parquet.read_table(file).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise EvalError(f"{file} cannot be read as parquet: {error}") from error
    return [(f"row {number}", row) for number, row in enumerate(rows, start=1)]


def append_row(path: Path, row: RealRow) -> None:
    """Add ``row`` to a file of JSON lines. Raises ``EvalError`` if it cannot be written."""
    try:
        append_lines(path, [row.model_dump_json()])
    except OSError as error:
        raise _unwritable(path, error) from error


def write_rows(path: str | os.PathLike[str], rows: Sequence[RealRow]) -> Path:
    """Write ``rows`` as parquet if the name ends so, else as JSON lines.

    The file is the old one or the whole new one. Raises ``EvalError`` if it cannot be written.
    """
    file = Path(path)
    if file.suffix == PARQUET:
        kinds: dict[Any, type] = {str: str, int: int, float: float, Score: float}
        fields = RealRow.model_fields.items()
        columns = {name: kinds.get(field.annotation, list) for name, field in fields}
        content = [row.model_dump(mode="json") for row in rows]
        write_table(file.parent, file.stem, content, columns)
        return file
    try:
        write_text(file, "\n".join(row.model_dump_json() for row in rows))
    except OSError as error:
        raise _unwritable(file, error) from error
    return file


def latest(rows: Iterable[RealRow]) -> dict[tuple[str, str], RealRow]:
    """Return by (image, label) the newest row, in the order of first appearance."""
    return {(row.image, row.label): row for row in rows}


def _unwritable(path: Path, error: OSError) -> EvalError:
    return EvalError(
        f"{path} cannot be written: {error.strerror or error}. Make room or name another file, "
        "then run the same again: what was answered is kept"
    )


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


class RealScorer:
    """S_att and S_rel of pictures by a panel of judges."""

    def __init__(
        self,
        judges: Sequence[Judge],
        store: AnswerStore,
        *,
        panel: Panel | None = None,
        wording: Wording | None = None,
        asking: Asking = "waves",
        weighting: Weighting = "probability",
        limit: float | None = None,
        seed: int = 0,
    ) -> None:
        """Score with ``judges``; those that answer no questions in words are left out.

        ``wording``: None is ``plain`` where a judge knows a closed vocabulary, which does not hold
        the words of the published questions, and ``published`` elsewhere.
        ``asking``: in two waves, or all ``together`` in one, after which facts of missing things
        become void. ``weighting``: how answers count in S_att. ``limit``: seconds of a call. Raises
        ``SchemaError`` without a judge that can be asked.
        """
        asked = tuple(judge for judge in judges if judge.caps.kinds is None)
        if not asked:
            raise SchemaError("REAL needs a judge that answers questions in words: name one")
        self._panel = JudgePanel("real", asked, panel or Panel())
        self._store = store
        closed = any(judge.caps.vocabulary is not None for judge in asked)
        self._wording: Wording = wording or ("plain" if closed else "published")
        self._asking: Asking = asking
        self._weighting: Weighting = weighting
        self._limit = limit
        self._seed = seed

    @property
    def store(self) -> AnswerStore:
        """The store of their answers."""
        return self._store

    @property
    def judges(self) -> tuple[Judge, ...]:
        """The judges that are asked."""
        return self._panel.judges

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of judges, panel, wording, asking and weighting."""
        panel = self._panel.panel
        measured = panel.calibration
        parts = [
            _VERSION,
            [judge.fingerprint for judge in self._panel.judges],
            [panel.aggregation, panel.quorum, panel.threshold],
            None if measured is None else measured.model_dump_json(),
            [self._wording, self._asking, self._seed],
            # Rows of hard scores stay those that they were before there was a choice.
            *([] if self._weighting == "hard" else [self._weighting]),
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def plan(self, schema: ClassSchema) -> str:
        """Return 12 hex digits that change if a picture of the class could get another score."""
        return hashlib.sha256(f"{self.fingerprint} {schema.digest}".encode()).hexdigest()[:12]

    def questions(self, schema: ClassSchema) -> Questions:
        """Return the questions about a picture of the class."""
        return questions_of(schema.attributes, schema.relations, self._wording, self._seed)

    def check(self, schema: ClassSchema) -> None:
        """Refuse a class of which no picture could get a score, since no judge knows its words.

        Raises ``SchemaError`` with the words that are not known.
        """
        questions = self.questions(schema)
        needed = [questions.existence] if questions.existence is not None else questions.facts
        unknown: dict[str, None] = {}
        for fact in needed:
            for judge in self.judges:
                vocabulary = judge.caps.vocabulary
                found = () if vocabulary is None else vocabulary.unknown(fact)
                if not found:
                    return
                unknown |= dict.fromkeys(map(str, found))
        ways = "name judges that know any words (--judges ACCOUNT:MODEL)"
        if self._wording == "published":
            ways = f"take --wording plain, or {ways}"
        raise SchemaError(
            f"no judge can be asked about the class {schema.name!r}: "
            f"{', '.join(judge.id for judge in self.judges)} do not know {', '.join(unknown)}; "
            f"{ways}"
        )

    def expected(self, schema: ClassSchema, size: tuple[int, int]) -> dict[str, ExpectedUsage]:
        """Return by judge id what a picture of ``size`` pixels is expected to take at most.

        Models of this machine are left out.
        """
        facts = self.questions(schema).facts
        return {
            judge.id: expected_of(judge, size, facts, self._asking)
            for judge in self._panel.judges
            if not judge.caps.local
        }

    async def look(
        self, image: str, load: Callable[[], Image.Image], schema: ClassSchema, *, again: str = ""
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Score the picture with content hash ``image``; ``load`` gives its pixels, in a thread.

        Returns the columns of its row but for its name, class and style, and tokens and dollars as
        fields of a metric's score. ``again`` distinguishes this call from an earlier one that left
        something unscored: what that one paid for costs nothing now. Raises ``ImageError`` and
        ``StoreError``; what a judge does wrong is an unscored answer.
        """
        questions = self.questions(schema)
        started = time.perf_counter()
        judged = await judge_picture(
            self._panel,
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
        found = score_of(questions, states, likely)
        lost = [v.reason for v in judged.card.verdicts if v.state == "unscored"]
        reason = next(filter(None, lost), "no judge gave a usable answer")
        spent = spent_on(answer for given in judged.answers.values() for answer in given)
        columns = {
            "digest": image,
            "plan": self.plan(schema),
            "attributes": 0 if schema.attributes is None else len(schema.attributes.attributes),
            "invisible": found.invisible,
            "wrong": found.wrong,
            "unscored": found.unscored,
            "reason": reason if found.unscored else "",
            "usd": spent["usd"],
            "tokens": spent["tokens_in"] + spent["tokens_out"],
            "seconds": seconds,
        }
        if (att := found.attributes) is not None:
            columns |= {"s_att": att.value, "s_att_hard": att.hard}
            columns |= {"visible": att.visible, "matched": att.matched}
        if found.relations is not None:
            columns |= {"s_rel": found.relations.value, "s_rel_raw": found.relations.raw}
        return columns, spent


def row_of(
    image: str, label: str, columns: Mapping[str, Any], style: float | None = None
) -> RealRow:
    """Return the row of a picture by what :meth:`RealScorer.look` gives."""
    return RealRow(image=image, label=label, **columns).with_style(style)


async def score_pictures(
    scorer: RealScorer,
    pictures: Iterable[Picture],
    schemas: Mapping[str, ClassSchema],
    file: Path | None = None,
    *,
    style: Style | None = None,
    at_once: int = AT_ONCE,
    on_row: Callable[[RealRow, bool], None] = lambda row, kept: None,
) -> list[RealRow]:
    """Score pictures: one row each, in their order; rows of others in ``file`` stay there.

    Rows are added to ``file`` as they are made. Started again, a picture whose row has this plan,
    whose pixels are the same and of which nothing is unscored is not asked about; of the others
    only what was not answered is. ``style`` gives a picture's score of style; without it that of
    an earlier row stays. ``on_row`` gets each row and whether it was there. A picture that
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
    found: dict[int, RealRow] = {}

    async def work(numbered: tuple[int, Picture]) -> None:
        at, picture = numbered
        there = before.get((str(picture.path), picture.label))
        row = await _row(scorer, picture, schemas[picture.label], there, style)
        if file is not None and row != there:
            append_row(file, row)
        found[at] = row
        on_row(row, row == there)

    with paid_by(scorer.store):
        await side_by_side(enumerate(todo), work, min(at_once, len(todo)))
    rows = [found[at] for at in range(len(todo))]
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
    """Return the row of a picture; that which was ``there`` where it still holds."""
    plan = scorer.plan(schema)
    try:
        pixels = await asyncio.to_thread(load_image, picture.path)
    except ImageError as error:
        return _unread(picture, plan, str(error))
    digest = await asyncio.to_thread(hash_of_image, pixels)
    grade = None if there is None or there.digest != digest else there.s_style
    unstyled = ""
    empty = await asyncio.to_thread(nothing_drawn, pixels)
    if empty:
        grade = None
    elif style is not None:
        try:
            grade = await style(pixels)
        except Exception as error:
            # What cannot be said of the style must not cost what the judges say.
            grade, unstyled = None, f"no score of style: {error_text(error)}"
    if there is None or (there.plan, there.digest) != (plan, digest):
        columns, _ = await scorer.look(digest, lambda: pixels, schema)
        row = row_of(str(picture.path), picture.label, columns, grade)
        return _with_reason(row, unstyled)
    if not there.unscored and not empty:
        kept = there if there.s_style == grade else there.with_style(grade)
        return _with_reason(kept.model_copy(update={"reason": ""}), unstyled)
    turn = hashlib.sha256(there.model_dump_json().encode()).hexdigest()[:12]
    columns, _ = await scorer.look(digest, lambda: pixels, schema, again=turn)
    row = row_of(str(picture.path), picture.label, columns, grade)
    costs = {
        "usd": row.usd + there.usd,
        "tokens": row.tokens + there.tokens,
        "seconds": row.seconds + there.seconds,
    }
    return _with_reason(row.model_copy(update=costs), unstyled)


def _with_reason(row: RealRow, more: str) -> RealRow:
    """Return the row with one more reason why a score is missing."""
    if not more:
        return row
    return row.model_copy(update={"reason": "; ".join(filter(None, (row.reason, more)))})


def _unread(picture: Picture, plan: str, reason: str) -> RealRow:
    return RealRow(image=str(picture.path), label=picture.label, plan=plan, reason=reason)


SCORES = ("attributes", "relations")
LABEL = "label"
_METRIC_VERSION = 1
"""Raised when the same picture would get another score."""


class RealMetric:
    """Implements :class:`~scenewright.evals.metrics.base.ItemMetric`."""

    name = "real"
    higher_is_better = True

    def __init__(
        self,
        scorer: RealScorer,
        schemas: Mapping[str, ClassSchema] | None = None,
        *,
        key: str = LABEL,
        score: str = "attributes",
        style: StyleScorer | None = None,
    ) -> None:
        """Score with ``scorer`` by ``schemas``, or by each item's scene without them.

        ``key`` is the metadata that names an item's class; without it its category does, then its
        group. Raises ``MetricError`` for an unknown ``score``.
        """
        self._scorer = scorer
        self._schemas = schemas
        self._key = key
        self._score = text("score", score, SCORES)
        self._style = style

    @cached_property
    def version(self) -> str:
        """Number, fingerprint of the scorer, the schemas, which score, and the style scorer."""
        told = "scene" if self._schemas is None else digest_of(self._schemas.values())
        style = "" if self._style is None else f":style={self._style.fingerprint[:16]}"
        scorer = self._scorer.fingerprint[:16]
        return f"{_METRIC_VERSION}:{scorer}:{told[:16]}:{self._key}:{self._score}{style}"

    @property
    def judges(self) -> tuple[Judge, ...]:
        """The judges that are asked."""
        return tuple(self._scorer.judges)

    @property
    def needs(self) -> frozenset[Need]:
        """The picture, and its scene where that is the schema."""
        return frozenset({"image", "scene"} if self._schemas is None else {"image"})

    async def score(self, sample: Sample) -> MetricScore:
        """Return the score.

        Parts: ``s_att``, ``s_att_hard``, ``s_rel``, ``s_rel_raw``, ``s_style``; ``visible`` (C),
        ``matched`` (R) and ``attributes`` (N); ``unscored``, questions without an answer;
        ``unasked``, attributes and relations of the scene that no question can ask for.

        Unscored with the reason where there is no schema for the item's class, or nothing that
        could be asked or was answered.
        """
        schema, unasked, why = self._schema(sample)
        if schema is None:
            return MetricScore(value=None, reason=why)
        columns, spent = await self._scorer.look(sample.image, sample.load, schema)
        style = None
        if self._style is not None:
            picture = await asyncio.to_thread(sample.load)
            style = (await self._style.score([picture]))[0]
        return self._found(row_of(schema.name, schema.name, columns, style), unasked, spent)

    async def expected(self, sample: Sample, size: tuple[int, int]) -> dict[str, ExpectedUsage]:
        """Return the expected calls of each judge that is not a model of this machine."""
        schema, _, _ = self._schema(sample)
        return {} if schema is None else self._scorer.expected(schema, size)

    def _schema(self, sample: Sample) -> tuple[ClassSchema | None, int, str]:
        """Return the schema, how much of the scene it cannot ask for, and why there is none."""
        item = sample.item
        if self._schemas is not None:
            label = item.meta.get(self._key) or item.category or item.group
            found = self._schemas.get(label)
            why = f"no schema for the class {label!r}" if label else "the item has no class"
            return found, 0, "" if found else why
        if item.scene is None:
            return None, 0, "the item has no scene to make a schema of"
        attributes, n_attributes = AttributeSchema.of_scene(item.scene, item.id)
        relations, n_relations = RelationSchema.of_scene(item.scene, item.id)
        made = ClassSchema(item.id, attributes, relations)
        wanted = attributes if self._score == "attributes" else relations
        if wanted is None:
            return None, 0, f"the scene has no {self._score} that can be asked for"
        return made, n_attributes + n_relations, ""

    def _found(self, row: RealRow, unasked: int, spent: Mapping[str, Any]) -> MetricScore:
        names = ("s_att", "s_att_hard", "s_rel", "s_rel_raw", "s_style")
        parts: dict[str, float | None] = {name: getattr(row, name) for name in names}
        for name in ("visible", "matched", "attributes"):
            parts[name] = float(getattr(row, name)) if row.attributes else None
        parts |= {"unscored": float(row.unscored), "unasked": float(unasked)}
        value = row.s_att if self._score == "attributes" else row.s_rel
        value = value if self._style is None else combine(value, row.s_style)
        lost, reason = row.unscored, row.reason
        if value is None:
            reason = reason if lost else f"the class {row.label!r} has no {self._score}"
        elif lost:
            reason = f"{lost} questions could not be answered: {reason}"
        return MetricScore(value=value, parts=parts, reason=reason, unscored=lost, **spent)


def make(
    settings: Settings | None,
    judges: Any = None,
    profile: Any = None,
    schema: Any = None,
    key: Any = LABEL,
    score: Any = "attributes",
    wording: Any = None,
    asking: Any = "waves",
    weighting: Any = "probability",
    style: Any = None,
    folder: Any = None,
) -> RealMetric:
    """Make the metric of the registry.

    Raises ``MetricError`` for a wrong option, and the error of a schema, a judge or a style scorer
    that is not there.
    """
    here = settings or load_settings()
    asked, panel = _metric_judges(judges, profile, here)
    if wording is not None:
        text("wording", wording, WORDINGS)
    text("asking", asking, ("waves", "together"))
    text("weighting", weighting, WEIGHTINGS)
    schemas = None if schema is None else read_schemas(text("schema", schema))
    scorer = RealScorer(
        asked,
        store_in(cache_folder(folder, "real")),
        panel=panel,
        wording=wording,
        asking=asking,
        weighting=weighting,
        limit=here.judge_timeout,
    )
    styled = None if style is None else StyleScorer(text("style", style))
    return RealMetric(scorer, schemas, key=text("key", key), score=score, style=styled)


def _metric_judges(
    judges: Any, profile: Any, settings: Settings
) -> tuple[tuple[Judge, ...], Panel | None]:
    if judges is not None and profile is not None:
        raise MetricError("real: give judges or a profile, not both")
    if judges is not None:
        specs = names_in("judges", judges, "use ACCOUNT:MODEL, or a list of such")
        return tuple(build_judge(spec, settings) for spec in specs), None
    name = settings.profile if profile is None else text("profile", profile)
    chosen = find_profile(name, settings)
    known = settings_with(chosen, settings)
    found = tuple(build_judge(spec, known) for spec in chosen.judges)
    return found, Panel.of(chosen, found)
