"""``scenewright parse``: what a scene, a caption or an image says, as a scene graph."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from scenewright.cli.console import Exit, clear_errors, console, fail, print_json
from scenewright.cli.refine import JsonOption, read_scene

if TYPE_CHECKING:
    from scenewright.core.facts import Fact
    from scenewright.core.questions import Protocol
    from scenewright.core.scene import SceneGraph


def parse(
    scene: Annotated[
        str | None,
        typer.Argument(
            metavar="SCENE",
            help="A scene as text ('red ball on table; dog left of table'), a file of any format, "
            "or - for standard input.",
            show_default=False,
        ),
    ] = None,
    caption: Annotated[
        str | None,
        typer.Option(
            "--caption",
            metavar="TEXT",
            help="Read this English caption instead, for example "
            "'A brown dog sits left of a red ball'; - for standard input.",
            show_default=False,
        ),
    ] = None,
    image: Annotated[
        Path | None,
        typer.Option(
            "--image", metavar="FILE", help="Read this image instead.", show_default=False
        ),
    ] = None,
    reader: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="READER",
            help="Who reads a caption: rules (default, offline) or llm; an image: llm (default "
            "where the profile has one) or judges, which know the miniature world alone.",
            show_default=False,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            "-p",
            help="Whose language model (its chat) or judges read, and as whose facts are asked: "
            "its protocol and wrong options; by default that of your settings.",
            show_default=False,
        ),
    ] = None,
    boxes: Annotated[
        Path | None,
        typer.Option(
            "--boxes",
            metavar="FILE",
            help="Detections in the image, of which the llm gives the relations: a JSON list of "
            "objects with a name and a box (xmin, ymin, xmax, ymax in pixels).",
            show_default=False,
        ),
    ] = None,
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
        str | None,
        typer.Option(
            "--protocol",
            help="How facts are asked: grounded or scene-bench; by default as the profile does.",
            show_default=False,
        ),
    ] = None,
    index: Annotated[
        int | None, typer.Option("--index", help="Which scene of a file that holds several.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Read a SCENE in any format, a caption or an image: show the scene graph, or convert it.

    Exit codes: 0 read; 2 wrong input; 3 could not run (a model failed or is not there).
    """
    with clear_errors():
        from scenewright.core.formats import FormatWarning, dump_scene

        with warnings.catch_warnings(record=True) as caught:
            # What models' libraries warn of says nothing of the scene.
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", FormatWarning)
            graph = _read(scene, caption, image, reader, profile, boxes, index)
            text = dump_scene(graph, to) if to is not None else ""
            asked = () if to is not None else _asked(graph, profile, protocol)
        for warning in caught:
            console(stderr=True).print(Text(f"note: {warning.message}"), soft_wrap=True)
        if to is not None:
            _give(text, out)
        elif as_json:
            print_json(_as_json(graph, asked))
        else:
            _describe(graph, asked, facts)


def _read(
    scene: str | None,
    caption: str | None,
    image: Path | None,
    reader: str | None,
    profile: str | None,
    boxes: Path | None,
    index: int | None,
) -> SceneGraph:
    if sum(given is not None for given in (scene, caption, image)) != 1:
        raise fail("name one thing to read: a SCENE, --caption or --image", Exit.USAGE)
    if boxes is not None and image is None:
        raise fail("--boxes are those of an image: add --image", Exit.USAGE)
    if scene is not None:
        if reader is not None:
            raise fail(
                "--with is for --caption and --image: a SCENE is read by its format", Exit.USAGE
            )
        return read_scene(scene, index)
    if index is not None:
        raise fail("--index is for a file that holds several scenes: name it", Exit.USAGE)
    from scenewright.cli.parse_sources import caption_scene, image_scene

    if image is not None:
        graph = image_scene(image, reader, profile, boxes)
    else:
        words = sys.stdin.read() if caption == "-" else str(caption)
        graph = caption_scene(words, reader, profile)
    if not graph:
        raise fail("nothing was recognised in it: try another reader (--with)", Exit.FAILED)
    return graph


def _give(text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=not text.endswith("\n"))
        return
    from scenewright.core.scene import SceneError

    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SceneError(
            f"{out} cannot be written: {error.strerror or error}; name a writable file"
        ) from error


def _asked(graph: SceneGraph, profile: str | None, protocol: str | None) -> tuple[Fact, ...]:
    """The facts of ``graph`` as a run of the profile asks them."""
    from scenewright.config.settings import find_profile, load_settings

    settings = load_settings()
    form = find_profile(profile or settings.profile, settings).form()
    if protocol is not None:
        form = replace(form, protocol=_protocol(protocol))
    return form.facts(graph)


def _protocol(name: str) -> Protocol:
    from scenewright.core.questions import PROTOCOLS
    from scenewright.core.scene import SceneError

    for known in PROTOCOLS:
        if name == known:
            return known
    raise SceneError(f"unknown protocol {name!r}: use one of {', '.join(PROTOCOLS)}")


def _as_json(graph: SceneGraph, facts: Sequence[Fact]) -> dict[str, Any]:
    return {
        "scene": graph.model_dump(mode="json"),
        "digest": graph.digest,
        "complexity": graph.complexity(),
        "level": graph.level(),
        "facts": [fact.model_dump(mode="json") for fact in facts],
    }


def _describe(graph: SceneGraph, found: Sequence[Fact], with_facts: bool) -> None:
    from scenewright.core.questions import noun_phrase
    from scenewright.runs.report import words

    where = console()
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
