"""The parts of a page as plain data: what the templates show."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from scenewright.core.facts import Answer, Fact, Verdict
from scenewright.runs.report.pictures import Picture
from scenewright.runs.report.record import RoundView, RunView, Shown


@dataclass(frozen=True, slots=True)
class Cell:
    """One fact in one round."""

    tip: str
    """Id of its tooltip."""
    state: Shown
    """The loop panel's verdict."""
    probability: float | None
    """The loop panel's probability."""
    loop: Verdict | None
    """The loop panel's verdict in full."""
    report: Verdict | None
    """The report panel's."""
    loop_answers: tuple[Answer, ...]
    """Each loop judge's answer."""
    report_answers: tuple[Answer, ...]
    """Each report judge's answer."""
    title: str
    """All of it as plain text."""
    decided: bool = False
    """Whether a person said so, and no loop judge was asked."""
    settled: bool = False
    """Whether the first judges of a cascade settled it alone."""


@dataclass(frozen=True, slots=True)
class HumanFeedback:
    """What a person said of a picture."""

    base: int
    """Round of the picture."""
    note: str
    """The person's words."""
    corrected: tuple[tuple[str, str, str], ...]
    """Of each fact that they see otherwise than the panel did: state, statement, and what the
    panel had said in words."""
    added: tuple[str, ...]
    """Statements that are asked from here on."""
    dropped: tuple[str, ...]
    """Statements that are asked no more."""
    rounds: int
    """Most rounds from here on."""


@dataclass(frozen=True, slots=True)
class Row:
    """One fact over all rounds."""

    fact: Fact
    """The fact."""
    cells: tuple[Cell, ...]
    """One a round."""
    former: bool = False
    """Whether an edit took it out of the scene."""


@dataclass(frozen=True, slots=True)
class Group:
    """The facts of one kind."""

    name: str
    """Heading."""
    recalls: tuple[str, ...]
    """``2/3`` for each round, by the loop's judges; a dash before they have spoken."""
    rows: tuple[Row, ...]
    """One a fact."""


@dataclass(frozen=True, slots=True)
class Shot:
    """A drawn image with what it was drawn from."""

    picture: Picture | None
    """The picture; none if its file is missing or damaged."""
    digest: str
    """Content hash."""
    alt: str
    """What a reader who cannot see it should know."""
    prompt: str
    """What was asked."""
    settings: str
    """Seed, size, steps, guidance and references in words."""
    seconds: float
    """Wall time of the drawing."""
    cached: bool
    """Found in the store instead of drawn."""
    dropped: str = ""
    """What of the prompt was not read, in words; empty if all was."""


@dataclass(frozen=True, slots=True)
class Source:
    """A reference image under a candidate."""

    picture: Picture | None
    """The picture; none if its file is missing or damaged."""
    label: str
    """Where it comes from."""
    use: str
    """Its weight λ of Eq. 5, and what of it was kept, in words."""


@dataclass(frozen=True, slots=True)
class RoundContent:
    """One round as the page shows it."""

    view: RoundView
    """The round."""
    index: int
    """From 0."""
    kept: bool
    """Whether this candidate is the result."""
    candidate: Shot | None
    """The candidate."""
    sources: tuple[Source, ...]
    """The reference images that the candidate was drawn with, in the order of the request."""
    reference: Shot | None
    """The image of what was missing, drawn for this round; it may wait for its candidate."""
    missing: Markup
    """The missing graph's drawing; empty if nothing is missing or that is not known."""
    missing_words: str
    """What is missing, in words."""
    graph: Markup
    """The scene's drawing with this round's verdicts."""
    line: str
    """How many facts hold."""
    settled: str
    """How many facts the first judges of a cascade settled alone; empty without a cascade."""
    state: Shown
    """The candidate's verdict as one state."""
    loop: float | None
    """SGScore by the judges of the loop."""
    report: float | None
    """SGScore by the judges of the report."""
    looked: HumanFeedback | None = None
    """What a person said; none if the candidate was drawn."""


@dataclass(frozen=True, slots=True)
class Stat:
    """One figure of the summary."""

    label: str
    """What it is."""
    value: str
    """The figure."""
    note: str
    """A few words on it."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A run at a glance."""

    title: str
    """The scene in words."""
    run_id: str
    """Name of the run."""
    link: str
    """Address of its page, relative to the page that shows the summary."""
    line: str
    """The verdict in words."""
    state: Shown
    """The verdict as one state, for its icon."""
    picture: Shot | None
    """The kept candidate."""
    stats: tuple[Stat, ...]
    """Figures."""
    shots: tuple[tuple[int, bool, Shot, float | None], ...]
    """(round, kept, candidate, loop score) of every round."""
    complexity: str
    """Size and level of the scene."""


@dataclass(frozen=True, slots=True)
class PageContent:
    """All that the run page shows."""

    summary: Summary
    """At a glance."""
    view: RunView
    """The run."""
    rounds: tuple[RoundContent, ...]
    """In order."""
    chosen: int
    """Index of the round whose graph is shown first."""
    groups: tuple[Group, ...]
    """Facts by kind."""
    loop_judges: tuple[str, ...]
    """Ids."""
    report_judges: tuple[str, ...]
    """Ids."""
    provenance: tuple[tuple[str, str], ...]
    """Key and value of the manifest and the configuration, flattened."""
    when: str
    """When the run began, UTC."""
    notes: tuple[str, ...]
    """What a reader should know of an unfinished, resumed or damaged run."""
    graph: Markup
    """The scene's drawing without verdicts, for a run that has no round yet."""
