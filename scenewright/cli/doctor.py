"""``scenewright doctor``: the installation, and which profiles would run here and why not."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from scenewright.cli import options
from scenewright.cli.console import Exit, console, describe, give, say

if TYPE_CHECKING:
    from rich.console import Console

    from scenewright.agents.judges.families import JudgeMemory
    from scenewright.config.profiles import Profile
    from scenewright.config.settings import Settings

PACKAGES = (
    "scenewright",
    "torch",
    "diffusers",
    "transformers",
    "langgraph",
    "langgraph-checkpoint-sqlite",
    "langchain-openai",
    "openai",
    "anthropic",
    "google-genai",
    "pydantic",
    "pillow",
    "numpy",
    "networkx",
    "huggingface-hub",
    "safetensors",
    "tokenizers",
    "jinja2",
    "typer",
    "rich",
)
GIB = 2**30


def doctor(
    as_json: options.Json = False,
    profile: Annotated[
        str | None, typer.Option("--profile", "-p", help="Check only this profile.")
    ] = None,
    online: Annotated[
        bool,
        typer.Option(
            "--online",
            help="Ask OpenAI and Anthropic for their lists of models and when each is retired.",
        ),
    ] = False,
) -> Exit:
    """Show what is installed, and for each profile whether it would run and how to fix it.

    For each profile: which models of the hub are here, their sizes and licences; whether the
    keys of its accounts are set (never their values); how its image model would be placed in
    memory, or, before it is fetched, about how much it needs and whether this machine has it; and
    which of its models are retired within 60 days, by the table that ships with scenewright and,
    with --online, by the providers' own lists. Uses no network without --online.

    Exit codes: 0 the checked profile (else the default one) would run; 3 it would not;
    2 wrong input.
    """
    from scenewright.config.settings import find_profile, load_settings, read_profiles

    settings = load_settings()
    wanted = profile or settings.profile
    every, broken = read_profiles(settings)
    if wanted not in broken:
        wanted = find_profile(wanted, settings).name
    if profile:
        every = {name: found for name, found in every.items() if name == wanted}
        broken = {name: problem for name, problem in broken.items() if name == wanted}
    report: dict[str, Any] = {
        "python": {"version": platform.python_version(), "executable": sys.executable},
        "packages": {name: installed(name) for name in PACKAGES},
        "machine": machine(settings.runs),
        "weights": embedded_weights(),
        "profiles": {
            **{name: check(one, settings, online=online) for name, one in every.items()},
            **{name: _unusable(problem) for name, problem in broken.items()},
        },
        "default_profile": settings.profile,
    }
    report["ready"] = report["profiles"][wanted]["runs"]
    give(as_json, report, _print, report, console())
    return Exit.OK if report["ready"] else Exit.FAILED


def installed(name: str) -> str | None:
    """Return the version of a package; None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def machine(runs: Path) -> dict[str, Any]:
    """Return platform, processors, devices, and memory and free disk in bytes."""
    from scenewright.runs.readiness import memory_of_machine

    place = runs.absolute()
    while not place.exists():
        place = place.parent
    return {
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "memory_bytes": memory_of_machine(),
        "free_disk_bytes": shutil.disk_usage(place).free,
        "runs": str(runs.absolute()),
        "runs_writable": os.access(place, os.W_OK),
        "devices": _devices(),
    }


def _devices() -> list[str]:
    try:
        import torch
    except Exception as error:
        # A broken build of torch raises whatever its libraries raise.
        return [f"none: torch cannot be imported ({error})"]
    found = [f"cpu ({torch.get_num_threads()} threads)"]
    for index in range(torch.cuda.device_count()):
        total = torch.cuda.get_device_properties(index).total_memory
        found.append(f"cuda:{index} {torch.cuda.get_device_name(index)}, {total / GIB:.0f} GiB")
    if torch.backends.mps.is_available():
        found.append("mps")
    return found


def embedded_weights() -> dict[str, int]:
    """Return the bytes of each embedded model that is here, by its folder's name."""
    from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS

    sizes: dict[str, int] = {}
    for file in sorted(MINIATURE_WEIGHTS.rglob("*.safetensors")):
        parts = file.relative_to(MINIATURE_WEIGHTS).parts
        name = "/".join(parts[:2] if parts[0] == "judges" else parts[:1])
        sizes[name] = sizes.get(name, 0) + file.stat().st_size
    return sizes


