"""What the study of a panel's composition found, in sentences."""

from __future__ import annotations

from scenewright.evals.studies.panel.metric_evaluator import MEASURES
from scenewright.evals.studies.panel.parts.composition_result import PRICES, Composition
from scenewright.evals.studies.panel.wording import (
    difference,
    joined,
    ordinal,
    percent,
    plain,
    side,
)


def findings(found: Composition) -> list[str]:
    """Whole sentences, the most important first."""
    about = MEASURES[found.measure]
    n = len(found.everyone)
    full = found.figure(found.everyone)
    said = [
        f"All {n} judges together ({found.names[0]}) reach {about.phrase} of {plain(full)}"
        + _against_one(found)
    ]
    gains = [size for size in found.sizes[found.names[0]] if size.gain is not None]
    if gains:
        steps = [
            f"the {ordinal(g.size)}{' judge adds' if g is gains[0] else ''} {difference(g.gain)}"
            for g in gains
            if g.gain
        ]
        sentence = f"Averaged over the panels of each size, {joined(steps)}"
        last = max((g.size for g in gains if g.gain and side(g.gain) > 0), default=None)
        if last is None:
            sentence += "; no step is clearly a gain"
        elif last < gains[-1].size:
            sentence += f"; after the {ordinal(last)} no step is clearly a gain"
        said.append(sentence + ".")
    said += _leaving_out(found)
    if found.as_good is not None and about.quality:
        members, gap = found.as_good
        saved = 1.0 - found.prices[members] / found.prices[found.everyone]
        good = "clearly better than" if side(gap) > 0 else "as good as"
        within = "" if side(gap) > 0 else f", to within {found.margin:g}"
        said.append(
            f"{found.named(members)} alone {'is' if len(members) == 1 else 'are'} {good} all "
            f"{n}{within} ({difference(gap)}), for {percent(saved)} fewer {PRICES[found.price]}."
        )
    elif about.quality:
        said.append(
            f"No cheaper panel is shown to be within {found.margin:g} of the full one: these data "
            "do not tell which judge could be spared."
        )
    said += _together(found)
    return said


def _against_one(found: Composition) -> str:
    singles = found.sizes[found.names[0]][:1]
    if not singles or singles[0].size != 1 or found.over_best is None:
        return "."
    text = f"; one judge alone reaches {plain(singles[0].mean)} on average"
    best, gap = found.over_best
    if not MEASURES[found.measure].quality:
        return text + "."
    told = {1: "clearly better", -1: "clearly worse", 0: "not clearly better or worse"}[side(gap)]
    return (
        f"{text}. The panel is {told} than {found.named(best)}, the best single judge "
        f"({difference(gap)})."
    )


def _leaving_out(found: Composition) -> list[str]:
    adds = found.adds[found.names[0]]
    if len(adds) < 2 or not MEASURES[found.measure].quality:
        return []

    def told(way: int) -> list[str]:
        order = sorted(range(len(adds)), key=lambda at: -way * (adds[at].value or 0.0))
        return [
            f"{found.short[at]} ({difference(adds[at])})" for at in order if side(adds[at]) == way
        ]

    needed, harmful = told(1), told(-1)
    parts = []
    if needed:
        parts.append(f"the panel is clearly better with {joined(needed)} than without")
    if harmful:
        subject = "" if needed else "the panel is "
        parts.append(f"{subject}clearly better without {joined(harmful)} than with")
    rest = len(adds) - len(needed) - len(harmful)
    if rest:
        which = "any one of them" if rest == len(adds) else f"any one of the other {rest}"
        which = "the remaining one" if rest == 1 else which
        parts.append(f"leaving out {which} makes no clear difference")
    return [f"With all the others there, {'; '.join(parts)}."]


def _together(found: Composition) -> list[str]:
    said = []
    what = "errors given the truth" if found.pairs_are_errors else "votes (κ; the truth is unknown)"
    if found.all_pairs is not None and found.all_pairs.value is not None:
        sentence = f"The {what} of two judges correlate at {plain(found.all_pairs, 2)} on average"
        known = found.families is not None and found.families.value is not None
        if known and found.families and found.within and found.between:
            told = {1: "clearly more", -1: "clearly less", 0: "not clearly more or less"}
            sentence += (
                f": {plain(found.within, 2)} within a family and {plain(found.between, 2)} between "
                f"two, so {told[side(found.families)]} within ({difference(found.families, 2)})"
            )
        said.append(sentence + ".")
    gain = found.family_gain
    if gain is not None and gain.value is not None and MEASURES[found.measure].quality:
        told = {1: "clearly more", -1: "clearly less", 0: "neither clearly more nor clearly less"}
        said.append(
            f"A pair of two families gains {told[side(gain)]} over its members than a pair of one "
            f"family does ({difference(gain)} in {MEASURES[found.measure].title})."
        )
    return said


def notes(found: Composition) -> list[str]:
    """What must be known to read them."""
    about = MEASURES[found.measure]
    told = [
        f"Quality is the {about.title}. Intervals are 95 %, by drawing items; the judges stay the "
        "same, so they do not tell how other judges would do. Differences are paired on the same "
        "resamples, and no interval is corrected for how many are shown.",
        "The best and the worst panel of a size are chosen on the items that they are measured on, "
        "which flatters the one and wrongs the other, and so is the best single judge. “Chosen on "
        "other items” is the best of a random half measured on the other half, the mean over "
        "halvings; it has no interval.",
        "Facts that no judge of a panel answered are left out of its figure; the records tell what "
        "share was scored. By other measures than this one, only single judges and the full panel "
        "have intervals there.",
    ]
    if not about.quality:
        told.insert(0, _no_quality(found))
    if found.shapley:
        told.append(
            "The Shapley value is what a judge adds, averaged over all orders in which the panel "
            f"may be put together. They add up to the full panel's figure less {about.chance:g}, "
            "which guessing reaches."
        )
    if found.pairs_are_errors:
        told.append(
            "The correlation of errors is φ of two judges' wrong votes, pooled over facts that "
            "hold and facts that do not: 0 where they err independently given the truth."
        )
    if found.within is None:
        told.append(
            "No two judges are of one family, as far as the table says: name families to compare "
            "pairs within and between."
        )
    elif found.family_gain is not None:
        told.append(
            "Pairs within families and between are compared by what the pair gains over the mean "
            "of its two members alone, since the judges of one family may be better than others."
        )
    if not found.complete:
        told.append(
            f"{len(found.panels)} of {2 ** len(found.everyone) - 1} panels were measured: all "
            "single judges, the full panel and those that lack one judge, and a sample of the "
            "other sizes. There are no Shapley values without all of them; raise `most`."
        )
    if "seconds" in found.costs:
        told.append("A panel's seconds are those of its slowest judge, as all are asked at once.")
    return [*found.notes, *told]


def _no_quality(found: Composition) -> str:
    text = (
        "Neither truth nor ratings are known, so nothing here is quality: panels are held against "
        "the full panel, which agrees with itself by definition"
    )
    full = found.reliability.get(found.everyone)
    if full is not None and full.value is not None:
        text += (
            f". The mean split-half reliability of all judges' image scores (Cronbach's α) is "
            f"{plain(full, 2)}: how far judges agree, right or wrong"
        )
    return text + "."
