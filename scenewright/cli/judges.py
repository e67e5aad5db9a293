"""``scenewright judges``: how good judges are, and the calibration of their panels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from scenewright.cli.console import (
    Exit,
    clear_errors,
    console,
    describe,
    fail,
    plain_table,
    print_json,
    quiet_libraries,
)
from scenewright.cli.judges_asking import (
    embedded,
    how_to_go_on,
    prepare,
    profile_of,
    run,
    run_and_free,
    split,
    store_of,
    wanted_cascades,
)
from scenewright.cli.options import JsonOption, QuietOption
from scenewright.cli.refine import ProfileOption

if TYPE_CHECKING:
    from scenewright.agents.panel.calibration import Calibration
    from scenewright.agents.panel.guarantee import CascadeGuarantee
    from scenewright.config.accounts import AccountSpec
    from scenewright.core.ports.judge import Judge
    from scenewright.evals.judge_reports.judge_card import JudgeReport
    from scenewright.evals.statistics.figures import Figure

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
            pass

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
            pass

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
        pass

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
            table = plain_table(*heads)
            for column in table.columns:
                column.no_wrap = False
            for row in shown:
                table.add_row(*map(Text, row))
            console().print(table)
    raise typer.Exit(int(code))


def known_judges() -> list[dict[str, str]]:
    """The embedded judges, the kinds, the accounts, and the judges that profiles name."""
    from scenewright.agents.judges.decisions.models import deciding, host_of
    from scenewright.config.accounts import BUILT_IN_ACCOUNTS, DECISION_ACCOUNTS, DECISION_HOSTS
    from scenewright.config.settings import load_profiles, load_settings

    settings = load_settings()
    rows = [_row(spec, "comes with scenewright") for spec in embedded()]
    for profile in load_profiles(settings).values():
        known = {row["judge"] for row in rows}
        for spec in (*profile.judges, *profile.report_judges):
            if spec not in known:
                rows.append(_row(spec, f"in the profile {profile.name}"))
        for spec in (*profile.realism_judges, *profile.realism_report_judges):
            if spec not in known:
                rows.append(_row(spec, f"of realism, in the profile {profile.name}"))
    rows += [
        _row("local:MODEL", "a vision-language model: a folder, or a hub repository owner/name"),
        _row(
            "replay:FILE", "recorded answers, CSV or parquet; replay:FILE#JUDGE takes one of many"
        ),
        _row("olip:MODEL", "trained heads for the realism of objects: a folder or owner/name"),
        _row("decision:local/MODEL", "a vision-language model or a decision model, as local:MODEL"),
    ]
    for name, account in {**BUILT_IN_ACCOUNTS, **settings.accounts}.items():
        if account.provider not in DECISION_HOSTS:
            about = f"a model over the API of {account.provider}"
            rows.append(_row(f"{name}:MODEL", about, _note(account)))
    for name, account in {**BUILT_IN_ACCOUNTS, **DECISION_ACCOUNTS, **settings.accounts}.items():
        maker = account.decisions_of
        if maker in deciding():
            about = f"a decision model over the API of {maker}"
            if maker in DECISION_HOSTS:
                host = host_of(maker, account.host_settings)
                about = f"a decision model of {host.title} at {account.base_url or host.base_url}"
            rows.append(_row(f"decision:{name}/MODEL", about, _note(account)))
    return rows


def looked_at(specs: Sequence[str]) -> list[dict[str, Any]]:
    """What the judges of ``specs`` can do, or why they cannot be used; nothing is asked."""
    from scenewright.config.settings import load_settings
    from scenewright.runs.model_factory.profiles import judge_of

    settings = load_settings()

    async def look() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for spec in specs:
            try:
                judge = judge_of(spec, settings=settings)
                fingerprint = judge.fingerprint
            except Exception as error:
                rows.append({"judge": spec, "problem": describe(error)[0]})
                continue
            rows.append({"judge": judge.id, "fingerprint": fingerprint, "caps": _caps_words(judge)})
        return rows

    return run_and_free(look())


def _note(account: AccountSpec) -> str:
    from scenewright.config.accounts import OWN_HOSTS

    if account.key() is None:
        return f"set {' or '.join(account.key_variables)}"
    # Whether a server of one's own runs is not known without asking it.
    return "" if account.provider in OWN_HOSTS else "ready"


def _row(judge: str, about: str, note: str = "") -> dict[str, str]:
    return {"judge": judge, "about": about, "note": note}


def _caps_words(judge: Judge) -> str:
    """What a judge can do, in words."""
    caps = judge.caps
    words = [
        f"probability by {caps.probability}",
        f"{caps.facts_per_call} facts a call",
        f"images up to {caps.max_side} px",
        "on this machine" if caps.local else "over the network",
    ]
    if caps.kinds is not None:
        words.insert(0, f"facts of {', '.join(sorted(caps.kinds))} only")
    if caps.vocabulary is not None and caps.vocabulary.classes is not None:
        words.append(f"knows {len(caps.vocabulary.classes)} classes and leaves others unscored")
    if loading := getattr(judge, "loading", ""):
        words.append(loading)
    if caps.structured != "none":
        words.append(f"answers by {caps.structured}")
    if caps.sampling:
        words.append(f"takes {', '.join(caps.sampling)}")
    return "; ".join(words)


def print_report(report: JudgeReport, where: Console) -> None:
    """The tables of a report; the interval stands below its figure."""
    from scenewright.evals.judge_reports.card_sections import sections, summary

    where.print(Text(summary(report)), soft_wrap=True)
    where.print(Text("Below a figure: its 95 % interval, by bootstrap over pictures.", "dim"))
    for section in sections(report):
        where.print()
        where.print(Text(section.title, "bold"))
        if section.remark:
            where.print(Text(section.remark, "dim"))
        table = plain_table(*section.heads)
        for column in table.columns[1:]:
            # Reasons may be long; figures never are.
            column.no_wrap = len(section.heads) > 2
        for row in section.rows:
            table.add_row(*(Text(cell) if isinstance(cell, str) else _figure(cell) for cell in row))
        where.print(table)


def _figure(figure: Figure) -> Text:
    if figure.value is None:
        return Text("–", "dim")
    text = Text(f"{figure.value:.3f}")
    if figure.low is not None and figure.high is not None:
        text.append(f"\n{figure.low:.2f}–{figure.high:.2f}", "dim")
    return text


def print_calibration(calibration: Calibration, where: Console) -> None:
    """Rates of judges and panels by kind of fact."""
    table = plain_table(
        "judge", "facts", "true", "false", "sensitivity", "specificity", "T", "Brier", "ECE"
    )
    for judge in calibration.judges:
        for kind, rates in judge.kinds.items():
            table.add_row(
                judge.judge_id,
                kind,
                str(rates.n_true),
                str(rates.n_false),
                f"{rates.sensitivity:.3f}",
                f"{rates.specificity:.3f}",
                f"{rates.temperature:.2f}",
                _change(rates.brier, rates.brier_scaled),
                _change(rates.ece, rates.ece_scaled),
            )
    for panel in calibration.panels:
        for kind, found in panel.kinds.items():
            table.add_row(
                f"{' + '.join(panel.judges)} ({panel.aggregation})",
                kind,
                str(found.n_true),
                str(found.n_false),
                f"{found.sensitivity:.3f}",
                f"{found.specificity:.3f}",
            )
    where.print(table)
    where.print(
        Text("T: the temperature; Brier and ECE without it, then with it.", "dim"), soft_wrap=True
    )
    for cascade in calibration.cascades:
        _print_cascade(cascade, where)


def _print_cascade(cascade: CascadeGuarantee, where: Console) -> None:
    """The bounds of a cascade by side and kind."""
    where.print(
        Text(
            f"\n{' + '.join(cascade.first)} first: settles {cascade.coverage:.0%} of "
            f"{cascade.facts} facts; wrong in at most {cascade.risk:g} of each row with "
            f"{cascade.confidence:.0%} confidence"
        ),
        soft_wrap=True,
    )
    table = plain_table("kinds", "accepted", "verdicts", "wrong", "at most", "surer than")
    for found in cascade.kinds:
        table.add_row(
            ", ".join(found.kinds),
            str(found.accepted),
            str(found.n),
            str(found.wrong),
            f"{found.at_most:.3f}" if found.accepted else "–",
            "never: too little could be shown" if found.level is None else f"{found.level:g}",
        )
    where.print(table)


def _change(before: float | None, after: float | None) -> str:
    if before is None or after is None:
        return "–"
    return f"{before:.3f}, {after:.3f}"
