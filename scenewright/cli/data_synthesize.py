"""``scenewright data synthesize`` and ``classify``: prompts like those of PSG-Bench.

Args:
    chat (ACCOUNT:MODEL): Language model, such as openai:gpt-6-luna; default: rules, offline.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scenewright.cli import console as terminal
from scenewright.cli import options
from scenewright.cli.app import resumable
from scenewright.cli.costs import agree_to_calls
from scenewright.cli.progress import show_progress

if TYPE_CHECKING:
    from scenewright.evals.annotation.panel_queries import TextModel
    from scenewright.evals.datasets.psg_prompts.rows import PromptStatistics


@resumable("the same command goes on: rows that are there are kept")
def synthesize(
    out: Path,
    n: Annotated[int, typer.Option("-n", min=1)] = 200,
    templates: str | None = None,
    challenges: str | None = None,
    names: str = "both",
    contrastive: bool = True,
    seed: options.Seed = 0,
    chat: str | None = None,
    retry: options.Retry = False,
    limit_usd: options.LimitUsd = 5.0,
    yes: options.Yes = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> terminal.Exit:
    """Make prompts with scene graphs like those of PSG-Bench: templates × challenges.

    Templates are GenEval's six tasks as scene graphs (single_object, two_object, counting, colors,
    position, color_attr), action and attribute. A text by --chat is checked for every fact,
    requested once more with the lost facts, and worded by rules where that fails; its row says so.
    The same command continues an interrupted one: existing rows are kept.

    Examples of use:

      scenewright data synthesize prompts.jsonl -n 200 --names coco

      scenewright data synthesize prompts.jsonl --chat openai:gpt-6-luna

      scenewright data synthesize painted.jsonl -n 60 --names miniature

    Exit codes: 0 made; 1 made, but rules stand in for the model in some rows; 2 wrong input;
    3 could not run; 130 interrupted.

    Args:
        out (OUT.jsonl): File of the prompts; the set psg-bench reads it.
        n: How many prompts.
        templates (NAME,…): Templates, such as counting,position,action; default: all.
        challenges (NAME,…): Challenges, such as IMAGINATION,QUANTITY,NONE; default: all.
        names: Class names: coco, ade20k, both, paper or miniature.
        contrastive: Draw left, right, top and bottom in pairs with swapped nouns.
    """
    from scenewright.evals.annotation import psg_making as making
    from scenewright.evals.datasets.psg_prompts.rows import statistics_of
    from scenewright.evals.datasets.psg_prompts.templates import DrawSpec

    chosen = options.without_none(templates=templates, challenges=challenges)
    chosen = {field: terminal.split_list(given) for field, given in chosen.items()}
    spec = DrawSpec(names=names, contrastive=contrastive, seed=seed, **chosen)
    model = _model(chat)
    file = making.RowFile(out)
    work = making.plan(spec, n, file, model, retry)
    if not quiet:
        kept = f", {len(work.kept):,} are there" if work.kept else ""
        terminal.note(f"{len(work.lacking):,} prompts to be written{kept}")
    if model is not None and work.expected.calls:
        agree_to_calls(model.name, work.expected, limit_usd, yes, quiet)
    with show_progress("writing", quiet, lines=False) as show:
        made = terminal.run_and_free(making.synthesize(work, spec, file, model, show))
    found = statistics_of(made)
    by_rules = (item for item in made if item.meta.get("author") == "rules")
    failed = [item for item in by_rules if "problem" in item.meta]
    terminal.print_if_json({"file": out, "stand_ins": len(failed), **found.as_json()})
    _print_statistics(found)
    terminal.say(f'wrote {out}: name = "psg-bench", path = "{out}"')
    if failed:
        text = f"{len(failed)} texts by rules in place of the model (--retry asks again); first"
        terminal.note(f"note: {text}: {failed[0].meta['problem']}")
    return terminal.Exit.MISSING if failed else terminal.Exit.OK


@resumable("the same command goes on: what is classified is kept")
def classify(
    file: Path,
    out: options.OptionalOut = None,
    chat: str | None = None,
    limit_usd: options.LimitUsd = 5.0,
    yes: options.Yes = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> terminal.Exit:
    """Classify prompts into the categories and challenges of PSG-Bench's Table 6.

    With --chat several prompts a call, and the paper's precedence applied to the answers (PEOPLE
    first; a proper noun is WORLD KNOWLEDGE, not ARTS); otherwise by rules, which match words only.
    Classes are group and category of the rows of OUT. The same command again asks only for prompts
    without a class.

    Exit codes: 0 classified; 1 some prompts are not; 2 wrong input; 3 could not run.

    Args:
        file: Prompts: JSON lines, CSV, TSV or parquet with a column prompt.
        out (OUT.jsonl): Default: FILE with .classified.jsonl as its ending.
    """
    from scenewright.evals.annotation import psg_making as making
    from scenewright.evals.datasets.psg_prompts.rows import statistics_of
    from scenewright.evals.datasets.tables import load_table

    model = _model(chat)
    items = list(load_table(file))
    kept_in = making.RowFile(out if out is not None else file.with_suffix(".classified.jsonl"))
    if kept_in.path.absolute() == file.absolute():
        raise terminal.fail(f"{file} is the input: name another file with --out")
    kept = kept_in.read()
    lacking, expected = making.unclassified(items, kept, model)
    if not quiet:
        terminal.note(f"{len(lacking):,} of {len(items):,} prompts to be classified")
    if model is not None and expected.calls:
        agree_to_calls(model.name, expected, limit_usd, yes, quiet)
    with show_progress("classifying", quiet, lines=False) as show:
        done = terminal.run_and_free(
            making.classify_items(items, lacking, kept, kept_in, model, show)
        )
    found = statistics_of(done)
    open_ = [item for item in done if not item.group]
    terminal.print_if_json({"file": kept_in.path, **found.as_json()})
    _print_statistics(found)
    terminal.say(f"wrote {kept_in.path}")
    if open_:
        first, why = open_[0].id, open_[0].meta.get("class_note", "")
        terminal.note(f"note: {len(open_)} prompts are not classified; the first: {first}: {why}")
    return terminal.Exit.MISSING if open_ else terminal.Exit.OK


def _model(spec: str | None) -> TextModel | None:
    if spec is None:
        return None
    from scenewright.config.profiles import CHAT_KINDS, JUDGE_KINDS, split_judge
    from scenewright.evals.annotation.panel_queries import text_model_of

    if split_judge(spec)[0] in (*CHAT_KINDS, *JUDGE_KINDS):
        raise terminal.fail(
            f"--chat {spec} is not a model of an account: name ACCOUNT:MODEL, such as "
            "openai:gpt-6-luna"
        )
    return text_model_of(spec)


def _print_statistics(found: PromptStatistics) -> None:
    """Print classes with the paper's counts, templates, and means of a prompt."""
    from scenewright.agents.parsers.classes import CHALLENGES, PROMPT_CATEGORIES
    from scenewright.evals.datasets.psg_prompts.rows import PAPER, PAPER_SOURCE

    both = ("WORLD KNOWLEDGE", "ABSTRACT")
    for head, known, counts in (
        ("category", PROMPT_CATEGORIES, found.of_class(0)),
        ("challenge", CHALLENGES, found.of_class(1)),
    ):
        paper = {name: f"{n:,}" + ("*" if name in both else "") for name, n in PAPER.items()}
        rows = [(name, f"{counts[name]:,}", paper.get(name, "–")) for name in known]
        terminal.print_table((head, "here", f"paper ({PAPER_SOURCE})"), rows)
        terminal.say("")
    terminal.say("* the paper prints one number for category and challenge together", "dim")
    kinds = {
        f"{first} ({second})" if first != second else first: count
        for (first, second), count in sorted(found.levels_of_facts().items())
    }
    means = found.as_json()["per_prompt"]
    prompt = ", ".join(f"{value or 0.0:.2f} {what}" for what, value in means.items())
    authors = found.told["author"]
    lines = {
        "templates": _counted(found.told["template"]),
        "a prompt": prompt if found.scenes else "",
        "facts": _counted(kinds) if found.scenes else "",
        "pairs": f"{found.pairs:,}" if found.pairs else "",
        "authors": _counted(dict(sorted(authors.items()))) if set(authors) - {"rules"} else "",
    }
    for label, text in lines.items():
        if text:
            terminal.say(f"{label:<11}{text}")


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())
