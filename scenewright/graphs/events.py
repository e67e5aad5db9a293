"""Events of a run: typed, one JSON object a line in ``events.jsonl``.

Every event is stored but those of :data:`STREAMED`. Its ``key`` is the same when a killed run
repeats the step, so that the log of a resumed run holds each event once.

An edit: what a person corrects in a run before it goes on.

A person looks at a candidate and says what is right and what is not, adds what the scene lacks,
or chooses an earlier candidate to go on from. An edit is plain data, so that it can be stored in
the run's events, sent over a wire and written in a file.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from scenewright.core.facts import Answer, Fact, ScoreCard
from scenewright.core.intent import Passage
from scenewright.core.ports.backend import GenerationRequest
from scenewright.core.scene import SceneGraph
from scenewright.core.validation import FiniteModel, FrozenModel

Corrected = Literal["yes", "no"]
"""Verdict of a person on a fact: it holds in the picture, or it does not."""


class Edit(FiniteModel):
    """Correction of a run by a person, from which it goes on."""

    key: str = Field(min_length=1, max_length=200)
    """Names the edit within its run: the same key again is the same edit and changes nothing."""
    base: int | None = Field(default=None, ge=0)
    """Round of the candidate to go on from; None: the kept one."""
    missing: SceneGraph | None = None
    """The missing graph as the person sees it in the base candidate. Only its differences from
    the run's own missing graph of that candidate count: what was added is not there, what was
    removed is there, and the panel's verdicts of the rest stand. What the scene does not have
    yet is added to it. None: the run's own."""
    verdicts: dict[str, Corrected] = Field(default_factory=dict)
    """Corrections of single facts of the base candidate by fact id, applied after ``missing``."""
    scene: SceneGraph | None = None
    """The whole scene anew: adds or removes facts. None: it stays as it is."""
    rounds: int = Field(default=3, ge=1, le=100)
    """Most candidates drawn from here on."""
    note: str = Field(default="", max_length=10_000)
    """The person's words."""

    @property
    def empty(self) -> bool:
        """Whether it corrects and chooses nothing: the run just goes on."""
        return (
            self.base is None and self.missing is None and not self.verdicts and self.scene is None
        )


Purpose = Literal["candidate", "reference", "draft", "proposal"]
Box = tuple[float, float, float, float]
"""Left, top, right and bottom as shares of a picture's sides."""
Role = Literal["loop", "report"]
Stage = Literal["first", "rest"]
StopReason = Literal[
    "satisfied", "rounds", "patience", "budget", "unscored", "cancelled", "accepted", "gave_up"
]


class _Event(FrozenModel):
    key: str
    """Names the event within its run; equal when a step is repeated."""
    at: float
    """Unix time in seconds."""


class Place(FrozenModel):
    """Part of a picture that is repaired by itself."""

    objects: tuple[str, ...]
    """Ids of the objects that are drawn anew there."""
    regions: tuple[Box, ...] = ()
    """Area that may change; empty: the whole picture."""
    missing: tuple[str, ...]
    """Ids of the facts that it is to gain."""
    watched: tuple[str, ...] = ()
    """Ids of the facts that hold and that it can change."""
    tries: int = 0
    """Rounds that tried in vain to repair it, since one of them gained one of its facts."""

    @property
    def facts(self) -> tuple[str, ...]:
        """Ids of all facts that it can change."""
        return (*self.missing, *self.watched)


class Proposal(FiniteModel):
    """One repair of a place, as the judges of the loop see it."""

    place: int
    """Index of the place in the round's plan."""
    heat: int
    """Heat of the round in which it was drawn, from 1."""
    number: int
    """Which of its place in this heat, from 0."""
    image: str
    """Content hash of the whole picture with the place drawn anew."""
    does: str
    """Repair that drew it, in words."""
    gained: tuple[str, ...] = ()
    """Ids of missing facts that it holds."""
    lost: tuple[str, ...] = ()
    """Ids of facts that held and that it does not hold."""
    expected: float = 0.0
    """Expected number of facts that it gains, less those that it loses."""
    worth: float = 0.0
    """The same, where a lost fact counts for several gained ones."""
    log_odds: float = 0.0
    """Log of the odds that it gained a fact and lost none, given the judges' answers and their
    error rates."""
    wins: bool = False
    """Whether it may be pasted."""


