"""Inception-V3 as FID defines it: outputs that torch-fidelity gives, the old resizing, the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from scenewright.evals.metrics import inception
from scenewright.evals.metrics.base import FeatureExtractor, MetricError
from scenewright.evals.metrics.extractors import extractor_of
from scenewright.evals.metrics.inception_network import (
    CLASSES,
    POOL,
    InceptionV3,
    resize_as_tensorflow,
)
from tests.evals.metrics.vectors import picture


def weights() -> dict[str, torch.Tensor]:
    """The same numbers on every machine, as large as those of a trained network."""
    random = np.random.RandomState(0)
    found = {}
    for name, tensor in sorted(InceptionV3().state_dict().items()):
        if name.endswith("num_batches_tracked"):
            continue
        noise = random.standard_normal(tensor.shape)
        if name.endswith("running_var"):
            noise = 1 + 0.1 * np.abs(noise)
        elif name.endswith("bn.weight"):
            noise = 1 + 0.1 * noise
        elif tensor.ndim > 1:
            noise = noise * (2 / np.prod(tensor.shape[1:])) ** 0.5
        else:
            noise = 0.1 * noise
        found[name] = torch.tensor(noise, dtype=torch.float32)
    return found


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("inception") / "weights.safetensors"
    save_file(weights(), path)
    return path


def waves(height: int, width: int) -> Image.Image:
    y, x, channel = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")
    values = (np.sin(y * 0.11 + channel) + np.cos(x * 0.07 * (channel + 1))) * 63 + 127
    return Image.fromarray(values.astype(np.uint8))


@pytest.mark.slow
async def test_its_outputs_are_those_of_torch_fidelity(file: Path) -> None:
    # Written down from torch-fidelity 0.4.0 with these weights and this picture.
    pool = extractor_of("fid", "inception", "pool", {"weights": str(file)})
    logits = extractor_of("is", "inception", "logits", {"weights": str(file)})
    assert isinstance(pool, FeatureExtractor)
    rows = await pool.features([waves(256, 300), picture(0)])
    assert rows.shape == (2, pool.dimensions) == (2, POOL)
    assert rows[0, :4] == pytest.approx([0, 0.3886075, 0.1205466, 0.4346094], abs=1e-4)
    assert float(rows[0].std(ddof=1)) == pytest.approx(0.3602826, rel=1e-4)
    assert float(rows[0].mean()) == pytest.approx(0.2639747, rel=1e-4)
    classes = await logits.features([waves(256, 300)])
    assert classes.shape == (1, logits.dimensions) == (1, CLASSES)
    assert classes[0, :4] == pytest.approx([0.1491137, 0.6610573, -0.4210841, 0.7760109], abs=1e-4)
    assert pool.fingerprint != logits.fingerprint
    assert (await pool.features([])).shape == (0, POOL)


def test_its_weights_have_the_names_and_number_of_the_checkpoint() -> None:
    state = InceptionV3().state_dict()
    convolutions = [name for name in state if name.endswith("conv.weight")]
    assert len(convolutions) == 94
    assert {"Mixed_6e.branch7x7dbl_5.bn.running_var", "Mixed_7c.branch3x3dbl_3b.conv.weight"} <= (
        state.keys()
    )
    # Published ports with 1000 classes and without the auxiliary head have 23,834,568.
    parameters = sum(p.numel() for p in InceptionV3().parameters())
    assert parameters == 23_834_568 + 8 * (POOL + 1)


@pytest.mark.parametrize(("height", "width"), [(5, 9), (299, 299), (640, 31), (1, 1)])
def test_pictures_are_resized_as_tensorflow_did(height: int, width: int) -> None:
    data = np.random.default_rng(0).integers(0, 256, (height, width)).astype(np.float32)
    found = resize_as_tensorflow(torch.from_numpy(data)[None, None])[0, 0].numpy()
    for y, x in ((0, 0), (298, 298), (17, 250), (150, 3)):
        v, h = y * height / 299, x * width / 299
        top, left = int(v), int(h)
        low, right = min(top + 1, height - 1), min(left + 1, width - 1)
        upper = data[top, left] + (data[top, right] - data[top, left]) * (h - left)
        lower = data[low, left] + (data[low, right] - data[low, left]) * (h - left)
        assert found[y, x] == pytest.approx(upper + (lower - upper) * (v - top), abs=1e-2)


def test_a_checkpoint_may_be_safetensors(file: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "old.pth", tmp_path / "new.safetensors"
    torch.save(weights(), source)
    save_file(inception.load_inception(source).state_dict(), target)
    first, second = (inception.load_inception(f).state_dict() for f in (source, target))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_absent_weights_tell_both_remedies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    with pytest.raises(MetricError) as caught:
        extractor_of("fid", "inception", "pool", {})
    for remedy in (inception.SOURCE, str(tmp_path / "checkpoints"), "weights", '"miniature"'):
        assert remedy in str(caught.value)
    (tmp_path / "checkpoints").mkdir()
    for name in reversed(inception.NAMES):
        (tmp_path / "checkpoints" / name).touch()
        assert inception.find_inception("fid").name == name
    with pytest.raises(MetricError, match="is missing"):
        extractor_of("fid", "inception", "pool", {"weights": str(tmp_path / "none.pth")})


async def test_a_damaged_or_foreign_file_is_told(tmp_path: Path) -> None:
    named = tmp_path / inception.FILE
    named.write_bytes(b"half of it")
    with pytest.raises(MetricError, match="is damaged: its SHA-256 does not begin with 6726825d"):
        inception.load_inception(named)
    other = tmp_path / "other.pth"
    other.write_bytes(b"nothing")
    extractor = extractor_of("fid", "inception", "pool", {"weights": str(other)})
    with pytest.raises(MetricError, match="does not hold weights"):
        await extractor.features([picture(0)])
    part = tmp_path / "part.safetensors"
    save_file({"fc.weight": torch.zeros(CLASSES, POOL)}, part)
    with pytest.raises(MetricError, match=r"lacks 47\d weights"):
        inception.load_inception(part)


class _Ran:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (Path.touch, (Path("ran"),))  # type: ignore[return-value]


def test_a_checkpoint_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"fc.weight": _Ran()}, "evil.pth")
    with pytest.raises(MetricError, match="does not hold weights"):
        inception.load_inception(Path("evil.pth"))
    assert not Path("ran").exists()
