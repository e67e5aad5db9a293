"""``scenewright edit``, ``open`` and ``show``: existing runs.

Args:
    run_dir: A run folder.
"""

from __future__ import annotations

import hashlib
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scenewright.cli import options
from scenewright.cli.app import resumable
from scenewright.cli.console import EXIT_HELP, Exit, fail, say, write_file
from scenewright.cli.refine import read_scene, run_plan, show_run

if TYPE_CHECKING:
    from scenewright.core.facts import Fact
    from scenewright.graphs.events import Corrected


@resumable("The same command continues the run.")
def edit(
    run_dir: Path,
    scene: str | None = None,
    missing: str | None = None,
    present: list[str] | None = None,
    absent: list[str] | None = None,
    base: Annotated[int | None, typer.Option("--base", "-b", min=0)] = None,
    rounds: options.Rounds = 3,
    note: Annotated[str, typer.Option("--note", "-n")] = "",
    max_usd: options.MaxUsd = None,
    yes: options.Yes = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> Exit:
    """Correct the run in RUN_DIR and continue it.

    A correction begins a round with the same picture as you see it; the next pictures repair what
    is missing in it. Without one the run continues from its kept picture. Models and options are
    those of the run; a run with --self-report stays a self-report.

    For example, when the judges overlooked the dog and the scene lacks a hat:

        scenewright edit runs/20260101-0123456789 --present dog --scene "dog; hat on dog"

    Args:
        scene: The new scene, as text or a file: adds and removes facts.
        missing: The missing graph of the picture as you see it, as text or a file: anything you add
            to the run's own is treated as missing, what you leave out as present.
        present (FACT): This fact holds in the picture: its id or its words, as `scenewright show`
            prints them; can be given several times.
        absent (FACT): This fact does not hold in it; can be given several times.
        base: Continue from the picture of this round; by default from the kept one.
        note: A comment, kept with the run.
    """
    from scenewright.cli.costs import agree_to_run
    from scenewright.graphs.events import Edit
    from scenewright.runs.plan import plan_again
    from scenewright.runs.record import read_run

    view = read_run(run_dir)
    scene_read = read_scene(scene) if scene is not None else None
    facts = view.facts
    if scene_read is not None:
        from scenewright.core.questions import facts_of, realism_facts_of

        realism = any(fact.kind == "realism" for fact in facts)
        facts = (*facts_of(scene_read), *(realism_facts_of(scene_read) if realism else ()), *facts)
    correction = Edit(
        key="unnamed",
        base=base,
        missing=read_scene(missing) if missing is not None else None,
        verdicts=_verdicts(facts, present or (), absent or ()),
        scene=scene_read,
        rounds=rounds,
        note=note,
    )
    # The newest edit's key again, if it is the same one and its run was interrupted.
    content = hashlib.sha256(correction.model_dump_json().encode()).hexdigest()[:12]
    cut_off = bool(view.edits) and view.finished is None and not view.paused
    key = f"command:{len(view.edits) - cut_off}:{content}"
    plan = plan_again(run_dir, edit=correction.model_copy(update={"key": key}))
    plan = agree_to_run(plan, max_usd, yes, quiet)
    return run_plan(plan, quiet)


edit.__doc__ = f"{edit.__doc__}\n\n    {EXIT_HELP}\n    "


def _verdicts(
    facts: Sequence[Fact], present: Sequence[str], absent: Sequence[str]
) -> dict[str, Corrected]:
    """Return the corrected states by fact id; a fact may also be named by its words."""
    ids = {fact.id for fact in facts}
    corrected: dict[str, Corrected] = {}
    for names, state in ((present, "yes"), (absent, "no")):
        for name in names:
            found = {f.id for f in facts if f.statement.casefold() == name.casefold()}
            if name in ids or not found:
                found = {name}
            if len(found) > 1:
                raise fail(
                    f"{name!r} matches several facts: use an id ({', '.join(sorted(found))})"
                )
            (fact,) = found
            if fact in corrected and corrected[fact] != state:
                raise fail(f"{name!r} is given as present and as absent: give one")
            corrected[fact] = "yes" if state == "yes" else "no"
    return corrected


def open_(
    run_dir: Annotated[Path | None, typer.Argument()] = None,
    browser: bool = True,
    sheet: Path | None = None,
) -> None:
    """Write the page of a run, by default of the newest one, open it and print its path.

    The page of an unfinished run shows how far it has come.

    Args:
        run_dir ([RUN_DIR]): A run folder; by default the newest.
        browser: Open it; else only print its path.
        sheet: Also write all rounds as one picture to this file.
    """
    from scenewright.config.settings import load_settings
    from scenewright.runs.report.contact_sheet import contact_sheet
    from scenewright.runs.report.render import write_page

    if run_dir is None:
        runs = load_settings().runs
        run_dir = newest_run(runs)
        if run_dir is None:
            raise fail(
                f'there is no run in {runs}: draw one with `scenewright refine "red ball on table"`'
            )
    place = write_page(run_dir).absolute()
    say(str(place))
    if sheet is not None:
        write_file(sheet, contact_sheet(run_dir).save, ".png or .jpg file")
        say(str(sheet))
    if browser:
        # Where there is none, as on a server, the path is all.
        webbrowser.open(place.as_uri())


def newest_run(runs: Path) -> Path | None:
    """Return the run folder below ``runs`` whose log was written last; None if there is none."""
    from scenewright.runs.folder import EVENTS

    found = [(log.stat().st_mtime, log.parent) for log in runs.glob(f"*/{EVENTS}")]
    return max(found)[1] if found else None


def show(run_dir: Path, as_json: options.Json = False) -> None:
    """Show the facts by round and the result of a run, and each fact's id for `edit`."""
    from scenewright.runs.folder import PAGE_FILE
    from scenewright.runs.record import read_run

    page = run_dir / PAGE_FILE
    show_run(read_run(run_dir), page if page.is_file() else None, ids=True)
