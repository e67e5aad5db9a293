"""Whether a model tells log-probabilities: declared, and given up where the server does not.

It depends on the model, its version and its reasoning effort, and providers change it. A request
that is refused for asking is sent again without; a server that tells none in several replies is
asked for none further. Both are remembered (:mod:`scenewright.providers.known_servers`).
"""

from __future__ import annotations

import logging
import re

from scenewright.providers.known_servers import KnownServer

REFUSED_LOGPROBS = "the server refused to tell log-probabilities"
"""Why a request is sent again without asking for them."""
_ABOUT = re.compile(r"log[_ -]?prob", re.IGNORECASE)
SILENT_REPLIES = 3
"""Replies in a row without log-probabilities after which none are asked for: a provider that passes
requests on to several servers may have one that tells none."""
_NAME, _NONE = "logprobs", "none"
_LOG = logging.getLogger("scenewright.providers")


class Logprobs:
    """Whether the next requests of one model ask for log-probabilities."""

    def __init__(self, declared: bool, model: str, server: KnownServer) -> None:
        """``declared``: whether the model is said to tell them; ``model``: its name in the log."""
        self._declared, self._model, self._server = declared, model, server
        self.asked = declared and server.recall(_NAME) != _NONE
        """Whether they are asked for."""
        self._silent = 0

    def refused(self, asked: bool, status: int, message: str) -> bool:
        """Return whether an error of HTTP is about them: then the request is welcome without.
        ``asked``: whether it asked for them."""
        about = asked and status in (400, 422) and _ABOUT.search(message) is not None
        if about:
            self._give_up("refuses to tell")
        return about

    def came(self, asked: bool, told: bool) -> None:
        """Note whether a whole reply ``told`` them; ``asked``: whether its request asked."""
        if asked:
            self._silent = 0 if told else self._silent + 1
            if self._silent >= SILENT_REPLIES:
                self._give_up("tells no")

    def begin_anew(self) -> None:
        """Ask again: another version of the model answers now."""
        self.asked, self._silent = self._declared, 0

    def _give_up(self, what: str) -> None:
        if self.asked:
            self.asked = False
            self._server.keep(_NAME, _NONE)
            _LOG.warning(
                "%s %s log-probabilities: its judge states its probabilities instead; declare "
                "logprobs = false for it in its account to ask for none",
                *(self._model, what),
            )
