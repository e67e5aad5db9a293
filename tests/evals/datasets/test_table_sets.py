"""Tables of items: every kind of file, round trips, cells that are wrong, memory."""

from __future__ import annotations

import csv
import gzip
import json
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scenewright.core.facts import Fact
from scenewright.core.formats import dump_scene, load_scene
from scenewright.core.ports.vision import Detection
from scenewright.core.questions import facts_of
from scenewright.core.scene import SceneGraph
from scenewright.evals.datasets import tables
from scenewright.evals.datasets.base import DatasetError, Item
from scenewright.evals.datasets.tables import row_of, write_items
from tests.evals.datasets.published import check_set, photo
from tests.strategies import scenes

SCENE = load_scene("red ball on table; dog left of table")
ROWS: list[dict[str, Any]] = [
    {"id": "a", "prompt": "a dog, a ball", "scene": dump_scene(SCENE), "group": "Arts"},
    {"id": "b", "prompt": 'two\n"cats"', "scene": None, "group": None},
    {"id": "c", "prompt": None, "scene": "cat under umbrella", "group": "Arts"},
]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """``rows`` as a table of the kind that the name says."""
    kind = tables.suffix_of(path)
    if kind == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=2)
        return path
    if kind in (".jsonl", ".ndjson"):
        text = "".join(json.dumps(row) + "\n" for row in rows)
    else:
        import io

        out = io.StringIO()
        writer = csv.DictWriter(out, list(rows[0]), delimiter="\t" if kind == ".tsv" else ",")
        writer.writeheader()
        writer.writerows(rows)
        text = out.getvalue()
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("kind", ["parquet", "csv", "tsv", "jsonl", "ndjson", "csv.gz", "jsonl.gz"])
def test_every_kind_of_file_gives_the_same_items(tmp_path: Path, kind: str) -> None:
    file = write(tmp_path / f"t.{kind}", ROWS)

    def change() -> None:
        write(file, [*ROWS, {**ROWS[0], "id": "d"}])

    first, second, third = check_set(lambda: tables.load_table(file), change)
    assert (first.id, first.prompt, first.group) == ("a", "a dog, a ball", "Arts")
    assert first.scene == SCENE
    assert second.prompt == 'two\n"cats"'
    assert second.scene is None
    assert third.prompt == ""
    assert third.scene is not None
    assert [o.name for o in third.scene.objects] == ["cat", "umbrella"]


def test_a_folder_of_parts_is_one_table(tmp_path: Path) -> None:
    write(tmp_path / "part-0.parquet", ROWS[:1])
    write(tmp_path / "part-1.parquet", ROWS[1:])
    (tmp_path / "README.md").write_text("about")
    assert [item.id for item in tables.load_table(tmp_path)] == ["a", "b", "c"]
    write(tmp_path / "more.csv", ROWS)
    with pytest.raises(DatasetError, match=r"several kinds \(.csv, .parquet\)"):
        tables.load_table(tmp_path)


def test_columns_of_other_names_are_mapped_and_rows_get_ids(tmp_path: Path) -> None:
    file = write(tmp_path / "t.csv", [{"caption": "a red ball", "n": 3}, {"caption": "x", "n": 4}])
    found = list(
        tables.load_table(file, columns={"prompt": "caption", "category": "n"}, parse="rules")
    )
    assert [(i.id, i.prompt, i.category) for i in found] == [
        ("row-000001", "a red ball", "3"),
        ("row-000002", "x", "4"),
    ]
    assert found[0].scene is not None
    with pytest.raises(DatasetError, match=r"no column prompt, scene, image \(it has caption, n\)"):
        list(tables.load_table(file))
    with pytest.raises(DatasetError, match="no column 'text': it has caption, n"):
        list(tables.load_table(file, columns={"prompt": "text"}))
    with pytest.raises(DatasetError, match="option columns names 'promt'"):
        tables.load_table(file, columns={"promt": "caption"})


def test_scenes_may_be_nested_columns_of_any_format(tmp_path: Path) -> None:
    graphs = [
        {"objects": ["dog.1", "cat.1"], "relationships": [_relation("dog.1", "cat.1")]},
        {"objects": ["dog.1", "ball.1"], "relationships": [_relation("dog.1", "ball.1")]},
    ]
    file = write(tmp_path / "t.parquet", [{"scene": graph} for graph in graphs])
    found = list(tables.load_table(file))
    assert [str(r) for i in found if i.scene for r in i.scene.relations] == [
        "dog.1 near cat.1",
        "dog.1 near ball.1",
    ]


def _relation(source: str, target: str) -> dict[str, str]:
    return {"source": source, "target": target, "relation": "near"}


