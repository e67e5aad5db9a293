"""Served versions of an evaluation's judges, kept apart or pooled as the configuration says.

Every judging of a picture by a panel notes the versions that answered (:data:`SERVED`). A version
that did not answer before under the same judge stops the evaluation, unless ``on_model_change``
lets it continue; then the tables either keep each version's judgings under a label of their own
(``PANEL@VERSION``), or pool them with a note.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from scenewright.config import OnModelChange
from scenewright.core.facts import Answer
from scenewright.evals.errors import ModelChangedError
from scenewright.evals.runner.sentinels import Drift, Drifts
from scenewright.evals.store.journal import Journal, Unit, answer_of
from scenewright.providers.versions import ServedVersion, ServedVersions, versions_of

SERVED = "served"
"""Key of a judging's facts (judge → version → answers), and of the manifest
(:func:`served_manifest`)."""
STEERED = "steered"
"""Key of a drawing's facts: judge of its loop, or the director → names in its replies."""
LABEL = "@"
"""Separates a panel's name from the versions of its judges."""


def served_by(answers: Mapping[str, Sequence[Answer]]) -> dict[str, dict[str, int]]:
    """Return judge → served version → answers, of judges whose answers name a version."""
    found = {judge: versions_of(given) for judge, given in answers.items()}
    return {judge: versions for judge, versions in found.items() if versions}


def served_in(unit: Unit) -> dict[str, dict[str, int]]:
    """Return the versions noted in a judging; for one of an earlier release, those of its rows."""
    noted = unit.facts.get(SERVED)
    if noted is not None:
        return dict(noted)
    answers: dict[str, list[Answer]] = {}
    for row in unit.rows.get("answers", ()):
        answers.setdefault(row["judge"], []).append(answer_of(row))
    return served_by(answers)


class VersionGate:
    """Gate that admits judgings unless one is of another version than those before."""

    def __init__(
        self,
        on_model_change: OnModelChange,
        journal: Journal | None = None,
        plan: str = "",
        drifts: Drifts = Drifts(),  # noqa: B008 - a constant
    ) -> None:
        """Note the versions of earlier judgings.

        Args:
            on_model_change: what happens at another version.
            journal: holds the earlier judgings of ``plan``.
            plan: digest of the evaluation.
            drifts: accepted changes.
        """
        self._stops = on_model_change == "stop"
        self._served = ServedVersions()
        for look in looks_of(journal, plan, drifts) if journal is not None else ():
            for judge, versions in look.served.items():
                self._served.note(judge, versions, look.at)
        for drift in drifts.found:
            self._served.note(drift.judge, {drift.version: 0}, drift.noticed)

    def admit(self, unit: Unit) -> None:
        """Note the versions of a judging.

        Raises ``ModelChangedError`` where one is new and the evaluation must stop.
        """
        now = time.time()
        for judge, versions in served_in(unit).items():
            changes = self._served.changes(judge, versions, now)
            if changes and self._stops:
                raise ModelChangedError(
                    f"{changes[0].text}: both under one name would be mixed. What is judged is "
                    "kept. Run the same with --on-model-change split to go on with each version "
                    "in rows of its own, with --on-model-change accept to pool both and note it, "
                    "or in a new folder (--out) to judge everything by the version served now"
                )
            self._served.note(judge, versions, now)


@dataclass(frozen=True, slots=True)
class Look:
    """A panel's judging of a picture, with the versions of its judges."""

    key: str
    """Key of its unit."""
    panel: str
    served: Mapping[str, Mapping[str, int]]
    """Judge → version → answers."""
    at: float
    """Unix time when it was kept."""


def looks_of(
    journal: Journal,
    plan: str,
    drifts: Drifts = Drifts(),  # noqa: B008 - a constant
) -> Iterator[Look]:
    """Yield the judgings of ``plan`` in the order of its items.

    ``drifts`` adds versions to judges that changed under an unchanged name.
    """
    for key, facts, at in journal.notes(plan, "judge"):
        served = facts.get(SERVED)
        if served is None:
            unit = journal.get(key)
            served = {} if unit is None else served_in(unit)
        if drifts.found:
            served = _drifted(journal, key, served, at, drifts)
        yield Look(key, str(facts.get("panel", "")), served, at)


