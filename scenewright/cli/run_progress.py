"""What a run shows while it goes: a live view on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from scenewright.cli.tables import STYLES, symbol
from scenewright.core.facts import ScoreCard
from scenewright.graphs.events import (
    Answered,
    Composed,
    Edited,
    Event,
    Finished,
    Generated,
    Judged,
    Missing,
    Paused,
    Planned,
    Resumed,
    Retrying,
    RunStarted,
    Step,
    ToolCalled,
    Warned,
)
from scenewright.runs.report import words

DOING = {"candidate": "drawing the scene", "reference": "drawing what is missing"}


class Watcher(Protocol):
    """Is told every event of a run."""

    def __call__(self, event: Event) -> None:
        """Show ``event``."""
        ...


class Lines:
    """One plain line for each thing that happened; denoising steps are left out."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._statements: dict[str, str] = {}

    def __call__(self, event: Event) -> None:
        self._statements |= _statements(event)
        line = self._line(event)
        if line:
            self._console.print(Text(line), soft_wrap=True)

    def _line(self, event: Event) -> str:
        match event:
            case Resumed():
                return "the run goes on from its last finished step"
            case Warned():
                return f"note: {event.text}"
            case Composed():
                by = f" (by {words.author(event)})" if event.author else ""
                by += f" [warning: {event.problem}]" if event.problem else ""
                return f"round {event.round}: {event.purpose} prompt{by}: {event.prompt}"
            case Planned():
                return f"round {event.round}: {event.strategy}: {event.does} ({event.why})"
            case ToolCalled():
                return f"director: {words.tool_call(event)}"
            case Retrying():
                return words.retry_line(event)
            case Generated():
                took = "found" if event.cached else f"drawn in {words.duration(event.seconds)}"
                cut = words.dropped_line(event, self._statements)
                return f"round {event.round}: {event.purpose} {took}" + (f"; {cut}" if cut else "")
            case Answered():
                found = "".join(symbol(a.state, self._console) for a in event.answers)
                return f"round {event.round}: {event.role} judge {event.judge_id}: {found}"
            case Judged():
                return f"round {event.round}: {event.role} judges: {_card_words(event.card)}"
            case Missing():
                return f"round {event.round}: missing: {words.scene_words(event.graph)}"
            case Edited():
                return f"round {event.round}: a person: {words.edit_line(event)}"
            case Paused():
                return f"round {event.round}: the run waits for a person"
            case Finished():
                why = words.REASONS.get(event.reason, event.reason)
                return f"finished: {why}, kept round {event.best_round}"
        return ""


class _Screen:
    """The live view's content: finished rounds, and what is going on now."""

    def __init__(self) -> None:
        self.done: list[tuple[int, ScoreCard]] = []
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

    def take(self, event: Event, console: Console) -> None:
        self.statements |= _statements(event)
        if not isinstance(event, Step):
            self.retry = words.retry_line(event) if isinstance(event, Retrying) else ""
        match event:
            case Warned():
                self.notes.append(event.text)
            case Composed() | Step():
                if isinstance(event, Composed) and event.problem:
                    self.notes.append(
                        f"round {event.round}: prompt by {words.author(event)} ({event.problem})"
                    )
                self._at(event.round, DOING[event.purpose])
                self.step = (event.step, event.of) if isinstance(event, Step) else None
            case ToolCalled():
                self._at(max(0, event.round), f"directing: {event.tool or 'thinking'}")
            case Generated():
                self._at(event.round, "asking the judges")
                if cut := words.dropped_line(event, self.statements):
                    # Rounds share prompts: the same warning is shown once.
                    self.cut[event.request.prompt] = f"{event.purpose}: {cut}"
            case Answered():
                self._at(event.round, f"asking the {event.role} judges")
                line = self.judges.setdefault((event.round, event.judge_id), Text())
                for answer in event.answers:
                    line.append(symbol(answer.state, console), STYLES[answer.state])
            case Judged(role="loop"):
                self.done.append((event.round, event.card))
                self._at(event.round, "deciding")
                self.judges = {}
            case Judged():
                self.judges = {k: v for k, v in self.judges.items() if k[0] != event.round}
            case Finished() | Paused():
                self.over = True
            case Edited():
                self.over = False
                self._at(event.round, "taking in what a person said")

    def _at(self, round: int, doing: str) -> None:
        if (round, doing) != (self.round, self.doing):
            self.round, self.doing, self.step = round, doing, None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = Table.grid(padding=(0, 2))
        for index, card in self.done:
            facts = Text()
            for verdict in card.verdicts[:60]:
                facts.append(symbol(verdict.state, console), STYLES[verdict.state])
            rows.add_row(
                Text(f"round {index}", "bold"),
                facts,
                Text(words.verdict_line(card)),
                Text(words.score(card.sgscore), "bold"),
            )
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
    """A watcher that shows a run on ``console`` until the block ends."""
    if quiet:
        yield lambda event: None
        return
    if not console.is_terminal:
        yield Lines(console)
        return
    screen = _Screen()
    with Live(screen, console=console, refresh_per_second=10, transient=False):

        def watch(event: Event) -> None:
            screen.take(event, console)

        yield watch
        screen.over = True
    console.print()


def _statements(event: Event) -> dict[str, str]:
    """The facts that an event brings, in words by id."""
    if isinstance(event, RunStarted | Edited):
        return {fact.id: fact.statement for fact in event.facts}
    return {}


def _card_words(card: ScoreCard) -> str:
    line = words.verdict_line(card)
    return line[0].lower() + line[1:] + f", score {words.score(card.sgscore)}"
