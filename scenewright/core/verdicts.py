"""Facts, answers and verdicts: what is asked of an image and what came back."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

FactKind = Literal["object", "attribute", "relation", "realism"]
State = Literal["yes", "no", "void", "unscored"]
ProbabilityMethod = Literal["logprob", "decision", "verbalized", "binary", "regression"]
"""From token probabilities, from a decision model, in the judge's own words, a bare yes or no, or a
regressed score."""
FACT_KINDS: tuple[FactKind, ...] = ("object", "attribute", "relation")
"""Kinds of the facts that a scene graph states, and that its scores are made of. Facts of the kind
``realism`` are asked besides: they say of an object that it looks real."""
RealismAspect = Literal["shape", "texture"]
ASPECTS: tuple[RealismAspect, ...] = ("shape", "texture")
"""What is asked of an object's realism: the ``key`` of a fact of that kind."""
_REALISM = "real:"
_ROUNDING = 1e-3
"""How far the shares of a distribution may add up to something else than 1."""


def is_realism(fact_id: str) -> bool:
    """Whether it is the id of a fact of realism, as ``questions.realism_fact_id`` makes them."""
    return fact_id.startswith(_REALISM)


class FactError(ValueError):
    """Answers, verdicts or facts that do not fit together."""


class Fact(BaseModel):
    """One statement of the scene, with the question that checks it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """Stable within a scene: ``o:dog.1``, ``a:dog.1:color``, ``r:dog.1|left of|ball.1``,
    ``real:dog.1:shape`` (realism).
    A separator inside a part has a backslash before it, so that no two facts share an id."""
    kind: FactKind
    """What the fact is about."""
    subject: str
    """Id of the object (of the relation's source)."""
    target: str | None = None
    """Id of the relation's target."""
    predicate: str | None = None
    """The relation's predicate."""
    key: str | None = None
    """The attribute's key; of a fact of realism ``shape`` or ``texture``; of an object that is one
    of several of its class how many of it there must be."""
    value: str | None = None
    """The attribute's value; of a fact of realism the class of its object."""
    classes: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """Class labels of subject and target, where the question names them: what a judge with few
    words is checked for."""
    parents: tuple[str, ...] = ()
    """Facts that must hold before this one is asked; if one does not, this fact is void."""
    statement: str
    """The fact in words, for people: ``red dog left of ball``."""
    question: str
    """What a judge is asked, without the options."""
    options: tuple[str, ...] = ("yes", "no")
    """Possible answers, in the order in which they are offered."""
    expected: str = "yes"
    """The option that says the fact holds."""

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
    def is_binary(self) -> bool:
        """Whether the question takes yes or no."""
        return set(self.options) == {"yes", "no"}


class Answer(BaseModel):
    """What one judge said of one fact. Never guessed: a failure is ``unscored`` with its reason."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    fact_id: str
    """The fact that was asked."""
    judge_id: str
    """``provider:model`` of the judge."""
    state: State
    """yes, no, void (not asked: a parent is absent) or unscored (the judge gave nothing usable)."""
    choice: str | None = None
    """The option the judge picked."""
    probability: float | None = Field(default=None, ge=0.0, le=1.0)
    """The judge's probability that the fact holds, if it gives one."""
    distribution: dict[str, float] | None = None
    """Option → probability, where the judge tells that of each option of a choice; sums to 1. A
    judge with few words may have been offered others in place of options that it does not know.
    Without it the probability and the choice tell what they can
    (:mod:`scenewright.agents.panel.ballots`)."""
    method: ProbabilityMethod | None = None
    """How the probability was obtained."""
    region: tuple[float, float, float, float] | None = None
    """Where in the image the judge looked: left, top, right, bottom in pixels; none: everywhere."""
    rationale: str = ""
    """The judge's reason, in its words."""
    reason: str = ""
    """Why the answer is unscored or void."""
    note: str = Field(default="", exclude_if=lambda said: not said)
    """What to know of how it was obtained: that token probabilities could not be used."""
    tokens_in: int = Field(default=0, ge=0)
    """Input tokens that this answer's share of the call took."""
    tokens_out: int = Field(default=0, ge=0)
    """Output tokens, likewise."""
    tokens_cached: int = Field(default=0, ge=0)
    """Those of the input tokens that the provider had in its cache."""
    seconds: float = Field(default=0.0, ge=0.0)
    """Wall time of this answer's share of the call."""
    usd: float = Field(default=0.0, ge=0.0)
    """Cost of this answer's share of the call, in US dollars."""
    model: str = ""
    """Model id and fingerprint that answered."""
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


class Verdict(BaseModel):
    """What the panel says of one fact."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    fact_id: str
    """The fact."""
    state: State
    """yes, no, void or unscored."""
    probability: float | None = Field(default=None, ge=0.0, le=1.0)
    """The panel's probability that the fact holds; none for void and unscored. The verdict on a
    choice is whether this is more than that of every other option, so it may be yes below ½."""
    rival: str = ""
    """Of a choice: the likeliest other option; empty where the judges named none."""
    rival_probability: float | None = Field(default=None, ge=0.0, le=1.0)
    """Of a choice: the panel's probability of that option; none for yes/no questions."""
    disagreement: float = Field(default=0.0, ge=0.0, le=1.0)
    """Entropy in bits of the judges' mean probability: 0 if all are certain and say the same, 1
    if the panel as a whole is undecided, whatever the aggregation makes of it."""
    n_scored: int = Field(default=0, ge=0)
    """How many judges gave a usable answer."""
    n_unscored: int = Field(default=0, ge=0)
    """How many did not."""
    methods: tuple[ProbabilityMethod, ...] = ()
    """How the probabilities behind it were obtained, sorted: several are different scales in
    one number."""
    reason: str = ""
    """Why the verdict is void or unscored."""

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

        That of a yes/no question is the probability itself.
        """
        if self.probability is None or self.rival_probability is None:
            return self.probability
        both = self.probability + self.rival_probability
        return self.probability / both if both > 0.0 else 0.5

    @property
    def likelihood(self) -> float:
        """The probability; without one 1 for yes and 0 for anything else.

        It orders pictures; whether a fact holds is what ``state`` says.
        """
        if self.probability is not None:
            return self.probability
        return 1.0 if self.state == "yes" else 0.0
