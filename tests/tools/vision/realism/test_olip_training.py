"""OLIP's training: what it learns, when it ends, and that an interruption changes no bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from scenewright.core.ports.vision import RealismError
from scenewright.tools.vision.realism.olip import Olip, OlipConfig
from scenewright.tools.vision.realism.olip_training import (
    Features,
    TrainingOptions,
    TrainingResult,
    predict,
    train_olip,
)

CONFIG = OlipConfig(embedding=16, heads=4, widths=(24, 16, 8))
OPTIONS = TrainingOptions(epochs=4, batch=16, rate=3e-3, patience=10)
COUNT = 90
TRAIN, VALIDATION = range(60), range(60, COUNT)


def learnable(seed: int = 0, count: int = COUNT) -> tuple[Features, torch.Tensor]:
    """Objects whose texture shows in the crop and whose shape needs the full image."""
    generator = torch.Generator().manual_seed(seed)
    full, crop = (torch.randn(count, 16, generator=generator) for _ in range(2))
    texture = 1 + 4 * (2 * crop[:, 0]).sigmoid()
    shape = 1 + 4 * (2 * full[:, 0]).sigmoid()
    targets = torch.stack([shape, texture, (shape + texture) / 2], dim=1)
    return Features(full, crop, f"features {seed}"), targets


def trained(
    options: TrainingOptions = OPTIONS,
    config: OlipConfig = CONFIG,
    checkpoint: Path | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> TrainingResult:
    features, targets = learnable()
    return train_olip(
        config, features, targets, TRAIN, VALIDATION, options, checkpoint=checkpoint, stop=stop
    )


def after(steps: int) -> Callable[[], bool]:
    """Ends a training after so many steps."""
    left = [steps]

    def stop() -> bool:
        left[0] -= 1
        return left[0] <= 0

    return stop


def same_weights(a: Olip, b: Olip) -> bool:
    first, second = a.state_dict(), b.state_dict()
    return all(torch.equal(first[key], second[key]) for key in first)


# 60 objects in batches of 16 are 4 steps an epoch: within an epoch, at its end, and after it.
@pytest.mark.parametrize("steps", [1, 3, 4, 6, 15])
def test_an_interrupted_training_ends_with_the_same_bits(tmp_path: Path, steps: int) -> None:
    whole = trained()
    torch.manual_seed(123)  # the caller's random numbers must not matter
    part = trained(checkpoint=tmp_path / "t.pt", stop=after(steps))
    assert not part.finished
    assert len(part.history) == steps // 4
    torch.manual_seed(7)
    rest = trained(checkpoint=tmp_path / "t.pt")
    assert rest.finished
    assert rest.history == whole.history
    assert same_weights(rest.model, whole.model)


def test_interruptions_after_every_step_change_no_bit_either(tmp_path: Path) -> None:
    whole, found = trained(), None
    while found is None or not found.finished:
        found = trained(checkpoint=tmp_path / "t.pt", stop=after(1))
    assert found.history == whole.history
    assert same_weights(found.model, whole.model)


def test_a_finished_training_is_not_trained_on(tmp_path: Path) -> None:
    first = trained(checkpoint=tmp_path / "t.pt")
    before = (tmp_path / "t.pt").read_bytes()
    again = trained(checkpoint=tmp_path / "t.pt")
    assert again.finished
    assert same_weights(first.model, again.model)
    assert (tmp_path / "t.pt").read_bytes() == before


def test_the_seed_decides_and_the_callers_random_numbers_are_left_alone() -> None:
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    first = trained()
    assert torch.equal(torch.rand(3), wanted)
    assert same_weights(first.model, trained().model)
    other = trained(OPTIONS.model_copy(update={"seed": 1}))
    assert not same_weights(first.model, other.model)


@pytest.fixture(scope="module")
def errors() -> dict[str, torch.Tensor]:
    """Mean absolute error of shape, texture and joint on 200 objects, by reading; and that of the
    mean rating."""
    features, targets = learnable(count=600)
    rows = targets[400:]
    found = {"mean": (rows - targets[:400].mean(0)).abs().mean(0)}
    options = TrainingOptions(epochs=15, batch=40, rate=1e-2, patience=15)
    for name, residual in (("residual", True), ("literal", False)):
        config = CONFIG.model_copy(
            update={"full_image": True, "residual": residual, "widths": (24,)}
        )
        model = train_olip(config, features, targets, range(400), range(400, 600), options).model
        found[name] = (predict(model, features, range(400, 600)) - rows).abs().mean(0)
    return found


def test_it_learns_what_both_views_show(errors: dict[str, torch.Tensor]) -> None:
    assert bool((errors["residual"] < 0.6 * errors["mean"]).all()), errors


def test_the_literal_reading_learns_only_what_the_crop_shows(
    errors: dict[str, torch.Tensor],
) -> None:
    assert errors["literal"][0] > 0.9 * errors["mean"][0], "the shape is in the full image alone"
    assert errors["literal"][1] < 0.6 * errors["mean"][1]


def test_it_ends_when_validation_gains_no_more_and_keeps_the_best() -> None:
    options = TrainingOptions(epochs=200, batch=16, rate=3e-2, patience=3)
    found = trained(options)
    assert found.finished
    assert len(found.history) == found.best + 3 < 200
    losses = [epoch.validation for epoch in found.history]
    assert losses[found.best - 1] == min(losses)
    features, targets = learnable()
    said = predict(found.model, features, VALIDATION)
    kept = torch.nn.functional.mse_loss(said, targets[list(VALIDATION)]).item()
    assert kept == pytest.approx(min(losses), rel=1e-6)


def test_the_rate_falls_as_a_cosine(tmp_path: Path) -> None:
    trained(checkpoint=tmp_path / "t.pt", stop=after(8))
    state = torch.load(tmp_path / "t.pt", weights_only=True)
    # Half of 16 steps: cos(π/2) = 0, so half the rate.
    assert state["schedule"]["_last_lr"][0] == pytest.approx(OPTIONS.rate / 2)
    assert state["optimizer"]["param_groups"][0]["weight_decay"] == 0.01
    assert TrainingOptions().rate == 1e-4


@pytest.mark.parametrize(
    ("options", "config", "said"),
    [
        (OPTIONS.model_copy(update={"rate": 1e-3}), CONFIG, "other options"),
        (OPTIONS, CONFIG.model_copy(update={"residual": False}), "other architecture"),
    ],
)
def test_a_checkpoint_of_another_training_is_refused(
    tmp_path: Path, options: TrainingOptions, config: OlipConfig, said: str
) -> None:
    trained(checkpoint=tmp_path / "t.pt", stop=after(2))
    before = (tmp_path / "t.pt").read_bytes()
    with pytest.raises(RealismError, match=said):
        trained(options, config, checkpoint=tmp_path / "t.pt")
    assert (tmp_path / "t.pt").read_bytes() == before


def test_a_checkpoint_of_other_ratings_is_refused(tmp_path: Path) -> None:
    trained(checkpoint=tmp_path / "t.pt", stop=after(2))
    features, targets = learnable()
    with pytest.raises(RealismError, match="other data"):
        train_olip(
            CONFIG, features, targets.flip(0), TRAIN, VALIDATION, OPTIONS,
            checkpoint=tmp_path / "t.pt",
        )  # fmt: skip


def test_a_file_that_is_no_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.pt").write_bytes(b"nothing of the kind")
    with pytest.raises(RealismError, match=r"t\.pt is not a readable checkpoint"):
        trained(checkpoint=tmp_path / "t.pt")


def test_scores_that_are_all_the_same_teach_nothing() -> None:
    features, targets = learnable()
    targets[:60, 1] = 3
    with pytest.raises(RealismError, match="have the same texture score"):
        train_olip(CONFIG, features, targets, TRAIN, VALIDATION, OPTIONS)


def test_an_empty_set_and_an_empty_part_are_named() -> None:
    features, targets = learnable()
    nothing = Features(features.full[:0], features.crop[:0], "")
    with pytest.raises(RealismError, match="no objects"):
        train_olip(CONFIG, nothing, targets[:0], (), (), OPTIONS)
    with pytest.raises(RealismError, match="at least one object each"):
        train_olip(CONFIG, features, targets, TRAIN, (), OPTIONS)


def test_features_of_another_length_are_named() -> None:
    features, targets = learnable()
    with pytest.raises(RealismError, match="set embedding = 16"):
        train_olip(OlipConfig(), features, targets, TRAIN, VALIDATION, OPTIONS)


def test_a_rate_that_explodes_is_told() -> None:
    with pytest.raises(RealismError, match="use a lower rate"):
        trained(TrainingOptions(epochs=50, batch=16, rate=1e30, patience=50))
