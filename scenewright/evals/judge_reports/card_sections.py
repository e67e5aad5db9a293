"""A judge report as tables of words, for whoever shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from scenewright.evals.judge_reports.judge_card import JudgeCard, JudgeReport, Quality, Stability
from scenewright.evals.statistics.figures import Figure

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
    """The tables of ``report``; those without anything to show are left out."""
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


def markdown(report: JudgeReport, cell: Callable[[Figure], str] = Figure.text) -> str:
    """The report as a page of Markdown."""
    lines = [
        "# Report card of judges",
        "",
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
    """What was asked, in a sentence."""
    groups = ", ".join(f"{n} {name}" for name, n in report.groups.items())
    return (
        f"{len(report.cards)} judges, {report.facts} facts of {report.pictures} pictures: "
        f"{report.about}{f' ({groups})' if groups else ''}."
    )


def _line(cells: Iterable[str]) -> str:
    # A bar or a line break in a name or a reason would end the cell.
    clean = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(clean)} |"
