"""``scenewright doctor``: the installation, which profiles would run, and a check of an account."""

from __future__ import annotations

import logging
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from scenewright.cli import console as terminal
from scenewright.cli import options
from scenewright.core.version import VERSION

if TYPE_CHECKING:
    from scenewright.agents.judges.families import JudgeMemory
    from scenewright.config.profiles import Profile
    from scenewright.config.settings import Settings
    from scenewright.runs.account_check import Kind, ModelCheck

PACKAGES = (
    "torch", "diffusers", "transformers", "langgraph", "langgraph-checkpoint-sqlite",
    "langchain-core", "openai", "anthropic", "google-genai", "pydantic",
    "pillow", "numpy", "networkx", "huggingface-hub", "safetensors",
    "tokenizers", "jinja2", "typer", "rich",
)  # fmt: skip


def doctor(
    account: Annotated[str | None, typer.Argument()] = None,
    as_json: options.Json = False,
    profile: Annotated[str | None, typer.Option("--profile", "-p")] = None,
    online: bool = False,
    model: Annotated[list[str] | None, typer.Option("--model", "-m")] = None,
    draw: bool = False,
) -> terminal.Exit:
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
            raise terminal.fail("ACCOUNT is checked alone: leave --profile and --online out")
        return check_account(account, model or [], draw)
    if model or draw:
        raise terminal.fail(
            "--model and --draw need an ACCOUNT: scenewright doctor ACCOUNT --model NAME"
        )
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
        "machine": machine(settings.runs, devices(by_torch=bool(profile))),
        "weights": embedded_weights(),
        "profiles": {
            **{
                name: check(one, settings, online=online, build=bool(profile))
                for name, one in every.items()
            },
            **{
                name: {
                    **{"about": "", "runs": False, "models": [], "accounts": {}, "ends": []},
                    "parts": [{"part": "settings", "ok": False, "problem": problem, "told": False}],
                    **{"memory": None, "memory_needed": None},
                    "judges_memory": {"judges": {}, "together_bytes": 0},
                }
                for name, problem in broken.items()
            },
        },
        "default_profile": settings.profile,
    }
    report["ready"] = report["profiles"][wanted]["runs"]
    terminal.print_if_json(report)
    print_report(report)
    return terminal.Exit.OK if report["ready"] else terminal.Exit.FAILED


def machine(runs: Path, found: Sequence[str]) -> dict[str, Any]:
    """Return platform, processors, the devices ``found``, and memory and free disk in bytes."""
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
        "devices": [*found],
    }


def devices(by_torch: bool) -> list[str]:
    """Return the devices that torch computes on, or those that the system names.

    Importing torch takes seconds.
    """
    from scenewright.providers.hub.needs import size_words
    from scenewright.runs.readiness import installed, nvidia_devices

    if not by_torch:
        build, unused = installed("torch") or "", ""
        if "+cpu" in build:
            unused = ", which this build of torch for the CPU does not use"
        found = [
            f"cuda:{index} {name}, {size_words(size)}{unused}"
            for index, (name, size) in enumerate(nvidia_devices())
        ]
        apple = sys.platform == "darwin" and platform.machine() == "arm64"
        return ["cpu", *found, *(["mps"] if apple else [])]
    try:
        import torch
    except Exception as error:
        # A broken build of torch raises whatever its libraries raise.
        return [f"none: torch cannot be imported ({error})"]
    found = [f"cpu ({torch.get_num_threads()} threads)"]
    for index in range(torch.cuda.device_count()):
        total = torch.cuda.get_device_properties(index).total_memory
        found.append(f"cuda:{index} {torch.cuda.get_device_name(index)}, {size_words(total)}")
    return [*found, *(["mps"] if torch.backends.mps.is_available() else [])]


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
    from scenewright.agents.judges.families import JudgeMemory, together
    from scenewright.agents.judges.models import listed_ends
    from scenewright.cli.models import present_json
    from scenewright.config.profiles import reached_by
    from scenewright.providers.hub.cache import survey
    from scenewright.providers.hub.needs import needs_of
    from scenewright.providers.model_facts import ModelEnd, endings
    from scenewright.runs import readiness

    presents = [survey(need) for need in needs_of(profile)]
    absent = {present.need.repository for present in presents if not present.complete}
    accounts = readiness.accounts_of(profile, settings)
    keyless = {name for name, account in accounts.items() if not account["key"]}
    parts: list[dict[str, Any]] = []
    drawing = None
    judges: dict[str, JudgeMemory] = {}
    for name, needs, make in profile_parts(profile, settings, build):
        problem, told = "", True
        # The table of models and the lines of accounts say this already.
        if lost := sorted(needs & absent):
            problem = f"not on this machine: {', '.join(lost)}"
        elif lost := sorted(needs & keyless):
            problem = f"no key: set {' or '.join(accounts[lost[0]]['key_variables'])}"
        else:
            told = False
            try:
                built = make()
                # Files are read when the fingerprint is computed, not when the model is named.
                _ = getattr(built, "fingerprint", None)
                drawing = getattr(built, "plan", None) or drawing
                if isinstance(kept := getattr(built, "memory", None), JudgeMemory):
                    judges[name.removeprefix("judge ")] = kept
            except Exception as error:
                problem = terminal.describe(error)[0]
        parts.append({"part": name, "ok": not problem, "problem": problem, "told": told})
    specs = readiness.model_names(profile)
    if profile.backend.kind in accounts:
        specs.insert(0, f"{profile.backend.kind}:{profile.backend.model}")
    used: dict[str, list[str]] = {}
    for spec in specs:
        name, model = reached_by(spec)
        if name in accounts:
            used.setdefault(name, []).append(model)
    ends: dict[str, ModelEnd] = {}
    failed = []
    for name, models in used.items() if online else ():
        found, problem = listed_ends(name, settings.account(name), models)
        ends |= found
        failed += [problem] if problem else []
    known = {name: settings.account(name) for name in used}
    main = readiness.memory_of_machine() or 0
    return {
        "about": profile.about,
        "runs": all(part["ok"] for part in parts),
        "parts": parts,
        "models": [present_json(present) for present in presents],
        "accounts": accounts,
        "memory": drawing.describe() if drawing is not None else None,
        "memory_needed": readiness.memory_needed(profile, main, readiness.cuda_memory()),
        "judges_memory": {
            "judges": {
                name: {"weights_bytes": kept.weights, "told": kept.describe()}
                for name, kept in judges.items()
            },
            "together_bytes": together(
                drawing.need if drawing is not None else 0, tuple(judges.values())
            ),
        },
        "ends": [one.text for one in endings(specs, known, told=ends)] + failed,
    }


