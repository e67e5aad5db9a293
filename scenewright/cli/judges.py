"""``scenewright judges``: report cards of judges, and the calibration of their panels.

Args:
    labels: Your own labelled facts (CSV or parquet) instead of painted scenes. Columns: image,
        holds (1 or 0), and question (with options a|b|c and expected) or subject (with value, or
        with predicate and target); also kind, group and fact_id.
    store: File of answers; by default in --out, or else in your settings folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scenewright.cli import console as terminal
from scenewright.cli import options
from scenewright.cli.app import App, resumable
from scenewright.cli.options import answers_file, judges_or_profile
from scenewright.cli.progress import show_progress

if TYPE_CHECKING:
    from scenewright.agents.panel.rates import Calibration
    from scenewright.config.accounts import AccountSpec
    from scenewright.config.profiles import CascadeSpec, Profile
    from scenewright.config.settings import Settings
    from scenewright.evals.judge_reports.judge_runs import JudgeRun, VariantPlan
    from scenewright.evals.judge_reports.labelled_facts import LabelledFact

app = App(help="Measure judges on facts whose truth is known: report card and calibration.")
EMBEDDED = "local:miniature/"


@app.command()
@resumable(lambda options: continuation_hint(answers_file(options["store"], options["out"])))
def report(
    judges: options.Judges = None,
    profile: options.ProfileName = None,
    scenes: options.OptionalPositive = None,
    labels: Path | None = None,
    seed: options.Seed = 0,
    out: options.OptionalOut = None,
    store: Path | None = None,
    quick: bool = False,
    plain: bool = False,
    cascade_first: str | None = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> terminal.Exit:
    """Make a report card for each judge.

    It has rates of yes and of right answers, false premises, consistency under other orders of the
    options and other wordings, position bias, agreement, cost and latency, all with 95 %
    intervals. Without --labels the facts are those of painted scenes of the miniature world, whose
    truth is exact.

    Answers are kept: the same command goes on where it was stopped.

    Examples of use:

      scenewright judges report --quick

      scenewright judges report -j local:miniature/judge-a,local:miniature/judge-weak --out card

      scenewright judges report -j openai:gpt-6-luna,replay:answers.csv --labels labels.csv

      scenewright judges report --profile mine --cascade-first local:miniature/judge-weak

    Exit codes: 0 the report is made; 2 wrong input; 3 could not run; 4 nothing could be judged;
    130 interrupted.

    Args:
        scenes: Painted scenes; default 20, or 6 with --quick.
        out: Folder for report.json and report.md.
        quick: Fewer scenes and fewer variants of each question.
        plain: Ask each question once, without variants: nothing is measured on order, wording and
            position.
        cascade_first (JUDGE[,JUDGE…]): Also show what a cascade would save that asks these judges
            first, and the others only in doubt.
    """
    from scenewright.config.profiles import CascadeSpec
    from scenewright.evals.judge_reports.grading import Grading
    from scenewright.evals.judge_reports.judge_runs import PLAIN, VariantPlan

    variants = VariantPlan(turns=False, paraphrases=1) if quick else VariantPlan()
    task = read_task(
        judges, profile, labels, scenes or (6 if quick else 20), seed, answers_file(store, out)
    )
    first = terminal.split_list(cascade_first)
    if first and (set(first) - set(task.judges) or set(first) >= set(task.judges)):
        raise terminal.fail(
            f"--cascade-first names some of the judges ({', '.join(task.judges)}), not all"
        )
    judge_runs, ids = ask_judges(task, PLAIN if plain else variants, quiet)
    spec = CascadeSpec(first=tuple(ids[name] for name in first)) if first else None
    made = Grading(task.facts, seed).report(judge_runs, task.about, spec)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "report.json").write_text(made.model_dump_json(indent=2) + "\n", encoding="utf-8")
        about = f"{made.summary()} Intervals in brackets: 95 %, bootstrap over pictures."
        page = made.document("Judges", "Report card of judges", about).markdown()
        (out / "report.md").write_text(page, encoding="utf-8")
    terminal.print_if_json(made)
    for answer in made.answers:
        terminal.say(answer.sentence, "bold")
    terminal.say(made.summary())
    terminal.print_measured(made, "pictures")
    if out is not None:
        terminal.say(f"\nreport   {out / 'report.md'}")
    answered = any(row["facts"] for row in made.tables["quality"].rows)
    return terminal.Exit.OK if answered else terminal.Exit.UNJUDGED


@app.command()
@resumable(lambda options: continuation_hint(answers_file(options["store"])))
def calibrate(
    judges: options.Judges = None,
    profile: options.ProfileName = None,
    scenes: options.Positive = 60,
    labels: Path | None = None,
    seed: options.Seed = 0,
    out: options.Out = Path("calibration.json"),
    store: Path | None = None,
    cascade_first: str | None = None,
    risk: float = 0.05,
    confidence: float = 0.95,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> terminal.Exit:
    """Measure error rates and temperatures of judges, for a profile to use.

    Writes the file that a profile names as `calibration`: with it the aggregations `calibrated`
    and `stacked` work, and scores are corrected for the judges' errors. Only facts are counted
    that a run would ask: no attribute or relation of an object that is absent. With --profile the
    panels of the loop and of the report are measured, else each judge alone and all together.
    The bounds of a cascade are chosen so that what its first judges settle alone is wrong in at
    most the risk, for every kind of question that has enough facts.

    Examples of use:

      scenewright judges calibrate --profile miniature --out calibration.json

      scenewright judges calibrate -j local:miniature/judge-a,local:miniature/judge-b
      --cascade-first local:miniature/judge-a --risk 0.05 --scenes 200

      scenewright judges calibrate -j openai:gpt-6-luna --labels labels.csv

    Exit codes: 0 the calibration is written; 2 wrong input; 3 could not run; 130 interrupted.

    Args:
        scenes: Painted scenes.
        out: File of the calibration to write.
        cascade_first (JUDGE[,JUDGE…]): Also choose the bounds of a cascade that asks these judges
            first, for --risk; a profile whose cascade has a risk needs no option.
        risk: Largest share of wrong verdicts among those settled first.
        confidence: Probability that the bounds keep to the risk.
    """
    from scenewright.agents.panel.calibration import LabelledAnswer, calibrate
    from scenewright.agents.panel.panel import Panel
    from scenewright.config.profiles import CascadeSpec
    from scenewright.evals.judge_reports.judge_runs import PLAIN
    from scenewright.evals.judge_reports.labelled_facts import ABSENT

    if out.is_dir() or not out.absolute().parent.is_dir():
        raise terminal.fail(f"{out} cannot be written: name a file in a folder")
    task = read_task(
        judges, profile, labels, scenes, seed, answers_file(store),
        keep=lambda f: f.group != ABSENT or f.fact.kind == "object",
    )  # fmt: skip
    cascades: list[CascadeSpec] = []
    if task.profile is not None and (own := task.profile.cascade) is not None:
        cascades += [own] if own.risk is not None else []
    first = terminal.split_list(cascade_first)
    if set(first) - set(task.judges):
        raise terminal.fail(f"--cascade-first names some of the judges ({', '.join(task.judges)})")
    if first:
        values = {"first": first, "risk": risk, "confidence": confidence}
        cascades.append(options.validated(CascadeSpec, values, "--"))
    judge_runs, ids = ask_judges(task, PLAIN, quiet)
    panels = panel = None
    if task.profile is not None:
        groups = (task.profile.judges, task.profile.report_judges)
        panels = [[ids[spec] for spec in group] for group in groups if group]
        panel = Panel(task.profile.aggregation, task.profile.quorum)
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
    terminal.print_if_json(made)
    _print_calibration(made)
    terminal.say(f"\nwritten  {out}")
    terminal.say(f'use it   calibration = "{out}" in a profile')
    return terminal.Exit.OK


@app.command("list")
def list_judges(
    specs: Annotated[list[str] | None, typer.Argument()] = None,
    judges: options.Judges = None,
    as_json: options.Json = False,
) -> terminal.Exit:
    """List judges and their abilities.

    Without arguments all judges that can be named; of those named, whether they can be used here
    and what they can do.

    Examples of use:

      scenewright judges list

      scenewright judges list local:miniature/judge-a openai:gpt-6-luna

    Exit codes: 0 all of them can be used; 3 one cannot; 2 wrong input.

    Args:
        specs ([JUDGE]…): Judges to look at.
    """
    named = terminal.split_list([*(specs or ()), *(judges or ())])
    rows: Sequence[dict[str, Any]] = describe_judges(named) if named else known_judges()
    terminal.print_if_json({"judges": rows})
    if named:
        shown = [(r["judge"], r.get("problem", "yes"), r.get("caps", "")) for r in rows]
        terminal.print_table(("judge", "can be used", "abilities"), shown, wraps=True)
    else:
        shown = [(r["judge"], r["about"], r["note"]) for r in rows]
        terminal.print_table(("judge", "what it is", ""), shown, wraps=True)
    return terminal.Exit.FAILED if any("problem" in row for row in rows) else terminal.Exit.OK


@dataclass(frozen=True, slots=True)
class JudgeTask:
    """Questions to judges, and the file of the answers."""

    judges: tuple[str, ...]
    """Specs, each ``kind:model``."""
    facts: tuple[LabelledFact, ...]
    about: str
    """The facts in words."""
    settings: Settings
    profile: Profile | None
    """Profile of the judges; None where the judges are named."""
    store: Path


def read_task(
    judges: list[str] | None,
    profile: str | None,
    labels: Path | None,
    scenes: int,
    seed: int,
    store: Path,
    keep: Callable[[LabelledFact], bool] = lambda fact: True,
) -> JudgeTask:
    """Return the task of a command's options; ``keep`` chooses among the labelled facts."""
    from scenewright.config.settings import settings_with
    from scenewright.evals.judge_reports.labelled_facts import read_labels

    settings, chosen = judges_or_profile(judges, profile)
    specs = terminal.split_list(judges)
    if chosen is not None:
        settings = settings_with(chosen, settings) or settings
        specs = (*chosen.judges, *chosen.report_judges)
    twice = sorted({spec for spec in specs if specs.count(spec) > 1})
    if twice or not specs:
        raise terminal.fail(f"name each judge once, not {', '.join(twice) or 'none'}")
    known = embedded()
    for spec in specs:
        if spec.startswith(EMBEDDED) and spec not in known:
            raise terminal.fail(f"unknown judge {spec!r}: use one of {', '.join(known)}")
    if labels is not None:
        facts = read_labels(labels)
        about = f"labels of {labels.name}"
    else:
        from scenewright.evals.judge_reports.synthetic_facts import synthetic_facts

        facts = synthetic_facts(scenes, seed)
        about = f"painted scenes of the miniature world, seed {seed}"
    kept = tuple(fact for fact in facts if keep(fact))
    if not kept:
        raise terminal.fail(
            "a run would ask none of the labelled facts: label objects, or facts about present ones"
        )
    store.parent.mkdir(parents=True, exist_ok=True)
    return JudgeTask(specs, kept, about, settings, chosen, store)


