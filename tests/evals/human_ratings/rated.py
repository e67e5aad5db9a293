"""Small finished evaluations with pictures, and studies made of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image, ImageDraw

from scenewright.core.images import ImageStore
from scenewright.core.questions import Protocol, facts_of
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.human_ratings.making import RatingStudySpec, make_study
from scenewright.evals.human_ratings.sources import read_source
from scenewright.evals.human_ratings.study import StudyFolder
from scenewright.evals.store.results import IMAGES, MANIFEST, SCHEMAS, Table, arm_name

SCENE = SceneGraph(
    objects=(
        SceneObject(id="dog.1", name="dog", attributes=Attributes({"color": "red"})),
        SceneObject(id="ball.1", name="ball"),
    ),
    relations=(Relation(source="dog.1", predicate="left of", target="ball.1"),),
)
CONDITIONS = ("triplets", "composition", "feedback", "best_of_3")
ARMS = tuple(arm_name("miniature", condition, 0) for condition in CONDITIONS)
Value = Callable[[int, int], float | None]
"""From the number of an item and of an arm to a metric's value."""


def picture(item: int, arm: int, side: int = 64) -> Image.Image:
    """A picture of its own for each item and arm."""
    image = Image.new("RGB", (side, side), (40 * arm + 30, 15 * (item % 16) + 8, 200 - 40 * arm))
    ImageDraw.Draw(image).text((4, 20), f"{item}", fill="white", font_size=side / 3)
    return image


def rows_of(table: Table, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """A table of the house's columns; what a row does not say is null."""
    schema = SCHEMAS[table]
    return pa.Table.from_pylist(
        [{name: row.get(name) for name in schema.names} for row in rows], schema=schema
    )


def evaluation(
    folder: Path,
    items: int = 6,
    metrics: Mapping[str, Value] | None = None,
    *,
    originals: bool = True,
    same: tuple[int, ...] = (),
    failed: tuple[tuple[int, int], ...] = (),
    verdicts: Callable[[int, int, int], str] | None = None,
    scene: SceneGraph = SCENE,
    protocol: Protocol = "grounded",
) -> Path:
    """A finished evaluation of ``items`` items by :data:`ARMS`.

    ``same``: items of which the first two arms give one picture; ``failed``: (item, arm) without a
    picture; ``verdicts``: from (item, arm, fact) to the panel's state; ``protocol``: of its facts.
    """
    folder.mkdir(parents=True)
    (folder / MANIFEST).write_text("{}", encoding="utf-8")
    store = ImageStore(folder / IMAGES)
    facts = facts_of(scene, protocol)
    tables: dict[Table, list[dict[str, Any]]] = {"items": [], "rounds": [], "scores": []}
    tables["verdicts"] = []
    for i in range(items):
        item = f"item-{i}"
        original = ""
        if originals:
            file = folder / "photos" / f"{i}.png"
            file.parent.mkdir(exist_ok=True)
            picture(i, 5).save(file)
            original = str(file)
        tables["items"].append(
            {
                "item": item,
                "prompt": "" if i % 2 else f"a red dog left of a ball, number {i}",
                "original": original,
                "scene": scene.model_dump_json(),
                "facts": json.dumps([fact.model_dump(mode="json") for fact in facts]),
            }
        )
        for a, arm in enumerate(ARMS):
            about = {"item": item, "arm": arm, "backend": "miniature", "seed": 0, "round": 0}
            if (i, a) in failed:
                tables["rounds"].append(
                    {**about, "kept": False, "state": "failed", "reason": "no picture came"}
                )
                continue
            image = store.put(picture(i, 1 if i in same and a == 0 else a))
            about |= {"image": image, "condition": CONDITIONS[a]}
            tables["rounds"].append({**about, "kept": True, "state": "drawn"})
            for name, value in (metrics or {}).items():
                tables["scores"].append(
                    {**about, "metric": name, "part": "", "scope": "", "value": value(i, a)}
                )
            for f, fact in enumerate(facts if verdicts else ()):
                assert verdicts is not None
                tables["verdicts"].append(
                    {**about, "panel": "report", "fact": fact.id, "state": verdicts(i, a, f)}
                )
    for name, rows in tables.items():
        pq.write_table(rows_of(name, rows), folder / f"{name}.parquet")
    return folder


def study_in(folder: Path, source: Path, **wish: Any) -> StudyFolder:
    """A study of ``source``."""
    make_study(read_source(source), RatingStudySpec(**wish), folder)
    return StudyFolder(folder)
