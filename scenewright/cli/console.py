"""Shared by all commands: consoles, tables, signals, exit codes, and errors as one line."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar
from enum import IntEnum
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from scenewright.evals.reporting.measured import MeasuredReport, MeasuredTable
    from scenewright.providers.retry import FailedAttempt

PLAIN_WIDTH = 120
"""Columns of output that goes into a file or a pipe."""
AS_JSON: ContextVar[bool] = ContextVar("as_json", default=False)
"""Whether the command has ``--json``: all else on standard output is left out then."""
T = TypeVar("T")


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
    """Return whether the command was started as ``scenewright --debug``."""
    return os.environ.get("SCENEWRIGHT_DEBUG") == "1"


def console(stderr: bool = False) -> Console:
    """Return a console for results (standard output) or for progress (standard error)."""
    stream = sys.stderr if stderr else sys.stdout
    # Names come from users and may hold any script; a pipe may be ASCII.
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")
    made = Console(file=stream, highlight=False, markup=False, emoji=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = PLAIN_WIDTH
    made.quiet = AS_JSON.get() and not stderr
    return made


def say(text: str | Text, style: str = "", where: Console | None = None) -> None:
    """Print a line that stays in one piece, on standard output or on ``where``."""
    (where or console()).print(text, style=style or None, soft_wrap=True)


def note(text: str | Text, style: str = "") -> None:
    """Print a line on standard error."""
    say(text, style, console(stderr=True))


def print_heading(name: str, about: str, where: Console | None = None) -> None:
    """Print a name in bold with its description."""
    say(Text.assemble((name, "bold"), f"  {about}" if about else ""), "", where)


def text_of(name: str, /, **values: object) -> str:
    """Return a text of the folder ``texts`` with ``values`` in their places."""
    template = files("scenewright.cli").joinpath("texts", f"{name}.txt").read_text("utf-8")
    return Template(template).substitute(values)


def print_labelled(
    lines: Iterable[tuple[str, str]], width: int, where: Console | None = None
) -> None:
    """Print lines of a label of ``width`` columns and a text."""
    for label, text in lines:
        say(Text.assemble((f"{label:<{width}}", "bold"), text), "", where)


class _CallLines(logging.StreamHandler[TextIO]):
    """Handler of messages about calls: sentences on standard error; with ``--debug`` as logged.

    Each reason of lost calls passes once: a study may lose thousands of calls.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
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

    def format(self, record: logging.LogRecord) -> str:
        if debugging():
            return super().format(record)
        failed: FailedAttempt | None = getattr(record, "failed", None)
        if failed is not None:
            return (
                f"{failed.label or failed.account}: attempt {failed.number} failed after "
                f"{failed.seconds:.0f} s ({failed.reason}); the next one in {failed.wait:.0f} s"
            )
        lost = getattr(record, "lost", None)
        if lost is None:
            return f"{record.levelname.lower()}: {record.getMessage()}"
        whose = getattr(record, "label", "") or getattr(record, "account", "")
        return f"lost: {whose}: {lost}"

    def emit(self, record: logging.LogRecord) -> None:
        # Tests and servers may replace standard error.
        self.stream = sys.stderr
        super().emit(record)


def quiet_libraries() -> None:
    """Hide the messages of model libraries, unless ``--debug`` is given.

    With ``--debug`` each call to an API is a line on standard error; without it each reason for
    which calls were lost is shown once a command.
    """
    calls = logging.getLogger("scenewright.providers")
    others = [one for one in calls.handlers if not isinstance(one, _CallLines)]
    if not others or len(others) < len(calls.handlers):
        calls.handlers = [*others, _CallLines()]
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


def print_if_json(data: Any) -> None:
    """Print a command's result as one JSON object where ``--json`` asks for it.

    ``data`` may hold paths and pydantic models.
    """
    if not AS_JSON.get():
        return
    text = json.dumps(data, ensure_ascii=True, indent=2, allow_nan=False, default=_plain)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)


def fields_of(found: object, *names: str, **more: Any) -> dict[str, Any]:
    """Return attributes of ``found`` by name and ``more``, as JSON data."""
    return {name: getattr(found, name) for name in names} | more


