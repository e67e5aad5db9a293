"""Modules that are imported when something of theirs is first used.

Most schedulers of diffusers import ``scipy.stats`` for one option that few models set, and all
schedulers are imported with any pipeline: half a second before a first picture.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from types import ModuleType
from typing import Any

_LOCK = threading.RLock()


class LateModule(ModuleType):
    """Stands for a module until something of it is asked for; then that one takes its place."""

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the module, which is imported for it."""
        with _LOCK:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
            try:
                found = importlib.import_module(self.__name__)
            except BaseException:
                # The next one to ask tries again.
                sys.modules.setdefault(self.__name__, self)
                raise
        return getattr(found, name)


def import_late(name: str) -> None:
    """Have ``import name`` import nothing until the module is used.

    Nothing changes where it is imported already, or is not installed.
    """
    with _LOCK:
        if name in sys.modules or (spec := importlib.util.find_spec(name)) is None:
            return
        module = LateModule(name)
        # Who looks through all modules for a file must not cause the import.
        module.__spec__, module.__file__ = spec, spec.origin
        sys.modules[name] = module
