"""What a lab was asked again, held against what was kept by then.

A request carries a key made of the step that asks. So the log of the lab tells which step asked
when, and the stores of pictures and answers since when its result was kept: a step that asks later
than that asks for what it has.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scenewright.mock_providers.accounts import Request

_NUMBERS = 4
"""Equal requests of one step that are told apart: those after unusable replies."""


@dataclass(frozen=True, slots=True)
class Again:
    """What was asked more than once."""

    requests: int
    """Different requests that a model has answered."""
    twice: int
    """Requests for what was kept already, or for a step that nothing was kept of."""
    repeated_in_flight: int
    """Others that a model answered once more, since a lab that was killed had forgotten them."""
    replayed: int
    """Others that got the reply of the earlier one."""
    over: int
    """Those of ``repeated_in_flight`` beyond the steps at work at the lab's last kill."""


def asked_again(
    log: Iterable[Request],
    kept: Mapping[str, float],
    forgotten: Sequence[float] = (),
    at_work: int = 0,
) -> Again:
    """Count a log. ``kept``: scope of a step → since when its result is kept, Unix seconds.

    ``forgotten``: when labs were killed; ``at_work``: the most steps that were at work then.
    """
    seen: set[tuple[str, str]] = set()
    executed: set[tuple[str, str]] = set()
    twice = replayed = 0
    repeated: Counter[int] = Counter()
    for request in log:
        name = request.account, request.key
        if name in seen:
            since = _since(request, kept)
            if since is None or since < request.arrived:
                twice += 1
            elif request.executed and name in executed:
                repeated[sum(moment < request.arrived for moment in forgotten)] += 1
            else:
                replayed += 1
        seen.add(name)
        if request.executed:
            executed.add(name)
    over = sum(max(0, count - (at_work if kills else 0)) for kills, count in repeated.items())
    return Again(len(executed), twice, repeated.total(), replayed, over)


def _since(request: Request, kept: Mapping[str, float]) -> float | None:
    """Since when what ``request`` asks for is kept; None if no step asked it."""
    for scope, since in kept.items():
        for number in range(_NUMBERS):
            key = hashlib.sha256("\0".join((scope, str(number), request.asked)).encode())
            if key.hexdigest() == request.key:
                return since
    return None


class Notes:
    """Since when pictures are kept, of the notes on their requests: looked at again and again,
    since a note that is written once more is as young as its last writing."""

    def __init__(self, folder: Path) -> None:
        """``folder``: all image stores below it are looked at."""
        self._folder = folder
        self._first: dict[Path, float] = {}

    def look(self) -> None:
        """Note what is there now."""
        for place in self._places():
            with os.scandir(place) as files:
                for file in files:
                    if file.name.endswith(".json"):
                        path, at = Path(file.path), file.stat().st_mtime
                        self._first[path] = min(at, self._first.get(path, at))

    def origins(self) -> dict[Path, dict[str, float]]:
        """Folder of a store → step that paid for a picture → since when the picture is kept."""
        self.look()
        found: dict[Path, dict[str, float]] = defaultdict(dict)
        for path, at in self._first.items():
            origin = json.loads(path.read_text(encoding="utf-8"))["meta"]["origin"]
            found[path.parent.parent][origin] = at
        return found

    def _places(self) -> list[Path]:
        return [place for place in self._folder.rglob("images/requests") if place.is_dir()]
