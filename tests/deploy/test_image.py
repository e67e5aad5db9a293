"""The Dockerfile: what it copies, installs and says of itself."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from scenewright.service.api.access import OPEN
from tests.deploy.reading import (
    PAGE,
    PREFIX,
    ROOT,
    image_environment,
    of,
    parsed,
    settings_of,
)


def test_it_copies_what_is_there_and_sent_and_all_that_the_package_is_built_from() -> None:
    copied = [
        word.rstrip("/")
        for line in of("COPY")
        if not line.startswith("--from")
        for word in line.split()[:-1]
    ]
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored
    sent = {line[1:] for line in ignored if line.startswith("!")}
    assert set(copied) == sent
    assert all((ROOT / name).exists() for name in copied)
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, hatch = build["project"], build["tool"]["hatch"]
    readme = [part["path"] for part in hatch["metadata"]["hooks"]["fancy-pypi-readme"]["fragments"]]
    packages = hatch["build"]["targets"]["wheel"]["packages"]
    assert {*readme, *project["license-files"], *packages} <= sent


def test_the_layer_of_libraries_has_what_the_version_is_read_from() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    place = build["tool"]["hatch"]["version"]["path"]
    assert any(f"""echo 'VERSION = "0"' > {place}""" in line for line in of("RUN"))


def test_what_it_installs_are_the_versions_that_the_tests_pass_with() -> None:
    installs = [
        part
        for line in of("RUN")
        for part in line.split("&&")
        if re.search(r"\bpip install\b", part)
    ]
    assert len(installs) == 3
    assert all("-c constraints.txt" in part or "--no-deps" in part for part in installs)
    found = re.search(r'"torch\$\((sed .*?)\)"', installs[0])
    assert found is not None
    done = subprocess.run(
        shlex.split(found[1]), cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert f"torch{done.stdout}" in (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert Requirement(f"torch{done.stdout.strip()}").specifier


def test_its_python_and_extras_are_the_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    defaults = dict(line.split("=", 1) for line in of("ARG"))
    assert defaults["PYTHON"] in SpecifierSet(project["requires-python"])
    asked = {*defaults["EXTRAS"].split(","), *re.findall(r"EXTRAS[=:] *([\w,]+)", PAGE)}
    named = {name for line in asked for name in line.split(",")}
    assert named <= set(project["optional-dependencies"])
    (ray,) = map(Requirement, project["optional-dependencies"]["ray"])
    # Jobs are sent to the dashboard, which plain ray does not bring.
    assert "default" in ray.extras


def test_it_runs_as_nobody_special_and_serves_where_it_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    user = of("USER", stage=2)[-1]
    assert int(user.partition(":")[0]) > 0
    assert json.loads(of("ENTRYPOINT")[-1])[-1] == "scenewright"
    assert parsed(json.loads(of("CMD")[-1])) == ["serve"]
    environment = image_environment()
    settings = settings_of(
        monkeypatch, {k: v for k, v in environment.items() if k.startswith(PREFIX)}
    )
    assert str(settings.port) == of("EXPOSE")[0]
    # Another address than loopback: API keys are demanded.
    assert settings.demands_keys
    volume = Path(of("VOLUME")[0])
    assert volume in settings.data.parents
    for name in ("HOME", "HF_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "SCENEWRIGHT_RUNS"):
        place = Path(environment[name])
        assert place == volume or volume in place.parents
    asked = re.search(r"\}(/\w+)", of("HEALTHCHECK")[0])
    assert asked is not None
    assert asked[1] in OPEN
