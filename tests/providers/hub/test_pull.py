"""Fetching models: what comes, what is checked, and how it goes on after a failure."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import huggingface_hub.constants as constants
import pytest

from scenewright.providers.hub import pull as module
from scenewright.providers.hub.cache import snapshot_folder, survey
from scenewright.providers.hub.needs import PARTIAL, Need, folder_patterns
from scenewright.providers.hub.pull import (
    HubError,
    PullCallbacks,
    Pulled,
    check_disk,
    plan_of,
    pull,
)
from scenewright.tools.backends.diffusers import DiffusersBackend
from tests.providers.hub.conftest import ADAPTER, JUDGE, PAINTER
from tests.providers.hub.loopback import COMMIT, TOKEN, Hub
from tests.tools.backends.tiny_modern import build_flux3

UNET = "unet/diffusion_pytorch_model.safetensors"
PIPELINE = Need(PAINTER, ("backend",), "pipeline")
JUDGES = Need(JUDGE, ("judge",), "model")
REFERENCES = Need(
    ADAPTER,
    ("adapter", "image encoder"),
    "files",
    patterns=("ip-adapter.safetensors", *folder_patterns("image_encoder")),
)


def pulled(*needs: Need, watch: PullCallbacks | None = None) -> Pulled:
    return pull(plan_of(needs), watch)


def test_everything_needed_comes_and_nothing_else(hub: Hub, cache: Path) -> None:
    seen: Counter[str] = Counter()
    watch = PullCallbacks(
        moved=lambda count: seen.update(moved=count),
        checked=lambda count: seen.update(checked=count),
    )
    needs = (PIPELINE, REFERENCES, JUDGES)
    assert not any(survey(need).complete for need in needs)
    plans = plan_of(needs)
    done = pull(plans, watch)
    assert not done.damaged
    size = sum(plan.size for plan in plans)
    assert seen["checked"] == size
    # The index came with the plan.
    assert size - 2000 < seen["moved"] <= size
    for need, plan in zip(needs, plans, strict=True):
        assert plan.size_here == plan.size
        present = survey(need)
        assert present.complete
        assert present.folder == snapshot_folder(need.repository)
        for file in plan.files:
            content = hub.repositories[need.repository][file.path]
            assert (present.folder / file.path).read_bytes() == content
        names = {file.path for file in plan.files}
        assert "README.md" in names
        assert not any(name.endswith(".bin") or name.startswith("onnx") for name in names)
    assert not hub.asked("pytorch_model.bin")
    assert survey(JUDGES).licence == "acme-research"
    assert survey(PIPELINE).licence == "mit"


def test_a_second_pull_fetches_nothing_and_checks_again(hub: Hub) -> None:
    pulled(PIPELINE)
    hub.requests.clear()
    seen: Counter[str] = Counter()
    plans = plan_of([PIPELINE])
    done = pull(plans, PullCallbacks(checked=lambda count: seen.update(checked=count)))
    assert done == Pulled()
    assert seen["checked"] == sum(plan.size for plan in plans)
    assert not any("/resolve/" in path or "/store/" in path for _, path, _ in hub.requests)


def test_an_interrupted_file_goes_on_where_it_stopped(
    hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What has come is written in pieces of this size, which is that of the whole file here.
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 2**16)
    size = len(hub.repositories[PAINTER][UNET])
    hub.cut[UNET] = size // 2
    with pytest.raises(HubError, match="503: pull again later; what is here stays"):
        pulled(PIPELINE)
    (partial,) = cache.rglob(f"*{PARTIAL}")
    had = partial.stat().st_size
    assert 0 < had <= size // 2
    (plan,) = plan_of([PIPELINE])
    assert had <= plan.size_here < plan.size
    assert not survey(PIPELINE).complete

    hub.cut.clear()
    hub.requests.clear()
    pulled(PIPELINE)
    store = [r for m, path, r in hub.requests if path == f"/store/{PAINTER}/{UNET}" and m == "GET"]
    assert store == [f"bytes={had}-"]
    assert survey(PIPELINE).complete
    assert not list(cache.rglob(f"*{PARTIAL}"))


def test_what_an_earlier_failure_left_wrong_is_thrown_away(hub: Hub, cache: Path) -> None:
    (plan,) = plan_of([PIPELINE])
    file = next(file for file in plan.files if file.path == UNET)
    blobs = cache / "models--acme--painter" / "blobs"
    blobs.mkdir(parents=True, exist_ok=True)
    (blobs / f"{file.lfs.sha256}{PARTIAL}").write_bytes(b"?" * (file.size // 2))
    told: list[str] = []
    pull([plan], PullCallbacks(message=told.append))
    assert told == [f"{PAINTER}/{UNET} arrived damaged: it comes again"]
    present = survey(PIPELINE)
    assert present.folder is not None
    assert (present.folder / UNET).read_bytes() == hub.repositories[PAINTER][UNET]


@pytest.mark.parametrize("name", [UNET, "unet/config.json"])
@pytest.mark.parametrize("harm", ["changed", "cut off", "deleted"])
def test_a_damaged_file_is_named_and_comes_again(
    hub: Hub, cache: Path, name: str, harm: str
) -> None:
    pulled(PIPELINE)
    place = cache / "models--acme--painter" / "snapshots" / COMMIT / name
    content = hub.repositories[PAINTER][name]
    blob = place.resolve()
    match harm:
        case "changed":
            blob.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        case "cut off":
            blob.write_bytes(content[: len(content) // 2])
        case "deleted":
            blob.unlink()
            assert survey(PIPELINE).missing == (name,)
    told: list[str] = []
    done = pulled(PIPELINE, watch=PullCallbacks(message=told.append))
    assert place.read_bytes() == content
    if harm == "deleted":
        assert done.fetched == [f"{PAINTER}/{name}"]
    else:
        assert done.damaged == [f"{PAINTER}/{name}"]
        assert told == [f"{PAINTER}/{name} is damaged: it is fetched again"]


def test_a_file_that_arrives_damaged_comes_again_once(hub: Hub) -> None:
    hub.wrong[UNET] = 1
    told: list[str] = []
    pulled(PIPELINE, watch=PullCallbacks(message=told.append))
    assert told == [f"{PAINTER}/{UNET} arrived damaged: it comes again"]
    assert survey(PIPELINE).complete


def test_a_file_that_plain_http_does_not_serve_is_verified_too(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_is_huge", lambda file: file.path == UNET)
    hub.wrong[UNET] = 1
    told: list[str] = []
    pulled(PIPELINE, watch=PullCallbacks(message=told.append))
    assert told == [f"{PAINTER}/{UNET} arrived damaged: it comes again"]
    present = survey(PIPELINE)
    assert present.complete
    assert present.folder is not None
    assert (present.folder / UNET).read_bytes() == hub.repositories[PAINTER][UNET]


@pytest.mark.parametrize("name", [UNET, "unet/config.json"])
def test_a_file_that_is_always_damaged_is_an_error_and_not_kept(hub: Hub, name: str) -> None:
    hub.wrong[name] = 100
    with pytest.raises(HubError, match=f"{PAINTER}/{name} came twice with content that the hub"):
        pulled(PIPELINE)
    assert not survey(PIPELINE).complete


def test_a_gated_repository_is_planned_but_not_fetched(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.gated.add(PAINTER)
    (plan,) = plan_of([PIPELINE])
    assert plan.gated
    assert plan.refusal is not None
    assert UNET in {file.path for file in plan.files}
    said = rf"open {hub.url}/{PAINTER}, accept its licence .*`hf auth login`.*HF_TOKEN"
    with pytest.raises(HubError, match=said):
        pull([plan])
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    pulled(PIPELINE)
    assert survey(PIPELINE).complete


async def test_a_pipeline_of_blocks_comes_without_its_upsampler(hub: Hub, tmp_path: Path) -> None:
    model = build_flux3(tmp_path / "model")
    (model / "prompt_upsampler").mkdir()
    (model / "prompt_upsampler" / "model.safetensors").write_bytes(b"never loaded")
    hub.add("acme/blocks", model, license="other")
    need = Need("acme/blocks", ("backend",), "pipeline")
    (plan,) = plan_of([need])
    assert not any(file.path.startswith("prompt_upsampler/") for file in plan.files)
    assert "modular_model_index.json" in {file.path for file in plan.files}
    pulled(need)
    assert survey(need).complete
    backend = DiffusersBackend("acme/blocks")
    assert backend.features.references == 2
    assert backend.plan.need > 0
    await backend.aclose()


def test_a_repository_that_is_not_there_is_told(hub: Hub) -> None:
    with pytest.raises(HubError, match=r"acme/nothing: .* no such repository, or it is private"):
        plan_of([Need("acme/nothing", ("judge",), "model")])


def test_a_repository_without_safetensors_is_told(hub: Hub) -> None:
    del hub.repositories[JUDGE]["model.safetensors"]
    with pytest.raises(HubError, match=r"has no \*\.safetensors: only models in the layout of"):
        plan_of([JUDGES])


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "no such repository|does not take your token"),
        (403, "403"),
        (429, "429"),
        (500, "500"),
    ],
)
def test_refusals_say_what_to_do(hub: Hub, status: int, message: str) -> None:
    hub.status = status
    with pytest.raises(HubError, match=message):
        plan_of([JUDGES])


def test_no_network_is_told_at_once(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(HubError, match=r"127\.0\.0\.1:9 cannot be reached .*check the network"):
        plan_of([JUDGES])
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HubError, match="HF_HUB_OFFLINE is set"):
        plan_of([JUDGES])


def test_a_disk_that_is_too_small_is_told_before_anything_comes(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = plan_of([PIPELINE])
    usage = shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(HubError, match=r"still to come, but .* has only 1 kB free: .*HF_HOME"):
        check_disk(plans)
    assert not hub.asked(UNET)
