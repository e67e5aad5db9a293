"""The director's desk: what its tools do, on the state of one run.

Each tool is a plain asynchronous method with one pydantic model as its argument; it returns a
:class:`ToolReply` or raises :class:`ToolError`. ``graphs/director_tools.py`` offers them to a
language model. The event log is the desk's only memory (``graphs/director_state.py``).
"""

from __future__ import annotations

import asyncio
from typing import Any

from PIL import Image

from scenewright.config.profiles import DIRECTOR
from scenewright.core.facts import missing_graph
from scenewright.core.images import hash_of_image
from scenewright.core.ports.backend import BackendError, Start
from scenewright.core.regions import mask_of
from scenewright.core.scene import SceneGraph
from scenewright.graphs.candidates import situation_of
from scenewright.graphs.director_record import DirectorRecord, short
from scenewright.graphs.director_state import left_of, next_round
from scenewright.graphs.drawing import compose, draw
from scenewright.graphs.events import Event, Generated, Planned
from scenewright.graphs.state import emit
from scenewright.graphs.strategies.base import GenerationOverrides
from scenewright.graphs.strategies.feedback import Feedback
from scenewright.providers import ask
from scenewright.providers.idempotency import identified
from scenewright.providers.usage import Usage
from scenewright.tools.generate import GenerateImage, Inpaint, RefineWithReference
from scenewright.tools.look import Look, region_of_box, seen, shown
from scenewright.tools.replies import ToolError, ToolReply, preview
from scenewright.tools.verify import Accept, VerifyFacts, card_in_short


