"""``scenewright data``: list, show, count, sample and fetch data sets."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.text import Text

from scenewright.cli import options
from scenewright.cli.app import App, resumable
from scenewright.cli.console import console, fail, give, note, print_json, print_table, say
from scenewright.cli.data_annotate import app as building
from scenewright.cli.data_synthesize import classify, synthesize
from scenewright.cli.progress import confirm_transfer, show_progress, show_transfer

if TYPE_CHECKING:
    from scenewright.evals.datasets.base import Dataset, DatasetSpec, Item
    from scenewright.evals.datasets.downloads import Done, Plan
    from scenewright.evals.datasets.statistics import Statistics

app = App(help="List, show, count, sample, fetch and build data sets.")

app.command()(synthesize)
app.command()(classify)
app.add_typer(building)

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="A data set of `scenewright data list`.")
]
PathOption = Annotated[
    Path | None,
    typer.Option(
        "--path",
        metavar="PATH",
        help="File or folder of the set; default: that of `scenewright data get`.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="OPTION=VALUE",
        help="An option of the set, such as split=test; can be given several times.",
    ),
]


@app.command("list")
def list_sets(as_json: options.Json = False) -> None:
    """List all data sets: contents, source, and whether they are on this machine."""
    if as_json:
        print_json(set_entries())
        return
    for line in set_blocks(set_entries()):
        say(line)
    hint = "`scenewright data show NAME` shows items, `data options NAME` what --set can say."
    say(f"\n{hint}", "dim")


@app.command("options")
def list_options(name: NameArgument, as_json: options.Json = False) -> None:
    """List the options of a set, for --set and for a configuration's dataset."""
    from scenewright.evals.datasets.registry import loader_of

    loader = loader_of(name)
    give(
        as_json,
        dict(loader.options),
        print_table,
        ("option", "meaning"),
        loader.options.items(),
        wraps=True,
    )


@app.command()
def show(
    name: NameArgument,
    path: PathOption = None,
    set_: SetOption = None,
    count: Annotated[int, typer.Option("-n", "--count", min=1)] = 5,
    as_json: options.Json = False,
) -> None:
    """Show the first items of a set: prompt, scene and questions.

    Args:
        count: How many items.
    """
    from scenewright.evals.datasets.tables import row_of

    items = _open(name, path, set_, limit=count)
    if as_json:
        print_json([row_of(item) for item in items])
        return
    where = console()
    for at, item in enumerate(items):
        if at:
            where.print()
        for line in item_block(item):
            say(line)
    _say_left_out(items)


@app.command()
def stats(
    name: NameArgument,
    path: PathOption = None,
    set_: SetOption = None,
    limit: options.Limit = None,
    out: Annotated[Path | None, typer.Option("--out", "-o")] = None,
    as_json: options.Json = False,
) -> None:
    """Show statistics of a set: sizes, vocabulary, levels and classes, as tables and plots.

    Args:
        out (FOLDER): Write plots and word clouds to this folder.
    """
    from scenewright.evals.datasets.statistics import collect

    dataset = _open(name, path, set_, limit=limit)
    with show_progress("counting items", False, lines=False) as show:
        done = itertools.count(1)
        found = collect(dataset, lambda _: show(next(done), None))
    written: list[Path] = []
    if out is not None:
        from scenewright.evals.datasets.statistics import write_clouds, write_plots

        written = [*write_plots(found, out), *write_clouds(found, out)]
    if as_json:
        print_json({**found.as_json(), "files": [str(file) for file in written]})
        return
    _print_statistics(found)
    for file in written:
        say(f"wrote {file}")


