"""Readiness of this machine for a profile, found without loading a model or its libraries.

What it needs of memory by the table of known models, which accounts lack a key, and which models
are not here yet. ``scenewright doctor --profile`` builds every part besides.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from scenewright.config.profiles import (
    CHAT_KINDS,
    JUDGE_KINDS,
    LOCAL_BACKEND,
    Profile,
    local_model_of,
    reached_by,
)
from scenewright.config.settings import Settings
from scenewright.core.ports.backend import BackendError
from scenewright.providers.hub.cache import pull_commands, survey
from scenewright.providers.hub.needs import needs_of, size_words
from scenewright.providers.hub.single_file import SingleFile, is_file
from scenewright.runs.model_factory.local_models import LIBRARIES

_DRAWING = 1.1
"""Memory of a drawing over that of the weights: of SDXL and FLUX.2 klein at 1024×1024 pixels."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Memory and libraries of a machine."""

    main: int
    """Bytes of main memory; 0 where the system does not tell."""
    cuda: int = 0
    """Bytes of the largest CUDA device; 0 without one."""
    local: bool = True
    """Whether the libraries for models on this machine are installed."""


def this_machine() -> Machine:
    """Return what this machine has."""
    local = all(find_spec(name) is not None for name in LIBRARIES)
    return Machine(memory_of_machine() or 0, cuda_memory(), local)


def installed(name: str) -> str | None:
    """Return the version of a package; None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def memory_of_machine() -> int | None:
    """Return the bytes of main memory; None where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None


