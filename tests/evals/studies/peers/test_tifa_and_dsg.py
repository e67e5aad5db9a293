"""TIFA and DSG: what counts, what is void, what is asked, and that nothing is lost in silence."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.core.facts import Answer, Fact
from scenewright.core.questions import facts_of
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.annotation.panel_queries import TextModel
from scenewright.evals.datasets.base import Item
from scenewright.evals.metrics.base import ItemMetric, MetricError, MetricScore, Sample
from scenewright.evals.metrics.registry import metric_of
from scenewright.evals.store.ledger import Ledger
from scenewright.evals.studies.panel.table import AnswerTable, FactRow, ImageRow, JudgeColumn
from scenewright.evals.studies.peers.panel_metric import MetricJudges
from scenewright.evals.studies.peers.question_metrics import (
    Dsg,
    Tifa,
    dsg_score,
    tifa_score,
    void_rows,
)
from scenewright.evals.studies.peers.questions import (
    ItemQuestions,
    QuestionSource,
    TifaMaker,
    dealt,
)
from scenewright.providers import AnswerStore
from scenewright.providers.usage import Usage, count
from tests.agents.replying import ReplyingChat
from tests.doubles import ScriptedJudge, painted

NAN = float("nan")
SCENE = SceneGraph(
    objects=(
        SceneObject(id="dog.1", name="dog", attributes=Attributes({"color": "red"})),
        SceneObject(id="ball.1", name="ball"),
    )
)


def fact(id_: str, *parents: str, options: tuple[str, ...] = ("yes", "no"), key: str = "") -> Fact:
    return Fact(
        id=id_,
        kind="object",
        subject=id_,
        key=key or None,
        parents=parents,
        statement=id_,
        question=f"Is it {id_}?",
        options=options,
        expected=options[0],
    )


CHAIN = (fact("a"), fact("b", "a"), fact("c", "b"), fact("d"))


def judge(name: str, *no: str, silent: Sequence[str] = ()) -> ScriptedJudge:
    """Denies the facts ``no``, and says nothing usable of ``silent``."""

    def behave(me: ScriptedJudge, facts: Sequence[Fact], answers: list[Answer]) -> list[Answer]:
        return [
            Answer(fact_id=f.id, judge_id=me.id, state="unscored", reason="mumbled")
            if f.id in silent
            else answer
            for f, answer in zip(facts, answers, strict=True)
        ]

    return ScriptedJudge(name, level=lambda f: 255 if f.id in no else -1, behave=behave)


def bench(*judges: ScriptedJudge, aggregator: str = "mean") -> MetricJudges:
    return MetricJudges(judges, AnswerStore(None), aggregator)


def sample(**item: object) -> Sample:
    image = painted((8, 8))
    about = Item.model_validate({"id": "x", "image": "x.jpg", **item})
    return Sample(item=about, prompt="", image="f" * 64, load=lambda: image)


def scored(metric: ItemMetric, **item: object) -> MetricScore:
    return asyncio.run(metric.score(sample(**item)))


def test_choices_count_and_each_voter_has_its_own_score() -> None:
    facts = (fact("a", key="animal"), fact("b", key="animal"), fact("c", key="color"))
    metric = Tifa(bench(judge("one", "a"), judge("two", "a", "b")), QuestionSource())
    found = scored(metric, facts=facts)
    assert isinstance(metric, ItemMetric)
    assert found.parts["judge:scripted:one"] == pytest.approx(2 / 3)
    assert found.parts["judge:scripted:two"] == pytest.approx(1 / 3)
    # Two judges' choices: 0, 1/2 and 1 of the three questions.
    assert found.value == found.parts["aggregator:mean"] == pytest.approx(0.5)
    assert found.parts["type:animal"] == pytest.approx(0.25)
    assert found.parts["type:color"] == 1.0
    assert (found.parts["facts"], found.parts["dropped"]) == (3.0, 0.0)
    one = judge("one", "a")
    soft = scored(Tifa(bench(one), QuestionSource(), "probabilities"), facts=facts)
    said = [one._answer(each, 0).probability or 0.0 for each in facts]
    assert soft.value == pytest.approx(np.mean(said))
    assert soft.value != scored(Tifa(bench(one), QuestionSource()), facts=facts).value


def test_questions_that_could_not_be_written_keep_their_cost(tmp_path: Path) -> None:
    def paid(messages: object) -> str:
        count(Usage(500, 40), 0.25, 1.0)
        return "no idea"

    chat = ReplyingChat(replies=paid)
    with Ledger(tmp_path / "q.db") as ledger:
        asker = QuestionSource("chat", TifaMaker(ledger, TextModel("replying", chat)))
        metric = Tifa(bench(judge("one")), asker)
        found = asyncio.run(metric.score(sample(prompt="a dog")))
        again = asyncio.run(metric.score(sample(prompt="a dog")))
    assert found.value is None
    assert "wrote no questions" in found.reason
    # The model was asked twice, each time: each score has its own.
    assert (found.tokens_in, found.tokens_out, found.usd) == (1000, 80, 0.5)
    assert (again.tokens_in, again.tokens_out, again.usd) == (1000, 80, 0.5)


def test_an_unscored_answer_is_left_out() -> None:
    facts = (fact("a"), fact("b"))
    found = scored(Tifa(bench(judge("one", "b", silent=["a"])), QuestionSource()), facts=facts)
    assert (found.value, found.parts["unscored"]) == (0.0, 1.0)
    lost = scored(Tifa(bench(judge("one", silent=["a", "b"])), QuestionSource()), facts=facts)
    assert (lost.value, lost.reason) == (None, "mumbled")
    assert lost.parts["unscored"] == 2.0
    assert (
        scored(Dsg(bench(judge("one", silent=["a", "b"])), QuestionSource()), facts=facts).value
        is None
    )


def test_children_of_what_a_voter_denies_are_void_for_it_alone() -> None:
    found = scored(Dsg(bench(judge("one", "a"), judge("two", "b"), judge("all")), QuestionSource()),
                   facts=CHAIN)  # fmt: skip
    assert found.parts["judge:scripted:one"] == pytest.approx(1 / 4)
    assert found.parts["judge:scripted:two"] == pytest.approx(2 / 4)
    assert found.parts["judge:scripted:all"] == 1.0
    # Two of three judges confirm each fact: nothing is void for the mean.
    assert found.value == pytest.approx((2 / 3 + 2 / 3 + 1 + 1) / 4)
    assert found.parts["void"] == 0.0
    alone = scored(Dsg(bench(judge("one", "a")), QuestionSource()), facts=CHAIN)
    assert (alone.value, alone.parts["void"], alone.parts["kind:object"]) == (0.25, 2.0, 0.25)
    assert alone.parts["kind:relation"] is None


def test_an_unscored_parent_voids_nothing_and_a_void_child_counts() -> None:
    assert dsg_score(CHAIN, np.array([NAN, 1.0, 1.0, 0.0])) == pytest.approx(2 / 3)
    # b was not answered, and is void all the same: a is denied.
    assert dsg_score(CHAIN, np.array([0.0, NAN, 1.0, 1.0])) == pytest.approx(1 / 4)
    assert dsg_score(CHAIN, np.full(4, NAN)) is None
    assert tifa_score(np.full(4, NAN)) is None


@st.composite
def graphs(draw: st.DrawFn) -> tuple[tuple[Fact, ...], list[float]]:
    n = draw(st.integers(1, 7))
    facts = []
    for at in range(n):
        parents = draw(st.sets(st.integers(0, at - 1), max_size=2)) if at else set()
        facts.append(fact(str(at), *(str(parent) for parent in sorted(parents))))
    said = draw(st.lists(st.sampled_from([0.0, 0.3, 0.5, 0.8, 1.0, NAN]), min_size=n, max_size=n))
    return tuple(facts), said


@given(graphs())
def test_the_score_is_that_of_the_table(given: tuple[tuple[Fact, ...], list[float]]) -> None:
    """One rule in both places: studies of a table and the metric void the same facts."""
    facts, said = given
    table = AnswerTable(
        "t",
        (JudgeColumn("j"),),
        (ImageRow("i", "i"),),
        tuple(FactRow(f.id, 0, parents=tuple(map(int, f.parents))) for f in facts),
        np.array(said)[:, None],
    )
    found = dsg_score(facts, np.array(said))
    expected = table.image_scores(np.array(said))[0]
    if np.isnan(said).all():
        assert found is None
    else:
        assert found == pytest.approx(expected)
        assert set(void_rows(facts, np.array(said))) <= set(
            np.flatnonzero(table.voided(np.array(said)) == 0.0).tolist()
        )


def test_whose_questions_are_asked() -> None:
    class Writer:
        fingerprint = "w1"
        calls = 0

        async def make(self, about: str) -> ItemQuestions:
            self.calls += 1
            if about == "nothing":
                return ItemQuestions((), "chat", {"question without words": 2})
            if about == "broken":
                raise MetricError("the model is away")
            return ItemQuestions((fact("written"),), "chat", {"number left out": 1})

    writer = Writer()

    def ids(asker: QuestionSource, **item: object) -> tuple[str, ...]:
        return tuple(f.id for f in asyncio.run(asker.of(sample(**item))).facts)

    own = {"facts": (fact("own"),), "prompt": "a dog", "scene": SCENE}
    rest = {"prompt": "a dog", "scene": SCENE}
    assert ids(QuestionSource("auto", writer), **own) == ("own",)
    assert ids(QuestionSource("auto", writer), **rest) == ("written",)
    assert ids(QuestionSource("chat", writer), **own) == ("written",)
    assert ids(QuestionSource("auto"), scene=SCENE) == ("o:dog.1", "o:ball.1", "a:dog.1:color")
    assert ids(QuestionSource("scene"), **own) == ("o:dog.1", "o:ball.1", "a:dog.1:color")
    # One item is asked about once, whatever the number of its pictures.
    one = QuestionSource("auto", writer)
    before = writer.calls
    assert ids(one, **rest) == ids(one, **rest)
    assert writer.calls == before + 1

    metric = Tifa(bench(judge("one")), one)
    assert scored(metric, **rest).parts["dropped:number left out"] == 1.0
    told = {
        "nothing": "no question about the text was left: question without words (2)",
        "broken": "the model is away",
    }
    for about, why in told.items():
        assert scored(metric, prompt=about).reason == why
    assert "brings no questions" in scored(Tifa(bench(judge("one")), QuestionSource("item"))).reason
    assert (
        "neither questions nor a scene"
        in scored(Tifa(bench(judge("one")), QuestionSource())).reason
    )
    assert "no text" in scored(metric).reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"questions": "mine"}, "questions"),
        ({"questions": "chat"}, r'chat = "ACCOUNT:MODEL"'),
        ({"count": "votes"}, "count"),
        ({"protocol": "own"}, "protocol"),
        ({"chat": "nobody:model"}, "nobody"),
        ({"chat": 3}, "chat"),
    ],
)
@pytest.mark.parametrize("name", ["tifa", "dsg"])
def test_wrong_options_are_named(
    name: str, options: dict[str, object], message: str, tmp_path: Path
) -> None:
    record = tmp_path / "said.csv"
    record.write_text(f"image,question,answer\n{'f' * 64},Is it a?,yes\n")
    usual = {"folder": str(tmp_path), "judges": f"replay:{record}"}
    assert metric_of(name, usual).name == name
    with pytest.raises(MetricError, match=message):
        metric_of(name, {**usual, **options})
    for wrong in ({"filter": "some", "chat": "openai:gpt-4.1-mini"}, {"order": "reversed"}):
        with pytest.raises(MetricError):
            metric_of("tifa", {**usual, **wrong})


def test_choices_are_dealt_by_the_question_alone() -> None:
    many = [fact(str(at), options=("right", "b", "c", "d")) for at in range(200)]
    first = [dealt(one).options.index("right") for one in many]
    # Each place about as often as the others: 50 ± 4 standard deviations.
    assert all(25 <= first.count(place) <= 75 for place in range(4))
    turned = many[0].model_copy(update={"options": ("d", "right", "c", "b")})
    assert dealt(turned).options == dealt(many[0]).options
    assert dealt(fact("a")) == fact("a")


def test_the_version_tells_what_decides_a_score() -> None:
    asked = bench(judge("one"))
    versions = {
        Tifa(asked, QuestionSource()).version,
        Tifa(asked, QuestionSource(shuffled=True)).version,
        Tifa(asked, QuestionSource("scene")).version,
        Tifa(asked, QuestionSource(protocol="grounded")).version,
        Tifa(asked, QuestionSource(), "probabilities").version,
        Tifa(bench(judge("two")), QuestionSource()).version,
    }
    assert len(versions) == 6
    assert Tifa(asked, QuestionSource()).version == Tifa(asked, QuestionSource()).version


def test_facts_of_a_scene_keep_the_order_of_their_protocol() -> None:
    two = SCENE.model_copy(
        update={"relations": (Relation(source="dog.1", predicate="on", target="ball.1"),)}
    )
    found = asyncio.run(QuestionSource("scene", shuffled=True).of(sample(scene=two)))
    assert found.facts == facts_of(two, "scene-bench")
    assert not found.facts[-1].is_binary
    many = fact("a", options=("right", "b", "c", "d"))
    own = asyncio.run(QuestionSource("item", shuffled=True).of(sample(facts=(many,))))
    assert own.facts == (dealt(many),)
