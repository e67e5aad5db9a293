"""The whole building of a set: consensus, stages, files, and a second run that pays nothing."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from PIL import ExifTags, Image

from scenewright.core.formats import load_scenes
from scenewright.core.images import load_image, upright_size
from scenewright.evals.annotation.graph_sets import read_graphs
from scenewright.evals.annotation.panel_queries import Voter
from scenewright.evals.annotation.pipeline import Building
from scenewright.evals.errors import AnnotationError
from tests.agents.replying import ReplyingChat
from tests.evals.annotation.building import (
    Photos,
    built,
    calls_of,
    config_of,
    lines_of,
    text_model,
    voter,
)

ON = ("dog.1", "on", "ball.1")
LEFT = ("person.1", "left of", "dog.1")
RIGHT = ("dog.1", "right of", "person.1")
HOLDING = ("person.1", "holding", "ball.1")


def panel() -> list[Voter]:
    return [
        voter("a:1", lambda ids: [LEFT, ON]),
        voter("b:2", lambda ids: [RIGHT, HOLDING]),
        voter("c:3", lambda ids: [("dog.1", "on top of", "ball.1")]),
    ]


def triples(line: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {(r["source"], r["relation"], r["target"]) for r in line["relationships"]}


async def test_a_majority_makes_the_graph_and_the_rest_is_kept(tmp_path: Path) -> None:
    photos = Photos(tmp_path / "photos", 4, people=lambda at: at % 2)
    text = text_model({"on top of": "on"})
    made = await built(tmp_path / "set", photos, panel(), text)
    assert made.photos == {"kept": 2, "fewer than 3 objects": 2}
    assert (made.graphs, made.problems, made.synonyms) == (2, [], {"on top of": "on"})
    for line in lines_of(tmp_path / "set" / "graphs.jsonl"):
        [(s, p, t)] = triples(line) - {ON}
        assert (s, p, t) in (LEFT, RIGHT)
        assert line["objects"][2] == "ball.1:[44, 30, 64, 40]", "clipped to the photo"
        assert (line["level 1"], line["level 2"]) == ("Non-People-Centric", "Nature")
        both = next(r for r in line["relationships"] if r["relation"] == "on")
        assert (both["votes"], both["of"], both["by"]) == (2, 3, ["a:1", "c:3"])
    votes = pq.read_table(tmp_path / "set" / "votes.parquet").to_pylist()
    assert len(votes) == 2 * 3
    lost = [v for v in votes if not v["kept"]]
    assert {(v["relation"], v["votes"], v["share"]) for v in lost} == {("holding", 1, 1 / 3)}
    assert ["dog.1 on ball.1", "dog.1 on top of ball.1"] in [v["said"] for v in votes]
    instances = json.loads((tmp_path / "set" / "attributes.json").read_text())["instances"]
    assert instances["dog"] == ["red dog", "blue dog", "old dog"]
    manifest = json.loads((tmp_path / "set" / "manifest.json").read_text())
    assert set(manifest["panel"]) == {"a:1", "b:2", "c:3"}
    assert {"parse_image_boxes", "merge_synonyms", "classify_diversity"} <= set(manifest["prompts"])
    assert manifest["versions"]["scenewright"]
    parts = {p: lines_of(tmp_path / "set" / f"{p}.jsonl") for p in ("train", "val", "test")}
    assert sum(map(len, parts.values())) == 2
    assert {p: len(lines) for p, lines in parts.items() if lines} == made.parts


async def test_what_is_written_can_be_read_again(tmp_path: Path) -> None:
    photos = Photos(tmp_path / "photos", 3)
    await built(tmp_path / "set", photos, panel(), text_model({"on top of": "on"}))
    graphs = list(read_graphs(tmp_path / "set"))
    assert [graph.id for graph in graphs] == ["photo 0", "photo 1", "photo 2"]
    assert graphs[0].boxes["dog.1"] == (22, 20, 40, 40)
    assert sorted(graphs[0].scores) == pytest.approx([2 / 3, 2 / 3])
    assert graphs[0].votes == ("2 of 3", "2 of 3")
    entries = lines_of(tmp_path / "set" / "graphs.jsonl")
    assert load_scenes(json.dumps(entries), "megasg") == [graph.scene for graph in graphs]


async def test_a_second_run_asks_nothing_and_another_threshold_costs_nothing(
    tmp_path: Path,
) -> None:
    photos, text, voters = Photos(tmp_path / "photos", 3), text_model(), panel()
    first = await built(tmp_path / "set", photos, voters, text)
    asked = [calls_of(model) for model in (*voters, text)]
    again = await built(tmp_path / "set", photos, voters, text)
    assert [calls_of(model) for model in (*voters, text)] == asked
    assert again.statistics == first.statistics
    wide = await built(tmp_path / "set", photos, voters, None, threshold=0.0)
    assert [calls_of(model) for model in voters] == asked[:3]
    assert wide.statistics["relations"] > first.statistics["relations"]


async def test_an_edited_mapping_is_used_and_never_overwritten(tmp_path: Path) -> None:
    photos, voters = Photos(tmp_path / "photos", 2), panel()
    await built(tmp_path / "set", photos, voters, text_model())
    file = tmp_path / "set" / "synonyms.json"
    found = json.loads(file.read_text())
    assert found["mapping"] == {}
    file.write_text(json.dumps({**found, "mapping": {"on top of": "on"}}))
    made = await built(tmp_path / "set", photos, voters, text_model())
    assert made.synonyms == {"on top of": "on"}
    assert json.loads(file.read_text())["mapping"] == {"on top of": "on"}
    file.write_text(json.dumps({"mapping": {"on": "on top of", "on top of": "on"}}))
    with pytest.raises(AnnotationError, match="circle"):
        await built(tmp_path / "set", photos, voters, text_model())
    assert json.loads(file.read_text())["mapping"]["on"] == "on top of"


async def test_failures_leave_the_panel_and_are_retried_alone(tmp_path: Path) -> None:
    photos = Photos(tmp_path / "photos", 3)
    lines = {"dead": True}
    voters = [
        voter("a:1", lambda ids: [ON]),
        voter("b:2", lambda ids: [HOLDING], failing=lambda call: lines["dead"]),
    ]
    made = await built(tmp_path / "set", photos, voters, None)
    assert made.problems == [("photo", "b:2", "ConnectionError: the line is dead", 3)]
    assert [r["of"] for line in lines_of(tmp_path / "set" / "graphs.jsonl")
            for r in line["relationships"]] == [1, 1, 1]  # fmt: skip
    poor = await built(tmp_path / "set", photos, voters, None, quorum=2)
    assert (poor.graphs, poor.below_quorum) == (0, 3)
    assert [calls_of(v) for v in voters] == [3, 3], "without retry nothing is asked again"
    lines["dead"] = False
    mended = await built(tmp_path / "set", photos, voters, None, retry=True, threshold=0.0)
    assert [calls_of(v) for v in voters] == [3, 6]
    assert mended.problems == []
    assert mended.statistics["votes"] == {"1 of 2": 6}


_DYING = """
import asyncio, os, sys
from pathlib import Path
from tests.evals.annotation.building import Photos, built, voter

