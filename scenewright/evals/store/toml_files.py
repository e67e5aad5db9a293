"""TOML files of people, checked: what is wrong is told with the file and the field."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from scenewright.core.validation import first_problem
from scenewright.evals.errors import EvalError

M = TypeVar("M", bound=BaseModel)


def read_toml(path: str | Path, model: type[M], wrong: type[EvalError] = EvalError) -> M:
    """The file ``path`` as a ``model``.

    Raises ``wrong`` with the file for what cannot be read, and with the field for what does not
    fit.
    """
    file = Path(path)
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise wrong(f"{file} cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise wrong(f"{file} is not valid TOML: {error}") from error
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise wrong(f"{file}: {first_problem(error)}") from error
