"""Runs on the terminal: progress as a live view or lines, and results as tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from scenewright.cli.console import print_labelled, table_of
from scenewright.core.answers import FactLine, in_lines
from scenewright.core.facts import SOUNDNESS, ScoreCard
from scenewright.graphs import events
from scenewright.runs.record import ROLES, RunRecord, Shown, shown_role
from scenewright.runs.report import words

if TYPE_CHECKING:
    from scenewright.core.facts import Answer, ScoreCard, Verdict
    from scenewright.runs.scoring import Score

STYLES = {"yes": "green", "no": "bold red", "unscored": "yellow"}
"""Styles of the states that are not dim."""
ASCII = str.maketrans("✓✗–·", "yN-.")


def symbol(look: words.VerdictMark, console: Console) -> str:
    """Return ✓ ✓? ✓?? ✗ – ? · or, where the output cannot show them, y y? y?? N - ? ."""
    shown = words.SYMBOLS[look]
    return shown if console.encoding.lower().startswith("utf") else shown.translate(ASCII)


def style(look: words.VerdictMark) -> str:
    """Return the style of a verdict's symbol."""
    return STYLES.get(look.partition("-")[0], "dim")


def mark(look: words.VerdictMark, probability: float | None, console: Console) -> Text:
    """Return a verdict with its probability, coloured."""
    known = f" {words.percent(probability)}" if probability is not None else ""
    return Text(f"{symbol(look, console)}{known}", style=style(look))


def _verdict(verdict: Verdict | None, console: Console, missing: Shown = "pending") -> Text:
    probability = None if verdict is None else verdict.probability
    return mark(words.verdict_mark(verdict, missing), probability, console)


def _answer(answer: Answer | None, console: Console) -> Text:
    if answer is None:
        return mark("void", None, console)
    return mark(answer.state, answer.probability, console)


def facts_table(view: RunRecord, console: Console, ids: bool = False) -> Table:
    """Return the loop's verdicts by fact and round.

    The last column has the report's verdicts of the kept round; with ``ids`` each fact's id
    follows, as edits name it; without them, facts about one number are one.
    """
    best = view.best
    heads = [f"round {r.index}" + (" (kept)" if r is best else "") for r in view.rounds]
    reported = best is not None and "report" in best.cards
    table = table_of("fact", *heads, *(["report judges"] if reported else []))
    if ids:
        table.add_column("id", overflow="fold", style="dim")
    for line in [FactLine((fact,)) for fact in view.facts] if ids else in_lines(view.facts):
        cells = []
        for r in view.rounds:
            fact = line.decided(r.verdicts("loop"))
            cells.append(_verdict(r.verdict(fact.id), console, r.state(fact.id)))
        if reported and best is not None:
            fact = line.decided(best.verdicts("report"))
            cells.append(_verdict(best.verdict(fact.id, "report"), console))
        if ids:
            cells.append(Text(line.fact.id))
        table.add_row(Text(line.fact.statement), *cells)
    return table


def result_lines(view: RunRecord, page: str = "") -> list[tuple[str, str]]:
    """Return the labels and texts of a result: verdict, scores, reason of the end, files."""
    shown, asked, best = view.shown_role, view.scenes[-1], view.best
    card = view.card(shown)
    lines = [("result", words.verdict_line(card, asked.scene))]
    lines += [("", said) for said in words.beside_graph(card, asked.scene, asked.facts)]
    if best is not None and (said := words.changes_line(view.composed(best.index))):
        lines.append(("prompt", said))
    meanings = dict(zip(ROLES, (words.LOOP, view.reporting.line), strict=True))
    for role in sorted(ROLES, key=lambda role: role != shown):
        card, meaning = view.card(role), meanings[role]
        if card is None:
            continue
        change = words.signed(view.change(role))
        since = f" ({change} from round {view.scenes[-1].round})" if change else ""
        label = "score" if role == shown else ""
        lines.append((label, f"{score_words(card)} {meaning}{since}"))
    if obtained := words.obtained_line(view.card(role) for role in ROLES):
        lines.append(("", obtained))
    lines += [("note", text) for text in view.warnings]
    if view.reporting.kind == "none" and view.finished is not None:
        lines.append(("", view.reporting.line))
    lines += words.realism_lines(view)
    lines += words.soundness_lines(view.card("report"))
    lines += [("note", note) for note in view.reporting.notes]
    rounds = words.count(len(view.rounds), "round")
    spent = f"{words.count(view.images, 'image')} drawn, {words.duration(view.seconds)}"
    spent += f" ({words.steps(view.work)} of work)" if view.work else ""
    cost = f", {words.money(view.usd)}" if view.usd > 0 else ""
    lines.append(("stopped", f"{words.stop_line(view)}; {rounds}, {spent}{cost}"))
    for event in view.edits:
        lines.append(("edited", words.edit_line(event)))
    image = best.candidate.image if best is not None and best.candidate is not None else None
    path = view.image_path(image) if image else None
    if path is not None:
        lines.append(("image", str(path)))
    if page:
        lines.append(("page", page))
    return lines


