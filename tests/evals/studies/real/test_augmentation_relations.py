"""Recognition of relations: mean recall, the pair classifier, the study of its sets."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from scenewright.evals.studies.real.augmentation import (
    TRAININGS,
    AugmentationError,
    AugmentationStudy,
    Recipe,
)
from scenewright.evals.studies.real.ranking import Ranked
from scenewright.evals.studies.real.relation_recognition import (
    Annotated,
    PairClassifier,
    Relations,
    _coverage,
    compare_relations,
    learn_relations,
    mean_recall,
    ordered_pairs,
    proposals,
)
from tests.evals.studies.real.augmentation_start import tiny_encoder

PREDICATES = ("above", "left of")
RECIPE = Recipe(epochs=6, rate=1e-2)
TURNED = {"above": "left of", "left of": "above"}


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("start"))


def sketch(rng: random.Random, predicate: str, said: str | None = None) -> Relations:
    """Two squares, the first above or left of the second; ``said`` to be another way."""
    a = (rng.randint(0, 4), rng.randint(0, 4))
    b = (a[0], a[1] + 18) if predicate == "above" else (a[0] + 18, a[1])
    image = Image.new("RGB", (32, 32), (rng.randrange(256),) * 3)
    boxes = tuple((float(x), float(y), x + 8.0, y + 8.0) for x, y in (a, b))
    return Relations(image, boxes, ((0, said or predicate, 1),))


def sketches(n: int, seed: int, turned: bool = False) -> list[Relations]:
    rng = random.Random(seed)
    return [sketch(rng, p, TURNED[p] if turned else p) for _ in range(n) for p in PREDICATES]


def test_mean_recall_of_a_table_worked_by_hand() -> None:
    three = ((0.0, 0.0, 1.0, 1.0),) * 3
    image = Image.new("RGB", (4, 4))
    tests = [
        Relations(image, three, ((0, "above", 1), (1, "left of", 2), (2, "above", 0))),
        Relations(image, three[:2], ((1, "above", 0),)),
    ]
    # Pairs in order: (0,1) (0,2) (1,0) (1,2) (2,0) (2,1); columns above, left of.
    first = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5], [0.3, 0.7], [0.6, 0.4], [0.5, 0.5]])
    second = np.array([[0.4, 0.6], [0.45, 0.55]])
    # Ranks of the first picture: 0.9 (0,1 above), 0.8, 0.7 (1,2 left of), 0.6 (2,0 above).
    # Of the second: 0.6, 0.55, 0.45 (1,0 above).
    expected = {1: (1 / 3 + 0) / 2, 3: (2 / 3 + 1) / 2, 4: (3 / 3 + 1) / 2}
    for k, recall in expected.items():
        assert mean_recall(tests, [first, second], PREDICATES, k) == pytest.approx(recall)


def test_proposals_that_do_not_fit_are_refused() -> None:
    picture = sketches(1, 0)[0]
    with pytest.raises(AugmentationError, match="shape"):
        mean_recall([picture], [np.zeros((3, 2))], PREDICATES, 1)
    with pytest.raises(AugmentationError, match="k is 0"):
        mean_recall([picture], [np.zeros((2, 2))], PREDICATES, 0)
    empty = Relations(picture.image, picture.boxes, ())
    with pytest.raises(AugmentationError, match="no relation"):
        mean_recall([empty], [np.zeros((2, 2))], PREDICATES, 1)


def test_an_annotation_names_things_that_have_boxes() -> None:
    image, box = Image.new("RGB", (4, 4)), (0.0, 0.0, 2.0, 2.0)
    with pytest.raises(AugmentationError, match="without a box"):
        Relations(image, (box,), ((0, "above", 1),))
    with pytest.raises(AugmentationError, match="itself"):
        Relations(image, (box, box), ((1, "above", 1),))
    with pytest.raises(AugmentationError, match="empty"):
        Relations(image, ((2.0, 0.0, 2.0, 2.0),), ())


def test_a_region_is_seen_by_the_patches_that_it_covers() -> None:
    boxes = torch.tensor([[[0.0, 0.0, 0.5, 0.5], [0.25, 0.0, 0.75, 0.5], [0.0, 0.0, 1.0, 1.0]]])
    found = _coverage(boxes, 2)[0]
    expected = torch.tensor([[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25, 0.25, 0.25, 0.25]])
    assert torch.allclose(found, expected, atol=1e-4)


def test_relations_are_learned_and_come_as_probabilities(start: Path) -> None:
    model = learn_relations(start, sketches(8, 1), PREDICATES, recipe=RECIPE, epochs=8, seed=0)
    test = sketches(4, 2)
    tables = [proposals(model, picture) for picture in test]
    assert all(table.shape == (len(ordered_pairs(2)), 2) for table in tables)
    assert all(np.allclose(table.sum(1), 1.0) for table in tables)
    right = [
        PREDICATES[table[0].argmax()] == picture.triplets[0][1]
        for table, picture in zip(tables, test, strict=True)
    ]
    assert all(right)
    assert mean_recall(test, tables, PREDICATES, 4) == 1.0


def test_a_pair_is_judged_alike_alone_and_in_a_batch(start: Path) -> None:
    model = PairClassifier(start, PREDICATES, seed=0).eval()
    one, two = sketches(1, 5)
    alone = proposals(model, one)
    from scenewright.evals.studies.real.augmentation import pixels_of
    from scenewright.evals.studies.real.relation_recognition import _shares

    with torch.inference_mode():
        pixels = pixels_of([two.image, one.image], model.side)
        ends = torch.cat([_shares(two, [(0, 1)]), _shares(one, [(0, 1)])])
        both = model(pixels, torch.tensor([0, 1]), ends).softmax(-1).numpy()
    assert np.allclose(both[1], alone[0], atol=1e-6)


def test_what_teaches_nothing_is_refused(start: Path) -> None:
    silent = [Relations(one.image, one.boxes, ()) for one in sketches(2, 1)]
    with pytest.raises(AugmentationError, match="nothing to learn"):
        learn_relations(start, silent, PREDICATES, recipe=RECIPE, epochs=1, seed=0)
    with pytest.raises(AugmentationError, match="left of is not among"):
        learn_relations(start, sketches(1, 1), ["above"], recipe=RECIPE, epochs=1, seed=0)


def test_turned_relations_do_harm_and_are_kept(start: Path, tmp_path: Path) -> None:
    pool: dict[str, Relations] = {}
    ranked: list[Ranked] = []
    for turned, score in ((False, 0.9), (True, 0.2)):
        for at, one in enumerate(sketches(5, 30 + turned, turned)):
            name = f"{turned} {at}"
            pool[name] = one
            ranked.append(Ranked(name, PREDICATES[at % 2], score))
    real = [[Annotated(one, PREDICATES[at % 2]) for at, one in enumerate(sketches(1, 1))]]
    test = sketches(4, 9)
    study = AugmentationStudy(start, RECIPE, k=5, kept=tmp_path)
    found = compare_relations(
        study, real, pool, ranked, test, PREDICATES, (1, 4), sets=("high", "low")
    )
    high, low = (found[1].values[how][0] for how in ("high", "low"))
    assert high >= low + 0.25
    assert found[4].values["low"] == [1.0]
    assert found[1].measure == "mR@1"
    with sqlite3.connect(tmp_path / TRAININGS) as db:
        assert db.execute("SELECT count(*) FROM units").fetchone() == (2,)
    again = compare_relations(
        study, real, pool, ranked, test, PREDICATES, (1, 4), sets=("high", "low")
    )
    assert again == found
