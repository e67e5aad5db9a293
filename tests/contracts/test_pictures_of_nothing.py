"""A picture of nothing (one colour, or what was no numbers) is scored at no door.

No judge, scorer or reader is asked about it, so that it costs nothing and gets no score by chance:
it is unscored with the reason, counted, never tried again, and never kept as the best.
"""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from PIL import Image

from integrations.comfyui.pictures import pngs_of
from scenewright.core.formats import load_scene
from scenewright.core.images import hash_of_image, png_bytes
from scenewright.core.ports.vision import Detection, ObjectRealism, RealismError
from scenewright.core.questions import facts_of
from scenewright.core.scene import SceneGraph
from scenewright.evals.annotation.quality import write_page
from scenewright.evals.gate.judges import plan_judge_gate, run_judge_gate
from scenewright.evals.gate.running import run_gate
from scenewright.evals.human_ratings.making import RatingStudySpec, make_study
from scenewright.evals.human_ratings.rated_objects import RatedObject
from scenewright.evals.human_ratings.sources import read_source
from scenewright.evals.judge_reports.judge_runs import run_judges
from scenewright.evals.judge_reports.labelled_facts import LabelledFact, Picture
from scenewright.evals.metrics.base import MetricScore, Need, Sample
from scenewright.evals.metrics.pairs import compare
from scenewright.evals.metrics.picture_scores import SGScore
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.studies.olip.comparing import compare as compare_scorers
from scenewright.graphs.strategies.registry import strategies
from scenewright.providers import AnswerStore, ask
from scenewright.runs.api import refine
from scenewright.runs.scoring import score
from scenewright.service.app import create_app
from scenewright.service.core.settings import ServiceSettings
from scenewright.tools.vision.realism.judged import JudgeScorer
from scenewright.tools.vision.realism.pictures import picture_realism
from tests.doubles import EMPTY, CallBook, EmptyAtFirst, ScriptedComposer, ScriptedJudge, painted
from tests.evals.annotation.building import Photos, built, calls_of, voter
from tests.evals.annotation.test_annotation_spotcheck import graphs
from tests.evals.eval_sets import ListedSet, config, scene_items, scripted
from tests.evals.gate.gate_models import OPTIONS, models, planned
from tests.evals.human_ratings.rated import ARMS, evaluation
from tests.evals.studies.real.test_real_scorer import drawn as real_pictures
from tests.evals.studies.real.test_real_scorer import scored as real_rows
from tests.evals.studies.xtc.test_running import Place
from tests.evals.studies.xtc.unified_doubles import items as xtc_items
from tests.service.mcping import Calls, data, held
from tests.service.serving import scripted as served_models
from tests.service.serving import serving
from tests.tools.vision.realism.rated import PixelScorer

SCENE = "red ball on table; dog left of table"
WHY = "nothing is drawn on the picture: all of it is black"
HASH = hash_of_image(EMPTY)
FACTS = facts_of(load_scene(SCENE))


def asked_about(book: CallBook) -> bool:
    """Whether a judge was shown :data:`EMPTY`."""
    return any(line.startswith("begin answer") and HASH in line for line in book.lines)


def judge(book: CallBook, name: str = "a") -> ScriptedJudge:
    """A judge that finds everything in every picture."""
    return ScriptedJudge(name, book, level=lambda fact: -1)


def loop(book: CallBook, empty: int) -> dict[str, Any]:
    """Models of a run whose first ``empty`` pictures show nothing."""
    backend = EmptyAtFirst(lambda asked: 200, book, masks=True, boxes=True)
    backend.empty = empty
    models = {"backend": backend, "composer": ScriptedComposer(book), "judges": [judge(book)]}
    return {**models, "report_judges": [judge(book, "r")]}


@pytest.mark.parametrize("strategy", sorted(strategies()))
async def test_no_strategy_keeps_it(strategy: str, tmp_path: Path) -> None:
    book = CallBook()
    found = await refine(
        SCENE, out=tmp_path / "run", strategy=strategy, rounds=4, patience=9, **loop(book, 1)
    )
    assert not asked_about(book)
    best = found.rounds[found.best_round]
    assert best.image != HASH
    assert best.loop_card is not None
    assert best.loop_card.satisfied
    assert found.report_card is not None
    assert found.report_card.sgscore == 1.0


async def test_a_run_of_nothing_else_has_no_score(tmp_path: Path) -> None:
    book = CallBook()
    found = await refine(SCENE, out=tmp_path / "run", rounds=2, **loop(book, 9))
    assert not asked_about(book)
    cards = [found.loop_card, found.report_card]
    assert [card and card.sgscore for card in cards] == [None, None]


async def test_an_edit_of_it_draws_anew(tmp_path: Path) -> None:
    book = CallBook()
    found = await refine(SCENE, out=tmp_path / "run", start=EMPTY, rounds=3, **loop(book, 0))
    assert not asked_about(book)
    assert found.best_round > 0


