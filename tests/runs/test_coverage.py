"""What the models of a profile know of a scene, told before anything is drawn."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from scenewright import UnknownSceneError, load_run, refine, score, stream_refine
from scenewright.agents.parsers.unread import CaptionWarning
from scenewright.cli.main import app
from scenewright.config.settings import Settings, find_profile
from scenewright.core.formats import load_scene
from scenewright.core.ports.backend import GenerationRequest
from scenewright.core.ports.judge import Judge
from scenewright.core.questions import facts_of
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.graphs.events import Edit, Event, Generated, Warned
from scenewright.miniature.painter import paint
from scenewright.miniature.world import COLORS, JUDGE_VOCABULARY, KINDS, VOCABULARY
from scenewright.runs.coverage import coverage_of
from scenewright.runs.model_factory.local_models import make_local_judge
from scenewright.runs.plan import plan_run
from scenewright.runs.record import read_run
from scenewright.runs.report.words import stop_line, verdict_line
from tests.doubles import CallBook, ScriptedBackend, ScriptedComposer, ScriptedJudge, painted

PINK = "pink dog left of table"
STRANGE = "giraffe riding horse"


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in Settings.model_fields:
        monkeypatch.delenv(f"SCENEWRIGHT_{name.upper()}", raising=False)
    # A user without keys and without fetched models.
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path


def all_good(request: GenerationRequest) -> int:
    return 255


def judge(name: str, book: CallBook | None = None, **more: Any) -> ScriptedJudge:
    return ScriptedJudge(name, book or CallBook(), vocabulary=JUDGE_VOCABULARY, **more)


def run_models(book: CallBook | None = None, **changes: Any) -> dict[str, Any]:
    """Models that find everything in every picture and know the miniature's words."""
    book = book or CallBook()
    return {
        "rounds": 3,
        "backend": ScriptedBackend(all_good, book, vocabulary=VOCABULARY),
        "judges": [judge("a", book)],
        "report_judges": [judge("c", book)],
        "composer": ScriptedComposer(book),
        **changes,
    }


def names_the_words(text: str) -> None:
    for word in (*KINDS, *COLORS):
        assert word in text


def test_the_miniature_knows_its_words_without_loading_a_model() -> None:
    profile = find_profile("miniature")
    assert coverage_of(profile, facts_of(load_scene("red dog left of table"))).complete
    found = coverage_of(profile, facts_of(load_scene(PINK)))
    assert list(found.outside) == ["a:dog.1:color"]
    assert not found.nothing
    assert found.text.startswith(
        "1 of 4 facts is outside what the profile miniature knows (the color 'pink'): its judges "
        "cannot answer it, its image model cannot draw it. It knows the classes person, "
    )
    names_the_words(found.text)
    assert coverage_of(find_profile("sdxl"), facts_of(load_scene(STRANGE))).complete


def test_only_profiles_that_can_run_here_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    profile, facts = find_profile("miniature"), facts_of(load_scene(PINK))
    none = coverage_of(profile, facts)
    assert none.others == ()
    assert none.text.endswith(
        "No profile that knows more can run here: `scenewright doctor` says what each needs"
    )
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    assert coverage_of(profile, facts).text.endswith("Profiles that know more: openai")
    # Workers elsewhere have keys and models of their own.
    anywhere = coverage_of(profile, facts, here=False).others
    assert {"sdxl", "flux", "openai", "gemini"} <= set(anywhere)


def test_a_profile_of_ones_own_that_knows_no_more_is_not_recommended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    settings = Settings(
        profiles={
            "twin": {"extends": "miniature"},
            "wide": {"extends": "openai"},
        }
    )
    text = coverage_of(
        find_profile("miniature", settings), facts_of(load_scene(PINK)), settings=settings
    ).text
    assert "wide" in text
    assert "twin" not in text


def test_a_fact_that_enough_judges_know_is_covered() -> None:
    profile = find_profile("miniature")
    facts = facts_of(load_scene(PINK))
    judges: list[Judge] = [judge("a"), ScriptedJudge("open")]
    backend = ScriptedBackend(all_good)
    known = {"judges": judges, "report_judges": [ScriptedJudge("c")], "backend": backend}
    assert coverage_of(profile, facts, **known).complete
    both = profile.model_copy(update={"quorum": 2})
    assert list(coverage_of(both, facts, **known).unjudged) == ["a:dog.1:color"]


