"""What was said beside the graph on the terminal: lines, warnings, doubts that are asked back."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from scenewright.agents.parsers import rules
from scenewright.agents.parsers.rules import parse_caption
from scenewright.cli.intents import ask_back, intent_lines
from scenewright.cli.main import app
from scenewright.core.intent import Choice, Count, Doubt, Exclusion, Global, Intent, Passage
from scenewright.core.scene import SceneGraph

DOUBTFUL = "two red dogs and a tree"
CLEAR = "a red dog and two trees"
DOUBT = Doubt(
    kind="count",
    start=0,
    end=12,
    text="two red dogs",
    question="two dogs in all, or two trees?",
    choices=(
        Choice(label="two dogs in all", sentence="a tree and two red dogs"),
        Choice(label="two trees", sentence=CLEAR),
    ),
)


class Terminal(io.StringIO):
    """Somebody at a keyboard, with what they type."""

    def isatty(self) -> bool:
        return True


def read(text: str) -> SceneGraph:
    """Read a text; one sentence is doubtful, and so is what is chosen of it."""
    scene = parse_caption(text)
    doubts = {DOUBTFUL: (DOUBT,), CLEAR: (DOUBT,)}.get(text, ())
    return scene.said_as(scene.intent.model_copy(update={"doubts": doubts}))


def names(scene: SceneGraph) -> list[str]:
    return [item.name for item in scene.objects]


@pytest.mark.parametrize(
    ("typed", "sentence", "found"),
    [
        ("\n", DOUBTFUL, ["dog", "dog", "tree"]),
        ("1\n", DOUBTFUL, ["dog", "dog", "tree"]),
        ("9\n2\n", CLEAR, ["dog", "tree", "tree"]),
    ],
)
def test_a_doubt_is_asked_once_and_a_choice_takes_the_place_of_the_sentence(
    typed: str,
    sentence: str,
    found: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    scene = ask_back(read(DOUBTFUL), read)
    # The reader doubts the chosen sentence too: nobody is asked the same again.
    assert (scene.sentence, names(scene), scene.doubts) == (sentence, found, ())
    told = capsys.readouterr()
    assert told.out.strip() == ""
    assert told.err.count("two dogs in all, or two trees?") == 1
    assert "  2  two trees" in told.err


def test_without_a_terminal_the_sentences_to_choose_from_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("2\n"))
    with pytest.raises(typer.Exit) as left:
        ask_back(read(DOUBTFUL), read)
    assert left.value.exit_code == 2
    said = capsys.readouterr().err
    assert "--ask needs a terminal" in said
    assert f"two trees: {CLEAR}" in said
    # Where nothing is doubtful nobody needs to be asked.
    scene = parse_caption("a red dog")
    assert ask_back(scene, read) == scene


def test_a_run_tells_each_doubt_in_a_line_or_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rules, "parse_caption", read)
    done = CliRunner().invoke(app, ["refine", DOUBTFUL, "--plan"])
    assert done.exit_code == 0, done.output
    line = f"'{DOUBT.text}': {DOUBT.question} (read as: two dogs in all)"
    assert f"warning: not sure: {line}" in done.stderr
    assert "`--ask` asks what is meant" in done.stderr
    assert f"doubt     {line}" in done.stdout
    refused = CliRunner().invoke(app, ["refine", DOUBTFUL, "--plan", "--ask"])
    assert refused.exit_code == 2
    assert "--ask needs a terminal" in refused.stderr


def test_parse_shows_what_was_said_beside_the_graph() -> None:
    said = "An oil painting of three dogs, a ball and cats at night, no cars, furtively."
    shown = CliRunner().invoke(app, ["parse", said])
    rows = [line for line in shown.stdout.splitlines() if "  " in line]
    lines = dict(re.split(r"  +", row, maxsplit=1) for row in rows)
    assert lines["medium"] == "oil painting"
    assert lines["time"] == "at night"
    assert lines["without"] == "no cars"
    # Three dogs are three dogs; how many cats there are nobody said.
    assert lines["number"].startswith("cats: more than one")
    assert lines["not asked"] == "furtively: not understood"
    data = json.loads(CliRunner().invoke(app, ["parse", said, "--json"]).stdout)
    assert [one["text"] for one in data["globals"]] == ["oil painting", "at night"]
    assert [one["text"] for one in data["exclusions"]] == ["no cars"]
    assert {one["kind"] for one in data["counts"]} == {"exact", "open"}
    assert (data["texts"], data["doubts"]) == ([], [])
    assert [one["text"] for one in data["unread"]] == ["furtively"]


def test_only_numbers_that_the_objects_do_not_tell_are_lines() -> None:
    scene = parse_caption("three dogs and a ball").graph
    dogs = tuple(item.id for item in scene.objects[:3])

    def lines(count: Count) -> list[tuple[str, str]]:
        return intent_lines(scene.said_as(Intent(sentence="x", counts=(count,))))

    assert lines(Count(objects=dogs, kind="exact", number=3)) == []
    assert lines(Count(objects=dogs, kind="least", number=3)) == [("number", "dogs: at least 3")]
    assert lines(Count(objects=dogs, kind="exact", number=40)) == [
        ("number", "dogs: 40, of which the graph has 3")
    ]
    beside = Intent(
        sentence="x",
        globals=(Global(kind="light", text="golden hour"),),
        exclusions=(Exclusion(name="hat", text="without a hat", of=dogs[0]),),
        texts=("KEEP OFF",),
        unread=(Passage(start=0, end=1, text="x", reason="not understood"),),
    )
    assert intent_lines(scene.said_as(beside)) == [
        ("light", "golden hour"),
        ("without", "without a hat"),
        ("text", '"KEEP OFF"'),
        ("not asked", "x: not understood"),
    ]
