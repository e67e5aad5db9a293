"""Panels by agreement: weights of all pictures, and evaluations that began with the mean."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scenewright.evals.metrics.picture_scores import SGScore
from scenewright.evals.reporting.comparison import mismatches
from scenewright.evals.reporting.evaluations import Opened, open_sides
from scenewright.evals.runner.config import PanelSpec
from scenewright.evals.runner.model_setup import EvalModelOverrides
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.runner.weighing import WEIGHED, default_aggregation, weighing_notes
from scenewright.evals.store.results import Results
from tests.doubles import CallBook, ScriptedBackend, ScriptedComposer, ScriptedJudge, share
from tests.evals.eval_sets import ListedSet, config, scene_items

NAMES = ("a", "b", "c", "d", "e")
JUDGES = [f"local:miniature/judge-{name}" for name in NAMES]


class Guesser(ScriptedJudge):
    """Says anything, whatever the picture shows."""

    def _seen(self, pixel: tuple[int, ...]) -> int:
        self.level = lambda fact: share(self.name, fact.id, str(pixel[0]))
        return 127


def models(book: CallBook | None = None) -> EvalModelOverrides:
    """Three judges that see the picture, two that guess."""
    book = book or CallBook()

    def level(name: str) -> object:
        return lambda fact: 90 + share(fact.id) // 4 + share(name, fact.id) // 6

    judges = {
        f"local:miniature/judge-{name}": ScriptedJudge(name, book, level(name))  # type: ignore[arg-type]
        if name in "abc"
        else Guesser(name, book)
        for name in NAMES
    }
    backend = ScriptedBackend(
        lambda request: 60 + share(request.prompt, str(request.seed)) // 2, book
    )
    return EvalModelOverrides(
        {"miniature": backend}, {"miniature": ScriptedComposer(book)}, judges, [SGScore()]
    )


def asked(judges: list[str] = JUDGES, **panel: object) -> object:
    return config(
        panels={"report": {"judges": judges, **panel}},
        conditions=["triplets"],
        seeds=list(range(6)),
    )


async def evaluated(folder: Path, items: int = 6, **panel: object) -> Results:
    return await run_eval(
        asked(**panel),  # type: ignore[arg-type]
        folder,
        given=models(),
        dataset=ListedSet(scene_items(items)),
    )


def opened(results: Results) -> Opened:
    return open_sides([str(results.folder)])[0][0].evaluation


@pytest.mark.parametrize(("judges", "expected"), [(1, "mean"), (2, "mean"), (3, "agreement")])
def test_three_judges_are_weighed_by_their_agreement(judges: int, expected: str) -> None:
    assert default_aggregation(judges) == expected
    assert PanelSpec(judges=("a",)).aggregation is None


async def test_judges_that_guess_decide_no_verdict(tmp_path: Path) -> None:
    found = await evaluated(tmp_path / "e")
    weights = found.manifest[WEIGHED]["report"]
    by_judge = dict(zip(weights["judges"], weights["weights"], strict=True))
    assert sum(by_judge[f"scripted:{name}"] for name in "de") < 0.1
    assert found.manifest["config"]["panels"]["report"]["aggregation"] == "agreement"
    (note,) = weighing_notes(found.manifest)
    assert "weighed by their agreement on" in note

    votes: dict[tuple[str, str, int], list[bool]] = {}
    for row in found.rows("answers"):
        if row["judge"] in ("scripted:a", "scripted:b", "scripted:c"):
            key = (row["item"], row["fact"], row["seed"])
            votes.setdefault(key, []).append(row["state"] == "yes")
    agreed = {key: given[0] for key, given in votes.items() if len(set(given)) == 1}
    verdicts = {
        (row["item"], row["fact"], row["seed"]): row["state"] == "yes"
        for row in found.rows("verdicts")
    }
    assert len(agreed) > 100
    assert all(verdicts[key] == said for key, said in agreed.items())
    # Scores are of the same verdicts.
    facts = [row for row in found.rows("verdicts") if row["item"] == "item-0" and row["seed"] == 0]
    held = {
        kind: [row["state"] == "yes" for row in facts if row["kind"] == kind]
        for kind in ("object", "relation")
    }
    (score,) = (
        row["value"]
        for row in found.rows("scores")
        if (row["item"], row["seed"], row["part"]) == ("item-0", 0, "")
    )
    assert score == pytest.approx(sum(sum(one) / len(one) for one in held.values()) / 2)


async def test_weighing_asks_nothing_and_comes_out_alike_again(tmp_path: Path) -> None:
    book, items = CallBook(), ListedSet(scene_items(6))
    first = await run_eval(asked(), tmp_path / "e", given=models(book), dataset=items)  # type: ignore[arg-type]
    tables = {name: first.rows(name) for name in ("answers", "verdicts", "scores")}
    totals, before = first.manifest["totals"], list(book.lines)
    again = await run_eval(asked(), tmp_path / "e", given=models(book), dataset=items)  # type: ignore[arg-type]
    assert book.lines == before
    assert {name: again.rows(name) for name in tables} == tables
    assert again.manifest["totals"] == totals


async def test_the_mean_stays_where_it_is_named_and_costs_no_answers(tmp_path: Path) -> None:
    book, items = CallBook(), ListedSet(scene_items(6))
    by_mean = asked(aggregation="mean")
    found = await run_eval(by_mean, tmp_path / "e", given=models(book), dataset=items)  # type: ignore[arg-type]
    assert WEIGHED not in found.manifest
    verdicts, before = found.rows("verdicts"), list(book.lines)
    named = asked(aggregation="agreement")
    other = await run_eval(named, tmp_path / "e", given=models(book), dataset=items)  # type: ignore[arg-type]
    assert book.lines == before
    assert other.rows("verdicts") != verdicts
    back = await run_eval(by_mean, tmp_path / "e", given=models(book), dataset=items)  # type: ignore[arg-type]
    assert back.rows("verdicts") == verdicts


async def test_an_evaluation_of_an_earlier_version_goes_on_by_its_own_rule(tmp_path: Path) -> None:
    """Its manifest names the mean, which was the default."""
    begun = await evaluated(tmp_path / "e", 3, aggregation="mean")
    file = begun.folder / "manifest.json"
    told = json.loads(file.read_text())
    assert told["config"]["panels"]["report"]["aggregation"] == "mean"
    plan = told["plan"]
    whole = await evaluated(tmp_path / "e", 3)
    assert whole.manifest["plan"] == plan
    assert WEIGHED not in whole.manifest
    assert whole.rows("verdicts") == begun.rows("verdicts")


async def test_too_few_answers_leave_the_mean(tmp_path: Path) -> None:
    found = await evaluated(tmp_path / "few", 1)
    mean = await evaluated(tmp_path / "mean", 1, aggregation="mean")
    assert found.manifest[WEIGHED] == {"report": None}
    assert "too few facts" in weighing_notes(found.manifest)[0]
    assert found.rows("verdicts") == mean.rows("verdicts")


async def test_evaluations_with_other_weights_are_not_compared(tmp_path: Path) -> None:
    one = await evaluated(tmp_path / "one")
    file = one.folder / "manifest.json"
    told = json.loads(file.read_text())
    two = await evaluated(tmp_path / "two")
    assert not mismatches(opened(one), opened(two))
    weighed = dict(told[WEIGHED]["report"])
    told[WEIGHED]["report"]["weights"] = [0.0, 0.0, 0.0, 0.5, 0.5]
    file.write_text(json.dumps(told))
    (found,) = mismatches(opened(one), opened(two))
    assert "weights of the panel report" in found.what

    # Weights of version 1.0 can be read, and are others: they pooled log-odds.
    earlier = {**weighed, "by_kind": {"relation": [0.2] * 5}, "votes": [], "trust": 0.5}
    told[WEIGHED]["report"] = earlier
    file.write_text(json.dumps(told))
    (note,) = opened(one).about.weighed
    assert "by the rule of version 1.0" in note
    (found,) = mismatches(opened(one), opened(two))
    assert "weights of the panel report" in found.what
    file = two.folder / "manifest.json"
    for row, alike in (([0.22] * 5, True), ([0.0, 0.25, 0.25, 0.25, 0.25], False)):
        told = json.loads(file.read_text())
        told[WEIGHED]["report"] = {**earlier, "by_kind": {"relation": row}}
        file.write_text(json.dumps(told))
        assert (not mismatches(opened(one), opened(two))) is alike


def test_judges_that_answer_alike_are_named() -> None:
    entry = {"judges": ["a", "b", "c"], "weights": [0.4, 0.4, 0.2], "n_facts": 500}
    (note,) = weighing_notes({WEIGHED: {"report": {**entry, "copies": [["a", "b"]]}}})
    assert note.endswith("a and b answer alike: if one is a copy of the other it counts twice.")
