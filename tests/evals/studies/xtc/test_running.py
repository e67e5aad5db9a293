"""Evaluations by XTC-Bench as a whole: whole rows, going on after a kill, failures as rows."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from PIL import Image

from scenewright.agents.composers.language import LanguageComposer
from scenewright.core.images import ImageStore
from scenewright.core.ports.vision import Detection
from scenewright.core.scene import SceneGraph
from scenewright.evals.datasets.base import Item
from scenewright.evals.errors import EvalError, ModelChangedError
from scenewright.evals.metrics.graph_matching.text_similarity import ExactSimilarity
from scenewright.evals.runner.engines.store_actor import StoreActor
from scenewright.evals.runner.task import LocalEngine
from scenewright.evals.studies.xtc.base import Grade, Question, Reply, UnifiedModel
from scenewright.evals.studies.xtc.config import XtcConfig, XtcModelOverrides, with_on_model_change
from scenewright.evals.studies.xtc.grading import SimilarityGrader
from scenewright.evals.studies.xtc.models import JudgeUnderstander, Paired, Vocabulary
from scenewright.evals.studies.xtc.report import XtcResults, write_report
from scenewright.evals.studies.xtc.running import run_xtc
from tests.agents.replying import ReplyingChat
from tests.doubles import ScriptedBackend
from tests.evals.eval_sets import ListedSet
from tests.evals.served_judges import ServedJudge, changing
from tests.evals.studies.xtc.unified_doubles import (
    SCENES,
    KnowingExtractor,
    ScriptedUnified,
    World,
    items,
    recolored,
    without_relations,
)

CONFIG = XtcConfig.model_validate(
    {
        "name": "trial",
        "dataset": {"name": "table"},
        "models": {"x": {"plugin": "some.module:function"}},
        "similarity": "exact",
        "concurrency": 2,
    }
)


class Place:
    """A folder, a world and its models."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.world = World()
        self.extractor = KnowingExtractor(self.world)
        self.grader: Any = SimilarityGrader(ExactSimilarity())

    def unified(self, name: str = "good", **how: Any) -> ScriptedUnified:
        return ScriptedUnified(name, self.world, **how)

    async def run(
        self,
        *models: UnifiedModel,
        config: XtcConfig = CONFIG,
        retry: bool = False,
        found: Sequence[Item] | None = None,
    ) -> XtcResults:
        given = XtcModelOverrides(
            models=models,
            extractor=self.extractor,
            grader=self.grader,
            similarity=ExactSimilarity(),
        )
        listed = ListedSet(items(self.folder) if found is None else found)
        return await run_xtc(config, self.folder / "out", given=given, dataset=listed, retry=retry)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def test_both_sides_of_every_question_of_every_model(place: Place) -> None:
    pink = place.unified("pink", damage=recolored)
    mute = place.unified("wrong", say=lambda question: "zebra")
    results = await place.run(place.unified(), pink, mute)
    scores = results.scores()
    assert list(scores) == ["good", "pink", "wrong"]
    good, pinks, wrong = (scores[name].overall for name in scores)
    assert good.generation.value == good.understanding.value == good.aw_ccta.value == 1.0
    # Colours of 8 objects and 5 relations; three first objects are pink.
    assert good.both == 13
    assert pinks.generation.value == pytest.approx(10 / 13)
    assert pinks.ccta.value == pinks.aw_ccta.value == pytest.approx(10 / 13)
    assert pinks.quadrants["generation-deficit"] == 3
    assert wrong.understanding.value == 0.0
    assert wrong.quadrants["understanding-deficit"] == 13
    rows = results.rows("facts")
    assert len(rows) == 3 * sum(row["questions"] for row in results.rows("items"))
    where = {"model": "pink", "item": "item-0", "question": "attribute:ball.1:color"}
    (row,) = [r for r in rows if where.items() <= r.items()]
    assert (row["expected"], row["drawn"], row["said"]) == ("red", "pink", "red")
    assert (row["u"], row["v"], row["kind"], row["category"]) == (
        0.0, 1.0, "attribute", "Color & Material",
    )  # fmt: skip
    assert scores["good"].nodes.value == 1.0
    summary = json.loads((results.folder / "summary.json").read_text("utf-8"))
    assert summary["models"]["pink"]["overall"]["both"] == 13


