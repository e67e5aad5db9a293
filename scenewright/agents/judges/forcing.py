"""How a server that speaks OpenAI's format is made to fill in a given form.

By the tool's name, by the word ``required`` beside that tool alone, or by a JSON schema in place
of the tool: servers leave aside, or refuse, what they do not understand. Where it is not declared
it is found out by the requests themselves: one that a way did not bind is sent again in the next
way, and the way that bound is kept, for other processes too
(:mod:`scenewright.providers.known_servers`).
"""

from __future__ import annotations

import logging
import re
from typing import Literal

from scenewright.providers.known_servers import KnownServer

ToolChoice = Literal["probe", "named", "required", "schema"]
Way = Literal["named", "required", "schema"]
_WAYS: tuple[Way, ...] = ("named", "required", "schema")
REFUSED_WAY = "the server refused the way in which the tool was to be forced"
"""Why a request is sent again in another way."""
_ABOUT_TOOLS = re.compile(r"tool|function", re.IGNORECASE)
_ABOUT_FORMS = re.compile(r"response_format|schema", re.IGNORECASE)
_NAME = "tool_choice"
_LOG = logging.getLogger("scenewright.providers")


class Forcing:
    """The way in which one model's tools are forced, declared or found out once."""

    def __init__(self, declared: ToolChoice, model: str, server: KnownServer | None = None) -> None:
        """``model``: its name in the log. ``server``: remembers the way that is found."""
        self._model = model
        self._declared = declared != "probe"
        self._server = None if self._declared else server
        self._bound = False
        kept = self._server.recall(_NAME) if self._server is not None else None
        self._recalled = kept in _WAYS
        # A way that was remembered may bind no longer: then the others are tried.
        self._order = tuple(sorted(_WAYS, key=lambda way: way != kept))
        self.way: Way = self._order[0] if declared == "probe" else declared
        """The way in which the next request goes."""

    def bound(self, way: Way) -> None:
        """Keep ``way``: a request in it was filled in."""
        if self._declared or self._bound:
            return
        self._bound, self.way = True, way
        if self._recalled:
            return
        if self._server is not None:
            self._server.keep(_NAME, way)
        if way != "named":
            _LOG.warning(
                "%s lets no tool be forced by its name; the way that binds is found: declare "
                'tool_choice = "%s" for it in its account to spare the tries',
                *(self._model, way),
            )

    def missed(self, way: Way) -> bool:
        """Return whether another way is left to try after one in ``way`` was not filled in."""
        if self._declared or self._bound:
            return False
        if self._recalled:
            self._recalled = False
            self._forget()
        if way != self.way:
            # Sent before the change: another way is tried by now.
            return True
        at = self._order.index(way) + 1
        # After the last one the next call begins anew: the model may have been at fault.
        self.way = self._order[at % len(self._order)]
        return at < len(self._order)

    def refused(self, way: Way, status: int, message: str) -> bool:
        """Return whether an error of HTTP is about the way, and another one is left to try."""
        about = _ABOUT_FORMS if way == "schema" else _ABOUT_TOOLS
        return status in (400, 422) and bool(about.search(message)) and self.missed(way)

    def begin_anew(self) -> None:
        """Find the way out again: another version of the model answers now."""
        if not self._declared:
            self._bound = self._recalled = False
            self._order, self.way = _WAYS, _WAYS[0]
            self._forget()

    def _forget(self) -> None:
        if self._server is not None:
            self._server.forget(_NAME)
