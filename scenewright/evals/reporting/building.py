"""A folder that is built beside its place and appears whole."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scenewright.evals.errors import EvalError
from scenewright.evals.reporting.errors import ChoiceError

MARK = "report.json"
"""The file that tells a folder that may be replaced from one that holds something else."""
_KIND = "scenewright-report"


@contextmanager
def building(place: Path, keep: str) -> Iterator[Path]:
    """An empty folder that becomes ``place`` when the block ends without an error.

    The folder ``keep`` of the old report, or of one that was interrupted, is in it already. Raises
    ``EvalError`` if ``place`` holds something else than a report, if another process is building
    it, or if the disk cannot be written.
    """
    if place.exists() and not _replaceable(place):
        raise ChoiceError(
            f"{place} is there and holds no report: name another folder with --out, "
            "so that nothing is lost"
        )
    draft = place.with_name(f".{place.name}.building")
    try:
        draft.mkdir(parents=True, exist_ok=True)
        lock = open(place.with_name(f".{place.name}.lock"), "w")  # noqa: SIM115
    except OSError as error:
        raise _unwritable(place, error) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise EvalError(f"another process is making the report {place}: wait for it") from error
        try:
            _clear(draft, keep)
            if (place / keep).is_dir() and not (draft / keep).exists():
                # Links, not copies: a file is never changed once it is there.
                shutil.copytree(place / keep, draft / keep, copy_function=_link)
            yield draft
            (draft / MARK).write_text(json.dumps({"kind": _KIND}) + "\n", encoding="utf-8")
            _swap(draft, place)
        except OSError as error:
            raise _unwritable(place, error) from error
        finally:
            Path(lock.name).unlink(missing_ok=True)


def _replaceable(place: Path) -> bool:
    if not place.is_dir():
        return False
    try:
        kind: str = json.loads((place / MARK).read_text(encoding="utf-8"))["kind"]
    except (OSError, ValueError, KeyError, TypeError):
        return not any(place.iterdir())
    return kind == _KIND


def _clear(folder: Path, keep: str) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            if entry.name != keep:
                shutil.rmtree(entry)
        else:
            entry.unlink()


def _link(source: str, target: str) -> None:
    try:
        Path(target).hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


def _swap(draft: Path, place: Path) -> None:
    old = place.with_name(f".{place.name}.old")
    if old.exists():
        shutil.rmtree(old)
    if place.exists():
        place.rename(old)
    draft.rename(place)
    if old.exists():
        shutil.rmtree(old)


def _unwritable(place: Path, error: OSError) -> EvalError:
    return EvalError(
        f"{place} cannot be written ({error.strerror or error}): make the folder writable or free "
        "some space"
    )
