"""A data set of the Hugging Face hub, or a folder in its layout, through the library ``datasets``.

It is streamed: only what is read is downloaded. The columns are those of
:mod:`scenewright.evals.datasets.tables`; a column of pictures is written to files where the option
``pictures`` names a folder. Needs ``pip install scenewright[evals]``.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from scenewright.evals.datasets.base import DatasetError, Item, StreamedSet
from scenewright.evals.datasets.reading import check_parse, written_once
from scenewright.evals.datasets.tables import check_columns, columns_of, item_of

VERSION = 1
NAME = "huggingface"
_SUFFIXES = {"JPEG": ".jpg", "PNG": ".png", "WEBP": ".webp", "GIF": ".gif", "BMP": ".bmp"}


def load(
    path: Path | None,
    *,
    repo: str | None = None,
    config: str | None = None,
    split: str = "train",
    revision: str | None = None,
    columns: Mapping[str, str] | None = None,
    pictures: str | None = None,
    parse: str = "none",
) -> StreamedSet:
    """Return the items of the folder ``path``, or of ``repo`` on the hub.

    ``config``, ``split`` and ``revision`` as the hub calls them; ``columns`` says which column
    holds which field, where they are called otherwise; ``pictures`` is a folder for the set's
    pictures, each written once; ``parse`` (``rules``) makes scenes of prompts that have none.

    Raises ``DatasetError``: here for options that cannot be, on iteration where the hub cannot be
    reached, the set or split is not there, or a row is no item.
    """
    check_parse(parse)
    if (path is None) == (repo is None):
        raise DatasetError(
            f"{NAME} reads a folder or a set on the hub: name one of them, path or the option repo"
        )
    if path is not None and not path.is_dir():
        raise DatasetError(f"{path} is not a folder: name the folder of the set, or use `table`")
    folder = None if pictures is None else Path(pictures).expanduser()
    rows = _Rows(path, repo, config, split, revision, columns_of(columns), columns, folder, parse)
    return StreamedSet(
        rows.entries,
        name=NAME,
        version=VERSION,
        options={
            **{"repo": repo, "config": config, "split": split, "columns": rows.columns},
            **{"parse": parse, "pictures": pictures is not None},
        },
        files=rows.files,
        state=lambda: "" if repo is None else rows.commit,
        light=repo is None and pictures is None,
    )


@dataclass(frozen=True)
class _Rows:
    """Rows of a set on the hub or in a folder, and how items are made of them."""

    folder: Path | None
    repo: str | None
    config: str | None
    split: str
    revision: str | None
    columns: dict[str, str]
    given: Mapping[str, str] | None
    pictures: Path | None
    parse: str

    @property
    def name(self) -> str:
        return str(self.folder if self.folder is not None else self.repo)

    def files(self) -> list[tuple[str, Path]]:
        """Return all files of the folder."""
        root = self.folder
        found = [] if root is None else sorted(f for f in root.rglob("*") if f.is_file())
        named = [(file.relative_to(root or Path()), file) for file in found]
        return [
            (within.as_posix(), file)
            for within, file in named
            if not any(part.startswith(".") for part in within.parts)
        ]

    @cached_property
    def commit(self) -> str:
        """Commit of the revision on the hub, requested once.

        A branch moves; and without the network this fails at once, where the library would try for
        half a minute.
        """
        from huggingface_hub import HfApi

        with self._explained():
            return str(HfApi().dataset_info(str(self.repo), revision=self.revision).sha)

    def entries(self, left_out: Counter[str]) -> Iterator[Item]:
        """Yield the items."""
        column = self.columns["image"]
        for number, row in enumerate(self._stream(column), 1):
            at = f"{self.name}, split {self.split}, row {number}"
            cells = dict(row)
            if not isinstance(cells.get(column), str | None):
                cells[column] = self._picture(cells[column], cells, number, at)
            yield item_of(cells, self.columns, at, number, self.folder or Path(), self.parse)

    def _stream(self, column: str) -> Iterator[Mapping[str, Any]]:
        try:
            import datasets
        except ImportError as error:
            raise DatasetError(
                "reading sets of Hugging Face needs the library datasets: "
                "pip install 'scenewright[evals]'"
            ) from error
        datasets.disable_progress_bars()
        with self._explained():
            found = datasets.load_dataset(
                self.name,
                name=self.config,
                split=self.split,
                revision=None if self.repo is None else self.commit,
                streaming=True,
            )
        features = found.features
        if features is not None:
            check_columns(self.name, list(features), self.columns, self.given)
            if isinstance(features.get(column), datasets.Image):
                # As they are in the files: unpacked and packed again they would be other pictures.
                found = found.cast_column(column, datasets.Image(decode=False))
        rows = iter(found)
        while True:
            with self._explained():
                row = next(rows, None)
            if row is None:
                return
            yield row

    def _picture(self, value: Any, cells: Mapping[str, Any], number: int, at: str) -> str | None:
        """Return the file of a picture.

        None if no folder was named and it is in no file of its own.
        """
        found = value if isinstance(value, dict) else {}
        path, data = found.get("path"), found.get("bytes")
        if data is None:
            return str(path) if path is not None and Path(path).is_file() else None
        if self.pictures is None:
            return None
        from PIL import Image, UnidentifiedImageError

        try:
            with Image.open(io.BytesIO(data)) as image:
                suffix = _SUFFIXES.get(str(image.format), "")
        except (UnidentifiedImageError, OSError) as error:
            raise DatasetError(f"{at}: its picture cannot be read: {error}") from error
        if not suffix:
            raise DatasetError(f"{at}: its picture is of an unknown kind: use PNG or JPEG")
        own = cells.get(self.columns["id"])
        name = quote(str(own), safe="") if own not in (None, "") else f"row-{number:06d}"
        file = self.pictures / f"{name}{suffix}"
        return str(written_once(file, lambda draft: draft.write_bytes(data)).absolute())

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn failures of the library and of the network into ``DatasetError``."""
        try:
            yield
        except DatasetError:
            raise
        except Exception as error:
            said = (str(error).strip() or type(error).__name__).splitlines()[0]
            if self.repo is not None and _no_net(error):
                raise DatasetError(
                    f"the Hugging Face hub cannot be reached for {self.repo} ({said}): connect "
                    "this machine, or copy the set's files into a folder and name it as the path"
                ) from error
            remedy = "check path, config and split"
            if self.repo is not None:
                remedy = (
                    "check repo, config, split and revision; a private set needs `hf auth login` "
                    "on this machine"
                )
            raise DatasetError(f"{self.name} cannot be read: {said}: {remedy}") from error


def _no_net(error: BaseException | None) -> bool:
    """Return whether a lost connection is among the causes of ``error``."""
    while error is not None:
        names = {each.__name__ for each in type(error).__mro__}
        if names & {"ConnectError", "ConnectionError", "TimeoutException", "OfflineModeIsEnabled"}:
            return True
        error = error.__cause__ or error.__context__
    return False
