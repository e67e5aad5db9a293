"""Files of evaluations: checked TOML, parquet files that are whole or absent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import parquet
from pydantic import BaseModel, ValidationError

from scenewright.core.flushing import replacing
from scenewright.core.suggestions import suggestion
from scenewright.core.user_files import read_user_toml
from scenewright.core.validation import first_problem
from scenewright.evals.errors import ConfigError, EvalError

M = TypeVar("M", bound=BaseModel)


def read_toml(path: str | Path, model: type[M], wrong: type[EvalError] = ConfigError) -> M:
    """Return the file ``path`` as a ``model``.

    Raises ``wrong`` with the file for what cannot be read, and with the field for what does not
    fit.
    """
    file = Path(path)
    data = read_user_toml(file, wrong)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise wrong(f"{file}: {first_problem(error)}{suggestion(error, model)}") from error


@contextmanager
def drafted(folder: Path, table: str) -> Iterator[Path]:
    """Yield the draft of the parquet file of ``table``, which is renamed when it is whole.

    Raises ``EvalError`` if it cannot be written.
    """
    try:
        with replacing(folder / f"{table}.parquet") as draft:
            yield draft
    except (OSError, pa.ArrowException) as error:
        raise EvalError(
            f"the results cannot be written to {folder}: {error}. Make room, then run the same "
            "again: what is done is kept in the journal"
        ) from error


_COLUMNS = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    list: pa.list_(pa.string()),
}


def write_table(
    folder: Path, name: str, rows: list[dict[str, Any]], columns: Mapping[str, type]
) -> None:
    """Write ``rows`` as ``NAME.parquet`` in ``folder``, whole or not at all.

    ``columns``: their names, each with ``str``, ``int``, ``float``, ``bool``, or ``list`` of texts.
    Raises ``EvalError`` if it cannot be written.
    """
    schema = pa.schema([(column, _COLUMNS[kind]) for column, kind in columns.items()])
    with drafted(folder, name) as draft:
        parquet.write_table(pa.Table.from_pylist(rows, schema=schema), draft)