class SentenceReading(FrozenModel):
    """Reading of the sentence of a scene, with its cost."""

    reader: Literal["llm", "rules"]
    """A language model, or the rules."""
    model: str = ""
    """The language model that was asked, as ``account:model``; empty if none was."""
    problem: str = ""
    """Why the rules read in place of the model; empty if they did not."""
    calls: int = 0
    """Its calls."""
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0
    """Its cost in US dollars."""

    def plus(self, other: SentenceReading | None) -> SentenceReading:
        """Return this reading with the cost of an earlier one."""
        if other is None:
            return self
        summed = ("calls", "tokens_in", "tokens_out", "usd")
        return self.model_copy(update={n: getattr(self, n) + getattr(other, n) for n in summed})


class RunStarted(_Event):
    """The run begins."""

    type: Literal["run_started"] = "run_started"
    run_id: str
    """Name of the run folder."""
    scene: SceneGraph
    """Scene that is asked for."""
    facts: tuple[Fact, ...]
    """Facts that will be checked."""
    config: dict[str, Any]
    """Profile and options as in the manifest."""
    reading: SentenceReading | None = Field(
        default=None, exclude_if=lambda reading: reading is None
    )
    """Reading of the sentence; None for a scene that was given as a graph."""
    sentence: str = Field(default="", exclude_if=lambda said: not said)
    """Of runs of before 1.1: words that the scene was read from (now ``scene.intent``)."""


class Warned(_Event):
    """Something to know of a run.

    What its models cannot do of the scene, told before anything is drawn, or what answers show of
    the models behind them.
    """

    type: Literal["warned"] = "warned"
    about: Literal["vocabulary", "version", "independence", "reading"] = "vocabulary"
    """``vocabulary``: the scene has words that they do not know; ``version``: a model is served by
    another version than before; ``independence``: one model stands behind two names; ``reading``:
    the rules read the sentence in place of a language model that failed."""
    text: str
    """Warning and remedy."""
    facts: tuple[str, ...] = ()
    """Ids of the facts that it is about."""


class Composed(_Event):
    """A prompt was written."""

    type: Literal["composed"] = "composed"
    round: int
    """From 0."""
    purpose: Purpose
    """For the candidate (whole scene) or the reference (missing graph)."""
    prompt: str
    """The prompt."""
    graph: str = ""
    """Digest of the composed graph: the same graph is not worded twice in a run. Empty if the
    prompt says places of one picture alone."""
    author: str = ""
    """Author: the composer's id, or of a language model ``model``, ``model again`` (its
    second text) or the id of the composer that wrote in its place."""
    composer: str = ""
    """Id of the run's composer."""
    model: str = ""
    """The language model that wrote it; empty if none did."""
    problem: str = ""
    """Why another composer wrote it in place of the language model; empty if none did."""
    unsaid: tuple[tuple[str, ...], ...] = Field(default=(), exclude_if=lambda unsaid: not unsaid)
    """Facts for which it has no room: an object's id, its id and an attribute's key, or source,
    predicate and target."""
    lost: tuple[Passage, ...] = Field(default=(), exclude_if=lambda lost: not lost)
    """Passages of the person's sentence that it does not say."""
    added: tuple[str, ...] = Field(default=(), exclude_if=lambda added: not added)
    """Words that the sentence does not say."""
    layout: int = Field(default=0, exclude_if=lambda round: round == 0)
    """Round whose seed plans the places that it says."""
    tokens_in: int = 0
    """Input tokens of the language model, if one composed."""
    tokens_out: int = 0
    """Its output tokens."""
    usd: float = 0.0
    """Its cost in US dollars."""


