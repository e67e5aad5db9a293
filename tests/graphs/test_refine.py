"""The loop: what it draws, when it stops, what it keeps, what it never asks."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from scenewright.agents.composers.rules import GridComposer
from scenewright.config.options import Budget, LoopOptions
from scenewright.config.profiles import BUILT_IN, Profile
from scenewright.core.facts import Answer, Fact, ScoreCard, Verdict
from scenewright.core.formats import load_scene
from scenewright.core.ports.backend import (
    Box,
    GeneratedImage,
    GenerationRequest,
    GenerationStep,
    Start,
)
from scenewright.core.questions import facts_of
from scenewright.core.referring import noun_phrase
from scenewright.graphs.drawing import boxes_of, request_of
from scenewright.graphs.events import (
    Answered,
    Event,
    Finished,
    Generated,
    Missing,
    Planned,
    Retrying,
    Step,
)
from scenewright.graphs.record import improves
from scenewright.graphs.refine import build_refine
from scenewright.graphs.state import round_seed
from scenewright.graphs.strategies.base import GenerationOverrides
from scenewright.providers.retry import FailedAttempt, notify_retry
from scenewright.runs.api import refine
from scenewright.runs.model_factory.profiles import build_run_models
from scenewright.runs.report import words
from scenewright.runs.result import RunResult
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge

SCENE = "red ball on table; dog left of table"
FACTS = facts_of(load_scene(SCENE))
LEVELS = {fact.id: 40 * at for at, fact in enumerate(FACTS, start=1)}
SEED = 5


def level(fact: Fact) -> int:
    """The quality above which the judges find a fact: 40, 80, … 240 in the facts' order."""
    return LEVELS[fact.id]


def by_round(*qualities: int) -> Callable[[GenerationRequest], int]:
    """Candidates of these qualities, one a round; the last goes on. References have none."""
    rest = itertools.chain(qualities, itertools.repeat(qualities[-1]))

    def quality(request: GenerationRequest) -> int:
        reference = request.seed in {round_seed(SEED, n, "reference") for n in range(1, 20)}
        return 0 if reference else next(rest)

    return quality


async def run(
    out: Path,
    *qualities: int,
    backend: dict[str, Any] | None = None,
    backend_object: ScriptedBackend | None = None,
    **options: Any,
) -> tuple[RunResult, list[Event]]:
    events: list[Event] = []
    judges = [ScriptedJudge("a", level=level), ScriptedJudge("b", level=level)]
    result = await refine(
        SCENE,
        **{
            "out": out,
            "seed": SEED,
            "rounds": 4,
            "patience": 4,
            "backend": backend_object or ScriptedBackend(by_round(*qualities), **(backend or {})),
            "judges": judges,
            "report_judges": [],
            "composer": ScriptedComposer(),
            "on_event": events.append,
            **options,
        },
    )
    return result, events


def of(events: Sequence[Event], kind: type[Any], **values: object) -> list[Any]:
    return [
        event
        for event in events
        if isinstance(event, kind) and all(getattr(event, k) == v for k, v in values.items())
    ]


async def test_a_perfect_picture_stops_at_once(tmp_path: Path) -> None:
    result, events = await run(tmp_path / "run", 255)
    assert (result.stop_reason, result.best_round, len(result.rounds)) == ("satisfied", 0, 1)
    assert result.totals["images"] == 1
    assert not of(events, Missing)
    assert isinstance(events[-1], Finished)


async def test_the_loop_repairs_what_is_missing(tmp_path: Path) -> None:
    result, events = await run(tmp_path / "run", 100, 255)
    assert (result.stop_reason, result.best_round, len(result.rounds)) == ("satisfied", 1, 2)
    first, second = result.rounds
    assert [item.id for item in first.missing.objects] == [  # type: ignore[union-attr]
        item.id for item in result.scene.objects
    ]
    assert second.missing is None
    assert second.prompt == first.prompt
    (reference,) = of(events, Generated, purpose="reference")
    assert reference.request.references == ()
    assert len({reference.request.seed, first.seed, second.seed}) == 3
    (candidate,) = of(events, Generated, purpose="candidate", round=1)
    assert [(r.image, r.weight) for r in candidate.request.references] == [
        (first.image, BUILT_IN["miniature"].weight_best),
        (reference.image, BUILT_IN["miniature"].weight_missing),
    ]
    assert (second.guide, second.reference_image) == (first.image, reference.image)
    assert result.gain("loop") == pytest.approx(1 - first.loop_card.sgscore)  # type: ignore[union-attr, operator]


