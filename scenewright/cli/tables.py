"""Facts, verdicts and scores as tables for the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scenewright.cli.console import plain_table
from scenewright.runs.report import words
from scenewright.runs.report.parts import LOOP, realism_lines
from scenewright.runs.report.record import ROLES, RunView, Shown

if TYPE_CHECKING:
    from scenewright.core.facts import Answer, ScoreCard, Verdict
    from scenewright.runs.scoring import Score

STYLES: dict[str, str] = {
    "yes": "green",
    "no": "bold red",
    "void": "dim",
    "unscored": "yellow",
    "pending": "dim",
    "unasked": "dim",
}
ASCII: dict[str, str] = {
    "yes": "y",
    "no": "N",
    "void": "-",
    "unscored": "?",
    "pending": ".",
    "unasked": " ",
}


def symbol(state: Shown, console: Console) -> str:
    """✓ ✗ – ? · or, where the output cannot show them, y N - ? ."""
    plain = not console.encoding.lower().startswith("utf")
    return (ASCII if plain else words.SYMBOLS)[state]


def mark(state: Shown, probability: float | None, console: Console) -> Text:
    """A state with its probability, coloured."""
    known = f" {words.percent(probability)}" if probability is not None else ""
    return Text(f"{symbol(state, console)}{known}", style=STYLES[state])


def _verdict(verdict: Verdict | None, console: Console, lacking: Shown = "pending") -> Text:
    if verdict is None:
        return mark(lacking, None, console)
    return mark(verdict.state, verdict.probability, console)


def facts_table(view: RunView, console: Console, ids: bool = False) -> Table:
    """Facts by round, by the loop's judges; the last column is the report's on the kept round.

    With ``ids`` each fact's id follows, as edits name it.
    """
    best = view.best
    heads = [f"round {r.index}" + (" (kept)" if r is best else "") for r in view.rounds]
    reported = best is not None and "report" in best.cards
    table = plain_table("fact", *heads, *(["report judges"] if reported else []))
    if ids:
        table.add_column("id", overflow="fold", style="dim")
    for fact in view.facts:
        cells = [_verdict(r.verdict(fact.id), console, r.state(fact.id)) for r in view.rounds]
        if reported and best is not None:
            cells.append(_verdict(best.verdict(fact.id, "report"), console))
        if ids:
            cells.append(Text(fact.id))
        table.add_row(Text(fact.statement), *cells)
    return table


def result_lines(view: RunView, page: str = "") -> list[tuple[str, str]]:
    """Label and value of what a run gave: verdict, scores, why it stopped, where things lie."""
    lines = [("result", words.verdict_line(view.card("loop")))]
    for role, meaning in (
        ("loop", LOOP),
        ("report", view.reporting.line),
    ):
        card = view.card("loop" if role == "loop" else "report")
        if card is None:
            continue
        change = words.signed(view.change("loop" if role == "loop" else "report"))
        since = f" ({change} from round {view.scenes[-1].round})" if change else ""
        label = "score" if role == "loop" else ""
        lines.append((label, f"{score_words(card)} {meaning}{since}"))
    if obtained := words.obtained_line(view.card(role) for role in ROLES):
        lines.append(("", obtained))
    lines += [("note", text) for text in view.warnings]
    if view.reporting.kind == "none" and view.finished is not None:
        lines.append(("", view.reporting.line))
    lines += realism_lines(view)
    lines += [("note", note) for note in view.reporting.notes]
    rounds = words.count(len(view.rounds), "round")
    spent = f"{words.count(view.images, 'image')} drawn, {words.duration(view.seconds)}"
    cost = f", {words.money(view.usd)}" if view.usd > 0 else ""
    lines.append(("stopped", f"{words.stop_line(view)}; {rounds}, {spent}{cost}"))
    for event in view.edits:
        lines.append(("edited", words.edit_line(event)))
    best = view.best
    image = best.candidate.image if best is not None and best.candidate is not None else None
    path = view.image_path(image) if image else None
    if path is not None:
        lines.append(("image", str(path)))
    if page:
        lines.append(("page", page))
    return lines


def score_words(card: ScoreCard) -> str:
    """A card's SGScore with its 95% interval, if it has one."""
    likely = words.interval(card.intervals.sgscore if card.intervals is not None else None)
    return f"{words.score(card.sgscore)}{f' (95%: {likely})' if likely else ''}"


