"""Reads what is deployed: the Dockerfile, Compose, Kustomize, and the package's settings."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
import yaml

from scenewright.cli.main import app
from scenewright.config.settings import Settings
from scenewright.service.core.settings import ServiceSettings

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
FOLDERS = ("kubernetes/base", "kubernetes/overlays/gpu", "kuberay")
"""What ``kubectl kustomize`` renders."""
PREFIX = "SCENEWRIGHT_SERVICE_"
PAGE = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")


def deployed() -> list[Path]:
    """Every file that deploys something, but what git ignores because it holds secrets."""
    inside = [p for p in DEPLOY.rglob("*") if p.is_file() and p.name not in (".env", "service.env")]
    settings = [KUBERNETES / "base" / "service.env"]
    return sorted({ROOT / "Dockerfile", ROOT / ".dockerignore", *inside, *settings})


class Step(NamedTuple):
    """An instruction of the Dockerfile."""

    stage: int
    name: str
    rest: str


def dockerfile() -> list[Step]:
    """The Dockerfile's instructions; continued lines are one."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    steps, stage = [], 0
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            stage += name == "FROM"
            steps.append(Step(stage, name, " ".join(rest.split())))
    return steps


def of(name: str, stage: int | None = None) -> list[str]:
    """What the instructions of one name say."""
    return [s.rest for s in dockerfile() if s.name == name and stage in (None, s.stage)]


def image_environment() -> dict[str, str]:
    """Variables that the image sets."""
    return dict(pair.split("=", 1) for line in of("ENV", stage=2) for pair in shlex.split(line))


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    return found


def variables(path: Path) -> dict[str, str]:
    """A file of variables, as Docker and Kustomize read it."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def rendered(folder: str) -> list[dict[str, Any]]:
    """The objects of a Kustomize folder; skips where there is no kubectl."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    done = subprocess.run(
        ["kubectl", "kustomize", str(DEPLOY / folder)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def pods(node: Any) -> Iterator[tuple[Any, Any]]:
    """Labels and specification of every pod that an object leads to."""
    if isinstance(node, dict):
        if isinstance(node.get("spec"), dict) and "containers" in node["spec"]:
            yield node.get("metadata", {}).get("labels", {}), node["spec"]
        for value in node.values():
            yield from pods(value)
    elif isinstance(node, list):
        for value in node:
            yield from pods(value)


def known_variables() -> set[str]:
    """Every variable of the environment that the package's settings read."""
    return {
        f"{kind.model_config['env_prefix']}{name}".upper()
        for kind in (ServiceSettings, Settings)
        for name in kind.model_fields
    }


def settings_of(monkeypatch: pytest.MonkeyPatch, values: Mapping[str, str]) -> ServiceSettings:
    """The service's settings with nothing but ``values`` in the environment."""
    for name in known_variables():
        monkeypatch.delenv(name, raising=False)
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return ServiceSettings()


def seconds(text: str) -> int:
    """``90s`` or ``30m`` as seconds."""
    return int(text[:-1]) * {"s": 1, "m": 60}[text[-1]]


def parsed(words: list[str]) -> list[str]:
    """Parses a ``scenewright`` command line as far as the options; the command's path."""
    command, path = typer.main.get_command(app), []
    rest = list(words)
    while hasattr(command, "commands"):
        path.append(rest.pop(0))
        assert path[-1] in command.commands, f"there is no command {' '.join(path)}"
        command = command.commands[path[-1]]
    command.make_context(" ".join(path), rest)
    return path