async def test_references_come_from_the_best_candidate_and_its_missing_graph(
    tmp_path: Path,
) -> None:
    result, events = await run(tmp_path / "run", 130, 50, 50)
    assert result.best_round == 0
    for candidate in of(events, Generated, purpose="candidate")[1:]:
        assert candidate.request.references[0].image == result.rounds[0].image
    prompts = {record.reference_prompt for record in result.rounds[1:]}
    (lost,) = of(events, Missing, round=0)
    names = {item.id for item in lost.graph.objects}
    for prompt in prompts:
        assert prompt is not None
        assert set(prompt.split(";")[0].split(", ")) == names


async def test_stops_at_the_round_limit_with_the_first_of_equals(tmp_path: Path) -> None:
    result, events = await run(tmp_path / "run", 100, rounds=3)
    assert (result.stop_reason, len(result.rounds), result.best_round) == ("rounds", 3, 0)
    assert len({record.seed for record in result.rounds}) == 3
    assert len({record.image for record in result.rounds}) == 3
    assert len(of(events, Missing)) == 3


async def test_stops_when_patience_is_gone(tmp_path: Path) -> None:
    result, _ = await run(tmp_path / "run", 100, 170, 120, 110, 90, rounds=10, patience=2)
    assert (result.stop_reason, result.best_round, len(result.rounds)) == ("patience", 1, 4)


@pytest.mark.parametrize(
    ("budget", "rounds", "images"),
    [
        (Budget(images=1), 1, 1),
        (Budget(images=2), 1, 1),
        (Budget(images=3), 2, 3),
        (Budget(images=6), 3, 5),
        (Budget(tokens=50), 1, 1),
        (Budget(tokens=170), 1, 1),
        (Budget(tokens=300), 2, 3),
        (Budget(usd=0.9), 1, 1),
        (Budget(usd=2.5), 1, 1),
        (Budget(usd=3.0), 2, 3),
        (Budget(usd=4.5), 2, 3),
    ],
)
async def test_budgets(tmp_path: Path, budget: Budget, rounds: int, images: int) -> None:
    result, _ = await run(
        tmp_path / "run", 130, rounds=9, patience=9, budget=budget, backend={"usd": 1.0}
    )
    assert (result.stop_reason, len(result.rounds)) == ("budget", rounds)
    assert result.totals["images"] == images
    assert result.totals["usd"] == images
    # The first round has models that expect nothing; no later one goes over a limit.
    (most,) = budget.model_dump(exclude_none=True, exclude={"tool_calls"}).values()
    used = {**result.totals, "tokens": result.totals["tokens_in"] + result.totals["tokens_out"]}
    (name,) = budget.model_dump(exclude_none=True, exclude={"tool_calls"})
    assert rounds == 1 or used[name] <= most
    assert f"{most:g}" in result.limit.replace(".00", "")


async def test_a_budget_of_time_ends_the_run_after_a_round(tmp_path: Path) -> None:
    result, _ = await run(tmp_path / "run", 130, rounds=9, budget=Budget(seconds=1e-6))
    assert (result.stop_reason, len(result.rounds)) == ("budget", 1)


async def test_void_facts_are_never_asked(tmp_path: Path) -> None:
    result, events = await run(tmp_path / "run", 50, rounds=1)
    asked = {answer.fact_id for event in of(events, Answered) for answer in event.answers}
    assert asked == {"o:ball.1", "o:table.1", "o:dog.1", "a:ball.1:color"}
    assert result.loop_card is not None
    states = [verdict.state for verdict in result.loop_card.verdicts]
    assert states == ["yes", "no", "no", "no", "void", "void"]


async def test_report_judges_see_all_candidates_but_only_at_the_end(tmp_path: Path) -> None:
    reporter = ScriptedJudge("r", level=lambda fact: LEVELS.get(fact.id, 0) + 20)
    result, events = await run(tmp_path / "run", 90, 170, rounds=2, report_judges=[reporter])
    asked = of(events, Answered, role="report")
    drawn = of(events, Generated)
    assert {event.image for event in asked} == {record.image for record in result.rounds}
    assert events.index(asked[0]) > events.index(drawn[-1])
    assert {event.judge_id for event in asked} == {reporter.id}
    first, last = result.rounds
    assert result.report_card == last.report_card
    assert result.gain() == last.report_card.sgscore - first.report_card.sgscore  # type: ignore[union-attr, operator]
    assert last.report_card != last.loop_card


def silent(judge: ScriptedJudge, facts: Sequence[Fact], answers: list[Answer]) -> object:
    raise ConnectionError("nobody there")


