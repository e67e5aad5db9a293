"""An MCP server on stdio with scripted models that is killed while it draws its second picture.

``python -m tests.service.mcp_killed FOLDER``: every drawing is a line in ``FOLDER/drawn``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.doubles import CallBook, ScriptedBackend
from tests.service.mcping import held
from tests.service.serving import scripted


def models(book: CallBook, *, killed: bool) -> Any:
    """Scripted models; every picture but the first ends the process if ``killed``."""

    def quality(request: Any) -> int:
        if killed and sum(line.startswith("begin generate") for line in book.lines) > 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return 200

    inner = scripted()
    return lambda request: {**inner(request), "backend": ScriptedBackend(quality, book=book)}


async def main(folder: Path) -> None:
    book = CallBook(folder / "drawn")
    async with held(folder / "data", models(book, killed=True)) as at:
        await at.server().run_stdio_async()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
