"""TIFA, DSG and VQ2A from their released answers, against what is published.

``python -m benchmarks.peers [--quick] [--data FOLDER]``. Two releases are read where they lie: that
of DSG (three judges' answers about 800 rated images) and the sample of TIFA (three images with
published results), which is looked for beside it.

- ``spearman.QUESTIONS.JUDGE``, ``kendall.…`` (tau-b): a judge's score by those questions, counted
  as in the published evaluation, against the mean rating; ``published.…`` is the figure of the
  paper and ``off.…`` the difference to it.
- ``metric.QUESTIONS.VOTER``: Spearman of this package's metrics ``tifa`` and ``dsg`` on the same
  answers: an unscored answer is left out, questions under a void one are void too, and voters are
  the judges and the aggregators over all three. ``n.…``: the images that have such a score.
- ``gain.…``: differences of Spearman on the same resamples, counted as published, and
  ``metric_gain.…`` as the metrics count.
- ``empty.QUESTIONS.JUDGE``: share of the answers that cannot be used.
- ``sample.…``: TIFA's sample through the metric ``tifa``, its released choices replayed:
  ``same`` of ``questions`` have the published result; ``average`` and ``type.NAME`` are to be
  compared with ``published_average`` and ``published_type.NAME``.

Intervals are 95% percentile intervals; whole prompts are drawn, since images of one prompt share
its questions.
"""

from __future__ import annotations

import asyncio
import csv
import json
import tempfile
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._harness import benchmark, figure, folder, release
from benchmarks._published import PUBLISHED, published_scores
from benchmarks.human_agreement import correlations
from scenewright.agents.panel.aggregation import Array
from scenewright.core.facts import Fact
from scenewright.core.images import hash_of_image, load_image
from scenewright.evals.datasets import prompt_sets as tifa_set
from scenewright.evals.metrics.base import Sample
from scenewright.evals.metrics.registry import metric_of
from scenewright.evals.statistics.figures import summary
from scenewright.evals.statistics.ranks import kendall, spearman
from scenewright.evals.studies.panel.aggregators.registry import combined_by
from scenewright.evals.studies.panel.resampling import ItemResamples
from scenewright.evals.studies.panel.sources.dsg_release import (
    JUDGES,
    QUESTIONS,
    Questions,
    load_dsg_release,
)
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError
from scenewright.evals.studies.peers.panel_metric import UNLABELLED
from scenewright.evals.studies.peers.question_metrics import QuestionMetric, dsg_score, tifa_score

RESAMPLES = 1000
QUICK_RESAMPLES = 50
SAMPLE = "sample_question_answers.json"
RESULT = "sample_evaluation_result.json"

Tables = Mapping[Questions, AnswerTable]


def metric_scores(questions: Questions, table: AnswerTable) -> dict[str, Array]:
    """Voter → score of each image (n_images,) by the package's own metric; NaN without one."""
    voters = dict(zip(table.judge_ids, table.said.T, strict=True))
    voters |= combined_by(UNLABELLED, table)
    rows: list[list[int]] = [[] for _ in table.images]
    for row, fact in enumerate(table.facts):
        rows[fact.image].append(row)
    asked = [_facts(table, mine) for mine in rows]
    found = {}
    for voter, likely in voters.items():
        scores = [
            dsg_score(facts, likely[mine]) if questions == "dsg" else tifa_score(likely[mine])
            for facts, mine in zip(asked, rows, strict=True)
        ]
        found[voter] = np.array([np.nan if one is None else one for one in scores])
    return found


def _facts(table: AnswerTable, rows: Sequence[int]) -> tuple[Fact, ...]:
    return tuple(
        Fact(
            id=fact.id,
            kind=fact.kind,
            subject="picture",
            parents=tuple(table.facts[parent].id for parent in fact.parents),
            statement=fact.question,
            question=fact.question,
        )
        for fact in (table.facts[row] for row in rows)
    )


def measure(tables: Tables, resamples: int) -> dict[str, Any]:
    """Return all figures of the DSG release."""
    figures: dict[str, Any] = {}
    drawn: dict[str, Array] = {}
    for questions, table in tables.items():
        draws = ItemResamples(table, resamples)
        published = {judge: published_scores(table, at) for at, judge in enumerate(JUDGES)}
        for name, correlation in {"spearman": spearman, "kendall": kendall}.items():
            for judge, values in correlations(table, published, draws, correlation).items():
                key = f"{name}.{questions}.{judge}"
                drawn[key] = values
                figures[f"published.{key}"] = PUBLISHED[questions][name][judge]
                figures[f"off.{key}"] = values[0] - PUBLISHED[questions][name][judge]
        for at, judge in enumerate(JUDGES):
            figures[f"empty.{questions}.{judge}"] = float(np.isnan(table.said[:, at]).mean())
        if questions == "vq2a":
            continue
        scores = metric_scores(questions, table)
        for voter, values in correlations(table, scores, draws, spearman).items():
            drawn[f"metric.{questions}.{voter}"] = values
            figures[f"n.{questions}.{voter}"] = int((~np.isnan(scores[voter])).sum())
    figures["off.largest"] = max(
        abs(value) for key, value in figures.items() if key.startswith("off.")
    )
    for kind, counted in {"gain": "spearman", "metric_gain": "metric"}.items():
        for judge in JUDGES:
            one, other = (drawn[f"{counted}.{questions}.{judge}"] for questions in ("dsg", "tifa"))
            drawn[f"{kind}.dsg_over_tifa.{judge}"] = one - other
    for key, values in drawn.items():
        figures[key] = figure(summary(float(values[0]), values[1:], resamples))
    return figures | {"resamples": resamples}


