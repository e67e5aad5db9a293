"""The pytest plugin: the fixture, what it tells, and the function without pytest."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenewright.evals.errors import EvalError
from scenewright.evals.gate.asserting import WorseError, assert_not_worse
from tests.evals.eval_sets import ListedSet, scene_items
from tests.evals.gate.gate_models import BASELINE, JUDGE, SET, models

pytest_plugins = ["pytester"]
ROOT = Path(__file__).resolve().parents[3]
CONFIG = f"""\
name = "gate"
conditions = ["triplets"]
concurrency = 3
[dataset]
name = "miniature"
[panels.p]
judges = ["{JUDGE}"]
"""
SCOPE = ("-o", "asyncio_default_fixture_loop_scope=function")
TESTS = """
from tests.evals.gate.gate_models import BASELINE, SET, models

def test_same(assert_not_worse):
    found = assert_not_worse("miniature", "miniature-edit", config="gate.toml", dataset=SET,
                             given=models(candidate=BASELINE), margin=0.1)
    assert found.passed

def test_worse(assert_not_worse):
    assert_not_worse("miniature", "miniature-edit", config="gate.toml", dataset=SET,
                     given=models(candidate=60), margin=0.1, out="worse")

async def test_in_a_loop(assert_not_worse):
    assert_not_worse("worse/baseline", "worse/candidate", out="again", margin=0.1)
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "gate.toml"
    file.write_text(CONFIG, encoding="utf-8")
    return file


def test_the_fixture_fails_a_worse_candidate_and_tells_why(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT)
    pytester.makefile(".toml", gate=CONFIG)
    pytester.makepyfile(TESTS)
    plugin = "scenewright.evals.gate.pytest_plugin"
    found = pytester.runpytest_inprocess(
        *(
            "-p",
            "no:scenewright",
            "-p",
            plugin,
            "-o",
            "asyncio_mode=auto",
            *SCOPE,
            "--junitxml=junit.xml",
        )
    )
    found.assert_outcomes(passed=1, failed=2)
    found.stdout.fnmatch_lines(
        ["*WorseError: miniature-edit against miniature: Worse: decided after *", "*page: worse/*"]
    )
    junit = (pytester.path / "junit.xml").read_text(encoding="utf-8")
    assert 'name="scenewright_gate" value="not worse"' in junit
    assert junit.count('value="worse"') == 2
    cached = list((pytester.path / ".pytest_cache").rglob("gate.json"))
    assert len(cached) == 1


def test_an_undecided_gate_fails_unless_it_may(tmp_path: Path, config: Path) -> None:
    few = {"config": config, "dataset": ListedSet(scene_items(3)), "given": models()}
    with pytest.raises(WorseError, match="Undecided after all 3 scenes") as error:
        assert_not_worse("miniature", "miniature-edit", out=tmp_path / "g", **few)
    assert error.value.result.scenes == 3
    found = assert_not_worse(
        "miniature", "miniature-edit", out=tmp_path / "g", undecided=True, **few
    )
    assert found.verdict == "undecided"


def test_it_does_not_spend_more_than_the_limit(tmp_path: Path, config: Path) -> None:
    with pytest.raises(EvalError, match=r"the limit is \$-1.00: raise limit_usd"):
        assert_not_worse(
            *("miniature", "miniature-edit"),
            out=tmp_path / "g",
            config=config,
            dataset=SET,
            given=models(candidate=BASELINE),
            limit_usd=-1.0,
        )
    assert not (tmp_path / "g").exists()
