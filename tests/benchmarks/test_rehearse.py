"""Rehearsals: architectures without weights, loaded and used as fetched models are."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import constants
from safetensors import safe_open
from typer.testing import CliRunner

from benchmarks.rehearse.__main__ import app
from benchmarks.rehearse.child import Job, rehearse_model, shapes_of
from benchmarks.rehearse.hub_folder import HubFolder, with_values
from benchmarks.rehearse.running import RehearsalOptions, rehearse
from benchmarks.rehearse.tensors import RehearsalError, adapter_tensors, tensors_of
from benchmarks.rehearse.weights import fill, write_weights
from scenewright.config.profiles import Profile
from scenewright.core.ports.backend import BackendError, BackendFeatures
from scenewright.providers.hub.architectures import PartSpec, read_architectures
from scenewright.providers.hub.needs import Need, known_repositories, needs_of
from scenewright.runs.model_factory.local_models import SHARED
from scenewright.tools.backends.memory import needs_of as memory_needs
from scenewright.tools.backends.model_folder import ModelFolder

PAINTER, ADAPTER, JUDGE = "someone/small-xl", "someone/small-adapter", "someone/small-judge"
SMALL = {
    "unet": {
        "sample_size": 16, "block_out_channels": [32, 64, 64], "attention_head_dim": [2, 4, 4],
        "transformer_layers_per_block": 1, "cross_attention_dim": 64,
        "addition_time_embed_dim": 8, "projection_class_embeddings_input_dim": 80,
    },
    "vae": {"block_out_channels": [32, 32, 32, 32], "layers_per_block": 1},
    "text_encoder": {
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 2, "projection_dim": 32,
    },
}  # fmt: skip


def architectures(place: Path) -> Path:
    """The published ones of SDXL, an adapter and a judge, with small numbers in place of large."""
    place.mkdir()
    known = read_architectures()

    def small(name: str, repository: str, changes: dict[str, dict[str, Any]]) -> None:
        whole = known[name].model_dump(mode="json", by_alias=True) | {"repository": repository}
        for part, values in changes.items():
            spec = with_values(known[name].parts[part], values, part)
            whole["parts"][part] = spec.model_dump(mode="json", by_alias=True)
        if whole["adapters"]:
            whole["adapters"] = {
                "small.safetensors": {"pipeline": PAINTER, "tokens": 4, "embedding": 32}
            }
        (place / f"{repository.partition('/')[2]}.json").write_text(json.dumps(whole))

    text = SMALL["text_encoder"]
    small(
        "stabilityai/stable-diffusion-xl-base-1.0", PAINTER,
        {**SMALL, "text_encoder_2": text},
    )  # fmt: skip
    vision = {k: v for k, v in text.items()} | {"image_size": 56}
    small("h94/IP-Adapter", ADAPTER, {"models/image_encoder": vision})
    language = {
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16,
        "rope_parameters.mrope_section": [2, 3, 3],
    }  # fmt: skip
    seen = {
        "depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2,
        "out_hidden_size": 32, "num_position_embeddings": 64, "deepstack_visual_indexes": [0],
    }  # fmt: skip
    nested = {f"text_config.{k}": v for k, v in language.items()}
    nested |= {f"vision_config.{k}": v for k, v in seen.items()}
    small("Qwen/Qwen3-VL-4B-Instruct", JUDGE, {"": nested})
    return place


def profile() -> Profile:
    adapter = {
        "repository": ADAPTER, "weight_name": "small.safetensors",
        "image_encoder": "models/image_encoder",
    }  # fmt: skip
    return Profile.model_validate(
        {
            "name": "small",
            "backend": {"model": PAINTER, "variant": "fp16", "adapter": adapter},
            "judges": [f"local:{JUDGE}"],
            "report_judges": ["openai:gpt-6-luna"],
        }
    )


def job(judge: str | None) -> Job:
    return Job(
        profile=profile(), judge=judge, size=(64, 64), steps=1, device="cpu", dtype="bfloat16"
    )


@pytest.fixture
async def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Path]:
    """A hub cache with the models of the profile, for this process."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    folder = HubFolder(tmp_path / "hub", read_architectures([architectures(tmp_path / "known")]))
    for need in needs_of(profile(), report_judges=False):
        folder.write(need)
    yield folder.place
    await SHARED.aclose()


