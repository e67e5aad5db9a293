"""Reporting of a run: whether other models than those of the loop say how good its result is.

Names are compared before a run begins; here also what answered: two names may be served by one
model, which only the answers tell.

Models that answered a run, as their replies name them: a change of version, and two names that
are served by one model. Both are told as soon as an answer shows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from scenewright.config.model_identity import (
    ModelIdentity,
    doubled_names,
    identity_of_served,
    identity_of_spec,
    model_name,
    shared_names,
)
from scenewright.config.profiles import DIRECTOR
from scenewright.core.facts import Answer
from scenewright.core.validation import FrozenModel, mapping_of
from scenewright.graphs.events import Answered, Event, Replied, Role, RunStarted, Warned
from scenewright.providers.versions import ServedVersions, reply_version, versions_of

ReportKind = Literal["independent", "self", "none"]
INDEPENDENT = "by judges that the loop never saw"


class Reporting(FrozenModel):
    """Kind of report: independent, a self-report, or none."""

    kind: ReportKind
    """``independent``: by other models than the loop's; ``self``: by models of the loop, as
    judges or director (a self-report); ``none``: nobody but the loop's judges looked."""
    models: tuple[str, ...] = ()
    """Of a self-report: the models that steered and report."""
    doubled: tuple[str, ...] = ()
    """Models that answered under two names in one panel, so that their votes count double."""
    unknown: tuple[str, ...] = ()
    """Director that did not tell which model it is: whether that is another one than
    those of the report nobody knows."""

    @property
    def line(self) -> str:
        """Source of the report's scores, in a few words."""
        if self.kind == "none":
            return "no report: only the judges of the loop looked"
        if self.kind == "independent":
            return (
                f"{INDEPENDENT}; which model directed it is unknown"
                if self.unknown
                else INDEPENDENT
            )
        return f"self-report, by models of the loop: {', '.join(self.models)}"

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for a reader of the scores."""
        found = []
        if self.kind == "self":
            found.append(
                f"This is a self-report: {', '.join(self.models)} steered the loop and reports "
                "its result, so the score is too good."
            )
        if self.unknown and self.kind != "none":
            found.append(
                f"{', '.join(self.unknown)} directed the loop and did not tell which model it is: "
                "if it is one of the report's judges, the score is too good."
            )
        if self.doubled:
            found.append(
                f"{', '.join(self.doubled)} answered under two names of one panel: its vote "
                "counts double."
            )
        return tuple(found)


def reporting_of(events: Iterable[Event]) -> Reporting:
    """Return who reports the run of ``events``.

    Models are compared by the names in the configuration and by the names in their answers.
    """
    config: Mapping[str, Any] = {}
    asked: dict[Role, dict[str, set[str]]] = {"loop": {}, "report": {}}
    director: set[str] = set()
    for event in events:
        if isinstance(event, RunStarted):
            config = event.config
        elif isinstance(event, Answered):
            served = asked[event.role].setdefault(event.judge_id, set())
            served |= _served(event.answers)
        elif isinstance(event, Replied):
            director |= {name} if (name := served_name(event)) else set()
    profile, replaced, aliases = (
        mapping_of(config.get(name)) for name in ("profile", "replaced", "aliases")
    )
    sides: dict[Role, dict[str, set[str]]] = {
        role: {id_: set() for id_ in _named(profile, replaced, role)} | asked[role]
        for role in asked
    }
    directs = profile.get("strategy") == DIRECTOR
    chat = replaced.get("chat") or profile.get("chat")
    return reporting_from(
        sides["loop"],
        sides["report"],
        {str(chat): director} if directs and chat else {},
        aliases=aliases,
    )


def served_name(reply: Replied) -> str:
    """Return the model that a reply to the director names; empty if it names none."""
    told = reply.message.get("response_metadata") or {}
    return str(told.get("model_name") or "")


def reporting_from(
    loop: Mapping[str, Iterable[str]],
    report: Mapping[str, Iterable[str]],
    director: Mapping[str, Iterable[str]] | None = None,
    *,
    aliases: Mapping[str, str] | None = None,
) -> Reporting:
    """Return judge id → models that answered for it, of both sides and of a director.

    ``aliases``: the models behind ids that do not tell them.
    """
    steers, reports = _identities(loop, aliases or {}), _identities(report, aliases or {})
    doubled = {*doubled_names(steers), *doubled_names(reports)}
    steers += _identities(director or {}, aliases or {})
    shared = shared_names(steers, reports)
    kind: ReportKind = "self" if shared else "independent" if report else "none"
    named = {one.spec for one in steers if one.name}
    # A script is not a model.
    unknown = [id_ for id_ in director or {} if id_ not in named and identity_of_spec(id_)]
    return Reporting(
        kind=kind, models=shared, doubled=tuple(sorted(doubled)), unknown=tuple(sorted(unknown))
    )


def _named(profile: Mapping[str, Any], replaced: Mapping[str, Any], role: Role) -> list[str]:
    """Ids of the judges that a run's configuration names for ``role``."""
    name = "judges" if role == "loop" else "report_judges"
    found = replaced[name] if name in replaced else profile.get(name)
    return [str(judge) for judge in found or ()]


def _served(answers: Iterable[Answer]) -> set[str]:
    return {answer.model for answer in answers if answer.model}


def _identities(
    judges: Mapping[str, Iterable[str]], aliases: Mapping[str, str]
) -> list[ModelIdentity]:
    found: list[ModelIdentity] = []
    for id_, served in judges.items():
        named = identity_of_spec(id_)
        alias = model_name(aliases[id_]) if id_ in aliases else None
        found.append(ModelIdentity(id_, alias or (named.name if named is not None else "")))
        for told in served:
            answered = identity_of_served(told)
            # A server that repeats the name it was asked by tells nothing more.
            if answered is not None and (named is None or answered.name != named.name):
                found.append(ModelIdentity(id_, answered.name))
    return found


DIRECTOR_MODEL = "the director's language model"
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
    """Return judge or :data:`DIRECTOR_MODEL` → model names in its replies, sorted.

    Those that tell none are left out.
    """
    found: dict[str, set[str]] = {}
    for event in events:
        for name, versions in _served_in(event).items():
            found.setdefault(name, set()).update(versions)
    return {name: sorted(versions) for name, versions in sorted(found.items())}


def version_changes(events: Iterable[Event]) -> tuple[str, ...]:
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
        return {DIRECTOR_MODEL: {reply_version(name): 1}}
    return {}