async def test_without_any_answer_the_run_stops_as_unscored(tmp_path: Path) -> None:
    dead = [ScriptedJudge("a", behave=silent), ScriptedJudge("b", behave=silent)]
    result, _ = await run(tmp_path / "run", 100, judges=dead)
    assert (result.stop_reason, result.best_round, len(result.rounds)) == ("unscored", 0, 1)
    assert result.loop_card is not None
    assert all("nobody there" in verdict.reason for verdict in result.loop_card.verdicts)
    assert result.image is not None
    assert result.image.exists()


async def test_one_dead_judge_leaves_the_loop_to_the_other(tmp_path: Path) -> None:
    judges = [ScriptedJudge("a", level=level), ScriptedJudge("b", behave=silent)]
    result, _ = await run(tmp_path / "run", 100, 255, judges=judges)
    assert result.stop_reason == "satisfied"
    assert result.loop_card is not None
    assert {(v.n_scored, v.n_unscored) for v in result.loop_card.verdicts} == {(1, 1)}


async def test_a_silence_on_hard_facts_does_not_make_a_candidate_better(tmp_path: Path) -> None:
    """Round 1 loses facts that round 0 had, and the judge is silent on all that it lost; what it
    still answers of objects and relations it finds."""
    calls = itertools.count()

    def shy(judge: ScriptedJudge, facts: Sequence[Fact], answers: list[Answer]) -> object:
        if next(calls) < 2:
            return answers
        return [
            answer.model_copy(update={"state": "yes", "choice": fact.expected, "probability": 0.9})
            if fact.id in (FACTS[0].id, FACTS[4].id)
            else answer.model_copy(
                update={"state": "unscored", "probability": None, "reason": "no idea"}
            )
            for fact, answer in zip(facts, answers, strict=True)
        ]

    result, _ = await run(
        tmp_path / "run", 210, 60, rounds=2, judges=[ScriptedJudge("a", level=level, behave=shy)]
    )
    first, second = result.rounds
    assert second.loop_card is not None
    assert first.loop_card is not None
    assert second.loop_card.rank > first.loop_card.rank
    assert result.best_round == 0


def card(*states: str) -> ScoreCard:
    verdicts = [
        Verdict.model_validate(
            {
                "fact_id": fact.id,
                "state": state,
                "probability": {"yes": 0.9, "no": 0.1}.get(state),
            }
        )
        for fact, state in zip(FACTS, states, strict=True)
    ]
    return ScoreCard.of(FACTS, verdicts)


def test_a_candidate_must_be_better_on_what_was_scored_before() -> None:
    whole = card("yes", "yes", "no", "yes", "yes", "void")
    shy = card("yes", "unscored", "unscored", "unscored", "yes", "unscored")
    silent = card("yes", *["unscored"] * 5)
    better = card("yes", "yes", "yes", "yes", "yes", "unscored")
    patchy = card("yes", "yes", "no", "unscored", "unscored", "void")
    assert shy.rank > whole.rank
    assert not improves(shy, whole, FACTS)
    # Of relations that nobody could judge there is no score at all.
    assert silent.rank < whole.rank
    assert not improves(silent, whole, FACTS)
    assert improves(better, whole, FACTS)
    assert not improves(whole, patchy, FACTS)
    assert not improves(whole, whole, FACTS)
    assert improves(whole, card(*["unscored"] * 6), FACTS)


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    qualities=st.lists(st.integers(0, 250), min_size=4, max_size=4),
    holes=st.sets(st.integers(0, 40), max_size=12),
)
async def test_the_result_never_ranks_below_round_0(
    tmp_path_factory: pytest.TempPathFactory, qualities: list[int], holes: set[int]
) -> None:
    """Whatever the pictures are worth and whichever answers the judges fail to give."""
    count = itertools.count()

    def patchy(judge: ScriptedJudge, facts: Sequence[Fact], answers: list[Answer]) -> object:
        return [
            answer.model_copy(update={"state": "unscored", "probability": None, "reason": "gone"})
            if next(count) in holes
            else answer
            for answer in answers
        ]

    result, _ = await run(
        tmp_path_factory.mktemp("loop") / "run",
        *qualities,
        judges=[ScriptedJudge("a", level=level, behave=patchy)],
    )
    cards = [record.loop_card for record in result.rounds]
    assert result.best is not None
    assert result.best.loop_card is not None
    assert cards[0] is not None
    assert result.best.loop_card.rank >= cards[0].rank
    if not holes:
        ranks = [c.rank for c in cards if c is not None]
        assert result.best_round == ranks.index(max(ranks))


