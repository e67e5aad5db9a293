"""``scenewright object-realism score``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from scenewright.cli.app import App
from scenewright.cli.object_realism import score
from scenewright.core.ports.vision import Detection, DetectionError, ObjectRealism, RealismError
from scenewright.runs.model_factory import local_models, realism_scorers
from tests.doubles import painted
from tests.tools.vision.realism.scripted import ScriptedDetector, ScriptedScorer

DOG = Detection("dog", (0, 0, 20, 20), 0.9)
CAT = Detection("cat", (20, 20, 50, 60), 0.8)
FLECK = Detection("cat", (0, 0, 2, 2), 0.8)


def rule(item: Detection) -> ObjectRealism:
    if item.name == "cat":
        return ObjectRealism(2.0, 3.0, 2.5, tokens_in=7, usd=0.25)
    return ObjectRealism(4.0, 5.0, 4.5)


class Bench:
    """The scripted models that the command finds."""

    def __init__(self) -> None:
        self.scorer = ScriptedScorer(rule)
        self.detector = ScriptedDetector((DOG, CAT, FLECK))
        self.specs: list[str] = []

    def scorer_of(self, spec: str) -> ScriptedScorer:
        self.specs.append(spec)
        return self.scorer

    def cached_detector_of(self, spec: str) -> ScriptedDetector:
        self.specs.append(spec)
        return self.detector


@pytest.fixture(autouse=True)
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    monkeypatch.chdir(tmp_path)
    found = Bench()
    monkeypatch.setattr(realism_scorers, "scorer_of", found.scorer_of)
    monkeypatch.setattr(local_models, "cached_detector_of", found.cached_detector_of)
    for shade, name in enumerate(("a.png", "b.png")):
        painted((80, 60), (shade, 0, 0)).save(name)
    return found


def run(*arguments: str) -> Result:
    app = App("Test.")
    app.command()(score)
    return CliRunner().invoke(app, arguments)


def lines(path: str = "out.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_a_table_of_objects_and_the_pictures_realism(bench: Bench) -> None:
    result = run("a.png")
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows[0] == ["object", "box", "shape", "texture", "OcR", "note"]
    assert rows[1] == ["cat", "20", "20", "50", "60", "2.00", "3.00", "2.50"]
    assert rows[2] == ["dog", "0", "0", "20", "20", "4.00", "5.00", "4.50"]
    assert result.stdout.splitlines()[-1] == (
        "realism 3.50 of 5 (shape 3.00, texture 4.00) by the largest 2 objects; 1 left out"
    )
    assert bench.specs == ["olip:miniature/olip-a", "miniature"]


def test_options_reach_the_models(bench: Bench) -> None:
    options = ("--scorer", "olip:x", "-d", "json:y", "--labels", "dog, cat", "--most", "1")
    result = run("a.png", *options)
    assert result.exit_code == 0, result.output
    assert bench.specs == ["olip:x", "json:y"]
    assert bench.detector.looks == [("dog", "cat")]
    assert "realism 2.50 of 5 (shape 2.00, texture 3.00) by the largest 1 object;" in result.stdout
    assert "not among the largest" in result.stdout


def test_scores_as_json_lines() -> None:
    result = run("a.png", "b.png", "--json", "out.jsonl")
    assert result.exit_code == 0, result.output
    assert "b.png 2/2" in result.stderr
    first, second = lines()
    assert (first["image"], second["image"]) == ("a.png", "b.png")
    assert (first["ocr"], first["detected"], first["size"]) == (3.5, 3, [80, 60])
    assert first["objects"][0]["usd"] == 0.25
    assert [one["box"] for one in first["objects"]] == [[20, 20, 50, 60], [0, 0, 20, 20]]
    onto = run("a.png", "--json", "-")
    assert json.loads(onto.stdout)["ocr"] == 3.5


def test_what_the_file_knows_is_not_scored_again(bench: Bench) -> None:
    run("a.png", "--json", "out.jsonl")
    place = Path("out.jsonl")
    with place.open("a") as file:
        file.write('{"image":"b.png","ha')  # killed while it wrote
    again = run("a.png", "b.png", "--json", "out.jsonl")
    assert again.exit_code == 0, again.output
    assert len(bench.scorer.asked) == 2
    assert [line["image"] for line in lines()] == ["a.png", "b.png"]
    assert again.stdout.count("realism 3.50") == 2
    bench.scorer.fingerprint = "another"
    run("a.png", "--json", "out.jsonl")
    run("a.png", "--json", "out.jsonl", "--most", "1")
    assert len(bench.scorer.asked) == 4
    assert len(lines()) == 4


def test_scores_that_failed_are_tried_again(bench: Bench) -> None:
    bench.scorer.rule = lambda item: ObjectRealism(None, None, reason="refused")
    result = run("a.png", "--json", "out.jsonl")
    assert result.exit_code == 0
    assert "no realism: refused" in result.stdout
    bench.scorer.rule = rule
    assert "realism 3.50" in run("a.png", "--json", "out.jsonl").stdout
    assert [line["ocr"] for line in lines()] == [None, 3.5]


def test_nothing_detected_is_no_zero(bench: Bench) -> None:
    bench.detector.found = ()
    result = run("a.png")
    assert result.exit_code == 0
    assert result.stdout == "no realism: no object was detected\n"


def test_a_file_of_something_else_is_left_alone() -> None:
    for text in ("my notes", "my notes\n", '{"image": 1}\n'):
        Path("notes.txt").write_text(text)
        result = run("a.png", "--json", "notes.txt")
        assert result.exit_code == 2
        assert "name another file" in result.stderr
        assert Path("notes.txt").read_text() == text


def test_of_several_pictures_one_may_fail(bench: Bench) -> None:
    result = run("a.png", "nowhere.png", "b.png", "--json", "out.jsonl", "--quiet")
    assert result.exit_code == 3
    assert "nowhere.png: there is no file" in result.stderr
    assert [line["image"] for line in lines()] == ["a.png", "b.png"]


@pytest.mark.parametrize(
    ("failing", "said"),
    [(RealismError("no weights"), "no weights"), (DetectionError("no labels"), "no labels")],
)
def test_models_that_fail_are_told(bench: Bench, failing: Exception, said: str) -> None:
    if isinstance(failing, RealismError):
        bench.scorer.failing = failing
    elif isinstance(failing, DetectionError):
        bench.detector.failing = failing
    result = run("a.png")
    assert result.exit_code == 3
    assert result.stderr.strip() == f"error: {said}"


def test_wrong_input_is_told() -> None:
    assert run("nowhere.png").exit_code == 2
    result = run("a.png", "--labels", " , ")
    assert result.exit_code == 2
    assert "--labels names no class" in result.stderr
