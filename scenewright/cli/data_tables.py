"""Sets, items and statistics as tables for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from scenewright.cli.tables import plain_table

if TYPE_CHECKING:
    from scenewright.evals.datasets.base import Item
    from scenewright.evals.datasets.statistics import Statistics

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
