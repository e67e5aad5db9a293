"""``scenewright eval xtc`` as a person runs it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from scenewright.cli.main import app
from scenewright.config.profiles import BUILT_IN
from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.evals.studies.xtc.base import UnifiedModel
from scenewright.evals.studies.xtc.config import load_xtc_config
from tests.doubles import painted
from tests.evals.studies.xtc.unified_doubles import (
    SCENES,
    KnowingExtractor,
    ScriptedUnified,
    World,
    recolored,
)

CONFIG = """\
name = "trial"
about = "Two scenes."
extractor = "one-stage:lab:nothing"
similarity = "exact"
grader = "exact"
[dataset]
name = "table"
path = "scenes.jsonl"
[models.pink]
plugin = "tests.cli.test_eval_xtc:pink"
"""
WORLD = World()


def pink(name: str) -> UnifiedModel:
    """Draws the first object of every scene pink."""
    return ScriptedUnified(name, WORLD, damage=recolored)


def no_model(name: str) -> str:
    """No unified model."""
    return name


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["eval", "xtc", *map(str, arguments)])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a set, a configuration and an extractor that knows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "scenewright.evals.studies.xtc.config.extractor_of",
        lambda *given: KnowingExtractor(WORLD),
    )
    rows: list[dict[str, Any]] = []
    for at, scene in enumerate(SCENES[:2]):
        painted((12, 12), (at, 50, 90)).save(tmp_path / f"{at}.png")
        rows.append({"id": f"s{at}", "scene": scene.model_dump(), "image": f"{at}.png"})
    rows.append({"id": "bare", "prompt": "a dog"})
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "scenes.jsonl").write_text(lines, encoding="utf-8")
    (tmp_path / "trial.toml").write_text(CONFIG, encoding="utf-8")
    return tmp_path


def test_the_plan_is_shown_and_nothing_is_drawn(place: Path) -> None:
    found = run("run", "trial.toml", "--plan", "--json")
    assert found.exit_code == 0, found.output
    plan = json.loads(found.stdout)
    assert (plan["items"], plan["models"], plan["pictures"]) == (2, 1, 2)
    assert plan["left_out"] == {"no scene": 1}
    assert [line["does"] for line in plan["lines"]] == [
        "draws", "reads pictures", "answers", "grades",
    ]  # fmt: skip
    assert not (place / "evals").exists()
    shown = run("run", "trial.toml", "--plan").stdout
    assert "2 scenes × 1 models × 1 seeds" in shown
    assert "no price is known for pink" in shown


def test_it_runs_goes_on_and_is_reported(place: Path) -> None:
    found = run("run", "trial.toml", "--limit", "1")
    assert found.exit_code == 0, found.output
    assert "pink" in found.stdout
    found = run("run", "trial.toml", "--json", "--quiet")
    assert found.exit_code == 0, found.output
    said = json.loads(found.stdout)
    overall = said["models"]["pink"]["overall"]
    assert overall["generation"]["value"] == pytest.approx(6 / 8)
    assert overall["understanding"]["value"] == 1.0
    assert said["left_out"]
    for asked in ("trial.toml", "evals/trial"):
        found = run("report", asked, "--no-paper")
        assert found.exit_code == 0, found.output
        assert Path(found.stdout.strip()).read_text("utf-8").count("<h2>") == 6
    found = run("report", "evals/trial", "--json", "--out", "elsewhere")
    assert json.loads(found.stdout)["page"] == "elsewhere/index.html"


def test_what_is_unscored_has_an_exit_code_and_a_reason(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(self: Any, *given: Any) -> Any:
        raise RuntimeError("out of paint")

    monkeypatch.setattr(ScriptedUnified, "draw", broken)
    found = run("run", "trial.toml", "--quiet")
    assert found.exit_code == 1
    assert "pink: 13 facts unscored" in found.stdout
    assert "the drawing failed: RuntimeError: out of paint" in found.stdout


def test_no_retry_is_advised_where_none_can_succeed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FewWords(KnowingExtractor):
        vocabulary = ClosedVocabulary(predicates=("above",))

    reader = FewWords(WORLD)
    monkeypatch.setattr("scenewright.evals.studies.xtc.config.extractor_of", lambda *given: reader)
    for retry in ((), ("--retry",)):
        found = run("run", "trial.toml", "--quiet", *retry)
        assert found.exit_code == 1
        assert "the predicate 'left of' is outside its vocabulary" in found.stdout
        assert "--retry" not in found.stdout
        assert "no other try could score them" in found.stdout
        # What was read of a picture stays: there is nothing else to be read in it.
        assert reader.looks == 2
    reader.failing = lambda scene: len(scene.objects) == 2
    found = run("run", "trial.toml", "--quiet", "--out", "other")
    unscored = sum(map(int, re.findall(r"(\d+) facts unscored", found.stdout)))
    (advised,) = re.findall(r"--retry tries (\d+) of them again", found.stdout)
    assert 0 < int(advised) < unscored


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"tests.cli.test_eval_xtc:pink"', '"nothing"', "'nothing' is not a plug-in"),
        ("test_eval_xtc:pink", "test_eval_xtc:none", "has no function none"),
        ("test_eval_xtc:pink", "test_eval_xtc:no_model", "which is not a unified model"),
        ("[models.pink]\nplugin", "[models.pink]\nprofile", "name a profile and an understander"),
        ('similarity = "exact"', 'similarity = "alike"', "no similarity of texts 'alike'"),
        ('grader = "exact"', 'grader = "me"', "no grader 'me'"),
        ('name = "trial"', 'name = "trial"\nseeds = [1, 1]', "seeds lists something twice"),
        ('name = "trial"', 'name = "trial"\nvocabulary = "all"', "use set, miniature, or a table"),
        ('name = "trial"', 'nam = "trial"', "is required"),
        ("scenes.jsonl", "other.jsonl", "there is no file or folder"),
    ],
)
def test_a_wrong_configuration_is_one_line(place: Path, old: str, new: str, said: str) -> None:
    assert old in CONFIG
    (place / "trial.toml").write_text(CONFIG.replace(old, new), encoding="utf-8")
    found = run("run", "trial.toml", "--plan")
    assert found.exit_code in (2, 3)
    assert said in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1


def test_understanders_and_conditions_are_checked(place: Path) -> None:
    for field, said in (
        ('understander = "somebody"', "is not an understander: write judge:KIND:MODEL"),
        ('understander = "judge:local:x"\ncondition = "feedback"', "use one of triplets, composi"),
    ):
        text = CONFIG.partition("[models.pink]")[0]
        text += f'[models.pink]\nprofile = "miniature"\n{field}\n'
        (place / "trial.toml").write_text(text, encoding="utf-8")
        found = run("run", "trial.toml", "--plan")
        assert said in found.stderr


def test_what_is_no_result_is_refused(place: Path) -> None:
    found = run("report", "nowhere")
    assert found.exit_code == 3
    assert "holds no evaluation" in found.stderr


def test_the_configurations_in_the_docs_can_be_read(tmp_path: Path) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "xtc.md"
    blocks = re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        file = tmp_path / "config.toml"
        file.write_text(block, encoding="utf-8")
        found = load_xtc_config(file)
        for spec in found.models.values():
            assert spec.profile is None or spec.profile in BUILT_IN


def test_help_teaches() -> None:
    assert "models.a.understander" in run("run", "--help").stdout
