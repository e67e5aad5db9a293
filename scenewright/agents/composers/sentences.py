"""Composer of plain sentences: every object once with its attributes, and every relation.

Used where no language model composes. It adds no place or setting, keeps related things together,
counts equal instances ("two dogs") and distinguishes others ("a red dog", "another dog", "the first
dog").

Where the image model reads only so many tokens, function words are left out, and then what does not
fit: relations first, then attributes, then objects.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from scenewright.agents.composers.english import (
    Edge,
    Group,
    Predicate,
    grouped,
    indefinite,
    is_many,
    is_mass,
    listed,
    number_word,
    ordinal,
    takes_article,
)
from scenewright.agents.parsers.tagging import is_person
from scenewright.core.inflection import plural
from scenewright.core.layout import Region
from scenewright.core.ports.composer import PromptBudget, Wording
from scenewright.core.scene import Attributes, SceneGraph

_VERSION = 1
_MOST_CLAUSES = 3
"""Most predicates of one subject in a sentence."""
_MOST_WORDS = 22
"""Most words of a sentence that "which is …" may extend."""
_HAS = Predicate("verb", "have")


@dataclass(frozen=True, slots=True)
class _Clause:
    """A predicate with its objects."""

    kind: str
    """``verb`` (a verb of its own), ``do`` ("is holding") or ``at`` ("is near", "is wet")."""
    predicate: Predicate
    edges: list[Edge]
    """Relations with the same predicate; empty for a state."""


def _kind(predicate: Predicate) -> str:
    return "do" if predicate.words.partition(" ")[0].endswith("ing") else "at"


class _Writer:
    """Writes the sentences of one scene."""

    def __init__(self, groups: Sequence[Group], brief: bool) -> None:
        self._groups = groups
        self._brief = brief
        self._named: list[Group] = []
        self._spoken: set[int] = set()
        self._stated: set[int] = set()
        self._alone: list[Group] = []
        self.sentences: list[str] = []

    def write(self) -> list[str]:
        order = sorted(self._groups, key=lambda g: (bool(g.incoming), -len(g.outgoing), g.at))
        for group in order:
            self._speak(group)
        if self._alone:
            phrases = [self._first(group) for group in self._alone]
            text = listed(phrases)
            if self.sentences and not self._brief:
                text = f"There {'are' if self._alone[0].many else 'is'} {text}"
            self.sentences.append(text)
        return self.sentences

    def _speak(self, group: Group) -> None:
        """Return the rest about a group, then about related groups."""
        if id(group) in self._spoken:
            return
        self._spoken.add(id(group))
        ahead = [edge for edge in group.outgoing if not edge.done]
        if not ahead and not group.incoming and not group.said.states:
            self._alone.append(group)
            return
        touched = [edge.target for edge in group.outgoing]
        if ahead or (group.said.states and id(group) not in self._stated):
            self._tell(group)
        elif group not in self._named and not group.incoming:
            self._alone.append(group)
        for other in touched:
            self._speak(other)
        for edge in group.incoming:
            self._speak(edge.source)
        for other in touched:
            for edge in other.incoming:
                self._speak(edge.source)

    def _tell(self, group: Group) -> None:
        """Return sentences with the group as their subject."""
        fresh = group not in self._named
        owned = self._owned(group) if fresh else []
        subject = self._mention(group)
        if owned:
            subject += f" with {listed([self._mention(edge.target) for edge in owned])}"
        clauses = self._clauses(group)
        if not clauses:
            self.sentences.append(
                f"There {'are' if group.many else 'is'} {subject}" if fresh else ""
            )
            return
        while clauses:
            part, clauses = clauses[:_MOST_CLAUSES], clauses[_MOST_CLAUSES:]
            text, last = self._joined(group, subject, part)
            if not clauses and last is not None:
                text += self._going_on(last, text)
            self.sentences.append(text)
            subject = self._mention(group)

    @staticmethod
    def _owned(group: Group) -> list[Edge]:
        """Return the possessions that "with" can state: "a man with a hat is …"."""
        ahead = [
            edge for edge in group.outgoing if not edge.done and edge.predicate.place != "behind"
        ]
        has = [e for e in ahead if e.predicate == _HAS and not e.each]
        if not has or (len(has) == len(ahead) and not group.said.states):
            return []
        if any(edge.predicate.place == "behind" for edge in group.outgoing) or group.said.behind:
            return []
        for edge in has[:_MOST_CLAUSES]:
            edge.done = True
        return has[:_MOST_CLAUSES]

    def _clauses(self, group: Group) -> list[_Clause]:
        """Return the remaining clauses of the group: possessions, actions, places."""
        alike: dict[tuple[Predicate, bool], list[Edge]] = {}
        for edge in group.outgoing:
            if not edge.done:
                edge.done = True
                alike.setdefault((edge.predicate, edge.each), []).append(edge)
        verbs = [_Clause("verb", p, edges) for (p, _), edges in alike.items() if p.place == "verb"]
        rest = [_Clause(_kind(p), p, edges) for (p, _), edges in alike.items() if p.place != "verb"]
        states = [] if id(group) in self._stated else list(group.said.states)
        self._stated.add(id(group))
        begun = [clause.predicate.words.split()[0] for clause in rest if clause.predicate.words]
        for state in states:
            if state in begun:
                # Who sits on a bench sits.
                continue
            at = next((c for c in rest if c.kind == "at" and not c.edges[0].each), None)
            if at is not None and state.endswith("ing") and " " not in state:
                rest[rest.index(at)] = _Clause(
                    "do", Predicate("be", f"{state} {at.predicate.words}"), at.edges
                )
                continue
            verbs.append(_Clause(_kind(Predicate("be", state)), Predicate("be", state), []))
        return [*verbs, *sorted(rest, key=lambda clause: clause.kind == "at")]

    def _joined(
        self, group: Group, subject: str, clauses: Sequence[_Clause]
    ) -> tuple[str, Group | None]:
        """Return a sentence, and the group that its last words introduce, if any."""
        be = ("are" if group.many else "is") if not self._brief else ""
        parts: list[str] = []
        last: Group | None = None
        before = ""
        for clause in clauses:
            edges = clause.edges
            new = (
                edges[0].target if len(edges) == 1 and edges[0].target not in self._named else None
            )
            each = bool(edges) and edges[0].each
            targets = listed([self._mention(edge.target, each=edge.each) for edge in edges])
            words = clause.predicate.words
            if clause.kind == "verb":
                words = clause.predicate.finite(group.many)
                words = f"each {words}" if each else words
            else:
                words = f"each {words}" if each else words
                words = f"{be} {words}".strip() if clause.kind != before else words
            before = clause.kind
            parts.append(f"{words} {targets}".strip())
            last = new
        return f"{subject} {listed(parts)}", last

    def _going_on(self, group: Group, text: str) -> str:
        """Return ", which is …" for the last thing named, if little is left to say."""
        ahead = [edge for edge in group.outgoing if not edge.done]
        states = 0 if id(group) in self._stated else len(group.said.states)
        count = len({edge.predicate for edge in ahead}) + states
        long = len(text.split()) > _MOST_WORDS
        done = self._brief or id(group) in self._spoken
        if not 0 < count <= 2 or long or group.number > 1 or done:
            return ""
        self._spoken.add(id(group))
        clauses = self._clauses(group)
        who = "who" if is_person(group.name) else "which"
        said, last = self._joined(group, who, clauses)
        more = f", {said}"
        if last is not None:
            more += self._going_on(last, text + more)
        self._later(group)
        return more

    def _later(self, group: Group) -> None:
        """Queue the related groups."""
        self._spoken.discard(id(group))

    # Noun phrases

    def _mention(self, group: Group, each: bool = False) -> str:
        if group in self._named:
            return self._again(group)
        return self._first(group, each)

    def _first(self, group: Group, each: bool = False) -> str:
        self._named.append(group)
        same = [g for g in self._named[:-1] if g.name.casefold() == group.name.casefold()]
        alike = [g for g in same if g.said.before == group.said.before]
        words = group.adjectives
        if group.number > 1 and not each:
            more = ["more"] if alike else []
            text = " ".join([number_word(group.number), *more, words, plural(group.name)])
        elif alike and takes_article(group.name, group.proper) and not is_many(group.name):
            known = sum(g.number for g in alike)
            begin = "" if self._brief else "a "
            which = "another" if known == 1 else f"{begin}{ordinal(known + 1)}"
            which = "more" if is_mass(group.name) else which
            text = " ".join([which, words, group.name])
        elif same and not words and not is_many(group.name):
            text = f"another {group.name}"
        elif self._brief:
            text = f"{words} {group.name}"
        else:
            text = indefinite(group.name, words, group.proper)
        behind = list(group.said.behind)
        by_word: dict[str, list[Edge]] = {}
        for edge in group.outgoing:
            if edge.predicate.place == "behind" and not edge.done and not edge.each:
                edge.done = True
                by_word.setdefault(edge.predicate.words, []).append(edge)
        for word, edges in by_word.items():
            behind.append(f"{word} {listed([self._mention(edge.target) for edge in edges])}")
        return " ".join(" ".join([text, *behind]).split())

    def _again(self, group: Group) -> str:
        """Return a later mention of a group: ``the dog``, ``the red dog``, ``the second dog``."""
        bare = self._brief or not takes_article(group.name, group.proper)
        the = "" if bare else "the "
        rivals = [
            g for g in self._groups if g is not group and g.name.casefold() == group.name.casefold()
        ]
        words = self._telling(group, rivals)
        name = group.name if group.number == 1 else plural(group.name)
        if words is not None:
            count = f"{number_word(group.number)} " if group.number > 1 else ""
            return " ".join(f"{the}{count}{words} {name}".split())
        alike = [
            g
            for g in self._named
            if g.name.casefold() == group.name.casefold() and g.said.before == group.said.before
        ]
        before = sum(g.number for g in alike[: alike.index(group)])
        if group.number == 1:
            return " ".join(f"{the}{ordinal(before + 1)} {group.adjectives} {name}".split())
        which = "other " if before else "first "
        words = f"{the}{which}{number_word(group.number)} {group.adjectives} {name}"
        return " ".join(words.split())

    @staticmethod
    def _telling(group: Group, rivals: Sequence[Group]) -> str | None:
        """Return the fewest adjectives that distinguish a group; None if there are none."""
        for size in range(len(group.said.before) + 1):
            for words in itertools.combinations(group.said.before, size):
                if not any(set(words) <= set(rival.said.before) for rival in rivals):
                    return " ".join(words)
        return None


def sentences(scene: SceneGraph, brief: bool = False) -> str:
    """Return ``scene`` in sentences; ``brief`` omits articles, "is" and "there is"."""
    written = _Writer(grouped(scene), brief).write()
    told = [text[:1].upper() + text[1:] for text in written if text]
    return " ".join(f"{text}." for text in told)


def sentences_within(
    scene: SceneGraph, room: PromptBudget
) -> tuple[str, tuple[tuple[str, ...], ...]]:
    """Return sentences of ``scene`` that fit ``room``, and what they omit (``Wording.unsaid``).

    Plain sentences if they are short enough, else brief ones, else brief ones of what has room:
    objects in the scene's order, then attributes, then relations. One object is always named.
    """
    for brief in (False, True):
        text = sentences(scene, brief)
        if room.holds(text):
            return text, ()
    told: set[tuple[str, ...]] = set()
    unsaid: list[tuple[str, ...]] = []
    text = ""
    for part in _parts(scene):
        ends = {part[0], part[-1]} if len(part) > 2 else {part[0]}
        known = len(part) == 1 or all((end,) in told for end in ends)
        longer = sentences(_part_of(scene, told | {part}), brief=True) if known else ""
        if known and (not text or room.holds(longer)):
            told.add(part)
            text = longer
        else:
            unsaid.append(part)
    return text, tuple(unsaid)


def _parts(scene: SceneGraph) -> Iterator[tuple[str, ...]]:
    """Return the facts of a scene, the most important first."""
    yield from ((item.id,) for item in scene.objects)
    yield from ((item.id, key) for item in scene.objects for key in item.attributes)
    yield from ((one.source, one.predicate, one.target) for one in scene.relations)


def _part_of(scene: SceneGraph, told: Set[tuple[str, ...]]) -> SceneGraph:
    objects = (
        item.model_copy(
            update={
                "attributes": Attributes(
                    {key: value for key, value in item.attributes.items() if (item.id, key) in told}
                )
            }
        )
        for item in scene.objects
        if (item.id,) in told
    )
    return SceneGraph(
        objects=tuple(objects),
        relations=tuple(
            one for one in scene.relations if (one.source, one.predicate, one.target) in told
        ),
    )


@dataclass(frozen=True)
class SentenceComposer:
    """Composer by a grammar; needs no language model and adds no places."""

    room: PromptBudget | None = None
    """Part of a prompt that the image model reads; None: all."""

    @property
    def id(self) -> str:
        """``sentences``."""
        return "sentences"

    @property
    def fingerprint(self) -> str:
        """Grammar version, and the budget if there is one."""
        within = "" if self.room is None else f" within {self.room.budget}"
        return f"sentences@{_VERSION}{within}"

    async def word(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> Wording:
        """Return the prompt of :meth:`compose`, with the facts that have no room in it."""
        if self.room is None:
            return Wording(sentences(scene), self.id)
        text, unsaid = sentences_within(scene, self.room)
        return Wording(text, self.id, unsaid=unsaid)

    async def compose(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> str:
        """Return a prompt with every fact of ``scene`` that fits.

        The seed and the whole scene have no effect.
        """
        return (await self.word(scene, seed, within)).prompt

    def places(self, scene: SceneGraph, seed: int) -> Mapping[str, Region]:
        """Return none."""
        return {}
