"""``scenewright refine``, ``score`` and ``strategies``: a scene drawn, or an image checked.

Args:
    scene: A sentence ('a red ball on a table, and a dog left of it'), triplets ('red ball on table;
        dog left of table'), a file of any format (`scenewright parse --help`), or - for standard
        input.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from scenewright.cli import console as terminal
from scenewright.cli import options
from scenewright.cli.app import option_groups, resumable
from scenewright.cli.intents import ask_back, intent_lines, warn_of_reading, warn_unread
from scenewright.cli.options import chosen_profile
from scenewright.cli.run_options import run_options, takes_run_options
from scenewright.config import OnModelChange

if TYPE_CHECKING:
    from scenewright.config.options import SentenceReader
    from scenewright.config.profiles import Profile
    from scenewright.config.settings import Settings
    from scenewright.core.facts import ScoreCard
    from scenewright.core.scene import SceneGraph
    from scenewright.graphs.events import SentenceReading
    from scenewright.runs.plan import RunPlan
    from scenewright.runs.preview import RunPreview
    from scenewright.runs.reading import ReadScene, Sentence
    from scenewright.runs.record import RunRecord


def graph_or_sentence(
    source: str, index: int | None, profile: Profile, reader: SentenceReader | None
) -> SceneGraph | Sentence:
    """Return the graph of a command's argument, or the sentence for a language model to read.

    Standard input (``-``) is always the text itself, never the name of a file. A scene without
    objects ends the command.
    """
    from scenewright.agents.parsers.rules import parse_caption
    from scenewright.runs.reading import Sentence, reader_of
    from scenewright.runs.reading import graph_or_sentence as read

    who, is_text = reader_of(profile, reader), source == "-"
    found = read(sys.stdin.read() if is_text else source, who, index, is_text=is_text)
    if isinstance(found, Sentence) and who == "rules":
        found = parse_caption(found)
    if not found:
        raise terminal.fail("the scene has no objects: name at least one, for example 'red ball'")
    return found


def read_scene(source: str) -> SceneGraph:
    """Return the scene of a correction, read by the rules, with a warning of what was not read."""
    from scenewright.agents.parsers.rules import read_source

    found = read_source(source)
    warn_unread(found)
    return found


def read_argument(
    source: str, index: int | None, profile: Profile, settings: Settings, reader: str | None
) -> ReadScene:
    """Return the scene of a command's argument, read by the profile's parser or by ``reader``."""
    from scenewright.runs.reading import read_scene

    chosen = sentence_reader(reader)
    found = graph_or_sentence(source, index, profile, chosen)
    return terminal.run_async(read_scene(found, profile, settings, reader=chosen))


def sentence_reader(name: str | None) -> SentenceReader | None:
    """Return the parser of ``--with``; ``SettingsError`` for another name."""
    from scenewright.config.options import SentenceReader
    from scenewright.config.profiles import SettingsError

    readers: tuple[SentenceReader, ...] = get_args(SentenceReader)
    if name is None or name in readers:
        return next((one for one in readers if one == name), None)
    raise SettingsError(f"--with {name!r}: for a sentence use {' or '.join(readers)}")


def scene_line(scene: SceneGraph) -> str:
    """Return a scene as triplets on one line, shortened, with its size."""
    from scenewright.core.formats import dump_scene
    from scenewright.core.validation import cut_short

    words = "; ".join(dump_scene(scene.graph, "triplets").split("\n")).rstrip("; ")
    sizes = [(len(scene.objects), "object"), (len(scene.relations), "relation")]
    told = ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in sizes if count)
    return f"understood: {cut_short(words, 300)} ({told})"


def exit_code(card: ScoreCard | None) -> terminal.Exit:
    """Return the exit code for the score card of a kept candidate."""
    if card is None or card.fact_recall is None:
        return terminal.Exit.UNJUDGED
    return terminal.Exit.OK if card.satisfied else terminal.Exit.MISSING


def card_json(card: ScoreCard | None) -> dict[str, Any] | None:
    """Return the scores, recalls and soundness of a card, or None without one."""
    if card is None:
        return None
    from scenewright.core.facts import SOUNDNESS

    kinds, told = ("object", "attribute", "relation"), ("state", "probability", "reason")
    sound = {SOUNDNESS[v.fact_id]: terminal.fields_of(v, *told) for v in card.soundness}
    return {
        **terminal.fields_of(card, "sgscore", "fact_recall", "expected_recall"),
        **{f"{kind}_recall": getattr(card, f"{kind}s").value for kind in kinds},
        **terminal.fields_of(card, "satisfied", probability_methods=card.methods),
        **({"ocr": card.ocr} if card.realism.total else {}),
        **({"soundness": sound} if sound else {}),
    }


@resumable("The same command continues the run.")
@option_groups(
    Run="profile model start mask out fresh index show_plan ask on_model_change",
    Output="as_json quiet yes",
)
@takes_run_options()
def refine(
    context: typer.Context,
    scene: str,
    profile: options.ProfileName = None,
    model: Annotated[str | None, typer.Option("--model", "-m")] = None,
    start: Path | None = None,
    mask: Path | None = None,
    out: options.OptionalOut = None,
    index: int | None = None,
    fresh: bool = False,
    on_model_change: OnModelChange = "accept",
    show_plan: Annotated[bool, typer.Option("--plan")] = False,
    ask: bool = False,
    yes: options.Yes = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> terminal.Exit:
    """Draw SCENE, verify every fact, repair what is missing, and write a page of all rounds.

    The same command continues an interrupted run, or shows the finished one.

    Args:
        model: What draws: a profile's name, or a backend as openai:MODEL or
            diffusers:FOLDER_OR_OWNER/NAME with the judges of its kind.
        start: Picture to begin with instead of drawing one.
        mask: Mask of the size of --start: white where the picture may change.
        out: The run folder; by default one below runs/.
        fresh: Begin a new run instead of continuing this one.
        on_model_change: If a judge or the director is served by another version than before: accept
            it with a note, or stop with an error (what is done is kept).
        show_plan: Show the prompt, its tokens, the questions and the models; draw nothing.
        ask: Ask what is meant where the sentence can be read in several ways; needs a terminal.
    """
    from scenewright.config.profiles import DIRECTOR
    from scenewright.config.settings import profile_drawing

    if profile is not None and model is not None:
        raise terminal.fail("give --profile or --model: both name what draws")
    if fresh and out is not None and (out / "manifest.json").exists():
        raise terminal.fail(f"{out} already holds a run: name another folder, or leave out --fresh")
    choices = run_options(context)
    if choices.strategy not in (None, DIRECTOR):
        from scenewright.graphs.strategies.registry import StrategyError, strategy_of

        try:
            strategy_of(choices.strategy)
        except StrategyError as error:
            raise terminal.fail(str(error)) from None
    chosen = chosen_profile(profile)[1] if model is None else profile_drawing(model)
    by, max_usd = choices.reader, choices.budget.usd
    source = graph_or_sentence(scene, index, chosen, by)
    if not (quiet or show_plan):
        if not isinstance(source, str):
            terminal.note(scene_line(source))
        # Said before the imports and the loading, which take seconds.
        terminal.note(f"loading the models of profile {chosen.name}")
    from scenewright.runs.plan import plan_run

    plan_of = partial(
        plan_run,
        profile=chosen,
        options=choices,
        start=start,
        mask=mask,
        out=out,
        resume=not fresh,
        on_model_change=on_model_change,
    )
    from scenewright.cli.costs import agree_to_run, spending_limit

    plan = plan_of(source)
    agreed = plan.unread is not None and not show_plan
    if agreed:
        # A reading is paid for, so that its cost is asked about first.
        plan = agree_to_run(plan, max_usd, yes, quiet)
    elif plan.unread is not None and by == "llm":
        limit, _ = spending_limit(plan, max_usd, yes)
        plan = plan if limit == math.inf else plan.with_limit(limit)
    if plan.unread is not None and (agreed or by == "llm"):
        plan = _read_by_model(plan, quiet or show_plan)
    if ask:
        plan = _ask_back(plan, plan_of)
    if plan.unread is None:
        # As it is drawn: a model may know only another word of an object.
        warn_unread(plan.scene, "`--ask` asks what is meant before anything is drawn")
    if show_plan:
        show_preview(plan)
        return terminal.Exit.OK
    if not agreed:
        plan = agree_to_run(plan, max_usd, yes, quiet)
    return run_plan(plan, quiet)


def _read_by_model(plan: RunPlan, quiet: bool, earlier: SentenceReading | None = None) -> RunPlan:
    """Return ``plan`` with what its language model reads, told on standard error."""
    from scenewright.runs.run_reading import read_plan

    plan = terminal.run_async(read_plan(plan, earlier))
    if plan.reading is not None and plan.reading.problem:
        terminal.note(f"warning: {plan.reading.problem}", "yellow")
    if not quiet:
        terminal.note(scene_line(plan.scene))
    return plan


def _ask_back(plan: RunPlan, plan_of: Callable[..., RunPlan]) -> RunPlan:
    """Return the plan of what the person at the terminal means; see :func:`ask_back`."""
    from scenewright.agents.parsers.rules import parse_caption
    from scenewright.runs.reading import Sentence

    budget, reading = plan.options.budget, plan.reading

    def within(made: RunPlan) -> RunPlan:
        return made if budget.usd is None else made.with_limit(budget.usd)

    def read(sentence: str) -> SceneGraph:
        nonlocal reading
        if reading is None:
            return parse_caption(sentence)
        found = _read_by_model(within(plan_of(Sentence(sentence))), True, reading)
        reading = found.reading
        return found.scene

    scene = ask_back(plan.scene, read)
    return plan if scene == plan.scene else within(plan_of(scene, reading=reading))


refine.__doc__ = f"{refine.__doc__}\n\n    {terminal.EXIT_HELP}\n    "


def run_plan(plan: RunPlan, quiet: bool) -> terminal.Exit:
    """Execute a run with progress on standard error, print its result, and return the exit code."""
    from scenewright.cli.run_display import show_run_progress
    from scenewright.runs.api import execute
    from scenewright.runs.record import read_run

    with show_run_progress(terminal.console(stderr=True), quiet) as watcher:
        result = terminal.run_async(execute(plan, watcher))
    view = read_run(result.folder)
    return show_run(view, result.page)


def show_run(view: RunRecord, page: Path | None, ids: bool = False) -> terminal.Exit:
    """Print a run's table and its result, and return its exit code; ``ids`` shows facts' ids."""
    from scenewright.cli.run_display import legend, print_result
    from scenewright.runs.report.words import verdict_mark

    terminal.print_if_json(run_json(view, page))
    where = terminal.console()
    print_result(view, where, str(page) if page else "", ids)
    for warning in prompt_warnings(view) if not where.quiet else ():
        terminal.note(f"warning: {warning}")
    cards = [card for r in view.rounds for card in r.cards.values()]
    looks = {verdict_mark(verdict) for card in cards for verdict in card.verdicts}
    looks |= {
        r.state(fact.id) for r in view.rounds for fact in view.facts if not r.verdict(fact.id)
    }
    if looks:
        where.print(legend(looks, where))
    return exit_code(view.card(view.shown_role))


def prompt_warnings(view: RunRecord) -> list[str]:
    """Return a line for each prompt that is not by the profile's composer."""
    from scenewright.graphs.events import Composed
    from scenewright.runs.report import words

    return [
        f"round {shown.index}: the {event.purpose}'s prompt is by {words.author(event)}: "
        f"{event.problem}"
        for shown in view.rounds
        for event in shown.all(Composed)
        if event.problem
    ]