def score_words(card: ScoreCard) -> str:
    """Return a card's SGScore with its 95% interval, if it has one."""
    likely = words.interval(card.intervals.sgscore if card.intervals is not None else None)
    return f"{words.card_score(card)}{f' (95%: {likely})' if likely else ''}"


def card_lines(score: Score) -> list[tuple[str, str]]:
    """Return the labels and texts of the panels' result for one image."""
    cards = [("the judges of the loop", score.loop)]
    if score.report is not None:
        own = score.reporting.kind == "self"
        whose = "the judges of the loop again (self-report)" if own else "the judges of the report"
        first = shown_role(score.loop, score.report) == "report"
        cards.insert(0 if first else 1, (whose, score.report))
    shown = cards[0][1]
    lines = [("result", words.verdict_line(shown, score.scene))]
    lines += [("", said) for said in words.beside_graph(shown, score.scene, score.facts)]
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
    lines += words.soundness_lines(score.report)
    lines += [("note", text) for text in score.warnings]
    mixed = next(filter(None, (words.method_line(card) for _, card in cards)), "")
    lines += [("note", note) for note in score.reporting.notes]
    return lines + ([("note", mixed)] if mixed else [])


def print_result(view: RunRecord, console: Console, page: str = "", ids: bool = False) -> None:
    """Print the table of facts by round and the lines of the result."""
    if view.rounds:
        console.print(facts_table(view, console, ids))
        console.print()
    print_labelled(result_lines(view, page), 9, console)


def score_table(score: Score, console: Console) -> Table:
    """Return a table of the panels' verdicts and each judge's probability for one image."""
    said = {
        f"{group.role}:{group.judge_id}": {a.fact_id: a for a in group.answers}
        for group in score.answers
    }
    heads = [
        f"{group.judge_id}{' (report)' if group.role == 'report' else ''}"
        for group in score.answers
    ]
    panels = ["loop panel"] + (["report panel"] if score.report is not None else [])
    lines = in_lines(score.facts)
    needed = max(len(line.fact.statement) for line in lines)
    if needed + sum(len(head) + 2 for head in (*panels, *heads)) > console.width:
        heads = [re.sub(r"([:/])(?=.)| (?=\()", r"\1\n", head) for head in heads]
    table = table_of("fact", *panels, *heads)
    loop = {v.fact_id: v for v in score.loop.verdicts}
    report = {v.fact_id: v for v in score.report.verdicts} if score.report is not None else {}
    for line in lines:
        fact = line.decided(loop)
        cells = [_verdict(loop.get(fact.id), console)]
        if score.report is not None:
            cells.append(_verdict(report.get(line.decided(report).id), console))
        cells += [_answer(answers.get(fact.id), console) for answers in said.values()]
        table.add_row(Text(line.fact.statement), *cells)
    return table


