"""Every study on results of known numbers: its layout, its statements, its files."""

from __future__ import annotations

import asyncio
import csv
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from scenewright.config.settings import Settings
from scenewright.evals.errors import EvalError
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.studies.paper import Claim, paper
from scenewright.evals.studies.registry import STUDIES, studies_named
from scenewright.evals.studies.running import Evaluation, Finished, plan, run_studies
from scenewright.evals.studies.study import Setup, StudyError
from tests.evals.studies.scene_bench.study_results import FALL, Made

SETTINGS = Settings()
EVERY = studies_named("all")
OF_GRAPHS = ("xtc", "psg", "graph_damage")


@dataclass(frozen=True)
class Sitting:
    """Studies that were run together."""

    folder: Path
    made: Made
    done: dict[str, Finished]


async def run(folder: Path, *names: str, made: Made | None = None) -> Sitting:
    made = made or Made()
    setup = Setup(n=40, seeds=(0, 1))
    done = await run_studies(
        studies_named(*names),
        setup,
        folder,
        settings=SETTINGS,
        perform=made,
    )
    return Sitting(folder, made, {one.study.name: one for one in done})


@pytest.fixture(scope="module")
def sitting(tmp_path_factory: pytest.TempPathFactory) -> Sitting:
    return asyncio.run(run(tmp_path_factory.mktemp("studies"), "all"))


def tables(text: str) -> list[list[list[str]]]:
    """Markdown tables: rows of cells; fails where a row has another number of cells."""
    found: list[list[list[str]]] = []
    before = False
    for line in text.splitlines():
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            if not before:
                found.append([])
            found[-1].append(cells)
        before = line.startswith("|")
    for table in found:
        assert len({len(row) for row in table}) == 1
    return found


def claims(one: Finished, words: str) -> list[Claim]:
    found = [claim for claim in one.outcome.claims if words in claim.says]
    assert found, words
    return found


@pytest.mark.parametrize("name", [name for name in STUDIES if name not in OF_GRAPHS])
def test_every_cell_has_measured_and_paper(sitting: Sitting, name: str) -> None:
    one = sitting.done[name]
    text = (sitting.folder / f"{one.study.file}.md").read_text(encoding="utf-8")
    assert paper().mark in text
    # What of the prompts was read is in no paper.
    beside = [table for table in tables(text) if table[0][0] != "Condition"]
    for row in [row for table in beside for row in table[2:]]:
        for cell in row[1:]:
            if row[0].startswith("*paper:*"):
                assert cell == "–" or float(cell)
            elif not (name == "judges" and row[0] == "judge-c" and cell == "–"):
                assert "paper:" in cell, (row[0], cell)
                assert not cell.startswith("–"), (row[0], cell)


@pytest.mark.parametrize("name", OF_GRAPHS)
def test_tables_of_graphs_have_no_gaps(sitting: Sitting, name: str) -> None:
    one = sitting.done[name]
    text = (sitting.folder / f"{one.study.file}.md").read_text(encoding="utf-8")
    found = tables(text)
    assert len(found) == len(one.outcome.tables)
    for table in found:
        for row in table[2:]:
            if not row[0].startswith("*paper:*") and not row[0].startswith("Spearman"):
                assert not any(cell.startswith("–") for cell in row[1:]), row
            assert "paper:" not in " ".join(row[1:])


@pytest.mark.parametrize("name", list(STUDIES))
def test_files_say_the_same(sitting: Sitting, name: str) -> None:
    one, folder = sitting.done[name], sitting.folder
    assert {file.suffix for file in one.files} == {".md", ".csv", ".json", ".svg"}
    data = json.loads((folder / f"{one.study.file}.json").read_text(encoding="utf-8"))
    with (folder / f"{one.study.file}.csv").open(encoding="utf-8") as file:
        records = list(csv.DictReader(file))
    cells = [
        (table["id"], row["key"], column["key"], cell)
        for table in data["tables"]
        for row in table["rows"]
        for column, cell in zip(table["columns"], row["cells"], strict=True)
    ]
    for table, row, column, cell in cells:
        (first, *_) = [
            r for r in records if (r["table"], r["row"], r["column"]) == (table, row, column)
        ]
        value = (cell["measured"] or {}).get("value")
        assert first["value"] == ("" if value is None else str(value))
    assert len(data["claims"]) == len(one.outcome.claims)
    answer = one.outcome.answer
    assert answer is not None
    assert data["answer"] == answer.model_dump()
    page = (folder / f"{one.study.file}.md").read_text(encoding="utf-8")
    assert f"**{answer.sentence}**" in page
    assert page.index(answer.sentence) < page.index(".svg") < page.index("| --- |")
    assert f"**{answer.sentence}**" in (folder / "index.md").read_text(encoding="utf-8")
    assert str(folder) not in json.dumps(data)
    svg = (folder / f"{one.study.file}.svg").read_text(encoding="utf-8")
    assert "<svg" in svg
    assert one.study.number in svg


