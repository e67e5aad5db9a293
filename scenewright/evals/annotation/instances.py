"""Attribute instances of categories: apple → red apple, green apple, ripe apple (Table 8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scenewright.agents.chat.language_replies import as_data
from scenewright.evals.annotation.texts import ask_text
from scenewright.evals.annotation.voters import TextModel
from scenewright.evals.annotation.votes import plain
from scenewright.evals.store.ledger import Ledger

PROMPT = "augment_attributes"
INSTANCES = 3
"""Of each category, as in the paper: 775 categories give 2,325 prompts."""
BATCH = 60
"""Categories in one call."""


async def augment(
    ledger: Ledger, model: TextModel, categories: Sequence[str], *, retry: bool = False
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Category → its instances, and category → why it has none."""
    found: dict[str, list[str]] = {}
    lost: dict[str, str] = {}
    for at in range(0, len(categories), BATCH):
        some = list(categories[at : at + BATCH])
        reply = await ask_text(
            ledger,
            model,
            "attributes",
            PROMPT,
            lambda given, last, some=some: read_instances(given, last, some),  # type: ignore[misc]
            retry=retry,
            categories=as_data(some),
        )
        if reply.state == "failed":
            lost |= dict.fromkeys(some, f"the call failed: {reply.reason}")
            continue
        found |= reply.data["instances"]
        lost |= reply.data["lost"]
    return found, lost


def read_instances(
    given: Mapping[str, Any], last: bool, categories: Sequence[str]
) -> dict[str, Any]:
    """``instances`` (category → three phrases) and ``lost`` (category → why it has none).

    ``given`` is a list of categories with their instances, or the dict that the prompt shows. A
    phrase names its category and says more than it. Raises ``ValueError`` for what cannot be,
    unless it is the ``last`` chance.
    """
    rows = given.get("instances", given)
    pairs: dict[str, Any] = {}
    if isinstance(rows, Mapping):
        pairs = {plain(str(name)): said for name, said in rows.items()}
    elif isinstance(rows, list):
        pairs = {
            plain(str(row.get("category"))): row.get("instances")
            for row in rows
            if isinstance(row, Mapping)
        }
    found: dict[str, list[str]] = {}
    lost: dict[str, str] = {}
    for name in categories:
        said = pairs.get(plain(name))
        if not isinstance(said, list):
            lost[name] = "it is missing"
            continue
        phrases = list(dict.fromkeys(" ".join(str(one).split()) for one in said))
        bare = [p for p in phrases if plain(name) not in plain(p) or plain(p) == plain(name)]
        if bare:
            lost[name] = f"{bare[0]!r} is no {name} with an attribute"
        elif len(phrases) != INSTANCES:
            lost[name] = f"{len(phrases)} different instances: give {INSTANCES}"
        else:
            found[name] = phrases
    if lost and not last:
        raise ValueError("; ".join(f"{name}: {why}" for name, why in list(lost.items())[:8]))
    return {"instances": found, "lost": lost}