@pytest.mark.parametrize(("references", "given"), [(0, 0), (1, 1), (2, 2), (4, 2)])
async def test_references_follow_what_the_backend_can(
    tmp_path: Path, references: int, given: int
) -> None:
    result, events = await run(tmp_path / "run", 100, rounds=2, backend={"references": references})
    (candidate,) = of(events, Generated, purpose="candidate", round=1)
    assert len(candidate.request.references) == given
    assert len(of(events, Generated, purpose="reference")) == (1 if references else 0)
    if references == 1:
        assert candidate.request.references[0].image == result.rounds[1].reference_image


async def test_steps_are_streamed_and_not_stored(tmp_path: Path) -> None:
    result, events = await run(tmp_path / "run", 255)
    assert [(event.step, event.of) for event in of(events, Step)] == [(1, 2), (2, 2)]
    assert '"step"' not in (result.folder / "events.jsonl").read_text()


async def test_requests_that_are_sent_again_are_streamed_and_not_stored(tmp_path: Path) -> None:
    def tried_again(
        judge: ScriptedJudge, facts: Sequence[Fact], answers: list[Answer]
    ) -> list[Answer]:
        notify_retry(
            FailedAttempt("mine", "m", "mine:m 2 facts", 1, 120.0, "no reply within 120 s", 0.5)
        )
        return answers

    result, events = await run(tmp_path / "run", 255, judges=[ScriptedJudge(behave=tried_again)])
    first, *_ = of(events, Retrying)
    assert (first.round, first.model, first.attempt) == (0, "mine:m 2 facts", 1)
    assert (first.reason, first.seconds, first.wait) == ("no reply within 120 s", 120.0, 0.5)
    assert "retrying" not in (result.folder / "events.jsonl").read_text()
    said = words.retry_line(first)
    assert said == (
        "mine:m 2 facts: attempt 1 failed after 2 min 0 s (no reply within 120 s); "
        "the next one at once"
    )


class ThreadedBackend(ScriptedBackend):
    """Tells its steps from another thread by the event loop, as one that draws in a thread does."""

    async def generate(
        self,
        request: GenerationRequest,
        load: Callable[[str], Image.Image],
        on_step: Callable[[GenerationStep], None] | None = None,
    ) -> GeneratedImage:
        loop = asyncio.get_running_loop()

        def draw() -> None:
            for step in (1, 2, 3):
                if on_step is not None:
                    loop.call_soon_threadsafe(on_step, GenerationStep(step, 3))

        thread = threading.Thread(target=draw)
        thread.start()
        await asyncio.to_thread(thread.join)
        return await super().generate(request, load)


async def test_steps_that_follow_fast_are_not_all_told(tmp_path: Path) -> None:
    _, events = await run(tmp_path / "run", 250, backend_object=ThreadedBackend(by_round(250)))
    assert [event.step for event in of(events, Step)] == [1, 3]


async def test_steps_told_from_a_thread_reach_the_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenewright.graphs.drawing.STEP_SECONDS", 0.0)
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, failure: failures.append(failure))
    backend = ThreadedBackend(by_round(250))
    _, events = await run(tmp_path / "run", 250, backend_object=backend)
    assert [event.step for event in of(events, Step)] == [1, 2, 3]
    assert not failures


async def test_the_same_seed_gives_the_same_result_and_another_another(tmp_path: Path) -> None:
    def images(result: RunResult) -> list[str]:
        return [record.image for record in result.rounds]

    one, _ = await run(tmp_path / "one", 100, 130, rounds=2)
    two, _ = await run(tmp_path / "two", 100, 130, rounds=2)
    other, _ = await run(tmp_path / "other", 100, 130, rounds=2, seed=6)
    assert images(one) == images(two)
    assert [r.loop_card for r in one.rounds] == [r.loop_card for r in two.rounds]
    assert not set(images(one)) & set(images(other))


async def test_checkpoints_stay_small_whatever_the_pictures_weigh(tmp_path: Path) -> None:
    result, _ = await run(tmp_path / "run", 100, rounds=8, patience=8)
    assert len(result.rounds) == 8
    with sqlite3.connect(result.folder / "checkpoints.sqlite") as db:
        (largest,) = db.execute("SELECT max(length(checkpoint)) FROM checkpoints").fetchone()
        (count,) = db.execute("SELECT count(*) FROM checkpoints").fetchone()
        places = db.execute("SELECT DISTINCT checkpoint_ns FROM checkpoints").fetchall()
    assert largest < 12_000
    # One a step of the loop; what nested steps and single tasks did, the event log tells.
    assert count < 8 * 6
    assert places == [("",)]


