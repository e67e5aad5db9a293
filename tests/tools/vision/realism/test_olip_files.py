"""OLIP on disk: it comes back as it was, moves with its encoder, and damage is noticed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image

from scenewright.core.ports.vision import RealismError
from scenewright.tools.vision.realism.olip import Olip, OlipConfig
from scenewright.tools.vision.realism.olip_files import check_encoder, load_olip, save_olip
from scenewright.tools.vision.realism.trained_on import TrainedOn, picture_digest

CONFIG = OlipConfig(embedding=16, heads=4, widths=(12, 8, 6), multi_head=False)


@pytest.fixture
def model() -> Olip:
    torch.manual_seed(0)
    return Olip(CONFIG).eval()


def saved(folder: Path, model: Olip, encoder: str | Path = "owner/blip", **options: object) -> Path:
    return save_olip(folder, model, encoder=encoder, encoder_digest="abc", **options)  # type: ignore[arg-type]


def views() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(6, 16, generator=generator), torch.randn(6, 16, generator=generator)


def test_it_comes_back_as_it_was(model: Olip, tmp_path: Path) -> None:
    found = load_olip(saved(tmp_path / "a", model, half=False, report={"best_epoch": 3}))
    assert found.model.config == CONFIG
    assert torch.equal(found.model(*views()), model(*views()))
    assert not found.model.training
    assert (found.encoder, found.encoder_digest) == ("owner/blip", "abc")
    assert found.report == {"best_epoch": 3}


def test_half_precision_halves_the_file_and_hardly_moves_a_score(
    model: Olip, tmp_path: Path
) -> None:
    whole, half = saved(tmp_path / "a", model, half=False), saved(tmp_path / "b", model)
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (whole, half)]
    weights = sum(p.numel() for p in model.parameters())
    assert sizes[0] - sizes[1] == pytest.approx(2 * weights, abs=64)
    found = load_olip(half).model
    assert next(found.parameters()).dtype == torch.float32
    torch.testing.assert_close(found(*views()), model(*views()), atol=5e-3, rtol=0)


def test_heads_and_encoder_move_together(model: Olip, tmp_path: Path) -> None:
    blip = tmp_path / "one" / "blip"
    blip.mkdir(parents=True)
    saved(tmp_path / "one" / "olip" / "a", model, blip)
    shutil.move(tmp_path / "one", tmp_path / "two")
    assert Path(load_olip(tmp_path / "two/olip/a").encoder) == tmp_path / "two" / "blip"
    assert "one" not in (tmp_path / "two/olip/a/config.json").read_text()


def test_the_fingerprint_hangs_on_weights_architecture_and_encoder_only(
    model: Olip, tmp_path: Path
) -> None:
    first = load_olip(saved(tmp_path / "a", model)).fingerprint
    assert load_olip(saved(tmp_path / "b", model, report={"x": 1})).fingerprint == first
    other = save_olip(tmp_path / "c", model, encoder="owner/blip", encoder_digest="def")
    assert load_olip(other).fingerprint != first
    with torch.no_grad():
        next(model.parameters()).add_(0.1)
    assert load_olip(saved(tmp_path / "d", model)).fingerprint != first


def test_writing_again_replaces(model: Olip, tmp_path: Path) -> None:
    saved(tmp_path, model, report={"run": 1})
    with torch.no_grad():
        next(model.parameters()).add_(1)
    saved(tmp_path, model, report={"run": 2}, half=False)
    assert torch.equal(load_olip(tmp_path).model(*views()), model(*views()))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "config.json", "model.safetensors", "report.json",
    ]  # fmt: skip


def test_a_folder_without_heads_says_how_to_get_some(tmp_path: Path) -> None:
    with pytest.raises(RealismError, match="scenewright object-realism train"):
        load_olip(tmp_path / "nothing")


def test_damaged_weights_are_noticed(model: Olip, tmp_path: Path) -> None:
    file = saved(tmp_path, model) / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(RealismError, match="not the file that config"):
        load_olip(tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_type": "blip"}, "model_type"),
        ({"format": 2}, "format"),
        ({"architecture": {"embedding": 16, "heads": 5}}, "cannot be shared"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_wrong_configuration_is_named(
    model: Olip, tmp_path: Path, change: dict[str, object], said: str
) -> None:
    file = saved(tmp_path, model) / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(RealismError, match=said):
        load_olip(tmp_path)


def test_weights_of_another_architecture_are_noticed(model: Olip, tmp_path: Path) -> None:
    file = saved(tmp_path, model) / "config.json"
    content = json.loads(file.read_text())
    content["architecture"]["widths"] = [12, 8]
    file.write_text(json.dumps(content))
    with pytest.raises(RealismError, match="does not fit the architecture"):
        load_olip(tmp_path)


def test_a_broken_report_breaks_nothing(model: Olip, tmp_path: Path) -> None:
    (saved(tmp_path, model) / "report.json").write_text("{")
    assert load_olip(tmp_path).report == {}


def test_another_encoder_is_refused(model: Olip, tmp_path: Path) -> None:
    found = load_olip(saved(tmp_path, model))
    check_encoder(found, "abc", "mine")
    with pytest.raises(RealismError, match="features of another encoder than mine"):
        check_encoder(found, "abd", "mine")


RECORD = TrainedOn.of([("a" * 32, "train"), ("b" * 32, "train"), ("c" * 32, "validation"),
                       ("d" * 32, "test"), ("a" * 32, "train")])  # fmt: skip


def test_the_pictures_of_the_training_are_saved_with_the_heads(model: Olip, tmp_path: Path) -> None:
    folder = saved(tmp_path / "a", model, trained_on=RECORD)
    found = load_olip(folder)
    assert found.trained_on == RECORD
    assert [RECORD.seen(digit * 32) for digit in "abcde"] == [True, True, True, False, False]
    assert RECORD.part_of("e" * 32) is None
    # What heads can say does not hang on the record.
    without = load_olip(saved(tmp_path / "b", model))
    assert without.trained_on is None
    assert without.fingerprint == found.fingerprint
    # Saved again without one, no record of another training stays behind.
    assert load_olip(saved(folder, model)).trained_on is None
    assert not (folder / "split.json").exists()


def test_a_record_of_other_pictures_is_refused(model: Olip, tmp_path: Path) -> None:
    folder = saved(tmp_path / "a", model, trained_on=RECORD)
    text = (folder / "split.json").read_text()
    (folder / "split.json").write_text(text.replace("a" * 32, "f" * 32))
    with pytest.raises(RealismError, match=r"split\.json is not the file"):
        load_olip(folder)
    (folder / "split.json").unlink()
    with pytest.raises(RealismError, match=r"split\.json cannot be read"):
        load_olip(folder)


def test_a_picture_is_in_one_part() -> None:
    with pytest.raises(ValueError, match="in two parts"):
        TrainedOn.of([("a" * 32, "train"), ("a" * 32, "test")])


def test_a_digest_is_of_pixels_and_size() -> None:
    grey = Image.new("L", (4, 2), 7)
    assert picture_digest(grey) == picture_digest(grey.convert("RGB"))
    assert picture_digest(grey) != picture_digest(grey.resize((2, 4)))
    assert picture_digest(grey) != picture_digest(Image.new("L", (4, 2), 8))