def check(profile: Profile, settings: Settings, *, online: bool = False) -> dict[str, Any]:
    """Return whether each part of a profile can be built here, and if not, why and what to do.

    ``models`` are those of the hub, ``accounts`` those that it calls, ``memory`` is how the image
    model would be placed there (None if it is not on this machine), ``memory_needed`` what it needs
    about (:func:`~scenewright.runs.readiness.memory_needed`), ``judges_memory`` the size of the
    judges' weights, ``ends`` its models that are retired soon and, with ``online``, why a list of
    models could not be read.
    """
    from scenewright.agents.judges.families import JudgeMemory
    from scenewright.cli.models import present_json
    from scenewright.providers.hub.cache import survey
    from scenewright.providers.hub.needs import needs_of
    from scenewright.runs.readiness import (
        accounts_of,
        cuda_memory,
        memory_needed,
        memory_of_machine,
    )

    presents = [survey(need) for need in needs_of(profile)]
    absent = {present.need.repository for present in presents if not present.complete}
    accounts = accounts_of(profile, settings)
    keyless = {name for name, account in accounts.items() if not account["key"]}
    found: list[dict[str, Any]] = []
    drawing = None
    judges: dict[str, JudgeMemory] = {}
    for name, needs, build in _parts(profile, settings):
        # The table of models and the lines of accounts say this already.
        if lost := sorted(needs & absent):
            problem = f"not on this machine: {', '.join(lost)}"
        elif lost := sorted(needs & keyless):
            problem = f"no key: set {' or '.join(accounts[lost[0]]['key_variables'])}"
        if lost:
            found.append({"part": name, "ok": False, "problem": problem, "told": True})
            continue
        try:
            built = build()
            # Files are read when the fingerprint is computed, not when the model is named.
            _ = getattr(built, "fingerprint", None)
            drawing = getattr(built, "plan", None) or drawing
            if isinstance(kept := getattr(built, "memory", None), JudgeMemory):
                judges[name.removeprefix("judge ")] = kept
        except Exception as error:
            found.append({"part": name, "ok": False, "problem": describe(error)[0], "told": False})
        else:
            found.append({"part": name, "ok": True, "problem": "", "told": False})
    return {
        "about": profile.about,
        "runs": all(part["ok"] for part in found),
        "parts": found,
        "models": [present_json(present) for present in presents],
        "accounts": accounts,
        "memory": drawing.describe() if drawing is not None else None,
        "memory_needed": memory_needed(profile, memory_of_machine() or 0, cuda_memory()),
        "judges_memory": _judges_memory(judges, drawing.need if drawing is not None else 0),
        "ends": _ends(profile, settings, accounts, online),
    }


def _judges_memory(judges: Mapping[str, JudgeMemory], drawing: int) -> dict[str, Any]:
    """Return the bytes of each judge's weights, and of all models together on one device."""
    from scenewright.agents.judges.families import together

    return {
        "judges": {
            name: {"weights_bytes": kept.weights, "told": kept.describe()}
            for name, kept in judges.items()
        },
        "together_bytes": together(drawing, tuple(judges.values())),
    }


def _ends(
    profile: Profile, settings: Settings, accounts: Mapping[str, Any], online: bool
) -> list[str]:
    """Return sentences on the models of accounts that are retired soon."""
    from scenewright.agents.judges.models import listed_ends
    from scenewright.config.profiles import reached_by
    from scenewright.providers.known_models import ModelEnd, endings
    from scenewright.runs.readiness import model_names

    specs = model_names(profile)
    if profile.backend.kind in accounts:
        specs.insert(0, f"{profile.backend.kind}:{profile.backend.model}")
    used: dict[str, list[str]] = {}
    for spec in specs:
        name, model = reached_by(spec)
        if name in accounts:
            used.setdefault(name, []).append(model)
    told: dict[str, ModelEnd] = {}
    failed = []
    for name, models in used.items() if online else ():
        found, problem = listed_ends(name, settings.account(name), models)
        told |= found
        failed += [problem] if problem else []
    known = {name: settings.account(name) for name in used}
    return [ending.text for ending in endings(specs, known, told=told)] + failed


def _unusable(problem: str) -> dict[str, Any]:
    """Return the result of :func:`check` for a profile that cannot be read."""
    part = {"part": "settings", "ok": False, "problem": problem, "told": False}
    return {
        "about": "",
        "runs": False,
        "parts": [part],
        "models": [],
        "accounts": {},
        "memory": None,
        "memory_needed": None,
        "judges_memory": _judges_memory({}, 0),
        "ends": [],
    }


