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
from collections.abc import Mapping, Sequence
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
    request_of,
    tell_drawn,
    within_mask_of_run,
)
from scenewright.graphs.events import (
    Composed,
    Event,
    Generated,
    Place,
    Proposal,
    Proposed,
    Selected,
)
from scenewright.graphs.initial_image import within_mask
from scenewright.graphs.limits import Amount, Prices
from scenewright.graphs.run_status import totals_of
from scenewright.graphs.state import RefineContext, emit, improves, round_seed
from scenewright.graphs.strategies.base import GenerationOverrides, RepairPlan, RoundContext
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
from scenewright.graphs.verify import Glance, costs_of, glance

SURE = math.log(9.0)
"""Log-odds of having gained a fact and lost none from which a winner ends the heats of its place;
what it did not gain is left for the next round."""


async def choose_proposals(
    repair_plan: RepairPlan,
    round_context: RoundContext,
    shown: str | None,
    runtime: Runtime[RefineContext],
) -> str:
    """Return the candidate of the round: the best picture with the winning proposals pasted.

    ``shown`` is the content hash of the picture of what is missing.
    """
    round, context = round_context.round, runtime.context
    table = _Tournament(repair_plan, round_context, shown, runtime)
    event = context.log.get(f"r{round}:selected", Selected)
    if event is None:
        event = await table.held()
        emit(runtime, event)
    image = await asyncio.to_thread(table.pasted, event.winners)
    _, changed = await asyncio.to_thread(within_mask_of_run, context.images.get(image), context)
    emit(
        runtime,
        Generated(
            key=f"r{round}:candidate:generated",
            at=context.log.now(),
            round=round,
            purpose="candidate",
            image=image,
            request=round_context.request,
            seconds=0.0,
            pasted=True,
            changed=changed,
        ),
    )
    return image


@dataclass(frozen=True, slots=True)
class _Draw:
    """A proposal to be drawn."""

    key: str
    place: int
    number: int
    request: GenerationRequest
    does: str


