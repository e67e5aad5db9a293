"""Texts of drawn scenes as rows of a growing file, their statistics, and the loader of PSG-Bench.

A text is worded by rules or by a language model with PSG-Bench's own question (supplement A.3,
prompt ``synthesize_prompt``). A model's text is checked by rules; lost facts are named and the
model is asked once more; where it still lacks facts, or fails, the rules word the text and the row
notes it. Finished rows are kept and paid for once.

The prompts of PSG-Bench are not public: the loader reads a file of ``scenewright data synthesize``
or ``data classify``, or draws prompts and words them by rules. Category of Table 6 and challenge
are group and category of the item. Statistics count facts in two levels after DSG's categories
(supplement A.1): entities, attributes by their key, relations of space and of action, and counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage

from scenewright.agents.chat.language_replies import as_data, ask_for, tool_of
from scenewright.agents.composers.check import lost_facts
from scenewright.agents.composers.rules import WORDING_VERSION, word
from scenewright.agents.judges.pictures import character_tokens
from scenewright.agents.parsers.classes import (
    CHALLENGES,
    EXAMPLES,
    PROMPT_CATEGORIES,
    RULES_VERSION,
    Classes,
    classify,
)
from scenewright.core.error_text import error_text
from scenewright.core.formats import megasg
from scenewright.evals.datasets import tables
from scenewright.evals.datasets.base import (
    DatasetError,
    Item,
    StreamedSet,
    make_item,
)
from scenewright.evals.datasets.psg_prompts.templates import (
    DRAW_VERSION,
    Draw,
    DrawSpec,
    draw,
)
from scenewright.evals.datasets.reading import whole
from scenewright.evals.datasets.statistics import Statistics, mean
from scenewright.evals.datasets.tables import columns_of
from scenewright.prompts import load_prompt
from scenewright.providers.usage import Usage

PROMPT = "synthesize_prompt"
MAX_LENGTH = 2000
"""Most characters of a model's text."""
_TOKENS_OUT = 60
_OPENINGS = 3

Author = Literal["model", "model again", "rules"]


@dataclass(frozen=True, slots=True)
class Written:
    """A text with its author."""

    text: str
    author: Author
    """``model``: its first text is complete; ``model again``: the second is; ``rules``: the rules
    worded it."""
    problem: str = ""
    """Problem of the model's first text, or the reason why the rules worded it."""


def by_rules(drawn: Draw, problem: str = "") -> Written:
    """Return the text of the rules; ``problem``: why no model wrote it, if one should have."""
    turn = drawn.rng("opening").randrange(_OPENINGS)
    return Written(word(drawn.scene, drawn.said, turn), "rules", problem)


async def by_model(chat: BaseChatModel, drawn: Draw) -> Written:
    """Return the text of ``chat``, or the rules' text if the model's lacks facts.

    Never raises for errors of the model or its library.
    """

    def read(given: Mapping[str, Any]) -> str:
        text = given.get("prompt")
        text = " ".join(text.split()) if isinstance(text, str) else ""
        if not text:
            raise ValueError("prompt is missing or no text")
        if len(text) > MAX_LENGTH:
            raise ValueError(f"it has {len(text)} characters, at most {MAX_LENGTH} are wanted")
        if lost := lost_facts(drawn.scene, text):
            facts = "; ".join(f"{fact.kind}: {fact.statement}" for fact in lost)
            raise ValueError(f"it does not say these facts of the scene graph: {facts}")
        return text

    prompt = load_prompt(PROMPT)
    asked = [HumanMessage(request_of(drawn))]
    try:
        found = await ask_for(chat, asked, tool_of(prompt), read)
    except Exception as error:
        # Whatever the model's library raises costs this text and no other.
        return by_rules(drawn, error_text(error))
    return Written(found.value, "model again" if found.problem else "model", found.problem)


