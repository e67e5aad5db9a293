"""What the study of questions says: findings, tables and plots, written from its figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from scenewright.evals.figures import Figure
from scenewright.evals.panel_study.parts.image_page import short
from scenewright.evals.panel_study.shifts import clear, estimate, percent, points
from scenewright.evals.studies.layout import Cell, Column, Layout, Row
from scenewright.evals.studies.plots import COLORS, HATCHES, bars, errors, figure, legend

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

    from scenewright.evals.panel_study.consistency import Consistency
    from scenewright.evals.panel_study.parts.questions import Study

TITLES: dict[str, str] = {
    "paraphrase_1": "other words (1)",
    "paraphrase_2": "other words (2)",
    "order_1": "options in another order (1)",
    "order_2": "options in another order (2)",
    "not": "the complement of a yes/no question",
    "claim": "a choice as a yes/no question",
    "claim_not": "the complement of that",
    "tag": "a claim that asks for agreement",
    "hint_for": "after words that it holds",
    "hint_against": "after words that it does not",
}
"""Form → in words."""


def findings(study: Study) -> tuple[str, ...]:
    """Whole sentences, the most important first."""
    main = study.panels[0] if study.panels else next(iter(study.voters))
    panel = study.voters[main]
    judges = {name: one for name, one in study.voters.items() if name not in study.panels}
    return tuple(
        [
            *_averaging(main, panel, judges, len(study.forms) + 1),
            *_worst(main, panel, judges),
            *_complement(main, panel, judges),
            *_pressure(main, panel, judges),
            *_premise(main, panel, judges, study.made_premises),
        ]
    )


def _ends(judges: Mapping[str, Consistency], of: Callable[[Consistency], Figure]) -> str:
    """The judges with the least and the most, each with its figure; empty if none has one, as where
    each fact was answered by another judge."""
    known = {name: of(one) for name, one in judges.items() if of(one).value is not None}
    order = sorted(known, key=lambda name: known[name].value or 0.0)
    told = [f"{short(name)} {percent(known[name])}" for name in order]
    return f"judges: from {told[0]} to {told[-1]}" if told else ""


def _averaging(
    main: str, panel: Consistency, judges: Mapping[str, Consistency], forms: int
) -> list[str]:
    gain = panel.averaging_gain
    if gain.value is None:
        return []
    better = [name for name, one in judges.items() if clear(one.averaging_gain) > 0]
    worse = [name for name, one in judges.items() if clear(one.averaging_gain) < 0]
    told = {1: "raises", -1: "lowers", 0: "does not clearly change"}[clear(gain)]
    brier = panel.averaging_brier
    error = {1: "rises", -1: "falls", 0: "does not clearly change"}[clear(brier)]
    return [
        f"The mean over up to {forms} forms of one question {told} the panel's ({main}) share of "
        f"right votes ({points(gain)}); its Brier score {error} ({brier.text(4)}). Of the "
        f"{len(judges)} single judges {len(better)} clearly gain and {len(worse)} clearly lose."
    ]  # fmt: skip


def _worst(main: str, panel: Consistency, judges: Mapping[str, Consistency]) -> list[str]:
    if panel.steady.value is None:
        return []
    ends = _ends(judges, lambda one: one.steady)
    sentence = (
        f"The panel ({main}) votes the same in all forms that ask the same for "
        f"{percent(panel.steady)} of the facts{ends and f' ({ends})'}"
    )
    if panel.worst_right.value is not None:
        sentence += (
            f"; {percent(panel.right)} of its plain votes are right, and "
            f"{percent(panel.worst_right)} of the facts are right in every form"
        )
    return [sentence + "."]


def _complement(main: str, panel: Consistency, judges: Mapping[str, Consistency]) -> list[str]:
    if panel.contradictions.value is None:
        return []
    ends = _ends(judges, lambda one: one.contradictions)
    return [
        f"Asked a question and its complement, the panel ({main}) contradicts itself for "
        f"{percent(panel.contradictions)} of the facts ({percent(panel.both_yes)} get two yeses)"
        f"{ends and f'; {ends}'}."
    ]


def _pressure(main: str, panel: Consistency, judges: Mapping[str, Consistency]) -> list[str]:
    if panel.sway.value is None:
        return []
    follow = [short(name) for name, one in judges.items() if clear(one.sway) > 0]
    against = [short(name) for name, one in judges.items() if clear(one.sway) < 0]
    told = {
        1: "follows", -1: "goes against", 0: "does not clearly follow or go against"
    }[clear(panel.sway)]  # fmt: skip
    sentence = (
        f"The panel ({main}) {told} what is said to be the answer: P(fact) differs by "
        f"{points(panel.sway)} between words that it holds and words that it does not, and "
        f"{percent(panel.swayed)} of its votes follow them"
    )
    if follow:
        sentence += f"; judges that clearly follow: {', '.join(follow)}"
    if against:
        sentence += f"; judges that clearly go against: {', '.join(against)}"
    return [sentence + "."]


def _premise(
    main: str, panel: Consistency, judges: Mapping[str, Consistency], made: bool
) -> list[str]:
    if panel.premise_yes.value is None:
        return []
    ends = _ends(judges, lambda one: one.premise_yes)
    what = "things that other pictures were asked about" if made else "things that are absent"
    return [
        f"Of the questions about {what}, {percent(panel.premise_yes)} get a yes from the panel "
        f"({main}){ends and f'; {ends}'}."
    ]


def tables(study: Study) -> tuple[Layout, ...]:
    """By voter: right votes over forms, and consistency; by form for the panel."""
    found = [
        _by_voter(
            study, "questions_forms", "Forms that ask the same; percent and points",
            right="Right, plain", variant_right="Right, mean form", worst_right="Right in all",
            averaged_right="Right, mean of forms", averaging_gain="Gain of the mean",
            steady="Same vote in all",
        ),
        _by_voter(
            study, "questions_consistency", "Complements, false premises, pressure; percent and "
            "points",
            inconsistency="|P(q) + P(not q) − 1|", contradictions="Contradictions",
            both_yes="Two yeses", premise_yes="Yes to false premises", sway="Sway",
            swayed="Swayed votes",
        ),
    ]  # fmt: skip
    main = study.panels[0] if study.panels else next(iter(study.voters))
    forms = [form for form, voter in study.shifts if voter == main]
    if forms:
        names = ("signed", "absolute", "flips", "accuracy")
        titles = ("Mean score", "|Shift| a fact", "Flipped votes", "Right votes, change")
        found.append(
            Layout(
                id="questions_shifts",
                title=f"What each form does to the panel ({main}); percent and points",
                head="Form",
                columns=_columns(dict(zip(names, titles, strict=True))),
                rows=tuple(
                    _row(
                        form,
                        TITLES.get(form, form),
                        [getattr(study.shifts[form, main], name) for name in names],
                    )
                    for form in forms
                ),
                of_paper=False,
            )
        )
    return tuple(found)


def _by_voter(study: Study, key: str, title: str, **columns: str) -> Layout:
    kept = {
        name: head for name, head in columns.items()
        if any(getattr(one, name).value is not None for one in study.voters.values())
    }  # fmt: skip
    return Layout(
        id=key,
        title=title,
        head="Voter",
        columns=_columns(kept),
        rows=tuple(
            _row(voter, voter, [getattr(one, name) for name in kept])
            for voter, one in study.voters.items()
        ),
        of_paper=False,
    )


def _columns(titles: Mapping[str, str]) -> tuple[Column, ...]:
    return tuple(Column(key=key, title=title) for key, title in titles.items())


def _row(key: str, title: str, cells: Sequence[Figure]) -> Row:
    return Row(key=key, title=title, cells=tuple(Cell(measured=estimate(c)) for c in cells))


def plots(study: Study) -> Mapping[str, Callable[[], Plot]]:
    """File stem → what draws it."""
    found: dict[str, Callable[[], Plot]] = {}
    if any(one.steady.value is not None for one in study.voters.values()):
        found["questions_forms"] = partial(_forms, study)
    if _panes(study):
        found["questions_consistency"] = partial(_consistency, study)
    return found


def _forms(study: Study) -> Plot:
    """Right votes of each voter, by form; without truth, how often all forms agree."""
    known = any(one.right.value is not None for one in study.voters.values())
    names = (
        {
            "plain question": "right",
            "mean of all forms": "averaged_right",
            "right in every form": "worst_right",
        }
        if known
        else {"same vote in every form": "steady"}
    )
    series = {
        title: [estimate(getattr(one, name)) for one in study.voters.values()]
        for title, name in names.items()
    }
    made, axes = figure(size=(7.4, 1.6 + 0.55 * len(study.voters)))
    axis = axes[0][0]
    bars(axis, [short(name) for name in study.voters], series, horizontal=True)
    axis.set_xlim(0.0, 100.0)
    axis.set_xlabel("Facts (%)")
    axis.set_title("Right votes" if known else "Agreement of forms")
    legend(made, axis, columns=3)
    found: Plot = made
    return found


def _panes(study: Study) -> dict[str, str]:
    titles = {
        "contradictions": "Contradictions (%)",
        "premise_yes": "Yes to false premises (%)",
        "sway": "Sway by a hint (points)",
    }
    return {
        name: title for name, title in titles.items()
        if any(getattr(one, name).value is not None for one in study.voters.values())
    }  # fmt: skip


def _consistency(study: Study) -> Plot:
    """Contradictions, false premises and sway of each voter, side by side."""
    panes = _panes(study)
    made, axes = figure(
        1, len(panes), size=(3.0 * len(panes) + 1.2, 1.4 + 0.34 * len(study.voters))
    )
    voters = list(study.voters)
    for at, (name, title) in enumerate(panes.items()):
        axis = axes[0][at]
        for place, voter in enumerate(voters):
            found = estimate(getattr(study.voters[voter], name))
            if found.value is None:
                continue
            panel = voter in study.panels
            axis.barh(
                place, found.value, 0.7, color=COLORS[1 if panel else 0],
                hatch=HATCHES[1 if panel else 0], edgecolor="white", linewidth=0.4,
            )  # fmt: skip
            axis.errorbar(
                [found.value], [place], xerr=errors([found]), fmt="none", ecolor="#222222",
                elinewidth=0.9, capsize=2,
            )  # fmt: skip
        axis.axvline(0.0, color="black", linewidth=0.9)
        names = [short(voter) for voter in voters] if at == 0 else [""] * len(voters)
        axis.set_yticks(range(len(voters)), names)
        axis.set_ylim(len(voters) - 0.5, -0.5)
        axis.grid(axis="y", visible=False)
        axis.set_title(title, fontsize=10)
    drawn: Plot = made
    return drawn
