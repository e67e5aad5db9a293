"""``scenewright doctor``: what is installed, and which profiles would run here and why not."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from scenewright.commands.console import (
    Exit,
    clear_errors,
    console,
    describe,
    print_json,
    quiet_libraries,
)
from scenewright.commands.refine import JsonOption

if TYPE_CHECKING:
    from rich.console import Console

    from scenewright.settings import Profile

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
    "safetensors",
    "tokenizers",
    "jinja2",
    "typer",
    "rich",
)
GIB = 2**30


def doctor(
    as_json: JsonOption = False,
    profile: Annotated[
        str | None, typer.Option("--profile", "-p", help="Look at this profile only.")
    ] = None,
) -> None:
    """Tell what is installed, and for each profile whether it would run and how to fix it.

    Exit codes: 0 the looked at profile (else the default one) would run; 3 it would not;
    2 wrong input.
    """
    with clear_errors():
        quiet_libraries()
        # Looking must not download gigabytes: only what is on this machine counts.
        os.environ["HF_HUB_OFFLINE"] = "1"
        from scenewright.settings import find_profile, load_profiles, load_settings

        settings = load_settings()
        wanted = find_profile(profile or settings.profile, settings).name
        every = load_profiles(settings)
        chosen = [every[wanted]] if profile else list(every.values())
        report: dict[str, Any] = {
            "python": {"version": platform.python_version(), "executable": sys.executable},
            "packages": {name: installed(name) for name in PACKAGES},
            "machine": machine(settings.runs),
            "weights": embedded_weights(),
            "profiles": {p.name: check(p) for p in chosen},
            "default_profile": settings.profile,
        }
        report["ready"] = report["profiles"][wanted]["runs"]
        if as_json:
            print_json(report)
        else:
            _print(report, console())
    raise typer.Exit(int(Exit.OK if report["ready"] else Exit.FAILED))


def installed(name: str) -> str | None:
    """The version of a package; none if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def machine(runs: Path) -> dict[str, Any]:
    """Platform, processors, memory and free disk in bytes, and devices."""
    place = runs.absolute()
    while not place.exists():
        place = place.parent
    return {
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "memory_bytes": _memory(),
        "free_disk_bytes": shutil.disk_usage(place).free,
        "runs": str(runs.absolute()),
        "runs_writable": os.access(place, os.W_OK),
        "devices": _devices(),
    }


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None


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
    """Bytes of each embedded model that is there, by its folder's name."""
    from scenewright.profiles import MINIATURE_WEIGHTS

    sizes: dict[str, int] = {}
    for file in sorted(MINIATURE_WEIGHTS.rglob("*.safetensors")):
        parts = file.relative_to(MINIATURE_WEIGHTS).parts
        name = "/".join(parts[:2] if parts[0] == "judges" else parts[:1])
        sizes[name] = sizes.get(name, 0) + file.stat().st_size
    return sizes


def check(profile: Profile) -> dict[str, Any]:
    """Whether each part of a profile can be built here, and if not, why and what to do."""
    from scenewright.profiles import backend_of, composer_of, judge_of

    parts: list[tuple[str, Callable[[], object]]] = [
        (
            f"backend {profile.backend.kind}:{profile.backend.model}",
            lambda: backend_of(profile.backend),
        ),
        (f"composer {profile.composer}", lambda: composer_of(profile)),
    ]
    for judge in (*profile.judges, *profile.report_judges):
        parts.append((f"judge {judge}", lambda spec=judge: judge_of(spec)))  # type: ignore[misc]
    found = []
    for name, build in parts:
        try:
            # Files are looked for when the fingerprint is asked, not when the model is named.
            _ = getattr(build(), "fingerprint", None)
        except Exception as error:
            found.append({"part": name, "ok": False, "problem": _remedy(describe(error)[0])})
        else:
            found.append({"part": name, "ok": True, "problem": ""})
    return {"about": profile.about, "runs": all(part["ok"] for part in found), "parts": found}


def _remedy(problem: str) -> str:
    """``problem`` as it is for a reader who did not forbid the network."""
    if "HF_HUB_OFFLINE" not in problem:
        return problem
    return (
        f"{problem.split(' and HF_HUB_OFFLINE')[0]}: it is downloaded when the profile is first "
        "used (or now, with `hf download NAME`)"
    )


def _print(report: dict[str, Any], where: Console) -> None:
    def line(label: str, value: str, style: str = "") -> None:
        where.print(Text.assemble((f"{label:<14}", "bold"), (value, style)), soft_wrap=True)

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
        default = ", default" if name == report["default_profile"] else ""
        where.print()
        verdict = ("would run", "green") if profile["runs"] else ("would not run", "red")
        where.print(Text.assemble((name, "bold"), default, ": ", verdict))
        where.print(Text(f"  {profile['about']}", "dim"), soft_wrap=True)
        for part in profile["parts"]:
            if not part["ok"]:
                where.print(Text(f"  {part['part']}: {part['problem']}"), soft_wrap=True)
