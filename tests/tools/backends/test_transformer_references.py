"""References in transformers, number by number: Equation 5 in Flux, one softmax for both in SD3.

The few lines of attention below read the published layouts themselves and share no code with the
processors under test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import FluxPipeline, StableDiffusion3Pipeline
from PIL import Image
from safetensors.torch import load_file, save_file
from torch.nn import functional

from scenewright.config.local_images import AdapterSpec
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import BackendError, Reference, Start
from scenewright.tools.backends.adapter import AdapterFolder
from scenewright.tools.backends.diffusers import DiffusersBackend
from scenewright.tools.backends.model_folder import ModelFolder
from scenewright.tools.backends.pipeline import build, choose_device
from scenewright.tools.backends.transformer_references import references_of
from tests.tools.backends import tiny, tiny_families
from tests.tools.backends.conformance import RED, drawn, with_references

WEIGHTS = (0.5, -0.75, 1.25)
CASES = [WEIGHTS[:count] for count in (1, 2, 3)]
BLOCKS = (0, 1)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("families")
    tiny_families.build_flux(folder / "flux")
    tiny_families.build_flux_adapter(folder / "flux-adapter")
    tiny_families.build_sd3(folder / "sd3")
    tiny_families.build_sd3_adapter(folder / "sd3-adapter")
    return folder


def source(files: Path, family: str) -> AdapterSpec:
    if family == "sd3":
        return AdapterSpec(repository=str(files / "sd3-adapter"))
    parts = files / "flux-adapter"
    return AdapterSpec(
        repository=str(parts / "adapter"),
        weight_name="ip_adapter.safetensors",
        image_encoder=str(parts / "clip"),
    )


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Softmax attention; ``[batch, places, heads, width]`` in, heads joined out."""
    query, key, value = (x.transpose(1, 2) for x in (query, key, value))
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    shown: torch.Tensor = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
    return shown


