"""What the study of quorum, abstention and cascades found, in sentences."""

from __future__ import annotations

from scenewright.evals.statistics.estimates import number
from scenewright.evals.studies.panel.metric_evaluator import MEASURES
from scenewright.evals.studies.panel.parts.frontier_result import Frontier
from scenewright.evals.studies.panel.wording import (
    difference,
    estimate,
    percent,
    plain,
    short_names,
    side,
)

SHOWN = (0.95, 0.9, 0.8)
"""Coverages that tables show."""
_WORDS = {"calls": "calls", "answers": "answers", "tokens": "tokens", "usd": "dollars"}


def findings(found: Frontier) -> tuple[str, ...]:
    """Whole sentences, the most important first."""
    return (*_cascades(found), *_abstention(found), *_quorum(found))


def _cascades(found: Frontier) -> list[str]:
    cascades = found.cascades
    said = []
    what = _WORDS[cascades.cost]
    if cascades.chosen is not None:
        chosen, (one, other) = cascades.chosen
        saved = chosen.saved[cascades.cost]
        shown = estimate(saved).times(100.0).text(0)
        same = found.named(one) == found.named(other)
        which = (
            f"“{found.named(one)}” on both halves"
            if same
            else f"“{found.named(one)}” and “{found.named(other)}”"
        )
        loss = {1: "a clear gain", -1: "a clear loss", 0: "no clear change"}[side(chosen.gap)]
        said.append(
            f"The cheapest way that gives up at most {found.margin:g} on one half of the items, "
            f"used on the other half ({which}), saves {shown} % of the {what} of the full panel, "
            f"with {loss} of {_quality(found)} ({difference(chosen.gap)})."
        )
    front = cascades.fronts[cascades.cost]
    of = [plan for plan in front if plan.others]
    n_cascades = sum(bool(plan.others) for plan in cascades.points)
    if n_cascades:
        lie = "none lies" if not of else f"{len(of)} {'lies' if len(of) == 1 else 'lie'}"
        said.append(
            f"Of {n_cascades} cascades and {len(cascades.points) - n_cascades} panels, "
            f"{len(front)} make{'s' * (len(front) == 1)} up the Pareto frontier of "
            f"{_quality(found)} and {what}; of the cascades {lie} on it"
            " by the point estimates."
        )
    return said


def _quality(found: Frontier) -> str:
    about = MEASURES[found.measure]
    return about.title if about.quality else "agreement with the full panel"


def _abstention(found: Frontier) -> list[str]:
    if not found.abstaining:
        return _bounds(found)
    panel = found.abstaining[0]
    at = SHOWN[1]
    gain = panel.gains[at]
    moves = {1: "rises to", -1: "falls to", 0: "does not clearly change:"}[side(gain)]
    said = [
        f"Where the panel ({panel.voter}) keeps silent about the tenth of the facts that it is "
        f"least sure of, its accuracy {moves} {plain(panel.at[at])} from {plain(panel.accuracy)} "
        f"({difference(gain)}); on the surest {percent(SHOWN[2])} it is "
        f"{plain(panel.at[SHOWN[2]])}."
    ]
    ids = found.table.judge_ids
    judges = [one for one in found.abstaining if one.kind == "judge" and one.area.value is not None]
    if judges and panel.area.value is not None:
        best = min(judges, key=lambda one: one.area.value or 0.0)
        name = short_names(ids)[ids.index(best.voter)]
        told = {1: "clearly above", -1: "clearly below", 0: "not clearly apart from"}
        said.append(
            f"The area under the panel's risk–coverage curve is {plain(panel.area, 4)}; that of "
            f"{name}, the best single judge by it, is {told[side(best.more_area)]} that "
            f"({difference(best.more_area, 4)})."
        )
    spread = next((one for one in found.abstaining if one.kind == "spread"), None)
    if spread is not None and spread.more_area.value is not None:
        worse = {1: "clearly worse than", -1: "clearly better than", 0: "not clearly other than"}
        said.append(
            f"To keep silent where the judges differ most is {worse[side(spread.more_area)]} to "
            f"keep silent where their joint probability is near ½ "
            f"({difference(spread.more_area, 4)} in area, less is better)."
        )
    return said


