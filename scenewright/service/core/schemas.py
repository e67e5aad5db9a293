"""Requests and replies of the HTTP API: the types of its OpenAPI description.

The limits of a request stand here, in :mod:`scenewright.core.scene` and in the ports, and nowhere
else: every door builds its requests from these types, and the published schemas are theirs.
:mod:`.admission` refuses what no schema can say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scenewright.config.options import MAX_TEXT, Count, Name, RunOptions, SentenceReader, Text
from scenewright.core.facts import Fact, ScoreCard
from scenewright.core.intent import Doubt, Passage
from scenewright.core.scene import SceneGraph
from scenewright.core.validation import RequestModel, cut_short
from scenewright.graphs.reporting import Reporting, ReportKind
from scenewright.runs.result import JudgeAnswers

MAX_PIXELS = 2048 * 2048
"""Most pixels of a drawing that is asked for."""
Status = Literal["queued", "running", "paused", "finished", "failed", "cancelled"]
"""State of a run. ``paused``: it waits for a person; ``failed``: an error stopped it, and it
can be resumed."""
Door = Literal["api", "page", "openai", "a1111", "mcp"]
"""The door that a run came through."""
ENDED: tuple[Status, ...] = ("finished", "failed", "cancelled")
IdempotencyKey = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""Names a request among those of a tenant: any text without control characters."""
ModelName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


def _one_of(*names: str) -> dict[str, Any]:
    """Return the schema of an object that has one of ``names`` and no other of them."""
    return {"oneOf": [{"required": [name], "properties": {name: _GIVEN}} for name in names]}


_GIVEN: dict[str, Any] = {"not": {"type": "null"}}


def _has_nul(value: Any) -> bool:
    """Whether a text anywhere in JSON data holds the character U+0000."""
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, Mapping):
        return any(map(_has_nul, value)) or any(map(_has_nul, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_nul, value))


class SceneInput(RequestModel):
    """A scene in one of three forms."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra=_one_of("scene", "triplets", "text")
    )

    scene: SceneGraph | None = None
    """The scene as a graph."""
    triplets: Text | None = None
    """The scene as triplets, ``red ball on table; dog left of table``."""
    text: Text | None = None
    """The scene in a sentence: ``A red ball is on a table.`` It is read by the profile's language
    model where it has one, else by rules, which know English."""

    @model_validator(mode="before")
    @classmethod
    def _storable(cls, data: Any) -> Any:
        # A database that keeps such a request cannot list any run any more.
        for name, value in data.items() if isinstance(data, Mapping) else ():
            if _has_nul(value):
                # Half a character in an unknown name would have no UTF-8.
                told = cut_short(str(name).encode("utf-8", "replace").decode(), 60)
                raise ValueError(f"{told} holds the character U+0000: take it out")
        return data

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if sum(form is not None for form in (self.scene, self.triplets, self.text)) != 1:
            raise ValueError("give the scene once: as scene, as triplets or as text")
        return self


class RefinementRequest(RunOptions, SceneInput):
    """A run that is asked for."""

    model_config = ConfigDict(
        json_schema_extra={
            **_one_of("scene", "triplets", "text"),
            "dependentRequired": {"width": ["height"], "height": ["width"], "mask": ["start"]},
        }
    )

    profile: Name | None = None
    """Name of a profile; none: the service's default."""
    director: ModelName | None = Field(default=None, exclude_if=lambda told: told is None)
    """Of a run that an agent directs over MCP: the language model that it says it is, ``unknown``
    if it says none. Other requests name none."""
    start: Digest | None = None
    """Content hash of a picture that you have sent (``/v1/images/edits``): the run begins with it
    in place of drawing one."""
    mask: Digest | None = None
    """Content hash of a mask that you have sent likewise: white where the picture may change."""
    sentence: str | None = Field(
        default=None, max_length=MAX_TEXT, exclude_if=lambda said: not said
    )
    """Words that ``scene`` was read from, as they were written: the title of the run. Of a run that
    is asked for by ``text``, that text."""
    unread: tuple[Passage, ...] = Field(default=(), exclude_if=lambda passages: not passages)
    """Of requests of before 1.1: passages of the text that the scene does not hold."""
    awaits_reading: bool = Field(default=False, exclude_if=lambda awaits: not awaits)
    """Whether ``scene`` is preliminary: its sentence is read by the language model as the run
    begins. The service writes it."""
    idempotency_key: IdempotencyKey | None = None
    """The same key with the same request gives the run that is there already; the header
    ``Idempotency-Key`` says the same."""

    @model_validator(mode="after")
    def _a_size(self) -> Self:
        if (self.width or 0) * (self.height or 0) > MAX_PIXELS:
            raise ValueError(f"width × height may be at most {MAX_PIXELS} pixels: ask for less")
        if self.mask is not None and self.start is None:
            raise ValueError("a mask needs the picture that it belongs to: give start as well")
        return self


