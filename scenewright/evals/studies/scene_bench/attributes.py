"""Table 9: recall of single objects, bare and with an attribute bound to them."""

from __future__ import annotations

import hashlib
import json
import random
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from scenewright.config.settings import Settings
from scenewright.core.scene import Attributes, SceneGraph, SceneObject
from scenewright.core.user_files import read_user_data
from scenewright.evals.datasets.base import Item
from scenewright.evals.reporting import plots
from scenewright.evals.statistics.estimates import Array, Estimate, contrast, mean
from scenewright.evals.studies.layout import Cell, Layout
from scenewright.evals.studies.paper import Claim, models_beside, paper
from scenewright.evals.studies.readings import Readings
from scenewright.evals.studies.study import (
    OBJECTS_FAMILY,
    Outcome,
    Setup,
    StudyDefinition,
    StudyError,
    StudyRequirement,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WITHOUT, WITH = "without", "with"
"""Groups of items: the bare object, and the object with an attribute."""
_ALONE = "with/object"
"""Row of objects that are there, with their attribute or without."""
EACH = 3
"""Instances of a class, as in the paper."""
_KEY = "look"
"""Attribute key of an instance that a file names: it says no kind of attribute."""


@dataclass(frozen=True)
class Objects:
    """A set of single objects, a bare one and its instances with an attribute in turn."""

    instances: Mapping[str, tuple[tuple[str, str], ...]]
    """Class → (attribute key, value) of its instances."""
    source: str
    """Where they come from."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Nothing is."""

    name: str = "objects"
    """As in results."""
    licence: str = ""
    """None is named."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of classes and instances."""
        text = json.dumps({k: list(v) for k, v in self.instances.items()}, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def __iter__(self) -> Iterator[Item]:
        for name, instances in self.instances.items():
            yield _item(name, None)
            for instance in instances:
                yield _item(name, instance)

    def first(self, n: int | None) -> Objects:
        """Return the objects of the first ``n`` classes, or all."""
        if n is None:
            return self
        kept = dict(list(self.instances.items())[:n])
        return Objects(kept, self.source)


def _item(name: str, attribute: tuple[str, str] | None) -> Item:
    attributes = Attributes(() if attribute is None else [attribute])
    scene = SceneGraph(objects=(SceneObject(id=f"{name}.1", name=name, attributes=attributes),))
    group = WITHOUT if attribute is None else WITH
    said = name if attribute is None else f"{attribute[1]} {name}"
    return Item(id=said.replace("/", "_"), scene=scene, group=group, category=name)


def painted_objects() -> Objects:
    """Return every kind of the painted world, each in three of its six colours."""
    from scenewright.miniature.world import COLORS, KINDS

    found = {}
    for kind in KINDS:
        colors = random.Random(f"held-out/objects/{kind}").sample(sorted(COLORS), EACH)
        found[kind] = tuple(("color", color) for color in colors)
    return Objects(found, "scenewright.miniature.world")


def known_objects() -> Objects:
    """Return the 80 classes of COCO with three instances each."""
    text = (
        files("scenewright.evals.studies.scene_bench").joinpath("instances.toml").read_text("utf-8")
    )
    return Objects(_parsed(tomllib.loads(text), "instances.toml"), "instances.toml")


def objects_of(path: str | Path) -> Objects:
    """Return the instances in the JSON or TOML file ``path``.

    Raises ``StudyError`` with the place of what cannot be read.
    """
    file = Path(path).expanduser()
    return Objects(_parsed(read_user_data(file, StudyError), str(file)), file.name)


def _parsed(data: object, where: str) -> dict[str, tuple[tuple[str, str], ...]]:
    form = 'write {"apple": ["red apple", "ripe apple"]}'
    if not isinstance(data, dict) or not data:
        raise StudyError(f"{where} names no classes: {form}")
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    for name, instances in data.items():
        if not isinstance(instances, list) or not instances:
            raise StudyError(f"{where}: {name!r} has no list of instances: {form}")
        some = []
        for instance in instances:
            words = instance.strip() if isinstance(instance, str) else ""
            value = words.removesuffix(name).strip()
            if not words.endswith(name) or not value:
                raise StudyError(
                    f"{where}: the instance {instance!r} of {name!r} is not 'ATTRIBUTE {name}': "
                    "put the attribute before the class"
                )
            some.append((_KEY, value))
        if len(set(some)) != len(some):
            raise StudyError(f"{where}: {name!r} lists an instance twice: keep one")
        found[name] = tuple(some)
    return found


CONDITIONS = {"triplets": "the words alone", "composition": "scene composition"}
"""Way of drawing → how tables call it: the words alone (``red apple``) as in the paper, and the
composed description."""
_MINIMAL = 5.0
"""Points of recall that count as a minimal difference: the paper calls its 3.78 so."""


def objects(setup: Setup) -> Objects:
    """Return the setup's objects; ``n`` bounds the classes. Raises ``StudyError`` for its file."""
    if setup.instances is not None:
        return objects_of(setup.instances).first(setup.n)
    return (painted_objects() if setup.synthetic else known_objects()).first(setup.n)


def requirements(setup: Setup, settings: Settings) -> tuple[StudyRequirement, ...]:
    """Require single objects in both conditions."""
    return (
        StudyRequirement(
            OBJECTS_FAMILY,
            tuple(CONDITIONS),
            setup.report_panel(settings),
            setup.metrics(),
            setup.seeds,
            scopes=("group",),
            dataset=objects(setup),
        ),
    )


def outcome(setup: Setup, settings: Settings, readings: tuple[Readings, ...]) -> Outcome:
    """Return a table of two rows, with a column a condition."""
    (found,) = readings
    table, beside = paper().named("table9"), models_beside(setup.profile)
    bare, bound = (int(found.where("group", group).sum()) for group in (WITHOUT, WITH))

    def cell(row: str, condition: str) -> Estimate | Cell:
        if row == _ALONE:
            # Apart from the paper's rows: whether the thing is there at all when an attribute is
            # asked.
            there = found.of("sgscore", condition, "objects")[found.where("group", WITH)]
            return mean(there).times(100)
        measured = mean(_values(found, condition, row)).times(100)
        said = table.of(row, "recall", beside) if condition == "triplets" else ()
        return Cell(measured=measured, paper=said)

    layout = Layout.grid(
        "table9",
        f"{table.number}: {table.title}",
        {
            WITHOUT: f"w.o. attributes (# {bare})",
            WITH: f"w. attributes (# {bound})",
            _ALONE: "w. attributes, the object alone",
        },
        {name: f"{said}, recall ↑ (%)" for name, said in CONDITIONS.items()},
        cell,
        head=f"Model: {setup.profile}",
        digits=2,
    )
    return Outcome(
        (layout,),
        _claims(setup, found),
        lambda: _plot(setup, layout),
        _notes(setup),
        {"classes": len({c for c in found.columns["category"] if c})},
    )


def _values(found: Readings, condition: str, group: str) -> Array:
    """Return the recall of the bare objects, or of objects that are there with their attribute."""
    part = "objects" if group == WITHOUT else "attributes"
    return found.of("sgscore", condition, part)[found.where("group", group)]


def _claims(setup: Setup, found: Readings) -> tuple[Claim, ...]:
    table, beside = paper().named("table9"), models_beside(setup.profile)
    claims: list[Claim] = []
    for condition, how in CONDITIONS.items():
        gap = contrast(_values(found, condition, WITH), _values(found, condition, WITHOUT)).times(
            100
        )
        gains = table.gains(WITH, WITHOUT, "recall", beside) if condition == "triplets" else ()
        claims += [
            Claim(
                where=table.number,
                says="recall with an attribute is a little lower than that of the bare object, "
                f"drawn from {how}",
                side="below",
                measured=gap,
                paper=gains,
                digits=2,
            ),
            Claim(
                where=table.number,
                says=f"the difference is minimal, drawn from {how}",
                side="within",
                margin=_MINIMAL,
                measured=gap,
                paper=gains,
                digits=2,
            ),
        ]
    return tuple(claims)


def _notes(setup: Setup) -> tuple[str, ...]:
    notes = [
        "With attributes an object counts if it is there and the judges say that it has its "
        "attribute; the third row, which the paper has not, counts it if it is there at all.",
        "The paper's figures of SDXL are missing in the text that was available.",
    ]
    if setup.synthetic:
        notes.append(
            "The small generator learned from captions that name a colour of every thing, and its "
            "composer names a usual one where the scene has none: scene composition draws bare "
            "objects with a colour, too."
        )
    return tuple(notes)


def _plot(setup: Setup, layout: Layout) -> Figure:
    return plots.percentages(
        list(CONDITIONS.values()),
        {row.title: [cell.measured or Estimate() for cell in row.cells] for row in layout.rows},
        ylabel="recall (%), 95 % interval over objects",
        xlabel="what is drawn from",
        title=f"Single objects with and without attributes, {setup.profile}",
        size=(6.4, 4.2),
        columns=2,
    )


ATTRIBUTES = StudyDefinition(
    "attributes",
    "table9",
    "Table 9",
    "recall of single objects, bare and with attributes",
    requirements,
    outcome,
)
