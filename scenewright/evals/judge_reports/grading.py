"""Grade judges from their answers to labelled facts, and how stable these are.

An answer is stable if it is the same whatever the order of the options and the words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenewright.agents.panel.answer_arrays import answer_arrays
from scenewright.agents.panel.panel import Panel
from scenewright.config.profiles import CascadeSpec
from scenewright.core.facts import Answer, Fact, FactKind, reported_kinds
from scenewright.core.questions import NO_RELATION
from scenewright.core.version import VERSION
from scenewright.evals.judge_reports.cascade_replay import CascadeReport, replay_cascade
from scenewright.evals.judge_reports.judge_card import (
    Agreement,
    CascadeCard,
    Costs,
    JudgeCard,
    JudgeReport,
    Latency,
    Pair,
    PanelCard,
    Places,
    Quality,
    Silence,
    Stability,
    right_answer,
)
from scenewright.evals.judge_reports.judge_runs import Form, JudgeRun, keeps_last
from scenewright.evals.judge_reports.labelled_facts import ABSENT, LabelledFact
from scenewright.evals.statistics.figures import Array, Bootstrap, Figure

_SCORED = ("yes", "no")


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two forms of one question."""

    at: int
    """Number of the fact."""
    same: bool
    """Whether the choice is the same."""
    shift: float
    """|Difference| of the probabilities; NaN without them."""


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What was chosen of one question whose options stood in every place."""

    picture: int
    """Number of the picture."""
    places: list[int]
    """Place of each choice among the options that moved."""


class AnswerStability:
    """Figures of one judge from the variants of its interview."""

    def __init__(
        self,
        judge_run: JudgeRun,
        facts: Sequence[LabelledFact],
        pictures: NDArray[np.intp],
        bootstrap: Bootstrap,
    ) -> None:
        """``pictures``: number of each fact's picture, (n_facts,)."""
        self._interview = judge_run
        self._facts = facts
        self._pictures = pictures
        self._bootstrap = bootstrap

    def order(self) -> dict[str, Stability]:
        """Of all pairs of orders of one question; empty if none were asked."""
        found = self._by(
            self._all_pairs("order"), lambda fact: "yes/no" if fact.is_binary else "choice"
        )
        turned = self._all_pairs("turn")
        return found | ({"turned": self._stability(turned)} if turned else {})

    def paraphrase(self) -> dict[str, Stability]:
        """Of all pairs of wordings of one question; empty if none were asked."""
        return self._by(self._all_pairs("paraphrase"), lambda fact: fact.kind)

    def claims_absent(self) -> Figure:
        """Share of choices about absent things other than "no visible relationship"."""
        found = [
            (self._pictures[at], float(answers[0].choice != NO_RELATION))
            for at, (labelled, answers) in enumerate(
                zip(self._facts, self._interview.answers, strict=True)
            )
            if labelled.group == ABSENT
            and NO_RELATION in labelled.fact.options
            and answers[0].state in _SCORED
            and answers[0].choice is not None
        ]
        return self._bootstrap.share([at for at, _ in found], [claim for _, claim in found])

    def places(self) -> tuple[Places, ...]:
        """Position bias, for each number of options that stood in every place."""
        found: list[Places] = []
        for kept, form in ((True, "order"), (False, "turn")):
            by_size: dict[int, list[_Chosen]] = {}
            for at, labelled in enumerate(self._facts):
                fact = labelled.fact
                if fact.is_binary or (kept and not keeps_last(fact)):
                    continue
                turned: Form = "turn" if form == "turn" and keeps_last(fact) else "order"
                size = len(fact.options) - kept
                chosen = self._chosen(at, turned, size)
                if chosen is not None:
                    by_size.setdefault(size, []).append(chosen)
            found += [self._places(size, kept, by_size[size]) for size in sorted(by_size)]
        return tuple(found)

    def _chosen(self, at: int, form: Form, size: int) -> _Chosen | None:
        """Places of what was chosen in each turn; None unless all turns have an answer."""
        places: list[int] = []
        rows = zip(self._interview.variants[at], self._interview.answers[at], strict=True)
        for variant, answer in rows:
            # The plain order is one of the turns.
            if variant.form not in ("plain", form):
                continue
            if answer.state not in _SCORED or answer.choice is None:
                # With a turn lost the options would no longer stand in each place equally often.
                return None
            places.append(variant.fact.options.index(answer.choice))
        if len(places) != size:
            return None
        return _Chosen(int(self._pictures[at]), [place for place in places if place < size])

    def _places(self, size: int, kept: bool, facts: Sequence[_Chosen]) -> Places:
        pictures = [fact.picture for fact in facts for _ in fact.places]
        chosen = np.array([place for fact in facts for place in fact.places], np.intp)
        share = self._bootstrap.share
        counts = np.bincount(chosen, minlength=size)
        return Places(
            options=size,
            last_kept=kept,
            facts=len(facts),
            choices=len(chosen),
            shares=tuple(share(pictures, chosen == place) for place in range(size)),
            first_bias=share(pictures, chosen == 0, 1.0 / size),
            last_bias=share(pictures, chosen == size - 1, 1.0 / size),
            p_value=_chi_square_p(counts),
        )

    def _all_pairs(self, form: Form) -> list[_Pair]:
        return [pair for at in range(len(self._facts)) for pair in self._pairs(at, form)]

    def _pairs(self, at: int, form: Form) -> Iterator[_Pair]:
        # The plain form of a yes/no question says no order, so it is no member of that pair.
        with_plain = form != "order" or not self._facts[at].fact.is_binary
        forms = (form, "plain") if with_plain else (form,)
        rows = zip(self._interview.variants[at], self._interview.answers[at], strict=True)
        kept = [answer for variant, answer in rows if variant.form in forms]
        usable = [answer for answer in kept if answer.state in _SCORED]
        for a, b in combinations(usable, 2):
            shift = np.nan
            if a.probability is not None and b.probability is not None:
                shift = abs(a.probability - b.probability)
            yield _Pair(at, _choice(a) == _choice(b), shift)

    def _by(self, pairs: Sequence[_Pair], group: Callable[[Fact], str]) -> dict[str, Stability]:
        if not pairs:
            return {}
        parts: dict[str, list[_Pair]] = {}
        for pair in pairs:
            parts.setdefault(group(self._facts[pair.at].fact), []).append(pair)
        return {"all": self._stability(pairs)} | {
            name: self._stability(part) for name, part in parts.items()
        }

    def _stability(self, pairs: Sequence[_Pair]) -> Stability:
        at = self._pictures[[pair.at for pair in pairs]]
        shift = np.array([pair.shift for pair in pairs])
        known = ~np.isnan(shift)
        return Stability(
            same=self._bootstrap.share(at, [pair.same for pair in pairs]),
            shift=self._bootstrap.share(at[known], shift[known]),
        )


