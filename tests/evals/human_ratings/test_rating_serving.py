"""The rating server over loopback: several raters, and a process that is killed."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from scenewright.evals.human_ratings.app import serving
from scenewright.evals.human_ratings.study import RatingError, StudyFolder
from scenewright.evals.human_ratings.table import ratings_of
from tests.evals.human_ratings.rated import evaluation, study_in
from tests.evals.human_ratings.rating_client import begin, heading, press


@pytest.fixture
def folder(tmp_path: Path) -> StudyFolder:
    return study_in(tmp_path / "s", evaluation(tmp_path / "e", 5), kind="choice")


async def test_two_raters_rate_at_once_and_do_not_meet(folder: StudyFolder) -> None:
    async def rates(url: str, name: str, value: str) -> None:
        async with httpx2.AsyncClient(base_url=url, follow_redirects=True, timeout=60) as browser:
            page = await begin(browser, name)
            for n in range(5):
                assert f"{n} of 5 rated" in page.text
                page = await press(browser, page, value)
            assert heading(page) == "That was all. Thank you!"

    async with serving(folder) as url:
        await asyncio.gather(rates(url, "Ann", "1"), rates(url, "Bea", "3"))
    rows = ratings_of(folder)
    assert [row.value for row in rows if row.rater == "Ann"] == ["1"] * 5
    assert [row.value for row in rows if row.rater == "Bea"] == ["3"] * 5


async def test_one_name_in_two_windows_keeps_one_answer_a_task(folder: StudyFolder) -> None:
    async def rates(url: str) -> None:
        async with httpx2.AsyncClient(base_url=url, follow_redirects=True, timeout=60) as browser:
            page = await begin(browser)
            while 'name="value"' in page.text:
                page = await press(browser, page, "2")

    async with serving(folder) as url:
        await asyncio.gather(rates(url), rates(url))
    rows = ratings_of(folder)
    assert sorted(row.task for row in rows) == sorted(t.id for t in folder.study.tasks)


async def test_a_taken_port_says_what_to_do(folder: StudyFolder) -> None:
    async with serving(folder) as url:
        port = int(url.rstrip("/").rpartition(":")[2])
        with pytest.raises(RatingError, match="choose another --port"):
            async with serving(folder, port=port):
                raise AssertionError("it must not start")


def started(folder: StudyFolder) -> tuple[subprocess.Popen[str], str]:
    command = "from scenewright.cli.rate import app; app()"
    process = subprocess.Popen(
        [sys.executable, "-c", command, "serve", str(folder.folder), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"http://\S+/", line)
    assert found is not None, line
    return process, found[0]


async def test_a_killed_server_lost_nothing_and_goes_on(folder: StudyFolder) -> None:
    process, url = await asyncio.to_thread(started, folder)
    try:
        async with httpx2.AsyncClient(base_url=url, follow_redirects=True, timeout=60) as browser:
            page = await begin(browser)
            for _ in range(3):
                page = await press(browser, page, "2")
            # It dies with the reply hardly read: what was answered must be on disk by then.
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert [row.value for row in ratings_of(folder)] == ["2"] * 3
        process, url = await asyncio.to_thread(started, folder)
        async with httpx2.AsyncClient(base_url=url, follow_redirects=True, timeout=60) as browser:
            page = await begin(browser)
            assert "Task 4 of 5" in page.text
            assert "3 of 5 rated" in page.text
        process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(process.wait, 20) == 0
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
