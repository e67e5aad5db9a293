"""``scenewright init``: a first ``scenewright.toml``, and the steps to a first picture."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scenewright.cli.console import fail, note, print_table, say, text_of

if TYPE_CHECKING:
    from scenewright.config.profiles import Profile

_SCENE = '"red ball on table; dog left of table"'


def init(
    profile: Annotated[str | None, typer.Option("--profile", "-p")] = None, force: bool = False
) -> None:
    """Write a commented scenewright.toml into this folder, and show the steps to a first picture.

    Asks what is to draw the pictures: the miniature that comes with the package, a provider's API,
    or a model on this machine, each with what it needs. Without a terminal, name it with --profile.

    Args:
        profile: The profile to begin with; asked for where it is left out.
        force: Replace a scenewright.toml that is there.
    """
    from scenewright.config import settings as known
    from scenewright.config.profiles import BUILT_IN, LOCAL_BACKEND
    from scenewright.runs.readiness import cuda_memory, memory_needed, memory_of_machine

    place = Path(known.SETTINGS_FILE)
    if place.exists() and not force:
        raise fail(f"{place} is here already: edit it, or replace it with --force")
    # What is to be replaced may be wrong.
    profiles = known.load_profiles() if not place.exists() else dict(BUILT_IN)
    if profile is None:
        if not sys.stdin.isatty():
            here = [name for name, one in profiles.items() if one.backend.kind == LOCAL_BACKEND]
            reached = [name for name in profiles if name not in here]
            raise fail(
                "name a profile with --profile, for example --profile openai\n"
                f"by a provider's API: {', '.join(reached)}\n"
                f"on this machine: {', '.join(here)}"
            )
        rows, main = [], memory_of_machine() or 0
        for name, one in profiles.items():
            needed = memory_needed(one, main, cuda_memory())
            needs = "nothing" if name.startswith("miniature") else "see `scenewright doctor`"
            if one.backend.kind != LOCAL_BACKEND:
                account = known.load_settings().account(one.backend.kind)
                needs = f"a key ({'set' if account.key() else account.key_variables[0]})"
            elif needed is not None:
                more = "" if needed["fits"] != "no" else ", more than here"
                needs = f"{needed['bytes'] / 1e9:.0f} GB of memory{more}"
            rows.append((name, needs, one.about))
        print_table(("profile", "needs", "what it is"), rows, wraps=True)
        profile = typer.prompt("profile", default="miniature", err=True)
    chosen = profiles.get(profile) or known.find_profile(profile)
    try:
        place.write_text(settings_text(chosen), encoding="utf-8")
    except OSError as error:
        raise fail(f"{place} cannot be written: {error.strerror}") from None
    say(f"wrote {place}: commands in this folder use the profile {_own_name(chosen)}")
    for number, step in enumerate(steps(chosen), 1):
        say(f"{number}. {step}")


def settings_text(profile: Profile) -> str:
    """Return the text of a settings file that begins with ``profile``."""
    judges, report = (
        ", ".join(f'"{judge}"' for judge in specs)
        for specs in (profile.judges, profile.report_judges)
    )
    return text_of(
        "settings",
        name=_own_name(profile),
        base=profile.name,
        about=profile.about,
        backend=f"{profile.backend.kind}:{profile.backend.model}",
        judges=judges,
        report_judges=report,
        strategy=profile.strategy,
        steps="" if profile.steps is None else f"\n# steps = {profile.steps}",
    )


def steps(profile: Profile) -> list[str]:
    """Return what is to be done before the first picture and after it, one command each."""
    from scenewright.config.settings import load_settings
    from scenewright.providers.hub.cache import survey
    from scenewright.providers.hub.needs import needs_of
    from scenewright.runs import readiness

    found: list[str] = []
    for name, account in readiness.accounts_of(profile, load_settings()).items():
        if not account["key"]:
            found.append(f"scenewright keys set {name}")
    absent = [shown for need in needs_of(profile) if not (shown := survey(need)).complete]
    if absent:
        sizes = [shown.need.known_bytes() for shown in absent]
        known = [size for size in sizes if size is not None]
        told = f"about {sum(known) / 1e9:.0f} GB" if known == sizes else "sizes: --dry-run"
        found.append(f"scenewright models pull {profile.name}      # {told}")
    main = readiness.memory_of_machine() or 0
    needed = readiness.memory_needed(profile, main, readiness.cuda_memory())
    if needed is not None and needed["fits"] == "no":
        note(
            f"warning: drawing needs about {needed['bytes'] / 1e9:.0f} GB of memory, this machine "
            f"has {needed['device_bytes'] / 1e9:.0f} GB: `scenewright doctor` shows what fits"
        )
    return [*found, f"scenewright refine {_SCENE}", "scenewright open"]


def _own_name(profile: Profile) -> str:
    return f"my-{profile.name}"
