"""Items whose prompt was not read surely: counted, told, and never scored as zero."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scenewright.agents.parsers import rules
from scenewright.cli.main import app
from scenewright.core.facts import Fact
from scenewright.core.formats import load_scene
from scenewright.core.intent import Choice, Doubt, Intent
from scenewright.core.questions import facts_of
from scenewright.core.scene import SceneError, SceneGraph
from scenewright.evals.datasets.base import DOUBTFUL, NO_SCENE, REFUSED, Item
from scenewright.evals.datasets.reading import said_of
from scenewright.evals.metrics.base import MetricScore, Sample
from scenewright.evals.metrics.picture_scores import SGScore
from scenewright.evals.reporting.readings import Readings
from scenewright.evals.reporting.report import answer_of, build_report
from scenewright.evals.runner.estimating import estimate
from scenewright.evals.runner.runner import run_eval
from tests.doubles import CallBook
from tests.evals.eval_sets import ListedSet, config, scripted

DOUBT = Doubt(
    kind="count",
    start=0,
    end=8,
    text="two dogs",
    question="two dogs in all, or two of each?",
    choices=(
        Choice(label="two in all", sentence="two dogs in all near a ball"),
        Choice(label="two of each", sentence="two dogs near each ball"),
    ),
)


def read(sentence: str, triplets: str, *doubts: Doubt) -> SceneGraph:
    """A scene as a parser reads it of a sentence."""
    return load_scene(triplets).said_as(Intent(sentence=sentence, doubts=doubts))


@pytest.fixture
def prompts(monkeypatch: pytest.MonkeyPatch) -> list[Item]:
    """Six items: four sure ones, one that could be read in another way, and one refused."""
    read_as = {
        "a cat": read("a cat", "cat"),
        "a red ball on a table": read("a red ball on a table", "red ball on table"),
        "a house": read("a house", "house"),
        "two dogs near a ball": read("two dogs near a ball", "two dogs near ball", DOUBT),
    }

    def parsed(text: str) -> SceneGraph:
        if text not in read_as:
            raise SceneError("it is not English: use another language's parser")
        return read_as[text]

    monkeypatch.setattr(rules, "parse_caption", parsed)
    texts = [*read_as, "eine Katze"]
    items = [Item(id=f"p{at}", **said_of(text, "rules")) for at, text in enumerate(texts)]
    return [*items, Item(id="graph", scene=load_scene("boat left of car"))]


def states(rows: list[dict[str, object]], panel: str = "report") -> Mapping[object, object]:
    """Item → the reason of its missing score, or None."""
    found = {}
    for row in rows:
        if not row["part"] and row["item"]:
            assert row["panel"] == panel
            assert (row["value"] is None) == bool(row["reason"])
            found[row["item"]] = row["reason"] or None
    return found


def test_a_prompt_tells_its_doubts_and_a_graph_has_none(prompts: list[Item]) -> None:
    doubtful, refused, given = prompts[3:]
    assert doubtful.meta["doubts"] == str(DOUBT)
    assert "two dogs in all, or two of each?" in doubtful.meta["doubts"]
    assert [item.reading_problem for item in prompts] == ["", "", "", DOUBTFUL, REFUSED, ""]
    assert "not English" in refused.meta[NO_SCENE]
    assert not given.meta


async def test_doubtful_and_refused_items_are_unscored_with_their_reason(
    prompts: list[Item], tmp_path: Path
) -> None:
    book = CallBook()
    found = await run_eval(
        config(), tmp_path / "e", given=scripted(book), dataset=ListedSet(prompts)
    )
    reasons = states(found.rows("scores"))
    expected = [None, None, None, DOUBTFUL, REFUSED, None]
    assert reasons == dict(zip((item.id for item in prompts), expected, strict=True))
    assert {row["item"] for row in found.rows("rounds")} == {"p0", "p1", "p2", "graph"}
    assert not any(row["state"] == "failed" for row in found.rows("rounds"))
    rows = {row["item"]: row for row in found.rows("items")}
    assert (rows["p3"]["reading"], rows["p3"]["doubts"]) == (DOUBTFUL, str(DOUBT))
    assert rows["p4"]["reading"] == REFUSED
    assert not rows["p0"]["reading"]
    assert not rows["graph"]["reading"]

    sentence = "Of 6 items: 1 doubtful reading (unscored; --include-doubtful scores them), "
    sentence += "1 refused prompt (unscored)."
    assert Readings.of(found).sentence == sentence
    answer = answer_of(found)
    assert answer is not None
    assert answer.sentence.endswith(sentence)
    assert "over 4 items" in answer.sentence
    page = build_report(found, resamples=50).page.read_text("utf-8")
    assert "Prompts that were not read surely" in page
    assert "Pictures not drawn" not in page


async def test_a_doubtful_item_is_scored_on_demand_in_the_same_folder(
    prompts: list[Item], tmp_path: Path
) -> None:
    book = CallBook()
    await run_eval(config(), tmp_path / "e", given=scripted(book), dataset=ListedSet(prompts))
    drawn = sum(line.startswith("begin generate") for line in book.lines)
    told = config(include_doubtful=True)
    found = await run_eval(told, tmp_path / "e", given=scripted(book), dataset=ListedSet(prompts))
    assert sum(line.startswith("begin generate") for line in book.lines) == drawn + 1
    assert states(found.rows("scores"))["p3"] is None
    assert states(found.rows("scores"))["p4"] == REFUSED
    assert "1 doubtful reading (included)" in Readings.of(found).sentence


class Words:
    """A metric of picture and prompt, which no reading can spoil."""

    name, version, higher_is_better = "words", "1", True
    needs = frozenset({"image", "prompt"})

    async def score(self, sample: Sample) -> MetricScore:
        """Score the length of the prompt."""
        return MetricScore(value=float(len(sample.prompt)))


async def test_what_does_not_rest_on_the_reading_is_scored(
    prompts: list[Item], tmp_path: Path
) -> None:
    given = replace(scripted(), metrics=[SGScore(), Words()])
    found = await run_eval(
        config(conditions=["prompt"], metrics=["sgscore", "clipscore"]),
        tmp_path / "e",
        given=given,
        dataset=ListedSet(prompts[:5]),
    )
    rows = found.rows("scores")
    own = [row for row in rows if row["metric"] == "sgscore"]
    assert (states(own)["p3"], states(own)["p4"]) == (DOUBTFUL, REFUSED)
    words = states([row for row in rows if row["metric"] == "words"], panel="")
    assert words == dict.fromkeys(("p0", "p1", "p2", "p3", "p4"))
    assert {row["item"] for row in found.rows("rounds")} == {f"p{at}" for at in range(5)}


async def test_questions_of_the_set_do_not_rest_on_the_reading(
    prompts: list[Item], tmp_path: Path
) -> None:
    asked: tuple[Fact, ...] = facts_of(load_scene("two dogs near ball"))
    item = prompts[3].model_copy(update={"facts": asked})
    found = await run_eval(
        config(conditions=["prompt"]),
        tmp_path / "e",
        given=scripted(),
        dataset=ListedSet([item]),
    )
    assert states(found.rows("scores")) == {"p3": None}
    assert len(found.rows("verdicts")) == len(asked)


async def test_the_estimate_counts_what_is_drawn(prompts: list[Item], tmp_path: Path) -> None:
    plain = await estimate(config(), given=scripted(), dataset=ListedSet(prompts))
    told = config(include_doubtful=True)
    whole = await estimate(told, given=scripted(), dataset=ListedSet(prompts))
    assert (plain.pictures, whole.pictures) == ((4, 4), (5, 5))
    assert (plain.looks, whole.looks) == ((4, 4), (5, 5))
    assert whole.facts - plain.facts == len(facts_of(load_scene("two dogs near ball")))


def test_the_option_is_one_of_the_command() -> None:
    found = CliRunner().invoke(app, ["eval", "run", "--help"], env={"COLUMNS": "200"})
    assert "--include-doubtful" in found.output
    assert "include_doubtful" not in config().model_dump()
    assert json.loads(config(include_doubtful=True).model_dump_json())["include_doubtful"]
