"""Sentences of grouped instances: who is told first, what is told of whom, and noun phrases.

A group is told with its adjectives, then its possessions, actions and places. What is mentioned
again is told apart from its like ("the red dog", "the second dog"), what somebody has is theirs
("the dog's head"), and things of which the same is to be said share a sentence.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from scenewright.agents.composers.clauses import (
    Clause,
    follows_a_verb,
    is_place,
    kind_of,
    placed_first,
    same_deed,
    same_target,
)
from scenewright.agents.composers.english import (
    CLOSE,
    HAS,
    Edge,
    Group,
    Predicate,
    is_countable,
    number_word,
    ordinal,
)
from scenewright.agents.parsers.tagging import is_animate, is_person, rough
from scenewright.core.english import article, indefinite, is_many, is_mass, listed, takes_article
from scenewright.core.inflection import plural
from scenewright.core.wording import is_deed

_MOST_CLAUSES = 3
"""Most predicates of one subject in a sentence."""
_MOST_WORDS = 22
"""Most words of a sentence that "which is …" may extend."""
_HIS = {
    **dict.fromkeys(("man", "boy", "guy", "gentleman", "king", "prince", "father", "he"), "his"),
    **dict.fromkeys(("woman", "girl", "lady", "queen", "princess", "mother", "she"), "her"),
}


class Writer:
    """Writes the sentences of one scene."""

    def __init__(
        self,
        groups: Sequence[Group],
        brief: bool,
        caption: bool = False,
        known: Sequence[Group] = (),
    ) -> None:
        """``caption``: the first sentence is a noun phrase, "a cat wearing a hat".

        ``known``: what earlier sentences have told, so that only its relations are left to tell.
        """
        self._groups = groups
        self._brief = brief
        self._caption = caption
        self._named: list[Group] = [*known]
        for group in known:
            group.stated = True
        self._alone: list[Group] = []
        self._subject: Group | None = None
        self._existing = False
        self._near: dict[int, list[Clause]] = {}
        self.sentences: list[str] = []

    def write(self) -> list[str]:
        def rank(group: Group) -> tuple[bool, bool, int, int]:
            owns = any(edge.predicate == HAS for edge in group.outgoing)
            return bool(group.incoming), not owns, -len(group.outgoing), group.at

        for group in sorted(self._groups, key=rank):
            self._speak(group)
        if self._alone:
            self._subject, self._existing = None, bool(self.sentences)
            text = self._listed(self._alone)
            if self.sentences and not self._brief:
                text = f"There {'are' if self._alone[0].many else 'is'} {text}"
            self.sentences.append(text)
        return self.sentences

    def _speak(self, group: Group) -> None:
        """Return the rest about a group, then about related groups."""
        if group.spoken:
            return
        group.spoken = True
        if not group.outgoing and not group.incoming and not group.said.states:
            self._alone.append(group)
            return
        touched = [edge.target for edge in group.outgoing]
        if group.ahead or group.states:
            self._write_group(group)
        sources = (edge.source for one in (group, *touched) for edge in one.incoming)
        for other in (*touched, *sources):
            self._speak(other)

    def _write_group(self, group: Group) -> None:
        """Return sentences with the group as their subject."""
        self._subject = None
        fresh = group not in self._named
        owned = self._owned(group) if fresh else []
        clauses = self._clauses(group)
        if fresh and not self._brief:
            self._near[id(group)], clauses = placed_first(clauses)
        told = clauses[0].edges[0] if len(clauses) == 1 and clauses[0].edges else None
        if told is not None and told.owned and told.predicate == HAS and not told.each:
            # "A cat's head" is no cat that has a head.
            group, fresh, clauses = told.target, told.target not in self._named, []
            subject = self._of_owner(group, told)
        else:
            subject = self._mention(group)
        if owned:
            subject += f" with {self._listed([edge.target for edge in owned])}"
            if len(owned) == 1:
                subject = " ".join([subject, *self._inside(group, owned[0].target)])
        self._subject = group
        reduced = self._caption and not self.sentences
        if not clauses:
            bare = reduced or self._brief or subject.startswith("the ") or group.proper
            there = "" if bare else f"There {'are' if group.many else 'is'} "
            self.sentences.append(f"{there}{subject}" if fresh else "")
            return
        many = group.many
        other = self._answering(group, clauses) if fresh and not owned else None
        if other is not None:
            subject, many = f"{subject} and {self._mention(other)}", True
        elif fresh and not owned:
            for other in self._doing_the_same(group, clauses):
                front, joined, behind = subject.rpartition(" and ")
                subject = f"{front}, {behind}" if joined else subject
                subject, many = f"{subject} and {self._mention(other)}", True
        while clauses:
            # Where it is done goes with what is done.
            most = _MOST_CLAUSES + (clauses[0].kind == "do" and clauses[-1].is_place)
            part, clauses = clauses[:most], clauses[most:]
            text, last = self._joined(group, subject, part, many, reduced)
            if not clauses and last is not None:
                text += self._going_on(last, text)
            self.sentences.append(text)
            self._subject = None
            subject = self._mention(group)
            self._subject, reduced = group, False

    def _answering(self, group: Group, clauses: Sequence[Clause]) -> Group | None:
        """Return who does to the group what it does: "a cat and a dog are facing each other"."""
        if len(clauses) != 1 or len(clauses[0].edges) != 1 or clauses[0].more:
            return None
        told = clauses[0].edges[0]
        back = [
            edge
            for edge in told.target.outgoing
            if edge.target is group and edge.predicate == told.predicate and not edge.done
        ]
        if not back or told.each or told.target in self._named:
            return None
        back[0].done = True
        told.target = group
        return back[0].source

    def _doing_the_same(self, group: Group, clauses: Sequence[Clause]) -> Iterator[Group]:
        """Yield the groups of which only the same is to be told: "cars and buses are on …"."""
        if len(clauses) != 1 or len(clauses[0].edges) > 1:
            return
        told = next(iter(clauses[0].edges), None)
        if told is not None and told.each:
            return
        known = [group]
        for other in self._groups:
            if other in self._named or other.incoming:
                continue
            words = other.said.before
            if any(one.label == other.label and (one.said.before in ((), words) or not words)
                   for one in known):  # fmt: skip
                continue
            # A relation like ``told``, or the same states, are all that is to be said.
            only = [(told.target, told.predicate, False, False)] if told is not None else []
            if other.said.states != (group.said.states if told is None else ()) or only != [
                (edge.target, edge.predicate, edge.done, edge.each) for edge in other.outgoing
            ]:
                continue
            known.append(other)
            for edge in other.outgoing:
                edge.done = True
            other.stated = other.spoken = True
            yield other

    def _owned(self, group: Group) -> list[Edge]:
        """Return the possessions that "with" can state: "a man with a hat is …"."""
        ahead = [edge for edge in group.ahead if edge.predicate.place != "behind"]
        has = [edge for edge in ahead if edge.predicate == HAS and not edge.each]
        if not has or (len(has) == len(ahead) and not group.said.states):
            return []
        behind = any(edge.predicate.place == "behind" for edge in group.outgoing)
        if behind or group.said.behind or group.said.texts or group.without:
            return []
        for edge in has[:_MOST_CLAUSES]:
            edge.done = True
        return has[:_MOST_CLAUSES]

    def _clauses(self, group: Group) -> list[Clause]:
        """Return the remaining clauses of the group: possessions, actions, places."""
        alike: dict[tuple[Predicate, bool], list[Edge]] = {}
        for edge in group.ahead:
            if edge.predicate.place != "behind" or edge.each:
                edge.done = True
                alike.setdefault((edge.predicate, edge.each), []).append(edge)
        states: list[tuple[Predicate, list[Edge]]] = [
            (Predicate("be", s), []) for s in group.states
        ]
        group.stated = True
        told = [*states, *((predicate, edges) for (predicate, _), edges in alike.items())]
        rest = [Clause(kind_of(predicate), predicate, edges) for predicate, edges in told]
        for clause in [one for one in rest if not one.edges and is_deed(one.predicate.words)]:
            places = [one for one in rest if one is not clause and follows_a_verb(one, clause)]
            if places:
                words = f"{clause.predicate.words} {places[0].predicate.words}"
                rest[rest.index(places[0])] = Clause(
                    clause.kind, Predicate("be", words), places[0].edges
                )
                rest.remove(clause)
        found = same_target(same_deed(rest))
        return sorted(found, key=lambda clause: ("verb", "do", "at").index(clause.kind))

    def _joined(
        self, group: Group, subject: str, clauses: Sequence[Clause], many: bool, reduced: bool
    ) -> tuple[str, Group | None]:
        """Return a sentence, and the group that its last words introduce, if any.

        ``reduced``: a noun phrase instead: "a cat wearing a hat", "a box that holds a cat".
        """
        said: dict[str, list[str]] = {"verb": [], "state": [], "do": [], "place": [], "at": []}
        last: Group | None = None
        plain = True
        ordered = sorted(((self._part(one, clauses), one) for one in clauses),
                         key=lambda pair: [*said].index(pair[0]))  # fmt: skip
        for part, clause in ordered:
            edges = (clause.more or (clause,))[-1].edges
            new = (
                edges[0].target if len(edges) == 1 and edges[0].target not in self._named else None
            )
            targets = self._targets(group, clause)
            words = clause.predicate.words
            if clause.kind == "verb":
                words = clause.predicate.finite(many)
            elif clause.kind == "at" and not clause.edges:
                plain = plain and rough(words.split()[0]) in ("preposition", "participle")
            if new is not None and clause.predicate == HAS:
                targets = " ".join([targets, *self._inside(group, new)])
            elif clause.predicate == HAS:
                targets = " ".join([targets, *self._all_inside(group, edges)])
            words = f"each {words}" if clause.edges and clause.edges[0].each else words
            said[part].append(f"{words} {targets}".strip())
            last = new
        if said["place"]:
            said["do"][-1] += f" {listed(said['place'])}"
        if reduced and not said["verb"] and plain:
            parts = [listed(said[part]) for part in ("state", "do", "at") if said[part]]
            apart = len(parts) > 1 and any(clause.kind == "do" for clause in clauses)
            return f"{subject} {(', ' if apart else ' ').join(parts)}", last
        be = ("are " if many else "is ") if not self._brief else ""
        said["do"] = [*said["state"], *said["do"]]
        parts = [
            *said["verb"],
            *(f"{be}{listed(said[part])}" for part in ("do", "at") if said[part]),
        ]
        if (
            reduced
            and all(one.predicate == HAS for one in clauses)
            and not clauses[-1].edges[0].each
        ):
            words = said["verb"][0].partition(" ")[2]
            return f"{subject} with {words}", last
        who = f" {'who' if is_person(group.name) else 'that'}" if reduced else ""
        return f"{subject}{who} {listed(parts)}", last

    def _part(self, clause: Clause, clauses: Sequence[Clause]) -> str:
        """Return where in a sentence a clause stands: how one is, what one does, and where."""
        doing = not self._brief and any(one.kind == "do" for one in clauses)
        if clause.kind != "at" or not doing:
            return clause.kind
        if clause.is_place:
            return "place"
        return "at" if clause.edges else "state"

    def _targets(self, group: Group, clause: Clause) -> str:
        """Return what a clause of the group is about, with its further places."""
        edges = clause.edges
        each = bool(edges) and edges[0].each
        targets = self._listed([e.target for e in edges if e.target is not group], each)
        if any(edge.target is group for edge in edges):
            targets = listed([*filter(None, [targets]), "each other"])
        for one in clause.more:
            joint = "and " if " " in clause.predicate.words else ""
            targets += f" {joint}{one.predicate.words} {self._targets(group, one)}"
        return targets

    def _going_on(self, group: Group, text: str) -> str:
        """Return ", which is …" for the last thing named, if little is left to say."""
        count = len({edge.predicate for edge in group.ahead}) + len(group.states)
        long = len(text.split()) > _MOST_WORDS
        if not 0 < count <= 2 or long or self._brief or group.spoken:
            return ""
        group.spoken = True
        self._subject = group
        clauses = self._clauses(group)
        who = "who" if is_person(group.name) else "which"
        if len(clauses) == 1 and clauses[0].is_place and clauses[0].first in CLOSE:
            more, last = self._joined(group, "", clauses, group.many, True)
        else:
            said, last = self._joined(group, who, clauses, group.many, False)
            more = f", {said}"
        if last is not None and not more.startswith(","):
            more += self._going_on(last, text + more)
        # What it is related to is told in turn.
        group.spoken = False
        return more

    # Noun phrases

    def _listed(self, groups: Sequence[Group], each: bool = False) -> str:
        """Return the groups joined, like new ones counted: "two paintings and a dog"."""
        parts: list[str] = []
        rest = [*groups]
        while rest:
            group, same = rest[0], rest[:1]
            if not each and self._is_plain(group):
                for other in rest[1:]:
                    if not (self._is_plain(other) and other.called == group.called):
                        break
                    same.append(other)
            del rest[: len(same)]
            if len(same) == 1 or any(one.label == group.label for one in self._named):
                parts += [self._mention(one, each) for one in same]
                continue
            self._named += same
            number = _quantity(group, [item.id for one in same for item in one.items])
            parts.append(" ".join(filter(None, [*number, group.adjectives, plural(group.name)])))
        return listed(parts)

    def _is_plain(self, group: Group) -> bool:
        """Return whether the first mention of a group is only its label with adjectives."""
        said = group.said
        return not (
            group in self._named
            or group.number > 1
            or (said.behind or said.texts or group.without or group.proper)
            or any(edge.predicate.place == "behind" for edge in group.outgoing)
            or any(edge.deferred for edge in group.incoming)
            or is_many(group.name)
            or is_mass(group.name)
        )

    def _mention(self, group: Group, each: bool = False) -> str:
        if group in self._named:
            return self._again(group)
        owner = next((edge for edge in group.incoming if edge.deferred), None)
        if owner is not None and not each:
            return self._of_owner(group, owner)
        self._named.append(group)
        return self._with_rest(group, self._introduced(group, each))

    def _introduced(self, group: Group, each: bool) -> str:
        """Return the first mention of a group without what follows its noun."""
        same = [one for one in self._named[:-1] if one.label == group.label]
        alike = [one for one in same if one.said.before == group.said.before]
        words = group.adjectives
        rest = None if same else self._rest_of(group)
        if rest is not None and group.count is not None:
            rest.spoken = True
            number = _quantity(group, group.count.objects) or ["the"]
            return " ".join(["one of", *number, words, plural(group.name)])
        many = is_many(group.name) and not group.proper
        several = group.number > 1 and not each
        number = _quantity(group, group.ids) if several else []
        if group.possessive and not same and self._is_theirs(group.possessive):
            noun = group.noun if several else group.name
            return " ".join([group.possessive, *number, words, noun])
        if several:
            more = ["more"] if alike and number else ["other"] if alike else []
            return " ".join([*number, *more, words, group.noun])
        if alike and takes_article(group.name, group.proper) and not many:
            known = sum(g.number for g in alike)
            begin = "" if self._brief else "a "
            which = "another" if known == 1 else f"{begin}{ordinal(known + 1)}"
            which = "more" if is_mass(group.name) else which
            return " ".join([which, words, group.name])
        if alike and many:
            return " ".join(["other", words, group.name])
        if same and not words and not many and takes_article(group.name, group.proper):
            return f"more {group.name}" if is_mass(group.name) else f"another {group.name}"
        if self._brief:
            return f"{words} {group.name}"
        one = group.count is not None and group.count.kind == "exact" and group.count.number == 1
        if one and not many and not group.proper:
            return f"one {words} {group.name}"
        known = group.proper or not self._existing
        if group.article == "the" and takes_article(group.name) and known:
            return f"the {words} {group.name}"
        if group.article == "a" and is_mass(group.name):
            return f"{article(f'{words} {group.name}'.strip())} {words} {group.name}"
        if group.article == "" and not same and (group.is_herd or not is_countable(group.name)):
            return f"{words} {group.name}"
        return indefinite(group.name, words, group.proper)

    def _rest_of(self, group: Group) -> Group | None:
        """Return those counted together with the group of whom nothing else is told."""
        count = group.count
        if count is None or group.number > 1 or self._brief:
            return None
        others = [g for g in self._groups if g.count is count and g is not group]
        if len(others) != 1 or others[0].number + 1 != len(count.objects):
            return None
        rest = others[0]
        told = rest.outgoing or rest.incoming or rest.said != group.said or group.said.states
        return None if told or rest.spoken else rest

    def _is_theirs(self, possessive: str) -> bool:
        """Return whether the sentence's possessive means the subject: a man's "his"."""
        subject = self._subject
        if subject is None or self._brief:
            return False
        head = subject.name.rpartition(" ")[2].casefold()
        if subject.many:
            return possessive == "their"
        if is_person(subject.name):
            return possessive in {_HIS.get(head, possessive), "their"} - {"its"}
        return possessive == "its" or (possessive in ("his", "her") and is_animate(subject.name))

    def _with_rest(self, group: Group, text: str) -> str:
        """Return a first mention with what follows its noun."""
        says = "say" if group.many else "says"
        texts = [f'that {says} "{one}"' for one in group.said.texts]
        behind = [*group.said.behind]
        subject, self._subject = self._subject, group
        by_word: dict[str, list[Group]] = {}
        for edge in group.outgoing:
            if edge.predicate.place == "behind" and not edge.done and not edge.each:
                edge.done = True
                by_word.setdefault(edge.predicate.words, []).append(edge.target)
        held = self._behind(group, "of", by_word.pop("of", []), not by_word)
        near = self._near.pop(id(group), [])
        placed = [f"{one.predicate.words} {self._targets(group, one)}".strip() for one in near]
        behind += [*held, *([listed(placed)] if placed else []), *texts]
        for word, targets in by_word.items():
            behind += self._behind(group, word, targets, len(by_word) == 1 and not held)
        behind += group.without
        self._subject = subject
        return " ".join(" ".join([text, *behind]).split())

    def _behind(self, group: Group, word: str, targets: list[Group], ends: bool) -> list[str]:
        """Return what follows a noun by a word, and what is left of it where that ``ends`` it."""
        alone = ends and len(targets) == 1 and targets[0] not in self._named
        said = [f"{word} {self._listed(targets)}"] if targets else []
        return [*said, *(self._inside(group, targets[0]) if alone else ())]

    def _all_inside(self, owner: Group, edges: Sequence[Edge]) -> list[str]:
        """Return where all that somebody has is: "broccoli and sauce on it"."""
        left = [[edge for edge in one.target.outgoing if not edge.done] for one in edges]
        words = {edge.predicate for some in left for edge in some if edge.target is owner}
        if len(words) != 1 or any(len(some) != 1 or some[0].target is not owner for some in left):
            return []
        return [text for one in edges for text in self._inside(owner, one.target)][:1]

    def _inside(self, owner: Group, group: Group) -> list[str]:
        """Return what is left to say of a thing just named: "with a hat on its head"."""
        ahead, states = group.ahead, group.states
        if not ahead and len(states) == 1 and is_place(states[0]) and not self._brief:
            group.stated = True
            return [*states]
        if len(ahead) != 1 or states or ahead[0].each or self._brief:
            return []
        edge = ahead[0]
        if edge.predicate.place != "be" or (edge.target is not owner and edge.target.outgoing):
            return []
        edge.done = True
        if edge.target is owner:
            them = owner.many or is_person(owner.name)
            return [f"{edge.predicate.words} {'them' if them else 'it'}"]
        subject, self._subject = self._subject, owner
        said = f"{edge.predicate.words} {self._mention(edge.target)}"
        self._subject = subject
        return [said]

    def _of_owner(self, group: Group, edge: Edge) -> str:
        """Return the first mention of what somebody has: "the dog's head", "its head"."""
        edge.done = True
        owner = edge.source
        words = f"{group.adjectives} {group.noun}"
        if owner is self._subject:
            head = owner.name.rpartition(" ")[2].casefold()
            mark = _HIS.get(head, "their" if is_person(owner.name) or owner.many else "its")
        elif owner in self._named or not (
            any(edge.predicate.place == "behind" and not edge.done for edge in owner.outgoing)
            or (owner.said.behind or owner.said.texts or owner.without)
        ):
            named = self._mention(owner)
            mark = f"{named}'" if owner.many and named.endswith("s") else f"{named}'s"
        else:
            mark = ""
        self._named.append(group)
        number = [] if group.number == 1 else _quantity(group, group.ids)
        if mark:
            return self._with_rest(group, " ".join([mark, *number, words]))
        the = "" if self._brief else "the"
        return self._with_rest(group, f"{the} {' '.join(number)} {words} of {self._mention(owner)}")

    def _again(self, group: Group) -> str:
        """Return a later mention of a group: ``the dog``, ``the red dog``, ``the second dog``."""
        bare = self._brief or not takes_article(group.name, group.proper and group.article != "the")
        the = "" if bare else "the "
        same = [one for one in self._named if one.label == group.label]
        own = group.said.before
        # The fewest adjectives that no other has.
        words = next(
            (
                " ".join(some)
                for size in range(len(own) + 1)
                for some in itertools.combinations(own, size)
                if not any(set(some) <= set(one.said.before) for one in same if one is not group)
            ),
            None,
        )
        loose = group.count is not None and group.count.kind != "exact"
        number = number_word(group.number) if group.number > 1 and not loose else ""
        if words is None:
            before = sum(g.number for g in same[: same.index(group)] if g.said.before == own)
            words, which = group.adjectives, "other" if before else "first"
            number = f"{which} {number}" if group.number > 1 else ordinal(before + 1)
        return " ".join(f"{the}{number} {words} {group.noun}".split())


def _quantity(group: Group, ids: Sequence[str]) -> list[str]:
    """Return the words for the number of objects, as the sentence says it; none if it is open."""
    count = group.count
    whole = count is not None and set(count.objects) == set(ids)
    if count is not None and count.kind == "exact" and not whole:
        # Of a number too large to be drawn the parts are nobody's number.
        return [number_word(len(ids))] if count.number == len(count.objects) else []
    if count is None:
        return [number_word(len(ids))]
    if count.kind == "exact":
        return [number_word(max(count.number or 0, len(ids)))]
    if count.kind == "open" or not whole:
        return []
    if count.number is None:
        return ["several" if len(ids) > 2 else "some"]
    return ["at least", number_word(count.number)]
