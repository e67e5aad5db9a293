"""Facts, answers, verdicts and the score card of an image.

A fact is one checkable statement of a scene graph. A judge gives an *answer* to a fact, the panel
turns answers into a *verdict*, and the verdicts of all facts make a *score card* (Scene-Bench, Eq.
2–4). :mod:`scenewright.core.questions` makes facts from scenes.

Two things are decided once all facts are answered (:func:`resolve_verdicts`). An object with an
uncertain verdict counts as present when a fact about it was confirmed. Facts about several
instances of a class count them, so verdicts say how many there are but not which:
:func:`assign_verdicts` assigns them to instances so that the most facts hold.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Self, get_args

from pydantic import Field, model_validator

from scenewright.core.errors import ScenewrightError
from scenewright.core.scene import SceneGraph
from scenewright.core.validation import FiniteModel, FrozenModel

FactKind = Literal[
    "object", "attribute", "relation", "count", "text", "wish", "realism", "soundness"
]
State = Literal["yes", "no", "void", "unscored"]
ProbabilityMethod = Literal["logprob", "decision", "verbalized", "binary", "regression"]
"""Source of a probability: token probabilities, a decision model, the judge's own words, a bare yes
or no, or a regressed score.
"""
FACT_KINDS: tuple[FactKind, ...] = ("object", "attribute", "relation")
"""Kinds of facts that a scene graph states, and that its scores are made of."""
STATED_KINDS: tuple[FactKind, ...] = (*FACT_KINDS, "count", "text")
"""Kinds of facts that must hold: those of the graph, exact numbers and exclusions (``count``), and
texts that no object bears. Of the others, ``wish`` is about the whole picture (its medium, light,
weather …), ``realism`` says that an object looks real, and ``soundness`` says that nothing in the
picture is malformed, or there unasked.
"""
RealismAspect = Literal["shape", "texture"]
ASPECTS: tuple[RealismAspect, ...] = ("shape", "texture")
"""Aspects of realism: the ``key`` of a fact of that kind."""
UNSURE_THRESHOLD = 0.25
"""An object that was judged absent with a higher probability than this may be there all the same:
what a scene says of it is asked, and may show it."""
WELL_FORMED, NOTHING_EXTRA = "s:well formed", "s:nothing extra"
SOUNDNESS: Mapping[str, str] = {WELL_FORMED: "well formed", NOTHING_EXTRA: "nothing extra"}
"""Ids of the facts of soundness → their statements."""
_OBJECT, _REALISM, _WISH = "o:", "real:", "w:"
_BESIDE = ("n:", "t:")
"""Beginnings of ids of what is stated beside the graph: numbers and texts."""
_ROUNDING = 1e-3
"""Allowed deviation of a distribution's sum from 1."""


def is_realism(fact_id: str) -> bool:
    """Return whether the id belongs to a fact of realism (``questions.realism_fact_id``)."""
    return fact_id.startswith(_REALISM)


def is_wish(fact_id: str) -> bool:
    """Return whether the id belongs to a wish for the whole picture (``questions.wish_id``)."""
    return fact_id.startswith(_WISH)


def is_stated(fact_id: str) -> bool:
    """Return whether the id is of a kind in :data:`STATED_KINDS`."""
    return not fact_id.startswith((_REALISM, _WISH)) and fact_id not in SOUNDNESS


def is_of_graph(fact_id: str) -> bool:
    """Return whether the id is of a kind in :data:`FACT_KINDS`."""
    return is_stated(fact_id) and not fact_id.startswith(_BESIDE)


def is_object(fact_id: str) -> bool:
    """Return whether it is the id of an object's fact (``questions.object_fact_id``)."""
    return fact_id.startswith(_OBJECT)


def reported_kinds(kinds: Iterable[FactKind]) -> tuple[FactKind, ...]:
    """Return the kinds that a scene graph states, and the other ones that occur in ``kinds``."""
    told = {*FACT_KINDS, *kinds}
    return tuple(kind for kind in get_args(FactKind) if kind in told)


