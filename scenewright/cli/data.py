"""``scenewright data``: sets of scenes and prompts, listed, counted, sampled and fetched."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scenewright.cli.console import Exit, clear_errors, console, fail, plain_table, print_json
from scenewright.cli.data_synthesize import classify, synthesize
from scenewright.cli.options import JsonOption
from scenewright.cli.progress import confirm_transfer, show_transfer

if TYPE_CHECKING:
    from scenewright.evals.datasets.base import Dataset, DatasetSpec, Item
    from scenewright.evals.datasets.downloads import Done, Plan
    from scenewright.evals.datasets.statistics import Statistics

app = typer.Typer(
    help="Sets of scenes and prompts: list, show, count and sample them.", no_args_is_help=True
)

app.command()(synthesize)
app.command()(classify)

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="A set, as `scenewright data list` names it.")
]
PathOption = Annotated[
    Path | None,
    typer.Option(
        "--path",
        metavar="PATH",
        help="Its file or folder; default: where `scenewright data get` puts it.",
        show_default=False,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="OPTION=VALUE",
        help="An option of the set, such as split=test (may be repeated).",
        show_default=False,
    ),
]


@app.command("list")
def list_sets(as_json: JsonOption = False) -> None:
    """All sets: what they hold, where they come from, and whether they are on this machine."""
    with clear_errors():
        pass

        if as_json:
            print_json(set_entries())
            return
        where = console()
        for line in set_blocks(set_entries()):
            where.print(line, soft_wrap=True)
        hint = "`scenewright data show NAME` shows items, `data options NAME` what --set can say."
        where.print(Text(f"\n{hint}", "dim"), soft_wrap=True)


@app.command()
def options(name: NameArgument, as_json: JsonOption = False) -> None:
    """The options of a set, for --set and for the options of a configuration's dataset."""
    with clear_errors():
        from scenewright.evals.datasets.registry import loader_of

        loader = loader_of(name)
        if as_json:
            print_json(dict(loader.options))
            return

        table = plain_table("option", "what it means")
        for option, means in loader.options.items():
            table.add_row(Text(option, "bold"), means)
        console().print(table)


@app.command()
def show(
    name: NameArgument,
    path: PathOption = None,
    set_: SetOption = None,
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="How many items.")] = 5,
    as_json: JsonOption = False,
) -> None:
    """The first items of a set: prompt, scene and questions."""
    with clear_errors():
        pass
        from scenewright.evals.datasets.rows import row_of

        items = _open(name, path, set_, limit=count)
        if as_json:
            print_json([row_of(item) for item in items])
            return
        where = console()
        for at, item in enumerate(items):
            if at:
                where.print()
            for line in item_block(item):
                where.print(line, soft_wrap=True)
        _say_left_out(items)


