"""``report`` and ``compare`` as commands: what they print, write, and refuse."""

from __future__ import annotations

import csv
import html
import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from scenewright.cli.console import Exit
from scenewright.cli.main import app
from tests.evals.reporting.made import Made, write_evaluation


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["eval", *(str(each) for each in arguments)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_evaluation(tmp_path / "e", Made(items=20, failing=0.1))


def test_a_report_is_made_and_its_page_named(folder: Path) -> None:
    done = run("report", folder, "--resamples", "200")
    assert done.exit_code == 0, done.output
    page = Path(done.stdout.strip())
    assert page == folder.absolute() / "report" / "index.html"
    assert page.is_file()
    again = run("report", folder, "--resamples", "200", "--json")
    data = json.loads(again.stdout)
    assert (data["page"], data["items"], data["lost"]) == (str(page), 20, 0)
    # One sentence on the page, in the terminal and in JSON.
    sentence = data["answer"]["sentence"]
    assert sentence in done.stderr
    assert html.unescape(page.read_text(encoding="utf-8")).count(sentence) == 1
    compared = json.loads(run("compare", folder, "--resamples", "200", "--json").stdout)
    assert compared["answer"] == data["answer"]
    assert run("report", folder, "--quiet").stderr == ""


def test_the_answer_follows_the_scores(tmp_path: Path) -> None:
    far = write_evaluation(tmp_path / "far", Made(items=60))
    answer = json.loads(run("compare", far, "--resamples", "500", "--json").stdout)["answer"]
    assert answer["verdict"] == "better"
    assert answer["sentence"].startswith(
        "miniature/feedback is better than miniature/composition in SGScore by "
    )
    few = write_evaluation(tmp_path / "few", Made(items=6))
    answer = json.loads(run("compare", few, "--resamples", "500", "--json").stdout)["answer"]
    assert answer["verdict"] == "too little data"
    assert "Too few items" in answer["sentence"]
    one = write_evaluation(tmp_path / "one", Made(items=20, conditions=("feedback",)))
    answer = json.loads(run("report", one, "--resamples", "200", "--json").stdout)["answer"]
    assert answer["sentence"].startswith("miniature/feedback reaches a mean SGScore of 0.")


def test_a_comparison_is_a_table_json_csv_and_a_page(folder: Path, tmp_path: Path) -> None:
    file, table = tmp_path / "c.html", tmp_path / "c.csv"
    arguments = ("compare", folder, "--resamples", "500", "--html", file, "--csv", table)
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    assert "miniature/feedback − miniature/composition" in done.stdout
    assert "left out, picture failed" in done.stdout
    assert "fid" in done.stdout
    data = json.loads(run(*arguments, "--json").stdout)
    first = data["differences"][0]
    assert (first["metric"], first["scope"], first["better"]) == ("sgscore", "", "after")
    assert first["significant"] is True
    with open(table, encoding="utf-8") as opened:
        rows = list(csv.DictReader(opened))
    assert len(rows) == len(data["differences"])
    assert float(rows[0]["p_holm"]) == pytest.approx(first["p_holm"])
    page = html.unescape(file.read_text(encoding="utf-8"))
    assert "miniature/feedback against miniature/composition" in page
    assert page.count(data["answer"]["sentence"]) == 1
    assert data["answer"]["sentence"] in done.stdout
    assert first["answer"]["verdict"] == "better"
    assert "<svg" in page


def test_the_same_seed_gives_the_same_figures(folder: Path) -> None:
    one, two = (run("compare", folder, "--json", "--seed", "3").stdout for _ in range(2))
    assert one == two
    assert run("compare", folder, "--json", "--seed", "4").stdout != one


def test_options_choose_what_is_compared(folder: Path) -> None:
    done = run("compare", folder, "--by", "none", "--metric", "sgscore", "--parts", "--json")
    rows = json.loads(done.stdout)["differences"]
    assert [(row["part"], row["scope"]) for row in rows] == [
        ("", ""), ("objects", ""), ("attributes", ""), ("relations", ""),
    ]  # fmt: skip


def test_what_was_not_measured_alike_is_refused_but_can_be_forced(
    folder: Path, tmp_path: Path
) -> None:
    made = Made(items=20, name="other", judged="2")
    other = write_evaluation(tmp_path / "other", made)
    done = run("compare", folder, other)
    assert done.exit_code == Exit.USAGE
    assert "the judges of the panel report" in done.stderr
    forced = run("compare", folder, other, "--force")
    assert forced.exit_code == 0
    assert "measured differently" in forced.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("compare", "{}:miniature/feedbak"), Exit.USAGE, "use one of miniature/composition"),
        (("compare", "{}:miniature/feedback"), Exit.USAGE, "there is one arm"),
        (("compare", "{}", "--metric", "fid"), Exit.USAGE, "no pairs"),
        (("compare", "{}/photos"), Exit.FAILED, "holds no evaluation"),
        (("report", "{}/photos"), Exit.FAILED, "name the folder that `scenewright eval run`"),
        (("report", "{}", "--out", "{}/photos"), Exit.USAGE, "holds no report"),
    ],
)
def test_wrong_input_is_one_line_with_the_remedy(
    folder: Path, arguments: tuple[str, ...], code: Exit, said: str
) -> None:
    done = run(*(argument.format(folder) for argument in arguments))
    assert done.exit_code == code
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
