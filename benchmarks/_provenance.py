"""Code, weights and class of machine that made a result, and which of them changed since.

**Code** is the import closure of the benchmark's module in this repository, lazy imports included,
read from the sources. The modules that a process has loaded would be fewer, but servers, workers
and pools of a benchmark run in processes of their own, and a page is written where nothing has run.
The harness is left out: it measures nothing. Comments and docstrings are no code.

A result holds digests of two parts, because most changes of the package are of no consequence for a
given figure, and a mark on every figure after every change would say nothing:

- ``own``: the benchmark's modules and data and those that it names as ``measures``, file by file.
  If one of them changed, the figure is *stale*: a page that quotes it says so, wherever it does;
- ``rest``: the other rooms of the package that they import. The results page counts those that
  changed.

**Weights** are those that ship with the package. Python tells of every file that a process opens;
models read at least their configuration that way. Weights that only other processes read, such as
those of a server that a benchmark starts, are not seen. Replaced weights make a figure stale.

Results of before say neither. They are not called fresh: the page marks them as unknown.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import scenewright
from scenewright.evals.store.provenance import file_digest, import_closure

ROOT = Path(__file__).resolve().parents[1]
HARNESS = frozenset(
    f"benchmarks.{name}" for name in ("_harness", "_commit", "_provenance", "_templates", "_rows")
)
"""Modules that run and store measurements."""
WEIGHTS = Path(scenewright.__file__).parent / "miniature" / "weights"
_ASIDE = frozenset({"report.json", "README.md"})
"""Files beside weights that no model reads."""
_PREFIX = f"{WEIGHTS}{os.sep}"
_seen: set[str] = set()


def _opened(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not isinstance(arguments[0], str | os.PathLike):
        return
    path = os.fspath(arguments[0])
    if isinstance(path, str) and path.startswith(_PREFIX):
        folder, _, name = path.removeprefix(_PREFIX).rpartition(os.sep)
        if folder and name not in _ASIDE:
            _seen.add(folder.replace(os.sep, "/"))


sys.addaudithook(_opened)


def weights_read() -> dict[str, str]:
    """Return folder of weights → digest, of all that this process has read."""
    return {name: digest_of(WEIGHTS / name) for name in sorted(_seen)}


@cache
def digest_of(folder: Path) -> str:
    """Return 16 hex digits of SHA-256 of a folder's files; empty where it is no more."""
    found = hashlib.sha256()
    files = sorted(f for f in folder.glob("*") if f.is_file() and f.name not in _ASIDE)
    for file in files:
        found.update(file.name.encode())
        found.update(file.read_bytes())
    return found.hexdigest()[:16] if files else ""


def replaced(read: Mapping[str, str], place: Path = WEIGHTS) -> list[str]:
    """Return the folders whose weights are others now than when they were read."""
    return [name for name, digest in read.items() if digest_of(place / name) != digest]


class CodeChanges(NamedTuple):
    """Code that changed since a measurement."""

    own: list[str]
    """Files of the benchmark, and of what it measures."""
    rooms: list[str]
    """Other rooms of the package."""


def code_of(name: str, measures: Collection[str] = ()) -> dict[str, dict[str, str]]:
    """Return digests of the code behind a benchmark; ``measures``: modules or packages."""
    files = _files(name)
    places = tuple(
        module.replace(".", "/") + end for module in ("benchmarks", *measures) for end in "./"
    )
    own = {path: _digest([path]) for path in files if path.startswith(places)}
    return {"own": own, "rest": _rooms(set(files) - own.keys())}


def changes_since(name: str, code: Mapping[str, Mapping[str, str]]) -> CodeChanges:
    """Return what changed since :func:`code_of` gave ``code``."""
    rest, now = code["rest"], _rooms(set(_files(name)) - code["own"].keys())
    return CodeChanges(
        [path for path, digest in code["own"].items() if _digest([path]) != digest],
        sorted(room for room in rest.keys() | now.keys() if rest.get(room) != now.get(room)),
    )


@cache
def _files(name: str) -> tuple[str, ...]:
    """Return the paths behind a benchmark, of its data those that its modules name."""
    try:
        found = import_closure(f"benchmarks.{name}", ("scenewright", "benchmarks"), HARNESS)
    except LookupError:
        return ()
    harness = {ROOT.joinpath(*module.split(".")).with_suffix(".py") for module in HARNESS}
    own = [f for f in found if f.is_relative_to(ROOT / "benchmarks") and f.suffix == ".py"]
    text = "".join(file.read_text(encoding="utf-8") for file in own if file not in harness)
    return tuple(
        file.relative_to(ROOT).as_posix()
        for file in found
        if file not in harness
        and (file in own or file.is_relative_to(ROOT / "scenewright") or file.name in text)
    )


def _rooms(paths: Iterable[str]) -> dict[str, str]:
    """Return room → digest: the folders of the package, and those of the evaluations."""
    rooms: dict[str, list[str]] = {}
    for path in sorted(paths):
        room = re.match(r"[^/]+(/evals)?(/[^/]+(?=/))?", path)
        rooms.setdefault(room[0] if room else path, []).append(path)
    return {room: _digest(files) for room, files in rooms.items()}


def _digest(paths: Sequence[str]) -> str:
    """Return 12 hex digits of SHA-256 of files; of one that is no more, of its name alone."""
    found = hashlib.sha256()
    for path in paths:
        file = ROOT / path
        found.update(f"{path}\0{file_digest(file) if file.is_file() else ''}\0".encode())
    return found.hexdigest()[:12]


def machine_class() -> dict[str, Any]:
    """Return what decides speed and rounding: processor, its units for bfloat16, memory, device."""
    import torch

    try:
        told = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        processor = re.search(r"model name\s*: (.+)", told)
        flags = set(re.findall(r"\b(?:amx_bf16|avx512_bf16|bf16)\b", told))
    except OSError:
        processor, flags = None, set()
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpus": os.cpu_count(),
        "processor": processor[1] if processor else platform.processor() or platform.machine(),
        "bf16": sorted(flags),
        "memory_gib": round(gib),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    }
