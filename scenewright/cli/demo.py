"""``scenewright demo``: three scenes of growing complexity, drawn, verified and repaired."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from scenewright.cli import options
from scenewright.cli.app import resumable
from scenewright.cli.console import Exit, console, give, print_table, run_async, say
from scenewright.cli.options import chosen_profile
from scenewright.cli.refine import exit_code, run_json

if TYPE_CHECKING:
    from rich.console import Console

    from scenewright.runs.record import RunRecord
    from scenewright.runs.result import RunResult

SCENES: dict[str, str] = {
    "simple": "red ball on purple table",
    "medium": (
        "red ball on purple table; green dog left of table; yellow umbrella above dog; "
        "green tree right of table"
    ),
    "hard": (
        "green lamp near red person; yellow table near black house; blue dog left of yellow table; "
        "yellow tree near red lamp; black house below purple ball; green lamp on yellow table; "
        "red lamp above blue dog; black house below red tree; red person on black house"
    ),
}
"""Scenes by level, in the words of the miniature world."""


@resumable("The same command continues the demo.")
def demo(
    out: Annotated[Path, typer.Option("--out", "-o")] = Path("out/demo"),
    profile: options.ProfileName = None,
    rounds: options.Rounds = 3,
    seed: options.Seed = 0,
    max_usd: options.MaxUsd = None,
    yes: options.Yes = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> Exit:
    """Draw, verify and repair three scenes (simple, medium, hard), and write one page of all.

    The last line is the path of the page; nothing is opened. The same command continues an
    interrupted demo.

    Exit codes: 0 the page is written (the scenes may have missing facts, the page shows them);
    2 wrong input or usage; 3 could not run; 130 interrupted.

    Args:
        out: Folder of the three runs and the page.
    """
    folders = run_async(
        _draw(out, profile, rounds, seed, max_usd, yes, console(stderr=True), quiet)
    )
    from scenewright.runs.folder import PAGE_FILE
    from scenewright.runs.record import read_run
    from scenewright.runs.report.render import write_index

    views = {level: read_run(folder) for level, folder in folders.items()}
    pages = {level: folder / PAGE_FILE for level, folder in folders.items()}
    index = write_index(out, list(folders.values()), "Three scenes")
    give(
        as_json,
        {
            "page": str(index),
            "runs": {
                level: run_json(view, pages[level], exit_code(view.card("loop")))
                for level, view in views.items()
            },
        },
        _print,
        views,
        index,
    )
    return Exit.OK


async def _draw(
    out: Path,
    profile: str | None,
    rounds: int,
    seed: int,
    max_usd: float | None,
    yes: bool,
    progress: Console,
    quiet: bool,
) -> dict[str, Path]:
    settings, chosen = chosen_profile(profile)
    if not quiet:
        # Said before the imports, which take seconds.
        say(f"loading the models of profile {chosen.name}", "", progress)
    from scenewright.cli.costs import agree_to_run
    from scenewright.cli.run_display import show_run_progress
    from scenewright.runs.api import execute
    from scenewright.runs.folder import short_digest
    from scenewright.runs.model_factory.profiles import build_run_models, warm
    from scenewright.runs.plan import plan_run

    run_models = await build_run_models(chosen)
    await warm(run_models)
    # Other models or options make another folder: an old demo never passes for a new one.
    mark = short_digest(
        {
            "backend": run_models.backend.fingerprint,
            "judges": [
                judge.fingerprint for judge in (*run_models.loop_judges, *run_models.report_judges)
            ],
            "profile": chosen.model_dump(mode="json"),
            "rounds": rounds,
            "seed": seed,
            "scenes": SCENES,
        }
    )
    results: dict[str, RunResult] = {}
    for level, scene in SCENES.items():
        if not quiet:
            say(Text.assemble((f"\n{level}: ", "bold"), scene), "", progress)
        place = out / f"{level}-{mark}"
        plan = plan_run(scene, chosen, out=place, rounds=rounds, seed=seed, settings=settings)
        plan = agree_to_run(plan, max_usd, yes, quiet)
        with show_run_progress(progress, quiet) as watcher:
            results[level] = await execute(plan, watcher)
    return {level: result.folder for level, result in results.items()}


def _print(views: dict[str, RunRecord], index: Path) -> None:
    from scenewright.runs.report import words

    rows = []
    for level, view in views.items():
        loop, report = view.card("loop"), view.card("report")
        change = words.signed(view.change("loop"))
        rows.append(
            (
                level,
                words.verdict_line(loop),
                f"{words.score(loop.sgscore if loop else None)} {f'({change})' if change else ''}",
                words.score(report.sgscore if report else None),
                str(len(view.rounds)),
                words.duration(view.seconds),
            )
        )
    print_table(("scene", "facts that hold", "loop", "report", "rounds", "time"), rows)
    say(f"\nThe page: {index.resolve()}")
