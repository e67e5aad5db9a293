"""Small evaluations as the runner writes them, made up with a seed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from scenewright.core.facts import Fact, Recall
from scenewright.core.images import ImageStore
from scenewright.core.questions import facts_of
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.store.results import SCHEMAS, TABLES, Table, arm_name

NAMES = ("tree", "house", "car", "person", "dog", "ball", "table", "lamp", "boat", "umbrella")
PREDICATES = ("left of", "right of", "above", "below")
COLOURS = ("red", "blue", "green")
GROUPS = ("People-Centric", "Non-People-Centric")
CATEGORIES = ("Daily Life", "Nature", "Urban/Built", "Work/Occupation")


@dataclass
class Made:
    """What an evaluation is to hold."""

    items: int = 12
    backends: Sequence[str] = ("miniature",)
    conditions: Sequence[str] = ("composition", "feedback")
    seeds: Sequence[int] = (0,)
    panels: Mapping[str, Sequence[str]] = field(
        default_factory=lambda: {"report": ("local:a", "local:b")}
    )
    quality: Mapping[str, float] = field(default_factory=lambda: {"feedback": 0.85})
    """Condition → chance that a fact holds; others 0.6."""
    failing: float = 0.0
    """Share of pictures that fail."""
    unscored: float = 0.0
    """Share of facts that nobody could judge."""
    seed: int = 0
    name: str = "made"
    pictures: bool = True
    clip: bool = True
    sets: bool = True
    fingerprint: str = "set-1"
    judged: str = "1"
    """Version of the judges."""
    prompt: str = "vqa@1#abc"
    protocol: str = "scene-bench"
    hostile: str = ""
    """Text put into names, prompts and reasons."""
    shuffled: bool = True
    """Whether rows stand in the order in which work was finished, not that of the set."""
    rationale: str = "It is plain to see."
    most: int = 12
    """Most relations of a scene."""


def scene_of(rng: np.random.Generator, number: int, hostile: str, most: int = 12) -> SceneGraph:
    """A scene of two to seven objects and up to ``most`` relations."""
    n = int(rng.integers(2, min(8, most + 2)))
    names = [str(name) for name in rng.choice(NAMES, n)]
    if hostile and number == 0:
        names[0] = hostile
    objects = tuple(
        SceneObject(
            id=f"o{at}",
            name=name,
            attributes=Attributes({"color": str(rng.choice(COLOURS))} if at % 2 else {}),
        )
        for at, name in enumerate(names)
    )
    pairs = [(a, b) for a in range(n) for b in range(n) if a != b]
    rng.shuffle(pairs)
    wanted = int(rng.integers(1, most + 1))
    relations = tuple(
        Relation(source=f"o{a}", predicate=str(rng.choice(PREDICATES)), target=f"o{b}")
        for a, b in pairs[:wanted]
    )
    return SceneGraph(objects=objects, relations=relations)


def write_evaluation(folder: Path, made: Made | None = None) -> Path:
    """The folder, filled."""
    made = made or Made()
    rng = np.random.default_rng(made.seed)
    # What is asked must be the same whatever the arms are.
    scenes = np.random.default_rng(7)
    folder.mkdir(parents=True, exist_ok=True)
    store = ImageStore(folder / "images") if made.pictures else None
    rows: dict[Table, list[dict[str, Any]]] = {table: [] for table in TABLES}
    arms = [(b, c, s) for b in made.backends for c in made.conditions for s in made.seeds]
    for number in range(made.items):
        scene = scene_of(scenes, number, made.hostile, made.most)
        facts = facts_of(scene, "scene-bench")
        item = f"item-{number:05d}"
        if made.hostile and number == 1:
            item = f"{made.hostile}/{number}"
        rows["items"].append(_item(item, number, scene, facts, made, folder))
        for backend, condition, seed in arms:
            _arm(rows, rng, made, store, item, facts, backend, condition, seed)
    if made.sets:
        for backend, condition, seed in arms:
            base = _base("", backend, condition, seed)
            for scope, value, n in (("", 31.5, made.items), ("level=hard", None, 1)):
                rows["scores"].append(
                    {**base, "panel": "", "round": None, "image": "", "metric": "fid",
                     "version": "1", "part": "", "scope": scope, "value": value,
                     "reason": "" if value else "too few pictures", "n": n}
                )  # fmt: skip
    order = np.random.default_rng(3)
    for table, found in rows.items():
        if made.shuffled and table != "items":
            order.shuffle(found)
        pq.write_table(
            pa.Table.from_pylist(found, schema=SCHEMAS[table]),
            folder / f"{table}.parquet",
            row_group_size=4096,
        )
    (folder / "manifest.json").write_text(json.dumps(_manifest(made, rows)), encoding="utf-8")
    return folder


def _base(item: str, backend: str, condition: str, seed: int) -> dict[str, Any]:
    return {
        "item": item,
        "arm": arm_name(backend, condition, seed),
        "backend": backend,
        "condition": condition,
        "seed": seed,
    }


def _item(
    item: str, number: int, scene: SceneGraph, facts: Iterable[Fact], made: Made, folder: Path
) -> dict[str, Any]:
    original = ""
    if made.pictures and number % 2 == 0:
        photo = folder / "photos" / f"{number}.png"
        photo.parent.mkdir(exist_ok=True)
        Image.new("RGB", (90, 60), (number % 255, 120, 90)).save(photo)
        original = str(photo)
    return {
        "item": item,
        "dataset": "made",
        "prompt": f"a picture {made.hostile} of number {number}",
        "objects": len(scene.objects),
        "relations": len(scene.relations),
        "complexity": scene.complexity(),
        "level": scene.level(),
        "group": GROUPS[number % 2],
        "category": CATEGORIES[number % 4],
        "original": original,
        "scene": scene.model_dump_json(),
        "facts": json.dumps([fact.model_dump(mode="json") for fact in facts]),
    }


def _arm(
    rows: dict[Table, list[dict[str, Any]]],
    rng: np.random.Generator,
    made: Made,
    store: ImageStore | None,
    item: str,
    facts: Sequence[Fact],
    backend: str,
    condition: str,
    seed: int,
) -> None:
    base = _base(item, backend, condition, seed)
    failed = rng.random() < made.failing
    image = ""
    if not failed:
        colour = tuple(int(v) for v in rng.integers(0, 255, 3))
        image = (
            store.put(Image.new("RGB", (64, 64), colour))
            if store is not None
            else f"{int(rng.integers(2**62)):064x}"
        )
    rows["rounds"].append(
        {**base, "round": 0, "kept": not failed, "state": "failed" if failed else "ok",
         "reason": f"the backend gave nothing {made.hostile}".strip() if failed else "",
         "image": image, "prompt": f"drawn {made.hostile}", "strategy": "", "reference_image": "",
         "images_drawn": 1, "seconds": 0.5, "tokens_in": 100, "tokens_out": 10, "usd": 0.0001}
    )  # fmt: skip
    if failed:
        return
    chance = made.quality.get(condition, 0.6)
    for panel, judges in made.panels.items():
        states: dict[str, str] = {}
        for fact in facts:
            states[fact.id] = _fact(
                rows, rng, made, {**base, "panel": panel, "round": 0, "image": image}, fact,
                judges, chance, states,
            )  # fmt: skip
        _scores(rows, {**base, "panel": panel, "round": 0, "image": image}, facts, states)
    if made.clip:
        rows["scores"].append(
            {**base, "panel": "", "round": 0, "image": image, "metric": "clipscore",
             "version": "2", "part": "", "scope": "", "value": float(rng.normal(0.3, 0.03)),
             "reason": "", "n": 1}
        )  # fmt: skip


def _fact(
    rows: dict[Table, list[dict[str, Any]]],
    rng: np.random.Generator,
    made: Made,
    base: dict[str, Any],
    fact: Fact,
    judges: Sequence[str],
    chance: float,
    states: Mapping[str, str],
) -> str:
    verdict = {
        **base, "fact": fact.id, "kind": fact.kind, "statement": fact.statement,
        "question": fact.question, "probability": None, "disagreement": 0.0, "reason": "",
    }  # fmt: skip
    if any(states[parent] == "no" for parent in fact.parents):
        rows["verdicts"].append({**verdict, "state": "void", "reason": "its object is absent"})
        return "void"
    holds = rng.random() < chance
    lost = rng.random() < made.unscored
    said = []
    for judge in judges:
        p = float(np.clip((0.9 if holds else 0.1) + rng.normal(0, 0.25), 0.01, 0.99))
        state = "unscored" if lost else ("yes" if p > 0.5 else "no")
        said.append(p)
        rows["answers"].append(
            {**base, "judge": judge, "fact": fact.id, "kind": fact.kind, "state": state,
             "choice": None if lost else state, "probability": None if lost else p,
             "method": None if lost else "logprob",
             "rationale": "" if lost else f"{made.rationale} {made.hostile}".strip(),
             "reason": "timed out" if lost else "", "tokens_in": 90, "tokens_out": 7,
             "tokens_cached": 0, "seconds": 0.02, "usd": 0.00002, "model": judge,
             "prompt_id": made.prompt}
        )  # fmt: skip
    if lost:
        rows["verdicts"].append({**verdict, "state": "unscored", "reason": "no judge answered"})
        return "unscored"
    mean = float(np.mean(said))
    entropy = float(-(mean * np.log2(mean) + (1 - mean) * np.log2(1 - mean)))
    state = "yes" if mean > 0.5 else "no"
    rows["verdicts"].append(
        {**verdict, "state": state, "probability": mean, "disagreement": entropy}
    )
    return state


def _scores(
    rows: dict[Table, list[dict[str, Any]]],
    base: dict[str, Any],
    facts: Sequence[Fact],
    states: Mapping[str, str],
) -> None:
    recalls = {}
    for kind, part in (
        ("object", "objects"),
        ("attribute", "attributes"),
        ("relation", "relations"),
    ):
        of = [states[fact.id] for fact in facts if fact.kind == kind]
        recalls[part] = Recall(
            yes=of.count("yes"), no=of.count("no"), void=of.count("void"),
            unscored=of.count("unscored"),
        ).value  # fmt: skip
    objects, relations = recalls["objects"], recalls["relations"]
    whole = (
        (objects if relations is None else relations)
        if objects is None or relations is None
        else (objects + relations) / 2
    )
    for part, value in {"": whole, **recalls}.items():
        rows["scores"].append(
            {**base, "metric": "sgscore", "version": "1", "part": part, "scope": "",
             "value": value, "reason": "" if value is not None else "nothing was scored", "n": 1}
        )  # fmt: skip


def _manifest(made: Made, rows: Mapping[Table, list[dict[str, Any]]]) -> dict[str, Any]:
    answers = rows["answers"]
    return {
        "format": 1,
        "plan": "made",
        "name": made.name,
        "config": {
            "name": made.name,
            "about": f"Made up for tests {made.hostile}".strip(),
            "dataset": {"name": "made"},
            "backends": list(made.backends),
            "conditions": list(made.conditions),
            "panels": {panel: {"judges": list(found)} for panel, found in made.panels.items()},
            "seeds": list(made.seeds),
            "metrics": [{"name": "sgscore", "options": {}}, {"name": "clipscore", "options": {}}],
            "protocol": made.protocol,
            "alpha": 0.5,
        },
        "dataset": {"name": "made", "fingerprint": made.fingerprint},
        "models": {
            "arms": {
                arm_name(b, c, s): {"backend": {"id": b, "fingerprint": f"{b}-1"}}
                for b in made.backends
                for c in made.conditions
                for s in made.seeds
            },
            "panels": {
                panel: [{"id": judge, "fingerprint": f"{judge}-{made.judged}"} for judge in found]
                for panel, found in made.panels.items()
            },
            "metrics": {
                "sgscore": {"version": "1", "higher_is_better": True, "of": "pictures"},
                "fid": {"version": "1", "higher_is_better": False, "of": "sets"},
            },
        },
        "prompts": {"vqa": "abc"},
        "versions": {"scenewright": "0.1", "torch": "2.13"},
        "created": "2026-11-20T10:00:00Z",
        "finished": "2026-11-20T10:05:00Z",
        "totals": {
            "images": len(rows["rounds"]),
            "calls": len(answers),
            "tokens_in": 90 * len(answers),
            "tokens_out": 7 * len(answers),
            "usd": 0.00002 * len(answers),
            "seconds": 300.0,
        },
        "left_out": {"fewer than three objects": 2},
    }
