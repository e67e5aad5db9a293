"""What the commands on judges share: whom to ask of what, and the asking."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from scenewright.cli.console import Exit, console, fail

if TYPE_CHECKING:
    from scenewright.config.settings import CascadeSpec, Profile, Settings
    from scenewright.evals.judge_reports.judge_runs import JudgeRun, VariantPlan
    from scenewright.evals.judge_reports.labelled_facts import LabelledFact

T = TypeVar("T")
EMBEDDED = "local:miniature/"


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked, of whom, and where the answers are kept."""

    judges: list[str]
    """Specs, each ``kind:model``."""
    facts: tuple[LabelledFact, ...]
    """What they are asked about."""
    about: str
    """The facts in words."""
    settings: Settings
    """Of this machine."""
    store: Path
    """File of the answers."""
    plan: VariantPlan
    """In which ways every question is put."""
    quiet: bool
    """No progress."""


def prepare(
    judges: list[str] | None,
    profile: str | None,
    labels: Path | None,
    scenes: int,
    seed: int,
    store: Path,
    plan: VariantPlan,
    quiet: bool,
    keep: Callable[[LabelledFact], bool] = lambda fact: True,
) -> Task:
    """The task that a command's options give; exits with a clear error if they give none.

    ``keep`` chooses among the labelled facts.
    """
    from scenewright.config.settings import load_settings, settings_with
    from scenewright.evals.judge_reports.labelled_facts import LabelError, read_labels

    settings = load_settings()
    if judges and profile:
        raise fail("give --judges or --profile, not both", Exit.USAGE)
    if judges:
        specs = split(judges)
    else:
        chosen = profile_of(profile, settings)
        settings = settings_with(chosen, settings) or settings
        specs = [*chosen.judges, *chosen.report_judges]
    twice = sorted({spec for spec in specs if specs.count(spec) > 1})
    if twice or not specs:
        raise fail(f"name each judge once, not {', '.join(twice) or 'none'}", Exit.USAGE)
    _check_embedded(specs)
    if labels is not None:
        try:
            facts = read_labels(labels)
        except LabelError as error:
            raise fail(str(error), Exit.USAGE) from error
        about = f"labels of {labels.name}"
    else:
        from scenewright.evals.judge_reports.synthetic_facts import synthetic_facts

        facts = synthetic_facts(scenes, seed)
        about = f"painted scenes of the miniature world, seed {seed}"
    kept = tuple(fact for fact in facts if keep(fact))
    if not kept:
        raise fail("none of the labelled facts is one that a run would ask", Exit.USAGE)
    store.parent.mkdir(parents=True, exist_ok=True)
    return Task(specs, kept, about, settings, store, plan, quiet)


def profile_of(name: str | None, settings: Settings) -> Profile:
    """The profile of that name, or the default one."""
    from scenewright.config.settings import find_profile

    return find_profile(name or settings.profile, settings)


def wanted_cascades(
    judges: Sequence[str],
    profile: Profile | None,
    first: str | None,
    risk: float,
    confidence: float,
) -> list[CascadeSpec]:
    """The cascades whose bounds are to be chosen: that of the profile if it has a risk, and that
    of the options; exits with a clear error for judges that are not asked or numbers out of range.
    """
    from pydantic import ValidationError

    from scenewright.config.settings import CascadeSpec

    found = []
    if profile is not None and profile.cascade is not None and profile.cascade.risk is not None:
        found.append(profile.cascade)
    named = split([first] if first else [])
    if set(named) - set(judges):
        raise fail(f"--cascade-first names some of the judges ({', '.join(judges)})", Exit.USAGE)
    if named:
        try:
            found.append(CascadeSpec(first=tuple(named), risk=risk, confidence=confidence))
        except ValidationError as error:
            problem = error.errors()[0]
            raise fail(f"--{problem['loc'][0]}: {problem['msg']}", Exit.USAGE) from error
    return found