@app.command()
def stats(
    name: NameArgument,
    path: PathOption = None,
    set_: SetOption = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Count the first items alone.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FOLDER", help="Write plots and word clouds into this folder."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """What a set holds: sizes, vocabulary, levels and classes, as tables, plots and word clouds."""
    with clear_errors():
        pass
        from scenewright.evals.datasets.statistics import collect

        dataset = _open(name, path, set_, limit=limit)
        with _counting("counting") as tick:
            found = collect(dataset, tick)
        written: list[Path] = []
        if out is not None:
            from scenewright.evals.datasets.statistics_plots import write_clouds, write_plots

            written = [*write_plots(found, out), *write_clouds(found, out)]
        if as_json:
            print_json({**found.as_json(), "files": [str(file) for file in written]})
            return
        where = console()
        for at, part in enumerate(statistics_tables(found)):
            if at:
                where.print()
            where.print(part)
        for file in written:
            where.print(Text(f"wrote {file}"), soft_wrap=True)


@app.command()
def predicates(
    name: NameArgument,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="JSON file to write.")],
    path: PathOption = None,
    set_: SetOption = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Only the first N items.")
    ] = None,
    alone: Annotated[
        bool, typer.Option("--alone", help="Without the general counts of the package.")
    ] = False,
) -> None:
    """Count which predicates join which classes in a set, for `predicates = FILE`.

    Wrong options of relation questions are drawn from such counts: those of the pair of classes
    first. The set's counts are added to the general ones.
    """
    with clear_errors():
        from scenewright.core.predicate_statistics import (
            PredicateStatistics,
            as_json,
            load_predicates,
        )

        dataset = _open(name, path, set_, limit=limit)
        scenes = (item.scene for item in dataset if item.scene is not None)
        counted = PredicateStatistics.of(scenes, name)
        relations = counted.totals.total()
        if not alone:
            counted += load_predicates()
        out.write_text(as_json(counted), encoding="utf-8")
        console().print(Text(f"{relations} relations of {name} counted: wrote {out}"))


@app.command()
def sample(
    name: NameArgument,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="FILE", help="JSON lines file, which the set `table` reads."
        ),
    ],
    path: PathOption = None,
    set_: SetOption = None,
    counts: Annotated[
        str | None,
        typer.Option(
            "--counts",
            metavar="CLASS=N,…",
            help="Items of each class, such as simple=15,medium=20,hard=15.",
            show_default=False,
        ),
    ] = None,
    each: Annotated[
        int | None, typer.Option("--each", min=1, help="As many items of every class, instead.")
    ] = None,
    by: Annotated[
        str, typer.Option("--by", help="What classes are: complexity, group or category.")
    ] = "complexity",
    gamma: Annotated[
        float,
        typer.Option("--gamma", min=0.0, max=1.0, help="γ of complexity: 0 relations, 1 objects."),
    ] = 0.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the draw.")] = 0,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="At most so many items, after the draw.")
    ] = None,
    short: Annotated[
        str,
        typer.Option("--short", help="A class with too few items: error, or take what it has."),
    ] = "error",
    as_json: JsonOption = False,
) -> None:
    """Draw a balanced sample of a set and write it as a table: as many items of each class."""
    with clear_errors():
        from scenewright.evals.datasets.base import SampleSpec
        from scenewright.evals.datasets.rows import write_items
        from scenewright.evals.datasets.sampling import class_of, limited, sampled

        if out.suffix.lower() not in (".jsonl", ".ndjson"):
            raise fail(f"{out} must end in .jsonl: samples are JSON lines", Exit.USAGE)
        if short not in ("error", "take"):
            raise fail(f"--short is {short!r}: use error or take", Exit.USAGE)
        spec = SampleSpec(
            by=by,
            counts=_counts(counts),
            each=each,
            gamma=gamma,
            seed=seed,
            short="take" if short == "take" else "error",
        )
        chosen = sampled(_open(name, path, set_), spec)
        if limit is not None:
            chosen = limited(chosen, limit)
        held: dict[str, int] = {}
        with _counting("writing") as tick:

            def told() -> Iterator[Item]:
                for item in chosen:
                    held[class_of(item, spec)] = held.get(class_of(item, spec), 0) + 1
                    tick(item)
                    yield item

            count = write_items(told(), out)
        if as_json:
            print_json({"file": str(out), "items": count, "classes": dict(sorted(held.items()))})
            return
        classes = ", ".join(f"{label or 'no class'} {n}" for label, n in sorted(held.items()))
        where = console()
        where.print(Text(f"wrote {count:,} items to {out} ({classes})"), soft_wrap=True)
        where.print(Text(f'read it again: name = "table", path = "{out}"'), soft_wrap=True)


def _open(
    name: str, path: Path | None, given: list[str] | None, limit: int | None = None
) -> Dataset:
    from scenewright.evals.datasets.registry import open_dataset

    return open_dataset(spec_of(name, path, given, limit))


def spec_of(
    name: str, path: Path | None, given: list[str] | None, limit: int | None = None
) -> DatasetSpec:
    """The set that NAME, ``--path`` and ``--set`` of a command mean."""
    from scenewright.evals.datasets.base import DatasetSpec

    options: dict[str, Any] = {}
    for each in given or ():
        option, equals, value = each.partition("=")
        if not equals or not option.strip():
            raise fail(f"--set {each!r} is no OPTION=VALUE, such as split=test", Exit.USAGE)
        options[option.strip()] = _value(value)
    return DatasetSpec(
        name=name, path=None if path is None else str(path), options=options, limit=limit
    )


def _value(text: str) -> Any:
    """JSON, so that numbers, truth values and lists can be given; anything else is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _counts(text: str | None) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in (text or "").split(","))):
        name, equals, number = part.rpartition("=")
        if not equals or not name.strip() or not number.strip().isdecimal():
            raise fail(
                f"--counts has {part!r}: write CLASS=N, such as simple=15,medium=20", Exit.USAGE
            )
        found[name.strip()] = int(number)
    return found


