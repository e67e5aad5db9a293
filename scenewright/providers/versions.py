"""Served versions of models: the version named in replies, and its changes.

A judge asks for a model by one name, and its provider may serve another version under that name
from one request to the next. Each answer keeps the name in its reply (``Answer.model``). Answers of
one judge with different names are of different versions and are never mixed silently: an evaluation
stops, splits its tables, or accepts and says so (:data:`scenewright.config.OnModelChange`).

A reply that names no model has no version and differs from none. Where a change shows only in the
answers, :func:`since_version` makes a new version of the unchanged name.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter

from scenewright.config.model_identity import SINCE
from scenewright.core.facts import Answer
from scenewright.core.flushing import write_text
from scenewright.providers.usage import within

_LOG = logging.getLogger("scenewright.providers")
SERVED_FILE = "served_versions.json"
"""File of the served versions, in the folder followed by :func:`following`."""


def served_version(answer: Answer) -> str:
    """Return the served version of ``answer``.

    Empty where it names none, and for unscored and void answers.
    """
    return reply_version(answer.model) if answer.state in ("yes", "no") else ""


def reply_version(model: str) -> str:
    """Return the version that a reply names as ``model``: its name without ``models/``."""
    return model.strip().removeprefix("models/")


def since_version(model: str, at: float) -> str:
    """Return the version of a model whose answers changed at ``at`` under the same name.

    ``at`` is Unix time; the version reads ``MODEL since TIME`` and is kept as ``Answer.model``.
    """
    return f"{served_name(model)}{SINCE}{time_text(at)}"


def served_name(version: str) -> str:
    """Return the served name in ``version``, without the suffix of :func:`since_version`."""
    return version.partition(SINCE)[0]


def time_text(at: float) -> str:
    """Return a Unix time as UTC text, to the second."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def versions_of(answers: Iterable[Answer]) -> dict[str, int]:
    """Return the number of ``answers`` by served version, in order of appearance."""
    return dict(Counter(version for answer in answers if (version := served_version(answer))))


def storage_key(fingerprint: str, version: str, first: str) -> str:
    """Return the key under which a store keeps a judge's answers of ``version``.

    It is the judge's fingerprint for the version noted ``first`` and where none is known, else
    ``FINGERPRINT@VERSION``.
    """
    return fingerprint if version in ("", first) else f"{fingerprint}@{version}"


@dataclass(frozen=True, slots=True)
class ServedVersion:
    """A served version of a judge's model."""

    version: str
    """Its name."""
    answers: int
    """Number of its answers."""
    since: float
    """Unix time of the first answer."""
    until: float
    """Unix time of the last answer."""

    @property
    def text(self) -> str:
        """``gpt-4o-2024-08-06 (312 answers since 2026-11-23T21:00:00Z)``."""
        noun = "answer" if self.answers == 1 else "answers"
        return f"{self.version} ({self.answers:,} {noun} since {time_text(self.since)})"


@dataclass(frozen=True, slots=True)
class ModelChange:
    """A judge is served by another version than before."""

    judge: str
    """Id of the judge."""
    before: tuple[ServedVersion, ...]
    """Earlier versions, the latest last."""
    now: ServedVersion
    """Current version."""

    @property
    def text(self) -> str:
        """The change as a sentence without its end."""
        before = ", ".join(one.text for one in self.before)
        return f"{self.judge} was served as {before} and is now served as {self.now.version}"


@dataclass(slots=True)
class ServedVersions:
    """Served versions of each judge."""

    _known: dict[str, tuple[ServedVersion, ...]] = field(default_factory=dict)

    def of(self, judge: str) -> tuple[ServedVersion, ...]:
        """Return the versions of ``judge``, the latest last."""
        return self._known.get(judge, ())

    def judges(self) -> tuple[str, ...]:
        """Return the judges with known versions, sorted."""
        return tuple(sorted(self._known))

    def several(self) -> dict[str, tuple[ServedVersion, ...]]:
        """Return the versions of every judge with more than one."""
        return {judge: self.of(judge) for judge in self.judges() if len(self.of(judge)) > 1}

    def changes(self, judge: str, versions: Iterable[str], at: float) -> list[ModelChange]:
        """Return the changes that answers of ``versions`` would be, without noting them."""
        before = self.of(judge)
        found = []
        for version in versions:
            if version and version not in {one.version for one in before}:
                now = ServedVersion(version, 0, at, at)
                if before:
                    found.append(ModelChange(judge, before, now))
                before = (*before, now)
        return found

    def note(self, judge: str, versions: Mapping[str, int], at: float) -> list[ModelChange]:
        """Count answers of ``judge`` by version at time ``at``; return the changes."""
        found = self.changes(judge, versions, at)
        known = {one.version: one for one in self.of(judge)}
        for version in filter(None, versions):
            one = known.get(version) or ServedVersion(version, 0, at, at)
            count = one.answers + versions[version]
            since, until = min(one.since, at), max(one.until, at)
            known[version] = replace(one, answers=count, since=since, until=until)
        if known:
            self._known[judge] = tuple(sorted(known.values(), key=lambda one: one.until))
        return found


