"""Building a set on a cluster: the files of the local engine, and what becomes of dying workers."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from scenewright.cli.data_annotate import app
from scenewright.core.images import ImageError
from scenewright.evals.annotation.panel_queries import text_model_of
from scenewright.evals.annotation.pipeline import Building, Summary
from scenewright.evals.annotation.task import fetch_photo, models_of
from scenewright.evals.datasets.base import file_digest
from scenewright.evals.errors import EvalError
from scenewright.evals.runner.engines.cluster import RateLimitClient
from scenewright.evals.runner.engines.ray_engine import RayEngine
from scenewright.evals.runner.task import Engine, LocalEngine
from scenewright.evals.store.ledger import Ledger, Photo
from scenewright.mock_providers import MockSettings, ThreadedMockProviders, serving_thread
from scenewright.providers.limits import AccountLimits
from scenewright.providers.versions import SERVED_FILE
from scenewright.runs.model_factory.local_models import SHARED
from scenewright.runs.model_factory.profiles import get_caller
from tests.doubles import painted
from tests.evals.annotation.annotation_models import (
    DEADLY,
    NOTED,
    OTHERS,
    PANEL,
    POISON,
    settings_for,
    write_down,
)
from tests.evals.annotation.building import Photos, config_of, lines_of

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'scenewright[ray]'")
pytestmark = pytest.mark.slow
FILES = ("graphs.jsonl", "train.jsonl", "val.jsonl", "test.jsonl", "statistics.json",
         "synonyms.json", "attributes.json")  # fmt: skip
JUDGED = {"consensus": "judges", "judges": ("lab:judge-a",), "threshold": 0.2}


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(
        "local", num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR"
    )
    yield
    ray.shutdown()


@pytest.fixture
def lab() -> Iterator[ThreadedMockProviders]:
    with serving_thread() as made:
        yield made


@pytest.fixture
def photos(tmp_path: Path) -> Photos:
    return Photos(tmp_path / "photos", 6)


def urls(lab: ThreadedMockProviders) -> dict[str, str]:
    return {"openai": lab.openai_url, "gemini": lab.url}


def asked(lab: ThreadedMockProviders) -> int:
    """Requests that came, those that the mock server knew again included."""
    return sum(account["arrivals"] for account in lab.report()["accounts"].values())


async def built(
    folder: Path,
    photos: Photos,
    lab: ThreadedMockProviders,
    engine: Engine,
    told: Callable[[str, int, int | None], None] = lambda stage, done, of: None,
    text: bool = True,
    **changes: Any,
) -> Summary:
    given = {"least_relations": 0, "threshold": 0.4, "batch": 2, "concurrency": 2, **changes}
    panel = given.pop("panel", PANEL)
    retry = given.pop("retry", False)
    config, settings = config_of(*panel, **given), settings_for(**urls(lab))
    models = models_of(config, settings)
    reader = text_model_of(panel[0], settings) if text else None
    if not (folder.parent / "models.json").exists():
        folder.parent.mkdir(exist_ok=True)
        write_down(folder, config, urls(lab))
    building = Building(
        config, photos, folder, models.voters, reader, models.judges,
        retry=retry, told=told, engine=engine, settings=settings,
    )  # fmt: skip
    try:
        return await building.run(building.plan())
    finally:
        building.close()
        # Connections belong to this test's event loop.
        await SHARED.aclose()


def here() -> Engine:
    return LocalEngine()


def on_ray(**options: Any) -> Engine:
    return RayEngine(**{"workers": 2, **options})


def same(one: Path, other: Path) -> None:
    """All files are the same, byte by byte, but for what tells times."""
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    votes = [pq.read_table(folder / "votes.parquet") for folder in (one, other)]
    assert votes[0].num_rows
    assert votes[0].equals(votes[1])
    spent = []
    for folder in (one, other):
        with Ledger(folder / "ledger.sqlite") as ledger:
            spent.append(ledger.spent())
    assert spent[0] == spent[1]


@pytest.mark.parametrize(
    ("apart", "changes"),
    [(False, {}), (True, JUDGED)],
    ids=["votes", "judges, no files of the driver"],
)
async def test_its_files_are_those_of_the_local_engine(
    tmp_path: Path, photos: Photos, lab: ThreadedMockProviders, apart: bool, changes: dict[str, Any]
) -> None:
    local = await built(tmp_path / "local" / "set", photos, lab, here(), **changes)
    calls = asked(lab)
    lab.reset()
    made = await built(tmp_path / "ray" / "set", photos, lab, on_ray(apart=apart), **changes)
    same(tmp_path / "local" / "set", tmp_path / "ray" / "set")
    assert (made.graphs, made.problems) == (6, []) == (local.graphs, local.problems)
    assert made.usd == local.usd
    kept = [line["relationships"] for line in lines_of(tmp_path / "ray" / "set" / "graphs.jsonl")]
    assert any(kept)
    files = [{file.name for file in (tmp_path / n / "set").iterdir()} for n in ("local", "ray")]
    # On Ray workers ask the judges, and keep what they hear of versions in their log.
    assert files[0] - {SERVED_FILE} == files[1]
    manifests = [
        json.loads((tmp_path / name / "set" / "manifest.json").read_text())
        for name in ("local", "ray")
    ]
    for manifest in manifests:
        manifest.pop("made")
    assert manifests[0] == manifests[1]
    assert asked(lab) == calls


async def test_each_engine_goes_on_where_the_other_ended(
    tmp_path: Path, photos: Photos, lab: ThreadedMockProviders
) -> None:
    folder, stages = tmp_path / "mixed" / "set", list[str]()
    photos.count = 2
    await built(folder, photos, lab, here(), text=False, **JUDGED)
    half = asked(lab)
    photos.count = 6
    await built(folder, photos, lab, on_ray(), text=False, **JUDGED)
    assert asked(lab) == 3 * half
    again = await built(folder, photos, lab, here(), text=False, **JUDGED)
    assert (again.graphs, asked(lab)) == (6, 3 * half)

    def told(stage: str, done: int, of: int | None) -> None:
        stages.append(stage)

    await built(folder, photos, lab, on_ray(), told, text=False)
    assert asked(lab) == 3 * half
    assert "cluster" not in stages, "nothing lacks: no worker is hired"


async def test_a_worker_killed_in_the_middle_loses_and_repeats_nothing(tmp_path: Path) -> None:
    photos, at_once = Photos(tmp_path / "photos", 24), 2
    killed = list[int]()

    def killer(stage: str, done: int, of: int | None) -> None:
        if stage == "annotate" and done == 15:
            assert of == 48
            killed.append(int(next((tmp_path / "ray" / "pids").iterdir()).name))
            os.kill(killed[0], signal.SIGKILL)

    with serving_thread(MockSettings(latency=0.05)) as lab:
        made = await built(
            tmp_path / "ray" / "set", photos, lab, on_ray(given=NOTED), killer, text=False
        )
        accounts = lab.report()["accounts"].values()
    assert killed
    assert (made.graphs, made.problems) == (24, [])
    # What was under way: two photos, each asked of two models. The mock knows a request that is
    # sent again by its key; one whose client died before it was worked on was not paid.
    assert sum(account["executed_twice"] for account in accounts) == 0
    assert sum(account["executed"] for account in accounts) == 48
    assert sum(account["arrivals"] for account in accounts) <= 48 + 2 * at_once
    with serving_thread() as lab:
        await built(tmp_path / "calm" / "set", photos, lab, here(), text=False)
    for name in ("graphs.jsonl", "statistics.json"):
        texts = [(tmp_path / one / "set" / name).read_bytes() for one in ("ray", "calm")]
        assert texts[0] == texts[1], name


async def test_a_photo_that_kills_its_workers_ends_it_and_is_named(
    tmp_path: Path, photos: Photos, lab: ThreadedMockProviders
) -> None:
    painted((64, 48), POISON).save(photos.folder / "3.png")
    with pytest.raises(EvalError, match=r"3 workers died with the item 'photo 3' at hand"):
        await built(tmp_path / "set", photos, lab, on_ray(given=DEADLY), text=False, concurrency=1)
    photos.count = 3
    before = asked(lab)
    made = await built(tmp_path / "set", photos, lab, here(), text=False)
    assert (made.graphs, asked(lab)) == (3, before), "what was answered is kept"


async def test_workers_with_other_models_are_refused(
    tmp_path: Path, photos: Photos, lab: ThreadedMockProviders
) -> None:
    with pytest.raises(EvalError, match=r"other models.*panel.*same versions"):
        await built(tmp_path / "set", photos, lab, on_ray(given=OTHERS), text=False)


async def test_failures_and_lost_photos_are_replies_with_reasons(
    tmp_path: Path, photos: Photos, lab: ThreadedMockProviders
) -> None:
    lab.set_share("refusal", 1.0)
    folder = tmp_path / "ray" / "set"

    def lose(stage: str, done: int, of: int | None) -> None:
        # After the photos were looked at, and before any is asked about.
        if stage == "cluster":
            (photos.folder / "1.png").unlink()

    made = await built(folder, photos, lab, on_ray(), lose, text=False)
    assert (made.graphs, sum(count for *_, count in made.problems)) == (0, 12)
    lost = [(model, n) for _, model, reason, n in made.problems if "there is no file" in reason]
    assert sorted(lost) == [("gem:instant", 1), ("lab:instant", 1)]
    lab.clear_faults()
    painted((64, 48), (1, 0, 90)).save(photos.folder / "1.png")
    mended = await built(folder, photos, lab, on_ray(), text=False, retry=True)
    assert (mended.graphs, mended.problems) == (6, [])


async def test_one_line_for_all_workers_and_the_driver(tmp_path: Path) -> None:
    photos = Photos(tmp_path / "photos", 10)
    gates = set[type]()
    with serving_thread(MockSettings(concurrent=2, latency=0.02)) as lab:
        settings = settings_for(**urls(lab), concurrent=2)
        config = config_of("lab:instant", concurrency=4, least_relations=0)
        models, text = models_of(config, settings), text_model_of("lab:instant", settings)
        caller = get_caller("lab", settings)

        def told(stage: str, done: int, of: int | None) -> None:
            if stage in ("synonyms", "classes", "attributes"):
                gates.add(type(caller.limits))

        building = Building(
            config, photos, tmp_path / "set", models.voters, text,
            told=told, engine=RayEngine(2), settings=settings,
        )  # fmt: skip
        try:
            made = await building.run(building.plan())
        finally:
            building.close()
            await SHARED.aclose()
        [seen] = lab.report()["accounts"].values()
    assert made.graphs == 10
    # Each worker alone would have two calls under way.
    assert seen["rate_limited"] == seen["over_limit"] == 0
    assert seen["most_at_once"] == 2
    assert gates == {RateLimitClient}
    assert isinstance(caller.limits, AccountLimits)


class _Elsewhere:
    """A desk whose files are not this machine's."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._files = files

    def photo(self, file: str) -> bytes:
        if file not in self._files:
            raise ImageError(f"there is no file {file}: check the path")
        return self._files[file]


