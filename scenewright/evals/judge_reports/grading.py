"""Report cards of judges from their answers to labelled facts.

They tell accuracy, stability (the same answer whatever the order of the options and the words),
position bias, agreement, cost and speed. The same answers give the same report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from scenewright.agents.panel.answer_arrays import answer_arrays
from scenewright.agents.panel.panel import Panel
from scenewright.config.profiles import CascadeSpec
from scenewright.core.facts import Answer, reported_kinds
from scenewright.core.questions import NO_RELATION
from scenewright.core.version import VERSION
from scenewright.evals.judge_reports.cascade_replay import CascadeReport, replay_cascade
from scenewright.evals.judge_reports.judge_runs import Form, JudgeRun, keeps_last
from scenewright.evals.judge_reports.labelled_facts import ABSENT, LabelledFact
from scenewright.evals.reporting.measured import Cell, MeasuredReport, MeasuredTable
from scenewright.evals.statistics.agreement import alpha, cohen
from scenewright.evals.statistics.answers import highest_answer
from scenewright.evals.statistics.figures import Array, Bootstrap, Figure

_SCORED = ("yes", "no")
_REASONS = 8
_REASON_LENGTH = 160
TOGETHER = "all together (mean)"
"""Name of the panel of all judges."""
Row = dict[str, Cell]


class JudgeReport(MeasuredReport):
    """Report cards of several judges on the same facts."""

    version: str
    """Of scenewright."""
    judges: dict[str, dict[str, str]]
    """Id, ``provider:model`` → fingerprint, and how it says that it obtains probabilities."""
    pictures: int = Field(ge=1)
    facts: int = Field(ge=1)
    holds: int = Field(ge=0)
    """Facts that hold."""
    groups: dict[str, int]
    """Facts of each group."""
    kinds: dict[str, int]
    """Facts of each kind."""

    def summary(self) -> str:
        """Summarise the questions asked in a sentence."""
        groups = ", ".join(f"{n} {name}" for name, n in self.groups.items())
        return (
            f"{len(self.judges)} judges, {self.facts} facts of {self.pictures} pictures: "
            f"{self.about}{f' ({groups})' if groups else ''}."
        )


class AnswerStability:
    """Figures of one judge from the variants of its questions."""

    def __init__(self, run: JudgeRun, grading: Grading) -> None:
        self._run = run
        self._facts = grading.facts
        self._pictures = grading.pictures
        self._share = grading.bootstrap.share

    def rows(self) -> Iterator[Row]:
        """Yield the stability of pairs of orders and of pairs of wordings, all and by group."""
        for form, words in (("order", "order"), ("turn", "turned"), ("paraphrase", "words")):
            pairs = [
                (at, *pair) for at in range(len(self._facts)) for pair in self._pairs(at, form)
            ]
            groups: dict[str, list[tuple[int, bool, float]]] = {}
            for pair in pairs:
                fact = self._facts[pair[0]].fact
                if form == "order":
                    groups.setdefault("yes/no" if fact.is_binary else "choice", []).append(pair)
                elif form == "paraphrase":
                    groups.setdefault(fact.kind, []).append(pair)
            for name, some in {"": pairs, **groups}.items() if pairs else ():
                at, same, shift = zip(*some, strict=True)
                pictures = self._pictures[list(at)]
                yield {
                    "judge": f"{self._run.judge_id} {words} {name}".rstrip(),
                    "same": self._share(pictures, same),
                    "shift": self._share(pictures, shift),
                }

    def _pairs(self, at: int, form: str) -> Iterator[tuple[bool, float]]:
        """Yield for two forms of one question if the choice is the same, and |difference| of P.

        The difference is NaN without probabilities.
        """
        # The plain form of a yes/no question says no order, so it is no member of that pair.
        with_plain = form != "order" or not self._facts[at].fact.is_binary
        forms = (form, "plain") if with_plain else (form,)
        rows = zip(self._run.variants[at], self._run.answers[at], strict=True)
        usable = [a for variant, a in rows if variant.form in forms and a.state in _SCORED]
        for a, b in combinations(usable, 2):
            known = a.probability is not None and b.probability is not None
            shift = abs((a.probability or 0.0) - (b.probability or 0.0)) if known else np.nan
            yield (a.choice or a.state) == (b.choice or b.state), shift

    def claims_absent(self) -> Figure:
        """Share of choices about absent things other than "no visible relationship"."""
        claims = [
            (at, answers[0].choice != NO_RELATION)
            for at, (labelled, answers) in enumerate(
                zip(self._facts, self._run.answers, strict=True)
            )
            if labelled.group == ABSENT
            and NO_RELATION in labelled.fact.options
            and answers[0].state in _SCORED
            and answers[0].choice is not None
        ]
        return self._share(self._pictures[[at for at, _ in claims]], [claim for _, claim in claims])

    def positions(self) -> Iterator[Row]:
        """Yield the position bias, for each number of options that stood in every place."""
        for kept, form in ((True, "order"), (False, "turn")):
            by_size: dict[int, list[tuple[int, list[int]]]] = {}
            for at, labelled in enumerate(self._facts):
                fact = labelled.fact
                if fact.is_binary or (kept and not keeps_last(fact)):
                    continue
                turned: Form = "turn" if form == "turn" and keeps_last(fact) else "order"
                size = len(fact.options) - kept
                places = self._chosen(at, turned, size)
                if places is not None:
                    by_size.setdefault(size, []).append((at, places))
            for size, found in sorted(by_size.items()):
                yield self._bias(size, kept, found)

    def _chosen(self, at: int, form: Form, size: int) -> list[int] | None:
        """Places of what was chosen in each turn; None unless all turns have an answer."""
        places: list[int] = []
        for variant, answer in zip(self._run.variants[at], self._run.answers[at], strict=True):
            # The plain order is one of the turns.
            if variant.form not in ("plain", form):
                continue
            if answer.state not in _SCORED or answer.choice is None:
                # With a turn lost the options would no longer stand in each place equally often.
                return None
            places.append(variant.fact.options.index(answer.choice))
        return [place for place in places if place < size] if len(places) == size else None

    def _bias(self, size: int, kept: bool, found: Sequence[tuple[int, list[int]]]) -> Row:
        # Imported here: scipy takes long to load.
        from scipy.stats import chisquare

        pictures = self._pictures[[at for at, places in found for _ in places]]
        chosen = np.array([place for _, places in found for place in places], np.intp)
        shares = [self._share(pictures, chosen == place) for place in range(size)]
        counts = np.bincount(chosen, minlength=size)
        return {
            "judge": f"{self._run.judge_id} {size}{' + none last' if kept else ''}",
            "facts": len(found),
            "choices": len(chosen),
            "first": self._share(pictures, chosen == 0, 1.0 / size),
            "last": self._share(pictures, chosen == size - 1, 1.0 / size),
            "p": float(chisquare(counts).pvalue) if len(chosen) else None,
            **{f"place {place}": share for place, share in enumerate(shares, start=1)},
        }


class Grading:
    """Labelled facts as arrays, and the figures of votes on them."""

    def __init__(self, facts: Sequence[LabelledFact], seed: int = 0) -> None:
        """``seed`` of the bootstrap's resamples. Raises ``ValueError`` without facts."""
        if not facts:
            raise ValueError("no labelled facts: nothing can be measured")
        numbers: dict[str, int] = {}
        self.facts = tuple(facts)
        self.seed = seed
        self.pictures: NDArray[np.intp] = np.array(
            [numbers.setdefault(f.picture.name, len(numbers)) for f in facts]
        )
        self.truth: Array = np.array([float(f.holds) for f in facts])
        self.kinds = np.array([f.fact.kind for f in facts])
        self.absent: NDArray[np.bool_] = np.array(
            [f.group == ABSENT and not f.holds for f in facts]
        )
        self.n_pictures = len(numbers)
        self.bootstrap = Bootstrap(self.n_pictures, seed)

    def qualities(self, name: str, votes: Array, said: Array) -> list[Row]:
        """Return rows of all facts, and of each kind where there are several.

        ``votes`` and ``said`` as in :meth:`quality`.
        """
        every = np.ones(len(self.facts), bool)
        told = reported_kinds(self.kinds.tolist())
        present = [kind for kind in told if (self.kinds == kind).any()]
        rows: list[Row] = [{"judge": name, **self.quality(votes, said, every)}]
        for kind in present if len(present) > 1 else ():
            row = self.quality(votes, said, self.kinds == kind)
            rows.append({"judge": f"{name} {kind}", **row})
        return rows

    def quality(self, votes: Array, said: Array, mask: NDArray[np.bool_]) -> Row:
        """Return figures of ``votes`` (n_facts,).

        1 yes, 0 no, NaN unscored; and of the probabilities ``said`` (n_facts,), NaN where there is
        none.
        """
        rows = mask & ~np.isnan(votes)
        truth, yes, at = self.truth[rows], votes[rows], self.pictures[rows]
        true, false, absent = truth == 1.0, truth == 0.0, self.absent[rows]
        boot = self.bootstrap
        brier = ece = Figure(value=None)
        if not np.isnan(said).all():
            known = rows & ~np.isnan(said)
            where, given, labels = self.pictures[known], said[known], self.truth[known]
            brier = boot.share(where, (given - labels) ** 2)
            ece = boot.calibration_error(where, given, labels)
        return {
            "facts": int(rows.sum()),
            "holds": int(true.sum()),
            "yes": boot.share(at, yes),
            "sensitivity": boot.share(at[true], yes[true]),
            "specificity": boot.share(at[false], 1.0 - yes[false]),
            "balanced": boot.balanced(at, yes == truth, truth),
            "false_premise": boot.share(at[absent], yes[absent]),
            "brier": brier,
            "ece": ece,
        }

    def report(
        self, judge_runs: Sequence[JudgeRun], about: str, cascade: CascadeSpec | None = None
    ) -> JudgeReport:
        """Return the report of these judges.

        Raises ``FactError`` for a ``cascade`` that does not fit them.
        """
        ids = tuple(run.judge_id for run in judge_runs)
        plain = [[row[0] for row in run.answers] for run in judge_runs]
        votes = np.column_stack([votes_of(answers) for answers in plain])
        said = np.column_stack([said_of(answers) for answers in plain])
        found = [self.qualities(*each) for each in zip(ids, votes.T, said.T, strict=True)]
        alike: list[Row] = []
        if len(ids) > 1:
            found.append(self.qualities(TOGETHER, *self._pooled(judge_runs)))
            for a, b in combinations(range(len(ids)), 2):
                kappa = cohen(self.bootstrap, self.pictures, votes[:, a], votes[:, b])
                alike.append({"judges": f"{ids[a]} and {ids[b]}", "kappa": kappa})
            all_alike = alpha(self.bootstrap, self.pictures, votes, "nominal")
            alike.append({"judges": "all (Krippendorff's α)", "kappa": all_alike})
        steady = [AnswerStability(run, self) for run in judge_runs]
        places = [row for one in steady for row in one.positions()]
        most = max(places, key=len, default={})
        tables = {
            "quality": MeasuredTable(
                title="How right",
                caption=f"{self.truth.mean():.2f} of the facts hold, which is the right rate of "
                "yes. Balanced: mean of sensitivity and specificity, 0.5 is guessing. False "
                "premise: how often yes was said of a thing that is not in the picture. Brier: "
                "mean squared error of the probabilities; ECE: expected calibration error in 10 "
                "bins.",
                rows=tuple(rows[0] for rows in found),
                heads=_QUALITY,
            ),
            "kinds": MeasuredTable(
                title="By kind of fact",
                rows=tuple(row for rows in found for row in rows[1:]),
                heads=_QUALITY,
            ),
            "stability": MeasuredTable(
                title="How steady",
                caption="Pairs of forms of one question: share with the same choice, and mean "
                'difference |ΔP| of the probabilities. yes/no: "Yes or no?" against "No or yes?"; '
                'choice: options in another order; turned: "no visible relationship" in another '
                "place too, where runs never put it; words: paraphrases.",
                rows=tuple(row for one in steady for row in one.rows()),
                heads={"shift": "|ΔP|"},
            ),
            "positions": MeasuredTable(
                title="Position bias",
                caption="Every option stood in every place equally often; a judge that goes by "
                "what it sees chooses each place equally often. First and last: share of that "
                'place minus the even share. "+ none last": "no visible relationship" was kept '
                "last, as in runs, and choices of it are left out. p: of Pearson's χ² against "
                "equal shares.",
                rows=tuple({name: row.get(name) for name in most} for row in places),
                digits=2,
            ),
            "alike": MeasuredTable(
                title="How alike",
                caption="1: the same votes; 0: as by chance.",
                rows=tuple(alike),
                heads={"kappa": "Cohen's κ"},
            ),
            "unscored": MeasuredTable(
                title="Unscored, and absent things",
                caption="Questions without a usable answer, as they are and in other orders and "
                "words. Claims: share of choices about absent things that claim any relation.",
                rows=tuple(
                    _silence(run) | {"claims": one.claims_absent()}
                    for run, one in zip(judge_runs, steady, strict=True)
                ),
            ),
            "tokens": MeasuredTable(
                title="Tokens",
                caption="Of a fact and of a picture: of questions put as they are. In all: also of "
                "the variants, and of earlier, interrupted reports.",
                rows=tuple(_tokens(run, self.n_pictures) for run in judge_runs),
                digits=0,
            ),
            "dollars": MeasuredTable(
                title="US dollars",
                caption="As for tokens.",
                rows=tuple(_dollars(run, self.n_pictures) for run in judge_runs),
                digits=6,
            ),
            "latency": MeasuredTable(
                title="Seconds",
                caption="Of a call: median, and what 95 % stay within, by the clock of the judge "
                "(waiting in line is not counted).",
                rows=tuple(map(_latency, judge_runs)),
            ),
            "cascade": self._cascade(judge_runs, cascade),
            "remarks": MeasuredTable(
                title="Remarks",
                rows=tuple(
                    {"judge": run.judge_id, "remark": remark}
                    for run in judge_runs
                    for remark in _remarks(run)
                ),
            ),
        }
        balanced = zip(ids, tables["quality"].figures("balanced"), strict=False)
        answer = highest_answer(
            dict(balanced), "balanced accuracy", noun="judge", n=self.n_pictures, unit="picture"
        )
        kinds = self.kinds.tolist()
        return JudgeReport(
            version=VERSION,
            about=about,
            judges={
                run.judge_id: {"fingerprint": run.fingerprint, "probability": run.caps.probability}
                for run in judge_runs
            },
            pictures=self.n_pictures,
            facts=len(self.facts),
            holds=int(self.truth.sum()),
            groups=dict(sorted(Counter(f.group for f in self.facts if f.group).items())),
            kinds={kind: kinds.count(kind) for kind in reported_kinds(kinds)},
            seed=self.seed,
            answers=(answer,),
            tables=tables,
        )

    def _pooled(self, judge_runs: Sequence[JudgeRun]) -> tuple[Array, Array]:
        """Return verdicts (1 yes, 0 no) and probabilities by the mean of all judges, (n_facts,).

        NaN where nobody answered.
        """
        table = {
            i.judge_id: {str(at): row[0] for at, row in enumerate(i.answers)} for i in judge_runs
        }
        # Pictures may share the ids of their facts: here a fact is named by its row.
        facts = [f.fact.model_copy(update={"id": str(at)}) for at, f in enumerate(self.facts)]
        pooled = Panel().pool(answer_arrays(facts, table))
        silent = np.isnan(pooled.probabilities)
        return np.where(silent, np.nan, pooled.holds.astype(float)), pooled.probabilities

    def _cascade(self, judge_runs: Sequence[JudgeRun], spec: CascadeSpec | None) -> MeasuredTable:
        """Return what a cascade saves; every fact counts as asked, also of absent things."""
        if spec is None:
            return MeasuredTable(title="Cascade", rows=())
        members: dict[int, list[int]] = {}
        for at, picture in enumerate(self.pictures.tolist()):
            members.setdefault(picture, []).append(at)
        replays = (
            replay_cascade(
                [self.facts[at].fact for at in rows],
                {i.judge_id: [i.answers[at][0] for at in rows] for i in judge_runs},
                spec,
                Panel(),
            )
            for rows in members.values()
        )
        found = sum(replays, CascadeReport())
        rest = [run.judge_id for run in judge_runs if run.judge_id not in spec.first]
        shares = {f"{name} saved": share for name, share in found.saved.items()}
        shares["same verdict as the full panel"] = found.agreement()
        shares["Cohen's κ with the full panel"] = found.kappa()
        low, high = spec.unsure
        return MeasuredTable(
            title="Cascade",
            caption=f"First {', '.join(spec.first)}; where their probability lies from {low:g} to "
            f"{high:g}, also {', '.join(rest)}.",
            rows=tuple({"measure": name, "share": share} for name, share in shares.items()),
        )