@pytest.mark.parametrize(
    "picture",
    [
        EMPTY,
        Image.new("RGBA", (9, 9), (1, 2, 3, 0)),
        Image.new("L", (9, 9), 7),
        Image.new("1", (3, 3)),
    ],
)
async def test_a_score_is_none_whatever_the_mode(picture: Image.Image) -> None:
    book = CallBook()
    found = await score(picture, SCENE, judges=[judge(book)], report_judges=[])
    assert (found.loop.sgscore, book.lines) == (None, [])


async def test_what_an_older_version_stored_of_it_does_not_come_back() -> None:
    book, store = CallBook(), AnswerStore(None)
    one = judge(book)
    await ask(one, HASH, painted((16, 16)), FACTS, store=store)
    told = await ask(one, HASH, EMPTY, FACTS, store=store)
    assert {answer.reason for answer in told.answers} == {told.empty} == {WHY}
    # An even part of a picture is a part of something.
    part = await ask(one, "part", EMPTY, FACTS, store=store, part_of=painted((64, 64)))
    assert {answer.state for answer in part.answers} == {"yes"}


async def test_the_routes_and_the_tools_of_the_service(
    tmp_path: Path,
) -> None:
    shown = png_bytes(EMPTY)
    settings = ServiceSettings(data=tmp_path / "served", drain_seconds=10)
    async with (
        serving(create_app(settings, models=served_models())) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as client,
    ):
        asked = {"files": {"image": shown}, "data": {"triplets": SCENE}}
        reply = (await client.post("/v1/scores", **asked)).json()
    assert reply["sgscore"] is None
    assert {verdict["state"] for verdict in reply["loop"]["verdicts"]} == {"unscored"}
    assert WHY in json.dumps(reply)
    async with held(tmp_path / "data", served_models()) as at:
        uri = f"data:image/png;base64,{base64.b64encode(shown).decode()}"
        call = {"triplets": SCENE, "image": uri}
        told = data(await Calls(at).call_tool("score_image", call))
    assert told["score"] is None
    assert WHY in json.dumps(told)


@dataclass
class Brightness:
    """A metric of pixels, which would have a number of any picture."""

    name = "brightness"
    version = "1"
    needs: frozenset[Need] = frozenset({"image"})
    higher_is_better = True
    seen: list[str] = field(default_factory=list)

    async def score(self, sample: Sample) -> MetricScore:
        self.seen.append(sample.image)
        return MetricScore(value=float(np.asarray(sample.load()).mean()))


async def test_an_evaluation_leaves_it_out_and_counts_it(tmp_path: Path) -> None:
    book, metric = CallBook(), Brightness()
    backends = {"miniature": EmptyAtFirst(lambda asked: 200, book)}
    given = replace(scripted(book), backends=backends, metrics=[SGScore(), metric])
    judges = ["local:miniature/judge-a", "local:miniature/judge-b"]
    wanted = config(conditions=["triplets"], panels={"p": {"judges": judges}})
    items = ListedSet(scene_items(3))
    results = await run_eval(wanted, tmp_path, given=given, dataset=items)
    assert not asked_about(book)
    assert HASH not in metric.seen
    (row,) = [r for r in results.rows("rounds") if r["image"] == HASH]
    scores = [r for r in results.rows("scores") if r["item"] == row["item"] and not r["part"]]
    assert sorted((r["metric"], r["value"], r["reason"]) for r in scores) == [
        ("brightness", None, WHY),
        ("sgscore", None, WHY),
    ]
    facts = [r for r in results.rows("verdicts") if r["item"] == row["item"]]
    assert {r["state"] for r in facts} == {"unscored"}
    assert all(WHY in r["reason"] for r in facts)
    others = [r for r in results.rows("scores") if r["item"] != row["item"] and not r["part"]]
    assert all(r["value"] is not None for r in others)
    done = len(book.lines)
    await run_eval(wanted, tmp_path, given=given, dataset=items, retry=True)
    assert len(book.lines) == done


async def test_a_gate_compares_what_both_drew(tmp_path: Path) -> None:
    book = CallBook()
    given = models(book=book)
    drawing = {**given.backends, "miniature-edit": EmptyAtFirst(lambda asked: 130, book)}
    given = replace(given, backends=drawing)
    found = await run_gate(planned(tmp_path, given), batch=20)
    assert not asked_about(book)
    assert sum(found.left_out.values()) == 1
    assert found.scenes + 1 == found.pictures / 2


