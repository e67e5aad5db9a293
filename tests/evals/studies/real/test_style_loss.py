"""The contrastive objective against numbers by hand, and the order of an epoch."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scenewright.evals.studies.real.style_training import batches, style_loss


def test_the_loss_by_hand() -> None:
    logits = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    classes = torch.tensor([0, 0, 1])
    to_text = (math.log1p(math.exp(-2)) + math.log1p(math.exp(-1)) + math.log(2)) / 3
    first = math.log(math.exp(2) + math.exp(1) + 1)
    photo = ((first - 2) + (first - 1)) / 2
    illustration = math.log(3)
    expected = (to_text + (photo + illustration) / 2) / 2
    assert style_loss(logits, classes).item() == pytest.approx(expected, abs=1e-6)


def test_with_one_picture_a_class_it_is_the_objective_of_clip() -> None:
    logits = torch.randn(2, 2, generator=torch.Generator().manual_seed(1))
    target = torch.arange(2)
    clip = (
        torch.nn.functional.cross_entropy(logits, target)
        + torch.nn.functional.cross_entropy(logits.T, target)
    ) / 2
    assert style_loss(logits, target).item() == pytest.approx(clip.item(), abs=1e-6)


def test_a_batch_of_one_class_asks_nothing_of_the_other_text() -> None:
    logits = torch.zeros(3, 2, requires_grad=True)
    loss = style_loss(logits, torch.tensor([0, 0, 0]))
    assert loss.item() == pytest.approx((math.log(2) + math.log(3)) / 2, abs=1e-6)
    loss.backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert bool((logits.grad[:, 1] > 0).all())


@given(st.integers(2, 12), st.integers(0, 99))
def test_the_order_of_the_pictures_is_of_no_matter(n: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = 5 * torch.randn(n, 2, generator=generator)
    classes = torch.randint(2, (n,), generator=generator)
    order = torch.randperm(n, generator=generator)
    first, second = style_loss(logits, classes), style_loss(logits[order], classes[order])
    assert first.item() == pytest.approx(second.item(), abs=1e-5)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(2, 9), st.integers(0, 9))
def test_an_epoch_holds_every_picture_once(n: int, m: int, batch: int, epoch: int) -> None:
    found = batches([0] * n + [1] * m, batch, 3, epoch)
    assert sorted(at for part in found for at in part) == list(range(n + m))
    assert all(len(part) == batch for part in found[:-1])


def test_batches_hold_the_classes_as_the_set_does() -> None:
    for part in batches([0] * 40 + [1] * 40, 8, 0, 0):
        assert 3 <= sum(at < 40 for at in part) <= 5
    assert batches([0] * 9 + [1] * 9, 4, 0, 0) != batches([0] * 9 + [1] * 9, 4, 0, 1)
