"""Pictures of the miniature's generator labelled by eye: read a set, or draw a new one.

A set is a folder with pictures and ``labels.csv``: a row for every fact of every picture with the
columns of :data:`COLUMNS` and any others. ``eye`` says whether the expected answer is right (yes,
no or unclear); ``note`` names the damage of a fact that is not, in words that hold one of the
patterns of :data:`DAMAGE`. Pictures whose ``level`` is :data:`STRESS` were chosen to provoke
damage and stay out of rates over the others.
"""

from __future__ import annotations

import asyncio
import csv
import random
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Literal, cast, get_args

from PIL import Image, ImageDraw, ImageFont

from benchmarks._harness import BenchmarkError, progress
from scenewright import refine
from scenewright.agents.parsers.rules import read_text
from scenewright.config.settings import find_profile
from scenewright.core.english import indefinite
from scenewright.core.facts import Fact
from scenewright.core.inflection import plural
from scenewright.core.scene import Relation, SceneGraph
from scenewright.evals.datasets.miniature_scenes import is_clear
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.world import (
    COLORS,
    DIRECTIONS,
    HOSTS,
    KINDS,
    SUBJECTS,
    UNDER_TABLE,
    can_hold,
)
from scenewright.runs.options import RunArguments

Eye = Literal["yes", "no", "unclear"]
FILE = "labels.csv"
COLUMNS = ("picture", "scene", "fact_id", "kind", "question", "eye", "note", "level")
STRESS = "stress"
DAMAGE = {
    "headless": r"headless",
    "grown": r"grown into",
    "merged": r"merge",
    "blob": r"blob|under the table",
    "hovering": r"hover|float",
    "missing": r"missing",
    "color": r"colou?r",
    "placed": r"placed",
    "malformed": r"malformed",
}
"""Class of damage → pattern in the note; the first that is found counts."""
OTHER = "other"
"""Class of a fact that does not hold, whose note has no such pattern."""


@dataclass(frozen=True, slots=True)
class LabelledFact:
    """A fact of a picture with its label."""

    fact: Fact
    eye: Eye
    damage: str
    """Its class, a key of :data:`DAMAGE` or :data:`OTHER`; empty of a fact that may hold."""


@dataclass(frozen=True, slots=True)
class LabelledPicture:
    """A picture with the labels of its facts."""

    file: Path
    scene: SceneGraph
    facts: tuple[LabelledFact, ...]
    """Every labelled one, parents before their children."""
    is_stress: bool

    @property
    def is_complete(self) -> bool:
        """Whether every fact holds by eye."""
        return all(one.eye == "yes" for one in self.facts)

    def whole(self, situation: str) -> list[bool]:
        """Return whether each thing in ``situation`` is whole, by the label of its object.

        ``hats``: who wears one; ``under``: what is under a table; ``all``: everything, but in
        pictures that were chosen to provoke damage. An unclear thing is not whole.
        """
        if situation == "all":
            ids = {item.id for item in self.scene.objects if not self.is_stress}
        else:
            ids = {r.source for r in self.scene.relations if self._in(r, situation)}
        return [
            one.eye == "yes"
            for one in self.facts
            if one.fact.kind == "object" and one.fact.subject in ids
        ]

    def _in(self, relation: Relation, situation: str) -> bool:
        wanted = {"hats": ("wearing", "hat"), "under": ("under", "table")}[situation]
        return (relation.predicate, self.scene.object(relation.target).name) == wanted


def damage_of(note: str) -> str:
    """Return the class of damage that a note tells of."""
    found = (name for name, pattern in DAMAGE.items() if re.search(pattern, note, re.IGNORECASE))
    return next(found, OTHER)


