"""Studies run, stopped, gone on with; parts that fail, lack something, or are read back."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pydantic import Field

from scenewright.evals.reporting.charts import Chart
from scenewright.evals.reporting.frames import Column, Frame
from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.studies.panel import running
from scenewright.evals.studies.panel import running as keeping
from scenewright.evals.studies.panel.page import PAGE, document, summary, write_study
from scenewright.evals.studies.panel.running import StudyProgress, run_study
from scenewright.evals.studies.panel.sources.tables import write_table
from scenewright.evals.studies.panel.study import (
    Need,
    Options,
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
    StudyConfig,
)
from scenewright.evals.studies.panel.table import (
    AnswerTable,
    FactRow,
    ImageRow,
    JudgeColumn,
    PanelStudyError,
)
from scenewright.runs.folder import RunError


class TinyOptions(Options):
    """Options of a part for tests."""

    times: int = Field(default=2, ge=1)
    """How often."""


@dataclass
class Tiny:
    """A part that notes how often it ran."""

    name: str = "tiny"
    needs: frozenset[Need] = frozenset()
    error: Exception | None = None
    runs: list[PanelStudyContext] = field(default_factory=list)

    def part(self) -> PanelStudy:
        return PanelStudy(
            self.name, f"Title of {self.name}", "Is it so?", self.needs, TinyOptions, self.run
        )

    async def run(self, context: PanelStudyContext, options: TinyOptions) -> PanelStudyResult:
        self.runs.append(context)
        context.told(1, options.times)
        (context.folder / "own.txt").write_text("kept")
        if self.error is not None:
            raise self.error
        mean = float(np.nanmean(context.table.said))
        figure = Estimate(value=mean, low=mean - 0.1, high=mean + 0.1)
        columns = {"mean": Column(title="mean", digits=2)}
        rows = [{"a": np.float64(mean)}, {"a": float("nan"), "b": "x"}]
        return PanelStudyResult(
            findings=(f"The mean is {mean:.2f} & more.", "A second finding."),
            frames=(
                Frame.of("means", [{"of": "all", "mean": figure}], "Means <b>", columns,
                         label="{of}", kept=False),
                Frame.of("rows", rows),
                Frame.of("none", []),
            ),
            charts=(
                Chart("line", [{"x": 0, "y": 0.0}, {"x": 1, "y": 1.0}], "x", "y", title="A line"),
                Chart("broken", [{"x": 0}], "x", "y"),
            ),
            figures={"mean": mean, "undefined": float("nan"), "interval": figure},
            notes=("Of a test.",),
        )  # fmt: skip


def a_table(shift: float = 0.0) -> AnswerTable:
    said = np.array([[0.9, 0.2], [0.4, np.nan]]) + shift
    return AnswerTable(
        name="t",
        judges=(JudgeColumn("a"), JudgeColumn("b")),
        images=(ImageRow("p", "i"), ImageRow("q", "j")),
        facts=(FactRow("f", 0), FactRow("f", 1)),
        said=said,
        asked=np.ones((2, 2), bool),
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_table(a_table(), tmp_path / "answers.csv")
    return tmp_path


def config(**more: Any) -> StudyConfig:
    given = {"name": "try", "source": {"kind": "table", "path": "answers.csv"}, **more}
    return StudyConfig.model_validate(given)


async def study_of(place: Path, *parts: Tiny, **more: Any) -> running.PanelStudyRun:
    only = more.pop("only", ())
    return await run_study(
        config(**more),
        place / "out",
        root=place,
        only=only,
        write=write_study,
        parts=[part.part() for part in parts],
    )


async def test_a_part_is_run_rendered_and_told(place: Path) -> None:
    stands: list[StudyProgress] = []
    tiny = Tiny()
    study = await run_study(
        config(about="A <try>."), place / "out", root=place, parts=[tiny.part()],
        watch=stands.append, write=write_study,
    )  # fmt: skip
    (found,) = study.outcomes
    assert found.state == "done"
    assert found.plots == {"line": "A line"}
    assert any("plot broken could not be drawn: KeyError: " in n for n in found.notes)
    assert found.figures == {
        "mean": 0.5,
        "undefined": None,
        "interval": {"mean": 0.5, "low": 0.4, "high": 0.6},
    }
    rows = pq.read_table(place / "out" / "tiny" / "rows.parquet").to_pylist()
    assert rows == [{"a": 0.5, "b": None}, {"a": None, "b": "x"}]
    assert found.records == ("rows",)
    assert stands[0] == StudyProgress("reading the answers", 0, 0, 1, 2)
    assert stands[-1] == StudyProgress("Title of tiny", 1, 2, 2, 2)

    html = (place / "out" / PAGE).read_text(encoding="utf-8")
    assert "The mean is 0.50 &amp; more." in html
    assert "Means &lt;b&gt;" in html
    assert "A &lt;try&gt;." in html
    assert html.count("data:image/svg+xml;base64,") == 1
    assert "1 of 4 asked are unscored" in html
    text = (place / "out" / "index.md").read_text(encoding="utf-8")
    assert "![A line](tiny/line.svg)" in text
    assert "| all | 0.50 [0.40, 0.60] |" in text
    told = json.loads((place / "out" / "study.json").read_text(encoding="utf-8"))
    assert told["parts"]["tiny"]["figures"]["mean"] == 0.5
    # The same sentence leads everywhere.
    assert told["answer"] == summary(study)["answer"] == "The mean is 0.50 & more."
    assert html.index("The mean is 0.50 &amp; more.") < html.index("<img") < html.index("<table")
    assert text.splitlines()[2] == "**The mean is 0.50 & more.**"
    assert told["table"]["unscored"] == 1
    assert told["table"]["digest"] == keeping.digest_of(a_table())


async def test_what_is_done_is_read_back_until_something_changes(place: Path) -> None:
    tiny = Tiny()
    first = await study_of(place, tiny)
    again = await study_of(place, tiny)
    assert len(tiny.runs) == 1
    assert again.outcomes == first.outcomes
    await study_of(place, tiny, part={"power": {}}, seed=1)
    assert len(tiny.runs) == 2
    write_table(a_table(shift=0.05), place / "answers.csv")
    await study_of(place, tiny, seed=1)
    assert len(tiny.runs) == 3
    (place / "out" / "tiny" / "line.svg").unlink()
    await study_of(place, tiny, seed=1)
    assert len(tiny.runs) == 4


async def test_another_version_of_the_code_works_it_out_anew(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = Tiny()
    await study_of(place, tiny)
    asked: list[str] = []

    def another(module: str) -> str:
        asked.append(module)
        return f"another {module}"

    monkeypatch.setattr(keeping, "code_digest", another)
    await study_of(place, tiny)
    assert len(tiny.runs) == 2
    # The code of the part itself, and not of the module that declares what parts are.
    assert asked == [TinyOptions.__module__]


async def test_a_part_that_fails_is_told_and_the_others_go_on(place: Path) -> None:
    bad = Tiny("bad", error=RuntimeError("it broke\nsecond line"))
    ours = Tiny("ours", error=PanelStudyError("too few images"))
    good = Tiny("good")
    study = await study_of(place, bad, ours, good)
    assert [one.state for one in study.outcomes] == ["failed", "failed", "done"]
    assert study.outcomes[0].reason == "RuntimeError: it broke second line"
    assert study.outcomes[1].reason == "too few images"
    assert "second line" in (place / "out" / "bad" / "error.txt").read_text()
    assert "RuntimeError: it broke" in (place / "out" / PAGE).read_text(encoding="utf-8")
    bad.error = None
    after = await study_of(place, bad, ours, good)
    assert [one.state for one in after.outcomes] == ["done", "failed", "done"]
    assert not (place / "out" / "bad" / "error.txt").exists()
    assert len(good.runs) == 1


async def test_a_part_whose_needs_are_lacking_is_left_out_with_the_reason(place: Path) -> None:
    tiny = Tiny(needs=frozenset({"truth"}))
    study = await study_of(place, tiny)
    assert study.outcomes[0].state == "left out"
    assert "facts whose truth is known" in study.outcomes[0].reason
    assert tiny.runs == []
    assert "| left out | it needs facts whose truth is known" in document(study).markdown()


async def test_only_what_is_asked_for_is_run_and_the_rest_is_read_back(place: Path) -> None:
    one, two = Tiny("one"), Tiny("two")
    study = await study_of(place, one, two, only=["two"])
    assert [found.state for found in study.outcomes] == ["not run", "done"]
    await study_of(place, one, two)
    study = await study_of(place, one, two, only=["one"])
    assert [found.state for found in study.outcomes] == ["done", "done"]
    assert (len(one.runs), len(two.runs)) == (1, 1)


async def test_a_study_that_is_cut_off_keeps_what_is_done(place: Path) -> None:
    one, two = Tiny("one"), Tiny("two")
    stuck = asyncio.Event()

    async def wait(context: PanelStudyContext, options: TinyOptions) -> PanelStudyResult:
        stuck.set()
        await asyncio.sleep(60)
        raise AssertionError

    parts = [one.part(), replace(two.part(), run=wait)]
    task = asyncio.create_task(
        run_study(config(), place / "out", root=place, parts=parts, write=write_study)
    )
    await stuck.wait()
    with pytest.raises(RunError, match="is being driven by process"):
        await study_of(place, one)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    html = (place / "out" / PAGE).read_text(encoding="utf-8")
    assert "the study has not come to it" in html
    study = await study_of(place, one, two)
    assert [found.state for found in study.outcomes] == ["done", "done"]
    assert len(one.runs) == 1


async def test_what_may_be_learnt_from_has_the_same_judges_in_the_same_order(place: Path) -> None:
    table = a_table()
    turned = table.with_judges([1, 0])
    write_table(turned, place / "learn.csv")
    tiny = Tiny()
    learn = {"kind": "table", "path": "learn.csv"}
    await study_of(place, tiny, learn=learn)
    found = tiny.runs[0].learn
    assert found is not None
    assert found.judge_ids == ("a", "b")
    np.testing.assert_array_equal(found.said, table.said)
    write_table(table.with_judges([0]), place / "learn.csv")
    with pytest.raises(PanelStudyError, match=r"\[learn\] has no answers of b"):
        await study_of(place, tiny, learn=learn)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"families": {"c": "x"}}, r"\[families\] names c, but the judges are a, b"),
        ({"loop_judges": ["c"]}, "loop_judges names c, but the judges are a, b"),
    ],
)
async def test_judges_that_are_not_there_are_told(
    place: Path, more: dict[str, Any], said: str
) -> None:
    with pytest.raises(PanelStudyError, match=said):
        await study_of(place, Tiny(), **more)


async def test_families_and_loop_judges_reach_the_parts(place: Path) -> None:
    tiny = Tiny()
    await study_of(place, tiny, families={"a": "x", "b": "x"}, loop_judges=["b"])
    assert tiny.runs[0].table.families == ("x", "x")
    assert tiny.runs[0].loop_judges == ("b",)
