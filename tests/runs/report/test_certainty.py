"""How sure scores are, in words: intervals, corrected scores, probabilities of mixed kinds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scenewright.cli.run_display import card_lines, result_lines
from scenewright.core.facts import CorrectedScores, ScoreCard, ScoreIntervals, State, Verdict
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
    lines = result_lines(with_card(view, intervals=SURE))
    assert "by judges that the loop never saw" in dict(lines)["score"]
    assert any("(95%: 0.61–0.93) by the judges of the loop" in said for _, said in lines)
    card = view.finished.loop_card
    found = Score(scene=view.scene, facts=view.facts, loop=card, report=None, answers=())
    assert [label for label, _ in card_lines(found)] == ["result", "score"]
    sure = card.model_copy(update={"intervals": SURE, "corrected": MENDED})
    found = found.model_copy(update={"loop": mixed(sure), "report": card})
    told = card_lines(found)
    assert [label for label, _ in told] == ["result", "score", "", "", "", "note"]
    assert any("0.55 corrected for the known errors" in said for _, said in told)
    assert "log-probability, verbalized" in told[-1][1]


@pytest.mark.parametrize(
    ("state", "probability", "rival", "grade", "look"),
    [
        ("yes", 0.99, None, "sure", "yes"),
        ("yes", 0.75, None, "likely", "yes-likely"),
        ("yes", 0.5, None, "hardly", "yes-hardly"),
        ("no", 0.02, None, "sure", "no"),
        ("no", 0.3, None, "likely", "no-likely"),
        ("no", 0.49, None, "hardly", "no-hardly"),
        # A choice is graded against its strongest rival.
        ("yes", 0.45, 0.04, "sure", "yes"),
        ("yes", 0.45, 0.4, "hardly", "yes-hardly"),
        ("yes", None, None, None, "yes"),
        ("void", None, None, None, "void"),
        ("unscored", None, None, None, "unscored"),
    ],
)
def test_a_yes_or_no_has_three_grades(
    state: State, probability: float | None, rival: float | None, grade: str | None, look: str
) -> None:
    verdict = Verdict(fact_id="o:a", state=state, probability=probability, rival_probability=rival)
    assert words.grade_of(verdict) == grade
    assert words.verdict_mark(verdict) == look


def test_the_grades_have_marks_of_their_own_on_the_page_and_in_the_terminal(
    view: RunRecord,
) -> None:
    page = write_page(view.folder).read_text(encoding="utf-8")
    assert words.certainty_line() in page
    for look in ("yes-likely", "yes-hardly", "no-likely", "no-hardly"):
        assert f'id="i-{look}"' in page
        assert f"<span>{words.MEANINGS[look]}</span>" in page
    assert len(set(words.SYMBOLS.values())) == len(words.SYMBOLS)
    assert len(set(words.MEANINGS.values())) == len(words.MEANINGS)
