"""The data of the per-item browser, in files that a page from a disk can load piece by piece.

A page that is opened as a file may not fetch files, but it may add scripts: each piece is a script
that hands its JSON to the page. The index is loaded whole (some hundred bytes an item and arm), the
details of an item when it is opened.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scenewright.evals.reporting.entries import Labels
from scenewright.evals.reporting.facets import FACETS, in_order
from scenewright.evals.reporting.score_matrix import Column, ScoreMatrix

INDEX = 1000
"""Items of one file of the index."""
CHUNK = 20
"""Items of one file of details."""
CALL = "sceneReport"
"""The function that takes the pieces."""


class Writer:
    """Writes entries and details below ``folder``, holding one file's worth of each."""

    def __init__(self, folder: Path, score_matrix: ScoreMatrix) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._board = score_matrix
        self._columns = score_matrix.columns()
        self._classes = {facet: in_order(facet, score_matrix.facets[facet]) for facet in FACETS}
        self._index: list[Any] = []
        self._chunk: list[Any] = []
        self._written = [0, 0]

    def add(self, number: int, entry: dict[str, Any], details: dict[str, Any]) -> None:
        """The next item; ``number`` is its place in the set."""
        score_matrix = self._board
        scores = [
            [_number(value) for value in score_matrix.values[column][number]]
            for column in self._columns
        ]
        classes = []
        for facet in FACETS:
            name = score_matrix.facets[facet][number]
            classes.append(self._classes[facet].index(name) if name else -1)
        self._index.append(
            [
                entry["id"], entry["title"], entry["text"], classes, scores, entry["flags"],
                entry["wrong"], entry["thumbs"], entry["photo"],
            ]
        )  # fmt: skip
        self._chunk.append(details)
        if len(self._index) == INDEX:
            self._flush_index()
        if len(self._chunk) == CHUNK:
            self._flush_chunk()

    def finish(
        self,
        panels: Sequence[str],
        labels: Labels,
        images: str,
        better: dict[Column, bool],
        meanings: dict[int, str],
    ) -> None:
        """Write what is left, and the file that tells what is where."""
        if self._index:
            self._flush_index()
        if self._chunk:
            self._flush_chunk()
        totals: dict[str, int] = {}
        for (_, _, label), n in labels.counts.items():
            totals[label] = totals.get(label, 0) + n
        meta = {
            "items": len(self._board.items),
            "indexes": self._written[0],
            "chunk": CHUNK,
            "images": images,
            "arms": [arm.name for arm in self._board.arms],
            "panels": list(panels),
            "columns": [
                {"metric": c.metric, "panel": c.panel, "up": better[c]} for c in self._columns
            ],
            "facets": {facet: self._classes[facet] for facet in FACETS},
            "labels": [[label, totals.get(label, 0)] for label in labels.numbers],
            "flags": meanings,
        }
        self._write("meta", 0, meta)

    def _flush_index(self) -> None:
        self._write("index", self._written[0], self._index)
        self._written[0] += 1
        self._index = []

    def _flush_chunk(self) -> None:
        self._write("chunk", self._written[1], self._chunk)
        self._written[1] += 1
        self._chunk = []

    def _write(self, kind: str, number: int, data: Any) -> None:
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        # A lone surrogate, which JSON of elsewhere may hold, has no place in UTF-8.
        body = f'{CALL}("{kind}",{number},{text});\n'.encode("utf-8", "replace")
        (self.folder / f"{kind}-{number}.js").write_bytes(body)


def _number(value: float) -> float | None:
    return None if value != value else round(float(value), 4)
