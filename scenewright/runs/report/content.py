"""The content of a run's page: what the templates show, made of the run's record."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from scenewright.core.answers import FactLine, in_lines
from scenewright.core.facts import FactKind, ScoreCard, assign_verdicts
from scenewright.core.intent import Passage
from scenewright.core.scene import COMPOSED, SceneGraph
from scenewright.graphs.events import Drafted, Edited, Generated, Role
from scenewright.runs.record import ROLES, Round, RunRecord, Shown
from scenewright.runs.report import words
from scenewright.runs.report.graph import Mark, draw_graph
from scenewright.runs.report.pictures import (
    INLINE_SIDE,
    LARGE_SIDE,
    SOURCE_SIDE,
    Picture,
    Show,
    inline,
)

KIND_NAMES: dict[FactKind, str] = {
    "object": "Objects",
    "attribute": "Attributes",
    "relation": "Relations",
    "count": "Numbers and exclusions",
    "text": "Texts",
    "wish": "Wishes for the whole picture",
    "realism": "Realism",
}
"""Headings of the kinds of facts, in their order."""

MOST_TITLE = 300
"""Characters of a title."""


@dataclass(frozen=True, slots=True)
class Group:
    """The facts of one kind."""

    name: str
    """Heading."""
    recalls: tuple[str, ...]
    """``2/3`` for each round; a dash before it is judged."""
    lines: tuple[FactLine, ...]
    """The facts, those about one number together."""
    former: tuple[FactLine, ...]
    """Facts that an edit took out of the scene."""


@dataclass(frozen=True, slots=True)
class Shot:
    """A drawn image."""

    made: Generated
    """Its event, with the request."""
    picture: Picture | None
    """The picture; none if its file is missing or damaged."""
    alt: str
    """Text for a reader who cannot see it."""
    dropped: str
    """The part of the prompt that was not read, in words; empty if all was."""


@dataclass(frozen=True, slots=True)
class Source:
    """A reference image under a candidate, a draft of it, or a proposal for a place of it."""

    picture: Picture | None
    """The picture; none if its file is missing or damaged."""
    label: str
    """Its origin."""
    use: str
    """Its weight λ of Eq. 5, and which part of it was kept, in words."""
    chosen: bool = False
    """Of drafts and proposals: whether it won."""
    title: str = ""
    """More about it, shown on demand."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """A person's feedback on a picture."""

    edit: Edited
    """The edit."""
    corrected: tuple[tuple[str, str, str], ...]
    """Of each fact that they see otherwise than the panel did: state, statement, and the state by
    the panel in words."""
    added: tuple[str, ...]
    """Statements that are asked from here on."""
    dropped: tuple[str, ...]
    """Statements that are asked no more."""


@dataclass(frozen=True, slots=True)
class RoundContent:
    """One round as the page shows it."""

    view: Round
    """The round."""
    index: int
    """From 0."""
    kept: bool
    """Whether this candidate is the result."""
    marks: dict[str, Mark]
    """The look of each fact, by its id."""
    candidate: Shot | None
    """The candidate."""
    sources: tuple[Source, ...]
    """The reference images that the candidate was drawn with, in the order of the request."""
    strips: tuple[tuple[str, tuple[Source, ...]], ...]
    """Facts that each place is to gain, in words, and the proposals for it; empty where the
    candidate was drawn whole."""
    reference: Shot | None
    """The image of what was missing, drawn for this round; it may wait for its candidate."""
    missing: Markup
    """The missing graph's drawing; empty if nothing is missing or that is not known."""
    graph: Markup
    """The scene's drawing with this round's verdicts."""
    line: str
    """Number of facts that hold, in words."""
    state: Shown
    """The candidate's verdict as one state."""
    feedback: Feedback | None
    """A person's feedback that began the round; none if the candidate was drawn."""


@dataclass(frozen=True, slots=True)
class Stat:
    """One figure."""

    label: str
    """Its name."""
    value: str
    """The figure."""
    note: str
    """A few words on it."""


