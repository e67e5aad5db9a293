"""The heats of a tournament: draw proposals, judge them, paste the winners.

The plan of the round names the places and the facts that each can change
(``graphs/strategies/tournament.py``). A heat draws the proposals of all places that have no sure
winner in one batch, and asks the loop's judges about each. The picture with all winners pasted is
judged on all facts; while it is worth nothing, or less than all but the least of them were, each by
itself, that one is taken out. It is the round's candidate, and judged as every candidate is.

Every proposal has a key of its own, ``r<round>:proposal:<heat>:<place>:<number>``; nothing is drawn
or asked twice, whatever kills the run.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from langgraph.runtime import Runtime
from PIL import Image, ImageChops

from scenewright.agents.panel.change import (
    LOST_APART,
    LOST_BESIDE,
    LOST_THERE,
    Change,
    change_between,
    evidence_of,
)
from scenewright.core.facts import Fact, ScoreCard, Verdict, assign_verdicts
from scenewright.core.layout import Region
from scenewright.core.ports.backend import GenerationRequest
from scenewright.graphs.drawing import (
    compose,
    draw_all,
    emit_generated,
    request_of,
    within_mask_of_run,
)
from scenewright.graphs.events import Composed, Generated, Place, Proposal, Proposed, Selected
from scenewright.graphs.initial_image import within_mask
from scenewright.graphs.judging import QuickJudgement, costs_of, judge_once
from scenewright.graphs.limits import Amount, Prices
from scenewright.graphs.nodes.plan import load_plan
from scenewright.graphs.nodes.step import LoopStep
from scenewright.graphs.record import Candidate, image_key, improves, prompt_key, totals_of
from scenewright.graphs.round_context import make_round_context
from scenewright.graphs.state import RefineContext, emit, round_seed
from scenewright.graphs.strategies.base import GenerationOverrides, RoundContext
from scenewright.graphs.strategies.places import regions_by_object, states_of, touched
from scenewright.graphs.strategies.tournament import (
    FIRST,
    Tournament,
    after_missing,
    pastes,
    proposal_work,
    reference_work,
    shown_in_crop,
)

CONFIDENT_LOG_ODDS = math.log(9.0)
"""Log-odds of having gained a fact and lost none from which a winner ends the heats of its place;
what it did not gain is left for the next round."""


async def tournament(step: LoopStep) -> None:
    """Draw proposals for the places of the plan, and paste the winners into the best picture."""
    round, context = step.round, step.context
    round_context = make_round_context(step.scene, step.best(round - 1), round, context)
    reference = step.record.image(round, "reference")
    places = load_plan(step.record, round).places
    heats = _Heats(
        places,
        round_context,
        None if reference is None else reference.image,
        step.runtime,
    )
    selected = step.record.get(f"r{round}:selected", Selected)
    if selected is None:
        selected = await heats.run_heats()
        emit(step.runtime, selected)
    image = await asyncio.to_thread(heats.pasted, selected.winners)
    request = round_context.request
    if selected.winners and not places[selected.winners[0].place].regions:
        # A picture that won as a whole was drawn from words of its own.
        drawn = step.record.all(Generated, round)
        request = next(one.request for one in drawn if one.image == image)
    _, changed = await asyncio.to_thread(within_mask_of_run, context.images.get(image), context)
    emit(
        step.runtime,
        Generated(
            key=image_key(round, "candidate"),
            at=context.log.now(),
            round=round,
            purpose="candidate",
            image=image,
            request=request,
            seconds=0.0,
            pasted=True,
            changed=changed,
        ),
    )


@dataclass(frozen=True, slots=True)
class _Draw:
    """A proposal to be drawn."""

    key: str
    place: int
    number: int
    request: GenerationRequest
    does: str


class _Heats:
    def __init__(
        self,
        places: Sequence[Place],
        round_context: RoundContext,
        shown: str | None,
        runtime: Runtime[RefineContext],
    ) -> None:
        """``shown`` is the content hash of the picture of what is missing."""
        self._places = places
        self._round_context = round_context
        self._shown = shown
        self._runtime = runtime
        self._context = runtime.context
        self._round = round_context.round
        self._facts = round_context.facts
        self._stated = [fact for fact in self._facts if fact.of_graph]
        self._before = {v.fact_id: v for v in round_context.card.verdicts}
        self._states = states_of(round_context, self._stated)
        absent = {
            fact.subject
            for fact in self._stated
            if fact.kind == "object" and self._before[fact.id].state == "no"
        }
        self._known = regions_by_object(round_context, absent)
        self._strategy = Tournament()

    async def run_heats(self) -> Selected:
        """Run all heats, and return the choice."""
        found: list[Proposal] = []
        heat, done = 1, 0
        most = self._context.options.proposals
        while done < most:
            wanted = min(FIRST if heat == 1 else most, most - done)
            proposals = await self._heat(heat, done, wanted, found)
            if not proposals:
                break
            found += proposals
            heat, done = heat + 1, done + wanted
        winners = [
            best for at in range(len(self._places)) if (best := _best(found, at)) is not None
        ]
        return await self._selected(winners)

    async def _heat(
        self, heat: int, done: int, wanted: int, before: Sequence[Proposal]
    ) -> tuple[Proposal, ...]:
        """Draw and judge ``wanted`` proposals of each place that has no confident winner.

        Fewer where the budget has no room; none if all have one.
        """
        key = f"r{self._round}:proposed:{heat}"
        event = self._context.record.get(key, Proposed)
        if event is not None:
            return event.proposals
        chosen = self._choose_draws(heat, done, wanted, before)
        if not chosen:
            return ()
        shown = await self._references(range(done, done + max(turn for _, turn in chosen) + 1))
        prompts = await self._prompts(sorted({at for at, _ in chosen}))
        draws = [self._draw(heat, at, done, turn, shown, prompts) for at, turn in chosen]
        requests = {one.key: one.request for one in draws}
        stored = await draw_all(requests, self._round, "proposal", self._runtime)
        images = [
            await emit_generated(
                one.key, one.request, stored[one.key], self._round, "proposal", self._runtime
            )
            for one in draws
        ]
        judgements = await asyncio.gather(
            *(
                self._judge(image, self._places[one.place].facts, one.key)
                for one, image in zip(draws, images, strict=True)
            )
        )
        event = Proposed(
            key=key,
            at=self._context.log.now(),
            round=self._round,
            heat=heat,
            proposals=tuple(
                self._proposal(one, heat, image, judgement)
                for one, image, judgement in zip(draws, images, judgements, strict=True)
            ),
            **costs_of(judgements),
        )
        emit(self._runtime, event)
        return event.proposals

    def _choose_draws(
        self, heat: int, done: int, wanted: int, before: Sequence[Proposal]
    ) -> list[tuple[int, int]]:
        """Return place and number in the heat of the proposals to draw, place by place."""
        open_ones = [
            at for at in range(len(self._places)) if not self._has_confident_winner(before, at)
        ]
        remaining = self._remaining(heat)
        found: list[tuple[int, int]] = []
        # In turns, so that a budget that ends leaves no place without a proposal.
        for turn in range(wanted):
            number = done + turn
            fresh = self._needs_reference_per_proposal and self._fresh(number)
            if fresh and not remaining.reserve(reference_work(self._round_context), 0):
                break
            for at in open_ones:
                work = proposal_work(self._places[at], number, self._round_context)
                # A round that was begun draws one at least.
                if remaining.reserve(work, self._round_context.judges) or (heat == 1 and not found):
                    found.append((at, turn))
        return sorted(found)

    def _remaining(self, heat: int) -> RemainingBudget:
        """Return the budget of ``heat``, whatever of it was drawn before the run was killed."""
        context, budget, most = self._context, self._context.options.budget, math.inf
        numbers = range(context.options.proposals)
        # Images of this heat and of later ones.
        later = {
            image_key(self._round, "proposal", other, at, turn)
            for other in range(heat, 3)
            for at in range(len(self._places))
            for turn in numbers
        } | {
            image_key(self._round, "reference", number)
            for number in numbers
            if heat == 1 or number >= FIRST
        }
        past = [event for event in context.record.events if event.key not in later]
        spent = totals_of(past)
        prices = Prices.of(context, self._round_context.scene, past)
        tokens = spent["tokens_in"] + spent["tokens_out"]
        left = Amount(
            most if budget.usd is None else budget.usd - spent["usd"],
            most if budget.tokens is None else budget.tokens - tokens,
        )
        calls = most
        if budget.judge_calls is not None:
            # The candidate is judged in at most two waves.
            reserved = 2 * len(context.judges("loop"))
            calls = budget.judge_calls - spent["judge_calls"] - reserved
        return RemainingBudget(
            work=most if budget.work is None else budget.work - spent["work"],
            calls=calls,
            images=most if budget.images is None else budget.images - spent["images"],
            paid=left - prices.of_round(0, 1),
            proposal=prices.of_proposal,
        )

    def _fresh(self, number: int) -> bool:
        """Whether proposal ``number`` is drawn after a picture of what is missing of its own.

        The first that is drawn after one takes the round's.
        """
        first = 0 if after_missing(self._round_context, 0) else 1
        return number > first and after_missing(self._round_context, number)

    @property
    def _needs_reference_per_proposal(self) -> bool:
        """Whether every proposal of a place has a picture of what is missing of its own."""
        pasted = any(place.regions for place in self._places)
        return pasted and self._shown is not None and pastes(self._round_context.features)

    async def _references(self, numbers: Sequence[int]) -> dict[int, str | None]:
        """Return the picture of what is missing for each of these proposals, drawing those anew."""
        first = {number: self._shown for number in numbers}
        prompt = self._context.record.get(prompt_key(self._round, "reference"), Composed)
        if not self._needs_reference_per_proposal or prompt is None:
            return first
        anew = [number for number in numbers if self._fresh(number)]
        wanted = {}
        for number in anew:
            seed = round_seed(self._context.options.seed, self._round, f"reference:{number}")
            wanted[image_key(self._round, "reference", number)] = request_of(
                self._context.options,
                prompt.prompt,
                self._round,
                "reference",
                GenerationOverrides(seed=seed),
            )
        stored = await draw_all(wanted, self._round, "reference", self._runtime)
        images = [
            await emit_generated(key, one, stored[key], self._round, "reference", self._runtime)
            for key, one in wanted.items()
        ]
        return first | dict(zip(anew, images, strict=True))

    async def _prompts(self, numbers: Sequence[int]) -> dict[int, str]:
        """Return the prompt of each place, by number: of what a crop shows, else of the scene."""
        context = self._round_context
        whole = context.prompt
        if self._context.record.layout(self._round) != context.layout:
            whole = await compose(context.scene, None, self._round, "candidate", self._runtime)
        found = {}
        for at in numbers:
            shown = shown_in_crop(self._places[at], self._round_context)
            found[at] = whole
            if shown is not None:
                part, places = shown
                scene = self._round_context.scene
                found[at] = await compose(
                    part, scene, self._round, "proposal", self._runtime, (at,), places
                )
        return found

    def _draw(
        self,
        heat: int,
        at: int,
        done: int,
        turn: int,
        shown: Mapping[int, str | None],
        prompts: Mapping[int, str],
    ) -> _Draw:
        seed = round_seed(self._context.options.seed, self._round, f"proposal:{heat}:{at}:{turn}")
        number = done + turn
        changes, does = self._strategy.proposal(
            self._round_context, self._places[at], shown[number], number, seed
        )
        changes = within_mask(changes, self._round_context)
        request = request_of(self._context.options, prompts[at], self._round, "proposal", changes)
        key = image_key(self._round, "proposal", heat, at, turn)
        return _Draw(key, at, turn, request, does)

    async def _judge(self, image: str, ids: Sequence[str], key: str) -> QuickJudgement:
        """Ask about the facts of ``ids``; all others keep their verdicts of the best picture.

        Facts about instances of one class count them, so that they are asked together.
        """
        counted = {fact.classes[0] for fact in self._stated if fact.counts}
        classes = {
            fact.classes[0]
            for fact in self._stated
            if fact.id in set(ids) and fact.classes and fact.kind != "relation"
        }
        asked = {
            fact.id
            for fact in self._stated
            if fact.kind != "relation" and fact.classes and fact.classes[0] in classes & counted
        } | set(ids)
        carried = {name: v for name, v in self._before.items() if name not in asked}
        candidate, scope = Candidate(self._round, image), key.removesuffix(":generated")
        return await judge_once(candidate, self._facts, scope, self._runtime, carried)

    def _proposal(self, one: _Draw, heat: int, image: str, judgement: QuickJudgement) -> Proposal:
        place = self._places[one.place]
        change = self._change([place], judgement)
        wins = bool(change.gained) and change.worth > 0
        if not place.regions:
            # All of it changes: the order of candidates decides.
            wins = improves(judgement.card, self._round_context.card, self._facts)
        return Proposal(
            place=one.place,
            heat=heat,
            number=one.number,
            image=image,
            does=one.does,
            gained=change.gained,
            lost=change.lost,
            expected=round(change.expected, 4),
            worth=round(change.worth, 4),
            log_odds=round(change.log_odds, 4),
            wins=wins,
        )

    def _change(
        self, places: Sequence[Place], judgement: QuickJudgement, apart: bool = False
    ) -> Change:
        """Return what a picture in which ``places`` were drawn anew gained and lost.

        ``apart``: facts that no place watches may be lost too.
        """
        by_id = {fact.id: fact for fact in self._facts}
        after = assigned(self._stated, judgement.card)
        there = {name for place in places for name in place.objects}
        beside = {name for place in places for name in self._touched(place)}

        def prior(fact: Fact) -> float:
            about = {fact.subject, fact.target}
            if about & there:
                return LOST_THERE
            return LOST_BESIDE if about & beside else LOST_APART

        missing = [name for place in places for name in place.missing]
        watched = [name for place in places for name in place.watched]
        if apart:
            watched += [name for name, state in self._states.items() if state == "yes"]
        held = {name: prior(by_id[name]) for name in watched if name not in missing}
        evidence = {
            name: evidence_of(
                by_id[verdict.fact_id],
                judgement.answers.get(verdict.fact_id, ()),
                self._context.panel,
            )
            for name, verdict in after.items()
        }
        return change_between(missing, held, after, evidence)

    def _touched(self, place: Place) -> set[str]:
        regions = [Region(*region) for region in place.regions]
        names = [item.id for item in self._round_context.scene.objects]
        return touched(names, regions, self._known)

    def _has_confident_winner(self, proposals: Sequence[Proposal], at: int) -> bool:
        best = _best(proposals, at)
        return best is not None and best.log_odds >= CONFIDENT_LOG_ODDS

    async def _selected(self, winners: list[Proposal]) -> Selected:
        judgements: list[QuickJudgement] = []
        gained = union_of(one.gained for one in winners)
        lost = union_of(one.lost for one in winners)
        # Where all of the picture changed, the order of candidates has decided.
        while winners and self._places[winners[0].place].regions:
            image = await asyncio.to_thread(self.pasted, winners)
            mine = [self._places[one.place] for one in winners]
            names = "+".join(f"{one.heat}:{one.place}:{one.number}" for one in winners)
            judgement = await self._judge(
                image, [fact.id for fact in self._stated], f"r{self._round}:selected:{names}"
            )
            judgements.append(judgement)
            change = self._change(mine, judgement, apart=True)
            gained, lost = change.gained, change.lost
            least = min(winners, key=lambda one: one.worth)
            if change.worth > 0 and change.worth >= sum(
                one.worth for one in winners if one is not least
            ):
                break
            winners.remove(least)
            gained = union_of(one.gained for one in winners)
            lost = union_of(one.lost for one in winners)
        drawn = self._context.record.all(Generated, self._round)
        spent = totals_of([*drawn, *self._context.record.all(Proposed, self._round)])
        costs = costs_of(judgements)
        return Selected(
            key=f"r{self._round}:selected",
            at=self._context.log.now(),
            round=self._round,
            winners=tuple(winners),
            gained=tuple(gained),
            lost=tuple(lost),
            work=None if any(one.work is None for one in drawn) else spent["work"],
            calls=int(spent["judge_calls"]) + costs["judge_calls"],
            **costs,
        )

    def pasted(self, winners: Sequence[Proposal]) -> str:
        """Return the content hash of the best picture with ``winners`` pasted."""
        images = self._round_context.images
        if not winners:
            return self._round_context.best
        if len(winners) == 1:
            return winners[0].image
        before = images.get(self._round_context.best).convert("RGB")
        whole = before.copy()
        # The best one last: where two touch, it stays as it was judged.
        for one in sorted(winners, key=lambda one: one.worth):
            picture = images.get(one.image).convert("RGB")
            changed = ImageChops.difference(picture, before).convert("L")
            mask = changed.point(lambda value: 255 * (value > 0))
            whole = Image.composite(picture, whole, mask)
        return images.put(whole)


def assigned(facts: Sequence[Fact], card: ScoreCard) -> dict[str, Verdict]:
    """Return the verdict of every fact, those of several instances as they are assigned."""
    verdicts = {verdict.fact_id: verdict for verdict in card.verdicts}
    tells = assign_verdicts(facts, verdicts)
    return {fact.id: verdicts[tells.get(fact.id, fact.id)] for fact in facts}


def _best(proposals: Sequence[Proposal], at: int) -> Proposal | None:
    """Return the winner of a place that is worth most, the earliest of equal ones."""
    mine = [one for one in proposals if one.place == at and one.wins]
    return max(mine, key=lambda one: one.worth, default=None)


def union_of(facts: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Return every id of ``facts`` once, in order."""
    return tuple(dict.fromkeys(name for some in facts for name in some))


@dataclass(slots=True)
class RemainingBudget:
    """Budget that is left in a heat; infinite without a limit."""

    work: float
    calls: float
    images: float
    paid: Amount
    proposal: Amount

    def reserve(self, work: float, calls: int) -> bool:
        """Take the cost of one proposal, if there is room for it."""
        paid = self.paid - self.proposal
        if self.work < work or self.calls < calls or self.images < 1 or paid.overdrawn:
            return False
        self.paid = paid
        self.work -= work
        self.calls -= calls
        self.images -= 1
        return True
