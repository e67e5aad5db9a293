"""Classifiers trained on sets: what they learn, what is kept, what is refused."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import torch

from scenewright.evals.studies.real import augmentation
from scenewright.evals.studies.real.augmentation import (
    TRAININGS,
    AugmentationError,
    AugmentationStudy,
    Recipe,
    batches,
    classify,
    compare_classifiers,
    macro_f1,
    new_classifier,
)
from scenewright.evals.studies.real.ranking import Ranked
from tests.evals.studies.real.augmentation_start import colored, tiny_encoder

RECIPE = Recipe(epochs=6, rate=1e-2)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("start"))


@pytest.mark.parametrize("kind", ["clip", "vit"])
def test_any_encoder_learns_the_classes(kind: str, tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path, kind)
    test = colored(4, seed=9)
    said = classify(
        folder,
        colored(6, seed=1),
        [example.image for example in test],
        recipe=RECIPE,
        epochs=8,
        seed=0,
    )
    assert macro_f1([example.label for example in test], said) > 0.9
    # 18 pictures in batches of 8 are 3 steps an epoch.
    assert len(list(batches(18, RECIPE.batch, 8, 0))) == 24


def test_the_head_is_new_and_the_rest_is_the_start(start: Path) -> None:
    first, same, other = (new_classifier(start, ["a", "b"], seed) for seed in (0, 0, 1))
    for name, weights in first.state_dict().items():
        assert torch.equal(weights, same.state_dict()[name])
        assert weights.dtype == torch.float32
        if name.startswith("classifier"):
            continue
        assert torch.equal(weights, other.state_dict()[name]), name
    assert not torch.equal(
        first.state_dict()["classifier.weight"], other.state_dict()["classifier.weight"]
    )


def test_what_cannot_be_trained_is_told(start: Path, tmp_path: Path) -> None:
    with pytest.raises(AugmentationError, match="two or more"):
        new_classifier(start, ["a", "a"], 0)
    with pytest.raises(AugmentationError, match="not a model in transformers layout"):
        new_classifier(tmp_path, ["a", "b"], 0)
    with pytest.raises(AugmentationError, match="rate above 0"):
        Recipe(rate=0.0)
    with pytest.raises(AugmentationError, match="use a lower rate"):
        classify(start, colored(3, 1), [], recipe=Recipe(rate=1e30), epochs=4, seed=0)


def study_of(start: Path, kept: Path | None = None) -> tuple[AugmentationStudy, dict, list[Ranked]]:
    """A pool whose well ranked pictures are right and whose badly ranked ones are mislabelled."""
    good, bad = colored(6, seed=50), colored(6, seed=60, swap=True)
    rows = [(e, 0.9) for e in good] + [(e, 0.1) for e in bad]
    pool = {str(at): example.image for at, (example, _) in enumerate(rows)}
    ranked = [Ranked(str(at), e.label, score) for at, (e, score) in enumerate(rows)]
    return AugmentationStudy(start, RECIPE, k=6, kept=kept), pool, ranked


def test_misleading_pictures_do_harm_and_right_ones_do_not(start: Path) -> None:
    study, pool, ranked = study_of(start)
    real = [colored(2, seed) for seed in (1, 2)]
    told: list[tuple[int, int]] = []
    found = compare_classifiers(
        study,
        real,
        pool,
        ranked,
        colored(4, 9),
        on_progress=lambda done, of: told.append((done, of)),
    )
    high, low = found.mean("high").value, found.mean("low").value
    assert high is not None
    assert low is not None
    assert high > 0.9
    assert low < 0.5
    assert told == [(done, 8) for done in range(1, 9)]


def test_what_was_trained_is_not_trained_again(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, pool, ranked = study_of(start, tmp_path / "kept")
    real, test = [colored(2, 1)], colored(2, 9)
    first = compare_classifiers(study, real, pool, ranked, test, sets=("high", "none"))
    trained: list[int] = []

    def counted(*args: object, **kwargs: object) -> list[str]:
        trained.append(1)
        return classify(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(augmentation, "classify", counted)
    again = compare_classifiers(study, real, pool, ranked, test, sets=("high", "none"))
    assert again == first
    assert not trained
    # One that is lost is made anew, with the same result.
    with sqlite3.connect(tmp_path / "kept" / TRAININGS) as db:
        db.execute("DELETE FROM units WHERE key = (SELECT key FROM units)")
    assert compare_classifiers(study, real, pool, ranked, test, sets=("high", "none")) == first
    assert len(trained) == 1
    # Other pictures are another training.
    compare_classifiers(study, [colored(2, 3)], pool, ranked, test, sets=("none",))
    assert len(trained) == 2


def test_a_test_picture_must_not_be_learned(start: Path) -> None:
    study, pool, ranked = study_of(start)
    test = colored(2, 9)
    with pytest.raises(AugmentationError, match="hold the test out"):
        compare_classifiers(study, [[*colored(2, 1), test[0]]], pool, ranked, test)
    with pytest.raises(AugmentationError, match="hold the test out"):
        compare_classifiers(study, [colored(2, 1)], pool | {"x": test[1].image}, ranked, test)
    with pytest.raises(AugmentationError, match="are missing"):
        compare_classifiers(study, [], {}, ranked, test)
