"""A run's row, as the store of runs gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row

from scenewright.service.core.schemas import Door, Status

EDITS = "digests"
"""Key of :attr:`Run.edits` in a row: in its edit."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run's row."""

    id: str
    tenant: str
    key_id: str | None
    door: Door
    title: str
    idempotency_key: str | None
    digest: str
    request: Mapping[str, Any]
    """The ``RefinementRequest`` with the scene as a graph, as JSON data."""
    status: Status
    wants: str
    """``pause`` or ``cancel`` where that was asked for; else empty."""
    edit: Mapping[str, Any] | None
    """The edit with which it goes on; stays until the run has taken it in."""
    edits: Mapping[str, str]
    """Digests of what was sent as its edits, by their idempotency keys."""
    owner: str | None
    """The server that drives it."""
    lease: float | None
    """Until when the owner has said to be alive, Unix time."""
    attempts: int
    """Number of claims since it last came any further."""
    error: str | None
    summary: Mapping[str, Any] | None
    """A ``Summary`` as JSON data."""
    created: float
    queued: float
    updated: float
    ended: float | None


def run_of(row: Row[Any]) -> Run:
    """Return the run of a row of the table of runs."""
    values = dict(row._mapping)
    edit, edits = values.pop("edit"), {}
    if edit is not None:
        edits = edit.get(EDITS, {})
        edit = {name: value for name, value in edit.items() if name != EDITS}
    return Run(edit=edit, edits=edits, **values)


def brief_run_of(row: Row[Any]) -> Run:
    """Return the run of a row of a list: its request is the ``profile`` alone, it has no edit."""
    values = dict(row._mapping)
    return Run(request={"profile": values.pop("profile")}, edit=None, edits={}, **values)
