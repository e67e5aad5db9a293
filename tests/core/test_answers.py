"""Numbers that tell several facts: what one answer says of each, and their one line."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.core.answers import by_number, in_lines
from scenewright.core.facts import Answer, Fact, ScoreCard, Verdict, missing_graph
from scenewright.core.formats import load_scene
from scenewright.core.intent import Count, Intent
from scenewright.core.ports.judge import JudgeCaps
from scenewright.core.questions import facts_of, number_fact_id
from scenewright.core.scene import SceneGraph
from scenewright.providers import ask, open_answers
from tests.doubles import ScriptedJudge, painted


def balls(number: int, exact: bool) -> SceneGraph:
    """Return a scene of so many red balls on a table."""
    lines = "\n".join(f"ball.{n} [color=red] on table" for n in range(1, number + 1))
    scene = load_scene(lines)
    ids = tuple(item.id for item in scene.objects if item.name == "ball")
    kind = "exact" if exact else "open"
    count = Count(objects=ids, kind=kind, number=number if exact else None)
    return scene.model_copy(update={"intent": Intent(counts=(count,))})


def of_class(scene: SceneGraph) -> list[Fact]:
    """Return the facts that count the balls of ``scene``."""
    return [f for f in facts_of(scene) if f.kind in ("object", "count") and f.classes == ("ball",)]


@dataclass
class Counter(ScriptedJudge):
    """Finds so many of everything that is counted, and everything else."""

    found: int = 0
    counting: bool = True
    asked: list[str] = field(default_factory=list)

    @property
    def caps(self) -> JudgeCaps:
        return replace(super().caps, counts=self.counting)

    def _answer(self, fact: Fact, quality: int) -> Answer:
        self.asked.append(fact.question)
        choice = fact.expected
        if not fact.is_binary and fact.kind == "count":
            choice = fact.options[min(self.found, len(fact.options) - 1)]
        elif "at least" in fact.question:
            least = int(fact.question.partition("at least ")[2].split()[0])
            choice = "yes" if self.found >= least else "no"
        state = "yes" if choice == fact.expected else "no"
        return Answer(fact_id=fact.id, judge_id=self.id, state=state, choice=choice)


IMAGE = painted((8, 8), (128, 0, 0))


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("found", [0, 1, 2, 3, 4, 9])
def test_one_question_answers_as_many_facts_as_there_are_things(found: int, exact: bool) -> None:
    facts = of_class(balls(3, exact))
    assert len(facts) == 3 + exact
    judges = [Counter(name=str(n), found=found, counting=bool(n)) for n in range(2)]
    each, once = (
        asyncio.run(ask(judge, "i", IMAGE, facts, store=open_answers(None, None)))
        for judge in judges
    )
    assert judges[1].asked == ["How many balls are there in the image?"]
    assert len(judges[0].asked) == 3 + exact
    # "Is there a ball" has another form, which the judge of thresholds says yes to.
    assert [a.state for a in once.answers][1:] == [a.state for a in each.answers][1:]
    assert [a.fact_id for a in once.answers] == [fact.id for fact in facts]
    assert once.answers[0].state == ("yes" if found else "no")


def test_a_later_fact_about_the_number_is_not_asked_again() -> None:
    facts = of_class(balls(2, exact=True))
    store, judge = open_answers(None, None), Counter(found=5)
    first = asyncio.run(ask(judge, "i", IMAGE, facts[:2], store=store, origin="a"))
    later = asyncio.run(ask(judge, "i", IMAGE, facts[2:], store=store, origin="b"))
    assert len(judge.asked) == 1
    assert [a.state for a in (*first.answers, *later.answers)] == ["yes", "yes", "no"]
    assert later.cached
    assert sum(a.tokens_in for a in later.answers) == 0


def test_attributes_that_several_share_are_counted_and_the_papers_questions_are_not() -> None:
    scene = balls(3, exact=True)
    judge = Counter(found=2)
    facts = [fact for fact in facts_of(scene) if fact.kind == "attribute"]
    answers = asyncio.run(ask(judge, "i", IMAGE, facts, store=open_answers(None, None))).answers
    assert judge.asked == ["How many red balls are there in the image?"]
    assert [answer.state for answer in answers] == ["yes", "yes", "no"]
    assert not any(fact.counting for fact in facts_of(scene, "scene-bench"))
    assert not any(fact.counting for fact in facts_of(load_scene("red ball on table")))


@given(
    number=st.integers(2, 5),
    exact=st.booleans(),
    weights=st.lists(st.floats(0.01, 1), min_size=8, max_size=8),
    kind=st.sampled_from(["distribution", "stated", "bare"]),
    pick=st.integers(0, 9),
)
def test_what_a_number_says_of_its_facts_never_contradicts_itself(
    number: int, exact: bool, weights: list[float], kind: str, pick: int
) -> None:
    facts = of_class(balls(number, exact))
    counted = facts[0].counted
    assert counted is not None
    assert all(fact.counted == counted for fact in facts)
    options = counted.options
    shares = {o: w / sum(weights[: len(options)]) for o, w in zip(options, weights, strict=False)}
    choice = max(shares, key=lambda o: shares[o])
    if kind != "distribution":
        choice = options[pick % len(options)]
    answer = Answer(
        fact_id=counted.id,
        judge_id="j",
        state="yes" if choice == counted.expected else "no",
        choice=choice,
        probability=None
        if kind == "bare"
        else shares[counted.expected]
        if kind == "distribution"
        else (0.9 if choice == counted.expected else 0.02),
        distribution=shares if kind == "distribution" else None,
    )
    told = [by_number(fact, counted, answer) for fact in facts]
    assert all(
        (a.choice == f.expected) == (a.state == "yes") for f, a in zip(facts, told, strict=True)
    )
    there = [a.choice == "yes" for a in told]
    assert there == sorted(there, reverse=True)
    if kind != "bare":
        likely = [a.probability or 0.0 for a in told[:number]]
        assert all(a >= b - 1e-9 for a, b in pairwise(likely))
        assert all((a.probability or 0) >= 0.5 - 1e-9 for a in told if a.state == "yes")
    else:
        assert sum(there) == options.index(choice)


def test_a_failure_is_the_failure_of_every_fact() -> None:
    facts = of_class(balls(2, exact=True))
    counted = facts[0].counted
    assert counted is not None
    failed = Answer(fact_id=counted.id, judge_id="j", state="unscored", reason="busy")
    told = [by_number(fact, counted, failed) for fact in facts]
    assert [(a.state, a.reason) for a in told] == [("unscored", "busy")] * 3
    assert [a.fact_id for a in told] == [fact.id for fact in facts]


@pytest.mark.parametrize(
    ("states", "decided", "absent"),
    [
        (["yes", "yes", "yes", "yes"], "o:ball.2", 0),
        (["yes", "yes", "no", "void"], "o:ball.3", 1),
        (["no", "no", "no", "void"], "o:ball.1", 3),
        (["yes", "yes", "yes", "no"], number_fact_id("ball", 3), 0),
        (["yes", "yes", "unscored", "unscored"], "o:ball.3", 0),
    ],
)
def test_a_group_is_one_line_and_says_how_many_are_absent(
    states: list[str], decided: str, absent: int
) -> None:
    scene = balls(3, exact=True)
    facts = facts_of(scene)
    said = dict(zip([fact.id for fact in of_class(scene)], states, strict=True))
    likely = {"o:ball.2": 0.6, "o:ball.3": 0.8}
    verdicts = {
        fact.id: Verdict(
            fact_id=fact.id,
            state=(state := said.get(fact.id, "yes")),
            probability={"no": 0.1, "yes": likely.get(fact.id, 0.9)}.get(state),
        )
        for fact in facts
    }
    (line,) = (line for line in in_lines(facts) if len(line.facts) == 4)
    assert line.fact.statement == "exactly 3 balls"
    assert line.fact.question == "How many balls are there in the image?"
    assert line.decided(verdicts).id == decided
    card = ScoreCard.of(facts, verdicts.values())
    missing = missing_graph(scene, facts, card.verdicts)
    assert sum(item.name == "ball" for item in missing.objects) == absent
    assert [fact.id for line in in_lines(facts) for fact in line.facts if fact.id in said] == [
        *said
    ]


def test_facts_of_before_are_lines_of_their_own_and_large_numbers_are_asked_apart() -> None:
    facts = of_class(balls(2, exact=False))
    old = [Fact.model_validate(f.model_dump(exclude={"counting"})) for f in facts]
    assert [line.fact for line in in_lines(old)] == old
    assert "counting" not in old[0].model_dump()
    many = of_class(balls(40, exact=False))
    assert many[0].counted is None
    assert len(in_lines(many)) == 1