def _drifted(
    journal: Journal,
    key: str,
    served: Mapping[str, Mapping[str, int]],
    at: float,
    drifts: Drifts,
) -> Mapping[str, Mapping[str, int]]:
    """Return ``served`` of the judging ``key``, kept at ``at``, with versions of changed judges."""
    found = dict(served)
    for judge in drifts.judges:
        versions = served.get(judge)
        if versions is None:
            # Its replies tell no version: only the rows say whether it answered.
            unit = journal.get(key)
            rows = () if unit is None else unit.rows.get("answers", ())
            usable = sum(r["judge"] == judge and r["state"] in ("yes", "no") for r in rows)
            versions = {drifts.of(judge)[0].name: usable} if usable else {}
        counts: dict[str, int] = {}
        for version, n in versions.items():
            now = drifts.version(judge, version, at)
            counts[now] = counts.get(now, 0) + n
        if counts:
            found[judge] = counts
    return found


@dataclass(slots=True)
class PanelLabels:
    """Labels of panels whose judges are served by several versions: ``PANEL@VERSION``."""

    versions: ServedVersions = field(default_factory=ServedVersions)
    """Versions of every judge."""
    panels: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Label → its panel, and judge → version."""
    _judges: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Panel → its judges with several versions."""
    _served: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    """Judge → (time, version) in order of time."""
    _of_look: dict[str, str] = field(default_factory=dict)
    _drifts: Drifts = field(default_factory=Drifts)

    @classmethod
    def of(
        cls,
        journal: Journal,
        plan: str,
        on_model_change: OnModelChange,
        drifts: Drifts = Drifts(),  # noqa: B008 - a constant
    ) -> PanelLabels:
        """Read the judgings of ``plan``; there are no labels where mixtures are accepted."""
        found = cls(_drifts=drifts)
        for look in looks_of(journal, plan, drifts):
            for judge, versions in look.served.items():
                found.versions.note(judge, versions, look.at)
        several = found.versions.several()
        if on_model_change == "accept" or not several:
            return found
        judges: dict[str, set[str]] = {}
        for look in looks_of(journal, plan, drifts):
            for judge in several.keys() & look.served.keys():
                judges.setdefault(look.panel, set()).add(judge)
                found._served.setdefault(judge, []).extend(
                    (look.at, version) for version in look.served[judge]
                )
        found._judges = {panel: tuple(sorted(names)) for panel, names in judges.items()}
        for times in found._served.values():
            times.sort()
        for look in looks_of(journal, plan, drifts):
            found._of_look[look.key] = found._label(look.panel, look.at, look.served)
        return found

    @property
    def needed(self) -> bool:
        """Whether any panel gets a label."""
        return bool(self._judges)

    def of_look(self, key: str, panel: str, at: float) -> str:
        """Return the label of the judging ``key``.

        If it is not kept, the versions served at its time decide.
        """
        return self._of_look.get(key) or self._label(panel, at, {})

    def model_of(self, judge: str, model: str, at: float) -> str:
        """Return the version of ``judge`` that answered as ``model`` at the time ``at``."""
        return self._drifts.version(judge, model, at)

    def _label(self, panel: str, at: float, served: Mapping[str, Mapping[str, int]]) -> str:
        judges = self._judges.get(panel, ())
        if not judges:
            return panel
        # A look without an answer of the judge belongs to the version served at its time.
        by = {judge: next(iter(served.get(judge, ())), self._at(judge, at)) for judge in judges}
        label = f"{panel}{LABEL}{'+'.join(by.values())}"
        self.panels.setdefault(label, {"panel": panel, "versions": by})
        return label

    def _at(self, judge: str, at: float) -> str:
        times = self._served[judge]
        return times[max(0, bisect_right(times, at, key=lambda one: one[0]) - 1)][1]


