"""One scene under all strategies, with scripted models."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from benchmarks._loop import images_until, kept_until, overridden
from benchmarks._models import SharedBackend, SharedJudge
from benchmarks._rows import SceneStudy
from benchmarks.loop import COUNTS, PICTURES, READINGS, RUNS, SceneRow, measure_scene, runs_of
from scenewright.config.profiles import BUILT_IN
from scenewright.core.facts import Answer, ScoreCard, Verdict
from scenewright.core.formats import load_scene
from scenewright.core.ports.backend import GenerationRequest
from scenewright.core.questions import facts_of
from scenewright.runs.model_factory.profiles import RunModels
from scenewright.runs.result import RoundRecord
from tests.doubles import CallBook, ScriptedBackend, ScriptedComposer, ScriptedJudge

SCENE = load_scene("red ball on table; dog left of table")
FACTS = facts_of(SCENE)
PROFILE = BUILT_IN["miniature"].model_copy(update={"weight_best": 0.5})


def quality(request: GenerationRequest) -> int:
    """References help if the second one has weight; the seed decides a little."""
    helped = sum(reference.weight > 0 for reference in request.references)
    return 90 + 40 * helped + request.seed % 7


def run_models(book: CallBook) -> RunModels:
    """Judges that ask more of a fact the later it comes; none is ever satisfied."""
    order = {fact.id: at for at, fact in enumerate(FACTS)}

    def judge(name: str) -> ScriptedJudge:
        return ScriptedJudge(name, book, lambda fact: 60 + 30 * order[fact.id])

    return RunModels(
        backend=ScriptedBackend(quality, book),
        composer=ScriptedComposer(book),
        loop_judges=(judge("a"), judge("b")),
        report_judges=(judge("c"),),
    )


async def measured(book: CallBook) -> SceneRow:
    study = SceneStudy(SceneRow, measure_scene, PROFILE, "here")
    return await study.measured(SCENE, 5, run_models(book))


@pytest.mark.slow
async def test_a_row_holds_every_strategy_and_what_it_took() -> None:
    row = await measured(CallBook())
    # The fifth scene is of the third level, whatever was put in its place here.
    assert (row.fingerprint, row.at, row.scene, row.level) == ("here", 5, SCENE.digest, "hard")
    runs = runs_of(PROFILE, run_models(CallBook()))
    assert set(row.lost) == set(runs) <= set(RUNS)
    assert set(row.kept) == {name for name, (run, _) in READINGS.items() if run in runs}
    assert row.kept["triplets"].images == row.kept["composition"].images == 1
    assert row.kept["best_of_n"].images == PICTURES
    assert row.kept["feedback"].images == row.kept["whole"].images > PICTURES
    assert row.took["composition"] == {"images": 1.0, "work": 0.0}
    for name in runs:
        assert set(row.took[name]) == set(COUNTS)
        assert row.took[name]["images"] == row.kept[name].images or name == "tournament"
        assert row.detected[name].objects.total == 3
    assert SceneRow.model_validate_json(row.model_dump_json()) == row


@pytest.mark.slow
async def test_all_runs_may_spend_the_work_of_as_many_full_pictures() -> None:
    models = run_models(CallBook())
    steps = models.backend.features.default_steps
    for options in runs_of(PROFILE, models).values():
        assert options["budget"].work == PICTURES * steps


@pytest.mark.slow
async def test_the_kept_image_is_scored_by_the_report_judge() -> None:
    row = await measured(CallBook())

    def found(name: str) -> int:
        report = row.kept[name].report
        return report.objects.yes + report.attributes.yes + report.relations.yes

    assert row.kept["composition"].round == 0
    # With both weights two references help.
    assert found("whole") > found("composition")


@pytest.mark.slow
async def test_a_run_is_measured_as_if_it_were_the_only_one() -> None:
    book = CallBook()
    row = await measured(book)
    drawn = sum(line.startswith("begin generate") for line in book.lines)
    images = sum(took["images"] for name, took in row.took.items() if name != "composition")
    assert drawn == images


@pytest.mark.slow
async def test_every_strategy_starts_from_the_same_scene_seed() -> None:
    rows = [await measured(CallBook()) for _ in range(2)]
    assert rows[0].kept == rows[1].kept


def record(round: int, found: int, reference: bool = True) -> RoundRecord:
    states = ["yes" if at < found else "no" for at in range(len(FACTS))]
    verdicts = [
        Verdict(fact_id=fact.id, state=state, probability=0.9 if state == "yes" else 0.1)
        for fact, state in zip(FACTS, states, strict=True)
    ]
    return RoundRecord(
        round=round,
        prompt="p",
        seed=0,
        image=f"{round:064d}",
        reference_image="f" * 64 if reference and round else None,
        loop_card=ScoreCard.of(FACTS, verdicts),
    )


def test_the_kept_candidate_is_the_best_up_to_a_round_and_the_first_of_equals() -> None:
    rounds = [record(0, 2), record(1, 1), record(2, 3), record(3, 3)]
    assert [kept_until(rounds, last, FACTS).round for last in range(5)] == [0, 0, 2, 2, 2]
    assert [images_until(rounds, last) for last in range(4)] == [1, 3, 5, 7]
    assert images_until([record(0, 1), record(1, 1, reference=False)], 6) == 2


def test_a_run_that_is_not_over_cannot_be_read() -> None:
    with pytest.raises(ValueError, match="no rounds"):
        kept_until([], 0, FACTS)
    unjudged = record(0, 1).model_copy(update={"loop_card": None})
    with pytest.raises(ValueError, match="not judged"):
        kept_until([unjudged], 0, FACTS)


def test_changes_of_a_profile_are_checked() -> None:
    changed = overridden(PROFILE, {"weight_missing": 0, "steps": 8})
    assert (changed.weight_missing, changed.steps) == (0.0, 8)
    assert changed.judges == PROFILE.judges
    for wrong in ({"weight_mising": 0.4}, {"weight_best": "much"}):
        with pytest.raises(ValidationError):
            overridden(PROFILE, wrong)


async def test_an_unscored_answer_is_asked_again() -> None:
    silent = iter([True, False])

    def behave(judge: ScriptedJudge, facts: object, answers: list[Answer]) -> list[Answer]:
        if not next(silent):
            return answers
        busy = {"state": "unscored", "choice": None, "probability": None, "reason": "busy"}
        return [answer.model_copy(update=busy) for answer in answers]

    shared = SharedJudge(ScriptedJudge(behave=behave))
    image = await ScriptedBackend(quality).generate(GenerationRequest(prompt="p", seed=1), _none)
    first = await shared.answer(image.image, FACTS)
    second = await shared.answer(image.image, FACTS)
    assert {answer.state for answer in first} == {"unscored"}
    assert "unscored" not in {answer.state for answer in second}
    assert [answer.fact_id for answer in second] == [fact.id for fact in FACTS]


async def test_other_requests_are_drawn_anew() -> None:
    book = CallBook()
    shared = SharedBackend(ScriptedBackend(quality, book))
    for seed in (1, 2, 1):
        await shared.generate(GenerationRequest(prompt="p", seed=seed), _none)
    assert sum(line.startswith("begin") for line in book.lines) == 2


def _none(image: str) -> None:
    raise AssertionError("no reference was given")
