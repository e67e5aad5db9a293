"""What every chat model of an account must do, whatever stands behind it.

A test module makes a subclass of :class:`ChatConformance` with ``provider`` and ``overrides``;
the mock server's scripts answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from scenewright.agents.chat.model import DECLINED, AccountChat, account_chat
from scenewright.mock_providers import Fault, ThreadedMockProviders
from scenewright.mock_providers.accounts import account_name
from scenewright.providers.caller import Caller
from scenewright.providers.clients.base import RequestError
from scenewright.providers.retry import CallError
from scenewright.providers.usage import metered
from tests.agents.chat.talking import (
    HOSTILE,
    Plan,
    Step,
    answered,
    count,
    look,
    picture,
    seen,
    words,
)

Make = Callable[..., AccountChat]


class ChatConformance:
    """Inherit and name the provider."""

    provider: str
    overrides: Mapping[str, object] = {}
    pictures_beside_tools = False
    """Whether pictures of tools arrive in a message of the user behind their answers."""

    @pytest.fixture
    async def make(
        self, lab: ThreadedMockProviders, key: str, caller: Caller
    ) -> AsyncIterator[Make]:
        """Makes the chat model of one of the mock server's scripts."""
        made: list[AccountChat] = []
        base = lab.openai_url if self.provider == "openai" else lab.url

        def one(script: str, **overrides: object) -> AccountChat:
            chat = account_chat(
                self.provider,
                f"script:{script}",
                caller,
                api_key=key,
                base_url=base,
                name="mine",
                overrides={**self.overrides, **overrides},
            )
            made.append(chat)
            return chat

        yield one
        for chat in made:
            await chat.aclose()

    async def test_text(self, make: Make) -> None:
        said = await make("echo").ainvoke("a red dog")
        assert said.text == "a red dog"
        assert said.response_metadata["stop"] == "end"
        assert said.response_metadata["model_name"] == "script:echo"
        assert said.tool_calls == []

    async def test_system_messages_come_first_and_joined(self, make: Make) -> None:
        said = await make("mirror").ainvoke(
            [SystemMessage("Be brief."), HumanMessage("one"), AIMessage("two"),
             SystemMessage("Be kind."), HumanMessage("three")]
        )  # fmt: skip
        assert [(m["role"], m["text"]) for m in seen(said)["messages"]] == [
            ("system", "Be brief.\n\nBe kind."),
            ("human", "one"),
            ("ai", "two"),
            ("human", "three"),
        ]

    async def test_tool_call_and_answer(self, make: Make) -> None:
        chat = make("once").bind_tools([look, count])
        history: list[BaseMessage] = [HumanMessage("left")]
        called = await chat.ainvoke(history)
        (call,) = called.tool_calls
        assert (call["name"], call["args"]) == ("look", {"where": "left"})
        assert called.response_metadata["stop"] == "tools"
        assert called.text == "I will see."
        history += answered(called, [look.invoke(call["args"])])
        said = await chat.ainvoke(history)
        assert said.text == "answered: nothing at left"
        assert said.response_metadata["stop"] == "end"

    async def test_parallel_calls(self, make: Make) -> None:
        chat = make("every").bind_tools([look, count])
        called = await chat.ainvoke("dogs")
        assert [(c["name"], c["args"]) for c in called.tool_calls] == [
            ("look", {"where": "dogs"}),
            ("count", {"what": "dogs", "most": 1}),
        ]
        assert len({c["id"] for c in called.tool_calls}) == 2
        said = await chat.ainvoke([HumanMessage("dogs"), *answered(called, ["first", "second"])])
        assert said.text == "answered: first; answered: second"

    async def test_many_rounds(self, make: Make) -> None:
        chat = make("endless").bind_tools([look])
        history: list[BaseMessage] = [SystemMessage("go on"), HumanMessage("there")]
        ids = set()
        for _ in range(3):
            called = await chat.ainvoke(history)
            ids.add(called.tool_calls[0]["id"])
            history += answered(called)
        assert len(ids) == 3

    async def test_an_agent_works_with_it(self, make: Make, caller: Caller) -> None:
        agent: Any = create_agent(make("every"), [look, count], system_prompt="Be brief.")
        with metered() as spent:
            done = await agent.ainvoke({"messages": [HumanMessage("dogs")]})
        assert done["messages"][-1].text == "answered: nothing at dogs; answered: 1 of dogs"
        assert spent.calls == caller.totals.answered == 2

    async def test_messages_survive_being_stored(self, make: Make) -> None:
        chat = make("every").bind_tools([look, count])
        called = await chat.ainvoke("dogs")
        stored = AIMessage.model_validate_json(called.model_dump_json())
        said = await chat.ainvoke([HumanMessage("dogs"), *answered(stored)])
        assert said.text == "answered: answer 0; answered: answer 1"

    @pytest.mark.parametrize(
        ("choice", "told"),
        [(None, "auto"), ("auto", "auto"), ("any", "any"), ("required", "any"), (True, "any"),
         ("count", "=count"), ("none", "none"), ({"type": "tool", "name": "look"}, "=look"),
         ({"type": "function", "function": {"name": "look"}}, "=look")],
    )  # fmt: skip
    async def test_choice_of_tools(self, make: Make, choice: Any, told: str) -> None:
        said = await make("mirror").bind_tools([look, count], tool_choice=choice).ainvoke("go")
        assert seen(said)["choice"] == told
        assert seen(said)["tools"] == ["look", "count"]

    async def test_forced_tool(self, make: Make) -> None:
        chat = make("echo").bind_tools([look, count], tool_choice="count")
        (call,) = (await chat.ainvoke("cats")).tool_calls
        assert (call["name"], call["args"]) == ("count", {"what": "cats", "most": 1})

    async def test_a_choice_of_no_tool_is_told(self, make: Make) -> None:
        with pytest.raises(RequestError, match="no tool 'fly' to choose: there are look, count"):
            make("echo").bind_tools([look, count], tool_choice="fly")

    async def test_structured_output(self, make: Make) -> None:
        found = await make("echo").with_structured_output(Plan).ainvoke("draw")
        assert found == Plan(title="draw", first=Step(what="draw", times=2), words=["draw"])
        schema = {**Plan.model_json_schema(), "title": "Plan", "description": "What to do."}
        raw = await make("echo").with_structured_output(schema, include_raw=True).ainvoke("draw")
        assert isinstance(raw, dict)
        assert raw["parsed"] == {
            "title": "draw", "first": {"what": "draw", "times": 2}, "words": ["draw"]
        }  # fmt: skip
        assert raw["parsing_error"] is None
        assert raw["raw"].usage_metadata["output_tokens"] > 0

    async def test_structured_output_that_is_none_is_an_error(self, make: Make) -> None:
        with pytest.raises(RequestError, match=r"refused: (I can't help|Declined by Gemini)"):
            await make("refusal").with_structured_output(Plan).ainvoke("draw")
        with pytest.raises(RequestError, match=r"did not fill in Plan and said instead: \{"):
            await make("mirror").with_structured_output(Plan).ainvoke("draw")
        raw = await make("refusal").with_structured_output(Plan, include_raw=True).ainvoke("draw")
        assert isinstance(raw, dict)
        assert raw["parsed"] is None
        assert isinstance(raw["parsing_error"], RequestError)

    async def test_pictures(self, make: Make) -> None:
        data = picture((7, 9))["base64"]
        content: list[str | dict[Any, Any]] = [
            words("first"), picture((64, 48)), words("then"),
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        ]  # fmt: skip
        said = await make("mirror").ainvoke([HumanMessage(content=content)])
        (message,) = seen(said)["messages"]
        assert message["pictures"] == [[64, 48], [7, 9]]
        assert message["text"].replace("\n", "") == "firstthen"

    async def test_pictures_of_tools(self, make: Make) -> None:
        tools = [look, count]
        called = await make("every").bind_tools(tools).ainvoke("dogs")
        first, second = called.tool_calls
        said = await make("mirror").bind_tools(tools).ainvoke(
            [
                HumanMessage("dogs"),
                called,
                ToolMessage([words("seen"), picture((30, 20))], tool_call_id=first["id"]),
                ToolMessage("two", tool_call_id=second["id"]),
            ]
        )  # fmt: skip
        _, _, one, two, *rest = seen(said)["messages"]
        assert (one["role"], two["role"], two["text"]) == ("tool", "tool", "two")
        assert one["text"].startswith("seen")
        if self.pictures_beside_tools:
            (shown,) = rest
            assert shown["role"] == "human"
            assert shown["pictures"] == [[30, 20]]
        else:
            assert rest == []
            assert one["pictures"] == [[30, 20]]

    @pytest.mark.parametrize(
        ("messages", "reason"),
        [
            ([], "nothing to answer"),
            ([SystemMessage("Be.")], "nothing to answer"),
            ([HumanMessage("")], "without content"),
            ([HumanMessage([])], "without content"),
            ([HumanMessage([{"type": "audio", "base64": "AAAA"}])], "type 'audio'"),
            ([HumanMessage([{**picture((2, 2)), "base64": "!"}])], "not valid base64"),
            ([HumanMessage([{**picture((2, 2)), "base64": "AAAA"}])], "cannot be read"),
        ],
    )
    async def test_what_cannot_be_sent_is_told_at_once(
        self, make: Make, caller: Caller, messages: list[BaseMessage], reason: str
    ) -> None:
        with pytest.raises(RequestError, match=reason):
            await make("echo").ainvoke(messages)
        assert caller.totals.attempts == 0

    async def test_usage_is_counted(self, make: Make, caller: Caller) -> None:
        chat = make("echo")
        with metered() as spent:
            short, long = await asyncio.gather(
                chat.ainvoke("dog"), chat.ainvoke([HumanMessage([picture((64, 64)), words("dog")])])
            )
        assert short.usage_metadata
        assert long.usage_metadata
        assert long.usage_metadata["input_tokens"] > short.usage_metadata["input_tokens"] > 0
        assert spent.calls == 2
        both = (short.usage_metadata, long.usage_metadata)
        assert spent.usage.tokens_in == sum(used["input_tokens"] for used in both)
        assert spent.usage.tokens_out == sum(used["output_tokens"] for used in both)
        assert caller.totals.usage == spent.usage

    async def test_rate_limit_is_waited_for(
        self, make: Make, lab: ThreadedMockProviders, key: str, caller: Caller
    ) -> None:
        lab.schedule(Fault.RATE_LIMITED, 1, key)
        assert (await make("echo").ainvoke("dog")).text == "dog"
        assert caller.totals.rate_limited == 1
        assert caller.totals.waited >= 1.0

    @pytest.mark.parametrize(
        "fault", [Fault.SERVER_ERROR, Fault.OVERLOADED, Fault.DROP, Fault.EMPTY]
    )
    async def test_what_passes_is_tried_again(
        self, make: Make, lab: ThreadedMockProviders, key: str, caller: Caller, fault: Fault
    ) -> None:
        lab.schedule(fault, 1, key)
        said = await make("echo").ainvoke("dog")
        assert (caller.totals.attempts, caller.totals.answered) == (2, 1)
        words, _, reminder = said.text.partition("\n\n")
        assert words == "dog"
        # Only a model that replied is told what was wrong.
        assert ("empty reply" in reminder) == bool(reminder) == (fault is Fault.EMPTY)

    async def test_a_broken_call_is_asked_for_again(
        self, make: Make, lab: ThreadedMockProviders, key: str, caller: Caller
    ) -> None:
        chat = make("echo").bind_tools([look], tool_choice="any")
        lab.schedule(Fault.INVALID_JSON, 1, key)
        (call,) = (await chat.ainvoke("there")).tool_calls
        if self.provider == "anthropic":
            # Its format carries an object, which cannot be broken: the tool will see it.
            assert set(call["args"]) == {"arguments"}
            return
        assert caller.totals.attempts == 2
        words, _, reminder = call["args"].pop("where").partition("\n\n")
        assert (words, call["args"]) == ("there", {})
        assert "a tool call that cannot be read" in reminder
        lab.schedule(Fault.INVALID_JSON, 3, key)
        with pytest.raises(CallError, match="a tool call that cannot be read"):
            await chat.ainvoke("there")

    async def test_silence_is_an_error(self, make: Make, caller: Caller) -> None:
        with pytest.raises(CallError, match="empty reply"), metered() as spent:
            await make("silent").bind_tools([look]).ainvoke("dog")
        assert spent.usage.tokens_in > 0
        assert caller.totals.lost == 1

    async def test_refusals_are_seen(
        self, make: Make, lab: ThreadedMockProviders, key: str
    ) -> None:
        said = await make("refusal").bind_tools([look]).ainvoke("dog")
        assert said.response_metadata["stop"] == "refusal"
        assert said.tool_calls == []
        assert said.text not in ("", DECLINED)
        assert said.usage_metadata
        lab.schedule(Fault.REFUSAL, 1, key)
        told = await make("echo").ainvoke("dog")
        assert told.response_metadata["stop"] == "refusal"
        again = await make("echo").ainvoke([HumanMessage("dog"), told, HumanMessage("cat")])
        assert again.text == "cat"

    async def test_what_is_cut_off_is_seen(self, make: Make) -> None:
        short = make("echo", max_output_tokens=4)
        said = await short.ainvoke("a very long word about dogs")
        assert said.text == "a very long word"
        assert said.response_metadata["stop"] == "length"
        with pytest.raises(CallError, match=r"cut off after .* tokens: allow the model more"):
            await short.bind_tools([count], tool_choice="any").ainvoke("a very long word of it")

    async def test_cancellation_ends_the_call(
        self, make: Make, lab: ThreadedMockProviders, key: str, caller: Caller
    ) -> None:
        lab.schedule(Fault.TIMEOUT, 1, key)
        chat = make("echo")
        task = asyncio.create_task(chat.ainvoke("dog"))
        account = account_name(key)
        # The mock server runs in another thread.
        while not lab.report()["accounts"].get(account, {}).get("under_way"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert caller.totals.cancelled == 1
        assert caller.open_calls == 0
        lab.clear_faults()
        assert (await chat.ainvoke("cat")).text == "cat"

    @pytest.mark.parametrize("name", HOSTILE)
    async def test_hostile_names_stay_data(self, make: Make, name: str) -> None:
        told = f"is there a {name}?"
        called = await make("once").bind_tools([look]).ainvoke(told)
        assert [(c["name"], c["args"]) for c in called.tool_calls] == [("look", {"where": told})]
        said = await make("mirror").bind_tools([look]).ainvoke(
            [SystemMessage(name), HumanMessage(told), *answered(called, [name])]
        )  # fmt: skip
        assert [(m["role"], m["text"]) for m in seen(said)["messages"]] == [
            ("system", name), ("human", told), ("ai", "I will see."), ("tool", name)
        ]  # fmt: skip
        assert seen(said)["messages"][2]["calls"] == [["look", {"where": told}]]

    async def test_the_key_is_told_to_nobody(
        self, make: Make, key: str, lab: ThreadedMockProviders, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG, "scenewright")
        chat = make("echo")
        with pytest.raises(CallError) as error:
            await make(f"no-such-model {key}").ainvoke("dog")
        assert "404" in str(error.value)
        lab.schedule(Fault.DROP, 3, key)
        with pytest.raises(CallError) as dropped:
            await chat.ainvoke("dog")
        told = [
            repr(chat), str(chat), repr(chat.bind_tools([look])), str(chat._identifying_params),
            str(chat.to_json()), str(error.value), str(dropped.value), caplog.text,
        ]  # fmt: skip
        assert not [text for text in told if key in text]
        assert "chat" in caplog.text

    async def test_it_names_itself(self, make: Make) -> None:
        chat = make("echo")
        assert chat.id == "mine:script:echo"
        assert chat._identifying_params["provider"] == self.provider

    def test_waiting_for_it_without_a_loop_is_told(self, caller: Caller) -> None:
        chat = account_chat(self.provider, "m", caller, api_key="k", base_url="http://localhost:9")
        with pytest.raises(RequestError, match="await ainvoke"):
            chat.invoke("dog")

    async def test_settings_beside_the_messages_are_refused(self, make: Make) -> None:
        with pytest.raises(RequestError, match="takes no temperature"):
            await make("echo").bind(temperature=0.3).ainvoke("dog")

    async def test_closing_twice_is_fine(self, make: Make) -> None:
        chat = make("echo")
        await chat.ainvoke("dog")
        await chat.aclose()
        await chat.aclose()