def _choice(answer: Answer) -> str:
    return answer.choice if answer.choice is not None else answer.state


def _chi_square_p(counts: NDArray[np.intp]) -> float | None:
    """P of Pearson's χ² of ``counts`` against equal ones."""
    # Imported here: scipy takes long to load.
    from scipy.special import chdtrc

    expected = counts.sum() / len(counts)
    if not expected:
        return None
    return float(chdtrc(len(counts) - 1, ((counts - expected) ** 2 / expected).sum()))


_REASONS = 8
_REASON_LENGTH = 160


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

    def qualities(
        self, votes: Array, said: Array | None
    ) -> tuple[Quality, dict[FactKind, Quality]]:
        """Of all facts, and of each kind that occurs; arrays as in :meth:`quality`."""
        every = np.ones(len(self.facts), bool)
        told = reported_kinds(self.kinds.tolist())
        present: list[FactKind] = [k for k in told if (self.kinds == k).any()]
        by_kind = {kind: self.quality(votes, said, self.kinds == kind) for kind in present}
        return self.quality(votes, said, every), by_kind

    def quality(self, votes: Array, said: Array | None, mask: NDArray[np.bool_]) -> Quality:
        """Return figures of ``votes`` (n_facts,).

        1 yes, 0 no, NaN unscored; and of the probabilities ``said`` (n_facts,), NaN where there is
        none.
        """
        rows = mask & ~np.isnan(votes)
        truth, yes, at = self.truth[rows], votes[rows], self.pictures[rows]
        true, false, absent = truth == 1.0, truth == 0.0, self.absent[rows]
        boot = self.bootstrap
        nothing = Figure(value=None)
        brier = ece = nothing
        if said is not None:
            known = rows & ~np.isnan(said)
            where, given, labels = self.pictures[known], said[known], self.truth[known]
            brier = boot.share(where, (given - labels) ** 2)
            ece = boot.calibration_error(where, given, labels)
        return Quality(
            n=int(rows.sum()),
            holds=int(true.sum()),
            yes_rate=boot.share(at, yes),
            sensitivity=boot.share(at[true], yes[true]),
            specificity=boot.share(at[false], 1.0 - yes[false]),
            balanced_accuracy=boot.balanced(at, yes == truth, truth),
            false_premise=boot.share(at[absent], yes[absent]),
            brier=brier,
            ece=ece,
        )

    def report(
        self, judge_runs: Sequence[JudgeRun], about: str, cascade: CascadeSpec | None = None
    ) -> JudgeReport:
        """Return the report of these judges; the same answers give the same report.

        Raises ``FactError`` for a ``cascade`` that does not fit them.
        """
        votes = np.column_stack([votes_of([row[0] for row in i.answers]) for i in judge_runs])
        said = np.column_stack([said_of([row[0] for row in i.answers]) for i in judge_runs])
        panel = agreement = None
        if len(judge_runs) > 1:
            verdicts, mean = self._pooled(judge_runs)
            whole, kinds = self.qualities(verdicts, mean)
            panel = PanelCard(quality=whole, kinds=kinds)
            agreement = self._agreement([i.judge_id for i in judge_runs], votes)
        cards = tuple(self._card(i, votes[:, at], said[:, at]) for at, i in enumerate(judge_runs))
        return JudgeReport(
            version=VERSION,
            about=about,
            pictures=self.n_pictures,
            facts=len(self.facts),
            holds=int(self.truth.sum()),
            groups=dict(sorted(Counter(f.group for f in self.facts if f.group).items())),
            kinds={
                kind: int((self.kinds == kind).sum())
                for kind in reported_kinds(self.kinds.tolist())
            },
            seed=self.seed,
            cards=cards,
            panel=panel,
            agreement=agreement,
            cascade=None if cascade is None else self._cascade(judge_runs, cascade),
            answer=right_answer({c.judge_id: c.quality for c in cards}, self.n_pictures),
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

    def _cascade(self, judge_runs: Sequence[JudgeRun], spec: CascadeSpec) -> CascadeCard:
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
        return CascadeCard(
            first=spec.first,
            rest=tuple(i.judge_id for i in judge_runs if i.judge_id not in spec.first),
            unsure=spec.unsure,
            saved=found.saved,
            agreement=found.agreement(),
            kappa=found.kappa(),
        )

    def _agreement(self, judges: Sequence[str], votes: Array) -> Agreement:
        pairs = []
        for a, b in combinations(range(len(judges)), 2):
            both = ~np.isnan(votes[:, [a, b]]).any(1)
            kappa = self.bootstrap.kappa(self.pictures[both], votes[both, a], votes[both, b])
            pairs.append(Pair(a=judges[a], b=judges[b], kappa=kappa))
        return Agreement(pairs=tuple(pairs), alpha=self.bootstrap.alpha(self.pictures, votes))

    def _card(self, judge_run: JudgeRun, votes: Array, said: Array) -> JudgeCard:
        plain = [row[0] for row in judge_run.answers]
        scored = [answer for answer in plain if answer.state in ("yes", "no")]
        methods = Counter(a.method or "none" for a in scored)
        gives = bool((~np.isnan(said)).any())
        whole, kinds = self.qualities(votes, said if gives else None)
        steady = AnswerStability(judge_run, self.facts, self.pictures, self.bootstrap)
        return JudgeCard(
            judge_id=judge_run.judge_id,
            fingerprint=judge_run.fingerprint,
            probability=judge_run.caps.probability,
            methods=dict(sorted(methods.items())),
            notes=tuple(_notes(judge_run, scored, gives)),
            quality=whole,
            kinds=kinds,
            order=steady.order(),
            paraphrase=steady.paraphrase(),
            claims_absent=steady.claims_absent(),
            places=steady.places(),
            silence=_silence(judge_run),
            costs=_costs(judge_run, self.n_pictures),
            latency=_latency(judge_run),
        )


def votes_of(answers: Sequence[Answer]) -> Array:
    """1 for yes, 0 for no, NaN for unscored; (n_facts,)."""
    return np.array([{"yes": 1.0, "no": 0.0}.get(a.state, np.nan) for a in answers])


def said_of(answers: Sequence[Answer]) -> Array:
    """Probabilities that the fact holds, NaN where there is none; (n_facts,)."""
    return np.array([np.nan if a.probability is None else a.probability for a in answers])


def _notes(judge_run: JudgeRun, scored: Sequence[Answer], gives: bool) -> list[str]:
    notes = []
    if not scored:
        notes.append("gave no usable answer at all")
    elif not gives:
        notes.append("gives no probability: no Brier score and no calibration error")
    elif any(answer.probability is None for answer in scored):
        bare = sum(answer.probability is None for answer in scored)
        notes.append(
            f"gave no probability for {bare} of {len(scored)} answers: Brier score and "
            "calibration error are of the others"
        )
    if len({answer.method for answer in scored if answer.method}) > 1:
        notes.append("its probabilities were obtained in several ways, which are not comparable")
    if judge_run.recorded:
        notes.append("answers from a record: neither other orders nor other words were asked")
    if judge_run.mixture:
        notes.append(judge_run.mixture)
    return notes


def _silence(judge_run: JudgeRun) -> Silence:
    plain = [row[0] for row in judge_run.answers]
    others = [answer for row in judge_run.answers for answer in row[1:]]
    reasons = Counter(
        answer.reason[:_REASON_LENGTH]
        for answer in (*plain, *others)
        if answer.state not in ("yes", "no")
    )
    kept = dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:_REASONS])
    rest = sum(reasons.values()) - sum(kept.values())
    if rest:
        kept["other reasons"] = rest
    return Silence(
        asked=len(plain),
        unscored=sum(a.state not in ("yes", "no") for a in plain),
        variants_asked=len(others),
        variants_unscored=sum(a.state not in ("yes", "no") for a in others),
        reasons=kept,
    )