def run_json(view: RunRecord, page: Path | None) -> dict[str, Any]:
    """Return a run as one JSON object."""
    from scenewright.runs.result import result_of

    kept = view.best.candidate if view.best is not None else None
    return {
        "exit_code": exit_code(view.card(view.shown_role)),
        "folder": view.folder,
        "image": view.image_path(kept.image) if kept is not None else None,
        "page": page,
        "loop": card_json(view.card("loop")),
        "report": card_json(view.card("report")),
        "warnings": prompt_warnings(view),
        "change_from_round_0": {"loop": view.change("loop"), "report": view.change("report")},
        **result_of(view).model_dump(mode="json"),
    }


@takes_run_options("judges", "report_judges", "self_report", "realism", "protocol", "reader")
def score(
    context: typer.Context,
    image: Path,
    scene: str,
    profile: options.ProfileName = None,
    index: int | None = None,
    as_json: options.Json = False,
) -> terminal.Exit:
    """Ask the judges about every fact of SCENE in IMAGE.

    Args:
        image: An image file.
    """
    from scenewright.cli.run_display import card_lines, legend, score_table, unscored_lines
    from scenewright.core.images import load_image
    from scenewright.runs.record import shown_role
    from scenewright.runs.report.words import verdict_mark
    from scenewright.runs.scoring import score as ask
    from scenewright.runs.scoring import swapped

    if swapped(image, scene):
        terminal.note(
            f"note: {scene} is the image, so the scene is {str(image)!r}: write IMAGE before SCENE"
        )
        image, scene = Path(scene), str(image)
    picture = load_image(image)
    from scenewright.config.settings import profile_with

    choices = run_options(context)
    settings, named = chosen_profile(profile)
    chosen = profile_with(named, choices, settings)
    read = read_argument(scene, index, chosen, settings, choices.reader)
    warn_of_reading(read)
    if not as_json:
        terminal.note(scene_line(read.scene))
        terminal.note("loading the judges")
    found = terminal.run_async(ask(picture, read, chosen, realism=choices.realism))
    read_by = shown_role(found.loop, found.report)
    code = exit_code(found.report if read_by == "report" else found.loop)
    # The figures that scripts look for come before the cards in full.
    scores = {"loop": card_json(found.loop), "report": card_json(found.report)}
    data = found.model_dump(mode="json")
    terminal.print_if_json({"exit_code": code, "image": image, "scores": scores, **data})
    where = terminal.console()
    where.print(score_table(found, where))
    where.print()
    for label, value in card_lines(found):
        where.print(f"{label:<9}{value}")
    for line in unscored_lines(found):
        terminal.say(f"{'unscored':<9}{line}")
    cards = [card for card in (found.loop, found.report) if card is not None]
    where.print(legend({verdict_mark(v) for card in cards for v in card.verdicts}, where))
    return code


