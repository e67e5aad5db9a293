"""A small world for tests of XTC-Bench: pictures whose graphs are known, and who draws them."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from scenewright.core.ports.vision import Extraction, ExtractionError
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.datasets.base import Item
from scenewright.evals.studies.xtc.base import Question, Reply
from tests.doubles import painted

Damage = Callable[[SceneGraph], SceneGraph]


@dataclass
class World:
    """What was drawn, by the bytes of the picture."""

    graphs: dict[bytes, SceneGraph] = field(default_factory=dict)

    def paint(self, scene: SceneGraph, *mark: object) -> Image.Image:
        """A picture of ``scene`` that no other ``mark`` has."""
        digest = hashlib.sha256(repr((scene.digest, mark)).encode()).digest()
        image = Image.frombytes("RGB", (8, 8), digest * 6)
        self.graphs[image.tobytes()] = scene
        return image


@dataclass
class KnowingExtractor:
    """Sees what was painted."""

    world: World
    looks: int = 0
    failing: Callable[[SceneGraph], bool] = lambda scene: False

    @property
    def id(self) -> str:
        return "knowing"

    @property
    def fingerprint(self) -> str:
        return "knowing-1"

    async def extract(self, image: Image.Image) -> Extraction:
        self.looks += 1
        scene = self.world.graphs[image.tobytes()]
        if self.failing(scene):
            raise ExtractionError("the picture is too dark")
        return Extraction(scene=scene)


@dataclass
class ScriptedUnified:
    """Draws a damaged graph and says what it is told."""

    name: str
    world: World
    damage: Damage = lambda scene: scene
    say: Callable[[Question], str | None] = lambda question: question.answer
    before: Callable[[str, str], None] = lambda what, which: None
    book: list[tuple[str, str]] = field(default_factory=list)

    @property
    def id(self) -> str:
        return self.name

    @property
    def fingerprint(self) -> str:
        return f"scripted-{self.name}"

    async def draw(self, scene: SceneGraph, prompt: str, seed: int) -> Image.Image:
        await asyncio.sleep(0)
        self.before("draw", scene.digest)
        self.book.append(("draw", f"{scene.digest} {seed}"))
        return self.world.paint(self.damage(scene), self.name, seed)

    async def answer(self, image: Image.Image, questions: Sequence[Question]) -> list[Reply]:
        await asyncio.sleep(0)
        for question in questions:
            self.before("answer", question.id)
        mark = hashlib.sha256(image.tobytes()).hexdigest()
        self.book += [("answer", f"{mark} {question.id}") for question in questions]
        said = [self.say(question) for question in questions]
        return [Reply(text=text, reason="" if text else "I cannot tell") for text in said]


def scene_of(*colors: str) -> SceneGraph:
    """A ball left of a dog left of a cat, of these colours."""
    names = ("ball", "dog", "cat")[: len(colors)]
    objects = tuple(
        SceneObject(id=f"{name}.1", name=name, attributes=Attributes({"color": color}))
        for name, color in zip(names, colors, strict=True)
    )
    relations = tuple(
        Relation(source=a.id, predicate="left of", target=b.id)
        for a, b in itertools.pairwise(objects)
    )
    return SceneGraph(objects=objects, relations=relations)


SCENES = (
    scene_of("red", "black", "green"),
    scene_of("blue", "yellow"),
    scene_of("green", "red", "blue"),
)


def items(folder: Path, scenes: Sequence[SceneGraph] = SCENES) -> list[Item]:
    """An item a scene, with a photo of its own."""
    found = []
    for at, scene in enumerate(scenes):
        file = folder / f"photo-{at}.png"
        if not file.exists():
            painted((12, 12), (at, 100, 200)).save(file)
        found.append(Item(id=f"item-{at}", scene=scene, image=str(file)))
    return found


def recolored(scene: SceneGraph) -> SceneGraph:
    """``scene`` whose first object is pink."""
    first = scene.objects[0].model_copy(update={"attributes": Attributes({"color": "pink"})})
    return scene.model_copy(update={"objects": (first, *scene.objects[1:])})


def without_relations(scene: SceneGraph) -> SceneGraph:
    """``scene`` whose objects stand for themselves."""
    return SceneGraph(objects=scene.objects)