@app.command()
def predicates(
    name: NameArgument,
    out: Annotated[Path, typer.Option("--out", "-o")],
    path: PathOption = None,
    set_: SetOption = None,
    limit: options.Limit = None,
    alone: bool = False,
) -> None:
    """Count the predicates between each pair of classes in a set, for `predicates = FILE`.

    Wrong options of relation questions are drawn from such counts, those of the same pair of
    classes first. The set's counts are added to the general ones.

    Args:
        out (FILE): JSON file to write.
        alone: Leave out the general counts of the package.
    """
    from scenewright.core.predicate_statistics import PredicateStatistics, as_json, load_predicates

    dataset = _open(name, path, set_, limit=limit)
    scenes = (item.scene for item in dataset if item.scene is not None)
    counted = PredicateStatistics.of(scenes, name)
    relations = counted.totals.total()
    if not alone:
        counted += load_predicates()
    out.write_text(as_json(counted), encoding="utf-8")
    say(f"{relations} relations of {name} counted: wrote {out}")


@app.command()
def sample(
    name: NameArgument,
    out: Annotated[Path, typer.Option("--out", "-o")],
    path: PathOption = None,
    set_: SetOption = None,
    counts: str | None = None,
    each: options.OptionalPositive = None,
    by: Literal["complexity", "group", "category"] = "complexity",
    gamma: options.Share = 0.0,
    seed: options.Seed = 0,
    limit: options.OptionalPositive = None,
    short: Literal["error", "take"] = "error",
    as_json: options.Json = False,
) -> None:
    """Draw a balanced sample of a set and write it as a table.

    Args:
        out (FILE): JSON lines file to write; the set `table` reads it.
        counts (CLASS=N,…): Items of each class, such as simple=15,medium=20,hard=15.
        each: The same number of items of every class, instead.
        by: Classes to balance.
        gamma: γ of complexity: 0 counts relations, 1 objects.
        limit: At most this many items, after the draw.
        short: For a class with too few items: error ends the command, take takes all it has.
    """
    from scenewright.evals.datasets.base import SampleSpec
    from scenewright.evals.datasets.registry import class_of, limited, sampled
    from scenewright.evals.datasets.tables import write_items

    if out.suffix.lower() not in (".jsonl", ".ndjson"):
        raise fail(f"{out} must end in .jsonl: samples are JSON lines")
    spec = SampleSpec(by=by, counts=_counts(counts), each=each, gamma=gamma, seed=seed, short=short)
    chosen = sampled(_open(name, path, set_), spec)
    if limit is not None:
        chosen = limited(chosen, limit)
    held: Counter[str] = Counter()
    with show_progress("writing items", False, lines=False) as show:

        def counted() -> Iterator[Item]:
            for item in chosen:
                held[class_of(item, spec)] += 1
                show(held.total(), None)
                yield item

        count = write_items(counted(), out)
    if as_json:
        print_json({"file": str(out), "items": count, "classes": dict(sorted(held.items()))})
        return
    classes = ", ".join(f"{label or 'no class'} {n}" for label, n in sorted(held.items()))
    say(f"wrote {count:,} items to {out} ({classes})")
    say(f'read it with: name = "table", path = "{out}"')


def _open(
    name: str, path: Path | None, given: list[str] | None, limit: int | None = None
) -> Dataset:
    from scenewright.evals.datasets.registry import open_dataset

    return open_dataset(spec_of(name, path, given, limit))


def spec_of(
    name: str, path: Path | None, given: list[str] | None, limit: int | None = None
) -> DatasetSpec:
    """Return the data set that NAME, ``--path`` and ``--set`` of a command select."""
    from scenewright.evals.datasets.base import DatasetSpec

    options: dict[str, Any] = {}
    for each in given or ():
        option, equals, value = each.partition("=")
        if not equals or not option.strip():
            raise fail(f"--set {each!r}: write OPTION=VALUE, such as split=test")
        options[option.strip()] = _value(value)
    return DatasetSpec(
        name=name, path=None if path is None else str(path), options=options, limit=limit
    )