score.__doc__ = f"{score.__doc__}\n\n    {terminal.EXIT_HELP}\n    "


_READ_WHOLE = "read in chunks without a limit"


def show_preview(plan: RunPlan) -> None:
    """Print what the run of ``plan`` would send and ask; nothing is loaded or drawn."""
    from scenewright.runs.preview import preview_of

    found = terminal.run_async(preview_of(plan))
    lines = _preview_lines(found)
    if plan.profile.accounts:
        lines.append(("costs", _costs(plan)))
    terminal.print_if_json(found)
    terminal.print_labelled(lines, 10)


def _costs(plan: RunPlan) -> str:
    """Return the estimated dollars of a run, or why they are not known."""
    from scenewright.cli.costs import dollar_range
    from scenewright.config.profiles import SettingsError
    from scenewright.core.ports.backend import BackendError
    from scenewright.core.ports.judge import JudgeError
    from scenewright.evals.runner.forecast import forecast_run

    try:
        # A price is asked before a key is bought.
        keyless = plan.settings.without_keys(plan.profile.accounts)
        costs = forecast_run(replace(plan, settings=keyless))
    except (SettingsError, BackendError, JudgeError) as error:
        return f"not estimated: {error}"
    more = f", without {', '.join(costs.unpriced)} (price unknown)" if costs.unpriced else ""
    return f"{dollar_range(costs.least.usd, costs.most.usd)} by list prices{more}"


