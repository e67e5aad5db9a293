"""The study of XTC-Bench: its configuration, tables, plot and notes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scenewright.config.settings import Settings, find_profile
from scenewright.evals.studies.paper import xtc_paper
from scenewright.evals.studies.study import Setup
from scenewright.evals.studies.xtc.scores import NodeCount, xtc_scores
from scenewright.evals.studies.xtc.study import (
    MOST_SCENES,
    STUDY,
    Found,
    _with_steps,
    config_of,
    outcome,
)
from tests.evals.studies.scene_bench.xtc_facts import HEIGHTS, made_facts


@pytest.fixture(scope="module")
def found() -> Found:
    facts = made_facts(20)
    nodes = [NodeCount(scene=f"s{at:03d}", nodes=4, matched=3) for at in range(20)]
    return Found(facts, {model: xtc_scores(some, nodes, 5) for model, some in facts.items()})


def test_measured_models_stand_above_the_papers(found: Found) -> None:
    tables = outcome(Setup(), Settings(), (found,)).tables
    assert [table.id for table in tables] == ["xtc2", "xtc3", "xtc4"]
    for table in tables:
        said = xtc_paper().named(table.id)
        dropped = () if table.id == "xtc3" else ("tokens_dropped", "facts_dropped")
        assert tuple(c.key for c in table.columns) == (*said.columns, *dropped)
        assert [row.key for row in table.rows[: len(HEIGHTS)]] == list(HEIGHTS)
        rest = table.rows[len(HEIGHTS) :]
        assert all(row.paper_only for row in rest)
        assert len(rest) == len(said.rows)


def test_cells_are_the_scores(found: Found) -> None:
    generation, understanding, agreement = outcome(Setup(), Settings(), (found,)).tables
    scores = found.scores["bare + sharp"]

    def cells(table: Any) -> list[float | None]:
        (row,) = (row for row in table.rows if row.key == "bare + sharp")
        return [cell.measured.value for cell in row.cells]

    assert cells(generation)[0] == scores.overall.generation.value
    assert cells(generation)[1] == 75.0
    assert cells(generation)[5] == scores.matched_kinds["relation"].generation.value
    assert cells(understanding)[1] == scores.kinds["retrieval"].understanding.value
    assert cells(agreement)[0] == scores.overall.ccta.value
    assert cells(agreement)[5] == scores.kinds["relation"].aw_ccta.value


def test_the_markdown_has_the_papers_digits(found: Found) -> None:
    text = outcome(Setup(), Settings(), (found,)).tables[0].markdown()
    assert "| *paper:* OmniGen-2 | 0.499 | 80.1 | 0.593 | 0.411 | 0.867 | 0.909 | – | – |" in text


def test_the_plot_names_its_axes_and_models(found: Found, tmp_path: Path) -> None:
    file = tmp_path / "plot.svg"
    outcome(Setup(), Settings(), (found,)).plot().savefig(file)
    text = file.read_text(encoding="utf-8")
    for words in ("generation G", "understanding U", "AW-CCTA", "parity", "models of the paper"):
        assert words in text
    for model in HEIGHTS:
        assert model in text


def test_notes_tell_stand_ins_and_what_is_left_out(found: Found) -> None:
    notes = " ".join(outcome(Setup(), Settings(), (found,)).notes)
    assert "No model here both draws and answers" in notes
    assert "180 questions over 20 scenes; 5 facts" in notes
    facts = {"m": (*made_facts(3)["bare + dull"],)}
    lost = {"m": (facts["m"][0].model_copy(update={"u": None, "reason": "no"}), *facts["m"][1:])}
    one = Found(lost, {"m": xtc_scores(lost["m"])})
    assert "m: 1 of 27 facts unscored in generation, 0 in" in " ".join(
        outcome(Setup(), Settings(), (one,)).notes
    )


def test_the_miniature_has_six_pairs_on_painted_scenes() -> None:
    config = config_of(Setup(n=500, seeds=(4, 5)))
    assert len(config.models) == 6
    assert {spec.condition for spec in config.models.values()} == {"composition", "triplets"}
    assert {spec.understander for spec in config.models.values()} == {
        f"judge:local:miniature/{name}" for name in ("judge-a", "judge-c", "judge-weak")
    }
    assert config.dataset.options["n"] == MOST_SCENES
    assert config.seeds == (4,)
    assert config.extractor == "miniature"
    assert config.on_model_change == "stop"
    assert config_of(Setup(on_model_change="accept")).on_model_change == "accept"


async def test_models_behind_accounts_are_priced_and_those_here_cost_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    (free,) = STUDY.requirements(Setup(n=2), Settings())
    assert free.costs is None  # type: ignore[union-attr]
    setup = Setup(n=2, understanders=("chat:openai:gpt-4.1-mini",))
    (paid,) = STUDY.requirements(setup, Settings())
    price = await paid.costs()  # type: ignore[union-attr, misc]
    assert 0.0 < price.usd < 0.1


def test_steps_reach_the_profile_that_draws() -> None:
    changed = _with_steps(Setup(steps=4), Settings())
    assert find_profile("miniature", changed).steps == 4
    before = find_profile("miniature", Settings())
    after = find_profile("miniature", changed)
    assert after.model_copy(update={"steps": before.steps}) == before
    assert _with_steps(Setup(), Settings()) == Settings()


def test_another_profile_names_who_reads_and_who_understands() -> None:
    setup = Setup(
        profile="sdxl",
        n=50,
        extractor="two-stage:openai:gpt",
        understanders=("chat:openai:gpt", "chat:gemini:flash"),
    )
    config = config_of(setup)
    assert list(config.models)[:2] == ["composed + openai:gpt", "composed + gemini:flash"]
    assert config.extractor == "two-stage:openai:gpt"
    assert not STUDY.unsupported_reason(setup)
    (trial,) = STUDY.requirements(setup, Settings())
    assert (trial.items, trial.unit) == (50, "scenes")  # type: ignore[union-attr]