async def test_what_is_missing_in_the_picture_is_zero_and_counted(place: Place) -> None:
    bare = place.unified("bare", damage=without_relations)
    gone = place.unified("gone", damage=lambda scene: SceneGraph())
    scores = (await place.run(bare, gone)).scores()
    relations = scores["bare"].kinds["relation"]
    assert (relations.absent, relations.generation.value) == (5, 0.0)
    assert scores["bare"].matched_kinds["relation"].facts == 0
    assert scores["bare"].nodes.value == 1.0
    assert scores["gone"].nodes.value == 0.0
    assert scores["gone"].overall.unscored_generation == 0
    assert scores["gone"].overall.generation.value == 0.0


def turned(scene: SceneGraph) -> SceneGraph:
    relations = tuple(
        r.model_copy(update={"source": r.target, "predicate": "right of", "target": r.source})
        for r in scene.relations
    )
    return scene.model_copy(update={"relations": relations})


async def test_a_relation_seen_the_other_way_round_is_an_answer_where_converses_count(
    place: Place,
) -> None:
    lenient = CONFIG.model_copy(update={"converses": True})
    scores = (await place.run(place.unified(damage=turned), config=lenient)).scores()
    assert scores["good"].kinds["relation"].generation.value == 1.0


async def test_edges_have_the_reference_s_direction(place: Place) -> None:
    results = await place.run(place.unified(damage=turned))
    assert results.scores()["good"].kinds["relation"].absent == 5
    (note,) = {row["note"] for row in results.rows() if row["kind"] == "relation" and
               row["item"] == "item-1"}  # fmt: skip
    assert "only the other way round" in note


async def test_the_same_again_does_nothing_twice(place: Place) -> None:
    model = place.unified()
    first = (await place.run(model)).rows()
    done, looks = list(model.book), place.extractor.looks
    assert Counter(done).most_common(1)[0][1] == 1
    again = await place.run(model)
    assert model.book == done
    assert place.extractor.looks == looks
    assert again.rows() == first
    # More seeds and more scenes ask for what is new alone.
    more = CONFIG.model_copy(update={"seeds": (0, 1)})
    await place.run(model, config=more)
    new = model.book[len(done) :]
    assert [what for what, _ in new] == ["draw"] * 3


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("at", [1, 2, 4, 9, 17])
async def test_a_killed_run_goes_on_and_pays_for_nothing_twice(place: Place, at: int) -> None:
    count = 0

    def dying(what: str, which: str) -> None:
        nonlocal count
        count += 1
        if count == at:
            raise Killed

    model = place.unified(before=dying)
    with pytest.raises(Killed):
        await place.run(model)
    with pytest.raises(EvalError, match="is not finished: run the same again"):
        XtcResults(place.folder / "out")
    results = await place.run(model)
    draws = [key for key in model.book if key[0] == "draw"]
    assert Counter(draws).most_common(1)[0][1] == 1
    assert len(draws) == 3
    calm = Place(place.folder / "calm")
    calm.folder.mkdir()
    assert results.rows() == (await calm.run(calm.unified())).rows()


async def test_failures_are_rows_with_reasons_and_can_be_tried_again(place: Place) -> None:
    broken = True

    def failing(what: str, which: str) -> None:
        if broken and what == "draw" and which == SCENES[1].digest:
            raise RuntimeError("out of paint")

    model = place.unified(before=failing)
    results = await place.run(model)
    whole = results.scores()["good"]
    assert whole.overall.unscored_generation == 5
    assert whole.overall.both == 10
    assert whole.reasons == {"the drawing failed: RuntimeError: out of paint": 5}
    (lost,) = [row for row in results.rows("pictures") if row["state"] == "failed"]
    assert (lost["item"], lost["image"], lost["nodes"]) == ("item-1", "", None)
    broken = False
    assert (await place.run(model)).scores()["good"].overall.both == 10
    answers = [key for key in model.book if key[0] == "answer"]
    assert (await place.run(model, retry=True)).scores()["good"].overall.both == 13
    assert [key for key in model.book if key[0] == "answer"] == answers


async def test_a_composer_in_stages_sees_the_objects_of_the_photo(place: Place) -> None:
    def reply(messages: list[BaseMessage]) -> str:
        return json.dumps({"description": "a red ball left of a black dog left of a green cat"})

    chat = ReplyingChat(replies=reply)
    composer = LanguageComposer(chat, stages=True)
    given = XtcModelOverrides(
        [place.unified()], place.extractor, place.grader, ExactSimilarity(), composer
    )
    (item,) = items(place.folder)[:1]
    names = ("ball", "dog", "cat")
    boxes = tuple(Detection(name, (at * 4, 0, at * 4 + 4, 12)) for at, name in enumerate(names))

    async def run(*detections: Detection) -> XtcResults:
        listed = ListedSet([item.model_copy(update={"detections": detections})])
        return await run_xtc(CONFIG, place.folder / "out", given=given, dataset=listed)

    without = (await run()).rows("items")[0]["views"]
    assert not [one for one in chat.sent if isinstance(one[-1].content, list)]
    results = await run(*boxes)
    shown = [one[-1] for one in chat.sent if isinstance(one[-1].content, list)]
    assert len(shown) == 3
    assert all(f'"{name}"' in str([one.text for one in shown]) for name in names)
    assert (without, results.rows("items")[0]["views"]) == (0, 3)


