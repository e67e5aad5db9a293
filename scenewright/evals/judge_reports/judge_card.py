"""The report card of judges: how good, how steady, how dear, how fast, and how much alike."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from scenewright.core.facts import FactKind, ProbabilityMethod
from scenewright.evals.statistics.figures import Figure

SCHEMA = 1


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Quality(_Part):
    """How right the answers are; unscored ones are left out."""

    n: int = Field(ge=0)
    """Facts that were answered."""
    holds: int = Field(ge=0)
    """Those of them that hold."""
    yes_rate: Figure
    """Share that was said to hold."""
    sensitivity: Figure
    """P(yes | the fact holds)."""
    specificity: Figure
    """P(no | the fact does not hold)."""
    balanced_accuracy: Figure
    """Mean of both: 0.5 is guessing, whatever share of the facts holds."""
    false_premise: Figure
    """P(yes | the thing is not in the picture at all)."""
    brier: Figure
    """Mean squared error of the probabilities: 0 is best; 0.25 is ½ for every fact."""
    ece: Figure
    """Expected calibration error in 10 bins: the gap between said and true probability."""


class Stability(_Part):
    """Whether the same question in another form gets the same answer."""

    same: Figure
    """Share of pairs of forms with the same choice."""
    shift: Figure
    """Mean |difference| of the two probabilities that the fact holds."""


class Places(_Part):
    """Where the chosen options stand, among facts asked with every option in every place.

    A judge that goes by what it sees chooses each place equally often.
    """

    options: int = Field(ge=2)
    """How many places the options moved through."""
    last_kept: bool
    """Whether "no visible relationship" was kept after them, as runs do. Choices of it are then
    left out."""
    facts: int = Field(ge=0)
    """Facts with a usable answer to all of their turned forms."""
    choices: int = Field(ge=0)
    """Choices among the options that moved."""
    shares: tuple[Figure, ...]
    """How often each place was chosen, from the first; 1 / options without a bias."""
    first_bias: Figure
    """Share of the first place minus 1 / options."""
    last_bias: Figure
    """Share of the last place, likewise."""
    p_value: float | None
    """Of Pearson's χ² against equal shares. Turned forms of one fact depend on each other, so it
    is a guide; the intervals of the shares go by pictures."""


class Silence(_Part):
    """Answers that could not be used."""

    asked: int = Field(ge=0)
    """Questions put as they are."""
    unscored: int = Field(ge=0)
    """Those without a usable answer."""
    variants_asked: int = Field(ge=0)
    """Questions in other orders and words."""
    variants_unscored: int = Field(ge=0)
    """Those without a usable answer."""
    reasons: dict[str, int]
    """The most frequent reasons, of all questions."""

    @property
    def share(self) -> float | None:
        """Unscored share of the questions put as they are."""
        return self.unscored / self.asked if self.asked else None


class Costs(_Part):
    """What the answers took, those of earlier, interrupted reports included."""

    calls: int = Field(ge=0)
    """Calls in all, variants included."""
    questions: int = Field(ge=0)
    """Questions in them."""
    tokens_in: int = Field(ge=0)
    """Input tokens of all of them."""
    tokens_out: int = Field(ge=0)
    """Output tokens."""
    tokens_cached: int = Field(ge=0)
    """Input tokens that the provider had in its cache."""
    usd: float = Field(ge=0.0)
    """US dollars."""
    fact_tokens_in: float = Field(ge=0.0)
    """Input tokens a fact, of questions put as they are."""
    fact_tokens_out: float = Field(ge=0.0)
    """Output tokens a fact, likewise."""
    fact_usd: float = Field(ge=0.0)
    """US dollars a fact, likewise."""
    picture_tokens_in: float = Field(ge=0.0)
    """Input tokens a picture, likewise."""
    picture_tokens_out: float = Field(ge=0.0)
    """Output tokens a picture, likewise."""
    picture_usd: float = Field(ge=0.0)
    """US dollars a picture, likewise."""


class Latency(_Part):
    """How long calls take, by the clock of the judge (waiting in line is not counted)."""

    calls: int = Field(ge=0)
    """Calls that were timed."""
    questions_per_call: float | None
    """On average."""
    median: float | None
    """Seconds."""
    p95: float | None
    """Seconds that 95 % of the calls stay within."""
    per_fact: float | None
    """Seconds a fact, on average."""


class JudgeCard(_Part):
    """One judge."""

    judge_id: str
    """``provider:model``."""
    fingerprint: str
    """The judge's."""
    probability: ProbabilityMethod
    """How it says that it obtains probabilities."""
    methods: dict[str, int]
    """How the probabilities were obtained: method → answers; ``none`` for bare votes."""
    notes: tuple[str, ...]
    """What could not be measured, and why."""
    quality: Quality
    """Of all facts."""
    kinds: dict[FactKind, Quality]
    """By kind of fact."""
    order: dict[str, Stability]
    """Options in other orders, for ``all``, ``yes/no`` and ``choice`` questions, each as a run
    might offer them; ``turned``: choices with "no visible relationship" in any place."""
    paraphrase: dict[str, Stability]
    """Other words, for ``all`` facts and by kind."""
    claims_absent: Figure
    """Share of choices about absent things that claim any relation at all."""
    places: tuple[Places, ...]
    """Position bias, by number of options."""
    silence: Silence
    """Unscored answers."""
    costs: Costs
    """Tokens and dollars."""
    latency: Latency
    """Seconds."""


class PanelCard(_Part):
    """The mean of all judges' probabilities, as a panel."""

    quality: Quality
    """Of all facts."""
    kinds: dict[FactKind, Quality]
    """By kind of fact."""


class Pair(_Part):
    """Two judges."""

    a: str
    """One."""
    b: str
    """The other."""
    kappa: Figure
    """Cohen's κ of their votes: 1 is the same, 0 is chance."""


class Agreement(_Part):
    """How much alike the judges vote."""

    pairs: tuple[Pair, ...]
    """Every two of them."""
    alpha: Figure
    """Krippendorff's α of all."""


class CascadeCard(_Part):
    """Asking some judges first and the others only where these are unsure, replayed.

    Every fact counts as asked, also of things that are absent.
    """

    first: tuple[str, ...]
    """The judges that are always asked."""
    rest: tuple[str, ...]
    """Those that are asked of doubtful facts only."""
    unsure: tuple[float, float]
    """A fact is doubtful if its probability by the first judges lies in here."""
    saved: dict[str, float | None]
    """Share of the full panel's calls, answers, tokens and dollars that was not spent; None where
    the full panel spent none."""
    agreement: float | None
    """Share of facts with the full panel's verdict."""
    kappa: float | None
    """Cohen's κ of both verdicts."""


class JudgeReport(_Part):
    """Report cards of several judges on the same facts."""

    schema_version: int = SCHEMA
    """Of this form."""
    version: str
    """Of scenewright."""
    about: str
    """What the judges were measured on."""
    pictures: int = Field(ge=1)
    """Pictures."""
    facts: int = Field(ge=1)
    """Facts."""
    holds: int = Field(ge=0)
    """Facts that hold."""
    groups: dict[str, int]
    """Facts of each group."""
    kinds: dict[str, int]
    """Facts of each kind."""
    seed: int
    """Of the resamples."""
    cards: tuple[JudgeCard, ...]
    """One a judge."""
    panel: PanelCard | None
    """All together, of two judges or more."""
    agreement: Agreement | None
    """Of two judges or more."""
    cascade: CascadeCard | None = None
    """Where it was asked for."""
