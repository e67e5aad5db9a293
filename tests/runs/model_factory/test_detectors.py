"""From a spec to its detector."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from scenewright.core.ports.vision import DetectionError
from scenewright.miniature.sampler import sample_painting
from scenewright.providers.hub.needs import needs_of_spec
from scenewright.runs.model_factory.local_models import (
    SEGMENTER,
    DetectorSettings,
    detector_of,
    head_of,
)
from scenewright.tools.vision.detection.boxes import iou
from tests.tools.vision.detection.tiny import save_tiny

HAS_SEGMENTER = (SEGMENTER / "config.json").is_file()


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        ("mask2former", "PanopticDetector"),
        ("maskformer", "PanopticDetector"),
        ("segformer", "SemanticDetector"),
        ("yolos", "ClosedSetDetector"),
        ("owlv2", "OpenVocabularyDetector"),
        ("grounding-dino", "OpenVocabularyDetector"),
    ],
)
def test_the_configuration_says_what_a_model_is(kind: str, made: str, tmp_path: Path) -> None:
    spec = f"transformers:{save_tiny(kind, tmp_path)}"
    found = detector_of(spec)
    assert type(found).__name__ == made
    assert found.id == spec
    assert detector_of(spec) is found
    sure = detector_of(spec, DetectorSettings(threshold=0.7, device="cpu", max_side=64))
    assert sure.fingerprint != found.fingerprint


@pytest.mark.parametrize(
    ("config", "head"),
    [
        ({"architectures": ["DetrForSegmentation"], "model_type": "detr"}, "panoptic"),
        ({"architectures": ["DetrForObjectDetection"], "model_type": "detr"}, "boxes"),
        ({"architectures": ["OwlViTForObjectDetection"], "model_type": "owlvit"}, "words"),
        ({"architectures": ["UperNetForSemanticSegmentation"]}, "semantic"),
    ],
)
def test_heads(config: dict[str, Any], head: str) -> None:
    assert head_of(config) == head


def test_a_model_that_finds_nothing_is_told(tmp_path: Path) -> None:
    config = {"architectures": ["BertModel"], "model_type": "bert"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(DetectionError, match="class BertModel finds no things"):
        detector_of(f"transformers:{tmp_path}")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(DetectionError, match=r"config\.json"):
        detector_of(f"transformers:{tmp_path}")


@pytest.mark.parametrize("spec", ["", "json:", "transformers:", "yolo:x", "miniature:x"])
def test_other_specs_are_told(spec: str) -> None:
    with pytest.raises(DetectionError, match="is not a detector: write"):
        detector_of(spec)


async def test_records_are_read_with_their_settings(tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    image = Image.new("RGB", (20, 20), (1, 2, 3))
    image.save(pictures / "a.png")
    things = [{"name": "dog", "box": [0, 0, 9, 9], "score": score} for score in (0.2, 0.8)]
    (tmp_path / "seen.json").write_text(json.dumps({"a.png": things}))
    settings = DetectorSettings(threshold=0.5, images=pictures)
    found = detector_of(f"json:{tmp_path / 'seen.json'}", settings)
    assert [one.score for one in await found.detect(image)] == [0.8]


def test_the_models_command_knows_detectors() -> None:
    (need,) = needs_of_spec("transformers:google/owlv2-base-patch16-ensemble")
    assert need.repository == "google/owlv2-base-patch16-ensemble"
    assert need.kind == "model"


@pytest.mark.skipif(not HAS_SEGMENTER, reason="the segmenter's weights are not here")
async def test_the_miniature_finds_what_was_painted() -> None:
    rng = random.Random("detectors")
    detector = detector_of("miniature")
    right = found = wanted = 0
    for _ in range(12):
        painting = sample_painting(rng)
        truth = [
            (painting.scene.object(key).name, (b.left, b.top, b.left + b.width, b.top + b.height))
            for key, b in painting.truth.boxes.items()
        ]
        wanted += len(truth)
        for one in await detector.detect(painting.image):
            found += 1
            hit = [t for t in truth if t[0] == one.name and iou(t[1], one.box) >= 0.5]
            if hit:
                truth.remove(hit[0])
                right += 1
    assert right >= 0.9 * wanted
    assert right >= 0.9 * found