_QUALITY = {"false_premise": "false prem.", "brier": "Brier", "ece": "ECE"}


def votes_of(answers: Sequence[Answer]) -> Array:
    """1 for yes, 0 for no, NaN for unscored; (n_facts,)."""
    return np.array([{"yes": 1.0, "no": 0.0}.get(a.state, np.nan) for a in answers])


def said_of(answers: Sequence[Answer]) -> Array:
    """Probabilities that the fact holds, NaN where there is none; (n_facts,)."""
    return np.array([np.nan if a.probability is None else a.probability for a in answers])


def _remarks(run: JudgeRun) -> Iterator[str]:
    """Yield what could not be measured, and why."""
    scored = [row[0] for row in run.answers if row[0].state in _SCORED]
    bare = sum(answer.probability is None for answer in scored)
    for method, n in sorted(Counter(a.method or "none" for a in scored).items()):
        yield f"{n} answers: {'no probability' if method == 'none' else f'probability by {method}'}"
    if not scored:
        yield "gave no usable answer at all"
    elif bare == len(scored):
        yield "gives no probability: no Brier score and no calibration error"
    elif bare:
        yield (
            f"gave no probability for {bare} of {len(scored)} answers: Brier score and "
            "calibration error are of the others"
        )
    if len({answer.method for answer in scored if answer.method}) > 1:
        yield "its probabilities were obtained in several ways, which are not comparable"
    if run.recorded:
        yield "answers from a record: neither other orders nor other words were asked"
    if run.mixture:
        yield run.mixture
    every = (answer for row in run.answers for answer in row)
    reasons = Counter(a.reason[:_REASON_LENGTH] for a in every if a.state not in _SCORED)
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    for reason, n in ordered[:_REASONS]:
        yield f"unscored, {n}: {reason}"
    if rest := sum(n for _, n in ordered[_REASONS:]):
        yield f"unscored, {rest}: other reasons"


