"""A small set of items, and scripted models for evaluations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scenewright.core.formats import load_scene
from scenewright.evals.datasets.base import Item
from scenewright.evals.metrics.picture_scores import SGScore
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.model_setup import EvalModelOverrides
from tests.doubles import CallBook, ScriptedBackend, ScriptedComposer, ScriptedJudge, share

TEXTS = (
    "red ball on table; dog left of table",
    "cat under umbrella",
    "person holding umbrella; dog right of person; tree behind person; ball left of dog; "
    "car right of tree",
    "house left of tree; tree left of boat; boat left of car",
)


@dataclass
class ListedSet:
    """Items in a list."""

    items: Sequence[Item]
    fingerprint: str = "listed-1"
    name: str = "listed"
    source: str = "made for tests"
    licence: str = ""
    left_out: Mapping[str, int] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)


def scene_items(n: int = 4) -> list[Item]:
    """``n`` items, each with a scene."""
    return [
        Item(id=f"item-{at}", scene=load_scene(TEXTS[at % len(TEXTS)]), category=f"c{at % 2}")
        for at in range(n)
    ]


def scripted(book: CallBook | None = None, **backend: object) -> EvalModelOverrides:
    """Models that draw and answer by rules; a higher seed draws no better pictures."""
    book = book or CallBook()
    return EvalModelOverrides(
        backends={
            "miniature": ScriptedBackend(
                lambda request: 60 + share(request.prompt, str(request.seed)) // 2,
                book,
                **backend,  # type: ignore[arg-type]
            )
        },
        composers={"miniature": ScriptedComposer(book)},
        judges={
            "local:miniature/judge-a": ScriptedJudge("a", book),
            "local:miniature/judge-b": ScriptedJudge("b", book),
            "local:miniature/judge-c": ScriptedJudge("c", book),
        },
        metrics=[SGScore()],
    )


def config(**fields: object) -> EvalConfig:
    """A configuration of the scripted models."""
    plain = {"name": "trial", "dataset": {"name": "listed"}, "concurrency": 3}
    return EvalConfig.model_validate({**plain, **fields})


def written(folder: Path) -> dict[str, int]:
    """File → size, of the tables."""
    return {file.name: file.stat().st_size for file in folder.glob("*.parquet")}