def card_lines(score: Score) -> list[tuple[str, str]]:
    """Label and value of what the panels say of one image."""
    lines = [("result", words.verdict_line(score.loop))]
    cards = [("the judges of the loop", score.loop)]
    if score.report is not None:
        own = score.reporting.kind == "self"
        whose = "the judges of the loop again (self-report)" if own else "the judges of the report"
        cards.append((whose, score.report))
    for at, (whose, card) in enumerate(cards):
        lines.append(("" if at else "score", f"{score_words(card)} by {whose}"))
        corrected = card.corrected.sgscore if card.corrected is not None else None
        if corrected is not None:
            value = words.score(corrected)
            lines.append(("", f"{value} corrected for the known errors of {whose}"))
    if obtained := words.obtained_line(card for _, card in cards):
        lines.append(("", obtained))
    if score.loop.realism.total:
        real = ", ".join(f"{words.score(card.ocr)} by {whose}" for whose, card in cards)
        lines.append(("realism", real))
    lines += [("note", text) for text in score.warnings]
    mixed = next(filter(None, (words.method_line(card) for _, card in cards)), "")
    lines += [("note", note) for note in score.reporting.notes]
    return lines + ([("note", mixed)] if mixed else [])


def print_result(view: RunView, console: Console, page: str = "", ids: bool = False) -> None:
    """The table of facts by round and the lines of the result."""
    if view.rounds:
        console.print(facts_table(view, console, ids))
        console.print()
    for label, value in result_lines(view, page):
        # Paths must stay in one piece for copying.
        console.print(Text.assemble((f"{label:<9}", "bold"), value), soft_wrap=True)


def score_table(score: Score, console: Console) -> Table:
    """Facts of one image: the panels' verdicts and each judge's probability."""
    said: dict[str, dict[str, Answer]] = {
        f"{group.role}:{group.judge_id}": {a.fact_id: a for a in group.answers}
        for group in score.answers
    }
    heads = [
        f"{group.judge_id}{' (report)' if group.role == 'report' else ''}"
        for group in score.answers
    ]
    panels = ["loop panel"] + (["report panel"] if score.report is not None else [])
    needed = max(len(fact.statement) for fact in score.facts)
    if needed + sum(len(head) + 2 for head in (*panels, *heads)) > console.width:
        heads = [re.sub(r"([:/])(?=.)| (?=\()", r"\1\n", head) for head in heads]
    table = plain_table("fact", *panels, *heads)
    loop = {v.fact_id: v for v in score.loop.verdicts}
    report = {v.fact_id: v for v in score.report.verdicts} if score.report is not None else {}
    for fact in score.facts:
        cells = [_verdict(loop.get(fact.id), console)]
        if score.report is not None:
            cells.append(_verdict(report.get(fact.id), console))
        for answers in said.values():
            answer = answers.get(fact.id)
            cells.append(
                mark("void", None, console)
                if answer is None
                else mark(answer.state, answer.probability, console)
            )
        table.add_row(Text(fact.statement), *cells)
    return table


def unscored_lines(score: Score) -> list[str]:
    """Judge by judge why it gave nothing usable: each reason once, with the facts that it cost."""
    statements = {fact.id: fact.statement for fact in score.facts}
    found: dict[tuple[str, str], list[str]] = {}
    for group in score.answers:
        for answer in group.answers:
            if answer.state == "unscored":
                about = found.setdefault((group.judge_id, answer.reason), [])
                about.append(statements.get(answer.fact_id, answer.fact_id))
    return [
        f"{judge}: {_facts_named(dict.fromkeys(about))}: {reason}"
        for (judge, reason), about in found.items()
    ]


def _facts_named(statements: Iterable[str]) -> str:
    named = list(statements)
    return named[0] if len(named) == 1 else f"{named[0]} and {len(named) - 1} more"


def legend(states: Sequence[Shown], console: Console) -> Text:
    """What the symbols of ``states`` mean, on one line."""
    order: tuple[Shown, ...] = ("yes", "no", "void", "unscored", "pending")
    return Text(
        "   ".join(f"{symbol(s, console)} {words.MEANINGS[s]}" for s in order if s in states),
        style="dim",
    )