def _preview_lines(found: RunPreview) -> list[tuple[str, str]]:
    """Return the label and the text of every line."""
    names = ", ".join(item.id for item in found.scene.objects)
    relations = "; ".join(str(relation) for relation in found.scene.relations)
    lines = [
        ("scene", names + (f"; {relations}" if relations else "")),
        *intent_lines(found.scene),
        ("reader", found.reader or ""),
        ("draws", f"{found.backend} (profile {found.profile})"),
        ("composer", found.composer + (f", {found.chat}" if found.chat else "")),
    ]
    if found.prompt is not None:
        lines += [("prompt", found.prompt), ("avoids", found.negative_prompt or "")]
        lines += [("not drawn", passage.text) for passage in found.lost]
        lines += [("added", ", ".join(found.added)), ("tokens", _tokens(found))]
        statements = {fact.id: fact.statement for fact in found.facts}
        lines += [("dropped", statements.get(id_, id_)) for id_ in found.facts_dropped]
    else:
        lines.append(("tokens", _room(found)))
    if found.work is not None:
        from scenewright.runs.report.words import steps

        first, most = map(steps, found.work)
        lines.append(("work", f"{first} for the first picture, at most about {most} in all rounds"))
    lines.append(("repair", found.repair))
    lines += [(f"to {message.role}", message.text) for message in found.messages]
    for fact in found.facts:
        options = "" if fact.is_binary else f"  [{' / '.join(fact.options)}]"
        options += "  (no)" if fact.expected == "no" else ""
        lines.append(("asks", f"{fact.question}{options}"))
    own = " (self-report)" if found.self_report else ""
    lines += [
        ("judges", ", ".join(found.judges) + f" (protocol {found.protocol})"),
        ("cascade", found.cascade or ""),
        ("report", (", ".join(found.report_judges) or "none") + own),
        ("outside", found.outside or ""),
    ]
    return [(label, text) for label, text in lines if text]


