"""Metrics by name: options, plug-ins, and what is said of weights that are not there."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from scenewright.evals.metrics.base import (
    ItemMetric,
    MetricError,
    MetricScore,
    SetMetric,
    is_plugin,
)
from scenewright.evals.metrics.extractors import encoder_of, extractor_of
from scenewright.evals.metrics.registry import METRICS, metric_of
from scenewright.evals.studies.peers.panel_metric import metric_judges_of
from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS
from tests.evals.metrics.vectors import Given

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"
PUBLISHED = {
    "clipscore": "openai/clip-vit-base-patch16",
    "fd_dinov2": "facebook/dinov2-large",
    "cmmd": "openai/clip-vit-large-patch14-336",
}


class Loud:
    """A metric of one's own."""

    name = "loud"
    version = "1"
    needs = frozenset({"image"})
    higher_is_better = True

    def __init__(self, by: float) -> None:
        self.by = by

    async def score(self, sample: Any) -> MetricScore:
        return MetricScore(value=self.by)


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("own_metrics")
    module.loud = lambda settings, by=1.0: Loud(by)  # type: ignore[attr-defined]
    module.number = lambda settings: 3  # type: ignore[attr-defined]
    module.given = lambda output, device="auto": Given(output * 8)  # type: ignore[attr-defined]
    module.not_callable = 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "own_metrics", module)
    return module


VOTING = inspect.signature(metric_judges_of).parameters
"""Options of metrics that a panel answers, which these hand on."""


@pytest.mark.parametrize("name", sorted(METRICS))
def test_every_option_in_the_list_is_taken(name: str) -> None:
    entry = METRICS[name]
    module = importlib.import_module(f"scenewright.evals.{entry.module}")
    taken = inspect.signature(getattr(module, entry.function)).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in taken.values())
    left = set(entry.options) - set(taken)
    assert not left or (
        open_ended and left <= {"device", "batch", "dtype", "preparation", "weights", *VOTING}
    )
    assert entry.about
    assert all(entry.options.values())


