"""What XTC-Bench's text says of its models, held against models measured here."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scenewright.evals.statistics.estimates import Array, Estimate, rank_correlation
from scenewright.evals.studies.claims import Claim
from scenewright.evals.studies.paper import Printed, xtc_paper
from scenewright.evals.studies.xtc.base import QuestionKind
from scenewright.evals.studies.xtc.study_sheet import Measure, Sheet, spread

ALIKE = 0.05
"""Difference of two spreads that counts as none."""
RELIABLE = 0.9
"""Rank correlation from which one score would reliably predict another."""
_KINDS: tuple[tuple[QuestionKind, str], ...] = (
    ("attribute", "attributes"),
    ("relation", "relations"),
)
_BOTH = "XTC-Bench's nine models"


def claims_of(sheet: Sheet) -> tuple[Claim, ...]:
    """Every statement that numbers can bear on."""
    if sheet.scenes == 0 or not sheet.models:
        return ()
    found = [*_parity(sheet), *_relations(sheet)]
    if len(sheet.models) > 1:
        found += [*_matched(sheet), _hallucination(sheet)]
    if len(sheet.models) > 2:
        found += list(_orders(sheet))
    return tuple(found)


def _parity(sheet: Sheet) -> Iterator[Claim]:
    where = xtc_paper().said("xtc_parity").number
    g, u = (xtc_paper().named(name).column("overall") for name in ("xtc2", "xtc3"))
    gaps = {model: round(u[model] - g[model], 3) for model in g}
    low, high = (min(gaps, key=lambda m: gaps[m]), max(gaps, key=lambda m: gaps[m]))
    printed = tuple(_printed(model, gaps[model]) for model in (low, high))
    for model in sheet.models:
        yield Claim(
            where=where,
            says=f"understanding outpaces generation, {model}",
            side="above",
            measured=sheet.of([sheet.part(model, "v"), sheet.part(model, "u")], _first_less),
            paper=printed,
            unit="",
            digits=3,
        )


def _relations(sheet: Sheet) -> Iterator[Claim]:
    table = xtc_paper().named("xtc2")
    rest, attributes = table.column("relations"), table.column("attributes")
    gaps = {model: round(rest[model] - attributes[model], 3) for model in rest}
    ends = sorted(gaps, key=lambda model: gaps[model])
    seen: set[tuple[bytes, ...]] = set()
    for model in sheet.models:
        parts = [sheet.part(model, "u", kind) for kind in ("relation", "attribute")]
        key = tuple(part.tobytes() for part in parts)
        if key in seen:
            continue  # The same pictures under another judge: one statement, not three.
        seen.add(key)
        yield Claim(
            where=table.number,
            says=f"relations are drawn worse than attributes (every row of the table), {model}",
            side="below",
            measured=sheet.of(parts, _first_less),
            paper=(_printed(ends[0], gaps[ends[0]]), _printed(ends[-1], gaps[ends[-1]])),
            unit="",
            digits=3,
        )


def _matched(sheet: Sheet) -> Iterator[Claim]:
    """Spread over models of all facts less that of facts on matched objects."""
    said = xtc_paper().said("xtc_matched")
    for measure, table, word in (("u", "xtc2", "generation"), ("v", "xtc3", "understanding")):
        for kind, plural in _KINDS:
            printed = xtc_paper().named(table)
            whole, fit = (_range(printed.column(f"{how}{plural}")) for how in ("", "matched_"))
            yield Claim(
                where=said.number,
                says=f"scores of {plural} on matched objects lie closer together over models than "
                f"those of all ({word})"
                if measure == "u"
                else f"scores of {plural} on matched objects lie no closer together over models "
                f"than those of all ({word})",
                side="above" if measure == "u" else "within",
                margin=0.0 if measure == "u" else ALIKE,
                measured=_spreads(sheet, "u" if measure == "u" else "v", kind),
                paper=(_printed("all of them", round(whole - fit, 3)),),
                unit="",
                digits=3,
                note="" if measure == "u" else "The margin is ours: the text names none.",
            )


def _spreads(sheet: Sheet, measure: Measure, kind: QuestionKind) -> Estimate:
    n = len(sheet.models)
    parts = [sheet.part(model, measure, kind) for model in sheet.models]
    parts += [sheet.part(model, measure, kind, matched=True) for model in sheet.models]
    return sheet.of(parts, lambda means: spread(means[:, :n]) - spread(means[:, n:]))


def _hallucination(sheet: Sheet) -> Claim:
    """The weakest model's gap between the two agreements less the strongest model's."""
    said, table = xtc_paper().said("xtc_gap"), xtc_paper().named("xtc4")
    n = len(sheet.models)
    parts = [sheet.part(m, measure) for measure in ("u", "v", "ccta", "aw") for m in sheet.models]

    def statistic(means: Array) -> Array:
        u, v, ccta, aw = (means[:, at * n : (at + 1) * n] for at in range(4))
        height, gap, rows = (u + v) / 2, ccta - aw, np.arange(len(means))
        found: Array = gap[rows, height.argmin(1)] - gap[rows, height.argmax(1)]
        return np.where(np.isnan(means).any(1), np.nan, found)

    g, u = (xtc_paper().named(name).column("overall") for name in ("xtc2", "xtc3"))
    ccta, aw = table.column("ccta"), table.column("aw_ccta")
    by = sorted(ccta, key=lambda model: g[model] + u[model])
    gap = (ccta[by[0]] - aw[by[0]]) - (ccta[by[-1]] - aw[by[-1]])
    return Claim(
        where=said.number,
        says="the gap between CCTA and AW-CCTA is larger for the weakest model than for the "
        "strongest, by the mean of G and U",
        side="above",
        measured=sheet.of(parts, statistic),
        paper=(_printed(f"{by[0]} less {by[-1]}", round(gap, 3)),),
        unit="",
        digits=3,
        note="Each resample finds its own weakest and strongest.",
    )


def _orders(sheet: Sheet) -> Iterator[Claim]:
    said, table = xtc_paper().said("xtc_parity"), xtc_paper().named("xtc4")
    n = len(sheet.models)
    g, u = (xtc_paper().named(name).column("overall") for name in ("xtc2", "xtc3"))
    measures: tuple[tuple[Measure, str, str], ...] = (
        ("ccta", "CCTA", "ccta"),
        ("aw", "AW-CCTA", "aw_ccta"),
    )
    for side, column, letter in (("u", g, "G"), ("v", u, "U")):
        for measure, name, key in measures:
            first: Measure = "u" if side == "u" else "v"
            parts = [sheet.part(m, which) for which in (first, measure) for m in sheet.models]
            yield Claim(
                where=said.number,
                says=f"{letter} alone does not reliably predict {name}: Spearman over models "
                f"less {RELIABLE}",
                side="below",
                measured=sheet.of(
                    parts, lambda means: rank_correlation(means[:, :n], means[:, n:]) - RELIABLE
                ),
                paper=(_printed(_BOTH, _rho(column, table.column(key)) - RELIABLE),),
                unit="",
                digits=3,
                note="The threshold is ours: the text names none.",
            )
    parts = [sheet.part(m, which) for which in ("u", "v", "aw") for m in sheet.models]
    distance = {model: abs(u[model] - g[model]) for model in g}
    yield Claim(
        where=said.number,
        says="models closer to the parity line of G and U have a higher AW-CCTA: Spearman over "
        "models of |U − G| and AW-CCTA",
        side="below",
        measured=sheet.of(
            parts,
            lambda means: rank_correlation(
                np.abs(means[:, n : 2 * n] - means[:, :n]), means[:, 2 * n :]
            ),
        ),
        paper=(_printed(_BOTH, _rho(distance, table.column("aw_ccta"))),),
        unit="",
        digits=3,
    )


def _first_less(means: Array) -> Array:
    return means[:, 0] - means[:, 1]


def _range(column: dict[str, float]) -> float:
    return max(column.values()) - min(column.values())


def _rho(a: dict[str, float], b: dict[str, float]) -> float:
    both = [model for model in a if model in b]
    pair = (np.array([[values[model] for model in both]]) for values in (a, b))
    return float(rank_correlation(*pair)[0])


def _printed(model: str, value: float) -> Printed:
    return Printed(model=model, value=round(value, 3), digits=3)
