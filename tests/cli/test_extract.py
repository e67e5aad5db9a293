"""``scenewright extract``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from scenewright.cli.main import app
from scenewright.core.formats import load_scene, load_scenes
from scenewright.core.ports.vision import (
    Detection,
    DetectionError,
    Dropped,
    Extraction,
    ExtractionError,
    Unread,
)
from scenewright.core.scene import SceneGraph
from scenewright.runs.model_factory import extractors
from tests.isomorphism import isomorphic

SCENE = load_scene("red ball on table; dog left of table", format="triplets")
FOUND = Extraction(
    SCENE,
    {
        "ball.1": Detection("ball", (4, 4, 16, 16), 0.91),
        "table.1": Detection("table", (4, 16, 30, 30), 0.8),
    },
    {"o:ball.1": 0.91, "a:ball.1:color": 0.7, "r:ball.1|on|table.1": 0.66},
    (Dropped("dog.1 on table.1", "relations", "score 0.20 < 0.4"),),
)


class Scripted:
    """Sees the same in every picture but one of size 1."""

    id = "scripted"
    fingerprint = "scripted-1"

    def __init__(self) -> None:
        self.found = FOUND
        self.closed = False
        self.asked: dict[str, Any] = {}
        self.missing: Exception | None = None

    def extractor_of(self, spec: str, **given: Any) -> Scripted:
        self.asked = {"spec": spec, **given}
        if self.missing is not None:
            raise self.missing
        return self

    async def extract(self, image: Image.Image) -> Extraction:
        if image.size == (1, 1):
            raise ExtractionError("the model says nothing")
        return self.found

    async def aclose(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def extractor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Scripted:
    made = Scripted()
    monkeypatch.setattr(extractors, "extractor_of", made.extractor_of)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCENEWRIGHT_DEBUG", "0")
    Image.new("RGB", (40, 32), (200, 200, 200)).save("one.png")
    Image.new("RGB", (40, 32), (100, 100, 100)).save("two.png")
    Image.new("RGB", (1, 1)).save("bad.png")
    return made


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["extract", *arguments])


def test_the_graph_is_a_table_with_what_was_left_out(extractor: Scripted) -> None:
    done = call("one.png")
    assert done.exit_code == 0, done.output
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "ball.1 4 4 16 16 91% color: red 70%" in lines
    assert "dog.1" in lines
    assert "ball.1 on table.1 66%" in lines
    assert "dog.1 on table.1 relations score 0.20 < 0.4" in lines
    assert "3 objects, 1 attribute, 2 relations; 1 left out" in lines
    assert extractor.closed
    assert extractor.asked == {"spec": "miniature", "detector": None, "labels": None}


def test_options_reach_the_extractor(extractor: Scripted) -> None:
    call("one.png", "-e", "two-stage:a:b", "-d", "json:x.json", "--labels", "dog, hot dog")
    assert extractor.asked == {
        "spec": "two-stage:a:b",
        "detector": "json:x.json",
        "labels": ("dog", "hot dog"),
    }


def test_the_scene_is_written_in_any_format() -> None:
    assert call("one.png", "--out", "seen.json").exit_code == 0
    assert load_scene(Path("seen.json")) == SCENE
    assert call("one.png", "--out", "seen.txt", "--to", "triplets").exit_code == 0
    assert isomorphic(load_scene(Path("seen.txt"), format="triplets"), SCENE)
    assert call("one.png", "two.png", "--out", "all.json", "--to", "json").exit_code == 0
    assert load_scenes(Path("all.json")) == [SCENE, SCENE]


def test_a_file_that_cannot_be_written_is_told_before_any_picture_is_read(
    extractor: Scripted,
) -> None:
    done = call("one.png", "--out", "nowhere/seen.json")
    assert done.exit_code == 2
    assert "nowhere/seen.json cannot be written: there is no folder nowhere" in done.stderr
    assert not extractor.asked


def test_several_pictures_are_json_lines_and_one_that_fails_is_told() -> None:
    done = call("one.png", "bad.png", "two.png", "--out", "seen.jsonl")
    assert done.exit_code == 3
    assert "bad.png: the model says nothing" in done.stderr
    assert "two.png 3/3" in done.stderr
    rows = [json.loads(line) for line in Path("seen.jsonl").read_text("utf-8").splitlines()]
    assert [row["image"] for row in rows] == ["one.png", "two.png"]
    assert SceneGraph.model_validate(rows[0]["scene"]) == SCENE
    assert rows[0]["things"]["ball.1"] == {"name": "ball", "box": [4, 4, 16, 16], "score": 0.91}
    assert rows[0]["dropped"][0]["stage"] == "relations"


def test_a_damaged_picture_among_others_loses_none_of_them() -> None:
    whole = Path("two.png").read_bytes()
    Path("cut.png").write_bytes(whole[: len(whole) // 2])
    done = call("one.png", "cut.png", "two.png", "--out", "seen.jsonl")
    assert done.exit_code == 3
    assert "cut.png" in done.stderr
    assert len(Path("seen.jsonl").read_text("utf-8").splitlines()) == 2


def test_json_is_one_record_a_picture_and_nothing_else() -> None:
    done = call("one.png", "two.png", "--json", "--quiet")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["image"] for row in rows] == ["one.png", "two.png"]
    assert rows[0]["confidence"]["r:ball.1|on|table.1"] == 0.66
    assert done.stderr == ""


def test_what_a_model_failed_on_is_shown_as_unknown(extractor: Scripted) -> None:
    unread = (Unread("attributes", "HTTP 503", ("dog.1",), ("color",)), Unread("relations", "no"))
    extractor.found = Extraction(SCENE, unread=unread)
    done = call("one.png", "--out", "seen.json")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "color dog.1 HTTP 503" in lines
    assert "relations no" in lines
    assert "3 objects, 1 attribute, 2 relations; 0 left out; 2 unknown" in lines
    assert "lacks what is unknown of one.png: color of dog.1: HTTP 503" in done.stderr
    (row,) = map(json.loads, call("one.png", "--json", "--quiet").stdout.splitlines())
    assert row["unread"] == [
        {"part": "attributes", "reason": "HTTP 503", "objects": ["dog.1"], "words": ["color"]},
        {"part": "relations", "reason": "no", "objects": [], "words": []},
    ]


def test_the_picture_shows_boxes_and_relations() -> None:
    assert call("one.png", "--show", "seen.png").exit_code == 0
    shown = Image.open("seen.png").convert("RGB")
    assert shown.width == 16 * 40
    assert len(shown.getcolors(99999) or []) > 3
    assert call("one.png", "two.png", "--show", "shown").exit_code == 0
    assert sorted(path.name for path in Path("shown").iterdir()) == ["one.png", "two.png"]
    done = call("one.png", "--show", "missing/seen.png")
    assert done.exit_code == 2
    assert "cannot be written" in done.stderr


def test_nothing_seen_is_said(extractor: Scripted) -> None:
    extractor.found = Extraction(SceneGraph())
    done = call("one.png")
    assert done.exit_code == 0
    assert "nothing was seen" in done.stdout
    assert call("one.png", "--out", "seen.json").exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("missing.png",), 2, "there is no file missing.png"),
        (("one.png", "--to", "json"), 2, "add --out FILE"),
        (("one.png", "--out", "x", "--to", "xml"), 2, "unknown format 'xml'"),
        (("one.png", "--labels", ","), 2, "names no class"),
        (("bad.png",), 3, "the model says nothing"),
        (("one.png", "--out", "no/seen.json"), 2, "cannot be written"),
    ],
)
def test_errors_are_one_line_with_a_remedy(
    arguments: tuple[str, ...], code: int, told: str
) -> None:
    done = call(*arguments)
    assert done.exit_code == code, done.output
    assert told in done.stderr
    assert "Traceback" not in done.output


def test_a_model_that_is_not_there_could_not_run(extractor: Scripted) -> None:
    extractor.missing = DetectionError("the segmenter is not there: install the package anew")
    done = call("one.png")
    assert done.exit_code == 3
    assert "install the package anew" in done.stderr


def test_the_help_teaches_by_examples() -> None:
    done = call("--help")
    assert "scenewright extract photo.jpg" in done.stdout
    assert "two-stage:openai:gpt-6-luna" in done.stdout