async def test_only_questions_without_an_answer_are_asked_again(place: Place) -> None:
    silent = True

    def say(question: Question) -> str | None:
        return None if silent and question.kind == "relation" else question.answer

    model = place.unified(say=say)
    scores = (await place.run(model)).scores()["good"]
    assert scores.overall.unscored_understanding == 5
    assert scores.reasons == {"I cannot tell": 5}
    asked = len([key for key in model.book if key[0] == "answer"])
    silent = False
    scores = (await place.run(model, retry=True)).scores()["good"]
    assert scores.overall.unscored_understanding == 0
    assert len([key for key in model.book if key[0] == "answer"]) == asked + 5


async def test_a_picture_that_cannot_be_read_and_a_grader_that_fails(place: Place) -> None:
    class Grumpy:
        id = "grumpy"
        fingerprint = "grumpy-1"

        async def grade(self, pairs: Sequence[Any]) -> list[Grade]:
            return [
                Grade(score=5) if p.given != "zebra" else Grade(score=None, reason="no zebras")
                for p in pairs
            ]

    place.grader = Grumpy()
    place.extractor.failing = lambda scene: scene.digest == SCENES[0].digest
    zebra = place.unified(say=lambda q: "zebra" if q.kind == "attribute" else q.answer)
    scores = (await place.run(zebra)).scores()["good"]
    dark = "the picture could not be read: the picture is too dark"
    assert scores.overall.unscored_generation == 8
    assert scores.overall.unscored_understanding == 8
    assert any(reason.startswith(dark) for reason in scores.reasons)
    assert any(reason.endswith("no zebras") for reason in scores.reasons)


async def test_failures_without_end_stop_it(place: Place) -> None:
    def failing(what: str, which: str) -> None:
        raise RuntimeError("no key")

    strict = CONFIG.model_copy(update={"stop_after_failures": 2})
    with pytest.raises(EvalError, match="2 failures in a row, the last one: RuntimeError: no key"):
        await place.run(place.unified(before=failing), config=strict)


async def test_a_model_that_miscounts_is_told_off(place: Place) -> None:
    class Short(ScriptedUnified):
        async def answer(self, image: Image.Image, questions: Sequence[Question]) -> list[Any]:
            return (await super().answer(image, questions))[1:]

    results = await place.run(Short("short", place.world))
    reasons = results.scores()["short"].reasons
    assert "the answering failed: short gave 7 replies to 8 questions" in reasons


async def test_models_that_share_a_side_work_once(place: Place) -> None:
    scripted = place.unified()
    drawn: list[str] = []

    class Painting(ScriptedBackend):
        async def generate(self, request: Any, load: Any, on_step: Any = None) -> Any:
            drawn.append(request.prompt)
            made = await super().generate(request, load, on_step)
            place.world.graphs[made.image.tobytes()] = SCENES[0]
            return made

    painter = Painting(lambda request: 7)
    other = place.unified("other")
    pairs = [
        Paired("one", painter, scripted),
        Paired("two", painter, other),
        Paired("three", painter, scripted),
    ]
    results = await place.run(*pairs, found=items(place.folder)[:1])
    assert len(drawn) == 1
    assert place.extractor.looks == 1
    assert len({row["image"] for row in results.rows("pictures")}) == 1
    assert len(scripted.book) == len(other.book) == 8
    parts = results.manifest["models"]["models"]["one"]
    assert parts["backend"] == painter.id


async def test_items_that_cannot_be_asked_about_are_counted(place: Place) -> None:
    good = items(place.folder)
    bare = [Item(id="text", prompt="a dog"), Item(id="lost", scene=SCENES[0], image="no.png")]
    results = await place.run(place.unified(), found=[*good, *bare, Item(id="x", prompt="y")])
    assert results.manifest["left_out"] == {
        "an item has no scene": 2,
        "there is no photo no.png: name the set's folder of images": 1,
    }
    with pytest.raises(EvalError, match="no item can be evaluated"):
        await place.run(place.unified(), found=bare)
    with pytest.raises(EvalError, match="holds the item 'item-0' twice"):
        await place.run(place.unified(), found=[*good, good[0]])
    with pytest.raises(EvalError, match="two models are called 'good'"):
        await place.run(place.unified(), place.unified())