def run(task: Task) -> list[JudgeRun]:
    """Ask all judges; says on standard error what it does."""
    from scenewright.evals.judge_reports.judge_runs import count_questions, run_judges
    from scenewright.providers import AnswerStore
    from scenewright.runs.model_factory.profiles import panel_of

    async def ask() -> list[JudgeRun]:
        progress = console(stderr=True)
        made = await panel_of(task.judges, settings=task.settings)
        totals = {j.id: count_questions(j, task.facts, task.plan) for j in made}
        if not task.quiet:
            questions = sum(totals.values())
            progress.print(
                Text(f"{questions} questions to {len(made)} judges; answers are kept in "
                     f"{task.store}"),
                soft_wrap=True,
            )  # fmt: skip
        with (
            closing(AnswerStore(task.store)) as store,
            asking(progress, totals, task.quiet) as heard,
        ):
            return await run_judges(
                made, task.facts,
                store=store, plan=task.plan, limit=task.settings.judge_timeout, heard=heard,
            )  # fmt: skip

    return run_and_free(ask())


def run_and_free(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` in an event loop and free the shared models there."""
    from scenewright.runs.model_factory.local_models import SHARED

    async def whole() -> T:
        try:
            return await work
        finally:
            await SHARED.aclose()

    return asyncio.run(whole())


def store_of(store: Path | None, out: Path | None) -> Path:
    """Where answers are kept: ``store``, else in ``out``, else in the user's folder."""
    if store is not None:
        return store
    if out is not None:
        return out / "answers.db"
    return Path(typer.get_app_dir("scenewright")) / "judges.db"


def how_to_go_on(store: Path | None, out: Path | None) -> str:
    """What is said after an interruption."""
    return (
        f"What was answered is kept in {store_of(store, out)}: the same command goes on from there."
    )


def split(given: Sequence[str]) -> list[str]:
    """The parts of options that hold several judges, joined by commas."""
    return [part.strip() for text in given for part in text.split(",") if part.strip()]


def embedded() -> list[str]:
    """Specs of the judges that come with the package."""
    from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS

    folder = MINIATURE_WEIGHTS / "judges"
    return sorted(f"{EMBEDDED}{path.parent.name}" for path in folder.glob("*/config.json"))


def _check_embedded(specs: Sequence[str]) -> None:
    known = embedded()
    for spec in specs:
        if spec.startswith(EMBEDDED) and spec not in known:
            raise fail(f"there is no judge {spec}: there are {', '.join(known)}", Exit.USAGE)


_LINES = 10
"""Lines of progress a judge gets where there is no terminal."""


@contextmanager
def asking(
    where: Console, totals: Mapping[str, int], quiet: bool
) -> Iterator[Callable[[str, int], None]]:
    """Shows how far each judge is and how long it takes yet; yields what is to be told.

    ``totals``: judge → questions. On a terminal one bar a judge, elsewhere a line now and then.
    """
    if quiet:
        yield lambda judge, n: None
        return
    if not where.is_terminal:
        yield _lines(where, totals)
        return
    bars = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        TimeRemainingColumn(), console=where,
    )  # fmt: skip
    with bars:
        # A judge that has to wait for its turn must not look slow.
        tasks = {name: bars.add_task(name, start=False, total=n) for name, n in totals.items()}

        def heard(judge: str, n: int) -> None:
            bars.start_task(tasks[judge])
            bars.advance(tasks[judge], n)

        yield heard


def _lines(where: Console, totals: Mapping[str, int]) -> Callable[[str, int], None]:
    done = dict.fromkeys(totals, 0)
    begun: dict[str, tuple[float, int]] = {}

    def heard(judge: str, n: int) -> None:
        before, total = done[judge], totals[judge]
        done[judge] += n
        now = time.monotonic()
        start, first = begun.setdefault(judge, (now, n))
        if before * _LINES // total == done[judge] * _LINES // total:
            return
        left = ""
        if first < done[judge] < total:
            from scenewright.runs.report.words import duration

            pace = (now - start) / (done[judge] - first)
            left = f", about {duration(pace * (total - done[judge]))} left"
        where.print(Text(f"{judge}: {done[judge]} of {total} questions{left}"), soft_wrap=True)

    return heard
