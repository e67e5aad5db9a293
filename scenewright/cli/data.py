"""``scenewright data``: list, show, count, sample and fetch data sets.

Args:
    name: A data set of `scenewright data list`.
    path (PATH): File or folder of the set; default: that of `scenewright data get`.
    set_ (OPTION=VALUE): An option of the set, such as split=test; can be given several times.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.text import Text

from scenewright.cli import console as terminal
from scenewright.cli import options
from scenewright.cli.app import App, resumable
from scenewright.cli.data_annotate import app as building
from scenewright.cli.data_synthesize import classify, synthesize
from scenewright.cli.progress import confirm_transfer, show_progress, show_status, show_transfer

if TYPE_CHECKING:
    from scenewright.evals.datasets.base import Dataset, Item
    from scenewright.evals.datasets.downloads import Done, Plan
    from scenewright.evals.datasets.statistics import Statistics

app = App(help="List, show, count, sample, fetch and build data sets.")

app.command()(synthesize)
app.command()(classify)
app.add_typer(building)

SetOption = Annotated[list[str] | None, typer.Option("--set")]


@app.command("list")
def list_sets(as_json: options.Json = False) -> None:
    """List all data sets: contents, source, and whether they are on this machine."""
    from scenewright.evals.datasets.base import CATALOGUE
    from scenewright.evals.datasets.registry import place_of

    entries: list[dict[str, Any]] = [
        {
            "name": name,
            "about": loader.about,
            **terminal.fields_of(loader, "source", "licence", "size"),
            "needs_path": loader.needs_path,
            "here": str(place) if (place := place_of(name)) is not None else None,
            "options": dict(loader.options),
        }
        for name, loader in CATALOGUE.items()
    ]
    terminal.print_if_json(entries)
    width = max(len(entry["name"]) for entry in entries) + 2
    for entry in entries:
        if entry["here"] is not None:
            here = Text(f"here: {entry['here']}", "green")
        elif not entry["needs_path"] and entry["name"] != "huggingface":
            here = Text("needs no file", "green")
        else:
            here = Text("needs --path" if not entry["size"] else "not on this machine", "yellow")
        terminal.say(Text.assemble((entry["name"].ljust(width), "bold"), entry["about"]))
        more = filter(None, (entry["source"], entry["size"], entry["licence"]))
        terminal.say(Text.assemble(" " * width, (" · ".join(more), "dim"), " · ", here))
    hint = "`scenewright data show NAME` shows items, `data options NAME` what --set can say."
    terminal.say(f"\n{hint}", "dim")


@app.command("options")
def list_options(name: str, as_json: options.Json = False) -> None:
    """List the options of a set, for --set and for a configuration's dataset."""
    from scenewright.evals.datasets.registry import loader_of

    found = dict(loader_of(name).options)
    terminal.print_if_json(found)
    terminal.print_table(("option", "meaning"), found.items(), wraps=True)


@app.command()
def show(
    name: str,
    path: Path | None = None,
    set_: SetOption = None,
    count: Annotated[int, typer.Option("-n", "--count", min=1)] = 5,
    as_json: options.Json = False,
) -> None:
    """Show the first items of a set: prompt, scene and questions.

    Args:
        count: How many items.
    """
    from scenewright.evals.datasets.tables import row_of

    items = open_set(name, path, set_, limit=count)
    if as_json:
        terminal.print_if_json([row_of(item) for item in items])
        return
    for at, item in enumerate(items):
        if at:
            terminal.say("")
        for line in item_block(item):
            terminal.say(line)
    for reason, n in items.left_out.items():
        terminal.note(f"note: left out so far: {n} × {reason}")


