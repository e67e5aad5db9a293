"""The prompt upsampler of FLUX 3, and the boxes that act through it."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from transformers import AutoTokenizer, Qwen3_5ForConditionalGeneration

from scenewright.config.local_images import QuantizationSpec
from scenewright.config.profiles import BackendSpec, Profile
from scenewright.core.images import ImageStore
from scenewright.core.layout import Region
from scenewright.core.ports.backend import BackendError, Box, GenerationRequest, Start
from scenewright.providers.hub.needs import Need, known_repositories, needs_of
from scenewright.tools.backends.diffusers import DiffusersBackend
from scenewright.tools.backends.memory import MemoryPlan
from scenewright.tools.backends.memory import needs_of as memory_of
from scenewright.tools.backends.modular import layout_rows
from tests.tools.backends import tiny, tiny_modern
from tests.tools.backends.conformance import RED, no_images, with_references

LEFT, RIGHT = Region(0.0, 0.25, 0.5, 1.0), Region(0.5, 0.0, 1.0, 0.75)
BOXES = (
    Box(name="dog", phrase="red dog", region=RIGHT),
    Box(name="dog", phrase="blue dog", region=LEFT),
    Box(name="7 up", phrase="7 up", region=LEFT),
)
PLACED = RED.model_copy(update={"boxes": BOXES})


@pytest.fixture(scope="module")
def flux3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_modern.build_flux3(tmp_path_factory.mktemp("flux3") / "model")


@pytest.fixture(scope="module")
def upsampler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_modern.build_upsampler(tmp_path_factory.mktemp("upsampler") / "model")


@pytest.fixture(scope="module")
def backend(flux3: Path, upsampler: Path) -> Iterator[DiffusersBackend]:
    shared = DiffusersBackend(str(flux3), prompt_upsampler=str(upsampler))
    yield shared
    asyncio.run(shared.aclose())


@pytest.fixture
def read(upsampler: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the upsampler is given, as text, call by call."""
    words = AutoTokenizer.from_pretrained(upsampler, local_files_only=True)
    found: list[str] = []
    generate = Qwen3_5ForConditionalGeneration.generate

    def watched(self: Any, **options: Any) -> Any:
        found.append(words.decode(options["input_ids"][0]))
        return generate(self, **options)

    monkeypatch.setattr(Qwen3_5ForConditionalGeneration, "generate", watched)
    return found


def rows_in(text: str) -> list[dict[str, Any]]:
    """The locked rows of a layout request."""
    _, _, rest = text.partition("LOCKED BOUNDING-BOX ANNOTATIONS")
    found: list[dict[str, Any]] = json.JSONDecoder().raw_decode(rest[rest.index("[{") :])[0]
    return found


def test_an_unplaced_request_has_the_key_that_it_has_without_boxes() -> None:
    assert "boxes" not in RED.model_dump(mode="json")
    assert PLACED.key("x") != RED.key("x")
    assert GenerationRequest.model_validate_json(PLACED.model_dump_json()) == PLACED
    # As of before there were boxes.
    assert RED.key("x") == "067c9184ce97e913358d68e83d3d7375de72c3301be98437fa14d0f16c48e7c7"


@pytest.mark.parametrize(
    "edges", [(0.5, 0.0, 0.5, 1.0), (0.0, 0.6, 1.0, 0.5), (0.0, 0.0, 1.1, 1.0)]
)
def test_a_box_lies_in_the_picture(edges: tuple[float, float, float, float]) -> None:
    with pytest.raises(ValidationError, match="region"):
        Box(name="dog", phrase="dog", region=Region(*edges))


def test_ids_are_nouns_counted_from_left_to_right() -> None:
    assert [row["id"] for row in layout_rows(BOXES, edited=False)] == [
        "dog_2",
        "dog_1",
        "object_7_up_1",
    ]


async def test_the_upsampler_is_given_prompt_and_boxes(
    backend: DiffusersBackend, store: ImageStore, read: list[str]
) -> None:
    assert backend.features.boxes
    placed = await backend.generate(PLACED, no_images)
    (text,) = read
    assert "ORIGINAL PROMPT:\nred dog\n" in text
    # Its corners are y before x, on a canvas of 0 to 1000.
    assert rows_in(text) == [
        {"id": "dog_2", "bbox": [0, 500, 750, 1000], "desc": "red dog"},
        {"id": "dog_1", "bbox": [250, 0, 1000, 500], "desc": "blue dog"},
        {"id": "object_7_up_1", "bbox": [250, 0, 1000, 500], "desc": "7 up"},
    ]
    # The caption that the image model was given is told, and holds the boxes too.
    assert placed.prompt != PLACED.prompt
    assert placed.prompt.endswith(json.dumps(rows_in(text)))
    read.clear()
    plain = await backend.generate(RED, no_images)
    assert "BOUNDING-BOX ANNOTATIONS" not in read[0]
    assert "red dog<|im_end|>" in read[0]
    assert len(plain.prompt) >= tiny_modern.WRITTEN
    assert plain.count == backend.count_prompt(RED.prompt)


