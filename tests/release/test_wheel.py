"""``scripts/wheel.py``, which builds the release and tries it away from the repository.

``.ci/run`` runs the whole of it (``make wheel``); here stand its parts that take no minute.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ["scenewright/__init__.py", "scenewright/py.typed"]
WHEEL = [*PACKAGE, "scenewright-1.0.0.dist-info/METADATA"]
SOURCE = [f"scenewright-1.0.0/{name}" for name in (*PACKAGE, "README.md", "LICENSE", "Makefile")]


@pytest.fixture
def wheel(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("wheel")


def test_archives_that_hold_the_package_pass(wheel: ModuleType) -> None:
    wheel.compare(WHEEL, SOURCE, PACKAGE)


@pytest.mark.parametrize(
    ("wheels", "source", "told"),
    [
        (WHEEL[1:], SOURCE, "scenewright/__init__.py is missing in the wheel"),
        ([*WHEEL, "tests/x.py"], SOURCE, "tests/x.py is in the wheel and not tracked"),
        (WHEEL, SOURCE[1:], "scenewright/__init__.py is missing in the source archive"),
        (WHEEL, [*SOURCE[:2], SOURCE[3]], "README.md is missing in the source archive"),
    ],
)
def test_what_is_missing_or_too_much_is_named(
    wheel: ModuleType, wheels: list[str], source: list[str], told: str
) -> None:
    with pytest.raises(wheel.WheelError, match=told):
        wheel.compare(wheels, source, PACKAGE)


def test_what_ships_is_what_git_tracks(wheel: ModuleType) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    found = wheel.tracked("scenewright")
    assert "scenewright/py.typed" in found
    assert all(name.startswith("scenewright/") for name in found)


def test_an_environment_sees_neither_the_repository_nor_its_libraries(
    wheel: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("SCENEWRIGHT_PROFILE", "sdxl")
    environment = wheel.Environment(tmp_path)
    told = environment.run(
        "python",
        "-c",
        "import os, sys; print(sys.prefix, os.getcwd(), 'SCENEWRIGHT_PROFILE' in os.environ)",
    )
    assert told.split() == [str(tmp_path / "env"), str(tmp_path / "work"), "False"]
    with pytest.raises(wheel.WheelError, match="No module named 'scenewright'"):
        environment.run("python", "-c", "import scenewright")
    assert environment.run("python", "-c", "exit(3)", expected=(3,)) == ""


def test_every_change_tries_the_wheel() -> None:
    assert "\nmake wheel\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