async def test_the_manifest_tells_all_that_took_part(place: Place) -> None:
    results = await place.run(place.unified())
    manifest = results.manifest
    assert manifest["models"]["grader"]["id"] == "exact@1"
    assert manifest["models"]["extractor"] == {"id": "knowing", "fingerprint": "knowing-1"}
    assert manifest["models"]["models"]["good"]["draws"] == "scripted-good"
    assert {"answer_questions.md", "score_answers.md"} <= set(manifest["prompts"])
    assert manifest["finished"]
    assert manifest["totals"]["pictures"] == 3
    assert results.manifest["config"]["compared"] == ["attribute", "relation"]


async def test_tables_are_frames_too(place: Place) -> None:
    pytest.importorskip("pandas")
    results = await place.run(place.unified())
    assert list(results.frame()["model"].unique()) == ["good"]
    assert len(results.frame("items")) == 3
    with pytest.raises(EvalError, match="there is no table 'scores': use one of facts, pictures"):
        results.table("scores")  # type: ignore[arg-type]


async def test_the_report_shows_tables_and_disagreements(place: Place, tmp_path: Path) -> None:
    results = await place.run(
        place.unified(), place.unified("pink <b>", damage=recolored), place.unified("gone",
        damage=lambda scene: SceneGraph()),
    )  # fmt: skip
    page = write_report(results, most=5)
    text = page.read_text("utf-8")
    assert "XTC-Bench, Table 4" in text
    assert "pink &lt;b&gt;" in text
    assert "pink <b>" not in text
    assert text.count("generation deficit</small>") == 5
    assert "Gemini-2.5 Flash" in text
    assert {file.name for file in page.parent.iterdir()} == {
        "index.html", "tables.md", "tables.csv", "agreement.svg", "pictures",
    }  # fmt: skip
    for name in set(_sources(text)):
        assert (page.parent / name).is_file()
    alone = write_report(results, tmp_path / "alone", paper=False, most=0)
    assert "Gemini" not in alone.read_text("utf-8")
    assert "Both sides of every fact" in alone.read_text("utf-8")


def _sources(text: str) -> list[str]:
    return [part.partition('"')[0] for part in text.split('src="')[1:]]


async def test_folders_of_other_evaluations_are_refused(place: Place) -> None:
    out = place.folder / "out"
    with pytest.raises(EvalError, match="holds no evaluation"):
        XtcResults(out)
    out.mkdir()
    (out / "manifest.json").write_text('{"format": 1, "plan": "x"}', encoding="utf-8")
    with pytest.raises(EvalError, match="not a manifest of XTC-Bench"):
        await place.run(place.unified())


async def test_what_of_a_prompt_was_not_read_is_in_every_table(place: Place) -> None:
    def paired(name: str, tokens: int | None) -> Paired:
        painter = ScriptedBackend(lambda request: 9, prompt_tokens=tokens, version=name)
        return Paired(name, painter, place.unified())  # type: ignore[arg-type]

    # Pictures whose graph nobody knows: what is read of prompts is known all the same.
    short, long, silent = paired("short", 4), paired("long", 100), place.unified("silent")
    results = await place.run(short, long, silent)
    rows = {(row["model"], row["item"]): row for row in results.rows("pictures")}
    cut = rows["short", "item-0"]
    assert cut["prompt_tokens"] - cut["tokens_dropped"] == 4
    assert cut["tokens_dropped"] > 0
    assert cut["facts_dropped"] > 0
    assert rows["long", "item-0"]["tokens_dropped"] == rows["long", "item-0"]["facts_dropped"] == 0
    # A model that does not tell is not known to have read everything.
    assert rows["silent", "item-0"]["tokens_dropped"] is None
    scores = results.scores()
    read = scores["short"].prompts
    assert read is not None
    assert (read.pictures, read.cut) == (3, 3)
    mine = [row for (model, _), row in rows.items() if model == "short"]
    assert read.tokens == sum(row["tokens_dropped"] for row in mine)
    assert read.facts == sum(row["facts_dropped"] for row in mine)
    assert scores["silent"].prompts is None
    page = write_report(results, paper=False)
    text = (page.parent / "tables.md").read_text(encoding="utf-8")
    (line, *_) = [line for line in text.splitlines() if line.startswith("| short")]
    assert line.endswith(f"| {read.tokens} | {read.facts} |")
    assert "tokens dropped | facts dropped" in text
    # Without a redrawing, the journal knows it still.
    again = await place.run(short, long, silent)
    assert again.rows("pictures") == results.rows("pictures")


