"""What ends a director: limits, silence, refusals, failures; and calls that cannot be done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage

from scenewright.agents.chat.scripted import scripted_chat
from scenewright.config.options import Budget
from scenewright.core.ports.backend import BackendError
from scenewright.graphs.director import CUT_NUDGE
from scenewright.graphs.eventlog import read_events
from scenewright.graphs.events import (
    Generated,
    Judged,
    Planned,
    Replied,
    ToolCalled,
)
from scenewright.graphs.record import totals_of
from scenewright.graphs.state import DirectorError, round_seed
from scenewright.providers.retry import CallError, PermanentError, Transient
from scenewright.providers.usage import Usage, count
from scenewright.runs.api import refine
from scenewright.runs.record import record_of
from scenewright.runs.result import result_of
from tests.doubles import CallBook, ScriptedBackend, ScriptedJudge
from tests.graphs.directing import (
    ACCEPT,
    DRAW,
    REFINE,
    SEED,
    VERIFY,
    Played,
    calls,
    direct,
    end,
    level,
    of,
    planner,
    played,
    qualities,
)

BOX = [0.25, 0.25, 0.75, 0.5]


UNKNOWN_TOOL = ("paint_masterpiece", {"size": "large"})
BAD_ARGUMENTS = [
    ("generate_image", {"prompt": 7, "colour": "red"}),
    ("generate_image", {}),
    ("look", {"image": "r99"}),
    ("look", {"box": [0.9, 0.1, 0.2, 4]}),
    ("inpaint", {"box": "everywhere"}),
    ("accept", {"image": ["r0"]}),
]


@pytest.mark.parametrize(
    ("chat", "reason"),
    [
        (played(DRAW, ("look", {})), "budget"),
        (played("I am thinking about it."), "gave_up"),
        (scripted_chat("refusal"), "gave_up"),
        (played(UNKNOWN_TOOL, DRAW, VERIFY, ACCEPT), "accepted"),
        (played(*BAD_ARGUMENTS, DRAW, VERIFY, ACCEPT), "accepted"),
    ],
    ids=["endless", "silent", "refusal", "unknown-tool", "bad-arguments"],
)
async def test_whatever_the_model_does_the_run_ends_with_a_judged_picture(
    tmp_path: Path, chat: BaseChatModel, reason: str
) -> None:
    events = await direct(tmp_path / "run", chat, budget=Budget(tool_calls=14), composer=planner())
    finished = end(events)
    assert finished.reason == reason
    assert finished.loop_card.fact_recall is not None
    assert len([tool for tool, _ in calls(events) if tool]) <= 14
    if chat._llm_type == "scenewright-scripted":
        assert len(of(events, Replied)) == 1
        assert "declined" in of(events, ToolCalled)[0].outcome


PAIR = [DRAW, VERIFY]
UNREADABLE = AIMessage(
    "", invalid_tool_calls=[{"name": "look", "args": "{box", "id": "x", "error": "no JSON"}]
)


@pytest.mark.parametrize(
    ("lines", "reason", "replies"),
    [
        ((PAIR,), "rounds", 3),
        (([DRAW, REFINE, VERIFY],), "rounds", 2),
        ((PAIR, [REFINE, ("look", {"question": "What is left of the table?"})]), "rounds", 3),
        ((DRAW, VERIFY, ACCEPT), "accepted", 3),
        ((PAIR, [ACCEPT, VERIFY]), "accepted", 2),
        ((UNKNOWN_TOOL,), "gave_up", 3),
        ((ACCEPT,), "gave_up", 3),
        (([ACCEPT, VERIFY],), "gave_up", 3),
        ((UNREADABLE,), "gave_up", 3),
        ((("look", {"image": "r99"}),), "gave_up", 3),
        (("Let me think.",), "gave_up", 3),
        ((DRAW, "The picture is fine.", ACCEPT), "accepted", 3),
        ((UNKNOWN_TOOL, UNKNOWN_TOOL, DRAW, UNKNOWN_TOOL, UNKNOWN_TOOL, ACCEPT), "accepted", 6),
    ],
)
async def test_a_run_that_is_over_asks_nothing_more(
    tmp_path: Path, lines: tuple[Any, ...], reason: str, replies: int
) -> None:
    events = await direct(tmp_path / "run", played(*lines), composer=planner(), rounds=2)
    assert (end(events).reason, len(of(events, Replied))) == (reason, replies)
    assert end(events).loop_card.fact_recall is not None


async def test_arguments_that_cannot_be_read_are_told_why(tmp_path: Path) -> None:
    events = await direct(tmp_path / "run", played(UNREADABLE, DRAW, ACCEPT), composer=planner())
    assert "not a JSON object: Expecting property name" in of(events, ToolCalled)[0].outcome


async def test_words_without_an_end_are_told_as_that(tmp_path: Path) -> None:
    endless = AIMessage("I think " * 99, response_metadata={"stop": "length"})
    chat = played(endless, DRAW, ACCEPT)
    events = await direct(tmp_path / "run", chat, composer=planner())
    assert of(events, ToolCalled)[0].outcome == CUT_NUDGE
    assert str(chat.sent[1][-1].text) == CUT_NUDGE
    assert end(events).reason == "accepted"


class Blind(Played):
    """A language model that sees no pictures."""

    pictures: bool = False


@pytest.mark.parametrize("kind", [Blind, Played])
async def test_a_model_that_sees_no_pictures_is_shown_none(
    tmp_path: Path, kind: type[Played]
) -> None:
    chat = kind(lines=[DRAW, ACCEPT])
    result = await refine(
        "red ball on table",
        out=tmp_path / "run",
        strategy="director",
        chat=chat,
        backend=ScriptedBackend(lambda request: 255),
        composer=planner(),
        judges=[ScriptedJudge("a")],
        report_judges=[],
    )
    assert result.stop_reason == "accepted"
    contents = [message.content for message in chat.sent[-1]]
    shown = [content for content in contents if isinstance(content, list)]
    assert bool(shown) is (kind is Played)


async def test_what_cannot_be_called_is_told_and_counts_as_a_call(tmp_path: Path) -> None:
    broken = AIMessage(
        "hm",
        invalid_tool_calls=[{"name": "look", "args": "{box", "id": "x", "error": "no JSON"}],
    )
    chat = played(
        ("paint", {}),
        DRAW,
        broken,
        ("look", {"box": [0.8, 0.1, 0.2, 0.5]}),
        ("look", {"box": [0.1, 0.1, 1.5, 0.5]}),
        ("look", {"image": "r7"}),
        ("verify_facts", {"facts": ["o:cat.1"]}),
        ("inpaint", {}),
        ("refine_with_reference", {"facts": ["o:ball.1"]}),
        ACCEPT,
    )
    events = await direct(tmp_path / "run", chat, budget=Budget(tool_calls=10))
    outcomes = {e.turn: e.outcome for e in of(events, ToolCalled, ok=False)}
    assert sorted(outcomes) == [0, 2, 3, 4, 5, 6, 7, 8]
    for turn, words in {
        0: "not a valid tool",
        2: "not a JSON object",
        3: "left before right",
        4: "each from 0 to 1",
        5: "there are r0",
        6: "no fact 'o:cat.1'",
        7: "box: is required",
        8: "missing in r0",
    }.items():
        assert words in outcomes[turn]
    # What was told is what the model saw, as an error.
    seen = [m for m in chat.sent[-1] if isinstance(m, ToolMessage) and m.status == "error"]
    assert [str(m.text) for m in seen] == list(outcomes.values())
    assert end(events).reason == "accepted"


async def test_calls_that_share_an_id_are_told_apart(tmp_path: Path) -> None:
    both = AIMessage(
        "", tool_calls=[{"name": name, "args": {}, "id": "same"} for name, _ in (DRAW, VERIFY)]
    )
    chat = played(both, ACCEPT)
    await direct(tmp_path / "run", chat)
    answers = [m for m in chat.sent[-1] if isinstance(m, ToolMessage)]
    assert len({m.tool_call_id for m in answers}) == 2
    assert [m.name for m in answers] == ["generate_image", "verify_facts"]


@pytest.mark.parametrize(
    ("options", "lines", "reason", "images"),
    [
        ({"budget": Budget(images=2)}, (DRAW,), "budget", 2),
        ({"budget": Budget(images=2)}, (DRAW, REFINE, ACCEPT), "accepted", 1),
        ({"budget": Budget(images=1)}, (DRAW, REFINE), "budget", 1),
        ({"rounds": 2}, (DRAW,), "rounds", 2),
        ({"budget": Budget(tool_calls=3)}, (DRAW,), "budget", 3),
        ({"budget": Budget(tool_calls=2)}, ([DRAW] * 5,), "budget", 2),
        ({"budget": Budget(usd=0.25)}, (DRAW,), "budget", 2),
        ({"budget": Budget(tokens=100)}, (DRAW, VERIFY), "budget", 1),
    ],
)
async def test_limits_end_the_run_with_the_best_so_far(
    tmp_path: Path, options: dict[str, Any], lines: tuple[Any, ...], reason: str, images: int
) -> None:
    backend = ScriptedBackend(qualities(100, 60), masks=True, usd=0.1)
    events = await direct(tmp_path / "run", played(*lines), backend=backend, **options)
    assert (end(events).reason, end(events).best_round) == (reason, 0)
    assert len(of(events, Generated)) == images
    assert len(of(events, Judged)) == len(of(events, Generated, purpose="candidate"))


async def test_time_ends_the_run(tmp_path: Path) -> None:
    now = iter(range(0, 100_000, 10))
    events = await direct(
        tmp_path / "run",
        played(DRAW, ("look", {})),
        budget=Budget(seconds=300),
        clock=lambda: float(next(now)),
    )
    assert end(events).reason == "budget"
    assert len(of(events, Generated)) == 1


class Paid(type(played())):  # type: ignore[misc]
    """Costs something, as a model behind an account does."""

    async def _agenerate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        count(Usage(1000, 50), 0.02, 0.5)
        return self._generate(messages)


async def test_turns_are_paid_for_and_counted_once(tmp_path: Path) -> None:
    chat = Paid(lines=[[DRAW, VERIFY], "", ACCEPT])
    events = await direct(
        tmp_path / "run", chat, judges=[ScriptedJudge("a", level=level, tokens=0)]
    )
    paid = [(e.tokens_in, e.tokens_out, e.usd) for e in of(events, ToolCalled)]
    assert paid == [(1000, 50, 0.02), (0, 0, 0.0), (1000, 50, 0.02), (1000, 50, 0.02)]
    assert totals_of(events)["usd"] == pytest.approx(0.06)
    assert totals_of(events)["tokens_in"] == 3000


async def test_a_backend_that_declines_is_told_and_the_round_keeps_its_number(
    tmp_path: Path,
) -> None:
    backend = ScriptedBackend(
        qualities(100, 0, 255),
        failing=lambda request: (
            BackendError("the provider declined the words")
            if request.seed == round_seed(SEED, 1, "candidate")
            else None
        ),
    )
    chat = played(DRAW, REFINE, ("generate_image", {"prompt": "other words"}), ACCEPT)
    events = await direct(tmp_path / "run", chat, backend=backend)
    (failed,) = of(events, ToolCalled, ok=False)
    assert "the provider declined the words" in failed.outcome
    assert [e.round for e in of(events, Generated, purpose="candidate")] == [0, 2]
    assert [e.does for e in of(events, Planned)][1] == "draws from other words: other words"
    assert end(events).best_round == 2
    result = result_of(record_of(events, tmp_path))
    assert [record.round for record in result.rounds] == [0, 2]


async def test_a_model_that_fails_loses_nothing_and_the_run_goes_on(tmp_path: Path) -> None:
    lost = CallError(Transient("overloaded"), 6)
    book = CallBook()
    backend = ScriptedBackend(qualities(100, 255), book)
    chat = played(DRAW, VERIFY, lost)
    with pytest.raises(DirectorError, match=r"overloaded.*goes on from here"):
        await direct(tmp_path / "run", chat, backend=backend)
    again = played(ValueError("not asked"), ValueError("not asked"), ACCEPT)
    events = await direct(tmp_path / "run", again, backend=backend)
    assert end(events).reason == "accepted"
    assert len(again.sent) == 1
    assert len([line for line in book.lines if line.startswith("begin generate")]) == 1


async def test_a_wrong_key_is_an_error_a_request_refused_later_an_end(tmp_path: Path) -> None:
    never = CallError(PermanentError("401: no such key"), 1)
    with pytest.raises(DirectorError, match="no such key"):
        await direct(tmp_path / "key", played(never))
    events = await direct(tmp_path / "late", played(DRAW, never))
    assert (end(events).reason, len(of(events, Generated))) == ("gave_up", 1)


async def test_replies_of_no_use_count_as_silence(tmp_path: Path) -> None:
    empty = CallError(PermanentError("empty reply"), 3, Usage(30, 0), 0.001)
    events = await direct(tmp_path / "run", played(DRAW, empty))
    assert end(events).reason == "gave_up"
    assert len(of(events, Replied)) == 4


async def test_odd_characters_and_numbers_do_not_break_the_log(tmp_path: Path) -> None:
    odd = AIMessage(
        "half \ud800 \x00",
        tool_calls=[
            {
                "name": "generate_image",
                "args": {"prompt": "a \udfff b", "why": float("nan")},
                "id": "a",
            }
        ],
    )
    chat = played(odd, DRAW, ("accept", {"image": "\ud800" * 9}), ACCEPT)
    events = await direct(tmp_path / "run", chat)
    # JSON has null for a number that is none, and null is not given.
    assert [ok for _, ok in calls(events)] == [True, True, False, True]
    (reply,) = of(read_events(tmp_path / "run" / "events.jsonl"), Replied, turn=0)
    assert reply.message["content"] == "half ? \x00"
    assert reply.message["tool_calls"][0]["args"] == {"prompt": "a ? b", "why": None}
