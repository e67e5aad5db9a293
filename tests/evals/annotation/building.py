"""A panel of models with prepared replies, and photos with boxes, for tests of dataset building."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage

from scenewright.core.ports.vision import Detection
from scenewright.evals.annotation.config import AnnotateConfig
from scenewright.evals.annotation.panel_queries import TextModel, Voter
from scenewright.evals.annotation.pipeline import Building
from scenewright.evals.datasets.base import Item
from scenewright.tools.vision.extraction.one_stage import PictureParser
from tests.agents.replying import ReplyingChat
from tests.doubles import painted

Seen = Callable[[list[str]], list[tuple[str, str, str]]]
"""From the ids in a photo to the triples that a model names."""


class Photos:
    """A set of photos in a folder: ``people`` of each, with a dog and a ball."""

    name = "test"
    source = "made by a test"
    licence = "none"
    fingerprint = "1"
    left_out: Mapping[str, int] = {}

    def __init__(self, folder: Path, count: int, people: Callable[[int], int] = lambda at: 1):
        self.folder, self.count, self.people = folder, count, people
        folder.mkdir(parents=True, exist_ok=True)
        for at in range(count):
            painted((64, 48), (at % 256, at // 256, 90)).save(folder / f"{at}.png")

    def __iter__(self) -> Iterator[Item]:
        for at in range(self.count):
            boxes = [Detection("person", (2.0 + n, 2, 20, 40)) for n in range(self.people(at))]
            boxes += [Detection("dog", (22, 20, 40, 40)), Detection("ball", (44, 30, 70, 40))]
            image = str(self.folder / f"{at}.png")
            yield Item(id=f"photo {at}", image=image, detections=tuple(boxes))


def ids_in(messages: Sequence[BaseMessage]) -> list[str]:
    """Ids of the boxes that a request lists."""
    return re.findall(r'"([a-z]+\.\d+):\[', str(messages[0].text))


def voter(name: str, seen: Seen, failing: Callable[[int], bool] = lambda call: False) -> Voter:
    """A model that names what ``seen`` gives, and fails in the calls that ``failing`` picks."""

    def reply(messages: list[BaseMessage]) -> Any:
        if failing(len(chat.sent) - 1):
            return ConnectionError("the line is dead")
        triples = seen(ids_in(messages))
        return {"relationships": [{"source": s, "target": t, "relation": p} for s, p, t in triples]}

    chat = ReplyingChat(replies=reply, model=name, sent=[], tools=[])
    return Voter(name, PictureParser(chat), price=lambda usage: usage.tokens_in / 1e6)


def text_model(
    synonyms: Mapping[str, str] | None = None,
    classes: Callable[[str], tuple[str, str]] = lambda id_: ("Non-People Centric", "Nature"),
) -> TextModel:
    """A model that merges ``synonyms``, classifies, and puts colours before categories."""

    def reply(messages: list[BaseMessage]) -> Any:
        text = str(messages[0].text)
        if text.startswith("Here are the predicates"):
            rows = [{"predicate": w, "means": m} for w, m in (synonyms or {}).items()]
            return {"synonyms": rows}
        if text.startswith("Now, we have a list"):
            shown = json.JSONDecoder().raw_decode(text, text.index("["))[0]
            return {
                "images": [
                    {
                        "image_id": one["image_id"],
                        "file_name": one["file_name"],
                        "level 1": classes(one["image_id"])[0],
                        "level 2": classes(one["image_id"])[1],
                    }
                    for one in shown
                ]
            }
        names = json.loads(text[text.rindex("categories: ") + len("categories: ") :])
        colours = ("red", "blue", "old")
        rows = [{"category": n, "instances": [f"{c} {n}" for c in colours]} for n in names]
        return {"instances": rows}

    chat = ReplyingChat(replies=reply, model="writer", sent=[], tools=[])
    return TextModel("test:writer", chat)


def calls_of(model: Voter | TextModel) -> int:
    """Requests that a model got."""
    chat: Any = model.parser.chat if isinstance(model, Voter) else model.chat
    return len(chat.sent)


def config_of(*panel: str, **changes: Any) -> AnnotateConfig:
    """A configuration without thresholds that a small set cannot pass."""
    given = {"name": "test", "dataset": {"name": "folder"}, "panel": panel, "rare": 0, **changes}
    return AnnotateConfig.model_validate(given)


async def built(
    folder: Path, photos: Photos, voters: Sequence[Voter], text: TextModel | None, **changes: Any
) -> Any:
    """One run of the whole building; its summary."""
    retry = changes.pop("retry", False)
    config = config_of(*(one.name for one in voters), **changes)
    building = Building(config, photos, folder, voters, text, retry=retry)
    try:
        return await building.run(building.plan())
    finally:
        building.close()


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The entries of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