@pytest.mark.parametrize("name", sorted(METRICS))
def test_every_metric_can_be_had_for_the_miniature(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    known = METRICS[name].options
    options = {"extractor": "miniature"} if "extractor" in known else {}
    if "scorer" in known:
        if not (MINIATURE_WEIGHTS / "olip" / "olip-b" / "config.json").is_file():
            pytest.skip("the weights of the miniature's OLIP are not here")
        options = {"scorer": "olip:miniature/olip-b", "detector": "miniature"}
    if "detectors" in known:
        options = {"detectors": "miniature", "colors": "clip:miniature"}
    if name == "blind":
        # The miniature has no language model: the mock server's stands in.
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        options = {"chat": "openai:gpt-5.4", "folder": str(tmp_path)}
    if name == "preference":
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        options = {"judges": "openai:gpt-6-luna"}
    found = metric_of(name, options)
    assert found.name == name
    assert isinstance(found, SetMetric if hasattr(found, "compute") else ItemMetric)
    assert metric_of(name, options).version == found.version
    # What else a set metric needs is the photos: the runner asks by this.
    assert found.needs <= {"image", "prompt", "scene", "judges", "original"}


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_absent_weights_tell_both_remedies(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("scenewright.evals.metrics.encoders.survey", _nothing_here)
    with pytest.raises(MetricError) as caught:
        metric_of(name)
    text = str(caught.value)
    assert text.startswith(f"{name}: {PUBLISHED[name]} is not on this machine")
    assert f"`scenewright models pull local:{PUBLISHED[name]}`" in text
    assert 'extractor = "miniature"' in text


def _nothing_here(need: Any) -> Any:
    from scenewright.providers.hub.cache import Present

    return Present(need, None, 0, None, (), None)


def test_a_fetched_repository_without_safetensors_will_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from scenewright.evals.metrics.encoders import find_model
    from scenewright.providers.hub.cache import Present

    monkeypatch.setattr(
        "scenewright.evals.metrics.encoders.survey",
        lambda need: Present(need, tmp_path, 1, 1, ("model.safetensors",), None),
    )
    with pytest.raises(MetricError, match=r"missing: model\.safetensors"):
        find_model("cmmd", "openai/some-clip")
    (tmp_path / "config.json").touch()
    (tmp_path / "pytorch_model.bin").touch()
    assert find_model("cmmd", "openai/some-clip") == tmp_path


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("nothing", {}, f"use one of {', '.join(sorted(METRICS))}, or your own"),
        ("sgscore", {"beta": 1}, "sgscore has no option 'beta': it has alpha"),
        ("fid", {"extractor": 3}, "extractor is 3: use text"),
        ("fid", {"extractor": "no such place"}, "name inception, miniature, a folder"),
        ("fid", {"extractor": "miniature", "batch": 0}, "batch is 0"),
        ("fid", {"extractor": "miniature", "device": 1}, "device is 1"),
        ("fid", {"extractor": "miniature", "weights": "w"}, "'miniature' has no option 'weights'"),
        ("is", {"extractor": "facebook/dinov2-large"}, "is needs classes"),
        ("clipscore", {"extractor": "inception"}, "encodes no texts"),
        ("cmmd", {"extractor": "a/b", "dtype": "int4"}, "dtype is 'int4': use one of float32"),
        ("cmmd", {"extractor": "a/b", "preparation": "crop"}, "use one of squash, processor"),
    ],
)
def test_what_is_asked_wrongly_is_told(name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(MetricError, match=re.escape(said)):
        metric_of(name, options)


def test_a_folder_that_is_no_model_is_told(tmp_path: Path) -> None:
    with pytest.raises(MetricError, match=r"lacks config\.json"):
        metric_of("cmmd", {"extractor": str(tmp_path)})


@pytest.mark.usefixtures("own")
async def test_a_metric_of_ones_own_is_a_module_and_a_function() -> None:
    found: Any = metric_of("own_metrics:loud", {"by": 4.0})
    assert (await found.score(None)).value == 4.0


@pytest.mark.usefixtures("own")
def test_an_extractor_of_ones_own_too() -> None:
    found: Any = metric_of("fid", {"extractor": "own_metrics:given"})
    assert found.extractor.fingerprint == "pool" * 8
    other = extractor_of("cmmd", "own_metrics:given", "projection", {"device": "cpu"})
    assert other.fingerprint == "projection" * 8


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("no_such_module:make", {}, "cannot be imported"),
        ("own_metrics:absent", {}, "own_metrics has no function absent"),
        ("own_metrics:not_callable", {}, "own_metrics has no function not_callable"),
        ("own_metrics:loud", {"volume": 1}, "cannot be called with these options"),
        ("own_metrics:number", {}, "gives a int, which is not a metric"),
    ],
)
def test_plug_ins_that_do_not_fit_are_told(name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(MetricError, match=re.escape(said)):
        metric_of(name, options)


@pytest.mark.usefixtures("own")
def test_extractors_of_ones_own_that_do_not_fit_are_told() -> None:
    with pytest.raises(MetricError, match="which is not an extractor"):
        extractor_of("fid", "own_metrics:number", "pool", {})
    with pytest.raises(MetricError, match="does not encode pictures and texts"):
        encoder_of("clipscore", "builtins:object", {})


def test_paths_and_repositories_are_no_plug_ins() -> None:
    assert is_plugin("my_pkg.my_metric:make")
    assert not any(map(is_plugin, ("sgscore", "C:\\models", "a/b:c", "a:b:c", "a.b:", "1a:b")))


@pytest.mark.parametrize("name", sorted(METRICS))
def test_the_page_tells_of_every_metric_and_option(name: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert f"`{name}`" in page
    assert [option for option in METRICS[name].options if f"`{option}`" not in page] == []