@dataclass(frozen=True, slots=True)
class PageContent:
    """Everything that the run page shows besides the run's record."""

    view: RunRecord
    """The run."""
    rounds: tuple[RoundContent, ...]
    """In order."""
    groups: tuple[Group, ...]
    """Facts by kind."""
    title: str
    """The person's own sentence, else the scene in words."""
    parts: tuple[tuple[str, str], ...]
    """The title in parts, each with why it is not drawn or not checked; empty where it is."""
    line: str
    """Number of facts that hold, and the missing ones, in words."""
    state: Shown
    """The verdict as one state, for its icon."""
    picture: Shot | None
    """The kept candidate, large."""
    score: Stat | None
    """SGScore by the judges of the report, else by those of the loop; none before either."""
    stats: tuple[Stat, ...]
    """All figures."""
    added: tuple[str, ...]
    """Words of the prompt of the kept candidate that the sentence does not say."""
    notes: tuple[str, ...]
    """Notes on an unfinished, resumed or damaged run."""
    provenance: tuple[tuple[str, str], ...]
    """Key and value of the manifest and the configuration, flattened."""
    graph: Markup
    """The scene's drawing without verdicts, for a run that has no round yet."""


def page_content(view: RunRecord, show: Show = inline, live: bool = False) -> PageContent:
    """Return everything on the run page of ``view``.

    ``show`` makes pictures of files; a ``live`` page tells elsewhere where the run stands.
    """
    groups = tuple(filter(None, (_group(view, kind) for kind in KIND_NAMES)))
    rounds = tuple(_round(view, r, groups, show) for r in view.rounds)
    card, report = view.card("loop"), view.card("report")
    shown = view.card(view.shown_role)
    kept = next((r for r in rounds if r.kept), None)
    asked = view.scenes[-1] if kept is None else view.asked(kept.index)
    composed = None if kept is None else view.composed(kept.index)
    parts = title_parts(view, view.best)
    picture = None
    if kept is not None and kept.candidate is not None:
        picture = _shot(view, kept.candidate.made, kept.candidate.alt, show, LARGE_SIDE)
    manifest = view.manifest or {"config": view.config}
    if isinstance(config := manifest.get("config"), dict):
        # The page shows the scene as a drawing.
        manifest = manifest | {"config": {k: v for k, v in config.items() if k != "scene"}}
    return PageContent(
        view=view,
        rounds=rounds,
        groups=groups,
        title=" ".join("".join(text for text, _ in parts).split()),
        parts=parts,
        line=words.outcome_line(card, asked.scene, asked.facts, report),
        state="unscored" if words.doubted(card, report) else _overall(shown),
        picture=picture,
        score=_plain_score(view),
        stats=_stats(view, live),
        added=composed.added if composed is not None else (),
        notes=_notes(view, rounds, live),
        provenance=tuple(_flatten(manifest)),
        graph=Markup(draw_graph(view.scene, view.facts, {}, "Scene graph, not judged yet")),
    )


def title_parts(view: RunRecord, shown: Round | None) -> tuple[tuple[str, str], ...]:
    """Return the person's own sentence, else the scene in words, in parts.

    Each has the reason why it is not in the prompt of the round that is ``shown`` or nothing checks
    it; empty for the others.
    """
    # Once an edit has changed the scene, the sentence no longer says what is asked.
    said = (view.scene.sentence or view.sentence) if len(view.scenes) == 1 else ""
    passages = _open_passages(view, shown) if said else []
    return words.marked(said or words.scene_words(view.scene), passages, MOST_TITLE)


def _open_passages(view: RunRecord, shown: Round | None) -> list[Passage]:
    scene = view.scene
    if not scene.sentence:
        return []
    card = shown.shown_card if shown is not None else None
    composed = view.composed(shown.index) if shown is not None else None
    found = list(scene.intent.unread) if card is None else words.unchecked(card, scene)
    found += composed.lost if composed is not None else ()
    reasons: dict[tuple[int, int], dict[str, None]] = {}
    for one in found:
        reasons.setdefault((one.start, one.end), {})[one.reason] = None
    return [
        Passage(start=start, end=end, text=scene.sentence[start:end], reason=", ".join(said))
        for (start, end), said in sorted(reasons.items())
    ]


