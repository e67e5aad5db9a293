"""Builds the wheel and the source archive, and tries the wheel far from the repository.

``.venv/bin/python scripts/wheel.py [FOLDER]`` (default ``dist``). The wheel must hold every file of
the package that git tracks and nothing else. It is installed into a new environment in a temporary
folder, first without extras, then with ``local``; libraries have the versions of
``constraints.txt``, and nothing is shared with ``.venv`` but the installer's cache. There the
command explains itself, says what it lacks, draws a picture with the miniature, and checks the
machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path

from install import for_uv, install, pip_settings, uv

ROOT = Path(__file__).resolve().parent.parent
SCENE = "red ball on table"


class WheelError(Exception):
    """A release that does not hold what it must, or does not work; says which."""


def build(target: Path) -> tuple[Path, Path]:
    """Return the wheel and the source archive, newly built into ``target``."""
    for old in (*target.glob("*.whl"), *target.glob("*.tar.gz")):
        old.unlink()
    found = uv()
    if found is None:
        raise WheelError("uv builds the release, and it cannot be fetched: install uv")
    subprocess.run(
        [*found, "build", "--quiet", "--out-dir", target, ROOT],
        env=os.environ | for_uv(pip_settings()),
        check=True,
    )
    (wheel,), (source,) = target.glob("*.whl"), target.glob("*.tar.gz")
    return wheel, source


def tracked(folder: str = "") -> list[str]:
    """Return the paths below ``folder`` that git tracks and that are there."""
    done = subprocess.run(
        ["git", "ls-files", "-z", folder or "."],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [path for path in done.stdout.split("\0") if path and (ROOT / path).is_file()]


def compare(wheel: Iterable[str], source: Iterable[str], package: Iterable[str]) -> None:
    """Raise ``WheelError`` unless both archives hold ``package`` and the wheel nothing else."""
    held = {name for name in wheel if ".dist-info/" not in name}
    sources = {name.partition("/")[2] for name in source}
    wanted = set(package)
    problems = {
        "is missing in the wheel": wanted - held,
        "is in the wheel and not tracked": held - wanted,
        "is missing in the source archive": (wanted | {"README.md", "LICENSE"}) - sources,
    }
    wrong = [f"{name} {what}" for what, names in problems.items() for name in sorted(names)]
    if wrong:
        raise WheelError("\n".join(wrong))


class Environment:
    """A new environment, and a folder of its own to work in: no path of the repository is seen."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.work = place / "work"
        self.work.mkdir()
        venv.create(place / "env", with_pip=False, symlinks=True)
        self.python = str(place / "env" / "bin" / "python")

    def run(self, *command: str, expected: Iterable[int] = (0,)) -> str:
        """Return the output of a command; an unexpected exit code is a ``WheelError``."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "SCENEWRIGHT_", "VIRTUAL_ENV", "XDG_"))
        }
        done = subprocess.run(
            [self.place / "env" / "bin" / command[0], *command[1:]],
            cwd=self.work,
            env=kept | {"HOME": str(self.work), "HF_HUB_OFFLINE": "1", "COLUMNS": "100"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in expected:
            told = f"{done.stdout}{done.stderr}"[-2000:]
            raise WheelError(f"`{' '.join(command)}` ended with {done.returncode}:\n{told}")
        return done.stdout or done.stderr

    def add(self, *what: str) -> None:
        """Install requirements."""
        if install("--quiet", *what, python=self.python):
            raise WheelError(f"{' '.join(what)} cannot be installed: the message is above")


def try_base(environment: Environment, version: str) -> None:
    """Try what works without extras."""
    told = environment.run("scenewright", "--version").strip()
    if told != f"scenewright {version}":
        raise WheelError(f"the command says {told!r}, the wheel is version {version}")
    if "refine" not in environment.run("scenewright", "--help"):
        raise WheelError("`scenewright --help` does not name `refine`")
    where = environment.run("python", "-c", "import scenewright; print(scenewright.__file__)")
    if not Path(where.strip()).is_relative_to(environment.place):
        raise WheelError(f"scenewright is imported from {where.strip()}")
    lacking = environment.run("scenewright", "refine", SCENE, expected=(2,))
    if "scenewright[local]" not in lacking:
        raise WheelError(f"`refine` does not name the extra that it lacks: {lacking}")
    lacking = environment.run("scenewright", "study", "list", expected=(3,))
    if "scenewright[evals]" not in lacking:
        raise WheelError(f"`study list` does not name the extra that it lacks: {lacking}")
    environment.run("scenewright", "doctor", "--profile", "miniature", expected=(3,))


def try_local(environment: Environment) -> None:
    """Draw a picture with the miniature; exit code 1 is a picture with a missing fact."""
    command = ("scenewright", "refine", SCENE, "--rounds", "1", "--quiet", "--json")
    drawn = json.loads(environment.run(*command, expected=(0, 1)))
    if not (environment.work / drawn["image"]).read_bytes().startswith(b"\x89PNG"):
        raise WheelError(f"{drawn['image']} is not a picture")
    if drawn["report"]["fact_recall"] is None:
        raise WheelError("the judges of the report answered nothing")
    environment.run("scenewright", "doctor", "--profile", "miniature")


def main(target: Path) -> None:
    """Build, compare, install and try; print what took how long."""
    target.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {what}", flush=True)

    wheel, source = build(target)
    say(f"built {wheel} and {source.name}")
    with zipfile.ZipFile(wheel) as packed, tarfile.open(source) as archive:
        compare(packed.namelist(), archive.getnames(), tracked("scenewright"))
    say("both hold every file of the package")
    with tempfile.TemporaryDirectory(prefix="scenewright-wheel-") as folder:
        environment = Environment(Path(folder).resolve())
        environment.add(str(wheel.resolve()))
        say("installed without extras")
        try_base(environment, wheel.name.split("-")[1])
        say("--help, --version and doctor work; refine names the extra that it lacks")
        environment.add(f"{wheel.resolve()}[local]")
        say("installed with the extra local")
        try_local(environment)
        say("refine draws and judges with the miniature, and doctor agrees")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist"))
    except WheelError as error:
        sys.exit(str(error))