class Link(BaseModel):
    """An image of a run."""

    hash: str
    """SHA-256 of the PNG file, 64 hex digits."""
    url: str
    """Address of the PNG."""
    preview: str
    """Address of a small WebP of it."""


class RoundInfo(BaseModel):
    """One round of a run."""

    round: int
    """From 0."""
    prompt: str
    """Prompt of the candidate."""
    lost: tuple[Passage, ...] = ()
    """Passages of the sentence that the prompt does not say, by its characters from 0."""
    added: tuple[str, ...] = ()
    """Words of the prompt that the sentence does not say."""
    strategy: str
    """The strategy that decided how it was drawn; empty in round 0."""
    does: str
    """Repair by the strategy."""
    why: str
    """Why."""
    image: Link
    """The candidate."""
    reference: Link | None
    """The reference image of what was missing; none in round 0."""
    loop_card: ScoreCard | None
    """Scores by the judges of the loop; none while they are at work."""
    report_card: ScoreCard | None
    """Scores by the judges of the report; none before the loop is over."""
    missing: SceneGraph | None
    """Missing graph of the candidate; none if nothing is missing."""
    seconds: float
    """Time spent drawing and asking."""


class Summary(BaseModel):
    """A run at a glance, as far as it has come."""

    rounds: int = 0
    """Candidates drawn."""
    best_round: int | None = None
    """The round that is kept."""
    image: str | None = None
    """Content hash of the kept image."""
    stop_reason: str | None = None
    """Why the loop stopped."""
    limit: str = ""
    """Which limit ended it, with its figures; empty: none did."""
    satisfied: bool | None = None
    """Whether the loop's judges found every fact in the kept image."""
    unscored: int = 0
    """Facts of the verdict that nobody could judge, left out of its score."""
    confirmed: bool | None = None
    """Whether the judges of the report find the same facts in it; none without a report."""
    verdict: str = ""
    """Number of facts found in it and the missing ones, in words: by the judges of the report, or
    of the loop where these scored nothing, and what the others find beside; empty in runs of
    before."""
    loop_score: float | None = None
    """SGScore of the kept image by the judges of the loop, 0–1."""
    report_score: float | None = None
    """SGScore by the judges of the report."""

    @property
    def score(self) -> float | None:
        """SGScore of the verdict."""
        return self.loop_score if self.report_score is None else self.report_score

    reporting: ReportKind | None = None
    """Whether these are other models than the loop's (``independent``), models of the loop
    (``self``), or nobody (``none``)."""
    usd: float = 0.0
    """Cost in US dollars."""
    images: int = 0
    """Images drawn, references included."""
    judge_calls: int = 0
    """Calls of judges."""
    seconds: float = 0.0
    """Wall time in which it was driven."""


class RefinementBrief(BaseModel):
    """A run in a list."""

    id: str
    """Names the run; cannot be guessed."""
    title: str
    """The sentence that the scene was read from, else the scene in words."""
    status: Status
    """State of the run."""
    door: Door
    """Door that it came through."""
    profile: str
    """Its profile."""
    created: float
    """Unix time in seconds."""
    updated: float
    """Unix time of the last change."""
    ended: float | None
    """Unix time of the end; none before."""
    error: str | None
    """Why it failed."""
    summary: Summary
    """Progress so far."""
    image: Link | None
    """The kept image."""


class Links(BaseModel):
    """Addresses of the parts of a run."""

    self: str
    """The run itself."""
    events: str
    """Its events as server-sent events."""
    page: str
    """Its page for people."""
    edit: str
    """Address to post an edit to."""


class Refinement(RefinementBrief):
    """A run."""

    scene: SceneGraph
    """Scene with the edits so far."""
    facts: tuple[Fact, ...]
    """Checked facts; empty before the run has begun."""
    request: RefinementRequest
    """Request of the run."""
    queue_position: int | None
    """Runs before it in the queue; none if it does not wait."""
    warnings: tuple[str, ...] = ()
    """Parts of the scene that the models of its profile cannot draw or judge (such facts are
    unscored), which words of its text were not read, and which could mean something else."""
    doubts: tuple[Doubt, ...] = ()
    """Other meanings of its text. The ``sentence`` of a choice is a ``text`` that can be
    read in one way only: send it for a run of that reading."""
    rounds: tuple[RoundInfo, ...]
    """Its rounds, oldest first."""
    best_round: int | None
    """The round that is kept."""
    totals: dict[str, float]
    """images, seconds, tokens_in, tokens_out, usd, judge_calls, cached."""
    reporting: Reporting | None = None
    """Whether other models than those of the loop report its result; none before it has begun."""
    links: Links
    """Addresses of its parts."""


