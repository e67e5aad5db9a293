"""Memory as AUTOMATIC1111 tells it: of this process, its machine and its CUDA device."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

_STATM, _MEMINFO = Path("/proc/self/statm"), Path("/proc/meminfo")


class Memory(BaseModel):
    """Memory in bytes; ``error`` in place of figures that are not known."""

    ram: dict[str, int | str]
    """``used`` by this process, ``free`` on its machine and ``total`` there."""
    cuda: dict[str, Any]
    """``system`` (of the device) and what this process has ``allocated`` and ``reserved`` there."""


def memory_here() -> Memory:
    """Return the memory of this process; its models may also run in others."""
    return Memory(ram=_ram(), cuda=_cuda())


def _ram() -> dict[str, int | str]:
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        used = int(_STATM.read_text().split()[1]) * page
        known = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        free = int(known["MemAvailable"].split()[0]) * 1024
        return {"free": free, "used": used, "total": os.sysconf("SC_PHYS_PAGES") * page}
    except (OSError, ValueError, KeyError, IndexError):
        return {"error": "this system does not tell"}


def _cuda() -> dict[str, Any]:
    # Without torch no model of this process is on a device, and importing it takes seconds.
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return {"error": "unavailable"}
    free, total = torch.cuda.mem_get_info()
    stats = torch.cuda.memory_stats()

    def part(name: str) -> dict[str, int]:
        return {
            "current": int(stats.get(f"{name}.all.current", 0)),
            "peak": int(stats.get(f"{name}.all.peak", 0)),
        }

    return {
        "system": {"free": free, "used": total - free, "total": total},
        "active": part("active_bytes"),
        "allocated": part("allocated_bytes"),
        "reserved": part("reserved_bytes"),
        "inactive": part("inactive_split_bytes"),
        "events": {
            "retries": int(stats.get("num_alloc_retries", 0)),
            "oom": int(stats.get("num_ooms", 0)),
        },
    }
