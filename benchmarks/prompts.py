"""Prompts of real models: what composers write, and the check that a text says every fact.

``python -m benchmarks.prompts [--quick] [--data FOLDER]``. On the prompts of DSG-1k with the scenes
that people checked, and on the scenes of SG2Im beside it.

- ``check.accepts_own``: share of the tuples (objects, attributes, relations) that their own prompt
  is found to say; ``…KIND`` by kind; ``check.accepts_own_prompts``: prompts with none lost.
- ``check.accepts_changed``: share of tuples with one object, attribute or relation exchanged by
  another of the set (drawn by its frequency, never what may hold too) that are still accepted.
- ``floor.words.…``: the same of a check that only looks for the words; one that accepts all has 1.
- ``check.accepts_composed``: tuples that plain sentences of the same scenes are found to say.
- ``dropped_facts.sdxl``: facts whose words SDXL does not read of its composer's prompts.
- ``places_unasked``: prompts of real profiles' composers with a word of the miniature's settings or
  places that the scene does not name; ``places_unasked.grid`` of the miniature's own composer.
- ``tokens.COMPOSER.p50``, ``….p95``: tokens of prompts, estimated from characters.
"""

from __future__ import annotations

import asyncio
import random
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._harness import DATA, benchmark, folder, interval, release
from scenewright.agents.composers.check import dropped_facts, lost_facts
from scenewright.agents.composers.reading import Text, words_of
from scenewright.agents.composers.rules import GridComposer, TripletComposer
from scenewright.agents.composers.sentences import SentenceComposer
from scenewright.core.facts import FactKind
from scenewright.core.formats import load_scenes
from scenewright.core.ports.composer import Composer, LostFact
from scenewright.core.questions import facts_of
from scenewright.core.referring import relation_statement
from scenewright.core.scene import Attributes, SceneGraph
from scenewright.core.vocabulary import holds_with
from scenewright.evals.datasets.base import DatasetError
from scenewright.evals.datasets.dsg import load as load_dsg
from scenewright.tools.backends.prompts import find_prompt_reader

SDXL = "stabilityai/stable-diffusion-xl-base-1.0"
QUICK = 250
KINDS = ("object", "attribute", "relation")
PLACE_WORDS = frozenset(
    ["meadow", "room", "beach", "top", "bottom", "middle", "center", "left", "right"]
)
Check = Callable[[SceneGraph, str], tuple[LostFact, ...]]


@dataclass(frozen=True)
class Said:
    """A prompt and the scene that people checked of it."""

    text: str
    scene: SceneGraph


def load(folder: Path) -> list[Said]:
    """Return the prompts with a scene, in the release's order."""
    items = load_dsg(folder)
    return [Said(item.prompt, item.scene) for item in items if item.scene and item.prompt]


def bag_of_words(scene: SceneGraph, text: str) -> tuple[LostFact, ...]:
    """Return the floor: a fact is said if its words stand anywhere."""
    read = Text.of(text, ())
    return tuple(
        LostFact(kind, statement)
        for kind, statement, words in _statements(scene)
        if not read.says(words_of(words))
    )


def _statements(scene: SceneGraph) -> Iterator[tuple[FactKind, str, str]]:
    """Yield (kind, statement, its words) of every tuple, each wording once."""
    items = {item.id: item for item in scene.objects}
    found: dict[tuple[FactKind, str], str] = {}
    for item in scene.objects:
        found.setdefault(("object", item.name), item.name)
    for item in scene.objects:
        for value in item.attributes.values():
            found.setdefault(("attribute", f"{item.name} is {value}"), f"{item.name} {value}")
    for one in scene.relations:
        source, target = items[one.source], items[one.target]
        said = relation_statement(source, one.predicate, target)
        found.setdefault(("relation", said), f"{source.name} {one.predicate} {target.name}")
    for (kind, statement), words in found.items():
        yield kind, statement, words


class Exchanges:
    """One object, attribute or relation of a scene exchanged by another of the set."""

    def __init__(self, said: Sequence[Said]) -> None:
        self._names = Counter(o.name for s in said for o in s.scene.objects)
        self._values: dict[str, Counter[str]] = {}
        for one in said:
            for item in one.scene.objects:
                for key, value in item.attributes.items():
                    self._values.setdefault(key, Counter())[value] += 1
        self._predicates = Counter(r.predicate for s in said for r in s.scene.relations)

    def of(self, scene: SceneGraph, rng: random.Random) -> Iterator[tuple[str, SceneGraph]]:
        """Yield (kind, changed scene), one of each kind that the scene has."""
        item = rng.choice(scene.objects)
        mine = {word for other in scene.objects for word in other.name.split()}
        new = _drawn(self._names, rng, lambda name: bool(mine & set(name.split())))
        if new:
            yield "object", _with_objects(scene, item.name, name=new)
        bearers = [(o, key) for o in scene.objects for key in o.attributes]
        if bearers:
            item, key = rng.choice(bearers)
            own = set(item.attributes[key].split())
            value = _drawn(self._values[key], rng, lambda text: bool(own & set(text.split())))
            if value:
                changed = {**item.attributes, key: value}
                yield "attribute", _with_objects(scene, item.name, attributes=Attributes(changed))
        if scene.relations:
            one = rng.choice(scene.relations)
            pair = {one.source, one.target}
            held = [r.predicate for r in scene.relations if {r.source, r.target} == pair]
            other = _drawn(
                self._predicates,
                rng,
                lambda text: any(holds_with(p, text) or holds_with(text, p) for p in held),
            )
            if other:
                relations = tuple(
                    r.model_copy(update={"predicate": other}) if r == one else r
                    for r in scene.relations
                )
                kept = tuple(dict.fromkeys(relations))
                yield "relation", SceneGraph(objects=scene.objects, relations=kept)


