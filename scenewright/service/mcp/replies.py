"""Replies of the tools: data for programs, and the same with a picture for agents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from mcp.types import CallToolResult, ContentBlock, ImageContent, ResourceLink, TextContent
from pydantic import BaseModel, WithJsonSchema

from scenewright.core.answers import decided_lines
from scenewright.core.facts import Fact, ScoreCard, missing_graph
from scenewright.core.formats import dump_scene
from scenewright.core.images import ImageError, ImageStore
from scenewright.core.intent import Doubt
from scenewright.core.scene import SceneGraph
from scenewright.graphs.reporting import Reporting
from scenewright.runs.record import shown_role
from scenewright.runs.result import RunResult
from scenewright.service.core.requests import stored_intent
from scenewright.service.core.schemas import ScoreResponse, Status, Summary
from scenewright.service.core.store import Run
from scenewright.service.mcp.agent_sessions import is_agents
from scenewright.tools.director import picture_block, preview

ROOT = "scenewright://runs"
"""Beginning of the URIs of all resources."""


class FactStatus(BaseModel):
    """A fact of the scene and what the judges of the loop say of it."""

    id: str
    """Names the fact."""
    says: str
    """The fact in words."""
    state: str | None
    """yes, no, void (what it needs is not there) or unscored; null: not asked yet."""
    probability: float | None = None
    """The panel's probability that it holds, 0–1."""
    reason: str | None = None
    """Why it is unscored."""


class RoundStatus(BaseModel):
    """A round in short."""

    round: int
    """From 0."""
    image: str
    """URI of its picture."""
    score: float | None
    """SGScore by the judges of the loop, 0–1."""
    does: str
    """Action that drew it."""


class RunStatus(BaseModel):
    """A run, and what is known of one of its pictures: the kept one, or that of a round."""

    run: str
    """Its id."""
    title: str
    """The scene in words."""
    status: Status
    """Its status."""
    directed: bool
    """Whether an agent directs it with open_scene's tools."""
    done: bool
    """Whether nothing more comes without a further call."""
    next: str
    """Possible next steps."""
    error: str | None = None
    """Why it failed or could not do what was asked."""
    queue_position: int | None = None
    """Runs before it in the queue."""
    stop_reason: str | None = None
    """Why it stopped: satisfied, rounds, budget …"""
    limit: str = ""
    """Which limit ended it."""
    round: int | None = None
    """The round that image, facts, scores and missing tell of; null: nothing is drawn yet."""
    best_round: int | None = None
    """The round that is kept."""
    image: str | None = None
    """URI of the picture."""
    satisfied: bool | None = None
    """Whether the judges of the loop found every fact in it."""
    warnings: tuple[str, ...] = ()
    """Parts of the scene that the profile's models cannot draw or judge: they are unscored."""
    doubts: tuple[Doubt, ...] = ()
    """Other meanings of the text: send a choice's sentence as text for that reading."""
    lost: tuple[str, ...] = ()
    """Passages of the sentence that the prompt of the picture does not say."""
    added: tuple[str, ...] = ()
    """Words of the prompt that the sentence does not say."""
    score: float | None = None
    """SGScore by the judges of the loop, 0–1."""
    report_score: float | None = None
    """SGScore by the judges of the report."""
    reporting: Reporting | None = None
    """Whether these are other models than those of the loop; a self-report is no independent
    score."""
    facts: tuple[FactStatus, ...] = ()
    """Every fact."""
    missing: str | None = None
    """Missing graph as triplets; null: nothing is known to be missing."""
    missing_graph: SceneGraph | None = None
    """The same as a graph."""
    rounds: tuple[RoundStatus, ...] = ()
    """All rounds, oldest first."""
    usd: float = 0.0
    """Cost in US dollars."""
    images: int = 0
    """Images drawn, references included."""
    page: str
    """URI of the run's page."""


class RunBrief(BaseModel):
    """A run in a list."""

    run: str
    """Its id."""
    title: str
    """The scene in words."""
    status: Status
    """Its status."""
    rounds: int
    """Pictures of the whole scene."""
    score: float | None
    """SGScore of the kept picture by the judges of the report, or of the loop without a report."""
    unscored: int = 0
    """Facts that it leaves out because nobody could judge them."""
    image: str | None
    """URI of the kept picture."""
    created: float
    """Unix time in seconds."""


class RunList(BaseModel):
    """Runs, newest first."""

    runs: tuple[RunBrief, ...]
    """The runs."""
    next: str | None
    """Give it as before for the runs that follow; null: there are no more."""