class _Tournament:
    def __init__(
        self,
        repair_plan: RepairPlan,
        round_context: RoundContext,
        shown: str | None,
        runtime: Runtime[RefineContext],
    ) -> None:
        self._places = repair_plan.places
        self._situation = round_context
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

    async def held(self) -> Selected:
        """Hold all heats, and return the choice."""
        found: list[Proposal] = []
        heat, done = 1, 0
        most = self._context.options.proposals
        while done < most:
            wanted = min(FIRST if heat == 1 else most, most - done)
            told = await self._heat(heat, done, wanted, found)
            if not told:
                break
            found += told
            heat, done = heat + 1, done + wanted
        winners = [
            best for at in range(len(self._places)) if (best := _best(found, at)) is not None
        ]
        return await self._selected(winners)

    async def _heat(
        self, heat: int, done: int, wanted: int, before: Sequence[Proposal]
    ) -> tuple[Proposal, ...]:
        """Draw and judge ``wanted`` proposals of each place that has no sure winner.

        Fewer where the budget has no room; none if all are sure.
        """
        key = f"r{self._round}:proposed:{heat}"
        event = self._context.log.get(key, Proposed)
        if event is not None:
            return event.proposals
        chosen = self._chosen(heat, done, wanted, before)
        if not chosen:
            return ()
        shown = await self._references(range(done, done + max(turn for _, turn in chosen) + 1))
        prompts = await self._prompts(sorted({at for at, _ in chosen}))
        draws = [self._draw(heat, at, done, turn, shown, prompts) for at, turn in chosen]
        requests = {one.key: one.request for one in draws}
        stored = await draw_all(requests, self._round, "proposal", self._runtime)
        images = [
            await tell_drawn(
                one.key, one.request, stored[one.key], self._round, "proposal", self._runtime
            )
            for one in draws
        ]
        seen = await asyncio.gather(
            *(
                self._look(image, self._places[one.place].facts, one.key)
                for one, image in zip(draws, images, strict=True)
            )
        )
        event = Proposed(
            key=key,
            at=self._context.log.now(),
            round=self._round,
            heat=heat,
            proposals=tuple(
                self._judged(one, heat, image, glanced)
                for one, image, glanced in zip(draws, images, seen, strict=True)
            ),
            **costs_of(seen),
        )
        emit(self._runtime, event)
        return event.proposals

    def _chosen(
        self, heat: int, done: int, wanted: int, before: Sequence[Proposal]
    ) -> list[tuple[int, int]]:
        """Return place and number in the heat of the proposals to draw, place by place."""
        open_ones = [at for at in range(len(self._places)) if not self._sure(before, at)]
        room = _Room.of(self._situation, self._context, heat)
        found: list[tuple[int, int]] = []
        # In turns, so that a budget that ends leaves no place without a proposal.
        for turn in range(wanted):
            number = done + turn
            fresh = self._own_references and self._fresh(number)
            if fresh and not room.take(reference_work(self._situation), 0):
                break
            for at in open_ones:
                work = proposal_work(self._places[at], number, self._situation)
                # A round that was begun draws one at least.
                if room.take(work, self._situation.judges) or (heat == 1 and not found):
                    found.append((at, turn))
        return sorted(found)

    def _fresh(self, number: int) -> bool:
        """Whether proposal ``number`` is drawn after a picture of what is missing of its own.

        The first that is drawn after one takes the round's.
        """
        first = 0 if after_missing(self._situation, 0) else 1
        return number > first and after_missing(self._situation, number)

    @property
    def _own_references(self) -> bool:
        """Whether every proposal of a place has a picture of what is missing of its own."""
        pasted = any(place.regions for place in self._places)
        return pasted and self._shown is not None and pastes(self._situation.features)

    async def _references(self, numbers: Sequence[int]) -> dict[int, str | None]:
        """Return the picture of what is missing for each of these proposals, drawing those anew."""
        first = {number: self._shown for number in numbers}
        prompt = self._context.log.get(f"r{self._round}:reference:composed", Composed)
        if not self._own_references or prompt is None:
            return first
        anew = [number for number in numbers if self._fresh(number)]
        wanted = {}
        for number in anew:
            name = f"reference:{number}"
            seed = round_seed(self._context.options.seed, self._round, name)
            wanted[f"r{self._round}:{name}:generated"] = request_of(
                self._context.options,
                prompt.prompt,
                self._round,
                "reference",
                GenerationOverrides(seed=seed),
            )
        stored = await draw_all(wanted, self._round, "reference", self._runtime)
        images = [
            await tell_drawn(key, one, stored[key], self._round, "reference", self._runtime)
            for key, one in wanted.items()
        ]
        return first | dict(zip(anew, images, strict=True))

    async def _prompts(self, numbers: Sequence[int]) -> dict[int, str]:
        """Return the prompt of each place, by number: of what a crop shows, else of the scene."""
        whole = self._situation.prompt
        found = {}
        for at in numbers:
            shown = shown_in_crop(self._places[at], self._situation)
            found[at] = whole
            if shown is not None:
                part, places = shown
                scene = self._situation.scene
                found[at] = await compose(
                    part, scene, self._round, "proposal", self._runtime, part=at, places=places
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
        name = f"proposal:{heat}:{at}:{turn}"
        seed = round_seed(self._context.options.seed, self._round, name)
        number = done + turn
        changes, does = self._strategy.proposal(
            self._situation, self._places[at], shown[number], number, seed
        )
        changes = within_mask(changes, self._situation)
        request = request_of(self._context.options, prompts[at], self._round, "proposal", changes)
        return _Draw(f"r{self._round}:{name}:generated", at, turn, request, does)

    async def _look(self, image: str, ids: Sequence[str], key: str) -> Glance:
        """Ask about the facts of ``ids``; all others keep their verdicts of the best picture.

        Facts about instances of one class count them, so that they are asked together.
        """
        counted = {fact.classes[0] for fact in self._stated if fact.counts}
        mine = {
            fact.classes[0]
            for fact in self._stated
            if fact.id in set(ids) and fact.classes and fact.kind != "relation"
        }
        asked = {
            fact.id
            for fact in self._stated
            if fact.kind != "relation" and fact.classes and fact.classes[0] in mine & counted
        } | set(ids)
        carried = {name: v for name, v in self._before.items() if name not in asked}
        origin = key.removesuffix(":generated")
        return await glance(image, self._facts, origin, self._round, self._runtime, carried)

    def _judged(self, one: _Draw, heat: int, image: str, seen: Glance) -> Proposal:
        place = self._places[one.place]
        change = self._change([place], seen)
        wins = bool(change.gained) and change.worth > 0
        if not place.regions:
            # All of it changes: the order of candidates decides.
            wins = improves(seen.card, self._situation.card, self._facts)
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

    def _change(self, places: Sequence[Place], seen: Glance, apart: bool = False) -> Change:
        """Return what a picture in which ``places`` were drawn anew gained and lost.

        ``apart``: facts that no place watches may be lost too.
        """
        by_id = {fact.id: fact for fact in self._facts}
        after = assigned(self._stated, seen.card)
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
                seen.answers.get(verdict.fact_id, ()),
                self._context.panel,
            )
            for name, verdict in after.items()
        }
        return change_between(missing, held, after, evidence)

    def _touched(self, place: Place) -> set[str]:
        regions = [Region(*region) for region in place.regions]
        names = [item.id for item in self._situation.scene.objects]
        return touched(names, regions, self._known)

    def _sure(self, proposals: Sequence[Proposal], at: int) -> bool:
        best = _best(proposals, at)
        return best is not None and best.log_odds >= SURE

    async def _selected(self, winners: list[Proposal]) -> Selected:
        glances: list[Glance] = []
        gained, lost = _united(winners, "gained"), _united(winners, "lost")
        # Where all of the picture changed, the order of candidates has decided.
        while winners and self._places[winners[0].place].regions:
            image = await asyncio.to_thread(self.pasted, winners)
            mine = [self._places[one.place] for one in winners]
            names = "+".join(f"{one.heat}:{one.place}:{one.number}" for one in winners)
            seen = await self._look(
                image, [fact.id for fact in self._stated], f"r{self._round}:selected:{names}"
            )
            glances.append(seen)
            change = self._change(mine, seen, apart=True)
            gained, lost = change.gained, change.lost
            least = min(winners, key=lambda one: one.worth)
            if change.worth > 0 and change.worth >= sum(
                one.worth for one in winners if one is not least
            ):
                break
            winners.remove(least)
            gained, lost = _united(winners, "gained"), _united(winners, "lost")
        spent = totals_of(
            event
            for event in self._context.log.events
            if isinstance(event, Proposed | Generated) and event.round == self._round
        )
        drawn = [
            event
            for event in self._context.log.events
            if isinstance(event, Generated) and event.round == self._round
        ]
        costs = costs_of(glances)
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
        images = self._situation.images
        if not winners:
            return self._situation.best
        if len(winners) == 1:
            return winners[0].image
        before = images.get(self._situation.best).convert("RGB")
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


