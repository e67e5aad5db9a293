"""The judges of one role as a board: who is asked which fact, and what their answers add up to.

Facts of realism have judges of their own, or those of the role that can tell. Their verdicts are
the mean of the judges' probabilities: calibrations, learnt error rates, cascades, intervals and
corrections are about the facts that a scene states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from scenewright.agents.panel.correction import card_correction
from scenewright.agents.panel.intervals import score_intervals
from scenewright.agents.panel.panel import LeftOut
from scenewright.core.facts import (
    FACT_KINDS,
    Answer,
    Fact,
    FactKind,
    ScoreCard,
    Verdict,
    is_realism,
)
from scenewright.graphs.events import Role, Stage
from scenewright.graphs.state import CheckContext


class JudgeRouter:
    """The judges of ``role``."""

    def __init__(self, context: CheckContext, role: Role) -> None:
        self._panel, self._cascade = context.panel, context.cascade_of(role)
        self._alpha, self._role = context.options.alpha, role
        kinds = get_args(FactKind) if context.options.realism else FACT_KINDS
        self._asked: dict[FactKind, tuple[str, ...]] = {
            kind: tuple(judge.id for judge in context.asked(role, kind)) for kind in kinds
        }

    def tasks(self, facts: Iterable[Fact], stage: Stage | None) -> dict[str, list[str]]:
        """Ids of the facts that each judge is to answer; judges without any are left out.

        In the stage ``first`` of a cascade only its first judges get stated facts, in ``rest``
        only the others.
        """
        facts = list(facts)
        order = dict.fromkeys(judge for judges in self._asked.values() for judge in judges)
        found = {
            judge: [fact.id for fact in facts if judge in self._judges(fact.kind, stage)]
            for judge in order
        }
        return {judge: ids for judge, ids in found.items() if ids}

    def verdicts(
        self,
        facts: Sequence[Fact],
        by_judge: Mapping[str, Sequence[Answer]],
        known: Mapping[str, Verdict],
        first: bool = False,
    ) -> list[Verdict]:
        """One verdict a fact, in their order; ``known`` are earlier ones, of parents at least.

        ``first``: by the first judges of the cascade alone. A fact that no judge can answer is
        unscored.
        """
        left_out: LeftOut = "unscored" if self._cascade is None or first else "unasked"
        stage: Stage | None = "first" if first else None
        groups: dict[tuple[bool, tuple[str, ...]], list[Fact]] = {}
        for fact in facts:
            judges = self._judges(fact.kind, stage)
            groups.setdefault((fact.kind == "realism", judges), []).append(fact)
        found = dict(known)
        for (real, judges), mine in groups.items():
            panel = self._panel.of_realism(len(judges)) if real else self._panel
            table = {judge: by_judge[judge] for judge in judges}
            # Of what was said of realism nothing is learnt for the facts.
            before = found if real else _stated(found)
            for verdict in panel.verdicts(mine, table, before, left_out=left_out):
                if not judges and verdict.state == "unscored":
                    reason = f"no judge of the {self._role} can answer it"
                    verdict = verdict.model_copy(update={"reason": reason})
                found[verdict.fact_id] = verdict
        return [found[fact.id] for fact in facts]

    def card(
        self,
        facts: Sequence[Fact],
        by_judge: Mapping[str, Sequence[Answer]],
        known: Mapping[str, Verdict],
    ) -> ScoreCard:
        """The card of all facts, with intervals and corrections of what is stated."""
        card = ScoreCard.of(facts, known.values(), self._alpha)
        judges = tuple(dict.fromkeys(j for kind in FACT_KINDS for j in self._asked[kind]))
        stated = [fact for fact in facts if fact.kind != "realism"]
        table = {judge: by_judge[judge] for judge in judges}
        intervals = score_intervals(stated, table, card.stated, self._panel, card.alpha)
        # The errors of a panel were measured with all of its judges asked.
        whole = self._cascade is None
        corrected = card_correction(card, self._panel, judges) if whole else None
        return card.model_copy(update={"intervals": intervals, "corrected": corrected})

    def _judges(self, kind: FactKind, stage: Stage | None) -> tuple[str, ...]:
        judges = self._asked[kind]
        if stage is None or self._cascade is None:
            return judges
        if kind == "realism":
            return judges if stage == "first" else ()
        first = self._cascade.first
        return tuple(judge for judge in judges if (judge in first) == (stage == "first"))


def _stated(known: Mapping[str, Verdict]) -> dict[str, Verdict]:
    return {id_: verdict for id_, verdict in known.items() if not is_realism(id_)}