async def test_an_edit_shows_its_pictures_and_places_are_those_of_the_target(
    backend: DiffusersBackend, store: ImageStore, pictures: list[str], read: list[str]
) -> None:
    start = Start(image=pictures[0], strength=1.0, instruct=True)
    asked = with_references(pictures[1:], 1.0, start=start, boxes=BOXES[:1])
    await backend.generate(asked, store.get)
    assert read[0].count("<|vision_start|>") == 2
    assert rows_in(read[0]) == [
        {
            "id": "dog_1",
            "from": "target",
            "src_bbox": None,
            "tgt_bbox": [0, 500, 750, 1000],
            "desc": "red dog",
        }
    ]


async def test_without_it_nothing_changes(
    backend: DiffusersBackend, flux3: Path, store: ImageStore, read: list[str]
) -> None:
    plain = DiffusersBackend(str(flux3))
    assert not plain.features.boxes
    assert plain.loading == ""
    assert plain.fingerprint != backend.fingerprint
    drawn = await plain.generate(RED, no_images)
    assert read == []
    assert drawn.prompt == ""
    with pytest.raises(BackendError, match="takes no boxes: leave 'boxes' out, or give"):
        await plain.generate(PLACED, store.get)
    await plain.aclose()


def test_it_is_in_fingerprint_memory_and_words(
    backend: DiffusersBackend, flux3: Path, upsampler: Path, tmp_path: Path
) -> None:
    other = shutil.copytree(upsampler, tmp_path / "other")
    same = DiffusersBackend(str(flux3), prompt_upsampler=str(other))
    assert same.fingerprint == backend.fingerprint
    assert same.loading == "prompts written in full by other"
    (other / "chat_template.jinja").write_text("{{ messages }}")
    changed = DiffusersBackend(str(flux3), prompt_upsampler=str(other))
    assert changed.fingerprint != backend.fingerprint
    needs = memory_of(backend._folder, tiny.SIZE)
    assert needs.weights["prompt_upsampler"] > 0
    assert needs.peak("parts", False) < needs.peak("none", False)


async def test_parts_in_turn_draw_the_same(
    backend: DiffusersBackend, flux3: Path, upsampler: Path, store: ImageStore
) -> None:
    """Main memory stands for the device too."""
    expected = np.asarray((await backend.generate(PLACED, store.get)).image, int)
    for offload in ("parts", "layers"):
        placed = DiffusersBackend(str(flux3), device="cpu", prompt_upsampler=str(upsampler))
        placed.__dict__["plan"] = MemoryPlan("float32", offload, False, 2**20, 2**30)  # type: ignore[arg-type]
        image = np.asarray((await placed.generate(PLACED, store.get)).image, int)
        assert np.abs(image - expected).max() <= 1
        await placed.aclose()


@pytest.mark.slow
async def test_what_does_not_fit_is_told_before_weights_are_read(
    flux3: Path, upsampler: Path, tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def assembled(*given: Any) -> None:
        pytest.fail("the weights were read")

    monkeypatch.setattr("scenewright.tools.backends.pipeline.assemble_pipeline", assembled)
    of_another = shutil.copytree(upsampler, tmp_path / "another")
    config = json.loads((of_another / "config.json").read_text())
    (of_another / "config.json").write_text(json.dumps(config | {"architectures": ["Qwen3Model"]}))
    without = shutil.copytree(upsampler, tmp_path / "without")
    (without / "model.safetensors").unlink()
    for model, given, message in (
        (tiny_model, upsampler, "StableDiffusionPipeline has no prompt upsampler: leave"),
        (flux3, of_another, "names Qwen3Model, and Flux3DistilledModularPipeline needs Qwen3_5For"),
        (flux3, without, "holds no .*safetensors weights"),
        (flux3, tmp_path / "nowhere", "there is no folder"),
        (flux3, "acme/upsampler", "'acme/upsampler' is not on this machine"),
    ):
        backend = DiffusersBackend(str(model), prompt_upsampler=str(given))
        with pytest.raises(BackendError, match=message):
            await backend.load()
        await backend.aclose()


def test_its_weights_can_be_quantized(
    flux3: Path, upsampler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenewright.tools.backends.quantization._is_installed", lambda _: True)
    spec = QuantizationSpec(method="torchao-int8", parts=("prompt_upsampler",))
    narrow = DiffusersBackend(
        str(flux3), prompt_upsampler=str(upsampler), quantization=spec, device="cpu"
    )
    assert "prompt_upsampler in int8" in narrow.loading


def test_a_profile_names_it_and_fetches_it() -> None:
    name = "black-forest-labs/flux-3-image-klein-pup"
    spec = BackendSpec(model="o/pipe", prompt_upsampler=name)
    profile = Profile(name="mine", backend=spec, judges=("replay:answers.csv",))
    assert needs_of(profile) == (
        Need("o/pipe", ("backend",), "pipeline"),
        Need(name, ("prompt upsampler",), "model"),
    )
    assert known_repositories()[name].licence == "apache-2.0"
    assert "prompt_upsampler" not in BackendSpec(model="o/pipe").model_dump()
    with pytest.raises(ValidationError, match="prompt_upsampler: only for models on this machine"):
        BackendSpec(kind="openai", model="gpt-image-1", prompt_upsampler=name)