async def sample(folder: Path) -> dict[str, Any]:
    """TIFA's sample through the metric, against its published result."""
    published = json.loads((folder / RESULT).read_text("utf-8"))
    details: dict[str, dict[str, Any]] = published["question_details"]
    items = [
        item for item in tifa_set.load_tifa(folder, parse="none", questions=SAMPLE) if item.facts
    ]
    with tempfile.TemporaryDirectory() as made:
        record = Path(made) / "choices.csv"
        with record.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("image", "question", "answer"))
            for item_id, questions in details.items():
                for question, detail in questions.items():
                    # The set's loader begins questions with a capital.
                    words = question[:1].upper() + question[1:]
                    place = (folder / f"{item_id}.jpg").resolve()
                    writer.writerow((place, words, detail["multiple_choice_vqa"]))
        options = {"judges": f"replay:{record}", "questions": "item", "folder": made}
        metric = metric_of("tifa", options)
        assert isinstance(metric, QuestionMetric)
        return await _compared(metric, folder, items, published)


async def _compared(
    metric: QuestionMetric, folder: Path, items: Sequence[Any], published: Mapping[str, Any]
) -> dict[str, Any]:
    same = questions = 0
    averages: list[float] = []
    types: dict[str, list[float]] = {}
    for item in items:
        picture = load_image(folder / f"{item.id}.jpg")
        shown = Sample(item, item.prompt, hash_of_image(picture), lambda picture=picture: picture)
        scored = await metric.score(shown)
        if scored.value is None:
            raise PanelStudyError(f"{item.id} has no score: {scored.reason}")
        averages.append(scored.value)
        facts, answers = await metric.answered(shown)
        (given,) = answers.values()
        known = {q.casefold(): d for q, d in published["question_details"][item.id].items()}
        for fact, answer in zip(facts, given, strict=True):
            detail = known[fact.question.casefold()]
            questions += 1
            same += answer.state == ("yes" if detail["scores"] else "no")
            types.setdefault(str(fact.key), []).append(float(answer.state == "yes"))
    figures: dict[str, Any] = {
        "sample.images": len(items),
        "sample.questions": questions,
        "sample.same": same,
        "sample.average": float(np.mean(averages)),
        "sample.published_average": published["tifa_average"],
    }
    for name, values in sorted(types.items()):
        figures[f"sample.type.{name}"] = float(np.mean(values))
        figures[f"sample.published_type.{name}"] = float(published["accuracy_by_type"][name])
    return figures


def remarks(figures: Mapping[str, Any]) -> list[str]:
    """Return what the figures say, in sentences."""
    lines = [
        f"Recomputed from the released answers: at most {figures['off.largest']:.4f} off the 18 "
        "published correlations."
    ]
    for judge in JUDGES:
        gain = figures[f"gain.dsg_over_tifa.{judge}"]
        clear = "more than" if gain["low"] > 0 else "not clearly different from"
        clear = "less than" if gain["high"] < 0 else clear
        fair = figures[f"metric_gain.dsg_over_tifa.{judge}"]
        lines.append(
            f"With {judge} DSG's questions agree with people {clear} TIFA's: {gain['mean']:+.3f} "
            f"[{gain['low']:+.3f}, {gain['high']:+.3f}]; without unusable answers "
            f"({figures[f'empty.tifa.{judge}']:.0%} of TIFA's) {fair['mean']:+.3f} "
            f"[{fair['low']:+.3f}, {fair['high']:+.3f}]."
        )
    if "sample.same" in figures:
        lines.append(
            f"TIFA's sample: {figures['sample.same']} of {figures['sample.questions']} questions "
            f"have the published result; average {figures['sample.average']} against "
            f"{figures['sample.published_average']}."
        )
    return lines


@benchmark(
    f"{QUICK_RESAMPLES} resamples, not {RESAMPLES}",
    refused=(PanelStudyError,),
    data=folder("folder of the DSG release, if not beside the repository"),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure the DSG release, and TIFA's sample beside it."""
    place = release(options, "dsg")
    tables = {questions: load_dsg_release(place, questions) for questions in QUESTIONS}
    figures = measure(tables, QUICK_RESAMPLES if options.quick else RESAMPLES)
    beside = place.parent / "tifa"
    if (beside / RESULT).is_file():
        figures |= asyncio.run(sample(beside))
    else:
        print(f"TIFA's sample is not in {beside}: left out")
    print(*remarks(figures), sep="\n")
    return len(tables["dsg"].images), figures


if __name__ == "__main__":
    main()
