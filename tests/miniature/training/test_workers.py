"""A training shared by workers takes the steps that one process alone would take."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
import torch
from torch import multiprocessing, nn

from scenewright.miniature.training.loop import Training, join_workers, share_of

STEPS, BATCH, WORKERS = 4, 4, 2


def train(out: Path) -> None:
    """A small regression; each worker takes its rows of every batch."""
    torch.manual_seed(0)
    worker, share = join_workers()[0], share_of(BATCH)
    model = nn.Linear(3, 1)
    state = Training(
        out, {"model": model}, torch.optim.SGD(model.parameters(), lr=0.1), STEPS, lambda _: 1.0
    )

    def loss_of(step: int) -> tuple[torch.Tensor, dict[str, float]]:
        rows = torch.randn(BATCH, 3, generator=torch.Generator().manual_seed(step))
        mine = rows[worker * share : (worker + 1) * share]
        return (model(mine) - mine.sum(1, keepdim=True)).pow(2).mean(), {}

    # Each worker has a clock of its own; all must stop after the same step.
    assert state.run(loss_of, max_seconds=60 if worker else 59)


def one_worker(rank: int, port: int, out: Path) -> None:
    os.environ |= {
        "RANK": str(rank),
        "WORLD_SIZE": str(WORKERS),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    train(out)
    # Gloo's threads may outlive the interpreter, which then aborts now and then (PyTorch 2.13).
    os._exit(0)


@pytest.mark.slow
def test_two_workers_take_the_steps_of_one(tmp_path: Path) -> None:
    train(tmp_path / "alone.pt")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    multiprocessing.spawn(one_worker, (port, tmp_path / "shared.pt"), nprocs=WORKERS)
    alone, shared = (
        torch.load(tmp_path / name, weights_only=True) for name in ("alone.pt", "shared.pt")
    )
    assert alone["step"] == shared["step"] == STEPS
    for key, value in alone["modules"]["model"].items():
        torch.testing.assert_close(value, shared["modules"]["model"][key])


def test_a_batch_that_cannot_be_shared_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenewright.miniature.training.loop.join_workers", lambda: (0, 3))
    with pytest.raises(ValueError, match="32 cannot be shared by 3"):
        share_of(32)
