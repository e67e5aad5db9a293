"""Settings of a mock server: its address, limits, latency and faults."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from scenewright.mock_providers.faults import Fault, MockError, Quirk, Swap, check_shares

LIMITS = ("requests_per_minute", "tokens_per_minute", "concurrent")
"""Settings of an account's limits."""


@dataclass(frozen=True, slots=True)
class MockSettings:
    """Settings of a mock server; ``MockError`` if one is out of range."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 0
    """TCP port; 0 takes a free one."""
    requests_per_minute: int | None = None
    """Most requests that one API key may have accepted in any 60 s; none: no limit."""
    tokens_per_minute: int | None = None
    """Most tokens, input and output together, of one API key in any 60 s; none: no limit."""
    window: float = 60.0
    """Seconds over which requests and tokens are counted; a limit holds for its share of them."""
    concurrent: int | None = None
    """Most requests of one API key under way at once; none: no limit."""
    latency: float = 0.0
    """Seconds after which a request is answered, if its model is done by then."""
    jitter: float = 0.0
    """The latency is drawn evenly from ``latency`` ± ``jitter`` seconds, never below 0."""
    tokens_per_second: float | None = None
    """Tokens that a model writes in a second, after the latency; none: at once, and the events of a
    stream share the latency."""
    faults: Mapping[Fault, float] = field(default_factory=dict)
    """Share of the requests that meet each fault, 0 to 1, together at most 1."""
    quirks: frozenset[Quirk] = frozenset()
    """Ways of the server that every account meets."""
    swaps: tuple[Swap, ...] = ()
    """Models that are exchanged for others while the mock server runs."""
    lenient: bool = False
    """Whether the providers' models are answered for without their refusals, and whatever their
    names are, as long as they look like a provider's; else as ``refusals.toml`` has it."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Further models: name → the model of the mock that answers."""
    today: date | None = None
    """The day by which models are retired; none: this day."""
    like: str = ""
    """Server whose shapes of replies are shown: a name of
    :data:`~scenewright.mock_providers.wild.SERVERS`."""
    shape: str = ""
    """The one shape to show: a name of :data:`~scenewright.mock_providers.wild.SHAPES`."""
    load_seconds: float = 0.2
    """Seconds that a shape of a slow server takes."""
    seed: int = 0
    """With the number of a request it decides its fault, its latency and its id."""
    longest_hang: float = 600.0
    """Seconds after which the fault ``timeout`` closes the connection itself."""
    drip_seconds: float = 30.0
    """Seconds that the body of a ``slow_drip`` takes."""
    same_pictures: bool = False
    """Whether equal requests give equal pictures, so that a mock that was killed and started again
    draws what it drew before; else each is another one."""
    ends: Mapping[str, date] = field(default_factory=dict)
    """Models that the lists of models tell an end of, and when."""
    request_log: Path | None = None
    """File that gets a line for each answered request; it outlives a mock that is killed."""

    def __post_init__(self) -> None:
        for name in LIMITS:
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise MockError(f"{name} {limit}: use 1 or more, or none for no limit")
        for name in ("latency", "jitter", "longest_hang", "drip_seconds", "load_seconds"):
            seconds = getattr(self, name)
            if not (math.isfinite(seconds) and seconds >= 0):
                raise MockError(f"{name} {seconds}: use seconds, 0 or more")
        if self.tokens_per_second is not None and not self.tokens_per_second > 0:
            raise MockError(f"tokens_per_second {self.tokens_per_second}: use a number above 0")
        if not 0 < self.window <= 60:
            raise MockError(f"window {self.window}: use seconds above 0, up to 60")
        if not 0 <= self.port <= 65535:
            raise MockError(f"port {self.port}: use 0 to 65535")
        check_shares(self.faults)

    def in_window(self, limit: int | None) -> int | None:
        """Return a limit a minute as one of a window."""
        return None if limit is None else max(1, int(limit * self.window / 60 + 1e-9))
