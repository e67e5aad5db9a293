"""Single objects, each alone and with attributes bound to it: what Table 9 is drawn from.

The paper asks a language model for three instances of each of its 775 categories (Table 8). Here
they come from a file in the form of that prompt's reply, ``{"apple": ["red apple", "green apple",
"ripe apple"], …}`` as JSON or TOML, or from the built-in ones: every kind of the painted world in
three of its colours for the miniature, the 80 classes of COCO for other profiles.
"""

from __future__ import annotations

import hashlib
import json
import random
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from scenewright.core.scene import Attributes, SceneGraph, SceneObject
from scenewright.evals.datasets.base import Item
from scenewright.evals.studies.errors import StudyError

WITHOUT, WITH = "without", "with"
"""Groups of items: the bare object, and the object with an attribute."""
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
        """Those of the first ``n`` classes, or all."""
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
    """Every kind of the painted world, each in three of its six colours."""
    from scenewright.miniature.world import COLORS, KINDS

    found = {}
    for kind in KINDS:
        colors = random.Random(f"held-out/objects/{kind}").sample(sorted(COLORS), EACH)
        found[kind] = tuple(("color", color) for color in colors)
    return Objects(found, "scenewright.miniature.world")


def known_objects() -> Objects:
    """The 80 classes of COCO with three instances each."""
    text = (
        files("scenewright.evals.studies.scene_bench").joinpath("instances.toml").read_text("utf-8")
    )
    return Objects(_parsed(tomllib.loads(text), "instances.toml"), "instances.toml")


def objects_of(path: str | Path) -> Objects:
    """The instances in the JSON or TOML file ``path``.

    Raises ``StudyError`` with the place of what cannot be read.
    """
    file = Path(path).expanduser()
    try:
        text = file.read_text(encoding="utf-8")
        data = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise StudyError(f"{file} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        form = "JSON" if file.suffix == ".json" else "TOML"
        raise StudyError(f"{file} is no {form}: {error}") from error
    return Objects(_parsed(data, str(file)), file.name)


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
