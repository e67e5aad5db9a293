"""``scenewright data synthesize`` and ``classify``: prompts in the manner of PSG-Bench."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from scenewright.cli.console import (
    Exit,
    clear_errors,
    console,
    fail,
    plain_table,
    print_json,
    quiet_libraries,
)
from scenewright.cli.costs import agree
from scenewright.cli.judges_asking import run_and_free
from scenewright.cli.options import JsonOption, QuietOption, YesOption
from scenewright.cli.progress import show_progress

if TYPE_CHECKING:
    from rich.console import Console

    from scenewright.evals.annotation.voters import TextModel
    from scenewright.evals.datasets.base import Item
    from scenewright.evals.datasets.psg_prompts.statistics import PromptStatistics
    from scenewright.providers.usage import ExpectedUsage

OnProgress = Callable[[int, int], None]

ChatOption = Annotated[
    str | None,
    typer.Option(
        "--chat",
        metavar="ACCOUNT:MODEL",
        help="Language model, such as openai:gpt-6-luna; default: rules, offline.",
        show_default=False,
    ),
]
LimitOption = Annotated[
    float, typer.Option("--limit-usd", min=0.0, help="Ask above so many dollars.")
]


def synthesize(
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT.jsonl", help="File of the prompts, which the set psg-bench reads."
        ),
    ],
    n: Annotated[int, typer.Option("-n", min=1, help="How many prompts.")] = 200,
    templates: Annotated[
        str | None,
        typer.Option(
            "--templates",
            metavar="NAME,…",
            help="Such as counting,position,action; default: all.",
            show_default=False,
        ),
    ] = None,
    challenges: Annotated[
        str | None,
        typer.Option(
            "--challenges",
            metavar="NAME,…",
            help="Such as IMAGINATION,QUANTITY,NONE; default: all.",
            show_default=False,
        ),
    ] = None,
    names: Annotated[
        str,
        typer.Option("--names", help="Class names: coco, ade20k, both, paper or miniature."),
    ] = "both",
    contrastive: Annotated[
        bool,
        typer.Option(
            "--contrastive/--no-contrastive",
            help="Left, right, top and bottom in pairs with swapped nouns.",
        ),
    ] = True,
    seed: Annotated[int, typer.Option("--seed", "-s", min=0, help="Of the draw.")] = 0,
    chat: ChatOption = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Ask again where rules stood in for the model.")
    ] = False,
    limit_usd: LimitOption = 5.0,
    yes: YesOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make prompts with scene graphs in the manner of PSG-Bench: templates × challenges.

    Templates are GenEval's six tasks as scene graphs (single_object, two_object, counting, colors,
    position, color_attr), action and attribute. A text by --chat is checked for every fact, asked
    for once more with what was lost, and worded by rules where that fails; its row says so.
    Started again the command goes on: rows that are there are kept.

    Examples:

      scenewright data synthesize prompts.jsonl -n 200 --names coco

      scenewright data synthesize prompts.jsonl --chat openai:gpt-6-luna

      scenewright data synthesize painted.jsonl -n 60 --names miniature

    Exit codes: 0 made; 1 made, but rules stand in for the model in some rows; 2 wrong input;
    3 could not run; 130 interrupted.
    """
    quiet_libraries()
    with clear_errors("the same command goes on: rows that are there are kept"):
        from scenewright.evals.annotation import psg_making as making
        from scenewright.evals.datasets.psg_prompts.rows import RowFile
        from scenewright.evals.datasets.psg_prompts.statistics import statistics_of
        from scenewright.evals.datasets.psg_prompts.templates import DrawSpec

        chosen: dict[str, Any] = {}
        for field, given in (("templates", templates), ("challenges", challenges)):
            if given is not None:
                chosen[field] = tuple(part.strip() for part in given.split(",") if part.strip())
        spec = DrawSpec(names=names, contrastive=contrastive, seed=seed, **chosen)
        model = _model(chat)
        file = RowFile(out)
        work = making.plan(spec, n, file, model, retry)
        where = console(stderr=True)
        if not quiet:
            kept = f", {len(work.kept):,} are there" if work.kept else ""
            where.print(Text(f"{len(work.lacking):,} prompts to be written{kept}"))
        _costs(work.expected, model, limit_usd, yes, None if quiet else where)
        with show_progress(where, "writing", quiet, lines=False) as told:
            made = run_and_free(making.synthesize(work, spec, file, model, told))
        found = statistics_of(made)
        failed = [item for item in made if "problem" in item.meta and _by_rules(item)]
        if as_json:
            print_json({"file": str(out), "stand_ins": len(failed), **found.as_json()})
        else:
            print_statistics(found, console())
            console().print(Text(f'wrote {out}: name = "psg-bench", path = "{out}"'),
                            soft_wrap=True)  # fmt: skip
        if failed:
            text = f"{len(failed)} texts by rules in place of the model (--retry asks again); first"
            where.print(Text(f"note: {text}: {failed[0].meta['problem']}"), soft_wrap=True)
            raise typer.Exit(int(Exit.MISSING))


