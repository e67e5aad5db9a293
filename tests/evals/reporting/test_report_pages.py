"""The report's folder: what its pages say, that nothing in it runs, that it appears whole."""

from __future__ import annotations

import csv
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from scenewright.evals.errors import EvalError
from scenewright.evals.reporting import report as report_module
from scenewright.evals.reporting.pages import ChoiceError
from scenewright.evals.reporting.report import Built, build_report
from scenewright.evals.reporting.score_matrix import load_score_matrix
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.store.results import Results
from tests.evals.eval_sets import ListedSet, config, scene_items, scripted
from tests.evals.reporting.made import Made, write_evaluation

HOSTILE = "<script>alert(1)</script>&\"'</style>"


def data(page: Path, kind: str, number: int = 0) -> Any:
    """What a piece of the browser's data hands to the page."""
    text = (page.parent / "data" / f"{kind}-{number}.js").read_text(encoding="utf-8")
    found = re.fullmatch(r'sceneReport\("(\w+)",(\d+),(.*)\);\n', text, re.DOTALL)
    assert found is not None
    assert (found[1], int(found[2])) == (kind, number)
    return json.loads(found[3])


def built(folder: Path, made: Made | None = None, **options: Any) -> Built:
    return build_report(Results(write_evaluation(folder, made)), resamples=200, **options)


