"""Coverage of a scene by the models of a profile, before anything is drawn.

A scene is refused if the judges of the loop can judge nothing of it, or if none of its objects can
be drawn. Otherwise facts that no judge can answer are reported up front and left unscored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scenewright.config.profiles import Profile
from scenewright.config.settings import Settings, load_profiles, load_settings
from scenewright.core.closed_vocabulary import (
    ClosedVocabulary,
    Unknown,
    listed,
)
from scenewright.core.facts import STATED_KINDS, Fact
from scenewright.core.inflection import plural
from scenewright.core.ports.backend import ImageBackend
from scenewright.core.ports.judge import Judge
from scenewright.graphs.errors import RunError
from scenewright.runs.known_words import Words, words_of_backend, words_of_judge
from scenewright.runs.readiness import obstacle, this_machine


class UnknownSceneError(RunError):
    """A scene of which the models of a profile know nothing; names their words."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Coverage of some facts by the models of a profile."""

    profile: str
    """Its name."""
    facts: tuple[Fact, ...]
    """The facts."""
    unjudged: dict[str, tuple[Unknown, ...]]
    """Facts that fewer judges of the loop know than a verdict needs, by id."""
    unreported: dict[str, tuple[Unknown, ...]]
    """Facts that fewer judges of the report know than a verdict needs, by id."""
    undrawn: dict[str, tuple[Unknown, ...]]
    """Facts that the image model has no words for, by id."""
    known: ClosedVocabulary | None
    """The first closed vocabulary: of a judge of the loop, of the report, or of the image model."""
    others: tuple[str, ...] = ()
    """Profiles that know all of it and can run."""
    kept: bool = False
    """Whether further profiles know all of it, but something keeps them from running here."""

    @property
    def complete(self) -> bool:
        """Whether every fact can be drawn and judged."""
        return not (self.unjudged or self.unreported or self.undrawn)

    @property
    def nothing(self) -> bool:
        """Whether no fact can be judged, or no object be drawn."""
        stated = [fact for fact in self.facts if fact.of_graph]
        objects = [fact for fact in stated if fact.kind == "object"]
        return bool(stated) and (
            all(fact.id in self.unjudged for fact in stated)
            or (bool(objects) and all(fact.id in self.undrawn for fact in objects))
        )

    @property
    def outside(self) -> dict[str, tuple[Unknown, ...]]:
        """Facts that can be drawn or judged in part or not at all, by id, in their order."""
        found = {**self.undrawn, **self.unreported, **self.unjudged}
        return {fact.id: found[fact.id] for fact in self.facts if fact.id in found}

    @property
    def judged(self) -> Coverage:
        """The same of a picture that is there: nothing is drawn."""
        return replace(self, undrawn={})

    @property
    def text(self) -> str:
        """The facts outside, the models that fail on them, known words, and profiles with more."""
        if self.complete:
            return ""
        outside = self.outside
        words = dict.fromkeys(str(one) for unknown in outside.values() for one in unknown)
        one = len(outside) == 1
        of = f"{len(outside)} of {len(self.facts)} facts {'is' if one else 'are'}"
        if len(self.facts) == 1:
            of = "the one fact is"
        parts = [
            f"{of} outside what the profile {self.profile} knows ({listed(words)}): "
            f"{self._consequence(outside)}"
        ]
        if said := self._vocabulary(outside):
            parts.append(f"It knows {said}")
        if self.others:
            parts.append(f"Profiles that know more: {', '.join(self.others)}")
        elif self.kept:
            parts.append(
                "No profile that knows more can run here: `scenewright doctor` says what each needs"
            )
        return ". ".join(parts)

    def _consequence(self, outside: Mapping[str, object]) -> str:
        def what(ids: Mapping[str, object]) -> str:
            if ids.keys() == outside.keys():
                return "it" if len(ids) == 1 else "them"
            return "one of them" if len(ids) == 1 else f"{len(ids)} of them"

        said = []
        if self.unjudged:
            said.append(f"its judges cannot answer {what(self.unjudged)}")
        if self.unreported and self.unreported.keys() != self.unjudged.keys():
            said.append(f"its report judges cannot answer {what(self.unreported)}")
        if self.undrawn:
            said.append(f"its image model cannot draw {what(self.undrawn)}")
        return ", ".join(said)

    def _vocabulary(self, outside: Mapping[str, Sequence[Unknown]]) -> str:
        """Return the words that are known, of the predicates only where one is unknown."""
        if self.known is None:
            return ""
        said = []
        if self.known.classes is not None:
            said.append(f"the classes {listed(self.known.classes)}")
        for key, values in (self.known.attributes or {}).items():
            said.append(f"the {plural(key)} {listed(values)}" if values else f"any {key}")
        parts = {one.part for unknown in outside.values() for one in unknown}
        if "predicate" in parts and self.known.predicates is not None:
            said.append(f"the predicates {listed(self.known.predicates)}")
        return "; ".join(said)


