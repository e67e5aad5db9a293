"""The arms of an evaluation: backend × condition × seed, with the profile that each draws by."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scenewright.config.model_identity import apart_problem, identities_of, shared_names
from scenewright.config.settings import MEASURED, Profile, Settings, changed_profile, find_profile
from scenewright.core.validation import first_problem
from scenewright.evals.errors import EvalError
from scenewright.evals.runner.config import PACKAGE, Condition, EvalConfig, PanelSpec
from scenewright.evals.store.schema import arm_name

REPORT_PANEL = "report"
"""The panel of a configuration that names none: the report judges of the profiles."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of drawing."""

    backend: str
    """Name of the profile."""
    condition: str
    """Name of the condition."""
    seed: int
    """The configuration's seed."""
    spec: Condition
    """What the condition changes."""
    profile: Profile
    """The profile with these changes."""

    @property
    def name(self) -> str:
        """``backend/condition/seed``."""
        return arm_name(self.backend, self.condition, self.seed)

    @property
    def loops(self) -> bool:
        """Whether judges steer it."""
        return self.spec.source == "draw" and self.spec.rounds > 1

    def columns(self, item: str) -> dict[str, Any]:
        """The first columns of every row about ``item`` in this arm."""
        return {
            "item": item,
            "arm": self.name,
            "backend": self.backend,
            "condition": self.condition,
            "seed": self.seed,
        }

    def item_seed(self, item: str) -> int:
        """63 bits of SHA-256("seed:item"): the same in every arm, so that their pictures begin
        with the same noise, and another one for each item, so that items do not share theirs."""
        return item_seed(self.seed, item)


def item_seed(seed: int, item: str) -> int:
    """63 bits of SHA-256("seed:item"): what an item is drawn with, whatever draws it."""
    digest = hashlib.sha256(f"{seed}:{item}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def arms_of(config: EvalConfig, settings: Settings) -> tuple[Arm, ...]:
    """The arms of ``config`` in its order: backends, then conditions, then seeds.

    Raises ``EvalError`` for a condition that does not fit a profile, ``SettingsError`` for an
    unknown profile.
    """
    return tuple(_arms(config, settings))


def _arms(config: EvalConfig, settings: Settings) -> Iterator[Arm]:
    asked: dict[str, Any] = {
        "protocol": config.protocol,
        "asking": config.asking,
        "alpha": config.alpha,
    }
    if config.predicates not in ("", PACKAGE):
        asked["predicates"] = config.predicates
    for backend in config.backends:
        profile = find_profile(backend, settings)
        for name in config.conditions:
            spec = config.condition_of(name)
            # The panels judge what is drawn; a loop need not pay for a report of its own.
            changed = {**asked, "report_judges": (), "self_report": False, **spec.profile}
            try:
                fitted = changed_profile(profile, changed, settings)
            except ValidationError as error:
                raise EvalError(
                    f"the condition {name!r} does not fit the profile {backend!r}: "
                    f"{first_problem(error)}"
                ) from error
            for seed in config.seeds:
                yield Arm(backend, name, seed, spec, fitted)


def panels_of(config: EvalConfig, settings: Settings) -> dict[str, PanelSpec]:
    """The panels of ``config`` by name; without any, the report judges of its profiles.

    Raises ``EvalError`` if there are none, if profiles name different ones, or if a panel holds
    judges that steer a loop of the configuration and this is not allowed.
    """
    panels = dict(config.panels)
    profiles = [find_profile(backend, settings) for backend in config.backends]
    own = config.allow_loop_judges
    if not panels:
        # A profile whose loop reports itself has its judges in the place of report judges.
        own = own or any(profile.self_report for profile in profiles)
        named = {_reporting(profile) for profile in profiles}
        if len(named) > 1 or not all(named):
            raise EvalError(
                "the profiles name "
                + ("different report judges" if len(named) > 1 else "no report judges")
                + ": name the judges of all arms in [panels.NAME] judges = ['kind:model']"
            )
        profile, judges = profiles[0], _reporting(profiles[0])
        panels[REPORT_PANEL] = PanelSpec(
            judges=judges,
            aggregation="mean" if profile.aggregation in MEASURED else profile.aggregation,
            quorum=min(profile.quorum, len(judges)),
        )
    for name, panel in panels.items():
        _check_panel(name, panel, () if own else arms_of(config, settings), settings)
    return panels


def _reporting(profile: Profile) -> tuple[str, ...]:
    return profile.report_judges or (profile.judges if profile.self_report else ())


def _check_panel(name: str, panel: PanelSpec, arms: Sequence[Arm], settings: Settings) -> None:
    """Raises ``EvalError`` if a model judges twice in ``panel``, or steers a loop of ``arms``."""
    judges = identities_of(panel.judges, settings.accounts)
    if problem := apart_problem(judges):
        raise EvalError(f"the panel {name!r}: {problem}")
    for arm in arms:
        if not arm.loops:
            continue
        loop, _, director = arm.profile.identities(settings.accounts)
        steers = loop if director is None else [*loop, director]
        for judge in judges:
            if shared_names(steers, [judge]):
                raise EvalError(
                    f"the panel {name!r} holds {judge.spec}, which steers a loop of "
                    f"{arm.backend}/{arm.condition}, as a judge or director, under this name or "
                    "another: the number reported comes from models that the loop never saw. "
                    "Name others, or say allow_loop_judges = true: the scores are then labelled "
                    "self-reports"
                )


def digest(*parts: Any) -> str:
    """SHA-256 (hex) of JSON data."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def file_mark(file: Path) -> list[Any]:
    """What tells a file apart without reading it: its path, size and time of change."""
    stat = file.stat()
    return [str(file.resolve()), stat.st_size, stat.st_mtime_ns]
