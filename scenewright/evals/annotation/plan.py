"""What the building of a set is going to take, before any of it is paid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from scenewright.agents.judges.pictures import answer_tokens, character_tokens
from scenewright.core.ports.judge import Judge
from scenewright.core.questions import facts_of
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.evals.annotation.classes import PROMPT as CLASSES
from scenewright.evals.annotation.config import AnnotateConfig
from scenewright.evals.annotation.instances import BATCH, INSTANCES
from scenewright.evals.annotation.instances import PROMPT as ATTRIBUTES
from scenewright.evals.annotation.merging import PROMPT as SYNONYMS
from scenewright.evals.annotation.panel_queries import ballots, missing
from scenewright.evals.annotation.voters import (
    RELATIONS_AN_OBJECT,
    TOKENS_A_RELATION,
    TOKENS_AN_OBJECT,
    TextModel,
    Voter,
)
from scenewright.evals.store.ledger import Ledger
from scenewright.prompts import load_prompt
from scenewright.providers.usage import ExpectedUsage, Usage

_VOCABULARY = 200
_TOKENS_A_WORD = 4
_TOKENS_A_CLASS = 45
_SEVERAL = 1.5
"""Relations that a panel names together, over those of one model."""


@dataclass(slots=True)
class Plan:
    """Photos and calls."""

    photos: dict[str, int] = field(default_factory=dict)
    """``kept``, or why they are left out → photos."""
    lines: dict[str, ExpectedUsage] = field(default_factory=dict)
    """Model or stage → what it is expected to take."""
    done: int = 0
    """Replies that are there already."""
    failed: int = 0
    """Of them those that failed, and are asked again with ``--retry`` alone."""

    @property
    def total(self) -> ExpectedUsage:
        """All calls together."""
        return sum(self.lines.values(), ExpectedUsage())

    @property
    def unpriced(self) -> list[str]:
        """Lines whose price is not known."""
        return [name for name, line in self.lines.items() if line.calls and line.usd is None]

    @property
    def usd(self) -> float:
        """Dollars of all lines whose price is known."""
        return sum(line.usd or 0.0 for line in self.lines.values())


def plan_of(
    ledger: Ledger,
    config: AnnotateConfig,
    voters: Sequence[Voter],
    text: TextModel | None,
    judges: Sequence[Judge] = (),
    *,
    retry: bool = False,
    synonyms_there: bool = False,
    on_photo: Callable[[int], None] = lambda count: None,
) -> Plan:
    """The calls that lack in ``ledger``, whose photos must be there; asks no model.

    Tokens of pictures go by the providers' rules, texts by a quarter of their characters, replies
    by 1.5 relations an object. Calls of text models are counted anew even where some are done.
    """
    plan = Plan(ledger.photo_states())
    wanted = ballots(voters, config.samples)
    usage: dict[str, Usage] = {voter.name: Usage() for voter in voters}
    calls = dict.fromkeys(usage, 0)
    sums = {judge.id: ExpectedUsage() for judge in judges}
    names: set[str] = set()
    photos = objects = 0
    for photo in ledger.photos():
        photos += 1
        on_photo(photos)
        objects += len(photo.objects)
        names.update(name for _, name, _ in photo.objects)
        lacking = missing(ledger, photo, wanted, retry)
        plan.done += len(wanted) - len(lacking)
        for voter, _ in lacking:
            calls[voter.name] += 1
            usage[voter.name] += voter.expected(photo.size, len(photo.objects))
        for judge in judges:
            sums[judge.id] += _judging(judge, photo.size, len(photo.objects))
    plan.failed = 0 if retry else sum(
        int(spent["failed"]) for (kind, _), spent in ledger.spent().items() if kind == "photo"
    )  # fmt: skip
    for voter in voters:
        used = usage[voter.name]
        plan.lines[voter.name] = ExpectedUsage(calls[voter.name], used, voter.price(used))
    for judge in judges:
        plan.lines[f"judge {judge.id}"] = sums[judge.id]
    if text is not None and photos:
        relations = RELATIONS_AN_OBJECT * objects
        if config.synonyms and not synonyms_there:
            words = _TOKENS_A_WORD * _VOCABULARY
            plan.lines[f"synonyms by {text.name}"] = _text(text, SYNONYMS, 1, words, 600)
        if config.diversity:
            count = -(-photos // config.batch)
            shown = round(TOKENS_AN_OBJECT * objects + TOKENS_A_RELATION * relations)
            plan.lines[f"classes by {text.name}"] = _text(
                text, CLASSES, count, shown, _TOKENS_A_CLASS * photos
            )
        if config.attributes:
            count = -(-len(names) // BATCH)
            out = len(names) * (INSTANCES + 1) * _TOKENS_A_WORD
            plan.lines[f"attributes by {text.name}"] = _text(
                text, ATTRIBUTES, count, _TOKENS_A_WORD * len(names), out
            )
    return plan


def _text(text: TextModel, prompt: str, calls: int, shown: int, out: int) -> ExpectedUsage:
    fixed = character_tokens(len(load_prompt(prompt).text))
    usage = Usage(calls * fixed + shown, out)
    return ExpectedUsage(calls, usage, text.price(usage))


def _judging(judge: Judge, size: tuple[int, int], objects: int) -> ExpectedUsage:
    named = max(1, round(RELATIONS_AN_OBJECT * _SEVERAL * objects))
    expected = getattr(judge, "expected", None)
    if expected is None:
        # A judge on this machine is paid by nobody.
        return ExpectedUsage(0 if judge.caps.local else 1, Usage(0, answer_tokens(named)), 0.0)
    ends = (SceneObject(id="a.1", name="person"), SceneObject(id="b.1", name="bicycle"))
    relations = tuple(Relation(source="a.1", predicate=f"near {n}", target="b.1")
                      for n in range(named))  # fmt: skip
    facts = [f for f in facts_of(SceneGraph(objects=ends, relations=relations))
             if f.kind == "relation"]  # fmt: skip
    found: ExpectedUsage = expected(size, facts)
    return found
