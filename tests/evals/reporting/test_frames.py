"""Tables, sentences and plots from rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from scenewright.evals.reporting.charts import Chart
from scenewright.evals.reporting.document import Document, Section
from scenewright.evals.reporting.frames import (
    Column,
    Frame,
    across,
    percent,
    percents,
    used,
    values_by_key,
)
from scenewright.evals.reporting.sentences import Sentences, in_words, say, short_names
from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.statistics.figures import Figure

FIGURE = Figure(value=0.123, low=-0.01, high=0.2, n=9)
ROWS = [
    {"voter": "a|b", "share": FIGURE, "n": 12345, "_hidden": 1},
    {"voter": "<c>", "share": (Estimate(reason="it was not asked"), "why"), "n": 1, "p": 0.1234},
    {"voter": "d", "share": float("nan"), "n": 0},
]
FRAME = Frame.of(
    "shares",
    ROWS,
    "Shares & more",
    {"share": percent("share (%)"), "n": "n", "p": Column(title="p", digits=2)},
    head="Voter",
    label="{voter}",
)


def test_a_frame_is_one_table_in_every_form(tmp_path: Path) -> None:
    assert FRAME.markdown().splitlines() == [
        "| Voter | share (%) | n | p |",
        "| --- | ---: | ---: | ---: |",
        "| a\\|b | 12.3 [−1.0, 20.0] | 12,345 | – |",
        "| <c> | – why | 1 | 0.12 |",
        "| d | – | 0 | – |",
    ]
    html = FRAME.html()
    assert "&lt;c&gt;" in html
    assert "Shares &amp; more" in html
    assert '<span class="mean">12.3</span><span class="range">−1.0 to 20.0</span>' in html
    assert FRAME.csv().splitlines()[:2] == [
        "voter,share,share_low,share_high,n,p",
        "a|b,0.123,-0.01,0.2,12345,",
    ]
    FRAME.write_parquet(tmp_path)
    rows = pq.read_table(tmp_path / "shares.parquet").to_pylist()
    assert rows == FRAME.records()
    assert rows[2]["share"] is None


def test_a_kept_page_is_the_same_table() -> None:
    again = Frame.model_validate_json(FRAME.page.model_dump_json())
    assert again.markdown() == FRAME.markdown()
    assert again.html() == FRAME.html()


def test_a_figure_by_the_name_of_its_value() -> None:
    frame = Frame.of("x", [{"gain_value": FIGURE, "value": FIGURE}])
    (row,) = frame.records()
    assert set(row) == {"gain_value", "gain_low", "gain_high", "value", "low", "high"}
    assert Frame.of("x", []).csv() == ""


def test_rows_are_put_across_and_named_for_json() -> None:
    rows = [
        {"of": "a", "by": 1, "x": FIGURE},
        {"of": "a", "by": 2, "x": None},
        {"of": "b", "by": 1, "x": Figure(value=0.5)},
    ]
    assert across(rows, "of", "by_{by}", "x") == [
        {"of": "a", "by_1": FIGURE, "by_2": None},
        {"of": "b", "by_1": Figure(value=0.5)},
    ]
    interval = {"mean": 0.123, "low": -0.01, "high": 0.2}
    assert values_by_key("{of}.{name}", rows, {"x": "y"}) == {"a.y": interval, "b.y": 0.5}
    whole = values_by_key("{of}", rows, ["x"], whole=True)
    assert whole["b"] == {"mean": 0.5, "low": None, "high": None}
    columns = percents({"x": "X", "z": "Z"})
    assert list(used(columns, rows)) == ["x"]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("", "0.123 [−0.010, 0.200]"),
        ("2", "0.12 [−0.01, 0.20]"),
        ("+", "+0.123 [−0.010, +0.200]"),
        ("%", "12.3 % [−1.0, 20.0]"),
        ("%0", "12 % [−1, 20]"),
        ("pt", "+12.3 points [−1.0, +20.0]"),
        ("pts2", "12.30 points [−1.00, 20.00]"),
        ("up|down|neither", "neither"),
    ],
)
def test_figures_in_words(spec: str, text: str) -> None:
    assert in_words(FIGURE, spec) == text


def test_a_direction_is_told_where_the_interval_has_one() -> None:
    for low, high, word in ((0.5, 2.0, "up"), (0.0, 2.0, "–"), (-2.0, -0.1, "down"),
                            (None, None, "–"), (0.0003, 0.1, "–")):  # fmt: skip
        assert in_words(Figure(value=1.0, low=low, high=high), "up|down|–") == word
    assert in_words(Figure(value=1.0, low=0.0003, high=0.1), "4|up|down|–") == "up"
    assert in_words(Figure(value=None), "%") == "–"
    with pytest.raises(ValueError, match="unknown format 'x'"):
        in_words(FIGURE, "x")


def test_sentences_are_told_where_their_values_are() -> None:
    texts = Sentences(
        {
            "gain": "{name} gains {row[x]:+2}.",
            "many": "{n:#judge} of {names:and}, the {n:nth}{sure:, surely|}.",
        }
    )
    rows = [{"n": 1, "names": ["a"]}, {"n": 2, "names": ["a", "b", "c"]}]
    values = {"name": "It", "row": {"x": FIGURE}, "sure": True}
    assert texts(values, gain=True, many=rows) == (
        "It gains +0.12 [−0.01, +0.20].",
        "1 judge of a, the 1st, surely.",
        "2 judges of a, b and c, the 2nd, surely.",
    )
    assert texts({}, gain=False, many=None) == ()
    assert say("{share:%} of {id:short}", {"share": 0.5, "id": "x:y/z"}) == "50 % of z"
    assert short_names(["a:x/one", "b:two"]) == ("one", "two")
    assert short_names(["a:one", "b:one"]) == ("a:one", "b:one")


@pytest.mark.parametrize("kind", ["lines", "bars", "heat"])
def test_a_chart_is_drawn_of_the_columns_of_rows(kind: str) -> None:
    rows = [
        {"x": x, "y": Figure(value=x / 10, low=0.0, high=0.9), "of": of, "pane": pane}
        for x in range(3) for of in "ab" for pane in ("one", "two")
    ] + [{"x": 3, "y": None, "of": "a", "pane": "one"}]  # fmt: skip
    more = {} if kind == "heat" else {"pane": "pane"}
    chart = Chart("c", rows, "x", "y", kind, series="of", title="A title", **more)  # type: ignore[arg-type]
    drawn = chart.draw()
    titles = [axis.get_title() for axis in drawn.axes]
    assert titles[:2] == (["A title", ""] if kind == "heat" else ["one", "two"])


def test_a_page_folds_the_tables_behind_findings() -> None:
    page = Document(
        "Panel study", "mine <b>", "2026-01-01", "It is.", lead="first",
        sections=(
            Section("first", "First", findings=("It is.", "And more."), frames=(FRAME,)),
            Section("second", "Second", frames=(FRAME,), facts={"How": {"seed": 0}}),
        ),
    )  # fmt: skip
    html = page.html()
    assert "mine &lt;b&gt;" in html
    assert html.count("It is.") == 1
    assert html.count("<summary>1 table</summary>") == 1
    text = page.markdown()
    assert text.splitlines()[2] == "**It is.**"
    assert text.count(FRAME.markdown()) == 2
