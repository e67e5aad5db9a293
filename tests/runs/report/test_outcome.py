"""The hero's sentence: both panels where they differ, and repeated facts once with their number."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from scenewright.core.facts import ScoreCard, State, Verdict
from scenewright.core.questions import facts_of
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.graphs.reporting import Reporting
from scenewright.runs.record import RunRecord, read_run
from scenewright.runs.report.content import page_content, title_parts
from scenewright.runs.report.render import render_run
from scenewright.runs.report.words import doubted, outcome_line, scene_words, stop_line
from tests.runs.report.sample import write_sample

BALL = "red ball on purple table"
HOLDING = "person holding yellow umbrella"


@pytest.fixture
def view(tmp_path: Path) -> RunRecord:
    """A finished run."""
    write_sample(tmp_path)
    return read_run(tmp_path)


def card(
    view: RunRecord, no: Collection[str] = (), state: State = "no", every: State = "yes"
) -> ScoreCard:
    """Return a card on which the facts with the statements ``no`` have the ``state``."""
    found = [
        Verdict(
            fact_id=fact.id,
            state=(said := state if fact.statement in no else every),
            probability=None if said == "unscored" else 0.9 if said == "yes" else 0.1,
        )
        for fact in view.facts
    ]
    return ScoreCard.of(view.facts, found)


def ended(view: RunRecord, loop: ScoreCard, report: ScoreCard | None) -> RunRecord:
    """Return the run as it would have ended with these cards."""
    assert view.finished is not None
    finished = view.finished.model_copy(update={"loop_card": loop, "report_card": report})
    return replace(view, finished=finished, reporting=Reporting(kind="independent"))


def hero(view: RunRecord) -> str:
    """Return the HTML of the hero."""
    return render_run(view).partition("<header")[2].partition("</header>")[0]


def mark(view: RunRecord) -> str:
    """Return the state of the icon before the verdict."""
    found = re.search(r'class="verdict"><svg class="icon s-(\w+)"', hero(view))
    assert found is not None
    return found.group(1)


def statement(view: RunRecord, of: str) -> str:
    """Return the statement of the relation that holds the words ``of``."""
    return next(f.statement for f in view.facts if f.kind == "relation" and of in f.statement)


def test_what_the_others_deny_stands_in_the_hero_without_a_tick(view: RunRecord) -> None:
    denied = ended(view, card(view), card(view, [statement(view, "holding")]))
    line = page_content(denied).line
    assert line == (
        f"15 of 16. Missing: {HOLDING}. The judges that steered the drawing find all 16."
    )
    assert line in hero(denied)
    assert mark(denied) == "unscored"
    done = {
        name: replace(one, finished=one.finished.model_copy(update={"reason": "satisfied"}))
        for name, one in (("denied", denied), ("agreed", ended(view, card(view), card(view))))
        if one.finished is not None
    }
    assert stop_line(done["denied"]) == "every fact holds by the judges that steered"
    assert stop_line(done["agreed"]) == "every fact holds"
    agreed = ended(view, card(view), card(view))
    assert page_content(agreed).line == "All 16 facts hold"
    assert mark(agreed) == "yes"


def test_what_the_others_cannot_judge_is_not_called_unseen(view: RunRecord) -> None:
    unsure = card(view, [statement(view, "holding")], "unscored")
    line = outcome_line(card(view), view.scene, view.facts, unsure)
    assert line == (
        "15 of 16 facts hold, 1 not judged. The judges that steered the drawing find all 16."
    )
    assert doubted(card(view), unsure)


def test_each_panel_names_what_it_misses(view: RunRecord) -> None:
    loop = card(view, [statement(view, "ball")])
    report = card(view, [statement(view, "holding")])
    assert outcome_line(loop, view.scene, view.facts, report) == (
        f"15 of 16. Missing: {HOLDING}. "
        f"The judges that steered the drawing find 15 of 16. They do not see: {BALL}."
    )
    same = outcome_line(loop, view.scene, view.facts, loop)
    assert same == f"15 of 16. Missing: {BALL}"


def test_a_picture_that_nobody_could_score_has_no_score_line(view: RunRecord) -> None:
    nobody = card(view, every="unscored")
    assert nobody.sgscore is None
    silent = hero(ended(view, nobody, nobody))
    assert "plain-score" not in silent
    # Where the report's judges could not say, the score is that of the others, and is called so.
    rest = hero(ended(view, card(view), nobody))
    assert "1.00" in rest
    assert "by the judges that steered the drawing" in rest.partition("plain-score")[2]


def crowd(number: int) -> SceneGraph:
    """Return a scene of red balls in a row."""
    ids = [f"ball.{at}" for at in range(1, number + 1)]
    return SceneGraph(
        objects=tuple(SceneObject(id=id_, name="ball") for id_ in ids),
        relations=tuple(
            Relation(source=one, predicate="left of", target=two)
            for one, two in itertools.pairwise(ids)
        ),
    )


def test_a_repeated_fact_is_named_once_with_its_number(view: RunRecord) -> None:
    scene = crowd(63)
    assert scene_words(scene) == "ball left of ball (62 times)"
    shown = replace(view, scenes=(replace(view.scenes[-1], scene=scene),))
    assert title_parts(shown, shown.best) == (("ball left of ball (62 times)", ""),)
    facts = facts_of(scene)
    none = ScoreCard.of(
        facts, [Verdict(fact_id=fact.id, state="no", probability=0.1) for fact in facts]
    )
    line = outcome_line(none, scene, facts)
    assert line == f"0 of {len(facts)}. Missing: ball left of ball (62 times)"


def test_what_is_not_named_counts_every_repetition() -> None:
    scene = crowd(5)
    more = tuple(SceneObject(id=f"tree.{at}", name="tree") for at in range(3))
    scene = SceneGraph(objects=(*scene.objects, *more), relations=scene.relations)
    assert scene_words(scene) == "ball left of ball (4 times); tree (3 times)"
    assert scene_words(scene, 30) == "ball left of ball (4 times); and 3 more"
