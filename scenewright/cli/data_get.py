"""``scenewright data get``: public sets, fetched from their makers and checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from scenewright.cli.console import clear_errors, console, print_json
from scenewright.cli.refine import JsonOption

if TYPE_CHECKING:
    from scenewright.evals.datasets.downloads import Done, Plan

ASK_ABOVE = 100_000_000
"""Bytes above which one is asked first."""
_AGAIN = "What has come stays: the same command goes on from there."


def get(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]",
            help="A public set; without one, all of them are listed.",
            show_default=False,
        ),
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Its folder. Default: NAME in SCENEWRIGHT_DATA, or in "
            "~/.local/share/scenewright/data, where sets are looked for.",
            show_default=False,
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="Only this file, extras too; may be repeated."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before it starts.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell what would be fetched, and stop.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Fetch a public set: its licence and size first, then its files, each checked.

    Digests are those of the table that ships with scenewright; of files that it does not vouch
    for, the first download's is written down and holds from then on. After an interruption the
    same command goes on where it stopped. Exit codes: 0 all is here and as it should be; 2 wrong
    input; 3 could not be fetched; 130 interrupted.
    """
    with clear_errors(_AGAIN):
        if not name:
            _print_sources(as_json)
            return
        from scenewright.cli.transfers import confirm, showing
        from scenewright.evals.datasets.downloads import check_disk, download, plan_of

        where = console(stderr=True)
        if where.is_terminal:
            with where.status("asking for sizes"):
                plan = plan_of(name, out, only or ())
        else:
            plan = plan_of(name, out, only or ())
        if not as_json:
            _print_plan(plan, console())
        if dry_run:
            if as_json:
                print_json(_report(plan, None))
            return
        check_disk(plan)
        if plan.rest > ASK_ABOVE and not yes:
            confirm(plan.rest, as_json)
        sizes = [wanted.size for wanted in plan.files]
        known = not plan.open_sizes
        rest, size = (plan.rest, sum(s or 0 for s in sizes)) if known else (None, None)
        with showing(rest, size, where) as watch:
            done = download(plan, watch)
        if as_json:
            print_json(_report(plan, done))
        else:
            _print_done(plan, done, console())


def _print_sources(as_json: bool) -> None:
    from scenewright.evals.datasets.sources import default_place, sources

    if as_json:
        print_json(
            {
                name: {
                    "about": source.about,
                    "page": source.page,
                    "licence": source.licence,
                    "folder": str(default_place(name)),
                    "files": [file.name for file in source.files],
                }
                for name, source in sources().items()
            }
        )
        return
    where = console()
    width = max(map(len, sources()))
    for name, source in sources().items():
        where.print(Text.assemble((name.ljust(width), "bold"), "  ", source.about), soft_wrap=True)
        where.print(Text(f"{' ' * width}  {source.licence}", "dim"), soft_wrap=True)
    where.print("fetch one with `scenewright data get NAME`", soft_wrap=True)


def _print_plan(plan: Plan, where: Console) -> None:
    from scenewright.cli.tables import plain_table
    from scenewright.providers.hub.known import size_words

    source = plan.source
    where.print(Text(f"{plan.name}: {source.about}", "bold"), soft_wrap=True)
    where.print(Text(f"licence: {source.licence}; {source.page}"), soft_wrap=True)
    if source.note:
        where.print(Text(source.note), soft_wrap=True)
    table = plain_table("file", "about", "size", "here", "digest")
    for wanted in plan.files:
        table.add_row(
            wanted.file.name,
            wanted.file.about,
            size_words(wanted.size),
            size_words(wanted.here) if wanted.here else "",
            "known" if wanted.file.sha256 else "of the first download",
        )
    where.print(table)
    chosen = {wanted.file.name for wanted in plan.files}
    extra = [file.name for file in source.files if file.extra and file.name not in chosen]
    if extra:
        where.print(Text(f"extras (--only): {', '.join(extra)}", "dim"), soft_wrap=True)
    more = ", and files of unknown size" if plan.open_sizes else ""
    where.print(Text(f"{size_words(plan.rest)}{more} to fetch into {plan.folder}"), soft_wrap=True)


def _print_done(plan: Plan, done: Done, where: Console) -> None:
    count = len(done.fetched) + len(done.checked)
    are = "file is here and as it" if count == 1 else "files are here and as they"
    where.print(f"{count} {are} should be ({len(done.fetched)} fetched).")
    if done.first:
        from scenewright.evals.datasets.downloads import RECORD

        where.print(
            Text(
                f"Nobody vouches for {', '.join(done.first)}: what came first counts from now on "
                f"({plan.folder / RECORD})."
            ),
            soft_wrap=True,
        )


def _report(plan: Plan, done: Done | None) -> dict[str, Any]:
    return {
        "name": plan.name,
        "licence": plan.source.licence,
        "page": plan.source.page,
        "folder": str(plan.folder),
        "bytes_to_fetch": plan.rest,
        "files": [
            {
                "name": wanted.file.name,
                "address": wanted.file.address,
                "bytes": wanted.size,
                "bytes_here": wanted.here,
                "sha256": wanted.file.sha256,
            }
            for wanted in plan.files
        ],
        "fetched": done.fetched if done is not None else [],
        "checked": done.checked if done is not None else [],
        "first_download": done.first if done is not None else [],
        "unpacked": done.unpacked if done is not None else {},
        "done": done is not None,
    }
