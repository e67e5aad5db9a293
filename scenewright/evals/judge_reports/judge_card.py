"""Report cards of judges: accuracy, stability, cost, speed and agreement, with their tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from scenewright.core.facts import FactKind, ProbabilityMethod
from scenewright.evals.statistics.answers import PlainAnswer, highest_answer
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
    answer: PlainAnswer | None = None
    """Which judge is right most often; None in reports of earlier versions."""


Cell = str | Figure
DASH = "–"


@dataclass(frozen=True, slots=True)
class Section:
    """One table."""

    title: str
    """What it shows."""
    remark: str
    """How to read it."""
    heads: tuple[str, ...]
    """Names of the columns."""
    rows: tuple[tuple[Cell, ...], ...]
    """A cell is text or a figure with its interval."""


def sections(report: JudgeReport) -> list[Section]:
    """Return the tables of ``report``; those without anything to show are left out."""
    made = [
        _right(report),
        _by_kind(report),
        _steady(report),
        _places(report),
        _alike(report),
        _spent(report),
        _cascade(report),
        _remarks(report),
    ]
    return [section for section in made if section.rows]


def _right(report: JudgeReport) -> Section:
    rows = [(card.judge_id, *_quality(card.quality)) for card in report.cards]
    if report.panel is not None:
        rows.append(("all together (mean)", *_quality(report.panel.quality)))
    return Section(
        "How right",
        f"{report.holds / report.facts:.2f} of the facts hold, which is the right rate of yes. "
        "False premises: how often yes was said of a thing that is not in the picture.",
        ("judge", "yes", "sensitivity", "specificity", "balanced", "false prem.", "Brier", "ECE"),
        tuple(rows),
    )


def _quality(quality: Quality) -> tuple[Cell, ...]:
    return (
        quality.yes_rate,
        quality.sensitivity,
        quality.specificity,
        quality.balanced_accuracy,
        quality.false_premise,
        quality.brier,
        quality.ece,
    )


def _by_kind(report: JudgeReport) -> Section:
    rows: list[tuple[Cell, ...]] = []
    panel = [("all together (mean)", report.panel.kinds)] if report.panel is not None else []
    for name, kinds in [*((card.judge_id, card.kinds) for card in report.cards), *panel]:
        if len(kinds) > 1:
            rows += [(f"{name} {kind}", str(q.n), *_quality(q)[:-2]) for kind, q in kinds.items()]
    return Section(
        "By kind of fact",
        "",
        ("judge", "facts", "yes", "sensitivity", "specificity", "balanced", "false prem."),
        tuple(rows),
    )


def _steady(report: JudgeReport) -> Section:
    def cells(card: JudgeCard) -> tuple[Cell, ...]:
        def both(found: Stability | None) -> tuple[Cell, Cell]:
            return (found.same, found.shift) if found is not None else (DASH, DASH)

        return (
            *both(card.order.get("yes/no")),
            *both(card.order.get("choice")),
            both(card.order.get("turned"))[0],
            *both(card.paraphrase.get("all")),
        )

    return Section(
        "How steady",
        "Pairs of forms of one question: share with the same choice, and mean difference |ΔP| of "
        'the probabilities. yes/no: "Yes or no?" against "No or yes?"; choices: options in '
        'another order; turned: "no visible relationship" in another place too, where runs never '
        "put it; words: paraphrases.",
        ("judge", "yes/no", "|ΔP|", "choices", "|ΔP|", "turned", "words", "|ΔP|"),
        tuple((c.judge_id, *cells(c)) for c in report.cards if c.order or c.paraphrase),
    )


def _places(report: JudgeReport) -> Section:
    rows: list[tuple[Cell, ...]] = []
    for card in report.cards:
        for places in card.places:
            kept = "+ none last" if places.last_kept else ""
            rows.append(
                (
                    card.judge_id,
                    f"{places.options} {kept}".strip(),
                    f"{places.choices}",
                    " ".join(_two(share) for share in places.shares),
                    _signed(places.first_bias),
                    _signed(places.last_bias),
                    DASH if places.p_value is None else f"{places.p_value:.2g}",
                )
            )
    return Section(
        "Position bias",
        "Every option stood in every place equally often; a judge that goes by what it sees "
        "chooses each place equally often. First and last: share of that place minus the even "
        'share. "+ none last": "no visible relationship" was kept last, as in runs.',
        ("judge", "options", "choices", "share of each place", "first", "last", "χ² p"),
        tuple(rows),
    )


def _alike(report: JudgeReport) -> Section:
    rows: list[tuple[Cell, ...]] = []
    if report.agreement is not None:
        rows = [
            (f"{pair.a} and {pair.b}", "Cohen's κ", pair.kappa) for pair in report.agreement.pairs
        ]
        rows.append(("all", "Krippendorff's α", report.agreement.alpha))
    return Section(
        "How alike", "1: the same votes; 0: as by chance.", ("judges", "", ""), tuple(rows)
    )


def _spent(report: JudgeReport) -> Section:
    def cells(card: JudgeCard) -> tuple[Cell, ...]:
        silence, costs, time = card.silence, card.costs, card.latency
        share = DASH if silence.share is None else f"{100 * silence.share:.1f} %"
        return (
            card.judge_id,
            share,
            f"{costs.fact_tokens_in:.0f} / {costs.fact_tokens_out:.0f}",
            f"{costs.picture_tokens_in:.0f} / {costs.picture_tokens_out:.0f}",
            f"{costs.picture_usd:.6f}",
            f"{costs.usd:.4f}",
            _seconds(time.median),
            _seconds(time.p95),
            _seconds(time.per_fact),
        )

    return Section(
        "Unscored, cost, time",
        "Unscored: share of the questions, put as they are, without a usable answer. Tokens in / "
        "out and dollars of a fact and of a picture count these questions; dollars in all count "
        "the variants too. Seconds: median and 95 % of the sheets, and mean of a question.",
        (
            *("judge", "unscored", "tokens a fact", "a picture", "$ a picture", "$ in all"),
            *("median", "95 %", "a question"),
        ),
        tuple(map(cells, report.cards)),
    )


def _cascade(report: JudgeReport) -> Section:
    found = report.cascade
    rows: list[tuple[Cell, ...]] = []
    if found is not None:
        rows = [(f"{name} saved", _percent(share)) for name, share in found.saved.items()]
        rows += [
            ("same verdict as the full panel", _percent(found.agreement)),
            (
                "Cohen's κ with the full panel",
                DASH if found.kappa is None else f"{found.kappa:.3f}",
            ),
        ]
    remark = ""
    if found is not None:
        low, high = found.unsure
        remark = (
            f"First {', '.join(found.first)}; where their probability lies from {low:g} to "
            f"{high:g}, also {', '.join(found.rest)}."
        )
    return Section("Cascade", remark, ("", ""), tuple(rows))


def _remarks(report: JudgeReport) -> Section:
    def of(card: JudgeCard) -> Iterable[tuple[Cell, ...]]:
        for method, n in card.methods.items():
            words = "no probability" if method == "none" else f"probability by {method}"
            yield card.judge_id, f"{n} answers: {words}"
        for note in card.notes:
            yield card.judge_id, note
        if card.claims_absent.value is not None:
            share = card.claims_absent
            yield (
                card.judge_id,
                f"claims some relation of an absent thing in {share.text(2)} of {share.n} choices",
            )
        lost = card.silence.variants_unscored
        if lost:
            yield card.judge_id, f"{lost} of {card.silence.variants_asked} variants unscored"
        for reason, n in card.silence.reasons.items():
            yield card.judge_id, f"unscored, {n}: {reason}"

    rows = tuple(row for card in report.cards for row in of(card))
    return Section("Remarks", "", ("judge", ""), rows)


def _two(figure: Figure) -> str:
    return DASH if figure.value is None else f"{figure.value:.2f}"


def _signed(figure: Figure) -> str:
    """Signed value with its interval."""
    if figure.value is None:
        return DASH
    ends = ""
    if figure.low is not None and figure.high is not None:
        ends = f" [{_plus(figure.low)}, {_plus(figure.high)}]"
    return f"{_plus(figure.value)}{ends}"


def _plus(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _seconds(value: float | None) -> str:
    if value is None:
        return DASH
    return f"{1000 * value:.0f} ms" if value < 1.0 else f"{value:.1f} s"


def _percent(value: float | None) -> str:
    return DASH if value is None else f"{100 * value:.1f} %"


def right_answer(qualities: Mapping[str, Quality], pictures: int) -> PlainAnswer:
    """Return which judge of those named is right most often, by balanced accuracy."""
    return highest_answer(
        {judge: quality.balanced_accuracy for judge, quality in qualities.items()},
        "balanced accuracy",
        noun="judge",
        n=pictures,
        unit="picture",
    )


def markdown(report: JudgeReport, cell: Callable[[Figure], str] = Figure.text) -> str:
    """Return the report as a page of Markdown."""
    lines = [
        "# Report card of judges",
        "",
        *([f"**{report.answer.sentence}**", ""] if report.answer is not None else []),
        summary(report),
        "Intervals in brackets: 95 %, bootstrap over pictures.",
        "",
    ]
    for section in sections(report):
        lines += [f"## {section.title}", ""]
        if section.remark:
            lines += [section.remark, ""]
        lines.append(_line(section.heads))
        lines.append(_line(["---"] * len(section.heads)))
        lines += [
            _line([cell(c) if isinstance(c, Figure) else c for c in row]) for row in section.rows
        ]
        lines.append("")
    return "\n".join(lines)


def summary(report: JudgeReport) -> str:
    """Summarise the questions asked in a sentence."""
    groups = ", ".join(f"{n} {name}" for name, n in report.groups.items())
    return (
        f"{len(report.cards)} judges, {report.facts} facts of {report.pictures} pictures: "
        f"{report.about}{f' ({groups})' if groups else ''}."
    )


def _line(cells: Iterable[str]) -> str:
    # A bar or a line break in a name or a reason would end the cell.
    clean = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(clean)} |"