@cache
def nvidia_devices() -> tuple[tuple[str, int], ...]:
    """Return name and bytes of each NVIDIA device that programs may see, by ``nvidia-smi``."""
    command = shutil.which("nvidia-smi")
    if command is None or os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return ()
    asked = [command, "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    rows = [line.rsplit(",", 1) for line in told.splitlines() if "," in line]
    return tuple((name.strip(), int(size) * 2**20) for name, size in rows if size.strip().isdigit())


def cuda_memory() -> int:
    """Return the bytes of the largest CUDA device that torch can use; 0 without one."""
    if "+cpu" in (installed("torch") or ""):
        return 0
    return max((size for _, size in nvidia_devices()), default=0)


def memory_needed(profile: Profile, main: int, cuda: int = 0) -> dict[str, Any] | None:
    """Return what drawing takes of memory in 16 bits, and how it fits here; None where unknown.

    By the sizes of the built-in table, so that a profile can be chosen before its models are
    fetched. ``main`` and ``cuda`` are bytes of main memory and of the largest CUDA device.
    ``fits`` is ``whole``, ``offloaded`` (parts wait in main memory) or ``no``.
    """
    from scenewright.tools.backends.memory import usable

    sizes = [need.known_bytes() for need in needs_of(profile, judges=False, report_judges=False)]
    spec = profile.backend
    if spec.kind == LOCAL_BACKEND and is_file(spec.model):
        try:
            sizes.append(SingleFile.read(Path(spec.model).expanduser()).known_bytes)
        except BackendError:
            return None
    if not sizes or None in sizes:
        return None
    weights = sum(size for size in sizes if size is not None)
    needed = round(weights * _DRAWING)
    fits = "no"
    if needed <= usable(cuda or main):
        fits = "whole"
    elif cuda and weights <= usable(main):
        fits = "offloaded"
    device = {"device": "cuda" if cuda else "cpu", "device_bytes": cuda or main}
    return {"bytes": needed, **device, "fits": fits}


def memory_line(needed: Mapping[str, Any]) -> str:
    """Return what :func:`memory_needed` found, in words."""
    fits = {
        "whole": "fits",
        "offloaded": "fits with parts that wait in main memory (offload)",
        "no": "does not fit",
    }[needed["fits"]]
    place = "main memory" if needed["device"] == "cpu" else "the CUDA device"
    return (
        f"drawing needs about {size_words(needed['bytes'])} in 16 bits, which {fits} into the "
        f"{size_words(needed['device_bytes'])} of {place}"
    )


def model_names(profile: Profile) -> list[str]:
    """Return the judges and the language model of a profile."""
    return [*profile.judges, *profile.report_judges, *filter(None, (profile.chat,))]


def accounts_of(profile: Profile, settings: Settings) -> dict[str, Any]:
    """Return the accounts of a profile: the variables of the key, and whether one is set."""
    found = {}
    for name in sorted(profile.accounts):
        account = settings.account(name)
        found[name] = {
            "provider": account.provider,
            "base_url": account.base_url,
            "key_variables": list(account.key_variables),
            "key": account.key() is not None,
        }
    return found


def obstacle(profile: Profile, settings: Settings, machine: Machine) -> str:
    """Return the first thing that keeps ``profile`` from running on ``machine``, and its remedy.

    One line, with a command in backticks where one helps; empty where it can run.
    """
    try:
        needed = next(_lacking(profile, settings, machine, ()), "")
    except (ValueError, OSError):
        # A wrong account or an unreadable file of keys; its words name places of this machine.
        needed = "settings that can be read: `scenewright doctor`"
    return f"needs {needed}" if needed else ""


def lacking(
    profile: Profile,
    settings: Settings,
    machine: Machine | None = None,
    replaced: Collection[str] = (),
) -> tuple[str, ...]:
    """Return what a run of ``profile`` lacks here, each with its remedy; empty: nothing.

    Looks for the files of models, for libraries and for the keys of accounts, and with ``machine``
    for its memory; what only building the models shows is not found. ``replaced`` names models
    (``backend``, ``judges``, ``report_judges``, ``composer``) that others take the place of.
    Nothing is loaded, and no network is used.
    """
    return tuple(dict.fromkeys(_lacking(profile, settings, machine, replaced)))


def _lacking(
    profile: Profile, settings: Settings, machine: Machine | None, replaced: Collection[str]
) -> Iterator[str]:
    # What is not on the disk yet comes after what no download mends.
    wanted = {name: name not in replaced for name in ("backend", "judges", "report_judges")}
    specs = [
        spec
        for name in ("judges", "report_judges")
        for spec in (getattr(profile, name) if wanted[name] else ())
    ]
    drawn_here = wanted["backend"] and profile.backend.kind == LOCAL_BACKEND
    if drawn_here or any(local_model_of(spec) is not None for spec in specs):
        local = all(find_spec(name) is not None for name in LIBRARIES)
        if not (local if machine is None else machine.local):
            yield "the libraries for models on this machine: `pip install 'scenewright[local]'`"
    if machine is not None and machine.main and wanted["backend"]:
        needed = memory_needed(profile, machine.main, machine.cuda)
        if needed is not None and needed["fits"] == "no":
            yield (
                f"about {size_words(needed['bytes'])} of memory to draw, and this machine has "
                f"{size_words(needed['device_bytes'])}: use a larger machine, or a smaller model"
            )
    if profile.chat is not None and "composer" not in replaced:
        specs.append(profile.chat)
    kinds = {reached_by(spec)[0] for spec in specs}
    if wanted["backend"]:
        kinds.add(profile.backend.kind)
    for kind in sorted(kinds - {LOCAL_BACKEND, *JUDGE_KINDS, *CHAT_KINDS}):
        account = settings.account(kind)
        if account.key() is None:
            ways = " or ".join((f"`scenewright keys set {kind}`", *account.key_variables))
            yield f"a key for {kind}: set it with {ways}"
    absent = [found for need in needs_of(profile, **wanted) if not (found := survey(need)).complete]
    if absent:
        sizes = [found.need.known_bytes() for found in absent]
        known = sum(size for size in sizes if size is not None)
        more = "more than " if None in sizes else "about "
        size = f" ({more}{size_words(known)})" if known else ""
        rest = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        model, them = ("models", "them") if rest else ("model", "it")
        commands = " and ".join(f"`{command}`" for command in pull_commands(profile, absent))
        yield (
            f"the {model} {absent[0].need.repository}{rest}{size}, not on this machine: get {them} "
            f"with {commands}"
        )
