"""Number format, place and memory of the weights of judges on this machine."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForImageTextToText
from transformers.utils import is_bitsandbytes_available

from scenewright.agents.judges import loading
from scenewright.agents.judges.families import JudgeMemory, plan_judge, together
from scenewright.agents.judges.loading import load_model
from scenewright.agents.judges.local import LocalJudge
from scenewright.agents.judges.vlm import VisionLanguageModel
from scenewright.agents.panel.panel import Panel
from scenewright.cli import doctor
from scenewright.cli.judges import describe_judges
from scenewright.config.profiles import BUILT_IN, LocalJudgeSpec
from scenewright.config.settings import Settings, find_profile, settings_with
from scenewright.core.ports.judge import JudgeError
from scenewright.runs.model_factory import profiles
from scenewright.runs.model_factory.local_models import Registry
from scenewright.runs.model_factory.profiles import build_judge, build_run_models
from scenewright.runs.session import models_of
from tests.agents.judges.conformance import picture, scores_of
from tests.agents.judges.tiny_families import save_tiny

CPU = torch.device("cpu")
FOUR_BIT = LocalJudgeSpec(quantization="4bit")
OFFLOAD = LocalJudgeSpec(offload=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny("qwen3-vl", tmp_path_factory.mktemp("q"))


@pytest.fixture
def available(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if bitsandbytes were installed."""
    monkeypatch.setattr(loading, "is_bitsandbytes_available", lambda: True)


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "SHARED", Registry())


def test_four_bit_without_its_package_names_the_extra(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "is_bitsandbytes_available", lambda: False)
    for made in (
        lambda: LocalJudge(folder, device="cpu", how=FOUR_BIT),
        lambda: load_model(folder, CPU, FOUR_BIT),
    ):
        with pytest.raises(JudgeError, match=r"bitsandbytes.*scenewright\[quantization\]"):
            made()


@pytest.mark.usefixtures("available")
@pytest.mark.parametrize(
    ("device", "offload", "place"),
    [("cpu", False, "cpu"), ("cuda:1", False, "cuda:1"), ("cuda", False, "cuda:0"),
     ("cuda:1", True, "cpu")],
)  # fmt: skip
def test_four_bit_reaches_the_loading_call(
    folder: Path, monkeypatch: pytest.MonkeyPatch, device: str, offload: bool, place: str
) -> None:
    asked: dict[str, Any] = {}
    plain = AutoModelForImageTextToText.from_pretrained

    def load(path: Path, **options: Any) -> Any:
        asked.update(options)
        return plain(path, local_files_only=True)

    monkeypatch.setattr(AutoModelForImageTextToText, "from_pretrained", load)
    if not is_bitsandbytes_available():
        # The configuration looks for the package's version.
        monkeypatch.setattr("importlib.metadata.version", lambda name: "0.50.2")
    how = LocalJudgeSpec(quantization="4bit", offload=offload)
    load_model(folder, torch.device(device), how)
    config = asked["quantization_config"]
    assert (config.load_in_4bit, config.bnb_4bit_quant_type) == (True, "nf4")
    assert config.bnb_4bit_use_double_quant
    assert config.bnb_4bit_compute_dtype == asked["dtype"]
    assert asked["dtype"] == (torch.float32 if device == "cpu" else torch.bfloat16)
    assert asked["device_map"] == {"": place}


def test_without_settings_nothing_of_it_is_passed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}
    plain = AutoModelForImageTextToText.from_pretrained

    def load(path: Path, **options: Any) -> Any:
        asked.update(options)
        return plain(path, **options)

    monkeypatch.setattr(AutoModelForImageTextToText, "from_pretrained", load)
    load_model(folder, CPU)
    assert set(asked) == {"local_files_only", "dtype"}


