"""Several instances of a class: facts count them, and what holds says which of them is absent."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from scenewright.agents.panel.panel import Panel, next_wave, void_verdicts
from scenewright.core.facts import (
    Answer,
    Fact,
    FactError,
    ScoreCard,
    State,
    Verdict,
    assign_verdicts,
    missing_graph,
    resolve_verdicts,
)
from scenewright.core.questions import PROTOCOLS, Protocol, facts_of, object_fact_id
from scenewright.core.referring import distinguishing_keys, instance_order
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.graphs.correcting import apply_missing_graph
from scenewright.providers import fact_digest


def thing(id_: str, **attributes: str) -> SceneObject:
    return SceneObject(id=id_, name=id_.partition(".")[0], attributes=attributes)


def scene(objects: Sequence[SceneObject], *relations: str) -> SceneGraph:
    return SceneGraph(
        objects=tuple(objects),
        relations=tuple(
            Relation(source=s, predicate=p, target=t)
            for s, p, t in (relation.split("|") for relation in relations)
        ),
    )


GUITARIST = scene(
    [thing("person.1"), thing("person.2"), thing("guitar.1")], "person.2|playing|guitar.1"
)
RIDER_AND_PLAYER = scene(
    [thing("person.1"), thing("person.2"), thing("horse.1"), thing("guitar.1")],
    "person.1|riding|horse.1",
    "person.2|playing|guitar.1",
)


def said(fact: Fact, state: State, probability: float | None = None) -> Verdict:
    likely = {"yes": 0.9, "no": 0.1}.get(state) if probability is None else probability
    return Verdict(fact_id=fact.id, state=state, probability=likely, n_scored=1)


def judged(graph: SceneGraph, denied: Sequence[str]) -> tuple[tuple[Fact, ...], list[Verdict]]:
    """The verdicts of a run: a fact is no if its question holds one of ``denied``."""
    facts = facts_of(graph)
    known: dict[str, Verdict] = {}
    while wave := next_wave(facts, known):
        for fact in wave:
            text = f"{fact.question} {fact.expected}"
            state: State = "no" if any(word in text for word in denied) else "yes"
            known[fact.id] = said(fact, state)
        known |= {verdict.fact_id: verdict for verdict in void_verdicts(facts, known)}
    return facts, [known[fact.id] for fact in facts]


def test_the_guitarist_that_is_there_is_not_asked_for() -> None:
    facts, verdicts = judged(GUITARIST, ["at least 2 persons"])
    card = ScoreCard.of(facts, verdicts)
    assert card.relations.value == 1.0, "the relation was asked, and holds"
    missing = missing_graph(GUITARIST, facts, card.verdicts)
    assert [item.id for item in missing.objects] == ["person.1"]
    assert not missing.relations


def test_the_absent_instance_is_the_one_of_which_less_holds() -> None:
    facts, verdicts = judged(RIDER_AND_PLAYER, ["at least 2 persons", "riding", "horse"])
    missing = missing_graph(RIDER_AND_PLAYER, facts, verdicts)
    assert {item.id for item in missing.objects} == {"person.1", "horse.1"}
    assert [str(relation) for relation in missing.relations] == ["person.1 riding horse.1"]
    facts, verdicts = judged(RIDER_AND_PLAYER, ["at least 2 persons", "playing", "guitar"])
    missing = missing_graph(RIDER_AND_PLAYER, facts, verdicts)
    assert {item.id for item in missing.objects} == {"person.2", "guitar.1"}


def test_nothing_of_a_class_is_asked_that_is_not_there_at_all() -> None:
    facts, verdicts = judged(GUITARIST, ["person"])
    states = {verdict.fact_id: verdict.state for verdict in verdicts}
    assert states["r:person.2|playing|guitar.1"] == "void"
    missing = missing_graph(GUITARIST, facts, verdicts)
    assert {item.id for item in missing.objects} == {"person.1", "person.2", "guitar.1"}


def test_the_busiest_instance_is_counted_first() -> None:
    assert instance_order(GUITARIST, "person") == ("person.2", "person.1")
    facts = {fact.id: fact for fact in facts_of(GUITARIST)}
    assert facts["o:person.2"].question == "Is there a person in the image?"
    assert facts["o:person.1"].question == "Are there at least 2 persons in the image?"
    assert facts["r:person.2|playing|guitar.1"].parents == ("o:person.2", "o:guitar.1")


def test_a_relation_between_two_of_a_class_needs_two() -> None:
    pair = scene([thing("dog.1"), thing("dog.2")], "dog.1|facing|dog.2")
    facts, verdicts = judged(pair, ["at least 2 dogs"])
    assert facts[-1].parents == ("o:dog.1", "o:dog.2")
    assert verdicts[-1].state == "void"


def test_what_cannot_be_told_apart_holds_once() -> None:
    """Two riders are asked for, one is there: the second relation asks for two of them."""
    riders = scene(
        [thing("person.1"), thing("person.2"), thing("horse.1"), thing("horse.2")],
        "person.1|riding|horse.1",
        "person.2|riding|horse.2",
    )
    facts, verdicts = judged(riders, ["at least 2"])
    card = ScoreCard.of(facts, verdicts)
    assert (card.relations.yes, card.relations.no) == (1, 1)
    missing = missing_graph(riders, facts, card.verdicts)
    assert len(missing.objects) == 2
    assert len(missing.relations) == 1
    ends = {missing.relations[0].source, missing.relations[0].target}
    assert ends == {item.id for item in missing.objects}
    assert dict(resolve_verdicts(facts, {v.fact_id: v for v in card.verdicts})) == {
        v.fact_id: v for v in card.verdicts
    }


def test_attributes_that_are_shared_are_counted_as_well() -> None:
    """One red dog that holds a ball: the other red dog is absent, with its colour."""
    dogs = scene(
        [thing("dog.1", color="red"), thing("dog.2", color="red"), thing("ball.1")],
        "dog.2|holding|ball.1",
    )
    facts, verdicts = judged(dogs, ["at least 2"])
    missing = missing_graph(dogs, facts, verdicts)
    assert [item.id for item in missing.objects] == ["dog.1"]
    assert missing.objects[0].attributes["color"] == "red"
    card = ScoreCard.of(facts, verdicts)
    assert (card.attributes.yes, card.attributes.void) == (1, 1)


def test_nothing_changes_where_all_or_single_instances_are_there() -> None:
    for denied in ([], ["guitar"]):
        facts, verdicts = judged(GUITARIST, denied)
        by_id = {verdict.fact_id: verdict for verdict in verdicts}
        assert resolve_verdicts(facts, by_id) == by_id
    single = scene([thing("dog.1"), thing("ball.1")], "dog.1|holding|ball.1")
    facts, verdicts = judged(single, ["dog"])
    assert assign_verdicts(facts, {verdict.fact_id: verdict for verdict in verdicts}) == {}


def test_an_instance_nobody_could_judge_is_not_missing() -> None:
    facts, verdicts = judged(GUITARIST, [])
    open_ = Verdict(fact_id="o:person.1", state="unscored", reason="refused")
    verdicts = [open_ if v.fact_id == "o:person.1" else v for v in verdicts]
    assert not missing_graph(GUITARIST, facts, verdicts)


def test_a_persons_word_is_kept() -> None:
    facts, verdicts = judged(RIDER_AND_PLAYER, ["at least 2 persons"])
    by_id = {verdict.fact_id: verdict for verdict in verdicts}
    ride = "r:person.1|riding|horse.1"
    by_id[ride] = Verdict(fact_id=ride, state="yes")
    kept = resolve_verdicts(facts, by_id)
    assert kept[ride].state == "yes"
    assert kept["r:person.2|playing|guitar.1"].state == "void"


@pytest.mark.parametrize("states", list(itertools.product(("yes", "no"), repeat=5)))
def test_most_facts_hold(states: tuple[State, ...]) -> None:
    """No other set of instances would let more facts hold (all cases of two classes)."""
    graph = scene(
        [thing("person.1"), thing("person.2"), thing("horse.1")],
        "person.1|riding|horse.1",
        "person.2|feeding|horse.1",
    )
    facts = facts_of(graph)
    by_id = {f.id: said(f, state) for f, state in zip(facts, states, strict=True)}
    kept = resolve_verdicts(facts, by_id)
    there = sum(by_id[f"o:person.{n}"].state == "yes" for n in (1, 2))
    yes = [f for f in facts if f.kind == "relation" and by_id[f.id].state == "yes"]
    best = max(
        sum(f.subject in chosen for f in yes)
        for chosen in itertools.combinations(("person.1", "person.2"), there)
    )
    assert sum(kept[f.id].state == "yes" for f in yes) == best


def test_strict_facts_have_no_parents_and_are_never_void() -> None:
    facts = facts_of(RIDER_AND_PLAYER, "scene-bench")
    assert not any(fact.parents for fact in facts)
    assert next_wave(facts, {}) == facts, "one wave"
    none = {fact.id: said(fact, "no") for fact in facts if fact.kind == "object"}
    assert void_verdicts(facts, none) == []
    assert [f.question for f in facts[:2]] == ["Is there a person in the image?"] * 2
    answers = [
        Answer(fact_id=fact.id, judge_id="a", state="yes" if fact.kind == "relation" else "no",
               choice=fact.expected if fact.kind == "relation" else "no")
        for fact in facts
    ]  # fmt: skip
    card = ScoreCard.of(facts, Panel().verdicts(facts, {"a": answers}))
    assert card.sgscore == 0.5, "a relation that is right counts though its objects were missed"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_dependencies_are_told_under_every_protocol(protocol: Protocol) -> None:
    facts = facts_of(GUITARIST, protocol)
    found = {fact.id: fact.depends_on for fact in facts}
    for fact in facts:
        ends = [end for end in (fact.subject, fact.target) if end is not None]
        wanted = [] if fact.kind == "object" else [object_fact_id(end) for end in ends]
        assert list(found[fact.id]) == wanted
    # They gate where the protocol says so, and nowhere else.
    gated = {fact.id: fact.parents for fact in facts}
    assert gated == (found if protocol == "grounded" else dict.fromkeys(found, ()))


@pytest.mark.parametrize("graph", [GUITARIST, RIDER_AND_PLAYER])
def test_no_dependency_changes_a_strict_verdict(graph: SceneGraph) -> None:
    """Every set of answers gives the verdicts that were said, also of unsure objects."""
    facts = facts_of(graph, "scene-bench")
    for said_yes in itertools.product((0.0, 0.45, 1.0), repeat=len(facts)):
        verdicts = {
            fact.id: said(fact, "yes" if p > 0.5 else "no", p)
            for fact, p in zip(facts, said_yes, strict=True)
        }
        assert ScoreCard.of(facts, verdicts.values()).verdicts == tuple(verdicts.values())


def test_both_protocols_share_the_answers_to_the_same_question() -> None:
    strict, house = facts_of(GUITARIST, "scene-bench"), facts_of(GUITARIST)
    assert fact_digest(strict[0]) == fact_digest(house[1])
    assert fact_digest(strict[2]) == fact_digest(house[2])


def test_verdicts_without_facts_are_still_refused() -> None:
    facts, verdicts = judged(GUITARIST, [])
    with pytest.raises(FactError, match="missing"):
        ScoreCard.of(facts, verdicts[1:])


def test_a_person_takes_the_absent_instance_out_of_what_is_missing() -> None:
    """Facts count: who finds the rider says that one person more is there."""
    facts, verdicts = judged(RIDER_AND_PLAYER, ["at least 2 persons", "riding"])
    by_id = {verdict.fact_id: verdict for verdict in verdicts}
    own = missing_graph(RIDER_AND_PLAYER, facts, verdicts)
    assert {item.id for item in own.objects} == {"person.1", "horse.1"}
    tells = assign_verdicts(facts, by_id)
    assert (tells["o:person.1"], tells["o:person.2"]) == ("o:person.2", "o:person.1")
    states = {fact_id: verdict.state for fact_id, verdict in by_id.items()}
    _, said = apply_missing_graph(own, SceneGraph(), RIDER_AND_PLAYER, states, tells)
    assert said == {"o:person.2": "yes", "r:person.1|riding|horse.1": "yes"}
    all_there = {**by_id, **{id_: Verdict(fact_id=id_, state="yes") for id_ in said}}
    assert not missing_graph(RIDER_AND_PLAYER, facts, list(all_there.values()))


def test_a_person_denies_one_of_several_instances() -> None:
    facts, verdicts = judged(RIDER_AND_PLAYER, [])
    by_id = {verdict.fact_id: verdict for verdict in verdicts}
    states = {fact_id: verdict.state for fact_id, verdict in by_id.items()}
    seen = scene([thing("person.2")])
    tells = assign_verdicts(facts, by_id)
    _, said = apply_missing_graph(SceneGraph(), seen, RIDER_AND_PLAYER, states, tells)
    after = by_id | {
        id_: Verdict.model_validate({"fact_id": id_, "state": state}) for id_, state in said.items()
    }
    missing = missing_graph(RIDER_AND_PLAYER, facts, list(after.values()))
    assert "person.2" in {item.id for item in missing.objects}
    assert "person.1" not in {item.id for item in missing.objects}


DOGS = scene(
    [thing("dog.1", color="red"), thing("dog.2", color="blue"), thing("ball.1")],
    "dog.1|left of|ball.1",
)


def with_likelihoods(graph: SceneGraph, **likely: float) -> tuple[tuple[Fact, ...], ScoreCard]:
    """The card of a run in which facts (by a part of their question) have those probabilities, and
    all others .9."""
    facts = facts_of(graph)
    known: dict[str, Verdict] = {}
    while wave := next_wave(facts, known):
        for fact in wave:
            p = next((p for word, p in likely.items() if word in fact.question), 0.9)
            known[fact.id] = said(fact, "yes" if p > 0.5 else "no", p)
        known |= {verdict.fact_id: verdict for verdict in void_verdicts(facts, known)}
    return facts, ScoreCard.of(facts, known.values())


@pytest.mark.parametrize(
    ("ball", "relation", "state", "of_relation"),
    [
        (0.3, 0.9, "yes", "yes"),  # The mean is above one half.
        (0.3, 0.6, "no", "void"),
        (0.3, 0.2, "no", "void"),
        (0.25, 0.9, "no", "void"),  # Surely absent: the relation is not asked.
        (0.6, 0.2, "yes", "no"),
    ],
)
def test_an_unsure_object_is_there_if_what_is_said_of_it_is_found(
    ball: float, relation: float, state: State, of_relation: State
) -> None:
    graph = scene([thing("dog.1"), thing("ball.1")], "dog.1|left of|ball.1")
    facts, card = with_likelihoods(graph, **{"there a ball": ball, "relationship": relation})
    found = {verdict.fact_id: verdict for verdict in card.verdicts}
    assert found["o:ball.1"].state == state
    assert found[facts[-1].id].state == of_relation
    assert found["o:dog.1"].state == "yes"
    if (ball, state) == (0.3, "yes"):
        assert found["o:ball.1"].probability == pytest.approx((ball + relation) / 2)
        assert found["o:ball.1"].reason == f"shown by {facts[-1].id}"
        assert not missing_graph(graph, facts, card.verdicts)
    assert resolve_verdicts(facts, found) == found, "settling twice changes nothing"
    assert ScoreCard.of(facts, card.verdicts) == card


def test_two_that_are_told_apart_show_that_there_are_two() -> None:
    few = {"at least 2": 0.3}
    _, card = with_likelihoods(DOGS, **few)
    assert [v.state for v in card.verdicts[:2]] == ["yes", "yes"]
    assert card.verdicts[1].reason == "shown by a:dog.1:color, a:dog.2:color"
    _, card = with_likelihoods(DOGS, **few, **{"blue dog": 0.6})
    assert [v.state for v in card.verdicts[:2]] == ["yes", "no"], "the least likely one counts"
    _, card = with_likelihoods(DOGS, **few, **{"blue dog": 0.1})
    assert [v.state for v in card.verdicts[:2]] == ["yes", "no"]
    _, card = with_likelihoods(DOGS, **{"at least 2": 0.1})
    assert [v.state for v in card.verdicts[:2]] == ["yes", "no"]


def test_a_persons_no_and_the_questions_of_sets_are_not_unsure() -> None:
    facts = facts_of(DOGS)
    by_hand = {"o:ball.1": Verdict(fact_id="o:ball.1", state="no")}
    assert [v.fact_id for v in void_verdicts(facts, by_hand)] == [facts[-1].id]
    parent = Fact(id="1", kind="object", subject="dog", statement="dog", question="A dog?")
    child = parent.model_copy(update={"id": "2", "kind": "attribute", "parents": ("1",)})
    denied = {"1": said(parent, "no", 0.45)}
    assert [v.fact_id for v in void_verdicts([parent, child], denied)] == ["2"]
    found = denied | {"2": said(child, "yes", 0.9)}
    assert resolve_verdicts([parent, child], found) == found


def test_facts_of_before_with_a_second_question_are_read() -> None:
    fact = facts_of(DOGS)[-1]
    stored = fact.model_dump(mode="json") | {"by_label": "What is the relationship between …?"}
    assert Fact.model_validate(stored) == fact


def test_of_too_many_attribute_sets_a_needed_one_is_named() -> None:
    """Told from each of 40 others by another attribute: no fewer than all 40 keys do."""
    values = {f"k{at:02}": f"v{at}" for at in range(40)}
    whole = SceneObject(id="x", name="dog", attributes=Attributes(values))
    others = [
        SceneObject(
            id=f"y{lost}",
            name="dog",
            attributes=Attributes({k: v for k, v in values.items() if k != lost}),
        )
        for lost in values
    ]
    assert distinguishing_keys(SceneGraph(objects=(whole, *others)), whole) == tuple(values)
    # Keys that tell nothing are left out.
    few = SceneGraph(objects=(whole, *others[20:]))
    assert distinguishing_keys(few, whole) == tuple(values)[20:]
    assert distinguishing_keys(few, others[-1]) is None