def _bounds(found: Frontier) -> list[str]:
    """Without truth: what leaving out unsure facts does to the images' scores."""
    if not MEASURES[found.measure].quality:
        return []
    rules = [rule for rule in found.rules if rule.kind == "threshold" and rule.coverage.value]
    cut = [r for r in rules if (r.coverage.value or 1.0) < 1.0 and r.gain.value is not None]
    if not cut:
        return ["The panel is never so unsure that one of the bounds makes it abstain."]
    # The one that costs about a tenth of the facts, as where there is truth.
    rule = min(cut, key=lambda r: abs((r.coverage.value or 0.0) - SHOWN[1]))
    bound = rule.bound or 0.0
    told = {1: "clearly raises", -1: "clearly lowers", 0: "does not clearly change"}
    return [
        f"Leaving out the {percent(1.0 - (rule.coverage.value or 0.0), 1)} of the facts whose "
        f"probability lies within {number(bound, 2)}–{number(1.0 - bound, 2)} "
        f"{told[side(rule.gain)]} the {MEASURES[found.measure].title} ({difference(rule.gain)})."
    ]


def _quorum(found: Frontier) -> list[str]:
    said = []
    n = len(found.table.judges)
    at = n // 2 + 1
    real = MEASURES[found.measure].quality
    for missing in sorted({one.missing for one in found.quorums}):
        by = {one.quorum: one for one in found.quorums if one.missing == missing}
        most, one = by[at], by[1]
        if missing == 0.0 or most.scored.value is None or one.scored.value is None:
            continue
        told = {1: "a clear gain", -1: "a clear loss", 0: "no clear change"}[side(most.gain)]
        said.append(
            f"With {percent(missing)} of the answers missing at random, a quorum of {at} of {n} "
            f"leaves {percent(most.scored.value, 1)} of the facts with a verdict (a quorum of 1 "
            f"{percent(one.scored.value, 1)}, one of {n} {percent(by[n].scored.value or 0.0, 1)})"
            + (
                f", with {told} of {_quality(found)} on them ({difference(most.gain)})."
                if real
                else "."
            )
        )
    return said[-1:]


def notes(found: Frontier) -> tuple[str, ...]:
    """What must be known to read them."""
    cascades = found.cascades
    told = [
        f"Quality is the {MEASURES[found.measure].title}. Intervals are 95 %, by drawing items; "
        "differences are paired on the same resamples.",
        "A call is one judge asked about one image in one wave (objects, then what depends on "
        "them). Facts under a parent that the panel finds absent are not asked, cost nothing, and "
        "count as not holding. Tokens are each answer's share of the call it came from: a call "
        "with fewer facts still shows the whole image, so the saving of tokens and dollars lies "
        "between those of calls and of answers.",
        "Quality on the frontier is measured on the items that the frontier was found on, which "
        "flatters it. The finding about the cheapest way does not: each half of the items is "
        "measured with what was chosen on the other half.",
        "With abstention quality is that of the verdicts that remain; facts without a verdict are "
        "left out, of images' scores too. Facts that a voter is equally sure of come in random "
        "order, and figures are means over these orders.",
        f"Answers are taken away at random, each for itself; {percent(found.observed_missing, 1)} "
        "of the answers are missing from the table as it is. Judges that fail on the same facts "
        "leave more facts without a quorum.",
    ]
    if not MEASURES[found.measure].quality:
        told.insert(
            0,
            "Neither truth nor ratings are known, so nothing here is quality: verdicts are held "
            "against those of the full panel.",
        )
    if not found.abstaining:
        told.append("Curves of accuracy over coverage need facts of known truth.")
    if not found.complete:
        told.append(
            f"{len(cascades.points)} panels and cascades were walked, not all: raise `most` for "
            "more of those that leave judges out."
        )
    if found.names[0] not in ("mean", "majority", "calibrated"):
        told.append(
            f"{found.names[0]} learns from all answers of the table at once, a run from those of "
            "one image: its cascades would differ in a run."
        )
    return (*found.notes, *told)
