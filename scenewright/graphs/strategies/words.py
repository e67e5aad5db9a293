"""What is not confirmed, in words: for logs, for prompts, and as an instruction."""

from __future__ import annotations

from scenewright.core.facts import Fact
from scenewright.core.questions import article, noun_phrase
from scenewright.core.scene import SceneObject
from scenewright.graphs.strategies.base import RoundContext


def failed(round_context: RoundContext) -> list[Fact]:
    """The stated facts that the best candidate was found not to hold; those void with them left
    out."""
    states = {verdict.fact_id: verdict.state for verdict in round_context.card.stated}
    return [fact for fact in round_context.facts if states.get(fact.id) == "no"]


def listed(round_context: RoundContext, most: int = 4) -> str:
    """``not confirmed: …``: the statements of what failed in one line; more than ``most`` are
    counted."""
    said = [fact.statement for fact in failed(round_context)]
    more = f" and {len(said) - most} more" if len(said) > most else ""
    return f"not confirmed: {'; '.join(said[:most])}{more}"


def phrases(round_context: RoundContext) -> list[str]:
    """The words for what failed, as a prompt says them: objects with their attributes, relations
    with their target."""
    items = {item.id: item for item in round_context.scene.objects}
    found: list[str] = []
    for fact in failed(round_context):
        if fact.kind == "relation" and fact.target is not None:
            found.append(f"{fact.predicate} the {noun_phrase(items[fact.target])}")
        else:
            found.append(noun_phrase(items[fact.subject]))
    return list(dict.fromkeys(found))


def clauses(round_context: RoundContext) -> list[str]:
    """What failed, each as a phrase of its own: ``a red ball``, ``the dog left of the ball``."""
    items = {item.id: item for item in round_context.scene.objects}
    found: list[str] = []
    for fact in failed(round_context):
        subject = items[fact.subject]
        if fact.kind == "relation" and fact.target is not None:
            target = items[fact.target]
            found.append(f"{_the(subject)} {fact.predicate} {_the(target)}")
        else:
            phrase = noun_phrase(subject)
            found.append(f"{article(phrase)} {phrase}")
    return list(dict.fromkeys(found))


def instruction(round_context: RoundContext) -> str:
    """The order to an edit model: add what is absent, change what is there and wrong, keep the
    rest."""
    items = {item.id: item for item in round_context.scene.objects}
    orders: list[str] = []
    absent = {fact.subject for fact in failed(round_context) if fact.kind == "object"}
    for fact in failed(round_context):
        subject = items[fact.subject]
        if fact.kind == "object":
            phrase = noun_phrase(subject)
            places = [
                f"{relation.predicate} {_the(items[relation.target])}"
                for relation in round_context.scene.relations
                if relation.source == subject.id and relation.target not in absent
            ]
            orders.append(" ".join([f"Add {article(phrase)} {phrase}", *places[:1]]) + ".")
        elif fact.kind == "attribute":
            orders.append(f"Make the {subject.name} {fact.value}.")
        elif fact.target is not None:
            orders.append(
                f"Change the picture so that {_the(subject)} is {fact.predicate} "
                f"{_the(items[fact.target])}."
            )
    return " ".join([*dict.fromkeys(orders), "Keep everything else as it is."])


def _the(item: SceneObject) -> str:
    return f"the {noun_phrase(item)}"
