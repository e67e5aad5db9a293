"""What every command shares: consoles, exit codes, and errors as one line with a remedy."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TextIO

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from scenewright.providers.retry import FailedAttempt

PLAIN_WIDTH = 120
"""Columns of output that goes into a file or a pipe."""


class Exit(IntEnum):
    """Exit codes, for scripts."""

    OK = 0
    MISSING = 1
    USAGE = 2
    FAILED = 3
    UNJUDGED = 4
    INTERRUPTED = 130


EXIT_HELP = (
    "Exit codes: 0 every fact holds (by the judges of the loop); 1 finished, but facts are "
    "missing or could not be judged; 2 wrong input or usage, or a scene of which the models know "
    "nothing; 3 could not run (missing models, backend or disk failure); 4 nothing could be "
    "judged; 130 interrupted."
)


def debugging() -> bool:
    """Whether ``scenewright --debug`` was asked for."""
    return os.environ.get("SCENEWRIGHT_DEBUG") == "1"


def console(stderr: bool = False) -> Console:
    """A console for results (standard output) or for progress (standard error)."""
    stream = sys.stderr if stderr else sys.stdout
    # Names come from users and may hold any script; a pipe may be ASCII.
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")
    made = Console(file=stream, highlight=False, markup=False, emoji=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made = Console(file=stream, highlight=False, markup=False, emoji=False, width=PLAIN_WIDTH)
    return made


class _LostOnce(logging.Filter):
    """Lets each reason of lost calls pass once: a study may lose thousands of calls."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: set[tuple[str, str]] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        lost = getattr(record, "lost", None)
        if lost is None or debugging():
            return True
        # Numbers differ from call to call, such as seconds that are left.
        kind = str(getattr(record, "account", "")), re.sub(r"\d+", "0", str(lost))
        new = kind not in self._shown
        self._shown.add(kind)
        return new


class _CallLines(logging.Formatter):
    """A line a record; of a call that was lost or failed once in words, unless every call is
    shown."""

    def format(self, record: logging.LogRecord) -> str:
        lost = getattr(record, "lost", None)
        failed: FailedAttempt | None = getattr(record, "failed", None)
        if failed is not None and not debugging():
            return (
                f"{failed.label or failed.account}: attempt {failed.number} failed after "
                f"{failed.seconds:.0f} s ({failed.reason}); the next one in {failed.wait:.0f} s"
            )
        if lost is None or debugging():
            return super().format(record)
        whose = getattr(record, "label", "") or getattr(record, "account", "")
        return f"lost: {whose}: {lost}"


class _ToStandardError(logging.StreamHandler[TextIO]):
    """Writes to what standard error is at each line: it may be another one, or closed, by then."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def quiet_libraries() -> None:
    """Keep the model libraries' own chatter off the screen; ``--debug`` keeps it.

    It also shows each call to an API as a line on standard error; without it each reason for which
    calls were lost is shown once a command.
    """
    calls = logging.getLogger("scenewright.providers")
    before = [one for one in calls.handlers if isinstance(one, _ToStandardError)]
    if before or not calls.handlers:
        for one in before:
            calls.removeHandler(one)
        shown = _ToStandardError()
        shown.addFilter(_LostOnce())
        shown.setFormatter(_CallLines("%(levelname)s %(message)s"))
        calls.addHandler(shown)
    if debugging():
        calls.setLevel(logging.INFO)
        return
    for name, value in (
        ("TRANSFORMERS_VERBOSITY", "error"),
        ("DIFFUSERS_VERBOSITY", "error"),
        ("HF_HUB_DISABLE_PROGRESS_BARS", "1"),
        ("TOKENIZERS_PARALLELISM", "false"),
    ):
        os.environ.setdefault(name, value)


def print_json(data: Any) -> None:
    """One JSON object on standard output."""
    sys.stdout.write(json.dumps(data, ensure_ascii=True, indent=2, allow_nan=False) + "\n")
    sys.stdout.flush()


def plain_table(*columns: str) -> Table:
    """Return a table without lines; its first column wraps, the others do not."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(columns[0], overflow="fold")
    for column in columns[1:]:
        table.add_column(column, no_wrap=True)
    return table