class RefinementList(BaseModel):
    """Runs, newest first."""

    items: tuple[RefinementBrief, ...]
    """The runs."""
    next: str | None
    """Give it as ``before`` for the runs that follow; none: there are no more."""


class EditRequest(RequestModel):
    """A correction after which a paused or ended run goes on; see :class:`Edit`."""

    model_config = ConfigDict(extra="forbid")

    base: int | None = Field(default=None, ge=0)
    """Round of the candidate to go on from; none: the kept one."""
    missing: SceneGraph | None = None
    """The missing graph of that candidate as the person sees it."""
    verdicts: dict[str, Literal["yes", "no"]] = Field(default_factory=dict)
    """Corrections by fact id: whether the candidate holds the fact."""
    scene: SceneGraph | None = None
    """The whole scene anew."""
    add: Text | None = None
    """Facts that the scene is to have too, as triplets: ``hat on dog``."""
    rounds: Count = 3
    """Candidates that may be drawn from here on."""
    note: str = Field(default="", max_length=2000)
    """The person's words."""
    idempotency_key: IdempotencyKey | None = None
    """The same key with the same edit changes nothing again; another edit needs another key."""


class ScoreResponse(BaseModel):
    """Verdicts of a profile's judges on one image."""

    scene: SceneGraph
    """Scene that was asked about."""
    facts: tuple[Fact, ...]
    """Checked facts."""
    loop: ScoreCard
    """By the judges that would steer a loop."""
    report: ScoreCard | None
    """By the judges that would report its result; none if the profile has none."""
    reporting: Reporting
    """Whether these are other models than those of the loop."""
    sgscore: float | None
    """SGScore by the judges of the report, or of the loop where there are none; 0–1."""
    answers: tuple[JudgeAnswers, ...]
    """Each judge's answers."""
    missing: SceneGraph | None
    """Missing graph; none if nothing is missing."""
    warnings: tuple[str, ...] = ()
    """Parts of the scene that the judges cannot answer (such facts are unscored), which words of
    its text were not read, and which could mean something else."""
    usd: float
    """Cost in US dollars."""


class ParseRequest(SceneInput):
    """A scene to be read."""

    profile: Name | None = None
    """The profile whose language model reads the text, which costs; none, or a profile without
    one: the rules do."""
    reader: SentenceReader | None = None
    """Parser of ``text``: ``llm`` or ``rules``; none: as ``profile`` has it."""
    drawn_by: Name | None = None
    """A profile that is to draw the scene: ``facts`` are asked as it asks them, and ``warnings``
    says what its models do not know. None: ``profile`` asks, else the service's default."""


class ParseResponse(BaseModel):
    """A scene that was read."""

    scene: SceneGraph
    """The graph."""
    facts: tuple[Fact, ...]
    """Facts that would be checked."""
    triplets: str
    """The scene as triplets."""
    complexity: float
    """Scene-Bench's complexity."""
    level: str
    """``simple``, ``medium`` or ``hard``."""
    warnings: tuple[str, ...] = ()
    """Which words of the text were not read and which could mean something else, then what of the
    scene the models of the profile ``drawn_by`` cannot draw or judge."""
    unread: tuple[Passage, ...] = ()
    """The passages of the text that nothing of the scene holds, by its characters from 0."""
    doubts: tuple[Doubt, ...] = ()
    """Other meanings of the text; send the ``sentence`` of a choice back as ``text``."""
    awaits: str = ""
    """The language model of ``drawn_by`` that reads the text as a run begins; here the rules do,
    and where they cannot the scene is empty."""
    drawable: bool = True
    """Whether the models of the profile ``drawn_by`` know any of it: a run is refused otherwise."""


class Problem(BaseModel):
    """An error (RFC 9457)."""

    type: str = "about:blank"
    """Always ``about:blank``: the status tells the kind."""
    title: str
    """The status in words."""
    status: int
    """The HTTP status."""
    detail: str
    """Problem and remedy."""
    unread: tuple[Passage, ...] = Field(default=(), exclude_if=lambda passages: not passages)
    """Of a text that cannot be read: the passages at fault, by its characters from 0."""
