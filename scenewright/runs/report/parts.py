"""The parts of a page as plain data: what the templates show.

Pictures for people: enlarged smoothly, made small, and inlined into HTML.

The score by round as an SVG line chart.

What a person said of a picture, as the page shows it.

How real the objects of a run's pictures look, before and after, as the page and terminal say it.

The figure is object-centric realism (OcR): the mean probability, over objects and the aspects
shape and texture, that they look as in a photo.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup
from PIL import Image, UnidentifiedImageError

from scenewright.core.facts import Answer, Fact, Verdict
from scenewright.core.images import ImageError, load_image
from scenewright.runs.record import ROLES, Round, RunRecord, Shown
from scenewright.runs.report import templates, words
from scenewright.runs.report.words import score

SHOWN_SIDE = 256
"""Longest side in CSS pixels at which the page shows a picture."""
LARGE_SIDE = 1536
"""Most pixels of the longest side of the kept picture, which the page shows large."""
INLINE_SIDE = 512
"""Longest side in pixels of an inlined picture: twice the shown one, for dense screens."""
SOURCE_SIDE = 192
"""Longest side in pixels of an inlined reference image, which is shown small."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that a page can show."""

    uri: str
    """``data:`` URI, or an address on the server of the page."""
    width: int
    """Pixels of the original."""
    height: int
    """Pixels of the original."""


Show = Callable[[Path | None, int], Picture | None]
"""Makes a picture of the file and its longest side in pixels; none if the file is not there."""


def fit(image: Image.Image, side: int) -> Image.Image:
    """``image`` scaled to a longest side of ``side`` pixels, with Lanczos both ways."""
    scale = side / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, Image.Resampling.LANCZOS)


def inline(path: Path | None, side: int = INLINE_SIDE) -> Picture | None:
    """Return the picture at ``path`` as a ``data:`` URI; none if it is missing or damaged.

    A side of more than :data:`INLINE_SIDE` is that of the file, if it is smaller. A page must be
    written for a damaged run too: it says what is missing in its place.
    """
    if path is None:
        return None
    try:
        image = load_image(path)
    except ImageError:
        return None
    if side > INLINE_SIDE:
        side = min(side, max(INLINE_SIDE, *image.size))
    buffer = io.BytesIO()
    fit(image, side).save(buffer, "WEBP", quality=90, method=4)
    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    return Picture(f"data:image/webp;base64,{encoded}", image.width, image.height)


def linked(folder: str) -> Show:
    """Pictures by address: ``folder`` is the address below which they lie by content hash.

    A small one is asked for as its preview.
    """

    def show(path: Path | None, side: int) -> Picture | None:
        if path is None:
            return None
        try:
            with Image.open(path) as image:
                width, height = image.size
        except (OSError, UnidentifiedImageError, ValueError):
            return None
        address = f"{folder}/{path.stem}"
        return Picture(address if side > SHOWN_SIDE else f"{address}/preview", width, height)

    return show


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
    chosen: bool = False
    """Of drafts and proposals: whether it won."""
    title: str = ""
    """More about it, shown on demand."""


@dataclass(frozen=True, slots=True)
class Strip:
    """The proposals for one place of a picture."""

    name: str
    """What is to be gained there, in words."""
    proposals: tuple[Source, ...]
    """In the order in which they were drawn."""


@dataclass(frozen=True, slots=True)
class RoundContent:
    """One round as the page shows it."""

    view: Round
    """The round."""
    index: int
    """From 0."""
    kept: bool
    """Whether this candidate is the result."""
    candidate: Shot | None
    """The candidate."""
    sources: tuple[Source, ...]
    """The reference images that the candidate was drawn with, in the order of the request."""
    strips: tuple[Strip, ...]
    """Proposals, place by place; empty where the candidate was drawn whole."""
    chosen: str
    """What the winning proposals change, in words; empty without proposals."""
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
    """The person's own sentence, else the scene in words."""
    parts: tuple[tuple[str, str], ...]
    """The title in parts, each with why it is not drawn or not checked; empty where it is."""
    stem: str
    """Name of a file with its picture, without the ending."""
    run_id: str
    """Name of the run."""
    link: str
    """Address of its page, relative to the page that shows the summary."""
    line: str
    """How many facts hold, and which are missing, in words."""
    state: Shown
    """The verdict as one state, for its icon."""
    picture: Shot | None
    """The kept candidate."""
    score: Stat | None
    """SGScore by the judges of the report, else by those of the loop; none before either."""
    stats: tuple[Stat, ...]
    """All figures."""
    shots: tuple[tuple[int, bool, Shot, float | None], ...]
    """(round, kept, candidate, loop score) of every round."""
    complexity: str
    """Size and level of the scene."""
    added: tuple[str, ...] = ()
    """Words of the prompt of the kept candidate that the sentence does not say."""


