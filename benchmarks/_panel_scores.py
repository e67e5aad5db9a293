"""One score an image from the answers of several judges: the panels, and what else was tried.

Every function gives an array (n_images,) in which more is better, and an image without questions
is below all others, as in the published evaluation. A question that a judge answered with neither
yes nor no is left to the other judges, and one that none answered is left out of the image's score.

What is fitted to human ratings never sees those of the prompts that it scores
(:func:`chosen_by_other_prompts`, :func:`ridge`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from benchmarks._tifa160 import Question, RatedImage, published_score
from scenewright.agents.panel.aggregation import dawid_skene, majority_share, mean_probability
from scenewright.agents.panel.panel import THRESHOLD, Panel
from scenewright.core.facts import Answer, Fact, FactKind, ScoreCard
from scenewright.evals.studies.panel.aggregators.same_question import drawn_to_others
from scenewright.evals.studies.panel.sources.dsg_release import JUDGES, KIND_OF
from scenewright.evals.studies.peers.published import UNASKED

Array = NDArray[np.float64]
FOLDS = 10
KINDS: tuple[FactKind, ...] = ("object", "attribute", "relation")
_RIDGE = 10.0


def stacked(images: Sequence[RatedImage]) -> Array:
    """All answers, (n_facts, n_judges), image after image."""
    return np.concatenate([image.answers for image in images])


def per_image(images: Sequence[RatedImage], values: Array, weights: Array | None = None) -> Array:
    """Mean of each image's ``values`` (n_facts,), by ``weights`` (n_facts,) if given."""
    scores, start = [], 0
    for image in images:
        part = slice(start, start := start + len(image.questions))
        known = ~np.isnan(values[part])
        if not known.any():
            scores.append(UNASKED)
            continue
        share = None if weights is None else weights[part][known]
        scores.append(float(np.average(values[part][known], weights=share)))
    return np.array(scores)


def judge_scores(images: Sequence[RatedImage]) -> dict[str, Array]:
    """Judge → its published score of each image."""
    return {
        judge: np.array([published_score(image, at) for image in images])
        for at, judge in enumerate(JUDGES)
    }


def mean(images: Sequence[RatedImage]) -> Array:
    """Mean over the facts of the mean probability of the judges."""
    return per_image(images, mean_probability(stacked(images)))


def majority(images: Sequence[RatedImage]) -> Array:
    """Share of the facts that more than half of the judges confirm."""
    share = majority_share(stacked(images))
    return per_image(images, np.where(np.isnan(share), np.nan, share > THRESHOLD))


def dawid_skene_posterior(images: Sequence[RatedImage]) -> Array:
    """Mean over the facts of the Dawid–Skene posterior, fitted to all answers at once."""
    return per_image(images, dawid_skene(stacked(images)).probabilities)


def cards(images: Sequence[RatedImage], panel: Panel | None = None) -> list[ScoreCard]:
    """The score card that ``panel`` (default: the project's) gives each image with questions.

    The release has no scene graphs, so a question is a fact without an object of its own.
    """
    panel = panel or Panel()
    found = []
    for image in images:
        facts = [_fact(image.questions, at) for at in range(len(image.questions))]
        if facts:
            given = {
                judge: [_answer(judge, f, v) for f, v in zip(facts, column, strict=True)]
                for judge, column in zip(JUDGES, image.answers.T, strict=True)
            }
            found.append(ScoreCard.of(facts, panel.verdicts(facts, given)))
    return found


def by_card(images: Sequence[RatedImage], read: Callable[[ScoreCard], float | None]) -> Array:
    """``read`` of each image's card by the project's default panel."""
    ready = iter(cards(images))
    values = [read(next(ready)) if image.questions else None for image in images]
    return np.array([UNASKED if value is None else value for value in values])


def tried(images: Sequence[RatedImage], ratings: Array) -> dict[str, Array]:
    """Name → the scores of each attempt to beat the plain mean.

    ``ratings`` (n_images,) are used by ``weighted_judges``, ``weighted_kinds``,
    ``same_question_fitted`` and ``ridge`` alone, and never those of the prompt that is scored.
    """
    answers = stacked(images)
    plain = mean_probability(answers)
    posterior = dawid_skene(answers).probabilities
    asked = np.array([bool(image.questions) for image in images])
    kinds = np.array([KIND_OF[q.category] for image in images for q in image.questions])
    prompts = [image.prompt for image in images]
    judges = judge_scores(images)

    by_kind = np.full(len(answers), np.nan)
    for kind in KINDS:
        by_kind[kinds == kind] = dawid_skene(answers[kinds == kind]).probabilities

    def ranked(values: Array) -> Array:
        return np.where(asked, rankdata(np.round(values, 9)), UNASKED)

    weighted_judges = [
        per_image(images, weighted_mean(answers, np.array(w, float)))
        for w in itertools.product((1, 2, 3, 4), repeat=len(JUDGES))
    ]
    weighted_kinds = [
        per_image(images, plain, sum((w * (kinds == k) for w, k in zip(ws, KINDS, strict=True))))
        for ws in itertools.product((1.0, 2.0, 3.0), repeat=len(KINDS))
    ]
    pulled = [per_image(images, same_question(images, pull)) for pull in (0.0, 0.5, 1.0, 2.0, 4.0)]
    return {
        "unusable_as_no": per_image(images, mean_probability(np.nan_to_num(answers))),
        "mean_of_judges_own_scores": np.mean(list(judges.values()), axis=0),
        "mean_of_judges_ranks": np.mean([ranked(scores) for scores in judges.values()], axis=0),
        "default_yes_no": by_card(images, lambda card: card.fact_recall),
        "geometric_mean": np.where(
            asked, np.exp(per_image(images, np.log(np.maximum(plain, 0.05)))), UNASKED
        ),
        "dawid_skene_by_kind": per_image(images, by_kind),
        "dawid_skene_halfway": per_image(images, (plain + posterior) / 2.0),
        "same_question": pulled[2],
        "same_question_fitted": chosen_by_other_prompts(pulled, ratings, prompts),
        "weighted_judges": chosen_by_other_prompts(weighted_judges, ratings, prompts),
        "weighted_kinds": chosen_by_other_prompts(weighted_kinds, ratings, prompts),
        "ridge": ridge(images, ratings),
    }


