"""Trains every set with every seed and compares them; what was trained is kept in a folder.

A study that was stopped goes on with the first training that is not in the folder. A training is
named by all that its result hangs on: the start's weights, the recipe, the pictures with their
labels, the seed, the test and the libraries.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from scenewright.core.images import hash_of_image
from scenewright.evals.metrics.weights import digest, fingerprint
from scenewright.evals.studies.real.augmentation import (
    SETS,
    AugmentationError,
    Comparison,
    Example,
    chosen,
    equal_epochs,
    macro_f1,
    training_set,
)
from scenewright.evals.studies.real.augmentation_relations import (
    Relations,
    learn_relations,
    mean_recall,
    proposals,
)
from scenewright.evals.studies.real.augmentation_training import Recipe, classify
from scenewright.evals.studies.real.ranking import How, Ranked
from scenewright.runs.folder import write_json

_VERSION = 1
"""Raised when the same sets would give other results."""
OnProgress = Callable[[int, int], None]
"""Is told how many trainings are done or were kept, and of how many."""


@dataclass(frozen=True, slots=True)
class AugmentationStudy:
    """What all trainings of a study share."""

    start: Path
    """Folder of the model that every training starts from."""
    recipe: Recipe
    """How it is trained."""
    k: int
    """Pictures a class that are added to the real ones."""
    kept: Path | None = None
    """Folder of results, so that nothing is trained twice; none: nothing is kept."""

    def remembered(self, key: Mapping[str, Any], train: Callable[[], Any]) -> Any:
        """The result (JSON) of the training that ``key`` names; trained if it is not kept.

        A damaged file counts as none. Raises ``OSError`` if the folder cannot be written.
        """
        if self.kept is None:
            return train()
        whole = {
            "version": _VERSION,
            "start": digest(self.start),
            "libraries": fingerprint(),
            "recipe": asdict(self.recipe),
            **key,
        }
        name = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()
        file = self.kept / f"{name}.json"
        try:
            return json.loads(file.read_text(encoding="utf-8"))["result"]
        except (OSError, ValueError, KeyError, TypeError):
            result = train()
            self.kept.mkdir(parents=True, exist_ok=True)
            write_json(file, {"result": result, **key})
            return result


def compare_classifiers(
    study: AugmentationStudy,
    real: Sequence[Sequence[Example]],
    pool: Mapping[str, Image.Image],
    ranked: Sequence[Ranked],
    test: Sequence[Example],
    *,
    sets: Sequence[How] = SETS,
    told: OnProgress = lambda done, of: None,
) -> Comparison:
    """Macro F1 of every set on ``test``, with one seed for each of ``real`` (Table 2).

    ``real[s]`` are the real pictures of seed ``s``; ``ranked`` scores pictures of ``pool``.
    Raises ``AugmentationError`` as the sets' makers do, and if a picture of ``real`` or ``pool`` is
    in ``test`` too.
    """
    learned = [example.image for some in real for example in some]
    _check_apart([example.image for example in test], [*learned, *pool.values()])
    truth = [example.label for example in test]
    pictures = [example.image for example in test]
    tested = _digest([(hash_of_image(e.image), e.label) for e in test])
    found: dict[How, list[float]] = {how: [] for how in sets}
    for seed, given in enumerate(real):
        labels = {example.label for example in given}
        for how in sets:
            examples = training_set(given, pool, ranked, how, study.k, seed)
            epochs = _epochs(study, len(given), len(labels), len(examples))
            key = {
                "task": "classification",
                "seed": seed,
                "epochs": epochs,
                "set": _digest([(hash_of_image(e.image), e.label) for e in examples]),
                "test": tested,
            }

            def train(e: list[Example] = examples, n: int = epochs, s: int = seed) -> list[str]:
                return classify(study.start, e, pictures, recipe=study.recipe, epochs=n, seed=s)

            found[how].append(macro_f1(truth, study.remembered(key, train)))
            told(sum(map(len, found.values())), len(real) * len(sets))
    return Comparison("F1", found, len(test))


@dataclass(frozen=True, slots=True)
class Annotated:
    """A picture for a query, with the relations that it is said to show."""

    relations: Relations
    """Picture, boxes and relations."""
    label: str
    """The query: what the picture is ranked within."""


def compare_relations(
    study: AugmentationStudy,
    real: Sequence[Sequence[Annotated]],
    pool: Mapping[str, Relations],
    ranked: Sequence[Ranked],
    test: Sequence[Relations],
    predicates: Sequence[str],
    ks: Sequence[int],
    *,
    sets: Sequence[How] = SETS,
    told: OnProgress = lambda done, of: None,
) -> dict[int, Comparison]:
    """k → mean recall at k of every set on ``test`` (Table 4); arguments as those of
    :func:`compare_classifiers`."""
    learned = [one.relations.image for some in real for one in some]
    _check_apart([one.image for one in test], [*learned, *(one.image for one in pool.values())])
    tested = _digest([_told(one) for one in test])
    found: dict[int, dict[How, list[float]]] = {k: {how: [] for how in sets} for k in ks}
    for seed, given in enumerate(real):
        labels = {one.label for one in given}
        for how in sets:
            rows = chosen(labels, pool, ranked, how, study.k, seed)
            examples = [one.relations for one in given] + [pool[row.image] for row in rows]
            epochs = _epochs(study, len(given), len(labels), len(examples))
            key = {
                "task": "relations",
                "seed": seed,
                "epochs": epochs,
                "predicates": list(predicates),
                "ks": list(ks),
                "set": _digest([_told(one) for one in examples]),
                "test": tested,
            }

            def train(
                e: list[Relations] = examples, n: int = epochs, s: int = seed
            ) -> dict[str, float]:
                model = learn_relations(
                    study.start, e, predicates, recipe=study.recipe, epochs=n, seed=s
                )
                tables = [proposals(model, one) for one in test]
                return {str(k): mean_recall(test, tables, predicates, k) for k in ks}

            result = study.remembered(key, train)
            for k in ks:
                found[k][how].append(float(result[str(k)]))
            told(sum(map(len, found[ks[0]].values())), len(real) * len(sets))
    return {k: Comparison(f"mR@{k}", found[k], len(test)) for k in ks}


def _epochs(study: AugmentationStudy, real: int, classes: int, size: int) -> int:
    return equal_epochs(study.recipe.epochs, real + study.k * classes, size)


def _check_apart(test: Sequence[Image.Image], learned: Sequence[Image.Image]) -> None:
    if not test or not learned:
        raise AugmentationError("there are no pictures to learn from, or none to test on")
    if {hash_of_image(image) for image in test} & {hash_of_image(image) for image in learned}:
        raise AugmentationError(
            "a picture that is learned from is in the test too: hold the test out"
        )


def _told(one: Relations) -> tuple[Any, ...]:
    return hash_of_image(one.image), one.boxes, one.triplets


def _digest(rows: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()
