"""The digest of code follows imports, also within functions, and data files beside modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenewright.evals.store import provenance
from scenewright.evals.store.provenance import code_digest, file_digest, import_closure

PART = "scenewright.evals.studies.panel.parts.aggregators"


def names(module: str) -> set[str]:
    root = Path(provenance.__file__).parents[2]
    return {file.relative_to(root).as_posix() for file in import_closure(module)}


def code_of(tmp_path: Path, text: str) -> str:
    file = tmp_path / "module.py"
    file.write_text(text, encoding="utf-8")
    return file_digest.__wrapped__(file)


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
    (tmp_path / "scenewright").mkdir()

    def write(name: str, text: str) -> None:
        (tmp_path / "scenewright" / name).write_text(text, encoding="utf-8")

    def digest() -> str:
        provenance._imported.cache_clear()
        file_digest.cache_clear()
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


def test_imports_for_type_checking_and_those_of_leaves_are_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "_ROOT", tmp_path)
    for package, files in {
        "scenewright": {"types.py": "", "used.py": "", "lazy.py": ""},
        "beside": {
            "one.py": "from typing import TYPE_CHECKING\n"
            "from beside import leaf\n"
            "if TYPE_CHECKING:\n    from scenewright import types\n"
            "else:\n    from scenewright import used\n",
            "leaf.py": "def f():\n    import scenewright.lazy\n",
        },
    }.items():
        (tmp_path / package).mkdir()
        for name, text in files.items():
            (tmp_path / package / name).write_text(text, encoding="utf-8")
    packages = ("scenewright", "beside")
    found = {file.name for file in import_closure("beside.one", packages)}
    assert found == {"one.py", "leaf.py", "lazy.py", "used.py"}
    found = {file.name for file in import_closure("beside.one", packages, ["beside.leaf"])}
    assert found == {"one.py", "leaf.py", "used.py"}


CODE = '''"""Text."""
# Why.
X = "a # b"
class A:
    """Text
    of two lines."""
    y = f"{X} # {X}"
    z = """one

    # three"""
    def f(self): ...
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""Text."""', '"""Other\nwords."""\n'),
        ("# Why.", "# Because."),
        ("# Why.", ""),
        ("    of two lines", "    \n    of three # lines"),
        ("class A", "\n\n# A class.\nclass A"),
    ],
)
def test_comments_docstrings_and_blank_lines_are_no_code(
    tmp_path: Path, old: str, new: str
) -> None:
    assert code_of(tmp_path, CODE) == code_of(tmp_path, CODE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a # b", "a # c"),
        ("} # {", "} # - {"),
        ("one\n\n", "one\n"),
        ("one\n", "one \n"),
        ("one\n\n", "one\n    \n"),
        ("# three", "# four"),
        ("    y =", "y ="),
        ("self): ...", "self, x): ..."),
    ],
)
def test_every_other_character_is_code(tmp_path: Path, old: str, new: str) -> None:
    changed = CODE.replace(old, new)
    if new == "y =":
        changed = changed.replace("    z", "z").replace("    def", "def")
    assert changed != CODE
    assert code_of(tmp_path, CODE) != code_of(tmp_path, changed)
