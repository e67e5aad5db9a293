"""What every store of artifacts does, over a folder, fsspec's memory and S3 over HTTP."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from scenewright.config.profiles import SettingsError
from scenewright.service.core.artifacts.objects import (
    FolderObjects,
    FsspecObjects,
    Objects,
    StoreAway,
    objects_at,
)
from tests.service.core.artifacts.places import KINDS, place


@pytest.fixture(params=KINDS)
def objects(request: Any, tmp_path: Path) -> Iterator[Objects]:
    """An empty store."""
    with place(request.param, tmp_path) as url:
        yield objects_at(url, ())


def test_what_is_put_is_got_and_listed(objects: Objects) -> None:
    objects.put("runs/a/images/x.png", b"\0\xff")
    objects.put("runs/a/manifest.json", b"{}")
    objects.put("runs/ab/manifest.json", b"other")
    objects.put("empty", b"")
    assert objects.get("runs/a/images/x.png") == b"\0\xff"
    assert objects.get("empty") == b""
    assert list(objects.list("runs/a")) == ["runs/a/images/x.png", "runs/a/manifest.json"]
    assert list(objects.list("runs")) == [
        "runs/a/images/x.png", "runs/a/manifest.json", "runs/ab/manifest.json",
    ]  # fmt: skip


def test_what_is_not_there_is_none(objects: Objects) -> None:
    assert objects.get("runs/a") is None
    assert objects.list("runs/a") == {}
    objects.delete(["runs/a"])


def test_a_later_put_replaces_and_is_seen_at_once(objects: Objects) -> None:
    objects.put("runs/a/log", b"1")
    before = objects.list("runs/a")
    objects.put("runs/a/log", b"22")
    assert objects.get("runs/a/log") == b"22"
    assert objects.list("runs/a") != before
    objects.put("runs/a/other", b"")
    assert set(objects.list("runs/a")) == {"runs/a/log", "runs/a/other"}


def test_what_is_deleted_is_gone(objects: Objects) -> None:
    objects.put("runs/a/one", b"1")
    objects.put("runs/a/two", b"2")
    objects.delete(["runs/a/one", "runs/a/none"])
    assert objects.get("runs/a/one") is None
    assert list(objects.list("runs/a")) == ["runs/a/two"]
    objects.delete(objects.list("runs/a"))
    assert objects.list("runs") == {}


def test_a_draft_in_the_folder_is_no_object(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path, ())
    objects.put("runs/a", b"1")
    (tmp_path / "runs" / ".0.tmp").write_bytes(b"cut")
    assert list(objects.list("runs")) == ["runs/a"]


def test_a_store_that_fails_for_a_moment_is_tried_again(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path, (0.0, 0.0))
    failures = [OSError(errno.EIO, "a moment"), OSError(errno.ETIMEDOUT, "another")]
    real = Path.read_bytes
    objects.put("a", b"1")

    def flaky(path: Path) -> bytes:
        if failures:
            raise failures.pop()
        return real(path)

    with mock.patch.object(Path, "read_bytes", flaky):
        assert objects.get("a") == b"1"
    assert not failures


def test_a_full_store_is_not_tried_again_and_says_so(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path, (1000.0,))
    with (
        mock.patch("os.replace", side_effect=OSError(errno.ENOSPC, "No space left on device")),
        pytest.raises(StoreAway, match="No space left"),
    ):
        objects.put("a", b"1")
    assert objects.get("a") is None
    assert not list(tmp_path.iterdir())


def test_a_store_that_stays_away_is_told_with_its_name(tmp_path: Path) -> None:
    with place("s3", tmp_path) as url:
        objects = FsspecObjects(url, ())
    # Its server is gone now.
    with pytest.raises(StoreAway, match=r"s3://.* cannot be used"):
        objects.get("a")


def test_a_bucket_that_is_not_there_is_told_at_the_start(tmp_path: Path) -> None:
    with place("s3", tmp_path), pytest.raises(SettingsError, match="nobucket"):
        objects_at("s3://nobucket/scenes", ())


def test_a_missing_extra_is_named() -> None:
    with (
        mock.patch.dict(sys.modules, {"s3fs": None}),
        # What was imported before is remembered here.
        mock.patch.dict("fsspec.registry._registry", clear=True),
        pytest.raises(SettingsError, match=r"scenewright\[s3\]"),
    ):
        objects_at("s3://bucket/scenes", ())


def test_a_url_of_no_kind_is_refused_without_its_password() -> None:
    with pytest.raises(SettingsError, match="nowhere://host") as raised:
        objects_at("nowhere://me:secret@host/scenes", ())
    assert "secret" not in str(raised.value)
