"""``scenewright doctor``: the installation, and which profiles would run here and why not."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from scenewright.cli import options
from scenewright.cli.console import Exit, console, describe, fail, give, say
from scenewright.cli.doctor_account import check_account
from scenewright.core.version import VERSION

if TYPE_CHECKING:
    from rich.console import Console

    from scenewright.agents.judges.families import JudgeMemory
    from scenewright.config.profiles import Profile
    from scenewright.config.settings import Settings

PACKAGES = (
    "torch",
    "diffusers",
    "transformers",
    "langgraph",
    "langgraph-checkpoint-sqlite",
    "langchain-core",
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


def doctor(
    account: Annotated[str | None, typer.Argument()] = None,
    as_json: options.Json = False,
    profile: Annotated[str | None, typer.Option("--profile", "-p")] = None,
    online: bool = False,
    model: Annotated[list[str] | None, typer.Option("--model", "-m")] = None,
    draw: bool = False,
) -> Exit:
    """Show what is installed, and for each profile whether it would run and how to fix it.

    For each profile: which models of the hub are here, their sizes and licences; whether the
    keys of its accounts are set (never their values); about how much memory its image model needs
    and whether this machine has it; and which of its models are retired within 60 days, by the
    table of model facts (`scenewright models update`) and, with --online, by the providers' own
    lists. Uses no network without --online.

    All profiles are checked by files, keys and versions, within a second or two. The one named
    with --profile is also built with its libraries, which takes longer, finds broken installations,
    and shows how its models would be placed in memory.

    With ACCOUNT one small request goes to each model that profiles and the account's own tables
    name, through the account's address, key, limits and prices: a fraction of a cent together,
    but for --draw. It shows what is wrong and what to do about it, how the requests had to be
    sent, and what each took.

    Examples of use:

      scenewright doctor openai

      scenewright doctor ollama --model qwen3-vl:8b

    Exit codes: 0 the checked profile (else the default one) would run, or every model of ACCOUNT
    answered; 3 not so; 2 wrong input.

    Args:
        account ([ACCOUNT]): Ask the models of this account: openai, gemini, anthropic, or one of
            scenewright.toml.
        profile: Check only this profile.
        online: Ask OpenAI and Anthropic for their lists of models and when each is retired.
        model (NAME): Ask this model of ACCOUNT (decision:NAME: a decision model), in place of those
            that profiles and the account name; can be given several times.
        draw: Also draw one picture with each image model of ACCOUNT.
    """
    if account is not None:
        if profile or online:
            raise fail("ACCOUNT is checked alone: leave --profile and --online out")
        return check_account(account, model or [], draw, as_json)
    if model or draw:
        raise fail("--model and --draw need an ACCOUNT: scenewright doctor ACCOUNT --model NAME")
    from scenewright.config.settings import find_profile, load_settings, read_profiles
    from scenewright.providers.model_facts import model_facts
    from scenewright.runs.readiness import installed

    settings, facts = load_settings(), model_facts()
    wanted = profile or settings.profile
    every, broken = read_profiles(settings)
    if wanted not in broken:
        wanted = find_profile(wanted, settings).name
    if profile:
        every = {name: found for name, found in every.items() if name == wanted}
        broken = {name: problem for name, problem in broken.items() if name == wanted}
    report: dict[str, Any] = {
        "python": {"version": platform.python_version(), "executable": sys.executable},
        "packages": {"scenewright": VERSION} | {name: installed(name) for name in PACKAGES},
        "model_facts": {"as_of": str(facts.as_of), "file": facts.place},
        "machine": machine(settings.runs, _devices() if profile else _accelerators()),
        "weights": embedded_weights(),
        "profiles": {
            **{
                name: check(one, settings, online=online, build=bool(profile))
                for name, one in every.items()
            },
            **{name: _unusable(problem) for name, problem in broken.items()},
        },
        "default_profile": settings.profile,
    }
    report["ready"] = report["profiles"][wanted]["runs"]
    give(as_json, report, _print, report, console())
    return Exit.OK if report["ready"] else Exit.FAILED


def machine(runs: Path, devices: Sequence[str]) -> dict[str, Any]:
    """Return platform, processors, ``devices``, and memory and free disk in bytes."""
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
        "devices": [*devices],
    }


def _devices() -> list[str]:
    """Return the devices that torch computes on; importing it takes seconds."""
    try:
        import torch
    except Exception as error:
        # A broken build of torch raises whatever its libraries raise.
        return [f"none: torch cannot be imported ({error})"]
    from scenewright.providers.hub.needs import size_words

    found = [f"cpu ({torch.get_num_threads()} threads)"]
    for index in range(torch.cuda.device_count()):
        total = torch.cuda.get_device_properties(index).total_memory
        found.append(f"cuda:{index} {torch.cuda.get_device_name(index)}, {size_words(total)}")
    if torch.backends.mps.is_available():
        found.append("mps")
    return found


def _accelerators() -> list[str]:
    """Return the devices by what the system tells, without torch."""
    from scenewright.providers.hub.needs import size_words
    from scenewright.runs.readiness import installed, nvidia_devices

    found = ["cpu"]
    build = installed("torch") or ""
    for index, (name, size) in enumerate(nvidia_devices()):
        unused = ", which this build of torch for the CPU does not use" if "+cpu" in build else ""
        found.append(f"cuda:{index} {name}, {size_words(size)}{unused}")
    if sys.platform == "darwin" and platform.machine() == "arm64":
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


def check(
    profile: Profile, settings: Settings, *, online: bool = False, build: bool = True
) -> dict[str, Any]:
    """Return whether each part of a profile can be built here, and if not, why and what to do.

    Without ``build`` that is told by files, keys and installed libraries alone, which are not
    imported.

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
    for name, needs, make in _parts(profile, settings, build):
        # The table of models and the lines of accounts say this already.
        if lost := sorted(needs & absent):
            problem = f"not on this machine: {', '.join(lost)}"
        elif lost := sorted(needs & keyless):
            problem = f"no key: set {' or '.join(accounts[lost[0]]['key_variables'])}"
        if lost:
            found.append({"part": name, "ok": False, "problem": problem, "told": True})
            continue
        try:
            built = make()
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
    profile: Profile, settings: Settings, build: bool
) -> Iterator[tuple[str, set[str], Callable[[], object]]]:
    """Yield each part's name, the repositories and the account that it needs, and its builder.

    Without ``build``, a check of its files and libraries takes the builder's place.
    """
    from scenewright.config.profiles import LOCAL_BACKEND, local_model_of, reached_by
    from scenewright.config.settings import settings_with
    from scenewright.providers.hub.needs import needs_of, needs_of_spec

    def make(function: str, of: object, *settings: Settings | None) -> object:
        from scenewright.runs.model_factory import profiles

        return getattr(profiles, function)(of, *settings)

    spec = profile.backend
    known = settings_with(profile, settings)
    drawing = {need.repository for need in needs_of(profile, judges=False, report_judges=False)}
    files = partial(
        _check_files, spec.model if spec.kind == LOCAL_BACKEND else None, "model_index.json"
    )
    yield (
        f"backend {spec.kind}:{spec.model}",
        {*drawing, spec.kind},
        partial(make, "backend_of", spec) if build else files,
    )
    if build:
        yield f"composer {profile.composer}", set(), partial(make, "composer_of", profile)
    if (chat := profile.chat) is not None:
        made = partial(make, "chat_of", chat, settings)
        yield f"language model {chat}", {reached_by(chat)[0]}, made if build else lambda: None
    for judge in (*profile.judges, *profile.report_judges):
        needs = {reached_by(judge)[0], *(need.repository for need in needs_of_spec(judge))}
        files = partial(_check_files, local_model_of(judge), "config.json")
        yield f"judge {judge}", needs, partial(make, "judge_of", judge, known) if build else files


