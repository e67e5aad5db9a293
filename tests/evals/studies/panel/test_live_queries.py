"""Judges asked again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scenewright.agents.judges.replay import ReplayJudge
from scenewright.core.images import ImageError
from scenewright.evals.judge_reports.labelled_facts import LabelledFact, Picture
from scenewright.evals.studies.panel.live_queries import (
    PLAIN_FORM,
    answer_records,
    query_judges,
    sample_of,
)
from scenewright.evals.studies.panel.table import PanelStudyError
from tests.evals.studies.panel.lookers import Looker, context_of, sees, shades

FACTS = shades(6)


def told(name: str = "a", usd: float = 0.0) -> Looker:
    return Looker(name, lambda image, fact: sees(fact), usd=usd)


async def test_answers_stand_in_their_form_row_and_column(tmp_path: Path) -> None:
    judges = [told(), Looker("b", lambda image, fact: None)]
    context = context_of(FACTS, judges, tmp_path)
    sample = sample_of(context, 40)
    done: list[tuple[int, int]] = []
    context = replace(context, told=lambda now, total: done.append((now, total)))
    forms = {PLAIN_FORM: FACTS, "some": [FACTS[0], *[None] * (len(FACTS) - 1)]}
    found = await query_judges(context, sample, forms, 1.0)
    np.testing.assert_allclose(found[PLAIN_FORM].said[:, 0], [0.9, 0.1] * 6)
    np.testing.assert_array_equal(found[PLAIN_FORM].votes[:, 0], [1.0, 0.0] * 6)
    assert np.isnan(found[PLAIN_FORM].said[:, 1]).all()
    assert found["some"].put.tolist() == [1.0] + [0.0] * 11
    assert found["some"].said[0, 0] == 0.9
    assert np.isnan(found["some"].said[1:]).all()
    assert done[-1] == (26, 26)
    records = answer_records(sample.table, found)
    assert len(records) == 26
    assert {r["probability"] for r in records if r["judge"] == "looker:b"} == {None}


async def test_no_sheet_holds_two_forms(tmp_path: Path) -> None:
    judge = told()
    context = context_of(FACTS, [judge], tmp_path)
    other = [
        replace(of, fact=of.fact.model_copy(update={"question": f"Look. {of.fact.question}"}))
        for of in FACTS
    ]
    await query_judges(context, sample_of(context, 40), {PLAIN_FORM: FACTS, "other": other}, 1.0)
    assert all(len({q.startswith("Look.") for q in sheet}) == 1 for sheet in judge.sheets)


async def test_the_same_forms_are_asked_once(tmp_path: Path) -> None:
    judge = told()
    context = context_of(FACTS, [judge], tmp_path)
    sample = sample_of(context, 40)
    first = await query_judges(context, sample, {PLAIN_FORM: FACTS}, 1.0)
    calls = len(judge.sheets)
    again = await query_judges(context, sample, {PLAIN_FORM: FACTS}, 1.0)
    assert len(judge.sheets) == calls
    np.testing.assert_array_equal(first[PLAIN_FORM].said, again[PLAIN_FORM].said)


def test_pictures_are_drawn_by_the_seed(tmp_path: Path) -> None:
    picked = []
    for seed in (1, 1, 2, 3):
        sample = sample_of(context_of(FACTS, [told()], tmp_path, seed=seed), 3)
        picked.append([image.id for image in sample.table.images])
    assert picked[0] == picked[1]
    assert any(other != picked[0] for other in picked[2:])
    sample = sample_of(context_of(FACTS, [told()], tmp_path), 3)
    assert [of.picture.name for of in sample.facts[::2]] == [i.id for i in sample.table.images]
    assert "3 of 6" in sample.notes[0]


async def test_a_plan_above_the_limit_asks_nothing(tmp_path: Path) -> None:
    judge = told(usd=0.1)
    context = context_of(FACTS, [judge], tmp_path, usd=0.1)
    with pytest.raises(PanelStudyError, match=r"1\.20 USD, above limit_usd = 1"):
        await query_judges(context, sample_of(context, 40), {PLAIN_FORM: FACTS}, 1.0)
    assert not judge.sheets


async def test_when_the_limit_is_reached_the_rest_is_unscored(tmp_path: Path) -> None:
    # Dearer than the table says.
    judge = told(usd=0.25)
    context = context_of(FACTS, [judge], tmp_path)
    found = await query_judges(context, sample_of(context, 40), {PLAIN_FORM: FACTS}, 1.0)
    # Two questions a sheet: 1.00 is not above the limit, 1.50 is.
    assert len(judge.sheets) == 3
    assert np.isnan(found[PLAIN_FORM].said).sum() == 6
    assert found[PLAIN_FORM].usd == pytest.approx(1.5)
    # With a higher limit it goes on, and pays for nothing twice.
    await query_judges(context, sample_of(context, 40), {PLAIN_FORM: FACTS}, 10.0)
    assert len(judge.sheets) == 6


async def test_recorded_judges_are_left_out(tmp_path: Path) -> None:
    record_id = "replay:record"
    context = context_of(FACTS, [told()], tmp_path)
    table = context.table.with_judges(
        [0, 0], [context.table.judges[0], replace(context.table.judges[0], id=record_id)]
    )
    assert context.live is not None

    class Named(ReplayJudge):
        @property
        def id(self) -> str:
            return record_id

    record = object.__new__(Named)
    both = replace(
        context, table=table, live=replace(context.live, judges=(*context.live.judges, record))
    )
    sample = sample_of(both, 40)
    assert sample.table.judge_ids == ("looker:a",)
    assert record_id in sample.notes[0]
    alone = replace(
        context, table=table.with_judges([1]), live=replace(context.live, judges=(record,))
    )
    with pytest.raises(PanelStudyError, match="answer from records"):
        sample_of(alone, 40)


def test_judges_that_do_not_fit_the_table_are_refused(tmp_path: Path) -> None:
    context = context_of(FACTS, [told()], tmp_path)
    assert context.live is not None
    with pytest.raises(PanelStudyError, match="not those of the table"):
        sample_of(replace(context, live=replace(context.live, facts=())), 40)
    with pytest.raises(PanelStudyError, match="asked again"):
        sample_of(replace(context, live=None), 40)


async def test_a_picture_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    def broken() -> Image.Image:
        raise ImageError("there is no picture here")

    facts = [LabelledFact(Picture("gone", broken), FACTS[0].fact, True)]
    context = context_of(facts, [told()], tmp_path)
    with pytest.raises(PanelStudyError, match="no picture here"):
        await query_judges(context, sample_of(context, 40), {PLAIN_FORM: facts}, 1.0)
