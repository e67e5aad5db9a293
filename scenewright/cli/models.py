"""``scenewright models``: list and fetch models; update facts about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from scenewright.cli import options
from scenewright.cli.app import App, resumable
from scenewright.cli.console import (
    Exit,
    console,
    fail,
    fields_of,
    give,
    print_json,
    say,
    table_of,
)
from scenewright.cli.models_update import update
from scenewright.cli.progress import confirm_transfer, show_transfer

if TYPE_CHECKING:
    from rich.table import Table

    from scenewright.providers.hub.cache import Present
    from scenewright.providers.hub.needs import Need
    from scenewright.providers.hub.pull import Pulled, RepositoryPlan

app = App(help="List and fetch models of the hub; update facts about models.")
app.command()(update)
_AGAIN = "Fetched files stay: the same command goes on from there."


@app.command(name="list")
def list_(
    name: Annotated[str | None, typer.Argument()] = None,
    as_json: options.Json = False,
) -> None:
    """Show which models are on this machine: repository, part, size, licence, and what is missing.

    Below each profile: about how much memory drawing needs. Uses no network.

    Args:
        name ([PROFILE]): A profile, or a model as diffusers:OWNER/NAME, local:OWNER/NAME (a judge)
            or transformers:OWNER/NAME (a detector); by default all profiles.
    """
    from scenewright.config.settings import load_profiles
    from scenewright.providers.hub.cache import cache_folder, survey
    from scenewright.runs.readiness import cuda_memory, memory_needed, memory_of_machine

    found = {title: [survey(need) for need in needs] for title, needs in _needs(name).items()}
    profiles, here = load_profiles(), (memory_of_machine() or 0, cuda_memory())
    memory = {title: memory_needed(profiles[title], *here) for title in found if title in profiles}
    give(
        as_json,
        {
            "folder": str(cache_folder()),
            "profiles": {
                title: [present_json(present) for present in group]
                for title, group in found.items()
            },
            "memory_needed": memory,
        },
        _print_list,
        found,
        memory,
        console(),
    )


@app.command()
@resumable(_AGAIN)
def pull(
    name: str,
    yes: options.NoQuestion = False,
    dry_run: options.DryRun = False,
    as_json: options.Json = False,
) -> None:
    """Fetch the models that a profile needs: only the files that are used, each checked.

    Large files are checked by SHA-256, small ones by git's object id, including files that were
    here before; damaged ones are fetched again. After an interruption the same command goes on
    where it stopped. Exit codes: 0 all is here and whole; 2 wrong input; 3 could not be fetched;
    130 interrupted.

    Args:
        name (PROFILE): A profile, or a model as diffusers:OWNER/NAME, local:OWNER/NAME (a judge) or
            transformers:OWNER/NAME (a detector).
    """
    from scenewright.providers.hub.pull import bytes_left, check_disk, plan_of
    from scenewright.providers.hub.pull import pull as fetch

    needs = [need for group in _needs(name).values() for need in group]
    where = console(stderr=True)
    if not needs:
        if as_json:
            print_json(_report(name, (), None))
        else:
            console().print(f"{name} needs nothing from the hub.")
        return
    with _asking(where) as show:
        plans = plan_of(needs, show)
    if not as_json:
        _print_plan(plans, console())
    rest = bytes_left(plans)
    refused = [plan.refusal for plan in plans if plan.refusal is not None]
    if dry_run:
        if as_json:
            print_json(_report(name, plans, None))
        return
    if refused:
        raise fail("\n".join(refused), Exit.FAILED)
    check_disk(plans)
    if rest and not yes:
        confirm_transfer(rest, as_json)
    with show_transfer(rest, sum(plan.size for plan in plans)) as watch:
        done = fetch(plans, watch)
    give(as_json, _report(name, plans, done), _print_done, plans, done, console())


def _needs(name: str | None) -> dict[str, tuple[Need, ...]]:
    from scenewright.config.profiles import SettingsError
    from scenewright.config.settings import find_profile, load_profiles, load_settings
    from scenewright.providers.hub.needs import needs_of, needs_of_spec

    settings = load_settings()
    if name is None:
        return {title: needs_of(profile) for title, profile in load_profiles(settings).items()}
    if ":" not in name:
        return {name: needs_of(find_profile(name, settings))}
    needs = needs_of_spec(name)
    if not needs:
        raise SettingsError(
            f"{name!r} names nothing on the hub: write diffusers:OWNER/NAME, local:OWNER/NAME or "
            "transformers:OWNER/NAME, or the name of a profile"
        )
    return {name: needs}


def present_json(present: Present) -> dict[str, Any]:
    """Return how much of a needed repository is here; sizes in bytes."""
    return {
        **fields_of(present.need, "repository", "parts"),
        **fields_of(present, "complete", "bytes_here", "bytes_needed", "missing", "licence"),
        **fields_of(present, "gated", "folder"),
        "state": present.state(),
    }


def models_table(models: Iterable[dict[str, Any]]) -> Table:
    """Return a table of models as :func:`present_json` describes them."""
    from scenewright.providers.hub.cache import about
    from scenewright.providers.hub.needs import size_words

    table = table_of("  repository", "for", "size", "licence", "state")
    for model in models:
        here = model["complete"]
        table.add_row(
            f"  {model['repository']}",
            ", ".join(model["parts"]),
            size_words(model["bytes_here"]) if here else about(model["bytes_needed"]),
            (model["licence"] or "unknown") + (" (gated)" if model["gated"] and not here else ""),
            Text(model["state"], "green" if here else "yellow"),
        )
    return table


def _print_list(
    found: dict[str, list[Present]], memory: dict[str, dict[str, Any] | None], where: Console
) -> None:
    from scenewright.providers.hub.cache import PULL, cache_folder
    from scenewright.runs.readiness import memory_line

    for title, group in found.items():
        say(title, "bold", where)
        if not group:
            say("  nothing from the hub", "dim", where)
        else:
            where.print(models_table(map(present_json, group)))
            if (needed := memory.get(title)) is not None:
                say(
                    f"  memory: {memory_line(needed)}",
                    "yellow" if needed["fits"] == "no" else "",
                    where,
                )
            if not all(present.complete for present in group):
                say(f"  get it with `{PULL} {title}`", "dim", where)
        where.print()
    say(f"folder {cache_folder()}", "dim", where)


def _print_plan(plans: Iterable[RepositoryPlan], where: Console) -> None:
    from scenewright.providers.hub.cache import cache_folder
    from scenewright.providers.hub.needs import size_words

    plans = list(plans)
    table = table_of("repository", "for", "files", "size", "here", "licence")
    for plan in plans:
        table.add_row(
            plan.need.repository,
            ", ".join(plan.need.parts),
            str(len(plan.files)),
            size_words(plan.size),
            size_words(plan.size_here),
            (plan.licence or "unknown") + (" (gated)" if plan.gated else ""),
        )
    where.print(table)
    size, have = sum(p.size for p in plans), sum(p.size_here for p in plans)
    say(
        f"{size_words(size)} in all, {size_words(have)} here, {size_words(size - have)} to "
        f"fetch into {cache_folder()}",
        "",
        where,
    )
    for plan in plans:
        if plan.refusal is not None:
            say(plan.refusal, "yellow", where)


def _print_done(plans: Iterable[RepositoryPlan], done: Pulled, where: Console) -> None:
    from scenewright.providers.hub.needs import size_words

    plans = list(plans)
    files = sum(len(plan.files) for plan in plans)
    again = f", {len(done.damaged)} damaged and fetched again" if done.damaged else ""
    where.print(
        f"{files} files, {size_words(sum(p.size for p in plans))}, are here and whole "
        f"({len(done.fetched)} fetched{again})."
    )


def _report(name: str, plans: Iterable[RepositoryPlan], done: Pulled | None) -> dict[str, Any]:
    from scenewright.providers.hub.cache import cache_folder

    plans = list(plans)
    return {
        "name": name,
        "folder": str(cache_folder()),
        "bytes": sum(plan.size for plan in plans),
        "bytes_here": sum(plan.size_here for plan in plans),
        "repositories": [
            {
                **fields_of(plan.need, "repository", "parts"),
                **fields_of(plan, "commit", "licence", "gated", "refusal"),
                "bytes": plan.size,
                "bytes_here": plan.size_here,
                "files": {file.path: file.size for file in plan.files},
            }
            for plan in plans
        ],
        "fetched": done.fetched if done is not None else [],
        "damaged": done.damaged if done is not None else [],
        "done": done is not None or not plans,
    }


@contextmanager
def _asking(where: Console) -> Iterator[Any]:
    if not where.is_terminal:
        yield lambda text: None
        return
    with where.status("asking the hub") as status:
        yield lambda text: status.update(f"asking the hub about {text}")
