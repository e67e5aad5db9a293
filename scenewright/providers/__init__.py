"""The one way to call a model: cache, rate limit, timeout, retry, account.

:func:`ask` puts facts to a judge through the :class:`AnswerStore`. Judges behind a provider's
API send their requests through a :class:`~scenewright.providers.caller.Caller`.
"""

from scenewright.providers.answers import Answers, open_answers
from scenewright.providers.judge_calls import JudgeReply, ask, checked, fact_digest
from scenewright.providers.store import AnswerStore, StoreBusy, StoreError

__all__ = [
    "AnswerStore",
    "Answers",
    "JudgeReply",
    "StoreBusy",
    "StoreError",
    "ask",
    "checked",
    "fact_digest",
    "open_answers",
]
