"""The data folder and the database's files, readable by their owner alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from sqlalchemy.engine import make_url

from scenewright.service.core.settings import ServiceSettings

_GROUP_AND_OTHERS = 0o077


def sqlite_file(settings: ServiceSettings) -> Path | None:
    """Return the file of the SQLite database; None where the database is another."""
    if settings.shared:
        return None
    name = make_url(settings.url).database
    return Path(name) if name and name != ":memory:" else None


def make_private(settings: ServiceSettings) -> list[str]:
    """Make the data folder (700) and the database's files (600) their owner's alone.

    Folders and files of before are mended. Returns a sentence for each that cannot be. Raises
    ``OSError`` if the folder cannot be made.
    """
    data = settings.data
    found = []
    try:
        data.mkdir(mode=0o700)
    except FileExistsError:
        found.append(_mended_folder(settings))
    except FileNotFoundError:
        data.parent.mkdir(parents=True, exist_ok=True)
        data.mkdir(mode=0o700, exist_ok=True)
    file = sqlite_file(settings)
    if file is not None and file.parent.is_dir():
        try:
            # SQLite makes files for every account of the machine; its other files get this mode.
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            found += [
                _narrowed(Path(f"{file}{ending}"), 0o600, "the database file")
                for ending in ("", "-wal", "-shm", "-journal")
            ]
    return [sentence for sentence in found if sentence]


def _mended_folder(settings: ServiceSettings) -> str:
    """Make an existing data folder private; a sentence where that is not done."""
    data = settings.data
    mode = data.stat().st_mode
    if not mode & _GROUP_AND_OTHERS:
        return ""
    database = sqlite_file(settings)
    ours = {settings.runs.name, "sent", "cache", *((database.name,) if database else ())}
    names = {entry.name for entry in os.scandir(data)}
    if mode & stat.S_ISVTX or (names and not names & ours):
        return (
            f"the data folder {data} also serves others, so that other accounts of this machine "
            "can read the runs: choose a folder of its own with --data"
        )
    return _narrowed(data, 0o700, "the data folder")


def _narrowed(place: Path, mode: int, what: str) -> str:
    """Take the rights of other accounts from ``place``; a sentence where that cannot be done."""
    try:
        if place.stat().st_mode & _GROUP_AND_OTHERS:
            place.chmod(mode)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return (
            f"{what} {place} can be read by other accounts of this machine, and that cannot be "
            f"changed ({error.strerror or error}): have its owner run chmod {mode:o}"
        )
    return ""
