"""Served versions of a model: the name that replies tell, and when it changes under one judge.

A judge asks for a model by one name, and its provider may serve another version under that name
from one request to the next. Each answer keeps the name that its reply told (``Answer.model``).
Two answers of one judge that tell different names are of two versions and are never mixed
silently: an evaluation stops, splits its tables, or accepts and says so
(:mod:`scenewright.config.on_model_change`).

A reply that repeats the name it was asked by tells just that name; one that names no model tells
no version and differs from none. Where a change shows in the answers alone,
:func:`since_version` makes a version of its own of the unchanged name.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from scenewright.config.model_identity import SINCE
from scenewright.core.facts import Answer
from scenewright.core.flushing import write_text

_LOG = logging.getLogger("scenewright.providers")
SERVED_FILE = "served_versions.json"
"""File of the versions that answered, in the folder of results that :func:`following` follows."""


def served_version(answer: Answer) -> str:
    """Return the served version that ``answer`` tells; empty where it tells none, and for an answer
    that holds nothing (unscored, void)."""
    return version_told(answer.model) if answer.state in ("yes", "no") else ""


def version_told(model: str) -> str:
    """Return the version that a reply names as ``model``: its name without ``models/``."""
    return model.strip().removeprefix("models/")


def since_version(model: str, at: float) -> str:
    """Return the version of a model whose answers changed at ``at`` (Unix time) although its name
    did not: ``MODEL since TIME``. To be kept as ``Answer.model``."""
    name = told_name(model)
    return f"{name}{SINCE}{time_text(at)}"


def told_name(version: str) -> str:
    """Return the name that replies tell of ``version``, without the mark of
    :func:`since_version`."""
    return version.partition(SINCE)[0]


def time_text(at: float) -> str:
    """Return a Unix time as UTC text, to the second."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def versions_of(answers: Iterable[Answer]) -> dict[str, int]:
    """Return served version → how many of ``answers`` tell it, in the order in which they come."""
    found: dict[str, int] = {}
    for answer in answers:
        if version := served_version(answer):
            found[version] = found.get(version, 0) + 1
    return found


def kept_under(fingerprint: str, version: str, first: str) -> str:
    """Return the name under which a store keeps a judge's answers of ``version``: the judge's
    fingerprint for the version noted ``first`` and where none is told, else
    ``FINGERPRINT@VERSION``."""
    return fingerprint if version in ("", first) else f"{fingerprint}@{version}"


@dataclass(frozen=True, slots=True)
class ServedVersion:
    """A version that answered for a judge."""

    version: str
    """Its name."""
    answers: int
    """How many answers are of it."""
    since: float
    """Unix time of the first of them."""
    until: float
    """Unix time of the last of them."""

    @property
    def text(self) -> str:
        """``gpt-4o-2024-08-06 (312 answers since 2026-11-23T21:00:00Z)``."""
        noun = "answer" if self.answers == 1 else "answers"
        return f"{self.version} ({self.answers:,} {noun} since {time_text(self.since)})"


@dataclass(frozen=True, slots=True)
class ModelChange:
    """A judge is served by another version than the one that answered before."""

    judge: str
    """Id of the judge."""
    before: tuple[ServedVersion, ...]
    """Versions that answered before, the one that answered last at the end."""
    now: ServedVersion
    """The version that answers now."""

    @property
    def text(self) -> str:
        """The change as a sentence without its end."""
        before = ", ".join(one.text for one in self.before)
        return f"{self.judge} was served as {before} and is now served as {self.now.version}"


@dataclass(slots=True)
class ServedVersions:
    """Versions that answered for each judge so far."""

    _known: dict[str, dict[str, ServedVersion]] = field(default_factory=dict)

    def of(self, judge: str) -> tuple[ServedVersion, ...]:
        """Return the versions of ``judge``, the one that answered last at the end."""
        return tuple(sorted(self._known.get(judge, {}).values(), key=lambda one: one.until))

    def judges(self) -> tuple[str, ...]:
        """Return the judges of which a version is known, sorted."""
        return tuple(sorted(self._known))

    def several(self) -> dict[str, tuple[ServedVersion, ...]]:
        """Return the versions of every judge that was served by more than one."""
        return {judge: self.of(judge) for judge in self.judges() if len(self._known[judge]) > 1}

    def changes(self, judge: str, versions: Iterable[str], at: float) -> list[ModelChange]:
        """Return the changes that answers of ``versions`` would be; nothing is noted."""
        before = self.of(judge)
        known = {one.version for one in before}
        found: list[ModelChange] = []
        for version in versions:
            if version and version not in known:
                now = ServedVersion(version, 0, at, at)
                if before:
                    found.append(ModelChange(judge, before, now))
                before, known = (*before, now), known | {version}
        return found

    def note(self, judge: str, versions: Mapping[str, int], at: float) -> list[ModelChange]:
        """Count answers of ``judge``, version → how many, that came at ``at``; the changes."""
        found = self.changes(judge, versions, at)
        for version, n in versions.items():
            if not version:
                continue
            kept = self._known.setdefault(judge, {})
            one = kept.get(version) or ServedVersion(version, 0, at, at)
            kept[version] = replace(
                one, answers=one.answers + n, since=min(one.since, at), until=max(one.until, at)
            )
        return found