class Judged(ScriptedUnified):
    """Answers by a judge whose served version changes after some calls."""

    def served(self, after: int) -> Judged:
        words = Vocabulary.of(SCENES)
        self.understander = JudgeUnderstander(ServedJudge(serves=changing(after)), words)
        return self

    async def answer(self, image: Image.Image, questions: Sequence[Question]) -> list[Reply]:
        return await self.understander.answer(image, questions)


async def test_a_judge_served_by_another_version_stops_it_each_time(place: Place) -> None:
    config = CONFIG.model_copy(update={"concurrency": 1})
    for after in (1, 0):
        # The second start asks what the first one did not keep; v2 answers from the beginning.
        model = Judged("judged", place.world).served(after)
        with pytest.raises(ModelChangedError, match=r"v1 .*v2.*--on-model-change accept"):
            await place.run(model, config=config)
    accepted = with_on_model_change(config, "accept")
    results = await place.run(Judged("judged", place.world).served(0), config=accepted)
    (said,) = results.manifest["model_changes"]
    assert "v1 (" in said
    assert "v2 (" in said
    assert said in write_report(results).read_text(encoding="utf-8")
    assert json.loads((place.folder / "out" / "summary.json").read_text())["model_changes"]
    # One version alone is nothing to tell of.
    (place.folder / "other").mkdir()
    other = Place(place.folder / "other")
    alone = await other.run(Judged("judged", other.world).served(99), config=config)
    assert alone.manifest["model_changes"] == []


WORLD = World()
"""What the worker of :class:`OtherProcess` draws."""


def models_elsewhere(root: Path) -> XtcModelOverrides:
    """Models that a worker builds anew."""
    grader = SimilarityGrader(ExactSimilarity())
    models = [ScriptedUnified("good", WORLD), ScriptedUnified("pink", WORLD, damage=recolored)]
    return XtcModelOverrides(models, KnowingExtractor(WORLD), grader, ExactSimilarity())


@dataclass(frozen=True)
class OtherProcess(LocalEngine):
    """Opens its worker by the arguments that are sent to another process."""

    here: bool = True
    """Whether it can open the folder."""

    @asynccontextmanager
    async def at_work(self, task: Any) -> AsyncIterator[Any]:
        with ExitStack() as stack:

            async def work(items: Any) -> None:
                given = f"{__name__}:models_elsewhere"
                spec = pickle.loads(pickle.dumps(replace(task.spec, given=given)))
                if not self.here:
                    spec = replace(spec, stores=StoreActor(spec.answers, spec.place))
                worker = await spec.open(self.here, stack)
                assert worker.models == task.models
                async for position, item in items:
                    listener = task.begin(position, item)
                    sent = pickle.loads(pickle.dumps(listener.given))
                    hear = partial(_sent_back, listener.hear)
                    assert listener.hear(await worker.do(sent, hear))

            yield work


def _sent_back(hear: Any, event: Any) -> None:
    hear(pickle.loads(pickle.dumps(event)))


async def test_workers_in_other_processes_give_the_same_tables(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("runner.engines.store_actor", "studies.xtc.task"):
        monkeypatch.setattr(f"scenewright.evals.{module}.call_actor", lambda of, *args: of(*args))
    listed = ListedSet([*items(place.folder), Item(id="text", prompt="a dog")])
    found = [
        await run_xtc(
            CONFIG,
            place.folder / name,
            given=models_elsewhere(place.folder),
            dataset=listed,
            engine=engine,
        )
        for name, engine in (
            ("in this process", LocalEngine()),
            ("beside it", OtherProcess()),
            ("on another machine", OtherProcess(here=False)),
        )
    ]
    one, *others = found
    for other in others:
        for table in ("facts", "pictures", "items"):
            assert one.rows(table) == other.rows(table)
        for name in ("left_out", "totals", "models"):
            assert one.manifest[name] == other.manifest[name]
        assert other.manifest["left_out"] == {"an item has no scene": 1}
        images = ImageStore(other.images)
        assert all(images.sound(row["image"]) for row in other.rows("pictures"))


def test_versions_cannot_be_held_apart(place: Place) -> None:
    with pytest.raises(EvalError, match="hold served versions apart: take on_model_change"):
        with_on_model_change(CONFIG, "split")
