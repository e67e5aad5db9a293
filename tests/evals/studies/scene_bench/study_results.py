"""Results of evaluations as studies read them, made of known numbers instead of pictures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from scenewright.evals.store.results import MANIFEST, SCHEMAS, Results, Table, arm_name
from scenewright.evals.studies.psg.graph_damage import DAMAGES, MOST_EDITS, SCORES, Measured
from scenewright.evals.studies.readings import PromptsRead, read
from scenewright.evals.studies.running import Evaluation, Job, context_of
from scenewright.evals.studies.study import Context, Trial
from scenewright.evals.studies.xtc import study as xtc
from scenewright.evals.studies.xtc.scores import NodeCount, xtc_scores
from tests.evals.studies.scene_bench.xtc_facts import made_facts

HEIGHTS = {
    "triplets": 0.50,
    "composition": 0.70,
    "lambda1_0": 0.68,
    "feedback_whole": 0.75,
    "feedback": 0.80,
}
"""Condition → ObjectRecall of a scene without relations; RelationRecall is 0.2 below."""
FALL = 0.02
"""Recall that one more relation costs."""
LOOPS = ("lambda1_0", "feedback_whole", "feedback")
CATEGORIES = ("Daily Life", "Social Interaction", "Nature")


@dataclass
class Made:
    """A runner that draws nothing; remembers what it was asked."""

    items: int = 40
    noise: float = 0.03
    flat: bool = False
    """Whether all values are alike."""
    asked: list[Evaluation] = field(default_factory=list)
    sat: list[Trial] = field(default_factory=list)
    """Trials."""

    async def __call__(self, job: Job, folder: Path, told: Any) -> tuple[Any, Context]:
        if isinstance(job, Trial):
            return await self.conduct(job)
        self.asked.append(job)
        results = write_results(folder, self.tables(job), job)
        return read(results, job.config.backends[0]), context_of(results, job)

    async def conduct(self, sitting: Trial) -> tuple[Any, Context]:
        self.sat.append(sitting)
        context = Context(set_name=sitting.title, fingerprint="f", items=self.items, seeds=(0,))
        if sitting.family == "xtc":
            facts = made_facts(self.items)
            nodes = [NodeCount(scene=f"s{at:03d}", nodes=4, matched=3) for at in range(self.items)]
            read = PromptsRead(pictures=self.items, cut=0, tokens=0, facts=0)
            scores = {model: xtc_scores(some, nodes, prompts=read) for model, some in facts.items()}
            return xtc.Found(facts, scores), context
        return made_damage(self.items), context

    def tables(self, evaluation: Evaluation) -> dict[Table, list[dict[str, Any]]]:
        config = evaluation.config
        rows: dict[Table, list[dict[str, Any]]] = {name: [] for name in SCHEMAS}
        rows["items"] = list(self._items(evaluation))
        rng = np.random.default_rng(7)
        for seed in config.seeds:
            for condition in config.conditions:
                arm = {
                    "arm": arm_name(config.backends[0], condition, seed),
                    "backend": config.backends[0],
                    "condition": condition,
                    "seed": seed,
                }
                for at, item in enumerate(rows["items"]):
                    self._picture(rows, {"item": item["item"], **arm}, item, at, config, rng)
                self._sets(rows, {"item": "", **arm}, rows["items"], config)
        return rows

    def _items(self, evaluation: Evaluation) -> Iterator[dict[str, Any]]:
        if evaluation.dataset is not None:
            for item in evaluation.dataset:
                yield {
                    "item": item.id,
                    "complexity": 0.0,
                    "level": "simple",
                    "group": item.group,
                    "category": item.category,
                }
            return
        for at in range(self.items):
            size = 1 + at % 10
            yield {
                "item": f"s{at:03d}",
                "complexity": float(size),
                "level": "simple" if size < 4 else "medium" if size < 8 else "hard",
                "group": "People-Centric",
                "category": CATEGORIES[at % 3],
            }

    def _picture(
        self,
        rows: dict[Table, list[dict[str, Any]]],
        arm: dict[str, Any],
        item: dict[str, Any],
        at: int,
        config: Any,
        rng: np.random.Generator,
    ) -> None:
        loops = arm["condition"] in LOOPS
        # Every third scene needs no repair; of the others every second keeps its first picture.
        rounds = 2 if loops and at % 3 else 1
        kept = rounds - 1 if at % 2 else 0
        for number in range(rounds):
            name = arm["condition"] if number or not loops else "composition"
            rows["rounds"].append(
                {
                    **arm,
                    "round": number,
                    "kept": number == kept,
                    "state": "done",
                    "reference_image": "ref" if number else "",
                    # Every fourth scene is too long to be read as triplets.
                    "tokens_dropped": 9 * (arm["condition"] == "triplets" and at % 4 == 0),
                    "facts_dropped": 2 * (arm["condition"] == "triplets" and at % 4 == 0),
                }
            )
            if number != kept and config.judge_rounds == "kept":
                continue
            for panel in config.panels:
                self._scores(rows, arm, item, panel, number, name, rng)
            for metric in config.metrics:
                if metric.name == "psg":
                    height = HEIGHTS[name] - 0.1 - FALL * item["complexity"]
                    value = height if self.flat else height + float(rng.normal(0, self.noise))
                    for part in ("", "nodes", "attributes", "edges", "recall", "precision"):
                        rows["scores"].append(_score(arm, "", number, "psg", part, value))
                if metric.name == "clipscore":
                    value = 23.0 if name == "triplets" else 20.0
                    rows["scores"].append(
                        _score(arm, "", number, "clipscore", "", value + rng.normal(0, 0.1))
                    )

    def _scores(
        self,
        rows: dict[Table, list[dict[str, Any]]],
        arm: dict[str, Any],
        item: dict[str, Any],
        panel: str,
        number: int,
        name: str,
        rng: np.random.Generator,
    ) -> None:
        height = HEIGHTS[name] - FALL * item["complexity"]
        bias = -0.3 if panel == "judge-eager" else 0.0
        jitter = 0.0 if self.flat else float(rng.normal(0, self.noise))
        objects = 1.0 if self.flat else height + bias + jitter
        relations = objects if self.flat else objects - 0.2
        parts = {
            "": (objects + relations) / 2,
            "objects": objects,
            "relations": relations,
            "attributes": objects - (0.0 if self.flat else 0.03),
        }
        for part, value in parts.items():
            rows["scores"].append(_score(arm, panel, number, "sgscore", part, value))
        for fact in range(3):
            yes = rng.random() < 0.5 + bias if panel == "judge-eager" else fact != 1
            rows["verdicts"].append(
                {
                    **arm,
                    "panel": panel,
                    "round": number,
                    "fact": f"o:{fact}",
                    "kind": "object",
                    "state": "yes" if yes else "no",
                }
            )

    def _sets(
        self,
        rows: dict[Table, list[dict[str, Any]]],
        arm: dict[str, Any],
        items: list[dict[str, Any]],
        config: Any,
    ) -> None:
        scopes = ["", *(f"complexity={size}" for size in range(1, 11))]
        for metric in config.metrics:
            if metric.name not in ("is", "fid"):
                continue
            for scope in scopes:
                score = _score(arm, "", None, metric.name, "", 30.0 + 0.1 * arm["seed"])
                rows["scores"].append({**score, "scope": scope, "n": len(items)})


def _score(
    arm: dict[str, Any], panel: str, number: int | None, metric: str, part: str, value: float
) -> dict[str, Any]:
    return {
        **arm,
        "panel": panel,
        "round": number,
        "metric": metric,
        "version": "1",
        "part": part,
        "scope": "",
        "value": value,
        "reason": "",
        "n": 1,
    }


def made_damage(graphs: int) -> Measured:
    """Scores that fall by 0.02 an edit, half of that in the background; G sees no additions."""
    rng = np.random.default_rng(3)
    edits = np.arange(1 + MOST_EDITS)
    found = Measured()
    for score in SCORES:
        for damage in DAMAGES:
            slope = 0.02 if damage.layer == "foreground" or score == "xtc" else 0.01
            if score == "xtc" and damage.way == "add":
                slope = 0.0
            each = slope * (1 + 0.1 * rng.random((graphs, 1)))
            found.values[score, damage.key] = 1.0 - each * edits
    return found


def write_results(
    folder: Path, tables: dict[Table, list[dict[str, Any]]], evaluation: Evaluation | None = None
) -> Results:
    """The folder of an evaluation with these rows; columns that are not given are null."""
    folder.mkdir(parents=True, exist_ok=True)
    manifest: dict[str, Any] = {
        "format": 1,
        "models": {"arms": {}, "panels": {}},
        "totals": {"images": 3.0, "usd": 0.0},
    }
    if evaluation is not None:
        manifest["models"] = {
            "arms": {"a": {"backend": {"id": "diffusers:made", "fingerprint": "f"}}},
            "panels": {
                name: [{"id": judge, "fingerprint": "f"} for judge in spec.judges]
                for name, spec in evaluation.config.panels.items()
            },
        }
        if any(metric.name == "psg" for metric in evaluation.config.metrics):
            # The miniature's extractor asks judges of its loop.
            steered = {"miniature/feedback/0": ["local:miniature/judge-a"]}
            manifest["self_reports"] = {"metric psg": steered}
    (folder / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    for name, schema in SCHEMAS.items():
        full = [{field: row.get(field) for field in schema.names} for row in tables.get(name, [])]
        pq.write_table(pa.Table.from_pylist(full, schema=schema), folder / f"{name}.parquet")
    return Results(folder)
