"""Lets this environment see the packages of another one, behind its own.

``ENVIRONMENT/bin/python scripts/beside.py OTHER``: installs nothing, and what both have is taken
from ``ENVIRONMENT``.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

PLACE = "import sysconfig; print(sysconfig.get_path('purelib'))"


def main(other: str) -> None:
    """Write the file that Python reads at its start."""
    python = Path(other) / "bin" / "python"
    found = subprocess.run([python, "-c", PLACE], capture_output=True, text=True, check=True)
    own = Path(sysconfig.get_path("purelib"))
    line = f"import site; site.addsitedir({found.stdout.strip()!r})\n"
    (own / "beside.pth").write_text(line, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
