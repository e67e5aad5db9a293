"""The four ways to talk to a model of an account, against the mock server."""

from __future__ import annotations

from collections.abc import Mapping

from tests.agents.chat.conformance import ChatConformance


class TestOpenAI(ChatConformance):
    provider = "openai"
    overrides: Mapping[str, object] = {"tool_choice": "named"}
    pictures_beside_tools = True


class TestOpenAIResponses(ChatConformance):
    provider = "openai"
    overrides: Mapping[str, object] = {
        "api": "responses",
        "sampling": {},
        "tool_choice": "named",
    }


class TestAnthropic(ChatConformance):
    provider = "anthropic"


class TestGemini(ChatConformance):
    provider = "gemini"
    pictures_beside_tools = True