@pytest.mark.slow
async def test_a_profile_is_loaded_and_used_as_a_fetched_one(tmp_path: Path) -> None:
    said: list[str] = []
    options = RehearsalOptions(
        size=(64, 64), steps=1, architectures=(architectures(tmp_path / "known"),)
    )
    # A second process would take as long as the first one.
    remote = profile().model_copy(update={"judges": ("openai:gpt-6-luna",), "report_judges": ()})
    found = await rehearse(remote, options, said.append)
    (painter,) = found.models
    assert (painter.model, painter.dtype) == ("diffusers:small-xl", "bfloat16")
    assert [shape.name for shape in painter.shapes] == [
        "prompt", "two pictures together", "two references", "two references with masks",
        "region repair",
        "region repair with a reference",
    ]  # fmt: skip
    # The vocabularies alone have this many, and all of it was in memory.
    assert painter.parameters > 2 * 49_408 * 32
    assert painter.peak > 2 * painter.parameters
    assert found.left_out == {"openai:gpt-6-luna": "only judges local:… are rehearsed"}
    assert said.index("region repair") > said.index("prompt") > 0


async def test_a_judge_answers_with_random_weights(hub: Path) -> None:
    judge = await rehearse_model(job(f"local:{JUDGE}"), lambda text: None)
    assert [shape.name for shape in judge.shapes] == ["one question", "all questions of a picture"]
    assert judge.dtype == "bfloat16"
    assert judge.planned == 2 * judge.parameters > 2 * 151_936 * 32


def test_the_command_says_what_cannot_be_rehearsed(tmp_path: Path) -> None:
    def call(*arguments: str) -> str:
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code in (2, 3)
        return " ".join(result.stderr.split())

    assert "no architecture of black-forest-labs/FLUX.1-dev" in call("flux", "--only", "images")
    assert "write PART.KEY=VALUE" in call("sd15", "--set", "layers=3")
    changed = ("--only", "images", "--set")
    assert "unet has no 'layers': use one of" in call("sd15", *changed, "unet.layers=3")
    assert "--set prior.depth" in call("sd15", *changed, "prior.depth=3")
    assert "multiples of 8" in call("sd15", "--size", "100")
    assert "write diffusers:OWNER/NAME" in call("unknown:model")
    assert "is not a folder" in call("sd15", "--architectures", str(tmp_path / "none"))
    (tmp_path / "a.json").write_text('{"repository": "a/b"}')
    assert "a.json is not an architecture" in call("sd15", "--architectures", str(tmp_path))


