"""Checking and keeping: the arguments of ``verify_facts`` and ``accept``, and a card in short."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from pydantic import Field

from scenewright.core.facts import Fact, ScoreCard
from scenewright.tools.replies import Arguments


class VerifyFacts(Arguments):
    """Ask the judges whether each fact of the scene holds in a picture."""

    image: str = Field(default="newest", max_length=40)
    """Id of the picture (r0, r1), best or newest."""
    facts: list[str] = Field(default=[], max_length=200)
    """Ids of the facts that the reply tells of; empty: all. All are asked in any case."""


class Accept(Arguments):
    """Keep a picture and end the run. A picture worse than the best one is not accepted."""

    image: str = Field(default="best", max_length=40)
    """Id of the picture (r0, r1), best or newest."""
    why: str = Field(default="", max_length=500)
    """Why, in a few words, for the run's record."""


def card_in_short(
    card: ScoreCard, facts: Sequence[Fact], only: Collection[str] = ()
) -> dict[str, Any]:
    """A score card as short JSON; ``only``, if given, names the facts that are told of.

    ``missing`` holds what the judges found not to hold, and what depends on it (``void``);
    ``unscored`` what no judge could tell.
    """
    verdicts = {verdict.fact_id: verdict for verdict in card.verdicts}
    told: dict[str, Any] = {
        "score": None if card.sgscore is None else round(card.sgscore, 4),
        "confirmed": [],
        "missing": [],
        "unscored": [],
    }
    for fact in facts:
        verdict = verdicts.get(fact.id)
        if verdict is None or (only and fact.id not in only):
            continue
        match verdict.state:
            case "yes":
                told["confirmed"].append(fact.id)
            case "unscored":
                told["unscored"].append(fact.id)
            case _:
                entry: dict[str, Any] = {"fact": fact.id, "says": fact.statement}
                if verdict.probability is not None:
                    entry["probability"] = round(verdict.probability, 3)
                if verdict.state == "void":
                    entry["void"] = True
                told["missing"].append(entry)
    return told
