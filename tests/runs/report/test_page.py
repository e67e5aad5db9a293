"""The run page: complete, well-formed, self-contained and safe, for whole and broken runs."""

from __future__ import annotations

import base64
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markupsafe import escape
from PIL import Image
from rich.console import Console

from scenewright.cli.run_display import Lines
from scenewright.core.facts import ScoreCard, Verdict, missing_graph
from scenewright.core.formats import loads_scene
from scenewright.core.intent import Intent, Passage
from scenewright.core.questions import facts_of
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.graphs.eventlog import read_events
from scenewright.graphs.events import Answered, Generated, Resumed, ToolCalled
from scenewright.runs.record import PageError, read_run
from scenewright.runs.report.contact_sheet import contact_sheet
from scenewright.runs.report.render import render_run, write_index, write_page
from scenewright.runs.report.words import (
    card_score,
    commands_in,
    dropped_line,
    file_stem,
    marked,
    outcome_line,
    percent,
    scene_words,
    signed,
    verdict_line,
)
from tests.runs.report.sample import LOOP, REPORT, START, kitchen, write_sample

VOID_TAGS = frozenset({"meta", "img", "br", "input", "link", "hr"})
LOADS = {"src", "href", "srcset", "poster", "data", "action", "xlink:href"}


class Checker(HTMLParser):
    """Notes unbalanced tags, doubled ids, what is loaded and what is said."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.problems: list[str] = []
        self.ids: list[str] = []
        self.loads: list[tuple[str, str]] = []
        self.described: list[str] = []
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.text: list[str] = []
        self.titles: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID_TAGS:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in LOADS:
                self.loads.append((tag, value or ""))
            if name in ("aria-describedby", "data-tip"):
                self.described.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)
            if name in ("title", "aria-label"):
                self.titles.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID_TAGS:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            self.problems.append(f"</{tag}> closes {self.open[-1:]} at {self.getpos()}")
        else:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def check(page: Path) -> Checker:
    checker = Checker()
    checker.feed(page.read_text(encoding="utf-8"))
    checker.close()
    assert checker.problems == []
    assert checker.open == []
    assert len(set(checker.ids)) == len(checker.ids)
    assert set(checker.described) <= set(checker.ids)
    return checker


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "kitchen"
    folder.mkdir()
    write_sample(folder)
    return folder


def test_the_page_is_well_formed_and_loads_nothing(run: Path) -> None:
    checker = check(write_page(run))
    for tag, target in checker.loads:
        assert target.startswith(("data:image/", "#")), (tag, target)
    text = (run / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"url\(|@import|<link|https?://", text)
    assert checker.tags.count("script") == 1
    assert "default-src 'none'" in text


def test_every_fact_and_every_answer_of_every_judge_is_on_the_page(tmp_path: Path) -> None:
    hard = "a:dog.1:size"
    events = write_sample(tmp_path, hard=hard)
    checker = check(write_page(tmp_path))
    text = " ".join(" ".join(checker.text).split())
    for fact in read_run(tmp_path).facts:
        assert fact.statement in text
        assert fact.question in text
    titles = "\n".join(checker.titles)
    shown = 0
    for event in events:
        if not isinstance(event, Answered):
            continue
        for answer in event.answers:
            line = f"{answer.judge_id}: {answer.choice or answer.state}"
            if answer.probability is not None:
                line += f", p={answer.probability:.3f}"
            assert line in titles
            shown += 1
    assert shown > 60
    assert "answered outside the options" in titles
    for judge in (*LOOP, *REPORT):
        assert judge in text


def test_the_page_shows_scores_prompts_and_where_it_comes_from(run: Path) -> None:
    view = read_run(run)
    text = " ".join(" ".join(check(write_page(run)).text).split())
    for shown in (
        scene_words(view.scene),
        "All 16 facts hold",
        "every fact holds",
        "kept round 2",
        "+0.83 from round 0",
        "8.4 s",
        "a small black dog to the left",
        "a picture of 6 things",
        "2 references at 0.5, 0.5",
        "Repair: feedback by router",
        "draws the whole picture again with references",
        "objects are absent",
        "fp-a",
        "f00dcafe",
        "test:painter",
    ):
        assert shown in text
    best = view.best
    assert best is not None
    assert view.finished is not None
    assert view.finished.best_round == best.index


def test_the_page_tells_what_a_director_did(run: Path) -> None:
    assert "What the director did" not in write_page(run).read_text(encoding="utf-8")
    calls = [
        ToolCalled(
            key=f"turn:{turn}:call:0",
            at=START + 90,
            turn=turn,
            round=turn - 1,
            tool=tool,
            arguments={"image": "<b>r0</b>"},
            outcome=outcome,
            ok=ok,
            said="Let me look & see.",
            usd=0.25,
        )
        for turn, (tool, outcome, ok) in enumerate(
            [("generate_image", '{"image": "r0"}', True), ("accept", "r0 is worse", False)]
        )
    ]
    log = run / "events.jsonl"
    kept = log.read_text(encoding="utf-8").splitlines(keepends=True)
    told = [call.model_dump_json() + "\n" for call in calls]
    log.write_text("".join([*kept[:-1], *told, kept[-1]]), encoding="utf-8")
    text = " ".join(" ".join(check(write_page(run)).text).split())
    for shown in (
        "What the director did",
        "Let me look & see.",
        "generate_image(image='<b>r0</b>')",
        "accept(image='<b>r0</b>') → refused: r0 is worse",
    ):
        assert shown in text
    view = read_run(run)
    assert [call.turn for call in view.tools] == [0, 1]
    # What came before a picture counts for the first round.
    assert view.rounds[0].usd >= 0.5


def test_every_round_has_its_drawing_its_image_and_its_references(run: Path) -> None:
    page = write_page(run).read_text(encoding="utf-8")
    for index in range(3):
        assert page.count(f'id="p{index}"') == 1
    # Kept image above, a candidate a round, two references in each later round.
    assert page.count("data:image/webp") == 1 + 3 + 4
    graphs = re.findall(r'<svg class="graph".*?</svg>', page, re.DOTALL)
    assert len(graphs) == 3 + 2
    last = graphs[2]
    for state in ("yes", "no", "void"):
        assert f"s-{state}" in "".join(graphs)
    assert last.count('class="node') == 6
    assert last.count('class="chip') == 6
    assert last.count('class="edge') == 4


def test_a_page_tells_how_references_were_used(run: Path) -> None:
    page = write_page(run).read_text(encoding="utf-8")
    assert page.count("weight 0.5") == 2
    for told in ("kept elsewhere", "pasted in, weight 0.6", "starts from a picture, strength 0.8"):
        assert page.count(told) == 1


def hostile() -> SceneGraph:
    bad = '<script>alert("x")</script>'
    return SceneGraph(
        objects=(
            SceneObject(id="a", name=bad, attributes=Attributes({'"><img src=x>': "'onload=x"})),
            SceneObject(id='"><b>', name="{{ 7 * 7 }}"),
        ),
        relations=(Relation(source="a", predicate="</svg><script>", target='"><b>'),),
    )


def test_names_are_text_and_never_markup(tmp_path: Path) -> None:
    write_sample(tmp_path, hostile())
    checker = check(write_page(tmp_path))
    assert checker.tags.count("script") == 1
    assert checker.tags.count("b") == check(write_page(_plain(tmp_path / "plain"))).tags.count("b")
    assert checker.handlers == []
    assert all(target.startswith(("data:image/", "#")) for _, target in checker.loads)
    text = "".join(checker.text)
    assert 'alert("x")' in text
    assert "{{ 7 * 7 }}" in text


def _plain(folder: Path) -> Path:
    folder.mkdir()
    scene = SceneGraph(
        objects=(
            SceneObject(id="a", name="cup", attributes=Attributes({"color": "red"})),
            SceneObject(id="b", name="hat"),
        ),
        relations=(Relation(source="a", predicate="on", target="b"),),
    )
    write_sample(folder, scene)
    return folder


def test_an_unfinished_run_has_a_page_that_says_so(tmp_path: Path) -> None:
    write_sample(tmp_path, rounds=2, finished=False)
    text = " ".join(check(write_page(tmp_path)).text)
    assert "has not finished" in text
    assert read_run(tmp_path).card("report") is None


@pytest.mark.parametrize("lines", range(1, 12))
def test_a_page_can_be_written_after_every_event(tmp_path: Path, lines: int) -> None:
    events = write_sample(tmp_path, rounds=2)
    log = tmp_path / "events.jsonl"
    whole = log.read_text(encoding="utf-8").splitlines(keepends=True)
    log.write_text("".join(whole[:lines]) + whole[lines][:40], encoding="utf-8")
    check(write_page(tmp_path))
    view = read_run(tmp_path)
    drawn = [e for e in events[:lines] if isinstance(e, Generated)]
    assert view.images == len(drawn)


def test_a_repeated_step_counts_once_and_a_resumption_is_told(tmp_path: Path) -> None:
    events = write_sample(tmp_path)
    again = Resumed(key="resumed:1", at=START, after=events[4].key)
    log = tmp_path / "events.jsonl"
    lines = [e.model_dump_json() for e in [*events[:5], again, *events[3:]]]
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    view = read_run(tmp_path)
    assert view.resumed == 1
    assert sum(len(r.calls) for r in view.rounds) == 9
    assert "continued 1 time" in " ".join(check(write_page(tmp_path)).text)


def test_missing_and_damaged_images_are_told_not_fatal(run: Path) -> None:
    images = sorted((run / "images").glob("*.png"))
    images[0].unlink()
    images[1].write_bytes(b"not a picture")
    checker = check(write_page(run))
    assert "missing or damaged" in " ".join(checker.text)
    assert isinstance(contact_sheet(run), Image.Image)


def test_wrong_folders_get_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(PageError, match="not a folder"):
        read_run(tmp_path / "nothing")
    with pytest.raises(PageError, match="not a run folder"):
        read_run(tmp_path)
    (tmp_path / "events.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(PageError, match="same command"):
        read_run(tmp_path)
    (tmp_path / "events.jsonl").write_text("{}\n{}\n", encoding="utf-8")
    with pytest.raises(PageError, match="line 1"):
        read_run(tmp_path)
    write_sample(tmp_path)
    (tmp_path / "manifest.json").write_text("[", encoding="utf-8")
    with pytest.raises(PageError, match=r"manifest\.json"):
        read_run(tmp_path)


def test_image_names_cannot_leave_the_run_folder(run: Path) -> None:
    view = read_run(run)
    (run / "secret.png").write_bytes(b"")
    assert view.image_path("../secret") is None
    assert view.image_path("*") is None


def test_the_index_links_to_every_run(run: Path, tmp_path: Path) -> None:
    with pytest.raises(PageError, match="write it first"):
        write_index(tmp_path, [run])
    write_page(run)
    checker = check(write_index(tmp_path, [run], "Three <scenes>"))
    links = [target for tag, target in checker.loads if tag == "a"]
    assert links == ["kitchen/index.html"] * 2
    assert "Three <scenes>" in "".join(checker.text)


def test_the_contact_sheet_grows_with_the_rounds(run: Path, tmp_path: Path) -> None:
    single = tmp_path / "single"
    single.mkdir()
    write_sample(single, kitchen(), rounds=1)
    assert contact_sheet(run).width > 2 * contact_sheet(single).width
    colors = contact_sheet(run, side=128).convert("RGB").getcolors(2**20)
    assert colors is not None
    assert (255, 0, 0) in {color for _, color in colors}


def test_a_contact_sheet_without_images_says_so(tmp_path: Path) -> None:
    events = write_sample(tmp_path)
    first = events[0].model_dump_json() + "\n"
    (tmp_path / "events.jsonl").write_text(first, encoding="utf-8")
    with pytest.raises(PageError, match="no image yet"):
        contact_sheet(tmp_path)


def test_numbers_are_never_rounded_to_a_false_certainty() -> None:
    assert percent(0.9996) == ">99%"
    assert percent(0.0004) == "<1%"
    assert percent(1.0) == "100%"
    assert percent(0.0) == "0%"
    assert signed(-0.25) == "−0.25"
    assert signed(0.001) == "±0.00"
    assert verdict_line(None) == "Not judged yet"


def test_the_manifest_is_read_as_it_is(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    assert read_run(run).manifest == manifest


def test_words_that_were_not_read_are_told_on_the_page_and_the_terminal(run: Path) -> None:
    file = run / "events.jsonl"
    lines, told = [], ""
    for line in file.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["type"] == "run_started":
            lost = event["facts"][-1]
        if event["type"] == "generated" and event["purpose"] == "candidate" and not told:
            event |= {"prompt_tokens": 90, "tokens_dropped": 15, "facts_dropped": [lost["id"]]}
            made = Generated.model_validate(event)
            told = dropped_line(made, {lost["id"]: lost["statement"]})
        lines.append(json.dumps(event))
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert told == (
        "the prompt is too long for the image model: 15 of 90 tokens are not read, "
        f"and with them 1 fact: {lost['statement']}"
    )
    assert told in " ".join(check(write_page(run)).text)
    console = Console(file=io.StringIO(), width=400)
    show = Lines(console)
    for stored in read_events(file):
        show(stored)
    assert console.file.getvalue().count(told) == 1  # type: ignore[attr-defined]
    shorter = made.model_copy(update={"tokens_dropped": 0})
    assert "it leaves out 1 fact" in dropped_line(shorter, {})
    assert dropped_line(shorter.model_copy(update={"facts_dropped": ()}), {}) == ""


def test_the_failure_stands_in_the_hero(tmp_path: Path) -> None:
    write_sample(tmp_path, rounds=1)
    view = read_run(tmp_path)
    card = view.card("loop")
    assert card is not None
    yes = sum(verdict.state == "yes" for verdict in card.verdicts)
    missing = missing_graph(view.scene, view.facts, card.verdicts)
    assert 0 < yes < 16
    alone = outcome_line(card, view.scene, view.facts)
    assert alone == f"{yes} of 16. Missing: {scene_words(missing)}"
    report = view.card("report")
    assert report is not None
    line = outcome_line(card, view.scene, view.facts, report)
    page = render_run(view)
    hero = page.partition("<header")[2].partition("</header>")[0]
    assert hero.count(str(escape(line))) == 1
    assert page.count(str(escape(line))) == 1
    # The one figure of the hero is that of the report's judges.
    assert re.findall(r"\d\.\d\d", re.sub(r"<[^>]+>|data:\S+", "", hero)) == [
        f"{report.sgscore:.2f}"
    ]
    closed = re.findall(r'<details class="chapter"[^>]*>', page)
    assert len(closed) == 5
    assert not any(" open" in tag for tag in closed)


def test_facts_that_could_not_be_judged_are_not_called_missing(tmp_path: Path) -> None:
    hard = "a:dog.1:size"
    write_sample(tmp_path, rounds=3, hard=hard)
    view = read_run(tmp_path)
    line = outcome_line(view.card("loop"), view.scene, view.facts)
    assert line == "15 of 16 facts hold, 1 not judged"
    assert outcome_line(None, view.scene, view.facts) == "Not judged yet"


def test_a_sentence_is_the_title_and_what_was_not_read_is_underlined(run: Path) -> None:
    said = "A ball & a table,\n furtively lit. Ein Hund."
    log = run / "events.jsonl"
    first, *rest = log.read_text(encoding="utf-8").splitlines(keepends=True)
    started = json.loads(first)
    unread = tuple(
        Passage(start=start, end=start + len(words), text=words, reason=reason)
        for words, reason in (("furtively", "not understood"), ("Ein Hund", "not English"))
        if (start := said.index(words)) > 0
    )
    scene = SceneGraph.model_validate(started["scene"]).said_as(
        Intent(sentence=said, unread=unread)
    )
    told = started | {"scene": scene.model_dump(mode="json")}
    log.write_text(json.dumps(told) + "\n" + "".join(rest), encoding="utf-8")
    page = render_run(read_run(run))
    assert "<title>A ball &amp; a table, furtively lit. Ein Hund. · scenewright</title>" in page
    heading = page.partition("<h1")[2].partition(">")[2].partition("</h1>")[0]
    assert heading == (
        'A ball &amp; a table,\n <u class="unread" title="not understood">furtively</u> lit. '
        '<u class="unread" title="not English">Ein Hund</u>.'
    )
    assert "Underlined: “furtively” (not understood), “Ein Hund” (not English)." in page
    assert 'data-download="a-ball-a-table-furtively-lit-ein-hund"' in page
    # What is cut off is not underlined.
    passages = [
        Passage(start=1, end=3, text="bc", reason="x"),
        Passage(start=4, end=6, text="ef", reason="y"),
    ]
    assert marked("abcdef", passages, 4) == (
        ("a", ""),
        ("bc", "x"),
        ("…", ""),
    )


def test_the_kept_picture_is_inlined_as_large_as_it_is(tmp_path: Path) -> None:
    def draw(scene: SceneGraph, round: int, purpose: str) -> Image.Image:
        return Image.new("RGB", (1100, 800), "teal")

    write_sample(tmp_path, rounds=1, draw=draw)
    page = write_page(tmp_path).read_text(encoding="utf-8")
    found = re.findall(r"data:image/webp;base64,([^\"]+)", page)
    sizes = [Image.open(io.BytesIO(base64.b64decode(data))).size for data in found]
    assert sizes == [(1100, 800), (512, 372)]


def test_commands_of_a_message_are_found() -> None:
    message = (
        "the profile 'x' needs models:\n  a  b\nGet them with `scenewright models pull x` (9 GB).\n"
        "need the extra `local`: pip install 'scenewright[local]'; `dog` is no command, and "
        "`scenewright models pull x` is told once"
    )
    assert commands_in(message) == (
        "scenewright models pull x",
        "pip install 'scenewright[local]'",
    )
    assert commands_in("the judges could not judge") == ()


@pytest.mark.parametrize(
    ("title", "stem"),
    [
        ("A red ball is on a table.", "a-red-ball-is-on-a-table"),
        ("Café, über alles!", "cafe-uber-alles"),
        ("../../etc/passwd", "etc-passwd"),
        ("猫", "scene"),
        ("x" * 99, "x" * 60),
    ],
)
def test_files_are_named_after_the_title(title: str, stem: str) -> None:
    assert file_stem(title) == stem


def test_a_score_stands_alone_only_where_everything_was_judged() -> None:
    facts = facts_of(loads_scene("red dog"))
    yes = [Verdict(fact_id=fact.id, state="yes", probability=0.9) for fact in facts]
    unknown = [yes[0], Verdict(fact_id=facts[1].id, state="unscored", reason="refused")]
    assert card_score(ScoreCard.of(facts, yes)) == "1.00"
    assert card_score(ScoreCard.of(facts, unknown)) == "1.00, 1 not judged"
    assert card_score(None) == "–"
