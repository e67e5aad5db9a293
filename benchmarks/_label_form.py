"""The form in which pictures are labelled: one line a picture, every fact true unless marked.

A line reads ``07  1 dog, 2 ball, 3 dog is red, 4 dog left of ball =>`` and is ended by hand with
``ok``, or with the numbers that are wrong and those that cannot be told: ``3n 4?``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from benchmarks._labels import LabelError, Labels, Mark, Picture
from scenewright.core.facts import Fact
from scenewright.core.questions import distinguishing_keys, noun_phrase
from scenewright.core.scene import SceneGraph

HELP = """\
# Look at the sheets. Every fact counts as true unless it is marked.
# End each line with "ok" if all facts are true; else list the numbers of the facts that are
# wrong (3n) or cannot be told (5?), for example:  => 3n 5?
# A thing of another colour than asked is there; only its colour is wrong, and a relation only if
# it names the colour. What is said of an absent thing is wrong by itself and needs no mark.
# "(number 2)" asks for a second one.
"""
_LINE = re.compile(r"(?P<number>\d+)\s+(?P<facts>.*?)\s*=>\s*(?P<marks>.*)")
_MARK = re.compile(r"(\d+)([n?])")


def phrases(picture: Picture) -> list[str]:
    """Each fact in words, numbered from 1: what a judge is asked, no more.

    A relation names a thing by its colour only where its question does, and an attribute of
    one of several things of a class is put as its question.
    """
    facts = picture.all_facts()
    scene = picture.scene
    names = [item.name for item in scene.objects]

    def said(fact: Fact) -> str:
        if fact.kind == "relation":
            ends = (named(scene, fact.subject), named(scene, str(fact.target)))
            return f"{ends[0]} {fact.predicate} {ends[1]}".replace(",", "")
        if fact.kind == "attribute" and names.count(scene.object(fact.subject).name) > 1:
            return fact.question.removesuffix(" in the image?").replace(",", "")
        return fact.statement.replace(",", "")

    return [f"{at} {said(fact)}" for at, fact in enumerate(facts, start=1)]


def named(scene: SceneGraph, object_id: str) -> str:
    """The object as questions name it: with as few attributes as tell it apart."""
    item = scene.object(object_id)
    keys = distinguishing_keys(scene, item)
    return f"a {noun_phrase(item)}" if keys is None else noun_phrase(item, keys)


def number_of(picture: Picture) -> str:
    """The number of a picture on the sheets and in the form: the name of its file."""
    return picture.file.removesuffix(".png")


def blank_form(labels: Labels) -> str:
    """The form to fill in."""
    lines = [f"{number_of(p)}  {', '.join(phrases(p))} => " for p in labels.pictures]
    return HELP + "".join(f"{line}\n" for line in lines)


def read_form(text: str, labels: Labels, seen_by: str) -> Labels:
    """``labels`` with the marks of a filled form. Raises ``LabelError`` naming the line."""
    pictures = {number_of(p): p for p in labels.pictures}
    marked: dict[str, Picture] = {}
    for at, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line.strip())
        if found is None or found["number"] not in pictures:
            raise LabelError(
                f"line {at}: {line[:60]!r} is no picture's line: keep the form's lines"
            )
        number = found["number"]
        picture = pictures[number]
        if found["facts"] != ", ".join(phrases(picture)):
            raise LabelError(f"line {at}: the facts of {number} were changed: only add after '=>'")
        if number in marked:
            raise LabelError(f"line {at}: picture {number} has two lines: keep one")
        marks = _marks(found["marks"], len(picture.all_facts()), f"line {at}, picture {number}")
        marked[number] = picture.model_copy(update={"facts": filled(picture, marks)})
    missing = sorted(set(pictures) - set(marked))
    if missing:
        raise LabelError(f"no line of the pictures {missing}: put them back from a new form")
    return Labels(
        generator=labels.generator,
        seen_by=seen_by,
        pictures=tuple(marked[number_of(p)] for p in labels.pictures),
    )


def _marks(text: str, count: int, place: str) -> dict[int, Mark]:
    words = text.replace(",", " ").split()
    if not words:
        raise LabelError(f"{place}: nothing after '=>': write ok, or marks such as 3n 5?")
    if words == ["ok"]:
        return {}
    found: dict[int, Mark] = {}
    for word in words:
        mark = _MARK.fullmatch(word)
        if mark is None or not 1 <= int(mark[1]) <= count:
            raise LabelError(
                f"{place}: {word!r} is no mark: write 1n … {count}n, 1? … {count}? or ok"
            )
        if int(mark[1]) in found:
            raise LabelError(f"{place}: fact {mark[1]} is marked twice")
        found[int(mark[1])] = "false" if mark[2] == "n" else "unclear"
    return found


def filled(picture: Picture, marks: Mapping[int, Mark]) -> dict[str, Mark]:
    """The label of every fact from the marks by number.

    What hangs on an absent thing is false; on an unclear one unclear, unless marked.
    """
    labels: dict[str, Mark] = {}
    for at, fact in enumerate(picture.all_facts(), start=1):
        above = {labels[parent] for parent in fact.parents}
        if "false" in above:
            labels[fact.id] = "false"
        elif at in marks:
            labels[fact.id] = marks[at]
        else:
            labels[fact.id] = "unclear" if "unclear" in above else "true"
    return labels
