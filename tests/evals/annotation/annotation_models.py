"""Panels that workers of a cluster build anew, over accounts of a mock server that a file names."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from scenewright.config.settings import Settings, load_settings
from scenewright.evals.annotation.config import AnnotateConfig
from scenewright.evals.annotation.panel_queries import Voter
from scenewright.evals.annotation.task import Models, models_of
from scenewright.tools.vision.extraction.one_stage import PictureParser

HERE = "tests.evals.annotation.annotation_models"
NOTED, DEADLY, OTHERS = f"{HERE}:noted", f"{HERE}:deadly", f"{HERE}:others"
PANEL = ("lab:instant", "gem:instant")
POISON = (7, 7, 7)
"""Colour of the photo that kills who looks at it."""


def settings_for(openai: str, gemini: str, **more: Any) -> Settings:
    """An account of OpenAI's form and one of Gemini's, both of a mock server."""
    plain = {"key_variable": "", "concurrent": 8, **more}
    return load_settings(
        accounts={
            "lab": {"provider": "openai", "base_url": openai, **plain},
            "gem": {"provider": "gemini", "base_url": gemini, **plain},
        }
    )


def write_down(folder: Path, config: AnnotateConfig, urls: Mapping[str, str]) -> None:
    """Leave beside the set's ``folder`` what :func:`noted` needs."""
    told = {"config": config.model_dump(mode="json"), "urls": dict(urls)}
    (folder.parent / "models.json").write_text(json.dumps(told))
    (folder.parent / "pids").mkdir()


def noted(folder: Path) -> Models:
    """The models of the configuration; a process that asks leaves its id."""
    return _with_parsers(folder, NotedParser)


@dataclass(frozen=True)
class NotedParser(PictureParser):
    """Leaves the id of its process in a folder."""

    folder: Path = Path()
    """Which."""

    async def parse(self, image: Image.Image, *args: Any, **options: Any) -> Any:
        """The relations."""
        (self.folder / str(os.getpid())).touch()
        return await super().parse(image, *args, **options)


@dataclass(frozen=True)
class DeadlyParser(NotedParser):
    """Kills its process over one photo."""

    async def parse(self, image: Image.Image, *args: Any, **options: Any) -> Any:
        """The relations, unless the photo is the one."""
        if image.getpixel((0, 0)) == POISON:
            os._exit(1)
        return await super().parse(image, *args, **options)


def deadly(folder: Path) -> Models:
    """Who dies of one photo."""
    return _with_parsers(folder, DeadlyParser)


def others(folder: Path) -> Models:
    """Fewer models than the configuration's."""
    return Models(noted(folder).voters[:1])


def _with_parsers(folder: Path, kind: type[NotedParser]) -> Models:
    told = json.loads((folder.parent / "models.json").read_text())
    config = AnnotateConfig.model_validate(told["config"])
    found = models_of(config, settings_for(**told["urls"]))
    return Models(tuple(_with_parser(one, kind, folder.parent / "pids") for one in found.voters))


def _with_parser(voter: Voter, kind: type[NotedParser], pids: Path) -> Voter:
    parser = kind(voter.parser.chat, voter.parser.preparation, pids)
    return Voter(voter.name, parser, voter.image_rule, voter.price)
