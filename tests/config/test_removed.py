"""Options of older versions: an error in a profile, ignored in a stored run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scenewright.config.options import LoopOptions
from scenewright.config.profiles import Profile, SettingsError
from scenewright.config.removed import REMOVED_OPTIONS, REMOVED_STRATEGIES, without_removed_options
from scenewright.config.settings import find_profile
from scenewright.graphs.events import EVENT, Drafted
from scenewright.graphs.strategies.registry import strategies
from scenewright.runs.api import refine
from scenewright.runs.plan import plan_again
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge


@pytest.mark.parametrize("name", REMOVED_OPTIONS)
def test_a_profile_with_a_removed_option_says_what_replaces_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("scenewright.toml").write_text(f'[profiles.old]\nextends = "miniature"\n{name} = 1\n')
    with pytest.raises(SettingsError) as error:
        find_profile("old")
    assert f"{name} was removed: {REMOVED_OPTIONS[name]}" in str(error.value)


def test_removed_names_are_no_options_and_no_strategies_any_more() -> None:
    known = {*Profile.model_fields, *LoopOptions.model_fields}
    assert not known & set(REMOVED_OPTIONS)
    assert not set(strategies()) & set(REMOVED_STRATEGIES)
    assert without_removed_options({"drafts": 4, "rounds": 2}) == {"rounds": 2}


async def test_a_run_folder_of_an_older_version_opens_and_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    models: dict[str, Any] = {
        "backend": ScriptedBackend(lambda request: 255),
        "composer": ScriptedComposer(),
        "judges": [ScriptedJudge("a")],
        "report_judges": [],
    }
    await refine("red ball", out=folder, rounds=2, **models)
    manifest = json.loads((folder / "manifest.json").read_text())
    old = {"drafts": 4, "guided_share": 0.5, "realism_repair": "inpaint"}
    manifest["config"]["profile"] |= old
    manifest["config"]["options"] |= old
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert plan_again(folder, **models).options.rounds == 2


def test_an_event_of_drafts_is_still_read() -> None:
    event = EVENT.validate_python(
        {
            "type": "drafted", "key": "r0:drafted", "at": 1.0, "round": 0, "images": ["a" * 64],
            "cards": [], "kept": 0, "judge_calls": 2,
        }
    )  # fmt: skip
    assert isinstance(event, Drafted)