@pytest.mark.skipif(not is_bitsandbytes_available(), reason="no bitsandbytes")
def test_four_bit_judge_answers(folder: Path) -> None:
    model = VisionLanguageModel(folder, "cpu", how=FOUR_BIT)
    kinds = {type(module).__name__ for module in model.model.modules()}
    assert "Linear4bit" in kinds
    (score,) = scores_of(model, picture(), ["Is it?"], [("y", "n")])
    assert score.tokens
    held = model.model.get_memory_footprint()
    assert held == pytest.approx(plan_judge(folder, CPU, FOUR_BIT).weights, rel=0.05)


def test_offload_is_refused_where_nothing_can_wait(folder: Path) -> None:
    with pytest.raises(JudgeError, match=r"offload.*main memory"):
        LocalJudge(folder, device="cpu", how=OFFLOAD)


def test_offloaded_weights_are_on_the_device_for_each_turn_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = VisionLanguageModel(folder, "cpu")
    model._waits = True
    steps: list[str] = []
    monkeypatch.setattr(model.model, "to", lambda place: steps.append(f"to {place}"))
    encode = model.features._encode

    @wraps(encode)
    def encoded(**given: Any) -> Any:
        steps.append("tower")
        return encode(**given)

    model.features._encode = encoded
    hook = model.model.register_forward_pre_hook(lambda *_: steps.append("model"))
    model.device = torch.device("cpu", 0)
    scores_of(model, picture(), ["Is it?"] * 3, [("y", "n")] * 3, batch=2)
    turn = ["to cpu:0", "tower", "model", "to cpu"]
    assert steps == [*turn, "to cpu:0", "model", "to cpu"]
    hook.remove()
    steps.clear()

    def fail(*_: Any) -> None:
        raise RuntimeError("out of memory")

    model.model.register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError):
        scores_of(model, picture(), ["Is it?"], [("y", "n")])
    assert steps == ["to cpu:0", "to cpu"]


@pytest.mark.usefixtures("available")
def test_settings_are_part_of_the_fingerprint(folder: Path) -> None:
    def made(**options: Any) -> str:
        return LocalJudge(folder, device="cuda", how=LocalJudgeSpec(**options)).fingerprint

    usual = LocalJudge(folder, device="cuda").fingerprint
    assert made() == usual
    others = [
        made(quantization="4bit"),
        made(offload=True),
        made(quantization="4bit", offload=True),
        made(thinking_tokens=100),
    ]
    assert len({usual, *others}) == 5


def test_bound_on_thinking_concerns_only_those_who_think(tmp_path: Path) -> None:
    folder = save_tiny("qwen2.5-vl", tmp_path)
    brief = LocalJudge(folder, how=LocalJudgeSpec(thinking_tokens=100)).fingerprint
    assert brief == LocalJudge(folder).fingerprint


@pytest.mark.parametrize("name", ["qwen3-vl", "gemma3", "qwen3.5-moe"])
def test_plan_counts_the_weights_of_the_configuration(name: str, tmp_path: Path) -> None:
    folder = save_tiny(name, tmp_path)
    with safe_open(folder / "model.safetensors", "pt") as file:
        stored = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    plan = plan_judge(folder, CPU, LocalJudgeSpec())
    assert plan.weights == plan.full == 4 * sum(tensor.numel() for tensor in stored.values())
    (folder / "model.safetensors").unlink()
    assert plan_judge(folder, torch.device("cuda"), LocalJudgeSpec()).weights == plan.weights // 2
    halved = LocalJudgeSpec(dtype="bfloat16")
    assert plan_judge(folder, CPU, halved).describe().endswith("in bfloat16")
    assert plan_judge(folder, CPU, halved).weights == plan.weights // 2
    assert halved.describe() == "weights in bfloat16"


