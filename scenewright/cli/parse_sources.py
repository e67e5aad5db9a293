"""What ``scenewright parse`` reads besides scenes: captions and images."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rich.text import Text

from scenewright.cli.console import Exit, console, debugging, fail, quiet_libraries

if TYPE_CHECKING:
    from scenewright.config.settings import Profile, Settings
    from scenewright.core.ports.detector import Detection
    from scenewright.core.scene import SceneGraph

T = TypeVar("T")
CAPTION_READERS = ("rules", "llm")
IMAGE_READERS = ("llm", "judges")


def caption_scene(caption: str, reader: str | None, profile: str | None) -> SceneGraph:
    """The scene of ``caption``, read by ``rules`` (default) or by the profile's ``llm``.

    Raises ``SettingsError`` for another reader or a profile without a language model, the
    parsers' errors otherwise.
    """
    _check(reader, CAPTION_READERS, "a caption")
    if reader != "llm":
        from scenewright.agents.parsers.rules import parse_caption

        return parse_caption(caption)
    from scenewright.agents.parsers.language import LanguageParser

    settings, found = _profile(profile)
    parser = LanguageParser(_chat(found, settings, picture=False))
    return _run(lambda: parser.parse(caption))


def image_scene(
    image: Path, reader: str | None, profile: str | None, boxes: Path | None
) -> SceneGraph:
    """The scene of the file ``image``, read by the profile's ``llm`` or its ``judges``.

    The default is the language model where the profile has one. Judges are asked for the words
    of the miniature world. ``boxes``: a file of detections for the language model. Raises as
    :func:`caption_scene`, and ``ImageError`` for a file that is no image.
    """
    _check(reader, IMAGE_READERS, "an image")
    from scenewright.core.images import load_image
    from scenewright.core.scene import SceneError

    picture = load_image(image)
    detections = [] if boxes is None else read_boxes(boxes)
    settings, found = _profile(profile)
    if (reader or ("llm" if _reads(found) else "judges")) == "llm":
        from scenewright.tools.vision.extraction.picture_parser import PictureParser

        parser = PictureParser(_chat(found, settings, picture=True))
        return _run(lambda: parser.parse(picture, detections))
    if boxes is not None:
        raise SceneError("--boxes is for a language model: add --with llm, or leave it out")
    return _by_judges(picture, found, settings)


def _by_judges(picture: Any, profile: Profile, settings: Settings) -> SceneGraph:
    from scenewright.agents.panel.panel import Panel
    from scenewright.config.settings import settings_with
    from scenewright.miniature.world import COLORS, KINDS, PREDICATES, can_hold
    from scenewright.runs.model_factory import profiles
    from scenewright.tools.vision.extraction.judged_parser import JudgedPictureParser, Vocabulary

    quiet_libraries()
    known = settings_with(profile, settings)
    judges = [profiles.judge_of(judge, settings=known) for judge in profile.judges]
    # Near says little beside a direction, and judges would confirm both.
    predicates = tuple(p for p in PREDICATES if p != "near")
    words = Vocabulary(tuple(KINDS), {"color": tuple(COLORS)}, predicates, can_hold, "miniature")
    parser = JudgedPictureParser(judges, words, Panel.of(profile, judges))
    found = _run(lambda: parser.read(picture))
    for one in found.unread:
        console(stderr=True).print(Text(f"unknown: {one}", style="yellow"), soft_wrap=True)
    return found.scene


def read_boxes(path: Path) -> list[Detection]:
    """Detections of a JSON file: ``[{"name": "dog", "box": [xmin, ymin, xmax, ymax]}]``.

    Raises ``SceneError`` for a file that is not of that form.
    """
    from scenewright.core.ports.detector import Detection
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
            raise SceneError(f"{path}, entry {at + 1} is no box: write {example}")
        found.append(Detection(name, (box[0], box[1], box[2], box[3])))
    return found


def _check(reader: str | None, known: tuple[str, ...], what: str) -> None:
    from scenewright.config.settings import SettingsError

    if reader is not None and reader not in known:
        raise SettingsError(f"--with {reader}: {what} is read with {' or '.join(known)}")


def _profile(name: str | None) -> tuple[Settings, Profile]:
    from scenewright.config.settings import find_profile, load_settings

    settings = load_settings()
    return settings, find_profile(name or settings.profile, settings)


def _reads(profile: Profile) -> bool:
    """Whether the profile has a language model that can read: a script cannot."""
    from scenewright.config.settings import CHAT_KINDS, split_judge

    return profile.chat is not None and split_judge(profile.chat)[0] not in CHAT_KINDS


def _chat(profile: Profile, settings: Settings, *, picture: bool) -> Any:
    """The profile's language model; for pictures sampled as Scene-Bench does, where it can be."""
    from scenewright.config.settings import SettingsError, settings_with, split_judge
    from scenewright.runs.model_factory import profiles

    if profile.chat is None or not _reads(profile):
        raise SettingsError(
            f"the profile {profile.name} has no language model that reads: name another profile "
            "with --profile, or write chat = 'kind:model' into this one, for example "
            "'openai:gpt-6-luna'"
        )
    quiet_libraries()
    account, model = split_judge(profile.chat)
    known = settings_with(profile, settings)
    if not picture:
        return profiles.chat_of(profile.chat, known, role="parser")
    from scenewright.agents.judges.models import caps_of
    from scenewright.tools.vision.extraction.picture_parser import sampling_of

    caps = caps_of(settings.account(account).provider, model, chats=True)
    return profiles.chat_of(
        profile.chat, known, role="parser", overrides={"sampling": sampling_of(caps)}
    )


def _run(read: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What ``read`` gives; a language model that fails is one line and an exit code."""
    from scenewright.agents.chat.base import ChatError
    from scenewright.agents.chat.language_replies import ReplyError
    from scenewright.providers.decisions import CallError

    try:
        return asyncio.run(read())
    except (CallError, ChatError, ReplyError) as error:
        if debugging():
            raise
        raise fail(f"the language model read nothing: {error}", Exit.FAILED) from None