def _value(text: str) -> Any:
    """Return the JSON value of ``text``, or ``text`` itself where it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _counts(text: str | None) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in (text or "").split(","))):
        name, equals, number = part.rpartition("=")
        if not equals or not name.strip() or not number.strip().isdecimal():
            raise fail(f"--counts has {part!r}: write CLASS=N, such as simple=15,medium=20")
        found[name.strip()] = int(number)
    return found


def _say_left_out(dataset: Dataset) -> None:
    for reason, n in dataset.left_out.items():
        note(f"note: left out so far: {n} × {reason}")


_TOP = 10
_MOST_CLASSES = 30
_MOST_FACTS = 12


def set_entries() -> list[dict[str, Any]]:
    """Return all data sets as plain values."""
    from scenewright.evals.datasets.base import CATALOGUE
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
    """Yield for each set its name and contents, then source, size, licence and place."""
    width = max(len(entry["name"]) for entry in entries) + 2
    for entry in entries:
        if entry["here"] is not None:
            here = Text(f"here: {entry['here']}", "green")
        elif not entry["needs_path"] and entry["name"] != "huggingface":
            here = Text("needs no file", "green")
        else:
            here = Text("needs --path" if not entry["size"] else "not on this machine", "yellow")
        yield Text.assemble((entry["name"].ljust(width), "bold"), entry["about"])
        more = filter(None, (entry["source"], entry["size"], entry["licence"]))
        yield Text.assemble(" " * width, (" · ".join(more), "dim"), " · ", here)


def item_block(item: Item) -> Iterator[Text]:
    """Yield the lines that show ``item``."""
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
        expected = "" if fact.is_binary and fact.expected == "yes" else f" → {fact.expected}"
        options = "" if fact.is_binary else f"  [{' / '.join(fact.options)}]"
        after = f"  after {', '.join(fact.parents)}" if fact.parents else ""
        yield Text.assemble(
            (f"  {fact.id} ", "bold"), fact.question, options, expected, (after, "dim")
        )
    if len(item.facts) > _MOST_FACTS:
        yield Text(f"  … and {len(item.facts) - _MOST_FACTS} more questions", "dim")
    for key, value in item.meta.items():
        yield Text(f"{key}: {value}", "dim")


def _print_statistics(found: Statistics) -> None:
    """Print the paper's Table 1, sizes, levels, vocabulary and classes."""
    head = found.table1()
    _print_sizes(found, head)
    if found.scenes:
        _print_levels(found)
    if found.names or found.predicates:
        _print_vocabulary(found)
    if any(group or category for group, category in found.classes):
        _print_classes(found)
    if found.left_out:
        reasons = "; ".join(f"{n:,} × {reason}" for reason, n in found.left_out.items())
        say(f"\nleft out: {reasons}", "dim")


def _print_sizes(found: Statistics, head: Mapping[str, str]) -> None:
    from scenewright.evals.datasets.statistics import mean

    print_table(tuple(head), [tuple(head.values())])
    say("")
    rows = [
        ("with a prompt", f"{found.prompts:,}", "", ""),
        ("with a scene", f"{found.scenes:,}", "", ""),
    ]
    if found.scenes:
        sizes = (found.objects, found.relations, found.attributes)
        for what, counts in zip(("objects", "relations", "attributes"), sizes, strict=True):
            total = sum(size * n for size, n in counts.items())
            means = f"{mean(counts) or 0:.2f}", f"{max(counts):,}"
            rows.append((f"  {what}", f"{total:,}", *means))
    rows.append(("with questions of its own", f"{found.asked:,}", "", ""))
    rows += [(f"  of {kind}s", f"{n:,}", "", "") for kind, n in sorted(found.facts.items())]
    rows.append(("with a photo here", f"{found.images:,}", "", ""))
    if found.boxes:
        rows.append(("  boxes", f"{found.boxes:,}", "", ""))
    print_table(("items", "count", "mean of a scene", "most"), rows)


def _print_levels(found: Statistics) -> None:
    from scenewright.evals.datasets.statistics import LEVELS

    say("")
    print_table(
        ("level", "relations", "scenes", "share"),
        [
            (
                level,
                relations,
                f"{found.levels[level]:,}",
                f"{found.levels[level] / found.scenes:.1%}",
            )
            for level, relations in zip(LEVELS, ("0 to 3", "4 to 7", "8 or more"), strict=True)
        ],
    )


