"""The one-stage extractor: a reader of pictures gives the whole graph at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from PIL import Image

from scenewright.agents.chat.language_replies import ReplyError
from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.core.images import ImageError, to_rgb
from scenewright.core.ports.extractor import Extraction, ExtractionError
from scenewright.core.ports.judge import Judge
from scenewright.core.scene import SceneError
from scenewright.tools.vision.extraction.judge_questions import ExtractionPanel, digest
from scenewright.tools.vision.extraction.judged_parser import SURE, JudgedPictureParser
from scenewright.tools.vision.extraction.picture_parser import PictureParser
from scenewright.tools.vision.extraction.world import World


@dataclass(frozen=True)
class OneStageExtractor:
    """Implements :class:`~scenewright.core.ports.extractor.GraphExtractor`.

    It knows no places and gives no confidences, for its readers give none.
    """

    read: Callable[[Image.Image], Awaitable[Extraction]]
    """Reads whole graphs: a language model, or judges with a vocabulary."""
    fingerprint: str
    """The reader's."""
    id: str = "one-stage"
    """How tables call it."""
    vocabulary: ClosedVocabulary | None = None
    """The words of its graphs, where it is asked for a list of them."""
    judges: tuple[Judge, ...] = ()
    """The judges that read, where judges do."""

    @classmethod
    def by_chat(cls, parser: PictureParser) -> OneStageExtractor:
        """By a multimodal language model (Scene-Bench, Algorithm 1)."""

        async def read(image: Image.Image) -> Extraction:
            return Extraction(await parser.parse(image))

        return cls(read, f"one-stage@1 {parser.fingerprint}")

    @classmethod
    def by_judges(cls, bench: ExtractionPanel, world: World, most: int = 2) -> OneStageExtractor:
        """By judges that are asked every word of ``world``; ``most``: things of one kind that
        are told apart."""
        parser = JudgedPictureParser(bench.judges, world.vocabulary, bench.panel, most)
        told = digest(bench.fingerprint, world.model_dump(mode="json"), most, SURE)
        words = ClosedVocabulary(world.kinds, dict(world.attributes), world.predicates)
        return cls(
            parser.read, f"one-stage@2 judged#{told}", vocabulary=words, judges=tuple(bench.judges)
        )

    async def extract(self, image: Image.Image) -> Extraction:
        """The graph of ``image``; raises ``ExtractionError`` where the reader gives none, and
        ``ImageError`` for an image that cannot be read."""
        picture = await asyncio.to_thread(to_rgb, image)
        try:
            return await self.read(picture)
        except (ImageError, ExtractionError):
            raise
        except (ReplyError, SceneError) as error:
            raise ExtractionError(str(error)) from error
        except Exception as error:
            raise ExtractionError(f"no graph: {type(error).__name__}: {error}") from error

    async def aclose(self) -> None:
        """Nothing: judges and language models are shared with others."""
        return
