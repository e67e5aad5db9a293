"""From a text to its scene: who reads a sentence, and what that costs.

Every door reads here. A graph in any format is read as such; a sentence is read by the profile's
language model where it has one, else by the rules, which also read where the model fails. A run
reads once: see :mod:`.run_reading`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scenewright.agents.parsers.rules import CaptionError, as_graph, parse_caption
from scenewright.config.options import SentenceReader
from scenewright.config.profiles import CHAT_KINDS, Profile, SettingsError, split_judge
from scenewright.config.settings import Settings, settings_with
from scenewright.core.formats import text_of_source
from scenewright.core.intent import Intent
from scenewright.core.scene import SceneError, SceneGraph, SceneObject
from scenewright.core.validation import FrozenModel
from scenewright.graphs.events import SentenceReading
from scenewright.providers.clients.base import RequestError
from scenewright.providers.retry import CallError
from scenewright.providers.usage import Meter, metered
from scenewright.runs.folder import RunError

if TYPE_CHECKING:
    from scenewright.agents.parsers.language import LanguageParser

_LETTERS_OF_AN_OBJECT = 20
"""Letters of a sentence that no rule reads, for each object by which its costs are guessed."""


class ReadingError(RunError):
    """The language model that was asked for did not read a sentence; its cause says why."""


class Sentence(str):
    """A text that is a sentence, and neither a graph nor the name of a file."""


class ReadScene(FrozenModel):
    """A scene, and how its sentence was read."""

    scene: SceneGraph
    reading: SentenceReading | None = None
    """None where no language model was asked."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why the rules read in place of a language model; empty if they did not."""
        problem = "" if self.reading is None else self.reading.problem
        return (problem,) if problem else ()


def failures() -> tuple[type[Exception], ...]:
    """Return what a language model raises that does not read."""
    # LangChain takes a while to import, and the rules do without.
    from scenewright.agents.chat.language_replies import ReplyError

    return CallError, RequestError, ReplyError, SettingsError, TimeoutError


def reader_of(profile: Profile, asked: SentenceReader | None = None) -> SentenceReader:
    """Return who reads sentences: ``asked``, else the profile's language model if it has one."""
    if asked is not None:
        return asked
    has_chat = profile.chat is not None and split_judge(profile.chat)[0] not in CHAT_KINDS
    return "llm" if has_chat and profile.reader != "rules" else "rules"


def graph_or_sentence(
    source: str | Path, reader: SentenceReader, index: int | None = None, *, is_text: bool = False
) -> SceneGraph | Sentence:
    """Return the scene of a file or a text in a format of graphs, else the sentence that it is.

    ``index`` picks one scene of several; ``is_text``: it is never the name of a file. Raises
    ``FormatError`` with the place and the remedy.
    """
    if isinstance(source, Sentence):
        return source
    text, where = (str(source), "") if is_text else text_of_source(source)
    graph = as_graph(text, index, where, one_line=reader == "rules")
    return Sentence(text) if graph is None else graph


async def read_scene(
    source: SceneGraph | str | Path,
    profile: Profile,
    settings: Settings,
    *,
    reader: SentenceReader | None = None,
    index: int | None = None,
    is_text: bool = False,
) -> ReadScene:
    """Return the scene of ``source``: a graph, a file, a text in any format, or a sentence.

    See :func:`graph_or_sentence` and :func:`read_words` for arguments and errors.
    """
    if not isinstance(source, SceneGraph):
        found = graph_or_sentence(source, reader_of(profile, reader), index, is_text=is_text)
        if isinstance(found, Sentence):
            return await read_words(found, profile, settings, reader=reader)
        source = found
    return ReadScene(scene=source)


async def read_words(
    text: str,
    profile: Profile,
    settings: Settings,
    *,
    reader: SentenceReader | None = None,
    limit: float | None = None,
) -> ReadScene:
    """Return the scene of a sentence, read by a language model or by the rules.

    ``reader``: ``llm`` or ``rules``; None: :func:`reader_of` decides, and the rules take the place
    of a model that fails, which the reading's ``problem`` says. ``limit``: most dollars of the
    reading. Raises ``CaptionError`` for what the rules cannot read, and ``ReadingError`` or
    ``SettingsError`` for a model that fails if ``reader`` asks for it.
    """
    if reader_of(profile, reader) == "rules":
        return ReadScene(scene=parse_caption(text))
    model = profile.chat or ""
    with metered() as spent:
        try:
            parser = parser_of(profile, settings)
            cost = parser.expected(text).usd or 0.0
            if limit is not None and cost > limit:
                raise SettingsError(f"it may cost ${cost:.2g}, the limit is ${limit:g}")
            scene, problem = await parser.parse(text), ""
        except failures() as error:
            if reader == "llm":
                if isinstance(error, SettingsError):
                    raise
                raise ReadingError(f"the language model read nothing: {error}") from error
            problem = f"{model} did not read the sentence, the rules did: {error}"
            try:
                scene = parse_caption(text)
            except CaptionError as told:
                unread = f"{told} ({model} did not read it: {error})"
                raise CaptionError(unread, told.passages) from error
    return ReadScene(scene=scene, reading=paid_reading(model, spent, problem))


def paid_reading(model: str, spent: Meter, problem: str) -> SentenceReading:
    """Return the reading by ``model``, or by the rules if it had a ``problem``, with its cost."""
    return SentenceReading(
        reader="rules" if problem else "llm",
        model=model,
        problem=problem,
        calls=spent.calls,
        tokens_in=spent.usage.tokens_in,
        tokens_out=spent.usage.tokens_out,
        usd=spent.usd,
    )


def parser_of(profile: Profile, settings: Settings) -> LanguageParser:
    """Return the profile's language model as a parser; ``SettingsError`` without one or its key."""
    from scenewright.agents.parsers.language import LanguageParser
    from scenewright.runs.model_factory.profiles import build_chat

    known = settings_with(profile, settings) or settings
    return LanguageParser(build_chat(chat_that_reads(profile), known, role="parser"))


def chat_that_reads(profile: Profile) -> str:
    """Return the name of the profile's language model; ``SettingsError`` without one.

    A script is none.
    """
    if profile.chat is None or split_judge(profile.chat)[0] in CHAT_KINDS:
        raise SettingsError(
            f"the profile {profile.name} has no language model that reads: name another profile "
            "with --profile, or write chat = 'kind:model' into this one, for example "
            "'openai:gpt-6-luna'"
        )
    return profile.chat


def preliminary(text: str) -> tuple[SceneGraph, str]:
    """Return what stands for a sentence until a language model has read it, for a plan of costs.

    What the rules read in it, else objects without meaning, and why the rules cannot read it.
    """
    try:
        return parse_caption(text), ""
    except SceneError as error:
        number = min(20, 1 + len(text) // _LETTERS_OF_AN_OBJECT)
        objects = (SceneObject(id=f"object.{at}", name="object") for at in range(1, number + 1))
        scene = SceneGraph(objects=tuple(objects))
        return scene.said_as(Intent(sentence=text.strip())), str(error)
