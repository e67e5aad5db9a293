"""Realism on the page and in the terminal: a group of its own, and the gain."""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console

from scenewright.cli.run_display import Lines, result_lines
from scenewright.runs.record import read_run
from scenewright.runs.report.render import write_page
from scenewright.runs.report.words import verdict_line
from tests.doubles import ScriptedJudge
from tests.graphs.test_realism import real, run, stated_level


async def test_the_page_shows_realism_before_and_after(tmp_path: Path) -> None:
    await run(
        tmp_path / "run",
        [60, 130],
        report_judges=[ScriptedJudge("c", level=stated_level)],
        realism_report_judges=[real("seen-last")],
        strategy="best-of-n",
        rounds=2,
    )
    text = write_page(tmp_path / "run").read_text("utf-8")
    assert (
        '<th scope="rowgroup">Realism</th><td class="num">2/6</td><td class="num">6/6</td>' in text
    )
    assert "Realism (OcR)" in text
    assert re.search(r"0\.\d\d in round 0, report judges", text)
    assert "Probabilities of different kinds are mixed" not in text
    view = read_run(tmp_path / "run")
    assert verdict_line(view.card("loop")) == "All 6 facts hold; realism 0.62"
    lines = [value for label, value in result_lines(view) if "realism" in label or "+0." in value]
    assert lines == [
        "0.62 by the judges of the loop (+0.14 from round 0)",
        "0.62 by judges that the loop never saw (+0.14 from round 0)",
    ]


async def test_progress_tells_how_real_a_picture_looks(tmp_path: Path) -> None:
    _, events = await run(tmp_path / "run", [60, 130])
    told = io.StringIO()
    lines = Lines(Console(file=told, width=200))
    for event in events:
        lines(event)
    assert "round 0: loop judges: all 6 facts hold; realism 0.48, score 1.00" in told.getvalue()


async def test_a_page_without_realism_says_nothing_of_it(tmp_path: Path) -> None:
    await run(
        tmp_path / "run", realism=False, realism_judges=None, realism_report_judges=None, rounds=1
    )
    text = write_page(tmp_path / "run").read_text("utf-8").lower()
    assert "realism" not in text.replace("realism_judges", "")
    assert "boxed" not in text.split("</style>")[-1]