def classify(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Prompts: JSON lines, CSV, TSV or parquet with a column prompt."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="OUT.jsonl",
            help="Default: FILE with .classified.jsonl as its ending.",
            show_default=False,
        ),
    ] = None,
    chat: ChatOption = None,
    limit_usd: LimitOption = 5.0,
    yes: YesOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Classify prompts into the categories and challenges of PSG-Bench's Table 6.

    By --chat several prompts a call, with the paper's precedence applied to its answers (PEOPLE
    first; a proper noun is WORLD KNOWLEDGE, not ARTS); else by rules, which know words and no
    meaning. Classes are group and category of the rows of OUT. Started again it asks only for what
    has no class yet.

    Exit codes: 0 classified; 1 some prompts are not; 2 wrong input; 3 could not run.
    """
    quiet_libraries()
    with clear_errors("the same command goes on: what is classified is kept"):
        from scenewright.evals.annotation import psg_making as making
        from scenewright.evals.datasets.psg_prompts.rows import RowFile
        from scenewright.evals.datasets.psg_prompts.statistics import statistics_of
        from scenewright.evals.datasets.table import load

        model = _model(chat)
        items = list(load(file))
        kept_in = RowFile(out if out is not None else file.with_suffix(".classified.jsonl"))
        if kept_in.path.absolute() == file.absolute():
            raise fail(f"{file} is what is read: name another file with --out", Exit.USAGE)
        kept = kept_in.read()
        lacking, expected = making.unclassified(items, kept, model)
        where = console(stderr=True)
        if not quiet:
            where.print(Text(f"{len(lacking):,} of {len(items):,} prompts to be classified"))
        _costs(expected, model, limit_usd, yes, None if quiet else where)
        with show_progress(where, "classifying", quiet, lines=False) as told:
            done = run_and_free(making.classify_items(items, lacking, kept, kept_in, model, told))
        found = statistics_of(done)
        open_ = [item for item in done if not item.group]
        if as_json:
            print_json({"file": str(kept_in.path), **found.as_json()})
        else:
            print_statistics(found, console())
            console().print(Text(f"wrote {kept_in.path}"), soft_wrap=True)
        if open_:
            note = f"{len(open_)} prompts are not classified; the first: {open_[0].id}"
            why = open_[0].meta.get("class_note", "")
            where.print(Text(f"note: {note}: {why}"), soft_wrap=True)
            raise typer.Exit(int(Exit.MISSING))


def _by_rules(item: Item) -> bool:
    return item.meta.get("author") == "rules"


def _model(spec: str | None) -> TextModel | None:
    if spec is None:
        return None
    from scenewright.config.settings import CHAT_KINDS, JUDGE_KINDS, split_judge
    from scenewright.evals.annotation.voters import text_model_of

    if split_judge(spec)[0] in (*CHAT_KINDS, *JUDGE_KINDS):
        raise fail(
            f"--chat {spec} is no model of an account: name ACCOUNT:MODEL, such as "
            "openai:gpt-6-luna",
            Exit.USAGE,
        )
    return text_model_of(spec)


def _costs(
    expected: ExpectedUsage, model: TextModel | None, limit: float, yes: bool, where: Console | None
) -> None:
    """Say what the calls may cost, and ask above the limit."""
    if model is None or not expected.calls:
        return
    from scenewright.evals.reporting.words import dollars

    usd = "of unknown price" if expected.usd is None else dollars(expected.usd)
    used = expected.usage
    if where is not None:
        where.print(
            Text(
                f"{model.name}: {expected.calls:,} calls, about {used.tokens_in:,} tokens in and "
                f"{used.tokens_out:,} out, {usd}"
            ),
            soft_wrap=True,
        )
    agree(expected.usd or 0.0, limit, yes, "raise --limit-usd")


def print_statistics(found: PromptStatistics, where: Console) -> None:
    """Classes beside the paper's counts, templates, and what a prompt holds."""
    from scenewright.agents.parsers.classes import CHALLENGES, PROMPT_CATEGORIES
    from scenewright.evals.datasets.psg_prompts.statistics import PAPER, PAPER_SOURCE

    both = ("WORLD KNOWLEDGE", "ABSTRACT")
    for head, known, counts in (
        ("category", PROMPT_CATEGORIES, found.categories),
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
