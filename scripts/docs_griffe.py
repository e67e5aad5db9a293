"""Extension of griffe for the API reference: docstrings in reStructuredText read as Markdown."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc|py:\w+):`~?([^`]+)`")
LITERAL = re.compile(r"::(?=\n\n)")


class PlainMarkdown(Extension):
    """Turn roles (``:func:`refine```) into code, and literal blocks into code blocks."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            text = ROLE.sub(lambda role: f"`{role[1].rpartition('.')[2]}`", obj.docstring.value)
            obj.docstring.value = LITERAL.sub(":", text)