@app.command()
def stats(
    name: str,
    path: Path | None = None,
    set_: SetOption = None,
    limit: options.Limit = None,
    out: options.OptionalOut = None,
    as_json: options.Json = False,
) -> None:
    """Show statistics of a set: sizes, vocabulary, levels and classes, as tables and plots.

    Args:
        out (FOLDER): Write plots and word clouds to this folder.
    """
    from scenewright.evals.datasets.statistics import collect, write_clouds, write_plots

    dataset = open_set(name, path, set_, limit=limit)
    with show_progress("counting items", False, lines=False) as show:
        done = itertools.count(1)
        found = collect(dataset, lambda _: show(next(done), None))
    written = [] if out is None else [*write_plots(found, out), *write_clouds(found, out)]
    terminal.print_if_json({**found.as_json(), "files": written})
    for heads, rows in statistics_tables(found):
        terminal.print_table(heads, rows)
        terminal.say("")
    if (more := len(found.classes) - _MOST_CLASSES) > 0:
        terminal.say(f"… and {more} more classes", "dim")
    if found.left_out:
        reasons = "; ".join(f"{n:,} × {reason}" for reason, n in found.left_out.items())
        terminal.say(f"left out: {reasons}", "dim")
    for file in written:
        terminal.say(f"wrote {file}")


