"""Whether a profile can run on this machine, told without loading a model or its libraries.

What it needs of memory by the table of known models, which accounts lack a key, and which models
are not here yet. ``scenewright doctor --profile`` builds every part besides.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from scenewright.config.profiles import JUDGE_KINDS, LOCAL_BACKEND, Profile, reached_by
from scenewright.config.settings import Settings
from scenewright.providers.hub.cache import PULL, survey
from scenewright.providers.hub.needs import needs_of, size_words
from scenewright.runs.model_factory.local_models import LIBRARIES

_DRAWING = 1.1
"""What a picture takes besides the weights, about: SDXL and FLUX.2 klein at 1024×1024 pixels."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine has for models."""

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
    """Return why ``profile`` cannot run on ``machine`` and what to do; empty where it can.

    One line, with a command in backticks where one helps. What only building the models shows is
    not found.
    """
    found = (find(profile, settings, machine) for find in _OBSTACLES)
    try:
        needed = next(filter(None, found), "")
    except (ValueError, OSError):
        # A wrong account or an unreadable file of keys; its words name places of this machine.
        needed = "settings that can be read: `scenewright doctor`"
    return f"needs {needed}" if needed else ""


def _libraries(profile: Profile, settings: Settings, machine: Machine) -> str:
    local = profile.backend.kind == LOCAL_BACKEND
    local = local or any(reached_by(spec)[0] in JUDGE_KINDS for spec in profile.judges)
    if machine.local or not local:
        return ""
    return "the libraries for models on this machine: `pip install 'scenewright[local]'`"


def _memory(profile: Profile, settings: Settings, machine: Machine) -> str:
    needed = memory_needed(profile, machine.main, machine.cuda) if machine.main else None
    if needed is None or needed["fits"] != "no":
        return ""
    return (
        f"about {size_words(needed['bytes'])} of memory to draw, and this machine has "
        f"{size_words(needed['device_bytes'])}: use a larger machine, or a smaller model"
    )


def _keys(profile: Profile, settings: Settings, machine: Machine) -> str:
    keyless = [name for name, one in accounts_of(profile, settings).items() if not one["key"]]
    if not keyless:
        return ""
    named = f"{', '.join(keyless[:-1])} and {keyless[-1]}" if len(keyless) > 1 else keyless[0]
    kind = "keys" if len(keyless) > 1 else "a key"
    return f"{kind} for {named}: `scenewright keys set {keyless[0]}`"


def _models(profile: Profile, settings: Settings, machine: Machine) -> str:
    absent = [found for need in needs_of(profile) if not (found := survey(need)).complete]
    if not absent:
        return ""
    sizes = [found.need.known_bytes() for found in absent]
    known = sum(size for size in sizes if size is not None)
    more = "more than " if None in sizes else "about "
    size = f" ({more}{size_words(known)})" if known else ""
    rest = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
    return f"{absent[0].need.repository}{rest}{size}: `{PULL} {profile.name}`"


_OBSTACLES: tuple[Callable[[Profile, Settings, Machine], str], ...] = (
    _libraries,
    _memory,
    _keys,
    _models,
)
"""Asked in this order: what is not on the disk yet comes after what no download mends."""
