"""What a release says of itself: version, metadata, changelog and citation."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from typer.testing import CliRunner

import scenewright
from scenewright.cli.main import app
from scenewright.runs.folder import installed_versions

ROOT = Path(__file__).resolve().parents[2]
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
"""Sections of a version in Keep a Changelog, in its order."""


def build() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def changelog() -> str:
    return (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_version_stands_in_one_place() -> None:
    assert "version" in build()["project"]["dynamic"]
    text = (ROOT / build()["tool"]["hatch"]["version"]["path"]).read_text(encoding="utf-8")
    assert re.findall(r'^VERSION = "(.+)"$', text, re.MULTILINE) == [scenewright.__version__]
    assert installed_versions()["scenewright"] == scenewright.__version__
    told = CliRunner().invoke(app, ["--version"])
    assert told.stdout == f"scenewright {scenewright.__version__}\n"


def test_the_index_gets_what_it_shows() -> None:
    project = build()["project"]
    assert project["license"] == "Apache-2.0"
    assert 20 < len(project["description"]) < 120
    assert project["keywords"] == sorted(project["keywords"])
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog"} <= set(project["urls"])
    stable = "Development Status :: 5 - Production/Stable"
    assert {stable, "Typing :: Typed"} <= set(project["classifiers"])
    assert not [c for c in project["classifiers"] if c.startswith("License ::")], "PEP 639"
    assert (ROOT / "scenewright" / "py.typed").is_file()
    oldest = project["requires-python"].removeprefix(">=")
    assert f"Programming Language :: Python :: {oldest}" in project["classifiers"]


def test_links_of_the_readme_lead_to_the_repository_where_the_index_shows_it() -> None:
    hook = build()["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = (ROOT / hook["fragments"][0]["path"]).read_text(encoding="utf-8")
    assert re.search(r"\]\(docs/", text)
    for rule in hook["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    links = re.findall(r"\]\(([^)]+)\)", text)
    source = build()["project"]["urls"]["Source"]
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert any(link.startswith(f"{source}/blob/v$HFPR_VERSION/docs/") for link in links)
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)
    assert all(link.startswith("https://raw.githubusercontent.com/") for link in pictures)


def test_the_changelog_begins_with_the_version_at_hand() -> None:
    heads = re.findall(r"^## \[(.+?)\](?: - (\S+))?$", changelog(), re.MULTILINE)
    released = [(Version(name), day) for name, day in heads if name != "Unreleased"]
    assert released[0][0] == Version(scenewright.__version__)
    assert released == sorted(released, reverse=True)
    assert all(date.fromisoformat(day) for _, day in released)
    for version, _ in released:
        assert re.search(rf"^\[{version}\]: https://\S+/v{version}$", changelog(), re.MULTILINE)


def test_the_changelog_has_the_sections_of_keep_a_changelog() -> None:
    for part in re.split(r"^## ", changelog(), flags=re.MULTILINE)[1:]:
        kinds = re.findall(r"^### (.+)$", part, re.MULTILINE)
        assert kinds == [kind for kind in KINDS if kind in kinds], part.splitlines()[0]


def test_the_citation_file_is_of_this_version() -> None:
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert found["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(found)
    assert found["type"] == "software"
    assert found["version"] == scenewright.__version__
    assert found["license"] == build()["project"]["license"]
    assert found["repository-code"] == build()["project"]["urls"]["Source"]
    assert found["authors"] == build()["project"]["authors"]
    # YAML reads an unquoted date as one, which the format's schema refuses.
    assert re.search(rf"^## \[.*\] - {found['date-released']}$", changelog(), re.MULTILINE)
    assert isinstance(found["date-released"], str)


@pytest.mark.parametrize("name", sorted({*scenewright.__all__} - {"__version__"}))
def test_every_public_name_is_documented(name: str) -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert f"\n::: scenewright.{name}\n" in page


def test_the_page_of_versions_says_which_pythons_are_tested() -> None:
    page = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
    held = re.findall(r"Python :: (3\.\d+)", "\n".join(build()["project"]["classifiers"]))
    assert all(version in SpecifierSet(build()["project"]["requires-python"]) for version in held)
    assert f"Python {' and '.join(held)} is the version that the tests have to pass with" in page