@dataclass(frozen=True, slots=True)
class PageContent:
    """All that the run page shows."""

    summary: Summary
    """At a glance."""
    view: RunRecord
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


WIDTH, HEIGHT = 440.0, 230.0
LEFT, RIGHT, TOP, BOTTOM = 34.0, 76.0, 14.0, 30.0


def draw_chart(view: RunRecord) -> str:
    """Return an SVG chart of SGScore (0 to 1) by round; empty if nothing was scored.

    One line for the judges of the loop, one for those of the report.
    """
    series = {
        role: [(r.index, value) for r in view.rounds if (value := r.score(role)) is not None]
        for role in ROLES
    }
    series = {role: points for role, points in series.items() if points}
    if not series:
        return ""
    last = max((r.index for r in view.rounds), default=0)
    spoken = "; ".join(
        f"{role} judges " + ", ".join(f"round {i} {score(v)}" for i, v in points)
        for role, points in series.items()
    )
    drawn = []
    taken: list[float] = []
    for role, points in series.items():
        placed = [(_x_of(i, last), _y_of(v), i, v) for i, v in points]
        y = label_y = placed[-1][1]
        while any(abs(label_y - other) < 17 for other in taken):
            label_y += 17 if y < HEIGHT - BOTTOM - 34 else -17
        taken.append(label_y)
        drawn.append((role, placed, label_y))
    return templates.render(
        "chart.svg.j2",
        spoken=spoken,
        last=last,
        step=max(1, -(-(last + 1) // 10)),
        kept=None if view.best is None else _x_of(view.best.index, last),
        series=drawn,
        size=_SIZES,
    )


def _x_of(index: int, last: int) -> float:
    span = WIDTH - LEFT - RIGHT - 24
    return LEFT + 12 + (span * index / last if last else span / 2)


def _y_of(value: float) -> float:
    return TOP + (1.0 - value) * (HEIGHT - TOP - BOTTOM)


_SIZES = {
    **{"WIDTH": WIDTH, "HEIGHT": HEIGHT, "LEFT": LEFT, "RIGHT": RIGHT, "TOP": TOP},
    **{"BOTTOM": BOTTOM, "x_of": _x_of, "y_of": _y_of},
}


def feedback_of_round(view: RunRecord, r: Round) -> HumanFeedback | None:
    """Return the person's feedback that began the round; None if its candidate was drawn."""
    edit = r.edit
    if edit is None:
        return None
    seen = next((other for other in view.rounds if other.index == edit.base), None)
    before = view.asked(r.index - 1)
    now = {fact.id: fact.statement for fact in edit.facts}
    then = {fact.id: fact.statement for fact in before.facts}
    corrected = []
    for name, said in edit.verdicts.items():
        state = seen.state(name) if seen is not None else "pending"
        if state != said and name in then:
            corrected.append((said, now[name], words.MEANINGS[state]))
    return HumanFeedback(
        base=edit.base,
        note=edit.note,
        corrected=tuple(corrected),
        added=tuple(text for name, text in now.items() if name not in then),
        dropped=tuple(text for name, text in then.items() if name not in now),
        rounds=edit.rounds,
    )


LOOP = "by the judges of the loop"


def realism_stats(view: RunRecord) -> tuple[Stat, ...]:
    """Figures of the page's head: realism after, and before; none in a run that does not ask."""
    found = []
    for role in reversed(ROLES):
        before, after = view.realism(role)
        if before is None and after is None:
            continue
        note = f"{words.score(before)} in round {view.scenes[-1].round}, {role} judges"
        found.append(Stat("Realism (OcR)", words.score(after), note))
    return tuple(found)


def realism_lines(view: RunRecord) -> list[tuple[str, str]]:
    """Label and value of the terminal's lines; none in a run that does not ask."""
    found: list[tuple[str, str]] = []
    for role in ROLES:
        before, after = view.realism(role)
        if before is None and after is None:
            continue
        since = ""
        if before is not None and after is not None:
            since = f" ({words.signed(after - before)} from round {view.scenes[-1].round})"
        label = "" if found else "realism"
        whose = LOOP if role == "loop" else view.reporting.line
        found.append((label, f"{words.score(after)} {whose}{since}"))
    return found
