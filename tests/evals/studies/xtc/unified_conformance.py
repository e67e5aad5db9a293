"""What every unified model does: tests that a class of its own inherits."""

from __future__ import annotations

from abc import ABC, abstractmethod

from PIL import Image

from scenewright.core.formats import load_scene
from scenewright.core.scene import Attributes, SceneGraph, SceneObject
from scenewright.evals.studies.xtc.base import DrawnPicture, Question, Reply, UnifiedModel
from scenewright.evals.studies.xtc.models import drawing_mark, parts_of, understanding_mark
from scenewright.evals.studies.xtc.questions import questions_of

SCENE = SceneGraph(
    objects=(
        SceneObject(id="ball.1", name="ball", attributes=Attributes({"color": "red"})),
        SceneObject(id="dog.1", name="dog", attributes=Attributes({"color": "black"})),
    ),
    relations=load_scene("ball left of dog").relations,
)


def questions() -> tuple[Question, ...]:
    """Those of :data:`SCENE`: of all three kinds."""
    return questions_of(SCENE).questions


class UnifiedModelConformance(ABC):
    """The contract of :class:`~scenewright.evals.studies.xtc.base.UnifiedModel`."""

    @abstractmethod
    def made(self) -> UnifiedModel:
        """A model that draws and answers."""

    async def drawn(self, model: UnifiedModel) -> Image.Image:
        """A picture of the scene by ``model``."""
        drawn = await model.draw(SCENE, "a red ball left of a black dog", 7)
        return drawn.image if isinstance(drawn, DrawnPicture) else drawn

    def test_it_is_a_unified_model(self) -> None:
        model = self.made()
        assert isinstance(model, UnifiedModel)
        assert model.id

    def test_its_marks_are_steady_and_differ(self) -> None:
        one, other = self.made(), self.made()
        assert one.fingerprint == other.fingerprint
        assert drawing_mark(one) == drawing_mark(other)
        assert understanding_mark(one) == understanding_mark(other)
        assert all(isinstance(part, str) for part in parts_of(one).values())

    async def test_it_draws_a_picture_and_the_same_again(self) -> None:
        model = self.made()
        first, again = [await self.drawn(model) for _ in range(2)]
        assert isinstance(first, Image.Image)
        assert first.tobytes() == again.tobytes()

    async def test_it_gives_one_reply_a_question_in_order(self) -> None:
        model = self.made()
        asked = questions()
        picture = await self.drawn(model)
        replies = await model.answer(picture, asked)
        assert len(replies) == len(asked)
        assert all(isinstance(reply, Reply) for reply in replies)
        assert all(reply.text or reply.reason for reply in replies)
        turned = await model.answer(picture, asked[::-1])
        assert [reply.text for reply in turned] == [reply.text for reply in replies[::-1]]

    async def test_no_question_needs_no_answer(self) -> None:
        model = self.made()
        assert list(await model.answer(Image.new("RGB", (16, 16)), [])) == []

    async def test_the_answer_is_not_looked_at(self) -> None:
        model = self.made()
        picture = await self.drawn(model)
        asked = questions()
        blind = [question.model_copy(update={"answer": "zebra"}) for question in asked]
        told = await model.answer(picture, asked)
        assert [r.text for r in await model.answer(picture, blind)] == [r.text for r in told]
