"""``scenewright judges``: how good judges are, and the calibration of their panels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from scenewright.cli.console import Exit, clear_errors, console, fail, print_json, quiet_libraries
from scenewright.cli.judges_task import (
    how_to_go_on,
    prepare,
    profile_of,
    run,
    split,
    store_of,
    wanted_cascades,
)
from scenewright.cli.refine import JsonOption, ProfileOption

app = typer.Typer(
    no_args_is_help=True,
    help="Measure judges on facts whose truth is known: a report card, a calibration.",
)

JudgesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--judges", "-j",
        metavar="JUDGE[,JUDGE…]",
        help="Which judges, as kind:model (`scenewright judges list`); can be given several times.",
        show_default=False,
    ),
]  # fmt: skip
LabelsOption = Annotated[
    Path | None,
    typer.Option(
        "--labels",
        help="Your own labelled facts (CSV or parquet) instead of painted scenes. Columns: image, "
        "holds (1 or 0), and question (with options a|b|c and expected) or subject (with value, "
        "or with predicate and target); also kind, group and fact_id.",
        show_default=False,
    ),
]
StoreOption = Annotated[
    Path | None,
    typer.Option(
        "--store",
        help="Where answers are kept; by default in --out, or else in your settings folder.",
        show_default=False,
    ),
]
SeedOption = Annotated[
    int, typer.Option("--seed", "-s", min=0, help="Of the painted scenes and the intervals.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]


@app.command()
def report(
    judges: JudgesOption = None,
    profile: ProfileOption = None,
    scenes: Annotated[
        int | None,
        typer.Option(
            "--scenes",
            min=1,
            help="Painted scenes; default 20, or 6 with --quick.",
            show_default=False,
        ),
    ] = None,
    labels: LabelsOption = None,
    seed: SeedOption = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Folder for report.json and report.md.", show_default=False
        ),
    ] = None,
    store: StoreOption = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer scenes and fewer variants of each question.")
    ] = False,
    plain: Annotated[
        bool,
        typer.Option(
            "--plain", help="Each question once, as it is: nothing on order, words and places."
        ),
    ] = False,
    cascade_first: Annotated[
        str | None,
        typer.Option(
            "--cascade-first",
            metavar="JUDGE[,JUDGE…]",
            show_default=False,
            help="Also: what asking these first and the others only in doubt would save.",
        ),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """A report card for each judge.

    Rates of yes and of right answers, false premises, consistency under other orders of the
    options and other words, position bias, agreement, cost and latency, all with 95 % intervals.
    Without --labels on painted scenes of the miniature world, whose truth is exact.

    Answers are kept: the same command again goes on where it was stopped.

    Examples:

      scenewright judges report --quick

      scenewright judges report -j local:miniature/judge-a,local:miniature/judge-weak --out card

      scenewright judges report -j openai:gpt-6-luna,replay:answers.csv --labels labels.csv

      scenewright judges report --profile mine --cascade-first local:miniature/judge-weak

    Exit codes: 0 the report is made; 2 wrong input; 3 could not run; 4 nothing could be judged;
    130 interrupted.
    """
    with clear_errors(how_to_go_on(store, out)):
        quiet_libraries()
        from scenewright.config.settings import CascadeSpec
        from scenewright.evals.judge_reports.grading import Grading
        from scenewright.evals.judge_reports.judge_runs import PLAIN, VariantPlan

        plan = (
            PLAIN if plain else VariantPlan(turns=False, paraphrases=1) if quick else VariantPlan()
        )
        task = prepare(
            judges, profile, labels, scenes or (6 if quick else 20), seed, store_of(store, out),
            plan, quiet,
        )  # fmt: skip
        first = split([cascade_first] if cascade_first else [])
        if first and (set(first) - set(task.judges) or set(first) >= set(task.judges)):
            raise fail(
                f"--cascade-first names some of the judges ({', '.join(task.judges)}), not all",
                Exit.USAGE,
            )
        judge_runs = run(task)
        ids = dict(zip(task.judges, (i.judge_id for i in judge_runs), strict=True))
        spec = CascadeSpec(first=tuple(ids[name] for name in first)) if first else None
        made = Grading(task.facts, seed).report(judge_runs, task.about, spec)
        if out is not None:
            from scenewright.evals.judge_reports.card_sections import markdown

            out.mkdir(parents=True, exist_ok=True)
            text = made.model_dump_json(indent=2) + "\n"
            (out / "report.json").write_text(text, encoding="utf-8")
            (out / "report.md").write_text(markdown(made), encoding="utf-8")
        if as_json:
            print_json(made.model_dump(mode="json"))
        else:
            from scenewright.cli.judges_show import print_report

            where = console()
            print_report(made, where)
            if out is not None:
                where.print(f"\nreport   {out / 'report.md'}", soft_wrap=True)
        answered = any(card.quality.n for card in made.cards)
    raise typer.Exit(int(Exit.OK if answered else Exit.UNJUDGED))


@app.command()
def calibrate(
    judges: JudgesOption = None,
    profile: ProfileOption = None,
    scenes: Annotated[int, typer.Option("--scenes", min=1, help="Painted scenes.")] = 60,
    labels: LabelsOption = None,
    seed: SeedOption = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="The calibration to write.")] = Path(
        "calibration.json"
    ),
    store: StoreOption = None,
    cascade_first: Annotated[
        str | None,
        typer.Option(
            "--cascade-first",
            metavar="JUDGE[,JUDGE…]",
            show_default=False,
            help="Also choose the bounds of a cascade that asks these first, for --risk; a profile "
            "whose cascade has a risk needs no option.",
        ),
    ] = None,
    risk: Annotated[
        float, typer.Option("--risk", help="Largest share of wrong verdicts that it may settle.")
    ] = 0.05,
    confidence: Annotated[
        float, typer.Option("--confidence", help="Chance that the bounds keep to the risk.")
    ] = 0.95,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Measure error rates and temperatures of judges, for a profile to use.

    Writes the file that a profile names as `calibration`: with it the aggregations `calibrated`
    and `stacked` work, and scores are corrected for the judges' errors. Only facts are counted
    that a run would ask: no attribute or relation of a thing that is absent. With --profile the
    panels of the loop and of the report are measured, else each judge alone and all together.
    The bounds of a cascade are chosen so that what its first judges settle alone is wrong in at
    most the risk, of every kind of question that has enough facts.

    Examples:

      scenewright judges calibrate --profile miniature --out calibration.json

      scenewright judges calibrate -j local:miniature/judge-a,local:miniature/judge-b
      --cascade-first local:miniature/judge-a --risk 0.05 --scenes 200

      scenewright judges calibrate -j openai:gpt-6-luna --labels labels.csv

    Exit codes: 0 the calibration is written; 2 wrong input; 3 could not run; 130 interrupted.
    """
    with clear_errors(how_to_go_on(store, None)):
        quiet_libraries()
        from scenewright.agents.panel.calibration import LabelledAnswer, calibrate
        from scenewright.agents.panel.panel import Panel
        from scenewright.evals.judge_reports.judge_runs import PLAIN
        from scenewright.evals.judge_reports.labelled_facts import ABSENT

        if out.is_dir() or not out.absolute().parent.is_dir():
            raise fail(f"{out} cannot be written: name a file in a folder", Exit.USAGE)
        task = prepare(
            judges, profile, labels, scenes, seed, store_of(store, None), PLAIN, quiet,
            keep=lambda f: f.group != ABSENT or f.fact.kind == "object",
        )  # fmt: skip
        chosen = None if judges else profile_of(profile, task.settings)
        cascades = wanted_cascades(task.judges, chosen, cascade_first, risk, confidence)
        judge_runs = run(task)
        ids = dict(zip(task.judges, (i.judge_id for i in judge_runs), strict=True))
        panels = panel = None
        if chosen is not None:
            groups = (chosen.judges, chosen.report_judges)
            panels = [[ids[spec] for spec in group] for group in groups if group]
            panel = Panel(chosen.aggregation, chosen.quorum)
        made = calibrate(
            [
                LabelledAnswer.of(known.picture.name, known.fact, row[0], known.holds)
                for judge_run in judge_runs
                for known, row in zip(task.facts, judge_run.answers, strict=True)
            ],
            judges={i.judge_id: i.fingerprint for i in judge_runs},
            about=task.about,
            panel=panel,
            panels=panels,
            cascades=[
                spec.model_copy(update={"first": tuple(ids[name] for name in spec.first)})
                for spec in cascades
            ],
        )
        made.save(out)
        if as_json:
            print_json(made.model_dump(mode="json"))
        else:
            from scenewright.cli.judges_show import print_calibration

            where = console()
            print_calibration(made, where)
            where.print(f"\nwritten  {out}", soft_wrap=True)
            where.print(f'use it   calibration = "{out}" in a profile', soft_wrap=True)
    raise typer.Exit(int(Exit.OK))