def test_a_plot_names_axes_and_series(sitting: Sitting) -> None:
    for file, words in {
        "table4": ("ObjectRecall", "95 % interval", "+ Feedback, best kept"),
        "fig7": ("complexity (relations", "triplets (baseline)", "FID"),
        "fig12": ("scenes of a sample", "std. of SGScore (points)"),
    }.items():
        svg = (sitting.folder / f"{file}.svg").read_text(encoding="utf-8")
        for word in words:
            assert word in svg, (file, word)


def test_known_differences_are_found(sitting: Sitting) -> None:
    done = sitting.done
    (gain,) = claims(done["feedback"], "scene composition raises SGScore")
    assert gain.measured.value == pytest.approx(20, abs=1)
    assert gain.verdict == "agrees"
    for condition in claims(done["complexity"], "SGScore falls as scenes"):
        assert condition.measured.value == pytest.approx(-100 * FALL, abs=0.3)
        assert condition.verdict == "agrees"
    for judge in claims(done["judges"], "`judge-eager`"):
        assert judge.measured.value == pytest.approx(-30, abs=2)
        assert judge.verdict == "disagrees"
    for claim in claims(done["tables23"], "CLIPScore of the same pictures"):
        assert claim.verdict == "agrees"
    for claim in claims(done["tables23"], "FID hardly changes"):
        assert claim.verdict == "open"
    for claim in claims(done["attributes"], "recall with an attribute"):
        assert claim.measured.value == pytest.approx(-3, abs=1.5)


def test_the_last_picture_is_told_from_the_one_that_is_kept(sitting: Sitting) -> None:
    done = sitting.done
    rows = {row.key: row.cells[2].measured for row in done["feedback"].outcome.tables[0].rows}
    last, kept, before = (
        rows[key] for key in ("feedback/last", "feedback/kept", "composition/kept")
    )
    assert last is not None
    assert kept is not None
    assert before is not None
    # Of three scenes two are repaired; of all, every second keeps its first picture.
    assert (last.value or 0) - (before.value or 0) == pytest.approx(10 * 2 / 3, abs=1.5)
    assert (kept.value or 0) < (last.value or 0)
    assert "Feedback repaired 65 % of the pictures" in " ".join(done["feedback"].outcome.notes)
    drawn = done["feedback"].outcome.data["images_per_scene"]
    assert drawn["composition"] == 1.0
    assert drawn["feedback"] == pytest.approx(1 + 2 * 26 / 40, abs=0.01)


async def test_values_that_are_all_alike_decide_nothing(tmp_path: Path) -> None:
    found = await run(tmp_path, "feedback", "attributes", made=Made(flat=True))
    for one in found.done.values():
        assert {claim.verdict for claim in one.outcome.claims} == {"open"}


def test_pictures_of_all_studies_are_drawn_once(sitting: Sitting) -> None:
    judged, graphs, adapter, scenes, objects = sitting.made.asked
    assert [e.family for e in sitting.made.asked] == [*4 * ["scenes"], "objects"]
    # Graphs are read off few pictures, and all of these are drawn for other studies anyway.
    assert [m.name for m in graphs.config.metrics] == ["sgscore", "psg"]
    assert set(graphs.config.conditions) <= set(scenes.config.conditions)
    assert graphs.config.seeds == scenes.config.seeds[:1]
    assert len(judged.config.panels) == 6
    assert set(judged.config.conditions) < set(scenes.config.conditions)
    assert adapter.config.seeds == scenes.config.seeds[:1]
    assert scenes.config.judge_rounds == adapter.config.judge_rounds == "all"
    assert {m.name for m in scenes.config.metrics} == {"sgscore", "is", "fid", "clipscore"}
    # Whoever reports has steered no loop.
    for evaluation in (adapter, scenes):
        assert {j for p in evaluation.config.panels.values() for j in p.judges} == {
            "local:miniature/judge-c"
        }
    # What a name draws is the same in all of them: the folder gives it once.
    for other in (adapter, graphs):
        for name in set(other.config.conditions) & set(scenes.config.conditions):
            assert other.config.condition_of(name) == scenes.config.condition_of(name)
    assert objects.dataset is not None


def test_the_index_counts_and_orders_the_statements(sitting: Sitting) -> None:
    text = (sitting.folder / "index.md").read_text(encoding="utf-8")
    every = [claim for one in sitting.done.values() for claim in one.outcome.claims]
    assert f"Of {len(every)} comparisons with the paper" in text
    for verdict, words in (("agrees", "agree in direction"), ("disagrees", "disagree,")):
        assert f"{sum(claim.verdict == verdict for claim in every)} {words}" in text
    for claim in every:
        assert claim.sentence() in text
    assert text.index("**Agrees** (Fig. 11)") < text.index("**Disagrees** (Fig. 11)")