async def test_a_gate_of_judges_and_their_reports_do_not_ask(tmp_path: Path) -> None:
    book = CallBook()
    EMPTY.save(tmp_path / "0.png")
    painted((16, 16)).save(tmp_path / "1.png")
    (tmp_path / "l.csv").write_text("image,subject,holds\n0.png,dog,1\n1.png,dog,1\n")
    both = (judge(book), judge(book, "b"))
    gate = plan_judge_gate(
        *("scripted:a", "scripted:b", str(tmp_path / "l.csv"), OPTIONS, tmp_path / "out"),
        given=both,
    )
    found = await run_judge_gate(gate)
    assert found.left_out == {"no fact is scored by both judges": 1}
    labelled = LabelledFact(Picture("e", lambda: EMPTY), FACTS[0], True, "")
    (run,) = await run_judges(both[:1], [labelled], store=AnswerStore(None))
    assert {answer.reason for row in run.answers for answer in row} == {WHY}
    assert not asked_about(book)


async def test_a_pair_with_it_has_no_winner() -> None:
    class Never:
        id = "test:never"

        async def answer_pair(self, *given: object) -> list[object]:
            raise AssertionError("it was asked")

    for pair in ((EMPTY, painted((16, 16))), (painted((16, 16)), EMPTY), (EMPTY, EMPTY)):
        found = await compare(Never(), *pair, FACTS)  # type: ignore[arg-type]
        assert {(one.preferred, one.probability, one.reason) for one in found} == {
            ("unscored", None, WHY)
        }


async def test_both_sides_of_xtc(tmp_path: Path) -> None:
    place = Place(tmp_path)
    model = place.unified()

    async def nothing(scene: SceneGraph, prompt: str, seed: int) -> Image.Image:
        return EMPTY

    model.draw = nothing  # type: ignore[method-assign]
    items = xtc_items(tmp_path)
    EMPTY.save(str(items[0].image))
    results = await place.run(model, found=items)
    rows = results.rows("facts")
    assert {r["u"] for r in rows} == {None}
    assert {r["reason"] for r in rows} == {WHY, f"{WHY}; {WHY}"}
    first = [r for r in rows if r["item"] == items[0].id]
    assert {r["v"] for r in first} == {None}
    assert {r["v"] for r in rows if r["item"] != items[0].id} == {1.0}
    done = len(model.book)
    await place.run(model, found=items, retry=True)
    assert len(model.book) == done


async def test_photos_of_nothing_are_not_annotated_checked_or_rated(tmp_path: Path) -> None:
    photos = Photos(tmp_path / "photos", 2)
    Image.new("RGB", (64, 48)).save(photos.folder / "0.png")
    one = voter("a", lambda ids: [(ids[0], "near", ids[1])])
    summary = await built(tmp_path / "set", photos, [one], None)
    assert calls_of(one) == 1
    assert summary.graphs == 1
    assert WHY in str(summary.problems)
    checked = graphs(tmp_path, 2)
    EMPTY.save(tmp_path / "0.png")
    page = write_page(checked, tmp_path / "page", "set")
    assert page.photos == 1
    assert page.lost[0].endswith(WHY)
    source = evaluation(tmp_path / "e", items=2)
    (shown, *_) = read_source(str(source)).entries
    EMPTY.save(shown.pictures[ARMS[0]])
    study = make_study(read_source(str(source)), RatingStudySpec(kind="choice"), tmp_path / "s")
    assert study.left_out == {"nothing is drawn on a picture of it": 1}
    assert {task.item for task in study.tasks} == {"item-1"}


async def test_studies_of_realism(tmp_path: Path) -> None:
    pictures = real_pictures(tmp_path, "a.png")
    EMPTY.save(tmp_path / "a.png")
    book = CallBook()

    async def styled(image: Image.Image) -> float:
        raise AssertionError("it was scored")

    (row,) = await asyncio.to_thread(real_rows, [judge(book)], pictures, style=styled)
    assert (row.s_att, row.s_rel, row.s_style, row.combined) == (None, None, None, None)
    assert WHY in row.reason
    scorer = PixelScorer(lambda shape, texture: ObjectRealism(shape, texture, 1.0))
    rated = RatedObject(
        id="0", image="a.png", category="dog", box=(0, 0, 8, 8), shape=1, texture=1, split="test"
    )
    (found,) = await compare_scorers([scorer], tmp_path, [rated], kept=tmp_path / "kept")
    assert found[0].shape is None
    assert WHY in found[0].reason
    objects = await JudgeScorer([judge(book)]).score(EMPTY, [Detection("dog", (0, 0, 8, 8))])
    assert WHY in objects[0].reason
    with pytest.raises(RealismError, match="nothing is drawn"):
        await picture_realism(EMPTY, scorer, scorer)  # type: ignore[arg-type]
    assert (scorer.calls, book.lines) == ([], [])


def test_numbers_that_are_none_do_not_become_black() -> None:
    torch = pytest.importorskip("torch")
    picture = torch.rand(1, 4, 4, 3)
    assert len(pngs_of(picture)) == 1
    picture[0, 0, 0, 0] = float("nan")
    with pytest.raises(ValueError, match="not numbers"):
        pngs_of(picture)
