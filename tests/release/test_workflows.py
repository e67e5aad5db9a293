"""Workflows and templates of the repository: their form, and that what they name exists."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from scenewright.core.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")
each = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
ACTION = re.compile(r"[\w.-]+/[\w./-]+@(v\d+|release/v\d+)")
EXPRESSION = re.compile(r"\$\{\{\s*(.+?)\s*\}\}")
ROOTS = {"github", "matrix", "steps", "needs", "env", "secrets", "inputs"}


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def workflow(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a workflow and its events; YAML 1.1 reads the key ``on`` as true."""
    found = read(path)
    return found, found.pop(True)


def steps(found: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, job in found["jobs"].items():
        yield from ((name, step) for step in job["steps"])


def by_name(name: str) -> dict[str, Any]:
    return workflow(GITHUB / "workflows" / f"{name}.yml")[0]


def test_there_are_workflows_for_tests_documentation_and_the_wheel() -> None:
    assert {path.stem for path in WORKFLOWS} == {"tests", "docs", "wheel"}


@each
def test_a_workflow_has_the_keys_of_one_and_few_rights(path: Path) -> None:
    found, events = workflow(path)
    assert set(found) <= {"name", "permissions", "concurrency", "env", "jobs", "defaults"}
    assert found["name"] == path.stem
    assert set(events) <= {"push", "pull_request", "workflow_dispatch", "schedule"}
    # What a job may write it says itself.
    assert found["permissions"] == {"contents": "read"}
    for job in found["jobs"].values():
        assert set(job) <= {
            "runs-on", "timeout-minutes", "steps", "needs", "if", "strategy", "permissions",
            "environment", "concurrency", "continue-on-error", "env",
        }  # fmt: skip
        assert job["runs-on"] == "ubuntu-latest"
        assert job["timeout-minutes"] <= 90
        needed = job.get("needs", [])
        assert {needed} if isinstance(needed, str) else set(needed) <= set(found["jobs"])


@each
def test_steps_are_actions_of_a_version_or_commands(path: Path) -> None:
    for name, step in steps(workflow(path)[0]):
        assert ("uses" in step) != ("run" in step), f"{name}: {step}"
        assert set(step) <= {"name", "id", "if", "uses", "with", "run", "env", "shell"}
        if "uses" in step:
            assert ACTION.fullmatch(step["uses"]), step["uses"]
        else:
            # The text of an event is never part of a script.
            assert "${{" not in step["run"]


@each
def test_expressions_read_what_a_workflow_has(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for expression in EXPRESSION.findall(text):
        assert set(re.findall(r"(?<![\w.'])([a-z]+)\.", expression)) <= ROOTS, expression
    found = workflow(path)[0]
    for name, job in found["jobs"].items():
        matrix = job.get("strategy", {}).get("matrix", {})
        used = set(re.findall(r"matrix\.(\w+)", yaml.safe_dump(job)))
        assert used <= set(matrix), name
        ids = {step["id"] for step in job["steps"] if "id" in step}
        assert set(re.findall(r"steps\.(\w+)\.", yaml.safe_dump(job))) <= ids, name


@each
def test_commands_name_targets_and_files_that_exist(path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):.*##", makefile, re.MULTILINE))
    made = set()
    for _, step in steps(workflow(path)[0]):
        words = shlex.split(step.get("run", ""), comments=True)
        asked = {after for word, after in pairwise(words) if word == "make"}
        assert asked <= targets
        made |= asked
        files = [word for word in words if re.fullmatch(r"(scenewright|scripts)/[\w/.]+", word)]
        listed = step.get("with", {}).get("cache-dependency-path", "").split()
        assert [file for file in (*files, *listed) if not (ROOT / file).is_file()] == []
    assert made, "a workflow calls the same commands as people do"


def test_the_pythons_of_the_matrix_are_those_that_the_package_promises() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    matrix = by_name("tests")["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == promised
    assert matrix["tried"] == [False]
    page = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
    tried = [entry["python"] for entry in matrix["include"]]
    assert all(entry["tried"] is True for entry in matrix["include"])
    assert f"{' and '.join(tried)} are tried beside it" in page


def test_only_a_tag_of_the_version_is_published_and_without_a_token() -> None:
    jobs = by_name("wheel")["jobs"]
    publish = jobs["publish"]
    assert publish["if"] == "github.ref_type == 'tag'"
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"]["name"] == "pypi"
    assert "secrets." not in (GITHUB / "workflows" / "wheel.yml").read_text(encoding="utf-8")
    check = next(step for step in jobs["build"]["steps"] if "TAG" in step.get("env", {}))
    assert check["if"] == "github.ref_type == 'tag'"

    def passes(tag: str) -> bool:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", check["run"]], cwd=ROOT, env={"TAG": tag}
        )
        return done.returncode == 0

    assert passes(f"v{VERSION}")
    assert not passes(f"v{VERSION}.1")


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_is_one(path: Path) -> None:
    form = read(path)
    assert set(form) == {"name", "description", "labels", "body"}
    fields = [entry for entry in form["body"] if entry["type"] != "markdown"]
    ids = [entry["id"] for entry in fields]
    assert len(set(ids)) == len(ids)
    assert any(entry.get("validations", {}).get("required") for entry in fields)
    for entry in form["body"]:
        assert set(entry) <= {"type", "id", "attributes", "validations"}
        known = {
            "markdown": {"value"},
            "textarea": {"label", "description", "placeholder", "render", "value"},
            "input": {"label", "description", "placeholder", "value"},
            "dropdown": {"label", "description", "options", "multiple", "default"},
        }
        assert set(entry["attributes"]) <= known[entry["type"]]
        assert entry["type"] == "markdown" or entry["attributes"]["label"]
        options = entry["attributes"].get("options", [])
        assert len(set(options)) == len(options)


def test_there_are_forms_for_bugs_features_and_models() -> None:
    assert {path.stem for path in FORMS} == {"bug", "feature", "model"}
    config = read(GITHUB / "ISSUE_TEMPLATE" / "config.yml")
    assert all(set(link) == {"name", "url", "about"} for link in config["contact_links"])


def test_the_template_of_changes_names_commands_that_exist() -> None:
    text = (GITHUB / "PULL_REQUEST_TEMPLATE.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = re.findall(r"`make ([a-z-]+)`", text)
    assert commands
    assert all(re.search(rf"^{name}:", makefile, re.MULTILINE) for name in commands)
    for place in re.findall(r"blob/main/([\w/.-]+)\)", text):
        assert (ROOT / place).is_file()
