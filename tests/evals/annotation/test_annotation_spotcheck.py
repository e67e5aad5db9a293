"""The page for people, sets that are read from disk, and what answers say."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest

from scenewright.evals.annotation.graph_sets import BuiltGraph, graph_of, read_graphs
from scenewright.evals.annotation.quality import read_answers, sample, spot_check, write_page
from scenewright.evals.errors import AnnotationError
from tests.doubles import painted
from tests.headless import CHROMIUM, OPTIONS

ENTRY = {
    "image_id": "<p>&7",
    "objects": ["dog.1:[10, 20, 60, 70]", "</script>ball.1:[70, 20, 90, 40]"],
    "relationships": [
        {"source": "dog.1", "target": "</script>ball.1", "relation": "left of", "score": 0.5,
         "votes": 1, "of": 2},
    ],
}  # fmt: skip


def graphs(folder: Path, n: int = 1) -> list[BuiltGraph]:
    found = []
    for at in range(n):
        photo = folder / f"{at}.png"
        painted((100, 80), (200, 180, 40)).save(photo)
        entry = {**ENTRY, "image_id": f"{ENTRY['image_id']}{at}", "photo": str(photo)}
        found.append(graph_of(entry, "test"))
    return found


def test_a_sample_is_random_and_repeatable() -> None:
    many = [graph_of({**ENTRY, "image_id": str(n)}, "") for n in range(40)]
    ids = [graph.id for graph in sample(many, 10, seed=1)]
    assert len(set(ids)) == 10
    assert ids == [graph.id for graph in sample(iter(many), 10, seed=1)]
    assert ids != [graph.id for graph in sample(many, 10, seed=2)]
    assert len(sample(many[:3], 10)) == 3
    empty = graph_of({**ENTRY, "relationships": []}, "")
    assert sample([empty], 5) == []


def test_every_graph_is_as_likely() -> None:
    many = [graph_of({**ENTRY, "image_id": str(n)}, "") for n in range(8)]
    counts = dict.fromkeys(map(str, range(8)), 0)
    for seed in range(400):
        for graph in sample(many, 2, seed):
            counts[graph.id] += 1
    assert min(counts.values()) > 60
    assert max(counts.values()) < 140


def test_a_page_holds_photos_and_relations_and_ends_no_script(tmp_path: Path) -> None:
    page = write_page(graphs(tmp_path, 2), tmp_path / "page", "my set")
    assert (page.photos, page.relations, page.lost) == (2, 2, ())
    text = page.path.read_text(encoding="utf-8")
    assert text.count("</script>") == 1
    assert len(list((tmp_path / "page" / "photos").iterdir())) == 2


def test_photos_that_are_gone_are_left_out_and_named(tmp_path: Path) -> None:
    found = graphs(tmp_path, 2)
    (tmp_path / "1.png").unlink()
    page = write_page(found, tmp_path / "page", "set")
    assert page.photos == 1
    assert len(page.lost) == 1
    (tmp_path / "0.png").unlink()
    with pytest.raises(AnnotationError, match="nothing to check"):
        write_page(found, tmp_path / "page", "set")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_the_page_answers_and_exports_in_a_browser(tmp_path: Path) -> None:
    page = write_page(graphs(tmp_path, 2), tmp_path / "page", "set")
    script = """<script>
      const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", {key}));
      const shown = () => document.querySelector("#relations small")?.textContent ?? "hidden";
      const votes = [shown()];
      document.querySelector("#relations button.no").click();
      votes.push(shown());
      press("y");
      votes.push(shown());
      press("n"); press("ArrowLeft");
      votes.push(shown());
      press("n"); press("u");
      const out = document.createElement("pre");
      out.id = "told";
      out.textContent = [as_csv(), as_json(), $("progress").textContent, votes].join("|");
      document.body.append(out);
    </script></body>"""
    text = page.path.read_text(encoding="utf-8").replace("</body>", script)
    probe = page.path.with_name("probe.html")
    probe.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [str(CHROMIUM), *OPTIONS, "--dump-dom", "--virtual-time-budget=2000", probe.as_uri()],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    told = done.stdout.split('<pre id="told">')[1].split("</pre>")[0]
    for mark, sign in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        told = told.replace(mark, sign)
    csv, as_json, progress, votes = told.split("|")
    assert progress == "2 of 2 relations answered"
    # Before an answer, and until it is left, nothing of the judges is shown.
    assert votes == "hidden,hidden,hidden,votes 1 of 2"
    (tmp_path / "answers.csv").write_text(csv, encoding="utf-8", newline="")
    (tmp_path / "answers.json").write_text(as_json, encoding="utf-8")
    rows = read_answers(tmp_path / "answers.csv")
    assert rows == read_answers(tmp_path / "answers.json")
    assert [(row["image_id"], row["answer"], row["first"]) for row in rows] == [
        ("<p>&70", "no", "yes"),
        ("<p>&71", "unsure", "no"),
    ]
    assert rows[0]["target"] == "</script>ball.1"
    checked = spot_check(rows)
    assert (checked.precision.value, checked.unsure, checked.changed) == (0.5, 0, 2)


def test_precision_has_an_interval_over_photos() -> None:
    rng = random.Random(5)
    rows = [
        {"image_id": str(n // 4), "source": "a", "relation": "on", "target": "b",
         "answer": "yes" if rng.random() < 0.8 else "no", "rater": ""}
        for n in range(200)
    ]  # fmt: skip
    rows.append({**rows[0], "answer": "unsure"})
    found = spot_check(rows)
    right = sum(row["answer"] == "yes" for row in rows)
    assert (found.photos, found.answers, found.unsure) == (50, 200, 1)
    assert found.precision.value == right / 200
    assert found.precision.low is not None
    assert found.precision.high is not None
    assert found.precision.low < right / 200 < found.precision.high
    assert found.predicates == {"on": (right, 200)}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "image_id,source\n1,2\n", "answer 1 lacks"),
        ("a.csv", "image_id,source,relation,target,answer\n1,a,on,b,maybe\n", "'maybe'"),
        ("a.csv", "", "no answers"),
        (
            "a.csv",
            "image_id,source,relation,target,answer,first\n1,a,on,b,yes,maybe\n",
            "first 'maybe'",
        ),
        ("a.json", "{", "not valid JSON"),
        ("a.json", '{"answers": 3}', "export them"),
    ],
)
def test_answers_that_cannot_be_read_say_why(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(AnnotationError, match=message):
        read_answers(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "entry 0 is not a JSON object"),
        ('{"objects": ["dog.1"]}', "no image_id"),
        ('{"image_id": "1"}', "the scene is empty"),
        (f"{json.dumps(ENTRY)}\n{json.dumps(ENTRY)}", "twice"),
        (f'{json.dumps(ENTRY)}\n{{"image', r"line 2 \(byte \d+\): the text ends too early"),
        ('{"image_id": "1", "relationships": [{"source": "a.1"}]}', r"relationships\[0\]"),
        (
            '{"image_id": "1", "relationships": [{"source": "a.1", "target": "b.1", '
            '"relation": "on", "score": 7}]}',
            "score is 7",
        ),
    ],
)
def test_sets_that_cannot_be_read_say_where(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "set.json"
    file.write_text(text)
    with pytest.raises(AnnotationError, match=message):
        list(read_graphs(file))


def test_a_list_and_lines_are_the_same_set(tmp_path: Path) -> None:
    entries = [{**ENTRY, "image_id": n} for n in range(3)]
    (tmp_path / "a.json").write_text(json.dumps(entries, indent=1))
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, entries)) + "\n\n")
    assert list(read_graphs(tmp_path / "a.json")) == list(read_graphs(tmp_path / "b.jsonl"))
