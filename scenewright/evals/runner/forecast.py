"""Cost forecast: calls, tokens, images and dollars of a piece of work, model by model.

Evaluations, studies, annotations and measured plans all count their expected calls as lines of one
forecast. A model on this machine costs nothing; an unknown price is named and never guessed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from scenewright.config.accounts import DECISION_KIND
from scenewright.config.profiles import (
    CHAT_COMPOSERS,
    CHAT_KINDS,
    DIRECTOR,
    JUDGE_KINDS,
    LOCAL_BACKEND,
    SettingsError,
    split_judge,
)
from scenewright.config.settings import Settings, reports_itself, settings_with
from scenewright.core.formats import dump_scene
from scenewright.graphs.limits import expected_of
from scenewright.graphs.strategies.tournament import Tournament
from scenewright.providers.usage import ExpectedUsage
from scenewright.runs.model_factory.profiles import backend_of, build_judge, composer_of, limits_of
from scenewright.runs.reading import parser_of

if TYPE_CHECKING:
    from scenewright.config.options import LoopOptions
    from scenewright.runs.plan import RunPlan

_LOCAL = {LOCAL_BACKEND, *JUDGE_KINDS, "scripted"}


@dataclass(frozen=True, slots=True)
class CostLine:
    """Expected usage of one model in one role: a lower and an upper bound."""

    who: str
    """Id of the model."""
    what: str
    """Its role: ``words``, ``draws``, ``judges``, …"""
    least: ExpectedUsage
    """If every loop stops at its first picture."""
    most: ExpectedUsage
    """If every loop goes on to its last round, and no fact is void."""
    times: int = 0
    """Prompts, pictures, questions or pairs of answers; 0: not counted."""

    @classmethod
    def of(cls, who: str, what: str, once: ExpectedUsage, most: float = 1, times: int = 0) -> Self:
        """Return the line of work that is done once at least, and ``most`` times at most."""
        return cls(who, what, once, once * most if most != 1 else once, times)

    def __add__(self, other: CostLine) -> CostLine:
        """Return both together, under the names of the first."""
        least, most = self.least + other.least, self.most + other.most
        return CostLine(self.who, self.what, least, most, self.times + other.times)


@dataclass(frozen=True, slots=True)
class CostForecast:
    """Expected usage of all models."""

    lines: tuple[CostLine, ...] = ()
    """One for each model and role."""

    @classmethod
    def of(cls, lines: Iterable[CostLine]) -> Self:
        """Return the forecast of ``lines``; those of one model and role are added up."""
        found: dict[tuple[str, str], CostLine] = {}
        for line in lines:
            known = found.get((line.who, line.what))
            found[line.who, line.what] = line if known is None else known + line
        return cls(tuple(found.values()))

    def __mul__(self, share: float) -> CostForecast:
        """Return the forecast of a share of the work, or of several times as much."""
        return CostForecast(
            tuple(
                CostLine(n.who, n.what, n.least * share, n.most * share, round(n.times * share))
                for n in self.lines
            )
        )

    @property
    def least(self) -> ExpectedUsage:
        """All models together, at least, with the dollars of those whose price is known."""
        return _known(line.least for line in self.lines)

    @property
    def most(self) -> ExpectedUsage:
        """All models together, at most, with the dollars of those whose price is known."""
        return _known(line.most for line in self.lines)

    @property
    def usd(self) -> float:
        """Most dollars of the models whose price is known."""
        return self.most.usd or 0.0

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Models whose price is unknown: their dollars are not in the sums."""
        return tuple(dict.fromkeys(line.who for line in self.lines if line.most.usd is None))

    def day_limits(self, settings: Settings) -> tuple[DayLimit, ...]:
        """Return the accounts that would send more requests than a day of theirs has left."""
        total: dict[str, int] = {}
        for line in self.lines:
            account = account_of(line.who)
            total[account] = total.get(account, 0) + line.most.calls
        found = []
        for account, count in sorted(total.items()):
            try:
                spec = settings.account(account)
            except SettingsError:
                # Not an account: models on this machine, and those that a caller built.
                continue
            quota = limits_of(account, spec).day_quota()
            if quota is None or spec.requests_per_day is None or count <= (left := quota.left()):
                continue
            found.append(DayLimit(account, count, spec.requests_per_day, left, spec.zone_of_day))
        return tuple(found)