def test_plan_of_four_bit_leaves_embeddings_and_fused_experts(tmp_path: Path) -> None:
    gpu = torch.device("cuda")
    dense, mixed = (
        plan_judge(save_tiny(name, tmp_path / name), gpu, FOUR_BIT)
        for name in ("qwen3.5", "qwen3.5-moe")
    )
    model: Any = AutoModelForImageTextToText.from_pretrained(tmp_path / "qwen3.5")
    linear = [m for m in model.modules() if type(m) is torch.nn.Linear and m is not model.lm_head]
    count = sum(module.weight.numel() for module in linear)
    rest = sum(parameter.numel() for parameter in model.parameters()) - count
    assert dense.weights == pytest.approx(2 * rest + count * (0.5 + 1 / 64), rel=0.01)
    assert dense.full - dense.weights > mixed.full - mixed.weights
    assert "in 4 bit" in dense.describe()


def test_plan_of_a_broken_configuration_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "none-such"}', encoding="utf-8")
    with pytest.raises(JudgeError, match="no model can be made"):
        plan_judge(tmp_path, CPU, LocalJudgeSpec())


def test_judges_that_wait_take_turns_on_the_device() -> None:
    def memory(weights: int, offload: bool) -> JudgeMemory:
        return JudgeMemory(weights, weights, "bfloat16", "none", offload)

    assert together(14, [memory(5, False), memory(3, False)]) == 22
    assert together(14, [memory(5, True), memory(3, True)]) == 19
    assert together(14, [memory(5, True), memory(3, False)]) == 22
    assert together(14, []) == 14
    assert "waiting in main memory" in memory(5, True).describe()


SETTINGS = """
[local_judges]
quantization = "4bit"

[profiles.small]
extends = "miniature"

[profiles.own]
extends = "miniature"
[profiles.own.local_judges]
thinking_tokens = 64
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    (tmp_path / "scenewright.toml").write_text(SETTINGS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return Settings()


def test_profiles_say_it_before_the_settings(settings: Settings) -> None:
    assert settings_with(find_profile("small", settings), settings) is settings
    assert settings.local_judges == FOUR_BIT
    own = settings_with(find_profile("own", settings), settings)
    assert own is not None
    assert own.local_judges == LocalJudgeSpec(thinking_tokens=64)
    assert "local_judges" not in BUILT_IN["miniature"].model_dump()


@pytest.mark.usefixtures("available", "shared")
def test_judges_of_both_kinds_are_apart(settings: Settings, folder: Path) -> None:
    spec = f"local:{folder}"
    plain = settings.model_copy(update={"local_judges": LocalJudgeSpec()})
    usual, small = (build_judge(spec, found) for found in (plain, settings))
    assert usual.fingerprint != small.fingerprint
    assert build_judge(spec, settings) is small


@pytest.mark.usefixtures("available", "shared")
async def test_profile_reaches_its_judges_the_manifest_and_doctor(
    settings: Settings, folder: Path
) -> None:
    profile = BUILT_IN["miniature"].model_copy(
        update={"judges": (f"local:{folder}",), "report_judges": (), "local_judges": FOUR_BIT}
    )
    plain = settings.model_copy(update={"local_judges": LocalJudgeSpec()})
    run_models = await build_run_models(profile, settings=plain)
    (judge,) = run_models.loop_judges
    assert judge.fingerprint == LocalJudge(folder, how=FOUR_BIT).fingerprint
    found = models_of(run_models, Panel.of(profile, run_models.loop_judges), realism=False)
    assert found["judges"][0]["loading"] == "linear layers in 4 bit"
    assert "loading" not in found["backend"]
    told = doctor.check(profile, plain)["judges_memory"]
    weights = plan_judge(folder, CPU, FOUR_BIT).weights
    assert told["judges"][f"local:{folder}"]["weights_bytes"] == weights
    assert told["together_bytes"] > weights


@pytest.mark.usefixtures("available", "shared", "settings")
def test_list_of_judges_tells_it(folder: Path) -> None:
    (row,) = describe_judges([f"local:{folder}"])
    assert "linear layers in 4 bit" in row["caps"]
