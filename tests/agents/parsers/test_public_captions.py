"""Nothing of a public caption is lost: each content word is in the scene or told beside it."""

from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenewright.agents.parsers.rules import CaptionError, parse_caption
from scenewright.agents.parsers.tagging import FEW, GROUPS, NUMBERS, VAGUE, rough, words
from scenewright.core.inflection import ing_form, singular, verb_base
from scenewright.core.scene import SceneGraph

DATA = Path(__file__).parents[3].parent / "shared" / "data"
_WORD = re.compile(r"(?<![\w'’])[^\W\d_]{2,}(?:[-'’][^\W\d_]+)*(?![\w'’])")
_TELLING = frozenset({"noun", "either", "weak", "adjective", "verb", "ing", "participle"})
_SHORT = ("it's", "he's", "she's", "that's", "there's")
_FRAMES = words("style", "frame") | words("languages", "silent") | words("adjectives", "counting")


def captions(name: str) -> list[str]:
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"{path} is not there: the public captions lie beside the repository")
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return [entry["caption"] for entry in json.loads(text)]
    rows = csv.DictReader(text.splitlines(), delimiter="\t" if path.suffix == ".tsv" else ",")
    column = "Prompt" if path.suffix == ".tsv" else "text"
    return list(dict.fromkeys(row[column] for row in rows))


def told(scene: SceneGraph) -> Iterator[str]:
    intent = scene.intent
    for item in scene.objects:
        yield from (item.name, *item.attributes.values())
    yield from (one.predicate for one in scene.relations)
    yield from (one.text for one in intent.globals)
    yield from (one.text for one in intent.exclusions)
    yield from (one.text for one in intent.unread)
    yield from intent.texts


def stems(word: str) -> set[str]:
    low = word.lower().replace("’", "'").removesuffix("'s").strip("'")
    base = verb_base(low) or singular(low)
    parts = {low, *low.split("-")}
    return {*parts, *map(singular, parts), base, ing_form(base)}


def lost(caption: str, scene: SceneGraph) -> list[str]:
    kept = {
        stem
        for text in told(scene)
        for word in re.findall(r"[\w'’-]+", text)
        for stem in stems(word.strip("-"))
    }
    quantity = set(GROUPS) | FEW | words("numbers", "hundreds") | set(VAGUE) | set(NUMBERS)
    understood = words("nouns", "writings") | words("numbers", "ordinals") | quantity | _FRAMES
    generic = {word for kind in ("person", "animal", "thing") for word in words("generic", kind)}
    return [
        match[0]
        for match in _WORD.finditer(caption)
        if rough(match[0].lower()) in _TELLING
        and not match[0].lower().replace("’", "'").endswith(_SHORT)
        and not stems(match[0]) & (kept | understood | generic)
    ]


@pytest.mark.parametrize(
    ("name", "most_refused"),
    [
        ("partiprompts/PartiPrompts.tsv", 0.01),
        ("tifa/tifa_v1.0_text_inputs.json", 0.01),
        ("dsg/dsg-1k-anns.csv", 0.01),
    ],
)
def test_every_content_word_is_in_the_scene_or_told(name: str, most_refused: float) -> None:
    said = captions(name)
    some = random.Random(7).sample(said, min(400, len(said)))
    refused = 0
    missing: dict[str, list[str]] = {}
    for caption in some:
        try:
            scene = parse_caption(caption)
        except CaptionError:
            refused += 1
            continue
        if words_lost := lost(caption, scene):
            missing[caption] = words_lost
    assert missing == {}
    assert refused <= most_refused * len(some)