def read_set(folder: Path) -> list[LabelledPicture]:
    """Return the pictures of a set in the order of its rows. Raises ``BenchmarkError``."""
    path = folder / FILE
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except OSError as error:
        raise BenchmarkError(f"{path} cannot be read: {error.strerror}") from error
    form = find_profile("miniature").form()
    found = []
    for name, group in groupby(rows, itemgetter("picture")):
        by_id = {row["fact_id"]: row for row in group}
        first = next(iter(by_id.values()))
        scene = read_text(first["scene"])
        # Sets of before exact numbers were asked have no label for them, and nothing rests on it.
        facts = [fact for fact in form.facts(scene) if fact.id in by_id]
        if lost := sorted(by_id.keys() - {fact.id for fact in facts}):
            raise BenchmarkError(f"{path}: {name}: no facts of the scene: {', '.join(lost)}")
        labelled = []
        for fact in facts:
            row = by_id[fact.id]
            if row["eye"] not in get_args(Eye):
                raise BenchmarkError(
                    f"{path}: {name}: {fact.id} has the label {row['eye']!r}: look at the picture "
                    f"and write one of {', '.join(get_args(Eye))}"
                )
            eye = cast(Eye, row["eye"])
            damage = damage_of(row["note"]) if eye == "no" else ""
            labelled.append(LabelledFact(fact, eye, damage))
        file = folder / f"{Path(name).stem}.png"
        found.append(LabelledPicture(file, scene, tuple(labelled), first.get("level") == STRESS))
    return found


NUMBERS = ("one", "two", "three", "four", "five", "six")
"""How many alike things there are in scenes that count."""
_SHEET, _COLUMNS = 12, 4
"""Pictures of a contact sheet, and of a row of it."""
_SCALE, _MARGIN, _LINE = 3, 12, 15


def _thing(rng: random.Random, kind: str) -> str:
    return f"{rng.choice(sorted(COLORS))} {kind}"


def _one_of(rng: random.Random, kinds: frozenset[str] | None, *but: str) -> str:
    return rng.choice(sorted((set(KINDS) if kinds is None else kinds) - set(but)))


def _beside(rng: random.Random, text: str, *kinds: str) -> str:
    """Return ``text`` with, in every second case, another thing beside the first one."""
    if rng.random() < 0.5:
        return text
    other, place = _thing(rng, _one_of(rng, None, *kinds)), rng.choice(DIRECTIONS)
    first = " ".join(text.split()[:2])
    return f"{text}; {other} {place} {first}"


def _contact(predicate: str, host: str = "") -> Callable[[random.Random], str]:
    def said(rng: random.Random) -> str:
        target = host or _one_of(rng, HOSTS[predicate])
        under_table = (predicate, target) == ("under", "table")
        subjects = UNDER_TABLE if under_table else SUBJECTS[predicate]
        able = {kind for kind in subjects or KINDS if can_hold(kind, predicate, target)}
        subject = rng.choice(sorted(able - {target}))
        text = f"{_thing(rng, subject)} {predicate} {_thing(rng, target)}"
        return _beside(rng, text, subject, target)

    return said


def _count(rng: random.Random) -> str:
    number, kind = rng.choice(NUMBERS), _one_of(rng, None)
    thing = _thing(rng, kind)
    text = f"{number} {thing if number == 'one' else plural(thing)}"
    if rng.random() < 0.5:
        return text
    return f"{text} and {indefinite(_thing(rng, _one_of(rng, None, kind)))}"


def _directions(rng: random.Random) -> str:
    first, second = rng.sample(sorted(KINDS), 2)
    text = f"{_thing(rng, first)} {rng.choice((*DIRECTIONS, 'near'))} {_thing(rng, second)}"
    return _beside(rng, text, first, second)


def _mixed(rng: random.Random) -> str:
    """Return the triplets of a painting of four or five things, which hold together."""
    while True:
        scene = sample_painting(rng, rng.randint(4, 5), rng.randint(3, 5)).scene
        ends = {end for r in scene.relations for end in (r.source, r.target)}
        if is_clear(scene) and len(ends) == len(scene.objects):
            break
    name = {item.id: f"{item.attributes['color']} {item.name}" for item in scene.objects}
    return "; ".join(f"{name[r.source]} {r.predicate} {name[r.target]}" for r in scene.relations)


