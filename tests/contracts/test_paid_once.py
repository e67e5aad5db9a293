"""Nothing is paid for twice, and nothing that is paid for is somebody else's answer.

Every command that asks models runs against a mock server that honours ``Idempotency-Key``: in two
folders it pays twice, and cut off in one folder it goes on without paying again for a request whose
reply it never got.
"""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scenewright.config.settings import Settings, load_settings
from scenewright.core.formats import load_scene
from scenewright.evals.annotation.panel_queries import text_model_of, voters_of
from scenewright.evals.annotation.pipeline import Building
from scenewright.evals.datasets.base import Item
from scenewright.evals.gate.judges import plan_judge_gate, run_judge_gate
from scenewright.evals.gate.result import GateOptions
from scenewright.evals.gate.running import plan_gate, run_gate
from scenewright.evals.gate.subjects import Drawn
from scenewright.evals.judge_reports.judge_runs import run_judges
from scenewright.evals.judge_reports.labelled_facts import read_labels
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.runner.task import LocalEngine, Task
from scenewright.evals.store.ledger import Ledger
from scenewright.evals.store.results import MANIFEST, Results
from scenewright.evals.studies.panel.running import run_study
from scenewright.evals.studies.panel.study import StudyConfig
from scenewright.evals.studies.real.real_scorer import Picture, RealScorer, score_pictures
from scenewright.evals.studies.real.schema import read_schemas
from scenewright.evals.studies.real.schema_making import ClassText, make_schemas
from scenewright.evals.studies.xtc.config import XtcConfig
from scenewright.evals.studies.xtc.running import run_xtc
from scenewright.miniature.painter import paint
from scenewright.mock_providers import Fault, MockProviders, MockSettings, serving
from scenewright.mock_providers.accounts import StoredReply
from scenewright.providers import AnswerStore
from scenewright.runs.api import refine
from scenewright.runs.model_factory.profiles import build_judge
from tests.evals.annotation.building import Photos, config_of
from tests.evals.eval_sets import ListedSet, config, scene_items

KEY, EYES = "key of the contract", "key of the eyes"
JUDGE, OTHER = "lab:instant", "lab:instant-2"
CUTS = (1, 2)
"""Number of the request at which a command is cut off, one start after the other."""
THINGS = ("dog", "ball", "cat", "car")
"""What the pictures show."""


@dataclass(frozen=True)
class Bench:
    """What a command gets."""

    folder: Path
    """Its own folder."""
    shared: Path
    """Folder of pictures and tables that all runs of it read."""
    settings: Settings


Command = Callable[[Bench], Awaitable[object]]


class OneWorker(LocalEngine):
    """Does the items of a task as a worker of a cluster does."""

    @asynccontextmanager
    async def at_work(self, task: Task[Any]) -> AsyncIterator[Any]:
        with ExitStack() as stack:
            # As it is sent to another process.
            worker = await pickle.loads(pickle.dumps(task.spec)).open(True, stack)

            async def work(items: Any) -> None:
                async for position, item in items:
                    listener = task.begin(position, item)
                    listener.hear(await worker.do(listener.given, listener.hear))

            yield work


async def refinement(bench: Bench) -> object:
    return await refine(
        "red ball on table", "lab", out=bench.folder, settings=bench.settings, rounds=2, page=False
    )


async def directed(bench: Bench) -> object:
    return await refine(
        "red ball on table",
        "directed",
        out=bench.folder,
        settings=bench.settings,
        rounds=2,
        page=False,
    )


async def evaluation(bench: Bench, engine: LocalEngine = LocalEngine()) -> object:  # noqa: B008
    asked = config(
        backends=["lab"],
        conditions=["composition", "feedback"],
        panels={"own": {"judges": [JUDGE]}, "other": {"judges": [OTHER]}},
        allow_loop_judges=True,
        size=(64, 64),
        metrics=["sgscore"],
    )
    items = ListedSet(scene_items(2))
    return await run_eval(
        asked, bench.folder, settings=bench.settings, dataset=items, engine=engine
    )


async def evaluation_by_a_worker(bench: Bench) -> object:
    return await evaluation(bench, OneWorker())


async def gate(bench: Bench) -> object:
    asked = config(panels={"own": {"judges": [JUDGE]}}, conditions=["triplets"], size=(64, 64))
    planned = plan_gate(
        *(Drawn("lab"), Drawn("lab", {"backend.model": "instant-image-2"})),
        GateOptions(limit=3),
        bench.folder,
        config=asked,
        dataset=ListedSet(scene_items(3)),
        settings=bench.settings,
    )
    return await run_gate(planned, batch=2)