def _known(parts: Iterable[ExpectedUsage]) -> ExpectedUsage:
    return sum(
        (ExpectedUsage(part.calls, part.usage, part.usd or 0.0) for part in parts), ExpectedUsage()
    )


def account_of(model: str) -> str:
    """Return the account in a model's id; empty for one that runs on the machine."""
    kind, _, rest = model.partition(":")
    if kind == DECISION_KIND:
        kind = rest.partition("/")[0]
    return "" if kind in _LOCAL else kind


@dataclass(frozen=True, slots=True)
class DayLimit:
    """An account whose daily requests are too few."""

    account: str
    calls: int
    """Most expected requests."""
    per_day: int
    """Allowed requests a day."""
    left: int
    """Requests left today, on this machine."""
    zone: str
    """IANA time zone of its day."""

    @property
    def pauses(self) -> int:
        """Number of pauses until midnight."""
        return math.ceil((self.calls - self.left) / self.per_day)

    @property
    def text(self) -> str:
        """The limit as a clause, without a full stop."""
        until = (
            f"until midnight ({self.zone})"
            if self.pauses == 1
            else f"until midnight ({self.zone}) {self.pauses:,} times"
        )
        return (
            f"{self.account} takes up to {self.calls:,} requests and may send {self.per_day:,} a "
            f"day, of which {self.left:,} are left today: it pauses {until}; calls that have less "
            "patience are unscored, and --retry or the same command asks them another day"
        )


def forecast_run(plan: RunPlan) -> CostForecast:
    """Return the expected usage of the models behind accounts in a run: one round, or all of them.

    Builds these models and calls none; models of this machine are left out. Bounds count a picture
    and a reference for each round, and every judge for every fact. Raises ``SettingsError``,
    ``JudgeError`` or ``BackendError`` for a model that cannot be built, as one without its key.
    """
    profile, options = plan.profile, plan.options
    facts = options.form.facts(plan.scene)
    pictures, looks = _pictures_of(options)
    lines = []
    size = (options.width or _PICTURE, options.height or _PICTURE)
    if profile.backend.kind != LOCAL_BACKEND:
        backend: Any = backend_of(profile.backend, plan.settings)
        features = backend.features
        size = options.width or features.default_size[0], options.height or features.default_size[1]
        if (expected := getattr(backend, "expected", None)) is not None:
            words = dump_scene(plan.scene.graph, "triplets")
            shown = min(2, features.references) if pictures > 1 else 0
            once, later = expected(words), expected(words, shown)
            lines.append(CostLine(backend.id, "draws", once, once + later * (pictures - 1)))
    chat = profile.chat
    if plan.unread is not None:
        # Without its key it does not read, and the rules do.
        with suppress(SettingsError):
            expected = parser_of(profile, plan.settings).expected(plan.unread.text)
            # A reply that cannot be is sent back once.
            lines.append(CostLine.of(str(chat), "reads", expected, 2))
    if chat is not None and split_judge(chat)[0] not in CHAT_KINDS:
        if profile.composer in CHAT_COMPOSERS:
            composer: Any = composer_of(profile, plan.settings)
            lines.append(CostLine.of(chat, "words", composer.expected(plan.scene), pictures))
        if profile.strategy == DIRECTOR:
            # It decides itself how often it calls: neither its calls nor their price are known.
            lines.append(CostLine.of(chat, "directs", ExpectedUsage(1, usd=None)))
    known = settings_with(profile, plan.settings)
    first = profile.judges if profile.cascade is None else profile.cascade.first
    report = profile.judges if reports_itself(profile) else profile.report_judges
    for specs, what, times in ((profile.judges, "steers", looks), (report, "reports", 1)):
        for spec in specs:
            if account_of(spec):
                judge = build_judge(spec, known)
                once = expected_of(judge, size, facts, profile.asking)
                least = once if what == "reports" or spec in first else ExpectedUsage()
                lines.append(CostLine(judge.id, what, least, once * times))
    return CostForecast.of(lines)


_PICTURE = 1024
"""Side in pixels of a picture whose model does not tell it before it is loaded."""


def _pictures_of(options: LoopOptions) -> tuple[int, int]:
    """Return the most pictures that a loop draws, and the most that its judges see."""
    each = options.proposals if options.strategy == Tournament.name else 1
    looks = 1 + (options.rounds - 1) * each
    drawn = looks + (options.rounds - 1) * each
    most = options.budget.images or drawn
    return min(drawn, most), min(looks, most)
