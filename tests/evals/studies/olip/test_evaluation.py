"""MAE and 5-class accuracy as Table 3a counts them, by hand; and the random row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.olip import figures_of
from scenewright.core.ports.vision import ObjectRealism, RealismError
from scenewright.evals.human_ratings.rated_objects import RatedObject
from scenewright.evals.studies.olip.evaluation import (
    COLUMNS,
    FLOORS,
    evaluate,
    floor_scores,
    floors,
    random_scores,
    scores_of,
    table,
)
from scenewright.tools.vision.realism.accuracy import normalized_error, realism_class, same_class

PAPER = {
    "Random": ((0.345, 0.223), (0.337, 0.232), (0.341, 0.227)),
    "ImageReward": ((0.287, 0.229), (0.268, 0.297), (0.277, 0.263)),
    "AestheticScore": ((0.247, 0.298), (0.228, 0.356), (0.237, 0.327)),
    "QualiCLIP": ((0.218, 0.267), (0.191, 0.307), (0.204, 0.287)),
    "LLaVA-OV": ((0.165, 0.273), (0.172, 0.317), (0.168, 0.295)),
    "VQAScore": ((0.192, 0.302), (0.159, 0.382), (0.175, 0.342)),
    "LLaVA-Critic": ((0.204, 0.343), (0.168, 0.454), (0.186, 0.398)),
    "OLIP": ((0.136, 0.439), (0.123, 0.489), (0.130, 0.464)),
}
"""Table 3a: (MAE, ACC) of shape, texture and average."""


def rated(number: int, shape: float, texture: float, picture: str = "") -> RatedObject:
    return RatedObject(
        id=str(number), image=picture or f"{number}.png", category="dog", box=(0, 0, 4, 4),
        shape=shape, texture=texture,
    )  # fmt: skip


# Object: rated shape, texture; said shape, texture, joint.
TRUTH = [rated(0, 5, 4), rated(1, 1.5, 3), rated(2, 3, 2.5), rated(3, 1, 1)]
SAID = scores_of([(4.6, 4, 4.5), (2.5, 2, 2.5), (3, 4.5, 4), (1, 1.4, 2)])
# |said − rated| / 4: shape .1 .25 0 0; texture 0 .25 .5 .1.
# Joint truth 4.5 2.25 2.75 1: errors 0 .0625 .3125 .25.
# Classes, halves up. Shape 5≡5 2≠3 3≡3 1≡1; texture 4≡4 3≠2 3≠5 1≡1; joint 5≡5 2≠3 3≠4 1≠2.


@pytest.mark.parametrize(
    ("column", "mae", "acc"),
    [
        ("shape", 0.35 / 4, 3 / 4),
        ("texture", 0.85 / 4, 2 / 4),
        ("average", 1.2 / 8, 5 / 8),
        ("joint", 0.625 / 4, 1 / 4),
    ],
)
def test_a_table_by_hand(column: str, mae: float, acc: float) -> None:
    found = evaluate("by hand", TRUTH, SAID).columns[column]  # type: ignore[index]
    assert found.mae.value == pytest.approx(mae)
    assert found.acc.value == pytest.approx(acc)
    assert found.mae.n == 4


@pytest.mark.parametrize("row", sorted(PAPER))
def test_the_papers_average_is_the_mean_of_its_columns(row: str) -> None:
    shape, texture, average = PAPER[row]
    for measure in (0, 1):
        # Both columns and their mean are rounded to three digits.
        assert abs((shape[measure] + texture[measure]) / 2 - average[measure]) <= 0.001


def test_an_accuracy_of_averaged_scores_would_be_another() -> None:
    truth = [rated(0, 5, 1), rated(1, 1, 5)]
    found = evaluate("swapped", truth, scores_of([(1, 5, 3), (5, 1, 3)]))
    assert found.columns["average"].acc.value == 0
    assert found.columns["joint"].acc.value == 1


@settings(max_examples=25)
@given(st.lists(st.tuples(*[st.floats(1, 5)] * 5), min_size=1, max_size=12))
def test_average_lies_between_its_columns_and_intervals_hold_their_value(
    rows: list[tuple[float, ...]],
) -> None:
    truth = [rated(at, row[0], row[1]) for at, row in enumerate(rows)]
    found = evaluate("any", truth, scores_of([row[2:] for row in rows])).columns
    for measure in ("mae", "acc"):
        value = {column: getattr(found[column], measure) for column in COLUMNS}
        both = (value["shape"].value + value["texture"].value) / 2
        assert value["average"].value == pytest.approx(both)
        for figure in value.values():
            assert 0 <= figure.value <= 1
            if figure.low is not None:
                assert 0 <= figure.low <= figure.high <= 1


def test_what_was_not_scored_is_left_out_and_counted() -> None:
    said = [
        ObjectRealism(5, 4, 4.5),
        ObjectRealism(None, None, reason="not found"),
        ObjectRealism(3, None, 3),
        ObjectRealism(1, 1, None),
    ]
    found = evaluate("patchy", TRUTH, said)
    assert (found.objects, found.unscored) == (4, 2)
    assert [found.columns[c].mae.n for c in COLUMNS] == [3, 2, 2, 2]
    assert found.columns["shape"].mae.value == 0
    nothing = evaluate("silent", TRUTH, [ObjectRealism(None, None)] * 4)
    assert nothing.columns["joint"].mae.value is None
    assert "–" in table([nothing]).markdown()


def test_objects_of_one_picture_are_drawn_together() -> None:
    rng = np.random.default_rng(0)
    error = np.repeat(rng.uniform(0, 4, 10), 10)
    said = scores_of([(1 + e, 1 + e, 1 + e) for e in error])
    apart = [rated(at, 1, 1) for at in range(100)]
    together = [rated(at, 1, 1, f"{at // 10}.png") for at in range(100)]
    narrow = evaluate("", apart, said).columns["joint"].mae
    wide = evaluate("", together, said).columns["joint"].mae
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)  # type: ignore[operator]


def expected_random(wanted: float) -> tuple[float, float]:
    """(MAE, ACC) of uniform scores on one object rated ``wanted``.

    With u the rating in [0, 1], E|U − u| = (u² + (1 − u)²) / 2. The classes 2, 3 and 4 are each a
    quarter of the scale wide, 1 and 5 an eighth.
    """
    share = (wanted - 1) / 4
    at_the_end = float(realism_class(wanted)) in (1, 5)
    return (share**2 + (1 - share) ** 2) / 2, 0.125 if at_the_end else 0.25


DRAWN = np.array([score.shape for score in random_scores(4000, 1)])


@given(wanted=st.floats(1, 5))
def test_random_scores_err_as_their_closed_form_says(wanted: float) -> None:
    mae, acc = expected_random(wanted)
    # Five standard errors of the mean of what has deviations of at most .29 and .44.
    error = 5 / len(DRAWN) ** 0.5
    assert normalized_error(DRAWN, wanted).mean() == pytest.approx(mae, abs=0.29 * error)
    assert same_class(DRAWN, wanted).mean() == pytest.approx(acc, abs=0.44 * error)


def test_the_table_has_the_papers_columns() -> None:
    rows = [evaluate("OLIP", TRUTH, SAID)]
    head, _, line = table(rows).markdown().splitlines()
    assert head.split(" | ")[1:4] == ["Shape MAE ↓", "Shape ACC ↑", "Shape rank ↑"]
    assert line.startswith("| OLIP | 0.087 [") or line.startswith("| OLIP | 0.088 [")
    assert line.count("|") == head.count("|") == 15


def test_figures_are_flat() -> None:
    found = figures_of({"olip": evaluate("OLIP", TRUTH, SAID)})
    assert set(found) == {f"{m}.{c}.olip" for m in ("mae", "acc", "spearman") for c in COLUMNS}
    assert found["acc.shape.olip"]["mean"] == 0.75


def test_ranks_are_spearmans_and_average_the_mean_of_two() -> None:
    from scipy.stats import spearmanr

    rng = np.random.default_rng(5)
    truth = [rated(at, *rng.integers(1, 6, 2), f"{at // 3}.png") for at in range(60)]
    noisy = [
        (o.shape + rng.normal(), 6 - o.texture + rng.normal(), o.joint + rng.normal())
        for o in truth
    ]
    found = evaluate("", truth, scores_of(noisy)).columns
    wanted = [
        spearmanr([getattr(o, aspect) for o in truth], [row[at] for row in noisy]).statistic
        for at, aspect in enumerate(("shape", "texture", "joint"))
    ]
    values = [found[column].spearman.value for column in ("shape", "texture", "joint")]
    assert values == pytest.approx(wanted)
    assert values[0] > 0 > values[1]  # type: ignore[operator]
    assert found["average"].spearman.value == pytest.approx((wanted[0] + wanted[1]) / 2)
    for figure in (found[column].spearman for column in COLUMNS):
        assert -1 <= figure.low < figure.value < figure.high <= 1  # type: ignore[operator]


def test_the_rows_that_look_at_no_picture_by_hand() -> None:
    training = [rated(at, *row) for at, row in enumerate([(1, 5), (1, 4), (2, 4), (4, 1), (5, 1)])]
    said = {
        floor: floor_scores(floor, training, 3)
        for floor in ("constant_mean", "constant_median", "majority")
    }
    # Joints are 3 2.5 3 2.5 3: classes 3 3 3 3 3.
    assert [(s.shape, s.texture, s.joint) for s in said["constant_mean"]] == [
        pytest.approx((2.6, 3.0, 2.8))
    ] * 3
    assert (said["constant_median"][0].shape, said["constant_median"][0].joint) == (2, 3)
    # Textures 4 and 1 are as frequent: the lower one.
    assert [(s.shape, s.texture, s.joint) for s in said["majority"]] == [(1, 1, 3)] * 3
    rows = floors(TRUTH, training)
    assert list(rows) == list(FLOORS)
    assert rows["constant_mean"].columns["shape"].mae.value == pytest.approx(
        np.mean([abs(2.6 - o.shape) / 4 for o in TRUTH])
    )
    assert rows["constant_mean"].columns["shape"].spearman.value is None
    assert rows["random"].columns["shape"].spearman.value is not None
    # No constant has less error on a set than its own median.
    own = floors(TRUTH, ())
    assert own["constant_median"].name == "Constant (median) of these objects"
    best = own["constant_median"].columns["joint"].mae.value
    assert best is not None
    for score in np.linspace(1, 5, 41):
        constant = evaluate("", TRUTH, scores_of([(score, score, score)] * 4))
        assert constant.columns["joint"].mae.value >= best - 1e-12  # type: ignore[operator]


def test_a_judge_that_says_the_middle_beats_one_that_ranks_by_mae_and_not_by_rank() -> None:
    """Why neither MAE nor ACC stands alone: the constant wins both, and knows nothing."""
    truth = [rated(at, 2 + at % 3, 2 + at % 3) for at in range(30)]
    ranks = scores_of([(1 + (at % 3) * 0.1,) * 3 for at in range(30)])
    judge, constant = evaluate("judge", truth, ranks), floors(truth, truth)["constant_mean"]
    by_judge, by_constant = judge.columns["joint"], constant.columns["joint"]
    assert by_constant.mae.value < by_judge.mae.value  # type: ignore[operator]
    assert by_constant.acc.value > by_judge.acc.value  # type: ignore[operator]
    assert by_judge.spearman.value == pytest.approx(1.0)
    assert by_constant.spearman.value is None


def test_a_row_says_what_its_scorer_was_trained_on() -> None:
    seen = [evaluate("OLIP", TRUTH, SAID, seen=n) for n in (0, 3, None)]
    names = [line.split(" | ")[0] for line in table(seen).markdown().splitlines()[2:]]
    assert names == [
        *("| OLIP", "| OLIP (trained on 3 of 4)", "| OLIP (trained on unknown pictures)")
    ]


def test_nothing_to_evaluate_is_named() -> None:
    with pytest.raises(RealismError, match="choose another part"):
        evaluate("any", [], [])