def _united(winners: Sequence[Proposal], name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found for one in winners for found in getattr(one, name)))


@dataclass(slots=True)
class _Room:
    """What the budget still allows in a heat; infinite without a limit."""

    work: float
    calls: float
    images: float
    paid: Amount
    proposal: Amount

    @classmethod
    def of(cls, situation: RoundContext, context: RefineContext, heat: int) -> _Room:
        """Return the room of ``heat``, whatever of it was drawn before the run was killed."""
        budget = context.options.budget
        past = [e for e in context.log.events if _heat_of(e, situation.round) < heat]
        spent: Mapping[str, float] = totals_of(past)
        prices = Prices.of(context, situation.scene, past)
        left = Amount(
            math.inf if budget.usd is None else budget.usd - spent["usd"],
            math.inf
            if budget.tokens is None
            else budget.tokens - spent["tokens_in"] - spent["tokens_out"],
        )
        # The candidate is judged in at most two waves.
        reserved = 2 * len(context.judges("loop"))
        return cls(
            work=math.inf if budget.work is None else budget.work - spent["work"],
            calls=(
                math.inf
                if budget.judge_calls is None
                else budget.judge_calls - spent["judge_calls"] - reserved
            ),
            images=math.inf if budget.images is None else budget.images - spent["images"],
            paid=left - prices.of_round(0, 1),
            proposal=prices.of_proposal,
        )

    def take(self, work: float, calls: int) -> bool:
        """Take the cost of one proposal, if there is room for it."""
        paid = self.paid - self.proposal
        if self.work < work or self.calls < calls or self.images < 1 or paid.overdrawn:
            return False
        self.paid = paid
        self.work -= work
        self.calls -= calls
        self.images -= 1
        return True


def _heat_of(event: Event, round: int) -> int:
    """Return the heat of ``round`` that a picture was drawn in; 0 if it is of none."""
    if not isinstance(event, Generated) or event.round != round:
        return 0
    number = event.key.split(":")
    if event.purpose == "proposal":
        return int(number[2])
    if event.purpose == "reference" and len(number) == 4:
        return 1 if int(number[2]) < FIRST else 2
    return 0