SITUATIONS: tuple[tuple[str, Callable[[random.Random], str]], ...] = (
    ("hats", _contact("wearing")),
    ("count", _count),
    ("under", _contact("under", "table")),
    ("directions", _directions),
    ("riding", _contact("riding")),
    ("mixed", _mixed),
    ("hats", _contact("wearing")),
    ("count", _count),
    ("inside", _contact("inside")),
    ("on", _contact("on")),
    ("holding", _contact("holding")),
    ("mixed", _mixed),
)
"""What pictures show, in turn: name → text of a scene."""


def scene_texts(n: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield situation and scene of ``n`` pictures; the first ones are the same whatever n is."""
    for at in range(n):
        name, text = SITUATIONS[at % len(SITUATIONS)]
        yield name, text(random.Random(f"by eye/{seed}/{at}"))


def draw_set(folder: Path, n: int, seed: int) -> None:
    """Draw ``n`` pictures into ``folder`` with their unlabelled facts and contact sheets.

    Each is the first round of a run with the default profile and the seed ``seed + number``, with
    no repair and nothing chosen. The judges' answers are not kept, so that nobody reads them.
    Raises ``BenchmarkError`` where the folder has labels already.
    """
    path = folder / FILE
    if path.exists():
        raise BenchmarkError(
            f"{path} is there already: its labels would be lost; name a new folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, str]] = []
    shown: list[tuple[str, str, tuple[Fact, ...]]] = []
    for at, (situation, text) in enumerate(progress(list(scene_texts(n, seed))), 1):
        scene, name = read_text(text), f"{at:03}"
        with tempfile.TemporaryDirectory(prefix="scenewright-by-eye-") as run:
            arguments: RunArguments = {"rounds": 1, "seed": seed + at, "out": run, "page": False}
            result = asyncio.run(refine(scene, "miniature", **arguments))
            drawn = result.image_path(result.rounds[0].image)
            (folder / f"{name}.png").write_bytes(drawn.read_bytes())
        shown.append((name, text, result.facts))
        for fact in result.facts:
            values = (name, text, fact.id, _kind(fact), fact.question, "", "", situation)
            rows.append(dict(zip(COLUMNS, values, strict=True)))
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    for number, first in enumerate(range(0, n, _SHEET), 1):
        _sheet(folder, shown[first : first + _SHEET]).save(folder / f"sheet-{number:02}.png")


def _kind(fact: Fact) -> str:
    return "count" if fact.counts and fact.key != "1" else fact.kind


def _sheet(folder: Path, shown: Sequence[tuple[str, str, tuple[Fact, ...]]]) -> Image.Image:
    """Return a page of enlarged pictures, each with its number and its facts below."""
    font = ImageFont.load_default(_LINE - 3)
    lines = [
        [name, *text.split("; "), "", *(f"{fact.id}: {fact.statement}" for fact in facts)]
        for name, text, facts in shown
    ]
    pictures = []
    for name, _, _ in shown:
        with Image.open(folder / f"{name}.png") as picture:
            size = (picture.width * _SCALE, picture.height * _SCALE)
            pictures.append(picture.convert("RGB").resize(size, Image.Resampling.NEAREST))
    width = pictures[0].width + _MARGIN
    tops = [_MARGIN]
    for first in range(0, len(lines), _COLUMNS):
        text_height = _LINE * (max(map(len, lines[first : first + _COLUMNS])) + 1)
        tops.append(tops[-1] + pictures[0].height + text_height + _MARGIN)
    page = Image.new("RGB", (_MARGIN + width * min(_COLUMNS, len(shown)), tops[-1]), "white")
    pen = ImageDraw.Draw(page)
    for at, (picture, text) in enumerate(zip(pictures, lines, strict=True)):
        left, top = _MARGIN + width * (at % _COLUMNS), tops[at // _COLUMNS]
        page.paste(picture, (left, top))
        for number, line in enumerate(text):
            pen.text((left, top + picture.height + _LINE * number), line, "black", font)
    return page
