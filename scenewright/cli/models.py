"""``scenewright models``: list and fetch models; update facts about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from scenewright.cli import console as terminal
from scenewright.cli import options
from scenewright.cli.app import App, resumable
from scenewright.cli.progress import confirm_transfer, show_status, show_transfer

if TYPE_CHECKING:
    from rich.table import Table

    from scenewright.providers.hub.cache import Present
    from scenewright.providers.hub.needs import Need
    from scenewright.providers.hub.pull import RepositoryPlan
    from scenewright.providers.model_facts import Kind, ModelFacts

app = App(help="List and fetch models of the hub; update facts about models.")

_AGAIN = "Fetched files stay: the same command goes on from there."


@app.command(name="list")
def list_(
    name: Annotated[str | None, typer.Argument()] = None, as_json: options.Json = False
) -> None:
    """Show which models are on this machine: repository, part, size, licence, and what is missing.

    Below each profile: about how much memory drawing needs. Uses no network.

    Args:
        name ([PROFILE]): A profile, or a model as diffusers:OWNER/NAME, local:OWNER/NAME (a judge)
            or transformers:OWNER/NAME (a detector); by default all profiles.
    """
    from scenewright.config.settings import load_profiles
    from scenewright.providers.hub.cache import PULL, cache_folder, survey
    from scenewright.runs import readiness

    found = {title: [survey(need) for need in needs] for title, needs in _needs(name).items()}
    profiles, main, cuda = load_profiles(), readiness.memory_of_machine(), readiness.cuda_memory()
    memory = {
        title: readiness.memory_needed(profiles[title], main or 0, cuda)
        for title in found
        if title in profiles
    }
    of_profiles = {title: list(map(present_json, group)) for title, group in found.items()}
    terminal.print_if_json(
        {"folder": cache_folder(), "profiles": of_profiles, "memory_needed": memory}
    )
    for title, group in found.items():
        terminal.say(title, "bold")
        if not group:
            terminal.say("  nothing from the hub", "dim")
        else:
            terminal.console().print(models_table(of_profiles[title]))
            if (needed := memory.get(title)) is not None:
                style = "yellow" if needed["fits"] == "no" else ""
                terminal.say(f"  memory: {readiness.memory_line(needed)}", style)
            if not all(present.complete for present in group):
                terminal.say(f"  get it with `{PULL} {title}`", "dim")
        terminal.say("")
    terminal.say(f"folder {cache_folder()}", "dim")


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
    from scenewright.providers.hub.cache import cache_folder
    from scenewright.providers.hub.needs import size_words
    from scenewright.providers.hub.pull import bytes_left, check_disk, plan_of
    from scenewright.providers.hub.pull import pull as fetch

    needs = [need for group in _needs(name).values() for need in group]
    plans: Sequence[RepositoryPlan] = ()
    if needs:
        with show_status("asking the hub") as show:
            plans = plan_of(needs, lambda text: show(f"asking the hub about {text}"))
    rest, size = bytes_left(plans), sum(plan.size for plan in plans)
    here = sum(plan.size_here for plan in plans)
    if not needs:
        terminal.say(f"{name} needs nothing from the hub.")
    else:
        terminal.print_table(
            ("repository", "for", "files", "size", "here", "licence"),
            [
                (plan.need.repository, ", ".join(plan.need.parts), str(len(plan.files)),
                 size_words(plan.size), size_words(plan.size_here),
                 (plan.licence or "unknown") + (" (gated)" if plan.gated else ""))
                for plan in plans
            ],
        )  # fmt: skip
        terminal.say(
            f"{size_words(size)} in all, {size_words(here)} here, {size_words(size - here)} to "
            f"fetch into {cache_folder()}"
        )
        for plan in plans:
            if plan.refusal is not None:
                terminal.say(plan.refusal, "yellow")
    done = None
    if needs and not dry_run:
        if refused := [plan.refusal for plan in plans if plan.refusal is not None]:
            raise terminal.fail("\n".join(refused), terminal.Exit.FAILED)
        check_disk(plans)
        if rest and not yes:
            confirm_transfer(rest, as_json)
        with show_transfer(rest, size) as watch:
            done = fetch(plans, watch)
    repositories = [
        terminal.fields_of(plan.need, "repository", "parts")
        | terminal.fields_of(plan, "commit", "licence", "gated", "refusal")
        | {"bytes": plan.size, "bytes_here": plan.size_here}
        | {"files": {file.path: file.size for file in plan.files}}
        for plan in plans
    ]
    terminal.print_if_json(
        {
            **{"name": name, "folder": cache_folder(), "bytes": size, "bytes_here": here},
            "repositories": repositories,
            "fetched": done.fetched if done is not None else [],
            "damaged": done.damaged if done is not None else [],
            "done": done is not None or not plans,
        }
    )
    if done is not None:
        again = f", {len(done.damaged)} damaged and fetched again" if done.damaged else ""
        terminal.say(
            f"{sum(len(plan.files) for plan in plans)} files, {size_words(size)}, are here and "
            f"whole ({len(done.fetched)} fetched{again})."
        )


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
        **terminal.fields_of(present.need, "repository", "parts"),
        **terminal.fields_of(
            present, "complete", "bytes_here", "bytes_needed", "missing", "licence"
        ),
        **terminal.fields_of(present, "gated", "folder"),
        "state": present.state(),
    }


def models_table(models: Iterable[dict[str, Any]]) -> Table:
    """Return a table of models as :func:`present_json` describes them."""
    from scenewright.providers.hub.cache import about
    from scenewright.providers.hub.needs import size_words

    table = terminal.table_of("  repository", "for", "size", "licence", "state")
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


MOST_BYTES = 2 * 2**20
_SECONDS = 20.0


@app.command()
def update(
    source: Annotated[str | None, typer.Option("--from")] = None, as_json: options.Json = False
) -> terminal.Exit:
    """Fetch a newer table of facts about models: abilities, limits, prices, and when they end.

    The table is checked whole before it replaces the copy in your folder of settings. The newer of
    that copy and the package's own table is used from then on; `scenewright doctor` says which.

    Exit codes: 0 the copy is the table, or is as new; 2 wrong input; 3 it cannot be had or used.

    Args:
        source (FILE|URL): A table of this form; by default that of the newest development.
    """
    from scenewright.providers import model_facts as facts

    place = source or facts.UPDATE_URL
    text = read_table(place)
    before = facts.model_facts()
    try:
        table = facts.read_facts(text, place)
        check_facts(table)
    except facts.ModelTableError as error:
        raise terminal.fail(
            f"{error}. The table in use stays: {before.version}", terminal.Exit.FAILED
        ) from error
    newer = table.as_of > before.as_of
    if newer:
        try:
            kept = str(facts.keep_facts(text))
        except (OSError, RuntimeError) as error:
            raise terminal.fail(
                f"the table cannot be kept: {error}", terminal.Exit.FAILED
            ) from error
        result = f"model facts of {table.as_of} replace those of {before.as_of}: {kept}"
    else:
        kept = before.place
        result = f"the table in use ({before.version}) is as new as {place} ({table.as_of})"
    data = {"as_of": str(table.as_of), "before": str(before.as_of), "updated": newer, "file": kept}
    terminal.print_if_json(data)
    terminal.say(result)
    return terminal.Exit.OK


def check_facts(table: ModelFacts) -> None:
    """Raise ``ModelTableError`` unless every row of ``table`` can be used."""
    from pydantic import ValidationError

    from scenewright.agents.judges.decisions.models import caps_of as decision_caps_of
    from scenewright.agents.judges.models import caps_of
    from scenewright.core.ports.backend import BackendError
    from scenewright.core.ports.judge import JudgeError
    from scenewright.providers.model_facts import ModelTableError, end_of, using
    from scenewright.providers.usage import PriceTable
    from scenewright.tools.backends.image_models import image_caps_of

    views: dict[Kind, Callable[[str, str], object]] = {
        "chat": caps_of, "image": image_caps_of, "decision": decision_caps_of, "end": end_of
    }  # fmt: skip
    whole = {"chat": ("openai", "gemini", "anthropic"), "image": ("openai", "gemini")}
    with using(table):
        try:
            PriceTable.load()
            for kind, view in views.items():
                names = [*table.rows(kind), *(f"{one}:*" for one in whole.get(kind, ()))]
                for name in names:
                    provider, _, model = name.partition(":")
                    view(provider, model.removesuffix("*") or "unknown")
        except (BackendError, JudgeError, ValidationError) as error:
            raise ModelTableError(f"{table.place} cannot be used: {error}") from error


def read_table(place: str) -> str:
    """Return the text of a file or of an address; the command ends where there is none."""
    import httpx2

    from scenewright.core.user_files import UserFileError, decoded

    found = bytearray()
    try:
        if not place.startswith(("https://", "http://")):
            file = Path(place)
            if file.stat().st_size > MOST_BYTES:
                raise terminal.fail(
                    f"{place} is larger than {MOST_BYTES} bytes: it is no table of model facts"
                )
            return decoded(file.read_bytes(), place)
        with httpx2.stream("GET", place, timeout=_SECONDS) as reply:
            if reply.status_code != 200:
                raise terminal.fail(
                    f"{place} answers HTTP {reply.status_code}", terminal.Exit.FAILED
                )
            for chunk in reply.iter_bytes():
                found += chunk
                if len(found) > MOST_BYTES:
                    raise terminal.fail(
                        f"{place} sends more than {MOST_BYTES} bytes", terminal.Exit.FAILED
                    )
        return decoded(bytes(found), place)
    except httpx2.HTTPError as error:
        raise terminal.fail(f"{place} cannot be fetched: {error}", terminal.Exit.FAILED) from error
    except OSError as error:
        raise terminal.fail(f"{place} cannot be read: {error.strerror or error}") from error
    except UserFileError as error:
        raise terminal.fail(str(error)) from error
