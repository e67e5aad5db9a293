"""Recorded answers behind the judge port."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scenewright.agents.judges.replay import ReplayJudge
from scenewright.core.facts import Fact
from scenewright.core.images import ImageStore, png_bytes
from scenewright.core.ports.judge import JudgeError
from scenewright.core.questions import facts_of
from scenewright.providers import AnswerStore, ask
from tests.agents.judges.conformance import JudgeConformance, picture, scene

HASH = hashlib.sha256(png_bytes(picture())).hexdigest()
DOG = Fact(id="o:dog", kind="object", subject="dog", statement="dog", question="Is there a dog?")
SIDE = Fact(
    id="r:dog|left of|ball",
    kind="relation",
    subject="dog",
    target="ball",
    predicate="left of",
    statement="dog left of ball",
    question="Where is the dog from the ball?",
    options=("right of", "left of", "no visible relationship"),
    expected="left of",
)


def record(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)
    return path


def parquet(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    names = dict.fromkeys(name for row in rows for name in row)
    pq.write_table(pa.table({name: [row.get(name) for row in rows] for name in names}), path)
    return path


def dog(**more: object) -> dict[str, object]:
    return {"image": HASH, "question": DOG.question, "answer": "yes", **more}


@pytest.fixture(params=["csv", "parquet"])
async def judge(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[ReplayJudge]:
    rows = [
        {
            "image": hashlib.sha256(png_bytes(picture(color))).hexdigest(),
            "question": fact.question,
            "answer": fact.options[at % 2],
            "probability": 0.25 + at / 20,
        }
        for color in ((200, 60, 50), (0, 40, 200), (60, 40, 140))
        for at, fact in enumerate(facts_of(scene()))
    ]
    write = parquet if request.param == "parquet" else record
    made = ReplayJudge(write(tmp_path / f"answers.{request.param}", rows))
    yield made
    await made.aclose()


class TestConformance(JudgeConformance):
    pass


async def test_answers_by_question_by_id_and_by_option(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        dog(answer=" YES ", probability=0.75, fact_id=""),
        {"image": HASH.upper(), "fact_id": SIDE.id, "answer": "right of"},
    ]
    path = record(tmp_path / "a.csv", rows)
    judge = ReplayJudge(path)
    first, second = await judge.answer(picture(), (DOG, SIDE))
    assert (first.state, first.choice, first.probability) == ("yes", "yes", 0.75)
    assert (second.state, second.choice, second.probability) == ("no", "right of", None)
    assert judge.id == first.judge_id == f"replay:{path}"
    assert (judge.caps.probability, first.method, second.method) == ("verbalized",) * 2 + (None,)
    assert len(judge) == 2


async def test_a_record_without_probabilities_is_binary(tmp_path: Path) -> None:
    judge = ReplayJudge(record(tmp_path / "a.csv", [dog()]))
    assert judge.caps.probability == "binary"
    assert (await judge.answer(picture(), (DOG,)))[0].probability is None


async def test_what_is_not_recorded_is_unscored_with_the_reason(tmp_path: Path) -> None:
    beside: dict[str, object] = {"image": HASH, "question": SIDE.question, "answer": "beside"}
    rows = [dog(answer=""), beside]
    judge = ReplayJudge(record(tmp_path / "a.csv", rows))
    cat = DOG.model_copy(update={"id": "o:cat", "question": "Is there a cat?"})
    found = await judge.answer(picture(), (DOG, SIDE, cat))
    assert [answer.state for answer in found] == ["unscored"] * 3
    assert "line 2 of the record holds no answer" in found[0].reason
    assert "'beside' is not one of right of, left of" in found[1].reason
    assert "no answer to 'Is there a cat?'" in found[2].reason
    other = await judge.answer(picture((1, 2, 3)), (DOG,))
    assert "no answer to image" in other[0].reason


async def test_an_image_may_be_a_file_beside_the_record(tmp_path: Path) -> None:
    picture().save(tmp_path / "kitchen.png")
    path = record(tmp_path / "a.csv", [dog(image="kitchen.png")])
    judge = ReplayJudge(path)
    assert (await judge.answer(picture(), (DOG,)))[0].state == "yes"
    picture((9, 9, 9)).save(tmp_path / "kitchen.png")
    assert ReplayJudge(path).fingerprint != judge.fingerprint


async def test_the_hash_is_the_one_of_the_image_store(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "images")
    assert store.put(picture()) == HASH
    judge = ReplayJudge(record(tmp_path / "a.csv", [dog()]))
    assert (await judge.answer(store.get(HASH), (DOG,)))[0].state == "yes"


async def test_one_of_several_judges_must_be_named(tmp_path: Path) -> None:
    rows = [dog(judge="mild"), dog(judge="strict", answer="no")]
    path = record(tmp_path / "a.csv", rows)
    with pytest.raises(JudgeError, match=r"several judges \(mild, strict\): name one"):
        ReplayJudge(path)
    with pytest.raises(JudgeError, match="no answers by 'absent'"):
        ReplayJudge(path, judge="absent")
    mild, strict = (ReplayJudge(path, judge=name) for name in ("mild", "strict"))
    assert (await mild.answer(picture(), (DOG,)))[0].state == "yes"
    assert (await strict.answer(picture(), (DOG,)))[0].state == "no"
    assert strict.id.endswith("a.csv#strict")
    assert mild.fingerprint != strict.fingerprint


async def test_answers_pass_the_check_of_calls_and_are_kept(tmp_path: Path) -> None:
    judge = ReplayJudge(record(tmp_path / "a.csv", [dog(probability=0.5)]))
    store = AnswerStore(None)
    first = await ask(judge, HASH, picture(), (DOG,), store=store)
    again = await ask(judge, HASH, picture(), (DOG,), store=store)
    assert first.answers[0].state == again.answers[0].state == "yes"
    assert (first.cached, again.cached) == (False, True)
    store.close()


def test_the_fingerprint_follows_the_file(tmp_path: Path) -> None:
    first = ReplayJudge(record(tmp_path / "a.csv", [dog()]))
    same = ReplayJudge(record(tmp_path / "b.csv", [dog()]))
    other = ReplayJudge(record(tmp_path / "c.csv", [dog(answer="no")]))
    assert first.fingerprint == same.fingerprint != other.fingerprint


def test_a_repeated_row_is_no_contradiction(tmp_path: Path) -> None:
    assert len(ReplayJudge(record(tmp_path / "a.csv", [dog(), dog(answer="Yes")]))) == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([dog(), dog(answer="no")], "line 3: it contradicts line 2"),
        ([dog(probability=0.5), dog(probability=0.6)], "line 3: it contradicts line 2"),
        ([dog(probability=1.5)], r"line 2: the probability 1.5 is outside \[0, 1\]"),
        ([dog(probability="nan")], "line 2: the probability nan is outside"),
        ([dog(probability="high")], "line 2: the probability 'high' is not a number"),
        ([dog(answer="", probability=0.5)], "line 2: it has a probability but no answer"),
        ([dog(image="")], "line 2: it names no image"),
        ([dog(question="")], "line 2: it has neither question nor fact_id"),
        ([dog(image="lost.png")], r"line 2: there is no file .*lost.png.*or give the image's hash"),
        ([{"image": HASH, "said": "yes"}], r"lacks the columns answer, question \(or fact_id\)"),
    ],
)
def test_a_faulty_record_is_refused(
    tmp_path: Path, rows: list[dict[str, object]], message: str
) -> None:
    with pytest.raises(JudgeError, match=message):
        ReplayJudge(record(tmp_path / "a.csv", rows))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"image,question,answer\n", "has columns but no rows"),
        (b"image,question,answer\nx,y\n", "line 2: it does not have 3 fields"),
        (b'image,question,answer\nx,"y,z\n', "is not a CSV file"),
        (b"image,question,answer\n\xff,y,z\n", "is not UTF-8 text"),
    ],
)
def test_a_file_that_is_no_record_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(JudgeError, match=message):
        ReplayJudge(tmp_path / "a.csv")


def test_a_missing_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="cannot be read: No such file"):
        ReplayJudge(tmp_path / "lost.csv")


async def test_a_closed_judge_says_so(tmp_path: Path) -> None:
    judge = ReplayJudge(record(tmp_path / "a.csv", [dog()]))
    await judge.aclose()
    with pytest.raises(JudgeError, match="is closed"):
        await judge.answer(picture(), (DOG,))


async def test_a_parquet_record_answers_as_the_same_csv_record(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        dog(answer=" YES ", probability=0.75, fact_id=None, judge="mild"),
        {"image": HASH.upper(), "fact_id": SIDE.id, "answer": "right of", "judge": "mild"},
        dog(answer="no", judge="strict"),
    ]
    first = ReplayJudge(record(tmp_path / "a.csv", rows), judge="mild")
    second = ReplayJudge(parquet(tmp_path / "a.parquet", rows), judge="mild")
    said, again = [
        [(a.state, a.choice, a.probability) for a in await judge.answer(picture(), (DOG, SIDE))]
        for judge in (first, second)
    ]
    assert said == again == [("yes", "yes", 0.75), ("no", "right of", None)]


def test_other_columns_of_a_parquet_record_are_left_alone(tmp_path: Path) -> None:
    rows = [dog(pixels=b"\x00\x01", meta={"a": [1]}), dog(question="Is there a cat?")]
    assert len(ReplayJudge(parquet(tmp_path / "a.parquet", rows))) == 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([dog(), dog(answer="no")], "row 2: it contradicts row 1"),
        ([dog(probability=0.5), dog(probability=1.5)], r"row 2: the probability 1.5 is outside"),
        ([dog(probability=float("nan"))], "row 1: the probability nan is outside"),
        ([dog(), dog(answer=None, probability=0.5)], "row 2: it has a probability but no answer"),
        ([dog(image=None)], "row 1: it names no image"),
        ([dog(image={"path": "a.png"})], "row 1: image holds dict: use text"),
        ([{"image": HASH, "said": "yes"}], r"lacks the columns answer, question \(or fact_id\)"),
        ([dog(Answer="no")], "has the columns answer twice"),
    ],
)
def test_a_faulty_parquet_record_is_refused(
    tmp_path: Path, rows: list[dict[str, object]], message: str
) -> None:
    with pytest.raises(JudgeError, match=message):
        ReplayJudge(parquet(tmp_path / "a.parquet", rows))


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is empty"), (b"image,question,answer\nx,y,z\n", "is not a parquet file")],
)
def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(JudgeError, match=message):
        ReplayJudge(tmp_path / "a.parquet")


def test_a_damaged_parquet_record_is_refused(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", [dog(), dog(question="Is there a cat?")])
    whole = path.read_bytes()
    for cut in (len(whole) // 3, len(whole) // 2, len(whole) - 5):
        path.write_bytes(whole[:cut] + whole[-8:])
        with pytest.raises(JudgeError, match="is not a parquet file"):
            ReplayJudge(path)
