"""Refinement of objects with a picture of each (XTC-Bench, Sec. 3.2.4)."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from PIL import Image

from scenewright.agents.composers.language import LanguageComposer, refine_objects
from scenewright.agents.composers.sentences import SentenceComposer
from scenewright.agents.judges.pictures import ImagePreparation
from scenewright.core.formats import load_scene
from scenewright.core.images import ImageError
from tests.agents.replying import Reply, ReplyingChat

SCENE = load_scene("red ball.1 near red ball.2; blue table", format="triplets")
RED = Image.new("RGB", (20, 10), (255, 0, 0))
PLAIN = ImagePreparation(max_side=16)


def describing() -> ReplyingChat:
    def reply(messages: list[BaseMessage]) -> Reply:
        shown = json.loads(str(messages[-1].text).split("```")[1].removeprefix("json\n"))
        words = " ".join([*shown["attributes"].values(), shown["label"]])
        seen = "seen " if isinstance(messages[-1].content, list) else ""
        return json.dumps({"description": f"a {seen}{words}"})

    return ReplyingChat(replies=reply)


async def test_an_object_with_a_view_gets_a_call_of_its_own() -> None:
    chat = describing()
    assert await refine_objects(chat, SCENE, {"ball.1": RED}, PLAIN) == {
        "ball.1": "a seen red ball",
        "ball.2": "a red ball",
        "table.1": "a blue table",
    }
    assert len(chat.sent) == 3


async def test_the_picture_is_sent_prepared() -> None:
    chat = describing()
    await refine_objects(chat, SCENE, {"table.1": RED}, PLAIN)
    (content,) = [m[-1].content for m in chat.sent if isinstance(m[-1].content, list)]
    block: Any = content[0]
    sent = Image.open(io.BytesIO(base64.b64decode(block["base64"])))
    assert block["mime_type"] == "image/png"
    assert sent.size == (16, 8)
    assert sent.getpixel((3, 3)) == (255, 0, 0)


async def test_without_views_nothing_is_shown() -> None:
    chat = describing()
    assert await refine_objects(chat, SCENE, {}, PLAIN) == {
        "ball.1": "a red ball",
        "ball.2": "a red ball",
        "table.1": "a blue table",
    }
    assert len(chat.sent) == 2


async def test_a_view_that_cannot_be_sent_is_told() -> None:
    tiny = ImagePreparation(max_bytes=1)
    with pytest.raises(ImageError, match="no png file"):
        await refine_objects(describing(), SCENE, {"ball.1": RED}, tiny)
    made = LanguageComposer(describing(), stages=True, preparation=tiny)
    worded = await made.word(SCENE, 0, views={"ball.1": RED})
    assert worded.author == "sentences"
    assert "no png file" in worded.problem


async def test_one_step_composers_send_no_views() -> None:
    chat = ReplyingChat(replies=['{"description": "two red balls near each other, a blue table"}'])
    made = LanguageComposer(chat, stages=False)
    await made.word(SCENE, 0, views={"ball.1": RED})
    assert all(isinstance(message.content, str) for messages in chat.sent for message in messages)


def test_the_fingerprint_follows_the_preparation_of_views() -> None:
    def made(stages: bool, side: int) -> str:
        chat = ReplyingChat(replies=["x"])
        preparation = ImagePreparation(max_side=side)
        return LanguageComposer(chat, stages, SentenceComposer(), preparation).fingerprint

    assert made(True, 64) != made(True, 128)
    assert made(False, 64) == made(False, 128)
