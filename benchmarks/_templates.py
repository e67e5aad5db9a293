"""Templates of pages and tables, and results as templates read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from benchmarks._provenance import changes_since, replaced


@dataclass(frozen=True, slots=True)
class Result:
    """One file of results, as templates ask for it."""

    name: str
    commit: str
    date: str
    n: int
    figures: Mapping[str, Any]
    machine: Mapping[str, Any]
    """What :func:`benchmarks._harness.machine` told of the machine that was measured."""
    weights: Mapping[str, str]
    """Folder of shipped weights → digest, of those that were read; empty in older files."""
    code: Mapping[str, Mapping[str, str]] | None
    """As of :func:`benchmarks._provenance.code_of`; None in older files."""
    options: Mapping[str, Any]
    """Options that were not the defaults; not told in older files."""

    @classmethod
    def read(cls, file: Path) -> Result:
        """Read a file that :func:`benchmarks._harness.write` wrote."""
        found = json.loads(file.read_text(encoding="utf-8"))
        names = ("name", "commit", "date", "n", "figures", "machine")
        made = found.get("weights", {}), found.get("code"), found.get("options", {})
        return cls(*(found[name] for name in names), *made)

    def __call__(self, key: str, digits: int = 3, scale: float = 1.0) -> str:
        """Return a figure in words: ``0.166 [0.158, 0.173]`` if it has an interval."""
        return shown(self.figures[key], digits, scale)

    def mean(self, key: str, digits: int = 3, scale: float = 1.0) -> str:
        """Return a figure without its interval."""
        return mean(self.figures[key], digits, scale)

    @property
    def source(self) -> str:
        """Say where the figures come from."""
        told = f"`python -m benchmarks.{self.name}`: n = {self.n:,}, {self.date}, `{self.commit}`"
        for option, value in self.options.items():
            told += f", `--{option.replace('_', '-')} {value}`"
        if self.stale:
            told += f", {self.stale}"
        if self.code is None:
            return f"{told} †"
        if rooms := changes_since(self.name, self.code).rooms:
            told += f"; {len(rooms)} of the {len(self.code['rest'])} rooms below it changed since"
        return told

    @property
    def stale(self) -> str:
        """Why the figures are not of today's code and weights; empty if nothing is known of it."""
        reasons = []
        if others := replaced(self.weights):
            reasons.append(f"with weights that were replaced since ({', '.join(others)})")
        if self.code is not None and (files := changes_since(self.name, self.code).own):
            more = f" and {len(files) - 2} more" if len(files) > 2 else ""
            reasons.append(f"with code that changed since ({', '.join(files[:2])}{more})")
        return " and ".join(reasons)


def shown(value: Any, digits: int = 3, scale: float = 1.0) -> str:
    """Return a figure in words, with its interval, thousands apart and a true minus.

    Text stays as it is; a figure that is not there is a dash.
    """
    if isinstance(value, Mapping):
        middle, low, high = (shown(value[part], digits, scale) for part in ("mean", "low", "high"))
        return f"{middle} [{low}, {high}]"
    if value is None or isinstance(value, str):
        return value or "–"
    if isinstance(value, int) and scale == 1.0:
        return f"{value:,}"
    text = f"{value * scale:,.{digits}f}"
    if not float(text.replace(",", "")):
        text = text.lstrip("-")
    return text.replace("-", "−")


def mean(value: Any, digits: int = 3, scale: float = 1.0) -> str:
    """Return a figure in words, without its interval."""
    return shown(value["mean"] if isinstance(value, Mapping) else value, digits, scale)


@cache
def _environment() -> Environment:
    pages = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    pages.globals |= {"shown": shown, "mean": mean}
    return pages


def template(name: str) -> Template:
    """Return a file of ``templates``."""
    return _environment().get_template(name)
