"""``scenewright data``: the sets there are, what is in them, and samples of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from scenewright.cli.console import Exit, clear_errors, console, fail, print_json
from scenewright.cli.data_synthesize import classify, synthesize

if TYPE_CHECKING:
    from scenewright.evals.datasets.base import Dataset, DatasetSpec, Item

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
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


@app.command("list")
def list_sets(as_json: JsonOption = False) -> None:
    """All sets: what they hold, where they come from, and whether they are on this machine."""
    with clear_errors():
        from scenewright.cli.data_tables import set_blocks, set_entries

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
        from scenewright.cli.tables import plain_table

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
        from scenewright.cli.data_tables import item_block
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
        from scenewright.cli.data_tables import statistics_tables
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
