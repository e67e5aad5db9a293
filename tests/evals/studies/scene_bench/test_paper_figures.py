"""The paper's figures as data: they are those of its text."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from scenewright.evals.studies.paper import PaperTable, Printed, models_beside, paper

TEXT = Path(__file__).parents[5] / "shared" / "seeds" / "scene-bench.txt"
BOTH = ("SD v1.5", "SDXL")


def values(table: str, row: str) -> dict[str, float | None]:
    found = paper().named(table)
    (one,) = [r for r in found.rows if r.name == row]
    return dict(zip(found.columns, one.values, strict=True))


@pytest.mark.parametrize(
    ("table", "row", "column", "value"),
    [
        ("table2", "SD v1.5", "fid", 42.8),
        ("table2", "SGDiff", "medium", 66.3),
        ("table2", "Ours (SDXL)", "overall", 74.1),
        ("table3", "SD v1.5", "hard", 44.7),
        ("table3", "SDXL", "overall", 65.6),
        ("table3", "Ours (SDXL)", "hard", 73.1),
        ("table3", "RPG (SDXL)", "clipscore", 20.0),
    ],
)
def test_spot_values(table: str, row: str, column: str, value: float) -> None:
    assert values(table, row)[column] == value


def test_steps_of_table_4_have_their_spread() -> None:
    steps = paper().named("table4").of("feedback", "sgscore", BOTH)
    assert steps == (
        Printed(model="SD v1.5", value=66.95, sd=0.23),
        Printed(model="SDXL", value=77.25, sd=0.21),
    )


def test_gaps_are_none_and_never_numbers() -> None:
    assert values("table2", "SceneGenie")["overall"] is None
    assert values("table2", "SGDiff")["clipscore"] is None
    assert paper().named("table9").of("without", "recall", ("SDXL",)) == ()


@pytest.mark.parametrize("table", ["table2", "table3"])
@pytest.mark.parametrize(
    ("ours", "base", "printed"),
    [
        ("Ours (SD v1.5)", "SD v1.5", {"table2": 24.0, "table3": 14.4}),
        ("Ours (SDXL)", "SDXL", {"table2": 22.1, "table3": 17.5}),
        ("RPG (SDXL)", "SDXL", {"table2": 14.2, "table3": 8.2}),
    ],
)
def test_gains_that_the_paper_prints_follow_from_its_values(
    table: str, ours: str, base: str, printed: dict[str, float]
) -> None:
    above, below = values(table, ours)["overall"], values(table, base)["overall"]
    assert above is not None
    assert below is not None
    assert 100 * (above / below - 1) == pytest.approx(printed[table], abs=0.1)


def test_sgscore_is_the_mean_of_the_recalls_as_printed() -> None:
    for name in ("table4", "table7"):
        table = paper().named(name)
        for row in table.rows:
            objects, relations, score = (value or math.nan for value in row.values)
            assert (objects + relations) / 2 == pytest.approx(score, abs=0.011), row.name


def test_gains_between_conditions() -> None:
    table = paper().named("table7")
    (gain,) = table.gains("lambda1_0", "composition", "sgscore", BOTH)
    assert gain == Printed(model="SD v1.5", value=-1.77)


def test_a_profile_stands_beside_its_own_model() -> None:
    assert models_beside("sdxl") == ("SDXL",)
    assert models_beside("miniature") == BOTH


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="2 columns"):
        PaperTable.model_validate(
            {
                "id": "t",
                "number": "Table 0",
                "title": "t",
                "set": "s",
                "columns": ["a", "b"],
                "rows": [{"model": "M", "values": [1.0]}],
            }
        )


@pytest.mark.skipif(not TEXT.exists(), reason="the paper's text is not on this machine")
def test_every_number_of_the_model_tables_stands_in_the_paper() -> None:
    lines = TEXT.read_text(encoding="utf-8").splitlines()
    for name in ("table2", "table3"):
        table = paper().named(name)
        for row in table.rows:
            numbers = [f"{v:.1f}" for v in row.values if v is not None]
            start = row.name.split(" (")[0].replace("PixArt-α", "PixArt-")
            fitting = [
                line
                for line in lines
                if line.startswith(start) and row.resolution in line and _in_order(numbers, line)
            ]
            assert fitting, f"{table.number}: {row.name}"


def _in_order(numbers: list[str], line: str) -> bool:
    found = re.findall(r"(?<![\d.+])\d+\.\d(?!\d)(?!%)", line)
    return found[-len(numbers) :] == numbers