@pytest.mark.parametrize("judge", [None, f"local:{JUDGE}"])
async def test_what_does_not_fit_is_said_before_it_is_built(
    judge: str | None, hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in ("diffusers", "memory"):
        monkeypatch.setattr(f"scenewright.tools.backends.{room}.free_memory", lambda device: 2**20)
    said: list[str] = []
    remedy = "4bit" if judge else "--set text_encoder.num_hidden_layers=4"
    with pytest.raises(BackendError, match=f"can be used.*{remedy}"):
        await rehearse_model(job(judge), said.append)
    assert said == ["importing libraries"]


@pytest.mark.parametrize("repository", sorted(read_architectures()))
def test_published_counts_follow_from_the_configurations(repository: str) -> None:
    """The classes have the weights, and the files the size, that are published."""
    architecture = read_architectures()[repository]
    size = 0
    for name, part in architecture.parts.items():
        if part.weighs:
            assert part.parameters is not None, f"{name} names no published number"
            tensors = tensors_of(part, part.format or architecture.format)
            size += sum(tensor.size for tensor in tensors.values())
    known = known_repositories()[repository].gigabytes
    if architecture.pipeline is not None or "" in architecture.parts:
        # Published files are in the format of the variant where the table names one.
        scale = 1e9 * (2 if architecture.format == "F32" and "fp16" in known else 1)
        assert size / scale == pytest.approx(known.get("fp16", known[""]), rel=0.03)
    for file, adapter in architecture.adapters.items():
        unet = read_architectures()[adapter.pipeline].parts["unet"]
        added = sum(one.size for one in adapter_tensors(adapter, unet, "F16").values())
        if file in known:
            assert added / 1e9 == pytest.approx(known[file], rel=0.02)


def test_files_take_no_disk_and_have_the_published_names(tmp_path: Path) -> None:
    known = read_architectures()
    hub = HubFolder(tmp_path, known)
    for need in needs_of(Profile.model_validate({
        "name": "x", "judges": ["replay:x"],
        "backend": {"model": "stable-diffusion-v1-5/stable-diffusion-v1-5", "variant": "fp16"},
    }), judges=False):  # fmt: skip
        hub.write(need)
    files = {file.parent.name: file for file in tmp_path.rglob("*.fp16.safetensors")}
    assert set(files) == {"unet", "vae", "text_encoder"}
    taken = sum(file.stat().st_blocks * 512 for file in tmp_path.rglob("*") if file.is_file())
    assert files["unet"].stat().st_size > 1.7e9 > 50 * taken
    with safe_open(files["unet"], framework="pt") as weights:
        held = weights.get_slice("conv_in.weight")
        assert (held.get_shape(), held.get_dtype()) == ([320, 4, 3, 3], "F16")


def test_a_pipeline_of_blocks_is_opened_as_a_fetched_one(tmp_path: Path) -> None:
    known = read_architectures()
    name = "black-forest-labs/flux-3-image-klein"
    HubFolder(tmp_path, known).write(Need(name, ("backend",), "pipeline"))
    (index,) = tmp_path.rglob("modular_model_index.json")
    model = ModelFolder.open(index.parent)
    assert (model.distilled, model.multiple, model.native_size) == (True, 16, (1024, 1024))
    counts = {part: spec.parameters for part, spec in known[name].parts.items() if spec.parameters}
    weights = memory_needs(model, model.native_size).weights
    assert weights == pytest.approx(counts, rel=1e-3)


def test_random_values_keep_activations_in_range() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 3), torch.nn.BatchNorm2d(64), torch.nn.Conv2d(64, 64, 3),
        torch.nn.Flatten(), torch.nn.Linear(64 * 16, 512),
    ).to(torch.bfloat16).eval()  # fmt: skip
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, 0)
    model[1].running_var.zero_()
    fill(model)
    out = model(torch.randn(2, 3, 8, 8, dtype=torch.bfloat16)).float()
    assert 0.2 < float(out.detach().std()) < 5
    assert len(model[4].weight[:, 0].unique()) > 100


def test_a_wrong_count_is_told(tmp_path: Path) -> None:
    part = read_architectures()["Tongyi-MAI/Z-Image-Turbo"].parts["vae"]
    wrong = part.model_copy(update={"parameters": 1})
    with pytest.raises(RehearsalError, match="83,819,683 weights by its configuration, 1 are"):
        tensors_of(wrong, "BF16")
    unknown = PartSpec.model_validate({"class": "diffusers.NoSuchModel", "config": {}})
    with pytest.raises(RehearsalError, match=r"no diffusers\.NoSuchModel can be made"):
        tensors_of(unknown, "BF16")
    write_weights(tmp_path / "a.safetensors", {})


# In a process of its own: here the allocator may still hold what the tests before have freed.
PEAKS = """
import torch
from benchmarks.rehearse.measuring import PeakMemory

peak = PeakMemory(torch.device("cpu"))
with peak:
    kept = torch.ones(2**24)
highest = peak.last
del kept
with peak:
    small = torch.ones(2**22)
print(highest, peak.last, peak.highest)
"""


def test_peaks_are_measured() -> None:
    told = subprocess.run([sys.executable, "-c", PEAKS], capture_output=True, text=True, check=True)
    large, small, highest = map(int, told.stdout.split())
    assert large == highest >= 2**26
    assert 2**24 <= small < 2**26


def test_shapes_follow_the_features() -> None:
    plain = BackendFeatures(
        references=0, reference_maths="none", masks=False, edit=False, negative_prompt=True,
        seeds=True, sizes=None, default_size=(64, 64), default_steps=1, default_guidance=1.0,
    )  # fmt: skip
    assert [name for name, _ in shapes_of(plain, 1)] == ["prompt", "two pictures together"]