def ask_judges(
    task: JudgeTask, variants: VariantPlan, quiet: bool
) -> tuple[list[JudgeRun], dict[str, str]]:
    """Ask all judges; return their answers, and the id of each spec."""
    from scenewright.evals.judge_reports.judge_runs import count_questions, run_judges
    from scenewright.providers import AnswerStore
    from scenewright.runs.model_factory.profiles import build_panel

    async def ask() -> list[JudgeRun]:
        made = await build_panel(list(task.judges), settings=task.settings)
        totals = {j.id: count_questions(j, task.facts, variants) for j in made}
        done = dict.fromkeys(totals, 0)
        if not quiet:
            total = sum(totals.values())
            terminal.note(
                f"{total} questions to {len(made)} judges; answers are kept in {task.store}"
            )
        with (
            closing(AnswerStore(task.store)) as store,
            show_progress("asking", quiet, tenths=True) as show,
        ):

            def answered(judge: str, count: int) -> None:
                done[judge] += count
                each = "; ".join(
                    f"{one}: {done[one]} of {n} questions" for one, n in totals.items()
                )
                show(sum(done.values()), sum(totals.values()), more=each)

            return await run_judges(
                made, task.facts,
                store=store, plan=variants, limit=task.settings.judge_timeout, heard=answered,
            )  # fmt: skip

    judge_runs = terminal.run_and_free(ask())
    return judge_runs, dict(zip(task.judges, (i.judge_id for i in judge_runs), strict=True))


