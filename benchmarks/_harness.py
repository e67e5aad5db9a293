"""What every benchmark shares: command line, progress, intervals and the results file.

A benchmark is a module with :func:`benchmark` around its ``main``::

    @benchmark("six scenes", scenes=Option(90, "scenes", least=3))
    def main(options: Namespace) -> tuple[int, dict[str, Any]]:
        return n, figures

A full run writes ``benchmarks/results/NAME.json`` from a clean tree on the main branch, ``--quick``
writes nothing.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchmarks._commit import CommitError, measured_commit, tree_of
from benchmarks._provenance import code_of, machine_class, weights_read

if TYPE_CHECKING:
    from scenewright.evals.runner.progress import Progress as EvalProgress

T = TypeVar("T")
Array = NDArray[Any]
RESULTS = Path(__file__).parent / "results"
ASIDE = Path("out/benchmarks")
"""Folder of the figures of full runs that may not be published."""
STARTED = tree_of()
"""The checkout when this process began to measure."""
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
"""Default folder of the public releases, beside the repository."""
RESAMPLES = 2000
_QUIET_SECONDS = 30.0
"""Interval of progress lines where the output is not a terminal."""


class BenchmarkError(RuntimeError):
    """An error that ends a benchmark; its message says what to do."""


class Skipped(Exception):
    """A benchmark that cannot run here: its message is printed and nothing is measured."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a benchmark's command line, in addition to ``--quick``."""

    default: Any
    help: str
    least: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of ``ArgumentParser.add_argument``."""

    def add(self, parser: ArgumentParser, name: str) -> None:
        """Add ``--name`` to ``parser``."""
        unset = self.default is None or self.default is False
        default = {} if unset else {"default": self.default}
        kind = {} if unset else {"type": type(self.default)}
        shown = f"{self.help} (default: %(default)s)" if default else self.help
        parser.add_argument(f"--{name}", help=shown, **{**kind, **default, **self.more})


def folder(help: str) -> Option:
    """Return an option that names a folder."""
    return Option(None, help, more={"type": Path})


SCENES = Option(0, "scenes")
PROCESSES = Option(os.cpu_count() or 1, "processes", least=1)
SERVER = Option("postgresql://postgres@127.0.0.1:5432", "a PostgreSQL server")


class Main(Protocol):
    """The command of a benchmark; without arguments it reads ``sys.argv``."""

    def __call__(self, arguments: Sequence[str] | None = None) -> None:
        """Parse the arguments, measure and report."""


def benchmark(
    quick: str,
    *,
    clean: bool = False,
    trials: Sequence[str] = (),
    measures: Sequence[str] = (),
    refused: tuple[type[Exception], ...] = (),
    **options: Option,
) -> Callable[[Callable[[Namespace], tuple[int, Mapping[str, Any]] | None]], Main]:
    """Make a function from options to ``(n, figures)`` the command of its module.

    ``quick`` describes ``--quick``. ``clean``: check the tree before a full run and not only when
    its results are written. ``trials``: options with which nothing is published. ``refused``:
    exceptions whose message ends the command. ``measures``: modules or packages whose change makes
    the figures stale. A function that returns None has nothing to report.
    """

    def wrap(measure: Callable[[Namespace], tuple[int, Mapping[str, Any]] | None]) -> Main:
        module = sys.modules[measure.__module__]
        name = Path(str(module.__file__)).stem

        @functools.wraps(measure)
        def main(arguments: Sequence[str] | None = None) -> None:
            parser = ArgumentParser(
                f"benchmarks.{name}",
                description=module.__doc__,
                formatter_class=RawDescriptionHelpFormatter,
            )
            parser.add_argument("--quick", action="store_true", help=f"{quick}; writes nothing")
            for key, option in options.items():
                option.add(parser, key.replace("_", "-"))
            given = parser.parse_args(arguments)
            for key, option in options.items():
                if option.least is not None and getattr(given, key) < option.least:
                    parser.error(f"--{key} must be {option.least} or more")
            given.refuse = parser.error
            given.unpublished = given.quick or any(getattr(given, key) for key in trials)
            given.report = functools.partial(
                report,
                name,
                quick=given.unpublished,
                options=_changed(parser, options, given),
                measures=measures,
            )
            if clean and not given.unpublished:
                require_commit()
            try:
                found = measure(given)
            except Skipped as reason:
                print(reason)
                return
            except BenchmarkError as error:
                sys.exit(str(error))
            except refused as error:
                parser.exit(1, f"{error}\n")
            except KeyboardInterrupt:
                sys.exit("stopped: what was kept in a folder is not measured again")
            if found is not None:
                given.report(*found)

        return main

    return wrap


@contextmanager
def work_folder(options: Namespace, default: Path | None = None) -> Iterator[Path]:
    """Yield the folder of ``--work``; without one ``default``, of a quick run a temporary one."""
    given = getattr(options, "work", None) or (None if options.quick else default)
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="scenewright-bench-") as temporary:
        yield Path(temporary)


def release(options: Namespace, name: str) -> Path:
    """Return the folder of a public release; raises ``Skipped`` without one."""
    place: Path = options.data or DATA / name
    if options.data is None and not place.is_dir():
        raise Skipped(
            f"skipped: the {name.upper()} release is not beside the repository ({place}); "
            "name its folder with --data"
        )
    return place


def totals(rows: ArrayLike, resamples: int = RESAMPLES, seed: int = 0) -> Array:
    """Return the column sums of ``rows`` (n, columns) and of its bootstrap resamples.

    (1 + resamples, columns): the first row is of all rows as they are.
    """
    table = np.asarray(rows, float)
    if not len(table):
        raise ValueError("no rows: nothing was measured")
    picks = np.random.default_rng(seed).integers(0, len(table), (resamples, len(table)))
    return np.vstack([table.sum(0), *(table[pick].sum(0) for pick in picks)])


def spread(values: ArrayLike) -> dict[str, float]:
    """Return the first value with the 95 % interval of the others; NaN ones are left out."""
    value, *drawn = np.asarray(values, float).tolist()
    low, high = np.nanpercentile(drawn, [2.5, 97.5])
    return {"mean": value, "low": float(low), "high": float(high)}


def interval(values: ArrayLike, seed: int = 0) -> dict[str, float]:
    """Return the mean with its 95 % bootstrap interval."""
    data = np.asarray(values, float)
    return spread(totals(data[:, None], seed=seed)[:, 0] / len(data))


def intervals(rows: Iterable[Mapping[str, Any]], prefix: str = "") -> dict[str, Any]:
    """Return the mean of every column of ``rows`` with its interval; None is left out."""
    columns: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.items():
            if value is not None:
                columns.setdefault(f"{prefix}{name}", []).append(value)
    return {name: interval(values) for name, values in columns.items()}


def ratio(rows: ArrayLike, resamples: int = RESAMPLES) -> dict[str, float]:
    """Return the ratio of the two column sums of ``rows`` (n, 2), with its interval over rows."""
    above, below = totals(rows, resamples).T
    with np.errstate(all="ignore"):
        return spread(above / below)


def micro(counts: ArrayLike, resamples: int = RESAMPLES) -> dict[str, Array]:
    """Return precision, recall and F1 of all facts together, then of each resample of ``counts``.

    ``counts`` (n, 3) are facts that are right, said and true; 0 where there are none.
    """
    right, said, true = totals(counts, resamples).T
    return {
        "f1": 2 * right / np.maximum(said + true, 1),
        "precision": right / np.maximum(said, 1),
        "recall": right / np.maximum(true, 1),
    }


def figure(found: Any) -> Any:
    """Return a ``Figure`` or ``Estimate`` as results files have it; None without a value."""
    if found is None or found.value is None or found.low is None or found.high is None:
        return None if found is None else found.value
    return {"mean": found.value, "low": found.low, "high": found.high}


def prefixed(prefix: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``figures`` with ``prefix`` before each key, without those that are None."""
    return {f"{prefix}{key}": value for key, value in figures.items() if value is not None}