def table_of(*heads: str, wraps: bool = False) -> Table:
    """Return a table without lines. A head that begins with ``>`` has its column aligned right.

    The first column wraps; the others do only if ``wraps``.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for at, head in enumerate(heads):
        right = head.startswith(">")
        table.add_column(
            head.removeprefix(">"),
            justify="right" if right else "left",
            overflow="fold" if at == 0 else "ellipsis",
            no_wrap=at > 0 and not wraps,
        )
    return table


def print_table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    where: Console | None = None,
    *,
    wraps: bool = False,
) -> None:
    """Print ``rows`` below ``heads`` (see :func:`table_of`); nothing where there are none."""
    table = table_of(*heads, wraps=wraps)
    for row in rows:
        table.add_row(*row)
    if table.row_count:
        (where or console()).print(table)


def print_measured(report: MeasuredReport, over: str) -> None:
    """Print the tables of a report, with intervals (by bootstrap ``over`` …) below the figures."""
    say(f"Below a figure: its 95 % interval, by bootstrap over {over}.", "dim")
    for table in report.tables.values():
        say("")
        say(table.title, "bold")
        if table.caption:
            say(table.caption, "dim")
        _print_in_blocks(table)


def _print_in_blocks(table: MeasuredTable) -> None:
    """Print a table whose columns may need several blocks, each with the names of the rows."""
    head, *titles = table.titles
    labels: list[str] = []
    rows: list[list[Text]] = []
    for label, cells in table.lines():
        ends = (f"\n{one.low} – {one.high}" if one.low else "" for one in cells)
        shown = zip(cells, ends, strict=True)
        labels.append(label)
        rows.append([Text.assemble(one.text, (end, "dim")) for one, end in shown])
    columns = [[title, *(row[at].plain for row in rows)] for at, title in enumerate(titles)]
    widths = [2 + max(cell_len(line) for text in column for line in text.split("\n"))
              for column in columns]  # fmt: skip
    most = console().width
    # Long names of rows are wrapped.
    names = 2 + min(max(map(cell_len, (head, *labels))), most // 2)
    start = 0
    while start < len(titles):
        stop = start + 1
        while stop < len(titles) and names + sum(widths[start : stop + 1]) <= most:
            stop += 1
        block: list[list[str | Text]] = [
            [label, *row[start:stop]] for label, row in zip(labels, rows, strict=True)
        ]
        # Reasons may be long; figures never are.
        print_table([head, *titles[start:stop]], block, wraps=len(titles) == 1)
        start = stop


def split_list(text: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the parts of an option that holds several, with commas between them."""
    given = (text,) if isinstance(text, str) else text or ()
    return tuple(part.strip() for one in given for part in one.split(",") if part.strip())


def stop_on_signal() -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set; see :func:`restore_signals`."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop


def serve_until_signal(opened: AbstractAsyncContextManager[T], text: Callable[[T], str]) -> None:
    """Open a server, print what ``text`` says of it, and serve until a signal."""

    async def serve() -> None:
        stop = stop_on_signal()
        async with opened as server:
            say(text(server))
            sys.stdout.flush()
            await stop.wait()

    run_async(serve())


def restore_signals() -> None:
    """Let the next SIGINT or SIGTERM end the process at once."""
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().remove_signal_handler(number)


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` in an event loop until it ends or Ctrl-C stops it.

    The first Ctrl-C is acknowledged at once and cancels ``work``, which may finish a step; the
    second ends the process. Where the shell ignores Ctrl-C, as for a background job, it stays
    ignored. Raises ``CancelledError`` for work that was stopped.
    """
    before = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    if not main or before is not signal.default_int_handler:
        return asyncio.run(work)
    pressed = 0

    async def whole() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def press(number: int, frame: object) -> None:
            nonlocal pressed
            pressed += 1
            if pressed > 1:
                _end_at_once()
            _say_in_handler("stopping: the current step ends first; Ctrl-C again ends at once")
            loop.call_soon_threadsafe(task.cancel)

        signal.signal(signal.SIGINT, press)
        return await work

    try:
        return asyncio.run(whole())
    finally:
        signal.signal(signal.SIGINT, before)


def _say_in_handler(text: str) -> None:
    """Print a line on standard error from a signal's handler, which may interrupt a print."""
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except (RuntimeError, OSError, ValueError):
        os.write(2, f"{text}\n".encode())


def _end_at_once(number: int = 0, frame: object = None) -> None:
    """End the process without waiting for threads; finished steps are kept on the disk."""
    # A live display hides the cursor.
    _say_in_handler("\x1b[?25hended" if sys.stderr.isatty() else "ended")
    os._exit(int(Exit.INTERRUPTED))


def run_and_free(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` in an event loop and free the shared models and connections there."""
    from scenewright.runs.model_factory.local_models import SHARED

    async def whole() -> T:
        try:
            return await work
        finally:
            await SHARED.aclose()

    return run_async(whole())


def check_writable(path: Path, kind: str = "file") -> None:
    """End the command if ``path`` cannot be written, before any work is done for it.

    ``kind`` is as for :func:`write_file`; folders that lack are made where it is "folder".
    """
    folder = path if kind == "folder" else path.parent
    if kind == "folder":
        write_file(path, lambda made: made.mkdir(parents=True, exist_ok=True), kind)
    elif path.is_dir():
        raise fail(f"{path} cannot be written: it is a folder; name a writable {kind}")
    if not folder.is_dir():
        raise fail(f"{path} cannot be written: there is no folder {folder}; create it first")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise fail(f"{path} cannot be written: permission denied; name a writable {kind}")


def write_file(path: Path, write: Callable[[Path], object], kind: str = "file") -> None:
    """Call ``write`` with ``path``; the command ends with a clear error if that fails.

    ``kind`` is what the user should name instead, such as "folder" or ".png or .jpg file".
    """
    try:
        write(path)
    except (OSError, ValueError) as error:
        if describe(error)[1] is Exit.USAGE:
            raise
        why = getattr(error, "strerror", None) or error
        raise fail(f"{path} cannot be written: {why}; name a writable {kind}") from error


def fail(message: str, code: Exit = Exit.USAGE) -> typer.Exit:
    """Print ``message`` in red on standard error and return the exception to raise."""
    where = console(stderr=True)
    red = "red" if where.is_terminal else ""
    say(Text.assemble(("error: ", "bold red"), (with_suggestion(message), red)), "", where)
    return typer.Exit(int(code))


@contextmanager
def clear_errors(again: str = "") -> Iterator[None]:
    """Turn every failure into one line and an exit code; ``--debug`` keeps the traceback.

    ``again`` is printed after an interruption. Messages of model libraries are hidden.
    """
    quiet_libraries()
    try:
        with _warnings_as_notes():
            yield
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except (KeyboardInterrupt, asyncio.CancelledError):
        if threading.current_thread() is threading.main_thread():
            # Threads of models may still work: another Ctrl-C does not wait for them.
            signal.signal(signal.SIGINT, _end_at_once)
        note("interrupted." + (f" {again}" if again else ""))
        raise typer.Exit(int(Exit.INTERRUPTED)) from None
    except BrokenPipeError:
        # The reader has gone (`| head`): nothing more can be written to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(int(Exit.FAILED)) from None
    except Exception as error:
        if debugging():
            raise
        message, code = describe(error)
        raise fail(message, code) from None


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Print warnings of this package as a sentence, and no others unless ``--debug`` is given."""
    plain = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if category.__module__.startswith("scenewright."):
            note(f"warning: {message}", "yellow")
        elif debugging():
            plain(message, category, *where, **more)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = plain


