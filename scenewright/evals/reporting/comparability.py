"""Whether two evaluations measured the same thing in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scenewright.evals.reporting.about import About
from scenewright.evals.reporting.score_matrix import Column
from scenewright.evals.reporting.sides import Opened

_ASKED = {
    "protocol": "how facts are asked",
    "asking": "the order in which facts are asked",
    "alpha": "the weight of the objects in SGScore",
}


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Something that was not the same."""

    what: str
    """In words, with both values."""
    judged: bool
    """Whether it matters only where judges look."""
    metric: str = ""
    """The metric that it is about; empty for all."""
    panel: str = ""
    """The panel that it is about; empty for all."""

    def concerns(self, column: Column) -> bool:
        """Whether a column of scores cannot be compared because of it."""
        if self.metric and self.metric != column.metric:
            return False
        if self.panel and self.panel != column.panel:
            return False
        return bool(column.panel) or not self.judged


def mismatches(a: Opened, b: Opened) -> list[Mismatch]:
    """What differs between ``a`` and ``b`` that a comparison needs to be the same: the set, the
    panels' judges and how they decide, the prompts, how facts are asked, and the metrics."""
    one, two = a.about, b.about
    found = []

    def note(what: str, x: Any, y: Any, judged: bool, metric: str = "", panel: str = "") -> None:
        if x != y:
            text = f"{what}: {_short(x)} against {_short(y)}"
            found.append(Mismatch(text, judged, metric, panel))

    note("the set", (one.dataset, one.fingerprint), (two.dataset, two.fingerprint), judged=False)
    for panel in sorted(set(one.panels) & set(two.panels)):
        judges, others = one.panels[panel], two.panels[panel]
        note(f"the judges of the panel {panel}", judges, others, judged=True, panel=panel)
        served, other_served = (_told_by_both(each, one, two, panel) for each in (one, two))
        what = f"the versions that served the judges of the panel {panel}"
        note(what, served, other_served, judged=True, panel=panel)
        rule, other = (_rule(each.setting("panels"), panel) for each in (one, two))
        note(f"how the panel {panel} decides", rule, other, judged=True, panel=panel)
        own, theirs = (_reporter(each.self_reports, panel) for each in (one, two))
        note(f"who reports as the panel {panel}", own, theirs, judged=True, panel=panel)
    for panel in sorted(set(a.asked) & set(b.asked)):
        what = f"the prompts of the panel {panel}"
        note(what, a.asked[panel], b.asked[panel], judged=True, panel=panel)
    for name, what in _ASKED.items():
        note(f"{what} ({name})", one.setting(name), two.setting(name), judged=True)
    for metric in sorted(set(a.score_matrix.versions) & set(b.score_matrix.versions)):
        version, newer = (sorted(each.score_matrix.versions[metric]) for each in (a, b))
        note(f"the version of {metric}", version, newer, judged=False, metric=metric)
    return found


def _told_by_both(of: About, one: About, two: About, panel: str) -> dict[str, tuple[str, ...]]:
    """The versions of the judges of which both evaluations tell any."""
    told = one.served.get(panel, {}).keys() & two.served.get(panel, {}).keys()
    return {judge: of.served[panel][judge] for judge in sorted(told)}


def _reporter(self_reports: Mapping[str, object], panel: str) -> str:
    return "models of the loops" if panel in self_reports else "models that no loop saw"


def _rule(panels: Any, name: str) -> dict[str, Any]:
    entry = panels.get(name) if isinstance(panels, dict) else None
    if not isinstance(entry, dict):
        return {}
    return {key: value for key, value in entry.items() if key != "judges"}


def _short(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{key} {_short(entry)}" for key, entry in value.items())
        return inner[:120] + ("…" if len(inner) > 120 else "") or "none"
    if isinstance(value, tuple | list):
        return ", ".join(_short(entry) for entry in value) or "none"
    text = str(value)
    return text if len(text) <= 24 else text[:23] + "…"
