"""Lists of words that lie in the package as TOML: separated by white space, phrases by commas."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any


def read_data(package: str, name: str) -> dict[str, Any]:
    """Return the TOML file ``name`` that lies in ``package``."""
    return tomllib.loads((files(package) / name).read_text(encoding="utf-8"))


@dataclass(frozen=True)
class WordLists:
    """The sections of one file."""

    data: dict[str, Any]
    """As TOML says it."""

    @classmethod
    def of(cls, package: str, name: str) -> WordLists:
        """Return the lists of the file ``name`` in ``package``."""
        return cls(read_data(package, name))

    def ordered(self, section: str, key: str) -> tuple[str, ...]:
        """Return the words of a list in its order."""
        return tuple(self.data[section][key].split())

    def words(self, section: str, key: str) -> frozenset[str]:
        """Return the words of a list."""
        return frozenset(self.ordered(section, key))

    def phrases(self, section: str, key: str) -> tuple[tuple[str, ...], ...]:
        """Return the phrases of a list, each as its words."""
        return split_phrases(self.data[section][key])

    def pairs(self, section: str, key: str, separator: str | None = None) -> dict[str, str]:
        """Return what a list of ``word=other`` says; phrases have the ``separator`` ``,``."""
        parts = (part.strip() for part in self.data[section][key].split(separator))
        return dict(part.split("=") for part in parts if part)


def split_phrases(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the phrases of ``text``, each as its words."""
    return tuple(tuple(part.split()) for part in text.split(",") if part.strip())
