"""A late module is imported when something of it is used, and not before."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenewright.tools.backends.late_imports import import_late

PACKAGE = "package_for_late_imports"
NAME = f"{PACKAGE}.slow"


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module that takes a while to import and writes a line into a file as it does."""
    folder = tmp_path / PACKAGE
    folder.mkdir()
    told = tmp_path / "told"
    (folder / "__init__.py").write_text("")
    (folder / "slow.py").write_text(
        f"import time\nopen({str(told)!r}, 'a').write('imported\\n')\ntime.sleep(0.1)\nvalue = 7\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield told
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def lines(told: Path) -> int:
    return len(told.read_text().splitlines()) if told.exists() else 0


def test_it_is_imported_at_its_first_use(slow: Path) -> None:
    import_late(NAME)
    module = importlib.import_module(NAME)
    assert module.__file__ is not None
    assert importlib.util.find_spec(NAME) is not None
    assert lines(slow) == 0
    assert module.value == 7
    assert importlib.import_module(NAME).value == 7
    assert importlib.import_module(NAME) is not module
    assert lines(slow) == 1


def test_a_name_of_it_can_be_imported(slow: Path) -> None:
    import_late(NAME)
    found: dict[str, int] = {}
    exec(f"from {NAME} import value", found)
    assert found["value"] == 7
    with pytest.raises(ImportError):
        exec(f"from {NAME} import nothing", {})


def test_threads_that_use_it_at_once_get_all_of_it(slow: Path) -> None:
    import_late(NAME)
    module = importlib.import_module(NAME)
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(module.value)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [7] * 8
    assert lines(slow) == 1


def test_what_fails_is_tried_again(slow: Path, tmp_path: Path) -> None:
    source = tmp_path / PACKAGE / "slow.py"
    whole = source.read_text()
    source.write_text("raise RuntimeError('not now')\n")
    import_late(NAME)
    module = importlib.import_module(NAME)
    with pytest.raises(RuntimeError, match="not now"):
        _ = module.value
    source.write_text(whole)
    importlib.invalidate_caches()
    assert module.value == 7


def test_what_is_imported_or_not_there_stays_as_it_is(slow: Path) -> None:
    real = importlib.import_module(NAME)
    import_late(NAME)
    assert importlib.import_module(NAME) is real
    import_late(f"{PACKAGE}.missing")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(f"{PACKAGE}.missing")
