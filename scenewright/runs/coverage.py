"""Coverage of a scene by the models of a profile, before anything is drawn.

A scene of which the judges of the loop can judge nothing, or of which no object can be drawn, is
refused: drawing it would cost time and say nothing. Of any other scene the facts that nobody can
judge are told first, and are unscored later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from scenewright.config.profiles import LOCAL_BACKEND, BackendSpec, Profile, local_model_of
from scenewright.config.settings import Settings, load_profiles, load_settings
from scenewright.core.closed_vocabulary import (
    ClosedVocabulary,
    Unknown,
    VocabularyError,
    listed,
    read_vocabulary,
)
from scenewright.core.english import article
from scenewright.core.facts import STATED_KINDS, Fact
from scenewright.core.inflection import plural, verb_base
from scenewright.core.intent import Passage
from scenewright.core.ports.backend import ImageBackend
from scenewright.core.ports.judge import Judge
from scenewright.core.scene import Attributes, SceneGraph
from scenewright.graphs.errors import RunError
from scenewright.runs.model_factory.local_models import backend_folder, judge_folder
from scenewright.runs.readiness import obstacle, this_machine

Words = ClosedVocabulary | None


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


def drawn_as_known(
    scene: SceneGraph, profile: Profile, backend: ImageBackend | None = None
) -> SceneGraph:
    """Return ``scene`` in words that the image model knows: see :func:`in_known_words`."""
    known = _of_backend(profile.backend) if backend is None else backend.features.vocabulary
    return in_known_words(scene, known, "drawn and checked")


def checked_as_known(scene: SceneGraph, judges: Sequence[Judge]) -> SceneGraph:
    """Return ``scene`` in words that ``judges`` know, all of them; see :func:`in_known_words`."""
    known = [judge.caps.vocabulary for judge in judges]
    return in_known_words(scene, known[0] if known and None not in known else None, "checked")


def in_known_words(scene: SceneGraph, known: Words, done: str) -> SceneGraph:
    """Return ``scene`` in words of ``known`` where they follow from those that were said.

    A woman becomes a person where only persons are known, and what lies on a table is on it.
    What was said is then not checked: it is an unread passage of the intent, ``done`` as the other.
    """
    if known is None:
        return scene
    said = scene.intent.sentence
    passages: dict[str, Passage] = {}

    def checked_as(span: tuple[int, int], words: str, reason: str) -> None:
        text = said[slice(*span)] or words
        passages[words] = Passage(
            start=span[0], end=span[1], text=text, reason=f"{done} as {reason}"
        )

    names = {o.name: to for o in scene.objects if (to := known.hypernym(o.name)) is not None}
    for name, to in names.items():
        place = re.search(rf"\b(?:{re.escape(name)}|{re.escape(plural(name))})\b", said, re.I)
        checked_as(place.span() if place else (0, 0), name, f"{article(to)} {to}")
    postures: dict[str, set[str]] = {}
    relations = []
    for relation in scene.relations:
        predicate = relation.predicate
        if (to := known.place(predicate)) is not None:
            postures.setdefault(relation.source, set()).add(_verb_of(predicate))
            checked_as(_in_text(predicate, said), predicate, repr(to))
            relation = relation.model_copy(update={"predicate": to})
        relations.append(relation)
    if not passages:
        return scene
    objects = []
    for item in scene.objects:
        kept = _without(item.attributes, postures.get(item.id, frozenset()))
        changed = {"name": names.get(item.name, item.name), "attributes": kept}
        objects.append(item.model_copy(update=changed))
    unread = (*scene.intent.unread, *passages.values())
    graph = scene.model_copy(
        update={"objects": tuple(objects), "relations": tuple(dict.fromkeys(relations))}
    )
    intent = scene.intent.model_copy(
        update={"unread": tuple(sorted(unread, key=lambda passage: passage.start))}
    )
    # What is no longer said by its sentence must not be bound to it again.
    return graph.said_as(intent) if scene.sentence else graph.model_copy(update={"intent": intent})


def _verb_of(words: str) -> str:
    """Return the base form of the verb with which ``words`` begin; empty for another word."""
    return verb_base(words.casefold().partition(" ")[0]) or ""


def _in_text(predicate: str, text: str) -> tuple[int, int]:
    """Return where ``text`` says ``predicate``, in any form of its verb; (0, 0) if nowhere."""
    place = re.escape(predicate.partition(" ")[2])
    rest = re.compile(rf"(?:\s+\w+){{0,2}}?\s+{place}\b", re.I)
    for word in re.finditer(r"\w+", text):
        if _verb_of(word[0]) == _verb_of(predicate) and (found := rest.match(text, word.end())):
            return word.start(), found.end()
    return 0, 0


def _without(attributes: Attributes, postures: Collection[str]) -> Attributes:
    """Return ``attributes`` without the states that the verbs ``postures`` say."""
    if not postures:
        return attributes
    kept = {
        key: " and ".join(one for one in value.split(" and ") if _verb_of(one) not in postures)
        for key, value in attributes.items()
    }
    return Attributes({key: value for key, value in kept.items() if value})


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
    drawn = _of_backend(profile.backend) if backend is None else backend.features.vocabulary
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
    if judges is None:
        return [_of_judge(spec) for spec in specs]
    return [judge.caps.vocabulary for judge in judges]


def _of_judge(spec: str) -> Words:
    model = local_model_of(spec)
    return None if model is None else _read(lambda: read_vocabulary(judge_folder(model)))


def _of_backend(spec: BackendSpec) -> Words:
    if spec.kind != LOCAL_BACKEND:
        return None
    return _read(lambda: read_vocabulary(backend_folder(spec.model)))


def _read(read: Callable[[], Words]) -> Words:
    try:
        return read()
    except VocabularyError:
        # The model itself tells what is wrong with its file when it is built.
        return None