def served_panels(journal: Journal, plan: str) -> dict[str, dict[str, set[str]]]:
    """Return panel → judge → names in its replies, of the judgings of ``plan``."""
    found: dict[str, dict[str, set[str]]] = {}
    for look in looks_of(journal, plan):
        for judge, versions in look.served.items():
            found.setdefault(look.panel, {}).setdefault(judge, set()).update(versions)
    return found


def steering_models(journal: Journal, plan: str) -> dict[str, dict[str, set[str]]]:
    """Return arm → judge of its loops, or the director → names in its replies."""
    found: dict[str, dict[str, set[str]]] = {}
    for _, facts, _ in journal.notes(plan, "draw"):
        for name, versions in (facts.get(STEERED) or {}).items():
            found.setdefault(str(facts.get("arm")), {}).setdefault(name, set()).update(versions)
    return found


def served_manifest(
    labels: PanelLabels,
    on_model_change: OnModelChange,
    steering: Mapping[str, Mapping[str, Iterable[str]]],
    doubled: Mapping[str, Sequence[str]],
    drifts: Drifts = Drifts(),  # noqa: B008 - a constant
) -> dict[str, Any]:
    """Return the entry :data:`SERVED` of the manifest.

    It has the versions of every judge whose replies name one, how changes were handled, the labels
    of panels, what steered the loops of each arm, the models that answered under two names of a
    panel, and changes under an old name.
    """
    versions = labels.versions
    return {
        "on_model_change": on_model_change,
        "judges": {
            judge: [asdict(one) for one in sorted(versions.of(judge), key=lambda one: one.since)]
            for judge in versions.judges()
        },
        "panels": dict(labels.panels),
        "steering": {
            arm: {name: sorted(versions) for name, versions in models.items()}
            for arm, models in steering.items()
        },
        "doubled": {panel: list(names) for panel, names in doubled.items()},
        "drifts": [asdict(drift) for drift in drifts.found],
    }


def told_versions(manifest: Mapping[str, Any]) -> dict[str, tuple[ServedVersion, ...]]:
    """Return judge → served versions from a manifest."""
    told = manifest.get(SERVED)
    judges = told.get("judges") if isinstance(told, Mapping) else None
    return {
        str(judge): tuple(ServedVersion(**one) for one in versions)
        for judge, versions in (judges or {}).items()
    }


def told_labels(manifest: Mapping[str, Any]) -> dict[str, tuple[str, dict[str, str]]]:
    """Return label → (its panel, judge → version) from a manifest."""
    told = manifest.get(SERVED)
    panels = told.get("panels") if isinstance(told, Mapping) else None
    return {
        str(label): (str(of["panel"]), dict(of["versions"])) for label, of in (panels or {}).items()
    }


def version_notes(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return sentences about judges served by several versions and models with two votes.

    Judges are those of panels and of loops.
    """
    labels = told_labels(manifest)
    found = []
    for judge, versions in told_versions(manifest).items():
        if len(versions) < 2:
            continue
        said = " and ".join(one.text for one in versions)
        apart = sorted(label for label, (_, by) in labels.items() if judge in by)
        kept = (
            f"its panels stand apart, as {', '.join(apart)}"
            if apart
            else "the tables pool them, as on_model_change = accept asks"
        )
        found.append(f"Model changed: {judge} was served as {said}; {kept}.")
    told = manifest.get(SERVED)
    told = told if isinstance(told, Mapping) else {}
    found += [
        f"Model changed: {name} steered loops of {arm} as {' and as '.join(versions)}."
        for arm, models in told.get("steering", {}).items()
        for name, versions in models.items()
        if len(versions) > 1
    ]
    found += [
        f"Model changed under its name: {Drift(**drift).text}." for drift in told.get("drifts", ())
    ]
    found += [
        f"Doubled vote: {', '.join(names)} answered under two names of the panel {panel}."
        for panel, names in told.get("doubled", {}).items()
    ]
    return tuple(found)