def test_images_begin_at_the_table_and_lost_ones_are_noted(tmp_path: Path) -> None:
    picture = photo(tmp_path / "pictures" / "a.png")
    rows = [
        {"id": "a", "prompt": "x", "image": "pictures/a.png"},
        {"id": "b", "prompt": "x", "image": "pictures/b.png"},
    ]
    here, lost = tables.load_table(write(tmp_path / "t.jsonl", rows))
    assert here.image == str(picture)
    assert (lost.image, lost.meta) == (None, {"no_image": "pictures/b.png"})
    alone = write(tmp_path / "u.jsonl", [{"id": "b", "image": "pictures/b.png"}])
    with pytest.raises(DatasetError, match=r"line 1: there is no image pictures/b\.png"):
        list(tables.load_table(alone))


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"prompt": ["a"]}, "line 2: prompt holds list: use text"),
        ({"prompt": "x", "scene": {"objects": 3}}, r"line 2: scene: objects"),
        ({"prompt": "x", "scene": "{"}, "line 2: scene:"),
        ({"prompt": "x", "scene": 3}, "line 2: scene holds int"),
        ({"prompt": "x", "meta": [1]}, "line 2: meta must be an object"),
        ({"prompt": "x", "facts": "[{"}, "line 2, facts is not valid JSON"),
        ({"prompt": "x", "facts": [{"id": "f"}]}, r"line 2: facts.0.kind: is required"),
        ({"group": "x"}, "line 2: the item 'row-000002' has neither scene, prompt nor image"),
        ({"id": "a", "prompt": "again"}, "the id 'a' is given twice"),
        ({"prompt": "x", "detections": [{"name": "dog"}]}, r"line 2: detections.0"),
    ],
)
def test_cells_that_are_wrong_name_their_place(
    tmp_path: Path, row: dict[str, Any], told: str
) -> None:
    file = write(tmp_path / "t.jsonl", [{"id": "a", "prompt": "a ball"}, row])
    items = iter(tables.load_table(file))
    assert next(items).id == "a"
    with pytest.raises(DatasetError, match=told):
        next(items)


def test_files_that_are_no_tables_are_told(tmp_path: Path) -> None:
    text = write(tmp_path / "t.jsonl", ROWS).rename(tmp_path / "t.md")
    with pytest.raises(DatasetError, match=r"its name must end in \.parquet, \.csv"):
        tables.load_table(text)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetError, match="holds no table"):
        tables.load_table(tmp_path / "empty")
    (tmp_path / "t.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(DatasetError, match=r"t.parquet is not a parquet file"):
        list(tables.load_table(tmp_path / "t.parquet"))
    (tmp_path / "t.csv").write_text("id,prompt,id\n1,a,2\n")
    with pytest.raises(DatasetError, match="the column 'id' twice"):
        list(tables.load_table(tmp_path / "t.csv"))
    (tmp_path / "u.csv").write_text("")
    with pytest.raises(DatasetError, match=r"u\.csv is empty"):
        list(tables.load_table(tmp_path / "u.csv"))


def whole_items() -> st.SearchStrategy[Item]:
    text = st.text(st.characters(codec="utf-8"), max_size=12)
    facts = scenes(max_objects=3).map(lambda scene: facts_of(scene))
    sides = st.floats(-1e6, 1e6, allow_nan=False)
    boxes = st.builds(Detection, text, st.tuples(sides, sides, sides, sides))
    return st.builds(
        Item,
        id=st.text(st.characters(codec="utf-8"), min_size=1, max_size=12),
        prompt=st.text(st.characters(codec="utf-8"), min_size=1, max_size=30),
        scene=st.one_of(st.none(), scenes(max_objects=4), st.just(SceneGraph())),
        facts=st.one_of(st.just(()), facts),
        detections=st.lists(boxes, max_size=2).map(tuple),
        group=text,
        category=text,
        meta=st.dictionaries(text, text, max_size=3),
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(whole_items(), max_size=5, unique_by=lambda item: item.id))
def test_what_a_sample_writes_is_read_back_equal(tmp_path: Path, items: list[Item]) -> None:
    file = tmp_path / "t.jsonl"
    assert write_items(items, file) == len(items)
    assert list(tables.load_table(file)) == items


def test_an_image_is_found_again_from_anywhere(tmp_path: Path) -> None:
    picture = photo(tmp_path / "a.png")
    item = Item(id="a", image=str(picture), detections=(Detection("dog", (0, 1, 2.5, 3)),))
    file = tmp_path / "else" / "t.jsonl"
    file.parent.mkdir()
    write_items([item], file)
    assert list(tables.load_table(file)) == [item]


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    write_items([Item(id="a", prompt="x")], file)
    before = file.read_bytes()

    def broken() -> Any:
        yield Item(id="b", prompt="x")
        raise DatasetError("line 9 is not valid JSON")

    with pytest.raises(DatasetError, match="line 9"):
        write_items(broken(), file)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(DatasetError, match="cannot be written"):
        write_items([], tmp_path / "no" / "t.jsonl")


def test_facts_keep_everything_that_is_not_a_default() -> None:
    fact = Fact(
        id="f",
        kind="object",
        subject="dog.1",
        statement="dog",
        question="Which?",
        options=("dog", "cat"),
        expected="dog",
        parents=("g",),
    )
    row: Mapping[str, Any] = row_of(Item(id="a", prompt="x", facts=(fact,)))
    assert Fact.model_validate(json.loads(json.dumps(row["facts"]))[0]) == fact


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_memory_does_not_grow_with_the_table(tmp_path: Path, kind: str) -> None:
    def peak(n: int) -> int:
        file = tmp_path / f"t{n}.{kind}"
        write(file, [{"id": str(i), "prompt": f"ball {i} " * 20} for i in range(n)])
        tracemalloc.start()
        try:
            assert sum(1 for _ in tables.load_table(file)) == n
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(300)
    # Ids are remembered, at about 100 bytes each; the prompts alone are 170 bytes.
    assert peak(4000) - peak(500) < 3500 * 140 + 300_000


def test_a_list_of_prompts_is_a_set(tmp_path: Path) -> None:
    file = tmp_path / "prompts.TXT"
    file.write_text("a red dog\r\n\r\n two cats, one red \r\n", encoding="utf-8")
    items = list(tables.load_table(file, parse="rules"))
    assert [item.prompt for item in items] == ["a red dog", "two cats, one red"]
    assert items[0].scene is not None