class OpenedRun(BaseModel):
    """A run that waits for its director's first tool."""

    run: str
    """Its id: give it to the director's tools."""
    status: Status
    """Its status."""
    facts: tuple[FactStatus, ...]
    """The facts to be checked."""
    warnings: tuple[str, ...] = ()
    """Parts of the scene that the profile's models cannot draw or judge, and what a reader of the
    report's score must know."""
    doubts: tuple[Doubt, ...] = ()
    """Other readings of the text."""
    limits: dict[str, int | float | None]
    """rounds, images, tool_calls, usd, seconds, tokens; null: no limit."""
    next: str
    """Possible next steps."""
    page: str
    """URI of the run's page."""


_AS_GET_RUN = {"type": ["object", "null"], "description": "The run as refine_scene replies it."}
"""Schema of a run within another reply: it is described once, at ``refine_scene``."""


class ToolResult(BaseModel):
    """Reply of a director's tool."""

    run: str
    """The run."""
    tool: str
    """The tool."""
    done: bool
    """Whether it is done; if not, the same call again waits for it and hears what it told."""
    told: dict[str, Any] | None = None
    """Its reply."""
    over: bool = False
    """Whether the run is over."""
    result: Annotated[RunStatus | None, WithJsonSchema(_AS_GET_RUN)] = None
    """The run, once it is over."""
    next: str = ""
    """Possible next steps."""


class ScoredImage(BaseModel):
    """Verdicts of a profile's judges on a picture."""

    satisfied: bool
    """Whether the judges that would steer a loop found every fact."""
    score: float | None
    """Their SGScore, 0–1."""
    report_score: float | None
    """SGScore by the judges that would report a result."""
    reporting: Reporting
    """Whether these are other models; a self-report is no independent score."""
    facts: tuple[FactStatus, ...]
    """Every fact."""
    answers: dict[str, dict[str, str]]
    """Each judge's answers, by its id and the fact's."""
    missing: str | None
    """Missing graph as triplets."""
    missing_graph: SceneGraph | None
    """The same as a graph."""
    warnings: tuple[str, ...] = ()
    """Parts of the scene that the judges do not know, and which words of the text were not read."""
    usd: float
    """Cost in US dollars."""


def scored_image(found: ScoreResponse) -> ScoredImage:
    """Return the reply about a picture that was scored."""
    report = found.report
    asked = {fact.id for fact in found.facts}
    return ScoredImage(
        satisfied=found.loop.satisfied,
        score=found.loop.sgscore,
        report_score=report.sgscore if report is not None else None,
        reporting=found.reporting,
        facts=fact_statuses(found.facts, found.loop),
        answers={
            one.judge_id: {a.fact_id: a.state for a in one.answers if a.fact_id in asked}
            for one in found.answers
        },
        warnings=found.warnings,
        usd=found.usd,
        **_missing(found.missing),
    )


def image_uri(run: str, image: str) -> str:
    """Return the URI of an image of a run."""
    return f"{ROOT}/{run}/images/{image}"


def page_uri(run: str) -> str:
    """Return the URI of a run's page."""
    return f"{ROOT}/{run}/page"


def brief_of(run: Run) -> RunBrief:
    """Return a run in a list."""
    summary = Summary.model_validate(run.summary or {})
    return RunBrief(
        run=run.id,
        title=run.title,
        status=run.status,
        rounds=summary.rounds,
        score=summary.score,
        unscored=summary.unscored,
        image=image_uri(run.id, summary.image) if summary.image else None,
        created=run.created,
    )