def _check_files(model: str | None, file: str) -> None:
    """Raise ``SettingsError`` if a local model's libraries or the ``file`` of its folder lack.

    ``model`` is None for one that is not on this machine. Models of the hub are surveyed elsewhere.
    """
    from scenewright.config.profiles import SettingsError
    from scenewright.providers.hub.needs import on_the_hub
    from scenewright.providers.hub.single_file import SingleFile, is_file
    from scenewright.runs.model_factory.local_models import (
        LIBRARIES,
        NO_LOCAL,
        backend_folder,
        judge_folder,
    )

    if model is None:
        return
    if any(find_spec(library) is None for library in LIBRARIES):
        raise SettingsError(NO_LOCAL)
    if on_the_hub(model):
        return
    if file == "model_index.json" and is_file(model):
        SingleFile.read(Path(model).expanduser())
        return
    folder = (backend_folder if file == "model_index.json" else judge_folder)(model)
    if not any((folder / name).is_file() for name in (file, f"modular_{file}")):
        raise SettingsError(f"{folder} has no {file}: name the folder of a model, or install anew")


def _print(report: dict[str, Any], where: Console) -> None:
    from scenewright.providers.hub.needs import size_words

    def line(label: str, value: str, style: str = "") -> None:
        say(Text.assemble((f"{label:<14}", "bold"), (value, style)), "", where)

    python, found = report["python"], report["machine"]
    line("python", f"{python['version']}  {python['executable']}")
    have = [f"{name} {value}" for name, value in report["packages"].items() if value]
    line("packages", ", ".join(have))
    lacking = [name for name, value in report["packages"].items() if not value]
    if lacking:
        line("not installed", ", ".join(lacking) + ": pip install scenewright", "yellow")
    facts = report["model_facts"]
    line("model facts", f"{facts['as_of']}, {facts['file'] or 'as shipped with scenewright'}")
    line("machine", f"{found['platform']}, {found['processors']} processors")
    memory = found["memory_bytes"]
    known = size_words(memory) if memory else "unknown"
    line("memory", f"{known}, {size_words(found['free_disk_bytes'])} free on disk")
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
    from scenewright.runs.readiness import memory_line

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
        line(f"memory: {memory_line(needed)}", "yellow" if needed["fits"] == "no" else "")
    for judge, kept in profile["judges_memory"]["judges"].items():
        line(f"memory of {judge}: {kept['told']}")
    if len(profile["judges_memory"]["judges"]) > 0:
        total = size_words(profile["judges_memory"]["together_bytes"])
        line(f"memory together: about {total} on one device, without the memory that judging needs")
    for part in profile["parts"]:
        if not part["ok"] and not part["told"]:
            line(f"{part['part']}: {part['problem']}")
