"""Installs the project with extras into the environment that runs it: by uv, else by pip.

``ENVIRONMENT/bin/python scripts/install.py EXTRAS``, with commas between them. uv takes what is on
PATH or, for some seconds, what pip fetches; it reads none of pip's settings, so that indexes,
folders of wheels, constraints and certificates are handed to it from there. ``INSTALLER=pip`` in
the environment leaves uv out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def uv() -> list[str] | None:
    """Return the command of uv, fetched by pip where it is not here; None where it cannot be."""
    found = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if found is None:
        subprocess.run([*PIP, "install", "--quiet", "uv"], capture_output=True, check=False)
        found = shutil.which("uv", path=str(Path(sys.executable).parent))
    return [found] if found else None


def pip_settings() -> dict[str, str]:
    """Return what pip is told by files and variables, the latter first, without its sections."""
    shown = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=False)
    found: dict[str, str] = {}
    for line in shown.stdout.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.partition(".")
        if section in (":env:", "install", "global") and (section != "global" or key not in found):
            # pip prints a value as Python's literal of a string.
            found[key] = value.strip("'\"").replace("\\n", " ")
    return found


def for_uv(settings: dict[str, str]) -> dict[str, str]:
    """Return the variables that tell uv what ``settings`` tell pip."""
    named = {
        "index-url": "UV_DEFAULT_INDEX",
        "extra-index-url": "UV_INDEX",
        "find-links": "UV_FIND_LINKS",
        "constraint": "UV_CONSTRAINT",
        "cert": "SSL_CERT_FILE",
        "default-timeout": "UV_HTTP_TIMEOUT",
    }
    made = {"UV_INDEX_STRATEGY": "unsafe-best-match"}  # as pip chooses among indexes
    for key, variable in named.items():
        # pip passes over a folder that is not there, at which uv stops.
        places = [place for place in settings.get(key, "").split() if there(place)]
        if places:
            # Folders of wheels are told with commas, the rest with spaces.
            made[variable] = ("," if variable == "UV_FIND_LINKS" else " ").join(places)
    return {name: value for name, value in made.items() if name not in os.environ}


def there(place: str) -> bool:
    """Return whether ``place`` is no address of a local file, or one of a file that exists."""
    return not place.startswith("file://") or Path(place.removeprefix("file://")).exists()


def install(*what: str, python: str = sys.executable) -> int:
    """Install ``what`` into the environment of ``python``; return the installer's exit code."""
    constrained = ["-c", str(ROOT / "constraints.txt"), *what]
    fast = None if os.environ.get("INSTALLER") == "pip" else uv()
    if fast is not None:
        environment = os.environ | for_uv(pip_settings())
        command = [*fast, "pip", "install", "--python", python, *constrained]
        if subprocess.run(command, env=environment, check=False).returncode == 0:
            return 0
        print("uv failed: its message is above; pip tries again", file=sys.stderr)
    # As uv does: a module is compiled when it is first imported, and most never are.
    command = [*PIP, "--python", python, "install", "--no-compile", *constrained]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(install("-e", f"{ROOT}[{sys.argv[1]}]"))
