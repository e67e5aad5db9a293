"""Calls of models: cache, rate limit, timeout, retry, usage.

:func:`ask` puts facts to a judge through the :class:`AnswerStore`. Judges behind a provider's
API send their requests through a :class:`~scenewright.providers.caller.Caller`.
"""

from scenewright.providers.answer_store import (
    Answers,
    AnswerStore,
    StoreError,
    open_answers,
)
from scenewright.providers.judge_calls import JudgeReply, ask, checked, fact_digest

__all__ = [
    "AnswerStore",
    "Answers",
    "JudgeReply",
    "StoreError",
    "ask",
    "checked",
    "fact_digest",
    "open_answers",
]
