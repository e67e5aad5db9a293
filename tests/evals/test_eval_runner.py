"""The runner: what it writes, that it does nothing twice, and what becomes of failures."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from PIL import Image

from scenewright.core.facts import FACT_KINDS
from scenewright.core.ports.backend import BackendError, GenerationRequest
from scenewright.core.ports.judge import unscored
from scenewright.core.questions import facts_of
from scenewright.evals.errors import EvalError
from scenewright.evals.metrics.base import MetricScore, Sample
from scenewright.evals.reporting.score_matrix import batches
from scenewright.evals.runner.estimating import estimate
from scenewright.evals.runner.progress import Progress
from scenewright.evals.runner.runner import export_folder, run_eval
from tests.doubles import CallBook, ScriptedJudge
from tests.evals.eval_sets import ListedSet, config, scene_items, scripted


def begun(book: CallBook) -> Counter[str]:
    """What was called, without repeats of composing, which costs nothing here."""
    return Counter(
        line for line in book.lines if line.startswith(("begin generate", "begin answer"))
    )


async def test_an_evaluation_writes_all_its_tables(tmp_path: Path) -> None:
    found = await run_eval(
        config(seeds=[0, 1], conditions=["triplets", "feedback"]),
        tmp_path / "e",
        given=scripted(),
        dataset=ListedSet(scene_items()),
    )
    items, rounds = found.rows("items"), found.rows("rounds")
    assert [row["item"] for row in items] == [f"item-{at}" for at in range(4)]
    assert [row["level"] for row in items] == ["simple", "simple", "medium", "simple"]
    kept = [row for row in rounds if row["kept"]]
    assert len(kept) == 4 * 2 * 2
    assert {row["arm"] for row in rounds} == {
        f"miniature/{c}/{s}" for c in ("triplets", "feedback") for s in (0, 1)
    }
    verdicts = found.rows("verdicts")
    asked = {row["item"]: len(json.loads(row["facts"])) for row in items}
    count = Counter((row["item"], row["arm"]) for row in verdicts)
    assert all(count[key] == asked[key[0]] for key in count)
    assert len(count) == 16
    scores = [row for row in found.rows("scores") if row["part"] == ""]
    assert len(scores) == 16
    assert all(row["metric"] == "sgscore" and row["panel"] == "report" for row in scores)
    assert {row["judge"] for row in found.rows("answers")} == {"scripted:c"}
    assert found.manifest["finished"]
    assert found.manifest["totals"]["images"] == sum(row["images_drawn"] for row in rounds)
    frame = found.frame("scores")
    assert set(frame.columns) >= {"item", "arm", "metric", "value"}


async def test_sgscore_of_recorded_answers_is_that_of_ten_lines(tmp_path: Path) -> None:
    found = await run_eval(
        config(), tmp_path / "e", given=scripted(), dataset=ListedSet(scene_items())
    )
    by_item: dict[str, dict[str, list[bool]]] = {}
    for row in found.rows("verdicts"):
        kinds = by_item.setdefault(row["item"], {kind: [] for kind in FACT_KINDS})
        kinds[row["kind"]].append(row["state"] == "yes")
    for row in found.rows("scores"):
        if row["part"] == "":
            facts = by_item[row["item"]]
            objects = sum(facts["object"]) / len(facts["object"])
            relations = sum(facts["relation"]) / len(facts["relation"])
            assert row["value"] == pytest.approx((objects + relations) / 2)


async def test_started_again_it_does_nothing_twice(tmp_path: Path) -> None:
    book = CallBook()
    items = ListedSet(scene_items())
    asked = config(conditions=["triplets", "feedback"])
    first = await run_eval(asked, tmp_path / "e", given=scripted(book), dataset=items)
    tables = {name: first.rows(name) for name in ("items", "rounds", "answers", "scores")}
    before = list(book.lines)
    again = await run_eval(asked, tmp_path / "e", given=scripted(book), dataset=items)
    assert book.lines == before
    assert {name: again.rows(name) for name in tables} == tables


async def test_a_larger_configuration_in_the_folder_does_only_what_is_new(tmp_path: Path) -> None:
    book = CallBook()
    items = ListedSet(scene_items())
    await run_eval(config(), tmp_path / "e", given=scripted(book), dataset=items)
    before = begun(book)
    await run_eval(config(seeds=[0, 1]), tmp_path / "e", given=scripted(book), dataset=items)
    assert max(begun(book).values()) == 1
    assert len([k for k in begun(book) - before if "generate" in k]) == 4


async def test_cancelled_in_the_middle_it_goes_on_and_repeats_nothing(tmp_path: Path) -> None:
    book = CallBook()
    items = ListedSet(scene_items(12))
    asked = config(conditions=["feedback"], concurrency=2)

    def stop(now: Progress) -> None:
        if now.pictures >= 3:
            task.cancel()

    task = asyncio.create_task(
        run_eval(asked, tmp_path / "e", given=scripted(book), dataset=items, on_progress=stop)
    )
    with pytest.raises(asyncio.CancelledError):
        await task
    part = export_folder(tmp_path / "e")
    assert part.manifest["finished"] is None
    assert len(part.rows("items")) < 12
    whole = await run_eval(asked, tmp_path / "e", given=scripted(book), dataset=items)
    assert len(whole.rows("items")) == 12
    fresh = CallBook()
    other = await run_eval(asked, tmp_path / "f", given=scripted(fresh), dataset=items)
    assert begun(book) == begun(fresh)
    assert whole.table("verdicts").equals(other.table("verdicts"))


async def test_failures_are_rows_and_are_tried_again_alone(tmp_path: Path) -> None:
    book = CallBook()
    broken = True

    def failing(request: GenerationRequest) -> Exception | None:
        wrong = broken and "umbrella" in request.prompt
        return BackendError("the device is gone") if wrong else None

    items = ListedSet(scene_items())
    given = scripted(book, failing=failing)
    found = await run_eval(config(), tmp_path / "e", given=given, dataset=items)
    failed = [row for row in found.rows("rounds") if row["state"] == "failed"]
    assert [row["item"] for row in failed] == ["item-1", "item-2"]
    assert "the device is gone" in failed[0]["reason"]
    scores = [row for row in found.rows("scores") if row["part"] == ""]
    assert [row["item"] for row in scores] == [f"item-{at}" for at in range(4)]
    assert [row["value"] is None for row in scores] == [False, True, True, False]
    assert "the drawing failed: the device is gone" in scores[1]["reason"]
    broken = False
    lines = len(book.lines)
    same = await run_eval(config(), tmp_path / "e", given=given, dataset=items)
    assert len(book.lines) == lines, "failures are not tried again unless this is asked"
    assert same.rows("rounds") == found.rows("rounds")
    mended = await run_eval(config(), tmp_path / "e", given=given, dataset=items, retry=True)
    assert all(row["state"] == "done" for row in mended.rows("rounds"))
    assert len(mended.rows("rounds")) == 4
    assert all(row["value"] is not None for row in mended.rows("scores") if not row["part"])
    drawn = [line for line in book.lines[lines:] if line.startswith("begin generate")]
    assert len(drawn) == 2


async def test_unscored_answers_are_kept_with_their_reason_and_asked_again(tmp_path: Path) -> None:
    silent = True

    def behave(judge: ScriptedJudge, facts: object, answers: list[object]) -> object:
        return unscored(judge.id, facts, "the provider is away") if silent else answers  # type: ignore[arg-type]

    given = scripted()
    judge = ScriptedJudge("c", behave=behave)  # type: ignore[arg-type]
    given = replace(given, judges={**given.judges, "local:miniature/judge-c": judge})
    items = ListedSet(scene_items(2))
    found = await run_eval(config(), tmp_path / "e", given=given, dataset=items)
    assert all(row["state"] == "unscored" for row in found.rows("verdicts"))
    assert all("provider is away" in row["reason"] for row in found.rows("verdicts"))
    scores = [row for row in found.rows("scores") if row["part"] == ""]
    assert [row["value"] for row in scores] == [None, None]
    assert all(row["reason"] for row in scores)
    silent = False
    mended = await run_eval(config(), tmp_path / "e", given=given, dataset=items, retry=True)
    assert all(row["state"] in ("yes", "no", "void") for row in mended.rows("verdicts"))
    assert all(r["value"] is not None for r in mended.rows("scores") if r["part"] == "")


async def test_failures_without_end_stop_it(tmp_path: Path) -> None:
    given = scripted(failing=lambda request: BackendError("no memory"))
    with pytest.raises(EvalError, match=r"5 failures in a row.*no memory"):
        await run_eval(
            config(stop_after_failures=5, concurrency=1),
            tmp_path / "e",
            given=given,
            dataset=ListedSet(scene_items(20)),
        )


class Raising:
    """A metric that fails on one item."""

    name, version, higher_is_better = "raising", "1", True
    needs: frozenset[str] = frozenset({"image"})

    async def score(self, sample: Sample) -> MetricScore:
        if sample.item.id == "item-0":
            raise RuntimeError("cannot look")
        return MetricScore(value=float(sample.load().width), parts={"half": 0.5})


async def test_a_metric_that_fails_leaves_its_score_unscored(tmp_path: Path) -> None:
    given = replace(scripted(), metrics=[Raising()])
    found = await run_eval(config(), tmp_path / "e", given=given, dataset=ListedSet(scene_items(2)))
    rows = {(row["item"], row["part"]): row for row in found.rows("scores")}
    assert rows[("item-0", "")]["value"] is None
    assert rows[("item-0", "")]["reason"] == "RuntimeError: cannot look"
    assert rows[("item-1", "")]["value"] == 16.0
    assert rows[("item-1", "half")]["value"] == 0.5
    assert found.rows("answers") == [], "no metric needed a judge"


async def test_pictures_that_are_given_are_judged_as_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for at in range(3):
        Image.new("RGB", (16, 16), (250, at, 0)).save(folder / f"item-{at}.png")
    spec = {"source": "given", "folder": "pictures"}
    with pytest.raises(EvalError, match="1 of 4 pictures cannot be used"):
        await run_eval(
            config(conditions=["mine"], condition={"mine": spec}),
            tmp_path / "e",
            root=tmp_path,
            given=scripted(),
            dataset=ListedSet(scene_items()),
        )
    found = await run_eval(
        config(conditions=["mine"], condition={"mine": {**spec, "missing": "fail"}}),
        tmp_path / "e",
        root=tmp_path,
        given=scripted(),
        dataset=ListedSet(scene_items()),
    )
    states = {row["item"]: row["state"] for row in found.rows("rounds")}
    assert states == {"item-0": "done", "item-1": "done", "item-2": "done", "item-3": "failed"}
    lost = next(row for row in found.rows("rounds") if row["state"] == "failed")
    assert "there is no picture" in lost["reason"]
    assert found.manifest["totals"]["images"] == 0


async def test_judges_that_steer_must_not_report(tmp_path: Path) -> None:
    asked = config(conditions=["feedback"], panels={"own": {"judges": ["local:miniature/judge-a"]}})
    items = ListedSet(scene_items(1))
    with pytest.raises(EvalError, match="which steers a loop"):
        await run_eval(asked, tmp_path / "e", given=scripted(), dataset=items)
    allowed = asked.model_copy(update={"allow_loop_judges": True})
    found = await run_eval(allowed, tmp_path / "e", given=scripted(), dataset=items)
    assert found.rows("scores")


async def test_two_items_of_one_id_are_refused(tmp_path: Path) -> None:
    twice = [*scene_items(2), *scene_items(1)]
    with pytest.raises(EvalError, match="twice"):
        await run_eval(config(), tmp_path / "e", given=scripted(), dataset=ListedSet(twice))


async def test_arms_that_begin_alike_share_their_first_picture(tmp_path: Path) -> None:
    book = CallBook()
    found = await run_eval(
        config(conditions=["composition", "feedback"]),
        tmp_path / "e",
        given=scripted(book),
        dataset=ListedSet(scene_items()),
    )
    first = {
        (row["condition"], row["item"]): row["image"]
        for row in found.rows("rounds")
        if row["round"] == 0
    }
    for at in range(4):
        assert first[("composition", f"item-{at}")] == first[("feedback", f"item-{at}")]
    drawn = [line for line in book.lines if line.startswith("begin generate")]
    assert len(drawn) == len(set(drawn))
    assert found.manifest["totals"]["images"] == len(drawn)


async def test_two_conditions_that_are_the_same_have_rows_of_their_own(tmp_path: Path) -> None:
    found = await run_eval(
        config(conditions=["composition", "same"], condition={"same": {}}),
        tmp_path / "e",
        given=scripted(),
        dataset=ListedSet(scene_items(2)),
    )
    for table in ("rounds", "verdicts", "scores"):
        arms = Counter(row["condition"] for row in found.rows(table))  # type: ignore[arg-type]
        assert arms["composition"] == arms["same"] > 0


async def test_strict_and_house_scores_stand_side_by_side(tmp_path: Path) -> None:
    """Both protocols by the same judges; what both ask is asked once and costs once."""
    models = scripted()
    found = await run_eval(
        config(side_by_side=True), tmp_path / "e", given=models, dataset=ListedSet(scene_items())
    )
    scores = [row for row in found.rows("scores") if not row["part"]]
    assert {(row["panel"], row["protocol"]) for row in scores} == {
        ("report", "scene-bench"),
        ("report:grounded", "grounded"),
    }
    assert Counter(row["panel"] for row in scores) == {"report": 4, "report:grounded": 4}
    answers = found.rows("answers")
    assert {row["judge"] for row in answers if row["panel"] == "report:grounded"} == {"scripted:c"}
    strict = [row for row in found.rows("verdicts") if row["protocol"] == "scene-bench"]
    assert not [row for row in strict if row["state"] == "void"]
    house = [row for row in found.rows("verdicts") if row["protocol"] == "grounded"]
    assert len(house) == len(strict)
    same = {(row["item"], row["question"]) for row in strict if row["kind"] != "relation"}
    shared = {(row["item"], row["fact"]) for row in house if (row["item"], row["question"]) in same}
    assert shared
    paid = {
        (row["panel"], row["item"], row["fact"]): row["tokens_in"] + row["tokens_out"]
        for row in answers
    }
    assert all(paid["report", item, fact] for item, fact in shared)
    assert not any(paid["report:grounded", item, fact] for item, fact in shared)


async def test_an_evaluation_that_began_with_both_protocols_goes_on_with_both(
    tmp_path: Path,
) -> None:
    items = scene_items(2)
    await run_eval(
        config(side_by_side=True), tmp_path, given=scripted(), dataset=ListedSet(items[:1])
    )
    found = await run_eval(config(), tmp_path, given=scripted(), dataset=ListedSet(items))
    scored = Counter(row["panel"] for row in found.rows("scores") if not row["part"])
    assert scored == {"report": 2, "report:grounded": 2}
    only = await run_eval(
        config(side_by_side=False), tmp_path, given=scripted(), dataset=ListedSet(items)
    )
    assert {row["panel"] for row in only.rows("scores")} == {"report"}, "unless told otherwise"


async def test_the_plan_counts_both_protocols(tmp_path: Path) -> None:
    items = ListedSet(scene_items())

    async def facts(**fields: object) -> int:
        found = await estimate(config(**fields), given=scripted(), dataset=items)
        return found.facts

    one = await facts()
    both, house = await facts(side_by_side=True), await facts(protocol="grounded")
    assert one < both < one + house, "what both ask is planned once"


async def test_questions_of_a_set_have_no_second_protocol(tmp_path: Path) -> None:
    items = [
        item.model_copy(update={"facts": facts_of(item.scene)})
        for item in scene_items()
        if item.scene is not None
    ]
    found = await run_eval(
        config(side_by_side=True), tmp_path / "e", given=scripted(), dataset=ListedSet(items)
    )
    rows = [row for row in found.rows("scores") if not row["part"]]
    assert {(row["panel"], row["protocol"]) for row in rows} == {("report", "")}


async def test_what_of_a_prompt_is_not_read_is_a_column_of_every_table(tmp_path: Path) -> None:
    found = await run_eval(
        config(conditions=["triplets", "feedback"]),
        tmp_path / "e",
        given=scripted(prompt_tokens=6),
        dataset=ListedSet(scene_items()),
    )
    rounds = {(row["item"], row["arm"], row["round"]): row for row in found.rows("rounds")}
    assert any(row["facts_dropped"] for row in rounds.values())
    for row in rounds.values():
        assert row["tokens_dropped"] >= max(0, row["prompt_tokens"] - 6)
        assert (row["facts_dropped"] > 0) <= (row["tokens_dropped"] > 0)
    marked: Counter[tuple[str, str, int]] = Counter()
    for row in found.rows("verdicts"):
        marked[row["item"], row["arm"], row["round"]] += row["dropped"]
    for key, count in marked.items():
        assert count == rounds[key]["facts_dropped"]
    for row in found.rows("scores"):
        of = rounds[row["item"], row["arm"], row["round"]]
        for name in ("tokens_dropped", "facts_dropped"):
            assert row[name] == of[name]


async def test_tables_of_an_earlier_version_have_null_where_a_column_is_new(
    tmp_path: Path,
) -> None:
    found = await run_eval(
        config(), tmp_path / "e", given=scripted(), dataset=ListedSet(scene_items())
    )
    file = found.path("rounds")
    old = pq.read_table(file).drop_columns(["prompt_tokens", "tokens_dropped", "facts_dropped"])
    pq.write_table(old, file)
    rows = found.rows("rounds")
    assert {row["tokens_dropped"] for row in rows} == {None}
    assert found.rows("rounds", ["facts_dropped", "arm"])[0] == {
        "facts_dropped": None, "arm": rows[0]["arm"],
    }  # fmt: skip
    (batch,) = batches(found, "rounds", ["tokens_dropped", "image"])
    assert batch.schema.names == ["tokens_dropped", "image"]
