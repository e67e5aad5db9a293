"""``refine --plan``: the very prompt, its tokens and the questions, before any model is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scenewright.agents.panel.calibration import LabelledAnswer, calibrate
from scenewright.cli.main import app
from scenewright.config.options import LoopOptions
from scenewright.config.profiles import BUILT_IN, CascadeSpec
from scenewright.core.ports.backend import Reference
from scenewright.core.scene import SceneGraph
from scenewright.graphs.drawing import request_of
from scenewright.graphs.strategies.base import GenerationOverrides


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def planned(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["refine", *arguments, "--plan"])
    assert done.exit_code == 0, done.output
    assert not Path("runs").exists(), "nothing was drawn"
    return done.output


def test_a_caption_shows_its_prompt_tokens_questions_and_options_without_weights() -> None:
    shown = planned("an astronaut riding a horse", "--profile", "sdxl")
    assert "an astronaut riding a horse" in shown
    assert "about 7 (estimated), read in chunks without a limit" in shown
    assert "Is there an astronaut in the image?" in shown
    assert "no visible relationship]" in shown
    assert BUILT_IN["sdxl"].report_judges[0] in shown


def test_what_a_language_model_would_be_sent_is_shown_without_its_key() -> None:
    data = json.loads(planned("red ball on table", "--profile", "openai", "--json"))
    assert (data["composer"], data["chat"], data["prompt"]) == (
        "llm",
        BUILT_IN["openai"].chat,
        None,
    )
    assert [message["role"] for message in data["messages"]] == ["system", "human"]
    assert '"ball.1"' in data["messages"][1]["text"]
    shown = planned("red ball on table", "--profile", "openai")
    assert f"at most {data['budget']} of what it writes are read" in shown
    assert "to system You write prompts" in shown


def test_costs_are_estimated_before_there_is_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def costs(shown: str) -> str:
        (line,) = (line for line in shown.splitlines() if line.startswith("costs"))
        return line

    without = costs(planned("red ball on table", "--profile", "openai"))
    assert "by list prices" in without
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    assert costs(planned("red ball on table", "--profile", "openai")) == without


def test_tokens_stand_against_the_budget_and_unknown_words_are_told() -> None:
    data = json.loads(planned("purple unicorn left of table", "--json"))
    assert data["composer"] == "grid"
    assert 0 < data["tokens"] <= data["budget"]
    assert "unicorn" in data["outside"]


def test_the_questions_shown_are_those_that_the_run_asks() -> None:
    data = json.loads(planned("red ball left of dog", "--realism", "--json"))
    options = LoopOptions.model_validate(data["options"])
    assert options.predicates == "miniature"
    asked = options.form.facts(SceneGraph.model_validate(data["scene"]))
    assert data["facts"] == [fact.model_dump(mode="json") for fact in asked]
    assert {fact["kind"] for fact in data["facts"]} >= {"relation", "realism"}


def test_a_self_report_names_the_judges_of_the_loop() -> None:
    data = json.loads(planned("red ball", "--self-report", "--json"))
    assert data["report_judges"] == data["judges"]
    assert f"{', '.join(data['judges'])} (self-report)" in planned("red ball", "--self-report")


def test_options_of_a_run_are_checked_with_the_accounts_of_the_settings() -> None:
    Path("scenewright.toml").write_text(
        """
[accounts.east]
provider = "openai"
base_url = "https://east.example/v1"
aliases = { one = "gpt-4o", other = "gemini-2.5-flash" }

[accounts.west]
provider = "openai"
base_url = "https://west.example/v1"
aliases = { one = "gemini-2.5-flash", other = "gpt-4o" }

[profiles.apart]
extends = "miniature"
judges = ["east:one"]
report_judges = ["west:one"]
""",
        encoding="utf-8",
    )
    data = json.loads(planned("red ball", "--profile", "apart", "--noise", "same", "--json"))
    assert data["report_judges"] == ["west:one"]


def test_options_of_a_run_stand_where_users_look() -> None:
    data = json.loads(
        planned("red ball", "--noise", "same", "--reference-prompt", "missing", "--json")
    )
    assert data["options"]["noise"] == "same"
    assert data["options"]["reference_prompt"] == "missing"
    wrong = CliRunner().invoke(app, ["refine", "red ball", "--noise", "old", "--plan"])
    assert wrong.exit_code == 2
    assert "noise" in wrong.output


def test_a_refinement_begins_from_the_same_noise_where_it_is_asked_for() -> None:
    refined = GenerationOverrides(references=(Reference(image="a" * 64, weight=0.5),))
    for noise, same in (("new", False), ("same", True)):
        options = LoopOptions.model_validate({"noise": noise, "seed": 7})
        first = request_of(options, "a dog", 0, "candidate", None).seed
        assert (request_of(options, "a dog", 1, "candidate", refined).seed == first) is same
        # Drawn again without changes, the same noise would give the same picture.
        assert request_of(options, "a dog", 1, "candidate", None).seed != first


def test_a_cascade_shows_who_is_asked_first_and_what_that_is_expected_to_settle() -> None:
    Path("scenewright.toml").write_text(
        """
        [profiles.hand]
        extends = "miniature"
        cascade = {first = ["local:miniature/judge-a"], unsure = [0.2, 0.7]}

        [profiles.bound]
        extends = "miniature"
        calibration = "c.json"
        cascade = {first = ["local:miniature/judge-a"], risk = 0.05}
        """
    )
    assert "judge-a first, the others from 0.2 to 0.7" in planned("a dog", "--profile", "hand")
    rows = [
        LabelledAnswer(f"i{at}", "f", "object", "local:miniature/judge-a", at % 2 == 0, at % 2 == 0)
        for at in range(800)
    ]
    spec = CascadeSpec(first=("local:miniature/judge-a",), risk=0.05)
    judges = {"local:miniature/judge-a": "fp"}
    calibrate(rows, judges=judges, about="test", cascades=[spec]).save("c.json")
    shown = " ".join(planned("a dog", "--profile", "bound").split())
    assert "unsure (objects 0.5 to 0.5, attributes 0 to 1, relations 0 to 1)" in shown
    assert "settles 100%, so that an image takes about 1.00 answers a fact of 2" in shown


def test_the_negative_prompt_is_shown_where_the_weights_are_not_here() -> None:
    said = "a kitchen, no people"
    data = json.loads(planned(said, "--profile", "sdxl", "--json"))
    assert data["negative_prompt"] == data["scene"]["intent"]["exclusions"][0]["name"]
    assert "people" not in data["prompt"]
    assert f"avoids    {data['negative_prompt']}" in planned(said, "--profile", "sdxl")
    # FLUX.2 takes none: what must not be there stays in the prompt.
    without = json.loads(planned(said, "--profile", "flux2-klein", "--json"))
    assert (without["negative_prompt"], without["prompt"]) == ("", said)
