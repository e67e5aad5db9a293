"""A loop whose run folder was lost with its machine begins anew, and asks under the same keys."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from scenewright.config.settings import load_settings
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.store.results import MANIFEST, Results
from scenewright.mock_providers import MockSettings, serving_thread
from tests.evals.eval_sets import ListedSet, config, scene_items

KEY = "lost-loops"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_OF_LOST_LOOPS", KEY)


async def evaluated(folder: Path, url: str) -> Results:
    account = {
        "provider": "openai",
        "base_url": f"{url}/v1",
        "key_variable": "KEY_OF_LOST_LOOPS",
    }
    profile = {
        "backend": {"kind": "lab", "model": "instant-image"},
        "judges": ["lab:instant"],
    }
    asked = config(
        backends=["lab"],
        conditions=["feedback"],
        panels={"own": {"judges": ["lab:instant"]}},
        allow_loop_judges=True,
        size=(64, 64),
    )
    settings = load_settings(accounts={"lab": account}, profiles={"lab": profile})
    return await run_eval(asked, folder, settings=settings, dataset=ListedSet(scene_items(3)))


def rows(results: Results) -> dict[str, list[dict[str, Any]]]:
    """All tables but for the seconds that something took."""
    return {
        table: [{k: v for k, v in row.items() if k != "seconds"} for row in results.rows(table)]
        for table in ("rounds", "answers", "verdicts", "scores")
    }


async def test_what_is_asked_again_gets_the_replies_of_before(tmp_path: Path) -> None:
    folder = tmp_path / "e"
    with serving_thread(MockSettings(latency=0)) as lab:
        before = rows(await evaluated(folder, lab.url))
        executed = lab.report()["accounts"][KEY]["executed"]
        # The evaluation is known, and nothing of what it did.
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != MANIFEST:
                path.unlink()
        after = rows(await evaluated(folder, lab.url))
        told = lab.report()["accounts"][KEY]
    assert any(row["round"] > 0 for row in before["rounds"])
    assert after == before
    assert told["executed"] == executed
    assert told["replayed"] == executed


async def test_loops_of_another_evaluation_ask_under_other_keys(tmp_path: Path) -> None:
    with serving_thread(MockSettings(latency=0)) as lab:
        await evaluated(tmp_path / "one", lab.url)
        executed = lab.report()["accounts"][KEY]["executed"]
        await evaluated(tmp_path / "other", lab.url)
        assert lab.report()["accounts"][KEY]["executed"] > executed