def _silence(run: JudgeRun) -> Row:
    lost = [[answer.state not in _SCORED for answer in row] for row in run.answers]
    unscored = sum(row[0] for row in lost)
    return {
        "judge": run.judge_id,
        "asked": len(lost),
        "unscored": unscored,
        "share": unscored / len(lost) if lost else None,
        "variants_asked": sum(len(row) - 1 for row in lost),
        "variants_unscored": sum(sum(row[1:]) for row in lost),
    }


def _tokens(run: JudgeRun, n_pictures: int) -> Row:
    every = [answer for row in run.answers for answer in row]
    found: Row = {
        "judge": run.judge_id,
        "calls": len(run.calls),
        "questions": len(every),
        "tokens_in": sum(a.tokens_in for a in every),
        "tokens_out": sum(a.tokens_out for a in every),
        "tokens_cached": sum(a.tokens_cached for a in every),
    }
    for name in ("tokens_in", "tokens_out"):
        found |= _each(run, name, n_pictures)
    return found


def _dollars(run: JudgeRun, n_pictures: int) -> Row:
    usd = sum(answer.usd for row in run.answers for answer in row)
    return {"judge": run.judge_id, "usd": float(usd), **_each(run, "usd", n_pictures)}


def _each(run: JudgeRun, name: str, n_pictures: int) -> Row:
    """Return what a fact and a picture took, of questions put as they are."""
    spent = sum(getattr(row[0], name) for row in run.answers)
    return {f"fact_{name}": spent / len(run.answers), f"picture_{name}": spent / n_pictures}


def _latency(run: JudgeRun) -> Row:
    timed = [call for call in run.calls if call.seconds > 0.0]
    seconds = [call.seconds for call in timed]
    questions = sum(call.questions for call in timed)
    return {
        "judge": run.judge_id,
        "calls": len(timed),
        "questions_per_call": questions / len(timed) if timed else None,
        "median": float(np.median(seconds)) if timed else None,
        "p95": float(np.quantile(seconds, 0.95)) if timed else None,
        "per_fact": sum(seconds) / questions if timed else None,
    }