def differences_shown(kind: str, calm: Mapping[str, Any], killed: Mapping[str, Any]) -> int:
    """Count what ended otherwise than undisturbed, and print the first of it."""
    from scenewright.runs.folder import differences

    lost = sorted(k for k in calm.keys() | killed.keys() if calm.get(k) != killed.get(k))
    for key in lost[:3]:
        found = "; ".join(differences(calm.get(key), killed.get(key)))
        print(f"{kind} {key} ended otherwise (undisturbed → disturbed): {found[:1000]}")
    return len(lost)


class Clock:
    """Adds up the time spent inside of it: seconds on the clock, and of the processor."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def __enter__(self) -> None:
        self._begun = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        self.wall += time.perf_counter() - self._begun[0]
        self.cpu += time.process_time() - self._begun[1]


class Progress:
    """One line that shows how far a long work is and how long it will take."""

    def __init__(
        self,
        of: int,
        out: TextIO | None = None,
        before: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start; ``before`` of the ``of`` steps were done earlier and do not count for the speed.

        ``out`` is the error stream by default.
        """
        self._of, self._out, self._before = of, out or sys.stderr, before
        self._clock = clock
        self._begun = self._shown = clock()
        self._done = before

    def step(self, note: str = "") -> None:
        """Count one more step."""
        self.reach(self._done + 1, note)

    def reach(self, done: int, note: str = "") -> None:
        """Show that ``done`` steps are done."""
        if done <= self._done:
            return
        self._done = done
        now = self._clock()
        terminal = self._out.isatty()
        if not terminal and self._done < self._of and now - self._shown < _QUIET_SECONDS:
            return
        self._shown = now
        pace = (now - self._begun) / (self._done - self._before)
        left = duration(pace * (self._of - self._done))
        line = f"{self._done} of {self._of}, {left} left{'  ' + note if note else ''}"
        end = "\n" if not terminal or self._done == self._of else ""
        self._out.write(f"\r\x1b[K{line}{end}" if terminal else f"{line}{end}")
        self._out.flush()