class DirectorToolset(DirectorRecord):
    """The tools of one run, and what they show."""

    async def generate_image(self, given: GenerateImage) -> ToolReply:
        """A new picture of the whole scene."""
        self.room(1)
        words = given.prompt.strip()
        does = f"draws from other words: {short(words)}" if words else "draws the scene again"
        round = self._begin(does, given.why)
        return await self._draw(round, GenerationOverrides(prompt=words or None) if words else None)

    async def refine_with_reference(self, given: RefineWithReference) -> ToolReply:
        """A new picture, led by the best one and by one of what it lacks (Eq. 5)."""
        if not self.context.backend.features.references:
            raise ToolError("this backend takes no reference images: draw or inpaint instead")
        best = await self.best_of_all()
        weights = {"weight_best": given.weight_best, "weight_missing": given.weight_missing}
        changed = {name: value for name, value in weights.items() if value is not None}
        context = self.context
        options = context.options.model_copy(update=changed)
        card = context.card(best["round"])
        wanted = self.named(given.facts) or self.facts
        missing = missing_graph(self.scene, wanted, card.verdicts)
        if not missing:
            raise ToolError(
                f"nothing of that is known to be missing in r{best['round']}: name missing facts, "
                "or accept it"
            )
        round = next_round(self.past)
        prompt = await compose(self.scene, None, 0, "candidate", self.runtime)
        round_context = situation_of(self.scene, prompt, best, round, context, options, missing)
        repair_plan = Feedback().plan_repair(round_context)
        self.room(1 if repair_plan.reference is None else 2)
        self._begin(repair_plan.does, given.why, repair_plan.reference)
        shows = None
        if repair_plan.reference is not None:
            words = await compose(
                repair_plan.reference, self.scene, round, "reference", self.runtime
            )
            shows = await self._drawn(words, round, "reference", None)
        return await self._draw(round, Feedback().redraw(round_context, repair_plan, shows))

    async def inpaint(self, given: Inpaint) -> ToolReply:
        """A new picture that differs from an older one in a part of it."""
        features = self.context.backend.features
        if not features.edit:
            raise ToolError("this backend cannot keep a part of a picture: draw anew instead")
        if not given.box:
            raise ToolError("box is empty: give [left, top, right, bottom], each from 0 to 1")
        region = region_of_box(given.box)
        if given.image == "best":
            await self.best_of_all()
        base = self.candidate(given.image)
        self.room(1)
        images = self.context.images
        size = (await asyncio.to_thread(images.get, base["image"])).size
        mask = await asyncio.to_thread(images.put, mask_of([region], size))
        start = Start(
            image=base["image"],
            strength=given.strength if features.strengths else 1.0,
            mask=mask,
        )
        words = given.prompt.strip()
        box = ", ".join(f"{share:g}" for share in given.box)
        does = f"draws the part [{box}] of round {base['round']} again"
        if words:
            does += f" from other words: {short(words)}"
        round = self._begin(does, given.why)
        return await self._draw(round, GenerationOverrides(start=start, prompt=words or None))

    async def verify_facts(self, given: VerifyFacts) -> ToolReply:
        """What the judges of the loop find in a candidate; asked at most once."""
        only = {fact.id for fact in self.named(given.facts)}
        candidate = self.candidate(given.image)
        await self.judge(candidate)
        best = self.best()
        card = card_in_short(self.context.card(candidate["round"]), self.facts, only)
        return self._reply(
            {
                "image": f"r{candidate['round']}",
                **card,
                "best": None if best is None else f"r{best['round']}",
            }
        )

    async def look(self, given: Look) -> ToolReply:
        """A closer look at any picture of the run, and one judge's answer to a question."""
        name, image = self.picture(given.image)
        picture = await asyncio.to_thread(self.context.images.get, image)
        view = await asyncio.to_thread(seen, picture, given)
        told: dict[str, Any] = {"image": name}
        if given.box:
            told["box"] = list(given.box)
        if given.question.strip():
            told |= await self._ask(view, given)
        small = await asyncio.to_thread(shown, picture, given)
        return self._reply(told, small)

    async def accept(self, given: Accept) -> ToolReply:
        """Keep a candidate; ``ToolError`` for one that is worse than the best."""
        best = await self.best_of_all()
        chosen = self.candidate(given.image)
        card, most = self.context.card(chosen["round"]), self.context.card(best["round"])
        if chosen != best:
            lost = {v.fact_id for v in most.verdicts if v.state == "yes"}
            lost -= {v.fact_id for v in card.verdicts if v.state == "yes"}
            silent = _unscored(card) - _unscored(most)
            if card.rank != most.rank or silent:
                held = "; ".join(f.statement for f in self.facts if f.id in lost)
                raise ToolError(
                    f"r{chosen['round']} is worse than r{best['round']}: score "
                    f"{_number(card.sgscore)} against {_number(most.sgscore)}"
                    + (f"; only r{best['round']} holds: {short(held)}" if held else "")
                    + f". Accept r{best['round']}, or repair it"
                )
        return self._reply({"image": f"r{chosen['round']}", "accepted": True})

    def show(self, tool: str, arguments: dict[str, Any], told: dict[str, Any]) -> Image.Image:
        """The picture that goes with what ``tool`` told, as it went the first time.

        Raises ``LookupError`` for a tool that shows none.
        """
        if tool not in ("look", "generate_image", "refine_with_reference", "inpaint"):
            raise LookupError(tool)
        picture = self.context.images.get(self.stored(str(told["image"])))
        if tool == "look":
            return shown(picture, Look.model_validate(arguments))
        return preview(picture)

    def _reply(self, told: dict[str, Any], picture: Image.Image | None = None) -> ToolReply:
        left = left_of(self.context, self.past)
        calls = left["calls"]
        # The call at work is not told yet.
        left["calls"] = max(0, calls - 1) if calls is not None else None
        return ToolReply(told | {"left": left}, picture)

    def _begin(self, does: str, why: str, reference: SceneGraph | None = None) -> int:
        """The number of the next round, its plan told."""
        round = next_round(self.past)
        if round:
            plan = Planned(
                key=f"r{round}:planned",
                at=self.context.log.now(),
                round=round,
                strategy=DIRECTOR,
                does=does,
                why=why.strip() or self.said or "the director chose it",
                reference=reference,
            )
            emit(self.runtime, plan)
        return round

    async def _draw(self, round: int, redrawn: GenerationOverrides | None) -> ToolReply:
        prompt = await compose(self.scene, None, 0, "candidate", self.runtime)
        image = await self._drawn(prompt, round, "candidate", redrawn)
        event = self.context.log.get(f"r{round}:candidate:generated", Generated)
        assert event is not None
        picture = await asyncio.to_thread(self.context.images.get, image)
        left = left_of(self.context, [*self.past, *self._new()])
        left["calls"] = max(0, (left["calls"] or 0) - 1)
        told = {"image": f"r{round}", "prompt": event.request.prompt, "left": left}
        return ToolReply(told, preview(picture))

    def _new(self) -> list[Event]:
        """The events of the call at work."""
        return list(self.context.log.events[len(self.past) :])

    async def _drawn(
        self, prompt: str, round: int, purpose: Any, redrawn: GenerationOverrides | None
    ) -> str:
        try:
            return await draw(prompt, round, purpose, redrawn, self.runtime)
        except BackendError as error:
            raise ToolError(f"the backend did not draw it: {error}") from error

    async def _ask(self, view: Image.Image, given: Look) -> dict[str, Any]:
        judge = self.context.loop_judges[0]
        name = await asyncio.to_thread(hash_of_image, view)
        with identified(self.context.paid_as(self.origin)):
            asked = await ask(
                judge,
                name,
                view,
                [given.fact()],
                store=self.context.answers,
                limit=self.context.judge_timeout,
                origin=self.origin,
            )
        (answer,) = asked.answers
        self.asked = self.asked + Usage(answer.tokens_in, answer.tokens_out)
        self.asked_usd += answer.usd
        told: dict[str, Any] = {"question": given.question, "judge": judge.id}
        if answer.state == "unscored":
            return told | {"answer": None, "reason": short(answer.reason)}
        told["answer"] = answer.choice
        if answer.probability is not None:
            told["probability"] = {given.options[0]: round(answer.probability, 3)}
        return told


def _unscored(card: Any) -> set[str]:
    return {verdict.fact_id for verdict in card.verdicts if verdict.state == "unscored"}


def _number(score: float | None) -> str:
    return "unknown" if score is None else f"{score:.3f}"