def continuation_hint(store: Path) -> str:
    """Return the hint after an interruption."""
    return f"Answers so far are kept in {store}: the same command goes on from there."


def embedded() -> list[str]:
    """Return the specs of the judges that ship with the package."""
    from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS

    folder = MINIATURE_WEIGHTS / "judges"
    return sorted(f"{EMBEDDED}{path.parent.name}" for path in folder.glob("*/config.json"))


def known_judges() -> list[dict[str, str]]:
    """Return the embedded judges, the kinds, the accounts, and the judges that profiles name."""
    from scenewright.agents.judges.decisions.models import deciding, host_of
    from scenewright.config import accounts
    from scenewright.config.settings import load_profiles, load_settings

    settings = load_settings()
    rows: list[dict[str, str]] = []

    def add(judge: str, about: str, account: AccountSpec | None = None) -> None:
        remark = ""
        if account is not None and account.key() is None:
            remark = f"set {' or '.join(account.key_variables)}"
        elif account is not None and account.provider not in accounts.OWN_HOSTS:
            # Whether a server of one's own runs is not known without asking it.
            remark = "ready"
        rows.append({"judge": judge, "about": about, "note": remark})

    for spec in embedded():
        add(spec, "ships with scenewright")
    for profile in load_profiles(settings).values():
        known = {row["judge"] for row in rows}
        realism = (*profile.realism_judges, *profile.realism_report_judges)
        for about, specs in (
            ("in the profile", (*profile.judges, *profile.report_judges)),
            ("for realism, in the profile", realism),
        ):
            for spec in specs:
                if spec not in known:
                    add(spec, f"{about} {profile.name}")
    add("local:MODEL", "a vision-language model: a folder, or a hub repository owner/name")
    add("replay:FILE", "recorded answers, CSV or parquet; replay:FILE#JUDGE takes one of many")
    add("olip:MODEL", "trained heads for the realism of objects: a folder or owner/name")
    add("decision:local/MODEL", "a vision-language model or a decision model, as local:MODEL")
    for name, account in {**accounts.BUILT_IN_ACCOUNTS, **settings.accounts}.items():
        if account.provider not in accounts.DECISION_HOSTS:
            add(f"{name}:MODEL", f"a model over the API of {account.provider}", account)
    hosts = {**accounts.BUILT_IN_ACCOUNTS, **accounts.DECISION_ACCOUNTS, **settings.accounts}
    for name, account in hosts.items():
        maker = account.decisions_of
        if maker in deciding():
            about = f"a decision model over the API of {maker}"
            if maker in accounts.DECISION_HOSTS:
                host = host_of(maker, account.host_settings)
                about = f"a decision model of {host.title} at {account.base_url or host.base_url}"
            add(f"decision:{name}/MODEL", about, account)
    return rows


