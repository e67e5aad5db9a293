"""What a sentence says beside its graph, on the page and in the lines of a result."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from scenewright.agents.parsers.rules import read_text
from scenewright.cli.run_display import Lines, facts_table, result_lines
from scenewright.core.facts import Fact, ScoreCard, Verdict
from scenewright.core.intent import Count, Doubt, Exclusion, Global, Intent, Passage
from scenewright.core.questions import QuestionForm
from scenewright.core.scene import SceneGraph
from scenewright.graphs.events import Composed, Judged
from scenewright.graphs.record import RequestedScene
from scenewright.runs.record import RunRecord, read_run, record_of
from scenewright.runs.report.content import page_content, title_parts
from scenewright.runs.report.render import render_run
from scenewright.runs.report.words import changes_line, outcome_line, stop_line, verdict_line
from scenewright.runs.result import load_run
from scenewright.service.mcp.replies import fact_statuses
from tests.runs.report.sample import kitchen, write_sample

SAID = "An oil painting of a red ball on a table, furtively lit, best quality, no cat, at dusk"
INTENT = Intent(
    sentence=SAID,
    globals=(
        Global(kind="medium", text="oil painting"),
        Global(kind="quality", text="best quality"),
        Global(kind="time", text="at dusk"),
    ),
    exclusions=(Exclusion(name="cat", text="no cat"),),
    counts=(Count(objects=("ball.1",), kind="exact", number=1),),
    unread=(
        Passage(start=(at := SAID.index("furtively")), end=at + 9, text="furtively", reason="odd"),
    ),
    doubts=(Doubt(kind="reading", start=0, end=2, text="An", question="one, or two?"),),
)
SCENE = kitchen().said_as(INTENT)
FACTS = QuestionForm().facts(SCENE)
LOST = Passage(
    start=(at := SAID.index("table")), end=at + 5, text="table", reason="not in the prompt"
)


def card(**states: str) -> ScoreCard:
    """Return a card on which all holds but the facts of these kinds; wishes by their key."""

    def state(fact: Fact) -> str:
        return states.get(fact.key or "" if fact.kind == "wish" else fact.kind, "yes")

    return ScoreCard.of(
        FACTS,
        [
            Verdict(
                fact_id=fact.id,
                state=state(fact),  # type: ignore[arg-type]
                probability=None if state(fact) == "unscored" else 0.9,
                reason="nobody" if state(fact) == "unscored" else "",
            )
            for fact in FACTS
        ],
    )


STATED = sum(fact.kind not in ("wish", "realism") for fact in FACTS)


def test_the_verdict_says_what_nobody_checked() -> None:
    unread = card(medium="unscored", time="unscored")
    assert verdict_line(unread, SCENE) == f"{STATED} of {STATED} checked facts hold"
    assert outcome_line(unread, SCENE, FACTS) == (
        f"{STATED} of {STATED} checked facts hold. "
        "Not checked: oil painting, furtively, best quality, at dusk."
    )
    # What a judge of wishes answered is checked; quality is nobody's fact.
    assert outcome_line(card(), SCENE, FACTS) == (
        f"{STATED} of {STATED} checked facts hold. Not checked: furtively, best quality."
    )
    whole = SCENE.said_as(INTENT.model_copy(update={"unread": (), "globals": INTENT.globals[:1]}))
    assert outcome_line(card(), whole, FACTS) == f"All {STATED} facts hold"
    wrong = card(medium="no", count="no")
    assert "Not as asked: exactly 1 ball, no cat, oil painting. Not checked:" in outcome_line(
        wrong, SCENE, FACTS
    )


def view_with(folder: Path, cards: ScoreCard, scene: SceneGraph = SCENE) -> RunRecord:
    """Return a finished run of ``scene`` whose kept picture has these cards."""
    write_sample(folder, rounds=1)
    view = read_run(folder)
    assert view.finished is not None
    (kept,) = view.rounds
    events = tuple(
        event.model_copy(update={"lost": (LOST,), "added": ("meadow", "two")})
        if isinstance(event, Composed)
        else event.model_copy(update={"card": cards})
        if isinstance(event, Judged) and event.role == "loop"
        else event
        for event in kept.events
    )
    rounds = (replace(kept, events=events),)
    finished = view.finished.model_copy(
        update={"loop_card": cards, "report_card": None, "reason": "satisfied"}
    )
    asked = RequestedScene(0, scene, FACTS)
    return replace(view, scenes=(asked,), rounds=rounds, finished=finished, sentence=scene.title)


@pytest.fixture
def view(tmp_path: Path) -> RunRecord:
    """A finished run of which style and time were not checked."""
    return view_with(tmp_path, card(medium="unscored", time="unscored"))


def test_lost_and_unchecked_passages_are_underlined_with_their_reason(view: RunRecord) -> None:
    parts = title_parts(view, view.best)
    assert "".join(text for text, _ in parts) == SAID
    assert [(text, reason) for text, reason in parts if reason] == [
        ("oil painting", "not checked"),
        ("table", "not in the prompt"),
        ("furtively", "odd"),
        ("best quality", "not checked"),
        ("at dusk", "not checked"),
    ]
    # Before a picture is judged nobody knows what will be checked.
    assert [text for text, reason in title_parts(view, None) if reason] == ["furtively"]
    page = render_run(view)
    assert '<u class="unread" title="not in the prompt">table</u>' in page
    assert "“table” (not in the prompt), “furtively” (odd)" in page
    assert "Added to your words: meadow, two." in page
    assert "Not drawn: table; added: meadow, two" in page
    assert "Not sure: &#39;An&#39;: one, or two?" in page
    assert f"{STATED} of {STATED} checked facts hold. Not checked: oil painting" in page


def test_space_before_the_sentence_moves_no_underline(tmp_path: Path) -> None:
    for text in ("  \n a cat, nobody sits", "  a cat is not red; "):
        scene = read_text(text)
        (passage,) = scene.intent.unread
        view = view_with(tmp_path / str(len(text)), card(), scene)
        # A run keeps the title as a door wrote it.
        for title in (scene.title, text.strip()):
            parts = title_parts(replace(view, sentence=title), None)
            assert [said for said, reason in parts if reason] == [passage.text]


def test_a_passage_that_is_open_twice_has_both_reasons(tmp_path: Path) -> None:
    view = view_with(tmp_path, card())
    lost = INTENT.unread[0].model_copy(update={"reason": "not in the prompt"})
    (kept,) = view.rounds
    events = tuple(
        event.model_copy(update={"lost": (lost,)}) if isinstance(event, Composed) else event
        for event in kept.events
    )
    view = replace(view, rounds=(replace(kept, events=events),))
    assert ("furtively", "odd, not in the prompt") in title_parts(view, view.best)


def test_numbers_and_wishes_have_headings_of_their_own(view: RunRecord) -> None:
    groups = {group.name: group for group in page_content(view).groups}
    assert list(groups) == [
        "Objects",
        "Attributes",
        "Relations",
        "Numbers and exclusions",
        "Wishes for the whole picture",
    ]
    numbers, wishes = groups["Numbers and exclusions"], groups["Wishes for the whole picture"]
    assert [line.fact.statement for line in numbers.lines] == ["no cat"]
    assert numbers.recalls == ("1/1",)
    assert [line.fact.statement for line in wishes.lines] == ["oil painting", "at dusk"]
    assert wishes.recalls == ("0/2",)
    # The drawing has the graph alone.
    drawing = str(page_content(view).rounds[0].graph)
    assert "oil painting" not in drawing
    assert "no cat" not in drawing
    assert "red" in drawing


def test_facts_about_one_number_are_one_line_everywhere(tmp_path: Path) -> None:
    more = card(count="no")
    view = view_with(tmp_path, more)
    said = [fact.statement for fact in FACTS]
    together = [one for one in said if one != "exactly 1 ball"]
    together[said.index("ball")] = "exactly 1 ball"
    statuses = fact_statuses(FACTS, more)
    assert [one.says for one in statuses] == together
    (number,) = (one for one in statuses if one.says == "exactly 1 ball")
    assert number.state == "no"
    content = page_content(view)
    (line,) = (one for one in content.groups[0].lines if one.fact.statement == "exactly 1 ball")
    assert line.fact.question == "How many balls are there in the image?"
    assert [r.marks[line.decided(r.view.verdicts()).id].state for r in content.rounds] == ["no"]
    console = Console(file=io.StringIO(), width=200)
    console.print(facts_table(view, console))
    told = console.file.getvalue()  # type: ignore[attr-defined]
    assert told.count("ball") == sum(one.count("ball") for one in together)


def test_a_changed_graph_is_told(tmp_path: Path) -> None:
    smaller = SCENE.subgraph([item.id for item in SCENE.objects if item.id != "house.1"])
    view = view_with(tmp_path, card(), smaller)
    assert view.sentence == ""
    content = page_content(view)
    assert any("prompts are composed of its graph" in note for note in content.notes)
    assert not any("Not sure" in note for note in content.notes)
    assert title_parts(view, view.best)[0][1] == ""


def test_the_command_says_the_same(view: RunRecord) -> None:
    lines = result_lines(view)
    assert ("result", f"{STATED} of {STATED} checked facts hold") in lines
    assert ("", "Not checked: oil painting, furtively, best quality, at dusk.") in lines
    assert ("prompt", "not drawn: table; added: meadow, two") in lines
    assert stop_line(view) == "every checked fact holds"
    assert any(value.startswith("every checked fact holds;") for _, value in lines)


def test_events_and_records_carry_what_a_prompt_changed(tmp_path: Path) -> None:
    write_sample(tmp_path, rounds=1)
    log = tmp_path / "events.jsonl"
    lines = []
    for line in log.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["type"] == "composed":
            event |= {"lost": [LOST.model_dump()], "added": ["meadow"]}
        lines.append(json.dumps(event))
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (record,) = load_run(tmp_path).rounds
    assert (record.lost, record.added) == ((LOST,), ("meadow",))
    assert record.model_dump(mode="json")["added"] == ["meadow"]
    view = read_run(tmp_path)
    told = changes_line(view.composed(0))
    assert told == "not drawn: table; added: meadow"
    console = Console(file=io.StringIO(), width=400)
    show = Lines(console)
    for event in view.rounds[0].all(Composed):
        show(event)
    assert f"[{told}]" in console.file.getvalue()  # type: ignore[attr-defined]
    assert changes_line(None) == ""


def test_a_run_of_before_has_its_title_and_no_groups_of_wishes(tmp_path: Path) -> None:
    events = write_sample(tmp_path, rounds=1)
    before = [
        event.model_copy(update={"sentence": SAID}) if event.key == events[0].key else event
        for event in events
    ]
    view = record_of(before, tmp_path)
    assert "".join(text for text, _ in title_parts(view, view.best)) == SAID
    assert len(page_content(view).groups) == 3
    assert re.search(r"All \d+ facts hold|\d+ of \d+", page_content(view).line)