WRONG_INPUT = frozenset(
    (
        *("AnnotationError", "ChoiceError", "ConfigError", "DatasetError", "EditError"),
        *("FormatError", "ImageError", "LabelError", "MatchingError", "MetricError", "MockError"),
        *("PageError", "PanelStudyError", "PredicateError", "RatingError", "RealismError"),
        *("SceneError", "SchemaError", "ServiceError", "SettingsError", "StudyError"),
        *("UnknownSceneError", "XtcError"),
    )
)
"""Names of the classes of errors that say that the input is wrong; others say that a step failed.

Names, so that a failing command imports nothing more.
"""


_OF_EVALUATIONS = ("datasets", "matplotlib", "pandas", "pyarrow", "torchmetrics", "wordcloud")
"""Libraries of the extra ``evals``."""


def describe(error: BaseException) -> tuple[str, Exit]:
    """Return the message and the exit code for ``error``."""
    if isinstance(error, ExceptionGroup) and error.exceptions:
        return describe(error.exceptions[0])
    text = str(error).strip() or type(error).__name__
    bases = (base for base in type(error).__mro__ if base.__module__.startswith("scenewright."))
    if names := {base.__name__ for base in bases}:
        return text, Exit.USAGE if names & WRONG_INPUT else Exit.FAILED
    if isinstance(error, ModuleNotFoundError):
        from scenewright.runs.model_factory.local_models import NO_LOCAL, lacks_local

        if lacks_local(error):
            return NO_LOCAL, Exit.FAILED
        if (error.name or "").partition(".")[0] in _OF_EVALUATIONS:
            return (
                f"evaluations and their tables need {error.name}: run "
                "`pip install 'scenewright[evals]'`",
                Exit.FAILED,
            )
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


_UNKNOWN = re.compile(
    r"""(?P<quote>['"`])(?P<name>[^'"`\s]+)(?P=quote)[^'"`]*?"""
    r"""\b(?:one of|there are|use)\s+"""
    r"""(?P<known>['"]?[\w./:@+-]+['"]?(?:(?:,| or| and)\s+['"]?[\w./:@+-]+['"]?)+)"""
)


def with_suggestion(message: str) -> str:
    """Return ``message`` with "did you mean …?" where it lists the values near an unknown one.

    Errors of all rooms name the unknown value in quotes and the valid ones after "use one of".
    """
    found = _UNKNOWN.search(message)
    if found is None or "did you mean" in message:
        return message
    # Imported for errors alone: `--help` must not wait for it.
    from scenewright.core.suggestions import did_you_mean

    known = [part.strip("'\".") for part in re.split(r",? or |,? and |,\s+", found["known"])]
    return f"{message.rstrip('.')}{did_you_mean(found['name'], known)}"
