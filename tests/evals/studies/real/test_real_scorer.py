"""Pictures scored through panel, store and files: costs, gaps, two waves, and going on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import JudgeCaps
from scenewright.evals.studies.real.real_scorer import (
    Picture,
    RealRow,
    RealScorer,
    read_rows,
    score_pictures,
)
from scenewright.evals.studies.real.schema import (
    AttributeSchema,
    ClassSchema,
    RelationSchema,
    SchemaAttribute,
    SchemaError,
    SchemaRelation,
    classes_of,
)
from scenewright.providers import AnswerStore
from tests.doubles import ScriptedJudge, painted

BIRD = AttributeSchema(
    name="bird",
    attributes=(
        SchemaAttribute(part="bill", description="hooked"),
        SchemaAttribute(part="legs", description="red"),
    ),
)
QUERY = RelationSchema(
    name="bird",
    entities=("bird", "rock"),
    relations=(SchemaRelation(subject="bird", predicate="on", object="rock"),),
)
SCHEMAS = classes_of([BIRD])


class Judge(ScriptedJudge):
    """Says no to what its texts are part of, and nothing to others; keeps the sheets."""

    def __init__(self, no: Sequence[str] = (), silent: Sequence[str] = (), name: str = "a") -> None:
        self.sheets: list[list[str]] = []
        self.silent = list(silent)

        def level(fact: Fact) -> int:
            return 255 if any(text in fact.question for text in no) else -1

        def behave(judge: ScriptedJudge, facts: Sequence[Fact], answers: list[Answer]) -> object:
            self.sheets.append([fact.question for fact in facts])
            return [
                Answer(fact_id=f.id, judge_id=judge.id, state="unscored", reason="it was silent")
                if any(text in f.question for text in self.silent)
                else answer
                for f, answer in zip(facts, answers, strict=True)
            ]

        super().__init__(name=name, level=level, usd=0.001, behave=behave)


def drawn(folder: Path, *names: str) -> list[Picture]:
    found = []
    for at, name in enumerate(names):
        painted((8, 8), (at, 0, 0)).save(folder / name)
        found.append(Picture(folder / name, "bird"))
    return found


def scored(
    judges: Sequence[ScriptedJudge],
    pictures: Sequence[Picture],
    file: Path | None = None,
    schemas: dict[str, ClassSchema] = SCHEMAS,
    store: AnswerStore | None = None,
    **more: object,
) -> list[RealRow]:
    with closing(AnswerStore(None) if store is None else store) as answers:
        # Hard scores are exact fractions; how probabilities weigh has a test of its own.
        ways = {"asking": more.pop("asking", "waves"), "weighting": more.pop("weighting", "hard")}
        scorer = RealScorer(judges, answers, **ways)  # type: ignore[arg-type]
        work = score_pictures(scorer, pictures, schemas, file, **more)  # type: ignore[arg-type]
        return asyncio.run(work)


def test_two_calls_a_picture_and_their_costs(tmp_path: Path) -> None:
    judge = Judge(no=["Are the legs red"])
    (row,) = scored([judge], drawn(tmp_path, "a.png"))
    assert [len(sheet) for sheet in judge.sheets] == [3, 2]
    assert (row.s_att, row.visible, row.matched) == (0.5, 2, 1)
    assert row.wrong == ("legs are red",)
    assert row.invisible == ()
    # Five answers of 10 + 1 tokens and 0.001 dollars.
    assert row.tokens == 55
    assert row.usd == pytest.approx(0.005)
    assert row.combined is None
    assert row.seconds > 0


def test_probabilities_weigh_and_the_hard_score_stands_beside(tmp_path: Path) -> None:
    (row,) = scored(
        [Judge(no=["Are the legs red"])], drawn(tmp_path, "a.png"), weighting="probability"
    )
    assert row.s_att_hard == 0.5
    assert row.s_att is not None
    assert 0 < row.s_att < 1
    assert row.s_att != 0.5
    with closing(AnswerStore(None)) as store:
        default, hard = (
            RealScorer([Judge()], store, **more).fingerprint  # type: ignore[arg-type]
            for more in ({}, {"weighting": "hard"})
        )
    # Rows of one weighting are not ranked among those of the other.
    assert default != hard


def test_what_cannot_be_seen_is_not_asked_further(tmp_path: Path) -> None:
    judge = Judge(no=["see the legs"])
    (row,) = scored([judge], drawn(tmp_path, "a.png"))
    assert judge.sheets[1] == ["Is the bill hooked?"]
    assert row.s_att == 1.0
    assert row.visible == 1
    assert row.invisible == ("legs",)


def test_no_class_is_zero_and_costs_one_call(tmp_path: Path) -> None:
    judge = Judge(no=["realistic animal"])
    (row,) = scored([judge], drawn(tmp_path, "a.png"))
    assert row.s_att == 0.0
    assert len(judge.sheets) == 1
    assert row.invisible == ("bird",)


def test_a_missing_entity_pays_for_no_relation(tmp_path: Path) -> None:
    judge = Judge(no=["see a rock"])
    (row,) = scored([judge], drawn(tmp_path, "a.png"), schemas=classes_of([QUERY]))
    assert judge.sheets == [["Can you see a bird?", "Can you see a rock?"]]
    assert row.s_rel == row.s_rel_raw == 0.0
    assert row.base == 0.0
    assert row.s_att is None


def test_together_is_one_call_with_the_same_score(tmp_path: Path) -> None:
    judge = Judge(no=["see the legs"])
    (row,) = scored([judge], drawn(tmp_path, "a.png"), asking="together")
    assert len(judge.sheets) == 1
    assert len(judge.sheets[0]) == 5
    assert row.s_att == 1.0
    assert row.visible == 1


def test_several_judges_are_a_panel(tmp_path: Path) -> None:
    judges = [Judge(name="a"), Judge(name="b", silent=["legs"])]
    (row,) = scored(judges, drawn(tmp_path, "a.png"))
    # What one judge leaves open the other one answers.
    assert row.unscored == 0
    assert row.s_att == 1.0


def test_gaps_are_no_zeros_and_are_asked_again(tmp_path: Path) -> None:
    pictures, file = drawn(tmp_path, "a.png", "b.png"), tmp_path / "rows.jsonl"
    judge = Judge(silent=["Is the bill"])
    rows = scored([judge], pictures, file, store=AnswerStore(tmp_path / "a.db"))
    assert [(row.s_att, row.unscored, row.reason) for row in rows] == [(1.0, 1, rows[0].reason)] * 2
    assert "it was silent" in rows[0].reason
    judge.silent.clear()
    judge.sheets.clear()
    rows = scored([judge], pictures, file, store=AnswerStore(tmp_path / "a.db"))
    assert judge.sheets == [["Is the bill hooked?"]] * 2
    assert [row.unscored for row in rows] == [0, 0]
    assert read_rows(file) == rows
    # Four of its answers were paid for at first, the fifth now.
    assert [row.usd for row in rows] == [pytest.approx(0.005)] * 2


def test_silence_about_existence_leaves_no_score(tmp_path: Path) -> None:
    (row,) = scored([Judge(silent=["realistic animal"])], drawn(tmp_path, "a.png"))
    assert row.s_att is None
    assert row.unscored == 1
    assert "silent" in row.reason


def test_started_again_nothing_is_asked(tmp_path: Path) -> None:
    pictures, file = drawn(tmp_path, "a.png", "b.png"), tmp_path / "rows.jsonl"
    judge = Judge()
    first = scored([judge], pictures[:1], file)
    judge.sheets.clear()
    kept: list[bool] = []
    told: Callable[[RealRow, bool], None] = lambda row, was: kept.append(was)  # noqa: E731
    rows = scored([judge], pictures, file, on_row=told)
    assert rows[0] == first[0]
    assert sorted(kept) == [False, True]
    assert len(judge.sheets) == 2
    # Another picture under the same name is another picture.
    painted((8, 8), (99, 0, 0)).save(pictures[0].path)
    assert scored([judge], pictures[:1], file)[0].digest != first[0].digest
    assert [row.image for row in read_rows(file)] == [str(p.path) for p in pictures]


def test_another_schema_is_another_plan(tmp_path: Path) -> None:
    pictures, file = drawn(tmp_path, "a.png"), tmp_path / "rows.jsonl"
    (first,) = scored([Judge()], pictures, file)
    other = classes_of([BIRD.model_copy(update={"version": 2})])
    (second,) = scored([Judge()], pictures, file, schemas=other)
    assert first.plan != second.plan


def test_style_is_multiplied_and_kept(tmp_path: Path) -> None:
    pictures, file = drawn(tmp_path, "a.png"), tmp_path / "rows.jsonl"

    async def style(image: Image.Image) -> float:
        return 0.25

    judge = Judge(no=["legs red"])
    (row,) = scored([judge], pictures, file)
    assert row.combined is None
    (row,) = scored([judge], pictures, file, style=style)
    assert row.s_style == 0.25
    assert row.combined == pytest.approx(0.125)
    assert len(judge.sheets) == 2
    assert scored([judge], pictures, file)[0] == row


def test_a_picture_that_cannot_be_read_has_a_reason(tmp_path: Path) -> None:
    pictures = drawn(tmp_path, "a.png", "b.png")
    pictures[0].path.write_text("no picture")
    broken, sound = scored([Judge()], pictures)
    assert broken.base is None
    assert "a.png" in broken.reason
    assert sound.s_att == 1.0


def test_wrong_input_is_told(tmp_path: Path) -> None:
    (picture,) = drawn(tmp_path, "a.png")
    with pytest.raises(SchemaError, match="no schema for cat"):
        scored([Judge()], [replace(picture, label="cat")])

    class Rater(ScriptedJudge):
        @property
        def caps(self) -> JudgeCaps:
            return replace(super().caps, kinds=frozenset({"realism"}))

    with closing(AnswerStore(None)) as store, pytest.raises(SchemaError, match="in words"):
        RealScorer([Rater()], store)
