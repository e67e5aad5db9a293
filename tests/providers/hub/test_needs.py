"""What a profile needs from the hub, and which files of a repository that comes to."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenewright.config.local_images import AdapterSpec, LoraSpec, QuantizationSpec
from scenewright.config.profiles import BUILT_IN, LOCAL_BACKEND, BackendSpec, Profile
from scenewright.providers.hub.needs import (
    Need,
    known_repositories,
    missing_files,
    needs_of,
    needs_of_spec,
    plain_index,
    size_words,
    wanted_files,
)

INDEX = {
    "_class_name": "StableDiffusionXLPipeline",
    "unet": ["diffusers", "UNet2DConditionModel"],
    "vae": ["diffusers", "AutoencoderKL"],
    "tokenizer": ["transformers", "CLIPTokenizer"],
    "scheduler": ["diffusers", "EulerDiscreteScheduler"],
    "image_encoder": [None, None],
    "safety_checker": ["stable_diffusion", "StableDiffusionSafetyChecker"],
    "force_zeros_for_empty_prompt": True,
}
PIPELINE = [
    "model_index.json",
    "scheduler/scheduler_config.json",
    "tokenizer/merges.txt",
    "tokenizer/vocab.json",
    "unet/config.json",
    "vae/config.json",
]
UNET = "unet/diffusion_pytorch_model"
OTHERS = [
    ".gitattributes",
    "sd_xl_base_1.0.safetensors",
    "safety_checker/config.json",
    "safety_checker/model.safetensors",
    "vae_1_0/diffusion_pytorch_model.safetensors",
    f"{UNET}.bin",
    f"{UNET}.fp16.bin",
    "unet/model.onnx",
    f"{UNET}.non_ema.safetensors",
    "unet/flax_model.msgpack",
]
PLAIN = [f"{UNET}.safetensors", "vae/diffusion_pytorch_model.safetensors"]
SHARDED = [
    f"{UNET}-00001-of-00002.safetensors",
    f"{UNET}-00002-of-00002.safetensors",
    f"{UNET}.safetensors.index.json",
]
HALF = [
    f"{UNET}.fp16-00001-of-00002.safetensors",
    f"{UNET}.fp16-00002-of-00002.safetensors",
    f"{UNET}.safetensors.index.fp16.json",
]


def pipeline(variant: str | None = None) -> Need:
    return Need("acme/xl", ("backend",), "pipeline", variant)


@pytest.mark.parametrize(
    ("variant", "weights"),
    [
        (None, [f"{UNET}.safetensors", "vae/diffusion_pytorch_model.safetensors"]),
        ("fp16", [f"{UNET}.fp16.safetensors", "vae/diffusion_pytorch_model.fp16.safetensors"]),
        # A part without the variant is taken as it is.
        ("bf16", [f"{UNET}.safetensors", "vae/diffusion_pytorch_model.safetensors"]),
    ],
)
def test_of_a_pipeline_only_the_parts_in_one_form(variant: str | None, weights: list[str]) -> None:
    half = [name.replace(".safetensors", ".fp16.safetensors") for name in PLAIN]
    names = [*PIPELINE, *PLAIN, *half, *OTHERS]
    wanted = wanted_files(pipeline(variant), names, INDEX)
    assert wanted == tuple(sorted([*PIPELINE, *weights]))
    assert missing_files(pipeline(variant), names, INDEX) == ()


@pytest.mark.parametrize(("variant", "shards"), [(None, SHARDED), ("fp16", HALF)])
def test_shards_come_with_the_index_of_their_variant(
    variant: str | None, shards: list[str]
) -> None:
    vae = "vae/diffusion_pytorch_model.safetensors"
    names = [*PIPELINE, *SHARDED, *HALF, *OTHERS, vae]
    wanted = wanted_files(pipeline(variant), names, INDEX)
    assert wanted == tuple(sorted([*PIPELINE, *shards, vae]))


def test_of_a_transformers_model_the_root_alone() -> None:
    need = Need("acme/vlm", ("judge",), "model")
    root = [
        "chat_template.jinja",
        "config.json",
        "model.safetensors",
        "preprocessor_config.json",
        "tokenizer.model",
    ]
    spare = [
        "README.md",
        "consolidated.safetensors",
        "model.fp16.safetensors",
        "onnx/model.safetensors",
        "pytorch_model.bin",
        "pytorch_model.bin.index.json",
        "tf_model.h5",
    ]
    assert wanted_files(need, [*root, *spare]) == tuple(root)


def test_what_is_lacking_is_named() -> None:
    assert missing_files(pipeline(), ["unet/config.json"], None) == ("model_index.json",)
    names = [name for name in PIPELINE if not name.startswith("tokenizer")]
    assert missing_files(pipeline(), names, INDEX) == (
        "unet/*.safetensors",
        "vae/*.safetensors",
        "tokenizer/",
    )
    files = Need("acme/a", ("adapter",), "files", patterns=("m/a.safetensors", "m/e/*.json"))
    assert missing_files(files, ["m/e/config.json", "a.safetensors"], None) == ("m/a.safetensors",)
    judge = Need("acme/j", ("judge",), "model")
    assert missing_files(judge, ["tokenizer.json"], None) == ("config.json", "*.safetensors")


def test_a_pipeline_of_blocks_has_an_index_of_its_own() -> None:
    def entry(kind: str | None, hint: list[str]) -> list[object]:
        return [None, kind, {"type_hint": hint, "subfolder": "vae", "revision": None}]

    index = plain_index(
        {
            "_class_name": "Flux3ModularPipeline",
            "vae": entry(None, ["diffusers", "AutoencoderKLFlux2"]),
            "prompt_upsampler": entry(None, ["transformers", "AutoModel"]),
        }
    )
    assert index["vae"] == ["diffusers", "AutoencoderKLFlux2"]
    files = ["modular_model_index.json", "vae/config.json"]
    weights = "vae/diffusion_pytorch_model.safetensors"
    others = ["prompt_upsampler/model.safetensors", "flux-3.safetensors"]
    wanted = wanted_files(pipeline(), [*files, weights, *others], index)
    assert wanted == (*files, weights)
    assert missing_files(pipeline(), [*files, weights], index) == ()
    assert missing_files(pipeline(), files, index) == ("vae/*.safetensors",)


def test_a_profile_needs_each_repository_once() -> None:
    needs = {need.repository: need for need in needs_of(BUILT_IN["sdxl"])}
    assert list(needs) == [
        "stabilityai/stable-diffusion-xl-base-1.0",
        "h94/IP-Adapter",
        *(spec.removeprefix("local:") for spec in BUILT_IN["sdxl"].judges),
        *(spec.removeprefix("local:") for spec in BUILT_IN["sdxl"].report_judges),
    ]
    assert needs["h94/IP-Adapter"].parts == ("adapter", "image encoder")
    assert needs["h94/IP-Adapter"].patterns == (
        "sdxl_models/ip-adapter_sdxl.safetensors",
        "sdxl_models/image_encoder/*.json",
        "sdxl_models/image_encoder/*.safetensors",
    )
    drawn = needs_of(BUILT_IN["sdxl"], judges=False, report_judges=False)
    assert [need.repository for need in drawn] == list(needs)[:2]


def test_an_encoder_may_be_a_repository_of_its_own() -> None:
    needs = {need.repository: need for need in needs_of(BUILT_IN["flux"])}
    assert needs["XLabs-AI/flux-ip-adapter"].patterns == ("ip_adapter.safetensors",)
    assert needs["openai/clip-vit-large-patch14"].kind == "model"


def test_folders_accounts_and_the_package_need_nothing(tmp_path: Path) -> None:
    assert needs_of(BUILT_IN["miniature"]) == ()
    assert needs_of(BUILT_IN["openai"]) == ()
    (tmp_path / "encoder").mkdir()
    adapter = AdapterSpec(repository=str(tmp_path), image_encoder="encoder")
    mine = Profile(
        name="mine",
        backend=BackendSpec(model=str(tmp_path), adapter=adapter),
        judges=(f"local:{tmp_path}", "replay:answers.csv"),
    )
    assert needs_of(mine) == ()
    assert needs_of_spec("openai:gpt-4o") == ()


def test_loras_and_a_quantized_denoiser_are_files_of_their_repositories(tmp_path: Path) -> None:
    quantization = QuantizationSpec(method="gguf", repository="o/gguf", weight_name="a-Q8_0.gguf")
    loras = (
        LoraSpec(repository="o/lora", weight_name="a.safetensors"),
        LoraSpec(repository="o/lora", weight_name="b.safetensors"),
        LoraSpec(repository="loras/own.safetensors"),
        LoraSpec(repository=str(tmp_path)),
    )
    backend = BackendSpec(model="o/pipe", loras=loras, quantization=quantization)
    profile = Profile(name="mine", backend=backend, judges=("replay:answers.csv",))
    assert needs_of(profile) == (
        Need("o/pipe", ("backend",), "pipeline", without=("transformer",)),
        Need("o/gguf", ("denoiser",), "files", patterns=("a-Q8_0.gguf",)),
        Need("o/lora", ("LoRA",), "files", patterns=("a.safetensors", "b.safetensors")),
    )
    lightning = needs_of(BUILT_IN["sdxl-lightning"], judges=False, report_judges=False)
    assert all(need.known_bytes() for need in lightning)


@pytest.mark.parametrize(
    "name", [n for n, p in BUILT_IN.items() if p.backend.kind == LOCAL_BACKEND]
)
def test_the_licence_of_all_that_built_in_profiles_need_is_known(name: str) -> None:
    for need in needs_of(BUILT_IN[name]):
        assert known_repositories()[need.repository].licence
        assert need.parts == ("adapter",) or need.known_bytes()


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (None, "size unknown"),
        (12, "12 bytes"),
        (4_500, "4 kB"),
        (45_000_000, "45 MB"),
        (6_940_000_000, "6.9 GB"),
        (133_700_000_000, "134 GB"),
    ],
)
def test_sizes_in_words(size: int | None, words: str) -> None:
    assert size_words(size) == words
