"""``scenewright parse``: scenes, captions and images as scene graphs."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import BaseModel, ValidationError
from rich.text import Text

from scenewright.cli import console as terminal
from scenewright.cli import options
from scenewright.cli.intents import intent_lines, warn_unread
from scenewright.cli.options import chosen_profile
from scenewright.cli.refine import read_argument, sentence_reader
from scenewright.evals.reporting.words import count

if TYPE_CHECKING:
    from scenewright.core.facts import Fact
    from scenewright.core.ports.vision import Detection
    from scenewright.core.scene import SceneGraph


def parse(
    scene: Annotated[str | None, typer.Argument()] = None,
    caption: str | None = None,
    image: Path | None = None,
    reader: Annotated[str | None, typer.Option("--with")] = None,
    profile: Annotated[str | None, typer.Option("--profile", "-p")] = None,
    boxes: Path | None = None,
    to: str | None = None,
    out: options.OptionalOut = None,
    facts: bool = False,
    protocol: str | None = None,
    index: int | None = None,
    as_json: options.Json = False,
) -> None:
    """Read a SCENE in any format, a caption or an image; show the scene graph, or convert it.

    Exit codes: 0 read; 2 wrong input; 3 could not run (a model failed or is missing).

    Args:
        scene (SCENE): A sentence, triplets ('red ball on table; dog left of table'), a file of any
            format, or - for standard input.
        caption (TEXT): Read this caption as a sentence, even if it reads as triplets; - for
            standard input.
        image (FILE): Read this image instead.
        reader (READER): Parser of a sentence: llm (the profile's chat; default where it has one) or
            rules (offline, English); of an image: llm (likewise) or judges, which know only the
            miniature world.
        profile: Profile whose language model (its chat) or judges read, and whose protocol and
            wrong options make the questions; by default that of your settings.
        boxes (FILE): Detections in the image, between which the llm finds the relations: a JSON
            list of objects with a name and a box (xmin, ymin, xmax, ymax in pixels).
        to (FORMAT): Print the scene in this format: json, megasg, sg2im, visual-genome, triplets,
            networkx.
        out: Write to this file instead (with --to).
        facts: Show the question of each fact.
        protocol: Protocol of the questions: grounded or scene-bench; by default the profile's.
    """
    from scenewright.core.formats import FormatWarning, dump_scene
    from scenewright.core.questions import PROTOCOLS
    from scenewright.core.scene import SceneError
    from scenewright.runs.reading import Sentence, read_scene

    if sum(one is not None for one in (scene, caption, image)) != 1:
        raise terminal.fail("name one thing to read: a SCENE, --caption or --image")
    if boxes is not None and image is None:
        raise terminal.fail("--boxes are boxes of an image: add --image")
    if index is not None and scene is None:
        raise terminal.fail("--index is for a file that holds several scenes: name it")
    settings, chosen = chosen_profile(profile)
    with warnings.catch_warnings(record=True) as caught:
        # Warnings of model libraries are not about the scene.
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", FormatWarning)
        if image is not None:
            graph = image_scene(image, reader, profile, boxes)
        else:
            if scene is not None:
                read = read_argument(scene, index, chosen, settings, reader)
            else:
                words = Sentence(sys.stdin.read() if caption == "-" else caption)
                by = sentence_reader(reader)
                read = terminal.run_async(read_scene(words, chosen, settings, reader=by))
            for text in read.warnings:
                terminal.note(f"warning: {text}", "yellow")
            graph = read.scene
        if not graph and scene is None:
            raise terminal.fail(
                "nothing was recognised in it: try another reader (--with)", terminal.Exit.FAILED
            )
        output = dump_scene(graph, to) if to is not None else ""
        form = chosen.form()
        if protocol is not None and to is None:
            if protocol not in PROTOCOLS:
                known = ", ".join(PROTOCOLS)
                raise SceneError(f"unknown protocol {protocol!r}: use one of {known}")
            form = replace(form, protocol=protocol)
        found = () if to is not None else form.facts(graph)
    for warning in caught:
        terminal.note(f"note: {warning.message}")
    if to is not None or as_json:
        warn_unread(graph)
    if to is not None and out is None:
        typer.echo(output, nl=not output.endswith("\n"))
    elif out is not None and to is not None:
        terminal.write_file(out, lambda path: path.write_text(output, encoding="utf-8"))
    else:
        intent = graph.intent.model_dump(mode="json", exclude={"sentence", "read_as"})
        size = {"complexity": graph.complexity(), "level": graph.level()}
        terminal.print_if_json(
            {"scene": graph, "digest": graph.digest, **size, "facts": found, **intent}
        )
        print_scene(graph, found, with_facts=facts)


def print_scene(graph: SceneGraph, found: Sequence[Fact], *, with_facts: bool) -> None:
    """Print objects, relations, what was said beside the graph, and if wanted the questions."""
    from scenewright.core.answers import in_lines
    from scenewright.core.referring import noun_phrase

    for item in graph.objects:
        terminal.say(Text.assemble((f"{item.id:<20} ", "bold"), noun_phrase(item)))
    for relation in graph.relations:
        terminal.say(f"{relation.source} {relation.predicate} {relation.target}")
    if beside := intent_lines(graph):
        terminal.say("")
        terminal.print_labelled(beside, 21)
    sizes = ((graph.objects, "object"), (graph.relations, "relation"), (found, "fact"))
    size = ", ".join(count(len(each), noun) for each, noun in sizes)
    terminal.say(f"\n{size}; complexity {graph.complexity():g}, {graph.level()}")
    if with_facts:
        terminal.say("")
        for fact in (line.fact for line in in_lines(found)):
            choices = "" if fact.is_binary else f"  [{' / '.join(fact.options)}]"
            terminal.say(Text.assemble((f"{fact.statement}: ", "bold"), fact.question, choices))


IMAGE_READERS = ("llm", "judges")


def image_scene(
    image: Path, reader: str | None, profile: str | None, boxes: Path | None
) -> SceneGraph:
    """Return the scene of the file ``image``, read by the profile's ``llm`` or its ``judges``.

    The default is the language model where the profile has one. Judges are asked for the words
    of the miniature world. ``boxes``: a file of detections for the language model. Raises
    ``SettingsError`` for another reader or a profile without a language model, the parsers' errors
    otherwise, and ``ImageError`` for a file that is not an image.
    """
    from scenewright.agents.chat.language_replies import ReplyError
    from scenewright.agents.judges.models import caps_of
    from scenewright.agents.panel.panel import Panel
    from scenewright.config.profiles import CHAT_KINDS, SettingsError, split_judge
    from scenewright.config.settings import settings_with
    from scenewright.core.images import load_image
    from scenewright.core.scene import SceneError
    from scenewright.providers.clients.base import RequestError
    from scenewright.providers.retry import CallError
    from scenewright.runs.model_factory import profiles
    from scenewright.runs.reading import chat_that_reads
    from scenewright.tools.vision.extraction.judged_parser import JudgedPictureParser
    from scenewright.tools.vision.extraction.one_stage import PictureParser, sampling_of
    from scenewright.tools.vision.extraction.world import miniature_world

    if reader is not None and reader not in IMAGE_READERS:
        raise SettingsError(f"--with {reader!r}: for an image use {' or '.join(IMAGE_READERS)}")
    picture = load_image(image)
    detections = [] if boxes is None else read_boxes(boxes)
    settings, chosen = chosen_profile(profile)
    known = settings_with(chosen, settings)
    # A script answers the director and reads nothing.
    reads = chosen.chat is not None and split_judge(chosen.chat)[0] not in CHAT_KINDS
    try:
        if (reader or ("llm" if reads else "judges")) == "llm":
            spec = chat_that_reads(chosen)
            account, model = split_judge(spec)
            # Scene-Bench's sampling, where the model takes it.
            caps = caps_of(settings.account(account).provider, model, chats=True)
            sampling = {"sampling": sampling_of(caps)}
            chat = profiles.build_chat(spec, known, role="parser", overrides=sampling)
            return terminal.run_async(PictureParser(chat).parse(picture, detections))
        if boxes is not None:
            raise SceneError("--boxes is for a language model: add --with llm, or leave it out")
        judges = [profiles.build_judge(judge, settings=known) for judge in chosen.judges]
        parser = JudgedPictureParser(judges, miniature_world(), Panel.of(chosen, judges))
        found = terminal.run_async(parser.read(picture))
    except (CallError, RequestError, ReplyError) as error:
        if terminal.debugging():
            raise
        raise terminal.fail(
            f"the language model read nothing: {error}", terminal.Exit.FAILED
        ) from None
    for one in found.unread:
        terminal.note(f"unknown: {one}", "yellow")
    return found.scene


class _Box(BaseModel):
    """An entry of a file of detections."""

    name: str
    box: tuple[float, float, float, float]


def read_boxes(path: Path) -> list[Detection]:
    """Return the detections of a JSON file: ``[{"name": "dog", "box": [xmin, ymin, xmax, ymax]}]``.

    Raises ``SceneError`` for a file that is not of that form.
    """
    from scenewright.core.ports.vision import Detection
    from scenewright.core.scene import SceneError
    from scenewright.core.user_files import read_user_json

    example = '[{"name": "dog", "box": [10, 20, 80, 90]}] (xmin, ymin, xmax, ymax in pixels)'
    rows = read_user_json(path, SceneError, f": write {example}")
    if not isinstance(rows, list) or not rows:
        raise SceneError(f"{path} lists no boxes: write {example}")
    found = []
    for number, row in enumerate(rows, start=1):
        try:
            one = _Box.model_validate_json(json.dumps(row), strict=True)
        except ValidationError as error:
            raise SceneError(f"{path}, entry {number} is not a box: write {example}") from error
        found.append(Detection(one.name, one.box))
    return found