async def test_studies_that_are_run_later_join_the_index(tmp_path: Path) -> None:
    await run(tmp_path, "feedback")
    await run(tmp_path, "attributes")
    text = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert "## Table 4" in text
    assert "## Table 9" in text


async def test_a_damaged_file_is_named_and_stays(tmp_path: Path) -> None:
    file = tmp_path / "table4.json"
    file.write_text("{", encoding="utf-8")
    with pytest.raises(EvalError, match=r"table4\.json is not a result of a study"):
        await run(tmp_path, "attributes")
    assert file.read_text(encoding="utf-8") == "{"


@pytest.mark.parametrize("profile", ["miniature", "sdxl", "sd15", "flux"])
def test_configurations_are_valid_for_profiles(profile: str, tmp_path: Path) -> None:
    setup = Setup(profile=profile)
    jobs = plan(studies_named("all", setup=setup), setup, SETTINGS, tmp_path)
    found = [job for job in jobs if isinstance(job, Evaluation)]
    for evaluation in found:
        text = evaluation.config.model_dump_json()
        assert EvalConfig.model_validate_json(text) == evaluation.config
        assert evaluation.config.backends == (profile,)
    whole = [e for e in found if "feedback_whole" in e.config.conditions]
    # Where a repair redraws the whole picture anyway, it has one name.
    assert bool(whole) == (profile == "miniature")


def test_steps_and_levels_reach_the_configuration(tmp_path: Path) -> None:
    (found,) = plan(studies_named("feedback"), Setup(n=20, steps=4), SETTINGS, tmp_path)
    assert isinstance(found, Evaluation)
    for name in found.config.conditions:
        assert found.config.condition_of(name).profile["steps"] == 4
    assert found.config.condition_of("triplets").profile["composer"] == "triplets"
    assert found.config.dataset.options["complexity"] == "1-10"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"profile": "kontext"}, None),
        ({"profile": "openai"}, "no IP-Adapter"),
    ],
)
def test_a_profile_that_cannot_be_studied_is_refused(
    changes: dict[str, str], said: str | None, tmp_path: Path
) -> None:
    setup = Setup.model_validate(changes)
    if said is None:
        assert plan(studies_named("adapter"), setup, SETTINGS, tmp_path)
        return
    with pytest.raises(StudyError, match=said):
        plan(studies_named("adapter"), setup, SETTINGS, tmp_path)


@pytest.mark.parametrize(
    ("name", "more", "said"),
    [
        ("psg", {}, "--extractor two-stage:openai"),
        ("xtc", {}, "--extractor two-stage:openai"),
        ("xtc", {"extractor": "two-stage:openai:gpt"}, "--understanders chat:openai"),
    ],
)
def test_studies_of_graphs_name_what_they_lack(
    name: str, more: dict[str, str], said: str, tmp_path: Path
) -> None:
    setup = Setup.model_validate({"profile": "sdxl", **more})
    assert STUDIES[name] not in studies_named("all", setup=setup)
    assert STUDIES["graph_damage"] in studies_named("all", setup=setup)
    with pytest.raises(StudyError, match=said):
        STUDIES[name].requirements(setup, SETTINGS)


def test_an_unknown_study_is_named_with_the_known() -> None:
    with pytest.raises(StudyError, match=r"unknown study 'tabel4'.*feedback.*or all"):
        studies_named("tabel4")


@pytest.mark.parametrize("name", [name for name in STUDIES if name != "graph_damage"])
def test_every_study_that_draws_says_what_of_its_prompts_was_not_read(
    sitting: Sitting, name: str
) -> None:
    one = sitting.done[name]
    found = [
        (table, row)
        for table in one.outcome.tables
        if {"tokens_dropped", "facts_dropped"} <= {column.key for column in table.columns}
        for row in table.rows
        if not row.paper_only
    ]
    assert found
    for table, row in found:
        places = [column.key for column in table.columns]
        tokens, facts = (
            row.cells[places.index(key)].measured for key in ("tokens_dropped", "facts_dropped")
        )
        assert tokens is not None
        assert facts is not None
        if row.key == "triplets" or row.key == "triplets/overall":
            # Every fourth item, with one seed or with two.
            assert tokens.value, table.id
            assert tokens.value % 9 == 0
            assert facts.value == tokens.value * 2 / 9, table.id
        elif not row.key.startswith("triplets"):
            assert (tokens.value, facts.value) == (0.0, 0.0), row.key


def test_a_study_names_the_models_that_judge_what_they_steered(sitting: Sitting) -> None:
    said = "Self-report: local:miniature/judge-a of the metric psg steered the loop of"
    for name, one in sitting.done.items():
        page = (sitting.folder / f"{one.study.file}.md").read_text(encoding="utf-8")
        assert (said in page) == (name == "psg"), name
