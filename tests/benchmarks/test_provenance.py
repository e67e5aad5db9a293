"""Results name what made them, and pages what of it changed since."""

from __future__ import annotations

import json
import re
import shutil
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import _harness, _provenance
from benchmarks._harness import SERVER, Option, benchmark, folder
from benchmarks._pages import marked
from benchmarks._provenance import (
    WEIGHTS,
    changes_since,
    code_of,
    digest_of,
    machine_class,
    replaced,
    weights_read,
)
from benchmarks._templates import Result
from scenewright.evals.store import provenance


def test_what_a_process_reads_is_seen() -> None:
    (WEIGHTS / "judges" / "judge-weak" / "config.json").read_bytes()
    (WEIGHTS / "judges" / "judge-eager" / "report.json").exists()
    assert weights_read()["judges/judge-weak"] == digest_of(WEIGHTS / "judges" / "judge-weak")


def test_a_report_beside_weights_is_not_one_of_them(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("1")
    before = digest_of(tmp_path)
    (tmp_path / "report.json").write_text("2")
    digest_of.cache_clear()
    assert digest_of(tmp_path) == before
    (tmp_path / "config.json").write_text("2")
    assert digest_of(tmp_path) == before, "read once a process"
    digest_of.cache_clear()
    assert replaced({tmp_path.name: before}, tmp_path.parent) == [tmp_path.name]
    assert replaced({"gone": before}, tmp_path) == ["gone"]


CONTENT = {"name": "ged", "commit": "c", "date": "d", "n": 1, "figures": {}, "machine": {}}


def result(folder: Path, **more: object) -> Result:
    file = folder / "ged.json"
    file.write_text(json.dumps(CONTENT | more))
    return Result.read(file)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository with a benchmark and a package of three rooms."""
    files = {
        "benchmarks/ged.py": "from benchmarks import _graphs\n"
        "from benchmarks._harness import f\nLIST = 'list.toml'\n",
        "benchmarks/_graphs.py": "def f():\n    from scenewright.evals.metrics import edit\n",
        "benchmarks/_harness.py": "from scenewright.runs import api\n",
        "benchmarks/list.toml": "a = 1\n",
        "benchmarks/other.toml": "a = 1\n",
        "scenewright/evals/metrics/edit.py": "from scenewright.core import scene\n",
        "scenewright/core/scene.py": "from scenewright.core.inner import words\n",
        "scenewright/core/inner/words.py": "",
        "scenewright/runs/api.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(_provenance, "ROOT", tmp_path)
    monkeypatch.setattr(provenance, "_ROOT", tmp_path)
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    caches = (provenance._file_of, provenance._imported, provenance.file_digest, _provenance._files)
    for cached in caches:
        cached.cache_clear()


EDIT = ("scenewright.evals.metrics.edit",)


def test_own_code_is_told_file_by_file_and_the_rest_by_room(tree: Path) -> None:
    found = code_of("ged", EDIT)
    own = ("benchmarks/_graphs.py", "benchmarks/ged.py", "benchmarks/list.toml")
    assert found["own"].keys() == {*own, "scenewright/evals/metrics/edit.py"}
    assert found["rest"].keys() == {"scenewright/core"}
    assert code_of("ged")["rest"].keys() == {"scenewright/core", "scenewright/evals/metrics"}
    assert changes_since("ged", found) == ([], [])


@pytest.mark.parametrize(
    ("path", "own", "rooms"),
    [
        ("benchmarks/_graphs.py", True, []),
        ("benchmarks/list.toml", True, []),
        ("benchmarks/other.toml", False, []),
        ("benchmarks/_harness.py", False, []),
        ("scenewright/runs/api.py", False, []),
        ("scenewright/evals/metrics/edit.py", True, []),
        ("scenewright/core/inner/words.py", False, ["scenewright/core"]),
    ],
)
def test_a_change_is_of_the_benchmark_of_a_room_or_of_no_consequence(
    tree: Path, path: str, own: bool, rooms: list[str]
) -> None:
    found = code_of("ged", EDIT)
    text = (tree / path).read_text()
    (tree / path).write_text(f"{text}\n# A comment.\n")
    forget()
    if path.endswith(".py"):
        assert changes_since("ged", found) == ([], [])
    (tree / path).write_text(f"{text}\nb = 1\n")
    forget()
    assert changes_since("ged", found) == ([path] if own else [], rooms)


def test_code_that_is_no_more_has_changed(tree: Path) -> None:
    found = code_of("ged", EDIT)
    (tree / "benchmarks" / "ged.py").unlink()
    forget()
    assert "benchmarks/ged.py" in changes_since("ged", found).own
    shutil.rmtree(tree / "scenewright" / "core")
    forget()
    assert changes_since("ged", found).rooms == ["scenewright/core"]


def test_a_page_says_what_changed_and_what_is_not_known(tree: Path) -> None:
    weights = {"judges/judge-a": digest_of(WEIGHTS / "judges" / "judge-a")}
    code = code_of("ged", EDIT)
    old = result(tree, weights=weights)
    assert old.source.endswith("`c` †")
    assert not old.stale
    fresh = result(tree, weights=weights, code=code, options={"scenes": 3})
    assert fresh.source.endswith("`c`, `--scenes 3`")
    assert not fresh.stale
    others = result(tree, weights={"judges/judge-a": "0"}, code=code)
    assert others.stale == "with weights that were replaced since (judges/judge-a)"
    assert others.source.endswith(others.stale)
    (tree / "scenewright/core/scene.py").write_text("a = 1\n")
    (tree / "benchmarks/ged.py").write_text("import scenewright.evals.metrics.edit\n")
    forget()
    assert fresh.stale == "with code that changed since (benchmarks/ged.py)"
    assert fresh.source.endswith(f"{fresh.stale}; 1 of the 1 rooms below it changed since")


def test_a_claim_on_a_stale_figure_is_marked_until_it_is_measured_again(tree: Path) -> None:
    page = "It is faster. <!-- claim:ged --><!-- /claim -->\n"
    weights = {"judges/judge-a": digest_of(WEIGHTS / "judges" / "judge-a")}
    fresh, stale = result(tree, weights=weights), result(tree, weights={"judges/judge-a": "0"})
    assert marked(page, {"ged": fresh}) == page
    said = marked(page, {"ged": stale})
    assert "*(`benchmarks.ged` was measured with weights that were replaced since" in said
    assert marked(said, {"ged": stale}) == said
    assert marked(said, {"ged": fresh}) == page
    with pytest.raises(KeyError):
        marked(page, {})


def test_the_class_of_machine_names_what_decides_speed_and_rounding() -> None:
    found = machine_class()
    assert found.keys() == {"cpus", "processor", "bf16", "memory_gib", "device"}
    assert found["processor"]
    assert found["memory_gib"] > 0


def test_every_module_that_a_benchmark_measures_is_there() -> None:
    root = Path(_provenance.__file__).parents[1]
    for file in (root / "benchmarks").glob("[a-z]*.py"):
        for measures in re.findall(r"measures=\(([^)]*)\)", file.read_text(encoding="utf-8")):
            for name in re.findall(r'"([^"]+)"', measures):
                place = root.joinpath(*name.split("."))
                assert place.is_dir() or place.with_suffix(".py").is_file(), (file.stem, name)


@benchmark("small", scenes=Option(5, "scenes"), data=folder("the data"), server=SERVER)
def counting(options: Namespace) -> tuple[int, dict[str, int]]:
    """Count the scenes."""
    return options.scenes, {"scenes": options.scenes}


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (["--data", "here", "--server", "postgresql://me:secret@host"], {}),
        (["--scenes", "3"], {"scenes": 3}),
    ],
)
def test_a_full_result_names_its_options_code_weights_and_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], options: dict[str, int]
) -> None:
    monkeypatch.setattr(_harness, "RESULTS", tmp_path)
    monkeypatch.setattr(_harness, "measured_commit", lambda started: "0123456789ab")
    counting(arguments)
    (file,) = tmp_path.glob("*.json")
    found = json.loads(file.read_text())
    assert found["options"] == options
    assert found["code"].keys() == {"own", "rest"}
    assert "weights" in found
    assert machine_class().items() <= found["machine"].items()
