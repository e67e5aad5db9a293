"""The profiles that come with scenewright, as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from scenewright.config.profiles import AdapterSpec, BackendSpec, Profile

_VISION_MODELS: dict[str, Any] = {
    "judges": ("local:Qwen/Qwen3-VL-4B-Instruct", "local:OpenGVLab/InternVL3_5-4B-HF"),
    "report_judges": ("local:google/gemma-4-E4B-it",),
}
_CLIP = "openai/clip-vit-large-patch14"
_SIGLIP = "google/siglip-so400m-patch14-384"

# The colour that the small generator is told where a scene names none.
_MINIATURE_COLORS = {
    "person": "blue",
    "dog": "yellow",
    "cat": "purple",
    "tree": "green",
    "house": "red",
    "car": "red",
    "boat": "blue",
    "ball": "red",
    "table": "purple",
    "lamp": "yellow",
    "umbrella": "purple",
    "hat": "blue",
}


def _with_the_package() -> Iterator[Profile]:
    yield Profile(
        name="miniature",
        about="The small painted world that comes with the package; needs nothing else.",
        backend=BackendSpec(model="miniature"),
        composer="grid",
        composer_defaults={kind: {"color": color} for kind, color in _MINIATURE_COLORS.items()},
        chat="scripted:director",
        judges=("local:miniature/judge-a", "local:miniature/judge-b"),
        report_judges=("local:miniature/judge-c",),
        realism_judges=("olip:miniature/olip-a",),
        realism_report_judges=("olip:miniature/olip-b",),
        detector="miniature",
        predicates="miniature",
        repair="region",
        weight_missing=0.6,
    )


def _on_this_machine() -> Iterator[Profile]:
    yield Profile(
        name="sd15",
        about="Stable Diffusion 1.5 with the published IP-Adapter.",
        backend=BackendSpec(
            model="stable-diffusion-v1-5/stable-diffusion-v1-5",
            variant="fp16",
            adapter=AdapterSpec(
                repository="h94/IP-Adapter",
                subfolder="models",
                weight_name="ip-adapter_sd15.safetensors",
            ),
        ),
        **_VISION_MODELS,
    )
    yield Profile(
        name="sdxl",
        about="Stable Diffusion XL with the published IP-Adapter.",
        backend=BackendSpec(
            model="stabilityai/stable-diffusion-xl-base-1.0",
            variant="fp16",
            adapter=AdapterSpec(
                repository="h94/IP-Adapter",
                subfolder="sdxl_models",
                weight_name="ip-adapter_sdxl.safetensors",
            ),
        ),
        **_VISION_MODELS,
    )
    yield Profile(
        name="sd3",
        about="Stable Diffusion 3.5 Large with InstantX's IP-Adapter, which takes one reference.",
        backend=BackendSpec(
            model="stabilityai/stable-diffusion-3.5-large",
            adapter=AdapterSpec(
                repository="guiyrt/InstantX-SD3.5-Large-IP-Adapter-diffusers",
                image_encoder=_SIGLIP,
            ),
        ),
        strategy="router",
        **_VISION_MODELS,
    )
    yield Profile(
        name="sd3-medium",
        about="Stable Diffusion 3.5 Medium, for which no IP-Adapter is published.",
        backend=BackendSpec(model="stabilityai/stable-diffusion-3.5-medium"),
        strategy="router",
        **_VISION_MODELS,
    )
    yield Profile(
        name="flux",
        about="FLUX.1 [dev] with XLabs' IP-Adapter.",
        backend=BackendSpec(
            model="black-forest-labs/FLUX.1-dev",
            adapter=AdapterSpec(
                repository="XLabs-AI/flux-ip-adapter",
                weight_name="ip_adapter.safetensors",
                image_encoder=_CLIP,
            ),
        ),
        **_VISION_MODELS,
    )
    yield Profile(
        name="flux-schnell",
        about="FLUX.1 [schnell]: four steps a picture, without references.",
        backend=BackendSpec(model="black-forest-labs/FLUX.1-schnell"),
        strategy="router",
        **_VISION_MODELS,
    )
    yield Profile(
        name="kontext",
        about="FLUX.1 Kontext [dev], which repairs a picture by an instruction.",
        backend=BackendSpec(model="black-forest-labs/FLUX.1-Kontext-dev"),
        strategy="edit",
        **_VISION_MODELS,
    )


def _of_accounts() -> Iterator[Profile]:
    yield Profile(
        name="openai",
        about="OpenAI's image, judging and language models; needs OPENAI_API_KEY alone.",
        backend=BackendSpec(kind="openai", model="gpt-image-2.6-flare"),
        chat="openai:gpt-6.1-terra",
        judges=("openai:gpt-6-luna", "openai:gpt-5.4-mini"),
        report_judges=("openai:gpt-6.1-sol",),
        strategy="router",
        asking="together",
    )
    yield Profile(
        name="gemini",
        about="Google's image, judging and language models; needs GEMINI_API_KEY alone.",
        backend=BackendSpec(kind="gemini", model="gemini-3.1-flash-image"),
        chat="gemini:gemini-3.8-flash",
        judges=("gemini:gemini-3.5-flash-lite", "gemini:gemini-3.8-flash"),
        report_judges=("gemini:gemini-4-argon",),
        strategy="router",
        asking="together",
    )


BUILT_IN: Mapping[str, Profile] = {
    profile.name: profile
    for group in (_with_the_package, _on_this_machine, _of_accounts)
    for profile in group()
}
"""Every profile that comes with scenewright, by name."""
