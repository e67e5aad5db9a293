"""A model that is exchanged for another one while clients go on asking for it by its old name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Protocol, TypeVar

from scenewright.mock_providers.faults import LabError


class _Asked(Protocol):
    """A request of any form: a dataclass with the name of a model."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def model(self) -> str: ...


AskedT = TypeVar("AskedT", bound=_Asked)


@dataclass(frozen=True, slots=True)
class Swap:
    """From one of its requests on, another model answers in place of a model."""

    model: str
    """The model that clients name, as the lab lists it."""
    by: str
    """The model that answers in its place."""
    after: int = 0
    """Requests for the model that it still answers itself, from the order on."""
    told: str = ""
    """Name of the model that the answers tell from then on; empty: the one that was asked for, so
    that nothing but the answers themselves shows the exchange."""

    def __post_init__(self) -> None:
        if not self.model or not self.by or self.after < 0:
            raise LabError(
                f"a swap of {self.model!r} by {self.by!r} after {self.after} requests: name two "
                "models, and 0 requests or more"
            )


class Swaps:
    """Which models are exchanged, and how many requests each has met since that was ordered."""

    def __init__(self, swaps: Iterable[Swap] = ()) -> None:
        """``swaps`` are ordered at once, and are what :meth:`clear` goes back to."""
        self._given = tuple(swaps)
        self._swaps: dict[str, Swap] = {}
        self._met: dict[str, int] = {}
        self.clear()

    def order(self, swap: Swap) -> None:
        """Exchange a model; an earlier order for it ends."""
        self._swaps[swap.model] = swap
        self._met[swap.model] = 0

    def clear(self) -> None:
        """Back to the swaps that the lab began with, counted anew."""
        self._swaps, self._met = {}, {}
        for swap in self._given:
            self.order(swap)

    def answering(self, asked: AskedT, name: str) -> tuple[AskedT, str]:
        """Count a request for the model ``name``; who answers it, and the request with the name
        that the answer tells."""
        swap = self._swaps.get(name)
        if swap is None:
            return asked, name
        self._met[name] += 1
        if self._met[name] <= swap.after:
            return asked, name
        return (replace(asked, model=swap.told) if swap.told else asked), swap.by

    def state(self) -> list[dict[str, Any]]:
        """What is ordered, with the requests met so far, for people."""
        return [{**asdict(swap), "met": self._met[swap.model]} for swap in self._swaps.values()]


def parse_swaps(texts: Iterable[str]) -> tuple[Swap, ...]:
    """Swaps from texts ``MODEL=OTHER``, ``MODEL=OTHER@60`` (from the 61st request on) and
    ``MODEL=OTHER@60:NAME`` (the answers then tell NAME). Raises ``LabError``."""
    found = []
    for text in texts:
        model, _, rest = text.partition("=")
        head, _, told = rest.partition(":")
        by, _, after = head.partition("@")
        try:
            found.append(Swap(model.strip(), by.strip(), int(after or 0), told.strip()))
        except ValueError as error:
            raise LabError(
                f"{text!r}: write MODEL=OTHER, MODEL=OTHER@REQUESTS or "
                "MODEL=OTHER@REQUESTS:NAME, for example judge-a=judge-b@60"
            ) from error
    return tuple(found)
