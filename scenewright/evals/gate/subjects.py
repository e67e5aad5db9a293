"""The two sides of a gate: profiles that draw, or evaluations that are finished."""

from __future__ import annotations

import heapq
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scenewright.config.settings import Settings, find_profile
from scenewright.core.validation import first_problem
from scenewright.evals.datasets.base import Dataset, Item
from scenewright.evals.datasets.registry import PartOfSet, rank
from scenewright.evals.errors import EvalError
from scenewright.evals.reporting.evaluations import Side, open_sides
from scenewright.evals.reporting.pages import ChoiceError
from scenewright.evals.runner.config import REPORT_PANEL, EvalConfig, load_config, panels_of
from scenewright.evals.runner.weighing import default_aggregation
from scenewright.evals.store.results import MANIFEST


@dataclass(frozen=True, slots=True)
class Drawn:
    """A profile, with changed fields, whose pictures the gate draws."""

    profile: str
    """Its name."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Field, or ``part.field`` of a table of it, → value."""

    @property
    def text(self) -> str:
        """Return ``flux, steps=8``."""
        changes = [f"{key}={_plain(value)}" for key, value in self.changes.items()]
        return ", ".join([self.profile, *changes])


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished evaluation, or an arm of it."""

    selector: str
    """``FOLDER`` or ``FOLDER:BACKEND/CONDITION``, as for ``scenewright eval compare``."""

    @property
    def text(self) -> str:
        """Return the selector."""
        return self.selector

    def open(self) -> Side:
        """Return its one arm. Raises ``ChoiceError`` where it has several or none."""
        sides = open_sides([self.selector])[0]
        if len(sides) > 1:
            arms = ", ".join(side.arm for side in sides)
            raise ChoiceError(
                f"{self.selector} has several arms: name one of them as {self.selector}:ARM; the "
                f"arms are {arms}"
            )
        return sides[0]


Subject = Drawn | Finished
_JUDGING = frozenset({"alpha", "asking", "protocol", "report_judges", "self_report"})
"""Fields of a profile that the evaluation decides in its place."""


def subject_of(text: str, changes: Mapping[str, Any] | None = None) -> Subject:
    """Return the side that ``text`` names: the folder of an evaluation, else a profile.

    Raises ``ChoiceError`` for a path without an evaluation, and for ``changes`` of a finished one.
    """
    folder = text if (Path(text) / MANIFEST).is_file() else text.rpartition(":")[0]
    if folder and (Path(folder) / MANIFEST).is_file():
        if changes:
            raise ChoiceError(
                f"{text} is a finished evaluation: its settings cannot be changed. Name the profile"
            )
        return Finished(text)
    if "/" in text:
        raise ChoiceError(
            f"{text} holds no evaluation ({MANIFEST} is not there): name a folder that "
            "`scenewright eval run` wrote, or a profile (`scenewright doctor` lists them)"
        )
    return Drawn(text, dict(changes or {}))


def change_of(text: str) -> tuple[str, Any]:
    """Return key and value of ``KEY=VALUE``; the value is JSON, else text.

    Raises ``ChoiceError`` for anything else.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ChoiceError(f"{text!r} is not a change: write KEY=VALUE, such as steps=8")
    try:
        return key.strip(), json.loads(value)
    except ValueError:
        return key.strip(), value


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def evaluation_of(
    config: str | Path | None, data: str | None, judges: Sequence[str] = (), panel: str = ""
) -> EvalConfig | None:
    """Return the evaluation in the TOML file ``config``, or of the set named ``data``.

    ``judges`` replace its panels by one, named ``panel``. None without both. Raises ``ChoiceError``
    for options that exclude each other, and ``EvalError`` for a file that cannot be read.
    """
    if config is not None and data is not None:
        raise ChoiceError("--config and --data both name scenes: give one of them")
    if config is None and data is None:
        if judges:
            raise ChoiceError(
                "--judges needs --config or --data: a finished evaluation is judged by its own"
            )
        return None
    found = (
        load_config(config)
        if config is not None
        else EvalConfig.model_validate({"name": "gate", "dataset": {"name": data}})
    )
    if not judges:
        return found
    panels = {panel or REPORT_PANEL: {"judges": tuple(judges)}}
    return EvalConfig.model_validate({**found.model_dump(), "panels": panels})