def unscored_lines(score: Score) -> list[str]:
    """Return each judge's reasons for unscored facts: each reason once, with its facts."""
    statements = {**SOUNDNESS, **{fact.id: fact.statement for fact in score.facts}}
    found: dict[tuple[str, str], list[str]] = {}
    for group in score.answers:
        for answer in group.answers:
            if answer.state == "unscored":
                about = found.setdefault((group.judge_id, answer.reason), [])
                about.append(statements.get(answer.fact_id, answer.fact_id))
    lines = []
    for (judge, reason), about in found.items():
        first, *others = dict.fromkeys(about)
        more = f" and {len(others)} more" if others else ""
        lines.append(f"{judge}: {first}{more}: {reason}")
    return lines


def legend(looks: Collection[words.VerdictMark], console: Console) -> Text:
    """Return the meanings of the symbols of ``looks``, and of their grades where there are any."""
    said = [
        f"{symbol(look, console)} {meaning}"
        for look, meaning in words.MEANINGS.items()
        if look in looks and look != "unasked"
    ]
    graded = f"\n{words.certainty_line()}" if any("-" in look for look in looks) else ""
    return Text("   ".join(said) + graded, style="dim")


DOING = {
    "candidate": "drawing the scene",
    "reference": "drawing what is missing",
    "draft": "drawing drafts",
    "proposal": "drawing proposals",
}


Watcher = Callable[[events.Event], None]
"""Callback for the events of a run."""


