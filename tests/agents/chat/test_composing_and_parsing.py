"""Composers and parsers over the wire: the mock's scripts answer in each provider's format."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
from PIL import Image

from scenewright.agents.chat.language_replies import ReplyError
from scenewright.agents.chat.model import AccountChat, account_chat
from scenewright.agents.composers.check import lost_facts
from scenewright.agents.composers.language import LanguageComposer
from scenewright.agents.composers.sentences import SentenceComposer
from scenewright.agents.parsers.language import LanguageParser
from scenewright.agents.parsers.rules import parse_caption
from scenewright.core.formats import load_scene
from scenewright.mock_providers import ThreadedMockProviders
from scenewright.providers.caller import Caller
from scenewright.providers.usage import metered
from scenewright.tools.vision.extraction.one_stage import PictureParser

SCENE = load_scene("red ball on blue table; dog left of table", format="triplets")
Make = Callable[[str], AccountChat]


@pytest.fixture(params=["openai", "anthropic", "gemini"])
async def make(
    request: pytest.FixtureRequest, lab: ThreadedMockProviders, key: str, caller: Caller
) -> AsyncIterator[Make]:
    made: list[AccountChat] = []

    def one(script: str) -> AccountChat:
        base = lab.openai_url if request.param == "openai" else lab.url
        chat = account_chat(
            request.param, f"script:{script}", caller, api_key=key, base_url=base, name="mine"
        )
        made.append(chat)
        return chat

    yield one
    for chat in made:
        await chat.aclose()


async def test_a_model_behind_an_api_composes(make: Make) -> None:
    made = LanguageComposer(make("poet"), stages=False)
    with metered() as spent:
        worded = await made.word(SCENE, 0)
    assert worded.author == "model"
    assert lost_facts(SCENE, worded.prompt) == ()
    assert spent.calls == 1
    assert spent.usage.tokens_in > 100
    assert made.fingerprint.startswith("llm@1 mine:script:poet#")


@pytest.mark.parametrize(("script", "reason"), [("refusal", "declined"), ("silent", "empty")])
async def test_one_that_does_not_leaves_it_to_the_rules(
    make: Make, script: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    made = LanguageComposer(make(script), stages=True)
    assert await made.compose(SCENE, 3) == await SentenceComposer().compose(SCENE, 3)
    assert reason in caplog.text


async def test_parsers_repair_once_and_then_say_what_is_wrong(make: Make) -> None:
    with metered() as spent, pytest.raises(ReplyError, match="mine:script:bad-arguments"):
        await LanguageParser(make("bad-arguments")).parse("A dog.")
    assert spent.calls == 2
    with pytest.raises(ReplyError):
        await PictureParser(make("bad-arguments")).parse(Image.new("RGB", (32, 32)))


async def test_a_parser_reads_what_is_said_beside_the_graph(make: Make) -> None:
    said = "An oil painting of two cats with balls at night, no people."
    scene, rules = await LanguageParser(make("annotator")).parse(said), parse_caption(said)
    assert scene.graph == rules.graph
    assert scene.intent == rules.intent
