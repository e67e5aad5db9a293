"""Labels by eye of generated pictures: what is really drawn, fact by fact.

Paintings tell how judges do on clean pictures of a known truth. What they are for is
pictures of the generator, whose truth only looking can tell.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from scenewright.core.facts import Fact
from scenewright.core.predicate_statistics import load_predicates
from scenewright.core.questions import facts_of
from scenewright.core.scene import Level, SceneGraph
from scenewright.miniature.training.judge_questions import KnownFact

FOLDER = Path(__file__).parent.parent / "tests" / "data" / "generated"
"""Where the labelled pictures lie."""
FILE = "labels.json"
Mark = Literal["true", "false", "unclear"]


class LabelError(ValueError):
    """Labels that do not fit their pictures; says which and what to do."""


class Picture(BaseModel):
    """A generated picture and, once it was looked at, the label of every fact."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str = Field(pattern=r"^[\w-]+\.png$")
    """Its file in the folder of the labels."""
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Of the file."""
    level: Level
    """Level of the scene."""
    seed: int = Field(ge=0)
    """Seed of the drawing."""
    scene: SceneGraph
    """What was asked."""
    facts: dict[str, Mark] = Field(default_factory=dict)
    """Fact id → what is seen."""

    def all_facts(self) -> tuple[Fact, ...]:
        """The facts of the scene in their order."""
        return facts_of(self.scene, predicates=load_predicates("miniature"))

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.scene.level() != self.level:
            raise ValueError(f"{self.file}: the scene is {self.scene.level()}, not {self.level}")
        if not self.facts:
            return self
        facts = {fact.id: fact for fact in self.all_facts()}
        if set(self.facts) != set(facts):
            raise ValueError(
                f"{self.file}: not labelled {sorted(set(facts) - set(self.facts))}, "
                f"no facts of the scene {sorted(set(self.facts) - set(facts))}"
            )
        for fact in facts.values():
            absent = [parent for parent in fact.parents if self.facts[parent] == "false"]
            if absent and self.facts[fact.id] != "false":
                raise ValueError(
                    f"{self.file}: {fact.id} is {self.facts[fact.id]} though {absent[0]} is false"
                )
        return self


class Labels(BaseModel):
    """Pictures with their labels."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    generator: str
    """Fingerprint of the backend that drew the pictures."""
    seen_by: str = ""
    """Who looked; empty as long as nobody has."""
    pictures: tuple[Picture, ...]
    """In the order of their numbers."""

    def write(self, folder: Path) -> Path:
        """Write ``labels.json``, one line a picture, so that changes are easy to read."""
        rows = ",\n".join(
            json.dumps(p.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False)
            for p in self.pictures
        )
        head = json.dumps({"generator": self.generator, "seen_by": self.seen_by})[1:-1]
        path = folder / FILE
        path.write_text(f'{{{head}, "pictures": [\n{rows}\n]}}\n', encoding="utf-8")
        return path


def read_labels(folder: Path = FOLDER, labelled: bool = True) -> Labels:
    """The labels in ``folder``, checked against their pictures. Raises ``LabelError``.

    With ``labelled`` every fact of every picture must have its label.
    """
    path = folder / FILE
    try:
        labels = Labels.model_validate_json(path.read_bytes())
    except OSError as error:
        raise LabelError(
            f"{path} cannot be read ({error.strerror}): label pictures first"
        ) from error
    except ValidationError as error:
        raise LabelError(f"{path}: {error}") from error
    files = [picture.file for picture in labels.pictures]
    stray = sorted({f.name for f in folder.glob("*.png")} ^ set(files))
    if stray or len(set(files)) != len(files):
        raise LabelError(f"{path}: {stray or files} must each be one file and one entry")
    for picture in labels.pictures:
        found = hashlib.sha256((folder / picture.file).read_bytes()).hexdigest()
        if found != picture.sha256:
            raise LabelError(f"{folder / picture.file} is not the picture that was labelled")
        if labelled and not picture.facts:
            raise LabelError(f"{path}: {picture.file} has no labels: fill in its line of the form")
    if labelled and not labels.seen_by:
        raise LabelError(f"{path}: 'seen_by' is empty: say who looked at the pictures")
    return labels


def known_facts(picture: Picture) -> list[KnownFact]:
    """The facts that a run would ask and whose label is clear: every parent is true."""
    found = []
    for fact in picture.all_facts():
        mark = picture.facts[fact.id]
        if mark == "unclear" or any(picture.facts[p] != "true" for p in fact.parents):
            continue
        others = tuple(option for option in fact.options if option != fact.expected)
        right = (fact.expected,) if mark == "true" else others[-1:]
        found.append(KnownFact(fact, right, (), True))
    return found