def _say_left_out(dataset: Dataset) -> None:
    for reason, n in dataset.left_out.items():
        console(stderr=True).print(Text(f"note: left out so far: {n} × {reason}"), soft_wrap=True)


@contextmanager
def _counting(doing: str) -> Iterator[Any]:
    """Shows on a terminal how many items went by; how many there are is known at the end."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description} {task.completed:,.0f} items"),
        TimeElapsedColumn(),
    )
    where = console(stderr=True)
    with Progress(
        *columns, console=where, transient=True, disable=not where.is_terminal
    ) as progress:
        task = progress.add_task(doing, total=None)

        def tick(item: Item) -> None:
            progress.advance(task)

        yield tick


_TOP = 10
_MOST_CLASSES = 30
_MOST_FACTS = 12


def set_entries() -> list[dict[str, Any]]:
    """All sets as plain values."""
    from scenewright.evals.datasets.catalogue import CATALOGUE
    from scenewright.evals.datasets.registry import LOADERS, place_of

    found = []
    for name, loader in LOADERS.items():
        about = CATALOGUE[name]
        place = place_of(name)
        found.append(
            {
                "name": name,
                "about": loader.about,
                "source": about.source,
                "licence": about.licence,
                "size": about.size,
                "needs_path": loader.needs_path,
                "here": str(place) if place is not None else None,
                "options": dict(loader.options),
            }
        )
    return found


def set_blocks(entries: list[dict[str, Any]]) -> Iterator[Text]:
    """For each set its name and what it is, then source, size, licence and whether it is here."""
    width = max(len(entry["name"]) for entry in entries) + 2
    for entry in entries:
        if entry["here"] is not None:
            here = Text(f"here: {entry['here']}", "green")
        elif not entry["needs_path"] and entry["name"] != "huggingface":
            here = Text("needs no file", "green")
        else:
            here = Text("name a path" if not entry["size"] else "not on this machine", "yellow")
        yield Text.assemble((entry["name"].ljust(width), "bold"), entry["about"])
        more = filter(None, (entry["source"], entry["size"], entry["licence"]))
        yield Text.assemble(" " * width, (" · ".join(more), "dim"), " · ", here)


def item_block(item: Item) -> Iterator[Text]:
    """The lines that show ``item``."""
    from scenewright.core.questions import noun_phrase

    level = f"  {item.level}" if item.level else ""
    classes = " · ".join(filter(None, (item.group, item.category)))
    yield Text.assemble((item.id, "bold"), (f"  {classes}{level}", "dim"))
    if item.prompt:
        yield Text(item.prompt)
    if item.image is not None:
        yield Text.assemble(("photo     ", "dim"), item.image)
    if item.scene is not None:
        things = "; ".join(f"{o.id}: {noun_phrase(o)}" for o in item.scene.objects)
        yield Text.assemble(("objects   ", "dim"), things)
        if item.scene.relations:
            yield Text.assemble(("relations ", "dim"), "; ".join(map(str, item.scene.relations)))
    if item.detections:
        counts = Counter(found.name for found in item.detections)
        said = ", ".join(f"{name} {n}" if n > 1 else name for name, n in counts.items())
        yield Text.assemble(("boxes     ", "dim"), said)
    for fact in item.facts[:_MOST_FACTS]:
        given = "" if fact.is_binary and fact.expected == "yes" else f" → {fact.expected}"
        options = "" if fact.is_binary else f"  [{' / '.join(fact.options)}]"
        after = f"  after {', '.join(fact.parents)}" if fact.parents else ""
        yield Text.assemble(
            (f"  {fact.id} ", "bold"), fact.question, options, given, (after, "dim")
        )
    if len(item.facts) > _MOST_FACTS:
        yield Text(f"  … and {len(item.facts) - _MOST_FACTS} more questions", "dim")
    for key, value in item.meta.items():
        yield Text(f"{key}: {value}", "dim")


def statistics_tables(found: Statistics) -> Iterator[Table | Text]:
    """The tables of ``found``: the paper's Table 1, sizes, levels, vocabulary, classes."""
    head = found.table1()
    first = plain_table(*head)
    first.add_row(*head.values())
    yield first
    yield _sizes(found)
    if found.scenes:
        yield _levels(found)
    if found.names or found.predicates:
        yield _vocabulary(found)
    if any(group or category for group, category in found.classes):
        yield _classes(found)
    if found.left_out:
        reasons = "; ".join(f"{n:,} × {reason}" for reason, n in found.left_out.items())
        yield Text(f"left out: {reasons}", "dim")