def config_in(finished: Finished) -> EvalConfig:
    """Return the configuration of a finished evaluation, with its arm alone.

    Raises ``EvalError`` if it cannot be read.
    """
    side = finished.open()
    try:
        config = EvalConfig.model_validate(side.evaluation.manifest.get("config"))
    except ValidationError as error:
        raise EvalError(
            f"the configuration of {finished.selector} cannot be used: {first_problem(error)}. "
            "Name one with --config"
        ) from error
    backend, condition = side.arm.split("/")[:2]
    return config.model_copy(update={"backends": (backend,), "conditions": (condition,)})


def config_of(role: str, drawn: Drawn, config: EvalConfig, settings: Settings) -> EvalConfig:
    """Return the evaluation of one side, with the set, panels, seeds and metrics of ``config``.

    Raises ``EvalError`` where ``config`` has several conditions or the changes do not fit, and
    ``SettingsError`` for an unknown profile.
    """
    if len(config.conditions) != 1:
        raise EvalError(
            f"a gate compares one way of drawing, the configuration has {len(config.conditions)} "
            f"conditions ({', '.join(config.conditions)}): name one"
        )
    profile = find_profile(drawn.profile, settings).model_dump(mode="json")
    name = config.conditions[0]
    condition = config.condition_of(name)
    changes = {**condition.profile, **_changed(profile, drawn.changes)}
    changed = condition.model_copy(update={"profile": changes})
    made = EvalConfig.model_validate(
        {
            **config.model_dump(),
            "name": role,
            "about": f"The {role} of a gate: {drawn.text}.",
            "backends": (drawn.profile,),
            "condition": {**config.condition, name: changed},
            "side_by_side": False,
        }
    )  # fmt: skip
    # Weights by agreement differ from batch to batch and between the sides. A finished evaluation
    # notes its profiles' panels only where they are by agreement: so do the sides.
    panels = {
        panel: spec.model_copy(update={"aggregation": spec.aggregation or "mean"})
        for panel, spec in panels_of(made, settings).items()
        if panel in made.panels or default_aggregation(len(spec.judges)) != "mean"
    }
    return made.model_copy(update={"panels": panels})


def _changed(profile: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changed fields of a profile; a table is given whole."""
    found: dict[str, Any] = {}
    for key, value in changes.items():
        name, *path = key.split(".")
        if name in _JUDGING:
            raise EvalError(
                f"{name} decides how pictures are judged: it cannot differ between the sides. Set "
                "it for both, in the configuration or with --judges; --labels compares judges"
            )
        if name not in profile:
            known = ", ".join(sorted(profile))
            raise EvalError(f"a profile has no field {name!r}: use one of {known}")
        if not path:
            found[name] = value
            continue
        table = found.setdefault(name, json.loads(json.dumps(profile[name])))
        for part in path[:-1]:
            table = table.setdefault(part, {}) if isinstance(table, dict) else None
        if not isinstance(table, dict):
            raise EvalError(f"{key}: {'.'.join([name, *path[:-1]])} is not a table")
        table[path[-1]] = value
    return found


def check_panels(configs: Sequence[EvalConfig], settings: Settings) -> None:
    """Raise ``EvalError`` where the two sides would be judged by different panels."""
    panels = [
        {name: spec.judges for name, spec in panels_of(config, settings).items()}
        for config in configs
    ]
    if any(found != panels[0] for found in panels):
        each = " against ".join(
            "; ".join(f"{name}: {', '.join(judges)}" for name, judges in found.items())
            for found in panels
        )
        raise EvalError(
            f"the profiles name different report judges ({each}): name the judges of both with "
            "--judges"
        )


class RandomOrder(PartOfSet):
    """The items of a set in the random order of a seed, up to :attr:`stop`.

    It has the fingerprint of the whole set: the items are the same, and a part of them is an
    evaluation that has not ended.
    """

    def __init__(
        self,
        dataset: Dataset,
        seed: int,
        limit: int | None = None,
        only: Collection[str] | None = None,
    ) -> None:
        """Read the set; ``only`` these items, and the first ``limit`` of the order."""
        super().__init__(dataset)
        among = (item for item in dataset if only is None or item.id in only)

        def place(item: Item) -> int:
            return rank(seed, item.id)

        items = sorted(among, key=place) if limit is None else heapq.nsmallest(limit, among, place)
        self._items = tuple(items)
        self.stop = len(self._items)

    def __len__(self) -> int:
        return len(self._items)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the whole set."""
        return self.whole.fingerprint

    def __iter__(self) -> Iterator[Item]:
        """Return the first items."""
        return islice(iter(self._items), self.stop)