folder = Path(sys.argv[1])
told = []

def seen(ids):
    told.append(1)
    if len(told) == 4:
        os._exit(9)
    return [("dog.1", "on", "ball.1")]

one = voter("a:1", seen)
asyncio.run(built(folder / "set", Photos(folder / "photos", 6), [one], None, concurrency=1))
"""


async def test_a_kill_repeats_nothing_that_was_answered(tmp_path: Path) -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _DYING, str(tmp_path), cwd=Path(__file__).parents[3]
    )
    assert await child.wait() == 9
    before = {at: (tmp_path / "photos" / f"{at}.png").stat().st_mtime_ns for at in range(6)}
    photos = Photos(tmp_path / "photos", 6)
    for at, stamp in before.items():
        os.utime(tmp_path / "photos" / f"{at}.png", ns=(stamp, stamp))
    one = voter("a:1", lambda ids: [ON])
    made = await built(tmp_path / "set", photos, [one], None, concurrency=1)
    assert made.graphs == 6
    assert calls_of(one) == 3, "three were answered before the kill, the fourth was lost with it"


async def test_a_model_that_never_answers_ends_the_work(tmp_path: Path) -> None:
    photos = Photos(tmp_path / "photos", 40)
    dead = voter("a:1", lambda ids: [ON], failing=lambda call: True)
    with pytest.raises(AnnotationError, match=r"a:1 failed 20 times and never answered.*dead"):
        await built(tmp_path / "set", photos, [dead], None, concurrency=2)
    assert calls_of(dead) < 25


async def test_rare_predicates_and_empty_graphs_are_dropped(tmp_path: Path) -> None:
    photos = Photos(tmp_path / "photos", 5)
    count = iter(range(100))
    one = voter("a:1", lambda ids: [ON, HOLDING] if next(count) < 4 else [LEFT])
    made = await built(tmp_path / "set", photos, [one], None, rare=2, concurrency=1)
    assert made.dropped == {"left of": 1}
    assert made.graphs == 4
    assert made.statistics["predicates"] == 2


async def test_a_test_part_is_drawn_by_levels(tmp_path: Path) -> None:
    photos = Photos(tmp_path / "photos", 12)
    count = iter(range(100))
    many = [("dog.1", f"near {n}", "ball.1") for n in range(3)]
    more = [("person.1", p, "dog.1") for p in ("a", "b", "c")]
    one = voter("a:1", lambda ids: many if next(count) % 2 else [*many, *more])
    splits = {"train": 1, "val": 0, "test_counts": {"simple": 2, "medium": 3, "hard": 4}}
    made = await built(tmp_path / "set", photos, [one], None, splits=splits, concurrency=1)
    assert made.parts == {"train": 7, "test": 5}
    levels = [line["level"] for line in lines_of(tmp_path / "set" / "test.jsonl")]
    assert (levels.count("simple"), levels.count("medium")) == (2, 3)


async def test_photos_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    photos = Photos(tmp_path / "photos", 4)
    (tmp_path / "photos" / "1.png").write_bytes(b"no picture")
    (tmp_path / "photos" / "2.png").unlink()
    made = await built(tmp_path / "set", photos, [voter("a:1", lambda ids: [ON])], None)
    assert made.photos == {"kept": 2, "photo cannot be read": 2}
    assert made.graphs == 2


async def test_several_samples_are_several_votes(tmp_path: Path) -> None:
    photos = Photos(tmp_path / "photos", 1)
    count = iter(range(100))
    one = voter("a:1", lambda ids: [ON] if next(count) else [ON, HOLDING])
    made = await built(tmp_path / "set", photos, [one], None, samples=3)
    assert calls_of(one) == 3
    assert made.statistics["votes"] == {"3 of 3": 1}
    [line] = lines_of(tmp_path / "set" / "graphs.jsonl")
    assert line["relationships"][0]["by"] == ["a:1#1", "a:1#2", "a:1#3"]


async def test_unclassified_scenes_stay(tmp_path: Path) -> None:
    photos = Photos(tmp_path / "photos", 3)
    text = text_model(classes=lambda id_: ("Non-People Centric", "Zoo" if "1" in id_ else "Nature"))
    made = await built(tmp_path / "set", photos, [voter("a:1", lambda ids: [ON])], text)
    lines = {line["image_id"]: line for line in lines_of(tmp_path / "set" / "graphs.jsonl")}
    assert "Zoo" in lines["photo 1"]["unclassified"]
    assert lines["photo 0"]["level 2"] == "Nature"
    assert made.statistics["classes"]["unclassified"] == 1


def test_the_plan_counts_before_anything_is_asked(tmp_path: Path) -> None:
    photos, voters, text = Photos(tmp_path / "photos", 5), panel(), text_model()
    config = config_of(*(v.name for v in voters), samples=2)
    building = Building(config, photos, tmp_path / "set", voters, text)
    try:
        plan = building.plan()
    finally:
        building.close()
    assert [calls_of(v) for v in voters] == [0, 0, 0]
    lines = {(line.who, line.what): line.most for line in plan.costs.lines}
    asked = lines["a:1", "annotates"]
    assert asked.calls == 10
    assert asked.usage.tokens_in > 10 * 258
    assert plan.costs.usd == pytest.approx(3 * asked.usage.tokens_in / 1e6)
    assert lines["test:writer", "classes"].calls == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"panel": ()}, "panel"),
        ({"panel": ("a:b", "a:b")}, "twice"),
        ({"consensus": "judges"}, "needs judges"),
        ({"judges": ("local:x",)}, 'consensus = "judges" alone'),
        ({"quorum": 2}, "more than"),
        ({"threshold": 1.0}, "threshold"),
        ({"converses": {"left of": "right of"}}, "give 'right of'"),
        ({"splits": {"train": 0, "val": 0, "test": 0}}, "all 0"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_cannot_be_configured_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config_of(*changes.pop("panel", ("a:b",)), **changes)


async def test_a_reply_of_rubbish_costs_that_reply_alone(tmp_path: Path) -> None:
    photos = Photos(tmp_path / "photos", 2)
    good = voter("a:1", lambda ids: [ON])
    strange = voter("b:2", lambda ids: [("unicorn.9", "on", "dog.1")])
    made = await built(tmp_path / "set", photos, [good, strange], None)
    [(kind, model, reason, count)] = made.problems
    assert (kind, model, count) == ("photo", "b:2", 2)
    assert "unicorn.9" in reason
    assert made.graphs == 2
    chat = strange.parser.chat
    assert isinstance(chat, ReplyingChat)
    assert len(chat.sent) == 4, "each was told once what is wrong"


async def test_boxes_of_a_turned_photo_are_those_of_the_upright_one(tmp_path: Path) -> None:
    photos = Photos(tmp_path / "photos", 2)
    for at, orientation in enumerate((1, 6)):
        file = tmp_path / "photos" / f"{at}.png"
        upright = Image.open(file).convert("RGB")
        exif = Image.Exif()
        exif[ExifTags.Base.Orientation] = orientation
        stored = upright if orientation == 1 else upright.transpose(Image.Transpose.ROTATE_90)
        stored.save(file, exif=exif)
        assert upright_size(file) == load_image(file).size == (64, 48)
    made = await built(tmp_path / "set", photos, panel(), text_model())
    assert made.photos == {"kept": 2}
    first, second = lines_of(tmp_path / "set" / "graphs.jsonl")
    assert first["objects"] == second["objects"]