async def test_a_pink_dog_is_told_first_and_left_unscored() -> None:
    events: list[Event] = []
    book = CallBook()
    result = await refine(PINK, on_event=events.append, **run_models(book))
    kinds = [type(event) for event in events]
    assert kinds.index(Warned) < kinds.index(Generated)
    warned = next(event for event in events if isinstance(event, Warned))
    assert warned.facts == ("a:dog.1:color",)
    names_the_words(warned.text)
    assert result.warnings == (warned.text,)
    assert load_run(result.folder).warnings == result.warnings
    for card in (result.loop_card, result.report_card):
        assert card is not None
        assert not card.satisfied
        assert verdict_line(card) == "3 of 4 facts hold, 1 not judged"
        (pink,) = (v for v in card.verdicts if v.fact_id == "a:dog.1:color")
        assert pink.state == "unscored"
        assert "the color 'pink' is outside its vocabulary" in pink.reason
    # What nobody can judge is no reason to draw again, and no success.
    assert result.stop_reason == "unscored"
    assert len(result.rounds) == 1
    assert stop_line(read_run(result.folder)) == "nothing that could be judged is missing"


async def test_what_is_wholly_unknown_is_refused_before_anything_is_drawn(
    in_empty_folder: Path,
) -> None:
    with pytest.raises(UnknownSceneError) as raised:
        await refine(STRANGE)
    names_the_words(str(raised.value))
    assert "the class 'giraffe', the class 'horse'" in str(raised.value)
    book = CallBook()
    with pytest.raises(UnknownSceneError):
        await refine(STRANGE, **run_models(book))
    with pytest.raises(UnknownSceneError):
        await anext(stream_refine(STRANGE))
    assert book.lines == []
    assert not (in_empty_folder / "runs").exists()


async def test_an_image_model_that_knows_no_object_is_reason_enough() -> None:
    open_judges = {"judges": [ScriptedJudge("a")], "report_judges": [ScriptedJudge("c")]}
    with pytest.raises(UnknownSceneError, match="its image model cannot draw them"):
        await refine(STRANGE, **run_models(**open_judges))
    drawn = await refine(f"{STRANGE}; dog", **run_models(**open_judges))
    assert "its image model cannot draw" in drawn.warnings[0]
    assert "its judges" not in drawn.warnings[0]


async def test_an_edit_that_asks_for_unknown_words_is_told() -> None:
    models = run_models()
    first = await refine("dog left of table", **models)
    assert first.warnings == ()
    edit = Edit(key="e", scene=load_scene(PINK), rounds=1)
    events: list[Event] = []
    again = await refine(
        "dog left of table", out=first.folder, edit=edit, on_event=events.append, **models
    )
    assert "the color 'pink'" in again.warnings[0]
    assert [event.type for event in events].count("warned") == 1
    same = await refine("dog left of table", out=first.folder, edit=edit, **models)
    assert same.warnings == again.warnings


async def test_the_miniatures_judges_never_confirm_a_pink_dog() -> None:
    """The words of the loop's own judges, on a picture with a purple dog."""
    picture = paint(load_scene("purple dog left of table"), seed=1).image
    judges = [make_local_judge("miniature/judge-a")]
    found = await score(
        picture, PINK, judges=judges, report_judges=[make_local_judge("miniature/judge-c")]
    )
    for card in (found.loop, found.report):
        assert card is not None
        states = {v.fact_id: v.state for v in card.verdicts}
        assert states["a:dog.1:color"] == "unscored"
        assert states["o:dog.1"] == "yes"
    assert "its judges cannot answer it" in found.warnings[0]
    assert "draw" not in found.warnings[0]


async def test_a_score_of_an_unknown_scene_asks_nobody() -> None:
    book = CallBook()
    found = await score(
        paint(load_scene("dog"), seed=1).image,
        STRANGE,
        judges=[judge("a", book)],
        report_judges=[judge("c", book)],
    )
    assert {v.state for v in found.loop.verdicts} == {"unscored"}
    assert found.loop.sgscore is None
    assert book.lines == []
    names_the_words(found.warnings[0])


def test_the_command_refuses_and_names_the_words(in_empty_folder: Path) -> None:
    result = CliRunner().invoke(app, ["refine", STRANGE])
    assert result.exit_code == 2
    names_the_words(" ".join(result.output.split()))
    assert not (in_empty_folder / "runs").exists()


def test_the_command_tells_of_a_pink_dog_before_it_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    from scenewright.runs.model_factory import profiles

    monkeypatch.setattr(
        profiles, "backend_of", lambda *_, **__: ScriptedBackend(all_good, vocabulary=VOCABULARY)
    )
    monkeypatch.setattr(
        profiles, "build_judge", lambda spec, *_, **__: judge(spec.rpartition("/")[2])
    )
    result = CliRunner().invoke(app, ["refine", PINK, "--out", "run"])
    assert result.exit_code == 1, result.output
    note = result.stderr.index("note: 1 of 4 facts is outside what the profile miniature knows")
    assert note < result.stderr.index("candidate drawn")
    assert "3 of 4 facts hold, 1 not judged" in result.stdout
    assert "All 4 facts hold" not in result.stdout
    again = CliRunner().invoke(app, ["refine", PINK, "--out", "run", "--json", "-q"])
    told = json.loads(again.stdout)
    assert "the color 'pink'" in told["warnings"][0]
    assert "1 of 4 facts is outside" in Path(told["page"]).read_text(encoding="utf-8")


