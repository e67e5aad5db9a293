"""What models can do, as data."""

from __future__ import annotations

import pytest

from scenewright.agents.judges.models import KEY_VARIABLES, caps_of
from scenewright.agents.judges.pictures import ImagePreparation, image_tokens
from scenewright.core.ports.judge import JudgeError
from scenewright.providers.model_facts import model_facts


def test_every_row_of_the_table_is_sound() -> None:
    for pattern in model_facts().rows("chat"):
        provider, _, model = pattern.partition(":")
        caps = caps_of(provider, model.removesuffix("*") or "unheard-of")
        assert caps.efforts != ()
        assert caps.preparation.max_side >= 8
        assert caps.judge_caps.facts_per_call >= 1


@pytest.mark.parametrize("provider", KEY_VARIABLES)
def test_an_unknown_model_gets_its_providers_row(provider: str) -> None:
    caps = caps_of(provider, "meta-llama/whatever")
    assert caps.structured == "tool"
    assert caps.judge_caps.probability == "verbalized"
    assert caps.preparation.format == "png"


@pytest.mark.parametrize(
    ("model", "logprobs", "sampling"),
    [
        ("gpt-4o", True, True),
        ("gpt-4o-mini-2024-07-18", True, True),
        ("gpt-4.1", True, True),
        ("gpt-5", False, False),
        ("gpt-5-mini", False, False),
        ("gpt-6-luna", True, True),
        ("gpt-6-luna-2026-10-01", True, True),
        ("gpt-6.1-terra", True, True),
        ("gpt-6.1-sol", False, False),
        ("gpt-6.2-astra", False, False),
        ("gpt-6.9-unheard-of", False, False),
        ("gpt-5.5", False, False),
        ("o3", False, False),
        ("o4-mini", False, False),
        ("Qwen/Qwen2.5-VL-7B-Instruct", False, True),
    ],
)
def test_who_gives_logprobs_and_takes_a_temperature(
    model: str, logprobs: bool, sampling: bool
) -> None:
    caps = caps_of("openai", model)
    assert caps.logprobs is logprobs
    assert ("temperature" in caps.sampling) is sampling


@pytest.mark.parametrize(
    ("model", "effort"),
    [("gpt-6.1-sol", "none"), ("gpt-6.2-sol", "minimal"), ("gpt-5.4-mini", "max")],
)
def test_a_refused_effort_is_an_error_that_lists_the_accepted_ones(model: str, effort: str) -> None:
    with pytest.raises(JudgeError, match=f'"{effort}" is refused: .* low, medium, high'):
        caps_of("openai", model, {"reasoning_effort": effort})
    told = caps_of("openai", model, {"reasoning_effort": effort, "efforts": [effort]})
    assert told.reasoning_effort == effort


@pytest.mark.parametrize(
    "model", ["gpt-5.5", "gpt-5.6-sol", "gpt-5.5-pro", "gpt-6.1-sol", "o3-pro"]
)
@pytest.mark.parametrize("chats", [False, True])
def test_no_function_tool_is_forced_in_chat_completions_of_a_model_that_thinks(
    model: str, chats: bool
) -> None:
    assert caps_of("openai", model, chats=chats).api == "responses"


@pytest.mark.parametrize("effort", ["low", "medium", "high", ""])
def test_a_gpt_6_that_thinks_is_sent_neither_a_temperature_nor_logprobs(effort: str) -> None:
    assert caps_of("openai", "gpt-6-luna").reasoning_effort == "none"
    thinks = caps_of("openai", "gpt-6-luna", {"reasoning_effort": effort})
    assert (thinks.api, thinks.structured, thinks.logprobs) == ("responses", "tool", False)
    assert thinks.sampling == {}
    # The override decides, and what cannot be is refused.
    with pytest.raises(JudgeError, match="reasoning_effort"):
        caps_of(
            "openai",
            "gpt-6-luna",
            {"reasoning_effort": "high", "logprobs": True, "structured": "schema"},
        )


def test_language_models_think_unless_they_are_told_not_to() -> None:
    chat = caps_of("openai", "gpt-6.1-terra", chats=True)
    assert (chat.reasoning_effort, chat.api, chat.sampling) == ("", "responses", {})
    quick = caps_of("openai", "gpt-6.1-terra", {"reasoning_effort": "none"}, chats=True)
    assert (quick.api, quick.sampling) == ("chat", {"temperature": 0.0})
    # A row without such a table is the same for both.
    assert caps_of("openai", "gpt-4o", chats=True) == caps_of("openai", "gpt-4o")


@pytest.mark.parametrize(
    ("resolution", "tokens"), [("low", 280), ("medium", 560), ("high", 1120), ("", 1120)]
)
def test_a_gemini_3_counts_an_image_by_the_resolution_asked_for(
    resolution: str, tokens: int
) -> None:
    caps = caps_of("gemini", "gemini-3.8-flash", {"media_resolution": resolution})
    assert image_tokens(caps.image_tokens, 1024, 768) == tokens


def test_claude_and_new_geminis_are_sent_what_they_take() -> None:
    assert caps_of("anthropic", "claude-sonnet-5").sampling == {}
    assert not caps_of("anthropic", "claude-sonnet-5").logprobs
    assert caps_of("anthropic", "claude-sonnet-5").structured == "tool"
    # Forced tools are an error there.
    assert caps_of("anthropic", "claude-sonnet-5-5").structured == "schema"
    assert caps_of("anthropic", "claude-opus-5-5").structured == "schema"
    assert caps_of("gemini", "gemini-3-pro").sampling == {"seed": 0}
    assert not caps_of("gemini", "gemini-3-pro").logprobs


def test_the_longest_pattern_wins_key_by_key() -> None:
    mini = caps_of("openai", "gpt-4o-mini")
    assert mini.image_tokens == "tiles-2833-5667"
    assert mini.logprobs
    assert mini.image_format == "jpeg"
    assert caps_of("openai", "gpt-5-pro").api == "responses"


def test_a_user_overrides_single_keys() -> None:
    caps = caps_of("openai", "mine", {"structured": "schema", "logprobs": True, "max_side": 64})
    assert caps.judge_caps.probability == "logprob"
    assert caps.preparation == ImagePreparation(64, "png", 92, 3_750_000)
    assert caps.facts_per_call == caps_of("openai", "mine").facts_per_call


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"facts": 3}, "facts"),
        ({"facts_per_call": 0}, "facts_per_call"),
        ({"logprobs": True}, "schema"),
        ({"sampling": {"top_q": 3}}, "top_q"),
        ({"api": "responses", "sampling": {"top_k": 3}}, "takes no top_k"),
        ({"image_format": "tiff"}, "image_format"),
        ({"image_tokens": "guess"}, "tiles-258"),
        ({"api": "responses"}, "seed"),
    ],
)
def test_what_cannot_be_is_refused_by_name(overrides: dict[str, object], said: str) -> None:
    with pytest.raises(JudgeError, match=said):
        caps_of("openai", "mine", overrides)


def test_an_unknown_provider_is_refused() -> None:
    with pytest.raises(JudgeError, match="openai, gemini, anthropic"):
        caps_of("nobody", "m")


def test_a_seed_is_sent_as_a_whole_number() -> None:
    sent = caps_of("openai", "mine", {"sampling": {"seed": 7, "temperature": 0}}).sent_sampling()
    assert sent == {"seed": 7, "temperature": 0.0}
    assert isinstance(sent["seed"], int)
