"""Equation 5, number by number, inside a real UNet.

The reference implementation below reads the published checkpoint layout itself and
shares no code with the processors under test.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import StableDiffusionPipeline
from diffusers.models.attention_processor import Attention
from PIL import Image
from torch.nn import functional

from scenewright.config.local_images import AdapterSpec
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import BackendError, Reference
from scenewright.tools.backends.adapter import AdapterFolder, read_adapter
from scenewright.tools.backends.model_folder import ModelFolder
from scenewright.tools.backends.pipeline import build, choose_device
from scenewright.tools.backends.references import ReferenceAttention, References, mask_tensors
from tests.tools.backends import tiny

WEIGHTS = (0.5, -0.75, 1.25)
CASES = [WEIGHTS[:count] for count in (1, 2, 3)]
Checkpoint = dict[str, dict[str, torch.Tensor]]


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, heads: int) -> Any:
    """Softmax attention by head; ``[batch, places, width]`` in and out."""

    def split(x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)

    scores = split(query) @ split(key).transpose(-1, -2) / (query.shape[-1] / heads) ** 0.5
    return (scores.softmax(-1) @ split(value)).transpose(1, 2).flatten(2)


def image_tokens(checkpoint: Checkpoint, embeds: torch.Tensor) -> torch.Tensor:
    """``[batch, width]`` image embeddings → ``[batch, 4, width]`` tokens."""
    parts = checkpoint["image_proj"]
    tokens = functional.linear(embeds, parts["proj.weight"], parts["proj.bias"])
    tokens = tokens.unflatten(-1, (tiny.TOKENS, -1))
    return functional.layer_norm(
        tokens, tokens.shape[-1:], parts["norm.weight"], parts["norm.bias"]
    )


class Equation5:
    """``Z = Attn(Q, K_text, V_text) + Σ λ_i Attn(Q, K_i, V_i)`` as an attention processor."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        at: int,
        tokens: list[torch.Tensor],
        weights: tuple[float, ...],
    ) -> None:
        kv = checkpoint["ip_adapter"]
        self.key, self.value = kv[f"{at}.to_k_ip.weight"], kv[f"{at}.to_v_ip.weight"]
        self.tokens, self.weights = tokens, weights

    def __call__(
        self,
        layer: Attention,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        **_: Any,
    ) -> torch.Tensor:
        query = layer.to_q(hidden_states)
        text = encoder_hidden_states
        total = attention(query, layer.to_k(text), layer.to_v(text), layer.heads)
        for tokens, weight in zip(self.tokens, self.weights, strict=True):
            key, value = functional.linear(tokens, self.key), functional.linear(tokens, self.value)
            total = total + weight * attention(query, key, value, layer.heads)
        return layer.to_out[1](layer.to_out[0](total))


def install(
    unet: Any, checkpoint: Checkpoint, tokens: list[torch.Tensor], weights: tuple[float, ...]
) -> None:
    """Puts the reference implementation into every cross-attention layer."""
    processors, at = {}, 1
    for name, processor in unet.attn_processors.items():
        if "attn2" in name:
            processors[name] = Equation5(checkpoint, at, tokens, weights)
            at += 2
        else:
            processors[name] = processor
    unet.set_attn_processor(processors)