def request_of(drawn: Draw) -> str:
    """Return the paper's question about a drawn scene."""
    challenge = drawn.challenge
    if challenge == "NONE":
        said = "no challenge"
    else:
        said = f"the challenge {challenge} (such as: {EXAMPLES[challenge]})"
    graph = as_data(megasg.write(drawn.scene))
    return load_prompt(PROMPT).render(template=graph, challenge=said)


def writing_usage(drawn: Draw) -> Usage:
    """Return tokens of one call, by a quarter of the characters.

    A text that is asked for twice costs twice as much.
    """
    schema = len(str(load_prompt(PROMPT).output))
    tokens = character_tokens(len(request_of(drawn)) + schema)
    return Usage(tokens, _TOKENS_OUT + character_tokens(len(by_rules(drawn).text)))


def item_of_draw(drawn: Draw, written: Written, classes: Classes, names: str) -> Item:
    """Return the item of a prompt; its group and category are those of Table 6 and the challenge.

    ``meta`` holds template, challenge, names, pair (where it is one of two), the author of the text
    and the problem of a model's text, if any.
    """
    meta = {
        "template": drawn.template,
        "challenge": drawn.challenge,
        "names": names,
        "author": written.author,
        "classified_by": classes.by,
    }
    more = {"pair": drawn.pair, "problem": written.problem, "class_note": classes.note}
    return make_item(
        drawn.id,
        id=drawn.id,
        prompt=written.text,
        scene=drawn.scene,
        group=classes.category,
        category=drawn.challenge,
        meta=meta | {key: value for key, value in more.items() if value},
    )


PAPER_SOURCE = "PSG-Bench, Table 6"
PAPER: dict[str, int] = {
    "IMAGINATION": 525,
    "QUANTITY": 591,
    "COMPLEX": 776,
    "LINGUISTIC STRUCTURES": 125,
    "WORLD KNOWLEDGE": 24,
    "ABSTRACT": 109,
    "ANIMALS": 487,
    "ARTS": 12,
    "ILLUSTRATIONS": 32,
    "OUTDOOR SCENES": 786,
    "PEOPLE": 877,
    "VEHICLES": 656,
}
"""Class → prompts of PSG-Bench, as Table 6 prints them."""


@dataclass
class PromptStatistics(Statistics):
    """Counts over prompts: also by template, author and pair, and facts in two levels."""

    name: str = "psg-bench"
    told: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """``template``, ``author`` or ``pair`` → value in the items' ``meta`` → items."""
    unclassified: int = 0
    """Prompts without a category."""
    entities: Counter[str] = field(default_factory=Counter)
    """``whole``: different things of each scene; ``count``: those of which it has several."""

    def add(self, item: Item) -> None:
        """Count ``item``."""
        super().add(item)
        self.unclassified += bool(item.prompt and not item.group)
        for key in ("template", "author", "pair"):
            self.told[key].update(filter(None, [item.meta.get(key)]))
        if item.scene is not None:
            names = Counter(one.name for one in item.scene.objects)
            self.entities["whole"] += len(names)
            self.entities["count"] += sum(count > 1 for count in names.values())

    @property
    def pairs(self) -> int:
        """Contrastive pairs with both prompts."""
        return sum(count == 2 for count in self.told["pair"].values())

    def of_class(self, level: int) -> Counter[str]:
        """Return category of Table 6 (``level`` 0) or challenge (1) → items."""
        found: Counter[str] = Counter()
        for classes, n in self.classes.items():
            found[classes[level]] += n
        return found

    def levels_of_facts(self) -> Counter[tuple[str, str]]:
        """Return (first, second level) → facts of the scenes."""
        found = Counter({("entity", "whole"): self.entities["whole"]})
        found["count", "count"] = self.entities["count"]
        for (key, _), n in self.values.items():
            found["attribute", key] += n
        for predicate, n in self.predicates.items():
            found["relation", _level(predicate)] += n
        return +found

    def as_json(self, top: int = 0) -> dict[str, Any]:
        """Return all of it as plain values, with the paper's counts beside."""
        levels: dict[str, dict[str, int]] = {}
        for (first, second), count in sorted(self.levels_of_facts().items()):
            levels.setdefault(first, {})[second] = count
        categories, challenges = self.of_class(0), self.of_class(1)
        return {
            "prompts": self.prompts,
            "pairs": self.pairs,
            "unclassified": self.unclassified,
            "per_prompt": {
                what: mean(getattr(self, what)) for what in ("objects", "attributes", "relations")
            },
            "templates": dict(self.told["template"]),
            "categories": {name: categories[name] for name in PROMPT_CATEGORIES},
            "challenges": {name: challenges[name] for name in CHALLENGES},
            "authors": dict(self.told["author"]),
            "facts": levels,
            "paper": {"source": PAPER_SOURCE, "prompts": PAPER},
        }


