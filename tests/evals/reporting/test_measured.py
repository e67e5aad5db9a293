"""Reports whose figures are in tables: looking figures up, and the page and Markdown of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scenewright.evals.reporting.measured import (
    DATA,
    MeasuredReport,
    MeasuredTable,
    write_report,
)
from scenewright.evals.statistics.answers import PlainAnswer
from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.statistics.figures import Figure

FIGURE = Figure(value=-0.25, low=-0.5, high=0.125, n=4)


@pytest.fixture
def report() -> MeasuredReport:
    rows = (
        {"rater": "Ann | Bea", "kappa": FIGURE, "same_again": 3, "median_seconds": 1.5},
        {"rater": "<b>", "kappa": Figure(value=None), "same_again": 0, "median_seconds": None},
    )
    return MeasuredReport(
        about="two raters",
        answers=(PlainAnswer(verdict="measured", sentence="They differ."),),
        tables={
            "raters": MeasuredTable(title="Raters", rows=rows, digits=2),
            "none": MeasuredTable(title="Nothing", rows=()),
        },
        seed=0,
    )


def test_figures_are_found_by_table_row_and_column(report: MeasuredReport) -> None:
    assert report.figure("raters", "Ann | Bea", "kappa") == Estimate(**FIGURE.model_dump())
    assert report.cell("raters", "<b>", "same_again") == 0
    assert [one.value for one in report.tables["raters"].figures("kappa")] == [-0.25, None]
    with pytest.raises(TypeError, match="same_again is not a figure"):
        report.figure("raters", "<b>", "same_again")
    with pytest.raises(KeyError):
        report.cell("raters", "Cid", "kappa")


def test_tables_without_rows_are_left_out_and_the_rest_can_be_read_back(
    report: MeasuredReport,
) -> None:
    assert [*report.tables] == ["raters"]
    text = report.model_dump_json()
    assert MeasuredReport.model_validate_json(text) == report
    assert json.loads(text)["tables"]["raters"]["rows"][0]["kappa"]["high"] == 0.125


def test_columns_are_those_of_the_rows(report: MeasuredReport) -> None:
    found = report.tables["raters"]
    assert found.head == "rater"
    assert [column.title for column in found.columns.values()] == ["κ", "same again", "median s"]
    assert [column.digits for column in found.columns.values()] == [2, 2, 2]


def test_markdown_and_page_escape_what_people_write(report: MeasuredReport, tmp_path: Path) -> None:
    said = report.document("Kind", "Report", "Of two.").markdown()
    assert said.startswith("# Report\n\n**They differ.**\n\nOf two.")
    assert "| Ann \\| Bea | −0.25 [−0.50, 0.12] | 3 | 1.50 |" in said

    def put(path: Path, text: str) -> Path:
        path.write_text(text, encoding="utf-8")
        return path

    page = write_report(report, tmp_path, (), put, kind="K", title="T", about="A.")
    text = page.read_text("utf-8")
    assert "&lt;b&gt;" in text
    assert '<th scope="row"><b>' not in text
    assert "Nothing" not in text
    assert MeasuredReport.model_validate_json((tmp_path / DATA).read_text("utf-8")) == report