def test_a_photo_that_is_not_here_or_another_comes_from_the_driver(tmp_path: Path) -> None:
    kept = tmp_path / "kept.png"
    painted((4, 4), (1, 2, 3)).save(kept)
    mine, lost = tmp_path / "mine.png", str(tmp_path / "lost.png")
    painted((4, 4), (9, 9, 9)).save(mine)
    data = kept.read_bytes()
    desk = ray.remote(_Elsewhere).options(num_cpus=0).remote({str(mine): data, lost: data})
    for file in (lost, str(mine)):
        photo = Photo(0, "a", file, "key", (4, 4), (), file_digest(kept))
        assert fetch_photo(photo, desk).getpixel((0, 0)) == (1, 2, 3)
    same = Photo(0, "a", str(kept), "key", (4, 4), (), file_digest(kept))
    assert fetch_photo(same, desk).getpixel((0, 0)) == (1, 2, 3), "the desk has no such file"
    with pytest.raises(ImageError, match="there is no file"):
        fetch_photo(Photo(0, "a", "no.png", "key", (4, 4), (), "0" * 64), desk)
    ray.kill(desk)


def test_the_command_works_on_a_cluster(
    tmp_path: Path, lab: ThreadedMockProviders, photos: Photos, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenewright.toml").write_text(
        f'[accounts.lab]\nprovider = "openai"\nbase_url = "{lab.openai_url}"\nkey_variable = ""\n'
    )
    kinds = [{"id": 1, "name": "person"}, {"id": 2, "name": "dog"}, {"id": 3, "name": "ball"}]
    boxes = {1: [2, 2, 18, 38], 2: [22, 20, 18, 20], 3: [44, 30, 16, 10]}
    images = [{"id": at, "file_name": f"{at}.png", "width": 64, "height": 48} for at in range(1, 5)]
    marks = [
        {"id": 10 * image["id"] + kind, "image_id": image["id"], "category_id": kind,  # type: ignore[operator]
         "iscrowd": 0, "bbox": box, "area": box[2] * box[3]}
        for image in images
        for kind, box in boxes.items()
    ]  # fmt: skip
    data = {"images": images, "annotations": marks, "categories": kinds}
    (tmp_path / "boxes.json").write_text(json.dumps(data))
    given = ["annotate", "--photos", "photos", "--detections", "boxes.json",
             "--panel", "lab:instant", "--rare", "0", "--json"]  # fmt: skip
    where = ["--out", "far", "--engine", "ray", "--workers", "2"]
    run = CliRunner().invoke(app, [*given, *where], catch_exceptions=False)
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout)["graphs"] == 4
    near = CliRunner().invoke(app, [*given, "--out", "near"], catch_exceptions=False)
    assert near.exit_code == 0, near.output
    assert (tmp_path / "far" / "graphs.jsonl").read_bytes() == (
        tmp_path / "near" / "graphs.jsonl"
    ).read_bytes()
    wrong = CliRunner().invoke(app, [*given, "--workers", "2"], catch_exceptions=False)
    assert wrong.exit_code in (2, 3)
    assert "add --engine ray" in wrong.output