def statistics_of(items: Iterable[Item]) -> PromptStatistics:
    """Return the counts over ``items``, read once."""
    found = PromptStatistics()
    for item in items:
        found.add(item)
    return found


def _level(predicate: str) -> str:
    first = predicate.split()[0]
    return "action" if first.endswith("ing") else "spatial"


VERSION = 1
NAME = "psg-bench"
_N = 200


def load(
    path: Path | None = None,
    *,
    n: int | None = None,
    seed: int | None = None,
    names: str | None = None,
    templates: Sequence[str] | str | None = None,
    challenges: Sequence[str] | str | None = None,
    contrastive: bool | None = None,
) -> StreamedSet:
    """Return the prompts of the file ``path``, or the first ``n`` (200) of a draw.

    Options are those of :class:`~scenewright.evals.datasets.psg_prompts.templates.DrawSpec`; the
    first prompts are the same whatever ``n`` is. Raises ``DatasetError`` for options beside a file,
    for unknown words, and on iteration where the words are used up before ``n``.
    """
    given = {"n": n, "seed": seed, "names": names, "templates": templates}
    given |= {"challenges": challenges, "contrastive": contrastive}
    if path is not None:
        if said := [option for option, value in given.items() if value is not None]:
            raise DatasetError(f"option {said[0]} is for prompts drawn here: leave out the path")
        files = tables.table_files(path)
        if any(tables.suffix_of(file) not in (".jsonl", ".ndjson") for file in files):
            raise DatasetError(f"{path} is not a file of `scenewright data synthesize` (.jsonl)")
        return StreamedSet(
            partial(tables.items_of_files, files, columns_of(None), None, "none"),
            name=NAME,
            version=VERSION,
            options={},
            files=lambda: [(file.name, file) for file in files],
        )
    count, default = whole("n", _N if n is None else n, 1), DrawSpec()
    spec = DrawSpec(
        names=default.names if names is None else names,
        templates=default.templates if templates is None else _listed(templates),
        challenges=default.challenges if challenges is None else _listed(challenges),
        contrastive=default.contrastive if contrastive is None else bool(contrastive),
        seed=whole("seed", default.seed if seed is None else seed, 0),
    )
    return StreamedSet(
        partial(_drawn, spec, count),
        name=NAME,
        version=VERSION,
        options={
            **{"n": count, "seed": spec.seed, "names": spec.names},
            **{"templates": spec.templates, "challenges": spec.challenges},
            "contrastive": spec.contrastive,
            "rules": [DRAW_VERSION, WORDING_VERSION, RULES_VERSION],
        },
        unique=True,
    )


def _listed(given: Sequence[str] | str) -> tuple[str, ...]:
    parts = given.split(",") if isinstance(given, str) else given
    return tuple(str(part).strip() for part in parts)


def _drawn(spec: DrawSpec, n: int, left_out: Counter[str]) -> Iterator[Item]:
    for drawn in draw(spec, n):
        written = by_rules(drawn)
        yield item_of_draw(drawn, written, classify(written.text), spec.names)
