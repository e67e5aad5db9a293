"""No metric and no study turns the failure of a part into a number: every one of the registries is
walked, with each of its parts failing in each way.

What is asked of all: no value as if nothing had happened and no zero; the reason; a count; and
after ``--retry`` with parts that work the scores of an evaluation in which nothing failed, without
asking again what had answered.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from PIL import Image

from scenewright.config.settings import Settings
from scenewright.evals.datasets.base import Item
from scenewright.evals.metrics.base import SetMetric
from scenewright.evals.metrics.registry import METRICS
from scenewright.evals.reporting.score_matrix import load_score_matrix
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.store.results import Results, Table
from scenewright.evals.studies.psg.graph_damage import Measured
from scenewright.evals.studies.readings import lost_notes, read
from scenewright.evals.studies.registry import STUDIES, studies_named
from scenewright.evals.studies.running import Evaluation, run_studies
from scenewright.evals.studies.study import Context, Outcome, Setup, Trial
from scenewright.evals.studies.xtc import study as xtc
from scenewright.evals.studies.xtc.scores import NodeCount, xtc_scores
from tests.evals.eval_sets import ListedSet, config, scripted
from tests.evals.failing_parts import CASES, ITEMS, REASON, SCENE, Switches, judge
from tests.evals.studies.scene_bench.study_results import Made

Values = dict[tuple[str, str], float | None]


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> ListedSet:
    """Items with scene, text and photo; as many as a set's score needs."""
    folder = tmp_path_factory.mktemp("photos")
    found = []
    for at in range(5):
        photo = folder / f"{at}.png"
        noise = np.random.default_rng(at).integers(0, 255, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(noise).save(photo)
        prompt = f"a red dog left of a blue ball, number {at}"
        found.append(Item(id=f"item-{at}", prompt=prompt, scene=SCENE, image=str(photo)))
    return ListedSet(found)


def ways_of(name: str) -> list[tuple[str, str]]:
    """(part, way) of a metric."""
    switches = Switches()
    with TemporaryDirectory() as folder:
        CASES[name](switches, Path(folder))
    if name == "sgscore":
        judge(switches)
    return [(part, way) for part, switch in switches.by_name.items() for way in switch.ways]


def items_for(name: str, items: ListedSet, metric: Any) -> ListedSet:
    """One item, or all for a metric of sets, with what the metric needs besides."""
    some = items.items if isinstance(metric, SetMetric) else items.items[:1]
    return ListedSet([item.model_copy(update=ITEMS.get(name, {})) for item in some])


async def evaluated(
    name: str, folder: Path, items: ListedSet, switches: Switches, metric: Any, **more: Any
) -> Results:
    given = scripted()
    judges = {name: judge(switches) for name in given.judges} if name == "sgscore" else {}
    given = replace(given, metrics=[metric], judges={**given.judges, **judges})
    used = items_for(name, items, metric)
    return await run_eval(config(), folder, given=given, dataset=used, **more)


def own(found: Results) -> list[dict[str, Any]]:
    return [row for row in found.rows("scores") if not row["part"] and not row["scope"]]


def values(found: Results) -> Values:
    rows = [row for row in found.rows("scores") if not row["scope"]]
    return {(row["item"], row["part"]): row["value"] for row in rows}


@pytest.fixture(scope="module")
def healthy() -> dict[str, Values]:
    """Metric → its scores where nothing fails, once they were worked out."""
    return {}


def test_every_metric_of_the_registry_is_walked() -> None:
    assert set(CASES) == set(METRICS), "give the new metric a case in failing_parts.py"


@pytest.mark.parametrize(
    ("name", "part", "way"), [(name, *each) for name in CASES for each in ways_of(name)]
)
async def test_a_part_that_fails_is_told_and_tried_again(
    name: str,
    part: str,
    way: str,
    items: ListedSet,
    healthy: dict[str, Values],
    tmp_path: Path,
) -> None:
    if name not in healthy:
        none = Switches()
        metric = CASES[name](none, tmp_path / "kept by a healthy one")
        found = await evaluated(name, tmp_path / "healthy", items, none, metric)
        assert all(row["value"] and not row["unscored"] for row in own(found))
        healthy[name] = values(found)
    switches = Switches()
    metric = CASES[name](switches, tmp_path / "kept")
    if name == "sgscore":
        judge(switches)
    switch = switches.by_name[part]
    switch.way = way
    failed = await evaluated(name, tmp_path / "e", items, switches, metric)
    rows = own(failed)
    assert len(rows) == len([key for key in healthy[name] if not key[1]])
    for row in rows:
        assert row["value"] is None or row["unscored"], "a failure is no score like any other"
        assert row["value"] != 0.0
        assert row["reason"]
        assert way in ("garbage", "short") or REASON in row["reason"]
    _counted(failed, name, rows)
    calls = {name: each.calls for name, each in switches.by_name.items()}
    switch.way = ""
    healed = await evaluated(name, tmp_path / "e", items, switches, metric, retry=True)
    assert values(healed) == healthy[name]
    assert not any(row["unscored"] or row["reason"] for row in own(healed))
    again = {n for n, each in switches.by_name.items() if each.calls > calls[n] and calls[n]}
    # Models of this machine that say something of the whole picture are asked each time.
    assert again - {"saliency", "style", "encoder"} <= {part, *_after(name, part)}


def _after(name: str, part: str) -> tuple[str, ...]:
    """Parts that must look again since what they looked at has changed, or keep nothing."""
    if name == "compbench":
        return ("detector",)
    return {("ocr", "scorer"): ("detector",), ("geneval", "colors"): ("detector",)}.get(
        (name, part), ()
    )


def _counted(found: Results, name: str, rows: list[dict[str, Any]]) -> None:
    """Reports and studies tell how many there are, and why."""
    board = load_score_matrix(found)
    told = [*board.reasons.elements(), *board.partly.elements()]
    of_sets = [one for one in board.sets if one.value is None or one.unscored]
    assert len([one for one in told if not one[0].part]) + len(of_sets) >= len(rows)
    assert any(name in note for note in lost_notes([read(found, "miniature")]))


@pytest.mark.parametrize("name", list(CASES))
async def test_a_picture_that_cannot_be_drawn_is_told_and_tried_again(
    name: str, items: ListedSet, tmp_path: Path
) -> None:
    switches = Switches()
    metric = CASES[name](switches, tmp_path / "kept")
    whole = isinstance(metric, SetMetric)
    broken = True
    first: list[int] = []

    def failing(request: Any) -> Exception | None:
        first.append(request.seed)
        return RuntimeError(REASON) if broken and request.seed == first[0] else None

    given = replace(scripted(failing=failing), metrics=[metric])
    used = items_for(name, items, metric)
    failed = await run_eval(config(), tmp_path / "e", given=given, dataset=used)
    (row,) = own(failed)
    assert row["unscored"] == 1 if whole else row["value"] is None
    assert f"the drawing failed: RuntimeError: {REASON}" in row["reason"]
    broken = False
    healed = await run_eval(config(), tmp_path / "e", given=given, dataset=used, retry=True)
    (row,) = own(healed)
    assert row["value"] is not None
    assert not row["unscored"]


class Failing(Made):
    """Results of which every fourth item failed: drawings, scores, parts of scores, graphs."""

    def tables(self, evaluation: Evaluation) -> dict[Table, list[dict[str, Any]]]:
        rows = super().tables(evaluation)
        number = {row["item"]: at for at, row in enumerate(rows["items"])}
        for row in rows["scores"]:
            if not row["item"]:
                row |= {"unscored": 2, "reason": REASON}
            elif number[row["item"]] % 4 == 0:
                row |= {"value": None, "reason": REASON}
            elif number[row["item"]] % 4 == 1 and not row["part"]:
                row |= {"unscored": 1, "reason": REASON}
        for row in rows["verdicts"]:
            if number[row["item"]] % 4 == 0:
                row["state"] = "unscored"
        return rows

    async def conduct(self, sitting: Trial) -> tuple[Any, Context]:
        found, context = await super().conduct(sitting)
        if isinstance(found, Measured):
            for values in found.values.values():
                values[::4] = np.nan
            return found, context
        facts = {
            model: tuple(
                fact.model_copy(update={"u": None, "reason": REASON}) if at % 4 == 0 else fact
                for at, fact in enumerate(every)
            )
            for model, every in found.facts.items()
        }
        nodes = [NodeCount(scene=f"s{at:03d}", nodes=4, matched=3) for at in range(self.items)]
        return xtc.Found(facts, {m: xtc_scores(some, nodes) for m, some in facts.items()}), context


async def test_every_study_tells_what_failed_and_makes_no_figure_of_it(tmp_path: Path) -> None:
    setup = Setup(n=40, seeds=(0,))
    studies = studies_named(*STUDIES)
    done = {}
    for name, made in (("whole", Made()), ("failing", Failing())):
        found = await run_studies(
            studies,
            setup,
            tmp_path / name,
            settings=Settings(),
            perform=made,
        )
        done[name] = {one.study.name: one.outcome for one in found}
    assert set(done["failing"]) == set(STUDIES)
    for name, outcome in done["failing"].items():
        more = set(outcome.notes) - set(done["whole"][name].notes)
        assert any("left out" in note or "failed" in note for note in more), name
        cells = zip(_measured(outcome), _measured(done["whole"][name]), strict=True)
        known = [(failing, whole) for failing, whole in cells if failing and whole]
        assert known
        # A quarter of zeros would take a quarter of each.
        assert np.median([failing / whole for failing, whole in known]) > 0.9, name


def _measured(outcome: Outcome) -> list[float | None]:
    return [
        cell.measured.value if cell.measured is not None else None
        for table in outcome.tables
        for row in table.rows
        for cell in row.cells
    ]