class Planned(_Event):
    """A strategy has decided what the next round does."""

    type: Literal["planned"] = "planned"
    round: int
    """The round that begins, from 1."""
    strategy: str
    """The strategy that acts."""
    chosen_by: str = ""
    """The strategy that chose it, if it was another one (``router``)."""
    does: str
    """Repair in words."""
    why: str
    """Why."""
    reference: SceneGraph | None = None
    """Graph of a reference image that is drawn first; none: no reference."""
    object: str | None = Field(default=None, exclude_if=lambda id_: id_ is None)
    """In logs of older versions: id of the object that was drawn anew to look more real."""
    region: Box | None = Field(default=None, exclude_if=lambda box: box is None)
    """Place of it: left, top, right, bottom as shares of the picture's sides."""
    places: tuple[Place, ...] = Field(default=(), exclude_if=lambda places: not places)
    """Places that are repaired by proposals; empty: the round draws one picture."""
    work: tuple[float, float] | None = Field(default=None, exclude_if=lambda work: work is None)
    """Full-picture steps of the denoiser that the proposals will take, at least and at most; none:
    not known."""
    judge_calls: tuple[int, int] | None = Field(
        default=None, exclude_if=lambda calls: calls is None
    )
    """Calls of judges that the proposals will take, at least and at most."""
    layout: int = Field(default=0, exclude_if=lambda round: round == 0)
    """Round whose seed plans where things stand in what is drawn."""


class Replied(_Event):
    """The director's language model has replied, and was paid for it.

    A run that goes on takes the reply from here and does not ask again. Its cost is told by the
    turn's first :class:`ToolCalled`.
    """

    type: Literal["replied"] = "replied"
    turn: int
    """From 0."""
    message: dict[str, Any]
    """The reply as LangChain keeps it: an ``AIMessage`` as JSON data."""
    refused: str = ""
    """Why it would not go on, in its own or its provider's words; empty: it did not refuse."""
    tokens_in: int = 0
    """Input tokens of the turn."""
    tokens_out: int = 0
    """Output tokens."""
    usd: float = 0.0
    """Cost in US dollars."""


class ToolCalled(_Event):
    """The director used a tool, or said something without one."""

    type: Literal["tool_called"] = "tool_called"
    turn: int
    """From 0; every turn is one reply of the language model."""
    round: int
    """The newest round when it was called; -1: nothing is drawn yet."""
    tool: str
    """The tool's name; empty where the reply names none."""
    arguments: dict[str, Any]
    """Arguments of the call."""
    outcome: str
    """Reply to the language model, without pictures."""
    ok: bool
    """Whether it did what it was asked."""
    said: str = ""
    """The words beside the call."""
    tokens_in: int = 0
    """Input tokens of the turn; 0 from the second call of a turn on."""
    tokens_out: int = 0
    """Output tokens likewise."""
    usd: float = 0.0
    """Cost in US dollars likewise."""


class Step(_Event):
    """A denoising step was done. Streamed, not stored."""

    type: Literal["step"] = "step"
    round: int
    """From 0."""
    purpose: Purpose
    """Purpose of the image."""
    step: int
    """Steps done."""
    of: int
    """Steps in all."""


class PartialImage(_Event):
    """A picture while it is drawn. Streamed, not stored: the image follows with ``generated``."""

    type: Literal["partial_image"] = "partial_image"
    round: int
    """From 0."""
    purpose: Purpose
    """Purpose of the image."""
    step: int
    """Steps done, or the number of the partial image, from 1."""
    of: int
    """Steps in all."""
    image: str
    """The picture as it stands, small, as a ``data:`` URI."""


