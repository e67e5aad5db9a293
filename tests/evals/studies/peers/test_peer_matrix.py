"""The table metric × judge × aggregator: what counts, paired differences, agreement with people."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from scenewright.cli.main import app
from scenewright.evals.errors import EvalError
from scenewright.evals.store.results import Results
from scenewright.evals.studies.panel.table import PanelStudyError
from scenewright.evals.studies.peers.matrix import (
    PeerMatrix,
    findings,
    layouts,
    matrix_of,
    peer_scores,
    write,
)
from tests.evals.studies.peers.scored import evaluation

ITEMS = tuple("abcdefgh")
BASE = {item: at / 10 for at, item in enumerate(ITEMS)}


def values(gain: float, seeds: tuple[int, ...] = (0, 1)) -> dict[tuple[str, str, int], float]:
    """The second condition is better by ``gain`` everywhere."""
    return {
        (item, condition, seed): BASE[item] + gain * (condition == "new")
        for item in ITEMS
        for condition in ("old", "new")
        for seed in seeds
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made: dict[tuple[str, str, str], Any] = {
        ("vqascore", "", ""): values(9.0),
        ("vqascore", "", "judge:x"): values(0.2),
        ("vqascore", "", "judge:y"): values(0.0),
        ("vqascore", "", "aggregator:mean"): values(0.1),
        ("geneval", "", ""): values(0.0),
        ("geneval", "", "judge:only"): values(0.0),
        ("geneval", "", "aggregator:mean"): values(0.0),
        ("sgscore", "ab", ""): values(0.05),
        ("clipscore", "", ""): values(1.0),
    }
    return evaluation(tmp_path / "run", made, sets={"fid": {"old": 30.0, "new": 20.0}})


def matrix(folder: Path, ratings: Path | None = None, **options: Any) -> PeerMatrix:
    return matrix_of(peer_scores(Results(folder)), ratings, **options)


def test_voters_stand_for_themselves_and_nothing_twice(folder: Path) -> None:
    found = matrix(folder)
    assert [(line.metric, line.voter) for line in found.lines] == [
        ("vqascore", "judge:x"),
        ("vqascore", "judge:y"),
        ("vqascore", "aggregator:mean"),
        # Of one judge every aggregator is the judge.
        ("geneval", "judge:only"),
        ("sgscore", "panel:ab"),
        ("clipscore", ""),
        ("fid", ""),
    ]
    assert found.arms == ("b/old", "b/new")
    assert found.items == len(ITEMS)


def test_only_kept_pictures_count_and_differences_are_paired(folder: Path) -> None:
    line = matrix(folder).lines[0]
    assert line.means["b/old"].value == pytest.approx(0.35)
    assert (line.means["b/old"].n, line.means["b/old"].seeds) == (8, 2)
    gap = line.differences["b/new"]
    # Items differ far more than the arms do, but each by the same.
    assert (gap.value, gap.low, gap.high) == (pytest.approx(0.2),) * 3
    spread = line.means["b/old"]
    assert spread.low is not None
    assert spread.high is not None
    assert spread.high - spread.low > 0.2


def test_a_set_has_one_score_and_no_interval(folder: Path) -> None:
    line = matrix(folder).lines[-1]
    assert line.of_set
    assert (line.means["b/old"].value, line.means["b/old"].low) == (30.0, None)
    assert line.differences["b/new"].value == -10.0


def test_findings_claim_no_more_than_the_intervals(folder: Path) -> None:
    said = findings(matrix(folder))
    assert said[0] == (
        "vqascore: of 3 voters 2 put b/new above b/old, 0 below, and 1 cannot tell (95 % "
        "intervals); differences are 0.000 to +0.200."
    )
    assert said[1].startswith("geneval: b/new cannot be told apart from b/old")
    assert said[2].startswith("sgscore: b/new is above b/old; the difference is +0.050 ± ")
    assert len(said) == 4


def test_unscored_pictures_are_left_out_not_zero(tmp_path: Path) -> None:
    scored: dict[Any, float | None] = {(i, "old", 0): 0.5 for i in "abc"} | {("d", "old", 0): None}
    line = matrix(evaluation(tmp_path / "run", {("m", "", ""): scored})).lines[0]
    assert (line.means["b/old"].value, line.means["b/old"].n) == (0.5, 3)


def test_two_metrics_of_a_name_are_told_apart_by_version(tmp_path: Path) -> None:
    made = {
        ("m@12345678abcdefgh", "", ""): values(0.0),
        ("m@87654321stuvwxyz", "", ""): values(0.1),
    }
    names = [line.metric for line in matrix(evaluation(tmp_path / "run", made)).lines]
    assert names == ["m (abcdefgh)", "m (stuvwxyz)"]


def rated(path: Path, rows: list[tuple[str, str, float]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("item", "arm", "rating"), *rows])
    return path


def test_agreement_with_people(folder: Path, tmp_path: Path) -> None:
    rows = [
        (item, f"b/{condition}/{seed}", BASE[item])
        for item in ITEMS
        for condition in ("old", "new")
        for seed in (0, 1)
    ]
    found = matrix(folder, rated(tmp_path / "r.csv", rows), resamples=200)
    by = {(line.metric, line.voter): line for line in found.lines}
    same = by["vqascore", "judge:y"].agreement["Spearman"]
    assert (same.value, same.low, same.high) == (pytest.approx(1.0),) * 3
    assert same.n == 32
    less = by["vqascore", "judge:x"].agreement["Kendall"]
    assert less.value is not None
    assert less.low is not None
    assert less.high is not None
    assert less.low < less.value < 1.0
    assert less.low <= less.value <= less.high
    assert not by["fid", ""].agreement
    assert matrix(folder, tmp_path / "r.csv", resamples=200) == found


def test_ratings_of_other_pictures_are_told(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(PanelStudyError, match="none of its 1 rows is of a picture"):
        matrix(folder, rated(tmp_path / "r.csv", [("z", "b/old/0", 1.0)]))


def test_a_folder_without_scores_is_told(tmp_path: Path) -> None:
    with pytest.raises(EvalError, match="holds no scores"):
        matrix(evaluation(tmp_path / "run", {}))


def test_the_files(folder: Path, tmp_path: Path) -> None:
    rows = [(item, f"b/old/{seed}", BASE[item]) for item in ITEMS for seed in (0, 1)]
    found = matrix(folder, rated(tmp_path / "r.csv", rows), resamples=100)
    written = write(found, tmp_path / "out")
    assert sorted(file.name for file in written.files) == [
        "peers-agreement.svg", "peers.csv", "peers.md", "peers.parquet", "peers.svg",
    ]  # fmt: skip
    page = written.page.read_text(encoding="utf-8")
    assert "| vqascore · judge x | 0.350 ± 0.000 [" in page
    assert "![peers-agreement](peers-agreement.svg)" in page
    records = pq.read_table(tmp_path / "out" / "peers.parquet").to_pylist()
    assert records == found.records()
    assert len(layouts(found)) == 3
    svg = (tmp_path / "out" / "peers.svg").read_text(encoding="utf-8")
    assert all(line.metric in svg for line in found.lines)


def test_the_command(folder: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["eval", "peers", str(folder), "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["arms"] == ["b/old", "b/new"]
    assert (folder / "peers.md").is_file()
    assert told["figures"][0]["metric"] == "vqascore"
    shown = CliRunner().invoke(app, ["eval", "peers", str(folder), "--quiet"])
    assert "judge x" in shown.stdout
    lost = CliRunner().invoke(app, ["eval", "peers", str(tmp_path / "nothing")])
    assert lost.exit_code == 3


def test_what_of_an_arms_prompts_was_not_read_stands_beside_its_scores(tmp_path: Path) -> None:
    folder = evaluation(
        tmp_path / "cut", {("clipscore", "", ""): values(1.0)}, dropped={"old": 7, "new": 0}
    )
    table = layouts(matrix(folder))[-1]
    # Sixteen kept pictures an arm; rounds that were not kept do not count.
    assert "| b/old | 16 | 16 | 112 | 16 |" in table.markdown()
    assert "| b/new | 16 | 0 | 0 | 0 |" in table.markdown()
    shown = CliRunner().invoke(app, ["eval", "peers", str(folder), "--resamples", "100"])
    assert "16 (112)" in shown.output
    assert "| b/old | 16 | 16 | 112 | 16 |" in (folder / "peers.md").read_text("utf-8")
    # Where nobody counted, nothing is said.
    unknown = evaluation(tmp_path / "open", {("clipscore", "", ""): values(1.0)})
    assert [table.id for table in layouts(matrix(unknown))] == ["scores", "differences"]
