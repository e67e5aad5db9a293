"""Which attributes a thing is asked for: the meta-classes of XTC-Bench (Sec. 3.2.3 and 6.2.2).

Asking for fixed keys keeps attributes stable from one look to the next: a bed has a colour and a
material, a phone has a screen. The table ships as data, ``meta_classes.toml``; a file of one's own
in the same form extends it, or stands in its place with ``replace = true``::

    [boats]
    categories = ["boat", "canoe"]
    keys = ["primary color", "sail up/down"]
"""

from __future__ import annotations

import hashlib
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from scenewright.agents.parsers.tagging import is_person
from scenewright.core.inflection import singular
from scenewright.core.ports.vision import ExtractionError
from scenewright.core.user_files import read_user_toml
from scenewright.core.validation import first_problem
from scenewright.tools.vision.detection.labels import normalized_label

TABLE = Path(__file__).with_name("meta_classes.toml")
DEFAULT = "default"
"""Name of the table with the keys of all other labels."""
_REPLACE = "replace"
_PERSON = "person"

Word = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]


class MetaClass(BaseModel):
    """Classes that are asked for the same attributes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Word
    """For example ``door appliances``."""
    categories: tuple[Word, ...] = Field(min_length=1)
    """Labels of the classes."""
    synonyms: tuple[Word, ...] = ()
    """Other words for one of them."""
    keys: tuple[Word, ...] = Field(min_length=1)
    """Attributes, in the words in which they are asked for."""

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len(set(self.keys)) != len(self.keys):
            raise ValueError(f"keys names one twice: {', '.join(self.keys)}")
        return self


class MetaClasses(BaseModel):
    """A table of meta-classes; raises ``ValueError`` where two of them claim one label."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    classes: tuple[MetaClass, ...] = ()
    """In the table's order."""
    default_keys: tuple[Word, ...] = Field(min_length=1)
    """Attributes of a thing of any other label."""

    @model_validator(mode="after")
    def _no_label_twice(self) -> Self:
        _ = self._by_label
        return self

    def of(self, label: str) -> MetaClass | None:
        """Return the meta-class of ``label``; none if no one knows it.

        Case, hyphens, COCO's endings (``-merged``, ``-other``, ``-stuff``) and the plural make no
        difference, and a pilot is a person.
        """
        found = self._by_label.get(_key(label))
        return self._by_label.get(_PERSON) if found is None and is_person(label) else found

    def keys_of(self, label: str) -> tuple[str, ...]:
        """Return the attribute keys of ``label``: its meta-class's, else the default ones."""
        found = self.of(label)
        return self.default_keys if found is None else found.keys

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the table."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    @cached_property
    def _by_label(self) -> dict[str, MetaClass]:
        found: dict[str, MetaClass] = {}
        for one in self.classes:
            for label in (*one.categories, *one.synonyms):
                other = found.setdefault(_key(label), one)
                if other is not one:
                    raise ValueError(
                        f"{label!r} is in two meta-classes, {other.name!r} and {one.name!r}: leave "
                        "it in one of them"
                    )
        return found


@cache
def built_in() -> MetaClasses:
    """Return the table that ships: 30 meta-classes over COCO's 133 panoptic categories."""
    return _built(read_user_toml(TABLE, ExtractionError), TABLE, None)


def load_meta_classes(path: Path | None = None) -> MetaClasses:
    """Return the built-in table, extended or replaced by the TOML file ``path``.

    A meta-class of the file takes the place of a built-in one of its name, and takes the labels
    that it lists from the others. Raises ``ExtractionError``, with the place in the file, for what
    cannot be read.
    """
    if path is None:
        return built_in()
    table = read_user_toml(path, ExtractionError)
    replace = table.pop(_REPLACE, False)
    if not isinstance(replace, bool):
        raise ExtractionError(f"{path}: {_REPLACE} is {replace!r}: use true or false")
    return _built(table, path, None if replace else built_in())


def _built(table: dict[str, Any], path: Path, base: MetaClasses | None) -> MetaClasses:
    entry = table.pop(DEFAULT, None)
    if entry is None and base is not None:
        default = base.default_keys
    else:
        keys = entry.get("keys") if isinstance(entry, dict) and set(entry) == {"keys"} else None
        words = keys if isinstance(keys, list) else []
        if not words or not all(isinstance(word, str) and word for word in words):
            raise ExtractionError(
                f"{path}: write [{DEFAULT}] with keys, the attributes of labels in no meta-class, "
                'for example keys = ["primary color"]'
            )
        default = tuple(words)
    own = []
    for name, entry in table.items():
        if not isinstance(entry, dict):
            raise ExtractionError(f"{path}: [{name}] must be a table with categories and keys")
        try:
            own.append(MetaClass.model_validate({"name": name, **entry}))
        except ValidationError as error:
            raise ExtractionError(f"{path}, [{name}]: {first_problem(error)}") from None
    # Built-in classes stay but for those of the same name, and for labels that own ones take.
    names = {one.name for one in own}
    taken = {_key(label) for one in own for label in (*one.categories, *one.synonyms)}
    kept = []
    for one in base.classes if base is not None else ():
        categories, synonyms = (
            tuple(label for label in labels if _key(label) not in taken)
            for labels in (one.categories, one.synonyms)
        )
        if one.name not in names and categories:
            kept.append(one.model_copy(update={"categories": categories, "synonyms": synonyms}))
    try:
        return MetaClasses(classes=(*kept, *own), default_keys=default)
    except ValidationError as error:
        raise ExtractionError(f"{path}: {first_problem(error)}") from None


def _key(label: str) -> str:
    return singular(normalized_label(label))
