"""Bodies of errors: messages, remedies, overflowing contexts, content filters."""

from __future__ import annotations

import pytest

from scenewright.providers.replies import (
    content_filter_of,
    context_overflow,
    error_message,
    overflow_text,
    remedy,
    silently_cut,
)

OLLAMA = "model 'qwen3:8b' not found, try pulling it first"
AZURE = {
    "error": {
        "message": "The response was filtered due to the prompt triggering …",
        "type": None,
        "param": "prompt",
        "code": "content_filter",
        "status": 400,
        "innererror": {
            "code": "ResponsibleAIPolicyViolation",
            "content_filter_result": {
                "hate": {"filtered": False, "severity": "safe"},
                "jailbreak": {"filtered": False, "detected": False},
                "violence": {"filtered": True, "severity": "medium"},
            },
        },
    }
}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        # https://github.com/open-webui/computer/issues/293
        (
            {
                "error": {
                    "message": "Provider returned error",
                    "code": 429,
                    "metadata": {"raw": "z-ai/glm is rate-limited", "provider_name": "BaseTen"},
                }
            },
            "z-ai/glm is rate-limited (provider BaseTen)",
        ),
        # https://github.com/diegosouzapw/OmniRoute/issues/3044
        (
            {
                "error": {
                    "message": "Provider returned error",
                    "metadata": {"raw": '{"error": {"message": "at most 1 image per prompt"}}'},
                }
            },
            "at most 1 image per prompt",
        ),
        ({"error": "No models loaded."}, "No models loaded. (load a model in the server, or name"),
        ({"detail": [{"loc": ["body", "n"], "msg": "Field required"}]}, "body.n: Field required"),
        ({"error": "OutOfMemoryError", "detail": "", "errors": "CUDA out of memory"}, "CUDA out"),
        ({"error": {"message": "Internal Server Error"}}, "Internal Server Error"),
        ([{"error": {"code": 429, "message": "Quota exceeded"}}], "Quota exceeded"),
        (
            {
                "error": {
                    "message": "the request exceeds the available context size.",
                    "n_prompt_tokens": 5230,
                    "n_ctx": 4096,
                }
            },
            "the request exceeds the available context size: 5230 prompt tokens, context of 4096",
        ),
        (
            {
                "error": {
                    "message": "Your input was flagged",
                    "metadata": {"reasons": ["violence"], "provider_name": "OpenAI"},
                }
            },
            "Your input was flagged (provider OpenAI) (violence)",
        ),
        (AZURE, "The response was filtered due to the prompt triggering … (violence (medium))"),
        ({"detail": "Not Found"}, "Not Found (the server has no such address: base_url should end"),
        ({"detail": "run 7 not found"}, "run 7 not found"),
        ("plain words", "plain words"),
        (None, ""),
    ],
)
def test_a_message_is_in_the_words_of_the_server_that_failed(body: object, told: str) -> None:
    message = error_message(body)
    assert message.startswith(told), message
    assert "Provider returned error" not in message
    assert bool(message) == bool(told)


def test_a_message_is_one_short_line_however_deep_or_long_the_body_is() -> None:
    body: object = "x\ny " * 500
    for _ in range(50):
        body = {"error": body}
    assert error_message(body) == ""
    assert len(error_message({"error": "x\ny " * 500})) <= 301
    assert "\n" not in error_message({"error": "x\ny"})


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("Unexpected endpoint or method. (POST /chat/completions)", "/v1"),
        (OLLAMA, "`ollama pull qwen3:8b`"),
        ('model "hf.co/a/B-GGUF:Q4" not found, try pulling it first', "pull hf.co/a/B-GGUF:Q4`"),
        ("No models loaded. Please load a model in the developer page", "load a model"),
    ],
)
def test_known_messages_have_a_remedy(message: str, advice: str) -> None:
    assert advice in remedy(message)
    assert advice in error_message({"error": {"message": message}})
    assert remedy("something else") == ""