async def judge_gate(bench: Bench) -> object:
    labels = bench.shared / "labels.csv"
    planned = plan_judge_gate(
        JUDGE, OTHER, labels, GateOptions(), bench.folder, settings=bench.settings
    )
    return await run_judge_gate(planned, batch=1)


async def judges(bench: Bench) -> object:
    facts = read_labels(bench.shared / "labels.csv")
    asked = [build_judge(spec, bench.settings) for spec in (JUDGE, OTHER)]
    bench.folder.mkdir(exist_ok=True)
    with closing(AnswerStore(bench.folder / "answers.db")) as store:
        return await run_judges(asked, facts, store=store)


async def xtc(bench: Bench) -> object:
    asked = XtcConfig.model_validate(
        {
            "name": "trial",
            "dataset": {"name": "listed"},
            "models": {"one": {"profile": "lab", "understander": f"chat:{JUDGE}"}},
            "extractor": f"one-stage:{JUDGE}",
            "prompt": "lab:script:poet",
            "grader": JUDGE,
            "similarity": "exact",
        }
    )
    items = [
        Item(id=name, scene=load_scene(f"red {name}"), image=str(bench.shared / f"{name}.png"))
        for name in THINGS[:2]
    ]
    return await run_xtc(asked, bench.folder, settings=bench.settings, dataset=ListedSet(items))


async def annotation(
    bench: Bench,
    engine: LocalEngine = LocalEngine(),  # noqa: B008
) -> object:
    asked = config_of(JUDGE, consensus="judges", judges=[OTHER])
    building = Building(
        *(asked, Photos(bench.shared / "photos", 3), bench.folder),
        voters_of([JUDGE], bench.settings),
        text_model_of(JUDGE, bench.settings),
        [build_judge(OTHER, bench.settings)],
        engine=engine,
        settings=bench.settings,
    )
    with closing(building):
        return await building.run(building.plan())


async def annotation_by_a_worker(bench: Bench) -> object:
    return await annotation(bench, OneWorker())


async def study(bench: Bench) -> object:
    asked = StudyConfig.model_validate(
        {
            "name": "trial",
            "source": {"kind": "labels", "path": "labels.csv", "judges": [JUDGE, OTHER]},
            "parts": ["images"],
            "resamples": 100,
        }
    )
    return await run_study(asked, bench.folder, root=bench.shared, settings=bench.settings)


async def real_scores(bench: Bench) -> object:
    schemas = read_schemas(bench.shared / "schema.toml")
    pictures = [Picture(bench.shared / f"{name}.png", "red dog") for name in THINGS]
    bench.folder.mkdir(exist_ok=True)
    with closing(AnswerStore(bench.folder / "answers.db")) as store:
        scorer = RealScorer([build_judge(JUDGE, bench.settings)], store)
        return await score_pictures(scorer, pictures, schemas, bench.folder / "rows.jsonl")


async def schemas(bench: Bench) -> object:
    texts = [
        ClassText(name, f"A {name} has a red wing and a tail.")
        for name in ("lark", "owl", "crow", "tit")
    ]
    bench.folder.mkdir(exist_ok=True)
    with Ledger(bench.folder / "replies.db") as ledger:
        return await make_schemas(ledger, text_model_of(JUDGE, bench.settings), texts)


COMMANDS: dict[str, Command] = {
    "refine": refinement,
    "refine with a director": directed,
    "eval run": evaluation,
    "eval run on a worker": evaluation_by_a_worker,
    "gate": gate,
    "gate of judges": judge_gate,
    "judges report": judges,
    "eval xtc": xtc,
    "data annotate": annotation,
    "data annotate on a worker": annotation_by_a_worker,
    "study": study,
    "real-bench score": real_scores,
    "real-bench schema make": schemas,
}
"""Name of a command → how it works in a folder."""

