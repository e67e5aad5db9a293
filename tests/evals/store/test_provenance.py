"""The digest of code follows imports, also within functions, and data files beside modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenewright.evals.store import provenance
from scenewright.evals.store.provenance import code_digest, import_closure

PART = "scenewright.evals.studies.panel.parts.aggregators"


def names(module: str) -> set[str]:
    root = Path(provenance.__file__).parents[2]
    return {file.relative_to(root).as_posix() for file in import_closure(module)}


def test_a_part_of_a_study_rests_on_the_mathematics_that_it_uses() -> None:
    found = names(PART)
    assert {"agents/panel/aggregation.py", "core/facts.py"} <= found
    assert "core/vocabulary.toml" in found
    assert "service/app.py" not in found


def test_a_module_that_imports_nothing_of_the_package_stands_alone() -> None:
    found = names("scenewright.core.version")
    assert "core/version.py" in found
    assert not [name for name in found if name.endswith(".py") and name != "core/version.py"]


def test_another_line_anywhere_in_the_closure_is_another_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(name: str, text: str) -> None:
        (tmp_path / name).write_text(text, encoding="utf-8")

    def digest() -> str:
        provenance._imported.cache_clear()
        return code_digest.__wrapped__("scenewright.one")

    monkeypatch.setattr(provenance, "_ROOT", tmp_path)
    write("one.py", "def f():\n    from scenewright import two\n    return two.X\n")
    write("two.py", "X = 1\n")
    write("three.py", "Y = 1\n")
    write("rates.toml", "a = 1\n")
    first = digest()
    write("three.py", "Y = 2\n")
    assert digest() == first
    write("two.py", "X = 2\n")
    second = digest()
    assert second != first
    write("rates.toml", "a = 2\n")
    assert digest() not in (first, second)


def test_a_module_without_a_file_is_an_error() -> None:
    with pytest.raises(LookupError, match="nothing_here"):
        import_closure("scenewright.nothing_here")