def by_head(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(*x.shape[:-1], tiny_families.HEADS, -1)


def rms(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


class Watched:
    """What the attention layers of a transformer's blocks got and gave in the last step."""

    def __init__(self, pipe: Any) -> None:
        self.seen: dict[int, tuple[dict[str, Any], Any]] = {}
        self.layers = [block.attn for block in pipe.transformer.transformer_blocks]
        self._hooks = [
            layer.register_forward_hook(self._hook(at), with_kwargs=True)
            for at, layer in enumerate(self.layers)
        ]

    def _hook(self, at: int) -> Any:
        def hook(layer: Any, args: Any, kwargs: Any, output: Any) -> None:
            self.seen[at] = (kwargs, output)

        return hook

    def remove(self) -> None:
        for hook in self._hooks:
            hook.remove()


@pytest.fixture
def built(files: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Any, Any, Watched]]:
    family = request.param
    pipe = build(ModelFolder.open(files / family), choose_device("cpu"), torch.float32)
    adapter = AdapterFolder.open(source(files, family))
    references = references_of(family, pipe, adapter)
    watched = Watched(pipe)
    with torch.no_grad():
        yield pipe, references, watched
    watched.remove()


def draw(pipe: Any, guidance: float, **options: Any) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = pipe(
        prompt="red dog",
        num_inference_steps=2,
        guidance_scale=guidance,
        width=32,
        height=32,
        generator=torch.Generator("cpu").manual_seed(11),
        output_type="np",
        **options,
    ).images[0]
    return found


def asked(names: list[str], weights: tuple[float, ...]) -> list[Reference]:
    return [Reference(image=name, weight=w) for name, w in zip(names, weights, strict=False)]


@pytest.mark.parametrize("weights", CASES)
@pytest.mark.parametrize("built", ["flux"], indirect=True)
def test_each_flux_reference_has_its_own_softmax_and_weight(
    built: tuple[Any, Any, Watched],
    files: Path,
    store: ImageStore,
    pictures: list[str],
    weights: tuple[float, ...],
) -> None:
    pipe, references, watched = built
    names = pictures[: len(weights)]
    draw(pipe, 3.5, **references.options(asked(names, weights), store.get, 3.5, tiny.SIZE))

    checkpoint = load_file(files / "flux-adapter" / "adapter" / "ip_adapter.safetensors")
    part = {k.removeprefix("ip_adapter_proj_model."): t for k, t in checkpoint.items()}
    tokens = []
    for name in names:
        embeds = pipe.encode_image(store.get(name).convert("RGB"), "cpu", 1)
        one = functional.linear(embeds, part["proj.weight"], part["proj.bias"])
        one = one.reshape(1, tiny.TOKENS, -1)
        tokens.append(
            functional.layer_norm(one, one.shape[-1:], part["norm.weight"], part["norm.bias"])
        )
    for at in BLOCKS:
        layer, (given, output) = watched.layers[at], watched.seen[at]
        query = by_head(layer.to_q(given["hidden_states"]))
        query = rms(query, layer.norm_q.weight)
        total = torch.zeros_like(output[2])
        for one, weight in zip(tokens, weights, strict=True):
            key, value = (
                by_head(
                    functional.linear(one, checkpoint[f"{name}.weight"], checkpoint[f"{name}.bias"])
                )
                for name in (
                    f"double_blocks.{at}.processor.ip_adapter_double_stream_{which}_proj"
                    for which in "kv"
                )
            )
            total = total + weight * attention(query, key, value)
        torch.testing.assert_close(output[2], total, atol=1e-4, rtol=1e-3)
        assert total.abs().max() > 0.05


@pytest.mark.parametrize("built", ["sd3"], indirect=True)
def test_the_sd3_reference_shares_one_softmax_with_the_picture(
    built: tuple[Any, Any, Watched], files: Path, store: ImageStore, pictures: list[str]
) -> None:
    pipe, references, watched = built
    options = references.options(asked(pictures, (0.7,)), store.get, 1.0, tiny.SIZE)
    draw(pipe, 1.0, **options)
    weights = load_file(files / "sd3-adapter" / "ip-adapter.safetensors")
    for at in BLOCKS:
        layer, (given, output) = watched.layers[at], watched.seen[at]
        part = {
            name.removeprefix(f"ip_adapter.{at}."): tensor
            for name, tensor in weights.items()
            if name.startswith(f"ip_adapter.{at}.")
        }
        hidden, text = given["hidden_states"], given["encoder_hidden_states"]
        own = {w: by_head(getattr(layer, f"to_{w}")(hidden)) for w in "qkv"}
        added = {w: by_head(getattr(layer, f"add_{w}_proj")(text)) for w in "qkv"}
        joint = attention(
            torch.cat([layer.norm_q(own["q"]), layer.norm_added_q(added["q"])], 1),
            torch.cat([layer.norm_k(own["k"]), layer.norm_added_k(added["k"])], 1),
            torch.cat([own["v"], added["v"]], 1),
        )[:, : hidden.shape[1]]
        # The reference's tokens, shifted and scaled by the time.
        shift, scale = functional.linear(
            functional.silu(given["temb"]),
            part["norm_ip.linear.weight"],
            part["norm_ip.linear.bias"],
        ).chunk(2, dim=1)
        tokens = given["ip_hidden_states"]
        tokens = functional.layer_norm(tokens, tokens.shape[-1:], eps=1e-6)
        tokens = tokens * (1 + scale[:, None]) + shift[:, None]
        key, value = (by_head(tokens @ part[f"to_{w}_ip.weight"].T) for w in "kv")
        own["k"], key = rms(own["k"], part["norm_k.weight"]), rms(key, part["norm_ip_k.weight"])
        shown = attention(
            rms(own["q"], part["norm_q.weight"]),
            torch.cat([own["k"], key], 1),
            torch.cat([own["v"], value], 1),
        )
        expected = layer.to_out[0](joint + 0.7 * shown)
        torch.testing.assert_close(output[0], expected, atol=1e-4, rtol=1e-3)
        assert (layer.to_out[0](joint) - output[0]).abs().max() > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("weights", [(0.5,), (0.5, -0.75)])
async def test_flux_references_give_what_one_loaded_adapter_each_gives(
    files: Path, store: ImageStore, pictures: list[str], weights: tuple[float, ...]
) -> None:
    count = len(weights)
    backend = DiffusersBackend(str(files / "flux"), ip_adapter=source(files, "flux"))
    ours = await backend.generate(with_references(pictures, *weights), store.get)
    await backend.aclose()
    pipe = FluxPipeline.from_pretrained(files / "flux", local_files_only=True)
    pipe.load_ip_adapter(
        [str(files / "flux-adapter" / "adapter")] * count,
        weight_name=["ip_adapter.safetensors"] * count,
        image_encoder_pretrained_model_name_or_path=str(files / "flux-adapter" / "clip"),
        image_encoder_dtype=torch.float32,
        local_files_only=True,
    )
    # A list of one number would be a list of blocks.
    pipe.set_ip_adapter_scale(list(weights) if count > 1 else weights[0])
    expected = official(pipe, ip_adapter_image=[store.get(name) for name in pictures[:count]])
    assert difference(ours.image, expected) <= 1


async def test_an_sd3_reference_gives_what_the_pipeline_gives(
    files: Path, store: ImageStore, pictures: list[str]
) -> None:
    backend = DiffusersBackend(str(files / "sd3"), ip_adapter=source(files, "sd3"))
    assert backend.features.reference_maths == "joined"
    assert backend.features.references == 1
    ours = await backend.generate(with_references(pictures, 0.6), store.get)
    embeds = backend._load_pipeline().pipe.encode_image(
        store.get(pictures[0]).convert("RGB"), "cpu"
    )
    await backend.aclose()
    pipe = StableDiffusion3Pipeline.from_pretrained(files / "sd3", local_files_only=True)
    weights = load_file(files / "sd3-adapter" / "ip-adapter.safetensors")
    groups: dict[str, dict[str, torch.Tensor]] = {"image_proj": {}, "ip_adapter": {}}
    for name, tensor in weights.items():
        group, _, rest = name.partition(".")
        groups[group][rest] = tensor
    pipe.transformer._load_ip_adapter_weights(groups)
    pipe.set_ip_adapter_scale(0.6)
    both = torch.cat([torch.zeros_like(embeds), embeds])
    expected = official(pipe, ip_adapter_image_embeds=both)
    assert difference(ours.image, expected) <= 1


def official(pipe: Any, **options: Any) -> Image.Image:
    """The picture that a plain diffusers pipeline gives."""
    pipe.set_progress_bar_config(disable=True)
    found: Image.Image = pipe(
        prompt=RED.prompt,
        num_inference_steps=3,
        guidance_scale=4.0,
        width=32,
        height=32,
        generator=torch.Generator("cpu").manual_seed(RED.seed),
        **options,
    ).images[0]
    return found


def difference(one: Image.Image, two: Image.Image) -> int:
    """Largest difference of any channel of any pixel, 0 to 255."""
    return int(np.abs(np.asarray(one).astype(int) - np.asarray(two).astype(int)).max())


@pytest.mark.slow
@pytest.mark.parametrize("family", ["flux", "sd3"])
async def test_without_references_it_is_the_pipeline_without_adapter(
    files: Path, store: ImageStore, pictures: list[str], family: str
) -> None:
    bare = DiffusersBackend(str(files / family))
    expected = await drawn(bare, RED, store)
    await bare.aclose()
    backend = DiffusersBackend(str(files / family), ip_adapter=source(files, family))
    assert await drawn(backend, with_references(pictures, 0.5), store) != expected
    assert await drawn(backend, RED, store) == expected
    await backend.aclose()


async def test_more_flux_references_share_the_weights_and_encode_once(
    files: Path, store: ImageStore, pictures: list[str]
) -> None:
    backend = DiffusersBackend(
        str(files / "flux"), ip_adapter=source(files, "flux"), max_references=3
    )
    pipe = backend._load_pipeline().pipe

    def storages() -> set[int]:
        return {tensor.data_ptr() for tensor in pipe.transformer.parameters()}

    await backend.generate(with_references(pictures, 0.5), store.get)
    encoded: list[Any] = []
    pipe.image_encoder.register_forward_hook(lambda *_: encoded.append(1))
    references = backend._load_pipeline().references
    assert references is not None
    references.use([1.0])
    single = storages()
    references.use([1.0] * 3)
    assert storages() == single
    many = with_references(pictures, 0.5, 0.5, 0.5)
    told = await backend.generate(many, store.get)
    # The pictures once each, and no black one for a negative prompt that is not there.
    assert len(encoded) == 2
    assert told.details["references_reused"] == 1
    await backend.aclose()


@pytest.mark.slow
@pytest.mark.parametrize("family", ["flux", "sd3"])
async def test_references_go_along_with_a_start_picture(
    files: Path, store: ImageStore, pictures: list[str], family: str
) -> None:
    backend = DiffusersBackend(str(files / family), ip_adapter=source(files, family))
    start = Start(image=pictures[2], strength=0.7)
    plain = RED.model_copy(update={"start": start})
    both = with_references(pictures, 0.8, start=start)
    found = {await drawn(backend, request, store) for request in (RED, plain, both)}
    assert len(found) == 3
    await backend.aclose()


@pytest.mark.slow
@pytest.mark.parametrize("family", ["flux", "sd3"])
async def test_an_adapter_for_another_model_is_told(
    files: Path, tmp_path: Path, family: str
) -> None:
    given = source(files, family)
    file = Path(given.repository) / given.weight_name
    weights = load_file(file)
    lost = next(name for name in weights if "0." in name and "k_" in name)
    del weights[lost]
    (tmp_path / "bad").mkdir()
    save_file(weights, tmp_path / "bad" / given.weight_name)
    sd3 = files / "sd3-adapter" / "image_encoder"
    encoder = sd3 if family == "sd3" else given.image_encoder
    bad = AdapterSpec(
        repository=str(tmp_path / "bad"), weight_name=given.weight_name, image_encoder=str(encoder)
    )
    backend = DiffusersBackend(str(files / family), ip_adapter=bad)
    with pytest.raises(BackendError, match="does not fit this model"):
        await backend.load()
    await backend.aclose()


async def test_another_encoder_is_told_and_changes_the_fingerprint(
    files: Path, tmp_path: Path
) -> None:
    given = source(files, "flux")
    wide = tiny.image_encoder(seed=3)
    wide.save_pretrained(tmp_path / "other", safe_serialization=True)
    other = AdapterSpec(
        repository=given.repository,
        weight_name=given.weight_name,
        image_encoder=str(tmp_path / "other"),
    )
    prints = {
        DiffusersBackend(str(files / "flux"), ip_adapter=one).fingerprint
        for one in (None, given, other)
    }
    assert len(prints) == 3
    config = json.loads((tmp_path / "other" / "config.json").read_text())
    config["projection_dim"] = 8
    (tmp_path / "other" / "config.json").write_text(json.dumps(config))
    tensors = load_file(tmp_path / "other" / "model.safetensors")
    tensors["visual_projection.weight"] = tensors["visual_projection.weight"][:8].contiguous()
    save_file(tensors, tmp_path / "other" / "model.safetensors", {"format": "pt"})
    backend = DiffusersBackend(str(files / "flux"), ip_adapter=other)
    with pytest.raises(BackendError, match="gives 8 numbers an image, the IP-Adapter takes 24"):
        await backend.load()
    await backend.aclose()