def weighted_mean(answers: Array, weights: Array) -> Array:
    """Mean over the judges who answered by ``weights`` (n_judges,), (n_facts,)."""
    there = ~np.isnan(answers)
    total = there @ weights
    summed = np.where(there, answers, 0.0) @ weights
    return np.where(total > 0.0, summed / np.where(total > 0.0, total, 1.0), np.nan)


def same_question(images: Sequence[RatedImage], pull: float) -> Array:
    """The judges' mean drawn towards that of the same question about the prompt's other images.

    ``(n·p + pull·p_others) / (n + pull)`` with the mean p of n answers (n_facts,): an image that
    got a yes to everything is worth less where others fail, since judges say yes too easily.
    It uses no human rating, but it needs several images of one prompt.
    """
    names: dict[tuple[str, int], int] = {}
    numbers = [
        names.setdefault((image.prompt, question.id), len(names))
        for image in images
        for question in image.questions
    ]
    return drawn_to_others(stacked(images), np.array(numbers, np.intp), pull)


def folds_of(prompts: Sequence[str], seed: int = 0) -> NDArray[np.int64]:
    """The fold, 0 to ``FOLDS`` − 1, of each image; images of one prompt share theirs."""
    names = sorted(set(prompts))
    order = np.random.default_rng(seed).permutation(len(names))
    fold = {name: int(place) % FOLDS for name, place in zip(names, order, strict=True)}
    return np.array([fold[prompt] for prompt in prompts])


def chosen_by_other_prompts(
    candidates: Sequence[Array], ratings: Array, prompts: Sequence[str]
) -> Array:
    """For each fold the candidate with the best Spearman correlation on all other folds.

    ``candidates``: scores (n_images,) on one scale; the first of equally good ones is taken.
    """
    folds = folds_of(prompts)
    result = np.empty(len(ratings))
    for fold in np.unique(folds):
        rest = folds != fold
        target = rankdata(ratings[rest])
        fits = [
            float(np.corrcoef(rankdata(np.round(scores[rest], 9)), target)[0, 1])
            for scores in candidates
        ]
        result[~rest] = candidates[int(np.argmax(fits))][~rest]
    return result


def ridge(images: Sequence[RatedImage], ratings: Array) -> Array:
    """How far below full marks ridge regression expects the rating, fitted to other prompts.

    Features: for each judge the share of yes to each kind of question (to all of them where the
    image has none of a kind), standardised, with the penalty ``_RIDGE``. Full marks score 0.
    """
    asked = np.array([bool(image.questions) for image in images])
    folds = folds_of([image.prompt for image in images])
    features = np.array([_features(image) for image in images])
    result = np.empty(len(images))
    for fold in np.unique(folds):
        train, held = asked & (folds != fold), asked & (folds == fold)
        spread = np.maximum(features[train].std(0), 1e-9)
        x = (features[train] - features[train].mean(0)) / spread
        penalty = _RIDGE * np.eye(x.shape[1])
        slope = np.linalg.solve(x.T @ x + penalty, x.T @ (ratings[train] - ratings[train].mean()))
        # Without the intercept: it differs by fold, most where the held-out prompts are unusual,
        # and would order the many images with full marks by their fold.
        result[held] = (features[held] - 1.0) / spread @ slope
    result[~asked] = result[asked].min(initial=0.0) - 1.0
    return result


def _features(image: RatedImage) -> list[float]:
    kinds = np.array([KIND_OF[question.category] for question in image.questions])
    found = []
    for column in image.answers.T:
        known = ~np.isnan(column)
        overall = float(column[known].mean()) if known.any() else 0.5
        for kind in KINDS:
            these = known & (kinds == kind) if len(kinds) else known
            found.append(float(column[these].mean()) if these.any() else overall)
    return found


def _fact(questions: Sequence[Question], at: int) -> Fact:
    question = questions[at]
    return Fact(
        id=f"q:{question.id}",
        kind=KIND_OF[question.category],
        subject=str(question.id),
        parents=tuple(f"q:{questions[parent].id}" for parent in question.parents),
        statement=question.text,
        question=question.text,
    )


def _answer(judge: str, fact: Fact, value: float) -> Answer:
    if np.isnan(value):
        return Answer(
            fact_id=fact.id, judge_id=judge, state="unscored", reason="neither yes nor no"
        )
    choice = "yes" if value else "no"
    return Answer(fact_id=fact.id, judge_id=judge, state=choice, choice=choice, method="binary")