def _room(found: RunPreview) -> str:
    """Return how much the image model reads of a prompt that a language model will write."""
    if found.budget is not None:
        return f"at most {found.budget} of what it writes are read"
    return f"what it writes is {_READ_WHOLE}" if found.chunked else "no limit known"


def _tokens(found: RunPreview) -> str:
    count = f"about {found.tokens} (estimated)" if found.estimated else str(found.tokens)
    if found.budget is not None:
        dropped = f", {found.dropped} are not read" if found.dropped else ""
        return f"{count} of {found.budget}{dropped}"
    return f"{count}, {_READ_WHOLE}" if found.chunked else f"{count}, no limit known"


def strategies(profile: options.ProfileName = None, as_json: options.Json = False) -> None:
    """List the strategies of `refine --strategy`; with --profile also what its model lacks for one.

    Packages can add strategies with an entry point of the group scenewright.strategies.
    """
    from scenewright.config.profiles import DIRECTOR
    from scenewright.graphs.strategies.registry import strategies as known

    settings, chosen = chosen_profile(profile)
    features = None
    if profile is not None:
        from scenewright.runs.model_factory.profiles import backend_of

        # Reading what a local model can do imports its libraries.
        features = backend_of(chosen.backend, settings).features
    found = [
        (each.name, each.about, (features and each.unsupported_reason(features)) or "")
        for each in known().values()
    ]
    about = "Let a language model decide each step with tools: draw, look, verify, accept."
    lacks = "" if chosen.chat else f"the profile {chosen.name} names no chat model"
    rows = [
        {"name": name, "about": about, "lacks": lacks, "default": name == chosen.strategy}
        for name, about, lacks in (*found, (DIRECTOR, about, lacks))
    ]
    terminal.print_if_json({"strategies": rows})
    shown = [
        (
            f"{row['name']}{' (default)' if row['default'] else ''}",
            f"{row['about']}{' Not here: ' + str(row['lacks']) if row['lacks'] else ''}",
        )
        for row in rows
    ]
    terminal.print_table(("strategy", "what it does"), shown, wraps=True)
    if profile is None:
        terminal.say(
            "`scenewright strategies --profile NAME` checks which of them its model can do.", "dim"
        )
