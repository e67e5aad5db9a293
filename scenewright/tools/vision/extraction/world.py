"""A closed world as data: the words that judges are asked for.

A judge answers questions and names nothing of itself, so it must be told what there can be. A
file says it::

    kinds = ["person", "dog", "ball"]
    predicates = ["left of", "right of", "holding"]

    [attributes]
    color = ["red", "blue"]

    [[possible]]
    predicate = "holding"
    subjects = ["person"]
    targets = ["ball"]

A predicate with ``possible`` entries holds only between classes that one of them names (no list:
any class); one without entries can hold between all.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from scenewright.core.ports.vision import ExtractionError
from scenewright.core.predicate_statistics import DEFAULT
from scenewright.core.scene import clean_name
from scenewright.core.user_files import as_model, parsed_toml, read_user_text

_EXAMPLE = 'kinds = ["person", "ball"], predicates = ["left of"], [attributes] color = ["red"]'


def _clean(words: tuple[str, ...]) -> tuple[str, ...]:
    found = tuple(clean_name(word, "a word of the world") for word in words)
    if len(set(found)) != len(found):
        raise ValueError(f"a word is listed twice in {list(found)}: keep one")
    return found


Words = Annotated[tuple[str, ...], AfterValidator(_clean)]


class Possible(BaseModel):
    """Classes between which a predicate can hold."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    predicate: str
    """The predicate."""
    subjects: Words | None = None
    """Classes of the subject; none: any."""
    targets: Words | None = None
    """Classes of the object; none: any."""

    def allows(self, subject: str, target: str) -> bool:
        """Return whether it can hold between these classes."""
        return (self.subjects is None or subject in self.subjects) and (
            self.targets is None or target in self.targets
        )


class World(BaseModel):
    """The words of a closed world."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kinds: Words = Field(min_length=1)
    """Class labels."""
    attributes: dict[str, Words] = Field(default_factory=dict)
    """Attribute key → its values, of which a thing has one."""
    predicates: Words = ()
    """Of the relations."""
    possible: tuple[Possible, ...] = ()
    """Classes between which predicates can hold."""
    options: str = DEFAULT
    """Source of wrong options in questions about relations: a name or file of
    :func:`~scenewright.core.predicate_statistics.load_predicates`."""

    @model_validator(mode="after")
    def _check(self) -> World:
        unknown = sorted({one.predicate for one in self.possible} - set(self.predicates))
        if unknown:
            raise ValueError(f"possible speaks of {unknown}: add them to predicates")
        short = sorted(key for key, values in self.attributes.items() if len(values) < 2)
        if short:
            raise ValueError(f"the attributes {short} have fewer than two values: nothing to tell")
        return self

    def can_hold(self, subject: str, predicate: str, target: str) -> bool:
        """Return whether ``predicate`` can be between two classes."""
        rules = [rule for rule in self.possible if rule.predicate == predicate]
        allowed = not rules or any(rule.allows(subject, target) for rule in rules)
        return predicate in self.predicates and allowed


@lru_cache(maxsize=1)
def miniature_world() -> World:
    """Return the words of the miniature world, without *near*.

    It says little beside a direction, and judges would confirm both.
    """
    place = files("scenewright.tools.vision.extraction") / "world.toml"
    return _read(place.read_text(encoding="utf-8"), "world.toml")


def load_world(path: Path) -> World:
    """Return the world of a file; ``ExtractionError`` names what is wrong in it."""
    return _read(read_user_text(path, ExtractionError), str(path))


def _read(text: str, where: str) -> World:
    tables = parsed_toml(text, where, ExtractionError, f"; write {_EXAMPLE}")
    return as_model(tables, World, where, ExtractionError)
