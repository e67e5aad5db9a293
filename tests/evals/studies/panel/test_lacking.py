"""What a table lacks for a study."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scenewright.evals.studies.panel.study import PARTS, part_of, unmet_need
from scenewright.evals.studies.panel.table import AnswerTable, FactRow, ImageRow, JudgeColumn


def table(items: int) -> AnswerTable:
    rng = np.random.default_rng(0)
    return AnswerTable(
        "few",
        (JudgeColumn("a"), JudgeColumn("b")),
        tuple(ImageRow(f"i{at}", f"item {at}", f"model {at % 2}") for at in range(items)),
        tuple(FactRow(f"f{at}", at % items) for at in sorted(range(20), key=lambda k: k % items)),
        rng.random((20, 2)),
        truth=np.arange(20.0) % 2,
    )


@pytest.mark.parametrize("name", PARTS)
def test_one_item_is_too_few_for_an_interval(name: str) -> None:
    assert "two items or more" in unmet_need(part_of(name), table(1), None)


def test_what_is_there_is_not_lacking() -> None:
    assert unmet_need(part_of("composition"), table(4), None) == ""
    assert "asked again" in unmet_need(part_of("images"), table(4), None)
    assert "human ratings" in unmet_need(part_of("people"), table(4), None)
    lone = table(4).with_judges([0])
    assert "two judges" in unmet_need(part_of("composition"), lone, None)
    unknown = replace(table(4), truth=np.full(20, np.nan))
    assert unmet_need(part_of("composition"), unknown, None) == ""