class FactError(ScenewrightError, ValueError):
    """Answers, verdicts or facts that do not fit together."""


MOST_OPTIONS = 26
"""Most options of a question: they are lettered."""


class Counting(FrozenModel):
    """The question for a number that answers several facts, of a judge that counts."""

    question: str
    """``How many red balls are there in the image?``"""
    statement: str
    """Content of the facts together, for people: ``exactly 3 balls``, ``at least 2 red balls``."""
    least: int
    """The number from which on the fact's own question is answered with yes."""
    wanted: int
    """The number in the scene."""
    exact: bool = False
    """Whether there must not be more."""

    @property
    def id(self) -> str:
        """Id of the question among the facts of a scene."""
        return f"c:{self.question}"

    @property
    def as_question(self) -> dict[str, Any]:
        """The fields of a fact that is asked it: the options are numbers from 0.

        The last one is ``3 or more``.
        """
        most = self.wanted + self.exact
        options = (*map(str, range(most)), f"{most} or more")
        return {
            "statement": self.statement,
            "question": self.question,
            "options": options,
            "expected": options[self.wanted],
        }


class Fact(FrozenModel):
    """One statement of the scene, with the question that checks it."""

    id: str
    """Id, stable within a scene: ``o:dog.1``, ``a:dog.1:color``, ``r:dog.1|left of|ball.1``,
    ``real:dog.1:shape`` (realism). Separators inside a part are escaped with a backslash.
    """
    kind: FactKind
    subject: str
    """Id of the object (of the relation's source); empty of the whole picture."""
    target: str | None = None
    """Id of the relation's target."""
    predicate: str | None = None
    key: str | None = None
    """Key of the attribute; of realism ``shape`` or ``texture``; of one of several instances of a
    class the number of instances that there must be.
    """
    value: str | None = None
    """Value of the attribute; of realism the class of the object."""
    classes: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """Class labels of subject and target, where the question names them; checked against closed
    vocabularies.
    """
    parents: tuple[str, ...] = ()
    """Ids of facts that must hold before this one is asked; otherwise it is void. A protocol that
    asks everything gives none; :attr:`depends_on` has them under every protocol.
    """
    statement: str
    """The fact in words, for people: ``red dog left of ball``."""
    question: str
    """Question to a judge, without the options."""
    options: tuple[str, ...] = ("yes", "no")
    """Possible answers, in the order offered."""
    expected: str = "yes"
    """The option that says the fact holds."""
    guessable: bool = Field(default=False, exclude_if=lambda guessable: not guessable)
    """Whether the classes alone give the answer of a choice away: no wrong option is as plausible.
    """
    counting: Counting | None = Field(default=None, exclude_if=lambda counting: counting is None)
    """Of one of several facts about how many there are of something: the question for all."""

    @model_validator(mode="before")
    @classmethod
    def _without_removed(cls, data: Any) -> Any:
        # Of runs of before 1.1: a second question, by class label.
        if isinstance(data, Mapping) and "by_label" in data:
            return {name: value for name, value in data.items() if name != "by_label"}
        return data

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.expected not in self.options:
            raise FactError(f"fact {self.id}: expected {self.expected!r} not in {self.options}")
        if len(set(self.options)) != len(self.options) or len(self.options) < 2:
            raise FactError(f"fact {self.id}: options must be two or more, all different")
        return self

    @property
    def counts(self) -> bool:
        """Whether it says that there are at least :attr:`key` objects of its class."""
        # Questions that sets bring have other keys: those of GenEval count as "count:0".
        return self.kind == "object" and bool(self.classes) and (self.key or "").isdecimal()

    @property
    def of_graph(self) -> bool:
        """Whether a scene graph states it: an object, an attribute or a relation."""
        return self.kind in FACT_KINDS

    @property
    def counted(self) -> Fact | None:
        """Return the question for a number that answers this fact among others; None without."""
        one = self.counting
        if one is None or one.wanted + one.exact >= MOST_OPTIONS:
            return None
        return Fact(id=one.id, kind="count", subject="", classes=self.classes, **one.as_question)

    @property
    def shows_objects(self) -> bool:
        """Whether it is a scene's attribute or relation, and so shows that its parents are there.

        The questions that data sets bring do not.
        """
        stated = self.kind in ("attribute", "relation") and bool(self.classes)
        return stated and bool(self.parents) and all(map(is_object, self.parents))

    @property
    def depends_on(self) -> tuple[str, ...]:
        """Ids of the facts without which it says nothing, the same things under every protocol.

        A protocol decides only whether they gate, as parents do: without parents, an attribute or
        relation of a scene depends on the objects that it is about.
        """
        if self.parents or not self.classes or self.kind not in ("attribute", "relation"):
            return self.parents
        ends = (self.subject, self.target)
        return tuple(dict.fromkeys(f"{_OBJECT}{end}" for end in ends if end is not None))

    @property
    def is_binary(self) -> bool:
        """Whether the question takes yes or no."""
        return set(self.options) == {"yes", "no"}


