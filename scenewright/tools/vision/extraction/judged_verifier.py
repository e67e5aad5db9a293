"""Candidate relations asked of judges that did not propose them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from PIL import Image

from scenewright.core.ports.extractor import Candidate, Thing, Verification
from scenewright.core.predicate_statistics import DEFAULT, load_predicates
from scenewright.core.questions import option_text, relation_options
from scenewright.core.vocabulary import DIRECTIONS
from scenewright.tools.vision.extraction.judge_questions import (
    ExtractionPanel,
    boxed,
    digest,
    relation_fact,
    without_rivals,
)
from scenewright.tools.vision.extraction.pairs import Boxed, by_rivals, clear_directions, phrases


@dataclass(frozen=True)
class JudgedVerifier:
    """Implements :class:`~scenewright.core.ports.extractor.RelationVerifier`.

    A candidate is one multiple-choice question of Scene-Bench's form: its predicate, two that it
    excludes, and that no relationship is visible. It sees the picture without the things that
    its words could mean as well.
    """

    bench: ExtractionPanel
    """Who is asked; for what it adds, others than those of the scorer."""
    predicates: str = DEFAULT
    """Where wrong options come from: a name or file of
    :func:`~scenewright.core.predicate_statistics.load_predicates`."""

    @cached_property
    def fingerprint(self) -> str:
        """The judges'."""
        known = load_predicates(self.predicates).fingerprint
        return f"judged verifier@2#{digest(self.bench.fingerprint, known)}"

    async def verify(
        self, image: Image.Image, things: Mapping[str, Thing], candidates: Sequence[Candidate]
    ) -> tuple[Verification, ...]:
        """One verification a candidate, in order, with the panel's probability; none without an
        answer for a pair that no words tell apart."""
        every = boxed(things.values())
        by_id = {one.id: one for one in every}
        ends = [(by_id[c.relation.source], by_id[c.relation.target]) for c in candidates]
        found: dict[int, Verification] = {
            at: Verification(None, reason=f"no question tells {source.id} from {target.id}")
            for at, (source, target) in enumerate(ends)
            if phrases(source, target) is None
        }
        asked = [at for at in range(len(candidates)) if at not in found]
        groups = by_rivals(asked, [ends[at] for at in asked], every)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._look(image, hidden, members, candidates, ends, every))
                for hidden, members in groups.items()
            ]
        for members, task in zip(groups.values(), tasks, strict=True):
            found |= dict(zip(members, task.result(), strict=True))
        return tuple(found[at] for at in range(len(candidates)))

    async def _look(
        self,
        image: Image.Image,
        hidden: frozenset[str],
        members: Sequence[int],
        candidates: Sequence[Candidate],
        ends: Sequence[tuple[Boxed, Boxed]],
        every: Sequence[Boxed],
    ) -> list[Verification]:
        kept = [end for at in members for end in ends[at]]
        shown = await asyncio.to_thread(without_rivals, image, hidden, kept, every)
        facts = []
        for at in members:
            relation = candidates[at].relation
            shuffled_by = (relation.source, relation.target)
            # Of a diagonal pair the other direction that its middles allow is right as well.
            also = {*DIRECTIONS} - {*clear_directions(*ends[at])}
            options = relation_options(
                relation.predicate,
                shuffled_by,
                (ends[at][0].name, ends[at][1].name),
                also,
                load_predicates(self.predicates),
            )
            facts.append(
                relation_fact(at, *ends[at], options[:-1], option_text(relation.predicate))
            )
        verdicts, _ = await self.bench.ask(shown, facts)
        return [
            Verification(None, reason=verdict.reason or "the judges gave no answer", failed=True)
            if verdict.state == "unscored"
            else Verification(verdict.state == "yes", verdict.probability)
            for verdict in verdicts
        ]