class Lines:
    """Events as plain lines, without denoising steps."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._statements: dict[str, str] = {}

    def __call__(self, event: events.Event) -> None:
        self._statements |= _statements(event)
        line = self._line(event)
        if line:
            self._console.print(Text(line), soft_wrap=True)

    def _line(self, event: events.Event) -> str:
        match event:
            case events.Resumed():
                return "the run goes on from its last finished step"
            case events.Warned():
                return f"note: {event.text}"
            case events.Composed():
                by = f" (by {words.author(event)})" if event.author else ""
                by += f" [warning: {event.problem}]" if event.problem else ""
                changed = words.changes_line(event)
                by += f" [{changed}]" if changed else ""
                return f"round {event.round}: {event.purpose} prompt{by}: {event.prompt}"
            case events.Planned():
                return f"round {event.round}: {event.strategy}: {event.does} ({event.why})"
            case events.ToolCalled():
                return f"director: {words.tool_call(event)}"
            case events.Retrying():
                return words.retry_line(event)
            case events.Generated():
                if event.pasted:
                    return f"round {event.round}: {event.purpose} put together"
                took = "found" if event.cached else f"drawn in {words.duration(event.seconds)}"
                cut = words.dropped_line(event, self._statements)
                return f"round {event.round}: {event.purpose} {took}" + (f"; {cut}" if cut else "")
            case events.Drafted():
                result = words.held(event.cards[event.kept])
                return f"round 0: finishes draft {event.kept + 1} of {len(event.images)}: {result}"
            case events.Proposed():
                return f"round {event.round}: {words.heat_line(event)}"
            case events.Selected():
                return f"round {event.round}: {words.selected_line(event, self._statements)}"
            case events.Answered():
                found = "".join(symbol(a.state, self._console) for a in event.answers)
                return f"round {event.round}: {event.role} judge {event.judge_id}: {found}"
            case events.Judged():
                line = words.verdict_line(event.card)
                result = f"{line[0].lower()}{line[1:]}, score {words.card_score(event.card)}"
                return f"round {event.round}: {event.role} judges: {result}"
            case events.Missing():
                return f"round {event.round}: missing: {words.scene_words(event.graph)}"
            case events.Edited():
                return f"round {event.round}: a person: {words.edit_line(event)}"
            case events.Paused():
                return f"round {event.round}: the run waits for a person"
            case events.Finished():
                return f"finished: {words.reason_words(event)}, kept round {event.best_round}"
        return ""


class _Screen:
    """Content of the live view: finished rounds, and the current step."""

    def __init__(self) -> None:
        self.done: dict[int, ScoreCard] = {}
        """By round, the card that people read."""
        self.doing = "loading the models"
        self.notes: list[str] = []
        self.round: int | None = None
        self.step: tuple[int, int] | None = None
        self.judges: dict[tuple[int, str], Text] = {}
        self.statements: dict[str, str] = {}
        self.cut: dict[str, str] = {}
        self.retry = ""
        self.spinner = Spinner("dots", style="cyan")
        self.over = False

    def take(self, event: events.Event, console: Console) -> None:
        self.statements |= _statements(event)
        if not isinstance(event, events.Step | events.PartialImage):
            self.retry = words.retry_line(event) if isinstance(event, events.Retrying) else ""
        match event:
            case events.Warned():
                self.notes.append(event.text)
            case events.Composed() | events.Step():
                if isinstance(event, events.Composed) and event.problem:
                    self.notes.append(
                        f"round {event.round}: prompt by {words.author(event)} ({event.problem})"
                    )
                if isinstance(event, events.Composed) and (changed := words.changes_line(event)):
                    # Rounds share prompts.
                    self.cut[changed] = f"{event.purpose} prompt: {changed}"
                self._at(event.round, DOING[event.purpose])
                self.step = (event.step, event.of) if isinstance(event, events.Step) else None
            case events.ToolCalled():
                self._at(max(0, event.round), f"directing: {event.tool or 'thinking'}")
            case events.Generated():
                self._at(event.round, "asking the judges")
                if cut := words.dropped_line(event, self.statements):
                    # Rounds share prompts: the same warning is shown once.
                    self.cut[event.request.prompt] = f"{event.purpose}: {cut}"
            case events.Answered():
                self._at(event.round, f"asking the {event.role} judges")
                line = self.judges.setdefault((event.round, event.judge_id), Text())
                for answer in event.answers:
                    line.append(symbol(answer.state, console), style(answer.state))
            case events.Judged(role="loop"):
                self.done[event.round] = event.card
                self._at(event.round, "deciding")
                self.judges = {}
            case events.Judged():
                if shown_role(self.done.get(event.round), event.card) == "report":
                    self.done[event.round] = event.card
                self.judges = {k: v for k, v in self.judges.items() if k[0] != event.round}
            case events.Finished() | events.Paused():
                self.over = True
            case events.Edited():
                self.over = False
                self._at(event.round, "applying a person's correction")

    def _at(self, round: int, doing: str) -> None:
        if (round, doing) != (self.round, self.doing):
            self.round, self.doing, self.step = round, doing, None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = Table.grid(padding=(0, 2))
        for index, card in self.done.items():
            facts = Text()
            for verdict in card.verdicts[:60]:
                look = words.verdict_mark(verdict)
                facts.append(symbol(look, console), style(look))
            line, score = Text(words.verdict_line(card)), Text(words.card_score(card), "bold")
            rows.add_row(Text(f"round {index}", "bold"), facts, line, score)
        parts: list[Table | Text] = [Text(f"note: {text}") for text in self.notes]
        parts += [Text(f"note: {line}") for line in self.cut.values()]
        parts += [rows] if self.done else []
        if not self.over:
            now = Table.grid(padding=(0, 2))
            where = f"round {self.round}" if self.round is not None else ""
            what: list[object] = [self.spinner, Text(where, "bold"), Text(self.doing)]
            if self.step is not None:
                step, of = self.step
                what += [ProgressBar(of, step, width=28), Text(f"{step}/{of}", "dim")]
            now.add_row(*what)  # type: ignore[arg-type]
            for (index, judge), line in self.judges.items():
                now.add_row("", Text(f"round {index}", "dim"), Text(judge, "dim"), line)
            parts.append(now)
            if self.retry:
                parts.append(Text(self.retry, "yellow"))
        yield Group(*parts)


@contextmanager
def show_run_progress(console: Console, quiet: bool = False) -> Iterator[Watcher]:
    """Yield a watcher that shows a run on ``console`` until the block ends."""
    if quiet:
        yield lambda event: None
        return
    if not console.is_terminal:
        yield Lines(console)
        return
    screen = _Screen()
    with Live(screen, console=console, refresh_per_second=10, transient=False):
        yield lambda event: screen.take(event, console)
        screen.over = True
    console.print()


def _statements(event: events.Event) -> dict[str, str]:
    """Return the statements of the facts of an event by id."""
    if isinstance(event, events.RunStarted | events.Edited):
        return {fact.id: fact.statement for fact in event.facts}
    return {}