class Answer(FiniteModel):
    """One judge's answer to one fact.

    It is never guessed: a failure is ``unscored`` with its reason.
    """

    fact_id: str
    judge_id: str
    """``provider:model`` of the judge."""
    state: State
    """yes, no, void (not asked: a parent is absent) or unscored (the judge gave nothing usable)."""
    choice: str | None = None
    """Chosen option."""
    probability: float | None = Field(default=None, ge=0.0, le=1.0)
    """The judge's probability that the fact holds, if it gives one."""
    distribution: dict[str, float] | None = None
    """Option → probability, if the judge gives one for each option of a choice; sums to 1. A judge
    with a closed vocabulary may have been offered other options in place of unknown ones. Without
    it, the panel derives what it can from probability and choice.
    """
    method: ProbabilityMethod | None = None
    """Source of the probability."""
    region: tuple[float, float, float, float] | None = None
    """Part of the image that the judge looked at: left, top, right, bottom in pixels; None: all of
    it.
    """
    rationale: str = ""
    reason: str = ""
    """Why the answer is unscored or void."""
    note: str = Field(default="", exclude_if=lambda said: not said)
    """Remark on its origin, such as token probabilities that could not be used."""
    tokens_in: int = Field(default=0, ge=0)
    """Input tokens of this answer's share of the call."""
    tokens_out: int = Field(default=0, ge=0)
    """Output tokens of its share."""
    tokens_cached: int = Field(default=0, ge=0)
    """Input tokens from the provider's cache."""
    seconds: float = Field(default=0.0, ge=0.0)
    """Wall time of this answer's share of the call."""
    usd: float = Field(default=0.0, ge=0.0)
    """Cost of this answer's share of the call, in US dollars."""
    model: str = ""
    """Served model, with its fingerprint if known."""
    prompt_id: str = ""
    """``id@version#hash`` of the prompt."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.state == "unscored" and not self.reason:
            raise FactError(f"unscored answer to {self.fact_id} by {self.judge_id} has no reason")
        if self.state in ("void", "unscored") and (self.probability, self.distribution) != (
            None,
            None,
        ):
            raise FactError(f"{self.state} answer to {self.fact_id} must not carry a probability")
        if self.distribution is not None:
            shares = self.distribution.values()
            if min(shares, default=-1.0) < 0.0 or abs(sum(shares) - 1.0) > _ROUNDING:
                raise FactError(
                    f"the distribution of {self.judge_id} over the options of {self.fact_id} must "
                    "be of shares that add up to 1"
                )
        return self


class Verdict(FiniteModel):
    """The panel's verdict on one fact."""

    fact_id: str
    state: State
    """yes, no, void or unscored."""
    probability: float | None = Field(default=None, ge=0.0, le=1.0)
    """Probability that the fact holds; None for void and unscored. A choice is decided against its
    strongest rival, so it may be yes below ½.
    """
    rival: str = ""
    """Of a choice: likeliest other option; empty if the judges named none."""
    rival_probability: float | None = Field(default=None, ge=0.0, le=1.0)
    """Of a choice: probability of that option; None for yes/no questions."""
    disagreement: float = Field(default=0.0, ge=0.0, le=1.0)
    """Entropy in bits of the judges' mean probability: 0 if all are certain and agree, 1 if the
    panel is undecided.
    """
    n_scored: int = Field(default=0, ge=0)
    """Number of judges with a usable answer."""
    n_unscored: int = Field(default=0, ge=0)
    """Number of judges without one."""
    methods: tuple[ProbabilityMethod, ...] = ()
    """Sources of its probabilities, sorted; several mean different scales."""
    reason: str = ""
    """Why the verdict is void or unscored; of an object that other facts show, which facts."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.state in ("void", "unscored") and (self.probability, self.rival_probability) != (
            None,
            None,
        ):
            raise FactError(f"{self.state} verdict of {self.fact_id} must not carry a probability")
        return self

    @property
    def lead(self) -> float | None:
        """Probability against the strongest rival alone: ``p / (p + rival's)``, ½ if undecided.

        For a yes/no question it is the probability itself.
        """
        if self.probability is None or self.rival_probability is None:
            return self.probability
        both = self.probability + self.rival_probability
        return self.probability / both if both > 0.0 else 0.5

    @property
    def likelihood(self) -> float:
        """The probability; without one, 1 for yes and 0 for anything else.

        It is for ordering images; ``state`` decides whether a fact holds.
        """
        if self.probability is not None:
            return self.probability
        return 1.0 if self.state == "yes" else 0.0


def voids(parent: Verdict, child: Fact) -> bool:
    """Return whether the verdict of a parent makes ``child`` void before it is asked.

    A parent that was judged no is absent, unless it is an object of which the panel is unsure
    (:data:`UNSURE_THRESHOLD`) and ``child`` may show it.
    """
    if parent.state != "no":
        return parent.state == "void"
    return not (child.shows_objects and (parent.probability or 0.0) > UNSURE_THRESHOLD)


_TELLS: Mapping[State, int] = {"yes": 0, "unscored": 1, "no": 2, "void": 3}
"""Order in which verdicts are assigned to present instances, then to absent ones."""
HALF = 0.5
"""Probability above which a thing is there."""
_MOST_SETS = 20_000
"""Most sets of instances that are tried; beyond, each class is decided alone."""


def assign_verdicts(facts: Sequence[Fact], verdicts: Mapping[str, Verdict]) -> dict[str, str]:
    """Assign the verdicts of several instances: fact id → id of the fact whose verdict applies.

    The facts of several instances of a class count them, so the verdicts say how many there are but
    not which. They are assigned so that the most facts hold: of the sets of instances that may be
    present, the one with the most relations and attributes that hold, then the likeliest, then the
    busiest. The same goes for attributes that several instances share. Facts that are not listed
    keep their own verdict; one without a verdict is left out.
    """
    facts = [fact for fact in facts if fact.id in verdicts]
    groups: dict[str, list[Fact]] = {}
    for fact in facts:
        if fact.counts:
            groups.setdefault(fact.classes[0], []).append(fact)
    if not groups:
        return {}
    classes = [sorted(group, key=lambda fact: int(fact.key or 0)) for group in groups.values()]
    name = {fact.subject: fact.classes[0] for group in classes for fact in group}
    shared: dict[tuple[str | None, ...], list[Fact]] = {}
    for fact in facts:
        if fact.kind == "attribute" and fact.subject in name:
            place = (name[fact.subject], fact.key, fact.value)
            shared.setdefault(place, []).append(fact)
    order = {fact.subject: at for group in classes for at, fact in enumerate(group)}
    for members in shared.values():
        members.sort(key=lambda fact: order[fact.subject])
    relations = [
        fact
        for fact in facts
        if fact.kind == "relation"
        and verdicts[fact.id].state == "yes"
        and (fact.subject in name or fact.target in name)
    ]

    def held(absent: frozenset[str]) -> tuple[float, float, float]:
        found = [
            verdicts[fact.id]
            for fact in relations
            if fact.subject not in absent and fact.target not in absent
        ]
        for members in shared.values():
            there = sum(fact.subject not in absent for fact in members)
            yes = sorted(
                (v for fact in members if (v := verdicts[fact.id]).state == "yes"),
                key=lambda verdict: -verdict.likelihood,
            )
            found += yes[:there]
        # Statements by people have precedence over judges.
        said = sum(verdict.n_scored == 0 for verdict in found)
        return said, len(found), round(sum(verdict.likelihood for verdict in found), 9)

    absent = maximize_held_facts([_absences(group, verdicts) for group in classes], held)
    result: dict[str, str] = {}
    for members in [*classes, *shared.values()]:
        telling = sorted(members, key=lambda fact: _TELLS[verdicts[fact.id].state])
        there = sorted(members, key=lambda fact: fact.subject in absent)
        result |= {mine.id: by.id for mine, by in zip(there, telling, strict=True)}
    return result


def resolve_verdicts(facts: Sequence[Fact], verdicts: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """Return the verdicts (one per fact) after resolving uncertain objects and absent instances.

    An object with an uncertain verdict is present if the mean of its probability and that of a
    fact that shows it is above ½; otherwise the facts about it are void. Statements about absent
    instances are void: if one person is counted but two questions about persons are answered with
    yes, one answer is about the other person, or wrong. Resolving twice changes nothing.
    """
    verdicts = _resolve_uncertain_objects(facts, verdicts)
    tells = assign_verdicts(facts, verdicts)
    if not tells:
        return dict(verdicts)
    absent = {
        fact.subject
        for fact in facts
        if fact.kind == "object"
        and fact.id in tells
        and verdicts[tells[fact.id]].state in ("no", "void")
    }
    result = dict(verdicts)
    for fact in facts:
        ends = absent.intersection((fact.subject, fact.target or fact.subject))
        told = tells.get(fact.id, fact.id)
        if fact.kind not in ("attribute", "relation") or not ends or result[told].state != "yes":
            continue
        reason = f"does not count: {', '.join(sorted(ends))} is absent, others of its class are not"
        result[told] = Verdict(fact_id=told, state="void", reason=reason)
    return result


def _resolve_uncertain_objects(
    facts: Sequence[Fact], verdicts: Mapping[str, Verdict]
) -> dict[str, Verdict]:
    """Return the verdicts after resolving uncertain objects."""
    result = dict(verdicts)
    unsure = [
        fact
        for fact in facts
        if fact.kind == "object"
        and fact.id in verdicts
        and verdicts[fact.id].state == "no"
        and (verdicts[fact.id].probability or 0.0) > UNSURE_THRESHOLD
    ]
    if not unsure:
        return result
    stated = [fact for fact in facts if fact.id in verdicts]
    # In a large scene few of the facts are about any one object.
    about: dict[str | tuple[str, ...], list[int]] = defaultdict(list)
    for at, fact in enumerate(stated):
        for parent in fact.parents:
            about[parent].append(at)
        about[fact.classes].append(at)
    for fact in unsure:
        verdict = verdicts[fact.id]
        by, likelihood = "", 0.0
        places = sorted({*about[fact.id], *(about[fact.classes] if fact.counts else ())})
        for group, n in showing(fact, [stated[at] for at in places]):
            holding = [verdicts[id_] for id_ in group if verdicts[id_].state == "yes"]
            likeliest = sorted(holding, key=lambda one: -one.likelihood)[:n]
            if len(likeliest) == n and likeliest[-1].likelihood > likelihood:
                likelihood = likeliest[-1].likelihood
                by = ", ".join(one.fact_id for one in likeliest)
        mean = ((verdict.probability or 0.0) + likelihood) / 2.0
        if mean > HALF:
            changes = {"state": "yes", "probability": mean, "reason": f"shown by {by}"}
            result[fact.id] = verdict.model_copy(update=changes)
    for fact in stated:
        for parent in fact.parents if fact.shows_objects else ():
            above = result.get(parent)
            if above is not None and above.state == "no" and not voids(above, fact):
                reason = f"does not count: {parent} is absent"
                result[fact.id] = Verdict(fact_id=fact.id, state="void", reason=reason)
    return result


def showing(fact: Fact, facts: Sequence[Fact]) -> list[tuple[tuple[str, ...], int]]:
    """Return the facts that show the object of ``fact``.

    They come as groups of ids, each with the number of them that must hold. Any fact shows the
    objects on which it depends. That there are at least n of a class is also shown by n facts that
    tell its objects apart by one attribute.
    """
    stated = [one for one in facts if one.shows_objects]
    found: list[tuple[tuple[str, ...], int]]
    found = [((one.id,), 1) for one in stated if fact.id in one.parents]
    if fact.counts:
        by_key: dict[str | None, list[str]] = {}
        for one in stated:
            if one.kind == "attribute" and one.classes == fact.classes:
                by_key.setdefault(one.key, []).append(one.id)
        found += [(tuple(alike), int(fact.key or 0)) for alike in by_key.values()]
    return found


def _absences(group: Sequence[Fact], verdicts: Mapping[str, Verdict]) -> list[frozenset[str]]:
    """Return the sets of possibly absent instances, least related first."""
    lost = sum(verdicts[fact.id].state in ("no", "void") for fact in group)
    subjects = [fact.subject for fact in reversed(group)]
    if math.comb(len(subjects), lost) > _MOST_SETS:
        return [frozenset(subjects[:lost])]
    return [frozenset(some) for some in itertools.combinations(subjects, lost)]


def maximize_held_facts(
    classes: Sequence[Sequence[frozenset[str]]],
    held: Callable[[frozenset[str]], tuple[float, float, float]],
) -> frozenset[str]:
    """Return the union of one set per class with the most facts that hold."""
    if math.prod(len(sets) for sets in classes) <= _MOST_SETS:
        joined = (frozenset().union(*some) for some in itertools.product(*classes))
        return max(joined, key=held)
    chosen: frozenset[str] = frozenset()
    for sets in classes:
        chosen |= max(sets, key=lambda some: held(chosen | some))
    return chosen


def missing_graph(
    scene: SceneGraph, facts: Sequence[Fact], verdicts: Iterable[Verdict]
) -> SceneGraph:
    """Return ``G_miss``, the part of ``scene`` that the image does not show (Scene-Bench, Sec. 4).

    Holds every object that is absent or one of whose attributes was judged *no*, and
    every relation judged *no* or void, with both its ends so that it can be drawn. Among several
    instances of a class, those with the fewest confirmed facts are absent
    (:func:`assign_verdicts`).
    Unscored facts are unknown, not missing, and an object that does not look real is there all
    the same. Empty if nothing is missing.
    """
    by_id = {verdict.fact_id: verdict for verdict in verdicts}
    every = [fact for fact in facts if fact.id in by_id]
    by_id = resolve_verdicts(every, by_id)
    tells = assign_verdicts(every, by_id)
    objects: set[str] = set()
    relations: set[tuple[str, str, str]] = set()
    for fact in every:
        state = by_id[tells.get(fact.id, fact.id)].state
        if not fact.of_graph or state not in ("no", "void"):
            continue
        objects.add(fact.subject)
        if fact.kind == "relation" and fact.target is not None and fact.predicate is not None:
            objects.add(fact.target)
            relations.add((fact.subject, fact.predicate, fact.target))
    return scene.subgraph(
        objects,
        [r for r in scene.relations if (r.source, r.predicate, r.target) in relations],
    )


class Recall(FrozenModel):
    """Counts of verdicts of one kind of fact, and their recall."""

    yes: int = 0
    """Facts that hold."""
    no: int = 0
    """Facts that do not."""
    void: int = 0
    """Facts not asked because a parent is absent: counted as not satisfied."""
    unscored: int = 0
    """Facts that nobody could judge, outside of the recall."""

    @property
    def total(self) -> int:
        """All facts of the kind."""
        return self.yes + self.no + self.void + self.unscored

    @property
    def value(self) -> float | None:
        """``yes / (yes + no + void)`` (Scene-Bench Eq. 2, 3); none if nothing was scored."""
        scored = self.yes + self.no + self.void
        return self.yes / scored if scored else None


Interval = tuple[float, float]


class ScoreIntervals(FiniteModel):
    """95 % intervals (low, high) of the scores of one image; None where a score is undefined.

    Over other facts of the same kinds and other judges of the same quality: see
    :mod:`scenewright.agents.panel.scores`.
    """

    objects: Interval | None = None
    """Of the ObjectRecall."""
    attributes: Interval | None = None
    """Of the AttributeRecall."""
    relations: Interval | None = None
    """Of the RelationRecall."""
    sgscore: Interval | None = None
    """Of the SGScore."""
    fact_recall: Interval | None = None
    """Of the share of all facts that hold."""


class CorrectedScores(FiniteModel):
    """Scores of one image corrected for the panel's measured errors, each in [0, 1].

    None where the score is undefined or the panel too near to guessing: see
    :mod:`scenewright.agents.panel.scores`.
    """

    objects: float | None = None
    """ObjectRecall."""
    attributes: float | None = None
    """AttributeRecall."""
    relations: float | None = None
    """RelationRecall."""
    sgscore: float | None = None
    """SGScore."""
    fact_recall: float | None = None
    """Share of all facts that hold."""


class ScoreCard(FrozenModel):
    """Verdicts of one image with their scores."""

    verdicts: tuple[Verdict, ...]
    """One per fact, in the order of the facts; those of :attr:`soundness` are not among them."""
    objects: Recall
    """ObjectRecall (Eq. 2)."""
    attributes: Recall
    """AttributeRecall: the same for attributes."""
    relations: Recall
    """RelationRecall (Eq. 3)."""
    further: Recall = Field(default=Recall(), exclude_if=lambda recall: not recall.total)
    """Exact numbers, exclusions and texts, which :attr:`fact_recall` counts and SGScore does not.
    """
    wishes: Recall = Field(default=Recall(), exclude_if=lambda recall: not recall.total)
    """Wishes for the whole picture, which no score of facts counts."""
    realism: Recall = Recall()
    """Facts of realism, which no score of facts counts; empty if none were asked."""
    soundness: tuple[Verdict, ...] = Field(default=(), exclude_if=lambda verdicts: not verdicts)
    """Verdicts of the facts of soundness, which no score counts and no other verdict depends on;
    empty if they were not asked."""
    alpha: float = Field(default=0.5, ge=0.0, le=1.0)
    """Weight of the objects in SGScore."""
    intervals: ScoreIntervals | None = None
    """Intervals of the scores, if computed."""
    corrected: CorrectedScores | None = None
    """Scores corrected for the panel's measured errors, if it has a calibration."""

    @classmethod
    def of(
        cls, facts: Sequence[Fact], verdicts: Iterable[Verdict], alpha: float = 0.5
    ) -> ScoreCard:
        """Return the score card of ``facts`` with ``verdicts``.

        Verdicts that cannot hold together become void (:func:`resolve_verdicts`). A fact without a
        verdict is an error (``FactError``): nothing is dropped in silence.
        """
        by_id: dict[str, Verdict] = {}
        for verdict in verdicts:
            if verdict.fact_id in by_id:
                raise FactError(f"two verdicts for {verdict.fact_id}")
            by_id[verdict.fact_id] = verdict
        repeated = sorted(id_ for id_, n in Counter(fact.id for fact in facts).items() if n > 1)
        if repeated:
            raise FactError(f"the facts {repeated} are listed twice: give each once")
        missing = [fact.id for fact in facts if fact.id not in by_id]
        extra = sorted(set(by_id) - {fact.id for fact in facts})
        if missing or extra:
            raise FactError(f"verdicts do not fit the facts: missing {missing}, unknown {extra}")
        by_id = resolve_verdicts(facts, by_id)
        counts = Counter((fact.kind, by_id[fact.id].state) for fact in facts)

        def recall(*kinds: FactKind) -> Recall:
            states = get_args(State)
            return Recall(**{state: sum(counts[k, state] for k in kinds) for state in states})

        return cls(
            verdicts=tuple(by_id[fact.id] for fact in facts if fact.kind != "soundness"),
            objects=recall("object"),
            attributes=recall("attribute"),
            relations=recall("relation"),
            further=recall("count", "text"),
            wishes=recall("wish"),
            realism=recall("realism"),
            soundness=tuple(by_id[fact.id] for fact in facts if fact.kind == "soundness"),
            alpha=alpha,
        )

    @property
    def sgscore(self) -> float | None:
        """``α·ObjectRecall + (1−α)·RelationRecall`` (Eq. 4).

        A scene without relations is scored by its objects alone, and the reverse. None if neither
        was asked, or if nobody could judge any fact of one: half of the sum is then unknown.
        """
        objects, relations = self.objects.value, self.relations.value
        if any(part.total and part.value is None for part in (self.objects, self.relations)):
            return None
        if objects is None or relations is None:
            return objects if relations is None else relations
        return self.alpha * objects + (1.0 - self.alpha) * relations

    @property
    def methods(self) -> tuple[ProbabilityMethod, ...]:
        """Sources of all probabilities, sorted; several are mixed scales."""
        return tuple(sorted({method for v in self.verdicts for method in v.methods}))

    @property
    def satisfied(self) -> bool:
        """Whether every fact holds; realism and a wish that no judge answered do not count."""
        return all(
            verdict.state == "yes" or (verdict.state == "unscored" and is_wish(verdict.fact_id))
            for verdict in self.verdicts
            if not is_realism(verdict.fact_id)
        )

    @property
    def stated(self) -> tuple[Verdict, ...]:
        """Verdicts of stated facts: all but wishes and those of realism."""
        return tuple(v for v in self.verdicts if is_stated(v.fact_id))

    @property
    def of_graph(self) -> tuple[Verdict, ...]:
        """Verdicts of the objects, attributes and relations."""
        return tuple(v for v in self.verdicts if is_of_graph(v.fact_id))

    @property
    def unscored(self) -> int:
        """Number of stated facts that nobody could judge, left out of all scores."""
        return sum(verdict.state == "unscored" for verdict in self.stated)

    @property
    def fact_recall(self) -> float | None:
        """Share of stated facts that hold, without unscored ones."""
        scored = [v for v in self.stated if v.state != "unscored"]
        return sum(v.state == "yes" for v in scored) / len(scored) if scored else None

    @property
    def expected_recall(self) -> float | None:
        """Mean probability over scored stated facts, with void as 0.

        A finer order than :attr:`fact_recall`. A verdict without probability counts as 1 for yes
        and 0 for no.
        """
        scored = [v.likelihood for v in self.stated if v.state != "unscored"]
        return sum(scored) / len(scored) if scored else None

    @property
    def ocr(self) -> float | None:
        """Object-centric realism: mean probability of the facts of realism, in [0, 1].

        Over objects that are there and could be scored; none if no such fact was scored.
        """
        realism = [v for v in self.verdicts if is_realism(v.fact_id)]
        scored = [v.likelihood for v in realism if v.state in ("yes", "no")]
        return sum(scored) / len(scored) if scored else None

    @property
    def rank(self) -> tuple[float, float, float, float]:
        """Rank of a candidate.

        SGScore, then all stated facts, then realism, then the facts' mean probability (−1 if
        unscored): realism decides only between pictures with equal facts.
        """
        scores = (self.sgscore, self.fact_recall, self.ocr, self.expected_recall)
        first, second, third, last = (-1.0 if score is None else score for score in scores)
        return first, second, third, last
