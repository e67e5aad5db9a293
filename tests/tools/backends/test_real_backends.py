"""The whole loop on small random models of the real classes, reached through profiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenewright.config.settings import Settings, find_profile, load_settings
from scenewright.graphs.events import Event, Generated, Planned
from scenewright.runs.api import refine
from scenewright.runs.model_factory.profiles import backend_of
from tests.doubles import ScriptedJudge
from tests.tools.backends.tiny import build_adapter, build_xl_model, xl_unet
from tests.tools.backends.tiny_families import build_flux, build_flux_adapter

SCENE = "red ball on table; dog left of table"


def settings_with(place: Path, text: str) -> Settings:
    """Settings whose file of profiles holds ``text``."""
    file = place / "profiles.toml"
    file.write_text(text, encoding="utf-8")
    return load_settings(profiles_file=file, runs=place / "runs")


async def two_rounds(place: Path, settings: Settings, strategy: str | None) -> list[Event]:
    """A run of two rounds in which nothing is ever found."""
    events: list[Event] = []
    await refine(
        SCENE,
        "mine",
        out=place / "run",
        rounds=2,
        strategy=strategy,
        settings=settings,
        judges=[ScriptedJudge("a", level=lambda fact: 255 if fact.kind == "relation" else -1)],
        report_judges=[],
        on_event=events.append,
    )
    return events


@pytest.mark.parametrize("family", ["sdxl", "flux"])
async def test_a_folder_of_ones_own_runs_the_loop_with_equation_5(
    tmp_path: Path, family: str
) -> None:
    if family == "sdxl":
        model = build_xl_model(tmp_path / "model")
        build_adapter(tmp_path / "adapter", xl_unet())
        adapter = f'repository = "{tmp_path}/adapter"'
    else:
        model = build_flux(tmp_path / "model")
        parts = build_flux_adapter(tmp_path / "parts")
        adapter = (
            f'repository = "{parts}/adapter", weight_name = "ip_adapter.safetensors", '
            f'image_encoder = "{parts}/clip"'
        )
    settings = settings_with(
        tmp_path,
        f"""
        [profiles.mine]
        extends = "{family}"
        steps = 2
        backend = {{ model = "{model}", size = [64, 64], adapter = {{ {adapter} }} }}
        """,
    )
    profile = find_profile("mine", settings)
    features = backend_of(profile.backend, settings).features
    assert (features.references, features.reference_maths) == (2, "exact")
    events = await two_rounds(tmp_path, settings, "feedback")
    first, reference, second = [event for event in events if isinstance(event, Generated)]
    assert reference.purpose == "reference"
    assert [(r.image, r.weight) for r in second.request.references] == [
        (first.image, profile.weight_best),
        (reference.image, profile.weight_missing),
    ]
    assert len({first.image, reference.image, second.image}) == 3


@pytest.mark.parametrize("strategy", ["router", "inpaint", "feedback"])
async def test_strategies_draw_on_a_real_pipeline(tmp_path: Path, strategy: str) -> None:
    model = build_xl_model(tmp_path / "model")
    adapter = build_adapter(tmp_path / "adapter", xl_unet())
    settings = settings_with(
        tmp_path,
        f"""
        [profiles.mine]
        extends = "sdxl"
        steps = 2
        backend = {{ model = "{model}", size = [64, 64], adapter = {{ repository = "{adapter}" }} }}
        """,
    )
    events = await two_rounds(tmp_path, settings, strategy)
    plans = [event for event in events if isinstance(event, Planned)]
    assert [plan.round for plan in plans] == [1]
    assert plans[0].strategy == strategy or plans[0].chosen_by == strategy
    requests = [event.request for event in events if isinstance(event, Generated)]
    if plans[0].strategy == "tournament":
        assert len(requests) > 2
        assert any(request.start or request.references for request in requests)
        return
    assert len(requests) == 2 + (plans[0].reference is not None)
    assert requests[-1].references or requests[-1].start