def _costs(judge_run: JudgeRun, n_pictures: int) -> Costs:
    plain = [row[0] for row in judge_run.answers]
    every = [answer for row in judge_run.answers for answer in row]
    spent: dict[str, Any] = {
        "tokens_in": sum(a.tokens_in for a in plain),
        "tokens_out": sum(a.tokens_out for a in plain),
        "usd": sum(a.usd for a in plain),
    }
    return Costs(
        calls=len(judge_run.calls),
        questions=len(every),
        tokens_in=sum(a.tokens_in for a in every),
        tokens_out=sum(a.tokens_out for a in every),
        tokens_cached=sum(a.tokens_cached for a in every),
        usd=sum(a.usd for a in every),
        **{f"fact_{name}": value / len(plain) for name, value in spent.items()},
        **{f"picture_{name}": value / n_pictures for name, value in spent.items()},
    )


def _latency(judge_run: JudgeRun) -> Latency:
    timed = [call for call in judge_run.calls if call.seconds > 0.0]
    if not timed:
        return Latency(calls=0, questions_per_call=None, median=None, p95=None, per_fact=None)
    seconds = [call.seconds for call in timed]
    questions = sum(call.questions for call in timed)
    return Latency(
        calls=len(timed),
        questions_per_call=questions / len(timed),
        median=float(np.median(seconds)),
        p95=float(np.quantile(seconds, 0.95)),
        per_fact=sum(seconds) / questions,
    )