def _parts(
    profile: Profile, settings: Settings
) -> Iterator[tuple[str, set[str], Callable[[], object]]]:
    """Yield each part's name, the repositories and the account that it needs, and its builder."""
    from scenewright.config.profiles import reached_by
    from scenewright.config.settings import settings_with
    from scenewright.providers.hub.needs import needs_of, needs_of_spec
    from scenewright.runs.model_factory.profiles import backend_of, chat_of, composer_of, judge_of

    spec = profile.backend
    known = settings_with(profile, settings)
    drawing = {need.repository for need in needs_of(profile, judges=False, report_judges=False)}
    yield f"backend {spec.kind}:{spec.model}", {*drawing, spec.kind}, lambda: backend_of(spec)
    yield f"composer {profile.composer}", set(), lambda: composer_of(profile)
    if (chat := profile.chat) is not None:
        yield f"language model {chat}", {reached_by(chat)[0]}, lambda: chat_of(chat, settings)
    for judge in (*profile.judges, *profile.report_judges):
        needs = {reached_by(judge)[0], *(need.repository for need in needs_of_spec(judge))}
        yield f"judge {judge}", needs, partial(judge_of, judge, known)


def _print(report: dict[str, Any], where: Console) -> None:
    def line(label: str, value: str, style: str = "") -> None:
        say(Text.assemble((f"{label:<14}", "bold"), (value, style)), "", where)

    python, found = report["python"], report["machine"]
    line("python", f"{python['version']}  {python['executable']}")
    have = [f"{name} {value}" for name, value in report["packages"].items() if value]
    line("packages", ", ".join(have))
    lacking = [name for name, value in report["packages"].items() if not value]
    if lacking:
        line("not installed", ", ".join(lacking) + ": pip install scenewright", "yellow")
    line("machine", f"{found['platform']}, {found['processors']} processors")
    memory = found["memory_bytes"]
    known = f"{memory / GIB:.1f} GiB" if memory else "unknown"
    line("memory", f"{known}, {found['free_disk_bytes'] / GIB:.1f} GiB free on disk")
    line("devices", ", ".join(found["devices"]))
    note = "" if found["runs_writable"] else " (not writable: set SCENEWRIGHT_RUNS)"
    line("runs", found["runs"] + note, "red" if note else "")
    weights = [f"{name} {size / 2**20:.1f} MiB" for name, size in report["weights"].items()]
    line("weights", ", ".join(weights) or "none of the embedded models are there")
    for name, profile in report["profiles"].items():
        _print_profile(name, profile, name == report["default_profile"], where)


def _print_profile(name: str, profile: dict[str, Any], default: bool, where: Console) -> None:
    from scenewright.cli.models import models_table
    from scenewright.providers.hub.cache import PULL
    from scenewright.providers.hub.needs import size_words

    def line(text: str, style: str = "") -> None:
        say(f"  {text}", style, where)

    where.print()
    verdict = ("would run", "green") if profile["runs"] else ("would not run", "red")
    say(Text.assemble((name, "bold"), ", default" if default else "", ": ", verdict), "", where)
    if profile["about"]:
        line(profile["about"], "dim")
    if profile["models"]:
        where.print(models_table(profile["models"]))
        if not all(model["complete"] for model in profile["models"]):
            line(f"fetch what is missing with `{PULL} {name}`")
    for account, found in profile["accounts"].items():
        variables = " or ".join(found["key_variables"])
        state = f"{variables} is {'set' if found['key'] else 'not set'}"
        state = state if variables else f"{found['base_url']}, needs no key"
        line(f"account {account}: {state}", "" if found["key"] else "yellow")
    for ending in profile["ends"]:
        line(ending, "yellow")
    if profile["memory"]:
        line(f"memory: {profile['memory']}")
    elif (needed := profile["memory_needed"]) is not None:
        words = {
            "whole": "fits",
            "offloaded": "fits with parts that wait in main memory (offload)",
            "no": "does not fit",
        }
        place = "main memory" if needed["device"] == "cpu" else "the CUDA device"
        of = f"the {size_words(needed['device_bytes'])} of {place}"
        line(
            f"memory: drawing needs about {size_words(needed['bytes'])} in 16 bits, which "
            f"{words[needed['fits']]} into {of}",
            "yellow" if needed["fits"] == "no" else "",
        )
    for judge, kept in profile["judges_memory"]["judges"].items():
        line(f"memory of {judge}: {kept['told']}")
    if len(profile["judges_memory"]["judges"]) > 0:
        total = size_words(profile["judges_memory"]["together_bytes"])
        line(f"memory together: about {total} on one device, without the memory that judging needs")
    for part in profile["parts"]:
        if not part["ok"] and not part["told"]:
            line(f"{part['part']}: {part['problem']}")
