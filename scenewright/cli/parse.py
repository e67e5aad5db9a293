"""``scenewright parse``: scenes, captions and images as scene graphs."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.text import Text

from scenewright.cli import options
from scenewright.cli.console import (
    Exit,
    console,
    debugging,
    fail,
    give,
    labelled,
    note,
    run_async,
    say,
    write_file,
)
from scenewright.cli.intents import intent_lines, tell_intent
from scenewright.cli.options import chosen_profile
from scenewright.cli.refine import read_argument, sentence_reader

if TYPE_CHECKING:
    from scenewright.config.profiles import Profile
    from scenewright.config.settings import Settings
    from scenewright.core.facts import Fact
    from scenewright.core.ports.vision import Detection
    from scenewright.core.questions import Protocol
    from scenewright.core.scene import SceneGraph
    from scenewright.runs.reading import ReadScene


def parse(
    scene: Annotated[str | None, typer.Argument()] = None,
    caption: str | None = None,
    image: Path | None = None,
    reader: Annotated[str | None, typer.Option("--with")] = None,
    profile: Annotated[str | None, typer.Option("--profile", "-p")] = None,
    boxes: Path | None = None,
    to: str | None = None,
    out: Annotated[Path | None, typer.Option("--out", "-o")] = None,
    facts: bool = False,
    protocol: str | None = None,
    index: options.Index = None,
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

    with warnings.catch_warnings(record=True) as caught:
        # Warnings of model libraries are not about the scene.
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", FormatWarning)
        graph = _read(scene, caption, image, reader, profile, boxes, index)
        text = dump_scene(graph, to) if to is not None else ""
        asked = () if to is not None else _asked(graph, profile, protocol)
    for warning in caught:
        note(f"note: {warning.message}")
    if to is not None or as_json:
        tell_intent(graph)
    if to is not None:
        _give(text, out)
    else:
        give(as_json, _as_json(graph, asked), _describe, graph, asked, facts)


def _read(
    scene: str | None,
    caption: str | None,
    image: Path | None,
    reader: str | None,
    profile: str | None,
    boxes: Path | None,
    index: int | None,
) -> SceneGraph:
    from scenewright.runs.reading import Sentence, read_scene

    if sum(given is not None for given in (scene, caption, image)) != 1:
        raise fail("name one thing to read: a SCENE, --caption or --image")
    if boxes is not None and image is None:
        raise fail("--boxes are boxes of an image: add --image")
    settings, chosen = chosen_profile(profile)
    if scene is not None:
        return _without_warnings(read_argument(scene, index, chosen, settings, reader))
    if index is not None:
        raise fail("--index is for a file that holds several scenes: name it")
    if image is not None:
        found = image_scene(image, reader, profile, boxes)
    else:
        words = Sentence(sys.stdin.read() if caption == "-" else caption)
        by = sentence_reader(reader)
        found = _without_warnings(run_async(read_scene(words, chosen, settings, reader=by)))
    if not found:
        raise fail("nothing was recognised in it: try another reader (--with)", Exit.FAILED)
    return found


def _without_warnings(read: ReadScene) -> SceneGraph:
    """Return what was read, after the warnings of the reading."""
    for told in read.warnings:
        note(f"warning: {told}", "yellow")
    return read.scene


def _give(text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=not text.endswith("\n"))
    else:
        write_file(out, lambda path: path.write_text(text, encoding="utf-8"))


def _asked(graph: SceneGraph, profile: str | None, protocol: str | None) -> tuple[Fact, ...]:
    """Return the facts of ``graph`` as a run of the profile asks them."""
    form = chosen_profile(profile)[1].form()
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
        "facts": facts,
        **graph.intent.model_dump(mode="json", exclude={"sentence", "read_as"}),
    }


def _describe(graph: SceneGraph, found: Sequence[Fact], with_facts: bool) -> None:
    from scenewright.core.answers import in_lines
    from scenewright.core.questions import noun_phrase
    from scenewright.runs.report import words

    where = console()
    for item in graph.objects:
        say(Text.assemble((f"{item.id:<20} ", "bold"), noun_phrase(item)))
    for relation in graph.relations:
        say(f"{relation.source} {relation.predicate} {relation.target}")
    if beside := intent_lines(graph):
        where.print()
        labelled(beside, 21, where)
    where.print()
    size = f"{words.count(len(graph.objects), 'object')}, "
    size += f"{words.count(len(graph.relations), 'relation')}, {words.count(len(found), 'fact')}"
    where.print(f"{size}; complexity {graph.complexity():g}, {graph.level()}")
    if with_facts:
        where.print()
        for fact in (line.fact for line in in_lines(found)):
            options = "" if fact.is_binary else f"  [{' / '.join(fact.options)}]"
            say(Text.assemble((f"{fact.statement}: ", "bold"), fact.question, options))


T = TypeVar("T")
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
    from scenewright.config.profiles import SettingsError

    if reader is not None and reader not in IMAGE_READERS:
        raise SettingsError(f"--with {reader!r}: for an image use {' or '.join(IMAGE_READERS)}")
    from scenewright.core.images import load_image
    from scenewright.core.scene import SceneError

    picture = load_image(image)
    detections = [] if boxes is None else read_boxes(boxes)
    settings, found = chosen_profile(profile)
    if (reader or ("llm" if _reads(found) else "judges")) == "llm":
        from scenewright.tools.vision.extraction.one_stage import PictureParser

        parser = PictureParser(_chat(found, settings))
        return _run(lambda: parser.parse(picture, detections))
    if boxes is not None:
        raise SceneError("--boxes is for a language model: add --with llm, or leave it out")
    return _by_judges(picture, found, settings)


def _by_judges(picture: Any, profile: Profile, settings: Settings) -> SceneGraph:
    from scenewright.agents.panel.panel import Panel
    from scenewright.config.settings import settings_with
    from scenewright.runs.model_factory import profiles
    from scenewright.tools.vision.extraction.judged_parser import JudgedPictureParser
    from scenewright.tools.vision.extraction.world import miniature_world

    known = settings_with(profile, settings)
    judges = [profiles.judge_of(judge, settings=known) for judge in profile.judges]
    parser = JudgedPictureParser(judges, miniature_world(), Panel.of(profile, judges))
    found = _run(lambda: parser.read(picture))
    for one in found.unread:
        note(f"unknown: {one}", "yellow")
    return found.scene


def read_boxes(path: Path) -> list[Detection]:
    """Return the detections of a JSON file: ``[{"name": "dog", "box": [xmin, ymin, xmax, ymax]}]``.

    Raises ``SceneError`` for a file that is not of that form.
    """
    from scenewright.core.ports.vision import Detection
    from scenewright.core.scene import SceneError

    example = '[{"name": "dog", "box": [10, 20, 80, 90]}] (xmin, ymin, xmax, ymax in pixels)'
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SceneError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise SceneError(f"{path} is not JSON: write {example}") from error
    if not isinstance(rows, list) or not rows:
        raise SceneError(f"{path} lists no boxes: write {example}")
    found = []
    for at, row in enumerate(rows):
        name = row.get("name") if isinstance(row, dict) else None
        box = row.get("box") if isinstance(row, dict) else None
        numbers = isinstance(box, list) and all(
            isinstance(value, int | float) and not isinstance(value, bool) for value in box
        )
        if not isinstance(name, str) or not isinstance(box, list) or not numbers or len(box) != 4:
            raise SceneError(f"{path}, entry {at + 1} is not a box: write {example}")
        found.append(Detection(name, (box[0], box[1], box[2], box[3])))
    return found


def _reads(profile: Profile) -> bool:
    """Return whether the profile has a language model that can read, which a script cannot."""
    from scenewright.config.profiles import CHAT_KINDS, split_judge

    return profile.chat is not None and split_judge(profile.chat)[0] not in CHAT_KINDS


def _chat(profile: Profile, settings: Settings) -> Any:
    """Return the profile's language model, with Scene-Bench's sampling if it can."""
    from scenewright.agents.judges.models import caps_of
    from scenewright.config.profiles import split_judge
    from scenewright.config.settings import settings_with
    from scenewright.runs.model_factory import profiles
    from scenewright.runs.reading import chat_that_reads
    from scenewright.tools.vision.extraction.one_stage import sampling_of

    chat = chat_that_reads(profile)
    account, model = split_judge(chat)
    caps = caps_of(settings.account(account).provider, model, chats=True)
    return profiles.chat_of(
        chat,
        settings_with(profile, settings),
        role="parser",
        overrides={"sampling": sampling_of(caps)},
    )


def _run(read: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run ``read``; a failing language model ends the command with one line."""
    from scenewright.agents.chat.language_replies import ReplyError
    from scenewright.providers.clients.base import RequestError
    from scenewright.providers.retry import CallError

    try:
        return run_async(read())
    except (CallError, RequestError, ReplyError) as error:
        if debugging():
            raise
        raise fail(f"the language model read nothing: {error}", Exit.FAILED) from None