def _sizes(found: Statistics) -> Table:
    from scenewright.evals.datasets.statistics import mean

    table = plain_table("of the items", "count", "mean of a scene", "most")
    table.add_row("with a prompt", f"{found.prompts:,}")
    table.add_row("with a scene", f"{found.scenes:,}")
    for what, sizes in (
        ("objects", found.objects),
        ("relations", found.relations),
        ("attributes", found.attributes),
    ):
        total = sum(size * n for size, n in sizes.items())
        if found.scenes:
            table.add_row(f"  {what}", f"{total:,}", f"{mean(sizes) or 0:.2f}", f"{max(sizes):,}")
    table.add_row("with questions of its own", f"{found.asked:,}")
    for kind, n in sorted(found.facts.items()):
        table.add_row(f"  of {kind}s", f"{n:,}")
    table.add_row("with a photo here", f"{found.images:,}")
    if found.boxes:
        table.add_row("  boxes", f"{found.boxes:,}")
    return table


def _levels(found: Statistics) -> Table:
    from scenewright.evals.datasets.statistics import LEVELS

    table = plain_table("level", "relations", "scenes", "share")
    for level, said in zip(LEVELS, ("0 to 3", "4 to 7", "8 or more"), strict=True):
        n = found.levels[level]
        table.add_row(level, said, f"{n:,}", f"{n / found.scenes:.1%}")
    return table


def _vocabulary(found: Statistics) -> Table:
    from scenewright.evals.datasets.statistics import commonest

    columns = [
        (f"objects ({len(found.names):,})", commonest(found.names, _TOP)),
        (f"relations ({len(found.predicates):,})", commonest(found.predicates, _TOP)),
        (
            f"attributes ({len(found.values):,})",
            [(f"{key}: {value}", n) for (key, value), n in commonest(found.values, _TOP)],
        ),
    ]
    table = plain_table(*(head for head, _ in columns))
    for at in range(max(len(entries) for _, entries in columns)):
        cells = [
            f"{entries[at][0]} {entries[at][1]:,}" if at < len(entries) else ""
            for _, entries in columns
        ]
        table.add_row(*map(Text, cells))
    return table


def _classes(found: Statistics) -> Table:
    table = plain_table("group", "category", "items")
    ordered = sorted(found.classes.items(), key=lambda entry: (entry[0][0], -entry[1], entry[0]))
    for (group, category), n in ordered[:_MOST_CLASSES]:
        table.add_row(Text(group), Text(category), f"{n:,}")
    if len(ordered) > _MOST_CLASSES:
        table.add_row(Text(f"… and {len(ordered) - _MOST_CLASSES} more classes", "dim"))
    return table


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
            confirm_transfer(plan.rest, as_json)
        sizes = [wanted.size for wanted in plan.files]
        known = not plan.open_sizes
        rest, size = (plan.rest, sum(s or 0 for s in sizes)) if known else (None, None)
        with show_transfer(rest, size, where) as watch:
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
    from scenewright.providers.hub.needs import size_words

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
