"""Wishes and doubts of a sentence on the terminal: printed as lines, or asked back.

A doubt of a sentence is a numbered choice for who runs ``refine --ask``; without it each is a line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from scenewright.cli.console import fail, note
from scenewright.core.inflection import plural
from scenewright.core.intent import Count
from scenewright.core.scene import SceneGraph

if TYPE_CHECKING:
    from scenewright.runs.reading import ReadScene


def intent_lines(scene: SceneGraph) -> list[tuple[str, str]]:
    """Return the labels and texts of what was said beside the graph; plain numbers are left out."""
    intent = scene.intent
    lines: list[tuple[str, str]] = [(one.kind, one.text) for one in intent.globals]
    lines += [("without", one.text) for one in intent.exclusions]
    lines += [("number", told) for count in intent.counts if (told := _number(scene, count))]
    lines += [("text", f'"{text}"') for text in intent.texts]
    lines += [("not asked", f"{one.text}: {one.reason}") for one in intent.unread]
    return lines + [("doubt", str(doubt)) for doubt in scene.doubts]


def _number(scene: SceneGraph, count: Count) -> str:
    """Return how a number is meant; empty if it is that of the objects."""
    names = plural(scene.object(count.objects[0]).name)
    if count.kind == "open":
        return f"{names}: more than one, no number was said"
    if count.kind == "least":
        return f"{names}: at least {count.number or len(count.objects)}"
    if count.number in (None, len(count.objects)):
        return ""
    return f"{names}: {count.number}, of which the graph has {len(count.objects)}"


def warn_unread(scene: SceneGraph, hint: str = "") -> None:
    """Warn of what of its sentence ``scene`` does not hold, and of each doubt, with ``hint``."""
    for told in scene.warnings:
        note(f"warning: {told}", "yellow")
    if hint and any(doubt.choices for doubt in scene.doubts):
        note(hint)


def warn_of_reading(read: ReadScene) -> None:
    """Warn of what was not read, of each doubt, and of a language model that did not read."""
    for told in read.warnings:
        note(f"warning: {told}", "yellow")
    warn_unread(read.scene)


def ask_back(scene: SceneGraph, read: Callable[[str], SceneGraph]) -> SceneGraph:
    """Return the scene as the person at the terminal means it.

    Each doubt that has choices is asked once. The first choice keeps the sentence; another one
    takes its place, and ``read`` makes a scene of it. Without a terminal a doubt ends the command.
    """
    settled: set[tuple[str, str]] = set()
    while doubts := [
        one for one in scene.doubts if one.choices and (one.text, one.question) not in settled
    ]:
        if not sys.stdin.isatty():
            lines = [
                "--ask needs a terminal: leave it out, or give one of these sentences as the scene"
            ]
            for doubt in doubts:
                lines.append(f"'{doubt.text}': {doubt.question}")
                lines += [f"  {choice.label}: {choice.sentence}" for choice in doubt.choices]
            raise fail("\n".join(lines))
        settled.add((doubts[0].text, doubts[0].question))
        doubt, choices = doubts[0], doubts[0].choices
        note(f"'{doubt.text}': {doubt.question}")
        for number, choice in enumerate(choices, 1):
            note(f"  {number}  {choice.label}")
        # Enter takes the first.
        while (
            not 1
            <= (number := typer.prompt("choice", type=int, default=1, err=True))
            <= len(choices)
        ):
            note(f"{number} is not a choice: write a number from 1 to {len(choices)}")
        if number != 1:
            scene = read(choices[number - 1].sentence)
    left = tuple(one for one in scene.doubts if (one.text, one.question) not in settled)
    return scene.model_copy(update={"intent": scene.intent.model_copy(update={"doubts": left})})