def _group(view: RunRecord, kind: FactKind) -> Group | None:
    """Return the facts of a kind; None if there are none."""
    now, former = (
        tuple(line for line in in_lines(facts) if line.fact.kind == kind)
        for facts in (view.facts, view.former)
    )
    if not now and not former:
        return None
    facts = [fact for line in (*now, *former) for fact in line.facts if fact.kind == kind]
    recalls = []
    for r in view.rounds:
        looks = [words.verdict_mark(r.shown_verdicts.get(fact.id), r.unjudged) for fact in facts]
        states = [look.partition("-")[0] for look in looks if look != "unasked"]
        judged = "loop" in r.cards
        recalls.append(f"{states.count('yes')}/{len(states)}" if judged else "–")
    return Group(KIND_NAMES[kind], tuple(recalls), now, former)


def _marks(view: RunRecord, r: Round, groups: tuple[Group, ...]) -> dict[str, Mark]:
    """Return the look of each fact in a round; the facts of the table have a tooltip each."""
    lines = [line for group in groups for line in (*group.lines, *group.former)]
    shown = {line.decided(r.shown_verdicts).id for line in lines}
    marks = {}
    for at, fact in enumerate((*view.facts, *view.former)):
        look = words.verdict_mark(r.shown_verdicts.get(fact.id), r.unjudged)
        if fact.id in shown:
            marks[fact.id] = Mark(look, words.fact_title(fact, r), f"t{at}-{r.index}")
        else:
            marks[fact.id] = Mark(look, f"{fact.statement}: {words.MEANINGS[look]}")
    return marks


def _round(view: RunRecord, r: Round, groups: tuple[Group, ...], show: Show) -> RoundContent:
    card, asked = r.shown_card, view.asked(r.index)
    line = words.verdict_line(card, asked.scene)
    marks = _marks(view, r, groups)
    drawn = marks
    if card is not None:
        # Of several instances of a class the drawing shows which one is absent.
        tells = assign_verdicts(asked.facts, r.shown_verdicts)
        drawn = marks | {fact: marks[told] for fact, told in tells.items()}
    missing = r.missing or SceneGraph()
    lacking = f"Missing after round {r.index}: {words.scene_words(missing) if missing else ''}"
    alt = f"Round {r.index}: {words.scene_words(asked.scene)}. {line}."
    return RoundContent(
        view=r,
        index=r.index,
        kept=view.best is r,
        marks=marks,
        candidate=_shot(view, r.candidate, alt, show),
        sources=_sources(view, r, show),
        strips=_strips(view, r, show),
        reference=_shot(view, r.reference, f"Reference image of round {r.index}", show),
        missing=Markup(draw_graph(missing, asked.facts, drawn, lacking, narrow=True)),
        graph=Markup(
            draw_graph(asked.scene, asked.facts, drawn, f"Scene graph, round {r.index}: {line}")
        ),
        line=line,
        state=_overall(card),
        feedback=None if r.edit is None else _feedback(view, r, r.edit),
    )


def _feedback(view: RunRecord, r: Round, edit: Edited) -> Feedback:
    seen = next((other for other in view.rounds if other.index == edit.base), None)
    now = {fact.id: fact.statement for fact in edit.facts}
    then = {fact.id: fact.statement for fact in view.asked(r.index - 1).facts}
    corrected = []
    for name, corrected_state in edit.verdicts.items():
        state = seen.state(name) if seen is not None else "pending"
        if state != corrected_state and name in then:
            corrected.append((corrected_state, now[name], words.MEANINGS[state]))
    return Feedback(
        edit=edit,
        corrected=tuple(corrected),
        added=tuple(text for name, text in now.items() if name not in then),
        dropped=tuple(text for name, text in then.items() if name not in now),
    )


