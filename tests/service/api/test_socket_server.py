"""The service's process: searches for garbage."""

from __future__ import annotations

import gc

from scenewright.service.api.socket_server import Freezer


def test_what_many_searches_would_find_again_is_left_out_a_few_times() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    freezer = Freezer(seconds=0.0, times=2)
    freezer.begin()
    try:
        gc.collect(1)
        assert gc.get_freeze_count() <= frozen
        counts, kept = [], []
        for _ in range(3):
            kept.append([[] for _ in range(5000)])
            gc.collect(1)
            before = gc.get_freeze_count()
            gc.collect()
            counts.append(gc.get_freeze_count() - before)
        assert min(counts[:2]) > 5000
        assert counts[2] <= 0
    finally:
        freezer.end()
    assert all(getattr(one, "__self__", None) is not freezer for one in gc.callbacks)


def test_short_searches_leave_nothing_out() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    freezer = Freezer(seconds=3600.0)
    freezer.begin()
    try:
        kept = [[] for _ in range(5000)]
        gc.collect()
        assert gc.get_freeze_count() <= frozen
        assert len(kept) == 5000
    finally:
        freezer.end()