@app.command()
def predicates(
    name: str,
    out: options.Out,
    path: Path | None = None,
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

    dataset = open_set(name, path, set_, limit=limit)
    scenes = (item.scene for item in dataset if item.scene is not None)
    counted = PredicateStatistics.of(scenes, name)
    relations = counted.totals.total()
    if not alone:
        counted += load_predicates()
    out.write_text(as_json(counted), encoding="utf-8")
    terminal.say(f"{relations} relations of {name} counted: wrote {out}")


@app.command()
def sample(
    name: str,
    out: options.Out,
    path: Path | None = None,
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
        raise terminal.fail(f"{out} must end in .jsonl: samples are JSON lines")
    named = options.named_values(
        "--counts", terminal.split_list(counts), "CLASS=N", "simple=15,medium=20"
    )
    if wrong := [text for text in named.values() if not text.isdecimal()]:
        raise terminal.fail(
            f"--counts has {wrong[0]!r}: write CLASS=N, such as simple=15,medium=20"
        )
    sizes = {label: int(number) for label, number in named.items()}
    spec = SampleSpec(by=by, counts=sizes, each=each, gamma=gamma, seed=seed, short=short)
    chosen = sampled(open_set(name, path, set_), spec)
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
    terminal.print_if_json({"file": out, "items": count, "classes": dict(sorted(held.items()))})
    classes = ", ".join(f"{label or 'no class'} {n}" for label, n in sorted(held.items()))
    terminal.say(f"wrote {count:,} items to {out} ({classes})")
    terminal.say(f'read it with: name = "table", path = "{out}"')


@app.command()
def leaks(
    name: str,
    against: str,
    path: Path | None = None,
    against_path: Path | None = None,
    set_: SetOption = None,
    extractor: str | None = None,
    least: options.OptionalShare = None,
    out: options.OptionalOut = None,
    vectors: Path = Path("leakage"),
    as_json: options.Json = False,
) -> terminal.Exit:
    """List the photos of a set that a test set holds already, or ones like them.

    Exit codes: 0 none; 1 some; 2 wrong input; 3 could not run.

    Examples of use:

      scenewright data leaks folder folder --path train --against-path test

      scenewright data leaks table megasg --path list.csv --extractor miniature

    Args:
        against (NAME): The test set.
        against_path: Its file or folder.
        extractor: Of vectors: a repository as OWNER/NAME, a folder, miniature or module:function;
            default: openai/clip-vit-base-patch16.
        least: Cosine of vectors from which on two pictures are too alike; default: 0.9.
        out (FILE): Write the pairs as CSV: photo, like, similarity.
        vectors (FOLDER): Where vectors are kept, so that none is computed twice.
    """
    from scenewright.evals.annotation.config import CLIP, LEAST_ALIKE
    from scenewright.evals.annotation.leakage import leaks_between
    from scenewright.evals.metrics.extractors import extractor_of

    if out is not None:
        terminal.check_writable(out)
    made = extractor_of("leakage", extractor or CLIP, "projection", {})
    least = LEAST_ALIKE if least is None else least
    sets = open_set(name, path, set_), open_set(against, against_path, None)
    with show_progress("comparing", False) as show:
        found = terminal.run_async(
            leaks_between(*sets, made, vectors, least, lambda done: show(done, None))
        )
    heads = ("photo", "like", "similarity")
    pairs = [(file, like, round(value, 4)) for file, (like, value) in found.found.items()]
    if out is not None:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows([heads, *pairs])
        terminal.write_file(out, lambda place: place.write_text(text.getvalue(), "utf-8"))
    terminal.print_if_json(
        {
            "photos": found.photos,
            "against": found.against,
            "unread": found.unread,
            "leaks": [dict(zip(heads, pair, strict=True)) for pair in pairs],
        }
    )
    terminal.print_table(heads, [(a, b, f"{value:.2f}") for a, b, value in pairs[:_TOP]])
    terminal.say(f"{len(pairs):,} of {found.photos:,} photos are like one of {found.against:,}")
    if found.unread:
        terminal.note(f"note: not read: {len(found.unread):,}, such as {next(iter(found.unread))}")
    return terminal.Exit.MISSING if pairs else terminal.Exit.OK


def open_set(
    name: str, path: Path | None, values: list[str] | None, limit: int | None = None
) -> Dataset:
    """Open the data set that NAME, ``--path`` and ``--set`` of a command select."""
    from scenewright.evals.datasets.base import DatasetSpec
    from scenewright.evals.datasets.registry import open_dataset

    chosen: dict[str, Any] = {}
    for key, text in options.named_values(
        "--set", values or (), "OPTION=VALUE", "split=test"
    ).items():
        try:
            chosen[key] = json.loads(text)
        except ValueError:
            chosen[key] = text
    place = None if path is None else str(path)
    return open_dataset(DatasetSpec(name=name, path=place, options=chosen, limit=limit))


_TOP = 10
_MOST_CLASSES = 30
_MOST_FACTS = 12


def item_block(item: Item) -> Iterator[Text]:
    """Yield the lines that show ``item``."""
    from scenewright.core.referring import noun_phrase

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


def statistics_tables(found: Statistics) -> Iterator[tuple[Sequence[str], Sequence[Sequence[str]]]]:
    """Yield heads and rows: the paper's Table 1, sizes, levels, vocabulary and classes."""
    from scenewright.evals.datasets.statistics import LEVELS, commonest, mean

    head = found.table1()
    yield tuple(head), [tuple(head.values())]
    rows = [
        ("with a prompt", f"{found.prompts:,}", "", ""),
        ("with a scene", f"{found.scenes:,}", "", ""),
    ]
    if found.scenes:
        sizes = (found.objects, found.relations, found.attributes)
        for what, counts in zip(("objects", "relations", "attributes"), sizes, strict=True):
            total = sum(size * n for size, n in counts.items())
            rows.append((f"  {what}", f"{total:,}", f"{mean(counts) or 0:.2f}", f"{max(counts):,}"))
    rows.append(("with questions of its own", f"{found.asked:,}", "", ""))
    rows += [(f"  of {kind}s", f"{n:,}", "", "") for kind, n in sorted(found.facts.items())]
    rows.append(("with a photo here", f"{found.images:,}", "", ""))
    rows += [("  boxes", f"{found.boxes:,}", "", "")] if found.boxes else []
    yield ("items", "count", "mean of a scene", "most"), rows
    if found.scenes:
        yield (
            ("level", "relations", "scenes", "share"),
            [
                (level, span, f"{found.levels[level]:,}",
                 f"{found.levels[level] / found.scenes:.1%}")
                for level, span in zip(LEVELS, ("0 to 3", "4 to 7", "8 or more"), strict=True)
            ],
        )  # fmt: skip
    if found.names or found.predicates:
        values = [(f"{key}: {value}", n) for (key, value), n in commonest(found.values, _TOP)]
        columns = {
            f"objects ({len(found.names):,})": commonest(found.names, _TOP),
            f"relations ({len(found.predicates):,})": commonest(found.predicates, _TOP),
            f"attributes ({len(found.values):,})": values,
        }
        cells = [[f"{name} {n:,}" for name, n in entries] for entries in columns.values()]
        yield tuple(columns), list(itertools.zip_longest(*cells, fillvalue=""))
    if any(group or category for group, category in found.classes):
        ordered = sorted(found.classes.items(), key=lambda one: (one[0][0], -one[1], one[0]))
        yield (
            ("group", "category", "items"),
            [(group, category, f"{n:,}") for (group, category), n in ordered[:_MOST_CLASSES]],
        )


ASK_ABOVE = 100_000_000
"""Bytes above which the command asks first."""
_AGAIN = "Fetched files stay: the same command goes on from there."


@app.command()
@resumable(_AGAIN)
def get(
    name: Annotated[str, typer.Argument()] = "",
    out: options.OptionalOut = None,
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
    from scenewright.evals.datasets.base import default_place, sources
    from scenewright.evals.datasets.downloads import RECORD, check_disk, download, plan_of
    from scenewright.providers.hub.needs import size_words

    if not name:
        terminal.print_if_json(
            {
                title: terminal.fields_of(
                    source,
                    "about",
                    "page",
                    "licence",
                    folder=default_place(title),
                    files=[file.name for file in source.files],
                )
                for title, source in sources().items()
            }
        )
        width = max(map(len, sources()))
        for title, source in sources().items():
            terminal.say(Text.assemble((title.ljust(width), "bold"), "  ", source.about))
            terminal.say(f"{' ' * width}  {source.licence}", "dim")
        terminal.say("fetch one with `scenewright data get NAME`")
        return
    with show_status("asking for sizes"):
        plan = plan_of(name, out, only or ())
    source = plan.source
    terminal.say(f"{plan.name}: {source.about}", "bold")
    terminal.say(f"licence: {source.licence}; {source.page}")
    if source.note:
        terminal.say(source.note)
    terminal.print_table(
        ("file", "contents", "size", "here", "digest"),
        [
            (
                one.file.name,
                one.file.about,
                size_words(one.size),
                size_words(one.here) if one.here else "",
                "known" if one.file.sha256 else "of the first download",
            )
            for one in plan.files
        ],
    )
    chosen = {wanted.file.name for wanted in plan.files}
    if extra := [file.name for file in source.files if file.extra and file.name not in chosen]:
        terminal.say(f"extras (--only): {', '.join(extra)}", "dim")
    more = ", and files of unknown size" if plan.open_sizes else ""
    terminal.say(f"{size_words(plan.rest)}{more} to fetch into {plan.folder}")
    if dry_run:
        terminal.print_if_json(_report(plan, None))
        return
    check_disk(plan)
    if plan.rest > ASK_ABOVE and not yes:
        confirm_transfer(plan.rest, as_json)
    size = sum(wanted.size or 0 for wanted in plan.files)
    with show_transfer(*((None, None) if plan.open_sizes else (plan.rest, size))) as watch:
        done = download(plan, watch)
    terminal.print_if_json(_report(plan, done))
    count = len(done.fetched) + len(done.checked)
    are = "file is here and as it" if count == 1 else "files are here and as they"
    terminal.say(f"{count} {are} should be ({len(done.fetched)} fetched).")
    if done.first:
        terminal.say(
            f"No digest is known for {', '.join(done.first)}: that of this download is recorded "
            f"and compared from now on ({plan.folder / RECORD})."
        )


def _report(plan: Plan, done: Done | None) -> dict[str, Any]:
    return {
        **terminal.fields_of(plan, "name", "folder", bytes_to_fetch=plan.rest),
        **terminal.fields_of(plan.source, "licence", "page"),
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