def progress(items: Iterable[T], of: int | None = None, note: str = "") -> Iterator[T]:
    """Yield ``items`` and show the progress; ``of``: how many there are, if they have no length."""
    shown = Progress(len(items) if of is None else of)  # type: ignore[arg-type]
    for item in items:
        yield item
        shown.step(note)


def eval_progress(title: str) -> Callable[[EvalProgress], None]:
    """Return a callback that shows how far an evaluation is, every few seconds."""
    began = shown = time.perf_counter()

    def show(now: EvalProgress) -> None:
        nonlocal shown
        seconds = time.perf_counter()
        if seconds - shown >= _QUIET_SECONDS / 3:
            shown = seconds
            print(
                f"{title}: {now.doing}, {now.items} items, {now.pictures} pictures, "
                f"{now.judged} judged, {now.failed} failed, {seconds - began:.0f} s",
                file=sys.stderr,
                flush=True,
            )

    return show


def duration(seconds: float) -> str:
    """Return ``45 s``, ``12 min`` or ``1 h 05 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def require_commit() -> None:
    """Exit with what to do unless a full result may be written from this tree."""
    try:
        measured_commit(STARTED)
    except CommitError as error:
        sys.exit(f"no full result may be written: {error}. --quick works from any tree")


def _changed(
    parser: ArgumentParser, options: Mapping[str, Option], given: Namespace
) -> dict[str, Any]:
    """Return the options that are not the defaults, without places."""
    values = {key: getattr(given, key) for key, option in options.items() if option is not SERVER}
    return {
        key: value
        for key, value in values.items()
        if value != parser.get_default(key) and not isinstance(value, Path)
    }


def report(
    name: str,
    n: int,
    figures: Mapping[str, Any],
    quick: bool,
    options: Mapping[str, Any] | None = None,
    measures: Sequence[str] = (),
) -> None:
    """Print the figures and, in full mode, write ``benchmarks/results/NAME.json``.

    ``options`` are those that were not the defaults; ``measures`` as of :func:`benchmark`.
    """
    width = max(32, *(len(key) + 2 for key in figures))
    for key, value in figures.items():
        if isinstance(value, Mapping):
            value = f"{value['mean']:.3f}  [{value['low']:.3f}, {value['high']:.3f}]"
        elif isinstance(value, float):
            value = f"{value:.3f}" if value >= 0.01 else f"{value:.2g}"
        print(f"{key:<{width}}{value}")
    print(f"{'n':<{width}}{n}")
    if quick:
        print("quick: not written to benchmarks/results")
        return
    made = {"options": options or {}, "code": code_of(name, measures)}
    path = write(name, n, figures, made)
    print(f"written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")


def write(name: str, n: int, figures: Mapping[str, Any], made: Mapping[str, Any]) -> Path:
    """Write ``benchmarks/results/NAME.json`` and return its path; ``made``: options and code.

    From a tree whose code is not a commit of the main branch nothing is published: the figures go
    into :data:`ASIDE`, and the process exits with what to do.
    """
    content = {
        "name": name,
        "commit": STARTED.commit,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine(),
        **made,
        "weights": weights_read(),
        "n": n,
        "figures": dict(figures),
    }
    try:
        content["commit"] = measured_commit(STARTED)
    except CommitError as error:
        kept = _put(ASIDE / f"{name}.json", content | {"unpublished": str(error)})
        sys.exit(f"{RESULTS / name}.json is unchanged: {error}. The figures are in {kept}")
    return _put(RESULTS / f"{name}.json", content)


def machine() -> dict[str, Any]:
    """Return the machine that the figures are measured on."""
    import torch

    return machine_class() | {
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def _put(path: Path, content: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")
    return path
