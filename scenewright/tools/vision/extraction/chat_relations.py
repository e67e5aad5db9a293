"""Relations by a multimodal language model that is given the boxes (Scene-Bench, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from PIL import Image

from scenewright.agents.chat.language_replies import ReplyError
from scenewright.core.ports.extractor import ExtractionError, PairScores, Thing
from scenewright.core.scene import SceneError
from scenewright.tools.vision.extraction.picture_parser import PictureParser


@dataclass(frozen=True)
class ChatRelations:
    """Implements :class:`~scenewright.core.ports.extractor.RelationScorer`.

    The model names relations and scores none: what it names scores 1, all else is no relation.
    """

    parser: PictureParser
    """Who names them."""

    @cached_property
    def fingerprint(self) -> str:
        """The parser's."""
        return f"chat relations@1 {self.parser.fingerprint}"

    async def score(self, image: Image.Image, things: Sequence[Thing]) -> tuple[PairScores, ...]:
        """The pairs that the model names, with score 1 for each predicate.

        Raises ``ExtractionError`` for a reply that cannot be used, and what the model's calls
        raise.
        """
        if len(things) < 2:
            return ()
        try:
            scene = await self.parser.parse(image, [one.detection for one in things])
        except (ReplyError, SceneError) as error:
            raise ExtractionError(str(error)) from error
        # The parser numbers the detections by class in order: things may be named otherwise.
        ids = {item.id: one.id for item, one in zip(scene.objects, things, strict=True)}
        found: dict[tuple[str, str], dict[str, float]] = {}
        for relation in scene.relations:
            ends = (ids[relation.source], ids[relation.target])
            found.setdefault(ends, {})[relation.predicate] = 1.0
        return tuple(
            PairScores(source, target, 0.0, predicates)
            for (source, target), predicates in found.items()
        )
