"""The example of docs/xtc.md does what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[4] / "docs" / "xtc.md"


def test_the_example_prints_what_the_page_says() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (code,) = (block for block in blocks if "match_graphs(" in block)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, str(PAGE), "exec"), {})
    promised = re.findall(r"(?:^|  )# (.*)$", code, re.MULTILINE)
    assert said.getvalue().splitlines() == promised
    assert len(promised) == 4