class Elements(HTMLParser):
    """All elements of a page with their attributes, and its text."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_first_page_says_what_there_is(tmp_path: Path) -> None:
    page = built(tmp_path, Made(items=20, failing=0.2, unscored=0.1)).page
    text = " ".join(Elements(page).text.split())
    score_matrix = load_score_matrix(Results(tmp_path))
    assert f"{int(score_matrix.failed.sum())} failed" in text
    assert "the backend gave nothing" in text
    assert "no judge answered" in text
    assert "fewer than three objects" in text
    for said in ("miniature/feedback", "sgscore", "local:a", "Gemini 1.5 Flash", "940", "780"):
        assert said in text
    assert "$0.0003" in text
    assert "vqa" in text
    assert "set-1" in text


def test_nothing_lacking_is_said_too(tmp_path: Path) -> None:
    made = Made(items=4, sets=False)
    folder = write_evaluation(tmp_path, made)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"left_out": {}}))
    score_matrix = load_score_matrix(Results(folder))
    page = build_report(Results(folder), resamples=200).page
    says = "Nothing: every picture was drawn" in Elements(page).text
    assert says == (not score_matrix.reasons)


def test_the_means_are_those_of_the_scores(tmp_path: Path) -> None:
    page = built(tmp_path, Made(items=15)).page
    with open(page.parent / "tables" / "scores.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for way in ("composition", "feedback"):
        values = [
            row["value"]
            for row in Results(tmp_path).rows("scores")
            if (row["metric"], row["part"], row["condition"]) == ("sgscore", "", way)
        ]
        line = next(
            row
            for row in rows
            if (row["arm"], row["metric"], row["part"], row["scope"])
            == (f"miniature/{way}", "sgscore", "", "")
        )
        mean = sum(values) / len(values)
        assert float(line["mean"]) == pytest.approx(mean)
        assert float(line["low"]) < mean < float(line["high"])
        assert f"{mean:.3f}" in page.read_text(encoding="utf-8")


def test_names_from_elsewhere_are_text_and_nothing_more(tmp_path: Path) -> None:
    made = Made(items=6, hostile=HOSTILE, failing=0.3, unscored=0.2, conditions=("<u>a", "b$_x$"))
    page = built(tmp_path, made).page
    for name in ("index.html", "items.html"):
        elements = Elements(page.with_name(name))
        assert "u" not in {tag for tag, _ in elements.found}
        scripts = [given for tag, given in elements.found if tag == "script"]
        assert all(
            given.get("src") in ("items-data.js", "items-view.js", "items.js") for given in scripts
        )
        assert not [k for _, given in elements.found for k in given if k.startswith("on")]
        policy = next(given["content"] for tag, given in elements.found
                      if given.get("http-equiv") == "Content-Security-Policy")  # fmt: skip
        assert policy is not None
        assert "default-src 'none'" in policy
        script_policy = policy.partition("script-src")[2].partition(";")[0]
        assert "unsafe" not in script_policy
    assert HOSTILE in Elements(page).text
    assert "alert(1)</script>" not in page.read_text(encoding="utf-8")
    for plot in (page.parent / "plots").glob("*.svg"):
        ElementTree.parse(plot)
    assert any(HOSTILE in entry[0] for entry in data(page, "index"))


def test_tables_lie_behind_one_heading_and_the_date_is_that_of_other_pages(tmp_path: Path) -> None:
    text = built(tmp_path, Made(items=5)).page.read_text(encoding="utf-8")
    assert "2026-11-20 10:00:00 UTC" in text.partition("<h1>")[0]
    scores = text.partition('<h2 id="h-scores">')[2].partition("</section>")[0]
    assert re.findall(r"<h\d>Scores</h\d>", text) == []
    before, _, table = scores.partition("<table")
    assert table
    assert before.count("<details>") - before.count("</details>") == 1


def test_a_spreadsheet_runs_nothing_of_the_tables(tmp_path: Path) -> None:
    page = built(tmp_path, Made(items=5, hostile="", conditions=("=1+1", "b"), failing=0.4)).page
    text = (page.parent / "tables" / "scores.csv").read_text(encoding="utf-8")
    assert "miniature/=1+1" in text
    assert not re.search(r"(?m)(^|,)[=@]", text)


def test_the_browser_has_every_item_with_its_facts(tmp_path: Path) -> None:
    made = Made(items=45, unscored=0.1, failing=0.1, panels={"p": ("a", "b"), "q": ("c",)})
    page = built(tmp_path, made).page
    meta = data(page, "meta")
    assert (meta["items"], meta["indexes"], meta["chunk"]) == (45, 1, 20)
    assert meta["panels"] == ["p", "q"]
    index = data(page, "index")
    details = [entry for n in range(3) for entry in data(page, "chunk", n)]
    assert [entry[0] for entry in index] == [entry["id"] for entry in details]
    verdicts = Results(tmp_path).rows("verdicts")
    answers = Results(tmp_path).rows("answers")
    for n in (0, 19, 20, 44):
        entry = details[n]
        order = {fact[0]: at for at, fact in enumerate(entry["facts"])}
        for row in verdicts:
            if row["item"] == entry["id"]:
                arm = entry["arms"][meta["arms"].index(row["arm"])]
                said = arm["panels"][meta["panels"].index(row["panel"])]["verdicts"]
                assert said[str(order[row["fact"]])][0] == row["state"]
        shown = sum(
            len(of)
            for arm in entry["arms"]
            for panel in arm["panels"]
            for of in panel["answers"].values()
        )
        assert shown == sum(row["item"] == entry["id"] for row in answers)
        assert "<svg" in entry["graph"]


def test_pictures_have_small_copies_that_are_made_once(tmp_path: Path) -> None:
    first = built(tmp_path, Made(items=6))
    thumbs = {file.name: file.stat().st_ino for file in (first.page.parent / "thumbs").iterdir()}
    assert len(thumbs) == 12 + 3
    again = build_report(Results(tmp_path), resamples=200)
    now = {file.name: file.stat().st_ino for file in (again.page.parent / "thumbs").iterdir()}
    assert now == thumbs
    named = {thumb for entry in data(again.page, "index") for thumb in (*entry[7], entry[8])}
    assert {f"{name}.webp" for name in named if name} == set(thumbs)


def test_full_pictures_are_linked_or_copied(tmp_path: Path) -> None:
    linked = built(tmp_path / "e", Made(items=3))
    images = linked.page.parent / data(linked.page, "meta")["images"]
    picture = data(linked.page, "chunk")[0]["arms"][0]["rounds"][0]["image"]
    assert (images / f"{picture}.png").is_file()
    out = tmp_path / "elsewhere" / "report"
    copied = build_report(Results(tmp_path / "e"), out, copy_pictures=True, resamples=200)
    assert data(copied.page, "meta")["images"] == "images"
    assert (out / "images" / f"{picture}.png").is_file()


def test_a_lost_picture_is_counted_and_the_rest_is_shown(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path, Made(items=4))
    pictures = sorted((folder / "images").glob("*.png"))
    pictures[0].unlink()
    pictures[1].write_bytes(b"no picture")
    found = build_report(Results(folder), resamples=200)
    assert found.lost == 2
    assert "2 pictures that the tables name could not be read" in Elements(found.page).text


def test_an_old_report_stays_until_the_new_one_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = built(tmp_path, Made(items=4))
    before = first.page.read_text(encoding="utf-8")

    def broken(*given: Any, **more: Any) -> str:
        raise RuntimeError("killed")

    monkeypatch.setattr(report_module, "render", broken)
    with pytest.raises(RuntimeError, match="killed"):
        build_report(Results(tmp_path), resamples=200)
    assert first.page.read_text(encoding="utf-8") == before
    monkeypatch.undo()
    build_report(Results(tmp_path), resamples=200)
    assert not list(tmp_path.glob(".report*"))


def test_a_folder_that_is_no_report_is_never_replaced(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path / "e", Made(items=2))
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    with pytest.raises(ChoiceError, match="holds no report"):
        build_report(Results(folder), mine)
    with pytest.raises(ChoiceError, match="holds no report"):
        build_report(Results(folder), mine / "thesis.txt")
    assert (mine / "thesis.txt").read_text() == "years of work"
    (tmp_path / "empty").mkdir()
    assert build_report(Results(folder), tmp_path / "empty", resamples=200).items == 2


def test_a_report_is_made_by_one_process_at_a_time(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path, Made(items=2))
    seen: list[str] = []

    def meanwhile(done: int, total: int) -> None:
        if done == 1:
            with pytest.raises(EvalError, match="another process") as error:
                build_report(Results(folder))
            seen.append(str(error.value))

    build_report(Results(folder), resamples=200, progress=meanwhile)
    assert len(seen) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_that_cannot_be_written_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path / "e", Made(items=2))
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    with pytest.raises(EvalError, match="make the folder writable"):
        build_report(Results(folder), locked / "report")


def test_an_evaluation_with_one_arm_or_without_scores_has_a_report(tmp_path: Path) -> None:
    single = built(tmp_path / "a", Made(items=3, conditions=("composition",)))
    assert "Differences between arms" not in Elements(single.page).text
    folder = write_evaluation(tmp_path / "b", Made(items=3))
    for name in ("scores", "verdicts", "answers", "rounds"):
        (folder / f"{name}.parquet").unlink()
    bare = build_report(Results(folder))
    assert bare.items == 3
    (folder / "items.parquet").unlink()
    with pytest.raises(EvalError, match="has no items"):
        build_report(Results(folder))


def test_an_unfinished_evaluation_says_so(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path, Made(items=3))
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["totals"], manifest["left_out"]
    (folder / "manifest.json").write_text(json.dumps(manifest | {"finished": None}))
    page = build_report(Results(folder), resamples=200).page
    assert "The evaluation has not ended" in Elements(page).text


async def test_what_of_prompts_was_not_read_is_a_column_of_the_costs(tmp_path: Path) -> None:
    """Of a model that reads four tokens, and of one that reads all."""
    found: dict[str, list[str]] = {}
    for name, tokens in (("short", 4), ("long", 500)):
        results = await run_eval(
            config(),
            tmp_path / name,
            given=scripted(prompt_tokens=tokens),
            dataset=ListedSet(scene_items()),
        )
        text = build_report(results, resamples=50).page.read_text(encoding="utf-8")
        table = text[text.index("Drawing, for one picture") :].partition("</table>")[0]
        heads, row, *_ = (
            [
                re.sub("<[^>]*>", "", cell).strip()
                for cell in re.findall(r"<t[hd]\b.*?</t[hd]>", line)
            ]
            for line in table.split("<tr")[1:]
        )
        assert heads[-3:] == ["prompts cut", "tokens dropped", "facts dropped"]
        found[name] = [row[heads.index("pictures kept")], *row[-3:]]
    pictures, cut, dropped, facts = map(int, found["short"])
    assert cut == pictures
    assert dropped > cut
    assert facts > 0
    assert found["long"][1:] == ["0", "0", "0"]
