"""Compose: servers that share what they must, and nothing else."""

from __future__ import annotations

import re

import pytest

from scenewright.config.settings import SETTINGS_FILE
from tests.deploy.reading import (
    DEPLOY,
    ROOT,
    compose,
    image_environment,
    of,
    parsed,
    seconds,
    settings_of,
    variables,
)


@pytest.mark.parametrize("name", ["api", "worker"])
def test_servers_share_a_database_and_a_folder(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    service = compose()["services"][name]
    settings = settings_of(
        monkeypatch,
        {
            **{k: v for k, v in image_environment().items() if k.startswith("SCENEWRIGHT_")},
            **variables(DEPLOY / f"{service['env_file']}.example"),
            **service["environment"],
        },
    )
    assert settings.shared
    assert "@postgres:5432/scenewright" in settings.url
    folders = dict(mount.removesuffix(":ro").rsplit(":", 1) for mount in service["volumes"])
    assert folders["data"] == of("VOLUME")[0]
    assert seconds(service["stop_grace_period"]) > settings.drain_seconds
    workdir = of("WORKDIR", stage=2)[-1]
    assert f"{workdir}/{SETTINGS_FILE}" in folders.values()
    # A host name given to several would make each take the others for its own dead.
    assert "hostname" not in service
    assert "network_mode" not in service


def test_the_workers_drive_the_runs_and_say_how_they_are() -> None:
    services = compose()["services"]
    assert parsed(services["api"]["command"]) == ["serve"]
    assert "--no-work" in services["api"]["command"]
    assert parsed(services["worker"]["command"]) == ["worker"]
    # The image's own health check asks there.
    port = services["worker"]["command"][services["worker"]["command"].index("--health-port") + 1]
    assert port == image_environment()["SCENEWRIGHT_SERVICE_PORT"]


def test_only_this_machine_reaches_it_and_at_its_port() -> None:
    published = {name: s["ports"] for name, s in compose()["services"].items() if "ports" in s}
    assert list(published) == ["api"]
    assert [p.split(":")[0] for p in published["api"]] == ["127.0.0.1"]
    assert published["api"][0].endswith(f":{of('EXPOSE')[0]}")


def test_it_passes_build_arguments_that_the_dockerfile_takes() -> None:
    build = compose()["services"]["api"]["build"]
    assert (DEPLOY / build["context"]).resolve() == ROOT
    defaults = dict(line.split("=", 1) for line in of("ARG"))
    assert set(build["args"]) <= set(defaults)
    assert defaults["TORCH_INDEX"] in build["args"]["TORCH_INDEX"]


def test_every_variable_that_it_takes_is_told() -> None:
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    told = (DEPLOY / ".env.example").read_text(encoding="utf-8")
    taken = set(re.findall(r"\$\{([A-Z_]+)", text))
    assert {name for name in taken if f"{name}=" not in told} == set()


def test_its_files_are_there_and_those_with_secrets_are_not_kept() -> None:
    named = re.findall(r"(?:SETTINGS_FILE:-|SETTINGS_FILE=)([\w./-]+)", "\n".join(
        (DEPLOY / name).read_text(encoding="utf-8") for name in ("compose.yaml", ".env.example")
    ))  # fmt: skip
    assert len(named) == 2
    assert all((DEPLOY / name).is_file() for name in named)
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert {"deploy/.env", "deploy/service.env"} <= set(ignored)
