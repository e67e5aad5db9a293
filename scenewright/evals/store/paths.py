"""Names of the files in an evaluation's folder that only the runner reads."""

from __future__ import annotations

JOURNAL = "journal.sqlite"
"""What is done."""
ANSWERS = "answers.sqlite"
"""Every answer that was paid for."""
SENTINELS = "sentinels.sqlite"
"""Answers to sentinel pictures, and the changes of models that they showed."""
