"""Relations between boxes in a picture, found by asking a model of the lab about each pair.

The miniature judges answer questions and write no graphs; put to them pair by pair, the questions
of :mod:`scenewright.questions` are enough to make one. Boxes decide what is worth asking: things
that do not touch cannot hold each other, and of two opposite directions one is left.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from PIL import Image, ImageStat

from scenewright.agents.judges.base import JudgeError
from scenewright.facts import Fact
from scenewright.formats.base import split_id
from scenewright.lab.models import INSTANT, instant
from scenewright.lab.pictures import Picture
from scenewright.lab.problems import Problem
from scenewright.lab.sheets import Question
from scenewright.profiles import judge_of
from scenewright.questions import NO_RELATION

Box = tuple[float, float, float, float]
"""(xmin, ymin, xmax, ymax) in pixels."""
Triple = tuple[str, str, str]
"""(source id, predicate, target id)."""

MOST_PAIRS = 60
"""Most pairs that are looked at, the nearest first."""
DIRECTIONS = ("left of", "right of", "above", "below")
"""Of two things that do not touch."""
ANIMATE = frozenset({"person", "dog", "cat", "man", "woman", "child", "boy", "girl"})
"""Who holds, wears and rides."""
_BOXED = re.compile(r'"((?:[^"\\]|\\.)+:\[[-+\d., ]+\])"')
_OPTIONS = 3
_CONTACTS = 2
_TOUCH = 0.05
_OVERLAP = 0.3
_WITHIN = 0.7


@dataclass(frozen=True, slots=True)
class Boxed:
    """An object of a request."""

    id: str
    """As the request names it."""
    name: str
    """Its class label."""
    box: Box
    """Its place."""

    def scaled(self, factor: float) -> Boxed:
        """The same in a picture ``factor`` times as large."""
        left, top, right, bottom = self.box
        return replace(self, box=(left * factor, top * factor, right * factor, bottom * factor))

    @property
    def center(self) -> tuple[float, float]:
        """(x, y) of the middle."""
        return (self.box[0] + self.box[2]) / 2, (self.box[1] + self.box[3]) / 2

    @property
    def area(self) -> float:
        """Square pixels."""
        return (self.box[2] - self.box[0]) * (self.box[3] - self.box[1])


@dataclass(frozen=True, slots=True)
class _Look:
    """One question about a pair."""

    source: Boxed
    target: Boxed
    options: tuple[str, ...]
    """Without the last one, that there is no relation."""

    @property
    def question(self) -> Question:
        text = (
            f"What is the relationship between the {self.source.name} and the "
            f"{self.target.name} in the image?"
        )
        return Question(1, text, dict(zip("ABCDEFGH", (*self.options, NO_RELATION), strict=False)))

    def fact(self, number: int, expected: str) -> Fact:
        question = self.question
        return Fact(
            id=f"lab:{number}",
            kind="object",
            subject="lab",
            statement=question.text,
            question=question.text,
            options=tuple(question.options.values()),
            expected=expected,
        )


def boxed_in(text: str) -> list[Boxed]:
    """The objects that ``text`` lists as JSON strings ``"name.1:[xmin, ymin, xmax, ymax]"``, each
    id once."""
    found: dict[str, Boxed] = {}
    for match in _BOXED.finditer(text):
        try:
            entry: str = json.loads(f'"{match[1]}"')
            id_, _, numbers = entry.rpartition(":")
            values = json.loads(numbers)
        except ValueError:
            continue
        if len(values) == 4 and id_:
            box = (float(values[0]), float(values[1]), float(values[2]), float(values[3]))
            found.setdefault(id_, Boxed(id_, split_id(id_)[0], box))
    return list(found.values())


async def relations_of(name: str, picture: Picture, objects: Sequence[Boxed]) -> list[Triple]:
    """What the model ``name`` sees between ``objects``: at most one relation a pair.

    Pairs of one class are left out, for a question cannot tell them apart; other things of the
    classes asked about are painted over. With which end a relation begins is the model's own
    habit. Raises ``Problem`` if the model fails.
    """
    image = await asyncio.to_thread(picture.decoded)
    side = max(image.size)
    pairs = [
        (a, b) if _first(name, a.id, b.id) else (b, a)
        for a, b in itertools.combinations(objects, 2)
        if a.name != b.name
    ]
    pairs.sort(key=lambda pair: math.dist(pair[0].center, pair[1].center))
    del pairs[MOST_PAIRS:]
    touching: list[_Look] = []
    directions: list[_Look] = []
    for a, b in pairs:
        for source, target in ((a, b), (b, a)):
            wanted = contacts(source, target, side)
            for start in range(0, len(wanted), _CONTACTS):
                # Three options, as the judges were taught: a direction says that it is no contact.
                some = wanted[start : start + _CONTACTS]
                others = _directions(source, target)[: _OPTIONS - len(some)]
                touching.append(_Look(source, target, (*some, *others)))
        directions.append(_Look(a, b, _directions(a, b)))
    looks = [*touching, *directions]
    said = await _choices(name, picture, image, looks, [x.options[0] for x in looks], objects)
    chosen = dict(zip(looks, said, strict=True))
    claims: dict[frozenset[str], list[tuple[_Look, str]]] = {}
    for look in touching:
        if (choice := chosen[look][0]) not in (NO_RELATION, *DIRECTIONS):
            claims.setdefault(frozenset((look.source.id, look.target.id)), []).append(
                (look, choice)
            )
    # Of several contacts of one pair the likeliest stands: only then are their chances asked.
    rivals = [claim for claim in claims.values() if len(claim) > 1]
    again = [one for claim in rivals for one in claim]
    chances = await _choices(
        name, picture, image, [one[0] for one in again], [one[1] for one in again], objects
    )
    sure = {id(one): chance for one, (_, chance) in zip(again, chances, strict=True)}
    found: list[Triple] = []
    for look in directions:
        claim = claims.get(frozenset((look.source.id, look.target.id)))
        if claim:
            best, choice = max(claim, key=lambda one: sure.get(id(one), 1.0))
            found.append((best.source.id, choice, best.target.id))
        elif (choice := chosen[look][0]) != NO_RELATION:
            found.append((look.source.id, choice, look.target.id))
    return found


def contacts(source: Boxed, target: Boxed, side: int) -> tuple[str, ...]:
    """Contact predicates that the boxes allow from ``source`` to ``target``, the likeliest first;
    ``side`` is the picture's longer one."""
    across, down = _gap(source.box, target.box, 0), _gap(source.box, target.box, 1)
    if max(across, down) > _TOUCH * side:
        return ()
    shared = _shared(source.box, target.box)
    lined = -across >= _OVERLAP * min(_length(source.box, 0), _length(target.box, 0))
    higher = source.center[1] < target.center[1]
    found: list[str] = []
    if shared >= _WITHIN * source.area:
        found.append("inside")
    if lined and higher:
        found.append("on")
        if source.name in ANIMATE:
            found.append("riding")
    if lined and (not higher or "inside" in found):
        found.append("under")
    if source.name in ANIMATE:
        if lined and not higher and target.area <= source.area:
            found.append("wearing")
        if target.area <= 1.5 * source.area:
            found.append("holding")
    return tuple(found)


