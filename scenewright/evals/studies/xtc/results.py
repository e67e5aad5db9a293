"""What an evaluation by XTC-Bench found: tables, figures, and a way to read them.

::

    from scenewright.evals.studies.xtc.results import XtcResults

    frame = XtcResults("evals/mine").frame()
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from scenewright.evals.errors import EvalError
from scenewright.evals.store.parquet_files import drafted
from scenewright.evals.store.results import IMAGES, MANIFEST
from scenewright.evals.studies.prompts_read import PromptsRead
from scenewright.evals.studies.xtc.base import FactScore
from scenewright.evals.studies.xtc.scores import NodeCount, XtcScores, xtc_scores
from scenewright.evals.studies.xtc.units import READ
from scenewright.runs.folder import write_json

if TYPE_CHECKING:
    import pandas as pd

BENCHMARK = "xtc"
"""In the manifest: tells the folder from that of ``scenewright eval run``."""
SUMMARY = "summary.json"
"""The figures of every model."""
XtcTable = Literal["facts", "pictures", "items"]

_TEXT, _REAL, _WHOLE = pa.string(), pa.float64(), pa.int64()
XTC_SCHEMAS: dict[XtcTable, pa.Schema] = {
    # One row a question, model and seed. ``u`` and ``v`` are null for what could not be scored,
    # with ``reason``; ``note`` says why the drawn picture gives no answer, or where it was found.
    "facts": pa.schema(
        [
            ("item", _TEXT),
            ("model", _TEXT),
            ("seed", _WHOLE),
            ("question", _TEXT),
            ("kind", _TEXT),
            ("category", _TEXT),
            ("text", _TEXT),
            ("expected", _TEXT),
            ("matched", pa.bool_()),
            ("u", _REAL),
            ("v", _REAL),
            ("drawn", _TEXT),
            ("said", _TEXT),
            ("note", _TEXT),
            ("reason", _TEXT),
        ]
    ),
    # One row an item, model and seed: the drawn picture (empty and ``reason`` if it failed), and
    # how much of the reference graph has a partner in the graph ``seen`` in it (JSON); ``dropped``
    # is what the extractor left out, each with its reason, ``unread`` what a model failed to read
    # (JSON lists); counts that hang on it are null. Of ``prompt_tokens`` of its prompt
    # ``tokens_dropped`` were not read by what drew it, and with them the words of
    # ``facts_dropped`` facts. Null: not known.
    "pictures": pa.schema(
        [
            ("item", _TEXT),
            ("model", _TEXT),
            ("seed", _WHOLE),
            ("image", _TEXT),
            ("state", _TEXT),
            ("reason", _TEXT),
            ("nodes", _WHOLE),
            ("matched", _WHOLE),
            ("edges", _WHOLE),
            ("edges_matched", _WHOLE),
            ("seen", _TEXT),
            ("dropped", _TEXT),
            ("unread", _TEXT),
            *((name, _WHOLE) for name in READ),
        ]
    ),
    # One row an item: its graph (JSON), its reference picture, the prompt and why its first writer
    # did not write it, facts that the prompt lost and facts that no question asks for (both JSON
    # lists); ``views``: objects that a language model saw cut out of the picture for its words.
    "items": pa.schema(
        [
            ("item", _TEXT),
            ("reference", _TEXT),
            ("scene", _TEXT),
            ("prompt", _TEXT),
            ("author", _TEXT),
            ("problem", _TEXT),
            ("lost", _TEXT),
            ("views", _WHOLE),
            ("questions", _WHOLE),
            ("unasked", _TEXT),
        ]
    ),
}


class XtcResults:
    """The folder of an evaluation by XTC-Bench, to read from."""

    def __init__(self, folder: str | Path) -> None:
        """Opens ``folder``; raises ``EvalError`` if it holds none, or one that is not finished."""
        self.folder = Path(folder)
        self.manifest: dict[str, Any] = read_xtc_manifest(self.folder)
        if not all(self.path(table).exists() for table in XTC_SCHEMAS):
            raise EvalError(
                f"the evaluation in {self.folder} is not finished: run the same again, it goes on "
                "where it was"
            )

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the unified models, in the configuration's order."""
        return tuple(self.manifest["models"]["order"])

    def path(self, table: XtcTable) -> Path:
        """The parquet file of ``table``."""
        return self.folder / f"{table}.parquet"

    def table(self, table: XtcTable = "facts") -> pa.Table:
        """A whole table. Raises ``EvalError`` for an unknown one or a file that cannot be read."""
        if table not in XTC_SCHEMAS:
            raise EvalError(f"there is no table {table!r}: use one of {', '.join(XTC_SCHEMAS)}")
        try:
            return pq.read_table(self.path(table))
        except (OSError, pa.ArrowException) as error:
            raise EvalError(
                f"{self.path(table)} cannot be read: {error}. Run the evaluation again: it writes "
                "its tables anew from what it kept"
            ) from error

    def rows(self, table: XtcTable = "facts") -> list[dict[str, Any]]:
        """The table as one dict a row."""
        found: list[dict[str, Any]] = self.table(table).to_pylist()
        return found

    def frame(self, table: XtcTable = "facts") -> pd.DataFrame:
        """The table as a pandas DataFrame; raises ``EvalError`` where pandas is not installed."""
        try:
            import pandas  # noqa: F401
        except ImportError as error:
            raise EvalError(
                "a DataFrame needs pandas: pip install 'scenewright[evals]', or use table()"
            ) from error
        return self.table(table).to_pandas()

    def fact_scores(self) -> dict[str, list[FactScore]]:
        """Model → the scores of its facts, of all seeds."""
        found: dict[str, list[FactScore]] = {model: [] for model in self.models}
        for row in self.rows("facts"):
            found[row["model"]].append(fact_score(row))
        return found

    def scores(self) -> dict[str, XtcScores]:
        """Model → its figures, worked out from the tables."""
        facts = self.fact_scores()
        nodes: dict[str, list[NodeCount]] = {model: [] for model in self.models}
        drawn = self.rows("pictures")
        for row in drawn:
            if row["nodes"] is not None:
                count = NodeCount(scene=row["item"], nodes=row["nodes"], matched=row["matched"])
                nodes[row["model"]].append(count)
        unasked = sum(len(json.loads(row["unasked"])) for row in self.rows("items"))
        config = self.manifest["config"]
        return {
            model: xtc_scores(
                *(facts[model], nodes[model], unasked, config["compared"], config["threshold"]),
                prompts=PromptsRead.of(row for row in drawn if row["model"] == model),
            )
            for model in self.models
        }

    @property
    def images(self) -> Path:
        """Folder of the image store of all pictures."""
        return self.folder / IMAGES