@pytest.mark.parametrize(
    ("status", "message", "limit", "wanted"),
    [
        pytest.param(
            400,
            "This model's maximum context length is 16384 tokens. However, you requested 122946 "
            "tokens (112946 in the messages, 10000 in the completion).",
            16384,
            122946,
            id="vllm-project/vllm/issues/20409",
        ),
        pytest.param(
            400,
            "Requested token count exceeds the model's maximum context length of 202752 tokens. "
            "You requested a total of 202941 tokens: 170941 tokens from the input messages",
            202752,
            202941,
            id="sglang: anomalyco/opencode/pull/25230",
        ),
        pytest.param(
            400,
            "the request exceeds the available context size. try increasing the context size",
            None,
            None,
            id="ggml-org/llama.cpp/pull/15780",
        ),
        pytest.param(
            400,
            "request (14429 tokens) exceeds the available context size (8192 tokens), try",
            8192,
            14429,
            id="ggml-org/llama.cpp/pull/16486",
        ),
        pytest.param(
            400,
            "the request exceeds the available context size: 5230 prompt tokens, context of 4096",
            4096,
            5230,
            id="llama.cpp, with the figures of its fields",
        ),
        pytest.param(
            500,
            "Requested tokens (2285) exceed context window of 2048",
            2048,
            2285,
            id="abetlen/llama-cpp-python: fedora-copr/logdetective-website/pull/193",
        ),
        pytest.param(
            400,
            "the input length exceeds the context length",
            None,
            None,
            id="ollama: nano-step/nano-brain/issues/208",
        ),
        pytest.param(
            400,
            "prompt is too long: 210000 tokens > 200000 maximum",
            200000,
            210000,
            id="anthropic",
        ),
        pytest.param(
            400,
            "The input token count (1200000) exceeds the maximum number of tokens allowed "
            "(1048576).",
            1048576,
            1200000,
            id="gemini",
        ),
        pytest.param(
            400,
            "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).",
            59862,
            160062,
            id="sgl-project/sglang/issues/4048",
        ),
        pytest.param(413, "Request Entity Too Large", None, None, id="nginx"),
    ],
)
def test_an_overflowing_context_is_told_with_its_figures(
    status: int, message: str, limit: int | None, wanted: int | None
) -> None:
    assert context_overflow(status, message) == (limit, wanted)
    told = overflow_text(limit, wanted)
    assert str(limit or "") in told
    assert str(wanted or "") in told
    assert "context" in told


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Unsupported value: 'temperature' does not support 0 with this model."),
        (429, "Rate limit reached for tokens per min: Limit 30000, Requested 33000."),
        (413, "Request too large for model on tokens per minute (TPM): Rate limit 6000"),
        (500, ""),
    ],
)
def test_other_errors_are_no_overflow(status: int, message: str) -> None:
    assert context_overflow(status, message) is None


@pytest.mark.parametrize(
    ("tokens", "characters", "cut"),
    [
        # https://github.com/ollama/ollama/issues/17427: half of the context and two more
        (16386, 159062, True),
        (2050, 32000, True),
        (4096, 40000, True),
        # The same count of a prompt that fits
        (2050, 8200, False),
        # Far fewer tokens than characters, at no server's limit
        (1000, 9000, False),
        (None, 9000, False),
    ],
)
def test_a_silently_cut_prompt_is_noticed(tokens: int | None, characters: int, cut: bool) -> None:
    told = silently_cut(tokens, characters)
    assert bool(told) == cut
    if cut:
        assert str(tokens) in told
        assert "num_ctx" in told


def test_the_category_of_a_content_filter_is_told() -> None:
    assert content_filter_of(AZURE) == "violence (medium)"
    # https://github.com/BerriAI/litellm/pull/16231
    inside = {"error": {"code": "400", "provider_specific_fields": AZURE["error"]}}
    assert content_filter_of(inside) == "violence (medium)"
    reply = {"choices": [{"finish_reason": "content_filter", "message": {"content": None}}]}
    assert content_filter_of(reply) == "unnamed"
    moderated = {"error": {"code": 403, "metadata": {"reasons": ["sexual", "violence"]}}}
    assert content_filter_of(moderated) == "sexual, violence"
    assert content_filter_of({"choices": [{"finish_reason": "stop"}]}) == ""
