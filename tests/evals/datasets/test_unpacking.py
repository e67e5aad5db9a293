"""Archives that are not trusted: what they may not do."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from scenewright.evals.datasets import downloads
from scenewright.evals.datasets.downloads import DownloadError, unpack


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def taped(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def here(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_files_come_to_their_places(tmp_path: Path, kind: str) -> None:
    files = {"in/a.json": b"[1]", "in/deep/b.json": b"[2]"}
    if kind == "zip":
        archive = zipped(tmp_path / "x.zip", files)
    else:
        folder = tarfile.TarInfo("in")
        folder.type = tarfile.DIRTYPE
        members = [(tarfile.TarInfo(name), content) for name, content in files.items()]
        archive = taped(tmp_path / "x.tar.gz", [(folder, b""), *members])
    out = tmp_path / "out"
    out.mkdir()
    (out / "in").mkdir()
    (out / "in" / "a.json").write_bytes(b"old")
    moved: list[int] = []
    assert unpack(archive, out, moved.append) == list(files)
    assert here(out) == files
    assert sum(moved) == 6


@pytest.mark.parametrize("name", ["../a", "in/../../a", "/a", "C:/a", "in\\..\\a"])
def test_nothing_lands_outside(tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    archives = [
        zipped(tmp_path / "x.zip", {"good": b"1", name: b"2"}),
        taped(
            tmp_path / "x.tar.gz", [(tarfile.TarInfo("good"), b"1"), (tarfile.TarInfo(name), b"2")]
        ),
    ]
    for archive in archives:
        with pytest.raises(DownloadError, match=r"is refused: .*nothing of it was unpacked"):
            unpack(archive, out)
    assert here(out) == {}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "x.tar.gz", "x.zip"]


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
)
def test_no_links_and_devices(tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("a")
    info.type, info.linkname = kind, "/etc/passwd"
    with pytest.raises(DownloadError, match="is a link or a device"):
        unpack(taped(tmp_path / "x.tar", [(info, b"")]), tmp_path)
    linked = zipfile.ZipInfo("a")
    linked.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(linked, "/etc/passwd")
    with pytest.raises(DownloadError, match="is a link or a device"):
        unpack(tmp_path / "x.zip", tmp_path)
    assert not (tmp_path / "a").exists()


def test_a_bomb_is_not_set_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "ALWAYS_ALLOWED", 1000)
    bomb = zipped(tmp_path / "x.zip", {"a": bytes(10_000_000)})
    assert bomb.stat().st_size < 20_000
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(DownloadError, match="is far more than its own size"):
        unpack(bomb, out)
    assert here(out) == {}
    monkeypatch.setattr(downloads, "MOST_FILES", 3)
    with pytest.raises(DownloadError, match="3 files"):
        unpack(zipped(tmp_path / "y.zip", {str(n): b"" for n in range(5)}), out)


def test_a_file_that_is_larger_than_it_says_is_not_trusted(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "x.zip", {"a": b"0123456789"})
    raw = bytearray(archive.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = raw.index(signature) + offset
        raw[at : at + 4] = (3).to_bytes(4, "little")
    archive.write_bytes(raw)
    with pytest.raises(DownloadError, match=r"larger than the archive says|damaged"):
        unpack(archive, tmp_path)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("name", ["x.zip", "x.tar.gz"])
def test_a_damaged_archive_is_told_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    archive = tmp_path / name
    content = bytes(range(256)) * 100
    if name == "x.zip":
        zipped(archive, {"a": content, "b": content})
    else:
        taped(archive, [(tarfile.TarInfo("a"), content), (tarfile.TarInfo("b"), content)])
    raw = archive.read_bytes()
    out = tmp_path / "out"
    out.mkdir()
    for broken in (raw[: len(raw) // 2], raw[:60] + b"????" + raw[64:], b"nothing"):
        archive.write_bytes(broken)
        with pytest.raises(DownloadError, match=r"is damaged \(.*delete it and fetch it again"):
            unpack(archive, out)
        assert here(out) == {}