def print_table(where: Console, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print ``rows`` below an empty line; nothing where there are none."""
    if not rows:
        return
    table = plain_table(*heads)
    for row in rows:
        table.add_row(*map(Text, row))
    where.print()
    where.print(table)


def fail(message: str, code: Exit) -> typer.Exit:
    """Print ``message`` as the one red line on standard error; the exception to raise."""
    where = console(stderr=True)
    where.print(
        Text.assemble(("error: ", "bold red"), (message, "red" if where.is_terminal else "")),
        soft_wrap=True,
    )
    return typer.Exit(int(code))


@contextmanager
def clear_errors(again: str = "") -> Iterator[None]:
    """Turn every failure into one line and an exit code; ``--debug`` lets the traceback through.

    ``again`` is printed after an interruption.
    """
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except (KeyboardInterrupt, asyncio.CancelledError):
        where = console(stderr=True)
        where.print(Text("interrupted." + (f" {again}" if again else "")), soft_wrap=True)
        raise typer.Exit(int(Exit.INTERRUPTED)) from None
    except BrokenPipeError:
        # The reader has gone (`| head`): nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(int(Exit.FAILED)) from None
    except Exception as error:
        if debugging():
            raise
        message, code = describe(error)
        raise fail(message, code) from None


def describe(error: BaseException) -> tuple[str, Exit]:
    """The line and the exit code for ``error``."""
    if isinstance(error, ExceptionGroup) and error.exceptions:
        return describe(error.exceptions[0])
    text = str(error).strip() or type(error).__name__
    if isinstance(error, _wrong_input()):
        return text, Exit.USAGE
    if isinstance(error, _could_not_run()):
        return text, Exit.FAILED
    if isinstance(error, MemoryError):
        return "out of memory: close other programs, or use a smaller profile", Exit.FAILED
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror or text}", Exit.FAILED
    return (
        f"unexpected {type(error).__name__}: {text.splitlines()[0]} "
        "(`scenewright --debug …` shows where)",
        Exit.FAILED,
    )


def _wrong_input() -> tuple[type[BaseException], ...]:
    from scenewright.config.settings import SettingsError
    from scenewright.core.images import ImageError
    from scenewright.core.ports.vision import RealismError
    from scenewright.core.predicate_statistics import PredicateError
    from scenewright.core.scene import SceneError
    from scenewright.evals.datasets.base import DatasetError
    from scenewright.evals.human_ratings.study import RatingError
    from scenewright.evals.metrics.base import MetricError
    from scenewright.evals.metrics.graph_matching.base import MatchingError
    from scenewright.evals.reporting.errors import ChoiceError
    from scenewright.evals.studies.errors import StudyError
    from scenewright.evals.studies.panel.errors import PanelStudyError
    from scenewright.evals.studies.real.schema import SchemaError
    from scenewright.evals.studies.xtc.base import XtcError
    from scenewright.graphs.errors import EditError
    from scenewright.runs.coverage import UnknownSceneError
    from scenewright.runs.report.record import PageError

    return (
        *(ChoiceError, DatasetError, EditError, ImageError, MetricError, PageError, SceneError),
        PredicateError,
        *(MatchingError, RatingError, RealismError, SchemaError, SettingsError, StudyError),
        *(PanelStudyError, UnknownSceneError, XtcError),
    )


def _could_not_run() -> tuple[type[BaseException], ...]:
    from scenewright.core.ports.backend import BackendError, Cancelled
    from scenewright.core.ports.judge import JudgeError
    from scenewright.evals.datasets.transfer import DownloadError
    from scenewright.evals.errors import EvalError
    from scenewright.graphs.eventlog import LogError
    from scenewright.providers import StoreError
    from scenewright.providers.hub.pull import HubError
    from scenewright.runs.folder import RunError

    return (
        BackendError,
        Cancelled,
        DownloadError,
        EvalError,
        HubError,
        JudgeError,
        LogError,
        RunError,
        StoreError,
    )