SCHEMA = """
[[classes]]
name = "red dog"
existence = "Is there a dog in the image?"
[[classes.attributes]]
part = "dog"
description = "red"
[[classes.attributes]]
part = "ball"
description = "blue"
"""


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pictures, labels and a schema."""
    monkeypatch.setenv("KEY_OF_THE_LAB", KEY)
    monkeypatch.setenv("KEY_OF_THE_EYES", EYES)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "shared"
    folder.mkdir()
    for at, name in enumerate(THINGS):
        paint(load_scene(f"red {name}"), seed=at).image.save(folder / f"{name}.png")
    rows = "".join(f"{name}.png,{name},1\n{name}.png,tree,0\n" for name in THINGS)
    (folder / "labels.csv").write_text("image,subject,holds\n" + rows, encoding="utf-8")
    (folder / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    return folder


def settings_for(url: str) -> Settings:
    account = {"provider": "openai", "base_url": f"{url}/v1", "key_variable": "KEY_OF_THE_LAB"}
    drawing = {"backend": {"kind": "lab", "model": "instant-image"}, "chat": "lab:script:poet"}
    lab = {**drawing, "judges": [JUDGE], "report_judges": [OTHER]}
    directed = {**lab, "chat": "lab:script:director", "strategy": "director"}
    return load_settings(
        accounts={"lab": account, "eyes": account | {"key_variable": "KEY_OF_THE_EYES"}},
        profiles={"lab": lab, "directed": directed},
    )


async def cut_off(lab: MockProviders, work: Coroutine[Any, Any, object], after: int) -> None:
    """Cancel ``work`` at its request of that number; the server answers it all the same."""
    task = asyncio.ensure_future(work)
    claim, left = lab.replays.claim, after

    async def counted(account: str, key: str, asked: str) -> StoredReply | None:
        nonlocal left
        left -= 1
        if left == 0:
            task.cancel()
        return await claim(account, key, asked)

    lab.replays.claim = counted  # type: ignore[method-assign]
    try:
        with pytest.raises(asyncio.CancelledError):
            await task
    finally:
        lab.replays.claim = claim  # type: ignore[method-assign]


@pytest.mark.parametrize("name", COMMANDS)
async def test_a_command_pays_in_each_folder_and_once_in_each(
    name: str, shared: Path, tmp_path: Path
) -> None:
    command = COMMANDS[name]
    async with serving(MockSettings(same_pictures=True)) as lab:

        def counted() -> dict[str, int]:
            found: dict[str, int] = lab.report()["accounts"][KEY]
            return found

        bench = Bench(tmp_path / "one", shared, settings_for(lab.url))
        await command(bench)
        calls = counted()["executed"]
        assert calls > sum(CUTS)
        assert counted()["replayed"] == 0

        bench = Bench(tmp_path / "other", shared, bench.settings)
        for after in CUTS:
            await cut_off(lab, command(bench), after)  # type: ignore[arg-type]
        await command(bench)
        found = counted()
        # What was under way when it was cut off is asked for again, and is paid for already.
        assert found["replayed"] >= len(CUTS)
        assert found["executed"] == 2 * calls
        assert found["executed_twice"] == 0


async def judged(bench: Bench, *, seeds: int = 1, retry: bool = False) -> Results:
    """Evaluate one scene, whose judge has an account of its own."""
    asked = config(
        backends=["lab"],
        conditions=["triplets"],
        panels={"own": {"judges": ["eyes:instant"]}},
        seeds=list(range(seeds)),
        size=(64, 64),
    )
    items = ListedSet(scene_items(1))
    return await run_eval(asked, bench.folder, settings=bench.settings, dataset=items, retry=retry)


async def test_a_new_try_is_asked_anew(shared: Path, tmp_path: Path) -> None:
    """A gateway keeps the reply of no use: it is not what a new try gets."""
    async with serving(MockSettings(same_pictures=True)) as lab:
        bench = Bench(tmp_path / "one", shared, settings_for(lab.url))
        lab.faults.schedule(Fault.EMPTY, 100, EYES)
        for retry in (False, True):
            results = await judged(bench, retry=retry)
            assert {row["state"] for row in results.rows("answers")} == {"unscored"}
        lab.faults.clear()
        results = await judged(bench, retry=True)
        assert "unscored" not in {row["state"] for row in results.rows("answers")}
        assert lab.report()["accounts"][EYES]["replayed"] == 0


async def test_a_folder_from_before_it_had_a_nonce_goes_on(shared: Path, tmp_path: Path) -> None:
    async with serving(MockSettings()) as lab:
        bench = Bench(tmp_path / "one", shared, settings_for(lab.url))
        await judged(bench)
        file = bench.folder / MANIFEST
        manifest = json.loads(file.read_text(encoding="utf-8"))
        del manifest["nonce"]
        file.write_text(json.dumps(manifest), encoding="utf-8")
        before = lab.report()["accounts"][EYES]["executed"]
        await judged(bench)
        assert lab.report()["accounts"][EYES]["executed"] == before
        assert (await judged(bench, seeds=2)).table("rounds").num_rows == 2
        report = lab.report()["accounts"][EYES]
        assert report["executed"] > before
        assert report["replayed"] == 0
