"""The counts of a set of prompts as tables for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console

    from scenewright.evals.datasets.psg_prompts.statistics import PromptStatistics


def print_statistics(found: PromptStatistics, where: Console) -> None:
    """Classes beside the paper's counts, templates, and what a prompt holds."""
    from scenewright.agents.parsers.prompt_classes import CATEGORIES, CHALLENGES
    from scenewright.cli.tables import plain_table
    from scenewright.evals.datasets.psg_prompts.statistics import PAPER, PAPER_SOURCE

    both = ("WORLD KNOWLEDGE", "ABSTRACT")
    for head, known, counts in (
        ("category", CATEGORIES, found.categories),
        ("challenge", CHALLENGES, found.challenges),
    ):
        table = plain_table(head, "here", f"paper ({PAPER_SOURCE})")
        for name in known:
            paper = f"{PAPER[name]:,}" + ("*" if name in both else "") if name in PAPER else "–"
            table.add_row(name, f"{counts[name]:,}", paper)
        where.print(table)
        where.print()
    where.print(Text("* the paper prints one number for category and challenge together", "dim"))
    if found.templates:
        said = ", ".join(f"{name} {count:,}" for name, count in found.templates.items())
        where.print(Text(f"templates  {said}"), soft_wrap=True)
    if found.scenes:
        means = ", ".join(
            f"{(found.mean(count) or 0.0):.2f} {what}"
            for what, count in (
                ("objects", found.objects),
                ("attributes", found.attributes),
                ("relations", found.relations),
            )
        )
        where.print(Text(f"a prompt   {means}"), soft_wrap=True)
        kinds = ", ".join(
            f"{first} ({second}) {count:,}" if first != second else f"{first} {count:,}"
            for (first, second), count in sorted(found.facts.items())
        )
        where.print(Text(f"facts      {kinds}"), soft_wrap=True)
    if found.pairs:
        where.print(Text(f"pairs      {found.pairs:,}"))
    if set(found.authors) - {"rules"}:
        said = ", ".join(f"{name} {count:,}" for name, count in sorted(found.authors.items()))
        where.print(Text(f"authors    {said}"), soft_wrap=True)
