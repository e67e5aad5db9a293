"""Tables of answers as files: written, read back, and refused with the line."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from scenewright.evals.studies.panel.running import digest_of
from scenewright.evals.studies.panel.sources.tables import (
    COLUMNS,
    load_table,
    read_answers,
    write_table,
)
from scenewright.evals.studies.panel.table import (
    AnswerTable,
    FactRow,
    ImageRow,
    JudgeColumn,
    PanelStudyError,
)

WORDS = st.text(
    alphabet=st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8
).filter(lambda text: text.lower() != "nan")
IDS = st.one_of(WORDS, st.sampled_from(["r:dog.1|left of|ball.1", "[x", "o:red dog.1", "a,b", '"']))
NUMBERS = st.floats(0.0, 1e6, allow_nan=False)


@st.composite
def tables(draw: st.DrawFn) -> AnswerTable:
    """Any table that can be written: shared items, parents, unasked and unscored answers."""
    judges = draw(st.lists(IDS, min_size=1, max_size=3, unique=True))
    names = draw(st.lists(IDS, min_size=1, max_size=4, unique=True))
    images = [
        ImageRow(
            name,
            draw(st.sampled_from(names)),
            draw(st.one_of(st.just(""), WORDS)),
            draw(st.one_of(st.none(), st.integers(0, 9))),
            tuple(draw(st.lists(st.floats(-5, 5), max_size=3))),
        )
        for name in names
    ]
    facts: list[FactRow] = []
    for number in range(len(images)):
        ids = draw(st.lists(IDS, min_size=number == 0, max_size=4, unique=True))
        first = len(facts)
        for at, fact_id in enumerate(ids):
            before = list(range(first, first + at))
            parents = draw(st.lists(st.sampled_from(before), unique=True)) if before else []
            kind = draw(st.sampled_from(["object", "attribute", "relation"]))
            texts = [draw(st.one_of(st.just(""), WORDS)) for _ in range(2)]
            facts.append(FactRow(fact_id, number, kind, *texts, tuple(parents)))
    shape = (len(facts), len(judges))
    chance = draw(arrays.arrays(float, shape, elements=st.floats(0.0, 1.0)))
    state = draw(arrays.arrays(int, shape, elements=st.integers(0, 3)))
    lost = state >= 2
    return AnswerTable(
        name="table",
        judges=tuple(
            JudgeColumn(j, draw(st.one_of(st.just(""), WORDS)), draw(st.sampled_from(["", "f1"])))
            for j in judges
        ),
        images=tuple(images),
        facts=tuple(facts),
        said=np.where(lost, np.nan, chance),
        votes=np.where(lost, np.nan, state),
        asked=state != 3,
        truth=draw(
            arrays.arrays(float, shape[:1], elements=st.sampled_from([0.0, 1.0, float("nan")]))
        ),
        **{
            name: draw(arrays.arrays(float, shape, elements=NUMBERS))
            for name in ("usd", "seconds", "tokens")
        },
    )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(table=tables())
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, table: AnswerTable, ending: str
) -> None:
    file = write_table(table, tmp_path_factory.mktemp("tables") / f"table.{ending}")
    found = load_table(file)
    assert found.judges == table.judges
    assert found.images == table.images
    assert found.facts == table.facts
    for field in ("said", "votes", "asked", "truth", "usd", "seconds", "tokens"):
        np.testing.assert_array_equal(getattr(found, field), getattr(table, field), field)
    assert digest_of(found) == digest_of(table)


def written(folder: Path, text: str, name: str = "mine.csv") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def test_the_least_table_is_enough(tmp_path: Path) -> None:
    found = load_table(written(tmp_path, "image,fact,judge,answer\np,f,a,yes\np,f,b,No\np,g,a,\n"))
    np.testing.assert_array_equal(found.said, [[1.0, 0.0], [np.nan, np.nan]])
    # An empty answer was asked and lost; b has no row for g: it was not asked.
    np.testing.assert_array_equal(found.asked, [[True, True], [True, False]])
    assert found.images == (ImageRow("p", "p"),)
    assert [fact.kind for fact in found.facts] == ["object", "object"]
    assert np.isnan(found.truth).all()


def test_a_probability_alone_votes_and_a_vote_told_twice_goes_before_it(tmp_path: Path) -> None:
    text = "image,fact,judge,answer,probability,vote\np,f,a,,0.7,\np,f,b,no,0.7,0\np,f,c,,0.5,\n"
    found = load_table(written(tmp_path, text))
    np.testing.assert_array_equal(found.said, [[0.7, 0.7, 0.5]])
    np.testing.assert_array_equal(found.votes, [[1.0, 0.0, 0.0]])


def test_facts_may_stand_before_their_parents_and_say_things_once(tmp_path: Path) -> None:
    text = (
        "image,fact,judge,answer,parents,truth,rating,item\n"
        "p,child,a,yes,parent,1,,\n"
        "q,other,a,yes,,,,\n"
        "p,parent,a,yes,,0,4|5,prompt\n"
        "p,child,b,no,,,,\n"
    )
    found = load_table(written(tmp_path, text))
    assert [fact.id for fact in found.facts] == ["parent", "child", "other"]
    assert found.facts[1].parents == (0,)
    np.testing.assert_array_equal(found.truth, [0.0, 1.0, np.nan])
    assert found.images[0] == ImageRow("p", "prompt", ratings=(4.0, 5.0))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("p,f,a,maybe,,,,,", "line 3: the answer is 'maybe': use one of yes, no, unscored"),
        ("p,f,a,yes,1.5,,,,", "line 3: probability is '1.5': use a number from 0 to 1"),
        ("p,f,a,unscored,0.5,,,,", "line 3: it is unscored, but has a probability"),
        ("p,first,judge,no,,,,,", "line 3: judge answered this fact in line 2 already"),
        ("p,f,a,yes,,0,other,,", "line 3: the item of the image p is 'other', but 'i' in line 2"),
        (",f,a,yes,,,,,", "line 3: it names no image"),
        ("p,,a,yes,,,,,", "line 3: it names a judge but no fact"),
        ("p,f,,yes,,,,,", "line 3: it has an answer but names no judge"),
        ("p,f,a,yes,,2,,,", "line 3: the truth is '2': write 1 or 0"),
        ("p,f,a,yes,,,,gone,", "line 3: its parent 'gone' is not a fact of its image"),
        ("p,f,a,yes,,,,f,", "line 3: f depends on itself through its parents"),
        ("p,f,a,yes,,,,,thing", "line 3: the kind is 'thing': use one of object, attribute"),
    ],
)
def test_what_does_not_fit_is_told_with_its_line(tmp_path: Path, row: str, said: str) -> None:
    head = "image,fact,judge,answer,probability,truth,item,parents,kind\np,first,judge,yes,,1,i,,\n"
    with pytest.raises(PanelStudyError) as error:
        load_table(written(tmp_path, head + row + "\n"))
    assert said in str(error.value)


def test_lost_columns_and_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(PanelStudyError, match=r"lacks the columns judge \(or a column judge:NAME"):
        load_table(written(tmp_path, "image,fact\np,f\n"))
    with pytest.raises(PanelStudyError, match=r"the table .*gone\.csv cannot be read"):
        load_table(tmp_path / "gone.csv")
    with pytest.raises(PanelStudyError, match="holds no answers"):
        load_table(written(tmp_path, "image,fact,judge,answer\np,f,,\n"))


def small() -> AnswerTable:
    return AnswerTable(
        "t", (JudgeColumn("a"),), (ImageRow("p", "p"),), (FactRow("f", 0),), np.array([[0.5]])
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"facts": (), "said": np.zeros((0, 1))}, "has no facts"),
        ({"images": (ImageRow("p", "p"), ImageRow("p", "q"))}, "the image p stands twice"),
        ({"facts": (FactRow(" f", 0),)}, "has spaces at an end"),
    ],
)
def test_what_could_not_be_read_back_is_not_written(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    fields = {f.name: getattr(small(), f.name) for f in dataclasses.fields(AnswerTable)[:5]}
    with pytest.raises(PanelStudyError, match=said):
        write_table(AnswerTable(**(fields | change)), tmp_path / "t.csv")
    assert list(tmp_path.iterdir()) == []


def test_the_columns_are_in_the_docs() -> None:
    page = Path(__file__).resolve().parents[5] / "docs" / "panel-studies.md"
    text = page.read_text(encoding="utf-8")
    assert [name for name in COLUMNS if f"`{name}`" not in text] == []


@pytest.mark.parametrize(("answer", "probability"), [("yes", 0.2), ("no", 0.9)])
def test_an_answer_against_its_probability_is_an_error(
    tmp_path: Path, answer: str, probability: float
) -> None:
    text = f"image,fact,judge,answer,probability\np,f,a,{answer},{probability}\n"
    with pytest.raises(PanelStudyError, match=r"line 2: the answer is .* mend one of them"):
        load_table(written(tmp_path, text))


def test_scores_are_shares_of_their_range(tmp_path: Path) -> None:
    text = (
        "image,judge,score,score_min,score_max,rating\n"
        "p,a,4,1,5,4|5\nq,a,1,,,2|1\np,b,3,1,5,\nq,b,2,,,\n"
    )
    found = load_table(written(tmp_path, text))
    np.testing.assert_allclose(found.said, [[0.75, 0.5], [0.0, 0.25]])
    assert {fact.id for fact in found.facts} == {"picture"}
    assert found.images[0].ratings == (4.0, 5.0)


def test_scores_on_different_scales_are_pooled_by_rank(tmp_path: Path) -> None:
    text = (
        "image,judge,score,score_min,score_max\n"
        "p,a,9,0,10\nq,a,8,,\nr,a,7,,\np,b,3,1,5\nq,b,5,,\nr,b,1,,\n"
    )
    found = load_table(written(tmp_path, text))
    np.testing.assert_allclose(found.said, [[5 / 6, 0.5], [0.5, 5 / 6], [1 / 6, 1 / 6]])
    # A scale of another length or beginning changes nothing.
    moved = text.replace("3,1,5", "30,10,50").replace("b,5", "b,50").replace("b,1", "b,10")
    np.testing.assert_allclose(load_table(written(tmp_path, moved)).said, found.said)
    # Scores of facts stay shares of their range.
    facts = text.replace("image,", "image,fact,").replace(",a,", ",f,a,").replace(",b,", ",f,b,")
    shares = load_table(written(tmp_path, facts)).said
    np.testing.assert_allclose(shares, [[0.9, 0.5], [0.8, 1.0], [0.7, 0.0]])


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ("f,a,11,,,", "use a number from 0 to 10"),
        ("f,a,3,5,1,", "must be above"),
        ("f,a,3,x,,", "score_min is 'x'"),
        ("f,a,3,,,0.3", "a score and an answer or probability"),
    ],
)
def test_wrong_scores_are_told(tmp_path: Path, cells: str, told: str) -> None:
    head = "image,fact,judge,score,score_min,score_max,probability\n"
    with pytest.raises(PanelStudyError, match=told):
        load_table(written(tmp_path, f"{head}p,{cells}\n"))


def test_a_wide_table_has_one_column_a_judge(tmp_path: Path) -> None:
    text = "image,fact,judge:GPT-6,judge:b,truth\np,f,0.9,no,1\np,g,unscored,yes,0\n"
    found = load_table(written(tmp_path, text))
    assert found.judge_ids == ("GPT-6", "b")
    np.testing.assert_array_equal(found.said, [[0.9, 0.0], [np.nan, 1.0]])
    scores = load_table(written(tmp_path, "image,judge:a,judge:b\np,7,10\nq,2,0\n", "s.csv"))
    np.testing.assert_allclose(scores.said, [[0.7, 1.0], [0.2, 0.0]])
    with pytest.raises(PanelStudyError, match="one row an answer, or one column a judge"):
        load_table(written(tmp_path, "image,fact,judge,judge:a\np,f,b,yes\n", "both.csv"))


@pytest.mark.parametrize(("mark", "word"), [(";", "semicolons"), ("\t", "tabs")])
def test_other_separators_are_told(tmp_path: Path, mark: str, word: str) -> None:
    text = "image,fact,judge,answer\np,f,a,yes\n".replace(",", mark)
    with pytest.raises(PanelStudyError, match=f"separated by {word}. Save it with commas"):
        load_table(written(tmp_path, text))


@pytest.mark.parametrize("ratings", ["4;5", "4/5", "4 5"])
def test_the_bar_between_raters_is_told(tmp_path: Path, ratings: str) -> None:
    text = f"image,fact,judge,answer,rating\np,f,a,yes,{ratings}\n"
    with pytest.raises(PanelStudyError, match=r"one number a rater, joined by \|, as in 4\|5\|4"):
        load_table(written(tmp_path, text))


def test_columns_that_nothing_reads_are_told(tmp_path: Path) -> None:
    text = "image,fact,judge,answer,ratings,weather\np,f,a,yes,4,sunny\n"
    _, notes = read_answers(written(tmp_path, text))
    assert notes == (
        "Columns of mine.csv that nothing reads: ratings (did you mean rating?), weather.",
    )
    assert read_answers(written(tmp_path, "image,fact,judge,answer\np,f,a,yes\n"))[1] == ()
