"""``scenewright models`` and ``doctor`` against a hub: from a missing model to a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from scenewright.cli import doctor
from scenewright.cli.main import app
from scenewright.config.settings import LOCAL_MODEL, find_profile
from tests.providers.hub.conftest import ADAPTER, JUDGE, PAINTER
from tests.providers.hub.loopback import TOKEN, Hub

SETTINGS = f"""
[profiles.mine]
backend = {{ model = "{PAINTER}", adapter = {{ repository = "{ADAPTER}" }} }}
judges = ["local:{JUDGE}"]
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenewright.toml").write_text(SETTINGS)
    monkeypatch.setenv("SCENEWRIGHT_DEBUG", "0")
    # Importing torch to count devices tells nothing about models.
    monkeypatch.setattr(doctor, "devices", lambda by_torch: ["cpu (2 threads)"])
    return tmp_path


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.usefixtures("hub")
def test_from_a_missing_model_to_a_run(cache: Path) -> None:
    missing = call("refine", "red ball", "--profile", "mine")
    assert missing.exit_code == 3
    assert "the profile 'mine' needs models that are not on this machine:" in missing.stderr
    for repository in (PAINTER, ADAPTER, JUDGE):
        assert repository in missing.stderr
    assert "Get what is missing with `scenewright models pull mine`" in missing.stderr
    assert "It goes to the hub's cache folder; HF_HOME names another place." in missing.stderr
    assert str(cache) not in missing.stderr
    assert 'backend = "diffusers:/folder"' in missing.stderr

    done = call("models", "pull", "mine", "--yes")
    assert done.exit_code == 0, done.output
    assert "are here and whole" in done.stdout
    assert "apache-2.0" in done.stdout
    assert "to fetch into" in flat(done.stdout)

    seen = call("doctor", "--profile", "mine", "--json")
    report = json.loads(seen.stdout)["profiles"]["mine"]
    assert (seen.exit_code, report["runs"]) == (0, True), report
    assert report["memory"].startswith("float32")
    assert {m["repository"]: (m["licence"], m["complete"]) for m in report["models"]} == {
        PAINTER: ("mit", True),
        ADAPTER: ("apache-2.0", True),
        JUDGE: ("acme-research", True),
    }
    ran = call(
        "refine", "red ball", "--profile", "mine", "--rounds", "1", "--out", "run", "--quiet"
    )
    assert ran.exit_code in (0, 1), ran.output
    assert list(Path("run").rglob("*.png"))


def test_list_tells_what_is_there_and_what_is_missing(hub: Hub, cache: Path) -> None:
    before = call("models", "list", "mine")
    assert before.exit_code == 0
    assert before.stdout.count("not here") == 3
    assert "get it with `scenewright models pull mine`" in before.stdout
    assert call("models", "pull", "mine", "-y").exit_code == 0
    after = call("models", "list", "mine")
    assert after.exit_code == 0
    assert after.stdout.count("complete") == 3
    next(cache.rglob("unet/diffusion_pytorch_model.safetensors")).resolve().unlink()
    damaged = call("models", "list", "mine")
    assert damaged.exit_code == 0
    assert "missing: unet/diffusion_pytorch_model.safetensors" in flat(damaged.stdout)
    listed = json.loads(call("models", "list", "--json").stdout)
    assert listed["folder"] == str(cache)
    assert listed["profiles"]["miniature"] == []
    painter = listed["profiles"]["mine"][0]
    assert painter["missing"] == ["unet/diffusion_pytorch_model.safetensors"]
    assert painter["bytes_here"] < painter["bytes_needed"]