def _sources(view: RunRecord, r: Round, show: Show) -> tuple[Source, ...]:
    if r.candidate is None or r.edit is not None or r.candidate.pasted:
        return ()
    labels = {
        earlier.candidate.image: f"round {earlier.index}"
        for earlier in view.rounds
        if earlier.candidate is not None and earlier.index < r.index
    }
    if r.reference is not None:
        labels[r.reference.image] = "what was missing"
    request = r.candidate.request
    start = request.start

    def picture(image: str) -> Picture | None:
        return show(view.image_path(image), SOURCE_SIDE)

    found = []
    drafted = r.last(Drafted)
    if drafted is not None:
        for at, (image, card) in enumerate(zip(drafted.images, drafted.cards, strict=True)):
            use = words.held(card) + (", finished" if at == drafted.kept else "")
            found.append(Source(picture(image), f"draft {at + 1}", use))
    for reference in request.references:
        use = f"weight {reference.weight:g}"
        if start is not None and reference.mask == start.mask:
            use = f"pasted in, {use}"
        elif start is not None:
            use = f"kept elsewhere, {use}" if reference.weight else "kept elsewhere"
        label = labels.get(reference.image, "reference")
        found.append(Source(picture(reference.image), label, use))
    # A picture that was put together for this round has no name of its own.
    shown = {reference.image for reference in request.references}
    if start is not None and start.image in labels.keys() - shown:
        use = f"drawn again from under noise, strength {start.strength:g}"
        if start.instruct:
            use = "edited as told"
        elif start.mask is not None:
            use = "drawn anew in places"
        found.append(Source(picture(start.image), labels[start.image], use))
    return tuple(found)


def _strips(view: RunRecord, r: Round, show: Show) -> tuple[tuple[str, tuple[Source, ...]], ...]:
    if r.plan is None or not r.plan.places:
        return ()
    statements = view.statements
    won = {one.image for one in r.selected.winners} if r.selected is not None else set()
    return tuple(
        (
            words.shorten("; ".join(statements.get(name, name) for name in place.missing), 120),
            tuple(
                Source(
                    show(view.image_path(one.image), SOURCE_SIDE),
                    f"heat {one.heat}, proposal {one.number + 1}",
                    f"+{len(one.gained)} −{len(one.lost)}"
                    + (", pasted" if one.image in won else ", may win" if one.wins else ""),
                    chosen=one.image in won,
                    title=f"{one.does}: {words.change_words(one, statements)}; "
                    f"worth {one.worth:+.1f}, log-odds {one.log_odds:+.1f}",
                )
                for one in r.proposals
                if one.place == at
            ),
        )
        for at, place in enumerate(r.plan.places)
    )


def _shot(
    view: RunRecord, made: Generated | None, alt: str, show: Show, side: int = INLINE_SIDE
) -> Shot | None:
    if made is None:
        return None
    picture = show(view.image_path(made.image), side)
    return Shot(made, picture, alt, words.dropped_line(made, view.statements))


def _plain_score(view: RunRecord) -> Stat | None:
    """Return the one figure that stands first; none where nobody could score the picture."""
    own = view.reporting.kind == "self"
    notes: dict[Role, str] = {
        "report": view.reporting.line if own else "by judges that did not steer the drawing",
        "loop": "by the judges that steered the drawing",
    }
    card = view.card(view.shown_role)
    if card is None or card.sgscore is None:
        return None
    return Stat("Score", words.card_score(card), notes[view.shown_role])


def _overall(card: ScoreCard | None) -> Shown:
    if card is None or not card.verdicts:
        return "pending"
    if card.satisfied:
        return "yes"
    known_to_fail = any(v.state in ("no", "void") for v in card.verdicts)
    return "no" if known_to_fail else "unscored"