def _print_vocabulary(found: Statistics) -> None:
    from scenewright.evals.datasets.statistics import commonest

    values = [(f"{key}: {value}", n) for (key, value), n in commonest(found.values, _TOP)]
    columns = {
        f"objects ({len(found.names):,})": commonest(found.names, _TOP),
        f"relations ({len(found.predicates):,})": commonest(found.predicates, _TOP),
        f"attributes ({len(found.values):,})": values,
    }
    cells = [[f"{name} {n:,}" for name, n in entries] for entries in columns.values()]
    say("")
    print_table(tuple(columns), list(itertools.zip_longest(*cells, fillvalue="")))


def _print_classes(found: Statistics) -> None:
    ordered = sorted(found.classes.items(), key=lambda entry: (entry[0][0], -entry[1], entry[0]))
    say("")
    print_table(
        ("group", "category", "items"),
        [(group, category, f"{n:,}") for (group, category), n in ordered[:_MOST_CLASSES]],
    )
    if len(ordered) > _MOST_CLASSES:
        say(f"… and {len(ordered) - _MOST_CLASSES} more classes", "dim")


ASK_ABOVE = 100_000_000
"""Bytes above which the command asks first."""
_AGAIN = "Fetched files stay: the same command goes on from there."


@app.command()
@resumable(_AGAIN)
def get(
    name: Annotated[str, typer.Argument()] = "",
    out: Annotated[Path | None, typer.Option("--out", "-o")] = None,
    only: list[str] | None = None,
    yes: options.NoQuestion = False,
    dry_run: options.DryRun = False,
    as_json: options.Json = False,
) -> None:
    """Fetch a public data set: show its licence and size, then fetch its files and check each.

    Files are compared with the digests that ship with scenewright; for a file without one, the
    digest of the first download is recorded and compared from then on. After an interruption the
    same command goes on where it stopped. Exit codes: 0 all is here and correct; 2 wrong
    input; 3 could not be fetched; 130 interrupted.

    Args:
        name ([NAME]): A public data set; without a name, all of them are listed.
        out: Its folder. Default: NAME in SCENEWRIGHT_DATA, or in ~/.local/share/scenewright/data,
            where sets are searched.
        only: Only this file, extras included; can be given several times.
    """
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
    with show_transfer(rest, size) as watch:
        done = download(plan, watch)
    give(as_json, _report(plan, done), _print_done, plan, done, console())


def _print_sources(as_json: bool) -> None:
    from scenewright.evals.datasets.base import default_place, sources

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
    width = max(map(len, sources()))
    for name, source in sources().items():
        say(Text.assemble((name.ljust(width), "bold"), "  ", source.about))
        say(f"{' ' * width}  {source.licence}", "dim")
    say("fetch one with `scenewright data get NAME`")


def _print_plan(plan: Plan, where: Console) -> None:
    from scenewright.providers.hub.needs import size_words

    source = plan.source
    say(f"{plan.name}: {source.about}", "bold", where)
    say(f"licence: {source.licence}; {source.page}", "", where)
    if source.note:
        say(source.note, "", where)
    print_table(
        ("file", "contents", "size", "here", "digest"),
        [
            (one.file.name, one.file.about, size_words(one.size),
             size_words(one.here) if one.here else "",
             "known" if one.file.sha256 else "of the first download")
            for one in plan.files
        ],
        where,
    )  # fmt: skip
    chosen = {wanted.file.name for wanted in plan.files}
    extra = [file.name for file in source.files if file.extra and file.name not in chosen]
    if extra:
        say(f"extras (--only): {', '.join(extra)}", "dim", where)
    more = ", and files of unknown size" if plan.open_sizes else ""
    say(f"{size_words(plan.rest)}{more} to fetch into {plan.folder}", "", where)


def _print_done(plan: Plan, done: Done, where: Console) -> None:
    count = len(done.fetched) + len(done.checked)
    are = "file is here and as it" if count == 1 else "files are here and as they"
    where.print(f"{count} {are} should be ({len(done.fetched)} fetched).")
    if done.first:
        from scenewright.evals.datasets.downloads import RECORD

        say(
            f"No digest is known for {', '.join(done.first)}: that of this download is recorded "
            f"and compared from now on ({plan.folder / RECORD})."
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
