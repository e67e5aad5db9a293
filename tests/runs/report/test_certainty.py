"""How sure scores are, in words: intervals, corrected scores, probabilities of mixed kinds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scenewright.cli.run_display import card_lines, result_lines
from scenewright.core.facts import CorrectedScores, ScoreCard, ScoreIntervals
from scenewright.runs.record import RunRecord, read_run
from scenewright.runs.report import words
from scenewright.runs.report.content import page_content
from scenewright.runs.report.render import write_page
from scenewright.runs.scoring import Score
from tests.runs.report.sample import write_sample

SURE = ScoreIntervals(sgscore=(0.614, 0.928))
MENDED = CorrectedScores(sgscore=0.55)


@pytest.fixture
def view(tmp_path: Path) -> RunRecord:
    write_sample(tmp_path / "run")
    return read_run(tmp_path / "run")


def with_card(view: RunRecord, **changes: object) -> RunRecord:
    """The same run whose kept loop card has these fields."""
    assert view.finished is not None
    card = view.finished.loop_card.model_copy(update=changes)
    return replace(view, finished=view.finished.model_copy(update={"loop_card": card}))


def mixed(card: ScoreCard) -> ScoreCard:
    first, *rest = card.verdicts
    verdicts = (first.model_copy(update={"methods": ("logprob", "verbalized")}), *rest)
    return card.model_copy(update={"verdicts": verdicts})


def test_intervals_in_words() -> None:
    assert words.interval((0.614, 0.928)) == "0.61–0.93"
    assert words.interval((0.999, 1.0)) == ""
    assert words.interval(None) == ""


def test_the_page_shows_the_interval_beside_the_score(view: RunRecord) -> None:
    plain = {stat.label: stat.note for stat in page_content(view).stats}
    assert "95%" not in plain["Loop judges"]
    told = page_content(with_card(view, intervals=SURE, corrected=MENDED))
    notes = {stat.label: stat.note for stat in told.stats}
    assert notes["Loop judges"].startswith("95%: 0.61–0.93, ")
    assert "0.55 without the panel's known errors" in notes["Loop judges"]
    assert notes["Report judges"] == plain["Report judges"]
    assert told.notes == ()


def test_the_page_says_that_probabilities_are_mixed(view: RunRecord) -> None:
    assert view.finished is not None
    card = mixed(view.finished.loop_card)
    content = page_content(with_card(view, verdicts=card.verdicts))
    assert any(
        "mixed in these scores: log-probability, verbalized" in note for note in content.notes
    )


def test_a_cell_tells_the_disagreement_of_several_judges(view: RunRecord) -> None:
    content = page_content(view)
    titles = [mark.title for r in content.rounds for mark in r.marks.values()]
    loop = [line for title in titles for line in title.splitlines() if line.startswith("loop pan")]
    assert any("disagreement 0." in line for line in loop)
    assert write_page(view.folder).is_file()


def test_the_terminal_tells_them_too(view: RunRecord) -> None:
    assert view.finished is not None
    lines = dict(result_lines(with_card(view, intervals=SURE)))
    assert "(95%: 0.61–0.93) by the judges of the loop" in lines["score"]
    card = view.finished.loop_card
    found = Score(scene=view.scene, facts=view.facts, loop=card, report=None, answers=())
    assert [label for label, _ in card_lines(found)] == ["result", "score"]
    sure = card.model_copy(update={"intervals": SURE, "corrected": MENDED})
    found = found.model_copy(update={"loop": mixed(sure), "report": card})
    told = card_lines(found)
    assert [label for label, _ in told] == ["result", "score", "", "", "", "note"]
    assert "0.55 corrected for the known errors" in told[2][1]
    assert "log-probability, verbalized" in told[-1][1]
