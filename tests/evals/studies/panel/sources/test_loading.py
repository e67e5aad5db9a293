"""From a configured source to a table of answers, and what it will take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from scenewright.config.settings import Settings
from scenewright.evals.judge_reports.synthetic_facts import synthetic_facts
from scenewright.evals.studies.panel.sources.live_judges import Loaded
from scenewright.evals.studies.panel.sources.loading import load_source, plan_source
from scenewright.evals.studies.panel.study import Source
from scenewright.evals.studies.panel.table import PanelStudyError
from scenewright.providers import AnswerStore
from scenewright.runs.model_factory.local_models import SHARED

JUDGE = {"id": "one", "sensitivity": 0.9, "specificity": 0.8}


def source(**given: Any) -> Any:
    return TypeAdapter(Source).validate_python(given)


async def loaded(place: Path, **given: Any) -> Loaded:
    return await load_source(
        source(**given),
        root=place,
        folder=place / "out",
        settings=Settings(),
        store=AnswerStore(None),
    )


async def test_a_simulation_is_what_its_fields_say(tmp_path: Path) -> None:
    spec = {"judges": [JUDGE], "n_items": 7, "seed": 3}
    found = await loaded(tmp_path, kind="simulation", spec=spec)
    again = await loaded(tmp_path, kind="simulation", spec=spec)
    assert len(found.table.images) == 7
    np.testing.assert_array_equal(found.table.said, again.table.said)
    assert found.live is None
    with pytest.raises(PanelStudyError, match=r"source\.spec: judges\.0\.sensitivity: "):
        await loaded(tmp_path, kind="simulation", spec={"judges": [{**JUDGE, "sensitivity": 2}]})


async def test_paintings_are_asked_about_and_can_be_asked_again(tmp_path: Path) -> None:
    judges = ["local:miniature/judge-weak"]
    given = {"kind": "painted", "paintings": 2, "seed": 5, "judges": judges}
    try:
        found = await loaded(tmp_path, **given)
        fewer = await loaded(tmp_path, **given, as_in_runs=True)
    finally:
        await SHARED.aclose()
    facts = synthetic_facts(2, seed=5)
    assert [fact.id for fact in found.table.facts] == [fact.fact.id for fact in facts]
    assert found.live is not None
    assert [judge.id for judge in found.live.judges] == judges
    assert found.table.judges[0].fingerprint == found.live.judges[0].fingerprint
    of_things = [fact.kind for fact in fewer.table.facts if fact.group == "absent"]
    assert set(of_things) == {"object"}
    plan = await plan_source(source(**given), root=tmp_path, folder=tmp_path, settings=Settings())
    # Judges of this machine cost nothing.
    assert (plan.questions, plan.costs.usd, plan.costs.lines) == (len(facts), 0.0, ())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "evaluation", "path": "gone"}, "gone holds no evaluation"),
        ({"kind": "table", "path": "gone.csv"}, r"gone\.csv cannot be read"),
        ({"kind": "labels", "path": "gone.csv"}, r"gone\.csv cannot be read"),
        ({"kind": "live", "path": "gone.toml"}, r"gone\.toml cannot be read"),
    ],
)
async def test_what_is_not_there_is_told(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    from scenewright.evals.errors import EvalError

    with pytest.raises(EvalError, match=said):
        await loaded(tmp_path, **given)