def test_a_dry_run_fetches_no_weights(hub: Hub) -> None:
    done = call("models", "pull", "mine", "--dry-run", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["done"] is False
    assert told["bytes"] > told["bytes_here"]
    assert [r["repository"] for r in told["repositories"]] == [PAINTER, ADAPTER, JUDGE]
    assert told["repositories"][0]["files"]["unet/config.json"] > 0
    assert not any("/store/" in path for _, path, _ in hub.requests)


def test_nothing_is_fetched_without_being_asked_for(hub: Hub) -> None:
    done = call("models", "pull", "mine")
    assert done.exit_code == 2
    assert "would be fetched: add --yes" in done.stderr
    assert not any("/store/" in path for _, path, _ in hub.requests)


def test_one_model_may_be_named(hub: Hub) -> None:
    done = call("models", "pull", f"local:{JUDGE}", "--yes", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["done"] is True
    assert f"{JUDGE}/model.safetensors" in told["fetched"]
    assert call("models", "list", f"local:{JUDGE}").exit_code == 0
    assert call("models", "pull", "miniature").stdout == "miniature needs nothing from the hub.\n"


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("nope", 2, "no profile 'nope'"),
        ("local:./nowhere", 2, "names nothing on the hub"),
        ("local:acme/nothing", 3, "no such repository"),
    ],
)
@pytest.mark.usefixtures("hub")
def test_names_that_are_none(name: str, code: int, message: str) -> None:
    done = call("models", "pull", name, "--yes")
    assert done.exit_code == code
    assert message in done.stderr


def test_a_gated_model_says_how_to_get_access(hub: Hub) -> None:
    hub.gated.add(PAINTER)
    shown = call("models", "pull", "mine", "--dry-run")
    assert shown.exit_code == 0
    assert "(gated)" in shown.stdout
    done = call("models", "pull", "mine", "--yes")
    assert done.exit_code == 3
    assert f"open {hub.url}/{PAINTER}, accept its licence" in done.stderr
    assert "hf auth login" in done.stderr


def test_in_a_process_of_its_own(hub: Hub, tmp_path: Path) -> None:
    """As a user runs it: the library reads the endpoint and its home from the environment."""
    hub.gated.add(JUDGE)
    environment = os.environ | {
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(tmp_path / "elsewhere"),
        "HF_HUB_OFFLINE": "0",
        "HF_TOKEN": TOKEN,
    }
    done = subprocess.run(
        [sys.executable, "-m", "scenewright", "models", "pull", f"local:{JUDGE}", "--yes"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "elsewhere" / "hub").rglob("model.safetensors"))
    assert TOKEN not in done.stdout + done.stderr
    assert "of" in done.stderr


def test_doctor_tells_of_keys_but_not_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    without = call("doctor", "--profile", "openai")
    assert without.exit_code == 3
    assert "account openai: OPENAI_API_KEY is not set" in without.stdout
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    with_key = call("doctor", "--profile", "openai")
    assert "account openai: OPENAI_API_KEY is set" in with_key.stdout
    told = call("doctor", "--profile", "openai", "--json")
    assert json.loads(told.stdout)["profiles"]["openai"]["accounts"]["openai"]["key"] is True
    assert "sk-very-secret" not in with_key.stdout + told.stdout


@pytest.mark.usefixtures("cache")
def test_doctor_lists_missing_models_with_size_and_licence() -> None:
    done = call("doctor", "--profile", "sdxl")
    assert done.exit_code == 3
    row = next(line for line in done.stdout.splitlines() if "stable-diffusion-xl-base" in line)
    assert flat(row).endswith("backend about 6.9 GB openrail++ not here")
    assert "fetch what is missing with `scenewright models pull sdxl`" in done.stdout


@pytest.mark.usefixtures("hub", "cache")
def test_a_folder_that_is_not_there_is_told_before_what_a_download_mends() -> None:
    lost = call("refine", "red ball", "-m", "diffusers:/nowhere/mine")
    assert lost.exit_code == 3
    assert "the folder /nowhere/mine is not there" in lost.stderr
    assert "models pull" not in lost.stderr


@pytest.mark.usefixtures("hub", "cache")
def test_only_repositories_are_named_to_be_pulled(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    told = flat(call("refine", "red ball", "-m", f"diffusers:{own}").stderr)
    judge = find_profile(LOCAL_MODEL).judges[0]
    assert f"`scenewright models pull {judge}`" in told
    assert f"pull diffusers:{own}" not in told
    assert f'extends = "{LOCAL_MODEL}"' in told
