"""A run's folder: its place, its lock, its manifest.

::

    reading-*.json     what a language model read in its sentence, and what that cost
    manifest.json      what was asked, of which models, with which versions
    events.jsonl       what happened, one event a line
    images/            every image by content hash
    answers.sqlite     every answer that was paid for
    checkpoints.sqlite where the loop stands
    result.json        the result, once there is one
    index.html         the page of all rounds
    run.lock           held by the process that drives the run
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from scenewright.config.accounts import DECISION_KIND
from scenewright.core.flushing import write_text
from scenewright.core.validation import cut_short
from scenewright.core.version import VERSION
from scenewright.graphs.errors import ModelsChangedError
from scenewright.graphs.errors import RunError as RunError
from scenewright.providers.model_facts import model_facts

MANIFEST = "manifest.json"
READING = "reading-"
"""Start of the names of files that keep what a language model read."""
EVENTS = "events.jsonl"
RESULT = "result.json"
PARTIAL_IMAGE = "partial_image.json"
"""The newest partial image of a run that a service drives; gone once the picture is there."""
WATCHED = "watched"
"""Empty file that a server touches while somebody looks at a run that another process drives."""
PAGE_FILE = "index.html"
IMAGES = "images"
ANSWERS = "answers.sqlite"
CHECKPOINTS = "checkpoints.sqlite"
LOCK = "run.lock"
FORMAT = 1
_PACKAGES = (
    "langgraph",
    "langgraph-checkpoint-sqlite",
    "torch",
    "diffusers",
    "transformers",
    "pydantic",
    "pillow",
    "numpy",
)
_DIFFERENCES_SHOWN = 6


class RunBusy(RunError):
    """Another process (or task) drives the run."""


def short_digest(config: Mapping[str, Any]) -> str:
    """Ten hex digits that name a configuration."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:10]


def choose_folder(runs: Path, config: Mapping[str, Any], *, resume: bool) -> Path:
    """Return the folder of this configuration below ``runs``: ``<utc date>-<digest>[-<number>]``.

    With ``resume`` the newest one that exists, whatever its day; else a new one.
    """
    digest = short_digest(config)
    pattern = re.compile(rf"(\d{{8}})-{digest}(?:-(\d+))?")
    found: list[tuple[str, int, Path]] = []
    try:
        for entry in runs.iterdir() if runs.is_dir() else ():
            match = pattern.fullmatch(entry.name)
            if match and entry.is_dir():
                found.append((match[1], int(match[2] or 1), entry))
    except OSError as error:
        raise RunError(f"{runs} cannot be read: {error.strerror or error}") from error
    if resume and found:
        return max(found)[2]
    today = datetime.now(UTC).strftime("%Y%m%d")
    taken = [number for day, number, _ in found if day == today]
    suffix = f"-{max(taken) + 1}" if taken else ""
    return runs / f"{today}-{digest}{suffix}"


def write_json(path: Path, data: Any) -> None:
    """Write ``data`` so that the file is either the old one or the whole new one."""
    write_text(
        path, json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    )


_HASH = re.compile(r"[0-9a-f]{32,}")


