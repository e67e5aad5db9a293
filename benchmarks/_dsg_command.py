"""The command line of the benchmarks that read the DSG release."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def given_release(
    about: str | None,
    arguments: Sequence[str] | None,
    *,
    beside: Path,
    resamples: tuple[int, int],
    load: Callable[[Path], T],
    refused: type[Exception],
) -> tuple[T, int, bool] | None:
    """What ``load`` reads of the release, how many resamples, and whether the run is a quick one.

    None, and said so, where there is no release.

    ``beside`` is where it lies unless ``--data`` names another folder, ``resamples`` those of a
    full and of a quick run, ``refused`` what ``load`` raises: it ends the command with 1.
    """
    full, few = resamples
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help=f"{few} resamples, not {full}")
    parser.add_argument(
        "--data", type=Path, help="folder of the DSG release, if not beside the repository"
    )
    given = parser.parse_args(arguments)
    if given.data is None and not beside.is_dir():
        print("skipped: the DSG release (github.com/j-min/DSG) is not beside the repository;")
        print("name its folder with --data")
        return None
    try:
        return load(given.data or beside), few if given.quick else full, given.quick
    except refused as error:
        parser.exit(1, f"{error}\n")
