"""Attributes by judges, in a world whose values are known."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from PIL import Image

from scenewright.core.facts import Fact
from scenewright.core.ports.extractor import ExtractionError, ReadAttribute, Thing, Unread
from scenewright.core.questions import attribute_fact_id
from scenewright.tools.vision.extraction.judge_questions import (
    ExtractionPanel,
    boxed,
    digest,
    without_rivals,
)
from scenewright.tools.vision.extraction.pairs import Boxed
from scenewright.tools.vision.extraction.views import detail_crop

View = Literal["alone", "crop"]
"""``alone``: the picture with other things of the class painted over, for judges that were taught
on whole pictures; ``crop``: the detail crop of XTC-Bench, Sec. 3.2.3."""

_LIKELIER = 0.5


@dataclass(frozen=True)
class JudgedAttributes:
    """Implements :class:`~scenewright.core.ports.extractor.AttributeReader`.

    Each value of a key is one yes/no question; the likeliest is taken if the judges confirm it.
    """

    bench: ExtractionPanel
    """Who is asked."""
    values: Mapping[str, Sequence[str]]
    """Key → the values that there are; other keys are left out."""
    view: View = "alone"
    """What the judges are shown."""
    sure: float = 0.5
    """A value whose probability is not above this is not taken."""

    @cached_property
    def fingerprint(self) -> str:
        """Judges, values, view and threshold."""
        values = {key: list(words) for key, words in self.values.items()}
        return f"judged attributes@2#{digest(self.bench.fingerprint, values, self.view, self.sure)}"

    async def read(
        self, image: Image.Image, thing: Thing, keys: Sequence[str], things: Sequence[Thing] = ()
    ) -> tuple[ReadAttribute | Unread, ...]:
        """The confirmed value of each of ``keys`` that the world has, with its probability; unread
        is a key without one, of whose values some got no answer.

        Raises ``ExtractionError`` if the judges answer nothing.
        """
        facts = {
            (key, value): _fact(thing, key, value)
            for key in dict.fromkeys(keys)
            for value in self.values.get(key, ())
        }
        if not facts:
            return ()
        seen = await asyncio.to_thread(self._shown, image, thing, things)
        verdicts, _ = await self.bench.ask(seen, list(facts.values()))
        if all(verdict.state == "unscored" for verdict in verdicts):
            raise ExtractionError(verdicts[0].reason or "the judges gave no answer")
        best: dict[str, ReadAttribute] = {}
        silent: dict[str, Unread] = {}
        for (key, value), verdict in zip(facts, verdicts, strict=True):
            if verdict.state == "unscored":
                why = verdict.reason or "the judges gave no answer"
                silent.setdefault(key, Unread("attributes", why, (thing.id,), (key,)))
                continue
            chance = verdict.likelihood
            known = best.get(key)
            if chance > self.sure and (known is None or chance > (known.confidence or 0.0)):
                best[key] = ReadAttribute(key, value, chance)
        for key in silent:
            # What is likelier than not is the key's value, whatever the others are.
            if key in best and (best[key].confidence or 0.0) <= _LIKELIER:
                del best[key]
        lost = [one for key, one in silent.items() if key not in best]
        return (*best.values(), *lost)

    def _shown(self, image: Image.Image, thing: Thing, things: Sequence[Thing]) -> Image.Image:
        if self.view == "crop":
            return detail_crop(image, thing.detection)
        name = thing.detection.name
        rivals = [one.id for one in things if one.detection.name == name and one.id != thing.id]
        kept = [Boxed(thing.id, name, thing.detection.box)]
        return without_rivals(image, rivals, kept, boxed(things))


def _fact(thing: Thing, key: str, value: str) -> Fact:
    name = thing.detection.name
    return Fact(
        id=f"{attribute_fact_id(thing.id, key)}={value}",
        kind="attribute",
        subject=thing.id,
        key=key,
        value=value,
        classes=(name,),
        statement=f"{name} is {value}",
        question=f"Is the {name} {value}?",
    )
