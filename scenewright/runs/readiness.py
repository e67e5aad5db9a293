"""Whether a profile can run on this machine, told without loading a model or its libraries.

What it needs of memory by the table of known models, and which accounts lack a key.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from scenewright.config.profiles import Profile
from scenewright.config.settings import Settings
from scenewright.providers.hub.needs import needs_of, size_words

_DRAWING = 1.1
"""What a picture takes besides the weights, about: SDXL and FLUX.2 klein at 1024×1024 pixels."""


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