@app.command("list")
def list_judges(
    specs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[JUDGE]…", help="Judges to look at.", show_default=False),
    ] = None,
    judges: JudgesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Which judges there are; of those named, what they can do.

    Examples:

      scenewright judges list

      scenewright judges list local:miniature/judge-a openai:gpt-6-luna

    Exit codes: 0 all of them can be used; 3 one cannot; 2 wrong input.
    """
    with clear_errors():
        quiet_libraries()
        from scenewright.cli.judges_list import known_judges, looked_at

        code = Exit.OK
        named = split([*(specs or ()), *(judges or ())])
        if named:
            rows = looked_at(named)
            code = Exit.FAILED if any("problem" in row for row in rows) else Exit.OK
            heads: tuple[str, ...] = ("judge", "can be used", "what it can do")
            shown = [(r["judge"], r.get("problem", "yes"), r.get("caps", "")) for r in rows]
        else:
            rows = known_judges()
            heads = ("judge", "what it is", "")
            shown = [(r["judge"], r["about"], r["note"]) for r in rows]
        if as_json:
            print_json({"judges": rows})
        else:
            from scenewright.cli.tables import plain_table

            table = plain_table(*heads)
            for column in table.columns:
                column.no_wrap = False
            for row in shown:
                table.add_row(*map(Text, row))
            console().print(table)
    raise typer.Exit(int(code))