def run_reply(
    run: Run,
    result: RunResult | None,
    position: int | None,
    round: int | None = None,
    warnings: tuple[str, ...] = (),
) -> RunStatus:
    """Return the reply about a run.

    ``result`` is that of its folder, ``round`` chooses the picture; ``warnings``: parts of the
    scene that its models do not know. Raises ``LookupError`` if there is no such round.
    """
    known: dict[str, Any] = {}
    if result is not None:
        at = result.best or (result.rounds[-1] if result.rounds else None)
        if round is not None:
            at = next((record for record in result.rounds if record.round == round), None)
            if at is None:
                there = ", ".join(str(record.round) for record in result.rounds) or "none yet"
                raise LookupError(f"the run has no round {round}: there are {there}")
        card = at.card(shown_role(at.loop_card, at.report_card)) if at is not None else None
        known = {
            "stop_reason": result.stop_reason,
            "limit": result.limit,
            "best_round": result.best_round,
            "reporting": result.reporting,
            "facts": fact_statuses(result.facts, card),
            "rounds": tuple(
                RoundStatus(
                    round=one.round,
                    image=image_uri(run.id, one.image),
                    score=one.score("loop"),
                    does=one.does,
                )
                for one in result.rounds
            ),
            "usd": result.totals.get("usd", 0.0),
            "images": int(result.totals.get("images", 0)),
        }
        if at is not None:
            known |= {
                "round": at.round,
                "image": image_uri(run.id, at.image),
                "lost": tuple(passage.text for passage in at.lost),
                "added": at.added,
                "score": at.score("loop"),
                "report_score": at.score("report"),
            }
        if card is not None:
            known["satisfied"] = card.satisfied
            # A card that is older than an edit knows other facts.
            if {v.fact_id for v in card.verdicts} == {fact.id for fact in result.facts}:
                known |= _missing(missing_graph(result.scene, result.facts, card.verdicts))
    return RunStatus(
        run=run.id,
        title=run.title,
        status=run.status,
        directed=is_agents(run),
        done=run.status not in ("queued", "running"),
        next=_next(run),
        error=run.error,
        queue_position=position,
        warnings=warnings,
        doubts=stored_intent(run.request).doubts if result is None else result.scene.doubts,
        page=page_uri(run.id),
        **known,
    )


def _missing(graph: SceneGraph | None) -> dict[str, Any]:
    """Return the fields of a reply that tell what is missing."""
    if not graph:
        return {"missing": None, "missing_graph": None}
    return {"missing": dump_scene(graph.graph, "triplets").strip(), "missing_graph": graph}


def fact_statuses(facts: Sequence[Fact], card: ScoreCard | None) -> tuple[FactStatus, ...]:
    """Facts with the verdicts of ``card``; those about one number are one."""
    return tuple(
        FactStatus(
            id=fact.id,
            says=line.fact.statement,
            state=None if verdict is None else verdict.state,
            probability=None
            if verdict is None or verdict.probability is None
            else round(verdict.probability, 4),
            reason=verdict.reason if verdict and verdict.state == "unscored" else None,
        )
        for line, fact, verdict in decided_lines(facts, card)
    )


def reply(
    data: BaseModel, picture: str | None = None, also: Sequence[ContentBlock] = ()
) -> CallToolResult:
    """Return ``data`` for programs, and the same as text for agents.

    With a small JPEG (in base64) beside it, and more blocks such as links.
    """
    plain = data.model_dump(mode="json")
    content: list[ContentBlock] = [
        TextContent(type="text", text=data.model_dump_json(exclude_none=True))
    ]
    if picture is not None:
        content.append(ImageContent(type="image", data=picture, mime_type="image/jpeg"))
    return CallToolResult(content=[*content, *also], structured_content=plain)


def error_result(message: str) -> CallToolResult:
    """Return the error of a tool, and the remedy."""
    return CallToolResult(content=[TextContent(type="text", text=message)], is_error=True)


def links_of(told: RunStatus) -> list[ContentBlock]:
    """Links to the picture that ``told`` tells of, and to the run's page."""
    found: list[ContentBlock] = []
    if told.image is not None:
        found.append(
            ResourceLink(
                type="resource_link",
                uri=told.image,
                name=f"round-{told.round}.png",
                title=f"Round {told.round}: {told.title}",
                mime_type="image/png",
            )
        )
    if told.rounds:
        found.append(
            ResourceLink(
                type="resource_link",
                uri=told.page,
                name="run.html",
                title=f"Page of the run: {told.title}",
                mime_type="text/html",
            )
        )
    return found


def small(place: Path) -> str | None:
    """Return a small JPEG, in base64, of the file of a run's image; none if it is not there."""
    if not place.is_file():
        return None
    try:
        picture = ImageStore(place.parent).get(place.stem)
    except ImageError:
        return None
    return str(picture_block(preview(picture))["base64"])


def _next(run: Run) -> str:
    match run.status:
        case "queued" | "running" if not is_agents(run):
            return "the run goes on by itself: call get_run with wait_seconds"
        case "finished":
            if is_agents(run):
                return "the run is over"
            return "the run is over: edit_run goes on from it"
        case "cancelled" | "failed":
            return "resume_run goes on with it"
        case _:
            if is_agents(run):
                return "it waits for its director: call one of the director's tools"
            return "it waits for a person: edit_run or resume_run goes on with it"