class FollowedVersions:
    """Versions that answered for the results in one folder, those of earlier starts included.

    They are kept in a JSON file. Where ``stops``, a version that did not answer before is not
    noted there but is :attr:`stopped`: whoever follows ends, and a later start meets it anew.
    """

    def __init__(self, file: Path, *, stops: bool = False) -> None:
        """A file that is damaged tells nothing of earlier starts; a warning says so."""
        self.stopped: ModelChange | None = None
        """The change that ended it."""
        self._file, self._stops = file, stops
        self._served = ServedVersions(_read(file))

    def note(self, judge: str, versions: Mapping[str, int]) -> None:
        """Count answers of ``judge``, version → how many."""
        now = time.time()
        if self._stops and (changes := self._served.changes(judge, versions, now)):
            self.stopped = self.stopped or changes[0]
            return
        known = len(self._served.of(judge))
        self._served.note(judge, versions, now)
        if len(self._served.of(judge)) > known:
            # A kill loses counts, but no version.
            self.write()

    @property
    def texts(self) -> tuple[str, ...]:
        """A sentence for each judge that was served by several versions."""
        return tuple(
            f"Model changed: {judge} was served as {' and as '.join(one.text for one in versions)};"
            " both are in these results."
            for judge, versions in self._served.several().items()
        )

    def write(self) -> None:
        """Write the file if anything was noted; where that fails a warning says so."""
        kept = {
            judge: [asdict(one) for one in self._served.of(judge)]
            for judge in self._served.judges()
        }
        if not kept:
            return
        try:
            write_text(self._file, json.dumps(kept, indent=2))
        except OSError as error:
            _LOG.warning(
                "%s cannot be written (%s): the next start will not know the versions that "
                "answered now",
                self._file,
                error.strerror or error,
            )


def _read(file: Path) -> dict[str, dict[str, ServedVersion]]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return {
            str(judge): {one["version"]: ServedVersion(**one) for one in versions}
            for judge, versions in found.items()
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        _LOG.warning(
            "%s cannot be read (%s): versions of earlier starts are not compared",
            file,
            type(error).__name__,
        )
        return {}


_FOLLOWED: ContextVar[tuple[FollowedVersions, ...]] = ContextVar("followed", default=())


@contextmanager
def following(file: Path, *, stops: bool = False) -> Iterator[FollowedVersions]:
    """Note the versions of all judges that :func:`note_served` hears of in the body in ``file``."""
    followed = FollowedVersions(file, stops=stops)
    token = _FOLLOWED.set((*_FOLLOWED.get(), followed))
    try:
        yield followed
    finally:
        _FOLLOWED.reset(token)
        followed.write()


_PROCESS: dict[str, ServedVersions] = {}
"""Fingerprint of a judge → versions that answered in this process."""


def note_served(judge: str, fingerprint: str, answers: Iterable[Answer]) -> None:
    """Note the versions of ``answers`` where they are followed, and log a warning where they are
    of another version than the judge's earlier ones in this process."""
    if versions := versions_of(answers):
        known = _PROCESS.setdefault(fingerprint, ServedVersions())
        for change in known.note(judge, versions, time.time()):
            _LOG.warning("%s: what is made of its answers is of both", change.text)
        for followed in _FOLLOWED.get():
            followed.note(judge, versions)


def mixture_text(judge: str, answers: Iterable[Answer]) -> str:
    """Return a sentence that says of which versions ``answers`` of a judge are; empty where they
    are of one at most."""
    versions = versions_of(answers)
    if len(versions) < 2:
        return ""
    said = " and ".join(f"{name} ({count:,} answers)" for name, count in versions.items())
    return f"Model changed: {judge} was served as {said}; both are in these figures."
