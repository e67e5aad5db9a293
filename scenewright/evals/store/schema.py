"""The tables of an evaluation's results: their columns, as they lie in parquet files.

An *arm* is one way of drawing: backend, condition and seed, joined as ``backend/condition/seed``.
A *panel* is a named list of judges; ``NAME:PROTOCOL`` is the panel NAME asking by the other
protocol than the evaluation's. ``protocol`` says by which it asked; it is empty for the questions
that a set brings, and for scores without judges. A row that a kill or a failure kept from being
made is not in a table; what failed is there with its reason.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import pyarrow as pa

Table = Literal["items", "rounds", "answers", "verdicts", "scores"]
TABLES: tuple[Table, ...] = get_args(Table)

_TEXT, _REAL, _WHOLE = pa.string(), pa.float64(), pa.int64()


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in columns.items()])


_ARM: dict[str, Any] = {
    "item": _TEXT,
    "arm": _TEXT,
    "backend": _TEXT,
    "condition": _TEXT,
    "seed": _WHOLE,
}

SCHEMAS: dict[Table, pa.Schema] = {
    # One row an item. ``scene`` and ``facts`` are JSON; ``original`` is the photo's file.
    "items": _schema(
        item=_TEXT,
        dataset=_TEXT,
        prompt=_TEXT,
        objects=_WHOLE,
        relations=_WHOLE,
        complexity=_REAL,
        level=_TEXT,
        group=_TEXT,
        category=_TEXT,
        original=_TEXT,
        scene=_TEXT,
        facts=_TEXT,
    ),
    # One row a picture of an item and arm, or a failure (``state`` "failed", with ``reason``).
    # ``kept`` marks the picture that the arm gives; ``image`` is its content hash. Of the tokens of
    # its prompt ``tokens_dropped`` were not read by what drew it, and with them the words of
    # ``facts_dropped`` facts; those of the round's reference count along. Null: not known.
    # ``prompt_author``: a composer's id, "model", "model again" (its second text) or "dataset";
    # ``prompt_problem`` tells why another composer wrote in place of the language model.
    "rounds": _schema(
        **_ARM,
        round=_WHOLE,
        kept=pa.bool_(),
        state=_TEXT,
        reason=_TEXT,
        image=_TEXT,
        prompt=_TEXT,
        prompt_tokens=_WHOLE,
        tokens_dropped=_WHOLE,
        facts_dropped=_WHOLE,
        prompt_author=_TEXT,
        prompt_model=_TEXT,
        prompt_problem=_TEXT,
        strategy=_TEXT,
        reference_image=_TEXT,
        images_drawn=_WHOLE,
        seconds=_REAL,
        tokens_in=_WHOLE,
        tokens_out=_WHOLE,
        usd=_REAL,
    ),
    # One row a judge and fact of a judged picture. ``state``: yes, no or unscored.
    # ``distribution``: JSON of option → probability, where the judge tells it.
    "answers": _schema(
        **_ARM,
        panel=_TEXT,
        protocol=_TEXT,
        round=_WHOLE,
        image=_TEXT,
        judge=_TEXT,
        fact=_TEXT,
        kind=_TEXT,
        state=_TEXT,
        choice=_TEXT,
        probability=_REAL,
        distribution=_TEXT,
        method=_TEXT,
        rationale=_TEXT,
        reason=_TEXT,
        note=_TEXT,
        tokens_in=_WHOLE,
        tokens_out=_WHOLE,
        tokens_cached=_WHOLE,
        seconds=_REAL,
        usd=_REAL,
        model=_TEXT,
        prompt_id=_TEXT,
    ),
    # One row a fact of a judged picture. ``state``: yes, no, void or unscored. ``rival``: the
    # likeliest other option of a choice, which holds if its own option is likelier. ``dropped``:
    # whether its words stand in the part of the prompt that was not read; null: not known.
    "verdicts": _schema(
        **_ARM,
        panel=_TEXT,
        protocol=_TEXT,
        round=_WHOLE,
        image=_TEXT,
        fact=_TEXT,
        kind=_TEXT,
        statement=_TEXT,
        question=_TEXT,
        state=_TEXT,
        probability=_REAL,
        rival=_TEXT,
        rival_probability=_REAL,
        disagreement=_REAL,
        reason=_TEXT,
        dropped=pa.bool_(),
    ),
    # One row a score. ``part`` is empty for the metric's own value, else names what it is made of.
    # Scores of sets have an empty ``item`` and a ``scope``: empty for all items, else
    # ``level=hard``, ``group=…``, ``category=…``, ``complexity=5``; ``n`` counts their pictures.
    # ``panel`` is empty where no judge is needed. ``value`` is null for what could not be scored.
    # ``tokens_dropped`` and ``facts_dropped`` are those of the picture's row in ``rounds``.
    # ``unscored`` counts what failed of the sample and is left out of a value (questions, objects,
    # answers of judges; of sets pictures), with ``reason``; files of earlier versions lack it.
    # Tokens and dollars are of models that a metric asked by itself, in the row of its own value.
    "scores": _schema(
        **_ARM,
        panel=_TEXT,
        protocol=_TEXT,
        round=_WHOLE,
        image=_TEXT,
        metric=_TEXT,
        version=_TEXT,
        part=_TEXT,
        scope=_TEXT,
        value=_REAL,
        reason=_TEXT,
        unscored=_WHOLE,
        n=_WHOLE,
        tokens_dropped=_WHOLE,
        facts_dropped=_WHOLE,
        tokens_in=_WHOLE,
        tokens_out=_WHOLE,
        usd=_REAL,
    ),
}


def arm_name(backend: str, condition: str, seed: int) -> str:
    """``backend/condition/seed``."""
    return f"{backend}/{condition}/{seed}"