def fact_score(row: dict[str, Any]) -> FactScore:
    """A row of ``facts`` as a score."""
    return FactScore(
        scene=row["item"],
        **{name: row[name] for name in FactScore.model_fields if name != "scene"},
    )


def read_xtc_manifest(folder: Path) -> dict[str, Any]:
    """The manifest in ``folder``; raises ``EvalError`` if it is not one of XTC-Bench."""
    file = folder / MANIFEST
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise EvalError(
            f"{folder} holds no evaluation ({MANIFEST}: {error.strerror or error}): name the "
            "folder that `scenewright eval xtc run` wrote"
        ) from error
    except ValueError as error:
        raise EvalError(f"{file} is damaged: {error}") from error
    if not isinstance(found, dict) or found.get("benchmark") != BENCHMARK:
        raise EvalError(f"{file} is no manifest of XTC-Bench: choose another folder")
    return found


def write_tables(folder: Path, tables: dict[XtcTable, Sequence[dict[str, Any]]]) -> None:
    """Write the tables, each whole or not at all. Raises ``EvalError`` if that fails."""
    for name, schema in XTC_SCHEMAS.items():
        with drafted(folder, name) as draft:
            made = pa.Table.from_pylist(list(tables[name]), schema=schema)
            pq.write_table(made, draft, compression="zstd")


def write_summary(results: XtcResults) -> dict[str, XtcScores]:
    """Write the figures of every model as JSON, and give them."""
    scores = results.scores()
    content = {
        "name": results.manifest["name"],
        "models": {name: found.model_dump(mode="json") for name, found in scores.items()},
        "totals": results.manifest.get("totals", {}),
        "left_out": results.manifest.get("left_out", {}),
        "model_changes": results.manifest.get("model_changes", []),
    }
    try:
        write_json(results.folder / SUMMARY, content)
    except OSError as error:
        raise EvalError(
            f"{results.folder / SUMMARY} cannot be written: {error.strerror or error}"
        ) from error
    return scores
