"""Served versions of a folder's judges are kept, and later starts compare with earlier ones."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from scenewright.core.facts import Answer
from scenewright.providers.versions import FollowedVersions, following, note_served


def answers(version: str, n: int = 2) -> list[Answer]:
    return [
        Answer(fact_id=f"f{at}", judge_id="api:c", state="yes", probability=0.9, model=version)
        for at in range(n)
    ]


def test_a_later_start_compares_with_earlier_ones(tmp_path: Path) -> None:
    file = tmp_path / "served_versions.json"
    for version in ("v1", "v1", "v2"):
        with following(file) as found:
            note_served("api:c", version, answers(version))
    (said,) = found.texts
    assert "api:c was served as v1 (4 answers" in said
    assert "v2 (2 answers" in said
    # Nobody follows any more.
    note_served("api:c", "v3", answers("v3"))
    assert "v3" not in file.read_text()


def test_who_stops_meets_the_change_again(tmp_path: Path) -> None:
    file = tmp_path / "served_versions.json"
    with following(file) as found:
        note_served("api:c", "a", answers("v1"))
    assert found.stopped is None
    for _ in range(2):
        with following(file, stops=True) as found:
            note_served("api:c", "b", answers("v2"))
        assert found.stopped is not None
        assert found.stopped.now.version == "v2"
        assert found.texts == ()


def test_answers_without_a_version_are_of_none(tmp_path: Path) -> None:
    with following(tmp_path / "served_versions.json") as found:
        note_served("api:c", "a", answers(""))
    assert found.texts == ()
    assert list(tmp_path.iterdir()) == []


async def test_tasks_and_threads_of_the_body_are_followed(tmp_path: Path) -> None:
    async def one(version: str) -> None:
        await asyncio.to_thread(note_served, "api:c", "a", answers(version))

    with following(tmp_path / "served_versions.json") as found:
        await asyncio.gather(one("v1"), one("v2"))
    assert len(found.texts) == 1


@pytest.mark.parametrize("content", ["", "[]", '{"api:c": [{"version": 1}]}', "{", "\x00"])
def test_a_damaged_file_tells_nothing_and_is_said(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "served_versions.json"
    file.write_text(content)
    with caplog.at_level(logging.WARNING, "scenewright.providers"):
        assert FollowedVersions(file).texts == ()
    assert "versions of earlier starts are not compared" in caplog.text


def test_a_folder_that_cannot_be_written_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "file" / "served_versions.json"
    (tmp_path / "file").write_text("in the way")
    with (
        caplog.at_level(logging.WARNING, "scenewright.providers"),
        following(file) as found,
    ):
        note_served("api:c", "a", answers("v1"))
    assert "cannot be written" in caplog.text
    assert found.texts == ()
