"""``scenewright demo``: three scenes of growing complexity, drawn, verified and repaired."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from scenewright.cli import options
from scenewright.cli.app import resumable
from scenewright.cli.console import Exit, console, print_if_json, print_table, run_async, say
from scenewright.cli.options import chosen_profile
from scenewright.cli.refine import run_json

SCENES: dict[str, str] = {
    "simple": "red ball on purple table",
    "medium": (
        "red ball on purple table; green dog left of table; yellow umbrella above dog; "
        "green tree right of table"
    ),
    "hard": (
        "green lamp near red person; yellow table near black house; blue dog left of yellow table; "
        "yellow tree near red lamp; black house below purple ball; green lamp on yellow table; "
        "red lamp above blue dog; black house below red tree; red person on black house"
    ),
}
"""Scenes by level, in the words of the miniature world."""


@resumable("The same command continues the demo.")
def demo(
    out: options.Out = Path("out/demo"),
    profile: options.ProfileName = None,
    rounds: options.Rounds = 3,
    seed: options.Seed = 0,
    max_usd: options.MaxUsd = None,
    yes: options.Yes = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> Exit:
    """Draw, verify and repair three scenes (simple, medium, hard), and write one page of all.

    The last line is the path of the page; nothing is opened. The same command continues an
    interrupted demo.

    Exit codes: 0 the page is written (the scenes may have missing facts, the page shows them);
    2 wrong input or usage; 3 could not run; 130 interrupted.

    Args:
        out: Folder of the three runs and the page.
    """
    from scenewright.runs.report import words

    settings, chosen = chosen_profile(profile)
    where = console(stderr=True)
    if not quiet:
        # Said before the imports, which take seconds.
        say(f"loading the models of profile {chosen.name}", "", where)
    from scenewright.cli.costs import agree_to_run
    from scenewright.cli.run_display import show_run_progress
    from scenewright.runs.api import execute
    from scenewright.runs.folder import PAGE_FILE, short_digest
    from scenewright.runs.model_factory.profiles import build_run_models, warm
    from scenewright.runs.plan import plan_run
    from scenewright.runs.record import read_run
    from scenewright.runs.report.render import write_index

    async def draw_scenes() -> dict[str, Path]:
        models = await build_run_models(chosen)
        await warm(models)
        # Other models or options make another folder: an old demo never passes for a new one.
        mark = short_digest(
            {
                "backend": models.backend.fingerprint,
                "judges": [one.fingerprint for one in (*models.loop_judges, *models.report_judges)],
                "profile": chosen.model_dump(mode="json"),
                "rounds": rounds,
                "seed": seed,
                "scenes": SCENES,
            }
        )
        folders: dict[str, Path] = {}
        for level, scene in SCENES.items():
            if not quiet:
                say(Text.assemble((f"\n{level}: ", "bold"), scene), "", where)
            place = out / f"{level}-{mark}"
            plan = plan_run(scene, chosen, out=place, rounds=rounds, seed=seed, settings=settings)
            plan = agree_to_run(plan, max_usd, yes, quiet)
            with show_run_progress(where, quiet) as watcher:
                folders[level] = (await execute(plan, watcher)).folder
        return folders

    folders = run_async(draw_scenes())
    views = {level: read_run(folder) for level, folder in folders.items()}
    index = write_index(out, list(folders.values()), "Three scenes")
    runs = {level: run_json(view, folders[level] / PAGE_FILE) for level, view in views.items()}
    print_if_json({"page": index, "runs": runs})
    rows = []
    for level, view in views.items():
        shown = view.card(view.shown_role)
        change = words.signed(view.change(view.shown_role))
        score = words.card_score(shown)
        score += f" ({change})" if change else " "
        steering = words.card_score(view.card("loop"))
        size = str(len(view.rounds)), words.duration(view.seconds)
        rows.append((level, words.verdict_line(shown), score, steering, *size))
    print_table(("scene", "facts that hold", "score", "by the loop", "rounds", "time"), rows)
    say(f"\nThe page: {index.resolve()}")
    return Exit.OK
