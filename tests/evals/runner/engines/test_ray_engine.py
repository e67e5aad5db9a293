"""The Ray engine: the tables of the local one, and what becomes of workers that die."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scenewright.config.settings import load_settings
from scenewright.evals.errors import EvalError, ModelChangedError
from scenewright.evals.runner.engines.ray_engine import RayEngine
from scenewright.evals.runner.progress import Progress
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.runner.served_versions import SERVED
from scenewright.evals.store.results import Results
from scenewright.mock_providers import MockSettings, serving_thread
from tests.evals.eval_sets import ListedSet, config, scene_items, scripted
from tests.evals.runner.engines.engine_models import DEADLY, EXCHANGED, OTHERS, PLAIN, SLOW, plain

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'scenewright[ray]'")
pytestmark = pytest.mark.slow
TABLES = ("items", "verdicts", "scores")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(
        "local", num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR"
    )
    yield
    ray.shutdown()


def book(root: Path) -> Counter[str]:
    """What was called, without composing, which costs nothing here."""
    lines = (root / "book").read_text().splitlines()
    return Counter(line for line in lines if line.startswith(("begin generate", "begin answer")))


def ended(root: Path) -> Counter[str]:
    lines = (root / "book").read_text().splitlines()
    return Counter(line for line in lines if line.startswith(("end generate", "end answer")))


def same(one: Results, other: Results) -> None:
    """All that does not tell how long something took is the same, in the same order."""
    for table in TABLES:
        assert one.table(table).equals(other.table(table)), table
    times = ("seconds",)
    for table in ("rounds", "answers"):
        rows = [
            [{k: v for k, v in row.items() if k not in times} for row in found.rows(table)]
            for found in (one, other)
        ]
        assert rows[0] == rows[1], table


async def on_ray(root: Path, n: int = 6, engine: RayEngine | None = None, **more: Any) -> Results:
    root.mkdir(exist_ok=True)
    asked = config(**{"conditions": ["triplets", "feedback"], "seeds": [0, 1], **more})
    return await run_eval(
        asked,
        root / "e",
        root=root,
        dataset=ListedSet(scene_items(n)),
        engine=engine or RayEngine(workers=2, given=PLAIN),
    )


async def on_one(root: Path, n: int = 6, **more: Any) -> Results:
    root.mkdir(exist_ok=True)
    asked = config(**{"conditions": ["triplets", "feedback"], "seeds": [0, 1], **more})
    return await run_eval(
        asked, root / "e", root=root, dataset=ListedSet(scene_items(n)), given=plain(root)
    )


@pytest.mark.parametrize("apart", [False, True], ids=["its files", "no files of the driver"])
async def test_its_tables_are_those_of_the_local_engine(tmp_path: Path, apart: bool) -> None:
    local = await on_one(tmp_path / "local")
    found = await on_ray(tmp_path / "ray", engine=RayEngine(2, given=PLAIN, apart=apart))
    same(local, found)
    assert book(tmp_path / "ray") == book(tmp_path / "local")
    for row in found.rows("rounds"):
        assert (tmp_path / "ray" / "e" / "images" / f"{row['image']}.png").is_file()


@pytest.mark.parametrize("apart", [False, True], ids=["its files", "no files of the driver"])
async def test_each_engine_goes_on_where_the_other_ended(tmp_path: Path, apart: bool) -> None:
    engine = RayEngine(2, given=PLAIN, apart=apart)
    root = tmp_path / "mixed"
    await on_one(root, seeds=[0], conditions=["triplets"])
    half = book(root)
    await on_ray(root, engine=engine)
    assert book(root) > half
    whole = book(root)
    again = await on_one(root)
    assert book(root) == whole
    same(again, await on_one(tmp_path / "calm"))
    same(again, await on_ray(root, engine=engine))
    assert book(root) == whole == book(tmp_path / "calm")


@pytest.mark.parametrize("apart", [False, True], ids=["its files", "no files of the driver"])
async def test_a_worker_killed_in_the_middle_loses_and_repeats_nothing(
    tmp_path: Path, apart: bool
) -> None:
    root, at_once = tmp_path / "ray", 2
    root.mkdir()

    async def killer() -> int:
        until = asyncio.get_running_loop().time() + 120
        while asyncio.get_running_loop().time() < until:
            if (root / "book").exists() and len(ended(root)) >= 60:
                break
            await asyncio.sleep(0.005)
        pid = int(next((root / "pids").iterdir()).name)
        os.kill(pid, signal.SIGKILL)
        return pid

    killing = asyncio.create_task(killer())
    found = await on_ray(
        root, 12, RayEngine(2, given=SLOW, apart=apart), concurrency=at_once, seeds=[0]
    )
    assert str(await killing) in {file.name for file in (root / "pids").iterdir()}
    calm = await on_one(tmp_path / "calm", 12, seeds=[0])
    for table in TABLES:
        assert found.table(table).equals(calm.table(table)), table
    images = [[row["image"] for row in r.rows("rounds")] for r in (found, calm)]
    assert images[0] == images[1]
    # A call that had ended when its process was killed may not have been kept yet: one an item
    # at work. (Each judge of a panel answers at the same time, and notes a line a fact.) Where the
    # driver's files are not seen, a loop under way begins anew as a whole: its run folder is gone.
    item_of = {
        row[column]: row["item"]
        for row in found.rows("rounds")
        for column in ("image", "reference_image")
    }
    twice = [line for line, count in ended(root).items() if count > 1]
    seen = {line.split()[-2] for line in twice if "answer" in line}
    drawn = len([line for line in twice if "generate" in line])
    assert len({item_of[image] for image in seen}) <= at_once
    if apart:
        pictures = Counter(item for image, item in item_of.items() if image)
        assert drawn <= sum(count for _, count in pictures.most_common(at_once))
    else:
        assert len(seen) <= at_once
        assert drawn <= at_once
    assert set(ended(root)) == set(ended(tmp_path / "calm"))


@pytest.mark.parametrize("apart", [False, True], ids=["its files", "no files of the driver"])
async def test_a_model_exchanged_under_its_name_is_noticed_from_workers_too(
    tmp_path: Path, apart: bool
) -> None:
    engine = RayEngine(2, given=EXCHANGED, apart=apart)
    asked = {"conditions": ["triplets"], "seeds": [0], "protocol": "grounded", "sentinels": 1.0}
    root = tmp_path / "ray"
    with pytest.raises(ModelChangedError, match="api:c gives other answers to sentinel pictures"):
        await on_ray(root, 100, engine, **asked)
    found = await on_ray(root, 100, engine, on_model_change="split", **asked)
    (drift, *_) = found.manifest[SERVED]["drifts"]
    assert drift["name"] == "v1"
    panels = {row["panel"] for row in found.rows("scores")}
    assert {"report@v1", f"report@{drift['version']}"} <= panels
    assert found.manifest["sentinels"]["api:c"]["pictures"] > 20


async def test_what_kills_every_worker_ends_the_evaluation_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(EvalError, match=r"workers .*died.*memory"):
        await on_ray(tmp_path / "ray", engine=RayEngine(2, given=DEADLY))


async def test_workers_with_other_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EvalError, match=r"other models.*fingerprint.*same versions"):
        await on_ray(tmp_path / "ray", engine=RayEngine(1, given=OTHERS))


async def test_failures_in_a_row_stop_it_on_a_cluster_too(tmp_path: Path) -> None:
    root = tmp_path / "ray"
    root.mkdir()
    with pytest.raises(EvalError, match=r"3 failures in a row.*no photo"):
        await run_eval(
            config(conditions=["originals"], stop_after_failures=3),
            root / "e",
            root=root,
            dataset=ListedSet(scene_items(8)),
            engine=RayEngine(2, given=PLAIN),
        )


async def test_items_at_work_are_bounded_whatever_the_size_of_the_set(tmp_path: Path) -> None:
    taken, most, done = 0, 0, 0

    class Counting(ListedSet):
        def __iter__(self) -> Iterator[Any]:
            nonlocal taken
            for item in super().__iter__():
                taken += 1
                yield item

    def watch(now: Progress) -> None:
        nonlocal most, done
        done = max(done, now.items)
        most = max(most, taken - now.items)

    root = tmp_path / "ray"
    root.mkdir()
    found = await run_eval(
        # The predicates of a set are counted over the whole of it, before anything is at work.
        config(concurrency=2, metrics=["sgscore"], predicates="package"),
        root / "e",
        root=root,
        dataset=Counting(scene_items(150)),
        on_progress=watch,
        engine=RayEngine(2, given=PLAIN),
    )
    assert len(found.rows("items")) == 150
    # Two items at work in each of two workers, and 32 read ahead of the disk.
    assert most <= 2 * 2 + 32


async def test_models_that_were_built_here_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EvalError, match="module:function"):
        await run_eval(
            config(),
            tmp_path / "e",
            given=scripted(),
            dataset=ListedSet(scene_items()),
            engine=RayEngine(1),
        )
    with pytest.raises(EvalError, match="no_such"):
        await on_ray(tmp_path / "ray", engine=RayEngine(1, given="tests.doubles:no_such"))


async def test_workers_share_the_limits_of_an_account(tmp_path: Path) -> None:
    root = tmp_path / "ray"
    root.mkdir()
    with serving_thread(MockSettings(concurrent=2, latency=0.05)) as lab:
        account = {
            "provider": "openai",
            "base_url": f"{lab.url}/v1",
            "key_variable": "",
            "concurrent": 2,
        }
        found = await run_eval(
            config(concurrency=4, panels={"report": {"judges": ["lab:gpt-4o-mini"]}}),
            root / "e",
            root=root,
            settings=load_settings(accounts={"lab": account}),
            dataset=ListedSet(scene_items(12)),
            engine=RayEngine(2, given=PLAIN),
        )
        [seen] = lab.report()["accounts"].values()
    assert seen["answered"] >= 12
    # Each worker alone would have two calls under way.
    assert seen["rate_limited"] == seen["over_limit"] == 0
    assert seen["most_at_once"] == 2
    assert len({row["item"] for row in found.rows("answers")}) == 12