def describe_judges(specs: Sequence[str]) -> list[dict[str, Any]]:
    """Return the abilities of the judges of ``specs``, or why they cannot be used.

    Nothing is asked.
    """
    from scenewright.config.settings import load_settings
    from scenewright.runs.model_factory.profiles import build_judge

    settings = load_settings()

    async def look() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for spec in specs:
            try:
                judge = build_judge(spec, settings=settings)
                fingerprint = judge.fingerprint
            except Exception as error:
                rows.append({"judge": spec, "problem": terminal.describe(error)[0]})
                continue
            caps = judge.caps
            classes = None if caps.vocabulary is None else caps.vocabulary.classes
            words = (
                caps.kinds is not None and f"facts of {', '.join(sorted(caps.kinds))} only",
                f"probability by {caps.probability}",
                f"{caps.facts_per_call} facts a call",
                f"images up to {caps.max_side} px",
                "on this machine" if caps.local else "over the network",
                classes is not None and f"knows {len(classes)} classes and leaves others unscored",
                getattr(judge, "loading", ""),
                caps.structured != "none" and f"answers by {caps.structured}",
                caps.sampling and f"takes {', '.join(caps.sampling)}",
            )
            abilities = "; ".join(str(each) for each in words if each)
            rows.append({"judge": judge.id, "fingerprint": fingerprint, "caps": abilities})
        return rows

    return terminal.run_and_free(look())


def _print_calibration(made: Calibration) -> None:
    terminal.print_table(
        ("judge", "facts", "true", "false", "sensitivity", "specificity", "T", "Brier", "ECE"),
        [
            *(
                (*_rate_cells(judge.judge_id, kind, rates), f"{rates.temperature:.2f}",
                 _change(rates.brier, rates.brier_scaled), _change(rates.ece, rates.ece_scaled))
                for judge in made.judges
                for kind, rates in judge.kinds.items()
            ),
            *(
                (*_rate_cells(f"{' + '.join(one.judges)} ({one.aggregation})", kind, found),
                 "", "", "")
                for one in made.panels
                for kind, found in one.kinds.items()
            ),
        ],
    )  # fmt: skip
    terminal.say("T: temperature; Brier score and ECE without it, then with it.", "dim")
    for cascade in made.cascades:
        terminal.say(
            f"\n{' + '.join(cascade.first)} first: settles {cascade.coverage:.0%} of "
            f"{cascade.facts} facts; wrong in at most {cascade.risk:g} of each row with "
            f"{cascade.confidence:.0%} confidence"
        )
        terminal.print_table(
            ("kinds", "accepted", "verdicts", "wrong", "at most", "surer than"),
            [
                (", ".join(found.kinds), str(found.accepted), str(found.n), str(found.wrong),
                 f"{found.at_most:.3f}" if found.accepted else "–",
                 "never: too few facts" if found.level is None else f"{found.level:g}")
                for found in cascade.kinds
            ],
        )  # fmt: skip


def _rate_cells(name: str, kind: str, rates: Any) -> tuple[str, ...]:
    counts = str(rates.n_true), str(rates.n_false)
    return name, kind, *counts, f"{rates.sensitivity:.3f}", f"{rates.specificity:.3f}"


def _change(before: float | None, after: float | None) -> str:
    return "–" if before is None or after is None else f"{before:.3f}, {after:.3f}"