def _drawn(known: Counter[str], rng: random.Random, unfit: Callable[[str], bool]) -> str | None:
    words = [word for word in known if not unfit(word)]
    return rng.choices(words, [known[word] for word in words])[0] if words else None


def _with_objects(scene: SceneGraph, label: str, **update: object) -> SceneGraph:
    objects = tuple(
        item.model_copy(update=update) if item.name == label else item for item in scene.objects
    )
    return SceneGraph(objects=objects, relations=scene.relations)


def checked(
    check: Check, said: Sequence[Said], exchanges: Exchanges
) -> tuple[dict[str, list[float]], dict[str, list[float]], list[float]]:
    """By kind whether own tuples are accepted, whether exchanged ones are, and whole prompts."""
    own: dict[str, list[float]] = {kind: [] for kind in KINDS}
    changed: dict[str, list[float]] = {kind: [] for kind in KINDS}
    whole: list[float] = []
    for at, one in enumerate(said):
        lost = check(one.scene, one.text)
        whole.append(float(not lost))
        for kind in KINDS:
            total = sum(1 for found, _, _ in _statements(one.scene) if found == kind)
            missed = min(total, sum(fact.kind == kind for fact in lost))
            own[kind] += [1.0] * (total - missed) + [0.0] * missed
        before = {fact.statement for fact in lost}
        for kind, scene in exchanges.of(one.scene, random.Random(at)):
            told = {fact.statement for fact in check(scene, one.text) if fact.kind == kind}
            changed[kind].append(float(not told - before))
    return own, changed, whole


def composed(composer: Composer, scenes: Sequence[SceneGraph]) -> list[str]:
    """Return the prompt of each scene."""

    async def all_of() -> list[str]:
        return [await composer.compose(scene, 0) for scene in scenes]

    return asyncio.run(all_of())


def unasked(scene: SceneGraph, prompt: str) -> bool:
    """Return whether a prompt names a place or a setting that the scene does not."""
    named = set(words_of(scene.canonical_json().replace('"', " ")))
    return bool(PLACE_WORDS & set(words_of(prompt)) - named)


@benchmark(
    f"{QUICK} prompts",
    measures=("scenewright.agents.composers.check", "scenewright.agents.composers.reading"),
    refused=(DatasetError,),
    data=folder("folder of the DSG release, if not beside the repository"),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure the check and the composers."""
    said = load(release(options, "dsg"))
    if options.quick:
        said = random.Random(0).sample(said, min(QUICK, len(said)))
    figures: dict[str, Any] = {}
    exchanges = Exchanges(said)
    for name, check in (("check", lost_facts), ("floor.words", bag_of_words)):
        own, changed, whole = checked(check, said, exchanges)
        figures[f"{name}.accepts_own"] = interval([x for kind in KINDS for x in own[kind]])
        figures[f"{name}.accepts_own_prompts"] = interval(whole)
        figures[f"{name}.accepts_changed"] = interval([x for kind in KINDS for x in changed[kind]])
        for kind in KINDS:
            figures[f"{name}.accepts_own.{kind}"] = interval(own[kind])
            figures[f"{name}.accepts_changed.{kind}"] = interval(changed[kind])
    scenes = [one.scene for one in said]
    beside = DATA / "sg2im"
    for file in sorted(beside.glob("*.json")) if beside.is_dir() else ():
        scenes += [scene for scene in load_scenes(file) if scene]
    reader = find_prompt_reader(SDXL)
    for composer in (SentenceComposer(), TripletComposer(), GridComposer()):
        prompts = composed(composer, scenes)
        tokens = [reader.tokens(prompt) for prompt in prompts]
        figures[f"tokens.{composer.id}.p50"] = float(np.percentile(tokens, 50))
        figures[f"tokens.{composer.id}.p95"] = float(np.percentile(tokens, 95))
        bad = sum(unasked(s, p) for s, p in zip(scenes, prompts, strict=True))
        if composer.id == "grid":
            figures["places_unasked.grid"] = bad
            continue
        figures["places_unasked"] = bad + figures.get("places_unasked", 0)
        if composer.id == "sentences":
            lost = [len(lost_facts(s, p)) for s, p in zip(scenes, prompts, strict=True)]
            total = sum(len(list(_statements(scene))) for scene in scenes)
            figures["check.accepts_composed"] = 1 - sum(lost) / total
            figures["dropped_facts.sdxl"] = sum(
                len(dropped_facts(s, facts_of(s), p, reader.count(p).read))
                for s, p in zip(scenes, prompts, strict=True)
            )
    return len(said), figures


if __name__ == "__main__":
    main()