def profile_parts(
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
        check_files, spec.model if spec.kind == LOCAL_BACKEND else None, "model_index.json"
    )
    yield (
        f"backend {spec.kind}:{spec.model}",
        {*drawing, spec.kind},
        partial(make, "backend_of", spec) if build else files,
    )
    if build:
        yield f"composer {profile.composer}", set(), partial(make, "composer_of", profile)
    if (chat := profile.chat) is not None:
        made = partial(make, "build_chat", chat, settings)
        yield f"language model {chat}", {reached_by(chat)[0]}, made if build else lambda: None
    for judge in (*profile.judges, *profile.report_judges):
        needs = {reached_by(judge)[0], *(need.repository for need in needs_of_spec(judge))}
        files = partial(check_files, local_model_of(judge), "config.json")
        yield (
            f"judge {judge}",
            needs,
            partial(make, "build_judge", judge, known) if build else files,
        )


def check_files(model: str | None, file: str) -> None:
    """Raise ``SettingsError`` if a local model's libraries or the ``file`` of its folder lack.

    ``model`` is None for one that is not on this machine. Models of the hub are surveyed elsewhere.
    """
    from scenewright.config.profiles import SettingsError
    from scenewright.providers.hub.needs import on_the_hub
    from scenewright.providers.hub.single_file import SingleFile, is_file
    from scenewright.runs.model_factory import local_models as local

    if model is None:
        return
    if any(find_spec(library) is None for library in local.LIBRARIES):
        raise SettingsError(local.NO_LOCAL)
    if on_the_hub(model):
        return
    if file == "model_index.json" and is_file(model):
        SingleFile.read(Path(model).expanduser())
        return
    draws = file == "model_index.json"
    folder = (local.backend_folder if draws else local.judge_folder)(model)
    if not any((folder / name).is_file() for name in (file, f"modular_{file}")):
        raise SettingsError(f"{folder} has no {file}: name the folder of a model, or install anew")


def print_report(report: dict[str, Any]) -> None:
    """Print the installation and machine, then each profile."""
    from scenewright.providers.hub.needs import size_words

    def line(label: str, value: str, style: str = "") -> None:
        terminal.say(Text.assemble((f"{label:<14}", "bold"), (value, style)))

    python, found = report["python"], report["machine"]
    line("python", f"{python['version']}  {python['executable']}")
    have = [f"{name} {value}" for name, value in report["packages"].items() if value]
    line("packages", ", ".join(have))
    absent_packages = [name for name, value in report["packages"].items() if not value]
    if absent_packages:
        line("not installed", ", ".join(absent_packages) + ": pip install scenewright", "yellow")
    facts = report["model_facts"]
    line("model facts", f"{facts['as_of']}, {facts['file'] or 'as shipped with scenewright'}")
    line("machine", f"{found['platform']}, {found['processors']} processors")
    memory = found["memory_bytes"]
    known = size_words(memory) if memory else "unknown"
    line("memory", f"{known}, {size_words(found['free_disk_bytes'])} free on disk")
    line("devices", ", ".join(found["devices"]))
    unwritable = "" if found["runs_writable"] else " (not writable: set SCENEWRIGHT_RUNS)"
    line("runs", found["runs"] + unwritable, "red" if unwritable else "")
    weights = [f"{name} {size / 2**20:.1f} MiB" for name, size in report["weights"].items()]
    line("weights", ", ".join(weights) or "none of the embedded models are there")
    for name, profile in report["profiles"].items():
        print_profile(name, profile, name == report["default_profile"])


