"""Errors that keep a run from beginning or going on. Each message says how to fix it."""

from __future__ import annotations

from scenewright.core.errors import ScenewrightError


class RunError(ScenewrightError, RuntimeError):
    """A run that cannot begin or go on; says how to fix it. What was stored is kept."""


class ModelsChangedError(RunError):
    """A run that other models have worked for than those that would go on with it."""

    def __init__(self, text: str, differences: str) -> None:
        """``differences``: what differs, without places of this machine or of its providers."""
        super().__init__(text)
        self.differences = differences


class EditError(RunError):
    """An edit that does not fit its run; says why. The run is as it was before."""


class RunInterrupted(RunError):
    """The store of a run was unavailable for a moment; the same call goes on once it is back."""


class LogError(ScenewrightError, RuntimeError):
    """An event log that cannot be read or written; says which line and what to do."""

    def __init__(self, message: str, line: int | None = None) -> None:
        """``line``: the damaged line, from 1."""
        super().__init__(message)
        self.line = line
