"""``scenewright parse``: what a scene says, and the same scene in another format."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from scenewright.commands.console import clear_errors, console, print_json
from scenewright.commands.refine import JsonOption, SceneArgument, read_scene

if TYPE_CHECKING:
    from scenewright.questions import Protocol
    from scenewright.scene import SceneGraph


def parse(
    scene: SceneArgument,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="FORMAT",
            help="Print the scene in this format: json, megasg, sg2im, visual-genome, triplets, "
            "networkx.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write to this file instead (with --to)."),
    ] = None,
    facts: Annotated[bool, typer.Option("--facts", help="Show the question of each fact.")] = False,
    protocol: Annotated[
        str, typer.Option("--protocol", help="How facts are asked: grounded or scene-bench.")
    ] = "grounded",
    index: Annotated[
        int | None, typer.Option("--index", help="Which scene of a file that holds several.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Read SCENE in any format: show it, its complexity and level, or convert it.

    Exit codes: 0 read; 2 wrong input.
    """
    with clear_errors():
        from scenewright.formats import dump_scene

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            graph = read_scene(scene, index)
            text = dump_scene(graph, to) if to is not None else ""
        for warning in caught:
            console(stderr=True).print(Text(f"note: {warning.message}"), soft_wrap=True)
        if to is not None:
            _give(text, out)
        elif as_json:
            print_json(_as_json(graph, protocol))
        else:
            _describe(graph, facts, protocol)


def _give(text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=not text.endswith("\n"))
        return
    from scenewright.scene import SceneError

    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SceneError(
            f"{out} cannot be written: {error.strerror or error}; name a writable file"
        ) from error


def _protocol(name: str) -> Protocol:
    from scenewright.questions import PROTOCOLS
    from scenewright.scene import SceneError

    for known in PROTOCOLS:
        if name == known:
            return known
    raise SceneError(f"unknown protocol {name!r}: use one of {', '.join(PROTOCOLS)}")


def _as_json(graph: SceneGraph, protocol: str) -> dict[str, Any]:
    from scenewright.questions import facts_of

    return {
        "scene": graph.model_dump(mode="json"),
        "digest": graph.digest,
        "complexity": graph.complexity(),
        "level": graph.level(),
        "facts": [f.model_dump(mode="json") for f in facts_of(graph, _protocol(protocol))],
    }


def _describe(graph: SceneGraph, with_facts: bool, protocol: str) -> None:
    from scenewright.page import words
    from scenewright.questions import facts_of, noun_phrase

    where = console()
    found = facts_of(graph, _protocol(protocol))
    for item in graph.objects:
        where.print(Text.assemble((f"{item.id:<20} ", "bold"), noun_phrase(item)))
    for relation in graph.relations:
        where.print(Text(f"{relation.source} {relation.predicate} {relation.target}"))
    where.print()
    size = f"{words.count(len(graph.objects), 'object')}, "
    size += f"{words.count(len(graph.relations), 'relation')}, {words.count(len(found), 'fact')}"
    where.print(f"{size}; complexity {graph.complexity():g}, {graph.level()}")
    if with_facts:
        where.print()
        for fact in found:
            options = "" if fact.is_binary else f"  [{' / '.join(fact.options)}]"
            where.print(Text.assemble((f"{fact.statement}: ", "bold"), fact.question, options))
