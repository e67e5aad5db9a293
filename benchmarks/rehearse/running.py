"""Rehearse the models of a profile, each in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from benchmarks.rehearse.child import Job, RehearsedModel
from benchmarks.rehearse.hub_folder import HubFolder
from benchmarks.rehearse.tensors import RehearsalError
from scenewright.config.profiles import (
    LOCAL_BACKEND,
    LOCAL_JUDGE,
    Profile,
    SettingsError,
    split_judge,
)
from scenewright.config.settings import Settings, find_profile
from scenewright.core.validation import FrozenModel
from scenewright.providers.hub.architectures import read_architectures
from scenewright.providers.hub.needs import Need, needs_of

_LINE_LIMIT = 2**20
_ERROR_END = 600
_CHECKOUT = Path(__file__).resolve().parents[2]


class RehearsalOptions(FrozenModel):
    """How models are rehearsed."""

    size: tuple[int, int] = (256, 256)
    """(width, height) in pixels of the pictures."""
    steps: int = 2
    """Denoising steps of each picture."""
    device: str = "auto"
    """Where the image model computes: ``auto``, ``cpu``, ``cuda``, …"""
    dtype: str = "bfloat16"
    """Number format of the weights."""
    images: bool = True
    """Whether the image model is rehearsed."""
    judges: bool = True
    """Whether the local judges are rehearsed."""
    architectures: tuple[Path, ...] = ()
    """Folders with further architecture files."""
    changes: dict[str, Any] = Field(default_factory=dict)
    """Values of configurations by ``PART.KEY``, in place of the published ones."""


class Rehearsal(FrozenModel):
    """What was rehearsed of a profile."""

    profile: str
    size: tuple[int, int]
    steps: int
    changes: dict[str, Any]
    models: tuple[RehearsedModel, ...]
    left_out: dict[str, str]
    """Models that were not rehearsed, each with the reason."""


def profile_of(name: str, settings: Settings | None = None) -> tuple[Profile, bool, bool]:
    """Return a profile for ``name``, and whether its image model and its judges are meant.

    A profile's name, or ``diffusers:MODEL`` or ``local:MODEL`` alone. Raises ``SettingsError``.
    """
    if ":" not in name:
        return find_profile(name, settings), True, True
    kind, _, model = name.partition(":")
    bare = find_profile("miniature", settings)
    if kind == LOCAL_JUDGE and model:
        changed = {"name": name, "judges": (name,), "report_judges": ()}
        return bare.model_copy(update=changed), False, True
    if kind == LOCAL_BACKEND and model:
        spec = bare.backend.model_copy(update={"model": model})
        return bare.model_copy(update={"name": name, "backend": spec}), True, False
    raise SettingsError(
        f"{name!r} is not a model of this machine: write diffusers:OWNER/NAME, local:OWNER/NAME, "
        "or the name of a profile"
    )


async def rehearse(
    profile: Profile,
    options: RehearsalOptions | None = None,
    doing: Callable[[str], None] = lambda text: None,
) -> Rehearsal:
    """Rehearse the image model and the local judges of ``profile``, one after the other.

    Files that are fetched are not used: what the hub has of a model is replaced by its architecture
    with random weights. Models that come with the package, and folders, keep their own weights.
    ``doing`` is called with what is done next. Raises ``RehearsalError`` for a model that does not
    fit into memory, a shape that fails, or if nothing can be rehearsed.
    """
    options = options or RehearsalOptions()
    known = read_architectures(options.architectures)
    left_out: dict[str, str] = {}
    done: list[RehearsedModel] = []
    with tempfile.TemporaryDirectory(prefix="scenewright-rehearsal-") as temporary:
        hub = HubFolder(Path(temporary), known, options.changes, doing)
        jobs = []
        for model, judge, needs in _models(profile, options, left_out):
            if lost := [need.repository for need in needs if need.repository not in known]:
                left_out[model] = f"no architecture of {', '.join(lost)} is known"
                continue
            for need in needs:
                hub.write(need)
            job = Job(
                profile=profile,
                judge=judge,
                size=options.size,
                steps=options.steps,
                device=options.device,
                dtype=options.dtype,
                random=bool(needs),
            )
            jobs.append(job)
        if not jobs:
            raise RehearsalError(_nothing(profile, left_out, sorted(known)))
        hub.check_changes()
        for job in jobs:
            done.append(await _apart(job, Path(temporary), doing))
    return Rehearsal(
        profile=profile.name,
        size=options.size,
        steps=options.steps,
        changes=options.changes,
        models=tuple(done),
        left_out=left_out,
    )


def _models(
    profile: Profile, options: RehearsalOptions, left_out: dict[str, str]
) -> list[tuple[str, str | None, tuple[Need, ...]]]:
    """Return name, judge and hub files of each model; those of accounts are ``left_out``."""
    found: list[tuple[str, str | None, tuple[Need, ...]]] = []
    spec = profile.backend
    name = f"{spec.kind}:{spec.model}"
    if options.images and spec.kind == LOCAL_BACKEND:
        needs = needs_of(profile, judges=False, report_judges=False)
        found.append((name, None, needs))
    elif options.images:
        left_out[name] = "it is not on this machine but behind an account"
    specs = dict.fromkeys((*profile.judges, *profile.report_judges)) if options.judges else {}
    for judge in specs:
        if split_judge(judge)[0] != LOCAL_JUDGE:
            left_out[judge] = f"only judges {LOCAL_JUDGE}:… are rehearsed"
            continue
        alone = profile.model_copy(update={"judges": (judge,), "report_judges": ()})
        found.append((judge, judge, needs_of(alone, backend=False)))
    return found


def _nothing(profile: Profile, left_out: Mapping[str, str], known: Sequence[str]) -> str:
    reasons = "".join(f"\n  {model}: {reason}" for model, reason in left_out.items())
    return (
        f"nothing of the profile {profile.name!r} can be rehearsed:{reasons}\n"
        f"Architectures are known of {', '.join(known)}; --architectures names a folder with others"
    )


async def _apart(job: Job, cache: Path, doing: Callable[[str], None]) -> RehearsedModel:
    """Rehearse ``job`` in a process whose hub cache is ``cache``."""
    # The benchmarks are found from any working folder.
    found = os.pathsep.join(filter(None, (str(_CHECKOUT), os.environ.get("PYTHONPATH"))))
    hub = {"HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    environment = {**os.environ, **hub, "PYTHONPATH": found}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.rehearse.child",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        limit=_LINE_LIMIT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        errors = asyncio.ensure_future(process.stderr.read())
        process.stdin.write(job.model_dump_json().encode())
        process.stdin.close()
        problem = ""
        async for line in process.stdout:
            message = _message(line)
            if "doing" in message:
                doing(message["doing"])
            elif "result" in message:
                await process.wait()
                return RehearsedModel.model_validate(message["result"])
            problem = message.get("problem", problem)
        code, said = await process.wait(), (await errors).decode(errors="replace")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    name = job.judge or f"{job.profile.backend.kind}:{job.profile.backend.model}"
    if problem:
        raise RehearsalError(f"{name}: {problem}")
    if code == -signal.SIGKILL:
        raise RehearsalError(
            f"{name}: the system ended the process, most likely because memory ran out: end other "
            "programs, use a smaller --size, or a smaller model with --set"
        )
    raise RehearsalError(f"{name}: the process ended with {code}: {said.strip()[-_ERROR_END:]}")


def _message(line: bytes) -> dict[str, Any]:
    """Return the object in ``line``; an empty one for what a library printed."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
