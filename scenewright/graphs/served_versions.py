"""Models that answered a run, as their replies name them: a change of version, and two names that
are served by one model. Both are told as soon as an answer shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scenewright.graphs.events import Answered, Event, Replied, RunStarted, Warned
from scenewright.graphs.reporting import Reporting, reporting_of, served_name
from scenewright.providers.versions import ServedVersions, version_told, versions_of

DIRECTOR = "the director's language model"
"""Stands for the id of a judge."""


class ServedWatch:
    """Follows the events of a run and tells what its answers show of the models behind them."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        """``events`` are those of the run so far: what they show counts as known."""
        self._versions = ServedVersions()
        self._events: list[Event] = []
        self._told = Reporting(kind="none")
        for event in events:
            self.take(event)

    @property
    def mixed(self) -> tuple[str, ...]:
        """A sentence for each model of which several versions answered."""
        return tuple(
            f"{judge} was served as {' and '.join(one.text for one in versions)}."
            for judge, versions in self._versions.several().items()
        )

    def take(self, event: Event) -> list[Warned]:
        """Return what ``event`` shows that was not known, as events that are not stored yet."""
        if isinstance(event, RunStarted):
            self._events = [event]
            # What names tell was checked, or labelled, before the run began.
            self._told = reporting_of(self._events)
        served = _served_in(event)
        if not served:
            return []
        found: list[Warned] = []
        known = {name: len(self._versions.of(name)) for name in served}
        for name, versions in served.items():
            found += [
                Warned(
                    key=f"served:{name}:{change.now.version}",
                    at=event.at,
                    about="version",
                    text=f"{change.text}: the scores of this run are of both.",
                )
                for change in self._versions.note(name, versions, event.at)
            ]
        if any(len(self._versions.of(name)) > count for name, count in known.items()):
            self._events.append(event)
            found += self._shared(event)
        return found

    def _shared(self, event: Event) -> list[Warned]:
        """Models that stand behind two names of the run."""
        now, before = reporting_of(self._events), self._told
        self._told = now
        said = []
        if shared := sorted(set(now.models) - set(before.models)):
            names = ", ".join(shared)
            said.append(
                f"The answers tell that {names} steers the loop and reports its result, under "
                "names that do not show it: this is a self-report."
            )
        if doubled := sorted(set(now.doubled) - set(before.doubled)):
            said.append(
                f"The answers tell that {', '.join(doubled)} answers under two names of one panel: "
                "its vote counts double."
            )
        return [
            Warned(key=f"shared:{text}", at=event.at, about="independence", text=text)
            for text in said
        ]


def served_models(events: Iterable[Event]) -> dict[str, list[str]]:
    """Return judge, or :data:`DIRECTOR`, → the names that its replies in ``events`` tell, sorted;
    those that tell none are left out."""
    found: dict[str, set[str]] = {}
    for event in events:
        for name, versions in _served_in(event).items():
            found.setdefault(name, set()).update(versions)
    return {name: sorted(versions) for name, versions in sorted(found.items())}


def told_of(events: Iterable[Event]) -> tuple[str, ...]:
    """Return what the answers of ``events`` show of changed versions, a sentence each."""
    watch = ServedWatch()
    return tuple(
        told.text for event in events for told in watch.take(event) if told.about == "version"
    )


def _served_in(event: Event) -> Mapping[str, Mapping[str, int]]:
    """Judge, or the director, → version → answers."""
    if isinstance(event, Answered):
        return {event.judge_id: versions} if (versions := versions_of(event.answers)) else {}
    if isinstance(event, Replied) and (name := served_name(event)):
        return {DIRECTOR: {version_told(name): 1}}
    return {}