class Retrying(_Event):
    """A request to a model failed and is sent again. Streamed, not stored."""

    type: Literal["retrying"] = "retrying"
    round: int
    """The round that it is for; -1: nothing is drawn yet."""
    model: str
    """Failed call: ``account:model`` and its purpose."""
    attempt: int
    """Which attempt of the call failed, from 1."""
    seconds: float
    """Seconds that it took."""
    reason: str
    """Why it failed."""
    wait: float
    """Seconds until the next attempt."""


class Generated(_Event):
    """An image is there."""

    type: Literal["generated"] = "generated"
    round: int
    """From 0."""
    purpose: Purpose
    """Purpose of the image."""
    image: str
    """Content hash."""
    request: GenerationRequest
    """Request that it was drawn from."""
    seconds: float
    """Wall time of the drawing."""
    usd: float = 0.0
    """Its cost in US dollars."""
    cached: bool = False
    """Found in the store instead of drawn."""
    given: bool = False
    """Came with the run: nothing was drawn, and ``request`` is what it stands in for."""
    pasted: bool = Field(default=False, exclude_if=lambda pasted: not pasted)
    """Put together from proposals: nothing was drawn, and ``request`` is that of the picture into
    which they were pasted."""
    steps: int | None = None
    """Denoising steps that were done; None: not known."""
    work: float | None = Field(default=None, exclude_if=lambda work: work is None)
    """Work of the denoiser in full-picture steps; None: not known. A picture that was found has
    that of its drawing, which the run did not spend."""
    changed: float | None = Field(default=None, exclude_if=lambda changed: changed is None)
    """Share (0 to 1) of the pixels that differ from the picture that the run began with; None: the
    run has no mask."""
    prompt_tokens: int | None = None
    """Tokens of the prompt; None: not known."""
    tokens_dropped: int = 0
    """Facts that the model did not read."""
    facts_dropped: tuple[str, ...] = ()
    """Ids of the facts that the prompt says in words which the model did not read, or for which it
    had no room."""
    estimated: bool = False
    """Whether the tokens are an estimate."""

    @property
    def drawn(self) -> bool:
        """Whether it was drawn for this run, and not found, given or put together."""
        return not (self.cached or self.given or self.pasted)


class Drafted(_Event):
    """Drafts of the first picture were judged; only in logs of older versions."""

    type: Literal["drafted"] = "drafted"
    round: int
    """0."""
    images: tuple[str, ...]
    """Content hashes of the drafts."""
    cards: tuple[ScoreCard, ...]
    """Verdicts of the loop's judges on each, all facts asked at once."""
    kept: int
    """Index of the draft that is finished."""
    judge_calls: int
    """Calls of judges for it."""
    tokens_in: int = 0
    """Their input tokens."""
    tokens_out: int = 0
    """Their output tokens."""
    usd: float = 0.0
    """Their cost in US dollars."""


class Proposed(_Event):
    """The proposals of one heat of a round were drawn and judged."""

    type: Literal["proposed"] = "proposed"
    round: int
    """From 1."""
    heat: int
    """From 1."""
    proposals: tuple[Proposal, ...]
    """Proposals of all places, place by place."""
    judge_calls: int
    """Calls of judges for them."""
    tokens_in: int = 0
    """Their input tokens."""
    tokens_out: int = 0
    """Their output tokens."""
    usd: float = 0.0
    """Their cost in US dollars."""


class Selected(_Event):
    """The best proposal of each place was chosen, and the round's candidate is put together."""

    type: Literal["selected"] = "selected"
    round: int
    """From 1."""
    winners: tuple[Proposal, ...]
    """The proposals that are pasted; none of a place whose proposals all lose."""
    gained: tuple[str, ...]
    """Ids of the facts that the candidate gains, by the judges' answers to all winners together."""
    lost: tuple[str, ...]
    """Ids of those that it loses."""
    work: float | None
    """Full-picture steps of the denoiser for all that was drawn in the round; none: not known."""
    calls: int
    """Calls of judges for all proposals and for the candidate put together."""
    judge_calls: int
    """Calls for the candidate alone."""
    tokens_in: int = 0
    """Their input tokens."""
    tokens_out: int = 0
    """Their output tokens."""
    usd: float = 0.0
    """Their cost in US dollars."""


