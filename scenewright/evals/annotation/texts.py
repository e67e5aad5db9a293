"""One question to a language model about a list, kept once it was answered."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.messages import HumanMessage

from scenewright.agents.chat.language_replies import ask_for, tool_of
from scenewright.evals.annotation.panel_queries import after, reason_of, tries_of
from scenewright.evals.annotation.voters import TextModel
from scenewright.evals.store.ledger import Ledger, Reply
from scenewright.prompts import load_prompt
from scenewright.providers.sdk_clients import identified
from scenewright.providers.usage import metered

Reader = Callable[[Mapping[str, Any], bool], Any]
"""Makes JSON data of the tool's arguments. The flag says that it is the model's last chance: what
can be used is then taken. Raises ``ValueError`` with what is wrong otherwise."""


async def ask_text(
    ledger: Ledger,
    model: TextModel,
    kind: str,
    prompt_id: str,
    read: Reader,
    *,
    retry: bool = False,
    **variables: str,
) -> Reply:
    """The reply to the prompt ``prompt_id`` with ``variables``, from ``ledger`` or from the model.

    The model calls the prompt's tool. A reply that cannot be used even after the model was told so
    is a failed one, asked again with ``retry`` alone. Raises ``AnnotationError`` if the ledger
    fails.
    """
    prompt = load_prompt(prompt_id)
    text = prompt.render(**variables)
    told = "\0".join((kind, model.fingerprint, prompt.hash, text))
    key = hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()
    before = ledger.get(key)
    if before is not None and (before.state == "done" or not retry):
        return before
    heard = 0

    def attempt(given: Mapping[str, Any]) -> Any:
        nonlocal heard
        heard += 1
        return read(given, heard > 1)

    data: Any = None
    reason = ""
    started = time.perf_counter()
    with metered() as spent, identified(f"annotate:{key}:{tries_of(before)}"):
        try:
            asked = await ask_for(model.chat, [HumanMessage(text)], tool_of(prompt), attempt)
            data = asked.value
        # Whatever a model's reply or library does costs this reply and no other.
        except Exception as error:
            reason = reason_of(error)
    reply = Reply(
        key,
        kind,
        model.name,
        "failed" if reason else "done",
        reason,
        data,
        spent.usage.tokens_in,
        spent.usage.tokens_out,
        spent.usd,
        time.perf_counter() - started,
    )
    reply = after(before, reply)
    ledger.put(reply)
    return reply
