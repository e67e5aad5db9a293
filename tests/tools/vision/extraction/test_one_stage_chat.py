"""Images to scene graphs by a multimodal language model."""

from __future__ import annotations

import base64
import io

import pytest
from PIL import Image

from scenewright.agents.chat.language_replies import ReplyError
from scenewright.agents.judges.models import caps_of
from scenewright.agents.judges.pictures import ImagePreparation
from scenewright.core.formats import load_scene
from scenewright.core.ports.vision import Detection
from scenewright.core.scene import SceneError
from scenewright.tools.vision.extraction.one_stage import PictureParser, sampling_of
from tests.agents.replying import ReplyingChat
from tests.isomorphism import isomorphic

IMAGE = Image.new("RGB", (640, 480), (200, 40, 40))
GRAPH = {
    "objects": [
        {"id": "dog.1", "name": "dog", "attributes": []},
        {"id": "ball.1", "name": "ball", "attributes": [{"key": "color", "value": "red"}]},
    ],
    "relationships": [{"source": "dog.1", "target": "ball.1", "relation": "chasing"}],
}
FOUND = (Detection("person", (116, 49, 309, 480)), Detection("person", (367, 108, 550, 477)))


def shown(chat: ReplyingChat) -> Image.Image:
    blocks = [b for b in chat.sent[0][-1].content if isinstance(b, dict) and b["type"] == "image"]
    [block] = blocks
    assert block["mime_type"] == "image/png"
    return Image.open(io.BytesIO(base64.b64decode(block["base64"])))


async def test_the_model_sees_the_image_and_gives_the_graph() -> None:
    chat = ReplyingChat(replies=[GRAPH])
    found = await PictureParser(chat, ImagePreparation(max_side=64)).parse(IMAGE)
    assert isomorphic(found, load_scene("dog | chasing | red ball", format="triplets"))
    assert shown(chat).size == (64, 48)
    assert "width and height are (640, 480)" in chat.said()


async def test_of_detections_only_relations_are_asked() -> None:
    relations = [{"source": "person.1", "target": "person.2", "relation": "hugging"}]
    chat = ReplyingChat(replies=[{"relationships": relations}])
    found = await PictureParser(chat).parse(IMAGE, FOUND)
    assert [item.id for item in found.objects] == ["person.1", "person.2"]
    assert [str(relation) for relation in found.relations] == ["person.1 hugging person.2"]
    assert '"person.2:[367, 108, 550, 477]"' in chat.said()
    assert "source -> relation -> target" in chat.said()
    assert chat.tools[0]["function"]["parameters"]["required"] == ["relationships"]


async def test_relations_of_what_was_not_detected_are_sent_back() -> None:
    wrong = {"relationships": [{"source": "person.1", "target": "dog.1", "relation": "near"}]}
    chat = ReplyingChat(replies=[wrong, {"relationships": []}])
    found = await PictureParser(chat).parse(IMAGE, FOUND)
    assert found.relations == ()
    assert "'dog.1' is not an object" in chat.said()
    with pytest.raises(ReplyError):
        await PictureParser(ReplyingChat(replies=[wrong])).parse(IMAGE, FOUND)


@pytest.mark.parametrize("box", [(0, 0, 641, 10), (5, 5, 5, 10), (-1, 0, 5, 5), (0, 9, 5, 3)])
async def test_boxes_lie_in_the_image(box: tuple[float, float, float, float]) -> None:
    chat = ReplyingChat(replies=[GRAPH])
    with pytest.raises(SceneError, match="not inside an image of 640×480"):
        await PictureParser(chat).parse(IMAGE, [Detection("dog", box)])
    assert chat.sent == []


@pytest.mark.parametrize(
    ("provider", "model", "sampling"),
    [
        ("openai", "gpt-4.1-mini", {"temperature": 0.7, "top_p": 0.95, "seed": 0}),
        ("gemini", "gemini-2.0-flash", {"temperature": 0.7, "top_p": 0.95, "seed": 0}),
        ("gemini", "gemini-3-pro", {"seed": 0}),
        ("openai", "gpt-5", {}),
        ("anthropic", "claude-sonnet-4", {}),
    ],
)
def test_sampling_is_that_of_the_paper_where_it_is_accepted(
    provider: str, model: str, sampling: dict[str, float]
) -> None:
    assert sampling_of(caps_of(provider, model)) == sampling