_FILE = TypeAdapter(dict[str, tuple[ServedVersion, ...]])


class FollowedVersions:
    """Served versions behind the results of one folder, over all starts.

    They are kept in a JSON file. With ``stops``, a new version is not noted there but becomes
    :attr:`stopped`, so that a later start meets it again.
    """

    def __init__(self, file: Path, *, stops: bool = False) -> None:
        """Read the versions noted by earlier starts.

        A damaged file counts as empty, with a warning.
        """
        self.stopped: ModelChange | None = None
        """Change that stopped the evaluation, if any."""
        self._file, self._stops = file, stops
        self._served = ServedVersions()
        try:
            self._served = ServedVersions(_FILE.validate_json(file.read_bytes()))
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            _LOG.warning(
                "%s cannot be read (%s): versions of earlier starts are not compared",
                file,
                type(error).__name__,
            )

    def note(self, judge: str, versions: Mapping[str, int]) -> None:
        """Count answers of ``judge`` by version."""
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
        """A sentence for each judge with several versions."""
        return tuple(
            f"Model changed: {judge} was served as {' and as '.join(one.text for one in versions)};"
            " both are in these results."
            for judge, versions in self._served.several().items()
        )

    def write(self) -> None:
        """Write the file if anything was noted; logs a warning on failure."""
        kept = {judge: self._served.of(judge) for judge in self._served.judges()}
        if not kept:
            return
        try:
            write_text(self._file, _FILE.dump_json(kept, indent=2).decode())
        except OSError as error:
            _LOG.warning(
                "%s cannot be written (%s): the next start will not know the versions that "
                "answered now",
                self._file,
                error.strerror or error,
            )


ServedNote = Callable[[str, Mapping[str, int]], object]
"""Takes a judge and its answers by version."""
_FOLLOWED: ContextVar[tuple[ServedNote, ...]] = ContextVar("followed", default=())


def served_to(note: ServedNote) -> AbstractContextManager[None]:
    """Return a context that tells ``note`` of the served versions in its block."""
    return within(_FOLLOWED, (*_FOLLOWED.get(), note))


@contextmanager
def following(file: Path, *, stops: bool = False) -> Iterator[FollowedVersions]:
    """Note the served versions in the block in ``file``."""
    followed = FollowedVersions(file, stops=stops)
    with served_to(followed.note):
        try:
            yield followed
        finally:
            followed.write()


_PROCESS: dict[str, ServedVersions] = {}
"""Fingerprint of a judge → served versions in this process."""


def note_served(judge: str, fingerprint: str, answers: Iterable[Answer]) -> None:
    """Note the served versions of ``answers``, where they are followed.

    Logs a warning where a judge's version differs from its earlier answers in this process.
    """
    if versions := versions_of(answers):
        known = _PROCESS.setdefault(fingerprint, ServedVersions())
        for change in known.note(judge, versions, time.time()):
            _LOG.warning("%s: what is made of its answers is of both", change.text)
        for note in _FOLLOWED.get():
            note(judge, versions)


def mixture_text(judge: str, answers: Iterable[Answer]) -> str:
    """Return a sentence about mixed versions in ``answers`` of a judge; empty for one version."""
    versions = versions_of(answers)
    if len(versions) < 2:
        return ""
    said = " and ".join(f"{name} ({count:,} answers)" for name, count in versions.items())
    return f"Model changed: {judge} was served as {said}; both are in these figures."