def print_profile(name: str, profile: dict[str, Any], default: bool) -> None:
    """Print whether a profile would run, and what it needs."""
    from scenewright.cli.models import models_table
    from scenewright.providers.hub.cache import PULL
    from scenewright.providers.hub.needs import size_words
    from scenewright.runs.readiness import memory_line

    def line(text: str, style: str = "") -> None:
        terminal.say(f"  {text}", style)

    terminal.say("")
    verdict = ("would run", "green") if profile["runs"] else ("would not run", "red")
    terminal.say(Text.assemble((name, "bold"), ", default" if default else "", ": ", verdict))
    if profile["about"]:
        line(profile["about"], "dim")
    if profile["models"]:
        terminal.console().print(models_table(profile["models"]))
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


_STATES = {"ok": ("answers", "green"), "failed": ("fails", "red"), "left out": ("", "dim")}


def check_account(name: str, models: Sequence[str], draw: bool) -> terminal.Exit:
    """Ask the models of the account ``name``, or ``models`` of it, and print what came of it."""
    from scenewright.config.accounts import missing_key
    from scenewright.config.settings import load_settings, read_profiles
    from scenewright.runs import account_check as checking

    settings = load_settings()
    settings.account(name)
    where = checking.route_of(name, settings)
    settings = checking.brief(name, settings)
    account = settings.account(name)
    named = checking.models_of(name, settings)
    if models:
        known = {(one.kind, one.model): one for one in named}
        keys = []
        for one in dict.fromkeys(models):
            model = one.removeprefix("decision:")
            kind: Kind = "decision"
            if model == one:
                kind = checking.model_kind(model, account, draws=draw)
            keys.append((kind, model))
        named = tuple(known.get(key, checking.NamedModel(*key)) for key in keys)
    terminal.say(Text.assemble(("account ", "bold"), (name, "bold"), f": {where}"))
    if not named:
        broken = ", ".join(sorted(read_profiles(settings)[1]))
        unread = f" ({broken} cannot be read: `scenewright doctor`)" if broken else ""
        listed = terminal.run_and_free(checking.listed_models(name, settings))
        has = f"; it lists {checking.first_of(listed)}" if listed else ""
        raise terminal.fail(f"no profile names a model of {name}{unread}: add --model NAME{has}")
    if account.key() is None:
        raise terminal.fail(missing_key(account.provider, name), terminal.Exit.FAILED)
    charged, texts = not account.self_hosted, []
    if answers := sum(one.kind != "image" for one in named):
        cost = ", a fraction of a cent" if charged else ""
        texts.append(f"{answers} small answer{'s' * (answers != 1)}{cost}")
    for image in (one for one in named if draw and one.kind == "image"):
        usd = checking.drawing_usd(name, image, settings)
        price = "its price is unknown" if usd is None else f"about ${usd:.3f}"
        texts.append(f"a picture by {image.model}{f' ({price})' if charged else ''}")
    asks = f"asking {name} for {' and '.join(texts)}"
    terminal.note(asks if texts else f"nothing is asked of {name}")

    async def check_all() -> list[ModelCheck]:
        # One after the other: what one shows is not another's load.
        return [
            await checking.check_model(name, one, settings)
            if draw or one.kind != "image"
            else checking.ModelCheck(one.model, one.kind, "left out", "not drawn: add --draw")
            for one in named
        ]

    # The report says what the log of calls would.
    calls = logging.getLogger("scenewright.providers")
    before = calls.level
    if not terminal.debugging():
        calls.setLevel(logging.CRITICAL)
    try:
        checks = terminal.run_and_free(check_all())
    finally:
        calls.setLevel(before)
    ok = all(check.state != "failed" for check in checks)
    models_json = [asdict(check) for check in checks]
    terminal.print_if_json({"account": name, "route": where, "ok": ok, "models": models_json})
    _print_checks(checks)
    return terminal.Exit.OK if ok else terminal.Exit.FAILED


def _print_checks(checks: Sequence[ModelCheck]) -> None:
    for check in checks:
        word, style = _STATES[check.state]
        word = "draws" if check.kind == "image" and check.state == "ok" else word
        figures = [f"{check.seconds:.1f} s"] if check.seconds is not None else []
        if check.usage.tokens_in or check.usage.tokens_out:
            figures.append(f"{check.usage.tokens_in} + {check.usage.tokens_out} tokens")
            figures += [f"${check.usd:.6f}"] if check.usd else []
        title = (f"{check.kind} {check.model}", "bold")
        head = Text.assemble(title, ": ", (word or check.problem, style))
        terminal.say(Text.assemble(head, *(f", {figure}" for figure in figures)))
        lines = [(check.problem, "red")] if check.state == "failed" else []
        lines += [(f"what to do: {check.remedy}", "")] if check.remedy else []
        if check.served not in ("", check.model):
            lines.append((f"served by {check.served}", ""))
        lines += [("; ".join(check.learnt), "dim")] if check.learnt else []
        lines += [(f"first {reason}", "dim") for reason in check.retries]
        lines += [(warning, "yellow") for warning in check.warnings]
        for text, colour in lines:
            terminal.say(f"  {text}", colour)
