"""A model that is exchanged while clients go on asking for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from scenewright.mock_providers import (
    MockError,
    MockSettings,
    ThreadedMockProviders,
    serving_thread,
)
from scenewright.mock_providers.faults import Swap, Swaps, parse_swaps
from tests.mock_providers.asking import ROUTES, Client, answers_of

NAME = {"chat": "model", "responses": "model", "messages": "model", "gemini": "modelVersion"}


@pytest.fixture
def swapping(key: str) -> Iterator[tuple[ThreadedMockProviders, Client]]:
    swaps = parse_swaps(["instant=instant-2@2:instant-2026-11"])
    with serving_thread(MockSettings(swaps=swaps)) as lab:
        yield lab, Client(lab.url, key)


def asked(client: Client, route: str) -> tuple[str, Any]:
    data = client.ask(route).data
    return data[NAME[route]], answers_of(route, data)


@pytest.mark.parametrize("route", ROUTES)
def test_another_model_answers_from_the_ordered_request_on_and_tells_its_name(
    swapping: tuple[ThreadedMockProviders, Client], route: str
) -> None:
    said = [asked(swapping[1], route) for _ in range(4)]
    assert [name for name, _ in said] == ["instant"] * 2 + ["instant-2026-11"] * 2
    assert said[0] == said[1] != said[2] == said[3]
    assert said[0][1] != said[2][1]


def test_without_a_name_only_the_answers_change(
    swapping: tuple[ThreadedMockProviders, Client],
) -> None:
    _, client = swapping
    order = json.dumps({"model": "instant", "by": "instant-2", "after": 1}).encode()
    (state,) = client.call("POST", "/lab/swaps", order).data
    assert (state["after"], state["told"], state["met"]) == (1, "", 0)
    before, after = asked(client, "chat"), asked(client, "chat")
    assert before[0] == after[0] == "instant"
    assert before[1] != after[1]
    (state,) = client.call("DELETE", "/lab/swaps").data
    assert (state["after"], state["told"]) == (2, "instant-2026-11")
    assert asked(client, "chat") == before


def test_an_unknown_model_cannot_be_swapped(swapping: tuple[ThreadedMockProviders, Client]) -> None:
    order = json.dumps({"model": "instant", "by": "nobody"}).encode()
    assert swapping[1].call("POST", "/lab/swaps", order).status == 422


def test_swaps_as_texts() -> None:
    assert parse_swaps(["a=b", "c=d@7", "e=f@0:g-2"]) == (
        Swap("a", "b"),
        Swap("c", "d", 7),
        Swap("e", "f", 0, "g-2"),
    )
    for wrong in ("a", "a=", "=b", "a=b@x", "a=b@-1"):
        with pytest.raises(MockError, match=r"name two models|write MODEL=OTHER"):
            parse_swaps([wrong])
    assert Swaps(parse_swaps(["a=b@3"])).state()[0]["met"] == 0
