"""Gemma 3 270M on llama.cpp: a base model, which was never taught to answer or to stop.

Whatever a role gets of it, the role ends soon and says in words what came of it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image

from scenewright.agents.parsers.language import LanguageParser
from scenewright.agents.parsers.rules import read_text
from scenewright.config.profiles import Profile
from scenewright.config.settings import Settings, load_settings
from scenewright.core.questions import facts_of
from scenewright.graphs.events import Finished
from scenewright.graphs.state import DirectorError
from scenewright.providers.retry import CallError
from scenewright.runs.model_factory.profiles import build_chat, build_judge, composer_of
from tests.graphs.directing import direct, end
from tests.real.hosting import serving

MODEL = "mine:gemma3"
SECONDS = 300.0
"""Bound that no machine should reach; a quiet one takes a fifth of it for the slowest role."""
SCENE = read_text("A red ball is on a table.")
CLEAR = re.compile(
    r"cut off|limit of .*tokens|repeat|no JSON|malformed|no tool|not call|no usable|gave up|gave_up"
    r"|no scene graph|not supported|HTTP \d{3}|not a decision model|says nothing|leaves out|lost"
)
"""Words that name what is wrong with a reply."""


@pytest.fixture(scope="module")
def settings() -> Iterator[Settings]:
    """An account at the server."""
    with serving("gemma3") as url:
        place = {"provider": "openai", "base_url": url, "key_variable": ""}
        native = {**place, "provider": "llamacpp", "base_url": url.removesuffix("/v1")}
        yield load_settings(accounts={"mine": place, "deciding": native})


async def judge(settings: Settings, folder: Path) -> str:
    return await judged(MODEL, settings)


async def decision_judge(settings: Settings, folder: Path) -> str:
    return await judged("decision:deciding/gemma3", settings)


async def judged(spec: str, settings: Settings) -> str:
    facts = facts_of(SCENE)
    answers = await build_judge(spec, settings).answer(Image.new("RGB", (64, 64)), facts)
    assert [answer.fact_id for answer in answers] == [fact.id for fact in facts]
    unscored = {answer.reason for answer in answers if answer.state == "unscored"}
    return "; ".join(sorted(unscored)) or "answered"


async def chat(settings: Settings, folder: Path) -> str:
    try:
        said = await build_chat(MODEL, settings).ainvoke("Describe a red ball in one sentence.")
    except CallError as error:
        return str(error)
    return "answered" if str(said.text).strip() else ""


async def composer(settings: Settings, folder: Path) -> str:
    profile = Profile(
        name="here", backend="scripted:x", judges=("scripted:a",), composer="llm", chat=MODEL,
        composer_failure="sentences",
    )  # fmt: skip
    wording = await composer_of(profile, settings).word(SCENE, 0)
    assert "ball" in wording.prompt
    return wording.problem or "answered"


async def parser(settings: Settings, folder: Path) -> str:
    reading = LanguageParser(build_chat(MODEL, settings, role="parser"))
    try:
        await reading.parse("A red ball is on a table.")
    except (CallError, ValueError) as error:
        return str(error)
    return "answered"


async def director(settings: Settings, folder: Path) -> str:
    try:
        events = await direct(folder / "run", build_chat(MODEL, settings, role="director"))
    except DirectorError as error:
        return str(error)
    finished: Finished = end(events)
    return finished.reason


ROLES: tuple[Callable[[Settings, Path], Awaitable[str]], ...] = (
    judge, decision_judge, chat, composer, parser, director,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.__name__)
async def test_every_role_ends_with_a_clear_word(
    settings: Settings, tmp_path: Path, role: Callable[[Settings, Path], Awaitable[str]]
) -> None:
    begun = time.monotonic()
    async with asyncio.timeout(SECONDS):
        word = await role(settings, tmp_path)
    took = time.monotonic() - begun
    print(f"{role.__name__}: {took:.0f} s: {word}")
    assert word == "answered" or CLEAR.search(word), word
    assert took < SECONDS, word
