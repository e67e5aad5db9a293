"""What the two formats of OpenAI share: images, errors, headers, log probabilities."""

from __future__ import annotations

import math
from typing import Any

from scenewright.agents.judges import tokens
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.wire import Limits, Spent, Token, whole_seconds

_CODES = {
    "image": "invalid_image_format",
    "unknown_model": "model_not_found",
    "rate_limited": "rate_limit_exceeded",
}
_LIMIT_NAMES = {
    "requests": "requests per min (RPM)",
    "tokens": "tokens per min (TPM)",
    "concurrent": "concurrent requests",
}
LEAST_LOGPROB = -9999.0
"""What stands for a probability of 0."""


def image_tokens(size: tuple[int, int], low_detail: bool) -> int:
    """Tokens of an image for gpt-4o; in low detail 85 whatever its size."""
    return 85 if low_detail else tokens.image_tokens("tiles-85-170", *size)


def usage(spent: Spent) -> dict[str, Any]:
    """The tokens of a reply, as responses and decisions tell them."""
    return {
        "input_tokens": spent.tokens_in,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": spent.tokens_out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": spent.tokens_in + spent.tokens_out,
    }


def error_body(problem: Problem) -> dict[str, Any]:
    """The envelope of an error."""
    message, kind = problem.message, "invalid_request_error"
    if problem.kind == "unknown_model":
        message = f"The model does not exist or you do not have access to it: {message}"
    elif problem.kind == "rate_limited":
        kind = "tokens" if problem.limit == "tokens" else "requests"
        limit = f": Limit {problem.allowed}" if problem.allowed is not None else ""
        message = (
            f"Rate limit reached on {_LIMIT_NAMES[problem.limit]}{limit}. Please try again in "
            f"{whole_seconds(problem.retry_after)}s."
        )
    elif problem.kind in ("server", "overloaded"):
        kind = "server_error"
    return {
        "error": {
            "message": message,
            "type": kind,
            "param": problem.param,
            "code": _CODES.get(problem.kind),
        }
    }


def headers(id: str, problem: Problem | None, limits: Limits) -> dict[str, str]:
    """``x-request-id``, what is left of the limits, and when to come again."""
    found = {"x-request-id": f"req_{id}", "openai-version": "2020-10-01"}
    for name, limit, left in (
        ("requests", limits.requests, limits.requests_left),
        ("tokens", limits.tokens, limits.tokens_left),
    ):
        if limit is not None:
            found[f"x-ratelimit-limit-{name}"] = str(limit)
            found[f"x-ratelimit-remaining-{name}"] = str(left)
    if problem is not None and problem.kind == "rate_limited":
        found["retry-after"] = str(whole_seconds(problem.retry_after))
        found["retry-after-ms"] = str(1000 * whole_seconds(problem.retry_after))
    return found


def logprob(probability: float) -> float:
    """Natural logarithm, bounded below."""
    return math.log(probability) if probability > 0 else LEAST_LOGPROB


def logprobs(said: tuple[Token, ...], alternatives: int) -> list[dict[str, Any]]:
    """Tokens as OpenAI lists them."""

    def entry(text: str, probability: float) -> dict[str, Any]:
        return {
            "token": text,
            "logprob": logprob(probability),
            "bytes": list(text.encode("utf-8", "replace")),
        }

    return [
        {
            **entry(*token.chances[0]),
            "top_logprobs": [entry(*chance) for chance in token.chances[:alternatives]],
        }
        for token in said
    ]
