"""Table 3b: each variant is trained on the same, and compared with full OLIP object by object."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from scenewright.evals.human_ratings.rated_objects import RatedObject
from scenewright.evals.studies.olip.evaluation import FLOORS
from scenewright.evals.studies.olip.splits import split_objects
from scenewright.evals.studies.olip.training import (
    FULL,
    TITLES,
    VARIANTS,
    Prepared,
    ablate,
    ablation_table,
    evaluate_heads,
    fit,
    training_report,
)
from scenewright.tools.vision.realism.olip import OlipConfig
from scenewright.tools.vision.realism.olip_training import Features, TrainingOptions

CONFIG = OlipConfig(embedding=16, heads=4, widths=(12, 8))
OPTIONS = TrainingOptions(epochs=2, batch=16, rate=1e-2)


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    generator = torch.Generator().manual_seed(0)
    full, crop = (torch.randn(60, 16, generator=generator) for _ in range(2))
    objects = tuple(
        RatedObject(
            id=str(at), image=f"{at // 2}.png", category="dog", box=(0, 0, 4, 4),
            shape=float(1 + 4 * full[at, 0].sigmoid()),
            texture=float(1 + 4 * crop[at, 0].sigmoid()),
        )
        for at in range(60)
    )  # fmt: skip
    splits = split_objects(objects, test=0.2, validation=0.1)
    return Prepared(objects, Features(full, crop, "f"), splits, "blip")


def test_the_rows_are_the_papers_and_the_literal_reading(prepared: Prepared) -> None:
    rows = ablate(prepared, CONFIG, OPTIONS)
    assert [row.variant for row in rows] == [*VARIANTS, *FLOORS]
    assert rows[0].variant == FULL
    assert rows[0].worse_mae is None
    for row in rows[1:]:
        joint, full = row.evaluation.columns["joint"], rows[0].evaluation.columns["joint"]
        assert row.worse_mae is not None
        assert row.worse_acc is not None
        assert row.worse_mae.value == pytest.approx(joint.mae.value - full.mae.value)  # type: ignore[operator]
        assert row.worse_acc.value == pytest.approx(full.acc.value - joint.acc.value)  # type: ignore[operator]
    lines = ablation_table(rows).markdown().splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == [f"| {t}" for t in TITLES.values()]


def test_switches_name_fields_of_the_architecture() -> None:
    for switches in VARIANTS.values():
        assert set(switches) <= set(OlipConfig.model_fields)
    single = ("no_full_image", "no_multi_head", "no_deep")
    off = {key for name in single for key, value in VARIANTS[name].items() if not value}
    assert VARIANTS["none"] == dict.fromkeys(off, False)


def test_several_seeds_count_each_object_once_a_seed(prepared: Prepared, tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    rows = ablate(
        prepared, CONFIG, OPTIONS, variants=["literal"], seeds=(0, 1), work=tmp_path,
        on_variant=lambda name, seed: told.append((name, seed)),
    )  # fmt: skip
    assert told == [(FULL, 0), (FULL, 1), ("literal", 0), ("literal", 1)]
    assert rows[1].evaluation.objects == 2 * len(prepared.splits.test)
    assert {row.evaluation.objects for row in rows} == {2 * len(prepared.splits.test)}
    assert len(list(tmp_path.iterdir())) == 4
    again = ablate(prepared, CONFIG, OPTIONS, variants=["literal"], seeds=(0, 1), work=tmp_path)
    assert again == rows


def test_a_report_tells_how_it_was_trained_and_what_it_never_saw(prepared: Prepared) -> None:
    trained = fit(prepared, CONFIG, OPTIONS)
    row = evaluate_heads("OLIP", trained.model, prepared)
    assert row.objects == len(prepared.splits.test) == 12
    report = training_report(trained, OPTIONS, prepared, [row])
    assert report["objects"] == {"train": 42, "validation": 6, "test": 12}
    assert report["options"]["rate"] == 1e-2
    assert len(report["history"]) == 2
    assert report["test"][0]["name"] == "OLIP"
