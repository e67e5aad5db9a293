"""Judges behind ``scenewright models serve``, on this machine or another one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from PIL import Image

from scenewright.agents.judges.pictures import shrink
from scenewright.agents.judges.remote import chunks
from scenewright.config.model_identity import ModelIdentity, identity_of_spec
from scenewright.core.error_text import error_text, relayed
from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import JudgeError, by_vocabulary, merged, unscored
from scenewright.providers.caller import Caller
from scenewright.providers.model_serving import (
    AnswerOrder,
    AnswerReply,
    InvalidReply,
    ModelServer,
    ServingError,
    encoded_image,
)
from scenewright.providers.usage import Reply, Usage


class ServedJudge:
    """Implements :class:`~scenewright.core.ports.judge.Judge`.

    Its fingerprint is the served model's: answers of the same weights in this process and there
    are the same in caches and manifests. A server whose model has another one by now is refused.
    """

    def __init__(self, server: ModelServer, caller: Caller, *, account: str) -> None:
        """``account``: prefix of the served id in the judge's id.

        Asks the server for its models. Raises ``JudgeError`` if that fails. The judge closes the
        ``server``'s connections, but not the ``caller``, which models of one account share.
        """
        self.id = f"{account}:{server.model}"
        """``account:kind:model``, for example ``cluster:local:miniature/judge-a``."""
        try:
            card = server.card("judge")
        except ServingError as error:
            raise JudgeError(f"{self.id}: {error}") from None
        assert card.caps is not None
        self._server = server
        self._caller = caller
        self._account = account
        self.fingerprint = card.fingerprint
        """The served model's."""
        named = identity_of_spec(server.model)
        name = "" if named is None else named.name
        self.identity = ModelIdentity(self.id, name, card.weights, card.fingerprint)
        """The served model's: its name there and its weights."""
        self.caps = replace(card.caps, local=False, bounds_calls=True)
        """Abilities of the served model, as a remote judge whose calls the account bounds."""
        self._closed = False

    def __repr__(self) -> str:
        """Return the judge's id."""
        return f"ServedJudge({self.id!r})"

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        """Return one answer per fact, in order.

        Facts without an answer are ``unscored``, and so, without a call, are facts with words that
        the served model does not know. Raises ``JudgeError`` only after :meth:`aclose`.
        """
        if self._closed:
            raise JudgeError(f"{self.id} is closed: make a new judge")
        refused, known = by_vocabulary(self.id, self.caps.vocabulary, facts)
        parts = chunks(list(enumerate(known)), self.caps.facts_per_call)
        found = await asyncio.gather(
            *(self._ask(image, [fact for _, fact in part]) for part in parts)
        )
        return merged(refused, [answer for answers in found for answer in answers])

    async def aclose(self) -> None:
        """Close the connections; the served model goes on."""
        if not self._closed:
            self._closed = True
            await self._server.aclose()

    async def _ask(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        def order() -> AnswerOrder:
            shown = encoded_image(shrink(image, self.caps.max_side))
            return AnswerOrder(image=shown, facts=tuple(facts), fingerprint=self.fingerprint)

        async def attempt() -> Reply[list[Answer]]:
            # Encode only now: thousands of queued calls need no encoded image.
            asked = await asyncio.to_thread(order)
            reply = await self._server.ask("answer", asked, AnswerReply)
            if [answer.fact_id for answer in reply.answers] != [fact.id for fact in facts]:
                raise InvalidReply(
                    f"{len(reply.answers)} answers came that do not fit the facts asked"
                )
            own = [
                answer.model_copy(update={"judge_id": self.id, "reason": relayed(answer.reason)})
                for answer in reply.answers
            ]
            return Reply(own, Usage())

        try:
            done = await self._caller.call(
                attempt,
                classify=self._server.classify,
                provider=self._account,
                model=self._server.model,
                tokens=0,
                label=f"{self.id} {len(facts)} facts",
            )
        except Exception as error:
            # A failing judge must not stop the others: its failure is recorded.
            return unscored(self.id, facts, error_text(error))
        return done.value
