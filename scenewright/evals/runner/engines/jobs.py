"""What a crew works on: the port between the workers' events and the books of one job."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

T = TypeVar("T", contravariant=True)


class ItemListener(Protocol):
    """One worker at one item, as the driver follows it."""

    @property
    def given(self) -> Any:
        """What the worker is given."""
        ...

    def hear(self, event: Any) -> bool:
        """Keep what the worker tells; whether the item is done with it."""
        ...

    def lost(self) -> None:
        """The worker died before the item was done: another one begins."""
        ...


class Job(Protocol[T]):
    """Work on items, each by one worker of a crew."""

    @property
    def actor(self) -> type[Any]:
        """The class of the workers, made with what :meth:`post` gives.

        Its ``ready()`` loads the models and returns what they are, ``item(given)`` streams lists
        of events, ``close()`` flushes what it wrote.
        """
        ...

    @property
    def concurrency(self) -> int:
        """Items at work in each worker."""
        ...

    @property
    def models(self) -> Any:
        """What ``ready()`` must return."""
        ...

    def post(self, name: str) -> Any:
        """What the worker ``name`` is told when it begins."""
        ...

    def ready(self, workers: int, of: int) -> None:
        """So many workers are ready."""
        ...

    def begin(self, position: int, item: T) -> ItemListener:
        """A worker begins with ``item``."""
        ...
