"""What the chaos on a cluster counts: what was asked again, and whether it was kept by then."""

from __future__ import annotations

import hashlib
import os
import random
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from benchmarks.chaos_cluster import Again, Notes, asked_again, figures_of, plan_of
from scenewright.core.images import ImageStore
from scenewright.mock_providers.accounts import Request
from scenewright.providers.sdk_clients import CallKeys, identify, paying


def request(
    arrived: float, scope: str = "one:draw", *, executed: bool = True, number: int = 0
) -> Request:
    key = hashlib.sha256(f"{scope}\0{number}\0asked".encode()).hexdigest()
    return Request("painter", key, "asked", arrived, executed)


def test_each_asked_once_is_nothing_again() -> None:
    log = [request(1.0), request(2.0, "two:draw")]
    assert asked_again(log, {"one:draw": 1.5, "two:draw": 2.5}) == Again(2, 0, 0, 0, 0)


def test_asking_for_what_is_kept_is_twice_paid_for_or_not() -> None:
    kept = {"one:draw": 1.5}
    for executed in (True, False):
        log = [request(1.0), request(2.0, executed=executed)]
        assert asked_again(log, kept, [1.2], 9).twice == 1


def test_asking_again_before_it_is_kept_is_no_harm() -> None:
    kept = {"one:draw": 2.5}
    paid = asked_again([request(1.0), request(2.0)], kept, [1.2], 1)
    assert (paid.twice, paid.repeated_in_flight, paid.replayed, paid.over) == (0, 1, 0, 0)
    free = asked_again([request(1.0), request(2.0, executed=False)], kept)
    assert (free.twice, free.repeated_in_flight, free.replayed, free.over) == (0, 0, 1, 0)


def test_a_step_that_nothing_was_kept_of_counts() -> None:
    assert asked_again([request(1.0), request(2.0)], {"two:draw": 9.0}, [1.2], 1).twice == 1


@pytest.mark.parametrize(("forgotten", "over"), [((1.2,), 1), ((), 3), ((1.2, 1.3), 1)])
def test_more_repeated_than_were_at_work_at_a_kill_is_over(
    forgotten: tuple[float, ...], over: int
) -> None:
    scopes = [f"{number}:draw" for number in range(3)]
    log = [request(at, scope) for at in (1.0, 2.0) for scope in scopes]
    found = asked_again(log, dict.fromkeys(scopes, 3.0), forgotten, at_work=2)
    assert (found.repeated_in_flight, found.over) == (3, over)


async def test_the_step_is_found_by_the_key_that_its_request_carries() -> None:
    import httpx2

    from scenewright.providers.sdk_clients import HEADER, request_digest

    sent = httpx2.Request("POST", "http://lab/v1/x", content=b"{}")
    with paying("one", "draw"), CallKeys().sending():
        await identify(sent)
    asked = request_digest("POST", "/v1/x", "", b"{}")
    seen = Request("painter", sent.headers[HEADER], asked, 1.0, True)
    again = Request("painter", sent.headers[HEADER], asked, 3.0, False)
    assert asked_again([seen, again], {"one:draw": 2.0}).twice == 1
    assert asked_again([seen, again], {"one:draw": 4.0}).replayed == 1


def test_a_picture_is_kept_since_its_note_was_first_seen(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "run" / "images")
    image = store.put(Image.new("RGB", (8, 8), (9, 80, 9)))
    store.remember("a" * 64, image, {"origin": "r0:candidate:generated"})
    [note] = (tmp_path / "run" / "images" / "requests").iterdir()
    os.utime(note, (50.0, 50.0))
    notes = Notes(tmp_path)
    notes.look()
    os.utime(note, (90.0, 90.0))
    assert notes.origins() == {store.folder: {"r0:candidate:generated": 50.0}}


def test_everything_is_killed_as_often_as_planned_before_the_end() -> None:
    kills = {"worker": 5, "lab": 2}
    planned = plan_of(kills, 1000, random.Random(1))
    assert Counter(what for _, what in planned) == kills
    moments = [moment for moment, _ in planned]
    assert moments == sorted(moments)
    assert 0 < moments[0] <= moments[-1] <= 900
    assert planned == plan_of(kills, 1000, random.Random(1))
    assert planned != plan_of(kills, 1000, random.Random(2))


def test_what_is_missing_more_or_different_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    calm = {"a": ["yes"], "b": ["no"], "c": ["yes"]}
    killed = {"a": ["yes"], "b": ["yes"], "d": ["yes"]}
    figures = figures_of("items", killed, calm, Again(9, 1, 3, 4, 2), {"lab": 2, "worker": 1})
    assert figures["items.lost"] == 3
    assert (figures["items.kills"], figures["items.kills.lab"]) == (3, 2)
    assert (figures["items.twice"], figures["items.repeated_in_flight"]) == (3, 3)
    assert "b ended otherwise" in capsys.readouterr().out
    whole = figures_of("items", calm, dict(reversed(calm.items())), Again(9, 0, 0, 0, 0), {})
    assert (whole["items.lost"], whole["items.kills"]) == (0, 0)