def differences(old: Any, new: Any, place: str = "") -> list[str]:
    """Return where two JSON values differ, as ``place was old and is new now``; without hashes."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        found: list[str] = []
        for key in sorted({*old, *new}):
            inner = f"{place}.{key}" if place else str(key)
            found.extend(differences(old.get(key), new.get(key), inner))
        return found
    if old == new:
        return []
    if any(isinstance(value, str) and _HASH.fullmatch(value) for value in (old, new)):
        return [f"{place} has changed"]
    return [f"{place} was {_short(old)} and is {_short(new)} now"]


@cache
def installed_versions() -> Mapping[str, str]:
    """Versions of Python, scenewright, the packages that can change a result, and model facts."""
    found = {"python": platform.python_version(), "scenewright": VERSION}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found | {"model facts": model_facts().version}


@cache
def prompt_hashes() -> Mapping[str, str]:
    """Return the SHA-256 of every prompt file of the package, by its path below ``prompts/``."""
    found: dict[str, str] = {}
    root = resources.files("scenewright.prompts")
    with resources.as_file(root) as folder:
        for file in sorted(folder.rglob("*.md")):
            name = file.relative_to(folder).as_posix()
            found[name] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


class RunFolder:
    """One run's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def id(self) -> str:
        """The folder's name."""
        return self.path.resolve().name

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder and hold its lock; the system frees it however the process ends.

        Raises ``RunError`` if another process (or task) drives the run, or the folder cannot
        be made or written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            handle = os.open(self / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise RunError(
                f"{self.path} cannot be used as a run folder: {error.strerror or error}. "
                "Choose a folder that you may write in"
            ) from error
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = os.pread(handle, 32, 0).decode(errors="replace").strip() or "unknown"
                raise RunBusy(
                    f"the run in {self.path} is being driven by process {owner}: wait for it, "
                    "or choose another folder"
                ) from None
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(handle)

    def manifest(self) -> dict[str, Any] | None:
        """Return the manifest; None if the folder holds no run.

        ``RunError`` if it cannot be read.
        """
        path = self / MANIFEST
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise RunError(f"{path} cannot be read: {error}. Restore it, or start anew") from error
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise RunError(f"{path} is of another version of scenewright: use another folder")
        return data

    def check_config(self, config: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the manifest of a run of the same configuration; None if there is no run yet.

        Raises ``RunError`` that names what differs, or what else lies in the folder.
        """
        manifest = self.manifest()
        if manifest is None:
            foreign = [
                entry.name
                for entry in self.path.iterdir()
                if entry.name not in (LOCK, f".{MANIFEST}.tmp")
                and not entry.name.removeprefix(".").startswith(READING)
            ]
            if foreign:
                raise RunError(
                    f"{self.path} is not empty and holds no run (it has {sorted(foreign)[0]!r}): "
                    "choose a new folder"
                )
            return None
        old, new = _as_json(manifest["config"]), _as_json(config)
        found = ["another scene"] if old.get("scene") != new.get("scene") else []
        for part in sorted({*old, *new} - {"scene"}):
            place = "" if part != "replaced" else part
            found += differences(old.get(part), new.get(part), place)
        if found:
            raise RunError(
                f"{self.path} holds a run of another configuration: {_listed(found)}. Name another "
                "folder for a new run, or ask for the same again to continue this one"
            )
        return manifest

    def check_models(
        self,
        manifest: Mapping[str, Any],
        models: Mapping[str, Any],
        addresses: Mapping[str, str] | None = None,
    ) -> None:
        """Raise ``ModelsChangedError`` if the run was begun with other models; says which, and how.

        ``addresses`` are those of now, as :meth:`write_manifest` takes them.
        """
        old, new = _as_json(manifest["models"]), _as_json(models)
        moved = _moved(manifest.get("addresses", {}), addresses or {})
        if old == new:
            return
        found = _model_changes(old, new, tuple(moved))
        before, now = manifest.get("versions", {}), installed_versions()
        versions = [
            f"{name} was {before[name]} and is {now[name]} now"
            for name in sorted({*before, *now})
            if before.get(name) != now.get(name) and name in before and name in now
        ]
        why = f" ({_listed(versions)})" if versions else ""
        raise ModelsChangedError(
            f"{self.path} holds a run that was begun with other models: "
            f"{_listed([*moved.values(), *found])}{why}. "
            "Begin a new run with --fresh (resume=False), or name another folder where you named "
            "this one; with the models of its beginning, the same command continues it",
            _listed([*(f"the account {name} has another address" for name in moved), *found]),
        )

    @property
    def finished(self) -> bool:
        """Whether it holds the result of a run."""
        return (self / RESULT).exists()

    def nonce(self) -> str:
        """Names the run among all runs of all folders; that of an older run is its id.

        Empty before there is a manifest.
        """
        manifest = self.manifest() or {}
        return str(manifest.get("nonce") or manifest.get("run_id") or "")

    def write_manifest(
        self,
        config: Mapping[str, Any],
        models: Mapping[str, Any],
        nonce: str = "",
        addresses: Mapping[str, str] | None = None,
    ) -> None:
        """Note what the run is made of; without a ``nonce`` it gets a random one.

        ``addresses``: account → its server without secrets; empty: the provider's own.
        """
        write_json(
            self / MANIFEST,
            {
                "format": FORMAT,
                "run_id": self.id,
                "nonce": nonce or secrets.token_hex(16),
                "created": datetime.now(UTC).isoformat(timespec="seconds"),
                "config": config,
                "models": models,
                "addresses": dict(addresses or {}),
                "versions": dict(installed_versions()),
                "prompts": dict(prompt_hashes()),
            },
        )


def _as_json(data: Any) -> Any:
    return json.loads(json.dumps(data))


def _listed(found: Sequence[str], between: str = "; ") -> str:
    more = len(found) - _DIFFERENCES_SHOWN
    shown = [*found[:_DIFFERENCES_SHOWN], *([f"{more} more"] if more > 0 else [])]
    return between.join(shown)


_GROUPS = {
    "backend": "the image model",
    "composer": "the composer",
    "judges": "the judge",
    "report_judges": "the judge of the report",
    "realism_judges": "the judge of realism",
    "realism_report_judges": "the judge of realism of the report",
    "chat": "the director's language model",
}


def _moved(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Return account → its clause, of the accounts that have another address now."""

    def place(address: str) -> str:
        return address or "the provider's own"

    return {
        name: f"the account {name}: its address was {place(old[name])} and is {place(new[name])}"
        for name in old
        if name in new and old[name] != new[name]
    }


def _model_changes(
    old: Mapping[str, Any], new: Mapping[str, Any], moved: Sequence[str] = ()
) -> list[str]:
    """Return what differs between the models of two manifests, in clauses.

    Models of the accounts in ``moved`` differ by their address, which is said once by the account.
    """
    found: list[str] = []
    changed: list[str] = []
    for part in dict.fromkeys((*_GROUPS, *sorted({*old, *new}))):
        if old.get(part) == new.get(part):
            continue
        name = _GROUPS.get(part)
        if name is None:
            found.append(f"the {part} has changed")
            continue
        before, now = _by_id(old.get(part)), _by_id(new.get(part))
        gone = [id for id in before if id not in now]
        come = [id for id in now if id not in before]
        if len(gone) == len(come):
            pairs = zip(gone, come, strict=True)
            found += [f"{name} was {one} and is {other} now" for one, other in pairs]
        else:
            found += [f"{name} {id} was there and is not now" for id in gone]
            found += [f"{name} {id} was not there and is now" for id in come]
        changed += [
            f"{name} {id}"
            for id in before
            if id in now and before[id] != now[id] and not _uses_account(before[id], moved)
        ]
    if len(changed) == 1:
        found.append(f"{changed[0]} has other weights, settings or libraries")
    elif changed:
        names = _listed(changed, ", ")
        found.append(f"{len(changed)} models have other weights, settings or libraries: {names}")
    return found if found or moved else ["their order has changed"]


def _uses_account(model: Any, accounts: Sequence[str]) -> bool:
    """Return whether a manifest's model is reached through one of ``accounts``.

    A composer names its language model, ``account:model``, in its fingerprint.
    """
    words = f"{model.get('id')} {model.get('fingerprint')}" if isinstance(model, dict) else ""
    return any(
        word.startswith((f"{account}:", f"{DECISION_KIND}:{account}/"))
        for word in words.split()
        for account in accounts
    )


def _by_id(models: Any) -> dict[str, Any]:
    """Return the entries of a manifest's models by their ids."""
    entries = models if isinstance(models, list) else [] if models is None else [models]
    return {one["id"] if isinstance(one, dict) else str(one): one for one in entries}


def _short(value: Any) -> str:
    return cut_short(json.dumps(value, ensure_ascii=False), 80)