def _directions(a: Boxed, b: Boxed) -> tuple[str, ...]:
    """The two directions that the middles allow, and the opposite of the clearer one."""
    dx, dy = b.center[0] - a.center[0], b.center[1] - a.center[1]
    flat = ("left of", "right of") if dx > 0 else ("right of", "left of")
    steep = ("above", "below") if dy > 0 else ("below", "above")
    other = flat[1] if abs(dx) >= abs(dy) else steep[1]
    options = [flat[0], steep[0], other]
    turn = hashlib.sha256(f"{a.id}\0{b.id}".encode()).digest()[0] % len(options)
    return (*options[turn:], *options[:turn])


async def _choices(
    name: str,
    picture: Picture,
    image: Image.Image,
    looks: Sequence[_Look],
    expected: Sequence[str],
    objects: Sequence[Boxed],
) -> list[tuple[str, float]]:
    """What the model picks, and the probability of what was expected."""
    if name == INSTANT:
        picks = [instant(picture.digest, look.question) for look in looks]
        return [(pick.question.options[pick.answer], pick.probability) for pick in picks]
    # Questions that hide the same things see the same picture, and share one encoding of it.
    groups: dict[frozenset[str], list[int]] = {}
    for at, look in enumerate(looks):
        groups.setdefault(_rivals(look, objects), []).append(at)
    found: dict[int, tuple[str, float]] = {}
    failed = 0
    try:
        judge = await asyncio.to_thread(judge_of, f"local:miniature/{name}")
        for hidden, members in groups.items():
            facts = [looks[at].fact(at, expected[at]) for at in members]
            seen = image
            if hidden:
                kept = [looks[at] for at in members]
                seen = _without(
                    image,
                    [thing.box for thing in objects if thing.id in hidden],
                    [end.box for look in kept for end in (look.source, look.target)],
                )
            for at, answer in zip(members, await judge.answer(seen, facts), strict=True):
                # A question outside of what the model learned is one that it sees nothing in.
                found[at] = answer.choice or NO_RELATION, answer.probability or 0.0
                failed += answer.choice is None
    except JudgeError as error:
        raise Problem("server", 500, str(error)) from error
    if looks and failed == len(looks):
        raise Problem("server", 500, "the model answered no question about the picture")
    return [found[at] for at in range(len(looks))]


def _rivals(look: _Look, objects: Iterable[Boxed]) -> frozenset[str]:
    """Ids of what the question's words could mean as well."""
    names, ids = {look.source.name, look.target.name}, {look.source.id, look.target.id}
    return frozenset(o.id for o in objects if o.name in names and o.id not in ids)


def _without(image: Image.Image, hidden: Sequence[Box], kept: Sequence[Box]) -> Image.Image:
    """``image`` with the ``hidden`` boxes in the colour around them; ``kept`` ones stay whole."""
    found = image.copy()
    for box in hidden:
        left, top, right, bottom = (round(value) for value in box)
        around = image.crop((left - 3, top - 3, right + 3, bottom + 3))
        rim = Image.new("L", around.size, 255)
        rim.paste(0, (3, 3, around.width - 3, around.height - 3))
        colour = tuple(int(value) for value in ImageStat.Stat(around, rim).median)
        found.paste(colour, (left, top, right, bottom))
    for box in kept:
        place = tuple(round(value) for value in box)
        found.paste(image.crop(place), (place[0], place[1]))  # type: ignore[arg-type]
    return found


def _first(name: str, a: str, b: str) -> bool:
    return hashlib.sha256(f"{name}\0{a}\0{b}".encode()).digest()[0] % 2 == 0


def _length(box: Box, axis: int) -> float:
    return box[axis + 2] - box[axis]


def _gap(a: Box, b: Box, axis: int) -> float:
    """Pixels between two boxes along an axis; negative where they overlap."""
    return max(a[axis], b[axis]) - min(a[axis + 2], b[axis + 2])


def _shared(a: Box, b: Box) -> float:
    return max(0.0, -_gap(a, b, 0)) * max(0.0, -_gap(a, b, 1))