def _stats(view: RunRecord, live: bool) -> tuple[Stat, ...]:
    stats = []
    own = view.reporting.kind == "self"
    report = (
        ("Self-report", view.reporting.line) if own else ("Report judges", "never seen by the loop")
    )
    roles: dict[Role, tuple[str, str]] = {
        "report": report,
        "loop": ("Loop judges", "steered the repair"),
    }
    first = view.scenes[-1].round
    for role, (label, note) in roles.items():
        card = view.card(role)
        if card is None:
            continue
        change = words.signed(view.change(role))
        likely = words.interval(card.intervals.sgscore if card.intervals is not None else None)
        parts = [
            f"95%: {likely}" if likely else "",
            f"{change} from round {first}" if change else note,
        ]
        corrected = card.corrected.sgscore if card.corrected is not None else None
        if corrected is not None:
            parts.append(f"{words.score(corrected)} without the panel's known errors")
        stats.append(Stat(label, words.card_score(card), ", ".join(filter(None, parts))))
    for role in reversed(ROLES):
        before, after = view.realism(role)
        if before is not None or after is not None:
            note = f"{words.score(before)} in round {first}, {role} judges"
            stats.append(Stat("Realism (OcR)", words.score(after), note))
    for statement, said in words.soundness_words(view.card("report")).items():
        note = "no judge of the report can say" if said == words.NOT_JUDGED else "report judges"
        stats.append(Stat(statement.capitalize(), said, note))
    kept = "" if view.best is None else f"kept round {view.best.index}"
    stats.append(Stat("Rounds", str(len(view.rounds)), kept))
    if view.finished is not None or not live:
        stats.append(Stat("Stopped", words.stop_line(view), "" if view.finished else "so far"))
    drawn = words.count(view.images, "image") + " drawn"
    if view.work:
        drawn += f", {words.steps(view.work)} of work"
    stats.append(Stat("Time", words.duration(view.seconds), drawn))
    calls = words.count(view.judge_calls, "judge call")
    stats.append(Stat("Cost", words.money(view.usd), calls))
    return tuple(stats)


def _notes(view: RunRecord, rounds: tuple[RoundContent, ...], live: bool) -> tuple[str, ...]:
    notes = list(view.warnings)
    if view.paused and not live:
        notes.append(
            "This run waits for a person. The same command goes on with it; "
            "`scenewright edit` corrects it first."
        )
    elif view.finished is None and not live:
        notes.append(
            "This run has not finished: it is still going, or it was cut off. "
            "The same command continues it."
        )
    if view.resumed:
        notes.append(f"This run was continued {words.count(view.resumed, 'time')} after a cut.")
    notes.extend(
        f"A person looked after round {event.round} and let the run go on"
        + (f": “{event.note}”" if event.note else ".")
        for event in view.edits
        if not event.corrects
    )
    notes += [f"Not sure: {doubt}" for doubt in view.scene.doubts]
    if view.scene.edited:
        notes.append(f"{words.begun(COMPOSED)}.")
    mixed = next(filter(None, (words.method_line(view.card(role)) for role in ROLES)), "")
    if mixed:
        notes.append(mixed)
    notes.extend(view.reporting.notes)
    lost = sum(
        shot is not None and shot.picture is None
        for r in rounds
        for shot in (r.candidate, r.reference)
    )
    if lost:
        notes.append(f"{words.count(lost, 'image file')} missing or damaged in this run folder.")
    return tuple(notes)


def _flatten(value: Any, path: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict) and value:
        rows = []
        for key, inner in value.items():
            rows.extend(_flatten(inner, f"{path} › {key}" if path else str(key)))
        return rows
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        rows = []
        for at, inner in enumerate(value, start=1):
            rows.extend(_flatten(inner, f"{path} {at}"))
        return rows
    if isinstance(value, list):
        return [(path, ", ".join(map(str, value)) or "none")]
    if isinstance(value, str):
        return [(path, value or "none")]
    return [(path, "none" if value in (None, {}) else json.dumps(value, ensure_ascii=False))]