def coverage_of(
    profile: Profile,
    facts: Sequence[Fact],
    *,
    judges: Sequence[Judge] | None = None,
    report_judges: Sequence[Judge] | None = None,
    backend: ImageBackend | None = None,
    settings: Settings | None = None,
    here: bool = True,
) -> Coverage:
    """Return which of ``facts`` the models of ``profile`` know.

    Each model can be replaced by one given here. No model is built: of the profile's own models
    only what their folders declare is known. ``here``: whether this machine is to draw, so that
    what keeps a profile from running on it counts.
    """
    found = _coverage(profile, facts, judges, report_judges, backend)
    if found.complete:
        return found
    settings = settings or load_settings()
    knowing = [
        other
        for name, other in load_profiles(settings).items()
        if name != profile.name and _coverage(other, facts).complete
    ]
    machine = this_machine() if here else None
    others = tuple(
        other.name for other in knowing if machine is None or not obstacle(other, settings, machine)
    )
    return replace(found, others=others, kept=len(others) < len(knowing))


def check_coverage(found: Coverage) -> Coverage:
    """``found``; raises ``UnknownSceneError`` if the models know nothing of the scene."""
    if found.nothing:
        raise UnknownSceneError(f"{found.text}. Nothing was drawn")
    return found


def _coverage(
    profile: Profile,
    facts: Sequence[Fact],
    judges: Sequence[Judge] | None = None,
    report_judges: Sequence[Judge] | None = None,
    backend: ImageBackend | None = None,
) -> Coverage:
    loop, report = _words(profile.judges, judges), _words(profile.report_judges, report_judges)
    drawn = words_of_backend(profile.backend, backend)
    stated = [fact for fact in facts if fact.kind in STATED_KINDS]
    return Coverage(
        profile=profile.name,
        facts=tuple(stated),
        unjudged=facts_outside(stated, loop, profile.quorum),
        unreported=facts_outside(stated, report, profile.quorum) if report else {},
        undrawn=facts_outside([f for f in stated if f.of_graph], [drawn], 1, worded=False),
        known=next((words for words in (*loop, *report, drawn) if words is not None), None),
    )


def facts_outside(
    facts: Sequence[Fact], models: Sequence[Words], quorum: int = 1, *, worded: bool = True
) -> dict[str, tuple[Unknown, ...]]:
    """Return facts that fewer than ``quorum`` models know, with what is unknown.

    ``worded``: with the words and forms of their questions.
    """
    beside = () if worded else ("word", "question")
    found: dict[str, tuple[Unknown, ...]] = {}
    for fact in facts:
        lacking = [
            tuple(one for one in words.unknown(fact) if one.part not in beside)
            for words in models
            if words is not None
        ]
        lacking = [unknown for unknown in lacking if unknown]
        if lacking and len(models) - len(lacking) < quorum:
            found[fact.id] = lacking[0]
    return found


def _words(specs: Sequence[str], judges: Sequence[Judge] | None) -> list[Words]:
    if judges is not None:
        return [judge.caps.vocabulary for judge in judges]
    return [words_of_judge(spec) for spec in specs]