class Bench:
    """A UNet with the adapter under test, its twin without, and inputs for both."""

    def __init__(self) -> None:
        torch.manual_seed(5)
        self.plain = tiny.unet()
        self.unet = tiny.unet()
        self.unet.load_state_dict(self.plain.state_dict())
        self.checkpoint = tiny.adapter_weights(self.plain)
        self.references = ReferenceAttention(self.unet, self.checkpoint, "tiny")
        self.sample = torch.randn(2, 4, 8, 8)
        self.text = torch.randn(2, 16, tiny.TEXT_WIDTH)
        self.embeds = [torch.randn(2, tiny.IMAGE_WIDTH) for _ in WEIGHTS]

    def forward(self, unet: Any, embeds: list[torch.Tensor] | None, **options: Any) -> torch.Tensor:
        added = None if embeds is None else {"image_embeds": embeds}
        with torch.no_grad():
            return unet(
                self.sample, 7, self.text, added_cond_kwargs=added, cross_attention_kwargs=options
            ).sample

    def ours(self, weights: tuple[float, ...], **options: Any) -> torch.Tensor:
        self.references.use(weights)
        embeds = [one[:, None] for one in self.embeds[: len(weights)]]
        return self.forward(self.unet, embeds or None, **options)


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize("weights", CASES)
def test_every_cross_attention_layer_computes_equation_5(
    bench: Bench, weights: tuple[float, ...]
) -> None:
    seen: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}

    def watch(name: str) -> Any:
        def hook(layer: Any, args: Any, kwargs: Any, output: torch.Tensor) -> None:
            seen[name] = (args[0] if args else kwargs["hidden_states"], output)

        return hook

    names = [name for name in bench.unet.attn_processors if "attn2" in name]
    layers = {name: bench.unet.get_submodule(name.removesuffix(".processor")) for name in names}
    hooks = [
        layer.register_forward_hook(watch(name), with_kwargs=True) for name, layer in layers.items()
    ]
    bench.ours(weights)
    for hook in hooks:
        hook.remove()
    assert len(seen) == len(names) >= 6

    tokens = [image_tokens(bench.checkpoint, one) for one in bench.embeds[: len(weights)]]
    for at, name in enumerate(names):
        hidden, output = seen[name]
        expected = Equation5(bench.checkpoint, 2 * at + 1, tokens, weights)
        text_only = Equation5(bench.checkpoint, 2 * at + 1, [], ())
        with torch.no_grad():
            torch.testing.assert_close(output, expected(layers[name], hidden, bench.text))
            assert (output - text_only(layers[name], hidden, bench.text)).abs().max() > 0.05


@pytest.mark.parametrize("weights", CASES)
def test_the_whole_unet_computes_equation_5(bench: Bench, weights: tuple[float, ...]) -> None:
    before = bench.forward(bench.plain, None)
    tokens = [image_tokens(bench.checkpoint, one) for one in bench.embeds[: len(weights)]]
    install(bench.plain, bench.checkpoint, tokens, weights)
    expected = bench.forward(bench.plain, None)
    torch.testing.assert_close(bench.ours(weights), expected)
    assert (expected - before).abs().max() > 0.05


def test_two_images_under_one_adapter_are_something_else(bench: Bench) -> None:
    """They are joined along the keys: one softmax, one weight."""
    ours = bench.ours((0.5, 0.5))
    bench.plain._load_ip_adapter_weights([bench.checkpoint])
    for processor in bench.plain.attn_processors.values():
        if hasattr(processor, "scale"):
            processor.scale = [0.5]
    joined = bench.forward(bench.plain, [torch.stack(bench.embeds[:2], dim=1)])
    assert (ours - joined).abs().max() > 0.02


def test_without_references_the_unet_is_exactly_the_plain_one(bench: Bench) -> None:
    plain = bench.forward(bench.plain, None)
    assert torch.equal(bench.forward(bench.unet, None), plain)
    bench.ours(WEIGHTS)
    assert torch.equal(bench.ours(()), plain)
    assert bench.unet.config.encoder_hid_dim_type == bench.plain.config.encoder_hid_dim_type
    assert bench.unet.encoder_hid_proj is None


def test_a_unet_that_projects_its_text_does_so_with_references_too(bench: Bench) -> None:
    """As in Kolors, whose UNet has a projection of the text where that of references goes."""
    torch.manual_seed(6)
    plain = tiny.unet(encoder_hid_dim=20, encoder_hid_dim_type="text_proj")
    unet = tiny.unet(encoder_hid_dim=20, encoder_hid_dim_type="text_proj")
    unet.load_state_dict(plain.state_dict())
    text = torch.randn(2, 16, 20)
    projected = plain.encoder_hid_proj(text)
    references = ReferenceAttention(unet, bench.checkpoint, "tiny")

    def forward(one: Any, embeds: Any, words: torch.Tensor = text) -> torch.Tensor:
        added = {"image_embeds": embeds} if embeds else None
        with torch.no_grad():
            return one(bench.sample, 7, words, added_cond_kwargs=added).sample

    before = forward(plain, None)
    assert torch.equal(forward(unet, None), before)
    references.use((0.5, -0.75))
    embeds = [one[:, None] for one in bench.embeds[:2]]
    ours = forward(unet, embeds)
    written = tiny.unet()
    written.load_state_dict(
        {k: v for k, v in plain.state_dict().items() if "encoder_hid_proj" not in k}
    )
    tokens = [image_tokens(bench.checkpoint, one) for one in bench.embeds[:2]]
    install(written, bench.checkpoint, tokens, (0.5, -0.75))
    torch.testing.assert_close(ours, forward(written, None, projected.detach()))
    references.use(())
    assert torch.equal(forward(unet, None), before)


