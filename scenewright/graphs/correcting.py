"""What an edit means: from a person's words to what is asked, what is known, what is kept.

All of it is worked out from the run's events, before anything is changed: an edit that does not
fit raises :class:`EditError` and leaves no trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from scenewright.core.facts import Fact, ScoreCard, State, missing_graph, told_by
from scenewright.core.questions import QuestionForm, object_fact_id
from scenewright.core.scene import SceneGraph
from scenewright.graphs.differences import seen_differently
from scenewright.graphs.edits import Corrected, Edit, EditError
from scenewright.graphs.events import Edited, Event, Generated, Judged, RunStarted
from scenewright.graphs.run_status import RequestedScene, correction_of, scene_in_round, scenes_of
from scenewright.graphs.state import improves


@dataclass(frozen=True, slots=True)
class ReviewContext:
    """What a run shows to a person: its pictures, what was found in them, and which is kept."""

    scenes: tuple[RequestedScene, ...]
    """What was asked, oldest first."""
    drawn: frozenset[int]
    """Rounds whose candidate is there."""
    cards: Mapping[int, ScoreCard]
    """The loop's card of each judged round."""
    kept: int | None
    """The round that is kept; none before the first card."""

    @classmethod
    def at(cls, events: Iterable[Event]) -> ReviewContext:
        """What ``events`` show, oldest first."""
        events = list(events)
        drawn = frozenset(
            event.round
            for event in events
            if isinstance(event, Generated) and event.purpose == "candidate"
        )
        cards = {
            event.round: event.card
            for event in events
            if isinstance(event, Judged) and event.role == "loop"
        }
        return cls(scenes_of(events), drawn, cards, kept_round(events))


def kept_round(events: Iterable[Event]) -> int | None:
    """The round of the candidate that a loop keeps so far: a person's correction takes the place
    of all that was before it, then each candidate that is better. None before the first card."""
    best: tuple[int, ScoreCard] | None = None
    facts: Sequence[Fact] = ()
    corrected: set[int] = set()
    for event in events:
        if isinstance(event, RunStarted | Edited):
            facts = event.facts
        if isinstance(event, Edited) and event.corrects:
            corrected.add(event.round)
        if isinstance(event, Judged) and event.role == "loop":
            first = best is None or event.round in corrected
            if first or (best is not None and improves(event.card, best[1], facts)):
                best = (event.round, event.card)
    return None if best is None else best[0]


def edited(
    edit: Edit,
    events: Sequence[Event],
    form: QuestionForm,
    number: int,
    at: float,
) -> Edited:
    """What ``edit`` does to the run that ``events`` tell of, as the event ``edit:<number>``.

    ``form`` is how the run asks.

    Raises ``EditError`` if it does not fit the run.
    """
    looked = ReviewContext.at(events)
    base, card = _base(edit, looked)
    scene = edit.scene if edit.scene is not None else looked.scenes[-1].scene
    if not scene:
        raise EditError("the scene of the edit has no objects: name at least one, or leave it out")
    before = scene_in_round(looked.scenes, base)
    said: dict[str, Corrected] = {}
    tells = told_by(before.facts, {verdict.fact_id: verdict for verdict in card.verdicts})
    if edit.missing is not None:
        own = missing_graph(before.scene, before.facts, card.verdicts)
        scene, said = seen_differently(own, edit.missing, scene, _states(card), tells)
    try:
        facts = form.facts(scene)
    except ValueError as error:
        raise EditError(f"the scene of the edit cannot be asked for: {error}") from error
    _known(edit.verdicts, facts)
    new = {**said, **edit.verdicts}
    carried = _carried(events, base, before.scene, scene, facts)
    verdicts = _consistent(new, carried, facts, tells)
    corrects = bool(new) or scene != looked.scenes[-1].scene or base != looked.kept
    newest = max(looked.drawn)
    return Edited(
        key=f"edit:{number}",
        at=at,
        edit_key=edit.key,
        round=newest + 1 if corrects else newest,
        base=base,
        scene=scene,
        facts=facts,
        verdicts=verdicts if corrects else {},
        corrects=corrects,
        rounds=edit.rounds,
        note=edit.note,
    )


def _base(edit: Edit, looked: ReviewContext) -> tuple[int, ScoreCard]:
    base = edit.base if edit.base is not None else looked.kept
    judged = ", ".join(str(round) for round in sorted(looked.cards))
    if base is None:
        raise EditError("no picture of the run was judged yet: let it go on, and edit it then")
    if base not in looked.drawn:
        raise EditError(f"there is no round {base} in the run: go on from one of {judged}")
    if base not in looked.cards:
        raise EditError(f"the picture of round {base} was never judged: go on from one of {judged}")
    return base, looked.cards[base]


def _states(card: ScoreCard) -> dict[str, State]:
    return {verdict.fact_id: verdict.state for verdict in card.verdicts}


def _known(verdicts: Iterable[str], facts: Sequence[Fact]) -> None:
    """``EditError`` for a verdict of what is no fact of the scene."""
    ids = [fact.id for fact in facts]
    for name in verdicts:
        if name not in ids:
            near = get_close_matches(name, ids, n=3, cutoff=0.4) or ids[:3]
            raise EditError(
                f"{name!r} is no fact of the scene: use an id as `scenewright show` prints them, "
                f"for example {', '.join(repr(id_) for id_ in near)}"
            )


def _carried(
    events: Sequence[Event],
    base: int,
    before: SceneGraph,
    scene: SceneGraph,
    facts: Sequence[Fact],
) -> dict[str, Corrected]:
    """What a person has already said of this picture, of facts that still mean the same."""
    earlier = correction_of(events, base)
    if earlier is None:
        return {}
    old = {fact.id: _meaning(fact, before) for fact in earlier.facts}
    return {
        fact.id: earlier.verdicts[fact.id]
        for fact in facts
        if fact.id in earlier.verdicts and old.get(fact.id) == _meaning(fact, scene)
    }


def _meaning(fact: Fact, scene: SceneGraph) -> tuple[str | None, ...]:
    """What a fact says, whatever else the scene holds."""
    names = {item.id: item.name for item in scene.objects}
    target = None if fact.target is None else names[fact.target]
    return (names[fact.subject], fact.key, fact.value, fact.predicate, target)


def _consistent(
    new: Mapping[str, Corrected],
    carried: Mapping[str, Corrected],
    facts: Sequence[Fact],
    tells: Mapping[str, str],
) -> dict[str, Corrected]:
    """All that a person says of the picture, in the order of the facts.

    What holds needs its parents and what ``tells`` of its own ends, which then hold as well. Of
    what is not there nothing else is said: it is void. ``EditError`` if the new words contradict
    each other.
    """
    said = {**carried, **new}
    for fact in facts:
        ends = [object_fact_id(end) for end in (fact.subject, fact.target or fact.subject)]
        for parent in [*fact.parents, *(tells[end] for end in ends if end in tells)]:
            if new.get(fact.id) == "yes" and parent != fact.id and fact.parents:
                if new.get(parent) == "no":
                    raise EditError(
                        f"{fact.id!r} cannot hold in a picture without {parent!r}: say yes to "
                        "both, or no to both"
                    )
                said[parent] = "yes"
    absent = {id_ for id_, state in said.items() if state == "no"}
    return {
        fact.id: said[fact.id]
        for fact in facts
        if fact.id in said and not absent.intersection(fact.parents)
    }
