"""The notebooks of ``examples/notebooks``: their form, and that they run on the miniature."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.release.docs_blocks import ROOT, run_source

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path: Path, kind: str) -> list[str]:
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == kind]


async def execute(sources: list[str]) -> dict[str, Any]:
    """Run cells one after the other in one namespace, ``await`` at their top allowed."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, source in enumerate(sources):
        if (awaiting := run_source(source, f"cell {number}", names)) is not None:
            await awaiting
    return names


def test_there_are_the_notebooks_that_the_docs_name() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in ROOT.glob("docs/*.md"))
    named = set(re.findall(r"\.\./examples/notebooks/([\w-]+)\.ipynb", pages))
    assert named == {path.stem for path in NOTEBOOKS}
    assert len(named) == 3


@each
def test_a_notebook_is_valid_and_without_outputs(path: Path) -> None:
    found = json.loads(path.read_text(encoding="utf-8"))
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    assert found["metadata"]["kernelspec"]["language"] == "python"
    ids = [cell["id"] for cell in found["cells"]]
    assert len(set(ids)) == len(ids)
    assert found["cells"][0]["cell_type"] == "markdown"
    for cell in found["cells"]:
        assert re.fullmatch(r"[\w-]{1,64}", cell["id"])
        assert set(cell) - {"outputs", "execution_count"} == {
            "cell_type", "id", "metadata", "source",
        }  # fmt: skip
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None), "clear the outputs"


@each
def test_links_of_a_notebook_lead_to_pages_of_the_site(path: Path) -> None:
    links = re.findall(
        r"\]\(https://scenewright\.github\.io/scenewright/([^)]+)\.html\)",
        "".join(cells(path, "markdown")),
    )
    assert links
    assert [name for name in links if not (ROOT / "docs" / f"{name}.md").is_file()] == []


@pytest.mark.slow
@each
def test_a_notebook_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = asyncio.run(execute(cells(path, "code")))
    told = capsys.readouterr().out
    match path.stem:
        case "refine-with-your-model":
            assert names["result"].image.is_file()
            assert names["own"].rounds
            assert all(line in told for line in ("round 0: SGScore", "by the judges of the report"))
        case "score-a-model":
            assert names["test"].n == 6
            assert "composition − triplets:" in told
        case "study-a-panel":
            assert [outcome.state for outcome in names["study"].outcomes] == ["done"]
            assert (
                len(re.findall(r"^local:miniature/judge-\S+ +balanced accuracy", told, re.M)) == 3
            )
            assert (tmp_path / "studies" / "notebook" / "index.html").is_file()


async def test_a_cell_that_fails_is_told() -> None:
    with pytest.raises(ZeroDivisionError):
        await execute(["import asyncio", "await asyncio.sleep(0)\n1 / 0"])