def test_round_0_uses_the_seed_of_the_run_and_all_others_differ() -> None:
    assert round_seed(7, 0, "candidate") == 7
    seeds = {
        round_seed(7, n, purpose)
        for n in range(50)
        for purpose in ("candidate", "reference")  # type: ignore[misc]
    }
    assert len(seeds) == 100
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_the_graph_compiles_without_a_host() -> None:
    nodes = set(build_refine().compile().get_graph().nodes)
    assert {"compose", "generate", "verify", "decide", "reference", "report", "review"} <= nodes


def test_the_page_on_the_architecture_shows_the_machine() -> None:
    graph = build_refine().compile().get_graph()
    # The machine waits in review and has no end; LangGraph draws one where it stops looking.
    del graph.nodes["__end__"]
    graph.edges[:] = [edge for edge in graph.edges if edge.target != "__end__"]
    page = Path(__file__).parents[2] / "docs" / "architecture.md"
    drawn = graph.draw_mermaid().strip()
    assert f"```mermaid\n{drawn}\n```\n" in page.read_text(encoding="utf-8")


async def test_what_of_a_prompt_is_not_read_is_told_in_tokens_and_facts(tmp_path: Path) -> None:
    result, events = await run(tmp_path, 0, backend={"prompt_tokens": 6}, rounds=1)
    (made,) = of(events, Generated, purpose="candidate")
    # "ball, table, dog; ball on table," is read, "dog left of table; layout 5" is not.
    assert (made.prompt_tokens, made.tokens_dropped, made.estimated) == (12, 6, False)
    assert made.steps == 2
    statements = {fact.id: fact.statement for fact in FACTS}
    assert [statements[id_] for id_ in made.facts_dropped] == ["dog left of table"]
    (record,) = result.rounds
    assert (record.prompt_tokens, record.tokens_dropped) == (12, 6)
    assert record.facts_dropped == made.facts_dropped


async def test_a_profile_in_plain_sentences_keeps_to_what_the_model_reads(tmp_path: Path) -> None:
    """The composer is told the budget; what has no room is dropped, though every word is read."""
    profile = Profile(name="small", backend="scripted:x", judges=("scripted:a",))
    backend = ScriptedBackend(by_round(0), prompt_tokens=6)
    run_models = await build_run_models(
        profile, backend=backend, judges=[ScriptedJudge("a", level=level)], report_judges=[]
    )
    result, events = await run(
        tmp_path, backend_object=backend, composer=run_models.composer, rounds=1
    )
    (made,) = of(events, Generated, purpose="candidate")
    assert (made.tokens_dropped, made.prompt_tokens <= 6) == (0, True)
    statements = {fact.id: fact.statement for fact in FACTS}
    dropped = [statements[id_] for id_ in made.facts_dropped]
    assert dropped == ["dog left of table"], made.request.prompt
    assert result.rounds[0].facts_dropped == made.facts_dropped


async def test_a_prompt_that_is_read_to_its_end_drops_nothing(tmp_path: Path) -> None:
    result, events = await run(tmp_path, 0, rounds=1)
    (made,) = of(events, Generated, purpose="candidate")
    assert made.prompt_tokens is not None
    assert (made.tokens_dropped, made.facts_dropped) == (0, ())
    assert result.rounds[0].facts_dropped == ()


async def test_a_backend_with_boxes_is_told_the_places_of_the_composer(tmp_path: Path) -> None:
    composer = GridComposer()
    scene = load_scene(SCENE)
    places = composer.places(scene, SEED)
    _, events = await run(tmp_path / "run", 100, 255, backend={"boxes": True}, composer=composer)
    first, reference, second = of(events, Generated)
    for drawn in (first, second):
        assert [(box.phrase, box.region) for box in drawn.request.boxes] == [
            (noun_phrase(item), places[item.id]) for item in scene.objects
        ]
    # What is missing is shown where it is to be.
    missing = of(events, Planned)[0].reference
    assert reference.purpose == "reference"
    assert [box.region for box in reference.request.boxes] == [
        places[item.id] for item in missing.objects
    ]
    _, events = await run(tmp_path / "plain", 100, 255, composer=composer)
    assert not any(drawn.request.boxes for drawn in of(events, Generated))


def test_an_edit_by_instruction_places_nothing_anew() -> None:
    boxes = boxes_of(GridComposer(), load_scene(SCENE), SEED)
    start = Start(image="a" * 64, strength=1.0)

    def told(start: Start) -> tuple[Box, ...]:
        redrawn = GenerationOverrides(start=start)
        return request_of(LoopOptions(), "a dog", 1, "candidate", redrawn, boxes).boxes

    assert told(start) == boxes
    assert told(start.model_copy(update={"instruct": True})) == ()
