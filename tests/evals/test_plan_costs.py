"""What a plan counts: prompts by language models, metrics that ask by themselves, and retries."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from scenewright.config.settings import load_settings
from scenewright.core.facts import Answer, Fact
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.evals.datasets.base import Item
from scenewright.evals.metrics.base import MetricScore, Need, Sample
from scenewright.evals.metrics.registry import metric_of
from scenewright.evals.runner.estimating import Estimate, estimate
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.store.results import Results
from scenewright.providers.usage import ExpectedUsage, Usage
from tests.doubles import ScriptedJudge
from tests.evals.eval_sets import ListedSet, config, scene_items, scripted

HALF_DOLLAR = ExpectedUsage(1, Usage(100, 10), 0.5)


class PaidMetric:
    """Asks a model for every picture; only what lies on its list costs nothing."""

    name, version = "paid", "1"
    needs: frozenset[Need] = frozenset({"image"})
    higher_is_better = True

    async def expected(self, sample: Sample, size: tuple[int, int]) -> dict[str, ExpectedUsage]:
        assert size[0] > 0
        return {"account:reader": HALF_DOLLAR} if sample.item.id != "item-0" else {}

    async def score(self, sample: Sample) -> MetricScore:
        if sample.item.id == "item-1":
            return MetricScore(value=None, reason="it was cut off", tokens_in=7, usd=0.25)
        return MetricScore(value=1.0, parts={"half": 0.5}, tokens_in=100, tokens_out=10, usd=0.5)


def paid(conditions: Sequence[str] = ("composition",), **fields: Any) -> Any:
    given = scripted()
    return (
        config(conditions=list(conditions), **fields),
        type(given)(given.backends, given.composers, given.judges, [PaidMetric()]),
    )


async def planned(tmp_path: Path, retry: bool = False, **fields: Any) -> Estimate:
    asked, given = paid(**fields)
    return await estimate(
        asked, tmp_path, given=given, dataset=ListedSet(scene_items(4)), retry=retry
    )


async def test_what_metrics_ask_is_in_the_plan(tmp_path: Path) -> None:
    found = await planned(tmp_path, seeds=[0, 1])
    line = next(line for line in found.costs.lines if line.what == "scores")
    assert line.who == "account:reader"
    # Three items of four, two pictures each.
    assert (line.least.calls, line.most.calls) == (6, 6)
    assert line.most.usd == pytest.approx(3.0)
    assert found.costs.usd == pytest.approx(3.0)
    looped = await planned(tmp_path, conditions=("feedback_3",), judge_rounds="all")
    line = next(line for line in looped.costs.lines if line.what == "scores")
    assert (line.least.calls, line.most.calls) == (3, 9)


async def test_what_metrics_took_is_in_the_tables_and_totals(tmp_path: Path) -> None:
    asked, given = paid()
    await run_eval(asked, tmp_path, given=given, dataset=ListedSet(scene_items(4)))
    results = Results(tmp_path)
    rows = [row for row in results.rows("scores") if row["metric"] == "paid"]
    assert sum(row["usd"] for row in rows) == pytest.approx(1.75)
    assert sum(row["tokens_in"] for row in rows) == 307
    assert all(row["usd"] == 0.0 for row in rows if row["part"])
    assert results.manifest["totals"]["usd"] == pytest.approx(1.75)


async def test_a_retry_is_planned_by_what_is_tried_again(tmp_path: Path) -> None:
    asked, given = paid()
    await run_eval(asked, tmp_path, given=given, dataset=ListedSet(scene_items(4)))
    assert (await planned(tmp_path)).remaining == 0.0
    again = await planned(tmp_path, retry=True)
    assert again.done == 3
    assert again.remaining == pytest.approx(0.25)


async def test_prompts_by_a_language_model_are_in_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.chdir(tmp_path)
    Path("scenewright.toml").write_text(
        "".join(
            f'[profiles.{name}]\nextends = "miniature"\nchat = "openai:gpt-4.1-mini"\n{more}\n'
            for name, more in (
                ("worded", 'composer = "llm"'),
                ("staged", 'composer = "stages"'),
                ("directed", 'strategy = "director"'),
            )
        ),
        encoding="utf-8",
    )
    settings = load_settings()
    given = scripted()
    items = [Item(id="one", scene=scene_items(3)[2].scene)]

    async def lines(name: str, condition: str) -> dict[str, Any]:
        backend = given.backends["miniature"]
        mine = type(given)({name: backend}, {}, given.judges, [PaidMetric()])
        asked = config(backends=[name], conditions=[condition])
        found = await estimate(
            asked, tmp_path / "none", settings=settings, given=mine, dataset=ListedSet(items)
        )
        return {line.what: line for line in found.costs.lines}

    worded = (await lines("worded", "composition"))["words"]
    staged = (await lines("staged", "composition"))["words"]
    assert worded.who == "openai:gpt-4.1-mini"
    assert worded.most.calls == 1
    # person, umbrella, dog, tree, ball, car, and the whole.
    assert staged.most.calls == 7
    assert worded.most.usage.tokens_in > 100
    assert worded.most.usd is not None
    assert 0 < worded.most.usd < (staged.most.usd or 0)
    assert (await lines("worded", "feedback"))["words"].most.calls == 3
    directed = await lines("directed", "feedback")
    assert directed["directs"].most.usd is None


def test_an_extractor_by_accounts_is_in_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    from scenewright.runs.model_factory.extractors import paid_by, spec_of

    assert paid_by(spec_of("two-stage:openai:gpt-4.1-mini")) == ("openai:gpt-4.1-mini",)
    assert paid_by(spec_of("miniature")) == ()


async def test_real_by_an_account_is_in_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    metric: Any = metric_of(
        "real", {"judges": "openai:gpt-4.1-mini", "folder": str(tmp_path)}, load_settings()
    )

    def load() -> Image.Image:
        raise AssertionError("nothing is drawn yet")

    (item,) = scene_items(1)
    found = await metric.expected(Sample(item, "", "", load), (512, 512))
    (one,) = found.values()
    assert one.calls >= 1
    assert one.usd is not None
    assert one.usd > 0


def _recall(facts: list[dict[str, Any]], said: dict[str, list[Any]]) -> float | None:
    """SGScore by hand: mean of the judges, void under what is absent, unscored left out; none where
    all of a side is unscored."""
    holds: dict[str, bool | None] = {}
    for fact in facts:
        given = [p for p in said.get(fact["id"], []) if p is not None]
        found = sum(given) / len(given) > 0.5 if given else None
        holds[fact["id"]] = False if any(holds[p] is False for p in fact["parents"]) else found
    sides = []
    for kind in ("object", "relation"):
        asked = [holds[fact["id"]] for fact in facts if fact["kind"] == kind]
        known = [state for state in asked if state is not None]
        if asked and not known:
            return None
        sides += [sum(map(bool, known)) / len(known)] if known else []
    return sum(sides) / len(sides) if sides else None


async def test_sgscore_of_recorded_answers_is_that_of_ten_lines(tmp_path: Path) -> None:
    def chance(judge: ScriptedJudge, facts: Sequence[Fact], answers: list[Answer]) -> list[Answer]:
        found = []
        for fact, answer in zip(facts, answers, strict=True):
            roll = hash_of(judge.name, fact.id, str(len(facts)), str(answer.probability))
            if roll < 0.25:
                lost = {"state": "unscored", "choice": None, "probability": None, "method": None}
                found.append(answer.model_copy(update={**lost, "reason": "said nothing"}))
            else:
                state = "yes" if roll > 0.5 else "no"
                found.append(answer.model_copy(update={"state": state, "probability": roll}))
        return found

    given = scripted()
    judges = {name: ScriptedJudge(name[-1], behave=chance) for name in given.judges}
    given = type(given)(given.backends, given.composers, judges, given.metrics)
    asked = config(panels={"two": {"judges": list(judges)[:2]}})
    items = [Item(id=f"item-{at}", scene=random_scene(random.Random(at))) for at in range(40)]
    await run_eval(asked, tmp_path, given=given, dataset=ListedSet(items))
    results = Results(tmp_path)
    facts = {row["item"]: json.loads(row["facts"]) for row in results.rows("items")}
    said: dict[tuple[str, str], dict[str, list[Any]]] = {}
    for row in results.rows("answers"):
        place = said.setdefault((row["item"], row["arm"]), {})
        place.setdefault(row["fact"], []).append(row["probability"])
    scores = [r for r in results.rows("scores") if r["metric"] == "sgscore" and not r["part"]]
    assert len(scores) == 40
    for row in scores:
        expected = _recall(facts[row["item"]], said.get((row["item"], row["arm"]), {}))
        assert row["value"] == (None if expected is None else pytest.approx(expected))
    assert len({row["value"] for row in scores}) > 8


def random_scene(rng: random.Random) -> SceneGraph:
    """One to six objects in up to five relations."""
    names = rng.sample(["dog", "cat", "ball", "tree", "car", "lamp", "boat"], rng.randint(1, 6))
    objects = tuple(SceneObject(id=f"{name}.1", name=name) for name in names)
    pairs = [(a.id, b.id) for a in objects for b in objects if a is not b]
    chosen = rng.sample(pairs, min(len(pairs), rng.randint(0, 5)))
    relations = tuple(Relation(source=a, predicate="left of", target=b) for a, b in chosen)
    return SceneGraph(objects=objects, relations=relations)


def hash_of(*parts: str) -> float:
    """A number in [0, 1) that the parts decide."""
    return int(hashlib.sha256("/".join(parts).encode()).hexdigest()[:8], 16) / 2**32


@pytest.mark.parametrize(
    ("name", "options", "calls"),
    [
        ("vqascore", {}, 1),
        ("soft_tifa", {"questions": "scene"}, 1),
        # Questions and their filter, then the look.
        ("tifa", {"questions": "chat", "chat": "openai:gpt-4.1-mini"}, 3),
        ("dsg", {"questions": "chat", "chat": "openai:gpt-4.1-mini"}, 4),
    ],
)
async def test_peers_by_an_account_are_in_the_plan(
    name: str,
    options: dict[str, str],
    calls: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    asked = {"judges": "openai:gpt-4.1-mini", "folder": str(tmp_path), **options}
    metric: Any = metric_of(name, asked, load_settings())
    (item,) = scene_items(1)
    sample = Sample(item, "red ball on table", "", lambda: Image.new("RGB", (8, 8)))
    found = await metric.expected(sample, (512, 512))
    assert {who: one.calls for who, one in found.items()} == {"openai:gpt-4.1-mini": calls}
    assert (found["openai:gpt-4.1-mini"].usd or 0.0) > 0
