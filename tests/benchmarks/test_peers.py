"""The benchmark of the peers' metrics: its counts on a made-up table, and TIFA's sample."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from benchmarks._harness import DATA
from benchmarks.peers import main as command
from benchmarks.peers import measure, metric_scores, remarks, sample
from scenewright.evals.studies.panel.sources.dsg_release import JUDGES, QUESTIONS
from scenewright.evals.studies.panel.table import AnswerTable, FactRow, ImageRow, JudgeColumn

NAN = float("nan")
TIFA = DATA / "tifa"


def made_up(seed: int = 3) -> AnswerTable:
    """Images of 20 prompts whose rating follows their quality, as noisy judges see it."""
    rng = np.random.default_rng(seed)
    images: list[ImageRow] = []
    facts: list[FactRow] = []
    said: list[np.ndarray] = []
    for at in range(60):
        quality = rng.random()
        images.append(ImageRow(str(at), str(at // 3), str(at % 3), None, (1 + 4 * quality,)))
        start = len(facts)
        for n in range(4):
            facts.append(FactRow(str(n), at, parents=(start,) if n else ()))
            said.append((rng.random(3) < 0.2 + 0.8 * quality).astype(float))
    return AnswerTable(
        "made up", tuple(map(JudgeColumn, JUDGES)), tuple(images), tuple(facts), np.array(said)
    )


def test_the_metrics_leave_out_what_is_unscored() -> None:
    table = AnswerTable(
        "t",
        tuple(map(JudgeColumn, JUDGES)),
        (ImageRow("a", "p"), ImageRow("b", "p")),
        (FactRow("1", 0), FactRow("2", 0, parents=(0,))),
        np.array([[0, 1, NAN], [1, NAN, NAN]]),
    )
    tifa, dsg = (metric_scores(questions, table) for questions in ("tifa", "dsg"))
    np.testing.assert_array_equal(tifa["mplug"], [0.5, NAN])
    np.testing.assert_array_equal(dsg["mplug"], [0.0, NAN])
    np.testing.assert_array_equal(dsg["instructblip"], [1.0, NAN])
    np.testing.assert_array_equal(dsg["pali17b"], [NAN, NAN])
    # The mean of the first question is 1/2, which does not confirm it: the second is void.
    np.testing.assert_array_equal(dsg["mean"], [0.25, NAN])
    np.testing.assert_array_equal(tifa["mean"], [0.75, NAN])


def test_all_figures_come_out() -> None:
    tables = {questions: made_up() for questions in QUESTIONS}
    figures = measure(tables, 20)
    for questions in QUESTIONS:
        for judge in JUDGES:
            key = f"spearman.{questions}.{judge}"
            found = figures[key]
            assert found["low"] <= found["mean"] <= found["high"]
            assert figures[f"off.{key}"] == found["mean"] - figures[f"published.{key}"]
    assert figures["n.dsg.mean"] == 60
    assert figures["metric.tifa.mean"]["mean"] > 0.5
    assert len(remarks(figures)) == 1 + len(JUDGES)


@pytest.mark.skipif(
    not (TIFA / "sample_evaluation_result.json").is_file(),
    reason="TIFA's sample is not beside the repository",
)
def test_tifas_sample_has_the_published_results() -> None:
    figures = asyncio.run(sample(TIFA))
    assert figures["sample.same"] == figures["sample.questions"] == 19
    assert figures["sample.average"] == figures["sample.published_average"] == 0.8125
    types = {k.rpartition(".")[2]: v for k, v in figures.items() if k.startswith("sample.type.")}
    assert len(types) == 6
    for name, value in types.items():
        assert value == pytest.approx(figures[f"sample.published_type.{name}"])


def test_the_command_refuses_a_folder_without_the_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        command(["--quick", "--data", str(tmp_path)])
    assert stopped.value.code == 1
    assert "tifa160-likert-anns.csv cannot be read" in capsys.readouterr().err
