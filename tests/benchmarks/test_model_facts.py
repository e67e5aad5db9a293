"""The benchmark of model facts: what it looks up, and that nothing is missing today."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from benchmarks import model_facts
from scenewright.providers.model_facts import read_facts, shipped_facts, using
from scripts.model_facts import day_of, sdk_ends


def test_the_sdks_ends_are_read_from_their_tables() -> None:
    ends = sdk_ends()
    assert ends["openai:gpt-5-mini"] == date(2026, 12, 11)
    assert ends["openai:gpt-image-1"] == date(2026, 10, 23)
    assert ends["anthropic:claude-opus-4-5"] == date(2027, 1, 22)
    assert "openai:gpt-6-luna" not in ends
    assert day_of("retired on May 2nd, 2026.") == date(2026, 5, 2)
    assert day_of("no longer supported") is None


def test_no_end_that_the_sdks_know_is_missing_and_no_price_of_a_named_model() -> None:
    """Fails where an SDK announces an end that the table lacks: `make facts` reads it."""
    known, missing = model_facts.ends_missing()
    assert known > 40
    assert missing == []
    named, unpriced = model_facts.prices_missing()
    assert named >= 10
    assert unpriced == []


def test_what_is_missing_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "README.md").write_text(
        "Use openai:gpt-6-luna, `gemini:gemini-0-none` or openai:gpt-image-*, never openai:."
    )
    monkeypatch.setattr(model_facts, "ROOT", tmp_path)
    assert model_facts.prices_missing()[1] == ["gemini:gemini-0-none"]
    empty = read_facts(f"format = 1\nas_of = {shipped_facts().as_of}\nsources = {{}}\n")
    with using(empty):
        known, missing = model_facts.ends_missing()
    assert len(missing) == known
