"""Published scores put together from a small table, worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scenewright.evals.errors import EvalError
from scenewright.evals.recipes.benchmark_scores import BenchmarkScores, benchmark_scores, ratio
from scenewright.evals.store.results import SCHEMAS, Results, arm_name

ARMS = ("prompt", "loop", "best_of_n")
Values = Mapping[tuple[str, str], float | None]
"""(metric or metric|part, item) → value, the same in every arm but for what ``shift`` adds."""


def evaluation(
    folder: Path,
    recipe: str,
    items: Mapping[str, tuple[str, str]],
    values: Values,
    shift: Mapping[str, float] | None = None,
) -> BenchmarkScores:
    folder.mkdir()
    scores, rounds = [], []
    for arm in ARMS:
        base = {"arm": arm_name("m", arm, 0), "backend": "m", "condition": arm, "seed": 0}
        for at, item in enumerate(items):
            for number in range(1 if arm == "prompt" else 1 + at):
                rounds.append(base | {
                    "item": item, "round": number, "kept": number == 0, "state": "done",
                    "image": f"{item}{'' if number == 0 and arm != 'prompt' else arm}{number}",
                    "reference_image": "", "images_drawn": int(number > 0 or arm != "best_of_n"),
                    "work": 0.0 if number == 0 and arm == "best_of_n" else 20.0,
                })  # fmt: skip
        for (name, item), value in values.items():
            metric, _, part = name.partition("|")
            moved = None if value is None else value + (shift or {}).get(arm, 0.0)
            scores.append(base | {
                "item": item, "metric": metric, "part": part, "scope": "", "round": 0,
                "value": value if part.startswith("answered") else moved,
                "reason": "will not say" if value is None else "", "unscored": 0, "n": 1,
            })  # fmt: skip
    listed = [{"item": name, "group": g, "category": c} for name, (g, c) in items.items()]
    for table, rows in {"scores": scores, "rounds": rounds, "items": listed}.items():
        pq.write_table(pa.Table.from_pylist(rows, SCHEMAS[table]), folder / f"{table}.parquet")
    manifest = {"name": "made", "config": {"recipe": recipe}}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return benchmark_scores(Results(folder))


def cell(found: BenchmarkScores, title: str, arm: str = "m/prompt") -> float | None:
    at = [column.key for column in found.table.columns].index(arm)
    row = next(row for row in found.table.rows if row.title == title)
    measured = row.cells[at].measured
    return None if measured is None else measured.value


def test_wise_weighs_its_fields(tmp_path: Path) -> None:
    fields = ("culture", "culture", "time", "space", "biology", "physics", "chemistry")
    items = {str(at): (name, "") for at, name in enumerate(fields)}
    marks = (1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0)
    values = {("wise", str(at)): mark for at, mark in enumerate(marks)}
    found = evaluation(tmp_path / "a", "wise", items, values)
    # 0.4 · ½ + 0.12 · (1 + 0 + 1 + 1 + 0).
    assert cell(found, "WISE_Verified") == pytest.approx(0.56)
    assert cell(found, "WISE_Verified: culture") == 0.5
    legacy = evaluation(tmp_path / "b", "wise-legacy", items, values)
    # 0.4 · ½ + 0.167 · 1 + 0.133 · 0 + 0.1 · (1 + 1 + 0).
    assert cell(legacy, "WiScore") == pytest.approx(0.567)
    lost = evaluation(tmp_path / "c", "wise", items, values | {("wise", "2"): None})
    assert cell(lost, "WISE_Verified") is None
    assert any("1 of 7 pictures unscored by wise (will not say: 1)" in s for s in lost.unscored)


def test_genai_bench_counts_prompts_with_skills_alone(tmp_path: Path) -> None:
    items = {"a": ("basic", "attribute, basic"), "b": ("advanced", "attribute, advanced"),
             "c": ("", "")}  # fmt: skip
    values = {("vqascore", "a"): 0.9, ("vqascore", "b"): 0.5, ("vqascore", "c"): 0.1}
    found = evaluation(tmp_path / "a", "genai-bench", items, values)
    assert cell(found, "VQAScore") == pytest.approx(0.7)
    assert cell(found, "VQAScore: attribute") == pytest.approx(0.7)
    assert cell(found, "VQAScore: basic") == pytest.approx(0.9)


def test_geneval2_pools_questions_by_skill_and_means_prompts(tmp_path: Path) -> None:
    items = {"a": ("3 atoms", ""), "b": ("2 atoms", "")}
    values = {
        ("soft_tifa|gm", "a"): 0.2, ("soft_tifa|gm", "b"): 0.6,
        ("soft_tifa|am", "a"): 0.4, ("soft_tifa|am", "b"): 0.6,
        ("soft_tifa|type:count", "a"): 0.9, ("soft_tifa|answered:count", "a"): 1.0,
        ("soft_tifa|type:count", "b"): 0.3, ("soft_tifa|answered:count", "b"): 3.0,
        ("soft_tifa", "a"): 0.2, ("soft_tifa", "b"): 0.6, ("grounded_facts", "a"): 0.5,
    }  # fmt: skip
    found = evaluation(tmp_path / "a", "geneval2", items, values)
    assert cell(found, "Soft-TIFA GM") == pytest.approx(0.4)
    assert cell(found, "Soft-TIFA GM: 3 atoms") == pytest.approx(0.2)
    # One question of 0.9 and three of 0.3.
    assert cell(found, "Soft-TIFA AM by skill: count") == pytest.approx(0.45)
    assert cell(found, "ours: grounded facts") == pytest.approx(0.5)


def test_loop_and_best_of_n_are_paired_and_their_work_is_told(tmp_path: Path) -> None:
    items = {name: ("k=1", "") for name in "abc"}
    values = {("all_correct", name): float(name != "a") for name in "abc"}
    found = evaluation(tmp_path / "a", "conceptmix", items, values, {"loop": 0.2})
    assert cell(found, "all correct", "m: loop − best of N") == pytest.approx(0.2)
    # Rounds are 1, 2 and 3; the first picture is drawn by the loop and counts in both arms.
    for arm in ("m/loop", "m/best_of_n"):
        assert cell(found, "pictures of an item", arm) == 2.0
        assert cell(found, "denoiser's steps for an item", arm) == 40.0
    assert cell(found, "pictures of an item") == 1.0
    page = found.page()
    for said in ("licence: MIT", "## Not tried", "gpt-4o-2024-05-13", "| all correct: k=1 |"):
        assert said in page


def test_a_ratio_is_of_sums_and_its_interval_holds_it() -> None:
    found = ratio([(1.0, np.array([1.0, 3.0]), np.array([2.0, 4.0]))])
    assert found.value == pytest.approx(4 / 6)
    assert found.low is not None
    assert found.high is not None
    assert (found.low, found.high) == (pytest.approx(0.5), pytest.approx(0.75))
    rng = np.random.default_rng(1)
    values = rng.random(400)
    many = ratio([(1.0, values, np.ones(400))])
    assert many.low is not None
    assert many.high is not None
    half = 1.96 * values.std(ddof=1) / 20
    assert many.high - many.low == pytest.approx(2 * half, rel=0.1)


def test_another_evaluation_is_none(tmp_path: Path) -> None:
    with pytest.raises(EvalError, match="is not an evaluation of a recipe: `scenewright eval rec"):
        evaluation(tmp_path / "a", "", {"a": ("", "")}, {("wise", "a"): 1.0})
    with pytest.raises(EvalError, match="there is no recipe gone"):
        evaluation(tmp_path / "b", "gone", {"a": ("", "")}, {("wise", "a"): 1.0})
