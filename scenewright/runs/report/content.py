"""What the templates show, worked out from a run: no markup but the graphs' drawings."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from scenewright.core.answers import in_lines
from scenewright.core.facts import Answer, Fact, FactKind, ScoreCard, assign_verdicts
from scenewright.core.intent import Passage
from scenewright.core.ports.backend import Reference, Start
from scenewright.core.scene import COMPOSED, SceneGraph
from scenewright.graphs.events import Drafted, Generated, Role
from scenewright.graphs.run_status import facts_ever
from scenewright.runs.record import ROLES, Round, RunRecord, Shown
from scenewright.runs.report import words
from scenewright.runs.report.graph import Mark, draw_graph
from scenewright.runs.report.parts import (
    INLINE_SIDE,
    LARGE_SIDE,
    SOURCE_SIDE,
    Cell,
    Group,
    PageContent,
    RoundContent,
    Row,
    Shot,
    Show,
    Source,
    Stat,
    Strip,
    Summary,
    feedback_of_round,
    inline,
    realism_stats,
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


def page_content(view: RunRecord, show: Show = inline, live: bool = False) -> PageContent:
    """Everything on the run page of ``view``.

    ``show`` makes pictures of files; a ``live`` page tells elsewhere where the run stands.
    """
    groups = tuple(g for kind in KIND_NAMES if (g := _group(view, kind)).rows)
    cells = {cell.tip: cell for group in groups for row in group.rows for cell in row.cells}
    rounds = tuple(_round(view, r, cells, show) for r in view.rounds)
    return PageContent(
        summary=_summary(view, rounds, live=live, show=show),
        view=view,
        rounds=rounds,
        chosen=view.best.index if view.best is not None else 0,
        groups=groups,
        loop_judges=tuple(view.judges("loop")),
        report_judges=tuple(view.judges("report")),
        provenance=tuple(_flatten(_without_scene(view.manifest or {"config": view.config}))),
        when=words.moment(datetime.fromtimestamp(view.started_at, UTC)),
        notes=_notes(view, rounds, live),
        graph=Markup(draw_graph(view.scene, view.facts, {}, "Scene graph, not judged yet")),
    )


def summary_of(view: RunRecord, link: str) -> Summary:
    """Return a run at a glance, for the page that leads to several."""
    return _summary(view, tuple(_round(view, r, {}, inline) for r in view.rounds), link=link)


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
    card = shown.cards.get("loop") if shown is not None else None
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


def _tip(fact_at: int, round_index: int) -> str:
    return f"t{fact_at}-{round_index}"


def _group(view: RunRecord, kind: FactKind) -> Group:
    both = (in_lines(view.facts), in_lines(view.former))
    now, former = ([line for line in lines if line.fact.kind == kind] for lines in both)
    facts = [fact for line in (*now, *former) for fact in line.facts if fact.kind == kind]
    recalls = []
    for r in view.rounds:
        states = [state for fact in facts if (state := r.state(fact.id)) != "unasked"]
        judged = "loop" in r.cards
        recalls.append(f"{states.count('yes')}/{len(states)}" if judged else "–")
    places = {id(fact): at for at, fact in _rows(view)}
    rows = []
    for line in (*now, *former):
        cells = []
        for r in view.rounds:
            fact = line.decided(r.verdicts())
            cells.append(_cell(fact, places[id(fact)], r))
        rows.append(Row(line.fact, tuple(cells), line in former))
    return Group(KIND_NAMES[kind], tuple(recalls), tuple(rows))


def _rows(view: RunRecord) -> enumerate[Fact]:
    """All facts with their numbers: those of the scene, then those that it has no more."""
    return enumerate((*view.facts, *view.former))


def _cell(fact: Fact, at: int, r: Round) -> Cell:
    loop, report = r.verdict(fact.id, "loop"), r.verdict(fact.id, "report")
    said: dict[Role, tuple[Answer, ...]] = {
        role: tuple(sorted(r.answers[role].get(fact.id, ()), key=lambda a: a.judge_id))
        for role in ("loop", "report")
    }
    lines = [f"{fact.statement} (round {r.index})", fact.question]
    for name, verdict, answers in (
        ("loop panel", loop, said["loop"]),
        ("report panel", report, said["report"]),
    ):
        if verdict is not None:
            bits = f", disagreement {verdict.disagreement:.2f}" if verdict.n_scored > 1 else ""
            likely = words.percent(verdict.probability)
            if verdict.rival_probability is not None and verdict.rival:
                likely += f" against {words.percent(verdict.rival_probability)} {verdict.rival}"
            lines.append(f"{name}: {words.MEANINGS[verdict.state]}, {likely}{bits}")
        lines.extend(words.answer_words(answer) for answer in answers)
    settled = fact.id in r.settled
    if settled:
        lines.append(words.SETTLED)
    if r.edit is not None and fact.id in r.edit.verdicts:
        lines.append("a person said so")
    return Cell(
        tip=_tip(at, r.index),
        state=r.state(fact.id),
        probability=None if loop is None else loop.probability,
        loop=loop,
        report=report,
        loop_answers=said["loop"],
        report_answers=said["report"],
        title="\n".join(lines),
        decided=r.edit is not None and fact.id in r.edit.verdicts,
        settled=settled,
    )


def _round(view: RunRecord, r: Round, cells: dict[str, Cell], show: Show) -> RoundContent:
    card = r.cards.get("loop")
    asked = view.asked(r.index)
    line = words.verdict_line(card, asked.scene)
    marks: dict[str, Mark] = {}
    for at, fact in _rows(view):
        tip = _tip(at, r.index)
        cell = cells.get(tip)
        state = r.state(fact.id)
        title = cell.title if cell else f"{fact.statement}: {words.MEANINGS[state]}"
        marks[fact.id] = Mark(state, title, tip if cell else "")
    if card is not None:
        # Of several instances of a class the drawing shows which one is absent.
        tells = assign_verdicts(asked.facts, r.verdicts())
        marks |= {mine: marks[told] for mine, told in tells.items()}
    missing = r.missing if r.missing is not None else SceneGraph()
    alt = f"Round {r.index}: {words.scene_words(asked.scene)}. {line}."
    missing_words = words.scene_words(missing) if missing else ""
    return RoundContent(
        view=r,
        index=r.index,
        kept=view.best is r,
        candidate=_shot(view, r.candidate, r.prompt, alt, show),
        sources=_sources(view, r, show),
        strips=_strips(view, r, show),
        chosen="" if r.selected is None else words.selected_line(r.selected, _statements(view)),
        reference=_shot(
            view, r.reference, r.reference_prompt, f"Reference image of round {r.index}", show
        ),
        missing=Markup(
            draw_graph(
                missing,
                asked.facts,
                marks,
                f"Missing after round {r.index}: {missing_words}",
                narrow=True,
            )
        ),
        missing_words=missing_words,
        graph=Markup(
            draw_graph(asked.scene, asked.facts, marks, f"Scene graph, round {r.index}: {line}")
        ),
        line=line,
        settled=words.settled_line(r),
        state=_overall(card),
        loop=r.score("loop"),
        report=r.score("report"),
        looked=feedback_of_round(view, r),
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
    found = _drafts(view, r, show)
    found += [
        Source(
            show(view.image_path(reference.image), SOURCE_SIDE),
            labels.get(reference.image, "reference"),
            _use_of(reference, start),
        )
        for reference in request.references
    ]
    # A picture that was put together for this round has no name of its own.
    shown = {reference.image for reference in request.references}
    if start is not None and start.image in labels.keys() - shown:
        picture = show(view.image_path(start.image), SOURCE_SIDE)
        found.append(Source(picture, labels[start.image], _use_as_start(start)))
    return tuple(found)


def _drafts(view: RunRecord, r: Round, show: Show) -> list[Source]:
    told = r.last(Drafted)
    if told is None:
        return []
    return [
        Source(
            show(view.image_path(image), SOURCE_SIDE),
            f"draft {at + 1}",
            words.held(card) + (", finished" if at == told.kept else ""),
        )
        for at, (image, card) in enumerate(zip(told.images, told.cards, strict=True))
    ]


def _strips(view: RunRecord, r: Round, show: Show) -> tuple[Strip, ...]:
    if r.plan is None or not r.plan.places:
        return ()
    statements = _statements(view)
    won = {one.image for one in r.selected.winners} if r.selected is not None else set()
    found = []
    for at, place in enumerate(r.plan.places):
        mine = [one for one in r.proposals if one.place == at]
        missing = [statements.get(name, name) for name in place.missing]
        found.append(
            Strip(
                name=words.shorten("; ".join(missing), 120),
                proposals=tuple(
                    Source(
                        show(view.image_path(one.image), SOURCE_SIDE),
                        f"heat {one.heat}, proposal {one.number + 1}",
                        f"+{len(one.gained)} −{len(one.lost)}"
                        + (", pasted" if one.image in won else ", may win" if one.wins else ""),
                        chosen=one.image in won,
                        title=f"{one.does}: {words.change_words(one, statements)}; "
                        f"worth {one.worth:+.1f}, log-odds {one.log_odds:+.1f}",
                    )
                    for one in mine
                ),
            )
        )
    return tuple(found)


def _statements(view: RunRecord) -> dict[str, str]:
    return {fact.id: fact.statement for fact in facts_ever(view.scenes)}


def _use_as_start(start: Start) -> str:
    if start.instruct:
        return "edited as told"
    if start.mask is not None:
        return "drawn anew in places"
    return f"drawn again from under noise, strength {start.strength:g}"


def _use_of(reference: Reference, start: Start | None) -> str:
    weight = f"weight {reference.weight:g}"
    if start is None:
        return weight
    if reference.mask == start.mask:
        return f"pasted in, {weight}"
    return f"kept elsewhere, {weight}" if reference.weight else "kept elsewhere"


def _shot(
    view: RunRecord,
    made: Generated | None,
    prompt: str,
    alt: str,
    show: Show,
    side: int = INLINE_SIDE,
) -> Shot | None:
    if made is None:
        return None
    request = made.request
    settings = [f"seed {request.seed}"]
    if request.width and request.height:
        settings.append(f"{request.width}×{request.height}")
    steps = made.steps if made.steps is not None else request.steps
    if steps is not None:
        settings.append(f"{steps} steps")
    if made.prompt_tokens is not None:
        about = "about " if made.estimated else ""
        settings.append(f"{about}{words.count(made.prompt_tokens, 'prompt token')}")
    if made.work is not None and steps is not None and abs(made.work - steps) >= 0.05:
        settings.append(f"work of {words.steps(made.work)}")
    if request.guided_share < 1:
        settings.append(f"guided in the first {words.percent(request.guided_share)} of the steps")
    if request.guidance is not None:
        settings.append(f"guidance {request.guidance:g}")
    if request.references:
        weights = ", ".join(f"{reference.weight:g}" for reference in request.references)
        settings.append(f"{words.count(len(request.references), 'reference')} at {weights}")
    if request.start is not None:
        crop = ", redrawn in a crop" if request.start.crop else ""
        if crop and request.start.crop_scale > 1:
            crop += f" at {request.start.crop_scale:g} times its size"
        settings.append(f"starts from a picture, strength {request.start.strength:g}{crop}")
    if request.negative_prompt:
        settings.append(f"without: {request.negative_prompt}")
    return Shot(
        picture=show(view.image_path(made.image), side),
        digest=made.image,
        alt=alt,
        prompt=prompt,
        settings="put together from proposals" if made.pasted else " · ".join(settings),
        seconds=made.seconds,
        cached=made.cached,
        dropped=words.dropped_line(made, _statements(view)),
    )


def _summary(
    view: RunRecord,
    rounds: tuple[RoundContent, ...],
    *,
    link: str = "",
    live: bool = False,
    show: Show | None = None,
) -> Summary:
    card, report = view.card("loop"), view.card("report")
    kept = next((r for r in rounds if r.kept), None)
    complexity = f"{words.count(len(view.scene.objects), 'object')}, "
    complexity += f"{words.count(len(view.scene.relations), 'relation')}, {view.scene.level()}"
    parts = title_parts(view, view.best)
    title = " ".join("".join(text for text, _ in parts).split())
    asked = view.asked(kept.index) if kept is not None else view.scenes[-1]
    composed = view.composed(kept.index) if kept is not None else None
    picture = kept.candidate if kept is not None else None
    if show is not None and kept is not None and picture is not None:
        made = kept.view.candidate
        picture = _shot(view, made, picture.prompt, picture.alt, show, LARGE_SIDE)
    return Summary(
        title=title,
        parts=parts,
        stem=words.file_stem(title),
        run_id=view.run_id,
        link=link,
        line=words.outcome_line(card, asked.scene, asked.facts, report, view.reporting),
        state="unscored" if words.doubted(card, report) else _overall(card),
        picture=picture,
        score=_plain_score(view),
        stats=_stats(view, live),
        shots=tuple((r.index, r.kept, r.candidate, r.loop) for r in rounds if r.candidate),
        complexity=complexity,
        added=composed.added if composed is not None else (),
    )


def _plain_score(view: RunRecord) -> Stat | None:
    """Return the one figure that stands first; none where nobody could score the picture."""
    if (found := _scored(view.card("report"))) is not None:
        own = view.reporting.kind == "self"
        note = view.reporting.line if own else "by judges that did not steer the drawing"
    elif (found := _scored(view.card("loop"))) is not None:
        note = "by the judges that steered the drawing"
    else:
        return None
    return Stat("Score", words.score(found), note)


def _scored(card: ScoreCard | None) -> float | None:
    return None if card is None else card.sgscore


def _overall(card: ScoreCard | None) -> Shown:
    if card is None or not card.verdicts:
        return "pending"
    if card.satisfied:
        return "yes"
    known_to_fail = any(v.state in ("no", "void") for v in card.verdicts)
    return "no" if known_to_fail else "unscored"


def _report_words(view: RunRecord) -> tuple[Role, str, str]:
    """Role, label and note of the report's figure: a self-report is labelled so."""
    if view.reporting.kind == "self":
        return "report", "Self-report", view.reporting.line
    return "report", "Report judges", "never seen by the loop"


def _stats(view: RunRecord, live: bool) -> tuple[Stat, ...]:
    stats = []
    roles: tuple[tuple[Role, str, str], ...] = (
        _report_words(view),
        ("loop", "Loop judges", "steered the repair"),
    )
    first = view.scenes[-1].round
    for role, label, note in roles:
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
        stats.append(Stat(label, words.score(card.sgscore), ", ".join(filter(None, parts))))
    stats.extend(realism_stats(view))
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


def _without_scene(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest less the scene, which the page shows as a drawing."""
    config = manifest.get("config")
    if not isinstance(config, dict):
        return manifest
    return manifest | {"config": {key: v for key, v in config.items() if key != "scene"}}


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