def test_a_report_that_knows_less_than_the_loop_is_told() -> None:
    profile = find_profile("miniature")
    small = replace(JUDGE_VOCABULARY, attributes={"color": ("red",)})
    found = coverage_of(
        profile,
        facts_of(load_scene("blue dog")),
        report_judges=[ScriptedJudge("c", vocabulary=small)],
    )
    assert list(found.unreported) == ["a:dog.1:color"]
    assert "its report judges cannot answer it" in found.text
    assert not found.nothing


def test_a_kind_of_a_known_class_is_drawn_as_it_and_told() -> None:
    plan = plan_run("a woman with a top hat next to two puppies", "miniature")
    assert [(item.id, item.name) for item in plan.scene.objects] == [
        ("woman.1", "person"),
        ("top hat.1", "hat"),
        ("puppy.1", "dog"),
        ("puppy.2", "dog"),
    ]
    told = {one.text: one.reason for one in plan.scene.intent.unread}
    assert told == {
        "woman": "drawn and checked as a person",
        "top hat": "drawn and checked as a hat",
        "puppies": "drawn and checked as a dog",
    }
    # A model that knows any word draws what was said.
    assert plan_run("a woman", "sdxl").scene.objects[0].name == "woman"


def test_who_lies_on_a_thing_is_drawn_on_it_and_told() -> None:
    plan = plan_run("A red ball lies quietly on a table.", "miniature")
    assert [str(relation) for relation in plan.scene.relations] == ["ball.1 on table.1"]
    assert plan.scene.objects[0].attributes == {"color": "red"}
    told = {one.text: one.reason for one in plan.scene.intent.unread}
    assert told["lies quietly on"] == "drawn and checked as 'on'"
    free = plan_run("A red ball lies on a table.", "sdxl").scene
    assert [str(relation) for relation in free.relations] == ["ball.1 lying on table.1"]
    assert free.objects[0].attributes["state"] == "lying"


@pytest.mark.parametrize(
    ("said", "drawn"),
    [
        ("a person sitting next to a dog", "near"),
        ("a cat sleeping on a table", "on"),
        ("a hat hanging above a table", "above"),
        ("a cat lounging on a table", "on"),
        ("a lamp mounted above a table", "above"),
        ("a boat floating in a house", "inside"),
        ("a car parked to the left of a tree", "left of"),
        ("a dog jumping over a ball", "jumping over"),
        ("a person riding a dog", "riding"),
    ],
)
def test_only_what_says_where_a_thing_rests_is_drawn_as_a_place(said: str, drawn: str) -> None:
    [relation] = plan_run(said, "miniature").scene.relations
    assert relation.predicate == drawn


def test_other_states_of_what_rests_stay() -> None:
    item = SceneObject(id="a", name="dog", attributes=Attributes({"state": "sitting and barking"}))
    table = SceneObject(id="b", name="table")
    scene = SceneGraph(
        objects=(item, table),
        relations=(
            Relation(source="a", predicate="sitting on", target="b"),
            Relation(source="a", predicate="on", target="b"),
        ),
    )
    drawn = plan_run(scene, "miniature").scene
    assert drawn.objects[0].attributes == {"state": "barking"}
    assert [str(relation) for relation in drawn.relations] == ["a on b"], "said twice, drawn once"


async def test_a_picture_is_scored_in_words_that_all_judges_know() -> None:
    closed = ScriptedJudge("a", vocabulary=JUDGE_VOCABULARY)
    text, picture = "A red ball lies on a table.", painted((8, 8), (200, 0, 0))
    with pytest.warns(CaptionWarning, match="checked as 'on'"):
        found = await score(picture, text, "miniature", judges=[closed], report_judges=[])
    assert [fact.predicate for fact in found.facts if fact.kind == "relation"] == ["on"]
    both = [closed, ScriptedJudge("b")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaptionWarning)
        found = await score(picture, text, "miniature", judges=both, report_judges=[])
    assert [fact.predicate for fact in found.facts if fact.kind == "relation"] == ["lying on"]


def test_a_changed_graph_is_not_said_by_its_sentence_again() -> None:
    read = plan_run("a woman with a top hat", "sdxl").scene
    edited = read.subgraph(["woman.1"])
    drawn = plan_run(edited, "miniature").scene
    assert [item.name for item in drawn.objects] == ["person"]
    assert drawn.sentence == ""