def test_order_goes_with_its_weight(bench: Bench) -> None:
    one = bench.ours((0.5, -0.75))
    bench.embeds[:2] = bench.embeds[1::-1]
    torch.testing.assert_close(bench.ours((-0.75, 0.5)), one)
    assert (bench.ours((0.5, -0.75)) - one).abs().max() > 0.02


def test_more_references_share_the_weights(bench: Bench) -> None:
    def storages() -> set[int]:
        return {tensor.data_ptr() for tensor in bench.unet.parameters()}

    bench.references.use((1.0,))
    single = storages()
    bench.references.use((1.0,) * 8)
    assert storages() == single


def test_a_mask_keeps_its_reference_out(bench: Bench) -> None:
    white, black = Image.new("L", (32, 32), 255), Image.new("L", (32, 32), 0)

    def masked(first: Image.Image | None, second: Image.Image | None) -> torch.Tensor:
        masks = mask_tensors([first, second], 32, 32)
        return bench.ours((0.5, -0.75), ip_adapter_masks=masks)

    both = bench.ours((0.5, -0.75))
    torch.testing.assert_close(masked(white, None), both)
    torch.testing.assert_close(masked(white, white), both)
    torch.testing.assert_close(masked(None, black), bench.ours((0.5,)))
    assert mask_tensors([None, None], 32, 32) is None


@pytest.mark.parametrize("weights", CASES)
def test_the_picture_is_the_one_equation_5_gives(
    tiny_model: Path,
    tiny_adapter: Path,
    store: ImageStore,
    pictures: list[str],
    weights: tuple[float, ...],
) -> None:
    """Through all steps with guidance, against a pipeline that holds Eq. 5 written out."""
    names = pictures[: len(weights)]
    folder = ModelFolder.open(tiny_model)
    pipe = build(folder, choose_device("cpu"), torch.float32)
    adapter = AdapterFolder.open(AdapterSpec(repository=str(tiny_adapter)))
    references = References(pipe, adapter)
    asked = [Reference(image=name, weight=w) for name, w in zip(names, weights, strict=True)]
    call: dict[str, Any] = {
        "prompt": "red dog",
        "num_inference_steps": 3,
        "guidance_scale": 4.0,
        "output_type": "np",
    }

    def draw(pipeline: Any, **options: Any) -> torch.Tensor:
        generator = torch.Generator("cpu").manual_seed(11)
        return torch.from_numpy(pipeline(**call, **options, generator=generator).images[0])

    with torch.no_grad():
        ours = draw(pipe, **references.options(asked, store.get, 4.0, (32, 32)))
        embeds = [pipe.encode_image(store.get(name), pipe.device, 1)[0] for name in names]

    written_out = StableDiffusionPipeline.from_pretrained(tiny_model, local_files_only=True)
    written_out.set_progress_bar_config(disable=True)
    checkpoint = read_adapter(adapter.weights)
    guided = [torch.cat([torch.zeros_like(one), one]) for one in embeds]
    without = draw(written_out)
    tokens = [image_tokens(checkpoint, one) for one in guided]
    install(written_out.unet, checkpoint, tokens, weights)
    torch.testing.assert_close(ours, draw(written_out), atol=2e-4, rtol=0)
    assert (ours - without).abs().max() > 0.02


def test_an_adapter_for_another_model_is_told(bench: Bench) -> None:
    other = tiny.unet()
    missing = {**bench.checkpoint, "ip_adapter": dict(bench.checkpoint["ip_adapter"])}
    del missing["ip_adapter"]["3.to_k_ip.weight"]
    with pytest.raises(BackendError, match="wrong-one does not fit this model"):
        ReferenceAttention(other, missing, "wrong-one")
    wide = {**bench.checkpoint, "ip_adapter": dict(bench.checkpoint["ip_adapter"])}
    wide["ip_adapter"]["1.to_k_ip.weight"] = torch.zeros(99, 99)
    with pytest.raises(BackendError, match="does not fit this model"):
        ReferenceAttention(tiny.unet(), wide, "wrong-one")