class Answered(_Event):
    """One judge has answered facts of one image."""

    type: Literal["answered"] = "answered"
    round: int
    """From 0."""
    role: Role
    """Whether the judge steers the loop or reports the result."""
    image: str
    """Content hash."""
    judge_id: str
    """``provider:model``."""
    answers: tuple[Answer, ...]
    """One a fact."""
    seconds: float
    """Wall time."""
    cached: bool = False
    """All answers came from the store."""
    stage: Stage | None = None
    """In a cascade, whether the judge is one of the first or was asked what these were unsure
    of; none without a cascade."""


class Judged(_Event):
    """The panel's verdicts of one image."""

    type: Literal["judged"] = "judged"
    round: int
    """From 0."""
    role: Role
    """Which judges made it."""
    image: str
    """Content hash."""
    card: ScoreCard
    """Verdicts and scores."""


class Missing(_Event):
    """Facts missing in the candidate."""

    type: Literal["missing"] = "missing"
    round: int
    """From 0."""
    graph: SceneGraph
    """The missing graph."""


class Resumed(_Event):
    """A run that was cut off goes on."""

    type: Literal["resumed"] = "resumed"
    after: str
    """Key of the last stored event."""


class Paused(_Event):
    """The run waits for a person: nothing is at work until it is gone on with."""

    type: Literal["paused"] = "paused"
    round: int
    """The newest round."""


class Edited(_Event):
    """A person has looked at the run, and it goes on as they say."""

    type: Literal["edited"] = "edited"
    edit_key: str
    """The edit's own key: see :class:`scenewright.graphs.events.Edit`."""
    round: int
    """The round that begins with the edit. Its candidate is the picture of round ``base``; of an
    edit that corrects nothing it is the newest round, and no round begins."""
    base: int
    """Round of the picture that the run goes on from."""
    scene: SceneGraph
    """Scene that is asked for from here on."""
    facts: tuple[Fact, ...]
    """Facts that are checked from here on."""
    verdicts: dict[str, Literal["yes", "no"]] = Field(default_factory=dict)
    """Verdicts of the person by fact id: these facts are not asked."""
    corrects: bool = True
    """Whether the edit begins a round; else the run just goes on."""
    rounds: int = 3
    """Most candidates drawn from here on."""
    note: str = ""
    """The person's words."""


class Finished(_Event):
    """The run is over, until an edit goes on with it."""

    type: Literal["finished"] = "finished"
    reason: StopReason
    """Why it stopped."""
    limit: str = Field(default="", exclude_if=lambda limit: not limit)
    """Which limit ended it, with its figures; empty: none did."""
    best_round: int
    """Round of the kept candidate."""
    image: str
    """Its content hash."""
    loop_card: ScoreCard
    """Scores by the judges of the loop."""
    report_card: ScoreCard | None
    """Scores by judges the loop never saw; none if the profile has none."""
    totals: dict[str, float]
    """images, seconds, tokens_in, tokens_out, usd, work, judge_calls, cached."""


Event = Annotated[
    RunStarted
    | Warned
    | Composed
    | Planned
    | Replied
    | ToolCalled
    | Step
    | PartialImage
    | Retrying
    | Generated
    | Drafted
    | Proposed
    | Selected
    | Answered
    | Judged
    | Missing
    | Resumed
    | Paused
    | Edited
    | Finished,
    Field(discriminator="type"),
]
STREAMED = (Step, PartialImage, Retrying)
"""Events that only those hear who listen just then."""
EVENT: TypeAdapter[Event] = TypeAdapter(Event)
